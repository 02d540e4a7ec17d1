use jiff::ToSpan;

use super::*;

const NEW_YORK: &str = "America/New_York";

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn cron(text: &str, zone: &str) -> Cron {
    Cron::parse(text, zone).unwrap_or_else(|error| panic!("{error}"))
}

/// What clocks show when it fires on this date and the next, with the abbreviation of the offset.
fn shown(text: &str, zone: &str, date: &str) -> Vec<String> {
    let rules = jiff::tz::TimeZoneDatabase::bundled().get(zone).unwrap();
    let begin = date.parse::<jiff::civil::Date>().unwrap().to_zoned(rules.clone()).unwrap();
    let end = begin.checked_add(1.day()).unwrap();
    let show =
        |time: Timestamp| time.to_jiff().unwrap().to_zoned(rules.clone()).strftime("%H:%M %Z").to_string();
    let times = cron(text, zone).fire_times(begin.timestamp().into(), end.timestamp().into(), 100);
    times.into_iter().map(show).collect()
}

fn refused(text: &str) -> String {
    let error = Cron::parse(text, "UTC").expect_err(text);
    assert_eq!(error.code(), "invalid_cron", "{text}");
    error.to_string()
}

#[test]
fn a_fixed_time_that_clocks_skip_fires_once_as_late_as_clocks_were_moved() {
    let spring = "2027-03-14";
    assert_eq!(shown("30 1 * * *", NEW_YORK, spring), ["01:30 EST"]);
    assert_eq!(shown("30 2 * * *", NEW_YORK, spring), ["03:30 EDT"]);
    assert_eq!(shown("0 2 * * *", NEW_YORK, spring), ["03:00 EDT"]);
    assert_eq!(shown("30 2,3 * * *", NEW_YORK, spring), ["03:30 EDT"]);
    assert_eq!(shown("0 3 * * *", NEW_YORK, spring), ["03:00 EDT"]);
    // The next day it is back at its own time.
    assert_eq!(shown("30 2 * * *", NEW_YORK, "2027-03-15"), ["02:30 EDT"]);
}

#[test]
fn a_fixed_time_that_comes_twice_fires_the_first_time() {
    let autumn = "2027-11-07";
    assert_eq!(shown("30 1 * * *", NEW_YORK, autumn), ["01:30 EDT"]);
    assert_eq!(shown("0,30 1 * * *", NEW_YORK, autumn), ["01:00 EDT", "01:30 EDT"]);
    assert_eq!(shown("0 2 * * *", NEW_YORK, autumn), ["02:00 EST"]);
    // Asked between the two, it has been.
    let between = time("2027-11-07T06:10:00Z");
    assert_eq!(cron("30 1 * * *", NEW_YORK).next_after(between), Some(time("2027-11-08T06:30:00Z")));
}

#[test]
fn a_change_that_followed_no_rule_is_like_any_other() {
    // Midnight came twice, in the last change before the rule of today.
    let zone = "America/Ciudad_Juarez";
    assert_eq!(
        shown("0,30 0,23 * * *", zone, "2022-11-29"),
        ["00:00 CST", "00:30 CST", "23:00 CST", "23:30 CST"]
    );
    assert_eq!(
        shown("*/30 23 * * *", zone, "2022-11-29"),
        ["23:00 CST", "23:30 CST", "23:00 MST", "23:30 MST"]
    );
}

#[test]
fn an_interval_goes_on_when_clocks_change() {
    let spring = "2027-03-14";
    assert_eq!(
        shown("*/30 1 * * *", NEW_YORK, "2027-11-07"),
        ["01:00 EDT", "01:30 EDT", "01:00 EST", "01:30 EST"]
    );
    assert_eq!(shown("*/30 2 * * *", NEW_YORK, spring), Vec::<String>::new());
    assert_eq!(
        shown("0 0-4/1 * * *", NEW_YORK, spring),
        ["00:00 EST", "01:00 EST", "03:00 EDT", "04:00 EDT"]
    );
    for day in ["2027-03-14T00:00:00Z", "2027-11-07T00:00:00Z"] {
        let hours = cron("@hourly", NEW_YORK).upcoming(time(day), 24);
        assert!(hours.windows(2).all(|pair| pair[1].since(pair[0]).as_secs() == 3600), "{day}: {hours:?}");
    }
}

#[test]
fn a_shift_by_half_an_hour_stretches_one_hour() {
    let hours = cron("@hourly", "Australia/Lord_Howe").upcoming(time("2026-10-03T12:00:00Z"), 6);
    let gaps: Vec<_> = hours.windows(2).map(|pair| pair[1].since(pair[0]).as_secs()).collect();
    assert_eq!(gaps, [3600, 3600, 5400, 3600, 3600]);
}

#[test]
fn skipped_times_and_the_ones_they_fall_among_keep_their_order() {
    // Clocks go from 02:00 to 02:30: 02:20 becomes 02:50, after 02:40.
    assert_eq!(shown("20,40 2 * * *", "Australia/Lord_Howe", "2026-10-04"), ["02:40 +11", "02:50 +11"]);
    // Asked in between, what was skipped is still to come.
    let between = time("2026-10-03T15:45:00Z");
    let next = cron("20,40 2 * * *", "Australia/Lord_Howe").next_after(between);
    assert_eq!(next, Some(time("2026-10-03T15:50:00Z")));
}

#[test]
fn a_day_that_a_zone_left_out_fires_on_the_next() {
    // There was no 30 December 2011 in Samoa.
    let monthly = cron("0 9 30 * *", "Pacific/Apia").upcoming(time("2011-12-01T00:00:00Z"), 2);
    assert_eq!(monthly, [time("2011-12-30T19:00:00Z"), time("2012-01-29T19:00:00Z")]);
    let twice_a_day = cron("0 9,17 * * *", "Pacific/Apia").upcoming(time("2011-12-29T20:00:00Z"), 4);
    let expected =
        ["2011-12-30T03:00:00Z", "2011-12-30T19:00:00Z", "2011-12-31T03:00:00Z", "2011-12-31T19:00:00Z"];
    assert_eq!(twice_a_day, expected.map(time));
}

#[test]
fn seconds_come_first_and_names_are_read_in_any_case() {
    let after = time("2027-01-01T00:00:00Z");
    let next = |text| cron(text, "UTC").next_after(after).unwrap().to_string();
    assert_eq!(next("15 30 9 * * *"), "2027-01-01T09:30:15Z");
    assert_eq!(next("*/20 * * * * *"), "2027-01-01T00:00:20Z");
    assert_eq!(next("0 9 * feb Mon"), "2027-02-01T09:00:00Z");
    assert_eq!(next("0 9 * * FRI-SUN"), "2027-01-01T09:00:00Z");
    assert_eq!(next("0 9 * * 7"), "2027-01-03T09:00:00Z");
    assert_eq!(next("0  9\t* * SUN-TUE "), "2027-01-03T09:00:00Z");
    assert_eq!(cron(" 0  9\t* * * ", "UTC").text(), "0 9 * * *");
}

#[test]
fn nicknames_are_what_they_say() {
    let after = time("2027-01-06T12:30:00Z");
    let next = |text| cron(text, "UTC").next_after(after).unwrap().to_string();
    assert_eq!(next("@hourly"), "2027-01-06T13:00:00Z");
    assert_eq!(next("@daily"), "2027-01-07T00:00:00Z");
    assert_eq!(next("@midnight"), "2027-01-07T00:00:00Z");
    assert_eq!(next("@weekly"), "2027-01-10T00:00:00Z");
    assert_eq!(next("@monthly"), "2027-02-01T00:00:00Z");
    assert_eq!(next("@yearly"), "2028-01-01T00:00:00Z");
    assert_eq!(next("@annually"), "2028-01-01T00:00:00Z");
}

#[test]
fn last_nearest_and_nth_days_are_found() {
    let days = |text, n| {
        let times = cron(text, "UTC").upcoming(time("2027-01-01T12:00:00Z"), n);
        times.into_iter().map(|time| time.to_string()[..10].to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(days("0 0 L * *", 2), ["2027-01-31", "2027-02-28"]);
    assert_eq!(days("0 0 LW * *", 2), ["2027-01-29", "2027-02-26"]);
    assert_eq!(days("0 0 1W,16W * *", 3), ["2027-01-15", "2027-02-01", "2027-02-16"]);
    assert_eq!(days("0 0 * * FRI#2", 2), ["2027-01-08", "2027-02-12"]);
    assert_eq!(days("0 0 * * 7L,SUN#1", 3), ["2027-01-03", "2027-01-31", "2027-02-07"]);
    // Both kinds of day: one is enough.
    assert_eq!(days("0 0 13 * FRI", 3), ["2027-01-08", "2027-01-13", "2027-01-15"]);
}

#[test]
fn what_is_no_expression_is_told_the_field_and_what_is_allowed_there() {
    let cases = [
        ("", "expression: empty, write five"),
        (
            "* * * *",
            "expression: 4 fields given, write five (minute hour day-of-month month day-of-week) or six",
        ),
        ("* * * * * * *", "expression: 7 fields given"),
        ("60 * * * *", "minute: 60 is out of range; values are 0-59"),
        ("60 0 0 * * *", "second: 60 is out of range; values are 0-59"),
        ("0 24 * * *", "hour: 24 is out of range; values are 0-23"),
        ("0 0 0 * *", "day-of-month: 0 is out of range; values are 1-31"),
        ("0 0 32 * *", "day-of-month: 32 is out of range; values are 1-31"),
        ("0 0 * 13 *", "month: 13 is out of range; values are 1-12 and JAN-DEC"),
        ("0 0 * * 8", "day-of-week: 8 is out of range; values are 0-7"),
        ("*/0 * * * *", r#"minute: the step of "*/0" is not in 1-59"#),
        ("*/90 * * * *", r#"minute: the step of "*/90" is not in 1-59"#),
        ("5/10 * * * *", r#"minute: a step needs a range, as in */5 or 5-59/5, and "5/10" has none"#),
        ("5-1 * * * *", "minute: 5-1 goes backwards, write 5-59,0-1"),
        ("0 0 * * SAT-MON", "day-of-week: SAT-MON goes backwards, write 6-7,0-1"),
        ("1,,2 * * * *", "minute: a value is missing"),
        (", * * * *", "minute: a value is missing"),
        ("1- * * * *", "minute: a value is missing"),
        ("1-2-3 * * * *", r#"minute: "2-3" is no value"#),
        ("*-5 * * * *", r#"minute: "*" is no value"#),
        ("0x1 * * * *", r#"minute: "0X1" is no value"#),
        ("+5 * * * *", r#"minute: "+5" is no value"#),
        ("005 * * * *", r#"minute: "005" is no value"#),
        ("-5 * * * *", "minute: a value is missing"),
        ("1.5 * * * *", r#"minute: "1.5" is no value"#),
        ("٣ * * * *", r#"minute: "٣" is no value"#),
        ("0 ３ * * *", r#"hour: "３" is no value"#),
        ("0 0 * * ſUN", "day-of-week: "),
        ("MON * * * *", r#"minute: "MON" is no value"#),
        ("0 0 * * JAN", r#"day-of-week: "JAN" is no value"#),
        ("0 0 * * MONDAY", r#"day-of-week: "MONDAY" is no value"#),
        ("0 0 ? * *", r#"day-of-month: "?" is not known, write *"#),
        ("0 0 1 * +FRI", r#"day-of-week: "+FRI" is no value"#),
        ("L * * * *", r#"minute: "L" is no value"#),
        ("0 0 * L *", r#"month: "L" is no value"#),
        ("0 0 * * L", "day-of-week: a value is missing"),
        ("0 0 L-3 * *", r#"day-of-month: "L" is no value"#),
        ("0 0 L,LW * *", "day-of-month: L and LW do not go together"),
        ("0 0 W * *", "day-of-month: a value is missing"),
        ("0 0 1-5W * *", "day-of-month: "),
        ("0 0 * * FRI#6", r##"day-of-week: "FRI#6" needs 1-5 after the #"##),
        ("0 0 * * FRI#0", "needs 1-5"),
        ("0 0 */2 * MON", "day-of-week: programs disagree"),
        ("0 0 1-7 * */7", "day-of-week: programs disagree"),
        ("0\0 * * * *", r#"minute: "0\0" is no value"#),
        ("@every 0s", "expression: no such name, allowed are @hourly, @daily"),
        ("@reboot", "expression: no such name"),
        ("@Daily", "expression: no such name"),
    ];
    for (text, told) in cases {
        let said = refused(text);
        assert!(said.contains(told), "{text:?}: {said}");
    }
}

#[test]
fn a_text_of_any_length_is_refused_in_few_words() {
    let cases = [&"1,".repeat(5000), &"0".repeat(201), &"ü".repeat(5000), &" ".repeat(201)];
    for text in cases {
        let said = refused(text);
        assert!(said.contains("at most 200 are allowed") && said.len() < 400, "{said}");
    }
    let full = format!("{} * * * *", ["0"; 96].join(","));
    assert!(full.len() <= Cron::LONGEST && Cron::parse(&full, "UTC").is_ok());
}

#[test]
fn what_never_fires_is_refused() {
    for text in ["0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "0 0 30,31 FEB *", "0 0 30W 2 *"] {
        let said = refused(text);
        assert!(said.contains("day-of-month: it never fires in the next 8 years: no month"), "{said}");
    }
    // Twenty-eight years from one to the next.
    let said = refused("0 0 * 2 MON#5");
    assert!(said.contains("it never fires in the next 8 years: such a day can be missing"), "{said}");
    // The hour that clocks in New York skip every year.
    assert!(Cron::parse("*/15 2 * 3 SUN#2", "Europe/Berlin").is_ok());
    let said = Cron::parse("*/15 2 * 3 SUN#2", NEW_YORK).unwrap_err().to_string();
    assert!(said.contains("hour: it never fires in the next 8 years: clocks in America/New_York"), "{said}");
}

#[test]
fn the_29th_of_february_is_worth_waiting_for() {
    let leap = cron("0 0 29 2 *", "UTC").upcoming(time("2088-01-01T00:00:00Z"), 4);
    let days =
        ["2088-02-29T00:00:00Z", "2092-02-29T00:00:00Z", "2096-02-29T00:00:00Z", "2104-02-29T00:00:00Z"];
    assert_eq!(leap, days.map(time));
}

#[test]
fn zones_are_told_by_their_exact_names() {
    for zone in
        ["UTC", "Etc/UTC", "Europe/Berlin", NEW_YORK, "America/Argentina/Ushuaia", "US/Eastern", "Etc/GMT+5"]
    {
        assert_eq!(cron("@daily", zone).zone(), zone);
    }
    let cases: [(&str, &[&str]); 16] = [
        ("", &[]),
        ("Mars/Base", &[]),
        ("../../etc/passwd", &[]),
        ("/etc/localtime", &[]),
        ("Europe/Berlin\0", &["Europe/Berlin"]),
        ("Factory", &["UTC"]),
        ("Etc/Unknown", &[]),
        ("EST5EDT", &["America/New_York"]),
        ("EST", &["America/New_York", "America/Panama"]),
        ("cest", &["Europe/Berlin", "Europe/Paris"]),
        ("utc", &["UTC"]),
        ("america/new_york", &["America/New_York"]),
        ("New York", &["America/New_York"]),
        ("Germany/Berlin", &["Europe/Berlin"]),
        ("Europe/Berln", &["Europe/Berlin"]),
        ("+02:00", &[]),
    ];
    for (zone, expected) in cases {
        let error = Cron::parse("@daily", zone).unwrap_err();
        assert_eq!(error.code(), "unknown_timezone", "{zone}");
        let Error::UnknownTimezone { nearest, .. } = &error else { panic!("{error}") };
        assert_eq!(nearest, expected, "{zone}");
        assert!(error.to_string().contains("write an IANA name such as Europe/Berlin, or UTC"), "{error}");
    }
    let long = Cron::parse("@daily", &"Europe/".repeat(2000)).unwrap_err().to_string();
    assert!(long.len() < 300, "{long}");
}

#[test]
fn every_zone_has_a_name_to_suggest() {
    for zone in jiff::tz::TimeZoneDatabase::bundled().available() {
        match Cron::parse("@daily", zone.as_str()) {
            Ok(cron) => assert_eq!(cron.zone(), zone.as_str()),
            Err(Error::UnknownTimezone { nearest, .. }) => {
                assert!(!zone.as_str().contains('/') && !nearest.is_empty(), "{}", zone.as_str());
                assert!(nearest.iter().all(|name| Cron::parse("@daily", name).is_ok()), "{nearest:?}");
            }
            Err(error) => panic!("{}: {error}", zone.as_str()),
        }
    }
}

#[test]
fn an_expression_is_told_in_english_with_its_zone() {
    let cases = [
        ("30 2 * * *", "At 02:30 (Europe/Berlin)"),
        ("*/15 * * * *", "Every 15 minutes (Europe/Berlin)"),
        ("*/7 * * * *", "At minute 0, 7, 14, 21, 28, 35, 42, 49, and 56 past every hour (Europe/Berlin)"),
        ("0-30/10 * * * *", "At minute 0, 10, 20, and 30 past every hour (Europe/Berlin)"),
        ("0 9 * * MON,FRI", "At 09:00, on Monday and Friday (Europe/Berlin)"),
        ("0 9 1 3-9/3 *", "At 09:00, on day 1, in March, June, and September (Europe/Berlin)"),
        ("0 9 L * *", "At 09:00, on the last day of the month (Europe/Berlin)"),
        ("0 9 LW * *", "At 09:00, on the last day from Monday to Friday of the month (Europe/Berlin)"),
        ("0 9 * * SUNL", "At 09:00, on the last Sunday of the month (Europe/Berlin)"),
        ("0 9 13 * FRI", "At 09:00, on day 13 or Friday (Europe/Berlin)"),
        ("@hourly", "At minute 0 past every hour (Europe/Berlin)"),
    ];
    for (text, english) in cases {
        assert_eq!(cron(text, "Europe/Berlin").describe(), english);
    }
}

#[test]
fn notes_say_what_happens_when_clocks_change() {
    let notes = |text, zone| cron(text, zone).notes(time("2027-01-01T00:00:00Z"));
    assert_eq!(
        notes("30 2 * * *", NEW_YORK),
        ["on 2027-03-14 02:30 does not exist in America/New_York: fires at 03:30"]
    );
    assert_eq!(
        notes("15 30 1 * * *", NEW_YORK),
        ["on 2027-11-07 01:30:15 comes twice in America/New_York: fires the first time only"]
    );
    assert_eq!(
        notes("*/10 * * * *", NEW_YORK),
        [
            "on 2027-03-14 02:00 to 03:00 does not exist in America/New_York: what is due in it is left out",
            "on 2027-11-07 01:00 to 02:00 comes twice in America/New_York: fires in both",
        ]
    );
    assert_eq!(
        notes("0,10,20,30,40 2 * * *", NEW_YORK)[3],
        "on 2027-03-14 the same holds for 2 more in America/New_York"
    );
    for (text, zone) in [("30 12 * * *", NEW_YORK), ("30 2 * * *", "UTC"), ("30 2 * 6 *", NEW_YORK)] {
        assert_eq!(notes(text, zone), Vec::<String>::new(), "{text} {zone}");
    }
    let left_out = cron("0 9 * * *", "Pacific/Apia").notes(time("2011-11-01T00:00:00Z"));
    assert_eq!(left_out, ["on 2011-12-30 09:00 does not exist in Pacific/Apia: fires at 2011-12-31 09:00"]);
}

#[test]
fn fire_times_begin_with_the_first_moment_and_end_before_the_last() {
    let quarters = cron("*/15 * * * *", "UTC");
    let (from, to) = (time("2027-01-01T10:00:00Z"), time("2027-01-01T11:00:00Z"));
    let times = quarters.fire_times(from, to, 100);
    assert_eq!((times.len(), times[0]), (4, from));
    assert_eq!(quarters.fire_times(from, to, 3), times[..3]);
    assert_eq!(quarters.fire_times(time("2027-01-01T10:00:00.000001Z"), to, 100), times[1..]);
    assert_eq!(quarters.fire_times(to, from, 100), []);
    assert_eq!(quarters.next_after(from), Some(times[1]));
    assert_eq!(quarters.next_after(time("2027-01-01T10:14:59.999999Z")), Some(times[1]));
}

#[test]
fn the_calendar_has_an_end() {
    let daily = cron("0 12 * * *", NEW_YORK);
    assert_eq!(daily.next_after(Timestamp::MAX), None);
    assert_eq!(daily.iter_after(time("9999-12-25T00:00:00Z")).count(), 6);
    assert_eq!(cron("0 0 29 2 *", "Asia/Tokyo").next_after(time("9996-03-01T00:00:00Z")), None);
    assert_eq!(daily.next_after(Timestamp::default()), Some(time("1970-01-01T17:00:00Z")));
    assert_eq!(daily.notes(Timestamp::MAX), Vec::<String>::new());
}

#[test]
fn it_is_kept_as_its_text_and_its_zone() {
    let kept = cron("0 9 * * FRI#2", NEW_YORK);
    let json = serde_json::to_string(&kept).unwrap();
    assert_eq!(json, r#"{"text":"0 9 * * FRI#2","zone":"America/New_York"}"#);
    assert_eq!(serde_json::from_str::<Cron>(&json).unwrap(), kept);
    let wrong = serde_json::from_str::<Cron>(r#"{"text":"0 9 * * *","zone":"Mars/Base"}"#).unwrap_err();
    assert!(wrong.to_string().contains("unknown time zone \"Mars/Base\""), "{wrong}");
}

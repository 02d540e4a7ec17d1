//! Cron expressions beside the plainest reading of them, in all zones and over all changes of their clocks.

mod plain;

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use jiff::civil::Date;
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp, ToSpan};
use outlast_core::Cron;
use proptest::collection::vec;
use proptest::prelude::*;

use self::plain::{Expression, Item};

const YEARS: std::ops::Range<i16> = 2000..2041;

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_expression_fires_when_its_plainest_reading_says(
        expression in expressions(), (zone, after) in moments(),
    ) {
        let rules = rules(&zone);
        let cron = match Cron::parse(&expression.to_string(), &zone) {
            Ok(cron) => cron,
            Err(error) => {
                prop_assert!(error.to_string().contains("never fires"), "{error}");
                return Ok(());
            }
        };
        let times: Vec<Timestamp> = cron.iter_after(after.into()).take(8).map(moment).collect();
        prop_assert_eq!(times.len(), 8);
        prop_assert!(times[0] > after && times.is_sorted_by(|a, b| a < b), "{:?}", times);
        // Those that come rarely take the plain reading long: the first two of them will do.
        let checked = if times[7].duration_since(after) < SignedDuration::from_hours(24 * 400) { 8 } else { 2 };
        prop_assert_eq!(&times[..checked], &expression.plainly(&rules, after, times[checked - 1])[..]);
        for time in times {
            let shown = rules.to_datetime(time);
            let skipped = || expression.is_fixed() && expression.skipped(&rules, time);
            prop_assert!(expression.means(shown) || skipped(), "{} shows {}", time, shown);
        }
    }

    #[test]
    fn a_moment_asked_alone_gives_what_a_walk_to_it_gives(expression in expressions(), (zone, after) in moments()) {
        let Ok(cron) = Cron::parse(&expression.to_string(), &zone) else { return Ok(()) };
        let walk = cron.upcoming(after.into(), 20);
        for pair in walk.windows(2) {
            let between = (pair[0].micros() + pair[1].micros()) / 2;
            prop_assert_eq!(cron.next_after(outlast_core::Timestamp::from_micros(between)), Some(pair[1]));
            prop_assert_eq!(cron.next_after(pair[0]), Some(pair[1]));
        }
        let end = walk[19];
        prop_assert_eq!(&cron.fire_times(walk[0], end, 100)[..], &walk[..19]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_it_panic_and_what_is_accepted_is_read_again(text in texts(), zone in "\\PC{0,20}") {
        if let Ok(cron) = Cron::parse(&text, "Europe/Berlin") {
            prop_assert_eq!(&Cron::parse(cron.text(), cron.zone()).unwrap(), &cron);
            prop_assert!(cron.next_after(Timestamp::UNIX_EPOCH.into()).is_some());
            cron.describe();
        }
        let _ = Cron::parse("@daily", &zone);
    }
}

#[test]
fn a_fixed_time_fires_exactly_once_on_every_date_whatever_clocks_do() {
    let expressions = ["0,20,45 0-5,21-23 * * *", "0,30 0,1,2,3,23 * * *", "15 0-23 * * *", "59 30 2 * * *"];
    let expressions = expressions.map(Expression::read);
    let mut crons = HashMap::new();
    for (nth, change) in changes().iter().enumerate() {
        let expression = &expressions[nth % expressions.len()];
        let key = (expression.to_string(), change.zone.clone());
        let cron = crons.entry(key).or_insert_with_key(|(text, zone)| Cron::parse(text, zone).unwrap());
        let (from, to) = change.around();
        let fired: Vec<_> = cron.fire_times(from.into(), to.into(), 1000).into_iter().map(moment).collect();
        assert_eq!(
            fired,
            expression.plainly(&change.rules, from - 1.second(), to - 1.second()),
            "{change:?}"
        );
        assert!(fired.is_sorted_by(|a, b| a < b), "{change:?}");

        for time in [-1, 0, 1].into_iter().flat_map(|days| expression.on(change.date(days))) {
            let ambiguous = change.rules.to_ambiguous_timestamp(time);
            let meant = ambiguous.compatible().unwrap();
            assert!(fired.contains(&meant) || meant < from || meant >= to, "{time} is missing: {change:?}");
            if matches!(ambiguous.offset(), AmbiguousOffset::Fold { .. }) {
                assert!(!fired.contains(&ambiguous.later().unwrap()), "{time} fired twice: {change:?}");
            }
        }
    }
}

#[test]
fn an_interval_fires_whenever_clocks_show_it_and_never_too_close() {
    let expressions =
        [("*/15 * * * *", 900), ("0 * * * *", 3600), ("*/30 0-5 * * *", 1800), ("0 */20 * * * *", 1200)];
    let expressions = expressions.map(|(text, period)| (Expression::read(text), period));
    let mut crons = HashMap::new();
    for (nth, change) in changes().iter().enumerate() {
        let (expression, period) = &expressions[nth % expressions.len()];
        let key = (expression.to_string(), change.zone.clone());
        let cron = crons.entry(key).or_insert_with_key(|(text, zone)| Cron::parse(text, zone).unwrap());
        let (from, to) = change.around();
        let fired: Vec<_> = cron.fire_times(from.into(), to.into(), 1000).into_iter().map(moment).collect();
        assert_eq!(
            fired,
            expression.plainly(&change.rules, from - 1.second(), to - 1.second()),
            "{change:?}"
        );
        for pair in fired.windows(2) {
            let apart = pair[1].duration_since(pair[0]).as_secs();
            // A shift that is no multiple of the period cannot but move the beat.
            let moved = pair[0] < change.at && change.at <= pair[1] && change.shift % period != 0;
            assert!(apart >= *period || moved, "{apart} s at {} {change:?}", pair[1]);
        }
    }
}

#[test]
fn a_day_is_accepted_exactly_if_it_comes_within_8_years() {
    let accepted = |text: String| match Cron::parse(&text, "UTC") {
        Ok(_) => true,
        Err(error) => !error.to_string().contains("it never fires in the next 8 years"),
    };
    for month in 1..=12i8 {
        let longest = Date::constant(2024, month, 1).days_in_month();
        for day in 1..=31 {
            assert_eq!(accepted(format!("0 0 {day} {month} *")), day <= longest, "{day} {month}");
        }
        for nth in 1..=5 {
            assert_eq!(accepted(format!("0 0 * {month} MON#{nth}")), nth < 5 || month != 2, "{nth} {month}");
        }
        assert!(accepted(format!("0 0 31 {month} MON")) && accepted(format!("0 0 L {month} *")));
    }
}

/// A change of a zone's clocks.
struct Change {
    zone: String,
    rules: TimeZone,
    at: Timestamp,
    /// By how many seconds clocks went forward.
    shift: i64,
}

impl Change {
    /// A while before it, and when all that it moved is over.
    fn around(&self) -> (Timestamp, Timestamp) {
        let wide = SignedDuration::from_secs(self.shift.abs() + 3 * 3600);
        (self.at - wide, self.at + wide)
    }

    fn date(&self, days: i64) -> Date {
        self.rules.to_datetime(self.at).date().checked_add(days.days()).unwrap()
    }
}

impl fmt::Debug for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {} by {} s", self.zone, self.at, self.shift)
    }
}

/// All changes of all zones; each once, where zones have it in common.
fn changes() -> Vec<Change> {
    let begin: Timestamp = format!("{}-01-01T00:00:00Z", YEARS.start).parse().unwrap();
    let mut known = BTreeSet::new();
    let mut changes = Vec::new();
    for zone in zones() {
        let rules = rules(&zone);
        for change in
            rules.following(begin).take_while(|change| change.timestamp().to_string()[..4] < *"2041")
        {
            let at = change.timestamp();
            let before = rules.to_offset(at - 1.second()).seconds();
            let shift = i64::from(change.offset().seconds() - before);
            if shift != 0 && known.insert((at, before, shift)) {
                changes.push(Change { zone: zone.clone(), rules: rules.clone(), at, shift });
            }
        }
    }
    assert!(changes.len() > 1000, "{}", changes.len());
    changes
}

fn zones() -> Vec<String> {
    let names = TimeZoneDatabase::bundled();
    let full = names.available().map(|zone| zone.to_string()).filter(|zone| zone.contains('/'));
    full.collect()
}

fn rules(zone: &str) -> TimeZone {
    TimeZoneDatabase::bundled().get(zone).unwrap()
}

fn moment(time: outlast_core::Timestamp) -> Timestamp {
    Timestamp::from_microsecond(time.micros()).unwrap()
}

/// Lists of values, ranges and steps from `low` to `high`.
fn lists(low: i8, high: i8) -> impl Strategy<Value = Vec<Item>> + Clone {
    let range = (low..=high, low..=high).prop_map(|(a, b)| (a.min(b), a.max(b)));
    let item = prop_oneof![
        6 => (low..=high).prop_map(Item::One),
        2 => range.clone().prop_map(|(low, high)| Item::Range(low, high)),
        1 => (1..=high).prop_map(Item::Step),
        1 => (range, 1..=high).prop_map(|((low, high), step)| Item::RangeStep(low, high, step)),
    ];
    prop_oneof![1 => Just(vec![Item::All]), 3 => vec(item, 1..4)]
}

fn expressions() -> impl Strategy<Value = Expression> {
    let one = |low: i8, high: i8| (low..=high).prop_map(|one| vec![Item::One(one)]);
    let seconds =
        prop_oneof![6 => Just(vec![Item::One(0)]), 1 => one(0, 59), 1 => Just(vec![Item::Step(30)])];
    let hours = prop_oneof![1 => lists(0, 23), 1 => vec((0..5i8).prop_map(Item::One), 1..3)];
    let months = prop_oneof![3 => Just(vec![Item::All]), 1 => lists(1, 12)];
    let marked_day = prop_oneof![
        Just(Item::LastDay),
        Just(Item::LastWorkingDay),
        (1..=31i8).prop_map(Item::Nearest),
        (1..=31i8).prop_map(Item::One),
    ];
    let marked_weekday = prop_oneof![
        (0..=7i8, 1..=5i8).prop_map(|(day, nth)| Item::Nth(day, nth)),
        (0..=7i8).prop_map(Item::Last),
        (0..=7i8).prop_map(Item::One),
    ];
    let days = prop_oneof![
        3 => Just((vec![Item::All], vec![Item::All])),
        2 => lists(1, 31).prop_map(|days| (days, vec![Item::All])),
        2 => lists(0, 7).prop_map(|weekdays| (vec![Item::All], weekdays)),
        2 => vec(marked_day.clone(), 1..3).prop_map(|days| (days, vec![Item::All])),
        2 => vec(marked_weekday.clone(), 1..3).prop_map(|weekdays| (vec![Item::All], weekdays)),
        1 => (vec(marked_day, 1..3), vec(marked_weekday, 1..3)),
    ];
    let days = days.prop_filter("L and LW do not go together", |(days, _)| {
        let has = |text: &str| days.iter().any(|day| day.to_string() == text);
        !has("L") || !has("LW")
    });
    (seconds, lists(0, 59), hours, days, months).prop_map(|(second, minute, hour, (day, weekday), month)| {
        Expression { second, minute, hour, day, month, weekday }
    })
}

/// A zone and a moment in it: half of them near a change of its clocks.
fn moments() -> impl Strategy<Value = (String, Timestamp)> {
    let begin = Date::constant(YEARS.start, 1, 1).to_zoned(TimeZone::UTC).unwrap().timestamp().as_second();
    let end = Date::constant(YEARS.end, 1, 1).to_zoned(TimeZone::UTC).unwrap().timestamp().as_second();
    let spread = -30 * 3600..30 * 3600i64;
    (0..zones().len(), begin..end, any::<bool>(), spread, 0..1_000_000i64).prop_map(
        |(zone, second, near, off, micros)| {
            let zone = zones().swap_remove(zone);
            let time = Timestamp::from_second(second).unwrap();
            let change = rules(&zone).following(time).next().map(|change| change.timestamp());
            let time = match change {
                Some(change) if near => change + SignedDuration::from_secs(off),
                _ => time,
            };
            (zone, time + SignedDuration::from_micros(micros))
        },
    )
}

/// Anything, and what is nearly an expression.
fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        "\\PC{0,40}",
        "[-0-9*/,LW#@? ]{0,30}",
        vec("[0-9*L#W]{1,2}[-/,]?[0-9A-Z]{0,3}", 4..8).prop_map(|fields| fields.join(" ")),
        expressions().prop_map(|expression| expression.to_string()),
    ]
}

//! Time zones by name, from the database that is part of the program.
//!
//! Never from the machine's: two nodes with different files would disagree on when a schedule is due. A name means
//! the same everywhere, so it has to be the exact one; the old short names and abbreviations are refused, because
//! `EST` is not what New York has in summer and `IST` is three different zones.

use jiff::tz::{TimeZone, TimeZoneDatabase};

use crate::{Error, distance, shorten};

/// The longest name for which suggestions are looked for.
const LONGEST: usize = 64;

/// The zone of this name, if it is one of an area and a place, or `UTC`.
pub(super) fn find(name: &str) -> Result<TimeZone, Error> {
    let zones = TimeZoneDatabase::bundled();
    match zones.get(name) {
        Ok(zone) if zone.iana_name() == Some(name) && is_full(name) => Ok(zone),
        _ => Err(Error::UnknownTimezone { zone: shorten(name, 80), nearest: nearest(name, &zones) }),
    }
}

fn is_full(name: &str) -> bool {
    name.contains('/') || name == "UTC"
}

/// Names that were perhaps meant: by the old name, else those that look most alike.
fn nearest(name: &str, zones: &TimeZoneDatabase) -> Vec<String> {
    if name.len() > LONGEST {
        return Vec::new();
    }
    if let Some((_, meant)) = OLD_NAMES.iter().find(|(old, _)| old.eq_ignore_ascii_case(name)) {
        return meant.iter().map(|&meant| meant.to_owned()).collect();
    }
    let name = name.to_ascii_lowercase().replace(' ', "_");
    let place = |name: &str| name.rsplit('/').next().unwrap_or_default().to_owned();
    let unlike = |known: &str| {
        let known = known.to_ascii_lowercase();
        // `Berlin` and `Germany/Berlin` name a place that there is.
        if place(&known) == place(&name) { usize::from(known != name) } else { distance(&known, &name) }
    };
    let known = zones.available().map(|zone| zone.as_str().to_owned()).filter(|zone| is_full(zone));
    let mut alike: Vec<(usize, String)> = known.map(|known| (unlike(&known), known)).collect();
    alike.retain(|(unlike, _)| *unlike <= (name.len() / 4).max(1));
    alike.sort();
    let enough = alike.first().map_or(0, |(best, _)| best + 1);
    alike.into_iter().take(3).filter(|(unlike, _)| *unlike <= enough).map(|(_, known)| known).collect()
}

/// What the database has without an area, and abbreviations that people write; with what they are likely to mean.
const OLD_NAMES: &[(&str, &[&str])] = &[
    ("AEST", &["Australia/Sydney", "Australia/Brisbane"]),
    ("BST", &["Europe/London"]),
    ("CDT", &["America/Chicago"]),
    ("CEST", &["Europe/Berlin", "Europe/Paris"]),
    ("CET", &["Europe/Berlin", "Europe/Paris"]),
    ("CST", &["America/Chicago", "Asia/Shanghai"]),
    ("CST6CDT", &["America/Chicago"]),
    ("Cuba", &["America/Havana"]),
    ("EDT", &["America/New_York"]),
    ("EET", &["Europe/Athens", "Europe/Helsinki"]),
    ("Egypt", &["Africa/Cairo"]),
    ("Eire", &["Europe/Dublin"]),
    ("EST", &["America/New_York", "America/Panama"]),
    ("EST5EDT", &["America/New_York"]),
    ("Factory", &["UTC"]),
    ("GB", &["Europe/London"]),
    ("GB-Eire", &["Europe/London"]),
    ("GMT", &["UTC", "Europe/London"]),
    ("GMT+0", &["UTC"]),
    ("GMT-0", &["UTC"]),
    ("GMT0", &["UTC"]),
    ("Greenwich", &["UTC"]),
    ("Hongkong", &["Asia/Hong_Kong"]),
    ("HST", &["Pacific/Honolulu"]),
    ("Iceland", &["Atlantic/Reykjavik"]),
    ("Iran", &["Asia/Tehran"]),
    ("Israel", &["Asia/Jerusalem"]),
    ("IST", &["Asia/Kolkata", "Europe/Dublin", "Asia/Jerusalem"]),
    ("Jamaica", &["America/Jamaica"]),
    ("Japan", &["Asia/Tokyo"]),
    ("JST", &["Asia/Tokyo"]),
    ("KST", &["Asia/Seoul"]),
    ("Kwajalein", &["Pacific/Kwajalein"]),
    ("Libya", &["Africa/Tripoli"]),
    ("MDT", &["America/Denver"]),
    ("MET", &["Europe/Berlin", "Europe/Paris"]),
    ("MST", &["America/Denver", "America/Phoenix"]),
    ("MST7MDT", &["America/Denver"]),
    ("Navajo", &["America/Denver"]),
    ("NZ", &["Pacific/Auckland"]),
    ("NZ-CHAT", &["Pacific/Chatham"]),
    ("PDT", &["America/Los_Angeles"]),
    ("Poland", &["Europe/Warsaw"]),
    ("Portugal", &["Europe/Lisbon"]),
    ("PRC", &["Asia/Shanghai"]),
    ("PST", &["America/Los_Angeles"]),
    ("PST8PDT", &["America/Los_Angeles"]),
    ("ROC", &["Asia/Taipei"]),
    ("ROK", &["Asia/Seoul"]),
    ("Singapore", &["Asia/Singapore"]),
    ("Turkey", &["Europe/Istanbul"]),
    ("UCT", &["UTC"]),
    ("Universal", &["UTC"]),
    ("utc", &["UTC"]),
    ("W-SU", &["Europe/Moscow"]),
    ("WET", &["Europe/Lisbon"]),
    ("Z", &["UTC"]),
    ("Zulu", &["UTC"]),
];

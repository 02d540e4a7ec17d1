//! What a person should know about the days on which clocks change.

use jiff::civil::DateTime;
use jiff::tz::Offset;
use jiff::{SignedDuration, ToSpan};

use super::Parsed;
use crate::Timestamp;

/// How far ahead to look.
const YEAR: SignedDuration = SignedDuration::from_hours(366 * 24);

/// The most times of one change that are named one by one.
const MOST: usize = 3;

pub(super) fn of(cron: &Parsed, after: Timestamp) -> Vec<String> {
    let Some(after) = after.to_jiff() else { return Vec::new() };
    let Ok(end) = after.checked_add(YEAR) else { return Vec::new() };
    let changes = cron.rules.following(after).take_while(|change| change.timestamp() <= end);
    changes.flat_map(|change| of_change(cron, change.timestamp(), change.offset())).collect()
}

/// What becomes of the times that are skipped, or come twice, when clocks change to `new` at this moment.
fn of_change(cron: &Parsed, at: jiff::Timestamp, new: Offset) -> Vec<String> {
    let Ok(before) = at.checked_sub(1.second()) else { return Vec::new() };
    let (left, reached) = (cron.rules.to_offset(before).to_datetime(at), new.to_datetime(at));
    let (from, to) = (left.min(reached), left.max(reached));
    let first = cron.civil.first_from(from);
    let next = |last: &DateTime| cron.civil.first_from(last.checked_add(1.second()).ok()?);
    let due = std::iter::successors(first, next).take_while(|time| *time < to);

    let (zone, day) = (&cron.zone, from.date());
    if !cron.fixed {
        let (what, end) = (format!("on {day} {}", clock(from)), shown(to, from));
        let note = match reached > left {
            true => format!("{what} to {end} does not exist in {zone}: what is due in it is left out"),
            false => format!("{what} to {end} comes twice in {zone}: fires in both"),
        };
        return due.take(1).map(|_| note.clone()).collect();
    }
    let late = to.duration_since(from);
    let note = |time: DateTime| match reached > left {
        true => {
            let instead = time.checked_add(late).map_or_else(|_| String::new(), |later| shown(later, time));
            format!("on {} {} does not exist in {zone}: fires at {instead}", time.date(), clock(time))
        }
        false => {
            format!("on {} {} comes twice in {zone}: fires the first time only", time.date(), clock(time))
        }
    };
    let mut notes: Vec<String> = due.clone().take(MOST).map(note).collect();
    match due.skip(MOST).count() {
        0 => {}
        more => notes.push(format!("on {day} the same holds for {more} more in {zone}")),
    }
    notes
}

/// A time of the day, with seconds if there are any.
fn clock(time: DateTime) -> String {
    let format = if time.second() == 0 { "%H:%M" } else { "%H:%M:%S" };
    time.strftime(format).to_string()
}

/// A time beside another: with its date if that is another one.
fn shown(time: DateTime, beside: DateTime) -> String {
    match time.date() == beside.date() {
        true => clock(time),
        false => format!("{} {}", time.date(), clock(time)),
    }
}

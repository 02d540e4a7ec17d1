//! What a rate has used: how many began, slice by slice.
//!
//! Sliding and exact on the safe side: a slice counts until the last that began in it has left the span, so that no
//! span of the rate's length ever sees more than it allows; what is lost by this is less than a slice's share. A slice
//! counts a little longer than that, since whoever is let go begins a moment after it was decided: what comes next would
//! otherwise be early by that moment.
//!
//! Slices are kept by their time, whatever rate they were cut for: what began under one rate counts under the next,
//! and never for longer than the span of that. What a shorter span has forgotten, a longer one does not bring back.

use std::collections::VecDeque;
use std::fmt::Write;

use super::Rate;
use crate::Timestamp;

/// Into how many slices a span is cut.
const SLICES: i64 = 50;

/// The longest that is allowed for between the decision to let somebody go and its begin, in microseconds.
const LATE: i64 = 100_000;

/// How many began lately.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Window {
    /// When the last of each slice began, in microseconds, and how many did; oldest first.
    slices: VecDeque<(i64, u32)>,
}

impl Window {
    /// Reads what [`Window::to_text`] wrote; what nobody can read counts as unused.
    pub fn parse(text: &str) -> Window {
        let slice = |part: &str| {
            let (last, count) = part.split_once(':')?;
            Some((last.parse().ok()?, count.parse().ok()?))
        };
        Window { slices: text.split(',').filter_map(slice).collect() }
    }

    /// As text.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for (last, count) in &self.slices {
            let comma = if text.is_empty() { "" } else { "," };
            let _ = write!(text, "{comma}{last}:{count}");
        }
        text
    }

    /// How many more may begin now.
    pub fn free(&mut self, rate: Rate, now: Timestamp) -> u32 {
        self.forget(rate, now);
        let used = self.slices.iter().fold(0_u32, |used, (_, count)| used.saturating_add(*count));
        rate.count.saturating_sub(used)
    }

    /// When more may begin than now.
    pub fn freer_at(&self, rate: Rate) -> Option<Timestamp> {
        self.slices.front().map(|(last, _)| gone_at(*last, rate))
    }

    /// From when on nothing counts any more; `None` when nothing does.
    pub fn unused_from(&self, rate: Rate) -> Option<Timestamp> {
        self.slices.back().map(|(last, _)| gone_at(*last, rate))
    }

    /// Notes that so many begin now.
    pub fn take(&mut self, rate: Rate, now: Timestamp, count: u32) {
        if count == 0 {
            return;
        }
        let slice = |micros: i64| micros.div_euclid(width(rate));
        match self.slices.back_mut() {
            // A clock that went back puts them into the last slice: they count for longer, never for less.
            Some((last, began)) if slice(*last) >= slice(now.micros()) => {
                *last = now.micros().max(*last);
                *began = began.saturating_add(count);
            }
            _ => self.slices.push_back((now.micros(), count)),
        }
    }

    /// Whether nothing counts any more.
    pub fn is_unused(&mut self, rate: Rate, now: Timestamp) -> bool {
        self.forget(rate, now);
        self.slices.is_empty()
    }

    fn forget(&mut self, rate: Rate, now: Timestamp) {
        while self.slices.front().is_some_and(|(last, _)| gone_at(*last, rate) <= now) {
            self.slices.pop_front();
        }
    }
}

/// How long a slice is, in microseconds.
fn width(rate: Rate) -> i64 {
    (span(rate) / SLICES).max(1)
}

fn span(rate: Rate) -> i64 {
    i64::try_from(rate.per.as_micros()).unwrap_or(i64::MAX / 4)
}

/// When everything of a slice has left the span.
fn gone_at(last: i64, rate: Rate) -> Timestamp {
    Timestamp::from_micros(last.saturating_add(span(rate)).saturating_add(late(rate)))
}

/// How long after the decision it may begin, in microseconds.
fn late(rate: Rate) -> i64 {
    (span(rate) / SLICES).min(LATE)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    /// Takes whatever is free at random moments, and says when each began.
    fn taken(rate: Rate, seed: u64, moments: usize) -> Vec<i64> {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut window, mut now, mut began) = (Window::default(), 1_000_000_i64, Vec::new());
        for _ in 0..moments {
            now += random.i64(0..span(rate) / 3);
            // As the database keeps it.
            window = Window::parse(&window.to_text());
            let count = window.free(rate, at(now)).min(random.u32(0..=rate.count));
            window.take(rate, at(now), count);
            began.extend(std::iter::repeat_n(now, count as usize));
        }
        began
    }

    #[test]
    fn no_span_of_its_length_ever_sees_more_than_the_rate() {
        for seed in 0..200 {
            let rate = Rate::new(1 + (seed as u32 % 17), Duration::from_micros(700 + seed * 997));
            let began = taken(rate, seed, 300);
            for (first, start) in began.iter().enumerate() {
                // The first begin as late as they may, and the others at once.
                let end = start + late(rate) + span(rate);
                let within = began[first..].iter().take_while(|time| **time < end).count();
                assert!(
                    within <= rate.count as usize,
                    "seed {seed}: {within} of {} within a span",
                    rate.count
                );
            }
        }
    }

    #[test]
    fn a_rate_that_is_changed_holds_for_what_began_before_and_stops_nothing_for_longer_than_its_span() {
        for seed in 0..300 {
            let mut random = fastrand::Rng::with_seed(seed);
            let spans = [700, 1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000_u64];
            let (mut window, mut now, mut began) = (Window::default(), 1_700_000_000_000_000_i64, Vec::new());
            let mut known_from = now;
            let mut rate = Rate::new(1, Duration::from_secs(1));
            for _ in 0..8 {
                let before = span(rate);
                rate =
                    Rate::new(random.u32(1..20), Duration::from_micros(spans[random.usize(..spans.len())]));
                // What the rate before had forgotten is not known any more.
                if span(rate) > before {
                    known_from = known_from.max(now - before);
                }
                assert!(
                    window.clone().free(rate, at(now + span(rate) + late(rate))) == rate.count,
                    "seed {seed}: it stalls"
                );
                for _ in 0..random.usize(0..40) {
                    now += random.i64(0..span(rate) / 3);
                    window = Window::parse(&window.to_text());
                    let free = window.free(rate, at(now));
                    let count = random.u32(0..=free);
                    window.take(rate, at(now), count);
                    began.extend(std::iter::repeat_n(now, count as usize));
                    let within =
                        began.iter().filter(|time| **time > (now - span(rate)).max(known_from)).count();
                    assert!(count == 0 || within <= rate.count as usize, "seed {seed}: {within} in a span");
                    assert!(window.slices.len() <= 300, "seed {seed}: {} slices", window.slices.len());
                }
            }
        }
    }

    #[test]
    fn what_a_rate_allows_is_used_but_for_a_slice() {
        let rate = Rate::new(10, Duration::from_secs(1));
        let (mut window, mut began) = (Window::default(), 0);
        for now in (0..100_000_000).step_by(1_000) {
            let free = window.free(rate, at(now));
            window.take(rate, at(now), free);
            began += free;
        }
        assert!((975..=1000).contains(&began), "{began} in 100 s");
    }

    #[test]
    fn it_says_when_more_may_begin() {
        let rate = Rate::new(2, Duration::from_secs(1));
        let mut window = Window::default();
        assert_eq!(window.freer_at(rate), None);
        window.take(rate, at(5_000_000), 2);
        assert_eq!(window.free(rate, at(5_900_000)), 0);
        let freer = window.freer_at(rate).unwrap();
        assert!(freer >= at(6_000_000) && freer <= at(6_020_000), "{freer:?}");
        assert_eq!(window.free(rate, freer), 2);
        assert!(window.is_unused(rate, freer));
    }

    #[test]
    fn a_clock_that_goes_back_frees_nothing_early() {
        let rate = Rate::new(1, Duration::from_secs(1));
        let mut window = Window::default();
        window.take(rate, at(10_000_000), 1);
        window.take(rate, at(9_000_000), 1);
        assert_eq!(window.free(rate, at(10_500_000)), 0);
        assert_eq!(Window::parse("nonsense,3:x,"), Window::default());
    }
}

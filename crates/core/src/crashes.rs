//! What the death of a process says about the runs that it held: little, until one of them was alone.
//!
//! Nobody can tell which run took a process down, or whether somebody killed it. So a death that may be another
//! run's doing only narrows the search: a run that has seen [`SUSPECT`] of them is a suspect, and the more it has
//! seen, the fewer suspects run beside it, down to none. Only what happens then counts against it.

use std::time::Duration;

/// A run that so many processes died with is a suspect.
pub const SUSPECT: u32 = 2;
/// A run that so many processes died with runs with no other suspect beside it.
pub const ALONE: u32 = 4;
/// How many places a node has for suspects.
pub const PLACES: u32 = 16;
/// How long a new suspect waits before it runs again, and how long one waits at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(10));

/// How a run was held when its process died.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// It had recorded something since it was claimed: whatever happened, it goes on.
    WentOn,
    /// Others were there who may have done it, or it had not begun yet.
    AmongOthers,
    /// It ran, and no other suspect did.
    Alone,
}

/// The crashes of a run after one more process died with it.
pub fn after_death(crashes: u32, held: Held) -> u32 {
    match held {
        Held::WentOn => 1,
        Held::AmongOthers if crashes >= ALONE => crashes,
        Held::AmongOthers | Held::Alone => crashes.saturating_add(1),
    }
}

/// How long a run waits after the death of its process: the longer, the more died with it. Whoever is near poison
/// has time to get on, and processes that are killed in a hurry meet the run less and less often.
pub fn pause(crashes: u32) -> Duration {
    match crashes.checked_sub(SUSPECT) {
        None => Duration::ZERO,
        Some(more) => PAUSE.0.saturating_mul(2_u32.saturating_pow(more)).min(PAUSE.1),
    }
}

/// How many of a node's [`PLACES`] a suspect takes: a crowd of innocents is through soon, poison ends up alone.
pub fn places(crashes: u32) -> u32 {
    4_u32.saturating_pow(crashes.saturating_sub(SUSPECT)).min(PLACES)
}

/// Whether a run is poison: so many processes died with it when it was alone.
pub fn is_poison(crashes: u32, alone: u32) -> bool {
    crashes >= ALONE.saturating_add(alone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deaths_among_others_never_make_poison() {
        let crashes = (0..100).fold(0, |crashes, _| after_death(crashes, Held::AmongOthers));
        assert!(places(crashes) == PLACES && !is_poison(crashes, 1));
    }

    #[test]
    fn deaths_alone_do_however_many_came_between() {
        let mut crashes = ALONE;
        for n in 0..5 {
            assert!(!is_poison(crashes, 5), "after {n}");
            crashes = after_death(crashes, Held::Alone);
            crashes = after_death(crashes, Held::AmongOthers);
        }
        assert!(is_poison(crashes, 5));
    }

    #[test]
    fn whoever_goes_on_is_no_suspect() {
        assert!(after_death(8, Held::WentOn) < SUSPECT);
    }

    #[test]
    fn a_suspect_gets_its_places_for_itself_when_it_shall_be_alone_and_not_before() {
        assert_eq!([2, 3, 4, 5, u32::MAX].map(places), [1, 4, 16, 16, 16]);
        assert!(places(ALONE - 1) < PLACES && places(ALONE) == PLACES);
    }

    #[test]
    fn pauses_begin_with_suspicion_double_and_have_an_end() {
        let millis = |crashes| pause(crashes).as_millis();
        assert_eq!([0, 1, 2, 3, 6, 7, u32::MAX].map(millis), [0, 0, 500, 1000, 8000, 10_000, 10_000]);
    }
}

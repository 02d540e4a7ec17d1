//! The simulator, briefly: some schedules, and that a seed is a history.

use std::fs;
use std::path::{Path, PathBuf};

use outlast_sim::{Script, Tally, Theatre, Watch};

#[test]
fn the_same_seed_gives_the_same_history_bit_for_bit() {
    let (one, two) = (Theatre::open().unwrap(), Theatre::open().unwrap());
    for seed in [1, 2, 3, 5] {
        let first = one.play(seed, Watch::History).history;
        // Another has played before, and in another place: nothing of that may show.
        two.play(seed + 1000, Watch::Nothing);
        let second = two.play(seed, Watch::History).history;
        let differs = first.lines().zip(second.lines()).position(|(one, two)| one != two);
        if let Some(line) = differs {
            let around =
                |text: &str| text.lines().skip(line.saturating_sub(3)).take(5).collect::<Vec<_>>().join("\n");
            panic!("seed {seed} differs at line {line}:\n{}\n---\n{}", around(&first), around(&second));
        }
        assert_eq!(first.len(), second.len(), "seed {seed}: one history is longer");
    }
}

/// What seeds found once (`tests/kept/README.md`), as it was planned then: a seed means something else whenever plans are
/// made in another way.
#[test]
fn what_was_found_once_stays_mended() {
    let theatre = Theatre::open().unwrap();
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kept");
    let mut files: Vec<PathBuf> = fs::read_dir(kept).unwrap().map(|file| file.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|kind| kind == "json"));
    files.sort();
    assert!(!files.is_empty());
    for file in files {
        let script = Script::read(&fs::read_to_string(&file).unwrap()).unwrap();
        let violations = theatre.perform(&script, Watch::Nothing).violations;
        assert_eq!(violations, Vec::<String>::new(), "{}", file.display());
    }
}

#[test]
fn random_programs_end_as_the_model_says_whatever_goes_wrong() {
    let theatre = Theatre::open().unwrap();
    let mut tally = Tally::default();
    let mut wrong = Vec::new();
    for seed in 1..=24 {
        let outcome = theatre.play(seed, Watch::Nothing);
        wrong.extend(outcome.violations.iter().map(|violation| format!("seed {seed}: {violation}")));
        tally.add(&outcome);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(tally.gaps(), Vec::<String>::new());
}

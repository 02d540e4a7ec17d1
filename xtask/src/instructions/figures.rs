//! The committed figures, and how measured ones compare with them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::{fs, io};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// By how many percent a part may grow. Less is left to the compiler's moods; what hash seeds move is below 0.5 %.
pub(super) const LIMIT: u64 = 10;

/// What `crates/testkit/instructions/instructions.toml` says.
#[derive(Debug, Default, PartialEq, Deserialize)]
pub(super) struct Figures {
    /// The processor they are for: another one needs other instructions.
    pub(super) arch: String,
    /// The compiler that made them.
    pub(super) rustc: String,
    /// Instructions by part.
    pub(super) parts: BTreeMap<String, u64>,
}

/// What one of a part costs now.
pub(super) struct Measured {
    pub(super) name: String,
    /// One of what.
    pub(super) one: String,
    pub(super) each: u64,
}

/// A part with both figures, as far as it has them.
pub(super) struct Compared {
    pub(super) name: String,
    one: String,
    committed: Option<u64>,
    measured: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Fits,
    Grown,
    Shrunk,
    /// It has no committed figure.
    New,
    /// It has only a committed figure.
    Gone,
}

/// Every part that was measured or has a figure.
pub(super) fn compare(committed: &BTreeMap<String, u64>, measured: &[Measured]) -> Vec<Compared> {
    let known = measured.iter().map(|part| Compared {
        name: part.name.clone(),
        one: part.one.clone(),
        committed: committed.get(&part.name).copied(),
        measured: Some(part.each),
    });
    let gone = committed.iter().filter(|(name, _)| measured.iter().all(|part| part.name != **name));
    let gone = gone.map(|(name, figure)| Compared {
        name: name.clone(),
        one: "no longer measured".into(),
        committed: Some(*figure),
        measured: None,
    });
    known.chain(gone).collect()
}

impl Compared {
    pub(super) fn verdict(&self) -> Verdict {
        match (self.committed, self.measured) {
            (None, _) => Verdict::New,
            (_, None) => Verdict::Gone,
            (Some(committed), Some(measured)) if measured * 100 > committed * (100 + LIMIT) => Verdict::Grown,
            (Some(committed), Some(measured)) if measured * 100 < committed * (100 - LIMIT) => {
                Verdict::Shrunk
            }
            _ => Verdict::Fits,
        }
    }

    fn growth(&self) -> String {
        match (self.committed, self.measured) {
            (Some(committed), Some(measured)) if committed > 0 => {
                let percent = (measured as f64 / committed as f64 - 1.0) * 100.0;
                if percent.abs() < 0.05 { "0.0 %".into() } else { format!("{percent:+.1} %") }
            }
            _ => "–".into(),
        }
    }
}

/// The figures side by side, for people.
pub(super) fn table(parts: &[Compared]) -> String {
    let figure = |figure: Option<u64>| figure.map_or("–".into(), grouped);
    let mut text = format!("\n{:16} {:>10} {:>10} {:>9}\n", "part", "committed", "measured", "growth");
    for part in parts {
        let mark = match part.verdict() {
            Verdict::Fits => "",
            Verdict::Grown => "  << too much",
            Verdict::Shrunk => "  << better",
            Verdict::New => "  << new",
            Verdict::Gone => "  << gone",
        };
        let (name, committed, measured) = (&part.name, figure(part.committed), figure(part.measured));
        let growth = part.growth();
        let _ = writeln!(text, "{name:16} {committed:>10} {measured:>10} {growth:>9}  {}{mark}", part.one);
    }
    text
}

/// `1234567` as `1,234,567`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let head = digits.len() % 3;
    let groups = digits.as_bytes()[head..].chunks(3).map(String::from_utf8_lossy);
    let first = (head > 0).then(|| digits[..head].into());
    first.into_iter().chain(groups).collect::<Vec<_>>().join(",")
}

impl Figures {
    /// The figures of a file; none when there is no file yet.
    pub(super) fn read(file: &Path) -> Result<Figures> {
        let text = match fs::read_to_string(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Figures::default()),
            text => text.with_context(|| format!("cannot read {}", file.display()))?,
        };
        toml::from_str(&text).with_context(|| format!("{} is not as --accept writes it", file.display()))
    }

    pub(super) fn write(&self, file: &Path) -> Result<()> {
        fs::write(file, self.text()).with_context(|| format!("cannot write {}", file.display()))?;
        println!("\nWritten to {}", file.display());
        Ok(())
    }

    fn text(&self) -> String {
        let mut text = format!(
            "# What the pure parts cost in instructions: see docs/performance.md. Written by\n\
             # `cargo xtask instructions --accept`.\n\
             arch = \"{}\"\nrustc = \"{}\"\n\n[parts]\n",
            self.arch, self.rustc
        );
        self.parts.iter().for_each(|(name, figure)| _ = writeln!(text, "{name} = {figure}"));
        text
    }

    /// Refuses to compare with another kind of processor, and mentions another compiler.
    pub(super) fn check_machine(&self, here: &Figures) -> Result<()> {
        if self.parts.is_empty() {
            return Ok(());
        }
        ensure!(
            self.arch == here.arch,
            "the committed figures are for {}, which {} cannot be compared with",
            self.arch,
            here.arch
        );
        if self.rustc != here.rustc {
            println!("\nnote: the committed figures are of rustc {}, these of {}", self.rustc, here.rustc);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(name: &str, each: u64) -> Measured {
        Measured { name: name.into(), one: "a step".into(), each }
    }

    fn verdict(committed: u64, each: u64) -> Verdict {
        compare(&BTreeMap::from([("replay".into(), committed)]), &[measured("replay", each)])[0].verdict()
    }

    #[test]
    fn growth_of_exactly_a_tenth_still_fits_and_one_more_does_not() {
        assert_eq!(verdict(1000, 1100), Verdict::Fits);
        assert_eq!(verdict(1000, 1101), Verdict::Grown);
    }

    #[test]
    fn an_improvement_is_worth_a_word_when_it_is_more_than_a_tenth() {
        assert_eq!(verdict(1000, 900), Verdict::Fits);
        assert_eq!(verdict(1000, 899), Verdict::Shrunk);
    }

    #[test]
    fn parts_without_a_figure_and_figures_without_a_part_are_both_told() {
        let compared = compare(&BTreeMap::from([("old".into(), 7)]), &[measured("new", 8)]);
        let verdicts: Vec<_> = compared.iter().map(|part| (part.name.as_str(), part.verdict())).collect();
        assert_eq!(verdicts, [("new", Verdict::New), ("old", Verdict::Gone)]);
    }

    #[test]
    fn the_table_names_the_part_both_figures_and_the_growth() {
        let committed = BTreeMap::from([("replay".into(), 1000), ("encode".into(), 4197)]);
        let compared = compare(&committed, &[measured("replay", 1_101), measured("encode", 4196)]);
        let expected = "
part              committed   measured    growth
replay                1,000      1,101   +10.1 %  a step  << too much
encode                4,197      4,196     0.0 %  a step
";
        assert_eq!(table(&compared), expected);
    }

    #[test]
    fn what_is_accepted_is_what_is_read_again() {
        let parts = BTreeMap::from([("cold-turn".into(), 7925), ("replay".into(), 2238)]);
        let figures = Figures { arch: "x86_64".into(), rustc: "1.95.0".into(), parts };
        let file = tempfile::NamedTempFile::new().unwrap();
        figures.write(file.path()).unwrap();
        assert_eq!(Figures::read(file.path()).unwrap(), figures);
    }

    #[test]
    fn figures_of_another_processor_are_not_compared() {
        let figures = |arch: &str| Figures {
            arch: arch.into(),
            rustc: "1.95.0".into(),
            parts: BTreeMap::from([("replay".into(), 1)]),
        };
        assert!(figures("x86_64").check_machine(&figures("x86_64")).is_ok());
        assert!(figures("x86_64").check_machine(&figures("aarch64")).is_err());
        assert!(Figures::default().check_machine(&figures("aarch64")).is_ok());
    }
}

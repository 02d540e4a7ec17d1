//! What was measured: one row per figure, as a table for people and as JSON for programs.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::beside;

/// One figure, beside the limit that was measured in the same run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Figure {
    pub workload: String,
    pub store: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub variant: String,
    /// `None` where it cannot be measured.
    pub concurrency: Option<u64>,
    /// `None` when it cannot be measured; `note` says why.
    pub value: Option<f64>,
    pub unit: String,
    /// What the bare database does with the same rows, where that can be said.
    #[serde(default)]
    pub limit: Option<f64>,
    /// Above 1 is better than the limit, for rates and for latencies alike.
    #[serde(default)]
    pub ratio: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

impl Figure {
    pub fn new(workload: &str, store: &str, concurrency: usize, value: f64, unit: &str) -> Figure {
        Figure {
            workload: workload.to_owned(),
            store: store.to_owned(),
            variant: String::new(),
            concurrency: Some(concurrency as u64),
            value: Some(value),
            unit: unit.to_owned(),
            limit: None,
            ratio: None,
            peer: None,
            note: String::new(),
        }
    }

    pub fn variant(mut self, variant: &str) -> Figure {
        self.variant = variant.to_owned();
        self
    }

    pub fn note(mut self, note: &str) -> Figure {
        self.note = note.to_owned();
        self
    }

    /// Beside what the bare database did: a rate is better when higher, a time when lower.
    pub fn of(mut self, limit: f64) -> Figure {
        self.limit = Some(limit);
        self.ratio = self.value.map(|value| if self.is_rate() { value / limit } else { limit / value });
        self
    }

    pub fn is_rate(&self) -> bool {
        self.unit.ends_with("/s") && !self.unit.starts_with("statements")
    }
}

/// The figures so far. Each is printed when it comes, so that a long run shows what it does.
#[derive(Default)]
pub struct Report(pub Vec<Figure>);

impl Report {
    pub fn add(&mut self, figure: Figure) {
        if self.0.is_empty() {
            println!("{}", header());
        }
        println!("{}", line(&figure));
        self.0.push(figure);
    }

    /// Adds the rows that peers wrote.
    pub fn add_peers(&mut self, file: &Path) -> Result<()> {
        let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        for row in text.lines().filter(|line| !line.trim().is_empty()) {
            self.add(serde_json::from_str(row).with_context(|| format!("a peer wrote no row: {row}"))?);
        }
        Ok(())
    }

    /// Prints ours beside the best peer, where there are peers.
    pub fn say_best_peers(&self) {
        for row in beside::best(&self.0) {
            let (ours, peer) = (row.ours, row.peer.peer.as_deref().unwrap_or_default());
            let (what, times) = (&ours.variant, shown(row.times));
            println!("{:<4} {:<9} {what}: {times} times the best peer, {peer}", ours.workload, ours.store);
        }
    }

    pub fn write(&self, file: &Path) -> Result<()> {
        let json = serde_json::to_string_pretty(&self.0)?;
        fs::write(file, json + "\n").with_context(|| format!("cannot write {}", file.display()))
    }
}

pub fn header() -> String {
    format!(
        "{:<4} {:<9} {:<34} {:>6} {:>12} {:<16} {:>12} {:>7}",
        "", "store", "what", "conc.", "value", "unit", "limit", "ratio"
    )
}

pub fn line(figure: &Figure) -> String {
    let number = |value: Option<f64>| value.map_or("–".to_owned(), shown);
    let what = match &figure.peer {
        Some(peer) => format!("{peer} {}", figure.variant),
        None => figure.variant.clone(),
    };
    let line = format!(
        "{:<4} {:<9} {:<34} {:>6} {:>12} {:<16} {:>12} {:>7}  {}",
        figure.workload,
        figure.store,
        what,
        at_a_time(figure),
        number(figure.value),
        figure.unit,
        number(figure.limit),
        number(figure.ratio),
        figure.note
    );
    line.trim_end().to_owned()
}

/// How many at a time.
pub fn at_a_time(figure: &Figure) -> String {
    figure.concurrency.map_or("–".to_owned(), |count| count.to_string())
}

/// Few digits, and those that count.
pub fn shown(value: f64) -> String {
    match value.abs() {
        big if big >= 1000.0 => {
            let digits = format!("{value:.0}");
            let (sign, digits) = digits.strip_prefix('-').map_or(("", &*digits), |rest| ("-", rest));
            let groups: Vec<&str> = digits
                .as_bytes()
                .rchunks(3)
                .rev()
                .map(|group| std::str::from_utf8(group).expect("digits"))
                .collect();
            format!("{sign}{}", groups.join(","))
        }
        mid if mid >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_what_a_peer_cannot_do_is_taken() {
        let row = r#"{"workload":"W1","store":"postgres","concurrency":null,"value":null,"unit":"jobs/s",
                      "peer":"some 1.0","variant":"bulk enqueue","note":"no such call"}"#;
        let figure: Figure = serde_json::from_str(row).unwrap();
        assert!(line(&figure).contains("–") && line(&figure).ends_with("no such call"));
    }
}

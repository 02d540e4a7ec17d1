//! The figures as a page for people: tables, and a plot beside it.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::beside;
use crate::report::{Figure, Report, at_a_time, shown};

/// Writes `file` and, beside it, a plot of the same name.
pub fn write(report: &Report, file: &Path, quick: bool) -> Result<()> {
    let plot = file.with_extension("svg");
    let name = plot.file_name().context("the page has no name")?.to_string_lossy().into_owned();
    fs::write(&plot, svg(&report.0)).with_context(|| format!("cannot write {}", plot.display()))?;
    fs::write(file, page(&report.0, &name, quick)).with_context(|| format!("cannot write {}", file.display()))
}

fn page(figures: &[Figure], plot: &str, quick: bool) -> String {
    let mut text = String::from(
        "# Benchmarks\n\n\
         Made by `cargo xtask bench --page docs/benchmarks.md` (`--peers` adds the others' figures); what each workload does is told in [performance.md](performance.md). The *limit* is what the\n\
         database does with the very same rows when nothing is around it, measured in the same run; the *ratio* is ours to that, more is better, for times too.\n\
         Absolute figures wander with the machine and the hour: compare within one table.\n\n",
    );
    let _ = writeln!(text, "{}{}\n", machine(), if quick { " Small workloads (`--quick`)." } else { "" });
    let _ = writeln!(text, "![Steps per second with 256 runs at a time]({plot})\n");
    text.push_str("## Ours\n\n| | store | what | at a time | value | unit | limit | ratio | |\n");
    text.push_str("| --- | --- | --- | ---: | ---: | --- | ---: | ---: | --- |\n");
    for figure in figures.iter().filter(|figure| figure.peer.is_none()) {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            figure.workload,
            figure.store,
            figure.variant,
            at_a_time(figure),
            number(figure.value),
            figure.unit,
            number(figure.limit),
            number(figure.ratio),
            figure.note
        );
    }
    if figures.iter().all(|figure| figure.peer.is_none()) {
        return text;
    }
    text.push_str("\n## Beside the best peer, in the same run\n\n| | store | what | ours | best peer | | times |\n");
    text.push_str("| --- | --- | --- | ---: | ---: | --- | ---: |\n");
    for row in beside::best(figures) {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} {} | {} | {} | {} |",
            row.ours.workload,
            row.ours.store,
            row.ours.variant,
            number(row.ours.value),
            row.ours.unit,
            number(row.peer.value),
            row.peer.peer.as_deref().unwrap_or_default(),
            shown(row.times)
        );
    }
    text.push_str("\n## Peers, in the same run\n\n| | peer | store | what | at a time | value | unit | |\n");
    text.push_str("| --- | --- | --- | --- | ---: | ---: | --- | --- |\n");
    let mut peers: Vec<&Figure> = figures.iter().filter(|figure| figure.peer.is_some()).collect();
    peers.sort_by_key(|figure| (figure.workload.clone(), figure.variant.clone(), figure.unit.clone()));
    for figure in peers {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} |",
            figure.workload,
            figure.peer.as_deref().unwrap_or_default(),
            figure.store,
            figure.variant,
            at_a_time(figure),
            number(figure.value),
            figure.unit,
            figure.note
        );
    }
    text
}

fn number(value: Option<f64>) -> String {
    value.map_or("–".to_owned(), shown)
}

/// Processor, memory and versions.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kilobytes = memory.split_whitespace().nth(1).and_then(|number| number.parse::<u64>().ok());
    let memory = kilobytes.map_or(String::new(), |kilobytes| format!(", {} GiB", kilobytes >> 20));
    let version = |program: &str| {
        let output = Command::new(program).arg("--version").output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let postgres = version("psql").unwrap_or_default();
    let rust = version("rustc").unwrap_or_default();
    let sqlite = rusqlite::version();
    format!(
        "{cores} cores{memory}, shared by client and server; {postgres}, SQLite {sqlite}, {rust}. fsync on."
    )
}

/// Steps per second at 256 runs at a time, ours, the limit and the peers', as bars on a logarithmic scale.
fn svg(figures: &[Figure]) -> String {
    let mut bars: Vec<(String, f64, &str)> = Vec::new();
    let rates =
        figures.iter().filter(|f| f.workload == "W2" && f.concurrency == Some(256) && f.unit == "steps/s");
    for figure in rates {
        let Some(value) = figure.value else { continue };
        let (name, color) = match &figure.peer {
            Some(peer) => (format!("{peer}, {}", figure.store), "#9aa5b1"),
            None => (format!("outlast, {}", figure.store), "#0b7285"),
        };
        match bars.iter_mut().find(|bar| bar.0 == name) {
            Some(bar) => bar.1 = bar.1.max(value),
            None => bars.push((name, value, color)),
        }
        if let Some(limit) = figure.limit {
            let name = format!("bare rows, {}", figure.store);
            match bars.iter_mut().find(|bar| bar.0 == name) {
                Some(bar) => bar.1 = bar.1.max(limit),
                None => bars.push((name, limit, "#cdd5dc")),
            }
        }
    }
    bars.sort_by(|a, b| b.1.total_cmp(&a.1));

    let (left, width, row) = (230.0, 470.0, 26.0);
    let height = 50.0 + row * bars.len() as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 800 {height}\" font-family=\"sans-serif\" \
         font-size=\"13\">\n<title>Steps per second with 256 runs at a time</title>\n\
         <rect width=\"800\" height=\"{height}\" fill=\"#ffffff\"/>\n\
         <text x=\"10\" y=\"22\" font-weight=\"bold\">Durable steps per second, 256 runs at a time (logarithmic)</text>\n"
    );
    for (at, (name, value, color)) in bars.iter().enumerate() {
        let y = 40.0 + row * at as f64;
        // From 10 to 1,000,000.
        let length = ((value.max(10.0).log10() - 1.0) / 5.0 * width).min(width);
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{name}</text>\n\
             <rect x=\"{left}\" y=\"{y}\" width=\"{length:.1}\" height=\"18\" fill=\"{color}\"/>\n\
             <text x=\"{:.1}\" y=\"{}\">{}</text>",
            left - 8.0,
            y + 14.0,
            left + length + 6.0,
            y + 14.0,
            shown(*value)
        );
    }
    svg.push_str("</svg>\n");
    svg
}

//! Metrics as OpenMetrics, for whoever asks for it: the recorder writes the older text of Prometheus, which is put into the
//! newer one's words line by line.
//!
//! The two differ in little: a counter's family has its name without `_total`, borders of buckets are floats, no line is
//! empty, and the last one says that nothing is missing.

use std::collections::HashSet;

use axum::http::{HeaderMap, header};

/// What Prometheus has read ever since.
pub(super) const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
/// What others may prefer.
pub(super) const OPEN: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What was measured, as these headers ask for it: its kind, and the text.
pub(super) fn answer(headers: &HeaderMap, text: String) -> (&'static str, String) {
    let asked: Vec<&str> =
        headers.get_all(header::ACCEPT).iter().filter_map(|line| line.to_str().ok()).collect();
    match prefers_open(&asked.join(",")) {
        true => (OPEN, open(&text)),
        false => (TEXT, text),
    }
}

/// Whether somebody would rather have OpenMetrics. The one they named first counts where they like both alike.
fn prefers_open(accept: &str) -> bool {
    let mut best = (0.0, false);
    for part in accept.split(',') {
        let mut words = part.split(';').map(str::trim);
        let kind = words.next().unwrap_or_default().to_ascii_lowercase();
        let (mut weight, mut is_ours) = (1.0, true);
        for (name, value) in words.filter_map(|word| word.split_once('=')) {
            match name.trim().to_ascii_lowercase().as_str() {
                "q" => weight = value.trim().parse().ok().filter(|q| (0.0..=1.0).contains(q)).unwrap_or(0.0),
                "version" => is_ours = ["1.0.0", "0.0.4"].contains(&value.trim().trim_matches('"')),
                _ => {}
            }
        }
        let is_open = kind == "application/openmetrics-text";
        let is_known = is_open || ["text/plain", "text/*", "*/*"].contains(&kind.as_str());
        if is_ours && is_known && weight > best.0 {
            best = (weight, is_open);
        }
    }
    best.1
}

/// The text of Prometheus in the words of OpenMetrics.
fn open(text: &str) -> String {
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let others: HashSet<&str> = types.filter(|(_, kind)| *kind != "counter").map(|(name, _)| name).collect();
    let mut out = String::with_capacity(text.len() + 64);
    let mut family = Family::default();
    for line in text.lines().filter(|line| !line.is_empty()) {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            let (name, help) = (base(name, &others), help.replace('"', "\\\""));
            out += &format!("# HELP {name} {help}\n");
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            family = Family::new(name, kind, &others);
            out += &format!("# TYPE {} {}\n", family.name, family.kind);
        } else if !line.starts_with('#') {
            out += &family.sample(line);
        }
    }
    out + "# EOF\n"
}

/// The figures of one name.
#[derive(Default)]
struct Family<'a> {
    name: &'a str,
    kind: &'a str,
}

impl<'a> Family<'a> {
    fn new(name: &'a str, kind: &'a str, others: &HashSet<&str>) -> Family<'a> {
        match kind {
            // Two families cannot have one name: then it is whatever it is.
            "counter" if others.contains(name.strip_suffix("_total").unwrap_or(name)) => {
                Family { name, kind: "unknown" }
            }
            "counter" => Family { name: base(name, others), kind },
            // What has no type there has another word here.
            "untyped" => Family { name, kind: "unknown" },
            _ => Family { name, kind },
        }
    }

    /// A line of one figure: its name, perhaps labels, its value.
    fn sample(&self, line: &str) -> String {
        let (what, value) = line.rsplit_once(' ').unwrap_or((line, "NaN"));
        let (name, labels) = what.split_at(what.find('{').unwrap_or(what.len()));
        let total = if self.kind == "counter" && !name.ends_with("_total") { "_total" } else { "" };
        let value = match value {
            "inf" => "+Inf",
            "-inf" => "-Inf",
            value => value,
        };
        format!("{name}{total}{} {value}\n", with_floats(labels))
    }
}

/// The name of a family: a counter's without what its figures have behind it.
fn base<'a>(name: &'a str, others: &HashSet<&str>) -> &'a str {
    name.strip_suffix("_total").filter(|base| !others.contains(base)).unwrap_or(name)
}

/// Labels whose border or quantile, which is the last of them, is written as a float.
fn with_floats(labels: &str) -> String {
    for name in ["le=\"", "quantile=\""] {
        let found = labels.rfind(name).filter(|at| labels[..*at].ends_with(['{', ',']));
        let Some(number) = found.and_then(|at| labels[at + name.len()..].strip_suffix("\"}")) else {
            continue;
        };
        if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) {
            return format!("{}.0\"}}", labels.trim_end_matches("\"}"));
        }
    }
    labels.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_metrics_are_for_those_who_ask_for_them() {
        let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
                          application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;q=0.3,\
                          text/plain;version=0.0.4;q=0.2,*/*;q=0.1";
        for (accept, is_open) in [
            (prometheus, true),
            ("application/openmetrics-text", true),
            ("Application/OpenMetrics-Text; Version=1.0.0; charset=utf-8", true),
            ("text/plain;q=0.5, application/openmetrics-text;q=0.6", true),
            ("application/openmetrics-text;q=0.5, text/plain", false),
            ("text/plain, application/openmetrics-text", false),
            ("application/openmetrics-text;version=2.0.0, */*;q=0.1", false),
            ("application/openmetrics-text;q=0", false),
            ("application/openmetrics-text;q=nonsense", false),
            ("text/plain, application/openmetrics-text;q=2", false),
            ("*/*", false),
            ("text/html", false),
            ("", false),
        ] {
            assert_eq!(prefers_open(accept), is_open, "{accept}");
        }
    }

    #[test]
    fn the_older_text_is_put_into_the_newer_ones_words() {
        let text = "# HELP turns_total how \"many\"\n# TYPE turns_total counter\nturns_total{a=\"b c\"} 3\n\n\
                    # TYPE plain counter\nplain 1\n\n# TYPE held gauge\nheld inf\n\n\
                    # TYPE held_total counter\nheld_total 2\n\n\
                    # TYPE lag_seconds histogram\nlag_seconds_bucket{q=\"x\",le=\"0.5\"} 1\n\
                    lag_seconds_bucket{q=\"x\",le=\"1\"} 2\nlag_seconds_bucket{q=\"x\",le=\"+Inf\"} 2\n\
                    lag_seconds_sum{q=\"x\"} 1.5\nlag_seconds_count{q=\"x\"} 2\n\n";
        let open = "# HELP turns how \\\"many\\\"\n# TYPE turns counter\nturns_total{a=\"b c\"} 3\n\
                    # TYPE plain counter\nplain_total 1\n# TYPE held gauge\nheld +Inf\n\
                    # TYPE held_total unknown\nheld_total 2\n\
                    # TYPE lag_seconds histogram\nlag_seconds_bucket{q=\"x\",le=\"0.5\"} 1\n\
                    lag_seconds_bucket{q=\"x\",le=\"1.0\"} 2\nlag_seconds_bucket{q=\"x\",le=\"+Inf\"} 2\n\
                    lag_seconds_sum{q=\"x\"} 1.5\nlag_seconds_count{q=\"x\"} 2\n# EOF\n";
        assert_eq!(super::open(text), open);
        assert_eq!(super::open(""), "# EOF\n");
    }
}

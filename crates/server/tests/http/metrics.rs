//! What is measured: that each figure is explained, and that none of them says what somebody sent.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use metrics_exporter_prometheus::PrometheusBuilder;
use outlast_testkit::StoreKind;

use crate::lab::{Lab, told};

/// The names of figures that files of this folder give to the facade.
fn names_in(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            names_in(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            for kind in ["counter!(", "gauge!(", "histogram!("] {
                let named = text.split(kind).skip(1).filter_map(|rest| rest.trim_start().strip_prefix('"'));
                found.extend(named.filter_map(|rest| rest.split('"').next()).map(str::to_owned));
            }
        }
    }
}

fn is_explained(name: &str) -> bool {
    let docs = include_str!("../../../../docs/operate.md");
    docs.contains(&format!("`{name}`")) || docs.contains(&format!("`{name}{{"))
}

#[test]
fn every_figure_that_the_code_knows_is_explained() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut names = BTreeSet::new();
    for folder in ["outlast/src", "server/src", "store/src", "core/src"] {
        names_in(&crates.join(folder), &mut names);
    }
    assert!(names.len() > 20, "{names:?}");
    let missing: Vec<&String> = names.iter().filter(|name| !is_explained(name)).collect();
    assert!(missing.is_empty(), "docs/operate.md does not say what these mean: {missing:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn labels_are_never_what_somebody_sent() {
    let recorder = PrometheusBuilder::new().install_recorder().unwrap();
    let lab = Lab::with(StoreKind::Sqlite, |api| api.without_tokens().metrics(recorder)).await;
    let run = lab
        .start(r#"{"definition":"greet","input":"secret-input","key":"secret-key","queue":"secret-queue"}"#)
        .await;
    lab.get("/api/v1/runs?key=secret-key").await;
    lab.get("/secret-path").await;
    lab.get("/api/v1/queues/secret-queue").await;
    lab.post("/api/v1/runs", r#"{"definition":"secret-definition"}"#).await;
    lab.get(&format!("/api/v1/runs/{run}")).await;
    let own = lab.start(r#"{"definition":"greet","input":"you"}"#).await;
    lab.result(&own).await;
    // A turn is counted after its run's end was told.
    let mut text = lab.get("/metrics").await.text;
    while !text.contains("outlast_turns_total") {
        tokio::task::yield_now().await;
        text = lab.get("/metrics").await.text;
    }
    assert!(text.contains(r#"outlast_requests_total{action="run.start",status="201"}"#), "{text}");
    assert!(text.contains(r#"outlast_requests_total{action="run.start",status="422"}"#), "{text}");
    assert!(text.contains("outlast_request_seconds"), "{text}");
    assert!(!text.contains("secret") && !text.contains(&run), "{text}");
    reads_as_open_metrics(&lab).await;
    // And each of those that are there is explained.
    let names = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let missing: Vec<&str> = names.filter(|name| !is_explained(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Whoever asks for OpenMetrics gets it, read here as strictly as it is specified; whoever does not gets the older text.
async fn reads_as_open_metrics(lab: &Lab) {
    let plain = lab.get("/metrics").await;
    assert_eq!(plain.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    assert!(plain.header("vary").contains("accept") && !plain.text.contains("# EOF"), "{plain:?}");
    let accept = "application/openmetrics-text;version=1.0.0;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
    let open = told(lab.request("GET", "/metrics").header("accept", accept)).await;
    assert_eq!(open.header("content-type"), "application/openmetrics-text; version=1.0.0; charset=utf-8");

    let lines = open.text.strip_suffix("# EOF\n").expect("the last line says that nothing is missing");
    let (mut family, mut known) = ((String::new(), String::new()), BTreeSet::new());
    for line in lines.lines() {
        assert!(!line.is_empty() && !line.contains("# EOF"), "{line:?}");
        if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert!(known.insert(name.to_owned()), "{name} comes twice");
            assert!(["counter", "gauge", "histogram", "summary", "unknown"].contains(&kind), "{line}");
            assert!(kind != "counter" || !name.ends_with("_total"), "{line}");
            family = (name.to_owned(), kind.to_owned());
            continue;
        }
        let (what, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = what.split_at(what.find('{').unwrap_or(what.len()));
        let behind = name.strip_prefix(&family.0).unwrap_or_else(|| panic!("{line} is not of {family:?}"));
        let allowed: &[&str] = match family.1.as_str() {
            "counter" => &["_total"],
            "histogram" => &["_bucket", "_sum", "_count"],
            "summary" => &["", "_sum", "_count"],
            _ => &[""],
        };
        assert!(allowed.contains(&behind), "{line} is not of {family:?}");
        value.parse::<f64>().unwrap();
        assert!(family.1 != "counter" || value.parse::<f64>().unwrap() >= 0.0, "{line}");
        if behind == "_bucket" {
            let (_, le) = labels.rsplit_once("le=\"").unwrap();
            let le = le.strip_suffix("\"}").unwrap();
            assert!(le == "+Inf" || le.contains('.') || le.contains('e'), "{line}");
        }
    }
    assert!(known.contains("outlast_requests") && known.contains("outlast_request_seconds"), "{known:?}");
}

//! Runs as files: one run with its journal, to be looked at and replayed elsewhere.
//!
//! Values that are JSON stand in the file as they are; others as hexadecimal digits, with the name of their codec.

use std::fmt::Write as _;
use std::time::Duration;

use outlast_core::{Entry, Error, Limits, Op, Payload, Phase, RunId, Status, Timestamp};
use outlast_store::{Ended, Parent, Reads, RunKind, RunRecord, RunView};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::Client;

/// The version of the format, for whoever reads it later.
const FORMAT: u32 = 1;

/// How many entries are read at once.
const PAGE: u32 = 1000;

/// A run and its journal, as a file has them: see [`Client::export`].
///
/// It holds the run's input and results: treat it like the database itself.
#[derive(Debug, Clone)]
pub struct RunExport {
    pub(crate) record: RunRecord,
    pub(crate) status: String,
    pub(crate) entries: Vec<Entry>,
    /// When and how it ended; not in files of before this was written.
    pub(crate) end: Option<(Timestamp, Ended)>,
    /// When a node first took it; likewise.
    pub(crate) began_at: Option<Timestamp>,
    /// When it was to begin, if not at once; likewise.
    pub(crate) wanted_at: Option<Timestamp>,
}

impl RunExport {
    /// The run.
    pub fn run(&self) -> RunId {
        self.record.id
    }

    /// What it has recorded.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The run as people see it, as far as the file says.
    #[doc(hidden)]
    pub fn view(&self) -> RunView {
        let status: Status = self.status.parse().unwrap_or(Status::Waiting);
        let last = self.entries.last().map_or(self.record.created_at, |entry| entry.at);
        let last = self.end.as_ref().map_or(last, |(at, _)| *at);
        RunView {
            record: self.record.clone(),
            status,
            due_at: None,
            node: None,
            epoch: 0,
            attempt: 1,
            reason: None,
            cancel_reason: None,
            pause_reason: None,
            expires_at: None,
            group: None,
            began_at: self.began_at,
            wanted_at: self.wanted_at,
            finished_at: status.is_final().then_some(last),
            ended: self.end.as_ref().map(|(_, ended)| ended.clone()),
            tags: Vec::new(),
            doing: Vec::new(),
        }
    }

    /// The text of the file.
    pub fn to_json(&self) -> String {
        let RunRecord { id, kind, tenant, definition, version, key, queue, priority, created_at, .. } =
            &self.record;
        let run = Run {
            id: *id,
            kind: kind_word(*kind).to_owned(),
            tenant: tenant.clone(),
            definition: definition.clone(),
            version: *version,
            key: key.clone(),
            queue: queue.clone(),
            priority: *priority,
            created_at: *created_at,
            began_at: self.began_at,
            wanted_at: self.wanted_at,
            status: self.status.clone(),
            owner: self.record.owner.clone(),
            roles: self.record.roles.clone(),
            trace: self.record.trace.clone(),
            parent: self.record.parent.as_ref().map(|Parent { run, op }| Told { run: *run, op: op.clone() }),
            input: Value::of(&self.record.input),
        };
        let line = |entry: &Entry| Line {
            pos: entry.pos,
            op: entry.op,
            phase: entry.phase,
            name: entry.name.to_string(),
            at: entry.at,
            took_us: entry.took.map(|took| took.as_micros() as u64),
            body: entry.body.as_ref().map(Value::of),
        };
        let end = self.end.as_ref().map(|(at, ended)| End {
            at: *at,
            output: ended.output.as_ref().map(Value::of),
            error: ended.error.clone(),
        });
        let journal = self.entries.iter().map(line).collect();
        let file = File { outlast_run: FORMAT, run, journal, end };
        // Nothing in there can be refused: names are text, and bodies were JSON or are digits.
        serde_json::to_string_pretty(&file).unwrap_or_default()
    }

    /// What such a text holds.
    pub fn from_json(text: &str) -> Result<RunExport, Error> {
        let refused = |why: String| Error::Undecodable {
            what: "the exported run".into(),
            wanted: "a file that `outlast export` wrote".into(),
            detail: why,
        };
        let file: File = serde_json::from_str(text).map_err(|error| refused(error.to_string()))?;
        if file.outlast_run != FORMAT {
            return Err(refused(format!(
                "its format is {}, and this program knows {FORMAT}",
                file.outlast_run
            )));
        }
        let (began_at, wanted_at) = (file.run.began_at, file.run.wanted_at);
        let Run { id, kind, tenant, definition, version, key, queue, priority, created_at, .. } = file.run;
        let record = RunRecord {
            id,
            kind: kind_of(&kind).ok_or_else(|| refused(format!("a run is no {kind:?}")))?,
            tenant,
            definition,
            version,
            key,
            queue,
            priority,
            created_at,
            input: file.run.input.payload().map_err(refused)?,
            owner: file.run.owner,
            roles: file.run.roles,
            trace: file.run.trace,
            parent: file.run.parent.map(|Told { run, op }| Parent { run, op }),
        };
        let entry = |line: Line| {
            let body = line.body.map(|body| body.payload()).transpose()?;
            let Line { pos, op, phase, name, at, took_us, .. } = line;
            let took = took_us.map(Duration::from_micros);
            Ok(Entry { pos, op, phase, name: name.into(), at, took, body })
        };
        let entries = file.journal.into_iter().map(entry).collect::<Result<Vec<_>, _>>().map_err(refused)?;
        if !entries.is_sorted_by(|a, b| a.pos < b.pos) {
            return Err(refused("its entries are not in the order of their positions".into()));
        }
        let ended = |End { at, output, error }| {
            let status = file.run.status.parse::<Status>().map_err(|wrong| wrong.to_string())?;
            let output = output.map(Value::payload).transpose()?;
            Ok((at, Ended { status, output, error }))
        };
        let end = file.end.map(ended).transpose().map_err(refused)?;
        Ok(RunExport { record, status: file.run.status, entries, end, began_at, wanted_at })
    }
}

impl Client {
    /// A run with its journal, as a file that `outlast check` and [`Check::file`](crate::Check::file) read.
    ///
    /// ```
    /// # use outlast::prelude::*;
    /// # use outlast::{RunExport, testing};
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # let flow = Workflow::new("flow", async |ctx: Ctx, _: ()| Ok::<(), AnyError>(ctx.sleep(1.hour()).await?));
    /// # let test = testing::start(|app| app.workflow(flow.clone())).await?;
    /// # let (app, run) = (test.app(), test.app().start(flow, ()).await?);
    /// # test.settle().await?;
    /// let text = app.export(run.id()).await?.to_json();
    /// assert_eq!(RunExport::from_json(&text)?.run(), run.id());
    /// # Ok::<(), AnyError>(()) }).unwrap();
    /// ```
    pub async fn export(&self, run: RunId) -> Result<RunExport, Error> {
        let view = self.status(run).await?;
        let entries = whole_journal(&**self.store(), run, Vec::new()).await?;
        Ok(RunExport {
            record: view.record,
            status: view.status.word().to_owned(),
            entries,
            end: view.finished_at.zip(view.ended),
            began_at: view.began_at,
            wanted_at: view.wanted_at,
        })
    }
}

/// The rest of a journal, behind the entries that are here.
pub(crate) async fn whole_journal(
    reads: &(impl Reads + ?Sized),
    run: RunId,
    mut entries: Vec<Entry>,
) -> Result<Vec<Entry>, outlast_store::StoreError> {
    loop {
        let after = entries.last().map_or(0, |entry| entry.pos);
        let page = reads.journal(run, after, PAGE).await?;
        let more = page.len() == PAGE as usize;
        entries.extend(page);
        if !more {
            return Ok(entries);
        }
    }
}

#[derive(Serialize, Deserialize)]
struct File {
    outlast_run: u32,
    run: Run,
    journal: Vec<Line>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    end: Option<End>,
}

#[derive(Serialize, Deserialize)]
struct End {
    at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    output: Option<Value>,
    /// The `FailureDoc`, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Run {
    id: RunId,
    kind: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    tenant: String,
    definition: String,
    version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    queue: String,
    priority: u8,
    created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    began_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    wanted_at: Option<Timestamp>,
    status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    roles: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trace: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parent: Option<Told>,
    input: Value,
}

#[derive(Serialize, Deserialize)]
struct Told {
    run: RunId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    op: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Line {
    pos: u32,
    op: Op,
    phase: Phase,
    name: String,
    at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    took_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body: Option<Value>,
}

/// A payload. Bytes return exactly as they went in.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Value {
    Json(Box<RawValue>),
    Bytes {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        codec: Option<String>,
        hex: String,
    },
}

impl Value {
    fn of(payload: &Payload) -> Value {
        // A pretty printer may not touch what it holds: only text that is JSON in one piece stands for itself.
        let json = payload.json().and_then(|text| RawValue::from_string(text.to_owned()).ok());
        match json.filter(|json| json.get().len() == payload.bytes.len()) {
            Some(json) => Value::Json(json),
            None => {
                let mut hex = String::with_capacity(payload.bytes.len() * 2);
                payload.bytes.iter().for_each(|byte| {
                    let _ = write!(hex, "{byte:02x}");
                });
                Value::Bytes { codec: payload.codec.clone(), hex }
            }
        }
    }

    fn payload(self) -> Result<Payload, String> {
        let (codec, bytes) = match self {
            Value::Json(json) => (None, json.get().as_bytes().to_vec()),
            Value::Bytes { codec, hex } => (codec, from_hex(&hex).ok_or("a value is not hexadecimal")?),
        };
        match bytes.len() <= Limits::HARD_PAYLOAD {
            true => Ok(Payload { codec, bytes: bytes.into() }),
            false => Err("a value is larger than any can be".to_owned()),
        }
    }
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> =
        text.chars().map(|c| c.to_digit(16).map(|d| d as u8)).collect::<Option<Vec<u8>>>()?;
    let (pairs, rest) = digits.as_chunks::<2>();
    rest.is_empty().then(|| pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

fn kind_word(kind: RunKind) -> &'static str {
    match kind {
        RunKind::Workflow => "workflow",
        RunKind::Job => "job",
    }
}

fn kind_of(word: &str) -> Option<RunKind> {
    [RunKind::Workflow, RunKind::Job].into_iter().find(|kind| kind_word(*kind) == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn export(input: Payload, body: Payload) -> RunExport {
        let record = RunRecord {
            id: RunId::new(0, Timestamp::from_micros(1), 2),
            kind: RunKind::Workflow,
            tenant: "acme".into(),
            definition: "order".into(),
            version: 3,
            key: Some("order-1".into()),
            queue: "default".into(),
            priority: 5,
            created_at: Timestamp::from_micros(7),
            input,
            owner: Some("ann".into()),
            roles: vec!["clerk".into()],
            trace: None,
            parent: Some(Parent {
                run: RunId::new(0, Timestamp::from_micros(1), 3),
                op: Some("order".into()),
            }),
        };
        let entry = Entry {
            pos: 4,
            op: Op::Step,
            phase: Phase::Done,
            name: "charge#2".into(),
            at: Timestamp::from_micros(9),
            took: Some(Duration::from_micros(1)),
            body: Some(body),
        };
        let ended = Ended { status: Status::Completed, output: entry.body.clone(), error: None };
        let end = Some((Timestamp::from_micros(11), ended));
        let (began_at, wanted_at) = (Some(Timestamp::from_micros(8)), Some(Timestamp::from_micros(7)));
        RunExport { record, status: "completed".into(), entries: vec![entry], end, began_at, wanted_at }
    }

    #[test]
    fn a_run_returns_from_its_file_byte_by_byte() {
        let json = |text: &'static str| Payload { codec: None, bytes: text.into() };
        let odd = Payload { codec: Some("cbor".into()), bytes: vec![0, 255, 16].into() };
        for (input, body) in [
            (json(r#"{"b":1,"a":12345678901234567890123,"n":"\u0000"}"#), odd),
            (json("1.0e5"), json(r#"[ 1,  2 ]"#)),
            (json(" null "), json("null")),
            (json("no json"), Payload::default()),
        ] {
            let export = export(input, body);
            let back = RunExport::from_json(&export.to_json()).unwrap();
            assert_eq!(back.view().began_at, Some(Timestamp::from_micros(8)));
            assert_eq!(back.view().wanted_at, Some(Timestamp::from_micros(7)));
            assert_eq!((back.record, back.entries, back.end), (export.record, export.entries, export.end));
        }
    }

    #[test]
    fn what_is_no_exported_run_is_refused_with_why() {
        let good = export(Payload::default(), Payload::default()).to_json();
        for (text, why) in [
            ("[]".to_owned(), "invalid length 0"),
            (
                good.replace("\"outlast_run\": 1", "\"outlast_run\": 2"),
                "its format is 2, and this program knows 1",
            ),
            (good.replace("\"workflow\"", "\"saga\""), "a run is no \"saga\""),
            (good.replace("\"hex\": \"\"", "\"hex\": \"0g\""), "not hexadecimal"),
        ] {
            let told = RunExport::from_json(&text).unwrap_err().to_string();
            assert!(told.contains(why), "{told}");
        }
    }
}

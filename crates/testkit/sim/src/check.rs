//! After everything: what the tables say, held against the model, and what must always be true of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;

use outlast::{Op, Phase, RunId, Status};
use outlast_store::{Contradiction, StoreError, Value, ValueRow, VerifyMark};
use outlast_testkit::TABLES;
use serde::de::DeserializeOwned;

use crate::beats::{self, BEAT};
use crate::cast;
use crate::model::Model;
use crate::plan::Plan;
use crate::play::{Input, Saw};
use crate::program::{Program, What};
use crate::schedule::TAIL;
use crate::work::Work;
use crate::world::World;

/// The most entries of one journal that are looked at.
const ENTRIES: u32 = 1_000;

/// What the database says of a run.
pub(crate) struct Row {
    id: RunId,
    pub(crate) definition: String,
    pub(crate) key: Option<String>,
    called: Called,
    pub(crate) status: Option<Status>,
    output: Option<Vec<u8>>,
    pub(crate) error: Option<String>,
}

/// What it was called with.
enum Called {
    Play(Input, Arc<Program>),
    Work(Work),
    Beat,
}

impl Row {
    /// What the plan calls it; nothing that a schedule started.
    fn label(&self) -> Option<&str> {
        match &self.called {
            Called::Play(input, _) => Some(&input.label),
            Called::Work(work) => Some(&work.label),
            Called::Beat => None,
        }
    }

    fn output<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_slice(self.output.as_ref()?).ok()
    }
}

/// Looks whether the database contradicts itself, and whether something wakes every run that has not ended.
pub(crate) async fn look(world: &World, when: &str) -> Result<Vec<String>, StoreError> {
    let mut wrong = Vec::new();
    let mut from = Some(VerifyMark::default());
    while let Some(mark) = from {
        let page = world.store.verify(mark, 1_000).await?;
        wrong.extend(page.without.iter().map(|run| format!("{when}: nothing wakes {run:?}")));
        let told = |found: &Contradiction| format!("{when}: {} ({} times)", found.what, found.times);
        wrong.extend(page.contradictions.iter().map(told));
        from = page.next;
    }
    Ok(wrong)
}

/// Everything that stands in journals, by run and position.
async fn journals(world: &World) -> Result<BTreeMap<(Vec<u8>, i64), ValueRow>, StoreError> {
    let rows = world.memory.query("select run, pos, kind, name, body from outlast_journal").await?;
    let entry = |row: ValueRow| match &row[..] {
        [Value::Bytes(run), Value::Int(pos), ..] => Some(((run.to_vec(), *pos), row)),
        _ => None,
    };
    Ok(rows.into_iter().filter_map(entry).collect())
}

/// Remembers what stands in journals now.
pub(crate) async fn remember(world: &World) -> Result<(), StoreError> {
    let now = journals(world).await?;
    world.facts.lock().journals = now;
    Ok(())
}

/// What was once in a journal is there for ever, unless its run started over behind it.
async fn prefixes(world: &World) -> Result<Vec<String>, StoreError> {
    if world.facts.lock().journals.is_empty() {
        return Ok(Vec::new());
    }
    let now = journals(world).await?;
    let facts = world.facts.lock();
    let is_gone = |(run, pos): &(Vec<u8>, i64)| {
        now.range((run.clone(), 0)..).next().is_none_or(|((other, first), _)| other == run && first > pos)
    };
    let changed = facts.journals.iter().filter(|(place, entry)| match now.get(*place) {
        Some(now) => now != *entry,
        None => !is_gone(place),
    });
    Ok(changed.map(|(place, entry)| format!("an entry changed: {place:?} was {entry:?}")).collect())
}

/// Looks at everything once all is over; gives what is wrong, and how many runs of the plan there were.
pub(crate) async fn check(world: &World, plan: &Plan) -> Result<(Vec<String>, usize), StoreError> {
    let mut wrong = match plan.look {
        Some(_) => prefixes(world).await?,
        None => look(world, "at the end").await?,
    };
    let rows = rows(world).await?;
    let mut by_label: BTreeMap<&str, &Row> = BTreeMap::new();
    for row in &rows {
        if let Some(label) = row.label()
            && let Some(other) = by_label.insert(label, row)
        {
            wrong.push(format!("{label} is two runs: {} and {}", other.id, row.id));
        }
    }
    wrong.extend(beats::check(world, &rows).await?);
    let counter = counter(world).await?;
    let transactions = transactions(world).await?;
    let mut journals = BTreeMap::new();
    for row in rows.iter().filter(|row| row.status != Some(Status::Completed)) {
        if let Called::Play(input, _) = &row.called {
            journals.insert(input.label.clone(), world.store.journal(row.id, 0, ENTRIES).await?);
        }
    }
    let interruptions = world.weather.interruptions();
    let facts = world.facts.lock();
    wrong.extend(facts.wrong.iter().cloned());
    world.ledger.read(|notes| {
        let mut model = Model {
            notes,
            facts: &facts,
            rows: &transactions,
            interruptions: &interruptions,
            counts: Vec::new(),
            wrong: Vec::new(),
        };
        model.bodies();
        model.limit(rows.iter().filter(|row| row.definition == "limited").filter_map(Row::label));
        let mut expected: BTreeSet<String> = BTreeSet::new();
        for (label, ids) in &facts.started {
            let Some(row) = by_label.get(label.as_str()) else {
                model.wrong.push(format!("{label} was started as {ids:?}, and is lost"));
                continue;
            };
            if !ids.contains(&row.id) || ids.len() != 1 {
                model.wrong.push(format!("{label} was told to be {ids:?}, and is {}", row.id));
            }
            family(&mut model, &by_label, &journals, label, false, &mut expected);
        }
        for (label, row) in by_label.iter().filter(|(label, _)| !expected.contains(**label)) {
            model.wrong.push(format!("nobody started {label} ({})", row.id));
        }
        let asked = rows
            .iter()
            .map(|row| if let Called::Play(_, program) = &row.called { program.counts() } else { 0 });
        model.counted(counter, asked.sum());
        for story in plan.stories.iter().filter(|story| !facts.started.contains_key(&story.label)) {
            model.wrong.push(format!("{} was never started", story.label));
        }
        wrong.append(&mut model.wrong);
    });
    let planned = rows.iter().filter_map(Row::label).filter(|label| !label.starts_with(TAIL)).count();
    Ok((wrong, planned))
}

type Journals = BTreeMap<String, Vec<outlast::Entry>>;

/// Holds a run and its children against the model.
fn family(
    model: &mut Model<'_>,
    rows: &BTreeMap<&str, &Row>,
    journals: &Journals,
    label: &str,
    may_stop: bool,
    expected: &mut BTreeSet<String>,
) {
    let Some(row) = rows.get(label) else { return };
    expected.insert(label.to_owned());
    let Called::Play(_, program) = &row.called else { return };
    let asked = model.facts.cancelled.get(label).copied();
    let killed = model.facts.killed.get(label).copied();
    let may_end = |answer: Option<Option<bool>>| answer.is_some_and(|answer| answer != Some(false));
    let may_stop = may_stop || may_end(asked);
    match row.status {
        Some(Status::Completed) if !program.fails => {
            let saw: Option<Vec<Saw>> = row.output();
            match &saw {
                Some(saw) => model.ended(label, program, Some(saw)),
                None => model.wrong.push(format!("{label} completed with no result that can be read")),
            }
            model.undone(label, &[]);
            children(model, rows, label, program, saw.as_deref());
        }
        Some(Status::Failed) if program.fails => {
            if !row.error.as_ref().is_some_and(|error| error.contains("as planned")) {
                model.wrong.push(format!("{label} failed with {:?}", row.error));
            }
            model.ended(label, program, None);
            model.undone(label, &recorded(journals, label, program));
        }
        // Its code was not asked: what it did stays done.
        Some(Status::Cancelled) if may_end(killed) => {}
        Some(Status::Cancelled) if may_stop => model.undone(label, &recorded(journals, label, program)),
        status => {
            let journal = journals.get(label).map(|entries| {
                let entry = |entry: &outlast::Entry| {
                    format!("{} {:?} {:?} {}", entry.pos, entry.op, entry.phase, entry.name)
                };
                entries.iter().map(entry).collect::<Vec<_>>().join("; ")
            });
            model.wrong.push(format!(
                "{label} ({}) is {status:?}: {:?}; it was to {}, asked to stop: {asked:?}; journal: {journal:?}; {program:?}",
                row.id,
                row.error,
                if program.fails { "fail" } else { "complete" },
            ));
        }
    }
    let stops = row.status != Some(Status::Completed);
    program.each(&mut |act| {
        let child = cast::child(label, act.number);
        match &act.what {
            What::Child { how, .. } => {
                let detached = *how == crate::program::How::Detached;
                family(model, rows, journals, &child, stops && !detached, expected);
            }
            What::Job { .. } => {
                expected.insert(child.clone());
                if let Some(row) = rows.get(child.as_str()) {
                    job(model, row, &child, stops);
                }
            }
            _ => {}
        }
    });
}

/// Holds a run of a job against the model.
fn job(model: &mut Model<'_>, row: &Row, label: &str, may_stop: bool) {
    let Called::Work(work) = &row.called else { return };
    match (row.status, row.output::<u64>()) {
        (Some(Status::Completed), Some(value)) => model.worked(label, work.fails + 1, value),
        (Some(Status::Cancelled), _) if may_stop => {}
        (status, output) => {
            let error = &row.error;
            model.wrong.push(format!("the job {label} ({}) is {status:?}: {output:?}, {error:?}", row.id));
        }
    }
}

/// What a run said of its children is what the database says of them.
fn children(
    model: &mut Model<'_>,
    rows: &BTreeMap<&str, &Row>,
    label: &str,
    program: &Program,
    saw: Option<&[Saw]>,
) {
    let mut told: Vec<(RunId, Told<'_>)> = Vec::new();
    saw.unwrap_or_default().iter().for_each(|saw| tell(saw, &mut told));
    let mut labels = BTreeMap::new();
    program.each(&mut |act| {
        let child = cast::child(label, act.number);
        if let Some(row) = rows.get(child.as_str()) {
            labels.insert(row.id, child);
        }
    });
    for (id, end) in told {
        let found = labels.get(&id).and_then(|label| rows.get(label.as_str()));
        match found {
            None => model.wrong.push(format!("{label} had a child {id}, which is not one of its own")),
            Some(row) => {
                let fits = match end {
                    Told::Saw(saw) => row.output::<Vec<Saw>>().as_ref() == saw,
                    Told::Value(value) => row.output() == Some(value),
                };
                if !fits {
                    let output = row.output.as_deref().map(String::from_utf8_lossy);
                    model
                        .wrong
                        .push(format!("{label} was told that {id} gave {end:?}, and it is {output:?}"));
                }
            }
        }
    }
}

/// What a run was told of another's end.
#[derive(Debug)]
enum Told<'a> {
    Saw(Option<&'a Vec<Saw>>),
    Value(u64),
}

fn tell<'a>(saw: &'a Saw, told: &mut Vec<(RunId, Told<'a>)>) {
    match saw {
        Saw::Child(id, end) => told.push((*id, Told::Saw(end.as_ref()))),
        Saw::Worked(id, value) => told.push((*id, Told::Value(*value))),
        Saw::All(all) => all.iter().for_each(|saw| tell(saw, told)),
        Saw::First(_, saw) => tell(saw, told),
        _ => {}
    }
}

/// The acts that can be undone and whose results are in the journal, in its order.
fn recorded(journals: &Journals, label: &str, program: &Program) -> Vec<String> {
    let mut undoable = BTreeSet::new();
    program.each(&mut |act| {
        if matches!(act.what, What::Step { undo: true, .. } | What::Transaction { undo: true, .. }) {
            undoable.insert(act.name());
        }
    });
    let entries = journals.get(label).into_iter().flatten();
    let done =
        entries.filter(|entry| entry.phase == Phase::Done && matches!(entry.op, Op::Step | Op::Transaction));
    done.map(|entry| entry.name.to_string()).filter(|name| undoable.contains(name)).collect()
}

async fn rows(world: &World) -> Result<Vec<Row>, StoreError> {
    let sql = "select r.id, r.definition, r.key, r.input, z.status, z.output, z.error from outlast_runs as r
                 left join outlast_results as z on z.shard = r.shard and z.run = r.id
                order by r.id";
    let mut rows = Vec::new();
    for row in world.memory.query(sql).await? {
        let [Value::Bytes(id), Value::Text(definition), key, Value::Bytes(input), status, output, error] =
            &row[..]
        else {
            return Err(StoreError::Refused(format!("a row of another shape: {row:?}").into()));
        };
        let id = uuid::Uuid::from_slice(id)
            .map(RunId::from_uuid)
            .map_err(|error| StoreError::Refused(error.into()))?;
        let called = match definition.as_str() {
            BEAT => Ok(Called::Beat),
            "play" => serde_json::from_slice(input).map(|input: Input| {
                let program = world.cast.of(&input.label).unwrap_or_default();
                Called::Play(input, program)
            }),
            _ => serde_json::from_slice(input).map(Called::Work),
        };
        let called = called.map_err(|error| StoreError::Refused(error.into()))?;
        let status = match status {
            Value::Int(code) => Status::ALL.into_iter().find(|status| i64::from(status.code()) == *code),
            _ => None,
        };
        let output = if let Value::Bytes(output) = output { Some(output.to_vec()) } else { None };
        let text = |value: &Value| if let Value::Text(text) = value { Some(text.clone()) } else { None };
        let (definition, key, error) = (definition.clone(), text(key), text(error));
        rows.push(Row { id, definition, key, called, status, output, error });
    }
    Ok(rows)
}

async fn transactions(world: &World) -> Result<BTreeMap<(String, String), Vec<u64>>, StoreError> {
    let mut found: BTreeMap<(String, String), Vec<u64>> = BTreeMap::new();
    for row in world.memory.query("select run, act, value from sim_rows order by rowid").await? {
        if let [Value::Text(run), Value::Text(act), Value::Int(value)] = &row[..] {
            found.entry((run.clone(), act.clone())).or_default().push(*value as u64);
        }
    }
    Ok(found)
}

/// What the counter of all runs stands at.
async fn counter(world: &World) -> Result<u64, StoreError> {
    let rows = world.memory.query("select cast(value as text) from outlast_kv").await?;
    match rows.first().map(|row| &row[..]) {
        Some([Value::Text(value)]) => value.parse().map_err(|_| StoreError::Refused("no number".into())),
        _ => Ok(0),
    }
}

/// Everything that the database holds, as text.
pub(crate) async fn dump(world: &World) -> Result<String, StoreError> {
    let mut text = String::new();
    for (table, columns) in TABLES.iter().filter(|(table, _)| !matches!(*table, "migrations" | "nodes")) {
        let rows =
            world.memory.query(&format!("select {columns} from outlast_{table} order by 1, 2, 3")).await;
        // Some have fewer columns.
        let rows = match rows {
            Ok(rows) => rows,
            Err(_) => {
                world.memory.query(&format!("select {columns} from outlast_{table} order by 1, 2")).await?
            }
        };
        for row in rows {
            let _ = writeln!(text, "{table} {row:?}");
        }
    }
    for row in world.memory.query("select * from sim_rows order by rowid").await? {
        let _ = writeln!(text, "sim_rows {row:?}");
    }
    Ok(text)
}

//! Where journals are cut, and what that takes back.

use std::collections::HashSet;

use super::*;
use crate::{AnyError, Failure, FailureDoc, Limits, OpenNote, Timestamp};

fn entry(pos: u32, op: Op, phase: Phase, name: &str, body: Option<Payload>) -> Entry {
    Entry { pos, op, phase, name: name.into(), at: Timestamp::default(), took: None, body }
}

fn json(value: serde_json::Value) -> Option<Payload> {
    Some(Payload { codec: None, bytes: value.to_string().into() })
}

fn done(pos: u32, op: Op, name: &str) -> Entry {
    entry(pos, op, Phase::Done, name, json(serde_json::json!(pos)))
}

fn failure(message: &str) -> FailureDoc {
    FailureDoc::new(&Failure::Own(AnyError::new(message)), &Limits::default())
}

fn fails(pos: u32, op: Op, name: &str, message: &str) -> Entry {
    let body = serde_json::to_value(failure(message)).unwrap();
    entry(pos, op, Phase::Failed, name, json(body))
}

fn opened(pos: u32, op: Op, name: &str, note: OpenNote) -> Entry {
    entry(pos, op, Phase::Opened, name, json(serde_json::to_value(note).unwrap()))
}

fn cut(entries: &[Entry], at: &CutAt, message: &str) -> Plan {
    plan(entries, at, Some(&failure(message)), &HashSet::new(), &BTreeMap::new())
}

fn names(operated: &[Operated]) -> Vec<String> {
    operated.iter().map(Operated::to_string).collect()
}

#[test]
fn a_journal_is_cut_at_the_operation_whose_failure_the_run_ended_with() {
    let entries = [
        done(1, Op::Step, "a"),
        fails(2, Op::Step, "tried", "not this way"),
        fails(3, Op::Step, "b", "broken"),
        done(4, Op::Step, "notify"),
    ];
    let plan = cut(&entries, &CutAt::Failure, "broken");
    assert_eq!((plan.void.as_slice(), plan.kept), (&[3, 4][..], 2), "what was caught before stays");
    assert_eq!(names(&plan.again), ["b", "notify"]);
    assert!(
        cut(&entries, &CutAt::Failure, "my own").void.is_empty(),
        "the last result is none: the code failed by itself"
    );
    let last = cut(&entries[..3], &CutAt::Failure, "wrapped: broken");
    assert_eq!(last.void, [3], "a failure that the code words otherwise is the last one");
}

#[test]
fn all_attempts_of_what_begins_again_are_taken_back() {
    let attempt = |pos| entry(pos, Op::Step, Phase::Attempt, "b", None);
    let entries = [attempt(1), done(2, Op::Step, "a"), attempt(3), fails(4, Op::Step, "b", "broken")];
    assert_eq!(cut(&entries, &CutAt::Failure, "broken").void, [1, 3, 4]);
}

#[test]
fn what_was_undone_runs_again_and_everything_since() {
    let entries = [
        done(1, Op::Step, "a"),
        done(2, Op::Transaction, "b"),
        opened(3, Op::Undo, "b#transaction", OpenNote::default()),
        done(4, Op::Event, "go"),
        fails(5, Op::Step, "c", "broken"),
        opened(6, Op::Undo, BEGUN, OpenNote::default()),
        done(7, Op::Undo, "b#transaction"),
    ];
    let plan = cut(&entries, &CutAt::Failure, "broken");
    assert_eq!(plan.void, [2, 3, 4, 5, 6, 7]);
    assert_eq!(names(&plan.again), ["transaction:b", "c"]);
    assert_eq!(names(&plan.anew), ["transaction:b", "undo:b#transaction"]);
    assert_eq!(plan.messages, [Message::Event("go".into(), json(4.into()))]);
    // What the code itself undid, and then went another way, stays as it is.
    let mut other_way = entries.to_vec();
    (other_way[5], other_way[6]) = (done(6, Op::Undo, "b#transaction"), fails(7, Op::Step, "d", "broken"));
    assert_eq!(cut(&other_way, &CutAt::Failure, "broken").void, [7]);
    // And a result that is replaced in a run that goes on takes nothing back.
    assert_eq!(cut(&entries, &CutAt::Nowhere, "broken"), Plan { kept: 5, ..Plan::default() });
}

#[test]
fn what_was_undone_before_it_had_a_result_is_begun_anew_with_its_undo() {
    let run = RunId::new(0, Timestamp::default(), 1);
    let entries = [
        opened(1, Op::Child, "kid", OpenNote { run: Some(run), ..OpenNote::default() }),
        opened(2, Op::Undo, "kid#child", OpenNote::default()),
        opened(3, Op::Undo, BEGUN, OpenNote::default()),
        done(4, Op::Undo, "kid#child"),
    ];
    let plan = cut(&entries, &CutAt::Failure, "my own");
    assert_eq!((plan.void.as_slice(), names(&plan.again)), (&[1, 2, 3, 4][..], vec!["child:kid".to_owned()]));
}

#[test]
fn messages_arrive_again_in_the_order_in_which_they_were_consumed() {
    let entries = [
        fails(1, Op::Step, "a", "broken"),
        opened(2, Op::Event, "approve", OpenNote::default()),
        opened(3, Op::Event, "reject", OpenNote::default()),
        done(4, Op::Event, "reject"),
        done(5, Op::Event, "approve"),
    ];
    let plan = cut(&entries, &CutAt::Operation(operation(&entries, "a").unwrap()), "broken");
    let event = |name: &str, pos: u32| Message::Event(name.into(), json(pos.into()));
    assert_eq!(plan.messages, [event("reject", 4), event("approve", 5)]);
}

#[test]
fn children_that_nobody_waits_for_are_left_alone() {
    let run = RunId::new(0, Timestamp::default(), 1);
    let note = OpenNote { run: Some(run), detached: true, ..OpenNote::default() };
    let entries = [opened(1, Op::Child, "mail", note), fails(2, Op::Step, "a", "broken")];
    assert!(children(&entries).is_empty());
    let plan =
        plan(&entries, &CutAt::Failure, Some(&failure("broken")), &HashSet::from([run]), &BTreeMap::new());
    assert_eq!((plan.void.as_slice(), plan.children.len()), (&[2][..], 0));
}

#[test]
fn a_child_that_was_found_by_its_key_is_waited_for_or_sought_again() {
    let run = RunId::new(0, Timestamp::default(), 1);
    let found = serde_json::json!({ "run": run, "told": true, "name": "kid" });
    let start = entry(1, Op::Step, Phase::Done, "start kid", json(found));
    // Its end is not recorded yet, and may have come meanwhile.
    let open = [start.clone(), fails(2, Op::Step, "a", "broken")];
    assert_eq!(cut(&open, &CutAt::Failure, "broken").children, [(run, "kid".to_owned())]);
    let ended = [start, fails(2, Op::Child, "kid", "broken")];
    let plan = cut(&ended, &CutAt::Failure, "broken");
    assert_eq!((plan.void.as_slice(), plan.children.len()), (&[1, 2][..], 0));
    assert_eq!((names(&plan.again), names(&plan.anew)), (vec!["start kid".into()], vec!["child:kid".into()]));
}

#[test]
fn a_run_that_was_asked_to_stop_is_cut_there() {
    let until = OpenNote { until: Some(Timestamp::from_micros(9)), ..OpenNote::default() };
    let entries = [
        done(1, Op::Step, "a"),
        opened(2, Op::Sleep, "sleep", until),
        done(3, Op::Cancel, "cancel"),
        done(4, Op::Step, "tidy up"),
    ];
    let plan = cut(&entries, &CutAt::Failure, "cancelled: enough");
    assert_eq!(plan.void, [3, 4], "it sleeps on until the same time");
}

#[test]
fn children_that_are_there_are_waited_for_and_those_that_are_gone_are_started_anew() {
    let runs: Vec<RunId> = (1..=3).map(|n| RunId::new(0, Timestamp::default(), n)).collect();
    let child = |pos, name: &str, run| {
        opened(pos, Op::Child, name, OpenNote { run: Some(run), ..OpenNote::default() })
    };
    let entries = [
        child(1, "kid", runs[0]),
        child(2, "kid#2", runs[1]),
        child(3, "kid#3", runs[2]),
        done(4, Op::Child, "kid"),
        fails(5, Op::Child, "kid#2", "broken"),
        done(6, Op::Child, "kid#3"),
    ];
    let gone = HashSet::from([runs[1]]);
    let plan = plan(&entries, &CutAt::Failure, Some(&failure("broken")), &gone, &BTreeMap::new());
    assert_eq!((plan.void.as_slice(), plan.kept), (&[2, 5, 6][..], 1));
    assert_eq!(
        (names(&plan.again), names(&plan.anew)),
        (vec!["child:kid#2".into()], vec!["child:kid#2".into()])
    );
    assert_eq!(plan.children, []);
    assert_eq!(plan.messages, [Message::Ended("kid#3".into(), json(6.into()))]);

    // Somebody has had it tried again.
    let waits = cut(&entries, &CutAt::Failure, "broken");
    assert_eq!((waits.void.as_slice(), waits.children), (&[5, 6][..], vec![(runs[1], "kid#2".to_owned())]));
    // Somebody wants another one, whatever became of it.
    let again = cut(&entries, &CutAt::Operation(operation(&entries, "kid").unwrap()), "broken");
    assert_eq!(names(&again.again), ["child:kid"]);
    assert_eq!(again.void, [1, 4, 5, 6]);
}

#[test]
fn a_replaced_result_stands_where_the_old_one_stood() {
    let of = operation(&[fails(1, Op::Step, "a", "broken")], "a").unwrap();
    let body = serde_json::value::RawValue::from_string("7".into()).unwrap();
    let revision = |pos| {
        let result = Some(Replaced { of: of.clone(), pos, body: body.clone() });
        let anew = vec![of.clone()];
        json(serde_json::to_value(Revision { result, anew, ..Revision::default() }).unwrap())
    };
    let with = |pos, old: Entry| {
        let mut entries =
            vec![old, done(2, Op::Step, "b"), entry(3, Op::Revise, Phase::Done, "repair", revision(pos))];
        let anew = revise(&mut entries).unwrap();
        assert_eq!(anew.get(&of), Some(&1));
        let found = entries.iter().find(|entry| &*entry.name == "a" && entry.phase == Phase::Done);
        found.map(|entry| (entry.pos, entry.body.clone().unwrap().json().unwrap().to_owned()))
    };
    assert_eq!(with(Some(1), fails(1, Op::Step, "a", "broken")), Some((1, "7".into())));
    assert_eq!(with(None, entry(1, Op::Step, Phase::Attempt, "a", None)), Some((3, "7".into())));
    assert_eq!(with(Some(1), entry(1, Op::Step, Phase::Void, "a", None)), None, "it was taken back since");
}

#[test]
fn an_operation_is_found_by_its_name_or_with_its_kind() {
    let entries = [done(1, Op::Step, "go"), done(2, Op::Event, "go"), done(3, Op::Event, "stop#2")];
    assert_eq!(operation(&entries, "event:go").unwrap().to_string(), "event:go");
    assert_eq!(operation(&entries, "stop#2").unwrap().to_string(), "event:stop#2");
    assert_eq!(
        operation(&entries, "go").unwrap().to_string(),
        "go",
        "a step is what is named without a kind"
    );
    let refused = operation(&entries, "gone").unwrap_err().to_string();
    assert!(refused.contains("go") && refused.contains("event:stop#2"), "{refused}");
}

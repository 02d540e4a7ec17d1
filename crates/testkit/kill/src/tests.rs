//! Who checks the checker: it has nothing to say about an honest history, and finds every lie in another.

use std::path::Path;
use std::time::Duration;

use outlast::{Entry, Error, Op, Outlast, Phase, Status, Timestamp, Tx};
use outlast_testkit::{TestDatabase, skipped};
use tempfile::TempDir;

use crate::beats;
use crate::calls::Asked;
use crate::check::{Evidence, Glance, check};
use crate::gates::Gate;
use crate::ledger::{Call, Ledger, Line};
use crate::plan::{Act, How, Plan, Work};
use crate::play::register;
use crate::sagas::{Halt, Leg, Saga};
use crate::scene::{Orders, Scene};

/// A plan with everything in it.
fn everything() -> Plan {
    let child = Plan { acts: vec![Act::Ticks { count: 2 }, Act::Transaction { ms: 0 }, Act::Fail], from: 0 };
    let child = |how| Act::Child { plan: child.clone(), how };
    let job = |how| Act::Job { work: Work { fails: 1, ms: 0, ticket: None }, how };
    let acts = vec![
        Act::Flaky { fails: 2, ms: 0 },
        Act::Save,
        child(How::Keyed),
        Act::StartOver,
        Act::Step { ms: 1 },
        Act::Flaky { fails: 1, ms: 0 },
        Act::Doomed { attempts: 2 },
        Act::Transaction { ms: 0 },
        Act::Now,
        Act::Sleep { ms: 2 },
        Act::Now,
        Act::Random,
        Act::Ticks { count: 3 },
        Act::Promise,
        Act::Join(vec![Act::Step { ms: 1 }, Act::Step { ms: 0 }, Act::Letter, Act::Transaction { ms: 0 }]),
        Act::Race(vec![Act::Step { ms: 50 }, Act::Transaction { ms: 0 }]),
        child(How::Plain),
        child(How::Detached),
        job(How::Plain),
        job(How::Keyed),
        Act::Join(vec![Act::Busy { ms: 0 }, Act::Step { ms: 1 }, Act::Busy { ms: 1 }]),
        Act::Count,
        Act::Count,
        Act::Race(vec![Act::Busy { ms: 50 }, Act::Step { ms: 50 }, Act::Busy { ms: 0 }]),
        Act::Watch {
            plan: Plan { acts: vec![Act::Sleep { ms: 30 }, Act::Step { ms: 20 }], from: 0 },
            how: How::Plain,
        },
    ];
    Plan { acts, from: 0 }
}

/// Three steps, of which the second takes two tries to undo.
fn trip(rest_ms: u64, fails: bool) -> Saga {
    let leg = |undo_fails, rest_ms| Leg { ms: 1, rest_ms, undo_ms: 1, undo_fails };
    Saga { legs: vec![leg(0, 0), leg(1, 2), leg(0, rest_ms)], fails }
}

/// What an engine leaves behind that nobody kills.
async fn honest() -> Evidence {
    let folder = TempDir::new().unwrap();
    let database_url = format!("sqlite://{}", folder.path().join("kill.db").display());
    let mut rng = fastrand::Rng::with_seed(1);
    let scene =
        Scene::open(&database_url, Path::new(""), folder.path(), Orders::default(), &mut rng).await.unwrap();
    let ledger = Ledger::open(&folder.path().join("ledger"), 1).unwrap();
    let node = register(Outlast::on(scene.client.store().clone())).state(ledger);
    let node = node.run().await.unwrap();
    scene.play("all", everything(), &mut rng).await.unwrap();
    scene.work("job", Work { fails: 9, ms: 0, ticket: None }).await.unwrap();
    scene.saga("happy", trip(0, false), None).await.unwrap();
    scene.saga("sad", trip(0, true), None).await.unwrap();
    for (key, halt) in [("cancelled", Halt::Cancel), ("killed", Halt::Kill)] {
        // It rests for an hour behind its last step.
        scene.saga(key, trip(3_600_000, false), Some((halt, Duration::from_millis(50)))).await.unwrap();
    }
    for gate in Gate::ALL {
        // As many attempts as the slowest gate lets through at once.
        let work = Work { fails: u32::from(gate == Gate::Ordered), ms: 2, ticket: None };
        scene.queue_up(gate.name(), gate, 7, &[work; 3]).await.unwrap();
    }
    while !scene.evidence().await.unwrap().beats.iter().all(|beat| beat.last.is_some()) {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    beats::end(&scene.client).await.unwrap();
    // The child that was let go is somewhere.
    while !scene.evidence().await.unwrap().runs.iter().all(|view| view.status.is_final()) {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    drop(node);
    scene.evidence().await.unwrap()
}

/// The first call of the body of a step, with its place.
fn begin(evidence: &Evidence, step: &str) -> (usize, Call) {
    let begins = evidence.ledger.iter().enumerate().filter_map(|(place, line)| match line {
        Line::Begin(call) if call.step == step => Some((place, call.clone())),
        _ => None,
    });
    begins.into_iter().next().expect("it began")
}

/// What the checker says after something was changed.
fn after(honest: &Evidence, lie: impl FnOnce(&mut Evidence)) -> String {
    let mut evidence = honest.clone();
    lie(&mut evidence);
    let violations = check(&evidence).violations;
    violations.iter().map(|violation| violation.what.clone()).collect::<Vec<_>>().join("\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_honest_history_is_found_in_order_and_every_lie_in_it_is_seen() {
    let honest = honest().await;
    let verdict = check(&honest);
    assert!(verdict.violations.is_empty(), "{:?}", verdict.violations);
    assert_eq!((verdict.lost, verdict.repeated, verdict.kills), (0, 0, 0));
    assert!(verdict.steps > 15, "{}", verdict.steps);

    let said = after(&honest, |evidence| drop(evidence.effects.pop()));
    assert!(said.contains("wrote the rows []"), "{said}");
    let said = after(&honest, |evidence| evidence.effects.extend_from_within(..1));
    assert!(said.contains("wrote the rows ["), "{said}");
    let said = after(&honest, |evidence| evidence.integrity = Some("row 7 missing from index".into()));
    assert!(said.contains("damaged"), "{said}");

    let said = after(&honest, |evidence| evidence.contradictions.push("two rows for one run".into()));
    assert!(said.contains("contradicts itself: two rows"), "{said}");
    let said = after(&honest, |evidence| {
        // A node that nobody has seen work since, and one that nobody expects to.
        evidence.ledger.extend([Line::Up { node: 8 }, Line::Up { node: 9 }, Line::Left { node: 9 }]);
        evidence.ledger.push(Line::Heal { at: 0 });
    });
    assert_eq!(said, "node 8 ended 0 new bodies after the last fault");

    let said = after(&honest, |evidence| evidence.runs.retain(|view| view.record.key.is_none()));
    assert!(said.contains("was acknowledged and is lost"), "{said}");
    let said = after(&honest, |evidence| evidence.calls.retain(|call| call.key != "job"));
    assert!(said.contains("nobody asked for this work"), "{said}");
    let said = after(&honest, |evidence| {
        let child = evidence.runs.iter().position(|view| view.record.parent.is_some()).unwrap();
        evidence.runs.remove(child);
    });
    assert!(said.contains("was started by another run and is lost"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_runs_again_after_its_record_is_seen_whoever_was_killed() {
    let honest = honest().await;
    for step in ["step-4", "flaky-0", "doomed-6", "tx-7", "step-14#2", "job"] {
        let (_, call) = begin(&honest, step);
        let said = after(&honest, |evidence| {
            evidence.ledger.push(Line::Kill { node: 1 });
            evidence.ledger.push(Line::Begin(Call { node: 2, value: 1, ..call.clone() }));
        });
        assert!(said.contains("although its result was recorded"), "{step}: {said}");
        let said = after(&honest, |evidence| {
            evidence.ledger.push(Line::Begin(Call { node: 2, value: 1, ..call.clone() }));
        });
        assert!(said.contains("which was alive"), "{step}: {said}");
    }
    // A repetition before the record is what a kill may cause.
    let (place, call) = begin(&honest, "step-4");
    let said = after(&honest, |evidence| {
        evidence.ledger.insert(place, Line::Kill { node: 7 });
        evidence.ledger.insert(place, Line::Begin(Call { node: 7, value: 1, ..call.clone() }));
    });
    assert_eq!(said, "");
    // What lost its race stays lost.
    let (_, call) = begin(&honest, "step-15.0");
    let said = after(&honest, |evidence| {
        evidence.ledger.push(Line::Kill { node: 1 });
        evidence.ledger.push(Line::Begin(Call { node: 2, value: 1, ..call.clone() }));
    });
    assert!(said.contains("although it had lost its race"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_that_changed_and_events_out_of_order_are_seen() {
    let honest = honest().await;
    let (place, call) = begin(&honest, "flaky-5");
    let said = after(&honest, |evidence| {
        evidence.ledger[place] = Line::Begin(Call { sum: call.sum + 1, ..call.clone() });
    });
    assert!(said.contains("had seen something else"), "{said}");
    let said = after(&honest, |evidence| {
        evidence.ledger[place] = Line::Begin(Call { step: "flaky-99".into(), ..call.clone() });
    });
    assert!(said.contains("no plan has it"), "{said}");

    let done = |entry: &&outlast::Entry| entry.op == Op::Step && entry.phase == Phase::Done;
    let all = honest.runs.iter().find(|view| view.record.key.as_deref() == Some("all")).unwrap();
    let run = all.record.id;
    let entry = honest.journals[&run].iter().find(done).unwrap().clone();
    let said = after(&honest, |evidence| evidence.journals.get_mut(&run).unwrap().push(entry.clone()));
    assert!(said.contains("has two results"), "{said}");
    let said = after(&honest, |evidence| {
        evidence.journals.get_mut(&run).unwrap().retain(|kept| kept.pos != entry.pos);
    });
    assert!(said.contains("is in the journal as None"), "{said}");

    let whole = honest.journals[&run].clone();
    let said = after(&honest, |evidence| {
        evidence.earlier.push(Glance { run, entries: whole[..whole.len() / 2].to_vec() })
    });
    assert_eq!(said, "", "a history that has grown");
    let mut other = whole.clone();
    other[1].at = Timestamp::default();
    let mut longer = whole.clone();
    longer.push(Entry { pos: 1_000, ..entry.clone() });
    for entries in [other, longer] {
        let said = after(&honest, |evidence| evidence.earlier.push(Glance { run, entries: entries.clone() }));
        assert!(said.contains("its journal once had, and has no more"), "{said}");
    }

    let said = after(&honest, |evidence| {
        for call in &mut evidence.calls {
            match &mut call.asked {
                Asked::Send { name, value } if name == "tick" => *value = 4 - *value,
                _ => {}
            }
        }
    });
    assert!(said.contains("in another order than sent"), "{said}");
    let said = after(&honest, |evidence| {
        for call in &mut evidence.calls {
            if let Asked::Settle { value, .. } = &mut call.asked {
                *value += 1;
            }
        }
    });
    assert!(said.contains("settled were"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_saga_that_is_not_undone_newest_first_and_once_each_is_seen() {
    let honest = honest().await;
    let of = |key: &str| {
        let view = honest.runs.iter().find(|view| view.record.key.as_deref() == Some(key));
        view.map(|view| view.record.id).unwrap()
    };
    let (happy, sad) = (of("happy"), of("sad"));
    let undos = |entries: &[Entry]| -> Vec<usize> {
        let is = |entry: &Entry| {
            entry.op == Op::Undo && entry.phase == Phase::Done && entry.name.starts_with("do-")
        };
        entries.iter().enumerate().filter(|(_, entry)| is(entry)).map(|(place, _)| place).collect()
    };
    let places = undos(&honest.journals[&sad]);
    assert_eq!(places.len(), 3);
    let said = after(&honest, |evidence| drop(evidence.journals.get_mut(&sad).unwrap().remove(places[1])));
    assert!(said.contains("undid [\"do-2\", \"do-0\"]"), "{said}");
    let said = after(&honest, |evidence| evidence.journals.get_mut(&sad).unwrap().swap(places[0], places[2]));
    assert!(said.contains("undid [\"do-0\", \"do-1\", \"do-2\"]"), "{said}");
    let undo = honest.journals[&sad][places[0]].clone();
    for (run, lie) in [(sad, "has two results"), (happy, "is completed, did")] {
        let said = after(&honest, |evidence| evidence.journals.get_mut(&run).unwrap().push(undo.clone()));
        assert!(said.contains(lie), "{said}");
    }

    let began = |run, step: &str| {
        let is = |line: &Line| matches!(line, Line::Begin(call) if call.run == run && call.step == step);
        honest.ledger.iter().position(is).unwrap()
    };
    let said = after(&honest, |evidence| evidence.ledger.swap(began(sad, "undo-2"), began(sad, "undo-0")));
    assert!(said.contains("what undoes that began as"), "{said}");
    let said = after(&honest, |evidence| {
        let Line::Begin(call) = honest.ledger[began(sad, "undo-2")].clone() else { unreachable!() };
        evidence.ledger.push(Line::Begin(Call { node: 2, value: 1, ..call }));
    });
    assert!(said.contains("which was alive"), "{said}");

    let ended = |key: &str, status| {
        let key = key.to_owned();
        after(&honest, move |evidence| {
            let view = evidence.runs.iter_mut().find(|view| view.record.key.as_ref() == Some(&key));
            view.unwrap().status = status;
        })
    };
    let said = ended("happy", Status::Cancelled);
    assert!(said.contains("is cancelled, and should be completed"), "{said}");
    let said = ended("cancelled", Status::Undoing);
    assert!(said.contains("is undoing, and should be completed"), "{said}");
}

/// The first call of a body that a gate let through, with its place.
fn through(evidence: &Evidence, gate: Gate) -> (usize, Call) {
    let begins = evidence.ledger.iter().enumerate().find_map(|(place, line)| match line {
        Line::Begin(call) if call.gate() == Some(gate) => Some((place, call.clone())),
        _ => None,
    });
    begins.unwrap()
}

/// As many more calls like one, on as many other nodes.
fn more(evidence: &mut Evidence, gate: Gate, count: u32, of_group: Option<u64>) {
    let (place, call) = through(evidence, gate);
    for n in 1..=count {
        let mut call = Call { node: 100 + n, value: u64::from(n), ..call.clone() };
        if let Some((ticket, group)) = call.work.as_mut().and_then(|work| work.ticket.as_mut()).zip(of_group)
        {
            ticket.group = group + u64::from(n);
        }
        evidence.ledger.insert(place + n as usize, Line::Begin(call.clone()));
        evidence.ledger.insert(place + 2 * n as usize, Line::Dropped(call));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_that_lets_too_many_through_is_seen_whatever_its_rule() {
    let honest = honest().await;
    let said = after(&honest, |evidence| more(evidence, Gate::Limited, 4, Some(50)));
    assert!(said.contains("limited: 5 ran at once on all nodes, allowed are 4"), "{said}");
    let said = after(&honest, |evidence| more(evidence, Gate::Limited, 3, Some(50)));
    assert!(!said.contains("ran at once"), "{said}");
    let said = after(&honest, |evidence| more(evidence, Gate::Grouped, 2, None));
    assert!(said.contains("grouped: 3 ran at once of one group, allowed are 2"), "{said}");
    let said = after(&honest, |evidence| {
        let (place, call) = through(evidence, Gate::Spread);
        for value in [1, 2] {
            evidence.ledger.insert(place, Line::Begin(Call { value, ..call.clone() }));
        }
    });
    assert!(said.contains("spread: 3 ran at once on one node, allowed are 2"), "{said}");
    let said = after(&honest, |evidence| more(evidence, Gate::Paced, 8, Some(50)));
    assert!(said.contains("began within 1s, allowed are 8 in 2s"), "{said}");
    let said = after(&honest, |evidence| more(evidence, Gate::PacedGroups, 4, None));
    assert!(said.contains("paced_groups group 7: "), "{said}");
    let said = after(&honest, |evidence| more(evidence, Gate::PacedGroups, 4, Some(50)));
    assert!(!said.contains("paced_groups group"), "{said}");

    // Whoever is dead runs nothing, and so does whoever was dropped.
    for gone in [|_: &Call| Line::Kill { node: 101 }, |call: &Call| Line::Dropped(call.clone())] {
        let said = after(&honest, |evidence| {
            let (place, call) = through(evidence, Gate::Ordered);
            let call = Call { node: 101, value: 1, ..call };
            evidence.ledger.insert(place, gone(&call));
            evidence.ledger.insert(place, Line::Begin(call));
        });
        assert!(!said.contains("ran at once"), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_jumps_a_line_is_seen_and_so_is_a_time_or_a_count_that_is_missing_or_comes_twice() {
    let honest = honest().await;
    let nth = |line: &Line| match line {
        Line::Begin(call) if call.gate() == Some(Gate::Ordered) => Some(call.work?.ticket?.nth),
        _ => None,
    };
    let place =
        |evidence: &Evidence, wanted| evidence.ledger.iter().position(|line| nth(line) == Some(wanted));
    let said = after(&honest, |evidence| {
        let (first, last) = (place(evidence, 0).unwrap(), place(evidence, 2).unwrap());
        evidence.ledger.swap(first, last);
    });
    assert!(said.contains("group-7, number 2 of it, began after number 0 (ended: false)"), "{said}");
    let said = after(&honest, |evidence| {
        // The second begins after the first attempt of the first, which failed.
        let (first, second) = (place(evidence, 0).unwrap(), place(evidence, 1).unwrap());
        let line = evidence.ledger.remove(second);
        evidence.ledger.insert(first + 2, line);
    });
    assert!(said.contains("number 1 of it, began after number 0 (ended: false)"), "{said}");

    let beat = |evidence: &Evidence| evidence.runs.iter().position(|view| view.record.definition == "beat");
    let said = after(&honest, |evidence| drop(evidence.runs.remove(beat(evidence).unwrap())));
    assert!(said.contains("passed without a run"), "{said}");
    let said = after(&honest, |evidence| evidence.runs.push(evidence.runs[beat(evidence).unwrap()].clone()));
    assert!(said.contains("has two runs"), "{said}");
    let said = after(&honest, |evidence| evidence.beats[0].started += 1);
    assert!(said.contains("says that it started"), "{said}");

    let said = after(&honest, |evidence| evidence.counter += 1);
    assert!(said.contains("the counter stands at 3, 2 times it was raised"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_of_a_node_that_does_not_have_the_run_any_more_is_seen_in_the_database_itself() {
    if skipped() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let database = TestDatabase::create("outlast_empty", async |_| Ok(())).await.unwrap();
    let mut rng = fastrand::Rng::with_seed(1);
    let opened = Scene::open(database.url(), Path::new(""), folder.path(), Orders::default(), &mut rng);
    let scene = opened.await.unwrap();
    let ledger = Ledger::open(&folder.path().join("ledger"), 1).unwrap();
    let node = register(Outlast::on(scene.client.store().clone())).state(ledger).run().await.unwrap();
    let run = scene.start_work("job", Work { fails: 0, ms: 60_000, ticket: None }).await.unwrap().id();
    while scene.client.status(run).await.unwrap().epoch < 1 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    assert!(scene.evidence().await.unwrap().contradictions.is_empty());

    let late = "insert into outlast.journal (shard, run, pos, kind, epoch, at, name)
                select shard, id, 99, 1, epoch - 1, 0, 'late' from outlast.agenda where epoch > 0";
    scene.client.transaction(async |tx: Tx| Ok::<_, Error>(tx.execute(late, ()).await?)).await.unwrap();
    let said = scene.evidence().await.unwrap().contradictions;
    assert!(said.iter().any(|what| what.contains("did not have the run any more")), "{said:?}");
    drop(node);
}

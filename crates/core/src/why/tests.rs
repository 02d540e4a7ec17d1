use std::time::Duration;

use super::*;
use crate::{
    Admission, Candidate, Entry, FailureDoc, Op, OpenNote, Payload, Phase, QueueRules, QueueState, Rate,
};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_micros(seconds * 1_000_000)
}

fn run(n: u64) -> RunId {
    RunId::new(0, at(0), n)
}

fn node(n: u128) -> NodeId {
    NodeId::new(n)
}

/// A run of group `a` that has been due since second 50, at second 100, with a node that would take it.
fn due() -> Facts {
    let stand =
        Stand { status: Status::Ready, due_at: Some(at(50)), holder: None, reason: None, waits: Vec::new() };
    let candidate =
        Candidate { run: run(1), priority: 5, due_at: at(50), group: Some("a".into()), begins: true };
    Facts {
        now: at(100),
        ended_at: None,
        stand,
        code: "ship@2".into(),
        candidate,
        created_at: at(40),
        attempt: 1,
        crashes: 0,
        nodes: vec![LiveNode { id: node(1), knows: true, serves: true, held: 0 }],
        queue: "parcels".into(),
        line: None,
    }
}

fn line(rules: QueueRules) -> Line {
    Line { admission: Admission { rules, now: at(100), want: 1, ..Admission::default() }, ..Line::default() }
}

fn wait(on: WaitOn, name: &str, until: Option<Timestamp>) -> Wait {
    Wait { on, name: name.into(), since: at(10), until, run: None, attempt: None }
}

fn waiting(due_at: Option<Timestamp>, waits: Vec<Wait>) -> Facts {
    let mut facts = due();
    facts.stand = Stand { status: Status::Waiting, due_at, waits, ..facts.stand };
    facts
}

#[test]
fn the_first_reason_counts_and_the_next_shows_when_it_is_gone() {
    let rules = QueueRules {
        limit: Some(1),
        per_group: Some(1),
        per_node: Some(1),
        rate: Some(Rate::new(1, Duration::from_secs(60))),
        ordered: true,
        ..QueueRules::default()
    };
    let mut facts = due();
    let mut full = line(rules.clone());
    full.admission.held = 1;
    full.admission.held_by_group.insert("a".into(), 1);
    full.admission.window.take(Rate::new(1, Duration::from_secs(60)), at(99), 1);
    full.admission.heads.insert("a".into(), run(7));
    (full.state, full.since) = (QueueState::Paused, Some(at(90)));
    facts.line = Some(full);
    facts.nodes = vec![LiveNode { id: node(1), knows: false, serves: true, held: 1 }];
    facts.ended_at = Some(at(99));
    facts.stand.holder = Some(Holder { node: node(3), name: "web".into(), lease_until: Some(at(110)) });
    let mut told = Vec::new();
    let mut tell = |facts: &Facts| told.push(facts.clone().why().kind());

    tell(&facts);
    facts.ended_at = None;
    tell(&facts);
    facts.stand.holder = Some(Holder { node: node(3), name: "web".into(), lease_until: Some(at(90)) });
    tell(&facts);
    facts.stand.holder = None;
    (facts.stand.status, facts.stand.reason) = (Status::Blocked, Some("no node knows ship@2".into()));
    tell(&facts);
    (facts.stand.status, facts.stand.reason) = (Status::Ready, None);
    facts.stand.due_at = Some(at(101));
    tell(&facts);
    facts.stand.due_at = Some(at(50));
    let nodes = std::mem::take(&mut facts.nodes);
    tell(&facts);
    facts.nodes = nodes;
    tell(&facts);
    (facts.nodes[0].knows, facts.nodes[0].serves) = (true, false);
    tell(&facts);
    facts.nodes[0].serves = true;
    tell(&facts);
    if let Some(line) = &mut facts.line {
        (line.state, line.since) = (QueueState::Draining, Some(at(30)));
    }
    tell(&facts);
    facts.created_at = at(20);
    tell(&facts);
    for lift in [
        |line: &mut Line| line.admission.heads.clear(),
        |line: &mut Line| line.admission.held = 0,
        |line: &mut Line| line.admission.held_by_group.clear(),
        |line: &mut Line| line.admission.window = crate::Window::default(),
        |line: &mut Line| line.admission.rules.per_node = None,
    ] {
        facts.line.as_mut().into_iter().for_each(lift);
        tell(&facts);
    }
    assert_eq!(
        told,
        [
            "ended",
            "held",
            "node_lost",
            "blocked",
            "later",
            "no_node",
            "no_code",
            "not_served",
            "queue_paused",
            "queue_draining",
            "behind_in_order",
            "queue_full",
            "group_full",
            "rate_spent",
            "nodes_full",
            "due",
        ]
    );
}

#[test]
fn of_an_ordered_group_whoever_is_first_in_line_comes_first() {
    let ordered = QueueRules { ordered: true, ..QueueRules::default() };
    let mut facts = due();
    facts.line = Some(Line { first: Some(run(9)), ..line(ordered.clone()) });
    let behind = Why::BehindInOrder { queue: "parcels".into(), group: "a".into(), head: run(9) };
    assert_eq!(facts.clone().why(), behind);
    facts.line = Some(Line { first: Some(run(1)), ..line(ordered) });
    assert_eq!(facts.why(), Why::Due { at: at(50) });
}

#[test]
fn a_run_that_is_due_later_says_what_for() {
    let later = |change: fn(&mut Facts)| {
        let mut facts = due();
        facts.stand.due_at = Some(at(200));
        change(&mut facts);
        facts.why()
    };
    assert_eq!(later(|_| {}), Why::Later { at: at(200) });
    assert_eq!(later(|facts| facts.attempt = 3), Why::Retry { at: at(200), attempt: 3, step: None });
    let crashed = later(|facts| (facts.crashes, facts.attempt) = (2, 3));
    assert_eq!(crashed, Why::AfterCrash { at: at(200), crashes: 2 });
    assert_eq!(later(|facts| facts.stand.status = Status::Undoing), Why::Undoing { at: at(200) });

    let sleep = wait(WaitOn::Sleep, "sleep", Some(at(200)));
    assert_eq!(waiting(Some(at(200)), vec![sleep.clone()]).why(), Why::Sleeping { until: at(200) });
    let retry = Wait { attempt: Some(2), ..wait(WaitOn::Retry, "charge", Some(at(150))) };
    let both = waiting(Some(at(150)), vec![sleep.clone(), retry]).why();
    assert_eq!(both, Why::Retry { at: at(150), attempt: 2, step: Some("charge".into()) });
    let event = wait(WaitOn::Event, "approval", None);
    let told = waiting(Some(at(200)), vec![event.clone(), sleep.clone()]).why();
    assert_eq!(told, Why::Waiting { waits: vec![event.clone(), sleep], until: Some(at(200)) });
    assert_eq!(waiting(None, vec![event.clone()]).why(), Why::Waiting { waits: vec![event], until: None });
    // Its timeout alone.
    assert_eq!(waiting(Some(at(200)), Vec::new()).why(), Why::Sleeping { until: at(200) });
}

#[test]
fn a_run_that_nothing_wakes_is_told_apart() {
    let none = |stand: Stand| matches!(Facts { stand, ..due() }.why(), Why::NoWake { .. });
    let lost = Stand { due_at: None, ..due().stand };
    assert!(none(lost.clone()));
    for status in [Status::Running, Status::Waiting, Status::Undoing, Status::Blocked, Status::UndoFailed] {
        assert!(none(Stand { status, ..lost.clone() }), "{status}");
    }
    assert!(none(Stand { status: Status::Completed, ..due().stand }));
    let holder = Some(Holder { node: node(9), name: String::new(), lease_until: None });
    assert!(none(Stand { status: Status::Running, holder, ..lost.clone() }));
    assert!(!none(Stand { status: Status::Paused, ..lost }));
}

#[test]
fn waits_that_lost_their_race_or_were_answered_wake_nobody() {
    let open = vec![
        wait(WaitOn::Event, "go", None),
        wait(WaitOn::Event, "late", Some(at(50))),
        wait(WaitOn::Sleep, "sleep", Some(at(200))),
    ];
    let names = |waits: Vec<Wait>| waits.into_iter().map(|wait| wait.name).collect::<Vec<_>>();
    assert_eq!(names(live_waits(open.clone(), Some(at(200)), &[])), ["go", "sleep"]);
    assert_eq!(names(live_waits(open.clone(), None, &[])), ["go"]);
    let unread = |on, name: &str| Unread { on, name: name.into() };
    assert!(live_waits(open.clone(), None, &[unread(WaitOn::Event, "go")]).is_empty());
    let other = [unread(WaitOn::Promise, "go"), unread(WaitOn::Event, "other")];
    assert_eq!(names(live_waits(open, None, &other)), ["go"]);
}

#[test]
fn waits_are_read_from_what_opened_them() {
    let entry = |op, phase, name: &str, note: &dyn Fn() -> Vec<u8>| Entry {
        pos: 1,
        op,
        phase,
        name: name.into(),
        at: at(10),
        took: None,
        body: Some(Payload { codec: None, bytes: note().into() }),
    };
    let open = |event: Option<&str>| {
        let note = OpenNote { until: Some(at(99)), event: event.map(str::to_owned), ..OpenNote::default() };
        serde_json::to_vec(&note).unwrap()
    };
    let event = Wait::opened(&entry(Op::Event, Phase::Opened, "approval#2", &|| open(None))).unwrap();
    assert_eq!((event.on, &*event.name, event.until), (WaitOn::Event, "approval", Some(at(99))));
    let scoped = entry(Op::Event, Phase::Opened, "a#2/order/paid", &|| open(Some("order/paid")));
    assert_eq!(Wait::opened(&scoped).unwrap().name, "order/paid");
    let promise = Wait::opened(&entry(Op::Promise, Phase::Opened, "paid#2", &|| open(None))).unwrap();
    assert_eq!((promise.on, &*promise.name), (WaitOn::Promise, "paid#2"));
    let note = || {
        let failure = FailureDoc::Outlast(crate::Error::Cancelled { reason: "x".into() });
        let note = crate::AttemptNote {
            attempt: 2,
            failure,
            next_at: at(70),
            saved: None,
            gave_up: false,
            node: None,
        };
        serde_json::to_vec(&note).unwrap()
    };
    let retry = Wait::opened(&entry(Op::Step, Phase::Attempt, "charge", &note)).unwrap();
    assert_eq!((retry.on, retry.until, retry.attempt), (WaitOn::Retry, Some(at(70)), Some(3)));
    assert_eq!(Wait::opened(&entry(Op::Step, Phase::Done, "charge", &note)), None);
    assert_eq!(Wait::opened(&entry(Op::Child, Phase::Opened, "ship", &|| open(None))), None);
}

#[test]
fn reasons_are_json_with_a_kind_and_return_as_they_went() {
    let waits = vec![Wait { run: Some(run(5)), ..wait(WaitOn::Child, "ship", None) }];
    let reasons = [
        Why::Held { node: node(1), name: "web-1".into(), until: at(60) },
        Why::Waiting { waits, until: Some(at(60)) },
        Why::QueueFull { queue: "mail".into(), limit: 2, held: 2, by: vec![run(2), run(3)] },
        Why::Paused { reason: None },
        Why::Due { at: at(60) },
    ];
    for why in reasons {
        let told = Explained {
            run: run(1),
            status: Status::Ready,
            why,
            asked_to_stop: Some("too late".into()),
            now: at(70),
        };
        let json = serde_json::to_value(&told).unwrap();
        assert_eq!(json["kind"], told.why.kind());
        assert_eq!(serde_json::from_value::<Explained>(json).unwrap(), told);
    }
    let json = serde_json::to_string(&Why::Due { at: at(60) }).unwrap();
    assert_eq!(json, r#"{"kind":"due","at":"1970-01-01T00:01:00.000000Z"}"#);
}

#[test]
fn reasons_are_sentences_with_their_remedy() {
    let said = |why: Why| why.to_string();
    assert_eq!(
        said(Why::NoCode { code: "ship@2".into() }),
        "no node that is up knows ship@2: start one that registers this name and version"
    );
    assert_eq!(
        said(Why::QueuePaused { queue: "mail".into(), since: Some(at(60)) }),
        "queue mail is paused since 1970-01-01T00:01:00Z: `outlast queue resume mail`"
    );
    let waits = vec![wait(WaitOn::Event, "go", None), wait(WaitOn::Stop, "stop", None)];
    assert_eq!(
        said(Why::Waiting { waits, until: None }),
        "waiting for event go (since 1970-01-01T00:00:10Z) or the request to stop (since 1970-01-01T00:00:10Z)"
    );
    let full = Why::QueueFull { queue: "mail".into(), limit: 2, held: 2, by: vec![run(2)] };
    assert_eq!(said(full), format!("queue mail is full: 2 of 2 run ({})", run(2)));
    assert_eq!(
        said(Why::AfterCrash { at: at(60), crashes: 1 }),
        "1 process died while it ran it: it rests until 1970-01-01T00:01:00Z"
    );
}

#[test]
fn a_rate_of_a_group_is_told_as_such_where_it_is_what_holds_back() {
    let (slow, quick) = (Rate::new(1, Duration::from_secs(60)), Rate::new(1, Duration::from_secs(5)));
    let spent = |rate: Rate, rate_per_group: Rate| {
        let rules =
            QueueRules { rate: Some(rate), rate_per_group: Some(rate_per_group), ..QueueRules::default() };
        let mut line = line(rules);
        line.admission.window.take(rate, at(99), 1);
        line.admission.windows.entry("a".into()).or_default().take(rate_per_group, at(99), 1);
        Facts { line: Some(line), ..due() }.why().to_string()
    };
    assert!(spent(quick, slow).starts_with("the rate of group a of queue parcels is spent: "));
    assert!(spent(slow, quick).starts_with("the rate of queue parcels is spent: "));
}

#[test]
fn blocked_for_want_of_a_node_for_its_queue_it_asks_for_one() {
    let blocked = |reason: &str| {
        let mut facts = due();
        (facts.stand.status, facts.stand.reason) = (Status::Blocked, Some(reason.to_owned()));
        facts.why().to_string()
    };
    let unserved = blocked(&not_served("ship@2", "parcels"));
    assert!(unserved.contains("a node joins that knows its code and takes from queue parcels"), "{unserved}");
    assert!(blocked("no node knows ship@2").contains("a node joins with code that fits"));
}

#[test]
fn only_times_at_which_a_run_goes_on_by_itself_can_be_changed() {
    let at = Timestamp::from_micros(5);
    let wait = |on, until| Wait { on, name: "x".into(), since: at, until, run: None, attempt: None };
    let waiting = |waits| Why::Waiting { waits, until: Some(at) }.later();
    let retry = |step: Option<&str>| Why::Retry { at, attempt: 2, step: step.map(Into::into) }.later();
    assert_eq!(Why::Later { at }.later(), Some(Later::Due(at)));
    assert_eq!(Why::AfterCrash { at, crashes: 3 }.later(), Some(Later::Due(at)));
    assert_eq!(retry(None), Some(Later::Due(at)));
    assert_eq!(retry(Some("charge")), Some(Later::Timer(at)));
    assert_eq!(Why::Sleeping { until: at }.later(), Some(Later::Timer(at)));
    let either = vec![wait(WaitOn::Event, None), wait(WaitOn::Sleep, Some(at))];
    assert_eq!(waiting(either), Some(Later::Timer(at)));
    // Its own timeout comes first, or there is no sleep at all.
    let later = Some(Timestamp::from_micros(9));
    assert_eq!(waiting(vec![wait(WaitOn::Event, Some(at)), wait(WaitOn::Sleep, later)]), None);
    assert_eq!(waiting(vec![wait(WaitOn::Event, Some(at))]), None);
    for other in [Why::Ended { at }, Why::Due { at }, Why::Undoing { at }, Why::Paused { reason: None }] {
        assert_eq!(other.later(), None, "{other}");
    }
}

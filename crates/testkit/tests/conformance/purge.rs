//! Purge: old ended runs go, with everything of them, and nothing else does.

use outlast_core::{RunId, Status};
use outlast_store::{Address, Control, Controlled, Definitions, Ended, Mark, Next, Purge, Purged, Started};
use outlast_testkit::{TABLES, Turn, World, event, key, settlement, store_test};

use crate::kv::set;
use crate::{DAY, MINUTE};

async fn purge(world: &World, limit: u32) -> u64 {
    match world.control(&Control::Purge(Purge::older_than(DAY, limit))).await {
        Controlled::Purged(purged) => purged.runs,
        other => panic!("{other:?}"),
    }
}

/// A run with rows in every table that can hold some of it, up to its end.
async fn a_full_life(world: &World, name: &str) -> Turn {
    world.deliver(&event(key("order", name), "approval", "before it began")).await;
    let run = world.start_keyed("order", name).tag("city", "Bern").await;
    world.deliver(&settlement(Address::Run(run.id), "paid", "yes")).await;
    let turn = run.claimed_by("node").await;
    world.listen(turn.run, turn.run, "itself").await;
    world
        .commit(turn.records(1, "one").doing("two", 1, Some("half")).logs(1, "on").tag("stage", "paid"))
        .await;
    turn
}

#[store_test]
async fn the_suite_knows_every_table(world: World) {
    assert_eq!(
        world.tables().await,
        TABLES.map(|(table, _)| table),
        "teach it to the snapshots, and to purge"
    );
}

#[store_test]
async fn everything_of_a_run_goes(world: World) {
    // What stays: nodes, definitions and queues, values that are nobody's, ids, which are forgotten by their age, and whose
    // children are to be asked to stop, which goes when they were.
    let stays = [
        "nodes",
        "definitions",
        "queues",
        "groups",
        "uniques",
        "schedules",
        "orphans",
        "deliveries",
        "kv",
        "kv_writes",
        "tokens",
        "audit",
        "audit_chain",
        "replies",
        "sessions",
        "depths",
        "leases",
        "lost",
        "rolled",
        "rollups",
        "rollup_times",
        "rollup_waits",
        "failures",
        "failure_minutes",
        "failure_versions",
        "meta",
        "migrations",
    ];
    world.node("node").await;
    world.store().kv_write(&[set("colour", "red")]).await.unwrap();
    let before = world.snapshot().await.without(&stays);
    let turn = a_full_life(&world, "o-1").await;
    let full = world.snapshot().await;
    for (table, _) in TABLES.iter().filter(|(table, _)| !stays.contains(table) && *table != "results") {
        assert!(!full.rows(table).is_empty(), "{table}: give the full life a row there");
    }
    turn.completed("done").await;
    // A node of a version that knows no listeners leaves them behind.
    let (shard, id) = (turn.run.shard(), world.sql_id(turn.run));
    world.raw(&format!("insert into outlast.listeners values ({shard}, {id}, {id}, 'left')")).await;
    world.pass(DAY * 2).await;
    assert_eq!(purge(&world, 10).await, 1);
    assert_eq!(world.snapshot().await.without(&stays), before);
    assert!(world.store().run(turn.run).await.unwrap().is_none());
    assert_eq!(world.snapshot().await.rows("kv"), full.rows("kv"));
}

#[store_test]
async fn only_what_ended_long_ago_goes(world: World) {
    let old = a_full_life(&world, "old").await;
    old.completed("done").await;
    let unfinished = a_full_life(&world, "unfinished").await;
    let waiting = a_full_life(&world, "waiting").await;
    waiting.suspended().await;
    let cancelled = world.start("greet").await;
    world.cancel(cancelled.id, "enough").await;
    world.deliver(&event(key("order", "future"), "approval", "kept")).await;

    world.pass(DAY - MINUTE).await;
    assert_eq!(purge(&world, 10).await, 0);
    let young = a_full_life(&world, "young").await;
    young.completed("done").await;
    world.pass(MINUTE * 2).await;
    assert_eq!(purge(&world, 10).await, 2);

    assert!(world.store().run(old.run).await.unwrap().is_none());
    assert!(world.store().run(cancelled.id).await.unwrap().is_none());
    assert_eq!(world.status(unfinished.run).await, Status::Running);
    assert_eq!(world.status(waiting.run).await, Status::Waiting);
    assert_eq!(world.output(young.run).await, "done");
    let tag = "select count(*) from outlast.tags where name = 'stage'";
    assert_eq!(world.count(tag).await, 3);
    let run = world.start_keyed("order", "future").await;
    assert_eq!(world.inbox(run.id).await, ["kept"]);
}

#[store_test]
async fn no_more_than_asked_for_go_oldest_first(world: World) {
    let mut runs: Vec<RunId> = Vec::new();
    for _ in 0..5 {
        let turn = world.start("greet").shard(0).held_by("node").await;
        turn.completed("done").await;
        runs.push(turn.run);
        world.pass(MINUTE).await;
    }
    world.pass(DAY).await;
    assert_eq!(purge(&world, 2).await, 2);
    assert!(world.store().run(runs[1]).await.unwrap().is_none());
    assert_eq!(world.status(runs[2]).await, Status::Completed);
    assert_eq!((purge(&world, 2).await, purge(&world, 2).await, purge(&world, 2).await), (2, 1, 0));
}

#[store_test]
async fn a_bound_counts_over_all_shards(world: World) {
    for _ in 0..8 {
        world.start("greet").held_by("node").await.completed("done").await;
    }
    world.pass(DAY * 2).await;
    assert_eq!((purge(&world, 5).await, purge(&world, 5).await), (5, 3));
}

#[store_test]
async fn a_purged_key_is_free_again(world: World) {
    let turn = world.start_keyed("order", "o-1").await.claimed_by("node").await;
    turn.completed("done").await;
    world.pass(DAY * 2).await;
    purge(&world, 10).await;
    assert_eq!(world.store().find(&key("order", "o-1")).await.unwrap(), None);
    let answer = world.start_keyed("order", "o-1").input("another").answer().await;
    assert!(matches!(answer, Started::Created { id, .. } if id != turn.run), "{answer:?}");
}

/// A run of `definition` that ended with this status.
async fn ended(world: &World, definition: &str, status: Status) -> RunId {
    let turn = world.start(definition).shard(0).held_by("node").await;
    let end = Ended { status, output: None, error: None };
    world.commit(turn.writes().next(Next::Finish(end))).await;
    turn.run
}

async fn asked(world: &World, ask: &Purge) -> Purged {
    match world.control(&Control::Purge(ask.clone())).await {
        Controlled::Purged(purged) => purged,
        other => panic!("{other:?}"),
    }
}

async fn is_there(world: &World, run: RunId) -> bool {
    world.store().run(run).await.unwrap().is_some()
}

#[store_test]
async fn only_those_go_that_ended_as_was_said_and_are_of_the_definitions_named(world: World) {
    let completed = ended(&world, "greet", Status::Completed).await;
    let failed = ended(&world, "greet", Status::Failed).await;
    let other = ended(&world, "mail", Status::Failed).await;
    let unfinished = world.start("mail").shard(0).await;
    world.pass(DAY * 2).await;
    let status = Some(Status::Failed);
    let mail = || vec!["mail".to_owned()];

    let except = Purge { status, of: Definitions::Except(mail()), ..Purge::older_than(DAY, 10) };
    assert_eq!(asked(&world, &except).await.runs, 1);
    assert!(!is_there(&world, failed).await);
    assert!(is_there(&world, completed).await && is_there(&world, other).await);

    let only = Purge { of: Definitions::Only(mail()), ..except };
    assert_eq!(asked(&world, &only).await.runs, 1);
    assert!(!is_there(&world, other).await && is_there(&world, completed).await);
    assert_eq!(world.status(unfinished.id).await, Status::Ready);
}

#[store_test]
async fn what_is_kept_longer_is_passed_once_and_holds_up_nobody(world: World) {
    let mut runs = Vec::new();
    for definition in ["mail", "mail", "mail", "greet", "mail", "greet"] {
        runs.push((definition, ended(&world, definition, Status::Failed).await));
    }
    // All at one moment, which a place by time alone could not tell apart.
    world.raw("update outlast.results set finished_at = 1000").await;
    world.pass(DAY * 2).await;
    let of = Definitions::Only(vec!["greet".into()]);
    let mut ask = Purge { status: Some(Status::Failed), of, ..Purge::older_than(DAY, 2) };
    let mut purged = Vec::new();
    loop {
        let batch = asked(&world, &ask).await;
        purged.push(batch.runs);
        assert!(batch.marks[0] >= *ask.after.first().unwrap_or(&Mark::default()), "it never goes back");
        ask.after = batch.marks;
        if !batch.more {
            break;
        }
    }
    assert_eq!(purged.iter().sum::<u64>(), 2);
    assert!(purged.len() <= 4, "two at a time: {purged:?}");
    for (definition, run) in runs {
        assert_eq!(is_there(&world, run).await, definition == "mail");
    }
    // Behind that there is nothing, until more has ended.
    let nothing = asked(&world, &ask).await;
    assert_eq!((nothing.runs, nothing.more, &nothing.marks), (0, false, &ask.after));
    let later = ended(&world, "greet", Status::Failed).await;
    assert_eq!(asked(&world, &ask).await.runs, 0, "it is too young");
    world.pass(DAY * 2).await;
    assert_eq!(asked(&world, &ask).await.runs, 1);
    assert!(!is_there(&world, later).await);
}

#[store_test]
async fn a_bound_leaves_for_the_next_what_it_did_not_reach(world: World) {
    for shard in 0..world.shards() {
        for _ in 0..3 {
            world.start("greet").shard(shard).held_by("node").await.completed("done").await;
        }
    }
    world.pass(DAY * 2).await;
    let (mut ask, mut purged) = (Purge::older_than(DAY, 2), 0);
    loop {
        let batch = asked(&world, &ask).await;
        assert!(batch.runs <= 2, "{batch:?}");
        purged += batch.runs;
        ask.after = batch.marks;
        if !batch.more {
            break;
        }
    }
    assert_eq!(purged, u64::from(world.shards()) * 3);
}

#[store_test]
async fn runs_with_long_journals_go_in_pages_and_progress_is_made_with_each(world: World) {
    for n in 0..3 {
        let turn = world.start("long").held_by("node").await;
        let id = world.sql_id(turn.run);
        let entries = if n == 1 { 12_000 } else { 3_000 };
        world
            .raw(&format!(
                "insert into outlast.journal (shard, run, pos, kind, epoch, at, name)
                 with recursive n (pos) as (select 10 union all select pos + 1 from n where pos < {entries})
                 select r.shard, r.id, n.pos, 0, 1, 0, 'step' from outlast.runs as r, n where r.id = {id}"
            ))
            .await;
        turn.completed("done").await;
    }
    world.pass(DAY * 2).await;
    let count = async || world.count("select count(*) from outlast.journal").await;
    let mut purge = Purge::older_than(DAY, 500);
    let (mut runs, mut rounds, mut before) = (0, 0, count().await);
    loop {
        let Controlled::Purged(purged) = world.control(&Control::Purge(purge.clone())).await else {
            panic!("purged")
        };
        let after = count().await;
        assert!(
            before - after <= 6_000 && (before > after || !purged.more),
            "{before} entries, then {after}"
        );
        (runs, rounds, before, purge.after) = (runs + purged.runs, rounds + 1, after, purged.marks);
        if !purged.more {
            break;
        }
    }
    assert_eq!((runs, before), (3, 0));
    assert!(rounds >= 4, "{rounds} purges");
}

#[store_test]
async fn lines_that_were_logged_go_in_pages_and_their_runs_after_them(world: World) {
    for lines in [3_000, 12_000, 3_000, 0] {
        let turn = world.start("chatty").shard(0).held_by("node").await;
        let id = world.sql_id(turn.run);
        let logged = format!(
            "insert into outlast.logs (shard, run, epoch, n, at, level, message)
             with recursive n (n) as (select 1 union all select n + 1 from n where n < {lines})
             select r.shard, r.id, 1, n.n, 0, 'info', 'said' from outlast.runs as r, n where r.id = {id}"
        );
        if lines > 0 {
            world.raw(&logged).await;
        }
        turn.completed("done").await;
    }
    world.pass(DAY * 2).await;
    let count = async || world.count("select count(*) from outlast.logs").await;
    let mut purge = Purge::older_than(DAY, 500);
    let (mut runs, mut before) = (0, count().await);
    for _ in 0..4 {
        let purged = asked(&world, &purge).await;
        let after = count().await;
        assert!(before - after <= 5_000, "{before} lines, then {after}");
        assert_eq!(purged.more, after > 0);
        (runs, before, purge.after) = (runs + purged.runs, after, purged.marks);
    }
    assert_eq!((runs, before), (4, 0));
}

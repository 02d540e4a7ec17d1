//! What PostgreSQL plans where it knows little, or knows what is no longer so: an empty database, one line of many runs, an index
//! with far more pages than runs.

use outlast_store::{Dialect, Shape, Sql, render, statements};
use outlast_testkit::{StoreKind, World, skipped, store_test};

use crate::bound::{explain, lines, literal, settled_plan, values};
use crate::hot;

/// Twenty thousand runs that are due, one after the other, each in the queue of this name.
async fn stand_in_line(world: &World, queue: &str) {
    let runs = format!(
        "insert into outlast.agenda (shard, id, status, kind, priority, attempt, crashes, due_at, epoch, news, queue, code)
         select 0, gen_random_uuid(), 1, 1, 5, 1, 0, i, 0, 0, {queue}, 'definition 3@1' from generate_series(1, 20000) as s(i)"
    );
    world.raw(&runs).await;
}

fn named(name: &str) -> &'static Sql {
    statements::all().into_iter().find(|sql| sql.name == name).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_reads_no_more_where_all_runs_are_of_one_line_on_postgres() {
    if skipped() {
        println!("skipped: OUTLAST_SKIP_POSTGRES=1");
        return;
    }
    let world = World::open(StoreKind::Postgres, 1).await;
    stand_in_line(&world, "'queue 3'").await;
    world.raw("analyze").await;
    let next = settled_plan(&world, named("claim_next_due"), Shape::Many).await;
    assert!(next.contains("agenda_due") && !next.contains("agenda_next"), "{next}");
    let pick = settled_plan(&world, named("claim_pick"), Shape::Many).await;
    assert!(!pick.contains("Hash Join") && !pick.contains("Merge Join"), "{pick}");
}

// Beside a snapshot that somebody holds, an index keeps what has left it. One that goes along the due times of all queues would be read again for each
// line of each of them, and a planner that sees a few runs on many pages takes it for as good as any.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_claim_goes_along_all_due_times_where_hardly_anything_is_in_line_on_postgres() {
    if skipped() {
        println!("skipped: OUTLAST_SKIP_POSTGRES=1");
        return;
    }
    let world = World::open(StoreKind::Postgres, 1).await;
    stand_in_line(&world, "'queue ' || i % 8").await;
    world.raw("delete from outlast.agenda where due_at > 35").await;
    world.raw("analyze").await;
    for name in ["claim_pick", "claim_next_due", "queue_line", "queue_next", "lines"] {
        let plan = settled_plan(&world, named(name), Shape::Many).await;
        assert!(plan.contains("agenda_due") && !plan.contains("agenda_next"), "{name}: {plan}");
    }
}

// There a planner spreads the pages of an index, which are those of all that was ever in it, over the few rows that are left: a look-up in one that
// has many costs it as much as going along all of another that has fewer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_goes_along_all_ids_where_an_index_has_far_more_pages_than_runs_on_postgres() {
    if skipped() {
        println!("skipped: OUTLAST_SKIP_POSTGRES=1");
        return;
    }
    let world = World::open(StoreKind::Postgres, 1).await;
    // Nobody shall clear away meanwhile what makes the difference.
    world.raw("alter table outlast.agenda set (autovacuum_enabled = off)").await;
    stand_in_line(&world, "'queue ' || i % 8").await;
    // Each was held again and again, so that its id stands in one index once, and in the other as often as it was held.
    for round in 1..=4 {
        let hold = format!(
            "update outlast.agenda set status = 2, due_at = null, node = md5(id::text || '{round}')::uuid, claim = {round}"
        );
        world.raw(&hold).await;
    }
    world
        .raw(
            "delete from outlast.agenda where id not in (select id from outlast.agenda order by id limit 40)",
        )
        .await;
    world.raw("update outlast.agenda set status = 1, node = null, claim = null, due_at = 5 where id not in (select id from outlast.agenda order by id limit 2)").await;
    // As small as it gets, so that all of it looks cheap.
    world.raw("reindex index outlast.agenda_pkey").await;
    world.raw("analyze outlast.agenda").await;

    let mut wrong = Vec::new();
    // Those that repair, list and look after are asked seldom.
    let every_day =
        ["agenda_lock", "agenda_lock_free", "agenda_look", "queue_take", "queue_heads"].map(named);
    for sql in hot(Dialect::Postgres).chain(every_day) {
        for shape in [Shape::Many, Shape::One] {
            let plan = settled_plan(&world, sql, shape).await;
            let mut lines = plan.lines();
            while let Some(line) = lines.find(|line| line.contains("using agenda_pkey")) {
                let goes_by = lines.next().unwrap_or_default();
                if !goes_by.contains(" AND (id ") {
                    wrong.push(format!("{} of {shape:?} goes along all ids:\n{line}\n{goes_by}", sql.name));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Tables that have a row for each run, and more.
const LARGE: [&str; 5] = ["runs", "results", "journal", "keys", "inbox"];
/// What lists, repairs, explains or deletes is asked seldom, and by then somebody has looked at the tables.
const SELDOM: [&str; 9] = [
    "list",
    "count",
    "contradictions",
    "oldest_ended",
    "orphans_page",
    "purge",
    "queue_drain",
    "repair",
    "waits",
];

// What is planned while a database is empty is kept until somebody has looked at its tables: a planner that believes them to
// have a row goes along a whole shard and compares, since ten looks by a key, for which it takes a list, cost it more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_is_planned_while_a_database_is_empty_goes_along_a_whole_shard_on_postgres() {
    if skipped() {
        println!("skipped: OUTLAST_SKIP_POSTGRES=1");
        return;
    }
    let world = World::open(StoreKind::Postgres, 1).await;
    let mut wrong = Vec::new();
    // Those that adopt find a key that a message has reserved.
    let is_seldom =
        |name: &str| SELDOM.iter().any(|seldom| name.starts_with(seldom)) || name.ends_with("_adopt");
    for sql in statements::all().into_iter().filter(|sql| !is_seldom(sql.name)) {
        if render(sql, Dialect::Postgres, Shape::Many).text.is_empty() {
            continue;
        }
        for shape in [Shape::Many, Shape::One] {
            let plan = settled_plan(&world, sql, shape).await;
            let lines: Vec<&str> = plan.lines().collect();
            for pair in lines.windows(2) {
                let is_large = LARGE.iter().any(|table| pair[0].contains(&format!(" on {table} ")));
                let goes_by = pair[1].trim();
                if is_large && goes_by.starts_with("Index Cond: (shard = ") && !goes_by.contains(" AND ") {
                    wrong.push(format!("{} of {shape:?}:\n{}\n{}", sql.name, pair[0], pair[1]));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[store_test]
async fn a_page_of_values_reads_only_the_keys_of_its_prefix(world: World) {
    let list = named("kv_list");
    let plan = match world.kind() {
        StoreKind::Sqlite => explain(&world, list, Shape::One).await.unwrap(),
        StoreKind::Postgres => settled_plan(&world, list, Shape::One).await,
    };
    let ranges: &[&str] = match world.kind() {
        StoreKind::Sqlite => &["shard=? AND tenant=? AND space=? AND key>? AND key<?"],
        StoreKind::Postgres => &["Index Cond", "(key >= ", "(key < "],
    };
    let line = plan.lines().find(|line| ranges.iter().all(|range| line.contains(range)));
    assert!(line.is_some(), "{plan}");
}

/// How much a look may read that finds nothing: a few pages for the way down an index.
const FEW_PAGES: u64 = 100;

// A claim that has room left asks each line for its next time: that must not read the lines behind it, where runs wait by
// the hundred thousand.
#[store_test]
async fn the_next_time_of_a_line_costs_the_same_however_many_wait_in_the_next(world: World) {
    if world.kind() == StoreKind::Sqlite {
        return;
    }
    let sql = named("claim_next_due");
    let rendered = render(sql, Dialect::Postgres, Shape::Many);
    let values: Vec<String> = values(&world, sql, Shape::Many, rendered.now).iter().map(literal).collect();
    let mut tx = world.begin().await;
    let many = "insert into outlast.agenda (shard, id, status, kind, priority, attempt, crashes, due_at, epoch, news, queue, code)
                select 0, gen_random_uuid(), 1, 1, 9, 1, 0, 4000000000000000 + n, 0, 0, 'queue 3', 'definition 3@1'
                  from generate_series(1, 20000) as n";
    for sql in [many, "analyze outlast.agenda", "set local plan_cache_mode = force_generic_plan"] {
        tx.execute(sql, &[]).await.unwrap();
    }
    tx.execute(&format!("prepare look as {}", rendered.text), &[]).await.unwrap();
    let look = format!("explain (analyze, buffers) execute look({})", values.join(", "));
    let plan = lines(&tx.query(&look, &[]).await.unwrap());
    tx.execute("deallocate look", &[]).await.unwrap();
    tx.rollback().await.unwrap();
    let pages = plan.split("shared hit=").nth(1).and_then(|rest| rest.split([' ', '\n']).next());
    let pages: u64 = pages.and_then(|pages| pages.parse().ok()).unwrap();
    assert!(pages < FEW_PAGES, "{pages} pages were read:\n{plan}");
}

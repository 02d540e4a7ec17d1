//! Every statement is one that both databases understand, and every hot one finds its index.
//!
//! The plans are looked at with tables as large as they get, with the default planner, and on
//! PostgreSQL also after so many executions that it may settle on one plan for all parameters.

use outlast_core::{NodeId, RunId};
use outlast_store::{Dialect, Shape, Sql, Type, Value, render, statements};
use outlast_testkit::{StoreKind, TABLES, World, skipped, store_test};
use uuid::Uuid;

#[store_test]
async fn every_statement_is_understood(world: World) {
    let mut wrong = Vec::new();
    // An empty text has nothing to do on this database.
    let has_text = |sql: &&Sql| !render(sql, dialect(&world), Shape::Many).text.is_empty();
    for sql in statements::all().into_iter().filter(has_text) {
        for shape in SHAPES {
            if let Err(refused) = explain(&world, sql, shape).await {
                wrong.push(format!("{} of {shape:?}: {refused}", sql.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_statement_names_its_schema() {
    // Whoever sets another `search_path` on the way (a pooler, a role) does not lead us to other tables.
    let names: Vec<&str> = TABLES.iter().map(|(name, _)| *name).collect();
    let mut wrong = Vec::new();
    for sql in statements::all() {
        let text = render(sql, Dialect::Postgres, Shape::Many).text.to_lowercase();
        let words: Vec<&str> = text.split(|c: char| c.is_whitespace() || "(),;".contains(c)).collect();
        for pair in words.windows(2) {
            let leads = ["from", "join", "into", "update"].contains(&pair[0]);
            if leads && names.contains(&pair[1]) {
                wrong.push(format!("{}: {} {}", sql.name, pair[0], pair[1]));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn hot_statements_are_there_to_look_at() {
    let hot: Vec<&str> =
        statements::all().iter().filter(|sql| sql.index.is_some()).map(|sql| sql.name).collect();
    for name in ["claim_pick", "claim_next_due", "held_by", "overdue", "list"] {
        assert!(hot.contains(&name), "{name} is hot: say which index it needs");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hot_statements_find_their_index_among_many_rows_on_sqlite() {
    let world = World::open(StoreKind::Sqlite, 1).await;
    fill(&world, 1_000_000).await;
    // Most files never see an ANALYZE.
    check(&world, "without statistics").await;
    world.raw("analyze").await;
    check(&world, "with statistics").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hot_statements_find_their_index_among_many_rows_on_postgres() {
    if skipped() {
        println!("skipped: OUTLAST_SKIP_POSTGRES=1");
        return;
    }
    let world = World::open(StoreKind::Postgres, 1).await;
    fill(&world, 1_000_000).await;
    world.raw("analyze").await;
    check(&world, "for these values").await;

    let mut wrong = Vec::new();
    for sql in hot(Dialect::Postgres) {
        for shape in SHAPES {
            wrong.extend(missing(sql, &settled_plan(&world, sql, shape).await, "without values"));
        }
    }
    // Where a list begins with the few that it is about, walking along the time would look at all of those for each run.
    for name in ["list_tag", "list_ended_few", "list_open_few", "list_node", "list_stuck_few"] {
        for sql in statements::all().into_iter().filter(|sql| sql.name.starts_with(name)) {
            let plan = settled_plan(&world, sql, Shape::One).await;
            if plan.contains("runs_by_time") || !plan.contains("runs_pkey") {
                wrong.push(format!("{} does not begin with the few:\n{plan}", sql.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

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

/// A batch of rows, a lone one, and rows that are alike.
const SHAPES: [Shape; 4] = [Shape::Many, Shape::One, Shape::Bare, Shape::Alike];

fn dialect(world: &World) -> Dialect {
    match world.kind() {
        StoreKind::Sqlite => Dialect::Sqlite,
        StoreKind::Postgres => Dialect::Postgres,
    }
}

/// The statements whose index matters, where their text on this database asks for its table at all.
fn hot(dialect: Dialect) -> impl Iterator<Item = &'static Sql> {
    let asks = move |sql: &&'static Sql| {
        let table = sql.index.and_then(|index| index.split('_').next());
        table.is_some_and(|table| render(sql, dialect, Shape::Many).text.contains(table))
    };
    statements::all().into_iter().filter(asks)
}

async fn check(world: &World, when: &str) {
    let mut wrong = Vec::new();
    // With so much overdue a look whether anything is finds it at once, wherever it begins.
    let by_default = |sql: &&Sql| world.kind() == StoreKind::Sqlite || sql.name != "to_sweep";
    for sql in hot(dialect(world)).filter(by_default) {
        for shape in SHAPES {
            let plan = explain(world, sql, shape).await;
            let plan = plan.unwrap_or_else(|refused| panic!("{}: {refused}", sql.name));
            wrong.extend(missing(sql, &plan, when));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

fn missing(sql: &Sql, plan: &str, when: &str) -> Option<String> {
    let index = sql.index?;
    let uses = plan.split(|c: char| !c.is_alphanumeric() && c != '_');
    let found = uses.map(|word| word.trim_start_matches("outlast_")).any(|word| word == index);
    (!found).then(|| format!("{} does not use {index} {when}:\n{plan}", sql.name))
}

/// The plan of a statement, or why the database does not understand it.
async fn explain(world: &World, sql: &Sql, shape: Shape) -> Result<String, String> {
    let dialect = dialect(world);
    let explain = match dialect {
        Dialect::Sqlite => "explain query plan",
        Dialect::Postgres => "explain",
    };
    let rendered = render(sql, dialect, shape);
    let mut tx = world.begin().await;
    let mut values = values(world, sql, shape, rendered.now);
    if dialect == Dialect::Sqlite {
        // SQLite counts only as far as the text does.
        values.truncate(highest(&rendered.text));
    }
    let rows = tx
        .query(&format!("{explain} {}", rendered.text), &values)
        .await
        .map_err(|error| error.to_string())?;
    tx.rollback().await.map_err(|error| error.to_string())?;
    Ok(lines(&rows))
}

/// The plan without values, which our transactions ask for.
async fn settled_plan(world: &World, sql: &Sql, shape: Shape) -> String {
    let rendered = render(sql, Dialect::Postgres, shape);
    let values: Vec<String> = values(world, sql, shape, rendered.now).iter().map(literal).collect();
    let values = if values.is_empty() { String::new() } else { format!("({})", values.join(", ")) };
    let mut tx = world.begin().await;
    for setting in [
        "plan_cache_mode = force_generic_plan",
        "enable_seqscan = off",
        "enable_hashjoin = off",
        "enable_mergejoin = off",
        "enable_bitmapscan = off",
        "seq_page_cost = 0",
        "random_page_cost = 0",
        "cpu_tuple_cost = 0.1",
        "cpu_index_tuple_cost = 0.1",
    ] {
        tx.execute(&format!("set local {setting}"), &[]).await.unwrap();
    }
    tx.execute(&format!("prepare look as {}", rendered.text), &[]).await.unwrap();
    let plan = lines(&tx.query(&format!("explain execute look{values}"), &[]).await.unwrap());
    tx.execute("deallocate look", &[]).await.unwrap();
    tx.rollback().await.unwrap();
    plan
}

fn lines(rows: &[Vec<Value>]) -> String {
    let text = |row: &Vec<Value>| match row.last() {
        Some(Value::Text(line)) => line.clone(),
        other => format!("{other:?}"),
    };
    rows.iter().map(text).collect::<Vec<_>>().join("\n")
}

/// The greatest number of a parameter in SQLite's text.
fn highest(text: &str) -> usize {
    let number = |rest: &str| {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..digits].parse().unwrap_or(0)
    };
    text.split('?').skip(1).map(number).max().unwrap_or(0)
}

/// What is bound to a statement: columns of the batch, single values, and the clock.
fn values(world: &World, sql: &Sql, shape: Shape, now: bool) -> Vec<Value> {
    let is_array = |name: &str| match shape {
        Shape::Many => world.kind() == StoreKind::Postgres,
        Shape::Bare => world.kind() == StoreKind::Postgres && !sql.seldom.contains(&name),
        Shape::Alike => {
            let is_single = sql.alike.contains(&name) || sql.seldom.contains(&name);
            world.kind() == StoreKind::Postgres && !is_single
        }
        Shape::One => false,
    };
    let batch = sql.batch.iter().map(|(name, kind)| {
        let value = column(name, *kind);
        if is_array(name) { array(&[value], *kind) } else { value_of(world, &value, *kind) }
    });
    let single = sql.params.iter().enumerate().map(|(at, kind)| single(world, sql, at, *kind));
    let clock = now.then(|| match world.kind() {
        StoreKind::Sqlite => Value::Int(world.clock().local_now().micros()),
        StoreKind::Postgres => Value::Int(0),
    });
    batch.chain(single).chain(clock).collect()
}

fn column(name: &str, kind: Type) -> String {
    match (name, kind) {
        ("queue", _) => "queue 3".into(),
        ("definition", _) => "definition 3".into(),
        (_, Type::Id) => run(77).uuid().to_string(),
        (_, Type::Int) => "5".into(),
        _ => "greet".into(),
    }
}

fn is_list(sql: &Sql) -> bool {
    sql.name == "list" || sql.name.starts_with("list_")
}

fn single(world: &World, sql: &Sql, at: usize, kind: Type) -> Value {
    // The first says which shard; others are bounds, ages and limits.
    let plain = match kind {
        Type::Int if at == 0 => "0".to_owned(),
        Type::Int => "10".to_owned(),
        Type::Id if is_list(sql) => run(77).uuid().to_string(),
        Type::Id => node(7).uuid().to_string(),
        _ => "definition 3@1".to_owned(),
    };
    if is_list(sql) {
        // From the newest or the oldest on, of one definition, queue, key, parent or node where the text is about that, of any status.
        let wanted = match (sql.name, at) {
            (name, 1) if name.ends_with("_oldest") => Some(Value::Int(i64::MIN)),
            (name, 2) if name.ends_with("_oldest") => {
                Some(value_of(world, &Uuid::nil().to_string(), Type::Id))
            }
            (_, 1) => Some(Value::Int(i64::MAX)),
            (_, 2) => Some(value_of(world, &Uuid::max().to_string(), Type::Id)),
            ("list_definition" | "list_definition_oldest", 4) => Some(Value::Text("definition 3".into())),
            ("list_queue" | "list_queue_oldest", 5) => Some(Value::Text("queue 3".into())),
            ("list_key" | "list_key_oldest", 6) => Some(Value::Text("key 4".into())),
            ("list_children" | "list_children_oldest", 7) => None,
            ("list_node" | "list_node_oldest", 15) => {
                Some(value_of(world, &node(7).uuid().to_string(), Type::Id))
            }
            ("list_stuck_few" | "list_stuck_few_oldest", 18) => None,
            (_, 3..=9 | 15..=19) => Some(Value::Null),
            (_, 11) => Some(Value::Int(0)),
            _ => None,
        };
        if let Some(wanted) = wanted {
            return wanted;
        }
    }
    match kind {
        Type::Ints => many(world, &(1..=10).map(|n| n.to_string()).collect::<Vec<_>>(), kind),
        Type::Texts => {
            many(world, &["queue 3", "queue 4", "definition 3@1", "definition 4@1"].map(String::from), kind)
        }
        Type::Ids => {
            let runs = (100..120).map(run).map(RunId::uuid);
            let nodes = (1..4).map(node).map(NodeId::uuid);
            many(world, &runs.chain(nodes).map(|id| id.to_string()).collect::<Vec<_>>(), kind)
        }
        _ => value_of(world, &plain, kind),
    }
}

fn value_of(world: &World, text: &str, kind: Type) -> Value {
    match (kind, world.kind()) {
        (Type::Int, _) => Value::Int(text.parse().unwrap_or(1)),
        (Type::Id, StoreKind::Sqlite) => {
            Value::Bytes(text.parse::<Uuid>().unwrap_or_default().as_bytes().to_vec().into())
        }
        (Type::Bytes, _) => Value::Bytes(text.as_bytes().to_vec().into()),
        _ => Value::Text(text.to_owned()),
    }
}

/// Many values: an array on PostgreSQL, JSON on SQLite.
fn many(world: &World, values: &[String], kind: Type) -> Value {
    match (world.kind(), kind) {
        (StoreKind::Postgres, _) => array(values, kind),
        (StoreKind::Sqlite, Type::Ints) => Value::Text(format!("[{}]", values.join(","))),
        (StoreKind::Sqlite, _) => {
            let values: Vec<String> =
                values.iter().map(|value| format!("\"{}\"", value.replace('-', ""))).collect();
            Value::Text(format!("[{}]", values.join(",")))
        }
    }
}

fn array(values: &[String], kind: Type) -> Value {
    let quoted = values.iter().map(|value| match kind {
        Type::Bytes => "\"\\\\x00\"".to_owned(),
        _ => format!("\"{value}\""),
    });
    Value::Text(format!("{{{}}}", quoted.collect::<Vec<_>>().join(",")))
}

fn literal(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Int(number) => number.to_string(),
        Value::Text(text) => format!("'{}'", text.replace('\'', "''")),
        Value::Bytes(_) => "'\\x00'".to_owned(),
        other => panic!("{other:?}"),
    }
}

/// The run with this number, in [`fill`].
fn run(number: u128) -> RunId {
    RunId::from_uuid(Uuid::from_u128(number))
}

/// The node with this number, in [`fill`].
fn node(number: u128) -> NodeId {
    NodeId::new((1 << 40) + number)
}

/// Fills the tables as a large installation has them: most runs wait, few are due, fewer are held.
async fn fill(world: &World, runs: i64) {
    let began = std::time::Instant::now();
    let now = world.now().await.micros();
    let day: i64 = 86_400_000_000;
    let (id, series) = match world.kind() {
        StoreKind::Sqlite => (
            "unhex(printf('%032x', {}))",
            "(with recursive c(i) as (select {from} union all select i + 1 from c where i < {to}) select i from c) as s",
        ),
        StoreKind::Postgres => {
            ("lpad(to_hex({}::bigint), 32, '0')::uuid", "generate_series({from}, {to}) as s(i)")
        }
    };
    let id = |number: &str| id.replace("{}", number);
    let of =
        |from: i64, to: i64| series.replace("{from}", &from.to_string()).replace("{to}", &to.to_string());
    let (run, node) = (id("i"), id("1099511627776 + i % 50"));

    // Short enough for a user's transaction.
    const CHUNK: i64 = 100_000;
    let chunks =
        |rows: i64| (0..rows).step_by(CHUNK as usize).map(move |from| (from, (from + CHUNK).min(rows) - 1));
    let parent = id("i / 10");
    let bytes = if world.kind() == StoreKind::Sqlite { "x'00'" } else { "'\\x00'" };
    let mut texts = Vec::new();
    for (from, to) in chunks(runs) {
        let from_series = of(from, to);
        texts.push(format!(
            "insert into outlast.runs (shard, id, tenant, definition, version, kind, queue, priority, created_at, parent, key, input)
             select 0, {run}, '', 'definition ' || i % 20, 1, 0, 'queue ' || i % 20, i % 10, {now} - i * 1000,
                    case when i % 10 = 3 then {parent} end, case when i % 10 = 4 then 'key ' || i end, {bytes} from {from_series}"
        ));
        texts.push(format!(
            "insert into outlast.agenda (shard, id, status, kind, priority, attempt, crashes, due_at, node, claim,
                 epoch, news, queue, code, reason)
             select 0, {run}, case when i % 1000 = 1 then 2 when i % 1000 = 2 then 5 when i % 20 = 3 then 1 else 3 end,
                    0, i % 10, 1, 0, case when i % 20 = 3 then {now} - i * 1000 when i % 20 = 5 then {now} + {day} end,
                    case when i % 1000 = 1 then {node} end, case when i % 1000 = 1 then i end, 1, 0,
                    'queue ' || i % 20, 'definition ' || i % 20 || '@1', case when i % 1000 = 2 then 'no node' end
               from {from_series}"
        ));
    }
    for (from, to) in chunks(runs / 5) {
        let from_series = of(from, to);
        texts.push(format!(
            "insert into outlast.results (shard, run, status, epoch, finished_at)
             select 0, {}, 8 + i % 3, 1, {now} - i * 1000 from {from_series}",
            id("10000000 + i")
        ));
        texts.push(format!(
            "insert into outlast.tags (shard, name, value, run)
             select 0, 'city', 'city ' || i % 100, {run} from {from_series}"
        ));
        texts.push(format!("insert into outlast.deliveries (shard, id, at) select 0, {run}, {now} - i * 1000 from {from_series}"));
        // Few of the values expire, and few of those have.
        texts.push(format!(
            "insert into outlast.kv (shard, tenant, space, key, version, value, expires_at, updated_at)
             select 0, '', 'space ' || i % 20, 'key ' || i, {now} - {day}, {bytes},
                    case when i % 100 = 1 then {now} + (i - 1000) * 1000 end, {now} - {day} from {from_series}"
        ));
        texts.push(format!("insert into outlast.kv_writes (shard, id, version, at) select 0, {run}, 1, {now} - i * 1000 from {from_series}"));
        texts.push(format!(
            "insert into outlast.audit (shard, id, at, tenant, actor, action, target, request, status)
             select 0, {run}, {now} - i * 1000, '', 'ann', 'run.start', 'run ' || i, 'r', 201 from {from_series}"
        ));
        texts.push(format!(
            "insert into outlast.keys (shard, tenant, definition, key, run, started, news)
             select 0, '', 'definition ' || i % 20, 'key ' || i, {run}, 1, 0 from {from_series}"
        ));
        texts.push(format!(
            "insert into outlast.journal (shard, run, pos, kind, epoch, at, name)
             select 0, {}, 1 + i % 10, 2, 1, {now}, 'step' from {from_series}",
            id("i / 10")
        ));
        texts.push(format!(
            "insert into outlast.inbox (shard, run, seq, kind, name, sent_at)
             select 0, {}, 1 + i % 10, 1, 'tick', {now} from {from_series}",
            id("i / 10")
        ));
    }
    let nodes = of(0, 49);
    texts.push(format!(
        "insert into outlast.nodes (shard, id, name, host, pid, codes, joined_at, lease_until)
         select 0, {node}, 'node', 'here', 1, '[]', {now}, {now} + {day} from {nodes}"
    ));
    let indexes = without_indexes(world).await;
    for text in texts.iter().chain(&indexes) {
        world.raw(text).await;
    }
    println!("filled in {:?}", began.elapsed());
}

/// Takes PostgreSQL's indexes away and gives what makes them anew: a full table is indexed faster than
/// one that fills.
async fn without_indexes(world: &World) -> Vec<String> {
    if world.kind() == StoreKind::Sqlite {
        return Vec::new();
    }
    for (table, _) in TABLES {
        world.raw(&format!("alter table outlast.{table} set unlogged")).await;
    }
    let plain = "select indexname::text, indexdef from pg_indexes
                  where schemaname = 'outlast' and indexname not like '%_pkey'";
    let mut texts = Vec::new();
    for row in world.raw(plain).await {
        let [Value::Text(name), Value::Text(text)] = &row[..] else { panic!("{row:?}") };
        world.raw(&format!("drop index outlast.{name}")).await;
        texts.push(text.clone());
    }
    texts
}

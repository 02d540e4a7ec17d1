//! Every statement is one that both databases understand, and every hot one finds its index.
//!
//! The plans are looked at with tables as large as they get, with the default planner, and on
//! PostgreSQL also after so many executions that it may settle on one plan for all parameters.

mod bound;
mod fill;
mod plans;

use outlast_store::{Dialect, Shape, Sql, render, statements};
use outlast_testkit::{StoreKind, TABLES, World, skipped, store_test};

use self::bound::{explain, settled_plan};
use self::fill::fill;

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

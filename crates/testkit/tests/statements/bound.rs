//! How a statement is asked for its plan, and what is bound to it for that.

use outlast_core::{NodeId, RunId};
use outlast_store::{Dialect, Shape, Sql, Type, Value, render};
use outlast_testkit::{StoreKind, World};
use uuid::Uuid;

use crate::dialect;
use crate::fill::{node, run};

/// The plan of a statement, or why the database does not understand it.
pub(crate) async fn explain(world: &World, sql: &Sql, shape: Shape) -> Result<String, String> {
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
pub(crate) async fn settled_plan(world: &World, sql: &Sql, shape: Shape) -> String {
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

pub(crate) fn lines(rows: &[Vec<Value>]) -> String {
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
pub(crate) fn values(world: &World, sql: &Sql, shape: Shape, now: bool) -> Vec<Value> {
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

pub(crate) fn literal(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Int(number) => number.to_string(),
        Value::Text(text) => format!("'{}'", text.replace('\'', "''")),
        Value::Bytes(_) => "'\\x00'".to_owned(),
        other => panic!("{other:?}"),
    }
}

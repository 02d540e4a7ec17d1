//! Turns a statement into the text that each database reads.
//!
//! A pure function of the statement and the database: the slots of [`crate::sql`] are filled here and
//! nowhere else. A slot that nobody knows stays as it is, so that JSON in a text may have braces and a
//! misspelt slot is refused by both databases when the tests prepare every statement.

use std::borrow::Cow;
use std::fmt::Write;
use std::sync::OnceLock;

use crate::{Sql, Type};

/// Whose text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// SQLite's.
    Sqlite,
    /// PostgreSQL's.
    Postgres,
}

/// How many rows of its batch, or values of its lists, a text takes at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shape {
    /// Any number: rows in arrays, which SQLite has not (it takes one by one), and lists of any length.
    Many,
    /// One row, in single values: taking arrays apart costs PostgreSQL more than writing a row. On SQLite lists of one
    /// value: reading a list costs it more than finding a row.
    One,
    /// Any number of rows whose columns that are [`Sql::seldom`] anything but empty are so, on PostgreSQL: each of these
    /// in a single value, the others in arrays.
    Bare,
    /// The same of rows that have the same values in all columns that are [`Sql::alike`]: these in single values too.
    Alike,
}

/// A statement as one database reads it.
///
/// Its parameters are the columns of the batch, then the single values, then, when `now` says so, one
/// more for the clock: SQLite's is the time itself, PostgreSQL's is what is added to the server's.
#[derive(Debug, PartialEq, Eq)]
pub struct Rendered {
    /// The text.
    pub text: String,
    /// Whether the clock is bound behind everything else.
    pub now: bool,
    /// The lists among the single values, counted from 0, of which the text takes the only value and not the list.
    pub only: Vec<usize>,
}

/// Fills the slots of a statement.
pub fn render(sql: &Sql, dialect: Dialect, shape: Shape) -> Rendered {
    let text = source(sql, dialect);
    let mut out = Rendered { text: String::with_capacity(text.len() + 64), now: false, only: Vec::new() };
    let mut rest = text;
    while let Some(at) = rest.find(['{', '$']) {
        out.text.push_str(&named(&rest[..at], dialect));
        rest = &rest[at..];
        rest = match slot(rest) {
            Some((name, behind)) if fill(sql, dialect, shape, name, &mut out) => behind,
            _ => {
                let places =
                    dialect == Dialect::Sqlite && rest[1..].starts_with(|c: char| c.is_ascii_digit());
                out.text.push(if places && rest.starts_with('$') { '?' } else { rest.as_bytes()[0].into() });
                &rest[1..]
            }
        };
    }
    out.text.push_str(&named(rest, dialect));
    if dialect == Dialect::Sqlite && !out.text.contains('\'') {
        out.text = dense(&out.text);
    }
    out
}

/// A text without the space that is only for people: `rusqlite` finds what it has prepared by the whole text, every time.
fn dense(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The text whose slots are filled.
fn source(sql: &Sql, dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Sqlite => sql.sqlite.unwrap_or(sql.text),
        Dialect::Postgres => sql.text,
    }
}

/// SQLite has no schemas of the kind: their name becomes a prefix.
pub(crate) fn named(text: &str, dialect: Dialect) -> Cow<'_, str> {
    match dialect {
        Dialect::Sqlite if text.contains("outlast.") => text.replace("outlast.", "outlast_").into(),
        _ => text.into(),
    }
}

/// A statement's texts for both databases and shapes, each rendered when it is first asked for. They stand in the statement
/// itself, where whoever runs it has them at hand.
#[derive(Debug)]
pub(crate) struct RenderedOnce([OnceLock<Rendered>; 6]);

impl RenderedOnce {
    pub(crate) const fn new() -> RenderedOnce {
        RenderedOnce([const { OnceLock::new() }; 6])
    }
}

/// The text of a statement.
pub(crate) fn rendered(sql: &'static Sql, dialect: Dialect, shape: Shape) -> &'static Rendered {
    let place = match (dialect, shape) {
        (Dialect::Sqlite, Shape::Many | Shape::Bare | Shape::Alike) => 0,
        (Dialect::Sqlite, Shape::One) => 1,
        (Dialect::Postgres, Shape::Many) => 2,
        (Dialect::Postgres, Shape::One) => 3,
        (Dialect::Postgres, Shape::Alike) => 4,
        (Dialect::Postgres, Shape::Bare) => 5,
    };
    sql.rendered.0[place].get_or_init(|| render(sql, dialect, shape))
}

/// `{name}rest` taken apart.
fn slot(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix('{')?.split_once('}')
}

/// Writes what stands for a slot; `false` when nobody knows it.
fn fill(sql: &Sql, dialect: Dialect, shape: Shape, name: &str, out: &mut Rendered) -> bool {
    let sqlite = dialect == Dialect::Sqlite;
    let locks = |text: &'static str| if sqlite { "" } else { text };
    match name {
        "batch" => out.text.push_str(&batch(sql, dialect, shape)),
        "now" => {
            let last = sql.batch.len() + sql.params.len() + 1;
            out.text.push_str(&match dialect {
                Dialect::Sqlite => format!("?{last}"),
                Dialect::Postgres => {
                    // A query of its own, so that it is reckoned once and not for every row.
                    format!(
                        "(select (extract(epoch from statement_timestamp()) * 1000000)::bigint + ${last}::int8)"
                    )
                }
            });
            out.now = true;
        }
        _ if name.starts_with("b:") => {
            let column = sql.batch.iter().position(|(column, _)| *column == &name[2..]);
            let Some(at) = column.filter(|_| sqlite) else { return false };
            let _ = write!(out.text, "?{}", at + 1);
        }
        "for_update" => out.text.push_str(locks("for update")),
        "skip_locked" => out.text.push_str(locks("for update skip locked")),
        "key_share" => out.text.push_str(locks("for key share")),
        _ => {
            let (many, number) = match name.strip_prefix("in:") {
                Some(param) => (true, param),
                None => (false, name),
            };
            let number = number.strip_prefix('p').and_then(|digits| digits.parse::<usize>().ok());
            let Some((number, kind)) = number.and_then(|n| Some((n, *sql.params.get(n.checked_sub(1)?)?)))
            else {
                return false;
            };
            let place = sql.batch.len() + number;
            // A list that also stands alone is bound as it is.
            let only = many
                && sqlite
                && shape == Shape::One
                && !source(sql, dialect).contains(&format!("{{p{number}}}"));
            if only && !out.only.contains(&(number - 1)) {
                out.only.push(number - 1);
            }
            out.text.push_str(&match (many, only) {
                (true, true) => format!("= ?{place}"),
                (true, false) => member(place, kind, dialect),
                (false, _) => single(place, kind, dialect),
            });
        }
    }
    true
}

fn single(place: usize, kind: Type, dialect: Dialect) -> String {
    match dialect {
        Dialect::Sqlite => format!("?{place}"),
        Dialect::Postgres => format!("${place}::{}", postgres_type(kind)),
    }
}

fn member(place: usize, kind: Type, dialect: Dialect) -> String {
    match (dialect, kind) {
        (Dialect::Postgres, _) => format!("= any(${place}::{})", postgres_type(kind)),
        // JSON has no bytes: ids travel as hex.
        (Dialect::Sqlite, Type::Ids) => format!("in (select unhex(value) from json_each(?{place}))"),
        (Dialect::Sqlite, _) => format!("in (select value from json_each(?{place}))"),
    }
}

fn batch(sql: &Sql, dialect: Dialect, shape: Shape) -> String {
    let is_single = |column: &str| dialect == Dialect::Sqlite || sql.is_single(shape, column);
    let (mut selected, mut arrays, mut names) = (Vec::new(), Vec::new(), Vec::new());
    for (at, (name, kind)) in sql.batch.iter().enumerate() {
        if is_single(name) {
            selected.push(format!("{} as {name}", single(at + 1, *kind, dialect)));
        } else {
            selected.push(format!("u.{name}"));
            arrays.push(format!("${}::{}[]", at + 1, postgres_type(*kind)));
            names.push(*name);
        }
    }
    let unnested =
        |as_name: &str| format!("unnest({}) as {as_name}({})", arrays.join(", "), names.join(", "));
    let selected = selected.join(", ");
    match (arrays.len(), sql.batch.len()) {
        (0, _) => format!("(select {selected}) as b"),
        (some, all) if some == all => unnested("b"),
        _ => format!("(select {selected} from {}) as b", unnested("u")),
    }
}

fn postgres_type(kind: Type) -> &'static str {
    match kind {
        Type::Int => "int8",
        Type::Text => "text",
        Type::Bytes => "bytea",
        Type::Id => "uuid",
        Type::Ints => "int8[]",
        Type::Texts => "text[]",
        Type::Ids => "uuid[]",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A statement of this text, with what the others of these tests take.
    const fn takes(text: &'static str) -> Sql {
        Sql::new("move", text).rows(&[("shard", Type::Int), ("id", Type::Id)]).takes(&[
            Type::Id,
            Type::Texts,
            Type::Ids,
        ])
    }

    static MOVE: Sql = takes(
        "update outlast.agenda a set due_at = {now}, node = {p1} from {batch}
                where a.shard = b.shard and a.id = b.id and a.queue {in:p2} and a.id {in:p3}",
    );

    #[test]
    fn postgres_gets_the_whole_batch_and_every_type() {
        let rendered = render(&MOVE, Dialect::Postgres, Shape::Many);
        assert_eq!(
            rendered.text,
            "update outlast.agenda a set due_at = (select (extract(epoch from statement_timestamp()) * \
             1000000)::bigint + $6::int8), node = $3::uuid from unnest($1::int8[], $2::uuid[]) as b(shard, id)
                where a.shard = b.shard and a.id = b.id and a.queue = any($4::text[]) \
             and a.id = any($5::uuid[])"
        );
        assert!(rendered.now);
    }

    #[test]
    fn postgres_gets_a_lone_row_in_single_values() {
        let rendered = render(&MOVE, Dialect::Postgres, Shape::One);
        assert!(
            rendered.text.contains("from (select $1::int8 as shard, $2::uuid as id) as b"),
            "{}",
            rendered.text
        );
        assert!(rendered.now);
    }

    #[test]
    fn postgres_gets_what_is_alike_in_single_values() {
        let sql = takes("select * from {batch}").alike(&["shard"]);
        assert_eq!(
            render(&sql, Dialect::Postgres, Shape::Alike).text,
            "select * from (select $1::int8 as shard, u.id from unnest($2::uuid[]) as u(id)) as b"
        );
        let many = render(&sql, Dialect::Postgres, Shape::Many).text;
        assert_eq!(many, "select * from unnest($1::int8[], $2::uuid[]) as b(shard, id)");
    }

    #[test]
    fn postgres_gets_what_is_seldom_there_in_single_values_where_it_is_not() {
        let sql = takes("select * from {batch}").alike(&["shard"]).seldom(&["id"]);
        assert_eq!(
            render(&sql, Dialect::Postgres, Shape::Bare).text,
            "select * from (select u.shard, $2::uuid as id from unnest($1::int8[]) as u(shard)) as b"
        );
        let alike = render(&sql, Dialect::Postgres, Shape::Alike).text;
        assert_eq!(alike, "select * from (select $1::int8 as shard, $2::uuid as id) as b");
    }

    #[test]
    fn what_is_alike_or_seldom_there_are_columns_of_the_batch() {
        for sql in crate::statements::all() {
            let is_column = |name: &&str| sql.batch.iter().any(|(column, _)| column == name);
            assert!(sql.alike.iter().chain(sql.seldom).all(is_column), "{}", sql.name);
        }
    }

    #[test]
    fn sqlite_gets_one_row_and_prefixed_names() {
        let rendered = render(&MOVE, Dialect::Sqlite, Shape::Many);
        assert_eq!(
            rendered.text,
            "update outlast_agenda a set due_at = ?6, node = ?3 from (select ?1 as shard, ?2 as id) as b \
             where a.shard = b.shard and a.id = b.id and a.queue in (select value from json_each(?4)) \
             and a.id in (select unhex(value) from json_each(?5))"
        );
        assert!(rendered.now);
    }

    #[test]
    fn sqlite_takes_the_only_value_of_a_list_alone() {
        let rendered = render(&MOVE, Dialect::Sqlite, Shape::One);
        assert!(rendered.text.ends_with("and a.queue = ?4 and a.id = ?5"), "{}", rendered.text);
        assert_eq!(rendered.only, [1, 2]);
        let both = takes("select {in:p2}, json_each({p2}), {in:p3}");
        let rendered = render(&both, Dialect::Sqlite, Shape::One);
        assert_eq!(rendered.text, "select in (select value from json_each(?4)), json_each(?4), = ?5");
        assert_eq!(rendered.only, [2], "one that stands alone stays a list");
    }

    #[test]
    fn locks_are_only_for_postgres() {
        let sql = takes("select 1 {for_update}|{skip_locked}|{key_share}");
        assert_eq!(render(&sql, Dialect::Sqlite, Shape::Many).text, "select 1 ||");
        assert_eq!(
            render(&sql, Dialect::Postgres, Shape::Many).text,
            "select 1 for update|for update skip locked|for key share"
        );
        assert!(!render(&sql, Dialect::Postgres, Shape::Many).now);
    }

    #[test]
    fn dollars_and_braces_that_are_no_slots_stay() {
        let sql = takes("select $1, '{\"a\":{}}', '$', '{p9}', 'ä{'");
        assert_eq!(render(&sql, Dialect::Postgres, Shape::Many).text, sql.text);
        assert_eq!(
            render(&sql, Dialect::Sqlite, Shape::Many).text,
            "select ?1, '{\"a\":{}}', '$', '{p9}', 'ä{'"
        );
    }

    #[test]
    fn sqlite_may_have_a_text_of_its_own() {
        let sql = Sql::new("many", "select unnest({p1})").on_sqlite("select value from json_each({p1})");
        let sql = sql.takes(&[Type::Texts]);
        assert_eq!(render(&sql, Dialect::Postgres, Shape::Many).text, "select unnest($1::text[])");
        assert_eq!(render(&sql, Dialect::Sqlite, Shape::Many).text, "select value from json_each(?1)");
    }

    #[test]
    fn a_text_for_sqlite_has_no_space_for_people_unless_it_may_belong_to_a_value() {
        let text = "select 1,\n        2  from outlast.meta";
        assert_eq!(render(&takes(text), Dialect::Sqlite, Shape::One).text, "select 1, 2 from outlast_meta");
        let quoted = "select 'a  b'\n  from outlast.meta";
        assert_eq!(
            render(&takes(quoted), Dialect::Sqlite, Shape::One).text,
            "select 'a  b'\n  from outlast_meta"
        );
    }

    #[test]
    fn a_text_is_rendered_once() {
        let once = || rendered(&MOVE, Dialect::Sqlite, Shape::Many);
        assert!(std::ptr::eq(once(), once()));
        assert_ne!(once(), rendered(&MOVE, Dialect::Postgres, Shape::Many));
        assert_ne!(once(), rendered(&MOVE, Dialect::Sqlite, Shape::One));
    }
}

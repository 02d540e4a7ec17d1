//! What a list asks the database: one text for each way, in both orders, and one that counts.
//!
//! What a run has to fit is the same in all of them; where the look begins is not.

use super::views::{shown_status, view_columns};
use crate::rows::run_columns;
use crate::{Sql, Type};

pub(super) static STATEMENTS: &[&Sql] = &[
    &LIST,
    &LIST_DEFINITION,
    &LIST_QUEUE,
    &LIST_CHILDREN,
    &LIST_KEY,
    &LIST_TAG,
    &LIST_NODE,
    &LIST_STUCK_FEW,
    &LIST_OPEN,
    &LIST_OPEN_FEW,
    &LIST_ENDED_FEW,
    &LIST_OLDEST,
    &LIST_DEFINITION_OLDEST,
    &LIST_QUEUE_OLDEST,
    &LIST_CHILDREN_OLDEST,
    &LIST_KEY_OLDEST,
    &LIST_TAG_OLDEST,
    &LIST_NODE_OLDEST,
    &LIST_STUCK_FEW_OLDEST,
    &LIST_OPEN_OLDEST,
    &LIST_OPEN_FEW_OLDEST,
    &LIST_ENDED_FEW_OLDEST,
    &COUNT,
    &COUNT_DEFINITION,
    &COUNT_QUEUE,
    &COUNT_CHILDREN,
    &COUNT_KEY,
    &COUNT_TAG,
    &COUNT_NODE,
    &COUNT_STUCK_FEW,
    &COUNT_OPEN,
    &COUNT_OPEN_FEW,
    &COUNT_ENDED_FEW,
    &OPEN_FEW,
    &STUCK_FEW,
    &ENDED_FEW,
];

pub(super) static OPEN_FEW: Sql = Sql::new(
    "open_few",
    "select count(*) from (select 1 from outlast.agenda as o where o.shard = {p1} limit {p2}) as c",
)
.takes(&[Type::Int, Type::Int]);

/// In line since before then, or past the attempts that are usual: `$agenda` is the row of it.
macro_rules! is_stuck {
    ($agenda:literal, $since:literal) => {
        concat!(
            "(",
            $agenda,
            ".status = 1 and ",
            $agenda,
            ".due_at < ",
            $since,
            " or ",
            $agenda,
            ".attempt > 3)"
        )
    };
}

pub(super) static STUCK_FEW: Sql = Sql::new(
    "stuck_few",
    concat!(
        "select count(*) from (select 1 from outlast.agenda as o where o.shard = {p1} and ",
        is_stuck!("o", "{p3}"),
        " limit {p2}) as c"
    ),
)
.takes(&[Type::Int, Type::Int, Type::Int]);

pub(super) static ENDED_FEW: Sql = Sql::new(
    "ended_few",
    "select count(*) from (select 1 from outlast.results as o
                            where o.shard = {p1} and o.status {in:p3} and o.finished_at >= {p4} limit {p2}) as c",
)
.takes(&[Type::Int, Type::Int, Type::Ints, Type::Int]);

/// The runs that fit. `$from`: where the look begins, and which index SQLite has to use where it would choose another.
/// `$beyond`: the order. `$tags`: which index SQLite has to use for them.
macro_rules! fitting {
    ($from:expr, $agenda:literal, $which:literal, $tags:literal, $beyond:literal) => {
        concat!(
            " from ",
            $from,
            $agenda,
            " outlast.agenda as a on a.shard = r.shard and a.id = r.id
              left join outlast.results as z on z.shard = r.shard and z.run = r.id
             where r.shard = {p1} and (r.created_at, r.id) ",
            $beyond,
            " ({p2}, {p3}) ",
            $which,
            " and ({p4} is null or r.tenant = {p4}) and ({p5} is null or r.definition = {p5})
              and ({p6} is null or r.queue = {p6}) and ({p7} is null or r.key = {p7})
              and ({p8} is null or r.parent = {p8}) and ({p9} is null or r.created_at >= {p9})
              and ({p10} is null or r.created_at < {p10}) and coalesce(z.status, ",
            shown_status!(),
            ") {in:p11}
              and ({p12} = 0 or {p12} = (select count(*) from outlast.tags as t ",
            $tags,
            "       where t.shard = r.shard and t.run = r.id and t.name || {p14} || t.value {in:p13}))
              and ({p16} is null or a.node = {p16}) and ({p17} is null or r.version = {p17})
              and ({p18} is null or r.owner = {p18}) and ({p19} is null or ",
            is_stuck!("a", "{p19}"),
            ") and ({p20} is null or z.finished_at >= {p20})"
        )
    };
}

/// `$by`: the order.
macro_rules! list_text {
    ($from:expr, $agenda:literal, $which:literal, $tags:literal, $beyond:literal, $by:literal) => {
        concat!(
            "select ",
            run_columns!(),
            view_columns!(),
            fitting!($from, $agenda, $which, $tags, $beyond),
            " order by r.created_at ",
            $by,
            ", r.id ",
            $by,
            " limit {p15}"
        )
    };
}

macro_rules! count_text {
    ($from:expr, $agenda:literal, $which:literal, $tags:literal) => {
        concat!(
            "select count(*) from (select 1",
            fitting!($from, $agenda, $which, $tags, "<"),
            " limit {p15}) as c"
        )
    };
}

/// What every text takes, and behind it the name and the value of the tag by which runs are found.
const TAG_VALUES: &[Type] = &[
    Type::Int,
    Type::Int,
    Type::Id,
    Type::Text,
    Type::Text,
    Type::Text,
    Type::Text,
    Type::Id,
    Type::Int,
    Type::Int,
    Type::Ints,
    Type::Int,
    Type::Texts,
    Type::Text,
    Type::Int,
    Type::Id,
    Type::Int,
    Type::Text,
    Type::Int,
    Type::Int,
    Type::Text,
    Type::Text,
];
const VALUES: &[Type] = TAG_VALUES.split_at(TAG_VALUES.len() - 2).0;

/// Newest first, oldest first and counted, of one way: from where on PostgreSQL, from where on SQLite, how the agenda is
/// joined, what finds the runs, and what values it takes.
macro_rules! texts {
    ($newest:ident $oldest:ident $counted:ident, $names:tt, $from:expr, $sqlite:expr, $agenda:literal, $which:literal, $takes:ident $(, $index:literal)?) => {
        texts!(@one $newest, $names, 0, $takes, list_text!($from, $agenda, $which, "", "<", "desc"), list_text!($sqlite, $agenda, $which, "indexed by outlast.tags_by_run", "<", "desc") $(, $index)?);
        texts!(@one $oldest, $names, 1, $takes, list_text!($from, $agenda, $which, "", ">", "asc"), list_text!($sqlite, $agenda, $which, "indexed by outlast.tags_by_run", ">", "asc") $(, $index)?);
        texts!(@one $counted, $names, 2, $takes, count_text!($from, $agenda, $which, ""), count_text!($sqlite, $agenda, $which, "indexed by outlast.tags_by_run"));
    };
    (@one $name:ident, $names:tt, $nth:tt, $takes:ident, $text:expr, $sqlite:expr $(, $index:literal)?) => {
        pub(super) static $name: Sql = Sql::new($names[$nth], $text).on_sqlite($sqlite).takes($takes)$(.by($index))?;
    };
}

texts!(LIST LIST_OLDEST COUNT, ["list", "list_oldest", "count"],
    "outlast.runs as r ", "outlast.runs as r ", "left join", "", VALUES, "runs_by_time");
texts!(LIST_DEFINITION LIST_DEFINITION_OLDEST COUNT_DEFINITION, ["list_definition", "list_definition_oldest", "count_definition"],
    "outlast.runs as r ", "outlast.runs as r indexed by outlast.runs_by_definition ", "left join", "and r.definition = {p5}", VALUES, "runs_by_definition");
texts!(LIST_QUEUE LIST_QUEUE_OLDEST COUNT_QUEUE, ["list_queue", "list_queue_oldest", "count_queue"],
    "outlast.runs as r ", "outlast.runs as r indexed by outlast.runs_by_queue ", "left join", "and r.queue = {p6} and r.queue <> 'default'", VALUES, "runs_by_queue");
texts!(LIST_CHILDREN LIST_CHILDREN_OLDEST COUNT_CHILDREN, ["list_children", "list_children_oldest", "count_children"],
    "outlast.runs as r ", "outlast.runs as r indexed by outlast.runs_by_parent ", "left join", "and r.parent = {p8}", VALUES, "runs_by_parent");
texts!(LIST_KEY LIST_KEY_OLDEST COUNT_KEY, ["list_key", "list_key_oldest", "count_key"],
    "outlast.runs as r ", "outlast.runs as r indexed by outlast.runs_by_key ", "left join", "and r.key = {p7}", VALUES, "runs_by_key");
texts!(LIST_OPEN LIST_OPEN_OLDEST COUNT_OPEN, ["list_open", "list_open_oldest", "count_open"],
    "outlast.runs as r ", "outlast.runs as r ", "join", "", VALUES);
// What comes first is looked at first: SQLite keeps the order of a cross join, PostgreSQL plans a subquery with an offset by itself.
// Without the second one it walked along the time, and went through all of the first for each run.
texts!(LIST_TAG LIST_TAG_OLDEST COUNT_TAG, ["list_tag", "list_tag_oldest", "count_tag"],
    "(select g.run from outlast.tags as g where g.shard = {p1} and g.name = {p21} and g.value = {p22} offset 0) as y
      join lateral (select i.* from outlast.runs as i where i.shard = {p1} and i.id = y.run offset 0) as r on true ",
    "outlast.tags as y cross join outlast.runs as r on r.id = y.run and y.shard = {p1} and y.name = {p21} and y.value = {p22} ",
    "left join", "", TAG_VALUES);
texts!(LIST_ENDED_FEW LIST_ENDED_FEW_OLDEST COUNT_ENDED_FEW, ["list_ended_few", "list_ended_few_oldest", "count_ended_few"],
    "(select o.run from outlast.results as o
       where o.shard = {p1} and o.status {in:p11} and o.finished_at >= coalesce({p20}, 0) offset 0) as y
      join lateral (select i.* from outlast.runs as i where i.shard = {p1} and i.id = y.run offset 0) as r on true ",
    "outlast.results as y indexed by outlast.results_by_status
      cross join outlast.runs as r on r.id = y.run and y.shard = {p1} and y.status {in:p11}
                                   and y.finished_at >= coalesce({p20}, 0) ",
    "left join", "", VALUES);
texts!(LIST_OPEN_FEW LIST_OPEN_FEW_OLDEST COUNT_OPEN_FEW, ["list_open_few", "list_open_few_oldest", "count_open_few"],
    "(select o.id as run from outlast.agenda as o where o.shard = {p1} offset 0) as y
      join lateral (select i.* from outlast.runs as i where i.shard = {p1} and i.id = y.run offset 0) as r on true ",
    "outlast.agenda as y cross join outlast.runs as r on r.id = y.id and y.shard = {p1} ",
    "join", "", VALUES);
texts!(LIST_NODE LIST_NODE_OLDEST COUNT_NODE, ["list_node", "list_node_oldest", "count_node"],
    "(select o.id as run from outlast.agenda as o where o.shard = {p1} and o.node = {p16} offset 0) as y
      join lateral (select i.* from outlast.runs as i where i.shard = {p1} and i.id = y.run offset 0) as r on true ",
    "outlast.agenda as y indexed by outlast.agenda_node cross join outlast.runs as r on r.id = y.id and y.shard = {p1} and y.node = {p16} ",
    "join", "", VALUES, "agenda_node");
texts!(LIST_STUCK_FEW LIST_STUCK_FEW_OLDEST COUNT_STUCK_FEW, ["list_stuck_few", "list_stuck_few_oldest", "count_stuck_few"],
    concat!("(select o.id as run from outlast.agenda as o where o.shard = {p1} and ", is_stuck!("o", "{p19}"), " offset 0) as y
      join lateral (select i.* from outlast.runs as i where i.shard = {p1} and i.id = y.run offset 0) as r on true "),
    concat!("outlast.agenda as y cross join outlast.runs as r on r.id = y.id and y.shard = {p1} and ", is_stuck!("y", "{p19}"), " "),
    "join", "", VALUES);

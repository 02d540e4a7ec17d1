//! Going back: the newest files of the schema are taken away again, as long as nothing is lost with them.
//!
//! Mostly nobody has to: an older program goes on with a newer schema as far as its files serve it. A file that holds what
//! no older one can keep is left where it is, and the refusal says what that is. All of it is one transaction under the
//! lock of migrations: either the schema is where it was wanted, or nothing was changed.

use crate::StoreError;
use crate::migrate::{Found, MIGRATIONS, Migration, next, rendered};
use crate::render::Dialect;

/// How a file is taken away.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Down {
    number: i64,
    text: &'static str,
    /// Rows that would be gone: what they tell, and where they are.
    loses: &'static [(&'static str, &'static str)],
}

/// The files that can be taken away.
const DOWNS: &[Down] = &[
    Down {
        number: 18,
        text: include_str!("../reverts/0018_access.sql"),
        loses: &[
            ("the tokens", "outlast.tokens"),
            ("the audit log", "outlast.audit"),
            ("answers to requests with an idempotency key", "outlast.replies"),
        ],
    },
    Down {
        number: 19,
        text: include_str!("../reverts/0019_rollups.sql"),
        loses: &[("how runs ended, minute by minute", "outlast.rollups"), ("failures", "outlast.failures")],
    },
    Down {
        number: 20,
        text: include_str!("../reverts/0020_sessions_and_depths.sql"),
        loses: &[("who is logged in", "outlast.sessions"), ("how long queues were", "outlast.depths")],
    },
    Down {
        number: 21,
        text: include_str!("../reverts/0021_steps_of_logs.sql"),
        loses: &[("the steps of lines that were logged", "outlast.logs where step is not null")],
    },
    Down {
        number: 22,
        text: include_str!("../reverts/0022_lost_nodes_and_audit.sql"),
        loses: &[("which nodes were lost", "outlast.lost")],
    },
    Down { number: 23, text: include_str!("../reverts/0023_loose_runs.sql"), loses: &[] },
    Down {
        number: 24,
        text: include_str!("../reverts/0024_queues_and_failures.sql"),
        loses: &[("when runs failed alike", "outlast.failure_minutes")],
    },
    Down {
        number: 25,
        text: include_str!("../reverts/0025_audit_chain.sql"),
        loses: &[("the chain of the audit log", "outlast.audit_chain")],
    },
    Down {
        number: 26,
        text: include_str!("../reverts/0026_told_of_nodes_and_failures.sql"),
        loses: &[("in which versions runs failed alike", "outlast.failure_versions")],
    },
    Down {
        number: 27,
        text: include_str!("../reverts/0027_queues_of_tokens.sql"),
        loses: &[("to which queues tokens are bound", "outlast.tokens where queues is not null")],
    },
    Down {
        number: 28,
        text: include_str!("../reverts/0028_began.sql"),
        // Nothing goes by when a run was first taken, and every run that began has it: nobody could go back.
        loses: &[],
    },
    Down {
        number: 29,
        text: include_str!("../reverts/0029_lines.sql"),
        // The same holds of how long they stood in line.
        loses: &[],
    },
    Down { number: 30, text: include_str!("../reverts/0030_leases.sql"), loses: &[] },
    Down {
        number: 31,
        text: include_str!("../reverts/0031_took.sql"),
        // Nothing goes by how long a step took, and what ran at once has it: nobody could go back.
        loses: &[],
    },
    Down { number: 32, text: include_str!("../reverts/0032_late_claims.sql"), loses: &[] },
];

/// What a database is asked before anything is taken away, and what is wrong where that finds a row.
pub(crate) struct Question {
    pub(crate) sql: String,
    why: String,
}

/// What is to be done to get back to a file.
pub(crate) struct Way {
    pub(crate) questions: Vec<Question>,
    /// In order, each some statements.
    pub(crate) texts: Vec<String>,
}

impl Question {
    /// The refusal where it found something.
    pub(crate) fn refusal(&self, place: &str) -> StoreError {
        StoreError::Schema(format!("{place} stays as it is: {}", self.why))
    }
}

/// The way back to file `to`; a refusal where there is none.
pub(crate) fn way(found: &Found, to: i64, place: &str, dialect: Dialect) -> Result<Way, StoreError> {
    // What is not ours, or made by other texts than ours, is refused as always.
    next(found, false, place)?;
    let applied: Vec<i64> = match found {
        Found::Ours(applied, _) => applied.iter().map(|done| done.number).collect(),
        Found::Nothing | Found::Foreign => Vec::new(),
    };
    let mut way = Way { questions: Vec::new(), texts: Vec::new() };
    // Where leases are apart from nodes, those of nodes are longer than they count.
    let nodes = if applied.contains(&30) { "outlast.members" } else { "outlast.nodes" };
    for number in applied.into_iter().rev().take_while(|number| *number > to) {
        let (file, down) = pair(number, place)?;
        way.questions.extend(down.loses.iter().map(|(what, rows)| Question {
            sql: asked(rows, dialect),
            why: format!(
                "without file {number} ({}) {what} would be lost. `migrate print` has the statements for whoever \
                 wants that",
                file.name
            ),
        }));
        way.texts.push(undone(file, down, dialect));
    }
    if !way.texts.is_empty() {
        let nodes = format!("select 1 from {nodes} where lease_until >= {{now}} limit 1");
        let why = "a node is up: stop all programs that use it first".to_owned();
        way.questions.insert(0, Question { sql: rendered(&nodes, dialect), why });
    }
    Ok(way)
}

/// The statements that lead from file `from` back to file `to`, for whoever runs them by hand: each file a transaction.
pub(crate) fn way_by_hand(from: i64, to: i64, dialect: Dialect) -> Result<String, StoreError> {
    let mut parts = Vec::new();
    for file in MIGRATIONS.iter().rev().filter(|file| file.number > to && file.number <= from) {
        let (file, down) = pair(file.number, "the schema")?;
        let loses: String = down
            .loses
            .iter()
            .map(|(what, rows)| {
                format!("-- loses {what}, unless nothing is found by: {};\n", asked(rows, dialect))
            })
            .collect();
        let text = undone(file, down, dialect);
        parts.push(format!("-- back from {} {}\n{loses}begin;\n{text}commit;\n", file.number, file.name));
    }
    Ok(parts.join("\n"))
}

/// A file and how it is taken away; a refusal where nothing says how.
fn pair(number: i64, place: &str) -> Result<(&'static Migration, &'static Down), StoreError> {
    let file = MIGRATIONS.iter().find(|file| file.number == number);
    let down = DOWNS.iter().find(|down| down.number == number);
    match (file, down) {
        (Some(file), Some(down)) => Ok((file, down)),
        (Some(file), None) => Err(StoreError::Schema(format!(
            "{place} cannot go back behind file {number} ({}), which changed what was there before: an older program \
             goes on with a newer schema as far as `migrate status -o wide` says under SERVES, and before that there is \
             the backup that was made before `migrate up`",
            file.name
        ))),
        (None, _) => Err(StoreError::Schema(format!(
            "file {number} of {place} is newer than this program: the program that applied it can take it away"
        ))),
    }
}

fn asked(rows: &str, dialect: Dialect) -> String {
    rendered(&format!("select 1 from {rows} limit 1"), dialect)
}

/// Takes a file away and notes it.
fn undone(file: &Migration, down: &Down, dialect: Dialect) -> String {
    let left = MIGRATIONS.iter().take_while(|left| left.number < file.number);
    let serves = left.map(|left| left.serves).max().unwrap_or(0);
    let text = format!(
        "{}\ndelete from outlast.migrations where number = {};\n\
         update outlast.meta set value = '{serves}' where name = 'serves';\n",
        down.text.trim(),
        file.number
    );
    rendered(&text, dialect)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::migrate::Applied;

    fn ours(up_to: i64) -> Found {
        let done = |file: &Migration| Applied { number: file.number, checksum: file.checksum() };
        Found::Ours(MIGRATIONS.iter().filter(|file| file.number <= up_to).map(done).collect(), None)
    }

    fn refusal(found: &Found, to: i64) -> String {
        way(found, to, "orders.db", Dialect::Sqlite).err().unwrap().to_string()
    }

    #[test]
    fn files_are_taken_away_newest_first_and_what_they_hold_is_asked_for() {
        let way = way(&ours(23), 20, "orders.db", Dialect::Sqlite).unwrap();
        let numbers =
            way.texts.iter().map(|text| text.split("where number = ").nth(1).unwrap()[..2].to_owned());
        assert_eq!(numbers.collect::<Vec<_>>(), ["23", "22", "21"]);
        let asked: Vec<&str> = way.questions.iter().map(|question| question.sql.as_str()).collect();
        assert!(asked[0].contains("from outlast_nodes"), "{asked:?}");
        assert_eq!(
            asked[1..],
            [
                "select 1 from outlast_lost limit 1",
                "select 1 from outlast_logs where step is not null limit 1"
            ]
        );
    }

    #[test]
    fn what_changed_the_old_and_what_is_newer_than_the_program_is_refused() {
        let told = refusal(&ours(18), 16);
        assert!(told.contains("behind file 17 (paused_and_orphans)") && told.contains("backup"), "{told}");
        let Found::Ours(mut applied, _) = ours(i64::MAX) else { unreachable!() };
        applied.push(Applied { number: 900, checksum: "beef".into() });
        let told = refusal(&Found::Ours(applied, Some(1)), 20);
        assert!(told.contains("file 900 of orders.db is newer than this program"), "{told}");
    }

    #[test]
    fn where_nothing_is_nothing_is_taken_away() {
        assert!(way(&Found::Nothing, 3, "orders.db", Dialect::Postgres).unwrap().texts.is_empty());
        assert!(way(&ours(20), 20, "orders.db", Dialect::Postgres).unwrap().texts.is_empty());
    }
}

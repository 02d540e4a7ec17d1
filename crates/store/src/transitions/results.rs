//! Looks at how runs ended.

use std::collections::HashMap;

use outlast_core::{RunId, Status};

use super::agenda::ByShard;
use super::flight::{Answers, Flight, Place};
use crate::rows::{ReadRow, cells, ids};
use crate::sql::look_each;
use crate::{Sql, StoreError, Type};

/// How a run ended, as far as a transition has to know.
#[derive(Debug, Clone, Copy)]
pub(crate) struct End {
    pub(crate) status: Status,
    /// The epoch of the turn that ended it.
    pub(crate) epoch: i64,
}

/// Adds looks at how those of `runs` ended that have.
pub(crate) fn add_looks(flight: &mut Flight, runs: &ByShard) -> Vec<Place> {
    runs.iter().map(|(shard, runs)| flight.add(RESULTS_LOOK.with(cells![*shard, ids(runs)]))).collect()
}

/// What the looks at `places` found.
pub(crate) fn found(answers: &mut Answers, places: &[Place]) -> Result<HashMap<RunId, End>, StoreError> {
    let mut found = HashMap::new();
    for place in places {
        for row in answers.take(*place) {
            found.insert(row.run(0)?, End { status: row.status(1)?, epoch: row.int(2)? });
        }
    }
    Ok(found)
}

pub(crate) static STATEMENTS: &[&Sql] = &[&RESULTS_LOOK];

static RESULTS_LOOK: Sql = look_each!(
    "results_look",
    "select r.run, r.status, r.epoch from outlast.results as r where r.shard = {p1} and r.run"
)
.takes(&[Type::Int, Type::Ids]);

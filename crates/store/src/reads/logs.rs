//! What handlers logged, from any line on: a page costs the same wherever in the log it begins.

use outlast_core::RunId;

use crate::rows::{ReadRow, cells};
use crate::transitions::Flight;
use crate::{LogLine, LogPlace, Row, Sql, StoreError, Tx, Type};

/// What a run's handlers logged behind a place, oldest first.
pub(crate) async fn logs(
    tx: &mut dyn Tx,
    run: RunId,
    after: LogPlace,
    limit: u32,
) -> Result<Vec<LogLine>, StoreError> {
    let mut flight = Flight::default();
    let place = flight.add(LOGS.with(cells![run.shard(), run, after.epoch, after.n, limit]));
    let rows = flight.send_last(tx).await?.take(place);
    let line = |row: &Row| {
        let (epoch, n, at) = (row.number(0)?, row.number(1)?, row.time(2)?);
        Ok(LogLine { epoch, n, at, level: row.text(3)?, message: row.text(4)?, step: row.opt_text(5)? })
    };
    rows.iter().map(line).collect()
}

/// The place of a run's newest line; that before all lines where there are none.
pub(crate) async fn log_end(tx: &mut dyn Tx, run: RunId) -> Result<LogPlace, StoreError> {
    let mut flight = Flight::default();
    let place = flight.add(LOG_END.with(cells![run.shard(), run]));
    let rows = flight.send_last(tx).await?.take(place);
    let place = |row: &Row| Ok(LogPlace { epoch: row.number(0)?, n: row.number(1)? });
    rows.first().map_or(Ok(LogPlace::default()), place)
}

pub(super) static STATEMENTS: &[&Sql] = &[&LOGS, &LOG_END];

static LOGS: Sql = Sql::new(
    "logs",
    "select l.epoch, l.n, l.at, l.level, l.message, l.step from outlast.logs as l
      where l.shard = {p1} and l.run = {p2} and (l.epoch, l.n) > ({p3}, {p4}) order by l.epoch, l.n limit {p5}",
)
.takes(&[Type::Int, Type::Id, Type::Int, Type::Int, Type::Int]);

static LOG_END: Sql = Sql::new(
    "log_end",
    "select l.epoch, l.n from outlast.logs as l
      where l.shard = {p1} and l.run = {p2} order by l.epoch desc, l.n desc limit 1",
)
.takes(&[Type::Int, Type::Id]);

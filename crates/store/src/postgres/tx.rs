//! A transaction on a PostgreSQL connection, as the transitions see it.
//!
//! A flight is sent at once and answered in one round trip: `begin` and its bounds ride ahead of the
//! first, `commit` behind the last. The server works through it in order; after an error it refuses
//! everything that follows, the commit included, so the first error is the one that tells something.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::LazyLock;
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::time::timeout;
use tokio_postgres::types::{ToSql, Type as PgType};
use tokio_postgres::{Client, Statement};

use super::cells::{self, Param, Said};
use super::error::{is_aftermath, is_stale, meaning};
use super::pool::{Leased, execute};
use crate::render::{Rendered, Shape, rendered};
use crate::user_tx::{USER_IDLE, USER_LIMIT, failed_before};
use crate::{Call, Clock, Dialect, FENCED_TIMEOUT_MS, LOCK_TIMEOUT_MS, Row, Signal, StoreError, Tx, TxKind};

/// How long we wait for a flight's answer: longer than the server may work on it.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long one of our reads may take.
const READ_TIMEOUT_MS: u32 = 10_000;

/// A connection and how far its transaction has come.
pub(super) struct Session {
    pub(super) connection: Leased,
    pub(super) signals: Vec<Signal>,
    /// Rides ahead of the next flight.
    pub(super) ahead: Option<&'static str>,
    /// Whether a single statement may go without a transaction around it.
    may_go_bare: bool,
    patience: Duration,
    stage: Stage,
}

/// How far a transaction has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing has been sent.
    Before,
    /// Open on the server.
    Open,
    /// Open, and the server will only roll it back.
    Failed,
    /// Committed, rolled back, or never needed.
    Over,
    /// Nobody knows: the connection cannot be used again.
    Lost,
}

/// A transaction for one transition.
pub(super) struct PgTx<'s> {
    pub(super) session: &'s mut Session,
    pub(super) clock: &'s Clock,
    /// Whether locks are waited for.
    pub(super) is_users: bool,
    /// Whether the last flight commits.
    pub(super) is_ours: bool,
}

#[async_trait]
impl Tx for PgTx<'_> {
    async fn flight(&mut self, calls: Vec<Call>) -> Result<Vec<Vec<Row>>, StoreError> {
        self.fly(calls, false).await
    }

    async fn last_flight(&mut self, calls: Vec<Call>) -> Result<Vec<Vec<Row>>, StoreError> {
        self.fly(calls, self.is_ours).await
    }

    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    fn is_users(&self) -> bool {
        self.is_users
    }

    fn signal(&mut self, signal: Signal) {
        self.session.signals.push(signal);
    }
}

impl PgTx<'_> {
    async fn fly(&mut self, calls: Vec<Call>, commits: bool) -> Result<Vec<Vec<Row>>, StoreError> {
        let sending = Sending::of(calls, self.clock)?;
        let answers = self.session.exchange(&sending.asks, commits).await?;
        Ok(sending.in_order(answers.iter().map(Said::rows).collect::<Result<_, _>>()?))
    }
}

/// A flight ready to be sent.
pub(super) struct Sending {
    pub(super) asks: Vec<Ask>,
    /// For each call whether it is sent: one that has nothing to say has no answer either.
    sent: Vec<bool>,
}

/// A statement ready to be sent.
pub(super) struct Ask {
    name: (&'static str, Shape),
    /// Whether the answer is how many rows it changed.
    pub(super) counted: bool,
    pub(super) rendered: &'static Rendered,
    pub(super) types: Vec<PgType>,
    pub(super) params: Vec<Param>,
}

impl Sending {
    pub(super) fn of(calls: Vec<Call>, clock: &Clock) -> Result<Sending, StoreError> {
        let is_sent = |call: &Call| !call.is_nothing(call.sql.text);
        let sent = calls.iter().map(is_sent).collect();
        let ask = |call: Call| {
            let (sql, shape) = (call.sql, call.shape());
            let rendered = rendered(sql, Dialect::Postgres, shape);
            let types = cells::types(sql, shape, rendered.now);
            let params = cells::params(call, shape, rendered.now.then(|| clock.shift()))?;
            Ok(Ask { name: (sql.name, shape), counted: sql.counted, rendered, types, params })
        };
        let asks = calls.into_iter().filter(is_sent).map(ask).collect::<Result<_, StoreError>>()?;
        Ok(Sending { asks, sent })
    }

    /// What was answered, with nothing for calls that were not sent.
    pub(super) fn in_order(&self, answers: Vec<Vec<Row>>) -> Vec<Vec<Row>> {
        let mut answers = answers.into_iter();
        let answer = |sent: &bool| sent.then(|| answers.next()).flatten().unwrap_or_default();
        self.sent.iter().map(answer).collect()
    }
}

type Answer = Result<Said, tokio_postgres::Error>;

impl Session {
    /// A transaction of ours, begun with its first flight.
    pub(super) fn new(connection: Leased, kind: TxKind) -> Session {
        let ahead = match kind {
            TxKind::Read => &*BEGIN_READ,
            TxKind::Fenced | TxKind::Plain | TxKind::Single => &*BEGIN_WRITE,
        };
        Session {
            connection,
            signals: Vec::new(),
            ahead: Some(ahead),
            may_go_bare: matches!(kind, TxKind::Read | TxKind::Single),
            patience: PATIENCE,
            stage: Stage::Before,
        }
    }

    /// A transaction of a user's.
    pub(super) fn users(connection: Leased) -> Session {
        let patience = USER_LIMIT + PATIENCE;
        Session { ahead: Some(&BEGIN_USERS), patience, ..Session::new(connection, TxKind::Plain) }
    }

    /// Bounds the rest of a user's transaction, because it takes a fence now.
    pub(super) fn bound_by_fence(&mut self) {
        self.ahead = Some(match self.stage {
            Stage::Before => &BEGIN_WRITE,
            _ => &BOUNDS_WRITE,
        });
    }

    /// Whether the server has lost us, or we it.
    pub(super) fn is_lost(&self) -> bool {
        self.stage == Stage::Lost || self.connection.client().is_closed()
    }

    /// Sends statements, with whatever rides ahead and behind, and gives their answers.
    async fn exchange(&mut self, asks: &[Ask], commits: bool) -> Result<Vec<Said>, StoreError> {
        match self.stage {
            Stage::Before if asks.is_empty() => {
                self.stage = if commits { Stage::Over } else { Stage::Before };
                return Ok(Vec::new());
            }
            Stage::Before | Stage::Open => {}
            Stage::Failed | Stage::Lost => return Err(failed_before()),
            Stage::Over => return Err(StoreError::Refused("a flight came after the last one".into())),
        }
        // One statement sees one snapshot anyway.
        let bare = self.may_go_bare && commits && self.stage == Stage::Before && asks.len() == 1;
        if !self.connection.is_unnamed() {
            self.prepare(asks).await?;
        }
        let ahead = if bare { None } else { self.ahead.take() };
        let behind = (commits && !bare).then_some("commit");

        let connection = self.connection.connection();
        let (client, known) = (&connection.client, &connection.statements);
        let mut requests: Vec<BoxFuture<'_, Answer>> = Vec::with_capacity(asks.len() + 2);
        requests.extend(ahead.map(|sql| simple(client, sql)));
        requests.extend(asks.iter().map(|ask| ask.request(client, known.get(&ask.name))));
        requests.extend(behind.map(|sql| simple(client, sql)));
        let expected = requests.len();
        let answers = timeout(self.patience, pipeline(requests)).await;

        let Ok(mut answers) = answers else {
            self.stage = Stage::Lost;
            return Err(no_answer(self.patience));
        };
        // Sent to its end, the transaction is over, one way or the other.
        let complete = answers.len() == expected;
        let failed = answers.iter().any(Result::is_err);
        self.stage = match (complete && commits, failed) {
            (true, _) => Stage::Over,
            (false, true) => Stage::Failed,
            (false, false) => Stage::Open,
        };
        if failed {
            let is_cause = |answer: &&Answer| answer.as_ref().is_err_and(|error| !is_aftermath(error));
            let cause =
                answers.iter().find(is_cause).or_else(|| answers.iter().find(|answer| answer.is_err()));
            let error = cause.and_then(|answer| answer.as_ref().err()).map(meaning);
            return Err(self.noted(error.unwrap_or_else(failed_before)));
        }
        if ahead.is_some() {
            drop(answers.remove(0));
        }
        answers.truncate(asks.len());
        Ok(answers.into_iter().flatten().collect())
    }

    /// Prepares what this connection does not know yet, in one round trip.
    async fn prepare(&mut self, asks: &[Ask]) -> Result<(), StoreError> {
        let connection = self.connection.connection();
        let mut missing: Vec<&Ask> = Vec::new();
        for ask in asks {
            if !connection.statements.contains_key(&ask.name)
                && !missing.iter().any(|one| one.name == ask.name)
            {
                missing.push(ask);
            }
        }
        // Only where statements keep their names does the session stay with us; and what is set inside a
        // transaction goes when that is rolled back.
        let first = !connection.plans && self.stage == Stage::Before;
        if missing.is_empty() && !first {
            return Ok(());
        }
        let plans =
            futures_util::future::OptionFuture::from(first.then(|| simple(&connection.client, PLANS)));
        let preparing =
            missing.iter().map(|ask| connection.client.prepare_typed(&ask.rendered.text, &ask.types));
        let prepared = futures_util::future::try_join_all(preparing);
        // A server that does not know one of these plans as it likes.
        let prepared = async { futures_util::future::join(plans, prepared).await.1 };
        match timeout(self.patience, prepared).await {
            Ok(Ok(prepared)) => {
                connection.plans |= first;
                connection.statements.extend(missing.iter().map(|ask| ask.name).zip(prepared));
                Ok(())
            }
            Ok(Err(error)) => {
                self.stage = if self.stage == Stage::Open { Stage::Failed } else { self.stage };
                Err(self.noted(meaning(&error)))
            }
            Err(_) => {
                self.stage = Stage::Lost;
                Err(no_answer(self.patience))
            }
        }
    }

    /// Runs a user's request behind whatever rides ahead.
    pub(super) async fn ask<T: Send>(
        &mut self,
        request: impl for<'c> FnOnce(&'c Client) -> BoxFuture<'c, Result<T, tokio_postgres::Error>>,
        meaning: impl Fn(&tokio_postgres::Error) -> StoreError,
    ) -> Result<T, StoreError> {
        if !matches!(self.stage, Stage::Before | Stage::Open) {
            return Err(failed_before());
        }
        let ahead = self.ahead.take();
        let client = self.connection.client();
        let asked = async {
            // Polled in this order, so sent in this order; and answered in it.
            let ahead = ahead.map(|sql| simple(client, sql));
            match ahead {
                Some(ahead) => {
                    let (ahead, answer) = futures_util::future::join(ahead, request(client)).await;
                    ahead.and(answer)
                }
                None => request(client).await,
            }
        };
        match timeout(self.patience, asked).await {
            Ok(Ok(answer)) => {
                self.stage = Stage::Open;
                Ok(answer)
            }
            Ok(Err(error)) => {
                self.stage = Stage::Failed;
                Err(self.noted(meaning(&error)))
            }
            Err(_) => {
                self.stage = Stage::Lost;
                Err(no_answer(self.patience))
            }
        }
    }

    /// Notes whether an error took the connection with it, or the statements it knows.
    fn noted(&mut self, error: StoreError) -> StoreError {
        match &error {
            StoreError::Unavailable(_) => self.stage = Stage::Lost,
            error if is_stale(error) => self.connection.connection().statements.clear(),
            _ => {}
        }
        error
    }

    /// Commits what is open, unless it has failed.
    pub(super) async fn commit(mut self) -> Result<Vec<Signal>, StoreError> {
        match self.stage {
            Stage::Before | Stage::Over => {}
            Stage::Open => {
                if let Err(error) = self.exchange(&[], true).await {
                    self.roll_back().await;
                    return Err(error);
                }
            }
            Stage::Failed | Stage::Lost => {
                self.roll_back().await;
                return Err(failed_before());
            }
        }
        let signals = std::mem::take(&mut self.signals);
        self.connection.give_back();
        Ok(signals)
    }

    /// Ends what is open without a trace, and gives the connection back if it still works.
    pub(super) async fn roll_back(self) {
        let usable = match self.stage {
            Stage::Before | Stage::Over => true,
            Stage::Open | Stage::Failed => execute(&self.connection, "rollback").await.is_ok(),
            Stage::Lost => false,
        };
        if usable {
            self.connection.give_back();
        }
    }
}

impl Ask {
    /// Sends it when polled, by its name if `statement` is known.
    pub(super) fn request<'c>(
        &'c self,
        client: &'c Client,
        statement: Option<&'c Statement>,
    ) -> BoxFuture<'c, Answer> {
        match statement {
            Some(statement) => {
                let params: Vec<&(dyn ToSql + Sync)> = self.params.iter().map(|param| param as _).collect();
                match self.counted {
                    true => async move { client.execute(statement, &params).await.map(Said::Count) }.boxed(),
                    false => async move { client.query(statement, &params).await.map(Said::Rows) }.boxed(),
                }
            }
            None => {
                let typed = self.params.iter().map(|param| param as &(dyn ToSql + Sync));
                let typed: Vec<_> = typed.zip(self.types.iter().cloned()).collect();
                let text = &*self.rendered.text;
                match self.counted {
                    true => async move { client.execute_typed(text, &typed).await.map(Said::Count) }.boxed(),
                    false => async move { client.query_typed(text, &typed).await.map(Said::Rows) }.boxed(),
                }
            }
        }
    }
}

fn simple<'c>(client: &'c Client, sql: &'c str) -> BoxFuture<'c, Answer> {
    async move { client.batch_execute(sql).await.map(|()| Said::Rows(Vec::new())) }.boxed()
}

/// Sends requests in order without waiting in between, then waits for all their answers.
///
/// A request that is refused before it is sent ends the list: what follows it, a commit above all,
/// must not reach the server alone. So there may be fewer answers than requests.
pub(super) async fn pipeline(mut requests: Vec<BoxFuture<'_, Answer>>) -> Vec<Answer> {
    let mut answers: Vec<Option<Answer>> = requests.iter().map(|_| None).collect();
    poll_fn(|context| {
        for at in 0..requests.len() {
            if let Poll::Ready(answer) = Pin::new(&mut requests[at]).poll(context) {
                let refused = answer.is_err();
                answers[at] = Some(answer);
                if refused {
                    answers.truncate(at + 1);
                    break;
                }
            }
        }
        Poll::Ready(())
    })
    .await;

    // All are on their way, and answers come in the order of the requests.
    let mut given = Vec::with_capacity(answers.len());
    for (request, answer) in requests.into_iter().zip(answers) {
        given.push(match answer {
            Some(answer) => answer,
            None => request.await,
        });
    }
    given
}

fn no_answer(patience: Duration) -> StoreError {
    StoreError::Unavailable(format!("PostgreSQL did not answer within {patience:?}").into())
}

/// Plans without values: the number of rows in a batch would else have PostgreSQL plan it anew each time, which
/// takes longer than a small batch itself. And plans that stay good: one that reads a whole table while it is
/// small is kept when it has grown. Where there is no other way it is read all the same; that looks so dear to
/// PostgreSQL that it would compile the plan. Nor does it join by a table of its own, for which it reads all of
/// ours: what we join is few rows, by their keys, whatever it reckons. Nor does it gather places before it reads them,
/// which loses the order of an index: before it has statistics it reads all runs so, and sorts them, for a page of the
/// newest. And it counts rows, not pages: the pages of an index are those of all that was ever in it and has not been
/// vacuumed, which it takes for those of the few rows that are left, so that a look-up in one of these costs it as much as
/// going along all of another. Nothing but speed depends on these, so they may be the session's.
const PLANS: &str = "set plan_cache_mode = force_generic_plan; set enable_seqscan = off; \
                     set enable_hashjoin = off; set enable_mergejoin = off; set enable_bitmapscan = off; \
                     set jit = off; set seq_page_cost = 0; set random_page_cost = 0; set cpu_tuple_cost = 0.1; \
                     set cpu_index_tuple_cost = 0.1";
/// A user's own statements are planned as their database is used to.
const USERS_PLANS: &str = "set local plan_cache_mode to default; set local enable_seqscan to default; \
                           set local enable_hashjoin to default; set local enable_mergejoin to default; \
                           set local enable_bitmapscan to default; set local jit to default; \
                           set local seq_page_cost to default; set local random_page_cost to default; \
                           set local cpu_tuple_cost to default; set local cpu_index_tuple_cost to default";

static BOUNDS_WRITE: LazyLock<String> =
    LazyLock::new(|| bounds(FENCED_TIMEOUT_MS, FENCED_TIMEOUT_MS, LOCK_TIMEOUT_MS));
static BEGIN_WRITE: LazyLock<String> =
    LazyLock::new(|| format!("begin isolation level read committed; {}", *BOUNDS_WRITE));
static BEGIN_READ: LazyLock<String> = LazyLock::new(|| {
    let bounds = bounds(READ_TIMEOUT_MS, FENCED_TIMEOUT_MS, LOCK_TIMEOUT_MS);
    format!("begin isolation level repeatable read read only; {bounds}")
});
static BEGIN_USERS: LazyLock<String> = LazyLock::new(|| {
    let (limit, idle) = (USER_LIMIT.as_millis() as u32, USER_IDLE.as_millis() as u32);
    format!("begin isolation level read committed; {}; {USERS_PLANS}", bounds(limit, idle, limit))
});

/// `set local` lasts as long as the transaction: a pooler may hand the connection on afterwards.
fn bounds(statement: u32, idle: u32, lock: u32) -> String {
    format!(
        "set local statement_timeout = {statement}; set local idle_in_transaction_session_timeout = {idle}; \
         set local lock_timeout = {lock}"
    )
}

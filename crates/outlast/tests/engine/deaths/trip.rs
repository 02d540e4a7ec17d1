//! The saga that processes die with: five things that are undone, each in its own way.

use std::fs::{File, OpenOptions};
use std::future::{Ready, ready};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use outlast::prelude::*;
use outlast_core::Op;
use outlast_testkit::Watched;
use serde::{Deserialize, Serialize};

/// What bodies really did, in order, in a file that processes share and the engine never sees.
#[derive(Clone)]
pub struct Book(pub PathBuf);

impl Book {
    fn note(&self, what: &str) {
        let mut file: File = OpenOptions::new().create(true).append(true).open(&self.0).unwrap();
        file.write_all(format!("{what}\n").as_bytes()).unwrap();
    }

    pub fn notes(&self) -> Vec<String> {
        let text = std::fs::read_to_string(&self.0).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

/// What bodies know of the process that they run in.
#[derive(Clone)]
pub struct Process {
    pub book: Book,
    pub store: Arc<Watched>,
    /// Between two attempts.
    pub pause: Duration,
}

impl Process {
    /// Notes what a body does, unless its process is dead; gives a number of its own to each call.
    fn does(&self, what: &str) -> u64 {
        let call = self.book.notes().len() as u64;
        self.notes(what, &call.to_string());
        call
    }

    /// Notes what an undo does, given the number of the call that it reverts.
    fn undoes(&self, what: &str, call: Option<u64>) -> Ready<Result<(), AnyError>> {
        self.notes(what, &call.map_or_else(|| "?".to_owned(), |call| call.to_string()));
        ready(Ok(()))
    }

    fn notes(&self, what: &str, call: &str) {
        if !self.store.is_dead() {
            self.book.note(&format!("{what}={call}"));
        }
    }
}

/// How a trip comes to its end.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum End {
    Fails,
    Waits,
}

/// Five things that are undone, each in its own way, and then an end that is not good.
pub fn trip() -> Workflow<End, (), AnyError> {
    Workflow::new("trip", |ctx: Ctx, end: End| async move {
        let run = ctx.run_id();
        let process = || ctx.state::<Process>();
        let pause = process().pause;
        let (does, undoes) = (process(), process());
        ctx.step("flight", move |_| done(does.does("flight")))
            .undo(move |_, call| undoes.undoes("undo flight", Some(call)))
            .await?;
        let (does, undoes) = (process(), process());
        ctx.step("hotel", move |_| done(does.does("hotel")))
            .undo_in_doubt(move |_, call| undoes.undoes("undo hotel", call))
            .await?;
        let (does, undoes) = (process(), process());
        ctx.transaction("debit", move |tx| debit(tx, run, does.does("debit")))
            .undo(move |_, call| undoes.undoes("undo debit", Some(call)))
            .await?;
        let undoes = process();
        let child = ctx.start(guide(), ()).undo(move |_, _| undoes.undoes("undo guide", None)).await?;
        child.result().await?;
        let (does, undoes) = (process(), process());
        ctx.step("mail", move |s| at_second(s.attempt(), does.does(&format!("mail {}", s.attempt()))))
            .retry(Retry::fixed(2, pause))
            .undo(move |s, call| {
                undoes.notes(&format!("undo mail {}", s.attempt()), &call.to_string());
                let again = at_second(s.attempt(), call);
                async move { again.await.map(drop) }
            })
            .undo_retry(Retry::fixed(2, pause))
            .await?;
        match end {
            End::Fails => {
                let does = process();
                ctx.step("pay", move |_| {
                    does.does("pay");
                    async { Err::<(), _>(AnyError::new("no money")) }
                })
                .await?;
            }
            End::Waits => ctx.event("never").await?,
        }
        Ok(())
    })
}

/// What the trip starts, and what has an effect of its own.
pub fn guide() -> Workflow<(), (), AnyError> {
    Workflow::new("guide", |ctx: Ctx, (): ()| async move {
        let process = ctx.state::<Process>();
        ctx.step("guide", move |_| done(process.does("guide"))).await?;
        Ok(())
    })
}

async fn done(call: u64) -> Result<u64, AnyError> {
    Ok(call)
}

async fn at_second(attempt: u32, call: u64) -> Result<u64, AnyError> {
    if attempt < 2 { Err(AnyError::new("not yet")) } else { Ok(call) }
}

async fn debit(tx: Tx, run: RunId, call: u64) -> Result<u64, AnyError> {
    tx.execute("insert into debits (run, call) values ($1, $2)", (run.to_string(), call.cast_signed()))
        .await?;
    Ok(call)
}

/// What a trip does, in order; its guide does its own work beside.
pub const DONE: [&str; 6] = ["flight", "hotel", "debit", "mail 1", "mail 2", "pay"];
/// What undoes it, and the entry that says that there is something to undo.
pub const UNDONE: [(&str, Op, &str); 6] = [
    ("undo mail 1", Op::Step, "mail"),
    ("undo mail 2", Op::Step, "mail"),
    ("undo guide", Op::Child, "guide"),
    ("undo debit", Op::Transaction, "debit"),
    ("undo hotel", Op::Step, "hotel"),
    ("undo flight", Op::Step, "flight"),
];

//! The macros make what can be made by hand, and say what is wrong where it is written.
#![cfg(feature = "macros")]

use std::time::Duration;

use outlast::prelude::*;
use outlast::{Definition, Limits, testing};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Order {
    item: String,
    cents: u64,
}

#[derive(Debug, PartialEq, thiserror::Error, Serialize, Deserialize)]
enum Refused {
    #[error("{cents} cents are too many")]
    TooDear { cents: u64 },
    #[error("{0}")]
    Outlast(Error),
}

impl<E: std::fmt::Display> From<Failure<E>> for Refused {
    fn from(failure: Failure<E>) -> Refused {
        Refused::Outlast(Error::Misconfigured { detail: failure.to_string() })
    }
}

/// Sells one thing.
#[outlast::workflow]
async fn checkout(ctx: Ctx, Order { item, cents }: Order) -> Result<String, Refused> {
    if cents > 1000 {
        return Err(Refused::TooDear { cents });
    }
    let charge = ctx.step("charge", |_| async { Ok::<_, AnyError>(cents) }).await?;
    let mail = ctx.start(send_mail, item.clone()).await.map_err(Refused::Outlast)?.result().await?;
    Ok(format!("{item} for {charge}, {mail}"))
}

#[outlast::job(queue = "mail", attempts = 3)]
async fn send_mail(job: JobCtx, what: String) -> std::result::Result<String, AnyError> {
    match job.attempt() {
        1 => Err(AnyError::new("the server is busy")),
        attempt => Ok(format!("mailed {what} at attempt {attempt}")),
    }
}

mod shop {
    use super::*;

    #[outlast::workflow(
        name = "check out",
        version = 2,
        queue = "orders",
        priority = 3,
        timeout = "1h30m",
        http_timeout = "10s"
    )]
    pub(crate) async fn checkout(_: Ctx, _: ()) -> Result<(), AnyError> {
        Ok(())
    }

    #[outlast::job(name = "mail", version = 7, queue = "mail", priority = 0, timeout = "30s", attempts = 9)]
    #[expect(unused_variables, reason = "attributes about lints reach the body")]
    pub(crate) async fn r#move(job: JobCtx, input: Vec<Option<u8>>) -> Result<(), AnyError> {
        Ok(())
    }

    #[outlast::job(backoff = "250ms", max_backoff = "1h")]
    pub(crate) async fn r#type(_: JobCtx, _: ()) -> Result<(), AnyError> {
        Ok(())
    }

    #[outlast::job(backoff = "10m", timeout = "36600d")]
    pub(crate) async fn at_the_limit(_: JobCtx, _: ()) -> Result<(), AnyError> {
        Ok(())
    }
}

#[test]
fn what_a_macro_makes_can_be_made_by_hand() {
    async fn workflow(_: Ctx, _: ()) -> Result<(), AnyError> {
        Ok(())
    }
    async fn job(_: JobCtx, _: ()) -> Result<(), AnyError> {
        Ok(())
    }
    let by_hand = Workflow::new("checkout", workflow);
    assert_eq!(checkout.options(), by_hand.options());

    let by_hand =
        Workflow::new("check out", workflow).version(2).queue("orders").priority(3).timeout(90.minutes());
    assert_eq!(shop::checkout.options(), by_hand.http_timeout(10.seconds()).options());

    let by_hand = Job::new("mail", job).version(7).queue("mail").priority(0).timeout(30.seconds());
    assert_eq!(shop::r#move.options(), by_hand.retry(Retry::times(9)).options());

    let by_hand = Job::new("type", job).retry(Retry::times(5).first(250.millis()).at_most(1.hour()));
    assert_eq!(shop::r#type.options(), by_hand.options());
}

#[test]
fn the_macros_know_the_limits_by_which_outlast_judges() {
    assert_eq!(shop::at_the_limit.options().timeout, Some(Limits::DURATION));
    assert_eq!(Limits::NAME, 200);
    let pauses = Retry::times(1000).without_jitter();
    assert_eq!(pauses.pause(999, 1.0), Some(Duration::from_secs(600)), "the longest pause unless given");
    assert!(Retry::times(1_000_000).check().is_ok() && Retry::times(1_000_001).check().is_err());
}

#[tokio::test]
async fn a_workflow_made_by_a_macro_runs_with_its_child() -> Result<(), AnyError> {
    let test = testing::start(|app| app.workflow(checkout).job(send_mail)).await?;
    let run = test.app().start(checkout, Order { item: "tea".into(), cents: 300 }).await?;
    test.advance(1.minute()).await?;
    assert_eq!(run.result().await?, "tea for 300, mailed tea at attempt 2");
    assert_eq!(test.steps(run.id()).await?, ["charge"]);
    Ok(())
}

#[tokio::test]
async fn an_error_comes_back_as_itself() -> Result<(), AnyError> {
    let test = testing::start(|app| app.workflow(checkout).job(send_mail)).await?;
    let run = test.app().start(checkout, Order { item: "gold".into(), cents: 2000 }).await?;
    assert_eq!(run.result().await, Err(Failure::Own(Refused::TooDear { cents: 2000 })));
    Ok(())
}

#[outlast::workflow]
async fn countdown(ctx: Ctx, from: u32) -> Result<Vec<u32>, Refused> {
    let mut numbers = vec![from];
    if from > 0 {
        numbers.extend(ctx.start(countdown, from - 1).await.map_err(Refused::Outlast)?.result().await?);
    }
    Ok(numbers)
}

#[tokio::test]
async fn a_workflow_can_start_itself() -> Result<(), AnyError> {
    let test = testing::start(|app| app.workflow(countdown)).await?;
    assert_eq!(test.app().start(countdown, 3).await?.result().await?, [3, 2, 1, 0]);
    Ok(())
}

macro_rules! one_of_many {
    ($name:ident, $queue:literal, $input:ty, $result:ty) => {
        #[outlast::job(queue = $queue)]
        async fn $name(_: JobCtx, _: $input) -> $result {
            Ok(())
        }
    };
}

one_of_many!(made_by_another_macro, "many", u8, Result<(), AnyError>);

#[test]
fn definitions_can_come_from_other_macros() {
    assert_eq!(made_by_another_macro.options().queue, "many");
}

#[test]
fn what_is_wrong_is_said_where_it_is_written() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}

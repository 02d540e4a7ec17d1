//! `#[outlast::workflow]` and `#[outlast::job]`, the macros of the crate `outlast`.
//!
//! Everything they do can be done without them: they make the values that `outlast::Workflow::new` and
//! `outlast::Job::new` make, and read the options when the program is compiled.

mod digest;
mod duration;
mod expand;
mod faults;
mod options;
mod signature;

use proc_macro::TokenStream;

use crate::expand::{Kind, expand};

/// Makes a workflow of an `async fn`: a function of the same name that gives its definition, to be registered and started.
///
/// The function takes the context and one input, both by value, and returns `Result<Output, Error>` with both
/// types written out, because input, output and error are stored. Use `()` for no input and a struct for
/// several; `outlast::AnyError` is an error that `?` makes of any other.
///
/// ```
/// use outlast::prelude::*;
///
/// /// Greets someone a day later.
/// #[outlast::workflow(queue = "letters", timeout = "2d")]
/// pub async fn greet(ctx: Ctx, name: String) -> Result<String, AnyError> {
///     ctx.sleep(1.day()).await?;
///     Ok(format!("Hello, {name}!"))
/// }
///
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// # let test = outlast::testing::start(|app| app.workflow(greet)).await?;
/// # let app = test.app();
/// let run = app.start(greet, "Ada".to_owned()).await?;
/// # test.advance(1.day()).await?;
/// assert_eq!(run.result().await?, "Hello, Ada!");
/// # Ok::<(), AnyError>(()) }).unwrap();
/// ```
///
/// # Options
///
/// | option | meaning | unless given |
/// | --- | --- | --- |
/// | `name = "checkout"` | the name under which it is registered | the function's name |
/// | `version = 2` | new runs take the highest registered version | 1 |
/// | `queue = "orders"` | the queue of its runs | `default` |
/// | `priority = 3` | from 0 (most urgent) to 9 | 5 |
/// | `timeout = "2h"` | how long a run may take from its start to its end | no limit |
/// | `role = "admin"` | the role without which its runs fail | none |
/// | `http_timeout = "10s"` | how long a call with `ctx.http()` may take, where the call does not say | `30s` |
/// | `unique = "unfinished"` | a run is the only one with its arguments until it has ended; `"24h"`: for this long | not unique |
/// | `retention = "7d"` | how long its runs are kept after their end | as for all others: `Outlast::retention` |
///
/// A run finds its code by name and version: when the function is renamed, keep the old name with `name`.
///
/// Durations are whole numbers with the units `d`, `h`, `m`, `s` and `ms`: `"250ms"`, `"30s"`, `"1h30m"`.
///
/// # What it becomes
///
/// `fn checkout() -> Workflow<…>`, which can be registered and started as it is: `app.workflow(checkout)`,
/// `app.start(checkout, order)`. Documentation, visibility and lint attributes go to it, all other attributes
/// to the code inside.
#[proc_macro_attribute]
pub fn workflow(args: TokenStream, item: TokenStream) -> TokenStream {
    expand(Kind::Workflow, args.into(), item.into()).into_tokens().into()
}

/// Makes a job of an `async fn`: a function of the same name that gives its definition, to be registered and started.
///
/// A job is one unit of work without a journal, tried again from its beginning when it fails. Its function
/// looks like that of a [`macro@workflow`], with another context.
///
/// ```
/// use outlast::prelude::*;
///
/// #[outlast::job(queue = "mail", attempts = 3, timeout = "30s")]
/// async fn send_mail(job: JobCtx, to: String) -> Result<String, AnyError> {
///     Ok(format!("sent to {to}, attempt {}", job.attempt()))
/// }
///
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// # let test = outlast::testing::start(|app| app.job(send_mail)).await?;
/// # let app = test.app();
/// let run = app.start(send_mail, "ada@example.com".to_owned()).await?;
/// assert_eq!(run.result().await?, "sent to ada@example.com, attempt 1");
/// # Ok::<(), AnyError>(()) }).unwrap();
/// ```
///
/// # Options
///
/// Those of a [`macro@workflow`], where `timeout` is for one attempt, and:
///
/// | option | meaning | unless given |
/// | --- | --- | --- |
/// | `role = "admin"` | the role without which its runs fail | none |
/// | `attempts = 3` | how many attempts there are in all | 5 |
/// | `backoff = "1s"` | the longest pause after the first attempt; each one after is twice as long | `1s` |
/// | `max_backoff = "10m"` | the longest pause of all | `10m` |
#[proc_macro_attribute]
pub fn job(args: TokenStream, item: TokenStream) -> TokenStream {
    expand(Kind::Job, args.into(), item.into()).into_tokens().into()
}

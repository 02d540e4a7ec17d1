//! Commands that act on runs: start, send, settle, cancel, kill, wait, purge.

use std::io::Read;
use std::time::Duration;

use outlast::{RunId, RunView, Status};
use serde_json::json;
use serde_json::value::RawValue;

use crate::backend::{Backend, StartAsk, Which};
use crate::cli::{CancelArgs, MessageArgs, PurgeArgs, SendArgs, StartArgs, WaitArgs};
use crate::fault::{Exit, Fault};
use crate::follow::follow_run;
use crate::output::{Format, call, note, print_error, print_one};
use crate::shapes::RunJson;
use crate::story::{Story, failure, label};
use crate::words::{count, json_of, took};

/// How often a waiting command looks without any hint.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The run that `text` names, if it exists.
pub(crate) async fn find(client: &Backend, text: &str) -> Result<RunView, Fault> {
    client.run(&Which::read(text)?).await
}

/// Starts a run.
pub(crate) async fn start(
    client: &Backend,
    args: StartArgs,
    timeout: Option<Duration>,
    format: Format,
) -> Result<(), Fault> {
    let (follow, wait) = (args.follow, args.wait);
    let (id, created) = client.start(start_ask(args)?).await?;
    note_without_node(client).await?;
    if follow {
        note(&format!("{} {id}", if created { "started" } else { "found" }));
        return follow_run(client, id, timeout, format).await;
    }
    if wait {
        note(&format!("{} {id}; waiting for its end", if created { "started" } else { "found" }));
        return end_of(&ended(client, id, timeout).await?, format);
    }
    print_one(format, &json!({ "id": id, "created": created }), id, || id.to_string())?;
    if format == Format::Text {
        let what = if created { "started" } else { "this key was started before" };
        note(&format!("{what}; look at it with `{}`", call(&format!("show {id}"))));
    }
    Ok(())
}

/// What is asked when a run is started.
pub(crate) fn start_ask(args: StartArgs) -> Result<StartAsk, Fault> {
    let tag = |tag: &String| match tag.split_once('=') {
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => Err(Fault::usage(format!("tag {tag:?}: write it like --tag city=Bern"))),
    };
    Ok(StartAsk {
        input: given("input", &args.input)?,
        tags: args.tags.iter().map(tag).collect::<Result<_, _>>()?,
        definition: args.name,
        key: args.key,
        queue: args.queue,
        priority: args.priority,
        delay: args.delay,
        at: args.at,
    })
}

/// Sends an event.
pub(crate) async fn send(client: &Backend, args: SendArgs, format: Format) -> Result<(), Fault> {
    let MessageArgs { id, name, data } = &args.message;
    let (to, data) = (Which::read(id)?, given("data", data)?);
    known_definition(client, &to).await?;
    let awaited = awaited(client, &to, name).await?;
    let event = client.send(&to, name, &data, args.idempotency_key.as_deref()).await?;
    let id = event.as_ref().map(|event| format!(" as {event}")).unwrap_or_default();
    let sent = |run| format!("event {name} sent{}{id}", near(" to", run));
    told(client, &to, event.as_deref(), sent, format).await?;
    if !awaited && format == Format::Text {
        note(&format!("it does not wait for {name} now: the event is kept until it does"));
    }
    Ok(())
}

/// Settles a promise.
pub(crate) async fn settle(client: &Backend, args: MessageArgs, format: Format) -> Result<(), Fault> {
    let (of, data) = (Which::read(&args.id)?, given("data", &args.data)?);
    known_definition(client, &of).await?;
    client.settle(&of, &args.name, &data).await?;
    let settled = |run| format!("promise {}{} settled", args.name, near(" of", run));
    told(client, &of, None, settled, format).await
}

/// Whether a run that exists waits for this event. That it does not may be a typo, or just early.
async fn awaited(client: &Backend, to: &Which, name: &str) -> Result<bool, Fault> {
    match client.run_if_any(to).await? {
        Some(view) => Ok(Story::read(client, &view).await?.awaits_event(name, client.now().await?)),
        // A key whose run is still to come.
        None => Ok(true),
    }
}

/// A message to a key may come before its run, but not to a definition that nobody knows: that is a typo.
pub(crate) async fn known_definition(client: &Backend, which: &Which) -> Result<(), Fault> {
    match which {
        Which::Key { definition, .. } => client.known_definition(definition).await,
        Which::Id(_) => Ok(()),
    }
}

/// Says what was sent to whom. Its name is the event's, where it has one, else the run's.
async fn told(
    client: &Backend,
    to: &Which,
    event: Option<&str>,
    done: impl Fn(Option<RunId>) -> String,
    format: Format,
) -> Result<(), Fault> {
    let run = client.run_if_any(to).await?.map(|view| view.record.id);
    let answer = match event {
        Some(event) => json!({ "run": run, "event": event }),
        None => json!({ "run": run }),
    };
    let name = event.map(str::to_owned).or_else(|| run.map(|run| run.to_string())).unwrap_or_default();
    print_one(format, &answer, name, || match (run, to) {
        (None, Which::Key { .. }) => {
            format!("{}; it is kept until a run with this key is started", done(None))
        }
        _ => done(run),
    })
}

/// A word with the run it leads to, if there is one.
fn near(word: &str, run: Option<RunId>) -> String {
    run.map(|run| format!("{word} {run}")).unwrap_or_default()
}

/// Asks runs to stop. Goes through all of them, whatever one of them says.
pub(crate) async fn cancel(client: &Backend, args: CancelArgs, format: Format) -> Result<(), Fault> {
    each(&args.ids, async |text| cancel_one(client, text, &args.reason, format).await).await
}

/// Ends runs at once. Goes through all of them, whatever one of them says.
pub(crate) async fn kill(client: &Backend, args: CancelArgs, format: Format) -> Result<(), Fault> {
    each(&args.ids, async |text| kill_one(client, text, &args.reason, format).await).await
}

/// Goes through all runs that were named, whatever one of them says. Where it could be done to none the last fault is the
/// command's.
pub(crate) async fn each(ids: &[String], one: impl AsyncFn(&str) -> Result<(), Fault>) -> Result<(), Fault> {
    let mut last: Option<Fault> = None;
    let mut faults = 0;
    for text in ids {
        match one(text).await {
            Ok(()) => {}
            Err(quiet) if quiet.exit == Exit::Quiet => return Err(quiet),
            Err(fault) => {
                faults += 1;
                if let Some(earlier) = last.replace(fault) {
                    print_error(&earlier);
                }
            }
        }
    }
    let Some(last) = last else { return Ok(()) };
    if faults == ids.len() {
        return Err(last);
    }
    print_error(&last);
    let message = format!("{faults} of {} were left as they are", count(ids.len(), "run"));
    Err(Fault::new(Exit::Partly, "partly_failed", message))
}

async fn cancel_one(client: &Backend, text: &str, reason: &str, format: Format) -> Result<(), Fault> {
    let view = find(client, text).await?;
    let run = view.record.id;
    let is_ours = client.cancel(run, reason).await?;
    let view = client.status(run).await?;
    let answer = json!({ "id": run, "status": view.status.word(), "changed": is_ours });
    print_one(format, &answer, run, || match (is_ours, view.status.is_final()) {
        (false, _) => had_ended(run, view.status),
        (true, true) => format!("{run} is {}", view.status),
        (true, false) => format!("{run} was asked to stop"),
    })
}

async fn kill_one(client: &Backend, text: &str, reason: &str, format: Format) -> Result<(), Fault> {
    let run = find(client, text).await?.record.id;
    let is_ours = client.kill(run, reason).await?;
    let status = client.status(run).await?.status;
    let answer = json!({ "id": run, "status": status.word(), "changed": is_ours });
    print_one(format, &answer, run, || match is_ours {
        true => format!("{run} was killed"),
        false => had_ended(run, status),
    })
}

/// Whoever asks twice for the end of a run has what they wanted: it stays as it is.
pub(crate) fn had_ended(run: RunId, status: Status) -> String {
    format!("{run} had ended before: it is {status}")
}

/// Waits for a run's end, or until it is in one of the statuses that were named.
pub(crate) async fn wait(
    client: &Backend,
    args: &WaitArgs,
    timeout: Option<Duration>,
    format: Format,
) -> Result<(), Fault> {
    let view = find(client, &args.id).await?;
    // However short the timeout is: what has ended has ended.
    let view = match is_awaited(&view, &args.until) {
        true => view,
        false => {
            note_without_node(client).await?;
            awaited_status(client, view.record.id, &args.until, timeout).await?
        }
    };
    let (run, status) = (view.record.id, view.status);
    if args.until.is_empty() {
        return end_of(&view, format);
    }
    print_one(format, &RunJson::new(&view), run, || status.word().to_owned())?;
    match args.until.contains(&status) {
        true => Ok(()),
        false => {
            let message = format!("{run} ended as {status}, and is never any of those");
            Err(Fault::new(Exit::Failed, status.word(), message))
        }
    }
}

/// Whether nothing more has to be waited for.
fn is_awaited(view: &RunView, until: &[Status]) -> bool {
    view.status.is_final() || until.contains(&view.status)
}

/// Says that nothing will happen for now, if so.
pub(crate) async fn note_without_node(client: &Backend) -> Result<(), Fault> {
    // Whoever may not know of nodes is not told of them.
    let is_lonely = match client.nodes().await {
        Ok(nodes) => nodes.is_empty(),
        Err(fault) if fault.exit == Exit::Auth => false,
        Err(fault) => return Err(fault),
    };
    if is_lonely {
        note(&format!("no node is up: it waits for the next `{}`", call("dev")));
    }
    Ok(())
}

/// The run once it has ended.
async fn ended(client: &Backend, run: RunId, timeout: Option<Duration>) -> Result<RunView, Fault> {
    awaited_status(client, run, &[], timeout).await
}

/// The run once it is in one of these statuses, or has ended.
async fn awaited_status(
    client: &Backend,
    run: RunId,
    until: &[Status],
    timeout: Option<Duration>,
) -> Result<RunView, Fault> {
    let look = async {
        // Listening before looking, so that an end in between is not missed.
        let mut news = client.news(run).await;
        loop {
            let view = client.status(run).await?;
            if is_awaited(&view, until) {
                return Ok(view);
            }
            while !news.within(LOOK_EVERY).await {}
        }
    };
    match timeout {
        None => look.await,
        Some(timeout) => {
            tokio::time::timeout(timeout, look).await.unwrap_or_else(|_| Err(unfinished(run, timeout)))
        }
    }
}

/// Whoever waited for a run waits no more.
pub(crate) fn unfinished(run: RunId, timeout: Duration) -> Fault {
    let message = format!("{run} has not ended after {}: it goes on", took(timeout));
    Fault::new(Exit::Timeout, "timeout", message)
}

/// Prints a run's output, as JSON the whole run; a run without an output is a fault.
fn end_of(view: &RunView, format: Format) -> Result<(), Fault> {
    let output =
        || view.ended.as_ref().and_then(|ended| ended.output.as_ref()).map_or("null".into(), json_of);
    let completed = view.status == Status::Completed;
    if completed || matches!(format, Format::Json | Format::Jsonl | Format::Yaml) {
        print_one(format, &RunJson::new(view), view.record.id, output)?;
    }
    if completed {
        return Ok(());
    }
    let why = failure(view).map(|why| why.message()).unwrap_or_default();
    let message = match view.status {
        Status::Cancelled => format!("{} ({}) was {why}", label(view), view.record.id),
        _ => format!("{} ({}) failed: {why}", label(view), view.record.id),
    };
    let code = if view.status == Status::Cancelled { "cancelled" } else { "failed" };
    Err(Fault::new(Exit::Failed, code, message))
}

/// Deletes runs that have ended or never began. Goes through all of them, whatever one of them says.
pub(crate) async fn delete(client: &Backend, args: CancelArgs, format: Format) -> Result<(), Fault> {
    each(&args.ids, async |text| {
        let run = find(client, text).await?.record.id;
        client.delete(run, &args.reason).await?;
        print_one(format, &json!({ "id": run, "deleted": true }), run, || format!("{run} is deleted"))
    })
    .await
}

/// Deletes runs that ended long ago.
pub(crate) async fn purge(client: &Backend, args: PurgeArgs, format: Format) -> Result<(), Fault> {
    let purged = client.purge(args.older_than).await?;
    let text = || {
        let runs = count(usize::try_from(purged).unwrap_or(usize::MAX), "run");
        match args.older_than {
            Duration::ZERO => format!("{runs} that had ended deleted"),
            age => format!("{runs} that ended more than {} ago deleted", took(age)),
        }
    };
    print_one(format, &json!({ "purged": purged }), purged, text)
}

/// JSON that was given as it is, as `@file`, or as `-` for stdin.
pub(crate) fn given(what: &str, text: &str) -> Result<Box<RawValue>, Fault> {
    let unreadable =
        |from: &str, error: std::io::Error| Fault::usage(format!("--{what}: cannot read {from}: {error}"));
    let json = match text.strip_prefix('@') {
        Some(file) => std::fs::read_to_string(file).map_err(|error| unreadable(file, error))?,
        None if text == "-" => {
            let mut json = String::new();
            std::io::stdin().read_to_string(&mut json).map_err(|error| unreadable("stdin", error))?;
            json
        }
        None => text.to_owned(),
    };
    let refused = |error: serde_json::Error| {
        let shown = crate::words::shorten(json.trim(), 60);
        Fault::usage(format!(
            "--{what} is no JSON: {error}, in {shown:?}; a text needs quotes, as in '\"text\"'"
        ))
    };
    // A look at the value finds nesting that is too deep; what is sent is the text itself.
    serde_json::from_str::<serde_json::Value>(&json).map_err(refused)?;
    serde_json::from_str(&json).map_err(refused)
}

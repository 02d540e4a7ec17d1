//! Commands about all runs that fit a filter: look first, ask, start a bulk, follow it to its report.
//!
//! The bulk is a run, which the nodes do; where none is up, this process does it. Whoever stops following stops nothing:
//! it goes on, or waits for the next node.

use std::io::{BufRead, IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use outlast::{App, Bulk, Outlast, Preview, RunId, RunView, Status};
use outlast_store::StoreError;
use serde::Serialize;
use serde_json::json;

use crate::backend::{Backend, BulkAsk, stoppable};
use crate::cli::{Consent, ManyArgs};
use crate::dev::StopSignals;
use crate::fault::{Exit, Fault};
use crate::list::filter;
use crate::output::{Column, Format, Row, call, manner, note, print, print_list, print_one, style_of, table};
use crate::run_commands::note_without_node;
use crate::words::{count, filter_words};

/// How often a bulk is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// After so many looks it is seen whether there is still a node that does it.
const LOOKS: u32 = 10;
/// How long this process, where it does the bulk itself, may take to stop.
const GRACE: Duration = Duration::from_secs(5);

/// One thing to do to all runs that fit.
pub(crate) struct Many {
    pub(crate) op: Bulk,
    pub(crate) args: ManyArgs,
    pub(crate) consent: Consent,
    /// Why, where the operation does not say so itself.
    pub(crate) reason: Option<String>,
}

/// Does one thing to all runs that fit.
pub(crate) async fn bulk(client: &Backend, many: Many, format: Format) -> Result<(), Fault> {
    let Many { op, args, consent, reason } = many;
    let words = filter_words(args.filter.as_deref().unwrap_or_default())
        .map_err(|why| Fault::usage(format!("filter: {why}")))?;
    if words.is_empty() && !args.all {
        let message = format!("the filter is empty: say what to {}, such as def:mail, or --all", op.word());
        return Err(Fault::usage(message));
    }
    let filter = filter(&words, client.now().await?)?;
    let ask = BulkAsk { op, filter, all: args.all, reason };
    if consent.dry_run {
        return tell(&ask.op, &client.preview(&ask).await?, format);
    }
    if !consent.yes {
        let preview = client.preview(&ask).await?;
        if preview.acts == 0 && preview.is_all {
            return nobody(&ask.op, &preview, format);
        }
        agree(would(&ask.op, &preview)).await?;
    }
    let run = stoppable(client.bulk(&ask)).await?;
    if args.no_wait {
        print_one(format, &json!({ "id": run }), run, || run.to_string())?;
        note_without_node(client).await?;
        if format == Format::Text {
            note(&format!("started; `{}` waits for its end", call(&format!("wait {}", run))));
        }
        return Ok(());
    }
    let mut server = Server::default();
    let followed = tokio::select! {
        followed = follow(client, run, &mut server) => followed,
        _ = tokio::signal::ctrl_c() => {
            Err(Fault::new(Exit::Interrupted, "interrupted", left(run, server.app.is_some())))
        }
    };
    // What is not done yet is for the next node.
    if let Some(app) = server.app {
        let _ = app.shutdown(GRACE).await;
    }
    report(client, &ask.op, run, &followed?, format).await
}

/// Says that there is nobody to do it to: that needs no asking, and no bulk.
fn nobody(op: &Bulk, preview: &Preview, format: Format) -> Result<(), Fault> {
    let answer = json!({ "id": null, "done": 0, "skipped": 0, "failed": 0, "failures": [] });
    print_one(format, &answer, "", || did(op, 0))?;
    let stays = usize::try_from(preview.stays).unwrap_or(usize::MAX);
    note(&match stays {
        0 => "no run fits: nothing was changed".to_owned(),
        _ => format!("nothing was changed: {} that fit would stay as they are", count(stays, "run")),
    });
    Ok(())
}

/// Asks whoever sits there, once they know how many it is about. Where nobody does, nobody can agree.
pub(crate) async fn agree(would: String) -> Result<(), Fault> {
    if !std::io::stdin().is_terminal() {
        return Err(Fault::usage(format!("{would}: say --yes if that is meant, or --dry-run to see which")));
    }
    // Listening before asking, so that no answer is too quick.
    let mut signals = StopSignals::new()?;
    let answer = tokio::task::spawn_blocking(move || {
        let mut told = std::io::stderr();
        let _ = write!(told, "{would}. Go on? [y/N] ").and_then(|()| told.flush());
        let mut answer = String::new();
        let _ = std::io::stdin().lock().read_line(&mut answer);
        answer
    });
    let answer = tokio::select! {
        answer = answer => answer.unwrap_or_default(),
        () = signals.next() => {
            let message = "stopped by Ctrl-C: nothing was changed";
            return Err(Fault::new(Exit::Interrupted, "interrupted", message));
        }
    };
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Fault::new(Exit::Failed, "declined", "nothing was changed")),
    }
}

/// What would happen, in a line.
fn would(op: &Bulk, preview: &Preview) -> String {
    let number = usize::try_from(preview.acts).unwrap_or(usize::MAX);
    let runs = match preview.is_all {
        true => count(number, "run"),
        false => format!("more than {number} runs"),
    };
    match op {
        Bulk::Cancel { .. } => format!("{runs} would be asked to stop"),
        Bulk::Retry { .. } => format!("{runs} would be tried again"),
        Bulk::Kill { .. } => format!("{runs} would end at once"),
        Bulk::Delete { .. } => format!("{runs} would be deleted"),
        Bulk::Pause { .. } => format!("{runs} would be paused"),
        Bulk::Resume => format!("{runs} would go on"),
        Bulk::Fork { .. } => format!("{runs} would be forked"),
        Bulk::Replace { step, .. } => format!("{runs} would go on with another result of {step}"),
        other => format!("{runs} would be acted on ({})", other.word()),
    }
}

/// What has happened, in a line.
fn did(op: &Bulk, done: u64) -> String {
    let runs = count(usize::try_from(done).unwrap_or(usize::MAX), "run");
    match op {
        Bulk::Cancel { .. } => format!("{runs} asked to stop"),
        Bulk::Retry { .. } => format!("{runs} ready to be tried again"),
        Bulk::Kill { .. } => format!("{runs} killed"),
        Bulk::Delete { .. } => format!("{runs} deleted"),
        Bulk::Pause { .. } => format!("{runs} paused, or asked to"),
        Bulk::Resume => format!("{runs} resumed"),
        Bulk::Fork { .. } => format!("{runs} forked"),
        Bulk::Replace { step, .. } => format!("{runs} with another result of {step}"),
        other => format!("{runs} acted on ({})", other.word()),
    }
}

/// Says what would happen to each run.
fn tell(op: &Bulk, preview: &Preview, format: Format) -> Result<(), Fault> {
    match format {
        Format::Json | Format::Yaml => {
            #[derive(Serialize)]
            struct Told<'a> {
                dry_run: bool,
                #[serde(flatten)]
                preview: &'a Preview,
            }
            return print_one(format, &Told { dry_run: true, preview }, "", String::new);
        }
        Format::Jsonl | Format::Name => {
            print_list(format, preview.runs.clone(), false, |run| run.run.to_string())?;
            note_more(preview);
            return Ok(());
        }
        Format::Text | Format::Wide => {}
    }
    let columns = [
        Column { head: "STATUS", spare: 0 },
        Column { head: "DEFINITION", spare: 1 },
        Column { head: "KEY", spare: 2 },
        Column { head: "ID", spare: 0 },
        Column { head: "WOULD", spare: 0 },
    ];
    let rows = preview.runs.iter().map(|run| Row {
        style: style_of(run.status),
        cells: vec![
            run.status.word().to_owned(),
            run.definition.clone(),
            run.key.clone().unwrap_or_default(),
            run.run.to_string(),
            run.does.to_string(),
        ],
    });
    let rows: Vec<Row> = rows.collect();
    if !rows.is_empty() {
        print(&table(&columns, &rows))?;
    }
    note_more(preview);
    note(&format!("{}, {} would stay as they are; nothing was changed", would(op, preview), preview.stays));
    Ok(())
}

/// Says how many runs are not told of one by one.
fn note_more(preview: &Preview) {
    let listed = preview.runs.len();
    let more = preview.acts + preview.stays - listed as u64;
    if more > 0 {
        let more = if preview.is_all { more.to_string() } else { format!("{more} or") };
        note(&format!("… and {more} more: only the first {listed} are listed, which are the oldest"));
    }
}

/// This process as a node, where it has to be one.
#[derive(Default)]
struct Server {
    app: Option<App>,
}

impl Server {
    /// Does bulks here if nobody else would.
    async fn serve(&mut self, client: &Backend) -> Result<(), Fault> {
        // Where a server is asked, its nodes do it.
        let Backend::Direct(client) = client else { return Ok(()) };
        let store = client.store();
        let is_needed = match store.name() {
            // Whose file it is does the work, and nobody else can.
            "sqlite" => match store.own().await {
                Ok(()) => true,
                Err(StoreError::Owned { .. }) => false,
                Err(error) => return Err(error.into()),
            },
            _ => client.nodes().await?.is_empty(),
        };
        if is_needed && self.app.is_none() {
            self.app = Some(Outlast::on(store.clone()).only_bulks().run().await?);
        }
        Ok(())
    }
}

/// Looks at a bulk until it has ended, and shows how far it is on a terminal.
async fn follow(client: &Backend, run: RunId, server: &mut Server) -> Result<RunView, Fault> {
    let bar = Bar::new();
    let mut looks = 0;
    client.be_patient();
    loop {
        let view = client.status(run).await?;
        if view.status.is_final() {
            return Ok(view);
        }
        if looks % LOOKS == 0 && server.app.is_none() {
            server.serve(client).await?;
        }
        looks += 1;
        if let Some(doing) = view.doing.first() {
            bar.show(doing.percent.unwrap_or(0), doing.message.as_deref().unwrap_or_default());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// How far it is, on a terminal; gone when dropped.
struct Bar(Option<ProgressBar>);

impl Bar {
    fn new() -> Bar {
        let shows = std::io::stderr().is_terminal() && !manner().quiet;
        let bar = shows.then(|| ProgressBar::new(100));
        if let (Some(bar), Ok(style)) =
            (&bar, ProgressStyle::with_template("{bar:30} {percent:>3} %  {wide_msg}"))
        {
            bar.set_style(style);
        }
        Bar(bar)
    }

    fn show(&self, percent: u8, message: &str) {
        if let Some(bar) = &self.0 {
            bar.set_position(percent.into());
            bar.set_message(message.to_owned());
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

/// What to do with a bulk that nobody follows any more.
fn left(run: RunId, was_done_here: bool) -> String {
    let id = run;
    let goes_on = if was_done_here { "waits for the next node" } else { "goes on" };
    let (wait, cancel) = (call(&format!("wait {id}")), call(&format!("cancel {id}")));
    format!("stopped by Ctrl-C, and {id} {goes_on}: `{wait}` waits for its end, `{cancel}` ends it")
}

/// Says what became of it.
async fn report(
    client: &Backend,
    op: &Bulk,
    run: RunId,
    view: &RunView,
    format: Format,
) -> Result<(), Fault> {
    let (id, report) = (run, client.bulk_report(run).await?);
    let answer = json!({
        "id": id,
        "status": view.status.word(),
        "done": report.done,
        "skipped": report.skipped,
        "failed": report.failed,
        "failures": report.failures,
    });
    let words = || {
        let mut words = did(op, report.done);
        if report.skipped > 0 {
            words += &format!(", {} skipped", report.skipped);
        }
        words
    };
    print_one(format, &answer, id, words)?;
    for failure in report.failures.iter().filter(|_| format == Format::Text) {
        note(&format!("{}: {}", failure.run, failure.reason));
    }
    match view.status {
        Status::Completed if report.failed == 0 => Ok(()),
        Status::Completed => {
            let runs = count(usize::try_from(report.failed).unwrap_or(usize::MAX), "run");
            let message =
                format!("{runs} could not be acted on: `{}` says more", call(&format!("show {id}")));
            Err(Fault::new(Exit::Partly, "partly_failed", message))
        }
        status => {
            let again = call(&format!("retry {id}"));
            let message = format!("{id} was {status} before it was through: `{again}` does the rest");
            Err(Fault::new(Exit::Failed, status.word(), message))
        }
    }
}

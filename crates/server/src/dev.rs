//! `outlast dev`: the engine with sample workflows in one process, telling what happens.

use std::convert::Infallible;
use std::time::Duration;

use outlast::{App, Client, Error, Filter, Outlast, RunView, Target};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use crate::Program;
use crate::cli::DevArgs;
use crate::config::Settings;
use crate::database::Place;
use crate::fault::{Exit, Fault};
use crate::output::{BOLD, DIM, call, note, painted, print, verbosity};
use crate::samples;
use crate::serve::{Bound, Listen, Server};
use crate::story::{Story, label, standing};
use crate::watch::{Hint, OPEN, Watch};
use crate::words::{count, shorten};

/// How long work in hand gets to finish, and how long stopping takes at most.
const GRACE: Duration = Duration::from_secs(7);
const DRAIN: Duration = Duration::from_secs(10);
/// How often a new sample order comes in, and how many do.
const ORDER_EVERY: Duration = Duration::from_secs(20);
const ORDERS: u32 = 200;
/// A signal that comes twice at once (from a terminal and from a wrapper) is one request.
const TWICE: Duration = Duration::from_millis(300);
/// How many unfinished runs the banner names.
const NAMED: usize = 5;
/// The approval that the banner and the hints show.
const APPROVAL: &str = r#"approval --data '{"by":"you","ok":true}'"#;
/// An order of one's own.
const KAYAK: &str = r#"start order --input '{"item":"kayak","cents":55000}'"#;

/// Runs until somebody asks it to stop.
pub(crate) async fn dev(
    place: &Place,
    program: &Program,
    args: DevArgs,
    settings: &Settings,
) -> Result<(), Fault> {
    // Code of its own is worth more than samples.
    let no_samples = args.no_samples || program.is_own();
    if !settings.format()?.is_text() {
        return Err(Fault::usage("`dev` tells its story as text: leave -o away"));
    }
    keep_logs();
    let mut signals = StopSignals::new()?;
    let store = place.open().await?;
    store.own().await?;
    let since = store.now().await?;
    let bound =
        Bound::new(&Outlast::on(store.clone()).client(), Listen::dev(args.port).settings(settings)?).await?;
    // Whoever tries things out hears at once of code that does not repeat itself.
    let outlast = Outlast::on(store).settings(|settings| settings.verify = 1);
    let app = if args.no_samples { outlast } else { program.code(outlast) }.run().await?;

    let mut watch = Watch::new(app.client().clone(), since, hint(place));
    // The samples' schedule may have started a run already: that is none from before.
    let before = Filter { until: Some(since), ..Filter::default() };
    let unfinished = open_runs(&app, &before).await?;
    let fresh = app.list(&before, None, 1).await?.runs.is_empty();
    if fresh && !no_samples {
        samples::start_all(&app).await?;
    }
    #[cfg(feature = "embed")]
    let bound = bound.ui_proxy(args.ui_proxy);
    let server = bound.serve(app.client()).await?;
    print(&banner(place, &app, &unfinished, no_samples, &server).await?)?;
    #[cfg(feature = "embed")]
    if args.open {
        open(&format!("{}/", server.url()));
    }

    let orders = async { if no_samples { std::future::pending().await } else { take_orders(&app).await } };
    let stopped = tokio::select! {
        told = watch.run() => told,
        never = orders => match never {},
        () = signals.next() => Ok(()),
    };
    drain(app, server, place, &mut watch, &mut signals).await?;
    #[cfg(feature = "otlp")]
    crate::otlp::stop();
    stopped
}

/// Opens an address as the system does; whoever has no browser is told.
#[cfg(feature = "embed")]
fn open(url: &str) {
    use std::process::{Command, Stdio};
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut browser = Command::new(program);
    browser.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match browser.spawn() {
        // Somebody has to hear of its end.
        Ok(mut browser) => drop(std::thread::spawn(move || browser.wait())),
        Err(error) => note(&format!("no browser was opened: {program}: {error}")),
    }
}

/// Lets what is in hand finish, within bounds; a second request to stop ends the process.
async fn drain(
    app: App,
    server: Server,
    place: &Place,
    watch: &mut Watch,
    signals: &mut StopSignals,
) -> Result<(), Fault> {
    note("\nstopping: what is in hand may finish (10 s at most); press Ctrl-C again to stop at once");
    let client = app.client().clone();
    let stop = tokio::time::timeout(DRAIN, async {
        server.stop().await;
        app.shutdown(GRACE).await
    });
    let again = async {
        let _ = tokio::time::timeout(TWICE, signals.next()).await;
        signals.next().await;
    };
    let drained = tokio::select! {
        drained = stop => drained,
        never = async { watch.run().await.ok(); std::future::pending().await } => never,
        () = again => {
            note(if place.is_memory() { "stopped at once" } else { "stopped at once; nothing is lost" });
            // Whatever is left runs on threads that do not listen.
            std::process::exit(Exit::Interrupted as i32);
        }
    };
    // What happened last is told too. Nobody has to hear it.
    let _ = watch.look().await;
    match drained {
        Ok(left) => left?,
        Err(_) => note("not everything finished in time; the next start goes on with it at once"),
    }
    let left = open_runs(&client, &Filter::default()).await.map(|runs| runs.len()).unwrap_or_default();
    note(&match left {
        0 => "stopped".to_owned(),
        n if place.is_memory() => format!("stopped; {} gone with it", count(n, "unfinished run")),
        n => format!("stopped; {} will go on when it starts again", count(n, "unfinished run")),
    });
    Ok(())
}

/// Keeps what handlers log with their runs, and shows what the engine warns about.
pub(crate) fn keep_logs() {
    let wanted = std::env::var("RUST_LOG").ok().and_then(|wanted| wanted.parse::<Targets>().ok());
    let level = verbosity().unwrap_or(LevelFilter::WARN);
    let filter = wanted.unwrap_or_else(|| Targets::new().with_default(level));
    let ours = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(false);
    let ours = ours.without_time().with_target(false).compact();
    // A binary that has a subscriber keeps its own.
    let layers =
        tracing_subscriber::registry().with(outlast::RunLogs::default()).with(ours.with_filter(filter));
    #[cfg(feature = "otlp")]
    let layers = layers.with(crate::otlp::layer());
    let _ = layers.try_init();
}

/// How to approve an order.
fn hint(place: &Place) -> Hint {
    let memory = place.is_memory();
    Box::new(move |view, event| {
        let asks = !memory && view.record.definition == "order" && event == "approval";
        asks.then(|| format!("  approve it with: {}", call(&format!("send {} {APPROVAL}", view.record.id))))
    })
}

async fn open_runs(client: &Client, among: &Filter) -> Result<Vec<RunView>, Fault> {
    let open = Filter { statuses: OPEN.to_vec(), ..among.clone() };
    Ok(client.list(&open, None, 500).await?.runs)
}

/// What a newcomer reads first.
async fn banner(
    place: &Place,
    app: &App,
    unfinished: &[RunView],
    bare: bool,
    server: &Server,
) -> Result<String, Fault> {
    let url = server.url();
    let mut lines = vec![
        String::new(),
        format!("{} {}", painted(BOLD, "outlast dev"), painted(DIM, env!("CARGO_PKG_VERSION"))),
        String::new(),
        format!("  The data lives in {}", painted(BOLD, place.shown())),
    ];
    if server.has_dashboard() {
        lines.push(format!("  The dashboard is at {}", painted(BOLD, format!("{url}/"))));
    }
    lines.push(format!("  The HTTP API is at {url}/api/v1"));
    if !bare {
        lines.extend(samples::ABOUT.map(|line| format!("  {line}")));
    }
    if !unfinished.is_empty() {
        let go = if unfinished.len() == 1 { "goes" } else { "go" };
        lines.push(String::new());
        lines.push(format!("  {} from before {go} on:", count(unfinished.len(), "unfinished run")));
        let now = app.store().now().await?;
        for view in unfinished.iter().take(NAMED) {
            let words = standing(view, Some(&Story::read(app.client(), view).await?), now);
            lines.push(format!("    {:<22}  {}", shorten(&label(view), 22), painted(DIM, words)));
        }
        if unfinished.len() > NAMED {
            lines.push(format!("    … and {} more", unfinished.len() - NAMED));
        }
    }
    if place.is_memory() {
        lines.push(String::new());
        lines.push(
            "  No other process can reach it. Ctrl-C stops it gently, and everything is gone.".to_owned(),
        );
    } else {
        lines.push(String::new());
        lines.push("  Try in a second terminal:".to_owned());
        for command in examples(app, bare).await? {
            lines.push(format!("    {}", painted(BOLD, call(&command))));
        }
        lines.push(String::new());
        lines.push(
            "  Kill this process with kill -9 and start it again: nothing is lost, and no step that"
                .to_owned(),
        );
        lines.push("  was recorded runs twice. Ctrl-C stops it gently.".to_owned());
    }
    lines.push(String::new());
    Ok(lines.join("\n") + "\n")
}

/// Commands that work as they stand here.
async fn examples(client: &Client, bare: bool) -> Result<Vec<String>, Fault> {
    let mut commands = vec!["list".to_owned()];
    let newest =
        |filter: Filter| async move { Ok::<_, Fault>(client.list(&filter, None, 1).await?.runs.pop()) };
    let of_orders = Filter { definition: Some("order".to_owned()), ..Filter::default() };
    let open_order =
        Filter { statuses: OPEN.to_vec(), tags: vec![("size".into(), "large".into())], ..of_orders };
    let waiting = newest(open_order).await?;
    let any = match &waiting {
        Some(view) => Some(view.clone()),
        None => newest(Filter::default()).await?,
    };
    if let Some(view) = any {
        commands.push(format!("show {}", view.record.id));
    }
    if let Some(view) = waiting.filter(|_| !bare) {
        commands.push(format!("send {} {APPROVAL}", view.record.id));
    }
    if !bare {
        commands.push(KAYAK.to_owned());
    }
    Ok(commands)
}

/// A new order now and then, so that there is something to see. A large one, which waits for an approval,
/// only while no other does. Whatever stands against it is no reason for the rest to stop.
async fn take_orders(client: &Client) -> Infallible {
    let mut left = ORDERS;
    loop {
        tokio::time::sleep(ORDER_EVERY).await;
        if left == 0 {
            note(&format!("no more sample orders after {ORDERS}; start your own: `{}`", call(KAYAK)));
            return std::future::pending().await;
        }
        match take_order(client).await {
            Ok(true) => left -= 1,
            Ok(false) => {}
            // The database may be away for a while; the watcher tells.
            Err(fault) if fault.exit == Exit::Unreachable => {}
            Err(fault) => note(&format!("no new sample order: {fault}")),
        }
    }
}

/// Starts an order unless enough are under way; says whether it did.
async fn take_order(client: &Client) -> Result<bool, Fault> {
    let order = Filter { definition: Some("order".to_owned()), ..Filter::default() };
    let open = Filter { statuses: OPEN.to_vec(), ..order };
    let small = Filter { tags: vec![("size".into(), "small".into())], ..open.clone() };
    let none = async |filter: &Filter| Ok::<_, Fault>(client.list(filter, None, 1).await?.runs.is_empty());
    if !none(&small).await? {
        return Ok(false);
    }
    let number = free_number(client).await?;
    Ok(samples::start_order(client, number, none(&open).await?).await?)
}

/// A number that no order has, right behind one that an order has.
///
/// People choose keys as they like and start as many orders as they like, so that neither the newest
/// orders nor the largest number say what is free: only a look at the key itself does.
async fn free_number(client: &Client) -> Result<u64, Fault> {
    let is_taken = async |number: u64| match client.find(Target::key("order", samples::key(number))).await {
        Ok(_) => Ok(true),
        Err(Error::UnknownRun { .. }) => Ok(false),
        Err(other) => Err(Fault::from(other)),
    };
    let (mut taken, mut free) = (0, 1_u64);
    while free < u64::MAX && is_taken(free).await? {
        (taken, free) = (free, free.saturating_mul(2));
    }
    while free - taken > 1 {
        let middle = taken + (free - taken) / 2;
        *(if is_taken(middle).await? { &mut taken } else { &mut free }) = middle;
    }
    Ok(free)
}

/// Ctrl-C and SIGTERM.
pub(crate) struct StopSignals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
}

impl StopSignals {
    #[cfg(unix)]
    pub(crate) fn new() -> Result<StopSignals, Fault> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(StopSignals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    #[cfg(not(unix))]
    pub(crate) fn new() -> Result<StopSignals, Fault> {
        Ok(StopSignals {})
    }

    #[cfg(unix)]
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    #[cfg(not(unix))]
    pub(crate) async fn next(&mut self) {
        let _ = tokio::signal::ctrl_c().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A shop that knows the samples, with nothing started.
    async fn shop() -> App {
        let store = Place::new("sqlite::memory:".to_owned()).open().await.unwrap();
        samples::register(Outlast::on(store)).run().await.unwrap()
    }

    /// Starts an order as the command line does.
    async fn order(app: &App, key: Option<&str>) {
        let start = app.start_by_name("order", r#"{"item":"kayak","cents":55000}"#);
        match key {
            Some(key) => start.key(key).await.unwrap(),
            None => start.await.unwrap(),
        };
    }

    async fn newest_key(app: &App) -> String {
        // The samples' schedule may have started a run since.
        let orders = Filter { definition: Some("order".to_owned()), ..Filter::default() };
        app.list(&orders, None, 1).await.unwrap().runs.remove(0).record.key.unwrap()
    }

    #[tokio::test]
    async fn the_next_order_is_found_behind_any_number_of_others() {
        let app = shop().await;
        samples::start_all(&app).await.unwrap();
        for _ in 0..101 {
            order(&app, None).await;
        }
        assert!(take_order(&app).await.unwrap());
        assert_eq!(newest_key(&app).await, "order-2");
        // It is a small one, which goes its way before the next comes in.
        assert!(!take_order(&app).await.unwrap());
    }

    #[tokio::test]
    async fn keys_that_people_chose_are_left_to_them() {
        let app = shop().await;
        for key in ["order-1", "order-2", "order-4", "order-18446744073709551615", "order-x", "order-"] {
            order(&app, Some(key)).await;
        }
        assert!(take_order(&app).await.unwrap());
        let number: u64 = newest_key(&app).await.strip_prefix("order-").unwrap().parse().unwrap();
        assert!([3, 5].contains(&number), "{number}");
        // Whoever is faster has the key: an answer, and no fault.
        assert!(!samples::start_order(&app, 4, true).await.unwrap());
        samples::start_all(&app).await.unwrap();
    }
}

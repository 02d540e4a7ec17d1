//! The sample workflows of `outlast dev`. Each is short, and shows one thing worth watching.

use std::time::Duration;

use outlast::prelude::*;
use outlast::{CatchUp, RunHandle};
use serde::{Deserialize, Serialize};
use tracing::info;

/// What the samples do, for the banner.
pub(crate) const ABOUT: [&str; 4] = [
    "The samples are running: `order` waits for your approval, `stocktaking` starts children and adds up,",
    "`remind` sleeps between mails, `sync_prices` recovers, `pay_invoice` fails for good, `trip` undoes what",
    "it booked, and `heartbeat` never ends. A new order comes in every 20 seconds, and every 15 seconds a schedule",
    "starts `check_stock` in a queue with rules: `list schedules` and `list queues` show both.",
];

/// Makes a node that knows the samples.
pub(crate) fn register(app: Outlast) -> Outlast {
    app.workflow(order().input_schema(ORDER))
        .workflow(ship)
        .workflow(stocktaking)
        .job(count_shelf)
        .workflow(remind)
        // The same pause every time, to be watched.
        .job(sync_prices().retry(Retry::fixed(5, 2.seconds())))
        .workflow(heartbeat)
        .workflow(pay_invoice)
        .workflow(trip)
        .job(check_stock().queue(STOCK))
        .queue(Queue::new(STOCK).limit(2).rate(30, 1.minute()))
        // Nobody needs to know what was in stock while nothing ran.
        .schedule(Schedule::every("stock-check", 15.seconds()).catch_up(CatchUp::Skip), &check_stock(), 12)
}

/// The queue of what looks after the stock.
const STOCK: &str = "stock";

/// What an order looks like, for whoever starts one by hand.
const ORDER: &str = r#"{
    "type": "object",
    "required": ["item", "cents"],
    "properties": {
        "item": { "type": "string", "description": "what is bought" },
        "cents": { "type": "integer", "minimum": 1, "description": "from 10000 on a person has to approve it" }
    }
}"#;

/// An order: steps, a person's approval, a timer and a child run.
#[outlast::workflow]
async fn order(ctx: Ctx, order: Order) -> Result<String, AnyError> {
    let shelf = ctx.step("reserve", |_| reserve(&order.item)).await?;
    let receipt = ctx.step("charge", |s| charge(s.key(), order.cents)).retry(Retry::times(3)).await?;

    if order.cents >= ASK_FROM_CENTS {
        match ctx.event::<Approval>("approval").timeout(1.hour()).await {
            Ok(Approval { by, ok: true }) => info!(target: LOG, "{by} approved it"),
            Ok(Approval { by, ok: false }) => {
                ctx.step("refund", |s| refund(s.key(), &receipt)).await?;
                return Err(AnyError::new(format!("{by} declined it")));
            }
            Err(Error::TimedOut { .. }) => {
                ctx.step("refund", |s| refund(s.key(), &receipt)).await?;
                return Err(AnyError::new("nobody approved it in time"));
            }
            Err(other) => return Err(other.into()),
        }
    }

    ctx.sleep(3.seconds()).await?; // The parcel van comes by.
    let parcel = ctx.start(ship, shelf).await?.result().await?;
    Ok(format!("{} is on its way as {parcel}, paid with {receipt}", order.item))
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Order {
    item: String,
    cents: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Approval {
    by: String,
    ok: bool,
}

/// From this price on, a person has to agree.
const ASK_FROM_CENTS: u64 = 10_000;

#[outlast::workflow]
async fn ship(ctx: Ctx, shelf: String) -> Result<String, AnyError> {
    ctx.step("pack", |_| pack(&shelf)).await?;
    Ok(format!("parcel {}", ctx.random() % 9_000 + 1_000))
}

/// Starts a job for each shelf, waits for all of them and adds up.
#[outlast::workflow]
async fn stocktaking(ctx: Ctx, shelves: u64) -> Result<u64, AnyError> {
    let mut counts = Vec::new();
    for shelf in 1..=shelves {
        counts.push(ctx.start(count_shelf, shelf).await?);
    }
    let mut total = 0;
    for count in &counts {
        total += count.result().await?;
    }
    Ok(total)
}

#[outlast::job]
async fn count_shelf(_job: JobCtx, shelf: u64) -> Result<u64, AnyError> {
    takes(400 * shelf).await;
    Ok(shelf * 12)
}

/// Sleeps between mails, through any number of restarts.
#[outlast::workflow]
async fn remind(ctx: Ctx, who: String) -> Result<u32, AnyError> {
    for mail in 1..=3 {
        ctx.step("mail", |_| send_mail(&who, mail)).await?;
        if mail < 3 {
            ctx.sleep(20.seconds()).await?;
        }
    }
    Ok(3)
}

/// Fails twice and recovers.
#[outlast::job]
async fn sync_prices(job: JobCtx, from: String) -> Result<u32, AnyError> {
    takes(300).await;
    match job.attempt() {
        1 | 2 => Err(AnyError::new(format!("{from} does not answer"))),
        _ => Ok(128),
    }
}

/// Started by a schedule.
#[outlast::job]
async fn check_stock(_job: JobCtx, shelves: u64) -> Result<u64, AnyError> {
    takes(300).await;
    info!(target: LOG, shelves, "all there");
    Ok(shelves)
}

/// Never ends. Its journal starts over now and then, so that it stays short.
#[outlast::workflow]
async fn heartbeat(ctx: Ctx, beats: u64) -> Result<(), AnyError> {
    for beat in beats + 1..=beats + 4 {
        ctx.step("beat", |_| async move { Ok::<_, AnyError>(beat) }).await?;
        ctx.sleep(30.seconds()).await?;
    }
    ctx.continue_as_new(beats + 4).await
}

/// Fails for good.
#[outlast::workflow]
async fn pay_invoice(ctx: Ctx, invoice: String) -> Result<(), AnyError> {
    let paid = ctx.step("pay", |_| decline(&invoice)).retry(Retry::fixed(3, 1.second()));
    Ok(paid.await?)
}

/// Books one thing after the other. What was booked is given back when the trip comes to nothing.
#[outlast::workflow]
async fn trip(ctx: Ctx, to: String) -> Result<String, AnyError> {
    let room = ctx.step("hotel", |_| book("a room", &to)).undo(|_, room| give_back(room)).await?;
    let give_up = Retry::fixed(2, 1.second());
    let seat =
        ctx.step("flight", |_| book("a seat", &to)).undo(|_, seat| give_back(seat)).undo_retry(give_up);
    let seat = seat.await?;
    ctx.step("insurance", |_| insure(&to)).await?;
    match ctx.promise::<bool>("visa").timeout(1.hour()).await? {
        true => Ok(format!("{seat} and {room} are waiting")),
        false => Err(AnyError::new(format!("there is no visa for {to}"))),
    }
}

// ---- what the steps do

/// Where the samples' own lines come from. Lines of `outlast…` are about a run; these are of it.
const LOG: &str = "sample";

async fn reserve(item: &str) -> Result<String, AnyError> {
    takes(400).await;
    info!(target: LOG, item, "reserved");
    Ok(format!("shelf {}", item.len()))
}

async fn charge(key: String, cents: u64) -> Result<String, AnyError> {
    takes(700).await;
    // A bank that gets the same key twice charges once.
    info!(target: LOG, cents, key, "charged");
    Ok(format!("receipt {}", cents / 7 % 10_000))
}

async fn refund(key: String, receipt: &str) -> Result<(), AnyError> {
    takes(300).await;
    info!(target: LOG, receipt, key, "refunded");
    Ok(())
}

async fn pack(shelf: &str) -> Result<(), AnyError> {
    takes(500).await;
    info!(target: LOG, shelf, "packed");
    Ok(())
}

async fn send_mail(who: &str, mail: u32) -> Result<String, AnyError> {
    takes(200).await;
    Ok(format!("reminder {mail} to {who}"))
}

async fn decline(invoice: &str) -> Result<(), AnyError> {
    takes(200).await;
    Err(AnyError::new(format!("the bank declined {invoice}")))
}

async fn book(what: &str, to: &str) -> Result<String, AnyError> {
    takes(300).await;
    info!(target: LOG, what, to, "booked");
    Ok(format!("{what} in {to}"))
}

/// Those who sell seats to Atlantis take none back: a trip there ends with an undo that failed.
async fn give_back(what: String) -> Result<(), AnyError> {
    takes(300).await;
    if what == "a seat in Atlantis" {
        return Err(AnyError::new(format!("nobody takes back {what}")));
    }
    info!(target: LOG, what, "given back");
    Ok(())
}

async fn insure(to: &str) -> Result<(), AnyError> {
    takes(200).await;
    match to {
        "Luna" | "Atlantis" => Err(AnyError::new(format!("nobody insures a trip to {to}"))),
        _ => Ok(()),
    }
}

/// Work of about this long.
async fn takes(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

// ---- what `dev` starts

/// Starts one of each, except where a key is somebody else's already.
pub(crate) async fn start_all(client: &Client) -> Result<(), Error> {
    is_new(client.start(sync_prices, "the price list".to_owned()).key("prices-1").await)?;
    is_new(client.start(pay_invoice, "invoice 7".to_owned()).key("invoice-7").await)?;
    is_new(client.start(trip, "Luna".to_owned()).key("luna").await)?;
    is_new(client.start(stocktaking, 4).key("stock-1").await)?;
    is_new(client.start(remind, "ann@example.com".to_owned()).key("ann").await)?;
    is_new(client.start(heartbeat, 0).key("shop").await)?;
    let bicycle = Order { item: "bicycle".to_owned(), cents: 45_900 };
    is_new(client.start(order, bicycle).key(key(1)).tag("size", "large").await)?;
    Ok(())
}

/// Starts order number `n`: a large one, which waits for an approval, or a small one, which does not.
/// Says whether it did: the number may be somebody else's.
pub(crate) async fn start_order(client: &Client, n: u64, large: bool) -> Result<bool, Error> {
    const LARGE: [(&str, u64); 4] =
        [("tent", 19_900), ("canoe", 89_900), ("sofa", 64_900), ("piano", 420_000)];
    const SMALL: [(&str, u64); 4] = [("bell", 900), ("lamp", 2_450), ("paddle", 3_900), ("stool", 5_900)];
    let (size, items) = if large { ("large", LARGE) } else { ("small", SMALL) };
    let (item, cents) = items[(n % 4) as usize];
    let next = Order { item: item.to_owned(), cents };
    is_new(client.start(order, next).key(key(n)).tag("size", size).await)
}

/// The key of order number `n`.
pub(crate) fn key(n: u64) -> String {
    format!("order-{n}")
}

/// Whether a start made a run. A key that was taken is an answer, whatever its run was started with.
fn is_new<D>(started: Result<RunHandle<D>, Error>) -> Result<bool, Error> {
    match started {
        Ok(run) => Ok(run.created()),
        Err(Error::KeyConflict { .. }) => Ok(false),
        Err(other) => Err(other),
    }
}

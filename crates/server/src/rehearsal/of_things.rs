//! What would be done to queues, schedules and tokens.

use outlast::{QueueState, ScheduleView, Timetable};

use super::Would;
use crate::backend::Backend;
use crate::cli::{BackfillArgs, LimitArgs, QueueCommand, ScheduleCommand, TokenArgs};
use crate::fault::Fault;
use crate::http;
use crate::output::Format;
use crate::queue_commands;
use crate::schedule_commands::{find, schedule_ask, times};
use crate::token_commands::{token_ask, unknown, within};
use crate::words::{count, took};

pub(super) async fn queue(client: &Backend, command: &QueueCommand, format: Format) -> Result<(), Fault> {
    let (args, action, state, becomes) = match command {
        QueueCommand::Pause(args) => {
            (args, "queue.pause", QueueState::Paused, "be paused: nothing of it would begin")
        }
        QueueCommand::Drain(args) => (
            args,
            "queue.drain",
            QueueState::Draining,
            "be drained: what is in it would be worked off, and what comes later would stay in line",
        ),
        QueueCommand::Resume(args) => (args, "queue.resume", QueueState::Open, "be worked off again"),
        QueueCommand::Limit(args) => return limit(client, args, format).await,
    };
    let name = &args.name;
    let card = client.queue(name).await?;
    client.may(action).await?;
    match card.state == state {
        true => Would::nothing(action, name, format!("{name} is {} already", state.word())).tell(format),
        false => Would::new(action, name, format!("{name} would {becomes}")).tell(format),
    }
}

pub(super) async fn limit(client: &Backend, args: &LimitArgs, format: Format) -> Result<(), Fault> {
    let (before, after) = queue_commands::limited(client, args).await?;
    client.may(if after.is_some() { "queue.limit" } else { "queue.reset" }).await?;
    let name = &args.name;
    let Some(rules) = after else {
        return match before.is_own {
            true => {
                let would = format!("{name} would go by what code says, and not by its own rules");
                Would::new("queue.reset", name, would).tell(format)
            }
            false => {
                Would::nothing("queue.reset", name, format!("{name} goes by what code says")).tell(format)
            }
        };
    };
    if before.is_own && before.rules == rules {
        return Would::nothing("queue.limit", name, format!("{name} has these rules already")).tell(format);
    }
    let card = outlast::QueueCard { rules, is_own: true, ..before };
    let would = format!("{name} would have {}", queue_commands::rules(&card));
    Would::new("queue.limit", name, would).tell(format)
}

pub(super) async fn schedule(
    client: &Backend,
    command: ScheduleCommand,
    format: Format,
) -> Result<(), Fault> {
    match command {
        // They change nothing.
        ScheduleCommand::List | ScheduleCommand::Next(_) => Ok(()),
        ScheduleCommand::Add(args) => {
            let ask = schedule_ask(args)?;
            client.may("schedule.set").await?;
            let (name, definition) = (ask.name.clone(), ask.definition.clone());
            let (expression, zone) = (ask.expression.clone(), ask.zone.clone());
            client.plan_schedule(ask).await?;
            let table = Timetable::parse(&expression, &zone)?;
            let is_there = client.schedules().await?.iter().any(|view| view.name == name);
            let replaces = if is_there { ", instead of what it does now" } else { "" };
            let would = format!("{name} would start {definition}: {}{replaces}", table.describe());
            Would::new("schedule.set", name, would).tell(format)
        }
        ScheduleCommand::Pause(args) => match asked(client, "schedule.pause", &args.name).await?.is_paused {
            true => Would::nothing("schedule.pause", &args.name, format!("{} is paused already", args.name)),
            false => Would::new("schedule.pause", &args.name, format!("{} would be paused", args.name)),
        }
        .tell(format),
        ScheduleCommand::Resume(args) => {
            match asked(client, "schedule.resume", &args.name).await?.is_paused {
                true => Would::new("schedule.resume", &args.name, format!("{} would go on", args.name)),
                false => {
                    Would::nothing("schedule.resume", &args.name, format!("{} is not paused", args.name))
                }
            }
            .tell(format)
        }
        ScheduleCommand::Trigger(args) => {
            let view = asked(client, "schedule.trigger", &args.name).await?;
            let would = format!("a run of {} would be started", view.card.definition);
            Would::new("schedule.trigger", &args.name, would).tell(format)
        }
        ScheduleCommand::Delete(args) => {
            asked(client, "schedule.delete", &args.name).await?;
            let would = format!("{} would be deleted; its runs would stay", args.name);
            Would::new("schedule.delete", &args.name, would).tell(format)
        }
        ScheduleCommand::Backfill(args) => backfill(client, &args, format).await,
    }
}

/// The schedule of this name, of which may be asked for this.
async fn asked(client: &Backend, action: &str, name: &str) -> Result<ScheduleView, Fault> {
    let view = find(client, name).await?;
    client.may(action).await?;
    Ok(view)
}

async fn backfill(client: &Backend, args: &BackfillArgs, format: Format) -> Result<(), Fault> {
    let (view, times) = times(client, args).await?;
    client.may("schedule.backfill").await?;
    let (name, definition) = (&args.name, &view.card.definition);
    match &times[..] {
        [] => Would::nothing("schedule.backfill", name, format!("{name} has no time in this range"))
            .tell(format),
        [first, .., last] | [first @ last] => {
            let number = count(times.len(), "time");
            let would = format!(
                "{name} has {number} from {first} to {last}: a run of {definition} would be started for each that has none"
            );
            Would::new("schedule.backfill", name, would).tell(format)
        }
    }
}

pub(super) async fn create_token(client: &Backend, args: TokenArgs, format: Format) -> Result<(), Fault> {
    let is_first = client.tokens().await?.is_empty();
    let ask = token_ask(args);
    let queues = within(ask.check()?.as_ref().map(http::Queues::names));
    let tenant = ask.tenant.map(|tenant| format!(" of {tenant}")).unwrap_or_default();
    let first =
        if is_first { "; every server of this database would ask for a token from then on" } else { "" };
    let would = format!(
        "{} would be able to use the API as {}{tenant}{queues} for {}{first}",
        ask.subject,
        ask.role.word(),
        took(ask.age)
    );
    Would::new("token.create", &ask.subject, would).tell(format)
}

pub(super) async fn revoke_token(client: &Backend, name: &str, format: Format) -> Result<(), Fault> {
    let tokens = client.tokens().await?;
    let found =
        tokens.iter().find(|view| http::token_name(view.card.id) == name).ok_or_else(|| unknown(name))?;
    let subject = &found.card.subject;
    match found.revoked_at {
        Some(_) => Would::nothing("token.revoke", name, format!("{name} of {subject} opens nothing already")),
        None => Would::new("token.revoke", name, format!("{name} of {subject} would open nothing any more")),
    }
    .tell(format)
}

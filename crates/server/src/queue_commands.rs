//! `outlast queue`: pause, resume, drain and limit.
//!
//! A name that nothing knows is refused: a typo that paused a queue which nobody has would look like success.

use std::collections::BTreeSet;

use outlast::{Client, QueueCard, QueueRules, QueueState, QueueView, Rate, Timestamp};
use outlast_core::duration_text;

use crate::backend::Backend;
use crate::cli::{LimitArgs, QueueCommand};
use crate::fault::{Exit, Fault};
use crate::output::{Format, call, note, print_one};
use crate::shapes::QueueJson;
use crate::words::{clock, parse_duration};

/// A rule as it was given: so much, or `none`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rule<T>(pub(crate) Option<T>);

/// What `queue limit` can be given.
const RULES: &str = "--limit N, --per-node N, --per-group N, --rate 500/1m, --rate-per-group 5/1s, --fair, \
                     --ordered, or --reset for what code says";

/// Reads a limit. Whether it may be 0 is the queue's to say.
pub(crate) fn parse_limit(text: &str) -> Result<Rule<u32>, String> {
    match text {
        "none" => Ok(Rule(None)),
        _ => text
            .parse()
            .map(|limit| Rule(Some(limit)))
            .map_err(|_| format!("a limit is a whole number from 1 to 1,000,000, or none, not {text:?}")),
    }
}

/// Reads a rate: so many, a slash, a span.
pub(crate) fn parse_rate(text: &str) -> Result<Rule<Rate>, String> {
    if text == "none" {
        return Ok(Rule(None));
    }
    let wrong = || format!("a rate looks like 500/1m or 5/1s, or is none, not {text:?}");
    let (count, per) = text.split_once('/').ok_or_else(wrong)?;
    let per = parse_duration(per).map_err(|_| wrong())?;
    let is_number = !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit());
    let count = count.parse().map_err(|_| match is_number {
        true => format!("a rate is 1 to 1,000,000 in a span, or none, not {text:?}"),
        false => wrong(),
    })?;
    Ok(Rule(Some(Rate::new(count, per))))
}

/// Does something to a queue and says how it stands.
pub(crate) async fn queue(client: &Backend, command: QueueCommand, format: Format) -> Result<(), Fault> {
    match command {
        QueueCommand::Pause(args) => {
            client.queue(&args.name).await?;
            let card = client.pause_queue(&args.name, args.reason.as_deref()).await?;
            let resume = call(&format!("queue resume {}", args.name));
            let more = format!("what runs goes on, and nothing of it begins until `{resume}`");
            told(client, card, &more, format).await
        }
        QueueCommand::Resume(args) => {
            client.queue(&args.name).await?;
            let card = client.resume_queue(&args.name, args.reason.as_deref()).await?;
            told(client, card, "", format).await
        }
        QueueCommand::Drain(args) => {
            client.queue(&args.name).await?;
            let card = client.drain_queue(&args.name, args.reason.as_deref()).await?;
            let resume = call(&format!("queue resume {}", args.name));
            let more =
                format!("what is in it is worked off, and what comes now stays in line until `{resume}`");
            told(client, card, &more, format).await
        }
        QueueCommand::Limit(args) => limit(client, &args, format).await,
    }
}

async fn limit(client: &Backend, args: &LimitArgs, format: Format) -> Result<(), Fault> {
    let (_, rules) = limited(client, args).await?;
    let card = client.set_queue_rules(&args.name, rules).await?;
    let more = match card.is_own {
        true => "these rules hold whatever code says, until --reset",
        false => "what code says holds",
    };
    told(client, card, more, format).await
}

/// A queue as it is, and the rules that it is to have; `None`: those of code.
pub(crate) async fn limited(
    client: &Backend,
    args: &LimitArgs,
) -> Result<(QueueCard, Option<QueueRules>), Fault> {
    let changed = args.reset || args.changes(QueueRules::default()).1;
    let name = &args.name;
    if !changed {
        return Err(Fault::usage(format!("say what shall hold for queue {name}: {RULES}")));
    }
    let before = client.queue(name).await?;
    let rules = if args.reset { None } else { Some(args.changes(before.rules.clone()).0) };
    rules.as_ref().map_or(Ok(()), QueueRules::check)?;
    Ok((before, rules))
}

impl LimitArgs {
    /// The rules with everything that was given; and whether anything was.
    fn changes(&self, mut rules: QueueRules) -> (QueueRules, bool) {
        let mut given = false;
        put(&mut rules.limit, self.limit.map(|rule| rule.0), &mut given);
        put(&mut rules.per_node, self.per_node.map(|rule| rule.0), &mut given);
        put(&mut rules.per_group, self.per_group.map(|rule| rule.0), &mut given);
        put(&mut rules.rate, self.rate.map(|rule| rule.0), &mut given);
        put(&mut rules.rate_per_group, self.rate_per_group.map(|rule| rule.0), &mut given);
        put(&mut rules.fair, self.fair, &mut given);
        put(&mut rules.ordered, self.ordered, &mut given);
        (rules, given)
    }
}

fn put<T>(place: &mut T, value: Option<T>, given: &mut bool) {
    if let Some(value) = value {
        (*place, *given) = (value, true);
    }
}

/// The queue of this name, if there are rules or runs for it, or a definition that goes there.
pub(crate) async fn known(client: &Client, name: &str) -> Result<QueueCard, Fault> {
    let views = client.queues().await?;
    if let Some(view) = views.iter().find(|view| view.queue.name == name) {
        return Ok(view.queue.clone());
    }
    let mut names: BTreeSet<String> = views.into_iter().map(|view| view.queue.name).collect();
    names.extend(client.definitions().await?.into_iter().map(|card| card.queue));
    // That of bulks, which nobody is shown while nothing is special about it.
    if names.contains(name) || name == "outlast" {
        return Ok(QueueCard { name: name.to_owned(), ..QueueCard::default() });
    }
    let names: Vec<String> = names.into_iter().collect();
    let remedy = match &names[..] {
        [] => format!("none is known yet; `{}` shows those that are", call("list queues")),
        [one] => format!("the only one is {one}"),
        [most @ .., last] => format!("there are {} and {last}", most.join(", ")),
    };
    Err(Fault::new(Exit::NotFound, "not_found", format!("there is no queue {name:?}: {remedy}")))
}

/// Says how a queue stands, and for people what that means.
async fn told(client: &Backend, card: QueueCard, more: &str, format: Format) -> Result<(), Fault> {
    let found = client.queues().await?.into_iter().find(|view| view.queue.name == card.name);
    // What we did is what we say, whatever others have done since.
    let view = QueueView { queue: card, ..found.unwrap_or_default() };
    let now = client.now().await?;
    print_one(format, &QueueJson::new(&view), &view.queue.name, || line(&view, now))?;
    if format == Format::Text && !more.is_empty() {
        note(more);
    }
    Ok(())
}

/// A queue in one line: `mail is paused since 14:03:05 (2 due, 1 running): limit 20, 500/1m`.
fn line(view: &QueueView, now: Timestamp) -> String {
    let QueueView { queue, due, later, running, waiting, .. } = view;
    let counts = [(due, "due"), (later, "later"), (running, "running"), (waiting, "waiting")];
    let counts: Vec<String> = counts
        .iter()
        .filter(|(count, _)| **count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    let counts = if counts.is_empty() { "no runs".to_owned() } else { counts.join(", ") };
    let rules = rules(queue);
    let rules = if rules.is_empty() { "no rules" } else { &rules };
    format!("{} is {} ({counts}): {rules}", queue.name, state(queue, now))
}

/// Whether a queue is worked off, and since when not.
pub(crate) fn state(queue: &QueueCard, now: Timestamp) -> String {
    match queue.since.filter(|_| queue.state != QueueState::Open) {
        Some(since) => format!("{} since {}", queue.state.word(), clock(since, now)),
        None => queue.state.word().to_owned(),
    }
}

/// What a queue allows: `limit 20, 2 per group, 500/1m`, with a mark where people said it.
pub(crate) fn rules(queue: &QueueCard) -> String {
    let rate = |rate: Rate| format!("{}/{}", rate.count, duration_text(rate.per));
    let QueueRules { limit, per_node, per_group, rate: all, rate_per_group, fair, ordered } = &queue.rules;
    let parts: Vec<String> = [
        limit.map(|limit| format!("limit {limit}")),
        per_node.map(|limit| format!("{limit} per node")),
        per_group.map(|limit| format!("{limit} per group")),
        all.map(rate),
        rate_per_group.map(|each| format!("{} per group", rate(each))),
        fair.then(|| "fair".to_owned()),
        ordered.then(|| "ordered".to_owned()),
    ]
    .into_iter()
    .flatten()
    .collect();
    match (parts.is_empty(), queue.is_own) {
        (true, true) => "no rules (own)".to_owned(),
        (false, true) => format!("{} (own)", parts.join(", ")),
        (_, false) => parts.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use outlast::prelude::*;

    use super::*;

    #[test]
    fn rules_read_as_they_are_given() {
        let rules = QueueRules {
            limit: Some(20),
            per_node: Some(5),
            per_group: Some(2),
            rate: parse_rate("500/1m").unwrap().0,
            rate_per_group: parse_rate("5/1s").unwrap().0,
            fair: true,
            ordered: true,
        };
        let card = QueueCard { rules, ..QueueCard::default() };
        let told = "limit 20, 5 per node, 2 per group, 500/1m, 5/1s per group, fair, ordered";
        assert_eq!(super::rules(&card), told);
        assert_eq!(super::rules(&QueueCard { is_own: true, ..card }), format!("{told} (own)"));
        assert_eq!(parse_rate("5/90s").unwrap(), Rule(Some(Rate::new(5, 90.seconds()))));
    }

    #[test]
    fn a_rate_that_cannot_be_is_told_what_can() {
        for text in ["500", "500/", "/1m", "many/1m", "500/soon", "-1/1m", ""] {
            let refused = parse_rate(text).unwrap_err();
            assert_eq!(refused, format!("a rate looks like 500/1m or 5/1s, or is none, not {text:?}"));
        }
        let refused = parse_rate("9999999999/1s").unwrap_err();
        assert_eq!(refused, "a rate is 1 to 1,000,000 in a span, or none, not \"9999999999/1s\"");
        for text in ["-1", "4294967296", "ten"] {
            let refused = parse_limit(text).unwrap_err();
            assert_eq!(
                refused,
                format!("a limit is a whole number from 1 to 1,000,000, or none, not {text:?}")
            );
        }
        assert_eq!((parse_limit("none"), parse_rate("none")), (Ok(Rule(None)), Ok(Rule(None))));
    }
}

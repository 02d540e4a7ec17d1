//! `outlast list`: runs by filter, queues, schedules, nodes, definitions, bulks; errors are in their own file.

use outlast::{
    DefinitionCard, Filter, NodeView, QueueState, QueueView, RunView, ScheduleView, Status, Timestamp,
};

use crate::backend::Backend;
use crate::cli::ListArgs;
use crate::errors;
use crate::fault::{Exit, Fault};
use crate::output::{BOLD, Column, Format, Row, WAIT, call, note, print, print_list, style_of, table};
use crate::queue_commands::{rules, state};
use crate::schedule_commands::{Plan, catch_up_word, coming, overlap_word};
use crate::shapes::{DefinitionJson, NodeJson, QueueJson, RunJson, ScheduleJson, kind};
use crate::story::{Story, standing};
use crate::words::{ago, parse_duration, parse_number, took};

/// The most runs of one list: a page of the store.
pub(crate) const PAGE: u32 = 500;

/// The definition of which bulks are runs.
const BULK: &str = "outlast.bulk";

/// What can be listed.
#[derive(Debug, PartialEq, Eq)]
enum What {
    Runs,
    Queues,
    Schedules,
    Nodes,
    Definitions,
    Bulks,
    Errors,
}

/// Lists what was asked for.
pub(crate) async fn list(client: &Backend, args: ListArgs, format: Format) -> Result<(), Fault> {
    let now = client.now().await?;
    let (what, filters) = what(&args.words)?;
    match what {
        What::Runs => runs(client, &filter(filters, now)?, args.limit, format, now).await,
        _ if !filters.is_empty() => Err(Fault::usage("filters are for runs: leave them away, or list runs")),
        What::Queues => queues(&client.queues().await?, format, now),
        What::Schedules => schedules(&client.schedules().await?, format, now),
        What::Nodes => nodes(&client.nodes().await?, format, now),
        What::Errors => errors::list(client, args.limit, format).await,
        What::Bulks => {
            let bulks = Filter { definition: Some(BULK.to_owned()), ..Filter::default() };
            runs(client, &bulks, args.limit, format, now).await
        }
        What::Definitions => definitions(&client.definitions().await?, format),
    }
}

fn what(words: &[String]) -> Result<(What, &[String]), Fault> {
    let Some((first, rest)) = words.split_first() else { return Ok((What::Runs, words)) };
    match first.as_str() {
        "runs" | "run" => Ok((What::Runs, rest)),
        "queues" | "queue" => Ok((What::Queues, rest)),
        "schedules" | "schedule" => Ok((What::Schedules, rest)),
        "nodes" | "node" => Ok((What::Nodes, rest)),
        "definitions" | "definition" => Ok((What::Definitions, rest)),
        "bulk" | "bulks" => Ok((What::Bulks, rest)),
        "errors" | "error" => Ok((What::Errors, rest)),
        filter if filter.contains(':') => Ok((What::Runs, words)),
        other => {
            let message = format!(
                "{other:?} cannot be listed: say runs, queues, schedules, nodes, definitions, bulk or errors, or a filter such \
                 as status:failed"
            );
            Err(Fault::usage(message))
        }
    }
}

/// Reads filters: words of the form `field:value`, all of which must fit.
pub(crate) fn filter(words: &[String], now: Timestamp) -> Result<Filter, Fault> {
    let mut filter = Filter::default();
    for word in words {
        let refused = |code, why: &str| Fault::new(Exit::Usage, code, format!("filter {word:?}: {why}"));
        let wrong = |why: &str| refused("invalid_argument", why);
        let time = |value| moment(value, now).map_err(|why| refused("invalid_timestamp", &why));
        let known = "use status:, def:, queue:, key:, tag:NAME=VALUE, parent:, node:, version:, owner:, stuck:5m, since:2h, until:TIME or ended:2h";
        let (field, value) = word.split_once(':').ok_or_else(|| wrong(known))?;
        match field {
            _ if value.is_empty() => return Err(wrong("there is nothing behind the colon")),
            "status" => {
                for status in value.split(',') {
                    filter.statuses.push(status.parse::<Status>()?);
                }
            }
            "def" | "definition" => filter.definition = Some(value.to_owned()),
            "queue" => filter.queue = Some(value.to_owned()),
            "key" => filter.key = Some(value.to_owned()),
            "tag" => {
                let (name, value) =
                    value.split_once('=').ok_or_else(|| wrong("write it like tag:city=Bern"))?;
                filter.tags.push((name.to_owned(), value.to_owned()));
            }
            "node" => filter.node = Some(value.parse()?),
            "version" => {
                let version = parse_number(value, 1..=u32::MAX);
                filter.version = Some(version.map_err(|why| wrong(&format!("a version is {why}")))?);
            }
            "owner" => filter.owner = Some(value.to_owned()),
            "stuck" => {
                let since = moment(value, now).map_err(|why| refused("invalid_duration", &why))?;
                filter.stuck_since = Some(since);
            }
            "parent" => filter.parent = Some(value.parse()?),
            "ended" => filter.ended_since = Some(time(value)?),
            "since" => filter.since = Some(time(value)?),
            "until" => filter.until = Some(time(value)?),
            _ => return Err(wrong(known)),
        }
    }
    Ok(filter)
}

/// A time: as it is written in full, or so long ago.
pub(crate) fn moment(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    let ago = text.strip_prefix('-').unwrap_or(text);
    match (parse_duration(ago), text.parse::<Timestamp>()) {
        (Ok(past), _) => {
            let past = i64::try_from(past.as_micros()).unwrap_or(i64::MAX);
            Ok(Timestamp::from_micros(now.micros().saturating_sub(past)))
        }
        (Err(_), Ok(time)) => Ok(time),
        // No duration has one: it is meant as a time.
        (Err(_), Err(refused)) if text.contains('T') => Err(refused.to_string()),
        (Err(why), Err(_)) => Err(format!("{why}, and a time like 2027-03-14T01:30:00Z")),
    }
}

async fn runs(
    client: &Backend,
    filter: &Filter,
    limit: u32,
    format: Format,
    now: Timestamp,
) -> Result<(), Fault> {
    let (views, more) = client.list(filter, limit).await?;
    if format != Format::Text {
        let items: Vec<RunJson> = views.iter().map(RunJson::new).collect();
        return print_list(format, items, more, |run| run.id.clone());
    }
    if views.is_empty() {
        note(&match filter.definition.as_deref() {
            _ if *filter == Filter::default() => {
                format!("no runs yet: start one with `{}`", call("start NAME"))
            }
            Some(BULK) => "no bulk yet: such as of `cancel --filter` and `retry --filter`".to_owned(),
            _ => "no run fits".to_owned(),
        });
        return Ok(());
    }
    let mut rows = Vec::new();
    for view in &views {
        rows.push(row(view, &words(client, view, now).await?, now));
    }
    let columns = [
        Column { head: "STATUS", spare: 0 },
        Column { head: "DEFINITION", spare: 0 },
        Column { head: "KEY", spare: 1 },
        Column { head: "ID", spare: 0 },
        Column { head: "STARTED", spare: 2 },
        Column { head: "NOW", spare: 0 },
    ];
    print(&table(&columns, &rows))?;
    if more {
        note(&format!("… and more: --limit shows up to {PAGE}, a filter such as status:failed fewer"));
    }
    Ok(())
}

/// Where a run stands. Only a waiting run's journal has to be read for that.
async fn words(client: &Backend, view: &RunView, now: Timestamp) -> Result<String, Fault> {
    let story = match view.status {
        Status::Waiting => Some(Story::read(client, view).await?),
        _ => None,
    };
    Ok(standing(view, story.as_ref(), now))
}

fn row(view: &RunView, words: &str, now: Timestamp) -> Row {
    // The status has a column of its own: what follows need not say it again.
    let word = view.status.word();
    let more = words.strip_prefix(word).map_or(words, |rest| rest.trim_start_matches([':', ' ']));
    let cells = vec![
        word.to_owned(),
        view.record.definition.clone(),
        view.record.key.clone().unwrap_or_default(),
        view.record.id.to_string(),
        ago(view.record.created_at, now),
        more.to_owned(),
    ];
    Row { style: style_of(view.status), cells }
}

fn queues(queues: &[QueueView], format: Format, now: Timestamp) -> Result<(), Fault> {
    if format != Format::Text {
        let items = queues.iter().map(QueueJson::new).collect();
        return print_list(format, items, false, |queue| queue.name.clone());
    }
    if queues.is_empty() {
        note("no queue has rules or unfinished runs");
        return Ok(());
    }
    let columns = [
        Column { head: "QUEUE", spare: 0 },
        Column { head: "STATE", spare: 0 },
        Column { head: "DUE", spare: 0 },
        Column { head: "LATER", spare: 2 },
        Column { head: "RUNNING", spare: 0 },
        Column { head: "WAITING", spare: 1 },
        Column { head: "OLDEST", spare: 3 },
        Column { head: "RULES", spare: 0 },
    ];
    let row = |view: &QueueView| {
        let cells = vec![
            view.queue.name.clone(),
            state(&view.queue, now),
            view.due.to_string(),
            view.later.to_string(),
            view.running.to_string(),
            view.waiting.to_string(),
            view.oldest.map(|oldest| took(now.since(oldest))).unwrap_or_default(),
            rules(&view.queue),
        ];
        Row { style: if view.queue.state == QueueState::Open { BOLD } else { WAIT }, cells }
    };
    print(&table(&columns, &queues.iter().map(row).collect::<Vec<_>>()))
}

/// Lists schedules.
pub(crate) fn schedules(schedules: &[ScheduleView], format: Format, now: Timestamp) -> Result<(), Fault> {
    if format != Format::Text {
        let items = schedules.iter().map(ScheduleJson::new).collect();
        return print_list(format, items, false, |schedule| schedule.name.clone());
    }
    if schedules.is_empty() {
        let add = call("schedule add NAME EXPRESSION DEFINITION");
        note(&format!("there is no schedule: make one with `{add}`"));
        return Ok(());
    }
    let columns = [
        Column { head: "SCHEDULE", spare: 0 },
        Column { head: "STARTS", spare: 1 },
        Column { head: "EXPRESSION", spare: 2 },
        Column { head: "ZONE", spare: 3 },
        Column { head: "NEXT", spare: 0 },
        Column { head: "LAST", spare: 4 },
        Column { head: "LAST RUN", spare: 8 },
        Column { head: "OVERLAP", spare: 7 },
        Column { head: "CATCH-UP", spare: 7 },
        Column { head: "STARTED", spare: 5 },
        Column { head: "SKIPPED", spare: 6 },
        Column { head: "WHEN", spare: 0 },
    ];
    let row = |view: &ScheduleView| {
        let plan = Plan::read(&view.card);
        let cells = vec![
            view.name.clone(),
            view.card.definition.clone(),
            view.card.timetable.clone(),
            view.card.zone.clone(),
            coming(view, now),
            view.last_at.map(|last| ago(last, now)).unwrap_or_default(),
            view.last_run.map(|run| run.to_string()).unwrap_or_default(),
            overlap_word(plan.options.overlap).to_owned(),
            catch_up_word(plan.options.catch_up).to_owned(),
            view.started.to_string(),
            view.skipped.to_string(),
            // The zone has a column of its own.
            plan.words().trim_end_matches(&format!(" ({})", view.card.zone)).to_owned(),
        ];
        Row { style: if view.is_paused { WAIT } else { BOLD }, cells }
    };
    print(&table(&columns, &schedules.iter().map(row).collect::<Vec<_>>()))
}

fn nodes(nodes: &[NodeView], format: Format, now: Timestamp) -> Result<(), Fault> {
    if format != Format::Text {
        let items = nodes.iter().map(NodeJson::new).collect();
        return print_list(format, items, false, |node| node.id.clone());
    }
    if nodes.is_empty() {
        note(&format!("no node is up: start one with `{}`", call("dev")));
        return Ok(());
    }
    let columns = [
        Column { head: "NODE", spare: 0 },
        Column { head: "HOST", spare: 1 },
        Column { head: "PID", spare: 0 },
        Column { head: "UP", spare: 0 },
        Column { head: "LEASE", spare: 2 },
        Column { head: "RUNS IN HAND", spare: 0 },
    ];
    let row = |node: &NodeView| {
        let cells = vec![
            node.name.clone(),
            node.host.clone(),
            node.pid.to_string(),
            took(now.since(node.joined_at)),
            format!("{} left", took(node.lease_until.since(now))),
            node.holds.to_string(),
        ];
        Row { style: BOLD, cells }
    };
    print(&table(&columns, &nodes.iter().map(row).collect::<Vec<_>>()))
}

fn definitions(cards: &[DefinitionCard], format: Format) -> Result<(), Fault> {
    if format != Format::Text {
        let items = cards.iter().map(DefinitionJson::new).collect();
        return print_list(format, items, false, |card| card.name.clone());
    }
    if cards.is_empty() {
        note("no node has registered a workflow or job yet");
        return Ok(());
    }
    let columns = [
        Column { head: "DEFINITION", spare: 0 },
        Column { head: "KIND", spare: 0 },
        Column { head: "VERSION", spare: 1 },
        Column { head: "QUEUE", spare: 2 },
        Column { head: "PRIORITY", spare: 3 },
        Column { head: "", spare: 4 },
    ];
    let row = |card: &DefinitionCard| {
        let cells = vec![
            card.name.clone(),
            kind(card).to_owned(),
            card.version.to_string(),
            card.queue.clone(),
            card.priority.to_string(),
            if card.active { String::new() } else { "not for new runs".to_owned() },
        ];
        Row { style: BOLD, cells }
    };
    print(&table(&columns, &cards.iter().map(row).collect::<Vec<_>>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<Filter, Fault> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        filter(&words, Timestamp::from_micros(10_000_000_000))
    }

    #[test]
    fn filters_are_read_field_by_field() {
        let filter = read(&["status:failed,cancelled", "def:order", "tag:city=Bern", "since:1h"]).unwrap();
        let more = read(&["version:2", "owner:ann", "stuck:1h"]).unwrap();
        assert_eq!((more.version, more.owner.as_deref()), (Some(2), Some("ann")));
        assert_eq!(more.stuck_since, Some(Timestamp::from_micros(6_400_000_000)));
        assert_eq!(filter.statuses, [Status::Failed, Status::Cancelled]);
        assert_eq!(filter.definition.as_deref(), Some("order"));
        assert_eq!(filter.tags, [("city".to_owned(), "Bern".to_owned())]);
        assert_eq!(filter.since, Some(Timestamp::from_micros(6_400_000_000)));
    }

    #[test]
    fn a_filter_that_cannot_be_is_told_what_can() {
        for (word, told) in [
            ("colour:red", "status:, def:, queue:"),
            ("status:done", "one of ready, running"),
            ("status:", "nothing behind the colon"),
            ("tag:city", "tag:city=Bern"),
            ("node:mine", "node_ and 32 digits"),
            ("version:new", "a version is"),
            ("stuck:yes", "30s, 10m, 2h30m or 1d"),
            ("since:soon", "30s, 10m, 2h30m or 1d"),
            ("since:9999-12-31T23:59:59Z", "until 9999-12-30T22:00:00Z"),
        ] {
            let refused = read(&[word]).unwrap_err().to_string();
            assert!(refused.contains(told), "{word}: {refused}");
        }
    }

    #[test]
    fn runs_are_listed_unless_something_else_is_named() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert_eq!(what(&words(&["status:failed"])).unwrap().0, What::Runs);
        assert_eq!(what(&words(&["nodes"])).unwrap().0, What::Nodes);
        assert_eq!(what(&words(&["queues"])).unwrap().0, What::Queues);
        assert_eq!(what(&words(&["schedules"])).unwrap().0, What::Schedules);
        assert_eq!(what(&words(&["bulk"])).unwrap().0, What::Bulks);
        assert_eq!(what(&words(&["errors"])).unwrap().0, What::Errors);
        assert!(what(&words(&["cats"])).unwrap_err().to_string().contains("bulk or errors"));
    }
}

//! Every route, with what it needs. Whoever is bound to queues may only use those that say `by_queue`: their handlers keep to
//! these. Retry, resume, delete and the like are `operate`: they do what starting does, or more.

use axum::http::Method;

use super::access::Scope::{Admin, Operate, Public, Read, Start};
use super::route::{Route, delete, get, post, route};
use super::run_actions::Reason;
use super::{
    audit, bulks, chain, health, live, logs, openapi, payloads, queues, run_actions, runs, schedules,
    sessions, shared, start, stats, system, tokens,
};

/// All of them.
pub(crate) fn all() -> Vec<Route> {
    let routes =
        [probes(), of_runs(), of_run_actions(), of_queues(), of_schedules(), of_bulks(), of_access()];
    routes.into_iter().flatten().collect()
}

fn probes() -> Vec<Route> {
    vec![
        get("/healthz", Public, "health.alive", health::alive)
            .about("Whether the process is alive; asks nobody")
            .gives::<health::Alive>(200),
        get("/readyz", Public, "health.ready", health::ready)
            .about("Whether it can serve: the database answers and takes writes, its schema is of this version, and it is not about to stop")
            .gives::<health::Ready>(200)
            .gives::<health::Ready>(503),
        get("/startupz", Public, "health.started", health::started)
            .about("Whether it has begun: the database was opened, with a schema of this version")
            .gives::<health::Alive>(200),
        get("/version", Public, "health.version", health::version)
            .about("Which server this is")
            .gives::<health::Version>(200),
        get("/openapi.json", Public, "health.openapi", openapi::serve)
            .about("This document")
            .gives_other(200, "application/json"),
        get("/metrics", Read, "health.metrics", health::metrics)
            .shared()
            .about("What this process measures: as OpenMetrics where that is asked for (Accept), else in the text of Prometheus")
            .gives_other(200, "text/plain")
            .gives_also("application/openmetrics-text"),
    ]
}

fn of_runs() -> Vec<Route> {
    vec![
        get("/api/v1/runs", Read, "run.list", runs::list)
            .by_queue()
            .query(runs::LIST)
            .about("Runs that fit, newest first")
            .gives::<runs::RunPage>(200),
        post("/api/v1/runs", Start, "run.start", start::start)
            .by_queue()
            .about("Start a run; the same key never starts twice; with dry_run, say whether one would be started (a StartPlan)")
            .takes::<start::StartRun>()
            .gives::<start::Started>(200)
            .gives::<start::StartPlan>(200)
            .gives::<start::Started>(201),
        get("/api/v1/runs/count", Read, "run.count", runs::count)
            .by_queue()
            .query(runs::COUNT)
            .about("How many runs fit, up to a cap")
            .gives::<runs::Count>(200),
        get("/api/v1/runs/{id}", Read, "run.get", runs::get)
            .by_queue()
            .query(runs::GET)
            .about("One run")
            .gives::<crate::shapes::RunJson>(200),
        delete("/api/v1/runs/{id}", Operate, "run.delete", runs::delete)
            .by_queue()
            .query(runs::REASON)
            .about("Delete a run that has ended or never began, with everything of it; one that never began ends as cancelled first")
            .gives_other(204, ""),
        get("/api/v1/runs/{id}/steps", Read, "run.steps", runs::steps)
            .by_queue()
            .query(runs::STEPS)
            .about("What it did, operation by operation")
            .gives::<runs::Steps>(200),
        get("/api/v1/runs/{id}/history", Read, "run.history", runs::history)
            .by_queue()
            .query(runs::HISTORY)
            .about("What it recorded, entry by entry")
            .gives::<runs::History>(200),
        get("/api/v1/runs/{id}/payload", Read, "run.payload", payloads::payload)
            .by_queue()
            .query(payloads::PAYLOAD)
            .about("One payload of it, as a file; with preview, how it begins (a Preview)")
            .gives::<serde_json::Value>(200)
            .gives::<crate::preview::PreviewJson>(200),
        get("/api/v1/runs/{id}/queries/{name}", Read, "run.query", runs::query)
            .by_queue()
            .about("What it last saved under a name, with Ctx::save")
            .gives::<runs::SavedValue>(200),
        get("/api/v1/runs/{id}/actions", Read, "run.actions", audit::of_run)
            .by_queue()
            .about("What people asked of it through the API, newest first; at most 200")
            .gives::<audit::ActionPage>(200),
        get("/api/v1/runs/{id}/logs", Read, "run.logs", logs::logs)
            .by_queue()
            .query(logs::LOGS)
            .about("What its handlers logged; with follow=1, as server-sent events (log, end)")
            .gives::<logs::Logs>(200),
        get("/api/v1/runs/{id}/explain", Read, "run.explain", runs::explain)
            .by_queue()
            .about("Why it is not progressing, and what wakes it")
            .gives_other(200, "application/json"),
        get("/api/v1/runs/{id}/export", Read, "run.export", runs::export)
            .by_queue()
            .about("The run with its journal, as a file for `outlast check` and `outlast show --file`")
            .gives_other(200, "application/json"),
        get("/api/v1/runs/{id}/result", Read, "run.result", runs::result)
            .by_queue()
            .query(runs::RESULT)
            .patient()
            .about("How it ended; waits for that if asked to, and says 202 if it has not")
            .gives::<runs::RunResult>(200)
            .gives::<runs::RunResult>(202),
        post("/api/v1/runs/read", Read, "run.read", runs::read)
            .by_queue()
            .changes_nothing()
            .takes_file(64 << 20, "`outlast show --file` reads larger ones")
            .about("What an exported run did: the file is read, and nothing is kept of it; at most 64 MiB")
            .takes::<runs::ExportedRun>()
            .gives::<runs::ReadRun>(200),
        get("/api/v1/stats/summary", Read, "stats.summary", stats::summary)
            .by_queue()
            .query(stats::RANGE)
            .about("How many runs there are, and how they ended lately")
            .gives::<stats::Summary>(200),
        get("/api/v1/stats/series", Read, "stats.series", stats::series)
            .by_queue()
            .query(stats::SERIES)
            .about("How runs ended, how long they took and how long queues were, span by span")
            .gives::<stats::Series>(200),
        get("/api/v1/errors", Read, "stats.errors", stats::errors)
            .query(stats::ERRORS)
            .about("Failures that are alike, the last first")
            .gives::<stats::ErrorPage>(200),
        get("/api/v1/live", Read, "live.stream", live::stream)
            .by_queue()
            .query(live::QUERY)
            .about("What changes, as server-sent events")
            .gives_other(200, "text/event-stream"),
    ]
}

fn of_run_actions() -> Vec<Route> {
    use run_actions::{Acted, Due, Fork, Forked, Kept, Message, PlanJson, Replace, Rerun, Retry};
    vec![
        post("/api/v1/runs/{id}/events", Operate, "run.send", run_actions::send)
            .by_queue()
            .about("Send an event; it is kept until the run waits for it; with dry_run, only refuse what would be refused")
            .takes::<Message>()
            .gives::<Acted>(200)
            .gives::<Kept>(202),
        post("/api/v1/runs/{id}/promises", Operate, "run.settle", run_actions::settle)
            .by_queue()
            .about("Settle a promise; the first value stays; with dry_run, only refuse what would be refused")
            .takes::<Message>()
            .gives::<Acted>(200)
            .gives::<Kept>(202),
        post("/api/v1/runs/{id}/cancel", Operate, "run.cancel", run_actions::cancel)
            .by_queue()
            .about("Ask it to stop; one that has ended stays as it is")
            .may_take::<Reason>()
            .gives::<Acted>(200),
        post("/api/v1/runs/{id}/kill", Operate, "run.kill", run_actions::kill)
            .by_queue()
            .about("End it at once, without undoing what it did")
            .may_take::<Reason>()
            .gives::<Acted>(200),
        post("/api/v1/runs/{id}/pause", Operate, "run.pause", run_actions::pause)
            .by_queue()
            .about("Hold it back until it is resumed")
            .may_take::<Reason>()
            .gives::<Acted>(200),
        post("/api/v1/runs/{id}/resume", Operate, "run.resume", run_actions::resume)
            .by_queue()
            .about("Let it go on")
            .may_take::<Reason>()
            .gives::<Acted>(200),
        post("/api/v1/runs/{id}/due", Operate, "run.due", run_actions::due)
            .by_queue()
            .about("Have it go on now, or at another time, where it would go on later by itself")
            .may_take::<Due>()
            .gives::<Acted>(200),
        post("/api/v1/runs/{id}/retry", Operate, "run.retry", run_actions::retry)
            .by_queue()
            .about("Try it again, from where it went wrong; with dry_run, say what would run again (a Plan)")
            .may_take::<Retry>()
            .gives::<Acted>(200)
            .gives::<PlanJson>(200),
        post("/api/v1/runs/{id}/replace", Operate, "run.replace", run_actions::replace)
            .by_queue()
            .about("Give a step another result; with dry_run, say what would run again (a Plan)")
            .takes::<Replace>()
            .gives::<Acted>(200)
            .gives::<PlanJson>(200),
        post("/api/v1/runs/{id}/fork", Operate, "run.fork", run_actions::fork)
            .by_queue()
            .about("Start another run from a step of it; with dry_run, say what would run again")
            .may_take::<Fork>()
            .gives::<PlanJson>(200)
            .gives::<Forked>(201),
        post("/api/v1/runs/{id}/rerun", Operate, "run.rerun", run_actions::rerun)
            .by_queue()
            .about("Start another run that does all of it again")
            .may_take::<Rerun>()
            .gives::<Forked>(201),
    ]
}

fn of_queues() -> Vec<Route> {
    use crate::shapes::QueueJson;
    let change = |route: Route, about| route.shared().by_queue().about(about).gives::<QueueJson>(200);
    vec![
        get("/api/v1/queues", Read, "queue.list", queues::list)
            .by_queue()
            .shared()
            .about("Every queue that has rules or unfinished runs")
            .gives::<queues::QueuePage>(200),
        change(get("/api/v1/queues/{name}", Read, "queue.get", queues::get), "One queue, with its ETag"),
        change(
            post("/api/v1/queues/{name}/pause", Operate, "queue.pause", queues::pause).may_take::<Reason>(),
            "Nothing of it begins until it is resumed; what runs goes on",
        ),
        change(
            post("/api/v1/queues/{name}/resume", Operate, "queue.resume", queues::resume)
                .may_take::<Reason>(),
            "It is worked off again",
        ),
        change(
            post("/api/v1/queues/{name}/drain", Operate, "queue.drain", queues::drain).may_take::<Reason>(),
            "What is in it is worked off; what comes later stays in line until it is resumed",
        ),
        change(
            route(Method::PUT, "/api/v1/queues/{name}/limits", Operate, "queue.limit", queues::limit)
                .takes::<queues::Limits>(),
            "Set its rules, whatever code says; with If-Match, only if nobody changed it since",
        ),
        change(
            delete("/api/v1/queues/{name}/limits", Operate, "queue.reset", queues::reset).query(runs::REASON),
            "Back to what code says",
        ),
        get("/api/v1/queues/{name}/groups", Read, "queue.groups", queues::groups)
            .by_queue()
            .shared()
            .about("Its groups of which the most runs are in hand, and how many each may have")
            .gives::<queues::GroupPage>(200),
        get("/api/v1/queues/{name}/actions", Read, "queue.actions", audit::of_queue)
            .by_queue()
            .shared()
            .about("What people did to it through the API and by commands, newest first; at most 200")
            .gives::<audit::ActionPage>(200),
        get("/api/v1/nodes", Read, "node.list", shared::nodes)
            .shared()
            .about("The nodes that are up")
            .gives::<shared::NodePage>(200),
        get("/api/v1/nodes/lost", Read, "node.lost", shared::lost_nodes)
            .shared()
            .about("The nodes that were lost in the last day, and how many runs others took over")
            .gives::<shared::LostNodePage>(200),
        get("/api/v1/system", Read, "system.get", system::system)
            .shared()
            .about("Version, database, nodes, and how the work beside the runs stands")
            .gives::<system::System>(200),
        get("/api/v1/system/tables", Operate, "system.tables", system::tables)
            .shared()
            .about("How much room each table takes; reads a whole file of SQLite")
            .gives::<system::Tables>(200),
        get("/api/v1/system/checks", Operate, "system.checks", system::checks)
            .shared()
            .about("What may be wrong with the database, and what to do about it; takes a while")
            .query(system::CHECKS)
            .gives::<system::Checks>(200),
        get("/api/v1/system/config", Operate, "system.config", system::config)
            .shared()
            .about("The settings that the server goes by, without secrets, and where each comes from")
            .gives::<system::Config>(200),
        get("/api/v1/suggest", Read, "suggest.get", shared::suggest)
            .by_queue()
            .query(shared::SUGGEST)
            .about("What a filter's field can be followed by")
            .gives::<shared::Suggestions>(200),
        get("/api/v1/definitions", Read, "definition.list", shared::definitions)
            .by_queue()
            .about("What nodes know how to run")
            .gives::<shared::DefinitionPage>(200),
        get("/api/v1/definitions/{name}", Read, "definition.get", shared::definition)
            .by_queue()
            .about("All versions of one workflow or job")
            .gives::<shared::DefinitionPage>(200),
    ]
}

fn of_schedules() -> Vec<Route> {
    use crate::schedule_commands::NextJson;
    use crate::shapes::ScheduleJson;
    vec![
        get("/api/v1/schedules", Read, "schedule.list", schedules::list)
            .about("All schedules")
            .gives::<schedules::SchedulePage>(200),
        get("/api/v1/schedules/{name}", Read, "schedule.get", schedules::get)
            .about("One schedule, with its ETag")
            .gives::<ScheduleJson>(200),
        get("/api/v1/schedules/{name}/actions", Read, "schedule.actions", audit::of_schedule)
            .about("What people did to it through the API and by commands, newest first; at most 200")
            .gives::<audit::ActionPage>(200),
        route(Method::PUT, "/api/v1/schedules/{name}", Operate, "schedule.set", schedules::set)
            .shared()
            .about("Start runs at times; of a schedule that is there, what is left away stays, with If-Match only if it is what was looked at; with dry_run, say when it would start some")
            .takes::<super::set_schedule::SetSchedule>()
            .gives::<schedules::ScheduleSet>(200)
            .gives::<NextJson>(200),
        delete("/api/v1/schedules/{name}", Operate, "schedule.delete", schedules::delete)
            .query(runs::REASON)
            .about("Delete it, with If-Match only if it is what was looked at; its runs stay")
            .gives_other(204, ""),
        get("/api/v1/schedules/{name}/next", Read, "schedule.next", schedules::next)
            .query(schedules::NEXT)
            .about("The times that are to come, and what clocks that change do to them")
            .gives::<NextJson>(200),
        get("/api/v1/cron", Read, "schedule.preview", schedules::preview)
            .query(schedules::PREVIEW)
            .about("When an expression would fire that nobody has set")
            .gives::<NextJson>(200),
        post("/api/v1/schedules/{name}/pause", Operate, "schedule.pause", schedules::pause)
            .may_take::<Reason>()
            .about("It starts nothing until it is resumed")
            .gives::<ScheduleJson>(200),
        post("/api/v1/schedules/{name}/resume", Operate, "schedule.resume", schedules::resume)
            .may_take::<Reason>()
            .about("It goes on with its next time")
            .gives::<ScheduleJson>(200),
        post("/api/v1/schedules/{name}/trigger", Operate, "schedule.trigger", schedules::trigger)
            .may_take::<Reason>()
            .about("Start a run of it now, beside its times")
            .gives::<schedules::Triggered>(201),
        post("/api/v1/schedules/{name}/backfill", Operate, "schedule.backfill", schedules::backfill)
            .about("Start a run for each time in the past that has none")
            .takes::<schedules::Backfill>()
            .gives::<schedules::Backfilled>(200),
    ]
}

fn of_bulks() -> Vec<Route> {
    vec![
        get("/api/v1/bulk", Read, "bulk.list", bulks::list)
            .query(bulks::LIST)
            .about("Bulks, newest first")
            .gives::<bulks::BulkPage>(200),
        post("/api/v1/bulk", Operate, "bulk.create", bulks::create)
            .by_queue()
            .about("Do one thing to all runs that fit a filter; with dry_run, say what it would do")
            .takes::<bulks::NewBulk>()
            .gives::<bulks::BulkPreview>(200)
            .gives::<bulks::BulkJson>(202),
        get("/api/v1/bulk/{id}", Read, "bulk.get", bulks::get)
            .by_queue()
            .about("How far a bulk is")
            .gives::<bulks::BulkJson>(200),
        post("/api/v1/bulk/{id}/abort", Operate, "bulk.abort", bulks::abort)
            .by_queue()
            .may_take::<Reason>()
            .about("Stop a bulk after the runs in hand; what it did stays")
            .gives::<bulks::BulkJson>(200),
    ]
}

fn of_access() -> Vec<Route> {
    vec![
        post("/api/v1/session", Public, "session.open", sessions::open)
            .about("Log in with a token, or with the ticket of a server's first start: a browser is given a cookie for it")
            .takes::<sessions::Login>()
            .gives_other(204, ""),
        delete("/api/v1/session", Public, "session.close", sessions::close)
            .about("Log out: the cookie opens nothing any more")
            .gives_other(204, ""),
        get("/api/v1/me", Read, "access.me", tokens::me)
            .by_queue()
            .about("Who asks, and what they may do")
            .gives::<tokens::Me>(200),
        get("/api/v1/tokens", Admin, "token.list", tokens::list)
            .shared()
            .about("All tokens, without their secrets")
            .gives::<tokens::TokenPage>(200),
        post("/api/v1/tokens", Admin, "token.create", tokens::create)
            .shared()
            .about("Make a token; its secret is shown this once")
            .once()
            .takes::<tokens::NewToken>()
            .gives::<tokens::MadeToken>(201),
        delete("/api/v1/tokens/{id}", Admin, "token.revoke", tokens::revoke)
            .query(runs::REASON)
            .shared()
            .about("From now on it opens nothing")
            .gives::<tokens::TokenJson>(200),
        get("/api/v1/audit", Admin, "audit.list", audit::list)
            .query(audit::QUERY)
            .about("Who changed what, newest first")
            .gives::<audit::AuditPage>(200),
        get("/api/v1/audit/verify", Admin, "audit.verify", chain::verify)
            .shared()
            .query(chain::QUERY)
            .about("Whether lines of the audit log were changed or removed by hand: part by part, from the first")
            .gives::<chain::ChainJson>(200),
    ]
}

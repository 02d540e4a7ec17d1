//! A server as a command sees it: every question as a request of the HTTP API.
//!
//! How requests travel, and what becomes of those that do not arrive, is in `wire.rs`; whom they believe in `tls.rs`; how news
//! comes back in `news.rs`.

mod bodies;
mod news;
mod tls;
mod wire;

use outlast::{
    BulkReport, DefinitionCard, Entry, Explained, Filter, LogLine, NodeView, Preview, QueueCard, QueueRules,
    QueueView, RepairPlan, RunId, RunView, ScheduleView, Timestamp,
};
use outlast_store::{FailureGroup, Link, TokenView};
use reqwest::Method;
use serde::Deserialize;
use serde_json::value::RawValue;

use self::bodies::{
    bulk_body, fork_body, message_body, repair_body, rules_body, schedule_body, start_body, words,
};
pub(crate) use self::news::Stream;
use self::wire::{Body, Request};
pub(crate) use self::wire::{Remote, ServerUrl};
use super::read::{
    DefinitionDoc, EntryDoc, FailureDoc, Items, LogPage, NodeDoc, QueueDoc, RunDoc, ScheduleDoc, TokenDoc,
};
use super::{BulkAsk, ForkAsk, MadeToken, RepairAsk, ScheduleAsk, StartAsk, Which};
use crate::doctor::CheckJson;
use crate::fault::{Exit, Fault};
use crate::http::{AuditJson, ChainJson, DEFAULT_AGE, Role, TokenAsk, may, write_link};
use crate::shapes::millis;
use crate::when::When;

/// The id of something that was made.
#[derive(Deserialize)]
struct Made {
    id: RunId,
    #[serde(default)]
    created: bool,
}

/// Whether something was changed.
#[derive(Deserialize)]
struct Acted {
    changed: bool,
}

impl Remote {
    pub(super) async fn now(&self) -> Result<Timestamp, Fault> {
        #[derive(Deserialize)]
        struct Me {
            now: When,
        }
        Ok(self.get::<Me>(&["me"]).await?.now.0)
    }

    /// How its database is doing.
    pub(crate) async fn checks(&self) -> Result<Vec<CheckJson>, Fault> {
        Ok(self.get::<Items<CheckJson>>(&["system", "checks"]).await?.items)
    }

    pub(super) async fn run(&self, which: &Which) -> Result<RunView, Fault> {
        Ok(self.get::<RunDoc>(&["runs", &which.part()]).await?.into())
    }

    pub(super) async fn list(&self, filter: &Filter, limit: u32) -> Result<(Vec<RunView>, bool), Fault> {
        let mut request = Request::new(Method::GET, &["runs"]).with("limit", limit);
        for (name, value) in words(filter) {
            request = request.with(name, value);
        }
        let page: Items<RunDoc> = self.ask(request).await?;
        let mut views = Vec::new();
        for doc in page.items {
            // A list leaves large payloads away; the run itself has them.
            views.push(match doc.omitted.is_empty() {
                true => doc.into(),
                false => self.run(&doc.id.into()).await?,
            });
        }
        Ok((views, page.next_cursor.is_some()))
    }

    pub(super) async fn journal(&self, run: RunId, after: u32, limit: u32) -> Result<Vec<Entry>, Fault> {
        let request = Request::new(Method::GET, &["runs", &run.to_string(), "history"]);
        let request = request.with("after", after).with("limit", limit.clamp(1, 1000));
        let page: Items<EntryDoc> = self.ask(request).await?;
        Ok(page.items.into_iter().map(Entry::from).collect())
    }

    pub(super) async fn logs(
        &self,
        run: RunId,
        after: u64,
        limit: u32,
    ) -> Result<(Vec<LogLine>, u64), Fault> {
        let request = Request::new(Method::GET, &["runs", &run.to_string(), "logs"]);
        let page: LogPage =
            self.ask(request.with("after", after).with("limit", limit.clamp(1, 1000))).await?;
        Ok((page.items.into_iter().map(LogLine::from).collect(), page.next_after))
    }

    pub(super) async fn queues(&self) -> Result<Vec<QueueView>, Fault> {
        let page: Items<QueueDoc> = self.get(&["queues"]).await?;
        Ok(page.items.into_iter().map(QueueView::from).collect())
    }

    pub(super) async fn schedules(&self) -> Result<Vec<ScheduleView>, Fault> {
        let page: Items<ScheduleDoc> = self.get(&["schedules"]).await?;
        Ok(page.items.into_iter().map(ScheduleView::from).collect())
    }

    pub(super) async fn nodes(&self) -> Result<Vec<NodeView>, Fault> {
        let page: Items<NodeDoc> = self.get(&["nodes"]).await?;
        Ok(page.items.into_iter().map(NodeView::from).collect())
    }

    pub(super) async fn definitions(&self) -> Result<Vec<DefinitionCard>, Fault> {
        let page: Items<DefinitionDoc> = self.get(&["definitions"]).await?;
        Ok(page.items.into_iter().map(DefinitionCard::from).collect())
    }

    pub(super) async fn failures(&self, limit: u32) -> Result<Vec<FailureGroup>, Fault> {
        let request =
            Request::new(Method::GET, &["errors"]).with("range", "31d").with("limit", limit.min(500));
        let page: Items<FailureDoc> = self.ask(request).await?;
        Ok(page.items.into_iter().map(FailureGroup::from).collect())
    }

    pub(super) async fn known_definition(&self, name: &str) -> Result<(), Fault> {
        match self.get::<Items<DefinitionDoc>>(&["definitions", name]).await {
            // A path that leads nowhere is not found; what it names here is a definition.
            Err(fault) if fault.code() == "not_found" => {
                Err(Fault::new(fault.exit, "unknown_definition", fault.message()))
            }
            other => other.map(drop),
        }
    }

    /// Refuses what whoever asks may not do.
    pub(super) async fn may(&self, action: &str) -> Result<(), Fault> {
        #[derive(Deserialize)]
        struct Me {
            role: String,
            tenant: Option<String>,
            #[serde(default)]
            queues: Option<Vec<String>>,
        }
        let Me { role, tenant, queues } = self.get(&["me"]).await?;
        // What a role of a newer server may is that server's to say.
        let Some(role) = Role::of(&role) else { return Ok(()) };
        may(action, role, tenant, queues)
            .map_err(|problem| Fault::new(Exit::Auth, problem.code.word, problem.detail))
    }

    pub(super) async fn explain(&self, which: &Which) -> Result<Explained, Fault> {
        self.get(&["runs", &which.part(), "explain"]).await
    }

    pub(super) async fn export(&self, which: &Which) -> Result<String, Fault> {
        self.text(Request::new(Method::GET, &["runs", &which.part(), "export"])).await
    }

    pub(super) async fn start(&self, ask: StartAsk) -> Result<(RunId, bool), Fault> {
        let made: Made = self.post(&["runs"], start_body(ask)).await?;
        Ok((made.id, made.created))
    }

    pub(super) async fn plan_start(&self, ask: StartAsk) -> Result<Option<RunId>, Fault> {
        #[derive(Deserialize)]
        struct Plan {
            run: Option<RunId>,
        }
        Ok(self.post::<Plan>(&["runs"], start_body(ask).put("dry_run", &true)).await?.run)
    }

    /// Sends an event and gives its id, or settles a promise.
    pub(super) async fn message(
        &self,
        to: &Which,
        what: &str,
        name: &str,
        data: &RawValue,
        key: Option<&str>,
    ) -> Result<Option<String>, Fault> {
        #[derive(Deserialize)]
        struct Told {
            // An older server does not tell it.
            #[serde(default)]
            event: Option<String>,
        }
        let request = Request::new(Method::POST, &["runs", &to.part(), what]).body(message_body(name, data));
        let request = key.into_iter().fold(request, |request, key| request.key(key));
        Ok(self.ask::<Told>(request).await?.event)
    }

    pub(super) async fn plan_message(
        &self,
        to: &Which,
        what: &str,
        name: &str,
        data: &RawValue,
    ) -> Result<(), Fault> {
        let body = message_body(name, data).put("dry_run", &true);
        self.text(Request::new(Method::POST, &["runs", &to.part(), what]).body(body)).await.map(drop)
    }

    pub(super) async fn act(&self, run: RunId, what: &str, reason: Option<&str>) -> Result<bool, Fault> {
        let body = Body::default().maybe("reason", &reason);
        let acted: Acted = self.post(&["runs", &run.to_string(), what], body).await?;
        Ok(acted.changed)
    }

    pub(super) async fn make_due(
        &self,
        run: RunId,
        at: Option<Timestamp>,
        reason: Option<&str>,
    ) -> Result<bool, Fault> {
        let at = at.map(|at| at.to_string());
        let body = Body::default().maybe("at", &at).maybe("reason", &reason);
        Ok(self.post::<Acted>(&["runs", &run.to_string(), "due"], body).await?.changed)
    }

    pub(super) async fn delete(&self, run: RunId, reason: &str) -> Result<(), Fault> {
        let request = Request::new(Method::DELETE, &["runs", &run.to_string()]);
        self.text(request.with("reason", reason)).await.map(drop)
    }

    pub(super) async fn repair(&self, run: RunId, ask: &RepairAsk) -> Result<bool, Fault> {
        let (what, body) = repair_body(ask);
        Ok(self.post::<Acted>(&["runs", &run.to_string(), what], body).await?.changed)
    }

    pub(super) async fn plan_repair(&self, run: RunId, ask: &RepairAsk) -> Result<RepairPlan, Fault> {
        let (what, body) = repair_body(ask);
        self.post(&["runs", &run.to_string(), what], body.put("dry_run", &true)).await
    }

    pub(super) async fn fork(&self, run: RunId, ask: &ForkAsk) -> Result<RunId, Fault> {
        Ok(self.post::<Made>(&["runs", &run.to_string(), "fork"], fork_body(ask)).await?.id)
    }

    pub(super) async fn plan_fork(&self, run: RunId, ask: &ForkAsk) -> Result<RepairPlan, Fault> {
        self.post(&["runs", &run.to_string(), "fork"], fork_body(ask).put("dry_run", &true)).await
    }

    pub(super) async fn queue(&self, name: &str) -> Result<QueueCard, Fault> {
        Ok(QueueView::from(self.get::<QueueDoc>(&["queues", name]).await?).queue)
    }

    pub(super) async fn change_queue(
        &self,
        name: &str,
        what: &str,
        reason: Option<&str>,
    ) -> Result<QueueCard, Fault> {
        let doc: QueueDoc =
            self.post(&["queues", name, what], Body::default().maybe("reason", &reason)).await?;
        Ok(QueueView::from(doc).queue)
    }

    pub(super) async fn set_queue_rules(
        &self,
        name: &str,
        rules: Option<QueueRules>,
    ) -> Result<QueueCard, Fault> {
        let path = ["queues", name, "limits"];
        let request = match rules {
            None => Request::new(Method::DELETE, &path),
            Some(rules) => Request::new(Method::PUT, &path).body(rules_body(&rules)),
        };
        Ok(QueueView::from(self.ask::<QueueDoc>(request).await?).queue)
    }

    pub(super) async fn set_schedule(&self, ask: ScheduleAsk) -> Result<ScheduleView, Fault> {
        #[derive(Deserialize)]
        struct Set {
            schedule: ScheduleDoc,
        }
        let request = Request::new(Method::PUT, &["schedules", &ask.name]).body(schedule_body(&ask));
        Ok(self.ask::<Set>(request).await?.schedule.into())
    }

    pub(super) async fn plan_schedule(&self, ask: ScheduleAsk) -> Result<(), Fault> {
        let body = schedule_body(&ask).put("dry_run", &true);
        self.text(Request::new(Method::PUT, &["schedules", &ask.name]).body(body)).await.map(drop)
    }

    pub(super) async fn change_schedule(
        &self,
        name: &str,
        what: &str,
        reason: Option<&str>,
    ) -> Result<ScheduleView, Fault> {
        let doc: ScheduleDoc =
            self.post(&["schedules", name, what], Body::default().maybe("reason", &reason)).await?;
        Ok(doc.into())
    }

    pub(super) async fn trigger_schedule(&self, name: &str, reason: Option<&str>) -> Result<RunId, Fault> {
        let made: Made =
            self.post(&["schedules", name, "trigger"], Body::default().maybe("reason", &reason)).await?;
        Ok(made.id)
    }

    pub(super) async fn delete_schedule(&self, name: &str) -> Result<(), Fault> {
        self.text(Request::new(Method::DELETE, &["schedules", name])).await.map(drop)
    }

    pub(super) async fn backfill(
        &self,
        name: &str,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<RunId>, Fault> {
        #[derive(Deserialize)]
        struct Backfilled {
            started: Vec<RunId>,
        }
        let body = Body::default().put("from", &from.to_string()).put("to", &to.to_string());
        Ok(self.post::<Backfilled>(&["schedules", name, "backfill"], body).await?.started)
    }

    pub(super) async fn preview(&self, ask: &BulkAsk) -> Result<Preview, Fault> {
        self.post(&["bulk"], bulk_body(ask)?.put("dry_run", &true)).await
    }

    pub(super) async fn bulk(&self, ask: &BulkAsk) -> Result<RunId, Fault> {
        Ok(self.post::<Made>(&["bulk"], bulk_body(ask)?).await?.id)
    }

    pub(super) async fn bulk_report(&self, run: RunId) -> Result<BulkReport, Fault> {
        self.get(&["bulk", &run.to_string()]).await
    }

    pub(super) async fn audit(&self, target: Option<String>, limit: u32) -> Result<Vec<AuditJson>, Fault> {
        let request = Request::new(Method::GET, &["audit"]).with("limit", limit);
        let request = target.into_iter().fold(request, |request, target| request.with("target", target));
        Ok(self.ask::<Items<AuditJson>>(request).await?.items)
    }

    pub(super) async fn look_at_chain(
        &self,
        after: Option<&Link>,
        known: Option<&Link>,
    ) -> Result<ChainJson, Fault> {
        let mut request = Request::new(Method::GET, &["audit", "verify"]);
        for (name, link) in [("after", after), ("known", known)] {
            if let Some(link) = link {
                request = request.with(name, write_link(link));
            }
        }
        self.ask(request).await
    }

    pub(super) async fn tokens(&self) -> Result<Vec<TokenView>, Fault> {
        let page: Items<TokenDoc> = self.get(&["tokens"]).await?;
        Ok(page.items.into_iter().map(TokenView::from).collect())
    }

    pub(super) async fn create_token(&self, ask: TokenAsk) -> Result<MadeToken, Fault> {
        let is_first = self.tokens().await?.is_empty();
        let age = Some(ask.age).filter(|age| *age != DEFAULT_AGE);
        let body = Body::default()
            .put("subject", &ask.subject)
            .put("role", ask.role.word())
            .maybe("tenant", &ask.tenant)
            .maybe("queues", &ask.queues)
            .maybe("age_ms", &age.map(millis));
        // A secret is answered once: this request is not repeated.
        let request = Request::new(Method::POST, &["tokens"]).body(body).once();
        let mut doc: TokenDoc = self.ask(request).await?;
        let secret = doc.secret.take().unwrap_or_default();
        Ok(MadeToken { view: doc.into(), secret, is_first })
    }

    pub(super) async fn revoke_token(&self, name: &str) -> Result<Option<TokenView>, Fault> {
        match self.ask::<TokenDoc>(Request::new(Method::DELETE, &["tokens", name])).await {
            Ok(doc) => Ok(Some(doc.into())),
            Err(fault) if fault.code() == "not_found" => Ok(None),
            Err(fault) => Err(fault),
        }
    }
}

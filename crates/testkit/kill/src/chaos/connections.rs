//! What is done to connections alone: ended, refused, or led through a pooler.

use std::time::Duration;

use anyhow::{Context, Result};
use outlast_cluster::Pooler;
use tokio_postgres::{NoTls, SimpleQueryMessage};

use super::database::Admin;
use super::stage::Stage;

/// How long nobody gets a connection, at a time.
const REFUSED_FOR: Duration = Duration::from_secs(4);

/// What PostgreSQL says to whoever comes when all places are taken.
const TOO_MANY: &str = "(53300)";

/// What every node says once it has found a pooler, and does without what none passes on.
const POOLER_SEEN: &str = "a transaction pooler stands before PostgreSQL: statements stay unnamed";

impl Stage {
    /// Five connections in a second, whosever they are.
    pub(super) async fn end_connections(&mut self) -> Result<()> {
        const END: &str = "select pg_terminate_backend(pid) from pg_stat_activity
                            where application_name = 'outlast' order by random() limit 1";
        let admin = Admin::of(self.server()?).await?;
        while self.goes_on() {
            self.hits += admin.client.query(END, &[]).await?.len() as u64;
            self.wait(Duration::from_millis(200)).await;
        }
        Ok(())
    }

    /// Those that listen, as soon as they do.
    pub(super) async fn end_listeners(&mut self) -> Result<()> {
        const END: &str = "select pg_terminate_backend(pid) from pg_stat_activity
                            where application_name = 'outlast' and query = 'listen outlast'";
        let admin = Admin::of(self.server()?).await?;
        let ends = self.watch.ends()?;
        while self.goes_on() {
            self.hits += admin.client.query(END, &[]).await?.len() as u64;
            self.wait(Duration::from_millis(50)).await;
        }
        let ended = self.watch.ends()? - ends;
        self.number("bodies_meanwhile", ended);
        if ended == 0 {
            self.wrong("nothing got on while nobody listened");
        }
        Ok(())
    }

    /// All places are taken by others, and our own connections are ended: there are no new ones for a while.
    pub(super) async fn too_many_connections(&mut self) -> Result<()> {
        const END: &str = "select count(pg_terminate_backend(pid)) from pg_stat_activity
                            where application_name = 'outlast'";
        let admin = Admin::of(self.server()?).await?;
        let mut recoveries = Vec::new();
        while self.goes_on() {
            let mut holders = Vec::new();
            let until = tokio::time::Instant::now() + REFUSED_FOR;
            while tokio::time::Instant::now() < until {
                admin.client.query(END, &[]).await?;
                // Faster than all others together: what is free is ours.
                while let Ok(holder) = Admin::of(self.server()?).await {
                    holders.push(holder);
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            self.number("idle_holders", holders.len());
            drop(holders);
            recoveries.push(self.recovery().await?);
            self.wait(Duration::from_secs(2)).await;
        }
        self.number("recovery_ms", super::stage::most_ms(&recoveries));
        // Not what we were refused ourselves, but what nodes and client were.
        let nodes = self.nodes.iter().map(|node| node.said(&self.scene.folder));
        let refused: usize = nodes.map(|said| said.matches(TOO_MANY).count()).sum();
        self.number("nodes_refused", refused);
        if refused == 0 {
            self.wrong("no node was refused a connection: this proves nothing");
        }
        self.hits = refused as u64 + self.scene.log.answers_with(TOO_MANY);
        Ok(())
    }

    /// Everything goes through a pooler, under load as long as the fault goes on, while server connections are ended.
    pub(super) async fn through_pooler(&mut self) -> Result<()> {
        self.end_connections().await?;
        let url = self.pooler.as_ref().context("there is no pooler")?.url("/pgbouncer");
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await?;
        tokio::spawn(async move { drop(connection.await) });
        let told = client.simple_query("show stats_totals").await?;
        let count = |message: &SimpleQueryMessage| match message {
            SimpleQueryMessage::Row(row) if row.get("database") != Some("pgbouncer") => {
                row.get("xact_count")?.parse::<u64>().ok()
            }
            _ => None,
        };
        let transactions: u64 = told.iter().filter_map(count).sum();
        self.number("transactions", transactions);
        if transactions == 0 {
            self.wrong("no transaction went through the pooler: this proves nothing");
        }
        self.number("pooler", Pooler::version()?.replace(' ', "_"));
        for node in 0..self.nodes.len() {
            let node = &self.nodes[node];
            if !node.said(&self.scene.folder).contains(POOLER_SEEN) {
                let number = node.number;
                self.wrong(format!("node {number} did not say that a pooler stands in between"));
            }
        }
        Ok(())
    }
}

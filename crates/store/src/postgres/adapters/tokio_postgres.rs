//! Transactions of tokio-postgres: flights are pipelined, statements unnamed.

use async_trait::async_trait;
use outlast_core::Error;
use tokio_postgres::{Client, Transaction};

use super::super::error::meaning;
use super::super::tx::{Ask, pipeline};
use super::{Wire, perform, users_meaning};
use crate::adapters::{Adapter, Verb};
use crate::{DynStore, Row, StoreError};

impl Adapter for &Transaction<'_> {
    async fn perform<V: Verb + ?Sized>(
        self,
        store: &DynStore,
        verb: &V,
        notify: bool,
    ) -> Result<V::Answer, Error> {
        Ok(perform(Borrowed(self.client()), &**store, verb, notify).await?)
    }
}

struct Borrowed<'t>(&'t Client);

#[async_trait]
impl Wire for Borrowed<'_> {
    async fn exchange(&mut self, asks: &[Ask]) -> Result<Vec<Vec<Row>>, StoreError> {
        let requests = asks.iter().map(|ask| ask.request(self.0, None)).collect();
        let answers = pipeline(requests).await.into_iter().map(|answer| {
            let said = answer.map_err(|error| match error.as_db_error() {
                Some(said) => users_meaning(said.code(), said.message()),
                None => meaning(&error),
            });
            said?.rows()
        });
        // The first error is the cause of all that follow.
        answers.collect()
    }
}

//! Builds the flights of a transition: statements go in, each one's rows are asked for by its place.

use crate::{Call, Cell, Row, Sql, StoreError, Tx};

/// Statements that travel together.
#[derive(Default)]
pub(crate) struct Flight(Vec<Call>);

/// Where a statement stands in its flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place(usize);

/// The rows that the statements of a flight gave.
pub(crate) struct Answers(Vec<Vec<Row>>);

impl Flight {
    /// Adds a statement.
    pub(crate) fn add(&mut self, call: Call) -> Place {
        self.0.push(call);
        Place(self.0.len() - 1)
    }

    /// Adds a statement for a batch of rows; without rows there is nothing to do.
    pub(crate) fn each(
        &mut self,
        sql: &'static Sql,
        rows: Vec<Vec<Cell>>,
        params: Vec<Cell>,
    ) -> Option<Place> {
        (!rows.is_empty()).then(|| self.add(sql.each(rows, params)))
    }

    /// Sends them; the transaction goes on.
    pub(crate) async fn send(self, tx: &mut dyn Tx) -> Result<Answers, StoreError> {
        tx.flight(self.0).await.map(Answers)
    }

    /// Sends them as the last of the transaction.
    pub(crate) async fn send_last(self, tx: &mut dyn Tx) -> Result<Answers, StoreError> {
        tx.last_flight(self.0).await.map(Answers)
    }
}

impl Answers {
    /// The rows of a statement, once.
    pub(crate) fn take(&mut self, place: Place) -> Vec<Row> {
        self.0.get_mut(place.0).map(std::mem::take).unwrap_or_default()
    }

    /// The rows of a statement that may not have been sent, once.
    pub(crate) fn take_any(&mut self, place: Option<Place>) -> Vec<Row> {
        place.map(|place| self.take(place)).unwrap_or_default()
    }
}

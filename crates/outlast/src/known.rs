//! What a client knows of code: whether it takes an input, said before a node finds out.

use std::sync::Arc;

use outlast_core::{Error, Payload};
use outlast_store::{DefinitionCard, RunView, code};

use crate::Client;
use crate::registry::Registered;

impl Client {
    /// Refuses an input that is not of the definition's type, where this process has the code of it: as a node, or as a
    /// client that was made with it and has the very build that a node has told of.
    pub(crate) fn check_input(&self, card: &DefinitionCard, input: &Payload) -> Result<(), Error> {
        self.known(card).map_or(Ok(()), |definition| definition.check_input(input))
    }

    /// The same for a run that is there, with this version of the code.
    pub(crate) async fn check_input_of(
        &self,
        view: &RunView,
        version: u32,
        input: &Payload,
    ) -> Result<(), Error> {
        let (name, code) = (&view.record.definition, code(&view.record.definition, version));
        if let Some(definition) = self.engine().and_then(|engine| engine.registry.get(&code)) {
            return definition.check_input(input);
        }
        // Most clients have no code, and ask nobody.
        if self.code().get(&code).is_none() {
            return Ok(());
        }
        let cards = self.definitions().await?;
        let card = cards.iter().find(|card| card.name == *name && card.version == version);
        card.map_or(Ok(()), |card| self.check_input(card, input))
    }

    fn known(&self, card: &DefinitionCard) -> Option<Arc<Registered>> {
        let code = code(&card.name, card.version);
        let runs_here = self.engine().and_then(|engine| engine.registry.get(&code));
        // Another program may call something else by the same name.
        let same = || self.code().get(&code).filter(|known| known.signature == card.signature);
        runs_here.or_else(same)
    }
}

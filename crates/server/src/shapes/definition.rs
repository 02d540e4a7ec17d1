//! A definition, as a node told of it.

use outlast::DefinitionCard;
use outlast_store::RunKind;
use serde::Serialize;
use utoipa::ToSchema;

/// A definition.
#[derive(Serialize, ToSchema)]
#[schema(as = Definition)]
pub(crate) struct DefinitionJson {
    pub(crate) name: String,
    version: u32,
    #[schema(value_type = String)]
    kind: &'static str,
    active: bool,
    queue: String,
    priority: u8,
    /// Retries, timeouts and the like, as its code says them.
    options: serde_json::Value,
}

impl DefinitionJson {
    pub(crate) fn new(card: &DefinitionCard) -> DefinitionJson {
        DefinitionJson {
            name: card.name.clone(),
            version: card.version,
            kind: kind(card),
            active: card.active,
            queue: card.queue.clone(),
            priority: card.priority,
            options: serde_json::from_str(&card.options).unwrap_or_default(),
        }
    }
}

/// The word for what a definition is.
pub(crate) fn kind(card: &DefinitionCard) -> &'static str {
    match card.kind {
        RunKind::Workflow => "workflow",
        RunKind::Job => "job",
    }
}

//! What all share: nodes and definitions.

use outlast::DefinitionCard;
use serde::Serialize;
use utoipa::ToSchema;

use super::body::nearest;
use super::code::Code;
use super::problem::Problem;
use super::route::{Answer, Call, Reply};
use crate::shapes::{DefinitionJson, NodeJson};

/// The nodes that are up.
#[derive(Serialize, ToSchema)]
pub(crate) struct NodePage {
    items: Vec<NodeJson>,
}

/// What nodes know how to run.
#[derive(Serialize, ToSchema)]
pub(crate) struct DefinitionPage {
    items: Vec<DefinitionJson>,
}

pub(crate) async fn nodes(call: Call) -> Answer {
    let nodes = call.api.client.nodes().await?;
    Reply::json(&NodePage { items: nodes.iter().map(NodeJson::new).collect() })
}

pub(crate) async fn definitions(call: Call) -> Answer {
    let cards = call.api.client.definitions().await?;
    Reply::json(&DefinitionPage { items: cards.iter().map(DefinitionJson::new).collect() })
}

/// All versions of one.
pub(crate) async fn definition(call: Call) -> Answer {
    let name = call.part("name");
    let cards = call.api.client.definitions().await?;
    let names: Vec<&str> = cards.iter().map(|card| card.name.as_str()).collect();
    let versions: Vec<&DefinitionCard> = cards.iter().filter(|card| card.name == name).collect();
    if versions.is_empty() {
        let detail = format!("no workflow or job is called {name:?}{}", nearest(name, &names));
        return Err(Problem::new(Code::NOT_FOUND, detail));
    }
    Reply::json(&DefinitionPage { items: versions.into_iter().map(DefinitionJson::new).collect() })
}

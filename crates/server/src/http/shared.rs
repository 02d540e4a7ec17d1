//! What all share: nodes and definitions, and what filters can be followed by.

use outlast::DefinitionCard;
use serde::Serialize;
use utoipa::ToSchema;

use super::body::nearest;
use super::code::Code;
use super::problem::Problem;
use super::query::{Param, text};
use super::reply::{Answer, Reply};
use super::route::Call;
use crate::shapes::{DefinitionJson, LostNodeJson, NodeJson};

/// The nodes that are up.
#[derive(Serialize, ToSchema)]
pub(crate) struct NodePage {
    items: Vec<NodeJson>,
}

/// The nodes that were lost in the last day.
#[derive(Serialize, ToSchema)]
pub(crate) struct LostNodePage {
    items: Vec<LostNodeJson>,
}

/// What nodes know how to run.
#[derive(Serialize, ToSchema)]
pub(crate) struct DefinitionPage {
    items: Vec<DefinitionJson>,
}

/// Words that could follow.
#[derive(Serialize, ToSchema)]
pub(crate) struct Suggestions {
    items: Vec<String>,
}

pub(crate) const SUGGEST: &[Param] =
    &[text("field", "Of what: status, def or queue"), text("q", "How they begin")];

/// What a filter's field can be followed by.
pub(crate) async fn suggest(call: Call) -> Answer {
    let mut items: Vec<String> = match call.query.one("field") {
        Some("status") => outlast::Status::ALL.iter().map(|status| status.word().to_owned()).collect(),
        Some("def") => cards(&call).await?.into_iter().map(|card| card.name).collect(),
        Some("queue") if call.caller.queues.is_some() => call.caller.queue_names(),
        Some("queue") => cards(&call).await?.into_iter().map(|card| card.queue).collect(),
        other => {
            let detail = format!("field is status, def or queue, not {:?}", other.unwrap_or_default());
            return Err(Problem::new(Code::INVALID_ARGUMENT, detail));
        }
    };
    let begin = call.query.one("q").unwrap_or_default();
    items.retain(|item| item.starts_with(begin));
    items.sort();
    items.dedup();
    items.truncate(50);
    Reply::json(&Suggestions { items })
}

pub(crate) async fn nodes(call: Call) -> Answer {
    let nodes = call.api.client.nodes().await?;
    Reply::json(&NodePage { items: nodes.iter().map(NodeJson::new).collect() })
}

/// Those that others took over from.
pub(crate) async fn lost_nodes(call: Call) -> Answer {
    let nodes = call.api.client.lost_nodes().await?;
    Reply::json(&LostNodePage { items: nodes.into_iter().map(LostNodeJson::new).collect() })
}

/// What nodes know how to run; for whoever is bound to queues, what is run in those unless said otherwise.
async fn cards(call: &Call) -> Result<Vec<DefinitionCard>, Problem> {
    let mut cards = call.api.client.definitions().await?;
    cards.retain(|card| call.caller.sees_queue(&card.queue));
    Ok(cards)
}

pub(crate) async fn definitions(call: Call) -> Answer {
    let cards = cards(&call).await?;
    Reply::json(&DefinitionPage { items: cards.iter().map(DefinitionJson::new).collect() })
}

/// All versions of one. Whoever knows its name may start it in any queue that is theirs.
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

//! Nodes that are up, and those that were lost.

use outlast::{LostNode, NodeView};
use serde::Serialize;
use utoipa::ToSchema;

use crate::when::When;

/// A node.
#[derive(Serialize, ToSchema)]
#[schema(as = Node)]
pub(crate) struct NodeJson {
    pub(crate) id: String,
    name: String,
    host: String,
    pid: u32,
    joined_at: When,
    lease_until: When,
    holds: u64,
    /// The queues that it takes from; none: it may take from all.
    queues: Vec<String>,
    /// The code that it knows: `order@2`.
    codes: Vec<String>,
    /// How many runs it takes at once; 0 where it does not say.
    slots: u32,
    /// What it says of itself: `version`, `language`, `target`, `build`, `lease_ms`, `retention_ms`.
    about: serde_json::Value,
}

/// A node that said nothing any more.
#[derive(Serialize, ToSchema)]
#[schema(as = LostNode)]
pub(crate) struct LostNodeJson {
    id: String,
    name: String,
    host: String,
    pid: u32,
    joined_at: When,
    lost_at: When,
    /// How many runs others took over from it.
    freed: u64,
}

impl LostNodeJson {
    pub(crate) fn new(node: LostNode) -> LostNodeJson {
        let LostNode { id, name, host, pid, joined_at, lost_at, freed } = node;
        let (id, joined_at, lost_at) = (id.to_string(), When(joined_at), When(lost_at));
        LostNodeJson { id, name, host, pid, joined_at, lost_at, freed }
    }
}

impl NodeJson {
    pub(crate) fn new(node: &NodeView) -> NodeJson {
        NodeJson {
            id: node.id.to_string(),
            name: node.name.clone(),
            host: node.host.clone(),
            pid: node.pid,
            joined_at: When(node.joined_at),
            lease_until: When(node.lease_until),
            holds: node.holds,
            queues: node.queues.clone(),
            codes: node.codes.clone(),
            slots: node.slots,
            about: serde_json::from_str(&node.about).unwrap_or_else(|_| serde_json::json!({})),
        }
    }
}

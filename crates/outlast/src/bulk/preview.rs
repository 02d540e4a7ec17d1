//! What a bulk would do, run by run: nothing is changed.

use outlast_core::{Error, RunId, Status};
use outlast_store::RunView;
use serde::{Deserialize, Serialize};

use super::BulkAsk;
use super::named::{Behind, page};
use super::op::What;
use crate::Client;
use crate::client::repeated;
use crate::registry::is_built_in;

/// How many runs are told of one by one.
const LISTED: usize = 500;
/// How many are looked at: whoever has more is told that there are more.
pub(super) const COUNTED: u64 = 10_000;
/// How many are looked at at once.
const PAGE: u32 = 500;

/// What a bulk would do: see [`BulkCall::preview`](crate::BulkCall::preview).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preview {
    /// The first five hundred, oldest first, with what would happen to each. There are more where `acts` and `stays` say so.
    pub runs: Vec<Planned>,
    /// To how many something would happen: of those that are not listed, to how many it may.
    pub acts: u64,
    /// How many would stay as they are.
    pub stays: u64,
    /// Whether that is all: only the first 10,000 that fit are counted.
    pub is_all: bool,
}

/// What would happen to a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planned {
    /// The run.
    pub run: RunId,
    /// Its definition.
    pub definition: String,
    /// Its key.
    pub key: Option<String>,
    /// Where it stands.
    pub status: Status,
    /// What would happen.
    pub does: What,
}

/// Goes through the runs that a bulk would go through.
pub(super) async fn preview(client: &Client, ask: &BulkAsk) -> Result<Preview, Error> {
    let cards = repeated(|| client.store().definitions()).await?;
    let mut preview = Preview { runs: Vec::new(), acts: 0, stays: 0, is_all: true };
    let mut behind = Behind::default();
    loop {
        let page = page(client, ask, &ask.filter, behind, PAGE).await?;
        for view in page.views.iter().filter(|view| !is_built_in(&view.record.definition)) {
            let acts = if preview.runs.len() < LISTED {
                let does = ask.op.plan(client, view, &cards).await?;
                let acts = does.acts();
                preview.runs.push(planned(view, does));
                acts
            } else {
                ask.op.refuses(view).is_none()
            };
            match acts {
                true => preview.acts += 1,
                false => preview.stays += 1,
            }
        }
        let Some(next) = page.next else { return Ok(preview) };
        behind = next;
        if preview.acts + preview.stays >= COUNTED {
            preview.is_all = false;
            return Ok(preview);
        }
    }
}

fn planned(view: &RunView, does: What) -> Planned {
    let record = &view.record;
    Planned {
        run: record.id,
        definition: record.definition.clone(),
        key: record.key.clone(),
        status: view.status,
        does,
    }
}

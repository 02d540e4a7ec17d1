//! Values as runs record them.

use std::any::type_name;

use outlast_core::{Error, Limits, Payload, Timestamp};
use outlast_store::{KvChange, KvEntry as Kept, KvPage as KeptPage};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// How many levels a value is nested in where a run records it.
const LEVELS: usize = 3;

/// A value as a run records it.
#[derive(Serialize, Deserialize)]
pub(super) struct Recorded {
    /// Where a page has many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    version: i64,
    expires_at: Option<Timestamp>,
    updated_at: Timestamp,
    value: Box<RawValue>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct RecordedPage {
    entries: Vec<Recorded>,
    next: Option<String>,
}

impl Recorded {
    pub(super) fn new(kept: Kept) -> Result<Recorded, Error> {
        let value = kept.value.decode(format_args!("the value of {:?}", kept.key))?;
        let Kept { version, expires_at, updated_at, .. } = kept;
        Ok(Recorded { key: None, version, expires_at, updated_at, value })
    }

    pub(super) fn into_kept(self, key: String) -> Kept {
        let Recorded { version, expires_at, updated_at, value, .. } = self;
        let value = Payload { codec: None, bytes: String::from(Box::<str>::from(value)).into() };
        Kept { key, version, value, expires_at, updated_at }
    }
}

impl RecordedPage {
    pub(super) fn new(page: KeptPage) -> Result<RecordedPage, Error> {
        let with_key = |kept: Kept| Ok(Recorded { key: Some(kept.key.clone()), ..Recorded::new(kept)? });
        let entries = page.entries.into_iter().map(with_key).collect::<Result<_, Error>>()?;
        Ok(RecordedPage { entries, next: page.next })
    }

    pub(super) fn into_kept(self) -> KeptPage {
        let kept = |mut recorded: Recorded| {
            let key = recorded.key.take().unwrap_or_default();
            recorded.into_kept(key)
        };
        KeptPage { entries: self.entries.into_iter().map(kept).collect(), next: self.next }
    }
}

/// What a value is set to. What can be set here can be recorded by any run that reads it, alone or in a page.
pub(super) fn setting<T: Serialize + ?Sized>(
    key: &str,
    value: &T,
    limits: &Limits,
) -> Result<KvChange, Error> {
    let what = format!("the value of {key:?}");
    let payload = Payload::encode(&what, value, limits)?;
    let time = Timestamp::MAX;
    let kept = Kept {
        key: key.to_owned(),
        version: i64::MAX,
        value: payload.clone(),
        expires_at: Some(time),
        updated_at: time,
    };
    let page = RecordedPage::new(KeptPage { entries: vec![kept], next: Some(key.to_owned()) })?;
    match Payload::encode(&what, &page, limits) {
        Err(Error::Invalid { what, .. }) => {
            let remedy = format!("at most {} levels of nesting", Limits::DEPTH - LEVELS);
            Err(Error::Invalid { what, value: type_name::<T>().into(), remedy })
        }
        recorded => recorded.map(|_| KvChange::Set { value: payload, ttl: None }),
    }
}

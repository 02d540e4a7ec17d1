//! Runs that are the only ones of their kind: unique, debounced, throttled.

use std::time::Duration;

use outlast_core::{Error, Payload, check_key};
use outlast_store::{Clash, Scope};
use uuid::Uuid;

use crate::definition::check_duration;

/// Says that a run is the only one of its kind: given to [`Start::unique`](crate::Start::unique).
///
/// A kind is a tenant, a definition and either a key or the arguments. Without more a run is the only one until it has
/// ended, and whoever starts another is given the one that is there.
///
/// ```
/// use outlast::prelude::*;
/// Unique::by_args();                                  // one at a time with these arguments
/// Unique::by_key("welcome:42").within(24.hours());    // one in 24 hours, whatever becomes of it
/// Unique::by_args().refuse();                         // another is an error
/// Unique::by_key("doc:7").replace();                  // another replaces one that has not begun
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unique {
    by: By,
    scope: Scope,
    clash: Clash,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum By {
    Args,
    Key(String),
}

impl Unique {
    /// Of those with the same arguments.
    pub fn by_args() -> Unique {
        Unique { by: By::Args, scope: Scope::Unfinished, clash: Clash::Return }
    }

    /// Of those with this key: letters, digits and `.`, `_`, `:`, `-`.
    pub fn by_key(key: impl Into<String>) -> Unique {
        Unique { by: By::Key(key.into()), ..Unique::by_args() }
    }

    /// For this long from its start, whatever becomes of it, instead of until it has ended.
    pub fn within(mut self, period: Duration) -> Unique {
        self.scope = Scope::For(period);
        self
    }

    /// Until it begins, instead of until it has ended; however often it is replaced, it is due `at_most` so long after
    /// it was started.
    pub(crate) fn until_begun(mut self, at_most: Option<Duration>) -> Unique {
        self.scope = Scope::NotBegun { at_most };
        self
    }

    /// Another is refused with [`Error::AlreadyExists`].
    pub fn refuse(mut self) -> Unique {
        self.clash = Clash::Refuse;
        self
    }

    /// The input, time, priority, owner, roles, trace and tags of another replace those of the one that is there, if that
    /// has not begun: it acts for whoever gave its input. One that
    /// has is left as it is.
    pub fn replace(mut self) -> Unique {
        self.clash = Clash::Replace;
        self
    }

    /// As the store has it, for a run with this input.
    pub(crate) fn of(self, input: &Payload) -> Result<outlast_store::Unique, Error> {
        let periods = match self.scope {
            Scope::For(period) => Some(period),
            Scope::NotBegun { at_most } => at_most,
            Scope::Unfinished => None,
        };
        if let Some(period) = periods {
            check_duration("period", period)?;
            if period.is_zero() {
                return Err(Error::invalid("period", "0", "longer than nothing"));
            }
        }
        let key = match self.by {
            By::Key(key) => check_key(&key).map(str::to_owned)?,
            By::Args => {
                // By what they say: callers without the code, and maps, have their members in any order.
                let text = input.canonical();
                let bytes = text.as_ref().map_or(&*input.bytes, |text| text.as_bytes());
                let codec = input.codec.as_deref().unwrap_or_default().as_bytes();
                let name = [codec, &[0], bytes].concat();
                format!("args:{}", Uuid::new_v5(&Uuid::NAMESPACE_OID, &name).simple())
            }
        };
        Ok(outlast_store::Unique { key, scope: self.scope, clash: self.clash })
    }
}

#[cfg(test)]
mod tests {
    use outlast_core::DurationExt;

    use super::*;

    fn json(text: &'static str) -> Payload {
        Payload { codec: None, bytes: text.into() }
    }

    #[test]
    fn arguments_are_told_apart_by_what_they_say() {
        let key = |text| Unique::by_args().of(&json(text)).unwrap().key;
        assert_eq!(key(r#"{"a":1,"b":[2]}"#), key(r#"{ "b": [2], "a": 1 }"#));
        assert_ne!(key(r#"{"a":1}"#), key(r#"{"a":2}"#));
        assert!(check_key(&key("1")).is_ok());
    }

    #[test]
    fn a_period_of_nothing_and_a_strange_key_are_refused() {
        assert!(Unique::by_args().within(0.seconds()).of(&json("1")).is_err());
        assert!(Unique::by_key("a b").of(&json("1")).is_err());
        assert!(Unique::by_key("a").within(Duration::from_secs(200 * 366 * 86_400)).of(&json("1")).is_err());
    }
}

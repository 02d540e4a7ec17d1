//! Names of runs and nodes.
//!
//! A run's id is a version 7 UUID whose twelve free bits hold the run's shard, so that whoever
//! has the id knows where the run lives, without a look-up.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

use crate::{Error, Timestamp};

/// How many shards a schema has: fixed when it is created, one by default.
pub type ShardCount = u16;

/// The name of one run, for ever. Shown as `run_` and 26 letters and digits.
///
/// ```
/// use outlast_core::{RunId, Timestamp};
/// let id = RunId::new(3, Timestamp::from_micros(1_000_000), 42);
/// assert_eq!(id.shard(), 3);
/// assert_eq!(id.to_string().parse::<RunId>().unwrap(), id);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(Uuid);

impl RunId {
    /// The most shards an id can name.
    pub const MAX_SHARDS: ShardCount = 4096;

    /// An id in `shard`, made of a time (for locality in the index) and randomness.
    pub fn new(shard: u16, time: Timestamp, random: u64) -> RunId {
        let millis = (time.micros() / 1000) as u64 & 0xffff_ffff_ffff;
        let high = (millis << 16) | 0x7000 | u64::from(shard & 0x0fff);
        let low = (random & 0x3fff_ffff_ffff_ffff) | 0x8000_0000_0000_0000;
        RunId(Uuid::from_u64_pair(high, low))
    }

    /// The shard in which the run lives.
    pub fn shard(self) -> u16 {
        let (high, _) = self.0.as_u64_pair();
        (high & 0x0fff) as u16
    }

    /// The id as a UUID, as the database keeps it.
    pub fn uuid(self) -> Uuid {
        self.0
    }

    /// An id read from the database.
    pub fn from_uuid(uuid: Uuid) -> RunId {
        RunId(uuid)
    }
}

/// The shard of a keyed run, limit or schedule: the same on every node and for ever.
pub fn shard_of_key(tenant: &str, definition: &str, key: &str, shards: ShardCount) -> u16 {
    // FNV-1a: stable across versions and platforms, which std's hasher does not promise.
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for part in [tenant, definition, key] {
        for byte in part.bytes().chain([0]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    // The low bits of FNV are weak on short input: fold the high half in.
    ((hash ^ (hash >> 32)) % u64::from(shards.max(1))) as u16
}

const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const PREFIX: &str = "run_";

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.0.as_u128();
        let mut text = [0u8; 26];
        for (place, digit) in text.iter_mut().rev().enumerate() {
            *digit = DIGITS[(value >> (5 * place)) as usize & 31];
        }
        f.write_str(PREFIX)?;
        text.iter().try_for_each(|digit| fmt::Write::write_char(f, char::from(*digit)))
    }
}

impl fmt::Debug for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for RunId {
    type Err = Error;

    /// Reads `run_…` as shown, or a plain UUID.
    fn from_str(text: &str) -> Result<RunId, Error> {
        let wrong = || Error::invalid("run id", text, "it looks like run_ and 26 letters and digits");
        let Some(digits) = text.strip_prefix(PREFIX) else {
            return Uuid::parse_str(text).map(RunId).map_err(|_| wrong());
        };
        if digits.len() != 26 {
            return Err(wrong());
        }
        let mut value: u128 = 0;
        for byte in digits.bytes() {
            let digit = DIGITS.iter().position(|d| *d == byte.to_ascii_lowercase()).ok_or_else(wrong)?;
            value = value.checked_mul(32).ok_or_else(wrong)? | digit as u128;
        }
        Ok(RunId(Uuid::from_u128(value)))
    }
}

impl Serialize for RunId {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for RunId {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<RunId, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// The name of one node: one start of one process. A restart is another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(Uuid);

impl NodeId {
    /// A new name made of randomness.
    pub fn new(random: u128) -> NodeId {
        NodeId(Uuid::from_u128(random))
    }

    /// The name as the database keeps it.
    pub fn uuid(self) -> Uuid {
        self.0
    }

    /// A name read from the database.
    pub fn from_uuid(uuid: Uuid) -> NodeId {
        NodeId(uuid)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node_{}", self.0.simple())
    }
}

impl FromStr for NodeId {
    type Err = Error;

    fn from_str(text: &str) -> Result<NodeId, Error> {
        let digits = text.strip_prefix("node_").and_then(|digits| Uuid::parse_str(digits).ok());
        digits.map(NodeId).ok_or_else(|| Error::invalid("node id", text, "it looks like node_ and 32 digits"))
    }
}

impl Serialize for NodeId {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for NodeId {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<NodeId, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_carries_its_shard_and_survives_text() {
        for shard in [0, 1, 5, 4095] {
            let id = RunId::new(shard, Timestamp::from_micros(1_800_000_000_000_000), u64::MAX);
            assert_eq!(id.shard(), shard);
            assert_eq!(id.to_string().parse::<RunId>().unwrap(), id);
            assert_eq!(id.uuid().to_string().parse::<RunId>().unwrap(), id);
            assert_eq!(id.uuid().get_version_num(), 7);
        }
    }

    #[test]
    fn text_that_is_no_id_is_refused_with_its_shape() {
        for text in
            ["", "run_", "run_!", "run_01jzzzzzzzzzzzzzzzzzzzzzzzzzz", "42", "run_u1jzzzzzzzzzzzzzzzzzzzzzzz"]
        {
            assert!(text.parse::<RunId>().is_err(), "{text}");
        }
    }

    #[test]
    fn keys_that_differ_in_one_letter_spread_over_the_shards() {
        let mut hit = [0u32; 4];
        for n in 0..400 {
            hit[usize::from(shard_of_key("", "order", &format!("o-{n}"), 4))] += 1;
        }
        assert!(hit.iter().all(|n| *n > 50), "{hit:?}");
    }
}

//! Times in JSON: one text for each moment, written and read here.

use std::borrow::Cow;

use outlast::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use utoipa::ToSchema;

/// A moment: RFC 3339 in UTC, always with six digits of microseconds.
#[derive(Debug, Clone, Copy, ToSchema)]
#[schema(as = Time, value_type = String, format = DateTime, example = "2027-03-14T01:30:00.000000Z")]
pub(crate) struct When(pub(crate) Timestamp);

impl Serialize for When {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.0.exact())
    }
}

impl<'de> Deserialize<'de> for When {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<When, D::Error> {
        let text = Cow::<str>::deserialize(from)?;
        text.parse().map(When).map_err(de::Error::custom)
    }
}

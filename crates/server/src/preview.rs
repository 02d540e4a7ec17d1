//! Payloads in part, for whoever looks: a page that shows sixty-four kibibytes of a value must not have megabytes sent for it.
//!
//! Who asks for no preview gets everything, as ever.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

/// The longest beginning of a payload that can be asked for: 64 KiB.
pub(crate) const LONGEST: u32 = 64 << 10;

/// The beginning of a payload.
#[derive(Debug, PartialEq, Serialize, ToSchema)]
#[schema(as = Preview)]
pub(crate) struct PreviewJson {
    /// The first letters of its JSON.
    text: String,
    /// How many bytes all of it has.
    size: usize,
    /// Whether there is more than these letters.
    truncated: bool,
}

/// Those of a thing that were longer than was asked for, by their names.
pub(crate) type Previews = BTreeMap<&'static str, PreviewJson>;

impl PreviewJson {
    /// At most so many bytes, and no half of a letter.
    pub(crate) fn new(json: &RawValue, most: usize) -> PreviewJson {
        let whole = json.get();
        let text = &whole[..whole.floor_char_boundary(most)];
        PreviewJson { text: text.to_owned(), size: whole.len(), truncated: text.len() < whole.len() }
    }

    /// Takes a payload away that is longer than this, and gives its beginning instead.
    pub(crate) fn instead(
        name: &'static str,
        payload: &mut Option<Box<RawValue>>,
        most: usize,
    ) -> Option<Previews> {
        let json = payload.take_if(|json| json.get().len() > most)?;
        Some(BTreeMap::from([(name, PreviewJson::new(&json, most))]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Option<Box<RawValue>> {
        Some(RawValue::from_string(text.to_owned()).unwrap())
    }

    #[test]
    fn what_is_longer_gives_way_to_its_beginning_and_the_rest_stays() {
        let mut short = json("[1,2]");
        assert_eq!(PreviewJson::instead("input", &mut short, 5), None);
        assert_eq!(short.unwrap().get(), "[1,2]");

        let mut long = json("[1,2]");
        let previews = PreviewJson::instead("input", &mut long, 3).unwrap();
        assert_eq!(previews["input"], PreviewJson { text: "[1,".into(), size: 5, truncated: true });
        assert!(long.is_none());
    }

    #[test]
    fn no_letter_is_cut_in_two() {
        let word = json("\"aä\"").unwrap();
        assert_eq!(PreviewJson::new(&word, 3).text, "\"a");
        assert_eq!(PreviewJson::new(&word, 4).text, "\"aä");
        assert!(!PreviewJson::new(&word, 5).truncated);
    }
}

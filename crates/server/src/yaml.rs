//! JSON as YAML, for people who read it. Numbers and texts stay exactly as they are.

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// Fields in their order, as they were written.
pub(crate) struct Fields(pub(crate) Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Fields, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Fields;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        from.deserialize_map(Read)
    }
}

/// JSON text as a YAML document.
pub(crate) fn yaml(json: &str) -> Result<String, serde_json::Error> {
    let mut lines = Vec::new();
    match write(json.trim(), 0, &mut lines)? {
        Some(scalar) => Ok(scalar),
        None => Ok(lines.join("\n")),
    }
}

/// Writes a value in lines of its own; gives one that needs none.
fn write(json: &str, depth: usize, lines: &mut Vec<String>) -> Result<Option<String>, serde_json::Error> {
    let indent = "  ".repeat(depth);
    match json.as_bytes().first() {
        Some(b'{') => {
            let Fields(fields) = serde_json::from_str(json)?;
            if fields.is_empty() {
                return Ok(Some("{}".to_owned()));
            }
            for (name, value) in fields {
                let (name, place) = (text(&name), lines.len());
                let head = match write(value.get().trim(), depth + 1, lines)? {
                    Some(scalar) => format!("{indent}{name}: {scalar}"),
                    None => format!("{indent}{name}:"),
                };
                lines.insert(place, head);
            }
            Ok(None)
        }
        Some(b'[') => {
            let items: Vec<Box<RawValue>> = serde_json::from_str(json)?;
            if items.is_empty() {
                return Ok(Some("[]".to_owned()));
            }
            for item in items {
                let place = lines.len();
                match write(item.get().trim(), depth + 1, lines)? {
                    Some(scalar) => lines.push(format!("{indent}- {scalar}")),
                    // The first line of what is in it stands behind the dash.
                    None => {
                        let first = lines[place].trim_start().to_owned();
                        lines[place] = format!("{indent}- {first}");
                    }
                }
            }
            Ok(None)
        }
        Some(b'"') => Ok(Some(text(&serde_json::from_str::<String>(json)?))),
        _ => Ok(Some(json.to_owned())),
    }
}

/// A text: plain where that cannot be taken for something else, else in quotes, which YAML has from JSON.
fn text(text: &str) -> String {
    const TAKEN: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let begins = text.chars().next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_');
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./ ".contains(c);
    let is_taken = TAKEN.contains(&text.to_ascii_lowercase().as_str());
    match begins && text.chars().all(is_plain) && !text.ends_with(' ') && !is_taken {
        true => text.to_owned(),
        false => serde_json::to_string(text).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_written_as_yaml_without_a_loss() {
        let json = r#"{"id":"run_1","n":12345678901234567890123,"ok":true,"none":null,"word":"yes","at":"2027-03-14T01:30:00Z",
            "tags":{},"steps":[{"name":"charge card","took":1.0},[1,[2]],[]],"multi":"a\nb"}"#;
        let lines = "id: run_1\n\"n\": 12345678901234567890123\nok: true\nnone: null\nword: \"yes\"\n\
                     at: \"2027-03-14T01:30:00Z\"\ntags: {}\nsteps:\n  - name: charge card\n    took: 1.0\n  - - 1\n    - - 2\n  - []\n\
                     multi: \"a\\nb\"";
        assert_eq!(yaml(json).unwrap(), lines);
        assert_eq!(yaml("\"x\"").unwrap(), "x");
    }
}

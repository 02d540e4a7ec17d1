//! A file of settings: read with the line of everything in it, so that a refusal names file, line and key.

use std::path::{Path, PathBuf};

use outlast_core::distance;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{KEYS, Origin};
use crate::fault::{Exit, Fault};

/// A value with the line on which it stands.
type Lined = (String, usize);

/// A file that could be read.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) path: PathBuf,
    pub(crate) default_profile: Option<String>,
    values: Vec<(&'static str, Lined)>,
    profiles: Vec<(String, Vec<(&'static str, Lined)>)>,
}

/// What there is where a file could be.
pub(crate) enum Found {
    Nothing,
    File(File),
}

impl File {
    /// Looks for a file. That there is none is fine; that it cannot be read is not.
    pub(crate) fn look(path: &Path) -> Result<Found, Fault> {
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Found::Nothing),
            Err(error) => {
                let message =
                    format!("{} cannot be read: {error}: mend that, or move it away", path.display());
                return Err(Fault::new(Exit::Usage, "invalid_argument", message));
            }
        };
        let text = String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            Fault::usage(format!("{} is not UTF-8, at byte {at}", path.display()))
        })?;
        File::read(path.to_owned(), &text).map(Found::File)
    }

    /// Reads a file, or says what is wrong on which line.
    pub(crate) fn read(path: PathBuf, text: &str) -> Result<File, Fault> {
        let reader = Reader { path: &path, text };
        let table = DeTable::parse(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            reader.wrong(at, error.message().trim())
        })?;
        let (mut values, mut profiles, mut default_profile) = (Vec::new(), Vec::new(), None);
        for (key, value) in table.get_ref().iter() {
            match (&**key.get_ref(), value.get_ref()) {
                ("profile", DeValue::Table(named)) => {
                    for (name, value) in named {
                        let DeValue::Table(table) = value.get_ref() else {
                            let why = format!("profile.{} has to be a table: [profile.NAME]", name.get_ref());
                            return Err(reader.wrong(value.span().start, &why));
                        };
                        let values = table.iter().map(|(key, value)| reader.setting(key, value));
                        profiles.push((name.get_ref().to_string(), values.collect::<Result<_, _>>()?));
                    }
                }
                ("default_profile", DeValue::String(name)) => default_profile = Some(name.to_string()),
                _ => values.push(reader.setting(key, value)?),
            }
        }
        Ok(File { default_profile, values, profiles, path })
    }

    /// A value of a profile, or of the part outside of profiles.
    pub(crate) fn get(&self, key: &str, profile: Option<&str>) -> Option<(String, Origin)> {
        let values = match profile {
            None => &self.values,
            Some(profile) => &self.profiles.iter().find(|(name, _)| name == profile)?.1,
        };
        let (_, (value, line)) = values.iter().find(|(known, _)| *known == key)?;
        Some((value.clone(), Origin::File(self.path.clone(), *line, profile.map(str::to_owned))))
    }

    pub(crate) fn has_profile(&self, name: &str) -> bool {
        self.profiles().any(|known| known == name)
    }

    pub(crate) fn profiles(&self) -> impl Iterator<Item = &str> {
        self.profiles.iter().map(|(name, _)| name.as_str())
    }

    /// Whether others on this machine can read a secret in it.
    pub(crate) fn shows_secret(&self) -> bool {
        let all = self.profiles.iter().flat_map(|(_, values)| values).chain(&self.values);
        let is_secret = |key: &str, value: &str| {
            key == "token" || key == "database_url" && crate::database::without_password(value) != value
        };
        let has_secret = all.into_iter().any(|(key, (value, _))| is_secret(key, value));
        has_secret && is_open(&self.path)
    }
}

#[cfg(unix)]
fn is_open(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o077 != 0)
}

#[cfg(not(unix))]
fn is_open(_path: &Path) -> bool {
    false
}

/// A file's text, for the lines in what is said of it.
struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Reader<'_> {
    fn line(&self, at: usize) -> usize {
        self.text.as_bytes()[..at.min(self.text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
    }

    fn wrong(&self, at: usize, why: &str) -> Fault {
        Fault::usage(format!("{}:{}: {why}", self.path.display(), self.line(at)))
    }

    fn setting(
        &self,
        key: &Spanned<std::borrow::Cow<'_, str>>,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<(&'static str, Lined), Fault> {
        let (at, name) = (key.span().start, &**key.get_ref());
        let Some((known, _)) = KEYS.iter().find(|(known, _)| *known == name) else {
            let near = KEYS.iter().map(|(known, _)| *known).min_by_key(|known| distance(known, name));
            let near = near.filter(|near| distance(near, name) <= near.len() / 2);
            let names: Vec<&str> = KEYS.iter().map(|(known, _)| *known).collect();
            let remedy = match near {
                Some(near) => format!("did you mean {near}?"),
                None => format!("there are {}, default_profile and [profile.NAME]", names.join(", ")),
            };
            return Err(self.wrong(at, &format!("there is no setting {name:?}: {remedy}")));
        };
        let DeValue::String(text) = value.get_ref() else {
            let kind = value.get_ref().type_str();
            return Err(
                self.wrong(value.span().start, &format!("{name} has to be a text in quotes, not {kind}"))
            );
        };
        Ok((known, (text.to_string(), self.line(at))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_told_with_file_line_and_what_was_meant() {
        for (text, told) in [
            (
                "output = \"json\"\ndatabse_url = \"x\"\n",
                "f:2: there is no setting \"databse_url\": did you mean database_url?",
            ),
            (
                "colour_of_the_sea = \"blue\"",
                "f:1: there is no setting \"colour_of_the_sea\": there are url,",
            ),
            ("\n[profile.a]\nurl = 7\n", "f:3: url has to be a text in quotes, not integer"),
            ("\n[profile]\na = 1\n", "f:3: profile.a has to be a table"),
            ("url = \"http://a", "f:1: "),
            ("url = \"a\"\nurl = \"b\"\n", "f:2: duplicate key"),
        ] {
            let refused = File::read(PathBuf::from("f"), text).unwrap_err().to_string();
            assert!(refused.starts_with(told), "{text:?}: {refused}");
        }
    }
}

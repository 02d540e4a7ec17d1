//! Settings of the commands: where each comes from, and which one counts.
//!
//! A flag counts before the environment (`OUTLAST_…`), that before the project's file (`./outlast.toml`), that before the
//! user's (`~/.config/outlast/config.toml`), that before the default. In files, the profile that was chosen counts before
//! what stands outside of profiles. `outlast config show --origin` says which did.

mod file;

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;
use utoipa::ToSchema;

pub(crate) use self::file::{File, Found};
use crate::backend::{Remote, ServerUrl};
use crate::database::{DEFAULT_URL, Place, without_password};
use crate::fault::Fault;
use crate::output::{Colour, Format, TimeStyle};
use crate::words::parse_span;

/// Everything that can be set, with what it is for.
pub(crate) const KEYS: [(&str, &str); 10] = [
    ("url", "a server to ask, instead of a database"),
    ("database_url", "the database"),
    ("token", "who asks the server"),
    ("ca", "the authority that signed the server's certificate"),
    ("output", "how answers are written"),
    ("color", "whether they have colours"),
    ("time", "how times are written"),
    ("timeout", "how long a command may take"),
    ("environment", "what the dashboard calls this installation, such as production"),
    ("dashboard", "whether a server has one: on or off"),
];

/// The project's file: that of the folder in which a command is called, whoever wrote it.
const PROJECT: &str = "outlast.toml";

/// The most characters of an environment's name: it stands at the top of every page.
const LONGEST_NAME: usize = 40;

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Flag(&'static str),
    Env(String),
    /// A file, its line, and the profile in it.
    File(PathBuf, usize, Option<String>),
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Flag(name) => write!(f, "flag {}", flag(name)),
            Origin::Env(name) => write!(f, "environment {name}"),
            Origin::File(file, line, None) => write!(f, "{}:{line}", file.display()),
            Origin::File(file, line, Some(profile)) => {
                write!(f, "{}:{line} (profile {profile})", file.display())
            }
            Origin::Default => f.write_str("default"),
        }
    }
}

/// How a setting is said on the command line.
fn flag(name: &str) -> String {
    match name {
        // There is nothing to say of what is there anyway.
        "dashboard" => "--no-dashboard".to_owned(),
        name => format!("--{}", name.replace('_', "-")),
    }
}

/// A value, and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) key: &'static str,
    pub(crate) value: String,
    pub(crate) origin: Origin,
}

impl Setting {
    /// The value as it may be shown.
    pub(crate) fn shown(&self) -> String {
        match self.key {
            "token" => "***".to_owned(),
            "database_url" => without_password(&self.value),
            _ => self.value.clone(),
        }
    }

    /// A value that cannot be, with the place where it was said.
    fn wrong(&self, why: impl fmt::Display) -> Fault {
        let place = match &self.origin {
            Origin::Flag(name) => flag(name),
            Origin::File(..) => format!("{}: {}", self.origin, self.key),
            other => other.to_string().replace("environment ", ""),
        };
        Fault::usage(format!("{place}: {why}"))
    }
}

/// A setting as it may be shown: without secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Setting)]
pub(crate) struct ShownSetting {
    pub(crate) key: String,
    pub(crate) value: String,
    /// Where it comes from: a flag, the environment, a file with its line, or the default.
    pub(crate) origin: String,
}

impl From<&Setting> for ShownSetting {
    fn from(setting: &Setting) -> ShownSetting {
        let (value, origin) = (setting.shown(), setting.origin.to_string());
        ShownSetting { key: setting.key.to_owned(), value, origin }
    }
}

/// What a command goes by.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) profile: Option<String>,
    values: Vec<Setting>,
}

/// Where values are looked for: flags as they were given, the environment, files with the project's first.
pub(crate) struct Sources<'a> {
    pub(crate) flags: Vec<(&'static str, String)>,
    pub(crate) profile: Option<String>,
    pub(crate) env: &'a dyn Fn(&str) -> Option<OsString>,
    pub(crate) files: Vec<File>,
}

impl Settings {
    /// Finds what counts.
    pub(crate) fn settle(sources: Sources<'_>) -> Result<Settings, Fault> {
        let Sources { flags, profile, env, files } = sources;
        let from_env = |key: &str| -> Result<Option<(String, String)>, Fault> {
            let name = format!("OUTLAST_{}", key.to_uppercase());
            let Some(value) = env(&name).filter(|value| !value.is_empty()) else { return Ok(None) };
            let value = value.into_string().map_err(|_| Fault::usage(format!("{name} is not UTF-8")))?;
            Ok(Some((name, value)))
        };
        let profile = match profile {
            Some(profile) => Some(profile),
            None => from_env("profile")?.map(|(_, profile)| profile),
        };
        let profile = profile.or_else(|| files.iter().find_map(|file| file.default_profile.clone()));
        if let Some(wanted) = &profile {
            known_profile(wanted, &files)?;
        }
        let mut values = Vec::new();
        for (key, _) in KEYS {
            let flag = flags.iter().find(|(name, _)| *name == key);
            let found = match (flag, from_env(key)?) {
                (Some((_, value)), _) => Some((value.clone(), Origin::Flag(key))),
                (None, Some((name, value))) => Some((value, Origin::Env(name))),
                (None, None) => {
                    parts(&files, profile.as_deref()).find_map(|(file, part)| file.get(key, part))
                }
            };
            values.extend(found.map(|(value, origin)| Setting { key, value, origin }));
        }
        let settings = Settings { profile, values };
        settings.check(&files)
    }

    /// Leaves away what another value rules out, and refuses what cannot be.
    fn check(mut self, files: &[File]) -> Result<Settings, Fault> {
        let rank = |origin: &Origin| match origin {
            Origin::Flag(_) => 0,
            Origin::Env(_) => 1,
            Origin::File(file, _, of) => {
                let profile = self.profile.as_deref();
                let is_it =
                    |(known, part): (&File, Option<&str>)| known.path == *file && part == of.as_deref();
                2 + parts(files, profile).position(is_it).unwrap_or_default()
            }
            Origin::Default => usize::MAX,
        };
        // A server and a database cannot both be asked: the one that was said closer by counts.
        if let (Some(url), Some(database)) = (self.get("url"), self.get("database_url")) {
            let drop = match rank(&url.origin).cmp(&rank(&database.origin)) {
                std::cmp::Ordering::Equal => {
                    let both = format!(
                        "url ({}) and database_url ({}) say two things: name a server or a database",
                        url.origin, database.origin
                    );
                    return Err(Fault::usage(both));
                }
                std::cmp::Ordering::Less => "database_url",
                std::cmp::Ordering::Greater => "url",
            };
            self.values.retain(|setting| setting.key != drop);
        }
        // A file's token is for the server beside it: a folder that somebody else wrote cannot send it elsewhere.
        if let Some(Setting { origin: Origin::File(..), .. }) = self.get("token") {
            let url = self.get("url").map(|url| url.value.clone());
            let profile = self.profile.as_deref();
            let kept = parts(files, profile).find_map(|(file, part)| {
                let beside = file.get("url", part).map(|(url, _)| url);
                file.get("token", part).filter(|_| url.is_some() && beside == url)
            });
            self.values.retain(|setting| setting.key != "token");
            self.values.extend(kept.map(|(value, origin)| Setting { key: "token", value, origin }));
        }
        // And of whom it may be believed that he is the server a folder says nothing, but of its own server.
        let of_project = |setting: &Setting| matches!(&setting.origin, Origin::File(file, ..) if file.as_os_str() == PROJECT);
        if self.get("ca").is_some_and(of_project) && !self.get("url").is_some_and(of_project) {
            let kept = parts(files, self.profile.as_deref())
                .filter(|(file, _)| file.path.as_os_str() != PROJECT)
                .find_map(|(file, part)| file.get("ca", part));
            self.values.retain(|setting| setting.key != "ca");
            self.values.extend(kept.map(|(value, origin)| Setting { key: "ca", value, origin }));
        }
        self.server()?;
        self.format()?;
        self.colour()?;
        self.time()?;
        self.timeout()?;
        self.environment()?;
        self.dashboard()?;
        Ok(self)
    }

    fn get(&self, key: &str) -> Option<&Setting> {
        self.values.iter().find(|setting| setting.key == key)
    }

    /// All of them, with defaults.
    pub(crate) fn all(&self) -> Vec<Setting> {
        let default = |key: &'static str| {
            let value = match key {
                "database_url" if self.get("url").is_none() => DEFAULT_URL,
                "output" => "text",
                "color" => "auto",
                "time" => "relative",
                _ => return None,
            };
            Some(Setting { key, value: value.to_owned(), origin: Origin::Default })
        };
        KEYS.iter().filter_map(|(key, _)| self.get(key).cloned().or_else(|| default(key))).collect()
    }

    /// The server that is asked, if one is.
    pub(crate) fn server(&self) -> Result<Option<ServerUrl>, Fault> {
        let Some(url) = self.get("url") else { return Ok(None) };
        ServerUrl::read(&url.value).map(Some).map_err(|why| url.wrong(why))
    }

    /// Whether a server is meant, so that a command which works on a database alone would do it to another. What stands in
    /// a file outside of profiles is for commands that can ask a server.
    pub(crate) fn means_server(&self) -> bool {
        self.get("url").is_some_and(|url| !matches!(url.origin, Origin::File(_, _, None)))
    }

    pub(crate) fn token(&self) -> Option<String> {
        self.get("token").map(|token| token.value.clone())
    }

    /// The file with the authority that signed the server's certificate, where not one of the system did. In a file of
    /// settings it stands as seen from there.
    pub(crate) fn ca(&self) -> Option<PathBuf> {
        let ca = self.get("ca")?;
        let folder = match &ca.origin {
            Origin::File(file, ..) => file.parent(),
            _ => None,
        };
        Some(folder.map_or_else(|| PathBuf::from(&ca.value), |folder| folder.join(&ca.value)))
    }

    /// A client of the server that is asked, if one is.
    pub(crate) fn remote(&self) -> Result<Option<Remote>, Fault> {
        let Some(url) = self.server()? else { return Ok(None) };
        Remote::new(url, self.token(), self.ca().as_deref()).map(Some)
    }

    pub(crate) fn place(&self) -> Place {
        Place::new(self.get("database_url").map_or(DEFAULT_URL, |setting| &setting.value).to_owned())
    }

    pub(crate) fn format(&self) -> Result<Format, Fault> {
        self.one_of("output").map(|format| format.unwrap_or(Format::Text))
    }

    pub(crate) fn colour(&self) -> Result<Colour, Fault> {
        self.one_of("color").map(|colour| colour.unwrap_or(Colour::Auto))
    }

    pub(crate) fn time(&self) -> Result<TimeStyle, Fault> {
        self.one_of("time").map(|time| time.unwrap_or(TimeStyle::Relative))
    }

    pub(crate) fn timeout(&self) -> Result<Option<Duration>, Fault> {
        let Some(timeout) = self.get("timeout") else { return Ok(None) };
        parse_span(&timeout.value).map(Some).map_err(|why| timeout.wrong(why.to_string()))
    }

    /// What the dashboard calls this installation.
    pub(crate) fn environment(&self) -> Result<Option<String>, Fault> {
        let Some(name) = self.get("environment") else { return Ok(None) };
        let length = name.value.chars().count();
        match length <= LONGEST_NAME && !name.value.contains(char::is_control) {
            true => Ok(Some(name.value.clone())),
            false => Err(name.wrong(format!("a name of at most {LONGEST_NAME} characters, in one line"))),
        }
    }

    /// Whether a server has the dashboard.
    pub(crate) fn dashboard(&self) -> Result<bool, Fault> {
        let Some(dashboard) = self.get("dashboard") else { return Ok(true) };
        match dashboard.value.as_str() {
            "on" => Ok(true),
            "off" => Ok(false),
            other => Err(dashboard.wrong(format!("on or off, not {other:?}"))),
        }
    }

    fn one_of<T: ValueEnum>(&self, key: &str) -> Result<Option<T>, Fault> {
        let Some(setting) = self.get(key) else { return Ok(None) };
        T::from_str(&setting.value, false).map(Some).map_err(|_| {
            let words = T::value_variants().iter().filter_map(ValueEnum::to_possible_value);
            let words: Vec<String> = words.map(|word| word.get_name().to_owned()).collect();
            setting.wrong(format!("one of {}, not {:?}", words.join(", "), setting.value))
        })
    }
}

/// Where values are looked for in files: in the profile that was chosen, then outside of profiles; the project's first.
fn parts<'a>(
    files: &'a [File],
    profile: Option<&'a str>,
) -> impl Iterator<Item = (&'a File, Option<&'a str>)> {
    let chosen =
        profile.into_iter().flat_map(move |profile| files.iter().map(move |file| (file, Some(profile))));
    chosen.chain(files.iter().map(|file| (file, None)))
}

/// Whether a file has this profile.
fn known_profile(wanted: &str, files: &[File]) -> Result<(), Fault> {
    if files.iter().any(|file| file.has_profile(wanted)) {
        return Ok(());
    }
    let known: Vec<&str> = files.iter().flat_map(File::profiles).collect();
    let there = match known.is_empty() {
        true => "no file has one: write [profile.NAME] in outlast.toml or in ~/.config/outlast/config.toml"
            .to_owned(),
        false => format!("there are {}", known.join(", ")),
    };
    Err(Fault::usage(format!("there is no profile {wanted:?}: {there}")))
}

/// The files that are read: the project's, then the user's.
pub(crate) fn paths(env: &dyn Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let base = env("XDG_CONFIG_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    let base =
        base.or_else(|| Some(PathBuf::from(env("HOME").filter(|path| !path.is_empty())?).join(".config")));
    let mut paths = vec![PathBuf::from(PROJECT)];
    paths.extend(base.map(|base| base.join("outlast/config.toml")));
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, text: &str) -> File {
        File::read(PathBuf::from(name), text).unwrap()
    }

    fn settle(
        flags: &[(&'static str, &str)],
        profile: Option<&str>,
        env: &[(&str, &str)],
        files: Vec<File>,
    ) -> Result<Settings, Fault> {
        let look =
            |name: &str| env.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value));
        let flags = flags.iter().map(|(key, value)| (*key, (*value).to_owned())).collect();
        Settings::settle(Sources { flags, profile: profile.map(str::to_owned), env: &look, files })
    }

    fn told(settings: &Settings, key: &str) -> Option<(String, String)> {
        let found = settings.all().into_iter().find(|setting| setting.key == key)?;
        Some((found.shown(), found.origin.to_string()))
    }

    #[test]
    fn what_is_said_closer_by_counts() {
        let files =
            || vec![file("outlast.toml", "time = \"utc\"\n"), file("user.toml", "\ntime = \"local\"\n")];
        let of = |settings: Settings| told(&settings, "time").unwrap();
        let flag = settle(&[("time", "rfc3339")], None, &[("OUTLAST_TIME", "utc")], files()).unwrap();
        assert_eq!(of(flag), ("rfc3339".into(), "flag --time".into()));
        let env = settle(&[], None, &[("OUTLAST_TIME", "local")], files()).unwrap();
        assert_eq!(of(env), ("local".into(), "environment OUTLAST_TIME".into()));
        assert_eq!(of(settle(&[], None, &[], files()).unwrap()), ("utc".into(), "outlast.toml:1".into()));
        let user = settle(&[], None, &[], files().split_off(1)).unwrap();
        assert_eq!(of(user), ("local".into(), "user.toml:2".into()));
        assert_eq!(of(settle(&[], None, &[], vec![]).unwrap()), ("relative".into(), "default".into()));
    }

    #[test]
    fn a_profile_counts_before_the_rest_of_its_file() {
        let text = "output = \"json\"\ndefault_profile = \"prod\"\n[profile.prod]\nurl = \"https://a.example\"\n\
                    token = \"s3cret\"\n[profile.test]\nurl = \"http://localhost:7777\"\noutput = \"yaml\"\n";
        let settings = settle(&[], None, &[], vec![file("f", text)]).unwrap();
        assert_eq!(
            told(&settings, "url").unwrap(),
            ("https://a.example".into(), "f:4 (profile prod)".into())
        );
        assert_eq!(told(&settings, "token").unwrap().0, "***");
        assert_eq!(settings.token().as_deref(), Some("s3cret"));
        assert_eq!(told(&settings, "database_url"), None);
        let settings = settle(&[], Some("test"), &[], vec![file("f", text)]).unwrap();
        assert_eq!(told(&settings, "output").unwrap(), ("yaml".into(), "f:8 (profile test)".into()));
        let refused = settle(&[], Some("tset"), &[], vec![file("f", text)]).unwrap_err().to_string();
        assert!(refused.contains("there is no profile \"tset\": there are prod, test"), "{refused}");
    }

    #[test]
    fn a_token_of_a_file_goes_to_the_server_beside_it_and_to_no_other() {
        let user = || file("user", "url = \"https://ours.example\"\ntoken = \"s3cret\"\n");
        assert!(settle(&[], None, &[], vec![user()]).unwrap().token().is_some());
        let theirs = file("outlast.toml", "url = \"https://theirs.example\"\n");
        assert_eq!(settle(&[], None, &[], vec![theirs, user()]).unwrap().token(), None);
        let flag = [("url", "https://theirs.example")];
        assert_eq!(settle(&flag, None, &[], vec![user()]).unwrap().token(), None);
        let env = [("OUTLAST_TOKEN", "given")];
        assert_eq!(settle(&flag, None, &env, vec![user()]).unwrap().token().as_deref(), Some("given"));
    }

    #[test]
    fn a_folder_says_of_its_own_server_alone_who_may_sign_for_it() {
        let ours = || file("/home/ann/user.toml", "url = \"https://ours.example\"\nca = \"ours.pem\"\n");
        let theirs = |text: &str| file("outlast.toml", text);
        let ca = |settings: Result<Settings, Fault>| settings.unwrap().ca();
        assert_eq!(ca(settle(&[], None, &[], vec![ours()])), Some(PathBuf::from("/home/ann/ours.pem")));
        let evil = || theirs("ca = \"theirs.pem\"\n");
        assert_eq!(ca(settle(&[], None, &[], vec![evil(), ours()])), Some("/home/ann/ours.pem".into()));
        assert_eq!(ca(settle(&[("url", "https://ours.example")], None, &[], vec![evil()])), None);
        let own = || theirs("url = \"https://theirs.example\"\nca = \"theirs.pem\"\n");
        assert_eq!(ca(settle(&[], None, &[], vec![own(), ours()])), Some("theirs.pem".into()));
        let env = [("OUTLAST_CA", "given.pem")];
        assert_eq!(ca(settle(&[], None, &env, vec![own()])), Some("given.pem".into()));
    }

    #[test]
    fn a_server_and_a_database_from_one_place_are_refused() {
        let both = "url = \"http://localhost:1\"\ndatabase_url = \"sqlite://a.db\"\n";
        let refused = settle(&[], None, &[], vec![file("f", both)]).unwrap_err().to_string();
        assert!(refused.contains("name a server or a database"), "{refused}");
        let database =
            settle(&[("database_url", "sqlite://b.db")], None, &[("OUTLAST_URL", "http://h")], vec![]);
        assert!(database.unwrap().server().unwrap().is_none());
    }

    #[test]
    fn a_value_that_cannot_be_is_told_with_its_place() {
        for (key, value, told) in [
            ("output", "xml", "OUTLAST_OUTPUT: one of text, json, jsonl, yaml, wide, name, not \"xml\""),
            ("environment", "two\nlines", "OUTLAST_ENVIRONMENT: a name of at most 40 characters"),
            ("dashboard", "no", "OUTLAST_DASHBOARD: on or off, not \"no\""),
            ("timeout", "soon", "OUTLAST_TIMEOUT: a duration looks like 30s"),
            ("url", "localhost:1", "OUTLAST_URL: a server is reached by http or https, not localhost"),
        ] {
            let name = format!("OUTLAST_{}", key.to_uppercase());
            let refused = settle(&[], None, &[(&name, value)], vec![]).unwrap_err().to_string();
            assert!(refused.contains(told), "{refused}");
        }
    }
}

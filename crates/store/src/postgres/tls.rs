//! Encrypted connections to PostgreSQL, as `sslmode` in the address asks for them.
//!
//! The words are those that every PostgreSQL client knows: `require` encrypts and believes whoever answers,
//! `verify-ca` wants a certificate that an authority we know has signed, `verify-full` that it is for this host too.

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use crate::StoreError;
use crate::address::refused;

/// What the address says of encryption.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    mode: Option<String>,
    files: Files,
}

/// The files that the address names.
#[derive(Debug, Default)]
struct Files {
    /// Of authorities that we know: `sslrootcert`. Those of the system where none is named.
    roots: Option<String>,
    /// Of our own certificate and its key, for servers that ask for one: `sslcert` and `sslkey`.
    certificate: Option<String>,
    key: Option<String>,
}

/// How the server is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Checks {
    Nothing,
    Authority,
    AuthorityAndName,
}

const MODES: &str = "`disable`, `prefer`, `require`, `verify-ca` or `verify-full`";

impl Wanted {
    /// Takes an option of the address, if it is about encryption.
    pub(super) fn takes(&mut self, name: &str, value: &str) -> bool {
        let place = match name {
            "sslmode" => &mut self.mode,
            "sslrootcert" => &mut self.files.roots,
            "sslcert" => &mut self.files.certificate,
            "sslkey" => &mut self.files.key,
            _ => return false,
        };
        *place = Some(decoded(value));
        true
    }

    /// Tells the driver what is wanted.
    pub(super) fn apply(self, config: &mut Config) -> Result<Tls, StoreError> {
        let (mode, checks) = match self.mode.as_deref() {
            // Nobody listens in on this machine's own loopback.
            None if is_local(config) => (SslMode::Disable, Checks::Nothing),
            None | Some("prefer") => (SslMode::Prefer, Checks::Nothing),
            Some("disable") => (SslMode::Disable, Checks::Nothing),
            Some("require") => (SslMode::Require, Checks::Nothing),
            Some("verify-ca") => (SslMode::Require, Checks::Authority),
            Some("verify-full") => (SslMode::Require, Checks::AuthorityAndName),
            Some(other) => return refused(format!("`sslmode={other}` in the address is none of {MODES}")),
        };
        config.ssl_mode(mode);
        if mode != SslMode::Require && !is_local(config) {
            tracing::warn!(
                "what goes to PostgreSQL may be read and changed on its way: use sslmode=verify-full"
            );
        }
        Tls::new(mode, checks, &self.files)
    }
}

/// Whether the server is on this machine.
fn is_local(config: &Config) -> bool {
    let is_ours = |host: &Host| match host {
        Host::Tcp(name) => {
            name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    };
    config.get_hosts().iter().all(is_ours) && config.get_hostaddrs().iter().all(std::net::IpAddr::is_loopback)
}

/// A value of the address as its author meant it.
fn decoded(value: &str) -> String {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let code = (*first == b'%').then(|| behind.get(..2)).flatten();
        let code = code.and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &behind[2..] } else { behind };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(not(feature = "tls"))]
pub(super) use without::Tls;

#[cfg(not(feature = "tls"))]
mod without {
    use tokio_postgres::NoTls;

    use super::{Checks, Files, SslMode, StoreError, refused};

    /// No encryption: this was built without.
    #[derive(Clone, Default)]
    pub(in crate::postgres) struct Tls;

    impl Tls {
        pub(super) fn new(mode: SslMode, _: Checks, _: &Files) -> Result<Tls, StoreError> {
            match mode {
                SslMode::Require => refused(
                    "the address asks for an encrypted connection, and this program was built without: \
                     turn on the feature `tls` of the crate `outlast`"
                        .to_owned(),
                ),
                _ => Ok(Tls),
            }
        }

        pub(in crate::postgres) fn connector(&self) -> NoTls {
            NoTls
        }
    }
}

#[cfg(feature = "tls")]
pub(super) use with::Tls;

#[cfg(feature = "tls")]
mod with;

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(options: &[(&str, &str)], host: &str) -> Result<SslMode, String> {
        let mut wanted = Wanted::default();
        for (name, value) in options {
            assert!(wanted.takes(name, value));
        }
        let mut config = Config::new();
        config.host(host);
        wanted.apply(&mut config).map(|_| config.get_ssl_mode()).map_err(|error| error.to_string())
    }

    #[test]
    fn an_address_that_says_nothing_of_encryption_prefers_it_beyond_this_machine() {
        for local in ["localhost", "127.0.0.1", "::1", "/run/postgresql"] {
            assert_eq!(wanted(&[], local), Ok(SslMode::Disable), "{local}");
        }
        assert_eq!(wanted(&[], "db.example.com"), Ok(SslMode::Prefer));
        assert_eq!(wanted(&[("sslmode", "disable")], "db.example.com"), Ok(SslMode::Disable));
    }

    #[test]
    fn a_mode_that_nobody_knows_is_refused_with_those_that_are_known() {
        let said = wanted(&[("sslmode", "always")], "db.example.com").unwrap_err();
        assert!(said.contains("`sslmode=always`") && said.contains("`verify-full`"), "{said}");
    }

    #[cfg(not(feature = "tls"))]
    #[test]
    fn encryption_that_was_not_built_in_is_refused_with_the_feature_that_brings_it() {
        for mode in ["require", "verify-ca", "verify-full"] {
            let said = wanted(&[("sslmode", mode)], "db.example.com").unwrap_err();
            assert!(said.contains("feature `tls`"), "{said}");
        }
    }

    #[cfg(feature = "tls")]
    #[test]
    fn a_file_of_certificates_that_cannot_be_used_is_named() {
        for (name, value) in [("sslrootcert", "/nowhere/root.crt"), ("sslcert", "/nowhere/client.crt")] {
            let said = wanted(&[("sslmode", "verify-full"), (name, value)], "db.example.com").unwrap_err();
            assert!(said.contains(name) && said.contains(value), "{said}");
        }
    }

    #[test]
    fn what_an_address_encodes_is_decoded() {
        assert_eq!(decoded("%2Fetc%2Fmy%20root.crt"), "/etc/my root.crt");
        assert_eq!(decoded("50%"), "50%");
        assert_eq!(decoded("%zz%4"), "%zz%4");
    }
}

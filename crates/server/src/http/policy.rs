//! What the dashboard may load and whom it may ask: nobody but us, unless whoever runs the server names a decoder of payloads.

#[cfg(feature = "embed")]
use axum::http::HeaderValue;
use axum::http::Uri;

/// Nothing but our own files, nothing written into the document, no frame around it; and nobody asked but us and, here, others.
#[cfg(feature = "embed")]
const POLICY: [&str; 2] = [
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'",
    "; base-uri 'self'; form-action 'self'; frame-ancestors 'none'",
];

/// The policy of the document; with a decoder's origin, pages may ask it too.
#[cfg(feature = "embed")]
pub(super) fn policy(codec: Option<&str>) -> HeaderValue {
    let [before, after] = POLICY;
    let other = codec.map_or_else(String::new, |origin| format!(" {origin}"));
    // An origin has only letters that a header may have.
    HeaderValue::from_str(&format!("{before}{other}{after}"))
        .unwrap_or(HeaderValue::from_static("default-src 'none'"))
}

/// Reads an origin, and nothing else: `https://codec.example.com`, or on this machine `http://localhost:8081`. Payloads would go
/// anywhere else in the clear.
pub(crate) fn parse_origin(text: &str) -> Result<String, String> {
    let wrong = || format!("{text:?} is no origin like https://codec.example.com or http://localhost:8081");
    let url: Uri = text.parse().map_err(|_| wrong())?;
    let (Some(scheme), Some(authority)) = (url.scheme_str(), url.authority()) else { return Err(wrong()) };
    let is_local = matches!(authority.host(), "localhost" | "127.0.0.1" | "[::1]");
    // A star would stand for more than one host in a policy, and a sign-in for somebody.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-:[]".contains(c);
    // The parser takes any digits for a port, and leaves away what stands behind a #.
    let has_port = || authority.as_str().len() == authority.host().len() || authority.port_u16().is_some();
    let is_one = authority.as_str().chars().all(is_plain)
        && has_port()
        && matches!(url.path(), "" | "/")
        && url.query().is_none()
        && !text.contains('#');
    match is_one && (scheme == "https" || (scheme == "http" && is_local)) {
        true => Ok(format!("{scheme}://{authority}")),
        false => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_origin_is_one() {
        assert_eq!(parse_origin("https://codec.example.com/").unwrap(), "https://codec.example.com");
        assert_eq!(parse_origin("http://localhost:8081").unwrap(), "http://localhost:8081");
        for wrong in [
            "codec.example.com",
            "http://codec.example.com",
            "https://*.example.com",
            "https://*",
            "*",
            "https://me:secret@codec.example.com",
            "https://codec.example.com/decode",
            "https://codec.example.com?x",
            "https://codec.example.com#f",
            "https://codec.example.com:99999",
            "https://codec.example.com:",
            "https://a;script-src",
            "https://a 'unsafe-inline'",
            "data:",
            "",
        ] {
            assert!(parse_origin(wrong).is_err(), "{wrong}");
        }
    }

    #[cfg(feature = "embed")]
    #[test]
    fn a_decoder_may_be_asked_and_nothing_else_is_weaker() {
        let strict = policy(None);
        let more = policy(Some("https://codec.example.com"));
        let (strict, more) = (strict.to_str().unwrap(), more.to_str().unwrap());
        assert_eq!(more.replace(" https://codec.example.com", ""), strict);
        assert!(more.contains("connect-src 'self' https://codec.example.com;"), "{more}");
    }
}

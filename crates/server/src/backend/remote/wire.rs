//! How requests travel: the address, the token, tries, and what a command says when no answer comes.
//!
//! Whatever changes something carries an idempotency key, so that a request whose answer got lost is sent again without
//! being done twice. No redirect is followed, and no proxy is taken from the environment: a token goes where it was meant
//! to go, and nowhere else.

use std::error::Error as _;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use reqwest::redirect::Policy;
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url, header};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use super::tls;
use crate::fault::{Exit, Fault};
use crate::http::Code;
use crate::output::{call, note};

/// How long one connection may take to come about.
const CONNECT: Duration = Duration::from_secs(10);
/// How long one answer may take; nothing that commands ask for waits longer on the server.
const ANSWER: Duration = Duration::from_secs(40);
/// How long a stream may last. Whoever reads it notices by itself that nothing comes.
const STREAM: Duration = Duration::from_secs(30 * 24 * 3600);
/// How often a request is sent that finds nobody, or somebody who says to come again.
const TRIES: u32 = 3;
/// How long whoever waits for a run goes on asking a server that is away: long enough for it to be started again.
const PATIENCE: Duration = Duration::from_secs(60);
/// The longest pause between two of those.
const PAUSE: Duration = Duration::from_secs(2);
/// How long whoever asks whether a server is well waits for it.
const PROBE: Duration = Duration::from_secs(5);
/// The most bytes of an answer.
const LARGEST: usize = 256 << 20;

/// The address of a server: where its API is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerUrl(Url);

impl ServerUrl {
    /// Reads `http(s)://HOST[:PORT][/WHERE/IT/IS/MOUNTED]`; the API's own path may be there too.
    pub(crate) fn read(text: &str) -> Result<ServerUrl, String> {
        let wrong =
            |why: &str| format!("{why}: write it like http://127.0.0.1:7777 or https://outlast.example");
        let mut url = Url::parse(text).map_err(|error| wrong(&format!("not an address ({error})")))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong(&format!("a server is reached by http or https, not {}", url.scheme())));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(wrong("who you are is said by --token, not in the address"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(wrong("the address of a server has no ? and no #"));
        }
        let path = url.path().trim_end_matches('/').trim_end_matches("/api/v1").to_owned();
        url.set_path(&path);
        Ok(ServerUrl(url))
    }

    /// Whether nobody between us and the server can listen.
    fn is_private(&self) -> bool {
        let host = self.0.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let is_here =
            host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
        self.0.scheme() == "https" || is_here
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str().trim_end_matches('/'))
    }
}

/// A server over HTTP.
pub(crate) struct Remote {
    http: reqwest::Client,
    url: ServerUrl,
    token: Option<String>,
    is_patient: AtomicBool,
}

/// The fields of a request's body. Payloads stay as they were given.
#[derive(Default, Serialize)]
#[serde(transparent)]
pub(super) struct Body(std::collections::BTreeMap<&'static str, Box<RawValue>>);

impl Body {
    pub(super) fn put<T: Serialize + ?Sized>(mut self, name: &'static str, value: &T) -> Body {
        // Nothing that is put here can fail to be written: no maps with other keys than texts.
        if let Ok(value) = to_raw_value(value) {
            self.0.insert(name, value);
        }
        self
    }

    pub(super) fn maybe<T: Serialize>(self, name: &'static str, value: &Option<T>) -> Body {
        match value {
            Some(value) => self.put(name, value),
            None => self,
        }
    }
}

/// A request, about to be sent.
pub(super) struct Request {
    method: Method,
    path: Vec<String>,
    query: Vec<(&'static str, String)>,
    body: Option<Body>,
    key: Option<String>,
}

impl Request {
    pub(super) fn new(method: Method, path: &[&str]) -> Request {
        // What is asked for twice is done once. Other methods need no key: done twice, they do the same.
        let key = (method == Method::POST)
            .then(|| format!("cli-{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..)));
        let path = path.iter().map(|part| (*part).to_owned()).collect();
        Request { method, path, query: Vec::new(), body: None, key }
    }

    pub(super) fn with(mut self, name: &'static str, value: impl ToString) -> Request {
        self.query.push((name, value.to_string()));
        self
    }

    pub(super) fn body(mut self, body: Body) -> Request {
        self.body = Some(body);
        self
    }

    /// With a key of the caller's own.
    pub(super) fn key(mut self, key: &str) -> Request {
        self.key = Some(key.to_owned());
        self
    }

    /// Sent once, whatever becomes of it.
    pub(super) fn once(mut self) -> Request {
        self.key = None;
        self
    }

    fn may_repeat(&self) -> bool {
        self.key.is_some() || self.method != Method::POST
    }
}

/// Why a server did not do it.
#[derive(Deserialize)]
struct ProblemDoc {
    code: String,
    detail: String,
}

impl Remote {
    /// A server whose certificate is believed where an authority of the system signed it, or the one in the file `ca`.
    pub(crate) fn new(url: ServerUrl, token: Option<String>, ca: Option<&Path>) -> Result<Remote, Fault> {
        if token.is_some() && !url.is_private() {
            crate::output::note(&format!(
                "warning: the token goes to {url} in clear text: whoever is on the way can read it; use https"
            ));
        }
        let built = reqwest::Client::builder()
            .user_agent(concat!("outlast/", env!("CARGO_PKG_VERSION")))
            .redirect(Policy::none())
            .no_proxy()
            .connect_timeout(CONNECT)
            .timeout(ANSWER)
            .tls_backend_preconfigured(tls::config(ca)?)
            .build();
        let http = built.map_err(|error| {
            Fault::new(Exit::Failed, "internal", format!("there is no HTTP client: {error}"))
        })?;
        Ok(Remote { http, url, token, is_patient: AtomicBool::new(false) })
    }

    /// Asks for something.
    pub(super) async fn get<T: DeserializeOwned>(&self, path: &[&str]) -> Result<T, Fault> {
        self.ask(Request::new(Method::GET, path)).await
    }

    /// Has something done.
    pub(super) async fn post<T: DeserializeOwned>(&self, path: &[&str], body: Body) -> Result<T, Fault> {
        self.ask(Request::new(Method::POST, path).body(body)).await
    }

    /// Sends a request and reads the answer.
    pub(super) async fn ask<T: DeserializeOwned>(&self, request: Request) -> Result<T, Fault> {
        let text = self.text(request).await?;
        serde_json::from_str(&text).map_err(|error| {
            let message = format!("{} answers what this version cannot read: {error}", self.url);
            Fault::new(Exit::Failed, "internal", message)
        })
    }

    /// Sends a request and gives the answer as it is.
    pub(super) async fn text(&self, request: Request) -> Result<String, Fault> {
        // Whoever reads an address takes these for a place in it, and something else would be asked for.
        if let Some(name) = request.path.iter().find(|part| ["", ".", ".."].contains(&part.as_str())) {
            let message = format!("there is nothing called {name:?} that a server can be asked for");
            return Err(Fault::new(Exit::NotFound, "not_found", message));
        }
        let (mut tries, began) = (1, Instant::now());
        loop {
            match self.send_once(&request).await {
                Ok(text) => return Ok(text),
                Err((fault, wait)) => {
                    let is_enough = match self.is_patient.load(Ordering::Relaxed) {
                        true => began.elapsed() >= PATIENCE,
                        false => tries >= TRIES,
                    };
                    if is_enough || !fault_passes(&fault) || !request.may_repeat() {
                        return Err(fault);
                    }
                    if tries == TRIES {
                        note(&format!("{}: asking again for a minute", fault.message()));
                    }
                    let pause = wait.unwrap_or(Duration::from_millis(250)) * tries;
                    tokio::time::sleep(pause.min(PAUSE.max(wait.unwrap_or_default()))).await;
                    tries += 1;
                }
            }
        }
    }

    /// From now on a server that is away is waited for: whoever waits for a run's end waits for that too.
    pub(in crate::backend) fn be_patient(&self) {
        self.is_patient.store(true, Ordering::Relaxed);
    }

    /// Asks whether it is well; whatever else it says is a fault.
    pub(crate) async fn probe(&self, what: &str) -> Result<(), Fault> {
        let mut url = self.url.0.clone();
        if let Ok(mut parts) = url.path_segments_mut() {
            parts.pop_if_empty().push(what);
        }
        let answer =
            self.http.get(url).timeout(PROBE).send().await.map_err(|error| self.unreached(&error))?;
        match answer.status().is_success() {
            true => Ok(()),
            false => {
                let message = format!("{} says {} to /{what}", self.url, answer.status());
                Err(Fault::new(Exit::Failed, "unhealthy", message))
            }
        }
    }

    /// Opens a stream of events; `None` where the server, or something on the way to it, gives none.
    pub(super) async fn stream(&self, request: &Request) -> Result<Option<Response>, Fault> {
        let ask = self.asked(request).timeout(STREAM).send();
        // A server answers once it has begun to look.
        let answer = tokio::time::timeout(ANSWER, ask).await.map_err(|_| self.silent())?;
        let answer = answer.map_err(|error| self.unreached(&error))?;
        let kind = answer.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        match (answer.status(), kind) {
            (StatusCode::OK, Some(kind)) if kind.starts_with("text/event-stream") => Ok(Some(answer)),
            (status, _) if status.is_server_error() => Err(self.refused(status, "")),
            _ => Ok(None),
        }
    }

    /// A request as it is sent.
    fn asked(&self, request: &Request) -> RequestBuilder {
        let mut url = self.url.0.clone();
        if let Ok(mut parts) = url.path_segments_mut() {
            parts.pop_if_empty().extend(["api", "v1"]).extend(&request.path);
        }
        for (name, value) in &request.query {
            url.query_pairs_mut().append_pair(name, value);
        }
        let mut ask = self.http.request(request.method.clone(), url);
        if let Some(token) = &self.token {
            ask = ask.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        if let Some(key) = &request.key {
            ask = ask.header("idempotency-key", key);
        }
        if let Some(body) = &request.body {
            let text = serde_json::to_string(body).unwrap_or_default();
            ask = ask.header(header::CONTENT_TYPE, "application/json").body(text);
        }
        ask
    }

    async fn send_once(&self, request: &Request) -> Result<String, (Fault, Option<Duration>)> {
        let mut answer = self.asked(request).send().await.map_err(|error| (self.unreached(&error), None))?;
        let (status, wait) = (answer.status(), retry_after(&answer));
        let mut bytes = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(|error| (self.unreached(&error), None))? {
            if bytes.len() + chunk.len() > LARGEST {
                let message = format!("{} answers more than {LARGEST} bytes", self.url);
                return Err((Fault::new(Exit::Failed, "payload_too_large", message), None));
            }
            bytes.extend_from_slice(&chunk);
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        match status.is_success() {
            true => Ok(text),
            false => Err((self.refused(status, &text), wait)),
        }
    }

    /// No answer came.
    fn unreached(&self, error: &reqwest::Error) -> Fault {
        if error.is_timeout() {
            return self.silent();
        }
        if let Some(why) = tls::disbelieved(error) {
            let message = format!("{} cannot be believed: {why}", self.url);
            return Fault::new(Exit::Unreachable, "unavailable", message);
        }
        // The last cause says what happened; those before it say that something did.
        let mut cause = error.source();
        while let Some(deeper) = cause.and_then(|cause| cause.source()) {
            cause = Some(deeper);
        }
        let why = cause.map_or_else(|| error.to_string(), ToString::to_string);
        let message =
            format!("{} cannot be reached: {why}: see whether it is up and the address is right", self.url);
        Fault::new(Exit::Unreachable, "unavailable", message)
    }

    fn silent(&self) -> Fault {
        let message = format!("{} did not answer within {} s", self.url, ANSWER.as_secs());
        Fault::new(Exit::Timeout, "timeout", message)
    }

    /// An answer that is none.
    fn refused(&self, status: StatusCode, text: &str) -> Fault {
        let Ok(ProblemDoc { code, detail }) = serde_json::from_str(text) else {
            let message =
                format!("{} answers {status} and does not say why: is that an outlast server?", self.url);
            return Fault::new(Exit::Failed, "internal", message);
        };
        // A word that we do not know is a newer server's: its status says what kind of thing it is.
        let code = Code::of(&code).map_or("internal", |code| code.word);
        let remedy = match code {
            "unauthenticated" if self.token.is_none() => {
                Some("give a token with --token or OUTLAST_TOKEN".to_owned())
            }
            "not_found" if detail.starts_with("there is no run ") => {
                Some(format!("`{}` shows those that are there", call("list")))
            }
            "run_closed" => Some("nothing reaches it any more".to_owned()),
            "already_settled" => Some("the first value stays".to_owned()),
            _ => None,
        };
        let message = match remedy {
            Some(remedy) => format!("{detail}: {remedy}"),
            None => detail,
        };
        Fault::new(exit(status, code), code, message)
    }
}

/// How the process ends when a server refuses.
fn exit(status: StatusCode, code: &str) -> Exit {
    match (status.as_u16(), code) {
        (_, "unknown_definition") => Exit::NotFound,
        (401 | 403, _) => Exit::Auth,
        (404, _) => Exit::NotFound,
        (408, _) => Exit::Timeout,
        (409 | 412, _) | (_, "inbox_full") => Exit::Conflict,
        (429 | 502..=504, _) => Exit::Unreachable,
        (400..=499, _) => Exit::Usage,
        _ => Exit::Failed,
    }
}

/// Whether the same request may work in a moment.
fn fault_passes(fault: &Fault) -> bool {
    matches!(fault.code(), "unavailable" | "rate_limited" | "in_progress")
}

fn retry_after(answer: &reqwest::Response) -> Option<Duration> {
    let seconds: u64 = answer.headers().get(header::RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds.min(5)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_wherever_the_api_is_mounted() {
        for (text, shown) in [
            ("http://127.0.0.1:7777", "http://127.0.0.1:7777"),
            ("http://127.0.0.1:7777/", "http://127.0.0.1:7777"),
            ("https://ops.example/outlast/api/v1/", "https://ops.example/outlast"),
        ] {
            assert_eq!(ServerUrl::read(text).unwrap().to_string(), shown);
        }
        for (text, told) in [
            ("localhost:7777", "http or https"),
            ("ftp://host", "http or https, not ftp"),
            ("http://ann:secret@host", "--token"),
            ("http://host/?a=1", "no ?"),
            ("", "not an address"),
        ] {
            let refused = ServerUrl::read(text).unwrap_err();
            assert!(refused.contains(told) && !refused.contains("secret"), "{text}: {refused}");
        }
    }

    #[test]
    fn a_token_in_clear_text_is_noticed_only_where_others_can_listen() {
        let is_private = |text: &str| ServerUrl::read(text).unwrap().is_private();
        assert!(is_private("https://ops.example") && is_private("http://[::1]:7777"));
        assert!(is_private("http://localhost:7777") && !is_private("http://ops.example"));
    }
}

//! The dashboard while somebody changes it: the pages come from Vite's own server, and the API stays ours, at one address.
//!
//! For `outlast dev --ui-proxy http://localhost:5173`. Nothing is kept of what Vite says, and its pages have a weaker policy
//! than ours, because it writes code into them.

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::uri::{Authority, Uri};
use axum::http::{HeaderValue, Method, Response, StatusCode, header};
use axum::response::IntoResponse;
use http_body_util::{BodyExt, Limited};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// What Vite's pages need: code in the document, and a socket by which it tells of changes.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'self' data:; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; connect-src 'self' ws:",
);
/// The most bytes of a document.
const DOCUMENT: usize = 1 << 20;

/// Reads `http://HOST:PORT`, and nothing else.
pub(crate) fn parse(text: &str) -> Result<Authority, String> {
    let wrong = || format!("{text:?} is no address like http://localhost:5173");
    let url: Uri = text.parse().map_err(|_| wrong())?;
    let is_plain =
        url.scheme_str() == Some("http") && matches!(url.path(), "" | "/") && url.query().is_none();
    url.into_parts().authority.filter(|_| is_plain).ok_or_else(wrong)
}

/// A router that asks there for whatever it has no route for.
pub(super) fn add(router: Router, from: Authority) -> Router {
    router.fallback(move |request: Request| async move {
        if request.uri().path().starts_with("/api/") {
            return super::nothing_here(request).await;
        }
        match pass_on(&from, request).await {
            Ok(answer) => answer,
            Err(error) => {
                let text =
                    format!("there is no dashboard at http://{from} ({error}): run `npm run dev` in ui/\n");
                (StatusCode::BAD_GATEWAY, text).into_response()
            }
        }
    })
}

async fn pass_on(
    from: &Authority,
    request: Request,
) -> Result<Response<Body>, Box<dyn std::error::Error + Send + Sync>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Ok(StatusCode::METHOD_NOT_ALLOWED.into_response());
    }
    let (mut parts, _) = request.into_parts();
    let own = parts.uri.clone();
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    parts.uri = path.parse()?;
    parts.headers.insert(header::HOST, HeaderValue::from_str(from.as_str())?);
    // An answer that we read must not be compressed, and a connection of ours is none of the browser's.
    for ours in [header::ACCEPT_ENCODING, header::CONNECTION, header::UPGRADE] {
        parts.headers.remove(ours);
    }
    parts.version = axum::http::Version::HTTP_11;

    let stream =
        TcpStream::connect((from.host().trim_matches(['[', ']']), from.port_u16().unwrap_or(80))).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let answer = sender.send_request(Request::from_parts(parts, Body::empty())).await?;
    let (mut parts, body) = answer.into_parts();
    parts.headers.insert(header::CONTENT_SECURITY_POLICY, POLICY);
    let is_document =
        parts.headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"));
    if !is_document {
        return Ok(Response::from_parts(parts, Body::new(body)));
    }
    let text = Limited::new(body, DOCUMENT).collect().await?.to_bytes();
    let text = super::dashboard::filled(
        &String::from_utf8_lossy(&text),
        "/",
        &own,
        &super::dashboard::Told::default(),
    );
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.remove(header::ETAG);
    Ok(Response::from_parts(parts, Body::from(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_address_is_one() {
        assert_eq!(parse("http://localhost:5173").unwrap(), "localhost:5173");
        assert_eq!(parse("http://[::1]:5173/").unwrap(), "[::1]:5173");
        for wrong in
            ["localhost:5173", "https://localhost:5173", "http://localhost:5173/ui", "http://", "", "5173"]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}

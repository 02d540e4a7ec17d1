//! The server as the address names it, and how a connection to it is opened.

use std::pin::Pin;
use std::time::Duration;

use futures_util::stream::{Stream, poll_fn};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_postgres::{AsyncMessage, Client, Config, Connection};

use super::error::{chain, meaning};
use super::tls::Tls;
use crate::StoreError;

/// How long a new connection may take.
pub(super) const CONNECT: Duration = Duration::from_secs(5);

/// Where and how to connect.
#[derive(Clone)]
pub(super) struct Server {
    pub(super) config: Config,
    pub(super) tls: Tls,
}

/// What the server says unasked. A connection lives as long as somebody asks for it.
pub(super) type Messages = Pin<Box<dyn Stream<Item = Result<AsyncMessage, tokio_postgres::Error>> + Send>>;

impl Server {
    /// Opens a connection, which somebody has to drive by asking for its messages.
    pub(super) async fn connect(&self) -> Result<(Client, Messages), StoreError> {
        match timeout(CONNECT, self.config.connect(self.tls.connector())).await {
            Ok(Ok((client, connection))) => Ok((client, messages(connection))),
            Ok(Err(error)) => Err(refusal(&error)),
            Err(_) => {
                Err(StoreError::Unavailable(format!("PostgreSQL did not answer within {CONNECT:?}").into()))
            }
        }
    }
}

fn messages<S, T>(mut connection: Connection<S, T>) -> Messages
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    Box::pin(poll_fn(move |context| connection.poll_message(context)))
}

/// What it means that there is no connection.
fn refusal(error: &tokio_postgres::Error) -> StoreError {
    if let Some(why) = of_encryption(error) {
        return StoreError::Address(why);
    }
    match meaning(error) {
        // Not the server's words: it could not be reached, or spoke another language.
        StoreError::Refused(_) if error.as_db_error().is_none() => {
            StoreError::Unavailable(format!("cannot connect to PostgreSQL: {}", chain(error)).into())
        }
        other => other,
    }
}

/// What is wrong with the encryption, if it is that: trying again does not mend it.
#[cfg(feature = "tls")]
fn of_encryption(error: &tokio_postgres::Error) -> Option<String> {
    let cause = std::error::Error::source(error)?;
    if cause.to_string().contains("does not support TLS") {
        return Some(
            "PostgreSQL offers no encryption, and the address asks for it: turn on `ssl` there, or use \
                     sslmode=disable on a network that nobody listens in on"
                .to_owned(),
        );
    }
    let cause = cause.downcast_ref::<std::io::Error>()?.get_ref()?.downcast_ref::<rustls::Error>()?;
    match cause {
        rustls::Error::InvalidCertificate(why) => Some(format!(
            "PostgreSQL's certificate is not to be trusted ({why}): name the file of the authority that signed it \
             with sslrootcert, and the host as the certificate names it"
        )),
        rustls::Error::AlertReceived(alert) => Some(format!(
            "PostgreSQL does not accept our side of the encryption ({alert:?}): does it ask for a certificate \
             (sslcert, sslkey)?"
        )),
        _ => None,
    }
}

#[cfg(not(feature = "tls"))]
fn of_encryption(_: &tokio_postgres::Error) -> Option<String> {
    None
}

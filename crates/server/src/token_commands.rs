//! `outlast token`: who may use the HTTP API.

use outlast_store::TokenView;
use serde_json::json;

use crate::backend::{Backend, MadeToken};
use crate::cli::{TokenArgs, TokenCommand};
use crate::fault::{Exit, Fault};
use crate::http::{self, TokenAsk, TokenJson};
use crate::output::{BOLD, Column, DIM, Format, Row, call, note, print, print_list, print_one, table};
use crate::words::{ago, ahead};

/// Does what was asked about tokens.
pub(crate) async fn token(client: &Backend, command: TokenCommand, format: Format) -> Result<(), Fault> {
    match command {
        TokenCommand::Create(args) => create(client, args, format).await,
        TokenCommand::List => list(client, format).await,
        TokenCommand::Revoke(args) => revoke(client, &args.id, format).await,
    }
}

async fn create(client: &Backend, args: TokenArgs, format: Format) -> Result<(), Fault> {
    let MadeToken { view, secret, is_first } = client.create_token(token_ask(args)).await?;
    let mut shape = serde_json::to_value(TokenJson::new(&view, view.created_at)).unwrap_or_default();
    shape["secret"] = secret.clone().into();
    print_one(format, &shape, &secret, || secret.clone())?;
    if format == Format::Text {
        // Nothing more is asked: a server that has its first token wants one.
        let until = ahead(view.card.expires_at, view.created_at);
        let id = http::token_name(view.card.id);
        let (subject, role) = (&view.card.subject, &view.card.role);
        let within = within(view.card.queues.as_deref());
        note(&format!(
            "{subject} may use the API as {role}{within}; this expires {until} and is shown this once"
        ));
        note(&format!("`{}` takes it back", call(&format!("token revoke {id}"))));
        if is_first {
            note("every server of this database asks for a token from now on");
        }
    }
    Ok(())
}

/// To which queues it is bound, for people.
pub(crate) fn within(queues: Option<&[String]>) -> String {
    let told = |queues: &[String]| match queues {
        [one] => format!(" in the queue {one}"),
        several => format!(" in the queues {}", several.join(", ")),
    };
    queues.map(told).unwrap_or_default()
}

/// The token that a command asks for.
pub(crate) fn token_ask(args: TokenArgs) -> TokenAsk {
    let TokenArgs { subject, role, tenant, queues, expires } = args;
    let queues = Some(queues).filter(|queues| !queues.is_empty());
    TokenAsk { subject, role, tenant, queues, age: expires.unwrap_or(http::DEFAULT_AGE) }
}

async fn list(client: &Backend, format: Format) -> Result<(), Fault> {
    let (tokens, now) = (client.tokens().await?, client.now().await?);
    let shapes: Vec<TokenJson> = tokens.iter().map(|view| TokenJson::new(view, now)).collect();
    if format != Format::Text {
        return print_list(format, shapes, false, |shape| shape.id.clone());
    }
    if tokens.is_empty() {
        note(&format!("there is no token: make one with `{}`", call("token create NAME")));
        return Ok(());
    }
    let columns = [
        Column { head: "SUBJECT", spare: 0 },
        Column { head: "ROLE", spare: 0 },
        Column { head: "TENANT", spare: 2 },
        Column { head: "QUEUES", spare: 2 },
        Column { head: "USED", spare: 1 },
        Column { head: "EXPIRES", spare: 0 },
        Column { head: "TOKEN", spare: 0 },
    ];
    let row = |view: &TokenView| {
        let expires = match view.revoked_at {
            Some(at) => format!("revoked {}", ago(at, now)),
            None if !view.is_live(now) => "expired".to_owned(),
            None => ahead(view.card.expires_at, now),
        };
        let cells = vec![
            view.card.subject.clone(),
            view.card.role.clone(),
            view.card.tenant.clone().unwrap_or_default(),
            view.card.queues.clone().unwrap_or_default().join(", "),
            view.used_at.map_or("never".to_owned(), |used| ago(used, now)),
            expires,
            http::token_name(view.card.id),
        ];
        Row { style: if view.is_live(now) { BOLD } else { DIM }, cells }
    };
    print(&table(&columns, &tokens.iter().map(row).collect::<Vec<_>>()))
}

async fn revoke(client: &Backend, name: &str, format: Format) -> Result<(), Fault> {
    match client.revoke_token(name).await? {
        Some(view) => {
            let answer = json!({ "id": name, "subject": view.card.subject, "revoked": true });
            print_one(format, &answer, name, || {
                format!("{name} of {} opens nothing any more", view.card.subject)
            })
        }
        None => Err(unknown(name)),
    }
}

/// Why nothing is done to a token that is not there.
pub(crate) fn unknown(name: &str) -> Fault {
    let message = format!("there is no token {name:?}: `{}` shows those that are there", call("token list"));
    Fault::new(Exit::NotFound, "not_found", message)
}

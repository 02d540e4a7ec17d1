//! `outlast token`: who may use the HTTP API.

use outlast::Client;
use outlast_store::{Access, Accessed, TokenView};
use serde_json::json;

use crate::cli::{TokenArgs, TokenCommand};
use crate::fault::{Exit, Fault};
use crate::http::{self, TokenJson};
use crate::output::{BOLD, Column, DIM, Format, Row, call, json as to_json, note, print, print_one, table};
use crate::shapes::Items;
use crate::words::{ago, ahead, user};

/// Does what was asked about tokens.
pub(crate) async fn token(client: &Client, command: TokenCommand, format: Format) -> Result<(), Fault> {
    match command {
        TokenCommand::Create(args) => create(client, args, format).await,
        TokenCommand::List => list(client, format).await,
        TokenCommand::Revoke(args) => revoke(client, &args.id, format).await,
    }
}

async fn create(client: &Client, args: TokenArgs, format: Format) -> Result<(), Fault> {
    let by = user().unwrap_or_else(|| "command line".to_owned());
    let age = args.expires.unwrap_or(http::DEFAULT_AGE);
    let was_open = !http::any_token(client).await?;
    let made = http::create_token(client, &args.subject, args.role, args.tenant, age, &by).await;
    let (view, secret) = made.map_err(|problem| Fault::usage(problem.detail))?;
    let mut shape = serde_json::to_value(TokenJson::new(&view, view.created_at)).unwrap_or_default();
    shape["secret"] = secret.shown().into();
    print_one(format, &shape, secret.shown(), || secret.shown().to_owned())?;
    if format == Format::Text {
        let now = client.store().now().await?;
        let until = ahead(view.card.expires_at, now);
        let id = http::token_name(view.card.id);
        let (subject, role) = (&view.card.subject, &view.card.role);
        note(&format!("{subject} may use the API as {role}; this expires {until} and is shown this once"));
        note(&format!("`{}` takes it back", call(&format!("token revoke {id}"))));
        if was_open {
            note("servers that were started before there was a token ask for it after a restart");
        }
    }
    Ok(())
}

async fn list(client: &Client, format: Format) -> Result<(), Fault> {
    let (tokens, now) = (client.store().tokens().await?, client.store().now().await?);
    let shapes: Vec<TokenJson> = tokens.iter().map(|view| TokenJson::new(view, now)).collect();
    match format {
        Format::Json => return print(&to_json(&Items { items: shapes, more: false }, true)?),
        Format::Jsonl | Format::Name => {
            let line = |shape: &TokenJson| match format {
                Format::Name => Ok(shape.id.clone()),
                _ => to_json(shape, false),
            };
            let lines = shapes.iter().map(line).collect::<Result<Vec<_>, _>>()?;
            return if lines.is_empty() { Ok(()) } else { print(&lines.join("\n")) };
        }
        Format::Text if tokens.is_empty() => {
            note(&format!("there is no token: make one with `{}`", call("token create NAME")));
            return Ok(());
        }
        Format::Text => {}
    }
    let columns = [
        Column { head: "SUBJECT", spare: 0 },
        Column { head: "ROLE", spare: 0 },
        Column { head: "TENANT", spare: 2 },
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
            view.used_at.map_or("never".to_owned(), |used| ago(used, now)),
            expires,
            http::token_name(view.card.id),
        ];
        Row { style: if view.is_live(now) { BOLD } else { DIM }, cells }
    };
    print(&table(&columns, &tokens.iter().map(row).collect::<Vec<_>>()))
}

async fn revoke(client: &Client, name: &str, format: Format) -> Result<(), Fault> {
    let unknown = || {
        let message =
            format!("there is no token {name:?}: `{}` shows those that are there", call("token list"));
        Fault::new(Exit::NotFound, "not_found", message)
    };
    let token = http::parse_token_name(name).ok_or_else(unknown)?;
    match client.store().access(&Access::Revoke { token }).await? {
        Accessed::Token(Some(view)) => {
            let answer = json!({ "id": name, "subject": view.card.subject, "revoked": true });
            print_one(format, &answer, name, || {
                format!("{name} of {} opens nothing any more", view.card.subject)
            })
        }
        _ => Err(unknown()),
    }
}

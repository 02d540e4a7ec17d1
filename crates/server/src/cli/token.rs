//! Who may use the HTTP API.

use std::time::Duration;

use clap::{Args, Subcommand};

use crate::words::parse_span;

/// What can be done with tokens.
#[derive(Debug, Subcommand)]
#[command(infer_subcommands = true)]
pub(crate) enum TokenCommand {
    /// Make a token; its secret is shown this once
    Create(TokenArgs),
    /// List all tokens, without their secrets
    List,
    /// From now on it opens nothing
    Revoke(TokenName),
}

#[derive(Debug, Args)]
pub(crate) struct TokenArgs {
    /// Whom it stands for
    pub(crate) subject: String,

    /// What they may do
    #[arg(long, value_enum, default_value = "viewer")]
    pub(crate) role: crate::http::Role,

    /// Bind it to a tenant: it sees and changes nothing of others
    #[arg(long, value_name = "TENANT")]
    pub(crate) tenant: Option<String>,

    /// Bind it to a queue, or to several: it sees, starts and changes runs of these alone
    #[arg(long = "queue", value_name = "QUEUE", value_delimiter = ',')]
    pub(crate) queues: Vec<String>,

    /// How long it opens something [default: 90d]
    #[arg(long, value_parser = parse_span, value_name = "DURATION", allow_hyphen_values = true)]
    pub(crate) expires: Option<Duration>,
}

#[derive(Debug, Args)]
pub(crate) struct TokenName {
    /// The token: tok_ and 32 digits, as `token list` shows it
    #[arg(value_name = "ID")]
    pub(crate) id: String,
}

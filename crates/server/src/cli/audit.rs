//! Who changed what.

use clap::{Args, Subcommand};

use crate::words::parse_number;

/// What can be done with the audit log.
#[derive(Debug, Subcommand)]
#[command(infer_subcommands = true)]
pub(crate) enum AuditCommand {
    /// List what was changed, by whom and why, newest first
    List(AuditArgs),
    /// Look whether lines were changed or removed by hand; exit code 4 where some were
    Verify(AuditVerifyArgs),
}

#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// Only what was done to this: a run's id, a queue, a schedule, a token
    #[arg(value_name = "TARGET")]
    pub(crate) target: Option<String>,

    /// At most so many: 1 to 500 [default: 50]
    #[arg(short = 'n', long, value_parser = |text: &str| parse_number::<u32>(text, 1..=500), value_name = "COUNT", allow_hyphen_values = true)]
    pub(crate) limit: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct AuditVerifyArgs {
    /// A line that has to be there still: the end that an earlier `audit verify` told, kept where nobody of here can change it
    #[arg(long, value_name = "PLACE:HASH", value_parser = known)]
    pub(crate) known: Option<outlast_store::Link>,
}

fn known(text: &str) -> Result<outlast_store::Link, String> {
    crate::http::read_link(text).ok_or_else(|| "PLACE:HASH, as an earlier `audit verify` told it".to_owned())
}

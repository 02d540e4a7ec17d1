//! Settings are looked at.

use clap::{Args, Subcommand};

/// What can be done with settings.
#[derive(Debug, Subcommand)]
#[command(infer_subcommands = true)]
pub(crate) enum ConfigCommand {
    /// Show what counts
    Show(ConfigShowArgs),
    /// Look whether the files can be read; exit code 2 when one cannot
    Check,
}

#[derive(Debug, Args)]
pub(crate) struct ConfigShowArgs {
    /// With where each value comes from
    #[arg(long)]
    pub(crate) origin: bool,
}

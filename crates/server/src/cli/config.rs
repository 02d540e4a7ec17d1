//! Settings are looked at, and changed.

use clap::{Args, Subcommand};

/// What can be done with settings.
#[derive(Debug, Subcommand)]
#[command(infer_subcommands = true)]
pub(crate) enum ConfigCommand {
    /// Show what counts
    Show(ConfigShowArgs),
    /// Look whether the files can be read; exit code 2 when one cannot
    Check,
    /// Open your file of settings in VISUAL or EDITOR, and look whether it can be read then
    Edit(ConfigEditArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ConfigEditArgs {
    /// The project's file, outlast.toml in this folder, instead of yours
    #[arg(long)]
    pub(crate) project: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ConfigShowArgs {
    /// With where each value comes from
    #[arg(long)]
    pub(crate) origin: bool,
}

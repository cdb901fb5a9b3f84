//! `specdec tape`: records texts, and lets drafters read them.

mod export;
mod import;
mod record;
mod score;
mod show;

use anyhow::Result;
use clap::{Args, Subcommand};

/// Options of `specdec tape`.
#[derive(Debug, Args)]
pub(super) struct TapeArgs {
    #[command(subcommand)]
    command: TapeCommand,
}

#[derive(Debug, Subcommand)]
enum TapeCommand {
    /// Record texts of a target by plain decoding, with the probability of every token
    Record(Box<record::RecordArgs>),
    /// Let drafters read the texts of a tape, and append what they say
    Score(Box<score::ScoreArgs>),
    /// Write what another program has logged on a tape
    Import(Box<import::ImportArgs>),
    /// Write a tape as a Parquet file, or as JSON lines
    Export(export::ExportArgs),
    /// Say what a tape holds
    Show(show::ShowArgs),
}

/// Runs a subcommand.
pub(super) fn run(args: &TapeArgs) -> Result<()> {
    match &args.command {
        TapeCommand::Record(args) => record::run(args),
        TapeCommand::Score(args) => score::run(args),
        TapeCommand::Import(args) => import::run(args),
        TapeCommand::Export(args) => export::run(args),
        TapeCommand::Show(args) => show::run(args),
    }
}

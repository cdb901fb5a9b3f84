//! `specdec tape`: records completions, and scores them with drafters.

mod export;
mod import;
mod record;
mod score;
mod show;

use anyhow::Result;
use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub(super) struct TapeArgs {
    #[command(subcommand)]
    command: TapeCommand,
}

#[derive(Debug, Subcommand)]
enum TapeCommand {
    /// Record completions of a target by plain decoding, with the probability of every token
    Record(Box<record::RecordArgs>),
    /// Score the sequences of a tape with drafters, and append the scores
    Score(Box<score::ScoreArgs>),
    /// Write the log of another program on a tape
    Import(Box<import::ImportArgs>),
    /// Write a tape as a Parquet file, or as JSON lines
    Export(export::ExportArgs),
    /// Show what a tape holds
    Show(show::ShowArgs),
}

pub(super) fn run(args: &TapeArgs) -> Result<()> {
    match &args.command {
        TapeCommand::Record(args) => record::run(args),
        TapeCommand::Score(args) => score::run(args),
        TapeCommand::Import(args) => import::run(args),
        TapeCommand::Export(args) => export::run(args),
        TapeCommand::Show(args) => show::run(args),
    }
}

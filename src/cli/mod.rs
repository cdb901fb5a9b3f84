//! The command line: a table of contents of what the library can do.

mod bench;
mod certify;
mod class;
mod completions;
mod generate;
mod inspect;
mod list;
mod models;
mod options;
mod output;
mod report;
mod run;

use clap::{CommandFactory, Parser, Subcommand};

/// Research harness for speculative decoding: is a method exact, how sure is
/// that, and can it be faster on this machine?
#[derive(Debug, Parser)]
#[command(name = "specdec", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run an experiment and report on it
    Run(run::RunArgs),
    /// Print the numbered cells of an experiment, and what it will take
    Plan(run::PlanArgs),
    /// Make summary, figures and report of a results folder again, from its raw rows
    Report(report::ReportArgs),
    /// Continue a prompt, streamed; statistics on standard error
    Generate(generate::GenerateArgs),
    /// Show how the next token's law is made: logits, then each processor
    Inspect(inspect::InspectArgs),
    /// List drafters, draft lengths, verifiers, sampling processors and toy models
    List(list::ListArgs),
    /// Prove methods exact by enumeration; refute known-wrong ones
    Certify(certify::CertifyArgs),
    /// Measure passes against memory and arithmetic, and the best speedup they allow
    Bench(bench::BenchArgs),
    /// Print a completion script for a shell
    Completions(completions::CompletionsArgs),
}

/// Parses the command line and runs the command.
///
/// # Errors
/// One sentence that says what is wrong and what would be right.
pub fn run() -> anyhow::Result<()> {
    let done = match Cli::parse().command {
        Command::Run(args) => run::run(&args),
        Command::Plan(args) => run::plan(&args),
        Command::Report(args) => report::run(&args),
        Command::Generate(args) => generate::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::List(args) => list::run(&args),
        Command::Certify(args) => certify::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Completions(args) => completions::run(&args),
    };
    match done {
        Err(error) if output::is_broken_pipe(&error) => Ok(()),
        done => done,
    }
}

/// The whole command line, for completion scripts.
fn command() -> clap::Command {
    Cli::command()
}

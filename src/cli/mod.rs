//! The command line: one subcommand per task of the library.

mod audit;
mod bench;
mod bugs;
mod certify;
mod check;
mod compare;
mod completions;
mod controls;
mod forecast;
mod gate;
mod generate;
mod groups;
mod inspect;
mod interrupt;
mod list;
mod loss_place;
mod merge;
mod method;
mod models;
mod new;
mod options;
mod output;
mod render_chat;
mod report;
mod run;
mod sampling;
mod schema;
#[cfg(feature = "serve")]
mod serve;
mod simulate;
mod some_prompts;
mod source;
mod submit;
mod tape;
mod tune;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

pub use self::bugs::report_bugs;
use self::interrupt::Interrupted;
use crate::checkpoint::{RENDER_CHAT, render_by};
use crate::io::fold::folded;
use crate::io::terminal;

/// Research harness for speculative decoding: is a method exact, and is it faster on this
/// machine?
#[derive(Debug, Parser)]
#[command(name = "specdec", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run an experiment and write its report
    Run(run::RunArgs),
    /// List the cells of an experiment and estimate its time and disk space
    Plan(run::PlanArgs),
    /// Rewrite summary.csv, the figures and both forms of the report of a results folder from its raw rows
    Report(report::ReportArgs),
    /// Print or send what runs an experiment in parts on many machines, merges them and reports
    Submit(Box<submit::SubmitArgs>),
    /// Merge the results folders of a run's parts, which several machines have written, into one
    Merge(merge::MergeArgs),
    /// Compare the same cells in two runs, in acceptance and, on one machine, in time
    Compare(compare::CompareArgs),
    /// Test from two logs of any engine whether acceptance has dropped; exit code 1 if it has
    Gate(gate::GateArgs),
    /// Continue a prompt; stream the text to standard output, statistics to standard error
    Generate(Box<generate::GenerateArgs>),
    /// Show the next token's logits, and its distribution after each sampling processor
    Inspect(inspect::InspectArgs),
    /// List drafters, draft lengths, verifiers, sampling processors and toy models
    List(list::ListArgs),
    /// List the models that can be named here, and the pairs that share a tokenizer
    Models(models::ModelsArgs),
    /// Prove methods exact by enumeration, and refute known-wrong methods
    Certify(certify::CertifyArgs),
    /// Forecast within minutes whether a draft makes a target faster on this machine
    Check(check::CheckArgs),
    /// Write a commented experiment.toml for a pair of models and prompts
    New(new::NewArgs),
    /// Record texts of a target, and let drafters read them
    Tape(tape::TapeArgs),
    /// Forecast from a tape what drafts would give, for every K and rule
    Forecast(forecast::ForecastArgs),
    /// Simulate a server on the sequences of a tape: throughput and latency by load and policy
    Simulate(simulate::SimulateArgs),
    /// Find the fastest way to decode by forecasts, measure it, and show both
    Tune(tune::TuneArgs),
    /// Test from the output of any decoder whether it is exact, and name the bug if not
    Audit(Box<audit::AuditArgs>),
    /// Serve a pair of models to clients of OpenAI's protocol
    #[cfg(feature = "serve")]
    Serve(Box<serve::ServeArgs>),
    /// Time passes of 1 to 16 rows, and compare them with memory bandwidth and FMA peak
    Bench(bench::BenchArgs),
    /// Print the keys of experiment.toml, as a JSON Schema or as Markdown
    Schema(schema::SchemaArgs),
    /// Print a shell completion script
    Completions(completions::CompletionsArgs),
}

/// Parses the command line and runs the command. Prints every error as one sentence on
/// standard error. Exit codes: 0 success, 1 error, 2 invalid command line, 101 panic (a bug),
/// 130 run stopped by Ctrl-C.
pub fn main() -> ExitCode {
    report_bugs();
    if std::env::args_os().nth(1).is_some_and(|command| command == RENDER_CHAT) {
        return render_chat::run();
    }
    render_by(own_program());
    let parsed = command().try_get_matches().and_then(|found| Cli::from_arg_matches(&found));
    let done = match parsed {
        Ok(cli) => run(cli.command),
        Err(error) if error.use_stderr() => return refuse(&error),
        Err(help) => show(&help),
    };
    let Err(error) = done else { return ExitCode::SUCCESS };
    if output::is_broken_pipe(&error) {
        return ExitCode::SUCCESS;
    }
    // Error messages of libraries may have several lines.
    let sentence = format!("{error:#}");
    let sentence = sentence.lines().map(str::trim).collect::<Vec<_>>().join(" ");
    if error.is::<Interrupted>() {
        terminal::say(sentence);
        return ExitCode::from(interrupt::ENDED);
    }
    terminal::say(format_args!("error: {sentence}"));
    ExitCode::FAILURE
}

/// The program that runs. On Linux the first path names it even after an update has replaced it.
fn own_program() -> PathBuf {
    let own = Path::new("/proc/self/exe");
    let named = || std::env::current_exe().unwrap_or_else(|_| env!("CARGO_PKG_NAME").into());
    if own.exists() { own.to_owned() } else { named() }
}

/// Prints what is wrong with the command line.
fn refuse(error: &clap::Error) -> ExitCode {
    let mut args = std::env::args_os().enumerate();
    match args.find(|(_, arg)| arg.to_str().is_none()) {
        Some((i, arg)) if error.kind() == ErrorKind::InvalidUtf8 => {
            terminal::say(format_args!("error: argument {i} is not UTF-8 text: {}", arg.display()));
        }
        _ => terminal::say(error.render().to_string().trim_end()),
    }
    ExitCode::from(2)
}

/// Prints help or the version.
fn show(help: &clap::Error) -> anyhow::Result<()> {
    let text = help.render();
    if output::on_terminal() && !output::no_colour() {
        // The lists of commands are not folded yet.
        output::write_raw(&folded(&text.ansi().to_string(), terminal::output_width()))
    } else {
        output::show(&text.to_string())
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Run(args) => run::run(&args),
        Command::Plan(args) => run::plan(&args),
        Command::Report(args) => report::run(&args),
        Command::Submit(args) => submit::run(&args),
        Command::Merge(args) => merge::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Gate(args) => gate::run(&args),
        Command::Generate(args) => generate::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::List(args) => list::run(&args),
        Command::Models(args) => models::run(&args),
        Command::Certify(args) => certify::run(&args),
        Command::Check(args) => check::run(&args),
        Command::New(args) => new::run(&args),
        Command::Tape(args) => tape::run(&args),
        Command::Forecast(args) => forecast::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Tune(args) => tune::run(&args),
        Command::Audit(args) => audit::run(&args),
        #[cfg(feature = "serve")]
        Command::Serve(args) => serve::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Schema(args) => schema::run(&args),
        Command::Completions(args) => completions::run(&args),
    }
}

/// The whole command line.
fn command() -> clap::Command {
    groups::grouped(Cli::command())
}

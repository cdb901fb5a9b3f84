//! `specdec tape import`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};

use super::show::contents;
use crate::cli::models::open_pair;
use crate::cli::options::{ModelArgs, count};
use crate::cli::output;
use crate::cli::sampling::SamplingArgs;
use crate::io::shown::count as counted;
use crate::io::terminal;
use crate::method::draft::DRAFTERS;
use crate::tapes::recording::{Import, MODEL, TAPE_FORMATS, TapeFormat};
use crate::tapes::tape::{TapeDrafter, TapeModel};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  specdec tape import vllm.jsonl --format vllm --out vllm.tape.jsonl
  specdec tape import sglang.jsonl --format sglang --temperature 0.7 --target models/big \\
      --out sglang.tape.jsonl

Each line of FILE is a response, or {\"request\": …, \"response\": …}. With --target, that model
computes log p, and its tokenizer finds the ids of tokens and prompts that were logged as text.
Without it, the logged log-probabilities are used if the tokens were drawn with them: at temperature
1 without truncation and penalties, or with --processed.")]
pub(super) struct ImportArgs {
    /// The log of another program, as JSON lines
    file: PathBuf,
    /// The format of the log
    #[arg(long, value_name = "NAME", value_parser = formats())]
    format: String,
    /// The tape to write
    #[arg(long, short = 'o', value_name = "FILE")]
    out: PathBuf,
    /// The logged log-probabilities are those after temperature, truncation and penalties
    #[arg(long)]
    processed: bool,
    /// Maximum number of tokens that completions which ended could have had [default: one more than
    /// they have]
    #[arg(long, value_name = "N", value_parser = count)]
    max_tokens: Option<usize>,
    /// The drafter of logged rounds, if the log does not state it (see `specdec list`)
    #[arg(long, value_name = "NAME", default_value = MODEL,
        value_parser = PossibleValuesParser::new(DRAFTERS.iter().map(|entry| entry.name)))]
    drafter: String,
    #[command(flatten)]
    models: ModelArgs,
    #[command(flatten)]
    sampling: SamplingArgs,
}

impl ImportArgs {
    fn drafter(&self) -> TapeDrafter {
        let known = TapeDrafter { drafter: self.drafter.clone(), ..TapeDrafter::default() };
        let name = self.models.draft.clone().unwrap_or_default();
        let model = known.needs_model().then(|| TapeModel { name, ..TapeModel::default() });
        TapeDrafter { model, ..known }
    }
}

fn formats() -> PossibleValuesParser {
    let value = |format: &TapeFormat| PossibleValue::new(format.name).help(format.summary);
    PossibleValuesParser::new(TAPE_FORMATS.iter().map(value))
}

/// Imports the sequences, and says what the tape holds.
pub(super) fn run(args: &ImportArgs) -> Result<()> {
    let format = TAPE_FORMATS.iter().find(|format| format.name == args.format);
    let format = format.unwrap_or(&TAPE_FORMATS[0]);
    let sampling = args.sampling.target()?;
    let pair = match &args.models.target {
        Some(_) => Some(open_pair(&args.models, false, false)?),
        None => None,
    };
    let target = pair
        .as_ref()
        .map(|(pair, (name, _))| (name.as_str(), &*pair.target.model, &*pair.target.codec));
    let (processed, max_tokens) = (args.processed, args.max_tokens);
    let drafter = args.drafter();
    let drafter = &drafter;
    let import = Import { format, sampling, processed, max_tokens, target, drafter };
    let (file, found) = import.run(&args.file, &args.out)?;
    terminal::say(contents(file.tape()).trim_end());
    if found.spelled + found.unspelled > 0 {
        terminal::say(format_args!(
            "{} of {} were found by their bytes",
            found.spelled,
            counted(found.spelled + found.unspelled, "token")
        ));
    }
    let logs = "of which only the rounds are known: `specdec simulate` reads them";
    let decoded = "with logged rounds: `specdec simulate` reads them";
    let foreign = "of drafts left out, since they have other lengths than their completions";
    let unknown = "left out, since a token is unknown";
    for (n, thing, what) in [
        (found.logs, "completion", logs),
        (found.decoded, "sequence", decoded),
        (found.foreign_drafts, "list", foreign),
        (found.unknown, "sequence", unknown),
    ] {
        if n > 0 {
            terminal::say(format_args!("{} {what}", counted(n, thing)));
        }
    }
    output::line(args.out.display())
}

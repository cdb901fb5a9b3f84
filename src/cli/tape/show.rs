//! `specdec tape show`: what a tape holds.

use std::fmt::Write;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use crate::cli::output;
use crate::io::shown::{self, count};
use crate::measure::statistics::looped_tokens;
use crate::tapes::recording::read_tape_file;
use crate::tapes::tape::{Tape, TapeEnd, TapeLog};

#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    /// The tape, plain or compressed
    tape: PathBuf,
}

/// Says what a tape holds.
pub(super) fn run(args: &ShowArgs) -> Result<()> {
    output::show(&contents(&read_tape_file(&args.tape)?))
}

/// What a tape holds, in words.
pub(super) fn contents(tape: &Tape) -> String {
    let mut text = String::new();
    let (header, sequences) = (&tape.header, &tape.sequences);
    let tokens = sequences.iter().map(|sequence| sequence.tokens.len()).sum::<usize>();
    let prompts = sequences
        .iter()
        .map(|sequence| &sequence.prompt)
        .collect::<std::collections::BTreeSet<_>>();
    let ended = sequences.iter().filter(|sequence| sequence.end == TapeEnd::Token).count();
    let looped = sequences.iter().map(|sequence| looped_tokens(&sequence.tokens)).sum::<usize>();
    let target = shown::line(&header.target.describe());
    let _ = writeln!(
        text,
        "sequences {} of {}, {tokens} tokens, {ended} ended",
        sequences.len(),
        count(prompts.len(), "prompt")
    );
    if tokens > 0 {
        let share = 100.0 * looped as f64 / tokens as f64;
        let _ = writeln!(text, "loops     hold {share:.1} % of the tokens");
    }
    let _ = writeln!(text, "target    {target} ({})", shown::line(&header.source));
    let logs = |of: &dyn Fn(&TapeLog) -> bool| tape.logs.iter().filter(|log| of(log)).count();
    let decoded = logs(&|log| log.sequence.is_some());
    if decoded > 0 {
        let _ = writeln!(text, "rounds    of {}", count(decoded, "sequence"));
    }
    if decoded < tape.logs.len() {
        let alone = tape.logs.iter().filter(|log| log.sequence.is_none());
        let tokens = alone.map(|log| log.tokens).sum::<usize>();
        let _ = writeln!(
            text,
            "rounds    of {} without their tokens, {tokens} tokens",
            count(tape.logs.len() - decoded, "completion")
        );
    }
    for (number, sampling) in header.samplings.iter().enumerate() {
        let own = sequences.iter().filter(|sequence| sequence.sampling == number).count();
        let own = own + logs(&|log| log.sequence.is_none() && log.sampling == number);
        let set = sampling.changes().map(|(key, value)| format!(" {key} = {value}"));
        let set = set.collect::<Vec<_>>().join(",");
        let set = if set.is_empty() { " temperature = 1".to_owned() } else { set };
        let _ = writeln!(text, "sampling {set}: {}", count(own, "sequence"));
    }
    for (number, drafter) in tape.drafters.iter().enumerate() {
        let read = (0..sequences.len()).filter(|&at| tape.score(number, at).is_some()).count();
        let read = read + logs(&|log| log.drafter == number);
        let _ = writeln!(
            text,
            "drafter   {}: {}",
            shown::line(&drafter.describe()),
            count(read, "sequence")
        );
    }
    text
}

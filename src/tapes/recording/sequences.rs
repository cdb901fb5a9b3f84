//! Sequences of any program as JSON lines, one object each: `prompt_ids` and `output_ids` and, if
//! they are known, the sampling settings, the seed, how the completion ended, and its rounds.

use std::io::BufRead;
use std::path::Path;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::header;
use super::import::{named, number_repeats};
use super::parquet::read_parquet;
use super::tape_file::Opened;
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::core::sampling::SamplingParams;
use crate::tapes::tape::{Tape, TapeEnd, TapeLine, TapeModel, TapeSequence, read_tape};

/// Sequences, and what a tape does not hold of them.
#[derive(Debug)]
pub struct ExternalSequences {
    /// The sequences.
    pub tape: Tape,
    /// What else is known of each.
    pub reports: Vec<SequenceReport>,
}

/// What a program reported about a sequence.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SequenceReport {
    /// Its seed.
    pub seed: Option<u64>,
    /// The accepted tokens of each round.
    pub accepted: Option<Vec<usize>>,
    /// The drafted ones.
    pub drafted: Option<Vec<usize>>,
}

/// A sequence as a line of JSON; `docs/audit.md` describes the fields.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SequenceLine {
    /// A name of the prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The tokens of the prompt.
    pub prompt_ids: Vec<Token>,
    /// The tokens of the completion.
    pub output_ids: Vec<Token>,
    /// How they were drawn.
    #[serde(default)]
    pub sampling: SamplingParams,
    /// The seed of the completion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// How the completion ended.
    #[serde(default)]
    pub finish: TapeEnd,
    /// The accepted tokens of each round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<Vec<usize>>,
    /// The drafted tokens of each round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drafted: Option<Vec<usize>>,
    /// Number of target passes; not used here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passes: Option<usize>,
    /// Anything else that the program wants to keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<serde_json::Value>,
}

/// Reads a tape, or sequences as JSON lines.
///
/// # Errors
/// If the file is neither, or cannot be read; names the file and the line.
pub fn read_external_sequences(path: &Path) -> Result<ExternalSequences> {
    let why = |error| Error::file(path, error);
    let mut lines = match Opened::open(path)? {
        Opened::Parquet(file) => return Ok(read_parquet(file, path)?.into()),
        Opened::Lines(lines) => lines,
    };
    if lines.fill_buf().map_err(why)?.starts_with(TAPE) {
        return Ok(read_tape(lines, path)?.tape.into());
    }
    let mut found = ExternalSequences::empty().map_err(Error::input)?;
    for (number, line) in (1..).zip(lines.lines()) {
        let line = line.map_err(why)?;
        if line.trim().is_empty() {
            continue;
        }
        let added = SequenceLine::parse(line.as_bytes()).and_then(|line| found.add(line));
        added.map_err(|why| Error::file(path, format!("line {number}: {why}")))?;
    }
    number_repeats(&mut found.tape.sequences);
    Ok(found)
}

/// How a tape begins.
const TAPE: &[u8] = b"{\"tape\":";

impl From<Tape> for ExternalSequences {
    fn from(tape: Tape) -> Self {
        let reports = tape.sequences.iter().map(|_| SequenceReport::default()).collect();
        Self { tape, reports }
    }
}

impl ExternalSequences {
    fn empty() -> Result<Self, String> {
        let header = header("sequences", TapeModel::default(), Vec::new());
        Ok(Self { tape: Tape::new(header)?, reports: Vec::new() })
    }

    fn add(&mut self, line: SequenceLine) -> Result<(), String> {
        line.sampling.validate().map_err(|bad| format!("in \"sampling\": {bad}"))?;
        if line.prompt_ids.is_empty() {
            return Err("\"prompt_ids\" is empty: a prompt has at least one token".to_owned());
        }
        let samplings = &mut self.tape.header.samplings;
        let known = samplings.iter().position(|known| *known == line.sampling);
        let sampling = known.unwrap_or(samplings.len());
        if known.is_none() {
            samplings.push(line.sampling.clone());
        }
        let tokens = line.output_ids.len();
        check_rounds(&line)?;
        self.tape.add(TapeLine::Sequence(TapeSequence {
            prompt: line.prompt.unwrap_or_else(|| named(&line.prompt_ids)),
            sampling,
            prompt_tokens: line.prompt_ids,
            max_tokens: tokens + usize::from(line.finish == TapeEnd::Token),
            tokens: line.output_ids,
            end: line.finish,
            ..TapeSequence::default()
        }))?;
        let SequenceLine { seed, accepted, drafted, .. } = line;
        self.reports.push(SequenceReport { seed, accepted, drafted });
        Ok(())
    }
}

impl SequenceLine {
    /// Reads a line of JSON.
    ///
    /// # Errors
    /// Says what is wrong with it; a row of a file of prompts is recognised.
    pub fn parse(line: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(line).map_err(|error| match is_prompt(line) {
            true => "it is a prompt without a completion; expected are completions, with \
                     \"prompt_ids\" and \"output_ids\" in each line, or a tape"
                .to_owned(),
            false => error.to_string(),
        })
    }

    /// Checks what [`read_external_sequences`] checks of a line.
    ///
    /// # Errors
    /// Names what is wrong with it.
    pub fn check(&self) -> Result<(), String> {
        ExternalSequences::empty()?.add(self.clone())
    }
}

/// Whether a line has the prompt of a file of prompts, and no tokens.
fn is_prompt(line: &[u8]) -> bool {
    const PROMPTS: [&str; 6] =
        ["prompt", "turns", "messages", "conversation", "conversations", "question"];
    const TOKENS: [&str; 2] = ["prompt_ids", "output_ids"];
    let row = serde_json::from_slice::<serde_json::Value>(line).unwrap_or_default();
    let has = |keys: &[&str]| keys.iter().any(|key| row.get(key).is_some());
    has(&PROMPTS) && !has(&TOKENS)
}

/// Checks the reported rounds. The end of the completion may cut the last one, and the first token
/// may come from the prompt's pass.
fn check_rounds(line: &SequenceLine) -> Result<(), String> {
    let Some(accepted) = &line.accepted else {
        return match line.drafted {
            Some(_) => Err("\"drafted\" needs \"accepted\"".to_owned()),
            None => Ok(()),
        };
    };
    let sum = accepted.iter().fold(accepted.len(), |sum, &n| sum.saturating_add(n));
    let tokens = line.output_ids.len();
    if sum.saturating_add(1) < tokens {
        return Err(format!(
            "\"accepted\" accounts for {sum} tokens, and \"output_ids\" has {tokens}"
        ));
    }
    let Some(drafted) = &line.drafted else { return Ok(()) };
    let (rounds, own) = (accepted.len(), drafted.len());
    if own != rounds {
        return Err(format!("\"drafted\" has {own} rounds, and \"accepted\" has {rounds}"));
    }
    match accepted.iter().zip(drafted).find(|(accepted, drafted)| accepted > drafted) {
        Some((a, d)) => Err(format!("\"accepted\" has {a} where \"drafted\" has {d}")),
        None => Ok(()),
    }
}

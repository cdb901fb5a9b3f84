//! Texts that any program wrote as JSON lines, one object each: `prompt_ids` and `output_ids`,
//! and if they are known the sampling settings, the seed, how the text ended and its rounds.

use std::io::BufRead;
use std::path::Path;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::import::{named, number_repeats};
use super::parquet::read_parquet;
use super::tape_file::Opened;
use crate::distribution::Token;
use crate::error::Error;
use crate::experiment::Build;
use crate::sampling::SamplingParams;
use crate::tape::{
    TAPE_FORMAT, Tape, TapeEnd, TapeHeader, TapeLine, TapeModel, TapeText, read_tape,
};

/// Texts, and what a tape has no place for.
#[derive(Debug)]
pub struct OutsideTexts {
    /// The texts.
    pub tape: Tape,
    /// What else is known of each.
    pub told: Vec<ToldOfText>,
}

/// What a program has told of a text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToldOfText {
    /// Its seed.
    pub seed: Option<u64>,
    /// The accepted tokens of each round.
    pub accepted: Option<Vec<usize>>,
    /// The drafted ones.
    pub drafted: Option<Vec<usize>>,
}

/// A text as a line of JSON; `docs/audit.md` describes the fields.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TextLine {
    /// A name of the prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The tokens that the model was given.
    pub prompt_ids: Vec<Token>,
    /// Those that were drawn.
    pub output_ids: Vec<Token>,
    /// How they were drawn.
    #[serde(default)]
    pub sampling: SamplingParams,
    /// The seed of the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// How the text ended.
    #[serde(default = "length")]
    pub finish: TapeEnd,
    /// The accepted tokens of each round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<Vec<usize>>,
    /// The drafted tokens of each round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drafted: Option<Vec<usize>>,
    /// How many passes of the target it took; nothing here needs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passes: Option<usize>,
    /// Whatever the program wants to keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<serde_json::Value>,
}

impl Default for TextLine {
    /// A text that was cut, of nothing.
    fn default() -> Self {
        Self {
            prompt: None,
            prompt_ids: Vec::new(),
            output_ids: Vec::new(),
            sampling: SamplingParams::NEUTRAL,
            seed: None,
            finish: TapeEnd::Cut,
            accepted: None,
            drafted: None,
            passes: None,
            meta: None,
        }
    }
}

fn length() -> TapeEnd {
    TapeEnd::Cut
}

/// Reads a tape, or texts as JSON lines.
///
/// # Errors
/// If the file is neither, or cannot be read; names the file and the line.
pub fn read_outside_texts(path: &Path) -> Result<OutsideTexts> {
    let why = |error| Error::file(path, error);
    let mut lines = match Opened::open(path)? {
        Opened::Parquet(file) => return Ok(read_parquet(file, path)?.into()),
        Opened::Lines(lines) => lines,
    };
    if lines.fill_buf().map_err(why)?.starts_with(TAPE) {
        return Ok(read_tape(lines, path)?.tape.into());
    }
    let mut found = OutsideTexts { tape: empty()?, told: Vec::new() };
    for (number, line) in (1..).zip(lines.lines()) {
        let line = line.map_err(why)?;
        if line.trim().is_empty() {
            continue;
        }
        let added = serde_json::from_str(&line).map_err(|error| error.to_string());
        let added = added.and_then(|line| found.add(line));
        added.map_err(|why| Error::file(path, format!("line {number}: {why}")))?;
    }
    number_repeats(&mut found.tape.texts);
    Ok(found)
}

/// How a tape begins.
const TAPE: &[u8] = b"{\"tape\":";

impl From<Tape> for OutsideTexts {
    fn from(tape: Tape) -> Self {
        let told = tape.texts.iter().map(|_| ToldOfText::default()).collect();
        Self { tape, told }
    }
}

fn empty() -> Result<Tape> {
    let header = TapeHeader {
        format: TAPE_FORMAT,
        source: "texts".to_owned(),
        build: Build::this().describe(),
        target: TapeModel::default(),
        seed: None,
        ignore_eos: false,
        samplings: Vec::new(),
    };
    Ok(Tape::new(header).map_err(Error::input)?)
}

impl OutsideTexts {
    fn add(&mut self, line: TextLine) -> Result<(), String> {
        line.sampling.validate().map_err(|bad| format!("in \"sampling\": {bad}"))?;
        if line.prompt_ids.is_empty() {
            return Err("\"prompt_ids\" is empty: a text continues one token at least".to_owned());
        }
        let samplings = &mut self.tape.header.samplings;
        let known = samplings.iter().position(|known| *known == line.sampling);
        let sampling = known.unwrap_or(samplings.len());
        if known.is_none() {
            samplings.push(line.sampling);
        }
        let tokens = line.output_ids.len();
        check_rounds(&line)?;
        self.tape.add(TapeLine::Text(TapeText {
            prompt: line.prompt.unwrap_or_else(|| named(&line.prompt_ids)),
            category: String::new(),
            repeat: 0,
            sampling,
            prompt_tokens: line.prompt_ids,
            max_tokens: tokens + usize::from(line.finish == TapeEnd::Token),
            tokens: line.output_ids,
            end: line.finish,
            log_p: None,
        }))?;
        let TextLine { seed, accepted, drafted, .. } = line;
        self.told.push(ToldOfText { seed, accepted, drafted });
        Ok(())
    }
}

/// Checks what is told of rounds; the end of the text may cut the last one, and the first token
/// may come from the prompt's pass.
fn check_rounds(line: &TextLine) -> Result<(), String> {
    let Some(accepted) = &line.accepted else {
        return match line.drafted {
            Some(_) => Err("\"drafted\" needs \"accepted\"".to_owned()),
            None => Ok(()),
        };
    };
    let (sum, tokens) = (accepted.iter().sum::<usize>() + accepted.len(), line.output_ids.len());
    if sum + 1 < tokens {
        return Err(format!("\"accepted\" tells of {sum} tokens, and \"output_ids\" has {tokens}"));
    }
    let Some(drafted) = &line.drafted else { return Ok(()) };
    let (rounds, own) = (accepted.len(), drafted.len());
    if own != rounds {
        return Err(format!("\"drafted\" tells of {own} rounds, and \"accepted\" of {rounds}"));
    }
    match accepted.iter().zip(drafted).find(|(accepted, drafted)| accepted > drafted) {
        Some((a, d)) => Err(format!("\"accepted\" has {a} where \"drafted\" has {d}")),
        None => Ok(()),
    }
}

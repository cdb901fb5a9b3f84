//! Cells and the plan that lists them: data that `run` writes and `report` reads.

use std::collections::BTreeMap;
use std::ops::Deref;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::arguments::ChatArguments;
use super::choice::Choice;
use super::point::SweepPoint;
use super::training::Training;
use crate::core::distribution::Token;
use crate::model::{CacheDtype, ExpertBytes, Vocabulary, hex};

/// A point of the sweep, as the plan lists it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Cell {
    /// Content hash of everything that may change tokens: models, engine, dtype, type of the
    /// KV cache, device, vocabulary, special tokens, sampling, beam search, chat arguments, drafter,
    /// verifier, length, and the paths and contents of the texts that they read. Never threads or
    /// clock.
    pub id: String,
    /// What is run.
    #[serde(flatten)]
    pub point: SweepPoint,
    /// Guarantee: D, G, P or X, with `~` where the engine is not row-invariant.
    pub class: String,
    /// Whether it repeats another cell, to show how much results differ by chance alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub control: bool,
}

/// A cell is its point with a name: `cell.method` is that of the point.
impl Deref for Cell {
    type Target = SweepPoint;

    fn deref(&self) -> &SweepPoint {
        &self.point
    }
}

impl Cell {
    /// Whether this is the plain decoding that cells with its goal are compared with.
    pub fn is_baseline(&self) -> bool {
        self.method.is_plain() && !self.control
    }
}

fn is_usual(thinking: &[String; 2]) -> bool {
    *thinking == super::spec::usual()
}

/// A model as pinned by the plan.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PlannedModel {
    /// Name or path in the experiment.
    pub name: String,
    /// SHA-256 over weights, configuration and tokenizer.
    pub sha256: String,
    /// The commit of the Hugging Face repository that it is from, if it has the name of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// The engine that computes its logits.
    pub engine: String,
    /// Type of its weights in memory.
    pub dtype: String,
    /// How it stores keys and values.
    #[serde(default, skip_serializing_if = "CacheDtype::is_f32")]
    pub kv_cache_dtype: CacheDtype,
    /// The device that holds them, if it is not the CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Which of its tokens a draft model proposes, if not all.
    #[serde(default, skip_serializing_if = "Vocabulary::is_same")]
    pub vocabulary: Vocabulary,
    /// Its end-of-text tokens; unknown before format 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eos: Option<Vec<Token>>,
    /// Whether one pass drafts all tokens.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_once: bool,
    /// The experts of its sparse layers, if it has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experts: Option<ExpertBytes>,
    /// What a drafter was trained on, if its folder says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub training: Option<Training>,
}

/// Version of the row format. Only a run with the same version can be continued or merged.
pub const FORMAT: u32 = 3;

/// The earliest version that can be read. Its rounds count accepted tokens behind the end of a
/// completion, too.
pub(super) const OLDEST_FORMAT: u32 = 2;

/// `plan.toml`: everything that is decided before the first token.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// [`FORMAT`] of its rows.
    pub format: u32,
    /// Name of the experiment's folder.
    pub experiment: String,
    /// What the experiment asks.
    pub question: String,
    /// Content hash of the whole plan, for finding a folder to resume.
    pub hash: String,
    /// Tokens that end a generation, besides those of the target.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop_token_ids: Vec<Token>,
    /// New tokens per generation.
    pub max_tokens: usize,
    /// Generations per prompt and cell.
    pub repeats: u32,
    /// Seed of all draws.
    pub seed: u64,
    /// Whether end-of-text tokens are ordinary tokens, so that all texts have the same
    /// length.
    pub ignore_eos: bool,
    /// Whether strings in prompts that name control tokens become these tokens.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub special_tokens: bool,
    /// Whether prompts are written as the target's chat template does.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub chat: bool,
    /// The strings before and after what the target thinks.
    #[serde(default = "super::spec::usual", skip_serializing_if = "is_usual")]
    pub thinking: [String; 2],
    /// Whether passes keep keys and values; otherwise each computes the whole text again. On a
    /// row-invariant engine, no token depends on that.
    #[serde(default = "super::spec::yes", skip_serializing_if = "Clone::clone")]
    pub kv_cache: bool,
    /// Whether `positions.csv` is written.
    pub trace: bool,
    /// `real` or `virtual`.
    pub clock: String,
    /// Warm-up generations per cell.
    pub warmup: u32,
    /// Identifiers of the prompts, in order.
    pub prompts: Vec<String>,
    /// SHA-256 over the prompts: ids, categories, texts and tokens.
    pub prompts_sha256: String,
    /// For every prompt that has the same tokens as an earlier one, the first such prompt.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub copies: BTreeMap<String, String>,
    /// How they were chosen from the prompts that the experiment names.
    #[serde(default, skip_serializing_if = "Choice::is_all")]
    pub choice: Choice,
    /// The number of turns of each question that has several, by its id. The prompts of its
    /// further turns are called `id/2`, `id/3` and so on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub turns: BTreeMap<String, usize>,
    /// SHA-256 of the text files that drafters read, by path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub texts: BTreeMap<String, String>,
    /// The target.
    pub target: PlannedModel,
    /// The draft model, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draft: Option<PlannedModel>,
    /// The cells in order: for each goal, the baseline and then its cells.
    pub cells: Vec<Cell>,
}

impl Plan {
    /// The first prompt with the same tokens.
    pub fn original<'a>(&'a self, prompt: &'a str) -> &'a str {
        self.copies.get(prompt).map_or(prompt, String::as_str)
    }

    /// The number of prompts that differ from each other.
    pub fn distinct_prompts(&self) -> usize {
        self.prompts.len() - self.copies.len()
    }

    /// For every prompt, the index of the first one whose times are not independent of its own:
    /// prompts of a batch share their times, and equal prompts are one.
    pub fn clusters(&self, batch: usize) -> Vec<usize> {
        let mut first = (0..self.prompts.len()).map(|at| at / batch * batch).collect::<Vec<_>>();
        let places = self.prompts.iter().zip(0..).collect::<BTreeMap<_, usize>>();
        let root = |first: &[usize], mut at: usize| {
            while first[at] != at {
                at = first[at];
            }
            at
        };
        for (copy, original) in &self.copies {
            let [one, other] = [copy, original].map(|prompt| root(&first, places[prompt]));
            first[one.max(other)] = one.min(other);
        }
        (0..first.len()).map(|at| root(&first, at)).collect()
    }

    /// The places of the cells that are run twice, each with that of its repetition.
    pub fn controls(&self) -> Vec<[usize; 2]> {
        let first = |again: &Cell| {
            self.cells.iter().position(|cell| !cell.control && cell.point == again.point)
        };
        let repeated = self.cells.iter().enumerate().filter(|(_, cell)| cell.control);
        repeated.filter_map(|(at, again)| Some([first(again)?, at])).collect()
    }

    /// The sets of arguments of the chat template, in the order of the cells.
    pub fn arguments(&self) -> Vec<&ChatArguments> {
        let mut found = Vec::new();
        for cell in &self.cells {
            if !found.contains(&&cell.chat_arguments) {
                found.push(&cell.chat_arguments);
            }
        }
        found
    }

    /// Where the tokens of a cell's first prompt are among those of all prompts, which are there
    /// for one set of arguments after the other.
    pub(super) fn first_tokens(&self, cell: &Cell) -> usize {
        let sets = self.arguments();
        let set = sets.iter().position(|set| **set == cell.chat_arguments).unwrap_or_default();
        set * self.prompts.len()
    }

    /// The number of prompts that a cell gets: those that fill whole batches.
    pub fn prompts_of(&self, cell: &Cell) -> usize {
        self.prompts.len() / cell.batch * cell.batch
    }
}

/// A cell in words, for messages and progress.
pub fn describe(cell: &Cell) -> String {
    cell.in_words() + if cell.control { ", again" } else { "" }
}

/// Twelve hexadecimal digits of a text's SHA-256.
pub(super) fn short_hash(text: &str) -> String {
    hex(&Sha256::digest(text))[..12].to_owned()
}

//! Blocks, the units of work: what is in one, in which order they run, and the
//! row that records one when all its other rows are written.

use std::collections::BTreeMap;

use anyhow::Result;
use sha2::{Digest, Sha256};

use super::cell::{Cell, Plan};
use super::files::{csv_bytes, text_lines};
use super::prompts::Prompt;
use super::records::{
    BlockRow, DivergenceRow, FailureRow, GenerationRow, PositionRow, RoundRow, TextRow,
};
use crate::chance::Request;
use crate::distribution::Token;
use crate::model::hex;

/// A prompt, a repeat and a sampling setting with its baseline and its cells.
#[derive(Debug)]
pub(super) struct Block<'a> {
    pub(super) number: usize,
    pub(super) prompt: &'a Prompt,
    pub(super) tokens: &'a [Token],
    pub(super) repeat: u32,
    pub(super) cells: Vec<&'a Cell>,
}

impl Block<'_> {
    /// What its random numbers belong to.
    pub(super) fn request(&self, seed: u64) -> Request<'_> {
        Request { seed, prompt: &self.prompt.id, repeat: self.repeat }
    }
}

/// All blocks in order. Within a block the cells take turns in an order that is
/// rotated from block to block, so that none is always first.
pub(super) fn blocks<'a>(
    plan: &'a Plan,
    prompts: &'a [Prompt],
    tokens: &'a [Vec<Token>],
) -> Vec<Block<'a>> {
    let settings = plan.settings();
    let mut blocks = Vec::new();
    for repeat in 0..plan.repeats {
        for (prompt, tokens) in prompts.iter().zip(tokens) {
            for cells in &settings {
                let mut cells = cells.clone();
                let number = blocks.len();
                let turn = number / settings.len() % cells.len();
                cells.rotate_left(turn);
                blocks.push(Block { number, prompt, tokens, repeat, cells });
            }
        }
    }
    blocks
}

/// Where the rows of a generation belong: the number of its block by cell,
/// prompt and repeat.
#[derive(Debug)]
pub(crate) struct Places<'a> {
    settings: BTreeMap<&'a str, usize>,
    prompts: BTreeMap<&'a str, usize>,
    per_prompt: usize,
    plan: &'a Plan,
}

impl<'a> Places<'a> {
    /// Of the blocks of a plan.
    pub(crate) fn new(plan: &'a Plan) -> Self {
        let settings = plan.settings();
        let cells = settings.iter().enumerate();
        let cells = cells.flat_map(|(i, cells)| cells.iter().map(move |cell| (&*cell.id, i)));
        let prompts = plan.prompts.iter().enumerate().map(|(i, id)| (id.as_str(), i));
        Self {
            settings: cells.collect(),
            prompts: prompts.collect(),
            per_prompt: settings.len(),
            plan,
        }
    }

    /// The number of a block; `None` if the plan has no such generation.
    pub(crate) fn block(&self, cell: &str, prompt: &str, repeat: u32) -> Option<usize> {
        let prompt = self.prompts.get(prompt)?;
        let setting = self.settings.get(cell)?;
        let before = repeat as usize * self.plan.prompts.len() + prompt;
        (repeat < self.plan.repeats).then_some(before * self.per_prompt + setting)
    }
}

/// Everything one block adds.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct BlockRows {
    /// To `rounds.csv`.
    pub(crate) rounds: Vec<RoundRow>,
    /// To `positions.csv`.
    pub(crate) positions: Vec<PositionRow>,
    /// To `generations.jsonl`.
    pub(crate) texts: Vec<TextRow>,
    /// To `failures.csv`.
    pub(crate) failures: Vec<FailureRow>,
    /// To `divergences.csv`.
    pub(crate) divergences: Vec<DivergenceRow>,
    /// To `generations.csv`.
    pub(crate) generations: Vec<GenerationRow>,
}

/// Hexadecimal digits of a digest that a block's row keeps of each file: enough
/// to notice damage.
const DIGITS: usize = 8;

impl BlockRows {
    /// The files that the rows go to, in the order in which they are written,
    /// with the rows as they stand there.
    ///
    /// # Errors
    /// If a row cannot be written as text.
    pub(crate) fn files(&self) -> Result<[(&'static str, Vec<u8>); 6]> {
        Ok([
            ("rounds.csv", csv_bytes(&self.rounds, false)?),
            ("positions.csv", csv_bytes(&self.positions, false)?),
            ("generations.jsonl", text_lines(&self.texts)?),
            ("failures.csv", csv_bytes(&self.failures, false)?),
            ("divergences.csv", csv_bytes(&self.divergences, false)?),
            ("generations.csv", csv_bytes(&self.generations, false)?),
        ])
    }

    /// How many rows go to each of [`Self::files`].
    pub(crate) fn counts(&self) -> [usize; 6] {
        [
            self.rounds.len(),
            self.positions.len(),
            self.texts.len(),
            self.failures.len(),
            self.divergences.len(),
            self.generations.len(),
        ]
    }

    /// The beginning of the SHA-256 of the rows in each of [`Self::files`].
    ///
    /// # Errors
    /// If a row cannot be written as text.
    pub(crate) fn digests(&self) -> Result<String> {
        Ok(self.files()?.map(|(_, bytes)| digest(&bytes)).join("-"))
    }
}

/// The beginning of the SHA-256 of some bytes.
fn digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))[..DIGITS].to_owned()
}

impl BlockRow {
    /// What is listed of a block's rows.
    ///
    /// # Errors
    /// If a row cannot be written as text.
    pub(super) fn listing(rows: &BlockRows) -> Result<Self> {
        let [rounds, positions, texts, failures, divergences, generations] = rows.counts();
        let digests = rows.digests()?;
        Ok(Self {
            rounds,
            positions,
            texts,
            failures,
            divergences,
            generations,
            digests,
            ..Self::default()
        })
    }

    /// How many rows the block has in each of [`BlockRows::files`].
    pub(crate) fn counts(&self) -> [usize; 6] {
        [self.rounds, self.positions, self.texts, self.failures, self.divergences, self.generations]
    }

    /// The same row with a digest of itself, which outlives being superseded.
    ///
    /// # Errors
    /// If the row cannot be written as text.
    pub(super) fn sealed(self) -> Result<Self> {
        let open = Self { seal: String::new(), superseded: false, ..self.clone() };
        Ok(Self { seal: digest(&csv_bytes(&[open], false)?), ..self })
    }

    /// Whether this is the row that was written.
    ///
    /// # Errors
    /// If the row cannot be written as text.
    pub(crate) fn is_sealed(&self) -> Result<bool> {
        Ok(self.clone().sealed()?.seal == self.seal)
    }

    /// Whether this and its rows are those that were written.
    ///
    /// # Errors
    /// If a row cannot be written as text.
    pub(crate) fn fits(&self, rows: &BlockRows) -> Result<bool> {
        let same = self.counts() == rows.counts() && self.digests == rows.digests()?;
        Ok(same && self.is_sealed()?)
    }
}

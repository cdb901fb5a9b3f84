//! Blocks, the units of work, and the order in which they run.

use std::collections::BTreeMap;

use super::cell::{Cell, Plan};
use super::prompts::Prompt;
use crate::chance::Request;
use crate::distribution::Token;

/// A prompt, a repeat and a goal with its baseline and its cells.
#[derive(Debug)]
pub(super) struct Block<'a> {
    pub(super) number: usize,
    pub(super) prompt: &'a Prompt,
    pub(super) tokens: &'a [Token],
    pub(super) repeat: u32,
    pub(super) cells: Vec<&'a Cell>,
}

impl Block<'_> {
    /// The request that its random numbers belong to.
    pub(super) fn request(&self, seed: u64) -> Request<'_> {
        Request { seed, prompt: &self.prompt.id, repeat: self.repeat }
    }
}

/// Returns all blocks in order. The order of the cells within a block is rotated from
/// block to block, so that no cell is always first.
pub(super) fn blocks<'a>(
    plan: &'a Plan,
    prompts: &'a [Prompt],
    tokens: &'a [Vec<Token>],
) -> Vec<Block<'a>> {
    let goals = plan.goals();
    let mut blocks = Vec::new();
    for repeat in 0..plan.repeats {
        for (prompt, tokens) in prompts.iter().zip(tokens) {
            for cells in &goals {
                let mut cells = cells.clone();
                let number = blocks.len();
                let turn = number / goals.len() % cells.len();
                cells.rotate_left(turn);
                blocks.push(Block { number, prompt, tokens, repeat, cells });
            }
        }
    }
    blocks
}

/// Finds the block of a generation by its cell, prompt and repeat.
#[derive(Debug)]
pub(crate) struct Places<'a> {
    goals: BTreeMap<&'a str, usize>,
    prompts: BTreeMap<&'a str, usize>,
    per_prompt: usize,
    plan: &'a Plan,
}

impl<'a> Places<'a> {
    /// The lookup for the blocks of a plan.
    pub(crate) fn new(plan: &'a Plan) -> Self {
        let goals = plan.goals();
        let cells = goals.iter().enumerate();
        let cells = cells.flat_map(|(i, cells)| cells.iter().map(move |cell| (&*cell.id, i)));
        let prompts = plan.prompts.iter().enumerate().map(|(i, id)| (id.as_str(), i));
        Self { goals: cells.collect(), prompts: prompts.collect(), per_prompt: goals.len(), plan }
    }

    /// [`Self::block`] as a function.
    pub(crate) fn lookup(&self) -> impl Fn(&str, &str, u32) -> Option<usize> {
        |cell, prompt, repeat| self.block(cell, prompt, repeat)
    }

    /// The number of a generation's block; `None` if the plan has no such cell, prompt or
    /// repeat.
    pub(crate) fn block(&self, cell: &str, prompt: &str, repeat: u32) -> Option<usize> {
        let prompt = self.prompts.get(prompt)?;
        let goal = self.goals.get(cell)?;
        let before = repeat as usize * self.plan.prompts.len() + prompt;
        (repeat < self.plan.repeats).then_some(before * self.per_prompt + goal)
    }
}

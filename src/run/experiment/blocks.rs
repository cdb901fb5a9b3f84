//! Blocks, the units of work, and the order in which they run.

use std::collections::BTreeMap;

use super::cell::{Cell, Plan};
use super::prompts::Prompt;
use crate::core::chance::Request;
use crate::core::distribution::Token;

/// A prompt in a repeat, which asks every cell for a text.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockText<'a> {
    pub(super) prompt: &'a Prompt,
    pub(super) tokens: &'a [Token],
    pub(super) repeat: u32,
}

impl<'a> BlockText<'a> {
    /// The request that its random numbers belong to.
    pub(super) fn request(&self, seed: u64) -> Request<'a> {
        Request { seed, prompt: &self.prompt.id, repeat: self.repeat }
    }
}

/// Prompts in a repeat and a goal with its baseline and its cells. There are several prompts
/// if the goal is a batch of texts.
#[derive(Debug)]
pub(super) struct Block<'a> {
    pub(super) number: usize,
    /// The texts, as many as the batch of the goal.
    pub(super) texts: Vec<BlockText<'a>>,
    pub(super) cells: Vec<&'a Cell>,
}

impl<'a> Block<'a> {
    pub(super) fn generations(&self) -> usize {
        self.texts.len() * self.cells.len()
    }

    /// The text for a prompt in a repeat.
    pub(super) fn text(&self, prompt: &str, repeat: u32) -> Option<&BlockText<'a>> {
        self.texts.iter().find(|text| text.prompt.id == prompt && text.repeat == repeat)
    }
}

/// What a block of a plan is.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockPlace {
    pub(super) repeat: u32,
    /// The place of its first prompt in the plan.
    pub(super) first: usize,
    /// The place of its goal in the plan.
    pub(super) goal: usize,
}

/// All blocks of a plan in order.
pub(super) fn places(plan: &Plan) -> Vec<BlockPlace> {
    let each = in_a_repeat(plan);
    let blocks = (0..plan.repeats).flat_map(|repeat| {
        each.iter().map(move |&(first, goal)| BlockPlace { repeat, first, goal })
    });
    blocks.collect()
}

/// The blocks of every repeat in order: the places of the first prompt and of the goal. Prompts
/// that do not fill a batch are left out.
fn in_a_repeat(plan: &Plan) -> Vec<(usize, usize)> {
    let batches = plan.goals().iter().map(|cells| cells[0].batch).collect::<Vec<_>>();
    let count = plan.prompts.len();
    let mut blocks = Vec::new();
    for first in 0..count {
        let begins = |batch: usize| first.is_multiple_of(batch) && first + batch <= count;
        let begun = batches.iter().enumerate().filter(|(_, batch)| begins(**batch));
        blocks.extend(begun.map(|(goal, _)| (first, goal)));
    }
    blocks
}

impl Plan {
    /// The number of blocks.
    pub fn blocks(&self) -> usize {
        in_a_repeat(self).len() * self.repeats as usize
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
    let block = |(number, BlockPlace { repeat, first, goal })| {
        let mut cells = goals[goal].clone();
        let batch = cells[0].batch;
        let turn = (repeat as usize * prompts.len() + first) / batch % cells.len();
        cells.rotate_left(turn);
        let tokens = &tokens[plan.first_tokens(cells[0])..];
        let texts = prompts.iter().zip(tokens).skip(first).take(batch);
        let texts = texts.map(|(prompt, tokens)| BlockText { prompt, tokens, repeat });
        Block { number, texts: texts.collect(), cells }
    };
    places(plan).into_iter().enumerate().map(block).collect()
}

/// Finds the block of a generation by its cell, prompt and repeat.
#[derive(Debug)]
pub(crate) struct Places<'a> {
    /// The batch of each cell's goal, and the goal's place.
    goals: BTreeMap<&'a str, (usize, usize)>,
    prompts: BTreeMap<&'a str, usize>,
    /// The number of a block of the first repeat, by its first prompt and its goal.
    numbers: BTreeMap<(usize, usize), usize>,
    repeats: u32,
}

impl<'a> Places<'a> {
    pub(crate) fn new(plan: &'a Plan) -> Self {
        let goals = plan.goals();
        let cells = goals.iter().enumerate();
        let cells = cells.flat_map(|(goal, cells)| {
            cells.iter().map(move |cell| (&*cell.id, (cell.batch, goal)))
        });
        let prompts = plan.prompts.iter().enumerate().map(|(i, id)| (id.as_str(), i)).collect();
        let numbers = in_a_repeat(plan).into_iter().zip(0..).collect();
        Self { goals: cells.collect(), prompts, numbers, repeats: plan.repeats }
    }

    /// [`Self::block`] as a function.
    pub(crate) fn lookup(&self) -> impl Fn(&str, &str, u32) -> Option<usize> {
        |cell, prompt, repeat| self.block(cell, prompt, repeat)
    }

    /// The number of a generation's block; `None` if the plan has no such cell, prompt or
    /// repeat.
    pub(crate) fn block(&self, cell: &str, prompt: &str, repeat: u32) -> Option<usize> {
        let prompt = self.prompts.get(prompt)?;
        let (batch, goal) = self.goals.get(cell)?;
        let number = self.numbers.get(&(prompt / batch * batch, *goal))?;
        (repeat < self.repeats).then_some(repeat as usize * self.numbers.len() + number)
    }
}

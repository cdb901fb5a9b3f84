//! Reduces the rows of a run, while they are read, to what a report needs of them.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;
use std::sync::Arc;

use super::check::GenerationCheck;
use super::reached::{Reached, TracedRound};
use crate::experiment::Plan;
use crate::rows::{
    DivergenceRow, FailureRow, GenerationRow, PositionRow, RoundRow, RowVisitor, TextRow,
};
use crate::statistics::Sample;

/// What a report needs of a block.
#[derive(Debug, Default)]
pub(super) struct BlockAccount {
    /// Its generations, each with the number of its cell in the plan.
    pub(super) samples: Vec<(usize, Sample)>,
    pub(super) failures: Vec<FailureRow>,
    pub(super) divergences: Vec<DivergenceRow>,
    /// By the number of the cell.
    pub(super) reached: BTreeMap<usize, Reached>,
    /// The inconsistencies between the rows of each of its generations.
    pub(super) wrong: Vec<String>,
    /// The round whose drafted tokens are being read. A block writes those of a round
    /// together.
    tracing: TracedRound,
}

impl BlockAccount {
    fn end_of_round(&mut self) {
        if !self.tracing.is_empty() {
            let (cell, reached) = take(&mut self.tracing).reached();
            self.reached.entry(cell).or_default().extend(&reached);
        }
    }
}

/// The accounts of all blocks.
#[derive(Debug)]
pub(super) struct Accounts<'a> {
    plan: &'a Plan,
    /// The numbers of the cells in the plan, by id.
    cells: BTreeMap<&'a str, usize>,
    blocks: BTreeMap<usize, BlockAccount>,
    /// Generations whose row was not read yet, by block and cell.
    open: BTreeMap<(usize, usize), GenerationCheck>,
    /// Every prompt and category is kept once.
    names: BTreeSet<Arc<str>>,
}

impl<'a> Accounts<'a> {
    /// No accounts yet.
    pub(super) fn new(plan: &'a Plan) -> Self {
        let cells = plan.cells.iter().enumerate().map(|(i, cell)| (&*cell.id, i));
        Self {
            plan,
            cells: cells.collect(),
            blocks: BTreeMap::new(),
            open: BTreeMap::new(),
            names: BTreeSet::new(),
        }
    }

    /// The accounts of all blocks, by their numbers.
    pub(super) fn end(mut self) -> BTreeMap<usize, BlockAccount> {
        self.blocks.values_mut().for_each(BlockAccount::end_of_round);
        self.blocks
    }

    /// The number of a cell of the plan.
    fn cell(&self, id: &str) -> usize {
        // Rows of other cells belong to no block.
        self.cells.get(id).copied().unwrap_or_default()
    }

    fn block(&mut self, block: usize) -> &mut BlockAccount {
        self.blocks.entry(block).or_default()
    }

    fn name(&mut self, name: String) -> Arc<str> {
        if let Some(known) = self.names.get(&*name) {
            return known.clone();
        }
        let name = Arc::<str>::from(name);
        self.names.insert(name.clone());
        name
    }
}

impl RowVisitor for Accounts<'_> {
    fn round(&mut self, block: usize, row: RoundRow) {
        let cell = self.cell(&row.cell);
        self.open.entry((block, cell)).or_default().round(&row);
    }

    fn position(&mut self, block: usize, row: PositionRow) {
        let cell = self.cell(&row.cell);
        let account = self.block(block);
        if account.tracing.is_over(cell, &row) {
            account.end_of_round();
        }
        account.tracing.add(cell, &row);
    }

    fn text(&mut self, block: usize, row: TextRow) {
        let cell = self.cell(&row.cell);
        self.open.entry((block, cell)).or_default().text(&row);
    }

    fn failure(&mut self, block: usize, row: FailureRow) {
        self.block(block).failures.push(row);
    }

    fn divergence(&mut self, block: usize, row: DivergenceRow) {
        self.block(block).divergences.push(row);
    }

    fn generation(&mut self, block: usize, row: GenerationRow) {
        let cell = self.cell(&row.cell);
        let check = self.open.remove(&(block, cell)).unwrap_or_default();
        let wrong = check.misfit(self.plan, &self.plan.cells[cell], &row);
        let wrong = wrong.map(|what| format!("cell {}: {what}", row.cell));
        let sample = Sample {
            prompt: self.name(row.prompt),
            category: self.name(row.category),
            repeat: row.repeat,
            new_tokens: row.new_tokens,
            target_forwards: row.target_forwards,
            draft_forwards: row.draft_forwards,
            prefill_us: row.prefill_us,
            decode_us: row.decode_us,
            first_divergence: row.first_divergence,
            beam: check.beam(),
            rounds: check.end(),
            // Known once all blocks are.
            timed: false,
        };
        let account = self.block(block);
        account.wrong.extend(wrong);
        account.samples.push((cell, sample));
    }
}

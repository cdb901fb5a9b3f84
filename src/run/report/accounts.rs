//! Reduces the rows of a run, while they are read, to what a report needs of them.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::{replace, take};
use std::sync::Arc;

use super::check::GenerationCheck;
use super::reached::{Reached, TracedRound};
use crate::measure::rows::{
    DivergenceRow, FailureRow, GenerationRow, PlacedRow, PositionRow, RoundRow, RowVisitor, TextRow,
};
use crate::measure::statistics::Sample;
use crate::run::experiment::Plan;

/// What a report needs of a block.
#[derive(Debug, Default)]
pub(super) struct BlockAccount {
    /// Its generations, each with the number of its cell in the plan.
    pub(super) samples: Vec<(usize, Sample)>,
    pub(super) failures: Vec<(usize, FailureRow)>,
    pub(super) divergences: Vec<(usize, DivergenceRow)>,
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

/// Block, cell and place in the batch of a generation.
type Seat = (usize, usize, usize);

/// The accounts of all blocks.
#[derive(Debug)]
pub(super) struct Accounts<'a> {
    plan: &'a Plan,
    /// The numbers of the cells in the plan, by id.
    cells: BTreeMap<&'a str, usize>,
    /// The numbers of the prompts in the plan.
    prompts: BTreeMap<&'a str, usize>,
    /// [`Plan::clusters`] of every size of a batch.
    clusters: BTreeMap<usize, Vec<usize>>,
    blocks: BTreeMap<usize, BlockAccount>,
    /// Generations whose row was not read yet.
    open: BTreeMap<Seat, GenerationCheck>,
    /// The block and the cell whose rounds are being read.
    reading: (usize, usize),
    /// The times of the rounds that generations shared, in µs, by block and cell.
    shared: BTreeMap<(usize, usize), Vec<f64>>,
    /// Every prompt and category is kept once.
    names: BTreeSet<Arc<str>>,
}

impl<'a> Accounts<'a> {
    pub(super) fn new(plan: &'a Plan) -> Self {
        let cells = plan.cells.iter().enumerate().map(|(i, cell)| (&*cell.id, i));
        let prompts = plan.prompts.iter().enumerate().map(|(i, id)| (&**id, i));
        let clusters = plan.cells.iter().map(|cell| (cell.batch, plan.clusters(cell.batch)));
        Self {
            plan,
            cells: cells.collect(),
            prompts: prompts.collect(),
            clusters: clusters.collect(),
            blocks: BTreeMap::new(),
            open: BTreeMap::new(),
            reading: (0, 0),
            shared: BTreeMap::new(),
            names: BTreeSet::new(),
        }
    }

    /// The accounts of all blocks, by their numbers.
    pub(super) fn end(mut self) -> BTreeMap<usize, BlockAccount> {
        for one in self.blocks.values_mut() {
            one.end_of_round();
        }
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

    /// The place of a row's generation.
    fn seat(&self, block: usize, row: &impl PlacedRow) -> Seat {
        let (cell, prompt, _) = row.place();
        let cell = self.cell(cell);
        let place = match self.plan.cells.get(cell).map_or(1, |cell| cell.batch) {
            1 => 0,
            batch => self.prompts.get(prompt).map_or(0, |prompt| prompt % batch),
        };
        (block, cell, place)
    }

    /// Turns to the rounds of a generation. All rounds are read before the first generation
    /// ends, so what those of another block or cell had set aside would add up.
    fn turn_to(&mut self, (block, cell, _): Seat) {
        let before = replace(&mut self.reading, (block, cell));
        if before != self.reading {
            let seats = (before.0, before.1, 0)..=(before.0, before.1, usize::MAX);
            for (_, check) in self.open.range_mut(seats) {
                check.pause();
            }
        }
    }

    /// Adds a round to the time that its batch took.
    fn share(&mut self, (block, cell, _): Seat, row: &RoundRow) {
        if self.plan.cells.get(cell).is_some_and(|cell| cell.batch > 1) {
            let times = self.shared.entry((block, cell)).or_default();
            let round = usize::try_from(row.round).unwrap_or(usize::MAX);
            // A wrong number is found by the check of the generation.
            if round <= times.len() {
                times.resize(times.len().max(round + 1), 0.0);
                times[round] += row.draft_us + row.target_us + row.verify_us + row.other_us;
            }
        }
    }

    /// The time from the first round of a generation to the end of its last, in µs.
    fn elapsed(&self, (block, cell, _): Seat, row: &GenerationRow) -> f64 {
        match self.shared.get(&(block, cell)) {
            Some(times) => times.iter().take(row.target_forwards).sum(),
            None => row.decode_us,
        }
    }

    /// The first prompt of the cluster to which a prompt belongs in a cell.
    fn first_of_cluster<'p>(&'p self, cell: usize, prompt: &'p str) -> &'p str {
        let clusters = &self.clusters[&self.plan.cells[cell].batch];
        self.prompts.get(prompt).map_or(prompt, |&at| &self.plan.prompts[clusters[at]])
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
        let seat = self.seat(block, &row);
        self.turn_to(seat);
        self.share(seat, &row);
        self.open.entry(seat).or_default().round(&row);
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
        let seat = self.seat(block, &row);
        let eos = self.plan.target.eos.as_deref().unwrap_or_default();
        self.open.entry(seat).or_default().text(&row, eos);
    }

    fn failure(&mut self, block: usize, row: FailureRow) {
        let cell = self.cell(&row.cell);
        self.block(block).failures.push((cell, row));
    }

    fn divergence(&mut self, block: usize, row: DivergenceRow) {
        let cell = self.cell(&row.cell);
        self.block(block).divergences.push((cell, row));
    }

    fn generation(&mut self, block: usize, row: GenerationRow) {
        let seat = self.seat(block, &row);
        let (_, cell, _) = seat;
        let elapsed_us = self.elapsed(seat, &row);
        let check = self.open.remove(&seat).unwrap_or_default();
        let wrong = check.misfit(self.plan, &self.plan.cells[cell], &row);
        let wrong = wrong.map(|what| format!("cell {}: {what}", row.cell));
        let GenerationCheck { behind_end, looped, thinking, .. } = check;
        let (rounds, beam) = check.end();
        let timed_with = self.first_of_cluster(cell, &row.prompt).to_owned();
        let original = self.plan.original(&row.prompt).to_owned();
        let sample = Sample {
            timed_with: self.name(timed_with),
            original: self.name(original),
            prompt: self.name(row.prompt),
            category: self.name(row.category),
            repeat: row.repeat,
            new_tokens: row.new_tokens,
            behind_end,
            looped,
            thinking,
            target_forwards: row.target_forwards,
            draft_forwards: row.draft_forwards,
            prefill_us: row.prefill_us,
            decode_us: row.decode_us,
            elapsed_us,
            text: u64::from_str_radix(row.text_sha256.get(..16).unwrap_or_default(), 16)
                .unwrap_or_default(),
            first_divergence: row.first_divergence,
            beam,
            rounds,
            // Known once all blocks are.
            timed: false,
        };
        let account = self.block(block);
        account.wrong.extend(wrong);
        account.samples.push((cell, sample));
    }
}

//! The time of a step that many requests share.

use crate::tapes::forecasting::CostTable;
use crate::tapes::tape::DraftPasses;

/// The costs of steps.
#[derive(Debug, Clone, Copy)]
pub struct StepCosts<'c> {
    /// Costs of passes.
    pub table: &'c CostTable,
    /// The passes of a draft.
    pub passes: DraftPasses,
}

/// What a step computes.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct StepWork<'w> {
    /// The number of drafted tokens of each request that is past its prompt.
    pub drafts: &'w [usize],
    /// Tokens before the pass, summed over all requests of the step.
    pub context: usize,
    /// Requests whose prompt is read.
    pub prefills: usize,
    /// Tokens of prompts that are read.
    pub prefill_rows: usize,
}

/// The time of a step in ms.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct StepMs {
    /// Passes of the draft model.
    pub draft: f64,
    /// The pass of the target.
    pub target: f64,
    /// Outside passes.
    pub outside: f64,
}

impl StepMs {
    /// The whole step.
    pub fn total(self) -> f64 {
        self.draft + self.target + self.outside
    }
}

impl StepCosts<'_> {
    /// The time of a step. All its rows share one pass of the target, which costs as much as one
    /// with the mean number of rows per request at the mean context. Prompt tokens are such rows,
    /// too, unless the costs of reading prompts are known; then these are added.
    ///
    /// The draft model makes a pass for every token of the longest draft, over the requests that
    /// still draft, or one for all of them. It reads prompts, too.
    pub fn step(&self, work: &StepWork<'_>) -> StepMs {
        let (decoding, drafted) = (work.drafts.len(), work.drafts.iter().sum::<usize>());
        let sequences = decoding + work.prefills;
        if sequences == 0 {
            return StepMs::default();
        }
        let context = work.context as f64 / sequences as f64;
        let mut ms = StepMs::default();
        if decoding > 0 {
            let rows = (decoding + drafted) as f64 / decoding as f64;
            ms.target = self.table.target(rows, context, decoding);
            ms.outside = self.table.outside(rows, context, decoding);
        }
        let as_rows = || {
            let rows = (decoding + drafted + work.prefill_rows) as f64;
            let all = self.table.target(rows / sequences as f64, context, sequences);
            (all - ms.target).max(0.0)
        };
        let prompts = self.prompts(work.prefill_rows, context, as_rows);
        ms.target += prompts.target;
        if self.passes != DraftPasses::None {
            ms.draft = prompts.draft + self.draft_passes(work.drafts, context);
        }
        ms
    }

    /// The time to read a prompt of `rows` tokens alone.
    pub fn prompt(&self, rows: usize) -> StepMs {
        self.prompts(rows, 1.0, || self.table.target(rows as f64, rows as f64, 1))
    }

    /// The time to read `rows` tokens of prompts. Without costs of prompts, the target takes the
    /// time `as_rows`. Without costs of its own, the draft model takes a share of the target's
    /// time: the ratio of their passes of one row.
    fn prompts(&self, rows: usize, context: f64, as_rows: impl FnOnce() -> f64) -> StepMs {
        if rows == 0 {
            return StepMs::default();
        }
        let target = self.table.prefill(rows as f64, context).unwrap_or_else(as_rows);
        let share = || self.table.draft(context, 1) / self.table.target(1.0, context, 1);
        let draft = match self.passes {
            DraftPasses::None => Some(0.0),
            _ => self.table.draft_prefill(rows as f64, context),
        };
        StepMs { draft: draft.unwrap_or_else(|| share() * target), target, outside: 0.0 }
    }

    /// The passes of the draft model.
    fn draft_passes(&self, drafts: &[usize], context: f64) -> f64 {
        let deepest = self.passes.of(drafts.iter().copied().max().unwrap_or(0));
        let drafting = |level| drafts.iter().filter(|&&drafted| drafted >= level).count();
        (1..=deepest).map(|level| self.table.draft(context, drafting(level))).sum()
    }
}

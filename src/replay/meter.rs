//! What steps take, and which share of it passes have.

use std::cell::Cell;
use std::time::Duration;

use crate::bench::Timed;
use crate::clock::Clock;
use crate::simulation::StepMs;

/// What was done at once, a round of all requests or the reading of a prompt, and what it took.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PlayedStep {
    /// The number of drafted tokens of each request that had a round; empty if a prompt was read.
    pub drafts: Vec<usize>,
    /// Tokens before the round, summed over the requests.
    pub context: usize,
    /// Tokens of the prompt that was read.
    pub prompt: usize,
    /// What it took.
    pub took: StepMs,
}

/// Tells passes of the target, passes of the draft model and everything else apart.
#[derive(Debug)]
pub(super) struct StepMeter<'m> {
    pub(super) clock: &'m dyn Clock,
    target: &'m Timed<'m>,
    draft: Option<&'m Timed<'m>>,
    last: Cell<[Duration; 3]>,
}

impl<'m> StepMeter<'m> {
    pub(super) fn new(
        clock: &'m dyn Clock,
        target: &'m Timed<'m>,
        draft: Option<&'m Timed<'m>>,
    ) -> Self {
        let meter = Self { clock, target, draft, last: Cell::default() };
        meter.lap();
        meter
    }

    /// What has passed since the last call.
    pub(super) fn lap(&self) -> StepMs {
        let drafted = self.draft.map(Timed::spent).unwrap_or_default();
        let read = [self.clock.now(), self.target.spent(), drafted];
        let before = self.last.replace(read);
        let [all, target, draft] = [0, 1, 2].map(|at| read[at] - before[at]);
        let outside = all.saturating_sub(target + draft);
        let [draft, target, outside] = [draft, target, outside].map(ms);
        StepMs { draft, target, outside }
    }
}

pub(super) fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

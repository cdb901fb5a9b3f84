//! Times passes of 1 to 16 rows, compares them with memory bandwidth and the peak of fused
//! multiply-adds (FMA), and derives the best speedup that speculation could reach.

mod best;
mod figure;
mod limits;
mod outside;
mod rows;
mod sample;
mod served;
mod surface;
mod tasks;
mod timed;

pub use best::{BestLength, RoundCosts};
pub use figure::draw;
pub use outside::Outside;
pub use rows::PassRow;
pub use sample::{ENOUGH, Timing};
pub(crate) use sample::{Stopwatch, TimedCall};
pub use served::{FittedMs, ServedFit, ServedPoint, ServedSample, read_served};
pub use surface::{
    CostPlaces, CostRow, DRAFT_COST, DRAFT_PREFILL_COST, OUTSIDE_COST, PREFILL_COST, TARGET_COST,
    cost_rows,
};
pub(crate) use tasks::{BenchPlace, BenchSequences, check_room, prefill, text};

use std::time::Duration;

use self::outside::TimedDraft;
use self::sample::Task;
use self::tasks::drafting;
use crate::core::clock::Clock;
use crate::core::error::Error;
use crate::core::lanes::IsaKind;
use crate::engine::pool::Pool;
use crate::model::{CPU, LanguageModel};

/// The maximum number of rows of a timed pass: a draft of 15 tokens.
pub const MOST_ROWS: usize = 16;
/// The default number of context tokens of a pass, including its first row.
pub const CONTEXT: usize = 64;
/// Tokens of the prompt whose prefill is timed.
pub const PREFILL: usize = 512;
/// K at which the time outside passes is measured.
pub const DRAFTED: usize = 4;

/// The measurements of a benchmark.
#[derive(Debug)]
pub struct Measured {
    /// T(m) for m = 1 to [`MOST_ROWS`].
    pub passes: Vec<Timing>,
    /// The distinct experts that each of them needs, summed over the sparse layers.
    pub experts: Vec<usize>,
    /// A pass of one row of the draft model, or of its block, if there is one: the mean over
    /// [`DRAFTED`] consecutive passes.
    pub draft: Option<Timing>,
    /// Whether one such pass drafts all tokens of a round.
    pub at_once: bool,
    /// Reading as many bytes of memory as a pass of one row reads of weights; no samples
    /// unless the target is on the CPU.
    pub reading: Timing,
    /// Prefill of a prompt of `prefill_tokens` tokens.
    pub prefill: Timing,
    /// [`PREFILL`], or the context length of the model if that is shorter.
    pub prefill_tokens: usize,
    /// Operations per call of the fused multiply-add benchmark: two per multiply-add.
    pub operations: f64,
    /// The fused multiply-add benchmark, which works in registers; no samples unless the
    /// target is on the CPU.
    pub chains: Timing,
    /// Time outside passes, if there is a draft model: for plain decoding at temperature 1,
    /// then for K = [`DRAFTED`] at temperatures 0 and 1.
    pub outside: Vec<Outside>,
}

impl Measured {
    /// The costs of a round at temperature 1; `None` without a draft model, or if one of the
    /// costs has [too few samples](Self::too_few).
    pub fn costs(&self) -> Option<RoundCosts> {
        Some(RoundCosts {
            passes: self.passes.iter().map(Timing::median).collect::<Option<_>>()?,
            draft: self.draft.as_ref()?.median()?,
            at_once: self.at_once,
            outside: self.outside.last()?.micros()?,
            plain_outside: self.outside.first()?.micros()?,
        })
    }

    /// The peak of fused multiply-adds, in operations per second; `None` if too few samples
    /// were undisturbed.
    pub fn peak_flops(&self) -> Option<f64> {
        Some(self.operations / (self.chains.median()? * 1e-6))
    }

    /// A sentence explaining that nothing can be concluded, if any measurement that a
    /// conclusion needs has too few undisturbed samples; names the one with the fewest.
    pub fn too_few(&self) -> Option<String> {
        let passes = (1..).zip(&self.passes).map(|(m, timing)| (format!("T({m})"), timing));
        let draft = self.draft.iter().map(|timing| ("the draft's pass".to_owned(), timing));
        let round = |o: &Outside| format!("a round at K = {}, T = {}", o.drafted, o.temperature);
        let outside = self.outside.iter().map(|o| (round(o), &o.outside));
        let all = passes.chain(draft).chain(outside);
        let few = all.filter(|(_, timing)| !timing.is_enough());
        let worst = few.min_by_key(|(_, timing)| timing.kept());
        worst.map(|(what, timing)| {
            let (kept, all) = (timing.kept(), timing.kept() + timing.dropped());
            format!(
                "no conclusion: other work disturbed this machine; only {kept} of {all} samples \
                 of {what} are usable, and {ENOUGH} are needed: wait until the machine is idle, or \
                 raise --seconds"
            )
        })
    }
}

/// Benchmarks a target and, if there is one, a draft model with `context` context tokens.
/// `budget` is the time for the passes in turns; prefill and multiply-adds get a quarter of it
/// in addition.
///
/// # Errors
/// If a model fails or its context length is too short, or memory cannot be allocated.
pub fn measure(
    target: &dyn LanguageModel,
    draft: Option<&dyn LanguageModel>,
    context: usize,
    budget: Duration,
    clock: &dyn Clock,
) -> Result<Measured, Error> {
    let (isa, pool, stopwatch) = (IsaKind::active(), Pool::shared(), Stopwatch::new(clock));
    let PassTimes { passes, experts, draft: draft_timing, reading } =
        time_passes(target, draft, (context, MOST_ROWS), budget, clock)?;
    let mut operations = 0.0;
    let prefill_tokens = PREFILL.min(target.info().context_length);
    let mut tasks: Vec<Task<'_>> = vec![Box::new(|| prefill(target, prefill_tokens))];
    if on_this_processor(target) {
        tasks.push(Box::new(|| {
            operations = limits::multiply_add(isa, &pool, 200_000);
            Ok(())
        }));
    }
    let rest = stopwatch.in_turns(&mut tasks, budget / 4)?;
    drop(tasks);
    let mut rest = rest.into_iter();
    let (prefill, chains) = (rest.next().unwrap_or_default(), rest.next().unwrap_or_default());
    let place = BenchPlace::alone(context);
    let outside = draft.into_iter().flat_map(|model| {
        let draft = TimedDraft::of(model, draft_timing.as_ref());
        let at = |rounds| outside::outside((target, draft), place, rounds, &stopwatch);
        [(0, 1.0), (DRAFTED, 0.0), (DRAFTED, 1.0)].map(at)
    });
    let outside = outside.collect::<Result<_, _>>()?;
    Ok(Measured {
        passes,
        experts,
        draft: draft_timing,
        at_once: draft.is_some_and(|draft| draft.info().at_once),
        reading,
        prefill,
        prefill_tokens,
        operations,
        chains,
        outside,
    })
}

/// The times of passes.
#[derive(Debug)]
pub struct PassTimes {
    /// T(m) for m from 1.
    pub passes: Vec<Timing>,
    /// [`Measured::experts`].
    pub experts: Vec<usize>,
    /// [`Measured::draft`].
    pub draft: Option<Timing>,
    /// [`Measured::reading`].
    pub reading: Timing,
}

/// Times passes of 1 to `rows` rows of a target and, if there is one, of a draft model, with
/// `context` context tokens.
///
/// # Errors
/// As [`measure`].
pub fn time_passes(
    target: &dyn LanguageModel,
    draft: Option<&dyn LanguageModel>,
    (context, rows): (usize, usize),
    budget: Duration,
    clock: &dyn Clock,
) -> Result<PassTimes, Error> {
    let models = [Some(target), draft];
    for model in models.into_iter().flatten() {
        check_room(model, context, rows - 1)?;
    }
    let place = BenchPlace::alone(context);
    let bytes = target.info().bytes_per_token;
    let read = on_this_processor(target).then(|| ReadBenchmark::new(bytes)).transpose()?;
    let mut tasks: Vec<Task<'_>> = Vec::new();
    let sequences = BenchSequences::new(target, place)?;
    let experts = (1..=rows).map(|rows| sequences.experts(rows)).collect::<Result<_, _>>()?;
    tasks.extend((1..=rows).map(|rows| sequences.pass(rows)));
    if let Some(draft) = draft {
        tasks.push(drafting(draft, place)?);
    }
    if let Some(read) = &read {
        tasks.push(Box::new(|| {
            read.run();
            Ok(())
        }));
    }
    let mut passes = Stopwatch::new(clock).in_turns(&mut tasks, budget)?;
    drop(tasks);
    let mut rest = passes.split_off(rows).into_iter();
    let draft = draft.and_then(|_| rest.next()).map(|t| t.per(DRAFTED as f64));
    Ok(PassTimes { passes, experts, draft, reading: rest.next().unwrap_or_default() })
}

/// Whether this processor's limits are those of the model.
fn on_this_processor(model: &dyn LanguageModel) -> bool {
    model.info().device == CPU
}

/// As many bytes of memory as a pass of one row reads of weights.
pub(crate) struct ReadBenchmark(limits::ReadBuffer);

impl ReadBenchmark {
    pub(crate) fn new(bytes: usize) -> Result<Self, Error> {
        let fail = |e| Error::input(format!("cannot allocate {bytes} bytes to read: {e}"));
        limits::ReadBuffer::new(bytes).map(Self).map_err(fail)
    }

    pub(crate) fn run(&self) {
        limits::read(IsaKind::active(), &Pool::shared(), &self.0);
    }
}

//! Times passes of 1 to 16 rows, compares them with memory bandwidth and the peak of fused
//! multiply-adds (FMA), and derives the best speedup that speculation could reach.

mod best;
mod figure;
mod interactive;
mod limits;
mod outside;
mod rows;
mod sample;
mod surface;
mod timed;

pub use best::{BestLength, RoundCosts};
pub use figure::draw;
pub(crate) use interactive::answer;
pub use outside::Outside;
pub use rows::PassRow;
pub use sample::{ENOUGH, Timing};
pub use surface::{CostRow, DRAFT_COST, OUTSIDE_COST, PREFILL_COST, TARGET_COST, cost_rows};

use std::time::Duration;

use self::sample::{Stopwatch, Task};
use crate::clock::Clock;
use crate::distribution::Token;
use crate::error::Error;
use crate::lanes::IsaKind;
use crate::model::{LanguageModel, Want, Work, evaluate_one};
use crate::pool::Pool;
use crate::tree::Draft;

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
    /// A pass of one row of the draft model, if there is one: the mean over [`DRAFTED`]
    /// consecutive passes.
    pub draft: Option<Timing>,
    /// Reading as many bytes of memory as a pass of one row reads of weights.
    pub reading: Timing,
    /// Prefill of a prompt of `prefill_tokens` tokens.
    pub prefill: Timing,
    /// [`PREFILL`], or the context length of the model if that is shorter.
    pub prefill_tokens: usize,
    /// Operations per call of the fused multiply-add benchmark: two per multiply-add.
    pub operations: f64,
    /// The fused multiply-add benchmark, which works in registers.
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
    let PassTimes { passes, draft: draft_timing, reading } =
        time_passes(target, draft, (context, MOST_ROWS), budget, clock)?;
    let mut operations = 0.0;
    let prefill_tokens = PREFILL.min(target.info().context_length);
    let mut tasks: Vec<Task<'_>> = vec![
        Box::new(|| prefill(target, prefill_tokens)),
        Box::new(|| {
            operations = limits::multiply_add(isa, &pool, 200_000);
            Ok(())
        }),
    ];
    let mut rest = stopwatch.in_turns(&mut tasks, budget / 4)?;
    drop(tasks);
    let (chains, prefill) = (rest.pop().unwrap_or_default(), rest.pop().unwrap_or_default());
    let outside = draft.into_iter().flat_map(|draft| {
        let at = |rounds| outside::outside([target, draft], context, rounds, &stopwatch);
        [(0, 1.0), (DRAFTED, 0.0), (DRAFTED, 1.0)].map(at)
    });
    let outside = outside.collect::<Result<_, _>>()?;
    Ok(Measured {
        passes,
        draft: draft_timing,
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
    models.into_iter().flatten().try_for_each(|model| check_room(model, context, rows - 1))?;
    let read = ReadBenchmark::new(target.info().bytes_per_token)?;
    let mut tasks: Vec<Task<'_>> = vec![Box::new(|| {
        read.run();
        Ok(())
    })];
    for rows in 1..=rows {
        tasks.push(pass(target, context, rows)?);
    }
    if let Some(draft) = draft {
        tasks.push(drafting(draft, context)?);
    }
    let mut passes = Stopwatch::new(clock).in_turns(&mut tasks, budget)?;
    drop(tasks);
    let draft = draft.and_then(|_| passes.pop()).map(|t| t.per(DRAFTED as f64));
    let reading = passes.remove(0);
    Ok(PassTimes { passes, draft, reading })
}

/// As many bytes of memory as a pass of one row reads of weights.
struct ReadBenchmark(limits::ReadBuffer);

impl ReadBenchmark {
    fn new(bytes: usize) -> Result<Self, Error> {
        let fail = |e| Error::input(format!("cannot allocate {bytes} bytes to read: {e}"));
        limits::ReadBuffer::new(bytes).map(Self).map_err(fail)
    }

    fn run(&self) {
        limits::read(IsaKind::active(), &Pool::shared(), &self.0);
    }
}

/// Checks that a model has room for `context` tokens and `more` tokens after them.
fn check_room(model: &dyn LanguageModel, context: usize, more: usize) -> Result<(), Error> {
    let info = model.info();
    let most = info.context_length.saturating_sub(more);
    if (1..=most).contains(&context) {
        return Ok(());
    }
    Err(Error::input(format!(
        "--context {context}: allowed is 1 to {most}, since model {} has {} positions and {more} \
         tokens follow",
        info.name, info.context_length
    )))
}

/// `length` tokens of the model's vocabulary. Their values do not affect its speed.
fn text(model: &dyn LanguageModel, length: usize) -> Vec<Token> {
    (0..length).map(|i| (i * 7 + 3) as Token % model.info().vocab as Token).collect()
}

/// A task that runs a pass of `rows` rows. Its first row is the last of `context` context
/// tokens.
fn pass(model: &dyn LanguageModel, context: usize, rows: usize) -> Result<Task<'_>, Error> {
    let text = text(model, context);
    let mut session = model.session()?;
    let mut draft = Draft::empty(model.info().vocab);
    (1..rows).fold(None, |parent, i| Some(draft.certain(parent, text[i % context])));
    Ok(Box::new(move || {
        // Discards what the previous pass computed.
        session.rewind(&text[..context - 1])?;
        let (session, context, draft) = (&mut session, &text[..], &draft);
        evaluate_one(model, Work { session, context, draft, want: Want::All }).map(drop)
    }))
}

/// A task that runs the draft passes of a round: [`DRAFTED`] passes of one row. As in a round,
/// the target's weights have evicted the draft's from the caches only before the first pass.
fn drafting(draft: &dyn LanguageModel, context: usize) -> Result<Task<'_>, Error> {
    let mut one = pass(draft, context, 1)?;
    Ok(Box::new(move || (0..DRAFTED).try_for_each(|_| one())))
}

fn prefill(model: &dyn LanguageModel, length: usize) -> Result<(), Error> {
    let (context, draft) = (text(model, length), Draft::empty(model.info().vocab));
    let session = &mut model.session()?;
    evaluate_one(model, Work { session, context: &context, draft: &draft, want: Want::Nothing })?;
    Ok(())
}

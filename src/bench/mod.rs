//! What passes cost on this machine, how near that is to what its memory and
//! its arithmetic allow, and how fast speculation could be at best.

mod best;
mod figure;
mod interactive;
mod rows;
mod sample;
mod timed;

pub use best::{Best, Costs};
pub(crate) use figure::draw;
pub(crate) use interactive::answer;
pub use rows::PassRow;
pub use sample::Timing;

use std::time::Duration;

use self::sample::{Task, in_turns};
use self::timed::Timed;
use crate::chance::{Request, Seeded};
use crate::clock::RealClock;
use crate::decode::{Generation, MethodSpec, Observer, StopRules, generate};
use crate::dist::Token;
use crate::lanes::{IsaKind, limits};
use crate::model::{LanguageModel, ModelError, Want, Work, evaluate_one};
use crate::pool::Pool;
use crate::round::RoundEvent;
use crate::sampling::SamplingParams;
use crate::tree::Draft;

/// The most rows of a pass that is timed: a draft of 15 tokens.
pub const MOST_ROWS: usize = 16;
/// Tokens of the text before a pass, where nothing else is asked for.
pub const CONTEXT: usize = 64;
/// Tokens of the prompt whose prefill is timed.
pub const PREFILL: usize = 512;
/// K at which the time outside of passes is measured.
pub const DRAFTED: usize = 4;

/// What was measured.
#[derive(Debug)]
pub struct Measured {
    /// T(m) for m = 1 to [`MOST_ROWS`].
    pub passes: Vec<Timing>,
    /// One of [`DRAFTED`] passes of one row of the draft model, if there is one.
    pub draft: Option<Timing>,
    /// Reading as many bytes as a pass of one row reads weights.
    pub reading: Timing,
    /// Prefill of [`PREFILL`] tokens.
    pub prefill: Timing,
    /// Fused multiply-adds in registers, in operations per second.
    pub peak_flops: f64,
    /// Time outside of passes, at temperatures 0 and 1.
    pub outside: Vec<Outside>,
}

/// Time of a round outside of the models' passes.
#[derive(Debug, Clone, Copy)]
pub struct Outside {
    /// Of both models.
    pub temperature: f64,
    /// µs per round.
    pub micros: f64,
    /// As a share of the round.
    pub share: f64,
}

/// Measures a target, and a draft model if there is one, after a text of
/// `context` tokens.
///
/// # Errors
/// If a model fails, or has no room for such a text.
pub fn measure(
    target: &dyn LanguageModel,
    draft: Option<&dyn LanguageModel>,
    context: usize,
    budget: Duration,
) -> Result<Measured, ModelError> {
    let (isa, pool) = (IsaKind::active(), Pool::shared());
    let reading = Reading::new(target.info().bytes_per_token)?;
    let mut tasks: Vec<Task<'_>> = vec![Box::new(|| {
        reading.run();
        Ok(())
    })];
    for rows in 1..=MOST_ROWS {
        tasks.push(pass(target, context, rows)?);
    }
    if let Some(draft) = draft {
        tasks.push(drafting(draft, context)?);
    }
    let mut timings = in_turns(&mut tasks, budget)?;
    drop(tasks);
    let draft_timing = draft.and_then(|_| timings.pop()).map(|t| t.per(DRAFTED as f64));
    let reading = timings.remove(0);
    let mut peak = 0.0;
    let mut tasks: Vec<Task<'_>> = vec![
        Box::new(|| prefill(target, PREFILL.min(target.info().context_length - 1))),
        Box::new(|| {
            peak = limits::multiply_add(isa, &pool, 200_000);
            Ok(())
        }),
    ];
    let rest = in_turns(&mut tasks, budget / 4)?;
    drop(tasks);
    let [prefill, chains] = &rest[..] else { unreachable!("two tasks have two timings") };
    Ok(Measured {
        passes: timings,
        draft: draft_timing,
        reading,
        prefill: prefill.clone(),
        peak_flops: peak / (chains.median() * 1e-6),
        outside: match draft {
            Some(draft) => [0.0, 1.0]
                .into_iter()
                .map(|temperature| outside(target, draft, context, temperature))
                .collect::<Result<_, _>>()?,
            None => Vec::new(),
        },
    })
}

/// As much memory as a pass of one row reads weights.
struct Reading(limits::Memory);

impl Reading {
    fn new(bytes: usize) -> Result<Self, ModelError> {
        let fail = |e| ModelError::new(format!("cannot allocate {bytes} bytes to read: {e}"));
        limits::Memory::new(bytes).map(Self).map_err(fail)
    }

    fn run(&self) {
        limits::read(IsaKind::active(), &Pool::shared(), &self.0);
    }
}

/// A text of the model's tokens; which ones does not matter to its speed.
fn text(model: &dyn LanguageModel, length: usize) -> Vec<Token> {
    (0..length).map(|i| (i * 7 + 3) as Token % model.info().vocab as Token).collect()
}

/// A pass of `rows` rows, of which the first is the last token of a text of
/// `context` tokens.
fn pass(model: &dyn LanguageModel, context: usize, rows: usize) -> Result<Task<'_>, ModelError> {
    let text = text(model, context);
    let mut session = model.session()?;
    let mut draft = Draft::empty(model.info().vocab);
    (1..rows).fold(None, |parent, i| Some(draft.certain(parent, text[i % context])));
    Ok(Box::new(move || {
        // What the pass before has computed is forgotten.
        session.settle(&text[..context - 1])?;
        let (session, context, draft) = (&mut session, &text[..], &draft);
        evaluate_one(model, Work { session, context, draft, want: Want::All }).map(drop)
    }))
}

/// As many passes of one row as a round has: only the first of them finds the
/// weights pushed out of the caches by the target's.
fn drafting(draft: &dyn LanguageModel, context: usize) -> Result<Task<'_>, ModelError> {
    let mut one = pass(draft, context, 1)?;
    Ok(Box::new(move || (0..DRAFTED).try_for_each(|_| one())))
}

fn prefill(model: &dyn LanguageModel, length: usize) -> Result<(), ModelError> {
    let (context, draft) = (text(model, length), Draft::empty(model.info().vocab));
    let session = &mut model.session()?;
    evaluate_one(model, Work { session, context: &context, draft: &draft, want: Want::Nothing })?;
    Ok(())
}

/// Rounds of one generation that are counted, after as many that are not.
const ROUNDS: u64 = 24;

struct Rounds<'a> {
    models: [&'a Timed<'a>; 2],
    /// Time in passes at the end of the last round.
    before: Duration,
    all: Duration,
    passes: Duration,
}

impl Observer for Rounds<'_> {
    fn round(&mut self, event: &RoundEvent<'_>) -> Result<(), ModelError> {
        let spent = self.models.iter().map(|model| model.spent()).sum();
        if event.round >= ROUNDS && event.round < 2 * ROUNDS {
            self.all += event.times.total();
            self.passes += spent - self.before;
        }
        self.before = spent;
        Ok(())
    }
}

fn outside(
    target: &dyn LanguageModel,
    draft: &dyn LanguageModel,
    context: usize,
    temperature: f64,
) -> Result<Outside, ModelError> {
    let (target, draft) = (Timed::new(target), Timed::new(draft));
    let spec = MethodSpec {
        drafter: "model".to_owned(),
        num_speculative_tokens: DRAFTED,
        sampling: SamplingParams { temperature, ..SamplingParams::default() },
        ..MethodSpec::default()
    };
    let method = spec.build(Some(&draft)).map_err(|e| ModelError::new(e.to_string()))?;
    // Enough for the rounds even if every draft is accepted.
    let stop = StopRules::max_tokens((2 * ROUNDS as usize + 1) * (DRAFTED + 1));
    let mut generation = Generation::new(&target, method, &text(&target, context), stop, None)?;
    let mut chance = Seeded::new(Request { seed: 1, prompt: "bench", repeat: 0 });
    let mut rounds = Rounds {
        models: [&target, &draft],
        before: Duration::ZERO,
        all: Duration::ZERO,
        passes: Duration::ZERO,
    };
    generate(&mut generation, &target, &mut chance, &RealClock::default(), &mut rounds)?;
    let outside = rounds.all.saturating_sub(rounds.passes).as_secs_f64();
    Ok(Outside {
        temperature,
        micros: outside * 1e6 / ROUNDS as f64,
        share: outside / rounds.all.as_secs_f64().max(f64::MIN_POSITIVE),
    })
}

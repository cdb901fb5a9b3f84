//! Measures what a round takes in addition to a pass of the target and K passes of the draft model.

use std::time::Duration;

use super::sample::{Stopwatch, Timing};
use super::tasks::{BenchPlace, text};
use super::timed::Timed;
use crate::core::chance::{Request, Seeded};
use crate::core::clock::Clock;
use crate::core::error::Error;
use crate::core::round::RoundEvent;
use crate::core::sampling::SamplingParams;
use crate::measure::machine::Watch;
use crate::method::decode::{
    Generation, MethodSpec, NoObserver, Observer, PLAIN, Sequence, StopRules, Totals,
    one_round_together, prefill,
};
use crate::model::LanguageModel;

/// Number of timed rounds, and of warm-up rounds before them.
const ROUNDS: usize = 36;
const WARM_UP: usize = 12;

/// Time of rounds outside the models' passes. What the draft model's passes take more than those
/// that were timed one after another is outside, too: the first of a round finds the target's
/// weights in the caches, and has two rows after a draft that was accepted as a whole.
#[derive(Debug, Clone)]
pub struct Outside {
    /// K; 0 is plain decoding.
    pub drafted: usize,
    /// Temperature of target and draft.
    pub temperature: f64,
    /// Time outside passes, per round.
    pub outside: Timing,
    /// Time of whole rounds.
    pub rounds: Timing,
}

impl Outside {
    /// The median time outside passes, in µs per round; `None` if too few samples were
    /// undisturbed.
    pub fn micros(&self) -> Option<f64> {
        self.outside.median()
    }

    /// The median time outside passes as a share of the median round.
    pub fn share(&self) -> Option<f64> {
        Some(self.outside.median()? / self.rounds.median()?.max(f64::MIN_POSITIVE))
    }
}

struct RoundTimer<'a> {
    target: &'a Timed<'a>,
    /// What the passes of the draft model take one after another.
    drafting: Duration,
    stopwatch: &'a Stopwatch<'a>,
    /// Watches for disturbances since the end of the last round.
    watch: Watch<'a>,
    /// Total time in passes of the target at the end of the last round.
    before: Duration,
    seen: usize,
    found: Outside,
}

impl Observer for RoundTimer<'_> {
    fn round(&mut self, event: &RoundEvent<'_>) -> Result<(), Error> {
        let spent = self.target.spent();
        self.seen += 1;
        // The first round of a text is skipped: the prefill precedes it.
        if self.seen > WARM_UP && event.round > 0 {
            let round = event.times.total();
            let outside = round.saturating_sub(spent - self.before + self.drafting);
            self.found.rounds.add(self.stopwatch.watched(round, &self.watch));
            self.found.outside.add(self.stopwatch.watched(outside, &self.watch));
        }
        self.before = spent;
        self.watch = self.stopwatch.watch();
        Ok(())
    }
}

/// A draft model, and what a pass of one row takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimedDraft<'a> {
    model: &'a dyn LanguageModel,
    pass: Duration,
}

impl<'a> TimedDraft<'a> {
    /// With too few undisturbed samples of it, a pass takes no time.
    pub(super) fn of(model: &'a dyn LanguageModel, pass: Option<&Timing>) -> Self {
        let us = pass.and_then(Timing::median).unwrap_or_default();
        Self { model, pass: Duration::from_secs_f64(us / 1e6) }
    }
}

/// Times rounds that `batch` texts share, with K = `drafted` after `context` context tokens. When
/// a text has no room left, all begin again.
pub(super) fn outside(
    (target, draft): (&dyn LanguageModel, TimedDraft<'_>),
    BenchPlace { context, batch, .. }: BenchPlace,
    (drafted, temperature): (usize, f64),
    stopwatch: &Stopwatch<'_>,
) -> Result<Outside, Error> {
    let clock = stopwatch.clock();
    let target = Timed::new(target, clock);
    let drafter = if drafted == 0 { PLAIN } else { "model" };
    let spec = MethodSpec {
        drafter: drafter.to_owned(),
        num_speculative_tokens: drafted.max(1),
        sampling: SamplingParams { temperature, ..SamplingParams::default() },
        ..MethodSpec::default()
    };
    let room = target.info().context_length.min(draft.model.info().context_length);
    // Enough for the rounds even if every draft is accepted.
    let enough = (WARM_UP + ROUNDS) * (drafted + 1);
    let most = enough.min(room.saturating_sub(context));
    let mut rounds = RoundTimer {
        target: &target,
        drafting: draft.pass * draft.model.info().passes(drafted) as u32,
        stopwatch,
        watch: stopwatch.watch(),
        before: Duration::ZERO,
        seen: 0,
        found: Outside {
            drafted,
            temperature,
            outside: Timing::default(),
            rounds: Timing::default(),
        },
    };
    let prompt = text(&target, context);
    while rounds.seen < WARM_UP + ROUNDS {
        let begin = |repeat| {
            let (method, stop) = (spec.build(Some(draft.model))?, StopRules::max_tokens(most));
            let mut generation = Generation::new(&target, method, &prompt, stop, None)?;
            let totals = prefill(&mut generation, &target, clock)?;
            let chance = Seeded::new(Request { seed: 1, prompt: "bench", repeat });
            Ok(BenchText { generation, chance, totals, unseen: NoObserver })
        };
        let mut texts = (0..batch as u32).map(begin).collect::<Result<Vec<_>, Error>>()?;
        while texts.iter_mut().all(BenchText::continues) {
            share_a_round(&mut texts, &target, clock, &mut rounds)?;
        }
    }
    Ok(rounds.found)
}

struct BenchText<'a> {
    generation: Generation<'a>,
    chance: Seeded,
    totals: Totals,
    unseen: NoObserver,
}

impl BenchText<'_> {
    fn continues(&mut self) -> bool {
        self.generation.begin(self.totals.decode).is_none()
    }
}

/// Runs a round of all sequences and reports the first one's.
fn share_a_round(
    texts: &mut [BenchText<'_>],
    target: &dyn LanguageModel,
    clock: &dyn Clock,
    rounds: &mut RoundTimer<'_>,
) -> Result<(), Error> {
    let mut sequences = Vec::with_capacity(texts.len());
    for BenchText { generation, chance, totals, unseen } in texts {
        sequences.push(Sequence::new(generation, chance, unseen, totals));
    }
    if let Some(first) = sequences.first_mut() {
        first.observer = rounds;
    }
    one_round_together(&mut sequences, target, clock);
    for sequence in sequences {
        sequence.end.unwrap_or(Ok(()))?;
    }
    Ok(())
}

//! Measures the time of a round outside the models' passes.

use std::time::Duration;

use super::sample::{Stopwatch, Timing};
use super::text;
use super::timed::Timed;
use crate::chance::{Request, Seeded};
use crate::decode::{Generation, MethodSpec, Observer, PLAIN, StopRules, generate};
use crate::error::Error;
use crate::machine::Watch;
use crate::model::LanguageModel;
use crate::round::RoundEvent;
use crate::sampling::SamplingParams;

/// Number of timed rounds, and of warm-up rounds before them.
const ROUNDS: usize = 36;
const WARM_UP: usize = 12;

/// Time of rounds outside the models' passes.
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
    models: [&'a Timed<'a>; 2],
    stopwatch: &'a Stopwatch<'a>,
    /// Watches for disturbances since the end of the last round.
    watch: Watch<'a>,
    /// Total time in passes at the end of the last round.
    before: Duration,
    seen: usize,
    found: Outside,
}

impl Observer for RoundTimer<'_> {
    fn round(&mut self, event: &RoundEvent<'_>) -> Result<(), Error> {
        let spent = self.models.iter().map(|model| model.spent()).sum();
        self.seen += 1;
        // The first round of a text is skipped: the prefill precedes it.
        if self.seen > WARM_UP && event.round > 0 {
            let round = event.times.total();
            let outside = round.saturating_sub(spent - self.before);
            self.found.rounds.add(self.stopwatch.watched(round, &self.watch));
            self.found.outside.add(self.stopwatch.watched(outside, &self.watch));
        }
        self.before = spent;
        self.watch = self.stopwatch.watch();
        Ok(())
    }
}

/// Times rounds with K = `drafted` after `context` context tokens. When the context length is
/// reached, starts again with a new generation.
///
/// # Errors
/// If a model fails.
pub(super) fn outside(
    models: [&dyn LanguageModel; 2],
    context: usize,
    (drafted, temperature): (usize, f64),
    stopwatch: &Stopwatch<'_>,
) -> Result<Outside, Error> {
    let clock = stopwatch.clock();
    let [target, draft] = models.map(|model| Timed::new(model, clock));
    let drafter = if drafted == 0 { PLAIN } else { "model" };
    let spec = MethodSpec {
        drafter: drafter.to_owned(),
        num_speculative_tokens: drafted.max(1),
        sampling: SamplingParams { temperature, ..SamplingParams::default() },
        ..MethodSpec::default()
    };
    let room = models.map(|model| model.info().context_length).into_iter().min().unwrap_or(0);
    // Enough for the rounds even if every draft is accepted.
    let enough = (WARM_UP + ROUNDS) * (drafted + 1);
    let most = enough.min(room.saturating_sub(context));
    let mut rounds = RoundTimer {
        models: [&target, &draft],
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
    while rounds.seen < WARM_UP + ROUNDS {
        let method = spec.build(Some(&draft))?;
        let text = text(&target, context);
        let stop = StopRules::max_tokens(most);
        let mut generation = Generation::new(&target, method, &text, stop, None)?;
        let mut chance = Seeded::new(Request { seed: 1, prompt: "bench", repeat: 0 });
        generate(&mut generation, &target, &mut chance, clock, &mut rounds)?;
    }
    Ok(rounds.found)
}

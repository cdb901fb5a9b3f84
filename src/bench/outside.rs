//! The time of a round outside of the models' passes.

use std::time::Duration;

use super::sample::{Stopwatch, Timing};
use super::timed::Timed;
use super::{DRAFTED, text};
use crate::chance::{Request, Seeded};
use crate::decode::{Generation, MethodSpec, Observer, StopRules, generate};
use crate::experiment::Watch;
use crate::model::{LanguageModel, ModelError};
use crate::round::RoundEvent;
use crate::sampling::SamplingParams;

/// Rounds of a generation, the first of which warm up and are not counted.
const ROUNDS: usize = 48;
const WARM_UP: u64 = 12;

/// Time of rounds outside of the models' passes.
#[derive(Debug, Clone)]
pub struct Outside {
    /// Of both models.
    pub temperature: f64,
    /// Per round.
    pub outside: Timing,
    /// Whole rounds.
    pub rounds: Timing,
}

impl Outside {
    /// µs per round.
    pub fn micros(&self) -> Option<f64> {
        self.outside.median()
    }

    /// As a share of the round.
    pub fn share(&self) -> Option<f64> {
        Some(self.outside.median()? / self.rounds.median()?.max(f64::MIN_POSITIVE))
    }
}

struct Rounds<'a> {
    models: [&'a Timed<'a>; 2],
    stopwatch: &'a Stopwatch<'a>,
    /// From the end of the last round.
    watch: Watch<'a>,
    /// Time in passes at the end of the last round.
    before: Duration,
    found: Outside,
}

impl Observer for Rounds<'_> {
    fn round(&mut self, event: &RoundEvent<'_>) -> Result<(), ModelError> {
        let spent = self.models.iter().map(|model| model.spent()).sum();
        if event.round >= WARM_UP {
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

/// Times the rounds of one generation.
///
/// # Errors
/// If a model fails.
pub(super) fn outside(
    target: &dyn LanguageModel,
    draft: &dyn LanguageModel,
    context: usize,
    temperature: f64,
    stopwatch: &Stopwatch<'_>,
) -> Result<Outside, ModelError> {
    let clock = stopwatch.clock();
    let (target, draft) = (Timed::new(target, clock), Timed::new(draft, clock));
    let spec = MethodSpec {
        drafter: "model".to_owned(),
        num_speculative_tokens: DRAFTED,
        sampling: SamplingParams { temperature, ..SamplingParams::default() },
        ..MethodSpec::default()
    };
    let method = spec.build(Some(&draft)).map_err(|e| ModelError::new(e.to_string()))?;
    // Enough for the rounds even if every draft is accepted.
    let stop = StopRules::max_tokens(ROUNDS * (DRAFTED + 1));
    let mut generation = Generation::new(&target, method, &text(&target, context), stop, None)?;
    let mut chance = Seeded::new(Request { seed: 1, prompt: "bench", repeat: 0 });
    let mut rounds = Rounds {
        models: [&target, &draft],
        stopwatch,
        watch: stopwatch.watch(),
        before: Duration::ZERO,
        found: Outside { temperature, outside: Timing::default(), rounds: Timing::default() },
    };
    generate(&mut generation, &target, &mut chance, clock, &mut rounds)?;
    Ok(rounds.found)
}

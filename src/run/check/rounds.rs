//! Acceptance and times in the rounds of a few completions.

use std::collections::BTreeMap;

use super::{CheckSetup, MAX_K};
use crate::core::chance::{Request, Seeded};
use crate::core::clock::Clock;
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::core::round::RoundEvent;
use crate::measure::statistics::median;
use crate::method::decode::{Generation, Method, Observer, StopRules, generate};

#[derive(Debug, Clone, Copy)]
pub(super) struct SeenRound {
    /// Number of proposed tokens.
    pub proposed: usize,
    /// How many of them were kept.
    pub accepted: usize,
    /// Time to propose them, in µs.
    pub draft_us: f64,
    /// Time of everything but drafting and the target's pass, in µs.
    pub outside_us: f64,
}

/// The rounds of a prompt that could draft the maximum number of tokens.
#[derive(Debug, Clone, Default)]
pub(super) struct PromptRounds {
    pub rounds: Vec<SeenRound>,
    /// Tokens that the completion may still get.
    pub left: usize,
}

impl Observer for PromptRounds {
    fn round(&mut self, event: &RoundEvent<'_>) -> Result<(), Error> {
        // Near its end a completion leaves room for fewer tokens, which says nothing about drafts.
        if self.left > MAX_K {
            self.rounds.push(SeenRound {
                proposed: event.draft.len(),
                accepted: event.verdict.path.len(),
                draft_us: event.times.draft.as_secs_f64() * 1e6,
                outside_us: (event.times.verify + event.times.other).as_secs_f64() * 1e6,
            });
        }
        self.left = self.left.saturating_sub(event.emitted.len());
        Ok(())
    }
}

/// Continues one prompt.
pub(super) fn continued<'a>(
    setup: &CheckSetup<'a>,
    method: Method<'a>,
    (number, prompt): (usize, &[Token]),
    clock: &dyn Clock,
) -> Result<PromptRounds, Error> {
    let stop = StopRules::max_tokens(setup.max_tokens);
    let mut generation = Generation::new(setup.target, method, prompt, stop, Some(setup.codec))?;
    let mut chance = Seeded::new(Request { seed: number as u64, prompt: "check", repeat: 0 });
    let mut seen = PromptRounds { left: setup.max_tokens, ..PromptRounds::default() };
    generate(&mut generation, setup.target, &mut chance, clock, &mut seen)?;
    Ok(seen)
}

/// The rounds of each prompt, those of equal prompts together.
pub(super) fn joined(prompts: &[Vec<Token>], rounds: Vec<PromptRounds>) -> Vec<PromptRounds> {
    let mut distinct = BTreeMap::<&[Token], PromptRounds>::new();
    for (prompt, own) in prompts.iter().zip(rounds) {
        distinct.entry(prompt).or_default().rounds.extend(own.rounds);
    }
    distinct.into_values().collect()
}

/// The median time of a pass of the draft, in µs; none if nothing was proposed. `passes` is the
/// number of passes for a number of tokens.
pub(super) fn draft_us(prompts: &[PromptRounds], passes: impl Fn(usize) -> usize) -> Option<f64> {
    let proposing = prompts.iter().flat_map(|prompt| &prompt.rounds).filter(|r| r.proposed > 0);
    let times = proposing.map(|round| round.draft_us / passes(round.proposed) as f64);
    median(&times.collect::<Vec<_>>())
}

/// The median time of a round outside of drafting and the target's pass, in µs.
pub(super) fn outside_us(prompts: &[PromptRounds]) -> Option<f64> {
    let times = prompts.iter().flat_map(|prompt| &prompt.rounds).map(|round| round.outside_us);
    median(&times.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: an interval over prompts counts copies of one.
    #[test]
    fn equal_prompts_are_one() {
        let round = |proposed| {
            let round = SeenRound { proposed, accepted: 0, draft_us: 0.0, outside_us: 0.0 };
            PromptRounds { rounds: vec![round], left: 0 }
        };
        let prompts = [vec![1, 2], vec![3], vec![1, 2]];
        let found = joined(&prompts, vec![round(1), round(2), round(3)]);
        let proposed = found.iter().map(|own| own.rounds.iter().map(|r| r.proposed).collect());
        assert_eq!(proposed.collect::<Vec<Vec<usize>>>(), [vec![1, 3], vec![2]]);
    }
}

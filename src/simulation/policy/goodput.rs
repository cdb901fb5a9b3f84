//! The K of the step with the most expected tokens per second.

use super::{BuildPolicy, PolicyEntry, ServedRound, ServerStep, ServingPolicy, USUAL_MOST, UsualK};
use crate::statistics::expected_tokens;

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "goodput",
    usual: UsualK::Most(USUAL_MOST),
    summary: "in every step the K from 0 to K with the most expected tokens per second, by the \
              acceptance of past rounds and the costs",
    source: "Liu et al. 2024, arXiv 2406.14066",
    build: BuildPolicy::Server(|params| {
        Box::new(Goodput { k: params.k, past: PastAcceptance::GUESS })
    }),
};

#[derive(Debug)]
struct Goodput {
    k: usize,
    past: PastAcceptance,
}

/// How much older tokens count for each newer one: about 1000 are held.
const KEEP: f64 = 0.999;

/// How much of the past is left after a step without drafts. What is forgotten gives way to a
/// guess; or else a policy that once stopped drafting would never learn that it pays again.
const LEFT: f64 = 0.98;

/// Drafted tokens that were decided on, and those of them that were accepted; older ones count
/// less.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct PastAcceptance {
    reached: f64,
    kept: f64,
}

impl PastAcceptance {
    /// What is guessed before the first round.
    pub(super) const GUESS: Self = Self { reached: 10.0, kept: 7.0 };

    /// The probability that the next drafted token is accepted.
    pub(super) fn alpha(self) -> f64 {
        self.kept / self.reached
    }

    /// This, beside a probability that counts for so many tokens.
    pub(super) fn beside(self, alpha: f64, tokens: f64) -> f64 {
        (tokens * alpha + self.kept) / (tokens + self.reached)
    }

    /// Adds the rounds of a step.
    pub(super) fn observe(&mut self, rounds: &[ServedRound]) {
        if rounds.iter().all(|round| round.drafted == 0) {
            self.forget(Self::GUESS);
        }
        rounds.iter().for_each(|round| self.add(round));
    }

    /// Adds a round.
    pub(super) fn add(&mut self, round: &ServedRound) {
        let reached = (round.accepted + 1).min(round.drafted);
        let left = KEEP.powi(reached as i32);
        self.reached = left * self.reached + reached as f64;
        self.kept = left * self.kept + round.accepted as f64;
    }

    /// Comes nearer to a guess.
    pub(super) fn forget(&mut self, guess: Self) {
        self.reached = LEFT * self.reached + (1.0 - LEFT) * guess.reached;
        self.kept = LEFT * self.kept + (1.0 - LEFT) * guess.kept;
    }
}

impl ServingPolicy for Goodput {
    fn drafts(&mut self, step: &ServerStep<'_>) -> Vec<usize> {
        let alpha = self.past.alpha();
        let drafts =
            |k: usize| step.requests.iter().map(|request| request.most.min(k)).collect::<Vec<_>>();
        let rate = |drafts: &[usize]| {
            let tokens = drafts.iter().map(|&drafted| expected_tokens(alpha, drafted));
            tokens.sum::<f64>() / step.ms(drafts)
        };
        let all = (0..=self.k).map(drafts).map(|drafts| (rate(&drafts), drafts));
        let best = all.reduce(|best, next| if next.0 > best.0 { next } else { best });
        best.map(|(_, drafts)| drafts).unwrap_or_default()
    }

    fn observe(&mut self, rounds: &[ServedRound]) {
        self.past.observe(rounds);
    }
}

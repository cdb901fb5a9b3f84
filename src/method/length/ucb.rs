//! A bandit over draft lengths with tokens per second as reward.
//!
//! The arms are K, K/2, K/4 … 1. The next round takes the arm with the largest sum of
//! its mean reward and `√(2 ln t / n)` times the largest mean reward (UCB1). The mean
//! reward of an arm is its total tokens over its total time.

use std::time::Duration;

use super::{BuildLength, DraftLength, INSTANT};
use crate::core::registry::Entry;
use crate::core::round::RoundEvent;

pub(super) const ENTRY: Entry<BuildLength> = Entry {
    name: "ucb",
    aliases: &["bandit"],
    params: &[],
    summary: "a bandit over K, K/2, K/4 … 1, rewarded with tokens per second",
    paper: "Hou et al. 2025, BanditSpec, arXiv 2505.15141; UCB1: Auer et al. 2002",
    build: |params| Ok(Box::new(Ucb::new(params.num_speculative_tokens))),
};

#[derive(Debug, Clone)]
struct Ucb {
    arms: Vec<Arm>,
    /// The arm of this round.
    chosen: usize,
}

#[derive(Debug, Clone, Copy)]
struct Arm {
    k: usize,
    rounds: u64,
    tokens: u64,
    time: Duration,
}

impl Arm {
    /// Tokens per second.
    fn mean(&self) -> f64 {
        self.tokens as f64 / self.time.as_secs_f64().max(INSTANT)
    }
}

impl Ucb {
    fn new(k: usize) -> Self {
        let lengths = std::iter::successors(Some(k.max(1)), |k| (*k > 1).then_some(k / 2));
        let arm = |k| Arm { k, rounds: 0, tokens: 0, time: Duration::ZERO };
        Self { arms: lengths.map(arm).collect(), chosen: 0 }
    }

    fn choose(&self) -> usize {
        if let Some(new) = self.arms.iter().position(|arm| arm.rounds == 0) {
            return new;
        }
        let rounds = self.arms.iter().map(|arm| arm.rounds).sum::<u64>() as f64;
        let best = self.arms.iter().map(Arm::mean).fold(0.0, f64::max);
        let index = |arm: &Arm| arm.mean() + best * (2.0 * rounds.ln() / arm.rounds as f64).sqrt();
        let arms = 0..self.arms.len();
        arms.max_by(|&a, &b| index(&self.arms[a]).total_cmp(&index(&self.arms[b]))).unwrap_or(0)
    }
}

impl DraftLength for Ucb {
    fn max_depth(&self) -> usize {
        self.arms[self.chosen].k
    }

    fn needs_confidence(&self) -> bool {
        false
    }

    fn observe(&mut self, event: &RoundEvent<'_>) {
        let arm = &mut self.arms[self.chosen];
        arm.rounds += 1;
        arm.tokens += event.verdict.path.len() as u64 + 1;
        arm.time += event.times.total();
        self.chosen = self.choose();
    }

    fn state_key(&self) -> Vec<u8> {
        let mut key = self.chosen.to_le_bytes().to_vec();
        for arm in &self.arms {
            key.extend(arm.rounds.to_le_bytes());
            key.extend(arm.tokens.to_le_bytes());
            key.extend(arm.time.as_nanos().to_le_bytes());
        }
        key
    }
}

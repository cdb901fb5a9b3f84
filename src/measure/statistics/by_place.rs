//! Acceptance by the length of a draft, and by the distance to the end of the completion.

use super::interval::Ratio;
use super::ratio;
use super::rounds::CountedRound;
use super::sample::{Sample, by_prompt};

/// Rounds with something in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PlacedRounds {
    /// Their number.
    pub rounds: usize,
    /// Tokens of their drafts; of a tree, its depth.
    pub drafted: usize,
    /// How many of them were reached: accepted, or the first that was not unless the completion had
    /// ended.
    pub reached: usize,
    /// How many were accepted.
    pub accepted: usize,
}

impl PlacedRounds {
    /// Accepted ÷ drafted tokens.
    pub fn acceptance_rate(&self) -> Option<f64> {
        ratio(self.accepted as f64, self.drafted as f64)
    }

    /// Accepted ÷ reached tokens, which does not depend on how long drafts are.
    pub fn conditional(&self) -> Option<f64> {
        ratio(self.accepted as f64, self.reached as f64)
    }

    fn add(&mut self, round: CountedRound) {
        self.rounds += 1;
        self.drafted += round.depth;
        self.reached += round.depth.min(round.entered());
        self.accepted += round.accepted;
    }
}

/// Ranges of the counts from 0 to `most`: one per count up to 8, then of doubling width.
pub fn ranges(most: usize) -> Vec<(usize, usize)> {
    let mut ranges = (0..=most.min(8)).map(|n| (n, n)).collect::<Vec<_>>();
    let mut from = 9;
    while from <= most {
        let to = (2 * (from - 1)).min(most);
        ranges.push((from, to));
        from = to + 1;
    }
    ranges
}

/// A range in words.
pub fn range_name((lo, hi): (usize, usize)) -> String {
    if lo == hi { lo.to_string() } else { format!("{lo} to {hi}") }
}

/// The rounds of some samples, each with the number of tokens from its first to the last of the
/// completion.
pub fn distances<'a>(
    samples: impl IntoIterator<Item = &'a Sample>,
) -> impl Iterator<Item = (usize, CountedRound)> {
    samples.into_iter().flat_map(|sample| {
        let mut left = sample.new_tokens;
        sample.rounds.iter().map(move |round| {
            let distance = left;
            left = left.saturating_sub(round.emitted);
            (distance, round)
        })
    })
}

/// The rounds of some samples that begin inside of thinking, or those that begin outside.
pub fn thinking_rounds<'a>(
    samples: impl IntoIterator<Item = &'a Sample>,
    inside: bool,
) -> PlacedRounds {
    let mut found = PlacedRounds::default();
    for sample in samples {
        let [from, to] = sample.thinking.unwrap_or_default();
        let mut at = 0;
        for round in sample.rounds.iter() {
            if (from..to).contains(&at) == inside {
                found.add(round);
            }
            at += round.emitted;
        }
    }
    found
}

/// τ of these rounds with its uncertainty: accepted tokens per round, plus one.
pub fn thinking_efficiency(samples: &[Sample], inside: bool) -> Ratio {
    let prompts = by_prompt(samples).into_values();
    let sums = prompts.map(|samples| thinking_rounds(samples, inside));
    Ratio::of(sums.map(|s| ([s.accepted as f64], [s.rounds as f64]))).plus(1.0)
}

/// Sums over the rounds of each range, given rounds with their places.
pub fn placed(
    rounds: impl IntoIterator<Item = (usize, CountedRound)>,
    ranges: &[(usize, usize)],
) -> Vec<PlacedRounds> {
    let mut found = vec![PlacedRounds::default(); ranges.len()];
    for (place, round) in rounds {
        if let Some(at) = ranges.iter().position(|(lo, hi)| (*lo..=*hi).contains(&place)) {
            found[at].add(round);
        }
    }
    found
}

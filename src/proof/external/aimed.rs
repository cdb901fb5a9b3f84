//! Random cases that are aimed at conditions under which a verifier may do something else: any value
//! of p/q, tokens that are nearly certain, and tokens that are rare.

use super::cases::{CaseKind, RoundCase, mixed};
use crate::core::distribution::Token;

/// Ratios of p and q below 1 are spread so evenly that a thousand of them leave no gap of 0.002.
const RATIOS: usize = 1024;
/// The largest number of cases with ratios; a small vocabulary with a short draft has few in each.
const MOST_CASES: usize = 64;
/// The number of cases of each other kind.
const OTHERS: usize = 3;
/// The number of cases with ratios that are sampled.
const SAMPLED: usize = 4;
/// The golden ratio minus one: its multiples leave the smallest gaps modulo 1.
const GOLDEN: f64 = 0.618_033_988_749_895;

/// Adds the aimed cases, at most this many of each kind.
pub(super) fn aimed_cases(
    cases: &mut Vec<RoundCase>,
    shape @ [vocab, k]: [usize; 2],
    seed: u64,
    most: usize,
) {
    let mut dice = Dice(mixed(seed));
    let contexts = (0..k as u32).map(|len| vocab.pow(len)).sum::<usize>();
    // Three of four contexts have p/q below 1 at all tokens but one.
    let needed = (4 * RATIOS).div_ceil(3 * contexts * (vocab - 1)).min(MOST_CASES);
    let mut ratios = Ratios { next: [dice.unit(), dice.unit()], contexts: 0 };
    let kind = |name, about, sampled| CaseKind { name, about, soft: true, sampled };
    for number in 0..needed.min(most) {
        let kind = kind(
            "ratios",
            "p/q and q/p take all values from 0 to 1, to about a thousandth",
            number < SAMPLED && most > 1,
        );
        // The rows after a whole draft have no q, so no ratio.
        cases.push(RoundCase::new(kind, shape, |sequence| match sequence.len() < k {
            true => ratios.rows(&mut dice, vocab),
            false => (dice.soft(vocab), dice.soft(vocab)),
        }));
    }
    for _ in 0..OTHERS.min(most) {
        let about = "one token has all but 1e-1 to 1e-6 of p, or of q";
        let kind = kind("nearly certain", about, false);
        cases.push(RoundCase::new(kind, shape, |sequence| certain(&mut dice, vocab, sequence)));
    }
    for _ in 0..OTHERS.min(most) {
        let kind = kind("rare tokens", "p and q have tokens down to 1e-10", false);
        cases.push(RoundCase::new(kind, shape, |_| {
            (rare(&mut dice, vocab), rare(&mut dice, vocab))
        }));
    }
}

/// Pseudo-random numbers (SplitMix64).
struct Dice(u64);

impl Dice {
    /// A number in [0, 1).
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(1);
        (mixed(self.0) >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn below(&mut self, n: usize) -> usize {
        (self.unit() * n as f64) as usize
    }

    /// Probabilities that are not far from each other.
    fn soft(&mut self, vocab: usize) -> Vec<f64> {
        let weights = (0..vocab).map(|_| 0.1 + 0.9 * self.unit()).collect::<Vec<_>>();
        let total = weights.iter().sum::<f64>();
        weights.iter().map(|weight| weight / total).collect()
    }
}

/// The ratios that come next: of p/q, and of q/p.
struct Ratios {
    next: [f64; 2],
    contexts: usize,
}

impl Ratios {
    /// p and q of a context. At all tokens but one, the first is the second times a ratio.
    fn rows(&mut self, dice: &mut Dice, vocab: usize) -> (Vec<f64>, Vec<f64>) {
        let swapped = self.contexts % 4 == 3;
        self.contexts += 1;
        let next = &mut self.next[usize::from(swapped)];
        let (larger, rest) = (dice.soft(vocab), dice.below(vocab));
        let mut smaller = larger.clone();
        smaller[rest] = 1.0;
        for token in (0..vocab).filter(|&token| token != rest) {
            *next = (*next + GOLDEN).fract();
            smaller[token] *= *next;
            smaller[rest] -= smaller[token];
        }
        if swapped { (larger, smaller) } else { (smaller, larger) }
    }
}

/// p and q of a context: p, q or both have a nearly certain token.
fn certain(dice: &mut Dice, vocab: usize, sequence: &[Token]) -> (Vec<f64>, Vec<f64>) {
    let token = dice.below(vocab);
    let sum = sequence.iter().sum::<Token>() as usize + sequence.len();
    let [p, q] = [1, 2].map(|no| {
        let rest = if sum % 3 == no { 0.6 } else { 10_f64.powf(-1.0 - 5.0 * dice.unit()) };
        let mut row = dice.soft(vocab);
        let others = 1.0 - row[token];
        for p in &mut row {
            *p *= rest / others;
        }
        row[token] = 1.0 - rest;
        row
    });
    (p, q)
}

/// Probabilities down to 1e-10; one token is not rare.
fn rare(dice: &mut Dice, vocab: usize) -> Vec<f64> {
    let mut row = (0..vocab).map(|_| 10_f64.powf(-10.0 * dice.unit())).collect::<Vec<_>>();
    row[dice.below(vocab)] = 1.0;
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every interval of 0.002 holds a ratio p/q at which a drafted token may be rejected.
    /// Catches: ratios that leave gaps; too few cases.
    #[test]
    fn ratios_leave_no_gap() {
        for (shape, most) in [([4, 3], 0.002), ([3, 5], 0.002), ([2, 11], 0.002), ([3, 2], 0.012)] {
            for seed in 0..3 {
                let mut cases = Vec::new();
                aimed_cases(&mut cases, shape, seed, usize::MAX);
                let ratios = cases.iter().filter(|case| case.kind.name == "ratios");
                let mut found = ratios
                    .flat_map(|case| {
                        let drafts = case.drafts().into_iter();
                        drafts.flat_map(|(draft, _)| {
                            let each = (0..shape[1]).map(|at| {
                                let (before, token) = (&draft[..at], draft[at] as usize);
                                case.p(before)[token] / case.q(before)[token]
                            });
                            each.collect::<Vec<_>>()
                        })
                    })
                    .filter(|ratio| *ratio < 1.0)
                    .chain([0.0, 1.0])
                    .collect::<Vec<_>>();
                found.sort_by(f64::total_cmp);
                let gap = found.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max);
                assert!(gap < most, "{shape:?}: {gap}");
            }
        }
    }

    /// Catches: rows that are certain alike; rows without rare tokens.
    #[test]
    fn rows_are_nearly_certain_or_have_rare_tokens() {
        let mut cases = Vec::new();
        aimed_cases(&mut cases, [4, 3], 0, usize::MAX);
        let rows = |name: &'static str| {
            let named = cases.iter().filter(move |case| case.kind.name == name);
            named.flat_map(|case| [case.p(&[]), case.p(&[0]), case.p(&[1, 2]), case.q(&[2])])
        };
        let most = rows("nearly certain").map(|row| row.iter().copied().fold(0.0, f64::max));
        let most = most.collect::<Vec<_>>();
        for (from, to) in [(0.3, 0.9), (0.9, 0.999), (0.999, 1.0)] {
            assert!(most.iter().any(|most| (from..to).contains(most)), "{from}: {most:?}");
        }
        let least = rows("rare tokens").map(|row| row.iter().copied().fold(1.0, f64::min));
        assert!(least.fold(1.0, f64::min) < 1e-8);
    }
}

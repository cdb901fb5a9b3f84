//! The cases of a certificate: easy and hard pairs of p and q, and random ones (`aimed.rs`).

use std::collections::BTreeMap;

use super::round::ExternalRound;
use crate::core::distribution::Token;
use crate::proof::joint::JointDistribution;

/// Defines p and q in every context.
pub(super) struct CaseSpec {
    pub(super) name: &'static str,
    about: &'static str,
    /// Whether both give every token a positive probability, so that no verifier meets a special
    /// case.
    soft: bool,
    /// The weights of a token under p and q, from the vocabulary size and the token's [`CaseCell`].
    weights: fn(usize, CaseCell) -> [f64; 2],
}

/// A token in a context.
#[derive(Clone, Copy)]
struct CaseCell {
    token: usize,
    /// Pseudo-random numbers in (0, 1] for p and q, from the context and the token.
    p: f64,
    q: f64,
    /// A token chosen by the context.
    marked: usize,
    /// Whether the token is the first of a draft.
    first: bool,
}

impl CaseCell {
    /// Whether the token is the n-th after the marked one.
    fn is(self, n: usize, vocab: usize) -> bool {
        self.token == (self.marked + n) % vocab
    }

    fn one_if(condition: bool) -> f64 {
        f64::from(u8::from(condition))
    }
}

pub(super) const CASES: &[CaseSpec] = &[
    CaseSpec {
        name: INDEPENDENT,
        about: "p and q have nothing to do with each other",
        soft: true,
        weights: |_, c| [c.p, c.q],
    },
    CaseSpec {
        name: "sharp",
        about: "both have most of their mass on few tokens",
        soft: true,
        weights: |_, c| [c.p.powi(3), (0.5 * c.p + 0.5 * c.q).powi(3)],
    },
    CaseSpec {
        name: "close",
        about: "q is within a tenth of p",
        soft: true,
        weights: |_, c| [c.p, c.p * (0.9 + 0.2 * c.q)],
    },
    CaseSpec {
        name: "nearly equal",
        about: "q differs from p by a billionth",
        soft: false,
        weights: |_, c| [c.p, c.p * (1.0 + 1e-9 * c.q)],
    },
    CaseSpec { name: "equal", about: "q is p", soft: false, weights: |_, c| [c.p, c.p] },
    CaseSpec {
        name: "flat draft",
        about: "q is uniform",
        soft: true,
        weights: |_, c| [c.p * c.p, 1.0],
    },
    CaseSpec {
        name: RARE,
        about: "p and q have tokens of a millionth, not the same ones",
        soft: true,
        weights: |vocab, c| {
            let rare = |n| if c.is(n, vocab) { 1e-6 } else { 1.0 };
            [c.p * rare(0), c.q * rare(1)]
        },
    },
    CaseSpec {
        name: "truncated draft",
        about: "q excludes tokens that p has",
        soft: false,
        weights: |vocab, c| [c.p, c.q * CaseCell::one_if(!c.is(0, vocab) && !c.is(2, vocab))],
    },
    CaseSpec {
        name: "truncated target",
        about: "p excludes tokens that q has",
        soft: false,
        weights: |vocab, c| [c.p * CaseCell::one_if(!c.is(0, vocab) && !c.is(2, vocab)), c.q],
    },
    CaseSpec {
        name: "truncated both",
        about: "p and q exclude different tokens",
        soft: false,
        weights: |vocab, c| {
            [c.p * CaseCell::one_if(!c.is(0, vocab)), c.q * CaseCell::one_if(!c.is(1, vocab))]
        },
    },
    CaseSpec {
        name: "disjoint",
        about: "no token is possible for both",
        soft: false,
        weights: |vocab, c| {
            let own = (c.token + c.marked) % vocab % 2 == 0;
            [c.p * CaseCell::one_if(own), c.q * CaseCell::one_if(!own)]
        },
    },
    CaseSpec {
        name: "one-hot draft",
        about: "q has one token",
        soft: false,
        weights: |vocab, c| [c.p, CaseCell::one_if(c.is(0, vocab))],
    },
    CaseSpec {
        name: "one-hot target",
        about: "p has one token: greedy decoding",
        soft: false,
        weights: |vocab, c| [CaseCell::one_if(c.is(0, vocab)), c.q],
    },
    CaseSpec {
        name: "one-hot both",
        about: "p and q have one token each, at first the same",
        soft: false,
        weights: |vocab, c| {
            let apart = usize::from(!c.first && c.marked % 2 == 0);
            [CaseCell::one_if(c.is(0, vocab)), CaseCell::one_if(c.is(apart, vocab))]
        },
    },
];

/// What a case is for.
#[derive(Debug, Clone, Copy)]
pub(super) struct CaseKind {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) soft: bool,
    /// Whether it is sampled, too, if a verifier cannot be enumerated.
    pub(super) sampled: bool,
}

/// A case: the rows by drafted tokens, and the distribution that a round must have.
#[derive(Debug)]
pub(super) struct RoundCase {
    pub(super) kind: CaseKind,
    pub(super) vocab: usize,
    pub(super) k: usize,
    /// p after every sequence of at most K tokens.
    p: BTreeMap<Vec<Token>, Vec<f64>>,
    /// q after every sequence of fewer than K tokens.
    q: BTreeMap<Vec<Token>, Vec<f64>>,
    /// The distribution of the next K + 1 tokens.
    pub(super) expected: JointDistribution,
}

/// The case with very rare tokens, in which sampling detects nothing.
const RARE: &str = "rare";
/// The case that other shapes have, too.
pub(super) const INDEPENDENT: &str = "independent";

impl CaseSpec {
    /// Its rows depend on the last two tokens; the context is token 0.
    pub(super) fn build(&self, number: u64, [vocab, k]: [usize; 2]) -> RoundCase {
        let &Self { name, about, soft, weights } = self;
        let kind = CaseKind { name, about, soft, sampled: name != RARE };
        RoundCase::new(kind, [vocab, k], |sequence| {
            let context = [&[0], sequence].concat();
            let last = &context[context.len().saturating_sub(2)..];
            let place = last.iter().fold(number + 1, |at, &t| at * 1009 + u64::from(t) + 1);
            let marked = (mixed(place) % vocab as u64) as usize;
            let cell = |token: usize| {
                let at = (place * 1009 + token as u64) * 2;
                let first = sequence.is_empty();
                CaseCell { token, p: unit(at), q: unit(at + 1), marked, first }
            };
            let both = (0..vocab).map(|token| weights(vocab, cell(token)));
            both.map(|[p, q]| (p, q)).unzip()
        })
    }
}

/// The weights as probabilities. If all are zero, the first token has probability 1.
fn normalised(mut weights: Vec<f64>) -> Vec<f64> {
    let total = weights.iter().sum::<f64>();
    if total <= 0.0 {
        weights[0] = 1.0;
        return weights;
    }
    weights.iter().map(|weight| weight / total).collect()
}

/// A hash of an integer (Steele, Lea and Flood 2014, SplitMix64), so that tables never change.
pub(super) fn mixed(number: u64) -> u64 {
    let step = |x: u64, shift: u32, factor: u64| (x ^ (x >> shift)).wrapping_mul(factor);
    let x = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let x = step(step(x, 30, 0xbf58_476d_1ce4_e5b9), 27, 0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A number from 0.02 to 1.
fn unit(number: u64) -> f64 {
    0.02 + 0.98 * (mixed(number) % 10_000) as f64 / 9_999.0
}

impl RoundCase {
    /// A case with these weights of p and q after each sequence of drafted tokens.
    pub(super) fn new(
        kind: CaseKind,
        [vocab, k]: [usize; 2],
        mut weights: impl FnMut(&[Token]) -> (Vec<f64>, Vec<f64>),
    ) -> Self {
        let (mut p, mut q) = (BTreeMap::new(), BTreeMap::new());
        let mut expected = JointDistribution::from([(Vec::new(), 1.0)]);
        let mut sequences = vec![Vec::new()];
        for len in 0..=k {
            let mut longer = Vec::new();
            for sequence in sequences {
                let (of_p, of_q) = weights(&sequence);
                let (of_p, of_q) = (normalised(of_p), normalised(of_q));
                let mass = expected.remove(&sequence).unwrap_or(0.0);
                for (token, own) in (0..).zip(&of_p) {
                    let next = [&sequence[..], &[token]].concat();
                    if mass * own > 0.0 {
                        expected.insert(next.clone(), mass * own);
                    }
                    longer.push(next);
                }
                if len < k {
                    q.insert(sequence.clone(), of_q);
                }
                p.insert(sequence, of_p);
            }
            sequences = longer;
        }
        Self { kind, vocab, k, p, q, expected }
    }

    /// The share of drafted tokens that rejection sampling accepts.
    pub(super) fn rejection_acceptance(&self) -> f64 {
        let accepted = self.drafts().into_iter().map(|(draft, mass)| {
            let mut survival = mass;
            let each = (0..self.k).map(|at| {
                let (before, token) = (&draft[..at], draft[at] as usize);
                survival *= (self.p(before)[token] / self.q(before)[token]).min(1.0);
                survival
            });
            each.sum::<f64>()
        });
        accepted.sum::<f64>() / self.k as f64
    }

    /// p after a sequence of at most K tokens.
    pub(super) fn p(&self, sequence: &[Token]) -> &[f64] {
        &self.p[sequence]
    }

    /// The drafts that q can draw, with their probabilities.
    pub(super) fn drafts(&self) -> Vec<(Vec<Token>, f64)> {
        let mut drafts = vec![(Vec::new(), 1.0)];
        for _ in 0..self.k {
            let grown = drafts.iter().flat_map(|(sequence, mass): &(Vec<Token>, f64)| {
                let row = self.q[sequence].iter().enumerate().filter(|(_, q)| **q > 0.0);
                row.map(move |(token, q)| ([&sequence[..], &[token as Token]].concat(), mass * q))
            });
            drafts = grown.collect();
        }
        drafts
    }

    /// q after a sequence of fewer than K tokens.
    pub(super) fn q(&self, sequence: &[Token]) -> &[f64] {
        &self.q[sequence]
    }

    /// The round with these tokens as draft.
    pub(super) fn round(&self, draft: &[Token]) -> ExternalRound {
        ExternalRound {
            p: (0..=self.k).map(|len| self.p(&draft[..len]).to_vec()).collect(),
            q: (0..self.k).map(|len| self.q(&draft[..len]).to_vec()).collect(),
            draft: draft.to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::case_list::round_cases;
    use super::*;

    #[test]
    fn cases_are_what_they_say() {
        for (vocab, k) in [(2, 1), (3, 2), (4, 3), (8, 2)] {
            for case in round_cases(vocab, k, 0).iter().take(CASES.len()) {
                let soft = case.q.iter().all(|(sequence, q)| {
                    q.iter().chain(case.p(sequence)).all(|&probability| probability > 0.0)
                });
                assert_eq!(
                    soft,
                    case.kind.soft || case.kind.name.ends_with("equal"),
                    "{}",
                    case.kind.name
                );
                let mass = case.drafts().iter().map(|(_, mass)| mass).sum::<f64>();
                assert!((mass - 1.0).abs() < 1e-12);
                // With two tokens, some cases lose their defining property.
                if vocab == 2 {
                    continue;
                }
                let equal = case.q.iter().all(|(sequence, q)| q == case.p(sequence));
                assert_eq!(equal, case.kind.name == "equal", "{}", case.kind.name);
                let apart = case.q.iter().any(|(sequence, q)| {
                    q.iter().zip(case.p(sequence)).all(|(q, p)| *q == 0.0 || *p == 0.0)
                });
                assert_eq!(
                    apart,
                    matches!(case.kind.name, "disjoint" | "one-hot both"),
                    "{}",
                    case.kind.name
                );
            }
        }
    }
}

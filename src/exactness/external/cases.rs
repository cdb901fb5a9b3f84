//! The cases of a certificate: easy and hard pairs of toy models.

use std::collections::BTreeMap;

use super::round::ExternalRound;
use crate::distribution::Token;
use crate::error::Error;
use crate::exactness::joint::{JointDistribution, row, target_distribution};
use crate::exactness::reference::draft_rows;
use crate::model::ToyPair;
use crate::sampling::{Sampler, SamplingParams};

/// Defines p and q in every context.
struct CaseSpec {
    name: &'static str,
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

const CASES: &[CaseSpec] = &[
    CaseSpec {
        name: "independent",
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

/// A case: the rows by drafted tokens, and the distribution that a round must have.
#[derive(Debug)]
pub(super) struct RoundCase {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) soft: bool,
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

/// All cases for a vocabulary and a K.
pub(super) fn round_cases(vocab: usize, k: usize) -> Result<Vec<RoundCase>, Error> {
    let numbered = CASES.iter().enumerate();
    numbered.map(|(number, spec)| spec.build(number as u64, vocab, k)).collect()
}

/// The cases that are sampled.
pub(super) fn sampled_cases(mut cases: Vec<RoundCase>) -> Vec<RoundCase> {
    cases.retain(|case| case.name != RARE);
    cases
}

impl CaseSpec {
    fn build(&self, number: u64, vocab: usize, k: usize) -> Result<RoundCase, Error> {
        let pair = self.pair(number, vocab);
        let (target, draft) = (pair.target("target")?, draft_rows(&pair)?);
        let sampler = Sampler::new(SamplingParams::NEUTRAL)?;
        let dense = |support: Vec<(Token, f64)>| {
            let mut row = vec![0.0; vocab];
            support.into_iter().for_each(|(token, p)| row[token as usize] = p);
            row
        };
        let (mut p, mut q) = (BTreeMap::new(), BTreeMap::new());
        let mut sequences = vec![Vec::new()];
        for len in 0..=k {
            for sequence in &sequences {
                let context = [&pair.prompt[..], sequence].concat();
                let of = |model| row(model, &sampler, pair.prompt.len(), &context).map(dense);
                p.insert(sequence.clone(), of(&target)?);
                if len < k {
                    q.insert(sequence.clone(), of(&*draft)?);
                }
            }
            let longer = |sequence: &Vec<Token>| {
                let sequence = sequence.clone();
                (0..vocab as Token).map(move |token| [&sequence[..], &[token]].concat())
            };
            sequences = sequences.iter().flat_map(longer).collect();
        }
        let expected = target_distribution(&target, &sampler, &pair.prompt, k + 1)?;
        let &Self { name, about, soft, .. } = self;
        Ok(RoundCase { name, about, soft, k, p, q, expected })
    }

    /// Tables by the last two tokens.
    fn pair(&self, number: u64, vocab: usize) -> ToyPair {
        let mut tables = [BTreeMap::new(), BTreeMap::new()];
        let tokens = 0..vocab as Token;
        let pairs = tokens.clone().flat_map(|a| tokens.clone().map(move |b| vec![a, b]));
        for context in tokens.clone().map(|token| vec![token]).chain(pairs) {
            let place = context.iter().fold(number + 1, |at, &t| at * 1009 + u64::from(t) + 1);
            let marked = (mixed(place) % vocab as u64) as usize;
            let cell = |token: usize| {
                let at = (place * 1009 + token as u64) * 2;
                CaseCell { token, p: unit(at), q: unit(at + 1), marked, first: context.len() == 1 }
            };
            let weights = (0..vocab).map(|token| (self.weights)(vocab, cell(token)));
            let weights = weights.collect::<Vec<_>>();
            let key = context.iter().map(Token::to_string).collect::<Vec<_>>().join(",");
            for (of, table) in tables.iter_mut().enumerate() {
                table.insert(key.clone(), normalised(weights.iter().map(|both| both[of])));
            }
        }
        let [target, draft] = tables;
        ToyPair::new(vocab, 2, target, draft)
    }
}

/// The weights as probabilities. If all are zero, the first token has probability 1.
fn normalised(weights: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut weights = weights.collect::<Vec<_>>();
    let total = weights.iter().sum::<f64>();
    if total <= 0.0 {
        weights[0] = 1.0;
        return weights;
    }
    weights.iter().map(|weight| weight / total).collect()
}

/// A hash of an integer (Steele, Lea and Flood 2014, SplitMix64), so that tables never change.
fn mixed(number: u64) -> u64 {
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
    use super::*;

    #[test]
    fn cases_are_what_they_say() {
        for (vocab, k) in [(2, 1), (3, 2), (4, 3), (8, 2)] {
            for case in round_cases(vocab, k).unwrap() {
                let soft = case.q.iter().all(|(sequence, q)| {
                    q.iter().chain(case.p(sequence)).all(|&probability| probability > 0.0)
                });
                assert_eq!(soft, case.soft || case.name.ends_with("equal"), "{}", case.name);
                let mass = case.drafts().iter().map(|(_, mass)| mass).sum::<f64>();
                assert!((mass - 1.0).abs() < 1e-12);
                // With two tokens, some cases lose their defining property.
                if vocab == 2 {
                    continue;
                }
                let equal = case.q.iter().all(|(sequence, q)| q == case.p(sequence));
                assert_eq!(equal, case.name == "equal", "{}", case.name);
                let apart = case.q.iter().any(|(sequence, q)| {
                    q.iter().zip(case.p(sequence)).all(|(q, p)| *q == 0.0 || *p == 0.0)
                });
                assert_eq!(
                    apart,
                    matches!(case.name, "disjoint" | "one-hot both"),
                    "{}",
                    case.name
                );
            }
        }
    }
}

//! Cases whose rows are those of real models.

use super::case_list::SHAPE;
use super::cases::{CaseKind, RoundCase, mixed};
use crate::core::distribution::{Dist, Token};
use crate::core::error::Error;
use crate::core::sampling::{Sampler, SamplingParams};
use crate::tapes::tape::{TapeSequence, Teacher, distributions, parts};

/// The largest vocabulary of a case with K = 1, to which rows are reduced as they are read.
const MOST_TOKENS: usize = 64;
/// The largest number of positions that are kept.
const MOST_POSITIONS: usize = 4096;
/// The number of cases of each shape.
const CASES: usize = 8;

/// V and K of the cases by default, and whether they are sampled, too: more sequences need more
/// rounds.
const SHAPES: [([usize; 2], bool); 3] = [(SHAPE, true), ([8, 3], false), ([MOST_TOKENS, 1], false)];

/// p and q of two models at positions of texts, for [`certify_rows`](super::certify_rows).
///
/// A case has a smaller vocabulary than the models. Its tokens are the most likely ones of the
/// position, by the larger one of p and q, and a last token that stands for all others together. So
/// the probabilities of a case, their ratios and their zeros are those that the models have.
#[derive(Debug, Clone, Default)]
pub struct RealRows {
    positions: Vec<RealPosition>,
}

/// p and q at a position: the most likely tokens, best first, and the sum of all others.
#[derive(Debug, Clone)]
struct RealPosition {
    tokens: Vec<(Token, [f64; 2])>,
    rest: [f64; 2],
    overlap: f64,
}

impl RealRows {
    /// Adds the distributions of both models at a position.
    pub fn add(&mut self, p: &Dist, q: &Dist) {
        let (of_p, of_q) = (p.zip(q, |p, _| p), p.zip(q, |_, q| q));
        let both = of_p.into_iter().zip(of_q).map(|(p, q)| [p, q]);
        let mut tokens = (0..).zip(both).collect::<Vec<(Token, [f64; 2])>>();
        tokens.retain(|(_, [p, q])| p.max(*q) > 0.0);
        let likelier = |a: &(Token, [f64; 2]), b: &(Token, [f64; 2])| {
            let larger = |[p, q]: [f64; 2]| p.max(q);
            larger(b.1).total_cmp(&larger(a.1)).then(a.0.cmp(&b.0))
        };
        let others = match tokens.len() {
            MOST_TOKENS.. => {
                tokens.select_nth_unstable_by(MOST_TOKENS - 1, likelier);
                tokens.split_off(MOST_TOKENS - 1)
            }
            _ => Vec::new(),
        };
        tokens.sort_unstable_by(likelier);
        let rest = sum(&others);
        self.positions.push(RealPosition { tokens, rest, overlap: p.overlap(q) });
    }

    /// Adds the positions of a completion; both models sample with these settings.
    ///
    /// # Errors
    /// If a model fails or logits define no distribution.
    pub fn read(
        &mut self,
        (target, draft): (&mut Teacher<'_>, &mut Teacher<'_>),
        sampling: &SamplingParams,
        sequence: &TapeSequence,
    ) -> Result<(), Error> {
        let sampler = Sampler::new(sampling.clone())?.on(target.model().for_each_row());
        parts(sequence, |context, part| {
            let place = (sequence.prompt_tokens.len(), context);
            let logits = target.logits(context, part)?;
            let targets = distributions(&sampler, place, part, &logits, "the target")?;
            let logits = draft.logits(context, part)?;
            let drafts = distributions(&sampler, place, part, &logits, "the draft model")?;
            for (p, q) in targets.iter().zip(&drafts) {
                self.add(p, q);
            }
            Ok(())
        })
    }

    /// The number of positions.
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// Whether there is no position.
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// Whether there are as many positions as cases can use.
    pub fn is_full(&self) -> bool {
        self.len() >= MOST_POSITIONS
    }

    /// The cases for a vocabulary and a K. Each begins at another overlap of p and q; the rows after
    /// its drafted tokens are those of any other positions.
    pub(super) fn cases(&self, vocab: usize, k: usize) -> Vec<RoundCase> {
        let mut by_overlap = self.positions.iter().collect::<Vec<_>>();
        by_overlap.sort_by(|a, b| a.overlap.total_cmp(&b.overlap));
        let shapes = match [vocab, k] {
            SHAPE => SHAPES.to_vec(),
            other => vec![(other, true)],
        };
        let mut cases = Vec::new();
        for (shape, sampled) in shapes {
            for number in 0..CASES {
                let first = (2 * number + 1) * by_overlap.len() / (2 * CASES);
                cases.push(case(&by_overlap, (number, first), shape, sampled));
            }
        }
        cases
    }
}

impl RealPosition {
    /// p and q of the tokens of a case, in the order of their ids, the sum of all others last.
    fn rows(&self, vocab: usize) -> Vec<[f64; 2]> {
        let (first, others) = self.tokens.split_at(self.tokens.len().min(vocab - 1));
        let mut first = first.to_vec();
        first.sort_unstable_by_key(|(token, _)| *token);
        let mut rows = first.into_iter().map(|(_, both)| both).collect::<Vec<_>>();
        // Tokens that neither model can draw.
        rows.resize(vocab - 1, [0.0; 2]);
        let [p, q] = sum(others);
        rows.push([self.rest[0] + p, self.rest[1] + q]);
        rows
    }
}

/// The probabilities of these tokens together.
fn sum(tokens: &[(Token, [f64; 2])]) -> [f64; 2] {
    tokens.iter().fold([0.0; 2], |[p, q], (_, [more_p, more_q])| [p + more_p, q + more_q])
}

/// A case that begins at position `first`.
fn case(
    positions: &[&RealPosition],
    (number, first): (usize, usize),
    shape: [usize; 2],
    sampled: bool,
) -> RoundCase {
    let mut soft = true;
    let about = "p and q of the models; the last token is all unlikely ones";
    let kind = CaseKind { name: "rows of models", about, soft, sampled };
    let mut case = RoundCase::new(kind, shape, |sequence| {
        let place = sequence.iter().fold(number as u64 + 1, |at, &t| at * 1009 + u64::from(t) + 1);
        let any = (mixed(place) % positions.len() as u64) as usize;
        let at = positions[if sequence.is_empty() { first } else { any }];
        let rows = at.rows(shape[0]);
        soft &= rows.iter().all(|row| row.iter().all(|&mass| mass > 0.0));
        rows.into_iter().map(|[p, q]| (p, q)).unzip()
    });
    case.kind.soft = soft;
    case
}

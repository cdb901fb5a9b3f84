//! Wrong block verifiers of chains.

use super::mutant::{CASE, Case, Mutant, RIGHT};
use super::{BUG, Bug};
use crate::core::chance::{Chance, Purpose, Site};
use crate::core::distribution::Dist;
use crate::core::round::Verdict;
use crate::core::tree::{Draft, DraftShape};
use crate::method::verify::{Rule, Traversal, Verifier};

/// Block verification as in its paper, with replaceable parts. As [`PLAIN_BLOCK`] it is correct: a
/// second implementation of what traversal does on a chain.
#[derive(Debug)]
struct BlockVerification {
    /// Whether weights are clipped at one.
    clips: bool,
    /// Whether the residual uses w·p instead of p.
    scales: bool,
    /// The probability of accepting at least up to here.
    accept: fn(StopTerms) -> f64,
    /// Whether the first failure ends the scan.
    breaks: bool,
}

/// The terms of the probability of accepting at least up to a token.
#[derive(Debug, Clone, Copy)]
struct StopTerms {
    /// Mass of (w·p − q)⁺ after the token; none after the last token.
    rest: Option<f64>,
    w: f64,
    /// p/q of the token alone.
    ratio: f64,
}

const PLAIN_BLOCK: BlockVerification = BlockVerification {
    clips: true,
    scales: true,
    accept: |step| match step.rest {
        Some(rest) if step.w < 1.0 => rest / (rest + (1.0 - step.w)),
        _ => step.w,
    },
    breaks: false,
};

impl BlockVerification {
    fn weights(&self, draft: &Draft, targets: &[Dist]) -> Vec<f64> {
        let mut w = 1.0;
        let next = draft.nodes().iter().zip(targets).map(|(node, p)| {
            w *= p.p(node.token) / node.q(node.token);
            if self.clips {
                w = w.min(1.0);
            }
            w
        });
        [1.0].into_iter().chain(next).collect()
    }

    /// The residual weights of the target after `i` tokens of the draft.
    fn rest(&self, draft: &Draft, p: &Dist, i: usize, w: f64) -> Vec<f64> {
        let w = if self.scales { w } else { 1.0 };
        let q = draft.node(i).distribution(draft.vocab());
        p.zip(&q, |p, q| (w * p - q).max(0.0))
    }
}

impl Verifier for BlockVerification {
    fn supports(&self, shape: &DraftShape) -> bool {
        !shape.branches()
    }

    fn verify(&self, draft: &Draft, targets: &[Dist], chance: &mut dyn Chance) -> Verdict {
        let (k, weights) = (draft.len(), self.weights(draft, targets));
        let mut kept = 0;
        for i in 1..=k {
            let (node, w) = (draft.node(i - 1), weights[i]);
            let ratio = targets[i - 1].p(node.token) / node.q(node.token);
            // The rule always uses this mass, even if the correction is drawn from other weights.
            let rest =
                (i < k).then(|| PLAIN_BLOCK.rest(draft, &targets[i], i, w).iter().sum::<f64>());
            let h = (self.accept)(StopTerms { rest, w, ratio });
            if chance.bernoulli(Site { purpose: Purpose::Accept, node: i - 1 }, h) {
                kept = i;
            } else if self.breaks {
                break;
            }
        }
        let left = (kept < k).then(|| self.rest(draft, &targets[kept], kept, weights[kept]));
        let left = left.and_then(Dist::from_measure).map(|(dist, _)| dist);
        let dist = left.as_ref().unwrap_or(&targets[kept]);
        let purpose = if kept < k { Purpose::Residual } else { Purpose::Bonus };
        let next = chance.categorical(Site { purpose, node: kept }, dist);
        Verdict { path: (0..kept).collect(), next, residual_fallbacks: 0 }
    }
}

/// Correct block verification.
pub(super) const RIGHT_BLOCK: Mutant = Mutant {
    case: Case { k: 3, tokens: 5, rule: Some(Rule::Block), ..CASE },
    verifier: &PLAIN_BLOCK,
    ..RIGHT
};

/// A second implementation of it.
pub(super) const RIGHT_TRAVERSAL: Mutant = Mutant { verifier: &Traversal, ..RIGHT_BLOCK };

const fn wrong(verifier: &'static BlockVerification) -> Bug {
    Bug { mutant: Some(Mutant { verifier, ..RIGHT_BLOCK }), ..BUG }
}

pub(super) const BUGS: &[Bug] = &[
    Bug {
        name: "block_residual_without_w",
        summary: "block verification corrects from (p - q)+ instead of (w p - q)+",
        seen: "vllm-ascend #7807",
        ..wrong(&BlockVerification { scales: false, ..PLAIN_BLOCK })
    },
    Bug {
        name: "block_without_clip",
        summary: "the joint ratio of block verification may exceed one",
        ..wrong(&BlockVerification { clips: false, ..PLAIN_BLOCK })
    },
    Bug {
        name: "block_accepts_with_w",
        summary: "block verification keeps i tokens with probability w_i",
        ..wrong(&BlockVerification { accept: |step| step.w, ..PLAIN_BLOCK })
    },
    Bug {
        name: "block_accepts_by_token",
        summary: "block verification keeps i tokens by the i-th token's own ratio",
        seen: "vllm-ascend #7807",
        ..wrong(&BlockVerification { accept: |step| step.ratio, ..PLAIN_BLOCK })
    },
    Bug {
        name: "block_stops_at_first_failure",
        summary: "block verification ends its scan at the first failure",
        ..wrong(&BlockVerification { breaks: true, ..PLAIN_BLOCK })
    },
];

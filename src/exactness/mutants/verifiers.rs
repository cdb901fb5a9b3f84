//! Wrong verifiers.

use super::{CASE, Case, Mutant, RIGHT, Rule, TREE_CASE, drafters, on_paper};
use crate::chance::{Chance, Purpose, Site};
use crate::distribution::{Dist, Token};
use crate::round::Verdict;
use crate::sampling::SamplingParams;
use crate::tree::{Draft, DraftShape, Node, Origin};
use crate::verify::{Rejection, Typical, Verifier};

/// Recursive rejection sampling with replaceable parts. As [`PLAIN_LOOP`] it is correct, so a
/// mutant is refuted because of its one change.
#[derive(Debug)]
struct Loop {
    /// Probability of accepting a node against the distribution `b`.
    accept: fn(&Dist, &Node) -> f64,
    /// The distribution after a rejected node, from `b`, the node's distribution and `p`.
    rest: fn(&Dist, &Dist, &Dist) -> Dist,
    /// The distribution of the bonus token, from the target's and the last node's
    /// distribution.
    bonus: fn(&Dist, &Dist) -> Dist,
    /// Whether later siblings are tried against the updated distribution.
    updates: bool,
    /// Whether a sibling whose token was already rejected is skipped.
    skips_twins: bool,
    /// Whether a bonus token is drawn after a fully accepted draft.
    draws_bonus: bool,
}

const PLAIN_LOOP: Loop = Loop {
    accept: |b, node| {
        if b.p(node.token) > 0.0 { b.p(node.token) / node.q(node.token) } else { 0.0 }
    },
    rest: |b, q, _| b.residual(q).unwrap_or_else(|| b.clone()),
    bonus: |p, _| p.clone(),
    updates: true,
    skips_twins: false,
    draws_bonus: true,
};

impl Verifier for Loop {
    fn supports(&self, _shape: &DraftShape) -> bool {
        true
    }

    fn verify(&self, draft: &Draft, targets: &[Dist], chance: &mut dyn Chance) -> Verdict {
        let mut verdict = Verdict::default();
        loop {
            let at = verdict.path.last().copied();
            let p = &targets[verdict.last_row().number()];
            let (mut b, mut tried, mut accepted) = (p.clone(), Vec::<Token>::new(), None);
            for child in draft.children(at) {
                let node = draft.node(child);
                if self.skips_twins && tried.contains(&node.token) {
                    continue;
                }
                tried.push(node.token);
                let against = if self.updates { &b } else { p };
                let site = Site { purpose: Purpose::Accept, node: child };
                if chance.bernoulli(site, (self.accept)(against, node)) {
                    accepted = Some(child);
                    break;
                }
                b = (self.rest)(against, &node.distribution(draft.vocab()), p);
            }
            if let Some(child) = accepted {
                verdict.path.push(child);
                continue;
            }
            let leaf = at.filter(|_| tried.is_empty()).map(|id| draft.node(id));
            let (purpose, dist) = match leaf {
                Some(last) => (Purpose::Bonus, (self.bonus)(p, &last.distribution(draft.vocab()))),
                None => (Purpose::Residual, b),
            };
            if let Some(last) = leaf.filter(|_| !self.draws_bonus) {
                verdict.path.pop();
                verdict.next = last.token;
                return verdict;
            }
            verdict.next =
                chance.categorical(Site { purpose, node: verdict.last_row().number() }, &dist);
            return verdict;
        }
    }
}

/// Token matching that draws again after a mismatch.
#[derive(Debug)]
struct Redraws;

impl Verifier for Redraws {
    fn supports(&self, _shape: &DraftShape) -> bool {
        true
    }

    fn verify(&self, draft: &Draft, targets: &[Dist], chance: &mut dyn Chance) -> Verdict {
        let mut verdict = Verdict::default();
        loop {
            let row = verdict.last_row().number();
            let dist = &targets[row];
            let token = chance.categorical(Site { purpose: Purpose::Target, node: row }, dist);
            let at = verdict.path.last().copied();
            let hit = draft.children(at).find(|&child| draft.node(child).token == token);
            match (hit, draft.children(at).next()) {
                (Some(child), _) => verdict.path.push(child),
                (None, None) => {
                    verdict.next = token;
                    return verdict;
                }
                (None, Some(_)) => {
                    let site = Site { purpose: Purpose::Residual, node: row };
                    verdict.next = chance.categorical(site, dist);
                    return verdict;
                }
            }
        }
    }
}

/// Rejection sampling of another draft and other distributions than those given.
#[derive(Debug)]
struct OtherInputs(fn(&Draft, &[Dist]) -> (Draft, Vec<Dist>));

impl Verifier for OtherInputs {
    fn supports(&self, _shape: &DraftShape) -> bool {
        true
    }

    fn verify(&self, draft: &Draft, targets: &[Dist], chance: &mut dyn Chance) -> Verdict {
        let (draft, targets) = (self.0)(draft, targets);
        Rejection.verify(&draft, &targets, chance)
    }
}

/// The probabilities rounded to two decimals.
fn rounded(dist: &Dist) -> Dist {
    let weights = (0..dist.vocab() as Token).map(|t| (dist.p(t) * 100.0).round());
    Dist::from_weights(weights.collect()).unwrap_or_else(|_| dist.clone())
}

/// The draft without its distributions.
fn without_distributions(draft: &Draft) -> Draft {
    let mut certain = Draft::empty(draft.vocab()).at(draft.start());
    for node in draft.nodes() {
        certain.forge(node.parent, node.token, Origin::Certain);
    }
    certain
}

/// The residual with tokens paired by their place after filtering, instead of by id.
fn by_place(b: &Dist, q: &Dist) -> Dist {
    let pairs = b.support().zip(q.support());
    let rest = pairs.map(|((token, b), (_, q))| (token, (b - q).max(0.0)));
    Dist::sparse(b.vocab(), rest.collect()).unwrap_or_else(|_| b.clone())
}

const TOP_2: SamplingParams = SamplingParams { top_k: 2, ..SamplingParams::NEUTRAL };
const FILTERED: Case = Case { target: TOP_2, draft: TOP_2, ..CASE };

/// The loop with no part replaced.
pub(super) const RIGHT_LOOP: Mutant =
    Mutant { name: "right_verifier_loop", verifier: &PLAIN_LOOP, ..RIGHT };

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "correction_from_p",
        imitates: "the correction is drawn from p, not from the residual",
        verifier: &Loop { rest: |_, _, p| p.clone(), ..PLAIN_LOOP },
        ..RIGHT
    },
    Mutant {
        name: "small_residual_from_p",
        imitates: "a residual of less than 0.01 counts as none: the correction is drawn from p",
        // A rejection has probability 0.005 and is followed by p instead of (0, 0.6, 0.4).
        case: on_paper(&[0.5, 0.3, 0.2], &[0.505, 0.297, 0.198]),
        on_paper: Some(0.005 * 0.5),
        verifier: &Loop {
            rest: |b, q, p| match b.overlap(q) {
                overlap if overlap > 1.0 - 0.01 => p.clone(),
                _ => (PLAIN_LOOP.rest)(b, q, p),
            },
            ..PLAIN_LOOP
        },
        ..RIGHT
    },
    Mutant {
        name: "residual_reversed",
        imitates: "the correction is drawn from norm((q - p)+)",
        verifier: &Loop {
            rest: |b, q, _| q.residual(b).unwrap_or_else(|| b.clone()),
            ..PLAIN_LOOP
        },
        ..RIGHT
    },
    Mutant {
        name: "bonus_from_q",
        imitates: "the bonus token is drawn from the draft's distribution",
        verifier: &Loop { bonus: |_, q| q.clone(), ..PLAIN_LOOP },
        ..RIGHT
    },
    Mutant {
        name: "no_bonus",
        imitates: "no bonus token follows a fully accepted draft; the distribution stays exact",
        verifier: &Loop { draws_bonus: false, ..PLAIN_LOOP },
        ..RIGHT
    },
    Mutant {
        name: "accept_iff_p_ge_q",
        imitates: "a draft token is kept exactly if p >= q, without a coin",
        verifier: &Loop {
            accept: |b, node| f64::from(u8::from(b.p(node.token) >= node.q(node.token))),
            ..PLAIN_LOOP
        },
        ..RIGHT
    },
    Mutant {
        name: "accept_ratio_inverted",
        imitates: "a draft token is kept with probability min(1, q/p)",
        verifier: &Loop { accept: |b, node| node.q(node.token) / b.p(node.token), ..PLAIN_LOOP },
        ..RIGHT
    },
    Mutant {
        name: "accept_iff_ratio_above_half",
        imitates: "a draft token is kept exactly if p/q > 1/2, without a coin",
        verifier: &Loop {
            accept: |b, node| f64::from(u8::from(b.p(node.token) > 0.5 * node.q(node.token))),
            ..PLAIN_LOOP
        },
        ..RIGHT
    },
    Mutant {
        name: "accept_with_root_of_ratio",
        imitates: "a draft token is kept with probability min(1, sqrt(p/q))",
        verifier: &Loop {
            accept: |b, node| (b.p(node.token) / node.q(node.token)).sqrt(),
            ..PLAIN_LOOP
        },
        ..RIGHT
    },
    Mutant {
        name: "accept_2_per_cent_more",
        imitates: "a draft token is kept with probability min(1, 1.02 p/q)",
        verifier: &Loop {
            accept: |b, node| 1.02 * b.p(node.token) / node.q(node.token),
            ..PLAIN_LOOP
        },
        ..RIGHT
    },
    Mutant {
        name: "typical_called_exact",
        imitates: "typical acceptance, which is approximate, is passed off as exact",
        verifier: &Typical { epsilon: 0.3, delta: 0.6 },
        ..RIGHT
    },
    Mutant {
        name: "missing_p_is_stale",
        imitates: "for a token that the target's filter removed an old p is used",
        case: Case { target: TOP_2, ..CASE },
        verifier: &Loop {
            accept: |b, node| {
                let old = b.p(b.argmax());
                Some(b.p(node.token)).filter(|p| *p > 0.0).unwrap_or(old) / node.q(node.token)
            },
            ..PLAIN_LOOP
        },
        ..RIGHT
    },
    Mutant {
        name: "residual_by_place",
        imitates: "the residual pairs p and q by place in the filtered lists, not by token",
        case: FILTERED,
        verifier: &Loop { rest: |b, q, _| by_place(b, q), ..PLAIN_LOOP },
        ..RIGHT
    },
    Mutant {
        name: "correction_is_argmax",
        imitates: "the correction is the most probable token of the residual",
        verifier: &Loop {
            rest: |b, q, p| Dist::one_hot(b.vocab(), (PLAIN_LOOP.rest)(b, q, p).argmax()),
            ..PLAIN_LOOP
        },
        ..RIGHT
    },
    Mutant {
        name: "draft_distributions_lost",
        imitates: "sampled drafts are verified as if they were certain; the distribution stays exact",
        verifier: &OtherInputs(|draft, targets| (without_distributions(draft), targets.to_vec())),
        ..RIGHT
    },
    Mutant {
        name: "p_rounded_to_2_decimals",
        imitates: "the target's distribution is handed over in low precision",
        verifier: &OtherInputs(|draft, targets| {
            (draft.clone(), targets.iter().map(rounded).collect())
        }),
        ..RIGHT
    },
    Mutant {
        name: "token_match_redraws",
        imitates: "on a mismatch a second sample of the target is emitted",
        case: Case { rule: Some(Rule::Match), ..CASE },
        verifier: &Redraws,
        ..RIGHT
    },
    Mutant {
        name: "siblings_b_not_updated",
        imitates: "later siblings are tried against p instead of the residual",
        case: TREE_CASE,
        drafter: drafters::SAMPLED_TREE,
        verifier: &Loop { updates: false, ..PLAIN_LOOP },
        ..RIGHT
    },
    Mutant {
        name: "duplicate_siblings_skipped",
        imitates: "a sibling drawn twice is tried once",
        case: TREE_CASE,
        drafter: drafters::SAMPLED_TREE,
        verifier: &Loop { skips_twins: true, ..PLAIN_LOOP },
        ..RIGHT
    },
];

//! Wrong verifiers that the certificate refutes.

use super::distribution::accepted_with;
use super::masses::{argmax, normalised, one_hot, support, zip};
use super::mutant::{CASE, Case, Mutant, RIGHT, TOP_2, TREE_CASE, on_paper};
use super::rejection::{Loop, OtherInputs, PLAIN_LOOP, Redraws, SAME_INPUTS, argmax_of};
use super::{BUG, Bug, BugDistribution, drafters};
use crate::core::distribution::{Dist, Token};
use crate::core::tree::{Draft, Origin};
use crate::method::verify::{Rule, Typical, Verifier};

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
fn by_place(b: &Dist, q: &Dist) -> Option<Dist> {
    let pairs = b.support().zip(q.support());
    let rest = pairs.map(|((token, b), (_, q))| (token, (b - q).max(0.0)));
    Dist::sparse(b.vocab(), rest.collect()).ok()
}

const FILTERED: Case = Case { target: TOP_2, draft: TOP_2, ..CASE };

/// The loop with no part replaced.
pub(super) const RIGHT_LOOP: Mutant = Mutant { verifier: &PLAIN_LOOP, ..RIGHT };

/// A verifier that is wrong on chains, too.
const fn chain(verifier: &'static dyn Verifier) -> Bug {
    chain_in(CASE, verifier)
}

const fn chain_in(case: Case, verifier: &'static dyn Verifier) -> Bug {
    Bug { mutant: Some(Mutant { case, verifier, ..RIGHT }), verifier: Some(verifier), ..BUG }
}

/// A verifier that is wrong on trees alone.
const fn tree(verifier: &'static dyn Verifier) -> Bug {
    let (case, drafter) = (TREE_CASE, drafters::SAMPLED_TREE);
    Bug { mutant: Some(Mutant { case, drafter, verifier, ..RIGHT }), ..BUG }
}

pub(super) const BUGS: &[Bug] = &[
    Bug {
        name: "correction_from_p",
        summary: "the correction is drawn from p, not from the residual",
        was: &["correction_from_target"],
        distribution: Some(|dists| {
            Some(BugDistribution::corrected_by(dists.kept()?, Some(&dists.target)))
        }),
        ..chain(&Loop { rest: |at| Some(at.p.clone()), ..PLAIN_LOOP })
    },
    Bug {
        name: "small_residual_from_p",
        summary: "a residual of less than 0.01 counts as none: the correction is drawn from p",
        ..chain_in(
            // A rejection has probability 0.005 and is followed by p instead of (0, 0.6, 0.4).
            on_paper(&[0.5, 0.3, 0.2], &[0.505, 0.297, 0.198], 0.005 * 0.5),
            &Loop {
                rest: |at| match at.b.overlap(at.q) {
                    overlap if overlap > 1.0 - 0.01 => Some(at.p.clone()),
                    _ => (PLAIN_LOOP.rest)(at),
                },
                ..PLAIN_LOOP
            },
        )
    },
    Bug {
        name: "residual_reversed",
        summary: "the correction is drawn from norm((q - p)+)",
        ..chain(&Loop { rest: |at| at.q.residual(at.b), ..PLAIN_LOOP })
    },
    Bug {
        name: "bonus_from_last_q",
        summary: "the bonus token is drawn from the q of the last drafted token",
        was: &["bonus_from_q"],
        distribution: Some(|dists| dists.draft_before.clone().map(BugDistribution::Bonus)),
        ..chain(&Loop { bonus: |_, q| q.clone(), ..PLAIN_LOOP })
    },
    Bug {
        name: "no_bonus",
        summary: "no bonus token follows a fully accepted draft; the distribution stays exact",
        ..chain(&Loop { draws_bonus: false, ..PLAIN_LOOP })
    },
    Bug {
        name: "accept_iff_p_ge_q",
        summary: "a draft token is kept exactly if p >= q, without a coin",
        was: &["accepts_where_p_exceeds_q"],
        distribution: Some(|dists| accepted_with(dists, |p, q| if p >= q { q } else { 0.0 })),
        ..chain(&Loop {
            accept: |b, node| f64::from(u8::from(b.p(node.token) >= node.q(node.token))),
            ..PLAIN_LOOP
        })
    },
    Bug {
        name: "accept_ratio_inverted",
        summary: "a draft token is kept with probability min(1, q/p)",
        ..chain(&Loop { accept: |b, node| node.q(node.token) / b.p(node.token), ..PLAIN_LOOP })
    },
    Bug {
        name: "accept_iff_ratio_above_half",
        summary: "a draft token is kept exactly if p/q > 1/2, without a coin",
        was: &["accepts_above_half"],
        distribution: Some(|dists| accepted_with(dists, |p, q| if p > 0.5 * q { q } else { 0.0 })),
        ..chain(&Loop {
            accept: |b, node| f64::from(u8::from(b.p(node.token) > 0.5 * node.q(node.token))),
            ..PLAIN_LOOP
        })
    },
    Bug {
        name: "accept_with_root_of_ratio",
        summary: "a draft token is kept with probability min(1, sqrt(p/q))",
        ..chain(&Loop {
            accept: |b, node| (b.p(node.token) / node.q(node.token)).sqrt(),
            ..PLAIN_LOOP
        })
    },
    Bug {
        name: "accept_2_per_cent_more",
        summary: "a draft token is kept with probability min(1, 1.02 p/q)",
        ..chain(&Loop {
            accept: |b, node| 1.02 * b.p(node.token) / node.q(node.token),
            ..PLAIN_LOOP
        })
    },
    Bug {
        name: "typical",
        summary: "a drafted token is kept if p > min(0.3, 0.6 exp(-H)), else replaced by a draw from p",
        seen: "Medusa, on purpose",
        was: &["typical_called_exact"],
        distribution: Some(|dists| {
            let (target, draft) = dists.pair()?;
            let entropy = -support(target).map(|(_, p)| p * p.ln()).sum::<f64>();
            let least = 0.3_f64.min(0.6 * (-entropy).exp());
            let accepted = zip(target, draft, |p, q| if p > least { q } else { 0.0 });
            Some(BugDistribution::corrected_by(accepted, Some(target)))
        }),
        ..chain(&Typical { epsilon: 0.3, delta: 0.6 })
    },
    Bug {
        name: "missing_p_is_stale",
        summary: "for a token that the target's filter removed an old p is used",
        ..chain_in(
            Case { target: TOP_2, ..CASE },
            &Loop {
                accept: |b, node| {
                    let old = b.p(b.argmax());
                    Some(b.p(node.token)).filter(|p| *p > 0.0).unwrap_or(old) / node.q(node.token)
                },
                ..PLAIN_LOOP
            },
        )
    },
    Bug {
        name: "residual_by_place",
        summary: "the residual pairs p and q by place in the filtered lists, not by token",
        distribution: Some(|dists| {
            let (target, draft) = dists.pair()?;
            let mut rest = vec![0.0; target.len()];
            for ((token, p), (_, q)) in support(target).zip(support(draft)) {
                rest[token] = (p - q).max(0.0);
            }
            let rest = normalised(rest);
            let rest = rest.as_deref().unwrap_or(target);
            Some(BugDistribution::corrected_by(dists.kept()?, Some(rest)))
        }),
        ..chain_in(FILTERED, &Loop { rest: |at| by_place(at.b, at.q), ..PLAIN_LOOP })
    },
    Bug {
        name: "correction_is_argmax",
        summary: "the correction is the most probable token of the residual",
        distribution: Some(|dists| {
            let most = one_hot(dists.target.len(), argmax(dists.residual.as_deref()?));
            Some(BugDistribution::corrected_by(dists.kept()?, Some(&most)))
        }),
        ..chain(&Loop {
            rest: |at| Some(argmax_of((PLAIN_LOOP.rest)(at).as_ref().unwrap_or(at.b))),
            ..PLAIN_LOOP
        })
    },
    Bug {
        name: "draft_distributions_lost",
        summary: "sampled drafts are verified as if they were certain; the distribution stays exact",
        seen: "vLLM #40149",
        ..chain(&OtherInputs { draft: without_distributions, ..SAME_INPUTS })
    },
    Bug {
        name: "p_rounded_to_2_decimals",
        summary: "the target's distribution is handed over in low precision",
        ..chain(&OtherInputs {
            targets: |_, targets| targets.iter().map(rounded).collect(),
            ..SAME_INPUTS
        })
    },
    Bug {
        name: "token_match_redraws",
        summary: "on a mismatch a second sample of the target is emitted",
        was: &["match_then_target"],
        distribution: Some(|dists| {
            let (target, draft) = dists.pair()?;
            Some(BugDistribution::corrected_by(zip(target, draft, |p, q| p * q), Some(target)))
        }),
        ..chain_in(Case { rule: Some(Rule::Match), ..CASE }, &Redraws)
    },
    Bug {
        name: "siblings_b_not_updated",
        summary: "later siblings are tried against p instead of the residual",
        ..tree(&Loop { updates: false, ..PLAIN_LOOP })
    },
    Bug {
        name: "duplicate_siblings_skipped",
        summary: "a sibling drawn twice is tried once",
        ..tree(&Loop { skips_twins: true, ..PLAIN_LOOP })
    },
];

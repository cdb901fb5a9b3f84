//! Draft models whose tokens are not the target's.
//!
//! [`TranslatedModel`] is a draft model in the target's ids: it reads the target's context
//! as text in its own tokens, and its rows hold the tokens that both vocabularies have,
//! all others being impossible. The sampler then restricts and renormalises q by itself,
//! and q is recorded in the target's ids with the token that was drawn from it. So any
//! drafter and verifier works on such a model, and what is exact stays exact with any
//! translation: it decides how often drafts are accepted, and nothing else. Where the numbers of
//! both vocabularies are the same, a context is read as it is and only rows are restricted.
//!
//! Source: Timor et al. 2025, arXiv 2502.05202, Algorithm 4 (token-level intersection).

mod pairing;
mod shared;
mod spelled;
mod translated;
mod translation;
mod translator;

pub use pairing::check_pair;
pub use shared::SharedVocabulary;
pub use translated::TranslatedModel;

use serde::{Deserialize, Serialize};

use crate::core::registry::named;

/// Which tokens a draft model proposes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Vocabulary {
    /// All of its tokens: they are the target's.
    #[default]
    Same,
    /// Those of the smaller vocabulary, of which the larger one is a continuation: equal numbers
    /// are equal tokens, except control tokens; see [`TranslatedModel::prefix`].
    Prefix,
    /// Those that target and draft model have in common; see [`TranslatedModel::new`].
    Intersection,
}

named!(Vocabulary: Same = "same", Prefix = "prefix", Intersection = "intersection");

impl Vocabulary {
    /// Whether the models must have the same tokens.
    pub fn is_same(&self) -> bool {
        *self == Self::Same
    }
}

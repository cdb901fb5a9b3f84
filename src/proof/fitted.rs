//! The methods and sampling settings of goodness-of-fit tests, and the state after their prefill.

use super::methods::Combination;
use crate::core::clock::{VirtualClock, VirtualCosts};
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::core::registry::{Class, Entry};
use crate::core::sampling::SamplingParams;
use crate::method::decode::{Generation, MethodSpec, StopRules, prefill};
use crate::method::verify::{BuildVerifier, VERIFIERS};
use crate::model::LanguageModel;

/// A sampling setting with its name.
pub(super) type Sampling = (&'static str, SamplingParams);
/// Eight tokens, counted one by one; and all tokens, counted in bins.
pub(super) const FEW: Sampling =
    ("top_k=8", SamplingParams { top_k: 8, ..SamplingParams::NEUTRAL });
pub(super) const ALL: Sampling = ("T=1", SamplingParams::NEUTRAL);

/// Every exact verifier with a chain or with a tree as draft.
pub(super) fn tried(methods: &[Combination], tree: bool) -> Vec<Combination> {
    let of = |verifier: &Entry<BuildVerifier>| {
        let own = methods.iter().filter(|m| m.verifier.entry.name == verifier.name);
        own.copied().find(|m| is_tried(m, methods) && m.proposer.tree().is_some() == tree)
    };
    VERIFIERS.iter().filter_map(of).collect()
}

/// Whether a method drafts a chain or a tree of two levels with a draft model and claims exactness.
fn is_tried(method: &Combination, methods: &[Combination]) -> bool {
    let drafts = match method.proposer.tree() {
        Some(tree) => tree == [2, 2],
        None => method.proposer.name() == "model",
    };
    let exact = matches!(method.verifier.entry.build.class, Class::D | Class::P);
    drafts && exact && method.has_first_settings() && method.is_first_of_lengths(methods)
}

/// A generation of `tokens` tokens after its prefill. Every sampled completion starts from a copy
/// of it, so the prompt is read once.
pub(super) fn prefilled<'a>(
    [target, draft]: [&'a dyn LanguageModel; 2],
    spec: &MethodSpec,
    prompt: &[Token],
    tokens: usize,
) -> Result<Generation<'a>, Error> {
    let (method, stop) = (spec.build(Some(draft))?, StopRules::max_tokens(tokens));
    let mut generation = Generation::new(target, method, prompt, stop, None)?;
    prefill(&mut generation, target, &VirtualClock::new(VirtualCosts::default()))?;
    Ok(generation)
}

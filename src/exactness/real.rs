//! Goodness of fit on models with f32 logits: the CPU engine, its caches, the
//! sampler and the seeded generator, as they are when text is generated.
//!
//! The first two tokens of seeded texts are held against their joint distribution, which
//! the target's own logits give without any draft. The texts go on beyond them, so
//! that a full draft is proposed.

use std::collections::BTreeMap;

use super::certificate::{CertificateVerdict, RealFit};
use super::methods::Combination;
use super::monte_carlo::Fit;
use super::replay::sample;
use super::two_tokens::{Reading, TwoTokens};
use crate::clock::{VirtualClock, VirtualCosts};
use crate::decode::{Generation, MethodSpec, StopRules};
use crate::distribution::Token;
use crate::draft::draft_sampling;
use crate::error::Error;
use crate::model::{LanguageModel, Role, SMALL_PAIR, Settings, Source, evaluate_one, load};
use crate::registry::{Class, Entry};
use crate::sampling::SamplingParams;
use crate::verify::{BuildVerifier, VERIFIERS};

/// Drafted tokens per round, or levels of the tree.
const K: usize = 2;
/// Texts in the full form and in the quick one.
const TEXTS: [u32; 2] = [20_000, 4_000];
/// Fixed before the first run.
const SEED: u64 = 2026;

/// A kind of sampling, by name.
type Sampling = (&'static str, SamplingParams);
/// Few tokens, each told apart; and all, in bins.
const FEW: Sampling = ("top_k=8", SamplingParams { top_k: 8, ..SamplingParams::NEUTRAL });
const ALL: Sampling = ("T=1", SamplingParams::NEUTRAL);

/// A target and a draft model, and a text to begin with.
#[derive(Debug, Clone)]
pub enum RealModels {
    /// Small ones with random weights.
    Random,
    /// Those that are loaded from these sources.
    Loaded {
        /// What the target is called.
        name: String,
        /// The target.
        target: Box<Source>,
        /// The draft model.
        draft: Box<Source>,
        /// The text.
        prompt: String,
    },
}

/// The target, the draft model and the prompt.
type Opened = (Box<dyn LanguageModel>, Box<dyn LanguageModel>, Vec<Token>);

impl RealModels {
    fn name(&self) -> &str {
        match self {
            Self::Random => "random weights",
            Self::Loaded { name, .. } => name,
        }
    }

    /// Opens the models, each on one thread: others test beside this one.
    fn open(&self) -> Result<Opened, Error> {
        let settings = Settings { threads: Some(1), ..Settings::default() };
        match self {
            Self::Random => {
                let [target, draft] = SMALL_PAIR.map(|shape| shape.model(&settings));
                Ok((target?, draft?, vec![1, 2, 3]))
            }
            Self::Loaded { target, draft, prompt, .. } => {
                let open =
                    |source: &Source, role| load(source.clone().with(settings.clone()), role);
                let (target, draft) = (open(target, Role::Target)?, open(draft, Role::Draft)?);
                let prompt = target.codec.encode(prompt)?;
                Ok((target.model, draft.model, prompt))
            }
        }
    }
}

/// A goodness of fit to be done.
#[derive(Debug, Clone)]
pub(super) struct RealCell {
    models: RealModels,
    method: Combination,
    sampling: Sampling,
    texts: u32,
}

/// Every exact verifier with a chain and with a tree of drafts: in the full form
/// with few tokens and with all, and one chain of either class on the loaded models;
/// in the quick form with fewer texts, chains with few tokens and trees with all.
pub(super) fn real_cells(
    methods: &[Combination],
    full: bool,
    loaded: Option<&RealModels>,
) -> Vec<RealCell> {
    let tried = |tree: bool| {
        let of = move |verifier: &Entry<BuildVerifier>| {
            let own = methods.iter().filter(|m| m.verifier.entry.name == verifier.name);
            own.copied().find(|m| is_tried(m, methods) && m.proposer.tree().is_some() == tree)
        };
        VERIFIERS.iter().filter_map(of).collect::<Vec<_>>()
    };
    let cell = |models: &RealModels, method, sampling| {
        let texts = TEXTS[usize::from(!full)];
        RealCell { models: models.clone(), method, sampling, texts }
    };
    let mut cells = Vec::new();
    for (methods, quick) in [(tried(false), FEW), (tried(true), ALL)] {
        let samplings = if full { vec![FEW, ALL] } else { vec![quick] };
        for method in methods {
            cells.extend(samplings.iter().map(|s| cell(&RealModels::Random, method, *s)));
        }
    }
    for class in [Class::D, Class::P] {
        let of_class = tried(false).into_iter().find(|m| m.verifier.entry.build.class == class);
        if let (Some(method), Some(models)) = (of_class, loaded.filter(|_| full)) {
            cells.extend([FEW, ALL].map(|sampling| cell(models, method, sampling)));
        }
    }
    cells
}

/// Whether a method drafts a chain or a tree of two levels with a model of its own
/// and claims to be exact.
fn is_tried(method: &Combination, methods: &[Combination]) -> bool {
    let drafts = match method.proposer.tree() {
        Some(tree) => tree == [2, 2],
        None => method.proposer.name() == "model",
    };
    let exact = matches!(method.verifier.entry.build.class, Class::D | Class::P);
    drafts && exact && method.has_first_settings() && method.is_first_of_lengths(methods)
}

impl RealCell {
    /// Samples the texts and compares them with the distribution.
    pub(super) fn run(&self) -> RealFit {
        let fit = self.fit();
        let reason = match &fit {
            Ok(fit) => fit.fault(),
            Err(error) => Some(error.to_string()),
        };
        RealFit {
            target: self.models.name().to_owned(),
            method: self.method.name(),
            sampler: self.sampling.0,
            k: K,
            fit: fit.ok(),
            verdict: if reason.is_none() {
                CertificateVerdict::Consistent
            } else {
                CertificateVerdict::Failed
            },
            reason,
        }
    }

    fn fit(&self) -> Result<Fit, Error> {
        let (target, draft, prompt) = self.models.open()?;
        let (target, draft) = (&*target, &*draft);
        let spec = MethodSpec {
            drafter: self.method.proposer.entry.name.to_owned(),
            verifier: self.method.verifier.entry.name.to_owned(),
            length: self.method.length.entry.name.to_owned(),
            num_speculative_tokens: K,
            sampling: self.sampling.1,
            params: self.method.params(),
        };
        let tokens = TwoTokens::of(
            &mut Reading::new(target, spec.sampling, &prompt)?,
            &mut Reading::new(draft, draft_sampling(spec.sampling, &spec.params), &prompt)?,
        )?;
        let (method, stop) = (spec.build(Some(draft))?, StopRules::max_tokens(K + 1));
        let mut generation = Generation::new(target, method, &prompt, stop, None)?;
        // Every text is a copy of this one and need not read the prompt again.
        if let Some(work) = generation.prefill(&VirtualClock::new(VirtualCosts::default()))? {
            evaluate_one(target, work)?;
        }
        let mut counts = BTreeMap::new();
        for (text, count) in sample(target, &generation, SEED, self.texts)? {
            *counts.entry(tokens.bins(&text)).or_insert(0) += count;
        }
        Ok(Fit::test(&counts, &tokens.dist))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(method: &str, sampling: Sampling, texts: u32) -> RealCell {
        let method = Combination::matching(&[method.to_owned()]).unwrap()[0];
        RealCell { models: RealModels::Random, method, sampling, texts }
    }

    #[test]
    fn an_approximate_method_is_refuted_on_real_models() {
        for sampling in [FEW, ALL] {
            let right = cell("rejection+model+fixed", sampling, 4_000).run();
            assert_eq!(
                (right.verdict, &right.reason),
                (CertificateVerdict::Consistent, &None),
                "{right:?}"
            );
            let fit = right.fit.unwrap();
            assert!(fit.cells > 40 && fit.min_detectable_tv < 0.12, "{fit:?}");
            for wrong in ["lenient+model+fixed", "typical+model+fixed"] {
                let fit = cell(wrong, sampling, 4_000).run();
                assert_eq!(fit.verdict, CertificateVerdict::Failed, "{fit:?}");
            }
        }
    }

    #[test]
    fn models_that_cannot_be_loaded_fail_with_a_reason() {
        let (target, draft) = (Box::new("/nowhere/t".into()), Box::new("/nowhere/d".into()));
        let (name, prompt) = ("nothing".to_owned(), String::new());
        let models = RealModels::Loaded { name, target, draft, prompt };
        let fit = RealCell { models, ..cell("rejection+model+fixed", FEW, 1) }.run();
        assert_eq!(fit.reason.as_deref(), Some("model /nowhere/t: no such folder"));
        assert_eq!(fit.verdict, CertificateVerdict::Failed);
    }
}

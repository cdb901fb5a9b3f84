//! Goodness of fit on small models with f32 logits: the CPU engine, its caches, the
//! sampler and the seeded generator, as they are when text is generated.
//!
//! The first two tokens of seeded texts are held against their joint distribution, which
//! the target's own logits give without any draft. The texts go on beyond them, so
//! that a full draft is proposed.

use std::collections::BTreeMap;

use super::certificate::{CertificateVerdict, RealFit};
use super::fitted::{ALL, FEW, Sampling, prefilled, spec, tried};
use super::methods::Combination;
use super::monte_carlo::Fit;
use super::reading::Reading;
use super::replay::sample;
use super::two_tokens::TwoTokens;
use crate::distribution::Token;
use crate::draft::draft_sampling;
use crate::error::Error;
use crate::model::{LanguageModel, SMALL_PAIR, Settings};

/// Drafted tokens per round, or levels of the tree.
const K: usize = 2;
/// Texts in the full form and in the quick one.
const TEXTS: [u32; 2] = [20_000, 4_000];
/// Fixed before the first run.
const SEED: u64 = 2026;

/// The text to begin with.
const PROMPT: [Token; 3] = [1, 2, 3];

/// The target and the draft model. Each has one thread: others test beside this one.
fn open() -> Result<[Box<dyn LanguageModel>; 2], Error> {
    let settings = Settings { threads: Some(1), ..Settings::default() };
    let [target, draft] = SMALL_PAIR.map(|shape| shape.model(&settings));
    Ok([target?, draft?])
}

/// A goodness of fit to be done.
#[derive(Debug, Clone)]
pub(super) struct RealCell {
    method: Combination,
    sampling: Sampling,
    texts: u32,
}

/// Every exact verifier with a chain and with a tree of drafts: in the full form
/// with few tokens and with all; in the quick form with fewer texts, chains with few
/// tokens and trees with all.
pub(super) fn real_cells(methods: &[Combination], full: bool) -> Vec<RealCell> {
    let texts = TEXTS[usize::from(!full)];
    let mut cells = Vec::new();
    for (tree, quick) in [(false, FEW), (true, ALL)] {
        let samplings = if full { vec![FEW, ALL] } else { vec![quick] };
        for method in tried(methods, tree) {
            let cell = |&sampling| RealCell { method, sampling, texts };
            cells.extend(samplings.iter().map(cell));
        }
    }
    cells
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
            method: self.method.name(),
            sampler: self.sampling.0,
            k: K,
            fit: fit.ok(),
            verdict: CertificateVerdict::of_fit(reason.as_ref()),
            reason,
        }
    }

    fn fit(&self) -> Result<Fit, Error> {
        let [target, draft] = open()?;
        let (target, draft) = (&*target, &*draft);
        let spec = spec(&self.method, K, self.sampling);
        let tokens = TwoTokens::of(
            &mut Reading::new("the target", target, spec.sampling, &PROMPT)?,
            &mut Reading::new(
                "the draft",
                draft,
                draft_sampling(spec.sampling, &spec.params),
                &PROMPT,
            )?,
        )?;
        let generation = prefilled([target, draft], &spec, &PROMPT, K + 1)?;
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
        RealCell { method, sampling, texts }
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
}

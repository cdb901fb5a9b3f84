//! Goodness of fit on small models with f32 logits. It covers the CPU engine, its caches, the
//! sampler and the seeded generator, as used to generate completions.
//!
//! The first two tokens of sampled completions are compared with their joint distribution, which
//! the target's logits yield without any draft. The completions are longer than that, so that a
//! full draft is proposed.

use std::collections::BTreeMap;

use super::certificate::RealFit;
use super::fitted::{ALL, FEW, Sampling, prefilled, tried};
use super::methods::Combination;
use super::monte_carlo::Fit;
use super::reading::Reading;
use super::replay::sample;
use super::two_tokens::TwoTokens;
use crate::checkpoint::SMALL_PAIR;
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::engine::Settings;
use crate::method::decode::CertificateVerdict;
use crate::method::draft::draft_sampling;

/// Number of drafted tokens per round, or of levels of the tree.
const K: usize = 2;
/// Number of completions in the full form and in the quick form.
const COMPLETIONS: [u32; 2] = [20_000, 4_000];
/// Fixed before the first run.
const SEED: u64 = 2026;

const PROMPT: [Token; 3] = [1, 2, 3];

/// A goodness-of-fit test to run.
#[derive(Debug, Clone)]
pub(super) struct RealCell {
    method: Combination,
    sampling: Sampling,
    completions: u32,
}

/// Every exact verifier with chains and with trees. The full form samples from few tokens and from
/// all. The quick form has fewer completions, chains with few tokens and trees with all tokens.
pub(super) fn real_cells(methods: &[Combination], full: bool) -> Vec<RealCell> {
    let completions = COMPLETIONS[usize::from(!full)];
    let mut cells = Vec::new();
    for (tree, quick) in [(false, FEW), (true, ALL)] {
        let samplings = if full { vec![FEW, ALL] } else { vec![quick] };
        for method in tried(methods, tree) {
            let cell =
                |sampling: &(_, _)| RealCell { method, sampling: sampling.clone(), completions };
            cells.extend(samplings.iter().map(cell));
        }
    }
    cells
}

impl RealCell {
    /// Samples completions and compares them with the distribution.
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
        // One thread each, because other tests run at the same time.
        let settings = Settings { threads: Some(1), ..Settings::default() };
        let [target, draft] = SMALL_PAIR.map(|shape| shape.model(&settings));
        let (target, draft) = (&*target?, &*draft?);
        let spec = self.method.spec(K, self.sampling.1.clone());
        let tokens = TwoTokens::of(
            &mut Reading::new("the target", target, spec.sampling.clone(), &PROMPT)?,
            &mut Reading::new(
                "the draft",
                draft,
                draft_sampling(spec.sampling.clone(), &spec.params),
                &PROMPT,
            )?,
        )?;
        let generation = prefilled([target, draft], &spec, &PROMPT, K + 1)?;
        let mut counts = BTreeMap::new();
        for (completion, count) in sample(target, &generation, SEED, self.completions)? {
            *counts.entry(tokens.bins(&completion)).or_insert(0) += count;
        }
        Ok(Fit::test(&counts, &tokens.dist))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(method: &str, sampling: Sampling, completions: u32) -> RealCell {
        let method = Combination::matching(&[method.to_owned()]).unwrap()[0];
        RealCell { method, sampling, completions }
    }

    #[test]
    fn an_approximate_method_is_refuted_on_real_models() {
        for sampling in [FEW, ALL] {
            let right = cell("rejection+model+fixed", sampling.clone(), 4_000).run();
            assert_eq!(
                (right.verdict, &right.reason),
                (CertificateVerdict::Consistent, &None),
                "{right:?}"
            );
            let fit = right.fit.unwrap();
            assert!(fit.cells > 40 && fit.min_detectable_tv < 0.12, "{fit:?}");
            for wrong in ["lenient+model+fixed", "typical+model+fixed"] {
                let fit = cell(wrong, sampling.clone(), 4_000).run();
                assert_eq!(fit.verdict, CertificateVerdict::Failed, "{fit:?}");
            }
        }
    }
}

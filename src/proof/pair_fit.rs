//! Goodness of fit on a pair of any size with its own prompts: whole completions, token by token.
//!
//! Sort the tokens in an order that depends only on the preceding tokens, and let F be the
//! probability under p of all tokens before x. If x was drawn from p, a uniform point of [F, F +
//! p(x)) is uniform on [0, 1) in every context (Rosenblatt 1952; with atoms, Brockwell 2007,
//! "Universal residuals"). So every token is an observation, and one pass over the finished
//! completion yields its p. Tokens are sorted by p/q, because mistakes of acceptance or of the
//! residual move mass along p/q.

use std::collections::BTreeMap;

use super::certificate::PairFit;
use super::fitted::{ALL, FEW, Sampling, prefilled, tried};
use super::joint::JointDistribution;
use super::methods::Combination;
use super::monte_carlo::Fit;
use super::reading::Reading;
use super::replay::sample;
use crate::core::chance::{Chance, Purpose, Request, Seeded, Site};
use crate::core::distribution::{Dist, Token};
use crate::core::error::Error;
use crate::core::registry::Class;
use crate::method::decode::CertificateVerdict;
use crate::method::draft::draft_sampling;
use crate::model::LanguageModel;

/// Number of drafted tokens per round, or of levels of the tree.
const K: usize = 4;
/// New tokens per completion.
pub const PAIR_TOKENS: usize = 16;
/// Number of parts of [0, 1) in which points are counted. Two consecutive tokens make an
/// observation.
const PARTS: usize = 4;
/// Fixed before the first run.
const SEED: u64 = 2027;

/// A pair of models with prompts.
#[derive(Debug, Clone)]
pub struct PairSample<'a> {
    /// The names of the target and the draft model.
    pub names: [String; 2],
    /// The target.
    pub target: &'a dyn LanguageModel,
    /// The draft model, with the target's token ids.
    pub draft: &'a dyn LanguageModel,
    /// Prompts that leave room for [`PAIR_TOKENS`] tokens in both models.
    pub prompts: &'a [Vec<Token>],
    /// Number of tokens to sample with each method and sampling setting.
    pub tokens: usize,
}

/// A method on the pair with one sampling setting.
#[derive(Debug, Clone)]
pub(super) struct PairCell {
    method: Combination,
    sampling: Sampling,
}

/// The first verifier of class D and of class P with chains; if methods were named, all of them
/// that are exact and draft with a model.
pub(super) fn pair_cells(methods: &[Combination], named: bool) -> Vec<PairCell> {
    let mut chosen = tried(methods, false);
    if named {
        chosen.extend(tried(methods, true));
    } else {
        let class = |method: &Combination| method.verifier.entry.build.class;
        let first = |of| chosen.iter().copied().find(|method| class(method) == of);
        chosen = [Class::D, Class::P].into_iter().filter_map(first).collect();
    }
    let cells = |method| [ALL, FEW].map(|sampling| PairCell { method, sampling });
    chosen.into_iter().flat_map(cells).collect()
}

/// The observations of a cell.
#[derive(Debug, Default)]
struct Observed {
    pairs: BTreeMap<Vec<Token>, u64>,
    tokens: usize,
    /// The sum over tokens of the total variation between p and q.
    tv_sum: f64,
}

impl PairCell {
    /// Samples completions and compares them with the target's distributions. Calls `done` after
    /// each prompt.
    pub(super) fn run(&self, pair: &PairSample<'_>, done: &mut dyn FnMut()) -> PairFit {
        let observed = self.observe(pair, done);
        let fit = observed.as_ref().ok().map(|observed| Fit::test(&observed.pairs, &even()));
        let reason = match (&observed, &fit) {
            (Err(error), _) => Some(error.to_string()),
            (_, fit) => fit.as_ref().and_then(Fit::fault),
        };
        let [target, draft] = pair.names.clone();
        let observed = observed.unwrap_or_default();
        PairFit {
            target,
            draft,
            method: self.method.name(),
            sampler: self.sampling.0,
            k: K,
            prompts: pair.prompts.len(),
            tokens: observed.tokens,
            draft_tv: fit.map(|_| observed.tv_sum / observed.tokens.max(1) as f64),
            fit,
            verdict: CertificateVerdict::of_fit(reason.as_ref()),
            reason,
        }
    }

    fn observe(&self, pair: &PairSample<'_>, done: &mut dyn FnMut()) -> Result<Observed, Error> {
        let spec = self.method.spec(K, self.sampling.1.clone());
        let completions = pair.tokens.div_ceil(PAIR_TOKENS).div_ceil(pair.prompts.len().max(1));
        let mut observed = Observed::default();
        for (seed, prompt) in (SEED..).zip(pair.prompts) {
            let mut p = Reading::new("the target", pair.target, spec.sampling.clone(), prompt)?;
            let draft = draft_sampling(spec.sampling.clone(), &spec.params);
            let mut q = Reading::new("the draft", pair.draft, draft, prompt)?;
            let models = [pair.target, pair.draft];
            let generation = prefilled(models, &spec, prompt, PAIR_TOKENS)?;
            let mut points = Seeded::new(Request { seed, prompt: "points", repeat: 0 });
            for (completion, count) in sample(pair.target, &generation, seed, completions as u32)? {
                let (p, q) = (p.along(&completion)?, q.along(&completion)?);
                for _ in 0..count {
                    observed.add(&completion, &p, &q, &mut points);
                }
            }
            done();
        }
        Ok(observed)
    }
}

impl Observed {
    fn add(&mut self, completion: &[Token], p: &[Dist], q: &[Dist], points: &mut dyn Chance) {
        points.begin_round(self.tokens as u64);
        let mut parts = Vec::with_capacity(completion.len());
        for (node, ((&token, p), q)) in completion.iter().zip(p).zip(q).enumerate() {
            let site = Site { purpose: Purpose::Target, node };
            parts.push(part(token, p, q, site, points));
            self.tv_sum += 1.0 - p.overlap(q);
        }
        self.tokens += parts.len();
        for pair in parts.chunks_exact(2) {
            *self.pairs.entry(pair.to_vec()).or_insert(0) += 1;
        }
    }
}

/// The part of [0, 1) that contains a token's point; a separate one if p excludes the token.
fn part(token: Token, p: &Dist, q: &Dist, site: Site, chance: &mut dyn Chance) -> Token {
    let (p_own, q_own) = (p.p(token), q.p(token));
    if p_own == 0.0 {
        return Token::MAX;
    }
    // p/q of another token < p_own/q_own; ties are in order of token id.
    let earlier = |&(other, p): &(Token, f64)| {
        let (one, own) = (p * q_own, p_own * q.p(other));
        one < own || (one == own && other < token)
    };
    let begin = p.support().filter(earlier).map(|(_, p)| p).sum::<f64>() * PARTS as f64;
    let end = begin + p_own * PARTS as f64;
    let within = |part: usize| {
        // Rounding may make the sum of all probabilities exceed 1.
        let limit = if part + 1 == PARTS { f64::INFINITY } else { (part + 1) as f64 };
        (end.min(limit) - begin.max(part as f64)).max(0.0)
    };
    match Dist::from_weights((0..PARTS).map(within).collect()) {
        Ok(parts) => chance.categorical(site, &parts),
        // The token is too improbable: its interval has length 0 here.
        Err(_) => (begin as usize).min(PARTS - 1) as Token,
    }
}

/// The distribution of the parts of two consecutive tokens: all pairs are equally probable.
fn even() -> JointDistribution {
    let parts = 0..PARTS as Token;
    let pairs = parts.clone().flat_map(|one| parts.clone().map(move |other| vec![one, other]));
    pairs.map(|pair| (pair, 1.0 / (PARTS * PARTS) as f64)).collect()
}

#[cfg(all(test, feature = "engine"))]
mod tests {
    use super::*;
    use crate::checkpoint::SMALL_PAIR;
    use crate::engine::Settings;

    /// The fit of one method on the small pair with random weights.
    fn fit(method: &str, sampling: Sampling, tokens: usize) -> PairFit {
        let settings = Settings { threads: Some(1), ..Settings::default() };
        let [target, draft] = SMALL_PAIR.map(|shape| shape.model(&settings).unwrap());
        let prompts = [vec![1, 2, 3], vec![4, 5], vec![6]];
        let names = ["target", "draft"].map(str::to_owned);
        let pair =
            PairSample { names, target: &*target, draft: &*draft, prompts: &prompts, tokens };
        let method = Combination::matching(&[method.to_owned()]).unwrap()[0];
        let mut prompts_done = 0;
        let fit = PairCell { method, sampling }.run(&pair, &mut || prompts_done += 1);
        assert_eq!(prompts_done, prompts.len());
        fit
    }

    #[test]
    fn exact_methods_fit_and_approximate_ones_are_refuted() {
        for sampling in [ALL, FEW] {
            for right in ["rejection+model+fixed", "gumbel+model+fixed", "block+model+fixed"] {
                let fit = fit(right, sampling.clone(), 12_000);
                assert_eq!((fit.verdict, &fit.reason), (CertificateVerdict::Consistent, &None));
                assert!(fit.tokens >= 12_000 && fit.fit.unwrap().cells == PARTS * PARTS);
                assert!(fit.fit.unwrap().min_detectable_tv < fit.draft_tv.unwrap(), "{fit:?}");
            }
        }
        // With eight tokens each, the two models share too few for lenience to matter.
        let wrong = [(ALL, "lenient+model+fixed"), (ALL, "typical+model+fixed")];
        for (sampling, wrong) in wrong.into_iter().chain([(FEW, "typical+model+fixed")]) {
            let fit = fit(wrong, sampling, 12_000);
            assert_eq!(fit.verdict, CertificateVerdict::Failed, "{fit:?}");
        }
    }

    #[test]
    fn points_lie_where_the_order_by_p_over_q_puts_their_tokens() {
        let dist = |probs: &[f64]| Dist::from_probs(probs.to_vec()).unwrap();
        let (p, q) = (dist(&[0.25, 0.5, 0.25, 0.0]), dist(&[0.25, 0.25, 0.5, 0.0]));
        let mut chance = Seeded::new(Request { seed: 1, prompt: "p", repeat: 0 });
        let mut seen = |token, node| {
            let site = Site { purpose: Purpose::Target, node };
            part(token, &p, &q, site, &mut chance)
        };
        // By p/q: token 2, then 0, then 1, which covers two parts.
        assert_eq!((seen(2, 0), seen(0, 1), seen(3, 2)), (0, 1, Token::MAX));
        let of_one = (0..64).map(|node| seen(1, node)).collect::<Vec<_>>();
        let count = |part| of_one.iter().filter(|seen| **seen == part).count();
        assert!(count(2) + count(3) == 64 && count(2) > 16 && count(3) > 16, "{of_one:?}");
    }
}

//! Goodness of fit on a pair of any size, with its own prompts: whole texts, token by token.
//!
//! Put the tokens in an order that the text before fixes, and let F be the probability under
//! p of all tokens before x. If x was drawn from p, a uniform point of [F, F + p(x)) is
//! uniform on [0, 1), whatever the text before is (Rosenblatt 1952; with atoms, Brockwell
//! 2007, "Universal residuals"). So every token is an observation, and one pass over the
//! finished text gives its p. The order is that of p/q, along which a mistake of acceptance
//! or of a residual moves mass.

use std::collections::BTreeMap;

use super::certificate::{CertificateVerdict, PairFit};
use super::fitted::{ALL, FEW, Sampling, prefilled, spec, tried};
use super::joint::JointDistribution;
use super::methods::Combination;
use super::monte_carlo::Fit;
use super::reading::Reading;
use super::replay::sample;
use crate::chance::{Chance, Purpose, Request, Seeded, Site};
use crate::distribution::{Dist, Token};
use crate::draft::draft_sampling;
use crate::error::Error;
use crate::model::LanguageModel;
use crate::registry::Class;

/// Drafted tokens per round, or levels of the tree.
const K: usize = 4;
/// New tokens of a text.
pub const PAIR_TEXT: usize = 16;
/// Parts of [0, 1) that points are counted in. Two tokens in a row make an observation.
const PARTS: usize = 4;
/// Fixed before the first run.
const SEED: u64 = 2027;

/// A pair of models with prompts.
#[derive(Debug, Clone)]
pub struct PairSample<'a> {
    /// What the target and the draft model are called.
    pub names: [String; 2],
    /// The target.
    pub target: &'a dyn LanguageModel,
    /// The draft model, in the target's ids.
    pub draft: &'a dyn LanguageModel,
    /// Prompts that leave room for [`PAIR_TEXT`] tokens in both models.
    pub prompts: &'a [Vec<Token>],
    /// Tokens to sample with each method and kind of sampling.
    pub tokens: usize,
}

/// A method on the pair under one kind of sampling.
#[derive(Debug, Clone, Copy)]
pub(super) struct PairCell {
    method: Combination,
    sampling: Sampling,
}

/// The first verifier of either exact class with a chain of drafts; if methods were named,
/// all of them that are exact and draft with a model.
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

/// What the texts of a cell were.
#[derive(Debug, Default)]
struct Observed {
    pairs: BTreeMap<Vec<Token>, u64>,
    tokens: usize,
    /// The sum over tokens of the total variation between p and q.
    tv_sum: f64,
}

impl PairCell {
    /// Samples the texts and compares them with the target's distributions; `done` is called
    /// after each prompt.
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
        let spec = spec(&self.method, K, self.sampling);
        let texts = pair.tokens.div_ceil(PAIR_TEXT).div_ceil(pair.prompts.len().max(1));
        let mut observed = Observed::default();
        for (seed, prompt) in (SEED..).zip(pair.prompts) {
            let mut p = Reading::new("the target", pair.target, spec.sampling, prompt)?;
            let draft = draft_sampling(spec.sampling, &spec.params);
            let mut q = Reading::new("the draft", pair.draft, draft, prompt)?;
            let models = [pair.target, pair.draft];
            let generation = prefilled(models, &spec, prompt, PAIR_TEXT)?;
            let mut points = Seeded::new(Request { seed, prompt: "points", repeat: 0 });
            for (text, count) in sample(pair.target, &generation, seed, texts as u32)? {
                let (p, q) = (p.along(&text)?, q.along(&text)?);
                for _ in 0..count {
                    observed.add(&text, &p, &q, &mut points);
                }
            }
            done();
        }
        Ok(observed)
    }
}

impl Observed {
    fn add(&mut self, text: &[Token], p: &[Dist], q: &[Dist], points: &mut dyn Chance) {
        points.begin_round(self.tokens as u64);
        let mut parts = Vec::with_capacity(text.len());
        for (node, ((&token, p), q)) in text.iter().zip(p).zip(q).enumerate() {
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

/// The part of [0, 1) in which a token's point lies; one of its own if p excludes it.
fn part(token: Token, p: &Dist, q: &Dist, site: Site, chance: &mut dyn Chance) -> Token {
    let (p_own, q_own) = (p.p(token), q.p(token));
    if p_own == 0.0 {
        return Token::MAX;
    }
    // p/q of another token < p_own/q_own; equal ones stay in order.
    let earlier = |&(other, p): &(Token, f64)| {
        let (one, own) = (p * q_own, p_own * q.p(other));
        one < own || (one == own && other < token)
    };
    let begin = p.support().filter(earlier).map(|(_, p)| p).sum::<f64>() * PARTS as f64;
    let end = begin + p_own * PARTS as f64;
    let within = |part: usize| {
        // The sum of all probabilities may exceed 1 by its rounding.
        let limit = if part + 1 == PARTS { f64::INFINITY } else { (part + 1) as f64 };
        (end.min(limit) - begin.max(part as f64)).max(0.0)
    };
    match Dist::from_weights((0..PARTS).map(within).collect()) {
        Ok(parts) => chance.categorical(site, &parts),
        // The token is too improbable to have a length here.
        Err(_) => (begin as usize).min(PARTS - 1) as Token,
    }
}

/// The distribution of the parts of two tokens in a row: all pairs are equally probable.
fn even() -> JointDistribution {
    let parts = 0..PARTS as Token;
    let pairs = parts.clone().flat_map(|one| parts.clone().map(move |other| vec![one, other]));
    pairs.map(|pair| (pair, 1.0 / (PARTS * PARTS) as f64)).collect()
}

#[cfg(all(test, feature = "engine"))]
mod tests {
    use super::*;
    use crate::model::{SMALL_PAIR, Settings};

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
                let fit = fit(right, sampling, 12_000);
                assert_eq!((fit.verdict, &fit.reason), (CertificateVerdict::Consistent, &None));
                assert!(fit.tokens >= 12_000 && fit.fit.unwrap().cells == PARTS * PARTS);
                assert!(fit.fit.unwrap().min_detectable_tv < fit.draft_tv.unwrap(), "{fit:?}");
            }
        }
        // Of eight tokens each, the two models share so few that lenience hardly acts.
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

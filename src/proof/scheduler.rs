//! Schedulers of verification: they decide, for all requests of a round together, how many of their
//! drafted tokens the target verifies.
//!
//! vLLM (adaptive verification), TensorRT-LLM, SGLang and DSpark draft a whole block for every
//! request and then choose lengths from estimates of acceptance. A length that depends on a token
//! which it cuts off, or on what was drafted behind it, changes the output distribution (DSpark,
//! DeepSeek-AI 2026, appendix A). Requests share the choice, so each may have the target's
//! distribution while their joint distribution is not the product.
//!
//! Here two requests draft blocks on toy models, with estimates that are the exact acceptance of each
//! token given those before it. Every outcome of every draw is enumerated over two rounds, with the
//! production verifier.

use std::collections::BTreeMap;
use std::rc::Rc;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::joint::{Gap, JointDistribution, off, target_distribution};
use super::together::product;
use crate::core::chance::Exhaustive;
use crate::core::distribution::{Dist, Token};
use crate::core::error::Error;
use crate::core::sampling::{History, Logits, Sampler, SamplingParams};
use crate::core::tree::{Draft, Origin};
use crate::method::verify::{Rejection, Verifier};
use crate::model::{LanguageModel, Toy, ToyPair, block_text};

/// Drafted tokens of a request and a round.
const K: usize = 2;
/// Tokens of a completion that are compared: those of two rounds.
const TOKENS: usize = 4;
/// Rounds that are scheduled.
const ROUNDS: usize = 2;
/// Number of pairs of models, whose distributions this seed draws: estimates from 0.1 to 1 occur.
const PAIRS: u64 = 6;
const SEED: u64 = 2026;
/// The prompts of the two requests.
const PROMPTS: [[Token; 2]; 2] = [[0, 1], [1, 0]];

/// A drafted token as a scheduler sees it.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct DraftedToken {
    /// The token.
    pub token: Token,
    /// The probability with which it was drawn.
    pub q: f64,
    /// The probability that the token at this place is accepted if those before it are, as known
    /// before it was drawn.
    pub estimate: f64,
}

/// The drafts of a round, request by request.
pub type RoundOfDrafts = Vec<Vec<DraftedToken>>;

/// Chooses how many tokens of each request are verified. It gets the drafts of all rounds so far; the
/// last ones are those of this round.
pub type Scheduler<'s> = dyn FnMut(&[RoundOfDrafts]) -> Result<Vec<usize>, Error> + 's;

/// What the enumeration of a scheduler found.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct SchedulerReport {
    /// The largest total variation of a request's completion from the target's distribution.
    pub tv_request: f64,
    /// The largest total variation of the joint distribution of both completions from the product.
    pub tv_joint: f64,
    /// Number of choices asked of the scheduler.
    pub choices: usize,
    /// The combinations of lengths that it chose, with how often.
    pub lengths: BTreeMap<String, usize>,
}

/// A verdict on a scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SchedulerVerdict {
    /// Completions have the target's distribution, and are independent.
    Exact,
    /// Each completion has the target's distribution, but they depend on one another.
    Dependent,
    /// A completion does not have the target's distribution.
    Wrong,
}

impl SchedulerReport {
    /// The verdict in one sentence.
    pub fn sentence(&self) -> String {
        let (request, joint) = (self.tv_request, self.tv_joint);
        let chose = format!("{} choices of {} kinds", self.choices, self.lengths.len());
        match self.verdict() {
            SchedulerVerdict::Exact => format!(
                "The scheduler is exact: completions have the target's distribution and are \
                 independent ({chose})."
            ),
            SchedulerVerdict::Dependent => format!(
                "The scheduler makes requests depend on one another: each completion has the \
                 target's distribution, but the joint distribution differs from the product by \
                 TV = {joint:.4} ({chose})."
            ),
            SchedulerVerdict::Wrong => format!(
                "The scheduler is wrong: a completion differs from the target's distribution by TV \
                 = {request:.4} ({chose}). A length may depend on estimates of tokens before the \
                 cut and on earlier rounds alone."
            ),
        }
    }

    /// What the distances say.
    pub fn verdict(&self) -> SchedulerVerdict {
        match () {
            () if off(self.tv_request) => SchedulerVerdict::Wrong,
            () if off(self.tv_joint) => SchedulerVerdict::Dependent,
            () => SchedulerVerdict::Exact,
        }
    }
}

/// The tokens of both requests, and the drafts of the rounds before.
type State = (Vec<Vec<Token>>, Vec<RoundOfDrafts>);

/// Enumerates two requests whose drafts a scheduler cuts.
///
/// # Errors
/// Those of the scheduler, or if it returns other lengths than from 0 to the number of drafted
/// tokens of each request.
pub fn certify_scheduler(scheduler: &mut Scheduler<'_>) -> Result<SchedulerReport, Error> {
    let mut report =
        SchedulerReport { tv_request: 0.0, tv_joint: 0.0, choices: 0, lengths: BTreeMap::new() };
    for number in 0..PAIRS {
        let pair = pair(number);
        let models = Models {
            target: pair.target("target")?,
            draft: pair.draft("draft")?,
            sampler: Sampler::new(SamplingParams::default())?,
        };
        let found = models.enumerate(scheduler, &mut report)?;
        let expected = PROMPTS
            .map(|prompt| target_distribution(&models.target, &models.sampler, &prompt, TOKENS));
        let expected = expected.into_iter().collect::<Result<Vec<_>, _>>()?;
        for (number, expected) in expected.iter().enumerate() {
            let gap = Gap::between(&marginal(&found, number), expected);
            report.tv_request = report.tv_request.max(gap.tv_joint);
        }
        let independent = product(&expected);
        let gaps =
            independent.iter().map(|(both, p)| (found.get(both).copied().unwrap_or(0.0) - p).abs());
        report.tv_joint = report.tv_joint.max(0.5 * gaps.sum::<f64>());
    }
    Ok(report)
}

/// A pair of models over two tokens, whose distributions depend on the last two.
fn pair(number: u64) -> ToyPair {
    let mut rng = ChaCha8Rng::seed_from_u64(SEED + number);
    let mut table = || {
        let mut rows = BTreeMap::new();
        for text in ["", "0", "1", "0,0", "0,1", "1,0", "1,1"] {
            let first = 0.02 + 0.96 * rng.random::<f64>();
            rows.insert(text.to_owned(), vec![first, 1.0 - first]);
        }
        rows
    };
    ToyPair::new(2, 2, table(), table())
}

/// The distribution of one request's completion.
fn marginal(found: &BTreeMap<Vec<Vec<Token>>, f64>, request: usize) -> JointDistribution {
    let mut dist = JointDistribution::new();
    for (both, mass) in found {
        *dist.entry(both[request].clone()).or_insert(0.0) += mass;
    }
    dist
}

struct Models {
    target: Toy,
    draft: Toy,
    sampler: Sampler,
}

impl Models {
    fn enumerate(
        &self,
        scheduler: &mut Scheduler<'_>,
        report: &mut SchedulerReport,
    ) -> Result<BTreeMap<Vec<Vec<Token>>, f64>, Error> {
        let begun = PROMPTS.map(|prompt| prompt.to_vec()).to_vec();
        let mut states = vec![((begun, Vec::new()), 1.0)];
        for _ in 0..ROUNDS {
            let mut next = BTreeMap::<String, (State, f64)>::new();
            for (state, mass) in states {
                self.round(&state, scheduler, report, &mut |after, weight| {
                    let key = format!("{after:?}");
                    next.entry(key).or_insert((after, 0.0)).1 += mass * weight;
                })?;
            }
            states = next.into_values().collect();
        }
        let mut found = BTreeMap::new();
        for ((texts, _), mass) in states {
            for (both, weight) in self.ends(&texts)? {
                *found.entry(both).or_insert(0.0) += mass * weight;
            }
        }
        Ok(found)
    }

    /// Runs a round of both requests with every outcome.
    fn round(
        &self,
        (texts, before): &State,
        scheduler: &mut Scheduler<'_>,
        report: &mut SchedulerReport,
        reached: &mut dyn FnMut(State, f64),
    ) -> Result<(), Error> {
        let mut walk = Exhaustive::default();
        loop {
            let (mut drafts, mut seen) = (Vec::new(), RoundOfDrafts::new());
            for text in texts {
                let (draft, own) = self.draft(text, &mut walk)?;
                drafts.push(draft);
                seen.push(own);
            }
            let rounds = [&before[..], &[seen]].concat();
            let lengths = scheduler(&rounds)?;
            check(&lengths)?;
            report.choices += 1;
            *report.lengths.entry(format!("{lengths:?}")).or_insert(0) += 1;
            let mut after = texts.clone();
            for ((text, draft), length) in after.iter_mut().zip(&drafts).zip(lengths) {
                let (draft, targets) = self.verified(text, draft, length)?;
                let verdict = Rejection.verify(&draft, &targets, &mut walk);
                text.extend(verdict.path.iter().map(|node| draft.node(*node).token));
                text.push(verdict.next);
            }
            reached((after, rounds), walk.weight());
            if !walk.advance() {
                return Ok(());
            }
        }
    }

    /// A whole block after a text, with the exact acceptance at each place.
    fn draft(
        &self,
        text: &[Token],
        walk: &mut Exhaustive,
    ) -> Result<(Draft, Vec<DraftedToken>), Error> {
        let mut draft = Draft::empty(self.target.info().vocab);
        let (mut drafted, mut seen) = (Vec::new(), Vec::new());
        for _ in 0..K {
            let q = Rc::new(self.row(&self.draft, &block_text(text, &drafted, true))?);
            let p = self.row(&self.target, &[text, &drafted].concat())?;
            let id = draft.sample(draft.len().checked_sub(1), &q, walk);
            let token = draft.node(id).token;
            seen.push(DraftedToken { token, q: q.p(token), estimate: p.overlap(&q) });
            drafted.push(token);
        }
        Ok((draft, seen))
    }

    /// The first tokens of a draft, with the target's distributions at all rows.
    fn verified(
        &self,
        text: &[Token],
        draft: &Draft,
        length: usize,
    ) -> Result<(Draft, Vec<Dist>), Error> {
        let mut cut = Draft::empty(draft.vocab());
        let mut targets = vec![self.row(&self.target, text)?];
        for id in 0..length {
            let node = draft.node(id);
            let q = Origin::Sampled(node.distribution(draft.vocab()));
            cut.forge(id.checked_sub(1), node.token, q);
            targets.push(self.row(&self.target, &[text, &cut.tokens_to(id)].concat())?);
        }
        Ok((cut, targets))
    }

    /// The completions of [`TOKENS`] tokens: what a round has not reached, the target draws.
    fn ends(&self, texts: &[Vec<Token>]) -> Result<BTreeMap<Vec<Vec<Token>>, f64>, Error> {
        let mut requests = Vec::new();
        for (text, prompt) in texts.iter().zip(PROMPTS) {
            let new = &text[prompt.len()..];
            let missing = TOKENS.saturating_sub(new.len());
            let rest = target_distribution(&self.target, &self.sampler, text, missing)?;
            let begun = &new[..TOKENS - missing];
            let whole = rest.into_iter().map(|(rest, p)| ([begun, &rest].concat(), p));
            requests.push(whole.collect::<JointDistribution>());
        }
        Ok(product(&requests))
    }

    fn row(&self, model: &Toy, text: &[Token]) -> Result<Dist, Error> {
        let logits = Logits::F64(model.logits(text)?.to_vec());
        let history = History { prompt_len: text.len(), context: text, drafted: &[] };
        self.sampler.distribution(&logits, history).map_err(Error::distribution("the toy"))
    }
}

/// Checks what a scheduler returned.
fn check(lengths: &[usize]) -> Result<(), Error> {
    if lengths.len() == PROMPTS.len() && lengths.iter().all(|length| *length <= K) {
        return Ok(());
    }
    Err(Error::input(format!(
        "the scheduler returned the lengths {lengths:?}, but must return {} numbers from 0 to {K}",
        PROMPTS.len()
    )))
}

//! Policies that decide how many tokens each request drafts in a step. No policy cuts a token that
//! it has seen: a budget that depends on the tokens that it cuts makes speculation inexact. The
//! decoder's own policies look at a draft as it grows, and end it.

mod budget;
mod by_requests;
mod fixed;
mod goodput;
mod own_length;

use serde::Serialize;

use self::own_length::OwnLengths;
use super::outlook::Outlook;
use super::step::{StepCosts, StepWork};
use crate::core::error::Error;
use crate::core::params::{Param, Params};
use crate::core::registry::Entry;
use crate::method::length::{BuildLength, LengthParams};
use crate::tapes::forecasting::CostTable;
use crate::tapes::tape::DrawnBeliefs;

/// A policy.
pub trait ServingPolicy: std::fmt::Debug {
    /// The maximum number of tokens that each request of a step may draft.
    fn drafts(&mut self, step: &ServerStep<'_>) -> Vec<usize>;

    /// Called after the step with what its rounds accepted.
    fn observe(&mut self, rounds: &[ServedRound]) {
        let _ = rounds;
    }

    /// Called when a request is done.
    fn forget(&mut self, request: usize) {
        let _ = request;
    }
}

/// What a policy sees of a step.
#[derive(Debug, Clone, Copy)]
pub struct ServerStep<'s> {
    /// The requests that decode.
    pub requests: &'s [DecodingRequest<'s>],
    /// Costs of steps.
    pub costs: StepCosts<'s>,
    /// The work of the step apart from drafts.
    pub work: StepWork<'s>,
}

/// A request that decodes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DecodingRequest<'s> {
    /// Its unique number.
    pub number: usize,
    /// Maximum length of its draft.
    pub most: usize,
    /// Its draft, which a policy looks at token by token; `None` if the tape does not hold it.
    pub draft: Option<DrawnBeliefs<'s>>,
}

/// The outcome of a round.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ServedRound {
    /// The number of the request.
    pub request: usize,
    /// Drafted tokens.
    pub drafted: usize,
    /// Accepted tokens.
    pub accepted: usize,
    /// Tokens that it added to the completion.
    pub emitted: usize,
    /// The drafting time of its step, in ms.
    pub draft_ms: f64,
    /// The time of its step for the target's pass and outside passes, in ms.
    pub verify_ms: f64,
}

impl ServerStep<'_> {
    /// The time of the step with these drafts, in ms.
    pub fn ms(&self, drafts: &[usize]) -> f64 {
        self.costs.step(&StepWork { drafts, ..self.work }).total()
    }
}

/// What a policy is built from.
#[derive(Debug, Clone, Copy)]
pub struct PolicyParams<'p> {
    /// The expected rounds of the completions.
    pub outlook: &'p Outlook,
    /// Costs of passes.
    pub table: &'p CostTable,
    /// K, or its maximum.
    pub k: usize,
    /// Maximum number of requests that share a step.
    pub max_batch: usize,
    /// Settings of a draft length policy.
    pub settings: &'p Params,
}

/// The K of a policy if none is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefaultK {
    /// It never drafts.
    None,
    /// The K that is fastest for a request alone.
    Alone,
    /// The largest K that it may choose.
    Max(usize),
}

/// The default of the largest K that a policy may choose.
pub const DEFAULT_MAX_K: usize = 8;

/// A policy by its name.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct PolicyEntry {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub summary: &'static str,
    /// Where it was published; `-` if nowhere in particular.
    pub source: &'static str,
    /// Its K if none is requested.
    #[serde(skip)]
    pub default_k: DefaultK,
    #[serde(skip)]
    build: BuildPolicy,
}

/// What a policy is made from.
#[derive(Debug, Clone, Copy)]
enum BuildPolicy {
    /// A policy of servers.
    Server(fn(&PolicyParams<'_>) -> Box<dyn ServingPolicy>),
    /// A draft length policy of the decoder.
    Length(&'static Entry<BuildLength>),
}

/// The policy of plain decoding.
pub const NO_DRAFTS: PolicyEntry = fixed::PLAIN;

/// All policies.
pub fn policies() -> impl Iterator<Item = PolicyEntry> {
    let servers = [NO_DRAFTS, fixed::ENTRY, by_requests::ENTRY, goodput::ENTRY, budget::ENTRY];
    servers.into_iter().chain(own_length::entries())
}

impl PolicyEntry {
    /// K, or its maximum. `asked` is the requested one, `alone` the fastest for a request alone.
    pub fn k(&self, asked: Option<usize>, alone: usize) -> usize {
        match self.default_k {
            DefaultK::None => 0,
            DefaultK::Alone => asked.unwrap_or(alone),
            DefaultK::Max(most) => asked.unwrap_or(most),
        }
    }

    /// The policy.
    ///
    /// # Errors
    /// If a setting of a draft length policy is not allowed.
    pub fn build(&self, params: &PolicyParams<'_>) -> Result<Box<dyn ServingPolicy>, Error> {
        match self.build {
            BuildPolicy::Server(build) => Ok(build(params)),
            BuildPolicy::Length(length) => Ok(Box::new(OwnLengths::new(length, params)?)),
        }
    }

    /// The settings that it reads.
    pub fn settings(&self) -> &'static [Param] {
        match self.build {
            BuildPolicy::Server(_) => &[],
            BuildPolicy::Length(length) => length.params,
        }
    }

    /// Whether it looks at the draft model's probabilities.
    pub fn needs_beliefs(&self) -> bool {
        let settings = Params::default();
        let params = LengthParams { num_speculative_tokens: 1, params: &settings };
        let looks = |length: &Entry<BuildLength>| {
            (length.build)(&params).is_ok_and(|length| length.needs_confidence())
        };
        matches!(self.build, BuildPolicy::Length(length) if looks(length))
    }
}

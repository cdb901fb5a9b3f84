//! Who drafts how much in a step. No policy sees what a drafted token of the step is: a budget
//! that depends on the tokens that it cuts makes speculation inexact.

mod budget;
mod fixed;
mod goodput;
mod own_length;
mod table;

use serde::Serialize;

use super::outlook::Outlook;
use super::step::{StepCosts, StepWork};
use crate::forecasting::CostTable;

/// A policy.
pub trait ServingPolicy: std::fmt::Debug {
    /// The largest number of tokens that each request of a step may draft.
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
    /// The requests that are past their prompts.
    pub requests: &'s [DecodingRequest],
    /// Costs of steps.
    pub costs: StepCosts<'s>,
    /// What the step computes beside drafts.
    pub work: StepWork<'s>,
}

/// A request that decodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodingRequest {
    /// Its number; no two requests have the same.
    pub number: usize,
    /// How many tokens its draft can have.
    pub most: usize,
}

/// What became of a round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ServedRound {
    /// The number of the request.
    pub request: usize,
    /// Drafted tokens.
    pub drafted: usize,
    /// Accepted tokens.
    pub accepted: usize,
    /// Tokens that its text grew by.
    pub emitted: usize,
    /// The time of its step for drafts, in ms.
    pub draft_ms: f64,
    /// Likewise for the target's pass and what is outside passes.
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
    /// What the texts are expected to take.
    pub outlook: &'p Outlook,
    /// Costs of passes.
    pub table: &'p CostTable,
    /// K, or its maximum.
    pub k: usize,
    /// The most requests that share a step.
    pub max_batch: usize,
}

/// Which K a policy has if none is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsualK {
    /// It never drafts.
    None,
    /// The K that is fastest for a request alone.
    Alone,
    /// The largest that it may choose.
    Most(usize),
}

/// The largest draft that a policy chooses, if nothing else is asked for.
pub const USUAL_MOST: usize = 8;

/// A policy by its name.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct PolicyEntry {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub summary: &'static str,
    /// Where it is from; `-` if from nobody in particular.
    pub source: &'static str,
    /// Which K it has if none is asked for.
    #[serde(skip)]
    pub usual: UsualK,
    #[serde(skip)]
    build: fn(&PolicyParams<'_>) -> Box<dyn ServingPolicy>,
}

/// All policies.
pub const POLICIES: &[PolicyEntry] = &[
    fixed::PLAIN,
    fixed::ENTRY,
    table::ENTRY,
    goodput::ENTRY,
    budget::ENTRY,
    own_length::HEURISTIC,
    own_length::UCB,
];

impl PolicyEntry {
    /// K, or its maximum, where `asked` is the one that was asked for.
    pub fn k(&self, asked: Option<usize>, alone: usize) -> usize {
        match self.usual {
            UsualK::None => 0,
            UsualK::Alone => asked.unwrap_or(alone),
            UsualK::Most(most) => asked.unwrap_or(most),
        }
    }

    /// The policy.
    pub fn build(&self, params: &PolicyParams<'_>) -> Box<dyn ServingPolicy> {
        (self.build)(params)
    }
}

//! Who drafts how much in a step. No policy sees what a drafted token of the step is: a budget
//! that depends on the tokens that it cuts makes speculation inexact.

mod budget;
mod fixed;
mod goodput;
mod own_length;
mod table;

use super::step::{StepCosts, StepWork};
use super::text::{PolicyOutlook, SimulatedText};

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
    /// The texts that requests ask for.
    pub texts: &'p [SimulatedText<'p>],
    /// Costs of steps.
    pub costs: StepCosts<'p>,
    /// K, or its maximum.
    pub k: usize,
    /// The most requests that share a step.
    pub max_batch: usize,
}

impl PolicyParams<'_> {
    /// The K from 0 up to the largest that is fastest if `batch` requests share all steps, with
    /// its time per token in ms.
    fn best_k(&self, outlooks: &[PolicyOutlook], batch: usize) -> (usize, f64) {
        let context = self.mean_context();
        let ms = |outlook: &PolicyOutlook| {
            let rounds = outlook.rounds.iter();
            let each = rounds
                .map(|(round, count)| count * self.costs.table.round(*round, (context, batch)));
            each.sum::<f64>() / outlook.tokens
        };
        let all = outlooks.iter().map(ms).enumerate();
        all.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((0, f64::INFINITY))
    }

    /// What is expected for every K from 0 on.
    fn outlooks(&self) -> Vec<PolicyOutlook> {
        (0..=self.k).map(|k| PolicyOutlook::of(self.texts, k, self.costs.with_model)).collect()
    }

    /// The mean over tokens of the context before them.
    fn mean_context(&self) -> usize {
        let tokens = |text: &SimulatedText<'_>| text.tokens as f64;
        let sum = self.texts.iter().map(tokens).sum::<f64>();
        let context =
            |text: &SimulatedText<'_>| (text.prompt as f64 + tokens(text) / 2.0) * tokens(text);
        (self.texts.iter().map(context).sum::<f64>() / sum) as usize
    }

    /// The K that is fastest for a request alone; 1 if none pays.
    pub fn best_alone(&self) -> usize {
        self.best_k(&self.outlooks(), 1).0.max(1)
    }

    /// The time per token of a request alone, in ms, with that K.
    pub fn alone_ms(&self) -> f64 {
        self.best_k(&self.outlooks(), 1).1
    }
}

/// A policy by its name.
#[derive(Debug, Clone, Copy)]
pub struct PolicyEntry {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub summary: &'static str,
    /// Where it is from.
    pub source: &'static str,
    /// Whether K is the largest of several drafts that it chooses among.
    pub chooses: bool,
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
    /// The policy.
    pub fn build(&self, params: &PolicyParams<'_>) -> Box<dyn ServingPolicy> {
        (self.build)(params)
    }
}

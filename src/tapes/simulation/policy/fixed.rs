//! The same K for every request in every step, or no drafts.

use super::{BuildPolicy, DefaultK, PolicyEntry, ServerStep, ServingPolicy};

pub(super) const PLAIN: PolicyEntry = PolicyEntry {
    name: "plain",
    default_k: DefaultK::None,
    summary: "no drafts",
    source: "-",
    build: BuildPolicy::Server(|_| Box::new(FixedDrafts { k: 0 })),
};

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "fixed",
    default_k: DefaultK::Alone,
    summary: "K tokens; without a K, the one that is fastest for a request alone",
    source: "-",
    build: BuildPolicy::Server(|params| Box::new(FixedDrafts { k: params.k })),
};

#[derive(Debug)]
struct FixedDrafts {
    k: usize,
}

impl ServingPolicy for FixedDrafts {
    fn drafts(&mut self, step: &ServerStep<'_>) -> Vec<usize> {
        vec![self.k; step.requests.len()]
    }
}

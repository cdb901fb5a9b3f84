//! K by the number of requests that share a step.

use super::{BuildPolicy, DEFAULT_MAX_K, DefaultK, PolicyEntry, ServerStep, ServingPolicy};

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "table",
    default_k: DefaultK::Max(DEFAULT_MAX_K),
    summary: "for every batch size the K from 0 to K that the forecast and the costs make fastest",
    source: "vLLM, num_speculative_tokens_per_batch_size",
    build: BuildPolicy::Server(|params| {
        let best = |batch| params.outlook.best(params.table, params.k, batch).0;
        Box::new(DraftsByBatch { k: (1..=params.max_batch).map(best).collect() })
    }),
};

/// By batch size from 1.
#[derive(Debug)]
struct DraftsByBatch {
    k: Vec<usize>,
}

impl ServingPolicy for DraftsByBatch {
    fn drafts(&mut self, step: &ServerStep<'_>) -> Vec<usize> {
        let batch = step.requests.len();
        let k = self.k.get(batch.saturating_sub(1)).copied().unwrap_or(0);
        vec![k; batch]
    }
}

//! K by the number of sequences that share a round.

use super::{BatchView, BuildLength, DraftLength, LengthParams};
use crate::core::error::Error;
use crate::core::params::Param;
use crate::core::registry::Entry;

const K_BY_BATCH: Param = Param::text(
    "k_by_batch",
    "1:4,4:3,8:2,16:1,32:0",
    "batch sizes, each with the K from that size on, as in 1:4,8:2,32:0",
);

pub(super) const ENTRY: Entry<BuildLength> = Entry {
    name: "by_batch",
    aliases: &[],
    params: &[K_BY_BATCH],
    summary: "draft length by the number of sequences that share the round, at most K",
    paper: "vLLM, num_speculative_tokens_per_batch_size",
    build: |params| Ok(Box::new(ByBatch::new(params)?)),
};

#[derive(Debug, Clone)]
struct ByBatch {
    most: usize,
    /// Batch sizes in ascending order, from 1, each with the K from that size on.
    steps: Vec<(usize, usize)>,
    batch: usize,
}

impl ByBatch {
    fn new(params: &LengthParams<'_>) -> Result<Self, Error> {
        let text = params.params.text(&K_BY_BATCH);
        let steps = text.split(',').map(|part| {
            let (batch, k) = part.split_once(':')?;
            Some((batch.trim().parse().ok()?, k.trim().parse().ok()?))
        });
        let steps = steps.collect::<Option<Vec<(usize, usize)>>>();
        let sound = |steps: &Vec<(usize, usize)>| {
            steps.first().is_some_and(|(batch, _)| *batch == 1)
                && steps.windows(2).all(|pair| pair[0].0 < pair[1].0)
        };
        let steps = steps.filter(sound).ok_or_else(|| {
            Error::setting(format!(
                "{} = {text}: give batch sizes in ascending order, from 1, each with its K, as in \
                 1:4,8:2,32:0",
                K_BY_BATCH.key
            ))
        })?;
        Ok(Self { most: params.num_speculative_tokens, steps, batch: 1 })
    }
}

impl DraftLength for ByBatch {
    fn begin(&mut self, batch: &BatchView<'_>) {
        self.batch = batch.sequences.len();
    }

    fn max_depth(&self) -> usize {
        let step = self.steps.iter().rev().find(|(batch, _)| *batch <= self.batch);
        step.map_or(0, |(_, k)| self.most.min(*k))
    }

    fn needs_confidence(&self) -> bool {
        false
    }
}

//! A model without a KV cache.

use super::{Evaluation, LanguageModel, ModelInfo, Want, Work, evaluate_one};
use super::{NoRows, Session};
use crate::core::error::Error;
use crate::core::sampling::ForEachRow;
use crate::core::tree::MAX_NODES;

/// A model that computes the whole text again in every pass. On a row-invariant engine its
/// logits have the bits of the model itself; only time and memory differ.
#[derive(Debug)]
pub(crate) struct Uncached(pub(crate) Box<dyn LanguageModel>);

impl LanguageModel for Uncached {
    fn info(&self) -> &ModelInfo {
        self.0.info()
    }

    /// A session that remembers nothing.
    fn session(&self) -> Result<Session, Error> {
        Ok(Session::without_cache(self.info().context_length))
    }

    fn evaluate(&self, work: &mut [Work<'_>]) -> Result<Vec<Evaluation>, Error> {
        let afresh = |work: &mut Work<'_>| {
            // Rows that nothing keeps need not be computed.
            if work.want == Want::Nothing {
                return Ok(Evaluation::default());
            }
            let (mut session, want) = (self.0.session()?, work.want.clone());
            let (context, draft) = (work.context, work.draft);
            evaluate_one(&*self.0, Work { session: &mut session, context, draft, want })
        };
        work.iter_mut().map(afresh).collect()
    }

    fn threads(&self, rows: usize) -> usize {
        self.0.threads(rows)
    }

    fn for_each_row(&self) -> ForEachRow {
        self.0.for_each_row()
    }
}

impl Session {
    /// A session of a model with `positions` positions that remembers nothing.
    pub(crate) fn without_cache(positions: usize) -> Self {
        Self::new(Box::new(NoRows), positions.saturating_add(MAX_NODES), positions)
    }
}

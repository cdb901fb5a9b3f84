//! How an engine's passes meet the sequences that they are over.

use super::{Evaluation, Work};
use super::{KvCache, Session, Step};
use crate::core::error::Error;
use crate::core::sampling::Logits;

/// What an engine computes of a step.
#[derive(Debug, Default)]
pub struct Computed {
    /// The logits of the wanted rows.
    pub logits: Vec<Logits>,
    /// Row by row, the hidden states of all tokens of the step: those at its taps, or those that a
    /// head continues from.
    pub states: Vec<f32>,
    /// See [`Evaluation::experts`].
    pub experts: usize,
}

impl From<Vec<Logits>> for Computed {
    /// Of an engine that returns no hidden states.
    fn from(logits: Vec<Logits>) -> Self {
        Self { logits, ..Self::default() }
    }
}

impl Session {
    /// Evaluates sequences one after the other: `run` computes a step with the sequence's cache,
    /// which is of the engine's own type.
    ///
    /// # Errors
    /// Those of [`Self::prepare`] and of `run`, and if a session is another
    /// engine's.
    pub fn evaluate_each<C: KvCache + 'static>(
        work: &mut [Work<'_>],
        mut run: impl FnMut(&mut C, &Step) -> Result<Computed, Error>,
    ) -> Result<Vec<Evaluation>, Error> {
        let one = |work: &mut Work<'_>| {
            let step = Self::prepare(work)?;
            let computed = run(work.session.cache_of()?, &step)?;
            Ok(Self::end(work, &step, computed))
        };
        work.iter_mut().map(one).collect()
    }

    /// Evaluates sequences together: `run` computes steps, each with its sequence's cache, and
    /// returns what it computed of each. It is called twice if rows lack their last layers alone.
    ///
    /// # Errors
    /// Those of [`Self::prepare`] and of `run`, and if a session is another engine's: then none
    /// has computed anything.
    pub fn evaluate_together<C: KvCache + 'static>(
        work: &mut [Work<'_>],
        mut run: impl FnMut(&mut [(&mut C, &Step)]) -> Result<Vec<Computed>, Error>,
    ) -> Result<Vec<Evaluation>, Error> {
        let steps = work.iter_mut().map(Self::prepare).collect::<Result<Vec<_>, _>>()?;
        if steps.iter().any(|step| step.resumed.contains(&true)) {
            return Self::run_resumed(work, steps, &mut run);
        }
        Self::run_steps(work, &steps, &mut run)
    }

    pub(super) fn end(work: &mut Work<'_>, step: &Step, computed: Computed) -> Evaluation {
        work.session.keep_rows(&step.feed, &computed.states);
        Self::commit(work, step);
        let Computed { logits: rows, experts, .. } = computed;
        Evaluation { rows, computed: step.feed.len(), experts, ..Evaluation::default() }
    }

    /// The engine's cache, of its own type.
    pub(super) fn cache_of<C: KvCache + 'static>(&mut self) -> Result<&mut C, Error> {
        let cache = self.cache().as_any().downcast_mut();
        cache.ok_or_else(|| Error::engine("not a session of this model"))
    }
}

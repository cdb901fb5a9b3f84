//! How an engine's passes meet the sequences that they are over.

use super::{Evaluation, Work};
use super::{KvCache, Session, Step};
use crate::core::error::Error;
use crate::core::sampling::Logits;

impl Session {
    /// Evaluates sequences one after the other: `run` computes the rows of a step
    /// with the sequence's cache, which is of the engine's own type.
    ///
    /// # Errors
    /// Those of [`Self::prepare`] and of `run`, and if a session is another
    /// engine's.
    pub fn evaluate_each<C: KvCache + 'static>(
        work: &mut [Work<'_>],
        mut run: impl FnMut(&mut C, &Step) -> Result<Vec<Logits>, Error>,
    ) -> Result<Vec<Evaluation>, Error> {
        let one = |work: &mut Work<'_>| {
            let step = Self::prepare(work)?;
            let rows = run(work.session.cache_of()?, &step)?;
            Self::commit(work, &step);
            Ok(Evaluation { rows, computed: step.feed.len() })
        };
        work.iter_mut().map(one).collect()
    }

    /// Evaluates sequences together: `run` computes the rows of all steps, each with its
    /// sequence's cache, and returns those of each.
    ///
    /// # Errors
    /// Those of [`Self::prepare`] and of `run`, and if a session is another engine's: then none
    /// has computed anything.
    pub fn evaluate_together<C: KvCache + 'static>(
        work: &mut [Work<'_>],
        run: impl FnOnce(&mut [(&mut C, &Step)]) -> Result<Vec<Vec<Logits>>, Error>,
    ) -> Result<Vec<Evaluation>, Error> {
        let steps = work.iter_mut().map(Self::prepare).collect::<Result<Vec<_>, _>>()?;
        let caches = work.iter_mut().map(|work| work.session.cache_of());
        let caches = caches.collect::<Result<Vec<_>, _>>()?;
        let rows = run(&mut caches.into_iter().zip(&steps).collect::<Vec<_>>())?;
        let evaluated = work.iter_mut().zip(&steps).zip(rows).map(|((work, step), rows)| {
            Self::commit(work, step);
            Evaluation { rows, computed: step.feed.len() }
        });
        Ok(evaluated.collect())
    }

    /// The engine's cache, of its own type.
    fn cache_of<C: KvCache + 'static>(&mut self) -> Result<&mut C, Error> {
        let cache = self.cache().as_any().downcast_mut();
        cache.ok_or_else(|| Error::engine("not a session of this model"))
    }
}

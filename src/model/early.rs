//! Early exit: passes of a target's first layers, and of the rest.
//!
//! A draft of the target's own first layers computes rows in the target's cache. The pass that
//! verifies it continues from these rows: it computes the layers above them, and all layers of the
//! others. On a row-invariant engine the logits have the bits of a pass of all layers.

use super::evaluate::Computed;
use super::{Evaluation, KvCache, Part, Session, Step, Tap, Work};
use crate::core::error::Error;

/// What an engine computes of the steps of a pass, all of which are for the same layers.
type Run<'r, C> = dyn FnMut(&mut [(&mut C, &Step)]) -> Result<Vec<Computed>, Error> + 'r;

impl Session {
    /// Evaluates the first `layers` layers of sequences of a target: the rows of logits are those of
    /// an early exit, and the target's later passes continue from what they hold.
    ///
    /// # Errors
    /// As [`Self::evaluate_together`].
    pub(crate) fn evaluate_first<C: KvCache + 'static>(
        work: &mut [Work<'_>],
        layers: usize,
        run: &mut Run<'_, C>,
    ) -> Result<Vec<Evaluation>, Error> {
        let mut steps = Vec::with_capacity(work.len());
        for work in &mut *work {
            let mut step = Self::prepare_part(work, Part::First(layers))?;
            step.taps = vec![Tap::After(layers)];
            steps.push(step);
        }
        Self::run_steps(work, &steps, run)
    }

    /// Computes steps and commits them.
    pub(super) fn run_steps<C: KvCache + 'static>(
        work: &mut [Work<'_>],
        steps: &[Step],
        run: &mut Run<'_, C>,
    ) -> Result<Vec<Evaluation>, Error> {
        let caches = work.iter_mut().map(|work| work.session.cache_of());
        let caches = caches.collect::<Result<Vec<_>, _>>()?;
        let computed = run(&mut caches.into_iter().zip(steps).collect::<Vec<_>>())?;
        let each = work.iter_mut().zip(steps).zip(computed);
        Ok(each.map(|((work, step), computed)| Self::end(work, step, computed)).collect())
    }

    /// Computes steps some of whose rows lack the last layers alone: first the first layers of the
    /// other rows, then the rest of the layers of all.
    pub(super) fn run_resumed<C: KvCache + 'static>(
        work: &mut [Work<'_>],
        steps: Vec<Step>,
        run: &mut Run<'_, C>,
    ) -> Result<Vec<Evaluation>, Error> {
        let layers = work.iter().map(|work| work.session.early().layers()).max().unwrap_or(0);
        let taps = vec![Tap::After(layers)];
        let missing = steps.iter().map(|step| {
            let feed = step.feed.iter().zip(&step.resumed);
            let feed = feed.filter(|(_, resumed)| !**resumed).map(|(feed, _)| feed.clone());
            let (feed, taps, part) = (feed.collect(), taps.clone(), Part::First(layers));
            Step { feed, taps, part, ..Step::default() }
        });
        let missing = missing.collect::<Vec<_>>();
        let before = Self::compute(work, &missing, run)?;
        let mut rest = Vec::with_capacity(steps.len());
        for (work, step) in work.iter().zip(steps) {
            let mut inputs = Vec::new();
            for feed in &step.feed {
                if !work.session.states_of(feed.slot, &taps, &mut inputs) {
                    return Err(Error::engine("a row has no state to continue from"));
                }
            }
            let above = step.taps.iter().copied().filter(|tap| *tap > Tap::After(layers));
            let (taps, part) = (above.collect(), Part::Rest(layers));
            rest.push(Step { taps, part, inputs, ..step });
        }
        let mut evaluations = Self::run_steps(work, &rest, run)?;
        for (evaluation, experts) in evaluations.iter_mut().zip(before) {
            evaluation.experts += experts;
        }
        Ok(evaluations)
    }

    /// Computes steps without committing them. Returns the experts that they needed.
    fn compute<C: KvCache + 'static>(
        work: &mut [Work<'_>],
        steps: &[Step],
        run: &mut Run<'_, C>,
    ) -> Result<Vec<usize>, Error> {
        if steps.iter().all(|step| step.feed.is_empty()) {
            return Ok(Vec::new());
        }
        let caches = work.iter_mut().map(|work| work.session.cache_of());
        let caches = caches.collect::<Result<Vec<_>, _>>()?;
        let computed = run(&mut caches.into_iter().zip(steps).collect::<Vec<_>>())?;
        for ((work, step), computed) in work.iter_mut().zip(steps).zip(&computed) {
            work.session.keep_rows(&step.feed, &computed.states);
        }
        Ok(computed.iter().map(|computed| computed.experts).collect())
    }
}

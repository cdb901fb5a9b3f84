//! How the passes of a head meet the sequences that they are over.
//!
//! A head computes level by level. Level 0 has the committed tokens, whose rows read features that
//! the target has supplied. Level k has the drafted tokens of depth k, whose rows continue from the
//! states of their parents. Behind a head that drafts in parallel, drafted tokens are masks, which
//! read the same feature each; they are in level 0, too.

use super::evaluate::Computed;
use super::{Evaluation, Feed, KvCache, Session, Step, Work};
use crate::core::error::Error;
use crate::core::sampling::Logits;

/// What a head must compute of one level of a sequence.
#[derive(Debug, Default)]
pub struct HeadStep {
    /// The tokens, ascending by slot.
    pub feed: Vec<Feed>,
    /// The wanted rows, as places in `feed`.
    pub rows: Vec<usize>,
    /// Row by row: the features of the tokens, or the states of their parents.
    pub inputs: Vec<f32>,
}

impl Session {
    /// Evaluates the sequences of a head: `run` computes a level of all of them, each with its
    /// sequence's cache, and returns the logits of wanted rows, and the states of all rows.
    ///
    /// # Errors
    /// Those of [`Self::prepare`] and of `run`; if a session is another engine's, or a feature
    /// has not been supplied.
    pub fn evaluate_by_level<C: KvCache + 'static>(
        work: &mut [Work<'_>],
        mut run: impl FnMut(usize, &mut [(&mut C, HeadStep)]) -> Result<Vec<Computed>, Error>,
    ) -> Result<Vec<Evaluation>, Error> {
        let mut parts = Vec::with_capacity(work.len());
        for work in &mut *work {
            let step = Self::prepare(work)?;
            parts.push(Part::of(step, work.context.len(), work.session.mask().is_some()));
        }
        let levels = parts.iter().flat_map(|part| part.levels.iter().max()).max();
        for level in 0..levels.map_or(0, |deepest| deepest + 1) {
            let mut steps = Vec::with_capacity(work.len());
            for (work, part) in work.iter_mut().zip(&parts) {
                let step = part.step_at(level, work.session)?;
                steps.push((work.session.cache_of()?, step));
            }
            let computed = run(level, &mut steps)?;
            let feeds = steps.into_iter().map(|(_, step)| step.feed).collect::<Vec<_>>();
            for (((work, part), feed), computed) in
                work.iter_mut().zip(&mut parts).zip(feeds).zip(computed)
            {
                work.session.keep_rows(&feed, &computed.states);
                part.found.extend(part.wanted_at(level).into_iter().zip(computed.logits));
            }
        }
        let mut evaluations = Vec::with_capacity(work.len());
        for (work, mut part) in work.iter_mut().zip(parts) {
            Self::commit(work, &part.step);
            part.found.sort_by_key(|(wanted, _)| *wanted);
            let rows = part.found.into_iter().map(|(_, row)| row).collect();
            let computed = part.step.feed.len();
            evaluations.push(Evaluation { rows, computed, ..Evaluation::default() });
        }
        Ok(evaluations)
    }

    /// What is to be computed of committed tokens, and the same with their features.
    pub(super) fn prepare_features(work: &mut Work<'_>) -> Result<(Step, HeadStep), Error> {
        let part = Part::of(Self::prepare(work)?, work.context.len(), false);
        let step = part.step_at(0, work.session)?;
        Ok((part.step, step))
    }

    /// The input of a row: a feature for one of the first `committed` tokens, otherwise the mask's
    /// or the state of the parent.
    fn head_input(&self, feed: &Feed, committed: usize) -> Option<&[f32]> {
        if feed.slot < committed {
            return self.supplied_at(feed.slot);
        }
        self.mask().or_else(|| self.states_at(feed.seen().rev().nth(1)?))
    }
}

/// A sequence's part of a pass.
struct Part {
    step: Step,
    /// The level of each token of the step.
    levels: Vec<usize>,
    /// Logits with their places among the wanted rows.
    found: Vec<(usize, Logits)>,
    /// Number of committed tokens.
    committed: usize,
}

impl Part {
    fn of(step: Step, committed: usize, parallel: bool) -> Self {
        let depth = |feed: &Feed| (feed.position + 1).saturating_sub(committed);
        let level = |feed| if parallel { 0 } else { depth(feed) };
        Self { levels: step.feed.iter().map(level).collect(), step, found: Vec::new(), committed }
    }

    /// The places, among the wanted rows, of those of a level.
    fn wanted_at(&self, level: usize) -> Vec<usize> {
        let rows = self.step.rows.iter().enumerate();
        rows.filter(|(_, row)| self.levels[**row] == level).map(|(place, _)| place).collect()
    }

    fn step_at(&self, level: usize, session: &Session) -> Result<HeadStep, Error> {
        let mut step = HeadStep::default();
        for (place, feed) in self.step.feed.iter().enumerate() {
            if self.levels[place] != level {
                continue;
            }
            let input = session.head_input(feed, self.committed);
            let missing = || Error::engine(format!("slot {} of a head has no input", feed.slot));
            step.inputs.extend_from_slice(input.ok_or_else(missing)?);
            if self.step.rows.contains(&place) {
                step.rows.push(step.feed.len());
            }
            step.feed.push(feed.clone());
        }
        session.spoil(&mut step, level);
        Ok(step)
    }
}

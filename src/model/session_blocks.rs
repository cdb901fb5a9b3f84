//! Drafters that compute a whole block in one pass: q of a row depends on the context and on the
//! row's depth in the draft, and on the drafted tokens before it only where the drafter says so.
//!
//! A block is computed once for a context, and kept in the sequence until a pass is over another
//! one. Its width belongs to the model: a draft that ends early was drawn from the same block, and
//! so was every branch of a tree.

use std::sync::Arc;

use super::block::BlockAfter;
use super::{
    Block, BlockPrediction, BlockRow, BlockStart, BlockStep, Evaluation, HeadFault, KvCache,
    Session, Want, Work,
};
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::core::tree::{Draft, Row};

impl Session {
    /// Evaluates the sequences of a drafter of blocks: `compute` gets them without drafts, and
    /// returns a block for each of which it is asked for a row, with the number of rows that it
    /// computed. Then `predict` returns what rows of blocks predict.
    ///
    /// # Errors
    /// Those of `compute` and of `predict`.
    pub fn evaluate_blocks(
        work: &mut [Work<'_>],
        compute: impl FnOnce(&mut [Work<'_>]) -> Result<Vec<(Option<Block>, usize)>, Error>,
        predict: impl FnOnce(&[BlockRow<'_>]) -> Result<Vec<BlockPrediction>, Error>,
    ) -> Result<Vec<Evaluation>, Error> {
        let empty = work.iter().map(|work| Draft::empty(work.draft.vocab())).collect::<Vec<_>>();
        let mut parts = Vec::with_capacity(work.len());
        for (Work { session, context, draft, want }, empty) in work.iter_mut().zip(&empty) {
            let known = session.block_after(context).is_some();
            let wanted = !known && !want.rows(draft.len()).is_empty();
            let want = if wanted { Want::Row(Row::CONTEXT) } else { Want::Nothing };
            parts.push(Work { session, context, draft: empty, want });
        }
        let computed = compute(&mut parts)?;
        let mut evaluations = Vec::with_capacity(work.len());
        for (work, (block, computed)) in work.iter_mut().zip(computed) {
            if let Some(block) = block {
                let context = work.context.to_vec();
                work.session.block = Some(Arc::new(BlockAfter { context, block }));
            }
            evaluations.push(Evaluation { computed, ..Evaluation::default() });
        }
        let (mut rows, mut whose) = (Vec::new(), Vec::new());
        for (place, work) in work.iter().enumerate() {
            for row in work.want.rows(work.draft.len()) {
                rows.push(work.row(row)?);
                whose.push(place);
            }
        }
        for (place, BlockPrediction { logits, confidence }) in
            whose.into_iter().zip(predict(&rows)?)
        {
            evaluations[place].rows.push(logits);
            evaluations[place].confidences.extend(confidence);
        }
        Ok(evaluations)
    }

    /// Computes the contexts of blocks, and the blocks, for [`Self::evaluate_blocks`]: `run` gets
    /// each sequence's cache with what is to be computed.
    ///
    /// # Errors
    /// Those of [`Self::prepare`] and of `run`; if a session is another engine's, or a feature has
    /// not been supplied.
    pub fn compute_blocks<C: KvCache + 'static>(
        work: &mut [Work<'_>],
        run: impl FnOnce(&mut [(&mut C, BlockStep)]) -> Result<Vec<Option<Block>>, Error>,
    ) -> Result<Vec<(Option<Block>, usize)>, Error> {
        let (mut whole, mut steps) = (Vec::with_capacity(work.len()), Vec::new());
        for work in &mut *work {
            let (step, head) = Self::prepare_features(work)?;
            let last = head.feed.last().filter(|_| !head.rows.is_empty());
            let late = work.session.is_wrong(HeadFault::DraftPositionsLate);
            let block = last.map(|last| BlockStart {
                anchor: last.token,
                slot: work.context.len(),
                position: last.position + 1 + usize::from(late),
            });
            whole.push(step);
            steps.push(BlockStep { feed: head.feed, features: head.inputs, block });
        }
        let mut sequences = Vec::with_capacity(work.len());
        for (work, step) in work.iter_mut().zip(steps) {
            sequences.push((work.session.cache_of()?, step));
        }
        let blocks = run(&mut sequences)?;
        let mut computed = Vec::with_capacity(work.len());
        for ((work, step), block) in work.iter_mut().zip(&whole).zip(blocks) {
            Self::commit(work, step);
            let rows = block.as_ref().map_or(0, |block| block.logits.len());
            computed.push((block, step.feed.len() + rows));
        }
        Ok(computed)
    }

    /// The block after a context, if it has been computed.
    fn block_after(&self, context: &[Token]) -> Option<&Block> {
        let kept = self.block.as_deref().filter(|kept| kept.is_after(context));
        kept.map(|kept| &kept.block)
    }
}

impl Work<'_> {
    /// A row of the block after the context.
    fn row(&self, row: usize) -> Result<BlockRow<'_>, Error> {
        let block = self.session.block_after(self.context);
        let block = block.ok_or_else(|| Error::engine("a block has not been computed"))?;
        let mut path = self.context.last().copied().into_iter().collect::<Vec<_>>();
        path.extend(row.checked_sub(1).map_or_else(Vec::new, |node| self.draft.tokens_to(node)));
        Ok(BlockRow { block, path })
    }
}

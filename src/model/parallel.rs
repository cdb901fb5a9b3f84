//! Models that draft in parallel: one pass over the context and a chain of mask tokens gives q of
//! every depth (An et al. 2025, PARD, arXiv 2504.18583; P-EAGLE, arXiv 2602.01469).
//!
//! A mask sees the masks before it and none after it, so q of a depth does not depend on how many
//! masks follow.

use super::{
    Block, BlockPrediction, BlockRow, Evaluation, LanguageModel, ModelInfo, Session, Want, Work,
};
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::core::sampling::ForEachRow;
use crate::core::tree::{Draft, MAX_NODES};

/// A model behind which masks stand for the tokens of a draft.
#[derive(Debug)]
pub(crate) struct ParallelModel {
    model: Box<dyn LanguageModel>,
    info: ModelInfo,
    mask: Token,
    /// Number of rows: the deepest draft.
    width: usize,
}

impl ParallelModel {
    /// A model that drafts `width` tokens in one pass.
    pub(crate) fn new(model: Box<dyn LanguageModel>, mask: Token, width: usize) -> Self {
        let width = width.clamp(1, MAX_NODES);
        let own = model.info().clone();
        let context_length = own.context_length.saturating_sub(width - 1);
        let info = ModelInfo { context_length, deepest: Some(width), at_once: true, ..own };
        Self { info, model, mask, width }
    }

    /// Evaluates sequences with masks after those of which a row is wanted.
    fn blocks(&self, work: &mut [Work<'_>]) -> Result<Vec<(Option<Block>, usize)>, Error> {
        let mut masks = Draft::empty(self.info.vocab);
        for depth in 1..self.width {
            masks.certain(depth.checked_sub(2), self.mask);
        }
        let mut masked = Vec::with_capacity(work.len());
        for Work { session, context, draft, want } in work {
            let (draft, want) = match want {
                Want::Nothing => (*draft, Want::Nothing),
                _ => (&masks, Want::All),
            };
            masked.push(Work { session, context, draft, want });
        }
        let evaluations = self.model.evaluate(&mut masked)?;
        let block = |found: Evaluation| {
            let block = Block { logits: found.rows, states: Vec::new() };
            (Some(block).filter(|block| !block.logits.is_empty()), found.computed)
        };
        Ok(evaluations.into_iter().map(block).collect())
    }
}

impl LanguageModel for ParallelModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn session(&self) -> Result<Session, Error> {
        self.model.session()
    }

    fn evaluate(&self, work: &mut [Work<'_>]) -> Result<Vec<Evaluation>, Error> {
        Session::evaluate_blocks(
            work,
            |parts| self.blocks(parts),
            |rows| {
                let one = |row: &BlockRow<'_>| {
                    Ok(BlockPrediction { logits: row.logits()?.clone(), confidence: None })
                };
                rows.iter().map(one).collect()
            },
        )
    }

    fn threads(&self, rows: usize) -> usize {
        self.model.threads(rows)
    }

    fn cache_bytes_per_token(&self) -> usize {
        self.model.cache_bytes_per_token()
    }

    fn for_each_row(&self) -> ForEachRow {
        self.model.for_each_row()
    }
}

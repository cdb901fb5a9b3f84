//! Toy drafters of blocks: the draft table of a toy pair, read as a block drafter computes it.
//!
//! The distribution at a depth is that of the draft model after the context, masks in place of the
//! drafted tokens before the last one, and the last one. So it depends on context, depth and the
//! token before, as that of a block with a Markov bias does (DSpark). Where the states of the target
//! and the rows of the context do not belong together, it is uniform; so it is after a text of two
//! tokens, since the context of a head lacks the first and tables depend on the last two.

use super::toy_head::ToyHead;
use super::{
    Block, BlockPrediction, BlockRow, Evaluation, LanguageModel, ModelInfo, ModelInputs, Session,
    Toy, Want, Work,
};
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::core::sampling::Logits;

/// The token that stands for a drafted one.
pub(super) const MASK: Token = 0;
/// Rows of a block: the deepest draft.
pub(crate) const ROWS: usize = 4;

/// A drafter of blocks over the states of a toy target.
#[derive(Debug, Clone)]
pub(super) struct ToyBlock {
    head: ToyHead,
    draft: Toy,
    info: ModelInfo,
}

/// The text after which the draft model predicts what a block does after `drafted` tokens; with
/// `markov` unless it has masks in place of all of them. `context` is the text before them.
pub fn block_text(context: &[Token], drafted: &[Token], markov: bool) -> Vec<Token> {
    let mut text = context.to_vec();
    text.extend(drafted.iter().map(|_| MASK));
    if let (true, Some(last), Some(drafted)) = (markov, text.last_mut(), drafted.last()) {
        *last = *drafted;
    }
    text
}

impl ToyBlock {
    /// A drafter of blocks with the distributions of `draft`.
    ///
    /// # Errors
    /// If the draft cannot be a head.
    pub(super) fn new(draft: Toy) -> Result<Self, Error> {
        let head = ToyHead::new(draft.clone(), None)?;
        let mut info = head.info().clone();
        if let ModelInputs::Features(features) = &mut info.inputs {
            features.estimates = true;
        }
        Ok(Self { head, draft, info: ModelInfo { deepest: Some(ROWS), at_once: true, ..info } })
    }

    /// The blocks after contexts. Each has its context for a state, or none if it does not belong to
    /// the states of the target.
    fn blocks(&self, work: &mut [Work<'_>]) -> Result<Vec<(Option<Block>, usize)>, Error> {
        let evaluations = self.head.evaluate(work)?;
        let mut blocks = Vec::with_capacity(work.len());
        for (work, Evaluation { rows, computed, .. }) in work.iter().zip(evaluations) {
            let expected = Logits::F64(self.draft.logits(work.context)?.to_vec());
            let states = match rows.first() {
                Some(row) if *row == expected => {
                    work.context.iter().map(|token| *token as f32).collect::<Vec<_>>()
                }
                _ => Vec::new(),
            };
            let logits = vec![Logits::F64(Vec::new()); ROWS];
            let block = Block { states: states.repeat(ROWS), logits };
            blocks.push((Some(block).filter(|_| work.want != Want::Nothing), computed));
        }
        Ok(blocks)
    }

    fn predict(&self, row: &BlockRow<'_>) -> Result<BlockPrediction, Error> {
        row.logits()?;
        let context = row.block.states_at(row.depth()).iter().map(|token| *token as Token);
        let context = context.collect::<Vec<_>>();
        let logits = match context.is_empty() {
            true => vec![0.0; self.info.vocab],
            false => self.draft.logits(&block_text(&context, &row.path[1..], true))?.to_vec(),
        };
        let most = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max).exp();
        Ok(BlockPrediction { logits: Logits::F64(logits), confidence: Some(most.min(1.0)) })
    }
}

impl LanguageModel for ToyBlock {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn session(&self) -> Result<Session, Error> {
        self.head.session()
    }

    fn evaluate(&self, work: &mut [Work<'_>]) -> Result<Vec<Evaluation>, Error> {
        Session::evaluate_blocks(
            work,
            |parts| self.blocks(parts),
            |rows| rows.iter().map(|row| self.predict(row)).collect(),
        )
    }
}

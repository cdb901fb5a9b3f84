//! The switches of heads that draft in one pass.

use super::tensors::{Described, Tensors, weight};
use crate::core::distribution::Token;
use crate::core::error::Error;

/// How a head drafts.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Drafting {
    /// Row by row: the row of a drafted token continues from the state of its parent.
    Stepwise,
    /// In one pass of ordinary rows, with masks in place of the drafted tokens (Hui et al. 2026,
    /// P-EAGLE, arXiv 2602.01469).
    Masked {
        /// The token of a mask.
        mask: Token,
        /// Number of rows that predict: the deepest draft.
        rows: usize,
    },
    /// In one pass of a block that the context enters as keys and values alone (Chen et al. 2026,
    /// DFlash, arXiv 2602.06036; DSpark).
    Block(BlockShape),
}

/// A block: the last committed token and masks.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BlockShape {
    /// Number of rows.
    pub rows: usize,
    /// The token of a mask.
    pub mask: Token,
    /// Whether a mask has an embedding of its own, instead of its token's.
    pub own_mask: bool,
    /// Whether a row predicts the token after its position; otherwise the one at its position, and
    /// the row of the last committed token predicts nothing.
    pub anchor_first: bool,
    /// What rows see, by layer.
    pub sights: Vec<Sight>,
    /// What is added to logits by the token before.
    pub markov: Option<Markov>,
    /// Whether acceptance is estimated.
    pub confidence: Option<Confidence>,
}

/// What the rows of a block see in a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sight {
    /// Behind them.
    pub behind: Behind,
    /// After them, in the block.
    pub ahead: Ahead,
}

/// What a row sees behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behind {
    /// All.
    All,
    /// A window of this many positions, which ends with its own.
    Row(usize),
    /// This many tokens before the block, and the block.
    Block(usize),
}

/// What a row sees after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ahead {
    /// The whole block.
    All,
    /// Nothing.
    Nothing,
    /// At most this many rows.
    Rows(usize),
}

/// A bias of the logits of a row that depends on the token before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Markov {
    pub kind: MarkovKind,
    /// Numbers in the embedding of that token.
    pub rank: usize,
}

/// What the bias depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MarkovKind {
    /// The token before.
    Vanilla,
    /// The token before, through a gate that the row's state opens.
    Gated,
    /// All tokens of the draft, through a state.
    Recurrent,
}

/// An estimate of acceptance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Confidence {
    /// Whether it reads the token before, through the embedding of the Markov bias.
    pub reads_token: bool,
}

/// The embedding of tokens in a Markov bias, and the product to logits.
pub(crate) const MARKOV_IN: &str = "markov_head.markov_w1";
pub(crate) const MARKOV_OUT: &str = "markov_head.markov_w2";
/// The product of the estimate of acceptance.
pub(crate) const CONFIDENCE: &str = "confidence_head.proj";
/// The embedding of a mask, and its feature.
pub(crate) const MASK_EMBEDDING: &str = "mask_embedding";
pub(crate) const MASK_HIDDEN: &str = "mask_hidden";

impl Sight {
    /// The first position and the end of those that row `row` sees of a block of `rows` rows at
    /// position `start`.
    pub(crate) fn range(self, row: usize, start: usize, rows: usize) -> std::ops::Range<usize> {
        let (own, end) = (start + row, start + rows);
        let first = match self.behind {
            Behind::All => 0,
            Behind::Row(window) => (own + 1).saturating_sub(window),
            Behind::Block(window) => start.saturating_sub(window),
        };
        let end = match self.ahead {
            Ahead::All => end,
            Ahead::Nothing => own + 1,
            Ahead::Rows(most) => end.min((own + 1).saturating_add(most)),
        };
        first..end
    }
}

impl Markov {
    /// Outputs of the product that reads the state of a row, and its tensors, if there is one; the
    /// rows have `width` numbers.
    pub(crate) fn gate(&self, width: usize) -> Option<(usize, [Described; 2])> {
        let (name, outputs, inputs) = match self.kind {
            MarkovKind::Vanilla => return None,
            MarkovKind::Gated => ("gate_proj", self.rank, width + self.rank),
            MarkovKind::Recurrent => ("joint_proj", 3 * self.rank, width + 2 * self.rank),
        };
        let name = format!("markov_head.{name}");
        let tensors =
            [(weight(&name), vec![outputs, inputs]), (format!("{name}.bias"), vec![outputs])];
        Some((outputs, tensors))
    }

    /// The embedding of `vocab` tokens.
    pub(crate) fn embedding(&self, vocab: usize) -> Described {
        (weight(MARKOV_IN), vec![vocab, self.rank])
    }

    /// The product to the logits of `rows` tokens.
    pub(crate) fn product(&self, rows: usize) -> Described {
        (weight(MARKOV_OUT), vec![rows, self.rank])
    }
}

impl BlockShape {
    /// The rows that predict, by depth.
    pub(crate) fn predicting(&self) -> std::ops::Range<usize> {
        usize::from(!self.anchor_first)..self.rows
    }

    /// The product of the estimate of acceptance, and its bias.
    pub(crate) fn confidence(&self, width: usize) -> Option<[Described; 2]> {
        let confidence = self.confidence?;
        let rank = self.markov.filter(|_| confidence.reads_token).map_or(0, |markov| markov.rank);
        let bias = (format!("{CONFIDENCE}.bias"), vec![1]);
        Some([(weight(CONFIDENCE), vec![1, width + rank]), bias])
    }

    /// Names and shapes of its tensors; the head has `width` numbers in a state, and logits for
    /// `rows` of the target's `vocab` tokens.
    pub(crate) fn tensors(&self, width: usize, (vocab, rows): (usize, usize)) -> Vec<Described> {
        let mut all = Vec::new();
        if let Some(markov) = self.markov {
            all.extend([markov.embedding(vocab), markov.product(rows)]);
            all.extend(markov.gate(width).map(|(_, tensors)| tensors).into_iter().flatten());
        }
        all.extend(self.confidence(width).into_iter().flatten());
        all.extend(self.own_mask.then(|| mask_embedding(width)));
        all
    }
}

/// The embedding of a mask.
pub(crate) fn mask_embedding(width: usize) -> Described {
    (MASK_EMBEDDING.to_owned(), vec![width])
}

impl Drafting {
    /// Names and shapes of its tensors, as [`BlockShape::tensors`]; a feature has `feature` numbers.
    pub(super) fn tensors(
        &self,
        (width, feature): (usize, usize),
        vocabularies: (usize, usize),
    ) -> Vec<Described> {
        match self {
            Self::Stepwise => Vec::new(),
            Self::Masked { .. } => vec![mask_hidden(feature)],
            Self::Block(shape) => shape.tensors(width, vocabularies),
        }
    }

    /// Number of rows of a pass after the context.
    pub(crate) fn ahead(&self) -> usize {
        match self {
            Self::Block(shape) => shape.rows - 1,
            _ => 0,
        }
    }

    /// The deepest draft, if there is one.
    pub(crate) fn deepest(&self) -> Option<usize> {
        match self {
            Self::Stepwise => None,
            Self::Masked { rows, .. } => Some(*rows),
            Self::Block(shape) => Some(shape.predicting().len()),
        }
    }

    /// The feature of masks, if they have one.
    pub(crate) fn read_mask(
        &self,
        feature: usize,
        tensors: &dyn Tensors,
    ) -> Result<Option<Vec<f32>>, Error> {
        let masked = matches!(self, Self::Masked { .. });
        let (name, shape) = mask_hidden(feature);
        masked.then(|| tensors.get(&name, &shape)).transpose()
    }
}

fn mask_hidden(feature: usize) -> Described {
    (MASK_HIDDEN.to_owned(), vec![1, 1, feature])
}

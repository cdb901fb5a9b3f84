//! What a pass must do for one sequence.

use super::early_rows::Part;
use super::taps::Tap;
use crate::core::distribution::Token;

/// A token to be computed in a pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Feed {
    /// The token.
    pub token: Token,
    /// The slot for its row of keys and values.
    pub slot: usize,
    /// Its logical position in the text (for the rotary embedding).
    pub position: usize,
    /// It attends to all slots below this number …
    pub prefix: usize,
    /// … and to these, ascending; its own slot is included in one or the other.
    pub ancestors: Vec<usize>,
}

/// What a pass must do for one sequence.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Step {
    /// Tokens to compute, ascending by slot.
    pub feed: Vec<Feed>,
    /// For each wanted row, its index in `feed`.
    pub rows: Vec<usize>,
    /// The hidden states to return of each computed token.
    pub taps: Vec<Tap>,
    /// The layers to compute.
    pub part: Part,
    /// By token whether its first layers have been computed.
    pub resumed: Vec<bool>,
    /// For the rest of the layers: the states of the tokens before them, row by row.
    pub inputs: Vec<f32>,
}

impl Feed {
    /// The slots that it attends to, ascending; its own is the last.
    pub fn seen(&self) -> impl DoubleEndedIterator<Item = usize> {
        (0..self.prefix).chain(self.ancestors.iter().copied())
    }
}

impl Step {
    /// The step in pieces of at most `most` tokens: the tokens to compute, and the
    /// indices of the wanted rows among them.
    pub fn pieces(&self, most: usize) -> impl Iterator<Item = (&[Feed], Vec<usize>)> {
        self.feed.chunks(most).enumerate().map(move |(number, feed)| {
            let piece = number * most..number * most + feed.len();
            let wanted = self.rows.iter().filter(|row| piece.contains(row));
            (feed, wanted.map(|row| row - piece.start).collect())
        })
    }
}

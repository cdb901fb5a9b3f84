//! Merging by scores: of all neighbours that make a token together, those that make the
//! token with the highest score are merged first, the leftmost ones if scores are equal.
//!
//! The library's BPE model cannot express this: it has a rank for each pair of tokens, and
//! no two ranks are equal. But all pairs that make the same token have one score, and so
//! have different tokens; in Llama's vocabulary the runs of spaces of every length do.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use tokenizers::{Model, ModelWrapper, Token as Piece};

use crate::core::distribution::Token;

/// The scores of tokens, and the tokens for single bytes.
#[derive(Debug)]
pub(super) struct ScoreGreedy {
    /// By id; NaN for a token that no neighbours make. No zero is negative.
    pub(super) scores: Vec<f32>,
    /// By byte.
    pub(super) bytes: [Token; 256],
}

/// A part of the text that is one token, or one character.
#[derive(Debug, Clone, Copy)]
struct Symbol {
    start: usize,
    /// Equal to `start` once it is merged into its left neighbour.
    end: usize,
    left: Option<usize>,
    right: Option<usize>,
}

/// Two neighbours that make a token.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Neighbours {
    score: f32,
    left: usize,
    right: usize,
    /// Bytes of both; less than they have now if one of them has grown since.
    length: usize,
}

impl Eq for Neighbours {}

impl PartialOrd for Neighbours {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Neighbours {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |n: &Self| (Reverse(n.left), n.right, n.length);
        self.score.total_cmp(&other.score).then_with(|| key(self).cmp(&key(other)))
    }
}

impl ScoreGreedy {
    /// The tokens of a text; a character without a token becomes its bytes.
    pub(super) fn tokens(&self, model: &ModelWrapper, text: &str) -> Vec<Piece> {
        let mut symbols = characters(text);
        let mut open = BinaryHeap::new();
        for left in 1..symbols.len() {
            open.extend(self.neighbours(model, text, &symbols, left - 1));
        }
        while let Some(next) = open.pop() {
            let (left, right) = (symbols[next.left], symbols[next.right]);
            let merged = left.start == left.end || right.start == right.end;
            if merged || right.end - left.start != next.length {
                continue;
            }
            symbols[next.left] = Symbol { end: right.end, right: right.right, ..left };
            symbols[next.right].end = right.start;
            if let Some(after) = right.right {
                symbols[after].left = Some(next.left);
            }
            let before = left.left.and_then(|at| self.neighbours(model, text, &symbols, at));
            open.extend(before);
            open.extend(self.neighbours(model, text, &symbols, next.left));
        }
        let left = symbols.iter().filter(|symbol| symbol.start < symbol.end);
        left.flat_map(|symbol| self.pieces(model, text, symbol)).collect()
    }

    /// A symbol with its right neighbour, if they make a token.
    fn neighbours(
        &self,
        model: &ModelWrapper,
        text: &str,
        symbols: &[Symbol],
        left: usize,
    ) -> Option<Neighbours> {
        let right = symbols[left].right?;
        let both = &text[symbols[left].start..symbols[right].end];
        let score = self.scores[model.token_to_id(both)? as usize];
        (!score.is_nan()).then_some(Neighbours { score, left, right, length: both.len() })
    }

    fn pieces(&self, model: &ModelWrapper, text: &str, symbol: &Symbol) -> Vec<Piece> {
        let name = &text[symbol.start..symbol.end];
        if let Some(id) = model.token_to_id(name) {
            return vec![Piece::new(id, name.to_owned(), (symbol.start, symbol.end))];
        }
        let piece = |(at, byte): (usize, u8)| {
            Piece::new(self.bytes[usize::from(byte)], byte_name(byte), (at, at + 1))
        };
        (symbol.start..).zip(name.bytes()).map(piece).collect()
    }
}

/// The name of the token for a byte.
pub(super) fn byte_name(byte: u8) -> String {
    format!("<0x{byte:02X}>")
}

fn characters(text: &str) -> Vec<Symbol> {
    let mut symbols = text
        .char_indices()
        .enumerate()
        .map(|(at, (start, c))| Symbol {
            start,
            end: start + c.len_utf8(),
            left: at.checked_sub(1),
            right: Some(at + 1),
        })
        .collect::<Vec<_>>();
    if let Some(last) = symbols.last_mut() {
        last.right = None;
    }
    symbols
}

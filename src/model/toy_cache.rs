//! The cache of a toy: the tokens in its slots.

use std::any::Any;

use super::toy_states::{WIDTH, state};
use super::{Feed, KvCache, Part, Step, Tap};
use crate::core::distribution::Token;
use crate::core::error::Error;

/// Rows up to the last one written, since a walk keeps many copies.
#[derive(Debug)]
pub(super) struct ToyCache {
    pub(super) rows: Vec<Option<Token>>,
    pub(super) keeps_old_rows: bool,
}

impl ToyCache {
    pub(super) fn get(&self, slot: usize) -> Option<Token> {
        self.rows.get(slot).copied().flatten()
    }

    /// The last tokens, at most `most`, that a token sees, itself included.
    pub(super) fn last(&self, feed: &Feed, most: usize) -> Result<Vec<Token>, Error> {
        let last = feed.seen().rev().take(most).map(|slot| self.get(slot));
        let mut tail = last
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| Error::engine("the toy's cache has a row that was never written"))?;
        tail.reverse();
        Ok(tail)
    }

    /// Whether a row that continues from a state does so from its own.
    pub(super) fn continues(&self, step: &Step, row: usize) -> Result<bool, Error> {
        let Part::Rest(layers) = step.part else { return Ok(true) };
        let feed = &step.feed[row];
        let own = state(Tap::After(layers), feed.position, &self.last(feed, usize::MAX)?);
        Ok(step.inputs.get(row * WIDTH..(row + 1) * WIDTH) == Some(&own[..]))
    }

    /// How many rows a copy of a sequence in this many slots has.
    fn kept(&self, slots: usize) -> usize {
        if self.keeps_old_rows { self.rows.len() } else { slots.min(self.rows.len()) }
    }

    pub(super) fn put(&mut self, slot: usize, row: Option<Token>) {
        self.rows.resize(self.rows.len().max(slot + 1), None);
        self.rows[slot] = row;
    }
}

impl KvCache for ToyCache {
    fn copy_row(&mut self, from: usize, to: usize) -> Result<(), Error> {
        self.put(to, self.get(from));
        Ok(())
    }

    fn try_clone(&self, slots: usize) -> Result<Box<dyn KvCache>, Error> {
        Ok(Box::new(Self { rows: self.rows[..self.kept(slots)].to_vec(), ..*self }))
    }

    fn key(&self, slots: usize) -> Vec<u8> {
        (0..slots.max(self.kept(slots)))
            .flat_map(|slot| self.get(slot).unwrap_or(Token::MAX).to_le_bytes())
            .collect()
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

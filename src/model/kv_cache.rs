//! What an engine keeps for a sequence: rows of keys and values, by slot.

use std::any::Any;
use std::ops::Range;

use crate::core::distribution::Token;
use crate::core::error::Error;

/// The engine's side of a session: rows of keys and values, by slot.
pub trait KvCache: std::fmt::Debug {
    /// Copies the row in slot `from` to slot `to`.
    ///
    /// # Errors
    /// If the engine fails to copy.
    fn copy_row(&mut self, from: usize, to: usize) -> Result<(), Error>;

    /// Copies the rows in `slots` from another cache of the same model, and returns whether
    /// this engine can; if not, nothing has changed.
    ///
    /// # Errors
    /// If the engine fails to copy.
    fn copy_rows(&mut self, from: &mut dyn KvCache, slots: Range<usize>) -> Result<bool, Error> {
        let _ = (from, slots);
        Ok(false)
    }

    /// The cache may grow to `slots` slots. An engine that has to copy rows in order to grow can make room
    /// for them at once, and not while a text is decoded.
    ///
    /// # Errors
    /// If the engine has no memory for them.
    fn expect(&mut self, slots: usize) -> Result<(), Error> {
        let _ = slots;
        Ok(())
    }

    /// A deep copy of the first `slots` rows, of which as many are expected.
    ///
    /// # Errors
    /// If the engine fails to copy.
    fn try_clone(&self, slots: usize) -> Result<Box<dyn KvCache>, Error>;

    /// A copy of the first `slots` of the `held` rows, which are kept once for both where the
    /// engine can: it copies them when one of the two writes to them. It is for another text,
    /// and need not expect what this one does.
    ///
    /// # Errors
    /// If the engine fails to copy.
    fn share(&mut self, slots: usize, held: usize) -> Result<Box<dyn KvCache>, Error> {
        let _ = held;
        self.try_clone(slots)
    }

    /// The content of the first `slots` rows, for telling two states apart.
    fn key(&self, slots: usize) -> Vec<u8>;

    /// The sequence has dropped everything that does not belong to `context`. Only a cache
    /// that keeps a sequence of its own has to do anything.
    ///
    /// # Errors
    /// If that sequence cannot be brought to `context`.
    fn rewind(&mut self, context: &[Token]) -> Result<(), Error> {
        let _ = context;
        Ok(())
    }

    /// For the engine to downcast to its own type.
    fn as_any(&mut self) -> &mut dyn Any;
}

/// The cache of a session without one.
#[cfg(feature = "engine")]
#[derive(Debug)]
pub(crate) struct NoRows;

#[cfg(feature = "engine")]
impl KvCache for NoRows {
    fn copy_row(&mut self, _from: usize, _to: usize) -> Result<(), Error> {
        Ok(())
    }

    fn try_clone(&self, _slots: usize) -> Result<Box<dyn KvCache>, Error> {
        Ok(Box::new(Self))
    }

    fn key(&self, _slots: usize) -> Vec<u8> {
        Vec::new()
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

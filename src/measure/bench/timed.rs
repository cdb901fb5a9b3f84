//! A wrapper around a model that measures the time spent in its passes.

use std::cell::Cell;
use std::time::Duration;

use crate::core::clock::Clock;
use crate::core::error::Error;
use crate::core::sampling::ForEachRow;
use crate::model::{Evaluation, LanguageModel, ModelInfo, Session, Work};

/// Forwards every call to the inner model and times its passes.
#[derive(Debug)]
pub(super) struct Timed<'a> {
    inner: &'a dyn LanguageModel,
    clock: &'a dyn Clock,
    spent: Cell<Duration>,
}

impl<'a> Timed<'a> {
    pub(super) fn new(inner: &'a dyn LanguageModel, clock: &'a dyn Clock) -> Self {
        Self { inner, clock, spent: Cell::default() }
    }

    /// Time spent in passes so far.
    pub(super) fn spent(&self) -> Duration {
        self.spent.get()
    }
}

impl LanguageModel for Timed<'_> {
    fn info(&self) -> &ModelInfo {
        self.inner.info()
    }

    fn session(&self) -> Result<Session, Error> {
        self.inner.session()
    }

    fn evaluate(&self, work: &mut [Work<'_>]) -> Result<Vec<Evaluation>, Error> {
        let start = self.clock.now();
        let done = self.inner.evaluate(work);
        self.spent.set(self.spent.get() + self.clock.now() - start);
        done
    }

    fn threads(&self, rows: usize) -> usize {
        self.inner.threads(rows)
    }

    fn for_each_row(&self) -> ForEachRow {
        self.inner.for_each_row()
    }
}

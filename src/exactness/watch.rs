//! Whether a length policy ever decides anything: one that never ends a draft
//! is certified as nothing but `fixed`.

use std::cell::Cell;
use std::rc::Rc;

use crate::length::{BatchView, DraftLength, PastAcceptance};
use crate::round::RoundEvent;
use crate::tree::Draft;

/// A length policy that notes when it asks for less than K or ends a draft
/// before. It is asked only where more could be drafted, and all copies share
/// the note.
#[derive(Debug)]
pub(super) struct Watched {
    inner: Box<dyn DraftLength>,
    k: usize,
    stopped: Rc<Cell<bool>>,
}

impl Watched {
    pub(super) fn new(inner: Box<dyn DraftLength>, k: usize, stopped: &Rc<Cell<bool>>) -> Self {
        Self { inner, k, stopped: Rc::clone(stopped) }
    }
}

impl DraftLength for Watched {
    fn begin(&mut self, batch: &BatchView<'_>) {
        self.inner.begin(batch);
    }

    fn past(&self) -> PastAcceptance {
        self.inner.past()
    }

    fn max_depth(&self) -> usize {
        let most = self.inner.max_depth();
        if most < self.k {
            self.stopped.set(true);
        }
        most
    }

    fn needs_confidence(&self) -> bool {
        self.inner.needs_confidence()
    }

    fn go_deeper(&mut self, draft: &Draft) -> bool {
        let more = self.inner.go_deeper(draft);
        if !more && draft.depth() < self.k {
            self.stopped.set(true);
        }
        more
    }

    fn observe(&mut self, event: &RoundEvent<'_>) {
        self.inner.observe(event);
    }

    fn state_key(&self) -> Vec<u8> {
        self.inner.state_key()
    }

    fn fork(&self) -> Box<dyn DraftLength> {
        Box::new(Self::new(self.inner.fork(), self.k, &self.stopped))
    }
}

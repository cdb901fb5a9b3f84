//! Records whether a length policy ever ends a draft. Certifying one that never does would only
//! certify `fixed`.

use std::cell::Cell;
use std::rc::Rc;

use crate::core::round::RoundEvent;
use crate::core::tree::Draft;
use crate::method::length::{BatchView, DraftLength, PastAcceptance};

/// A length policy that records whether it asks for fewer than K tokens or ends a draft before K.
/// It is consulted only if more could be drafted. All copies share the record.
#[derive(Debug, Clone)]
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

    fn is_worth(&mut self, confidence: f64) -> bool {
        let more = self.inner.is_worth(confidence);
        if !more {
            self.stopped.set(true);
        }
        more
    }

    fn needs_estimates(&self) -> bool {
        self.inner.needs_estimates()
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
}

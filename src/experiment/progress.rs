//! How far a run is, and how disturbed.

use crate::terminal;

/// Shows how far a run is.
#[derive(Debug)]
pub(super) struct Progress {
    progress: terminal::Progress,
    /// What the last block lost, in words.
    disturbance: String,
}

impl Progress {
    /// Progress over `total` of `what`, `before` of which were done already.
    pub(super) fn new(what: &'static str, total: usize, before: usize) -> Self {
        let progress = terminal::Progress::new(what, total, before);
        Self { progress, disturbance: String::new() }
    }

    /// There are so many more of them.
    pub(super) fn more(&mut self, number: usize) {
        self.progress.more(number);
    }

    /// How disturbed the last block was, as a share of its time.
    pub(super) fn disturbed_by(&mut self, share: f64) {
        self.disturbance = format!("last block lost {:.0} % to other work", 100.0 * share.min(1.0));
    }

    /// One is done; `live` says how it goes.
    pub(super) fn advance(&mut self, live: &str) {
        let parts = [&*self.disturbance, live].into_iter().filter(|part| !part.is_empty());
        self.progress.advance(&parts.collect::<Vec<_>>().join(", "));
    }
}

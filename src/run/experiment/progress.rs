//! The progress of a run, and how disturbed it is.

use crate::io::terminal;

/// Shows the progress of a run.
#[derive(Debug)]
pub(super) struct RunProgress {
    progress: terminal::Progress,
    /// The time that the last block lost, in words.
    disturbance: String,
}

impl RunProgress {
    /// Progress over `total` steps called `what`, `before` of them already done.
    pub(super) fn new(what: &'static str, total: usize, before: usize) -> Self {
        let progress = terminal::Progress::new(what, total, before);
        Self { progress, disturbance: String::new() }
    }

    /// Adds `number` steps to the total.
    pub(super) fn more(&mut self, number: usize) {
        self.progress.more(number);
    }

    /// Records the share of its time that the last block lost.
    pub(super) fn disturbed_by(&mut self, share: f64) {
        self.disturbance = format!("last block lost {:.0} % of its time", 100.0 * share.min(1.0));
    }

    /// Counts one step as done and shows `live` next to it.
    pub(super) fn advance(&mut self, live: &str) {
        let parts = [&*self.disturbance, live].into_iter().filter(|part| !part.is_empty());
        self.progress.advance(&parts.collect::<Vec<_>>().join(", "));
    }
}

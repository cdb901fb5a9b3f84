//! What the thread of the models is doing, for `/health`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The step that the thread is in.
#[derive(Debug)]
pub(super) struct Pulse {
    origin: Instant,
    /// When the step began, in milliseconds after the origin; 0 while the thread waits for work.
    began: AtomicU64,
}

impl Default for Pulse {
    fn default() -> Self {
        Self { origin: Instant::now(), began: AtomicU64::new(0) }
    }
}

impl Pulse {
    /// A step begins: a prefill or a round.
    pub(super) fn step(&self) {
        let now = u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.began.store(now.max(1), Ordering::Relaxed);
    }

    /// The thread waits for work.
    pub(super) fn rest(&self) {
        self.began.store(0, Ordering::Relaxed);
    }

    /// How long the step has taken so far; `None` if the thread waits for work.
    pub(super) fn busy(&self) -> Option<Duration> {
        let began = Some(self.began.load(Ordering::Relaxed)).filter(|&began| began > 0)?;
        Some(self.origin.elapsed().saturating_sub(Duration::from_millis(began)))
    }
}

//! Limits the rate of requests.

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Lets requests through at a limited rate.
#[derive(Debug)]
pub(super) struct RateGate {
    every: Duration,
    next: Mutex<Instant>,
}

impl RateGate {
    /// A gate for `rate` requests per second; none for no limit.
    pub(super) fn new(rate: Option<f64>) -> Self {
        let every = rate.map_or(Duration::ZERO, |rate| Duration::from_secs_f64(1.0 / rate));
        Self { every, next: Mutex::new(Instant::now()) }
    }

    /// Waits until the next request may go.
    pub(super) fn wait(&self) {
        let own = {
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            let own = (*next).max(Instant::now());
            *next = own + self.every;
            own
        };
        thread::sleep(own.saturating_duration_since(Instant::now()));
    }
}

//! Waiting by polling.

use std::hint::spin_loop;
use std::thread;
use std::time::{Duration, Instant};

/// Number of polls between two readings of the clock. They take some microseconds; most waits are
/// shorter.
const POLLS: usize = 128;
/// After this time the waiting thread yields its core, which the awaited thread may
/// need.
const YIELD: Duration = Duration::from_micros(30);

/// Polls until `condition` holds, for no longer than `patience`; returns whether it
/// holds.
pub(super) fn look(patience: Duration, condition: impl Fn() -> bool) -> bool {
    let poll = || {
        (0..POLLS).any(|_| {
            spin_loop();
            condition()
        })
    };
    if condition() || !patience.is_zero() && poll() {
        return true;
    }
    let since = Instant::now();
    loop {
        let waited = since.elapsed();
        if waited >= patience {
            return condition();
        }
        if waited >= YIELD {
            thread::yield_now();
        }
        if poll() {
            return true;
        }
    }
}

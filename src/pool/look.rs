//! Waiting by looking.

use std::hint::spin_loop;
use std::thread;
use std::time::{Duration, Instant};

/// Looks between two readings of the clock: some microseconds, as most waits are
/// shorter than.
const LOOKS: usize = 128;
/// After so long a wait, whoever is waited for may need this very core.
const YIELD: Duration = Duration::from_micros(30);

/// Looks until something is so, for no longer than `patience`; whether it is.
pub(super) fn look(patience: Duration, so: impl Fn() -> bool) -> bool {
    let some_looks = || {
        (0..LOOKS).any(|_| {
            spin_loop();
            so()
        })
    };
    if so() || !patience.is_zero() && some_looks() {
        return true;
    }
    let since = Instant::now();
    loop {
        let waited = since.elapsed();
        if waited >= patience {
            return so();
        }
        if waited >= YIELD {
            thread::yield_now();
        }
        if some_looks() {
            return true;
        }
    }
}

//! The threads on which candle computes: rayon's.

use std::env;
use std::error::Error as _;
use std::io;
use std::sync::Once;

/// The variable from which candle reads the number of threads, like rayon.
const VARIABLE: &str = "RAYON_NUM_THREADS";

/// Starts rayon's threads; returns how many run, which are others than `count` if they
/// have been started before.
pub(crate) fn start_threads(count: usize) -> io::Result<usize> {
    let built = rayon::ThreadPoolBuilder::new().num_threads(count).build_global();
    let running = match built.as_ref().map_err(|e| e.source()) {
        Ok(()) => count,
        Err(Some(cause)) => return Err(io::Error::other(cause.to_string())),
        // There already is a pool.
        Err(None) => rayon::current_num_threads(),
    };
    if running == count {
        tell_candle();
    }
    Ok(running)
}

/// Sets the variable from which candle reads the number of worker threads, in every
/// matrix product. Without it, candle counts the machine's cores each time by reading
/// `/proc/cpuinfo`, which takes longer (20 µs) than the product itself in a small
/// model; and it would not follow `set_threads`.
#[allow(unsafe_code)]
pub(super) fn tell_candle() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let threads = rayon::current_num_threads().to_string();
        // SAFETY: no foreign code may read the environment at the same time. All code
        // of this program that reads it is Rust and does so through `std::env`, which
        // locks it; C libraries that might read it are those of devices, which are
        // opened afterwards.
        unsafe { env::set_var(VARIABLE, threads) };
    });
}

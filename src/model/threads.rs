//! How many threads the engines use.

use std::env;
use std::sync::Once;

use super::ModelError;
use crate::pool::Pool;

/// Where candle looks for the number of threads, like rayon.
const VARIABLE: &str = "RAYON_NUM_THREADS";

/// Sets the number of worker threads for the whole process; call it before the
/// first model is loaded.
///
/// # Errors
/// If the workers have been started with another number already.
pub fn set_threads(threads: usize) -> Result<(), ModelError> {
    let built = rayon::ThreadPoolBuilder::new().num_threads(threads).build_global();
    let own = Pool::share(threads);
    if !own || built.is_err() && rayon::current_num_threads() != threads {
        return Err(ModelError::new(format!(
            "cannot use {threads} threads: {} are running already",
            rayon::current_num_threads()
        )));
    }
    tell_candle();
    Ok(())
}

/// Lets candle know the number of worker threads. It asks anew in every matrix
/// product: without the variable it counts the machine's cores each time, by
/// reading `/proc/cpuinfo`, which takes longer (20 µs) than the product itself
/// in a small model; and it would not follow [`set_threads`].
#[allow(unsafe_code)]
pub(super) fn tell_candle() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let threads = rayon::current_num_threads().to_string();
        // SAFETY: the environment must not be read by foreign code meanwhile.
        // All code of this program that reads it is Rust and does so through
        // `std::env`, which locks it; no C library is called that might.
        unsafe { env::set_var(VARIABLE, threads) };
    });
}

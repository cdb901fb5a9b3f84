//! How many threads the engines use.

use std::env;
use std::error::Error;
use std::sync::{Arc, Once};

use super::ModelError;
use crate::pool::Pool;

/// The variable from which candle reads the number of threads, like rayon.
const VARIABLE: &str = "RAYON_NUM_THREADS";

/// Worker threads of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Threads {
    /// Number of threads.
    pub count: usize,
    /// A warning, if more threads than cores were requested.
    pub warning: Option<String>,
}

impl Threads {
    /// The requested number of threads, by default one per core and never more: further
    /// threads would only compete for the cores.
    pub fn on(cores: usize, wanted: Option<usize>) -> Self {
        let count = wanted.unwrap_or(cores).min(cores);
        let warning = wanted.filter(|&wanted| wanted > cores).map(|wanted| {
            format!("{wanted} threads are more than the cores this process may use: using {cores}")
        });
        Self { count, warning }
    }
}

/// Starts the worker threads of the whole process, by default one per core; must be
/// called before the first model is loaded.
///
/// # Errors
/// If they have already been started with another number, or if the system refuses to
/// start a thread.
pub fn set_threads(wanted: Option<usize>) -> Result<Threads, ModelError> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = Threads::on(cores, wanted);
    let count = threads.count;
    let own = Pool::share(count).map_err(|e| refused(count, &e))?;
    let built = rayon::ThreadPoolBuilder::new().num_threads(count).build_global();
    let theirs = match built.as_ref().map_err(Error::source) {
        Ok(()) => count,
        Err(Some(cause)) => return Err(refused(count, cause)),
        // There already is a pool.
        Err(None) => rayon::current_num_threads(),
    };
    if let Some(running) = [own, theirs].into_iter().find(|&running| running != count) {
        return Err(ModelError::new(format!(
            "cannot use {count} threads: {running} are running already"
        )));
    }
    tell_candle();
    Ok(threads)
}

/// A separate pool for one model.
///
/// # Errors
/// If the system refuses to start a thread.
pub(super) fn own_pool(threads: usize, restless: bool) -> Result<Arc<Pool>, ModelError> {
    let start = if restless { Pool::restless } else { Pool::new };
    start(threads).map(Arc::new).map_err(|e| refused(threads, &e))
}

fn refused(threads: usize, why: &dyn Error) -> ModelError {
    let (many, fewer) = match threads {
        1 => ("a thread".to_owned(), ""),
        _ => (
            format!("{threads} threads"),
            ", or take fewer threads (--threads, or threads = N in an experiment)",
        ),
    };
    ModelError::new(format!(
        "the system refuses to start {many}: {why}; allow this user more processes (ulimit -u, or \
         pids.max of its cgroup){fewer}"
    ))
}

/// Sets the variable from which candle reads the number of worker threads, in every
/// matrix product. Without it, candle counts the machine's cores each time by reading
/// `/proc/cpuinfo`, which takes longer (20 µs) than the product itself in a small
/// model; and it would not follow [`set_threads`].
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

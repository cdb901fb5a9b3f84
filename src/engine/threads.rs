//! How many threads the engines use.

use std::sync::Arc;

use crate::core::error::Error;
use crate::engine::pool::Pool;

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
pub fn set_threads(wanted: Option<usize>) -> Result<Threads, Error> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = Threads::on(cores, wanted);
    let count = threads.count;
    let own = Pool::share(count).map_err(|e| refused(count, &e))?;
    #[cfg(feature = "candle")]
    let running = [own, super::candle::start_threads(count).map_err(|e| refused(count, &e))?];
    #[cfg(not(feature = "candle"))]
    let running = [own];
    match running.into_iter().find(|&running| running != count) {
        None => Ok(threads),
        Some(running) => {
            Err(Error::engine(format!("cannot use {count} threads: {running} are running already")))
        }
    }
}

/// A separate pool for one model.
pub(crate) fn own_pool(threads: usize, restless: bool) -> Result<Arc<Pool>, Error> {
    let start = if restless { Pool::restless } else { Pool::new };
    start(threads).map(Arc::new).map_err(|e| refused(threads, &e))
}

fn refused(threads: usize, why: &dyn std::error::Error) -> Error {
    let (many, fewer) = match threads {
        1 => ("a thread".to_owned(), ""),
        _ => (
            format!("{threads} threads"),
            ", or take fewer threads (--threads, or threads = N in an experiment)",
        ),
    };
    Error::engine(format!(
        "the system refuses to start {many}: {why}; allow this user more processes (ulimit -u, or \
         pids.max of its cgroup){fewer}"
    ))
}

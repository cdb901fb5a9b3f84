//! Readers of files that may be damaged, by libraries that panic where some are.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::thread;

/// The name of a thread whose panic is not a bug of this program: the library panics where a
/// file is damaged in some ways.
pub const READS_DAMAGED: &str = "reads what may be damaged";

/// Reads in a thread of its own, or on this one if the system starts no other. `None` if the
/// library panics.
pub(crate) fn caught<T: Send>(read: impl FnOnce() -> T + Send) -> Option<T> {
    // A thread that cannot be started keeps what it was given.
    let read = Mutex::new(Some(read));
    let read = || read.lock().ok()?.take().map(|read| read());
    thread::scope(|scope| {
        let reader = thread::Builder::new().name(READS_DAMAGED.to_owned());
        match reader.spawn_scoped(scope, read) {
            Ok(reader) => reader.join().ok().flatten(),
            Err(_) => catch_unwind(AssertUnwindSafe(read)).ok().flatten(),
        }
    })
}

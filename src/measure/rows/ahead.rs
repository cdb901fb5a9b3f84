//! Rows are read in a thread of its own, ahead of whoever sees them.

use std::mem::take;
use std::panic::resume_unwind;
use std::sync::mpsc::sync_channel;
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result};

/// How many batches of rows may wait to be seen.
const WAITING: usize = 2;

/// Takes the rows of a reader, and hands them over.
pub(super) struct RowQueue<'q, R> {
    batch: Vec<R>,
    /// The rows of a whole batch.
    whole: usize,
    /// Takes a batch. Returns whether anybody waits for more.
    out: &'q mut (dyn FnMut(Vec<R>) -> bool + Send),
}

impl<R> RowQueue<'_, R> {
    /// Takes the next row. Returns whether anybody waits for more.
    pub(super) fn row(&mut self, row: R) -> bool {
        self.batch.push(row);
        self.batch.len() < self.whole || self.end()
    }

    /// Takes the next rows, as a batch of their own: they would overtake those that
    /// [`Self::row`] holds back. Returns whether anybody waits for more.
    pub(super) fn rows(&mut self, rows: Vec<R>) -> bool {
        (self.out)(rows)
    }

    fn end(&mut self) -> bool {
        let batch = take(&mut self.batch);
        self.rows(batch)
    }
}

/// Calls `see` with every row that `read` hands over, in order, while it reads on. Rows are
/// handed over in batches of `whole`. If the system starts no thread, all are read before the first
/// is seen.
///
/// # Errors
/// The first error of `see`; otherwise that of `read`, once all rows before it were seen.
pub(super) fn read_ahead<R: Send, T: Send>(
    whole: usize,
    read: impl FnOnce(&mut RowQueue<'_, R>) -> Result<T> + Send,
    see: impl FnMut(R) -> Result<()>,
) -> Result<T> {
    // A thread that cannot be started keeps what it was given.
    let read = Mutex::new(Some(read));
    let read_to = |out: &mut (dyn FnMut(Vec<R>) -> bool + Send)| {
        let read = read.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut queue = RowQueue { batch: Vec::new(), whole, out };
        let read = read.context("the rows were read before")?(&mut queue);
        queue.end();
        read
    };
    thread::scope(|scope| {
        let (out, batches) = sync_channel(WAITING);
        let read_to = &read_to;
        let reader = move || read_to(&mut |rows| out.send(rows).is_ok());
        match thread::Builder::new().spawn_scoped(scope, reader) {
            Ok(reader) => {
                // After an error nobody waits for batches, and the reader ends.
                let seen = batches.into_iter().flatten().try_for_each(see);
                let read = reader.join().unwrap_or_else(|panic| resume_unwind(panic));
                seen.and(read)
            }
            Err(_) => {
                let mut held = Vec::new();
                let read = read_to(&mut |rows| {
                    held.push(rows);
                    true
                });
                held.into_iter().flatten().try_for_each(see).and(read)
            }
        }
    })
}

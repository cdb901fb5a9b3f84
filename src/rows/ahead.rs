//! Rows are read in a thread of its own, ahead of whoever sees them.

use std::mem::take;
use std::panic::resume_unwind;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use anyhow::Result;

/// How many batches of rows may wait to be seen.
const WAITING: usize = 2;

/// Takes the rows of a reader, and hands them over.
#[derive(Debug)]
pub(super) struct RowQueue<R> {
    batch: Vec<R>,
    /// The rows of a whole batch.
    whole: usize,
    out: SyncSender<Vec<R>>,
}

impl<R> RowQueue<R> {
    /// Takes the next row. Returns whether anybody waits for more.
    pub(super) fn row(&mut self, row: R) -> bool {
        self.batch.push(row);
        self.batch.len() < self.whole || self.end()
    }

    /// Takes the next rows, as a batch of their own: they would overtake those that
    /// [`Self::row`] holds back. Returns whether anybody waits for more.
    pub(super) fn rows(&mut self, rows: Vec<R>) -> bool {
        self.out.send(rows).is_ok()
    }

    fn end(&mut self) -> bool {
        let batch = take(&mut self.batch);
        self.rows(batch)
    }
}

/// Calls `see` with every row that `read` hands over, in order, while it reads on. Rows are
/// handed over in batches of `whole`.
///
/// # Errors
/// The first error of `see`; otherwise that of `read`, once all rows before it were seen.
pub(super) fn read_ahead<R: Send, T: Send>(
    whole: usize,
    read: impl FnOnce(&mut RowQueue<R>) -> Result<T> + Send,
    see: impl FnMut(R) -> Result<()>,
) -> Result<T> {
    let (out, batches) = sync_channel(WAITING);
    let reader = move || {
        let mut queue = RowQueue { batch: Vec::new(), whole, out };
        let read = read(&mut queue);
        queue.end();
        read
    };
    thread::scope(|scope| {
        let reader = scope.spawn(reader);
        // After an error nobody waits for batches, and the reader ends.
        let seen = batches.into_iter().flatten().try_for_each(see);
        let read = reader.join().unwrap_or_else(|panic| resume_unwind(panic));
        seen.and(read)
    })
}

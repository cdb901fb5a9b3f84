//! Who computes the rows of a pass: one thread, or those of an engine.

/// A piece of work for each of some rows: `work(i)` once for every `i` below the
/// number of rows, in any order and on any threads; it returns when all are done.
#[derive(Debug, Clone, Copy)]
pub struct ForEachRow(pub fn(usize, &(dyn Fn(usize) + Sync)));

impl Default for ForEachRow {
    /// One row after the other on the caller's thread.
    fn default() -> Self {
        Self(|rows, work| (0..rows).for_each(work))
    }
}

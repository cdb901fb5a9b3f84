//! Decides which threads take part in jobs, by how much they delay the others.
//!
//! A thread that loses its core to another process may hold a claimed piece, for which all others
//! wait. It is excluded if the others wait longer for it than they would need for its work. Let s
//! be its share of the pieces and h the share of the time for which it held up the others: without
//! it, a job of time 1 takes (1 − h) / (1 − s), which is less than 1 if h > s. After a while the
//! thread is tried again.

use std::time::Duration;

/// Time in jobs after which threads are judged: some time slices of the system's
/// scheduler.
pub(super) const WINDOW: Duration = Duration::from_millis(20);
/// The maximum number of windows for which a thread is excluded at once.
const LONGEST: u32 = 16;

/// The work of one thread within a window.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Record {
    /// Number of pieces that it finished.
    pub pieces: u64,
    /// The time for which the caller slept while waiting for it.
    pub held_up: Duration,
}

impl Record {
    fn delays_more_than_it_contributes(&self, time: Duration, pieces: f64) -> bool {
        self.held_up.as_secs_f64() / time.as_secs_f64() > self.pieces as f64 / pieces
    }
}

/// The threads that take part; thread 0, the caller's, always does.
#[derive(Debug)]
pub(super) struct Roster(Vec<Standing>);

#[derive(Debug, Clone, Copy, Default)]
struct Standing {
    /// Number of windows for which it is still excluded.
    away: u32,
    /// The number of windows of its last exclusion, halved for every good window since.
    penalty: u32,
}

impl Roster {
    /// A roster of `threads` threads, all of which take part.
    pub(super) fn new(threads: usize) -> Self {
        Self(vec![Standing::default(); threads])
    }

    /// Whether a thread takes part.
    pub(super) fn has(&self, thread: usize) -> bool {
        self.0[thread].away == 0
    }

    /// Judges the threads by a window of jobs that took `time`.
    pub(super) fn judge(&mut self, time: Duration, records: &[Record]) {
        let pieces = records.iter().map(|r| r.pieces).sum::<u64>().max(1) as f64;
        let mut returned = false;
        for (thread, record) in self.0.iter_mut().zip(records).skip(1) {
            if thread.away > 0 {
                // Threads return one at a time, because several that return together could not be
                // judged separately.
                let wait = thread.away == 1 && returned;
                returned |= thread.away == 1;
                thread.away -= u32::from(!wait);
            } else if record.delays_more_than_it_contributes(time, pieces) {
                thread.penalty = (2 * thread.penalty).clamp(1, LONGEST);
                thread.away = thread.penalty;
            } else {
                thread.penalty /= 2;
            }
        }
    }
}

/// Pins a worker to its own core, where its caches stay warm, if there are enough cores.
#[cfg(target_os = "linux")]
pub(super) fn pin(index: usize, threads: usize) {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let cores = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).collect::<Vec<_>>();
    if cores.len() >= threads {
        let mut own = CpuSet::new();
        own.set(cores[index]);
        // Without pinning, times only vary more.
        let _ = sched_setaffinity(None, &own);
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn pin(_: usize, _: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    /// A window of 100 ms: pieces and milliseconds held up, by thread.
    fn judge(roster: &mut Roster, threads: &[(u64, u64)]) {
        let record = |&(pieces, ms)| Record { pieces, held_up: Duration::from_millis(ms) };
        let records = threads.iter().map(record).collect::<Vec<_>>();
        roster.judge(Duration::from_millis(100), &records);
    }

    fn present(roster: &Roster) -> Vec<usize> {
        (0..roster.0.len()).filter(|&thread| roster.has(thread)).collect()
    }

    #[test]
    fn a_thread_that_delays_more_than_it_contributes_is_excluded() {
        // With a quarter of the pieces, a thread may hold up the others for a quarter
        // of the time.
        for (ms, stays) in [(0, true), (24, true), (25, true), (26, false), (90, false)] {
            let mut roster = Roster::new(2);
            judge(&mut roster, &[(30, 0), (10, ms)]);
            assert_eq!(roster.has(1), stays, "{ms} ms");
        }
    }

    #[test]
    fn only_the_delaying_thread_is_excluded_and_never_the_caller() {
        let mut roster = Roster::new(4);
        judge(&mut roster, &[(10, 80), (10, 0), (10, 60), (10, 5)]);
        assert_eq!(present(&roster), [0, 1, 3]);
    }

    #[test]
    fn a_thread_without_pieces_stays_unless_it_was_waited_for() {
        let mut roster = Roster::new(3);
        judge(&mut roster, &[(10, 0), (0, 0), (0, 1)]);
        assert_eq!(present(&roster), [0, 1]);
        judge(&mut Roster::new(2), &[(0, 0), (0, 0)]);
    }

    /// For each window in which a thread takes part: the number of windows for which it is excluded
    /// afterwards.
    fn absences(roster: &mut Roster, windows: &[(u64, u64)]) -> Vec<u32> {
        let stay = |&window: &(u64, u64)| {
            judge(roster, &[(10, 0), window]);
            let mut away = 0;
            while !roster.has(1) {
                judge(roster, &[(20, 0), (0, 0)]);
                away += 1;
            }
            away
        };
        windows.iter().map(stay).collect()
    }

    #[test]
    fn repeated_exclusions_double_and_good_windows_halve_them() {
        let (bad, good) = ((10, 80), (10, 0));
        let mut roster = Roster::new(2);
        assert_eq!(absences(&mut roster, &[bad; 7]), [1, 2, 4, 8, 16, 16, 16]);
        assert_eq!(absences(&mut roster, &[good, bad]), [0, 16]);
        assert_eq!(absences(&mut roster, &[good, good, bad]), [0, 0, 8]);
        assert_eq!(absences(&mut roster, &[good, good, good, good, bad]), [0, 0, 0, 0, 1]);
    }

    #[test]
    fn threads_return_one_at_a_time() {
        let mut roster = Roster::new(4);
        judge(&mut roster, &[(10, 0), (10, 30), (10, 30), (10, 30)]);
        assert_eq!(present(&roster), [0]);
        for back in 1..4 {
            judge(&mut roster, &[(10, 0), (0, 0), (0, 0), (0, 0)]);
            assert_eq!(present(&roster).len(), 1 + back, "window {back}");
        }
    }
}

//! How many threads a pass uses.
//!
//! A pass of a small model has dozens of phases of a microsecond or two. Handing each of
//! them from one thread to another can cost more than the other thread saves, so a model
//! that is small enough tries fewer threads when it is loaded. The number never changes a
//! bit of the logits.

use std::time::{Duration, Instant};

use crate::model::Feed;

/// The numbers of rows for which threads are tried, ascending. A pass of a number in
/// between uses as many threads as the largest one below it.
const ROWS: [usize; 5] = [1, 2, 4, 8, 16];
/// How often each number of threads is tried, in turns. The shortest time counts: other
/// work on the machine only makes passes longer.
const TURNS: usize = 8;
/// Fewer threads are chosen if they take no more than this share of the time of more
/// threads.
const AS_FAST: f64 = 1.02;

/// A pass that takes longer with fewer threads gets all: it has something to share, and a
/// machine that is busy while the model is loaded may be idle later.
const LONG: Duration = Duration::from_millis(1);

/// The largest number of bytes of weights for which threads are tried: reading more takes
/// milliseconds, compared with which phases that are handed over cost nothing.
pub(super) const SMALL: usize = 1 << 25;

/// The context after which passes are tried, in tokens.
const TRIED_CONTEXT: usize = 64;

/// The tokens of a tried pass, over an empty cache.
pub(super) fn tried(rows: usize) -> Vec<Feed> {
    let next = |slot| Feed { token: 0, slot, position: slot, prefix: slot + 1, ancestors: vec![] };
    (TRIED_CONTEXT..TRIED_CONTEXT + rows).map(next).collect()
}

/// The shortest time of a few passes in a row. As in a draft, each finds the caches as the one
/// before left them.
pub(super) fn fastest_of_few(mut pass: impl FnMut()) -> Duration {
    let times = (0..4).map(|_| {
        let start = Instant::now();
        pass();
        start.elapsed()
    });
    times.skip(1).min().unwrap_or_default()
}

/// Numbers of threads by number of rows.
#[derive(Debug)]
pub(super) struct Teams(Vec<Team>);

/// The number of threads from a number of rows on.
#[derive(Debug, Clone, Copy)]
struct Team {
    rows: usize,
    threads: usize,
}

impl Teams {
    /// The same number of threads for all passes.
    pub(super) fn always(threads: usize) -> Self {
        Self(vec![Team { rows: 0, threads }])
    }

    /// The numbers of threads, at most `most`, with which passes are fastest; `time` runs a
    /// pass of some rows on some threads. As more rows never need fewer threads, the search
    /// ends where all threads are best.
    pub(super) fn fastest(most: usize, mut time: impl FnMut(usize, usize) -> Duration) -> Self {
        let mut teams = Vec::<Team>::new();
        for rows in ROWS {
            let least = teams.last().map_or(1, |team| team.threads);
            let sizes = sizes(most).filter(|&size| size >= least).collect::<Vec<_>>();
            let mut shortest = vec![Duration::MAX; sizes.len()];
            for _ in 0..TURNS {
                for (size, shortest) in sizes.iter().zip(&mut shortest) {
                    *shortest = time(rows, *size).min(*shortest);
                }
            }
            let best = shortest.iter().min().map_or(Duration::ZERO, |best| best.mul_f64(AS_FAST));
            let timed = sizes.iter().zip(&shortest);
            let mut small = timed.filter(|(_, time)| **time <= best && **time <= LONG);
            let threads = small.next().map_or(most, |(size, _)| *size);
            teams.push(Team { rows, threads });
            if threads == most {
                break;
            }
        }
        // With more rows than were tried, a pass is long.
        let last = teams.last().map_or(0, |team| team.rows);
        teams.push(Team { rows: last + 1, threads: most });
        Self(teams)
    }

    /// The number of threads for a pass over `rows` rows.
    pub(super) fn threads(&self, rows: usize) -> usize {
        let after = self.0.partition_point(|team| team.rows <= rows);
        self.0[after.saturating_sub(1)].threads
    }
}

/// The numbers of threads that are tried: powers of two, and all.
fn sizes(most: usize) -> impl Iterator<Item = usize> {
    let powers = std::iter::successors(Some(1), |size| Some(2 * size));
    powers.take_while(move |size| *size < most).chain([most])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of threads for 1 to 20 rows, if a row takes `row` µs on one thread and
    /// each further thread costs `handing` µs.
    fn chosen(most: usize, row: u64, handing: u64) -> Vec<usize> {
        let mut turn = 0;
        let teams = Teams::fastest(most, |rows, threads| {
            turn += 1;
            // Every third pass is disturbed.
            let lost = 900 * u64::from(turn % 3 == 0);
            let (rows, others) = (rows as u64, threads as u64 - 1);
            Duration::from_micros(rows * row / threads as u64 + handing * others + lost)
        });
        (1..=20).map(|rows| teams.threads(rows)).collect()
    }

    #[test]
    fn small_passes_get_few_threads_and_large_ones_all() {
        assert_eq!(chosen(2, 1_000, 50), [2; 20]);
        // Two threads save half of a row's 40 µs and cost 50: from three rows on they pay.
        let (one, two) = ([1; 3], [2; 17]);
        assert_eq!(chosen(2, 40, 50), [&one[..], &two].concat());
        let four = chosen(4, 40, 50);
        assert!(four.is_sorted() && four.contains(&2), "{four:?}");
        assert_eq!((four[0], four[19]), (1, 4));
        assert_eq!(chosen(1, 40, 50), [1; 20]);
    }

    #[test]
    fn a_pass_longer_than_all_that_were_tried_gets_all_threads() {
        let never = chosen(8, 1, 1_000);
        assert_eq!(never, [&[1; 16][..], &[8; 4]].concat());
    }

    #[test]
    fn a_long_pass_gets_all_threads_even_if_they_seem_slow() {
        assert_eq!(chosen(4, 600, 2_000), [&[1][..], &[4; 19]].concat());
    }

    #[test]
    fn an_unmeasurable_difference_goes_to_fewer_threads() {
        let time = |_, threads| Duration::from_micros(if threads == 1 { 101 } else { 100 });
        assert_eq!(Teams::fastest(2, time).threads(1), 1);
    }
}

//! The threads of the engine: every piece once, nobody waits for the dead.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use specdec::pool::Pool;

fn counters(count: usize) -> Vec<AtomicUsize> {
    (0..count).map(|_| AtomicUsize::new(0)).collect()
}

#[test]
fn every_piece_of_every_phase_is_done_once_and_before_the_next_phase() {
    for threads in 1..=4 {
        let pool = Pool::new(threads);
        for pieces in [0, 1, 2, 7, 100] {
            let phases = [counters(pieces), counters(pieces), counters(pieces)];
            pool.run(&|worker| {
                for (number, phase) in phases.iter().enumerate() {
                    worker.share(pieces, |piece| {
                        let before = phases[..number].iter().flatten();
                        assert!(before.clone().all(|done| done.load(Ordering::Relaxed) == 1));
                        phase[piece].fetch_add(1, Ordering::Relaxed);
                    });
                }
            });
            let done = phases.iter().flatten().map(|piece| piece.load(Ordering::Relaxed));
            assert!(done.clone().all(|times| times == 1), "{threads} threads, {pieces} pieces");
        }
    }
}

#[test]
fn every_thread_runs_the_job_once() {
    let pool = Pool::new(3);
    let seen = counters(3);
    for _ in 0..1000 {
        pool.run(&|worker| {
            assert_eq!(worker.threads(), 3);
            seen[worker.index()].fetch_add(1, Ordering::Relaxed);
        });
    }
    assert!(seen.iter().all(|times| times.load(Ordering::Relaxed) == 1000));
}

#[test]
fn a_panic_on_one_thread_ends_the_job_and_not_the_pool() {
    let pool = Pool::new(3);
    for culprit in 0..3 {
        let job = AssertUnwindSafe(|| {
            pool.run(&|worker| {
                assert_ne!(worker.index(), culprit, "on purpose");
                worker.barrier();
            });
        });
        assert!(catch_unwind(job).is_err(), "thread {culprit}");
        let all = AtomicUsize::new(0);
        pool.run(&|worker| worker.share(10, |_| _ = all.fetch_add(1, Ordering::Relaxed)));
        assert_eq!(all.into_inner(), 10);
    }
}

#[test]
fn jobs_of_several_callers_follow_one_another() {
    let pool = Pool::new(2);
    let (inside, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    pool.run(&|worker| {
                        if worker.index() == 0 {
                            assert_eq!(
                                inside.fetch_add(1, Ordering::Relaxed),
                                0,
                                "one job at a time"
                            );
                        }
                        worker.share(5, |_| _ = done.fetch_add(1, Ordering::Relaxed));
                        if worker.index() == 0 {
                            inside.fetch_sub(1, Ordering::Relaxed);
                        }
                    });
                }
            });
        }
    });
    assert_eq!(done.into_inner(), 4 * 50 * 5);
}

#[test]
fn more_threads_than_cores_come_to_an_end() {
    let cores = thread::available_parallelism().unwrap().get();
    let pool = Pool::new(3 * cores);
    let done = AtomicUsize::new(0);
    for _ in 0..20 {
        pool.run(&|worker| worker.share(64, |_| _ = done.fetch_add(1, Ordering::Relaxed)));
    }
    assert_eq!(done.into_inner(), 20 * 64);
}

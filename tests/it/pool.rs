//! The thread pool of the engine: every piece runs once, panics end a job, and no thread
//! waits or sleeps forever.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use specdec::checkpoint::SMALL_PAIR;
use specdec::engine::Settings;
use specdec::engine::pool::{Away, Pool, Worker};

/// Fails instead of hanging: a minute is far longer than any of these tests takes.
fn within_a_minute(test: impl FnOnce() + Send + 'static) {
    let test = thread::spawn(test);
    let since = Instant::now();
    while !test.is_finished() {
        assert!(since.elapsed() < Duration::from_secs(60), "hangs");
        thread::sleep(Duration::from_millis(1));
    }
    if let Err(panic) = test.join() {
        resume_unwind(panic);
    }
}

fn counters(count: usize) -> Vec<AtomicUsize> {
    (0..count).map(|_| AtomicUsize::new(0)).collect()
}

fn all_done_once(phase: &[AtomicUsize]) -> bool {
    phase.iter().all(|piece| piece.load(Relaxed) == 1)
}

/// Runs a job of several phases, each of which begins when the one before is done. One piece
/// per phase is slow, so that others wait for it.
fn run_phases(pool: &Pool, phases: &[Vec<AtomicUsize>], slow: usize) {
    pool.run(&|worker| {
        for (number, phase) in phases.iter().enumerate() {
            worker.share(phase.len(), |piece| {
                assert!(phases[..number].iter().all(|phase| all_done_once(phase)));
                if piece == slow {
                    thread::sleep(Duration::from_micros(200));
                }
                phase[piece].fetch_add(1, Relaxed);
            })?;
            assert!(all_done_once(phase), "phase {number} is not over");
        }
        Ok(())
    });
    assert!(phases.iter().all(|phase| all_done_once(phase)));
}

#[test]
fn every_piece_is_done_once_and_before_the_next_phase() {
    within_a_minute(|| {
        for threads in 1..=4 {
            let pools = [Pool::new(threads).unwrap(), Pool::restless(threads).unwrap()];
            for (pool, pieces) in pools.iter().flat_map(|p| [0, 1, 2, 7, 100].map(|n| (p, n))) {
                for run in 0..10 {
                    let phases = (0..4).map(|_| counters(pieces)).collect::<Vec<_>>();
                    run_phases(pool, &phases, run);
                }
            }
        }
    });
}

/// A lost wake-up would hang here: every wait is a sleep, and every job has different workers.
#[test]
fn no_wake_up_is_lost_while_workers_come_and_go() {
    within_a_minute(|| {
        for threads in [2, 3, 5] {
            let pool = Pool::restless(threads).unwrap();
            let done = AtomicUsize::new(0);
            for _ in 0..3000 {
                pool.run(&|worker| {
                    for pieces in [1, threads, 3] {
                        worker.share(pieces, |_| _ = done.fetch_add(1, Relaxed))?;
                    }
                    Ok(())
                });
            }
            assert_eq!(done.into_inner(), 3000 * (4 + threads));
        }
    });
}

#[test]
fn a_worker_that_left_during_a_slow_piece_rejoins_the_job() {
    within_a_minute(|| {
        let pool = Pool::new(3).unwrap();
        let seen = counters(3);
        pool.run(&|worker| {
            // Longer than a worker waits inside a job.
            worker.share(3, |_| thread::sleep(Duration::from_millis(20)))?;
            worker.share(3, |piece| thread::sleep(Duration::from_millis(40 * piece as u64)))?;
            worker.share(2000, |_| {
                seen[worker.index()].fetch_add(1, Relaxed);
                if seen.iter().any(|pieces| pieces.load(Relaxed) == 0) {
                    thread::sleep(Duration::from_millis(1));
                }
            })
        });
        assert!(seen.iter().all(|pieces| pieces.load(Relaxed) > 0), "{seen:?}");
    });
}

#[test]
fn both_the_caller_and_the_worker_take_part_in_jobs() {
    within_a_minute(|| {
        let pool = Pool::new(2).unwrap();
        let seen = counters(2);
        for _ in 0..20 {
            pool.run(&|worker| {
                assert_eq!(worker.threads(), 2);
                worker.share(2000, |_| {
                    seen[worker.index()].fetch_add(1, Relaxed);
                    if seen[1].load(Relaxed) == 0 {
                        thread::sleep(Duration::from_millis(1));
                    }
                })
            });
        }
        assert!(seen.iter().all(|pieces| pieces.load(Relaxed) > 0));
    });
}

/// In a restless pool, worker t works on job n if bit t − 1 of n is set.
#[test]
fn an_absent_worker_does_no_work_and_returns() {
    within_a_minute(|| {
        let pool = Pool::restless(3).unwrap();
        let seen = counters(3);
        // All take part in job 0.
        pool.run(&|_| Ok(()));
        for job in 1..64 {
            let expected = |thread: usize| thread == 0 || job >> (thread - 1) & 1 == 1;
            pool.run(&|worker| {
                worker.share(30, |_| {
                    assert!(expected(worker.index()), "{} in job {job}", worker.index());
                    seen[worker.index()].fetch_add(usize::from(job >= 32), Relaxed);
                    thread::sleep(Duration::from_micros(100));
                })
            });
        }
        assert!(seen.iter().all(|pieces| pieces.load(Relaxed) > 0));
    });
}

/// A worker whose pieces take fifty times as long as the caller's.
#[test]
fn a_job_on_fewer_threads_is_left_to_the_first_ones() {
    within_a_minute(|| {
        for pool in [Pool::new(4).unwrap(), Pool::restless(4).unwrap()] {
            // Small and large jobs alternate, so that workers stay out and join again.
            for (run, team) in (0..50).flat_map(|run| [1, 4, 2, 1, 3].map(|team| (run, team))) {
                let phases = [counters(1 + run % 9), counters(0), counters(7)];
                pool.run_on(team, &|worker| {
                    assert!(worker.index() < team && worker.threads() == team);
                    phases.iter().try_for_each(|phase| {
                        worker.share(phase.len(), |piece| _ = phase[piece].fetch_add(1, Relaxed))
                    })
                });
                assert!(phases.iter().all(|phase| all_done_once(phase)), "on {team}");
            }
        }
    });
}

#[test]
fn a_panic_on_one_thread_ends_its_job_and_not_the_pool() {
    within_a_minute(|| {
        let pool = Pool::new(2).unwrap();
        for team in [1, 2, 1] {
            let job = |worker: &Worker<'_>| worker.share(3, |piece| assert!(piece != 1, "piece 1"));
            let panic = catch_unwind(AssertUnwindSafe(|| pool.run_on(team, &job))).unwrap_err();
            assert!(message(&*panic).contains("piece 1"));
            run_phases(&pool, &[counters(9), counters(2)], 0);
        }
    });
}

#[test]
fn a_slow_worker_backs_off_and_tries_again() {
    within_a_minute(|| {
        let pool = Pool::new(2).unwrap();
        let jobs = (0..60).map(|_| {
            let seen = counters(2);
            pool.run(&|worker| {
                worker.share(8, |_| {
                    let slow = worker.index() == 1;
                    seen[worker.index()].fetch_add(1, Relaxed);
                    thread::sleep(Duration::from_millis(if slow { 50 } else { 1 }));
                })
            });
            seen[1].load(Relaxed) > 0
        });
        let jobs = jobs.collect::<Vec<_>>();
        let part = jobs.iter().filter(|&&took_part| took_part).count();
        // It stays away for 1, 2, 4, 8 and 16 windows of at least 20 ms, and a window in
        // which it takes part lasts a job or two.
        assert!((1..=15).contains(&part), "took part in {part} of 60 jobs");
        assert!(jobs[3..].contains(&true), "never tried again");
    });
}

fn message(panic: &(dyn Any + Send)) -> &str {
    panic.downcast_ref::<&str>().copied().unwrap_or_default()
}

#[test]
fn a_panic_in_a_piece_ends_the_job_and_not_the_pool() {
    within_a_minute(|| {
        for pool in [Pool::new(3).unwrap(), Pool::restless(3).unwrap()] {
            for culprit in 0..12 {
                let job = AssertUnwindSafe(|| {
                    pool.run(&|worker| {
                        worker.share(12, |piece| {
                            thread::sleep(Duration::from_micros(50));
                            assert!(piece != culprit, "on purpose");
                        })?;
                        worker.share(1, |_| panic!("after a phase that is not over"))
                    });
                });
                assert_eq!(message(&*catch_unwind(job).unwrap_err()), "on purpose");
                let all = AtomicUsize::new(0);
                pool.run(&|worker| worker.share(10, |_| _ = all.fetch_add(1, Relaxed)));
                assert_eq!(all.into_inner(), 10);
            }
        }
    });
}

#[test]
fn a_nested_job_is_refused_without_a_deadlock() {
    within_a_minute(|| {
        for threads in 1..=3 {
            let pool = Pool::new(threads).unwrap();
            let other = Pool::new(2).unwrap();
            for inner in [&pool, &other] {
                let job = AssertUnwindSafe(|| {
                    pool.run(&|worker| worker.share(4, |_| inner.run(&|w| w.share(1, |_| ()))));
                });
                let panic = catch_unwind(job).unwrap_err();
                assert_eq!(message(&*panic), "a job of a pool must not run another job");
            }
            // Both pools still work.
            pool.run(&|worker| worker.share(4, |_| ()));
            other.run(&|worker| worker.share(4, |_| ()));
        }
    });
}

fn one_at_a_time(
    worker: &Worker<'_>,
    inside: &AtomicUsize,
    done: &AtomicUsize,
) -> Result<(), Away> {
    let caller = worker.index() == 0;
    if caller {
        assert_eq!(inside.fetch_add(1, Relaxed), 0, "one job at a time");
    }
    worker.share(5, |_| _ = done.fetch_add(1, Relaxed))?;
    if caller {
        inside.fetch_sub(1, Relaxed);
    }
    Ok(())
}

#[test]
fn jobs_of_several_callers_run_one_at_a_time() {
    within_a_minute(|| {
        let shared = Arc::new((Pool::new(2).unwrap(), counters(2)));
        let callers = [(); 4].map(|()| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (pool, counters) = &*shared;
                for _ in 0..50 {
                    pool.run(&|worker| one_at_a_time(worker, &counters[0], &counters[1]));
                }
            })
        });
        callers.into_iter().for_each(|caller| caller.join().unwrap());
        assert_eq!(shared.1[1].load(Relaxed), 4 * 50 * 5);
    });
}

#[test]
fn jobs_finish_with_more_threads_than_cores() {
    within_a_minute(|| {
        let cores = thread::available_parallelism().unwrap().get();
        let pool = Pool::new(3 * cores).unwrap();
        let done = AtomicUsize::new(0);
        for _ in 0..20 {
            pool.run(&|worker| worker.share(64, |_| _ = done.fetch_add(1, Relaxed)));
        }
        assert_eq!(done.into_inner(), 20 * 64);
    });
}

/// Threads that never sleep, one per core, while a job runs.
#[test]
fn jobs_finish_next_to_busy_threads() {
    within_a_minute(|| {
        let cores = thread::available_parallelism().unwrap().get();
        let pool = Pool::new(cores.max(2)).unwrap();
        let busy = AtomicUsize::new(1);
        thread::scope(|scope| {
            for _ in 0..cores {
                scope.spawn(|| {
                    while busy.load(Relaxed) == 1 {
                        std::hint::spin_loop();
                    }
                });
            }
            for run in 0..200 {
                let phases = (0..4).map(|_| counters(16)).collect::<Vec<_>>();
                run_phases(&pool, &phases, run);
            }
            busy.store(0, Relaxed);
        });
    });
}

#[test]
fn for_each_row_spreads_rows_over_the_shared_pool() {
    within_a_minute(|| {
        let model = SMALL_PAIR[0].model(&Settings::default()).unwrap();
        let caller = thread::current().id();
        let (done, others) = (counters(16), AtomicUsize::new(0));
        let mut jobs = 0;
        // If there is a worker, it takes part in most jobs.
        while jobs == 0 || others.load(Relaxed) == 0 && Pool::shared().threads() > 1 {
            (model.for_each_row().0)(done.len(), &|row| {
                done[row].fetch_add(1, Relaxed);
                others.fetch_add(usize::from(thread::current().id() != caller), Relaxed);
                thread::sleep(Duration::from_millis(1));
            });
            jobs += 1;
        }
        assert!(done.iter().all(|row| row.load(Relaxed) == jobs), "{done:?}");
    });
}

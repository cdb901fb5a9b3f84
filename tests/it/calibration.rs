//! The calibration: which passes it times, how it handles a disturbed warm-up, how soon
//! it ends after an interrupt, and when the report doubts its costs.

use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use specdec::checkpoint::load;
use specdec::core::clock::{Clock, VirtualClock, VirtualCosts, Who};
use specdec::core::error::Error;
use specdec::measure::rows::Calibration;
use specdec::model::{Evaluation, LanguageModel, ModelInfo, Role, Session, Work};
use specdec::run::experiment::{Manifest, RunSession};

use crate::experiment_support::{run_smoke_on, try_run_smoke};
use crate::report::reported;
use crate::synthetic::{Rows, Synthetic};

/// A clock on which a range of passes takes fifty times as long.
#[derive(Debug)]
struct Slow {
    clock: VirtualClock,
    passes: Cell<usize>,
    slow: Range<usize>,
}

impl Slow {
    fn new(slow: Range<usize>) -> Self {
        let clock = VirtualClock::new(VirtualCosts::default());
        Self { clock, passes: Cell::new(0), slow }
    }
}

impl Clock for Slow {
    fn now(&self) -> Duration {
        self.clock.now()
    }

    fn forward(&self, who: Who, rows: usize) {
        let pass = self.passes.replace(self.passes.get() + 1);
        let times = if self.slow.contains(&pass) { 50 } else { 1 };
        (0..times).for_each(|_| self.clock.forward(who, rows));
    }
}

/// The calibration of the smoke experiment on this clock.
fn calibrated(clock: &dyn Clock, set: &[&str]) -> Calibration {
    let out = tempfile::tempdir().unwrap();
    let target = load("toy:mixed", Role::Target).unwrap().model;
    let go_on = AtomicBool::new(false);
    let folder = run_smoke_on(Some(clock), &*target, &["ab"], set, &go_on, out.path());
    Manifest::read(&folder).unwrap().sessions.remove(0).calibration
}

/// The row counts of the passes that were timed.
fn counts(set: &[&str]) -> Vec<usize> {
    calibrated(&Slow::new(0..0), set).passes.iter().map(|pass| pass.rows).collect()
}

#[test]
fn a_disturbed_warm_up_widens_the_spread_but_changes_no_cost() {
    let calm = calibrated(&Slow::new(0..0), &["max_tokens=8"]);
    // Longer than one warm-up, but shorter than the gap to the next one of the same cell.
    let disturbed = calibrated(&Slow::new(40..70), &["max_tokens=8"]);
    let costs = |c: &Calibration| {
        let costs = c.cells.values().map(|c| (c.draft_us_per_token, c.verify_us, c.other_us));
        (costs.collect::<Vec<_>>(), c.passes.clone())
    };
    assert_eq!(costs(&calm), costs(&disturbed));
    let widest = |c: &Calibration| c.cells.values().filter_map(|c| c.spread).fold(0.0, f64::max);
    assert!(widest(&calm) < 1.5, "{}", widest(&calm));
    assert!(widest(&disturbed) > 1.5, "{}", widest(&disturbed));
    let once = calibrated(&Slow::new(0..0), &["max_tokens=8", "warmup=1"]);
    assert!(once.cells.values().all(|costs| costs.spread.is_none()));
}

#[test]
fn only_passes_that_can_occur_are_timed() {
    let k = "sweep.num_speculative_tokens";
    assert_eq!(counts(&["max_tokens=24", "sweep.drafter=model"]), [1, 2, 3, 4, 5]);
    // A generation of four tokens never needs more than three drafted ones and the bonus.
    assert_eq!(counts(&["max_tokens=4", &format!("{k}=64")]), [1, 2, 3, 4]);
    let many = counts(&["max_tokens=200", "sweep.drafter=prompt_lookup", &format!("{k}=150")]);
    assert!(many.len() <= 16 && many[0] == 1 && many.ends_with(&[151]), "{many:?}");
}

#[test]
fn passes_are_timed_again_between_blocks_of_longer_runs() {
    let session = |repeats: &str| {
        let out = tempfile::tempdir().unwrap();
        let target = load("toy:mixed", Role::Target).unwrap().model;
        let set = ["max_tokens=8", "sweep.temperature=1", repeats];
        let folder =
            run_smoke_on(None, &*target, &["ab"], &set, &AtomicBool::new(false), out.path());
        Manifest::read(&folder).unwrap().sessions.remove(0)
    };
    let blocks = |session: &RunSession| {
        session.recalibrations.iter().map(|again| again.block).collect::<Vec<_>>()
    };
    assert!(session("repeats=8").recalibrations.is_empty());
    let some = session("repeats=17");
    assert_eq!(blocks(&some), [8, 16]);
    for again in &some.recalibrations {
        let rows = again.passes.iter().map(|pass| pass.rows);
        assert!(rows.eq(some.calibration.passes.iter().map(|pass| pass.rows)));
        // One of four turns fills the caches; on the virtual clock, all others are alike.
        assert!(again.passes.iter().all(|pass| pass.samples == 3));
        let us = again.passes.iter().map(|pass| pass.us);
        assert!(us.eq(some.calibration.passes.iter().map(|pass| pass.us)));
    }
    // However many blocks there are, they take a small share of the time.
    let many = session("repeats=120");
    assert_eq!(blocks(&many), (1..12).map(|i| 10 * i).collect::<Vec<_>>());
}

/// A target that interrupts the run during one of its passes.
#[derive(Debug)]
struct Stopped<'a> {
    model: Box<dyn LanguageModel>,
    interrupted: &'a AtomicBool,
    last: usize,
    passes: AtomicUsize,
}

impl LanguageModel for Stopped<'_> {
    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    fn session(&self) -> Result<Session, Error> {
        self.model.session()
    }

    fn evaluate(&self, work: &mut [Work<'_>]) -> Result<Vec<Evaluation>, Error> {
        let pass = self.passes.fetch_add(1, Ordering::Relaxed);
        self.interrupted.fetch_or(pass == self.last, Ordering::Relaxed);
        self.model.evaluate(work)
    }
}

#[test]
fn an_interrupted_calibration_ends_after_at_most_one_more_pass() {
    let set = ["sweep.drafter=model", "sweep.verifier=rejection", "sweep.temperature=1"];
    // During a warm-up, and during the timed passes that follow all warm-ups.
    for last in [5, 250] {
        let (interrupted, out) = (AtomicBool::new(false), tempfile::tempdir().unwrap());
        let model = load("toy:mixed", Role::Target).unwrap().model;
        let passes = AtomicUsize::new(0);
        let target = Stopped { model, interrupted: &interrupted, last, passes };
        let ended = try_run_smoke(None, &target, &["ab"], &set, &interrupted, out.path());
        let error = format!("{:#}", ended.unwrap_err());
        assert!(error.contains("interrupted in the calibration"), "{error}");
        assert!(target.passes.into_inner() <= last + 2);
        assert_eq!(out.path().read_dir().unwrap().count(), 0, "nothing is left behind");
    }
}

/// The report of a run with a changed calibration.
fn report_of(change: fn(&mut Rows)) -> String {
    let mut rows = Synthetic::large().rows();
    change(&mut rows);
    reported(&rows).1
}

#[test]
fn the_report_doubts_costs_that_spread_or_disagree() {
    let doubts = ["differ by more than a factor", "interquartile range", "speedups are off"];
    let found = |report: &str| doubts.map(|doubt| report.contains(doubt));
    assert_eq!(found(&report_of(|_| {})), [false; 3]);
    let apart = report_of(|rows| {
        let (_, costs) = rows.calibration.cells.iter_mut().next().unwrap();
        costs.spread = Some(4.2);
    });
    assert_eq!(found(&apart), [true, false, false], "{apart}");
    assert!(apart.contains("Warm-ups of 1 of 39 cells") && apart.contains("4.2"), "{apart}");
    let wide = report_of(|rows| rows.calibration.passes[2].iqr_us = 3000.0);
    assert_eq!(found(&wide), [false, true, false]);
    let poisoned = report_of(|rows| {
        let costs = rows.calibration.cells.values_mut();
        let drafting = costs.filter_map(|c| c.draft_us_per_token.as_mut()).filter(|us| **us > 9.0);
        drafting.for_each(|us| *us *= 20.0);
    });
    assert_eq!(found(&poisoned), [false, false, true]);
    let cheap = report_of(|rows| rows.calibration.passes.iter_mut().for_each(|p| p.us /= 2.0));
    assert_eq!(found(&cheap), [false, false, true]);
}

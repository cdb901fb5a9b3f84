//! How `bench` treats samples that other work on the machine disturbed.

use std::cell::Cell;
use std::path::Path;
use std::time::Duration;

use specdec::bench::{MOST_ROWS, Measured, PassRow, draw, measure};
use specdec::clock::{Clock, Lost, RealClock};
use specdec::model::{Role, load};

use crate::checkpoint::Checkpoint;
use crate::fixtures::near;
use crate::validity::Stepping;

/// Tasks that take turns: reading the weights, passes, and a pass of the draft model.
const TASKS: usize = MOST_ROWS + 2;

/// A clock on which some of the watched spans lose a minute and last that much longer.
#[derive(Debug)]
struct Busy {
    clock: RealClock,
    is_busy: fn(usize) -> bool,
    shows: fn(Duration) -> Lost,
    readings: Cell<usize>,
    busy: Cell<bool>,
    lost: Cell<Duration>,
}

impl Busy {
    /// `is_busy` decides by the number of a span whether it loses time, and `shows` how that shows.
    fn new(is_busy: fn(usize) -> bool, shows: fn(Duration) -> Lost) -> Self {
        let (clock, readings, busy) = (RealClock::default(), Cell::new(0), Cell::new(false));
        Self { clock, is_busy, shows, readings, busy, lost: Cell::default() }
    }
}

impl Clock for Busy {
    fn now(&self) -> Duration {
        if self.busy.get() {
            self.lost.set(self.lost.get() + Duration::from_secs(60));
        }
        self.clock.now() + self.lost.get()
    }

    fn lost(&self) -> Lost {
        let reading = self.readings.replace(self.readings.get() + 1);
        self.busy.set(reading.is_multiple_of(2) && (self.is_busy)(reading / 2));
        (self.shows)(self.lost.get())
    }
}

/// A pass takes 1 to 7 ms in its seven samples, and reading the weights, the last task, half of that.
/// Catches: the spread is that of all samples, or not over the median; the share of the bandwidth is
/// upside down; GB are GiB, or bytes per ms.
#[test]
fn the_numbers_of_a_pass_follow_from_its_samples() {
    let clock = Stepping::new(|readings| {
        let (span, within) = (readings / 2, readings % 2 == 1);
        let unit = if span % TASKS == TASKS - 1 { 500 } else { 1000 };
        if within { unit * (1 + (span / TASKS) as u64) } else { 1000 }
    });
    let [target, draft] =
        [Role::Target, Role::Draft].map(|role| load("toy:mixed", role).unwrap().model);
    let measured = measure(&*target, Some(&*draft), 8, Duration::ZERO, &clock).unwrap();
    for row in PassRow::of(&*target, &measured) {
        assert_eq!((row.kept, row.dropped), (7, 0), "{row:?}");
        assert_eq!((row.median_us, row.min_us), (Some(4000.0), Some(1000.0)));
        // The quarters end at 2.5 and 5.5 ms.
        near(row.spread.unwrap(), 0.75);
        near(row.bandwidth_share.unwrap(), 0.5);
        // A row of four numbers of eight bytes.
        near(1e6 * row.gb_per_s.unwrap(), 32.0 / 4.0);
    }
}

fn measured(is_busy: fn(usize) -> bool) -> (Measured, Vec<PassRow>) {
    measured_on(&Busy::new(is_busy, |time| Lost { waiting: time, ..Lost::default() }))
}

fn measured_on(clock: &dyn Clock) -> (Measured, Vec<PassRow>) {
    let folder = tempfile::tempdir().unwrap();
    let shape = Checkpoint { positions: 512, ..Checkpoint::default() };
    let open = |name: &str, role| {
        let path = folder.path().join(name);
        shape.write(Path::new(&path));
        load(path.to_str().unwrap(), role).unwrap().model
    };
    let (target, draft) = (open("target", Role::Target), open("draft", Role::Draft));
    let measured = measure(&*target, Some(&*draft), 8, Duration::ZERO, clock).unwrap();
    let rows = PassRow::of(&*target, &measured);
    (measured, rows)
}

#[test]
fn disturbed_samples_are_dropped_and_counted() {
    let (measured, rows) = measured(|span| span % 7 == 0);
    for (row, timing) in rows.iter().zip(&measured.passes) {
        assert_eq!((row.kept, row.dropped), (6, 1), "{row:?}");
        assert!(row.median_us.unwrap() < 1e6 && timing.spread().unwrap() < 1e3, "{row:?}");
    }
    let costs = measured.costs().unwrap();
    assert_eq!(costs.passes, rows.iter().map(|row| row.median_us.unwrap()).collect::<Vec<_>>());
    assert!(costs.draft < 1e6 && costs.outside < 1e6);
    assert_eq!(measured.too_few(), None);
    let svg = draw("a pair", &measured, Some(&costs)).unwrap();
    assert!(svg.contains("T(m) / T(1)") && svg.contains("acceptance"));
    let alone = draw("a target", &measured, None).unwrap();
    assert!(alone.contains("T(m) / T(1)") && !alone.contains("acceptance"));
}

/// Catches: samples in which the process stood still, or the host had its cores, are kept.
#[test]
fn stops_and_a_busy_host_disturb_samples() {
    let ways: [fn(Duration) -> Lost; 2] = [
        |time| Lost { still: time, ..Lost::default() },
        |time| Lost { stolen: time, ..Lost::default() },
    ];
    for shows in ways {
        for row in measured_on(&Busy::new(|span| span % 7 == 0, shows)).1 {
            assert_eq!((row.kept, row.dropped), (6, 1), "{row:?}");
        }
    }
}

#[test]
fn too_few_undisturbed_samples_give_no_conclusion() {
    // All samples of one-row passes count, but hardly any of longer ones.
    let (measured, rows) = measured(|span| span < 6 * TASKS && span % TASKS > 0);
    assert!(rows[0].median_us.is_some() && rows[1].median_us.is_none(), "{rows:?}");
    assert_eq!((rows[1].kept, rows[1].dropped), (1, 6));
    assert!(measured.costs().is_none());
    let sentence = measured.too_few().unwrap();
    assert!(
        sentence.contains("no conclusion") && sentence.contains("only 1 of 7 samples of T(2)"),
        "{sentence}"
    );
    // Passes have enough samples; only whole rounds do not.
    let all = self::measured(|span| span >= 7 * TASKS).0;
    assert!(all.passes.iter().all(|timing| timing.is_enough()) && all.costs().is_none());
    assert!(all.too_few().unwrap().contains("a round at K = 0, T = 1"));
    let none = self::measured(|span| span % TASKS == 0).0;
    let error = draw("a pair", &none, None).err().unwrap().to_string();
    assert!(error.contains("too few undisturbed samples of T(1)"), "{error}");
}

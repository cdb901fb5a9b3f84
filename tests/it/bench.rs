//! How `bench` treats samples that other work on the machine disturbed.

use std::cell::Cell;
use std::path::Path;
use std::time::Duration;

use specdec::bench::{MOST_ROWS, Measured, PassRow, draw, measure};
use specdec::clock::{Clock, Lost, RealClock};
use specdec::model::{Role, load};

use crate::checkpoint::Checkpoint;

/// Tasks that take turns: reading the weights, passes, and a pass of the draft model.
const TASKS: usize = MOST_ROWS + 2;

/// A clock on which some of the watched spans lose a minute and last that much longer.
#[derive(Debug)]
struct Busy {
    clock: RealClock,
    is_busy: fn(usize) -> bool,
    readings: Cell<usize>,
    busy: Cell<bool>,
    lost: Cell<Duration>,
}

impl Busy {
    /// `is_busy` decides by the number of a span whether it loses time.
    fn new(is_busy: fn(usize) -> bool) -> Self {
        let (clock, readings, busy) = (RealClock::default(), Cell::new(0), Cell::new(false));
        Self { clock, is_busy, readings, busy, lost: Cell::default() }
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
        Lost { waiting: self.lost.get(), ..Lost::default() }
    }
}

fn measured(is_busy: fn(usize) -> bool) -> (Measured, Vec<PassRow>) {
    let folder = tempfile::tempdir().unwrap();
    let shape = Checkpoint { positions: 512, ..Checkpoint::default() };
    let open = |name: &str, role| {
        let path = folder.path().join(name);
        shape.write(Path::new(&path));
        load(path.to_str().unwrap(), role).unwrap().model
    };
    let (target, draft) = (open("target", Role::Target), open("draft", Role::Draft));
    let clock = Busy::new(is_busy);
    let measured = measure(&*target, Some(&*draft), 8, Duration::ZERO, &clock).unwrap();
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

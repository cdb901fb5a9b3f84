//! Which times give verdicts on speed: every output asks the same definition.

use std::cell::Cell;
use std::fs;
use std::time::Duration;

use specdec::checkpoint::load;
use specdec::core::clock::{Clock, Lost, RealClock};
use specdec::method::decode::MethodSpec;
use specdec::model::Role;
use specdec::run::check::{CheckOutcome, CheckSetup, check};
use specdec::run::report::{InvalidTimes, SpeedVerdict, TimesValidity, report};

use crate::disturbed::disturb;
use crate::fixtures::near;
use crate::report::{reported, written};
use crate::synthetic::{Rows, Synthetic};

/// A run with enough prompts for verdicts, in which the fastest K is not the largest one.
fn large(clock: &str) -> Rows {
    let mut rows = Synthetic::large().rows();
    rows.plan.clock = clock.to_owned();
    rows
}

/// The cells of the row of prompt lookup at T = 1 in the table of draft lengths.
fn row(text: &str) -> Vec<&str> {
    let table = text.split("## Best draft length").nth(1).unwrap();
    let line = table.lines().find(|line| line.starts_with("| prompt_lookup | T = 1 |")).unwrap();
    line.trim_matches('|').split(" | ").map(str::trim).collect()
}

/// Catches: times of a virtual clock count as measured ones.
#[test]
fn times_of_a_virtual_clock_give_no_verdict() {
    let (_folder, measured) = reported(&large("real"));
    let (folder, set) = reported(&large("virtual"));
    assert!(measured.contains("| faster |") && !measured.contains("they are set"));
    for verdict in ["| faster |", "| slower |", "| no difference shown |", "are slower than plain"]
    {
        assert!(!set.contains(verdict), "{verdict} in {set}");
    }
    let first = set.lines().filter(|line| !line.is_empty()).nth(2).unwrap();
    assert!(first.starts_with("**Times are those of a virtual clock: they are set"), "{first}");
    assert!(set.contains("| its times count | no: they are set |"), "{set}");
    let page = fs::read_to_string(folder.path().join("report.html")).unwrap();
    assert!(page.contains("<strong>Not measured: times are set</strong>"), "the card of speed");
    assert!(!page.contains("<strong>Yes: ") && !page.contains("× measured</strong>"));
    let svg =
        |name: &str| fs::read_to_string(folder.path().join(format!("figures/{name}.svg"))).unwrap();
    assert!(svg("speedup").contains("Times are set") && !svg("survival").contains("Times are set"));
    let brief = report(folder.path()).unwrap().0.text(200);
    assert!(brief.contains("withheld") && !brief.contains("faster"), "{brief}");
    assert!(brief.contains("max K") && !brief.contains("best K"), "{brief}");
}

/// Catches: a K is chosen by times that give no verdict.
#[test]
fn no_k_is_best_by_times_that_give_no_verdict() {
    let largest = Synthetic::large().draft_lengths.last().unwrap().to_string();
    let (folder, measured) = reported(&large("real"));
    assert_ne!(row(&measured)[2], largest, "the test needs another K");
    for text in [reported(&large("virtual")).1, disturb(folder.path(), 13)] {
        assert_eq!((row(&text)[2], row(&text)[6]), (&*largest, "–"), "{text}");
        assert!(text.contains("| largest K |") && !text.contains("best K"), "{text}");
        let share = text.split("## By category of prompt").nth(1).unwrap();
        assert!(share.contains(&format!("| prompt_lookup | T = 1 | D lossless | {largest} |")));
    }
}

/// Catches: a disturbed run says that its times count; the blocks are counted as the disturbed ones.
#[test]
fn a_disturbed_run_says_that_its_times_do_not_count() {
    let folder = written(&large("real"));
    assert!(disturb(folder.path(), 12).contains("| its times count | yes |"));
    let text = disturb(folder.path(), 13);
    assert!(text.contains("| its times count | no: disturbed |"));
    assert!(text.contains("| blocks, disturbed | 120, 13 |"), "{text}");
    let page = fs::read_to_string(folder.path().join("report.html")).unwrap();
    assert!(page.contains("<strong>Withheld: disturbed</strong>"));
    assert!(page.contains("<p>13 of 120 blocks were disturbed.</p>"));
    assert!(page.contains("<strong>Verdict withheld: disturbed</strong>"), "of the forecast");
    assert!(!page.contains("best K"), "a card names a K");
}

#[test]
fn one_block_in_ten_may_be_disturbed() {
    assert!(
        TimesValidity::of_blocks(1, 10, "stops").is_valid()
            && TimesValidity::of_blocks(0, 0, "stops").is_valid()
    );
    let over = TimesValidity::of_blocks(2, 10, "stops");
    assert_eq!(over.reasons, [InvalidTimes::Disturbed { share: 0.2, cause: "stops" }]);
    assert_eq!(over.verdict(None), SpeedVerdict::Disturbed);
}

/// A clock on which threads wait for half of the time; `others` says whether for other work.
#[derive(Debug)]
struct Waiting {
    clock: RealClock,
    others: bool,
    readings: Cell<u32>,
}

impl Clock for Waiting {
    fn now(&self) -> Duration {
        self.clock.now()
    }

    fn lost(&self) -> Lost {
        self.readings.set(self.readings.get() + 1);
        let waiting = self.now() / 2;
        let others = if self.others { waiting } else { Duration::ZERO };
        Lost { waiting, others, ..Lost::default() }
    }
}

/// A clock on which each look at the time takes some µs: `step` has their number by how often lost
/// time was read, which is where watched spans begin and end.
#[derive(Debug)]
pub(crate) struct Stepping {
    step: fn(usize) -> u64,
    readings: Cell<usize>,
    now: Cell<Duration>,
}

impl Stepping {
    pub(crate) fn new(step: fn(usize) -> u64) -> Self {
        Self { step, readings: Cell::new(0), now: Cell::default() }
    }
}

impl Clock for Stepping {
    fn now(&self) -> Duration {
        let step = Duration::from_micros((self.step)(self.readings.get()));
        self.now.set(self.now.get() + step);
        self.now.get()
    }

    fn lost(&self) -> Lost {
        self.readings.set(self.readings.get() + 1);
        Lost::default()
    }
}

/// A check of a toy pair on nine prompts, which get 40 tokens each.
fn checked(toy: &str, clock: &dyn Clock) -> CheckOutcome {
    let pair = load(toy, Role::Target).unwrap();
    let draft = load(toy, Role::Draft).unwrap().model;
    let encode = |i: usize| pair.codec.encode(&"abc".repeat(i + 8)).unwrap();
    let prompts = (0..9).map(encode).collect::<Vec<_>>();
    let setup = CheckSetup {
        target: &*pair.model,
        draft: Some(&*draft),
        codec: &*pair.codec,
        method: MethodSpec { drafter: "model".to_owned(), ..MethodSpec::default() },
        prompts: &prompts,
        max_tokens: 40,
        budget: Duration::ZERO,
    };
    check(&setup, clock).unwrap()
}

/// Catches: a check concludes nothing where a run, whose blocks count other work alone, would.
#[test]
fn a_check_is_disturbed_where_a_run_would_be() {
    let of = |others| {
        let clock = Waiting { clock: RealClock::default(), others, readings: Cell::new(0) };
        let found = checked("toy:mixed", &clock);
        assert!(clock.readings.get() > 70, "samples are watched one by one");
        assert!(found.passes_us.iter().all(Option::is_some), "{:?}", found.passes_us);
        (found.verdict, found.sentence())
    };
    let (verdict, sentence) = of(false);
    let decided = [SpeedVerdict::Faster, SpeedVerdict::Undecided, SpeedVerdict::Slower];
    assert!(decided.contains(&verdict), "{sentence}");
    let (verdict, sentence) = of(true);
    assert_eq!(verdict, SpeedVerdict::Disturbed);
    assert!(sentence.starts_with("no conclusion: other work disturbed"), "{sentence}");
}

/// Passes of m rows take 1.9 + 0.1 m ms, and reading the weights 0.5 ms. A round takes 1 ms to draft
/// eight tokens and 3 ms outside drafting and the pass. All tokens are accepted: rounds begin where
/// 40, 31, 22 and 13 tokens are left, and those with fewer than nine do not count.
/// Catches: the cost ratio or the share of the bandwidth is upside down; the time of a draft is not
/// that of a token; prompts or all rounds are counted as the rounds.
#[test]
fn a_check_reports_the_times_that_its_clock_shows() {
    let clock = Stepping::new(|readings| match readings {
        outside if outside == 0 || outside % 2 == 1 => 1000,
        // Samples of nine passes, the draft's and reading, after the reading that begins the check.
        within => match (within as u64 / 2 - 1) % 11 {
            10 => 500,
            task => 2000 + 100 * task,
        },
    });
    let found = checked("toy:equal", &clock);
    assert_eq!((found.prompts, found.rounds), (9, 36));
    assert_eq!(found.passes_us[..2], [Some(2000.0), Some(2100.0)]);
    near(found.bandwidth_share.unwrap(), 0.5 / 2.0);
    near(found.draft_us.unwrap(), 125.0);
    near(found.cost_ratio.unwrap(), 0.125 / 2.0);
    // Nine tokens take 2 + 3 ms each without drafts, and one round of 1 + 2.8 + 3 ms.
    near(found.best.unwrap().speedup.unwrap(), 9.0 * 5.0 / 6.8);
}

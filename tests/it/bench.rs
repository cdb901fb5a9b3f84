//! How `bench` treats samples that other work on the machine disturbed, and what it concludes from
//! the times of servers.

use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::time::Duration;

use rand::Rng;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use specdec::checkpoint::load;
use specdec::core::clock::{Clock, Lost, RealClock};
use specdec::measure::bench::{
    MOST_ROWS, Measured, PassRow, ServedFit, ServedPoint, ServedSample, draw, measure, read_served,
};
use specdec::measure::statistics::median;
use specdec::model::Role;
use specdec::tapes::forecasting::{CostTable, DraftedRound};

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

/// The true costs of a simulated server, whose passes are bound by memory up to a few rows and by
/// arithmetic beyond.
fn true_round(drafted: f64, batch: f64, context: f64) -> f64 {
    let pass = |rows: f64| (8.0_f64.powi(4) + (1.1 * rows).powi(4)).powf(0.25);
    pass(batch * (1.0 + drafted)) + 0.002 * batch * context + drafted * (0.7 + 0.05 * batch)
}

/// Repetitions of all settings, each of whose times is off by up to twice `noise`.
fn served(noise: f64, drafts: &[usize], rng: &mut ChaCha8Rng) -> Vec<ServedPoint> {
    let mut samples = Vec::new();
    for &k in drafts {
        for batch in [1, 2, 4, 8] {
            for prompt in [64, 512] {
                for _ in 0..4 {
                    let (drafted, context) = (k as f64, prompt as f64 + 30.0);
                    let mut uniform = || f64::from(rng.next_u32()) / f64::from(u32::MAX) - 0.5;
                    let off = 1.0 + noise * 2.0 * (uniform() + uniform());
                    let round_ms = off * true_round(drafted, batch as f64, context);
                    samples.push(ServedSample {
                        k,
                        batch,
                        prompt,
                        drafted,
                        context,
                        round_ms,
                        first_ms: prompt as f64,
                        ..ServedSample::default()
                    });
                }
            }
        }
    }
    ServedPoint::all(&samples)
}

/// Over 200 simulated servers, the fitted times of measured settings are within 5 %, those of
/// settings between them within 12 %, and the intervals of the former cover at least 90 %.
///
/// Catches: weights that let long rounds decide; an error without the quantile of Student's t; an
/// inverse that belongs to other columns.
#[test]
fn costs_of_a_server_are_found_with_their_uncertainty() {
    let mut rng = ChaCha8Rng::seed_from_u64(17);
    let (mut errors, mut between, mut covered) = (Vec::new(), Vec::new(), 0);
    for _ in 0..200 {
        let fit = ServedFit::of(&served(0.02, &[0, 4], &mut rng)).unwrap();
        for (drafted, batch, context) in [(0.0, 1.0, 94.0), (4.0, 1.0, 542.0), (4.0, 4.0, 94.0)]
            .into_iter()
            .chain([(0.0, 8.0, 542.0), (0.0, 2.0, 94.0), (4.0, 8.0, 542.0)])
        {
            let (found, truth) =
                (fit.round(drafted, batch, context), true_round(drafted, batch, context));
            errors.push((found.ms / truth - 1.0).abs());
            let interval = found.interval.unwrap();
            covered += usize::from((interval.lo..=interval.hi).contains(&truth));
        }
        for (drafted, batch, context) in [(0.0, 3.0, 200.0), (0.0, 6.0, 542.0), (2.0, 2.0, 94.0)] {
            let truth = true_round(drafted, batch, context);
            between.push((fit.round(drafted, batch, context).ms / truth - 1.0).abs());
        }
    }
    let most = |errors: &[f64]| errors.iter().copied().fold(0.0, f64::max);
    assert!(median(&errors).unwrap() < 0.05, "{:?}", median(&errors));
    assert!(most(&between) < 0.12, "{}", most(&between));
    assert!(covered as f64 >= 0.9 * errors.len() as f64, "{covered} of {}", errors.len());
}

/// Without noise, each term has its true value, and a term that no setting shows is named.
#[test]
fn terms_of_a_server_are_separated_where_settings_differ() {
    let mut rng = ChaCha8Rng::seed_from_u64(17);
    let all = served(0.0, &[0, 1, 4], &mut rng);
    let fit = ServedFit::of(&all).unwrap();
    assert!(fit.unknown.is_empty(), "{:?}", fit.unknown);
    let per_context = fit.round(0.0, 2.0, 600.0).ms - fit.round(0.0, 2.0, 100.0).ms;
    let drafting = fit.draft(2.0).ms;
    // The pass is curved between the batches, which other terms take the blame for.
    assert!((per_context - 2.0).abs() < 0.01, "{per_context}");
    assert!((drafting / 0.8 - 1.0).abs() < 0.25, "{drafting}");

    let one_context = |point: &ServedPoint| point.setting().prompt == 64;
    let plain = |point: &ServedPoint| point.setting().k == 0;
    let alone = |point: &ServedPoint| point.setting().batch == 1;
    let some = |keep: &dyn Fn(&ServedPoint) -> bool| {
        let kept = all.iter().filter(|point| keep(point)).cloned().collect::<Vec<_>>();
        ServedFit::of(&kept).map(|fit| fit.unknown)
    };
    assert_eq!(some(&|point| one_context(point) && plain(point)).unwrap(), ["context"]);
    // Requests alone do not show what a row costs, so drafting is not separated from it.
    assert_eq!(some(&alone).unwrap(), ["drafting", "drafting by batch"]);
    assert!(some(&|point| !plain(point)).unwrap_err().contains("no setting decodes plainly"));
}

/// Among more rows than were measured, a pass whose last known times fall keeps the last one.
/// Catches: a line that is followed until passes take no time.
#[test]
fn passes_beyond_what_was_measured_take_time() {
    let sample = |batch, round_ms| ServedSample {
        batch,
        round_ms,
        context: 80.0,
        ..ServedSample::default()
    };
    let points = ServedPoint::all(&[sample(1, 5.0), sample(4, 8.0), sample(8, 7.0)]);
    let fit = ServedFit::of(&points).unwrap();
    for (batch, ms) in [(4.0, 8.0), (6.0, 7.5), (8.0, 7.0), (100.0, 7.0)] {
        assert!((fit.round(0.0, batch, 80.0).ms - ms).abs() < 1e-9, "{batch}");
    }
    let rising = ServedPoint::all(&[sample(1, 5.0), sample(4, 8.0)]);
    let fit = ServedFit::of(&rising).unwrap();
    assert!((fit.round(0.0, 6.0, 80.0).ms - 10.0).abs() < 1e-9);
}

/// The cost file of a fit gives rounds the times of the fit.
#[test]
fn the_cost_file_of_a_server_gives_the_fitted_rounds() {
    let points = served(0.0, &[0, 4], &mut ChaCha8Rng::seed_from_u64(17));
    let fit = ServedFit::of(&points).unwrap();
    let mut table = CostTable::default();
    for row in fit.rows(&points) {
        table.add(row).unwrap();
    }
    for (drafted, batch, context) in [(0, 1, 94), (4, 1, 542), (4, 8, 94), (2, 4, 300)] {
        let round = DraftedRound { tokens: drafted, passes: drafted };
        let fitted = fit.round(drafted as f64, batch as f64, context as f64).ms;
        let written = table.round(round, (context, batch));
        assert!((written / fitted - 1.0).abs() < 1e-9, "{drafted} {batch} {context}");
    }
    assert_eq!(table.prefill(512.0, 1.0), Some(512.0));
}

/// A repetition far from the others is left out; without a majority all are kept.
#[test]
fn repetitions_of_a_server_that_disagree_are_seen() {
    let sample = |round_ms| ServedSample { batch: 1, round_ms, ..ServedSample::default() };
    let of = |times: &[f64]| {
        ServedPoint::all(&times.iter().map(|&ms| sample(ms)).collect::<Vec<_>>()).remove(0)
    };
    let point = of(&[10.0, 10.2, 9.9, 14.0]);
    assert_eq!((point.kept.len(), point.disturbed), (3, 1));
    assert!(point.is_steady() && !of(&[10.0, 10.2, 14.0]).is_steady());
    let wild = of(&[5.0, 10.0, 20.0, 40.0]);
    assert_eq!((wild.kept.len(), wild.disturbed), (4, 4));
    let why = ServedFit::of(&[point.clone(), wild.clone()]).unwrap_err();
    assert!(why.contains("repetitions of 1 of 2 settings disagree"), "{why}");
    // A quarter may disagree, and counts for nothing.
    let fit = ServedFit::of(&[wild, point.clone(), point.clone(), point]).unwrap();
    assert!((fit.round(0.0, 1.0, 0.0).ms - 10.033).abs() < 0.001);
}

/// Results of other benchmarks, in shapes of our own writing.
#[test]
fn results_of_other_benchmarks_are_read_as_rounds() {
    let folder = tempfile::tempdir().unwrap();
    let read = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        read_served(&path).map_err(|error| format!("{error:#}"))
    };
    let vllm = r#"{"completed": 10, "total_input_tokens": 1280, "total_output_tokens": 640,
        "max_concurrency": 4, "median_itl_ms": 12.5, "output_throughput": 320.0,
        "median_ttft_ms": 40.0"#;
    let found = read("plain.json", &format!("{vllm}}}\n{vllm}}}")).unwrap();
    assert_eq!(found.len(), 2);
    let expected = ServedSample {
        server: "plain.json".into(),
        k: 0,
        batch: 4,
        prompt: 128,
        drafted: 0.0,
        context: 160.0,
        round_ms: 12.5,
        tokens_per_s: 320.0,
        first_ms: 40.0,
    };
    assert_eq!(found[0], expected);
    let drafts = r#", "spec_decode_acceptance_rate": 60.0, "spec_decode_num_drafts": 200,
        "spec_decode_draft_tokens": 700}"#;
    let found = read("drafts.json", &format!("[{vllm}{drafts}]")).unwrap();
    assert_eq!((found[0].k, found[0].drafted), (4, 3.5));

    let guide = r#"{"benchmarks": [{"metrics": {
        "request_concurrency": {"successful": {"mean": 7.9}},
        "prompt_token_count": {"successful": {"mean": 128.0}},
        "output_token_count": {"successful": {"mean": 64.0}},
        "inter_token_latency_ms": {"successful": {"median": 12.5}},
        "output_tokens_per_second": {"successful": {"mean": 320.0}},
        "time_to_first_token_ms": {"successful": {"median": 40.0}}}}]}"#;
    let found = read("guide.json", guide).unwrap();
    assert_eq!(
        found[0],
        ServedSample { server: "guide.json".into(), batch: 8, ..expected.clone() }
    );

    let ai = r#""request_throughput": {"avg": 5.0}, "request_latency": {"avg": 800.0},
        "inter_token_latency": {"avg": 13.0, "p50": 12.5}, "time_to_first_token": {"p50": 40.0},
        "input_sequence_length": {"avg": 128.0}, "output_sequence_length": {"avg": 64.0},
        "output_token_throughput": {"avg": 320.0}"#;
    let found = read("ai.json", &format!("{{{ai}}}")).unwrap();
    assert_eq!(found[0], ServedSample { server: "ai.json".into(), ..expected.clone() });
    let stated = r#", "input_config": {"loadgen": {"concurrency": 16}}}"#;
    assert_eq!(read("stated.json", &format!("{{{ai}{stated}")).unwrap()[0].batch, 16);

    let drafted = r#", "spec_decode_acceptance_length": {"avg": 2.5}}"#;
    for (name, text, part) in [
        ("a.json", format!("{{{ai}{drafted}"), "times of AIPerf are per token"),
        ("b.json", "{\"a\": 1}".into(), "it has none of \"median_itl_ms\" (vllm bench serve)"),
        ("c.json", "{\"median_itl_ms\": 1}".into(), "lack the concurrency"),
        (
            "d.json",
            format!("{vllm}, \"spec_decode_acceptance_rate\": 60.0}}"),
            "lack the concurrency",
        ),
        ("e.json", vllm.replace("12.5", "0.0") + "}", "round_ms = 0: allowed are numbers above 0"),
        ("f.csv", "server,k\na,b\n".into(), "row 1"),
        ("g.json", "[]".into(), "has no measured setting"),
        ("h.json", "{".into(), "it is not JSON"),
    ] {
        let why = read(name, &text).unwrap_err();
        assert!(why.contains(part) && why.contains(name), "{name}: {why}");
    }
}

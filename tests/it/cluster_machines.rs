//! Times of several machines: a speedup for each, none for several, and what lies between them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use specdec::checkpoint::load;
use specdec::core::clock::{VirtualClock, VirtualCosts};
use specdec::measure::rows::{BetweenRow, GenerationRow, MachineRow, SummaryRow};
use specdec::measure::statistics::{BetweenMachines, Ratio, random_effects, student};
use specdec::model::Role;
use specdec::run::experiment::{self, Manifest, PACK_ABOVE, Shard, finish, merge};
use specdec::run::report;

use crate::cluster_support::report as report_of;
use crate::experiment_support::{rows, with_smoke};
use crate::fixtures::uniform;
use crate::report::summary;

/// Runs a shard of the smoke experiment with ten prompts, on a machine whose passes take
/// `slower` times as long, draft passes more so.
fn run_shard(out: &Path, shard: Shard, slower: u32) -> PathBuf {
    let target = load("toy:mixed", Role::Target).unwrap().model;
    let texts = ["ab", "abc", "ba", "bca", "cab", "cb", "dab", "aab", "abd", "bb"];
    let set = ["clock=real", "warmup=1", "repeats=2"];
    let costs = VirtualCosts::default();
    let clock = VirtualClock::new(VirtualCosts {
        draft_pass: costs.draft_pass * slower * slower,
        draft_row: costs.draft_row,
        target_pass: costs.target_pass * slower,
        target_row: costs.target_row + Duration::from_micros(u64::from(slower)),
    });
    let interrupted = AtomicBool::new(false);
    let run = |setup: &experiment::Setup<'_>| experiment::run_shard(setup, out, shard);
    let ended = with_smoke(Some(&clock), &*target, &texts, &set, &interrupted, run);
    let folder = ended.unwrap().unwrap().folder;
    finish(&folder).unwrap();
    folder
}

/// All shards, as many as machines; returns the folder of each.
fn shards(out: &Path, slower: &[u32]) -> Vec<PathBuf> {
    let shard = |(i, factor): (usize, &u32)| {
        let folder = run_shard(out, Shard::new(i + 1, slower.len()).unwrap(), *factor);
        let mut manifest = Manifest::read(&folder).unwrap();
        manifest.sessions[0].host = Some(format!("node{}", i + 1));
        manifest.write(&folder).unwrap();
        folder
    };
    slower.iter().enumerate().map(shard).collect()
}

#[test]
fn a_shard_calibrates_the_cells_that_it_runs() {
    let out = tempfile::tempdir().unwrap();
    // One block: one of three temperatures.
    let folder = run_shard(out.path(), Shard::new(7, 60).unwrap(), 1);
    let calibration = Manifest::read(&folder).unwrap().sessions.remove(0).calibration;
    let own = rows::<GenerationRow>(&folder, "generations.csv").into_iter().map(|row| row.cell);
    let own = own.collect::<BTreeSet<_>>();
    assert_eq!(calibration.cells.into_keys().collect::<BTreeSet<_>>(), own);
    assert_eq!(own.len(), 13);
    assert!(!calibration.passes.is_empty());
}

/// The speedups of a folder's own report, by cell.
fn speedups(folder: &Path) -> BTreeMap<String, f64> {
    let rows = summary(&report::load(folder).unwrap());
    rows.into_iter().filter_map(|row| Some((row.cell, row.speedup?))).collect()
}

/// Catches: sessions of different machines are pooled; a cell is paired with the baseline of
/// another machine.
#[test]
fn every_speedup_of_a_merged_run_is_that_of_one_machine() {
    let out = tempfile::tempdir().unwrap();
    let parts = shards(out.path(), &[1, 3, 2]);
    let merged = out.path().join("merged");
    assert!(merge(&parts, &merged, PACK_ABOVE).unwrap().left_out.is_empty());
    let text = report_of(&merged);
    assert!(text.contains("3 machines timed this run, and their times never mix"), "{text}");
    assert!(text.contains("are those of node1, which has 20 of 60 blocks"), "{text}");
    assert!(text.contains("## Machines"), "{text}");

    let own = parts.iter().map(|part| speedups(part)).collect::<Vec<_>>();
    let cells = own[0].len();
    assert!(cells > 30);
    let by_machine = rows::<MachineRow>(&merged, "machines.csv");
    assert_eq!(by_machine.len(), 3 * cells);
    for row in &by_machine {
        let machine = row.machine.strip_prefix("node").unwrap().parse::<usize>().unwrap();
        assert_eq!(row.speedup, own[machine - 1][&row.cell], "{row:?}");
    }
    // The clocks differ enough for a mixture to show.
    let differ = own[0].iter().filter(|(cell, x)| (own[1][*cell] / **x - 1.0).abs() > 0.05);
    assert!(differ.count() > cells / 2);
    let summary = summary(&report::load(&merged).unwrap());
    for SummaryRow { cell, speedup, .. } in &summary {
        assert_eq!(*speedup, own[0].get(cell).copied(), "{cell}");
    }
    for row in rows::<BetweenRow>(&merged, "between_machines.csv") {
        let mut all = own.iter().map(|own| own[&row.cell]).collect::<Vec<_>>();
        all.sort_by(f64::total_cmp);
        for (found, own) in [row.lowest, row.median, row.highest].into_iter().zip(all) {
            assert!((found / own - 1.0).abs() < 1e-12, "{row:?}");
        }
        assert_eq!((row.machines, row.expected), (3, None));
    }
    // Acceptance is that of all blocks.
    let rounds = summary.iter().map(|row| row.rounds).sum::<usize>();
    let lines = fs::read_to_string(merged.join("rounds.csv")).unwrap().lines().count();
    assert_eq!(rounds, lines - 1);
}

#[test]
fn times_of_named_and_unnamed_machines_do_not_mix() {
    // Two shards of one machine are one group.
    let out = tempfile::tempdir().unwrap();
    let parts = shards(out.path(), &[1, 1]);
    let mut manifest = Manifest::read(&parts[1]).unwrap();
    manifest.sessions[0].host = Some("node1".to_owned());
    manifest.write(&parts[1]).unwrap();
    let merged = out.path().join("merged");
    merge(&parts, &merged, PACK_ABOVE).unwrap();
    assert!(!report_of(&merged).contains("## Machines"));
    let results = report::load(&merged).unwrap();
    assert!(results.samples().all(|sample| sample.timed));
    // Nothing says that these two are one machine.
    for part in &parts {
        let mut manifest = Manifest::read(part).unwrap();
        manifest.sessions[0].host = None;
        manifest.write(part).unwrap();
    }
    let merged = out.path().join("unnamed");
    merge(&parts, &merged, PACK_ABOVE).unwrap();
    assert!(report_of(&merged).contains("2 machines timed this run"));
}

/// A normal number, nearly.
fn normal(rng: &mut ChaCha8Rng) -> f64 {
    (0..12).map(|_| uniform(rng)).sum::<f64>() - 6.0
}

/// Catches: the interval takes the 1.96 of a normal distribution; machines never differ in the
/// model.
#[test]
fn random_effects_have_their_closed_form_for_equal_errors() {
    let logs = [0.1, 0.4, 0.2, 0.7, 0.3, 0.5, 0.2, 0.6, 0.4];
    let (count, error) = (logs.len() as f64, 0.01);
    let mean = logs.iter().sum::<f64>() / count;
    let variance = logs.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let found = random_effects(&logs.map(|log| (log, error))).unwrap();
    let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
    close(found.ratio.ln(), mean);
    close(found.spread.powi(2), variance - error);
    close(found.interval.hi.ln() - mean, student(count - 1.0) * (variance / count).sqrt());
    // Machines that differ less than their errors: no spread, and the errors alone.
    let found = random_effects(&logs.map(|log| (log / 100.0, error))).unwrap();
    assert_eq!(found.spread, 0.0);
    close(found.interval.hi.ln() - mean / 100.0, student(count - 1.0) * (error / count).sqrt());
    assert_eq!(random_effects(&[(0.1, 0.01); 7]), None);
    assert_eq!(random_effects(&[&[(0.1, 0.0)][..], &[(0.1, 0.01); 8]].concat()), None);
}

/// The share of simulated sets of machines whose interval contains the typical speedup, and the
/// same for the interval of a model without a spread between machines.
fn coverage(machines: usize, spread: f64) -> (f64, f64) {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let truth = 0.4_f64;
    let (mut inside, mut fixed, draws) = (0, 0, 2000);
    for _ in 0..draws {
        let logs = (0..machines).map(|_| {
            let error = 0.02 + 0.06 * uniform(&mut rng);
            (truth + spread * normal(&mut rng) + error * normal(&mut rng), error * error)
        });
        let logs = logs.collect::<Vec<_>>();
        let interval = random_effects(&logs).unwrap().interval;
        inside += usize::from(interval.lo.ln() <= truth && truth <= interval.hi.ln());
        let weight = logs.iter().map(|(_, v)| 1.0 / v).sum::<f64>();
        let centre = logs.iter().map(|(log, v)| log / v).sum::<f64>() / weight;
        fixed += usize::from((centre - truth).abs() <= 1.96 / weight.sqrt());
    }
    (inside as f64 / f64::from(draws), fixed as f64 / f64::from(draws))
}

#[test]
fn intervals_between_machines_cover_only_with_a_spread() {
    for (machines, spread) in [(8, 0.0), (8, 0.05), (8, 0.2), (20, 0.1), (100, 0.1)] {
        let (inside, fixed) = coverage(machines, spread);
        // Without a spread, the interval may be longer than it has to be.
        let most = if spread > 0.0 { 0.985 } else { 1.0 };
        assert!((0.93..most).contains(&inside), "{machines}, {spread}: {inside}");
        if spread >= 0.1 {
            assert!(fixed < 0.8, "{machines}, {spread}: {fixed}");
        }
    }
}

#[test]
fn a_machine_without_the_cell_does_not_count() {
    let ratio = |values: &[f64]| Ratio::of(values.iter().map(|x| ([*x], [1.0])));
    let machines = [ratio(&[2.0, 3.0]), ratio(&[]), ratio(&[1.0, 2.0]), ratio(&[4.0, 4.0])];
    let found = BetweenMachines::of(&machines).unwrap();
    assert_eq!((found.machines, found.lowest, found.median, found.highest), (3, 1.5, 2.5, 4.0));
    assert_eq!(found.expected, None);
    assert_eq!(BetweenMachines::of(&machines[1..2]), None);
}

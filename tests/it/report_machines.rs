//! Eight machines that have timed a run: the numbers of each, and those of a typical one.

use std::collections::BTreeMap;
use std::fs;

use specdec::measure::rows::{BetweenRow, BlockRow, GenerationRow, MachineRow};
use specdec::measure::statistics::{Ratio, random_effects};
use specdec::run::experiment::{Manifest, RunSession};
use specdec::run::report::report;

use crate::experiment_support::rows;
use crate::report::written;
use crate::report_verdicts::{line, stretch};
use crate::synthetic::Synthetic;
use crate::synthetic_blocks::sealed;

const MACHINES: usize = 8;

/// Catches: a rate is that of plain decoding; the spread is shown as a logarithm; the error of a
/// machine is another one.
#[test]
fn machines_have_their_own_rates_and_a_typical_speedup() {
    let (prompts, draft_lengths, temperatures) = (2 * MACHINES, vec![3], vec![1.0]);
    let run = Synthetic { prompts, draft_lengths, temperatures, ..Synthetic::tiny() };
    let mut own = run.rows();
    let machine = |prompt: &str| prompt[7..].parse::<usize>().unwrap() % MACHINES;
    for prompt in own.plan.prompts.clone() {
        stretch(&mut own, "none-0-1", &prompt, 1.0 + 0.1 * machine(&prompt) as f64);
    }
    let folder = written(&own);
    let mut manifest = Manifest::read(folder.path()).unwrap();
    let session = manifest.sessions.remove(0);
    for number in 0..MACHINES {
        let host = Some(format!("node{number}"));
        manifest.sessions.push(RunSession { host, ..session.clone() });
    }
    manifest.write(folder.path()).unwrap();
    let blocks = rows::<BlockRow>(folder.path(), "blocks.csv");
    let mut writer = csv::Writer::from_path(folder.path().join("blocks.csv")).unwrap();
    for block in blocks {
        let session = machine(&block.prompt);
        writer.serialize(sealed(BlockRow { session, ..block })).unwrap();
    }
    writer.flush().unwrap();
    report(folder.path()).unwrap();
    let of = |cell: &str| {
        let own = own.generations.iter().filter(|own| own.cell == cell);
        own.map(|own| (own.prompt.clone(), own.clone())).collect::<BTreeMap<_, GenerationRow>>()
    };
    let (plain, drafted) = (of("none-0-1"), of("model-3-1"));
    let sums = |number: usize| {
        let prompts = plain.keys().filter(|prompt| machine(prompt) == number);
        prompts.map(|prompt| [&plain[prompt], &drafted[prompt]]).collect::<Vec<_>>()
    };
    let found = rows::<MachineRow>(folder.path(), "machines.csv");
    let found = found.iter().filter(|row| row.cell == "model-3-1").collect::<Vec<_>>();
    let mut logs = Vec::new();
    for (number, row) in found.iter().enumerate() {
        let both = sums(number);
        let rate = |side: usize| {
            let tokens = both.iter().map(|own| own[side].new_tokens as f64).sum::<f64>();
            tokens * 1e6 / both.iter().map(|own| own[side].decode_us).sum::<f64>()
        };
        assert_eq!((&*row.machine, row.prompts), (&*format!("node{number}"), 2));
        for (found, expected) in [
            (row.baseline_tokens_per_second, rate(0)),
            (row.tokens_per_second, rate(1)),
            (row.speedup, rate(1) / rate(0)),
        ] {
            assert!((found / expected - 1.0).abs() < 1e-9, "{row:?}");
        }
        let ratio = Ratio::of(both.iter().map(|[plain, own]| {
            ([plain.decode_us, own.new_tokens as f64], [plain.new_tokens as f64, own.decode_us])
        }));
        logs.push((ratio.value().unwrap().ln(), ratio.log_variance().unwrap()));
    }
    assert_eq!(found.len(), MACHINES);
    let expected = random_effects(&logs).unwrap();
    let between = rows::<BetweenRow>(folder.path(), "between_machines.csv");
    let between = between.iter().find(|row| row.cell == "model-3-1").unwrap();
    for (found, expected) in [
        (between.expected, expected.ratio),
        (between.expected_lo, expected.interval.lo),
        (between.expected_hi, expected.interval.hi),
        (between.spread, expected.spread),
    ] {
        assert!((found.unwrap() / expected - 1.0).abs() < 1e-9, "{between:?}");
    }
    let text = fs::read_to_string(folder.path().join("report.md")).unwrap();
    let shown = format!(
        "| 8 | {:.2} | {:.2} | {:.2} | {:.2} [{:.2}, {:.2}] | {:.1} % |",
        between.lowest,
        between.median,
        between.highest,
        expected.ratio,
        expected.interval.lo,
        expected.interval.hi,
        100.0 * (expected.spread.exp() - 1.0)
    );
    let line = line(&text, "## Machines", "| model | T = 1 | D lossless | 3 |");
    assert!(line.ends_with(&shown), "{line} does not end with {shown}");
    assert!(text.contains("| node3 | Simulated CPU @ 2.50GHz | 2, 2 | 2 | 0 |"), "{text}");
}

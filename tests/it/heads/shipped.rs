//! The tap draft that ships with the project, and the experiment on wrong heads.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use specdec::checkpoint::pair::Pair;
use specdec::core::chance::{Request, Seeded};
use specdec::core::error::Error;
use specdec::core::round::RoundEvent;
use specdec::engine::{HeadSettings, Settings, Source};
use specdec::method::decode::{Generation, Observer, StopRules, generate};
use specdec::method::draft::Tools;
use specdec::model::HeadFault;
use specdec::tapes::tape::{LossPlace, ShareChange, ShareChanges};

use super::history::still;
use crate::asking::spec;

fn project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The overlaps of q and p.
#[derive(Default)]
struct Overlaps(Vec<f64>);

impl Observer for Overlaps {
    fn round(&mut self, event: &RoundEvent<'_>) -> Result<(), Error> {
        self.0.extend(event.forks().into_iter().map(|at| event.overlap(at)));
        Ok(())
    }
}

/// The mean overlap over the drafts of some prompts.
fn overlap(target: &str, draft: Source) -> f64 {
    let load = |path: &str| project(path).to_str().unwrap().to_owned();
    let pair = Pair::load(load(target)).unwrap().with_draft(draft).unwrap();
    let model = &*pair.target.model;
    let tools = Tools { draft: pair.draft_model(), target: Some(model), texts: None };
    let mut seen = Overlaps::default();
    for file in ["code", "docs", "edits"] {
        let lines = fs::read_to_string(project(&format!("configs/prompts/{file}.jsonl"))).unwrap();
        for (number, line) in lines.lines().take(6).enumerate() {
            let prompt = serde_json::from_str::<Value>(line).unwrap();
            let tokens = pair.target.codec.encode(prompt["prompt"].as_str().unwrap()).unwrap();
            let method = spec("model", 4, &[]).build_with(tools).unwrap();
            let stop = StopRules::max_tokens(64);
            let mut one = Generation::new(model, method, &tokens, stop, None).unwrap();
            let mut chance =
                Seeded::new(Request { seed: 18, prompt: &number.to_string(), repeat: 0 });
            generate(&mut one, model, &mut chance, &still(), &mut seen).unwrap();
        }
    }
    seen.0.iter().sum::<f64>() / seen.0.len() as f64
}

/// Catches: a mistake in how the tap draft is fed or computed that costs acceptance.
#[test]
fn the_tap_draft_beats_the_draft_model_and_wrong_ones() {
    let source = |path: &str| Source::from(project(path).to_str().unwrap().to_owned());
    let wrong = |fault| {
        let head = HeadSettings { fault: Some(fault), ..HeadSettings::default() };
        source("models/tap").with(Settings { head, ..Settings::default() })
    };
    let right = overlap("models/target", source("models/tap"));
    let draft = overlap("models/target", source("models/draft"));
    // Held-out text has 0.71 to 0.73.
    assert!(right > 0.7 && right > draft, "{right} {draft}");
    for fault in
        [HeadFault::TokenEarly, HeadFault::RejectedRowsKept, HeadFault::FeatureNormsMissing]
    {
        let found = overlap("models/target", wrong(fault));
        assert!(found < right - 0.02, "{}: {found} of {right}", fault.name());
    }
}

const RESULTS: &str = "results/18-head-faults/2026-11-29-amd-epyc-2c";

/// The rows of a table of results.
fn rows(name: &str) -> Vec<Vec<String>> {
    let text = fs::read_to_string(project(&format!("{RESULTS}/{name}.csv"))).unwrap();
    let row = |line: &str| line.split(',').map(str::to_owned).collect();
    text.lines().skip(1).map(row).collect()
}

fn number(text: &str) -> f64 {
    text.parse().unwrap()
}

/// The place that changes show, each with its error.
fn named(changes: &[String]) -> &'static str {
    let change =
        |at: usize| ShareChange { change: number(&changes[at]), error: number(&changes[at + 1]) };
    let [first, later, early, late] = [0, 2, 4, 6].map(change);
    let place = ShareChanges { first, later, early, late }.place();
    match place {
        None => "-",
        Some(LossPlace::AfterPrompt) => "after_prompt",
        Some(LossPlace::WithLength) => "with_length",
        Some(LossPlace::FirstToken) => "first_token",
        Some(LossPlace::LaterTokens) => "later_tokens",
    }
}

/// Catches: a number of the page that the results do not have; a rule that no longer names the
/// place that the results state; a wrong head whose output is not exact.
#[test]
fn the_tables_of_wrong_heads_are_those_of_the_results() {
    let page = fs::read_to_string(project("experiments/18-head-faults/README.md")).unwrap();
    let (acceptance, audits) = (rows("acceptance"), rows("audits"));
    let mut table = String::new();
    for row in rows("verdicts") {
        let [head, fault, tau, finding, place] = [0, 1, 2, 3, 4].map(|at| row[at].as_str());
        let own = |other: &&Vec<String>| other[0] == head && other[1] == fault;
        let shares = acceptance.iter().filter(own).take(4);
        let share = |own: &Vec<String>| match number(&own[3]) {
            0.0 => "-".to_owned(),
            decided => format!("{:.2}", number(&own[4]) / decided),
        };
        let shares = shares.map(share);
        let shares = shares.collect::<Vec<_>>().join(" | ");
        let gate = if finding == "dropped" && place != "-" { place } else { finding };
        let audit = audits.iter().find(own).unwrap();
        let (log10_e, seen) = (number(&audit[4]), audit[6].as_str());
        let shown = if log10_e >= 3.0 { seen } else { "-" };
        let line = format!("{shares} | {:.2} | {gate} | {log10_e:.0} | {shown}", number(tau));
        writeln!(table, "| {head} | `{fault}` | {line} |").unwrap();
        for (place, changes) in [(place, &row[5..]), (seen, &audit[7..])] {
            assert_eq!(named(changes), place, "{head} {fault}");
        }
        assert_eq!(audit[2], "False");
    }
    assert!(page.contains(&table), "the page should have this table:\n{table}");
    let of = |rows: &[Vec<String>], head: &str, found: &dyn Fn(&[String]) -> bool| {
        let faults =
            rows.iter().filter(|row| row[0] == head && row[1] != "right" && row[1] != "again");
        let (all, shown) = (faults.clone().count(), faults.filter(|row| found(row)).count());
        format!("{shown} of {all}")
    };
    let [eagle3, tap] = ["eagle3", "tap"].map(|head| {
        let audited = of(&audits, head, &|row| number(&row[4]) >= 3.0);
        let gated = of(&rows("verdicts"), head, &|row| row[3] == "dropped" && row[4] != "-");
        [audited, gated]
    });
    let audited = format!("{} faults in EAGLE-3 and {} in the tap draft", eagle3[0], tap[0]);
    let gated = format!(
        "It finds {} faults in EAGLE-3, with the audit's places, and {}",
        eagle3[1], tap[1]
    );
    assert!(page.contains(&audited) && page.contains(&gated), "{audited}; {gated}");
}

/// Catches: a number of the tap draft's page that the results do not have.
#[test]
fn the_page_of_the_tap_draft_has_the_results() {
    let page = fs::read_to_string(project("models/tap/README.md")).unwrap();
    let cells = rows("tau");
    let shown = |row: &[String]| {
        let [tau, lo, hi] = [5, 6, 7].map(|at| number(&row[at]));
        format!("{tau:.3} [{lo:.3}, {hi:.3}]")
    };
    let (draft, tap) = cells.split_at(cells.len() / 2);
    for (draft, tap) in draft.iter().zip(tap) {
        let (k, temperature) = (&draft[1], number(&draft[2]));
        let line = format!("| {temperature} | {k} | {} | {} |\n", shown(draft), shown(tap));
        assert!(page.contains(&line), "{line}");
    }
    let separate = |draft: &[String], tap: &[String]| number(&draft[7]) < number(&tap[6]);
    let apart = draft.iter().zip(tap).map(|(draft, tap)| separate(draft, tap));
    assert_eq!(apart.collect::<Vec<_>>(), [false, false, false, true]);
}

/// Catches: a number of the engine's page that the results do not have.
#[test]
fn the_page_of_the_engine_has_the_costs_of_heads() {
    let page = fs::read_to_string(project("experiments/90-engine/README.md")).unwrap();
    let costs = "results/90-engine/2026-11-29-amd-epyc-2c-heads";
    let table = |name: &str| {
        let text = fs::read_to_string(project(&format!("{costs}/{name}.csv"))).unwrap();
        text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    let heads = table("heads");
    let rows = heads.iter().map(|row| {
        let [head, .., bandwidth, ratio] = row.split(',').collect::<Vec<_>>()[..] else { panic!() };
        (head, number(bandwidth), number(ratio))
    });
    let rows = rows.collect::<Vec<_>>();
    let ends = |of: Vec<f64>| {
        of.into_iter().fold((f64::MAX, 0.0), |(lo, hi): (f64, f64), x| (lo.min(x), hi.max(x)))
    };
    let bandwidth = |fast: bool| {
        let own = rows.iter().map(|row| row.1).filter(|b| (*b > 60.0) == fast).collect::<Vec<_>>();
        let (of, (lo, hi)) = (own.len(), ends(own));
        (of, format!("{lo:.0} to {hi:.0} GB/s"))
    };
    let ([slow, fast], all) = ([false, true].map(bandwidth), rows.len());
    let delivered =
        format!("{} in {} of {all} measurements and {} in {}.", slow.1, slow.0, fast.1, fast.0);
    let lines = [("head", "eagle3", 1.15), ("block", "dflash", 1.25)].map(|(name, head, bar)| {
        let cell = |fast: bool| {
            let own = rows.iter().filter(|row| row.0 == head && (row.1 > 60.0) == fast);
            let (lo, hi) = ends(own.map(|row| row.2).collect());
            format!("{lo:.2} to {hi:.2}{}", if hi > bar { ": missed" } else { "" })
        };
        format!("| {name} | {bar} | {} | {} |", cell(false), cell(true))
    });
    let taps = table("taps").into_iter().map(|row| {
        let ratio = row.split(',').nth(1).unwrap();
        format!("{:.3} times", number(ratio))
    });
    for found in lines.into_iter().chain([delivered]).chain(taps) {
        assert!(page.contains(&found), "{found}");
    }
}

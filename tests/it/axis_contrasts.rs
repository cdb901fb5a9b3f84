//! One contrast for every value of an axis: from rows by hand, from a run, and from a tape.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;
use specdec::measure::statistics::{AxisPoint, Ratio, axis_contrasts};
use specdec::tapes::forecasting::SHOWN_KS;

use crate::cli_support::stdout;
use crate::cli_tape_support::TapeFolder;
use crate::figures::imitate;
use crate::report::reported;
use crate::synthetic::{Rows, Synthetic};

/// A cell with these values of axes, and the ratio that each prompt has.
fn point<'p>(axes: &[(&str, &str)], prompts: &[(&'p str, f64)]) -> AxisPoint<'p, 1> {
    let axes = axes.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    let own = BTreeMap::from([("rule", vec!["strength"])]);
    let prompts = prompts.iter().map(|(name, ratio)| (*name, ([*ratio], [1.0])));
    AxisPoint { axes: axes.collect(), own, fixed: String::new(), prompts: prompts.collect() }
}

const NAMES: [&str; 9] = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];

/// The same ratio on some prompts, from the first one on.
fn same(ratio: f64, prompts: usize) -> Vec<(&'static str, f64)> {
    NAMES[..prompts].iter().map(|name| (*name, ratio)).collect()
}

/// Catches: pairs differ in two axes; the settings of the compared methods must be equal.
#[test]
fn a_contrast_is_the_geometric_mean_over_pairs() {
    let cell = |rule: &str, strength: Option<&str>, k: &str, ratio: f64| {
        let strength = strength.map(|strength| ("strength", strength));
        point(&[&[("rule", rule), ("k", k)][..], strength.as_slice()].concat(), &same(ratio, 9))
    };
    let points = [
        cell("new", Some("3"), "1", 1.1),
        cell("old", None, "1", 1.0),
        cell("new", Some("3"), "4", 3.0),
        cell("old", None, "4", 2.0),
        cell("new", Some("3"), "8", 9.0),
    ];
    let found = axis_contrasts(&points, &[("rule", "old")]);
    let rule = found.iter().find(|contrast| contrast.axis == "rule").unwrap();
    assert_eq!((&*rule.value, &*rule.against), ("new", "old"));
    // K = 8 has no partner.
    assert_eq!((rule.pairs, rule.prompts), (2, 9));
    let mean = (1.1 * 1.5_f64).sqrt();
    assert!((rule.ratio.unwrap() - mean).abs() < 1e-12, "{rule:?}");
    assert!(rule.logs.iter().all(|log| (log - mean.ln()).abs() < 1e-12));
    assert_eq!(rule.interval, None, "all prompts have the same ratio");
    // Without a name, the first value is the reference.
    let k = found.iter().filter(|contrast| contrast.axis == "k").collect::<Vec<_>>();
    let of = |value: &str| k.iter().find(|contrast| contrast.value == value).unwrap();
    assert!(k.iter().all(|contrast| contrast.against == "1") && k.len() == 2);
    assert_eq!((of("4").pairs, of("8").pairs), (2, 1));
    assert!((of("4").ratio.unwrap() - (3.0 / 1.1 * 2.0_f64).sqrt()).abs() < 1e-12);
    assert!(found.iter().all(|contrast| contrast.axis != "strength"), "it has one value");
}

/// Catches: pairs have prompts of their own; a failed cell takes prompts from all others.
#[test]
fn all_pairs_of_a_contrast_have_the_same_prompts() {
    let axes = |rule, k| [("rule", rule), ("k", k)];
    let points = [
        point(&axes("old", "1"), &same(1.0, 9)),
        point(&axes("new", "1"), &same(1.2, 9)),
        point(&axes("old", "2"), &same(1.0, 9)),
        point(&axes("new", "2"), &same(7.0, 2)),
    ];
    let found = axis_contrasts(&points, &[]);
    let rule = found.iter().find(|contrast| contrast.axis == "rule").unwrap();
    assert_eq!((rule.pairs, rule.prompts), (1, 9), "{rule:?}");
    assert!((rule.ratio.unwrap() - 1.2).abs() < 1e-12);
}

/// Catches: the root of the quotient is taken of the value and not of its interval.
#[test]
fn the_interval_of_a_mean_of_equal_ratios_is_that_of_one() {
    let one = || Ratio::of((1..12).map(|i| ([f64::from(i * i % 7 + 3)], [f64::from(i % 4 + 2)])));
    let single = one().interval().unwrap();
    let mean = Ratio::geometric_mean(vec![one(), one(), one()]).unwrap();
    let interval = mean.interval().unwrap();
    let close = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-12;
    assert!(close(mean.value().unwrap(), one().value().unwrap()));
    assert!(close(interval.lo, single.lo) && close(interval.hi, single.hi));
    assert!(Ratio::geometric_mean(Vec::new()).is_none());
    let even = one().over(&one());
    assert!(close(even.value().unwrap(), 1.0) && even.interval().is_none(), "nothing varies");
}

/// Rejection sampling, and another verifier that takes `factor` times as long for the same rounds.
fn two_verifiers(factor: f64) -> Rows {
    let run = Synthetic { prompts: 16, drafters: vec!["a"], ..Synthetic::tiny() };
    let mut rows = imitate(1, run, |_, cell| cell.point.method.drafter = "model".to_owned());
    for cell in rows.plan.cells.clone().iter().filter(|cell| cell.id.starts_with("a-")) {
        rows.repeat(&cell.id, factor);
        let again = rows.plan.cells.last_mut().unwrap();
        (again.control, again.point.method.verifier) = (false, "traversal".to_owned());
    }
    rows
}

/// The cells of the line of a report's contrast.
fn line<'t>(text: &'t str, axis: &str, value: &str) -> Vec<&'t str> {
    let section = text.split("## One axis at a time").nth(1).expect("no contrasts");
    let start = format!("| {axis} | {value} |");
    let found = section.lines().find(|line| line.starts_with(&start)).unwrap();
    found.trim_matches('|').split(" | ").map(str::trim).collect()
}

/// Catches: a report has no contrast, or one that is not pooled over K and temperature; the first
/// verifier of the plan is the reference.
#[test]
fn a_report_has_one_contrast_per_value() {
    let (_folder, text) = reported(&two_verifiers(1.25));
    let verifier = line(&text, "verifier", "traversal");
    assert_eq!(verifier[2..6], ["rejection", "4", "16", "1.000"], "{verifier:?}");
    // The rounds are the same, the times 1.25 times as long on every prompt.
    assert_eq!((verifier[7], verifier[9]), ("0.800", "slower"), "{verifier:?}");
    assert_eq!(line(&text, "temperature", "1")[3], "4");
    assert_eq!(line(&text, "num_speculative_tokens", "3")[2..4], ["1", "4"]);
    assert!(text.find("## One axis at a time") < text.find("## All cells"));
    // Traversal comes first in the plan, and rejection takes longer.
    let mut swapped = two_verifiers(1.25);
    for cell in swapped.plan.cells.iter_mut().filter(|cell| cell.method.drafter == "model") {
        let first = cell.method.verifier == "rejection";
        cell.point.method.verifier = if first { "traversal" } else { "rejection" }.to_owned();
    }
    let (_folder, text) = reported(&swapped);
    let verifier = line(&text, "verifier", "traversal");
    assert_eq!((verifier[2], verifier[7], verifier[9]), ("rejection", "1.250", "faster"));
    let mut set = two_verifiers(1.25);
    set.plan.clock = "virtual".to_owned();
    let (_folder, text) = reported(&set);
    let verifier = line(&text, "verifier", "traversal");
    assert_eq!(verifier[5..], ["1.000", "1.0000", "–", "–", "withheld: times are set"]);
}

/// Catches: the contrast of a tape is not that of its cells.
#[test]
fn a_tape_gives_the_contrast_exactly() {
    let folder = TapeFolder::new();
    let tape = folder.scored();
    let file = folder.path("forecast.csv");
    stdout(&["forecast", &tape, "--csv", &file]);
    let mut reader = csv::Reader::from_path(&file).unwrap();
    let rows = reader.deserialize::<specdec::tapes::forecasting::ForecastRow>().map(Result::unwrap);
    let rows = rows.filter(|row| SHOWN_KS.contains(&row.num_speculative_tokens));
    let rows = rows.collect::<Vec<_>>();
    let logs = |verifier: &str| {
        let own = rows.iter().filter(|row| row.verifier == verifier);
        own.map(|row| row.block_efficiency.unwrap().ln()).collect::<Vec<_>>()
    };
    let (block, token) = (logs("traversal"), logs("rejection"));
    // Two drafters, two temperatures and four K.
    assert_eq!((block.len(), token.len()), (16, 16));
    let mean = (block.iter().sum::<f64>() - token.iter().sum::<f64>()) / 16.0;
    let json = serde_json::from_str::<Value>(&stdout(&["forecast", &tape, "--json"])).unwrap();
    let contrasts = json["contrasts"].as_array().unwrap();
    let of = |value: &str| contrasts.iter().find(|contrast| contrast["value"] == value).unwrap();
    let own = of("traversal");
    assert_eq!((&own["axis"], &own["against"]), (&"verifier".into(), &"rejection".into()));
    assert_eq!((&own["pairs"], &own["speedup_ratio"]), (&16.into(), &Value::Null));
    let ratio = own["block_efficiency_ratio"].as_f64().unwrap();
    assert!((ratio - mean.exp()).abs() < 1e-12, "{own}: {}", mean.exp());
    // Block verification accepts no less on any prompt.
    assert!(ratio > 1.0 && own["block_efficiency_ratio_lo"].as_f64().unwrap() > 1.0, "{own}");
    assert!(of("1")["axis"] == "temperature", "{contrasts:?}");
    let text = stdout(&["forecast", &tape]);
    let shown = format!("verifier: traversal has {ratio:.3} [");
    assert!(text.contains(&shown), "{shown} in {text}");
    let docs = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/tape.md")).unwrap();
    for key in own.as_object().unwrap().keys().map(|key| key.trim_end_matches("_lo")) {
        let key = key.trim_end_matches("_hi");
        assert!(docs.contains(&format!("`{key}`")), "docs/tape.md does not explain {key}");
    }
}

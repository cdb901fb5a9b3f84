//! Figures compare cells at one K, or print the K of each.

use std::collections::BTreeSet;
use std::fs;

use specdec::run::report::report;

use crate::figures::{drawn, imitate};
use crate::report::written;
use crate::synthetic::{Rows, Synthetic};

/// Rejection sampling and block verification of the same drafts, at several K and temperatures.
fn two_verifiers(lengths: &[usize]) -> Rows {
    let run = Synthetic {
        draft_lengths: lengths.to_vec(),
        temperatures: vec![0.0, 0.5, 1.0],
        prompts: 8,
        ..Synthetic::tiny()
    };
    imitate(2, run, |i, cell| {
        cell.point.method.drafter = "model".to_owned();
        cell.point.method.verifier = ["rejection", "traversal"][i].to_owned();
    })
}

/// Makes the cells of a method at one K slower by a factor; `name` is that of the imitated drafter.
fn slow(rows: &mut Rows, name: &str, k: usize, factor: f64) {
    let prefix = format!("{name}-{k}-");
    for row in rows.rounds.iter_mut().filter(|row| row.cell.starts_with(&prefix)) {
        row.target_us *= factor;
    }
    for generation in rows.generations.iter_mut().filter(|row| row.cell.starts_with(&prefix)) {
        let own = rows
            .rounds
            .iter()
            .filter(|row| (&row.cell, &row.prompt) == (&generation.cell, &generation.prompt));
        let us = own.map(|r| r.draft_us + r.target_us + r.verify_us + r.other_us);
        generation.decode_us = us.sum();
    }
}

/// The K of the cells that a figure of the page shows.
fn shown_ks(rows: &Rows, figure: &str) -> BTreeSet<usize> {
    let folder = written(rows);
    report(folder.path()).unwrap();
    let page = fs::read_to_string(folder.path().join("report.html")).unwrap();
    let figure = page.split(&format!("<figure id=\"figure-{figure}\">")).nth(1).unwrap();
    let figure = figure.split("</figure>").next().unwrap();
    let keys = figure.split("data-key=\"").skip(1).map(|rest| rest.split('"').next().unwrap());
    let keys = keys.collect::<BTreeSet<_>>();
    let cells = rows.plan.cells.iter().filter(|cell| keys.contains(cell.id.as_str()));
    cells.map(|cell| cell.method.num_speculative_tokens).collect()
}

/// Catches: every point is at its own fastest K, so that a curve compares the K of two verifiers.
#[test]
fn curves_over_a_setting_have_one_k() {
    let mut rows = two_verifiers(&[1, 2, 4]);
    // Rejection sampling would be at K = 2, block verification at K = 1 or 4.
    slow(&mut rows, "a", 4, 3.0);
    slow(&mut rows, "a", 1, 3.0);
    slow(&mut rows, "b", 2, 1.2);
    let ks = shown_ks(&rows, "by_temperature");
    assert_eq!(ks.len(), 1, "{ks:?}");
    let k = ks.first().unwrap();
    let figure = drawn(&rows).get("by_temperature");
    assert!(figure.texts().any(|text| text == format!("At K = {k}.")), "the figure names no K");
    // The K is the fastest over both verifiers, which differ in nothing but K = 2 here.
    assert_eq!(*k, 2);
}

/// Catches: the K of a curve is chosen by times of a virtual clock.
#[test]
fn curves_have_the_largest_k_if_times_are_set() {
    let mut rows = two_verifiers(&[1, 2, 4]);
    slow(&mut rows, "a", 4, 3.0);
    slow(&mut rows, "b", 4, 3.0);
    assert_ne!(shown_ks(&rows, "by_temperature"), BTreeSet::from([4]));
    rows.plan.clock = "virtual".to_owned();
    assert_eq!(shown_ks(&rows, "by_temperature"), BTreeSet::from([4]));
}

/// Catches: lines without a K in common are drawn without their K, or not at all.
#[test]
fn lines_without_a_common_k_name_their_own() {
    let mut rows = two_verifiers(&[2, 4]);
    let stray = |id: &str| id.starts_with("a-4-") || id.starts_with("b-2-");
    rows.plan.cells.retain(|cell| !stray(&cell.id));
    rows.rounds.retain(|row| !stray(&row.cell));
    rows.generations.retain(|row| !stray(&row.cell));
    let figures = drawn(&rows);
    let figure = figures.get("by_temperature");
    let legend = figure.legend().into_iter().map(|(label, _)| label).collect::<Vec<_>>();
    assert_eq!(legend[..2], ["rejection, K = 2", "traversal, K = 4"]);
    // One K for each method, but not the same one: rows that compare them print it.
    for name in ["methods", "categories"] {
        let figure = figures.get(name);
        for label in ["rejection, K = 2", "traversal, K = 4"] {
            assert!(figure.texts().any(|text| text.contains(label)), "{name} lacks {label}");
        }
    }
}

/// Catches: a second verifier takes alpha out of the figure.
#[test]
fn several_verifiers_have_alpha() {
    let [several, one] = [two_verifiers(&[2, 4]), Synthetic::tiny().rows()];
    for rows in [several, one] {
        let figure = drawn(&rows).get("methods");
        assert!(figure.heads().contains(&"alpha"), "{:?}", figure.heads());
    }
}

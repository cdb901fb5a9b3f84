//! Captions, notes and labels of figures, and which files a report writes and removes.

use std::fs;

use specdec::params::{Params, Value};
use specdec::report::report;
use specdec::rows::RoundRow;

use crate::figures::{drawn, imitate};
use crate::report::{reported, written};
use crate::synthetic::{Rows, Synthetic};

#[test]
fn policies_with_several_draft_lengths_are_labelled_with_k() {
    let run = Synthetic { draft_lengths: vec![4, 8], prompts: 8, ..Synthetic::tiny() };
    let mut rows = imitate(3, run, |i, cell| {
        cell.method.drafter = "model".to_owned();
        cell.method.length = ["fixed", "adaedl", "entropy"][i].to_owned();
    });
    let dropped = |cell: &str| cell.starts_with("c-8");
    rows.plan.cells.retain(|c| !dropped(&c.id));
    rows.rounds.retain(|r| !dropped(&r.cell));
    rows.generations.retain(|g| !dropped(&g.cell));
    let figure = drawn(&rows).get("policies");
    let count = |label: &str| figure.texts().filter(|text| *text == label).count();
    // One label per temperature.
    assert_eq!(["adaedl, K = 4", "adaedl, K = 8", "entropy"].map(count), [2, 2, 2]);
}

#[test]
fn captions_mention_only_what_is_drawn() {
    let caption = |rows: &Rows| {
        let (_folder, text) = reported(rows);
        assert!(!text.contains("dashed") && !text.contains("diamonds"), "{text}");
        let found = text.lines().find(|line| line.starts_with("*By `temperature`: "));
        found.unwrap().to_owned()
    };
    let run = Synthetic {
        draft_lengths: vec![3],
        temperatures: vec![0.0, 0.5, 1.0],
        ..Synthetic::tiny()
    };
    let mut rows = run.rows();
    assert!(caption(&rows).contains("`: alpha, tokens per target pass, speedup"));
    // Trees have no alpha.
    let full = |r: &&mut RoundRow| r.proposed == 3 && r.accepted < 3;
    rows.rounds.iter_mut().filter(full).for_each(|r| r.depth = 2);
    assert!(caption(&rows).contains("`: tokens per target pass, speedup"));
}

#[test]
fn figures_state_which_sampling_settings_are_left_out() {
    let run = Synthetic {
        draft_lengths: vec![4],
        temperatures: (0..70).map(|i| f64::from(i) / 10.0).collect(),
        prompts: 2,
        ..Synthetic::tiny()
    };
    let mut rows = imitate(2, run, |_, cell| cell.class = "X".to_owned());
    rows.rounds.iter_mut().for_each(|r| r.tv_sum = Some(0.01 * r.forks as f64));
    let figures = drawn(&rows);
    let says = |figure: &str, note: &str| {
        let figure = figures.get(figure);
        assert!(
            figure.texts().any(|text| text == note),
            "{:?}",
            figure.texts().collect::<Vec<_>>()
        );
    };
    says("methods", "60 of 140 cells: the fastest of the first 60 of 70 sampling settings.");
    says("frontier", "The first 12 of 70 sampling settings.");
}

#[test]
fn the_frontier_joins_points_in_order_of_distance() {
    let run = Synthetic { draft_lengths: vec![4], temperatures: vec![1.0], ..Synthetic::tiny() };
    let distances = [0.03, 0.01, 0.02];
    let mut rows = imitate(3, run, |i, cell| {
        (cell.method.drafter, cell.class) = ("model".to_owned(), "X".to_owned());
        cell.method.params =
            Params::default().with("draft_temperature", Value::Number(1.0 + i as f64));
    });
    for round in &mut rows.rounds {
        let tv = ["a", "b", "c"].iter().position(|name| round.cell.starts_with(name));
        round.tv_sum = tv.map(|i| distances[i] * round.forks as f64);
    }
    let folder = written(&rows);
    report(folder.path()).unwrap();
    let svg = fs::read_to_string(folder.path().join("figures/frontier.svg")).unwrap();
    let across = |path: &str| {
        let numbers = path.split('"').next().unwrap_or_default().split_whitespace();
        let numbers = numbers.filter_map(|part| part.parse::<f64>().ok()).collect::<Vec<_>>();
        numbers.chunks(2).map(|at| at[0]).collect::<Vec<_>>()
    };
    let lines = svg.split(" d=\"").skip(1).map(across).filter(|x| x.len() == 3);
    let lines = lines.collect::<Vec<_>>();
    assert!(!lines.is_empty(), "{svg}");
    assert!(lines.iter().all(|x| x.is_sorted()), "{lines:?}");
}

#[test]
fn stale_figures_are_removed_and_other_files_are_kept() {
    let folder = written(&Synthetic { draft_lengths: vec![1, 2, 3], ..Synthetic::tiny() }.rows());
    report(folder.path()).unwrap();
    let figures = folder.path().join("figures");
    assert!(figures.join("speedup.svg").is_file() && figures.join("speedup.png").is_file());
    let stale = ["frontier.svg", "frontier.png", "by_top_k.png"];
    let kept = ["mine.png", "frontier.txt", "frontier.pdf"];
    for name in stale.iter().chain(&kept) {
        fs::write(figures.join(name), "old").unwrap();
    }
    fs::create_dir(figures.join("policies.png")).unwrap();
    report(folder.path()).unwrap();
    assert!(stale.iter().all(|name| !figures.join(name).exists()));
    assert!(kept.iter().all(|name| figures.join(name).exists()));
    assert!(figures.join("policies.png").is_dir() && figures.join("speedup.svg").is_file());
}

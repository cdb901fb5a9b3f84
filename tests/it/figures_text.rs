//! Captions, notes and labels of figures, and which files a report writes and removes.

use std::collections::BTreeSet;
use std::fs;

use specdec::core::params::{Params, Value};
use specdec::measure::rows::RoundRow;
use specdec::run::report::report;

use crate::figures::{drawn, imitate};
use crate::figures_support::{Drawing, Element};
use crate::report::{FIGURES, reported, written};
use crate::synthetic::{Rows, Synthetic};

#[test]
fn policies_with_several_draft_lengths_are_labelled_with_k() {
    let run = Synthetic { draft_lengths: vec![4, 8], prompts: 8, ..Synthetic::tiny() };
    let mut rows = imitate(3, run, |i, cell| {
        cell.point.method.drafter = "model".to_owned();
        cell.point.method.length = ["fixed", "adaedl", "entropy"][i].to_owned();
    });
    let dropped = |cell: &str| cell.starts_with("c-8");
    rows.plan.cells.retain(|c| !dropped(&c.id));
    rows.rounds.retain(|r| !dropped(&r.cell));
    rows.generations.retain(|g| !dropped(&g.cell));
    let figure = drawn(&rows).get("policies");
    let count = |label: &str| figure.texts().filter(|text| *text == label).count();
    // One label per temperature.
    assert_eq!(["adaedl, K = 4", "adaedl, K = 8", "entropy, K = 4"].map(count), [2, 2, 2]);
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
        (cell.point.method.drafter, cell.class) = ("model".to_owned(), "X".to_owned());
        cell.point.method.params =
            Params::default().with("draft_temperature", Value::Number(1.0 + i as f64));
    });
    for round in &mut rows.rounds {
        let tv = ["a", "b", "c"].iter().position(|name| round.cell.starts_with(name));
        round.tv_sum = tv.map(|i| distances[i] * round.forks as f64);
    }
    let frontier = drawn(&rows).get("frontier");
    let lines = frontier.elements.iter().filter(|e| e.points.len() == 3);
    let across = lines.map(|e| e.points.iter().map(|at| at.0).collect::<Vec<_>>());
    let lines = across.collect::<Vec<_>>();
    assert!(!lines.is_empty());
    assert!(lines.iter().all(|x| x.is_sorted()), "{lines:?}");
}

#[test]
fn figure_files_stand_alone_and_have_a_title_and_marks() {
    let (folder, text) = reported(&Synthetic::large().rows());
    for name in FIGURES {
        assert!(text.contains(&format!("(figures/{name}.svg)")), "{name}");
        let svg = fs::read_to_string(folder.path().join(format!("figures/{name}.svg"))).unwrap();
        let (root, rest) = svg.split_once('>').unwrap();
        let figure = Drawing::of(&svg);
        let view = format!(" viewBox=\"0 0 {} {}\"", figure.width, figure.height);
        assert!(root.contains(" xmlns=\"http://www.w3.org/2000/svg\"") && root.contains(&view));
        assert!(root.contains(" font-family=\"DejaVu Sans, "), "{root}");
        let background = "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>";
        assert!(rest.starts_with(background), "{name}");
        let asks = ["href", "url(", "var(", "<style", "<script", "class="];
        assert!(!asks.iter().any(|word| svg.contains(word)), "{name}");
        let title = figure.elements.iter().find(|e| e.text.is_some()).unwrap();
        assert_eq!((title.size, title.colour.as_str()), (16, "#1a1a1a"), "{name}");
        assert!(title.bounds[3] < 40.0, "{name}");
        let marks = figure.elements.iter().filter(|e| e.text.is_none());
        let colours = marks.map(|e| &e.colour).collect::<BTreeSet<_>>();
        assert!(colours.len() > 3, "{name}: {colours:?}");
    }
}

#[test]
fn pages_show_the_drawings_of_the_files_in_colours_that_darken() {
    let (folder, _) = reported(&Synthetic::large().rows());
    let page = fs::read_to_string(folder.path().join("report.html")).unwrap();
    let figures = page.split("<figure id=\"figure-").skip(1);
    let figures = figures.map(|figure| {
        let (name, rest) = figure.split_once('"').unwrap();
        let inline = rest.split_once("<div class=\"wide\">").unwrap().1.split("</div>").next();
        (name, Drawing::of(inline.unwrap()))
    });
    for (name, inline) in figures {
        let path = folder.path().join(format!("figures/{name}.svg"));
        let file = Drawing::of(&fs::read_to_string(path).unwrap());
        assert_eq!(inline.elements.len(), file.elements.len(), "{name}");
        for (inline, file) in inline.elements.iter().zip(&file.elements) {
            let shape = |e: &Element| (e.bounds, e.text.clone(), e.size, e.points.clone());
            assert_eq!(shape(inline), shape(file), "{name}");
            let variable = inline.colour.strip_prefix("var(--c-").unwrap().trim_end_matches(')');
            // On a dark page, labels in the colour of a curve would be too faint.
            let own = if inline.text.is_some() && file.colour != "#555555" {
                "1a1a1a"
            } else {
                file.colour.trim_start_matches('#')
            };
            assert_eq!(variable, own, "{name}");
            // On a light page and on a dark one.
            let defined = page.matches(&format!("--c-{variable}:#")).count();
            assert_eq!(defined, 2, "{name}: {variable}");
        }
    }
}

#[test]
fn stale_figures_are_removed_and_other_files_are_kept() {
    let folder = written(&Synthetic { draft_lengths: vec![1, 2, 3], ..Synthetic::tiny() }.rows());
    report(folder.path()).unwrap();
    let figures = folder.path().join("figures");
    assert!(figures.join("speedup.svg").is_file());
    let stale = ["frontier.svg", "frontier.png", "by_top_k.png", "speedup.png"];
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

/// Catches: a folder that version control would drop, so that a report made again has one more.
#[test]
fn a_run_that_has_nothing_to_draw_has_no_folder_of_figures() {
    let rows = Synthetic { draft_lengths: vec![], ..Synthetic::tiny() }.rows();
    let folder = written(&rows);
    report(folder.path()).unwrap();
    assert!(!folder.path().join("figures").exists());
    assert!(folder.path().join("report.md").is_file());
}

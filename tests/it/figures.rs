//! Figures of runs of every shape: what is drawn, and that all of it is legible.

use std::fs;
use std::path::{Path, PathBuf};

use specdec::core::params::{Params, Value};
use specdec::run::experiment::Cell;
use specdec::run::report::{load, report};
use tempfile::TempDir;

use crate::figures_support::Drawing;
use crate::report::written;
use crate::synthetic::{Rows, Synthetic};

/// Draws the figures of a run and asserts that they have no faults.
#[track_caller]
pub(crate) fn drawn(rows: &Rows) -> Figures {
    let folder = written(rows);
    report(folder.path()).unwrap();
    let figures = Figures(folder);
    let faults = figures.faults();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    figures
}

pub(crate) struct Figures(TempDir);

impl Figures {
    fn names(&self) -> Vec<String> {
        let files = svgs(self.0.path());
        files.iter().map(|f| f.file_stem().unwrap().to_string_lossy().into_owned()).collect()
    }

    #[track_caller]
    pub(crate) fn get(&self, name: &str) -> Drawing {
        let path = self.0.path().join(format!("figures/{name}.svg"));
        Drawing::of(&fs::read_to_string(path).unwrap_or_else(|_| panic!("no figure {name}")))
    }

    fn faults(&self) -> Vec<String> {
        faults(self.0.path())
    }
}

fn svgs(folder: &Path) -> Vec<PathBuf> {
    // A run with nothing to draw has no folder of figures.
    let files = fs::read_dir(folder.join("figures")).into_iter().flatten();
    let files = files.map(|entry| entry.unwrap().path());
    let mut files = files.filter(|f| f.extension().is_some_and(|e| e == "svg")).collect::<Vec<_>>();
    files.sort();
    files
}

fn faults(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for path in svgs(folder) {
        let drawing = Drawing::of(&fs::read_to_string(&path).unwrap());
        let faults = drawing.faults().into_iter().take(5);
        found.extend(faults.map(|fault| format!("{}: {fault}", path.display())));
    }
    found
}

/// A run of this number of methods; `change` turns each into the method that it imitates.
pub(crate) fn imitate(
    methods: usize,
    synthetic: Synthetic,
    change: impl Fn(usize, &mut Cell),
) -> Rows {
    const NAMES: [&str; 22] = [
        "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r",
        "s", "t", "u", "v",
    ];
    let mut rows = Synthetic { drafters: NAMES[..methods].to_vec(), ..synthetic }.rows();
    for cell in rows.plan.cells.iter_mut().filter(|c| c.method.drafter != "none") {
        let i = NAMES.iter().position(|name| *name == cell.method.drafter).unwrap();
        change(i, cell);
    }
    rows
}

/// Chains at several K, and many kinds of trees at a single K.
fn verifiers() -> Rows {
    let run = Synthetic {
        draft_lengths: vec![1, 2, 4, 8],
        temperatures: vec![0.0, 1.0, 1.5],
        prompts: 6,
        ..Synthetic::tiny()
    };
    let mut rows = imitate(21, run, |i, cell| {
        let verifiers = ["rejection", "traversal", "token_match", "k_seq", "greedy_multi"];
        cell.point.method.verifier = verifiers[i % if i < 3 { 3 } else { 5 }].to_owned();
        cell.point.method.drafter = if i < 3 { "model" } else { "model_tree" }.to_owned();
        if i >= 3 {
            let siblings = ["independent", "distinct", "hub", "last_sampled"][i % 4];
            let tree = format!("{},{},1", i / 4, i % 3);
            let params = Params::default().with("siblings", Value::Text(siblings.to_owned()));
            cell.point.method.params = params.with("tree", Value::Text(tree));
        }
    });
    rows.plan
        .cells
        .retain(|c| c.method.drafter != "model_tree" || c.method.num_speculative_tokens == 1);
    let kept = rows.plan.cells.iter().map(|c| c.id.clone()).collect::<Vec<_>>();
    rows.generations.retain(|g| kept.contains(&g.cell));
    rows.rounds.retain(|r| kept.contains(&r.cell));
    rows
}

#[test]
fn methods_without_a_curve_appear_only_in_the_methods_figure() {
    let figures = drawn(&verifiers());
    for name in ["speedup", "acceptance", "survival"] {
        let figure = figures.get(name);
        assert_eq!(figure.heads(), ["T = 0", "T = 1", "T = 1.5"], "{name}");
        let trees = figure.texts().filter(|text| text.contains("model_tree")).count();
        assert_eq!(trees, 0, "{name}: a single point is not a curve");
    }
    let methods = figures.get("methods");
    assert!(methods.texts().any(|text| text.contains("siblings = hub")));
}

#[test]
fn a_single_draft_length_is_plotted_over_other_settings_instead() {
    let run = Synthetic {
        draft_lengths: vec![4],
        temperatures: vec![0.0, 0.25, 0.5, 0.75, 1.0],
        prompts: 6,
        ..Synthetic::tiny()
    };
    let rows = imitate(7, run, |i, cell| {
        cell.point.method.drafter = "model".to_owned();
        cell.point.method.params =
            Params::default().with("draft_temperature", Value::Number(0.25 * i as f64));
    });
    let figures = drawn(&rows);
    let names = figures.names();
    assert!(!names.iter().any(|n| n == "speedup" || n == "acceptance"), "{names:?}");
    let labels = |name: &str| {
        let figure = figures.get(name);
        let legend = figure.legend().into_iter();
        legend.map(|(label, _)| label.to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(labels("by_draft_temperature")[..3], ["T = 0", "T = 0.25", "T = 0.5"]);
    assert_eq!(labels("by_temperature")[0], "draft_temperature = 0");
}

#[test]
fn figures_state_by_which_rule_methods_and_settings_are_cut() {
    let run = Synthetic {
        draft_lengths: vec![1, 2, 3],
        temperatures: (0..20).map(|i| f64::from(i) / 10.0).collect(),
        prompts: 2,
        ..Synthetic::tiny()
    };
    let figures = drawn(&imitate(20, run, |_, _| {}));
    let speedup = figures.get("speedup");
    assert_eq!(speedup.heads().len(), 12);
    let text = speedup.texts().collect::<Vec<_>>().join(" ");
    assert!(text.contains("8 of 20 methods: the fastest."), "{text}");
    assert!(text.contains("12 of 20 sampling settings"), "{text}");
    let colours = speedup.legend().into_iter().filter(|(label, _)| label.len() == 1);
    let colours = colours.map(|(_, colour)| colour.to_owned()).collect::<Vec<_>>();
    let distinct = colours.iter().collect::<std::collections::BTreeSet<_>>();
    assert_eq!((colours.len(), distinct.len()), (8, 8));
    let methods = figures.get("methods");
    assert!(
        methods
            .texts()
            .any(|text| text.starts_with("60 of 400 cells: the fastest of every sampling setting"))
    );
}

#[test]
fn many_methods_under_few_settings_have_a_panel_each() {
    let run = Synthetic { draft_lengths: vec![4, 8], prompts: 6, ..Synthetic::tiny() };
    let figures =
        drawn(&imitate(11, run, |i, cell| cell.point.method.drafter = format!("drafter_{i}")));
    assert!(!figures.names().contains(&"speedup".to_owned()), "two lengths are not a curve");
    let survival = figures.get("survival");
    assert_eq!(survival.heads().len(), 11);
    let legend = survival.legend().into_iter().map(|(label, _)| label).collect::<Vec<_>>();
    assert_eq!(legend, ["T = 0", "T = 1"]);
}

/// A run whose prompts are spread over these categories.
fn categories(names: &[String]) -> Rows {
    let run = Synthetic { prompts: 2 * names.len(), ..Synthetic::tiny() };
    let mut rows = run.rows();
    for generation in &mut rows.generations {
        let prompt = generation.prompt.trim_start_matches("prompt-").parse::<usize>().unwrap();
        generation.category = names[prompt % names.len()].clone();
    }
    rows
}

#[test]
fn at_most_twelve_categories_are_shown() {
    let name = |i: usize| format!("a category with a rather long name {i:02}");
    let twelve = (0..12).map(name).collect::<Vec<_>>();
    let figure = drawn(&categories(&twelve)).get("categories");
    assert!(!figure.texts().any(|text| text.contains("categories:")));
    let thirteen = (0..13).map(name).collect::<Vec<_>>();
    let figure = drawn(&categories(&thirteen)).get("categories");
    assert!(figure.texts().any(|t| t == "12 of 13 categories: those with the most prompts."));
}

#[test]
fn long_names_are_shortened_and_special_characters_escaped() {
    let long = "a_method_whose_name_has_no_end_and_no_space".repeat(4);
    let run = Synthetic { draft_lengths: vec![1, 2, 3, 4], prompts: 4, ..Synthetic::tiny() };
    let mut rows = imitate(3, run, |i, cell| cell.point.method.drafter = format!("{long}_{i}"));
    let categories = ["<b>&\"'", "\u{1b}[31mred\u{7}", "$\\alpha$\u{202e}", "日本語の長い名前"];
    for generation in &mut rows.generations {
        let prompt = generation.prompt.trim_start_matches("prompt-").parse::<usize>().unwrap();
        generation.category = categories[prompt].to_owned();
    }
    let figures = drawn(&rows);
    let svg = fs::read_to_string(figures.0.path().join("figures/categories.svg")).unwrap();
    assert!(!svg.contains("<b>") && !svg.chars().any(|c| c.is_control() || c == '\u{202e}'));
    let figure = figures.get("categories");
    let heads = figure.heads();
    assert!(heads.contains(&"<b>&\"'") && heads.contains(&"$\\alpha$\u{fffd}"), "{heads:?}");
    assert!(figures.get("speedup").texts().any(|text| text.ends_with('…')));
}

#[test]
fn small_multiples_share_their_axes() {
    let figures = drawn(&Synthetic::large().rows());
    let speedup = figures.get("speedup");
    let count = |text: &str| speedup.texts().filter(|t| *t == text).count();
    assert_eq!((count("1.5"), count("8")), (1, 3), "ticks at the left, and below every panel");
    assert_eq!(count("speedup over plain decoding (×)"), 1);
    assert_eq!(count("draft length K (tokens)"), 1);
}

#[test]
fn a_method_has_the_same_colour_in_all_figures() {
    let run = Synthetic { draft_lengths: vec![1, 2, 4], prompts: 6, ..Synthetic::tiny() };
    let run = Synthetic { temperatures: vec![0.0, 0.5, 1.0], ..run };
    let figures =
        drawn(&imitate(6, run, |i, cell| cell.point.method.drafter = format!("drafter_{i}")));
    let colours = |name: &str| {
        let figure = figures.get(name);
        let legend = figure.legend().into_iter().filter(|(label, _)| label.starts_with("drafter"));
        let mut legend =
            legend.map(|(label, colour)| (label.to_owned(), colour.to_owned())).collect::<Vec<_>>();
        legend.sort();
        legend
    };
    let first = colours("speedup");
    assert_eq!(first.len(), 6);
    for name in ["acceptance", "survival", "by_temperature"] {
        assert_eq!(colours(name), first, "{name}");
    }
}

#[test]
fn method_names_mention_only_settings_that_differ() {
    let run = Synthetic { draft_lengths: vec![1, 2, 4], prompts: 4, ..Synthetic::tiny() };
    // gumbel_lists differs, but drafter and verifier already distinguish the methods.
    let change = |i: usize, cell: &mut Cell| {
        cell.point.method.drafter = ["model", "model", "model_tree"][i].to_owned();
        cell.point.method.verifier = ["rejection", "gumbel", "gumbel"][i].to_owned();
        cell.point.method.params = match i {
            0 => Params::default(),
            _ => Params::default().with("gumbel_lists", Value::Count(i)),
        };
    };
    let rows = imitate(3, run.clone(), change);
    let folder = written(&rows);
    let results = load(folder.path()).unwrap();
    let names = results.series().map(|s| s.first().name.clone()).collect::<Vec<_>>();
    assert_eq!(names[..3], ["model + rejection", "model + gumbel", "model_tree + gumbel"]);
    drawn(&rows);
    // The same method with and without a setting counts as two methods.
    let rows = imitate(2, run, |i, cell| {
        cell.point.method.drafter = "model".to_owned();
        if i == 1 {
            cell.point.method.params =
                Params::default().with("draft_temperature", Value::Number(0.5));
        }
    });
    let folder = written(&rows);
    let results = load(folder.path()).unwrap();
    let names = results.series().map(|s| s.first().name.clone()).collect::<Vec<_>>();
    assert_eq!(names[..2], ["model", "model, draft_temperature = 0.5"]);
}

#[test]
fn figures_of_committed_runs_are_legible() {
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("results");
    let folders = |parent: &Path| {
        let entries = fs::read_dir(parent).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect::<Vec<_>>()
    };
    let mut runs = folders(&results).iter().flat_map(|e| folders(e)).collect::<Vec<_>>();
    runs.retain(|run| run.join("rounds.csv").is_file());
    // A package of the crate has no results.
    assert!(!runs.is_empty() || !results.join("01-draft-length").is_dir());
    for run in &runs {
        let copy = TempDir::new().unwrap();
        for file in fs::read_dir(run).unwrap().flatten().filter(|f| f.path().is_file()) {
            fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
        }
        report(copy.path()).unwrap();
        let faults = faults(copy.path());
        assert!(faults.is_empty(), "{}: {}", run.display(), faults.join("\n"));
    }
}

#[test]
fn the_legibility_check_finds_bad_figures() {
    let (folder, _) = crate::report::reported(&Synthetic::large().rows());
    let svg = fs::read_to_string(folder.path().join("figures/speedup.svg")).unwrap();
    let faults = |svg: &str| Drawing::of(svg).faults();
    assert_eq!(faults(&svg), Vec::<String>::new());
    let clipped = svg.replace("width=\"800\"", "width=\"700\"");
    assert!(
        faults(&clipped).iter().any(|f| f.contains("off the canvas")),
        "{:?}",
        faults(&clipped)
    );
    let short = svg.replace("draft length K (tokens)", &"draft length ".repeat(30));
    assert!(!faults(&short).is_empty());
    // A title that reaches its neighbour.
    let long = svg.replace(">T = 0<", ">model_tree + rejection, siblings = independent, tree = 2<");
    assert!(faults(&long).iter().any(|f| f.contains("lie on each other")), "{:?}", faults(&long));
    let tall = svg.replacen("height=\"", "height=\"7", 1);
    assert!(faults(&tall).iter().any(|f| f.contains("pixels tall")), "{:?}", faults(&tall));
}

#[test]
fn the_legend_layout_matches_the_true_width_of_texts() {
    let printable = ('!'..='~').collect::<Vec<_>>();
    let names = printable.chunks(12).map(|chars| chars.iter().collect::<String>());
    let names = names.collect::<Vec<_>>();
    let run = Synthetic { draft_lengths: vec![1, 2, 4], prompts: 2, ..Synthetic::tiny() };
    let figures =
        drawn(&imitate(names.len(), run, |i, cell| cell.point.method.drafter = names[i].clone()));
    let speedup = figures.get("speedup");
    let labels =
        speedup.elements.iter().filter(|e| names.iter().any(|n| e.text.as_ref() == Some(n)));
    let labels = labels.map(|e| e.bounds).collect::<Vec<_>>();
    assert_eq!(labels.len(), names.len());
    for pair in labels.windows(2).filter(|pair| pair[0][1] == pair[1][1]) {
        // The width of a legend sample plus the space between entries; both positions are
        // rounded to a tenth of a pixel.
        let apart = pair[1][0] - pair[0][2];
        assert!((apart - 42.0).abs() < 0.11, "{apart}");
    }
}

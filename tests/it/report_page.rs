//! `report.html`: the same report as `report.md`, in one file that asks for nothing.

mod example;
mod labels;
mod microscope;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use serde_json::Value;
use sha2::{Digest, Sha256};
use specdec::checkpoint::load;
use specdec::measure::rows::TraceRow;
use specdec::model::Role;
use specdec::run::report::{load as load_run, report};

use crate::experiment_support::run_smoke;
use crate::report::{reported, summary, written};
use crate::report_verdicts::stretch;
use crate::synthetic::Synthetic;

fn page(folder: &Path) -> String {
    fs::read_to_string(folder.join("report.html")).unwrap()
}

/// The contents of the elements between two texts.
fn between<'t>(text: &'t str, from: &str, to: &str) -> Vec<&'t str> {
    let parts = text.split(from).skip(1);
    parts.map(|part| part.split_once(to).unwrap_or_else(|| panic!("no {to}")).0).collect()
}

/// Text as a reader sees it.
fn read(html: &str) -> String {
    let mut text = html.to_owned();
    for (code, c) in
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")]
    {
        text = text.replace(code, c);
    }
    text
}

/// The rows of all tables in Markdown, without their heads.
fn rows_of_markdown(text: &str) -> Vec<Vec<String>> {
    let lines = text.lines().collect::<Vec<_>>();
    let ruled = |i: usize| lines[i].starts_with("| --");
    let mut rows = Vec::new();
    for i in (0..lines.len()).filter(|&i| lines[i].starts_with("| ") && !ruled(i)) {
        if i + 1 < lines.len() && ruled(i + 1) {
            continue;
        }
        let cells = lines[i].trim_start_matches("| ").trim_end_matches(" |").split(" | ");
        rows.push(cells.map(|cell| cell.trim_matches(' ').replace('\\', "")).collect());
    }
    rows
}

/// The rows of all tables of the page.
fn rows_of_page(text: &str) -> Vec<Vec<String>> {
    let main = text.split("id=\"microscope\"").next().unwrap();
    let bodies = between(main, "<tbody>", "</tbody>");
    let rows = bodies.into_iter().flat_map(|body| between(body, "<tr", "</tr>"));
    let cells = |row: &str| {
        let cells = between(row, "<td", "</td>").into_iter();
        cells.map(|cell| read(cell.split_once('>').unwrap().1)).collect()
    };
    rows.map(cells).collect()
}

fn data(page: &str) -> Value {
    let json = between(page, "id=\"data\">", "</script>");
    serde_json::from_str(json[0]).unwrap()
}

#[test]
fn both_forms_of_a_report_have_the_same_tables() {
    let (folder, text) = reported(&Synthetic::large().rows());
    let (markdown, html) = (rows_of_markdown(&text), rows_of_page(&page(folder.path())));
    assert!(markdown.len() > 50, "{} rows", markdown.len());
    assert_eq!(markdown.len(), html.len());
    for (one, other) in markdown.iter().zip(&html) {
        assert_eq!(one, other);
    }
}

/// Catches: the exact value is the lower end of the interval.
#[test]
fn the_page_has_the_digits_behind_the_numbers() {
    let (folder, _) = reported(&Synthetic::large().rows());
    let page = page(folder.path());
    let mut seen = 0;
    for cell in between(&page, "<td", "</td>") {
        let Some((_, exact)) = cell.split_once("data-v=\"") else { continue };
        let exact = exact.split('"').next().unwrap().parse::<f64>().unwrap();
        let shown = cell.split_once('>').unwrap().1;
        // Where a cell shows two numbers, the exact one is the second.
        let mut words = shown.split([' ', ',']).filter(|word| word.parse::<f64>().is_ok());
        let two = shown.contains(", ") && !shown.contains('[');
        let Some(word) = (if two { words.next_back() } else { words.next() }) else { continue };
        let decimals = word.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        // Six digits are exact to the last one, and the text to half of its own.
        let unit = 0.1_f64.powi(decimals as i32);
        assert!((word.parse::<f64>().unwrap() - exact).abs() <= 0.501 * unit, "{cell}");
        seen += 1;
    }
    assert!(seen > 100, "only {seen} cells have an exact value");
}

/// Catches: the half width is the whole one; the gap is not that of all cells.
#[test]
fn the_cards_have_the_medians_of_the_summary() {
    let (folder, _) = reported(&Synthetic::large().rows());
    let page = page(folder.path());
    let rows = summary(&load_run(folder.path()).unwrap());
    let median = |mut all: Vec<f64>| {
        all.sort_by(f64::total_cmp);
        (all[(all.len() - 1) / 2] + all[all.len() / 2]) / 2.0
    };
    let half = rows
        .iter()
        .filter_map(|row| Some(50.0 * (row.speedup_hi? - row.speedup_lo?) / row.speedup?));
    let sure = format!("<strong>± {:.1} % (median)</strong>", median(half.collect()));
    assert!(page.contains(&sure), "{sure}");
    let gaps = rows.iter().filter_map(|row| Some(row.speedup? / row.predicted_speedup? - 1.0));
    let gaps = gaps.map(|gap| 100.0 * gap.abs()).collect::<Vec<_>>();
    assert_eq!(gaps.len(), 36, "two drafters, six K, three temperatures");
    let gap = format!("<p>Median gap over 36 cells: {:.1} %.</p>", median(gaps));
    assert!(page.contains(&gap), "{gap}");
}

/// Catches: lines that are slower count as faster; cells that ran twice are counted as those that
/// differ.
#[test]
fn the_cards_count_lines_and_cells_that_ran_twice() {
    let mut rows = Synthetic { prompts: 12, ..Synthetic::tiny() }.rows();
    let drafted = rows.plan.cells.clone().into_iter().filter(|cell| !cell.is_baseline());
    for cell in drafted {
        // One of four lines loses.
        let loses = cell.method.drafter == "prompt_lookup" && cell.id.ends_with("-1");
        for prompt in rows.plan.prompts.clone() {
            stretch(&mut rows, &cell.id, &prompt, if loses { 9.0 } else { 0.5 });
        }
    }
    let (folder, _) = reported(&rows);
    let lines = "At their best K, 3 of 4 lines are faster than plain decoding and 1 slower.</p>";
    assert!(page(folder.path()).contains(lines));
    rows.repeat("model-3-1", 1.1);
    rows.repeat("model-3-0", 1.0);
    let (folder, _) = reported(&rows);
    assert!(page(folder.path()).contains("<p>1 of 2 cells that ran twice differ.</p>"));
}

/// Catches: the policy allows any inline script.
#[test]
fn a_page_asks_for_nothing_and_runs_only_its_own_script() {
    let (folder, _) = reported(&Synthetic::large().rows());
    let page = page(folder.path());
    let policy = between(&page, "http-equiv=\"Content-Security-Policy\" content=\"", "\"")[0];
    assert!(policy.starts_with("default-src 'none'; "), "{policy}");
    for (kind, open, close) in
        [("style", "<style>", "</style>"), ("script", "<script>", "</script>")]
    {
        let [text] = between(&page, open, close)[..] else { panic!("one {kind}") };
        let digest = Sha256::digest(text);
        let named = between(policy, &format!("{kind}-src 'sha256-"), "'")[0];
        assert_eq!(decoded(named), digest.to_vec(), "{kind}");
    }
    for asked in
        [" src=", "url(", "@import", "<link", "fetch(", "XMLHttpRequest", " style=\"", " on"]
    {
        let own = page.replace("</script>", "").replace("</style>", "");
        let found = own.match_indices(asked).map(|(at, _)| &own[at..]).find(|rest| {
            // Handlers are attributes: ` onclick=`.
            asked != " on" || rest.split([' ', '>', '\n']).nth(1).unwrap().contains("=\"")
        });
        assert!(
            found.is_none(),
            "{asked}: {}",
            found.unwrap().chars().take(60).collect::<String>()
        );
    }
}

/// The bytes behind base64.
fn decoded(text: &str) -> Vec<u8> {
    let digit = |c: u8| match c {
        b'A'..=b'Z' => u32::from(c - b'A'),
        b'a'..=b'z' => u32::from(c - b'a') + 26,
        b'0'..=b'9' => u32::from(c - b'0') + 52,
        b'+' => 62,
        _ => 63,
    };
    let bytes = text.trim_end_matches('=').as_bytes().chunks(4).flat_map(|four| {
        let bits = four.iter().fold(0, |bits, c| bits << 6 | digit(*c)) << (6 * (4 - four.len()));
        bits.to_be_bytes()[1..four.len()].to_vec()
    });
    bytes.collect()
}

#[test]
fn the_same_rows_give_the_same_page() {
    let rows = Synthetic::large().rows();
    let folder = written(&rows);
    let pages = [0, 1].map(|_| {
        report(folder.path()).unwrap();
        page(folder.path())
    });
    assert!(pages[0] == pages[1]);
}

/// Catches: values of figures belong to no cell.
#[test]
fn values_and_rows_belong_to_cells_that_filters_know() {
    let (folder, _) = reported(&Synthetic::large().rows());
    let page = page(folder.path());
    let cells = &data(&page)["cells"];
    let keys = between(&page, "data-key=\"", "\"").into_iter().collect::<BTreeSet<_>>();
    assert!(keys.len() > 5, "{keys:?}");
    for key in keys {
        assert!(cells[key]["sampling"].is_string(), "{key}");
    }
    let boxes = between(&page, "<input type=\"checkbox\" checked data-of=\"", ">");
    assert!(boxes.len() > 2, "{boxes:?}");
    for of in boxes {
        let (of, value) = of.split_once("\" value=\"").unwrap();
        let value = read(value.trim_end_matches('"'));
        let known = cells.as_object().unwrap().values().any(|cell| cell[of] == value.as_str());
        assert!(known, "no cell has {of} {value}");
    }
}

#[test]
fn runs_without_traces_show_origins_alone() {
    let (folder, _) = reported(&Synthetic::large().rows());
    let data = data(&page(folder.path()));
    let generations = data["generations"].as_array().unwrap();
    assert!(!generations.is_empty());
    for generation in generations {
        assert!(generation["steps"].is_null());
        let emitted = generation["rounds"].as_array().unwrap().iter();
        let emitted = emitted.map(|round| round[2].as_u64().unwrap()).sum::<u64>();
        assert_eq!(emitted as usize, generation["tokens"].as_array().unwrap().len());
    }
}

#[test]
fn a_run_traces_the_first_prompt_of_every_category() {
    let out = tempfile::tempdir().unwrap();
    let target = load("toy:mixed", Role::Target).unwrap().model;
    let running = AtomicBool::new(false);
    let set = ["trace=false", "repeats=2"];
    let folder = run_smoke(target.as_ref(), &["abc", "bb"], &set, &running, out.path());
    let lines = fs::read_to_string(folder.join("traces.jsonl")).unwrap();
    let traced = lines.lines().map(|line| serde_json::from_str::<TraceRow>(line).unwrap());
    let traced = traced.map(|row| (row.prompt, row.repeat)).collect::<BTreeSet<_>>();
    // All prompts are of one category.
    assert_eq!(traced, BTreeSet::from([("abc".to_owned(), 0)]));
    report(&folder).unwrap();
    let data = data(&page(&folder));
    let generations = data["generations"].as_array().unwrap();
    assert_eq!(generations.len(), lines.lines().count());
    let node = generations.iter().flat_map(|g| g["steps"].as_array().unwrap());
    let node = node.filter_map(|step| step["nodes"].get(0)).next().unwrap();
    assert!(node["p"].is_number() && node["acceptance"].is_number());
}

/// Catches: only a round that accepts all drafted tokens has a bonus token.
#[test]
fn a_bonus_token_follows_a_path_that_ends_where_the_tree_does() {
    let out = tempfile::tempdir().unwrap();
    let target = load("toy:mixed", Role::Target).unwrap().model;
    let running = AtomicBool::new(false);
    let set = [
        "sweep.drafter=model_tree",
        "sweep.verifier=rejection",
        "sweep.num_speculative_tokens=2",
        "sweep.tree=3,2",
        "sweep.temperature=1",
        "max_tokens=60",
    ];
    let folder = run_smoke(target.as_ref(), &["abc"], &set, &running, out.path());
    report(&folder).unwrap();
    let data = data(&page(&folder));
    let (mut bonus, mut corrections) = (0, 0);
    for generation in data["generations"].as_array().unwrap() {
        let steps = generation["steps"].as_array().unwrap();
        for (round, step) in generation["rounds"].as_array().unwrap().iter().zip(steps) {
            let Some(nodes) = step["nodes"].as_array() else { continue };
            let accepted = (0..nodes.len()).filter(|&id| nodes[id]["accepted"] == true);
            let last = accepted.max_by_key(|&id| nodes[id]["depth"].as_u64());
            let ends =
                !nodes.iter().any(|node| node["parent"].as_u64() == last.map(|id| id as u64));
            assert_eq!(round[7], u64::from(ends), "{round} {step}");
            if ends { bonus += 1 } else { corrections += 1 }
        }
    }
    assert!(bonus > 3 && corrections > 0, "{bonus} {corrections}");
}

/// Catches: a name can end the script element, or an attribute.
#[test]
fn names_cannot_leave_the_place_where_they_are_shown() {
    let name = "</script><b a=\"'>&";
    let mut rows = Synthetic::large().rows();
    let old = std::mem::replace(&mut rows.plan.prompts[0], name.to_owned());
    for prompt in rows.rounds.iter_mut().map(|row| &mut row.prompt) {
        if *prompt == old {
            *prompt = name.to_owned();
        }
    }
    for row in rows.generations.iter_mut().filter(|row| row.prompt == old) {
        row.prompt = name.to_owned();
        row.category = name.to_owned();
    }
    let (folder, text) = reported(&rows);
    let page = page(folder.path());
    assert!(text.contains("&lt;/script>"));
    assert!(page.contains("&lt;/script&gt;&lt;b a=&quot;&#39;&gt;&amp;"));
    assert_eq!(page.matches("</script").count(), 2);
    assert!(!page.contains("<b a="));
    let named = data(&page)["generations"]
        .as_array()
        .unwrap()
        .iter()
        .any(|generation| generation["name"].as_str().unwrap().starts_with(name));
    assert!(named);
}

/// Catches: generations of any length are shown whole, or without their last round.
#[test]
fn of_a_long_generation_the_first_rounds_are_shown() {
    let long = Synthetic {
        prompts: 8,
        max_tokens: 2000,
        drafters: vec!["model"],
        draft_lengths: vec![1],
        temperatures: vec![1.0],
    };
    let (folder, _) = reported(&long.rows());
    let data = data(&page(folder.path()));
    for generation in data["generations"].as_array().unwrap() {
        assert_eq!(generation["rounds"].as_array().unwrap().len(), 400);
        assert!(generation["name"].as_str().unwrap().contains(", the first "));
    }
}

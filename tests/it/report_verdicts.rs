//! What a report concludes, and what it leaves open if there are too few rows.

use std::fs;

use specdec::core::params::{Params, Value};
use specdec::measure::rows::{DivergenceRow, FailureRow, RoundRow, SummaryRow};
use specdec::run::report::{load, report};

use crate::report::{reported, summary, written};
use crate::synthetic::{Rows, Synthetic};

fn with_prompts(prompts: usize) -> Synthetic {
    Synthetic { prompts, ..Synthetic::tiny() }
}

/// The first line after `heading` that begins with `start`.
#[track_caller]
pub(crate) fn line<'a>(text: &'a str, heading: &str, start: &str) -> &'a str {
    let section = text.split(heading).nth(1).unwrap_or_else(|| panic!("no {heading}: {text}"));
    let found = section.lines().find(|line| line.starts_with(start));
    found.unwrap_or_else(|| panic!("no {start} after {heading}"))
}

fn row(rows: &Rows, cell: &str) -> SummaryRow {
    let folder = written(rows);
    let rows = summary(&load(folder.path()).unwrap());
    rows.into_iter().find(|row| row.cell == cell).unwrap()
}

const CONTROLS: &str = "## The same cell twice";

#[test]
fn a_disturbed_run_is_reported_first_without_verdicts() {
    let mut rows = with_prompts(12).rows();
    rows.repeat("model-3-1", 1.1);
    let (_folder, text) = reported(&rows);
    let alarm = text.find("DISTURBED: in 1 cell").unwrap();
    assert!(alarm < text.find("Target ").unwrap(), "{text}");
    assert!(line(&text, CONTROLS, "| model").contains("DISTURBED"));
    let best = line(&text, "## Best draft length", "| model | T = 1 |");
    assert!(best.contains("| withheld: disturbed |"), "{best}");
    assert!(!text.contains("| faster |") && !text.contains("slower than plain"), "{text}");
    let mut calm = with_prompts(12).rows();
    calm.repeat("model-3-1", 1.0);
    let (_folder, text) = reported(&calm);
    assert!(!text.contains("DISTURBED"), "{text}");
    assert!(line(&text, CONTROLS, "| model").ends_with("| no difference |"));
}

#[test]
fn controls_need_enough_prompts_for_a_verdict() {
    // 2 ^ (1 − 7) is more than 1 %; 2 ^ (1 − 8) is less, but not if there are two tests.
    for (prompts, tests, verdict) in
        [(7, 1, "too few prompts to tell"), (8, 1, "DISTURBED"), (8, 2, "too few prompts to tell")]
    {
        let mut rows = with_prompts(prompts).rows();
        let cells = ["model-3-1", "model-3-0"];
        cells[..tests].iter().for_each(|cell| rows.repeat(cell, 1.1));
        let (_folder, text) = reported(&rows);
        let line = line(&text, CONTROLS, "| model");
        assert!(line.ends_with(&format!("| {verdict} |")), "{prompts} prompts: {line}");
    }
}

#[test]
fn slow_controls_are_not_reported_as_slower_than_plain_decoding() {
    // Two tests on so few prompts cannot tell, so verdicts are given.
    let mut rows = with_prompts(8).rows();
    ["model-3-1", "model-3-0"].into_iter().for_each(|cell| rows.repeat(cell, 9.0));
    let (_folder, text) = reported(&rows);
    assert!(text.contains("| faster |") && !text.contains("slower than plain"), "{text}");
}

#[test]
fn a_policy_is_compared_with_fixed_lengths_of_its_drafts() {
    let number = |key: &str| Params::default().with(key, Value::Number(0.5));
    let held = |fixed: Params, policy: Params| {
        let mut rows = Synthetic::tiny().rows();
        for cell in &mut rows.plan.cells {
            match cell.id.as_str() {
                "model-1-1" => cell.point.method.params = fixed.clone(),
                "model-3-1" => {
                    cell.point.method.length = "confidence".to_owned();
                    cell.point.method.params = policy.clone();
                }
                _ => {}
            }
        }
        reported(&rows).1.contains("## Policies against the best fixed length")
    };
    let (drafts, own) = (number("draft_temperature"), number("confidence_threshold"));
    assert!(held(Params::default(), own.clone()));
    assert!(!held(drafts.clone(), own));
    assert!(held(drafts.clone(), drafts));
}

/// Multiplies the times of one prompt in a cell by `factor`.
pub(crate) fn stretch(rows: &mut Rows, cell: &str, prompt: &str, factor: f64) {
    let hit = |c: &str, p: &str| c == cell && p == prompt;
    for g in rows.generations.iter_mut().filter(|g| hit(&g.cell, &g.prompt)) {
        g.decode_us *= factor;
    }
    for r in rows.rounds.iter_mut().filter(|r| hit(&r.cell, &r.prompt)) {
        [&mut r.draft_us, &mut r.target_us, &mut r.verify_us, &mut r.other_us]
            .into_iter()
            .for_each(|us| *us *= factor);
    }
}

#[test]
fn a_policy_is_mixed_if_prompts_and_total_time_disagree() {
    let verdict = |slow: f64, long: f64| {
        let mut rows = Synthetic { draft_lengths: vec![3], ..with_prompts(20) }.rows();
        stretch(&mut rows, "model-3-1", "prompt-00", 200.0);
        rows.repeat("model-3-1", slow);
        stretch(&mut rows, "model-3-1-again", "prompt-00", long / slow);
        let policy = rows.plan.cells.last_mut().unwrap();
        (policy.control, policy.point.method.length) = (false, "heuristic".to_owned());
        let (_folder, text) = reported(&rows);
        let found = line(&text, "## Policies against", "| model, heuristic | T = 1 |");
        found.trim_end_matches(" |").rsplit("| ").next().unwrap().to_owned()
    };
    assert_eq!(verdict(1.1, 1.1), "slower");
    assert_eq!(verdict(0.9, 0.9), "faster");
    // Nineteen prompts are slower by a tenth; the longest one is faster and outweighs them.
    assert_eq!(verdict(1.1, 0.8), "mixed");
    assert_eq!(verdict(0.9, 1.25), "mixed");
}

/// Replaces a cell's generation for a prompt by a failure.
fn fail(rows: &mut Rows, cell: &str, prompt: &str) {
    rows.generations.retain(|g| g.cell != cell || g.prompt != prompt);
    rows.rounds.retain(|r| r.cell != cell || r.prompt != prompt);
    rows.failures.push(FailureRow {
        cell: cell.to_owned(),
        prompt: prompt.to_owned(),
        repeat: 0,
        reason: "logits are NaN".to_owned(),
        superseded: false,
    });
}

#[test]
fn a_failed_draft_length_is_left_out_of_the_choice_of_k() {
    let mut rows = with_prompts(8).rows();
    assert!(!reported(&rows).1.contains("Left out"));
    for prompt in 1..8 {
        fail(&mut rows, "model-1-1", &format!("prompt-{prompt:02}"));
    }
    let (_folder, text) = reported(&rows);
    assert!(
        text.contains("that another K finished: model, T = 1, K = 1 (1 of 8 prompts).\n"),
        "{text}"
    );
    let best = line(&text, "## Best draft length", "| model | T = 1 |");
    assert!(best.contains("| T = 1 | 3 |") && best.contains("| faster |"), "{best}");
    assert!(best.ends_with("| – | D lossless |"), "{best}");
}

#[test]
fn wrong_texts_are_reported_before_failures() {
    let mut rows = Synthetic { draft_lengths: (1..9).collect(), ..with_prompts(8) }.rows();
    for cell in rows.plan.cells.clone().iter().filter(|c| c.method.drafter != "none") {
        fail(&mut rows, &cell.id, "prompt-01");
    }
    rows.divergences = vec![difference()];
    let said = report(written(&rows).path()).unwrap().0.text(100).replace('\n', " ");
    let wrong = said.find("the method or the engine is wrong").unwrap();
    let failed = said.find("32 of 34 cells have not finished: ").unwrap();
    assert!(wrong < failed && said.contains("logits are NaN"), "{said}");
    assert!(said.contains("; and 29 more."), "{said}");
}

#[test]
fn win_shares_need_several_prompts_and_several_draft_lengths() {
    let best = |synthetic: &Synthetic| {
        let (_folder, text) = reported(&synthetic.rows());
        line(&text, "## Best draft length", "| model | T = 1").to_owned()
    };
    assert!(best(&Synthetic::tiny()).contains("| 100 % |"));
    let one = best(&with_prompts(1));
    assert!(one.contains("| unknown") && one.ends_with("| – | D lossless |"), "{one}");
    let one_length = Synthetic { draft_lengths: vec![3], ..with_prompts(8) };
    let one = best(&one_length);
    assert!(one.contains("| faster |") && one.ends_with("| – | D lossless |"), "{one}");
}

#[test]
fn fewer_than_eight_prompts_give_ratios_without_intervals() {
    for (prompts, given) in [(7, false), (8, true)] {
        let rows = with_prompts(prompts).rows();
        let (_folder, text) = reported(&rows);
        let row = row(&rows, "model-3-1");
        assert!(row.speedup.is_some() && row.alpha.is_some());
        let ends = [row.alpha_lo, row.block_efficiency_hi, row.speedup_lo, row.speedup_hi];
        assert_eq!(ends.map(|end| end.is_some()), [given; 4]);
        let cell = line(&text, "## All cells", "| model | T = 1 | 3 |");
        assert_eq!(cell.contains(" ["), given, "{cell}");
        assert_eq!(text.contains("With 7 prompts, ratios have no interval"), !given, "{text}");
        let best = line(&text, "## Best draft length", "| model | T = 1 |");
        assert_eq!(best.contains("unknown: too few prompts"), !given, "{best}");
    }
}

#[test]
fn a_far_prompt_is_listed_with_its_effect_on_the_speedup() {
    let calm = with_prompts(12).rows();
    assert!(!reported(&calm).1.contains("plain decoding's time per pass"));
    let mut rows = calm.clone();
    stretch(&mut rows, "none-0-1", "prompt-03", 3.3);
    let (_folder, text) = reported(&rows);
    // One slow generation of plain decoding affects the four cells of its temperature.
    let far = line(&text, "## Far prompts", "| prompt-03 | T = 1 |");
    let cells = far.trim_matches('|').split(" | ").map(str::trim).collect::<Vec<_>>();
    assert_eq!((cells[2], cells[4]), ("plain decoding's time per pass", "4"), "{far}");
    let number = |i: usize| cells[i].parse::<f64>().unwrap();
    // Times otherwise agree within 3 %.
    assert!((number(3) - 3.3).abs() < 0.1, "{far}");
    let (with, without) = (number(8), number(9));
    let of = |rows: &Rows| row(rows, &format!("{}-{}-1", cells[5], cells[7])).speedup.unwrap();
    assert!((with - of(&rows)).abs() < 5e-4 && with > 1.1 * without, "{far}");
    // The speedup without it is that of the same run without the prompt.
    let mut rest = rows.clone();
    rest.generations.retain(|g| g.prompt != "prompt-03");
    rest.rounds.retain(|r| r.prompt != "prompt-03");
    assert!((without - of(&rest)).abs() < 5e-4, "{far}");
    assert!(text.contains("Prompt prompt-03 alone moves the speedup of"), "{text}");
}

/// Turns the full drafts of a cell into trees of depth 2, unless they were all accepted.
fn branch(rows: &mut Rows, cell: &str) {
    let full = |r: &&mut RoundRow| r.cell == cell && r.proposed == 3 && r.accepted < 3;
    for round in rows.rounds.iter_mut().filter(full) {
        round.depth = 2;
    }
}

#[test]
fn trees_have_a_ceiling_but_no_alpha() {
    let mut rows = Synthetic::tiny().rows();
    let (_folder, text) = reported(&rows);
    assert!(!text.contains("## Against the ceiling"), "one verifier, chains");
    branch(&mut rows, "model-3-1");
    let (_folder, text) = reported(&rows);
    let ceiling = line(&text, "## Against the ceiling", "| model | T = 1 | D lossless | 3 |");
    assert!(ceiling.contains("| – | 0."), "no alpha, but a ceiling: {ceiling}");
    let (tree, chain) = (row(&rows, "model-3-1"), row(&rows, "model-1-1"));
    assert_eq!((tree.alpha, tree.alpha_lo, tree.alpha_hi), (None, None, None));
    assert!(tree.ceiling.is_some() && chain.alpha.is_some());
    let tree = line(&text, "## In the terms of other tools", "| model | T = 1 | D lossless | 3 |");
    assert!(tree.ends_with("| – | – |"), "{tree}");
    let chain = line(&text, "## In the terms of other tools", "| model | T = 1 | D lossless | 1 |");
    assert!(!chain.contains('–'), "{chain}");
}

#[test]
fn tv_is_unknown_if_any_round_lacks_it() {
    let mut rows = Synthetic { temperatures: vec![1.0], ..Synthetic::tiny() }.rows();
    for cell in rows.plan.cells.iter_mut().filter(|c| c.method.drafter == "model") {
        cell.class = "X".to_owned();
    }
    for round in rows.rounds.iter_mut().filter(|r| r.cell.starts_with("model")) {
        // As with several children: unknown, unless nothing was drafted.
        let known = round.cell == "model-1-1" || round.forks == 0;
        round.tv_sum = known.then_some(0.01 * round.forks as f64);
    }
    assert!(row(&rows, "model-1-1").tv.is_some_and(|tv| tv > 0.0));
    let unknown = row(&rows, "model-3-1");
    assert_eq!((unknown.tv, unknown.tv_lo, unknown.tv_hi), (None, None, None));
    let (folder, _) = reported(&rows);
    let frontier = fs::read_to_string(folder.path().join("figures/frontier.svg")).unwrap();
    assert!(frontier.contains("model, K = 1"));
    assert!(!frontier.contains("model, K = 3"), "an unknown distance is not 0");
    assert!(frontier.contains("prompt_lookup, K = 3"), "exact cells are at 0");
}

#[test]
fn the_prediction_of_a_policy_follows_its_rounds_and_not_its_k() {
    let calibrated = |k: usize| {
        let mut rows = Synthetic::tiny().rows();
        let cell = rows.plan.cells.iter_mut().find(|c| c.id == "model-3-1").unwrap();
        cell.point.method.length = "heuristic".to_owned();
        cell.point.method.num_speculative_tokens = k;
        row(&rows, "model-3-1").calibrated_speedup.unwrap()
    };
    assert_eq!(calibrated(1), calibrated(3));
}

#[test]
fn acceptance_by_entropy_skips_siblings_after_the_accepted_one() {
    let cell = "model-3-1";
    let mut rows = with_prompts(8).rows();
    rows.trace();
    // Two children of the context, the first of which has a child: the first was
    // accepted, so its sibling was never decided on.
    let grown = |r: &&mut RoundRow| r.cell == cell && r.proposed == 3 && r.accepted == 1;
    let mut trees = Vec::new();
    for round in rows.rounds.iter_mut().filter(grown) {
        round.depth = 2;
        trees.push((round.prompt.clone(), round.round));
    }
    assert!(!trees.is_empty());
    for p in rows.positions.iter_mut().filter(|p| p.cell == cell) {
        if trees.contains(&(p.prompt.clone(), p.round)) {
            (p.parent, p.depth) = [(None, 1), (None, 1), (Some(0), 2)][p.node];
        }
    }
    let reached = rows.rounds.iter().filter(|r| r.cell == cell).map(|r| r.reached).sum::<usize>();
    let (_folder, text) = reported(&rows);
    let found =
        line(&text, "## Acceptance by the target's entropy", "| model | T = 1 | D lossless | 3 |");
    assert_eq!(found.split('|').nth(5).unwrap().trim(), reached.to_string(), "{found}");
}

/// A difference in the first prompt's text of the cell `model-3-0`.
fn difference() -> DivergenceRow {
    DivergenceRow {
        cell: "model-3-0".to_owned(),
        prompt: "prompt-00".to_owned(),
        ..DivergenceRow::default()
    }
}

#[test]
fn differences_in_unlisted_blocks_are_ignored() {
    let mut rows = Synthetic::tiny().rows();
    rows.divergences = vec![difference()];
    let folder = written(&rows);
    let run = || load(folder.path()).unwrap();
    let count = || run().cells.iter().map(|cell| cell.divergences.len()).sum::<usize>();
    assert_eq!(count(), 1);
    // Its block is not listed.
    let file = folder.path().join("blocks.csv");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(
        &file,
        text.lines().filter(|l| !l.starts_with("0,")).collect::<Vec<_>>().join("\n") + "\n",
    )
    .unwrap();
    assert_eq!(count(), 0);
}

#[test]
fn texts_without_a_baseline_are_not_counted_as_compared() {
    let mut rows = Synthetic::tiny().rows();
    rows.divergences = vec![difference()];
    rows.generations.retain(|g| g.cell != "none-0-0" || g.prompt == "prompt-00");
    let (_folder, text) = reported(&rows);
    let of = |k: usize| {
        line(&text, "## Greedy tokens", &format!("| model | T = 0 | G~ greedy-exact | {k} |"))
            .to_owned()
    };
    assert!(of(3).contains("| 1 of 1 |") && of(1).contains("| 0 of 1 |"), "{text}");
    // Its logits were never looked at.
    assert!(text.contains("| – | – | NO |"), "{text}");
}

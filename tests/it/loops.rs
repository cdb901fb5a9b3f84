//! Repetition loops: which tokens lie in one, and what a report concludes from runs that have them.

use specdec::measure::rows::{RoundRow, SummaryRow};
use specdec::measure::statistics::looped_tokens;
use specdec::run::report::{load, report};

use crate::report::{reported, summary, written};
use crate::synthetic::{Rows, Synthetic};

/// The number of tokens in loops, by trying every stretch.
pub(crate) fn looped(tokens: &[u32]) -> usize {
    let repeats = |period: usize, stretch: std::ops::Range<usize>| {
        stretch.into_iter().all(|at| at >= period && tokens[at] == tokens[at - period])
    };
    let in_loop = |at: &usize| {
        (1..=20).any(|period| {
            let least = period.max(8);
            let begins = (at + 1).saturating_sub(least)..=*at;
            begins
                .into_iter()
                .any(|begin| begin + least <= tokens.len() && repeats(period, begin..begin + least))
        })
    };
    (0..tokens.len()).filter(in_loop).count()
}

/// Some tokens that never repeat, and then a part that is repeated.
fn text(before: u32, period: u32, repeated: usize) -> Vec<u32> {
    let part = (0..period as usize + repeated).map(|at| 1000 + at as u32 % period);
    (0..before).chain(part).chain([9999]).collect()
}

/// Catches: shorter stretches count; the first period counts; a stretch that is shorter than its
/// period counts; periods above 20 count; only the first loop counts.
#[test]
fn a_loop_repeats_at_least_eight_tokens_and_one_period() {
    for (period, repeated, expected) in [
        (1, 7, 0),
        (1, 8, 8),
        (3, 8, 8),
        (3, 30, 30),
        (12, 11, 0),
        (12, 12, 12),
        (20, 20, 20),
        (21, 42, 0),
    ] {
        for before in [0, 5] {
            let text = text(before, period, repeated);
            assert_eq!(looped_tokens(&text), expected, "{period}, {repeated}");
            assert_eq!(looped(&text), expected, "{period}, {repeated}");
        }
    }
    let twice = [text(3, 2, 9), text(3, 5, 10)].concat();
    assert_eq!((looped_tokens(&twice), looped_tokens(&[])), (19, 0));
}

/// A run on 20 prompts, of which some loop at temperature 0. There a cell is `fast` times as fast as
/// it was, and elsewhere `slow` times.
fn looping(prompts: usize, fast: f64, slow: f64) -> Rows {
    let synthetic = Synthetic { prompts: 20, draft_lengths: vec![1, 3], ..Synthetic::tiny() };
    let mut rows = Synthetic { drafters: vec!["model"], ..synthetic }.rows();
    let loops = rows.plan.prompts[..prompts].to_vec();
    let factor = |prompt: &String| if loops.contains(prompt) { fast } else { slow };
    for row in rows.generations.iter_mut().filter(|row| row.cell.ends_with("-0")) {
        if loops.contains(&row.prompt) {
            row.category = "loop".to_owned();
        }
        if row.cell.starts_with("model") {
            row.decode_us /= factor(&row.prompt);
        }
    }
    let greedy = |row: &&mut RoundRow| row.cell.starts_with("model") && row.cell.ends_with("-0");
    for row in rows.rounds.iter_mut().filter(greedy) {
        let factor = factor(&row.prompt);
        for us in [&mut row.draft_us, &mut row.target_us, &mut row.verify_us, &mut row.other_us] {
            *us /= factor;
        }
    }
    rows
}

fn of(rows: &Rows, cell: &str) -> SummaryRow {
    let folder = written(rows);
    let found = summary(&load(folder.path()).unwrap());
    found.into_iter().find(|row| row.cell == cell).unwrap()
}

/// Catches: the share is of generations; the loops of the cell choose instead of those of plain
/// decoding; the speedup without loops has generations with one.
#[test]
fn the_summary_has_shares_of_loops_and_speedups_without() {
    let mut rows = looping(5, 4.0, 0.5);
    // The cell itself has a loop more.
    let odd = |row: &&mut specdec::measure::rows::GenerationRow| {
        row.cell == "model-3-0" && row.prompt == "prompt-07"
    };
    rows.generations.iter_mut().filter(odd).for_each(|row| row.category = "loop".to_owned());
    let (own, plain) = (of(&rows, "model-3-0"), of(&rows, "none-0-0"));
    // Of 16 tokens, 13 come after the first period.
    assert_eq!(plain.loop_share, Some(5.0 * 13.0 / (20.0 * 16.0)));
    assert_eq!((plain.baseline_loop_share, plain.loop_free_speedup), (plain.loop_share, None));
    assert_eq!(own.loop_share, Some(6.0 * 13.0 / (20.0 * 16.0)));
    assert_eq!(own.baseline_loop_share, plain.loop_share);
    let us = |cell: &str, free: bool| {
        let own = rows.generations.iter().filter(|row| row.cell == cell);
        let own = own.filter(|row| !free || row.prompt.as_str() > "prompt-04");
        own.map(|row| row.decode_us).sum::<f64>()
    };
    let ratio = |free| us("none-0-0", free) / us("model-3-0", free);
    assert!((own.speedup.unwrap() / ratio(false) - 1.0).abs() < 1e-9);
    assert!((own.loop_free_speedup.unwrap() / ratio(true) - 1.0).abs() < 1e-9);
    let (lo, hi) = (own.loop_free_speedup_lo.unwrap(), own.loop_free_speedup_hi.unwrap());
    assert!(lo < ratio(true) && ratio(true) < hi && hi < own.speedup.unwrap());
    let calm = of(&rows, "model-3-1");
    assert_eq!((calm.loop_share, calm.baseline_loop_share), (Some(0.0), Some(0.0)));
    assert_eq!(calm.loop_free_speedup, calm.speedup);
}

/// Catches: the verdict, the best K, contrasts or the terminal's table rest on loops; a run with few loops
/// changes its verdict; the sentence does not come first.
#[test]
fn verdicts_above_ten_percent_rest_on_generations_without_loops() {
    let head = "| method | sampling | best K | speedup [95 %] |";
    let best = |text: &str| {
        let row = text.lines().find(|line| line.starts_with("| model | T = 0 |")).unwrap();
        let cells = row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned());
        cells.collect::<Vec<_>>()
    };
    // 13 of 16 tokens in 3 of 20 generations: 12.2 %.
    let many = looping(3, 100.0, 0.4);
    let (folder, text) = reported(&many);
    let first = text.lines().nth(4).unwrap();
    assert!(
        first.starts_with(
            "**Of the tokens of plain decoding, 12.2 % at T = 0 and at most 0.0 % elsewhere lie in \
             repetition loops. Where these are more than 10 %, verdicts rest"
        ),
        "{text}"
    );
    assert!(text.contains(&format!("{head} without loops [95 %] |")), "{text}");
    let row = best(&text);
    assert_eq!(row[5], "slower", "{text}");
    assert!(row[4].starts_with("0.") && row[4].ends_with(']'), "{row:?}");
    // A contrast with T = 0 rests on the 17 prompts without a loop, and another one on T = 1.
    for contrast in ["temperature | 1 | 0 | 2 | 17", "num_speculative_tokens | 3 | 1 | 1 | 20"] {
        assert!(text.contains(&format!("\n| {contrast} | ")), "{contrast}: {text}");
    }
    let terminal = report(folder.path()).unwrap().0.text(200);
    assert!(terminal.starts_with("warning: Of the tokens of plain decoding, 12.2 %"), "{terminal}");
    let line = terminal.lines().find(|line| line.starts_with("model") && line.contains("T = 0"));
    assert!(
        terminal.contains("  without loops  ") && line.unwrap().ends_with("slower"),
        "{terminal}"
    );
    let (folder, _) = reported(&looping(3, 100.0, 3.0));
    let page = std::fs::read_to_string(folder.path().join("report.html")).unwrap();
    assert!(page.contains("] on the generations without a loop, "), "both speedups are shown");
    // 8.1 %.
    let few = looping(2, 0.01, 2.0);
    let (folder, text) = reported(&few);
    assert!(text.lines().nth(4).unwrap().ends_with("at most 8.1 % lie in repetition loops."));
    assert!(text.contains(&format!("{head} against plain decoding |")), "{text}");
    assert_ne!(best(&text)[4], "faster", "loops count if they are few");
    assert!(text.contains("\n| num_speculative_tokens | 3 | 1 | 2 | 20 | "), "{text}");
    assert!(!report(folder.path()).unwrap().0.text(200).contains("without loops"));
}

/// Catches: a verdict on loops where there is nothing else.
#[test]
fn a_run_of_loops_alone_has_no_verdict() {
    let (_folder, text) = reported(&looping(20, 3.0, 1.0));
    let row = text.lines().find(|line| line.starts_with("| model | T = 0 |")).unwrap();
    assert!(row.contains("| unknown: too few prompts without loops |"), "{row}");
}

//! What a comparison found, in a few sentences. The first run is called A, the second B.

use super::Comparison;
use super::side::RunSide;
use crate::io::shown::count;
use crate::measure::statistics::{ContrastFinding, Measure, Pairing};

/// Values that are too long to be read in a sentence.
const LONG: usize = 60;

/// The sentences, the answer first.
pub(super) fn sentences(found: &Comparison, sides: [&RunSide; 2]) -> Vec<String> {
    let rounds = tally(found, Measure::BlockEfficiency, "Tokens per round: B has", "more", "fewer");
    let mut all = Vec::from_iter(rounds);
    all.extend(times(found, sides));
    all.extend(texts(found));
    all.extend(differences(found));
    all.push(pairing(found, sides));
    all.extend(left_out(found));
    let [first, second] = found.unmatched;
    if first + second > 0 {
        all.push(format!("Left out: {} of A and {second} of B.", count(first, "cell")));
    }
    all
}

/// Counts what the tests of a measure show; `None` if no cell has the measure.
fn tally(
    found: &Comparison,
    measure: Measure,
    head: &str,
    larger: &str,
    smaller: &str,
) -> Option<String> {
    let methods = found.cells.iter().filter(|cell| !cell.baseline);
    let rows = methods.filter_map(|cell| cell.row(measure)).collect::<Vec<_>>();
    let number =
        |finding: ContrastFinding| rows.iter().filter(|row| row.finding == finding).count();
    let more = format!("{} of {}", number(ContrastFinding::Larger), count(rows.len(), "cell"));
    let mut rest = format!("{smaller} in {}", number(ContrastFinding::Smaller));
    let others = [
        (ContrastFinding::Equal, "equal"),
        (ContrastFinding::NotShown, "no difference shown"),
        (ContrastFinding::TooFew, "too few prompts that differ to tell"),
        (ContrastFinding::Mixed, "mixed"),
    ];
    for (finding, words) in others {
        let number = number(finding);
        rest += &if number > 0 { format!(", {words} in {number}") } else { String::new() };
    }
    (!rows.is_empty()).then(|| format!("{head} {larger} in {more}, {rest}."))
}

/// What can be said about times.
fn times(found: &Comparison, sides: [&RunSide; 2]) -> Vec<String> {
    if let Some(why) = &found.no_times {
        return vec![format!("Times are not compared, only acceptance: {why}.")];
    }
    let invalid = ["A", "B"].into_iter().zip(sides).filter_map(|(name, side)| {
        let why = side.run.times.reasons.first()?.predicate();
        Some(format!("{name} {why}"))
    });
    let invalid = invalid.collect::<Vec<_>>().join("; ");
    if !invalid.is_empty() {
        return vec![format!("No verdict on times: {invalid}.")];
    }
    let time = tally(found, Measure::TimePerToken, "Time per token: B takes", "more", "less");
    let speedup = tally(found, Measure::Speedup, "Speedup: B's is", "larger", "smaller");
    let plain = found.cells.iter().filter(|cell| cell.baseline);
    let plain = plain.filter_map(|cell| cell.row(Measure::TimePerToken)?.ratio).collect::<Vec<_>>();
    let ends = |pick: fn(f64, f64) -> f64| plain.iter().copied().reduce(pick);
    let drift = ends(f64::min).zip(ends(f64::max)).map(|(least, most)| {
        let span = if plain.len() > 1 && least < most {
            format!("{least:.3} to {most:.3}")
        } else {
            format!("{most:.3}")
        };
        format!(
            "Plain decoding took {span} times as long in B. What the machine did between the runs \
             is in this and in all times, and not in their intervals; a speedup is over the run's \
             own plain decoding."
        )
    });
    [time, speedup, drift].into_iter().flatten().collect()
}

/// Whether texts in which chance has no part are the same.
fn texts(found: &Comparison) -> Option<String> {
    let texts = || found.cells.iter().filter_map(|cell| Some((cell, cell.texts?)));
    let compared = texts().map(|(_, texts)| texts.compared).sum::<usize>();
    let equal = texts().map(|(_, texts)| texts.equal).sum::<usize>();
    if compared == 0 {
        return None;
    }
    if equal == compared {
        let cut = found.left_out.iter().any(|left| left.tokens > 0);
        let part = if cut { " in the tokens that both runs have" } else { "" };
        return Some(format!("Texts without chance: all {compared} are equal{part}."));
    }
    let same_cell = texts().any(|(cell, t)| t.equal < t.compared && cell.ids[0] == cell.ids[1]);
    // The id of a cell covers everything that may change its tokens but where texts end.
    let but = if same_cell { ", some of them in cells with the same id" } else { "" };
    Some(format!("Texts without chance: {} of {compared} differ{but}.", compared - equal))
}

/// What only one of the runs has in the cells of both.
fn left_out(found: &Comparison) -> Vec<String> {
    let [a, b] = found.left_out;
    let mut all = Vec::new();
    if a.generations + b.generations > 0 {
        let (a, b) = (count(a.generations, "generation"), b.generations);
        all.push(format!("Left out because the other run lacks them: {a} of A and {b} of B."));
    }
    if a.tokens + b.tokens > 0 {
        all.push(format!(
            "Compared are the tokens that both runs have, and of their rounds those that no end of \
             a text shortens; left out: {} of {} tokens of A and {} of {} of B.",
            a.tokens, a.of, b.tokens, b.of
        ));
    }
    all
}

fn differences(found: &Comparison) -> Option<String> {
    let part = |d: &super::Difference| {
        let none =
            |value: &String| if value.is_empty() { "none".to_owned() } else { value.clone() };
        let (first, second) = (none(&d.first), none(&d.second));
        match first.len().max(second.len()) {
            ..=LONG => format!("{} ({first}, {second})", d.what),
            _ => d.what.to_owned(),
        }
    };
    let parts = found.differences.iter().map(part).collect::<Vec<_>>();
    (!parts.is_empty()).then(|| format!("The runs differ in {}.", parts.join("; ")))
}

fn pairing(found: &Comparison, sides: [&RunSide; 2]) -> String {
    let how = match found.pairing {
        Pairing::PromptAndRepeat => "prompt and repeat".to_owned(),
        Pairing::Prompt => "prompt alone, since the seeds differ".to_owned(),
    };
    let [a, b] = sides.map(|side| &side.run.plan);
    let prompts = count(found.prompts, "prompt");
    if a.prompts_sha256 == b.prompts_sha256 {
        return format!("Paired by {how}: {prompts}.");
    }
    let left = [a, b].map(|plan| plan.prompts.len().saturating_sub(found.prompts));
    format!(
        "Paired by {how}: {prompts} of the same name and number of tokens, since the hashes of the \
         prompts differ; left out: {} of A and {} of B.",
        left[0], left[1]
    )
}

//! The strip of verdicts: whether the methods are exact, how sure the numbers are, whether
//! anything is faster, what was forecast, and whether the run was disturbed.

use std::collections::{BTreeMap, BTreeSet};

use crate::decode::certified;
use crate::registry::class_with_word;
use crate::report::best::{best, verdict};
use crate::report::document::{DocCell, Tone};
use crate::report::loops::{is_looping, judged};
use crate::report::results::Results;
use crate::report::series::{Series, series};
use crate::report::tables::{number, with_interval};
use crate::report::validity::{InvalidTimes, SpeedVerdict};
use crate::report::warnings::warnings;
use crate::rows::SummaryRow;
use crate::shown::{count, html};
use crate::statistics::{MIN_PROMPTS, median};

/// An answer of the strip.
struct PageVerdict {
    question: &'static str,
    answer: String,
    tone: Tone,
    details: Vec<String>,
}

pub(super) fn print(results: &Results, summary: &[SummaryRow]) -> String {
    let series = series(results);
    let bests = series.iter().filter_map(|s| Some((s, best(results, s, summary)?.row)));
    let bests = bests.collect::<Vec<_>>();
    let all = [
        exact(results, &series),
        sure(results, summary),
        faster(results, &bests),
        forecast(results, &bests, summary),
        disturbed(results, summary),
    ];
    let tile = |PageVerdict { question, answer, tone, details }: &PageVerdict| {
        let class = match tone {
            Tone::Plain => "plain",
            Tone::Good => "good",
            Tone::Bad => "bad",
        };
        let details = details.iter().filter(|detail| !detail.is_empty());
        let details = details.map(|detail| format!("<p>{}</p>", html(detail)));
        format!(
            "<div class=\"{class}\"><h2>{question}</h2><strong>{}</strong>{}</div>\n",
            html(answer),
            details.collect::<String>()
        )
    };
    format!("<div class=\"verdicts\">\n{}</div>\n", all.iter().map(tile).collect::<String>())
}

fn exact(results: &Results, series: &[Series<'_>]) -> PageVerdict {
    let mut classes = BTreeMap::<&str, usize>::new();
    series.iter().for_each(|series| *classes.entry(&series.cells[0].class).or_default() += 1);
    let approximate = classes.iter().filter(|(class, _)| class.starts_with('X'));
    let approximate = approximate.map(|(_, lines)| lines).sum::<usize>();
    let ties = results.divergences.iter().filter(|row| row.tie).count();
    let wrong = results.divergences.len() - ties;
    let (answer, tone) = match (wrong, approximate) {
        (1.., _) => (format!("No: {} differ", count(wrong, "completion")), Tone::Bad),
        (0, _) if series.is_empty() => ("No method ran".to_owned(), Tone::Plain),
        (0, 0) => ("Yes".to_owned(), Tone::Good),
        (0, n) if n == series.len() => ("No: all methods are approximate".to_owned(), Tone::Plain),
        (0, n) => (format!("Yes, except {n} of {} lines", series.len()), Tone::Plain),
    };
    let named = classes
        .iter()
        .map(|(class, lines)| format!("{}: {}", class_with_word(class), count(*lines, "line")));
    let seen = format!("Completions that differ where they must not: {wrong}; by a tie: {ties}.");
    let verifiers = series.iter().map(|series| series.cells[0].method.verifier.as_str());
    let verifiers = verifiers.collect::<BTreeSet<_>>();
    let certified = certified().unwrap_or_default().into_iter();
    let certified = certified.filter(|row| row.kind == "verifier");
    let certified = certified.filter(|row| verifiers.contains(row.name.as_str()));
    let certified = certified.map(|row| match verifiers.len() {
        1 => format!("{}: {}", row.name, row.words()),
        // The first word says it.
        _ => format!("{} {}", row.name, row.words().split(':').next().unwrap_or_default()),
    });
    let certified = match &*certified.collect::<Vec<_>>().join(", ") {
        "" => String::new(),
        words => format!("By the last certificate, {words}."),
    };
    let details = vec![named.collect::<Vec<_>>().join("; "), seen, certified];
    PageVerdict { question: "Is it exact?", answer, tone, details }
}

fn sure(results: &Results, summary: &[SummaryRow]) -> PageVerdict {
    let prompts = results.plan.distinct_prompts();
    let valid = results.times().is_valid();
    // Without valid times, tokens per pass are what is known.
    let widths = summary.iter().filter_map(|row| {
        let (lo, hi, value) = match valid {
            true => (row.speedup_lo?, row.speedup_hi?, row.speedup?),
            false => (row.block_efficiency_lo?, row.block_efficiency_hi?, row.block_efficiency?),
        };
        Some(100.0 * (hi - lo) / 2.0 / value)
    });
    let width = median(&widths.collect::<Vec<_>>());
    let what = if valid { "a speedup's" } else { "a τ's" };
    let generations = results.samples.values().map(Vec::len).sum::<usize>();
    let tokens = results.samples.values().flatten().map(|sample| sample.new_tokens).sum::<usize>();
    let rounds = summary.iter().map(|row| row.rounds).sum::<usize>();
    let answer = width.map_or_else(
        || format!("{}: no interval", count(prompts, "prompt")),
        |width| format!("± {width:.1} % (median)"),
    );
    let kind = match width {
        Some(_) => format!("Half the width of {what} 95 % interval over {prompts} prompts."),
        None => format!("Intervals need {MIN_PROMPTS} prompts or more."),
    };
    let counts = [(generations, "generation"), (rounds, "round"), (tokens, "token")];
    let counts = counts.map(|(n, thing)| count(n, thing)).join(", ");
    let details = vec![kind, format!("{counts}.")];
    PageVerdict { question: "How sure?", answer, tone: Tone::Plain, details }
}

/// A series with the cell that stands for it.
type BestOfSeries<'s, 'a> = (&'s Series<'a>, &'a SummaryRow);

/// The fastest cell of all.
fn fastest<'s, 'a>(bests: &[BestOfSeries<'s, 'a>]) -> Option<BestOfSeries<'s, 'a>> {
    let speedup = |row: &SummaryRow| judged(row).value.unwrap_or(0.0);
    bests.iter().copied().max_by(|a, b| speedup(a.1).total_cmp(&speedup(b.1)))
}

fn faster(results: &Results, bests: &[BestOfSeries<'_, '_>]) -> PageVerdict {
    const QUESTION: &str = "Is it faster here?";
    let Some((own, row)) = fastest(bests) else {
        let (answer, tone) = ("Nothing was timed".to_owned(), Tone::Plain);
        return PageVerdict { question: QUESTION, answer, tone, details: Vec::new() };
    };
    let judged = judged(row);
    let ratio = number(judged.value, 2);
    let (answer, tone) = match verdict(results, row) {
        SpeedVerdict::Disturbed => ("Withheld: disturbed".to_owned(), Tone::Bad),
        SpeedVerdict::Set => ("Not measured: times are set".to_owned(), Tone::Plain),
        SpeedVerdict::Faster => (format!("Yes: {ratio} ×"), Tone::Good),
        SpeedVerdict::Slower => (format!("No: {ratio} × at best"), Tone::Bad),
        SpeedVerdict::Undecided
        | SpeedVerdict::TooFewPrompts
        | SpeedVerdict::TooManyLoops
        | SpeedVerdict::NoCosts => (format!("Not shown: {ratio} × at best"), Tone::Plain),
    };
    let times = results.times();
    if !times.is_valid() {
        let details = times.reasons.into_iter().map(InvalidTimes::sentence).collect();
        return PageVerdict { question: QUESTION, answer, tone, details };
    }
    let interval = with_interval(judged.value, judged.lo, judged.hi, 2);
    let all = number(row.speedup, 2);
    let of = match is_looping(row) {
        true => format!(" on the generations without a loop, {all} on all"),
        false => String::new(),
    };
    let k = row.num_speculative_tokens.map_or_else(String::new, |k| format!(", best K = {k}"));
    let best = format!("{}, {}{k}: {interval}{of}.", own.method, own.sampling);
    let of = |wanted| bests.iter().filter(|(_, row)| verdict(results, row) == wanted).count();
    let lines = format!(
        "At their best K, {} of {} lines are faster than plain decoding and {} slower.",
        of(SpeedVerdict::Faster),
        bests.len(),
        of(SpeedVerdict::Slower)
    );
    PageVerdict { question: QUESTION, answer, tone, details: vec![best, lines] }
}

fn forecast(
    results: &Results,
    bests: &[BestOfSeries<'_, '_>],
    summary: &[SummaryRow],
) -> PageVerdict {
    const QUESTION: &str = "As forecast?";
    if let Some(withheld) = results.times().withheld() {
        let answer = format!("Verdict {}", withheld.words());
        return PageVerdict { question: QUESTION, answer, tone: Tone::Plain, details: Vec::new() };
    }
    let gap = |row: &SummaryRow| Some((row.speedup? / row.predicted_speedup? - 1.0).abs());
    let gaps = summary.iter().filter_map(gap).collect::<Vec<_>>();
    let best = fastest(bests).map(|(_, row)| row);
    let both = best.and_then(|row| Some((row.predicted_speedup?, row.speedup?)));
    let answer = both.map_or_else(
        || "No forecast".to_owned(),
        |(predicted, measured)| format!("{predicted:.2} × forecast, {measured:.2} × measured"),
    );
    let median = median(&gaps).map(|gap| {
        let gap = DocCell::percent(gap, 1);
        format!("Median gap over {}: {gap}.", count(gaps.len(), "cell"))
    });
    let how = both.map(|_| {
        "For all generations of the fastest cell, from costs fitted to the other half of the prompts.".to_owned()
    });
    let details = [how, median].into_iter().flatten().collect();
    PageVerdict { question: QUESTION, answer, tone: Tone::Plain, details }
}

fn disturbed(results: &Results, summary: &[SummaryRow]) -> PageVerdict {
    let blocks = results.disturbed_blocks();
    let (answer, tone) = match results.times().withheld() {
        Some(SpeedVerdict::Set) => ("Its times are set", Tone::Plain),
        Some(_) => ("Yes: no verdict on times", Tone::Bad),
        None if blocks > 0 => ("Little", Tone::Plain),
        None => ("No", Tone::Good),
    };
    let seen = format!("{blocks} of {} were disturbed.", count(results.blocks.len(), "block"));
    let controls = match (results.plan.controls().len(), results.differing) {
        (0, _) => String::new(),
        (all, differ) => format!("{differ} of {} that ran twice differ.", count(all, "cell")),
    };
    let warnings = match warnings(results, summary).len() {
        0 => "No warnings.".to_owned(),
        n => format!("{}.", count(n, "warning")),
    };
    let (answer, details) = (answer.to_owned(), vec![seen, controls, warnings]);
    PageVerdict { question: "Was the run disturbed?", answer, tone, details }
}

//! The strip of verdicts: whether the methods are exact, how sure the numbers are, whether
//! anything is faster, what was forecast, and whether the run was disturbed.

use std::collections::{BTreeMap, BTreeSet};

use crate::core::registry::class_with_word;
use crate::io::shown::{count, html};
use crate::measure::statistics::{MIN_PROMPTS, median};
use crate::method::decode::certified;
use crate::run::report::document::{TableCell, Tone};
use crate::run::report::loops::{is_looping, judged};
use crate::run::report::run::{CellView, Run};
use crate::run::report::tables::{number, with_interval};
use crate::run::report::validity::SpeedVerdict;
use crate::run::report::warnings::warnings;

/// An answer of the strip.
struct PageVerdict {
    question: &'static str,
    answer: String,
    tone: Tone,
    details: Vec<String>,
}

pub(super) fn print(run: &Run) -> String {
    let bests = run.series().filter_map(|series| series.best());
    let bests = bests.collect::<Vec<_>>();
    let all = [exact(run), sure(run), faster(run, &bests), forecast(run, &bests), disturbed(run)];
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

fn exact(run: &Run) -> PageVerdict {
    let lines = run.series().map(|series| series.first()).collect::<Vec<_>>();
    let mut classes = BTreeMap::<&str, usize>::new();
    for line in &lines {
        *classes.entry(&line.class).or_default() += 1;
    }
    let approximate = classes.iter().filter(|(class, _)| class.starts_with('X'));
    let approximate = approximate.map(|(_, lines)| lines).sum::<usize>();
    let divergences = run.cells.iter().flat_map(|cell| &cell.divergences);
    let (ties, wrong) = divergences.partition::<Vec<_>, _>(|row| row.tie);
    let (ties, wrong) = (ties.len(), wrong.len());
    let (answer, tone) = match (wrong, approximate) {
        (1.., _) => (format!("No: {} differ", count(wrong, "completion")), Tone::Bad),
        (0, _) if lines.is_empty() => ("No method ran".to_owned(), Tone::Plain),
        (0, 0) => ("Yes".to_owned(), Tone::Good),
        (0, n) if n == lines.len() => ("No: all methods are approximate".to_owned(), Tone::Plain),
        (0, n) => (format!("Yes, except {n} of {} lines", lines.len()), Tone::Plain),
    };
    let named = classes
        .iter()
        .map(|(class, lines)| format!("{}: {}", class_with_word(class), count(*lines, "line")));
    let seen = format!("Completions that differ where they must not: {wrong}; by a tie: {ties}.");
    let verifiers = lines.iter().map(|line| line.method.verifier.as_str());
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
        words => format!(
            "By the last certificate, {words}. TV is the total variation from the target's \
             distribution."
        ),
    };
    let details = vec![named.collect::<Vec<_>>().join("; "), seen, certified];
    PageVerdict { question: "Is it exact?", answer, tone, details }
}

fn sure(run: &Run) -> PageVerdict {
    let prompts = run.plan.distinct_prompts();
    let valid = run.times.is_valid();
    // Without valid times, tokens per pass are what is known.
    let widths = run.cells.iter().filter_map(|cell| {
        let row = &cell.row;
        let (lo, hi, value) = match valid {
            true => (row.speedup_lo?, row.speedup_hi?, row.speedup?),
            false => (row.block_efficiency_lo?, row.block_efficiency_hi?, row.block_efficiency?),
        };
        Some(100.0 * (hi - lo) / 2.0 / value)
    });
    let width = median(&widths.collect::<Vec<_>>());
    let what = if valid { "a speedup's" } else { "a τ's" };
    let generations = run.samples().count();
    let tokens = run.samples().map(|sample| sample.new_tokens).sum::<usize>();
    let rounds = run.cells.iter().map(|cell| cell.row.rounds).sum::<usize>();
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

/// The fastest cell of all.
fn fastest<'a>(bests: &[&'a CellView]) -> Option<&'a CellView> {
    let speedup = |cell: &CellView| judged(&cell.row).value.unwrap_or(0.0);
    bests.iter().copied().max_by(|a, b| speedup(a).total_cmp(&speedup(b)))
}

fn faster(run: &Run, bests: &[&CellView]) -> PageVerdict {
    const QUESTION: &str = "Is it faster here?";
    let Some(own) = fastest(bests) else {
        let (answer, tone) = ("Nothing was timed".to_owned(), Tone::Plain);
        return PageVerdict { question: QUESTION, answer, tone, details: Vec::new() };
    };
    let (row, judged) = (&own.row, judged(&own.row));
    let ratio = number(judged.value, 2);
    let (answer, tone) = match own.verdict {
        SpeedVerdict::Disturbed => ("Withheld: disturbed".to_owned(), Tone::Bad),
        SpeedVerdict::Set => ("Not measured: times are set".to_owned(), Tone::Plain),
        SpeedVerdict::Faster => (format!("Yes: {ratio} ×"), Tone::Good),
        SpeedVerdict::Slower => (format!("No: {ratio} × at best"), Tone::Bad),
        SpeedVerdict::Undecided
        | SpeedVerdict::TooFewPrompts
        | SpeedVerdict::TooManyLoops
        | SpeedVerdict::NoCosts => (format!("Not shown: {ratio} × at best"), Tone::Plain),
    };
    if !run.times.is_valid() {
        let details = run.times.reasons.iter().map(|reason| reason.sentence()).collect();
        return PageVerdict { question: QUESTION, answer, tone, details };
    }
    let interval = with_interval(judged.value, judged.lo, judged.hi, 2);
    let all = number(row.speedup, 2);
    let of = match is_looping(row) {
        true => format!(" on the generations without a loop, {all} on all"),
        false => String::new(),
    };
    let k = row.num_speculative_tokens.map_or_else(String::new, |k| format!(", best K = {k}"));
    let best = format!("{}, {}{k}: {interval}{of}.", own.name, own.sampling);
    let of = |wanted| bests.iter().filter(|cell| cell.verdict == wanted).count();
    let lines = format!(
        "At their best K, {} of {} lines are faster than plain decoding and {} slower.",
        of(SpeedVerdict::Faster),
        bests.len(),
        of(SpeedVerdict::Slower)
    );
    PageVerdict { question: QUESTION, answer, tone, details: vec![best, lines] }
}

fn forecast(run: &Run, bests: &[&CellView]) -> PageVerdict {
    const QUESTION: &str = "As forecast?";
    if let Some(withheld) = run.times.withheld() {
        let answer = format!("Verdict {}", withheld.words());
        return PageVerdict { question: QUESTION, answer, tone: Tone::Plain, details: Vec::new() };
    }
    let both = |cell: &CellView| Some((cell.row.predicted_speedup?, cell.row.speedup?));
    let gaps = run.cells.iter().filter_map(both);
    let gaps = gaps.map(|(predicted, measured)| (measured / predicted - 1.0).abs());
    let gaps = gaps.collect::<Vec<_>>();
    let both = fastest(bests).and_then(both);
    let answer = both.map_or_else(
        || "No forecast".to_owned(),
        |(predicted, measured)| format!("{predicted:.2} × forecast, {measured:.2} × measured"),
    );
    let median = median(&gaps).map(|gap| {
        let gap = TableCell::percent(gap, 1);
        format!("Median gap over {}: {gap}.", count(gaps.len(), "cell"))
    });
    let how = both.map(|_| {
        "For all generations of the fastest cell, from costs fitted to the other half of the prompts.".to_owned()
    });
    let details = [how, median].into_iter().flatten().collect();
    PageVerdict { question: QUESTION, answer, tone: Tone::Plain, details }
}

fn disturbed(run: &Run) -> PageVerdict {
    let blocks = run.disturbed_blocks();
    let (answer, tone) = match run.times.withheld() {
        Some(SpeedVerdict::Set) => ("Its times are set", Tone::Plain),
        Some(_) => ("Yes: no verdict on times", Tone::Bad),
        None if blocks > 0 => ("Little", Tone::Plain),
        None => ("No", Tone::Good),
    };
    let seen = format!("{blocks} of {} were disturbed.", count(run.blocks.len(), "block"));
    let controls = match (run.plan.controls().len(), run.differing) {
        (0, _) => String::new(),
        (all, differ) => format!("{differ} of {} that ran twice differ.", count(all, "cell")),
    };
    let warnings = match warnings(run).len() {
        0 => "No warnings.".to_owned(),
        n => format!("{}.", count(n, "warning")),
    };
    let (answer, details) = (answer.to_owned(), vec![seen, controls, warnings]);
    PageVerdict { question: "Was the run disturbed?", answer, tone, details }
}

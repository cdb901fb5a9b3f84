//! Composes the report from its sections: text, tables and figures.

use std::collections::BTreeSet;

use super::best::SeriesContest;
use super::document::{DocBlock, DocFigure, TableCell, external, ours, strong};
use super::loops::{LoopShares, any_looping, judged_samples, loop_free_cell, pairs_of};
use super::run::Run;
use super::tables::{columns, number, verdict_cell, with_interval};
use super::warnings::warnings;
use super::{
    batches, beams, contrasts, controls, divergence, experts, held_out, machines, other_tools,
    outliers, places, policies, sessions, speedup_ceiling, thinking, trace, worth,
};
use crate::io::shown::count;
use crate::measure::rows::SummaryRow;
use crate::measure::statistics::{
    MIN_PROMPTS, RESAMPLES, acceptance, deciles, pair_by_prompt, speedup,
};
use crate::model::{CacheDtype, Vocabulary};
use crate::run::experiment::PlannedModel;

/// The head of the column of the speedups without loops.
const WITHOUT_LOOPS: &str = "without loops [95 %]:";

/// The maximum number of prompts named in a sentence about how prompts were chosen.
const LISTED: usize = 12;

/// A section of the report: its heading and what follows. A section without rows is empty.
type Section = fn(&Run) -> Vec<DocBlock>;

/// The sections before the figures.
const FIRST: &[Section] = &[best_lengths, contrasts::section, checks, machines::section];

/// The sections after the figures.
const OTHERS: &[Section] = &[
    cells,
    batches::section,
    experts::section,
    beams::section,
    speedup_ceiling::section,
    held_out::section,
    predictions,
    places::sections,
    thinking::section,
    worth::against_rejection,
    worth::ceilings,
    worth::distances,
    policies::section,
    controls::section,
    divergence::section,
    categories,
    spread,
    outliers::section,
    trace::section,
    other_tools::section,
    sessions::training,
    sessions::section,
];

pub(super) fn compose(run: &Run, figures: Vec<DocFigure>) -> Vec<DocBlock> {
    let plan = &run.plan;
    let mut document =
        vec![DocBlock::Title(plan.experiment.clone()), DocBlock::Question(plan.question.clone())];
    let alarms = run.times.reasons.iter().map(|reason| reason.sentence());
    document.extend(alarms.map(|alarm| DocBlock::Paragraph(strong(&alarm))));
    document.extend(LoopShares::of(run).map(|loops| match loops.alarming {
        true => DocBlock::Paragraph(strong(&loops.words())),
        false => DocBlock::paragraph(&loops.words()),
    }));
    document.push(settings(run));
    document.extend(FIRST.iter().flat_map(|section| section(run)));
    document.push(DocBlock::Heading("Figures"));
    document.extend(figures.into_iter().map(DocBlock::Figure));
    document.extend(OTHERS.iter().flat_map(|section| section(run)));
    document
}

/// What was run.
fn settings(run: &Run) -> DocBlock {
    let plan = &run.plan;
    let draft = plan.draft.as_ref();
    let of = |draft: &PlannedModel| match draft.vocabulary {
        Vocabulary::Same => "",
        Vocabulary::Prefix | Vocabulary::Intersection => " for the tokens in common",
    };
    let draft = draft.map_or_else(Vec::new, |d| {
        let how = format!(" in {}{}", d.dtype, of(d));
        [ours(", draft "), external(&d.name), ours(&how)].concat()
    });
    let tokens = run.samples().map(|sample| sample.new_tokens).sum::<usize>();
    let chosen = plan.choice.sentences(LISTED);
    let chosen = chosen.iter().flat_map(|sentence| [ours(" "), external(sentence)].concat());
    let eos = match run.behind_end_share(run.samples()) {
        _ if !plan.ignore_eos => " or to its end (no token behind it counts)".to_owned(),
        None => ", end-of-text ignored".to_owned(),
        Some(share) => {
            format!(", end-of-text ignored ({:.1} % of the tokens lie behind it)", 100.0 * share)
        }
    };
    let controls = plan.cells.first().and_then(|cell| cell.method.sampling.controls.set());
    let controls = controls.map_or_else(Vec::new, |set| external(&format!(", {}", set.words())));
    let special = if plan.special_tokens { ", control tokens in prompts" } else { "" };
    let chat = if plan.chat { ", prompts as conversations" } else { "" };
    let cache = match plan.target.kv_cache_dtype {
        _ if !plan.kv_cache => ", without a KV cache".to_owned(),
        CacheDtype::F32 => String::new(),
        other => format!(", keys and values in {}", other.name()),
    };
    let device = plan.target.device.as_ref().map_or_else(String::new, |d| format!(" on {d}"));
    let several = match plan.turns.len() {
        0 => String::new(),
        n => format!(
            " {n} questions have several turns, each of which is a prompt; the answers before a \
             turn are those of plain greedy decoding."
        ),
    };
    let rest = format!(
        " (engine {}{device}). {}, {}, repeats: {}, up to {} tokens each{eos}{special}{chat}{cache}, \
         seed {}: {}, {}. Plain decoding ran in turns with the cells of its sampling setting, \
         prompt by prompt.{several}",
        plan.target.engine,
        count(plan.prompts.len(), "prompt"),
        count(plan.cells.len(), "cell"),
        plan.repeats,
        plan.max_tokens,
        plan.seed,
        count(run.samples().count(), "generation"),
        count(tokens, "token"),
    );
    let target = format!(" in {}", plan.target.dtype);
    let words =
        [ours("Target "), external(&plan.target.name), ours(&target), draft, controls, ours(&rest)];
    DocBlock::Paragraph(words.concat().into_iter().chain(chosen).collect())
}

/// The fastest cell of every method, or the one with the largest K.
fn best_lengths(run: &Run) -> Vec<DocBlock> {
    let times = &run.times;
    let loops = times.is_valid() && any_looping(run);
    let k = format!("{}:", times.chosen_k());
    let mut head = vec!["method", "sampling", &k, "speedup [95 %]:"];
    head.extend(loops.then_some(WITHOUT_LOOPS));
    head.extend(["against plain decoding", "predicted speedup:", "best in resamples:", "class"]);
    let mut left_out = Vec::new();
    let rows = run.series().filter_map(|series| {
        let (cell, contest) = (series.best()?, SeriesContest::of(run, &series)?);
        let row = &cell.row;
        let of = pair_by_prompt(run.baseline(cell), &cell.samples).len();
        let few = contest.left_out().map(|(cell, prompts)| {
            let k = cell.method.num_speculative_tokens;
            format!("{}, {}, K = {k} ({prompts} of {of} prompts)", cell.name, cell.sampling)
        });
        left_out.extend(few);
        let wins = times.is_valid().then(|| contest.wins()).flatten();
        let [method, sampling, class, k] = cell.line();
        let speedup = with_interval(row.speedup, row.speedup_lo, row.speedup_hi, 2);
        let mut line = vec![method, sampling, k, speedup];
        line.extend(loops.then(|| loop_free_cell(row)));
        line.extend([
            verdict_cell(cell.verdict.words()),
            number(row.predicted_speedup, 2),
            wins.map_or_else(|| number(None, 0), |wins| TableCell::percent(wins, 0)),
            class,
        ]);
        Some(line)
    });
    let rows = rows.collect::<Vec<_>>();
    let intervals = format!(
        "Intervals are 95 % intervals over prompts, given for {MIN_PROMPTS} prompts or more"
    );
    let intervals = match times.is_valid() {
        true => format!(
            "{intervals}; they do not account for K being chosen on the same data. \"Best in \
             resamples\" is the share of {RESAMPLES} resamples of the prompts in which this K is \
             the fastest of its line; a low share means that the choice is uncertain."
        ),
        false => format!(
            "{intervals}. No K is the best by these times: each line has its largest K, chosen \
             without them."
        ),
    };
    let mut blocks = vec![
        DocBlock::Heading("Best draft length"),
        DocBlock::table(&head, rows),
        DocBlock::paragraph(&intervals),
    ];
    if !left_out.is_empty() {
        let why = ours("Left out, since prompts failed there that another K finished: ");
        let words = [why, external(&left_out.join("; ")), ours(".")].concat();
        blocks.push(DocBlock::Paragraph(words));
    }
    blocks
}

/// Plain decoding, and what is doubtful about the run.
fn checks(run: &Run) -> Vec<DocBlock> {
    // Those of beam searches stand in their own table.
    let baselines = run.baselines().filter(|cell| cell.beam.is_none());
    let rows = baselines.map(|cell| {
        let ([_, sampling, class], row) = (cell.names(), &cell.row);
        vec![
            sampling,
            class,
            row.generations.into(),
            row.tokens.into(),
            row.loop_share.map_or_else(|| number(None, 0), |share| TableCell::percent(share, 1)),
            number(row.tokens_per_second, 1),
            number(row.baseline_forwards_per_token, 3),
        ]
    });
    let head = [
        "plain decoding",
        "class",
        "generations:",
        "tokens:",
        "in loops:",
        "tokens/s:",
        "target passes per token (must be 1.000):",
    ];
    let rows = rows.collect::<Vec<_>>();
    let mut blocks = vec![DocBlock::Heading("Baseline and warnings")];
    if !rows.is_empty() {
        blocks.push(DocBlock::table(&head, rows));
    }
    let warnings = warnings(run);
    blocks.push(match warnings.is_empty() {
        true => DocBlock::paragraph("No warnings."),
        false => DocBlock::List(warnings.iter().map(|warning| external(warning)).collect()),
    });
    blocks
}

fn cells(run: &Run) -> Vec<DocBlock> {
    let loops = any_looping(run);
    let mut head = vec!["method", "sampling", "K:", "speedup [95 %]:"];
    head.extend(loops.then_some(WITHOUT_LOOPS));
    head.extend([
        "tokens/s:",
        "τ, tokens per round [95 %]:",
        "accepted ÷ proposed:",
        "alpha, mean Σ min(p, q) per position [95 %]:",
        "predicted speedup:",
        "c, time of a drafted token ÷ T(1):",
        "T(K+1) ÷ T(1), target passes:",
        "class",
        "rounds:",
        "status",
        "cell",
    ]);
    let table = run.drafted().map(|cell| {
        let (row, [method, sampling, class, k]) = (&cell.row, cell.line());
        let speedup = with_interval(row.speedup, row.speedup_lo, row.speedup_hi, 2);
        let mut line = vec![method, sampling, k, speedup];
        line.extend(loops.then(|| loop_free_cell(row)));
        let (lo, hi) = (row.block_efficiency_lo, row.block_efficiency_hi);
        line.extend([
            number(row.tokens_per_second, 1),
            with_interval(row.block_efficiency, lo, hi, 2),
            number(row.acceptance_rate, 3),
            with_interval(row.alpha, row.alpha_lo, row.alpha_hi, 3),
            number(row.predicted_speedup, 2),
            number(row.cost_ratio, 3),
            number(row.verify_cost_ratio, 2),
            class,
            row.rounds.into(),
            row.status.as_str().into(),
            cell.id.as_str().into(),
        ]);
        line
    });
    vec![
        DocBlock::Heading("All cells"),
        DocBlock::paragraph(
            "Class: D (lossless) the output distribution equals sampling from the target; G \
             (greedy-exact) the completion is that of greedy decoding, or of the same beam search \
             without drafts; P (seed-exact) the same seed gives the tokens of plain decoding; X \
             approximate; with `~` the engine's rounding may depend on the number of rows of a \
             pass. T(n) is the time of a target pass over n rows. Accepted ÷ proposed also counts \
             the tokens that follow a rejection; alpha is a mean over the decided positions \
             alone.",
        ),
        DocBlock::table(&head, table.collect()),
    ]
}

fn predictions(run: &Run) -> Vec<DocBlock> {
    let gap = |row: &SummaryRow| Some(row.speedup? / row.calibrated_speedup? - 1.0);
    let head = [
        "method",
        "sampling",
        "class",
        "cells:",
        "median |gap|:",
        "largest gap:",
        "calibrated inside the interval:",
    ];
    let table = run.series().filter_map(|series| {
        let rows = series.cells.iter().map(|cell| &cell.row);
        let rows = rows.filter(|row| gap(row).is_some()).collect::<Vec<_>>();
        let gaps = rows.iter().filter_map(|row| gap(row)).collect::<Vec<_>>();
        let (median, largest) = held_out::sizes(&gaps)?;
        let known = rows.iter().filter(|row| row.speedup_lo.is_some());
        let inside = known.clone().filter(|row| {
            let x = row.calibrated_speedup;
            x >= row.speedup_lo && x <= row.speedup_hi
        });
        let inside = inside.count();
        let rest = [
            gaps.len().into(),
            TableCell::percent(median, 1),
            TableCell::difference(largest),
            TableCell::shown_as(format!("{inside} of {}", known.count()), Some(inside as f64)),
        ];
        Some(series.first().names().into_iter().chain(rest).collect())
    });
    DocBlock::section(
        "Calibrated and measured",
        "The gap is measured ÷ calibrated speedup − 1. Calibrated speedups use only the costs of \
         the calibration and the survival of drafts on other prompts.",
        &head,
        table.collect(),
    )
}

/// τ and speedup by category of prompt, at the K that stands for each series; without loops if
/// plain decoding has too many.
fn categories(run: &Run) -> Vec<DocBlock> {
    let names = run.samples().map(|sample| &*sample.category).collect::<BTreeSet<_>>();
    if names.len() < 2 {
        return Vec::new();
    }
    let head = names.iter().map(|name| format!("{name}: τ, speedup:")).collect::<Vec<_>>();
    let head = columns(&head.iter().map(String::as_str).collect::<Vec<_>>());
    let table = run.series().filter_map(|series| {
        let cell = series.best()?;
        let samples = judged_samples(run, cell);
        let mut line = cell.line().to_vec();
        line.extend(names.iter().map(|name| {
            let inside = || samples.iter().copied().filter(|s| &*s.category == *name);
            let tau = acceptance(inside()).block_efficiency();
            let ratio = speedup(pairs_of(run, cell, inside()).values());
            TableCell::shown_as(format!("{}, {}", number(tau, 2), number(ratio, 2)), ratio)
        }));
        Some(line)
    });
    let table = DocBlock::table(&head, table.collect());
    let mut blocks = vec![DocBlock::Heading("By category of prompt")];
    if any_looping(run) {
        blocks.push(DocBlock::paragraph("On the generations on which the verdicts rest."));
    }
    blocks.push(table);
    blocks
}

/// Deciles of the speedups of single prompts, at the K that stands for each series.
fn spread(run: &Run) -> Vec<DocBlock> {
    let head = columns(&[
        "prompts:",
        "slowest:",
        "10 %:",
        "50 %:",
        "90 %:",
        "fastest:",
        "prompts below 1:",
    ]);
    let table = run.series().filter_map(|series| {
        let cell = series.best()?;
        let times = pair_by_prompt(run.baseline(cell), &cell.samples);
        let own = times.values().filter_map(|pair| speedup([pair])).collect::<Vec<_>>();
        let cuts = deciles(&own)?;
        let mut line = cell.line().to_vec();
        line.push(own.len().into());
        line.extend([0, 1, 5, 9, 10].map(|i| number(Some(cuts[i]), 2)));
        line.push(own.iter().filter(|x| **x < 1.0).count().into());
        Some(line)
    });
    vec![
        DocBlock::Heading("Spread over prompts"),
        DocBlock::paragraph(&format!("Speedup of single prompts at the {}.", run.times.chosen_k())),
        DocBlock::table(&head, table.collect()),
    ]
}

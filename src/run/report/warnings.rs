//! Warnings about a run that affect how its numbers may be read.

use super::run::{CellView, Run};
use super::summary::ELSEWHERE;
use super::validity::SpeedVerdict;
use super::{calibration_check, machines, outliers};
use crate::io::shown::count;
use crate::measure::rows::SummaryRow;
use crate::measure::statistics::MIN_PROMPTS;
use crate::run::experiment::{Share, Status, describe};

/// With fewer rounds than this, the standard error of a probability near 0.8 exceeds 0.028,
/// which is more than neighbouring draft lengths differ by.
const FEW_ROUNDS: usize = 200;

/// A larger share of tokens behind the end of a text changes what a speedup means.
const MOST_BEHIND_END: f64 = 0.02;

/// The maximum number of unfinished cells that are named.
const NAMED: usize = 3;

/// All warnings, the most serious first.
pub(super) fn warnings(run: &Run) -> Vec<String> {
    let mut found = Vec::new();
    let divergences = run.cells.iter().flat_map(|cell| &cell.divergences);
    let wrong = divergences.filter(|row| !row.tie).count();
    if wrong > 0 {
        found.push(format!(
            "{wrong} completions differ from those of plain decoding where they must not, and not \
             at a tie: the method or the engine is wrong, and nothing else in this report should \
             be trusted."
        ));
    }
    if let Some(share) = run.behind_end_share(run.samples())
        && share > MOST_BEHIND_END
    {
        found.push(format!(
            "{:.0} % of the tokens lie behind the end of their text, because ignore_eos = true. \
             Nobody would read them, but acceptance and speedup count them.",
            100.0 * share
        ));
    }
    baselines(run, &mut found);
    machine(run, &mut found);
    cells(run, &mut found);
    found.extend(run.notes.iter().cloned());
    found
}

fn baselines(run: &Run, found: &mut Vec<String>) {
    for cell in run.baselines() {
        let samples = &cell.samples;
        let forwards = samples.iter().map(|s| s.target_forwards).sum::<usize>();
        // A beam search needs a row for every beam of a step.
        let needed = samples.iter().map(|s| s.beam.as_ref().map_or(s.new_tokens, |beam| beam.rows));
        let needed = needed.sum::<usize>();
        let what = if cell.beam.is_some() { "rows" } else { "tokens" };
        if samples.is_empty() {
            found.push(format!(
                "The baseline \"{}\" has no finished generation: its cells have no speedup.",
                describe(cell)
            ));
        } else if forwards != needed {
            found.push(format!(
                "The baseline \"{}\" made {forwards} target passes for {needed} {what}, not one \
                 each: speedups over it are biased.",
                describe(cell)
            ));
        }
    }
}

fn machine(run: &Run, found: &mut Vec<String>) {
    let (plan, manifest) = (&run.plan, &run.manifest);
    found.extend(part(run));
    match manifest.status {
        Status::Finished | Status::Measured => {}
        Status::Interrupted if !manifest.merged.is_empty() => {
            let (done, all) = (run.blocks.len(), run.plan.blocks());
            found.push(format!("The merged run has {done} of {all} blocks."));
        }
        Status::Interrupted => found.push("The run was interrupted: blocks are missing.".into()),
        Status::Running => {
            found.push(
                "The run had not ended when it was last recorded: blocks are missing.".into(),
            );
        }
    }
    if manifest.sessions.iter().any(|session| session.build.git_dirty) {
        found.push("The sources differed from the recorded commit.".into());
    }
    let disturbed = run.disturbed_blocks();
    if disturbed > 0 && !run.is_disturbed() {
        found.push(format!(
            "{disturbed} of {} blocks were disturbed each time they were run, the worst one mainly \
             by {}: their times are left out.",
            run.blocks.len(),
            run.worst_cause()
        ));
    }
    let groups = manifest.groups();
    let other = run.blocks.iter().filter(|block| groups[block.session] != run.session);
    let other = other.count();
    let several = machines::warning(run);
    if other > 0 && several.is_none() {
        found.push(format!(
            "{other} of {} blocks were timed by another build, on another processor or with other \
             threads: their tokens count, their times do not.",
            run.blocks.len()
        ));
    }
    found.extend(several);
    if run.times.withheld() == Some(SpeedVerdict::Set) {
        return;
    }
    let session = run.session();
    let (load, cores) = (session.load_average[0], session.machine.cores);
    if load > cores as f64 {
        found.push(format!(
            "The machine was busy at the start: load average {load:.1} on {cores} cores."
        ));
    }
    if plan.warmup == 0 {
        found.push("Without warm-up, t_d, t_v and t_o are unknown: there is no prediction.".into());
    } else {
        found.extend(calibration_check::warnings(run));
    }
}

/// Which part of a run this is, if it is one.
fn part(run: &Run) -> Option<String> {
    let share = run.manifest.share?;
    let which = match share {
        Share::Shard(shard) => format!("shard {shard} of a run"),
        Share::Claims => "one process's part of a run".to_owned(),
    };
    Some(format!(
        "This is {which}: it has {} of {} blocks, and the others are in other folders, which \
         `specdec merge` joins.",
        run.blocks.len(),
        run.plan.blocks()
    ))
}

/// The number of unfinished cells, with status and reason of the first few.
fn unfinished(run: &Run) -> Option<String> {
    let open = |cell: &&CellView| cell.row.status != "finished" && cell.row.status != ELSEWHERE;
    let cells = run.cells.iter().filter(open).collect::<Vec<_>>();
    let sentence = |cell: &&CellView| {
        let SummaryRow { status, reason, .. } = &cell.row;
        let colon = if reason.is_empty() { "" } else { ": " };
        format!("\"{}\" is {status}{colon}{reason}", describe(cell))
    };
    let mut named = cells.iter().take(NAMED).map(sentence).collect::<Vec<_>>();
    if cells.len() > NAMED {
        named.push(format!("and {} more", cells.len() - NAMED));
    }
    let (n, all) = (cells.len(), run.cells.len());
    (n > 0).then(|| format!("{n} of {all} cells have not finished: {}.", named.join("; ")))
}

fn cells(run: &Run, found: &mut Vec<String>) {
    found.extend(unfinished(run));
    let few = |cell: &&CellView| (1..FEW_ROUNDS).contains(&cell.row.rounds);
    let few = run.cells.iter().filter(few).count();
    if few > 0 {
        found.push(format!("Fewer than {FEW_ROUNDS} rounds in {}.", count(few, "cell")));
    }
    let distinct = run.plan.distinct_prompts();
    if let copies @ 1.. = run.plan.copies.len() {
        found.push(format!(
            "{copies} of {} prompts are the same prompt as an earlier one: equal prompts count as \
             one in intervals and tests.",
            run.plan.prompts.len()
        ));
    }
    if distinct < MIN_PROMPTS {
        found.push(format!(
            "With {}, ratios have no interval: below {MIN_PROMPTS} prompts, no interval \
             is known to keep its nominal coverage.",
            count(distinct, "prompt")
        ));
    }
    found.extend(outliers::warning(run));
    let fallbacks = run.samples().map(|sample| sample.rounds.residual_fallbacks).sum::<usize>();
    if fallbacks > 0 {
        found.push(format!(
            "Rounding left {fallbacks} residual distributions without mass; the \
             distribution before the rejection was used instead."
        ));
    }
    let timed = run.cells.iter().filter(|cell| !cell.control && cell.row.speedup.is_some());
    let slower = |cell: &&CellView| cell.verdict == SpeedVerdict::Slower;
    let slower = timed.clone().filter(slower).count();
    if slower > 0 {
        found.push(format!("{slower} of {} cells are slower than plain decoding.", timed.count()));
    }
}

//! Runs that several machines have timed: a speedup for each of them, and how they differ.
//! Times of different machines never meet in one speedup.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;

use super::document::{DocBlock, TableCell, external, ours};
use super::run::{CellView, Run, Series};
use super::tables::{columns, ends, number, with_interval, write_csv};
use crate::io::shown::count;
use crate::measure::rows::{BetweenRow, MachineRow};
use crate::measure::statistics::{
    BetweenMachines, MIN_MACHINES, PairedTime, pair_samples, speedup, speedup_interval,
    speedup_ratio,
};

/// The groups of comparable sessions that have timed blocks, by their number, with their names,
/// if the run's machines have names and there are several groups. Empty otherwise.
pub(super) fn machines(run: &Run) -> Vec<(usize, String)> {
    let groups = run.cells.iter().flat_map(|cell| &cell.groups);
    let groups = groups.flatten().copied().collect::<BTreeSet<_>>();
    let sessions = &run.manifest.sessions;
    if groups.len() < 2 || sessions.iter().all(|session| session.host.is_none()) {
        return Vec::new();
    }
    let host = |group: usize| sessions[group].host.clone().unwrap_or_else(|| "unknown".into());
    let name = |&group: &usize| {
        let same = groups.iter().filter(|&&other| host(other) == host(group)).count();
        // Another build or number of threads on the same machine.
        let session = if same > 1 { format!(", session {}", group + 1) } else { String::new() };
        (group, host(group) + &session)
    };
    groups.iter().map(name).collect()
}

/// The times of a cell on one machine, paired with those of its baseline there.
fn pairs<'a>(run: &'a Run, cell: &'a CellView, group: usize) -> BTreeMap<&'a str, PairedTime> {
    let of = |cell: &'a CellView| {
        let own = cell.samples.iter().zip(&cell.groups);
        own.filter(move |(_, own)| **own == Some(group)).map(|(sample, _)| sample)
    };
    let baseline = cell.baseline.map(|at| &run.cells[at]);
    pair_samples(baseline.into_iter().flat_map(of), of(cell))
}

/// The rows of `machines.csv`.
fn rows_of(run: &Run, machines: &[(usize, String)]) -> Vec<MachineRow> {
    let cells = run.cells.iter().filter(|cell| !cell.is_baseline());
    let row = |(cell, (group, name)): (&CellView, &(usize, String))| {
        let pairs = pairs(run, cell, *group);
        let sum = |of: fn(&PairedTime) -> f64| pairs.values().map(of).sum::<f64>();
        let rate = |tokens: f64, us: f64| (us > 0.0).then(|| tokens * 1e6 / us);
        let (speedup_lo, speedup_hi) = ends(speedup_interval(&pairs));
        Some(MachineRow {
            cell: cell.id.clone(),
            machine: name.clone(),
            prompts: pairs.len(),
            baseline_tokens_per_second: rate(sum(|p| p.plain_tokens as f64), sum(|p| p.plain_us))?,
            tokens_per_second: rate(sum(|p| p.tokens as f64), sum(|p| p.us))?,
            speedup: speedup(pairs.values())?,
            speedup_lo,
            speedup_hi,
        })
    };
    cells.flat_map(|cell| machines.iter().map(move |m| (cell, m))).filter_map(row).collect()
}

/// What all machines have of a cell.
fn between(run: &Run, machines: &[(usize, String)], cell: &CellView) -> Option<BetweenMachines> {
    let ratios = machines.iter().map(|(group, _)| speedup_ratio(&pairs(run, cell, *group)));
    BetweenMachines::of(&ratios.collect::<Vec<_>>())
}

/// Writes `machines.csv` and `between_machines.csv` if several machines have timed the run.
pub(super) fn write(folder: &Path, run: &Run) -> Result<()> {
    let machines = machines(run);
    if machines.is_empty() {
        return Ok(());
    }
    write_csv(&folder.join("machines.csv"), &rows_of(run, &machines))?;
    let cells = run.cells.iter().filter(|cell| !cell.is_baseline());
    let row = |cell: &CellView| {
        let found = between(run, &machines, cell)?;
        let (expected_lo, expected_hi) = ends(found.expected.map(|expected| expected.interval));
        Some(BetweenRow {
            cell: cell.id.clone(),
            machines: found.machines,
            median: found.median,
            lowest: found.lowest,
            highest: found.highest,
            expected: found.expected.map(|expected| expected.ratio),
            expected_lo,
            expected_hi,
            spread: found.expected.map(|expected| expected.spread),
        })
    };
    write_csv(&folder.join("between_machines.csv"), &cells.filter_map(row).collect::<Vec<_>>())
}

/// A warning that says which machine's times the report is about, if there are several.
pub(super) fn warning(run: &Run) -> Option<String> {
    let machines = machines(run);
    let (_, name) = machines.iter().find(|(group, _)| *group == run.session)?;
    let groups = run.manifest.groups();
    let own = run.blocks.iter().filter(|block| groups[block.session] == run.session);
    Some(format!(
        "{} timed this run, and their times never mix: speedups and other times are those of {name}, \
         which has {} of {} blocks; the section \"Machines\" and machines.csv have those of each. \
         Tokens and acceptance are those of all blocks.",
        count(machines.len(), "machine"),
        own.count(),
        run.blocks.len()
    ))
}

/// The machines, and how far the speedup at the K that stands for a method differs between them.
/// Empty if one machine has timed the run.
pub(super) fn section(run: &Run) -> Vec<DocBlock> {
    let machines = machines(run);
    if machines.is_empty() {
        return Vec::new();
    }
    let groups = run.manifest.groups();
    let machine = |(group, name): &(usize, String)| {
        let session = &run.manifest.sessions[*group];
        let own = || run.blocks.iter().filter(|block| groups[block.session] == *group);
        vec![
            TableCell::from(name.as_str()),
            session.machine.cpu_model.as_str().into(),
            format!("{}, {}", session.machine.cores, session.threads).into(),
            own().count().into(),
            own().filter(|block| block.disturbed).count().into(),
        ]
    };
    let head = ["machine", "processor", "cores, worker threads", "blocks:", "disturbed:"];
    let listed = DocBlock::table(&head, machines.iter().map(machine).collect());
    let row = |series: Series<'_>| {
        let cell = series.best()?;
        let found = between(run, &machines, cell)?;
        let (lo, hi) = ends(found.expected.map(|expected| expected.interval));
        let rest = vec![
            found.machines.into(),
            number(Some(found.lowest), 2),
            number(Some(found.median), 2),
            number(Some(found.highest), 2),
            with_interval(found.expected.map(|expected| expected.ratio), lo, hi, 2),
            match found.expected {
                Some(expected) => TableCell::percent(expected.spread.exp_m1(), 1),
                None => number(None, 1),
            },
        ];
        Some(cell.line().into_iter().chain(rest).collect())
    };
    let head = columns(&[
        "machines:",
        "lowest:",
        "median:",
        "highest:",
        "typical machine [95 %]:",
        "spread:",
    ]);
    let table = DocBlock::table(&head, run.series().filter_map(row).collect());
    let words = format!(
        "Every speedup here is of one machine: of plain decoding and the cell in the same blocks. \
         Machines differ, and each has other prompts. From {MIN_MACHINES} machines on, a \
         random-effects model gives the speedup of a typical machine, with the interval that a \
         sample of as many machines allows, and the standard deviation between machines. Every line \
         is at the {} of ",
        run.times.chosen_k()
    );
    let main = machines.iter().find(|(group, _)| *group == run.session);
    let main = main.map_or_else(String::new, |(_, name)| format!("{name}."));
    let paragraph = [ours(&words), external(&main)].concat();
    vec![DocBlock::Heading("Machines"), listed, DocBlock::Paragraph(paragraph), table]
}

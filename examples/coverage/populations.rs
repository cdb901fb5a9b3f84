//! The ratios of a run's cells, each as a population of prompts.

use std::collections::BTreeMap;
use std::path::Path;

use specdec::measure::statistics::{
    Ratio, alpha, block_efficiency, block_efficiency_ratio, outliers, pair_by_prompt,
    speedup_ratio, survival_ratios, tv,
};
use specdec::run::experiment::describe;
use specdec::run::report::{CellView, Run};

/// A ratio of a cell, as a population of prompts.
#[derive(Debug)]
pub(crate) struct Population {
    /// The results folder.
    pub(crate) run: String,
    /// The id of the cell.
    pub(crate) cell: String,
    /// The cell in words.
    pub(crate) method: String,
    /// The name of the estimated ratio.
    pub(crate) name: String,
    /// Whether outlier prompts are left out.
    pub(crate) trimmed: bool,
    /// The number of outlier prompts, by time or speedup.
    pub(crate) far: usize,
    /// The ratio over all prompts of the population.
    pub(crate) ratio: Ratio,
    /// The value of that ratio: the truth that intervals should cover.
    pub(crate) truth: f64,
}

/// All ratios of all cells that have an interval and a nonzero spread.
pub(crate) fn populations(folder: &Path, own: &Run) -> Vec<Population> {
    let run = folder.iter().rev().take(2).map(|part| part.to_string_lossy()).collect::<Vec<_>>();
    let run = run.into_iter().rev().collect::<Vec<_>>().join("/");
    let mut found = Vec::new();
    for cell in own.cells.iter().filter(|cell| !cell.is_baseline()) {
        let mut add = |name: String, trimmed: bool, far: usize, ratio: Ratio| {
            let (run, method) = (run.clone(), describe(cell));
            let Some(truth) = ratio.value() else { return };
            let spread = ratio.influences().iter().map(|x| x.abs()).sum::<f64>();
            if ratio.interval().is_some() && spread > 1e-9 {
                let cell = cell.id.clone();
                found.push(Population { run, cell, method, name, trimmed, far, ratio, truth });
            }
        };
        let samples = &cell.samples;
        let pairs = pair_by_prompt(own.baseline(cell), samples);
        let far = outliers(&pairs).iter().map(|o| o.prompt).collect::<Vec<_>>();
        add("speedup".to_owned(), false, far.len(), speedup_ratio(&pairs));
        let near = pairs.iter().filter(|(prompt, _)| !far.contains(prompt));
        let near = near.map(|(prompt, pair)| (*prompt, *pair)).collect::<BTreeMap<_, _>>();
        add("speedup".to_owned(), true, far.len(), speedup_ratio(&near));
        if cell.control {
            continue;
        }
        add("tau".to_owned(), false, 0, block_efficiency(samples));
        alpha(samples).into_iter().for_each(|ratio| add("alpha".to_owned(), false, 0, ratio));
        tv(samples).into_iter().for_each(|ratio| add("tv".to_owned(), false, 0, ratio));
        let positions = survival_ratios(samples).into_iter().zip(1_usize..);
        for (ratio, i) in positions.filter(|(_, i)| i.is_power_of_two()) {
            add(format!("survival {i}"), false, 0, ratio);
        }
        if let Some(rival) = rival(own, cell) {
            let other = &rival.samples;
            add("tau_ratio".to_owned(), false, 0, block_efficiency_ratio(samples, other));
            let pairs = pair_by_prompt(other, samples);
            let far = outliers(&pairs).len();
            add("speed_ratio".to_owned(), false, far, speedup_ratio(&pairs));
        }
    }
    found
}

/// The cell with rejection sampling that has the same drafter, draft length and sampling
/// setting as `cell`; `None` if `cell` itself uses rejection sampling.
fn rival<'a>(run: &'a Run, cell: &CellView) -> Option<&'a CellView> {
    let key = |c: &CellView| {
        (c.method.drafter.clone(), c.method.length.clone(), c.method.num_speculative_tokens)
    };
    run.cells.iter().find(|c| {
        c.method.verifier == "rejection"
            && cell.method.verifier != "rejection"
            && !c.control
            && key(c) == key(cell)
            && c.method.sampling == cell.method.sampling
    })
}

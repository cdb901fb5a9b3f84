//! Groups cells that differ only in the draft length into series, and names them.

use std::collections::{BTreeMap, BTreeSet};

use super::document::DocCell;
use super::results::Results;
use super::tables::number;
use crate::experiment::Cell;
use crate::registry::{Entry, class_with_word};
use crate::rows::SummaryRow;
use crate::sampling::SamplingParams;

/// One line of a figure: the same method and sampling setting at several K.
#[derive(Debug, Clone, PartialEq)]
pub struct Series<'a> {
    /// The name of the method, which mentions only what distinguishes it within the run.
    pub method: String,
    /// The name of the sampling setting, shortened in the same way, or of the beam search.
    pub sampling: String,
    /// Its cells in order of increasing K.
    pub cells: Vec<&'a Cell>,
}

impl<'a> Series<'a> {
    /// The cell with the longest draft length among those that have samples.
    pub fn longest(&self, results: &Results) -> Option<&'a Cell> {
        self.cells.iter().rev().copied().find(|c| !results.samples(&c.id).is_empty())
    }

    /// The first columns of the table row of one of its cells: method, sampling, class, K.
    pub(super) fn line(&self, cell: &Cell) -> Vec<DocCell> {
        let [method, sampling] = [&self.method, &self.sampling].map(|name| name.clone().into());
        let k = cell.method.num_speculative_tokens.into();
        vec![method, sampling, class_with_word(&cell.class).into(), k]
    }
}

/// The heads of the columns of [`Series::line`], and of those that follow.
pub(super) fn columns<'h>(others: &[&'h str]) -> Vec<&'h str> {
    [&["method", "sampling", "class", "K:"][..], others].concat()
}

/// One table row per cell; cells for which `rest` returns `None` are left out.
pub(super) fn lines(
    series: &[Series<'_>],
    summary: &[SummaryRow],
    rest: impl Fn(&Cell, &SummaryRow) -> Option<Vec<DocCell>>,
) -> Vec<Vec<DocCell>> {
    let cells = series.iter().flat_map(|s| s.cells.iter().map(move |cell| (s, *cell)));
    let lines = cells.filter_map(|(series, cell)| {
        let row = summary.iter().find(|row| row.cell == cell.id)?;
        Some([series.line(cell), rest(cell, row)?].concat())
    });
    lines.collect()
}

/// The same of the baselines that are `wanted`, which have no K.
pub(super) fn plain_lines(
    results: &Results,
    summary: &[SummaryRow],
    wanted: impl Fn(&Cell) -> bool,
    rest: impl Fn(&Cell, &SummaryRow) -> Option<Vec<DocCell>>,
) -> Vec<Vec<DocCell>> {
    let baselines = results.plan.cells.iter().filter(|cell| cell.is_baseline() && wanted(cell));
    let names = Names::new(baselines.clone());
    let lines = baselines.filter_map(|cell| {
        let row = summary.iter().find(|row| row.cell == cell.id)?;
        let first = [names.method(cell), names.goal(cell), class_with_word(&cell.class)];
        let first = first.map(DocCell::from).into_iter().chain([number(None, 0)]);
        Some(first.chain(rest(cell, row)?).collect())
    });
    lines.collect()
}

/// All series of a run, in the order of the plan, without baselines and second runs of
/// control cells.
pub fn series(results: &Results) -> Vec<Series<'_>> {
    let mut found = Vec::<Series<'_>>::new();
    let cells = || results.plan.cells.iter().filter(|c| !c.is_baseline() && !c.control);
    let names = Names::new(cells());
    for cell in cells() {
        match found.iter_mut().find(|s| same_but_k(s.cells[0], cell)) {
            Some(series) => series.cells.push(cell),
            None => found.push(Series {
                method: names.method(cell),
                sampling: names.goal(cell),
                cells: vec![cell],
            }),
        }
    }
    found.iter_mut().for_each(|s| s.cells.sort_by_key(|c| c.method.num_speculative_tokens));
    found
}

/// The names without duplicates, in the order of their first occurrence.
pub(super) fn once<'n>(names: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
    let mut found = Vec::new();
    for name in names {
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

fn same_but_k(a: &Cell, b: &Cell) -> bool {
    (&a.method.drafter, &a.method.verifier, &a.method.length)
        == (&b.method.drafter, &b.method.verifier, &b.method.length)
        && a.method.params.to_string() == b.method.params.to_string()
        && a.goal() == b.goal()
}

/// The axes that name methods.
pub(super) const KINDS: [&str; 3] = ["drafter", "verifier", "length"];

/// Everything except K that distinguishes two cells, as text, by axis.
pub(super) fn attributes(cell: &Cell) -> BTreeMap<String, String> {
    let kinds = [&cell.method.drafter, &cell.method.verifier, &cell.method.length];
    let kinds = KINDS.into_iter().zip(kinds).map(|(key, value)| (key.to_owned(), value.clone()));
    let goal = cell.goal_settings().into_iter();
    let goal = goal.map(|(key, value)| (key.to_owned(), value.to_string()));
    let params = cell.method.params.iter().map(|(key, value)| (key.to_owned(), value.to_string()));
    let chat = cell.chat_arguments.words().map(|(key, value)| (key.to_owned(), value));
    kinds.chain(goal).chain(params).chain(chat).collect()
}

/// The settings of a cell, except those declared by the method `name` of `registry`.
pub(super) fn settings_but<'a, B>(
    registry: &'static [Entry<B>],
    name: &str,
    cell: &'a Cell,
) -> Vec<(&'a str, String)> {
    let entry = registry.iter().find(|entry| entry.name == name);
    let own = |key: &str| entry.is_some_and(|e| e.params.iter().any(|p| p.key == key));
    let others = cell.method.params.iter().filter(|(key, _)| !own(key));
    others.map(|(key, value)| (key, value.to_string())).collect()
}

/// The value of a setting as text; empty if the cell's methods have no such setting.
fn param(cell: &Cell, key: &str) -> String {
    cell.method.params.set(key).map_or_else(String::new, ToString::to_string)
}

/// The settings in which cells of the same methods differ. A value that all of them share,
/// usually the default, need not be mentioned.
fn varying_params(cells: &[&Cell]) -> BTreeSet<String> {
    let keys = cells.iter().flat_map(|c| c.method.params.iter().map(|(key, _)| key));
    let keys = keys.collect::<BTreeSet<_>>();
    let mut values = BTreeMap::<_, BTreeSet<_>>::new();
    for (cell, key) in cells.iter().flat_map(|c| keys.iter().map(move |key| (c, *key))) {
        let methods = (&cell.method.drafter, &cell.method.verifier, &cell.method.length);
        values.entry((key, methods)).or_default().insert(param(cell, key));
    }
    let varying = values.into_iter().filter(|(_, values)| values.len() > 1);
    varying.map(|((key, _), _)| key.to_owned()).collect()
}

/// Names that mention only what varies within a run.
#[derive(Debug, Clone)]
pub(super) struct Names {
    verifiers: bool,
    lengths: bool,
    params: BTreeSet<String>,
    sampling: Vec<&'static str>,
}

impl Names {
    pub(super) fn new<'a>(cells: impl Iterator<Item = &'a Cell>) -> Self {
        let cells = cells.collect::<Vec<_>>();
        let varies =
            |value: &dyn Fn(&Cell) -> String| cells.iter().any(|c| value(c) != value(cells[0]));
        let drawn = cells.iter().filter(|c| c.beam.is_none()).collect::<Vec<_>>();
        let sampling = drawn.first().map_or_else(Vec::new, |first| {
            let own = |c: &Cell, key: &str| setting(&c.method.sampling, key);
            let keys = first.method.sampling.settings().map(|(key, _)| key);
            keys.filter(|key| drawn.iter().any(|c| own(c, key) != own(first, key))).collect()
        });
        Self {
            verifiers: varies(&|c| c.method.verifier.clone()),
            lengths: varies(&|c| c.method.length.clone()),
            params: varying_params(&cells),
            sampling,
        }
    }

    /// The drafter, followed by the verifier, length policy and settings that vary.
    pub(super) fn method(&self, cell: &Cell) -> String {
        let mut name = cell.method.drafter.clone();
        if self.verifiers {
            name += &format!(" + {}", cell.method.verifier);
        }
        if self.lengths {
            name += &format!(", {}", cell.method.length);
        }
        for key in self.params.iter().filter(|key| !param(cell, key).is_empty()) {
            name += &format!(", {key} = {}", param(cell, key));
        }
        name
    }

    /// The temperature, followed by the other settings that vary and the batch; or the beams of
    /// a search.
    pub(super) fn goal(&self, cell: &Cell) -> String {
        if cell.beam.is_some() {
            return cell.goal_in_words();
        }
        let sampling = cell.method.sampling;
        let mut name = format!("T = {}", sampling.temperature);
        for key in self.sampling.iter().filter(|key| **key != "temperature") {
            name += &format!(", {key} = {}", setting(&sampling, key));
        }
        if cell.batch > 1 {
            name += &format!(", batch = {}", cell.batch);
        }
        if !cell.chat_arguments.is_empty() {
            name += &format!(", {}", cell.chat_arguments);
        }
        name
    }
}

fn setting(sampling: &SamplingParams, key: &str) -> String {
    sampling.get(key).map_or_else(String::new, |value| value.to_string())
}

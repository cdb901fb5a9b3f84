//! Groups cells that differ only in the draft length into series, and names them.

use std::collections::{BTreeMap, BTreeSet};

use super::run::CellView;
use crate::core::registry::Entry;
use crate::core::sampling::SamplingParams;
use crate::run::experiment::{Cell, Plan};

/// The cells of a plan by name, without generations, and the places of those of each series.
/// Plain decoding and second runs of control cells have no series.
pub(super) fn grouped(plan: &Plan) -> (Vec<CellView>, Vec<Vec<usize>>) {
    let drafts = |cell: &Cell| !cell.is_baseline() && !cell.control;
    let methods = Names::new(plan.cells.iter().filter(|cell| drafts(cell)));
    let plain = Names::new(plan.cells.iter().filter(|cell| cell.is_baseline()));
    let numbered = plan.cells.iter().zip(0..);
    let baselines = numbered.filter(|(cell, _)| cell.is_baseline()).collect::<Vec<_>>();
    let view = |cell: &Cell| {
        let names = if cell.is_baseline() { &plain } else { &methods };
        let baseline = baselines.iter().find(|(plain, _)| plain.goal() == cell.goal());
        CellView {
            name: names.method(cell),
            short: names.method(cell),
            sampling: names.goal(cell),
            baseline: baseline.map(|(_, at)| *at),
            cell: cell.clone(),
            ..CellView::default()
        }
    };
    let mut cells = plan.cells.iter().map(view).collect::<Vec<_>>();
    let mut series = Vec::<Vec<usize>>::new();
    for (at, cell) in cells.iter().enumerate().filter(|(_, cell)| drafts(cell)) {
        match series.iter_mut().find(|own| same_but_k(&cells[own[0]], cell)) {
            Some(own) => own.push(at),
            None => series.push(vec![at]),
        }
    }
    for (number, own) in series.iter_mut().enumerate() {
        own.sort_by_key(|&at| cells[at].method.num_speculative_tokens);
        for &at in own.iter() {
            cells[at].series = Some(number);
        }
    }
    shorten(&mut cells);
    (cells, series)
}

/// Drops the first part of the short names if all methods share it and have a second part.
fn shorten(cells: &mut [CellView]) {
    let parts = |cell: &CellView| {
        let found = [" + ", ", "].into_iter().filter_map(|by| Some((cell.name.find(by)?, by)));
        let (at, separator) = found.min()?;
        Some((cell.name[..at].to_owned(), cell.name[at + separator.len()..].to_owned()))
    };
    let methods = cells.iter_mut().filter(|cell| cell.series.is_some()).collect::<Vec<_>>();
    let names = methods.iter().map(|cell| parts(cell)).collect::<Option<Vec<_>>>();
    if let Some(names) = names
        && names.iter().all(|(first, _)| *first == names[0].0)
    {
        for (cell, (_, rest)) in methods.into_iter().zip(names) {
            cell.short = rest;
        }
    }
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
#[derive(Debug)]
struct Names {
    verifiers: bool,
    lengths: bool,
    params: BTreeSet<String>,
    sampling: Vec<&'static str>,
}

impl Names {
    fn new<'a>(cells: impl Iterator<Item = &'a Cell>) -> Self {
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
    fn method(&self, cell: &Cell) -> String {
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
    fn goal(&self, cell: &Cell) -> String {
        if cell.beam.is_some() {
            return cell.goal_in_words();
        }
        let sampling = cell.method.sampling.clone();
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

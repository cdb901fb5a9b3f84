//! Speedup by category of prompt, at the best K of each method.

use std::collections::{BTreeMap, BTreeSet};

use super::Data;
use super::rows::{Value, panel};
use super::sheet::{DOTS, Sheet, columns, marked, stroked};
use crate::experiment::statistics::{PairedTime, pair_by_prompt, speedup, speedup_interval};
use crate::report::best::best;
use crate::report::series::Series;

pub(super) fn draw(data: &Data<'_>) -> Option<Sheet> {
    let samples = data.results.samples.values().flatten();
    let category = samples
        .map(|s| (s.generation.prompt.as_str(), s.generation.category.as_str()))
        .collect::<BTreeMap<_, _>>();
    let categories = category.values().map(|c| (*c).to_owned()).collect::<BTreeSet<_>>();
    let rows = categories.into_iter().collect::<Vec<String>>();
    let methods = data.names(|s| &s.method);
    if rows.len() < 2 || methods.len() < 2 {
        return None;
    }
    let samplings = data.names(|s| &s.sampling);
    let panels = samplings.iter().map(|sampling| {
        let values = |method: &String| {
            let times = data.find(method, sampling).and_then(|s| times(data, s));
            let times = times.unwrap_or_default();
            let value = |(row, wanted): (usize, &String)| {
                let inside = times.iter().filter(|(p, _)| category.get(*p) == Some(&&**wanted));
                let inside = inside.map(|(p, time)| (*p, *time)).collect::<BTreeMap<_, _>>();
                let interval = speedup_interval(&inside).map(|i| (i.lo, i.hi));
                Some(Value { row, x: speedup(inside.values())?, interval })
            };
            rows.iter().enumerate().filter_map(value).collect::<Vec<_>>()
        };
        let sets = methods.iter().map(values).collect::<Vec<_>>();
        panel(sampling, &rows, "speedup over plain decoding (×)", &sets)
    });
    let panels = panels.collect::<Vec<_>>();
    let names = methods.iter().enumerate();
    let mut legend = names.map(|(i, name)| marked(name, i)).collect::<Vec<_>>();
    legend.push(stroked("break-even", Some(DOTS)));
    let title = "Speedup by category of prompt".to_owned();
    Some(Sheet { title, columns: columns(panels.len()), panels, legend })
}

/// The times of the best cell of a series and of plain decoding, by prompt.
fn times<'a>(data: &Data<'a>, series: &Series<'a>) -> Option<BTreeMap<&'a str, PairedTime>> {
    let cell = best(data.results, series, data.summary)?.cell;
    Some(pair_by_prompt(data.results.baseline(cell), data.results.samples(&cell.id)))
}

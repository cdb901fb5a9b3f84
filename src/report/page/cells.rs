//! What the cells of a run belong to, so that a page can filter what it shows by drafter,
//! verifier and sampling setting.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::report::document::{DocCell, DocColumn};
use crate::report::results::Results;
use crate::report::series::{Names, series};
use crate::shown;

/// A speculative method under a sampling setting.
struct PageSeries {
    method: String,
    sampling: String,
    drafter: String,
    verifier: String,
    cells: Vec<String>,
}

/// The cells of a run by what readers filter by.
pub(super) struct PageCells {
    series: Vec<PageSeries>,
    /// The baselines by their sampling settings.
    baselines: BTreeMap<String, String>,
}

impl PageCells {
    pub(super) fn new(results: &Results) -> Self {
        let series = series(results).into_iter().map(|series| PageSeries {
            drafter: series.cells[0].method.drafter.clone(),
            verifier: series.cells[0].method.verifier.clone(),
            cells: series.cells.iter().map(|cell| cell.id.clone()).collect(),
            method: series.method,
            sampling: series.sampling,
        });
        let baselines = results.plan.cells.iter().filter(|cell| cell.is_baseline());
        let names = Names::new(baselines.clone());
        let baselines = baselines.map(|cell| (names.goal(cell), cell.id.clone()));
        Self { series: series.collect(), baselines: baselines.collect() }
    }

    /// Drafter, verifier and sampling setting by cell; a baseline has only the last.
    pub(super) fn json(&self) -> Value {
        let mut cells = Map::new();
        for (sampling, cell) in &self.baselines {
            cells.insert(cell.clone(), json!({ "sampling": shown::lines(sampling) }));
        }
        for series in &self.series {
            for cell in &series.cells {
                let of = json!({
                    "drafter": shown::lines(&series.drafter),
                    "verifier": shown::lines(&series.verifier),
                    "sampling": shown::lines(&series.sampling),
                });
                cells.insert(cell.clone(), of);
            }
        }
        cells.into()
    }

    /// The cell that stands for a row of a table, if its columns name a method, a sampling
    /// setting or both.
    pub(super) fn of_row(&self, columns: &[DocColumn], row: &[DocCell]) -> Option<&str> {
        let named = |names: &[&str]| {
            let at = columns.iter().position(|column| names.contains(&column.name.as_str()))?;
            Some(row.get(at)?.to_string())
        };
        let sampling = named(&["sampling", "search", "plain decoding"])?;
        let method = named(&["method"]);
        let fits = |series: &&PageSeries| {
            series.sampling == sampling && method.as_ref() == Some(&series.method)
        };
        let found = self.series.iter().find(fits).and_then(|series| series.cells.first());
        found.or_else(|| self.baselines.get(&sampling)).map(String::as_str)
    }

    /// The bar with the filters and the switch between light and dark.
    pub(super) fn tools(&self) -> String {
        let group = |name: &str, of: &str, get: fn(&PageSeries) -> &str| {
            let mut values = Vec::new();
            for value in self.series.iter().map(get) {
                if !values.contains(&value) {
                    values.push(value);
                }
            }
            if values.len() < 2 {
                return String::new();
            }
            let boxes = values.into_iter().map(shown::html).map(|value| {
                format!(
                    "<label><input type=\"checkbox\" checked data-of=\"{of}\" value=\"{value}\"> \
                     {value}</label>"
                )
            });
            let boxes = boxes.collect::<String>();
            format!("<fieldset><legend>{name}</legend>{boxes}</fieldset>")
        };
        format!(
            "<div class=\"tools live\" role=\"region\" aria-label=\"Filters\">{}{}{}\
             <button type=\"button\" id=\"every\">Show all</button>\
             <button type=\"button\" id=\"theme\">Dark</button></div>\n",
            group("Drafter", "drafter", |series| &series.drafter),
            group("Verifier", "verifier", |series| &series.verifier),
            group("Sampling", "sampling", |series| &series.sampling)
        )
    }
}

//! What the cells of a run belong to, so that a page can filter what it shows by drafter,
//! verifier and sampling setting.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::report::document::{DocCell, DocColumn};
use crate::report::results::Results;
use crate::report::series::{Names, Series, once, series};
use crate::shown;

/// The cells of a run by what readers filter by.
pub(super) struct PageCells<'a> {
    series: Vec<Series<'a>>,
    /// The baselines by their sampling settings.
    baselines: BTreeMap<String, &'a str>,
}

impl<'a> PageCells<'a> {
    pub(super) fn new(results: &'a Results) -> Self {
        let baselines = results.plan.cells.iter().filter(|cell| cell.is_baseline());
        let names = Names::new(baselines.clone());
        let baselines = baselines.map(|cell| (names.goal(cell), cell.id.as_str()));
        Self { series: series(results), baselines: baselines.collect() }
    }

    /// Drafter, verifier and sampling setting by cell; a baseline has only the last.
    pub(super) fn json(&self) -> Value {
        let mut cells = Map::new();
        for (sampling, cell) in &self.baselines {
            cells.insert((*cell).to_owned(), json!({ "sampling": shown::lines(sampling) }));
        }
        for series in &self.series {
            for cell in &series.cells {
                let of = json!({
                    "drafter": shown::lines(&cell.method.drafter),
                    "verifier": shown::lines(&cell.method.verifier),
                    "sampling": shown::lines(&series.sampling),
                });
                cells.insert(cell.id.clone(), of);
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
        let fits = |series: &&Series<'_>| {
            series.sampling == sampling && method.as_ref() == Some(&series.method)
        };
        let found = self.series.iter().find(fits).map(|series| series.cells[0].id.as_str());
        found.or_else(|| self.baselines.get(&sampling).copied())
    }

    /// The bar with the filters and the switch between light and dark.
    pub(super) fn tools(&self) -> String {
        let group = |name: &str, of: &str, get: for<'s> fn(&'s Series<'a>) -> &'s str| {
            let values = once(self.series.iter().map(get));
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
            group("Drafter", "drafter", |series| &series.cells[0].method.drafter),
            group("Verifier", "verifier", |series| &series.cells[0].method.verifier),
            group("Sampling", "sampling", |series| &series.sampling)
        )
    }
}

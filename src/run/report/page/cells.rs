//! What the cells of a run belong to, so that a page can filter what it shows by drafter,
//! verifier and sampling setting.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::io::shown;
use crate::run::report::document::{DocColumn, TableCell};
use crate::run::report::run::{CellView, Run};
use crate::run::report::series::once;

/// The cells of a run by what readers filter by.
pub(super) struct PageCells<'a> {
    /// Those with a method, series by series.
    drafted: Vec<&'a CellView>,
    /// The cell that stands for a sampling setting and a method; without one, for plain decoding.
    named: BTreeMap<(&'a str, Option<&'a str>), &'a str>,
}

impl<'a> PageCells<'a> {
    pub(super) fn new(run: &'a Run) -> Self {
        let named = |cell: &'a CellView| {
            let method = (!cell.is_baseline()).then_some(&*cell.name);
            ((&*cell.sampling, method), &*cell.id)
        };
        let cells = run.baselines().chain(run.series().map(|series| series.first()));
        Self { drafted: run.drafted().collect(), named: cells.map(named).collect() }
    }

    /// Drafter, verifier and sampling setting by cell; a baseline has only the last.
    pub(super) fn json(&self) -> Value {
        let mut cells = Map::new();
        for ((sampling, _), cell) in self.named.iter().filter(|((_, method), _)| method.is_none()) {
            cells.insert((*cell).to_owned(), json!({ "sampling": shown::lines(sampling) }));
        }
        for cell in &self.drafted {
            let of = json!({
                "drafter": shown::lines(&cell.method.drafter),
                "verifier": shown::lines(&cell.method.verifier),
                "sampling": shown::lines(&cell.sampling),
            });
            cells.insert(cell.id.clone(), of);
        }
        cells.into()
    }

    /// The cell that stands for a row of a table, if its columns name a method, a sampling
    /// setting or both.
    pub(super) fn of_row(&self, columns: &[DocColumn], row: &[TableCell]) -> Option<&str> {
        let named = |names: &[&str]| {
            let at = columns.iter().position(|column| names.contains(&column.name.as_str()))?;
            Some(row.get(at)?.to_string())
        };
        let sampling = named(&["sampling", "search", "plain decoding"])?;
        let method = named(&["method"]);
        let found = self.named.get(&(&*sampling, method.as_deref()));
        found.or_else(|| self.named.get(&(&*sampling, None))).copied()
    }

    /// The bar with the filters and the switch between light and dark.
    pub(super) fn tools(&self) -> String {
        let group = |name: &str, of: &str, get: fn(&CellView) -> &str| {
            let values = once(self.drafted.iter().map(|cell| get(cell)));
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
            group("Drafter", "drafter", |cell| &cell.method.drafter),
            group("Verifier", "verifier", |cell| &cell.method.verifier),
            group("Sampling", "sampling", |cell| &cell.sampling)
        )
    }
}

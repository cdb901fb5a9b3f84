//! What the cells of a run belong to, so that a page can filter what it shows by drafter,
//! verifier and sampling setting.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::report::document::{DocCell, DocColumn};
use crate::report::run::{CellView, Run};
use crate::report::series::once;
use crate::shown;

/// The cells of a run by what readers filter by.
pub(super) struct PageCells<'a> {
    /// Those with a method, series by series.
    drafted: Vec<&'a CellView>,
    /// The baselines by their sampling settings.
    baselines: BTreeMap<&'a str, &'a str>,
}

impl<'a> PageCells<'a> {
    pub(super) fn new(run: &'a Run) -> Self {
        let baselines = run.baselines().map(|cell| (&*cell.sampling, &*cell.id));
        Self { drafted: run.drafted().collect(), baselines: baselines.collect() }
    }

    /// Drafter, verifier and sampling setting by cell; a baseline has only the last.
    pub(super) fn json(&self) -> Value {
        let mut cells = Map::new();
        for (sampling, cell) in &self.baselines {
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
    pub(super) fn of_row(&self, columns: &[DocColumn], row: &[DocCell]) -> Option<&str> {
        let named = |names: &[&str]| {
            let at = columns.iter().position(|column| names.contains(&column.name.as_str()))?;
            Some(row.get(at)?.to_string())
        };
        let sampling = named(&["sampling", "search", "plain decoding"])?;
        let method = named(&["method"]);
        let fits =
            |cell: &&&CellView| cell.sampling == sampling && method.as_ref() == Some(&cell.name);
        let found = self.drafted.iter().find(fits).map(|cell| cell.id.as_str());
        found.or_else(|| self.baselines.get(&*sampling).copied())
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

//! The notebook of the lesson: its prose as cells, and its commands as cells that run them.

use serde::Serialize;
use serde_json::ser::PrettyFormatter;
use serde_json::{Serializer, Value, json};

use super::{Part, check, lesson, parts};
use crate::cli_support::text;

/// The first cell that runs. A progress bar would leave a line for each of its steps.
const SETUP: &str = "\
import os

os.chdir(\"..\")  # The commands name files from the project's folder.
os.environ[\"TERM\"] = \"dumb\"  # No progress bars.";

/// The source of a cell.
#[derive(Debug)]
enum Cell {
    Markdown(String),
    Code(String),
}

/// Catches: the lesson was changed, and its notebook was not.
#[test]
fn the_notebook_is_made_from_the_lesson() {
    let mut cells = parts(&lesson()).iter().flat_map(cells).collect::<Vec<_>>();
    cells.insert(1, Cell::Code(SETUP.to_owned()));
    let cells = cells.iter().enumerate().map(|(number, cell)| cell.json(number));
    let kernel = json!({ "display_name": "Python 3", "language": "python", "name": "python3" });
    let notebook = json!({
        "cells": cells.collect::<Vec<_>>(),
        "metadata": { "kernelspec": kernel, "language_info": { "name": "python" } },
        "nbformat": 4,
        "nbformat_minor": 5,
    });
    // As Jupyter writes it, so that a notebook that was only opened and saved is the same file.
    let mut bytes = Vec::new();
    let format = PrettyFormatter::with_indent(b" ");
    notebook.serialize(&mut Serializer::with_formatter(&mut bytes, format)).unwrap();
    check("notebooks/lesson.ipynb", &(text(&bytes) + "\n"));
}

/// The cells of a part: one for each heading, or one that runs the command.
fn cells(part: &Part) -> Vec<Cell> {
    let prose = match part {
        Part::Step { command, .. } => return vec![Cell::Code(format!("!{command}"))],
        Part::Prose(prose) => prose.replace("\n#", "\n\0#"),
    };
    let sections = prose.split('\0').map(str::trim).filter(|section| !section.is_empty());
    sections.map(|section| Cell::Markdown(linked(section))).collect()
}

impl Cell {
    fn json(&self, number: usize) -> Value {
        let id = format!("cell-{number:02}");
        let lines = |source: &String| json!(source.split_inclusive('\n').collect::<Vec<_>>());
        match self {
            Self::Markdown(source) => json!({
                "cell_type": "markdown",
                "id": id,
                "metadata": {},
                "source": lines(source),
            }),
            Self::Code(source) => json!({
                "cell_type": "code",
                "execution_count": null,
                "id": id,
                "metadata": {},
                "outputs": [],
                "source": lines(source),
            }),
        }
    }
}

/// Markdown whose links lead from the folder of notebooks to where they lead from `docs`.
fn linked(markdown: &str) -> String {
    let mut pieces = markdown.split("](");
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |text, rest| {
        let is_elsewhere = ["../", "http", "#"].iter().any(|begin| rest.starts_with(begin));
        text + "](" + if is_elsewhere { "" } else { "../docs/" } + rest
    })
}

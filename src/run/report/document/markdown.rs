//! Prints the document as Markdown.

use super::prose::Inline;
use super::{DocBlock, DocTable, Prose};
use crate::io::shown;

/// The text of `report.md`.
pub(in crate::run::report) fn print(document: &[DocBlock]) -> String {
    document.iter().map(block).collect::<Vec<_>>().join("\n")
}

fn block(block: &DocBlock) -> String {
    match block {
        DocBlock::Title(name) => format!("# {}\n", shown::markdown_block(name)),
        DocBlock::Question(question) => format!("> {}\n", shown::markdown_block(question)),
        DocBlock::Heading(heading) => format!("## {heading}\n"),
        DocBlock::Paragraph(prose) => format!("{}\n", line(prose)),
        DocBlock::List(items) => {
            items.iter().map(|item| format!("- {}\n", line(item))).collect::<String>()
        }
        DocBlock::Table(found) => table(found),
        DocBlock::Figure(figure) => {
            let name = &figure.name;
            format!("![{name}](figures/{name}.svg)\n\n*{}*\n", line(&figure.caption))
        }
    }
}

/// Running text on one line.
fn line(prose: &Prose) -> String {
    let piece = |inline: &Inline| match inline {
        Inline::Ours(text) => text.clone(),
        Inline::External(text) => shown::markdown(text),
        Inline::Code(text) => format!("`{text}`"),
        Inline::Strong(text) => format!("**{text}**"),
    };
    prose.iter().map(piece).collect()
}

/// A table. Its cells are plain text: Markdown in them is escaped.
fn table(table: &DocTable) -> String {
    let line = |cells: &mut dyn Iterator<Item = String>| {
        format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
    };
    let columns = || table.columns.iter();
    let mut text = line(&mut columns().map(|column| shown::markdown(&column.name)));
    text += &line(&mut columns().map(|c| if c.numbers { "---:" } else { "---" }.to_owned()));
    for row in &table.rows {
        text += &line(&mut row.iter().map(|cell| shown::markdown(&cell.to_string())));
    }
    text
}

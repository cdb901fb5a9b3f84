//! The blocks of the document as HTML.

use super::cells::PageCells;
use crate::io::shown::{exact, html};
use crate::run::report::document::{DocBlock, DocFigure, DocTable, Inline, Prose, TableCell, Tone};

/// Cells with more characters than this may be wrapped.
const LONG: usize = 60;

/// Heads with more characters than this get a wider column, since they would have many lines.
const LONG_HEAD: usize = 20;

/// The title, the question, and what nobody should miss.
pub(super) fn opening(document: &[DocBlock]) -> String {
    let before = document.iter().take_while(|block| !is_heading(block));
    before.map(|found| block(found, "", None)).collect()
}

/// Links to all sections, and to the one after them.
pub(super) fn contents(document: &[DocBlock], last: &str) -> String {
    let headings = document.iter().filter_map(|block| match block {
        DocBlock::Heading(heading) => Some(*heading),
        _ => None,
    });
    let link = |heading| format!("<li><a href=\"#{}\">{}</a></li>", anchor(heading), html(heading));
    let links = headings.chain([last]).map(link).collect::<String>();
    format!("<nav aria-label=\"Sections\"><ul>{links}</ul></nav>\n")
}

pub(super) fn sections(document: &[DocBlock], cells: &PageCells<'_>) -> String {
    let mut page = String::new();
    let mut open = "";
    for found in document.iter().skip_while(|block| !is_heading(block)) {
        if let DocBlock::Heading(heading) = found {
            page += if open.is_empty() { "" } else { "</section>\n" };
            page += &begin(heading);
            open = heading;
        } else {
            page += &block(found, open, Some(cells));
        }
    }
    page + if open.is_empty() { "" } else { "</section>\n" }
}

pub(super) fn begin(heading: &str) -> String {
    let (anchor, heading) = (anchor(heading), html(heading));
    format!("<section aria-labelledby=\"{anchor}\">\n<h2 id=\"{anchor}\">{heading}</h2>\n")
}

fn is_heading(block: &DocBlock) -> bool {
    matches!(block, DocBlock::Heading(_))
}

/// A heading as the name of a place in the page.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_ascii_alphanumeric() || *c == ' ');
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

/// A block in the section with this heading.
fn block(block: &DocBlock, heading: &str, cells: Option<&PageCells<'_>>) -> String {
    match block {
        DocBlock::Title(name) => format!("<h1>{}</h1>\n", html(name)),
        DocBlock::Question(text) => format!("<blockquote>{}</blockquote>\n", html(text)),
        // Begins a section.
        DocBlock::Heading(_) => String::new(),
        DocBlock::Paragraph(prose) => match prose.as_slice() {
            [Inline::Strong(text)] => format!("<p class=\"alarm\">{}</p>\n", html(text)),
            _ => format!("<p>{}</p>\n", inline(prose)),
        },
        DocBlock::List(items) => {
            let items = items.iter().map(|item| format!("<li>{}</li>\n", inline(item)));
            format!("<ul>\n{}</ul>\n", items.collect::<String>())
        }
        DocBlock::Table(found) => table(found, heading, cells),
        DocBlock::Figure(found) => figure(found),
    }
}

fn inline(prose: &Prose) -> String {
    let piece = |inline: &Inline| match inline {
        Inline::Ours(text) | Inline::External(text) => html(text),
        Inline::Code(text) => format!("<code>{}</code>", html(text)),
        Inline::Strong(text) => format!("<strong>{}</strong>", html(text)),
    };
    prose.iter().map(piece).collect()
}

fn figure(figure: &DocFigure) -> String {
    format!(
        "<figure id=\"figure-{}\">\n<div class=\"wide\">{}</div>\n<div class=\"narrow\">{}</div>\n\
         <figcaption>{}</figcaption>\n</figure>\n",
        html(&figure.name),
        figure.wide.svg,
        figure.narrow.svg,
        inline(&figure.caption)
    )
}

fn table(table: &DocTable, heading: &str, cells: Option<&PageCells<'_>>) -> String {
    let head = table.columns.iter().map(|column| {
        let long = column.name.chars().count() > LONG_HEAD;
        let class = classes(&[("n", column.numbers), ("long", long)]);
        let name = html(&column.name).replace("[95 %]", "[95\u{a0}%]");
        format!("<th scope=\"col\"{class}>{name}</th>")
    });
    let head = head.collect::<String>();
    // Rows of facts have names of their own, and an order.
    let facts = table.columns.first().is_some_and(|column| column.name.is_empty());
    let sorts = if facts { "" } else { " class=\"sorts\"" };
    let rows = table.rows.iter().map(|row| {
        let key = cells.and_then(|cells| cells.of_row(&table.columns, row));
        let key = key.map_or_else(String::new, |key| format!(" data-key=\"{}\"", html(key)));
        let fields = row.iter().zip(&table.columns);
        let fields = fields.map(|(cell, column)| field(cell, column.numbers)).collect::<String>();
        format!("<tr{key}>{fields}</tr>\n")
    });
    format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table: {}\">\n\
         <table{sorts}><thead><tr>{head}</tr></thead>\n<tbody>\n{}</tbody></table></div>\n",
        html(heading),
        rows.collect::<String>()
    )
}

fn field(cell: &TableCell, numbers: bool) -> String {
    let text = cell.to_string();
    let long = text.chars().count() > LONG;
    let is = |tone| cell.tone == tone;
    let class = classes(&[
        ("n", numbers),
        ("good", is(Tone::Good)),
        ("bad", is(Tone::Bad)),
        ("wrap", long),
    ]);
    // A count is its own exact value.
    let value = cell.value.map(exact).filter(|value| *value != text);
    let value = value.map_or_else(String::new, |value| format!(" data-v=\"{value}\""));
    let ends = cell.ends.map(|(lo, hi)| format!(" data-i=\"{}, {}\"", exact(lo), exact(hi)));
    format!("<td{class}{value}{}>{}</td>", ends.unwrap_or_default(), html(&text))
}

/// The attribute with the classes that apply; empty if none does.
fn classes(all: &[(&str, bool)]) -> String {
    let own = all.iter().filter(|(_, applies)| *applies).map(|(class, _)| *class);
    match own.collect::<Vec<_>>().join(" ") {
        none if none.is_empty() => none,
        classes => format!(" class=\"{classes}\""),
    }
}

//! Prints the document as a web page: one file that opens from disk and needs no network.

mod cells;
mod microscope;
mod print;
mod verdicts;

use std::collections::BTreeSet;
use std::fmt::Write;

use sha2::{Digest, Sha256};

use super::document::DocBlock;
use super::run::Run;
use crate::io::shown;
use crate::measure::plot::{Colour, dark};
use cells::PageCells;

pub(super) use microscope::{Microscope, look};

const STYLE: &str = include_str!("style.css");
const MICROSCOPE: &str = include_str!("microscope.js");
const SCRIPT: &str = include_str!("script.js");

pub(super) fn render(run: &Run, document: &[DocBlock], microscope: &Microscope) -> String {
    let cells = PageCells::new(run);
    let style = format!("{STYLE}{}", palette(document));
    let script = format!("{MICROSCOPE}{SCRIPT}");
    let data = format!("{{\"cells\":{},{}}}", cells.json(), microscope.json());
    let title = shown::html(&run.plan.experiment);
    // No source of anything but this very style and script is allowed.
    let policy = format!(
        "default-src 'none'; style-src '{}'; script-src '{}'; base-uri 'none'; form-action 'none'",
        hash(&style),
        hash(&script)
    );
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>{style}</style>\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#main\">Skip to the report</a>\n<main id=\"main\">\n"
    );
    page += &print::opening(document);
    page += &verdicts::print(run);
    page += &print::contents(document, microscope::HEADING);
    page += &cells.tools();
    page += &print::sections(document, &cells);
    page += &microscope.print();
    page += "</main>\n<div id=\"tip\" role=\"status\"></div>\n";
    let _ = write!(
        page,
        "<script type=\"application/json\" id=\"data\">{}</script>\n<script>{script}</script>\n\
         </body>\n</html>\n",
        inside_script(&data)
    );
    page
}

/// JSON as the contents of a script element, which ends at the first `</script`.
fn inside_script(json: &str) -> String {
    let escape = |text: String, (c, code): (char, &str)| text.replace(c, code);
    let codes = [('<', "\\u003c"), ('>', "\\u003e"), ('&', "\\u0026")];
    codes.into_iter().fold(json.to_owned(), escape)
}

/// The colours of all figures, on a light and on a dark page.
fn palette(document: &[DocBlock]) -> String {
    let figures = document.iter().filter_map(|block| match block {
        DocBlock::Figure(figure) => Some([&figure.wide, &figure.narrow]),
        _ => None,
    });
    let colours = figures.flatten().flat_map(|drawn| &drawn.colours).copied();
    let colours = colours.collect::<BTreeSet<_>>();
    let rule = |of: fn(Colour) -> Colour| {
        let define = |colour: &Colour| {
            let ([r, g, b], [x, y, z]) = (*colour, of(*colour));
            format!("--c-{r:02x}{g:02x}{b:02x}:#{x:02x}{y:02x}{z:02x};")
        };
        colours.iter().map(define).collect::<String>()
    };
    format!(":root{{{}}}\n:root[data-theme=\"dark\"]{{{}}}\n", rule(|colour| colour), rule(dark))
}

/// The hash by which a content security policy names a text.
fn hash(text: &str) -> String {
    format!("sha256-{}", base64::encode(Sha256::digest(text)))
}

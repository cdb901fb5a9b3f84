//! The table of all named models.

use anyhow::Result;
use serde::Serialize;

use crate::checkpoint::{Catalog, KnownModel, ModelSummary, head_fits};
use crate::cli::output;

/// Digits of a tokenizer's fingerprint in the table.
const SHORT: usize = 8;

/// The columns of the table.
const HEAD: [&str; 7] =
    ["name", "family", "parameters", "size", "dtype", "tokenizer", "can draft for"];

#[derive(Debug, Serialize)]
struct Listing {
    models: Vec<ListedModel>,
}

/// A model with the data from its headers, or the reason why they cannot be read.
#[derive(Debug, Serialize)]
struct ListedModel {
    name: String,
    aliases: Vec<String>,
    path: Option<String>,
    revision: Option<String>,
    family: Option<String>,
    parameters: Option<u64>,
    bytes: Option<u64>,
    dtype: Option<String>,
    vocab: Option<usize>,
    tokenizer_sha256: Option<String>,
    /// The models with the same vocabulary that are at least as large.
    drafts_for: Vec<String>,
    error: Option<String>,
}

/// Prints all models that the catalog knows.
pub(super) fn print(catalog: &Catalog, json: bool) -> Result<()> {
    let known = catalog.known();
    let found = known.iter().map(|model| model.summarise().map_err(|error| error.to_string()));
    let found = found.collect::<Vec<_>>();
    let models = known.iter().zip(&found).map(|(model, summary)| ListedModel {
        drafts_for: drafts_for(model, summary, &known, &found),
        ..listed(model, summary)
    });
    let listing = Listing { models: models.collect() };
    if json { output::write_json(&listing) } else { output::show(&table(&listing)) }
}

type Found = Result<ModelSummary, String>;

fn listed(model: &KnownModel, summary: &Found) -> ListedModel {
    let source = model.source.as_ref().ok();
    let summary = summary.as_ref();
    let of = summary.ok();
    ListedModel {
        name: model.name.clone(),
        aliases: model.aliases.clone(),
        path: source.map(|source| source.path.clone()),
        revision: source.and_then(|source| source.revision.clone()),
        family: of.map(|s| s.family.clone()),
        parameters: of.map(|s| s.parameters),
        bytes: of.map(|s| s.bytes),
        dtype: of.map(|s| s.dtype.clone()),
        vocab: of.map(|s| s.vocab),
        tokenizer_sha256: of.map(|s| s.tokenizer_sha256.clone()),
        drafts_for: Vec::new(),
        error: summary.err().cloned(),
    }
}

/// The names of the models for which this one can draft, except other names of the same files.
fn drafts_for(
    model: &KnownModel,
    summary: &Found,
    known: &[KnownModel],
    found: &[Found],
) -> Vec<String> {
    let Ok(summary) = summary else { return Vec::new() };
    let path = |model: &KnownModel| model.source.as_ref().ok().map(|source| source.path.clone());
    let others = known.iter().zip(found).filter(|(other, _)| path(other) != path(model));
    let folder = path(model).filter(|_| summary.is_head());
    let fits = |found: &Found| {
        let Ok(target) = found else { return false };
        match (&folder, target.hidden) {
            (Some(folder), Some(hidden)) => head_fits(folder, target.vocab, hidden),
            _ => summary.can_draft_for(target),
        }
    };
    others.filter(|(_, found)| fits(found)).map(|(other, _)| other.name.clone()).collect()
}

fn table(listing: &Listing) -> String {
    let rows = listing.models.iter().map(row).collect::<Vec<_>>();
    let head = HEAD.map(str::to_owned).to_vec();
    let all = [head].into_iter().chain(rows.iter().flatten().cloned()).collect::<Vec<_>>();
    let mut lines = output::aligned(&all, |column| column == 2 || column == 3).into_iter();
    let mut text = lines.next().unwrap_or_default() + "\n";
    for (model, row) in listing.models.iter().zip(&rows) {
        let error = model.error.as_deref().unwrap_or_default();
        let line = match row {
            Some(_) => lines.next().unwrap_or_default(),
            None => format!("{}  cannot be loaded: {error}", model.name),
        };
        text += &format!("{}\n", line.trim_end());
    }
    text + "\nToy models have names, too: specdec list shows them\n"
}

/// The cells of a model that can be loaded.
fn row(model: &ListedModel) -> Option<Vec<String>> {
    let aliases = match &model.aliases[..] {
        [] => String::new(),
        aliases => format!(" ({})", aliases.join(", ")),
    };
    Some(vec![
        format!("{}{aliases}", model.name),
        model.family.clone()?,
        amount(model.parameters?, ["k", "M", "B"]),
        amount(model.bytes?, [" kB", " MB", " GB"]),
        model.dtype.clone()?,
        model.tokenizer_sha256.as_ref()?.chars().take(SHORT).collect(),
        model.drafts_for.join(", "),
    ])
}

/// A number in thousands, millions or billions.
fn amount(number: u64, units: [&str; 3]) -> String {
    let number = number as f64;
    match number {
        n if n < 999_500.0 => format!("{:.0}{}", n / 1e3, units[0]),
        n if n < 999.5e6 => format!("{:.0}{}", n / 1e6, units[1]),
        n => format!("{:.1}{}", n / 1e9, units[2]),
    }
}

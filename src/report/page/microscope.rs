//! The token microscope: the texts of some generations, with where their tokens come from.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

use super::print;
use crate::report::results::Results;
use crate::report::series::{Names, series};
use crate::rows::{RoundRow, TextRow, TraceRow, each_row};
use crate::shown;

/// The heading of its section.
pub(super) const HEADING: &str = "Token microscope";

/// How many bytes its generations may take, so that the page stays small.
const ROOM: usize = 700_000;

/// What the microscope shows.
#[derive(Debug, Default)]
pub(in crate::report) struct Microscope {
    /// Its generations, as `microscope.js` reads them.
    pub(super) generations: Vec<Value>,
    /// What its tokens stand for, as far as the rows say it.
    pub(super) strings: BTreeMap<u32, String>,
    /// The number of generations that there was no room for.
    left_out: usize,
}

/// Cell, prompt and repeat of a generation.
type GenerationPlace = (String, String, u32);

/// A generation that is shown.
#[derive(Debug, Default)]
struct Specimen {
    tokens: Vec<u32>,
    text: String,
    /// See [`round`].
    rounds: Vec<Value>,
    trace: Option<TraceRow>,
}

/// Reads the generations of a results folder that the microscope shows: those in
/// `traces.jsonl` or, if there is none, those of the first prompt of every category; in both
/// cases as many as there is room for.
///
/// # Errors
/// If a file is damaged; the message names it.
pub(in crate::report) fn look(folder: &Path, results: &Results) -> Result<Microscope> {
    let mut chosen = traced(folder, results)?;
    if chosen.order.is_empty() {
        chosen.order = firsts(results);
        let specimens = chosen.order.iter().map(|place| (place.clone(), Specimen::default()));
        chosen.specimens = specimens.collect();
    }
    read(folder, &mut chosen.specimens)?;
    let names = names(results);
    let mut microscope = Microscope { left_out: chosen.left_out, ..Microscope::default() };
    let mut room = ROOM;
    for place in chosen.order {
        let (Some(specimen), Some(name)) = (chosen.specimens.remove(&place), names.get(&place.0))
        else {
            continue;
        };
        let generation = specimen.json(name, &place);
        // Those with a trace were weighed when they were chosen.
        let size = if specimen.trace.is_some() { 0 } else { generation.to_string().len() };
        if size > room {
            microscope.left_out += 1;
            continue;
        }
        room -= size;
        let strings = specimen.trace.into_iter().flat_map(|trace| trace.strings);
        microscope.strings.extend(strings.map(|(token, text)| (token, shown::lines(&text))));
        microscope.generations.push(generation);
    }
    Ok(microscope)
}

/// The generations to be shown.
#[derive(Debug, Default)]
struct ChosenSpecimens {
    order: Vec<GenerationPlace>,
    specimens: BTreeMap<GenerationPlace, Specimen>,
    left_out: usize,
}

/// The generations in `traces.jsonl`, as many as there is room for.
fn traced(folder: &Path, results: &Results) -> Result<ChosenSpecimens> {
    let counted = counted(results);
    let mut chosen = ChosenSpecimens::default();
    let mut room = ROOM;
    each_row(folder, |row: TraceRow| {
        let place = (row.cell.clone(), row.prompt.clone(), row.repeat);
        if !counted.contains(&place) {
            return Ok(());
        }
        let size = serde_json::to_string(&row.rounds)?.len();
        if size > room {
            chosen.left_out += 1;
            return Ok(());
        }
        room -= size;
        chosen.order.push(place.clone());
        chosen.specimens.insert(place, Specimen { trace: Some(row), ..Specimen::default() });
        Ok(())
    })?;
    Ok(chosen)
}

/// The names of the cells.
fn names(results: &Results) -> BTreeMap<String, String> {
    let baselines = results.plan.cells.iter().filter(|cell| cell.is_baseline());
    let plain = Names::new(baselines.clone());
    let plain =
        baselines.map(|cell| (cell.id.clone(), format!("plain decoding, {}", plain.goal(cell))));
    let drafted = series(results).into_iter().flat_map(|series| {
        let name = |k| format!("{}, K = {k}, {}", series.method, series.sampling);
        let cells = series.cells.iter();
        let named = cells.map(|cell| (cell.id.clone(), name(cell.method.num_speculative_tokens)));
        named.collect::<Vec<_>>()
    });
    plain.chain(drafted).collect()
}

/// The generations that count, without second runs of control cells.
fn counted(results: &Results) -> BTreeSet<GenerationPlace> {
    let cells = results.plan.cells.iter().filter(|cell| !cell.control);
    let places = cells.flat_map(|cell| {
        let samples = results.samples(&cell.id).iter().filter(|sample| sample.beam.is_none());
        samples.map(|sample| (cell.id.clone(), sample.prompt.to_string(), sample.repeat))
    });
    places.collect()
}

/// The generations of the first prompt of every category by every method that drafts.
fn firsts(results: &Results) -> Vec<GenerationPlace> {
    let mut first = BTreeMap::<&str, &str>::new();
    for prompt in &results.plan.prompts {
        let of = results.samples.values().flatten().find(|sample| *sample.prompt == **prompt);
        if let Some(sample) = of {
            first.entry(&sample.category).or_insert(prompt);
        }
    }
    let counted = counted(results);
    let cells = || results.plan.cells.iter().filter(|cell| !cell.is_baseline());
    let places = first
        .values()
        .flat_map(|prompt| cells().map(|cell| (cell.id.clone(), (*prompt).to_owned(), 0)));
    places.filter(|place| counted.contains(place)).collect()
}

/// Adds the texts and rounds of the generations that are shown.
fn read(folder: &Path, shown: &mut BTreeMap<GenerationPlace, Specimen>) -> Result<()> {
    each_row(folder, |row: TextRow| {
        if let Some(specimen) = shown.get_mut(&(row.cell, row.prompt, row.repeat)) {
            (specimen.tokens, specimen.text) = (row.tokens, row.text);
        }
        Ok(())
    })?;
    each_row(folder, |row: RoundRow| {
        let numbers = round(&row);
        if let Some(specimen) = shown.get_mut(&(row.cell, row.prompt, row.repeat)) {
            specimen.rounds.push(numbers);
        }
        Ok(())
    })?;
    Ok(())
}

/// Proposed, accepted and emitted tokens of a round, its times in µs (draft, target,
/// verification, other), and whether the last token is a bonus token: the accepted path ends
/// where the draft does.
fn round(row: &RoundRow) -> Value {
    let tenths = |us: f64| (10.0 * us).round() / 10.0;
    let [draft, target, verify, other] =
        [row.draft_us, row.target_us, row.verify_us, row.other_us].map(tenths);
    let bonus = u8::from(row.proposed > 0 && row.forks == row.accepted);
    json!([row.proposed, row.accepted, row.emitted, draft, target, verify, other, bonus])
}

impl Specimen {
    /// The generation as `microscope.js` reads it.
    fn json(&self, name: &str, place: &GenerationPlace) -> Value {
        let repeat = if place.2 == 0 { String::new() } else { format!(", repeat {}", place.2) };
        json!({
            "cell": place.0,
            "name": shown::line(&format!("{}: {name}{repeat}", place.1)),
            "tokens": self.tokens,
            "text": shown::lines(&self.text),
            "rounds": self.rounds,
            "steps": self.trace.as_ref().map(|trace| &trace.rounds),
        })
    }
}

impl Microscope {
    /// Its section, which the script fills.
    pub(super) fn print(&self) -> String {
        let mut text = print::begin(HEADING);
        if self.generations.is_empty() {
            return text
                + "<p>The run has no texts that were drawn round by round.</p>\n</section>\n";
        }
        text += include_str!("microscope.html");
        if self.left_out > 0 {
            text += &format!("<p>{} more generations are in the raw rows.</p>\n", self.left_out);
        }
        text + "</section>\n"
    }
}

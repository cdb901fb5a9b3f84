//! The token microscope: the texts of some generations, with where their tokens come from.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

use super::print;
use crate::experiment::{Cell, describe};
use crate::report::results::Results;
use crate::rows::{RoundRow, TextRow, TraceRow, each_row};

/// The heading of its section.
pub(super) const HEADING: &str = "Token microscope";

/// How many bytes its generations may take, so that the page stays small.
const ROOM: usize = 800_000;

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
    let counted = counted(results);
    let mut shown = BTreeMap::<GenerationPlace, Specimen>::new();
    let mut order = Vec::new();
    let mut microscope = Microscope::default();
    let mut room = ROOM;
    each_row(folder, |row: TraceRow| {
        let place = (row.cell.clone(), row.prompt.clone(), row.repeat);
        if counted.contains(&place) && !shown.contains_key(&place) {
            let size = serde_json::to_string(&row.rounds)?.len();
            if size <= room {
                room -= size;
                order.push(place.clone());
                shown.insert(place, Specimen { trace: Some(row), ..Specimen::default() });
            } else {
                microscope.left_out += 1;
            }
        }
        Ok(())
    })?;
    if order.is_empty() {
        order = firsts(results);
        shown.extend(order.iter().map(|place| (place.clone(), Specimen::default())));
    }
    read(folder, &mut shown)?;
    for place in order {
        let Some(specimen) = shown.remove(&place) else { continue };
        let Some(cell) = results.plan.cells.iter().find(|cell| cell.id == place.0) else {
            continue;
        };
        let generation = specimen.json(cell, &place);
        let size = generation.to_string().len();
        // A round of a trace takes more room than its numbers.
        if specimen.trace.is_none() && size > room {
            microscope.left_out += 1;
            continue;
        }
        room = room.saturating_sub(size);
        microscope.strings.extend(specimen.trace.into_iter().flat_map(|trace| trace.strings));
        microscope.generations.push(generation);
    }
    Ok(microscope)
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
    fn json(&self, cell: &Cell, place: &GenerationPlace) -> Value {
        let repeat = if place.2 == 0 { String::new() } else { format!(", repeat {}", place.2) };
        json!({
            "cell": cell.id,
            "name": format!("{}: {}{repeat}", place.1, describe(cell)),
            "tokens": self.tokens,
            "text": self.text,
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

//! The token microscope: some generations, with where their tokens come from.

use std::collections::BTreeMap;
use std::mem::take;
use std::path::Path;

use anyhow::Result;
use serde::Serialize;

use super::print;
use crate::io::shown;
use crate::measure::rows::{RoundRow, TextRow, TraceRound, TraceRow, each_row, each_row_until};
use crate::measure::statistics::Sample;
use crate::run::report::run::{CellView, Run};

pub(super) const HEADING: &str = "Token microscope";

/// How many bytes its generations may take, so that the page stays small, and how many rounds
/// of a generation are shown.
const ROOM: usize = 450_000;
const ROUNDS: usize = 400;

/// What the microscope shows.
#[derive(Debug, Default)]
pub(in crate::run::report) struct Microscope {
    /// Its generations as JSON, as `microscope.js` reads them.
    generations: Vec<String>,
    /// What its tokens stand for, as far as the rows say it.
    strings: BTreeMap<u32, String>,
    /// The number of generations that there was no room for.
    left_out: usize,
}

/// Cell, prompt and repeat of a generation.
type GenerationPlace = (String, String, u32);

/// The cells of a run by their ids.
type CellsById<'a> = BTreeMap<&'a str, &'a CellView>;

/// A generation that is shown.
#[derive(Debug, Default)]
struct Specimen {
    tokens: Vec<u32>,
    /// Whether there are more.
    cut: bool,
    text: String,
    rounds: Vec<RoundNumbers>,
    trace: Option<TraceRow>,
}

/// Proposed, accepted and emitted tokens of a round, its times in µs (draft, target,
/// verification, other), and whether the last token is a bonus token.
#[derive(Debug, Serialize)]
struct RoundNumbers(usize, usize, usize, f64, f64, f64, f64, u8);

/// A generation as `microscope.js` reads it.
#[derive(Debug, Serialize)]
struct ShownGeneration<'a> {
    cell: &'a str,
    name: String,
    tokens: &'a [u32],
    text: String,
    rounds: &'a [RoundNumbers],
    steps: Option<&'a [TraceRound]>,
}

/// Reads the generations of a results folder that the microscope shows: those in
/// `traces.jsonl` or, if there is none, those of the first prompt of every category. In both
/// cases it is as many as there is room for, and the most instructive ones come first.
pub(in crate::run::report) fn look(folder: &Path, run: &Run) -> Result<Microscope> {
    let cells = run.cells.iter().map(|cell| (&*cell.id, cell)).collect::<CellsById<'_>>();
    let mut chosen = traced(folder, &cells)?;
    if chosen.order.is_empty() {
        chosen.order = firsts(run, &cells);
        let specimens = chosen.order.iter().map(|place| (place.clone(), Specimen::default()));
        chosen.specimens = specimens.collect();
    }
    read(folder, &cells, &mut chosen.specimens)?;
    let mut microscope = Microscope { left_out: chosen.left_out, ..Microscope::default() };
    let mut room = ROOM;
    for place in chosen.order {
        let name = cells.get(&*place.0).and_then(|cell| name(cell));
        let (Some(specimen), Some(name)) = (chosen.specimens.remove(&place), name) else {
            continue;
        };
        let generation = specimen.json(&name, &place)?;
        // Those with a trace were weighed when they were chosen.
        let size = if specimen.trace.is_some() { 0 } else { generation.len() };
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
fn traced(folder: &Path, cells: &CellsById<'_>) -> Result<ChosenSpecimens> {
    // A traced run may have far more than there is room for, so they are weighed first.
    let mut weighed = Vec::new();
    each_row(folder, |mut row: TraceRow| {
        row.rounds.truncate(ROUNDS);
        let place = (row.cell, row.prompt, row.repeat);
        if let Some(rank) = rank(cells, &place) {
            weighed.push((rank, place, serde_json::to_string(&row.rounds)?.len()));
        }
        Ok(())
    })?;
    weighed.sort_by_key(|(rank, ..)| *rank);
    let mut chosen = ChosenSpecimens::default();
    let mut room = ROOM;
    for (_, place, size) in weighed {
        if size > room {
            chosen.left_out += 1;
            continue;
        }
        room -= size;
        chosen.order.push(place.clone());
        chosen.specimens.insert(place, Specimen::default());
    }
    each_row(folder, |mut row: TraceRow| {
        row.rounds.truncate(ROUNDS);
        let place = (row.cell.clone(), row.prompt.clone(), row.repeat);
        if let Some(specimen) = chosen.specimens.get_mut(&place) {
            specimen.trace = Some(row);
        }
        Ok(())
    })?;
    Ok(chosen)
}

/// How much a reader learns from a generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Instructive {
    /// Of the cell that stands for a method, with choices of chance.
    Sampled,
    /// Of such a cell, at temperature 0.
    Greedy,
    /// Of another cell.
    OtherCell,
    /// No token was drafted.
    Undrafted,
}

/// The rank of a generation; `None` if it does not count or was not drawn round by round.
fn rank(cells: &CellsById<'_>, place: &GenerationPlace) -> Option<Instructive> {
    let (sample, cell) = (sample(cells, place)?, cells.get(&*place.0)?);
    Some(match cell.best {
        _ if sample.rounds.iter().all(|round| round.proposed == 0) => Instructive::Undrafted,
        true if cell.method.sampling.is_greedy() => Instructive::Greedy,
        true => Instructive::Sampled,
        false => Instructive::OtherCell,
    })
}

/// The name of a cell; none for the second run of a control cell.
fn name(cell: &CellView) -> Option<String> {
    let (k, CellView { name, sampling, .. }) = (cell.method.num_speculative_tokens, cell);
    let drafted = || format!("{name}, K = {k}, {sampling}");
    let plain = || format!("plain decoding, {sampling}");
    cell.series.map(|_| drafted()).or_else(|| cell.is_baseline().then(plain))
}

/// A generation, if it counts and was drawn round by round.
fn sample<'a>(
    cells: &CellsById<'a>,
    (cell, prompt, repeat): &GenerationPlace,
) -> Option<&'a Sample> {
    let mut samples = cells.get(&**cell)?.samples.iter().filter(|sample| sample.beam.is_none());
    samples.find(|sample| *sample.prompt == **prompt && sample.repeat == *repeat)
}

/// The generations of the first prompt of every category by every method that drafts.
fn firsts(run: &Run, by_id: &CellsById<'_>) -> Vec<GenerationPlace> {
    let category = run.categories();
    let mut first = BTreeMap::<&str, &str>::new();
    for prompt in &run.plan.prompts {
        if let Some(category) = category.get(prompt.as_str()) {
            first.entry(category).or_insert(prompt);
        }
    }
    let cells = || run.cells.iter().filter(|cell| cell.series.is_some());
    let places = first
        .values()
        .flat_map(|prompt| cells().map(|cell| (cell.id.clone(), (*prompt).to_owned(), 0)));
    let ranked = places.filter_map(|place| Some((rank(by_id, &place)?, place)));
    let mut ranked = ranked.collect::<Vec<_>>();
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, place)| place).collect()
}

/// Adds the tokens and rounds of the generations that are shown.
fn read(
    folder: &Path,
    cells: &CellsById<'_>,
    shown: &mut BTreeMap<GenerationPlace, Specimen>,
) -> Result<()> {
    let rounds = |place| sample(cells, place).map_or(0, |sample| sample.rounds.len());
    let mut missing = shown.keys().map(|place| rounds(place).min(ROUNDS)).sum::<usize>();
    each_row_until(folder, |mut row: RoundRow| {
        let place = (take(&mut row.cell), take(&mut row.prompt), row.repeat);
        if let Some(specimen) = shown.get_mut(&place).filter(|shown| shown.rounds.len() < ROUNDS) {
            specimen.rounds.push(RoundNumbers::of(&row));
            missing -= 1;
        }
        Ok(missing == 0)
    })?;
    each_row(folder, |row: TextRow| {
        if let Some(specimen) = shown.get_mut(&(row.cell, row.prompt, row.repeat)) {
            specimen.tokens = row.tokens;
            specimen.cut = specimen.emitted() < specimen.tokens.len();
            specimen.tokens.truncate(specimen.emitted());
            // Of a completion that is cut, nothing says where its text should end.
            specimen.text = if specimen.cut { String::new() } else { row.text };
        }
        Ok(())
    })?;
    Ok(())
}

impl RoundNumbers {
    fn of(row: &RoundRow) -> Self {
        let tenths = |us: f64| (10.0 * us).round() / 10.0;
        let [draft, target, verify, other] =
            [row.draft_us, row.target_us, row.verify_us, row.other_us].map(tenths);
        // After a bonus token the accepted path ends where the draft does.
        let accepted = row.kept();
        let bonus = u8::from(row.proposed > 0 && row.forks == accepted && row.emitted > accepted);
        Self(row.proposed, accepted, row.emitted, draft, target, verify, other, bonus)
    }
}

impl Specimen {
    /// How many tokens its rounds emitted.
    fn emitted(&self) -> usize {
        self.rounds.iter().map(|round| round.2).sum()
    }

    /// The generation as JSON.
    fn json(&self, name: &str, (cell, prompt, repeat): &GenerationPlace) -> Result<String> {
        let repeat = if *repeat == 0 { String::new() } else { format!(", repeat {repeat}") };
        let first = format!(", the first {} tokens", self.tokens.len());
        let cut = if self.cut { &first } else { "" };
        let generation = ShownGeneration {
            cell,
            name: shown::line(&format!("{prompt}: {name}{repeat}{cut}")),
            tokens: &self.tokens,
            text: shown::lines(&self.text),
            rounds: &self.rounds,
            steps: self.trace.as_ref().map(|trace| &*trace.rounds),
        };
        Ok(serde_json::to_string(&generation)?)
    }
}

impl Microscope {
    /// What the script needs, as members of a JSON object.
    pub(super) fn json(&self) -> String {
        let strings =
            self.strings.iter().map(|(token, text)| (token.to_string(), text.clone().into()));
        let strings = serde_json::Value::Object(strings.collect());
        format!("\"generations\":[{}],\"strings\":{strings}", self.generations.join(","))
    }

    /// Its section, which the script fills.
    pub(super) fn print(&self) -> String {
        let mut section = print::begin(HEADING);
        if self.generations.is_empty() {
            return section
                + "<p>The run has no completions that were drawn round by round.</p>\n</section>\n";
        }
        section += include_str!("microscope.html");
        if self.left_out > 0 {
            section += &format!("<p>{} more generations are in the raw rows.</p>\n", self.left_out);
        }
        section + "</section>\n"
    }
}

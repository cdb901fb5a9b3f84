//! Blocks that are run, some of them more than once: what is kept of each attempt,
//! and the row that records it.

use std::path::Path;

use sha2::{Digest, Sha256};
use specdec::measure::rows::BlockRow;
use specdec::run::experiment::Plan;

use crate::rows_fields::Rows;
use crate::rows_support::Busy;

/// The files of a run whose `blocks` were run in this order, each disturbed as given.
/// Of two attempts the less disturbed one counts; of the other, only generations and
/// failures are kept, marked as superseded.
pub(crate) fn attempts(blocks: &[Rows], order: &[(usize, Busy)]) -> Rows {
    let mut all = Rows::default();
    // One thread's share of the time that the host takes from all cores.
    let ours = 1.0 / std::thread::available_parallelism().map_or(1.0, |n| n.get() as f64);
    for &(number, [waiting, others, taken, throttled, late]) in order {
        let stolen = ours * taken;
        // No thread waits for other processes longer than they run, or a limit lasts. What is
        // known does not count once more as a stop.
        let stopped = (late - waiting.min(others + throttled) - stolen).max(0.0);
        let lost = |b: &BlockRow| {
            let [throttled, stopped] = [b.throttled_share, b.stopped_share].map(Option::unwrap);
            b.waiting_share.min(b.others_share + throttled) + b.stolen_share + stopped
        };
        let mut before = all.blocks.iter().filter(|b| b.block == number);
        let attempt = before.clone().count() as u32;
        let standing = before.rfind(|b| !b.superseded).map(lost);
        let mut rows = blocks[number].clone();
        let row = BlockRow {
            block: number,
            attempt,
            session: 0,
            waiting_share: waiting,
            others_share: others,
            stolen_share: stolen,
            throttled_share: Some(throttled),
            stopped_share: Some(stopped),
            ..rows.blocks[0].clone()
        };
        let own = lost(&row);
        let superseded = standing.is_some_and(|share| own >= share);
        rows.blocks[0] = BlockRow { disturbed: own > 0.1, superseded, ..row };
        let aside = if superseded { &mut rows } else { &mut all };
        set_aside(aside, number, &blocks[number]);
        all.rounds.extend(rows.rounds);
        all.positions.extend(rows.positions);
        all.generations.extend(rows.generations);
        all.texts.extend(rows.texts);
        all.traces.extend(rows.traces);
        all.failures.extend(rows.failures);
        all.divergences.extend(rows.divergences);
        all.blocks.extend(rows.blocks);
    }
    all
}

/// Keeps of a block only the rows that record that it was run.
fn set_aside(rows: &mut Rows, number: usize, block: &Rows) {
    macro_rules! own {
        ($row:expr, $file:ident) => {
            block.$file.iter().any(|own| {
                (&own.cell, &own.prompt, own.repeat) == (&$row.cell, &$row.prompt, $row.repeat)
            })
        };
    }
    rows.rounds.retain(|row| !own!(row, rounds));
    rows.positions.retain(|row| !own!(row, positions));
    rows.texts.retain(|row| !own!(row, texts));
    rows.traces.retain(|row| !own!(row, traces));
    rows.divergences.retain(|row| !own!(row, divergences));
    rows.generations.iter_mut().for_each(|row| row.superseded |= own!(row, generations));
    rows.failures.iter_mut().for_each(|row| row.superseded |= own!(row, failures));
    rows.blocks.iter_mut().for_each(|row| row.superseded |= row.block == number);
}

/// The rows with the digests of what the files hold. On a scripted clock all
/// attempts of a block have the same rows.
pub(crate) fn sealed(folder: &Path, plan: &Plan, rows: Vec<BlockRow>) -> Vec<BlockRow> {
    let listed = raw_lines(folder, "blocks.csv");
    let seal = |(mut row, line): (BlockRow, &String)| {
        let lines = FILES.map(|file| (file, lines(folder, plan, file, &row).concat()));
        // Not every block has a line in the last file.
        let listed =
            lines.iter().filter(|(file, text)| *file != "traces.jsonl" || !text.is_empty());
        row.digests = listed.map(|(_, text)| short(text)).collect::<Vec<_>>().join("-");
        // Of the line without its seal, as it was before any further attempt.
        let open = line.trim_end().rsplitn(3, ',').last().unwrap().to_owned() + ",,false\n";
        row.seal = short(&open);
        row
    };
    rows.into_iter().zip(&listed).map(seal).collect()
}

/// The files of a block in the order of their digests.
const FILES: [&str; 7] = [
    "rounds.csv",
    "positions.csv",
    "generations.jsonl",
    "failures.csv",
    "divergences.csv",
    "generations.csv",
    "traces.jsonl",
];

/// The first eight hex digits of the SHA-256 of a text.
fn short(text: &str) -> String {
    Sha256::digest(text).iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

/// The lines of a file after its header, including line endings.
fn raw_lines(folder: &Path, file: &str) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join(file)).unwrap_or_default();
    let header = usize::from(file.ends_with("csv"));
    text.split_inclusive('\n').skip(header).map(str::to_owned).collect()
}

/// The lines of a block that are not superseded.
fn lines(folder: &Path, plan: &Plan, file: &str, block: &BlockRow) -> Vec<String> {
    let settings =
        plan.cells.chunk_by(|a, b| a.method.sampling == b.method.sampling).collect::<Vec<_>>();
    let cells = settings[block.block % settings.len()];
    let own = |line: &String| {
        let fields = line.trim_end().split([',', ':']).collect::<Vec<_>>();
        let plain = |i: usize| fields[i].trim_matches('"');
        let (cell, prompt, repeat) = match file {
            "generations.jsonl" | "traces.jsonl" => (plain(1), plain(3), plain(5)),
            // The category comes before the repeat.
            "generations.csv" => (plain(0), plain(1), plain(3)),
            _ => (plain(0), plain(1), plain(2)),
        };
        let marked = ["generations.csv", "failures.csv"].contains(&file);
        cells.iter().any(|c| c.id == cell)
            && (prompt, repeat) == (block.prompt.as_str(), block.repeat.to_string().as_str())
            && !(marked && fields.last() == Some(&"true"))
    };
    raw_lines(folder, file).into_iter().filter(own).collect()
}

//! Damage to the raw rows of a finished run never goes unnoticed.

use std::fs;

use rand_chacha::rand_core::{Rng, SeedableRng};
use specdec::run::report;

use crate::run_support::{folder, run, succeed};

/// Number of changes that are tried on each file.
const MUTATIONS: usize = 60;

/// Damages a line as a disk, an editor or a careless script might.
fn mutate(text: &str, rng: &mut rand_chacha::ChaCha8Rng) -> String {
    let mut lines = text.lines().map(str::to_owned).collect::<Vec<_>>();
    let mut below = |n: usize| rng.next_u64() as usize % n;
    // The header of a CSV file is checked by another test.
    let at = 1 + below(lines.len() - 1);
    match below(5) {
        0 => drop(lines.remove(at)),
        1 => lines.insert(at, lines[at].clone()),
        2 => {
            let other = 1 + below(lines.len() - 1);
            lines.swap(at, other);
        }
        3 => {
            let field = lines[at].split(',').map(str::to_owned).collect::<Vec<_>>();
            let i = below(field.len());
            let mut field = field;
            field[i] = "7".to_owned();
            lines[at] = field.join(",");
        }
        _ => {
            let digits = lines[at].char_indices().filter(|(_, c)| c.is_ascii_digit());
            let digits = digits.map(|(i, _)| i).collect::<Vec<_>>();
            let i = digits[below(digits.len())];
            let digit = (lines[at].as_bytes()[i] - b'0' + 1 + below(8) as u8) % 10;
            lines[at].replace_range(i..=i, &digit.to_string());
        }
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[test]
fn a_change_to_a_raw_file_is_refused_noted_or_harmless() {
    let out = tempfile::tempdir().unwrap();
    succeed(run(out.path(), &["--trace"]));
    let folder = folder(out.path());
    let rows = |run: &report::Run| {
        let cells = run.cells.iter().map(|cell| (cell.samples.clone(), cell.reached.clone()));
        (cells.collect::<Vec<_>>(), run.blocks.clone())
    };
    let sound = report::load(&folder).unwrap();
    assert_eq!(sound.notes, [""; 0]);
    let sound = rows(&sound);
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(16);
    for name in
        ["rounds.csv", "positions.csv", "generations.csv", "generations.jsonl", "blocks.csv"]
    {
        let file = folder.join(name);
        let text = fs::read_to_string(&file).unwrap();
        for _ in 0..MUTATIONS {
            let damaged = mutate(&text, &mut rng);
            fs::write(&file, &damaged).unwrap();
            // The damage is refused, noted, or changes nothing that counts.
            if let Ok(results) = report::load(&folder) {
                let same = rows(&results) == sound;
                assert!(!results.notes.is_empty() || same, "{name}: {damaged}");
            }
        }
        fs::write(&file, text).unwrap();
    }
}

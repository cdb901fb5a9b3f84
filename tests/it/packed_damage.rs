//! Damage to segments is refused, noted or harmless, wherever it is.

use std::fs;

use rand_chacha::rand_core::{Rng, SeedableRng};
use specdec::io::input::READS_DAMAGED;
use specdec::run::experiment::pack_run;
use specdec::run::report::{Run, load};

use crate::damage_support::files;
use crate::packed_support::{OwnRun, segments};

/// Bytes that are changed in each file, without its end, and places at which it is cut.
const FLIPS: usize = 150;
const CUTS: usize = 20;

/// What a report makes of the rows.
fn counted(run: &Run) -> impl PartialEq + use<> {
    let cells = run.cells.iter().map(|cell| (cell.samples.clone(), cell.reached.clone()));
    (cells.collect::<Vec<_>>(), run.blocks.clone())
}

/// Catches: a panic of the Parquet library is one of the program.
#[test]
fn a_damaged_segment_is_refused_noted_or_harmless() {
    // What is printed where the library panics is of no interest.
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if std::thread::current().name() != Some(READS_DAMAGED) {
            usual(info);
        }
    }));
    let run = OwnRun::new(&["--trace", "--pack-above", "90000"]);
    pack_run(&run.folder).unwrap();
    let sound = counted(&load(&run.folder).unwrap());
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(20);
    let (mut refused, flips) = (0, files(FLIPS));
    for stem in ["rounds", "positions", "generations", "texts", "traces"] {
        let segment = &segments(&run.folder, stem)[0];
        let name = segment.file_name().unwrap().to_str().unwrap();
        let bytes = fs::read(segment).unwrap();
        let mut check = |damaged: &[u8]| {
            fs::write(segment, damaged).unwrap();
            match load(&run.folder) {
                Ok(results) => assert!(!results.notes.is_empty() || counted(&results) == sound),
                Err(error) => {
                    let said = format!("{error:#}");
                    assert!(said.starts_with(&format!("{name} ")), "{said}");
                    assert!(!said.contains('\n'), "{said}");
                    refused += 1;
                }
            }
        };
        for _ in 0..flips {
            let mut damaged = bytes.clone();
            damaged[rng.next_u64() as usize % bytes.len()] ^= 1 << (rng.next_u64() % 8);
            check(&damaged);
        }
        // The lists at the end tell where everything is.
        let end = bytes.len().saturating_sub(4000);
        for at in (end..bytes.len()).step_by(11) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (rng.next_u64() % 8);
            check(&damaged);
        }
        (0..CUTS).for_each(|cut| check(&bytes[..bytes.len() * cut / CUTS]));
        check(&[bytes.as_slice(), &bytes[..100]].concat());
        fs::write(segment, bytes).unwrap();
    }
    assert!(counted(&load(&run.folder).unwrap()) == sound && refused > flips);
}

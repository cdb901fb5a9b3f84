//! Damaged quantised checkpoints are refused in one sentence or read, but never end the program,
//! and never take more memory than files of their size can fill.

use std::fs;
use std::path::Path;

use rand_chacha::rand_core::Rng;
use specdec::Error;
use specdec::checkpoint::load;
use specdec::engine::{Settings, Source};
use specdec::model::Role;

use super::folders::{folders, tiny};
use super::methods::METHODS;
#[cfg(target_os = "linux")]
use crate::damage_support::measured;
use crate::damage_support::{Memory, Outcomes, damage, files};
use crate::damaged_checkpoints::change;
use crate::fixtures::seeded;

/// Number of damaged files.
const FILES: usize = 400;
/// How many bytes of the weights most damage hits: about those of the header.
const HEADER: usize = 4_000;

fn read(folder: &Path) -> Result<(), Error> {
    let settings = Settings { threads: Some(1), ..Settings::default() };
    let source = Source::from(folder.to_str().unwrap()).with(settings);
    load(source, Role::Target)?.model.session().map(drop)
}

#[test]
fn damaged_quantised_folders_are_refused_or_read() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let folders = METHODS.iter().map(|method| folders(&tiny(), method)).collect::<Vec<_>>();
    for ([folder, _], method) in folders.iter().zip(METHODS) {
        folder.write(place);
        read(place).unwrap_or_else(|error| panic!("{}: {error}", method.name));
    }
    let memory = Memory::now();
    let mut rng = seeded(59);
    let files = files(FILES);
    let mut outcomes = Outcomes::default();
    for number in 0..files {
        let [folder, _] = &folders[number % folders.len()];
        let mut folder = folder.clone();
        let part = match rng.next_u64() % 3 {
            // Only the table, so that few other keys hide what becomes of it.
            0 => {
                let table = change(folder.keys().to_string().as_bytes(), &mut rng);
                *folder.keys() = serde_json::from_slice(&table).unwrap();
                "quantization_config"
            }
            1 => {
                let count = folder.tensors.len();
                let tensor = &mut folder.tensors[rng.next_u64() as usize % count];
                rng.fill_bytes(&mut tensor.bytes);
                "tensor"
            }
            _ => "model.safetensors",
        };
        folder.write(place);
        if part == "model.safetensors" {
            let whole = fs::read(place.join(part)).unwrap();
            fs::write(place.join(part), damage(&whole, HEADER, &mut rng)).unwrap();
        }
        outcomes.count(part, read(place));
        memory.check(part);
    }
    outcomes.check(files);
}

/// The same in a process of its own, in which no other test needs memory.
#[cfg(target_os = "linux")]
#[test]
fn damaged_quantised_folders_take_little_memory() {
    measured("family_files::quantised::damaged::damaged_quantised_folders_are_refused_or_read");
}

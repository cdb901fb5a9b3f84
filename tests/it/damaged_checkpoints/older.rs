//! The same for folders in the layouts of older checkpoints: weights that `torch.save` wrote, and
//! SentencePiece models as tokenizers.

use std::fs;
use std::path::{Path, PathBuf};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;
use serde_json::json;

use super::{TEMPLATE, change, read};
use crate::checkpoint::Checkpoint;
#[cfg(target_os = "linux")]
use crate::damage_support::measured;
use crate::damage_support::{Memory, Outcomes, damage, files};
use crate::families::root;
use crate::fixtures::seeded;

/// Number of damaged files.
const FILES: usize = 600;
/// The files that are damaged: the folder of each, by its number in [`folders`], and how many of
/// its first bytes most damage hits, or if that is negative, of its last ones.
const PARTS: [(usize, &str, isize); 8] = [
    (0, "pytorch_model.bin", 4_000),
    (0, "pytorch_model.bin", -400),
    (1, "pytorch_model-00001-of-00002.bin", 2_000),
    (1, "pytorch_model-00002-of-00002.bin", -1_200),
    (1, "pytorch_model.bin.index.json", isize::MAX),
    (2, "tokenizer.model", isize::MAX),
    (2, "tokenizer_config.json", isize::MAX),
    (2, "added_tokens.json", isize::MAX),
];

fn older() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/older")
}

/// One storage for all tensors, shards, and a SentencePiece model.
fn folders() -> [tempfile::TempDir; 3] {
    let folders = [(); 3].map(|()| tempfile::tempdir().unwrap());
    for (folder, (name, family)) in
        folders.iter().zip([("llama_views", "llama_linear"), ("llama", "llama")])
    {
        for part in ["config.json", "tokenizer.json"] {
            fs::copy(root().join(family).join(part), folder.path().join(part)).unwrap();
        }
        for file in fs::read_dir(older().join(name)).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), folder.path().join(file.file_name())).unwrap();
        }
    }
    let config = json!({"bos_token_id": 1, "eos_token_id": 2});
    let folder = folders[2].path();
    Checkpoint { vocab_rows: 448, config, ..Checkpoint::default() }.write(folder);
    fs::remove_file(folder.join("tokenizer.json")).unwrap();
    fs::copy(older().join("sentence_piece/llama.model"), folder.join("tokenizer.model")).unwrap();
    let token = |name| {
        json!({"content": name, "lstrip": false, "normalized": true, "rstrip": true,
            "single_word": false, "special": true})
    };
    let tokenizer = json!({"bos_token": "<s>", "eos_token": token("</s>"), "legacy": false,
        "add_eos_token": true, "added_tokens_decoder": {"440": token("t3"), "1": token("<s>")}});
    fs::write(folder.join("tokenizer_config.json"), tokenizer.to_string()).unwrap();
    fs::write(folder.join("added_tokens.json"), r#"{"t5": 441, "<s>": 1}"#).unwrap();
    let named = json!({"bos_token": "t1", "eos_token": "t2"}).to_string();
    for folder in &folders[..2] {
        fs::write(folder.path().join("tokenizer_config.json"), &named).unwrap();
    }
    for folder in &folders {
        fs::write(folder.path().join("chat_template.jinja"), TEMPLATE).unwrap();
    }
    folders
}

/// Damage where most of it changes what is read.
fn spoilt(whole: &[u8], name: &str, most: isize, rng: &mut ChaCha8Rng) -> Vec<u8> {
    if name.ends_with(".json") && !rng.next_u64().is_multiple_of(4) {
        return change(whole, rng);
    }
    if most > 0 {
        return damage(whole, most.unsigned_abs(), rng);
    }
    let reversed = whole.iter().rev().copied().collect::<Vec<_>>();
    let mut spoilt = damage(&reversed, most.unsigned_abs(), rng);
    spoilt.reverse();
    spoilt
}

#[test]
fn damaged_older_folders_are_refused_or_read() {
    let folders = folders();
    for folder in &folders {
        read(folder.path()).unwrap();
    }
    let memory = Memory::now();
    let mut rng = seeded(47);
    let files = files(FILES);
    let mut outcomes = Outcomes::default();
    for number in 0..files {
        let (folder, name, most) = PARTS[number % PARTS.len()];
        let file = folders[folder].path().join(name);
        let whole = fs::read(&file).unwrap();
        fs::write(&file, spoilt(&whole, name, most, &mut rng)).unwrap();
        outcomes.count(name, read(folders[folder].path()));
        memory.check(name);
        fs::write(&file, whole).unwrap();
    }
    outcomes.check(files);
}

/// The same in a process of its own, in which no other test needs memory.
#[cfg(target_os = "linux")]
#[test]
fn damaged_older_folders_take_little_memory() {
    measured("damaged_checkpoints::older::damaged_older_folders_are_refused_or_read");
}

//! Damaged GGUF files are refused in one sentence or read, but never end the program, and
//! never take more memory than a file of their size can fill.

use std::fs;
use std::process::Command;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;
use specdec::Error;
use specdec::model::gguf::{GgufCheckpoint, TensorKind};

use crate::fixtures::seeded;
use crate::gguf_models::{HfTensors, TinyModel};
use crate::gguf_support::{Folder, Gguf, Tensor};

/// Number of damaged files.
const FILES: usize = 4_000;
/// More memory, in KiB, than reading them may take beyond that of the undamaged ones. They
/// have 30 kB each.
const MOST_KIB: usize = 8 << 10;
/// Set in the process that measures its own memory.
const MEASURED: &str = "SPECDEC_MEASURES_DAMAGED_FILES";

/// Valid files with several architectures and types of tensors, and their tensors' names
/// and shapes.
fn valid() -> Vec<(Vec<u8>, HfTensors)> {
    let mut rng = seeded(41);
    let mut files = ["llama", "gemma3", "phi3"].map(|name| TinyModel::new(name).make()).to_vec();
    let packed = TinyModel { hidden: 256, inner: 32, ..TinyModel::new("qwen2") };
    let (mut file, tensors) = TinyModel { layers: 1, heads: 2, kv_heads: 1, ..packed }.make();
    let kinds = TensorKind::ALL.into_iter().cycle();
    for (tensor, kind) in file.tensors.iter_mut().filter(|t| t.shape.len() == 2).zip(kinds) {
        pack(tensor, kind, &mut rng);
    }
    let lists = vec![vec![vec!["a", "b"]], vec![vec!["c"]]];
    file = file.with("lists", lists).with("truths", vec![true, false]);
    files.push((file, tensors));
    files.into_iter().map(|(file, tensors): (Gguf, _)| (file.bytes(), tensors)).collect()
}

/// Gives a tensor blocks of a type if its rows are whole blocks.
fn pack(tensor: &mut Tensor, kind: TensorKind, rng: &mut ChaCha8Rng) {
    let (rows, inputs) = (tensor.shape[0] as usize, tensor.shape[1] as usize);
    if inputs % kind.length() == 0 {
        tensor.kind = kind.id();
        tensor.bytes = vec![0; rows * inputs / kind.length() * kind.bytes()];
        rng.fill_bytes(&mut tensor.bytes);
    }
}

/// Damages a file as a disk, a broken download or an attacker might. Most damage hits the
/// header, which is the smaller part.
fn damage(file: &[u8], rng: &mut ChaCha8Rng) -> Vec<u8> {
    let mut file = file.to_vec();
    let header = file.len().min(2_500);
    for _ in 0..1 + rng.next_u64() % 3 {
        let mut below = |n: usize| rng.next_u64() as usize % n.max(1);
        let reach = if below(8) == 0 { file.len() } else { header.min(file.len()) };
        let at = below(reach);
        let count = |file: &mut Vec<u8>, at: usize, value: u64| {
            let bytes = value.to_le_bytes();
            let length = 8.min(file.len() - at);
            file[at..at + length].copy_from_slice(&bytes[..length]);
        };
        match below(8) {
            _ if file.is_empty() => {}
            0 => file[at] ^= 1 << below(8),
            1 => file[at] = below(256) as u8,
            2 => file.truncate(at),
            3 => count(&mut file, at / 8 * 8, u64::MAX >> below(64)),
            4 => count(&mut file, at, 1u64 << below(64)),
            5 => drop(file.drain(at..(at + 1 + below(40)).min(reach))),
            6 => {
                let from = below(reach);
                let piece = file[from..(from + 1 + below(60)).min(reach)].to_vec();
                file.splice(at..at, piece);
            }
            _ => {
                let length = below(16).min(file.len() - at);
                file[at..at + length].fill(0xff);
            }
        }
    }
    file
}

/// Opens a file and reads all that it should have.
fn read(path: &std::path::Path, tensors: &HfTensors) -> Result<(), Error> {
    let model = GgufCheckpoint::open(path)?;
    for (name, (shape, _)) in tensors {
        model.check(name, shape)?;
    }
    for (name, (shape, _)) in tensors {
        let weights = model.get(name, shape)?;
        assert_eq!(weights.len(), shape.iter().product::<usize>());
        assert!(weights.iter().all(|weight| weight.is_finite()), "{name}");
        let raw = model.raw(name, shape)?;
        assert_eq!(raw.blocks.len() / raw.kind.bytes() * raw.kind.length(), weights.len());
    }
    model.sha256().map(drop)
}

/// The most address space that this process has had, in KiB: it counts memory that was
/// allocated and never touched, too.
fn peak_kib() -> Option<usize> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmPeak:"))?;
    line.trim().trim_end_matches("kB").trim().parse().ok()
}

#[test]
fn damaged_files_are_refused_or_read() {
    let valid = valid();
    let folder = Folder::new();
    let path = |bytes: &[u8]| folder.write("model.gguf", bytes);
    for (file, tensors) in &valid {
        // Random blocks may have scales that are not finite; all else is in order.
        let read = read(&path(file), tensors).map_err(|e| e.to_string());
        assert!(read.is_ok() || read.unwrap_err().contains("NaN or infinite weights"));
    }
    let before = peak_kib();
    let mut rng = seeded(42);
    let (mut refused, mut accepted) = (0, 0);
    for number in 0..FILES {
        let (file, tensors) = &valid[number % valid.len()];
        match read(&path(&damage(file, &mut rng)), tensors) {
            Ok(()) => accepted += 1,
            Err(error) => {
                let sentence = error.to_string();
                assert!(
                    !sentence.contains('\n') && sentence.contains("model.gguf: "),
                    "{sentence}"
                );
                refused += 1;
            }
        }
    }
    // Much of the damage must be of a kind that a check has to find.
    assert!(refused > FILES / 2 && accepted > FILES / 50, "{refused} refused, {accepted} read");
    if std::env::var_os(MEASURED).is_some() {
        let (before, after) = (before.unwrap(), peak_kib().unwrap());
        assert!(after - before < MOST_KIB, "memory grew from {before} to {after} KiB");
    }
}

/// The same in a process of its own, in which no other test needs memory.
#[cfg(target_os = "linux")]
#[test]
fn damaged_files_take_little_memory() {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["gguf_damaged::damaged_files_are_refused_or_read", "--exact"]);
    let output = command.env(MEASURED, "1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

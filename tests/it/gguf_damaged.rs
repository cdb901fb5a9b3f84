//! Damaged GGUF files are refused in one sentence or read, but never end the program, and
//! never take more memory than a file of their size can fill.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;
use specdec::Error;
use specdec::checkpoint::gguf::{GgufCheckpoint, TensorKind};

#[cfg(target_os = "linux")]
use crate::damage_support::measured;
use crate::damage_support::{Memory, damage, files};
use crate::fixtures::seeded;
use crate::gguf_models::{HfTensors, TinyModel};
use crate::gguf_support::{Folder, Gguf, Tensor};

/// Number of damaged files.
const FILES: usize = 4_000;

/// Bytes at the beginning of a file that most damage hits.
const HEADER: usize = 2_500;

/// Valid files with several architectures and types of tensors, and their tensors' names
/// and shapes.
fn valid() -> Vec<(Vec<u8>, HfTensors)> {
    let mut rng = seeded(41);
    let mut files =
        ["llama", "gemma3", "phi3", "qwen3moe"].map(|name| TinyModel::new(name).make()).to_vec();
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
        tensor.kind = kind.id().unwrap();
        tensor.bytes = vec![0; rows * inputs / kind.length() * kind.bytes()];
        rng.fill_bytes(&mut tensor.bytes);
    }
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
    let memory = Memory::now();
    let mut rng = seeded(42);
    let (mut refused, mut accepted) = (0, 0);
    let files = files(FILES);
    for number in 0..files {
        let (file, tensors) = &valid[number % valid.len()];
        match read(&path(&damage(file, HEADER, &mut rng)), tensors) {
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
        memory.check("model.gguf");
    }
    // Much of the damage must be of a kind that a check has to find.
    assert!(refused > files / 2 && accepted > files / 50, "{refused} refused, {accepted} read");
}

/// The same in a process of its own, in which no other test needs memory.
#[cfg(target_os = "linux")]
#[test]
fn damaged_files_take_little_memory() {
    measured("gguf_damaged::damaged_files_are_refused_or_read");
}

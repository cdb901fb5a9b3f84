//! Models in several files.

use specdec::checkpoint::gguf::{GgufCheckpoint, GgufFile};

use crate::gguf_models::TinyModel;
use crate::gguf_support::{Folder, Gguf, refused};

/// The parts of a model: the first has the metadata, all have some tensors.
fn parts(count: usize) -> Vec<Gguf> {
    let whole = TinyModel::new("qwen3").gguf();
    let per_part = whole.tensors.len().div_ceil(count);
    let tensors = whole.tensors.chunks(per_part);
    let parts = tensors.enumerate().map(|(number, tensors)| {
        let pairs = if number == 0 { whole.pairs.clone() } else { Vec::new() };
        let alignment = if number == 1 { 64 } else { 32 };
        let part = Gguf { tensors: tensors.to_vec(), pairs, alignment, ..Gguf::default() };
        part.with("split.no", number as u16)
            .with("split.count", count as u16)
            .with("split.tensors.count", whole.tensors.len() as i32)
    });
    let parts = parts.collect::<Vec<_>>();
    assert_eq!(parts.len(), count);
    parts
}

fn name(number: usize, count: usize) -> String {
    format!("tiny-ü-{number:05}-of-{count:05}.gguf")
}

fn written(parts: &[Gguf]) -> Folder {
    let folder = Folder::new();
    for (number, part) in parts.iter().enumerate() {
        folder.write(&name(number + 1, parts.len()), &part.bytes());
    }
    folder
}

#[test]
fn all_parts_together_are_the_model() {
    let (whole, tensors) = TinyModel::new("qwen3").make();
    let folder = written(&parts(3));
    let hashes = [1, 2, 3].map(|number| {
        let model = GgufCheckpoint::open(folder.path().join(name(number, 3))).unwrap();
        assert_eq!(model.file().tensors().count(), whole.tensors.len());
        for (name, (shape, weights)) in &tensors {
            assert_eq!(model.get(name, shape).unwrap(), *weights);
        }
        model.sha256().unwrap()
    });
    assert!(hashes.iter().all(|hash| *hash == hashes[0]));
}

#[test]
fn a_part_that_is_missing_is_named() {
    let folder = written(&parts(3));
    std::fs::remove_file(folder.path().join(name(2, 3))).unwrap();
    let open = |number| GgufFile::open(folder.path().join(name(number, 3)));
    refused(open(1), &["tiny-ü-00002-of-00003.gguf: cannot be read"]);
    refused(open(3), &["tiny-ü-00002-of-00003.gguf: cannot be read"]);
}

#[test]
fn names_and_numbers_of_parts_must_agree() {
    let folder = written(&parts(3));
    for other in [
        "tiny.gguf",
        "tiny-00001-of-00004.gguf",
        "tiny-00004-of-00003.gguf",
        "tiny-00000-of-00003.gguf",
        "tiny-0000x-of-00003.gguf",
        "tiny-+0001-of-00003.gguf",
        "-of-00003.gguf",
        "ü-of-00003.gguf",
    ] {
        std::fs::copy(folder.path().join(name(1, 3)), folder.path().join(other)).unwrap();
        let what = "metadata key split.count is 3, but the file is not called NAME-00001-of-00003";
        refused(GgufFile::open(folder.path().join(other)), &[other, what]);
    }
    let refusal = |spoil: &dyn Fn(&mut Vec<Gguf>), file: &str, what: &str| {
        let mut all = parts(3);
        spoil(&mut all);
        refused(GgufFile::open(written(&all).path().join(name(1, 3))), &[file, what]);
    };
    let change = |part: usize, key: &'static str, value: u32| {
        move |parts: &mut Vec<Gguf>| parts[part] = parts[part].clone().with(key, value)
    };
    let second = "00002-of-00003.gguf: metadata key";
    refusal(&change(1, "split.no", 2), second, "split.no is 2, but by the name of the file");
    refusal(&change(1, "split.count", 2), second, "split.count is 2, but by the name");
    refusal(&change(0, "split.no", 1), "00001-of-00003.gguf", "split.no is 1");
    refusal(
        &change(2, "split.tensors.count", 7),
        "00003-of-00003.gguf",
        "is 7, but the parts have",
    );
    refusal(
        &|parts| parts[1] = parts[1].clone().without("split.no"),
        second,
        "split.no is missing",
    );
    let twice = |parts: &mut Vec<Gguf>| {
        let tensor = parts[0].tensors[1].clone();
        parts[2].tensors[0] = tensor;
    };
    refusal(&twice, "00003-of-00003.gguf", "tensor output_norm.weight is in an earlier part, too");
    refusal(
        &|parts| parts[1].tensors[0].offset = Some(1),
        "00002-of-00003.gguf: tensor",
        "which is not a multiple of 64",
    );
}

#[test]
fn one_part_of_one_has_any_name() {
    let part = parts(1).remove(0);
    let folder = Folder::new();
    GgufCheckpoint::open(folder.write("any.gguf", &part.bytes())).unwrap();
}

//! GGUF files: values of the metadata, tensors, alignment, and what is refused.

use std::fs;

use serde_json::Value;
use specdec::checkpoint::gguf::{GgufFile, MetadataList, MetadataValue};

use crate::gguf_support::{Encoded, Folder, Gguf, Tensor, opened, plain, refused, with_length};

/// A small valid file.
fn small() -> Gguf {
    Gguf::default()
        .with("general.architecture", "test")
        .with("list.text", vec!["a", "b"])
        .with("list.lists", vec![vec![1u8], vec![2, 3]])
        .with("value.bool", true)
        .with_tensor(plain("first", &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))
        .with_tensor(plain("second", &[5], &[0.5; 5]))
}

fn value(file: &GgufFile, key: &str) -> MetadataValue {
    file.metadata().get(key).unwrap().clone()
}

#[test]
fn values_of_all_types_read_back() {
    use MetadataValue::{Bool, Float, Signed, Text, Unsigned};
    for version in [2, 3] {
        let cases: [(Encoded, MetadataValue); 16] = [
            (u8::MAX.into(), Unsigned(255)),
            (i8::MIN.into(), Signed(-128)),
            (u16::MAX.into(), Unsigned(65_535)),
            (i16::MIN.into(), Signed(-32_768)),
            (u32::MAX.into(), Unsigned(4_294_967_295)),
            (i32::MIN.into(), Signed(-2_147_483_648)),
            (0.1f32.into(), Float(f64::from(0.1f32))),
            (f32::NEG_INFINITY.into(), Float(f64::NEG_INFINITY)),
            (false.into(), Bool(false)),
            (true.into(), Bool(true)),
            ("".into(), Text(String::new())),
            ("Ġgrün\n\0".into(), Text("Ġgrün\n\0".to_owned())),
            (u64::MAX.into(), Unsigned(u64::MAX)),
            (i64::MIN.into(), Signed(i64::MIN)),
            ((-1i64).into(), Signed(-1)),
            (0.1f64.into(), Float(0.1)),
        ];
        let file = Gguf { version, ..Gguf::default() };
        let file = cases
            .iter()
            .enumerate()
            .fold(file, |file, (i, (encoded, _))| file.with(&format!("key.{i}"), encoded.clone()));
        let file = opened(&file.bytes()).unwrap();
        for (i, (_, wanted)) in cases.iter().enumerate() {
            assert_eq!(value(&file, &format!("key.{i}")), *wanted);
        }
        assert_eq!(file.metadata().iter().count(), cases.len());
    }
}

#[test]
fn lists_of_all_types_read_back() {
    use MetadataValue::{Bool, Float, Signed, Unsigned};
    let scalars: [(Encoded, Vec<MetadataValue>); 11] = [
        (vec![1u8, 255].into(), vec![Unsigned(1), Unsigned(255)]),
        (vec![-1i8, 1].into(), vec![Signed(-1), Signed(1)]),
        (vec![1u16, 65_535].into(), vec![Unsigned(1), Unsigned(65_535)]),
        (vec![-2i16].into(), vec![Signed(-2)]),
        (vec![7u32, 8, 9].into(), vec![Unsigned(7), Unsigned(8), Unsigned(9)]),
        (vec![-7i32].into(), vec![Signed(-7)]),
        (vec![0.5f32, -0.25].into(), vec![Float(0.5), Float(-0.25)]),
        (vec![true, false].into(), vec![Bool(true), Bool(false)]),
        (vec![1u64 << 63].into(), vec![Unsigned(1 << 63)]),
        (vec![-3i64].into(), vec![Signed(-3)]),
        (vec![0.1f64].into(), vec![Float(0.1)]),
    ];
    for (encoded, wanted) in scalars {
        let file = opened(&Gguf::default().with("list", encoded).bytes()).unwrap();
        let list = file.metadata().scalars("list").unwrap().unwrap();
        assert_eq!(list.iter().collect::<Vec<_>>(), wanted);
    }
    let lists = vec![vec![vec!["a", "b"]], vec![vec![""], vec!["c"]]];
    let file = Gguf::default().with("deep", lists).with("texts", vec!["▁x", ""]);
    let file = opened(&file.bytes()).unwrap();
    assert_eq!(file.metadata().texts("texts").unwrap().unwrap(), ["▁x", ""]);
    let MetadataValue::List(MetadataList::Lists(outer)) = value(&file, "deep") else { panic!() };
    let texts = |texts: &[&str]| MetadataList::Texts(texts.iter().map(|&t| t.to_owned()).collect());
    assert_eq!(outer[0], MetadataList::Lists(vec![texts(&["a", "b"])]));
    assert_eq!(outer[1], MetadataList::Lists(vec![texts(&[""]), texts(&["c"])]));
    assert_eq!((outer.len(), outer[1].len(), outer[1].is_empty()), (2, 2, false));
}

#[test]
fn values_of_another_type_are_refused_by_key() {
    let file = Gguf::default().with("text", "x").with("negative", -1i32).with("nan", f32::NAN);
    let file = opened(&file.with("list", vec![1u8]).bytes()).unwrap();
    let data = file.metadata();
    refused(data.count("text"), &["model.gguf: metadata key text is a text", "whole number >= 0"]);
    refused(data.count("negative"), &["key negative is -1"]);
    refused(data.number("nan"), &["key nan is NaN", "a finite number"]);
    refused(data.text("negative"), &["must be a text"]);
    refused(data.truth("text"), &["must be true or false"]);
    refused(data.texts("list"), &["a list of 1", "must be a list of texts"]);
    refused(data.scalars("text"), &["must be a list of numbers"]);
    assert_eq!(data.number("negative"), Ok(Some(-1.0)));
    assert_eq!(data.count("absent"), Ok(None));
}

#[test]
fn a_file_of_the_formats_own_writer_reads_back() {
    use MetadataValue::{Bool, Float, Signed, Text, Unsigned};
    let made = made();
    let file = opened(&from_hex(&made["file"]["bytes"])).unwrap();
    for (key, wanted) in [
        ("general.alignment", Unsigned(64)),
        ("value.u8", Unsigned(250)),
        ("value.i8", Signed(-100)),
        ("value.u16", Unsigned(65_000)),
        ("value.i16", Signed(-32_000)),
        ("value.u32", Unsigned(4_000_000_000)),
        ("value.i32", Signed(-2_000_000_000)),
        ("value.f32", Float(f64::from(0.1f32))),
        ("value.u64", Unsigned(u64::MAX - 4)),
        ("value.i64", Signed(i64::MIN)),
        ("value.f64", Float(0.1)),
        ("value.bool", Bool(true)),
        ("value.text", Text("Ġgrün\n".to_owned())),
    ] {
        assert_eq!(value(&file, key), wanted, "{key}");
    }
    let scalars = |key| file.metadata().scalars(key).unwrap().unwrap().iter().collect::<Vec<_>>();
    assert_eq!(scalars("list.i32"), [Signed(3), Signed(-1), Signed(2)]);
    assert_eq!(scalars("list.f32"), [Float(0.5), Float(-2.25)]);
    assert_eq!(scalars("list.bool"), [Bool(true), Bool(false), Bool(true)]);
    assert_eq!(file.metadata().texts("list.text").unwrap().unwrap(), ["a", "", "▁c"]);
    let tensors = made["file"]["tensors"].as_object().unwrap();
    assert_eq!(file.tensors().count(), tensors.len());
    for (name, wanted) in tensors {
        let shape =
            wanted["shape"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as usize);
        assert_eq!(file.tensor(name).unwrap().shape(), shape.collect::<Vec<_>>());
        let bytes =
            file.weights(name).unwrap().iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<_>>();
        assert_eq!(bytes, from_hex(&wanted["weights"]), "{name}");
    }
}

/// The committed vectors, which `tests/gguf/make.py` made.
pub(crate) fn made() -> Value {
    serde_json::from_str(include_str!("../gguf/vectors.json")).unwrap()
}

pub(crate) fn from_hex(hex: &Value) -> Vec<u8> {
    let hex = hex.as_str().unwrap();
    let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(byte).collect()
}

#[test]
fn tensors_lie_where_the_alignment_says() {
    for alignment in [1, 8, 32, 64, 4096] {
        let file = Gguf { alignment, ..small() };
        let file = opened(&file.bytes()).unwrap();
        assert_eq!(file.weights("first").unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert_eq!(file.weights("second").unwrap(), [0.5; 5]);
        assert_eq!(file.tensor("first").unwrap().shape(), [2, 3]);
        assert_eq!(file.tensor("second").unwrap().bytes(), 20);
    }
    for (alignment, what) in [(0, "0, which is not a power of two"), (48, "48, which is not")] {
        let file = small().with("general.alignment", alignment as u32);
        refused(opened(&file.bytes()), &["metadata key general.alignment is", what]);
    }
    let mut unaligned = small();
    unaligned.tensors[1].offset = Some(40);
    refused(opened(&unaligned.bytes()), &["tensor second has offset 40", "a multiple of 32"]);
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    let whole = small().bytes();
    opened(&whole).unwrap();
    for cut in 0..whole.len() {
        refused(opened(&whole[..cut]), &["model.gguf: "]);
    }
    refused(opened(&whole[..3]), &["not a GGUF file"]);
    refused(opened(&whole[..30]), &["not a complete GGUF file: its header has 2 items"]);
    let what = "not a complete GGUF file: metadata key list.text has 8 bytes, but 7 bytes are left";
    refused(opened(&whole[..100]), &[what]);
    refused(opened(&whole[..whole.len() - 1]), &["tensor second of 20 bytes at offset 32", "past"]);
}

#[test]
fn files_of_other_formats_and_versions_are_refused_by_name() {
    refused(opened(b""), &["not a GGUF file"]);
    refused(opened(b"PK\x03\x04 and so on"), &["not a GGUF file"]);
    for version in [0, 1, 4] {
        let file = Gguf { version, ..small() };
        refused(opened(&file.bytes()), &[&format!("version {version}; supported are 2 and 3")]);
    }
    let big_endian = Gguf { version: 3u32.swap_bytes(), ..small() };
    refused(opened(&big_endian.bytes()), &["big-endian"]);
    let folder = Folder::new();
    refused(GgufFile::open(folder.path()), &["not a regular file"]);
    refused(GgufFile::open(folder.path().join("none.gguf")), &["none.gguf: cannot be read"]);
}

#[test]
fn counts_and_lengths_beyond_the_file_are_refused() {
    let most = u64::MAX.to_le_bytes();
    let at = |place: usize| {
        let mut bytes = small().bytes();
        bytes[place..place + 8].copy_from_slice(&most);
        bytes
    };
    refused(opened(&at(8)), &["its header has 18446744073709551615 items"]);
    refused(opened(&at(16)), &["its header has 18446744073709551615 items"]);
    refused(opened(&at(24)), &["metadata key 1 of 4 has 18446744073709551615 bytes"]);
    for (kind, least) in [(4u32, 4), (8, 8), (9, 12), (10, 8)] {
        let list = Encoded { kind: 9, bytes: [&kind.to_le_bytes()[..], &most].concat() };
        let file = small().with("list", list);
        let what = format!("metadata key list has 18446744073709551615 items of at least {least}");
        refused(opened(&file.bytes()), &["not a complete GGUF file", &what]);
    }
    let long = Encoded { kind: 8, bytes: (1u64 << 40).to_le_bytes().to_vec() };
    refused(opened(&small().with("long", long).bytes()), &["metadata key long has 1099511627776"]);
}

/// A file of a terabyte, nearly all of it a hole, could justify any length; a header cannot.
#[test]
fn headers_have_a_greatest_length() {
    let folder = Folder::new();
    let long = Encoded { kind: 8, bytes: (1u64 << 39).to_le_bytes().to_vec() };
    let path = folder.write("model.gguf", &Gguf::default().with("long", long).bytes());
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
    refused(GgufFile::open(&path), &["metadata key long has", "a header has at most 256 MiB"]);
}

#[test]
fn faults_of_the_metadata_are_refused() {
    let mut twice = small();
    twice.pairs.push(twice.pairs[0].clone());
    refused(opened(&twice.bytes()), &["metadata key general.architecture occurs twice"]);
    let encoded = |kind, bytes: &[u8]| Encoded { kind, bytes: bytes.to_vec() };
    for (value, what) in [
        (encoded(13, &[0; 8]), "has a value of type 13, which does not exist"),
        (encoded(9, &[99, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), "has a value of type 99"),
        (encoded(7, &[2]), "has the truth value 2"),
        (encoded(8, &with_length(&[0xff])), "holds a text that is not UTF-8"),
        (vec![vec![vec![vec![vec![1u8]]]]].into(), "has more than 4 lists within lists"),
    ] {
        refused(opened(&small().with("odd", value).bytes()), &["metadata key odd ", what]);
    }
    let deep = small().with("deep", vec![vec![vec![vec![1u8]]]]);
    opened(&deep.bytes()).unwrap();
    for name in ["", "a\nb", &"x".repeat(70_000)] {
        let what = "has a name that is empty, too long or not printable";
        refused(opened(&small().with(name, 1u8).bytes()), &["metadata key 5 of 5", what]);
        let named = small().with_tensor(plain(name, &[1], &[1.0]));
        refused(opened(&named.bytes()), &["the entry of tensor 3 of 3", what]);
    }
}

#[test]
fn faults_of_tensors_are_refused() {
    let tensor = |shape: &[u64], kind| Tensor {
        name: "odd".to_owned(),
        shape: shape.to_vec(),
        kind,
        bytes: vec![0; 64],
        offset: None,
    };
    for (tensor, what) in [
        (tensor(&[], 0), "tensor odd has 0 dimensions; supported are 1 to 4"),
        (tensor(&[1; 5], 0), "tensor odd has 5 dimensions"),
        (tensor(&[2, 0], 0), "tensor odd has sizes [0, 2] that are out of range"),
        (tensor(&[1 << 40, 1 << 40], 0), "whose product is out of range"),
        (tensor(&[1 << 62], 0), "whose product is out of range"),
        (
            tensor(&[1 << 20, 1 << 20], 0),
            "tensor odd of 4398046511104 bytes at offset 64 ends past",
        ),
        (tensor(&[2, 16], 8), "of type Q8_0, whose rows are multiples of 32 weights"),
        (tensor(&[2, 128], 14), "of type Q6_K, whose rows are multiples of 256 weights"),
        (tensor(&[16], 10), "tensor odd is of type Q2_K; supported are: F32, F16, BF16, Q8_0"),
        (tensor(&[16], 40), "tensor odd is of type NVFP4;"),
        (tensor(&[16], 4), "tensor odd is of type Q4_2;"),
        (tensor(&[16], 1000), "tensor odd is of type 1000;"),
    ] {
        refused(opened(&small().with_tensor(tensor).bytes()), &[what]);
    }
    let mut twice = small();
    twice.tensors[1].name = "first".to_owned();
    refused(opened(&twice.bytes()), &["tensor first occurs twice"]);
    let mut overlapping = small();
    overlapping.tensors[1].offset = Some(0);
    refused(opened(&overlapping.bytes()), &["tensors second and first overlap"]);
    let mut far = small();
    far.tensors[1].offset = Some(u64::MAX - 31);
    refused(opened(&far.bytes()), &["tensor second of 20 bytes at offset 18446744073709551584"]);
}

#[test]
fn a_file_that_changes_while_it_is_read_is_reported() {
    let folder = Folder::new();
    let path = folder.write("model.gguf", &small().bytes());
    let file = GgufFile::open(&path).unwrap();
    let length = fs::metadata(&path).unwrap().len();
    let shorter = fs::OpenOptions::new().write(true).open(&path).unwrap();
    shorter.set_len(length - 1).unwrap();
    assert_eq!(file.weights("first").unwrap().len(), 6);
    refused(file.weights("second"), &["model.gguf: was changed while it was read"]);
    refused(file.sha256(), &["model.gguf: was changed while it was read"]);
}

#[test]
fn the_hash_is_that_of_what_was_read() {
    let read = |gguf: &Gguf, name: &str, tensors: &[&str]| {
        let folder = Folder::new();
        let file = GgufFile::open(folder.write(name, &gguf.bytes())).unwrap();
        tensors.iter().for_each(|tensor| drop(file.weights(tensor).unwrap()));
        file.sha256().unwrap()
    };
    let hash = read(&small(), "a.gguf", &["first"]);
    assert_eq!(hash.len(), 64);
    assert_eq!(hash, read(&small(), "b.gguf", &["first", "first"]));
    assert_ne!(hash, read(&small(), "a.gguf", &[]));
    assert_ne!(hash, read(&small(), "a.gguf", &["second"]));
    assert_ne!(hash, read(&small().with("value.bool", false), "a.gguf", &["first"]));
    let other = small().with_tensor(plain("second", &[5], &[0.25; 5]));
    assert_eq!(hash, read(&other, "a.gguf", &["first"]));
    let both = ["first", "second"];
    assert_ne!(read(&small(), "a.gguf", &both), read(&other, "a.gguf", &both));
    let file = opened(&small().bytes()).unwrap();
    file.blocks("first").unwrap();
    assert_eq!(hash, file.sha256().unwrap());
    refused(file.weights("third"), &["tensor third is missing"]);
}

//! Weights that `torch.save` wrote (`tests/older`): the bits of safetensors, and refusals.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Tensor};
use specdec::checkpoint::load;
#[cfg(feature = "harness")]
use specdec::checkpoint::summarise;
use specdec::engine::{Engine, Source};
use specdec::model::Role;

use super::logits;
use super::torch_files::{Archive, Described, dictionary, text, tuple, whole};
use crate::damage_support::says;
use crate::families::root;

/// The tensor that is asked for first, and its shape in `llama`.
const FIRST: &str = "model.embed_tokens.weight";
const SHAPE: [i64; 2] = [48, 24];

fn older() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/older")
}

/// A folder with configuration and tokenizer of a checkpoint of `tests/families`.
fn without_weights(family: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for part in ["config.json", "tokenizer.json"] {
        fs::copy(root().join(family).join(part), folder.path().join(part)).unwrap();
    }
    folder
}

/// The same with weights that torch wrote, and with those of safetensors in `dtype`.
fn twins(older_name: &str, family: &str, dtype: DType) -> [tempfile::TempDir; 2] {
    let twins = [without_weights(family), without_weights(family)];
    for file in fs::read_dir(older().join(older_name)).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), twins[0].path().join(file.file_name())).unwrap();
    }
    let weights = root().join(family).join("model.safetensors");
    let mut tensors = candle_core::safetensors::load(weights, &Device::Cpu).unwrap();
    for tensor in tensors.values_mut() {
        *tensor = tensor.to_dtype(dtype).unwrap();
    }
    candle_core::safetensors::save(&tensors, twins[1].path().join("model.safetensors")).unwrap();
    twins
}

const TWINS: [(&str, &str, DType); 3] = [
    ("llama", "llama", DType::F32),
    ("llama_views", "llama_linear", DType::BF16),
    ("llama_buffers", "llama_linear", DType::F16),
];

/// Catches: an offset within a storage or a file that is wrong; tied tensors that are not found;
/// buffers of other types that are in the way.
#[test]
fn weights_of_torch_have_the_bits_of_safetensors() {
    for (name, family, dtype) in TWINS {
        let twins = twins(name, family, dtype);
        for engine in Engine::ALL {
            let [torch, safe] = twins.each_ref().map(|folder| logits(folder.path(), engine));
            assert!(torch == safe, "{name}, {engine:?}");
        }
        let source = |folder: &tempfile::TempDir| Source::from(folder.path().to_str().unwrap());
        let info = |folder| load(source(folder), Role::Target).unwrap().model.info().clone();
        let [torch, safe] = twins.each_ref().map(info);
        assert_eq!((torch.parameters, &torch.dtype), (safe.parameters, &safe.dtype), "{name}");
        assert_ne!(torch.sha256, safe.sha256);
        #[cfg(feature = "harness")]
        {
            let [torch, safe] = twins.each_ref().map(|folder| summarise(&source(folder)).unwrap());
            let others = if name == "llama_buffers" { 52 } else { 0 };
            assert_eq!(torch.parameters, safe.parameters + others, "{name}");
            assert_eq!(torch.dtype, safe.dtype, "{name}");
        }
    }
}

#[test]
fn a_folder_with_both_formats_has_the_weights_of_safetensors() {
    let [_, safe] = twins("llama", "llama", DType::F32);
    let alone = logits(safe.path(), Engine::Native);
    fs::write(safe.path().join("pytorch_model.bin"), "no weights").unwrap();
    assert!(logits(safe.path(), Engine::Native) == alone);
}

/// Catches: a hash that leaves out the pickle, an index or the bytes of a tensor.
#[test]
fn every_byte_of_the_weights_is_hashed() {
    let [torch, safe] = twins("llama", "llama", DType::F32);
    let source = torch.path().to_str().unwrap();
    let hash = || load(source, Role::Target).unwrap().model.info().sha256.clone();
    let whole = hash();
    let shard = torch.path().join("pytorch_model-00002-of-00002.bin");
    let mut bytes = fs::read(&shard).unwrap();
    let tensors =
        candle_core::safetensors::load(safe.path().join("model.safetensors"), &Device::Cpu);
    let norm = tensors.unwrap()["model.norm.weight"].to_vec1::<f32>().unwrap();
    let norm = norm.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<_>>();
    let at = bytes.windows(norm.len()).position(|window| window == norm).unwrap();
    bytes[at] ^= 1;
    fs::write(&shard, bytes).unwrap();
    let changed = hash();
    assert_ne!(whole, changed);
    let index = torch.path().join("pytorch_model.bin.index.json");
    fs::write(&index, fs::read_to_string(&index).unwrap() + " ").unwrap();
    assert_ne!(changed, hash());
}

/// The one-line message with which a folder of `llama` with this file of weights is refused.
#[track_caller]
fn refusal(write: impl FnOnce(&Path)) -> String {
    let folder = without_weights("llama");
    write(&folder.path().join("pytorch_model.bin"));
    let sentence = load(folder.path().to_str().unwrap(), Role::Target).unwrap_err().to_string();
    assert!(!sentence.contains('\n') && sentence.len() < 1_000, "{sentence}");
    assert!(sentence.contains("pytorch_model.bin: "), "{sentence}");
    sentence
}

#[test]
fn files_of_torch_that_cannot_be_read_say_how_to_convert_them() {
    let convert =
        "torch.load(f, 'cpu', weights_only=True)) for f in glob.glob('pytorch_model*.bin')";
    let by_rows = "tensor model.embed_tokens.weight does not lie row by row";
    for (file, parts) in [
        ("transposed", [by_rows, convert]),
        ("repeated", [by_rows, convert]),
        ("before_1_6", ["written by a torch before 1.6", convert]),
        ("compressed", ["its entries are compressed", convert]),
        ("float8", ["its pickle refers to torch._utils._rebuild_tensor_v3", "nothing is run"]),
        ("module", ["its pickle refers to torch.nn.modules.linear.Linear", "nothing is run"]),
        ("list", ["its pickle has the instruction 0x5d", "which no dictionary of tensors needs"]),
    ] {
        let odd = older().join("odd").join(format!("{file}.bin"));
        let sentence = refusal(|to| assert!(fs::copy(odd, to).is_ok()));
        says(&sentence, &parts);
    }
}

#[track_caller]
fn refused(pickle: &[u8]) -> String {
    let storage = [0; 48 * 24 * 4];
    refusal(|to| fs::write(to, Archive::of(pickle).with("data/0", &storage).bytes()).unwrap())
}

#[test]
fn a_pickle_that_would_run_something_is_refused() {
    let call =
        |global: &str| [b"\x80\x02c", global.as_bytes(), &text("echo")[..], b"\x85R."].concat();
    for (global, shown) in [
        ("posix\nsystem\n", "posix.system"),
        ("os\nsystem\n", "os.system"),
        ("builtins\neval\n", "builtins.eval"),
        ("torch\nload\n", "torch.load"),
        ("torch.storage\n_load_from_bytes\n", "torch.storage._load_from_bytes"),
        ("collections\nOrderedDict.update\n", "collections.OrderedDict.update"),
        ("a\u{1b}[2J\nb\n", "a\\u{1b}[2J.b"),
    ] {
        let what =
            format!("its pickle refers to {shown}; nothing but tensors is read from pickles");
        says(&refused(&call(global)), &[&what]);
        // Also where its result would not be looked at.
        let inside = call(global);
        says(&refused(&dictionary("version", &inside[2..inside.len() - 1])), &[&what]);
    }
    let by_stack = [b"\x80\x04", &text("os")[..], &text("system"), b"\x93."].concat();
    says(&refused(&by_stack), &["the instruction 0x93"]);
    // What is allowed to be named is not allowed to be called otherwise than torch does.
    let otherwise = "makes a tensor otherwise than torch.save does";
    says(&refused(b"\x80\x02ctorch\nFloatStorage\n)R."), &[otherwise]);
    says(
        &refused(&[b"\x80\x02ccollections\nOrderedDict\n", &text("a")[..], b"\x85R."].concat()),
        &[otherwise],
    );
    says(&refused(b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n)R."), &[otherwise]);
}

/// Catches: recursion over values; time or memory that a short pickle multiplies.
#[test]
fn pickles_that_grow_or_nest_without_end_are_refused() {
    let nested = [b"\x80\x02)", &[b'\x85'; 1 << 19][..], b"."].concat();
    says(&refused(&nested), &["tuples within tuples within tuples"]);
    // A dictionary within itself, and one that holds nothing else.
    says(&refused(b"\x80\x02}q\0X\x01\0\0\0ah\0s."), &["tensor", FIRST, "is missing"]);
    let dictionaries = [b"\x80\x02}".repeat(1 << 18), b"s".repeat((1 << 17) - 1), b".".to_vec()];
    refused(&dictionaries.concat());
    let limit = "has more than 1048576 instructions";
    says(&refused(&[b"\x80\x02", &[b'N'; 2 << 20][..], b"."].concat()), &[limit]);
    let memo = (0..1u32 << 20).flat_map(|n| [&b"r"[..], &n.to_le_bytes()].concat());
    says(&refused(&[b"\x80\x02}".to_vec(), memo.collect(), b".".to_vec()].concat()), &[limit]);
    // A shape of half a million dimensions, used again and again.
    let tensor = Described::filling(SHAPE).pickle();
    let wide =
        [b"\x80\x02(", &[b'N'; 1 << 19][..], b"tq\0", &b"h\0\x85q\0".repeat(4), b"."].concat();
    says(&refused(&wide), &["tuples within tuples within tuples"]);
    let mut dimensions = Described::filling(SHAPE);
    (dimensions.shape, dimensions.strides) = (vec![1; 9], vec![1; 9]);
    let dimensions = dictionary(FIRST, &dimensions.pickle());
    says(&refused(&dimensions), &["makes a tensor otherwise than torch.save does"]);
    let many = (0..40_000).map(|n| [&text(&format!("t{n}"))[..], &tensor, b"s"].concat());
    says(
        &refused(&[b"\x80\x02}".to_vec(), many.flatten().collect(), b".".to_vec()].concat()),
        &[limit],
    );
    says(&refused(&vec![b'N'; 17 << 20]), &["its entry data.pkl is larger than 16 MiB"]);
}

#[test]
fn numbers_of_a_pickle_are_compared_with_the_file() {
    let good = Described::filling(SHAPE);
    let of = |change: &dyn Fn(&mut Described)| {
        let mut described = good.clone();
        change(&mut described);
        refused(&dictionary(FIRST, &described.pickle()))
    };
    let unlike = "describes tensor \"model.embed_tokens.weight\" otherwise than its 4608 bytes";
    says(&of(&|t| t.count += 1), &[unlike]);
    says(&of(&|t| t.count = i64::MAX), &[unlike]);
    says(&of(&|t| t.offset = 1), &[unlike]);
    says(&of(&|t| t.offset = i64::MAX), &[unlike]);
    says(&of(&|t| t.shape = vec![1 << 40, 1 << 40]), &[unlike]);
    says(&of(&|t| t.shape[0] += 1), &[unlike]);
    says(&of(&|t| t.storage = "DoubleStorage"), &[unlike]);
    says(&of(&|t| t.key = "1"), &["its entry \"model/data/1\" is missing"]);
    let otherwise = "makes a tensor otherwise than torch.save does";
    says(&of(&|t| t.offset = -1), &[otherwise]);
    says(&of(&|t| t.shape[0] = -1), &[otherwise]);
    says(&of(&|t| t.strides.truncate(1)), &[otherwise]);
    says(&of(&|t| t.count = -1), &[otherwise]);
    says(&of(&|t| t.storage = "QInt8Storage"), &["refers to torch.QInt8Storage"]);
    says(&of(&|t| t.shape.reverse()), &["has shape [24, 48], but config.json asks for [48, 24]"]);
}

#[test]
fn pickles_that_are_not_in_order_are_refused() {
    for (pickle, part) in [
        (&b"\x80\x02}"[..], "ends too early"),
        (b"\x80\x02X\xff\xff\xff\xffa.", "ends too early"),
        (b"\x80\x02ccollections", "ends too early"),
        (b"\x80\x02.", "uses a value that it has not made"),
        (b"\x80\x02h\0.", "uses a value that it has not made"),
        (b"\x80\x02}t.", "uses a value that it has not made"),
        (b"\x80\x02}(s.", "uses a value that it has not made"),
        (b"\x80\x02)X\x01\0\0\0a)s.", "puts something into what is no dictionary"),
        (b"\x80\x02X\x01\0\0\0\xff.", "a text that is not UTF-8"),
        (b"\x80\x02\x8a\xff.", "a number of more than 64 bits"),
        (b"\x80\x02).", "makes no dictionary of tensors"),
    ] {
        says(&refused(pickle), &["its pickle ", part]);
    }
    let negative = tuple(&[text("storage"), whole(-1)]);
    says(&refused(&[b"\x80\x02", &negative[..], b"Q."].concat()), &["makes a tensor otherwise"]);
}

#[test]
fn archives_that_are_not_in_order_are_refused() {
    let pickle = dictionary(FIRST, &Described::filling(SHAPE).pickle());
    let archive = Archive::of(&pickle).with("data/0", &[0; 48 * 24 * 4]);
    let refused = |bytes: &[u8]| refusal(|to| fs::write(to, bytes).unwrap());
    let incomplete = "not a complete file of torch.save";
    let whole = archive.bytes();
    for cut in [0, 10, 21, 22, 100, whole.len() - 60, whole.len() - 1] {
        says(&refused(&whole[..cut]), &[incomplete]);
    }
    says(&refused(&archive.clone().with("data/0", b"twice").bytes()), &[incomplete]);
    says(&refused(&Archive::default().with("x.pkl", &pickle).bytes()), &[incomplete]);
    let big = Archive::default().with("data.pkl", &pickle).with("byteorder", b"big");
    says(&refused(&big.bytes()), &["not little-endian", "torch.load"]);
    let mut moved = whole.clone();
    // The local header of the first entry.
    moved[2] = 0;
    says(&refused(&moved), &["its entry \"model/data.pkl\" is not complete"]);
}

/// Catches: numbers of 32 bits where a file has 64.
#[cfg(unix)]
#[test]
fn a_file_of_more_than_4_gib_can_be_read() {
    let [_, safe] = twins("llama", "llama", DType::F32);
    let usual = logits(safe.path(), Engine::Native);
    let tensors =
        candle_core::safetensors::load(safe.path().join("model.safetensors"), &Device::Cpu)
            .unwrap();
    let tensor = |(name, tensor): (&String, &Tensor)| {
        let numbers = tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        (name.clone(), tensor.dims().to_vec(), numbers)
    };
    let archive = Archive::of_tensors(&tensors.iter().map(tensor).collect::<Vec<_>>());
    let large = Archive { gap: 5 << 30, ..archive };
    let file = safe.path().join("pytorch_model.bin");
    large.write(&mut File::create(&file).unwrap());
    assert!(fs::metadata(&file).unwrap().len() > 5 << 30);
    fs::remove_file(safe.path().join("model.safetensors")).unwrap();
    assert!(logits(safe.path(), Engine::Native) == usual);
}

//! Files that llama.cpp's own converter wrote (`tests/gguf_written`) have the logits of
//! llama.cpp, and those that transformers computes for the checkpoint that was converted.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use specdec::checkpoint::load;
use specdec::engine::{Dtype, Engine, Settings, Source};
use specdec::model::{LanguageModel, Role};

use crate::checkpoint::settings_of;
use crate::families::{Text, expected, root};
use crate::model_llama::all_rows;

/// What is known of a file.
#[derive(Deserialize)]
struct Known {
    /// With the logits of llama.cpp.
    texts: Vec<Text>,
    /// The number of positions, from the first on, at which llama.cpp computes what the file
    /// says.
    positions: usize,
    /// The logits of transformers where the checkpoint is not that of `tests/families`.
    transformers: Option<Vec<Vec<f64>>>,
}

impl Known {
    fn read(file: &Path) -> Self {
        serde_json::from_str(&fs::read_to_string(file.with_extension("json")).unwrap()).unwrap()
    }

    /// The logits of transformers for the beginning of a text that `tests/families` has, or
    /// for all of it.
    fn by_transformers(&self, name: &str) -> Vec<Vec<f64>> {
        self.transformers.clone().unwrap_or_else(|| {
            let tokens = &self.texts[0].tokens;
            let mut texts = expected(&root().join(name)).texts.into_iter();
            let text = texts.find(|text| text.tokens.starts_with(tokens)).unwrap();
            text.logits[..tokens.len()].to_vec()
        })
    }
}

/// How far logits may be from llama.cpp's, as a share of the largest one.
///
/// llama.cpp computes in f32 like the engine, so that each is up to 1e-5 from exact numbers
/// (see `tolerance` in `families.rs`). It takes gelu from a table of f16, whose values are
/// rounded by 2⁻¹¹. It rounds the inputs of products with MXFP4 to eight bits.
fn from_llama_cpp(name: &str) -> f64 {
    match name {
        "gpt_oss_mxfp4" => 0.1,
        "gemma2" | "gemma3" => 1e-3,
        _ => 2e-5,
    }
}

/// How far they may be from those of transformers, which computes in f64; see `families.rs`.
fn from_transformers(name: &str, settings: &Settings) -> f64 {
    let is_stored = settings.engine.is_none() && settings.dtype.is_none();
    if is_stored && name == "gpt_oss_mxfp4" { 0.1 } else { 1e-5 }
}

/// The files, with their names.
fn files() -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gguf_written");
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.filter(|path| path.extension().is_some_and(|ending| ending == "gguf"));
    let name = |file: &Path| file.file_stem().unwrap().to_str().unwrap().to_owned();
    let mut files = files.map(|file| (file.clone(), name(&file))).collect::<Vec<_>>();
    files.sort();
    assert_eq!(files.len(), 17, "{files:?}");
    files
}

fn open(file: &Path, settings: Settings) -> Box<dyn LanguageModel> {
    let source = Source { settings, ..file.to_str().unwrap().into() };
    load(source, Role::Target).unwrap_or_else(|e| panic!("{}: {e}", file.display())).model
}

#[track_caller]
fn assert_near(rows: &[Vec<f32>], expected: &[Vec<f64>], tolerance: f64, what: &str) {
    let largest = expected.iter().flatten().fold(0.0, |most: f64, x| most.max(x.abs()));
    assert!(largest > 1.0, "{what}: {largest}");
    for (position, (row, expected)) in rows.iter().zip(expected).enumerate() {
        // Qwen2 has up to three rows of padding, which are no tokens.
        assert!((0..=3).contains(&(expected.len() - row.len())), "{what}");
        for (token, (own, expected)) in row.iter().zip(expected).enumerate() {
            let gap = (f64::from(*own) - expected).abs();
            let near = gap <= tolerance * largest;
            assert!(near, "{what}, {position}, {token}: {own} and {expected}: {gap}");
        }
    }
}

/// Catches: a key or tensor of the converter that is not read, or read as another one; rows of
/// queries and keys, or experts, in another order.
#[test]
fn the_converters_files_have_the_logits_of_llama_cpp() {
    for (file, name) in files() {
        let known = Known::read(&file);
        let [text] = &known.texts[..] else { panic!("{name}: one text") };
        let exact = known.by_transformers(&name);
        let plain = Settings { dtype: Some(Dtype::F32), ..Settings::default() };
        for settings in [plain, Settings::default(), settings_of(Engine::Candle)] {
            let what = format!("{name} {settings:?}");
            let tolerance = from_transformers(&name, &settings);
            let rows = all_rows(&*open(&file, settings), &text.tokens);
            assert_eq!((rows.len(), exact.len()), (text.logits.len(), text.logits.len()), "{what}");
            let same = known.positions;
            let (own, theirs) = (&rows[..same], &text.logits[..same]);
            assert_near(own, theirs, from_llama_cpp(&name), &format!("{what}, llama.cpp"));
            assert_near(&rows, &exact, tolerance, &format!("{what}, transformers"));
        }
    }
}

/// Catches: the number of positions that LongRoPE's short factors are for, lost between its key
/// in a file and the one of Phi-3.
#[test]
fn short_factors_serve_the_positions_that_the_file_says() {
    let (file, _) = files().into_iter().find(|(_, name)| name == "phi4_mini_longrope").unwrap();
    assert_eq!(open(&file, Settings::default()).info().context_length, 256);
}

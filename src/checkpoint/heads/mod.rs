//! Heads: checkpoints that draft from hidden states of a target. Each format is one file that turns
//! the keys of a `config.json` into the switches of a head, and one line of [`FORMATS`].

mod eagle1;
mod eagle3;
mod files;
mod tap_draft;
mod taps;

use std::path::Path;

use self::files::{HeadFiles, HeadFolder, HeadTensors};
use crate::core::error::Error;
use crate::engine::decoder::{HeadConfig, Tensors};
use crate::engine::native::{NativeHead, TargetTables};
use crate::engine::{Dtype, Source};
use crate::io::input::is_there;
use crate::model::{LanguageModel, ModelInfo, ModelInputs, Tap};

/// A format of heads.
struct Format {
    /// Its name.
    name: &'static str,
    /// Whether a checkpoint has this format.
    fits: fn(&HeadFiles<'_>) -> bool,
    /// From the keys of a configuration to the switches of a head, and the names of its tensors.
    shape: fn(&HeadFiles<'_>) -> Result<HeadShape, Error>,
}

/// All formats; the first one that fits counts.
const FORMATS: &[Format] = &[tap_draft::FORMAT, eagle3::FORMAT, eagle1::FORMAT];

/// What a format makes of a configuration.
struct HeadShape {
    config: HeadConfig,
    /// The names of tensors in the files, for those of [`HeadConfig`] or what these begin with. The
    /// first one counts.
    names: Vec<(&'static str, String)>,
}

/// Whether the folder at this path holds a head: it has a configuration and no tokenizer.
pub(crate) fn is_head(path: &str) -> bool {
    let folder = Path::new(path);
    is_there(&folder.join("config.json")) && !is_there(&folder.join("tokenizer.json"))
}

/// Loads the head of `source` for a target.
///
/// # Errors
/// If the target returns no hidden states, no format fits, or the head does not fit the target; the
/// sentence names file, key and value.
pub(crate) fn load(
    source: &Source,
    target: &dyn LanguageModel,
) -> Result<Box<dyn LanguageModel>, Error> {
    let tables = target.tables().and_then(|tables| tables.downcast::<TargetTables>().ok());
    let (Some(hidden), Some(tables)) = (target.info().hidden, tables) else {
        let name = &target.info().name;
        return Err(Error::setting(format!(
            "head {}: target {name} returns no hidden states; heads run with engine = native and \
             with a cache",
            source.path
        )));
    };
    let (folder, vocab) = (HeadFolder::open(Path::new(&source.path))?, target.info().vocab);
    let files = folder.files(vocab, hidden, &source.settings.head);
    let format = FORMATS.iter().find(|format| (format.fits)(&files));
    let format = format.ok_or_else(|| {
        let known = FORMATS.iter().map(|format| format.name).collect::<Vec<_>>().join(", ");
        files.keys.fault(format!("this is no head of a known format: {known}"))
    })?;
    let HeadShape { config, names } = (format.shape)(&files)?;
    files.check_shared(&config)?;
    let tensors = HeadTensors { folder: &folder, names };
    for (name, shape) in config.tensors(vocab) {
        tensors.check(&name, &shape)?;
    }
    let dtype = source.settings.dtype.unwrap_or(tensors.default_dtype());
    let info = info(source, (&config, format.name), (target.info(), dtype), &tensors);
    Ok(Box::new(NativeHead::load(info, config, dtype, &tensors, &tables)?))
}

/// What is known of a head; the hash is set once the weights have been read.
fn info(
    source: &Source,
    (config, format): (&HeadConfig, &str),
    (target, dtype): (&ModelInfo, Dtype),
    tensors: &dyn Tensors,
) -> ModelInfo {
    let count = |(_, shape): (String, Vec<usize>)| shape.iter().product::<usize>();
    ModelInfo {
        name: source.path.clone(),
        revision: source.revision.clone(),
        context_length: config.decoder.positions,
        dtype: dtype.name(),
        cache_dtype: source.settings.kv_cache_dtype.unwrap_or_default(),
        parameters: config.tensors(target.vocab).into_iter().map(count).sum(),
        projection_weights: config.decoder.matrix_weights(0),
        bytes_per_token: config.matrix_bytes(target.vocab, dtype, tensors),
        hidden: None,
        inputs: ModelInputs::Features(config.features.clone()),
        note: Some(note(config, format)),
        ..target.clone()
    }
}

/// What a user should know about a head.
fn note(config: &HeadConfig, format: &str) -> String {
    let taps = config.features.taps.iter().map(|tap| match tap {
        Tap::After(layers) => format!("after {layers} layers"),
        Tap::Normed => "after the last norm".to_owned(),
    });
    let taps = taps.collect::<Vec<_>>().join(", ");
    let shared = match (config.own_embedding, config.own_head) {
        (true, true) => String::new(),
        (false, true) => "; shares the target's embedding".to_owned(),
        (true, false) => "; shares the target's head".to_owned(),
        (false, false) => "; shares the target's embedding and head".to_owned(),
    };
    format!("{format} head: reads the target's states {taps}{shared}")
}

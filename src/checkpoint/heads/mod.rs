//! Heads: checkpoints that draft from hidden states of a target. Each format is one file that turns
//! the keys of a `config.json` into the switches of a head, and one line of [`FORMATS`].

mod block_keys;
mod dflash;
mod eagle1;
mod eagle3;
mod faults;
mod files;
#[cfg(feature = "harness")]
mod known;
mod medusa;
mod mtp;
mod p_eagle;
mod tap_draft;
mod taps;

use std::path::Path;

use self::files::{HeadFiles, HeadStore, HeadTensors};
#[cfg(feature = "harness")]
pub(crate) use self::known::{fits, summarise};
pub(super) use self::p_eagle::in_parallel;
use super::{gguf, layout};
use crate::core::error::Error;
use crate::engine::decoder::{Described, Drafting, HeadConfig, MedusaConfig};
use crate::engine::native::{
    NativeBlock, NativeFirstLayers, NativeHead, NativeMedusa, TargetTables,
};
use crate::engine::{Dtype, Engine, FirstRow, Settings, Source};
use crate::model::{
    CPU, ChainedHeads, Features, LanguageModel, ModelInfo, ModelInputs, ParallelModel, Tap,
};

/// A format of heads.
struct Format {
    /// Its name.
    name: &'static str,
    /// Whether a checkpoint has this format.
    fits: fn(&HeadFiles<'_>) -> bool,
    /// From the keys of a configuration to the switches of a head, and the names of its tensors. If
    /// there are several, each is for one position of a draft.
    shape: fn(&HeadFiles<'_>) -> Result<Vec<HeadShape>, Error>,
}

/// All formats; the first one that fits counts.
const FORMATS: &[Format] = &[
    tap_draft::FORMAT,
    dflash::FORMAT,
    p_eagle::FORMAT,
    eagle3::FORMAT,
    mtp::FORMAT,
    eagle1::FORMAT,
];

/// What a format makes of a configuration.
struct HeadShape {
    config: HeadConfig,
    /// The names of tensors in the files, for those of [`HeadConfig`] or what these begin with. The
    /// first one counts.
    names: Vec<(&'static str, String)>,
}

impl HeadShape {
    /// The names of tensors in the files, by those of [`HeadConfig`].
    fn names_in_files(&self) -> Vec<(String, String)> {
        self.names.iter().map(|(own, other)| ((*own).to_owned(), other.clone())).collect()
    }
}

/// What names of drafters in the target's own files begin with.
pub(crate) const OF_TARGET: &str = "target:";
/// The target's own layer that predicts one token more.
const MTP: &str = "mtp";
/// The target's own first layers; their number follows.
const EXIT: &str = "exit=";

/// Whether this names a head: in the target's own files, a GGUF file of one, or a folder with one.
pub(crate) fn is_head(path: &str) -> bool {
    let file = Path::new(path);
    path.starts_with(OF_TARGET)
        || layout::is_gguf(path) && gguf::is_head(file)
        || files::is_head(file)
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
    let Settings { engine, device, .. } = &source.settings;
    if engine.is_some_and(|engine| engine != Engine::Native)
        || device.as_deref().is_some_and(|device| device != CPU)
    {
        return Err(Error::setting(format!(
            "head {}: heads run with engine = native, on the CPU: leave out engine and device",
            source.path
        )));
    }
    let own = source.path.strip_prefix(OF_TARGET);
    if let Some(layers) = own.and_then(|own| own.strip_prefix(EXIT)) {
        return first_layers(source, layers, target.info(), *tables);
    }
    if own.is_some_and(|own| own != MTP) {
        let (name, most) = (&source.path, hidden.layers.saturating_sub(1));
        return Err(Error::setting(format!(
            "draft {name}: of the target itself, {OF_TARGET}{MTP} and {OF_TARGET}{EXIT}N can \
             draft, with N from 1 to {most}"
        )));
    }
    let path = if own.is_some() { &target.info().name } else { &source.path };
    let opened = files::open(path)?;
    let (target, weights) = (target.info(), &*opened);
    let loading = Loading { source, target, tables: &tables, files: weights };
    let settings = &source.settings.head;
    let (keys, vocabularies) = (weights.keys(), (target.vocab, tables.vocab_rows()));
    let files = HeadFiles { keys, weights, vocabularies, hidden, settings };
    if own.is_some() && !(mtp::FORMAT.fits)(&files) {
        return Err(files.keys.fault("the target's files have no MTP layer"));
    }
    match shape_of(&files)? {
        Shape::Medusa(config, names) => loading.medusa(config, names),
        Shape::Layers(format, shapes) => loading.heads(format, shapes),
    }
}

/// What a checkpoint is.
enum Shape {
    /// The heads of a format, with layers.
    Layers(&'static str, Vec<HeadShape>),
    /// Heads without layers, and the names of their tensors.
    Medusa(MedusaConfig, Vec<(String, String)>),
}

/// What a checkpoint is, by the format that fits.
fn shape_of(files: &HeadFiles<'_>) -> Result<Shape, Error> {
    if medusa::fits(files) {
        return medusa::shape(files).map(|(config, names)| Shape::Medusa(config, names));
    }
    let format = FORMATS.iter().find(|format| (format.fits)(files));
    let format = format.ok_or_else(|| {
        let known = FORMATS.iter().map(|format| format.name).chain([medusa::NAME]);
        let known = known.collect::<Vec<_>>().join(", ");
        files.keys.fault(format!("this is no head of a known format: {known}"))
    })?;
    let mut shapes = (format.shape)(files)?;
    for HeadShape { config, .. } in &mut shapes {
        files.check_shared(config)?;
        match files.settings.first_row {
            None => {}
            Some(FirstRow::Extra) => config.features.first_row = true,
            Some(FirstRow::ZeroEmbedding) => config.zero_first = true,
        }
    }
    if let Some(fault) = files.settings.fault {
        faults::spoil(fault, files.hidden.layers, &mut shapes)?;
    }
    Ok(Shape::Layers(format.name, shapes))
}

/// The first layers of a target.
fn first_layers(
    source: &Source,
    layers: &str,
    target: &ModelInfo,
    tables: TargetTables,
) -> Result<Box<dyn LanguageModel>, Error> {
    let all = target.hidden.map_or(0, |hidden| hidden.layers);
    let layers = layers.parse().ok().filter(|layers| (1..all).contains(layers));
    let layers: usize = layers.ok_or_else(|| {
        Error::setting(format!(
            "draft {}: the number of layers must be from 1 to {}",
            source.path,
            all.saturating_sub(1)
        ))
    })?;
    let info = ModelInfo {
        name: source.path.clone(),
        parameters: 0,
        bytes_per_token: tables.bytes_of_first(layers),
        experts: None,
        note: Some(format!("the target's first {layers} layers; shares its weights and cache")),
        ..target.clone()
    };
    Ok(Box::new(NativeFirstLayers::new(info, layers, tables)))
}

/// A head that is being loaded.
struct Loading<'a> {
    source: &'a Source,
    target: &'a ModelInfo,
    tables: &'a TargetTables,
    files: &'a dyn HeadStore,
}

impl Loading<'_> {
    fn dtype(&self) -> Dtype {
        self.source.settings.dtype.unwrap_or_else(|| self.files.default_dtype())
    }

    /// The tensors, which must be there.
    fn tensors(
        &self,
        names: Vec<(String, String)>,
        all: &[Described],
    ) -> Result<HeadTensors<'_>, Error> {
        let tensors = HeadTensors { files: self.files, names };
        tensors.check(all)?;
        Ok(tensors)
    }

    /// Heads with layers: one, or one for each position.
    fn heads(&self, format: &str, shapes: Vec<HeadShape>) -> Result<Box<dyn LanguageModel>, Error> {
        let mut heads = Vec::with_capacity(shapes.len());
        for shape in shapes {
            heads.push(self.head(format, shape)?);
        }
        match <[_; 1]>::try_from(heads) {
            Ok([one]) => Ok(one),
            Err(heads) => Ok(Box::new(ChainedHeads::new(heads)?)),
        }
    }

    fn head(&self, format: &str, shape: HeadShape) -> Result<Box<dyn LanguageModel>, Error> {
        let (vocab, dtype) = (self.target.vocab, self.dtype());
        let (names, config) = (shape.names_in_files(), shape.config);
        let all = config.tensors();
        let tensors = self.tensors(names, &all)?;
        let shares = (config.own_embedding, config.own_head);
        let info = ModelInfo {
            context_length: config.decoder.positions.saturating_sub(config.drafting.ahead()),
            projection_weights: config.decoder.matrix_weights(0),
            bytes_per_token: config.matrix_bytes(vocab, dtype, &tensors),
            experts: None,
            note: Some(note(&described(format, &config.drafting), &config.features, shares)),
            ..self.info(&all, config.features.clone())
        };
        let drafting = config.drafting.clone();
        if let Drafting::Block(_) = drafting {
            return Ok(Box::new(NativeBlock::load(info, config, dtype, &tensors, self.tables)?));
        }
        let head = Box::new(NativeHead::load(info, config, dtype, &tensors, self.tables)?);
        Ok(match drafting {
            Drafting::Masked { mask, rows } => Box::new(ParallelModel::new(head, mask, rows)),
            _ => head,
        })
    }

    /// Heads without layers.
    fn medusa(
        &self,
        config: MedusaConfig,
        names: Vec<(String, String)>,
    ) -> Result<Box<dyn LanguageModel>, Error> {
        let (vocab, dtype) = (self.target.vocab, self.dtype());
        let all = config.tensors(vocab);
        let tensors = self.tensors(names, &all)?;
        let mut features =
            Features { taps: vec![Tap::Normed], width: config.width, ..Features::default() };
        if let Some(fault) = self.source.settings.head.fault {
            let layers = self.target.hidden.map_or(0, |hidden| hidden.layers);
            faults::spoil_medusa(fault, layers, &mut features)?;
        }
        let info = ModelInfo {
            deepest: Some(config.heads),
            bytes_per_token: config.matrix_bytes(vocab, dtype, &tensors),
            experts: None,
            note: Some(note(medusa::NAME, &features, (true, config.own_heads))),
            ..self.info(&all, features)
        };
        Ok(Box::new(NativeMedusa::load(info, config, dtype, &tensors, self.tables)?))
    }

    /// What is known of a head with these tensors; the hash is set once the weights have been read.
    fn info(&self, tensors: &[Described], features: Features) -> ModelInfo {
        let count = |(_, shape): &Described| shape.iter().product::<usize>();
        ModelInfo {
            name: self.source.path.clone(),
            revision: self.source.revision.clone(),
            dtype: self.dtype().name(),
            cache_dtype: self.source.settings.kv_cache_dtype.unwrap_or_default(),
            parameters: tensors.iter().map(count).sum(),
            hidden: None,
            inputs: ModelInputs::Features(features),
            ..self.target.clone()
        }
    }
}

/// The format of a head, with what its drafts depend on.
fn described(format: &str, drafting: &Drafting) -> String {
    match drafting {
        Drafting::Stepwise => format.to_owned(),
        Drafting::Masked { rows, .. } => format!("{format}, {rows} rows in one pass,"),
        Drafting::Block(shape) => format!("{format}, block of {} rows,", shape.rows),
    }
}

/// What a user should know about a head; `own` says whether it has an embedding and a head of its
/// own.
fn note(format: &str, features: &Features, own: (bool, bool)) -> String {
    let taps = features.taps.iter().map(Tap::to_string).collect::<Vec<_>>().join(", ");
    let fault = features.fault.map(|fault| format!("; with the fault {}", fault.name()));
    let fault = fault.unwrap_or_default();
    let shared = match own {
        (true, true) => String::new(),
        (false, true) => "; shares the target's embedding".to_owned(),
        (true, false) => "; shares the target's head".to_owned(),
        (false, false) => "; shares the target's embedding and head".to_owned(),
    };
    format!("{format} head: reads the target's states {taps}{shared}{fault}")
}

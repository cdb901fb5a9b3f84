//! The decoder on candle.
//!
//! Unlike the decoders that come with candle, it returns the logits of every wanted
//! row, attends along the branches of a draft tree, and keeps keys and values by slot,
//! so that a rollback costs nothing and an accepted path is moved row by row.

mod cache;
mod layer;
mod mlp;
mod per_layer;
mod product;
mod shared;
mod threads;

use candle_core::{DType, Tensor};

use self::cache::CandleCache;
use self::layer::{CandleLayer, capped, norm};
use self::per_layer::PerLayer;
use self::product::Projection;
use self::shared::CandlePass;
pub(super) use self::threads::start_threads;
use self::threads::tell_candle;
use super::decoder::{Config, LayerTensors, Rotation, Tensors, masked};
use super::device::Device;
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::core::sampling::{ForEachRow, Logits};
use crate::core::tree::MAX_NODES;
use crate::engine::Dtype;
use crate::engine::pool::Pool;
use crate::model::{
    CacheDtype, Computed, Evaluation, Feed, LanguageModel, ModelInfo, Session, Step, Work,
};

/// Maximum number of rows computed at once: a longer prompt is processed in pieces, so
/// that the attention scores of a pass stay small.
const CHUNK: usize = 256;

/// Where weights lie, and in which type.
#[derive(Debug)]
struct Place {
    device: candle_core::Device,
    dtype: DType,
}

impl Place {
    fn open(device: Device, dtype: Dtype) -> Result<Self, Error> {
        let dtype = match dtype {
            Dtype::Bf16 => DType::BF16,
            Dtype::F16 => DType::F16,
            // Its caller has refused the others.
            Dtype::F32 | Dtype::Q8_0 | Dtype::Stored => DType::F32,
        };
        Ok(Self { device: open(device)?, dtype })
    }

    /// A matrix or table of this shape.
    fn matrix(&self, weights: Vec<f32>, shape: [usize; 2]) -> Result<Tensor, Error> {
        Ok(Tensor::from_vec(weights, &shape, &self.device)?.to_dtype(self.dtype)?)
    }
}

/// The weights of a model.
#[derive(Debug)]
pub(crate) struct CandleModel {
    info: ModelInfo,
    config: Config,
    device: candle_core::Device,
    embedding: Tensor,
    /// One row per position, of models that learn them.
    positions: Option<Tensor>,
    layers: Vec<CandleLayer>,
    norm: Tensor,
    /// From a hidden state to the logits of the real vocabulary.
    head: Projection,
    /// From tokens to the inputs of all layers.
    per_layer: Option<PerLayer>,
    rotations: Vec<Rotation>,
    /// Ids below `vocab` that the tokenizer does not use: their logits are −inf.
    unused: Vec<Token>,
}

impl CandleModel {
    /// Loads the weights from `tensors`, by their names in a checkpoint.
    pub(crate) fn load(
        info: ModelInfo,
        config: Config,
        unused: Vec<Token>,
        tensors: &dyn Tensors,
        (device, dtype): (Device, Dtype),
    ) -> Result<Self, Error> {
        // Before the device is opened: its libraries may read the environment.
        tell_candle();
        let place = Place::open(device, dtype)?;
        let table = |(name, shape): (String, Vec<usize>)| {
            place.matrix(tensors.get(&name, &shape)?, [shape[0], shape[1]])
        };
        let embedding = table(config.embedding())?;
        let layers = (0..config.layers.len())
            .map(|index| {
                CandleLayer::load(LayerTensors { config: &config, index, tensors }, &place)
            })
            .collect::<Result<Vec<_>, _>>()?;
        let head = if config.tied { embedding.clone() } else { table(config.head())? };
        let positions = config.positions().map(table).transpose()?;
        let norm = config.read_last_norm(tensors)?;
        let per_layer = PerLayer::load(&config, tensors, &place)?;
        let (width, device) = (norm.len(), place.device);
        Ok(Self {
            positions,
            head: Projection::new(&head.narrow(0, 0, info.vocab)?, None)?,
            norm: Tensor::from_vec(norm, width, &device)?,
            info: ModelInfo { sha256: tensors.sha256()?, device: named(&device, &info), ..info },
            per_layer,
            rotations: config.rotations(),
            device,
            embedding,
            layers,
            config,
            unused,
        })
    }

    fn run(&self, cache: &mut CandleCache, step: &Step) -> Result<Computed, Error> {
        let mut computed = Computed::default();
        for (feed, wanted) in step.pieces(CHUNK) {
            let wanted = wanted.into_iter().map(|row| row as u32).collect::<Vec<_>>();
            let pass = CandlePass::new(feed, &self.config, &self.rotations, &self.device)?;
            computed.logits.extend(self.pass(cache, feed, &wanted, &pass)?);
            computed.experts += pass.experts.get();
        }
        Ok(computed)
    }

    /// Computes the tokens of `feed` and returns the logits of the rows
    /// `wanted`, which ascend.
    fn pass(
        &self,
        cache: &mut CandleCache,
        feed: &[Feed],
        wanted: &[u32],
        pass: &CandlePass,
    ) -> Result<Vec<Logits>, Error> {
        cache.reserve(pass.slots)?;
        let tokens = feed.iter().map(|f| f.token).collect::<Vec<_>>();
        let tokens = Tensor::from_vec(tokens, feed.len(), &self.device)?;
        let mut x = self.embedding.index_select(&tokens, 0)?.to_dtype(DType::F32)?;
        if self.config.embedding_scale != 1.0 {
            x = (x * f64::from(self.config.embedding_scale))?;
        }
        if let Some(table) = &self.positions {
            let positions = feed.iter().map(|f| f.position as u32).collect::<Vec<_>>();
            let positions = Tensor::from_vec(positions, feed.len(), &self.device)?;
            x = (x + table.index_select(&positions, 0)?.to_dtype(DType::F32)?)?;
        }
        let inputs =
            self.per_layer.as_ref().map(|weights| weights.inputs(&self.config, &tokens, &x));
        let inputs = inputs.transpose()?;
        let last = self.config.last_stored(0..self.layers.len());
        for (number, layer) in self.layers.iter().enumerate() {
            let cache = cache.of_layer(number);
            if wanted.is_empty() && number == last {
                // Nothing behind the last keys and values that are stored is needed.
                layer.store(&self.config, &x, pass, cache)?;
                // A device computes while the caller continues; waiting for it charges this
                // pass, and not the next one, with the time.
                self.device.synchronize()?;
                return Ok(Vec::new());
            }
            x = layer.forward(&self.config, &x, pass, cache)?;
            if let (Some(inputs), Some(weights)) = (&inputs, &layer.input) {
                x = weights.add(&self.config, x, &inputs.get(number)?)?;
            }
            x = layer.scaled(x)?;
        }
        if wanted.len() < feed.len() {
            let rows = Tensor::new(wanted, &self.device)?;
            x = x.index_select(&rows, 0)?;
        }
        let mut logits = self.head.apply(&norm(&self.config, &x, &self.norm)?)?;
        if let Some(cap) = self.config.final_softcap {
            logits = capped(&logits, cap)?;
        }
        Ok(logits.to_vec2::<f32>()?.into_iter().map(|row| masked(row, &self.unused)).collect())
    }
}

fn open(device: Device) -> Result<candle_core::Device, Error> {
    let opened = match device {
        Device::Cpu => Ok(candle_core::Device::Cpu),
        Device::Cuda(n) => candle_core::Device::new_cuda(n),
        Device::Metal => candle_core::Device::new_metal(0),
    };
    opened.map_err(|e| Error::engine(format!("device = {device}: {e}")))
}

/// The device's name in results: that of the settings, and which card it is if that is known.
fn named(device: &candle_core::Device, info: &ModelInfo) -> String {
    #[cfg(feature = "cuda")]
    if let candle_core::Device::Cuda(card) = device
        && let Ok(card) = card.cuda_stream().context().name()
    {
        return format!("{}, {card}", info.device);
    }
    let _ = device;
    info.device.clone()
}

impl LanguageModel for CandleModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn session(&self) -> Result<Session, Error> {
        let positions = self.config.positions;
        let cache = CandleCache::new(&self.config, &self.device)?;
        Ok(Session::new(Box::new(cache), positions + MAX_NODES, positions))
    }

    fn evaluate(&self, work: &mut [Work<'_>]) -> Result<Vec<Evaluation>, Error> {
        Session::evaluate_each(work, |cache, step| self.run(cache, step))
    }

    fn threads(&self, _rows: usize) -> usize {
        rayon::current_num_threads()
    }

    fn cache_bytes_per_token(&self) -> usize {
        self.config.cache_bytes(CacheDtype::F32)
    }

    fn for_each_row(&self) -> ForEachRow {
        ForEachRow(Pool::for_each_row)
    }
}

impl From<candle_core::Error> for Error {
    fn from(error: candle_core::Error) -> Self {
        // The lines after the first are a backtrace.
        let text = error.to_string();
        Self::Engine(format!("candle: {}", text.lines().next().unwrap_or_default()))
    }
}

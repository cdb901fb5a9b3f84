//! Building a model from a checkpoint and settings, on one of the engines.

use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::core::lanes::IsaKind;
#[cfg(feature = "candle")]
use crate::engine::candle::CandleModel;
use crate::engine::decoder::{Config, Tensors};
use crate::engine::device::Device;
use crate::engine::native::Native;
use crate::engine::options::BLOCK;
use crate::engine::pool::Pool;
use crate::engine::threads::own_pool;
use crate::engine::{Dtype, Engine, Settings};
use crate::model::{CPU, CacheDtype, HiddenStates, LanguageModel, ModelInfo, ModelInputs};

/// A checkpoint without its weights.
#[derive(Debug)]
pub(super) struct Checkpoint {
    /// Name by which it was requested.
    pub name: String,
    /// See [`ModelInfo::revision`].
    pub revision: Option<String>,
    /// Its shape.
    pub config: Config,
    /// Number of real tokens.
    pub vocab: usize,
    /// Tokens that end a text.
    pub eos: Vec<Token>,
    /// Ids below `vocab` that the tokenizer does not use.
    pub unused: Vec<Token>,
    /// What a user should know about its tokens.
    pub notes: Vec<String>,
    /// See [`ModelInfo::tokenizer_sha256`].
    pub tokenizer_sha256: String,
}

impl Checkpoint {
    /// Builds the model with weights from `tensors`.
    pub(crate) fn build(
        self,
        settings: &Settings,
        tensors: &dyn Tensors,
    ) -> Result<Box<dyn LanguageModel>, Error> {
        let device = Device::named(settings.device.as_deref().unwrap_or(CPU))?;
        let engine = settings.engine.unwrap_or(match device {
            Device::Cpu => Engine::Native,
            _ => Engine::Candle,
        });
        let dtype = settings.dtype.unwrap_or_else(|| match engine {
            Engine::Native => tensors.default_dtype(),
            Engine::Candle => Dtype::F32,
        });
        let cache_dtype = settings.kv_cache_dtype.unwrap_or_default();
        let info = self.info(engine, (dtype, cache_dtype), &device.to_string(), tensors);
        match engine {
            Engine::Native => {
                if device != Device::Cpu {
                    return Err(
                        self.fault("engine = native runs on the CPU only: leave out device")
                    );
                }
                let isa = settings.isa.map_or_else(IsaKind::choose, Ok).map_err(Error::Setting)?;
                let Self { config, unused, .. } = self;
                let load = |pool| Native::load(info, config, unused, dtype, tensors, (isa, pool));
                Ok(Box::new(match settings.threads {
                    None => load(Pool::shared())?.with_fastest_teams(),
                    // A pool of its own has as many threads as every pass shall use.
                    Some(threads) => load(own_pool(threads, settings.restless)?)?,
                }))
            }
            Engine::Candle => {
                if matches!(dtype, Dtype::Q8_0 | Dtype::Stored) {
                    let why = "engine = candle holds weights as f32, bf16 or f16: set one as dtype";
                    return Err(self.fault(why));
                }
                if !cache_dtype.is_f32() {
                    let why =
                        "engine = candle keeps keys and values as f32: leave out kv_cache_dtype";
                    return Err(self.fault(why));
                }
                #[cfg(feature = "candle")]
                return Ok(Box::new(CandleModel::load(
                    info,
                    self.config,
                    self.unused,
                    tensors,
                    (device, dtype),
                )?));
                #[cfg(not(feature = "candle"))]
                Err(self.fault("engine = candle: build with --features candle for it"))
            }
        }
    }

    fn info(
        &self,
        engine: Engine,
        (dtype, cache_dtype): (Dtype, CacheDtype),
        device: &str,
        tensors: &dyn Tensors,
    ) -> ModelInfo {
        let Config { ref layers, hidden: width, .. } = self.config;
        let hidden = HiddenStates { layers: layers.len(), width };
        ModelInfo {
            name: self.name.clone(),
            revision: self.revision.clone(),
            vocab: self.vocab,
            context_length: self.config.positions,
            eos: self.eos.clone(),
            engine: engine.name(),
            dtype: dtype.name(),
            cache_dtype,
            device: device.to_owned(),
            // Set once the weights have been read.
            sha256: String::new(),
            tokenizer_sha256: self.tokenizer_sha256.clone(),
            parameters: self.config.parameters(),
            projection_weights: self.config.matrix_weights(0),
            bytes_per_token: self.config.matrix_bytes(self.vocab, dtype, tensors),
            experts: self.config.expert_bytes(dtype, tensors),
            deepest: None,
            at_once: false,
            row_invariant: engine == Engine::Native,
            hidden: (engine == Engine::Native).then_some(hidden),
            inputs: ModelInputs::Tokens,
            note: self.note(dtype, cache_dtype),
        }
    }

    fn note(&self, dtype: Dtype, cache_dtype: CacheDtype) -> Option<String> {
        let cache = format!("keys and values in {}", cache_dtype.name());
        let cache = (!cache_dtype.is_f32()).then_some(cache);
        let notes = [self.note_on_rows(dtype), cache, self.note_on_positions()];
        let notes = notes.into_iter().flatten().chain(self.notes.iter().cloned());
        let notes = notes.collect::<Vec<_>>();
        (!notes.is_empty()).then(|| notes.join("; "))
    }

    pub(crate) fn note_on_rows(&self, dtype: Dtype) -> Option<String> {
        let config = &self.config;
        let mut inputs = Vec::new();
        let products =
            config.all_products(1).map(|(layer, product)| config.size(layer, product)[1]);
        for width in products.filter(|&n| dtype.stored(n) != dtype) {
            if !inputs.contains(&width) {
                inputs.push(width);
            }
        }
        let lengths = inputs.iter().map(usize::to_string).collect::<Vec<_>>().join(" and ");
        let note = format!(
            "matrices whose rows have {lengths} weights, not a multiple of {BLOCK}, stay f32"
        );
        (!inputs.is_empty()).then_some(note)
    }

    fn note_on_positions(&self) -> Option<String> {
        let most = self.config.ropes.iter().filter_map(|rope| rope.positions).min()?;
        Some(format!("texts of at most {most} tokens: longer ones have other rotary frequencies"))
    }

    fn fault(&self, sentence: &str) -> Error {
        Error::setting(format!("model {}: {sentence}", self.name))
    }
}

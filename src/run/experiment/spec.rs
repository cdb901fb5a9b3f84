//! The contents of `experiment.toml`, checked.

use serde::Deserialize;

use super::arguments::ChatArguments;
use super::axes::Axes;
use super::thinking::THINKING;
use super::values::{ClockKind, LongPrompt};
use crate::engine::{Dtype, Engine, Settings};
use crate::method::controls::ControlRequest;
use crate::model::{CacheDtype, Role, Vocabulary};

/// An experiment whose keys and values have been checked.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Spec {
    /// The question that the experiment answers.
    #[serde(default)]
    pub question: String,
    /// Name or path of the target.
    pub target: String,
    /// Name or path of the draft model.
    pub draft: Option<String>,
    /// Which tokens the draft model proposes.
    #[serde(default)]
    pub vocabulary: Vocabulary,
    /// Names or paths of prompt sets.
    pub prompts: Vec<String>,
    /// What makes a prompt of a row; by default, the format of the row does.
    pub prompt_template: Option<String>,
    /// How many prompts are chosen in total; all by default.
    pub prompts_limit: Option<usize>,
    /// How many prompts are chosen from each category; all by default.
    pub prompts_per_category: Option<usize>,
    /// The length of all prompts in tokens; by default, each has its own.
    pub input_tokens: Option<usize>,
    /// How to handle prompts that do not fit the context.
    #[serde(default)]
    pub on_long_prompt: LongPrompt,
    /// New tokens per generation.
    pub max_tokens: usize,
    /// Generations per prompt and cell.
    pub repeats: u32,
    /// Seed of all draws.
    pub seed: u64,
    /// Warm-up generations per cell, whose costs predict its speedup.
    pub warmup: u32,
    /// Treat end-of-text tokens as ordinary tokens, so that all texts have the same
    /// length.
    #[serde(default)]
    pub ignore_eos: bool,
    /// Turn strings in prompts that name control tokens into these tokens.
    #[serde(default)]
    pub special_tokens: bool,
    /// Take prompts as messages of a user, and write them as the target's chat template does.
    #[serde(default)]
    pub chat: bool,
    /// The system message of conversations that have none of their own.
    pub system: Option<String>,
    /// The date that a chat template gets.
    pub chat_date: Option<String>,
    /// The strings before and after what the target thinks.
    #[serde(default = "usual")]
    pub thinking: [String; 2],
    /// The sets of arguments that the chat template gets, at least one.
    #[serde(skip)]
    pub chat_arguments: Vec<ChatArguments>,
    /// What completions may be.
    #[serde(default)]
    pub controls: ControlRequest,
    /// How many turns of a question are run; all by default.
    pub turns: Option<usize>,
    /// Write `positions.csv`.
    #[serde(default)]
    pub trace: bool,
    /// Worker threads; all cores by default.
    pub threads: Option<usize>,
    /// Which code computes the logits.
    pub engine: Option<Engine>,
    /// Where the models run: `cpu`, `cuda:N` or `metal`.
    pub device: Option<String>,
    /// How the models' weights are stored in memory.
    pub dtype: Option<Dtype>,
    /// The same for the draft model alone.
    pub draft_dtype: Option<Dtype>,
    /// Whether passes keep keys and values; otherwise each computes the whole text again.
    #[serde(default = "yes")]
    pub kv_cache: bool,
    /// How keys and values are stored.
    pub kv_cache_dtype: Option<CacheDtype>,
    /// `real` or `virtual`.
    #[serde(default)]
    pub clock: ClockKind,
    /// Whether some cells are run twice, to show how much results differ by chance alone.
    #[serde(default)]
    pub control: bool,
    /// The sweeps; each names at least a drafter.
    #[serde(skip)]
    pub sweep: Vec<Axes>,
    /// Conditions of cells to leave out; a cell must match all axes of a condition.
    #[serde(skip)]
    pub exclude: Vec<Axes>,
    /// Whether an override replaced an axis; a condition of `exclude` may then match no
    /// cell.
    #[serde(skip)]
    pub replaced: bool,
}

impl Spec {
    /// The settings with which a model is loaded, as far as the experiment gives them.
    pub fn settings(&self, role: Role) -> Settings {
        let (engine, dtype, device) = (self.engine, self.dtype, self.device.clone());
        let special_tokens = self.special_tokens;
        let without_cache = !self.kv_cache;
        let kv_cache_dtype = self.kv_cache_dtype;
        let settings = Settings { engine, dtype, kv_cache_dtype, device, ..Settings::default() };
        Settings { special_tokens, without_cache, ..settings }.of(role, self.draft_dtype)
    }
}

pub(super) fn usual() -> [String; 2] {
    THINKING.map(str::to_owned)
}

pub(super) fn yes() -> bool {
    true
}

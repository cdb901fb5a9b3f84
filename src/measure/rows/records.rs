//! The rows of every file a run writes. Field order is column order; each column is
//! documented once, in `docs/metrics.md`, which a test compares with these structs. Text
//! from outside is guarded so that no spreadsheet takes it for a formula.

use serde::{Deserialize, Serialize};

use crate::core::sampling::SamplingParams;
use crate::io::shown::cell;
use crate::method::beam::EarlyStopping;

/// The files that a run writes; everything else is derived from them.
pub const RAW_FILES: &[&str] = &[
    "rounds.csv",
    "positions.csv",
    "generations.csv",
    "generations.jsonl",
    "traces.jsonl",
    "failures.csv",
    "divergences.csv",
    "blocks.csv",
];

/// A row of `rounds.csv`: one round, including rounds of the baseline.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct RoundRow {
    pub cell: String,
    #[serde(with = "cell")]
    pub prompt: String,
    pub repeat: u32,
    pub round: u64,
    pub context_tokens: usize,
    pub proposed: usize,
    pub depth: usize,
    pub accepted: usize,
    pub emitted: usize,
    pub truncated: bool,
    pub reached: usize,
    pub overlap_sum: f64,
    pub forks: usize,
    pub ceiling_sum: Option<f64>,
    pub tv_sum: Option<f64>,
    pub residual_fallbacks: usize,
    pub draft_forwards: usize,
    pub draft_us: f64,
    pub target_us: f64,
    pub verify_us: f64,
    pub other_us: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_raw: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experts: Option<usize>,
}

impl RoundRow {
    /// Accepted tokens up to the end of the completion. Before format 3, `accepted` counts those
    /// behind it, too.
    pub fn kept(&self) -> usize {
        self.accepted.min(self.emitted)
    }

    /// Tokens that the verifier accepted, those behind the end included.
    pub fn raw(&self) -> usize {
        self.accepted_raw.unwrap_or(self.accepted)
    }
}

/// A row of `positions.csv`: one drafted token (only with `trace = true`).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct PositionRow {
    pub cell: String,
    #[serde(with = "cell")]
    pub prompt: String,
    pub repeat: u32,
    pub round: u64,
    pub node: usize,
    pub parent: Option<usize>,
    pub depth: usize,
    pub token: u32,
    pub p: f64,
    pub q: f64,
    pub overlap: f64,
    pub p_entropy: f64,
    pub q_entropy: f64,
    pub top2_gap: f64,
    pub accepted: bool,
}

/// A row of `generations.csv`: one finished generation.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct GenerationRow {
    pub cell: String,
    #[serde(with = "cell")]
    pub prompt: String,
    #[serde(with = "cell")]
    pub category: String,
    pub repeat: u32,
    pub seed: u64,
    pub prompt_tokens: usize,
    pub new_tokens: usize,
    pub stop_reason: String,
    pub target_forwards: usize,
    pub draft_forwards: usize,
    pub prefill_us: f64,
    pub decode_us: f64,
    pub tokens_per_second: f64,
    pub first_divergence: Option<usize>,
    pub text_sha256: String,
    pub superseded: bool,
}

/// A line of `generations.jsonl`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct TextRow {
    pub cell: String,
    pub prompt: String,
    pub repeat: u32,
    pub tokens: Vec<u32>,
    pub text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beam: Option<BeamRow>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<[usize; 2]>,
}

/// What `generations.jsonl` says of a text that a beam search found.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct BeamRow {
    pub log_prob: f64,
    pub score: f64,
    pub steps: usize,
    pub rows: usize,
}

/// A row of `divergences.csv`: text that should equal plain decoding's and does not.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct DivergenceRow {
    pub cell: String,
    #[serde(with = "cell")]
    pub prompt: String,
    pub repeat: u32,
    pub position: usize,
    pub plain_token: Option<u32>,
    pub token: Option<u32>,
    pub top2_gap: Option<f64>,
    pub bound: Option<f64>,
    pub tie: bool,
}

/// A row of `failures.csv`: a generation that failed. It is never timed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct FailureRow {
    pub cell: String,
    #[serde(with = "cell")]
    pub prompt: String,
    pub repeat: u32,
    #[serde(with = "cell")]
    pub reason: String,
    pub superseded: bool,
}

/// A row of `blocks.csv`: one block, written after all its other rows.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct BlockRow {
    pub block: usize,
    pub attempt: u32,
    pub session: usize,
    #[serde(with = "cell")]
    pub prompt: String,
    pub repeat: u32,
    pub waiting_share: f64,
    pub others_share: f64,
    pub stolen_share: f64,
    /// None in runs of older versions, whose rows keep their digests only without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled_share: Option<f64>,
    /// As `throttled_share`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_share: Option<f64>,
    pub disturbed: bool,
    pub rounds: usize,
    pub positions: usize,
    pub texts: usize,
    pub failures: usize,
    pub divergences: usize,
    pub generations: usize,
    pub digests: String,
    pub seal: String,
    pub superseded: bool,
}

/// A row of `survival.csv`: how far drafts survive, by position.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct SurvivalRow {
    pub cell: String,
    pub position: usize,
    pub reached: usize,
    pub survived: usize,
    pub conditional: f64,
    pub survival: f64,
    pub lo: f64,
    pub hi: f64,
}

/// A row of `summary.csv`: one cell. Empty fields do not apply (a baseline has
/// no acceptance) or could not be computed (a failed cell has no times).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct SummaryRow {
    pub cell: String,
    #[serde(with = "cell")]
    pub target: String,
    #[serde(with = "cell")]
    pub draft: String,
    pub drafter: String,
    pub verifier: String,
    pub length: String,
    pub num_speculative_tokens: Option<usize>,
    #[serde(flatten)]
    pub sampling: SamplingParams,
    pub strategy: String,
    pub num_beams: Option<usize>,
    pub length_penalty: Option<f64>,
    pub early_stopping: Option<EarlyStopping>,
    pub num_beam_groups: Option<usize>,
    pub diversity_penalty: Option<f64>,
    pub batch: usize,
    #[serde(with = "cell")]
    pub params: String,
    pub control: bool,
    pub engine: String,
    pub dtype: String,
    pub draft_dtype: String,
    pub threads: usize,
    pub max_tokens: usize,
    pub seed: u64,
    pub class: String,
    pub status: String,
    #[serde(with = "cell")]
    pub reason: String,
    pub generations: usize,
    pub tokens: usize,
    pub behind_end_share: Option<f64>,
    pub loop_share: Option<f64>,
    pub passes_per_token: Option<f64>,
    pub passes_per_row: Option<f64>,
    pub passes_per_row_lo: Option<f64>,
    pub passes_per_row_hi: Option<f64>,
    pub log_prob: Option<f64>,
    pub score: Option<f64>,
    pub rounds: usize,
    pub acceptance_rate: Option<f64>,
    pub alpha: Option<f64>,
    pub alpha_lo: Option<f64>,
    pub alpha_hi: Option<f64>,
    pub ceiling: Option<f64>,
    pub share_of_ceiling: Option<f64>,
    pub block_efficiency: Option<f64>,
    pub block_efficiency_lo: Option<f64>,
    pub block_efficiency_hi: Option<f64>,
    pub tv: Option<f64>,
    pub tv_lo: Option<f64>,
    pub tv_hi: Option<f64>,
    pub cost_ratio: Option<f64>,
    pub verify_cost_ratio: Option<f64>,
    pub tokens_per_second: Option<f64>,
    pub texts_at_once: Option<f64>,
    pub ms_per_token: Option<f64>,
    pub baseline_tokens_per_second: Option<f64>,
    pub baseline_forwards_per_token: Option<f64>,
    pub baseline_loop_share: Option<f64>,
    pub speedup: Option<f64>,
    pub speedup_lo: Option<f64>,
    pub speedup_hi: Option<f64>,
    pub loop_free_speedup: Option<f64>,
    pub loop_free_speedup_lo: Option<f64>,
    pub loop_free_speedup_hi: Option<f64>,
    pub predicted_speedup: Option<f64>,
    pub calibrated_speedup: Option<f64>,
}

/// A row of `machines.csv`: the speedup of a cell on one of several machines.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct MachineRow {
    pub cell: String,
    #[serde(with = "cell")]
    pub machine: String,
    pub prompts: usize,
    pub baseline_tokens_per_second: f64,
    pub tokens_per_second: f64,
    pub speedup: f64,
    pub speedup_lo: Option<f64>,
    pub speedup_hi: Option<f64>,
}

/// A row of `thinking.csv`: the rounds of a cell inside or outside of thinking.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct ThinkingRow {
    pub cell: String,
    pub thinking: bool,
    pub rounds: usize,
    pub proposed: usize,
    pub accepted: usize,
    pub acceptance_rate: Option<f64>,
    pub block_efficiency: Option<f64>,
    pub block_efficiency_lo: Option<f64>,
    pub block_efficiency_hi: Option<f64>,
}

/// A row of `between_machines.csv`: the speedups of a cell on all machines.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct BetweenRow {
    pub cell: String,
    pub machines: usize,
    pub median: f64,
    pub lowest: f64,
    pub highest: f64,
    pub expected: Option<f64>,
    pub expected_lo: Option<f64>,
    pub expected_hi: Option<f64>,
    pub spread: Option<f64>,
}

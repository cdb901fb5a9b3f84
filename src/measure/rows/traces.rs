//! The rows of `traces.jsonl`: what the report's token microscope shows of a generation.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Tokens with their probabilities, by descending probability.
pub(crate) type TopTokens = Vec<(u32, f64)>;

/// A line of `traces.jsonl`: the rounds of one generation, with distributions.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct TraceRow {
    pub cell: String,
    pub prompt: String,
    pub repeat: u32,
    pub strings: BTreeMap<u32, String>,
    pub rounds: Vec<TraceRound>,
}

/// What was decided in a round.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TraceRound {
    /// The drafted tokens, in the order of proposal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<TraceNode>,
    /// The most probable tokens of the target's distribution after the accepted ones.
    pub last: TopTokens,
}

/// A drafted token.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TraceNode {
    /// The token.
    pub token: u32,
    /// The node before it; `None` for a token that follows the context.
    pub parent: Option<usize>,
    /// Position in the draft, from 1.
    pub depth: usize,
    /// Its probability under the target's distribution.
    pub p: f64,
    /// Its probability under the distribution that it was drawn from.
    pub q: f64,
    /// Σ min(p, q) at this position.
    pub overlap: f64,
    /// The probability with which rejection sampling accepts it once it has rejected its
    /// earlier siblings.
    pub acceptance: f64,
    /// The uniform number in [0, 1) of the decision: it was accepted if this is below `acceptance`.
    /// Only for reached tokens under rejection sampling, whose decisions are of this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uniform: Option<f64>,
    /// Whether the verifier decided on it.
    pub reached: bool,
    /// Whether the verifier kept it.
    pub accepted: bool,
    /// The most probable tokens of the target's distribution, if the token was reached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub target: TopTokens,
    /// Those of the distribution that it was drawn from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub draft: TopTokens,
    /// Those of what rejection sampling draws from once it has rejected this one, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub residual: TopTokens,
}

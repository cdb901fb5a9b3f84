//! What passes of a server cost, from what its clients see.
//!
//! A client sees rounds: when they arrive, how many tokens they bring, and how many requests
//! shared them. [`ServedFit`] separates what these times consist of, as far as they differ.

mod fit;
mod read;

use serde::{Deserialize, Serialize};

pub use self::fit::{FittedMs, ServedFit};
pub use self::read::read_served;
use crate::measure::statistics::median;

/// Repetitions further than this share from the median of their setting are left out.
const DISTURBED: f64 = 0.1;

/// A repetition of a setting: a row of the file that `specdec bench --url --csv` writes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServedSample {
    /// The server, or the file that was read.
    pub server: String,
    /// K: the most tokens that a round drafts for a sequence; 0 is plain decoding.
    pub k: usize,
    /// Requests that decode at the same time.
    pub batch: usize,
    /// Tokens of a prompt, as requested.
    pub prompt: usize,
    /// Tokens that a round drafts for a sequence, as a mean.
    pub drafted: f64,
    /// Tokens before a pass, as a mean over requests and rounds.
    pub context: f64,
    /// Time of a round, in ms.
    pub round_ms: f64,
    /// Tokens per second of all requests together.
    pub tokens_per_s: f64,
    /// Time from a request to its first token, in ms, as a mean over requests.
    pub first_ms: f64,
}

/// The repetitions of a setting, at least one.
#[derive(Debug, Clone, PartialEq)]
pub struct ServedPoint {
    /// Those near their median; all if these are less than half.
    pub kept: Vec<ServedSample>,
    /// Number of those that are not near it.
    pub disturbed: usize,
}

impl ServedPoint {
    /// Groups samples by server, K, batch and prompt, in the order in which settings occur.
    pub fn all(samples: &[ServedSample]) -> Vec<Self> {
        let setting = |one: &ServedSample| (one.server.clone(), one.k, one.batch, one.prompt);
        let mut settings = Vec::new();
        for sample in samples {
            if !settings.contains(&setting(sample)) {
                settings.push(setting(sample));
            }
        }
        let of = |wanted| samples.iter().filter(|one| setting(one) == wanted).cloned().collect();
        settings.into_iter().map(|wanted| Self::of(of(wanted))).collect()
    }

    fn of(samples: Vec<ServedSample>) -> Self {
        let times = samples.iter().map(|one| one.round_ms).collect::<Vec<_>>();
        let middle = median(&times).unwrap_or_default();
        let is_near = |one: &&ServedSample| (one.round_ms / middle - 1.0).abs() <= DISTURBED;
        let near = samples.iter().filter(is_near).cloned().collect::<Vec<_>>();
        let disturbed = samples.len() - near.len();
        Self { kept: if near.len() < disturbed { samples } else { near }, disturbed }
    }

    /// What the repetitions have in common.
    pub fn setting(&self) -> &ServedSample {
        &self.kept[0]
    }

    /// Whether three of four repetitions agree, at least.
    pub fn is_steady(&self) -> bool {
        self.kept.len() >= 3 * self.disturbed
    }

    /// The mean of a number over the repetitions.
    pub fn mean(&self, of: impl Fn(&ServedSample) -> f64) -> f64 {
        self.kept.iter().map(of).sum::<f64>() / self.kept.len() as f64
    }

    /// The variance of the time of a round between repetitions, relative to its square, with its
    /// degrees of freedom.
    fn noise(&self) -> (f64, usize) {
        let mean = self.mean(|one| one.round_ms);
        let squares = self.kept.iter().map(|one| (one.round_ms / mean - 1.0).powi(2));
        (squares.sum(), self.kept.len() - 1)
    }
}

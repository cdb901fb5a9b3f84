//! The generations over which statistics are computed.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::acceptance::Acceptance;
use super::ratio;
use super::rounds::{CountedRound, Rounds};
use super::time_sums::TimeSums;
use crate::measure::rows::BeamRow;

/// One finished generation that counts: the fields of its row that statistics need, and its rounds.
/// The columns of `generations.csv` have the same names.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub struct Sample {
    pub prompt: Arc<str>,
    /// The first prompt with the same tokens.
    pub original: Arc<str>,
    pub category: Arc<str>,
    /// The first prompt of its cluster: equal prompts, and those of a batch, which share their
    /// times.
    pub timed_with: Arc<str>,
    pub repeat: u32,
    pub new_tokens: usize,
    /// How many of them lie behind the first one that ends a text.
    pub behind_end: usize,
    /// How many of them lie in repetition loops.
    pub looped: usize,
    /// Which of them the target thinks with: from, and to before.
    pub thinking: Option<[usize; 2]>,
    pub target_forwards: usize,
    pub draft_forwards: usize,
    pub prefill_us: f64,
    pub decode_us: f64,
    pub elapsed_us: f64,
    pub first_divergence: Option<usize>,
    /// The first bytes of the hash of its completion.
    pub text: u64,
    /// The score of its completion, if it comes from a beam search.
    pub beam: Option<Box<BeamRow>>,
    /// Its rounds; a beam search has none.
    pub rounds: Box<Rounds>,
    /// Whether its times count: they are undisturbed, and come from the same build,
    /// processor and number of threads as all others that count.
    pub timed: bool,
}

/// The samples of one cell by prompt, in the order of the prompts' names, independent of the order
/// of execution. Equal prompts are one.
pub fn by_prompt<'a>(
    samples: impl IntoIterator<Item = &'a Sample>,
) -> BTreeMap<&'a str, Vec<&'a Sample>> {
    let mut prompts = BTreeMap::<&str, Vec<&Sample>>::new();
    for sample in samples {
        prompts.entry(&*sample.original).or_default().push(sample);
    }
    prompts
}

/// The samples whose times count.
pub fn timed(samples: &[Sample]) -> impl Iterator<Item = &Sample> {
    samples.iter().filter(|sample| sample.timed)
}

/// All rounds of some samples.
pub fn rounds<'a>(
    samples: impl IntoIterator<Item = &'a Sample>,
) -> impl Iterator<Item = CountedRound> {
    samples.into_iter().flat_map(|sample| sample.rounds.iter())
}

/// The sums over all rounds of some samples.
pub fn acceptance<'a>(samples: impl IntoIterator<Item = &'a Sample>) -> Acceptance {
    let mut sums = Acceptance::default();
    for sample in samples {
        sums += sample.rounds.acceptance;
    }
    sums
}

/// The times of all rounds of some samples.
pub fn times<'a>(samples: impl IntoIterator<Item = &'a Sample>) -> TimeSums {
    let mut sums = TimeSums::default();
    for sample in samples {
        sums += sample.rounds.times;
    }
    sums
}

/// Whether any draft was a tree instead of a chain.
pub fn branches(samples: &[Sample]) -> bool {
    samples.iter().any(|sample| sample.rounds.acceptance.trees > 0)
}

/// Target passes per new token over all samples; plain decoding must be at
/// exactly 1, or the baseline is handicapped. `None` without tokens.
pub fn forwards_per_token(samples: &[Sample]) -> Option<f64> {
    let forwards = samples.iter().map(|s| s.target_forwards).sum::<usize>();
    ratio(forwards as f64, samples.iter().map(|s| s.new_tokens).sum::<usize>() as f64)
}

/// The share of tokens that lie behind the first one that ends a text. `None` without tokens.
pub fn behind_end_share<'a>(samples: impl IntoIterator<Item = &'a Sample>) -> Option<f64> {
    share_of_tokens(samples, |sample| sample.behind_end)
}

/// The share of tokens that are counted by `part`. `None` without tokens.
pub(super) fn share_of_tokens<'a>(
    samples: impl IntoIterator<Item = &'a Sample>,
    part: fn(&Sample) -> usize,
) -> Option<f64> {
    let (mut counted, mut tokens) = (0, 0);
    for sample in samples {
        counted += part(sample);
        tokens += sample.new_tokens;
    }
    ratio(counted as f64, tokens as f64)
}

/// New tokens per second of decoding, without prefill. `None` without time.
pub fn tokens_per_second<'a>(samples: impl IntoIterator<Item = &'a Sample>) -> Option<f64> {
    let (mut tokens, mut us) = (0.0, 0.0);
    for sample in samples.into_iter().filter(|sample| sample.timed) {
        tokens += sample.new_tokens as f64;
        us += sample.decode_us;
    }
    ratio(tokens * 1e6, us)
}

/// The mean number of unfinished generations of a batch, weighted by time; 1 without batches.
/// `None` without time.
pub fn texts_at_once(samples: &[Sample]) -> Option<f64> {
    let elapsed = timed(samples).map(|sample| sample.elapsed_us).sum::<f64>();
    ratio(elapsed, timed(samples).map(|sample| sample.decode_us).sum())
}

/// Milliseconds per new token as seen by the client of one request, from its first round to its
/// end. `None` without tokens.
pub fn ms_per_token(samples: &[Sample]) -> Option<f64> {
    let elapsed = timed(samples).map(|sample| sample.elapsed_us).sum::<f64>();
    let tokens = timed(samples).map(|sample| sample.new_tokens).sum::<usize>();
    ratio(elapsed / 1000.0, tokens as f64)
}

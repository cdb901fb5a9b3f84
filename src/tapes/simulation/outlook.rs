//! The expected rounds of some completions, for every K.

use super::sequence::SimulatedSequence;
use crate::tapes::forecasting::{CostTable, DraftedRound, MAX_K};
use crate::tapes::tape::DraftPasses;

/// The expected rounds of some completions, by K.
#[derive(Debug, Clone, PartialEq)]
pub struct Outlook {
    tokens: f64,
    /// The mean context over all tokens.
    context: usize,
    /// For K from 0: the expected rounds by what they draft.
    rounds: Vec<Vec<(DraftedRound, f64)>>,
}

impl Outlook {
    /// The outlook of some sequences, whose drafts take these passes.
    pub fn of(sequences: &[SimulatedSequence<'_>], passes: DraftPasses) -> Self {
        let tokens = sequences.iter().map(|sequence| sequence.tokens as f64).sum::<f64>();
        let context = sequences.iter().map(|sequence| {
            let tokens = sequence.tokens as f64;
            (sequence.prompt as f64 + tokens / 2.0) * tokens
        });
        Self {
            tokens,
            context: (context.sum::<f64>() / tokens) as usize,
            rounds: (0..=MAX_K).map(|k| rounds(sequences, k, passes)).collect(),
        }
    }

    /// The fastest K from 0 to `most` if `batch` requests share all steps, and its time per token
    /// in ms.
    pub fn best(&self, table: &CostTable, most: usize, batch: usize) -> (usize, f64) {
        let place = (self.context, batch);
        let ms = |rounds: &Vec<(DraftedRound, f64)>| {
            let each = rounds.iter().map(|(round, count)| count * table.round(*round, place));
            each.sum::<f64>() / self.tokens
        };
        let all = self.rounds.iter().take(most + 1).map(ms).enumerate();
        all.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((0, f64::INFINITY))
    }
}

fn rounds(
    sequences: &[SimulatedSequence<'_>],
    k: usize,
    passes: DraftPasses,
) -> Vec<(DraftedRound, f64)> {
    let mut sums = vec![0.0; k + 1];
    for sequence in sequences {
        for (sum, count) in sums.iter_mut().zip(sequence.outlook(k)) {
            *sum += count;
        }
    }
    let round = |tokens| DraftedRound { tokens, passes: passes.of(tokens) };
    let known = sums.into_iter().enumerate().filter(|(_, count)| *count > 0.0);
    known.map(|(tokens, count)| (round(tokens), count)).collect()
}

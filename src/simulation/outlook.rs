//! What some texts are expected to take, for every K.

use super::text::SimulatedText;
use crate::forecasting::{CostTable, DraftedRound, MOST_K};

/// The rounds of some texts, by K.
#[derive(Debug, Clone, PartialEq)]
pub struct Outlook {
    tokens: f64,
    /// The mean over tokens of the context before them.
    context: usize,
    /// For K from 0: the expected rounds by what they draft.
    rounds: Vec<Vec<(DraftedRound, f64)>>,
}

impl Outlook {
    /// That of some texts; a model drafts, or none.
    pub fn of(texts: &[SimulatedText<'_>], with_model: bool) -> Self {
        let tokens = texts.iter().map(|text| text.tokens as f64).sum::<f64>();
        let context = texts.iter().map(|text| {
            let tokens = text.tokens as f64;
            (text.prompt as f64 + tokens / 2.0) * tokens
        });
        Self {
            tokens,
            context: (context.sum::<f64>() / tokens) as usize,
            rounds: (0..=MOST_K).map(|k| rounds(texts, k, with_model)).collect(),
        }
    }

    /// The K from 0 to `most` that is fastest if `batch` requests share all steps, and its time
    /// per token in ms.
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

fn rounds(texts: &[SimulatedText<'_>], k: usize, with_model: bool) -> Vec<(DraftedRound, f64)> {
    let mut sums = vec![0.0; k + 1];
    for text in texts {
        sums.iter_mut().zip(text.outlook(k)).for_each(|(sum, count)| *sum += count);
    }
    let round = |tokens| DraftedRound { tokens, passes: if with_model { tokens } else { 0 } };
    let known = sums.into_iter().enumerate().filter(|(_, count)| *count > 0.0);
    known.map(|(tokens, count)| (round(tokens), count)).collect()
}

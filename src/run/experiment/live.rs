//! The live line of a run.

use super::cell::{Cell, describe};
use super::generation::FinishedGeneration;

/// The totals of a cell that the live line shows.
#[derive(Debug, Default)]
pub(super) struct Live {
    proposed: usize,
    accepted: usize,
    tokens: usize,
    micros: f64,
}

impl Live {
    pub(super) fn add(&mut self, done: &FinishedGeneration) {
        self.proposed += done.rounds.iter().map(|r| r.proposed).sum::<usize>();
        self.accepted += done.rounds.iter().map(|r| r.kept()).sum::<usize>();
        self.tokens += done.row.new_tokens;
        self.micros += done.row.decode_us;
    }

    pub(super) fn line(&self, cell: &Cell) -> String {
        let rate = self.tokens as f64 / (self.micros / 1e6).max(f64::MIN_POSITIVE);
        let acceptance = if self.proposed == 0 {
            String::new()
        } else {
            format!("acceptance {:.2}, ", self.accepted as f64 / self.proposed as f64)
        };
        // The name comes last, because a narrow terminal cuts off the end.
        format!("{acceptance}{rate:.0} tokens/s, {}", describe(cell))
    }
}

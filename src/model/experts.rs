//! What a pass reads of a model whose feed-forward blocks are sparse.

use serde::{Deserialize, Serialize};

/// The experts of a model whose feed-forward blocks are sparse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpertBytes {
    /// Number of sparse layers.
    pub layers: usize,
    /// Number of experts of each.
    pub count: usize,
    /// Number of experts that a token uses in each.
    pub used: usize,
    /// Bytes of the weights of an expert.
    pub bytes: usize,
}

impl ExpertBytes {
    /// The distinct experts that a pass of `rows` rows would need, summed over the sparse layers, if
    /// every row chose its experts at random: each is missed by a row with probability
    /// 1 − used / count.
    pub fn if_random(&self, rows: usize) -> f64 {
        let missed = (1.0 - self.used as f64 / self.count as f64).powf(rows as f64);
        (self.layers * self.count) as f64 * (1.0 - missed)
    }
}

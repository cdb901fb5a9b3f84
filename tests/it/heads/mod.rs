//! Heads: predictors that read hidden states of the target.

mod history;
mod toys;

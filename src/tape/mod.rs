//! Forecasts from recorded texts: what any drafter, K and rule would accept, without running
//! them.
//!
//! Given a text that was drawn from the target, how far a draft survives is a function of the
//! text alone: of r = q/p at its tokens, both laws after all processors. Let a round begin at
//! token t. Token by token, a draft survives at least i tokens with probability
//! Π min(1, r_{t+j}) over j < i: rejection sampling emits x after exactly a accepted tokens with
//! probability Π_{i<a} min(p, q)(x_i) · (p − q)⁺(x_a), and the text with Π p(x_i). Block
//! verification accepts at least i tokens of a path with probability min(1, p_{i−1}·p/q), which
//! makes it min(R_{i−1}, Π r_{t+j}).
//!
//! [`forecast`] sums over all ways in which rounds can follow each other, so that its numbers
//! have no sampling noise beside that of the texts. `tests/it/tape_exact.rs` compares them with
//! the enumeration of the production code.

mod forecast;
mod law;
mod score;

pub use forecast::{Forecast, TapeEnd, TapeLength, forecast};
pub use law::ChainLaw;
pub use score::log_probs;

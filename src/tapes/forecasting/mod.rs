//! Forecasts of speculative decoding from a tape ([`crate::tapes::tape`]): what every drafter, rule and K
//! would accept and, with the costs of passes, how fast that would be.

mod against;
mod best;
mod cells;
mod contrasts;
mod doubts;
mod fitted;
mod greedy;
mod read_costs;
mod rows;
mod timing;
mod tuning;

pub use against::{ForecastGap, gaps};
pub use best::{best, verdict};
pub use cells::{DecodingConfig, ForecastCell, PromptForecast, TreeShape, forecast_cells};
pub use contrasts::{ForecastContrast, forecast_contrasts};
pub use doubts::{ForecastDoubt, doubts};
pub use fitted::write_costs;
pub use greedy::{Bounded, GreedyChain, GreedyForecast, GreedyLevel, greedy_forecasts};
pub use read_costs::CostTable;
pub use rows::ForecastRow;
pub use timing::{CostSetting, Costed, DraftedRound, SpentTime};
pub use tuning::{NearerDraft, TunedDraft, nearer_drafts, tuned_drafts};

/// The largest K that is forecast.
pub const MAX_K: usize = 16;

/// The K that are shown without costs, and over which contrasts are pooled.
pub const SHOWN_KS: [usize; 4] = [1, 2, 4, 8];

//! The rows of `forecast.csv`.

use serde::{Deserialize, Serialize};

use super::cells::{ForecastCell, PromptForecast, TreeShape};
use super::timing::CostSetting;
use crate::core::sampling::SamplingParams;
use crate::io::shown::cell;
use crate::measure::statistics::Ratio;
use crate::tapes::tape::Tape;

/// A row of `forecast.csv`: a decoding configuration. `docs/tape.md` describes the columns.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct ForecastRow {
    #[serde(flatten)]
    pub sampling: SamplingParams,
    pub drafter: String,
    #[serde(with = "cell")]
    pub draft: String,
    #[serde(with = "cell")]
    pub params: String,
    pub tree: String,
    pub verifier: String,
    pub num_speculative_tokens: usize,
    pub batch: Option<usize>,
    pub context: Option<usize>,
    pub texts: usize,
    pub prompts: usize,
    pub tokens: f64,
    pub loop_share: Option<f64>,
    pub rounds: f64,
    pub accepted: f64,
    pub proposed: f64,
    pub proposed_lo: f64,
    pub proposed_hi: f64,
    pub block_efficiency: Option<f64>,
    pub block_efficiency_lo: Option<f64>,
    pub block_efficiency_hi: Option<f64>,
    pub tokens_per_round: Option<f64>,
    pub acceptance_rate: Option<f64>,
    pub conditional_acceptance: Option<f64>,
    pub conditional_acceptance_lo: Option<f64>,
    pub conditional_acceptance_hi: Option<f64>,
    pub survival: String,
    pub speedup: Option<f64>,
    pub speedup_lo: Option<f64>,
    pub speedup_hi: Option<f64>,
}

impl ForecastRow {
    /// The rows of a cell: one for each setting with costs, or one without costs.
    pub fn all(tape: &Tape, found: &ForecastCell, settings: &[CostSetting]) -> Vec<Self> {
        let settings = settings.iter().map(|setting| Some(*setting));
        let settings = if settings.len() == 0 { vec![None] } else { settings.collect() };
        let rows = settings.into_iter().enumerate();
        rows.map(|(number, setting)| Self::of(tape, found, (number, setting))).collect()
    }

    /// The row of a cell at a setting.
    pub fn of(
        tape: &Tape,
        found: &ForecastCell,
        (number, setting): (usize, Option<CostSetting>),
    ) -> Self {
        let drafter = &tape.drafters[found.config.drafter];
        let sum = |of: fn(&PromptForecast) -> f64| found.prompts.values().map(of).sum();
        let (efficiency, alpha) = (found.block_efficiency(), found.conditional_acceptance());
        let speedup = found.speedup(number);
        let ends =
            |ratio: &Ratio| ratio.interval().map(|interval| (interval.lo, interval.hi)).unzip();
        let (block_efficiency_lo, block_efficiency_hi) = ends(&efficiency);
        let (conditional_acceptance_lo, conditional_acceptance_hi) = ends(&alpha);
        let (speedup_lo, speedup_hi) = speedup.as_ref().map(ends).unwrap_or_default();
        Self {
            sampling: tape.header.samplings[found.config.sampling].columns(),
            drafter: drafter.drafter.clone(),
            draft: drafter.model_name().to_owned(),
            params: drafter.params.words(),
            tree: found.config.tree.as_ref().map(TreeShape::describe).unwrap_or_default(),
            verifier: found.config.rule.verifier().to_owned(),
            num_speculative_tokens: found.config.k,
            batch: setting.map(|setting| setting.batch),
            context: setting.and_then(|setting| setting.context),
            texts: found.sequences,
            prompts: found.prompts.len(),
            tokens: sum(|sums| sums.tokens),
            loop_share: found.loop_share(),
            rounds: sum(|sums| sums.rounds),
            accepted: sum(|sums| sums.accepted),
            proposed: sum(|sums| sums.proposed),
            proposed_lo: sum(|sums| sums.proposed_within[0]),
            proposed_hi: sum(|sums| sums.proposed_within[1]),
            block_efficiency: efficiency.value(),
            block_efficiency_lo,
            block_efficiency_hi,
            tokens_per_round: found.tokens_per_round().value(),
            acceptance_rate: found.acceptance_rate().value(),
            conditional_acceptance: alpha.value(),
            conditional_acceptance_lo,
            conditional_acceptance_hi,
            survival: survival(found),
            speedup: speedup.as_ref().and_then(Ratio::value),
            speedup_lo,
            speedup_hi,
        }
    }
}

/// S(1), S(2), … as in `docs/metrics.md`, separated by spaces.
fn survival(found: &ForecastCell) -> String {
    let mut product = 1.0;
    let each = found.survival().into_iter().map(|ratio| {
        product *= ratio.value().unwrap_or(0.0);
        format!("{product:.6}")
    });
    each.collect::<Vec<_>>().join(" ")
}

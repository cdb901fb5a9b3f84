//! What each axis of a tape changes: the contrasts that a run measures, without the noise of drafts.

use std::collections::BTreeMap;

use serde::Serialize;

use super::SHOWN_KS;
use super::cells::{ForecastCell, PromptForecast};
use crate::measure::statistics::{AxisContrast, AxisPoint, axis_contrasts};
use crate::tapes::tape::{AcceptanceRule, Tape};

/// A value of an axis, compared with another one over all chains that differ in nothing else.
/// `docs/tape.md` describes the fields.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct ForecastContrast {
    pub axis: String,
    pub value: String,
    pub against: String,
    pub pairs: usize,
    pub prompts: usize,
    pub block_efficiency_ratio: Option<f64>,
    pub block_efficiency_ratio_lo: Option<f64>,
    pub block_efficiency_ratio_hi: Option<f64>,
    pub speedup_ratio: Option<f64>,
    pub speedup_ratio_lo: Option<f64>,
    pub speedup_ratio_hi: Option<f64>,
}

/// The contrasts of drafters, rules and sampling settings; with speedups at the first setting if
/// costs are known.
pub fn forecast_contrasts(tape: &Tape, cells: &[ForecastCell]) -> Vec<ForecastContrast> {
    let tau = contrasts(tape, cells, |sums| Some([sums.accepted + sums.rounds, sums.rounds]));
    let time = |sums: &PromptForecast| sums.times.first().map(|time| [time.plain, time.drafted]);
    let speed = contrasts(tape, cells, time);
    let rows = tau.into_iter().map(|own| {
        let same = |other: &&AxisContrast| (&other.axis, &other.value) == (&own.axis, &own.value);
        let fast = speed.iter().find(same);
        let ends = |contrast: Option<&AxisContrast>| {
            contrast.and_then(|contrast| contrast.interval).map(|i| (i.lo, i.hi)).unzip()
        };
        let (block_efficiency_ratio_lo, block_efficiency_ratio_hi) = ends(Some(&own));
        let (speedup_ratio_lo, speedup_ratio_hi) = ends(fast);
        ForecastContrast {
            pairs: own.pairs,
            prompts: own.prompts,
            block_efficiency_ratio: own.ratio,
            block_efficiency_ratio_lo,
            block_efficiency_ratio_hi,
            speedup_ratio: fast.and_then(|fast| fast.ratio),
            speedup_ratio_lo,
            speedup_ratio_hi,
            axis: own.axis,
            value: own.value,
            against: own.against,
        }
    });
    rows.collect()
}

/// The contrasts of a ratio of two sums over prompts.
fn contrasts(
    tape: &Tape,
    cells: &[ForecastCell],
    of: impl Fn(&PromptForecast) -> Option<[f64; 2]>,
) -> Vec<AxisContrast> {
    let chains =
        cells.iter().filter(|cell| cell.config.tree.is_none() && SHOWN_KS.contains(&cell.config.k));
    let points = chains.map(|cell| {
        let settings = tape.header.samplings[cell.config.sampling].settings();
        let settings = settings.map(|(key, value)| (key.to_owned(), value.to_string()));
        let mut axes = settings.collect::<BTreeMap<_, _>>();
        axes.insert("drafter".to_owned(), tape.drafters[cell.config.drafter].describe());
        axes.insert("verifier".to_owned(), cell.config.rule.verifier().to_owned());
        let prompts = cell.prompts.iter().filter_map(|(prompt, sums)| {
            let [above, below] = of(sums)?;
            Some((prompt.as_str(), ([above], [below])))
        });
        let (fixed, prompts) = (cell.config.k.to_string(), prompts.collect());
        AxisPoint { axes, own: BTreeMap::new(), fixed, prompts }
    });
    let references = [("verifier", AcceptanceRule::Token.verifier())];
    axis_contrasts(&points.collect::<Vec<_>>(), &references)
}

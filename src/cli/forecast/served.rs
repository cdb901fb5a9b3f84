//! Costs that were fitted to the rounds of a server.

use std::path::Path;

use anyhow::{Context, Result, anyhow};

use crate::measure::bench::{ServedFit, ServedPoint, read_served};
use crate::measure::statistics::Interval;
use crate::tapes::forecasting::{CostSetting, CostTable};

/// What was measured, and the costs that follow.
#[derive(Debug)]
pub(super) struct ServedCosts {
    pub(super) points: Vec<ServedPoint>,
    pub(super) fit: ServedFit,
    /// What predictions are compared with.
    pub(super) measured: Vec<ServedPoint>,
}

impl ServedCosts {
    /// The costs follow from `file`; predictions are compared with `measured`, or else with it.
    pub(super) fn read(file: &Path, measured: Option<&Path>) -> Result<Self> {
        let points = points(file)?;
        let fit = ServedFit::of(&points).map_err(|why| anyhow!("{}: {why}", file.display()))?;
        let measured = measured.map_or_else(|| Ok(points.clone()), self::points)?;
        Ok(Self { points, fit, measured })
    }

    pub(super) fn table(&self) -> Result<CostTable> {
        let mut table = CostTable::default();
        for row in self.fit.rows(&self.points) {
            table.add(row).context("these times of rounds give no costs")?;
        }
        Ok(table)
    }

    /// The batches that were measured, in their order.
    pub(super) fn batches(&self) -> Vec<usize> {
        let mut batches = self.points.iter().map(|point| point.setting().batch).collect::<Vec<_>>();
        batches.sort_unstable();
        batches.dedup();
        batches
    }

    /// The settings that predictions are compared at.
    pub(super) fn settings(&self) -> impl Iterator<Item = CostSetting> {
        self.measured.iter().map(|point| CostSetting {
            batch: point.setting().batch,
            context: Some(point.mean(|one| one.context) as usize),
        })
    }

    /// An interval over prompts of a speed, or of a speedup, made wider by the errors of the times
    /// of these rounds. Errors of several times are taken as independent.
    pub(super) fn widened(
        &self,
        value: f64,
        over_prompts: Interval,
        drafts: &[usize],
        setting: CostSetting,
    ) -> Interval {
        let context = setting.context.map_or_else(|| self.context(), |context| context as f64);
        let errors = drafts.iter().map(|&k| {
            let time = self.fit.round(k as f64, setting.batch as f64, context);
            time.interval.map_or(0.0, |interval| (interval.hi / time.ms).ln())
        });
        let squares = errors.map(|error| error * error).sum::<f64>();
        let side = |end: f64| ((end / value).ln().powi(2) + squares).sqrt();
        Interval {
            lo: value * (-side(over_prompts.lo)).exp(),
            hi: value * side(over_prompts.hi).exp(),
        }
    }

    /// A context that was measured.
    fn context(&self) -> f64 {
        self.points[0].mean(|one| one.context)
    }
}

/// The settings in a file, by K, batch and prompt.
fn points(file: &Path) -> Result<Vec<ServedPoint>> {
    let mut points = ServedPoint::all(&read_served(file)?);
    points.sort_by_key(|point| (point.setting().k, point.setting().batch, point.setting().prompt));
    Ok(points)
}

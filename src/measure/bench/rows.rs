//! The rows of the CSV file that `specdec bench --csv` writes.

use serde::{Deserialize, Serialize};

use super::{Measured, Timing};
use crate::core::lanes::IsaKind;
use crate::model::LanguageModel;

/// Timings of passes with `m` rows. `docs/metrics.md` describes the columns.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct PassRow {
    pub shape: String,
    pub dtype: String,
    pub device: String,
    pub threads: usize,
    pub isa: String,
    pub m: usize,
    pub median_us: Option<f64>,
    pub min_us: Option<f64>,
    pub spread: Option<f64>,
    pub gb_per_s: Option<f64>,
    pub bandwidth_share: Option<f64>,
    pub kept: usize,
    pub dropped: usize,
    pub experts: Option<f64>,
}

impl PassRow {
    /// One CSV row for each number of rows of a pass.
    pub fn of(model: &dyn LanguageModel, measured: &Measured) -> Vec<Self> {
        let info = model.info();
        let row = |(m, (timing, &experts)): (usize, (&Timing, &usize))| {
            let bytes = info.bytes_with(experts as f64);
            // Reading was timed for the bytes of one row.
            let more = bytes / info.bytes_per_token.max(1) as f64;
            let read = measured.reading.median().zip(timing.median());
            Self {
                shape: info.name.trim_start_matches("shape ").to_owned(),
                dtype: info.dtype.to_owned(),
                device: info.device.clone(),
                threads: model.threads(m),
                isa: IsaKind::active().name().to_owned(),
                m,
                median_us: timing.median(),
                min_us: timing.min(),
                spread: timing.spread(),
                gb_per_s: timing.median().map(|us| bytes / us / 1e3),
                bandwidth_share: read.map(|(read, us)| more * read / us),
                kept: timing.kept(),
                dropped: timing.dropped(),
                experts: info.experts.map(|own| experts as f64 / own.layers as f64),
            }
        };
        let passes = measured.passes.iter().zip(&measured.experts);
        (1..).zip(passes).map(row).collect()
    }
}

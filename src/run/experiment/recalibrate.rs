//! The calibration of target passes, repeated between blocks: a machine may have another speed
//! of memory during the sweep than before it.

use std::sync::atomic::Ordering;

use anyhow::{Result, bail};

use super::calibrate::calibration_context;
use super::passes::target_passes;
use super::setup::Setup;
use crate::measure::rows::{Calibration, Recalibration};

/// At most this many times in a session, so that all of them together take a small share of its
/// time.
const MOST: usize = 12;

/// At least this many blocks lie between two of them, for the same reason.
const LEAST_APART: usize = 8;

/// The turns of each; the first one fills the caches and is not counted.
const SHORT_TURNS: usize = 4;

/// How many blocks lie between two calibrations of a session that runs `blocks` blocks.
pub(super) fn apart(blocks: usize) -> usize {
    (blocks / MOST).max(LEAST_APART)
}

/// Times the passes of the first calibration again, before a block. `None` if they fail, which
/// the sweep then records of its generations, or if the run is interrupted.
pub(super) fn recalibrate(
    setup: &Setup<'_>,
    first: &Calibration,
    block: usize,
) -> Option<Recalibration> {
    let counts = first.passes.iter().map(|pass| pass.rows).collect::<Vec<_>>();
    let step = || -> Result<()> {
        if setup.interrupted.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        Ok(())
    };
    let context = calibration_context(setup).ok()?;
    let passes =
        target_passes(setup.target, context, &counts, setup.clock, SHORT_TURNS, step).ok()?;
    Some(Recalibration { block, passes })
}

//! What all layers share in one pass.

use std::cell::Cell;

use candle_core::{Device, Tensor};

use super::cache::{SlotRun, runs};
use crate::core::error::Error;
use crate::engine::decoder::{Config, Rotation, angles, visible_from};
use crate::model::Feed;

/// What all layers share in one pass over the tokens of `feed`.
#[derive(Debug)]
pub(super) struct CandlePass {
    /// Cosines and sines of the rows' positions, for each rotary embedding.
    pub angles: Vec<[Tensor; 2]>,
    pub runs: Vec<SlotRun>,
    /// Slots below this number are read.
    pub slots: usize,
    /// Distinct experts that were needed, summed over layers.
    pub experts: Cell<usize>,
    /// The masks by the windows that layers have.
    masks: Vec<(Option<usize>, Option<Tensor>)>,
}

impl CandlePass {
    pub(super) fn new(
        feed: &[Feed],
        config: &Config,
        rotations: &[Rotation],
        device: &Device,
    ) -> Result<Self, Error> {
        let seen = |f: &Feed| f.ancestors.last().map_or(f.prefix, |&last| last + 1);
        let slots = feed.iter().map(seen).max().unwrap_or(0);
        let mut windows = config.layers.iter().map(|layer| layer.window).collect::<Vec<_>>();
        windows.sort_unstable();
        windows.dedup();
        let masks = windows.into_iter().map(|window| {
            let mask = mask(feed, slots, window);
            let each_head = |mask| {
                let mask = Tensor::from_vec(mask, (1, feed.len(), slots), device)?;
                // Layers add it as it is: a sum over repeated heads takes a device much longer.
                mask.expand((config.heads.queries, feed.len(), slots))?.contiguous()
            };
            Ok((window, mask.map(each_head).transpose()?))
        });
        let angles = rotations.iter().map(|rotation| {
            let shape = (feed.len(), rotation.frequencies.len());
            let (cos, sin) = angles(rotation, feed.iter().map(|f| f.position));
            Ok([Tensor::from_vec(cos, shape, device)?, Tensor::from_vec(sin, shape, device)?])
        });
        Ok(Self {
            angles: angles.collect::<Result<_, Error>>()?,
            masks: masks.collect::<Result<_, Error>>()?,
            runs: runs(feed.iter().map(|f| f.slot)),
            experts: Cell::new(0),
            slots,
        })
    }

    /// The mask of a layer with this window, of shape `(heads, rows, slots)` and the same for
    /// every head: 0 where a row may attend and −inf where not; absent if every row may attend
    /// to all slots, as in plain decoding.
    pub(super) fn mask(&self, window: Option<usize>) -> Option<&Tensor> {
        self.masks.iter().find(|(of, _)| *of == window).and_then(|(_, mask)| mask.as_ref())
    }
}

fn mask(feed: &[Feed], slots: usize, window: Option<usize>) -> Option<Vec<f32>> {
    let from = |f: &Feed| visible_from(window, f.prefix + f.ancestors.len());
    if feed.iter().all(|f| f.prefix == slots && from(f) == 0) {
        return None;
    }
    let mut mask = vec![f32::NEG_INFINITY; feed.len() * slots];
    for (row, f) in mask.chunks_exact_mut(slots).zip(feed) {
        let from = from(f);
        row[from.min(f.prefix)..f.prefix].fill(0.0);
        for &slot in f.ancestors.iter().skip(from.saturating_sub(f.prefix)) {
            row[slot] = 0.0;
        }
    }
    Some(mask)
}

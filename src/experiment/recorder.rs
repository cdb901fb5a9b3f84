//! Turns the rounds of a generation into rows. The diagnostics among them
//! (overlaps, entropies) are computed here, outside every timed span.

use std::time::Duration;

use super::cell::Cell;
use super::records::{PositionRow, RoundRow};
use crate::decode::Observer;
use crate::model::ModelError;
use crate::round::RoundEvent;
use crate::verify::ceiling;

/// Collects the rows of one generation.
#[derive(Debug)]
pub(super) struct Recorder<'a> {
    cell: &'a Cell,
    prompt: &'a str,
    repeat: u32,
    trace: bool,
    /// Its rounds.
    pub rounds: Vec<RoundRow>,
    /// Its drafted tokens, if traced.
    pub positions: Vec<PositionRow>,
}

impl<'a> Recorder<'a> {
    /// A recorder for one generation.
    pub(super) fn new(cell: &'a Cell, prompt: &'a str, repeat: u32, trace: bool) -> Self {
        Self { cell, prompt, repeat, trace, rounds: Vec::new(), positions: Vec::new() }
    }

    fn positions_of(&self, event: &RoundEvent<'_>) -> Vec<PositionRow> {
        let vocab = event.draft.vocab();
        let nodes = event.draft.nodes().iter().enumerate();
        nodes
            .map(|(id, node)| {
                let row = node.parent.map_or(0, |parent| parent + 1);
                let (p, q) = (&event.targets[row], node.law(vocab));
                PositionRow {
                    cell: self.cell.id.clone(),
                    prompt: self.prompt.to_owned(),
                    repeat: self.repeat,
                    round: event.round,
                    node: id,
                    parent: node.parent,
                    depth: node.depth,
                    token: node.token,
                    p: p.p(node.token),
                    q: q.p(node.token),
                    overlap: p.overlap(&q),
                    p_entropy: p.entropy(),
                    q_entropy: q.entropy(),
                    top2_gap: event.logits[row].top2_gap(),
                    accepted: event.verdict.path.contains(&id),
                }
            })
            .collect()
    }
}

impl Observer for Recorder<'_> {
    fn round(&mut self, event: &RoundEvent<'_>) -> Result<(), ModelError> {
        let reached = event.reached();
        let forks = event.forks();
        let ceilings = forks.iter().map(|&at| ceiling(event.draft, at, event.target(at)));
        self.rounds.push(RoundRow {
            cell: self.cell.id.clone(),
            prompt: self.prompt.to_owned(),
            repeat: self.repeat,
            round: event.round,
            context_tokens: event.context.len(),
            proposed: event.draft.len(),
            depth: event.draft.depth(),
            accepted: event.verdict.path.len(),
            emitted: event.emitted.len(),
            truncated: event.truncated,
            reached: reached.len(),
            // An empty sum of floats is -0; a row without drafts reads 0.
            overlap_sum: reached.iter().map(|&id| event.overlap(id)).sum::<f64>() + 0.0,
            forks: forks.len(),
            ceiling_sum: ceilings.sum::<Option<f64>>().map(|sum| sum + 0.0),
            residual_fallbacks: event.verdict.residual_fallbacks,
            draft_forwards: event.draft_forwards,
            draft_us: micros(event.times.draft),
            target_us: micros(event.times.target),
            verify_us: micros(event.times.verify),
            other_us: micros(event.times.other),
        });
        if self.trace {
            let rows = self.positions_of(event);
            self.positions.extend(rows);
        }
        Ok(())
    }
}

/// Microseconds with the nanoseconds kept.
pub(super) fn micros(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1000.0
}

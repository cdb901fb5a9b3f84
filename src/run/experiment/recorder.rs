//! Turns the rounds of a generation into rows. Diagnostics (overlaps, entropies) are
//! computed here, outside every timed span.

use std::time::Duration;

use super::cell::Cell;
use super::tracer::Tracer;
use crate::core::error::Error;
use crate::core::registry::{Class, find};
use crate::core::round::RoundEvent;
use crate::core::tree::{NodeId, Row};
use crate::measure::rows::{PositionRow, RoundRow};
use crate::method::decode::Observer;
use crate::method::verify::{VERIFIERS, Verifier, ceiling};

/// Collects the rows of one generation.
#[derive(Debug)]
pub(super) struct Recorder<'a> {
    cell: &'a Cell,
    prompt: &'a str,
    repeat: u32,
    trace: bool,
    /// The cell's verifier, if it is approximate.
    verifier: Option<Box<dyn Verifier>>,
    /// The rounds of the generation.
    pub rounds: Vec<RoundRow>,
    /// The drafted tokens, if traced.
    pub positions: Vec<PositionRow>,
    /// What the report shows of the generation token by token, if it is recorded.
    pub tracer: Option<Tracer>,
}

impl<'a> Recorder<'a> {
    /// A recorder for one generation.
    ///
    /// # Errors
    /// If the cell's verifier does not exist, or a setting has a value that it does not
    /// allow.
    pub(super) fn new(
        cell: &'a Cell,
        prompt: &'a str,
        repeat: u32,
        trace: bool,
        tracer: Option<Tracer>,
    ) -> Result<Self, Error> {
        let verifier = approximate(cell)?;
        let (rounds, positions) = (Vec::new(), Vec::new());
        Ok(Self { cell, prompt, repeat, trace, verifier, rounds, positions, tracer })
    }

    /// The sum, over the nodes whose children were decided on, of the total variation
    /// between the target's distribution and the distribution of the next token, taken
    /// over all possible drafts and decisions. `None` for exact verifiers, and where it
    /// is unknown.
    fn tv_sum(&self, event: &RoundEvent<'_>) -> Option<f64> {
        let verifier = self.verifier.as_ref()?;
        let tv = |at: Option<NodeId>| {
            let mut children = event.draft.children(at);
            let child = event.draft.node(children.next()?);
            let p = event.target(at);
            let q = child.distribution(event.draft.vocab());
            let dist = verifier.next_distribution(p, &q).filter(|_| children.next().is_none())?;
            Some(p.total_variation(&dist))
        };
        event.forks().into_iter().map(tv).sum::<Option<f64>>().map(|sum| sum + 0.0)
    }

    fn positions_of(&self, event: &RoundEvent<'_>) -> Vec<PositionRow> {
        let vocab = event.draft.vocab();
        let nodes = event.draft.nodes().iter().enumerate();
        nodes
            .map(|(id, node)| {
                let row = Row::after(node.parent).number();
                let (p, q) = (&event.targets[row], node.distribution(vocab));
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
    fn round(&mut self, event: &RoundEvent<'_>) -> Result<(), Error> {
        let forks = event.forks();
        let times = event.times.share(event.batch);
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
            reached: event.reached().len(),
            // An empty sum of floats is -0; adding 0 makes rows without drafts read 0.
            overlap_sum: forks.iter().map(|&at| event.overlap(at)).sum::<f64>() + 0.0,
            forks: forks.len(),
            ceiling_sum: ceilings.sum::<Option<f64>>().map(|sum| sum + 0.0),
            tv_sum: self.tv_sum(event),
            residual_fallbacks: event.verdict.residual_fallbacks,
            draft_forwards: event.draft_forwards,
            draft_us: micros(times.draft),
            target_us: micros(times.target),
            verify_us: micros(times.verify),
            other_us: micros(times.other),
            accepted_raw: Some(event.accepted_raw),
            experts: Some(event.experts),
        });
        if self.trace {
            let rows = self.positions_of(event);
            self.positions.extend(rows);
        }
        if let Some(tracer) = &mut self.tracer {
            tracer.round(event);
        }
        Ok(())
    }
}

/// The cell's verifier if it is approximate, else `None`.
fn approximate(cell: &Cell) -> Result<Option<Box<dyn Verifier>>, Error> {
    let entry = find("verifier", VERIFIERS, &cell.method.verifier)?;
    if entry.build.class != Class::X {
        return Ok(None);
    }
    let params = cell.method.params.of(entry.params)?;
    Ok(Some((entry.build.make)(&params)))
}

/// Microseconds, exact to the nanosecond.
pub(super) fn micros(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1000.0
}

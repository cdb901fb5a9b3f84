//! Observers of enumerated rounds.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::joint::{TOLERANCE, worse};
use super::kind::Kinds;
use crate::core::distribution::{Dist, Token};
use crate::core::error::Error;
use crate::core::round::RoundEvent;
use crate::core::sampling::Logits;
use crate::core::tree::{Draft, NodeId, Origin, Row};
use crate::method::decode::Observer;
use crate::method::verify::ceiling;
use crate::model::Toy;

/// Observes every round with its probability.
pub trait Probe {
    /// The target has evaluated a draft; `weight` is the probability of this path so far. Called
    /// once for all decisions of the verifier.
    fn evaluated(&mut self, pass: &TargetPass<'_>, weight: f64) {
        let _ = (pass, weight);
    }

    /// One enumerated round; `weight` is the probability of the path up to its end.
    fn round(&mut self, event: &RoundEvent<'_>, weight: f64) {
        let _ = (event, weight);
    }

    /// All outcomes of the rounds from one state are done.
    fn state_walked(&mut self) {}
}

/// A pass of the target over a draft.
#[derive(Debug, Clone, Copy)]
pub struct TargetPass<'a> {
    /// Tokens before the round.
    pub context: &'a [Token],
    /// The draft.
    pub draft: &'a Draft,
    /// The target's logits, by [`Row`].
    pub logits: &'a [Logits],
}

/// Expected counts over all rounds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Tally {
    /// Expected number of rounds.
    pub rounds: f64,
    /// Expected number of proposed nodes.
    pub proposed: f64,
    /// Expected number of accepted nodes.
    pub accepted: f64,
    /// Expected number of rounds in which the children of a node were all
    /// rejected.
    pub rejected: f64,
    /// Expected number of residuals without mass.
    pub fallbacks: f64,
    /// Expected number of accepted nodes in the first round.
    pub first_accepted: f64,
    /// Expected number of committed tokens in the first round: E\[L\], unless
    /// `max_tokens` cuts the round.
    pub first_emitted: f64,
    /// Whether something must be rejected: at some node whose children were tried, no rule could
    /// always accept one of them, and they do not cover the target's support. Nodes below siblings
    /// do not count, because a rule that looks ahead may accept another sibling.
    pub contested: bool,
    /// Whether something can be accepted: at some node whose children were tried, p and the
    /// distribution of a child share a token.
    pub shared: bool,
    /// The kinds of p and q in the decisions.
    pub kinds: Kinds,
}

impl Probe for Tally {
    fn round(&mut self, event: &RoundEvent<'_>, weight: f64) {
        let accepted = event.verdict.path.len();
        let last = event.verdict.path.last().copied();
        self.rounds += weight;
        self.proposed += weight * event.draft.len() as f64;
        self.accepted += weight * accepted as f64;
        if event.draft.children(last).next().is_some() {
            self.rejected += weight;
        }
        self.fallbacks += weight * event.verdict.residual_fallbacks as f64;
        if event.round == 0 {
            self.first_accepted += weight * accepted as f64;
            self.first_emitted += weight * event.emitted.len() as f64;
        }
        self.kinds.round(event, weight);
        // The rest is expensive, and known after a few rounds.
        self.contested = self.contested || contested(event);
        self.shared = self.shared || event.forks().into_iter().any(|at| shared(event, at));
    }
}

/// Counts sampled rounds like enumerated ones, each with weight 1.
impl Observer for Tally {
    fn round(&mut self, event: &RoundEvent<'_>) -> Result<(), Error> {
        Probe::round(self, event, 1.0);
        Ok(())
    }
}

fn contested(event: &RoundEvent<'_>) -> bool {
    let siblings = |at: &Option<NodeId>| event.draft.children(*at).count() > 1;
    let forks = event.forks();
    // The nodes without siblings on their path.
    let alone = forks.iter().position(siblings).map_or(forks.len(), |branching| branching + 1);
    forks[..alone].iter().any(|&at| {
        let p = event.target(at);
        let tokens = event.draft.children(at).map(|id| event.draft.node(id).token);
        let covered = tokens.collect::<BTreeSet<_>>().into_iter().map(|t| p.p(t)).sum::<f64>();
        ceiling(event.draft, at, p).unwrap_or(0.0).max(covered) < 1.0 - TOLERANCE
    })
}

fn shared(event: &RoundEvent<'_>, at: Option<NodeId>) -> bool {
    let dist = |id| event.draft.node(id).distribution(event.draft.vocab());
    event.draft.children(at).any(|id| event.target(at).overlap(&dist(id)) > TOLERANCE)
}

/// Compares every row of the target's session with the table entry for the row's context. Detects
/// wrong rows, slots, masks and rollbacks.
#[derive(Debug)]
pub struct TargetRows<'a> {
    target: &'a Toy,
    /// Number of wrong rows.
    pub wrong: usize,
}

impl<'a> TargetRows<'a> {
    /// A probe that compares with this toy's table.
    pub fn new(target: &'a Toy) -> Self {
        Self { target, wrong: 0 }
    }
}

impl Probe for TargetRows<'_> {
    fn evaluated(&mut self, pass: &TargetPass<'_>, _weight: f64) {
        for (logits, row) in pass.logits.iter().zip(Row::all(pass.draft)) {
            let sequence = [pass.context, &row.drafted(pass.draft)].concat();
            let right = self.target.logits(&sequence).is_ok_and(|expected| {
                expected.iter().enumerate().all(|(t, &x)| logits.get(t as Token) == x)
            });
            self.wrong += usize::from(!right);
        }
    }
}

/// Compares the distribution of every sampled draft token, given the nodes drawn before it, with
/// the distribution recorded for it. Detects tokens that were drawn and then dropped, and tokens
/// drawn from another distribution than the recorded one.
#[derive(Debug, Default)]
pub struct DraftDistributions {
    drawn: BTreeMap<Prefix, DrawnMass>,
    /// The largest difference found.
    pub max_error: f64,
}

/// The nodes drawn before a node, and its parent.
type Prefix = (Vec<(Option<NodeId>, Token)>, Option<NodeId>);

#[derive(Debug)]
struct DrawnMass {
    recorded: Rc<Dist>,
    mass: BTreeMap<Token, f64>,
}

impl Probe for DraftDistributions {
    fn evaluated(&mut self, pass: &TargetPass<'_>, weight: f64) {
        let nodes = pass.draft.nodes();
        for (id, node) in nodes.iter().enumerate() {
            let Origin::Sampled(dist) = &node.origin else { continue };
            let before = nodes[..id].iter().map(|n| (n.parent, n.token)).collect();
            let drawn = self
                .drawn
                .entry((before, node.parent))
                .or_insert_with(|| DrawnMass { recorded: Rc::clone(dist), mass: BTreeMap::new() });
            *drawn.mass.entry(node.token).or_insert(0.0) += weight;
        }
    }

    fn state_walked(&mut self) {
        for drawn in std::mem::take(&mut self.drawn).into_values() {
            let total: f64 = drawn.mass.values().sum();
            for token in 0..drawn.recorded.vocab() as Token {
                let share = drawn.mass.get(&token).copied().unwrap_or(0.0) / total;
                self.max_error = worse(self.max_error, (share - drawn.recorded.p(token)).abs());
            }
        }
    }
}

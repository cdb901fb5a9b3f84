//! What a cell can prove: the kinds of p and q in its decisions.
//!
//! Most verification rules coincide if p or q is one-hot, if they are equal or if they share no
//! token. A cell is a real test of a method if p and q are soft, different and overlapping.

use serde::{Deserialize, Serialize};

use super::joint::TOLERANCE;
use crate::core::distribution::Dist;
use crate::core::round::RoundEvent;
use crate::core::tree::{NodeId, Origin};

/// The relation between the target's p and the draft's q at a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CellKind {
    /// Both are soft, they differ, and they share tokens: the informative case.
    Soft,
    /// The draft is not sampled: it was looked up, or is the most probable tokens.
    CertainDraft,
    /// p is one-hot, as at temperature 0.
    CertainTarget,
    /// p = q.
    Equal,
    /// p and q share no token.
    Disjoint,
    /// Nothing was proposed.
    Undrafted,
}

impl CellKind {
    /// All kinds, the informative one first.
    pub const ALL: [Self; 6] = [
        Self::Soft,
        Self::CertainDraft,
        Self::CertainTarget,
        Self::Equal,
        Self::Disjoint,
        Self::Undrafted,
    ];

    /// A description for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Soft => "p and q soft, different and overlapping",
            Self::CertainDraft => "a certain draft, looked up or the most probable tokens",
            Self::CertainTarget => "a certain target, as at temperature 0",
            Self::Equal => "p = q",
            Self::Disjoint => "p and q share no token",
            Self::Undrafted => "nothing proposed: plain decoding",
        }
    }

    /// The kind of a decision between p and q.
    fn of(p: &Dist, q: &Dist) -> Self {
        let certain = |dist: &Dist| dist.support().nth(1).is_none();
        match p.overlap(q) {
            _ if certain(p) => Self::CertainTarget,
            _ if certain(q) => Self::CertainDraft,
            overlap if overlap <= TOLERANCE => Self::Disjoint,
            overlap if overlap >= 1.0 - TOLERANCE => Self::Equal,
            _ => Self::Soft,
        }
    }

    /// The kind of the decision on a node's children, by the first child that was sampled.
    fn at(event: &RoundEvent<'_>, at: Option<NodeId>) -> Self {
        let drawn = event.draft.children(at).find_map(|id| match &event.draft.node(id).origin {
            Origin::Sampled(dist) | Origin::Coupled(dist) => Some(dist),
            Origin::Certain => None,
        });
        let p = event.target(at);
        match drawn {
            Some(q) => Self::of(p, q),
            None => Self::of(p, &Dist::one_hot(event.draft.vocab(), 0)),
        }
    }
}

/// Expected number of decisions of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Kinds([f64; CellKind::ALL.len()]);

impl Kinds {
    /// Adds the decisions of a round with this weight.
    pub(super) fn round(&mut self, event: &RoundEvent<'_>, weight: f64) {
        for at in event.forks() {
            self.0[CellKind::at(event, at) as usize] += weight;
        }
    }

    /// The share of decisions of a kind.
    pub fn share(&self, kind: CellKind) -> f64 {
        let all = self.0.iter().sum::<f64>();
        if all > 0.0 { self.0[kind as usize] / all } else { 0.0 }
    }

    /// The kind of the whole cell: soft if at least half of the decisions are, else the most
    /// frequent other kind.
    pub fn of_most(&self) -> CellKind {
        if self.share(CellKind::Soft) >= 0.5 {
            return CellKind::Soft;
        }
        let others = CellKind::ALL[1..].iter().copied().filter(|&kind| self.share(kind) > 0.0);
        others
            .max_by(|a, b| self.share(*a).total_cmp(&self.share(*b)))
            .unwrap_or(CellKind::Undrafted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_a_decision_follows_from_p_and_q() {
        let dist = |probs: &[f64]| Dist::from_probs(probs.to_vec()).unwrap();
        let kind = |p: &[f64], q: &[f64]| CellKind::of(&dist(p), &dist(q));
        assert_eq!(kind(&[0.5, 0.5, 0.0], &[0.0, 0.5, 0.5]), CellKind::Soft);
        assert_eq!(kind(&[0.5, 0.5, 0.0], &[0.5, 0.5, 0.0]), CellKind::Equal);
        assert_eq!(kind(&[0.5, 0.5, 0.0, 0.0], &[0.0, 0.0, 0.5, 0.5]), CellKind::Disjoint);
        assert_eq!(kind(&[0.5, 0.5], &[1.0, 0.0]), CellKind::CertainDraft);
        assert_eq!(kind(&[1.0, 0.0], &[0.5, 0.5]), CellKind::CertainTarget);
        assert_eq!(kind(&[1.0, 0.0], &[1.0, 0.0]), CellKind::CertainTarget);
    }

    #[test]
    fn a_cell_is_soft_if_half_of_its_decisions_are() {
        let kinds = |counts: [f64; 6]| Kinds(counts);
        assert_eq!(kinds([0.0; 6]).of_most(), CellKind::Undrafted);
        assert_eq!(kinds([1.0, 1.0, 0.0, 0.0, 0.0, 0.0]).of_most(), CellKind::Soft);
        assert_eq!(kinds([1.0, 0.5, 0.6, 0.0, 0.0, 0.0]).of_most(), CellKind::CertainTarget);
        assert_eq!(kinds([3.0, 1.0, 0.0, 0.0, 0.0, 0.0]).share(CellKind::Soft), 0.75);
    }
}

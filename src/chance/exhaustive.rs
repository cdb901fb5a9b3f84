//! Every outcome, with its exact probability.

use std::ops::Range;

use super::{Chance, Site};
use crate::distribution::{Dist, Token};

/// A `Chance` that replays a path through the tree of all outcomes and moves on to the
/// next path between replays.
///
/// ```
/// use specdec::chance::{Chance, Exhaustive, Purpose, Site};
///
/// let mut walk = Exhaustive::default();
/// let mut heads = 0.0;
/// loop {
///     let site = Site { purpose: Purpose::Accept, node: 0 };
///     if walk.bernoulli(site, 0.25) {
///         heads += walk.weight();
///     }
///     if !walk.advance() {
///         break;
///     }
/// }
/// assert_eq!(heads, 0.25);
/// ```
#[derive(Debug, Default)]
pub struct Exhaustive {
    path: Vec<Branch>,
    cursor: usize,
    weight: Option<f64>,
    raced: Vec<usize>,
    coupled: bool,
}

#[derive(Debug)]
struct Branch {
    choice: usize,
    arity: usize,
}

impl Exhaustive {
    /// Probability of the path walked since the last [`Self::advance`].
    pub fn weight(&self) -> f64 {
        self.weight.unwrap_or(1.0)
    }

    /// Number of random decisions on the current path.
    pub fn decisions(&self) -> usize {
        self.cursor
    }

    /// Whether any path so far raced twice at one position. The two races share their
    /// noise, which a walk over independent decisions cannot express, so the resulting
    /// distribution is not valid.
    pub fn coupled(&self) -> bool {
        self.coupled
    }

    /// Moves on to the next path; false once all paths have been walked.
    pub fn advance(&mut self) -> bool {
        self.path.truncate(self.cursor);
        self.cursor = 0;
        self.weight = None;
        self.raced.clear();
        while let Some(last) = self.path.last_mut() {
            last.choice += 1;
            if last.choice < last.arity {
                return true;
            }
            self.path.pop();
        }
        false
    }

    fn choose(&mut self, arity: usize) -> usize {
        if self.cursor == self.path.len() {
            self.path.push(Branch { choice: 0, arity });
        }
        let branch = &self.path[self.cursor];
        assert_eq!(branch.arity, arity, "the walked code must depend on its `Chance` alone");
        self.cursor += 1;
        branch.choice
    }

    fn weigh(&mut self, p: f64) {
        self.weight = Some(self.weight() * p);
    }
}

impl Chance for Exhaustive {
    fn begin_round(&mut self, _round: u64) {}

    fn bernoulli(&mut self, _site: Site, p: f64) -> bool {
        if p <= 0.0 || p >= 1.0 {
            return p >= 1.0;
        }
        let yes = self.choose(2) == 0;
        self.weigh(if yes { p } else { 1.0 - p });
        yes
    }

    fn categorical(&mut self, _site: Site, dist: &Dist) -> Token {
        let support = dist.support().collect::<Vec<_>>();
        let (token, p) = support[self.choose(support.len())];
        self.weigh(p);
        token
    }

    fn race(&mut self, position: usize, _: Range<usize>, dist: &Dist) -> Token {
        self.coupled |= self.raced.contains(&position);
        self.raced.push(position);
        let site = Site { purpose: super::Purpose::Target, node: position };
        self.categorical(site, dist)
    }
}

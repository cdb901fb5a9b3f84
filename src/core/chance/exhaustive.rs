//! Every outcome, with its exact probability.

use std::ops::Range;

use super::{Chance, Site};
use crate::core::distribution::{Dist, Token};

/// A `Chance` that replays a path through the tree of all outcomes and moves to the next path
/// between replays.
///
/// ```
/// use specdec::core::chance::{Chance, Exhaustive, Purpose, Site};
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

/// A point on a path, from which all continuations of the path can be walked.
#[derive(Debug, Clone, Copy, Default)]
pub struct Waypoint {
    cursor: usize,
    weight: Option<f64>,
    raced: usize,
}

#[derive(Debug)]
struct Branch {
    choice: usize,
    arity: usize,
}

impl Exhaustive {
    /// Probability of the path up to the current point.
    pub fn weight(&self) -> f64 {
        self.weight.unwrap_or(1.0)
    }

    /// Number of random decisions on the current path.
    pub fn decisions(&self) -> usize {
        self.cursor
    }

    /// Whether any path so far raced twice at one position. The two races share their noise, but
    /// the walk treats decisions as independent, so the resulting distribution is not valid.
    pub fn coupled(&self) -> bool {
        self.coupled
    }

    /// Moves to the next path; false after the last one.
    pub fn advance(&mut self) -> bool {
        self.resume(Waypoint::default())
    }

    /// The current point of the path.
    pub fn point(&self) -> Waypoint {
        Waypoint { cursor: self.cursor, weight: self.weight, raced: self.raced.len() }
    }

    /// Returns to a point of the path and moves to the next path through it; false after the last
    /// of these. Moving to the next path through an earlier point then leaves this point.
    ///
    /// ```
    /// use specdec::core::chance::{Chance, Exhaustive, Purpose, Site};
    ///
    /// let mut walk = Exhaustive::default();
    /// let coin = |walk: &mut Exhaustive, node| {
    ///     walk.bernoulli(Site { purpose: Purpose::Accept, node }, 0.25)
    /// };
    /// let mut both = 0.0;
    /// loop {
    ///     let first = coin(&mut walk, 0);
    ///     let point = walk.point();
    ///     loop {
    ///         if coin(&mut walk, 1) && first {
    ///             both += walk.weight();
    ///         }
    ///         if !walk.resume(point) {
    ///             break;
    ///         }
    ///     }
    ///     if !walk.advance() {
    ///         break;
    ///     }
    /// }
    /// assert_eq!(both, 0.0625);
    /// ```
    pub fn resume(&mut self, point: Waypoint) -> bool {
        self.path.truncate(self.cursor);
        self.return_to(point);
        let beyond = point.cursor..;
        while let Some(last) = self.path.get_mut(beyond.clone()).and_then(<[_]>::last_mut) {
            last.choice += 1;
            if last.choice < last.arity {
                return true;
            }
            self.path.pop();
        }
        false
    }

    /// Returns to the start of the path, to replay it.
    pub fn restart(&mut self) {
        self.return_to(Waypoint::default());
    }

    fn return_to(&mut self, point: Waypoint) {
        self.cursor = point.cursor;
        self.weight = point.weight;
        self.raced.truncate(point.raced);
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
        let choice = self.choose(dist.support().count());
        // It exists, since choices are below the count.
        let (token, p) = dist.support().nth(choice).unwrap_or_default();
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

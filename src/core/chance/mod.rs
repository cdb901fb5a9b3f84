//! Randomness. Below `experiment`, [`Chance`] is its only source.
//!
//! There are two implementations. [`Seeded`] draws pseudo-random numbers;
//! [`Exhaustive`] walks through *every* outcome with its exact probability, so it
//! yields the exact output distribution of any code that draws from a `Chance`.
//!
//! Every draw has an address: the request (experiment seed, prompt, repeat), the round,
//! and a [`Site`] within it. Neither the cell of a sweep, nor the thread, nor the order
//! of execution is part of it, so two methods use common random numbers and a resumed
//! run draws the same numbers as an uninterrupted one.

mod exhaustive;
mod seeded;

pub use exhaustive::{Exhaustive, Waypoint};
pub use seeded::{Request, Seeded};

use std::ops::Range;

use crate::core::distribution::{Dist, Token};

/// The purpose of a draw. One round uses each (purpose, node) pair at most once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Purpose {
    /// Drawing a draft token; the node is the one being made.
    Draft = 0,
    /// Accepting or rejecting a draft token; the node is that token's.
    Accept = 1,
    /// Drawing the correction after a rejection.
    Residual = 2,
    /// Drawing the token after a fully accepted draft.
    Bonus = 3,
    /// Drawing the target's own token at a node, to be compared with drafts.
    Target = 4,
}

/// The address of a draw within a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Site {
    /// The purpose of the draw.
    pub purpose: Purpose,
    /// The node of the draft for [`Purpose::Draft`] and [`Purpose::Accept`]; for the
    /// other purposes the row of the target's distributions, 0 for the context.
    pub node: usize,
}

/// A source of random decisions.
pub trait Chance: std::fmt::Debug {
    /// Starts a round; sites may be used again afterwards.
    fn begin_round(&mut self, round: u64);

    /// True with probability `p`: never at `p <= 0`, always at `p >= 1`.
    fn bernoulli(&mut self, site: Site, p: f64) -> bool;

    /// A token drawn from `dist`.
    fn categorical(&mut self, site: Site, dist: &Dist) -> Token;

    /// The winner `argmin_v min_j E[position, j, v] / p(v)` of an exponential race
    /// whose noise depends on the absolute position and the list alone, so that two
    /// distributions raced at one position are coupled (equivalent to Gumbel-max;
    /// Daliri, Musco and Suresh 2024, arXiv 2408.07978; several lists: Rowan, Phan and
    /// Khisti 2025, arXiv 2506.05632). The winner is distributed as `dist`.
    fn race(&mut self, position: usize, lists: Range<usize>, dist: &Dist) -> Token;
}

impl<C: Chance + ?Sized> Chance for &mut C {
    fn begin_round(&mut self, round: u64) {
        (**self).begin_round(round);
    }

    fn bernoulli(&mut self, site: Site, p: f64) -> bool {
        (**self).bernoulli(site, p)
    }

    fn categorical(&mut self, site: Site, dist: &Dist) -> Token {
        (**self).categorical(site, dist)
    }

    fn race(&mut self, position: usize, lists: Range<usize>, dist: &Dist) -> Token {
        (**self).race(position, lists, dist)
    }
}

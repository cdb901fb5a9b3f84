//! Audits the use of random numbers. Enumeration cannot detect a draw that is used twice: it treats
//! both uses as independent decisions.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::core::chance::{Chance, Purpose, Site};
use crate::core::distribution::{Dist, Token};

/// A source of randomness that records the address of every draw.
#[derive(Debug, Clone)]
pub struct DrawLog<C> {
    inner: C,
    round: u64,
    seen: BTreeSet<(u64, Site)>,
    report: DrawFindings,
}

/// The findings of an audit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DrawFindings {
    /// Number of draws.
    pub draws: usize,
    /// Number of races, which share their noise by design.
    pub races: usize,
    /// The purposes of the draws.
    pub purposes: BTreeSet<Purpose>,
    /// Addresses that were drawn more than once, in the order of discovery.
    pub repeated: Vec<(u64, Site)>,
}

impl DrawFindings {
    /// Adds the findings of another generation.
    pub fn add(&mut self, other: &Self) {
        self.draws += other.draws;
        self.races += other.races;
        self.purposes.extend(&other.purposes);
        self.repeated.extend(&other.repeated);
    }
}

impl<C> DrawLog<C> {
    /// An audit of `inner`, beginning in round 0.
    pub fn new(inner: C) -> Self {
        Self { inner, round: 0, seen: BTreeSet::new(), report: DrawFindings::default() }
    }

    /// The findings so far.
    pub fn report(&self) -> &DrawFindings {
        &self.report
    }

    fn note(&mut self, site: Site) {
        self.report.draws += 1;
        self.report.purposes.insert(site.purpose);
        if !self.seen.insert((self.round, site)) {
            self.report.repeated.push((self.round, site));
        }
    }
}

impl<C: Chance> Chance for DrawLog<C> {
    fn begin_round(&mut self, round: u64) {
        self.round = round;
        self.inner.begin_round(round);
    }

    fn bernoulli(&mut self, site: Site, p: f64) -> bool {
        self.note(site);
        self.inner.bernoulli(site, p)
    }

    fn categorical(&mut self, site: Site, dist: &Dist) -> Token {
        self.note(site);
        self.inner.categorical(site, dist)
    }

    fn race(&mut self, position: usize, lists: Range<usize>, dist: &Dist) -> Token {
        self.report.races += 1;
        self.inner.race(position, lists, dist)
    }
}

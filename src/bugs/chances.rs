//! Random numbers that are used twice, or too coarse.
//!
//! The enumeration treats every draw as independent, so each of these mistakes has two forms. For
//! the seeded generator it is a second draw at a used address; for the enumeration it is the same
//! in probabilities. After a decision, a uniform is known to lie in an interval, and its next
//! decision is conditional on that interval.

use std::collections::BTreeMap;
use std::ops::Range;

use super::mutant::{CASE, Case, Mutant, RIGHT, RIGHT_RACE};
use super::uniforms::{accepted_with_number_of_draft, residual_with_number_of_accept};
use super::{BUG, Bug, BugDistribution};
use crate::core::chance::{Chance, Purpose, Site};
use crate::core::distribution::{Dist, Token};

/// The round number of draws without a round.
const ANY_ROUND: u64 = (1 << 63) - 1;

/// A source of randomness that misuses another one in the ways that its fields name.
#[derive(Debug)]
pub(super) struct Altered<'c> {
    pub(super) inner: &'c mut dyn Chance,
    pub(super) round: u64,
    /// A purpose whose draws use the address of a second purpose.
    pub(super) readdressed: Option<[Purpose; 2]>,
    /// Whether uniforms have 24 bits, as from an f32 generator: they are below a bound if they are
    /// below the next multiple of 2^-24.
    pub(super) coarse: bool,
    /// Whether the noise of a race depends on the round as well as the position.
    pub(super) drifts: bool,
    /// The position of the first node, if draft tokens are drawn at addresses without a round.
    pub(super) position: Option<usize>,
    /// Whether draft tokens and corrections race with noise keyed by round and node.
    pub(super) races: bool,
}

impl<'c> Altered<'c> {
    /// No misuse.
    pub(super) fn none(inner: &'c mut dyn Chance) -> Self {
        let (readdressed, position) = (None, None);
        Self { inner, round: 0, readdressed, coarse: false, drifts: false, position, races: false }
    }

    fn site(&self, site: Site) -> Site {
        match self.readdressed {
            Some([from, to]) if site.purpose == from => Site { purpose: to, ..site },
            _ => site,
        }
    }
}

impl Chance for Altered<'_> {
    fn begin_round(&mut self, round: u64) {
        self.round = round;
        self.inner.begin_round(round);
    }

    fn bernoulli(&mut self, site: Site, p: f64) -> bool {
        let (site, p) = (self.site(site), if self.coarse { coarse(p) } else { p });
        self.inner.bernoulli(site, p)
    }

    fn categorical(&mut self, site: Site, dist: &Dist) -> Token {
        if self.races && matches!(site.purpose, Purpose::Draft | Purpose::Residual) {
            return self.inner.race((self.round as usize) << 20 | site.node, 0..1, dist);
        }
        if let Some(position) = self.position {
            self.inner.begin_round(ANY_ROUND);
            let site = Site { node: position + site.node, ..site };
            let token = self.inner.categorical(site, dist);
            self.inner.begin_round(self.round);
            return token;
        }
        let (site, coarse) = (self.site(site), self.coarse.then(|| coarse_dist(dist)));
        self.inner.categorical(site, coarse.as_ref().unwrap_or(dist))
    }

    fn race(&mut self, position: usize, lists: Range<usize>, dist: &Dist) -> Token {
        let round = if self.drifts { self.round as usize } else { 0 };
        self.inner.race(position + (round << 20), lists, dist)
    }
}

fn coarse(bound: f64) -> f64 {
    let steps = f64::from(1 << 24);
    (bound * steps).ceil() / steps
}

fn coarse_dist(dist: &Dist) -> Dist {
    let mut sum = 0.0;
    let parts = dist.support().map(|(token, p)| {
        let below = coarse(sum);
        sum += p;
        (token, (coarse(sum) - below).max(0.0))
    });
    Dist::sparse(dist.vocab(), parts.collect()).unwrap_or_else(|_| dist.clone())
}

/// Tracks the interval of a node's uniform and draws conditionally on it.
#[derive(Debug)]
struct Linked<'c> {
    inner: &'c mut dyn Chance,
    /// The purpose that reuses a uniform.
    reuses: Purpose,
    known: BTreeMap<usize, (f64, f64)>,
}

impl Chance for Linked<'_> {
    fn begin_round(&mut self, round: u64) {
        self.known.clear();
        self.inner.begin_round(round);
    }

    fn bernoulli(&mut self, site: Site, p: f64) -> bool {
        let (low, high) = self.interval(site);
        let yes = self.inner.bernoulli(site, (p - low) / (high - low));
        let cut = p.clamp(low, high);
        self.known.insert(site.node, if yes { (low, cut) } else { (cut, high) });
        yes
    }

    fn categorical(&mut self, site: Site, dist: &Dist) -> Token {
        let (low, high) = self.interval(site);
        let mut sum = 0.0;
        let mut parts = Vec::new();
        for (token, p) in dist.support() {
            let (from, to) = (f64::max(sum, low), f64::min(sum + p, high));
            parts.push((token, (to - from).max(0.0), (from, to)));
            sum += p;
        }
        let weights = parts.iter().map(|&(token, w, _)| (token, w)).collect();
        // Rounding left an interval without a token: any token will do.
        let Ok(conditional) = Dist::sparse(dist.vocab(), weights) else { return dist.argmax() };
        let token = self.inner.categorical(site, &conditional);
        if let Some(&(_, _, part)) = parts.iter().find(|part| part.0 == token) {
            self.known.insert(site.node, part);
        }
        token
    }

    fn race(&mut self, position: usize, lists: Range<usize>, dist: &Dist) -> Token {
        self.inner.race(position, lists, dist)
    }
}

impl Linked<'_> {
    fn interval(&self, site: Site) -> (f64, f64) {
        let known = self.known.get(&site.node).copied();
        known.filter(|_| site.purpose == self.reuses).unwrap_or((0.0, 1.0))
    }
}

const SEEDED: Case = Case { seeded: true, ..CASE };

pub(super) const BUGS: &[Bug] = &[
    Bug {
        name: "residual_reuses_uniform",
        summary: "one uniform decides the rejection and then draws the correction",
        was: &["accept_uniform_reused_for_residual"],
        mutant: Some(Mutant {
            case: SEEDED,
            walked: Some(|inner| {
                Box::new(Linked { inner, reuses: Purpose::Residual, known: BTreeMap::new() })
            }),
            seeded: |inner| {
                let readdressed = Some([Purpose::Residual, Purpose::Accept]);
                Box::new(Altered { readdressed, ..Altered::none(inner) })
            },
            ..RIGHT
        }),
        distribution: Some(|dists| {
            let corrected =
                residual_with_number_of_accept(dists.residual.as_deref()?, dists.pair()?);
            Some(BugDistribution::Drafted { accepted: dists.kept()?, corrected })
        }),
        ..BUG
    },
    Bug {
        name: "accept_reuses_uniform",
        summary: "the uniform that drew a draft token also accepts it",
        was: &["draft_uniform_reused_for_accept"],
        mutant: Some(Mutant {
            case: SEEDED,
            walked: Some(|inner| {
                Box::new(Linked { inner, reuses: Purpose::Accept, known: BTreeMap::new() })
            }),
            seeded: |inner| {
                let readdressed = Some([Purpose::Accept, Purpose::Draft]);
                Box::new(Altered { readdressed, ..Altered::none(inner) })
            },
            ..RIGHT
        }),
        distribution: Some(|dists| {
            let (target, draft) = dists.pair()?;
            let accepted = accepted_with_number_of_draft(target, draft);
            Some(BugDistribution::corrected_by(accepted, dists.residual.as_deref()))
        }),
        ..BUG
    },
    Bug {
        name: "uniform_24_bit_tail",
        summary: "uniforms have 24 bits: a tail of the distribution below 2^-24 is never drawn",
        seen: "vLLM #51367",
        mutant: Some(Mutant {
            case: SEEDED,
            seeded: |inner| Box::new(Altered { coarse: true, ..Altered::none(inner) }),
            ..RIGHT
        }),
        ..BUG
    },
    Bug {
        name: "race_keyed_by_round",
        summary: "the noise of a position depends on the round that reaches it",
        mutant: Some(Mutant {
            seeded: |inner| Box::new(Altered { drifts: true, ..Altered::none(inner) }),
            ..RIGHT_RACE
        }),
        ..BUG
    },
];

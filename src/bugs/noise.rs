//! The correction is drawn with the noise that drew the rejected token.
//!
//! A token with distribution q is the winner `argmin_v E_v / q(v)` of a race. If a correction with
//! distribution r is the winner of a race with the same `E`, it depends on the rejected token. The
//! enumeration treats every draw as independent, so it draws the correction from its distribution
//! given the rejected token.

use std::collections::BTreeMap;
use std::ops::Range;

use super::chances::Altered;
use super::masses::support;
use super::mutant::{Case, Mutant, RIGHT, on_paper};
use super::{BUG, Bug, BugDistribution};
use crate::core::chance::{Chance, Purpose, Site};
use crate::core::distribution::{Dist, Token};

/// For the enumeration: remembers which token was drawn from which distribution at a node.
#[derive(Debug)]
struct GivenDraft<'c> {
    inner: &'c mut dyn Chance,
    drawn: BTreeMap<usize, (Dist, Token)>,
}

impl Chance for GivenDraft<'_> {
    fn begin_round(&mut self, round: u64) {
        self.drawn.clear();
        self.inner.begin_round(round);
    }

    fn bernoulli(&mut self, site: Site, p: f64) -> bool {
        self.inner.bernoulli(site, p)
    }

    fn categorical(&mut self, site: Site, dist: &Dist) -> Token {
        let given = match self.drawn.get(&site.node) {
            Some((q, x)) if site.purpose == Purpose::Residual => given(q, *x, dist),
            _ => None,
        };
        let token = self.inner.categorical(site, given.as_ref().unwrap_or(dist));
        if site.purpose == Purpose::Draft {
            self.drawn.insert(site.node, (dist.clone(), token));
        }
        token
    }

    fn race(&mut self, position: usize, lists: Range<usize>, dist: &Dist) -> Token {
        self.inner.race(position, lists, dist)
    }
}

/// The distribution of the winner under `r` given that `x` wins under `q`.
fn given(q: &Dist, x: Token, r: &Dist) -> Option<Dist> {
    let others = r.support().filter(|(y, _)| *y != x);
    let mut weights = others.map(|(y, _)| (y, both(q, x, r, y) / q.p(x))).collect::<Vec<_>>();
    let rest = 1.0 - weights.iter().map(|(_, weight)| weight).sum::<f64>();
    // x wins the remaining mass. If r excludes x, the remainder is rounding.
    weights.push((x, if r.p(x) > 0.0 { rest.max(0.0) } else { 0.0 }));
    Dist::sparse(r.vocab(), weights).ok()
}

/// The probability that x wins under q and another y under r. With s and t the arrival times of the
/// winners and u = t / s, `∫∫ q(x) r(y) s e^(-s D(u)) ds du = q(x) r(y) ∫ du / D(u)²`,
/// `D(u) = Σ_v max(q(v), u r(v))`, from `q(y)/r(y)` to `q(x)/r(x)`.
fn both(q: &Dist, x: Token, r: &Dist, y: Token) -> f64 {
    let vocab = 0..q.vocab() as Token;
    let (low, high) = (q.p(y) / r.p(y), q.p(x) / r.p(x));
    // D is linear between these.
    let bends = vocab.clone().map(|v| q.p(v) / r.p(v)).filter(|u| *u > low && *u < high);
    let mut bends = [low, high].into_iter().chain(bends).collect::<Vec<_>>();
    bends.sort_by(f64::total_cmp);
    let pieces = bends.windows(2).filter(|_| low < high).map(|ends| {
        let middle =
            if ends[1].is_finite() { 0.5 * (ends[0] + ends[1]) } else { 2.0 * ends[0] + 1.0 };
        let (mut level, mut slope) = (0.0, 0.0);
        for v in vocab.clone() {
            if q.p(v) > middle * r.p(v) { level += q.p(v) } else { slope += r.p(v) }
        }
        let at = |u: f64| if u.is_finite() { 1.0 / (level + slope * u) } else { 0.0 };
        (at(ends[0]) - at(ends[1])) / slope
    });
    q.p(x) * r.p(y) * pieces.sum::<f64>()
}

/// The distribution of a residual draw that reuses the noise of the draft's draw.
///
/// Both are races: with independent exponential times E, the draft's winner y has the smallest
/// E/q, the residual's the smallest E/r, where r = norm((p − q)⁺). Given y, its time s = E_y/q_y
/// is exponential, and every other token has survived until q·s. Only tokens with r = 0 are
/// rejected, so the residual's winner does not depend on y: token v arrives at
/// s·a_v + Exp(r_v), a_v = q_v/r_v. Integrating over s, it wins with probability
/// r_v ∫ dw/(1 + G(w))² from a_v on, where G(w) = Σ r_v (w − a_v)⁺.
fn residual_with_noise_of_draft(residual: &[f64], draft: &[f64]) -> Vec<f64> {
    let arrivals = support(residual).map(|(token, r)| (draft[token] / r, token as u32, r));
    let mut arrivals = arrivals.collect::<Vec<_>>();
    arrivals.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    // 1/(1 + G) where each arrival begins, from the first on: G grows by its slope, the sum of r.
    let (mut grown, mut slope, mut last) = (0.0, 0.0, 0.0);
    let starts = arrivals.iter().map(|&(begin, _, r)| {
        grown += slope * (begin - last);
        (last, slope) = (begin, slope + r);
        (1.0 / (1.0 + grown), slope)
    });
    let starts = starts.collect::<Vec<_>>();
    let mut dist = vec![0.0; residual.len()];
    let (mut tail, mut next) = (0.0, 0.0);
    for (&(_, token, r), &(height, slope)) in arrivals.iter().zip(&starts).rev() {
        tail += (height - next) / slope;
        next = height;
        dist[token as usize] = r * tail;
    }
    dist
}

/// Only token 0 is rejected, with probability 0.4. The correction is 1 or 2 with probability 1/2
/// each; given that 0 won, with 7/12 and 5/12.
const FIXTURE: Case =
    Case { seeded: true, ..on_paper(&[0.2, 0.3, 0.5], &[0.6, 0.1, 0.3], 0.4 / 12.0) };

pub(super) const BUGS: &[Bug] = &[Bug {
    name: "residual_reuses_noise",
    summary: "the noise that drew a rejected token draws its correction",
    seen: "vLLM #54282",
    was: &["residual_reuses_draft_noise"],
    mutant: Some(Mutant {
        case: FIXTURE,
        walked: Some(|inner| Box::new(GivenDraft { inner, drawn: BTreeMap::new() })),
        seeded: |inner| Box::new(Altered { races: true, ..Altered::none(inner) }),
        ..RIGHT
    }),
    distribution: Some(|dists| {
        let (residual, draft) = (dists.residual.as_deref()?, dists.draft.as_deref()?);
        let again = residual_with_noise_of_draft(residual, draft);
        Some(BugDistribution::corrected_by(dists.kept()?, Some(&again)))
    }),
    ..BUG
}];

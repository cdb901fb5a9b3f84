//! An upper bound on the acceptance of any verifier.
//!
//! The children form a random set X. A verification rule couples X with a token Y of
//! distribution p and keeps a child if Y is in X. The largest acceptance probability of
//! any coupling is `α* = 1 + min_S (p(S) − P(X ⊆ S))` over sets of tokens S (Sun et al.
//! 2023, arXiv 2310.15141; Khisti et al. 2025, arXiv 2410.18234; Hu et al. 2025,
//! arXiv 2502.18779).

use crate::core::distribution::Dist;
use crate::core::tree::{Draft, NodeId, Siblings};

/// With up to this many possible tokens, all sets S are enumerated.
const FEW: usize = 8;

/// `α*` for the children of `at`, given how they were drawn. `None` if there are no
/// children, if they are of mixed kinds, or if more than two were drawn without
/// replacement from many tokens, for which no fast formula is known.
///
/// The mass of a distribution without one token is summed directly and not computed as
/// one minus its probability: a draft model may give one token a probability that
/// rounds to 1.
pub fn ceiling(draft: &Draft, at: Option<NodeId>, p: &Dist) -> Option<f64> {
    let children = draft.children(at).collect::<Vec<_>>();
    let dist = |&id: &NodeId| draft.node(id).distribution(draft.vocab());
    let first = dist(children.first()?);
    let listed = |ids: &[NodeId]| ids.iter().map(|&id| p.p(draft.node(id).token)).sum::<f64>();
    let k = children.iter().map(|&id| draft.node(id).multiplicity).sum();
    match draft.siblings(at) {
        _ if k == 1 => Some(p.overlap(&first)),
        kind @ (Siblings::Independent | Siblings::Distinct) => ceilings(p, &first, [(kind, k)])[0],
        Siblings::TopK => Some(listed(&children)),
        Siblings::LastSampled => {
            let (last, certain) = children.split_last()?;
            Some(listed(certain) + p.overlap(&dist(last)))
        }
        Siblings::Hub => Some(hub(p, &first)),
        Siblings::Mixed => None,
    }
}

/// `α*` for tokens drawn from q, as many and in the way that each of `draws` states; `None`
/// as for [`ceiling`], and for all other kinds of siblings.
pub fn ceilings<const N: usize>(
    p: &Dist,
    q: &Dist,
    draws: [(Siblings, usize); N],
) -> [Option<f64>; N] {
    let pairs = by_ratio(p, q);
    draws.map(|(kind, k)| {
        let found = match kind {
            Siblings::Independent => Some(independent(&pairs, k)),
            Siblings::Distinct => distinct(&pairs, k),
            _ => None,
        };
        // Rounding, where p and q share almost nothing.
        found.map(|acceptance| acceptance.max(0.0))
    })
}

/// (p, q) of every token in the support of q, by ascending p/q. A set S that minimises
/// `p(S) − P(X ⊆ S)` contains only such tokens.
fn by_ratio(p: &Dist, q: &Dist) -> Vec<(f64, f64)> {
    let mut pairs = q.support().map(|(token, q)| (p.p(token), q)).collect::<Vec<_>>();
    pairs.sort_by(|a, b| (a.0 * b.1).total_cmp(&(b.0 * a.1)));
    pairs
}

/// `P(X ⊆ S) = q(S)^k`, and the optimal S is a prefix of the order by p/q.
fn independent(pairs: &[(f64, f64)], k: usize) -> f64 {
    let mut sums = (0.0, 0.0);
    let gaps = pairs.iter().map(|(p, q)| {
        sums = (sums.0 + p, sums.1 + q);
        sums.0 - f64::powi(sums.1, k as i32)
    });
    1.0 + gaps.fold(0.0, f64::min)
}

fn distinct(pairs: &[(f64, f64)], k: usize) -> Option<f64> {
    match k {
        _ if pairs.len() <= FEW => Some(1.0 + every_set(pairs, k)),
        2 => Some(1.0 + prefixes_of_two(pairs)),
        _ => None,
    }
}

/// The minimum of `p(S) − P(X ⊆ S)` over all sets S.
fn every_set(pairs: &[(f64, f64)], k: usize) -> f64 {
    let gap = |bits: u32| {
        let (inside, outside) = (0..pairs.len()).partition::<Vec<_>, _>(|i| bits >> i & 1 == 1);
        let p = inside.iter().map(|&i| pairs[i].0).sum::<f64>();
        let mut weights = inside.iter().map(|&i| pairs[i].1).collect::<Vec<_>>();
        let outside = outside.iter().map(|&i| pairs[i].1).sum();
        p - all_inside(&mut weights, outside, k.min(pairs.len()))
    };
    (0..1 << pairs.len()).map(gap).fold(0.0, f64::min)
}

/// Probability that `k` draws without replacement all fall on `weights`, when the other
/// tokens have a total mass of `outside`.
fn all_inside(weights: &mut Vec<f64>, outside: f64, k: usize) -> f64 {
    if k == 0 {
        return 1.0;
    }
    let left = outside + weights.iter().sum::<f64>();
    let mut sum = 0.0;
    for i in 0..weights.len() {
        let q = weights.swap_remove(i);
        sum += q / left * all_inside(weights, outside, k - 1);
        weights.push(q);
        let last = weights.len() - 1;
        weights.swap(i, last);
    }
    sum
}

/// As [`every_set`] for two draws, over the prefixes of the order by p/q only:
/// `P(X ⊆ S) = Σ q_i (q(S) − q_i) / (1 − q_i)` over the tokens of S.
fn prefixes_of_two(pairs: &[(f64, f64)]) -> f64 {
    let top = (0..pairs.len()).max_by(|&a, &b| pairs[a].1.total_cmp(&pairs[b].1));
    let rest = (0..pairs.len()).filter(|&i| Some(i) != top).map(|i| pairs[i].1).sum::<f64>();
    // q of the most probable token if it is in S; the other three are sums over the
    // other tokens in S.
    let (mut top_q, mut q, mut odds, mut twice) = (0.0, 0.0, 0.0, 0.0);
    let (mut p, mut least) = (0.0, 0.0_f64);
    for (i, &(p_of, q_of)) in pairs.iter().enumerate() {
        p += p_of;
        if Some(i) == top {
            top_q = q_of;
        } else {
            q += q_of;
            odds += q_of / (1.0 - q_of);
            twice += q_of * q_of / (1.0 - q_of);
        }
        least = least.min(p - (top_q / rest * q + (top_q + q) * odds - twice));
    }
    least
}

/// One of the two tokens is always the hub, so X ⊆ S requires the hub to be in S.
fn hub(p: &Dist, q: &Dist) -> f64 {
    let hub = q.argmax();
    let others = || q.support().filter(|&(token, _)| token != hub);
    let rest = others().map(|(_, q)| q).sum::<f64>();
    let lacking = others().map(|(token, q)| (q / rest - p.p(token)).max(0.0)).sum::<f64>();
    1.0 + (p.p(hub) - lacking).min(0.0)
}

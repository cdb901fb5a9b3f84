//! The quantities of `docs/metrics.md`, computed from tables by their definitions,
//! without any distribution, draft or sampler of the project.

/// The distribution of logits at a temperature; at 0, the first of the largest is certain.
pub(crate) fn distribution(logits: &[f64], temperature: f64) -> Vec<f64> {
    let max = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if temperature == 0.0 {
        let best = logits.iter().position(|&x| x == max).unwrap();
        return one_hot(logits.len(), best);
    }
    scaled(logits.iter().map(|x| ((x - max) / temperature).exp()).collect()).unwrap()
}

/// A measure divided by its mass; `None` if it has none.
pub(crate) fn scaled(measure: Vec<f64>) -> Option<Vec<f64>> {
    let mass = measure.iter().sum::<f64>();
    (mass > 0.0).then(|| measure.iter().map(|x| x / mass).collect())
}

pub(crate) fn one_hot(vocab: usize, token: usize) -> Vec<f64> {
    (0..vocab).map(|t| f64::from(u8::from(t == token))).collect()
}

/// Σₓ min(p(x), q(x)).
pub(crate) fn overlap(p: &[f64], q: &[f64]) -> f64 {
    p.iter().zip(q).map(|(p, q)| p.min(*q)).sum()
}

/// Entropy in nats.
pub(crate) fn entropy(dist: &[f64]) -> f64 {
    dist.iter().filter(|x| **x > 0.0).map(|x| -x * x.ln()).sum()
}

/// ½ Σₓ |a(x) − b(x)|.
pub(crate) fn total_variation(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).sum::<f64>() / 2.0
}

/// The difference of the two largest logits.
pub(crate) fn gap(logits: &[f64]) -> f64 {
    let mut sorted = logits.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    sorted[0] - sorted[1]
}

/// How the children of a node were drawn.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Drawn {
    /// This many times from this distribution, independently.
    Independently(Vec<f64>, usize),
    /// One after another from this distribution, without replacement.
    Distinct(Vec<f64>),
    /// Listed, without any draw.
    Certain,
}

/// α*: 1 + min over sets S of p(S) − P(all children in S). `None` for more than
/// two children drawn without replacement from more than 8 possible tokens.
pub(crate) fn ceiling(p: &[f64], drawn: &Drawn, children: &[usize]) -> Option<f64> {
    if let Drawn::Distinct(q) = drawn {
        let possible = q.iter().filter(|x| **x > 0.0).count();
        if children.len() > 2 && possible > 8 {
            return None;
        }
    }
    let least = (0..1usize << p.len()).map(|set| {
        let inside = |token: usize| set >> token & 1 == 1;
        let mass =
            |dist: &[f64]| (0..dist.len()).filter(|&t| inside(t)).map(|t| dist[t]).sum::<f64>();
        let all = match drawn {
            Drawn::Independently(q, draws) => mass(q).powi(*draws as i32),
            Drawn::Distinct(q) => all_inside(q, &inside, children.len()),
            Drawn::Certain => f64::from(u8::from(children.iter().all(|&t| inside(t)))),
        };
        mass(p) - all
    });
    Some(1.0 + least.fold(0.0, f64::min))
}

/// Probability that `count` draws by weight, without replacement, stay inside a set.
fn all_inside(weights: &[f64], inside: &dyn Fn(usize) -> bool, count: usize) -> f64 {
    if count == 0 {
        return 1.0;
    }
    let first = (0..weights.len()).filter(|&t| inside(t) && weights[t] > 0.0);
    let drawn_first = first.map(|t| {
        let mut rest = weights.to_vec();
        rest[t] = 0.0;
        weights[t] / weights.iter().sum::<f64>() * all_inside(&rest, inside, count - 1)
    });
    drawn_first.sum()
}

/// A distribution given that one token is not drawn.
pub(crate) fn without(dist: &[f64], token: usize) -> Option<Vec<f64>> {
    scaled((0..dist.len()).map(|t| if t == token { 0.0 } else { dist[t] }).collect())
}

/// The distribution of the token that follows a node with one child drawn from `q`, if a
/// child x is kept with probability `keep(x)` and the token is drawn from `rest` otherwise.
fn kept_or_corrected(q: &[f64], keep: impl Fn(usize) -> f64, rest: &[f64]) -> Vec<f64> {
    let kept = (0..q.len()).map(|x| q[x] * keep(x)).collect::<Vec<_>>();
    let lost = 1.0 - kept.iter().sum::<f64>();
    kept.iter().zip(rest).map(|(kept, rest)| kept + lost * rest).collect()
}

/// The distribution of the next token under lenient rejection sampling.
pub(crate) fn lenient(p: &[f64], q: &[f64], lenience: f64) -> Vec<f64> {
    let rest = p.iter().zip(q).map(|(p, q)| (p - lenience * q).max(0.0)).collect();
    let rest = scaled(rest).unwrap_or_else(|| p.to_vec());
    let ratio = |x: usize| if q[x] > 0.0 { (p[x] / (lenience * q[x])).min(1.0) } else { 0.0 };
    kept_or_corrected(q, ratio, &rest)
}

/// The distribution of the next token under typical acceptance.
pub(crate) fn typical(p: &[f64], q: &[f64], epsilon: f64, delta: f64) -> Vec<f64> {
    let bound = epsilon.min(delta * (-entropy(p)).exp());
    kept_or_corrected(q, |x| f64::from(u8::from(p[x] > bound)), p)
}

//! Distributions of decoders that use one uniform number twice. A draw gives the token whose
//! interval of the cumulative distribution, in token order, contains the number.

use super::masses::support;

/// The interval of each token.
fn intervals(dist: &[f64]) -> impl Iterator<Item = (usize, [f64; 2])> + '_ {
    support(dist).scan(0.0, |end, (token, mass)| {
        let begin = *end;
        *end += mass;
        Some((token, [begin, *end]))
    })
}

/// Acceptance by the number that drew the token: x is kept if the number lies in the interval of x
/// and below p/q.
pub(super) fn accepted_with_number_of_draft(target: &[f64], draft: &[f64]) -> Vec<f64> {
    let mut accepted = vec![0.0; target.len()];
    for (token, [begin, end]) in intervals(draft) {
        let ratio = target[token] / (end - begin);
        accepted[token] = (end.min(ratio) - begin).max(0.0);
    }
    accepted
}

/// The residual drawn with the number that rejected the token, which lies above p/q of that token.
/// The result has the mass of all rejections.
pub(super) fn residual_with_number_of_accept(
    residual: &[f64],
    (target, draft): (&[f64], &[f64]),
) -> Vec<f64> {
    // Tokens with the number above which they are rejected, and their q.
    let mut rejected = support(draft).map(|(x, q)| (target[x] / q, q)).collect::<Vec<_>>();
    rejected.retain(|(ratio, _)| *ratio < 1.0);
    rejected.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let mut steps = rejected.into_iter().peekable();
    let (mut height, mut dist) = (0.0, vec![0.0; residual.len()]);
    for (token, [mut begin, end]) in intervals(residual) {
        let end = end.min(1.0);
        // The density of rejecting numbers is a step function.
        while let Some((ratio, q)) = steps.next_if(|(ratio, _)| *ratio < end) {
            let at = ratio.max(begin);
            dist[token] += height * (at - begin);
            (begin, height) = (at, height + q);
        }
        dist[token] += height * (end - begin).max(0.0);
    }
    dist
}

//! Laws of decoders that use one uniform number twice. A token is drawn as the one whose interval
//! of the cumulative law, in the order of tokens, contains the number.

use crate::distribution::Dist;

/// Where each token of a law has its interval.
fn intervals(law: &Dist) -> impl Iterator<Item = (usize, [f64; 2])> + '_ {
    law.support().scan(0.0, |end, (token, mass)| {
        let begin = *end;
        *end += mass;
        Some((token as usize, [begin, *end]))
    })
}

/// Accepted with the number that has drawn the token: x is kept if it lies in x's interval and
/// below p/q.
pub(super) fn accepted_with_number_of_draft(target: &Dist, draft: &Dist) -> Vec<f64> {
    let mut accepted = vec![0.0; target.vocab()];
    for (token, [begin, end]) in intervals(draft) {
        let ratio = target.p(token as u32) / (end - begin);
        accepted[token] = (end.min(ratio) - begin).max(0.0);
    }
    accepted
}

/// The residual, drawn with the number that has rejected the token: it is above p/q of that token.
/// The law has the mass of all rejections; `None` if nothing is ever rejected.
pub(super) fn residual_with_number_of_accept(target: &Dist, draft: &Dist) -> Option<Vec<f64>> {
    let residual = target.residual(draft)?;
    // Tokens by the number from which on they are rejected, with the sum of q up to each.
    let mut rejected = draft.support().map(|(x, q)| (target.p(x) / q, q)).collect::<Vec<_>>();
    rejected.retain(|(ratio, _)| *ratio < 1.0);
    rejected.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut steps = rejected.into_iter().peekable();
    let (mut height, mut law) = (0.0, vec![0.0; target.vocab()]);
    for (token, [mut begin, end]) in intervals(&residual) {
        let end = end.min(1.0);
        // The density of rejecting numbers is a staircase.
        while let Some((ratio, q)) = steps.next_if(|(ratio, _)| *ratio < end) {
            let at = ratio.max(begin);
            law[token] += height * (at - begin);
            (begin, height) = (at, height + q);
        }
        law[token] += height * (end - begin).max(0.0);
    }
    Some(law)
}

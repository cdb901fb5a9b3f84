//! The distribution of a residual draw that reuses the noise of the draft's draw.
//!
//! Both are races: with independent exponential times E, the draft's winner y has the smallest
//! E/q, the residual's the smallest E/r, where r = norm((p − q)⁺). Given y, its time s = E_y/q_y
//! is exponential, and every other token has survived until q·s. Only tokens with r = 0 are
//! rejected, so the residual's winner does not depend on y: token v arrives at
//! s·a_v + Exp(r_v), a_v = q_v/r_v. Integrating over s, it wins with probability
//! r_v ∫ dw/(1 + G(w))² from a_v on, where G(w) = Σ r_v (w − a_v)⁺.

use super::masses::support;

pub(super) fn residual_with_noise_of_draft(residual: &[f64], draft: &[f64]) -> Vec<f64> {
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

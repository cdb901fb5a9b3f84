//! Order statistics.

/// The `p`-quantile of sorted values by linear interpolation between the two
/// nearest order statistics (Hyndman and Fan 1996, definition 7, the default of
/// R and NumPy). `None` without values; `p` is clamped to `[0, 1]`.
pub fn quantile(sorted: &[f64], p: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let at = p.clamp(0.0, 1.0) * last as f64;
    let (below, above) = (at.floor() as usize, at.ceil() as usize);
    Some(sorted[below] + (at - at.floor()) * (sorted[above] - sorted[below]))
}

/// The middle value. `None` without values.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(&sorted(values), 0.5)
}

/// Minimum, the nine deciles, maximum. `None` without values.
pub fn deciles(values: &[f64]) -> Option<[f64; 11]> {
    let sorted = sorted(values);
    let mut cuts = [0.0; 11];
    for (i, cut) in cuts.iter_mut().enumerate() {
        *cut = quantile(&sorted, i as f64 / 10.0)?;
    }
    Some(cuts)
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values
}

//! The vectorised exponential, tested through the sampler that uses it.

use specdec::core::sampling::{History, Logits, Sampler, SamplingParams};

/// eˣ for x ≤ 0 as the sampler computes it: the odds of two tokens whose logits
/// differ by x.
fn exp(xs: &[f32]) -> Vec<f64> {
    let sampler = Sampler::new(SamplingParams::default()).unwrap();
    let history = History { prompt_len: 0, context: &[], drafted: &[] };
    let logits = [&[0.0], xs].concat();
    let dist = sampler.distribution(&Logits::F32(logits), history).unwrap();
    (1..=xs.len() as u32).map(|token| dist.p(token) / dist.p(0)).collect()
}

#[test]
fn the_exponential_is_accurate_to_two_units_in_the_last_place() {
    let xs = (0..200_000).map(|i| -87.0 * (i as f32 / 200_000.0)).collect::<Vec<_>>();
    for (x, found) in xs.iter().zip(exp(&xs)) {
        let gap = found / f64::from(*x).exp() - 1.0;
        // A unit in the last place is at most 2⁻²³ of a number; the division by
        // the first token's probability adds 2⁻⁵².
        assert!(gap.abs() < 2.0 * 2f64.powi(-23), "exp({x}): off by {gap}");
    }
}

#[test]
fn tokens_far_below_the_most_probable_one_underflow_to_zero() {
    let found = exp(&[-88.5, -1e3, -1e30, f32::NEG_INFINITY]);
    assert_eq!(found, [0.0; 4]);
    assert_eq!(exp(&[0.0, -0.0]), [1.0; 2]);
}

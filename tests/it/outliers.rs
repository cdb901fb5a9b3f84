//! Prompts whose times are far from those of the others, and their influence on a speedup.

use std::collections::BTreeMap;

use specdec::measure::statistics::{Outlier, PairedTime, Side, outliers, speedup};

const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

/// Eight prompts with a speedup of two, within 2 %, in rounds of two tokens.
fn calm() -> BTreeMap<&'static str, PairedTime> {
    let pair = |(i, name): (usize, &'static str)| {
        let noise = 1.0 + 0.01 * (i as f64 % 3.0 - 1.0);
        let plain = (100.0 * noise, 10, 10);
        (name, times(plain, (50.0 / noise, 10, 5)))
    };
    NAMES.into_iter().enumerate().map(pair).collect()
}

/// Time, tokens and passes of both sides.
fn times(plain: (f64, usize, usize), cell: (f64, usize, usize)) -> PairedTime {
    PairedTime {
        plain_us: plain.0,
        plain_tokens: plain.1,
        plain_passes: plain.2,
        us: cell.0,
        tokens: cell.1,
        passes: cell.2,
    }
}

/// The only outlier if "c" takes these times.
#[track_caller]
fn far(times: PairedTime) -> Outlier<'static> {
    let mut pairs = calm();
    pairs.insert("c", times);
    let [found] = outliers(&pairs)[..] else { panic!("{:?}", outliers(&pairs)) };
    assert_eq!(found.prompt, "c");
    let mut rest = pairs.clone();
    rest.remove("c");
    // The reported speedup without the prompt is that of the other prompts.
    let (all, without) = (speedup(pairs.values()).unwrap(), speedup(rest.values()).unwrap());
    assert_eq!(found.without, without);
    assert!((found.influence - (all / without - 1.0)).abs() < 1e-12);
    found
}

#[test]
fn undisturbed_times_have_no_outlier() {
    assert_eq!(outliers(&calm()), []);
    // A factor of 1.4 is never an outlier, even if all other prompts are very close.
    let mut pairs = calm();
    pairs.insert("c", times((140.0, 10, 10), (50.0, 10, 5)));
    assert_eq!(outliers(&pairs), []);
    assert_eq!(outliers(&BTreeMap::new()), []);
}

#[test]
fn a_disturbed_baseline_inflates_the_speedup() {
    let found = far(times((330.0, 10, 10), (50.0, 10, 5)));
    assert_eq!(found.side, Side::Plain);
    // The median of seven prompts near 100 µs and this one is about 100 µs.
    assert!((found.factor - 3.3).abs() < 0.05, "{found:?}");
    // (7 · 100 + 330) / 800 is 29 % more than 1, within the noise of 2 %.
    assert!((found.influence - 0.29).abs() < 0.02, "{found:?}");
}

#[test]
fn a_disturbed_cell_deflates_the_speedup() {
    let found = far(times((100.0, 10, 10), (165.0, 10, 5)));
    assert_eq!(found.side, Side::Cell);
    assert!((found.factor - 3.3).abs() < 0.05, "{found:?}");
    assert!((found.influence - (1.0 / 1.29 - 1.0)).abs() < 0.02, "{found:?}");
}

#[test]
fn an_outlier_by_acceptance_is_attributed_to_the_speedup() {
    // A single pass for all ten tokens, at the usual time per pass.
    let found = far(times((100.0, 10, 10), (10.0, 10, 1)));
    assert_eq!(found.side, Side::Speedup);
    assert!((found.factor - 5.0).abs() < 0.1, "{found:?}");
    assert!(found.influence > 0.0);
}

#[test]
fn a_wider_spread_of_prompts_raises_the_outlier_threshold() {
    let mut pairs = calm();
    for (i, pair) in pairs.values_mut().enumerate() {
        pair.plain_us *= 1.3_f64.powi(i as i32 % 3 - 1);
    }
    pairs.get_mut("c").unwrap().plain_us = 200.0;
    assert_eq!(outliers(&pairs), []);
}

//! The seeded generator's draws fit their distributions, and no address is used twice.

use std::collections::{BTreeMap, BTreeSet};

use specdec::core::chance::{Chance, Purpose, Seeded};
use specdec::core::distribution::{Dist, Token};
use specdec::core::registry::Class;
use specdec::core::sampling::{Sampler, SamplingParams};
use specdec::method::decode::{Generation, MethodSpec, StopRules};
use specdec::method::draft::{DRAFTERS, Tools};
use specdec::method::verify::VERIFIERS;
use specdec::model::zoo;
use specdec::proof::{DrawLog, Fit, JointDistribution, LEVEL, audit, sample, target_distribution};

use crate::chance::{PURPOSES, seeded, site};

/// Counts of single tokens, each as a sequence of length one.
fn counts(tokens: impl Iterator<Item = Token>) -> BTreeMap<Vec<Token>, u64> {
    let mut counts = BTreeMap::new();
    for token in tokens {
        *counts.entry(vec![token]).or_insert(0) += 1;
    }
    counts
}

fn as_joint(dist: &Dist) -> JointDistribution {
    dist.support().map(|(t, p)| (vec![t], p)).collect()
}

#[test]
fn categorical_draws_fit_across_rounds_nodes_and_repeats() {
    let dist = Dist::from_weights(vec![1.0, 0.0, 2.0, 3.0, 4.0, 0.5, 6.0]).unwrap();
    let expected = as_joint(&dist);
    for purpose in PURPOSES {
        let mut chance = seeded(2026, "fit", 0);
        let by_round = counts((0..20_000).map(|round| {
            chance.begin_round(round);
            chance.categorical(site(purpose, 0), &dist)
        }));
        let by_node =
            counts((0..20_000).map(|node| chance.categorical(site(purpose, node), &dist)));
        let by_repeat = counts(
            (0..20_000)
                .map(|repeat| seeded(2026, "fit", repeat).categorical(site(purpose, 0), &dist)),
        );
        for counts in [by_round, by_node, by_repeat] {
            let fit = Fit::test(&counts, &expected);
            assert!(fit.is_plausible(), "{purpose:?}: {fit:?}");
            assert!(fit.min_detectable_tv < 0.035, "{fit:?}");
        }
    }
}

#[test]
fn races_fit_their_distribution_and_are_coupled() {
    let p = Dist::from_probs(vec![0.1, 0.2, 0.3, 0.4, 0.0]).unwrap();
    let q = Dist::from_probs(vec![0.2, 0.2, 0.3, 0.2, 0.1]).unwrap();
    let mut chance = seeded(2026, "race", 0);
    let winners = |chance: &mut Seeded, dist: &Dist| {
        (0..20_000).map(|position| chance.race(position, 0..1, dist)).collect::<Vec<_>>()
    };
    let (of_p, of_q) = (winners(&mut chance, &p), winners(&mut chance, &q));
    for (dist, winners) in [(&p, &of_p), (&q, &of_q)] {
        let fit = Fit::test(&counts(winners.iter().copied()), &as_joint(dist));
        assert!(fit.is_plausible(), "{fit:?}");
    }
    // A race does not depend on the round.
    chance.begin_round(9);
    assert_eq!(winners(&mut chance, &p), of_p);
    // Coupled races agree with probability at least Σ min(p, q) / Σ max(p, q).
    let agree = of_p.iter().zip(&of_q).filter(|(a, b)| a == b).count() as f64 / 20_000.0;
    let tv = p.total_variation(&q);
    let bound = (1.0 - tv) / (1.0 + tv);
    assert!(agree > bound - 4.9 * (0.25f64 / 20_000.0).sqrt(), "{agree} < {bound}");
    // Sparse and dense distributions race alike.
    let sparse = Dist::sparse(5, p.support().collect()).unwrap();
    assert_eq!(winners(&mut chance, &sparse), of_p);
}

#[test]
fn the_goodness_of_fit_test_has_its_level_and_power() {
    // For even degrees of freedom the survival function has a closed form.
    let survival = |x: f64, freedom: u32| {
        let mut term = (-x / 2.0).exp();
        let mut sum = 0.0;
        for i in 0..freedom / 2 {
            sum += term;
            term *= x / 2.0 / f64::from(i + 1);
        }
        sum
    };
    for cells in [3u32, 11, 101] {
        let dist =
            (0..cells).map(|t| (vec![t], 1.0 / f64::from(cells))).collect::<JointDistribution>();
        let even = (0..cells).map(|t| (vec![t], 1000)).collect();
        let fit = Fit::test(&even, &dist);
        assert!(fit.is_plausible() && fit.statistic < 1e-9);
        let level = survival(fit.critical, cells - 1);
        assert!(level < 1.02 * LEVEL && level > 0.05 * LEVEL, "{cells} cells: {level}");
    }
    let dist = JointDistribution::from([(vec![0], 0.5), (vec![1], 0.5)]);
    let lopsided = BTreeMap::from([(vec![0], 6000), (vec![1], 4000)]);
    assert!(!Fit::test(&lopsided, &dist).is_plausible());
    let impossible = BTreeMap::from([(vec![0], 5000), (vec![1], 5000), (vec![2], 1)]);
    assert_eq!(Fit::test(&impossible, &dist).impossible, 1);
    assert!(!Fit::test(&impossible, &dist).is_plausible());
}

#[test]
fn merging_rare_sequences_raises_the_detectable_distance() {
    // A hundred sequences, each expected once, are merged into one cell of mass 0.1.
    let rare = (2..102).map(|t| (vec![t], 0.001));
    let dist =
        [(vec![0], 0.5), (vec![1], 0.4)].into_iter().chain(rare).collect::<JointDistribution>();
    let fitting = |one: Token| BTreeMap::from([(vec![0], 500), (vec![1], 400), (vec![one], 100)]);
    let fit = Fit::test(&fitting(2), &dist);
    assert!(fit.is_plausible() && fit.statistic < 1e-9, "{fit:?}");
    assert!(fit.min_detectable_tv > 0.1, "{fit:?}");
    // A sequence with an expected count of one half is merged with its neighbour.
    let dist = JointDistribution::from([(vec![0], 0.9), (vec![1], 0.0995), (vec![2], 0.0005)]);
    let counts = BTreeMap::from([(vec![0], 900), (vec![1], 90), (vec![2], 10)]);
    let fit = Fit::test(&counts, &dist);
    assert!(fit.is_plausible() && fit.statistic < 1e-9, "{fit:?}");
    assert!(fit.min_detectable_tv > 0.1, "{fit:?}");
    // Without merging the smallest detectable distance stays small.
    let even = JointDistribution::from([(vec![0], 0.5), (vec![1], 0.5)]);
    let fit = Fit::test(&BTreeMap::from([(vec![0], 5000), (vec![1], 5000)]), &even);
    assert!(fit.min_detectable_tv < 0.04, "{fit:?}");
}

#[test]
fn methods_draw_each_address_once_and_fit_the_target() {
    let pair = zoo::toy("close").unwrap();
    let (target, draft) = (pair.target("close").unwrap(), pair.draft("close").unwrap());
    let sampler = Sampler::new(SamplingParams::default()).unwrap();
    let prompt = [0, 1, 0];
    let dist = target_distribution(&target, &sampler, &prompt, 3).unwrap();
    let mut purposes = BTreeSet::new();
    for verifier in VERIFIERS {
        for drafter in DRAFTERS {
            let spec = MethodSpec {
                drafter: drafter.name.to_owned(),
                verifier: verifier.name.to_owned(),
                num_speculative_tokens: 3,
                ..MethodSpec::default()
            };
            if spec.validate().is_err() {
                continue;
            }
            let tools = Tools { draft: Some(&draft), target: Some(&target), texts: None };
            let generation = |tokens| {
                let method = spec.build_with(tools).unwrap();
                Generation::new(&target, method, &prompt, StopRules::max_tokens(tokens), None)
                    .unwrap()
            };
            let report = audit(&target, &generation(40), 1, 20).unwrap();
            assert!(report.draws + report.races > 100, "{report:?}");
            assert!(report.repeated.is_empty(), "{report:?}");
            purposes.extend(report.purposes);
            if verifier.build.class == Class::X {
                continue;
            }
            let counts = sample(&target, &generation(3), 1, 10_000).unwrap();
            let fit = Fit::test(&counts, &dist);
            assert!(fit.is_plausible(), "{spec:?}: {fit:?}");
            assert!(fit.min_detectable_tv < 0.06, "{fit:?}");
        }
    }
    assert_eq!(purposes, PURPOSES.into());
}

#[test]
fn the_audit_reports_addresses_that_are_drawn_twice() {
    let mut chance = DrawLog::new(seeded(1, "audit", 0));
    let dist = Dist::one_hot(2, 1);
    chance.begin_round(0);
    chance.bernoulli(site(Purpose::Accept, 0), 0.5);
    chance.categorical(site(Purpose::Residual, 0), &dist);
    chance.begin_round(1);
    chance.bernoulli(site(Purpose::Accept, 0), 0.5);
    chance.race(5, 0..1, &dist);
    chance.race(5, 0..1, &dist);
    assert!(chance.report().repeated.is_empty());
    assert_eq!((chance.report().draws, chance.report().races), (3, 2));
    chance.categorical(site(Purpose::Accept, 0), &dist);
    assert_eq!(chance.report().repeated, [(1, site(Purpose::Accept, 0))]);
}

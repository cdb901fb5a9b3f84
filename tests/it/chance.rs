//! Randomness: the exhaustive walk, the seeded generator's values and quality,
//! and how it is used.

use std::collections::{BTreeMap, BTreeSet};

use specdec::chance::{Chance, Exhaustive, Purpose, Request, Seeded, Site};
use specdec::decode::{Generation, MethodSpec, StopRules};
use specdec::dist::{Dist, Token};
use specdec::draft::{DRAFTERS, Tools};
use specdec::exactness::{Audit, Fit, JointLaw, LEVEL, audit, sample, target_law};
use specdec::model::zoo;
use specdec::registry::Class;
use specdec::sampling::{Sampler, SamplingParams};
use specdec::verify::VERIFIERS;

const PURPOSES: [Purpose; 5] =
    [Purpose::Draft, Purpose::Accept, Purpose::Residual, Purpose::Bonus, Purpose::Target];

fn seeded(seed: u64, prompt: &str, repeat: u32) -> Seeded {
    Seeded::new(Request { seed, prompt, repeat })
}

fn site(purpose: Purpose, node: usize) -> Site {
    Site { purpose, node }
}

/// The first 40 bits of the uniform at a site, by bisection.
fn bits(chance: &mut dyn Chance, site: Site) -> u64 {
    let (mut low, mut bits) = (0.0, 0);
    for i in 1..=40 {
        let half = 0.5f64.powi(i);
        let upper = !chance.bernoulli(site, low + half);
        bits = bits << 1 | u64::from(upper);
        low += if upper { half } else { 0.0 };
    }
    bits
}

#[test]
fn the_walk_meets_every_outcome_once_with_its_probability() {
    let law = Dist::from_probs(vec![0.5, 0.0, 0.25, 0.25]).unwrap();
    let mut found = BTreeMap::new();
    let mut chance = Exhaustive::default();
    loop {
        chance.begin_round(0);
        let token = chance.categorical(site(Purpose::Draft, 0), &law);
        let yes = token == 2 && chance.bernoulli(site(Purpose::Accept, 0), 0.125);
        assert!(found.insert((token, yes), chance.weight()).is_none());
        if !chance.advance() {
            break;
        }
    }
    let expected =
        [((0, false), 0.5), ((2, false), 0.21875), ((2, true), 0.03125), ((3, false), 0.25)];
    assert_eq!(found, BTreeMap::from(expected));
}

#[test]
fn certain_decisions_do_not_branch() {
    let mut chance = Exhaustive::default();
    assert!(chance.bernoulli(site(Purpose::Accept, 0), 1.0));
    assert!(chance.bernoulli(site(Purpose::Accept, 1), 7.0));
    assert!(!chance.bernoulli(site(Purpose::Accept, 2), 0.0));
    assert_eq!(chance.categorical(site(Purpose::Bonus, 0), &Dist::one_hot(3, 1)), 1);
    assert_eq!(chance.weight(), 1.0);
    assert!(!chance.advance());
}

#[test]
fn two_races_at_one_position_are_not_independent_and_said_to_be_so() {
    let law = Dist::from_probs(vec![0.5, 0.5]).unwrap();
    let mut chance = Exhaustive::default();
    chance.race(3, 0..1, &law);
    chance.race(4, 0..1, &law);
    assert!(!chance.coupled());
    chance.race(3, 0..1, &law);
    assert!(chance.coupled());
}

/// Published results can be repeated only as long as these values stay.
#[test]
fn the_values_of_the_generator_are_stable() {
    let mut chance = seeded(42, "prompt-1", 3);
    let mut values = Vec::new();
    for round in [0, 1, 1_000_000] {
        chance.begin_round(round);
        for (purpose, node) in
            [(PURPOSES[0], 0), (PURPOSES[1], 0), (PURPOSES[2], 5), (PURPOSES[4], 63)]
        {
            values.push(bits(&mut chance, site(purpose, node)));
        }
    }
    assert_eq!(values, STABLE_BITS);
    let law = Dist::from_weights((1..=50).map(f64::from).collect()).unwrap();
    let tokens = (0..8).map(|node| chance.categorical(site(Purpose::Draft, node), &law));
    assert_eq!(tokens.collect::<Vec<_>>(), STABLE_TOKENS);
    let races = (0..8).map(|position| chance.race(position, 0..1, &law)).collect::<Vec<_>>();
    assert_eq!(races, STABLE_RACES);
}

// Computed by an independent implementation of SHA-256, ChaCha8 and the
// addresses: the key hashes the request, the stream is the round, the word is
// purpose · 2^40 + node · 4; races use the streams from 2^63 and the words
// token · 2.
const STABLE_BITS: [u64; 12] = [
    1_015_449_571_780,
    45_647_140_278,
    748_788_517_047,
    48_601_471_652,
    900_273_334_669,
    340_143_348_581,
    16_790_020_500,
    153_059_387_876,
    111_579_970_702,
    864_598_717_373,
    313_240_104_366,
    424_343_496_122,
];
const STABLE_TOKENS: [Token; 8] = [15, 45, 39, 41, 10, 47, 16, 17];
const STABLE_RACES: [Token; 8] = [43, 24, 27, 3, 41, 11, 44, 26];

#[test]
fn a_draw_depends_on_its_address_alone() {
    let mut forwards = seeded(7, "p", 0);
    let mut backwards = seeded(7, "p", 0);
    let mut sites = Vec::new();
    for round in 0..4 {
        for purpose in PURPOSES {
            sites.extend((0..5).map(|node| (round, site(purpose, node))));
        }
    }
    let law = Dist::from_weights(vec![1.0; 1000]).unwrap();
    let draw = |chance: &mut Seeded, (round, site): (u64, Site)| {
        chance.begin_round(round);
        chance.categorical(site, &law)
    };
    let a = sites.iter().map(|&s| draw(&mut forwards, s)).collect::<Vec<_>>();
    let mut b = sites.iter().rev().map(|&s| draw(&mut backwards, s)).collect::<Vec<_>>();
    b.reverse();
    assert_eq!(a, b);
}

#[test]
fn different_addresses_and_requests_have_different_values() {
    let mut seen = BTreeSet::new();
    let mut count = 0;
    let requests = [(1, "a", 0), (2, "a", 0), (1, "b", 0), (1, "a", 1), (1, "", 0)];
    for (seed, prompt, repeat) in requests {
        let mut chance = seeded(seed, prompt, repeat);
        for round in 0..4 {
            chance.begin_round(round);
            for purpose in PURPOSES {
                for node in 0..16 {
                    seen.insert(bits(&mut chance, site(purpose, node)));
                    count += 1;
                }
            }
        }
    }
    // Among 1600 values of 40 bits a chance collision has probability 1e-6.
    assert_eq!(seen.len(), count);
}

/// Counts of single tokens, as sequences of one.
fn counts(tokens: impl Iterator<Item = Token>) -> BTreeMap<Vec<Token>, u64> {
    let mut counts = BTreeMap::new();
    for token in tokens {
        *counts.entry(vec![token]).or_insert(0) += 1;
    }
    counts
}

fn as_joint(law: &Dist) -> JointLaw {
    law.support().map(|(t, p)| (vec![t], p)).collect()
}

#[test]
fn categorical_draws_fit_their_law_by_every_address() {
    let law = Dist::from_weights(vec![1.0, 0.0, 2.0, 3.0, 4.0, 0.5, 6.0]).unwrap();
    let expected = as_joint(&law);
    for purpose in PURPOSES {
        let mut chance = seeded(2026, "fit", 0);
        let by_round = counts((0..20_000).map(|round| {
            chance.begin_round(round);
            chance.categorical(site(purpose, 0), &law)
        }));
        let by_node = counts((0..20_000).map(|node| chance.categorical(site(purpose, node), &law)));
        let by_repeat = counts(
            (0..20_000)
                .map(|repeat| seeded(2026, "fit", repeat).categorical(site(purpose, 0), &law)),
        );
        for counts in [by_round, by_node, by_repeat] {
            let fit = Fit::test(&counts, &expected);
            assert!(fit.is_plausible(), "{purpose:?}: {fit:?}");
            assert!(fit.min_detectable_tv < 0.035, "{fit:?}");
        }
    }
}

#[test]
fn bernoulli_draws_have_their_probability() {
    let mut chance = seeded(2026, "coin", 0);
    for p in [0.03, 0.5, 0.9] {
        let hits = (0..40_000).filter(|&n| chance.bernoulli(site(Purpose::Accept, n), p)).count();
        let deviation = (hits as f64 - 40_000.0 * p) / (40_000.0 * p * (1.0 - p)).sqrt();
        // Two-sided at the level 1e-6.
        assert!(deviation.abs() < 4.9, "{p}: {deviation}");
    }
    for n in 0..1000 {
        assert!(chance.bernoulli(site(Purpose::Accept, n), 1.0));
        assert!(!chance.bernoulli(site(Purpose::Accept, n), 0.0));
    }
}

#[test]
fn races_fit_their_law_and_are_coupled() {
    let p = Dist::from_probs(vec![0.1, 0.2, 0.3, 0.4, 0.0]).unwrap();
    let q = Dist::from_probs(vec![0.2, 0.2, 0.3, 0.2, 0.1]).unwrap();
    let mut chance = seeded(2026, "race", 0);
    let winners = |chance: &mut Seeded, law: &Dist| {
        (0..20_000).map(|position| chance.race(position, 0..1, law)).collect::<Vec<_>>()
    };
    let (of_p, of_q) = (winners(&mut chance, &p), winners(&mut chance, &q));
    for (law, winners) in [(&p, &of_p), (&q, &of_q)] {
        let fit = Fit::test(&counts(winners.iter().copied()), &as_joint(law));
        assert!(fit.is_plausible(), "{fit:?}");
    }
    // A race does not depend on the round.
    chance.begin_round(9);
    assert_eq!(winners(&mut chance, &p), of_p);
    // The coupling agrees with probability Σ min(p, q) / Σ max(p, q) at least.
    let agree = of_p.iter().zip(&of_q).filter(|(a, b)| a == b).count() as f64 / 20_000.0;
    let tv = p.total_variation(&q);
    let bound = (1.0 - tv) / (1.0 + tv);
    assert!(agree > bound - 4.9 * (0.25f64 / 20_000.0).sqrt(), "{agree} < {bound}");
    // Sparse and dense laws race alike.
    let sparse = Dist::sparse(5, p.support().collect()).unwrap();
    assert_eq!(winners(&mut chance, &sparse), of_p);
}

#[test]
fn the_test_of_fit_has_its_level_and_power() {
    // Even degrees of freedom have a closed survival function.
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
        let law = (0..cells).map(|t| (vec![t], 1.0 / f64::from(cells))).collect::<JointLaw>();
        let even = (0..cells).map(|t| (vec![t], 1000)).collect();
        let fit = Fit::test(&even, &law);
        assert!(fit.is_plausible() && fit.statistic < 1e-9);
        let level = survival(fit.critical, cells - 1);
        assert!(level < 1.02 * LEVEL && level > 0.05 * LEVEL, "{cells} cells: {level}");
    }
    let law = JointLaw::from([(vec![0], 0.5), (vec![1], 0.5)]);
    let lopsided = BTreeMap::from([(vec![0], 6000), (vec![1], 4000)]);
    assert!(!Fit::test(&lopsided, &law).is_plausible());
    let impossible = BTreeMap::from([(vec![0], 5000), (vec![1], 5000), (vec![2], 1)]);
    assert_eq!(Fit::test(&impossible, &law).impossible, 1);
    assert!(!Fit::test(&impossible, &law).is_plausible());
}

#[test]
fn every_address_is_drawn_once_and_every_loop_fits() {
    let pair = zoo::toy("close").unwrap();
    let (target, draft) = (pair.target("close").unwrap(), pair.draft("close").unwrap());
    let sampler = Sampler::new(SamplingParams::default()).unwrap();
    let prompt = [0, 1, 0];
    let law = target_law(&target, &sampler, &prompt, 3).unwrap();
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
            let fit = Fit::test(&counts, &law);
            assert!(fit.is_plausible(), "{spec:?}: {fit:?}");
            assert!(fit.min_detectable_tv < 0.06, "{fit:?}");
        }
    }
    assert_eq!(purposes, PURPOSES.into());
}

#[test]
fn an_audit_sees_what_is_drawn_twice() {
    let mut chance = Audit::new(seeded(1, "audit", 0));
    let law = Dist::one_hot(2, 1);
    chance.begin_round(0);
    chance.bernoulli(site(Purpose::Accept, 0), 0.5);
    chance.categorical(site(Purpose::Residual, 0), &law);
    chance.begin_round(1);
    chance.bernoulli(site(Purpose::Accept, 0), 0.5);
    chance.race(5, 0..1, &law);
    chance.race(5, 0..1, &law);
    assert!(chance.report().repeated.is_empty());
    assert_eq!((chance.report().draws, chance.report().races), (3, 2));
    chance.categorical(site(Purpose::Accept, 0), &law);
    assert_eq!(chance.report().repeated, [(1, site(Purpose::Accept, 0))]);
}

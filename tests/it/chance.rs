//! Randomness: the exhaustive walk, and the seeded generator's values and
//! addresses.

use std::collections::{BTreeMap, BTreeSet};

use specdec::core::chance::{Chance, Exhaustive, Purpose, Request, Seeded, Site};
use specdec::core::distribution::{Dist, Token};

pub(crate) const PURPOSES: [Purpose; 5] =
    [Purpose::Draft, Purpose::Accept, Purpose::Residual, Purpose::Bonus, Purpose::Target];

pub(crate) fn seeded(seed: u64, prompt: &str, repeat: u32) -> Seeded {
    Seeded::new(Request { seed, prompt, repeat })
}

pub(crate) fn site(purpose: Purpose, node: usize) -> Site {
    Site { purpose, node }
}

/// The first 40 bits of the uniform number at a site, found by bisection.
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
fn the_walk_visits_every_outcome_once_with_its_probability() {
    let dist = Dist::from_probs(vec![0.5, 0.0, 0.25, 0.25]).unwrap();
    let mut found = BTreeMap::new();
    let mut chance = Exhaustive::default();
    loop {
        chance.begin_round(0);
        let token = chance.categorical(site(Purpose::Draft, 0), &dist);
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
fn two_races_at_one_position_are_reported_as_coupled() {
    let dist = Dist::from_probs(vec![0.5, 0.5]).unwrap();
    let mut chance = Exhaustive::default();
    chance.race(3, 0..1, &dist);
    chance.race(4, 0..1, &dist);
    assert!(!chance.coupled());
    chance.race(3, 0..1, &dist);
    assert!(chance.coupled());
}

#[test]
fn a_walk_resumed_from_points_visits_the_same_paths_in_order() {
    let dist = Dist::from_probs(vec![0.5, 0.0, 0.25, 0.25]).unwrap();
    let first = |chance: &mut Exhaustive| chance.categorical(site(Purpose::Draft, 0), &dist);
    // The second of these is decided only after some tokens.
    let rest = |chance: &mut Exhaustive, token| {
        let one = chance.bernoulli(site(Purpose::Accept, 0), 0.125);
        (one, token == 2 && chance.bernoulli(site(Purpose::Accept, 1), 0.5))
    };
    let (mut chance, mut whole) = (Exhaustive::default(), Vec::new());
    loop {
        let token = first(&mut chance);
        whole.push((token, rest(&mut chance, token), chance.weight()));
        if !chance.advance() {
            break;
        }
    }
    let (mut chance, mut resumed, mut firsts) = (Exhaustive::default(), Vec::new(), 0);
    loop {
        let token = first(&mut chance);
        firsts += 1;
        let (point, before) = (chance.point(), chance.weight());
        loop {
            assert_eq!((chance.weight(), chance.decisions()), (before, 1));
            resumed.push((token, rest(&mut chance, token), chance.weight()));
            if !chance.resume(point) {
                break;
            }
        }
        if !chance.advance() {
            break;
        }
    }
    assert_eq!((resumed, firsts), (whole, 3));
}

#[test]
fn a_restarted_path_is_walked_once_more_as_it_was() {
    let dist = Dist::from_probs(vec![0.5, 0.5]).unwrap();
    let mut chance = Exhaustive::default();
    chance.race(3, 0..1, &dist);
    assert!(chance.advance());
    let token = chance.race(3, 0..1, &dist);
    chance.restart();
    assert_eq!((chance.race(3, 0..1, &dist), chance.weight()), (token, 0.5));
    assert!(!chance.coupled(), "the same race is not a second one");
    assert!(!chance.advance());
}

#[test]
fn races_before_and_after_a_point_are_coupled_on_every_path() {
    let dist = Dist::from_probs(vec![0.5, 0.5]).unwrap();
    let mut chance = Exhaustive::default();
    chance.race(3, 0..1, &dist);
    let point = chance.point();
    chance.race(4, 0..1, &dist);
    assert!(chance.resume(point));
    chance.race(4, 0..1, &dist);
    assert!(!chance.coupled(), "the paths after a point do not share their races");
    assert!(!chance.resume(point));
    chance.race(3, 0..1, &dist);
    assert!(chance.coupled());
}

/// Published results can be reproduced only as long as these values stay the same.
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
    let dist = Dist::from_weights((1..=50).map(f64::from).collect()).unwrap();
    let tokens = (0..8).map(|node| chance.categorical(site(Purpose::Draft, node), &dist));
    assert_eq!(tokens.collect::<Vec<_>>(), STABLE_TOKENS);
    let races = (0..8).map(|position| chance.race(position, 0..1, &dist)).collect::<Vec<_>>();
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
fn a_draw_depends_only_on_its_address() {
    let mut forwards = seeded(7, "p", 0);
    let mut backwards = seeded(7, "p", 0);
    let mut sites = Vec::new();
    for round in 0..4 {
        for purpose in PURPOSES {
            sites.extend((0..5).map(|node| (round, site(purpose, node))));
        }
    }
    let dist = Dist::from_weights(vec![1.0; 1000]).unwrap();
    let draw = |chance: &mut Seeded, (round, site): (u64, Site)| {
        chance.begin_round(round);
        chance.categorical(site, &dist)
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

/// `bernoulli(p)` is true on the same uniforms for which a distribution (p, 1 − p) gives its first
/// token, so both treat a uniform equal to p in the same way.
#[test]
fn bernoulli_agrees_with_categorical_over_two_outcomes() {
    let mut chance = seeded(1, "p", 0);
    for node in 0..50 {
        let site = site(Purpose::Accept, node);
        let step = 0.5f64.powi(53);
        let mut u = 0.0;
        for i in 1..=53 {
            let half = 0.5f64.powi(i);
            u += if chance.bernoulli(site, u + half) { 0.0 } else { half };
        }
        // Exact in 53 bits, and so is its complement.
        for p in [u - step, u, u + step] {
            let dist = Dist::from_probs(vec![p, 1.0 - p]).unwrap();
            let first = chance.categorical(site, &dist) == 0;
            assert_eq!(chance.bernoulli(site, p), first, "{p}");
        }
    }
}

/// A race over several lists is won by the token that arrives first on any of them.
#[test]
fn a_race_over_two_lists_is_won_by_the_winner_of_one_of_them() {
    let dist = Dist::from_weights(vec![1.0, 0.0, 2.0, 0.0, 3.0]).unwrap();
    let mut chance = seeded(1, "lists", 0);
    let mut from_second = 0;
    for position in 0..200 {
        let both = chance.race(position, 0..2, &dist);
        let of = |chance: &mut Seeded, list| chance.race(position, list..list + 1, &dist);
        let (first, second) = (of(&mut chance, 0), of(&mut chance, 1));
        assert!(both == first || both == second);
        from_second += usize::from(both != first);
    }
    // Lists differ with probability 1 − Σ p² = 0.61, and half of those are won
    // by the second: 61 of 200, with a deviation of 6.5.
    assert!((30..=92).contains(&from_second), "{from_second}");
}

/// The noise of a token depends only on its address, not on its competitors: a winner still wins if
/// some other tokens become impossible.
#[test]
fn a_race_gives_a_token_the_same_noise_in_every_distribution() {
    let all = Dist::from_weights(vec![1.0; 12]).unwrap();
    let mut chance = seeded(3, "noise", 0);
    for lists in [0..1, 1..2, 0..3] {
        for position in 0..200 {
            let winner = chance.race(position, lists.clone(), &all);
            // The winner with token 0 alone, and with more and more of its neighbours.
            for reach in [0, 1, 4] {
                let near = |t: u32| t == 0 || t.abs_diff(winner) <= reach;
                let weights = (0..12).map(|t| f64::from(u8::from(near(t)))).collect();
                let few = Dist::from_weights(weights).unwrap();
                assert_eq!(chance.race(position, lists.clone(), &few), winner);
            }
        }
    }
}

/// Paths may have different lengths; each is walked once, and the weights of
/// all sum to one.
#[test]
fn the_walk_visits_paths_of_different_lengths_once() {
    let dist = Dist::from_probs(vec![0.25, 0.75]).unwrap();
    let mut chance = Exhaustive::default();
    let mut found = Vec::new();
    loop {
        chance.begin_round(0);
        let first = chance.categorical(site(Purpose::Draft, 0), &dist);
        let tosses = if first == 0 { 2 } else { 1 };
        let toss = |node| (node, 0.5);
        let heads =
            (0..tosses).map(toss).filter(|&(n, p)| chance.bernoulli(site(Purpose::Accept, n), p));
        let heads = heads.count();
        found.push((first, heads, chance.weight(), chance.decisions()));
        if !chance.advance() {
            break;
        }
    }
    let expected = [
        (0, 2, 0.0625, 3),
        (0, 1, 0.0625, 3),
        (0, 1, 0.0625, 3),
        (0, 0, 0.0625, 3),
        (1, 1, 0.375, 2),
        (1, 0, 0.375, 2),
    ];
    assert_eq!(found, expected);
    assert_eq!((chance.weight(), chance.decisions()), (1.0, 0), "a new walk begins");
}

/// Races of one path are independent of those of the next.
#[test]
fn races_of_different_paths_are_not_coupled() {
    let dist = Dist::from_probs(vec![0.5, 0.5]).unwrap();
    let mut chance = Exhaustive::default();
    chance.race(3, 0..1, &dist);
    assert!(chance.advance());
    chance.race(3, 0..1, &dist);
    assert!(!chance.coupled());
}

//! Settings that a decoder applies although nobody asked for them.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use specdec::audit::{AuditLimits, AuditVerdict, OTHER_SETTINGS, SequenceDists, TokenAudit};
use specdec::core::distribution::Dist;

use super::{Weights, audited, peaked};

/// The weights of the tokens that stay, given a test of a token's rank, the mass of those before
/// it, and its probability relative to the largest.
fn cut(p: &[f64], stays: impl Fn(usize, f64, f64) -> bool) -> Vec<f64> {
    let mut order = (0..p.len()).collect::<Vec<_>>();
    order.sort_by(|&a, &b| p[b].total_cmp(&p[a]));
    let (mut weights, mut before) = (vec![0.0; p.len()], 0.0);
    for (rank, &token) in order.iter().enumerate() {
        if stays(rank, before, p[token] / p[order[0]]) {
            weights[token] = p[token];
        }
        before += p[token];
    }
    weights
}

fn at(p: &[f64], factor: f64) -> Vec<f64> {
    p.iter().map(|p| p.powf(1.0 / factor)).collect()
}

/// Decoders by what the bet should say of them, and the number of completions of 128 tokens.
const SILENT: [(&str, Weights, usize); 7] = [
    ("also applies top_p = 0.98", |p, _, _| cut(p, |_, before, _| before < 0.98), 29),
    ("also applies top_p = 0.9", |p, _, _| cut(p, |_, before, _| before < 0.9), 4),
    ("also applies top_k = 10", |p, _, _| cut(p, |rank, _, _| rank < 10), 16),
    ("also applies min_p = 0.05", |p, _, _| cut(p, |_, _, share| share >= 0.05), 8),
    ("has 0.9 times the temperature", |p, _, _| at(p, 0.9), 80),
    ("has 1.5 times the temperature", |p, _, _| at(p, 1.5), 8),
    (
        "has 0.6 times the temperature, and top_p = 0.9",
        |p, _, _| {
            let colder = at(p, 0.6);
            let all = colder.iter().sum::<f64>();
            let colder = colder.iter().map(|weight| weight / all).collect::<Vec<_>>();
            cut(&colder, |_, before, _| before < 0.9)
        },
        4,
    ),
];

/// 3,767 tokens of a decoder that silently applies top_p = 0.98 passed while only learning bets
/// could find them.
/// Catches: a cut that keeps one token more or less; a distribution that is not normalised after a
/// cut; a temperature that is divided by instead of multiplied.
#[test]
fn other_settings_are_refuted_and_named() {
    for (says, weights, completions) in SILENT {
        let found = audited(weights, completions, 5);
        let own = found.bets.iter().find(|bet| bet.bug == OTHER_SETTINGS).unwrap();
        assert_eq!(own.summary, says);
        assert!(found.refuted && own.log10_e >= 5.0, "{says}: {found:?}");
        // A share of tokens at a lower temperature explains a temperature between.
        let alone = !says.ends_with("the temperature");
        assert_eq!(found.bug == Some(OTHER_SETTINGS), alone, "{says}: {:?}", found.alike);
        assert!(found.alike.contains(&OTHER_SETTINGS), "{says}: {:?}", found.alike);
    }
}

/// Settings between those of the grid are refuted by their neighbours.
#[test]
fn settings_between_those_of_the_grid_are_refuted() {
    let between: [(Weights, usize); 3] = [
        (|p, _, _| cut(p, |_, before, _| before < 0.965), 29),
        (|p, _, _| cut(p, |rank, _, _| rank < 15), 40),
        (|p, _, _| at(p, 0.92), 120),
    ];
    for (weights, completions) in between {
        let found = audited(weights, completions, 6);
        let own = found.bets.iter().find(|bet| bet.bug == OTHER_SETTINGS).unwrap();
        assert!(found.refuted && own.log10_e >= 3.0, "{own:?}");
    }
}

/// Engines differ in whether they truncate before or after the temperature.
/// Catches: a truncation of unprocessed logits that looks at the processed ones.
#[test]
fn a_truncation_before_the_temperature_is_named() {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let mut audit = TokenAudit::new(&[4]);
    for repeat in 0..8 {
        audit.begin("p", repeat);
        let (mut target, mut raw, mut tokens) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..128 {
            let plain = peaked(&mut rng);
            let warmer = at(&plain, 2.0);
            let all = warmer.iter().sum::<f64>();
            let kept = cut(&plain, |_, before, _| before < 0.95);
            let drawn =
                kept.iter().zip(&warmer).map(|(kept, w)| if *kept > 0.0 { *w } else { 0.0 });
            let drawn = drawn.collect::<Vec<_>>();
            let mut number = rng.random::<f64>() * drawn.iter().sum::<f64>();
            let token = drawn.iter().position(|weight| {
                number -= weight;
                number < 0.0
            });
            tokens.push(token.unwrap_or(0) as u32);
            target.push(Dist::from_probs(warmer.iter().map(|w| w / all).collect()).unwrap());
            raw.push(Dist::from_probs(plain).unwrap());
        }
        let dists = SequenceDists { target, raw_target: Some(raw), draft: None, raw_draft: None };
        audit.read(&tokens, dists, None).unwrap();
        audit.end();
    }
    let found = AuditVerdict::of(&audit, None, AuditLimits { level: 1e-3, tie: 0.0 });
    assert_eq!(found.bug, Some(OTHER_SETTINGS), "{found:?}");
    assert_eq!(found.bets[0].summary, "applies top_p = 0.95 to unprocessed logits");
}

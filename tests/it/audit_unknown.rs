//! Bugs that are on no list of known bugs.

mod settings;

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use specdec::audit::{
    AuditLimits, AuditVerdict, OTHER_SETTINGS, SequenceDists, TokenAudit, UNKNOWN_BUGS,
};
use specdec::core::distribution::Dist;

/// Tokens of the vocabulary, and of a completion.
const VOCAB: usize = 48;
const TOKENS: usize = 128;

/// The distribution of a token in a decoder, up to a factor: given p, q, and the completion with
/// the tokens that were drafted and rejected.
type Weights = fn(&[f64], &[f64], &Past) -> Vec<f64>;

#[derive(Default)]
struct Past {
    completion: Vec<usize>,
    not_taken: Vec<usize>,
    /// q/p of the last token.
    ratio: Option<f64>,
}

/// A distribution in which few tokens have most of the mass.
fn peaked(rng: &mut impl Rng) -> Vec<f64> {
    let weights = [(); VOCAB].map(|()| rng.random::<f64>().powi(8) + 1e-4);
    let sum = weights.iter().sum::<f64>();
    weights.iter().map(|weight| weight / sum).collect()
}

/// An audit of completions whose tokens have these weights; q is close to p.
fn audited(weights_of: Weights, completions: usize, seed: u64) -> AuditVerdict {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut audit = TokenAudit::new(&[4]);
    for repeat in 0..completions as u32 {
        audit.begin("p", repeat);
        let mut past = Past::default();
        let (mut target, mut draft, mut tokens) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..TOKENS {
            let (p, other) = (peaked(&mut rng), peaked(&mut rng));
            let q =
                p.iter().zip(&other).map(|(p, other)| 0.7 * p + 0.3 * other).collect::<Vec<_>>();
            let weights = weights_of(&p, &q, &past);
            let mut number = rng.random::<f64>() * weights.iter().sum::<f64>();
            let drawn = weights.iter().position(|weight| {
                number -= weight;
                number < 0.0
            });
            let token = drawn.unwrap_or(0);
            let most = (0..VOCAB).max_by(|&a, &b| q[a].total_cmp(&q[b])).unwrap();
            past.not_taken.extend(Some(most).filter(|&most| most != token));
            past.completion.push(token);
            past.ratio = Some(q[token] / p[token]);
            tokens.push(token as u32);
            target.push(Dist::from_probs(p).unwrap());
            draft.push(Dist::from_probs(q).unwrap());
        }
        let dists = SequenceDists { target, raw_target: None, draft: Some(draft), raw_draft: None };
        audit.read(&tokens, dists, None).unwrap();
        audit.end();
    }
    AuditVerdict::of(&audit, None, AuditLimits { level: 1e-3, tie: 0.0 })
}

fn times(p: &[f64], factor: impl Fn(usize) -> f64) -> Vec<f64> {
    p.iter().enumerate().map(|(token, p)| p * factor(token)).collect()
}

/// Decoders with unknown bugs, each with the bet that should find it.
const OTHERS: [(&str, Weights); 6] = [
    ("by_probability", |p, _, _| times(p, |token| if p[token] < 0.02 { 0.5 } else { 1.0 })),
    ("by_ratio", |p, q, _| {
        let some = |token: usize| (0.75..1.0).contains(&(q[token] / p[token]));
        times(p, |token| if some(token) { 0.6 } else { 1.0 })
    }),
    // After a token that may have been rejected, none of that kind follows; after others, more do.
    ("by_previous_ratio", |p, q, past| {
        let after = past.ratio.is_some_and(|ratio| ratio > 1.0);
        let factor = if after { 0.0 } else { 1.2 };
        times(p, |token| if q[token] > p[token] { factor } else { 1.0 })
    }),
    ("by_token", |p, _, _| times(p, |token| if token == 7 { 0.0 } else { 1.0 })),
    ("by_repeat", |p, _, past| {
        let recent = &past.completion[past.completion.len().saturating_sub(16)..];
        times(p, |token| if recent.contains(&token) { 0.7 } else { 1.0 })
    }),
    // Tokens that occurred before keep their mass: new tokens get what rejected ones lose.
    ("by_rejection", |p, _, past| {
        let new = |token: usize| !past.completion.contains(&token);
        let rejected = |token: usize| new(token) && past.not_taken.contains(&token);
        let mass = |group: &dyn Fn(usize) -> bool| {
            (0..VOCAB).filter(|&token| group(token)).map(|token| p[token]).sum::<f64>()
        };
        let (lost, kept) = (mass(&rejected), mass(&|token| new(token) && !rejected(token)));
        let share = if kept > 0.0 { 0.6 } else { 0.0 };
        times(p, |token| match (rejected(token), new(token)) {
            (true, _) => 1.0 - share,
            (_, true) => 1.0 + share * lost / kept,
            _ => 1.0,
        })
    }),
];

/// Catches: a token that came counts as one that was expected; the draft model's best token counts
/// as not taken where it was taken.
#[test]
fn unknown_bugs_are_refuted() {
    assert_eq!(
        OTHERS.map(|(bet, _)| bet),
        *UNKNOWN_BUGS.iter().map(|bug| bug.name).collect::<Vec<_>>()
    );
    for (bet, weights) in OTHERS {
        let found = audited(weights, 60, 3);
        let own = found.bets.iter().find(|one| one.bug == bet).unwrap();
        assert!(found.refuted && own.log10_e >= 3.0, "{bet}: {found:?}");
        assert_eq!(found.alike.first(), Some(&bet), "{found:?}");
    }
}

/// Bets win nothing from exact completions: of 60 audits at level 0.001 none refutes, and no bet
/// reaches ten times its stake more often than chance allows.
#[test]
fn nothing_is_learnt_from_exact_completions() {
    let found =
        (0..60).map(|seed| audited(|p, _, _| p.to_vec(), 6, 100 + seed)).collect::<Vec<_>>();
    assert!(found.iter().all(|found| !found.refuted));
    for bug in UNKNOWN_BUGS.iter().map(|bug| bug.name).chain([OTHER_SETTINGS]) {
        let bets = found.iter().flat_map(|found| &found.bets).filter(|bet| bet.bug == bug);
        let most = bets.map(|bet| bet.log10_e).collect::<Vec<_>>();
        // By Ville's inequality one of ten reaches 10; of 60, more than 14 do with probability
        // 0.002 at most.
        assert!(
            most.len() == 60 && most.iter().filter(|log| **log >= 1.0).count() <= 14,
            "{most:?}"
        );
    }
}

//! The distributions of bugs in cases at the edge.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use specdec::audit::{SequenceDists, TokenAudit, log_mean_exp};
use specdec::bugs::{BugDistribution, PositionDists, PositionMasses, audited};
use specdec::core::distribution::Dist;

/// Each bug emits some token: its probabilities sum to 1 for all distributions, including p = q,
/// one-hot and disjoint ones.
/// Catches: a token that is rejected where p = q has no successor; the numbers that reject a token
/// leave out those that reject others.
#[test]
fn each_bug_has_a_distribution() {
    let dists = [
        [0.45, 0.3, 0.2, 0.05],
        [0.2, 0.25, 0.15, 0.4],
        [0.0, 1.0, 0.0, 0.0],
        [0.5, 0.5, 0.0, 0.0],
        [0.0, 0.0, 0.3, 0.7],
    ];
    let dists = dists.map(|dist| Dist::from_probs(dist.to_vec()).unwrap());
    let mut placed = 0;
    for target in &dists {
        for draft in &dists {
            for raw in &dists {
                let place = PositionDists {
                    target,
                    raw_target: Some(raw),
                    before: Some(raw),
                    draft: Some(draft),
                    draft_before: Some(raw),
                    raw_draft: Some(raw),
                };
                let place = PositionMasses::of(&place);
                for bug in audited() {
                    let Some(dist) = bug.distribution_at(&place) else { continue };
                    let sum = match dist {
                        BugDistribution::Everywhere(dist) | BugDistribution::Bonus(dist) => {
                            dist.iter().sum::<f64>()
                        }
                        BugDistribution::Drafted { accepted, corrected } => {
                            accepted.iter().chain(&corrected).sum::<f64>()
                        }
                    };
                    placed += 1;
                    // A dozen sums of four numbers below 1.
                    assert!(
                        (sum - 1.0).abs() < 1e-12,
                        "{}: {sum} of {target:?} {draft:?} {raw:?}",
                        bug.name
                    );
                }
            }
        }
    }
    assert!(placed > 2500, "{placed}");
}

/// Two siblings that are not drawn, against a program that verifies them as if they were.
/// Catches: the second sibling is verified against all of p, not against what the first one left.
#[test]
fn siblings_have_the_distribution_of_their_program() {
    const DRAWS: u32 = 200_000;
    let (p, q) = ([0.45, 0.3, 0.2, 0.05], [0.2, 0.25, 0.15, 0.4]);
    let mut rng = ChaCha8Rng::seed_from_u64(17);
    let mut found = [[0.0; 4]; 2];
    for _ in 0..DRAWS {
        let mut wanted = p;
        let kept = [3, 1].into_iter().find(|&token| {
            let kept = rng.random::<f64>() < wanted[token] / q[token];
            if !kept {
                let rest = [0, 1, 2, 3].map(|i| (wanted[i] - q[i]).max(0.0));
                wanted = rest.map(|mass| mass / rest.iter().sum::<f64>());
            }
            kept
        });
        let mut number = rng.random::<f64>();
        let drawn = || (0..4).find(|&i| (number -= wanted[i], number < 0.0).1).unwrap_or(3);
        found[usize::from(kept.is_none())][kept.unwrap_or_else(drawn)] += 1.0 / f64::from(DRAWS);
    }
    let [p, q] = [p, q].map(|dist| Dist::from_probs(dist.to_vec()).unwrap());
    let place = PositionDists {
        target: &p,
        raw_target: None,
        before: None,
        draft: Some(&q),
        draft_before: None,
        raw_draft: None,
    };
    let bug = audited().find(|bug| bug.name == "top_siblings_soft_q").unwrap();
    let dist = bug.distribution_at(&PositionMasses::of(&place));
    let Some(BugDistribution::Drafted { accepted, corrected }) = dist else { panic!() };
    for (found, expected) in found.iter().flatten().zip(accepted.iter().chain(&corrected)) {
        let error = (expected * (1.0 - expected) / f64::from(DRAWS)).sqrt();
        assert!((found - expected).abs() < 5.0 * error + 1e-9, "{found} {expected}");
    }
}

/// The detectable share of a bug, against the one that follows from its distribution.
/// Catches: the mean of few draws is not corrected; any number of tokens notices a bug; the
/// stake of a bet is not split over its strengths.
#[test]
fn the_detectable_share_follows_from_the_distribution() {
    const TOKENS: usize = 20_000;
    let dists = [
        [0.45, 0.3, 0.2, 0.05],
        [0.2, 0.25, 0.15, 0.4],
        [0.9, 0.05, 0.04, 0.01],
        [0.97, 0.01, 0.01, 0.01],
        [0.5, 0.45, 0.04, 0.01],
    ];
    for target in dists {
        let mut audit = TokenAudit::new(&[4]);
        audit.begin("", 0);
        for _ in 0..TOKENS / 100 {
            let dist = Dist::from_probs(target.to_vec()).unwrap();
            let target = vec![dist; 100];
            let dists = SequenceDists { target, raw_target: None, draft: None, raw_draft: None };
            audit.read(&[0; 100], dists, None).unwrap();
        }
        for (name, power) in [("hotter", 0.8), ("colder", 1.25)] {
            let weights = target.map(|p: f64| p.powf(power));
            let own = weights.map(|weight| weight / weights.iter().sum::<f64>());
            // Whether nine of ten audits would refute the share that is this many steps below 1.
            let noticed = |step: &i32, log: f64| {
                let share = f64::powf(2.0, -f64::from(*step) / 3.0);
                let (mut mean, mut square) = (0.0, 0.0);
                for (p, own) in target.iter().zip(own) {
                    let drawn = p + share * (own - p);
                    let won = (drawn / p).ln();
                    (mean, square) = (mean + drawn * won, square + drawn * won * won);
                }
                let variance = TOKENS as f64 * (square - mean * mean);
                TOKENS as f64 * mean - 1.2816 * variance.sqrt() >= log + 28_f64.ln()
            };
            let bet = audit.bets.iter().find(|bet| bet.bug.name == name).unwrap();
            // A flat distribution shows too little of these bugs for 2,048 draws.
            let logs: &[f64] = if target[0] > 0.4 { &[0.0, 10.0] } else { &[10.0] };
            for &log in logs {
                let expected = (0..28).filter(|step| noticed(step, log)).max().unwrap();
                let found = bet.detectable(log);
                let found = found.map_or(0.0, |share| -3.0 * share.log2());
                // Draws at 2,048 positions are off by a step at most.
                assert!(
                    (found - f64::from(expected)).abs() < 1.01,
                    "{name} of {target:?}: {found} and {expected}"
                );
            }
        }
    }
}

/// After any past, no bet wins on average if the next token is drawn from p.
/// Catches: a bet that cannot lose; a learnt distribution that does not sum to 1; the tokens of no
/// group have the mass of all; ranges of a score that begin in the wrong place.
#[test]
fn every_bet_is_fair_after_any_past() {
    const PLACES: usize = 40;
    let mut rng = ChaCha8Rng::seed_from_u64(23);
    for _ in 0..20 {
        let mut dists = || {
            let dist = |_| {
                let weights = [0; 4].map(|_| 0.01 + rng.random::<f64>().powi(3));
                Dist::from_weights(weights.to_vec()).unwrap()
            };
            (0..PLACES).map(dist).collect::<Vec<_>>()
        };
        let dists = SequenceDists {
            target: dists(),
            raw_target: Some(dists()),
            draft: Some(dists()),
            raw_draft: Some(dists()),
        };
        // Not drawn from p, so that all bets differ from it.
        let past = (1..PLACES).map(|at| [0, 0, 1, 3][at * at % 4]).collect::<Vec<u32>>();
        let wealth = |tokens: &[u32]| {
            let cut = |dists: &Vec<Dist>| dists[..tokens.len()].to_vec();
            let dists = SequenceDists {
                target: cut(&dists.target),
                raw_target: dists.raw_target.as_ref().map(cut),
                draft: dists.draft.as_ref().map(cut),
                raw_draft: dists.raw_draft.as_ref().map(cut),
            };
            let mut audit = TokenAudit::new(&[1, 2, 4]);
            audit.begin("", 0);
            audit.read(tokens, dists, None).unwrap();
            let known = audit.bets.iter().map(|bet| (bet.bug.name, bet.wealth.log()));
            let learnt = audit.learnt.iter().map(|bet| (bet.bug.name, bet.wealth.log()));
            known.chain(learnt).collect::<Vec<_>>()
        };
        let before = wealth(&past);
        let after = (0..4).map(|next| wealth(&[&past[..], &[next]].concat())).collect::<Vec<_>>();
        for (bet, (name, log)) in before.into_iter().enumerate() {
            let mean = (0..4).map(|next| {
                dists.target[PLACES - 1].p(next) * (after[next as usize][bet].1 - log).exp()
            });
            let mean = mean.sum::<f64>();
            // Sums of logarithms over 40 positions.
            assert!((mean - 1.0).abs() < 1e-9, "{name}: {mean}");
        }
    }
}

/// Catches: each of the strengths of a bet has the whole stake.
#[test]
fn a_mean_of_powers_is_that_of_the_largest() {
    assert_eq!(log_mean_exp(&[]), f64::NEG_INFINITY);
    assert_eq!(log_mean_exp(&[f64::NEG_INFINITY; 2]), f64::NEG_INFINITY);
    assert!((log_mean_exp(&[2000.0, 0.0]) - (2000.0 - 2f64.ln())).abs() < 1e-9);
}

//! External verifiers that are wrong under rare conditions, and right ones that draw in loops.

use specdec::method::verify::Rejection;
use specdec::proof::external::{
    ExternalCertificate, ExternalChance, ExternalOptions, ExternalRound, ExternalVerdict,
    ExternalVerifier, OwnVerifier, certify_external,
};

use crate::external_support::{RIGHT, Rule, Tokens};

type Chance<'c> = &'c mut dyn ExternalChance;

fn certified(verifier: &mut dyn ExternalVerifier) -> ExternalCertificate {
    certify_external(verifier, &ExternalOptions::default()).unwrap()
}

/// Rejection sampling, but for rounds in which this gives the tokens.
fn unless(
    shortcut: impl Fn(&ExternalRound, usize) -> Option<u32>,
) -> impl FnMut(&ExternalRound, Chance<'_>) -> Tokens {
    let mut right = RIGHT.choosing();
    move |round, chance| {
        let mut found = right(round, chance)?;
        let cut = (0..found.len()).find_map(|at| Some((at, shortcut(round, at)?)));
        if let Some((at, token)) = cut {
            found.truncate(at);
            found.push(token);
        }
        Ok(found)
    }
}

/// Wrong verifiers whose conditions are met by few values of p/q, few rows, late drafted tokens or
/// large tokens.
/// Catches: ratios with gaps; no row that is nearly certain; V and K alone that are asked for.
#[test]
fn bugs_under_rare_conditions_are_found() {
    let most = |row: &[f64]| (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap();
    let certain = |round: &ExternalRound, at: usize| {
        let token = most(&round.p[at]);
        (round.p[at][token] >= 0.99).then_some(token as u32)
    };
    let mut greedy = unless(certain);
    let mut narrow = Rule {
        accept: |p, q| if (0.300..0.302).contains(&(p / q)) { 1.0 } else { p / q },
        ..RIGHT
    }
    .choosing();
    let mut rare = Rule { accept: |p, q| if p < 1e-8 { 0.0 } else { p / q }, ..RIGHT }.choosing();
    let mut fourth = unless(|round, at| (at == 3 && round.draft.len() > 3).then_some(0));
    let mut large = |round: &ExternalRound, chance: Chance<'_>| {
        let found = RIGHT.choosing()(round, chance)?;
        Ok(if found[0] == 16 { vec![0] } else { found })
    };
    let wrong: [(&str, &mut dyn ExternalVerifier); 5] = [
        ("greedy", &mut greedy),
        ("narrow", &mut narrow),
        ("rare", &mut rare),
        ("fourth", &mut fourth),
        ("large", &mut large),
    ];
    for (name, verifier) in wrong {
        let found = certified(verifier);
        assert_eq!(found.verdict, ExternalVerdict::Wrong, "{name}: {}", found.sentence());
        assert!(found.max_tv > found.bar && found.likely_bug.is_none(), "{name}");
    }
    for seed in 1..4 {
        let options = ExternalOptions { seed, ..ExternalOptions::default() };
        let found = certify_external(&mut narrow, &options).unwrap();
        assert_eq!(found.verdict, ExternalVerdict::Wrong, "{}", found.sentence());
    }
}

/// A residual is drawn by drawing from p until a token is kept.
fn looping(
    round: &ExternalRound,
    mut coin: impl FnMut(f64) -> Result<bool, specdec::Error>,
    mut draw: impl FnMut(&[f64]) -> Result<usize, specdec::Error>,
) -> Tokens {
    for (i, &token) in round.draft.iter().enumerate() {
        let (p, q, at) = (&round.p[i], &round.q[i], token as usize);
        if coin(p[at] / q[at])? {
            continue;
        }
        loop {
            let next = draw(p)?;
            if coin(1.0 - q[next] / p[next])? {
                return Ok([&round.draft[..i], &[next as u32]].concat());
            }
        }
    }
    Ok([&round.draft[..], &[draw(&round.p[round.draft.len()])? as u32]].concat())
}

/// Catches: the first walk decides by numbers that never end a loop; a verifier with paths of any
/// length is invalid.
#[test]
fn loops_that_end_are_sampled() {
    let mut choosing = |round: &ExternalRound, chance: Chance<'_>| {
        let chance = std::cell::RefCell::new(chance);
        let coin = |p: f64| {
            Ok(p > 0.0 && chance.borrow_mut().choose(&[p.min(1.0), (1.0 - p).max(0.0)])? == 0)
        };
        looping(round, coin, |weights| chance.borrow_mut().choose(weights))
    };
    let mut uniform = |round: &ExternalRound, chance: Chance<'_>| {
        let chance = std::cell::RefCell::new(chance);
        let coin = |p: f64| Ok(chance.borrow_mut().uniform()? < p);
        let draw = |weights: &[f64]| {
            let mut rest = chance.borrow_mut().uniform()?;
            let found = weights.iter().position(|weight| (rest -= weight, rest < 0.0).1);
            Ok(found.unwrap_or(0))
        };
        looping(round, coin, draw)
    };
    let options = ExternalOptions { vocab: 3, k: 2, detect: 0.05, ..ExternalOptions::default() };
    let verifiers: [&mut dyn ExternalVerifier; 2] = [&mut choosing, &mut uniform];
    for verifier in verifiers {
        let found = certify_external(verifier, &options).unwrap();
        assert_eq!(found.verdict, ExternalVerdict::NotRefuted, "{}", found.sentence());
        assert!(found.sampling.is_some());
    }
}

/// Catches: a difference below the tolerance of names is one from every bug that changes nothing.
#[test]
fn a_tiny_difference_has_no_name() {
    for factor in [1.0 + 1e-9, 1.0 + 1e-10] {
        let mut verifier = |round: &ExternalRound, chance: Chance<'_>| {
            let mut round = round.clone();
            for row in &mut round.p {
                let total = row.iter().sum::<f64>() + (factor - 1.0) * row[0];
                row[0] *= factor;
                row.iter_mut().for_each(|p| *p /= total);
            }
            RIGHT.choosing()(&round, chance)
        };
        let found = certified(&mut verifier);
        assert_eq!(found.verdict, ExternalVerdict::Wrong, "{}", found.sentence());
        assert!(found.max_tv < 2e-9 && found.likely_bug.is_none(), "{}", found.table());
        assert!(found.alike.is_empty(), "{}", found.table());
    }
}

/// Catches: the bonus token counts as accepted; the verdict of one V and K names no other.
#[test]
fn a_verdict_states_acceptance_and_shapes() {
    let rejection = certified(&mut OwnVerifier(Rejection));
    assert!((rejection.acceptance - rejection.rejection_acceptance).abs() < 1e-12);
    assert!((0.3..0.8).contains(&rejection.acceptance), "{}", rejection.acceptance);
    let mut never =
        |round: &ExternalRound, chance: Chance<'_>| Ok(vec![chance.choose(&round.p[0])? as u32]);
    let found = certified(&mut never);
    assert_eq!((found.verdict, found.acceptance), (ExternalVerdict::Exact, 0.0));
    assert_eq!(found.rejection_acceptance, rejection.rejection_acceptance);
    let sentence = found.sentence();
    assert!(sentence.contains(", 0.0 % of drafted tokens accepted ("), "{sentence}");
    let shapes = " by rejection sampling; vocabulary 4, K = 3; vocabulary 2, K = 6; \
                  vocabulary 40, K = 1)";
    assert!(sentence.ends_with(shapes), "{sentence}");
    let options = ExternalOptions { vocab: 3, k: 1, ..ExternalOptions::default() };
    let small =
        certify_external(&mut RIGHT.by_uniforms(), &ExternalOptions { detect: 0.1, ..options });
    let small = small.unwrap();
    assert!(small.sentence().ends_with(" by rejection sampling; vocabulary 3, K = 1)"));
    // Frequencies of thousands of tokens, against the mean of the same cases.
    assert!((small.acceptance - small.rejection_acceptance).abs() < 0.03, "{}", small.sentence());
}

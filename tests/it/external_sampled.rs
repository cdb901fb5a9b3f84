//! External verifiers that use uniforms: they are sampled, with the stated power.

use specdec::proof::external::{
    ExternalCertificate, ExternalChance, ExternalOptions, ExternalPrecision, ExternalRound,
    ExternalVerdict, certify_external,
};

use crate::external_support::{RIGHT, Rule};

fn sampled(rule: Rule, options: &ExternalOptions) -> ExternalCertificate {
    certify_external(&mut rule.by_uniforms(), options).unwrap()
}

const COARSE: ExternalOptions = ExternalOptions {
    vocab: 3,
    k: 2,
    detect: 0.03,
    precision: ExternalPrecision::F64,
    rounds: None,
    seed: 7,
};

/// Catches: uniform numbers are walked like choices; fewer rounds than the stated power takes;
/// drafts are drawn from p.
#[test]
fn a_right_verifier_is_not_refuted_and_the_power_is_stated() {
    let found = sampled(RIGHT, &COARSE);
    assert_eq!(found.verdict, ExternalVerdict::NotRefuted, "{}", found.table());
    let sampling = found.sampling.as_ref().unwrap();
    assert!(sampling.min_detectable_tv <= 0.03 && sampling.min_detectable_tv > 0.025);
    assert_eq!((sampling.level, sampling.impossible), (1e-3, 0));
    assert!(sampling.statistic.unwrap() < sampling.critical && sampling.log10_wealth < 3.0);
    assert!((10_000..80_000).contains(&found.rounds), "{}", found.rounds);
    assert!(found.likely_bug.is_none() && found.worst.is_none());
    let sentence = found.sentence();
    assert!(sentence.starts_with("not refuted at level 0.001 by "), "{sentence}");
    // Its distance is about the noise of the frequencies of exact rounds.
    for case in &found.cases {
        assert!(case.tv_joint < 2.0 * case.noise + 1e-9, "{case:?}");
    }
    // The same seed, the same rounds.
    assert_eq!(sampled(RIGHT, &COARSE), found);
    // The same number in each of 17 cases.
    let fewer = ExternalOptions { rounds: Some(1309), ..COARSE };
    let few = sampled(RIGHT, &fewer);
    assert_eq!((few.rounds, few.verdict), (1309, ExternalVerdict::NotRefuted));
    assert!(few.sampling.unwrap().min_detectable_tv > 0.1);
}

/// Catches: the least likely bug is named.
#[test]
fn wrong_verifiers_are_refuted_and_named_by_their_likelihood() {
    let wrong: [(&str, Rule); 6] = [
        ("correction_from_p", Rule { correction: |p, _, _| p.to_vec(), ..RIGHT }),
        ("accepts_all", Rule { accept: |_, _| 1.0, ..RIGHT }),
        ("lenient", Rule { accept: |p, q| 2.0 * p / q, ..RIGHT }),
        ("accepts_with_p", Rule { accept: |p, _| p, ..RIGHT }),
        ("bonus_from_last_q", Rule { bonus: |round| round.q[round.q.len() - 1].clone(), ..RIGHT }),
        ("correction_uniform", Rule { correction: |p, _, _| vec![1.0; p.len()], ..RIGHT }),
    ];
    for (name, rule) in wrong {
        let found = sampled(rule, &COARSE);
        assert_eq!(found.verdict, ExternalVerdict::Wrong, "{name}: {}", found.table());
        assert_eq!(found.likely_bug.as_ref().map(|bug| bug.name), Some(name), "{}", found.table());
        assert!(found.worst.is_some());
    }
}

/// The stated power holds for every difference, even one without a bet.
#[test]
fn a_difference_of_the_stated_size_is_found() {
    let accept: fn(f64, f64) -> f64 = |p, q| (p / q).powf(0.7);
    let rule = Rule { accept, ..RIGHT };
    let exact = certify_external(&mut rule.choosing(), &COARSE).unwrap();
    // Some of the cases are sampled, in the same order.
    let some = sampled(rule, &ExternalOptions { rounds: Some(20), ..COARSE }).cases;
    let mut names = some.iter().map(|case| case.name).peekable();
    let sampled_ones = exact.cases.iter().filter(|case| names.next_if_eq(&case.name).is_some());
    let squares = sampled_ones.map(|case| case.tv_joint * case.tv_joint);
    let size = (squares.sum::<f64>() / some.len() as f64).sqrt();
    assert!((0.01..0.1).contains(&size), "{size}");
    let refuted = (0..20).filter(|&seed| {
        let options = ExternalOptions { detect: size, seed, ..COARSE };
        sampled(rule, &options).verdict == ExternalVerdict::Wrong
    });
    let refuted = refuted.count();
    assert!(refuted >= 16, "refuted in {refuted} of 20 runs, of which 18 are to be expected");
}

/// No known bug moves mass to every second token of the bonus.
/// Catches: frequencies refute nothing.
#[test]
fn a_bug_without_a_bet_is_detected_but_not_named() {
    let bonus: fn(&ExternalRound) -> Vec<f64> = |round| {
        let drafted = round.draft.iter().sum::<u32>() as usize;
        let row = round.p[round.draft.len()].iter().enumerate();
        row.map(|(t, p)| p * if (t + drafted).is_multiple_of(2) { 1.2 } else { 0.8 }).collect()
    };
    let found = sampled(Rule { bonus, ..RIGHT }, &COARSE);
    let sampling = found.sampling.as_ref().unwrap();
    assert!(sampling.log10_wealth < 3.0, "{}", found.table());
    assert!(sampling.statistic.unwrap() > sampling.critical, "{}", found.table());
    assert_eq!((found.verdict, &found.likely_bug), (ExternalVerdict::Wrong, &None));
    assert!(found.closest_bug.is_some());
}

/// Catches: exact frequencies are refuted at a level of 0.1.
#[test]
fn exact_verifiers_are_rarely_refuted() {
    let options = ExternalOptions { vocab: 2, k: 1, detect: 0.1, ..COARSE };
    let refuted = (0..200).filter(|&seed| {
        let found = sampled(RIGHT, &ExternalOptions { seed, ..options });
        found.verdict == ExternalVerdict::Wrong
    });
    // At level 0.001 three of 200 have a probability of 0.001.
    assert!(refuted.count() <= 2);
}

#[test]
fn choices_and_uniforms_may_be_mixed() {
    let mut uniform = RIGHT.by_uniforms();
    let mut choose = RIGHT.choosing();
    // It uses uniforms only in the last case.
    let mut mixed = |round: &ExternalRound, chance: &mut dyn ExternalChance| {
        if round.p[0].contains(&1.0) { uniform(round, chance) } else { choose(round, chance) }
    };
    let found = certify_external(&mut mixed, &COARSE).unwrap();
    assert_eq!(found.verdict, ExternalVerdict::NotRefuted, "{}", found.sentence());
    assert!(found.sampling.is_some() && found.cases.len() == 17);
}

//! External verifiers: correct ones are certified, wrong ones refuted and named.

mod rows;

use specdec::Error;
use specdec::bugs::wrong_verifiers;
use specdec::method::verify::{Lenient, Rejection, TokenMatch, Traversal};
use specdec::proof::external::{
    ExternalCertificate, ExternalChance, ExternalOptions, ExternalPrecision, ExternalRound,
    ExternalVerdict, ExternalVerifier, OwnVerifier, certify_external,
};

use crate::external_support::{RIGHT, Rule, Tokens, in_f32};

fn certified(verifier: &mut dyn ExternalVerifier) -> ExternalCertificate {
    certify_external(verifier, &ExternalOptions::default()).unwrap()
}

/// The likely bug of a verifier that must be wrong.
fn named(mut verifier: impl ExternalVerifier) -> Option<&'static str> {
    let found = certified(&mut verifier);
    assert_eq!(found.verdict, ExternalVerdict::Wrong, "{}", found.sentence());
    assert!(!found.holds() && found.max_tv > found.bar);
    found.likely_bug.map(|bug| bug.name)
}

/// The fault of an invalid verifier.
fn fault(verifier: &mut dyn ExternalVerifier) -> String {
    let found = certified(verifier);
    assert_eq!(found.verdict, ExternalVerdict::Invalid, "{}", found.sentence());
    assert_eq!(found.sentence(), format!("invalid: {}", found.fault.as_ref().unwrap()));
    found.fault.unwrap()
}

/// Catches: rare outcomes are not walked; a round is completed from the distribution after the
/// prompt.
#[test]
fn exact_verifiers_are_exact_in_every_case() {
    let own: [(&str, &mut dyn ExternalVerifier); 4] = [
        ("rejection", &mut OwnVerifier(Rejection)),
        ("token match", &mut OwnVerifier(TokenMatch)),
        ("traversal", &mut OwnVerifier(Traversal)),
        ("a closure", &mut RIGHT.choosing()),
    ];
    for (name, verifier) in own {
        let found = certified(verifier);
        assert_eq!(found.verdict, ExternalVerdict::Exact, "{name}: {}", found.sentence());
        assert!(found.max_error <= 1e-12 && found.max_tv <= 1e-12);
        assert_eq!((found.cases.len(), found.likely_bug, found.worst), (50, None, None));
        assert!(found.rounds > 2000, "{name}: {}", found.rounds);
        assert!(found.closest_bug.is_none());
    }
    let found = certified(&mut OwnVerifier(Rejection));
    let start =
        "exact: the joint distribution of K + 1 tokens is the target's to 1.0e-12 in 50 cases, ";
    assert!(found.sentence().starts_with(start), "{}", found.sentence());
    assert!(found.table().contains("\ndisjoint "), "{}", found.table());
}

#[test]
fn other_vocabularies_and_lengths_are_certified() {
    for (vocab, k) in [(2, 1), (3, 2), (8, 1), (2, 5)] {
        let options = ExternalOptions { vocab, k, ..ExternalOptions::default() };
        let found = certify_external(&mut OwnVerifier(Rejection), &options).unwrap();
        assert_eq!(found.verdict, ExternalVerdict::Exact, "{}", found.sentence());
        let wrong = &mut OwnVerifier(Lenient { lenience: 0.5 });
        let found = certify_external(wrong, &options).unwrap();
        assert_eq!(found.verdict, ExternalVerdict::Wrong, "{}", found.sentence());
    }
}

#[test]
fn wrong_verifiers_are_refuted_and_named() {
    let wrong: [(&str, Rule); 11] = [
        ("correction_from_p", Rule { correction: |p, _, _| p.to_vec(), ..RIGHT }),
        ("correction_from_q", Rule { correction: |_, q, _| q.to_vec(), ..RIGHT }),
        ("residual_reversed", Rule { correction: |p, q, t| (RIGHT.correction)(q, p, t), ..RIGHT }),
        ("correction_uniform", Rule { correction: |p, _, _| vec![1.0; p.len()], ..RIGHT }),
        (
            "correction_without_draft",
            Rule {
                correction: |p, _, token| {
                    let mut rest = p.to_vec();
                    rest[token] = 0.0;
                    rest
                },
                ..RIGHT
            },
        ),
        ("accepts_with_p", Rule { accept: |p, _| p, ..RIGHT }),
        ("accept_ratio_inverted", Rule { accept: |p, q| q / p, ..RIGHT }),
        ("accepts_all", Rule { accept: |_, _| 1.0, ..RIGHT }),
        ("lenient", Rule { accept: |p, q| 2.0 * p / q, ..RIGHT }),
        ("bonus_from_last_q", Rule { bonus: |round| round.q[round.q.len() - 1].clone(), ..RIGHT }),
        (
            "token_match_redraws",
            Rule { accept: |p, _| p, correction: |p, _, _| p.to_vec(), ..RIGHT },
        ),
    ];
    for (name, rule) in wrong {
        assert_eq!(named(rule.choosing()), Some(name));
    }
}

/// Each has a different distribution, so that the name identifies the bug.
#[test]
fn wrong_verifiers_are_named_as_themselves() {
    for (bug, verifier) in wrong_verifiers() {
        // These cost speed alone.
        if !["no_bonus", "draft_distributions_lost"].contains(&bug.name) {
            assert_eq!(named(OwnVerifier(verifier)), Some(bug.name), "{}", bug.summary);
        }
    }
}

/// Catches: a bug that is only similar is named.
#[test]
fn an_unknown_bug_is_not_named() {
    let accept: fn(f64, f64) -> f64 = |p, q| (p / q).powf(0.9);
    let found = certified(&mut Rule { accept, ..RIGHT }.choosing());
    assert_eq!((found.verdict, &found.likely_bug), (ExternalVerdict::Wrong, &None));
    let closest = found.closest_bug.as_ref().unwrap();
    assert!(closest.tv > 1e-3 && closest.tv < 0.05, "{closest:?}");
    assert!(found.table().contains("likely bug: unlike any known one; the closest is "));
}

/// Catches: only the first token is compared.
#[test]
fn the_worst_case_shows_where_the_distribution_differs() {
    let bonus: fn(&ExternalRound) -> Vec<f64> = |round| round.q[round.q.len() - 1].clone();
    let found = certified(&mut Rule { bonus, ..RIGHT }.choosing());
    let worst = found.worst.as_ref().unwrap();
    // Only the token after a whole draft is wrong, whose row is the last.
    let (p, q, draft) = (&worst.round.p, &worst.round.q, &worst.round.draft);
    assert_eq!((p.len(), draft.len()), (q.len() + 1, q.len()));
    assert_eq!((&worst.after, &worst.expected), (draft, &p[q.len()]));
    assert!((worst.found.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    let off = worst.found.iter().zip(&worst.expected).map(|(a, b)| (a - b).abs());
    assert!(off.sum::<f64>() > 0.1, "{worst:?}");
    let text = found.table();
    assert!(text.contains("worst case: ") && text.contains("\n  expected ["), "{text}");
    assert!(
        text.contains("likely bug: bonus_from_last_q: the bonus token is drawn from"),
        "{text}"
    );
    let json = serde_json::to_value(&found).unwrap();
    assert_eq!(
        (&json["verdict"], &json["likely_bug"]["name"]),
        (&"wrong".into(), &"bonus_from_last_q".into())
    );
    assert_eq!(json["worst"]["p"].as_array().unwrap().len(), p.len());
    // The first token has the right distribution, although the joint distribution is wrong.
    assert!(found.cases.iter().all(|case| case.tv_first_token < 1e-12));
}

/// Catches: the tolerance of f64 is that of f32.
#[test]
fn single_precision_has_a_larger_tolerance() {
    let found = certified(&mut in_f32);
    assert_eq!(found.verdict, ExternalVerdict::Wrong);
    assert!(found.max_tv > 1e-9 && found.max_tv < 1e-6, "{}", found.sentence());
    let hint = "; rounding of a verifier that computes in f32 explains it";
    assert!(found.sentence().ends_with(hint), "{}", found.sentence());
    let options = ExternalOptions { precision: ExternalPrecision::F32, ..Default::default() };
    let found = certify_external(&mut in_f32, &options).unwrap();
    assert_eq!(found.verdict, ExternalVerdict::Exact, "{}", found.sentence());
    assert!((3.8e-6..3.9e-6).contains(&found.bar));
    let accept: fn(f64, f64) -> f64 = |p, q| 1.0001 * p / q;
    let found = certify_external(&mut Rule { accept, ..RIGHT }.choosing(), &options).unwrap();
    assert_eq!(found.verdict, ExternalVerdict::Wrong, "{}", found.sentence());
    assert!(!found.sentence().ends_with(hint));
}

/// Catches: accepted tokens may be any; weights may be negative.
#[test]
fn invalid_behaviour_is_reported() {
    let starts = |verifier: &mut dyn ExternalVerifier, sentence: &str| {
        let found = fault(verifier);
        assert!(found.contains(sentence), "{found}");
    };
    type Chance<'c> = &'c mut dyn ExternalChance;
    let mut outside = |_: &ExternalRound, _: Chance<'_>| Ok(vec![9]);
    starts(&mut outside, "it returned [9], but there is no token 9: tokens are 0 to 3");
    let mut many = |round: &ExternalRound, _: Chance<'_>| Ok([&round.draft[..], &[0, 0]].concat());
    starts(&mut many, "a round has at most 4, the 3 of the draft and one more");
    let mut none = |_: &ExternalRound, _: Chance<'_>| Ok(Vec::new());
    starts(&mut none, "it returned no token: a round has at least one");
    let mut other = |round: &ExternalRound, _: Chance<'_>| Ok(vec![(round.draft[0] + 1) % 4, 0]);
    starts(&mut other, "all but the last, 0, must be the first tokens of the draft");
    for (weights, sentence) in [
        ([0.5, -0.1], "choose by [0.5, -0.1]: weight 1 is negative"),
        ([f64::NAN, 1.0], "weight 0 is NaN, which is not a finite number"),
        ([0.0, 0.0], "choose by [0.0, 0.0]: no weight is positive"),
        ([f64::MAX, f64::MAX], "the weights are too large to be summed"),
    ] {
        let mut asks = |_: &ExternalRound, chance: Chance<'_>| {
            Ok(vec![chance.choose(&weights).unwrap_or_default() as u32])
        };
        starts(&mut asks, sentence);
    }
    let mut fails = |_: &ExternalRound, _: Chance<'_>| -> Tokens { Err(Error::input("no GPU")) };
    starts(&mut fails, "case independent, draft [0, 0, 0]: it failed: no GPU");
    let mut endless = |round: &ExternalRound, chance: Chance<'_>| loop {
        chance.choose(&round.p[0])?;
    };
    starts(&mut endless, "it draws more than 1048576 numbers in a round");
}

/// Catches: answers or questions may differ on the second walk; a question that is not repeated is
/// overlooked.
#[test]
fn a_verifier_with_its_own_randomness_is_detected() {
    let mut calls = 0;
    let mut own = |round: &ExternalRound, _: &mut dyn ExternalChance| {
        calls += 1;
        Ok(vec![(round.draft[0] + calls) % 4])
    };
    assert!(fault(&mut own).contains("after the same ones it returned [1] and then [2]"));
    let mut calls = 0;
    let mut asks = |round: &ExternalRound, chance: &mut dyn ExternalChance| {
        calls += 1;
        let weights = [round.p[0][0], 0.1 * f64::from(calls)];
        Ok(vec![chance.choose(&weights)? as u32])
    };
    assert!(fault(&mut asks).contains("where it asked by ["));
    let mut calls = 0;
    let mut stops = |round: &ExternalRound, chance: &mut dyn ExternalChance| {
        calls += 1;
        Ok(vec![if calls % 3 == 0 { 0 } else { chance.choose(&round.p[0])? as u32 }])
    };
    assert!(fault(&mut stops).contains("without choice 1, which it asked for before"));
}

#[test]
fn options_out_of_range_are_refused() {
    let refused = |options: &ExternalOptions| {
        certify_external(&mut OwnVerifier(Rejection), options).unwrap_err().to_string()
    };
    let options = ExternalOptions::default();
    for (options, sentence) in [
        (ExternalOptions { vocab: 1, ..options }, "vocab is 1, but must be at least 2"),
        (ExternalOptions { k: 0, ..options }, "k is 0, but must be at least 1"),
        (ExternalOptions { k: 9, ..options }, "vocab^(k+1) sequences are enumerated, at most 4096"),
        (ExternalOptions { detect: 0.0, ..options }, "detect is 0: allowed is 0.0001 to 0.5"),
        (ExternalOptions { rounds: Some(0), ..options }, "rounds: allowed is 1 to 1000000000"),
    ] {
        assert!(refused(&options).contains(sentence), "{}", refused(&options));
    }
}

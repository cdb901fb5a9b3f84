//! Draft length policies: when they stop, and how they learn from acceptance.

use std::rc::Rc;

use specdec::core::chance::Exhaustive;
use specdec::core::distribution::{Dist, Token};
use specdec::core::registry::find;
use specdec::core::round::RoundTimes;
use specdec::core::tree::{Draft, NodeId};
use specdec::method::length::{DraftLength, LENGTHS, LengthParams};

use crate::asking::{Asking, FinishedRound, seeded_draws, spec};
use crate::fixtures::{dist, markov, seeded, uniform};

/// A policy by its name, with settings.
pub(crate) fn policy(name: &str, k: usize, settings: &[(&str, &str)]) -> Box<dyn DraftLength> {
    let entry = find("draft length policy", LENGTHS, name).unwrap();
    let params = spec("model", k, settings).params.of(entry.params).unwrap();
    (entry.build)(&LengthParams { num_speculative_tokens: k, params: &params }).unwrap()
}

/// A chain whose tokens are the most probable ones of these distributions.
fn chain(dists: &[Vec<f64>]) -> Draft {
    let mut draft = Draft::empty(4);
    let mut parent = None;
    for probs in dists {
        // The first outcome of every draw is the first possible token.
        parent = Some(draft.sample(parent, &Rc::new(dist(probs)), &mut Exhaustive::default()));
    }
    draft
}

/// A chain of tokens with these draft probabilities.
pub(crate) fn confident(probs: &[f64]) -> Draft {
    chain(&probs.iter().map(|p| vec![*p, 1.0 - p, 0.0, 0.0]).collect::<Vec<_>>())
}

/// The number of drafted tokens if all have this distribution.
pub(crate) fn drafted(policy: &mut dyn DraftLength, probs: &[f64]) -> usize {
    let (mut draft, dist) = (Draft::empty(4), Rc::new(dist(probs)));
    while policy.go_deeper(&draft) {
        draft.sample(draft.len().checked_sub(1), &dist, &mut Exhaustive::default());
    }
    draft.len()
}

/// Reports a round that kept the first `kept` tokens of a chain.
pub(crate) fn observe(policy: &mut dyn DraftLength, draft: &Draft, kept: usize, times: RoundTimes) {
    let path = (0..kept).collect::<Vec<NodeId>>();
    FinishedRound { times, ..FinishedRound::new(draft, &path) }
        .event(|event| policy.observe(event));
}

fn observe_untimed(policy: &mut dyn DraftLength, draft: &Draft, kept: usize) {
    observe(policy, draft, kept, RoundTimes::default());
}

pub(crate) const EVEN: [f64; 4] = [0.25; 4];

#[test]
fn only_policies_that_use_confidence_request_it() {
    let looks = |name: &&str| policy(name, 3, &[]).needs_confidence();
    assert!(!["fixed", "heuristic", "ucb", "by_batch", "shared_budget"].iter().any(looks));
    assert!(["confidence", "entropy", "adaedl", "optimal_stopping"].iter().all(looks));
}

#[test]
fn heuristic_adds_two_or_subtracts_one() {
    let mut policy = policy("heuristic", 3, &[]);
    let mut rounds = |kept: &[usize]| {
        let next = kept.iter().map(|&kept| {
            let draft = confident(&vec![0.5; drafted(&mut *policy, &EVEN)]);
            observe_untimed(&mut *policy, &draft, kept.min(draft.len()));
            drafted(&mut *policy, &EVEN)
        });
        next.collect::<Vec<_>>()
    };
    // Keeps all 3, all 5, 6 of 7 and 5 of 6 tokens, and then none.
    assert_eq!(rounds(&[3, 5, 6, 5, 0, 0, 0, 0]), [5, 7, 6, 5, 4, 3, 2, 1]);
    assert_eq!(rounds(&[0, 0, 1, 2]), [1, 1, 3, 2], "never less than one");
    assert_eq!(*rounds(&[99; 30]).last().unwrap(), 32, "at most what a cache has room for");
}

#[test]
fn heuristic_never_shortens_after_full_acceptance() {
    let mut policy = policy("heuristic", 40, &[]);
    observe_untimed(&mut *policy, &confident(&[0.5; 40]), 40);
    assert_eq!(policy.max_depth(), 40);
    observe_untimed(&mut *policy, &confident(&[0.5; 40]), 39);
    assert_eq!(policy.max_depth(), 39);
}

#[test]
fn heuristic_ignores_rounds_without_a_draft() {
    let mut policy = policy("heuristic", 3, &[]);
    observe_untimed(&mut *policy, &Draft::empty(4), 0);
    assert_eq!(drafted(&mut *policy, &EVEN), 3);
}

#[test]
fn confidence_stops_after_the_first_token_of_low_probability() {
    for threshold in ["confidence_threshold", "p_min", "assistant_confidence_threshold"] {
        let name = specdec::method::decode::find_param(threshold).unwrap().key;
        let mut policy = policy("confidence", 4, &[(name, "0.5"), ("confidence_tuned", "0")]);
        let mut continues = |probs: &[f64]| policy.go_deeper(&confident(probs));
        assert!(continues(&[]), "no token has been drafted yet");
        assert!(continues(&[0.5]) && continues(&[0.9, 0.5, 0.51]));
        assert!(!continues(&[0.49]) && !continues(&[0.9, 0.2]));
        assert!(continues(&[0.2, 0.9]), "only the last token counts");
        assert!(!continues(&[0.9; 4]), "no more than K");
        // A threshold without tuning stays.
        (0..9).for_each(|_| observe_untimed(&mut *policy, &confident(&[0.2, 0.2, 0.1]), 2));
        assert!(!policy.go_deeper(&confident(&[0.49])));
    }
    let mut policy = policy("confidence", 4, &[]);
    assert!(policy.go_deeper(&confident(&[0.41])) && !policy.go_deeper(&confident(&[0.39])));
}

/// False positive rate + 3 × false negative rate of `predicted` as a prediction of which
/// tokens are kept.
fn cost(seen: &[(f64, bool)], predicted: impl Fn(f64) -> bool) -> f64 {
    let rate = |kept: bool, said: bool| {
        let of_kind = seen.iter().filter(|(_, k)| *k == kept);
        let wrong = of_kind.clone().filter(|(q, _)| predicted(*q) == said).count();
        wrong as f64 / of_kind.count() as f64
    };
    rate(false, true) + 3.0 * rate(true, false)
}

#[test]
fn confidence_learns_the_threshold_of_least_cost() {
    let mut rng = seeded(51);
    let mut thresholds = Vec::new();
    for case in 0..40 {
        let mut policy = policy("confidence", 9, &[]);
        let mut seen = Vec::new();
        for _ in 0..12 {
            let probs = (0..3).map(|_| 0.05 + 0.9 * uniform(&mut rng)).collect::<Vec<_>>();
            // Improbable tokens are rejected more often; how much more depends on the case.
            let keep =
                probs.iter().map(|q| uniform(&mut rng) < q.powf(0.3 + f64::from(case) / 20.0));
            let kept = keep.take_while(|&kept| kept).count();
            observe_untimed(&mut *policy, &confident(&probs), kept);
            // No decision is made on tokens after a rejected one.
            seen.extend(probs.into_iter().take(kept + 1).enumerate().map(|(i, q)| (q, i < kept)));
        }
        let mut continues = |q: f64| policy.go_deeper(&confident(&[q]));
        let found = seen.iter().map(|(q, _)| (*q, continues(*q))).collect::<Vec<_>>();
        let said = |q: f64| found.iter().any(|&(other, on)| other == q && on);
        let best = seen.iter().map(|&(threshold, _)| cost(&seen, |q| q >= threshold));
        let best = best.fold(f64::INFINITY, f64::min);
        assert!((cost(&seen, said) - best).abs() < 1e-12, "{seen:?} {found:?}");
        thresholds.push(found.iter().filter(|(_, on)| !on).count());
    }
    // The thresholds neither always keep everything nor always stop at once.
    assert!(thresholds.contains(&0) && thresholds.iter().any(|&stops| stops > 3));
}

#[test]
fn confidence_learns_from_six_or_more_tokens_of_both_outcomes() {
    let decides = |rounds: &[(&[f64], usize)]| {
        let mut policy = policy("confidence", 9, &[("confidence_threshold", "0.4")]);
        rounds
            .iter()
            .for_each(|(probs, kept)| observe_untimed(&mut *policy, &confident(probs), *kept));
        policy.go_deeper(&confident(&[0.3]))
    };
    // Kept at 0.2 and rejected at 0.1, so that 0.3 would be kept.
    assert!(!decides(&[(&[0.2, 0.2, 0.2, 0.2, 0.1], 4)]), "five tokens");
    assert!(decides(&[(&[0.2, 0.2, 0.2, 0.2, 0.2, 0.1], 5)]), "six tokens");
    assert!(!decides(&[(&[0.2; 8], 8)]), "none was rejected");
    assert!(!decides(&[(&[0.2][..], 0); 8]), "none was kept");
    assert!(!decides(&[(&[0.2, 0.2, 0.2, 0.2, 0.1, 0.1, 0.1], 4)]), "two were undecided");
    // A threshold of 0.3 wrongly tries four tokens and 0.4 misses one of five, which is
    // cheaper.
    let equals = [[(&[0.3][..], 0); 4], [(&[0.4][..], 1); 4]].concat();
    assert!(!decides(&[&equals[..], &[(&[0.3], 1)]].concat()), "five of equal confidence");
}

/// A distribution of four tokens with this entropy: one token has probability x, the others
/// share the rest equally.
fn distribution_of_entropy(entropy: f64) -> Vec<f64> {
    let probs = |x: f64| vec![x, (1.0 - x) / 3.0, (1.0 - x) / 3.0, (1.0 - x) / 3.0];
    let (mut even, mut sure) = (0.25, 1.0);
    for _ in 0..60 {
        let middle = 0.5 * (even + sure);
        if dist(&probs(middle)).entropy() > entropy { even = middle } else { sure = middle }
    }
    probs(sure)
}

/// The entropy above which a policy stops.
pub(crate) fn limit_of_entropy(policy: &mut dyn DraftLength) -> f64 {
    let (mut on, mut off) = (0.0, 4_f64.ln());
    for _ in 0..50 {
        let middle = 0.5 * (on + off);
        if policy.go_deeper(&chain(&[distribution_of_entropy(middle)])) {
            on = middle
        } else {
            off = middle
        }
    }
    on
}

#[test]
fn entropy_stops_after_a_distribution_of_high_entropy() {
    // It stops if sqrt(0.15 H) > h. 50 bisections of 1.4 leave less than 1e-14, and the
    // bisected entropies are accurate to 1e-13.
    let mut default = policy("entropy", 4, &[]);
    assert!((limit_of_entropy(&mut *default) - 0.09 / 0.15).abs() < 1e-12);
    let mut bold = policy("entropy", 4, &[("entropy_threshold", "0.4")]);
    assert!((limit_of_entropy(&mut *bold) - 0.16 / 0.15).abs() < 1e-12);
    let one_hot = Dist::one_hot(4, 0);
    let sure = (0..4).map(|token: Token| one_hot.p(token)).collect::<Vec<_>>();
    assert_eq!(drafted(&mut *bold, &sure), 4, "K");
    assert_eq!(drafted(&mut *bold, &EVEN), 1, "the token of high entropy itself stays");
    // Only the last distribution counts.
    assert!(bold.go_deeper(&chain(&[EVEN.to_vec(), sure])));
}

#[test]
fn adaedl_adjusts_its_threshold_to_the_configured_acceptance() {
    let (factor, wanted) = (0.5, 0.6);
    let mut policy = policy("adaedl", 9, &[("adaedl_gamma", "0.5"), ("adaedl_acceptance", "0.6")]);
    let (mut rate, mut threshold) = (wanted, 0.4_f64);
    let mut rng = seeded(52);
    for round in 0..60 {
        // It stops if 1 - sqrt(factor H) < threshold.
        let limit = (1.0 - threshold).powi(2) / factor;
        assert!((limit_of_entropy(&mut *policy) - limit).abs() < 1e-12, "round {round}");
        let drafted = 1 + (uniform(&mut rng) * 5.0) as usize;
        let kept = (uniform(&mut rng) * (drafted as f64 + 1.0)) as usize;
        observe_untimed(&mut *policy, &confident(&vec![0.5; drafted]), kept);
        observe_untimed(&mut *policy, &Draft::empty(4), 0);
        rate = 0.5 * rate + 0.5 * kept as f64 / drafted as f64;
        let step: f64 = if rate < wanted { 0.01 } else { -0.01 };
        threshold = 0.9 * threshold + 0.1 * (threshold + step);
    }
}

#[test]
fn the_token_at_which_a_policy_stops_stays_in_the_draft() {
    // The improbable token that makes a policy stop stays in the draft.
    let q = vec![vec![0.26, 0.25, 0.25, 0.24]; 4];
    let toy = markov(&q, &q).draft("d").unwrap();
    for length in ["confidence", "entropy", "adaedl"] {
        let mut spec = spec("model", 5, &[("adaedl_gamma", "0.5")]);
        spec.length = length.to_owned();
        let tools = specdec::method::draft::Tools { draft: Some(&toy), ..Default::default() };
        let mut drafter = Asking::new(&spec, tools, 4, &[0]);
        for seed in 0..8 {
            assert_eq!(drafter.ask(&[0], &mut seeded_draws(seed)).len(), 1, "{length}");
        }
    }
}

/// States that learned different things must not be merged.
#[test]
fn the_state_key_covers_what_a_policy_has_learned() {
    let draft = confident(&[0.9, 0.6, 0.3]);
    for name in LENGTHS.iter().map(|entry| entry.name) {
        let keys = [0, 0, 3].map(|kept| {
            let mut policy = policy(name, 3, &[]);
            (0..9).for_each(|_| observe_untimed(&mut *policy, &draft, kept));
            assert_eq!(policy.clone().state_key(), policy.state_key());
            policy.state_key()
        });
        assert_eq!(keys[0], keys[1]);
        assert_eq!(
            keys[0] == keys[2],
            ["fixed", "confidence_head", "entropy", "by_batch"].contains(&name),
            "{name}"
        );
    }
}

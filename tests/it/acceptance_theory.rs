//! The acceptance of drafted tokens: known values, inequalities between rules, and the ceiling that
//! no rule exceeds. The output distribution shows none of this.

use std::collections::BTreeMap;
use std::rc::Rc;

use specdec::core::chance::Chance;
use specdec::core::distribution::{Dist, Token};
use specdec::core::params::{Params, Value};
use specdec::core::tree::{Draft, Siblings};
use specdec::method::decode::{Generation, MethodSpec, StopRules};
use specdec::method::verify::{
    GreedyMulti, KSeq, Lenient, Rejection, SpecHub, TokenMatch, Traversal, Typical, Verifier,
    ceiling,
};
use specdec::model::ToyPair;
use specdec::proof::enumerate;

use crate::fixtures::{dist, near, outcomes, random_distribution, seeded};
use crate::verifier_distribution::grow as grow_at;

/// The fixture: its overlap is 0.7.
const P: [f64; 3] = [0.5, 0.3, 0.2];
const Q: [f64; 3] = [0.2, 0.3, 0.5];

/// Adds k children of the context.
fn grow(siblings: Siblings, k: usize, q: &Rc<Dist>, chance: &mut dyn Chance) -> Draft {
    let mut draft = Draft::empty(q.vocab());
    grow_at(&mut draft, None, q, (siblings, k), chance);
    draft
}

/// The probability that one of k children is kept.
fn kept(rule: &dyn Verifier, siblings: Siblings, k: usize, p: &Dist, q: &Dist) -> f64 {
    let q = Rc::new(q.clone());
    let tried = outcomes(|chance| {
        let draft = grow(siblings, k, &q, chance);
        // Once a child is kept, the rest of the round is deterministic.
        let mut targets = vec![Dist::one_hot(q.vocab(), 0); draft.len() + 1];
        targets[0] = p.clone();
        !rule.verify(&draft, &targets, chance).path.is_empty()
    });
    tried.into_iter().filter(|(kept, _)| *kept).map(|(_, weight)| weight).sum()
}

/// The same probability, from a whole production round on a toy.
fn kept_in_a_round(verifier: &str, siblings: &str, k: usize) -> f64 {
    let pair = ToyPair::context_free(&P, &Q);
    let (target, draft) = (pair.target("t").unwrap(), pair.draft("d").unwrap());
    let text = |text: &str| Value::Text(text.to_owned());
    let spec = MethodSpec {
        drafter: "model_tree".to_owned(),
        verifier: verifier.to_owned(),
        num_speculative_tokens: 1,
        params: Params::default()
            .with("tree", text(&k.to_string()))
            .with("siblings", text(siblings)),
        ..MethodSpec::default()
    };
    let method = spec.build(Some(&draft)).unwrap();
    let stop = StopRules::max_tokens(2);
    let generation = Generation::new(&target, method, &[0], stop, None).unwrap();
    enumerate(&target, generation, &mut []).unwrap().tally.first_accepted
}

/// Asserts equality to four decimals.
fn near_printed(a: f64, b: f64) {
    assert!((a - b).abs() <= 0.5e-4, "{a} is not {b}");
}

#[test]
fn verifiers_have_their_known_acceptance_on_the_fixture() {
    let kept = kept_in_a_round;
    for (k, rejection, k_seq, distinct) in [(2, 0.76, 0.7914, 0.82), (3, 0.808, 0.8585, 1.0)] {
        near_printed(kept("rejection", "independent", k), rejection);
        near_printed(kept("k_seq", "independent", k), k_seq);
        near_printed(kept("rejection", "distinct", k), distinct);
        // On trees of depth one traversal and rejection are the same rule.
        near(kept("traversal", "distinct", k), kept("rejection", "distinct", k));
    }
    near_printed(kept("spechub", "hub", 2), 0.9);
    for verifier in ["rejection", "traversal", "k_seq"] {
        near_printed(kept(verifier, "independent", 1), 0.7);
    }
    near_printed(kept("token_match", "independent", 1), 0.29);
    // Two tries of the target's own token: 1 − Σ p (1 − q)².
    near(kept("token_match", "independent", 2), 1.0 - (0.5 * 0.64 + 0.3 * 0.49 + 0.2 * 0.25));
    // The two most probable tokens of the draft are b and c.
    for verifier in ["rejection", "traversal", "greedy_multi", "token_match"] {
        near(kept(verifier, "top_k", 2), 0.5);
    }
    // c is listed; a or b is drawn from (2/5, 3/5): 1/5 + min(1/2, 2/5) + min(3/10, 3/5).
    near(kept("greedy_multi", "last_sampled", 2), 0.9);
}

#[test]
fn k_seq_acceptance_matches_its_published_rho() {
    for (k, rho) in [(2, 1.4568), (3, 1.7926)] {
        let b = P.iter().zip(Q).map(|(p, q)| f64::min(q, p / rho)).sum::<f64>();
        near_printed(kept_in_a_round("k_seq", "independent", k), 1.0 - (1.0 - b).powi(k as i32));
        // Rho solves acceptance = rho b; a smaller rho would not be exact. Its rounding to
        // four decimals moves either side by less than 1e-4.
        assert!((1.0 - (1.0 - b).powi(k as i32) - rho * b).abs() < 1e-4);
    }
}

#[test]
fn ceilings_of_the_fixture_match_known_values() {
    let (p, q) = (dist(&P), Rc::new(dist(&Q)));
    let ceiling = |siblings, k| {
        let draft = outcomes(|chance| grow(siblings, k, &q, chance)).swap_remove(0).0;
        ceiling(&draft, None, &p).unwrap()
    };
    near_printed(ceiling(Siblings::Independent, 1), 0.7);
    near_printed(ceiling(Siblings::Independent, 2), 0.86);
    near_printed(ceiling(Siblings::Independent, 3), 0.988);
    near_printed(ceiling(Siblings::Distinct, 2), 0.9857);
    near_printed(ceiling(Siblings::Distinct, 3), 1.0);
    near_printed(ceiling(Siblings::Hub, 2), 0.9);
    near_printed(ceiling(Siblings::LastSampled, 2), 0.9);
    near_printed(ceiling(Siblings::TopK, 2), 0.5);
}

/// Distributions and numbers of children, small enough to walk through every draft.
fn cases(count: usize, seed: u64) -> Vec<(Dist, Dist, usize)> {
    let mut rng = seeded(seed);
    let sizes = [(3, 2), (3, 3), (3, 4), (4, 2), (4, 3), (4, 4), (5, 2), (5, 3), (6, 2), (6, 3)];
    let mut dist = |vocab| dist(&random_distribution(vocab, &mut rng));
    let case = |(vocab, k)| (dist(vocab), dist(vocab), k);
    sizes.into_iter().cycle().take(count).map(case).collect()
}

/// The probability of each set of children.
fn drawn_sets(siblings: Siblings, k: usize, q: &Dist) -> BTreeMap<u32, f64> {
    let q = Rc::new(q.clone());
    let mut sets = BTreeMap::new();
    for (draft, weight) in outcomes(|chance| grow(siblings, k, &q, chance)) {
        let set = draft.nodes().iter().fold(0, |set, node| set | 1 << node.token);
        *sets.entry(set).or_insert(0.0) += weight;
    }
    sets
}

/// `1 + min_S (p(S) − P(children ⊆ S))` over all sets of tokens.
fn min_cut(sets: &BTreeMap<u32, f64>, p: &Dist) -> f64 {
    let gap = |s: u32| {
        let tokens = (0..p.vocab() as Token).filter(|token| s >> token & 1 == 1);
        let inside = sets.iter().filter(|(set, _)| *set & !s == 0).map(|(_, weight)| weight);
        tokens.map(|token| p.p(token)).sum::<f64>() - inside.sum::<f64>()
    };
    1.0 + (0..1 << p.vocab()).map(gap).fold(0.0, f64::min)
}

/// The maximum flow of mass from sets through their members into p, by augmenting paths:
/// the largest probability with which a coupling keeps a child.
fn max_flow(sets: &BTreeMap<u32, f64>, p: &Dist) -> f64 {
    let mut supply = sets.iter().map(|(&set, &weight)| (set, weight)).collect::<Vec<_>>();
    let mut room = (0..p.vocab() as Token).map(|token| p.p(token)).collect::<Vec<_>>();
    let mut flow = vec![vec![0.0; room.len()]; supply.len()];
    let mut total = 0.0;
    for from in 0..supply.len() {
        while let Some(path) = augmenting_path(&supply, &room, &flow, from) {
            let back = path.windows(2).map(|step| flow[step[1].0][step[0].1]);
            let end = room[path[path.len() - 1].1];
            let mass = back.fold(supply[from].1.min(end), f64::min);
            path.iter().for_each(|&(set, token)| flow[set][token] += mass);
            path.windows(2).for_each(|step| flow[step[1].0][step[0].1] -= mass);
            supply[from].1 -= mass;
            room[path[path.len() - 1].1] -= mass;
            total += mass;
        }
    }
    total
}

/// The shortest augmenting path, as steps (set, token that gets more flow). Every set but the first
/// reduces its flow to the token of the step before.
fn augmenting_path(
    supply: &[(u32, f64)],
    room: &[f64],
    flow: &[Vec<f64>],
    from: usize,
) -> Option<Vec<(usize, usize)>> {
    // Smaller values are rounding of sums of at most 300 terms.
    const NOTHING: f64 = 1e-15;
    if supply[from].1 <= NOTHING {
        return None;
    }
    let mut paths = std::collections::VecDeque::from([(from, Vec::new())]);
    let mut reached = vec![false; room.len()];
    while let Some((set, path)) = paths.pop_front() {
        for token in (0..room.len()).filter(|token| supply[set].0 >> token & 1 == 1) {
            if std::mem::replace(&mut reached[token], true) {
                continue;
            }
            let path = [&path[..], &[(set, token)]].concat();
            if room[token] > NOTHING {
                return Some(path);
            }
            let senders = (0..supply.len()).filter(|&other| flow[other][token] > NOTHING);
            paths.extend(senders.map(|other| (other, path.clone())));
        }
    }
    None
}

const KINDS: [Siblings; 5] = Siblings::CHOICES;

#[test]
fn the_ceiling_equals_the_minimum_cut_and_the_maximum_flow() {
    for (p, q, k) in cases(200, 1) {
        for siblings in KINDS {
            let sets = drawn_sets(siblings, k, &q);
            let cut = min_cut(&sets, &p);
            near(max_flow(&sets, &p), cut);
            // The ceiling depends only on how drafts are drawn: it is the same for every draft.
            let q = Rc::new(q.clone());
            for (draft, _) in outcomes(|chance| grow(siblings, k, &q, chance)) {
                near(ceiling(&draft, None, &p).unwrap(), cut);
            }
        }
    }
}

#[test]
fn the_ceiling_of_two_distinct_children_with_eleven_tokens() {
    let mut rng = seeded(2);
    for _ in 0..20 {
        let (p, q) =
            (dist(&random_distribution(11, &mut rng)), dist(&random_distribution(11, &mut rng)));
        let (one, rc) = (drawn_sets(Siblings::Distinct, 2, &q), Rc::new(q));
        let ceiling_of = |k| {
            let draft = outcomes(|chance| grow(Siblings::Distinct, k, &rc, chance)).swap_remove(0);
            ceiling(&draft.0, None, &p)
        };
        near(ceiling_of(2).unwrap(), min_cut(&one, &p));
        assert!(rc.support().count() <= 8 || ceiling_of(3).is_none());
    }
}

/// Rounding of sums of at most 1e4 products.
const ROUNDING: f64 = 1e-12;

#[test]
fn verifiers_stay_ordered_and_below_their_ceilings() {
    let mut strictly = [0; 4];
    for (p, q, k) in cases(200, 3) {
        let best = |siblings| min_cut(&drawn_sets(siblings, k, &q), &p);
        let kept = |rule: &dyn Verifier, siblings| kept(rule, siblings, k, &p, &q);
        let ladder = [
            kept(&TokenMatch, Siblings::Independent),
            kept(&Rejection, Siblings::Independent),
            kept(&KSeq, Siblings::Independent),
            best(Siblings::Independent),
        ];
        let distinct = kept(&Rejection, Siblings::Distinct);
        assert!(ladder.is_sorted_by(|a, b| *a <= b + ROUNDING), "{ladder:?} {p:?} {q:?} {k}");
        assert!(distinct <= best(Siblings::Distinct) + ROUNDING);
        near(kept(&Traversal, Siblings::Distinct), distinct);
        // These two reach the ceiling of their kind of draft.
        near(kept(&SpecHub, Siblings::Hub), best(Siblings::Hub));
        near(kept(&GreedyMulti, Siblings::LastSampled), best(Siblings::LastSampled));
        for rule in [&Rejection as &dyn Verifier, &TokenMatch, &GreedyMulti] {
            near(kept(rule, Siblings::TopK), best(Siblings::TopK));
        }
        let steps = ladder.windows(2).map(|pair| pair[1] > pair[0] + 1e-6);
        let steps = steps.chain([best(Siblings::Distinct) > distinct + 1e-6]);
        strictly.iter_mut().zip(steps).for_each(|(count, step)| *count += usize::from(step));
    }
    // The inequalities must be strict in most cases.
    assert!(strictly.iter().all(|&count| count > 100), "{strictly:?}");
}

#[test]
fn lenient_acceptance_and_output_match_their_formulas() {
    for (p, q, _) in cases(50, 4) {
        for lenience in [1.0, 0.5, 0.3] {
            let rule = Lenient { lenience };
            let overlap = p.zip(&q, |p, q| (p / lenience).min(q)).into_iter().sum::<f64>();
            near(kept(&rule, Siblings::Independent, 1, &p, &q), overlap);
            // The rest comes from (p - l q)+, and no probability grows beyond p / l.
            let rest = p.zip(&q, |p, q| (p - lenience * q).max(0.0));
            let scale = (1.0 - overlap) / rest.iter().sum::<f64>().max(f64::MIN_POSITIVE);
            for (token, out) in (0..).zip(emitted(&rule, &p, &q)) {
                let (p, q) = (p.p(token), q.p(token));
                near(out, (p / lenience).min(q) + scale * (p - lenience * q).max(0.0));
                assert!(out <= p / lenience + ROUNDING);
            }
        }
    }
    // The bound is reached where q is much larger than p: q / p = 2.5.
    near(emitted(&Lenient { lenience: 0.5 }, &dist(&P), &dist(&Q))[2], 0.4);
}

/// The distribution of the first token of a round with one drafted token.
fn emitted(rule: &dyn Verifier, p: &Dist, q: &Dist) -> Vec<f64> {
    let (q, targets) = (Rc::new(q.clone()), [p.clone(), Dist::one_hot(p.vocab(), 0)]);
    let mut dist = vec![0.0; p.vocab()];
    for (token, weight) in outcomes(|chance| {
        let draft = grow(Siblings::Independent, 1, &q, chance);
        let verdict = rule.verify(&draft, &targets, chance);
        verdict.path.first().map_or(verdict.next, |&id| draft.node(id).token)
    }) {
        dist[token as usize] += weight;
    }
    dist
}

#[test]
fn typical_acceptance_has_a_threshold_from_the_entropy() {
    let keeps = |rule: &Typical, p: &[f64], token: Token| {
        let one = Dist::one_hot(p.len(), token);
        kept(rule, Siblings::Independent, 1, &dist(p), &one)
    };
    // e^-H is 1/4, so the threshold is 0.15; for epsilon = 0.1 it is 0.1.
    let flat = [0.25; 4];
    let rule = Typical { epsilon: 0.3, delta: 0.6 };
    assert_eq!(keeps(&rule, &flat, 3), 1.0);
    assert_eq!(keeps(&Typical { delta: 1.0, ..rule }, &flat, 3), 0.0, "0.25 > 0.25 is false");
    assert_eq!(keeps(&Typical { delta: 0.99, ..rule }, &flat, 3), 1.0);
    // e^-H is 0.357: the threshold is 0.214 and the last token lies below it.
    assert_eq!([0, 1, 2].map(|token| keeps(&rule, &P, token)), [1.0, 1.0, 0.0]);
    assert_eq!(keeps(&Typical { epsilon: 0.19, ..rule }, &P, 2), 1.0);
    // Where the target has low entropy, epsilon is the threshold.
    assert_eq!(keeps(&rule, &[0.68, 0.31, 0.01], 1), 1.0);
    assert_eq!(keeps(&rule, &[0.98, 0.01, 0.01], 1), 0.0);
    // A sibling that is not typical does not hide a typical one: c comes first, then b.
    assert_eq!(kept(&rule, Siblings::TopK, 2, &dist(&P), &dist(&Q)), 1.0);
}

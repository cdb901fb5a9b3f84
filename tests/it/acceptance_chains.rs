//! The number of kept tokens of a chain or a tree: enumeration compared with formulas.

use std::rc::Rc;

use specdec::core::chance::{Request, Seeded};
use specdec::core::params::{Params, Value};
use specdec::core::round::RoundEvent;
use specdec::core::tree::Draft;
use specdec::method::decode::{Generation, MethodSpec, StopRules};
use specdec::method::verify::{Gumbel, Verifier};
use specdec::model::ToyPair;
use specdec::proof::{Probe, enumerate};

use crate::fixtures::{dist, markov, near, random_distribution, random_table, seeded};

/// The probability that the first round keeps at least i tokens.
#[derive(Debug, Default)]
struct Survival(Vec<f64>);

impl Probe for Survival {
    fn round(&mut self, event: &RoundEvent<'_>, weight: f64) {
        if event.round == 0 {
            self.0.resize(self.0.len().max(event.draft.depth() + 1), 0.0);
            self.0[..=event.verdict.path.len()].iter_mut().for_each(|s| *s += weight);
        }
    }
}

/// S(0), S(1) … of a method with K drafted levels.
fn survival(pair: &ToyPair, spec: &MethodSpec) -> Vec<f64> {
    let (target, draft) = (pair.target("t").unwrap(), pair.draft("d").unwrap());
    let method = spec.build(Some(&draft)).unwrap();
    // Enough for one full first round: no second round follows full acceptance.
    let stop = StopRules::max_tokens(spec.num_speculative_tokens + 1);
    let generation = Generation::new(&target, method, &pair.prompt, stop, None).unwrap();
    let mut survival = Survival::default();
    let found = enumerate(&target, generation, &mut [&mut survival]).unwrap();
    // E[L] = 1 + Σ S(i): a round emits one token more than it accepts.
    near(found.tally.first_emitted, survival.0.iter().sum());
    survival.0
}

fn chain(verifier: &str, k: usize) -> MethodSpec {
    let verifier = verifier.to_owned();
    MethodSpec { verifier, num_speculative_tokens: k, ..MethodSpec::default() }
}

/// A distribution for every last token.
type Table = Vec<Vec<f64>>;

/// The probability that a draft of `length` tokens is kept, summed over all drafts. `keep` extends
/// the probability of a prefix by one token, given (kept, drafted, p, q).
fn by_prefix(
    (p, q): (&Table, &Table),
    length: usize,
    keep: impl Fn(f64, f64, f64, f64) -> f64,
) -> f64 {
    let mut prefixes = vec![(0, 1.0, 1.0)];
    for _ in 0..length {
        let longer = prefixes.iter().flat_map(|&(last, kept, drafted): &(usize, f64, f64)| {
            let (p, q, keep) = (&p[last], &q[last], &keep);
            (0..p.len()).map(move |token| {
                let (p, q) = (p[token], q[token]);
                (token, keep(kept, drafted, p, q), drafted * q)
            })
        });
        prefixes = longer.collect();
    }
    prefixes.iter().map(|(_, kept, _)| kept).sum()
}

#[test]
fn chain_survival_matches_its_formula_for_every_k() {
    let mut rng = seeded(11);
    for _ in 0..6 {
        let (p, q) = (random_table(3, &mut rng), random_table(3, &mut rng));
        let pair = markov(&p, &q);
        for k in 1..=3 {
            let found = |verifier| survival(&pair, &chain(verifier, k));
            for i in 1..=k {
                let of = |keep: fn(f64, f64, f64, f64) -> f64| by_prefix((&p, &q), i, keep);
                // Π min(p, q); Π p q; and block: w ← min(1, w p / q), times q.
                near(found("rejection")[i], of(|kept, _, p, q| kept * p.min(q)));
                near(found("token_match")[i], of(|kept, _, p, q| kept * p * q));
                near(found("traversal")[i], of(|kept, all, p, q| (kept * p).min(all * q)));
            }
        }
    }
}

#[test]
fn context_free_expected_length_matches_leviathan_et_al() {
    // Overlap 0.7, and 2/3: E[L] = (1 − α^(K+1)) / (1 − α).
    let pairs = [
        (ToyPair::context_free(&[0.5, 0.3, 0.2], &[0.2, 0.3, 0.5]), 0.7_f64),
        (ToyPair::context_free(&[1.0 / 3.0, 2.0 / 3.0], &[2.0 / 3.0, 1.0 / 3.0]), 2.0 / 3.0),
    ];
    for (pair, alpha) in pairs {
        for k in 1..=4 {
            let expected = (1.0 - alpha.powi(k as i32 + 1)) / (1.0 - alpha);
            near(survival(&pair, &chain("rejection", k)).iter().sum(), expected);
        }
    }
}

#[test]
fn traversal_keeps_at_least_as_many_tokens_as_rejection() {
    let mut rng = seeded(12);
    let mut more = 0;
    for case in 0..24 {
        let vocab = 2 + case % 2;
        let pair = markov(&random_table(vocab, &mut rng), &random_table(vocab, &mut rng));
        for (tree, siblings) in
            [("1,1", "distinct"), ("2,1", "distinct"), ("2,2", "distinct"), ("2,1", "independent")]
        {
            let text = |text: &str| Value::Text(text.to_owned());
            let tokens = |verifier: &str| {
                let params =
                    Params::default().with("tree", text(tree)).with("siblings", text(siblings));
                let drafter = "model_tree".to_owned();
                let spec = MethodSpec { drafter, params, ..chain(verifier, 2) };
                survival(&pair, &spec).iter().sum::<f64>()
            };
            let (traversal, rejection) = (tokens("traversal"), tokens("rejection"));
            // Rounding of sums of at most 1e4 products.
            assert!(traversal >= rejection - 1e-12, "{pair:?} {tree} {siblings}");
            more += usize::from(traversal > rejection + 1e-6);
        }
    }
    assert!(more > 24, "{more} of 96 trees keep more");
}

/// Number of positions with a race: the standard error of a share is at most 0.0025.
const RACES: usize = 40_000;
/// The allowed deviation of a share in standard errors: a larger one has probability below 1e-6.
const SIGMAS: f64 = 5.0;

/// The share of positions at which the target's token is among drafts raced against the
/// same lists of noise, one draft per list, and five standard errors of that share.
fn coupled(p: &[f64], q: &[f64], lists: usize) -> (f64, f64) {
    let mut chance = Seeded::new(Request { seed: 13, prompt: "race", repeat: 0 });
    let (q, rule) = (Rc::new(dist(q)), Gumbel { lists });
    let kept = (0..RACES).filter(|&position| {
        let mut draft = Draft::empty(p.len()).at(position);
        for list in 0..lists {
            draft.race(None, &q, (position, list), &mut chance);
        }
        let targets = vec![dist(p); draft.len() + 1];
        !rule.verify(&draft, &targets, &mut chance).path.is_empty()
    });
    let share = kept.count() as f64 / RACES as f64;
    (share, SIGMAS * (share * (1.0 - share) / RACES as f64).sqrt())
}

/// The probability that on one of k lists the same token wins under both distributions:
/// `Σ_x k / (Σ_y max(p_y/p_x, q_y/q_x) + (k − 1) / p_x)`. For k = 1 it is the acceptance; with more
/// lists, a draft of another list may also match.
fn deciding(p: &[f64], q: &[f64], lists: usize) -> f64 {
    let term = |x: usize| {
        let ratio = |y: usize| f64::max(p[y] / p[x], q[y] / q[x]);
        let k = lists as f64;
        k / ((0..p.len()).map(ratio).sum::<f64>() + (k - 1.0) / p[x])
    };
    (0..p.len()).filter(|&x| p[x] > 0.0 && q[x] > 0.0).map(term).sum()
}

#[test]
fn coupled_drafts_are_kept_when_their_races_have_one_winner() {
    let (p, q) = ([0.5, 0.3, 0.2], [0.2, 0.3, 0.5]);
    // The known value for this pair, to four decimals.
    assert!((deciding(&p, &q, 1) - 0.6308).abs() <= 0.5e-4);
    let mut rng = seeded(14);
    let random = [4, 6]
        .map(|vocab| (random_distribution(vocab, &mut rng), random_distribution(vocab, &mut rng)));
    for (p, q) in [(p.to_vec(), q.to_vec())].into_iter().chain(random) {
        let ((one, error), expected) = (coupled(&p, &q, 1), deciding(&p, &q, 1));
        assert!((one - expected).abs() <= error, "{one} is not {expected} ± {error}");
        let tv = dist(&p).total_variation(&dist(&q));
        assert!(expected >= (1.0 - tv) / (1.0 + tv) && expected <= 1.0 - tv);
        let (two, error) = coupled(&p, &q, 2);
        assert!(two >= deciding(&p, &q, 2) - error, "{two} of two lists");
        assert!(two > one + error, "two lists must keep more: {two} and {one}");
    }
}

#[test]
fn coupled_drafts_are_kept_if_equal_and_rejected_if_disjoint() {
    let p = [0.5, 0.3, 0.2];
    assert_eq!((coupled(&p, &p, 1).0, coupled(&p, &p, 2).0), (1.0, 1.0));
    assert_eq!(coupled(&[1.0, 0.0, 0.0], &[0.0, 0.5, 0.5], 1).0, 0.0);
}

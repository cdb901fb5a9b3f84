//! The enumeration, compared with closed forms, whole generations and the tables of the toys.

use std::collections::BTreeMap;

use specdec::core::distribution::Token;
use specdec::core::params::{Params, Value};
use specdec::core::round::RoundEvent;
use specdec::core::sampling::{Sampler, SamplingParams};
use specdec::method::decode::{Generation, MethodSpec, StopRules};
use specdec::method::verify::Rule;
use specdec::model::{Toy, ToyPair, zoo};
use specdec::proof::{
    ChainCase, Enumeration, Gap, JointDistribution, Probe, TargetPass, enumerate, replay,
    target_distribution,
};

const PROMPT: &[u32] = &[0, 1, 0];

/// A toy pair with a method.
struct Setup {
    target: Toy,
    draft: Toy,
    sampler: Sampler,
    spec: MethodSpec,
}

fn setup(toy: &str, verifier: &str, drafter: &str, k: usize) -> Setup {
    let pair = zoo::toy(toy).unwrap();
    Setup {
        target: pair.target(toy).unwrap(),
        draft: pair.draft(toy).unwrap(),
        sampler: Sampler::new(SamplingParams::default()).unwrap(),
        spec: MethodSpec {
            drafter: drafter.to_owned(),
            verifier: verifier.to_owned(),
            num_speculative_tokens: k,
            ..MethodSpec::default()
        },
    }
}

/// The same with a draft tree.
fn tree_setup(toy: &str, verifier: &str, tree: &str, siblings: &str) -> Setup {
    let mut setup = setup(toy, verifier, "model_tree", 2);
    let text = |text: &str| Value::Text(text.to_owned());
    setup.spec.params = Params::default().with("tree", text(tree)).with("siblings", text(siblings));
    setup
}

impl Setup {
    fn generation(&self, tokens: usize) -> Generation<'_> {
        let method = self.spec.build(Some(&self.draft)).unwrap();
        Generation::new(&self.target, method, PROMPT, StopRules::max_tokens(tokens), None).unwrap()
    }

    fn walk(&self, tokens: usize) -> Enumeration {
        enumerate(&self.target, self.generation(tokens), &mut []).unwrap()
    }

    fn distribution(&self, tokens: usize) -> JointDistribution {
        target_distribution(&self.target, &self.sampler, PROMPT, tokens).unwrap()
    }

    fn chain(&self) -> ChainCase<'_> {
        ChainCase {
            target: &self.target,
            target_sampler: &self.sampler,
            draft: &self.draft,
            draft_sampler: &self.sampler,
            prompt: PROMPT,
        }
    }
}

fn near(a: f64, b: f64) {
    assert!((a - b).abs() < 1e-12, "{a} is not {b}");
}

#[test]
fn merging_equal_states_preserves_the_distribution() {
    let cases =
        [("binary", 1, 5), ("binary", 2, 5), ("binary", 3, 5), ("close", 1, 4), ("close", 2, 4)];
    for (toy, k, tokens) in cases {
        for verifier in ["rejection", "token_match"] {
            let setup = setup(toy, verifier, "model", k);
            let merged = setup.walk(tokens);
            let whole = replay(&setup.target, &setup.generation(tokens)).unwrap();
            assert!(Gap::between(&merged.dist, &whole.dist).is_zero(), "{toy} {k} {verifier}");
        }
    }
}

#[test]
fn merging_equal_states_preserves_the_distribution_for_trees() {
    for siblings in ["independent", "distinct", "top_k", "last_sampled", "hub"] {
        for verifier in ["rejection", "traversal"] {
            let setup = tree_setup("binary", verifier, "2,1", siblings);
            let merged = setup.walk(3);
            let whole = replay(&setup.target, &setup.generation(3)).unwrap();
            assert!(Gap::between(&merged.dist, &whole.dist).is_zero(), "{siblings} {verifier}");
            assert!(
                Gap::between(&merged.dist, &setup.distribution(3)).is_zero(),
                "{siblings} {verifier}"
            );
        }
    }
}

#[test]
fn acceptance_on_the_thirds_toy_matches_closed_forms() {
    // p = (1/3, 2/3), q = (2/3, 1/3): alpha = 2/3.
    let one = setup("thirds", "rejection", "model", 1).walk(3);
    near(one.tally.first_accepted, 2.0 / 3.0);
    let two = setup("thirds", "rejection", "model", 2).walk(4);
    near(two.tally.first_accepted, 10.0 / 9.0);
    near(two.tally.first_emitted, 19.0 / 9.0);
    let strict = setup("thirds", "token_match", "model", 1).walk(3);
    near(strict.tally.first_accepted, 4.0 / 9.0);
    // Block verification keeps 11/9 of two drafted tokens on average.
    near(setup("thirds", "traversal", "model", 1).walk(3).tally.first_accepted, 2.0 / 3.0);
    near(setup("thirds", "traversal", "model", 2).walk(4).tally.first_accepted, 11.0 / 9.0);
    // Two sibling drafts of a single token.
    let kept = |verifier, siblings| {
        tree_setup("thirds", verifier, "2", siblings).walk(3).tally.first_accepted
    };
    near(kept("rejection", "independent"), 7.0 / 9.0);
    near(kept("rejection", "distinct"), 1.0);
    // rho* = (5 + sqrt 13) / 6, b = min(2/3, 1/(3 rho)) + min(1/3, 2/(3 rho)).
    let rho = (5.0 + 13_f64.sqrt()) / 6.0;
    let b = 1.0 / (3.0 * rho) + 1.0 / 3.0;
    near(kept("k_seq", "independent"), 1.0 - (1.0 - b) * (1.0 - b));
}

#[test]
fn the_first_round_emits_one_token_more_than_it_accepts() {
    for toy in zoo::TOYS {
        for (verifier, rule) in [("rejection", Rule::Rejection), ("token_match", Rule::Match)] {
            let setup = setup(toy.name, verifier, "model", 2);
            let tally = setup.walk(4).tally;
            let expected = setup.chain().expected_accepted(rule, 2).unwrap();
            near(tally.first_accepted, expected);
            near(tally.first_emitted, tally.first_accepted + 1.0);
            assert!(expected <= setup.chain().accepted_bound(2).unwrap() + 1e-12);
        }
    }
}

#[test]
fn the_acceptance_bound_sums_overlaps_of_joint_distributions() {
    // Two drafted tokens at 1/3 and 2/3: 2/3 + (1/9 + 2/9 + 2/9 + 1/9) = 12/9.
    near(setup("thirds", "rejection", "model", 2).chain().accepted_bound(2).unwrap(), 12.0 / 9.0);
    // If the distributions are equal, everything can be kept.
    near(setup("equal", "rejection", "model", 3).chain().accepted_bound(3).unwrap(), 3.0);
}

#[test]
fn the_walk_accepts_and_rejects_exactly_where_it_can() {
    let equal = setup("equal", "rejection", "model", 2).walk(4).tally;
    assert_eq!(equal.rejected, 0.0);
    near(equal.first_accepted, 2.0);
    let disjoint = setup("disjoint", "rejection", "model", 2).walk(4).tally;
    assert_eq!(disjoint.accepted, 0.0);
    near(disjoint.rounds, 4.0);
    let plain = setup("mixed", "rejection", "none", 2).walk(4).tally;
    assert_eq!((plain.proposed, plain.accepted, plain.rejected), (0.0, 0.0, 0.0));
    near(plain.rounds, 4.0);
    for toy in ["mixed", "close", "zeros", "binary"] {
        for drafter in ["model", "prompt_lookup"] {
            let tally = setup(toy, "rejection", drafter, 2).walk(4).tally;
            assert!(tally.proposed > 0.1, "{toy} {drafter}");
            assert!(tally.accepted > 0.1 && tally.rejected > 0.1, "{toy} {drafter}");
            assert!(tally.fallbacks < 1e-12, "{toy} {drafter}");
        }
    }
}

#[test]
fn the_target_distribution_is_a_product_of_the_tables() {
    let pair = zoo::toy("mixed").unwrap();
    let setup = setup("mixed", "rejection", "model", 1);
    let dist = setup.distribution(3);
    near(dist.values().sum(), 1.0);
    near(
        dist[&vec![2, 1, 3]],
        pair.target["1,0"][2] * pair.target["0,2"][1] * pair.target["2,1"][3],
    );
}

#[test]
fn a_gap_reports_total_variation_lost_support_and_largest_error() {
    let dist = |cells: &[(&[u32], f64)]| {
        cells.iter().map(|(completion, p)| (completion.to_vec(), *p)).collect::<JointDistribution>()
    };
    let target = dist(&[(&[0, 0], 0.5), (&[0, 1], 0.25), (&[1, 0], 0.25)]);
    let found = dist(&[(&[0, 0], 0.5), (&[0, 1], 0.125), (&[1, 0], 0.25), (&[1, 1], 0.125)]);
    let gap = Gap::between(&found, &target);
    near(gap.tv_joint, 0.125);
    near(gap.tv_first_token, 0.125);
    near(gap.out_of_support, 0.125);
    near(gap.max_error, 0.125);
    assert!(!gap.is_zero());
    assert!(Gap::between(&target, &target).is_zero());
    let broken = dist(&[(&[0, 0], f64::NAN)]);
    assert!(!Gap::between(&broken, &target).is_zero());
}

#[test]
fn an_empty_prompt_starts_from_the_shortest_contexts() {
    // The tables may omit contexts that cannot occur: only 0 or 1 follows "".
    let json = r#"{"vocab": 3, "order": 2, "prompt": [],
        "target": {"": [0.25, 0.75, 0], "0": [0, 0, 1], "1": [0.5, 0.5, 0]},
        "draft": {"": [0.5, 0.5, 0], "0": [0, 0.5, 0.5], "1": [1, 0, 0]}}"#;
    let pair = ToyPair::from_json("begin", json).unwrap().with_start();
    let (target, draft) = (pair.target("t").unwrap(), pair.draft("d").unwrap());
    let spec = MethodSpec { num_speculative_tokens: 1, ..MethodSpec::default() };
    let method = spec.build(Some(&draft)).unwrap();
    let stop = StopRules::max_tokens(2);
    let generation = Generation::new(&target, method, &pair.prompt, stop, None).unwrap();
    let found = enumerate(&target, generation, &mut []).unwrap();
    let completions =
        found.dist.iter().map(|(completion, p)| (completion.clone(), *p)).collect::<Vec<_>>();
    let expected = [(vec![0, 2], 0.25), (vec![1, 0], 0.375), (vec![1, 1], 0.375)];
    assert_eq!(completions.len(), expected.len(), "{completions:?}");
    for ((completion, p), (expected_completion, expected_p)) in completions.iter().zip(expected) {
        assert_eq!(*completion, expected_completion);
        near(*p, expected_p);
    }
    // A drafter may propose the start token itself; after it the sequence begins again.
    assert_eq!(target.logits(&[1, 3]).unwrap(), target.logits(&[3]).unwrap());
    let missing = target.logits(&[2, 0]).unwrap_err().to_string();
    assert!(missing.contains("no distribution for context [2, 0]"), "{missing}");
}

/// Evaluated drafts and enumerated rounds from one state, with their probability.
#[derive(Debug, Default)]
struct Counted {
    drafts: BTreeMap<Vec<Token>, f64>,
    rounds: BTreeMap<Vec<Token>, f64>,
    evaluated: usize,
    walked: usize,
}

impl Probe for Counted {
    fn evaluated(&mut self, pass: &TargetPass<'_>, weight: f64) {
        let drafted = pass.draft.nodes().iter().map(|node| node.token).collect();
        assert!(self.drafts.insert(drafted, weight).is_none(), "evaluated twice");
        self.evaluated += 1;
        assert_eq!(pass.logits.len(), pass.draft.len() + 1);
    }

    fn round(&mut self, event: &RoundEvent<'_>, weight: f64) {
        let drafted = event.draft.nodes().iter().map(|node| node.token).collect();
        *self.rounds.entry(drafted).or_insert(0.0) += weight;
        self.walked += 1;
    }

    fn state_walked(&mut self) {
        let (drafts, rounds) = (std::mem::take(&mut self.drafts), std::mem::take(&mut self.rounds));
        assert!(drafts.keys().eq(rounds.keys()));
        for (draft, weight) in drafts {
            assert!((weight - rounds[&draft]).abs() < 1e-12, "{draft:?}");
        }
    }
}

#[test]
fn the_target_evaluates_every_draft_once_for_all_decisions() {
    let setup = setup("mixed", "rejection", "model", 2);
    let mut counted = Counted::default();
    let found = enumerate(&setup.target, setup.generation(4), &mut [&mut counted]).unwrap();
    let Counted { evaluated, walked, .. } = counted;
    assert!(walked == found.paths && walked > 2 * evaluated, "{walked} and {evaluated}");
}

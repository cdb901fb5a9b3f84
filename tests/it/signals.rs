//! What a draft says about itself: beliefs of greedy drafters, paths of trees, and the
//! nodes that a round decided on.

use std::rc::Rc;

use specdec::core::chance::Exhaustive;
use specdec::core::sampling::{Sampler, SamplingParams};
use specdec::core::tree::{Draft, Siblings};
use specdec::method::decode::{Generation, MethodSpec, StopRules};
use specdec::method::draft::Tools;
use specdec::model::LanguageModel;
use specdec::proof::{Gap, enumerate, target_distribution};

use crate::asking::{Asking, FinishedRound, seeded_draws, spec};
use crate::fixtures::{dist, markov, near};

/// After 0 the draft is unsure, after 1 and 2 it is not.
const Q: [[f64; 3]; 3] = [[0.2, 0.45, 0.35], [0.05, 0.05, 0.9], [0.8, 0.15, 0.05]];
const GREEDY: SamplingParams = SamplingParams { temperature: 0.0, ..SamplingParams::NEUTRAL };

fn greedy(drafter: &str, length: &str, k: usize, settings: &[(&str, &str)]) -> MethodSpec {
    let length = length.to_owned();
    MethodSpec { sampling: GREEDY, length, ..spec(drafter, k, settings) }
}

/// The draft after the token `last`, and the passes that it took.
fn draft_after(last: u32, spec: &MethodSpec) -> (Draft, usize) {
    let pair = markov(&Q.map(Vec::from), &Q.map(Vec::from));
    let (target, draft) = (pair.target("t").unwrap(), pair.draft("d").unwrap());
    let tools = Tools { draft: Some(&draft), target: Some(&target), texts: None };
    let mut asking = Asking::new(spec, tools, 3, &[last]);
    let draft = asking.ask(&[last], &mut seeded_draws(0));
    (draft, asking.passes)
}

fn texts(draft: &Draft) -> Vec<Vec<u32>> {
    (0..draft.len()).map(|id| draft.tokens_to(id)).collect()
}

#[test]
fn a_greedy_draft_ends_where_the_model_is_unsure() {
    // 1 → 2 (0.9) → 0 (0.8) → 1 (0.45), after which a threshold of 0.5 ends it.
    let kept = [("confidence_threshold", "0.5"), ("confidence_tuned", "0")];
    for drafter in ["model", "cascade", "hybrid"] {
        let (draft, _) = draft_after(1, &greedy(drafter, "confidence", 8, &kept));
        assert_eq!(draft.tokens_to(draft.len() - 1), [2, 0, 1], "{drafter}");
    }
    // The entropies are 0.39, 0.61 and 1.05 nats; the policy compares 0.24, 0.30 and 0.40.
    for (threshold, tokens) in [("0.2", 1), ("0.27", 2), ("0.35", 3), ("0.5", 8)] {
        let settings = [("entropy_threshold", threshold)];
        let (draft, _) = draft_after(1, &greedy("model", "entropy", 8, &settings));
        assert_eq!(draft.len(), tokens, "{threshold}");
    }
    // The bounds 1 − √(0.5 H) are 0.56, 0.45 and 0.28, and 0.4 is the first threshold.
    let settings = [("adaedl_gamma", "0.5")];
    let (draft, _) = draft_after(1, &greedy("model", "adaedl", 8, &settings));
    assert_eq!(draft.len(), 3);
}

#[test]
fn beliefs_are_computed_only_for_policies_that_use_them() {
    for (length, belief) in [("fixed", 1.0), ("ucb", 1.0), ("confidence", 0.9), ("adaedl", 0.9)] {
        let (draft, _) = draft_after(1, &greedy("model", length, 1, &[]));
        near(draft.node(0).belief(3).p(2), belief);
        assert_eq!(draft.node(0).q(2), 1.0, "a greedy draft is certain");
    }
    let sampled = MethodSpec { length: "confidence".to_owned(), ..spec("model", 1, &[]) };
    let (draft, _) = draft_after(1, &sampled);
    let node = draft.node(0);
    assert!(Rc::ptr_eq(&node.belief(3), &node.distribution(3)));
}

#[test]
fn greedy_trees_hold_the_most_probable_tokens() {
    let (draft, _) = draft_after(0, &greedy("model_tree", "fixed", 2, &[("tree", "2,1")]));
    assert_eq!(texts(&draft), [vec![1], vec![2], vec![1, 2], vec![2, 0]]);
    assert_eq!(draft.siblings(None), Siblings::TopK);
    assert!(!draft.shape().sampled);
    let (draft, _) = draft_after(0, &greedy("tree_confidence", "fixed", 2, &[("tree_nodes", "3")]));
    // Worth 0.45, 0.35 and 0.405 = 0.45 · 0.9.
    assert_eq!(texts(&draft), [vec![1], vec![2], vec![1, 2]]);
    let (draft, _) = draft_after(0, &greedy("tree_optimal", "fixed", 1, &[]));
    assert!(draft.len() > 1 && draft.nodes()[0].token == 1 && draft.nodes()[1].token == 2);
}

#[test]
fn greedy_trees_are_exact() {
    let p = [[0.3, 0.3, 0.4], [0.1, 0.6, 0.3], [0.5, 0.2, 0.3]].map(Vec::from);
    let pair = markov(&p, &Q.map(Vec::from));
    let (target, draft) = (pair.target("t").unwrap(), pair.draft("d").unwrap());
    let expected = target_distribution(&target, &Sampler::new(GREEDY).unwrap(), &[0], 4).unwrap();
    for (drafter, verifier) in
        [("model_tree", "rejection"), ("model_tree", "traversal"), ("tree_optimal", "token_match")]
    {
        let spec =
            MethodSpec { verifier: verifier.to_owned(), ..greedy(drafter, "confidence", 3, &[]) };
        let method = spec.build(Some(&draft as &dyn LanguageModel)).unwrap();
        let stop = StopRules::max_tokens(4);
        let generation = Generation::new(&target, method, &[0], stop, None).unwrap();
        let found = enumerate(&target, generation, &mut []).unwrap();
        assert_eq!(Gap::between(&found.dist, &expected).tv_joint, 0.0, "{drafter} {verifier}");
        assert!(!found.unsupported, "{drafter} {verifier}");
    }
}

#[test]
fn a_planned_tree_is_no_deeper_than_the_policy_allows() {
    let (draft, passes) = draft_after(1, &spec("tree_optimal", 1, &[]));
    assert_eq!((draft.depth(), passes), (1, 1));
    assert!(draft.len() > 1, "it is wide instead of deep");
}

#[test]
fn a_tree_stops_growing_when_no_new_node_can_be_among_the_best() {
    // After 1 the first node is worth 0.9 and its child 0.72, more than any sibling;
    // the child's own child is worth 0.45 · 0.72.
    let settings = [("tree_nodes", "2"), ("tree_width", "2")];
    let (draft, passes) = draft_after(1, &greedy("tree_confidence", "fixed", 8, &settings));
    assert_eq!(texts(&draft), [vec![2], vec![2, 0]]);
    assert_eq!(passes, 3, "not one per level up to K");
}

/// Two branches of two below the context, with beliefs 0.3 and 0.7, then 0.9
/// and 0.1 below each.
fn branches() -> Draft {
    let (first, second) = (Rc::new(dist(&[0.3, 0.7, 0.0])), Rc::new(dist(&[0.9, 0.1, 0.0])));
    let mut draft = Draft::empty(3);
    for (parent, dist) in [(None, &first), (Some(0), &second), (Some(1), &second)] {
        for token in 0..2 {
            let id = draft.certain(parent, token);
            draft.believe(id, dist);
        }
    }
    draft
}

#[test]
fn policies_follow_the_best_path_of_a_tree() {
    // 1, 0 is worth 0.63; the last node, 1, 1, only 0.07.
    for (threshold, continues) in [("0.89", true), ("0.91", false)] {
        let settings = [("confidence_threshold", threshold), ("confidence_tuned", "0")];
        let spec = MethodSpec { length: "confidence".to_owned(), ..spec("model", 4, &settings) };
        let pair = markov(&Q.map(Vec::from), &Q.map(Vec::from));
        let draft = pair.draft("d").unwrap();
        let mut method = spec.build(Some(&draft)).unwrap();
        assert_eq!(method.length.go_deeper(&branches()), continues, "{threshold}");
    }
}

#[test]
fn a_round_decides_on_children_up_to_the_one_it_keeps() {
    let draft = branches();
    let reached = |path: &[usize]| {
        let mut found = Vec::new();
        FinishedRound::new(&draft, path).event(|event| found = event.reached());
        found
    };
    assert_eq!(reached(&[]), [0, 1]);
    assert_eq!(reached(&[0]), [0, 2, 3]);
    assert_eq!(reached(&[1]), [0, 1, 4, 5]);
    assert_eq!(reached(&[1, 4]), [0, 1, 4]);
}

#[test]
fn siblings_drawn_from_two_distributions_are_mixed() {
    let (one, other) = (Rc::new(dist(&[1.0, 0.0])), Rc::new(dist(&[0.0, 1.0])));
    let mut chance = Exhaustive::default();
    let mut draft = Draft::empty(2);
    draft.sample(None, &one, &mut chance);
    draft.sample(None, &Rc::clone(&one), &mut chance);
    assert_eq!(draft.siblings(None), Siblings::Independent);
    draft.sample(None, &other, &mut chance);
    assert_eq!(draft.siblings(None), Siblings::Mixed);
    let k_seq =
        specdec::method::verify::VERIFIERS.iter().find(|entry| entry.name == "k_seq").unwrap();
    let k_seq = (k_seq.build.make)(&specdec::core::params::Params::default());
    assert!(!k_seq.supports(&draft.shape()));
}

#[test]
fn the_overlap_of_a_fork_is_that_of_its_first_child() {
    let dists = [dist(&[0.2, 0.5, 0.3]), dist(&[0.0, 0.4, 0.6])];
    let first = Rc::new(dist(&[0.6, 0.4, 0.0]));
    let mut draft = Draft::empty(3);
    draft.sample_distinct(None, &first, 2, &mut Exhaustive::default());
    let verdict = specdec::core::round::Verdict { path: vec![1], ..Default::default() };
    FinishedRound::new(&draft, &[1]).event(|event| {
        let event =
            specdec::core::round::RoundEvent { targets: &dists, verdict: &verdict, ..*event };
        // Token 0 was drawn from 0.6, 0.4, 0; token 1, which is kept, from itself.
        assert_eq!((event.reached(), event.forks()), (vec![0, 1], vec![None]));
        near(event.overlap(None), 0.6);
        assert_eq!(event.overlap(Some(1)), 0.0, "it has no children");
    });
}

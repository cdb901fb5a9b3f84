//! Drafters with a model: their distributions, siblings and passes.

use std::collections::BTreeMap;
use std::time::Duration;

use specdec::core::chance::Chance;
use specdec::core::clock::{VirtualClock, VirtualCosts};
use specdec::core::distribution::Token;
use specdec::core::error::Error;
use specdec::core::registry::Entry;
use specdec::core::round::RoundEvent;
use specdec::core::sampling::SamplingParams;
use specdec::core::tree::{Draft, Origin};
use specdec::method::decode::{Generation, MethodSpec, Observer, StopRules, generate};
use specdec::method::draft::{BuildDrafter, DRAFTERS, Tools};
use specdec::model::{Toy, ToyPair, zoo};
use specdec::proof::enumerate;

use crate::asking::{Asking, seeded_draws, spec};
use crate::fixtures::{
    markov, near, outcomes, positive_table, random_sequence, random_table, seeded,
};

/// A toy draft model with these distributions after the last token.
fn model(dists: &[Vec<f64>]) -> Toy {
    markov(dists, dists).draft("d").unwrap()
}

fn asking<'a>(spec: &MethodSpec, model: &'a Toy, prompt: &[Token]) -> Asking<'a> {
    let tools = Tools { draft: Some(model), target: Some(model), texts: None };
    let vocab = model.logits(&[0]).unwrap().len();
    Asking::new(spec, tools, vocab, prompt)
}

/// The tokens of a draft with their recorded distributions.
fn content(draft: &Draft) -> Vec<(Token, Vec<f64>)> {
    let dists = draft.nodes().iter().map(|node| (node.token, node.distribution(draft.vocab())));
    let probs = |dist: std::rc::Rc<specdec::core::distribution::Dist>| {
        (0..draft.vocab() as Token).map(|token| dist.p(token)).collect()
    };
    dists.map(|(token, dist)| (token, probs(dist))).collect()
}

#[test]
fn a_draft_model_uses_its_own_or_the_targets_sampling_settings() {
    let q = vec![0.1, 0.2, 0.3, 0.4];
    let toy = model(&vec![q.clone(); 4]);
    let dist = |temperature: f64, settings: &[(&str, &str)]| {
        let sampling = SamplingParams { temperature, ..SamplingParams::default() };
        let spec = MethodSpec { sampling, ..spec("model", 1, settings) };
        content(&asking(&spec, &toy, &[0]).ask(&[0], &mut seeded_draws(0))).swap_remove(0).1
    };
    let is = |found: Vec<f64>, weights: [f64; 4]| {
        let mass = weights.iter().sum::<f64>();
        found.iter().zip(weights).for_each(|(&p, weight)| near(p, weight / mass));
    };
    let squared = [0.01, 0.04, 0.09, 0.16];
    is(dist(1.0, &[]), [0.1, 0.2, 0.3, 0.4]);
    is(dist(0.5, &[]), squared);
    is(dist(1.0, &[("draft_temperature", "0.5")]), squared);
    is(dist(0.5, &[("draft_temperature", "1")]), [0.1, 0.2, 0.3, 0.4]);
    is(dist(1.0, &[("draft_temperature", "0")]), [0.0, 0.0, 0.0, 1.0]);
    is(dist(1.0, &[("draft_top_k", "2")]), [0.0, 0.0, 0.3, 0.4]);
    is(dist(1.0, &[("draft_top_p", "0.75")]), [0.0, 0.2, 0.3, 0.4]);
    is(dist(0.5, &[("draft_top_k", "3")]), [0.0, 0.04, 0.09, 0.16]);
}

#[test]
fn a_draft_model_conditions_on_its_tokens_with_one_pass_each() {
    let mut rng = seeded(31);
    let q = random_table(3, &mut rng);
    let toy = model(&q);
    let mut drafter = asking(&spec("model", 3, &[]), &toy, &[0, 2]);
    let sequence = [0, 2, 1];
    for (draft, weight) in outcomes(|chance| drafter.ask(&sequence, chance)) {
        let mut last = 1;
        let path = content(&draft).into_iter().map(|(token, dist)| {
            dist.iter().zip(&q[last]).for_each(|(&found, &q)| near(found, q));
            let q = q[last][token as usize];
            last = token as usize;
            q
        });
        near(path.product(), weight);
    }
    assert_eq!(drafter.passes, 3);
}

/// Every draft of a drafter with its probability, and the expected number of passes.
fn drafts(
    spec: &MethodSpec,
    toy: &Toy,
    sequence: &[Token],
) -> (BTreeMap<Vec<Token>, (f64, Draft)>, f64) {
    let mut drafter = asking(spec, toy, &sequence[..1]);
    let mut passes = 0.0;
    let mut all = BTreeMap::new();
    for ((draft, used), weight) in
        outcomes(|chance| (drafter.ask(sequence, chance), drafter.passes))
    {
        passes += weight * used as f64;
        let tokens = draft.nodes().iter().map(|node| node.token).collect();
        assert!(all.insert(tokens, (weight, draft)).is_none(), "two outcomes give the same draft");
    }
    (all, passes)
}

#[test]
fn a_cascade_drafts_like_its_model_in_fewer_passes() {
    let mut rng = seeded(32);
    for case in 0..30 {
        let (toy, sequence) =
            (model(&positive_table(3, &mut rng)), random_sequence(3, 4 + case, &mut rng));
        let (plain, plain_passes) = drafts(&spec("model", 4, &[]), &toy, &sequence);
        for guessed in ["1", "2", "3"] {
            let cascade = spec("cascade", 4, &[("cascade_tokens", guessed)]);
            let (found, passes) = drafts(&cascade, &toy, &sequence);
            assert_eq!(found.len(), plain.len());
            for (tokens, (weight, draft)) in &found {
                assert_eq!(*weight, plain[tokens].0);
                assert_eq!(content(draft), content(&plain[tokens].1));
                assert!(draft.nodes().iter().all(|n| matches!(n.origin, Origin::Sampled(_))));
            }
            near(plain_passes, 4.0);
            let repeats =
                (0..sequence.len() - 1).any(|at| sequence[at] == sequence[sequence.len() - 1]);
            // If the last token occurred before, the first guessed token may be right.
            assert!(passes <= 4.0 && (!repeats || passes < 4.0 - 1e-3), "{sequence:?} {passes}");
        }
    }
}

#[test]
fn a_correct_cascade_guess_and_one_more_token_take_one_pass() {
    // The model is certain of a b c a b c …
    let toy = model(&[vec![0.0, 1.0, 0.0], vec![0.0, 0.0, 1.0], vec![1.0, 0.0, 0.0]]);
    let sequence = [0, 1, 2, 0];
    for (guessed, passes) in [("1", 3), ("2", 2), ("3", 2), ("5", 1), ("9", 1)] {
        let cascade = spec("cascade", 6, &[("cascade_tokens", guessed)]);
        let mut drafter = asking(&cascade, &toy, &[0]);
        assert_eq!(drafter.tokens(&sequence), [1, 2, 0, 1, 2, 0]);
        assert_eq!(drafter.passes, passes, "{guessed}");
        // A sequence in which the lookup finds nothing.
        assert_eq!(drafter.tokens(&[0]), [1, 2, 0, 1, 2, 0]);
    }
    // The last token of a draft needs no guess: the pass has rows for the four tokens of
    // the sequence and for the five guessed ones.
    let mut drafter = asking(&spec("cascade", 6, &[("cascade_tokens", "9")]), &toy, &[0]);
    drafter.ask_within(&sequence, 6, &mut seeded_draws(0));
    assert_eq!(drafter.took, Duration::from_micros(95 + 5 * (4 + 5)));
}

/// Counts drafted and kept tokens.
#[derive(Debug, Default)]
struct Kept(usize, usize);

impl Observer for Kept {
    fn round(&mut self, event: &RoundEvent<'_>) -> Result<(), Error> {
        self.0 += event.draft.depth();
        self.1 += event.verdict.path.len();
        Ok(())
    }
}

/// Drafts race against the noise of the positions at which they are verified, with a separate list
/// for each sibling.
#[test]
fn coupled_drafts_are_all_kept_if_the_target_is_the_draft_model() {
    let toy = zoo::toy("mixed").unwrap().target("same").unwrap();
    let tools = Tools { draft: Some(&toy), ..Tools::default() };
    let tree = [("tree", "2,2"), ("siblings", "independent"), ("gumbel_lists", "2")];
    let chain = spec("model", 3, &[]);
    for spec in [chain, spec("model_tree", 2, &tree), spec("model_tree", 2, &tree[..2])] {
        let spec = MethodSpec { verifier: "gumbel".to_owned(), ..spec };
        let method = spec.build_with(tools).unwrap();
        let stop = StopRules::max_tokens(60);
        let mut generation = Generation::new(&toy, method, &[0, 1], stop, None).unwrap();
        let (clock, mut kept) = (VirtualClock::new(VirtualCosts::default()), Kept::default());
        generate(&mut generation, &toy, &mut seeded_draws(1), &clock, &mut kept).unwrap();
        assert!(kept.0 >= 30 && kept.0 == kept.1, "{kept:?}");
    }
}

#[test]
fn a_hybrid_copies_lookup_matches_and_samples_elsewhere() {
    let mut rng = seeded(33);
    let toy = model(&random_table(4, &mut rng));
    let settings = [("prompt_lookup_min", "2")];
    let [mut hybrid, mut lookup, mut plain] = ["hybrid", "prompt_lookup", "model"]
        .map(|name| asking(&spec(name, 3, &settings), &toy, &[0]));
    let mut copied = 0;
    for seed in 0..40 {
        let sequence = random_sequence(4, 12, &mut rng);
        let ask = |drafter: &mut Asking<'_>| drafter.ask(&sequence, &mut seeded_draws(seed));
        let (found, looked_up) = (ask(&mut hybrid), ask(&mut lookup));
        copied += usize::from(!looked_up.is_empty());
        let (expected, passes) =
            if looked_up.is_empty() { (ask(&mut plain), 3) } else { (looked_up, 0) };
        assert_eq!(content(&found), content(&expected));
        assert_eq!((hybrid.passes, found.shape()), (passes, expected.shape()));
    }
    assert!((5..=35).contains(&copied), "both must happen: {copied}");
}

#[test]
fn prefill_reads_the_prompt_before_the_first_draft() {
    let toy = model(&vec![vec![0.5, 0.3, 0.2]; 3]);
    let sequence = [0, 1, 2, 1];
    let trees = ["model_tree", "tree_confidence", "tree_optimal"];
    for drafter in ["model", "cascade", "hybrid", "oracle"].into_iter().chain(trees) {
        // The hybrid finds nothing to copy in this sequence; drafting takes one pass of one row.
        let spec = spec(drafter, 1, &[("prompt_lookup_min", "2")]);
        let mut drafter = asking(&spec, &toy, &sequence);
        drafter.ask_within(&sequence, 1, &mut seeded_draws(0));
        assert_eq!(drafter.took, Duration::from_micros(95 + 5), "{}", spec.drafter);
    }
}

/// If the enumeration merged states by their tokens alone, it would miss a cache with wrong
/// content.
#[test]
fn the_state_key_covers_the_content_of_the_cache() {
    let toy = model(&vec![vec![0.5, 0.3, 0.2]; 3]);
    let has_cache = |e: &&Entry<BuildDrafter>| e.build.needs_model || e.name == "oracle";
    for entry in DRAFTERS.iter().filter(has_cache) {
        let key = |sequence: &[Token]| {
            let mut drafter = asking(&spec(entry.name, 2, &[]), &toy, &sequence[..1]);
            drafter.ask_within(&sequence[..2], 2, &mut seeded_draws(0));
            drafter.key(sequence)
        };
        assert_eq!(key(&[0, 1, 2]), key(&[0, 1, 2]));
        assert_ne!(key(&[0, 1, 2]), key(&[0, 2, 2]), "{}", entry.name);
    }
}

#[test]
fn a_hub_of_one_child_is_sampled_from_the_full_q() {
    let toy = model(&vec![vec![0.5, 0.3, 0.2]; 3]);
    let spec = spec("model_tree", 2, &[("tree", "1,2"), ("siblings", "hub")]);
    let draft = asking(&spec, &toy, &[0]).ask(&[0], &mut seeded_draws(0));
    let parents = draft.nodes().iter().map(|node| node.parent).collect::<Vec<_>>();
    assert_eq!(parents, [None, Some(0), Some(0)]);
    content(&draft)[0].1.iter().zip([0.5, 0.3, 0.2]).for_each(|(&p, q)| near(p, q));
}

/// E[accepted] in the first round with K drafted tokens, by enumeration.
fn accepted(p: &[f64], dial: f64, k: usize) -> f64 {
    let target = ToyPair::context_free(p, p).target("t").unwrap();
    let dial = dial.to_string();
    let spec = spec("oracle", k, &[("oracle_acceptance", &*dial)]);
    let method = spec.build_with(Tools { target: Some(&target), ..Tools::default() }).unwrap();
    let stop = StopRules::max_tokens(k + 1);
    let generation = Generation::new(&target, method, &[0], stop, None).unwrap();
    enumerate(&target, generation, &mut []).unwrap().tally.first_accepted
}

#[test]
fn an_oracle_is_accepted_at_its_configured_rate() {
    for dial in [0.0, 0.25, 0.8, 1.0] {
        // Token c is impossible, so that wrong drafts are always rejected.
        near(accepted(&[0.6, 0.4, 0.0], dial, 1), dial);
        near(accepted(&[0.6, 0.4, 0.0], dial, 3), dial + dial * dial + dial.powi(3));
        // If the least probable token has probability 0.1, a wrong draft may be accepted.
        let least = f64::min(0.1, dial * 0.1 + (1.0 - dial));
        near(accepted(&[0.6, 0.1, 0.3], dial, 1), dial * 0.9 + least);
    }
}

/// The joint distribution of the children's tokens, in draw order, in a tree of one level.
fn children(siblings: &str, k: &str, q: &[f64]) -> BTreeMap<Vec<Token>, f64> {
    let toy = model(&vec![q.to_vec(); q.len()]);
    let spec = spec("model_tree", 1, &[("tree", k), ("siblings", siblings)]);
    let mut drafter = asking(&spec, &toy, &[0]);
    let mut ask = |chance: &mut dyn Chance| drafter.ask(&[0], chance);
    let mut dist = BTreeMap::new();
    for (draft, weight) in outcomes(|chance| ask(chance)) {
        let tokens = draft.children(None).map(|id| draft.node(id).token).collect();
        *dist.entry(tokens).or_insert(0.0) += weight;
    }
    dist
}

fn assert_distributions(found: &BTreeMap<Vec<Token>, f64>, expected: &[(&[Token], f64)]) {
    assert_eq!(found.len(), expected.len(), "{found:?}");
    expected.iter().for_each(|(tokens, p)| near(found[*tokens], *p));
}

#[test]
fn each_kind_of_siblings_has_its_own_joint_distribution() {
    let q = [0.5, 0.3, 0.2];
    let pair = |a: usize, b: usize| q[a] * q[b];
    assert_distributions(
        &children("independent", "2", &q),
        &[
            (&[0, 0], pair(0, 0)),
            (&[0, 1], pair(0, 1)),
            (&[0, 2], pair(0, 2)),
            (&[1, 0], pair(1, 0)),
            (&[1, 1], pair(1, 1)),
            (&[1, 2], pair(1, 2)),
            (&[2, 0], pair(2, 0)),
            (&[2, 1], pair(2, 1)),
            (&[2, 2], pair(2, 2)),
        ],
    );
    // Each child is drawn from the tokens that are left.
    let then = |a: usize, b: usize| q[a] * q[b] / (1.0 - q[a]);
    assert_distributions(
        &children("distinct", "2", &q),
        &[
            (&[0, 1], then(0, 1)),
            (&[0, 2], then(0, 2)),
            (&[1, 0], then(1, 0)),
            (&[1, 2], then(1, 2)),
            (&[2, 0], then(2, 0)),
            (&[2, 1], then(2, 1)),
        ],
    );
    let three = children("distinct", "3", &q);
    near(three[&vec![2, 0, 1]], then(2, 0));
    assert_eq!(children("distinct", "4", &q), three, "there are only three tokens");
    assert_distributions(&children("top_k", "2", &q), &[(&[0, 1], 1.0)]);
    assert_distributions(&children("top_k", "2", &[0.2, 0.3, 0.5]), &[(&[2, 1], 1.0)]);
    // The most probable token, then a sample from the others.
    assert_distributions(&children("last_sampled", "2", &q), &[(&[0, 1], 0.6), (&[0, 2], 0.4)]);
    assert_distributions(&children("last_sampled", "3", &q), &[(&[0, 1, 2], 1.0)]);
    // Q(x, a) = q(x), Q(a, x) = q(a) q(x) / (1 - q(a)).
    assert_distributions(
        &children("hub", "2", &q),
        &[(&[1, 0], 0.3), (&[2, 0], 0.2), (&[0, 1], then(0, 1)), (&[0, 2], then(0, 2))],
    );
}

#[test]
fn the_default_kind_of_siblings_depends_on_the_verifier() {
    let toy = model(&vec![vec![0.5, 0.3, 0.2]; 3]);
    let kinds = [
        ("rejection", "distinct"),
        ("traversal", "distinct"),
        ("k_seq", "independent"),
        ("spechub", "hub"),
        ("greedy_multi", "last_sampled"),
    ];
    for (verifier, kind) in kinds {
        let spec = spec("model_tree", 2, &[("tree", "2,2")]);
        let spec = MethodSpec { verifier: verifier.to_owned(), ..spec };
        let mut drafter = asking(&spec, &toy, &[0]);
        for seed in 0..20 {
            let draft = drafter.ask(&[0], &mut seeded_draws(seed));
            assert_eq!(draft.siblings(None).name(), kind);
        }
    }
}

#[test]
fn a_model_tree_has_the_given_shape_and_conditions_on_its_paths() {
    let mut rng = seeded(34);
    let q = positive_table(4, &mut rng);
    let toy = model(&q);
    let mut drafter = asking(&spec("model_tree", 3, &[("tree", "3,2,1")]), &toy, &[0]);
    let draft = drafter.ask(&[2, 1], &mut seeded_draws(5));
    let count = |at| draft.children(at).count();
    assert_eq!((draft.len(), draft.depth(), drafter.passes), (15, 3, 3));
    for id in 0..draft.len() {
        assert_eq!(count(Some(id)), [2, 1, 0][draft.node(id).depth - 1]);
        let last = draft.node(id).parent.map_or(1, |parent| draft.node(parent).token) as usize;
        let drawn_before = draft.children(draft.node(id).parent).take_while(|&other| other != id);
        let taken = drawn_before.map(|other| draft.node(other).token).collect::<Vec<_>>();
        let left = 1.0 - taken.iter().map(|&token| q[last][token as usize]).sum::<f64>();
        for token in 0..4 {
            let gone = taken.contains(&token);
            let expected = if gone { 0.0 } else { q[last][token as usize] / left };
            near(draft.node(id).q(token), expected);
        }
    }
}

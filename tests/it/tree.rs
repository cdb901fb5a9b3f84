//! The draft tree.

use std::rc::Rc;

use specdec::core::chance::{Chance, Exhaustive, Purpose, Request, Seeded, Site};
use specdec::core::distribution::Dist;
use specdec::core::tree::{Draft, DraftShape, Origin, Siblings};

fn distribution() -> Rc<Dist> {
    Rc::new(Dist::from_probs(vec![0.25, 0.75, 0.0]).unwrap())
}

#[test]
fn an_empty_draft_has_no_nodes_and_no_branches() {
    let draft = Draft::empty(3);
    assert!(draft.is_empty());
    assert_eq!((draft.len(), draft.depth(), draft.vocab()), (0, 0, 3));
    assert_eq!(draft.children(None).count(), 0);
    assert!(!draft.shape().branches() && !draft.shape().sampled && !draft.shape().certain);
}

#[test]
fn a_tree_gives_children_paths_and_depth() {
    let mut draft = Draft::empty(3);
    let a = draft.certain(None, 0);
    let b = draft.certain(None, 1);
    let under_a = draft.certain(Some(a), 2);
    let under_b = draft.certain(Some(b), 2);
    let deep = draft.certain(Some(under_b), 0);
    assert_eq!(draft.children(None).collect::<Vec<_>>(), [a, b]);
    assert_eq!(draft.children(Some(a)).collect::<Vec<_>>(), [under_a]);
    assert_eq!(draft.path(deep), [b, under_b, deep]);
    assert_eq!(draft.tokens_to(deep), [1, 2, 0]);
    assert_eq!(draft.depth(), 3);
    assert!(!draft.is_empty());
    assert!(draft.shape().branches() && draft.shape().certain && !draft.shape().sampled);
}

#[test]
fn sampled_siblings_keep_their_order_and_may_repeat() {
    let mut draft = Draft::empty(3);
    let mut chance = Exhaustive::default();
    let dist = distribution();
    let first = draft.sample(None, &dist, &mut chance);
    let second = draft.sample(None, &dist, &mut chance);
    assert_eq!(draft.node(first).token, draft.node(second).token);
    assert_eq!(draft.children(None).collect::<Vec<_>>(), [first, second]);
    assert_eq!(chance.decisions(), 2);
    assert!(draft.shape().branches());
    assert!(draft.shape().only(&[Siblings::Independent]));
}

#[test]
fn certain_siblings_do_not_repeat() {
    let mut draft = Draft::empty(3);
    let first = draft.certain(None, 1);
    assert_eq!(draft.certain(None, 1), first);
    assert_eq!(draft.len(), 1);
    // A sampled twin is another proposal with another distribution.
    draft.sample(None, &Rc::new(Dist::one_hot(3, 1)), &mut Exhaustive::default());
    assert_eq!(draft.len(), 2);
}

#[test]
fn the_recorded_distribution_is_the_one_drawn_from() {
    let mut mass = [0.0; 3];
    let mut chance = Exhaustive::default();
    loop {
        let mut draft = Draft::empty(3);
        chance.begin_round(0);
        let id = draft.sample(None, &distribution(), &mut chance);
        let node = draft.node(id);
        mass[node.token as usize] += chance.weight();
        assert!(matches!(&node.origin, Origin::Sampled(q) if q.p(1) == 0.75));
        assert_eq!((node.q(0), node.q(1), node.q(2)), (0.25, 0.75, 0.0));
        if !chance.advance() {
            break;
        }
    }
    assert_eq!(mass, [0.25, 0.75, 0.0]);
}

#[test]
fn a_certain_node_has_a_one_hot_distribution() {
    let mut draft = Draft::empty(3);
    let id = draft.certain(None, 2);
    let node = draft.node(id);
    assert_eq!((node.q(2), node.q(0)), (1.0, 0.0));
    assert_eq!(node.distribution(3).p(2), 1.0);
    assert_eq!(node.depth, 1);
}

/// A belief is for draft lengths: verifiers see the distribution of the draw.
#[test]
fn a_belief_does_not_replace_the_distribution_of_the_draw() {
    let mut draft = Draft::empty(3);
    let id = draft.certain(None, 1);
    assert_eq!(draft.node(id).belief(3).p(1), 1.0, "no belief was recorded");
    draft.believe(id, &distribution());
    assert_eq!(draft.node(id).belief(3).p(1), 0.75);
    assert_eq!((draft.node(id).q(1), draft.node(id).distribution(3).p(1)), (1.0, 1.0));
}

/// Every outcome of drawing children of the context.
fn outcomes(grow: impl Fn(&mut Draft, &mut Exhaustive)) -> Vec<(Draft, f64)> {
    let mut chance = Exhaustive::default();
    let mut found = Vec::new();
    loop {
        let mut draft = Draft::empty(3);
        chance.begin_round(0);
        grow(&mut draft, &mut chance);
        found.push((draft, chance.weight()));
        if !chance.advance() {
            return found;
        }
    }
}

/// The tokens of each outcome with its probability; dyadic distributions make it exact.
fn sequences(outcomes: &[(Draft, f64)]) -> Vec<(Vec<u32>, f64)> {
    let tokens = |draft: &Draft| draft.nodes().iter().map(|n| n.token).collect::<Vec<_>>();
    outcomes.iter().map(|(draft, weight)| (tokens(draft), *weight)).collect()
}

#[test]
fn distinct_children_are_drawn_without_replacement() {
    let dist = Rc::new(Dist::from_probs(vec![0.5, 0.25, 0.25]).unwrap());
    let two = outcomes(|draft, chance| draft.sample_distinct(None, &dist, 2, chance));
    let half = 0.5 * 0.5;
    let expected = [
        (vec![0, 1], half),
        (vec![0, 2], half),
        (vec![1, 0], 0.25 * (0.5 / 0.75)),
        (vec![1, 2], 0.25 * (0.25 / 0.75)),
        (vec![2, 0], 0.25 * (0.5 / 0.75)),
        (vec![2, 1], 0.25 * (0.25 / 0.75)),
    ];
    assert_eq!(sequences(&two), expected);
    for (draft, _) in &two {
        assert_eq!(draft.siblings(None), Siblings::Distinct);
        assert!(draft.shape().only(&[Siblings::Distinct]));
        let first = draft.node(0).token;
        assert_eq!((draft.node(0).q(first), draft.node(1).q(first)), (dist.p(first), 0.0));
    }
    // Only two tokens are possible, so there is no third child.
    let three =
        outcomes(|draft, chance| draft.sample_distinct(None, &self::distribution(), 3, chance));
    assert_eq!(sequences(&three), [(vec![0, 1], 0.25), (vec![1, 0], 0.75)]);
    let none = outcomes(|draft, chance| draft.sample_distinct(None, &dist, 0, chance));
    assert_eq!(sequences(&none), [(vec![], 1.0)]);
}

#[test]
fn the_last_child_is_drawn_from_the_tokens_that_are_not_listed() {
    let dist = Rc::new(Dist::from_probs(vec![0.25, 0.5, 0.25]).unwrap());
    let two = outcomes(|draft, chance| draft.sample_last(None, &dist, 2, chance));
    assert_eq!(sequences(&two), [(vec![1, 0], 0.5), (vec![1, 2], 0.5)]);
    for (draft, _) in &two {
        assert_eq!(draft.siblings(None), Siblings::LastSampled);
        assert!(matches!(draft.node(0).origin, Origin::Certain));
        assert!(matches!(&draft.node(1).origin, Origin::Sampled(rest) if rest.p(1) == 0.0));
    }
    let one = outcomes(|draft, chance| draft.sample_last(None, &dist, 1, chance));
    assert_eq!(sequences(&one), [(vec![0], 0.25), (vec![1], 0.5), (vec![2], 0.25)]);
    // The listed tokens may be all that are possible.
    let all = outcomes(|draft, chance| draft.sample_last(None, &self::distribution(), 4, chance));
    assert_eq!(sequences(&all), [(vec![1, 0], 1.0)]);
}

#[test]
fn the_most_probable_token_is_one_of_two_hub_children() {
    let dist = Rc::new(Dist::from_probs(vec![0.25, 0.5, 0.25]).unwrap());
    let pairs = outcomes(|draft, chance| draft.sample_hub(None, &dist, chance));
    let expected = [(vec![0, 1], 0.25), (vec![1, 0], 0.25), (vec![1, 2], 0.25), (vec![2, 1], 0.25)];
    assert_eq!(sequences(&pairs), expected);
    assert!(pairs.iter().all(|(draft, _)| draft.siblings(None) == Siblings::Hub));
    let certain = Rc::new(Dist::one_hot(3, 2));
    let alone = outcomes(|draft, chance| draft.sample_hub(None, &certain, chance));
    assert_eq!(sequences(&alone), [(vec![2], 1.0)]);
}

/// A race is decided by its position and list, for any node; two lists with the same winner propose
/// it once.
#[test]
fn raced_children_are_the_winners_of_their_lists() {
    let dist = Rc::new(Dist::from_probs(vec![0.25, 0.5, 0.25]).unwrap());
    let mut twins = 0;
    for repeat in 0..20 {
        let mut chance = Seeded::new(Request { seed: 1, prompt: "p", repeat });
        let mut draft = Draft::empty(3);
        let ids = [0, 1].map(|list| draft.race(None, &dist, (7, list), &mut chance));
        for (list, id) in ids.into_iter().enumerate() {
            assert_eq!(draft.node(id).token, chance.race(7, list..list + 1, &dist));
        }
        twins += usize::from(ids[0] == ids[1]);
        assert_eq!(draft.len(), if ids[0] == ids[1] { 1 } else { 2 });
        assert!(draft.shape().coupled && !draft.shape().sampled && !draft.shape().certain);
        assert_eq!((draft.node(0).q(1), draft.node(0).distribution(3).p(1)), (0.5, 0.5));
    }
    assert!((1..20).contains(&twins), "{twins}");
}

#[test]
fn shapes_name_the_kinds_of_siblings() {
    let shape = DraftShape::SAMPLED.with(Siblings::Distinct).with(Siblings::Hub);
    assert!(shape.branches() && shape.sampled && !shape.certain && !shape.coupled);
    assert!(shape.only(&[Siblings::Hub, Siblings::Distinct]));
    assert!(!shape.only(&[Siblings::Hub]) && !shape.only(&[Siblings::Distinct]));
    // Adding a kind twice changes nothing.
    assert_eq!(shape.with(Siblings::Hub), shape);
    for kind in Siblings::CHOICES.into_iter().chain([Siblings::Mixed]) {
        let shape = DraftShape::CERTAIN.with(kind);
        assert!(shape.only(&[kind]) && shape.branches() && shape.certain && !shape.sampled);
        assert!(!shape.only(&[]), "{kind:?}");
    }
    assert!(DraftShape::NOTHING.only(&[]) && !DraftShape::NOTHING.branches());
}

#[test]
fn siblings_of_different_kinds_are_mixed() {
    let mut draft = Draft::empty(3);
    let listed = draft.certain(None, 0);
    draft.sample(None, &distribution(), &mut Exhaustive::default());
    let below = draft.certain(Some(listed), 1);
    assert_eq!(draft.siblings(None), Siblings::Mixed);
    // An only child is not a fork, so its kind is not one of the shape's.
    assert_eq!(draft.siblings(Some(below)), Siblings::TopK);
    assert!(draft.shape().only(&[Siblings::Mixed]) && draft.shape().branches());
    let mut reversed = Draft::empty(3);
    reversed.sample(None, &distribution(), &mut Exhaustive::default());
    reversed.certain(None, 0);
    assert_eq!(reversed.siblings(None), Siblings::Mixed);
    let mut two_dists = Draft::empty(3);
    (0..2).for_each(|_| _ = two_dists.sample(None, &distribution(), &mut Exhaustive::default()));
    assert_eq!(
        two_dists.siblings(None),
        Siblings::Mixed,
        "equal, but not known to be one distribution"
    );
    let mut fork = Draft::empty(3);
    let root = fork.certain(None, 0);
    fork.certain(Some(root), 0);
    assert!(!fork.shape().branches());
    fork.certain(Some(root), 1);
    assert!(fork.shape().only(&[Siblings::TopK]) && fork.shape().branches());
}

/// The names that configs use.
#[test]
fn kinds_of_siblings_have_names() {
    let names = Siblings::CHOICES.map(Siblings::name);
    assert_eq!(names, ["independent", "distinct", "top_k", "last_sampled", "hub"]);
    assert_eq!(Siblings::Mixed.name(), "mixed");
}

/// The address of a draw is the node's own, so no two nodes share it.
#[test]
fn a_token_is_drawn_at_the_address_of_its_node() {
    let dist = Rc::new(Dist::from_weights(vec![1.0; 1000]).unwrap());
    let mut chance = Seeded::new(Request { seed: 1, prompt: "p", repeat: 0 });
    let mut draft = Draft::empty(1000);
    for node in 0..4 {
        let id = draft.sample(None, &dist, &mut chance);
        let site = Site { purpose: Purpose::Draft, node };
        assert_eq!((id, draft.node(id).token), (node, chance.categorical(site, &dist)));
    }
}

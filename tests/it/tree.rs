//! The draft tree.

use std::rc::Rc;

use specdec::chance::{Chance, Exhaustive};
use specdec::dist::Dist;
use specdec::tree::{Draft, Origin, Siblings};

fn law() -> Rc<Dist> {
    Rc::new(Dist::from_probs(vec![0.25, 0.75, 0.0]).unwrap())
}

#[test]
fn an_empty_draft_is_plain_decoding() {
    let draft = Draft::empty(3);
    assert!(draft.is_empty());
    assert_eq!((draft.len(), draft.depth(), draft.vocab()), (0, 0, 3));
    assert_eq!(draft.children(None).count(), 0);
    assert!(!draft.shape().branches() && !draft.shape().sampled && !draft.shape().certain);
}

#[test]
fn a_tree_knows_its_paths() {
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
    assert!(draft.shape().branches() && draft.shape().certain && !draft.shape().sampled);
}

#[test]
fn sampled_siblings_keep_their_order_and_may_repeat() {
    let mut draft = Draft::empty(3);
    let mut chance = Exhaustive::default();
    let law = law();
    let first = draft.sample(None, &law, &mut chance);
    let second = draft.sample(None, &law, &mut chance);
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
    // A sampled twin is another proposal with another law.
    draft.sample(None, &Rc::new(Dist::one_hot(3, 1)), &mut Exhaustive::default());
    assert_eq!(draft.len(), 2);
}

#[test]
fn the_recorded_law_is_the_one_drawn_from() {
    let mut mass = [0.0; 3];
    let mut chance = Exhaustive::default();
    loop {
        let mut draft = Draft::empty(3);
        chance.begin_round(0);
        let id = draft.sample(None, &law(), &mut chance);
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
fn a_certain_node_has_a_one_hot_law() {
    let mut draft = Draft::empty(3);
    let id = draft.certain(None, 2);
    let node = draft.node(id);
    assert_eq!((node.q(2), node.q(0)), (1.0, 0.0));
    assert_eq!(node.law(3).p(2), 1.0);
    assert_eq!(node.depth, 1);
}

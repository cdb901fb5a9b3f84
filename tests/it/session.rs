//! Sessions: for any cached content, the rows equal those of a fresh pass, and nothing is computed
//! twice.

use std::collections::BTreeMap;
use std::rc::Rc;

use proptest::prelude::*;
use specdec::core::chance::Exhaustive;
use specdec::core::distribution::{Dist, Token};
use specdec::core::sampling::Logits;
use specdec::core::tree::{Draft, NodeId, Row};
use specdec::model::{self, Feed, LanguageModel, Session, Toy, ToyPair, Want, Work, evaluate_one};

const ORDER: usize = 7;
/// The number of tree nodes for which a session has room in addition to a full context.
const TREE_SLOTS: usize = 64;

/// A toy whose distributions depend on the last seven tokens, so that a wrong row far back in the
/// cache is detected.
fn long_memory() -> Toy {
    let mut table = BTreeMap::new();
    let mut level = vec![Vec::<Token>::new()];
    for _ in 0..=ORDER {
        for context in &level {
            let key = context.iter().map(Token::to_string).collect::<Vec<_>>().join(",");
            // Every context has a different distribution, numbered by the context as a binary
            // number.
            let index = context.iter().fold(1, |n, &t| 2 * n + u64::from(t));
            let p = index as f64 / 1024.0;
            table.insert(key, vec![p, 1.0 - p]);
        }
        level =
            level.iter().flat_map(|c| [[&c[..], &[0]].concat(), [&c[..], &[1]].concat()]).collect();
    }
    let pair = ToyPair::new(2, ORDER, table.clone(), table);
    pair.target("long").unwrap()
}

/// What happens to a sequence between two passes.
#[derive(Debug, Clone)]
enum Step {
    /// A path of the last draft is accepted, then some tokens follow.
    Accept { node: usize, then: Vec<Token> },
    /// The sequence goes back and continues with other tokens.
    Branch { by: usize, then: Vec<Token> },
    /// A copy of the session takes over.
    Fork,
    /// Only the tokens are updated.
    Rewind,
}

/// The requested rows.
#[derive(Debug, Clone)]
enum Rows {
    All,
    One(usize),
    None,
}

/// A tree: each node has a token and a parent among the earlier nodes (or none). It is certain, or
/// drawn and perhaps a twin of a sibling.
type Tree = Vec<(Token, usize, bool)>;

fn tokens(most: usize) -> impl Strategy<Value = Vec<Token>> {
    proptest::collection::vec(0u32..2, 0..=most)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0usize..9, tokens(2)).prop_map(|(node, then)| Step::Accept { node, then }),
        2 => (0usize..5, tokens(3)).prop_map(|(by, then)| Step::Branch { by, then }),
        1 => Just(Step::Fork),
        1 => Just(Step::Rewind),
    ]
}

fn tree() -> impl Strategy<Value = Tree> {
    proptest::collection::vec((0u32..2, 0usize..8, any::<bool>()), 0..7)
}

fn rows() -> impl Strategy<Value = Rows> {
    prop_oneof![4 => Just(Rows::All), 2 => (0usize..8).prop_map(Rows::One), 1 => Just(Rows::None)]
}

fn draft(tree: &Tree) -> Draft {
    let mut draft = Draft::empty(2);
    for &(token, parent, certain) in tree {
        let parent = parent.checked_sub(1).filter(|&p| p < draft.len());
        if certain {
            draft.certain(parent, token);
        } else {
            let dist = Rc::new(Dist::one_hot(2, token));
            draft.sample(parent, &dist, &mut Exhaustive::default());
        }
    }
    draft
}

fn check(
    model: &Toy,
    session: &mut Session,
    context: &[Token],
    draft: &Draft,
    want: Want,
) -> Result<(), TestCaseError> {
    let rows = want.rows(draft.len());
    let work = Work { session, context, draft, want };
    let evaluation = evaluate_one(model, work).unwrap();
    prop_assert_eq!(evaluation.rows.len(), rows.len());
    for (row, found) in rows.into_iter().zip(evaluation.rows) {
        let drafted = row.checked_sub(1).map_or_else(Vec::new, |id: NodeId| draft.tokens_to(id));
        let expected = model.logits(&[context, &drafted].concat()).unwrap();
        prop_assert_eq!(found, Logits::F64(expected.to_vec()), "row {}", row);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn cached_rows_equal_those_of_a_fresh_pass(
        prompt in proptest::collection::vec(0u32..2, 1..5),
        history in proptest::collection::vec((step(), tree(), rows()), 1..14),
    ) {
        let model = long_memory();
        let mut session = model.session().unwrap();
        let mut context = prompt;
        let mut last = Draft::empty(2);
        for (step, tree, rows) in history {
            match step {
                Step::Accept { node, then } => {
                    if let Some(id) = node.checked_sub(1).filter(|&id| id < last.len()) {
                        context.extend(last.tokens_to(id));
                    }
                    context.extend(then);
                }
                Step::Branch { by, then } => {
                    context.truncate(context.len().saturating_sub(by).max(1));
                    context.extend(then);
                }
                Step::Fork => {
                    let copy = session.try_clone().unwrap();
                    // Later work on the original does not change the copy.
                    check(&model, &mut session, &[1, 1, 0, 1], &Draft::empty(2), Want::All)?;
                    session = copy;
                }
                Step::Rewind => session.rewind(&context).unwrap(),
            }
            last = draft(&tree);
            let want = match rows {
                Rows::All => Want::All,
                Rows::One(row) => Want::Row(Row::all(&last).nth(row.min(last.len())).unwrap()),
                Rows::None => Want::Nothing,
            };
            check(&model, &mut session, &context, &last, want)?;
        }
    }
}

#[test]
fn each_node_of_a_growing_draft_is_computed_once() {
    let model = long_memory();
    let mut session = model.session().unwrap();
    let context = [0, 1, 1, 0];
    let mut draft = Draft::empty(2);
    let mut parent = None;
    let mut computed = Vec::new();
    for token in [1, 0, 1, 0] {
        let want = Want::Row(Row::all(&draft).last().unwrap());
        let work = Work { session: &mut session, context: &context, draft: &draft, want };
        computed.push(evaluate_one(&model, work).unwrap().computed);
        parent = Some(draft.certain(parent, token));
    }
    assert_eq!(computed, [4, 1, 1, 1], "the context once, then each node");
}

#[test]
fn an_accepted_path_is_not_computed_again() {
    let model = long_memory();
    let mut session = model.session().unwrap();
    let mut draft = Draft::empty(2);
    draft.certain(None, 0);
    let b = draft.certain(None, 1);
    draft.certain(Some(b), 0);
    let c = draft.certain(Some(b), 1);
    let pass = |session: &mut Session, context: &[Token], draft: &Draft| {
        let work = Work { session, context, draft, want: Want::All };
        evaluate_one(&model, work).unwrap().computed
    };
    assert_eq!(pass(&mut session, &[0], &draft), 5);
    // The path 1, 1 was accepted and 0 follows: only that one is new.
    let context = [&[0][..], &draft.tokens_to(c), &[0]].concat();
    assert_eq!(pass(&mut session, &context, &Draft::empty(2)), 1);
}

#[test]
fn a_rewound_session_has_the_key_of_one_that_took_no_detour() {
    let model = long_memory();
    let fill = |context: &[Token]| {
        let mut session = model.session().unwrap();
        let draft = Draft::empty(2);
        let work = Work { session: &mut session, context, draft: &draft, want: Want::All };
        evaluate_one(&model, work).unwrap();
        session
    };
    let direct = fill(&[0, 1]);
    let mut detour = fill(&[0, 1, 1, 1]);
    assert_ne!(direct.state_key(), detour.state_key());
    detour.rewind(&[0, 1]).unwrap();
    assert_eq!(direct.state_key(), detour.state_key());
}

#[test]
fn every_cached_row_is_part_of_the_state_key() {
    let model = long_memory();
    let mut draft = Draft::empty(2);
    draft.certain(None, 1);
    // Slots 0 to 2 hold 0, 1, 1: one of them is overwritten by its opposite.
    let key = |from, to| {
        let mut session = model.session().unwrap();
        let work = Work { session: &mut session, context: &[0, 1], draft: &draft, want: Want::All };
        evaluate_one(&model, work).unwrap();
        session.cache().copy_row(from, to).unwrap();
        session.state_key()
    };
    let right = key(0, 0);
    for (from, to) in [(1, 0), (0, 1), (0, 2)] {
        assert_ne!(key(from, to), right, "slot {to}");
    }
}

#[test]
fn a_node_attends_to_its_path_as_in_a_plain_sequence() {
    let model = long_memory();
    let mut session = model.session().unwrap();
    // 0 with the children 1 and 0, and its sibling 1 with the child 1.
    let tree = draft(&vec![(0, 0, true), (1, 1, true), (0, 1, true), (1, 0, true), (1, 4, true)]);
    let mut work = Work { session: &mut session, context: &[1, 1], draft: &tree, want: Want::All };
    let step = Session::prepare(&mut work).unwrap();
    let sees = |feed: &Feed| (feed.position, feed.prefix, feed.ancestors.clone());
    // A path in consecutive slots is an ordinary sequence: no list of ancestors.
    let expected = [
        (0, 1, vec![]),
        (1, 2, vec![]),
        (2, 3, vec![]),
        (3, 4, vec![]),
        (3, 3, vec![4]),
        (2, 2, vec![5]),
        (3, 2, vec![5, 6]),
    ];
    assert_eq!(step.feed.iter().map(sees).collect::<Vec<_>>(), expected);
}

#[test]
fn each_piece_of_a_step_numbers_its_own_rows() {
    let feed = |slot| Feed { token: 0, slot, position: slot, prefix: slot, ancestors: vec![slot] };
    let step = model::Step {
        feed: (10..17).map(feed).collect(),
        rows: vec![0, 2, 3, 6],
        ..model::Step::default()
    };
    let pieces = |most| {
        let slots = |feed: &[Feed]| feed.iter().map(|feed| feed.slot).collect::<Vec<_>>();
        step.pieces(most).map(|(feed, rows)| (slots(feed), rows)).collect::<Vec<_>>()
    };
    let whole = [((10..17).collect::<Vec<_>>(), vec![0, 2, 3, 6])];
    assert_eq!(pieces(7), whole);
    assert_eq!(pieces(100), whole);
    let three = [(vec![10, 11, 12], vec![0, 2]), (vec![13, 14, 15], vec![0]), (vec![16], vec![0])];
    assert_eq!(pieces(3), three);
}

#[test]
fn empty_and_overlong_contexts_are_refused() {
    let model = long_memory();
    let mut session = model.session().unwrap();
    let draft = Draft::empty(2);
    let mut pass = |context: &[Token]| {
        let work = Work { session: &mut session, context, draft: &draft, want: Want::All };
        evaluate_one(&model, work).map(|e| e.rows.len()).map_err(|e| e.to_string())
    };
    assert_eq!(pass(&[]), Err("an empty context cannot be evaluated".to_owned()));
    let long = vec![0; model.info().context_length + 1];
    assert!(pass(&long).unwrap_err().contains("do not fit a context of"));
    assert_eq!(pass(&long[1..]), Ok(1), "the last position can be used");
    // A refused pass leaves the session usable.
    assert_eq!(pass(&[0, 1]), Ok(1));
}

#[test]
fn a_tree_may_fill_the_cache_but_not_exceed_it() {
    let model = long_memory();
    let mut session = model.session().unwrap();
    // Six positions of the context are left, and the binary tree has as many levels.
    let context = vec![0; model.info().context_length - 6];
    let binary = |id: usize| (id as Token % 2, id / 2, true);
    let mut pass = |nodes: usize| {
        let draft = draft(&(0..nodes).map(binary).collect());
        let work =
            Work { session: &mut session, context: &context, draft: &draft, want: Want::All };
        evaluate_one(&model, work).map(|e| e.rows.len()).map_err(|e| e.to_string())
    };
    let room = 6 + TREE_SLOTS;
    assert_eq!(pass(room), Ok(1 + room));
    assert!(pass(room + 1).unwrap_err().contains("do not fit a cache of"));
}

#[test]
fn rows_are_not_moved_over_rows_that_are_still_needed() {
    let model = long_memory();
    // A new first sibling moves the two old nodes to later slots; the last node is new.
    let first = draft(&vec![(0, 0, true), (1, 1, true)]);
    let second = draft(&vec![(1, 0, true), (0, 0, true), (1, 2, true), (0, 3, true)]);
    for context in [&[0][..], &[0, 1, 1, 0, 1, 1]] {
        let mut session = model.session().unwrap();
        check(&model, &mut session, context, &first, Want::All).unwrap();
        check(&model, &mut session, context, &second, Want::Row(Row::all(&second).last().unwrap()))
            .unwrap();
    }
}

#[test]
fn toys_have_different_checksums() {
    let toy = |dist: &[f64]| ToyPair::context_free(dist, dist).target("t").unwrap().info().clone();
    let [fair, unfair, dice] = [&[0.5, 0.5][..], &[0.25, 0.75], &[0.5, 0.25, 0.25]].map(toy);
    assert_ne!(fair.sha256, unfair.sha256);
    assert_eq!(fair.tokenizer_sha256, unfair.tokenizer_sha256);
    assert_ne!(fair.tokenizer_sha256, dice.tokenizer_sha256);
    assert_eq!(model::hex(&[0, 10, 255]), "000aff");
}

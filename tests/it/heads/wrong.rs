//! Wrong heads: which instrument refutes each.

use specdec::bugs::bugs;
use specdec::checkpoint::pair::Pair;
use specdec::engine::HeadSettings;
use specdec::model::{HeadFault, ToyDrafts, zoo};

use super::history::history_changes_nothing;
use super::parity::{CASES, CLOSE, Expected, expected, largest, source, target_of, text, trained};
use super::toys::drafted;
use crate::asking::spec;
use crate::fixtures::seeded;

/// The largest difference from a reference of a head with a fault; `None` if the fault would
/// change nothing in it, which the error says.
fn difference(case: &str, fault: HeadFault) -> Option<f64> {
    let Expected { target, ids, rounds, .. } = expected(case);
    let head = source(case, HeadSettings { fault: Some(fault), ..trained(case) });
    let target = target_of(case, &target);
    let pair = Pair::load(text(&target)).unwrap();
    if let Err(error) = pair.with_draft(head.clone()) {
        let why = format!("{error:#}");
        let refused = why.contains(&format!("fault = {}", fault.name()));
        assert!(refused || case == "pard" && why.contains("is no head"), "{why}");
        return None;
    }
    Some(largest(&head, &target, ids.as_deref(), &rounds))
}

/// Whether toy heads with a fault draft as the draft model does.
fn toys_agree(fault: HeadFault) -> bool {
    (0..40).all(|number| {
        let pair = zoo::random(number);
        let (target, draft) = (pair.target("toy").unwrap(), pair.draft("toy").unwrap());
        let wrong = pair.clone().drafting_with(ToyDrafts::WrongHead(fault)).drafter("toy").unwrap();
        let prompt = [&[0, 1][..], &pair.prompt].concat();
        let spec = spec("model", 4, &[]);
        drafted([&target, &*wrong], &spec, &prompt) == drafted([&target, &draft], &spec, &prompt)
    })
}

/// Whether no history changes the drafts of a fixture's head with a fault.
fn history_agrees(fault: HeadFault) -> bool {
    let case = "eagle3_plain";
    let head = source(case, HeadSettings { fault: Some(fault), ..HeadSettings::default() });
    let target = Pair::load(text(&target_of(case, &expected(case).target))).unwrap();
    let pair = target.with_draft(head).unwrap();
    let models = [&*pair.target.model, pair.draft_model().unwrap()];
    let mut rng = seeded(50);
    (0..6).all(|_| history_changes_nothing(models, ("model", &[]), false, &mut rng))
}

/// Each mistake differs from a reference in every format that can have it. Two of them depend on
/// what came before, and only history shows them.
#[test]
fn every_wrong_head_is_refuted() {
    let of_history = [HeadFault::DraftRowsKept, HeadFault::RejectedRowsKept];
    for bug in bugs() {
        let Some(fault) = bug.head else { continue };
        assert_eq!(bug.name, fault.name());
        let found = CASES.map(|case| (case, difference(case, fault)));
        let found = found.into_iter().filter_map(|(case, most)| Some((case, most?)));
        let found = found.collect::<Vec<_>>();
        assert!(!found.is_empty(), "{} fits no head", bug.name);
        if of_history.contains(&fault) {
            assert!(!history_agrees(fault), "{}", bug.name);
        } else {
            let missed = found.iter().filter(|(_, most)| *most < 10.0 * CLOSE);
            assert_eq!(missed.count(), 0, "{}: {found:?}", bug.name);
        }
    }
}

/// Toy heads refute every mistake in what a head is fed.
#[test]
fn toy_heads_refute_what_is_fed_wrongly() {
    use HeadFault::{
        DraftPositionsLate, DraftRowsKept, FeatureStale, PromptFeaturesMissing, RejectedRowsKept,
        TapEarly, TapsReversed, TokenEarly,
    };
    let fed = [
        TapEarly,
        TapsReversed,
        FeatureStale,
        PromptFeaturesMissing,
        TokenEarly,
        DraftPositionsLate,
        DraftRowsKept,
        RejectedRowsKept,
    ];
    for fault in fed {
        assert!(!toys_agree(fault), "{}", fault.name());
    }
}

/// The control: rotary positions are relative, so that all of them may move.
#[test]
fn positions_that_all_move_change_nothing() {
    let found = CASES.map(|case| difference(case, HeadFault::AllPositionsLate));
    let compared = found.iter().flatten().count();
    assert!(compared > 10 && found.iter().flatten().all(|most| *most < CLOSE), "{found:?}");
}

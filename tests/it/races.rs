//! Whole passes of the native engine on several threads that leave and return. They have the same
//! bits as on one thread. The thread sanitizer also runs them (`.ci/sanitize`).

use specdec::checkpoint::ModelShape;
use specdec::core::distribution::Token;
use specdec::core::sampling::Logits;
use specdec::core::tree::{Draft, Row};
use specdec::engine::pool::Pool;
use specdec::engine::{Dtype, Settings};
use specdec::model::{LanguageModel, Want, Work, evaluate_one};

/// Grouped-query heads, several layers, and heads smaller than a block of Q8.
const SHAPE: ModelShape = ModelShape {
    name: "tiny",
    hidden: 64,
    layers: 2,
    heads: 4,
    kv_heads: 2,
    head_dim: 16,
    intermediate: 96,
    experts: None,
    vocab: 300,
    tied: true,
};

fn model(dtype: Dtype, threads: usize, restless: bool) -> Box<dyn LanguageModel> {
    let (dtype, threads) = (Some(dtype), Some(threads));
    SHAPE.model(&Settings { dtype, threads, restless, ..Settings::default() }).unwrap()
}

/// A tree whose path of first children is `sequence`, with a sibling for each of them.
fn tree(sequence: &[Token]) -> Draft {
    let mut draft = Draft::empty(SHAPE.vocab);
    let mut parent = None;
    for &token in sequence {
        let node = draft.certain(parent, token);
        draft.certain(parent, token + 1);
        parent = Some(node);
    }
    draft
}

/// The bits of the logits of a prefill of several blocks of rows, of drafts after
/// it, and of one decoded token.
fn bits(model: &dyn LanguageModel) -> Vec<u32> {
    let sequence = (0..60).map(|i| i * 31 % 299).collect::<Vec<Token>>();
    let mut session = model.session().unwrap();
    let mut found = Vec::new();
    for (length, drafted, want) in [
        (40, 0, Want::All),
        (41, 5, Want::All),
        (44, 9, Want::All),
        (50, 0, Want::Row(Row::CONTEXT)),
    ] {
        let draft = tree(&sequence[length..length + drafted]);
        let work =
            Work { session: &mut session, context: &sequence[..length], draft: &draft, want };
        for row in evaluate_one(model, work).unwrap().rows {
            let Logits::F32(row) = row else { panic!("a real model's logits are f32") };
            found.extend(row.into_iter().map(f32::to_bits));
        }
    }
    found
}

#[test]
fn the_numbers_of_threads_that_a_model_chooses_change_no_bit() {
    for dtype in Dtype::ALL {
        let settings = Settings { dtype: Some(dtype), ..Settings::default() };
        let chosen = SHAPE.model(&settings).unwrap();
        assert_eq!(bits(&*chosen), bits(&*model(dtype, 1, false)), "{dtype:?}");
        let threads = (1..40).map(|rows| chosen.threads(rows)).collect::<Vec<_>>();
        assert!(threads.is_sorted() && threads[0] >= 1, "{threads:?}");
        assert_eq!(*threads.last().unwrap(), Pool::shared().threads());
    }
}

#[test]
fn passes_are_bit_identical_while_threads_leave_and_return() {
    for dtype in Dtype::ALL {
        let expected = bits(&*model(dtype, 1, false));
        for (threads, restless) in [(2, false), (2, true), (4, true)] {
            let model = model(dtype, threads, restless);
            for run in 0..8 {
                let same = bits(&*model) == expected;
                assert!(same, "{dtype:?}, {threads} threads, restless: {restless}, run {run}");
            }
        }
    }
}

//! Drafts across vocabularies: exact by enumeration, with the acceptance that q restricted to
//! the shared tokens must have, and contexts that are translated alike however they come.

use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use rand::RngExt;
use specdec::Error;
use specdec::core::distribution::Token;
use specdec::core::params::{Params, Value};
use specdec::core::sampling::{Logits, Sampler, SamplingParams};
use specdec::core::tree::Draft;
use specdec::method::decode::{Generation, MethodSpec, StopRules};
use specdec::method::draft::DRAFTERS;
use specdec::method::verify::Rule;
use specdec::model::zoo::{self, OTHER_VOCABULARIES};
use specdec::model::{
    Codec, Evaluation, KvCache, LanguageModel, ModelInfo, Role, Session, SharedVocabulary,
    Spelling, ToyPair, TranslatedModel, Want, Words, Work, evaluate_one,
};
use specdec::proof::{
    ChainCase, Enumeration, Gap, draft_model, draft_rows, enumerate, target_distribution,
};

use crate::fixtures::{near, seeded};

const PROMPT: &[u32] = &[0, 1, 0];

#[test]
fn drafts_across_vocabularies_keep_the_target_distribution() {
    let sampler = Sampler::new(SamplingParams::NEUTRAL).unwrap();
    for toy in OTHER_VOCABULARIES {
        let pair = zoo::toy(toy.name).unwrap();
        let target = pair.target("t").unwrap();
        let (draft, rows) = (draft_model(&pair, &target).unwrap(), draft_rows(&pair).unwrap());
        for (verifier, rule) in [("rejection", Rule::Rejection), ("traversal", Rule::Block)] {
            for k in 1..=4 {
                let spec = MethodSpec {
                    verifier: verifier.to_owned(),
                    num_speculative_tokens: k,
                    ..MethodSpec::default()
                };
                let method = spec.build(Some(&*draft)).unwrap();
                let stop = StopRules { eos: pair.eos.clone(), ..StopRules::max_tokens(k + 2) };
                let generation = Generation::new(&target, method, PROMPT, stop, None).unwrap();
                let found = enumerate(&target, generation, &mut []).unwrap();
                let expected = target_distribution(&target, &sampler, PROMPT, k + 2).unwrap();
                let gap = Gap::between(&found.dist, &expected);
                assert!(gap.is_zero(), "{} {verifier} {k}: {gap:?}", toy.name);
                let chain = ChainCase {
                    target: &target,
                    target_sampler: &sampler,
                    draft: &*rows,
                    draft_sampler: &sampler,
                    prompt: PROMPT,
                };
                let length = chain.expected_emitted(rule, k).unwrap();
                let emitted = found.tally.first_emitted;
                assert!((emitted - length).abs() < 1e-12, "{} {k}: {emitted}", toy.name);
            }
        }
    }
}

/// The pair `mixed` with its draft's tokens under other numbers.
fn renumbered() -> ToyPair {
    const TARGET: &[&str] = &["a", "b", "c", "d"];
    const DRAFT: &[&str] = &["c", "a", "d", "b"];
    let pair = zoo::toy("mixed").unwrap();
    let own = |token: usize| DRAFT.iter().position(|word| *word == TARGET[token]).unwrap();
    let key = |key: &str| {
        let tokens = key.split(',').filter(|t| !t.is_empty()).map(|t| t.parse().unwrap());
        tokens.map(|token| own(token).to_string()).collect::<Vec<_>>().join(",")
    };
    let table = pair.draft.iter().map(|(context, dist)| {
        let mut other = vec![0.0; 4];
        dist.iter().enumerate().for_each(|(token, p)| other[own(token)] = *p);
        (key(context), other)
    });
    let mut other =
        ToyPair::new(4, 2, pair.target.clone(), table.collect::<BTreeMap<String, Vec<f64>>>());
    other.words = Some([Words(TARGET), Words(DRAFT)]);
    other
}

#[test]
fn a_draft_under_other_numbers_drafts_as_the_draft_itself() {
    let walk = |pair: &ToyPair, spec: &MethodSpec| -> Enumeration {
        let target = pair.target("t").unwrap();
        let draft = draft_model(pair, &target).unwrap();
        let (method, stop) = (spec.build(Some(&*draft)).unwrap(), StopRules::max_tokens(4));
        let generation = Generation::new(&target, method, PROMPT, stop, None).unwrap();
        enumerate(&target, generation, &mut []).unwrap()
    };
    let (one, other) = (zoo::toy("mixed").unwrap(), renumbered());
    let text = |text: &str| Value::Text(text.to_owned());
    for drafter in DRAFTERS.iter().filter(|drafter| drafter.build.needs_model) {
        // Independent siblings may be twins, which must stay two.
        let tree =
            Params::default().with("tree", text("2,1")).with("siblings", text("independent"));
        let small = Params::default().with("tree_most_nodes", Value::Count(2));
        let spec = MethodSpec {
            drafter: drafter.name.to_owned(),
            num_speculative_tokens: 2,
            params: match drafter.name {
                "model_tree" => tree,
                "tree_optimal" => small,
                _ => Params::default(),
            },
            ..MethodSpec::default()
        };
        let (found, expected) = (walk(&other, &spec), walk(&one, &spec));
        assert!(Gap::between(&found.dist, &expected.dist).is_zero(), "{}", drafter.name);
        near(found.tally.proposed, expected.tally.proposed);
        near(found.tally.accepted, expected.tally.accepted);
        near(found.tally.rejected, expected.tally.rejected);
        assert_eq!(found.states, expected.states, "{}: equal states are merged", drafter.name);
    }
}

#[test]
fn tokens_are_shared_by_bytes_and_control_tokens_by_name() {
    let text = |text: &str| Some(Spelling::Text(text.as_bytes().to_vec()));
    let control = |name: &str| Some(Spelling::Control(name.to_owned()));
    let target =
        [Some(Spelling::Byte(b'a')), text("a"), None, text("</s>"), control("</s>"), text("é")];
    let draft =
        [text("b"), control("</s>"), text("a"), text("a"), None, Some(Spelling::Byte(0xC3))];
    let shared = SharedVocabulary::new(&target, &draft);
    // Neither the byte nor the text that spells a control token; of two equal ones the first.
    assert_eq!(shared.pairs().collect::<Vec<_>>(), [(1, 2), (4, 1)]);
    assert_eq!((shared.len(), shared.vocab(), shared.own(1), shared.own(3)), (2, 6, Some(2), None));
    assert!(SharedVocabulary::new(&target, &[None, text("x")]).is_empty());
}

#[test]
fn models_without_a_common_token_are_refused() {
    let pair = zoo::toy("mixed").unwrap();
    let target = pair.target("t").unwrap();
    let draft = Box::new(pair.draft("d").unwrap());
    let codec = Arc::new(Words(&["v", "w", "x", "y"]));
    let target = (target.info(), &*pair.codec(Role::Target));
    let sentence = TranslatedModel::new(target, (draft, codec)).unwrap_err().to_string();
    assert_eq!(sentence, "target and draft share no token: nothing can be drafted");
}

/// A model that says nothing and keeps the contexts that it is given.
#[derive(Debug)]
pub(crate) struct Mute {
    info: ModelInfo,
    heard: Heard,
}

/// Contexts in the order in which they came.
pub(crate) type Heard = Rc<RefCell<Vec<Vec<Token>>>>;

impl Mute {
    /// A model with `vocab` tokens and room for `context_length`, and the contexts that it is given.
    pub(crate) fn new(vocab: usize, context_length: usize) -> (Box<Self>, Heard) {
        let toy = zoo::toy("mixed").unwrap().draft("mute").unwrap();
        let info = ModelInfo { vocab, context_length, ..toy.info().clone() };
        let heard = Heard::default();
        (Box::new(Self { info, heard: Rc::clone(&heard) }), heard)
    }
}

impl LanguageModel for Mute {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn session(&self) -> Result<Session, Error> {
        let positions = self.info.context_length;
        Ok(Session::new(Box::new(NoRows), positions + 64, positions))
    }

    fn evaluate(&self, work: &mut [Work<'_>]) -> Result<Vec<Evaluation>, Error> {
        self.heard.borrow_mut().extend(work.iter().map(|work| work.context.to_vec()));
        Session::evaluate_each(work, |_: &mut NoRows, step| {
            let rows = step.rows.iter().map(|_| Logits::F32(vec![0.0; self.info.vocab]));
            Ok(rows.collect::<Vec<_>>().into())
        })
    }
}

#[derive(Debug)]
struct NoRows;

impl KvCache for NoRows {
    fn copy_row(&mut self, _from: usize, _to: usize) -> Result<(), Error> {
        Ok(())
    }

    fn try_clone(&self, _slots: usize) -> Result<Box<dyn KvCache>, Error> {
        Ok(Box::new(Self))
    }

    fn key(&self, _slots: usize) -> Vec<u8> {
        Vec::new()
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

/// Lets a model read a context; returns the number of tokens that it computes.
pub(crate) fn read(model: &dyn LanguageModel, session: &mut Session, context: &[Token]) -> usize {
    let draft = Draft::empty(model.info().vocab);
    let work = Work { session, context, draft: &draft, want: Want::All };
    evaluate_one(model, work).unwrap().computed
}

/// A mute model with these words and this context behind a target with those.
fn behind(target: Words, own: Words, context_length: usize) -> (TranslatedModel, Heard) {
    let (mute, heard) = Mute::new(own.0.len(), context_length);
    let (reader, _) = Mute::new(target.0.len(), 100_000);
    let draft = (mute as Box<dyn LanguageModel>, Arc::new(own) as Arc<dyn Codec>);
    (TranslatedModel::new((reader.info(), &target), draft).unwrap(), heard)
}

#[test]
fn a_translation_depends_on_the_context_alone() {
    let (target, own) =
        (Words(&["a", "b", " ", "b a", "aa"]), Words(&["aab", "a", " b", "b", " "]));
    let (model, heard) = behind(target, own, 100_000);
    let (mut session, mut rng) = (model.session().unwrap(), seeded(2026));
    let mut context = vec![0];
    for round in 0..400 {
        // Forwards by a few tokens, and sometimes back by many.
        context.extend((0..rng.random_range(0..30)).map(|_| rng.random_range(0..5)));
        if rng.random_range(0..5) == 0 {
            let back = rng.random_range(0..60).min(context.len() - 1);
            context.truncate(context.len() - back);
        }
        match round % 3 {
            0 => session = session.try_clone().unwrap(),
            1 => session.rewind(&context).unwrap(),
            _ => {}
        }
        read(&model, &mut session, &context);
        read(&model, &mut model.session().unwrap(), &context);
        let heard = std::mem::take(&mut *heard.borrow_mut());
        assert_eq!(heard[0], heard[1], "{context:?}");
        // The words say the same, whichever they are.
        assert_eq!(own.decode(&heard[0]).unwrap(), target.decode(&context).unwrap());
    }
    assert!(context.len() > 1000, "several parts: {}", context.len());
}

#[test]
fn a_draft_model_with_a_short_context_reads_the_end() {
    const POSITIONS: usize = 64;
    let (model, heard) = behind(Words(&["a", "b"]), Words(&["b", "a"]), POSITIONS);
    let mut session = model.session().unwrap();
    let text = (0..400).map(|i: u32| i * i / 7 % 2).collect::<Vec<_>>();
    let mut draft = Draft::empty(2);
    (0..5).fold(None, |parent, i| Some(draft.certain(parent, i % 2)));
    let mut computed = 0;
    for end in 1..=text.len() {
        let context = &text[..end];
        let work = Work { session: &mut session, context, draft: &draft, want: Want::All };
        computed += evaluate_one(&model, work).unwrap().computed;
        let heard = heard.borrow_mut().pop().unwrap();
        assert!(heard.len() + draft.depth() <= POSITIONS, "{end}");
        assert!(heard.len() >= end.min(POSITIONS * 3 / 4 - draft.depth()), "{end}");
        let own = context[end - heard.len()..].iter().map(|token| 1 - token).collect::<Vec<_>>();
        assert_eq!(heard, own, "{end}");
    }
    // The draft and the last token in every pass, and the whole context once per 16 tokens.
    assert!(computed <= 400 * 6 + 400 / 16 * POSITIONS, "{computed}");
}

#[test]
fn a_model_that_excludes_every_shared_token_drafts_them_alike() {
    let mut pair = renumbered();
    // After everything the draft says "d", which this target lacks.
    pair.words = Some([Words(&["a", "b", "c", "x"]), Words(&["c", "a", "d", "b"])]);
    pair.draft.values_mut().for_each(|dist| *dist = vec![0.0, 0.0, 1.0, 0.0]);
    let target = pair.target("t").unwrap();
    let model = draft_model(&pair, &target).unwrap();
    let mut session = model.session().unwrap();
    let draft = Draft::empty(4);
    let work = Work { session: &mut session, context: PROMPT, draft: &draft, want: Want::All };
    let row = evaluate_one(&*model, work).unwrap().rows.remove(0);
    assert_eq!(row, Logits::F64(vec![0.0, 0.0, 0.0, f64::NEG_INFINITY]));
}

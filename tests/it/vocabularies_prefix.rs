//! Drafts of models whose numbers are the target's, as far as both have them, and models that
//! draft for themselves.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use specdec::Pair;
use specdec::checkpoint::{GgmlVocabulary, load};
use specdec::core::chance::{Request, Seeded};
use specdec::core::clock::RealClock;
use specdec::core::distribution::Token;
use specdec::core::sampling::{Sampler, SamplingParams};
use specdec::method::decode::{Generation, MethodSpec, NoObserver, StopRules, generate};
use specdec::method::draft::Tools;
use specdec::model::{
    ChatMessage, Conversation, LanguageModel, Letters, ModelInfo, Role, SharedVocabulary, Spelling,
    ToyPair, TranslatedModel, Vocabulary, check_pair,
};
use specdec::proof::{Gap, enumerate, target_distribution};

use crate::ggml::support::{CONTROL, NORMAL, add, codec};
use crate::hub_support::draft_files;
use crate::vocabularies::{Mute, read};

/// A toy whose distribution depends on the last of its tokens alone.
fn toy(vocab: usize, factor: usize) -> ToyPair {
    let row = |last: usize| {
        let weights = (0..vocab).map(|token| ((token * 3 + last * factor) % 7 + 1) as f64);
        let sum = weights.clone().sum::<f64>();
        weights.map(|weight| weight / sum).collect::<Vec<_>>()
    };
    let rows = (0..vocab).map(|last| (last.to_string(), row(last)));
    let table = [(String::new(), row(0))]
        .into_iter()
        .chain(rows)
        .collect::<std::collections::BTreeMap<_, _>>();
    ToyPair::new(vocab, 1, table.clone(), table)
}

/// Catches: a row that keeps the draft's other tokens, or a context with tokens that it lacks.
#[test]
fn a_prefix_keeps_the_target_distribution() {
    let sampler = Sampler::new(SamplingParams::NEUTRAL).unwrap();
    for (vocab, own) in [(4, 3), (3, 4)] {
        let target = toy(vocab, 5).target("t").unwrap();
        let (one, other) = (Letters { vocab }, Letters { vocab: own });
        let draft = Box::new(toy(own, 2).draft("d").unwrap());
        let model =
            TranslatedModel::prefix((target.info(), &one), (draft, std::sync::Arc::new(other)));
        let model = model.unwrap();
        assert_eq!((model.shared().len(), model.shared().vocab()), (3, vocab));
        for verifier in ["rejection", "traversal"] {
            let spec = MethodSpec {
                verifier: verifier.to_owned(),
                num_speculative_tokens: 2,
                ..MethodSpec::default()
            };
            let method = spec.build(Some(&model)).unwrap();
            let stop = StopRules::max_tokens(4);
            let generation = Generation::new(&target, method, &[0], stop, None).unwrap();
            let found = enumerate(&target, generation, &mut []).unwrap();
            let expected = target_distribution(&target, &sampler, &[0], 4).unwrap();
            let gap = Gap::between(&found.dist, &expected);
            assert!(gap.is_zero(), "{vocab} {own} {verifier}: {gap:?}");
            assert!(found.tally.accepted > 0.0 && found.tally.rejected > 0.0);
        }
    }
}

#[test]
fn only_control_tokens_of_a_prefix_may_differ() {
    let text = |text: &str| Some(Spelling::Text(text.as_bytes().to_vec()));
    let control = |name: &str| Some(Spelling::Control(name.to_owned()));
    let target = [control("<s>"), text("a"), control("<|im_end|>"), text("b"), text("c")];
    let draft = [control("<s>"), text("a"), control("<|reserved_0|>"), None];
    let shared = SharedVocabulary::prefix(&target, &draft).unwrap();
    assert_eq!(shared.pairs().collect::<Vec<_>>(), [(0, 0), (1, 1)]);
    let other = [control("<s>"), text("a"), text("x"), text("y")];
    assert_eq!(SharedVocabulary::prefix(&target, &other), Err(3));
}

/// Catches: an error that gives two numbers of tokens and leaves the reader to find which differ.
#[test]
fn an_error_names_the_first_differing_tokens_and_what_helps() {
    let (one, other) = (Letters { vocab: 4 }, Letters { vocab: 3 });
    let info = |vocab, role| {
        let loaded = load("toy:mixed", role).unwrap().model.info().clone();
        ModelInfo { vocab, tokenizer_sha256: format!("{vocab}"), ..loaded }
    };
    let (target, draft) = (info(4, Role::Target), info(3, Role::Draft));
    let error = check_pair((&target, &one), (&draft, &other)).unwrap_err().to_string();
    let said = "they must share one vocabulary; they differ first in token 3 (\"d\" and none); \
                vocabulary = \"prefix\" drafts those of the first 3 that are equal";
    assert!(error.contains(" has 4 tokens and draft ") && error.ends_with(said), "{error}");
}

/// The embedded draft with a tokenizer that begins texts or does not, and a chat template.
fn model(folder: &Path, begins: bool, template: &str) -> String {
    for (name, bytes) in draft_files() {
        fs::write(folder.join(name), bytes).unwrap();
    }
    if !begins {
        let file = folder.join("tokenizer.json");
        let mut tokenizer = serde_json::from_slice::<Value>(&fs::read(&file).unwrap()).unwrap();
        tokenizer["post_processor"] = json!(null);
        fs::write(file, tokenizer.to_string()).unwrap();
    }
    fs::write(folder.join("chat_template.jinja"), template).unwrap();
    folder.to_str().unwrap().to_owned()
}

/// Templates that begin a text with the token that begins texts, and that do not.
const TEMPLATES: [&str; 2] = [
    "{{ bos_token }}{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}",
    "{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}",
];

/// A text and a conversation in tokens, for every tokenizer and template.
fn each_self(mut check: impl FnMut(&str, Vec<Token>)) {
    for (begins, template) in [(true, 0), (true, 1), (false, 0), (false, 1)] {
        let folder = tempfile::tempdir().unwrap();
        let path = model(folder.path(), begins, TEMPLATES[template]);
        let codec = load(path.as_str(), Role::Target).unwrap().codec;
        let text = "fn main() {\n    let numbers = vec![1, 2, 3];\n";
        let messages = vec![ChatMessage::new("user", text), ChatMessage::new("user", "}")];
        let chat = Conversation { messages, ..Conversation::default() };
        for tokens in [codec.encode(text).unwrap(), codec.encode_chat(&chat).unwrap()] {
            check(&path, tokens);
        }
    }
}

/// Catches: a head that is what the tokenizer gives for an empty text, or that is put before
/// contexts that begin otherwise.
#[test]
fn a_text_begins_for_the_draft_model_as_its_tokenizer_begins_it() {
    each_self(|path, tokens| {
        let [target, own] = [Role::Target, Role::Draft].map(|role| load(path, role).unwrap());
        let (mute, heard) = Mute::new(target.model.info().vocab, 10_000);
        let draft = (mute as Box<dyn LanguageModel>, own.codec);
        let info = target.model.info();
        let model = TranslatedModel::new((info, &*target.codec), draft).unwrap();
        let mut session = model.session().unwrap();
        for end in [1, 2, tokens.len() / 2, tokens.len()] {
            read(&model, &mut session, &tokens[..end]);
        }
        assert_eq!(heard.borrow().last().unwrap(), &tokens, "{path}");
    });
}

/// Catches: a head with the token that stands for an empty text, or with what comes after a text.
#[test]
fn a_head_is_what_comes_before_a_text() {
    let mut vocabulary = GgmlVocabulary { model: "gpt2".to_owned(), ..Default::default() };
    for name in ["<s>", "</s>"] {
        add(&mut vocabulary, name, CONTROL);
    }
    for c in ('!'..='~').chain('\u{a1}'..='\u{ac}').chain('\u{ae}'..='\u{143}') {
        add(&mut vocabulary, &c.to_string(), NORMAL);
    }
    add(&mut vocabulary, "xx", NORMAL);
    vocabulary.merges = vec!["x x".to_owned()];
    (vocabulary.bos, vocabulary.eos) = (Some(0), Some(1));
    for (begins, ends) in [(false, false), (false, true), (true, false), (true, true)] {
        let vocabulary =
            GgmlVocabulary { add_bos: Some(begins), add_eos: Some(ends), ..vocabulary.clone() };
        let codec = codec(&vocabulary, false);
        assert_eq!(codec.head(), &[0][..usize::from(begins)], "{begins} {ends}");
        let around = usize::from(begins) + usize::from(ends);
        assert_eq!(codec.encode("a").unwrap().len(), 1 + around, "{begins} {ends}");
    }
}

/// Catches: any difference between what target and draft read, which no output shows.
#[test]
fn a_model_that_drafts_for_itself_has_overlap_one() {
    const K: usize = 4;
    const ROUNDS: usize = 8;
    let method = MethodSpec { num_speculative_tokens: K, ..MethodSpec::default() };
    each_self(|path, tokens| {
        for vocabulary in Vocabulary::ALL {
            let pair = Pair::load(path).unwrap().with_draft_of(vocabulary, path).unwrap();
            let target = &*pair.target.model;
            let tools = Tools { draft: pair.draft_model(), target: Some(target), texts: None };
            let (made, stop) =
                (method.build_with(tools).unwrap(), StopRules::max_tokens(ROUNDS * (K + 1)));
            let mut generation = Generation::new(target, made, &tokens, stop, None).unwrap();
            let mut chance = Seeded::new(Request { seed: 3, prompt: "p", repeat: 0 });
            let clock = RealClock::default();
            let totals =
                generate(&mut generation, target, &mut chance, &clock, &mut NoObserver).unwrap();
            assert_eq!(totals.target_forwards, ROUNDS, "{path} {}", vocabulary.name());
        }
    });
}

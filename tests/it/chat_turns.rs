//! Questions of several turns: a later turn follows the model's own answers.

use specdec::checkpoint::load;
use specdec::core::chance::{Request, Seeded};
use specdec::core::clock::RealClock;
use specdec::core::distribution::Token;
use specdec::core::error::Error;
use specdec::core::sampling::SamplingParams;
use specdec::io::input::read_text;
use specdec::method::decode::{Generation, MethodSpec, NoObserver, StopRules, generate};
use specdec::method::draft::Texts;
use specdec::model::ChatMessage;
use specdec::model::{Codec, Conversation, LanguageModel, Letters, ModelInfo, Role};
use specdec::run::experiment::{Experiment, Frozen, Material, freeze};
use specdec::run::prompt::{Asked, Question};

/// Letters, and a chat template: a letter for the role before each message, and one for the
/// day.
#[derive(Debug)]
struct Talk;

const LETTERS: Letters = Letters { vocab: 4 };

fn talk(messages: &[(&str, &str)]) -> Vec<Token> {
    let said = messages.iter().map(|(role, text)| match *role {
        "system" => format!("d{text}"),
        "user" => format!("b{text}"),
        _ => format!("c{text}"),
    });
    LETTERS.encode(&(said.collect::<String>() + "c")).unwrap()
}

impl Codec for Talk {
    fn encode(&self, text: &str) -> Result<Vec<Token>, Error> {
        LETTERS.encode(text)
    }

    fn encode_chat(&self, conversation: &Conversation) -> Result<Vec<Token>, Error> {
        let messages = conversation.messages.iter().map(|m| (&*m.role, m.content()));
        let dated = conversation.today.map(|today| today.format("%d").unwrap());
        let mut tokens = talk(&messages.collect::<Vec<_>>());
        tokens.extend(dated.iter().flat_map(|day| day.bytes()).map(|b| Token::from(b - b'0')));
        Ok(tokens)
    }

    fn decode(&self, tokens: &[Token]) -> Result<String, Error> {
        LETTERS.decode(tokens)
    }

    fn token_label(&self, token: Token) -> String {
        LETTERS.token_label(token)
    }
}

fn question(id: &str, opening: &[(&str, &str)], turns: &[&str]) -> Question {
    let opening = opening.iter().map(|(role, text)| ChatMessage::new(role, *text)).collect();
    let turns = turns.iter().map(|turn| (*turn).to_owned()).collect();
    let asked = Asked { opening, turns, ..Asked::default() };
    Question { id: id.to_owned(), category: "k".to_owned(), asked }
}

fn questions() -> Vec<Question> {
    vec![
        question("one", &[], &["ab"]),
        question("three", &[], &["ab", "cd", "aa"]),
        question("own", &[("system", "ccc")], &["dd", "ab"]),
    ]
}

/// Freezes an experiment of five new tokens; a context of `context` tokens.
fn frozen(context: usize, sets: &[&str]) -> Result<Frozen, String> {
    frozen_of(context, sets, &questions(), &Talk)
}

fn frozen_of(
    context: usize,
    sets: &[&str],
    questions: &[Question],
    codec: &dyn Codec,
) -> Result<Frozen, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("experiment.toml");
    let text = "target = \"toy:mixed\"\nprompts = \"smoke\"\nmax_tokens = 5\n\
                [sweep]\ndrafter = \"prompt_lookup\"";
    std::fs::write(&file, text).unwrap();
    let sets = sets.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
    let experiment = Experiment::read(&file, &sets).map_err(|e| format!("{e:#}"))?;
    let target = load("toy:mixed", Role::Target).unwrap().model;
    let info = ModelInfo { context_length: context, ..target.info().clone() };
    let material = Material {
        name: "test",
        target: &info,
        draft: None,
        training: None,
        codec,
        prompts: questions,
        answers: Some(&*target),
        texts: &Texts::new(codec, read_text),
    };
    freeze(&experiment.spec, &material).map_err(|e| format!("{e:#}"))
}

/// Plain greedy decoding by five tokens.
fn answer(tokens: &[Token]) -> String {
    let target = load("toy:mixed", Role::Target).unwrap().model;
    let sampling = SamplingParams { temperature: 0.0, ..SamplingParams::default() };
    let plain = MethodSpec { drafter: "none".to_owned(), sampling, ..MethodSpec::default() };
    let (method, stop) = (plain.build(None).unwrap(), StopRules::max_tokens(5));
    let model: &dyn LanguageModel = &*target;
    let mut generation = Generation::new(model, method, tokens, stop, None).unwrap();
    let mut chance = Seeded::new(Request { seed: 7, prompt: "any", repeat: 3 });
    generate(&mut generation, model, &mut chance, &RealClock::default(), &mut NoObserver).unwrap();
    LETTERS.decode(generation.new_tokens()).unwrap()
}

#[test]
fn later_turns_follow_the_greedy_answers_to_earlier_ones() {
    let Frozen { plan, prompts, tokens } = frozen(99, &["chat=true"]).unwrap();
    assert_eq!(plan.prompts, ["one", "three", "three/2", "three/3", "own", "own/2"]);
    assert_eq!(
        plan.turns.iter().map(|(id, n)| (&**id, *n)).collect::<Vec<_>>(),
        [("own", 2), ("three", 3)]
    );
    assert!(plan.chat && plan.choice.is_all());
    assert_eq!(
        prompts.iter().map(|p| &*p.text).collect::<Vec<_>>(),
        ["ab", "ab", "cd", "aa", "dd", "ab"]
    );
    assert!(prompts.iter().all(|prompt| prompt.category == "k"));
    let first = talk(&[("user", "ab")]);
    assert_eq!((&tokens[0], &tokens[1]), (&first, &first));
    let said = answer(&first);
    let second = talk(&[("user", "ab"), ("assistant", &said), ("user", "cd")]);
    assert_eq!(tokens[2], second);
    let again = answer(&second);
    let third = [
        ("user", "ab"),
        ("assistant", &*said),
        ("user", "cd"),
        ("assistant", &*again),
        ("user", "aa"),
    ];
    assert_eq!(tokens[3], talk(&third));
    let own = [("system", "ccc"), ("user", "dd")];
    assert_eq!(tokens[4], talk(&own));
    let said = answer(&tokens[4]);
    assert_eq!(tokens[5], talk(&[own[0], own[1], ("assistant", &said), ("user", "ab")]));
    // The hash covers what the model has said: other answers make another plan.
    let shorter = frozen(99, &["chat=true", "max_tokens=4"]).unwrap().plan;
    assert_ne!(shorter.prompts_sha256, plan.prompts_sha256);
    assert_eq!(frozen(99, &["chat=true"]).unwrap().plan.hash, plan.hash, "freezing is repeatable");
}

#[test]
fn keys_say_how_a_conversation_begins_and_how_long_it_is() {
    let ids = |sets: &[&str]| frozen(99, &[&["chat=true"], sets].concat()).unwrap().plan.prompts;
    assert_eq!(ids(&["turns=1"]), ["one", "three", "own"]);
    assert_eq!(ids(&["turns=2"]), ["one", "three", "three/2", "own", "own/2"]);
    // A limit counts questions; all their turns are run.
    let limited = ids(&["prompts_limit=1", "seed=2"]);
    assert!(limited.iter().all(|id| id.starts_with(&limited[0])), "{limited:?}");
    let system = frozen(99, &["chat=true", "system=aaaa", "turns=1"]).unwrap().tokens;
    assert_eq!(system[0], talk(&[("system", "aaaa"), ("user", "ab")]));
    assert_eq!(system[2], talk(&[("system", "ccc"), ("user", "dd")]), "it has its own");
    let dated = frozen(99, &["chat=true", "chat_date=2026-11-23", "turns=1"]).unwrap().tokens;
    assert_eq!(dated[0], [talk(&[("user", "ab")]), vec![2, 3]].concat());
    let text = frozen(99, &["chat=true", "chat_date=\"2026-11-23\"", "turns=1"]).unwrap().tokens;
    assert_eq!(text, dated, "a TOML date or a text");
    let plain = frozen_of(99, &[], &questions()[..2], &Talk).unwrap();
    assert_eq!(plain.plan.prompts, ["one", "three"], "without chat, first turns are run");
    assert_eq!(plain.tokens[1], LETTERS.encode("ab").unwrap());
    assert!(!toml::to_string(&plain.plan).unwrap().contains("chat"));
}

#[test]
fn turns_that_are_too_long_are_listed_or_left_out() {
    // The longest first turn has 7 tokens; second turns have 13 and more.
    let error = frozen(16, &["chat=true"]).unwrap_err();
    let said = "2 of 3 prompts are too long, since max_tokens = 5 leaves 11 of the 16 tokens of \
                the target's context: three/2 (13 tokens), own/2 (17 tokens); set \
                on_long_prompt = \"skip\", or a smaller max_tokens";
    assert_eq!(error, said);
    let plan = frozen(16, &["chat=true", "on_long_prompt=skip"]).unwrap().plan;
    assert_eq!(plan.prompts, ["one", "three", "own"]);
    assert!(plan.turns.is_empty() && !plan.choice.is_all());
    assert_eq!(
        (plan.choice.of, plan.choice.ended.as_slice()),
        (3, &["three/2".to_owned(), "own/2".to_owned()][..])
    );
    let said = "Turns left out as too long, with those after them: three/2, own/2.";
    assert_eq!(plan.choice.sentences(9), [said]);
}

#[test]
fn what_does_not_go_together_is_refused() {
    for (sets, part) in [
        (&["system=a"][..], "\"system\" is for conversations: set chat = true, or leave it out"),
        (&["chat_date=2026-11-23"], "\"chat_date\""),
        (&["turns=2"], "\"turns\" is for conversations"),
        (&["chat=true", "chat_date=2026-11-23T10:00:00"], "allowed is a day, YYYY-MM-DD"),
        (&["chat=true", "turns=0"], "an integer from 1 to 1000"),
        (
            &["chat=true", "chat_date=23.11.2026"],
            "\"chat_date\" = \"23.11.2026\": allowed is a day, YYYY-MM-DD",
        ),
        (&["chat=true", "on_long_prompt=truncate"], "allowed with chat = true is \"error\""),
        (&["chat=1"], "true or false"),
        (&[], "prompt own cannot be run: there are messages before the prompt: set chat = true"),
    ] {
        let error = frozen(99, sets).unwrap_err();
        assert!(error.contains(part), "{sets:?}: {error:?} does not say {part:?}");
    }
    let error = frozen_of(99, &["chat=true"], &questions(), &LETTERS).unwrap_err();
    assert!(error.contains("a toy model has no chat template: leave out chat"), "{error}");
    let twins = [question("a", &[], &["ab", "cd"]), question("a/2", &[], &["ab"])];
    let error = frozen_of(99, &["chat=true"], &twins, &Talk).unwrap_err();
    assert!(error.contains("two prompts have the id \"a/2\""), "{error}");
}

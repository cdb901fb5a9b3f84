//! Prompt sets: which lines are valid, which prompts are chosen, and what happens to
//! prompts that are too long.

use std::io::Write;
use std::sync::Arc;

use flate2::write::GzEncoder;
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use specdec::checkpoint::load;
use specdec::core::error::Error;
use specdec::io::input::read_text;
use specdec::method::draft::Texts;
use specdec::model::{Codec, Letters, ModelInfo, Role};
use specdec::run::experiment::prompts::{Prompt, sha256};
use specdec::run::experiment::{Experiment, Frozen, Material, freeze};
use specdec::run::prompt::{PromptTemplate, Question, read, read_by};

use crate::cli_support::{refuses, stdout};

fn set(text: &str) -> Result<Vec<Question>, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.jsonl");
    std::fs::write(&file, text).unwrap();
    read(&file).map_err(|e| format!("{e:#}"))
}

#[test]
fn prompt_lines_may_be_plain_or_in_spec_bench_format() {
    let lines = concat!(
        r#"{"prompt": "one"}"#,
        "\n\n",
        r#"{"prompt": "two", "id": 7, "category": "code", "answer": null}"#,
        "\n",
        r#"{"question_id": 81, "category": "writing", "turns": ["three", "four"]}"#,
    );
    let prompts = set(lines).unwrap();
    let parts =
        prompts.iter().map(|p| (&*p.id, &*p.category, &*p.asked.turns[0])).collect::<Vec<_>>();
    let wanted = [("mine-1", "mine", "one"), ("7", "code", "two"), ("81", "writing", "three")];
    assert_eq!(parts, wanted);
}

#[test]
fn invalid_prompt_lines_are_reported_with_their_line_number() {
    let cases = [
        ("{\"prompt\": \"a\",}", "not JSON at column 16"),
        ("[{\"prompt\": \"a\"}]", "not an object: write {\"prompt\": …}"),
        ("{\"promt\": \"a\"}", "no \"prompt\" (did you mean \"prompt\" by \"promt\"?)"),
        ("{\"words\": \"a\"}", "no \"prompt\": write {\"prompt\": …}"),
        ("{\"prompt\": 3}", "\"prompt\" is not a text"),
        ("{\"prompt\": [\"a\", 1]}", "\"prompt\" is not a list of at least one text"),
        ("{\"turns\": []}", "\"turns\" is not a list of at least one text"),
        ("{\"turns\": \"a\"}", "\"turns\" is not a list"),
        ("{\"prompt\": \"a\", \"id\": 1.5}", "\"id\" = 1.5: allowed is a text or an integer"),
        ("{\"prompt\": \"a\", \"id\": null}", "\"id\" = null"),
        ("{\"prompt\": \"a\", \"id\": \"\"}", "allowed are 1 to 200 characters"),
        ("{\"prompt\": \"a\", \"id\": \"x\\ny\"}", "1 to 200 characters on one line"),
        ("{\"prompt\": \"a\", \"category\": \"x\\ry\"}", "\"category\" = "),
    ];
    for (line, part) in cases {
        let error = set(&format!("{{\"prompt\": \"fine\"}}\n{line}\n")).unwrap_err();
        assert!(error.contains("mine.jsonl line 2: "), "{error}");
        assert!(error.contains(part), "{error:?} does not contain {part:?}");
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn only_regular_files_are_read() {
    let endless = Experiment::read("/dev/zero".as_ref(), &[]).unwrap_err();
    assert!(format!("{endless:#}").contains("a device, not a regular file"), "{endless:#}");
    for (file, kind) in [("/dev/zero", "a device"), ("/dev", "a folder")] {
        let error = read(file.as_ref()).unwrap_err();
        assert_eq!(
            format!("{error:#}"),
            format!("cannot read prompts: {file}: {kind}, not a regular file")
        );
    }
}

/// Any difference between two prompt sets gives different hashes.
#[test]
fn the_prompt_set_hash_covers_every_field_and_its_boundaries() {
    let prompt = |id: &str, category: &str, text: &str| Prompt {
        id: id.into(),
        category: category.into(),
        text: text.into(),
    };
    let sets = [
        (vec![prompt("a", "b", "c")], vec![vec![1]]),
        (vec![prompt("ab", "", "c")], vec![vec![1]]),
        (vec![prompt("a", "", "bc")], vec![vec![1]]),
        (vec![prompt("a", "other", "c")], vec![vec![1]]),
        (vec![prompt("a", "b", "c")], vec![vec![1, 2]]),
        (vec![prompt("a", "b", "c\0d\0e\0f")], vec![vec![1]]),
        (vec![prompt("a", "b", "c"), prompt("d", "e", "f")], vec![vec![1], vec![]]),
    ];
    let hashes = sets.iter().map(|(prompts, tokens)| sha256(prompts, tokens));
    let hashes = hashes.collect::<std::collections::BTreeSet<_>>();
    assert_eq!(hashes.len(), sets.len());
}

/// A codec of letters that prepends a `d` to every text.
#[derive(Debug)]
struct Headed;

impl Codec for Headed {
    fn encode(&self, text: &str) -> Result<Vec<u32>, Error> {
        Letters { vocab: 4 }.encode(&format!("d{text}"))
    }

    fn decode(&self, tokens: &[u32]) -> Result<String, Error> {
        Letters { vocab: 4 }.decode(tokens)
    }

    fn token_label(&self, token: u32) -> String {
        Letters { vocab: 4 }.token_label(token)
    }
}

/// Freezes an experiment of five new tokens on prompts of 2, 4, … 12 tokens in
/// two categories; `contexts` are the context lengths of target and draft model.
fn frozen(contexts: [usize; 2], codec: &dyn Codec, sets: &[&str]) -> Result<Frozen, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("experiment.toml");
    let text = "target = \"toy:mixed\"\ndraft = \"toy:mixed\"\nprompts = \"smoke\"\n\
                max_tokens = 5\n[sweep]\ndrafter = \"model\"";
    std::fs::write(&file, text).unwrap();
    let sets = sets.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
    let experiment = Experiment::read(&file, &sets).map_err(|e| format!("{e:#}"))?;
    let info = |role, context_length| ModelInfo {
        context_length,
        ..load("toy:mixed", role).unwrap().model.info().clone()
    };
    let prompts = (1..=6).map(|i| {
        let category = if i % 2 == 0 { "even" } else { "odd" };
        Question::once(format!("p{i}"), category, &"abacabadabac"[..2 * i])
    });
    let material = Material {
        name: "test",
        target: &info(Role::Target, contexts[0]),
        draft: Some(&info(Role::Draft, contexts[1])),
        training: None,
        codec,
        prompts: &prompts.collect::<Vec<_>>(),
        answers: None,
        texts: &Texts::new(codec, read_text),
    };
    freeze(&experiment.spec, &material).map_err(|e| format!("{e:#}"))
}

const LETTERS: Letters = Letters { vocab: 4 };

#[test]
fn prompts_that_are_too_long_are_all_listed() {
    let sentence = |model: &str| {
        format!(
            "2 of 6 prompts are too long, since max_tokens = 5 leaves 8 of the 13 tokens of the \
             {model}'s context: p5 (10 tokens), p6 (12 tokens); set on_long_prompt = \"skip\" or \
             \"truncate\", or a smaller max_tokens"
        )
    };
    assert_eq!(frozen([13, 99], &LETTERS, &[]).unwrap_err(), sentence("target"));
    assert_eq!(frozen([99, 13], &LETTERS, &[]).unwrap_err(), sentence("draft model"));
    // Only the models that the experiment uses count.
    assert!(frozen([99, 13], &LETTERS, &["sweep.drafter=prompt_lookup"]).is_ok());
    let nothing = frozen([6, 99], &LETTERS, &["on_long_prompt=skip"]).unwrap_err();
    assert!(nothing.contains("all 6 prompts are too long and skipped"), "{nothing}");
    let no_room = frozen([5, 99], &LETTERS, &["on_long_prompt=truncate"]).unwrap_err();
    let sentence =
        "max_tokens = 5 leaves no room for a prompt in the 5 tokens of the target's context";
    assert_eq!(no_room, sentence);
    let odd = frozen([99, 99], &Letters { vocab: 2 }, &[]).unwrap_err();
    assert!(odd.contains("prompt p2 cannot be run") && odd.contains("(nor can p3, p4, p5, p6)"));
}

#[test]
fn on_long_prompt_skip_leaves_long_prompts_out() {
    let Frozen { plan, prompts, tokens } =
        frozen([13, 99], &LETTERS, &["on_long_prompt=skip"]).unwrap();
    assert_eq!(plan.prompts, ["p1", "p2", "p3", "p4"]);
    assert_eq!((prompts.len(), tokens[3].len()), (4, 8));
    assert_eq!(plan.choice.sentences(9), ["Skipped as too long, 2 of 6 prompts: p5, p6."]);
    let one = "Skipped as too long, 2 of 6 prompts: p5 and 1 more, as plan.toml lists them.";
    assert_eq!(plan.choice.sentences(1), [one]);
    let all = frozen([99, 99], &LETTERS, &["on_long_prompt=skip"]).unwrap().plan;
    assert!(all.choice.is_all() && all.prompts.len() == 6);
    assert!(!toml::to_string(&all).unwrap().contains("choice"));
}

#[test]
fn on_long_prompt_truncate_keeps_the_end_of_a_prompt() {
    let set = ["on_long_prompt=truncate"];
    let Frozen { plan, tokens, .. } = frozen([13, 99], &LETTERS, &set).unwrap();
    assert_eq!(tokens[3], LETTERS.encode("abacabad").unwrap());
    assert_eq!(tokens[4], LETTERS.encode("acabadab").unwrap());
    let said = "Too long and cut at the beginning, 2 of 6 prompts: p5 (2 tokens fewer), p6 (4 tokens fewer).";
    assert_eq!(plan.choice.sentences(9), [said]);
    // The token that the tokenizer prepends to every text is kept.
    let headed = frozen([13, 99], &Headed, &set).unwrap();
    assert_eq!(headed.tokens[4], LETTERS.encode("dcabadab").unwrap());
    // Different tokens make a different plan, even if the texts are the same.
    let whole = frozen([99, 99], &LETTERS, &set).unwrap().plan;
    assert_ne!(plan.prompts_sha256, whole.prompts_sha256);
}

/// Catches: another end that is cut, shorter prompts among the others, or a chat template cut.
#[test]
fn input_tokens_gives_all_prompts_one_length() {
    let Frozen { plan, tokens, .. } = frozen([99, 99], &LETTERS, &["input_tokens=5"]).unwrap();
    assert_eq!(plan.prompts, ["p3", "p4", "p5", "p6"]);
    assert!(tokens.iter().all(|own| *own == LETTERS.encode("abaca").unwrap()), "{tokens:?}");
    let said = [
        "Each prompt is cut to its first 5 tokens.",
        "Left out as shorter, 2 of 6 prompts: p1, p2.",
    ];
    assert_eq!(plan.choice.sentences(9), said);
    let two = frozen([99, 99], &LETTERS, &["input_tokens=5", "prompts_limit=2"]).unwrap().plan;
    let chosen = "Chosen by the seed, of 4 prompts: prompts_limit = 2.";
    assert_eq!(two.choice.sentences(9)[2], chosen);
    let none = frozen([99, 99], &LETTERS, &["input_tokens=13"]).unwrap_err();
    let short = "all 6 prompts are shorter than input_tokens = 13: the longest has 12 tokens";
    assert_eq!(none, short);
    let chat = frozen([99, 99], &LETTERS, &["input_tokens=5", "chat=true"]).unwrap_err();
    assert!(chat.starts_with("\"input_tokens\" would cut off what the chat template ends with"));
    let long = frozen([9, 99], &LETTERS, &["input_tokens=5"]).unwrap_err();
    assert!(long.starts_with("4 of 4 prompts are too long"), "{long}");
}

#[test]
fn the_seed_chooses_prompts() {
    let ids = |set: &[&str]| frozen([99, 99], &LETTERS, set).unwrap().plan.prompts;
    let three = ids(&["prompts_limit=3"]);
    assert_eq!(three.len(), 3);
    assert_eq!(ids(&["prompts_limit=3"]), three, "the same seed chooses the same prompts");
    assert!(three.is_sorted(), "in their original order");
    let two = ids(&["prompts_limit=2"]);
    assert!(two.iter().all(|id| three.contains(id)), "{two:?} of {three:?}");
    let seeds = (0..8).map(|seed| ids(&["prompts_limit=3", &format!("seed={seed}")]));
    assert!(seeds.collect::<std::collections::BTreeSet<_>>().len() > 1, "the seed matters");
    let plan = frozen([99, 99], &LETTERS, &["prompts_per_category=1"]).unwrap().plan;
    assert_eq!(plan.prompts.len(), 2);
    let odd = plan.prompts.iter().filter(|id| ["p1", "p3", "p5"].contains(&id.as_str()));
    assert_eq!(odd.count(), 1);
    let said = "Chosen by the seed, of 6 prompts: prompts_per_category = 1.";
    assert_eq!(plan.choice.sentences(9), [said]);
    // Skipped prompts make room for others.
    let skip = ["prompts_limit=4", "on_long_prompt=skip"];
    assert_eq!(frozen([13, 99], &LETTERS, &skip).unwrap().plan.prompts, ["p1", "p2", "p3", "p4"]);
    assert!(frozen([99, 99], &LETTERS, &["prompts_limit=6"]).unwrap().plan.choice.is_all());
}

/// Catches: a missing column is empty; braces cannot be written; numbers and lists are lost.
#[test]
fn a_template_makes_prompts_of_any_rows() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("news.jsonl");
    let row = r#"{"article": "A.", "year": 7, "tags": ["x", "y"], "prompt": "no", "none": null}"#;
    std::fs::write(&file, format!("{row}\n")).unwrap();
    let prompt = |template: &str| {
        let template = PromptTemplate::parse(template).map_err(|error| error.to_string())?;
        let found = read_by(&file, Some(&template)).map_err(|error| format!("{error:#}"))?;
        Ok::<_, String>(found[0].asked.turns[0].clone())
    };
    assert_eq!(prompt("{article}").unwrap(), "A.");
    assert_eq!(prompt("{{{year}}} Sum up: {article}\n{tags}!").unwrap(), "{7} Sum up: A.\nx\ny!");
    for (template, part) in [
        ("no column", "names no column"),
        ("{article", "\"{\" has no counterpart"),
        ("article}", "\"}\" has no counterpart"),
        ("{}", "\"{\" has no counterpart"),
        ("{a{b}}", "\"{\" has no counterpart"),
        ("{body}", "there is no \"body\" for prompt_template: the row has \"article\", \"year\""),
        ("{none}", "\"none\" of prompt_template is neither a text nor a number"),
    ] {
        let error = prompt(template).unwrap_err();
        assert!(error.contains(part), "{error}");
    }
    std::fs::write(&file, "{\"letters\": \"ab\"}\n").unwrap();
    let toml = "target = \"toy:mixed\"\ndraft = \"toy:mixed\"\nprompts = \"news.jsonl\"\n\
                max_tokens = 5\nprompt_template = \"{letters}a\"\n[sweep]\ndrafter = \"model\"\n";
    let experiment = dir.path().join("experiment.toml");
    std::fs::write(&experiment, toml).unwrap();
    let plan = ["plan", experiment.to_str().unwrap()];
    assert!(stdout(&plan).contains("prompts     1, "), "{}", stdout(&plan));
    refuses(&[&plan[..], &["--set", "prompt_template={body}"]].concat(), "there is no \"body\"");
}

/// Catches: a shape of file or a compression whose rows differ from those of the others.
#[test]
fn all_shapes_of_files_hold_the_same_rows() {
    let lines = "{\"question_id\": 7, \"category\": \"code\", \"turns\": [\"a\", \"b, \\\"c\\\"\"]}\n\
                 {\"question_id\": 8, \"category\": \"prose\", \"turns\": [\"é\\nd\"]}\n";
    let list = format!("[{}]", lines.trim().replace('\n', ","));
    let csv = "question_id,category,turns\n7,code,\"[\"\"a\"\", \"\"b, \\\"\"c\\\"\"\"\"]\"\n\
               8,prose,\"[\"\"é\\nd\"\"]\"\n";
    let pack = [
        |bytes: &[u8]| bytes.to_vec(),
        |bytes: &[u8]| {
            let mut packed = GzEncoder::new(Vec::new(), flate2::Compression::default());
            packed.write_all(bytes).unwrap();
            packed.finish().unwrap()
        },
        |bytes: &[u8]| zstd::encode_all(bytes, 0).unwrap(),
    ];
    let folder = tempfile::tempdir().unwrap();
    let wanted = [("7", "code", "a|b, \"c\"".to_owned()), ("8", "prose", "é\nd".to_owned())];
    let mut shapes = vec![
        ("jsonl", lines.as_bytes().to_vec()),
        ("json", list.into_bytes()),
        ("csv", csv.as_bytes().to_vec()),
    ];
    for codec in
        [Compression::UNCOMPRESSED, Compression::SNAPPY, Compression::ZSTD(ZstdLevel::default())]
    {
        shapes.push(("parquet", parquet(codec)));
    }
    for (kind, bytes) in shapes {
        for (pack, end) in pack.iter().zip(["", ".gz", ".zst"]) {
            let file = folder.path().join(format!("set.{kind}{end}"));
            std::fs::write(&file, pack(&bytes)).unwrap();
            let found = read(&file).unwrap();
            let found = found.iter().map(|q| (&*q.id, &*q.category, q.asked.turns.join("|")));
            assert_eq!(found.collect::<Vec<_>>(), wanted, "{kind}{end}");
        }
    }
}

/// Two rows of Spec-Bench with an integer, a text and a list of texts.
fn parquet(codec: Compression) -> Vec<u8> {
    let schema = "message rows { required int64 question_id; required binary category (UTF8);
        optional group turns (LIST) { repeated group list { optional binary element (UTF8); } } }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let properties = WriterProperties::builder().set_compression(codec).build();
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties)).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<Int64Type>().write_batch(&[7, 8], None, None).unwrap();
    column.close().unwrap();
    let texts =
        |texts: &[&str]| texts.iter().map(|text| (*text).into()).collect::<Vec<ByteArray>>();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<ByteArrayType>().write_batch(&texts(&["code", "prose"]), None, None).unwrap();
    column.close().unwrap();
    let (turns, defined, repeated) = (texts(&["a", "b, \"c\"", "é\nd"]), [3; 3], [0, 1, 0]);
    let mut column = group.next_column().unwrap().unwrap();
    let column_writer = column.typed::<ByteArrayType>();
    column_writer.write_batch(&turns, Some(&defined), Some(&repeated)).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.into_inner().unwrap()
}

#[test]
fn damaged_tables_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |name: &str, bytes: &[u8]| {
        let file = folder.path().join(name);
        std::fs::write(&file, bytes).unwrap();
        let here = format!("{}/", folder.path().display());
        format!("{:#}", read(&file).unwrap_err()).replace(&here, "")
    };
    assert_eq!(refused("a.parquet", b"{}"), "a.parquet is not a Parquet file");
    let whole = parquet(Compression::SNAPPY);
    let torn = refused("a.parquet", &whole[..whole.len() - 9]);
    assert!(torn.starts_with("a.parquet cannot be read: "), "{torn}");
    assert_eq!(refused("a.csv", b"prompt,id\na,1\nb\n"), "a.csv line 3: 1 cells below 2 names");
    let packed = zstd::encode_all(&b"{\"prompt\": \"a\"}"[..], 0).unwrap();
    let torn = refused("a.jsonl.zst", &packed[..packed.len() - 4]);
    assert!(torn.starts_with("cannot read prompts: a.jsonl.zst: "), "{torn}");
    assert_eq!(refused("a.csv", b"prompt,id\n"), "a.csv holds no prompt");
}

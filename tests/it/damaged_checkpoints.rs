//! Damaged files of Hugging Face folders are refused in one sentence or read, but never end
//! the program, and never take more memory than files of their size can fill.

use std::fs;
use std::path::Path;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;
use serde_json::{Value, json};
use specdec::Error;
use specdec::checkpoint::load;
use specdec::engine::{Settings, Source};
use specdec::model::{ChatMessage, Conversation, Role};

#[cfg(target_os = "linux")]
use crate::damage_support::measured;
use crate::damage_support::{Memory, Outcomes, damage, files};
use crate::families::root;
use crate::fixtures::seeded;

mod older;

/// Number of damaged files.
const FILES: usize = 2_000;
/// The checkpoints that are damaged; together they have most keys.
const CHECKPOINTS: [&str; 5] = ["gemma3", "llama3", "phi4_mini_longrope", "qwen2_window", "olmo2"];
/// The files of a folder, and how many bytes of each most damage hits.
const PARTS: [(&str, usize); 5] = [
    ("config.json", usize::MAX),
    ("tokenizer.json", usize::MAX),
    ("tokenizer_config.json", usize::MAX),
    ("generation_config.json", usize::MAX),
    ("model.safetensors", 3_000),
];
/// A template with what templates commonly do.
const TEMPLATE: &str = "{%- for m in messages -%}{%- if m.role == 'system' and loop.index0 > 0 -%}\
    {{ raise_exception('no') }}{%- endif -%}{{ bos_token + m['role'].strip() }}: \
    {{ m.content | trim }}{{ eos_token }}{%- endfor -%}{% set ns = namespace(n=2) %}\
    {% if add_generation_prompt %}a{{ 'b' * ns.n }}{% endif %}";

/// Writes a whole folder.
fn write(folder: &Path, name: &str) {
    for part in ["config.json", "tokenizer.json", "model.safetensors"] {
        fs::copy(root().join(name).join(part), folder.join(part)).unwrap();
    }
    let tokenizer = json!({"bos_token": "t1", "eos_token": {"content": "t2", "special": true},
        "chat_template": TEMPLATE, "add_bos_token": true, "model_max_length": 64});
    let generation = json!({"bos_token_id": 1, "eos_token_id": [2, 5], "temperature": 0.7,
        "top_k": 20, "top_p": 0.9, "repetition_penalty": 1.05, "do_sample": true});
    fs::write(folder.join("tokenizer_config.json"), tokenizer.to_string()).unwrap();
    fs::write(folder.join("generation_config.json"), generation.to_string()).unwrap();
}

/// A random value within another, or this one.
fn place<'v>(value: &'v mut Value, below: &mut impl FnMut(usize) -> usize) -> &'v mut Value {
    let parts = value.as_array().map_or(0, Vec::len) + value.as_object().map_or(0, |map| map.len());
    if parts == 0 || below(3) == 0 {
        return value;
    }
    let part = below(parts);
    match value {
        Value::Array(list) => place(&mut list[part], below),
        Value::Object(map) => place(map.values_mut().nth(part).unwrap(), below),
        _ => value,
    }
}

/// Replaces, removes or repeats a random value of a JSON text.
pub(crate) fn change(text: &[u8], rng: &mut ChaCha8Rng) -> Vec<u8> {
    let mut json = serde_json::from_slice::<Value>(text).unwrap();
    for _ in 0..1 + rng.next_u64() % 2 {
        let mut below = |n: usize| rng.next_u64() as usize % n.max(1);
        let odd = [
            json!(null),
            json!(-1),
            json!(0),
            json!(u64::MAX),
            json!(1e300),
            json!(0.5),
            json!(true),
            json!(""),
            json!("t".repeat(5_000)),
            json!("<0xFF>"),
            json!("{{ messages * 100 }}{% for i in range(10**9) %}{% endfor %}"),
            json!([]),
            json!({}),
            json!([[1, 2], [3]]),
            json!(0xffff_ffffu64),
        ];
        let at = place(&mut json, &mut below);
        match (below(4), at) {
            (0, Value::Object(map)) if !map.is_empty() => {
                let key = map.keys().nth(below(map.len())).unwrap().clone();
                map.remove(&key);
            }
            (0, Value::Array(list)) if !list.is_empty() => drop(list.remove(below(list.len()))),
            (1, Value::Array(list)) if !list.is_empty() => {
                list.push(list[below(list.len())].clone())
            }
            (2, at @ Value::Number(_)) => {
                let number = at.as_f64().unwrap_or_default();
                *at = json!([number * 2.0, -number, number + 0.5, number * 1e9][below(4)]);
            }
            (_, at) => *at = odd[below(odd.len())].clone(),
        }
    }
    json.to_string().into_bytes()
}

/// Loads a model and does with it what every command does, in a thread of its own: the
/// tokenizers library keeps the words that a thread has encoded until the thread ends.
fn read(folder: &Path) -> Result<(), Error> {
    std::thread::scope(|scope| scope.spawn(|| read_here(folder)).join().unwrap())
}

fn read_here(folder: &Path) -> Result<(), Error> {
    let settings = Settings { threads: Some(1), ..Settings::default() };
    let source = Source::from(folder.to_str().unwrap()).with(settings);
    let loaded = load(source, Role::Target)?;
    loaded.model.session()?;
    let tokens = loaded.codec.encode("t3t4 t5 \u{1f980}")?;
    loaded.codec.decode(&tokens)?;
    let messages = vec![ChatMessage::new("system", " s "), ChatMessage::new("user", "<s>t3")];
    loaded.codec.encode_chat(&Conversation { messages, ..Conversation::default() }).map(drop)
}

#[test]
fn damaged_folders_are_refused_or_read() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for name in CHECKPOINTS {
        write(folder, name);
        read(folder).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    let memory = Memory::now();
    let mut rng = seeded(43);
    let files = files(FILES);
    let mut outcomes = Outcomes::default();
    for number in 0..files {
        write(folder, CHECKPOINTS[number % CHECKPOINTS.len()]);
        let (part, most) = PARTS[rng.next_u64() as usize % PARTS.len()];
        let whole = fs::read(folder.join(part)).unwrap();
        let spoilt = if part.ends_with(".json") && !rng.next_u64().is_multiple_of(4) {
            change(&whole, &mut rng)
        } else {
            damage(&whole, most, &mut rng)
        };
        fs::write(folder.join(part), spoilt).unwrap();
        outcomes.count(part, read(folder));
        memory.check(part);
    }
    outcomes.check(files);
}

/// The same in a process of its own, in which no other test needs memory.
#[cfg(target_os = "linux")]
#[test]
fn damaged_folders_take_little_memory() {
    measured("damaged_checkpoints::damaged_folders_are_refused_or_read");
}

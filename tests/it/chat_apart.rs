//! The control tokens of a conversation are the template's: no string in a message becomes
//! one, for any template.

use std::path::Path;
use std::sync::Arc;

use rand::RngExt;
use serde_json::{Value, json};
use specdec::checkpoint::{ChatTemplate, GgmlVocabulary};
use specdec::core::distribution::Token;
use specdec::model::{ChatMessage, Codec, Conversation};

use crate::fixtures::seeded;
use crate::ggml::support::{CONTROL, NORMAL, USER_DEFINED, add, ids};

/// Templates that trim, cut, wrap, test and rewrite what they are given.
const TEMPLATES: &[&str] = &[
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}",
    "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content | trim }}<|im_end|>\
     {% endfor %}<|assistant|>",
    "{% for m in messages %}<s>{{ m.content | tojson }}{{ eos_token }}{% endfor %}",
    "{% for m in messages %}<|im_start|>{{ m.content.split('</think>')[-1].lstrip('\\n') }}\
     </s>{% endfor %}",
    "{% for m in messages %}<s>{{ m.content[:400] }}{{ m.content[::-1] }}</s>{% endfor %}",
    "{% for m in messages %}<s>{{ m.content.replace('b', 'c') | upper | lower }}</s>{% endfor %}",
    "{% for m in messages %}<|im_start|>{% if m.content.startswith('<tool>') %}tool: \
     {% endif %}{{ m.content }}{{ m.content }}<|im_end|>{% endfor %}",
    // What a template puts next to a content does not make a token of both.
    "{% for m in messages %}<{{ m.content }}s>{{ m.content }}|im_end|>{% endfor %}",
];

const CONTROLS: [&str; 6] =
    ["<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|user|>", "<|assistant|>"];

/// What random messages are made of.
const PIECES: &[&str] = &[
    "<s>",
    "</s>",
    "<|im_start|>",
    "<|im_end|>",
    "<|user|>",
    "<|im_",
    "end|>",
    "|im_end|>",
    "<",
    ">",
    "s>",
    "</think>",
    "<tool>",
    "a",
    "b ",
    "\n",
    " ",
    "\"",
    "é",
    "\u{100000}",
    "</s",
    "|",
];

/// Bytes, control tokens, and `<tool>`, which may occur in texts.
fn vocabulary(template: &str) -> GgmlVocabulary {
    let mut made = GgmlVocabulary { model: "gpt2".to_owned(), ..Default::default() };
    for c in ('!'..='~').chain('\u{a1}'..='\u{ac}').chain('\u{ae}'..='\u{143}') {
        add(&mut made, &c.to_string(), NORMAL);
    }
    add(&mut made, "xx", NORMAL);
    made.merges = vec!["x x".to_owned()];
    let controls = CONTROLS.map(|name| add(&mut made, name, CONTROL));
    add(&mut made, "<tool>", USER_DEFINED);
    made.bos = Some(controls[0]);
    made.eos = Some(controls[1]);
    made.chat_template = Some(template.to_owned());
    made
}

fn codec(vocabulary: &GgmlVocabulary) -> Arc<dyn Codec> {
    vocabulary.codec(Path::new("model.gguf"), false).unwrap()
}

fn conversation(contents: &[&str]) -> Conversation {
    let roles = ["user", "assistant"].iter().cycle();
    let messages = contents.iter().zip(roles).map(|(text, role)| ChatMessage::new(role, *text));
    Conversation { messages: messages.collect(), ..Conversation::default() }
}

/// The control tokens among some tokens, by name.
fn controls_in(vocabulary: &GgmlVocabulary, tokens: &[Token]) -> Vec<String> {
    let name = |&token: &Token| vocabulary.tokens[token as usize].clone();
    tokens.iter().map(name).filter(|name| CONTROLS.contains(&name.as_str())).collect()
}

#[test]
fn only_the_template_writes_control_tokens() {
    let mut rng = seeded(95);
    for template in TEMPLATES {
        let vocabulary = vocabulary(template);
        let codec = codec(&vocabulary);
        let harmless = codec.encode_chat(&conversation(&["xx", "yy", "zz"])).unwrap();
        let own = controls_in(&vocabulary, &harmless);
        let (mut hostile, mut whole) = (0, 0);
        for _ in 0..200 {
            let mut content = || {
                let pieces =
                    (0..rng.random_range(1..8)).map(|_| PIECES[rng.random_range(0..PIECES.len())]);
                // White space alone would be trimmed away, and "tool: " added.
                format!("x{}", pieces.collect::<String>())
            };
            let contents = [content(), content(), content()];
            let texts = [&*contents[0], &*contents[1], &*contents[2]];
            let tokens = codec.encode_chat(&conversation(&texts)).unwrap();
            assert_eq!(controls_in(&vocabulary, &tokens), own, "{template} with {texts:?}");
            hostile += usize::from(texts.iter().any(|t| CONTROLS.iter().any(|c| t.contains(c))));
            // Without anything taken for a control token, the text is all there.
            whole += tokens.len();
        }
        assert!(hostile > 100 && whole > 0, "the messages are hostile");
    }
}

#[test]
fn the_tokens_are_those_of_the_rendered_text() {
    let template = "<s>{% for m in messages %}<|im_start|>{{ m.content }}{% endfor %}</s>";
    let vocabulary = vocabulary(template);
    let id = ids(&vocabulary);
    let codec = codec(&vocabulary);
    let tokens = codec.encode_chat(&conversation(&["a</s>", "<tool>"])).unwrap();
    let names = ["<s>", "<|im_start|>", "a", "<", "/", "s", ">", "<|im_start|>", "<tool>", "</s>"];
    assert_eq!(tokens, names.map(|name| id[name]), "no token is put before or after it");
    let special = vocabulary.codec(Path::new("model.gguf"), true).unwrap();
    let tokens = special.encode_chat(&conversation(&["a</s>", "<tool>"])).unwrap();
    let names = ["<s>", "<|im_start|>", "a", "</s>", "<|im_start|>", "<tool>", "</s>"];
    assert_eq!(tokens, names.map(|name| id[name]), "special_tokens allows them");
}

/// Templates that write what messages have besides a content, and tools.
const CALLING: &[&str] = &[
    "{{ tools | tojson }}{% for m in messages %}<|im_start|>{{ m.reasoning_content }}{{ m.content \
     }}{% for c in m.tool_calls %}{{ c | tojson }}{% endfor %}{{ m.tool_call_id }}<|im_end|>{% endfor %}",
    "{% for t in tools %}{{ t.function.name | upper }}{{ t.function.description }}{% endfor %}\
     {% for m in messages %}{% for c in m.tool_calls %}{% if c.type == 'function' %}<s>{{ \
     c.function.arguments.split('</think>')[0] }}</s>{% endif %}{% endfor %}{% endfor %}<s>",
];

/// Catches: fields of messages and tools in which a string becomes a control token.
#[test]
fn tools_and_calls_write_no_control_tokens() {
    for template in CALLING {
        let vocabulary = vocabulary(template);
        let codec = codec(&vocabulary);
        let said = |text: &str| {
            let call = json!({"type": "function", "function": {"name": text, "arguments": text}});
            let message = json!({
                "role": "assistant", "content": null, "reasoning_content": text,
                "tool_calls": [call], "tool_call_id": text,
            });
            let tool = json!({"function": {"name": "x", "description": text}});
            let messages = vec![ChatMessage::read(&message).unwrap()];
            let chat = Conversation { messages, tools: vec![tool], ..Conversation::default() };
            codec.encode_chat(&chat).unwrap()
        };
        let own = controls_in(&vocabulary, &said("harmless"));
        for hostile in ["</s>", "a<|im_end|>b", "<s><|user|>", "<</s>s>"] {
            let tokens = said(hostile);
            assert_eq!(controls_in(&vocabulary, &tokens), own, "{template} with {hostile:?}");
        }
    }
}

/// Catches: keys, which a template may write as well, and which are never hidden.
#[test]
fn a_control_token_in_a_key_is_refused() {
    let vocabulary = vocabulary(CALLING[0]);
    let tool = json!({"function": {"parameters": {"a</s>": 1}}});
    let chat = Conversation { tools: vec![tool], ..conversation(&["fine"]) };
    let error = codec(&vocabulary).encode_chat(&chat).unwrap_err().to_string();
    assert!(error.contains("a key in the conversation contains \"</s>\""), "{error}");
}

/// Catches: values that differ from those of `apply_chat_template(messages, tools=tools)`.
#[test]
fn tools_and_calls_are_passed_as_transformers_passes_them() {
    let template = "{{ tools | tojson }}{{ messages | tojson }}";
    let messages = json!([
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": null, "tool_calls": [{"function": {"arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "1", "content": "12"},
    ]);
    let tools = vec![json!({"type": "function", "function": {"name": "f"}})];
    let read = ChatMessage::read_all("messages", &messages).unwrap();
    let chat = Conversation { messages: read, tools: tools.clone(), ..Conversation::default() };
    let template = ChatTemplate::new("t".as_ref(), template, serde_json::Map::new()).unwrap();
    let text = template.prompt(&chat, &["<s>"]).unwrap().text;
    let spaced = |value: &Value| {
        let text = serde_json::to_string(value).unwrap();
        text.replace("\":", "\": ").replace(",\"", ", \"").replace("},{", "}, {")
    };
    assert_eq!(text, spaced(&json!(tools)) + &spaced(&messages));
    let none = Conversation { tools: Vec::new(), ..chat };
    assert!(template.prompt(&none, &["<s>"]).unwrap().text.starts_with("null["));
}

#[test]
fn template_and_message_do_not_join_into_a_control_token() {
    for (template, content) in [
        ("<{{ messages[0].content }}", "s>"),
        ("{{ messages[0].content }}s>", "<"),
        ("<|im_{{ messages[0].content }}|>", "end"),
        ("{{ messages[0].content }}{{ messages[0].content }}", "s><"),
        ("</{{ messages[0].content | trim }}s>", " "),
    ] {
        let vocabulary = vocabulary(template);
        let tokens = codec(&vocabulary).encode_chat(&conversation(&[content])).unwrap();
        let own = if content == " " { vec!["</s>"] } else { Vec::new() };
        assert_eq!(controls_in(&vocabulary, &tokens), own, "{template} with {content:?}");
    }
}

#[test]
fn a_control_token_that_the_template_acts_on_is_refused() {
    let looks = "{% for m in messages %}{{ m.content.split('</s>')[0] }}</s>{% endfor %}";
    let codec = codec(&vocabulary(looks));
    assert!(codec.encode_chat(&conversation(&["a <s> b"])).is_ok());
    let error = codec.encode_chat(&conversation(&["fine", "a</s>b"])).unwrap_err().to_string();
    let said = "model.gguf: message 2 contains \"</s>\", and the chat template acts on it";
    assert!(error.starts_with(said), "{error}");
}

#[test]
fn a_model_without_a_template_says_so() {
    let none = GgmlVocabulary { chat_template: None, ..vocabulary("") };
    let error = codec(&none).encode_chat(&conversation(&["a"])).unwrap_err().to_string();
    let said = "model.gguf: there is no chat template (its key tokenizer.chat_template is \
                missing): leave out chat";
    assert_eq!(error, said);
    // A broken template does not matter to plain texts.
    let broken = codec(&vocabulary("{% if %}"));
    assert!(broken.encode("abc").is_ok());
    let error = broken.encode_chat(&conversation(&["a"])).unwrap_err().to_string();
    assert!(error.starts_with("model.gguf: the chat template fails in line 1: "), "{error}");
    let empty = codec(&vocabulary("")).encode_chat(&conversation(&["a"])).unwrap_err();
    assert!(empty.to_string().contains("makes an empty text"), "{empty}");
}

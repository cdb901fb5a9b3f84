//! How byte-level BPE splits a text into words, by the names that files give it in
//! `tokenizer.ggml.pre`.
//!
//! The patterns are those of the models' own tokenizers. llama.cpp writes some of them
//! differently, because its regular expressions know fewer classes of characters.

use super::names::cut;
use crate::core::registry::UnknownName;

/// A way to split a text into words.
#[derive(Debug)]
pub(super) struct PreTokenizer {
    /// Regular expressions. Each splits what the one before has left; what matches is a
    /// word, and so is what lies between two matches.
    pub(super) patterns: &'static [&'static str],
    /// Whether a word that is a token is never put together by merges.
    pub(super) whole_words: bool,
    /// Whether a text begins with a token of its own, unless the file says otherwise.
    pub(super) begins: bool,
}

/// The names. Files without any get `default`.
pub(super) const NAMES: &[(&str, &PreTokenizer)] = &[
    ("default", &DEFAULT),
    ("gpt-2", &GPT_2),
    ("phi-2", &GPT_2),
    ("olmo", &GPT_2),
    ("mpt", &GPT_2),
    ("jais", &GPT_2),
    ("trillion", &GPT_2),
    ("exaone4", &GPT_2),
    ("gigachat", &GPT_2),
    ("a.x-4.0", &GPT_2),
    ("mellum", &GPT_2),
    ("granite-docling", &GPT_2),
    ("smollm", &DIGITS),
    ("starcoder", &DIGITS),
    ("refact", &DIGITS),
    ("command-r", &DIGITS),
    ("codeshell", &DIGITS),
    ("exaone", &DIGITS),
    ("minerva-7b", &DIGITS),
    ("mellum2", &DIGITS),
    ("llama-bpe", &LLAMA_3),
    ("llama3", &LLAMA_3),
    ("llama-v3", &LLAMA_3),
    ("falcon3", &LLAMA_3),
    ("falcon-h1", &LLAMA_3),
    ("pixtral", &LLAMA_3),
    ("lfm2", &LLAMA_3),
    ("midm-2.0", &LLAMA_3),
    ("dbrx", &CL100K),
    ("smaug-bpe", &CL100K),
    ("qwen2", &QWEN_2),
    ("deepseek-r1-qwen", &QWEN_2),
    ("megrez", &QWEN_2),
    ("stablelm2", &QWEN_2),
    ("hunyuan", &QWEN_2),
    ("solar-open", &QWEN_2),
    ("grok-2", &QWEN_2),
    ("kormo", &QWEN_2),
    ("qwen35", &QWEN_3_5),
    ("ufakzeka", &NO_CONTRACTIONS),
    ("seed-coder", &SEED_CODER),
    ("tekken", &TEKKEN),
    ("gpt-4o", &GPT_4O),
    ("llama4", &GPT_4O),
    ("kanana2", &GPT_4O),
    ("minimax-m2", &GPT_4O),
    ("falcon", &FALCON),
    ("deepseek-llm", &DEEPSEEK_LLM),
    ("deepseek-coder", &DEEPSEEK_CODER),
    ("deepseek-v3", &DEEPSEEK_3),
    ("hunyuan-dense", &DEEPSEEK_3),
    ("joyai-llm", &DEEPSEEK_3),
    ("bloom", &BLOOM),
    ("poro-chat", &BLOOM),
    ("gpt3-finnish", &BLOOM),
    ("viking", &VIKING),
];

/// The pre-tokenizer with this name.
///
/// # Errors
/// If none has it; the error lists all names.
pub(super) fn named(name: &str) -> Result<&'static PreTokenizer, String> {
    let known = NAMES.iter().find(|(known, _)| *known == name);
    known.map(|(_, pre)| *pre).ok_or_else(|| {
        let names = NAMES.iter().map(|(known, _)| *known);
        UnknownName::new("tokenizer.ggml.pre", &cut(name), names).to_string()
    })
}

const fn splitting(patterns: &'static [&'static str]) -> PreTokenizer {
    PreTokenizer { patterns, whole_words: false, begins: false }
}

static GPT_2: PreTokenizer = splitting(&[WORDS]);
static DIGITS: PreTokenizer = splitting(&[r"\p{N}", WORDS]);
static CL100K: PreTokenizer = splitting(&[THREE_DIGITS]);
static LLAMA_3: PreTokenizer =
    PreTokenizer { patterns: &[THREE_DIGITS], whole_words: true, begins: true };
static QWEN_2: PreTokenizer = splitting(&[
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
]);
static QWEN_3_5: PreTokenizer = splitting(&[
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
]);
static NO_CONTRACTIONS: PreTokenizer = splitting(&[
    r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
]);
static SEED_CODER: PreTokenizer = splitting(&[
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+",
]);
static TEKKEN: PreTokenizer = PreTokenizer {
    patterns: &[
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ],
    whole_words: true,
    begins: true,
};
static GPT_4O: PreTokenizer = splitting(&[
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
]);
static DEFAULT: PreTokenizer =
    splitting(&[r"[\p{P}\$\+<=>\^~\|]+", WORDS, r"\p{N}+", "[0-9][0-9][0-9]"]);
static FALCON: PreTokenizer = splitting(&[r"[\p{P}\$\+<=>\^~\|`]+", WORDS, "[0-9][0-9][0-9]"]);
static DEEPSEEK_LLM: PreTokenizer = splitting(&[
    r"[\r\n]",
    DEEPSEEK_LETTERS,
    DEEPSEEK_PUNCTUATION,
    r"\s+$",
    DEEPSEEK_ASIAN,
    r"\p{N}+",
]);
static DEEPSEEK_CODER: PreTokenizer =
    splitting(&[r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", DEEPSEEK_ASIAN, r"\p{N}"]);
static DEEPSEEK_3: PreTokenizer = splitting(&[
    r"\p{N}{1,3}",
    "[\u{4E00}-\u{9FA5}\u{3040}-\u{309F}\u{30A0}-\u{30FF}]+",
    r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##,
]);
static BLOOM: PreTokenizer = splitting(&[SENTENCES]);
static VIKING: PreTokenizer = splitting(&[SENTENCES, r"\p{N}"]);

/// That of GPT-2.
const WORDS: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
/// That of GPT-4, `cl100k_base`.
const THREE_DIGITS: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// That of BLOOM.
const SENTENCES: &str = " ?[^(\\s|.,!?…。，、।۔،)]+";
/// Letters of scripts with upper and lower case.
const DEEPSEEK_LETTERS: &str = r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+";
const DEEPSEEK_PUNCTUATION: &str =
    "\\s?[!-/:-~\u{FF01}-\u{FF0F}\u{FF1A}-\u{FF5E}\u{2018}-\u{201F}\u{3000}-\u{3002}]+";
/// Han characters, then everything from Samaritan to them, then Hangul.
const DEEPSEEK_ASIAN: &str = "[\u{4E00}-\u{9FA5}\u{800}-\u{4E00}\u{AC00}-\u{D7FF}]+";

//! Options that several commands share.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::core::distribution::Token;
use crate::core::params::Value;
use crate::engine::{Dtype, Engine, Settings};
use crate::io::input::{read_any_text, read_text_from};
use crate::io::terminal;
use crate::model::{CacheDtype, ChatDate, ChatMessage, Codec, Conversation, Role, Vocabulary};

/// Parses a count. Replaces clap's message, which only says that a digit is invalid.
pub(super) fn count(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "allowed is a whole number >= 0".to_owned())
}

pub(super) fn setting(text: &str) -> Result<(String, Value), String> {
    let (key, value) = text.split_once('=').ok_or("allowed is KEY=VALUE")?;
    let Ok(value) = value.parse();
    Ok((key.to_owned(), value))
}

/// A path as a word of a command. One that begins with a dash would be an option.
pub(super) fn word(path: &Path) -> Result<String> {
    let text = path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))?;
    Ok(if text.starts_with('-') { format!("./{text}") } else { text.to_owned() })
}

/// The models of an experiment file that a command writes.
#[derive(Debug, Args)]
pub(super) struct WrittenPair {
    /// Target model, named as in experiments
    #[arg(long, value_name = "NAME|PATH", default_value = "embedded-target")]
    pub(super) target: String,
    /// Draft model [default: embedded-draft for embedded-target, else none]
    #[arg(long, value_name = "NAME|PATH")]
    draft: Option<String>,
}

impl WrittenPair {
    pub(super) fn draft(&self) -> Option<&str> {
        let embedded = self.target == "embedded-target";
        self.draft.as_deref().or(embedded.then_some("embedded-draft"))
    }
}

/// The models and how they are loaded.
#[derive(Debug, Args)]
#[command(next_help_heading = "Models")]
pub(super) struct ModelArgs {
    /// Target model: a name from configs/models.toml, a Hugging Face folder, owner/name in the
    /// Hugging Face cache, or toy:NAME
    ///
    /// Defaults to the target of the embedded pair. `specdec models` shows the names, `specdec
    /// list` the toy models; toy:FILE.json reads your own table.
    #[arg(long, value_name = "NAME|PATH")]
    pub target: Option<String>,
    /// Draft model, named like a target; must share the target's vocabulary, unless --vocabulary
    /// says otherwise
    ///
    /// Defaults to the embedded draft for the embedded target, and to the draft of the same
    /// table for toy:NAME. For any other target, drafters that need a model need this option.
    #[arg(long, value_name = "NAME|PATH")]
    pub draft: Option<String>,
    /// The draft model's vocabulary: the same as the target's, a prefix of it or the reverse, or
    /// the intersection of both
    #[arg(
        long,
        value_name = "NAME",
        default_value = Vocabulary::Same.name(),
        value_parser = named(Vocabulary::ALL, Vocabulary::name)
    )]
    pub vocabulary: Vocabulary,
    /// Inference engine: native (row-invariant, CPU only) or candle
    /// [default: native on the CPU, else candle]
    #[arg(long, value_name = "NAME", value_parser = named(Engine::ALL, Engine::name))]
    engine: Option<Engine>,
    /// Data type of the models' weights in memory [default: stored for GGUF files and
    /// quantised folders on the native engine, else f32]
    #[arg(long, value_name = "TYPE", value_parser = named(Dtype::ALL, Dtype::name))]
    dtype: Option<Dtype>,
    /// Data type of the draft model's weights [default: the target's]
    #[arg(long, value_name = "TYPE", value_parser = named(Dtype::ALL, Dtype::name))]
    draft_dtype: Option<Dtype>,
    /// Device of the models: cpu, cuda:N or metal [default: cpu]
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// Do not cache keys and values: every pass recomputes the whole sequence
    #[arg(long)]
    pub no_kv_cache: bool,
    /// Data type of keys and values; any type but f32 changes the model's distributions
    #[arg(long, value_name = "TYPE", value_parser = named(CacheDtype::ALL, CacheDtype::name))]
    kv_cache_dtype: Option<CacheDtype>,
    /// Worker threads [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: Option<u16>,
}

impl ModelArgs {
    /// The settings with which the model of a role is loaded.
    pub(super) fn settings(&self, role: Role) -> Settings {
        let (engine, dtype, device) = (self.engine, self.dtype, self.device.clone());
        let (without_cache, kv_cache_dtype) = (self.no_kv_cache, self.kv_cache_dtype);
        let settings = Settings { engine, dtype, device, ..Settings::default() };
        Settings { without_cache, kv_cache_dtype, ..settings }.of(role, self.draft_dtype)
    }
}

/// A parser that accepts the name of one of the values `all`.
pub(super) fn named<T: Copy + Send + Sync + 'static, const N: usize>(
    all: [T; N],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(all.map(name))
        .map(move |found| *all.iter().find(|&&value| name(value) == found).unwrap_or(&all[0]))
}

/// The source of the prompt and how it is encoded.
#[derive(Debug, Args)]
#[command(next_help_heading = "Prompt")]
pub(super) struct PromptArgs {
    /// The prompt, taken literally
    ///
    /// If neither PROMPT nor --prompt nor --prompt-file is given, the prompt is read from
    /// standard input; one trailing newline is removed.
    #[arg(value_name = "PROMPT", conflicts_with_all = ["prompt", "prompt_file"])]
    text: Option<String>,
    /// The prompt as an option; write --prompt=TEXT if it begins with a hyphen
    #[arg(long, value_name = "TEXT", conflicts_with = "prompt_file")]
    prompt: Option<String>,
    /// Read the prompt from a file; one trailing newline is removed
    #[arg(long, value_name = "FILE")]
    prompt_file: Option<PathBuf>,
    /// Encode names of control tokens in the prompt, such as </s>, as these tokens; without this
    /// option they are ordinary text
    #[arg(long)]
    pub special_tokens: bool,
    /// Treat the prompt as a user message and format it with the target's chat template
    #[arg(long)]
    pub chat: bool,
    /// System message before the prompt
    #[arg(long, value_name = "TEXT", requires = "chat")]
    pub system: Option<String>,
    /// Date for chat templates that include one, YYYY-MM-DD [default: today]
    #[arg(long, value_name = "DATE", requires = "chat")]
    chat_date: Option<ChatDate>,
}

impl PromptArgs {
    /// Reads the prompt.
    ///
    /// # Errors
    /// If there is no prompt, or it cannot be read or is not UTF-8.
    pub(super) fn read(&self) -> Result<String> {
        Ok(match (self.text.as_ref().or(self.prompt.as_ref()), &self.prompt_file) {
            (Some(text), _) => text.clone(),
            (None, Some(file)) => {
                without_newline(read_any_text(file).context("cannot read the prompt file")?)
            }
            (None, None) => {
                let stdin = std::io::stdin();
                if stdin.is_terminal() {
                    bail!(
                        "there is no prompt: give it in quotes, with --prompt-file FILE, or on \
                         standard input"
                    );
                }
                let text = read_text_from(stdin, "standard input".as_ref());
                without_newline(text.context("cannot read the prompt")?)
            }
        })
    }

    /// Encodes the prompt. Prints a note if a string in it could be meant as a control token.
    ///
    /// # Errors
    /// If the codec cannot encode the text, or the model has no suitable chat template.
    pub(super) fn encode(&self, text: &str, codec: &dyn Codec) -> Result<Vec<Token>> {
        if let Some(string) = codec.control_string(text) {
            terminal::say(format_args!(
                "note: {string:?} in the prompt is encoded as text; --special-tokens encodes it \
                 as a control token"
            ));
        }
        if !self.chat {
            return Ok(codec.encode(text)?);
        }
        let system = self.system.iter().map(|text| ChatMessage::new("system", text));
        let messages = system.chain([ChatMessage::new("user", text)]).collect();
        let today = self.chat_date.unwrap_or_else(today);
        let conversation = Conversation { messages, today: Some(today), ..Conversation::default() };
        Ok(codec.encode_chat(&conversation)?)
    }
}

/// The day by the system's clock, in UTC.
fn today() -> ChatDate {
    const SECONDS: u64 = 24 * 60 * 60;
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    ChatDate::from_days(u32::try_from(since.as_secs() / SECONDS).unwrap_or_default())
}

/// Removes the trailing newline that editors and `echo` add.
fn without_newline(mut text: String) -> String {
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    text
}

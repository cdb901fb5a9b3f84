//! Options that several commands share, and what is made of them.

use std::io::IsTerminal;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::distribution::Token;
use crate::input::{read_any_text, read_text_from};
use crate::model::{Codec, Dtype, Engine, Role, Settings};
use crate::terminal;

/// Reads a count; clap's own message for a wrong one speaks of digits.
pub(super) fn count(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "allowed is a whole number >= 0".to_owned())
}

/// Which models.
#[derive(Debug, Args)]
#[command(next_help_heading = "Models")]
pub(super) struct ModelArgs {
    /// Target model: a name from configs/models.toml, a Hugging Face folder, or toy:NAME
    ///
    /// Without it the pair that ships with the project is used. Toy models are listed by
    /// `specdec list`; toy:FILE.json reads a table of your own.
    #[arg(long, value_name = "NAME|PATH")]
    pub target: Option<String>,
    /// Draft model, spelled like the target; must share the target's vocabulary
    ///
    /// Without it the embedded target is paired with the embedded draft and toy:X
    /// with its own draft; for other targets a drafter that needs a model needs this
    /// option.
    #[arg(long, value_name = "NAME|PATH")]
    pub draft: Option<String>,
    /// Which code computes the logits: native (row-invariant, on the CPU) or candle
    /// [default: native on the CPU, else candle]
    #[arg(long, value_name = "NAME", value_parser = named(Engine::ALL, Engine::name))]
    engine: Option<Engine>,
    /// How the models' weights are stored in memory [default: f32]
    #[arg(long, value_name = "TYPE", value_parser = named(Dtype::ALL, Dtype::name))]
    dtype: Option<Dtype>,
    /// The same for the draft model alone [default: the target's]
    #[arg(long, value_name = "TYPE", value_parser = named(Dtype::ALL, Dtype::name))]
    draft_dtype: Option<Dtype>,
    /// Where the models are: cpu, cuda:N or metal [default: cpu]
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// Worker threads [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: Option<u16>,
}

impl ModelArgs {
    /// How a model is to be held.
    pub(super) fn settings(&self, role: Role) -> Settings {
        let (engine, dtype, device) = (self.engine, self.dtype, self.device.clone());
        Settings { engine, dtype, device, ..Settings::default() }.of(role, self.draft_dtype)
    }
}

/// Reads one of some names.
fn named<T: Copy + Send + Sync + 'static, const N: usize>(
    all: [T; N],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(all.map(name))
        .map(move |found| *all.iter().find(|&&value| name(value) == found).unwrap_or(&all[0]))
}

/// Where the prompt comes from.
#[derive(Debug, Args)]
#[command(next_help_heading = "Prompt")]
pub(super) struct PromptArgs {
    /// The text to continue, taken literally
    ///
    /// Without it, --prompt and --prompt-file the prompt is read from standard input,
    /// without a newline at its end.
    #[arg(value_name = "PROMPT", conflicts_with_all = ["prompt", "prompt_file"])]
    text: Option<String>,
    /// The same as an option; --prompt=TEXT where the text begins with a hyphen
    #[arg(long, value_name = "TEXT", conflicts_with = "prompt_file")]
    prompt: Option<String>,
    /// Read the prompt from a file; one newline at its end is left out
    #[arg(long, value_name = "FILE")]
    prompt_file: Option<PathBuf>,
    /// Take strings in the prompt that name control tokens, such as </s>, for these
    /// tokens; without it they are text like any other
    #[arg(long)]
    pub special_tokens: bool,
}

impl PromptArgs {
    /// The prompt.
    ///
    /// # Errors
    /// If it cannot be read or is no UTF-8.
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
                        "there is no prompt: give it in quotes, with --prompt-file FILE, or pipe it in"
                    );
                }
                let text = read_text_from(stdin, "standard input".as_ref());
                without_newline(text.context("cannot read the prompt")?)
            }
        })
    }

    /// The prompt's tokens; says so if a string in it could be meant as a token.
    ///
    /// # Errors
    /// If it has none.
    pub(super) fn encode(&self, text: &str, codec: &dyn Codec) -> Result<Vec<Token>> {
        if let Some(string) = codec.control_string(text) {
            terminal::say(format_args!(
                "note: {string:?} in the prompt is taken as text; --special-tokens takes it as a \
                 token"
            ));
        }
        Ok(codec.encode(text)?)
    }
}

/// Editors and `echo` end every text with a newline that nobody means.
fn without_newline(mut text: String) -> String {
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    text
}

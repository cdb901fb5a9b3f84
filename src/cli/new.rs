//! `specdec new`: writes an experiment.toml to begin with.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;

use super::options::WrittenPair;
use super::output;
use crate::io::output::{cannot_write, write_whole};
use crate::run::experiment::Experiment;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  specdec new my-pair --target models/big --draft models/small --prompts my-prompts.jsonl
  specdec new lookup --target model.gguf
  specdec run my-pair

Writes NAME/experiment.toml, which runs as it is and explains its keys. docs/experiment-keys.md
describes all keys.")]
pub(super) struct NewArgs {
    /// The folder of the experiment; it must not hold an experiment.toml
    #[arg(value_name = "NAME")]
    folder: PathBuf,
    #[command(flatten)]
    models: WrittenPair,
    /// Prompts: a set or a file; repeatable [default: code, docs]
    #[arg(long, value_name = "NAME|FILE")]
    prompts: Vec<String>,
}

pub(super) fn run(args: &NewArgs) -> Result<()> {
    let file = args.folder.join("experiment.toml");
    if file.exists() {
        bail!("{} exists already: choose another name", file.display());
    }
    if args.models.target.starts_with("toy:") && args.prompts.is_empty() {
        bail!(
            "--prompts is missing: a toy model knows a few letters only, and the prompts that are \
             used by default have others; a line such as {{\"prompt\": \"ab\"}} in a file is enough"
        );
    }
    fs::create_dir_all(&args.folder).with_context(|| cannot_write(&file))?;
    write_whole(&file, args.text().as_bytes())?;
    Experiment::read(&args.folder, &[])?;
    output::line(file.display())
}

impl NewArgs {
    fn text(&self) -> String {
        let prompts = match self.prompts.as_slice() {
            [] => vec![quoted("code"), quoted("docs")],
            named => named.iter().map(|name| quoted(name)).collect(),
        };
        let (draft, drafters) = match self.models.draft() {
            Some(draft) => (format!("draft = {}\n", quoted(draft)), "\"model\", \"prompt_lookup\""),
            None => (
                "# A draft model adds the drafter \"model\" to the sweep:\n# draft = \"…\"\n"
                    .to_owned(),
                "\"prompt_lookup\", \"suffix\"",
            ),
        };
        format!(
            "question = \"How much faster is speculative decoding with these models here?\"\n\
             target = {target}\n\
             {draft}\
             # Type of the weights in memory: f32, bf16, f16, q8_0, or stored (the default for GGUF\n\
             # files and quantised folders). A smaller type makes plain and speculative decoding\n\
             # faster.\n\
             # dtype = \"bf16\"\n\
             # Sets by name, and files by their path from the folder in which you start specdec.\n\
             prompts = [{prompts}]\n\
             # Conversations, by the target's chat template:\n\
             # chat = true\n\
             # At least 8 prompts give intervals; use 16 or more.\n\
             # prompts_limit = 24\n\
             max_tokens = 64\n\
             repeats = 1\n\
             # The same seed gives the same texts.\n\
             seed = 1\n\n\
             # Every combination of these values is measured against plain decoding.\n\
             [sweep]\n\
             drafter = [{drafters}]\n\
             verifier = \"rejection\"\n\
             num_speculative_tokens = [2, 4, 6]\n\
             # 0 is greedy decoding.\n\
             temperature = [0, 0.7, 1]\n\
             top_p = 1.0\n",
            target = quoted(&self.models.target),
            prompts = prompts.join(", "),
        )
    }
}

/// A string as TOML writes it.
fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

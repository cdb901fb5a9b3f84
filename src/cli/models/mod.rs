//! `specdec models`, and the models that other commands load.

mod find_taps;
mod listing;
mod pair;

use std::path::Path;

use anyhow::{Result, bail};
use clap::Args;

pub(super) use self::pair::{
    PairNames, draft_is_head, open_draft, open_pair, say_note, start_threads,
};
use crate::checkpoint::Catalog;
use crate::cli::some_prompts::SomePrompts;

/// Options of `specdec models`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  specdec models
  specdec models --find-taps heads/my-eagle3 --target my-model
  specdec models --json | jq -r '.models[] | select(.error == null) | .name'

A model's name is from configs/models.toml, or that of its repository in the Hugging Face cache
(HF_HUB_CACHE, HF_HOME/hub, or ~/.cache/huggingface/hub): owner/name, owner/name@revision,
owner/name:file.gguf or owner/name:Q4_K_M. docs/models.md describes them. Nothing is downloaded:
hf download owner/name, of the hub's own tools, fills the cache.
Models with the same tokenizer, shown by its fingerprint, can draft for each other. Others can
with --vocabulary prefix or intersection.
Only headers and tokenizers are read. For a model that cannot be loaded, the reason is shown.")]
pub(super) struct ModelsArgs {
    /// Print one JSON object
    #[arg(long, conflicts_with = "find_taps")]
    json: bool,
    /// Measure which hidden states of the target this head was trained with, and which feedback
    #[arg(long, value_name = "HEAD", requires = "target")]
    find_taps: Option<String>,
    /// The target of the head
    #[arg(long, value_name = "NAME|PATH", requires = "find_taps")]
    target: Option<String>,
    #[command(flatten)]
    prompts: SomePrompts,
}

/// Runs the command.
pub(super) fn run(args: &ModelsArgs) -> Result<()> {
    if let (Some(head), Some(target)) = (&args.find_taps, &args.target) {
        return find_taps::print(head, target, &args.prompts);
    }
    if args.prompts.are_named() {
        bail!("--prompts is for --find-taps: give both");
    }
    listing::print(&Catalog::near(Path::new(".")), args.json)
}

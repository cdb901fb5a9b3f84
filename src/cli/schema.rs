//! `specdec schema`.

use anyhow::Result;

use super::output;
use crate::run::experiment::reference::{page, schema};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  specdec schema > experiment.schema.json
  specdec schema --markdown > docs/experiment-keys.md

Editors with TOML support read the schema from the first line of an experiment:
  #:schema experiment.schema.json")]
pub(super) struct SchemaArgs {
    /// Print the reference page instead of the JSON Schema
    #[arg(long)]
    markdown: bool,
}

pub(super) fn run(args: &SchemaArgs) -> Result<()> {
    let text = if args.markdown { page() } else { serde_json::to_string_pretty(&schema())? + "\n" };
    output::write(&text)
}

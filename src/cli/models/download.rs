//! `specdec models download`.

use anyhow::{Result, anyhow};

use crate::cli::output;
use crate::model::{HubName, Source};

/// Options of `specdec models download`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  specdec models download Qwen/Qwen2.5-0.5B-Instruct
  specdec models download Qwen/Qwen2.5-0.5B-Instruct-GGUF:Q4_K_M

Files of the newest commit in the Hugging Face cache are kept, and an interrupted download is
continued. HF_TOKEN, HF_ENDPOINT, HF_HOME, HF_HUB_CACHE and HF_HUB_OFFLINE have their usual meaning.
The path of the model is printed to standard output. Requires a build with --features hub.")]
pub(super) struct DownloadArgs {
    /// owner/name, owner/name@revision, owner/name:file.gguf or owner/name:Q4_K_M
    #[arg(value_name = "NAME")]
    name: String,
}

/// Downloads a model and prints its path.
pub(super) fn run(args: &DownloadArgs) -> Result<()> {
    let name = HubName::parse(&args.name)?;
    let name = name.ok_or_else(|| {
        anyhow!("\"{}\" is not the name of a repository: allowed is owner/name", args.name)
    })?;
    output::line(fetch(&name)?.path)
}

#[cfg(feature = "hub")]
fn fetch(name: &HubName) -> Result<Source> {
    Ok(crate::model::download(name)?)
}

#[cfg(not(feature = "hub"))]
fn fetch(name: &HubName) -> Result<Source> {
    anyhow::bail!(
        "this program was built without downloads: build it with --features hub, or run `{}`",
        name.command()
    )
}

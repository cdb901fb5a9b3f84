//! `specdec completions`.

/// Options of `specdec completions`.
#[derive(Debug, clap::Args)]
pub(super) struct CompletionsArgs {}

/// Runs the command.
pub(super) fn run(_args: &CompletionsArgs) -> anyhow::Result<()> {
    Ok(())
}

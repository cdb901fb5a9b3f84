//! `specdec list`.

/// Options of `specdec list`.
#[derive(Debug, clap::Args)]
pub(super) struct ListArgs {}

/// Runs the command.
pub(super) fn run(_args: &ListArgs) -> anyhow::Result<()> {
    Ok(())
}

//! `specdec generate`.

/// Options of `specdec generate`.
#[derive(Debug, clap::Args)]
pub(super) struct GenerateArgs {}

/// Runs the command.
pub(super) fn run(_args: &GenerateArgs) -> anyhow::Result<()> {
    Ok(())
}

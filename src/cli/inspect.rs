//! `specdec inspect`.

/// Options of `specdec inspect`.
#[derive(Debug, clap::Args)]
pub(super) struct InspectArgs {}

/// Runs the command.
pub(super) fn run(_args: &InspectArgs) -> anyhow::Result<()> {
    Ok(())
}

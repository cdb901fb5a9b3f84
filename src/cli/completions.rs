//! `specdec completions`.

use anyhow::Result;
use clap_complete::Shell;

use super::output;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  specdec completions bash > ~/.local/share/bash-completion/completions/specdec
  specdec completions zsh > \"${fpath[1]}/_specdec\"
  specdec completions fish > ~/.config/fish/completions/specdec.fish")]
pub(super) struct CompletionsArgs {
    /// The shell to complete for
    shell: Shell,
}

pub(super) fn run(args: &CompletionsArgs) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut super::command(), "specdec", &mut script);
    output::write(&String::from_utf8(script)?)
}

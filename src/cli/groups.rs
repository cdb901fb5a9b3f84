//! The commands in two groups: those to begin with, and all others.

use std::fmt::Write;

use clap::Command;

/// What a newcomer needs, in the order in which it is needed.
const FIRST: [&str; 7] = ["generate", "run", "new", "check", "list", "certify", "audit"];

/// The command line, whose help lists the commands by group.
pub(super) fn grouped(command: Command) -> Command {
    let is_first = |name: &str| FIRST.contains(&name);
    let find = |name: &&str| command.find_subcommand(name);
    let first = lines(FIRST.iter().filter_map(find));
    let others = lines(command.get_subcommands().filter(|own| !is_first(own.get_name())));
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\nTo begin with:\n{first}\n\
         All other commands:\n{others}\nOptions:\n{{options}}\n\n\
         `specdec COMMAND --help` has examples.\n"
    );
    command.help_template(template)
}

/// A line for each command: its name and what it does.
fn lines<'c>(commands: impl Iterator<Item = &'c Command>) -> String {
    let mut text = String::new();
    for command in commands {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let _ = writeln!(text, "  {:<12}{about}", command.get_name());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::FIRST;
    use crate::cli::command;

    #[test]
    fn every_command_is_in_one_group() {
        let help = command().render_help().to_string();
        for own in command().get_subcommands() {
            let begin = format!("\n  {} ", own.get_name());
            assert_eq!(help.matches(&begin).count(), 1, "{} in\n{help}", own.get_name());
        }
        for name in FIRST {
            assert!(command().find_subcommand(name).is_some(), "there is no command {name}");
        }
    }
}

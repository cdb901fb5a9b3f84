//! The `specdec` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    specdec::cli::main()
}

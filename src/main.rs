//! The `specdec` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    match specdec::cli::run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

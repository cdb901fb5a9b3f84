//! `specdec render-chat`, which the program starts itself: renders a conversation within limits.

use std::io;
use std::process::{ExitCode, exit};
use std::thread::{Builder, sleep};

use crate::checkpoint::{RENDER_LATE, RENDER_MEMORY, RENDER_TIME, render_chat};

/// Renders the conversation on standard input.
pub(super) fn run() -> ExitCode {
    let late = || {
        sleep(RENDER_TIME);
        exit(RENDER_LATE.into());
    };
    let rendered = limit_memory().and_then(|()| {
        Builder::new().spawn(late)?;
        render_chat(io::stdin().lock(), io::stdout().lock())
    });
    if rendered.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[cfg(target_os = "linux")]
fn limit_memory() -> io::Result<()> {
    use nix::sys::resource::{Resource, setrlimit};
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    Ok(setrlimit(Resource::RLIMIT_AS, RENDER_MEMORY, RENDER_MEMORY)?)
}

/// Other systems have no such limit, or ignore it.
#[cfg(not(target_os = "linux"))]
fn limit_memory() -> io::Result<()> {
    Ok(())
}

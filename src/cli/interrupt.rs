//! Ctrl-C while an experiment runs: it is answered at once, by ending or by saying when.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::terminal;

/// The exit code of what Ctrl-C ended: 128 and the number of the signal.
pub(super) const ENDED: u8 = 130;

/// How long a terminal may take for a few words.
const PATIENCE: Duration = Duration::from_millis(200);

/// What is lost if a run ends now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Stage {
    /// Nothing: no folder is made yet.
    Loading,
    /// The block in work.
    Measuring,
    /// Nothing: the report is made from rows.
    Reporting,
}

/// A run that ended because it was told to.
#[derive(Debug)]
pub(super) struct Interrupted(pub(super) String);

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Interrupted {}

/// What Ctrl-C has asked for, and what it means at the moment.
#[derive(Debug, Default)]
pub(super) struct Interrupts {
    asked: AtomicBool,
    wanted: AtomicBool,
    stage: AtomicU8,
}

impl Interrupts {
    /// Listens from now on.
    ///
    /// # Errors
    /// If the system refuses a handler or its thread.
    pub(super) fn listen() -> Result<Arc<Self>> {
        let interrupts = Arc::new(Self::default());
        let own = Arc::clone(&interrupts);
        ctrlc::set_handler(move || own.answer()).context(
            "cannot listen for Ctrl-C: the system refuses the handler or its thread (ulimit -u and \
             pids.max of its cgroup say how many this user may have)",
        )?;
        Ok(interrupts)
    }

    /// What Ctrl-C means from now on.
    pub(super) fn enter(&self, stage: Stage) {
        self.stage.store(stage as u8, Ordering::Relaxed);
    }

    /// Set once the run is to end in an orderly way.
    pub(super) fn wanted(&self) -> &AtomicBool {
        &self.wanted
    }

    fn answer(&self) {
        let again = self.asked.swap(true, Ordering::Relaxed);
        let stage = self.stage.load(Ordering::Relaxed);
        if stage == Stage::Loading as u8 {
            exit("interrupted while loading: nothing was begun");
        } else if stage == Stage::Reporting as u8 {
            exit("interrupted while reporting: all rows are kept; --resume makes the report");
        } else if again {
            exit(
                "ended at once: finished blocks, if there are any, are kept; --resume continues \
                 from them",
            );
        } else {
            // The answer first: what is asked for may be done within a millisecond.
            aside(|| {
                terminal::say(
                    "interrupted: finishing the round in work; once more Ctrl-C ends at once",
                );
            });
            self.wanted.store(true, Ordering::Relaxed);
        }
    }
}

/// Ends the process, with last words if the terminal takes them.
fn exit(words: &'static str) -> ! {
    aside(move || terminal::end(words));
    std::process::exit(ENDED.into())
}

/// Speaks on a thread of its own and waits for it, but not for long: a terminal that is
/// paused (Ctrl-S) holds up who writes to it, and must not hold up the next Ctrl-C. Where
/// the system refuses a thread, nothing is said.
fn aside(speak: impl FnOnce() + Send + 'static) {
    let (said, wait) = mpsc::channel();
    let speak = move || {
        speak();
        let _ = said.send(());
    };
    if thread::Builder::new().spawn(speak).is_ok() {
        let _ = wait.recv_timeout(PATIENCE);
    }
}

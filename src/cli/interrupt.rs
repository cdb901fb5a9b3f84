//! Ctrl-C while an experiment runs: responds at once, by stopping or by saying when.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::io::terminal;

/// The exit code of a run stopped by Ctrl-C: 128 plus the number of the signal.
pub(super) const ENDED: u8 = 130;

/// How long to wait for the terminal to take a message.
const PATIENCE: Duration = Duration::from_millis(200);

/// The stage of a run, which determines what Ctrl-C does and what is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum RunStage {
    /// Nothing is lost: there is no folder yet.
    Loading,
    /// The current block is lost.
    Measuring,
    /// Nothing is lost: the report can be written again from the rows.
    Reporting,
}

/// The error of a run that was stopped by Ctrl-C, with its message.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Interrupted(pub(super) String);

/// The state of the Ctrl-C handler.
#[derive(Debug, Default)]
pub(super) struct Interrupts {
    asked: AtomicBool,
    wanted: AtomicBool,
    stage: AtomicU8,
}

impl Interrupts {
    /// Installs the Ctrl-C handler.
    pub(super) fn listen() -> Result<Arc<Self>> {
        let interrupts = Arc::new(Self::default());
        let own = Arc::clone(&interrupts);
        ctrlc::set_handler(move || own.answer()).context(
            "cannot listen for Ctrl-C: the system refuses the handler or its thread (ulimit -u and \
             pids.max of the cgroup limit the number of threads)",
        )?;
        Ok(interrupts)
    }

    /// Sets the stage of the run.
    pub(super) fn enter(&self, stage: RunStage) {
        self.stage.store(stage as u8, Ordering::Relaxed);
    }

    /// A flag that is set when the run should stop after the current round.
    pub(super) fn wanted(&self) -> &AtomicBool {
        &self.wanted
    }

    fn answer(&self) {
        let again = self.asked.swap(true, Ordering::Relaxed);
        let stage = self.stage.load(Ordering::Relaxed);
        if stage == RunStage::Loading as u8 {
            exit("interrupted while loading: nothing was run");
        } else if stage == RunStage::Reporting as u8 {
            exit("interrupted while reporting: all rows are kept; --resume writes the report");
        } else if again {
            exit("stopped at once: any finished blocks are kept; --resume continues after them");
        } else {
            // The message comes first, since the run may stop within a millisecond.
            on_thread(|| {
                terminal::say(
                    "interrupted: finishing the current round; press Ctrl-C again to stop at once",
                );
            });
            self.wanted.store(true, Ordering::Relaxed);
        }
    }
}

/// Ends the process, with a last message if the terminal takes it.
fn exit(message: &'static str) -> ! {
    on_thread(move || terminal::end(message));
    std::process::exit(ENDED.into())
}

/// Runs `speak` on its own thread and waits for it for at most [`PATIENCE`]: a paused
/// terminal (Ctrl-S) blocks the writer, and must not block the next Ctrl-C. If the system
/// refuses the thread, nothing is written.
fn on_thread(speak: impl FnOnce() + Send + 'static) {
    let (said, wait) = mpsc::channel();
    let speak = move || {
        speak();
        let _ = said.send(());
    };
    if thread::Builder::new().spawn(speak).is_ok() {
        let _ = wait.recv_timeout(PATIENCE);
    }
}

//! Another program, which communicates by JSON lines.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::core::error::Error;
use crate::io::shown;

/// The maximum length of a line from the program, in bytes.
const LONGEST: u64 = 1 << 20;
/// The time that a program may take to exit after its input ends, or that its exit may take to be
/// noticed.
const PATIENCE: Duration = Duration::from_millis(500);
/// The maximum number of quoted characters of the program's output.
const QUOTED: usize = 200;

/// A running program.
#[derive(Debug)]
pub(super) struct Program {
    child: Child,
    /// Its standard input, until the program should exit.
    input: Option<ChildStdin>,
    lines: Receiver<Vec<u8>>,
    limit: Duration,
}

impl Program {
    /// Starts the program of a command, which is split into words as by a shell; `option` names it.
    /// It inherits standard error.
    pub(super) fn start((option, command): (&str, &str), limit: Duration) -> Result<Self> {
        let words = shlex::split(command).filter(|words| !words.is_empty());
        let Some(words) = words else {
            bail!("{option} {}: no command, or a quote that is not closed", shown::line(command));
        };
        let mut child = Command::new(&words[0])
            .args(&words[1..])
            // Without this, a Python program that does not flush its output would hang.
            .env("PYTHONUNBUFFERED", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", shown::line(&words[0])))?;
        let (send, lines) = sync_channel(1);
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let started = Self { child, input, lines, limit };
        // Reads have no time limit, but waiting for a thread has.
        let output = output.context("the program has no standard output")?;
        Builder::new()
            .spawn(move || forward(output, &send))
            .context("cannot start a thread that reads the program's output")?;
        Ok(started)
    }

    /// Sends a line for each message.
    pub(super) fn send<M: Serialize>(&mut self, messages: &[M]) -> Result<(), Error> {
        let mut lines = Vec::new();
        for message in messages {
            serde_json::to_writer(&mut lines, message)
                .map_err(|error| Error::input(format!("a round cannot be written: {error}")))?;
            lines.push(b'\n');
        }
        let sent = self.input.as_mut().map(|input| input.write_all(&lines));
        match sent {
            Some(Ok(())) => Ok(()),
            _ => Err(self.ended()),
        }
    }

    /// The program's next line; `expected` describes what it may be.
    pub(super) fn answer<M: DeserializeOwned>(&mut self, expected: &str) -> Result<M, Error> {
        let line = match self.lines.recv_timeout(self.limit) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => {
                return Err(Error::input(format!(
                    "the program did not answer within {} s; it must write a line, and flush it, \
                     for every line that it reads",
                    self.limit.as_secs_f64()
                )));
            }
            Err(RecvTimeoutError::Disconnected) => return Err(self.ended()),
        };
        serde_json::from_slice(&line).map_err(|error| {
            let text = String::from_utf8_lossy(&line);
            let mut quoted = shown::line(text.trim_end()).chars().take(QUOTED).collect::<String>();
            if text.chars().count() > QUOTED {
                quoted.push('…');
            }
            Error::input(format!("the program wrote {quoted:?}, which is not {expected}: {error}"))
        })
    }

    /// The error for a program that has ended or closed its pipes.
    fn ended(&mut self) -> Error {
        let status = self.wait(PATIENCE);
        Error::input(status.map_or_else(
            || "the program closed its standard input or output".to_owned(),
            |status| format!("the program ended ({status}) where an answer was due"),
        ))
    }

    /// The exit status of the program, if it exits within `patience`.
    fn wait(&mut self, patience: Duration) -> Option<std::process::ExitStatus> {
        let begun = Instant::now();
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if begun.elapsed() < patience => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                _ => return None,
            }
        }
    }
}

/// Forwards the program's lines until it ends, writes a line that is too long, or the receiver is
/// gone.
fn forward(output: ChildStdout, lines: &SyncSender<Vec<u8>>) {
    let mut output = BufReader::new(output);
    loop {
        let mut line = Vec::new();
        let read = output.by_ref().take(LONGEST).read_until(b'\n', &mut line);
        if !matches!(read, Ok(1..)) || lines.send(line).is_err() {
            return;
        }
    }
}

impl Drop for Program {
    /// Closes the program's input and kills the program if it does not exit.
    fn drop(&mut self) {
        self.input = None;
        if self.wait(PATIENCE).is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

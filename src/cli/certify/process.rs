//! A verifier in another program, which communicates by JSON lines. `docs/external.md` describes
//! the protocol.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::io::shown;
use crate::proof::external::{ExternalChance, ExternalRound, ExternalVerifier};

/// The maximum length of a line from the program, in bytes.
const LONGEST: u64 = 1 << 20;
/// The maximum number of results sent before they are requested: fewer than fill a pipe.
const MOST_AHEAD: usize = 1000;
/// The maximum number of uniform numbers per request.
const MOST_UNIFORMS: usize = 100_000;
/// The time that a program may take to exit after its input ends, or that its exit may take to be
/// noticed.
const PATIENCE: Duration = Duration::from_millis(500);
/// The maximum number of quoted characters of the program's output.
const QUOTED: usize = 200;

/// The messages to the program.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum ToProgram<'m> {
    Verify(&'m ExternalRound),
    Chosen(usize),
    Uniform(Vec<f64>),
}

/// The messages from the program.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum FromProgram {
    Choose(Vec<f64>),
    Uniform(usize),
    Tokens(Vec<Token>),
}

/// A running program.
#[derive(Debug)]
pub(super) struct ProcessVerifier {
    child: Child,
    /// Its standard input, until the program should exit.
    input: Option<ChildStdin>,
    lines: Receiver<Vec<u8>>,
    limit: Duration,
}

impl ProcessVerifier {
    /// Starts a program; the first word is its name. It inherits standard error.
    pub(super) fn start(words: &[String], limit: Duration) -> Result<Self> {
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

    fn send(&mut self, messages: &[ToProgram<'_>]) -> Result<(), Error> {
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

    fn answer(&mut self) -> Result<FromProgram, Error> {
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
            Error::input(format!(
                "the program wrote {quoted:?}, which is not {{\"choose\": [weights]}}, \
                 {{\"uniform\": n}} or {{\"tokens\": [tokens]}}: {error}"
            ))
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

impl ExternalVerifier for ProcessVerifier {
    fn verify(
        &mut self,
        round: &ExternalRound,
        chance: &mut dyn ExternalChance,
    ) -> Result<Vec<Token>, Error> {
        // Known results are sent in advance, because waiting for the program takes most of the
        // time.
        let mut ahead = chance.foreseen();
        ahead.truncate(MOST_AHEAD);
        let answers = ahead.iter().map(|&index| ToProgram::Chosen(index));
        self.send(&[ToProgram::Verify(round)].into_iter().chain(answers).collect::<Vec<_>>())?;
        let mut unasked = ahead.len();
        loop {
            let reply = match self.answer()? {
                FromProgram::Tokens(tokens) => return Ok(tokens),
                FromProgram::Choose(weights) => {
                    let index = chance.choose(&weights)?;
                    if unasked > 0 {
                        unasked -= 1;
                        continue;
                    }
                    ToProgram::Chosen(index)
                }
                FromProgram::Uniform(_) if unasked > 0 => {
                    return Err(Error::input(
                        "it is not a function of the round and of its choices: after the same \
                         ones it asked for uniform numbers where it asked to choose before",
                    ));
                }
                FromProgram::Uniform(n) if (1..=MOST_UNIFORMS).contains(&n) => {
                    let numbers = (0..n).map(|_| chance.uniform());
                    ToProgram::Uniform(numbers.collect::<Result<_, _>>()?)
                }
                FromProgram::Uniform(n) => {
                    return Err(Error::input(format!(
                        "the program asked for {n} uniform numbers: allowed are 1 to \
                         {MOST_UNIFORMS}"
                    )));
                }
            };
            self.send(&[reply])?;
        }
    }
}

impl Drop for ProcessVerifier {
    /// Closes the program's input and kills the program if it does not exit.
    fn drop(&mut self) {
        self.input = None;
        if self.wait(PATIENCE).is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

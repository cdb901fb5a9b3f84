//! Requests that fail, and which of them are worth another try.

use std::thread;
use std::time::Duration;

use crate::error::Error;

/// How often a request is tried while nothing arrives.
const TRIES: u32 = 4;
/// The pause before the second try; it doubles with every further one.
const PAUSE: Duration = Duration::from_millis(500);
/// The longest pause that a server may ask for.
const MAX_PAUSE: Duration = Duration::from_secs(120);

/// Why a request failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// It would fail again.
    Lasting(String),
    /// It may succeed later, perhaps after the pause that the server asked for.
    Passing(String, Option<Duration>),
}

/// Why a file was not downloaded.
#[derive(Debug)]
pub(super) enum Failed {
    /// The hub is at fault: a clause says why.
    Hub(String),
    /// This machine is.
    Here(Error),
}

impl Failed {
    /// The error; `hub` makes one of a clause.
    pub(super) fn explain(self, hub: impl FnOnce(&str) -> Error) -> Error {
        match self {
            Self::Hub(what) => hub(&what),
            Self::Here(error) => error,
        }
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Here(error)
    }
}

/// Counts the tries of a request.
#[derive(Debug, Default)]
pub(super) struct Tries {
    tried: u32,
}

impl Tries {
    /// Something has arrived: the tries are counted anew.
    pub(super) fn renew(&mut self) {
        self.tried = 0;
    }

    /// Waits before another try.
    ///
    /// # Errors
    /// If the failure lasts, the tries are used up, or the pause would be too long.
    pub(super) fn wait(&mut self, failure: Failure) -> Result<(), String> {
        let (what, asked) = match failure {
            Failure::Lasting(what) => return Err(what),
            Failure::Passing(what, asked) => (what, asked),
        };
        self.tried += 1;
        if self.tried >= TRIES {
            return Err(format!("{what} ({TRIES} tries)"));
        }
        let pause = asked.unwrap_or(PAUSE * 2u32.pow(self.tried - 1));
        if pause > MAX_PAUSE {
            return Err(format!("{what}; it asks to wait {} s", pause.as_secs()));
        }
        thread::sleep(pause);
        Ok(())
    }
}

/// The result of a request, which is repeated while that is worth it.
///
/// # Errors
/// A clause that says why it failed.
pub(super) fn patiently<T>(mut request: impl FnMut() -> Result<T, Failure>) -> Result<T, String> {
    let mut tries = Tries::default();
    loop {
        match request() {
            Ok(found) => return Ok(found),
            Err(failure) => tries.wait(failure)?,
        }
    }
}

//! Writes messages to standard error and, on a terminal, a progress line that is redrawn.
//! Write errors are ignored, so nothing here fails.

use std::fmt::Display;
use std::io::{IsTerminal, Write};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::io::fold::folded;
use crate::io::shown;

/// The maximum width of text, in columns; longer lines are hard to read.
pub const COLUMNS: usize = 100;

/// The number of times per second that the progress line is redrawn.
const FRAMES: u8 = 10;

/// The minimum interval between progress lines if standard error is not a terminal; it grows to a
/// twentieth of the elapsed time.
const EVERY: Duration = Duration::from_secs(10);

/// Width of the progress bar, and of the narrowest terminal with room for both bar and text, in
/// columns.
const BAR: usize = 20;
const ROOMY: usize = 60;

/// Whether standard error is a terminal that can rewrite a line.
static ALIVE: LazyLock<bool> = LazyLock::new(|| {
    std::io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
});

/// The progress line, if there is one.
static LIVE: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Prints a text to standard error on its own lines, with control characters replaced. A terminal
/// gets lines that fit.
pub fn say(text: impl Display) {
    say_raw(shown::lines(&text.to_string()));
}

/// Like [`say`], but keeps control characters, for text that is already safe and coloured.
pub fn say_raw(text: impl Display) {
    let text = text.to_string();
    let text = if std::io::stderr().is_terminal() { folded(&text, width()) } else { text };
    write(&format!("{text}\n"));
}

/// Removes the progress line permanently and prints the last message before the process ends.
pub fn end(text: impl Display) {
    if let Some(bar) = lock().take() {
        bar.finish_and_clear();
    }
    say(text);
}

/// Columns of the terminal on standard error; [`COLUMNS`] if it is not a terminal.
pub fn width() -> usize {
    width_of(&std::io::stderr())
}

/// Columns of the terminal on standard output; [`COLUMNS`] if it is not a terminal.
pub fn output_width() -> usize {
    width_of(&std::io::stdout())
}

/// A terminal that does not report its width has that of the variable `COLUMNS`, or 80 columns as
/// usual.
fn width_of(stream: &(impl IsTerminal + Stream)) -> usize {
    if !stream.is_terminal() {
        return COLUMNS;
    }
    let stated = || std::env::var("COLUMNS").ok()?.parse().ok();
    let known = columns_of_terminal(stream).filter(|&columns| columns > 0);
    known.or_else(stated).filter(|&columns| columns > 0).unwrap_or(80)
}

// A stream whose terminal can be asked for its width.
#[cfg(unix)]
use std::os::fd::AsFd as Stream;

#[cfg(unix)]
fn columns_of_terminal(stream: &impl Stream) -> Option<usize> {
    Some(rustix::termios::tcgetwinsize(stream).ok()?.ws_col.into())
}

#[cfg(not(unix))]
use std::io::Write as Stream;

#[cfg(not(unix))]
fn columns_of_terminal(_: &impl Stream) -> Option<usize> {
    None
}

/// Writes a text above the progress line.
fn write(text: &str) {
    match &*lock() {
        Some(bar) => bar.suspend(|| put(text)),
        None => put(text),
    }
}

fn lock() -> MutexGuard<'static, Option<ProgressBar>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes in a single call, so that no other output is interleaved.
fn put(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Truncates a line to fit, with an ellipsis, leaving the last column free because terminals
/// wrap there. Characters outside ASCII count as two columns.
fn fit(line: &str, columns: usize) -> String {
    let room = columns.saturating_sub(1);
    let wide = |c: char| if c.is_ascii() { 1 } else { 2 };
    if line.chars().map(wide).sum::<usize>() <= room {
        return line.to_owned();
    }
    let mut used = wide('…');
    let kept = line.chars().take_while(|&c| {
        used += wide(c);
        used <= room
    });
    kept.chain((room > 1).then_some('…')).collect()
}

/// Shows the progress of some work: a redrawn line on a terminal, occasional lines
/// otherwise.
#[derive(Debug)]
pub struct Progress {
    what: &'static str,
    total: usize,
    done: usize,
    /// The number of pieces that were already done at the beginning.
    before: usize,
    begun: Instant,
    reported: Instant,
    uneven: bool,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Progress of work on `total` pieces called `what`, of which `before` are already done.
    pub fn new(what: &'static str, total: usize, before: usize) -> Self {
        let now = Instant::now();
        let bar = ALIVE.then(bar);
        lock().clone_from(&bar);
        Self { what, total, done: before, before, begun: now, reported: now, uneven: false, bar }
    }

    /// Shows the elapsed time instead of the remaining time, for pieces whose costs differ so much
    /// that the finished ones do not predict the rest.
    #[must_use]
    pub fn uneven(mut self) -> Self {
        self.uneven = true;
        self
    }

    /// Adds pieces to the total.
    pub fn more(&mut self, pieces: usize) {
        self.total += pieces;
    }

    /// Counts one piece as done and appends `detail` to the line.
    pub fn advance(&mut self, detail: &str) {
        self.reach(self.done + 1, self.total, detail);
    }

    /// Sets the number of finished pieces and the total, and appends `detail` to the line.
    pub fn reach(&mut self, done: usize, total: usize, detail: &str) {
        (self.done, self.total) = (done, total);
        if let Some(bar) = &self.bar {
            let columns = width();
            let room = if columns < ROOMY { columns } else { columns - BAR - 1 };
            bar.set_length(total as u64);
            bar.set_position(done as u64);
            bar.set_message(fit(&shown::line(&self.line(detail)), room));
        } else if self.reported.elapsed() >= EVERY.max(self.begun.elapsed() / 20) {
            self.reported = Instant::now();
            say(self.line(detail));
        }
    }

    fn line(&self, detail: &str) -> String {
        let Self { what, total, done, .. } = self;
        let took = self.begun.elapsed().as_secs_f64();
        let pace = took / (done - self.before).max(1) as f64;
        let time = match self.uneven {
            true => format!(" after {}", clock(took)),
            false => format!(", {} left", clock(pace * total.saturating_sub(*done) as f64)),
        };
        let gap = if detail.is_empty() { "" } else { "; " };
        format!("{done}/{total} {what}{time}{gap}{detail}")
    }
}

impl Drop for Progress {
    /// Removes the progress line.
    fn drop(&mut self) {
        if let Some(bar) = self.bar.take() {
            lock().take();
            bar.finish_and_clear();
        }
    }
}

/// An empty progress bar with its text, or only the text if there is no room for the bar.
fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(FRAMES));
    let template = format!("{{bar:{BAR}}} {{msg}}");
    let template = if width() < ROOMY { "{msg}" } else { &template };
    ProgressStyle::with_template(template)
        .map_or_else(|_| bar.clone(), |s| bar.clone().with_style(s))
}

/// Seconds as `12 s`, `3 min` or `2.5 h`.
fn clock(seconds: f64) -> String {
    match seconds {
        s if s < 100.0 => format!("{s:.0} s"),
        s if s < 6000.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_narrower_than_the_terminal() {
        assert_eq!(fit("12345", 6), "12345");
        assert_eq!(fit("123456", 6), "123…");
        assert_eq!(fit("日本語", 6), "日…");
        assert_eq!((fit("12", 1), fit("12", 0)), (String::new(), String::new()));
    }

    #[test]
    fn uneven_work_shows_no_remaining_time() {
        let mut progress = Progress::new("checks", 0, 0).uneven();
        progress.begun -= Duration::from_secs(360);
        (progress.done, progress.total) = (29, 50_125);
        assert_eq!(progress.line(""), "29/50125 checks after 6 min");
        progress.uneven = false;
        assert!(progress.line("").ends_with(" h left"));
    }
}

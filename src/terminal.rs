//! What people see while the program works: lines on standard error and, on a terminal, one
//! line that changes. Nothing here fails: where nobody listens, the work goes on.

use std::fmt::Display;
use std::io::{IsTerminal, Write};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::shown;

/// The widest that text is laid out, in columns: more is hard to read.
pub const COLUMNS: usize = 100;

/// The changing line is drawn this far apart.
const FRAME: Duration = Duration::from_millis(100);

/// Without a terminal, lines of progress come at least this far apart, and the further
/// the longer the work takes: at most one for a twentieth of the time.
const EVERY: Duration = Duration::from_secs(10);

/// Whether standard error is a terminal that can rewrite a line.
static ALIVE: LazyLock<bool> = LazyLock::new(|| {
    std::io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
});

/// The changing line as it is drawn; empty if there is none.
static LIVE: Mutex<String> = Mutex::new(String::new());

/// Goes back to the beginning of the changing line and clears it.
const CLEAR: &str = "\r\x1b[K";

/// Says something on standard error, on lines of its own.
pub fn say(text: impl Display) {
    write(&format!("{}\n", shown::lines(&text.to_string())));
}

/// The same with whatever it holds: for text with colours of our own.
pub fn say_raw(text: impl Display) {
    write(&format!("{text}\n"));
}

/// Says the last thing before the process ends: the changing line goes for good.
pub fn end(text: impl Display) {
    let text = shown::lines(&text.to_string());
    let clear = if std::mem::take(&mut *lock()).is_empty() { "" } else { CLEAR };
    put(&format!("{clear}{text}\n"));
}

/// Columns of the terminal on standard error, [`COLUMNS`] where there is none.
pub fn width() -> usize {
    if !std::io::stderr().is_terminal() {
        return COLUMNS;
    }
    // Of a terminal that does not tell, what nearly all have.
    columns_of_terminal().filter(|&columns| columns > 0).unwrap_or(80)
}

#[cfg(unix)]
fn columns_of_terminal() -> Option<usize> {
    Some(rustix::termios::tcgetwinsize(std::io::stderr()).ok()?.ws_col.into())
}

#[cfg(not(unix))]
fn columns_of_terminal() -> Option<usize> {
    None
}

/// Writes above the changing line.
fn write(text: &str) {
    let live = lock();
    if live.is_empty() {
        put(text);
    } else {
        put(&format!("{CLEAR}{text}{live}"));
    }
}

/// Replaces the changing line; an empty one removes it.
fn live(line: &str) {
    let line = fit(&shown::line(line), width());
    let mut live = lock();
    if *live != line {
        put(&format!("{CLEAR}{line}"));
        *live = line;
    }
}

fn lock() -> MutexGuard<'static, String> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// In one piece, so that nothing comes between.
fn put(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// The beginning of a line that stays clear of the last column, where terminals wrap.
/// Characters outside of ASCII may be two columns wide.
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

/// How far some work is: a changing line on a terminal, a line now and then elsewhere.
#[derive(Debug)]
pub struct Progress {
    what: &'static str,
    total: usize,
    done: usize,
    /// Of these, what was done before it began.
    before: usize,
    begun: Instant,
    told: Instant,
}

impl Progress {
    /// Work on `total` pieces called `what`, `before` of which were done already.
    pub fn new(what: &'static str, total: usize, before: usize) -> Self {
        let now = Instant::now();
        Self { what, total, done: before, before, begun: now, told: now }
    }

    /// There are this many pieces more.
    pub fn more(&mut self, pieces: usize) {
        self.total += pieces;
    }

    /// One piece is done; `detail` says more about it.
    pub fn advance(&mut self, detail: &str) {
        self.reach(self.done + 1, self.total, detail);
    }

    /// So many pieces of so many are done.
    pub fn reach(&mut self, done: usize, total: usize, detail: &str) {
        (self.done, self.total) = (done, total);
        let pause = if *ALIVE { FRAME } else { EVERY.max(self.begun.elapsed() / 20) };
        if self.told.elapsed() >= pause {
            self.told = Instant::now();
            let line = self.line(detail);
            if *ALIVE { live(&line) } else { say(line) }
        }
    }

    fn line(&self, detail: &str) -> String {
        let Self { what, total, done, .. } = self;
        let pace = self.begun.elapsed().as_secs_f64() / (done - self.before).max(1) as f64;
        let left = clock(pace * total.saturating_sub(*done) as f64);
        let gap = if detail.is_empty() { "" } else { "; " };
        format!("{done}/{total} {what}, {left} left{gap}{detail}")
    }
}

impl Drop for Progress {
    /// Takes the changing line away.
    fn drop(&mut self) {
        if !lock().is_empty() {
            live("");
        }
    }
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
}

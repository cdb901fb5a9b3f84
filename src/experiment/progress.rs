//! Progress for people: a bar with one live line on a terminal, plain lines
//! elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Plain lines come this far apart.
const EVERY: Duration = Duration::from_secs(10);

/// Shows how far a run is.
#[derive(Debug)]
pub(super) struct Progress {
    bar: ProgressBar,
    what: &'static str,
    plain: bool,
    start: Instant,
    told: Instant,
    total: u64,
    before: u64,
    /// What the last block waited, in words.
    disturbance: String,
}

impl Progress {
    /// Progress over `total` of `what`, `before` of which were done already.
    pub(super) fn new(what: &'static str, total: usize, before: usize) -> Self {
        let plain = !std::io::stderr().is_terminal();
        let target =
            if plain { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(Some(total as u64), target);
        let template = if std::env::var_os("NO_COLOR").is_some() {
            "{bar:30} {pos}/{len} [{elapsed} < {eta}] {wide_msg}"
        } else {
            "{bar:30.cyan/dim} {pos}/{len} [{elapsed} < {eta}] {wide_msg}"
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_position(before as u64);
        bar.reset_eta();
        let now = Instant::now();
        Self {
            bar,
            what,
            plain,
            start: now,
            told: now,
            total: total as u64,
            before: before as u64,
            disturbance: String::new(),
        }
    }

    /// Something worth a line of its own.
    pub(super) fn say(&self, line: &str) {
        if self.plain { eprintln!("{line}") } else { self.bar.println(line) }
    }

    /// There are so many more of them.
    pub(super) fn more(&mut self, number: usize) {
        self.total += number as u64;
        self.bar.set_length(self.total);
    }

    /// How disturbed the last block was, as a share of its time.
    pub(super) fn disturbed_by(&mut self, share: f64) {
        self.disturbance = format!("waited {:.0} %", 100.0 * share);
    }

    /// One is done; `live` says how it goes.
    pub(super) fn advance(&mut self, live: &str) {
        let parts = [live, &self.disturbance].into_iter().filter(|part| !part.is_empty());
        let live = parts.collect::<Vec<_>>().join(", ");
        self.bar.inc(1);
        self.bar.set_message(live.clone());
        let done = self.bar.position();
        if self.plain && (self.told.elapsed() >= EVERY || done == self.total) {
            self.told = Instant::now();
            let pace = self.start.elapsed().as_secs_f64() / (done - self.before).max(1) as f64;
            let left = pace * (self.total - done) as f64;
            eprintln!("{done}/{} {}, {left:.0} s left; {live}", self.total, self.what);
        }
    }

    /// Removes the bar.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

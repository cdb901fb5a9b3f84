//! Reports a panic as one sentence.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic;
use std::sync::Once;
use std::thread;

use crate::io::input::READS_DAMAGED;
use crate::io::terminal;
use crate::run::experiment::Build;

/// Installs a panic hook that prints one sentence asking for a bug report, followed by a backtrace
/// only if `RUST_BACKTRACE` requests it. Only the first panic is printed. Threads that read
/// possibly damaged files report their panics themselves.
pub fn report_bugs() {
    panic::set_hook(Box::new(|info| {
        if thread::current().name() == Some(READS_DAMAGED) {
            return;
        }
        static FIRST: Once = Once::new();
        FIRST.call_once(|| {
            let payload = info.payload();
            let what = payload.downcast_ref::<&str>().copied();
            let what = what.or_else(|| Some(payload.downcast_ref::<String>()?.as_str()));
            let what =
                what.unwrap_or("no message").split_whitespace().collect::<Vec<_>>().join(" ");
            let place = info.location().map_or_else(String::new, |place| format!(" at {place}"));
            terminal::end(format_args!(
                "error: this is a bug in specdec: {what}{place}; please report it with version {}",
                Build::this().describe()
            ));
            let trace = Backtrace::capture();
            if trace.status() == BacktraceStatus::Captured {
                terminal::say(trace);
            }
        });
    }));
}

//! The memory of a report does not grow with the number of rounds, except for a few bytes
//! each.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::run_support::specdec;
use crate::synthetic::Synthetic;

/// More bytes than a round may add.
const PER_ROUND: f64 = 16.0;

/// The most memory that `specdec report` took, in bytes, and the time.
fn peak(folder: &Path) -> (usize, Duration) {
    let begun = Instant::now();
    let mut command = specdec(&["report", folder.to_str().unwrap()]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    loop {
        let status = fs::read_to_string(&status).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse().ok());
        peak = kib.map_or(peak, |kib: usize| kib << 10);
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success());
            return (peak, begun.elapsed());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_round_takes_a_few_bytes_of_a_report() {
    let measured = [1_500, 6_000].map(|max_tokens| {
        let out = tempfile::tempdir().unwrap();
        let run = Synthetic {
            prompts: 40,
            max_tokens,
            drafters: vec!["model"],
            draft_lengths: vec![3],
            temperatures: vec![1.0],
        };
        (run.write(out.path()), peak(out.path()).0)
    });
    let [(few, low), (many, high)] = measured;
    assert!(few > 60_000 && many > 3 * few);
    let grown = (high - low.min(high)) as f64 / (many - few) as f64;
    assert!(grown < PER_ROUND, "{grown} bytes per round: {measured:?}");
}

/// Ten million rounds take minutes and three gigabytes of disk: `.ci/extended` asks for
/// them by this variable, and otherwise a hundredth of them must do.
#[test]
fn a_report_on_many_rounds_fits_into_500_megabytes() {
    let all = std::env::var_os("SPECDEC_TEN_MILLION_ROUNDS").is_some();
    let (prompts, least) = if all { (7_000, 10_000_000) } else { (70, 100_000) };
    let out = tempfile::tempdir().unwrap();
    let rounds = Synthetic { prompts, ..Synthetic::large() }.write(out.path());
    let (bytes, time) = peak(out.path());
    let found = format!("{rounds} rounds: {} MB in {} s", bytes / 1_000_000, time.as_secs());
    writeln!(std::io::stderr(), "{found}").unwrap();
    assert!(rounds >= least && bytes <= 500_000_000, "{found}");
}

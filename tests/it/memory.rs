//! The memory of a report does not grow with the number of rounds, except for a few bytes
//! each, whether they stand in text or in segments.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::packed_support::segments;
use crate::run_support::specdec;
use crate::synthetic::Synthetic;

/// More bytes than a round may add.
const PER_ROUND: f64 = 16.0;

/// The most memory that a command took, in bytes, and the time.
fn peak(command: &mut Command) -> (usize, Duration) {
    let begun = Instant::now();
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

fn report(folder: &Path) -> (usize, Duration) {
    peak(&mut specdec(&["report", folder.to_str().unwrap()]))
}

#[test]
fn a_round_takes_a_few_bytes_of_a_report() {
    // Threads that hand rows to each other keep some megabytes, more or fewer by chance: both runs
    // are long enough that their queues fill.
    let measured = [10_000, 40_000].map(|max_tokens| {
        let out = tempfile::tempdir().unwrap();
        let run = Synthetic {
            prompts: 40,
            max_tokens,
            drafters: vec!["model"],
            draft_lengths: vec![3],
            temperatures: vec![1.0],
        };
        // What the allocator holds in reserve is no part of a round.
        let args = ["report", out.path().to_str().unwrap()];
        (run.write(out.path()), peak(specdec(&args).env("MIMALLOC_ARENA_EAGER_COMMIT", "0")).0)
    });
    let [(few, low), (many, high)] = measured;
    assert!(few > 500_000 && many > 3 * few);
    let grown = (high - low.min(high)) as f64 / (many - few) as f64;
    assert!(grown < PER_ROUND, "{grown} bytes per round: {measured:?}");
}

/// Ten million rounds take minutes and four gigabytes of disk: `.ci/extended` asks for
/// them by this variable, and otherwise a hundredth of them must do. All of them are to be
/// reported within a minute, on two cores; a merge has no such bound.
#[test]
fn a_report_on_many_rounds_fits_into_500_megabytes() {
    let all = std::env::var_os("SPECDEC_TEN_MILLION_ROUNDS").is_some();
    let (prompts, least, above) =
        if all { (7_000, 10_000_000, "67108864") } else { (70, 100_000, "1000000") };
    let out = tempfile::tempdir().unwrap();
    let [plain, packed] = ["plain", "packed"].map(|name| out.path().join(name));
    let rounds = Synthetic { prompts, ..Synthetic::large() }.write(&plain);
    assert!(rounds >= least, "{rounds}");
    let [from, to] = [&plain, &packed].map(|folder| folder.to_str().unwrap());
    let measured = [
        ("report", report(&plain)),
        ("merge", peak(&mut specdec(&["merge", from, "--out", to, "--pack-above", above]))),
        ("report on segments", report(&packed)),
    ];
    assert!(segments(&packed, "rounds").len() > 5);
    assert_eq!(tables(&packed), tables(&plain));
    for (what, (bytes, time)) in measured {
        let found = format!(
            "{what} of {rounds} rounds: {} MB in {:.1} s",
            bytes / 1_000_000,
            time.as_secs_f64()
        );
        writeln!(std::io::stderr(), "{found}").unwrap();
        assert!(bytes <= 500_000_000, "{found}");
        assert!(what == "merge" || time.as_secs() < 60, "{found}");
    }
}

/// What a report computes of a run.
fn tables(folder: &Path) -> [String; 2] {
    ["summary.csv", "survival.csv"].map(|name| fs::read_to_string(folder.join(name)).unwrap())
}

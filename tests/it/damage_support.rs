//! Damage to files, what errors say of it, and how much memory it takes to read them.

#[cfg(target_os = "linux")]
use std::process::Command;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;
#[cfg(feature = "peers")]
use specdec::core::error::Error;

/// More memory, in KiB, than reading damaged files may take beyond that of undamaged ones,
/// which have at most 100 kB each.
const MOST_KIB: usize = 8 << 10;
/// Set in the process that measures its own memory.
const MEASURED: &str = "SPECDEC_MEASURES_DAMAGED_FILES";

/// The number of files to damage: `usual`, or what `SPECDEC_DAMAGED_FILES` says.
pub(crate) fn files(usual: usize) -> usize {
    std::env::var("SPECDEC_DAMAGED_FILES").map_or(usual, |number| number.parse().unwrap())
}

/// Damages a file as a disk, a broken download or an attacker might. Most damage hits the
/// first `header` bytes.
pub(crate) fn damage(file: &[u8], header: usize, rng: &mut ChaCha8Rng) -> Vec<u8> {
    let mut file = file.to_vec();
    let header = file.len().min(header);
    for _ in 0..1 + rng.next_u64() % 3 {
        let mut below = |n: usize| rng.next_u64() as usize % n.max(1);
        let reach = if below(8) == 0 { file.len() } else { header.min(file.len()) };
        let at = below(reach);
        let count = |file: &mut Vec<u8>, at: usize, value: u64| {
            let bytes = value.to_le_bytes();
            let length = 8.min(file.len() - at);
            file[at..at + length].copy_from_slice(&bytes[..length]);
        };
        match below(8) {
            _ if file.is_empty() => {}
            0 => file[at] ^= 1 << below(8),
            1 => file[at] = below(256) as u8,
            2 => file.truncate(at),
            3 => count(&mut file, at / 8 * 8, u64::MAX >> below(64)),
            4 => count(&mut file, at, 1u64 << below(64)),
            5 => drop(file.drain(at..(at + 1 + below(40)).min(reach))),
            6 => {
                let from = below(reach);
                let piece = file[from..(from + 1 + below(60)).min(reach)].to_vec();
                file.splice(at..at, piece);
            }
            _ => {
                let length = below(16).min(file.len() - at);
                file[at..at + length].fill(0xff);
            }
        }
    }
    file
}

/// The most address space that this process has had, in KiB: it counts memory that was
/// allocated and never touched, too.
fn peak_kib() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmPeak:"))?;
    line.trim().trim_end_matches("kB").trim().parse().ok()
}

/// The memory of this process before the damaged files.
pub(crate) struct Memory(Option<usize>);

impl Memory {
    pub(crate) fn now() -> Self {
        Self(peak_kib())
    }

    /// Asserts that little has come since, in a process that has only this to do.
    pub(crate) fn check(&self, file: &str) {
        if std::env::var_os(MEASURED).is_some() {
            let (before, after) = (self.0.unwrap(), peak_kib().unwrap());
            assert!(after - before < MOST_KIB, "{file}: from {before} to {after} KiB");
        }
    }
}

/// Runs a test in a process of its own, in which no other test needs memory.
#[cfg(target_os = "linux")]
pub(crate) fn measured(test: &str) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    // Each further thread that allocates would reserve address space of 64 MiB.
    command.args([test, "--exact"]).env(MEASURED, "1").env("MALLOC_ARENA_MAX", "1");
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

/// How many damaged checkpoints were refused and read.
#[cfg(feature = "peers")]
#[derive(Default)]
pub(crate) struct Outcomes {
    refused: usize,
    accepted: usize,
}

#[cfg(feature = "peers")]
impl Outcomes {
    /// Counts one whose file `part` was damaged; a refusal must be one sentence.
    #[track_caller]
    pub(crate) fn count(&mut self, part: &str, read: Result<(), Error>) {
        let Err(error) = read else {
            self.accepted += 1;
            return;
        };
        let sentence = error.to_string();
        let short = sentence.len() < 1_000 && !sentence.contains('\n');
        assert!(short && !sentence.is_empty(), "{part}: {sentence}");
        self.refused += 1;
    }

    /// Asserts that both happened. Many keys are not read, but much of the damage must be found.
    #[track_caller]
    pub(crate) fn check(&self, files: usize) {
        let Self { refused, accepted } = *self;
        let seen = refused > files / 4 && accepted > files / 50;
        assert!(seen, "{refused} refused, {accepted} read");
    }
}

/// Asserts that a sentence contains all parts.
#[track_caller]
pub(crate) fn says(sentence: &str, parts: &[&str]) {
    for part in parts {
        assert!(sentence.contains(part), "{sentence:?} does not say {part:?}");
    }
}

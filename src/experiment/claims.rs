//! Claims on blocks: processes on several machines share out a run as they go.
//!
//! A claim on a block is a file, made such that only one process can make it. While the
//! process works on the block, a thread rewrites the file with a larger number: the claim
//! beats. A claim that another process has not seen beat for a while, by its own clock, is
//! stale, and whoever makes the block's next claim first takes over. No file is ever renamed or
//! removed, no clock is compared with another machine's, and nothing is locked. A process
//! that was only slow, and has lost its claim, still writes its rows: they are right, and the
//! block is then in two folders, of which a merge takes one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::shares::{SharedPlace, unique};
use super::sweep::BlockWork;

/// The folder of the claims, in that of the shards.
const FOLDER: &str = "claims";

/// What a claim says once all rows of its block are written, for people who read it.
const DONE: &str = "done";

/// A claim beats this many times until it would be stale.
const BEATS: u32 = 6;

/// The time between two looks at the claims of others: at first, and at most.
const LOOK: Duration = Duration::from_millis(250);
const LONGEST_LOOK: Duration = Duration::from_secs(8);

/// How often a process that waits looks whether it is interrupted.
const ALERT: Duration = Duration::from_millis(250);

/// How long others wait for a claim to beat, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClaimPatience(u64);

impl ClaimPatience {
    /// The patience in seconds.
    pub fn seconds(seconds: u64) -> Self {
        Self(seconds.max(1))
    }

    fn stale(self) -> Duration {
        Duration::from_secs(self.0)
    }
}

/// A claim of another process, as it was last seen to change.
#[derive(Debug)]
struct SeenClaim {
    attempt: u32,
    text: String,
    since: Instant,
}

/// The blocks that a process runs because it claims them.
#[derive(Debug)]
pub(super) struct Claims<'a> {
    place: &'a SharedPlace<'a>,
    folder: PathBuf,
    /// The blocks in the order in which this process tries them.
    order: Vec<usize>,
    /// Those that need no more work.
    done: BTreeSet<usize>,
    seen: BTreeMap<usize, SeenClaim>,
    patience: ClaimPatience,
    heart: Heart,
}

impl<'a> Claims<'a> {
    /// Claims on the blocks of a run with `blocks` blocks that are not `done`.
    ///
    /// # Errors
    /// Names the folder that cannot be made, or if the system refuses a thread.
    pub(super) fn new(
        place: &'a SharedPlace<'a>,
        blocks: usize,
        done: BTreeSet<usize>,
        patience: ClaimPatience,
    ) -> Result<Self> {
        let folder = place.path.join(FOLDER);
        let cannot = || format!("cannot make the folder {}", folder.display());
        fs::create_dir_all(&folder).with_context(cannot)?;
        let name = unique();
        // Processes begin at different blocks, so that they seldom try the same one.
        let spread = name
            .bytes()
            .fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(byte)));
        let mut order = (0..blocks).collect::<Vec<_>>();
        order.rotate_left(spread % blocks.max(1));
        let heart = Heart::begin(name, patience.stale() / BEATS)?;
        Ok(Self { place, folder, order, done, seen: BTreeMap::new(), patience, heart })
    }

    /// The number of claims that were made on each block.
    fn attempts(&self) -> Result<BTreeMap<usize, u32>> {
        let cannot = || format!("cannot read {}", self.folder.display());
        let mut attempts = BTreeMap::new();
        for entry in fs::read_dir(&self.folder).with_context(cannot)? {
            let name = entry.with_context(cannot)?.file_name();
            let name = name.to_string_lossy();
            let Some((block, attempt)) = name.split_once('.') else { continue };
            let numbers = (block.parse::<usize>(), attempt.parse::<u32>());
            if let (Ok(block), Ok(attempt)) = numbers {
                let most = attempts.entry(block).or_default();
                *most = attempt.max(*most);
            }
        }
        Ok(attempts)
    }

    /// Makes a claim; false if another process was first.
    fn claim(&mut self, block: usize, attempt: u32) -> Result<bool> {
        let path = path(&self.folder, block, attempt);
        let made = made(&path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(made.map(|file| self.heart.hold(file)).is_some())
    }

    /// Claims a block that nobody has claimed; `None` if there is none.
    fn claim_free(&mut self) -> Result<Option<usize>> {
        let mut attempts = self.attempts()?;
        loop {
            let free = |block: &&usize| !self.done.contains(block) && !attempts.contains_key(block);
            let Some(block) = self.order.iter().find(free).copied() else { return Ok(None) };
            if self.claim(block, 1)? {
                return Ok(Some(block));
            }
            // Others are about: look again.
            attempts = self.attempts()?;
            attempts.entry(block).or_insert(1);
        }
    }

    /// Claims a block whose claim is stale; `None` if there is none. Rows that stand are what
    /// makes a block done, not what its claim says: a folder may have been lost since.
    fn take_over(&mut self) -> Result<Option<usize>> {
        let attempts = self.attempts()?;
        self.done.extend(self.place.done_elsewhere(None)?);
        for block in self.open() {
            let Some(&attempt) = attempts.get(&block) else { continue };
            // A claim that cannot be read now can be read later, or is stale.
            let text = fs::read_to_string(path(&self.folder, block, attempt)).unwrap_or_default();
            let same = |seen: &&SeenClaim| seen.attempt == attempt && seen.text == text;
            match self.seen.get(&block).filter(same) {
                None => {
                    self.seen.insert(block, SeenClaim { attempt, text, since: Instant::now() });
                }
                Some(seen) => {
                    let stale = seen.since.elapsed() >= self.patience.stale();
                    if stale && self.claim(block, attempt + 1)? {
                        return Ok(Some(block));
                    }
                }
            }
        }
        Ok(None)
    }
}

/// The file of a claim, newly made; `None` if there is one.
fn made(path: &Path) -> io::Result<Option<File>> {
    match File::options().write(true).create_new(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
        made => made.map(Some),
    }
}

/// Where the file of a claim is.
fn path(folder: &Path, block: usize, attempt: u32) -> PathBuf {
    folder.join(format!("{block:08}.{attempt}"))
}

impl BlockWork for Claims<'_> {
    fn open(&self) -> Vec<usize> {
        self.order.iter().filter(|block| !self.done.contains(block)).copied().collect()
    }

    /// The next block; waits while others work on all that are left, in case one of them
    /// stops.
    fn next(&mut self, interrupted: &AtomicBool) -> Result<Option<usize>> {
        let mut look = LOOK;
        while !interrupted.load(Ordering::Relaxed) {
            if let Some(block) = self.claim_free()? {
                return Ok(Some(block));
            }
            if let Some(block) = self.take_over()? {
                return Ok(Some(block));
            }
            if self.order.iter().all(|block| self.done.contains(block)) {
                return Ok(None);
            }
            let until = Instant::now() + look;
            while Instant::now() < until && !interrupted.load(Ordering::Relaxed) {
                thread::sleep(ALERT);
            }
            look = (2 * look).min(LONGEST_LOOK);
        }
        Ok(None)
    }

    fn done(&mut self, block: usize) -> Result<()> {
        self.done.insert(block);
        self.heart.let_go();
        Ok(())
    }
}

/// The claim that a process holds.
#[derive(Debug)]
struct HeldClaim {
    file: File,
    beat: u64,
}

impl HeldClaim {
    /// Rewrites the claim. It is not made anew: should it be lost, the next one is another
    /// file. A failure to write only makes it look stale.
    fn write(&mut self, name: &str, word: &str) {
        let text = format!("{name} {word:>20}\n");
        let _ =
            self.file.seek(SeekFrom::Start(0)).and_then(|_| self.file.write_all(text.as_bytes()));
        let _ = self.file.sync_data();
    }
}

/// Lets the held claim beat.
#[derive(Debug)]
struct Heart {
    name: String,
    held: Arc<Mutex<Option<HeldClaim>>>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Heart {
    fn begin(name: String, interval: Duration) -> Result<Self> {
        let held = Arc::new(Mutex::new(None::<HeldClaim>));
        let (stop, stopped) = mpsc::channel();
        let (beating, own) = (Arc::clone(&held), name.clone());
        let beat = move || {
            while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                let mut held = beating.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(claim) = &mut *held {
                    claim.beat += 1;
                    let beat = claim.beat.to_string();
                    claim.write(&own, &beat);
                }
            }
        };
        let thread = thread::Builder::new().name("claims".to_owned()).spawn(beat);
        let thread = thread.context("the system refuses the thread that keeps claims alive")?;
        Ok(Self { name, held, stop: Some(stop), thread: Some(thread) })
    }

    /// Keeps a new claim alive.
    fn hold(&self, file: File) {
        let mut claim = HeldClaim { file, beat: 0 };
        claim.write(&self.name, "0");
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = Some(claim);
    }

    /// Says that the block of the claim is done.
    fn let_go(&self) {
        if let Some(mut claim) = self.held.lock().unwrap_or_else(PoisonError::into_inner).take() {
            claim.write(&self.name, DONE);
        }
    }
}

impl Drop for Heart {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_made_once_however_many_try() {
        let folder = tempfile::tempdir().unwrap();
        for block in 0..200 {
            let path = path(folder.path(), block, 1);
            let tries = [(); 8].map(|()| {
                let path = path.clone();
                thread::spawn(move || made(&path).unwrap())
            });
            let winners = tries.map(|one| one.join().unwrap().is_some());
            assert_eq!(winners.iter().filter(|won| **won).count(), 1, "block {block}");
        }
    }

    #[test]
    fn a_held_claim_beats_until_its_block_is_done() {
        let folder = tempfile::tempdir().unwrap();
        let path = path(folder.path(), 5, 1);
        let read = || fs::read_to_string(&path).unwrap();
        let heart = Heart::begin("somebody".to_owned(), Duration::from_millis(1)).unwrap();
        heart.hold(made(&path).unwrap().unwrap());
        let (text, since) = (read(), Instant::now());
        while read() == text {
            assert!(since.elapsed() < Duration::from_secs(60), "it does not beat: {text}");
            thread::sleep(Duration::from_millis(1));
        }
        heart.let_go();
        assert_eq!(read().split_whitespace().collect::<Vec<_>>(), ["somebody", DONE]);
        thread::sleep(Duration::from_millis(20));
        assert!(read().contains(DONE));
    }

    #[test]
    fn a_claim_that_cannot_be_made_is_an_error_and_not_lost() {
        let folder = tempfile::tempdir().unwrap();
        let nowhere = path(&folder.path().join("gone"), 3, 1);
        assert_eq!(made(&nowhere).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}

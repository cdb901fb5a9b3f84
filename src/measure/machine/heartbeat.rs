//! A thread that notices when the whole process stood still.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::{THIS_THREAD, core_times};

/// The time between two beats. A beat takes about 10 µs where every core computes, and 50 µs where
/// a core has to wake up: all of them take 0.1 to 0.5 % of one core.
const BEAT: Duration = Duration::from_millis(10);
/// A beat that is less late than this counts as on time: where every core computes, the system's
/// scheduler may let a thread that wakes up wait for a tick, 10 ms at most.
const GRACE: Duration = Duration::from_millis(20);

/// A thread that should run every 10 ms. Only something that holds up the whole process delays it
/// for long; a thread that waits, for a GPU perhaps, does not.
#[derive(Debug)]
pub(super) struct Heartbeat {
    /// None where the system refused to start the thread, and on systems that do not show why a
    /// thread waits.
    beats: Option<Arc<Mutex<Beats>>>,
    /// The thread ends when this is dropped.
    _end: Sender<()>,
}

impl Default for Heartbeat {
    fn default() -> Self {
        let (end, ended) = mpsc::channel();
        let beats = Arc::new(Mutex::new(Beats::new(Instant::now())));
        let own = Arc::clone(&beats);
        let beat = move || {
            let mut times = OwnTimes::open();
            while ended.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
                let waited = times.waited();
                own.lock().beat(Instant::now(), waited);
            }
        };
        let builder = thread::Builder::new().name("heartbeat".to_owned());
        let started = cfg!(target_os = "linux") && builder.spawn(beat).is_ok();
        Self { beats: started.then_some(beats), _end: end }
    }
}

/// The `schedstat` of a thread. It stays open, since opening it takes longer than a beat.
struct OwnTimes(Option<File>);

impl OwnTimes {
    /// That of the calling thread.
    fn open() -> Self {
        Self(File::open(Path::new(THIS_THREAD).join("schedstat")).ok())
    }

    /// How long the thread has waited for a core.
    fn waited(&mut self) -> Duration {
        let mut bytes = [0; 128];
        let read = self.0.as_mut().and_then(|file| {
            file.rewind().ok()?;
            file.read(&mut bytes).ok()
        });
        let text = str::from_utf8(&bytes[..read.unwrap_or(0)]).unwrap_or_default();
        core_times(text)[1]
    }
}

/// Times by which beats were late.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Late {
    pub(super) all: Duration,
    /// The part for which the thread did not wait for a core.
    pub(super) still: Duration,
}

impl Heartbeat {
    /// The time by which its beats were late so far, the beat that is due included.
    pub(super) fn late(&self) -> Late {
        self.beats.as_ref().map_or_else(Late::default, |beats| {
            let beats = beats.lock();
            // How long the thread has waited is known when it runs.
            beats.late(Instant::now(), beats.waited)
        })
    }
}

#[derive(Debug)]
struct Beats {
    last: Instant,
    /// The time for which the thread had waited for a core then.
    waited: Duration,
    late: Late,
}

impl Beats {
    fn new(now: Instant) -> Self {
        Self { last: now, waited: Duration::ZERO, late: Late::default() }
    }

    fn late(&self, now: Instant, waited: Duration) -> Late {
        let late = now.saturating_duration_since(self.last).saturating_sub(BEAT);
        if late <= GRACE {
            return self.late;
        }
        let still = late.saturating_sub(waited.saturating_sub(self.waited));
        Late { all: self.late.all + late, still: self.late.still + still }
    }

    fn beat(&mut self, now: Instant, waited: Duration) {
        *self = Self { late: self.late(now, waited), last: now, waited };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: a beat that is a little late counts; the time between beats counts as late; a
    /// beat that is still due is not counted, or is counted twice when it comes; a thread that
    /// waits for a core counts as stopped.
    #[test]
    fn only_beats_that_are_much_too_late_count() {
        let (begin, ms) = (Instant::now(), Duration::from_millis);
        let at = |at| begin + ms(at);
        let mut beats = Beats::new(begin);
        for (now, waited) in [(10, 0), (21, 1), (51, 21)] {
            beats.beat(at(now), ms(waited));
        }
        assert_eq!(beats.late(at(81), ms(21)), Late::default());
        let late = Late { all: ms(1000), still: ms(1000) };
        assert_eq!(beats.late(at(1061), ms(21)), late);
        beats.beat(at(1061), ms(36));
        beats.beat(at(1071), ms(36));
        let late = Late { still: ms(985), ..late };
        assert_eq!(beats.late(at(1071), ms(36)), late);
        let late = Late { all: ms(1031), still: ms(1016) };
        assert_eq!(beats.late(at(1112), ms(36)), late);
    }
}

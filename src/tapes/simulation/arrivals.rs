//! When requests arrive.

use rand::Rng;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

/// How requests arrive.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Arrivals {
    /// Independently of each other (a Poisson process), with this number per second; all at once if
    /// it is infinite.
    Rate(f64),
    /// From this number of clients. Each sends its next request when its last one is done.
    Clients(usize),
}

impl Arrivals {
    /// The columns `rate` and `clients`.
    pub(super) fn columns(self) -> (Option<f64>, Option<usize>) {
        match self {
            Self::Rate(rate) => (Some(rate), None),
            Self::Clients(clients) => (None, Some(clients)),
        }
    }
}

/// Requests, in the order in which they are taken.
#[derive(Debug, Clone)]
pub(super) struct RequestQueue {
    /// The index of a sequence, and when the request arrives, in ms; none for one that waits for a
    /// client.
    requests: Vec<(usize, Option<f64>)>,
    next: usize,
}

impl RequestQueue {
    /// `requests` requests for some sequences: all in random order before one is requested again.
    pub(super) fn new(sequences: usize, requests: usize, arrivals: Arrivals, seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut order = Vec::with_capacity(requests + sequences);
        while order.len() < requests && sequences > 0 {
            let begin = order.len();
            order.extend(0..sequences);
            shuffle(&mut order[begin..], &mut rng);
        }
        order.truncate(requests);
        let mut now = 0.0;
        let mut comes = |number: usize| match arrivals {
            Arrivals::Rate(rate) => {
                now += -(1.0 - uniform(&mut rng)).ln() * 1000.0 / rate;
                Some(now)
            }
            Arrivals::Clients(clients) => (number < clients).then_some(0.0),
        };
        let requests = order.into_iter().enumerate();
        Self { requests: requests.map(|(n, sequence)| (sequence, comes(n))).collect(), next: 0 }
    }

    /// The next request with its number, sequence and arrival, if it has arrived by now.
    pub(super) fn take(&mut self, now: f64) -> Option<(usize, usize, f64)> {
        let (sequence, comes) = *self.requests.get(self.next)?;
        let comes = comes.filter(|&comes| comes <= now)?;
        self.next += 1;
        Some((self.next - 1, sequence, comes))
    }

    /// Whether all requests were taken.
    pub(super) fn is_empty(&self) -> bool {
        self.next == self.requests.len()
    }

    /// When the next request arrives; `None` if it waits for a client, or there is none.
    pub(super) fn next_at(&self) -> Option<f64> {
        self.requests.get(self.next).and_then(|(_, comes)| *comes)
    }

    /// Notes that a client's request is done: the client sends the next one.
    pub(super) fn done(&mut self, now: f64) {
        let mut waiting = self.requests[self.next..].iter_mut();
        if let Some((_, comes)) = waiting.find(|(_, comes)| comes.is_none()) {
            *comes = Some(now);
        }
    }
}

/// Shuffles a list (Fisher and Yates). The order does not depend on the version of a library.
pub(super) fn shuffle<T>(list: &mut [T], rng: &mut ChaCha8Rng) {
    for last in (1..list.len()).rev() {
        list.swap(last, (uniform(rng) * (last + 1) as f64) as usize);
    }
}

/// A draw from [0, 1).
pub(super) fn uniform(rng: &mut ChaCha8Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

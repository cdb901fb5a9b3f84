//! Pseudo-random draws, addressable and stable across versions.

use std::ops::Range;

use rand::Rng;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use sha2::{Digest, Sha256};

use super::{Chance, Site};
use crate::core::distribution::{Dist, Token};

/// The request that a stream of random numbers belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// Seed of the experiment.
    pub seed: u64,
    /// Identifier of the prompt.
    pub prompt: &'a str,
    /// The repeat of the prompt, from 0.
    pub repeat: u32,
}

/// ChaCha8 used as a random-access table: the key is the request, the stream
/// the round, the word position the site. The values are part of the format of
/// published results and never change (see the value-stability test).
#[derive(Debug, Clone)]
pub struct Seeded {
    rng: ChaCha8Rng,
    round: u64,
}

/// Streams from this number on hold position-keyed noise; the streams below hold rounds.
const RACE_STREAMS: u64 = 1 << 63;

impl Seeded {
    /// The random numbers of one request.
    pub fn new(request: Request<'_>) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"specdec chance 1\0");
        hash.update(request.seed.to_le_bytes());
        hash.update(request.repeat.to_le_bytes());
        hash.update(request.prompt.as_bytes());
        Self { rng: ChaCha8Rng::from_seed(hash.finalize().into()), round: 0 }
    }

    /// A uniform number in `[0, 1)` with 53 bits, for one site of the current round.
    pub(crate) fn uniform(&mut self, site: Site) -> f64 {
        // Purposes are 2^40 words apart, nodes four words: no overlap.
        let word = ((site.purpose as u128) << 40) + (site.node as u128) * 4;
        self.open(self.round);
        self.rng.set_word_pos(word);
        unit(self.rng.next_u64())
    }

    /// Switches to a stream. It first moves to the start of a block, where the generator has no
    /// buffered words that it would have to recompute for the new stream.
    fn open(&mut self, stream: u64) {
        self.rng.set_word_pos(0);
        self.rng.set_stream(stream);
    }
}

fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

impl Chance for Seeded {
    fn begin_round(&mut self, round: u64) {
        self.round = round;
    }

    fn bernoulli(&mut self, site: Site, p: f64) -> bool {
        self.uniform(site) < p
    }

    fn categorical(&mut self, site: Site, dist: &Dist) -> Token {
        let u = self.uniform(site);
        dist.quantile(u)
    }

    fn race(&mut self, position: usize, lists: Range<usize>, dist: &Dist) -> Token {
        self.open(RACE_STREAMS + position as u64);
        let mut best = (dist.argmax(), f64::INFINITY);
        for list in lists {
            let mut next = None;
            for (token, p) in dist.support() {
                // Consecutive tokens read consecutive words; a gap in the support needs
                // a jump.
                if next != Some(token) {
                    self.rng.set_word_pos(((list as u128) << 40) + u128::from(token) * 2);
                }
                next = Some(token + 1);
                // The library's logarithm has the same bits on every processor.
                let arrival = -libm::log(1.0 - unit(self.rng.next_u64())) / p;
                if arrival < best.1 {
                    best = (token, arrival);
                }
            }
        }
        best.0
    }
}

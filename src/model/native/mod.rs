//! Our own engine for decoders on the CPU.
//!
//! Its logits are *row-invariant*: the logits of a token given its prefix have the same
//! bits for any number of rows in a pass, any draft tree, any number of threads and any
//! instruction set. Verifying a draft therefore gives exactly the logits of plain
//! decoding.

mod attention;
mod cache;
mod elementwise;
mod head;
mod kernels;
mod matrix;
mod memory;
mod pass;
mod plane;
mod segments;
mod teams;
mod weights;
mod workspace;

pub use kernels::PackedMatrix;
#[cfg(feature = "harness")]
pub(crate) use memory::large_pages;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use self::cache::NativeCache;
use self::teams::{SMALL, Teams};
use self::weights::ModelWeights;
use self::workspace::Workspace;
use super::decoder::{Config, Tensors, masked};
use super::{Dtype, Evaluation, Feed, LanguageModel, ModelInfo, Session, Step, Work};
use crate::distribution::Token;
use crate::error::Error;
use crate::lanes::IsaKind;
use crate::pool::Pool;
use crate::sampling::{ForEachRow, Logits};
use crate::tree::MAX_NODES;

/// Maximum number of rows computed at once: a longer prompt is processed in pieces.
const CHUNK: usize = 256;

/// A model.
#[derive(Debug)]
pub(super) struct Native {
    info: ModelInfo,
    config: Config,
    weights: ModelWeights,
    /// Ids below `vocab` that the tokenizer does not use: their logits are −inf.
    unused: Vec<Token>,
    isa: IsaKind,
    pool: Arc<Pool>,
    teams: Teams,
    space: Mutex<Workspace>,
}

/// The context after which [`Native::with_fastest_teams`] times passes, in tokens.
const TRIED_CONTEXT: usize = 64;

impl Native {
    /// Packs the weights from `tensors`, by their names in a checkpoint.
    ///
    /// # Errors
    /// Those of `tensors`, and if memory cannot be allocated.
    pub(super) fn load(
        info: ModelInfo,
        config: Config,
        unused: Vec<Token>,
        dtype: Dtype,
        tensors: &dyn Tensors,
        (isa, pool): (IsaKind, Arc<Pool>),
    ) -> Result<Self, Error> {
        let weights = ModelWeights::load(&config, info.vocab, (isa, dtype), tensors)?;
        let info = ModelInfo { sha256: tensors.sha256()?, ..info };
        let space = Mutex::new(Workspace::new(pool.threads()));
        let teams = Teams::always(pool.threads());
        Ok(Self { info, config, weights, unused, isa, pool, teams, space })
    }

    /// The same model, with as many threads for each pass as are fastest, by a few passes of
    /// one row and more over an empty cache.
    #[must_use]
    pub(super) fn with_fastest_teams(mut self) -> Self {
        if self.pool.threads() == 1 || self.info.bytes_per_token > SMALL {
            return self;
        }
        let mut cache = self.new_cache();
        let mut space = self.space.lock().unwrap_or_else(PoisonError::into_inner);
        let time = |rows, threads| self.time(&mut space, &mut cache, rows, threads);
        let teams = Teams::fastest(self.pool.threads(), time);
        drop(space);
        self.teams = teams;
        self
    }

    /// The shortest time of a few passes in a row. As in a draft, each finds the caches as the
    /// one before left them.
    fn time(
        &self,
        space: &mut Workspace,
        cache: &mut NativeCache,
        rows: usize,
        threads: usize,
    ) -> Duration {
        let next =
            |slot| Feed { token: 0, slot, position: slot, prefix: slot + 1, ancestors: vec![] };
        let feed = (TRIED_CONTEXT..TRIED_CONTEXT + rows).map(next).collect::<Vec<_>>();
        let wanted = (0..rows).collect::<Vec<_>>();
        // A worker that is excluded for a while would make its help look useless for good.
        self.pool.forgive();
        let times = (0..4).map(|_| {
            let start = Instant::now();
            self.pass(space, cache, (&feed, &wanted), threads);
            start.elapsed()
        });
        times.skip(1).min().unwrap_or_default()
    }

    fn new_cache(&self) -> NativeCache {
        let Config { layers, kv_heads, head_dim, .. } = &self.config;
        NativeCache::new(layers.len(), (*kv_heads, *head_dim), self.info.cache_dtype)
    }

    fn run(&self, cache: &mut NativeCache, step: &Step) -> Vec<Logits> {
        let mut space = self.space.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rows = Vec::with_capacity(step.rows.len());
        for (feed, wanted) in step.pieces(CHUNK) {
            self.pass(&mut space, cache, (feed, &wanted), self.teams.threads(feed.len()));
            let logits = space.logits.get_mut().chunks_exact(self.info.vocab);
            let logits = logits.take(wanted.len());
            rows.extend(logits.map(|row| masked(row.to_vec(), &self.unused)));
        }
        rows
    }

    /// Computes the tokens of `feed` on the first `threads` threads; the logits of the rows
    /// `wanted` are then in the workspace.
    fn pass(
        &self,
        space: &mut Workspace,
        cache: &mut NativeCache,
        (feed, wanted): (&[Feed], &[usize]),
        threads: usize,
    ) {
        cache.reserve(feed.iter().map(|f| f.slot + 1).max().unwrap_or(0));
        let logits = wanted.len() * self.info.vocab;
        space.reserve((&self.config, &self.weights), feed.len(), logits);
        for (row, f) in space.x.get_mut().chunks_exact_mut(self.config.hidden).zip(feed) {
            self.weights.embed(f.token as usize, row);
        }
        space.rotate(&self.weights.rotations, feed);
        let pass = pass::Pass { model: self, space, cache, feed, wanted };
        self.pool.run_on(threads, &|worker| pass.run(worker));
    }
}

impl LanguageModel for Native {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn session(&self) -> Result<Session, Error> {
        let positions = self.config.positions;
        Ok(Session::new(Box::new(self.new_cache()), positions + MAX_NODES, positions))
    }

    fn evaluate(&self, work: &mut [Work<'_>]) -> Result<Vec<Evaluation>, Error> {
        Session::evaluate_each(work, |cache, step| Ok(self.run(cache, step)))
    }

    fn threads(&self, rows: usize) -> usize {
        self.teams.threads(rows)
    }

    fn cache_bytes_per_token(&self) -> usize {
        self.config.cache_bytes(self.info.cache_dtype)
    }

    fn for_each_row(&self) -> ForEachRow {
        ForEachRow(Pool::for_each_row)
    }
}

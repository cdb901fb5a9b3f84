//! Our own engine for decoders on the CPU.
//!
//! Its logits are *row-invariant*: the logits of a token given its prefix have the same
//! bits for any number of rows in a pass, any draft tree, any number of threads and any
//! instruction set. Verifying a draft therefore gives exactly the logits of plain
//! decoding.

mod angles;
mod assignment;
mod attention;
mod attention_kernels;
mod batch;
mod block;
mod block_pass;
mod block_rows;
mod cache;
mod elementwise;
mod first_layers;
mod front;
mod head;
mod head_pass;
mod head_weights;
mod input_weights;
mod kernels;
mod kv_store;
mod markov;
mod matrix;
mod medusa;
mod memory;
mod packer;
mod pass;
mod per_layer;
mod plane;
mod products;
mod query_block;
mod segments;
mod sparse;
mod teams;
mod weights;
mod workspace;

pub(crate) use block::NativeBlock;
pub(crate) use first_layers::NativeFirstLayers;
pub(crate) use head::{NativeHead, TargetTables};
pub use kernels::PackedMatrix;
pub(crate) use medusa::NativeMedusa;
#[cfg(feature = "harness")]
pub(crate) use memory::large_pages;

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use self::batch::{PassRows, passes};
use self::cache::NativeCache;
use self::pass::{Network, Pass, Weighted};
use self::query_block::PassToken;
use self::teams::{SMALL, Teams, fastest_of_few, tried};
use self::weights::ModelWeights;
use self::workspace::Workspace;
use super::Dtype;
use super::decoder::{Config, Tensors, masked};
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::core::lanes::IsaKind;
use crate::core::sampling::ForEachRow;
use crate::core::tree::MAX_NODES;
use crate::engine::pool::Pool;
use crate::model::{
    Computed, Evaluation, LanguageModel, ModelInfo, Part, Session, Step, Tap, Work,
};

/// Maximum number of rows computed at once: a longer prompt is processed in pieces.
const CHUNK: usize = 256;

/// A model.
#[derive(Debug)]
pub(crate) struct Native {
    info: ModelInfo,
    config: Config,
    weights: Arc<ModelWeights>,
    /// Ids below `vocab` that the tokenizer does not use: their logits are −inf.
    unused: Vec<Token>,
    isa: IsaKind,
    pool: Arc<Pool>,
    teams: Teams,
    space: Mutex<Workspace>,
}

impl Native {
    /// Packs the weights from `tensors`, by their names in a checkpoint.
    pub(crate) fn load(
        info: ModelInfo,
        config: Config,
        unused: Vec<Token>,
        dtype: Dtype,
        tensors: &dyn Tensors,
        (isa, pool): (IsaKind, Arc<Pool>),
    ) -> Result<Self, Error> {
        let weights = Arc::new(ModelWeights::load(&config, info.vocab, (isa, dtype), tensors)?);
        let info = ModelInfo { sha256: tensors.sha256()?, ..info };
        let space = Mutex::new(Workspace::new(pool.threads()));
        let teams = Teams::always(pool.threads());
        Ok(Self { info, config, weights, unused, isa, pool, teams, space })
    }

    /// A model that shares the weights of another one.
    pub(super) fn of_tables(info: ModelInfo, tables: TargetTables) -> Self {
        let TargetTables { config, weights, unused, isa, pool } = tables;
        let space = Mutex::new(Workspace::new(pool.threads()));
        let teams = Teams::always(pool.threads());
        Self { info, config, weights, unused, isa, pool, teams, space }
    }

    /// The same model, with as many threads for each pass as are fastest, by a few passes of
    /// one row and more over an empty cache.
    #[must_use]
    pub(crate) fn with_fastest_teams(mut self) -> Self {
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

    /// The shortest time of a few passes in a row.
    fn time(
        &self,
        space: &mut Workspace,
        cache: &mut NativeCache,
        rows: usize,
        threads: usize,
    ) -> Duration {
        let (feed, wanted) = (tried(rows), (0..rows).collect::<Vec<_>>());
        // A worker that is excluded for a while would make its help look useless for good.
        self.pool.forgive();
        fastest_of_few(|| {
            cache.reserve(feed.iter().map(|feed| feed.slot + 1).max().unwrap_or(0));
            let tokens = feed.iter().map(|feed| PassToken::new(feed, cache)).collect::<Vec<_>>();
            self.pass(space, (Part::All, &[]), &tokens, (&wanted, &[]), threads);
        })
    }

    fn new_cache(&self) -> NativeCache {
        NativeCache::new(&self.config, self.info.cache_dtype)
    }

    /// Computes the steps of some sequences.
    fn run(&self, sequences: &mut [(&mut NativeCache, &Step)]) -> Vec<Computed> {
        let mut space = self.space.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = Vec::with_capacity(sequences.len());
        found.resize_with(sequences.len(), Computed::default);
        let lengths = sequences.iter().map(|(_, step)| step.feed.len()).collect::<Vec<_>>();
        let taps = all_taps(sequences.iter().map(|(_, step)| &*step.taps));
        let part = sequences.first().map_or(Part::All, |(_, step)| step.part);
        for parts in passes(&lengths, CHUNK) {
            let (mut first, mut wanted, mut whose) = (0, Vec::new(), Vec::new());
            for PassRows { sequence, rows } in &parts {
                let (cache, step) = &mut sequences[*sequence];
                let slots = step.feed[rows.clone()].iter().map(|feed| feed.slot);
                cache.own_from(slots.clone().min().unwrap_or(usize::MAX));
                cache.reserve(slots.max().map_or(0, |slot| slot + 1));
                for row in step.rows.iter().filter(|row| rows.contains(row)) {
                    wanted.push(first + row - rows.start);
                    whose.push(*sequence);
                }
                first += rows.len();
            }
            let tokens = parts.iter().flat_map(|PassRows { sequence, rows }| {
                let (cache, step) = &sequences[*sequence];
                step.feed[rows.clone()].iter().map(|feed| PassToken::new(feed, cache))
            });
            let tokens = tokens.collect::<Vec<_>>();
            let threads = self.teams.threads(tokens.len());
            let inputs = self.inputs(&parts, sequences);
            self.pass(&mut space, (part, &inputs), &tokens, (&wanted, &taps), threads);
            let logits = space.logits.get_mut().chunks_exact(self.info.vocab);
            for (row, sequence) in logits.zip(whose) {
                found[sequence].logits.push(masked(row.to_vec(), &self.unused));
            }
            let experts = space.distinct_experts();
            parts.iter().for_each(|part| found[part.sequence].experts += experts);
            if !taps.is_empty() {
                let whose =
                    parts.into_iter().flat_map(|part| part.rows.map(move |_| part.sequence));
                for (row, sequence) in whose.enumerate() {
                    for tap in &sequences[sequence].1.taps {
                        let state = self.state(&mut space, (&taps, *tap), (row, first));
                        found[sequence].states.extend_from_slice(state);
                    }
                }
            }
        }
        found
    }

    fn network(&self, part: Part) -> Network<'_> {
        let weights = &*self.weights;
        let (layers, below) = match part {
            Part::All => (&weights.layers[..], 0),
            Part::First(most) => (&weights.layers[..most], 0),
            Part::Rest(below) => (&weights.layers[below..], below),
        };
        Network {
            config: &self.config,
            isa: self.isa,
            layers,
            below,
            memory: &weights.memory,
            norm: Some(&weights.norm),
            head: Weighted { memory: &weights.memory, linear: &weights.head },
            vocab: self.info.vocab,
            per_layer: weights.per_layer.as_ref(),
            front: None,
        }
    }

    /// The hidden state at a tap, of row `row` of the `rows` that a pass with `taps` computed.
    fn state<'s>(
        &self,
        space: &'s mut Workspace,
        (taps, tap): (&[Tap], Tap),
        (row, rows): (usize, usize),
    ) -> &'s [f32] {
        let (place, width) = (taps.partition_point(|&other| other < tap), self.config.hidden);
        let at = (place * rows + row) * width;
        &space.taps.get_mut()[at..at + width]
    }

    /// The states that the rows of a pass continue from; none where they begin with embeddings.
    fn inputs(&self, parts: &[PassRows], sequences: &[(&mut NativeCache, &Step)]) -> Vec<f32> {
        let width = self.config.hidden;
        let mut inputs = Vec::new();
        for PassRows { sequence, rows } in parts {
            let step = sequences[*sequence].1;
            let states = step.inputs.get(rows.start * width..rows.end * width);
            inputs.extend_from_slice(states.unwrap_or_default());
        }
        inputs
    }

    /// Computes layers of the tokens of some sequences, whose caches have room for them, on the first
    /// `threads` threads; the logits of the rows `wanted`, and the hidden states of all rows at
    /// `taps`, are then in the workspace.
    fn pass(
        &self,
        space: &mut Workspace,
        (part, inputs): (Part, &[f32]),
        tokens: &[PassToken<'_>],
        (wanted, taps): (&[usize], &[Tap]),
        threads: usize,
    ) {
        let positions = tokens.iter().map(|row| row.feed.position).collect::<Vec<_>>();
        let (rows, logits) = (positions.len(), wanted.len() * self.info.vocab);
        space.reserve((&self.config, self.weights.words_per_row), (rows, taps.len()), logits);
        space.x.get_mut()[..inputs.len()].copy_from_slice(inputs);
        let fresh = space.x.get_mut().chunks_exact_mut(self.config.hidden).zip(tokens);
        for (row, token) in fresh.filter(|_| inputs.is_empty()) {
            self.weights.embed(token.feed.token as usize, row);
            self.weights.add_position(token.feed.position, row);
        }
        let embedded = space.embedded.get_mut().chunks_exact_mut(self.config.hidden).zip(tokens);
        for (row, token) in embedded.filter(|_| self.weights.per_layer.is_some()) {
            self.weights.embed(token.feed.token as usize, row);
        }
        space.rotate(&self.weights.rotations, &positions);
        let pass = Pass { net: self.network(part), space, tokens, rows, wanted, taps };
        self.pool.run_on(threads, &|worker| pass.run(worker));
    }
}

/// All of these taps, ascending, each once.
fn all_taps<'t>(taps: impl Iterator<Item = &'t [Tap]>) -> Vec<Tap> {
    let mut all = taps.flatten().copied().collect::<Vec<_>>();
    all.sort_unstable();
    all.dedup();
    all
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
        Session::evaluate_together(work, |sequences| Ok(self.run(sequences)))
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

    fn tables(&self) -> Option<Box<dyn Any>> {
        let (weights, pool) = (Arc::clone(&self.weights), Arc::clone(&self.pool));
        let (unused, isa) = (self.unused.clone(), self.isa);
        let config = self.config.clone();
        Some(Box::new(TargetTables { config, weights, unused, isa, pool }))
    }
}

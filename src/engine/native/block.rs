//! Heads that draft a block in one pass, on our own engine (Chen et al. 2026, DFlash, arXiv
//! 2602.06036; DSpark).
//!
//! The committed tokens enter as keys and values alone: each layer projects the same fused features.
//! The rows of the block, the last committed token and masks, pass through the layers and see all of
//! the context and one another. They are dropped after the pass.

use std::sync::{Arc, PoisonError};

use super::CHUNK;
use super::block_rows::{BlockFront, BlockRows};
use super::cache::NativeCache;
use super::front::Front;
use super::head::{NativeHead, TargetTables};
use super::markov::Bias;
use super::pass::{Network, Pass};
use super::query_block::PassToken;
use super::teams::{SMALL, Teams, fastest_of_few, tried};
use super::workspace::Workspace;
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::core::sampling::ForEachRow;
use crate::engine::Dtype;
use crate::engine::decoder::{BlockShape, Drafting, HeadConfig, Tensors, mask_embedding};
use crate::engine::pool::Pool;
use crate::model::{
    Block, BlockPrediction, BlockRow, BlockStart, BlockStep, Evaluation, LanguageModel, ModelInfo,
    Session, Tap, Work,
};

/// A head that drafts a block.
#[derive(Debug)]
pub(crate) struct NativeBlock {
    head: NativeHead,
    shape: BlockShape,
    /// The embedding of masks, if it is not that of their token.
    mask: Option<Vec<f32>>,
    bias: Bias,
    teams: Teams,
}

/// The part of a sequence in a pass.
struct Piece {
    sequence: usize,
    /// Context tokens, by their places in its step.
    rows: std::ops::Range<usize>,
    /// Whether its block is in the pass.
    block: bool,
}

impl NativeBlock {
    /// Packs the weights of a head from `tensors`, as [`NativeHead::load`].
    pub(crate) fn load(
        info: ModelInfo,
        config: HeadConfig,
        dtype: Dtype,
        tensors: &dyn Tensors,
        target: &TargetTables,
    ) -> Result<Self, Error> {
        let Drafting::Block(shape) = config.drafting.clone() else {
            return Err(Error::engine("the head drafts no block"));
        };
        let (name, size) = mask_embedding(config.decoder.hidden);
        let mask = shape.own_mask.then(|| tensors.get(&name, &size)).transpose()?;
        let bias = Bias::load(&config, (&shape, info.vocab), (dtype, target), tensors)?;
        let head = NativeHead::load(info, config, dtype, tensors, target)?;
        let teams = Teams::always(head.pool.threads());
        Ok(Self { head, shape, mask, bias, teams }.with_fastest_teams())
    }

    /// The same head, with as many threads for a pass as are fastest after a context of a few tokens.
    fn with_fastest_teams(mut self) -> Self {
        let pool = &self.head.pool;
        let shared = Arc::ptr_eq(pool, &Pool::shared());
        if !shared || pool.threads() == 1 || self.head.info().bytes_per_token > SMALL {
            return self;
        }
        let mut cache = self.head.new_cache();
        self.teams = Teams::fastest(pool.threads(), |rows, threads| {
            let feed = tried(rows);
            let slot = feed.last().map_or(0, |last| last.slot + 1);
            let features = vec![0.0; rows * self.head.config.features.width];
            let block = Some(BlockStart { anchor: 0, slot, position: slot });
            let step = BlockStep { feed, features, block };
            let mut sequence = [(&mut cache, step)];
            pool.forgive();
            fastest_of_few(|| {
                self.run(&mut sequence, &Teams::always(threads));
            })
        });
        self
    }

    /// Computes contexts and blocks of some sequences.
    fn run(
        &self,
        sequences: &mut [(&mut NativeCache, BlockStep)],
        teams: &Teams,
    ) -> Vec<Option<Block>> {
        let mut space = self.head.space.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = Vec::with_capacity(sequences.len());
        found.resize_with(sequences.len(), || None);
        let needed = sequences.iter().map(|(_, step)| (step.feed.len(), step.block.is_some()));
        for pieces in pieces(&needed.collect::<Vec<_>>(), self.shape.rows) {
            for piece in &pieces {
                let (cache, step) = &mut sequences[piece.sequence];
                let own = step.feed[piece.rows.clone()].iter().map(|feed| feed.slot);
                let block = step.block.filter(|_| piece.block).map(|block| block.slot);
                cache.own_from(own.clone().chain(block).min().unwrap_or(usize::MAX));
                let end = block.map(|slot| slot + self.shape.rows);
                cache.reserve(own.map(|slot| slot + 1).chain(end).max().unwrap_or(0));
            }
            self.pass(&mut space, &pieces, (sequences, teams), &mut found);
        }
        found
    }

    /// Computes pieces, whose caches have room for them.
    fn pass(
        &self,
        space: &mut Workspace,
        pieces: &[Piece],
        (sequences, teams): (&[(&mut NativeCache, BlockStep)], &Teams),
        found: &mut [Option<Block>],
    ) {
        let mut rows = BlockRows::new(&self.shape);
        let (mut features, mut anchors, mut caches) = (Vec::new(), Vec::new(), Vec::new());
        for piece in pieces {
            let (cache, step) = &sequences[piece.sequence];
            let width = self.head.config.features.width;
            let numbers = piece.rows.start * width..piece.rows.end * width;
            features.extend_from_slice(&step.features[numbers]);
            let block = step.block.filter(|_| piece.block);
            anchors.extend(block.map(|block| (piece.sequence, block.anchor)));
            rows.add(&self.shape, &step.feed[piece.rows.clone()], block);
            caches.resize(rows.tokens.len(), &**cache);
        }
        let tokens = rows.tokens.iter().zip(&caches);
        let tokens = tokens.map(|(feed, cache)| PassToken::new(feed, cache)).collect::<Vec<_>>();
        let seen = rows.seen(&caches);
        let front = BlockFront { rows: &rows, seen: &seen, weights: &self.head.weights };
        let net = Network { front: Some(Front::Block(front)), ..self.head.network(0) };
        let block =
            |block: usize| self.shape.predicting().map(move |row| block * self.shape.rows + row);
        let wanted = (0..anchors.len()).flat_map(block).collect::<Vec<_>>();
        self.fill(space, &net, &tokens, (&features, &anchors, wanted.len()));
        let taps = if self.bias.reads_states() { &[Tap::Normed][..] } else { &[] };
        let count = rows.places.len();
        let pass = Pass { net, space, tokens: &tokens, rows: count, wanted: &wanted, taps };
        let threads = teams.threads(tokens.len() - count);
        self.head.pool.run_on(threads, &|worker| pass.run(worker));
        let vocab = net.vocab;
        self.collect(space, vocab, &anchors, found);
    }

    /// Takes the blocks out of a pass that has been made.
    fn collect(
        &self,
        space: &mut Workspace,
        vocab: usize,
        anchors: &[(usize, Token)],
        found: &mut [Option<Block>],
    ) {
        let width = self.shape.rows * self.head.config.decoder.hidden;
        let each = space.logits.get_mut().chunks_exact(self.shape.predicting().len() * vocab);
        let states = &*space.taps.get_mut();
        for (place, (logits, (sequence, anchor))) in each.zip(anchors).enumerate() {
            let own = states.get(place * width..(place + 1) * width).unwrap_or_default();
            found[*sequence] = Some(Block {
                logits: logits.chunks_exact(vocab).map(|row| self.head.logits(row)).collect(),
                states: self.bias.states(*anchor, own),
            });
        }
    }

    /// Makes room for a pass, and fills in what its rows begin with.
    fn fill(
        &self,
        space: &mut Workspace,
        net: &Network<'_>,
        tokens: &[PassToken<'_>],
        (features, anchors, wanted): (&[f32], &[(usize, Token)], usize),
    ) {
        let HeadConfig { decoder, features: own, .. } = &self.head.config;
        let words = self.head.weights.words_per_row();
        space.reserve((net.config, words), (tokens.len(), 1), wanted * net.vocab);
        space.reserve_front((net.config, own.width), tokens.len());
        space.features.get_mut()[..features.len()].copy_from_slice(features);
        let mut rows = space.x.get_mut().chunks_exact_mut(decoder.hidden);
        for (_, anchor) in anchors {
            for row in 0..self.shape.rows {
                let Some(x) = rows.next() else { return };
                self.embed(if row == 0 { *anchor } else { self.shape.mask }, x);
            }
        }
        let positions = tokens.iter().map(|row| row.feed.position).collect::<Vec<_>>();
        space.rotate(&self.head.weights.rotations, &positions);
    }

    fn embed(&self, token: Token, x: &mut [f32]) {
        match self.mask.as_ref().filter(|_| token == self.shape.mask) {
            Some(mask) => x.copy_from_slice(mask),
            None => self.head.weights.embed(token as usize, x),
        }
        for x in x {
            *x *= self.head.config.decoder.embedding_scale;
        }
    }

    fn predict(&self, rows: &[BlockRow<'_>]) -> Result<Vec<BlockPrediction>, Error> {
        let mut predictions = Vec::with_capacity(rows.len());
        for row in rows {
            let logits = row.logits()?.clone();
            predictions.push(BlockPrediction { logits, confidence: self.bias.confidence(row) });
        }
        let added = self.bias.rows(rows);
        for (prediction, bias) in
            predictions.iter_mut().zip(added.chunks_exact(self.bias.logits_per_row()))
        {
            self.head.add(bias, &mut prediction.logits);
        }
        Ok(predictions)
    }
}

/// Passes of at most [`CHUNK`] rows over sequences. Of each are given the number of its context
/// tokens to compute, and whether its block is wanted.
fn pieces(needed: &[(usize, bool)], block_rows: usize) -> Vec<Vec<Piece>> {
    let mut passes = vec![Vec::new()];
    let mut left = CHUNK;
    for (sequence, &(length, block)) in needed.iter().enumerate() {
        let own = if block { block_rows } else { 0 };
        let mut begin = 0;
        while begin < length || block {
            let fits = length - begin + own <= left;
            let rows = begin..if fits { length } else { length.min(begin + left) };
            let used = rows.len() + if fits { own } else { 0 };
            begin = rows.end;
            if let Some(pass) = passes.last_mut().filter(|_| used > 0) {
                pass.push(Piece { sequence, rows, block: fits && block });
                left -= used;
            }
            if fits {
                break;
            }
            passes.push(Vec::new());
            left = CHUNK;
        }
    }
    passes.retain(|pass| !pass.is_empty());
    passes
}

impl LanguageModel for NativeBlock {
    fn info(&self) -> &ModelInfo {
        self.head.info()
    }

    fn session(&self) -> Result<Session, Error> {
        self.head.session()
    }

    fn evaluate(&self, work: &mut [Work<'_>]) -> Result<Vec<Evaluation>, Error> {
        let compute = |parts: &mut [Work<'_>]| {
            Session::compute_blocks(parts, |sequences| Ok(self.run(sequences, &self.teams)))
        };
        Session::evaluate_blocks(work, compute, |rows| self.predict(rows))
    }

    fn threads(&self, rows: usize) -> usize {
        self.teams.threads(rows)
    }

    fn cache_bytes_per_token(&self) -> usize {
        self.head.cache_bytes_per_token()
    }

    fn for_each_row(&self) -> ForEachRow {
        self.head.for_each_row()
    }
}

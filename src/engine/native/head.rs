//! Heads on our own engine: the same passes as the target's, over other inputs.

use std::sync::{Arc, Mutex, PoisonError};

use super::CHUNK;
use super::batch::{PassRows, passes};
use super::cache::NativeCache;
use super::front::{Front, FrontKind, Joint};
use super::head_weights::HeadWeights;
use super::pass::{Network, Pass, Weighted};
use super::query_block::PassToken;
use super::teams::{SMALL, Teams, fastest_of_few, tried};
use super::weights::ModelWeights;
use super::workspace::Workspace;
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::core::lanes::IsaKind;
use crate::core::sampling::{ForEachRow, Logits};
use crate::core::tree::MAX_NODES;
use crate::engine::decoder::{Config, Drafting, HeadConfig, HeadInput, Tensors, masked};
use crate::engine::pool::Pool;
use crate::engine::{Dtype, Feedback};
use crate::model::{
    Computed, Evaluation, HeadFault, HeadStep, LanguageModel, ModelInfo, ModelInputs, Session, Tap,
    Work,
};

/// A head on a target of this engine, with whose tables it may compute.
#[derive(Debug)]
pub(crate) struct NativeHead {
    info: ModelInfo,
    pub(super) config: HeadConfig,
    pub(super) weights: HeadWeights,
    /// The feature of masks.
    mask: Option<Vec<f32>>,
    /// Ids of the target that its tokenizer does not use: their logits are −inf.
    unused: Vec<Token>,
    isa: IsaKind,
    pub(super) pool: Arc<Pool>,
    teams: Teams,
    pub(super) space: Mutex<Workspace>,
}

/// What a head shares with its target.
#[derive(Debug, Clone)]
pub(crate) struct TargetTables {
    pub(super) config: Config,
    pub(super) weights: Arc<ModelWeights>,
    pub(super) unused: Vec<Token>,
    pub(super) isa: IsaKind,
    pub(super) pool: Arc<Pool>,
}

impl TargetTables {
    /// Rows of the embedding, padding included.
    pub(crate) fn vocab_rows(&self) -> usize {
        self.config.vocab_rows
    }

    /// Bytes of the matrices of the first `layers` layers, of their inputs and of the head.
    pub(crate) fn bytes_of_first(&self, layers: usize) -> usize {
        let used = self.config.experts_per_row();
        let first = self.weights.layers.iter().take(layers);
        let linears = first.flat_map(|layer| layer.linears(used));
        let inputs = self.weights.per_layer.iter().map(|inputs| &inputs.product);
        let linears = linears.chain(inputs).chain([&self.weights.head]);
        linears.map(|linear| linear.matrix.bytes_in_memory()).sum()
    }
}

impl NativeHead {
    /// Packs the weights of a head from `tensors`, by their names in a checkpoint. `info` has the
    /// vocabulary of the target.
    pub(crate) fn load(
        info: ModelInfo,
        config: HeadConfig,
        dtype: Dtype,
        tensors: &dyn Tensors,
        target: &TargetTables,
    ) -> Result<Self, Error> {
        let TargetTables { weights, unused, isa, pool, .. } = target.clone();
        let loading = (isa, dtype);
        let weights = HeadWeights::load(&config, (&weights, info.vocab), loading, tensors)?;
        let mask = config.drafting.read_mask(config.features.width, tensors)?;
        let inputs = ModelInputs::Features(config.features.clone());
        let (sha256, deepest) = (tensors.sha256()?, config.drafting.deepest());
        let at_once = config.drafting != Drafting::Stepwise;
        let info = ModelInfo { sha256, inputs, deepest, at_once, hidden: None, ..info };
        let space = Mutex::new(Workspace::new(pool.threads()));
        let teams = Teams::always(pool.threads());
        let head = Self { info, config, weights, mask, unused, isa, pool, teams, space };
        Ok(head.with_fastest_teams())
    }

    /// The same head, with as many threads for each pass as are fastest, by a few passes over
    /// drafted tokens. In a pool of its own every pass uses all.
    fn with_fastest_teams(mut self) -> Self {
        let shared = Arc::ptr_eq(&self.pool, &Pool::shared());
        let shared = shared && !matches!(self.config.drafting, Drafting::Block(_));
        if !shared || self.pool.threads() == 1 || self.info.bytes_per_token > SMALL {
            return self;
        }
        let mut cache = self.new_cache();
        self.teams = Teams::fastest(self.pool.threads(), |rows, threads| {
            let (level, width) = match self.mask {
                None => (1, self.state_width()),
                Some(_) => (0, self.config.features.width),
            };
            let inputs = vec![0.0; rows * width];
            let step = HeadStep { feed: tried(rows), rows: (0..rows).collect(), inputs };
            let mut sequence = [(&mut cache, step)];
            self.pool.forgive();
            fastest_of_few(|| {
                self.run(level, &mut sequence, &Teams::always(threads));
            })
        });
        self
    }

    pub(super) fn new_cache(&self) -> NativeCache {
        NativeCache::new(&self.config.decoder, self.info.cache_dtype)
    }

    /// Numbers that the rows of drafted tokens continue from.
    fn state_width(&self) -> usize {
        let continues = self.config.drafting == Drafting::Stepwise
            && !matches!(self.config.input, HeadInput::Added { .. });
        if continues { self.config.decoder.hidden } else { 0 }
    }

    pub(super) fn network(&self, level: usize) -> Network<'_> {
        let (weights, decoder) = (&self.weights, &self.config.decoder);
        let (memory, linear) = weights.head();
        let kind = match self.config.input {
            HeadInput::SideBySide { normed_residual, .. } => {
                FrontKind::SideBySide { normed_residual }
            }
            HeadInput::Joined { .. } => FrontKind::Joined,
            HeadInput::Added { .. } | HeadInput::Context => FrontKind::Added,
        };
        let state_first = match self.config.input {
            HeadInput::Joined { state_first, .. } => state_first,
            _ => self.config.features.fault == Some(HeadFault::InputsSwapped),
        };
        let fuse = weights.fc.as_ref().filter(|_| level == 0);
        Network {
            config: decoder,
            isa: self.isa,
            layers: &weights.layers,
            below: 0,
            memory: &weights.memory,
            norm: weights.norm.as_deref(),
            head: Weighted { memory, linear },
            vocab: self.config.rows(self.info.vocab),
            per_layer: None,
            front: Some(Front::Joint(Joint {
                kind,
                state_first,
                fuse: fuse.map(|fc| (fc, &weights.fused_norms[..])),
                join: weights.join.as_ref(),
                norms: weights.input_norms.as_ref(),
            })),
        }
    }

    /// Computes a level of some sequences.
    fn run(
        &self,
        level: usize,
        sequences: &mut [(&mut NativeCache, HeadStep)],
        teams: &Teams,
    ) -> Vec<Computed> {
        let mut space = self.space.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = Vec::with_capacity(sequences.len());
        found.resize_with(sequences.len(), Computed::default);
        let lengths = sequences.iter().map(|(_, step)| step.feed.len()).collect::<Vec<_>>();
        for parts in passes(&lengths, CHUNK) {
            for PassRows { sequence, rows } in &parts {
                let (cache, step) = &mut sequences[*sequence];
                let slots = step.feed[rows.clone()].iter().map(|feed| feed.slot);
                cache.own_from(slots.clone().min().unwrap_or(usize::MAX));
                cache.reserve(slots.max().map_or(0, |slot| slot + 1));
            }
            self.pass(&mut space, (level, &parts), (sequences, teams), &mut found);
        }
        found
    }

    /// Computes some rows of a level of some sequences, whose caches have room for them.
    fn pass(
        &self,
        space: &mut Workspace,
        (level, parts): (usize, &[PassRows]),
        (sequences, teams): (&[(&mut NativeCache, HeadStep)], &Teams),
        found: &mut [Computed],
    ) {
        let (mut tokens, mut inputs, mut wanted, mut whose) = (vec![], vec![], vec![], vec![]);
        for PassRows { sequence, rows } in parts {
            let (cache, step) = &sequences[*sequence];
            let width = step.inputs.len() / step.feed.len().max(1);
            let begin = tokens.len();
            inputs.extend_from_slice(&step.inputs[rows.start * width..rows.end * width]);
            for row in step.rows.iter().filter(|row| rows.contains(row)) {
                wanted.push(begin + row - rows.start);
                whose.push(*sequence);
            }
            tokens.extend(step.feed[rows.clone()].iter().map(|feed| PassToken::new(feed, cache)));
        }
        let (net, rows) = (self.network(level), tokens.len());
        self.fill(space, &net, &tokens, (&inputs, wanted.len()));
        let back = [match self.config.feedback {
            Feedback::Plain => Tap::After(net.layers.len()),
            Feedback::Normed => Tap::Normed,
        }];
        let taps = if self.state_width() == 0 { &[][..] } else { &back[..] };
        let pass = Pass { net, space, tokens: &tokens, rows, wanted: &wanted, taps };
        self.pool.run_on(teams.threads(rows), &|worker| pass.run(worker));
        for (row, &sequence) in space.logits.get_mut().chunks_exact(net.vocab).zip(&whose) {
            found[sequence].logits.push(self.logits(row));
        }
        let mut states = space.taps.get_mut().chunks_exact(self.state_width().max(1));
        for PassRows { sequence, rows } in parts.iter().filter(|_| !taps.is_empty()) {
            for state in states.by_ref().take(rows.len()) {
                found[*sequence].states.extend_from_slice(state);
            }
        }
    }

    /// Makes room for a pass, and fills in what its rows begin with.
    fn fill(
        &self,
        space: &mut Workspace,
        net: &Network<'_>,
        tokens: &[PassToken<'_>],
        (inputs, wanted): (&[f32], usize),
    ) {
        let (rows, width) = (tokens.len(), self.config.decoder.hidden);
        let features = self.config.features.width;
        space.reserve((net.config, self.weights.words_per_row()), (rows, 1), wanted * net.vocab);
        space.reserve_front((net.config, features), rows);
        let both = space.wide.get_mut().chunks_exact_mut(2 * width);
        for (both, token) in both.zip(tokens) {
            if self.config.zero_first && token.feed.position == 0 {
                both[..width].fill(0.0);
            } else {
                self.weights.embed(token.feed.token as usize, &mut both[..width]);
            }
        }
        let fuses = matches!(net.front, Some(Front::Joint(Joint { fuse: Some(_), .. })));
        let to = if fuses { space.features.get_mut() } else { space.states.get_mut() };
        if inputs.is_empty() {
            to[..rows * width].fill(0.0);
        }
        to[..inputs.len()].copy_from_slice(inputs);
        let positions = tokens.iter().map(|row| row.feed.position).collect::<Vec<_>>();
        space.rotate(&self.weights.rotations, &positions);
    }

    /// A row of logits, for the target's tokens.
    pub(super) fn logits(&self, row: &[f32]) -> Logits {
        let Some(ids) = &self.config.ids else { return masked(row.to_vec(), &self.unused) };
        let mut all = vec![f32::NEG_INFINITY; self.info.vocab];
        for (&id, &logit) in ids.iter().zip(row) {
            all[id as usize] = logit;
        }
        masked(all, &self.unused)
    }

    /// Adds a row of numbers, one for each of its own tokens, to a row of [`Self::logits`].
    pub(super) fn add(&self, row: &[f32], to: &mut Logits) {
        let Logits::F32(to) = to else { return };
        match &self.config.ids {
            None => to.iter_mut().zip(row).for_each(|(logit, x)| *logit += x),
            Some(ids) => ids.iter().zip(row).for_each(|(&id, x)| to[id as usize] += x),
        }
    }
}

impl LanguageModel for NativeHead {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn session(&self) -> Result<Session, Error> {
        let positions = self.config.decoder.positions;
        let cache = Box::new(self.new_cache());
        let session = Session::new(cache, positions + MAX_NODES, positions);
        let features = &self.config.features;
        Ok(match &self.mask {
            Some(mask) => session.of_parallel_head(features, mask),
            None => session.of_head(features, self.state_width()),
        })
    }

    fn evaluate(&self, work: &mut [Work<'_>]) -> Result<Vec<Evaluation>, Error> {
        Session::evaluate_by_level(work, |level, sequences| {
            Ok(self.run(level, sequences, &self.teams))
        })
    }

    fn threads(&self, rows: usize) -> usize {
        self.teams.threads(rows)
    }

    fn cache_bytes_per_token(&self) -> usize {
        self.config.decoder.cache_bytes(self.info.cache_dtype)
    }

    fn for_each_row(&self) -> ForEachRow {
        ForEachRow(Pool::for_each_row)
    }
}

//! The working memory of passes, kept from one pass to the next.

use std::sync::{Mutex, OnceLock};

use super::angles::RowAngles;
use super::assignment::Assignment;
use super::attention::Scratch;
use super::matrix::PackedRows;
use crate::engine::decoder::{Choice, Config, Rotation};
use crate::engine::pool::Shared;

/// Buffers that the threads of a pass share, with room for the largest number of rows
/// so far.
#[derive(Debug, Default)]
pub(super) struct Workspace {
    rows: usize,
    /// Hidden states.
    pub x: Shared<f32>,
    /// The rows packed for a product.
    pub packed: PackedRows,
    /// Query, key and value heads.
    pub qkv: Shared<f32>,
    /// Attention outputs of all query heads.
    pub mixed: Shared<f32>,
    /// Activations within the feed-forward block.
    pub inner: Shared<f32>,
    /// What attention or a feed-forward block adds to the hidden states, if a norm comes
    /// between; and what experts compute.
    pub branch: Shared<f32>,
    /// Logits of the experts.
    pub router: Shared<f32>,
    /// The experts of all rows.
    pub choices: Shared<Choice>,
    /// Which rows the experts of each layer compute.
    pub assignments: Vec<OnceLock<Assignment>>,
    /// Logits of the wanted rows.
    pub logits: Shared<f32>,
    /// Of a head: features of the rows, their states, and embeddings next to states.
    pub features: Shared<f32>,
    pub states: Shared<f32>,
    pub wide: Shared<f32>,
    /// Embeddings of the rows, and the inputs of all layers that follow from them.
    pub embedded: Shared<f32>,
    pub per_layer: Shared<f32>,
    /// Hidden states of all rows, one tap after the other.
    pub taps: Shared<f32>,
    /// How far each row is rotated, for each rotary embedding.
    pub angles: Vec<RowAngles>,
    /// Working memory of each thread.
    pub scratch: Vec<Mutex<Scratch>>,
}

impl Workspace {
    /// An empty workspace for a number of threads.
    pub(super) fn new(threads: usize) -> Self {
        let scratch = (0..threads).map(|_| Mutex::default()).collect();
        Self { scratch, ..Self::default() }
    }

    /// Makes room for `rows` rows with `taps` hidden states each, and for `logits` logits.
    pub(super) fn reserve(
        &mut self,
        (config, words): (&Config, usize),
        (rows, taps): (usize, usize),
        logits: usize,
    ) {
        self.assignments.clear();
        let sparse = config.experts.map_or(0, |_| config.layers.len());
        self.assignments.resize_with(sparse, OnceLock::new);
        if logits > self.logits.len() {
            self.logits = Shared::new(logits, 0.0);
        }
        if rows * taps * config.hidden > self.taps.len() {
            self.taps = Shared::new(rows * taps * config.hidden, 0.0);
        }
        if rows <= self.rows {
            return;
        }
        self.x = Shared::new(rows * config.hidden, 0.0);
        self.packed = PackedRows::new(rows * words);
        self.qkv = Shared::new(rows * config.most(|layer| config.qkv_width(layer)), 0.0);
        let mixed = config.most(|layer| config.heads_of(layer).query_width());
        self.mixed = Shared::new(rows * mixed, 0.0);
        let used = config.experts_per_row();
        let experts = config.experts.map_or([0; 2], |all| [all.count, all.intermediate]);
        let inner = config.most(|layer| config.inner_width(layer));
        self.inner = Shared::new(rows * inner.max(used * experts[1]), 0.0);
        if config.norms_branches() || used > 0 {
            self.branch = Shared::new(rows * used.max(1) * config.hidden, 0.0);
        }
        self.router = Shared::new(rows * experts[0], 0.0);
        self.choices = Shared::new(rows * used, Choice::default());
        if config.per_layer.is_some() {
            self.embedded = Shared::new(rows * config.hidden, 0.0);
            self.per_layer = Shared::new(rows * config.per_layer_width(), 0.0);
        }
        self.rows = rows;
    }

    /// Makes room for what `rows` rows of a head begin with.
    pub(super) fn reserve_front(&mut self, (config, features): (&Config, usize), rows: usize) {
        if rows * features > self.features.len() {
            self.features = Shared::new(rows * features, 0.0);
        }
        if rows * config.hidden > self.states.len() {
            self.states = Shared::new(rows * config.hidden, 0.0);
            self.wide = Shared::new(2 * rows * config.hidden, 0.0);
        }
    }

    /// The distinct experts that the last pass needed, summed over the layers.
    pub(super) fn distinct_experts(&self) -> usize {
        self.assignments.iter().filter_map(OnceLock::get).map(Assignment::distinct).sum()
    }

    /// Computes how far rows with these positions are rotated.
    pub(super) fn rotate(&mut self, rotations: &[Rotation], positions: &[usize]) {
        self.angles = rotations.iter().map(|rotation| RowAngles::of(rotation, positions)).collect();
    }
}

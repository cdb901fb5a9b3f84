//! What depends on drafted tokens in a block: the bias of its logits, and the estimate of acceptance
//! (DSpark, DeepSeek-AI 2026).
//!
//! What these read of a row's state is computed once with the block. What is left for a row are
//! products of the small embeddings of the drafted tokens, and the product to logits.

use std::sync::{Arc, Mutex, PoisonError};

use super::elementwise::Capped;
use super::head::TargetTables;
use super::matrix::Matrix;
use super::memory::Memory;
use super::packer::{Linear, Wanted, next, pack};
use super::pass::{Network, Pass, Weighted};
use super::workspace::Workspace;
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::core::lanes::{IsaKind, LANES};
use crate::engine::Dtype;
use crate::engine::decoder::{BlockShape, Config, HeadConfig, MarkovKind, Tensors};
use crate::engine::pool::Pool;
use crate::model::BlockRow;

/// What depends on drafted tokens.
#[derive(Debug)]
pub(super) struct Bias {
    shape: BlockShape,
    /// Numbers in the state of a row, and of logits.
    width: usize,
    vocab: usize,
    markov: Option<MarkovWeights>,
    confidence: Option<Product>,
    isa: IsaKind,
}

/// The embedding of tokens, and products.
#[derive(Debug)]
struct MarkovWeights {
    kind: MarkovKind,
    rank: usize,
    memory: Memory,
    embedding: Matrix,
    product: Linear,
    gate: Option<Product>,
    /// A decoder without layers, whose states have `rank` numbers.
    decoder: Config,
    pool: Arc<Pool>,
    space: Mutex<Workspace>,
}

/// A small product with a bias, one row of inputs per output.
#[derive(Debug)]
struct Product {
    weights: Vec<f32>,
    bias: Vec<f32>,
}

/// What is known of a row before its tokens are drafted.
struct RowStates<'s> {
    /// The estimate's product of the row's state.
    confidence: f32,
    /// The state before the first row.
    begun: &'s [f32],
    /// The gate's product of the row's state.
    gate: &'s [f32],
}

impl Bias {
    /// Reads the weights of a block of `shape` on a target with `vocab` tokens.
    pub(super) fn load(
        config: &HeadConfig,
        (shape, vocab): (&BlockShape, usize),
        (dtype, target): (Dtype, &TargetTables),
        tensors: &dyn Tensors,
    ) -> Result<Self, Error> {
        let (width, tokens) = (config.decoder.hidden, config.decoder.vocab_rows);
        let read = |[weights, bias]: [(String, Vec<usize>); 2]| {
            Ok::<_, Error>(Product {
                weights: tensors.get(&weights.0, &weights.1)?,
                bias: tensors.get(&bias.0, &bias.1)?,
            })
        };
        let confidence = shape.confidence(width).map(read).transpose()?;
        let markov = match shape.markov {
            None => None,
            Some(markov) => {
                let tables = [markov.embedding(tokens), markov.product(config.table_rows())];
                let most = [usize::MAX, config.rows(vocab)].into_iter();
                let wanted = tables.into_iter().zip(most);
                let wanted = wanted.map(|(table, most)| Wanted::table(table, most));
                let wanted = wanted.collect::<Vec<_>>();
                let (memory, linears) = pack((target.isa, dtype), tensors, &wanted)?;
                let mut linears = linears.into_iter();
                let embedding = next(&mut linears)?.matrix;
                let product = next(&mut linears)?;
                let gate = markov.gate(width).map(|(_, tensors)| read(tensors)).transpose()?;
                Some(MarkovWeights {
                    kind: markov.kind,
                    rank: markov.rank,
                    memory,
                    embedding,
                    product,
                    gate,
                    decoder: Config {
                        layers: Vec::new(),
                        hidden: markov.rank,
                        logit_scale: 1.0,
                        final_softcap: None,
                        ..config.decoder.clone()
                    },
                    space: Mutex::new(Workspace::new(target.pool.threads())),
                    pool: Arc::clone(&target.pool),
                })
            }
        };
        let vocab = config.rows(vocab);
        Ok(Self { shape: shape.clone(), width, vocab, markov, confidence, isa: target.isa })
    }

    /// Whether it reads the states of rows.
    pub(super) fn reads_states(&self) -> bool {
        self.confidence.is_some() || self.markov.as_ref().is_some_and(|own| own.gate.is_some())
    }

    /// Numbers in what [`Self::rows`] adds to a row.
    pub(super) fn logits_per_row(&self) -> usize {
        self.vocab
    }

    /// What later rows need of a block with these states, row by row, whose first token is `anchor`.
    pub(super) fn states(&self, anchor: Token, states: &[f32]) -> Vec<f32> {
        let mut all = Vec::new();
        if !self.reads_states() {
            return all;
        }
        let rows = states.chunks_exact(self.width).collect::<Vec<_>>();
        let begun = self.begun(anchor, rows[0]);
        for row in self.shape.predicting() {
            let confidence = self.confidence.as_ref();
            all.push(confidence.map_or(0.0, |own| own.bias[0] + own.dot(0, 0, rows[row])));
            all.extend_from_slice(&begun);
            all.extend(self.markov.as_ref().into_iter().flat_map(|own| own.gate_of(rows[row])));
        }
        all
    }

    /// The state before the first row that predicts: where that is not the first one, the state has
    /// been through the row of the last committed token.
    fn begun(&self, anchor: Token, first: &[f32]) -> Vec<f32> {
        let Some(markov) = self.markov.as_ref().filter(|own| own.kind == MarkovKind::Recurrent)
        else {
            return Vec::new();
        };
        let mut state = vec![0.0; markov.rank];
        if !self.shape.anchor_first {
            markov.step(self.isa, (&markov.gate_of(first), &markov.embed(anchor)), &mut state);
        }
        state
    }

    fn states_of<'b>(&self, row: &BlockRow<'b>, depth: usize) -> RowStates<'b> {
        let recurrent = |own: &&MarkovWeights| own.kind == MarkovKind::Recurrent;
        let begun = self.markov.as_ref().filter(recurrent).map_or(0, |own| own.rank);
        let (confidence, rest) = row.block.states_at(depth).split_first().unwrap_or((&0.0, &[]));
        let (begun, gate) = rest.split_at(begun.min(rest.len()));
        RowStates { confidence: *confidence, begun, gate }
    }

    /// The estimated probability that the token at a row is accepted.
    pub(super) fn confidence(&self, row: &BlockRow<'_>) -> Option<f64> {
        let product = self.confidence.as_ref()?;
        let mut logit = self.states_of(row, row.depth()).confidence;
        let reads = self.shape.confidence.is_some_and(|confidence| confidence.reads_token);
        if let (true, Some(markov), Some(last)) = (reads, &self.markov, row.path.last()) {
            logit += product.dot(0, self.width, &markov.embed(*last));
        }
        let mut squashed = [logit];
        sigmoid(self.isa, &mut squashed);
        Some(f64::from(squashed[0]))
    }

    /// What is added to the logits of rows, row by row; nothing without a bias.
    pub(super) fn rows(&self, rows: &[BlockRow<'_>]) -> Vec<f32> {
        let Some(markov) = &self.markov else { return Vec::new() };
        let inputs = rows.iter().map(|row| self.input(markov, row)).collect::<Vec<_>>();
        markov.logits(self.isa, &inputs, self.vocab)
    }

    /// What the product to logits reads of a row.
    fn input(&self, markov: &MarkovWeights, row: &BlockRow<'_>) -> Vec<f32> {
        let token = |depth: usize| markov.embed(row.path[depth]);
        let own = token(row.depth());
        match markov.kind {
            MarkovKind::Vanilla => own,
            MarkovKind::Gated => markov.gated(self.isa, self.states_of(row, row.depth()).gate, own),
            MarkovKind::Recurrent => {
                let mut state = self.states_of(row, 0).begun.to_vec();
                let mut out = Vec::new();
                for depth in 0..=row.depth() {
                    let gate = self.states_of(row, depth).gate;
                    out = markov.step(self.isa, (gate, &token(depth)), &mut state);
                }
                out
            }
        }
    }
}

impl MarkovWeights {
    /// The embedding of a token.
    fn embed(&self, token: Token) -> Vec<f32> {
        let mut row = vec![0.0; self.rank];
        self.embedding.unpack(&self.memory, token as usize, &mut row);
        row
    }

    /// The columns of the gate that read the row's state begin here.
    fn state_columns(&self) -> usize {
        if self.kind == MarkovKind::Recurrent { 2 * self.rank } else { 0 }
    }

    /// The gate's product of a row's state.
    fn gate_of(&self, state: &[f32]) -> Vec<f32> {
        let Some(gate) = &self.gate else { return Vec::new() };
        let outputs = gate.bias.iter().enumerate();
        outputs.map(|(at, bias)| bias + gate.dot(at, self.state_columns(), state)).collect()
    }

    /// σ(G · \[y; e\]) ⊙ e, where `gate` is what the state y contributes.
    fn gated(&self, isa: IsaKind, gate: &[f32], mut token: Vec<f32>) -> Vec<f32> {
        let Some(own) = &self.gate else { return token };
        let first = own.weights.len() / own.bias.len() - self.rank;
        let mut open = gate.to_vec();
        for (at, open) in open.iter_mut().enumerate() {
            *open += own.dot(at, first, &token);
        }
        sigmoid(isa, &mut open);
        for (x, open) in token.iter_mut().zip(open) {
            *x *= open;
        }
        token
    }

    /// A step of the state s: \[g; c; o\] = J · \[s; e; y\], s' = σ(g) ⊙ s + (1 − σ(g)) ⊙ tanh(c). Returns
    /// tanh(o).
    fn step(&self, isa: IsaKind, (gate, token): (&[f32], &[f32]), state: &mut [f32]) -> Vec<f32> {
        let Some(joint) = &self.gate else { return Vec::new() };
        let mut all = gate.to_vec();
        for (at, x) in all.iter_mut().enumerate() {
            *x += joint.dot(at, 0, state) + joint.dot(at, self.rank, token);
        }
        let (keep, rest) = all.split_at_mut(self.rank);
        let (candidate, out) = rest.split_at_mut(self.rank);
        sigmoid(isa, keep);
        isa.run(Capped { x: &mut *candidate, cap: 1.0 });
        isa.run(Capped { x: &mut *out, cap: 1.0 });
        for ((state, keep), candidate) in state.iter_mut().zip(keep).zip(candidate) {
            *state = *keep * *state + (1.0 - *keep) * *candidate;
        }
        out.to_vec()
    }

    /// The product to logits, row by row.
    fn logits(&self, isa: IsaKind, inputs: &[Vec<f32>], vocab: usize) -> Vec<f32> {
        let space = &mut *self.space.lock().unwrap_or_else(PoisonError::into_inner);
        let rows = inputs.len();
        let words = self.product.matrix.words_per_row();
        space.reserve((&self.decoder, words), (rows, 0), rows * vocab);
        for (x, input) in space.x.get_mut().chunks_exact_mut(self.rank).zip(inputs) {
            x.copy_from_slice(input);
        }
        let net = Network {
            config: &self.decoder,
            isa,
            layers: &[],
            below: 0,
            memory: &self.memory,
            norm: None,
            head: Weighted { memory: &self.memory, linear: &self.product },
            vocab,
            per_layer: None,
            front: None,
        };
        let wanted = (0..rows).collect::<Vec<_>>();
        let pass = Pass { net, space, tokens: &[], rows, wanted: &wanted, taps: &[] };
        if rows > 0 {
            self.pool.run_on(self.pool.threads(), &|worker| pass.run(worker));
        }
        space.logits.get_mut()[..rows * vocab].to_vec()
    }
}

impl Product {
    /// The sum of the products of an output's weights from column `first` on with `x`. The order of
    /// the sum is the same on all instruction sets.
    fn dot(&self, output: usize, first: usize, x: &[f32]) -> f32 {
        let inputs = self.weights.len() / self.bias.len();
        let weights = &self.weights[output * inputs + first..][..x.len()];
        let mut sums = [0.0; LANES];
        for (weights, x) in weights.chunks(LANES).zip(x.chunks(LANES)) {
            for ((sum, weight), x) in sums.iter_mut().zip(weights).zip(x) {
                *sum += weight * x;
            }
        }
        sums.iter().sum()
    }
}

/// σ(x) = (1 + tanh(x / 2)) / 2, in place.
fn sigmoid(isa: IsaKind, x: &mut [f32]) {
    for x in &mut *x {
        *x *= 0.5;
    }
    isa.run(Capped { x: &mut *x, cap: 1.0 });
    for x in x {
        *x = 0.5 + 0.5 * *x;
    }
}

//! One pass over the layers, as each thread runs it.
//!
//! Every step is shared among the threads piece by piece; no result depends on which
//! thread computes which piece. A thread may enter late and find steps done, so no
//! thread accesses shared buffers between two steps.
#![allow(unsafe_code)] // parts of shared buffers; each access states its reason

use std::sync::PoisonError;

use super::attention::{Attention, Scratch};
use super::elementwise::{Capped, Normed};
use super::front::Front;
use super::input_weights::PerLayerWeights;
use super::memory::Memory;
use super::packer::Linear;
use super::query_block::{PassToken, RowGroup};
use super::weights::{BlockWeights, LayerWeights, MlpWeights};
use super::workspace::Workspace;
use crate::core::lanes::IsaKind;
use crate::engine::decoder::{Config, HeadNorms, LayerInput};
use crate::engine::pool::{Away, Shared, Worker};
use crate::model::Tap;

/// What a pass computes with: a decoder, or a head on one.
#[derive(Clone, Copy)]
pub(super) struct Network<'a> {
    pub config: &'a Config,
    pub isa: IsaKind,
    /// The layers that the pass computes, and the number of those below them.
    pub layers: &'a [LayerWeights],
    pub below: usize,
    /// The memory of the layers' weights.
    pub memory: &'a Memory,
    /// The norm before the logits.
    pub norm: Option<&'a [f32]>,
    /// From a hidden state to logits.
    pub head: Weighted<'a>,
    /// Number of logits.
    pub vocab: usize,
    /// From tokens to the inputs of all layers.
    pub per_layer: Option<&'a PerLayerWeights>,
    /// What comes before the layers of a head.
    pub front: Option<Front<'a>>,
}

/// A product with the memory of its weights.
#[derive(Clone, Copy)]
pub(super) struct Weighted<'a> {
    pub memory: &'a Memory,
    pub linear: &'a Linear,
}

/// What a pass works on.
#[derive(Clone, Copy)]
pub(super) struct Pass<'a> {
    pub net: Network<'a>,
    pub space: &'a Workspace,
    /// The tokens to compute, sequence by sequence.
    pub tokens: &'a [PassToken<'a>],
    /// Number of all tokens.
    pub rows: usize,
    /// The rows whose logits are wanted.
    pub wanted: &'a [usize],
    /// The hidden states to be copied of all rows.
    pub taps: &'a [Tap],
}

/// Where a row is packed for a product.
pub(super) struct Place<'a> {
    pub linear: &'a Linear,
    /// The first word of the rows that are packed with it.
    pub from: usize,
    /// Its number among these rows, and how many these are.
    pub row: (usize, usize),
}

/// One thread's part in a pass.
pub(super) struct Hand<'a, 'w> {
    pub pass: Pass<'a>,
    pub worker: &'a Worker<'w>,
    pub(super) scratch: &'a mut Scratch,
}

impl<'a> Network<'a> {
    /// A product of the layers.
    pub(super) fn with<'b>(&self, linear: &'b Linear) -> Weighted<'b>
    where
        'a: 'b,
    {
        Weighted { memory: self.memory, linear }
    }
}

impl Pass<'_> {
    /// Runs one thread's part.
    pub(super) fn run(self, worker: &Worker<'_>) -> Result<(), Away> {
        let scratch = &self.space.scratch[worker.index()];
        let scratch = &mut *scratch.lock().unwrap_or_else(PoisonError::into_inner);
        Hand { pass: self, worker, scratch }.run()
    }
}

impl<'a> Pass<'a> {
    /// The attention of a layer, group by group.
    pub(super) fn attention(self, layer: usize) -> Vec<Attention<'a>> {
        let config = self.net.config;
        let (window, heads) = (config.layers[layer].window, config.heads_of(layer));
        let groups = RowGroup::of(self.tokens, heads.queries / heads.keys, window);
        groups.map(|group| self.attention_of(layer, group)).collect()
    }

    /// The attention of a group of rows.
    pub(super) fn attention_of<'g>(self, layer: usize, group: RowGroup<'g>) -> Attention<'g>
    where
        'a: 'g,
    {
        let Pass { net, space, .. } = self;
        let (kind, weights) = (net.config.layers[layer], &net.layers[layer - net.below]);
        let each = net.config.head_norms == Some(HeadNorms::Each);
        let norms = weights.head_norms.each_ref().map(Option::as_deref);
        Attention {
            isa: net.isa,
            config: net.config,
            layer,
            heads: net.config.heads_of(layer),
            width: net.config.qkv_width(layer),
            keys: kind.keys,
            head_norms: if each { norms } else { [None; 2] },
            value_norm: weights.value_norm.as_deref(),
            sinks: weights.sinks.as_deref(),
            group,
            angles: kind.rope.map(|rope| &space.angles[rope]),
            qkv: &space.qkv,
            mixed: &space.mixed,
        }
    }
}

impl Hand<'_, '_> {
    fn run(&mut self) -> Result<(), Away> {
        let Pass { net, space, rows, wanted, taps, .. } = self.pass;
        let layers = net.below + net.layers.len();
        // Without these, nothing is needed behind the last keys and values that are stored.
        let last = net.config.last_stored(net.below..layers);
        let needed = !wanted.is_empty() || taps.iter().any(|tap| *tap > Tap::After(last));
        match net.front {
            Some(Front::Block(front)) => return self.run_blocks(front),
            Some(Front::Joint(joint)) => self.join(joint)?,
            Some(Front::Medusa(blocks)) => self.add_blocks(blocks)?,
            None => {}
        }
        self.tap(Tap::After(net.below))?;
        if let Some(weights) = net.per_layer {
            self.make_inputs(weights)?;
        }
        for (number, layer) in (net.below..).zip(net.layers) {
            let [before_attention, after_attention, ..] =
                layer.norms.each_ref().map(Option::as_deref);
            let both = net.config.layers[number].input == LayerInput::SideBySide;
            let input = if both { &space.wide } else { &space.x };
            self.pack(input, before_attention.as_slice(), &layer.qkv, rows, |row| row)?;
            self.store(net.with(&layer.qkv), rows, &space.qkv, net.config.qkv_width(number))?;
            self.norm_heads_together(number, layer)?;
            let only_store = number == last && !needed;
            self.attend(number, only_store)?;
            if only_store {
                return Ok(());
            }
            self.pack(&space.mixed, &[], &layer.output, rows, |row| row)?;
            self.add(&layer.output, after_attention)?;
            self.feed_forward(number - net.below, layer)?;
            if let Some(weights) = &layer.input {
                self.add_input(number, weights)?;
            }
            if let Some(scalar) = layer.scalar {
                self.scale(scalar)?;
            }
            self.tap(Tap::After(number + 1))?;
        }
        self.tap(Tap::Normed)?;
        if wanted.is_empty() { Ok(()) } else { self.head() }
    }

    /// Computes the feed-forward block of a layer, the `number`-th that the pass computes.
    pub(super) fn feed_forward(&mut self, number: usize, layer: &LayerWeights) -> Result<(), Away> {
        let Pass { net, space, rows, .. } = self.pass;
        let [.., before, after] = layer.norms.each_ref().map(Option::as_deref);
        let BlockWeights { gate_up, down } = match (&layer.mlp, &net.config.experts) {
            (MlpWeights::Dense(block), _) => block,
            (MlpWeights::Sparse(sparse), Some(all)) => {
                return self.sparse(number, (sparse, all), [before, after]);
            }
            (MlpWeights::Sparse(_), None) => unreachable!("only models with experts have them"),
        };
        self.pack(&space.x, before.as_slice(), gate_up, rows, |row| row)?;
        if net.config.gated {
            self.gate(gate_up, down.matrix.inputs())?;
        } else {
            self.activate(gate_up, down.matrix.inputs())?;
        }
        self.pack(&space.inner, &[], down, rows, |row| row)?;
        self.add(down, after)
    }

    /// Copies the hidden states of all rows, if they are to be copied here.
    pub(super) fn tap(&mut self, tap: Tap) -> Result<(), Away> {
        let Pass { net, space, rows, taps, .. } = self.pass;
        let Some(place) = taps.iter().position(|&wanted| wanted == tap) else { return Ok(()) };
        let (width, eps) = (net.config.hidden, net.config.norm_eps);
        self.worker.share(rows, |row| {
            let to = (place * rows + row) * width;
            // SAFETY: no thread writes to hidden states in this step, and each row is one piece.
            let (x, to) = unsafe {
                (space.x.read(row * width..(row + 1) * width), space.taps.write(to..to + width))
            };
            to.copy_from_slice(x);
            if let Some(weights) = net.norm.filter(|_| tap == Tap::Normed) {
                net.isa.run(Normed { x: to, weights, eps });
            }
        })
    }

    /// Computes the logits of the wanted rows.
    pub(super) fn head(&mut self) -> Result<(), Away> {
        let Pass { net, space, wanted, .. } = self.pass;
        let (head, width) = (net.head, net.vocab);
        self.pack(&space.x, net.norm.as_slice(), head.linear, wanted.len(), |row| wanted[row])?;
        self.store(head, wanted.len(), &space.logits, width)?;
        let (scale, cap) = (net.config.logit_scale, net.config.final_softcap);
        if scale == 1.0 && cap.is_none() {
            return Ok(());
        }
        self.worker.share(wanted.len(), |row| {
            // SAFETY: each row is one piece.
            let x = unsafe { space.logits.write(row * width..(row + 1) * width) };
            for x in x.iter_mut().filter(|_| scale != 1.0) {
                *x *= scale;
            }
            if let Some(cap) = cap {
                net.isa.run(Capped { x, cap });
            }
        })
    }

    /// Packs rows of `from` for the product `linear`; packed row `i` is row `source(i)` of `from`.
    /// The norms, if there are any, are those of consecutive parts of a row.
    pub(super) fn pack(
        &mut self,
        from: &Shared<f32>,
        norms: &[&[f32]],
        linear: &Linear,
        rows: usize,
        source: impl Fn(usize) -> usize,
    ) -> Result<(), Away> {
        let to = |row| Place { linear, from: 0, row: (row, rows) };
        self.pack_from(rows, to, |row| (from, norms, source(row)))
    }

    /// Packs `rows` rows of several buffers, each to a place: `source` says which buffer, with
    /// which norms, and which row of it.
    pub(super) fn pack_from<'s>(
        &mut self,
        rows: usize,
        to: impl Fn(usize) -> Place<'s>,
        source: impl Fn(usize) -> (&'s Shared<f32>, &'s [&'s [f32]], usize),
    ) -> Result<(), Away> {
        let Pass { net, space, .. } = self.pass;
        let normed = &mut self.scratch.row;
        self.worker.share(rows, |row| {
            let Place { linear: Linear { matrix, .. }, from: first, row: place } = to(row);
            let (from, norms, row) = source(row);
            let at = row * matrix.inputs();
            // SAFETY: no thread writes to `from` in this step.
            let x = unsafe { from.read(at..at + matrix.inputs()) };
            let values = if norms.is_empty() {
                x
            } else {
                normed.clear();
                normed.extend_from_slice(x);
                let mut rest = &mut normed[..];
                for weights in norms {
                    // The only norm may be followed by its bias.
                    let width = weights.len().min(rest.len());
                    let (x, after) = rest.split_at_mut(width);
                    net.isa.run(Normed { x, weights, eps: net.config.norm_eps });
                    rest = after;
                }
                &normed[..]
            };
            // SAFETY: each row is packed in one piece, and no thread reads packed rows
            // in this step.
            unsafe { space.packed.put(first, matrix, place, values) };
        })
    }

    /// Normalises all queries of a row together, and all its keys, where the model does.
    fn norm_heads_together(&mut self, number: usize, layer: &LayerWeights) -> Result<(), Away> {
        let Pass { net, space, rows, .. } = self.pass;
        let config = net.config;
        let (Some(HeadNorms::Together), [Some(queries), Some(keys)]) =
            (config.head_norms, &layer.head_norms)
        else {
            return Ok(());
        };
        let (width, eps) = (config.qkv_width(number), config.norm_eps);
        self.worker.share(rows, |row| {
            let at = row * width;
            // SAFETY: each row is one piece.
            let x = unsafe { space.qkv.write(at..at + queries.len() + keys.len()) };
            let (q, k) = x.split_at_mut(queries.len());
            net.isa.run(Normed { x: q, weights: queries, eps });
            net.isa.run(Normed { x: k, weights: keys, eps });
        })
    }

    /// Stores keys and values of the rows and, unless `only_store`, computes the rows'
    /// attention outputs.
    fn attend(&mut self, layer: usize, only_store: bool) -> Result<(), Away> {
        let (groups, heads) =
            (self.pass.attention(layer), self.pass.net.config.heads_of(layer).keys);
        let scratch = &mut *self.scratch;
        self.worker.share(groups.len() * heads, |piece| {
            let (attention, head) = (&groups[piece / heads], piece % heads);
            // SAFETY: each head of a group is one piece; no other piece writes or reads its
            // projections and its own slots, and nobody writes to shared slots.
            unsafe {
                attention.store(head);
                // If it has only one block, the thread that stores it continues with it.
                if attention.group.blocks() == 1 && !only_store {
                    attention.attend(head, 0, scratch);
                }
            }
        })?;
        let blocks = groups.iter().map(|attention| attention.group.blocks());
        let long = blocks.enumerate().filter(|&(_, blocks)| blocks > 1 && !only_store);
        let pieces = long.flat_map(|(group, blocks)| (0..blocks).map(move |block| (group, block)));
        let pieces = pieces.collect::<Vec<_>>();
        if pieces.is_empty() {
            return Ok(());
        }
        self.worker.share(heads * pieces.len(), |piece| {
            let (group, block) = pieces[piece % pieces.len()];
            // SAFETY: each block of a head is one piece; no thread writes to
            // projections or cache in this step.
            unsafe { groups[group].attend(piece / pieces.len(), block, scratch) };
        })
    }
}

//! The sizes of a model, from its metadata, as far as its tensors confirm them.

use std::collections::BTreeSet;

use super::architecture::{EXPERT_COUNT, HeadKind};
use super::keys::Keys;
use super::names::{FC, Heads, TOGETHER, layer_of, may_have};
use crate::core::error::Error;

/// The key of the list of tokens.
const TOKENS: &str = "tokenizer.ggml.tokens";
/// The table of embeddings.
const EMBEDDING: &str = "token_embd.weight";

/// The sizes of a model. None but the number of positions is larger than a tensor has it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    /// Width of the hidden states.
    pub(super) hidden: usize,
    /// Width of the feed-forward blocks, or of an expert.
    pub(super) inner: usize,
    /// Numbers of experts, of all and of those that a row uses.
    pub(super) experts: Option<[usize; 2]>,
    /// Number of layers.
    pub(super) layers: usize,
    /// Number of layers of multi-token prediction after them, which are not part of the model.
    predicting: usize,
    pub(super) heads: Heads,
    /// Rows of the table of embeddings; of a head that has none, number of the target's tokens.
    pub(super) vocab: usize,
    /// The largest number of positions.
    pub(super) positions: usize,
}

impl Sizes {
    /// The sizes of the model in a file.
    ///
    /// # Errors
    /// If a key is missing, of another type, or contradicts a tensor.
    pub(super) fn read(keys: Keys<'_>) -> Result<Self, Error> {
        check_supported(keys)?;
        let hidden = keys.size("embedding_length")?;
        let blocks = keys.size("block_count")?;
        let predicting = predicting(keys, blocks)?;
        let sizes = Self {
            hidden,
            inner: keys.size(inner_key(keys))?,
            experts: experts(keys)?,
            layers: blocks - predicting,
            predicting,
            heads: heads(keys, hidden)?,
            vocab: vocab(keys)?,
            positions: keys.size("context_length")?,
        };
        sizes.check_table(keys)?;
        sizes.check_layers(keys)?;
        sizes.check_heads(keys)?;
        sizes.check_inner(keys)?;
        Ok(sizes)
    }

    fn check_table(self, keys: Keys<'_>) -> Result<(), Error> {
        if keys.architecture.head.is_some() {
            return same(keys, "embedding_length", self.hidden, FC, shape::<2>(keys, FC)?[0]);
        }
        let width = shape::<2>(keys, EMBEDDING)?[1];
        same(keys, "embedding_length", self.hidden, EMBEDDING, width)?;
        if let Some(vocab) = keys.optional_size("vocab_size")? {
            same(keys, "vocab_size", vocab, EMBEDDING, self.vocab)?;
        }
        let tokens = keys.metadata().texts(TOKENS)?.map_or(0, <[String]>::len);
        if tokens > self.vocab {
            let what = format!("has {tokens} tokens, but tensor {EMBEDDING} {} rows", self.vocab);
            return Err(keys.metadata().fault(TOKENS, &what));
        }
        Ok(())
    }

    /// Checks that there are no tensors that the model would not use: what they are for
    /// would be missing from the computation.
    fn check_layers(self, keys: Keys<'_>) -> Result<(), Error> {
        let names = || keys.file.tensors().map(|(name, _)| name);
        // Counting them, not looking for the last one, lets a single name confirm one layer.
        let layers = names().filter_map(layer_of).map(|(layer, _)| layer);
        let layers = layers.collect::<BTreeSet<_>>().len();
        let blocks = self.layers + self.predicting;
        // Some files state layers of multi-token prediction and leave them out.
        if layers != self.layers && layers != blocks {
            let what = format!("is {blocks}, but there are tensors of {layers} layers");
            return Err(keys.fault("block_count", &what));
        }
        let sizes = [self.layers, self.predicting];
        let extra = names().find(|name| !may_have(keys.architecture, sizes, name));
        extra.map_or(Ok(()), |name| {
            let model = keys.architecture.name;
            let what = format!("tensor {name} is not supported: no {model} model should have it");
            Err(keys.file.fault(name, what))
        })
    }

    fn check_inner(self, keys: Keys<'_>) -> Result<(), Error> {
        let Some([count, _]) = self.experts else {
            let down = "blk.0.ffn_down.weight";
            return same(keys, inner_key(keys), self.inner, down, shape::<2>(keys, down)?[1]);
        };
        let down = "blk.0.ffn_down_exps.weight";
        let [experts, _, inner] = shape(keys, down)?;
        same(keys, EXPERT_COUNT, count, down, experts)?;
        same(keys, inner_key(keys), self.inner, down, inner)
    }

    fn check_heads(self, keys: Keys<'_>) -> Result<(), Error> {
        let [queries, key_rows, values] = self.heads.ranges();
        let together = "blk.0.attn_qkv.weight";
        let always = keys.architecture.layer().any(|part| part.gguf == TOGETHER);
        if always || keys.file.tensor(together).is_some() {
            let rows = shape::<2>(keys, together)?[0];
            return same_rows(keys, "attention.head_count", values.end, together, rows);
        }
        for (key, rows, tensor) in [
            ("attention.head_count", queries, "blk.0.attn_q.weight"),
            ("attention.head_count_kv", key_rows, "blk.0.attn_k.weight"),
        ] {
            same_rows(keys, key, rows.len(), tensor, shape::<2>(keys, tensor)?[0])?;
        }
        Ok(())
    }
}

/// Refuses models whose computation has more than the metadata that are read.
fn check_supported(keys: Keys<'_>) -> Result<(), Error> {
    for (key, what) in [
        ("expert_shared_count", "shared experts"),
        ("conv_kernel_size", "convolutions of DFlash2"),
        ("selector_rank", "selectors of DFlash2"),
    ] {
        if let Some(number) = keys.nonzero(key)? {
            return Err(keys.fault(key, &format!("is {number}, but {what} are not supported")));
        }
    }
    let scale = "expert_weights_scale";
    if let Some(factor) = keys.number(scale)?.filter(|factor| ![0.0, 1.0].contains(factor)) {
        let what = format!("is {factor}, but scaled weights of experts are not supported");
        return Err(keys.fault(scale, &what));
    }
    let is_block = keys.architecture.head == Some(HeadKind::Dflash);
    if !is_block && keys.metadata().truth(&keys.key("attention.causal"))? == Some(false) {
        return Err(keys.fault("attention.causal", "is false: only decoders are supported"));
    }
    Ok(())
}

/// The key of [`Sizes::inner`].
fn inner_key(keys: Keys<'_>) -> &'static str {
    keys.architecture.experts.unwrap_or("feed_forward_length")
}

/// See [`Sizes::experts`].
fn experts(keys: Keys<'_>) -> Result<Option<[usize; 2]>, Error> {
    if keys.architecture.experts.is_none() {
        return Ok(None);
    }
    let (count, used) = (keys.size(EXPERT_COUNT)?, keys.size("expert_used_count")?);
    Ok(Some([count, used]))
}

/// How many of the layers are there for multi-token prediction; they are the last ones.
fn predicting(keys: Keys<'_>, blocks: usize) -> Result<usize, Error> {
    let key = "nextn_predict_layers";
    let Some(layers) = keys.nonzero(key)? else { return Ok(0) };
    if !keys.architecture.extras.mtp {
        let name = keys.architecture.name;
        let what = format!("is {layers}, but must be 0: {name} files with MTP layers are unknown");
        return Err(keys.fault(key, &what));
    }
    if layers >= blocks {
        let what = format!("is {layers}, but must be below block_count, which is {blocks}");
        return Err(keys.fault(key, &what));
    }
    Ok(layers)
}

/// See [`Sizes::vocab`].
fn vocab(keys: Keys<'_>) -> Result<usize, Error> {
    if keys.architecture.head.is_some() && keys.file.tensor(EMBEDDING).is_none() {
        let tokens = keys.metadata().texts(TOKENS)?.map(<[String]>::len);
        let vocab = keys.optional_size("vocab_size")?.or(tokens);
        return vocab
            .ok_or_else(|| keys.fault("vocab_size", &format!("is missing, and so is {TOKENS}")));
    }
    Ok(shape::<2>(keys, EMBEDDING)?[0])
}

fn heads(keys: Keys<'_>, hidden: usize) -> Result<Heads, Error> {
    let (count, count_kv) = ("attention.head_count", "attention.head_count_kv");
    let queries = keys.size(count)?;
    let key_heads = keys.optional_size(count_kv)?.unwrap_or(queries);
    if !queries.is_multiple_of(key_heads) {
        let what = format!("is {key_heads}, which does not divide {count} {queries}");
        return Err(keys.fault(count_kv, &what));
    }
    let width = match keys.optional_size("attention.key_length")? {
        Some(width) => width,
        None if hidden.is_multiple_of(queries) => hidden / queries,
        None => {
            let what = format!("is {queries}, which does not divide embedding_length {hidden}");
            return Err(keys.fault(count, &what));
        }
    };
    match keys.optional_size("attention.value_length")? {
        Some(other) if other != width => {
            let what = format!("is {other}, but keys have length {width}: not supported");
            Err(keys.fault("attention.value_length", &what))
        }
        _ => Ok(Heads { queries, keys: key_heads, width }),
    }
}

/// The shape of a tensor of `N` dimensions.
pub(super) fn shape<const N: usize>(keys: Keys<'_>, tensor: &str) -> Result<[usize; N], Error> {
    let shape = keys.file.tensor(tensor).ok_or_else(|| keys.file.missing(tensor))?.shape();
    shape.try_into().map_err(|_| {
        let must = if N == 2 { "be a matrix".to_owned() } else { format!("have {N} dimensions") };
        keys.file.fault(tensor, format!("tensor {tensor} has shape {shape:?}, but must {must}"))
    })
}

/// Checks a size in the metadata against a tensor's.
fn same(keys: Keys<'_>, key: &str, size: usize, tensor: &str, found: usize) -> Result<(), Error> {
    if size == found {
        return Ok(());
    }
    Err(keys.fault(key, &format!("is {size}, but tensor {tensor} has {found} in its place")))
}

/// Checks that heads have as many rows as a tensor.
fn same_rows(
    keys: Keys<'_>,
    key: &str,
    rows: usize,
    tensor: &str,
    found: usize,
) -> Result<(), Error> {
    if rows == found {
        return Ok(());
    }
    let what = format!("asks for {rows} rows of tensor {tensor}, which has {found}");
    Err(keys.fault(key, &what))
}

//! From the name of a tensor in a Hugging Face checkpoint to its rows in a GGUF file.

use std::ops::Range;

use super::architecture::{Architecture, LayerPart};
use super::file::GgufFile;

/// Tensors that are not part of a layer: their names in a GGUF file and in a Hugging Face
/// checkpoint, where some are part of the configuration.
const GLOBAL: &[(&str, Option<&str>)] = &[
    ("token_embd.weight", Some("model.embed_tokens.weight")),
    ("output_norm.weight", Some("model.norm.weight")),
    ("output.weight", Some("lm_head.weight")),
    ("rope_freqs.weight", None),
    ("rope_factors_long.weight", None),
    ("rope_factors_short.weight", None),
];
/// Queries, keys and values as separate tensors.
const SEPARATE: [&str; 3] = ["attn_q", "attn_k", "attn_v"];
/// All of them in one.
pub(super) const TOGETHER: &str = "attn_qkv";

/// The heads of a model.
#[derive(Debug, Clone, Copy)]
pub(super) struct Heads {
    /// Number of query heads.
    pub(super) queries: usize,
    /// Number of key heads, which is that of value heads.
    pub(super) keys: usize,
    /// The width of each.
    pub(super) width: usize,
}

/// Where the rows of a tensor are.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RowsOf {
    /// The tensor in the GGUF file.
    pub(super) tensor: String,
    /// Which of its rows, unless it is all of them.
    pub(super) rows: Option<Range<usize>>,
    /// The rows of a head if its rotary pairs are neighbours.
    pub(super) head: Option<usize>,
}

impl Heads {
    /// Rows of queries, keys and values in one tensor.
    pub(super) fn ranges(self) -> [Range<usize>; 3] {
        let (queries, keys) = (self.queries * self.width, self.keys * self.width);
        [0..queries, queries..queries + keys, queries + keys..queries + 2 * keys]
    }
}

/// Where the rows of a tensor of a Hugging Face checkpoint are, if models of this
/// architecture have it. The tensor may be missing from the file.
pub(super) fn rows_of(
    file: &GgufFile,
    architecture: &Architecture,
    heads: Heads,
    name: &str,
) -> Option<RowsOf> {
    if let Some((tensor, _)) = GLOBAL.iter().find(|global| global.1 == Some(name)) {
        let tensor = (*tensor).to_owned();
        return Some(RowsOf { tensor, rows: None, head: None });
    }
    let (layer, within) = name.strip_prefix("model.layers.")?.split_once('.')?;
    let (part, end) = split_end(within)?;
    let part = architecture.layer().find(|known| known.hf == part)?;
    let own = format!("blk.{layer}.{}.{end}", part.gguf);
    let place = SEPARATE.iter().position(|separate| *separate == part.gguf);
    let together = format!("blk.{layer}.{TOGETHER}.{end}");
    let rotates = architecture.neighbours && ["attn_q", "attn_k"].contains(&part.gguf);
    let head = rotates.then_some(heads.width);
    match place {
        Some(place) if file.tensor(&own).is_none() && file.tensor(&together).is_some() => {
            let rows = Some(heads.ranges()[place].clone());
            Some(RowsOf { tensor: together, rows, head })
        }
        _ => Some(RowsOf { tensor: own, rows: None, head }),
    }
}

/// Whether files of this architecture, with `layers` layers, may have a tensor of this name.
pub(super) fn may_have(architecture: &Architecture, layers: usize, name: &str) -> bool {
    if GLOBAL.iter().any(|global| global.0 == name) {
        return true;
    }
    let Some((layer, within)) = layer_of(name) else { return false };
    let Some((part, end)) = split_end(within) else { return false };
    let is_part = |known: &LayerPart| {
        let together = part == TOGETHER && SEPARATE.contains(&known.gguf);
        let may_end = end == "weight" || architecture.biased.contains(&known.gguf);
        (known.gguf == part || together) && may_end
    };
    layer < layers && architecture.layer().any(is_part)
}

/// The number of the layer to which a tensor of this name belongs, and the rest of it.
pub(super) fn layer_of(name: &str) -> Option<(usize, &str)> {
    let (digits, within) = name.strip_prefix("blk.")?.split_once('.')?;
    let layer = digits.parse::<usize>().ok().filter(|layer| layer.to_string() == digits)?;
    Some((layer, within))
}

/// A name without its last part, which is `weight` or `bias`.
fn split_end(name: &str) -> Option<(&str, &str)> {
    name.rsplit_once('.').filter(|(_, end)| ["weight", "bias"].contains(end))
}

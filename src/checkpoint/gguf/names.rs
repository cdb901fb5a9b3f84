//! From the name of a tensor in a Hugging Face checkpoint to its rows in a GGUF file.

use std::borrow::Cow;
use std::ops::Range;

use super::architecture::{Architecture, HeadKind, LayerPart};
use super::file::GgufFile;

/// What the names of a model have in front in a Hugging Face checkpoint, and those of a head lack.
const MODEL: &str = "model.";
/// A tensor that is not part of a layer: its name in a GGUF file and, without [`MODEL`], in a
/// Hugging Face checkpoint, where some are part of the configuration.
type Global = (&'static str, Option<&'static str>);
/// Those of all models.
const GLOBAL: &[Global] = &[
    ("token_embd.weight", Some("embed_tokens.weight")),
    ("output_norm.weight", Some("norm.weight")),
    ("output.weight", Some("lm_head.weight")),
    ("rope_freqs.weight", None),
    ("rope_factors_long.weight", None),
    ("rope_factors_short.weight", None),
];
/// Those of EAGLE-3 heads alone.
const OF_EAGLE3: &[Global] =
    &[(FC, Some("fc.weight")), (FC_NORM, Some("input_norm.weight")), (D2T, Some("d2t"))];
/// Those of block drafters alone.
const OF_DFLASH: &[Global] = &[
    (FC, Some("fc.weight")),
    (FC_NORM, Some("hidden_norm.weight")),
    (D2T, Some("d2t")),
    (MARKOV, Some("markov_head.markov_w1.weight")),
    ("markov_w2.weight", Some("markov_head.markov_w2.weight")),
    ("conf_proj.weight", Some("confidence_head.proj.weight")),
    ("conf_proj.bias", Some("confidence_head.proj.bias")),
];
/// Fuses the hidden states that a head reads.
pub(super) const FC: &str = "fc.weight";
/// The norm before it, of EAGLE-3, or after it.
pub(super) const FC_NORM: &str = "enc.output_norm.weight";
/// The target's token of each of a head's.
pub(super) const D2T: &str = "d2t";
/// The embedding of a Markov bias, by which a DSpark is known.
pub(super) const MARKOV: &str = "markov_w1.weight";
/// The tensors around a layer of multi-token prediction, after its number. They keep their names.
const AROUND: [&str; 6] = [
    "nextn.eh_proj.weight",
    "nextn.enorm.weight",
    "nextn.hnorm.weight",
    "nextn.shared_head_norm.weight",
    "nextn.embed_tokens.weight",
    "nextn.shared_head_head.weight",
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
    /// Which of its rows, unless it is all of them; those of experts follow one another.
    pub(super) rows: Option<Range<usize>>,
    /// Their shape, empty if they are not there.
    pub(super) shape: Vec<usize>,
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
    let shape = |tensor: &str| file.tensor(tensor).map_or(&[][..], |stored| stored.shape());
    let of = |tensor: String, head| {
        let shape = shape(&tensor).to_vec();
        RowsOf { tensor, rows: None, shape, head }
    };
    let whole = |tensor: &str| of(tensor.to_owned(), None);
    if architecture.extras.mtp && layer_of(name).is_some_and(|(_, within)| AROUND.contains(&within))
    {
        return Some(whole(name));
    }
    let name = name.strip_prefix(MODEL).unwrap_or(name);
    if let Some((tensor, _)) = globals(architecture).find(|global| global.1 == Some(name)) {
        return Some(whole(tensor));
    }
    let (layer, within) = name.strip_prefix("layers.")?.split_once('.')?;
    // The name of sinks has no end there.
    let (part, end) = split_end(within).unwrap_or((within, "weight"));
    let (part, expert) = split_expert(part);
    let part = architecture.layer().find(|known| known.hf == part)?;
    let own = format!("blk.{layer}.{}.{end}", part.gguf);
    if let Some(expert) = expert {
        return Some(of_expert(of(own, None), expert));
    }
    let place = SEPARATE.iter().position(|separate| *separate == part.gguf);
    let together = format!("blk.{layer}.{TOGETHER}.{end}");
    let rotates = architecture.neighbours && ["attn_q", "attn_k"].contains(&part.gguf);
    let head = rotates.then_some(heads.width);
    match place {
        Some(place) if file.tensor(&own).is_none() && file.tensor(&together).is_some() => {
            let ranges = heads.ranges();
            let mut all = of(together, head);
            let fits = all.shape[0] == ranges[2].end;
            all.shape[0] = if fits { ranges[place].len() } else { 0 };
            Some(RowsOf { rows: Some(ranges[place].clone()), ..all })
        }
        _ => Some(of(own, head)),
    }
}

/// A name without the number of its expert, for which a star stands, and this number.
fn split_expert(part: &str) -> (Cow<'_, str>, Option<usize>) {
    let split = part.split_once("experts.").and_then(|(before, rest)| {
        let (digits, after) = rest.split_once('.')?;
        let expert = digits.parse::<usize>().ok().filter(|n| n.to_string() == digits)?;
        Some((format!("{before}experts.*.{after}").into(), Some(expert)))
    });
    split.unwrap_or((part.into(), None))
}

/// The rows of an expert, of a tensor of shape `(experts, rows, …)`.
fn of_expert(all: RowsOf, expert: usize) -> RowsOf {
    let shape = match &*all.shape {
        [experts, rest @ ..] if expert < *experts => rest.to_vec(),
        _ => Vec::new(),
    };
    let rows = shape.first().copied().unwrap_or(0);
    RowsOf { rows: Some(expert * rows..(expert + 1) * rows), shape, ..all }
}

/// The tensors of an architecture that are not part of a layer.
fn globals(architecture: &Architecture) -> impl Iterator<Item = &'static Global> {
    let of_head = match architecture.head {
        None => &[],
        Some(HeadKind::Eagle3) => OF_EAGLE3,
        Some(HeadKind::Dflash) => OF_DFLASH,
    };
    GLOBAL.iter().chain(of_head)
}

/// Whether files of this architecture, with `layers` layers and `predicting` layers of multi-token
/// prediction after them, may have a tensor of this name.
pub(super) fn may_have(
    architecture: &Architecture,
    [layers, predicting]: [usize; 2],
    name: &str,
) -> bool {
    if globals(architecture).any(|global| global.0 == name) {
        return true;
    }
    let Some((layer, within)) = layer_of(name) else { return false };
    if layer >= layers && AROUND.contains(&within) {
        return layer < layers + predicting;
    }
    let Some((part, end)) = split_end(within) else { return false };
    let is_part = |known: &LayerPart| {
        let together = part == TOGETHER && SEPARATE.contains(&known.gguf);
        let may_end = end == "weight" || architecture.biased.contains(&known.gguf);
        (known.gguf == part || together) && may_end
    };
    layer < layers + predicting && architecture.layer().any(is_part)
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

//! `quant_method` `compressed-tensors`, of llm-compressor and vLLM: the formats `float-quantized`
//! and `pack-quantized`.

use super::e4m3::{E4m3Scheme, ScaleBlock};
use super::four_bits::Group;
use super::packed::Packed;
use super::{Method, Scheme, Schemes, convertible, unsupported};
use crate::checkpoint::families::ConfigKeys;
use crate::core::error::Error;

/// The registry entry.
pub(super) const METHOD: Method = Method { name: "compressed-tensors", read };

/// The name of the tensor with the scales.
const SCALES: &[&str] = &["weight_scale"];
/// The formats that are supported.
const FORMATS: &str = "float-quantized, pack-quantized";
/// The format of a model whose groups have several.
const MIXED: &str = "mixed-precision";

/// How the weights of a group are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Weights {
    Float(ScaleBlock),
    Packed(Packed),
}

fn read(keys: &ConfigKeys<'_>) -> Result<Schemes, Error> {
    if let Some(sparsity) = keys.table("sparsity_config")? {
        super::check_text(&sparsity, "format", &["dense"])?;
    }
    if let Some(transforms) = keys.table("transform_config")?
        && !transforms.tables("config_groups")?.is_empty()
    {
        let path = keys.path("transform_config");
        return Err(keys.fault(format!("transformed weights ({path}) are not supported")));
    }
    let format = keys.text("format")?.filter(|&format| format != MIXED);
    let mut all: Vec<Weights> = Vec::new();
    for group in keys.tables("config_groups")? {
        let Some(weights) = group.table("weights")? else { continue };
        let own = group.text("format")?;
        let place = if own.is_some() { &group } else { keys };
        let format = place.required("format", own.or(format))?;
        let weights = match format {
            "float-quantized" | "naive-quantized" => Weights::Float(scale_block(&weights)?),
            "pack-quantized" => Weights::Packed(packed(&weights)?),
            other => {
                return Err(unsupported(place, "format", format_args!("\"{other}\""), FORMATS));
            }
        };
        if !all.contains(&weights) {
            all.push(weights);
        }
    }
    let count = |is: fn(&Weights) -> bool| all.iter().filter(|weights| is(weights)).count();
    if count(|one| matches!(one, Weights::Float(_))) > 1
        || count(|one| matches!(one, Weights::Packed(_))) > 1
    {
        let what = "has groups of one format whose weights differ";
        return Err(keys.fault(format!("{} {what}", keys.path("config_groups"))));
    }
    Ok(all.into_iter().map(Weights::scheme).collect())
}

impl Weights {
    fn scheme(self) -> Box<dyn Scheme> {
        match self {
            Self::Float(block) => Box::new(E4m3Scheme { scales: SCALES, block: Some(block) }),
            Self::Packed(packed) => Box::new(packed),
        }
    }
}

/// What has a scale, of weights of 8 bits.
fn scale_block(keys: &ConfigKeys<'_>) -> Result<ScaleBlock, Error> {
    super::check_text(keys, "type", &["float"])?;
    let bits = keys.size("num_bits")?.unwrap_or(8);
    if bits != 8 {
        return Err(unsupported(keys, "num_bits", bits, "8"));
    }
    let strategy = keys.text("strategy")?.unwrap_or("tensor");
    let of_inputs = "multiples of 128";
    match strategy {
        "tensor" => Ok(ScaleBlock::WHOLE),
        "channel" => Ok(ScaleBlock::ROW),
        "group" => {
            let size = keys.required("group_size", keys.size("group_size")?)?;
            ScaleBlock::new(1, size).ok_or_else(|| unsupported(keys, "group_size", size, of_inputs))
        }
        "block" => {
            let key = "block_structure";
            let sizes = keys.required(key, keys.counts(key)?)?;
            let block = match sizes[..] {
                [outputs, inputs] => ScaleBlock::new(outputs, inputs),
                _ => None,
            };
            let supported = "[n, m] with a multiple m of 128";
            block.ok_or_else(|| unsupported(keys, key, format_args!("{sizes:?}"), supported))
        }
        other => {
            let supported = "tensor, channel, group, block";
            Err(unsupported(keys, "strategy", format_args!("\"{other}\""), supported))
        }
    }
}

/// Groups and zero points of weights of four bits.
fn packed(keys: &ConfigKeys<'_>) -> Result<Packed, Error> {
    super::check_text(keys, "type", &["int"])?;
    let bits = keys.size("num_bits")?.unwrap_or(8);
    if bits != 4 {
        return Err(convertible(keys, "num_bits", bits, "4"));
    }
    let size = keys.size_or_all("group_size")?;
    let size = match keys.text("strategy")? {
        None => keys.required("group_size", size)?,
        Some("channel") => usize::MAX,
        Some("group") => keys.required("group_size", size)?,
        Some(other) => {
            let supported = "group, channel";
            return Err(convertible(keys, "strategy", format_args!("\"{other}\""), supported));
        }
    };
    let group =
        Group::new(size).ok_or_else(|| convertible(keys, "group_size", size, Group::SUPPORTED))?;
    Ok(Packed { group, symmetric: keys.flag("symmetric")?.unwrap_or(true) })
}

//! `quant_method` `fp8`, of transformers and AutoFP8: blocks of 128 outputs and inputs have a
//! scale, or a whole matrix has one.
//!
//! Despite its name, `weight_scale_inv` is what numbers are multiplied by.

use super::e4m3::{E4m3Scheme, ScaleBlock};
use super::{Method, Schemes, check_text, unsupported};
use crate::checkpoint::families::ConfigKeys;
use crate::core::error::Error;

/// The registry entry.
pub(super) const METHOD: Method = Method { name: "fp8", read };

/// The names of the tensors with the scales: of transformers and of AutoFP8.
const SCALES: &[&str] = &["weight_scale_inv", "weight_scale"];

fn read(keys: &ConfigKeys<'_>) -> Result<Schemes, Error> {
    check_text(keys, "fmt", &["e4m3", "e4m3fn", "float8_e4m3fn"])?;
    let key = "weight_block_size";
    let block = keys.counts(key)?.map(|sizes| {
        let block = match sizes[..] {
            [outputs, inputs] => ScaleBlock::new(outputs, inputs),
            _ => None,
        };
        let supported = "null, and [n, m] with a multiple m of 128";
        block.ok_or_else(|| unsupported(keys, key, format_args!("{sizes:?}"), supported))
    });
    Ok(vec![Box::new(E4m3Scheme { scales: SCALES, block: block.transpose()? })])
}

//! `quant_method` `mxfp4`, of gpt-oss: the tensors of all experts have blocks of MXFP4.

use super::{Method, Schemes};
use crate::checkpoint::families::ConfigKeys;
use crate::core::error::Error;

/// The registry entry.
pub(super) const METHOD: Method = Method { name: "mxfp4", read };

/// No matrix has tensors of its own: [`fused`](super::super::fused) finds its blocks.
fn read(_: &ConfigKeys<'_>) -> Result<Schemes, Error> {
    Ok(Vec::new())
}

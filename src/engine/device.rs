//! Where a model computes.

use std::fmt;

use crate::core::error::Error;
use crate::model::CPU;

/// A device, by the names that settings use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Device {
    /// `cpu`.
    Cpu,
    /// `cuda:N`, on the candle engine.
    Cuda(usize),
    /// `metal`, on the candle engine.
    Metal,
}

impl Device {
    /// The device with this name.
    pub(crate) fn named(name: &str) -> Result<Self, Error> {
        let fault = |why: &str| Err(Error::setting(format!("device = {name}: {why}")));
        let number = name.strip_prefix("cuda:").and_then(|n| n.parse().ok());
        match (name, number) {
            (CPU, _) => Ok(Self::Cpu),
            ("metal", _) if cfg!(feature = "metal") => Ok(Self::Metal),
            ("metal", _) => fault("build with --features metal for it"),
            (_, Some(n)) if cfg!(feature = "cuda") => Ok(Self::Cuda(n)),
            (_, Some(_)) => fault("build with --features cuda for it"),
            _ => fault("allowed are cpu, cuda:N, metal"),
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str(CPU),
            Self::Cuda(n) => write!(f, "cuda:{n}"),
            Self::Metal => f.write_str("metal"),
        }
    }
}

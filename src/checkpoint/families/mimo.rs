//! MiMo (Xiaomi 2025, arXiv 2505.07608): a Qwen2 with a layer that predicts one token more.

use super::{Family, qwen2};

/// The registry entry.
pub(super) const FAMILY: Family = Family { model_type: "mimo", ..qwen2::FAMILY };

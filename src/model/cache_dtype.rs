//! How keys and values are stored.

use serde::{Deserialize, Serialize};

use crate::core::registry::named;

/// How the KV cache stores numbers. With another type than f32, a model has other logits: it is
/// another model. Which pass computes a token still changes no bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheDtype {
    /// Four bytes per number.
    #[default]
    F32,
    /// IEEE half precision.
    F16,
    /// Blocks of 32 signed bytes with an f16 scale.
    Q8_0,
}

named!(CacheDtype: F32 = "f32", F16 = "f16", Q8_0 = "q8_0");

impl CacheDtype {
    /// Whether it is the default.
    pub fn is_f32(&self) -> bool {
        *self == Self::F32
    }
}

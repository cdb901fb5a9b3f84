//! The keys of sparse feed-forward blocks.

use super::keys::ConfigKeys;
use crate::core::error::Error;
use crate::engine::decoder::Experts;

/// The most experts of a layer, far above any real model.
const MOST: usize = 1 << 16;

/// Keys that families name differently, and what absent ones mean.
#[derive(Debug, Clone, Copy)]
pub(super) struct ExpertKeys {
    /// The number of experts, under any of these keys.
    pub count: (&'static [&'static str], usize),
    /// `num_experts_per_tok`.
    pub used: usize,
    /// The width of an expert, and that of absent keys if it may be absent.
    pub intermediate: (&'static str, Option<usize>),
}

impl ExpertKeys {
    /// The experts of the sparse layers of a model.
    pub(super) fn read(self, keys: &ConfigKeys<'_>, normalised: bool) -> Result<Experts, Error> {
        let (names, default) = self.count;
        let (mut count_key, mut count) = (names[0], default);
        for name in names.iter().rev() {
            if let Some(given) = keys.size_up_to(MOST, name)? {
                (count_key, count) = (name, given);
            }
        }
        let used_key = "num_experts_per_tok";
        let used = keys.size_up_to(MOST, used_key)?.unwrap_or(self.used);
        if used > count {
            return Err(keys.fault(format!("{used_key} {used} is more than {count_key} {count}")));
        }
        let (key, intermediate) = self.intermediate;
        let intermediate = keys.required(key, keys.size(key)?.or(intermediate))?;
        Ok(Experts { count, used, intermediate, normalised })
    }
}

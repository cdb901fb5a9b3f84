//! What all parts of a run share.

use std::sync::atomic::AtomicBool;

use super::cell::Plan;
use super::prompts::Prompt;
use crate::core::clock::Clock;
use crate::core::distribution::Token;
use crate::method::draft::Texts;
use crate::model::{Codec, LanguageModel};

/// Everything that a run works with.
#[derive(Debug)]
pub struct Setup<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The target.
    pub target: &'a dyn LanguageModel,
    /// The draft model, if there is one.
    pub draft: Option<&'a dyn LanguageModel>,
    /// Text to tokens and back.
    pub codec: &'a dyn Codec,
    /// Texts that drafters learn from.
    pub texts: &'a Texts<'a>,
    /// The prompts, in the plan's order.
    pub prompts: &'a [Prompt],
    /// The tokens of each prompt, for one set of chat arguments after the other.
    pub tokens: &'a [Vec<Token>],
    /// The clock that times everything: [`Plan::clock`], unless a test scripts the time.
    pub clock: &'a dyn Clock,
    /// Worker threads in use.
    pub threads: usize,
    /// The length in bytes above which rows of a file move to compressed segments.
    pub pack_above: u64,
    /// Set from outside to stop the run cleanly.
    pub interrupted: &'a AtomicBool,
}

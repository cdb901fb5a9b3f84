//! What a plan is made from.

use super::training::Training;
use crate::method::draft::Texts;
use crate::model::{Codec, LanguageModel, ModelInfo};
use crate::run::prompt::Question;

/// Everything besides the experiment itself that a plan is made from.
#[derive(Debug)]
pub struct Material<'a> {
    /// Name of the experiment.
    pub name: &'a str,
    /// The target.
    pub target: &'a ModelInfo,
    /// The draft model, if there is one.
    pub draft: Option<&'a ModelInfo>,
    /// What it was trained on, if its folder says so.
    pub training: Option<&'a Training>,
    /// Text to tokens.
    pub codec: &'a dyn Codec,
    /// The prompts that the experiment names.
    pub prompts: &'a [Question],
    /// The target again, which answers all turns of a question but the last; none if there
    /// is no such turn.
    pub answers: Option<&'a dyn LanguageModel>,
    /// Text files that drafters read.
    pub texts: &'a Texts<'a>,
}

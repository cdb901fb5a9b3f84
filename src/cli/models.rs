//! From model names on the command line to a loaded pair.

use anyhow::{Context, Result, bail};

use crate::model::{LanguageModel, Loaded, Role, load};

/// The pair that ships with the project.
const EMBEDDED: (&str, &str) = ("embedded-target", "embedded-draft");

/// A target and, where one is wanted, a draft model of the same vocabulary.
#[derive(Debug)]
pub(super) struct Pair {
    /// The model whose law is kept.
    pub target: Loaded,
    /// The model that proposes.
    pub draft: Option<Loaded>,
}

impl Pair {
    /// The draft model, if there is one.
    pub(super) fn draft_model(&self) -> Option<&dyn LanguageModel> {
        self.draft.as_ref().map(|draft| &*draft.model)
    }
}

/// Loads the target (without a name the embedded one) and, if `with_draft`,
/// the draft model that is named or that belongs to the target.
///
/// # Errors
/// One sentence that says which model is missing, broken or does not fit.
pub(super) fn open_pair(
    target: Option<&str>,
    draft: Option<&str>,
    with_draft: bool,
) -> Result<Pair> {
    let target = target.unwrap_or(EMBEDDED.0);
    let draft = match (with_draft, draft) {
        (false, _) => None,
        (true, Some(draft)) => Some(draft),
        (true, None) => Some(partner(target)?),
    };
    let target = load(target, Role::Target).context("target")?;
    let draft = draft.map(|name| load(name, Role::Draft)).transpose().context("draft")?;
    Ok(Pair { target, draft })
}

/// The draft model that belongs to a target.
fn partner(target: &str) -> Result<&str> {
    if target == EMBEDDED.0 {
        Ok(EMBEDDED.1)
    } else if target.starts_with("toy:") {
        // A toy's table holds both models.
        Ok(target)
    } else {
        bail!(
            "target {target} has no draft model of its own: name one with --draft, choose a \
             --drafter that needs none, or give --plain"
        )
    }
}

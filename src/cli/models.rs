//! From model names on the command line to a loaded pair.

use anyhow::{Context, Result, bail};

use super::options::ModelArgs;
use crate::model::{LanguageModel, Loaded, Role, load, set_threads};

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

/// Starts the engine's threads and loads the target (without a name the embedded one) and, if `with_draft`,
/// the draft model that is named or that belongs to the target.
///
/// # Errors
/// One sentence that says which model is missing, broken or does not fit.
pub(super) fn open_pair(args: &ModelArgs, with_draft: bool) -> Result<Pair> {
    let all_cores = || std::thread::available_parallelism().map_or(1, usize::from);
    set_threads(args.threads.map_or_else(all_cores, usize::from))?;
    let target = args.target.as_deref().unwrap_or(EMBEDDED.0);
    let draft = match (with_draft, args.draft.as_deref()) {
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

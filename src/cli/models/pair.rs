//! Loads the pair of models that the command line names.

use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::checkpoint::pair::Pair;
use crate::checkpoint::{Catalog, is_head, load};
use crate::cli::options::ModelArgs;
use crate::engine::{Settings, Threads, set_threads};
use crate::io::terminal;
use crate::model::{Loaded, ModelInfo, Role};

/// The pair that ships with the project.
const EMBEDDED: (&str, &str) = ("embedded-target", "embedded-draft");

/// The names of the target and the draft model, as given on the command line.
pub(in crate::cli) type PairNames = (String, Option<String>);

/// Starts the engine's threads and returns their number. Warns on standard error if there are fewer
/// than requested.
pub(in crate::cli) fn start_threads(wanted: Option<usize>) -> Result<usize> {
    let Threads { count, warning } = set_threads(wanted)?;
    if let Some(warning) = &warning {
        terminal::say(format_args!("warning: {warning}"));
    }
    Ok(count)
}

/// Starts the engine's threads and loads the target (by default the embedded one). If `with_draft`,
/// also loads the draft model: the named one, or the target's partner. `special_tokens` is
/// [`Settings::special_tokens`].
///
/// # Errors
/// If a model is missing or damaged, or the two are incompatible; the message names it.
pub(in crate::cli) fn open_pair(
    args: &ModelArgs,
    special_tokens: bool,
    with_draft: bool,
) -> Result<(Pair, PairNames)> {
    start_threads(args.threads.map(usize::from))?;
    let catalog = Catalog::near(Path::new("."));
    let target_name = args.target.as_deref().unwrap_or(EMBEDDED.0);
    let target_source = catalog.model(target_name).context("target")?;
    let settings = Settings { special_tokens, ..args.settings(Role::Target) };
    let target_source = target_source.with(settings);
    let draft_name = match (with_draft, args.draft.as_deref()) {
        (false, _) => None,
        (true, Some(name)) => Some(name.to_owned()),
        (true, None) => Some(partner(&catalog, target_name, &target_source.path)?),
    };
    // Both names are resolved before the first model is read.
    let draft_source =
        draft_name.as_ref().map(|name| catalog.model(name)).transpose().context("draft")?;
    let draft_source = draft_source.map(|source| source.with(args.settings(Role::Draft)));
    let pair = Pair::load(target_source).context("target")?;
    let pair = match draft_source {
        Some(source) => pair.with_draft_of(args.vocabulary, source).context("draft")?,
        None => pair,
    };
    Ok((pair, (target_name.to_owned(), draft_name)))
}

/// Prints what a user should know about a target that completes texts, such as that nothing ends
/// them.
pub(in crate::cli) fn say_note(target: &ModelInfo) {
    if let Some(note) = &target.note {
        terminal::say(format_args!("note: target {}: {note}", target.name));
    }
}

/// Whether the named draft model is a head, which needs its target.
pub(in crate::cli) fn draft_is_head(args: &ModelArgs) -> Result<bool> {
    let Some(name) = args.draft.as_deref() else { return Ok(false) };
    let source = Catalog::near(Path::new(".")).model(name).context("draft")?;
    Ok(is_head(&source.path))
}

/// Starts the engine's threads and loads the draft model alone: the named one, or that of the
/// embedded pair. Returns its name, too.
///
/// # Errors
/// If it is missing or damaged; the message names it.
pub(in crate::cli) fn open_draft(args: &ModelArgs) -> Result<(Loaded, String)> {
    start_threads(args.threads.map(usize::from))?;
    let name = match (args.draft.as_deref(), args.target.as_deref()) {
        (Some(name), _) => name,
        (None, None) => EMBEDDED.1,
        (None, Some(target)) if target.starts_with("toy:") => target,
        (None, Some(_)) => bail!("name the draft model with --draft"),
    };
    let source = Catalog::near(Path::new(".")).model(name).context("draft")?;
    let draft = load(source.with(args.settings(Role::Draft)), Role::Draft).context("draft")?;
    Ok((draft, name.to_owned()))
}

/// The name of a target's partner as draft model.
fn partner(catalog: &Catalog, name: &str, source: &str) -> Result<String> {
    if source.starts_with("toy:") {
        // A toy's table holds both models.
        Ok(source.to_owned())
    } else if catalog.model(EMBEDDED.0).is_ok_and(|embedded| embedded.path == source) {
        Ok(EMBEDDED.1.to_owned())
    } else {
        bail!(
            "target {name} has no draft model of its own: name one with --draft, choose a \
             --drafter that needs none, or give --plain"
        )
    }
}

//! The known bugs of speculative decoders: one table for everything that plants, finds or names a
//! bug.
//!
//! A [`Bug`] has a name, a sentence and a source, and up to four forms. Its *mutant* is a method
//! that `certify` must refute, and that `serve --mutant` and `audit --planted` run. Its *verifier*
//! is wrong on chains, and `certify --external` compares other programs with it. Its
//! *distribution* is that of its tokens, on which audits bet. A wrong *head* drafts worse, which only
//! acceptance shows. A form is here or nowhere, so every
//! place has the same name for a bug. `docs/bugs.md` lists them and shows how to add one.

mod block_drafts;
mod blocks;
mod chains;
mod chances;
mod controls;
mod distribution;
mod drafters;
mod heads;
pub(crate) mod masses;
mod models;
mod mutant;
mod noise;
mod rejection;
mod targets;
mod uniforms;
mod verifiers;
mod vocabularies;

pub use distribution::BugDistribution;
pub use masses::{PositionDists, PositionMasses};
#[cfg(feature = "engine")]
pub(crate) use mutant::WrapCache;
pub use mutant::{Case, CaseModels, Mutant};
pub(crate) use mutant::{PROMPT, WrapChance, straight};

use self::mutant::{CASE, RIGHT, RIGHT_RACE};
use crate::core::registry::UnknownName;
use crate::method::verify::Verifier;
use crate::model::HeadFault;

/// A known bug.
#[derive(Debug, Clone, Copy)]
pub struct Bug {
    /// Its name.
    pub name: &'static str,
    /// The mistake in one sentence.
    pub summary: &'static str,
    /// Where it was seen or reported; `-` if nowhere in particular.
    pub seen: &'static str,
    /// Names that it had in the last release, which are still read.
    pub was: &'static [&'static str],
    /// A method with the bug.
    pub mutant: Option<Mutant>,
    /// A verifier of chains with the bug.
    pub verifier: Option<&'static dyn Verifier>,
    /// The distribution of a token; `None` if its inputs are unknown or do not differ.
    pub distribution: Option<fn(&PositionMasses) -> Option<BugDistribution>>,
    /// The mistake of a head, which leaves the output exact.
    pub head: Option<HeadFault>,
}

/// A bug without a form.
const BUG: Bug = Bug {
    name: "",
    summary: "",
    seen: "-",
    was: &[],
    mutant: None,
    verifier: None,
    distribution: None,
    head: None,
};

/// All bugs. Their order is that of the certificate.
const GROUPS: &[&[Bug]] = &[
    verifiers::BUGS,
    blocks::BUGS,
    models::BUGS,
    targets::BUGS,
    drafters::BUGS,
    controls::BUGS,
    block_drafts::BUGS,
    chances::BUGS,
    noise::BUGS,
    vocabularies::BUGS,
    chains::BUGS,
    heads::BUGS,
];

/// Production code in place of mutants.
const CONTROLS: &[Bug] = &[
    control("right", RIGHT),
    control("right_seeded", Mutant { case: Case { seeded: true, ..CASE }, ..RIGHT }),
    control("right_forks", Mutant { case: Case { engine: true, ..CASE }, ..RIGHT }),
    control("right_verifier_loop", verifiers::RIGHT_LOOP),
    control("right_block", blocks::RIGHT_BLOCK),
    control("right_traversal", blocks::RIGHT_TRAVERSAL),
    control("right_block_draft", block_drafts::RIGHT_BLOCK_DRAFT),
    control("right_tree", drafters::RIGHT_TREE),
    control("right_masks", controls::RIGHT_MASKS),
    control("right_race", RIGHT_RACE),
    control("right_cache", models::RIGHT_ROWS),
    control("right_exit", models::RIGHT_EXIT),
    control("right_intersection", vocabularies::RIGHT_INTERSECTION),
];

const fn control(name: &'static str, mutant: Mutant) -> Bug {
    let summary = "nothing: the production code as it is";
    Bug { name, summary, mutant: Some(mutant), ..BUG }
}

/// All bugs.
pub fn bugs() -> impl Iterator<Item = &'static Bug> {
    GROUPS.iter().copied().flatten()
}

/// The known-wrong methods, which the certificate must refute.
pub fn mutants() -> impl Iterator<Item = (&'static Bug, &'static Mutant)> {
    runnable(bugs())
}

/// Production code in place of mutants: none of these may be refuted.
pub fn controls() -> impl Iterator<Item = (&'static Bug, &'static Mutant)> {
    runnable(CONTROLS.iter())
}

/// Builds without the CPU engine skip mutants that need it.
fn runnable(
    bugs: impl Iterator<Item = &'static Bug>,
) -> impl Iterator<Item = (&'static Bug, &'static Mutant)> {
    bugs.filter_map(|bug| Some((bug, bug.mutant.as_ref()?)))
        .filter(|(_, mutant)| cfg!(feature = "engine") || !mutant.case.engine)
}

/// The known-wrong methods that work with any pair of models and without controls.
pub fn of_any_models() -> impl Iterator<Item = (&'static Bug, &'static Mutant)> {
    let own = |mutant: &Mutant| mutant.case.controls.iter().any(|controls| !controls().is_none());
    mutants().filter(move |(_, mutant)| {
        mutant.target.is_none() && mutant.draft.is_none() && !own(mutant)
    })
}

/// The known-wrong method of this name, or of this name in the last release, for any models.
///
/// # Errors
/// If there is none with this name; the error lists the known ones.
pub fn wrong_method(name: &str) -> Result<(&'static Bug, &'static Mutant), UnknownName> {
    let found = of_any_models().find(|(bug, _)| bug.is_called(name));
    found.ok_or_else(|| {
        UnknownName::new("known-wrong method", name, of_any_models().map(|(bug, _)| bug.name))
    })
}

/// The bugs that verifiers of chains may have, with a verifier that has it.
pub fn wrong_verifiers() -> impl Iterator<Item = (&'static Bug, &'static dyn Verifier)> {
    bugs().filter_map(|bug| Some((bug, bug.verifier?)))
}

/// The bugs on whose distributions audits bet.
pub fn audited() -> impl Iterator<Item = &'static Bug> {
    bugs().filter(|bug| bug.distribution.is_some())
}

/// The name that a bug has now, given one that it has or had; other names stay as they are.
pub fn name_now(name: &str) -> &str {
    bugs().find(|bug| bug.is_called(name)).map_or(name, |bug| bug.name)
}

impl Bug {
    /// Whether this is its name, or was in the last release.
    fn is_called(&self, name: &str) -> bool {
        self.name == name || self.was.contains(&name)
    }

    /// The distribution of a token; `None` if audits cannot bet on it here.
    pub fn distribution_at(&self, dists: &PositionMasses) -> Option<BugDistribution> {
        self.distribution.and_then(|distribution| distribution(dists))
    }
}

//! Registries of methods by name. Configs, `list`, error messages, the docs table and
//! the exactness suite all iterate over them.

use serde::Serialize;
use thiserror::Error;

use crate::core::params::Param;

/// Gives an enum its values as `ALL`, and their names as `name`.
macro_rules! named {
    ($kind:ty: $($value:ident = $name:literal),+) => {
        impl $kind {
            /// All values.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$value),+];

            /// The name used in settings and files.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $name,)+
                }
            }
        }
    };
}
pub(crate) use named;

/// The guarantee on the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Class {
    /// The output's distribution equals that of ancestral sampling from the processed
    /// target.
    D,
    /// The output is identical to greedy decoding; nothing is promised at T > 0.
    G,
    /// With the same seed, the output has the same tokens as plain decoding, for any drafter.
    P,
    /// Approximate: the output's total variation from the target is measured.
    X,
}

impl Class {
    const ALL: [Self; 4] = [Self::D, Self::G, Self::P, Self::X];

    /// The guarantee in one word.
    pub fn word(self) -> &'static str {
        match self {
            Self::D => "lossless",
            Self::G => "greedy-exact",
            Self::P => "seed-exact",
            Self::X => "approximate",
        }
    }
}

/// Adds the word to a class letter, with or without `~`: `D lossless`, `G~ greedy-exact`.
/// An unknown class is returned unchanged.
pub fn class_with_word(class: &str) -> String {
    let known = Class::ALL.into_iter().find(|known| class.starts_with(&format!("{known:?}")));
    known.map_or_else(|| class.to_owned(), |known| format!("{class} {}", known.word()))
}

/// The guarantee of a class as printed: `D`, `G`, `P` or `X`, perhaps with a `~`.
pub fn promise(class: &str) -> &'static str {
    match class {
        "D" => "the output's distribution is that of sampling from the processed target",
        "G" => "the tokens are those of plain greedy decoding",
        "G~" => "the tokens are those of plain greedy decoding, up to near-ties of logits",
        "P" => "the same seed gives the same tokens as plain decoding",
        "P~" => "the same seed gives the same tokens as plain decoding, up to near-ties of logits",
        _ => "no promise: measure its distance from the target's distribution",
    }
}

/// One method: its name in configs, its settings and its source.
#[derive(Debug, Clone, Copy)]
pub struct Entry<B: 'static> {
    /// Canonical name.
    pub name: &'static str,
    /// Names other tools use for it.
    pub aliases: &'static [&'static str],
    /// Settings that the method reads.
    pub params: &'static [Param],
    /// One-line description.
    pub summary: &'static str,
    /// Paper or origin.
    pub paper: &'static str,
    /// Builds the method.
    pub build: B,
}

/// A name that is in no registry.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("unknown {kind} \"{name}\"{hint}: allowed are {allowed}", hint = hint(.nearest))]
pub struct UnknownName {
    /// The kind of the name.
    pub kind: &'static str,
    /// The given name.
    pub name: String,
    /// The nearest allowed name, if it is near enough.
    pub nearest: Option<String>,
    /// All allowed names.
    pub allowed: String,
}

fn hint(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|n| format!(" (did you mean \"{n}\"?)")).unwrap_or_default()
}

impl UnknownName {
    /// An error that lists the allowed names and suggests the nearest one.
    pub fn new<'a>(
        kind: &'static str,
        name: &str,
        allowed: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let allowed = allowed.into_iter().collect::<Vec<_>>();
        Self {
            kind,
            name: name.to_owned(),
            nearest: nearest(name, allowed.iter().copied()),
            allowed: allowed.join(", "),
        }
    }

    /// The same error, which may also suggest one of `others`: names that are accepted, but left
    /// out of the list.
    #[must_use]
    pub fn or_near<'a>(self, others: impl IntoIterator<Item = &'a str>) -> Self {
        let others = others.into_iter().collect::<Vec<&str>>();
        let candidates = self.nearest.as_deref().into_iter().chain(others);
        let nearest = nearest(&self.name, candidates);
        Self { nearest, ..self }
    }
}

/// The candidate nearest to `name`, if the difference is a likely typo: at most one
/// letter in four is missing, added, wrong or swapped with its neighbour.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let slips = |candidate: &&str| strsim::osa_distance(name, candidate);
    let near = |candidate: &&str| {
        let letters = name.chars().count().min(candidate.chars().count());
        letters > 1 && slips(candidate) <= letters.div_ceil(4)
    };
    candidates.into_iter().filter(near).min_by_key(slips).map(str::to_owned)
}

/// The entry called `name`, by its canonical name or an alias.
///
/// # Errors
/// If there is none; the message lists the allowed names.
pub fn find<B>(
    kind: &'static str,
    entries: &'static [Entry<B>],
    name: &str,
) -> Result<&'static Entry<B>, UnknownName> {
    entries.iter().find(|e| e.name == name || e.aliases.contains(&name)).ok_or_else(|| {
        let aliases = entries.iter().flat_map(|e| e.aliases).copied();
        UnknownName::new(kind, name, entries.iter().map(|e| e.name)).or_near(aliases)
    })
}

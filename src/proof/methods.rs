//! The certified methods: every verifier with every drafter and length policy that it supports.
//!
//! The methods come from the registries, so a registry line is enough to certify a new verifier,
//! drafter or length policy.

use crate::core::params::Params;
use crate::core::registry::{Entry, UnknownName};
use crate::core::sampling::SamplingParams;
use crate::core::tree::{DraftShape, Siblings};
use crate::method::decode::MethodSpec;
use crate::method::draft::{BuildDrafter, DRAFTERS, is_plain};
use crate::method::length::{BuildLength, LENGTHS, needs_estimates};
use crate::method::verify::{BuildVerifier, VERIFIERS};

/// Settings by key.
pub(super) type KeyValues = &'static [(&'static str, &'static str)];

/// The methods that are certified with other settings than the defaults. Trees are small enough to
/// enumerate. The first line of a verifier or a length policy is combined with all other parts,
/// further lines in fewer cells.
const SETTINGS_OF: &[(&str, KeyValues)] = &[
    ("model_tree", &[("tree", "2,1"), ("siblings", "independent")]),
    ("model_tree", &[("tree", "2,2"), ("siblings", "independent")]),
    ("model_tree", &[("tree", "3"), ("siblings", "independent")]),
    ("model_tree", &[("tree", "2,1"), ("siblings", "distinct")]),
    ("model_tree", &[("tree", "2,2"), ("siblings", "distinct")]),
    ("model_tree", &[("tree", "2,1"), ("siblings", "top_k")]),
    ("model_tree", &[("tree", "2,2"), ("siblings", "top_k")]),
    ("model_tree", &[("tree", "2,2"), ("siblings", "last_sampled")]),
    ("model_tree", &[("tree", "3,1"), ("siblings", "last_sampled")]),
    ("model_tree", &[("tree", "2,1"), ("siblings", "hub")]),
    ("model_tree", &[("tree", "2,2"), ("siblings", "hub")]),
    ("tree_optimal", &[("tree_most_nodes", "3")]),
    ("gumbel", &[]),
    ("gumbel", &[("gumbel_lists", "2")]),
    ("confidence", &[]),
    ("confidence", &[("confidence_tuned", "0")]),
    // By default it ends nearly every draft with these small vocabularies.
    ("entropy", &[]),
    ("entropy", &[("entropy_threshold", "0.38")]),
    // By default it would end none: a distribution over four tokens has too little entropy.
    ("adaedl", &[("adaedl_gamma", "0.4")]),
    // These cells have a batch of one request, in which both would draft K tokens by default.
    ("by_batch", &[("k_by_batch", "1:1")]),
    ("shared_budget", &[("draft_budget", "1")]),
];

/// A part of a method with some of its settings.
#[derive(Debug, Clone, Copy)]
pub(super) struct Variant<B: 'static> {
    pub(super) entry: &'static Entry<B>,
    pub(super) settings: KeyValues,
    /// Whether it is the first with its name.
    first: bool,
}

pub(super) type Proposer = Variant<BuildDrafter>;

fn variants<B: Copy>(registry: &'static [Entry<B>]) -> Vec<Variant<B>> {
    let of = |entry: &'static Entry<B>| {
        let own = SETTINGS_OF.iter().filter(|(name, _)| *name == entry.name);
        let mut all = own.map(|(_, settings)| *settings).collect::<Vec<_>>();
        if all.is_empty() {
            all.push(&[]);
        }
        let numbered = all.into_iter().enumerate();
        numbered.map(move |(i, settings)| Variant { entry, settings, first: i == 0 })
    };
    registry.iter().flat_map(of).collect()
}

/// A name, with the settings that differ from the defaults.
pub(super) fn with_settings(name: &str, settings: &str) -> String {
    if settings.is_empty() { name.to_owned() } else { format!("{name}({settings})") }
}

impl<B> Variant<B> {
    /// Its name, with the settings that differ from the defaults.
    pub(super) fn name(&self) -> String {
        with_settings(self.entry.name, &self.settings())
    }

    /// The values of the settings that differ from the defaults.
    pub(super) fn settings(&self) -> String {
        self.settings.iter().map(|(_, value)| *value).collect::<Vec<_>>().join(" ")
    }

    /// The settings that differ from the defaults.
    fn params(&self) -> Params {
        set(Params::default(), self.settings)
    }

    fn is_called(&self, name: &str) -> bool {
        self.entry.name == name || self.entry.aliases.contains(&name) || self.name() == name
    }
}

/// The settings with further ones added.
pub(super) fn set(params: Params, settings: KeyValues) -> Params {
    let add = |params: Params, (key, value): &(&str, &str)| match value.parse() {
        Ok(value) => params.with(key, value),
        Err(never) => match never {},
    };
    settings.iter().fold(params, add)
}

impl Proposer {
    fn shape(&self) -> Option<DraftShape> {
        let params = self.params().of(self.entry.params).ok()?;
        (self.entry.build.shape)(&params).ok()
    }

    /// Children per node by depth, for a drafter of trees of a fixed shape.
    pub(super) fn tree(&self) -> Option<Vec<usize>> {
        let (_, tree) = self.settings.iter().find(|(key, _)| *key == "tree")?;
        tree.split(',').map(|part| part.parse().ok()).collect()
    }

    /// Whether it reads all these settings.
    pub(super) fn reads(&self, settings: KeyValues) -> bool {
        settings.iter().all(|(key, _)| self.entry.params.iter().any(|param| param.key == *key))
    }

    pub(super) fn draws_chains(&self) -> bool {
        self.shape().is_some_and(|shape| shape.sampled && !shape.branches())
    }

    /// Whether its drafts may be trees.
    pub(super) fn branches(&self) -> bool {
        self.shape().is_some_and(|shape| shape.branches())
    }

    pub(super) fn draws_trees(&self) -> bool {
        self.shape().is_some_and(|shape| shape.sampled && shape.branches())
    }

    /// False for plain decoding, which proposes nothing for any K.
    pub(super) fn proposes(&self) -> bool {
        !is_plain(self.entry.name)
    }
}

/// A verifier with a drafter and a length policy.
#[derive(Debug, Clone, Copy)]
pub(super) struct Combination {
    pub(super) verifier: Variant<BuildVerifier>,
    pub(super) proposer: Proposer,
    pub(super) length: Variant<BuildLength>,
}

impl Combination {
    /// All combinations that the verifiers support, in registry order.
    pub(super) fn all() -> Vec<Self> {
        let lengths = variants(LENGTHS);
        let mut all = Vec::new();
        for verifier in variants(VERIFIERS) {
            let built = (verifier.entry.build.make)(&verifier.params());
            for proposer in variants(DRAFTERS) {
                if proposer.shape().is_some_and(|shape| built.supports(&shape)) {
                    // Plain decoding does not consult a length policy.
                    let asked = proposer.proposes() && verifier.first;
                    let lengths = if asked { &lengths } else { &lengths[..1] };
                    all.extend(lengths.iter().map(|&length| Self { verifier, proposer, length }));
                }
            }
        }
        all
    }

    pub(super) fn name(&self) -> String {
        format!("{}+{}+{}", self.verifier.name(), self.proposer.name(), self.length.name())
    }

    /// The method as in a configuration, with drafts of `k` tokens, or trees of `k` levels.
    pub(super) fn spec(&self, k: usize, sampling: SamplingParams) -> MethodSpec {
        MethodSpec {
            drafter: self.proposer.entry.name.to_owned(),
            verifier: self.verifier.entry.name.to_owned(),
            length: self.length.entry.name.to_owned(),
            num_speculative_tokens: k,
            sampling,
            params: set(set(self.verifier.params(), self.proposer.settings), self.length.settings),
        }
    }

    /// Whether verifier and length policy have the first of their settings.
    pub(super) fn has_first_settings(&self) -> bool {
        self.verifier.first && self.length.first
    }

    /// Whether it is the first of `methods` with its verifier and drafter.
    pub(super) fn is_first_of_lengths(&self, methods: &[Self]) -> bool {
        let same = |other: &&Self| {
            other.verifier.name() == self.verifier.name()
                && other.proposer.name() == self.proposer.name()
        };
        methods.iter().find(same).is_some_and(|first| first.length.name() == self.length.name())
    }

    /// Whether drafts share the verifier's noise. Such a method is sampled, because enumeration
    /// treats draws as independent.
    pub(super) fn is_coupled(&self) -> bool {
        let verifier = (self.verifier.entry.build.make)(&self.verifier.params());
        let races = verifier.coupling().is_some();
        let drawn = |shape: DraftShape| shape.sampled && shape.only(&[Siblings::Independent]);
        races && self.proposer.shape().is_some_and(drawn)
    }

    /// Whether its length policy needs a draft model that estimates acceptance.
    pub(super) fn needs_estimates(&self) -> bool {
        needs_estimates(self.length.entry)
    }

    /// Whether its length policy makes decisions.
    pub(super) fn adapts(&self) -> bool {
        self.length.entry.name != "fixed"
    }

    /// Whether every part of `method`, as in `rejection+model`, is one of the
    /// combination's.
    fn matches(&self, method: &str) -> bool {
        method.split('+').all(|part| {
            let drafter = self.proposer.is_called(part);
            drafter || self.verifier.is_called(part) || self.length.is_called(part)
        })
    }

    /// The combinations that match one of the given methods; all if none are given.
    pub(super) fn matching(methods: &[String]) -> Result<Vec<Self>, UnknownName> {
        let all = Self::all();
        if let Some(unknown) = methods.iter().find(|m| !all.iter().any(|c| c.matches(m))) {
            let verifiers = VERIFIERS.iter().map(|e| e.name);
            let drafters = DRAFTERS.iter().map(|e| e.name);
            let lengths = LENGTHS.iter().map(|e| e.name);
            let allowed = verifiers.chain(drafters).chain(lengths);
            return Err(UnknownName::new("method", unknown, allowed));
        }
        let chosen = |c: &Self| methods.is_empty() || methods.iter().any(|m| c.matches(m));
        Ok(all.into_iter().filter(chosen).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::params::Param;

    /// The names of variants with a setting that their entry does not read or does not allow.
    fn unsound<B: Copy>(registry: &'static [Entry<B>]) -> Vec<String> {
        let sound = |v: &Variant<B>| {
            let known = |key| v.entry.params.iter().any(|param: &Param| param.key == key);
            v.settings.iter().all(|(key, _)| known(*key)) && v.params().of(v.entry.params).is_ok()
        };
        variants(registry).iter().filter(|v| !sound(v)).map(Variant::name).collect()
    }

    #[test]
    fn every_variant_uses_only_settings_that_its_entry_reads() {
        let all = [unsound(DRAFTERS), unsound(VERIFIERS), unsound(LENGTHS)].concat();
        assert!(all.is_empty(), "{all:?}");
        assert!(variants(DRAFTERS).iter().all(|proposer| proposer.shape().is_some()));
        let registered = |name| {
            DRAFTERS.iter().any(|e| e.name == name)
                || VERIFIERS.iter().any(|e| e.name == name)
                || LENGTHS.iter().any(|e| e.name == name)
        };
        assert!(SETTINGS_OF.iter().all(|(name, _)| registered(*name)));
    }

    #[test]
    fn a_verifier_variant_is_combined_with_the_same_drafters() {
        let all = Combination::all();
        let of = |verifier: &str| {
            let of = all.iter().filter(|c| c.verifier.name() == verifier);
            of.map(|c| c.proposer.name()).collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!(of("gumbel(2)"), of("gumbel"));
    }
}

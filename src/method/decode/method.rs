//! Decoding methods by name, as in configs and on the command line. Checks them and builds their
//! drafter, length policy, verifier and sampler.

use std::rc::Rc;

use serde::{Deserialize, Serialize};

use super::Method;
use crate::core::error::Error;
use crate::core::params::{Param, Params, Value};
use crate::core::registry::{Class, Entry, UnknownName, find};
use crate::core::sampling::{Sampler, SamplingParams};
use crate::method::draft::{
    AUTO, BuildDrafter, DRAFTERS, DrafterParams, SIBLINGS, Tools, draft_sampling, is_plain,
    without_repeats,
};
use crate::method::length::{BuildLength, LENGTHS, LengthParams};
use crate::method::verify::{BuildVerifier, VERIFIERS};
use crate::model::LanguageModel;

/// K: the number of tokens drafted per round, or their maximum, or the initial value of
/// a draft length policy.
pub const NUM_SPECULATIVE_TOKENS: Param =
    Param::count("num_speculative_tokens", 4, 1..=256, "K: tokens drafted per round").or(&[
        "num_assistant_tokens",
        "prompt_lookup_num_tokens",
        "draft_max",
        "n_draft",
    ]);

/// One decoding method, by name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MethodSpec {
    /// The drafter: a name or alias in [`DRAFTERS`].
    pub drafter: String,
    /// The verifier: a name or alias in [`VERIFIERS`].
    pub verifier: String,
    /// The draft length policy: a name or alias in [`LENGTHS`].
    pub length: String,
    /// K: drafted tokens per round.
    pub num_speculative_tokens: usize,
    /// Settings of the drafter, the verifier and the length policy.
    #[serde(skip_serializing_if = "Params::is_empty")]
    pub params: Params,
    /// How the target's logits become distributions.
    pub sampling: SamplingParams,
}

impl Default for MethodSpec {
    fn default() -> Self {
        Self {
            drafter: "model".to_owned(),
            verifier: "rejection".to_owned(),
            length: "fixed".to_owned(),
            num_speculative_tokens: 4,
            sampling: SamplingParams::default(),
            params: Params::default(),
        }
    }
}

/// The registry entries that a spec names.
struct Entries {
    drafter: &'static Entry<BuildDrafter>,
    verifier: &'static Entry<BuildVerifier>,
    length: &'static Entry<BuildLength>,
}

impl Entries {
    /// The settings that the method reads.
    fn params(&self) -> impl Iterator<Item = &'static Param> {
        self.drafter.params.iter().chain(self.verifier.params).chain(self.length.params)
    }

    /// All settings that the method reads, defaults included; `siblings = auto` becomes
    /// the kind that suits the verifier best.
    fn resolve(&self, params: &Params) -> Result<Params, Error> {
        let params = params.of(self.params())?;
        if params.set(SIBLINGS.key) != Some(&Value::Text(AUTO.to_owned())) {
            return Ok(params);
        }
        let siblings = (self.verifier.build.make)(&params).siblings();
        Ok(params.with(SIBLINGS.key, Value::Text(siblings.name().to_owned())))
    }
}

impl MethodSpec {
    /// Checks names and ranges, and that the verifier is exact for what the drafter
    /// proposes.
    ///
    /// # Errors
    /// One sentence that names the first invalid setting and the allowed values.
    pub fn validate(&self) -> Result<(), Error> {
        self.samplers(&self.resolved()?.1).map(|_| ())
    }

    /// What it names, and all settings of that, if the parts suit each other.
    fn resolved(&self) -> Result<(Entries, Params), Error> {
        let entries = self.entries()?;
        let params = entries.resolve(&self.params)?;
        if !self.is_plain() {
            let k = self.num_speculative_tokens;
            let plain = "; plain decoding is the drafter \"none\"";
            let hint = if k == 0 { plain } else { "" };
            let checked = NUM_SPECULATIVE_TOKENS.check(&Value::Count(k));
            checked.map_err(|bad| Error::setting(format!("{bad}{hint}")))?;
        }
        let length = LengthParams { num_speculative_tokens: 1, params: &params };
        (entries.length.build)(&length)?;
        let verifier = (entries.verifier.build.make)(&params);
        let shape = (entries.drafter.build.shape)(&params)?;
        if !verifier.supports(&shape) {
            return Err(Error::setting(format!(
                "verifier \"{}\" is not exact for the drafts of drafter \"{}\": see \
                 `specdec list` for verifiers that are",
                entries.verifier.name, entries.drafter.name
            )));
        }
        Ok((entries, params))
    }

    /// The samplers of the target and of the draft model, whose settings are in `params`.
    fn samplers(&self, params: &Params) -> Result<[Sampler; 2], Error> {
        let target = Sampler::new(self.sampling.clone())?;
        let draft = Sampler::new(draft_sampling(self.sampling.clone(), params));
        Ok([target, draft.map_err(|bad| Error::setting(format!("the draft model's {bad}")))?])
    }

    /// Rejects settings that no part of the method reads.
    ///
    /// # Errors
    /// If there is one, or a name is unknown; the sentence lists the methods that read
    /// it.
    pub fn check_read(&self) -> Result<(), Error> {
        let entries = self.entries()?;
        let read = |key: &str| entries.params().any(|param| param.key == key);
        match self.params.iter().map(|(key, _)| key).find(|key| !read(key)) {
            None => Ok(()),
            Some(key) => Err(Error::setting(format!(
                "{key} is not a setting of {}, {} or {}: leave it out, or choose one of {}",
                entries.drafter.name,
                entries.verifier.name,
                entries.length.name,
                readers(key).join(", ")
            ))),
        }
    }

    /// The same method in canonical spelling, so that two spellings of one method are
    /// equal: aliases become names, and plain decoding gets K = 0 and the default
    /// length policy, without settings of another one.
    ///
    /// # Errors
    /// As [`Self::validate`], except that settings of sampling are not checked: they are where they
    /// are read.
    pub fn canonical(&self) -> Result<Self, Error> {
        let (entries, params) = self.resolved()?;
        let mut spec = self.clone();
        spec.drafter = entries.drafter.name.to_owned();
        spec.verifier = entries.verifier.name.to_owned();
        spec.length = entries.length.name.to_owned();
        spec.params = without_repeats(&spec.sampling, params);
        if spec.is_plain() {
            spec.num_speculative_tokens = 0;
            spec.length = Self::default().length;
            let read = entries.length.params.iter();
            spec.params = read.fold(spec.params, |params, param| params.without(param));
        }
        Ok(spec)
    }

    /// Whether this is plain autoregressive decoding, the baseline.
    pub fn is_plain(&self) -> bool {
        is_plain(&self.drafter)
    }

    /// Builds the method with a draft model and no other tools.
    ///
    /// # Errors
    /// As [`Self::build_with`].
    pub fn build<'a>(
        &self,
        draft_model: Option<&'a dyn LanguageModel>,
    ) -> Result<Method<'a>, Error> {
        self.build_with(Tools { draft: draft_model, ..Tools::default() })
    }

    /// Builds the method.
    ///
    /// # Errors
    /// As [`Self::validate`], or if the drafter needs something that is absent, or a
    /// model cannot open a session.
    pub fn build_with<'a>(&self, tools: Tools<'a>) -> Result<Method<'a>, Error> {
        let (entries, params) = self.resolved()?;
        let [sampler, draft_sampler] = self.samplers(&params)?;
        let drafter = DrafterParams {
            tools,
            sampler: &draft_sampler,
            target_sampler: &sampler,
            params: &params,
        };
        let length =
            LengthParams { num_speculative_tokens: self.num_speculative_tokens, params: &params };
        Ok(Method {
            drafter: (entries.drafter.build.make)(&drafter)?,
            length: (entries.length.build)(&length)?,
            verifier: Rc::from((entries.verifier.build.make)(&params)),
            sampler,
        })
    }

    /// Whether the drafter requires a draft model.
    pub fn needs_draft_model(&self) -> bool {
        self.entries().is_ok_and(|entries| entries.drafter.build.needs_model)
    }

    fn entries(&self) -> Result<Entries, Error> {
        Ok(Entries {
            drafter: find("drafter", DRAFTERS, &self.drafter)?,
            verifier: find("verifier", VERIFIERS, &self.verifier)?,
            length: find("draft length policy", LENGTHS, &self.length)?,
        })
    }
}

/// The settings of all registered methods, each once.
pub fn all_params() -> Vec<&'static Param> {
    let drafters = DRAFTERS.iter().flat_map(|e| e.params);
    let verifiers = VERIFIERS.iter().flat_map(|e| e.params);
    let mut all = Vec::<&Param>::new();
    for param in drafters.chain(verifiers).chain(LENGTHS.iter().flat_map(|e| e.params)) {
        if all.iter().all(|known| known.key != param.key) {
            all.push(param);
        }
    }
    all
}

/// The names of the methods that read a setting.
pub fn readers(key: &str) -> Vec<&'static str> {
    fn of<B>(entries: &'static [Entry<B>], key: &str) -> impl Iterator<Item = &'static str> {
        let reads = move |entry: &&Entry<B>| entry.params.iter().any(|param| param.key == key);
        entries.iter().filter(reads).map(|entry| entry.name)
    }
    of(DRAFTERS, key).chain(of(VERIFIERS, key)).chain(of(LENGTHS, key)).collect()
}

/// The setting that configs call `name`.
///
/// # Errors
/// If there is none; the sentence lists the allowed names.
pub fn find_param(name: &str) -> Result<&'static Param, UnknownName> {
    let all = all_params();
    let found = all.iter().find(|param| param.key == name || param.aliases.contains(&name));
    found.copied().ok_or_else(|| UnknownName::new("setting", name, all.iter().map(|p| p.key)))
}

/// The guarantee class of the output of `spec`: D, G, P or X, with a `~` if the engine
/// cannot keep the guarantee bit for bit.
///
/// At a temperature of zero a method of class D has one possible output, the greedy
/// one, and counts as G. G and P are defined by a token-by-token comparison with plain
/// decoding, so they need an engine whose logits do not depend on the number of rows in
/// a pass (`row_invariant`). Plain decoding is the reference of this comparison and is
/// never marked.
///
/// # Errors
/// If the verifier's name is unknown.
pub fn class_of(spec: &MethodSpec, row_invariant: bool) -> Result<String, Error> {
    let verifier = find("verifier", VERIFIERS, &spec.verifier)?;
    let class = match verifier.build.class {
        Class::D if spec.sampling.is_greedy() => Class::G,
        class => class,
    };
    let compares = matches!(class, Class::G | Class::P) && !spec.is_plain();
    let mark = if compares && !row_invariant { "~" } else { "" };
    Ok(format!("{class:?}{mark}"))
}

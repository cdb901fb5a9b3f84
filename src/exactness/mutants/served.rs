//! Known-wrong methods for any models: those whose mistake is not in a model.

use std::rc::Rc;

use super::{MUTANTS, Mutant, can_run};
use crate::chance::Chance;
use crate::decode::{Method, MethodSpec};
use crate::draft::{DrafterParams, Tools, draft_sampling};
use crate::error::Error;
use crate::params::Params;
use crate::registry::UnknownName;
use crate::sampling::Sampler;

/// The known-wrong methods that work with any pair of models.
pub fn of_any_models() -> Vec<Mutant> {
    let all = MUTANTS.iter().filter(|(_, any_models)| *any_models).flat_map(|(own, _)| *own);
    all.copied().filter(can_run).collect()
}

impl Mutant {
    /// The known-wrong method of this name, for any models.
    ///
    /// # Errors
    /// If there is none with this name; the error lists the known ones.
    pub fn of_any_models(name: &str) -> Result<Self, UnknownName> {
        let all = of_any_models();
        let found = all.iter().find(|mutant| mutant.name == name).copied();
        found.ok_or_else(|| {
            UnknownName::new("known-wrong method", name, all.iter().map(|mutant| mutant.name))
        })
    }

    /// The method of `spec` with the mistake.
    ///
    /// # Errors
    /// If the method cannot be built, or the mistake needs a draft model and there is none.
    pub fn method<'a>(&self, spec: &MethodSpec, tools: Tools<'a>) -> Result<Method<'a>, Error> {
        let right = spec.build_with(tools)?;
        let recorded = Sampler::new(draft_sampling(spec.sampling, &spec.params))?;
        let drafter = (self.drafter)(&DrafterParams {
            tools,
            sampler: &recorded,
            target_sampler: &Sampler::new(spec.sampling)?,
            params: &Params::default(),
        })?;
        Ok(Method {
            drafter,
            verifier: Rc::new(self.verifier),
            sampler: Sampler::new((self.sampler)(spec.sampling))?,
            ..right
        })
    }

    /// The random numbers with the mistake.
    pub fn wrap<'c>(&self, chance: &'c mut dyn Chance) -> Box<dyn Chance + 'c> {
        (self.seeded)(chance)
    }
}

//! Judges one cell by enumerating or sampling it.

use std::cell::Cell as Shared;
use std::rc::Rc;

use super::cells::ExactnessCell;
use super::closed::ChainCase;
use super::enumerate::enumerate;
use super::joint::{Gap, JointDistribution, TOLERANCE, off, target_distribution};
use super::kind::Kinds;
use super::monte_carlo::Fit;
use super::place::Place;
use super::probe::{DraftDistributions, Tally, TargetRows};
use super::reference::{TableRows, draft_model, draft_rows};
use super::replay::{audit, first_difference, sample_by};
use super::watch::Watched;
use crate::bugs::straight;
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::core::registry::Class;
use crate::core::sampling::Sampler;
use crate::method::decode::CertificateVerdict;
use crate::method::decode::{Generation, Method, MethodSpec, PLAIN, StopRules};
use crate::method::draft::{Tools, draft_sampling};
use crate::method::verify::Rule;
use crate::model::{LanguageModel, Toy};

pub(super) struct Finding {
    pub(super) paths: usize,
    pub(super) max_tv: Option<f64>,
    pub(super) min_detectable_tv: f64,
    /// Whether the length policy ended a draft before K.
    pub(super) stopped: bool,
    /// The kinds of p and q in its decisions.
    pub(super) kinds: Kinds,
    pub(super) verdict: Result<CertificateVerdict, String>,
}

/// The models and the method of a cell.
struct Parts {
    target: Toy,
    draft: Box<dyn LanguageModel>,
    draft_rows: Box<dyn TableRows>,
    prompt: Vec<Token>,
    spec: MethodSpec,
    target_sampler: Sampler,
    draft_sampler: Sampler,
}

impl Parts {
    fn of(cell: &ExactnessCell) -> Result<Self, Error> {
        let pair = cell.place.pair();
        let sampler = |params| Ok::<_, Error>(Sampler::new(params)?);
        let spec = cell.spec();
        let target = pair.target("target")?;
        Ok(Self {
            draft: draft_model(&pair, &target)?,
            draft_rows: draft_rows(&pair)?,
            target,
            prompt: pair.prompt,
            target_sampler: sampler(spec.sampling.clone())?,
            draft_sampler: sampler(draft_sampling(spec.sampling.clone(), &spec.params))?,
            spec,
        })
    }

    fn generation(&self, tokens: usize) -> Result<Generation<'_>, Error> {
        self.begin(self.method()?, tokens)
    }

    /// The same. `stopped` becomes true if the length policy ends a draft before K.
    fn watched(&self, tokens: usize, stopped: &Rc<Shared<bool>>) -> Result<Generation<'_>, Error> {
        let method = self.method()?;
        let length = Watched::new(method.length, self.spec.num_speculative_tokens, stopped);
        self.begin(Method { length: Box::new(length), ..method }, tokens)
    }

    fn method(&self) -> Result<Method<'_>, Error> {
        let (draft, target) = (Some(&*self.draft), Some(&self.target as _));
        self.spec.build_with(Tools { draft, target, texts: None })
    }

    fn begin<'a>(&self, method: Method<'a>, tokens: usize) -> Result<Generation<'a>, Error> {
        let eos = self.target.info().eos.clone();
        let stop = StopRules { eos, ..StopRules::max_tokens(tokens) };
        Generation::new(&self.target, method, &self.prompt, stop, None)
    }

    fn distribution(&self, tokens: usize) -> Result<JointDistribution, Error> {
        target_distribution(&self.target, &self.target_sampler, &self.prompt, tokens)
    }

    fn chain(&self) -> ChainCase<'_> {
        ChainCase {
            target: &self.target,
            target_sampler: &self.target_sampler,
            draft: &*self.draft_rows,
            draft_sampler: &self.draft_sampler,
            prompt: &self.prompt,
        }
    }
}

/// Enumerates a cell, or samples it `runs` times if it cannot be enumerated.
pub(super) fn walk_cell(cell: &ExactnessCell, runs: u32) -> Result<Finding, Error> {
    if cell.method.is_coupled() {
        return sample_cell(cell, runs);
    }
    let parts = Parts::of(cell)?;
    let mut rows = TargetRows::new(&parts.target);
    let mut dists = DraftDistributions::default();
    let stopped = Rc::default();
    let generation = parts.watched(cell.tokens(), &stopped)?;
    let found = enumerate(&parts.target, generation, &mut [&mut rows, &mut dists])?;
    if found.coupled {
        return sample_cell(cell, runs);
    }
    let gap = Gap::between(&found.dist, &parts.distribution(cell.tokens())?);
    let claimed = cell.claims();
    let length = found.tally.first_emitted;
    let expected = expected_length(cell, &parts)?.filter(|expected| off((length - expected).abs()));
    let faults = [
        (found.unsupported).then(|| "a draft was not of the stated shape".to_owned()),
        (claimed && !gap.is_zero())
            .then(|| format!("the joint distribution is off by a TV of {:.1e}", gap.tv_joint)),
        off(gap.mass_error).then(|| format!("mass off by {:.1e}", gap.mass_error)),
        (rows.wrong > 0).then(|| format!("{} wrong rows of the target", rows.wrong)),
        off(dists.max_error)
            .then(|| format!("a draft token's distribution is off by {:.1e}", dists.max_error)),
        claimed.then(|| vacuous(cell, &found.tally)).flatten(),
        expected.map(|expected| format!("E[L] is {length}, not {expected}")),
        leaves_the_path(cell, &parts)?,
    ];
    let holds = if claimed { CertificateVerdict::Exact } else { CertificateVerdict::Measured };
    let verdict = faults.into_iter().flatten().next().map_or(Ok(holds), Err);
    Ok(Finding {
        paths: found.paths,
        max_tv: Some(gap.tv_joint),
        min_detectable_tv: TOLERANCE,
        stopped: stopped.get(),
        kinds: found.tally.kinds,
        verdict,
    })
}

/// A cell proves nothing unless tokens were proposed, accepted and rejected. There are four
/// exceptions:
///
/// - Plain decoding proposes nothing.
/// - Nothing need be rejected if, at every node reached without a choice of siblings, q equals p or
///   the children cover the target's support.
/// - Nothing can be accepted if p and q share no token.
/// - On a random toy, a lookup may find nothing.
fn vacuous(cell: &ExactnessCell, tally: &Tally) -> Option<String> {
    if !cell.method.proposer.proposes() {
        return (tally.proposed > 0.0).then(|| "plain decoding proposed a token".to_owned());
    }
    let missing = if tally.proposed == 0.0 && matches!(cell.place, Place::Named(_)) {
        "proposed"
    } else if tally.accepted == 0.0 && tally.shared {
        "accepted"
    } else if tally.rejected == 0.0 && tally.contested {
        "rejected"
    } else {
        return None;
    };
    Some(format!("vacuous: nothing was {missing}"))
}

/// E\[L\] of the first round; none without a known closed form. A drafter that has rows for fewer
/// tokens than K drafts as many.
fn expected_length(cell: &ExactnessCell, parts: &Parts) -> Result<Option<f64>, Error> {
    let rule = Rule::of(cell.method.verifier.entry.name);
    let chain = cell.method.proposer.entry.name == "model";
    let rule = rule.filter(|_| chain && !cell.method.adapts());
    let k = parts.draft.info().deepest.map_or(cell.k, |deepest| deepest.min(cell.k));
    rule.map(|rule| parts.chain().expected_emitted(rule, k)).transpose()
}

/// A message that names the first run in which a method of class P differs from plain decoding.
fn leaves_the_path(cell: &ExactnessCell, parts: &Parts) -> Result<Option<String>, Error> {
    if cell.method.verifier.entry.build.class != Class::P {
        return Ok(None);
    }
    let plain = MethodSpec { drafter: PLAIN.to_owned(), ..parts.spec.clone() };
    let plain = parts.begin(plain.build(None)?, PATH.0)?;
    let run = first_difference(&parts.target, [&parts.generation(PATH.0)?, &plain], SEED, PATH.1)?;
    Ok(run.map(|run| format!("not the tokens of plain decoding with the same seed, in run {run}")))
}

/// Numbers of tokens and runs in which class P is compared with plain decoding.
const PATH: (usize, u32) = (24, 100);
/// The seed was fixed before the first run. The level of the test is the probability that a right
/// method fails under a random seed.
const SEED: u64 = 2026;

pub(super) fn sample_cell(cell: &ExactnessCell, runs: u32) -> Result<Finding, Error> {
    let parts = Parts::of(cell)?;
    let tokens = cell.sampled_tokens();
    let mut tally = Tally::default();
    let stopped = Rc::default();
    let generation = parts.watched(tokens, &stopped)?;
    let counts = sample_by(&parts.target, &generation, SEED, runs, straight, &mut tally)?;
    let fit = Fit::test(&counts, &parts.distribution(tokens)?);
    let report = audit(&parts.target, &parts.generation(16)?, SEED, 50)?;
    let claimed = cell.claims();
    let repeated = report.repeated.first();
    let faults = [
        repeated.map(|(round, site)| format!("drawn twice: {site:?} of round {round}")),
        leaves_the_path(cell, &parts)?,
        claimed.then(|| fit.fault()).flatten(),
        claimed.then(|| vacuous(cell, &tally)).flatten(),
    ];
    let holds = if claimed { CertificateVerdict::Consistent } else { CertificateVerdict::Measured };
    let verdict = faults.into_iter().flatten().next().map_or(Ok(holds), Err);
    Ok(Finding {
        paths: runs as usize,
        max_tv: None,
        min_detectable_tv: fit.min_detectable_tv,
        stopped: stopped.get(),
        kinds: tally.kinds,
        verdict,
    })
}

#[cfg(test)]
mod tests {
    use super::super::methods::Combination;
    use super::super::settings::SETTINGS;
    use super::*;
    use crate::model::zoo::TOYS;

    /// A cell of the first toy at temperature 1, with the first method of this name.
    fn cell(method: &str, k: usize) -> ExactnessCell {
        let method = Combination::matching(&[method.to_owned()]).unwrap()[0];
        ExactnessCell::new(method, &SETTINGS[0], Place::Named(&TOYS[0]), k)
    }

    #[test]
    fn a_sampled_cell_without_proposals_is_vacuous() {
        let mut cell = cell("gumbel+suffix_automaton", 2);
        assert_eq!(sample_cell(&cell, 500).unwrap().verdict, Ok(CertificateVerdict::Consistent));
        cell.method.proposer.settings = &[("suffix_min", "99")];
        let verdict = sample_cell(&cell, 500).unwrap().verdict;
        assert_eq!(verdict, Err("vacuous: nothing was proposed".to_owned()));
    }

    #[test]
    fn adaptive_length_policies_end_drafts_in_the_walk() {
        for policy in ["optimal_stopping", "ucb", "adaedl", "confidence", "entropy(0.38)"] {
            let cell = cell(&format!("rejection+model+{policy}"), 2);
            assert!(walk_cell(&cell, 0).unwrap().stopped, "{policy}");
        }
        assert!(!walk_cell(&cell("rejection+model+fixed", 2), 0).unwrap().stopped);
    }
}

//! Certification: every cell enumerated, every method sampled and audited,
//! every mutant refuted.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use super::cells::{Cell, Combination, SETTINGS, cells};
use super::certificate::{Certificate, CertificateCell, Verdict};
use super::closed::{ChainCase, Rule};
use super::enumerate::{Enumeration, enumerate};
use super::forms::{ClosedForm, closed_forms};
use super::law::{Gap, JointLaw, TOLERANCE, target_law};
use super::monte_carlo::Fit;
use super::mutants::{MutantReport, PROMPT, mutants, refute};
use super::probe::{DraftLaws, Tally, TargetRows};
use super::replay::{audit, first_difference, sample};
use crate::decode::{Generation, MethodSpec, PLAIN, StopRules, class_of};
use crate::draft::{Tools, draft_sampling};
use crate::model::zoo::TOYS;
use crate::model::{ModelError, Toy};
use crate::params::Value;
use crate::registry::{Class, UnknownName};
use crate::sampling::Sampler;

/// What to certify.
#[derive(Debug, Clone, Default)]
pub struct CertifyOptions {
    /// Only methods with these parts, as in `rejection` or `token_match+model`;
    /// empty for all.
    pub methods: Vec<String>,
    /// The complete cross product instead of all pairs of properties.
    pub full: bool,
}

/// How far a certification is.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// Parts done.
    pub done: usize,
    /// Parts there are.
    pub total: usize,
}

/// Runs the certification on all cores; `progress` is told on this thread.
///
/// # Errors
/// If a method is named that does not exist.
pub fn certify(
    options: &CertifyOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Certificate, UnknownName> {
    let methods = Combination::matching(&options.methods)?;
    let runs = if options.full { 5 * RUNS } else { RUNS };
    // The generator does not know the length policy: one of them is enough.
    let sampled = methods.iter().filter(|method| method.is_first_of_lengths(&methods));
    let parts = cells(&methods, options.full)
        .into_iter()
        .map(|cell| Part::Walk { cell, runs })
        .chain(sampled.map(|&method| Part::Sample { method, runs }))
        .chain((0..mutants().len()).map(Part::Refute))
        .collect::<Vec<_>>();
    let mut results = run_all(&parts, progress);
    let forms = closed_forms().unwrap_or_else(|error| {
        // One that cannot be walked does not hold.
        vec![ClosedForm { name: error.to_string(), expected: 0.0, found: f64::NAN }]
    });
    let (cells, mutants) = (Vec::new(), Vec::new());
    let mut certificate = Certificate { full: options.full, cells, forms, mutants };
    results.sort_by_key(|(i, _)| *i);
    for (_, result) in results {
        match result {
            Done::Cell(cell) => certificate.cells.push(cell),
            Done::Mutant(report) => certificate.mutants.push(report),
        }
    }
    Ok(certificate)
}

enum Part {
    Walk { cell: Cell, runs: u32 },
    Sample { method: Combination, runs: u32 },
    Refute(usize),
}

enum Done {
    Cell(CertificateCell),
    Mutant(MutantReport),
}

fn run_all(parts: &[Part], progress: &mut dyn FnMut(Progress)) -> Vec<(usize, Done)> {
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let (send, receive) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..workers {
            let (send, next) = (send.clone(), &next);
            scope.spawn(move || {
                while let Some((i, part)) = Some(next.fetch_add(1, Ordering::Relaxed))
                    .and_then(|i| parts.get(i).map(|part| (i, part)))
                {
                    // The receiver lives until all senders are gone.
                    let _ = send.send((i, part.run()));
                }
            });
        }
        drop(send);
        let mut done = Vec::with_capacity(parts.len());
        for result in receive {
            done.push(result);
            progress(Progress { done: done.len(), total: parts.len() });
        }
        done
    })
}

impl Part {
    fn run(&self) -> Done {
        match self {
            Part::Walk { cell, runs } => Done::Cell(finish(cell, walk_cell(cell, *runs))),
            Part::Sample { method, runs } => {
                // The first toy has the largest vocabulary and both models
                // overlap; sampling at temperature 1 uses the whole of it.
                let cell = Cell::new(*method, &SETTINGS[0], &TOYS[0], 2);
                Done::Cell(finish(&cell, sample_cell(&cell, *runs)))
            }
            Part::Refute(i) => {
                let mutant = mutants()[*i];
                // One that cannot be run is not refuted: it counts as alive.
                Done::Mutant(refute(&mutant).unwrap_or(MutantReport {
                    name: mutant.name,
                    imitates: mutant.imitates,
                    killed_by: Vec::new(),
                    tv_first_token: f64::NAN,
                    tv_joint: f64::NAN,
                }))
            }
        }
    }
}

/// What was found about a cell.
struct Finding {
    paths: usize,
    max_tv: Option<f64>,
    min_detectable_tv: f64,
    verdict: Result<Verdict, String>,
}

fn finish(cell: &Cell, finding: Result<Finding, ModelError>) -> CertificateCell {
    let finding = finding.unwrap_or_else(|error| {
        let verdict = Err(error.to_string());
        Finding { paths: 0, max_tv: None, min_detectable_tv: 1.0, verdict }
    });
    let method = &cell.method;
    CertificateCell {
        method: method.name(),
        verifier: method.verifier.name,
        drafter: method.proposer.entry.name,
        settings: method.proposer.settings(),
        length: method.length.name,
        // The toys' logits do not depend on the rows of a pass.
        class: class_of(&spec(cell), true).unwrap_or_default(),
        toy: cell.toy.name,
        sampler: cell.setting.name,
        k: cell.k,
        paths: finding.paths,
        max_tv: finding.max_tv,
        min_detectable_tv: finding.min_detectable_tv,
        verdict: *finding.verdict.as_ref().unwrap_or(&Verdict::Failed),
        reason: finding.verdict.err(),
    }
}

/// The cell's method as a config would say it.
fn spec(cell: &Cell) -> MethodSpec {
    let draft_temperature = Value::Number(cell.setting.draft_temperature);
    MethodSpec {
        drafter: cell.method.proposer.entry.name.to_owned(),
        verifier: cell.method.verifier.name.to_owned(),
        length: cell.method.length.name.to_owned(),
        num_speculative_tokens: cell.k,
        sampling: cell.setting.target,
        params: cell.method.proposer.params().with("draft_temperature", draft_temperature),
    }
}

/// Whether the method claims to have the target's law at this sampling. A
/// verifier that promises nothing is approximate.
fn claims(cell: &Cell) -> bool {
    match cell.method.verifier.build.class {
        Class::D | Class::P => true,
        Class::G => cell.setting.target.is_greedy(),
        Class::X => false,
    }
}

/// The models and the method of a cell.
struct Parts {
    target: Toy,
    draft: Toy,
    spec: MethodSpec,
    target_sampler: Sampler,
    draft_sampler: Sampler,
}

impl Parts {
    fn of(cell: &Cell) -> Result<Self, ModelError> {
        let pair = (cell.toy.build)();
        let sampler = |params| Sampler::new(params).map_err(|e| ModelError::new(e.to_string()));
        let spec = spec(cell);
        Ok(Self {
            target: pair.target("target")?,
            draft: pair.draft("draft")?,
            target_sampler: sampler(spec.sampling)?,
            draft_sampler: sampler(draft_sampling(spec.sampling, &spec.params))?,
            spec,
        })
    }

    fn generation(&self, tokens: usize) -> Result<Generation<'_>, ModelError> {
        let (draft, target) = (Some(&self.draft as _), Some(&self.target as _));
        let method = self.spec.build_with(Tools { draft, target, texts: None })?;
        Generation::new(&self.target, method, PROMPT, StopRules::max_tokens(tokens), None)
    }

    fn law(&self, tokens: usize) -> Result<JointLaw, ModelError> {
        target_law(&self.target, &self.target_sampler, PROMPT, tokens)
    }

    fn chain(&self) -> ChainCase<'_> {
        ChainCase {
            target: &self.target,
            target_sampler: &self.target_sampler,
            draft: &self.draft,
            draft_sampler: &self.draft_sampler,
            prompt: PROMPT,
        }
    }
}

/// Walks a cell, or samples it `runs` times where it cannot be walked.
fn walk_cell(cell: &Cell, runs: u32) -> Result<Finding, ModelError> {
    if cell.method.is_coupled() {
        return sample_cell(cell, runs);
    }
    let parts = Parts::of(cell)?;
    let mut rows = TargetRows::new(&parts.target);
    let mut laws = DraftLaws::default();
    let generation = parts.generation(cell.tokens())?;
    let found = enumerate(&parts.target, generation, &mut [&mut rows, &mut laws])?;
    if found.coupled {
        return sample_cell(cell, runs);
    }
    let gap = Gap::between(&found.law, &parts.law(cell.tokens())?);
    let claimed = claims(cell);
    let expected = expected_length(cell, &parts)?;
    let faults = [
        (found.unsupported).then(|| "a draft was not of the stated shape".to_owned()),
        claimed.then(|| inexact(&gap)).flatten(),
        (gap.mass_error > TOLERANCE).then(|| format!("mass off by {:.1e}", gap.mass_error)),
        (rows.wrong > 0).then(|| format!("{} wrong rows of the target", rows.wrong)),
        (laws.max_error > TOLERANCE)
            .then(|| format!("a draft token's law is off by {:.1e}", laws.max_error)),
        claimed.then(|| vacuous(cell, &found.tally)).flatten(),
        expected.and_then(|length| wrong_length(&found, length)),
    ];
    let verdict = match faults.into_iter().flatten().next() {
        Some(fault) => Err(fault),
        None if claimed => Ok(Verdict::Exact),
        None => Ok(Verdict::Measured),
    };
    Ok(Finding {
        paths: found.paths,
        max_tv: Some(gap.tv_joint),
        min_detectable_tv: TOLERANCE,
        verdict,
    })
}

fn inexact(gap: &Gap) -> Option<String> {
    (!gap.is_zero()).then(|| format!("the joint law is off by a TV of {:.1e}", gap.tv_joint))
}

/// A cell proves nothing unless something was proposed, accepted and rejected.
/// Exempt is only what no exact method need or can do: plain decoding proposes
/// nothing; where q equals p, or the children include all that the target can
/// yield, at every node that was reached, nothing has to be rejected; where q
/// and p share no token nothing can be accepted.
fn vacuous(cell: &Cell, tally: &Tally) -> Option<String> {
    if !cell.method.proposer.proposes() {
        return (tally.proposed > 0.0).then(|| "plain decoding proposed a token".to_owned());
    }
    let missing = if tally.proposed == 0.0 {
        "proposed"
    } else if tally.accepted == 0.0 && tally.most_overlap > TOLERANCE {
        "accepted"
    } else if tally.rejected == 0.0 && tally.least_room < 1.0 - TOLERANCE {
        "rejected"
    } else {
        return None;
    };
    Some(format!("vacuous: nothing was {missing}"))
}

/// E\[L\] of the first round, where a closed form is known.
fn expected_length(cell: &Cell, parts: &Parts) -> Result<Option<f64>, ModelError> {
    let rule = Rule::of(cell.method.verifier.name);
    let chain = cell.method.proposer.entry.name == "model";
    match rule.filter(|_| chain && cell.method.length.name == "fixed") {
        Some(rule) => Ok(Some(parts.chain().expected_accepted(rule, cell.k)? + 1.0)),
        None => Ok(None),
    }
}

fn wrong_length(found: &Enumeration, expected: f64) -> Option<String> {
    let length = found.tally.first_emitted;
    ((length - expected).abs() > TOLERANCE).then(|| format!("E[L] is {length}, not {expected}"))
}

/// A run in which a method of class P says something else than plain decoding.
fn leaves_the_path(cell: &Cell, parts: &Parts) -> Result<Option<u32>, ModelError> {
    if cell.method.verifier.build.class != Class::P {
        return Ok(None);
    }
    let plain = MethodSpec { drafter: PLAIN.to_owned(), ..parts.spec.clone() };
    let stop = StopRules::max_tokens(PATH.0);
    let plain = Generation::new(&parts.target, plain.build(None)?, PROMPT, stop, None)?;
    first_difference(&parts.target, [&parts.generation(PATH.0)?, &plain], SEED, PATH.1)
}

/// Tokens and runs in which the tokens of class P are compared.
const PATH: (usize, u32) = (24, 100);
/// Seeds are fixed before the first run; the level of the test says how often
/// a right method would have failed under a random one.
const SEED: u64 = 2026;
/// Generations per goodness of fit in the quick form.
const RUNS: u32 = 10_000;

fn sample_cell(cell: &Cell, runs: u32) -> Result<Finding, ModelError> {
    let parts = Parts::of(cell)?;
    let tokens = cell.k + 1;
    let counts = sample(&parts.target, &parts.generation(tokens)?, SEED, runs)?;
    let fit = Fit::test(&counts, &parts.law(tokens)?);
    let report = audit(&parts.target, &parts.generation(16)?, SEED, 50)?;
    let verdict = if let Some((round, site)) = report.repeated.first() {
        Err(format!("drawn twice: {site:?} of round {round}"))
    } else if !claims(cell) {
        Ok(Verdict::Measured)
    } else if let Some(run) = leaves_the_path(cell, &parts)? {
        Err(format!("not the tokens of plain decoding with the same seed, in run {run}"))
    } else if fit.is_plausible() {
        Ok(Verdict::Consistent)
    } else {
        Err(format!("X2 = {:.0} is above {:.0}", fit.statistic, fit.critical))
    };
    Ok(Finding {
        paths: runs as usize,
        max_tv: None,
        min_detectable_tv: fit.min_detectable_tv,
        verdict,
    })
}

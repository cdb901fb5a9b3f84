//! From an experiment to its frozen, numbered cells.

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use super::cell::{Cell, Plan, PlannedModel};
use super::prompts::{self, Prompt};
use super::spec::{Exclude, OneOrMany, Spec};
use crate::decode::{MethodSpec, class_of};
use crate::draft::DRAFTERS;
use crate::length::LENGTHS;
use crate::model::{ModelInfo, hex};
use crate::registry::find;
use crate::sampling::{ORDER, SamplingParams};
use crate::verify::VERIFIERS;

/// What a plan is made from, besides the experiment itself.
#[derive(Debug)]
pub struct Material<'a> {
    /// Name of the experiment.
    pub name: &'a str,
    /// The target.
    pub target: &'a ModelInfo,
    /// The draft model, if there is one.
    pub draft: Option<&'a ModelInfo>,
    /// The prompts.
    pub prompts: &'a [Prompt],
    /// Worker threads in use.
    pub threads: usize,
}

/// Expands the sweep, refuses what cannot be run and gives every cell its id.
///
/// # Errors
/// One sentence that names the key and what is allowed.
pub fn freeze(spec: &Spec, material: &Material<'_>) -> Result<Plan> {
    check(spec)?;
    prompts::check_unique(material.prompts)?;
    let mut plan = Plan {
        experiment: material.name.to_owned(),
        question: spec.question.clone(),
        hash: String::new(),
        max_tokens: spec.max_tokens,
        repeats: spec.repeats,
        seed: spec.seed,
        ignore_eos: spec.ignore_eos,
        trace: spec.trace,
        clock: spec.clock.name().to_owned(),
        threads: material.threads,
        warmup: spec.warmup,
        prompt_lookup: (spec.prompt_lookup_max, spec.prompt_lookup_min),
        prompts: material.prompts.iter().map(|p| p.id.clone()).collect(),
        prompts_sha256: prompts::sha256(material.prompts),
        target: planned(&spec.target, material.target),
        draft: spec.draft.as_deref().zip(material.draft).map(|(name, info)| planned(name, info)),
        cells: Vec::new(),
    };
    plan.cells = cells(spec, &plan, material)?;
    plan.hash = short_hash(&toml::to_string(&plan)?);
    Ok(plan)
}

impl Plan {
    /// How `cell` proposes, verifies and samples.
    pub fn method(&self, cell: &Cell) -> MethodSpec {
        MethodSpec {
            drafter: cell.drafter.clone(),
            verifier: cell.verifier.clone(),
            length: cell.length.clone(),
            num_speculative_tokens: cell.num_speculative_tokens,
            draft_temperature: cell.draft_temperature,
            sampling: cell.sampling,
            prompt_lookup_max: self.prompt_lookup.0,
            prompt_lookup_min: self.prompt_lookup.1,
        }
    }

    /// The sampling settings in order, each with its cells, baseline first.
    pub fn settings(&self) -> Vec<Vec<&Cell>> {
        let mut groups: Vec<Vec<&Cell>> = Vec::new();
        for cell in &self.cells {
            match groups.iter_mut().find(|group| group[0].sampling == cell.sampling) {
                Some(group) => group.push(cell),
                None => groups.push(vec![cell]),
            }
        }
        groups
    }
}

fn check(spec: &Spec) -> Result<()> {
    let positive = [
        ("max_tokens", spec.max_tokens),
        ("repeats", spec.repeats as usize),
        ("prompt_lookup_min", spec.prompt_lookup_min),
        ("threads", spec.threads.unwrap_or(1)),
    ];
    for (key, value) in positive {
        if value == 0 {
            bail!("\"{key}\" = 0: allowed is an integer >= 1");
        }
    }
    if spec.prompt_lookup_max < spec.prompt_lookup_min {
        bail!(
            "\"prompt_lookup_max\" = {}: allowed is an integer >= prompt_lookup_min = {}",
            spec.prompt_lookup_max,
            spec.prompt_lookup_min
        );
    }
    find("draft length policy", LENGTHS, &spec.length)?;
    if spec.sweep.num_speculative_tokens.values().contains(&0) {
        bail!(
            "\"sweep.num_speculative_tokens\" = 0: allowed is an integer >= 1; plain decoding \
             is the baseline, which every run contains"
        );
    }
    let axes = [
        ("drafter", spec.sweep.drafter.values().len()),
        ("verifier", spec.sweep.verifier.values().len()),
        ("num_speculative_tokens", spec.sweep.num_speculative_tokens.values().len()),
        ("temperature", spec.sweep.temperature.values().len()),
        ("top_k", spec.sweep.top_k.values().len()),
        ("top_p", spec.sweep.top_p.values().len()),
        ("min_p", spec.sweep.min_p.values().len()),
    ];
    match axes.iter().find(|(_, n)| *n == 0) {
        Some((axis, _)) => bail!("\"sweep.{axis}\" is empty: give at least one value"),
        None => Ok(()),
    }
}

fn cells(spec: &Spec, plan: &Plan, material: &Material<'_>) -> Result<Vec<Cell>> {
    let mut cells: Vec<Cell> = Vec::new();
    for sampling in samplings(spec)? {
        let mut group = vec![Cell {
            id: String::new(),
            drafter: "none".to_owned(),
            verifier: "rejection".to_owned(),
            length: spec.length.clone(),
            num_speculative_tokens: 0,
            draft_temperature: None,
            class: String::new(),
            sampling,
        }];
        group.extend(speculative(spec, sampling)?);
        for mut cell in group {
            let method = plan.method(&cell);
            method.validate().with_context(|| describe(&cell))?;
            if cell.drafter == "model" && material.draft.is_none() {
                bail!("drafter \"model\" needs a draft model: set the key \"draft\"");
            }
            cell.class = class_of(&method, material.target.row_invariant)?;
            cell.id = identify(&cell, plan);
            if !cells.iter().any(|c| c.id == cell.id) {
                cells.push(cell);
            }
        }
    }
    Ok(cells)
}

fn samplings(spec: &Spec) -> Result<Vec<SamplingParams>> {
    let mut all: Vec<SamplingParams> = Vec::new();
    for temperature in spec.sweep.temperature.values() {
        for top_k in spec.sweep.top_k.values() {
            for top_p in spec.sweep.top_p.values() {
                for min_p in spec.sweep.min_p.values() {
                    // -0.0 is written as 0: one setting, one id.
                    let temperature = temperature + 0.0;
                    let params =
                        SamplingParams { temperature, top_k, top_p, min_p, ..Default::default() };
                    params.validate().context("[sweep]")?;
                    if !all.contains(&params) {
                        all.push(params);
                    }
                }
            }
        }
    }
    Ok(all)
}

fn speculative(spec: &Spec, sampling: SamplingParams) -> Result<Vec<Cell>> {
    let mut draft_temperatures =
        spec.sweep.draft_temperature.values().into_iter().map(Some).collect::<Vec<_>>();
    if draft_temperatures.is_empty() {
        draft_temperatures.push(None);
    }
    let mut cells = Vec::new();
    for drafter in spec.sweep.drafter.values() {
        let drafter = find("drafter", DRAFTERS, &drafter)?.name;
        if drafter == "none" {
            continue;
        }
        for verifier in spec.sweep.verifier.values() {
            let verifier = find("verifier", VERIFIERS, &verifier)?.name;
            for &k in &spec.sweep.num_speculative_tokens.values() {
                for &draft_temperature in &draft_temperatures {
                    // A temperature equal to the target's is no setting of its
                    // own, and only a draft model has one at all.
                    let draft_temperature = draft_temperature
                        .filter(|&t| drafter == "model" && t != sampling.temperature);
                    let cell = Cell {
                        id: String::new(),
                        drafter: drafter.to_owned(),
                        verifier: verifier.to_owned(),
                        length: spec.length.clone(),
                        num_speculative_tokens: k,
                        draft_temperature,
                        class: String::new(),
                        sampling,
                    };
                    if !spec.exclude.iter().any(|condition| matches(condition, &cell)) {
                        cells.push(cell);
                    }
                }
            }
        }
    }
    Ok(cells)
}

fn matches(condition: &Exclude, cell: &Cell) -> bool {
    fn has<T: Clone + PartialEq>(values: &Option<OneOrMany<T>>, value: &T) -> bool {
        values.as_ref().is_none_or(|values| values.values().contains(value))
    }
    let sampling = &cell.sampling;
    has(&condition.drafter, &cell.drafter)
        && has(&condition.verifier, &cell.verifier)
        && has(&condition.num_speculative_tokens, &cell.num_speculative_tokens)
        && has(&condition.temperature, &sampling.temperature)
        && has(&condition.top_k, &sampling.top_k)
        && has(&condition.top_p, &sampling.top_p)
        && has(&condition.min_p, &sampling.min_p)
        && has(
            &condition.draft_temperature,
            &cell.draft_temperature.unwrap_or(sampling.temperature),
        )
}

/// A cell in words, for messages and progress.
pub fn describe(cell: &Cell) -> String {
    let sampling = &cell.sampling;
    let mut words = format!("{}, T = {}", cell.drafter, sampling.temperature);
    if !cell.is_baseline() {
        words = format!(
            "{} + {}, K = {}, T = {}",
            cell.drafter, cell.verifier, cell.num_speculative_tokens, sampling.temperature
        );
    }
    if let Some(t) = cell.draft_temperature {
        words += &format!(", draft T = {t}");
    }
    if sampling.top_k > 0 {
        words += &format!(", top_k = {}", sampling.top_k);
    }
    if sampling.top_p < 1.0 {
        words += &format!(", top_p = {}", sampling.top_p);
    }
    if sampling.min_p > 0.0 {
        words += &format!(", min_p = {}", sampling.min_p);
    }
    words
}

/// Models go by the experiment's names: where they lie is no part of a plan.
fn planned(name: &str, info: &ModelInfo) -> PlannedModel {
    PlannedModel {
        name: name.to_owned(),
        sha256: info.sha256.clone(),
        engine: info.engine.to_owned(),
        dtype: info.dtype.to_owned(),
    }
}

/// The content hash of everything that may change this cell's tokens.
fn identify(cell: &Cell, plan: &Plan) -> String {
    let model = |m: &PlannedModel| format!("{} {} {}", m.sha256, m.engine, m.dtype);
    let draft = plan.draft.as_ref().filter(|_| cell.drafter == "model");
    let lookup = (cell.drafter == "prompt_lookup").then_some(plan.prompt_lookup);
    let text = format!(
        "{} | {} | {ORDER} {:?} | {} {} {} {} {:?} {lookup:?}",
        model(&plan.target),
        draft.map(model).unwrap_or_default(),
        cell.sampling,
        cell.drafter,
        cell.verifier,
        cell.length,
        cell.num_speculative_tokens,
        cell.draft_temperature,
    );
    short_hash(&text)
}

fn short_hash(text: &str) -> String {
    hex(&Sha256::digest(text))[..12].to_owned()
}

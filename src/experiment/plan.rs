//! From an experiment to its frozen, numbered cells.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use super::cell::{Cell, FORMAT, Plan, PlannedModel};
use super::exclude;
use super::machine::MachineClock;
use super::prompts::{self, Prompt};
use super::spec::{Exclude, OneOrMany, Spec, Sweep};
use crate::clock::{Clock, VirtualClock, VirtualCosts};
use crate::decode::{MethodSpec, PLAIN, class_of, find_param};
use crate::draft::Texts;
use crate::model::{CPU, ModelInfo, hex};
use crate::params::Kind;
use crate::sampling::{ORDER, SamplingParams};

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
    /// Text files that drafters read.
    pub texts: &'a Texts<'a>,
}

/// Expands the sweep, refuses what cannot be run and gives every cell its id.
///
/// # Errors
/// One sentence that names the key and what is allowed.
pub fn freeze(spec: &Spec, material: &Material<'_>) -> Result<Plan> {
    check(spec)?;
    prompts::check_unique(material.prompts)?;
    let mut plan = Plan {
        format: FORMAT,
        experiment: material.name.to_owned(),
        question: spec.question.clone(),
        hash: String::new(),
        max_tokens: spec.max_tokens,
        repeats: spec.repeats,
        seed: spec.seed,
        ignore_eos: spec.ignore_eos,
        special_tokens: spec.special_tokens,
        trace: spec.trace,
        clock: spec.clock.name().to_owned(),
        warmup: spec.warmup,
        prompts: material.prompts.iter().map(|p| p.id.clone()).collect(),
        prompts_sha256: prompts::sha256(material.prompts),
        texts: BTreeMap::new(),
        target: planned(&spec.target, material.target),
        draft: spec.draft.as_deref().zip(material.draft).map(|(name, info)| planned(name, info)),
        cells: Vec::new(),
    };
    plan.cells = cells(spec, &mut plan, material)?;
    plan.hash = short_hash(&toml::to_string(&plan)?);
    Ok(plan)
}

impl Plan {
    /// The clock that the plan asks for.
    pub fn clock(&self) -> Box<dyn Clock> {
        match self.clock.as_str() {
            "virtual" => Box::new(VirtualClock::new(VirtualCosts::default())),
            _ => Box::new(MachineClock::default()),
        }
    }

    /// How `cell` proposes, verifies and samples.
    pub fn method(&self, cell: &Cell) -> MethodSpec {
        MethodSpec {
            drafter: cell.drafter.clone(),
            verifier: cell.verifier.clone(),
            length: cell.length.clone(),
            num_speculative_tokens: cell.num_speculative_tokens,
            sampling: cell.sampling,
            params: cell.params.clone(),
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
        ("threads", spec.threads.unwrap_or(1)),
    ];
    for (key, value) in positive {
        if value == 0 {
            bail!("\"{key}\" = 0: allowed is an integer >= 1");
        }
    }
    spec.sweep.values().iter().try_for_each(|sweep| check_axes(sweep, "sweep"))
}

/// Checks the axes of a sweep, or the conditions of an `exclude`, for values
/// that no cell can have.
fn check_axes(sweep: &Sweep, place: &str) -> Result<()> {
    if sweep.num_speculative_tokens.values().contains(&0) {
        bail!(
            "\"{place}.num_speculative_tokens\" = 0: allowed is an integer >= 1; plain decoding \
             is the baseline, which every run contains"
        );
    }
    let axes = [
        ("drafter", sweep.drafter.values().len()),
        ("verifier", sweep.verifier.values().len()),
        ("length", sweep.length.values().len()),
        ("num_speculative_tokens", sweep.num_speculative_tokens.values().len()),
        ("temperature", sweep.temperature.values().len()),
        ("top_k", sweep.top_k.values().len()),
        ("top_p", sweep.top_p.values().len()),
        ("min_p", sweep.min_p.values().len()),
    ];
    let lists = sweep.params.iter().map(|(key, list)| (key.as_str(), list.values().len()));
    match axes.into_iter().chain(lists).find(|(_, n)| *n == 0) {
        Some((axis, _)) => bail!("\"{place}.{axis}\" is empty: give at least one value"),
        None => Ok(()),
    }
}

/// The conditions of `[[exclude]]`, checked as axes are.
fn conditions(spec: &Spec) -> Result<Vec<Exclude>> {
    let check = |condition: &Exclude| {
        let axes = condition.axes();
        check_axes(&axes, "exclude")?;
        samplings_of(&axes, "[[exclude]]")?;
        exclude::canonical(condition)
    };
    spec.exclude.iter().map(check).collect()
}

fn cells(spec: &Spec, plan: &mut Plan, material: &Material<'_>) -> Result<Vec<Cell>> {
    let conditions = conditions(spec)?;
    let mut cells: Vec<Cell> = Vec::new();
    for (sampling, sweeps) in samplings(spec)? {
        let plain = MethodSpec { drafter: PLAIN.to_owned(), sampling, ..MethodSpec::default() };
        let methods = sweeps.iter().flat_map(|sweep| speculative(sweep, sampling));
        let first = cells.len();
        for method in [plain].into_iter().chain(methods) {
            let place = || describe(&Cell::of(&method));
            let mut cell = Cell::of(&method.canonical().with_context(place)?);
            let method = plan.method(&cell);
            let drafts = method.needs_draft_model();
            if drafts && material.draft.is_none() {
                bail!("drafter \"{}\" needs a draft model: set the key \"draft\"", cell.drafter);
            }
            cell.class = class_of(&method, material.target.row_invariant)?;
            if conditions.iter().any(|c| exclude::matches(c, &cell)) {
                continue;
            }
            let texts = hashes(&cell, material.texts).with_context(place)?;
            cell.id = identify(&cell, plan, drafts, &texts);
            plan.texts.extend(texts);
            if !cells.iter().any(|c| c.id == cell.id) {
                cells.push(cell);
            }
        }
        if spec.control {
            let again = cells[first..].iter().take(CONTROLS).map(repeated).collect::<Vec<_>>();
            cells.extend(again);
        }
    }
    Ok(cells)
}

/// Cells per sampling setting that are run twice: the baseline and the first
/// method.
const CONTROLS: usize = 2;

fn repeated(cell: &Cell) -> Cell {
    Cell { control: true, id: short_hash(&format!("{} again", cell.id)), ..cell.clone() }
}

/// The sampling settings in order, each with the sweeps that it occurs in.
fn samplings(spec: &Spec) -> Result<Vec<(SamplingParams, Vec<Sweep>)>> {
    let mut all: Vec<(SamplingParams, Vec<Sweep>)> = Vec::new();
    for sweep in spec.sweep.values() {
        for params in samplings_of(&sweep, "[sweep]")? {
            match all.iter_mut().find(|(known, _)| *known == params) {
                Some((_, sweeps)) => sweeps.push(sweep.clone()),
                None => all.push((params, vec![sweep.clone()])),
            }
        }
    }
    Ok(all)
}

fn samplings_of(sweep: &Sweep, place: &'static str) -> Result<Vec<SamplingParams>> {
    let mut all: Vec<SamplingParams> = Vec::new();
    for temperature in sweep.temperature.values() {
        for top_k in sweep.top_k.values() {
            for top_p in sweep.top_p.values() {
                for min_p in sweep.min_p.values() {
                    // -0.0 is written as 0: one setting, one id.
                    let temperature = temperature + 0.0;
                    let params =
                        SamplingParams { temperature, top_k, top_p, min_p, ..Default::default() };
                    params.validate().context(place)?;
                    if !all.contains(&params) {
                        all.push(params);
                    }
                }
            }
        }
    }
    Ok(all)
}

/// The product of the axes under one sampling setting.
fn speculative(sweep: &Sweep, sampling: SamplingParams) -> Vec<MethodSpec> {
    let mut methods = vec![MethodSpec { sampling, ..MethodSpec::default() }];
    fn each<T: Clone>(
        methods: &mut Vec<MethodSpec>,
        values: &OneOrMany<T>,
        set: impl Fn(&mut MethodSpec, T),
    ) {
        let values = values.values();
        let with = |method: &MethodSpec| {
            let method = method.clone();
            values.iter().map(move |value| (method.clone(), value.clone()))
        };
        let set = |(mut method, value)| {
            set(&mut method, value);
            method
        };
        *methods = methods.iter().flat_map(with).map(set).collect();
    }
    each(&mut methods, &sweep.drafter, |m, name| m.drafter = name);
    each(&mut methods, &sweep.verifier, |m, name| m.verifier = name);
    each(&mut methods, &sweep.length, |m, name| m.length = name);
    each(&mut methods, &sweep.num_speculative_tokens, |m, k| m.num_speculative_tokens = k);
    for (key, values) in &sweep.params {
        each(&mut methods, values, |m, value| {
            m.params = std::mem::take(&mut m.params).with(key, value);
        });
    }
    methods.retain(|method| !method.is_plain());
    methods
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
    if cell.control {
        words += ", again";
    }
    for (key, value) in cell.params.iter() {
        words += &format!(", {key} = {value}");
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
        device: Some(info.device.clone()).filter(|device| device != CPU),
    }
}

/// The hashes of the files that a cell's methods read, by path.
fn hashes(cell: &Cell, texts: &Texts<'_>) -> Result<BTreeMap<String, String>> {
    let files = cell.params.iter().filter_map(|(key, value)| {
        let is_file = find_param(key).is_ok_and(|param| param.kind == Kind::File);
        Some(value.to_string()).filter(|path| is_file && !path.is_empty())
    });
    let hash = |path: String| {
        let hash = hex(&Sha256::digest(texts.content(&path)?.as_bytes()));
        Ok((path, hash))
    };
    files.map(hash).collect()
}

/// The content hash of everything that may change this cell's tokens; `drafts`
/// says whether the draft model takes part, `texts` what its methods read.
fn identify(cell: &Cell, plan: &Plan, drafts: bool, texts: &BTreeMap<String, String>) -> String {
    let device = |m: &PlannedModel| m.device.as_ref().map_or(String::new(), |d| format!(" {d}"));
    let model = |m: &PlannedModel| format!("{} {} {}{}", m.sha256, m.engine, m.dtype, device(m));
    let draft = plan.draft.as_ref().filter(|_| drafts);
    let params = (!cell.params.is_empty()).then_some(&cell.params);
    let texts = texts.values().fold(String::new(), |all, hash| format!("{all} | {hash}"));
    let special = if plan.special_tokens { " | special tokens" } else { "" };
    let text = format!(
        "{} | {} | {ORDER} {:?} | {} {} {} {} None {params:?}{texts}{special}",
        model(&plan.target),
        draft.map(model).unwrap_or_default(),
        cell.sampling,
        cell.drafter,
        cell.verifier,
        cell.length,
        cell.num_speculative_tokens,
    );
    short_hash(&text)
}

fn short_hash(text: &str) -> String {
    hex(&Sha256::digest(text))[..12].to_owned()
}

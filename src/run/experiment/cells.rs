//! The cells of a plan: the product of the axes for each goal, the baseline first.

use std::collections::{BTreeMap, BTreeSet};
use std::ptr;

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use super::arguments::ChatArguments;
use super::axes::{Axes, Sets, axes};
use super::cell::{Cell, Plan, PlannedModel, short_hash};
use super::material::Material;
use super::point::SweepPoint;
use super::spec::Spec;
use crate::core::params::ParamKind;
use crate::core::sampling::Controls;
use crate::method::controls::GrammarCompiler;
use crate::method::decode::{MethodSpec, find_param};
use crate::model::{CacheDtype, hex};

/// The largest number of cells that a plan may have.
const MOST_CELLS: usize = 10_000;

/// Returns all cells of an experiment in plan order, and adds the text files that they
/// read to the plan.
///
/// # Errors
/// If a cell cannot be run, there are too many, or a condition of `[[exclude]]` matches
/// none of them although no override replaced an axis.
pub(super) fn cells(spec: &Spec, plan: &mut Plan, material: &Material<'_>) -> Result<Vec<Cell>> {
    let points = spec.sweep.iter().map(Axes::points).fold(0, usize::saturating_add);
    let points = points.saturating_mul(spec.chat_arguments.len());
    if points > MOST_CELLS {
        bail!("[sweep] has {points} cells: allowed are at most {MOST_CELLS}; take fewer values");
    }
    let controls =
        spec.controls.controls(material.codec, material.target, &GrammarCompiler::default());
    let controls = controls.context("[controls]")?;
    // Each with whether it has matched a cell.
    let mut conditions = spec.exclude.iter().map(|axes| (axes, false)).collect::<Vec<_>>();
    let mut cells = Vec::new();
    for (plain, sweeps) in baselines(spec, &controls) {
        let methods = sweeps.iter().flat_map(|sweep| product(sweep, plain.clone(), false));
        let methods = methods.filter(|point| !point.method.is_plain());
        let points = [plain.clone()].into_iter().chain(methods);
        let group = group(points, plan, material, &mut conditions)?;
        let again = group.iter().take(if spec.control { CONTROLS } else { 0 }).map(repeated);
        let again = again.collect::<Vec<_>>();
        cells.extend(group.into_iter().chain(again));
    }
    let unused = conditions.iter().position(|(_, matched)| !matched);
    if let Some(unused) = unused.filter(|_| !spec.replaced) {
        let (number, axes) = (unused + 1, conditions[unused].0);
        bail!("[[exclude]] number {number} ({axes}) matches no cell of the sweep: leave it out");
    }
    if cells.is_empty() {
        bail!("[[exclude]] leaves no cell to run");
    }
    Ok(cells)
}

/// The cells with one goal, the baseline first, without duplicates.
fn group(
    points: impl Iterator<Item = SweepPoint>,
    plan: &mut Plan,
    material: &Material<'_>,
    conditions: &mut [(&Axes, bool)],
) -> Result<Vec<Cell>> {
    let (mut cells, mut known) = (Vec::<Cell>::new(), BTreeSet::new());
    for point in points {
        let point = point.canonical().with_context(|| point.in_words())?;
        let class = point.class(material.target.row_invariant)?;
        let method = &point.method;
        let drafts = method.needs_draft_model();
        if drafts && material.draft.is_none() {
            bail!("drafter \"{}\" needs a draft model: set the key \"draft\"", method.drafter);
        }
        if point.beam.is_some() && !method.sampling.controls.is_none() {
            bail!("beam search ranks the target's own probabilities: leave out [controls]");
        }
        let mut excluded = false;
        for (axes, matched) in &mut *conditions {
            let matches = point.matches(axes);
            *matched |= matches;
            excluded |= matches;
        }
        if excluded {
            continue;
        }
        let texts = hashes(method, plan, material).with_context(|| point.in_words())?;
        let id = identify(&point, plan, drafts, &texts);
        plan.texts.extend(texts);
        if known.insert(id.clone()) {
            cells.push(Cell { id, point, class, control: false });
        }
    }
    if cells.first().is_some_and(|cell| !cell.is_baseline()) {
        bail!(
            "[[exclude]] leaves out plain decoding, the baseline of all cells: name a drafter \
             in it"
        );
    }
    Ok(cells)
}

/// The number of cells per goal that are run twice: the baseline and the first method.
const CONTROLS: usize = 2;

fn repeated(cell: &Cell) -> Cell {
    Cell { control: true, id: short_hash(&format!("{} again", cell.id)), ..cell.clone() }
}

/// Plain decoding with each goal in order, and the sweeps in which the goal occurs.
fn baselines<'s>(spec: &'s Spec, controls: &Controls) -> Vec<(SweepPoint, Vec<&'s Axes>)> {
    let mut start = SweepPoint::default();
    start.method.sampling.controls = controls.clone();
    let mut all: Vec<(SweepPoint, Vec<&Axes>)> = Vec::new();
    for sweep in &spec.sweep {
        let points = product(sweep, start.clone(), true);
        let points = points.iter().flat_map(|point| {
            let with = |arguments: &ChatArguments| SweepPoint {
                chat_arguments: arguments.clone(),
                ..point.clone()
            };
            spec.chat_arguments.iter().map(with)
        });
        for plain in points {
            match all.iter_mut().find(|(known, _)| *known == plain) {
                // Several values of an axis that the strategy does not read give one goal.
                Some((_, sweeps)) if sweeps.last().is_some_and(|last| ptr::eq(*last, sweep)) => {}
                Some((_, sweeps)) => sweeps.push(sweep),
                None => all.push((plain, vec![sweep])),
            }
        }
    }
    all
}

/// The product of the axes that set the goal if `goal`, else of all other axes.
fn product(sweep: &Axes, start: SweepPoint, goal: bool) -> Vec<SweepPoint> {
    let mut points = vec![start];
    for axis in axes().iter().filter(|axis| (axis.sets == Sets::Goal) == goal) {
        let Some(values) = sweep.get(axis.name) else { continue };
        let each = |point: &SweepPoint| {
            values.iter().map(|value| point.clone().with(axis.name, value)).collect()
        };
        points = points.iter().flat_map(|point| -> Vec<_> { each(point) }).collect();
    }
    points
}

/// The hashes of the files that a cell's methods read, by path.
fn hashes(
    method: &MethodSpec,
    plan: &Plan,
    material: &Material<'_>,
) -> Result<BTreeMap<String, String>> {
    let files = method.params.iter().filter_map(|(key, value)| {
        let is_file = find_param(key).is_ok_and(|param| param.kind == ParamKind::File);
        Some((key, value.to_string())).filter(|(_, path)| is_file && !path.is_empty())
    });
    let hash = |(key, path): (&str, String)| {
        if let Some(known) = plan.texts.get(&path) {
            return Ok((path, known.clone()));
        }
        let text = material.texts.content(&path)?;
        if !text.is_empty() {
            material.codec.encode(&text).with_context(|| format!("{key} = {path}"))?;
        }
        Ok((path, hex(&Sha256::digest(text.as_bytes()))))
    };
    files.map(hash).collect()
}

/// The content hash of everything that may change the tokens of a point; `drafts` says
/// whether the draft model takes part, `texts` holds the hashes of the files that its
/// method reads.
fn identify(
    SweepPoint { method, beam, batch, chat_arguments }: &SweepPoint,
    plan: &Plan,
    drafts: bool,
    texts: &BTreeMap<String, String>,
) -> String {
    let device = |m: &PlannedModel| m.device.as_ref().map_or(String::new(), |d| format!(" {d}"));
    let cache = |m: &PlannedModel| match m.kv_cache_dtype {
        CacheDtype::F32 => String::new(),
        other => format!(" KV cache {}", other.name()),
    };
    let model = |m: &PlannedModel| {
        format!("{} {} {}{}{}", m.sha256, m.engine, m.dtype, cache(m), device(m))
    };
    let draft = plan.draft.as_ref().filter(|_| drafts);
    let other = draft.filter(|draft| !draft.vocabulary.is_same());
    let other = other.map_or("", |draft| draft.vocabulary.name());
    let params = (!method.params.is_empty()).then_some(&method.params);
    let texts = texts.values().fold(String::new(), |all, hash| format!("{all} | {hash}"));
    let beam = beam.map_or(String::new(), |beam| format!(" | {beam}"));
    let batch = if *batch == 1 { String::new() } else { format!(" | batch {batch}") };
    // Their order changes nothing.
    let chat = chat_arguments.0.iter().map(|(name, value)| format!("{name}={value}"));
    let chat = chat.collect::<BTreeSet<_>>();
    let chat = chat.iter().map(|own| format!(" | chat {own}")).collect::<String>();
    let controls = method.sampling.controls.set().map(serde_json::to_string);
    let controls = controls.and_then(Result::ok).map_or(String::new(), |set| format!(" | {set}"));
    let stops = match &*plan.stop_token_ids {
        [] => String::new(),
        stops => format!(" | stops {stops:?}"),
    };
    let special = if plan.special_tokens { " | special tokens" } else { "" };
    // Only changed settings enter, so a setting that is added later does not change
    // today's ids.
    let sampling = method.sampling.changes().map(|(key, value)| format!("{key}={value} "));
    let text = format!(
        "{} | {}{other} | {}| {} {} {} {} {params:?}{texts}{special}{beam}{batch}{chat}{controls}{stops}",
        model(&plan.target),
        draft.map(model).unwrap_or_default(),
        sampling.collect::<String>(),
        method.drafter,
        method.verifier,
        method.length,
        method.num_speculative_tokens,
    );
    short_hash(&text)
}

//! Freezes an experiment into a plan.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};

use super::axes::BATCH;
use super::cell::{Cell, FORMAT, Plan, PlannedModel, short_hash};
use super::cells::cells;
use super::choice::{Chosen, Room};
use super::draw::choose;
use super::keys::{MAX_TOKENS, REPEATS, WARMUP};
use super::material::Material;
use super::prompts::{self, Prompt};
use super::spec::Spec;
use super::turns::Script;
use crate::core::clock::{Clock, VirtualClock, VirtualCosts};
use crate::core::distribution::Token;
use crate::core::params::Value;
use crate::measure::machine::MachineClock;
use crate::method::decode::{NUM_SPECULATIVE_TOKENS, find_param};
use crate::model::{CPU, ModelInfo, Vocabulary};

/// A plan and its prompts.
#[derive(Debug)]
pub struct Frozen {
    /// What will be run.
    pub plan: Plan,
    /// The prompts that were chosen, in the plan's order.
    pub prompts: Vec<Prompt>,
    /// The tokens of each prompt, for one set of chat arguments after the other.
    pub tokens: Vec<Vec<Token>>,
}

/// The largest number of tokens that a plan may ask for. Their rows take about 16 GB.
const MOST_TOKENS: usize = 100_000_000;

/// Expands the sweep, chooses and tokenises the prompts, refuses what cannot be run, and
/// gives every cell its id. Planning and running an experiment both call this.
///
/// # Errors
/// Names the key and the allowed values.
pub fn freeze(spec: &Spec, material: &Material<'_>) -> Result<Frozen> {
    let mut plan = Plan {
        format: FORMAT,
        experiment: material.name.to_owned(),
        question: spec.question.clone(),
        hash: String::new(),
        stop_token_ids: spec.controls.stop_token_ids.clone(),
        max_tokens: spec.max_tokens,
        repeats: spec.repeats,
        seed: spec.seed,
        ignore_eos: spec.ignore_eos,
        special_tokens: spec.special_tokens,
        chat: spec.chat,
        thinking: spec.thinking.clone(),
        kv_cache: spec.kv_cache,
        trace: spec.trace,
        clock: spec.clock.name().to_owned(),
        warmup: spec.warmup,
        prompts: Vec::new(),
        prompts_sha256: String::new(),
        copies: BTreeMap::new(),
        choice: Default::default(),
        turns: BTreeMap::new(),
        texts: BTreeMap::new(),
        target: planned(&spec.target, material.target),
        draft: spec.draft.as_deref().zip(material.draft).map(|(name, info)| PlannedModel {
            vocabulary: spec.vocabulary,
            training: material.training.cloned(),
            ..planned(name, info)
        }),
        cells: Vec::new(),
    };
    plan.cells = cells(spec, &mut plan, material)?;
    let drafts = plan.cells.iter().any(|cell| cell.method.needs_draft_model());
    let models =
        [("target", Some(material.target)), ("draft model", material.draft.filter(|_| drafts))];
    let rooms = models
        .into_iter()
        .filter_map(|(model, info)| Some(Room { model, context: info?.context_length }));
    let Some(room) = rooms.min_by_key(|room| room.context) else { bail!("there is no model") };
    let (turns, Chosen { prompts, tokens, choice, .. }) = written(spec, &plan, material, room)?;
    plan.turns = turns;
    prompts::check_unique(prompts.iter().map(|prompt| &*prompt.id))?;
    plan.prompts = prompts.iter().map(|p| p.id.clone()).collect();
    plan.prompts_sha256 = prompts::sha256(&prompts, &tokens);
    plan.copies = prompts::copies(&prompts, &tokens);
    plan.choice = choice;
    plan.check()?;
    plan.seal()?;
    Ok(Frozen { plan, prompts, tokens })
}

/// The prompts that are run and the number of turns of each question that has several, with the
/// tokens for every set of chat arguments.
fn written(
    spec: &Spec,
    plan: &Plan,
    material: &Material<'_>,
    room: Room<'_>,
) -> Result<(BTreeMap<String, usize>, Chosen)> {
    let mut all: Option<(BTreeMap<String, usize>, Chosen)> = None;
    for arguments in plan.arguments() {
        let script = Script::new(spec, material, arguments)?;
        let mut chosen = choose(spec, &script, room)?;
        let turns = script.add_later_turns(&mut chosen, room)?;
        match &mut all {
            None => all = Some((turns, chosen)),
            Some((_, first)) if first.prompts == chosen.prompts => {
                first.tokens.extend(chosen.tokens)
            }
            Some(_) => bail!(
                "\"chat_arguments\": with {arguments}, other prompts fit into the context: take a \
                 smaller max_tokens, or leave out the long prompts"
            ),
        }
    }
    all.context("there is no cell")
}

impl Plan {
    /// Sets the plan's hash to that of its contents.
    ///
    /// # Errors
    /// If the plan cannot be serialized.
    pub fn seal(&mut self) -> Result<()> {
        self.hash = String::new();
        self.hash = short_hash(&toml::to_string(self)?);
        Ok(())
    }

    /// Whether the text of a file has the hash of this plan.
    pub(super) fn is_sealed_in(&self, text: &str) -> bool {
        let with = format!("hash = \"{}\"", self.hash);
        short_hash(&text.replace("\r\n", "\n").replacen(&with, "hash = \"\"", 1)) == self.hash
    }

    /// Refuses counts and settings out of range in a plan that is read back; those of a new plan were
    /// refused where they were read.
    ///
    /// # Errors
    /// Names the setting and the allowed values.
    pub(super) fn check_values(&self) -> Result<()> {
        for (param, value) in [
            (MAX_TOKENS, self.max_tokens),
            (REPEATS, self.repeats as usize),
            (WARMUP, self.warmup as usize),
        ] {
            param.check(&Value::Count(value))?;
        }
        for cell in &self.cells {
            BATCH.check(&Value::Count(cell.batch))?;
            cell.method.sampling.validate()?;
            cell.beam.map_or(Ok(()), |beam| beam.validate())?;
            if cell.method.num_speculative_tokens > 0 {
                NUM_SPECULATIVE_TOKENS.check(&Value::Count(cell.method.num_speculative_tokens))?;
            }
            // Methods that this build does not know can still be reported.
            for (key, value) in cell.method.params.iter() {
                find_param(key).map_or(Ok(()), |param| param.check(value).map(|_| ()))?;
            }
        }
        Ok(())
    }

    /// Refuses what no plan may have, new or read back: ids that occur twice, batches without
    /// prompts, and too many tokens.
    ///
    /// # Errors
    /// Says what is wrong and, where there are any, the allowed values.
    pub(super) fn check(&self) -> Result<()> {
        let ids = |ids: &mut dyn Iterator<Item = &String>| ids.collect::<BTreeSet<_>>().len();
        if ids(&mut self.prompts.iter()) < self.prompts.len()
            || ids(&mut self.cells.iter().map(|cell| &cell.id)) < self.cells.len()
        {
            bail!("two prompts or two cells have the same id");
        }
        let prompts = self.prompts.iter().collect::<BTreeSet<_>>();
        let mut copies = self.copies.iter();
        if !copies.all(|(copy, first)| {
            prompts.contains(copy) && prompts.contains(first) && !self.copies.contains_key(first)
        }) {
            bail!("\"copies\" must map prompts of the plan to prompts that are no copies");
        }
        let batch = self.cells.iter().map(|cell| cell.batch).max().unwrap_or(1);
        if batch > self.prompts.len() {
            let prompts = self.prompts.len();
            bail!("\"batch\" = {batch} needs as many prompts, and there are {prompts}");
        }
        if self.tokens() > MOST_TOKENS {
            bail!(
                "{} cells x {} prompts x {} repeats of {} tokens are more than {MOST_TOKENS} \
                 tokens: take fewer of them",
                self.cells.len(),
                self.prompts.len(),
                self.repeats,
                self.max_tokens
            );
        }
        Ok(())
    }

    /// The number of generations that the plan asks for.
    pub fn generations(&self) -> usize {
        let each = self.cells.iter().map(|cell| self.prompts_of(cell));
        each.fold(0, usize::saturating_add).saturating_mul(self.repeats as usize)
    }

    /// The number of tokens that the plan asks for.
    pub fn tokens(&self) -> usize {
        self.generations().saturating_mul(self.max_tokens)
    }

    /// The number of passes of the target that it takes without drafts, at most.
    pub fn passes(&self) -> usize {
        let generations = self.prompts.len().saturating_mul(self.repeats as usize);
        let beams = self.cells.iter().map(|cell| cell.beam.map_or(1, |beam| beam.num_beams));
        beams.sum::<usize>().saturating_mul(generations).saturating_mul(self.max_tokens)
    }

    /// The clock that the plan asks for.
    pub fn clock(&self) -> Box<dyn Clock> {
        match self.clock.as_str() {
            "virtual" => Box::new(VirtualClock::new(VirtualCosts::default())),
            _ => Box::new(MachineClock::default()),
        }
    }

    /// The goals in order, each with its cells, baseline first.
    pub fn goals(&self) -> Vec<Vec<&Cell>> {
        let mut groups: Vec<Vec<&Cell>> = Vec::new();
        for cell in &self.cells {
            match groups.iter_mut().find(|group| group[0].goal() == cell.goal()) {
                Some(group) => group.push(cell),
                None => groups.push(vec![cell]),
            }
        }
        groups
    }
}

/// A model has the name that the experiment gives it; its location is not part of a plan.
fn planned(name: &str, info: &ModelInfo) -> PlannedModel {
    PlannedModel {
        name: name.to_owned(),
        sha256: info.sha256.clone(),
        revision: info.revision.clone(),
        engine: info.engine.to_owned(),
        dtype: info.dtype.to_owned(),
        kv_cache_dtype: info.cache_dtype,
        device: Some(info.device.clone()).filter(|device| device != CPU),
        vocabulary: Vocabulary::Same,
        eos: Some(info.eos.clone()),
        at_once: info.at_once,
        experts: info.experts,
        training: None,
    }
}

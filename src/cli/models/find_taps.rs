//! `specdec models --find-taps`: which hidden states of its target a head was trained with.
//!
//! Files count layers in two ways, and programs read them differently. The reading that a head was
//! trained with has the largest overlap of q and p.

use std::path::Path;

use anyhow::{Context, Result, bail};

use super::start_threads;
use crate::checkpoint::Catalog;
use crate::checkpoint::pair::Pair;
use crate::cli::output;
use crate::cli::some_prompts::SomePrompts;
use crate::core::chance::{Request, Seeded};
use crate::core::clock::RealClock;
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::core::round::RoundEvent;
use crate::engine::{Feedback, HeadSettings, Settings, TapSetting};
use crate::method::decode::{Generation, MethodSpec, Observer, StopRules, generate};
use crate::method::draft::Tools;
use crate::model::Tap;

/// Prompts that are continued if no number is named.
const PROMPTS: usize = 10;
/// New tokens for each prompt, and drafted tokens per round.
const TOKENS: usize = 48;
const K: usize = 4;

/// Prints the overlap by position for each reading of a head.
pub(super) fn print(head: &str, target: &str, prompts: &SomePrompts) -> Result<()> {
    start_threads(None)?;
    let catalog = Catalog::near(Path::new("."));
    let source = catalog.model(head).context("head")?;
    let mut pair = Pair::load(catalog.model(target).context("target")?).context("target")?;
    let prompts = prompts.few(PROMPTS, &pair, TOKENS)?;
    pair = pair.with_draft(source.clone().with(settings(None, Feedback::Plain)))?;
    let taps = after_layers(&pair)?;
    let layers = pair.target.model.info().hidden.map_or(0, |hidden| hidden.layers);
    let mut rows = vec![vec!["states after layers".to_owned(), "feedback".to_owned()]];
    rows[0].extend((1..=K).map(|position| format!("position {position}")));
    for shift in [-1_isize, 0, 1] {
        let shifted = taps.iter().map(|layers| layers.checked_add_signed(shift));
        let shifted = shifted.collect::<Option<Vec<_>>>();
        let Some(shifted) = shifted.filter(|all| all.iter().all(|&after| after <= layers)) else {
            continue;
        };
        for (name, feedback) in [("pre", Feedback::Plain), ("post", Feedback::Normed)] {
            let settings = settings(Some(shifted.clone()), feedback);
            pair = pair.with_draft(source.clone().with(settings))?;
            let overlap = overlap(&pair, &prompts)?;
            let states = shifted.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
            let mut row = vec![states, name.to_owned()];
            row.extend(overlap.iter().map(|overlap| format!("{overlap:.3}")));
            rows.push(row);
        }
    }
    let text = output::aligned(&rows, |column| column >= 2).join("\n");
    output::show(&format!(
        "{text}\n\nOverlap of p and q at T = 1 on {} prompts. The right reading has the \
         largest overlap; taps and feedback are settings in configs/models.toml (docs/heads.md).\n",
        prompts.len()
    ))
}

fn settings(taps: Option<Vec<usize>>, feedback: Feedback) -> Settings {
    let taps = taps.map(TapSetting::After);
    let head = HeadSettings { feedback: Some(feedback), taps, ..HeadSettings::default() };
    Settings { head, ..Settings::default() }
}

/// The layers after which a head reads states, as its files say.
fn after_layers(pair: &Pair) -> Result<Vec<usize>> {
    let inputs = pair.draft_model().map(|head| &head.info().inputs);
    let taps = inputs.map(|inputs| inputs.taps()).unwrap_or_default();
    let layers = taps.iter().map(|tap| match tap {
        Tap::After(layers) => Some(*layers),
        Tap::Normed => None,
    });
    match layers.collect::<Option<Vec<_>>>() {
        Some(layers) if !layers.is_empty() => Ok(layers),
        _ => bail!(
            "this draft reads no states after layers that could be found: only those of EAGLE-3 and tap drafts are"
        ),
    }
}

/// The mean overlap by position in a draft.
fn overlap(pair: &Pair, prompts: &[Vec<Token>]) -> Result<Vec<f64>> {
    let target = &*pair.target.model;
    let spec = MethodSpec { num_speculative_tokens: K, ..MethodSpec::default() };
    let mut seen = Overlaps::default();
    for (number, prompt) in prompts.iter().enumerate() {
        let tools = Tools { draft: pair.draft_model(), target: Some(target), texts: None };
        let stop = StopRules::max_tokens(TOKENS);
        let mut one = Generation::new(target, spec.build_with(tools)?, prompt, stop, None)?;
        let mut chance = Seeded::new(Request { seed: 0, prompt: &number.to_string(), repeat: 0 });
        generate(&mut one, target, &mut chance, &RealClock::default(), &mut seen)?;
    }
    let mean = |(sum, count): &(f64, usize)| sum / (*count).max(1) as f64;
    Ok(seen.0.iter().map(mean).collect())
}

/// By position: the sum of overlaps, and their number.
#[derive(Debug, Default)]
struct Overlaps([(f64, usize); K]);

impl Observer for Overlaps {
    fn round(&mut self, event: &RoundEvent<'_>) -> Result<(), Error> {
        for (at, (sum, count)) in event.forks().into_iter().zip(&mut self.0) {
            *sum += event.overlap(at);
            *count += 1;
        }
        Ok(())
    }
}

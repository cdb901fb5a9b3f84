//! The best configuration, as settings of other programs.

use std::fmt::Write;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use serde_json::{Value, json};

use super::Forecasts;
use crate::measure::statistics::Ratio;
use crate::tapes::forecasting::{DecodingConfig, ForecastCell, MAX_K, best};
use crate::tapes::recording::MODEL;
use crate::tapes::tape::AcceptanceRule;

/// The program whose settings to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Paste {
    /// --speculative-config of vLLM, with K by batch size if there are several batches
    Vllm,
    /// --speculative-config of vLLM with which it accepts as forecast, without a draft
    VllmSynthetic,
    /// Options of SGLang's server
    Sglang,
    /// Options of llama.cpp's server
    LlamaCpp,
    /// Options of AIConfigurator
    Aiconfigurator,
    /// Options of Dynamo's mocker
    DynamoMocker,
    /// speculation_profile.json, with intervals
    Profile,
    /// An experiment that measures the forecast here
    Experiment,
}

impl Paste {
    /// Whether its settings are a line, not a file.
    pub(super) fn is_short(self) -> bool {
        !matches!(self, Self::Profile | Self::Experiment)
    }

    /// The settings to paste.
    ///
    /// # Errors
    /// If the program has no such drafter.
    pub(super) fn text(self, found: &Forecasts) -> Result<String> {
        // No other program takes the shapes of trees that are forecast here.
        let chains = found.cells.iter().filter(|cell| cell.config.tree.is_none());
        let cell = best(chains, 0).context("there is no forecast of chains")?;
        Ok(match self {
            Self::Vllm => serde_json::to_string(&vllm(found, cell)?)? + "\n",
            Self::VllmSynthetic => serde_json::to_string(&synthetic(cell))? + "\n",
            Self::Sglang => sglang(found, cell)?,
            Self::Aiconfigurator => aiconfigurator(found)?,
            Self::DynamoMocker => dynamo_mocker(found)?,
            Self::LlamaCpp => llama_cpp(found, cell)?,
            Self::Profile => serde_json::to_string_pretty(&profile(found, cell))? + "\n",
            Self::Experiment => experiment(found, cell)?,
        })
    }
}

/// The drafter of a cell, and the name of its model.
fn drafter<'f>(found: &'f Forecasts, cell: &ForecastCell) -> (&'f str, &'f str) {
    let drafter = &found.tape.drafters[cell.config.drafter];
    (&drafter.drafter, drafter.model_name())
}

fn vllm(found: &Forecasts, cell: &ForecastCell) -> Result<Value> {
    let (name, model) = drafter(found, cell);
    let mut config = match name {
        MODEL => json!({
            "method": "draft_model",
            "model": model,
            "draft_sample_method": "probabilistic",
            "rejection_sample_method": match cell.config.rule {
                AcceptanceRule::Block => "block",
                AcceptanceRule::Token | AcceptanceRule::Match | AcceptanceRule::Race => "standard",
            },
        }),
        "prompt_lookup" => {
            let params = &found.tape.drafters[cell.config.drafter].params;
            let set = |key: &str| params.iter().find(|(own, _)| *own == key).map(|(_, v)| v);
            json!({
                "method": "ngram",
                "prompt_lookup_max": set("prompt_lookup_max"),
                "prompt_lookup_min": set("prompt_lookup_min"),
            })
        }
        "suffix_automaton" => json!({"method": "suffix"}),
        other => bail!("vLLM has no drafter like \"{other}\""),
    };
    let speedup = |at: usize, cell: &ForecastCell| cell.speedup(at).and_then(|ratio| ratio.value());
    let pays = |at: usize, own: &ForecastCell| speedup(at, own).is_none_or(|times| times > 1.0);
    config["num_speculative_tokens"] = json!(cell.config.k);
    let same = |own: &&ForecastCell| {
        DecodingConfig { k: cell.config.k, ..own.config.clone() } == cell.config
    };
    let context = found.settings.first().and_then(|setting| setting.context);
    let row = found.settings.iter().enumerate().filter(|(_, setting)| setting.context == context);
    let steps = row.filter_map(|(at, setting)| {
        let own = best(found.cells.iter().filter(same), at)?;
        Some((setting.batch, if pays(at, own) { own.config.k } else { 0 }))
    });
    let mut steps = steps.collect::<Vec<_>>();
    steps.sort_unstable();
    if steps.len() > 1 {
        let ends =
            steps.iter().skip(1).map(|(batch, _)| batch - 1).chain([steps[steps.len() - 1].0]);
        // A batch between two given ones has the K of the smaller one.
        let first = [1].into_iter().chain(steps.iter().skip(1).map(|(batch, _)| *batch));
        let table = first.zip(ends).zip(&steps).map(|((lo, hi), (_, k))| json!([lo, hi, k]));
        config["num_speculative_tokens_per_batch_size"] = table.collect();
        let most = steps.iter().map(|(_, k)| *k).max().unwrap_or(cell.config.k);
        config["num_speculative_tokens"] = json!(most);
    }
    Ok(config)
}

fn llama_cpp(found: &Forecasts, cell: &ForecastCell) -> Result<String> {
    let (name, model) = drafter(found, cell);
    if name != MODEL {
        bail!("llama.cpp's server drafts with a model: the best drafter here is \"{name}\"");
    }
    let k = cell.config.k;
    Ok(format!("--model-draft {model} --draft-max {k} --draft-min {k} --draft-p-min 0\n"))
}

fn sglang(found: &Forecasts, cell: &ForecastCell) -> Result<String> {
    let (name, model) = drafter(found, cell);
    let k = cell.config.k;
    Ok(match name {
        MODEL => format!(
            "--speculative-algorithm STANDALONE --speculative-draft-model-path {model} \
             --speculative-num-steps {k} --speculative-eagle-topk 1 \
             --speculative-num-draft-tokens {}\n",
            k + 1
        ),
        "prompt_lookup" => {
            format!("--speculative-algorithm NGRAM --speculative-num-draft-tokens {}\n", k + 1)
        }
        other => bail!("SGLang has no drafter like \"{other}\""),
    })
}

/// The largest K that AIConfigurator and Dynamo's mocker take.
const MOST_NEXTN: usize = 5;

/// The best chains that both programs can describe.
fn short_chains(found: &Forecasts) -> Result<&ForecastCell> {
    let chains = found.cells.iter().filter(|cell| cell.config.tree.is_none());
    best(chains.filter(|cell| cell.config.k <= MOST_NEXTN), 0)
        .context("there is no forecast of chains")
}

fn aiconfigurator(found: &Forecasts) -> Result<String> {
    let cell = short_chains(found)?;
    // Its count is without the token that every round emits.
    let accepted = cell.block_efficiency().value().unwrap_or(1.0) - 1.0;
    Ok(format!("--nextn {} --nextn-accepted {accepted:.4}\n", cell.config.k))
}

fn dynamo_mocker(found: &Forecasts) -> Result<String> {
    let cell = short_chains(found)?;
    let rates = cell.survival().into_iter().map(|rate| rate.value().unwrap_or(0.0));
    let rates = rates.map(|rate| format!("{rate:.4}")).collect::<Vec<_>>();
    Ok(format!("--aic-nextn {} --aic-nextn-accept-rates {}\n", cell.config.k, rates.join(",")))
}

/// Settings with which vLLM ignores its models, for tests of load.
fn synthetic(cell: &ForecastCell) -> Value {
    let rates = marginal(&cell.survival()).into_iter().map(|rate| (rate * 1e4).round() / 1e4);
    json!({
        "num_speculative_tokens": cell.config.k,
        "rejection_sample_method": "synthetic",
        "synthetic_acceptance_rates": rates.collect::<Vec<_>>(),
    })
}

/// By position: the probability that a draft is accepted up to there.
fn marginal(survival: &[Ratio]) -> Vec<f64> {
    let mut product = 1.0;
    let next = survival.iter().map(|ratio| {
        product *= ratio.value().unwrap_or(0.0);
        product
    });
    next.collect()
}

/// The published schema 1.0, and the intervals of its rates.
fn profile(found: &Forecasts, cell: &ForecastCell) -> Value {
    let survival = cell.survival();
    let value = |ratio: &Ratio| ratio.value();
    let interval = |ratio: &Ratio| ratio.interval().map(|interval| [interval.lo, interval.hi]);
    let marginal = marginal(&survival);
    let by_k = found
        .cells
        .iter()
        .filter(|own| DecodingConfig { k: cell.config.k, ..own.config.clone() } == cell.config);
    let by_k = by_k.map(|own| own.block_efficiency().value()).collect::<Vec<_>>();
    let (name, model) = drafter(found, cell);
    let tau = cell.block_efficiency();
    json!({
        "schema_version": "1.0",
        "measured": false,
        "method": name,
        "draft_checkpoint": model,
        "target_model": found.tape.header.target.name,
        "num_speculative_tokens": cell.config.k,
        "block_size": cell.config.k + 1,
        "max_supported_k": found.tape.drafters[cell.config.drafter].most.unwrap_or(MAX_K),
        "verification_method": match cell.config.rule {
            AcceptanceRule::Block => "block",
            AcceptanceRule::Token | AcceptanceRule::Match | AcceptanceRule::Race => {
                "longest_prefix"
            }
        },
        "conditional_accept_rates": survival.iter().map(value).collect::<Vec<_>>(),
        "conditional_accept_rates_95": survival.iter().map(interval).collect::<Vec<_>>(),
        "marginal_accept_rates": marginal,
        "mean_accept_length": tau.value(),
        "mean_accept_length_95": interval(&tau),
        "accept_length_model": "measured_per_k",
        "accept_length_by_k": by_k,
        "measurement_conditions": {
            "source": "specdec forecast",
            "sampling": found.tape.header.samplings[cell.config.sampling],
            "texts": cell.sequences,
            "prompts": cell.prompts.len(),
        },
    })
}

fn experiment(found: &Forecasts, cell: &ForecastCell) -> Result<String> {
    let (name, model) = drafter(found, cell);
    let sampling = &found.tape.header.samplings[cell.config.sampling];
    let params = &found.tape.drafters[cell.config.drafter].params;
    let mut text = String::new();
    writeln!(text, "question = \"Does the measurement here agree with the tape's forecast?\"")?;
    writeln!(text, "target = {}", json!(found.tape.header.target.name))?;
    if !model.is_empty() {
        writeln!(text, "draft = {}", json!(model))?;
    }
    writeln!(text, "prompts = [\"code\", \"docs\", \"edits\"]\nmax_tokens = 64\n\n[sweep]")?;
    writeln!(text, "drafter = {}\nverifier = {}", json!(name), json!(cell.config.rule.verifier()))?;
    let around = [cell.config.k.saturating_sub(1), cell.config.k, cell.config.k + 1];
    let around = around.into_iter().filter(|k| *k > 0).collect::<Vec<_>>();
    writeln!(text, "num_speculative_tokens = {}", json!(around))?;
    writeln!(text, "temperature = {}", sampling.temperature)?;
    for (key, value) in sampling.changes().filter(|(key, _)| *key != "temperature") {
        writeln!(text, "{key} = {}", json!(value))?;
    }
    for (key, value) in params.iter() {
        writeln!(text, "{key} = {}", json!(value))?;
    }
    Ok(text)
}

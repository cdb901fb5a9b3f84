//! The ways to make texts of a model's distributions.

use serde::Serialize;

/// A way to make texts; drafters, verifiers and draft lengths make each of them faster.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Strategy {
    /// What it is called.
    pub name: &'static str,
    /// The options of `generate` that ask for it.
    pub options: &'static str,
    /// The axes of experiments that ask for it; `-` if they cannot.
    pub axes: &'static str,
    /// What it returns, in a few words.
    pub summary: &'static str,
    /// Where it is from; `-` if nobody in particular.
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
        summary: "a text drawn from the processed distribution",
        source: "-",
    },
    Strategy {
        name: "beam search",
        options: "--num-beams B",
        axes: "strategy = \"beam\", num_beams",
        summary: "the most probable texts that a search of width B finds",
        source: "Lowerre 1976; groups: Vijayakumar et al. 2016, arXiv 1610.02424",
    },
    Strategy {
        name: "best of N",
        options: "--samples N --best-of HOW",
        axes: "-",
        summary: "the most probable of N drawn texts, or one with the most frequent answer",
        source: "majority: Wang et al. 2022, arXiv 2203.11171",
    },
];

//! The runs whose rows are replayed.

use specdec::model::ToyPair;
use specdec::model::zoo::toy;

use crate::fixtures::{markov, positive_table, seeded};
use crate::rows_support::{Busy, Quirks, Scenario};

/// Prompts of one token, for which there is no prefill, and of more.
const PROMPTS: &[&str] = &["a", "abc", "cabbacab", "bb"];

/// No other work on the machine.
const QUIET: [&[(usize, Busy)]; 2] = [&[], &[]];

pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "chains and trees",
        pair: || toy("mixed").unwrap(),
        quirks: Quirks { eos: [&[2]; 2], ..Quirks::NONE },
        prompts: PROMPTS,
        busy: QUIET,
        experiment: r#"
            max_tokens = 14
            seed = 11
            ignore_eos = true
            control = true
            [[sweep]]
            drafter = "model"
            verifier = ["rejection", "gumbel", "traversal"]
            num_speculative_tokens = 3
            temperature = [1, 0.6]
            [[sweep]]
            drafter = "model_tree"
            tree = "2,2,1"
            verifier = ["rejection", "k_seq", "traversal"]
            num_speculative_tokens = 3
            [[sweep]]
            drafter = "model_tree"
            tree = "2,1"
            verifier = "gumbel"
            gumbel_lists = [1, 2]
            num_speculative_tokens = 2
            [[sweep]]
            drafter = "prompt_lookup"
            verifier = ["rejection", "token_match"]
            num_speculative_tokens = 2
            temperature = 0.6
        "#,
    },
    Scenario {
        name: "approximate",
        pair: || toy("zeros").unwrap(),
        quirks: Quirks::NONE,
        prompts: PROMPTS,
        busy: QUIET,
        experiment: r#"
            max_tokens = 12
            seed = 12
            [[sweep]]
            drafter = ["model", "prompt_lookup"]
            verifier = "lenient"
            num_speculative_tokens = 3
            lenience = 0.4
            [[sweep]]
            drafter = ["model", "prompt_lookup"]
            verifier = "typical"
            num_speculative_tokens = 3
            [[sweep]]
            drafter = "model_tree"
            tree = "2,1"
            verifier = "lenient"
            num_speculative_tokens = 2
        "#,
    },
    Scenario {
        name: "ends within rounds",
        pair: || toy("close").unwrap(),
        quirks: Quirks { eos: [&[2]; 2], ..Quirks::NONE },
        prompts: PROMPTS,
        busy: QUIET,
        experiment: r#"
            max_tokens = 16
            seed = 13
            ignore_eos = false
            [sweep]
            drafter = "model"
            verifier = ["rejection", "gumbel"]
            num_speculative_tokens = 4
            temperature = [1, 0]
        "#,
    },
    Scenario {
        name: "ends of its own",
        pair: || toy("close").unwrap(),
        quirks: Quirks { eos: [&[2], &[1]], ..Quirks::NONE },
        prompts: &["a", "b", "c", "a"],
        busy: QUIET,
        experiment: r#"
            max_tokens = 8
            seed = 21
            ignore_eos = false
            [sweep]
            drafter = "model"
            verifier = ["rejection", "gumbel"]
            num_speculative_tokens = 3
            temperature = [1, 0]
        "#,
    },
    Scenario {
        name: "greedy ties",
        pair: near_ties,
        quirks: Quirks { rounds: true, wavers: true, ..Quirks::NONE },
        prompts: PROMPTS,
        busy: QUIET,
        experiment: r#"
            max_tokens = 16
            seed = 14
            [[sweep]]
            drafter = "model"
            verifier = ["rejection", "gumbel", "typical"]
            num_speculative_tokens = 2
            temperature = 0
            [[sweep]]
            drafter = "model_tree"
            tree = "2,1"
            num_speculative_tokens = 2
            temperature = 0
        "#,
    },
    Scenario {
        name: "wavers where it must not",
        pair: || toy("mixed").unwrap(),
        quirks: Quirks { wavers: true, ..Quirks::NONE },
        prompts: PROMPTS,
        busy: QUIET,
        experiment: r#"
            max_tokens = 12
            seed = 15
            [sweep]
            drafter = "model"
            verifier = ["rejection", "gumbel"]
            num_speculative_tokens = 3
            temperature = [1, 0]
        "#,
    },
    Scenario {
        name: "fails",
        pair: || toy("mixed").unwrap(),
        quirks: Quirks { fails_after: &[2, 1], ..Quirks::NONE },
        prompts: PROMPTS,
        // The most disturbed block goes first, and of 12 blocks four may be run again:
        // block 5 does worse on its second run and better on its third, but stays
        // disturbed. In block 7 threads wait only for each other. Block 10 is stopped.
        busy: [
            &[
                (2, [0.06, 1.0, 0.03, 0.05, 0.09]),
                (5, [0.2, 0.3, 0.1, 0.0, 0.0]),
                (7, [0.6, 0.02, 0.03, 0.04, 0.0]),
                (9, [0.7, 0.3, 0.0, 0.1, 0.2]),
                (10, [0.01, 0.2, 0.05, 0.0, 0.12]),
            ],
            &[
                (9, [0.0, 0.0, 0.0, 0.0, 0.0]),
                (5, [0.5, 0.6, 0.0, 0.0, 0.0]),
                (10, [0.01, 0.3, 0.0, 0.0, 0.0]),
                (5, [0.15, 0.9, 0.04, 0.0, 0.0]),
            ],
        ],
        experiment: r#"
            max_tokens = 8
            seed = 16
            [sweep]
            drafter = "model"
            verifier = ["rejection", "gumbel"]
            num_speculative_tokens = 3
        "#,
    },
    Scenario {
        name: "many tokens",
        pair: many_tokens,
        quirks: Quirks::NONE,
        prompts: PROMPTS,
        busy: QUIET,
        experiment: r#"
            max_tokens = 8
            seed = 17
            [sweep]
            drafter = "model_tree"
            tree = "3,1"
            num_speculative_tokens = 2
        "#,
    },
];

/// Three distributions over three tokens, of which only the first is a near tie, within
/// 1e-4 of the largest logit.
fn near_ties() -> ToyPair {
    let p = vec![vec![0.4, 0.399_999, 0.200_001], vec![0.2, 0.5, 0.3], vec![0.3, 0.25, 0.45]];
    let q = vec![vec![0.4, 0.5, 0.1], vec![0.3, 0.4, 0.3], vec![0.3, 0.25, 0.45]];
    markov(&p, &q)
}

/// Ten tokens: too many for α* of three children.
fn many_tokens() -> ToyPair {
    let mut rng = seeded(18);
    let p = positive_table(10, &mut rng);
    markov(&p, &positive_table(10, &mut rng))
}

//! Beam search compared with transformers, by the hypotheses that it returned (`tests/beams`).

use std::path::Path;

use serde::Deserialize;
use specdec::checkpoint::load;
use specdec::core::chance::{Request, Seeded};
use specdec::core::clock::RealClock;
use specdec::core::sampling::SamplingParams;
use specdec::method::beam::{BeamSearch, BeamSettings, EarlyStopping, NoBeamObserver};
use specdec::method::decode::{MethodSpec, StopRules};
use specdec::model::Role;

/// Scores of transformers are sums of up to 20 f32 values of magnitude below 10. Their logits have
/// an error of at most 1e-5 of the largest logit.
const TOLERANCE: f64 = 1e-4;

#[derive(Debug, Deserialize)]
struct Case {
    folder: String,
    prompt: Vec<u32>,
    eos: Vec<u32>,
    max_tokens: usize,
    num_beams: usize,
    length_penalty: f64,
    early_stopping: Early,
    #[serde(default = "one")]
    num_beam_groups: usize,
    #[serde(default)]
    diversity_penalty: f64,
    num_return_sequences: usize,
    #[serde(rename = "texts")]
    expected: Vec<Expected>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Early {
    Flag(bool),
    Name(String),
}

#[derive(Debug, Deserialize)]
struct Expected {
    tokens: Vec<u32>,
    score: f64,
}

fn one() -> usize {
    1
}

impl Case {
    fn settings(&self) -> BeamSettings {
        let early_stopping = match &self.early_stopping {
            Early::Flag(true) => EarlyStopping::True,
            Early::Flag(false) => EarlyStopping::False,
            Early::Name(name) => name.parse().unwrap(),
        };
        BeamSettings {
            num_beams: self.num_beams,
            length_penalty: self.length_penalty,
            early_stopping,
            num_return_sequences: self.num_return_sequences,
            num_beam_groups: self.num_beam_groups,
            diversity_penalty: self.diversity_penalty,
        }
    }
}

/// Checks the cases of a file, without a drafter and with the model as its own drafter.
fn check(file: &str, least: usize) {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let cases = std::fs::read(tests.join("beams").join(file)).unwrap();
    let cases = serde_json::from_slice::<Vec<Case>>(&cases).unwrap();
    assert!(cases.len() >= least);
    for (number, case) in cases.iter().enumerate() {
        let folder = tests.join("families").join(&case.folder).to_string_lossy().into_owned();
        let target = load(folder, Role::Target).unwrap().model;
        for drafter in ["none", "model"] {
            let sampling = SamplingParams { temperature: 0.0, ..SamplingParams::NEUTRAL };
            let method =
                MethodSpec { drafter: drafter.to_owned(), sampling, ..MethodSpec::default() };
            let stop =
                StopRules { eos: case.eos.clone(), ..StopRules::max_tokens(case.max_tokens) };
            let search = BeamSearch {
                target: &*target,
                settings: case.settings(),
                prompt: &case.prompt,
                stop,
                codec: None,
            };
            let mut chance = Seeded::new(Request { seed: 1, prompt: "p", repeat: 0 });
            let method = method.build(Some(&*target)).unwrap();
            let clock = RealClock::default();
            let found = search.run(method, (&mut chance, &clock), &mut NoBeamObserver).unwrap();
            let what = format!("{file}, case {number}: {case:?}\n{:?}", found.hypotheses);
            assert_eq!(found.hypotheses.len(), case.expected.len(), "{what}");
            for (own, theirs) in found.hypotheses.iter().zip(&case.expected) {
                assert_eq!(own.tokens, theirs.tokens, "{what}");
                assert!((own.score - theirs.score).abs() <= TOLERANCE, "{what}");
            }
        }
    }
}

/// Catches: a completion that is not among the best B candidates is finished; a copied beam lacks
/// its first new row.
#[test]
fn hypotheses_and_scores_match_transformers() {
    check("single.json", 84);
}

/// Catches: the diversity penalty counts once for all beams that chose a token; a penalised token
/// keeps its rank.
#[test]
fn hypotheses_and_scores_of_groups_match_transformers() {
    check("groups.json", 36);
}

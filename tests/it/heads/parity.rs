//! Heads in published layouts compute what their reference implementations do; see
//! `tests/heads/README.md`.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use specdec::checkpoint::pair::Pair;
use specdec::core::chance::{Chance, Site};
use specdec::core::distribution::{Dist, Token};
use specdec::core::round::Verdict;
use specdec::core::tree::Draft;
use specdec::engine::{AsWritten, Feedback, FirstRow, HeadSettings, Settings, Source, TapSetting};
use specdec::method::decode::{Generation, StopRules};
use specdec::method::draft::Tools;
use specdec::model::{Tap, evaluate_one};

use super::history::still;

/// The largest difference between logits of f32 arithmetic and of references, whose logits are up
/// to 12. The page of the fixtures states 8e-6 for another program in f32.
pub(super) const CLOSE: f64 = 1e-4;

#[derive(Debug, Deserialize)]
pub(super) struct Expected {
    pub(super) target: String,
    /// Numbers of layers, or the word for the state after the last norm.
    pub(super) taps: serde_json::Value,
    pub(super) ids: Option<Vec<Token>>,
    pub(super) rounds: Vec<Round>,
    #[serde(default)]
    pub(super) variants: BTreeMap<String, Vec<Round>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Round {
    pub(super) context: Vec<Token>,
    pub(super) rows: Vec<Row>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Row {
    pub(super) drafted: Vec<Token>,
    pub(super) logits: Vec<f64>,
    /// Of a drafter that estimates it: the acceptance of the next token.
    pub(super) confidence: Option<f64>,
}

pub(super) fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/heads").join(name)
}

pub(super) fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// Draws these tokens.
#[derive(Debug)]
pub(super) struct Script(pub(super) VecDeque<Token>);

impl Chance for Script {
    fn begin_round(&mut self, _round: u64) {}

    fn bernoulli(&mut self, _site: Site, p: f64) -> bool {
        p >= 1.0
    }

    fn categorical(&mut self, _site: Site, dist: &Dist) -> Token {
        self.0.pop_front().unwrap_or_else(|| dist.argmax())
    }

    fn race(&mut self, _position: usize, _lists: Range<usize>, dist: &Dist) -> Token {
        dist.argmax()
    }
}

/// The largest difference of logits, up to a constant per row, between a draft's rows and the
/// expected ones, among those after tokens that the draft has.
fn difference(draft: &Draft, rows: &[Row], ids: Option<&[Token]>) -> f64 {
    let tokens = draft.nodes().iter().map(|node| node.token).collect::<Vec<_>>();
    let mut most = 0.0_f64;
    for row in rows.iter().filter(|row| tokens.starts_with(&row.drafted)) {
        let Some(node) = draft.nodes().get(row.drafted.len()) else { continue };
        let dist = node.distribution(draft.vocab());
        let id = |at: usize| ids.map_or(at as Token, |ids| ids[at]);
        let found = (0..row.logits.len()).map(|at| dist.p(id(at)).ln()).collect::<Vec<_>>();
        let largest =
            (0..row.logits.len()).max_by(|&a, &b| row.logits[a].total_cmp(&row.logits[b]));
        let largest = largest.unwrap();
        for (found_here, expected) in found.iter().zip(&row.logits) {
            let expected = expected - row.logits[largest];
            most = most.max((found_here - found[largest] - expected).abs());
        }
    }
    most
}

/// The largest difference in two rounds, with an acceptance in between.
pub(super) fn largest(
    head: &Source,
    target: &Path,
    ids: Option<&[Token]>,
    rounds: &[Round],
) -> f64 {
    let pair = Pair::load(text(target)).unwrap().with_draft(head.clone()).unwrap();
    let model = &*pair.target.model;
    let tools = Tools { draft: pair.draft_model(), target: Some(model), texts: None };
    let method = crate::asking::spec("model", 8, &[]).build_with(tools).unwrap();
    let stop = StopRules::max_tokens(64);
    let mut generation = Generation::new(model, method, &rounds[0].context, stop, None).unwrap();
    generation.prefill(model, &still()).unwrap();
    let mut most = 0.0_f64;
    for (number, round) in rounds.iter().enumerate() {
        assert_eq!(generation.tokens(), round.context);
        let mut paths = round.rows.iter().map(|row| &row.drafted[..]).collect::<Vec<_>>();
        // The last one is continued.
        let next = rounds.get(number + 1);
        let accepted = next.map(|next| &next.context[round.context.len()..next.context.len() - 1]);
        paths.extend(accepted);
        let mut proposal = Default::default();
        for path in paths {
            let mut script = Script(path.iter().copied().collect());
            proposal = generation.propose(&mut script, &still()).unwrap();
            most = most.max(difference(&proposal.draft, &round.rows, ids));
        }
        let (Some(next), Some(accepted)) = (next, accepted) else { break };
        let mut session = generation.session();
        evaluate_one(model, generation.work(&mut session, &proposal)).unwrap();
        drop(session);
        let (path, next) = ((0..accepted.len()).collect(), *next.context.last().unwrap());
        let verdict = Verdict { path, next, residual_fallbacks: 0 };
        generation.commit(&proposal, verdict).unwrap();
    }
    most
}

pub(super) fn expected(case: &str) -> Expected {
    serde_json::from_str(&std::fs::read_to_string(folder(case).join("expected.json")).unwrap())
        .unwrap()
}

/// The head of a case, which may be in its target's folder.
pub(super) fn source(case: &str, head: HeadSettings) -> Source {
    let own = expected(case).target == ".";
    Source::from(if own { "target:mtp".to_owned() } else { text(&folder(case)) })
        .with(Settings { head, ..Settings::default() })
}

/// Heads, with layers and without.
pub(super) const CASES: [&str; 42] = [
    "dflash",
    "dflash_causal",
    "dflash_default_taps",
    "dflash_muse",
    "dflash_sinks",
    "dflash_specforge",
    "dflash_speculators",
    "dflash_speculators_window",
    "dflash_window",
    "dspark_gated",
    "dspark_rnn",
    "dspark_specforge",
    "dspark_speculators",
    "dspark_speculators_anchor",
    "dspark_speculators_rnn",
    "dspark_vanilla",
    "eagle1",
    "eagle1_no_bias",
    "eagle3_fc_norm",
    "eagle3_full_vocabulary",
    "eagle3_narrow",
    "eagle3_norm_before_fc",
    "eagle3_norm_before_residual",
    "eagle3_norm_output",
    "eagle3_own_embedding",
    "eagle3_plain",
    "eagle3_qwen3",
    "eagle3_safeailab",
    "eagle3_specforge",
    "eagle3_two_layers",
    "medusa",
    "medusa_two_blocks",
    "medusa_without_matrices",
    "mtp_mimo",
    "mtp_one_layer",
    "mtp_qwen3",
    "mtp_speculators",
    "mtp_three_layers",
    "pard",
    "peagle",
    "peagle_qwen3",
    "tap_draft",
];

/// The target of a case with its head.
pub(super) fn pair_of(case: &str) -> Pair {
    let head = source(case, trained(case));
    let target = target_of(case, &expected(case).target);
    Pair::load(text(&target)).unwrap().with_draft(head).unwrap()
}

/// The settings with which a case was trained, as far as its files do not say.
pub(super) fn trained(case: &str) -> HeadSettings {
    // Its key has another meaning in engines.
    let feedback = (case == "eagle3_specforge").then_some(Feedback::Plain);
    HeadSettings { feedback, ..HeadSettings::default() }
}

pub(super) fn target_of(case: &str, target: &str) -> PathBuf {
    folder(if target == "." { case } else { target })
}

#[test]
fn heads_compute_what_their_references_do() {
    let mut bad = Vec::new();
    for case in CASES {
        let Expected { target, ids, rounds, .. } = expected(case);
        let head = source(case, trained(case));
        let most = largest(&head, &target_of(case, &target), ids.as_deref(), &rounds);
        if most >= CLOSE {
            bad.push((case, most));
        }
    }
    assert!(bad.is_empty(), "{bad:?}");
}

/// Where programs differ, the difference is a setting.
#[test]
fn every_switch_computes_what_its_programs_do() {
    let feedback = |feedback| HeadSettings { feedback: Some(feedback), ..HeadSettings::default() };
    let first_row = |row| HeadSettings { first_row: Some(row), ..HeadSettings::default() };
    let switches = [
        ("feedback_pre", feedback(Feedback::Plain)),
        ("feedback_post", feedback(Feedback::Normed)),
        ("first_row_zero", first_row(FirstRow::ZeroEmbedding)),
        ("extra_first_row", first_row(FirstRow::Extra)),
        // Rotary positions are relative.
        ("positions_plus_one", HeadSettings::default()),
    ];
    for case in ["eagle3_plain", "mtp_one_layer"] {
        let Expected { target, ids, rounds, variants, .. } = expected(case);
        let target = target_of(case, &target);
        for (name, settings) in &switches {
            let head = source(case, settings.clone());
            let most = largest(&head, &target, ids.as_deref(), &variants[*name]);
            assert!(most < CLOSE, "{case}, {name}: {most}");
        }
        let (before, after) = (feedback(Feedback::Plain), feedback(Feedback::Normed));
        let apart = [before, after]
            .map(|settings| largest(&source(case, settings), &target, ids.as_deref(), &rounds));
        // One of them is what the case was trained with.
        assert!(apart.iter().any(|&most| most < CLOSE) && apart.iter().any(|&most| most > 0.01));
    }
}

/// Catches: a list in `eagle_config` that counts like one at the top, or the reverse.
#[test]
fn taps_are_those_of_the_convention_or_of_a_setting() {
    let case = "eagle3_specforge";
    let taps = |taps| HeadSettings { taps, ..trained(case) };
    let written = TapSetting::Written(AsWritten::AsWritten);
    for (setting, after) in [
        (None, [1, 3, 6]),
        (Some(written), [0, 2, 5]),
        (Some(TapSetting::After(vec![4, 5, 7])), [4, 5, 7]),
    ] {
        let pair = Pair::load(text(&folder("llama"))).unwrap();
        let pair = pair.with_draft(source(case, taps(setting))).unwrap();
        let found = pair.draft_model().unwrap().info().inputs.taps().to_vec();
        assert_eq!(found, after.map(Tap::After));
    }
}

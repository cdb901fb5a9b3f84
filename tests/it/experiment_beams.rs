//! Beam search as an axis of experiments: its cells, its rows and its report.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use specdec::checkpoint::load;
use specdec::core::chance::{Request, Seeded};
use specdec::core::clock::RealClock;
use specdec::core::error::Error;
use specdec::measure::rows::{BlockRow, GenerationRow, RoundRow, SummaryRow, TextRow};
use specdec::method::beam::{BeamSearch, BeamSettings, EarlyStopping, NoBeamObserver};
use specdec::method::decode::{MethodSpec, PLAIN, StopRules};
use specdec::model::{Evaluation, LanguageModel, ModelInfo, Role, Session, Work};
use specdec::run::experiment::{Manifest, Plan, Status, describe, read_plan};
use specdec::run::report::{load as load_results, report};

use crate::experiment_support::{baseline_of, planned, rows, run_smoke};
use crate::run_support::{folder, run, succeed};
use crate::synthetic_blocks::{sealed, short};

/// Two widths, with the smoke experiment's drafters and K. Verifiers are read by sampling
/// alone.
const BEAMS: &[&str] =
    &["sweep={strategy=\"beam\", num_beams=[2, 3], drafter=[\"model\", \"prompt_lookup\"], \
     num_speculative_tokens=[2, 4]}"];

fn with(more: &[&'static str]) -> Vec<&'static str> {
    BEAMS.iter().chain(more).copied().collect()
}

fn set<'s>(all: &[&'s str]) -> Vec<&'s str> {
    all.iter().flat_map(|one| ["--set", one]).collect()
}

fn texts(folder: &Path) -> Vec<TextRow> {
    let text = std::fs::read_to_string(folder.join("generations.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn words(plan: &Plan) -> Vec<String> {
    plan.cells.iter().map(describe).collect()
}

/// A run of [`BEAMS`] on the command line.
fn beams(more: &[&'static str]) -> (tempfile::TempDir, std::path::PathBuf) {
    let out = tempfile::tempdir().unwrap();
    succeed(run(out.path(), &set(&with(more))));
    let folder = folder(out.path());
    (out, folder)
}

#[test]
fn every_search_has_a_baseline_and_cells_without_a_verifier() {
    let plan = planned(&[
        "sweep.strategy=[\"sampling\", \"beam\"]",
        "sweep.num_beams=[2, 3]",
        "sweep.temperature=[0, 1]",
        "sweep.drafter=model",
        "sweep.num_speculative_tokens=[1, 2]",
    ]);
    let expected = [
        "none, T = 0",
        "model + rejection, K = 1, T = 0",
        "model + rejection, K = 2, T = 0",
        "model + token_match, K = 1, T = 0",
        "model + token_match, K = 2, T = 0",
        "none, T = 1",
        "model + rejection, K = 1, T = 1",
        "model + rejection, K = 2, T = 1",
        "model + token_match, K = 1, T = 1",
        "model + token_match, K = 2, T = 1",
        "none, 2 beams",
        "model, K = 1, 2 beams",
        "model, K = 2, 2 beams",
        "none, 3 beams",
        "model, K = 1, 3 beams",
        "model, K = 2, 3 beams",
    ];
    let plan = plan.unwrap();
    assert_eq!(words(&plan), expected);
    for cell in &plan.cells {
        assert_eq!(baseline_of(&plan, cell).goal(), cell.goal());
        assert!(cell.beam.is_none() || cell.class == "G", "{}", cell.class);
    }
    let text = toml::to_string(&plan).unwrap();
    assert_eq!(toml::from_str::<Plan>(&text).unwrap(), plan);
}

#[test]
fn settings_have_the_defaults_that_are_documented() {
    let plan = planned(&["sweep={strategy=\"beam\", drafter=\"model\"}"]).unwrap();
    let usual = BeamSettings { num_beams: 4, ..BeamSettings::default() };
    assert!(plan.cells.iter().all(|cell| cell.beam == Some(usual)));
    let plan = planned(&["sweep={strategy=\"beam\", drafter=\"model\", num_beams=4, \
         length_penalty=-0.5, early_stopping=[true, \"never\"], num_beam_groups=2, \
         diversity_penalty=0.5}"])
    .unwrap();
    let of = |early_stopping| BeamSettings {
        length_penalty: -0.5,
        early_stopping,
        num_beam_groups: 2,
        diversity_penalty: 0.5,
        ..usual
    };
    let found = plan.goals().iter().map(|cells| cells[0].beam.unwrap()).collect::<Vec<_>>();
    assert_eq!(found, [of(EarlyStopping::True), of(EarlyStopping::Never)]);
    let last = words(&plan).pop().unwrap();
    assert_eq!(
        last,
        "model, K = 4, 4 beams, length_penalty = -0.5, early_stopping = never, \
         num_beam_groups = 2, diversity_penalty = 0.5"
    );
}

#[test]
fn ids_depend_on_every_setting_of_a_search() {
    let id = |more: &str| {
        let sweep = format!("sweep={{strategy=\"beam\", drafter=\"model\"{more}}}");
        planned(&[&sweep]).unwrap().cells[1].id.clone()
    };
    let groups = "num_beam_groups=2, diversity_penalty=";
    let ids = [
        id(""),
        id(", num_beams=2"),
        id(", length_penalty=0"),
        id(", early_stopping=true"),
        id(&format!(", {groups}0.5")),
        id(&format!(", {groups}0.6")),
        id(", draft_temperature=1"),
        planned(&["sweep={drafter=\"model\", temperature=0}"]).unwrap().cells[1].id.clone(),
    ];
    for (i, one) in ids.iter().enumerate() {
        assert!(!ids[..i].contains(one), "setting {i}");
    }
    // Beams draft greedily, so this is how they draft without it.
    assert_eq!(id(", draft_temperature=0"), ids[0]);
}

#[test]
fn settings_of_another_strategy_are_refused() {
    for (sweep, parts) in [
        ("{drafter=\"model\", num_beams=2}", ["sweep.num_beams", "\"beam\""]),
        ("{strategy=\"beam\", drafter=\"model\", temperature=1}", ["temperature", "\"sampling\""]),
        (
            "{strategy=\"beam\", drafter=\"model\", verifier=\"block\"}",
            ["verifier", "\"sampling\""],
        ),
        ("{strategy=\"beans\", drafter=\"model\"}", ["beans", "\"sampling\" or \"beam\""]),
        ("{strategy=\"beam\", drafter=\"model\", early_stopping=\"soon\"}", ["soon", "\"never\""]),
        ("{strategy=\"beam\", drafter=\"model\", num_beams=0}", ["num_beams", "from 1 to 256"]),
        ("{strategy=\"beam\", drafter=\"model\", num_beam_groups=3}", ["= 3", "divisors"]),
    ] {
        let error = planned(&[&format!("sweep={sweep}")]).expect_err(sweep);
        assert!(parts.iter().all(|part| error.contains(part)), "{sweep}: {error}");
    }
}

#[test]
fn conditions_match_beams_by_their_own_settings() {
    let kept = |condition: &str| {
        let exclude = format!("exclude=[{{drafter=\"model\", {condition}}}]");
        let sweep = "sweep={strategy=[\"sampling\", \"beam\"], num_beams=[2, 3], \
                     temperature=[0, 1], drafter=\"model\", num_speculative_tokens=2}";
        let plan = planned(&[sweep, &exclude]).unwrap();
        words(&plan).into_iter().filter(|words| words.starts_with("model")).collect::<Vec<_>>()
    };
    let [greedy, warm] = ["model + rejection, K = 2, T = 0", "model + rejection, K = 2, T = 1"];
    let [two, three] = ["model, K = 2, 2 beams", "model, K = 2, 3 beams"];
    assert_eq!(kept("strategy=\"beam\""), [greedy, warm]);
    assert_eq!(kept("strategy=\"sampling\""), [two, three]);
    assert_eq!(kept("num_beams=2"), [greedy, warm, three]);
    assert_eq!(kept("temperature=1"), [greedy, two, three]);
    assert_eq!(kept("verifier=\"rejection\""), [two, three]);
}

/// The rows say what a search outside of the experiment finds.
#[test]
fn a_cell_has_the_best_text_of_the_search() {
    let (_out, folder) = beams(&[]);
    let plan = read_plan(&folder).unwrap();
    let target = load("toy:mixed", Role::Target).unwrap();
    let prompts = include_str!("../../configs/prompts/smoke.jsonl").lines();
    let prompts = prompts.map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let prompts = prompts.collect::<Vec<_>>();
    let generations = rows::<GenerationRow>(&folder, "generations.csv");
    assert_eq!(generations.len(), plan.generations());
    // Four prompts of 24 tokens; a baseline, two drafters and two K with 2 beams and with 3.
    assert_eq!(plan.passes(), 4 * 24 * 5 * (2 + 3));
    assert!(rows::<RoundRow>(&folder, "rounds.csv").is_empty());
    let mut saved = 0;
    for (row, text) in generations.iter().zip(texts(&folder)) {
        let cell = plan.cells.iter().find(|cell| cell.id == text.cell).unwrap();
        let prompt = prompts.iter().find(|line| line["id"] == *text.prompt).unwrap();
        let search = BeamSearch {
            target: &*target.model,
            settings: cell.beam.unwrap(),
            prompt: &target.codec.encode(prompt["prompt"].as_str().unwrap()).unwrap(),
            stop: StopRules::max_tokens(plan.max_tokens),
            codec: None,
        };
        let plain = MethodSpec { drafter: PLAIN.to_owned(), ..MethodSpec::default() };
        let method = plain.build(None).unwrap();
        let mut chance = Seeded::new(Request { seed: 1, prompt: "", repeat: 0 });
        let clock = RealClock::default();
        let found = search.run(method, (&mut chance, &clock), &mut NoBeamObserver).unwrap();
        let (best, beam) = (&found.hypotheses[0], text.beam.unwrap());
        assert_eq!(text.tokens, best.tokens);
        assert_eq!((beam.log_prob, beam.score), (best.log_prob, best.score));
        assert_eq!((beam.steps, beam.rows), (found.totals.steps, found.totals.rows));
        assert_eq!(row.first_divergence, None);
        assert!(row.target_forwards == beam.rows || !cell.is_baseline());
        saved += beam.rows - row.target_forwards;
    }
    assert!(saved > 0, "no draft has saved a pass");
    assert_eq!(Manifest::read(&folder).unwrap().status, Status::Finished);
}

#[test]
fn the_report_shows_scores_and_passes() {
    let (_out, folder) = beams(&[]);
    let summary = rows::<SummaryRow>(&folder, "summary.csv");
    let texts = texts(&folder);
    let generations = rows::<GenerationRow>(&folder, "generations.csv");
    for row in &summary {
        let own = texts.iter().filter(|text| text.cell == row.cell).map(|t| t.beam.unwrap());
        let own = own.collect::<Vec<_>>();
        let mean = own.iter().map(|beam| beam.score).sum::<f64>() / own.len() as f64;
        assert_eq!(row.score, Some(mean));
        let needed = own.iter().map(|beam| beam.rows).sum::<usize>() as f64;
        let passes = generations.iter().filter(|g| g.cell == row.cell);
        let passes = passes.map(|g| g.target_forwards).sum::<usize>() as f64;
        assert_eq!(row.passes_per_token, Some(passes / row.tokens as f64));
        // The ratio of two sums, each taken once.
        assert!((row.passes_per_row.unwrap() - passes / needed).abs() < 1e-15);
        assert_eq!((row.strategy.as_str(), row.rounds, row.alpha), ("beam", 0, None));
        assert!(row.status == "finished" && row.speedup.is_some() == (row.drafter != "none"));
    }
    let text = std::fs::read_to_string(folder.join("report.md")).unwrap();
    assert!(text.contains("## Beam search") && !text.contains("NaN"), "{text}");
    assert!(text.contains("| none | 2 beams | G greedy-exact | – |"), "{text}");
    assert!(text.contains("## Beams against the search without drafts"), "{text}");
    assert!(!text.contains("biased") && !text.contains("other tools"), "{text}");
    assert!(!text.contains("| plain decoding |"), "{text}");
}

/// The two kinds of cells of one run, side by side.
#[test]
fn sampling_and_beams_share_a_report() {
    let more = ["sweep.strategy=[\"sampling\", \"beam\"]", "sweep.temperature=[0, 1]"];
    let (_out, folder) = beams(&more);
    let results = load_results(&folder).unwrap();
    assert!(results.notes.is_empty(), "{:?}", results.notes);
    let text = std::fs::read_to_string(folder.join("report.md")).unwrap();
    for part in ["T = 0", "T = 1", "2 beams", "3 beams"] {
        assert!(text.contains(&format!("| {part} |")), "{part}: {text}");
    }
}

/// Changes the first text's row as `edit` does, and all digests with it.
fn forged(folder: &Path, edit: impl Fn(&mut TextRow)) {
    let mut all = texts(folder);
    edit(&mut all[0]);
    let line = |row: &TextRow| serde_json::to_string(row).unwrap() + "\n";
    std::fs::write(folder.join("generations.jsonl"), all.iter().map(line).collect::<String>())
        .unwrap();
    let mut blocks = rows::<BlockRow>(folder, "blocks.csv");
    let plan = read_plan(folder).unwrap();
    let group = plan.goals().iter().position(|c| c.iter().any(|c| c.id == all[0].cell)).unwrap();
    let own = |row: &&TextRow| {
        let cell = plan.goals()[group].iter().any(|cell| cell.id == row.cell);
        cell && (&row.prompt, row.repeat) == (&all[0].prompt, all[0].repeat)
    };
    let digest = short(all.iter().filter(own).map(line).collect::<String>().as_bytes());
    let mut digests = blocks[0].digests.split('-').map(str::to_owned).collect::<Vec<_>>();
    digests[2] = digest;
    blocks[0] = sealed(BlockRow { digests: digests.join("-"), ..blocks[0].clone() });
    let mut writer = csv::Writer::from_path(folder.join("blocks.csv")).unwrap();
    blocks.iter().for_each(|block| writer.serialize(block).unwrap());
    writer.flush().unwrap();
}

#[test]
fn rows_that_contradict_each_other_are_left_out() {
    type Edit = fn(&mut TextRow);
    let edits: [(Edit, &str); 4] = [
        (|row| row.beam = None, "it has no score of its beam search"),
        (|row| row.beam.as_mut().unwrap().score *= 1.01, "its score does not follow from log_prob"),
        (|row| row.beam.as_mut().unwrap().rows = 1, "it made more passes than it needed rows"),
        (|row| row.beam.as_mut().unwrap().steps = 1, "its completion has more tokens than steps"),
    ];
    let (_out, folder) = beams(&[]);
    let whole = texts(&folder);
    for (edit, sentence) in edits {
        forged(&folder, edit);
        let notes = load_results(&folder).unwrap().notes;
        assert!(notes.len() == 1 && notes[0].contains(sentence), "{sentence}: {notes:?}");
        forged(&folder, |row| *row = whole[0].clone());
        assert!(load_results(&folder).unwrap().notes.is_empty());
    }
}

/// Gives other logits in passes of more than one row, and sets a flag after some passes.
#[derive(Debug)]
struct Unsteady {
    inner: Box<dyn LanguageModel>,
    passes: AtomicUsize,
    until: usize,
    flag: AtomicBool,
    /// What is added to the logit of token 0 in passes of several rows.
    shift: f64,
}

impl Unsteady {
    fn new(until: usize, shift: f64) -> Self {
        let inner = load("toy:mixed", Role::Target).unwrap().model;
        Self { inner, passes: AtomicUsize::new(0), until, flag: AtomicBool::new(false), shift }
    }
}

impl LanguageModel for Unsteady {
    fn info(&self) -> &ModelInfo {
        self.inner.info()
    }

    fn session(&self) -> Result<Session, Error> {
        self.inner.session()
    }

    fn evaluate(&self, work: &mut [Work<'_>]) -> Result<Vec<Evaluation>, Error> {
        if self.passes.fetch_add(1, Ordering::Relaxed) >= self.until {
            self.flag.store(true, Ordering::Relaxed);
        }
        let mut found = self.inner.evaluate(work)?;
        for row in found.iter_mut().filter(|f| f.rows.len() > 1).flat_map(|f| &mut f.rows) {
            if let specdec::core::sampling::Logits::F64(logits) = row {
                logits[0] += self.shift;
            }
        }
        Ok(found)
    }
}

#[test]
fn a_draft_that_changes_a_text_is_found() {
    let out = tempfile::tempdir().unwrap();
    let target = Unsteady::new(usize::MAX, 3.0);
    let folder = run_smoke(&target, &["abcd", "dab"], BEAMS, &AtomicBool::new(false), out.path());
    report(&folder).unwrap();
    let text = std::fs::read_to_string(folder.join("report.md")).unwrap();
    assert!(text.contains("the method or the engine is wrong"), "{text}");
    let generations = rows::<GenerationRow>(&folder, "generations.csv");
    assert!(generations.iter().any(|row| row.first_divergence.is_some()));
}

#[test]
fn an_interrupt_ends_a_search_within_a_step() {
    let out = tempfile::tempdir().unwrap();
    let target = Unsteady::new(600, 0.0);
    let more = ["max_tokens=1000", "warmup=0"];
    let set = with(&more);
    let folder = run_smoke(&target, &["abcd"], &set, &target.flag, out.path());
    assert!(target.passes.load(Ordering::Relaxed) < 620);
    assert!(rows::<GenerationRow>(&folder, "generations.csv").is_empty());
    assert_eq!(Manifest::read(&folder).unwrap().status, Status::Interrupted);
}

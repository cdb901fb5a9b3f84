//! Runs experiments on a model that the test provides.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use serde::de::DeserializeOwned;
use specdec::checkpoint::load;
use specdec::core::clock::Clock;
use specdec::io::input::read_text;
use specdec::method::draft::Texts;
use specdec::model::{LanguageModel, Letters, Role};
use specdec::run::experiment::{
    Cell, Ended, Experiment, Frozen, Material, PACK_ABOVE, Plan, Resume, Setup, freeze, run,
};
use specdec::run::prompt::Question;

/// The plain decoding with the goal of a cell.
pub(crate) fn baseline_of<'a>(plan: &'a Plan, cell: &Cell) -> &'a Cell {
    plan.cells.iter().find(|own| own.is_baseline() && own.goal() == cell.goal()).unwrap()
}

/// Runs the smoke experiment, changed by `set`, with this target over four letters and one
/// prompt per text, whose id is the text; returns the results folder.
pub(crate) fn run_smoke(
    target: &dyn LanguageModel,
    texts: &[&str],
    set: &[&str],
    interrupted: &AtomicBool,
    out: &Path,
) -> PathBuf {
    run_smoke_on(None, target, texts, set, interrupted, out)
}

/// The same on a clock that the test provides.
pub(crate) fn run_smoke_on(
    clock: Option<&dyn Clock>,
    target: &dyn LanguageModel,
    texts: &[&str],
    set: &[&str],
    interrupted: &AtomicBool,
    out: &Path,
) -> PathBuf {
    try_run_smoke(clock, target, texts, set, interrupted, out).unwrap().folder
}

/// The same, but returns errors.
pub(crate) fn try_run_smoke(
    clock: Option<&dyn Clock>,
    target: &dyn LanguageModel,
    texts: &[&str],
    set: &[&str],
    interrupted: &AtomicBool,
    out: &Path,
) -> anyhow::Result<Ended> {
    let set = [&["clock=virtual"], set].concat();
    with_smoke(clock, target, texts, &set, interrupted, |setup| run(setup, out, &Resume::No))
}

/// Calls `act` with the smoke experiment, changed by `set`, ready to be run.
pub(crate) fn with_smoke<T>(
    clock: Option<&dyn Clock>,
    target: &dyn LanguageModel,
    texts: &[&str],
    set: &[&str],
    interrupted: &AtomicBool,
    act: impl FnOnce(&Setup<'_>) -> T,
) -> T {
    let smoke = concat!(env!("CARGO_MANIFEST_DIR"), "/experiments/00-smoke");
    let set = set.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
    let experiment = Experiment::read(smoke.as_ref(), &set).unwrap();
    let draft = load("toy:mixed", Role::Draft).unwrap().model;
    let prompts = texts.iter().map(|text| Question::once(*text, "c", *text)).collect::<Vec<_>>();
    let codec = Letters { vocab: 4 };
    let texts = Texts::new(&codec, read_text);
    let material = Material {
        name: "test",
        target: target.info(),
        draft: Some(draft.info()),
        training: None,
        codec: &codec,
        prompts: &prompts,
        answers: None,
        texts: &texts,
    };
    let Frozen { plan, prompts, tokens } = freeze(&experiment.spec, &material).unwrap();
    let own = plan.clock();
    act(&Setup {
        plan: &plan,
        target,
        draft: Some(&*draft),
        codec: &codec,
        texts: &texts,
        threads: 1,
        prompts: &prompts,
        tokens: &tokens,
        clock: clock.unwrap_or(&*own),
        pack_above: PACK_ABOVE,
        interrupted,
    })
}

/// The plan of the smoke experiment, changed by `set`.
pub(crate) fn planned(set: &[&str]) -> Result<Plan, String> {
    let smoke = concat!(env!("CARGO_MANIFEST_DIR"), "/experiments/00-smoke");
    let set = set.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
    let sentence = |error: anyhow::Error| {
        let text = format!("{error:#}");
        text.strip_prefix(&format!("{smoke}/experiment.toml: ")).unwrap_or(&text).to_owned()
    };
    let experiment = Experiment::read(smoke.as_ref(), &set).map_err(sentence)?;
    let (target, draft) = (load("toy:mixed", Role::Target), load("toy:mixed", Role::Draft));
    let (target, draft) = (target.unwrap(), draft.unwrap());
    let material = Material {
        name: "test",
        target: target.model.info(),
        draft: Some(draft.model.info()),
        training: None,
        codec: &*target.codec,
        prompts: &[Question::once("a", "c", "ab")],
        answers: None,
        texts: &Texts::new(&*target.codec, read_text),
    };
    Ok(freeze(&experiment.spec, &material).map_err(sentence)?.plan)
}

/// The rows of a file; none if it does not exist.
pub(crate) fn rows<T: DeserializeOwned>(folder: &Path, name: &str) -> Vec<T> {
    let file = folder.join(name);
    if !file.exists() {
        return Vec::new();
    }
    let mut reader = csv::Reader::from_path(file).unwrap();
    reader.deserialize().collect::<Result<_, _>>().unwrap()
}

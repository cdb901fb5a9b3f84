//! A generation that fails is recorded with its reason, is not timed, and does
//! not end the sweep.

use std::sync::atomic::AtomicBool;

use specdec::draft::Texts;
use specdec::experiment::prompts::Prompt;
use specdec::experiment::records::{FailureRow, GenerationRow};
use specdec::experiment::{Bench, Experiment, Material, Resume, freeze, run};
use specdec::model::{
    Evaluation, LanguageModel, Letters, ModelError, ModelInfo, Role, Session, Work, load,
};
use specdec::sampling::Logits;

/// Returns NaN after a context that begins with token 3.
#[derive(Debug)]
struct Moody(Box<dyn LanguageModel>);

impl LanguageModel for Moody {
    fn info(&self) -> &ModelInfo {
        self.0.info()
    }

    fn session(&self) -> Result<Session, ModelError> {
        self.0.session()
    }

    fn evaluate(&self, work: &mut [Work<'_>]) -> Result<Vec<Evaluation>, ModelError> {
        let moody = work.iter().any(|w| w.context[0] == 3);
        let mut results = self.0.evaluate(work)?;
        for row in results.iter_mut().flat_map(|r| &mut r.rows).filter(|_| moody) {
            *row = Logits::F64(vec![f64::NAN; row.len()]);
        }
        Ok(results)
    }
}

#[test]
fn failures_are_rows_and_the_rest_goes_on() {
    let out = tempfile::tempdir().unwrap();
    let smoke = concat!(env!("CARGO_MANIFEST_DIR"), "/experiments/00-smoke");
    let set = ["clock=virtual".to_owned(), "sweep.temperature=1".to_owned()];
    let experiment = Experiment::read(smoke.as_ref(), &set).unwrap();
    let target = Moody(load("toy:mixed", Role::Target).unwrap().model);
    let draft = load("toy:mixed", Role::Draft).unwrap().model;
    let prompt = |id: &str, text: &str| Prompt {
        id: id.to_owned(),
        category: "c".to_owned(),
        text: text.to_owned(),
    };
    let prompts = [prompt("good", "abc"), prompt("bad", "dab")];
    let material = Material {
        name: "moody",
        target: target.info(),
        draft: Some(draft.info()),
        prompts: &prompts,
        threads: 1,
    };
    let plan = freeze(&experiment.spec, &material).unwrap();
    let bench = Bench {
        plan: &plan,
        target: &target,
        draft: Some(&*draft),
        codec: &Letters { vocab: 4 },
        texts: Texts::new(&Letters { vocab: 4 }),
        prompts: &prompts,
        interrupted: &AtomicBool::new(false),
    };
    let ended = run(&bench, out.path(), &Resume::No).unwrap();
    assert!(!ended.interrupted);
    let failures = csv::Reader::from_path(ended.folder.join("failures.csv"))
        .unwrap()
        .deserialize()
        .collect::<Result<Vec<FailureRow>, _>>()
        .unwrap();
    let generations = csv::Reader::from_path(ended.folder.join("generations.csv"))
        .unwrap()
        .deserialize()
        .collect::<Result<Vec<GenerationRow>, _>>()
        .unwrap();
    assert_eq!(failures.len(), plan.cells.len());
    assert_eq!(generations.len(), plan.cells.len());
    assert!(failures.iter().all(|f| f.prompt == "bad" && f.reason.contains("NaN")));
    assert!(generations.iter().all(|g| g.prompt == "good"));
}

//! A failed generation is recorded with its reason and does not end the sweep.

use std::sync::atomic::AtomicBool;

use specdec::checkpoint::load;
use specdec::core::error::Error;
use specdec::core::sampling::Logits;
use specdec::measure::rows::{FailureRow, GenerationRow};
use specdec::model::{Evaluation, LanguageModel, ModelInfo, Role, Session, Work};
use specdec::run::experiment::read_plan;
use specdec::run::report::report;

use crate::experiment_support::{rows, run_smoke};

/// Returns NaN after a context that begins with token 3.
#[derive(Debug)]
struct Moody(Box<dyn LanguageModel>);

impl LanguageModel for Moody {
    fn info(&self) -> &ModelInfo {
        self.0.info()
    }

    fn session(&self) -> Result<Session, Error> {
        self.0.session()
    }

    fn evaluate(&self, work: &mut [Work<'_>]) -> Result<Vec<Evaluation>, Error> {
        let moody = work.iter().any(|w| w.context[0] == 3);
        let mut results = self.0.evaluate(work)?;
        for row in results.iter_mut().flat_map(|r| &mut r.rows).filter(|_| moody) {
            *row = Logits::F64(vec![f64::NAN; row.len()]);
        }
        Ok(results)
    }
}

fn moody() -> Moody {
    Moody(load("toy:mixed", Role::Target).unwrap().model)
}

#[test]
fn failed_generations_are_recorded_and_the_sweep_continues() {
    let out = tempfile::tempdir().unwrap();
    let go_on = AtomicBool::new(false);
    let folder = run_smoke(&moody(), &["abc", "dab"], &["sweep.temperature=1"], &go_on, out.path());
    let cells = read_plan(&folder).unwrap().cells.len();
    let failures = rows::<FailureRow>(&folder, "failures.csv");
    let generations = rows::<GenerationRow>(&folder, "generations.csv");
    assert_eq!((failures.len(), generations.len()), (cells, cells));
    assert!(failures.iter().all(|f| f.prompt == "dab" && f.reason.contains("NaN")));
    assert!(generations.iter().all(|g| g.prompt == "abc"));
}

#[test]
fn a_run_in_which_everything_fails_has_a_report() {
    let out = tempfile::tempdir().unwrap();
    let go_on = AtomicBool::new(false);
    let folder = run_smoke(&moody(), &["dab", "dba"], &[], &go_on, out.path());
    assert!(rows::<GenerationRow>(&folder, "generations.csv").is_empty());
    report(&folder).unwrap();
    let text = std::fs::read_to_string(folder.join("report.md")).unwrap();
    assert!(text.contains("is failed: ") && text.contains("NaN"), "{text}");
    assert!(text.contains("has no finished generation"), "{text}");
}

//! Texts that must be plain decoding's: what is found, and what excuses it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use specdec::model::{Evaluation, LanguageModel, ModelError, ModelInfo, Role, Session, Work, load};
use specdec::report::report;
use specdec::rows::{DivergenceRow, FailureRow, GenerationRow};
use specdec::sampling::Logits;

use crate::experiment_support::{rows, run_smoke};

/// Prefers token 0, but token `other` in passes over a draft; token 1 is nearly
/// as good as the best everywhere.
#[derive(Debug)]
struct Wavering {
    model: Box<dyn LanguageModel>,
    info: ModelInfo,
    other: usize,
    /// The logit of token 2.
    third: f32,
}

impl Wavering {
    fn new(row_invariant: bool, other: usize) -> Self {
        let model = load("toy:mixed", Role::Target).unwrap().model;
        let info = ModelInfo { row_invariant, ..model.info().clone() };
        Self { model, info, other, third: 1.0 }
    }

    /// The differences of greedy texts under this verifier.
    fn differences(&self, verifier: &str) -> Vec<DivergenceRow> {
        self.differences_with(verifier, &[])
    }

    fn differences_with(&self, verifier: &str, more: &[&str]) -> Vec<DivergenceRow> {
        let out = tempfile::tempdir().unwrap();
        let verifier = format!("sweep.verifier={verifier}");
        let set = ["sweep.temperature=0", "sweep.drafter=model", &verifier];
        let set = [&set[..], more].concat();
        let folder = run_smoke(self, &["c"], &set, &AtomicBool::new(false), out.path());
        rows(&folder, "divergences.csv")
    }
}

impl LanguageModel for Wavering {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn session(&self) -> Result<Session, ModelError> {
        self.model.session()
    }

    fn evaluate(&self, work: &mut [Work<'_>]) -> Result<Vec<Evaluation>, ModelError> {
        let mut logits = vec![8.0_f32, 8.0 - 1e-5, self.third, 0.0];
        if work.iter().any(|w| !w.draft.is_empty()) {
            logits[self.other] = 8.0 + 1e-5;
        }
        let mut results = self.model.evaluate(work)?;
        let rows = results.iter_mut().flat_map(|r| &mut r.rows);
        rows.for_each(|row| *row = Logits::F32(logits.clone()));
        Ok(results)
    }
}

#[test]
fn a_tie_excuses_only_an_engine_whose_rounding_may_depend_on_the_rows() {
    let found = Wavering::new(false, 1).differences("rejection");
    assert!(!found.is_empty() && found.iter().all(|d| d.tie && d.top2_gap <= d.bound));
    let found = Wavering::new(true, 1).differences("rejection");
    assert!(!found.is_empty() && found.iter().all(|d| !d.tie && d.top2_gap <= d.bound));
    // Approximate rules are greedy at temperature 0, too.
    let found = Wavering::new(false, 1).differences("typical");
    assert!(!found.is_empty() && found.iter().all(|d| d.tie), "{found:?}");
}

#[test]
fn a_tie_is_one_of_the_scores_that_greedy_decoding_compares() {
    // Alone token 2 of the prompt, the "c", has a far larger logit than the two that
    // differ; the penalty takes it out of the way.
    let model = Wavering { third: 12.0, ..Wavering::new(false, 1) };
    let found = model.differences_with("rejection", &["sweep.repetition_penalty=2.0"]);
    assert!(!found.is_empty() && found.iter().all(|d| d.tie), "{found:?}");
}

#[test]
fn a_tie_is_between_the_two_tokens_that_differ() {
    let found = Wavering::new(false, 2).differences("rejection");
    assert!(!found.is_empty() && found.iter().all(|d| d.token == Some(2) && !d.tie), "{found:?}");
}

#[test]
fn a_text_has_one_row() {
    // Class P has a comparison of its own, at temperature 0 too; P~ is excused by
    // that and is left to the greedy one.
    for row_invariant in [true, false] {
        let found = Wavering::new(row_invariant, 1).differences("gumbel");
        let cells = found.iter().map(|d| d.cell.as_str()).collect::<BTreeSet<_>>();
        assert!(!found.is_empty() && cells.len() == found.len(), "{found:?}");
        assert!(
            found.iter().all(|d| d.top2_gap.is_none() == row_invariant && d.tie != row_invariant)
        );
    }
}

/// Interrupts the run at one of its passes, and has only so many sequences.
#[derive(Debug)]
struct Limited<'a> {
    model: Box<dyn LanguageModel>,
    passes: AtomicUsize,
    last_pass: usize,
    sessions: AtomicUsize,
    last_session: usize,
    interrupted: &'a AtomicBool,
}

impl<'a> Limited<'a> {
    fn new(interrupted: &'a AtomicBool, last_pass: usize, last_session: usize) -> Self {
        let model = load("toy:mixed", Role::Target).unwrap().model;
        let (passes, sessions) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { model, passes, last_pass, sessions, last_session, interrupted }
    }
}

impl LanguageModel for Limited<'_> {
    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    fn session(&self) -> Result<Session, ModelError> {
        if self.sessions.fetch_add(1, Ordering::Relaxed) >= self.last_session {
            return Err(ModelError::new("no room for another sequence"));
        }
        self.model.session()
    }

    fn evaluate(&self, work: &mut [Work<'_>]) -> Result<Vec<Evaluation>, ModelError> {
        if self.passes.fetch_add(1, Ordering::Relaxed) == self.last_pass {
            self.interrupted.store(true, Ordering::Relaxed);
        }
        self.model.evaluate(work)
    }
}

const COUPLED: [&str; 5] = [
    "warmup=0",
    "sweep.temperature=1",
    "sweep.drafter=model",
    "sweep.verifier=[\"gumbel\", \"token_match\"]",
    "sweep.num_speculative_tokens=2",
];

#[test]
fn an_interrupt_ends_the_round_in_work_and_makes_no_differences() {
    let run = |last_pass: usize| {
        let (interrupted, out) = (AtomicBool::new(false), tempfile::tempdir().unwrap());
        let target = Limited::new(&interrupted, last_pass, usize::MAX);
        let folder = run_smoke(&target, &["abc"], &COUPLED, &interrupted, out.path());
        let differences = rows::<DivergenceRow>(&folder, "divergences.csv");
        assert!(differences.is_empty(), "interrupted at pass {last_pass}: {differences:?}");
        let generations = rows::<GenerationRow>(&folder, "generations.csv");
        assert!(generations.iter().all(|g| g.first_divergence.is_none()));
        target.passes.into_inner()
    };
    let all = run(usize::MAX);
    for last in (0..all).rev().step_by(3).take(20) {
        // The pass itself and, after a prefill, one of the round.
        assert!(run(last) <= last + 2, "interrupted at pass {last} of {all}");
    }
}

#[test]
fn a_text_that_was_not_compared_has_not_passed() {
    let (go_on, out) = (AtomicBool::new(false), tempfile::tempdir().unwrap());
    // The calibration, the baseline and two cells; none for plain decoding with
    // the verifier of the one that is of class P.
    let target = Limited::new(&go_on, usize::MAX, 4);
    let folder = run_smoke(&target, &["abc"], &COUPLED, &go_on, out.path());
    assert_eq!(rows::<GenerationRow>(&folder, "generations.csv").len(), 3);
    let failures = rows::<FailureRow>(&folder, "failures.csv");
    assert_eq!(failures.len(), 1);
    let reason = "plain decoding to compare with: no room for another sequence";
    assert_eq!(failures[0].reason, reason);
    report(&folder).unwrap();
    let text = std::fs::read_to_string(folder.join("report.md")).unwrap();
    assert_eq!(text.matches("| 0 of 0 |").count(), 1, "{text}");
}

//! Texts that must equal those of plain decoding: which differences are found, and which
//! are excused as ties.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use specdec::checkpoint::load;
use specdec::core::error::Error;
use specdec::core::sampling::Logits;
use specdec::measure::rows::{DivergenceRow, FailureRow, GenerationRow};
use specdec::model::{Evaluation, LanguageModel, ModelInfo, Role, Session, Work};
use specdec::run::report::report;

use crate::experiment_support::{rows, run_smoke};

/// Prefers token 0, but token `other` in passes with a draft; token 1 is always within
/// rounding of the best.
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

    /// The rows of greedy texts that differ from plain decoding under this verifier.
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

    fn session(&self) -> Result<Session, Error> {
        self.model.session()
    }

    fn evaluate(&self, work: &mut [Work<'_>]) -> Result<Vec<Evaluation>, Error> {
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

/// Catches: a tie excuses every engine, or no approximate rule; one bound for logits of any size.
#[test]
fn a_tie_excuses_only_engines_that_are_not_row_invariant() {
    let found = Wavering::new(false, 1).differences("rejection");
    assert!(!found.is_empty() && found.iter().all(|d| d.tie && d.top2_gap <= d.bound));
    let found = Wavering::new(true, 1).differences("rejection");
    assert!(!found.is_empty() && found.iter().all(|d| !d.tie && d.top2_gap <= d.bound));
    // Approximate rules are greedy at temperature 0 as well.
    let found = Wavering::new(false, 1).differences("typical");
    assert!(!found.is_empty() && found.iter().all(|d| d.tie), "{found:?}");
}

#[test]
fn a_tie_is_judged_on_the_penalised_logits() {
    // Without the penalty, token 2 (the "c" of the prompt) has a far larger logit than the
    // two tokens that differ; the penalty moves it below them.
    let model = Wavering { third: 12.0, ..Wavering::new(false, 1) };
    let found = model.differences_with("rejection", &["sweep.repetition_penalty=2.0"]);
    assert!(!found.is_empty() && found.iter().all(|d| d.tie), "{found:?}");
}

/// Catches: a small gap is a tie of any two tokens.
#[test]
fn a_tie_must_be_between_the_two_tokens_that_differ() {
    let found = Wavering::new(false, 2).differences("rejection");
    assert!(!found.is_empty() && found.iter().all(|d| d.token == Some(2) && !d.tie), "{found:?}");
}

/// Catches: class P~ has rows of the comparison by path, or class P of the greedy one.
#[test]
fn each_differing_text_has_one_row() {
    // Class P is compared with plain decoding of its own verifier, also at temperature 0;
    // class P~ is exempt from that and gets only the greedy comparison.
    for row_invariant in [true, false] {
        let found = Wavering::new(row_invariant, 1).differences("gumbel");
        let cells = found.iter().map(|d| d.cell.as_str()).collect::<BTreeSet<_>>();
        assert!(!found.is_empty() && cells.len() == found.len(), "{found:?}");
        assert!(
            found.iter().all(|d| d.top2_gap.is_none() == row_invariant && d.tie != row_invariant)
        );
    }
}

/// Interrupts the run at one of its passes, and allows a limited number of sessions.
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

    fn session(&self) -> Result<Session, Error> {
        if self.sessions.fetch_add(1, Ordering::Relaxed) >= self.last_session {
            return Err(Error::engine("no room for another sequence"));
        }
        self.model.session()
    }

    fn evaluate(&self, work: &mut [Work<'_>]) -> Result<Vec<Evaluation>, Error> {
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
fn an_interrupt_ends_the_round_and_reports_no_divergence() {
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
        // The pass itself and, if it was a prefill, one more of the round.
        assert!(run(last) <= last + 2, "interrupted at pass {last} of {all}");
    }
}

/// Catches: a comparison that failed leaves no failure.
#[test]
fn a_text_that_was_not_compared_does_not_count_as_passed() {
    let (go_on, out) = (AtomicBool::new(false), tempfile::tempdir().unwrap());
    // Enough sessions for the calibration and for the prefill that the baseline and two
    // cells share, but not for plain decoding with the verifier of the class P cell.
    let target = Limited::new(&go_on, usize::MAX, 2);
    let folder = run_smoke(&target, &["abc"], &COUPLED, &go_on, out.path());
    assert_eq!(rows::<GenerationRow>(&folder, "generations.csv").len(), 3);
    let failures = rows::<FailureRow>(&folder, "failures.csv");
    assert_eq!(failures.len(), 1);
    let reason = "plain decoding for the comparison failed: no room for another sequence";
    assert_eq!(failures[0].reason, reason);
    report(&folder).unwrap();
    let text = std::fs::read_to_string(folder.join("report.md")).unwrap();
    assert_eq!(text.matches("| 0 of 0 |").count(), 1, "{text}");
}

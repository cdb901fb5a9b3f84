//! Certification: enumerates every cell, samples and audits every method, and refutes every mutant.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread::Builder;

use super::cells::{ExactnessCell, cells};
use super::certificate::{Certificate, CertificateCell};
use super::forms::{ClosedForm, closed_forms, on_paper};
use super::judge::{Finding, sample_cell, walk_cell};
use super::kind::{CellKind, Kinds};
use super::methods::Combination;
use super::pair_fit::{PairSample, pair_cells};
use super::place::Place;
#[cfg(feature = "engine")]
use super::real::real_cells;
use super::refute::{MutantReport, refute};
use super::settings::SETTINGS;
use crate::bugs::{Bug, Mutant, controls, mutants};
use crate::core::error::Error;
use crate::core::registry::UnknownName;
use crate::method::decode::CertificateVerdict;
use crate::method::decode::class_of;
use crate::model::zoo::TOYS;

/// Generations per goodness-of-fit test. In the full form, whose cross product has thousands of
/// tests, one of each method has more.
const RUNS: u32 = 10_000;
const FULL_RUNS: u32 = 50_000;

/// What to certify.
#[derive(Debug, Clone, Default)]
pub struct CertifyOptions<'a> {
    /// Only methods with these parts, as in `rejection` or `token_match+model`;
    /// empty for all.
    pub methods: Vec<String>,
    /// Whether to run the complete cross product instead of pairs of factors.
    pub full: bool,
    /// A pair for goodness of fit, in addition to small models with random weights.
    pub pair: Option<PairSample<'a>>,
}

/// The progress of a certification.
#[derive(Debug, Clone, Copy)]
pub struct CertifyProgress {
    /// Number of finished parts.
    pub done: usize,
    /// Number of all parts.
    pub total: usize,
}

/// Runs the certification on all cores, then the fits on the pair, whose models may use all cores
/// themselves. Calls `progress` on this thread.
///
/// # Errors
/// If a named method does not exist.
pub fn certify(
    options: &CertifyOptions<'_>,
    progress: &mut dyn FnMut(CertifyProgress),
) -> Result<Certificate, UnknownName> {
    let methods = Combination::matching(&options.methods)?;
    let runs = if options.full { FULL_RUNS } else { RUNS };
    // The slowest parts come first, so that the threads finish at about the same time.
    let mut parts = Vec::new();
    #[cfg(feature = "engine")]
    for cell in real_cells(&methods, options.full) {
        parts.push(part(move || cell.run(), |certificate| &mut certificate.fits));
    }
    for cell in cells(&methods, options.full) {
        let run = move || finish(&cell, walk_cell(&cell, RUNS));
        parts.push(part(run, |certificate| &mut certificate.cells));
    }
    // The generator does not depend on the length policy: one policy is enough.
    for &method in methods.iter().filter(|method| method.is_first_of_lengths(&methods)) {
        // The first toy has the largest vocabulary and both models overlap; sampling at
        // temperature 1 uses the whole of it.
        let cell = ExactnessCell::new(method, &SETTINGS[0], Place::Named(&TOYS[0]), 2);
        let run = move || finish(&cell, sample_cell(&cell, runs));
        parts.push(part(run, |certificate| &mut certificate.cells));
    }
    for (bug, mutant) in mutants() {
        // A mutant that cannot run is not refuted: it counts as surviving.
        let run = move || report(bug, mutant, &[]);
        parts.push(part(run, |certificate| &mut certificate.mutants));
    }
    for (control, method) in controls() {
        let run = move || report(control, method, &["an error"]);
        parts.push(part(run, |certificate| &mut certificate.controls));
    }
    let pair_cells = match &options.pair {
        Some(_) => pair_cells(&methods, !options.methods.is_empty()),
        None => Vec::new(),
    };
    let prompts = options.pair.as_ref().map_or(0, |pair| pair.prompts.len());
    let total = parts.len() + pair_cells.len() * prompts;
    let mut results = run_all(&parts, &mut |done| progress(CertifyProgress { done, total }));
    let forms = closed_forms().unwrap_or_else(|error| {
        // A form that cannot be enumerated does not hold.
        vec![ClosedForm { name: error.to_string(), expected: 0.0, found: f64::NAN }]
    });
    let mut certificate = Certificate { full: options.full, forms, ..Certificate::default() };
    results.sort_by_key(|(i, _)| *i);
    for (_, enter) in results {
        enter(&mut certificate);
    }
    certificate.forms.extend(on_paper(&certificate.mutants));
    let mut done = parts.len();
    for (cell, pair) in pair_cells.iter().zip(options.pair.iter().cycle()) {
        certificate.pairs.push(cell.run(pair, &mut || {
            done += 1;
            progress(CertifyProgress { done, total });
        }));
    }
    Ok(certificate)
}

/// A part of a certification, which yields how its result enters the certificate.
type CertifyPart = Box<dyn Fn() -> Enter + Send + Sync>;

/// Adds a result to the certificate.
type Enter = Box<dyn FnOnce(&mut Certificate) + Send>;

/// The part that adds the result of `run` to a list of the certificate.
fn part<T: Send + 'static>(
    run: impl Fn() -> T + Send + Sync + 'static,
    list: fn(&mut Certificate) -> &mut Vec<T>,
) -> CertifyPart {
    Box::new(move || {
        let result = run();
        Box::new(move |certificate| list(certificate).push(result))
    })
}

/// Runs all parts. Calls `finished` with the number of finished parts.
fn run_all(parts: &[CertifyPart], finished: &mut dyn FnMut(usize)) -> Vec<(usize, Enter)> {
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let (send, receive) = mpsc::channel();
    let work = |send: mpsc::Sender<_>| {
        while let Some((i, part)) = Some(next.fetch_add(1, Ordering::Relaxed))
            .and_then(|i| parts.get(i).map(|part| (i, part)))
        {
            // The receiver lives until all senders are gone.
            let _ = send.send((i, part()));
        }
    };
    let work = &work;
    std::thread::scope(|scope| {
        let start = |_: &usize| {
            let send = send.clone();
            Builder::new().spawn_scoped(scope, move || work(send)).is_ok()
        };
        // If the system refuses a thread, the others do its work; without any, this one does.
        if (0..workers).filter(start).count() > 0 {
            drop(send);
        } else {
            work(send);
        }
        let mut done = Vec::with_capacity(parts.len());
        for result in receive {
            done.push(result);
            finished(done.len());
        }
        done
    })
}

/// The checks that refute a mutant; `otherwise` if it cannot run.
fn report(bug: &Bug, mutant: &Mutant, otherwise: &[&'static str]) -> MutantReport {
    refute(bug, mutant).unwrap_or_else(|_| MutantReport {
        name: bug.name,
        imitates: bug.summary,
        killed_by: otherwise.to_vec(),
        tv_first_token: f64::NAN,
        tv_joint: f64::NAN,
        on_paper: None,
    })
}

fn finish(cell: &ExactnessCell, finding: Result<Finding, Error>) -> CertificateCell {
    let finding = finding.unwrap_or_else(|error| {
        let verdict = Err(error.to_string());
        let kinds = Kinds::default();
        Finding { paths: 0, max_tv: None, min_detectable_tv: 1.0, stopped: false, kinds, verdict }
    });
    let method = &cell.method;
    CertificateCell {
        method: method.name(),
        verifier: method.verifier.entry.name,
        verifier_settings: method.verifier.settings(),
        drafter: method.proposer.entry.name,
        settings: method.proposer.settings(),
        length: method.length.entry.name,
        length_settings: method.length.settings(),
        // The toys' logits do not depend on the rows of a pass.
        class: class_of(&cell.spec(), true).unwrap_or_default(),
        toy: cell.place.name(),
        prompt: cell.prompt,
        ends: cell.ends,
        vocabulary: cell.vocabulary,
        sampler: cell.setting.name,
        k: cell.k,
        kind: finding.kinds.of_most(),
        soft: finding.kinds.share(CellKind::Soft),
        branches: method.proposer.branches(),
        stopped: cell.may_stop().then_some(finding.stopped),
        paths: finding.paths,
        max_tv: finding.max_tv,
        min_detectable_tv: finding.min_detectable_tv,
        verdict: *finding.verdict.as_ref().unwrap_or(&CertificateVerdict::Failed),
        reason: finding.verdict.err(),
    }
}

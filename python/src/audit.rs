//! Audits of tokens whose distributions Python passes.

use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use specdec::audit::{AuditLimits, AuditVerdict, SequenceDists, TokenAudit};

use crate::distributions::{Given, Rows, tokens, value_error};

/// An audit, sequence by sequence.
#[pyclass(module = "specdec_harness._core")]
#[derive(Debug)]
pub(crate) struct Audit(TokenAudit);

#[pymethods]
impl Audit {
    /// An audit of a decoder that drafts one of these numbers of tokens per round.
    #[new]
    fn new(ks: Vec<usize>) -> Self {
        Self(TokenAudit::new(&ks))
    }

    /// Reads a sequence with the name of its prompt, its number among those of the prompt, and its
    /// source, unless it is a copy; the others are q, raw p and raw q.
    fn read(
        &mut self,
        py: Python<'_>,
        sequence: (String, u32, Option<String>),
        drawn: PyReadonlyArray1<'_, i64>,
        p: Given<'_>,
        others: (Option<Given<'_>>, Option<Given<'_>>, Option<Given<'_>>),
    ) -> PyResult<()> {
        let (q, raw_p, raw_q) = others;
        let (prompt, repeat, source) = sequence;
        let vocab = p.0.as_array().ncols();
        let drawn = tokens("tokens", &drawn, vocab)?;
        let dists = |name, given: Option<_>| given.map(|given| Rows::new(name, given).dists());
        let dists = SequenceDists {
            target: Rows::new("p", p).dists()?,
            draft: dists("q", q).transpose()?,
            raw_target: dists("raw_p", raw_p).transpose()?,
            raw_draft: dists("raw_q", raw_q).transpose()?,
        };
        let audit = &mut self.0;
        py.detach(|| {
            if audit.copies.is_copy(source, &drawn) {
                return Ok(());
            }
            audit.begin(&prompt, repeat);
            audit.read(&drawn, dists, None)?;
            audit.end();
            Ok(())
        })
        .map_err(|error: specdec::Error| value_error(error))
    }

    /// The verdict at a level; `plain` is an audit of completions without speculation.
    fn verdict<'py>(
        &self,
        py: Python<'py>,
        level: f64,
        plain: Option<PyRef<'_, Audit>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let own = &self.0;
        let plain = plain.as_ref().map(|plain| &plain.0);
        let verdict = py.detach(|| AuditVerdict::of(own, plain, AuditLimits { level, tie: 0.0 }));
        let found = PyDict::new(py);
        found.set_item("sequences", verdict.sequences)?;
        found.set_item("tokens", verdict.tokens)?;
        found.set_item("level", verdict.level)?;
        found.set_item("refuted", verdict.refuted)?;
        found.set_item("log10_e", verdict.log10_e)?;
        found.set_item("plain_log10_e", verdict.plain_log10_e)?;
        found.set_item("copies", verdict.copies)?;
        found.set_item("impossible", verdict.impossible)?;
        found.set_item("plain_impossible", verdict.plain_impossible)?;
        found.set_item("log10_e_impossible", verdict.log10_e_impossible)?;
        let first = verdict
            .first_impossible
            .map(|first| (first.prompt, first.repeat, first.at, first.token));
        found.set_item("first_impossible", first)?;
        found.set_item("bug", verdict.bug)?;
        found.set_item("alike", PyTuple::new(py, verdict.alike)?)?;
        found.set_item("not_placed", verdict.not_placed)?;
        let bets = verdict.bets.into_iter().map(|bet| {
            let row = PyDict::new(py);
            row.set_item("bug", bet.bug)?;
            row.set_item("summary", bet.summary)?;
            row.set_item("seen", bet.seen)?;
            row.set_item("tokens", bet.tokens)?;
            row.set_item("log10_e", bet.log10_e)?;
            row.set_item("strength", bet.strength)?;
            row.set_item("tv", bet.tv)?;
            row.set_item("tv_bound", bet.tv_bound)?;
            row.set_item("tv_detectable", bet.tv_detectable)?;
            Ok(row)
        });
        found.set_item("bets", PyList::new(py, bets.collect::<PyResult<Vec<_>>>()?)?)?;
        Ok(found)
    }
}

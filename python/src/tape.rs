//! Tapes that Python reads and writes, by the checks of the program.

use std::path::Path;

use numpy::{PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use specdec::core::distribution::Token;
use specdec::core::sampling::{History, Logits, Sampler};
use specdec::method::draft::draft_sampling;
use specdec::tapes::tape::{Tape, TapeLine, TapeScore, TapeSequence, read_tape, score_logits};

use crate::distributions::{tokens, value_error};

/// The lines of a tape, each checked against those before it.
#[pyclass(module = "specdec_harness._core")]
#[derive(Debug)]
pub(crate) struct TapeLines(Tape);

#[pymethods]
impl TapeLines {
    /// A tape with this first line.
    #[new]
    fn new(first: &str) -> PyResult<Self> {
        match parsed(first)? {
            TapeLine::Tape(header) => Tape::new(header).map(Self).map_err(PyValueError::new_err),
            _ => Err(PyValueError::new_err("a tape begins with a line \"tape\"")),
        }
    }

    /// An existing tape, and the number of bytes of its complete lines.
    #[staticmethod]
    fn read(py: Python<'_>, file: &str, bytes: &[u8]) -> PyResult<(Self, u64)> {
        let read = py.detach(|| read_tape(bytes, Path::new(file))).map_err(value_error)?;
        Ok((Self(read.tape), read.whole))
    }

    /// Adds a line; returns it as it is written.
    fn add(&mut self, line: &str) -> PyResult<String> {
        let line = parsed(line)?;
        let text = serde_json::to_string(&line).map_err(refused)?;
        self.0.add(line).map_err(PyValueError::new_err)?;
        Ok(text)
    }

    /// The numbers of its sequences and of its drafters.
    fn counts(&self) -> (usize, usize) {
        (self.0.sequences.len(), self.0.drafters.len())
    }

    /// A sequence: index of its sampling setting, tokens of its prompt and of its completion, and
    /// how many tokens a draft may have that begins at each of the latter.
    #[allow(clippy::type_complexity)]
    fn sequence(&self, number: usize) -> PyResult<(usize, Vec<Token>, Vec<Token>, Vec<usize>)> {
        let found = self.0.sequences.get(number).ok_or_else(|| {
            let most = self.0.sequences.len();
            PyValueError::new_err(format!("sequence {number} is not on the tape, which has {most}"))
        })?;
        let limit = |start| found.length().limit(start);
        let limits = (0..found.tokens.len()).map(limit).collect();
        Ok((found.sampling, found.prompt_tokens.clone(), found.tokens.clone(), limits))
    }

    /// The natural logarithm of the probability of a token by row of logits, after a sampling setting
    /// of the tape and, for a drafter, its own settings. Row i is that of the known token number
    /// `begin + i`; the prompt has `prompt_len` of them.
    fn log_probs<'py>(
        &self,
        settings: (usize, Option<usize>),
        logits: PyReadonlyArray2<'py, f64>,
        known: (PyReadonlyArray1<'py, i64>, usize, usize),
    ) -> PyResult<Vec<f64>> {
        let sampler = self.sampler(settings)?;
        let (rows, (known, prompt_len, begin)) = (logits.as_array(), known);
        let known = tokens("tokens", &known, rows.ncols())?;
        if begin + rows.nrows() > known.len() {
            let left = known.len().saturating_sub(begin);
            let why = format!("there are {} rows of logits for {left} tokens", rows.nrows());
            return Err(PyValueError::new_err(why));
        }
        let mut found = Vec::with_capacity(rows.nrows());
        for (i, row) in rows.outer_iter().enumerate() {
            let (context, token) = (&known[..begin + i], known[begin + i]);
            let history = History { prompt_len, context, drafted: &[] };
            let dist = sampler.distribution(&Logits::F64(row.to_vec()), history);
            let dist = dist.map_err(|why| PyValueError::new_err(format!("logits[{i}]: {why}")))?;
            found.push(dist.p(token).ln());
        }
        Ok(found)
    }

    /// The line with a drafter's score of a sequence, from the logits of the target and of the
    /// drafter at each of its N tokens, (N, V) each.
    fn compared<'py>(
        &self,
        place: (usize, usize),
        p: PyReadonlyArray2<'py, f64>,
        q: PyReadonlyArray2<'py, f64>,
    ) -> PyResult<String> {
        let (drafter, number) = place;
        let missing = || PyValueError::new_err(format!("sequence {number} is not on the tape"));
        let sequence = self.0.sequences.get(number).ok_or_else(missing)?;
        let shape = |of: &PyReadonlyArray2<'py, f64>| of.as_array().dim();
        if shape(&p) != shape(&q) || shape(&p).0 != sequence.tokens.len() {
            return Err(PyValueError::new_err(format!(
                "logits of the target have the shape {:?} and those of the drafter {:?}: allowed is \
                 ({}, V) for both",
                shape(&p),
                shape(&q),
                sequence.tokens.len()
            )));
        }
        let rows = |of: &PyReadonlyArray2<'py, f64>| {
            of.as_array().outer_iter().map(|row| Logits::F64(row.to_vec())).collect::<Vec<_>>()
        };
        let samplers =
            [None, Some(drafter)].map(|drafter| self.sampler((sequence.sampling, drafter)));
        let [target, draft] = samplers;
        let scored = score_logits((&target?, &rows(&p)), (&draft?, &rows(&q)), sequence);
        let score = TapeScore { drafter, sequence: number, ..scored.map_err(refused)? };
        serde_json::to_string(&TapeLine::Score(score)).map_err(refused)
    }
}

impl TapeLines {
    /// How the target samples with a setting of the tape, or a drafter of it.
    fn sampler(&self, (sampling, drafter): (usize, Option<usize>)) -> PyResult<Sampler> {
        let missing = |what| PyValueError::new_err(format!("the tape has no such {what}"));
        let settings = self.0.header.samplings.get(sampling);
        let mut settings = settings.ok_or_else(|| missing("sampling setting"))?.clone();
        if let Some(drafter) = drafter {
            let drafter = self.0.drafters.get(drafter).ok_or_else(|| missing("drafter"))?;
            settings = draft_sampling(settings, &drafter.params);
        }
        Sampler::new(settings).map_err(refused)
    }
}

/// The sequences of a tape: prompt, repeat, sampling setting, and the tokens of prompt and
/// completion; and the sampling settings in words.
#[pyfunction]
#[allow(clippy::type_complexity)]
pub(crate) fn tape_sequences(
    py: Python<'_>,
    file: &str,
    bytes: &[u8],
) -> PyResult<(Vec<(String, u32, usize, Vec<Token>, Vec<Token>)>, Vec<String>)> {
    let tape = py.detach(|| read_tape(bytes, Path::new(file))).map_err(value_error)?.tape;
    let samplings = tape.header.samplings.iter().map(|sampling| sampling.words()).collect();
    let sequences = tape.sequences.into_iter().map(|sequence| {
        let TapeSequence { prompt, repeat, sampling, prompt_tokens, tokens, .. } = sequence;
        (prompt, repeat, sampling, prompt_tokens, tokens)
    });
    Ok((sequences.collect(), samplings))
}

fn parsed(line: &str) -> PyResult<TapeLine> {
    let parsed = serde_json::from_str(line);
    parsed.map_err(|why| PyValueError::new_err(format!("not a line of a tape: {why}")))
}

fn refused(error: impl std::error::Error) -> PyErr {
    PyValueError::new_err(error.to_string())
}

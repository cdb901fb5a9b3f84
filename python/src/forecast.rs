//! Forecasts from columns and from tapes.

use std::collections::BTreeMap;
use std::path::Path;

use numpy::{PyArray2, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use specdec::distribution::Token;
use specdec::registry::UnknownName;
use specdec::tape::{
    ChainLaw, Forecast, TAPE_FORMAT, Tape, TapeDrafter, TapeEnd, TapeHeader, TapeLine, TapeModel,
    TapeScore, TapeText, read_tape,
};

use crate::laws::value_error;

/// What one way to decode takes for the texts.
#[derive(Debug, Default)]
struct Sums {
    texts: usize,
    tokens: usize,
    found: Forecast,
}

/// A way to decode: sampling setting and drafter by their numbers on the tape, rule, K.
type Way = (usize, usize, ChainLaw, usize);

/// A forecast from log p, log q and the race's probabilities at the tokens of texts, which have
/// these lengths and could have had so many tokens.
#[pyfunction]
pub(crate) fn forecast_columns<'py>(
    py: Python<'py>,
    logs: (PyReadonlyArray1<'py, f64>, PyReadonlyArray1<'py, f64>),
    race: Option<PyReadonlyArray1<'py, f64>>,
    lengths: Vec<usize>,
    max_tokens: Vec<usize>,
    ks: Vec<usize>,
    rules: Vec<String>,
) -> PyResult<Bound<'py, PyDict>> {
    let laws = laws(&rules)?;
    if race.is_none() && laws.contains(&ChainLaw::Race) {
        return Err(PyValueError::new_err("the rule gumbel needs the column race"));
    }
    let copied = |column: PyReadonlyArray1<'_, f64>| column.as_array().to_vec();
    let (log_p, log_q, race) = (copied(logs.0), copied(logs.1), race.map(copied));
    let sums = py.detach(|| {
        let texts = lengths.into_iter().zip(max_tokens);
        let tape = tape((&log_p, &log_q, race.as_deref()), texts)?;
        Ok::<_, String>(forecasts(&tape, &ks, &laws))
    });
    let sums = sums.map_err(PyValueError::new_err)?;
    columns(py, &sums)
}

/// A forecast from a tape, whose bytes these are; also the names of its drafters and samplings.
#[pyfunction]
pub(crate) fn forecast_tape<'py>(
    py: Python<'py>,
    file: &str,
    bytes: &[u8],
    ks: Vec<usize>,
    rules: Vec<String>,
) -> PyResult<(Bound<'py, PyDict>, Vec<String>, Vec<String>)> {
    let laws = laws(&rules)?;
    let (tape, sums) = py
        .detach(|| {
            let tape = read_tape(bytes, Path::new(file))?.tape;
            let sums = forecasts(&tape, &ks, &laws);
            Ok((tape, sums))
        })
        .map_err(|error: specdec::Error| value_error(error))?;
    if sums.is_empty() {
        return Err(PyValueError::new_err(format!(
            "{file}: no drafter has read its texts with what the rules {} need and one of these ks",
            rules.join(", ")
        )));
    }
    let drafters = tape.drafters.iter().map(TapeDrafter::describe).collect();
    let samplings = tape.header.samplings.iter().map(|sampling| sampling.words()).collect();
    Ok((columns(py, &sums)?, drafters, samplings))
}

/// The texts of a tape: prompt, repeat, sampling setting, and the tokens of prompt and text; and
/// the sampling settings in words.
#[pyfunction]
#[allow(clippy::type_complexity)]
pub(crate) fn tape_texts(
    py: Python<'_>,
    file: &str,
    bytes: &[u8],
) -> PyResult<(Vec<(String, u32, usize, Vec<Token>, Vec<Token>)>, Vec<String>)> {
    let tape = py.detach(|| read_tape(bytes, Path::new(file))).map_err(value_error)?.tape;
    let samplings = tape.header.samplings.iter().map(|sampling| sampling.words()).collect();
    let texts = tape
        .texts
        .into_iter()
        .map(|text| (text.prompt, text.repeat, text.sampling, text.prompt_tokens, text.tokens));
    Ok((texts.collect(), samplings))
}

/// The rules that are decided by verifiers of these names.
fn laws(rules: &[String]) -> PyResult<Vec<ChainLaw>> {
    let law = |name: &String| {
        let found = ChainLaw::ALL.into_iter().find(|law| law.verifier() == name);
        let names = ChainLaw::ALL.map(ChainLaw::verifier);
        found.ok_or_else(|| value_error(UnknownName::new("rule", name, names)))
    };
    rules.iter().map(law).collect()
}

/// A tape with one drafter.
fn tape(
    (log_p, log_q, race): (&[f64], &[f64], Option<&[f64]>),
    texts: impl Iterator<Item = (usize, usize)>,
) -> Result<Tape, String> {
    let mut tape = Tape::new(TapeHeader {
        format: TAPE_FORMAT,
        source: String::new(),
        build: String::new(),
        target: TapeModel::default(),
        seed: None,
        ignore_eos: false,
        samplings: vec![specdec::SamplingParams::NEUTRAL],
    })?;
    tape.add(TapeLine::Drafter(TapeDrafter {
        drafter: "model".to_owned(),
        model: None,
        length: None,
        params: specdec::params::Params::default(),
        most: None,
    }))?;
    let mut begin = 0;
    for (number, (length, max_tokens)) in texts.enumerate() {
        let part = begin..begin + length;
        begin += length;
        let (Some(log_p), Some(log_q)) = (log_p.get(part.clone()), log_q.get(part.clone())) else {
            return Err(format!("text {number} ends behind the columns"));
        };
        let text = |why| format!("text {number}: {why}");
        let end = if length < max_tokens { TapeEnd::Token } else { TapeEnd::Cut };
        let line = TapeText {
            prompt: number.to_string(),
            category: String::new(),
            repeat: 0,
            sampling: 0,
            prompt_tokens: Vec::new(),
            tokens: vec![0; length],
            max_tokens,
            end,
            log_p: Some(log_p.to_vec()),
        };
        tape.add(TapeLine::Text(line)).map_err(text)?;
        let score = TapeScore {
            text: number,
            log_q: Some(log_q.to_vec()),
            race: race.and_then(|race| race.get(part)).map(<[f64]>::to_vec),
            ..TapeScore::default()
        };
        tape.add(TapeLine::Score(score)).map_err(text)?;
    }
    Ok(tape)
}

/// What every drafter, rule and K takes for the texts of each sampling setting, as far as the
/// tape tells.
fn forecasts(tape: &Tape, ks: &[usize], laws: &[ChainLaw]) -> BTreeMap<Way, Sums> {
    let mut all = BTreeMap::new();
    for (drafter, described) in tape.drafters.iter().enumerate() {
        let most = described.most.unwrap_or(usize::MAX);
        for (number, text) in tape.texts.iter().enumerate() {
            let Some(odds) = tape.odds(drafter, number) else { continue };
            for &law in laws.iter().filter(|&&law| odds.knows(law)) {
                for &k in ks.iter().filter(|&&k| k <= most) {
                    let sums: &mut Sums = all.entry((text.sampling, drafter, law, k)).or_default();
                    sums.texts += 1;
                    sums.tokens += text.tokens.len();
                    sums.add(odds.forecast(law, k));
                }
            }
        }
    }
    all
}

impl Sums {
    fn add(&mut self, found: Forecast) {
        let own = &mut self.found;
        own.rounds += found.rounds;
        own.accepted += found.accepted;
        own.proposed += found.proposed;
        for (own, parts) in [(&mut own.reached, found.reached), (&mut own.survived, found.survived)]
        {
            own.resize(own.len().max(parts.len()), 0.0);
            own.iter_mut().zip(parts).for_each(|(sum, part)| *sum += part);
        }
    }

    /// S(1), S(2), … as in `docs/metrics.md`.
    fn survival(&self) -> impl Iterator<Item = f64> + '_ {
        let both = self.found.survived.iter().zip(&self.found.reached);
        both.scan(1.0, |left, (survived, reached)| {
            *left *= if *reached > 0.0 { survived / reached } else { 0.0 };
            Some(*left)
        })
    }
}

fn columns<'py>(py: Python<'py>, sums: &BTreeMap<Way, Sums>) -> PyResult<Bound<'py, PyDict>> {
    let columns = PyDict::new(py);
    let ways = |of: fn(&Way) -> usize| sums.keys().map(of).collect::<Vec<_>>();
    let numbers = |of: &dyn Fn(&Sums) -> f64| sums.values().map(of).collect::<Vec<_>>();
    let all = |parts: &[f64]| parts.iter().sum::<f64>();
    columns.set_item("sampling", ways(|way| way.0))?;
    columns.set_item("drafter", ways(|way| way.1))?;
    let verifiers = sums.keys().map(|way| way.2.verifier()).collect::<Vec<_>>();
    columns.set_item("verifier", verifiers)?;
    columns.set_item("num_speculative_tokens", ways(|way| way.3))?;
    columns.set_item("texts", sums.values().map(|sums| sums.texts).collect::<Vec<_>>())?;
    columns.set_item("tokens", sums.values().map(|sums| sums.tokens).collect::<Vec<_>>())?;
    columns.set_item("rounds", numbers(&|sums| sums.found.rounds))?;
    columns.set_item("accepted", numbers(&|sums| sums.found.accepted))?;
    columns.set_item("proposed", numbers(&|sums| sums.found.proposed))?;
    let efficiency = |sums: &Sums| sums.found.accepted / sums.found.rounds + 1.0;
    columns.set_item("block_efficiency", numbers(&efficiency))?;
    let per_round = |sums: &Sums| sums.tokens as f64 / sums.found.rounds;
    columns.set_item("tokens_per_round", numbers(&per_round))?;
    let rate = |sums: &Sums| sums.found.accepted / sums.found.proposed;
    columns.set_item("acceptance_rate", numbers(&rate))?;
    let conditional = |sums: &Sums| all(&sums.found.survived) / all(&sums.found.reached);
    columns.set_item("conditional_acceptance", numbers(&conditional))?;
    let most = sums.keys().map(|way| way.3).max().unwrap_or(0);
    let survival = sums.values().map(|sums| {
        let mut row = sums.survival().collect::<Vec<_>>();
        row.resize(most, f64::NAN);
        row
    });
    let survival = PyArray2::from_vec2(py, &survival.collect::<Vec<_>>())?;
    columns.set_item("survival", survival)?;
    Ok(columns)
}

//! Forecasts from columns and from tapes.

use std::collections::BTreeMap;
use std::path::Path;

use numpy::{PyArray2, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use specdec::core::registry::UnknownName;
use specdec::tapes::tape::{
    AcceptanceRule, Forecast, TAPE_FORMAT, Tape, TapeDrafter, TapeEnd, TapeHeader, TapeLine,
    TapeModel, TapeScore, TapeSequence, read_tape,
};

use crate::distributions::value_error;

/// The forecast of one configuration.
#[derive(Debug, Default)]
struct Sums {
    sequences: usize,
    tokens: usize,
    found: Forecast,
}

/// A configuration: indices of the sampling setting and the drafter on the tape, rule, K.
type Config = (usize, usize, AcceptanceRule, usize);

/// A forecast from log p, log q and the race's probabilities at the tokens of completions with
/// these lengths and maximum numbers of tokens.
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
    let rules = rules_of(&rules)?;
    if race.is_none() && rules.contains(&AcceptanceRule::Race) {
        return Err(PyValueError::new_err("the rule gumbel needs the column race"));
    }
    let copied = |column: PyReadonlyArray1<'_, f64>| column.as_array().to_vec();
    let (log_p, log_q, race) = (copied(logs.0), copied(logs.1), race.map(copied));
    let sums = py.detach(|| {
        let completions = lengths.into_iter().zip(max_tokens);
        let tape = tape((&log_p, &log_q, race.as_deref()), completions)?;
        Ok::<_, String>(forecasts(&tape, &ks, &rules))
    });
    let sums = sums.map_err(PyValueError::new_err)?;
    columns(py, &sums)
}

/// A forecast from the bytes of a tape; also the names of its drafters and samplings.
#[pyfunction]
pub(crate) fn forecast_tape<'py>(
    py: Python<'py>,
    file: &str,
    bytes: &[u8],
    ks: Vec<usize>,
    rules: Vec<String>,
) -> PyResult<(Bound<'py, PyDict>, Vec<String>, Vec<String>)> {
    let named = rules_of(&rules)?;
    let (tape, sums) = py
        .detach(|| {
            let tape = read_tape(bytes, Path::new(file))?.tape;
            let sums = forecasts(&tape, &ks, &named);
            Ok((tape, sums))
        })
        .map_err(|error: specdec::Error| value_error(error))?;
    if sums.is_empty() {
        return Err(PyValueError::new_err(format!(
            "{file}: it has no scores for the rules {} and one of these ks",
            rules.join(", ")
        )));
    }
    let drafters = tape.drafters.iter().map(TapeDrafter::describe).collect();
    let samplings = tape.header.samplings.iter().map(|sampling| sampling.words()).collect();
    Ok((columns(py, &sums)?, drafters, samplings))
}

/// The acceptance rules of verifiers with these names.
fn rules_of(names: &[String]) -> PyResult<Vec<AcceptanceRule>> {
    let rule = |name: &String| {
        let found = AcceptanceRule::ALL.into_iter().find(|rule| rule.verifier() == name);
        let names = AcceptanceRule::ALL.map(AcceptanceRule::verifier);
        found.ok_or_else(|| value_error(UnknownName::new("rule", name, names)))
    };
    names.iter().map(rule).collect()
}

/// A tape with one drafter.
fn tape(
    (log_p, log_q, race): (&[f64], &[f64], Option<&[f64]>),
    completions: impl Iterator<Item = (usize, usize)>,
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
        params: specdec::core::params::Params::default(),
        most: None,
    }))?;
    let mut begin = 0;
    for (number, (length, max_tokens)) in completions.enumerate() {
        let part = begin..begin + length;
        begin += length;
        let (Some(log_p), Some(log_q)) = (log_p.get(part.clone()), log_q.get(part.clone())) else {
            return Err(format!("completion {number} ends after the columns"));
        };
        let place = |why| format!("completion {number}: {why}");
        let end = if length < max_tokens { TapeEnd::Token } else { TapeEnd::Cut };
        let line = TapeSequence {
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
        tape.add(TapeLine::Sequence(line)).map_err(place)?;
        let score = TapeScore {
            sequence: number,
            log_q: Some(log_q.to_vec()),
            race: race.and_then(|race| race.get(part)).map(<[f64]>::to_vec),
            ..TapeScore::default()
        };
        tape.add(TapeLine::Score(score)).map_err(place)?;
    }
    Ok(tape)
}

/// The forecasts of every drafter, rule and K for each sampling setting, as far as the tape covers
/// them.
fn forecasts(tape: &Tape, ks: &[usize], rules: &[AcceptanceRule]) -> BTreeMap<Config, Sums> {
    let mut all = BTreeMap::new();
    for (drafter, described) in tape.drafters.iter().enumerate() {
        let most = described.most.unwrap_or(usize::MAX);
        for (number, sequence) in tape.sequences.iter().enumerate() {
            let Some(odds) = tape.odds(drafter, number) else { continue };
            for &rule in rules.iter().filter(|&&rule| odds.knows(rule)) {
                for &k in ks.iter().filter(|&&k| k <= most) {
                    let config = (sequence.sampling, drafter, rule, k);
                    let sums: &mut Sums = all.entry(config).or_default();
                    sums.sequences += 1;
                    sums.tokens += sequence.tokens.len();
                    sums.add(odds.forecast(rule, k));
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

fn columns<'py>(py: Python<'py>, sums: &BTreeMap<Config, Sums>) -> PyResult<Bound<'py, PyDict>> {
    let columns = PyDict::new(py);
    let configs = |of: fn(&Config) -> usize| sums.keys().map(of).collect::<Vec<_>>();
    let numbers = |of: &dyn Fn(&Sums) -> f64| sums.values().map(of).collect::<Vec<_>>();
    let all = |parts: &[f64]| parts.iter().sum::<f64>();
    columns.set_item("sampling", configs(|config| config.0))?;
    columns.set_item("drafter", configs(|config| config.1))?;
    let verifiers = sums.keys().map(|config| config.2.verifier()).collect::<Vec<_>>();
    columns.set_item("verifier", verifiers)?;
    columns.set_item("num_speculative_tokens", configs(|config| config.3))?;
    columns.set_item("texts", sums.values().map(|sums| sums.sequences).collect::<Vec<_>>())?;
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
    let most = sums.keys().map(|config| config.3).max().unwrap_or(0);
    let survival = sums.values().map(|sums| {
        let mut row = sums.survival().collect::<Vec<_>>();
        row.resize(most, f64::NAN);
        row
    });
    let survival = PyArray2::from_vec2(py, &survival.collect::<Vec<_>>())?;
    columns.set_item("survival", survival)?;
    Ok(columns)
}

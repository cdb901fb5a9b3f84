//! The production verifiers on given distributions.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use numpy::PyReadonlyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use specdec::core::chance::{Chance, Request, Seeded, Site};
use specdec::core::distribution::{Dist, Token};
use specdec::core::params::{Params, Value};
use specdec::core::registry::{Entry, UnknownName, find};
use specdec::core::tree::Draft;
use specdec::method::verify::{BuildVerifier, VERIFIERS, Verifier};

use crate::distributions::{Given, Rows, tokens, value_error};

/// A setting of a method.
#[derive(FromPyObject)]
pub(crate) enum Setting {
    Count(usize),
    Number(f64),
    Text(String),
}

/// The verifiers: name, class, settings with their defaults in words, summary and paper.
#[pyfunction]
#[allow(clippy::type_complexity)]
pub(crate) fn verifiers() -> Vec<(&'static str, String, Vec<(&'static str, String)>, String, String)>
{
    let setting = |param: &specdec::core::params::Param| {
        let default = param.default().map(|value| format!(", default {value}"));
        (param.key, param.allowed() + &default.unwrap_or_default())
    };
    let each = VERIFIERS.iter().map(|entry| {
        let settings = entry.params.iter().map(setting).collect();
        let class = format!("{:?} {}", entry.build.class, entry.build.class.word());
        (entry.name, class, settings, entry.summary.to_owned(), entry.paper.to_owned())
    });
    each.collect()
}

/// Verifies a chain of drafted tokens: the tokens of the round, and how many were accepted.
/// Without q the draft is deterministic.
#[pyfunction]
pub(crate) fn verify(
    py: Python<'_>,
    name: &str,
    p: Given<'_>,
    q: Option<Given<'_>>,
    draft: PyReadonlyArray1<'_, i64>,
    seed: u64,
    settings: BTreeMap<String, Setting>,
) -> PyResult<(Vec<Token>, usize)> {
    let verifier = made(find("verifier", VERIFIERS, name).map_err(value_error)?, settings)?;
    let targets = Rows::new("p", p).dists()?;
    let vocab = targets.first().map_or(0, Dist::vocab);
    let drafted = tokens("draft", &draft, vocab)?;
    let q = q.map(|q| Rows::new("q", q).dists()).transpose()?;
    if let Some(at) =
        q.iter().flat_map(|q| q.iter().zip(&drafted)).position(|(q, &x)| q.p(x) == 0.0)
    {
        let token = drafted[at];
        return Err(PyValueError::new_err(format!(
            "draft[{at}] is {token}, which has probability 0 in q[{at}]: a draft is drawn from q"
        )));
    }
    py.detach(|| {
        let draft = chain(vocab, &drafted, q);
        if !verifier.supports(&draft.shape()) {
            return Err(PyValueError::new_err(format!("{name} does not verify such drafts")));
        }
        let mut chance = Seeded::new(Request { seed, prompt: "specdec.verify", repeat: 0 });
        let verdict = verifier.verify(&draft, &targets, &mut chance);
        let accepted = verdict.path.len();
        let kept = verdict.path.iter().map(|&node| draft.node(node).token);
        Ok((kept.chain([verdict.next]).collect(), accepted))
    })
}

/// The verifier with these settings; those that it does not have are refused.
fn made(
    entry: &'static Entry<BuildVerifier>,
    settings: BTreeMap<String, Setting>,
) -> PyResult<Box<dyn Verifier>> {
    let mut params = Params::default();
    for (key, setting) in settings {
        let Some(param) = entry.params.iter().find(|param| param.is_called(&key)) else {
            let allowed = entry.params.iter().map(|param| param.key);
            if entry.params.is_empty() {
                let name = entry.name;
                return Err(PyValueError::new_err(format!(
                    "unknown setting \"{key}\": {name} has none"
                )));
            }
            return Err(value_error(UnknownName::new("setting", &key, allowed)));
        };
        let value = match setting {
            Setting::Count(count) => Value::Count(count),
            Setting::Number(number) => Value::Number(number),
            Setting::Text(text) => Value::Text(text),
        };
        params = params.with(param.key, value);
    }
    let params = params.of(entry.params).map_err(value_error)?;
    Ok((entry.build.make)(&params))
}

/// A chain of these tokens, as if they had been drawn from the rows of q.
fn chain(vocab: usize, drafted: &[Token], q: Option<Vec<Dist>>) -> Draft {
    let mut draft = Draft::empty(vocab);
    let mut last = None;
    match q {
        Some(q) => {
            let mut drawn = Drawn { tokens: drafted };
            for dist in q {
                last = Some(draft.sample(last, &Rc::new(dist), &mut drawn));
            }
        }
        None => {
            for &token in drafted {
                last = Some(draft.certain(last, token));
            }
        }
    }
    draft
}

/// Draws that were made elsewhere: in a chain, a node's number is its position.
#[derive(Debug)]
struct Drawn<'d> {
    tokens: &'d [Token],
}

impl Chance for Drawn<'_> {
    fn begin_round(&mut self, _round: u64) {}

    fn bernoulli(&mut self, _site: Site, p: f64) -> bool {
        p >= 1.0
    }

    fn categorical(&mut self, site: Site, dist: &Dist) -> Token {
        self.tokens.get(site.node).copied().unwrap_or_else(|| dist.argmax())
    }

    fn race(&mut self, _position: usize, _lists: Range<usize>, dist: &Dist) -> Token {
        dist.argmax()
    }
}

//! What differs between two runs, and whether their times can be compared.

use serde::Serialize;

use super::side::RunSide;
use crate::run::experiment::{Plan, PlannedModel, RunSession};

/// Something that has another value in the second run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// What differs.
    pub what: &'static str,
    /// Its value in the first run.
    pub first: String,
    /// Its value in the second run.
    pub second: String,
}

/// A fact about a run, by its name.
type Fact = (&'static str, String);

/// Everything in which the runs differ, the models first.
pub(super) fn differences(first: &RunSide, second: &RunSide) -> Vec<Difference> {
    let named = both_named(first, second);
    let facts = [first, second].map(|side| {
        let (plan, session) = (&side.run.plan, side.run.session());
        [models(plan), settings(plan), machine(side, named), build(session)].concat()
    });
    differing(&facts)
}

/// Whether times of the runs can be compared: the machine, if both name it, the processor, its cores and instruction set, the
/// number of threads and the clock must be the same. Builds may differ, since users compare
/// them. If they cannot, the error is a sentence that says why.
pub(super) fn same_times(first: &RunSide, second: &RunSide) -> Result<(), String> {
    let named = both_named(first, second);
    let found = differing(&[first, second].map(|side| machine(side, named)));
    let parts = found.iter().map(|d| match d.what {
        // Hundreds of names say nothing to a reader.
        FLAGS => FLAGS.to_owned(),
        _ => format!("{} ({}, {})", d.what, d.first, d.second),
    });
    match parts.collect::<Vec<_>>().join("; ").as_str() {
        "" => Ok(()),
        parts => Err(format!("the machines differ in {parts}")),
    }
}

const FLAGS: &str = "processor features";

/// Whether both runs name the machine whose times count, as parts of a run do. Under the
/// virtual clock no time is a machine's.
fn both_named(first: &RunSide, second: &RunSide) -> bool {
    let named = |side: &RunSide| side.run.session().host.is_some();
    named(first) && named(second) && first.run.plan.clock != "virtual"
}

/// What the times of a run depend on in addition to models, settings and build.
fn machine(side: &RunSide, named: bool) -> Vec<Fact> {
    let RunSession { machine, threads, host, .. } = side.run.session();
    vec![
        ("machine", host.clone().filter(|_| named).unwrap_or_default()),
        ("processor", machine.cpu_model.clone()),
        (FLAGS, machine.cpu_flags.clone()),
        ("cores", machine.cores.to_string()),
        ("instruction set", machine.isa.clone()),
        ("threads", threads.to_string()),
        ("clock", side.run.plan.clock.clone()),
    ]
}

/// What made the program.
fn build(session: &RunSession) -> Vec<Fact> {
    let build = &session.build;
    vec![
        ("build", build.describe()),
        ("compiler", build.rustc.clone()),
        ("libraries", build.libraries.join(" ")),
        ("features", build.features.join(" ")),
    ]
}

fn settings(plan: &Plan) -> Vec<Fact> {
    let texts = plan.texts.iter().map(|(path, hash)| format!("{path} {}", short(hash)));
    vec![
        ("prompts", format!("{} {}", plan.prompts.len(), short(&plan.prompts_sha256))),
        ("max_tokens", plan.max_tokens.to_string()),
        ("repeats", plan.repeats.to_string()),
        ("seed", plan.seed.to_string()),
        ("ignore_eos", plan.ignore_eos.to_string()),
        ("special_tokens", plan.special_tokens.to_string()),
        ("chat", plan.chat.to_string()),
        ("kv_cache", plan.kv_cache.to_string()),
        ("texts", texts.collect::<Vec<_>>().join(" ")),
    ]
}

fn models(plan: &Plan) -> Vec<Fact> {
    let facts = |role: usize, model: Option<&PlannedModel>| {
        let of = |fact: &dyn Fn(&PlannedModel) -> String| model.map_or_else(String::new, fact);
        let device = of(&|m| m.device.clone().unwrap_or_default());
        let vocabulary = of(&|m| m.vocabulary.name().to_owned());
        let cache = of(&|m| m.kv_cache_dtype.name().to_owned());
        [
            (["target", "draft"], of(&|m| m.name.clone())),
            (["weights of the target", "weights of the draft"], of(&|m| short(&m.sha256))),
            (["engine of the target", "engine of the draft"], of(&|m| m.engine.clone())),
            (["dtype of the target", "dtype of the draft"], of(&|m| m.dtype.clone())),
            (["KV cache of the target", "KV cache of the draft"], cache),
            (["device of the target", "device of the draft"], device),
            (["vocabulary of the target", "vocabulary of the draft"], vocabulary),
        ]
        .map(|(names, value)| (names[role], value))
    };
    [facts(0, Some(&plan.target)), facts(1, plan.draft.as_ref())].concat()
}

/// The first twelve digits of a hash.
fn short(hash: &str) -> String {
    hash.chars().take(12).collect()
}

fn differing([first, second]: &[Vec<Fact>; 2]) -> Vec<Difference> {
    let pairs = first.iter().zip(second).filter(|(a, b)| a.1 != b.1);
    let difference =
        |(a, b): (&Fact, &Fact)| Difference { what: a.0, first: a.1.clone(), second: b.1.clone() };
    pairs.map(difference).collect()
}

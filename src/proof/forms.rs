//! Values with a closed form, compared with enumerated production rounds.

use rand::Rng;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use serde::Serialize;

use super::enumerate::enumerate;
use super::joint::{off, worse};
use super::probe::Probe;
use super::refute::MutantReport;
use crate::core::error::Error;
use crate::core::params::{Params, Value};
use crate::core::round::RoundEvent;
use crate::method::decode::{Generation, MethodSpec, StopRules};
use crate::method::verify::ceiling;
use crate::model::ToyPair;

/// A value with a closed form, and its value by enumeration.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClosedForm {
    /// Its name.
    pub name: String,
    /// Its value by the closed form.
    pub expected: f64,
    /// Its value by enumeration.
    pub found: f64,
}

impl ClosedForm {
    /// Whether both agree up to rounding.
    pub fn holds(&self) -> bool {
        !off((self.expected - self.found).abs())
    }
}

/// The distributions of the target and the draft, independent of the context.
type Distributions<'l> = (&'l [f64], &'l [f64]);

/// What the names of closed forms mean.
pub(super) const LEGEND: &str = "F1: p = (1/3, 2/3) and q = (2/3, 1/3) at every position; \
                                 F2: p = (0.5, 0.3, 0.2) and q = (0.2, 0.3, 0.5);\n\
                                 E[accepted] and trees: the mean number of accepted tokens; \
                                 ceiling: the most that any verifier could accept";
/// The example of the block verification paper.
const F1: Distributions<'static> = (&[1.0 / 3.0, 2.0 / 3.0], &[2.0 / 3.0, 1.0 / 3.0]);
/// Three tokens in reversed order.
const F2: Distributions<'static> = (&[0.5, 0.3, 0.2], &[0.2, 0.3, 0.5]);

/// Random pairs of distributions for the ordering of verifiers, and their seed.
const RANDOM: (usize, u64) = (100, 2026);

/// All closed forms.
pub(super) fn closed_forms() -> Result<Vec<ClosedForm>, Error> {
    // ρ* of two drafts solves a quadratic equation in both fixtures.
    let (rho_1, rho_2) = ((5.0 + f64::sqrt(13.0)) / 6.0, 0.9 + f64::sqrt(0.31));
    let chains: &[(&str, Distributions<'_>, &str, usize, f64)] = &[
        ("F1: E[accepted] of rejection, K = 1", F1, "rejection", 1, 2.0 / 3.0),
        ("F1: E[accepted] of rejection, K = 2", F1, "rejection", 2, 10.0 / 9.0),
        ("F1: E[accepted] of block verification, K = 2", F1, "traversal", 2, 11.0 / 9.0),
        ("F1: E[accepted] of token_match, K = 1", F1, "token_match", 1, 4.0 / 9.0),
        ("F2: E[accepted] of rejection, K = 1", F2, "rejection", 1, 0.7),
        ("F2: E[accepted] of token_match, K = 1", F2, "token_match", 1, 0.29),
    ];
    let trees: &[(&str, Distributions<'_>, &str, &str, &str, f64)] = &[
        ("F1: rejection, 2 independent", F1, "rejection", "independent", "2", 7.0 / 9.0),
        ("F1: k_seq, 2 independent", F1, "k_seq", "independent", "2", (1.0 + rho_1) / 3.0),
        ("F1: rejection, 2 distinct", F1, "rejection", "distinct", "2", 1.0),
        ("F2: rejection, 2 independent", F2, "rejection", "independent", "2", 0.76),
        ("F2: rejection, 3 independent", F2, "rejection", "independent", "3", 0.808),
        ("F2: k_seq, 2 independent", F2, "k_seq", "independent", "2", 0.5 + 0.2 * rho_2),
        ("F2: rejection, 2 distinct", F2, "rejection", "distinct", "2", 0.82),
        ("F2: rejection, 3 distinct", F2, "rejection", "distinct", "3", 1.0),
        ("F2: spechub", F2, "spechub", "hub", "2", 0.9),
    ];
    let ceilings: &[(&str, &str, &str, f64)] = &[
        ("F2: ceiling, 2 independent", "independent", "2", 0.86),
        ("F2: ceiling, 3 independent", "independent", "3", 0.988),
        ("F2: ceiling, 2 distinct", "distinct", "2", 69.0 / 70.0),
        ("F2: ceiling, 3 distinct", "distinct", "3", 1.0),
    ];
    let mut forms = Vec::new();
    let mut add = |name: &str, expected, found: Result<Walked, Error>, of: fn(Walked) -> f64| {
        forms.push(ClosedForm { name: name.to_owned(), expected, found: of(found?) });
        Ok::<_, Error>(())
    };
    for &(name, dists, verifier, k, expected) in chains {
        add(name, expected, walk(dists, chain(verifier, k)), |walked| walked.accepted)?;
    }
    for &(name, dists, verifier, siblings, tree, expected) in trees {
        add(name, expected, walk(dists, level(verifier, siblings, tree)), |w| w.accepted)?;
    }
    for &(name, siblings, tree, expected) in ceilings {
        add(name, expected, walk(F2, level("rejection", siblings, tree)), |w| w.ceiling)?;
    }
    forms.push(ordering()?);
    Ok(forms)
}

/// The total variations of mutants that have a closed form.
pub(super) fn on_paper(mutants: &[MutantReport]) -> Vec<ClosedForm> {
    let form = |mutant: &MutantReport| {
        let name = format!("TV of one token of {}", mutant.name);
        let found = mutant.tv_first_token;
        mutant.on_paper.map(|expected| ClosedForm { name, expected, found })
    };
    mutants.iter().filter_map(form).collect()
}

/// The largest excess of rejection sampling of independent siblings over K-SEQ, or of K-SEQ over
/// the ceiling. It must be 0.
fn ordering() -> Result<ClosedForm, Error> {
    let mut rng = ChaCha8Rng::seed_from_u64(RANDOM.1);
    let mut found = 0.0;
    for i in 0..RANDOM.0 {
        let (p, q) = (random_distribution(&mut rng), random_distribution(&mut rng));
        let tree = if i % 2 == 0 { "2" } else { "3" };
        let walked = |verifier| walk((&p, &q), level(verifier, "independent", tree));
        let (recursive, sequential) = (walked("rejection")?, walked("k_seq")?);
        found = worse(found, recursive.accepted - sequential.accepted);
        found = worse(found, sequential.accepted - sequential.ceiling);
    }
    let name =
        format!("rejection <= k_seq <= ceiling on {} random distributions: excess", RANDOM.0);
    // An excess within rounding counts as 0.
    Ok(ClosedForm { name, expected: 0.0, found: if off(found) { found } else { 0.0 } })
}

fn random_distribution(rng: &mut ChaCha8Rng) -> Vec<f64> {
    let weights = [(); 4].map(|()| f64::from(rng.next_u32() >> 8).powi(2) + 1.0);
    weights.map(|w| w / weights.iter().sum::<f64>()).to_vec()
}

fn chain(verifier: &str, k: usize) -> MethodSpec {
    MethodSpec { verifier: verifier.to_owned(), num_speculative_tokens: k, ..MethodSpec::default() }
}

/// Several drafts for one position.
fn level(verifier: &str, siblings: &str, tree: &str) -> MethodSpec {
    let text = |text: &str| Value::Text(text.to_owned());
    let params = Params::default().with("tree", text(tree)).with("siblings", text(siblings));
    MethodSpec { drafter: "model_tree".to_owned(), params, ..chain(verifier, 1) }
}

/// Expected values of the first round.
#[derive(Debug, Clone, Copy)]
struct Walked {
    accepted: f64,
    ceiling: f64,
}

fn walk((p, q): Distributions<'_>, spec: MethodSpec) -> Result<Walked, Error> {
    let pair = ToyPair::context_free(p, q);
    let (target, draft) = (pair.target("fixture")?, pair.draft("fixture")?);
    let stop = StopRules::max_tokens(spec.num_speculative_tokens + 1);
    let generation = Generation::new(&target, spec.build(Some(&draft))?, &pair.prompt, stop, None)?;
    let mut root = Root(0.0);
    let found = enumerate(&target, generation, &mut [&mut root])?;
    Ok(Walked { accepted: found.tally.first_accepted, ceiling: root.0 })
}

/// The expected ceiling at the root of the first round; NaN if a ceiling is unknown.
#[derive(Debug)]
struct Root(f64);

impl Probe for Root {
    fn round(&mut self, event: &RoundEvent<'_>, weight: f64) {
        if event.round == 0 {
            self.0 += weight * ceiling(event.draft, None, event.target(None)).unwrap_or(f64::NAN);
        }
    }
}

//! What draft length policies see of the drafts of a tape, against the enumeration of the
//! production code.

use specdec::core::params::{Params, Value};
use specdec::core::sampling::{Sampler, SamplingParams};
use specdec::proof::target_distribution;
use specdec::tapes::forecasting::CostTable;
use specdec::tapes::simulation::{
    DecodingRequest, Outlook, PolicyParams, ServerStep, StepCosts, StepWork, policies,
};
use specdec::tapes::tape::{
    AcceptanceRule, DraftPasses, SequenceOdds, TapeScore, TapeSequence, TargetReader, Teacher,
    forecast, log_probs, score_sequence,
};

use crate::tape_exact::{Case, MAX, ROUNDING};
use crate::tape_support::{ending, sequence_of};

/// The number of tokens that a policy drafts for this request.
fn drafted(case: &Case, request: DecodingRequest<'_>) -> usize {
    let (name, setting, value) = case.length.unwrap();
    let settings = Params::default().with(setting, Value::Number(value));
    let settings = settings.with("confidence_tuned", Value::Count(0));
    let table = CostTable::default();
    let outlook = Outlook::of(&[], DraftPasses::Each);
    let (k, settings) = (case.k, &settings);
    let params = PolicyParams { outlook: &outlook, table: &table, k, max_batch: 1, settings };
    let mut policy = policies().find(|policy| policy.name == name).unwrap().build(&params).unwrap();
    let costs = StepCosts { table: &table, passes: DraftPasses::Each };
    policy.drafts(&ServerStep { requests: &[request], costs, work: StepWork::default() })[0]
}

/// The expected drafted tokens of a completion, given its drawn drafts.
fn proposed(case: &Case, sequence: &TapeSequence, score: &TapeScore) -> f64 {
    let odds = SequenceOdds::new(sequence, score).unwrap();
    let drafted = |start, followed| {
        let (number, most) = (0, sequence.length().limit(start));
        drafted(case, DecodingRequest { number, most, draft: odds.drawn(start, followed) })
    };
    let along = |start: usize| drafted(start, sequence.length().room(start));
    let survival = |start: usize| {
        let mut survival = Vec::new();
        odds.survival(AcceptanceRule::Token, start, along(start), &mut survival);
        survival
    };
    let found = forecast(sequence.length(), |start, own| {
        own.extend(survival(start));
        [along(start); 2]
    });
    let rounds = found.begins.iter().enumerate().map(|(start, begins)| {
        let mut survival = survival(start);
        let followed = survival.len();
        survival.insert(0, 1.0);
        survival.push(0.0);
        let each = survival.windows(2).enumerate().map(|(accepted, ends)| {
            let all = accepted == followed;
            let drafted = if all { along(start) } else { drafted(start, accepted) };
            (ends[0] - ends[1]) * drafted as f64
        });
        begins * each.sum::<f64>()
    });
    rounds.sum()
}

/// The expected drafted tokens of all completions, for each of `draws` draws.
fn drawn(case: &Case, draws: u32) -> Vec<f64> {
    let (target, draft) = (case.pair.target("p").unwrap(), case.pair.draft("q").unwrap());
    let plain = SamplingParams::default();
    let temperature = case.draft_temperature.unwrap_or(plain.temperature);
    let [sampler, drafting] = [plain.clone(), SamplingParams { temperature, ..plain }]
        .map(|params| Sampler::new(params).unwrap());
    let [mut p, mut q] = [&target, &draft].map(|model| Teacher::new(model).unwrap());
    let mut sums = vec![0.0; draws as usize];
    let sequences = target_distribution(&target, &sampler, &case.pair.prompt, MAX).unwrap();
    for (number, (tokens, mass)) in sequences.into_iter().enumerate() {
        for (repeat, sum) in (0..).zip(&mut sums) {
            let sequence = sequence_of(&case.pair.prompt, tokens.clone(), MAX);
            // Each sequence has draws of its own.
            let mut sequence = TapeSequence { prompt: number.to_string(), repeat, ..sequence };
            sequence.log_p = Some(log_probs(&mut p, &sampler, &sequence).unwrap());
            let beliefs = Some(case.k);
            let ends = &case.pair.eos;
            let target = TargetReader { teacher: &mut p, sampler: &sampler, beliefs, ends };
            let samplers = std::slice::from_ref(&drafting);
            let scored = score_sequence(&mut q, samplers, Some(target), &sequence).unwrap();
            *sum += mass * proposed(case, &sequence, &scored[0]);
        }
    }
    sums
}

const LENGTHS: [(&str, &str, f64); 3] = [
    ("confidence", "confidence_threshold", 0.3),
    ("confidence", "confidence_threshold", 0.4),
    ("entropy", "entropy_threshold", 0.35),
];

/// A greedy draft continues in one way.
/// Catches: a greedy draft is believed to be certain; a draft is continued from another token than
/// the one with which it left the completion, or from another place, or after a token that
/// ends it.
#[test]
fn greedy_drafts_have_the_length_of_the_enumeration() {
    for (name, length) in ["mixed", "close", "random-3"].iter().zip(LENGTHS) {
        let mut case = Case::new(ending(name), AcceptanceRule::Token, 3);
        (case.length, case.draft_temperature) = (Some(length), Some(0.0));
        let (found, expected) = (drawn(&case, 1)[0], case.enumerated().proposed);
        assert!((found - expected).abs() < ROUNDING, "{name} {length:?}: {found} {expected}");
    }
}

/// Catches: a rejected token is drawn like any other.
#[test]
fn drawn_drafts_have_the_length_of_the_enumeration() {
    const DRAWS: u32 = 400;
    for (name, length) in ["mixed", "close", "random-3"].iter().zip(LENGTHS) {
        let mut case = Case::new(ending(name), AcceptanceRule::Token, 3);
        case.length = Some(length);
        let (found, expected) = (drawn(&case, DRAWS), case.enumerated().proposed);
        let mean = found.iter().sum::<f64>() / f64::from(DRAWS);
        let squares = found.iter().map(|found| (found - mean).powi(2)).sum::<f64>();
        let error = (squares / f64::from(DRAWS - 1) / f64::from(DRAWS)).sqrt();
        assert!(error > 0.0 && error < 0.01, "{name}: {error}");
        // Five standard errors are exceeded once in two million times. Where drafts end themselves,
        // only rounding varies.
        assert!(
            (mean - expected).abs() < 5.0 * error + ROUNDING,
            "{name} {length:?}: {mean} {expected} {error}"
        );
    }
}

//! A server in simulated time, step by step.

use specdec::core::params::Params;
use specdec::measure::bench::CostRow;
use specdec::tapes::forecasting::CostTable;
use specdec::tapes::simulation::{
    Arrivals, DecodingRequest, Outlook, PolicyParams, RequestProgress, ServedRound, ServedRun,
    Server, ServerLimits, ServerStep, ServingPolicy, SimulatedSequence, StepCosts, StepWork,
    policies,
};
use specdec::tapes::tape::{
    AcceptanceRule, DraftPasses, LoggedRound, SequenceOdds, TapeLog, TapeScore, TapeSequence,
};

use crate::tape_support::sequence_of;

/// Costs in ms: what, rows, context, batch.
pub(crate) fn table(rows: &[(&str, usize, usize, usize, f64)]) -> CostTable {
    let mut table = CostTable::default();
    for &(what, rows, context, batch, ms) in rows {
        table.add(CostRow { what: what.to_owned(), rows, context, batch, shared: 0, ms }).unwrap();
    }
    table
}

/// A step of one request costs 1 ms, one of eight 2 ms, and each row of a request 0.1 ms.
fn usual() -> CostTable {
    table(&[
        ("", 1, 1, 1, 1.0),
        ("", 11, 1, 1, 2.0),
        ("", 1, 1, 8, 2.0),
        ("", 11, 1, 8, 10.0),
        ("draft", 1, 1, 1, 0.25),
        ("draft", 1, 1, 8, 0.5),
    ])
}

/// A completion of 40 tokens after a prompt of 5, with the same q/p at each token.
pub(crate) fn sequence(ratio: f64) -> (TapeSequence, TapeScore) {
    let mut sequence = sequence_of(&[0; 5], vec![1; 40], 40);
    sequence.log_p = Some(vec![-1.0; 40]);
    let log_q = Some(vec![ratio.ln() - 1.0; 40]);
    (sequence, TapeScore { log_q, ..TapeScore::default() })
}

pub(crate) fn odds<'t>(
    (sequence, score): &'t (TapeSequence, TapeScore),
    rule: AcceptanceRule,
) -> SimulatedSequence<'t> {
    SimulatedSequence::recorded(sequence, SequenceOdds::new(sequence, score).unwrap(), rule)
}

fn request<'t>(number: usize, most: usize) -> DecodingRequest<'t> {
    DecodingRequest { number, most, draft: None }
}

fn policy(name: &str, params: &PolicyParams<'_>) -> Box<dyn ServingPolicy> {
    policies().find(|policy| policy.name == name).unwrap().build(params).unwrap()
}

fn served(
    sequences: &[SimulatedSequence<'_>],
    table: &CostTable,
    (name, k): (&str, usize),
    arrivals: Arrivals,
    requests: usize,
) -> ServedRun {
    let costs = StepCosts { table, passes: DraftPasses::Each };
    let limits = ServerLimits { max_batch: 8, step_rows: Some(2048) };
    let outlook = &Outlook::of(sequences, DraftPasses::Each);
    let mut policy = policy(
        name,
        &PolicyParams { outlook, table, k, max_batch: 8, settings: &Params::default() },
    );
    Server { sequences, costs, limits }.serve(&mut *policy, arrivals, requests, 7)
}

/// Catches: all drafts are as long as the longest; rows of drafts are free; prompts cost nothing,
/// or nothing for the draft model.
#[test]
fn a_step_takes_its_passes() {
    let table = usual();
    let costs = StepCosts { table: &table, passes: DraftPasses::Each };
    let work = |drafts| StepWork { drafts, context: 10, ..StepWork::default() };
    // Drafts of 3, 1 and 0 tokens: passes of the draft model over 2, 1 and 1 requests.
    let ms = costs.step(&work(&[3, 1, 0]));
    let drafting = |batch: usize| 0.25 + 0.25 * (batch - 1) as f64 / 7.0;
    assert!((ms.draft - drafting(2) - 2.0 * drafting(1)).abs() < 1e-12);
    // The target: 7 rows of 3 requests.
    let rows = (7.0 / 3.0 - 1.0) / 10.0;
    let (one, eight) = (1.0 + rows * 1.0, 2.0 + rows * 8.0);
    assert!((ms.target - one - (eight - one) * 2.0 / 7.0).abs() < 1e-12);
    assert_eq!(ms.outside, 0.0);
    let plain = StepCosts { passes: DraftPasses::None, ..costs }.step(&work(&[3, 1, 0]));
    assert_eq!((plain.draft, plain.target), (0.0, ms.target));
    // A block: one pass over the two requests that draft.
    let block = StepCosts { passes: DraftPasses::One, ..costs }.step(&work(&[3, 1, 0]));
    assert!((block.draft - drafting(2)).abs() < 1e-12);
    // A prompt of 6 tokens alone: rows like others, and a quarter of the time for the draft model.
    let prompt = StepWork { prefills: 1, prefill_rows: 6, ..StepWork::default() };
    let ms = costs.step(&prompt);
    assert!((ms.target - 1.5).abs() < 1e-12 && (ms.draft - 0.375).abs() < 1e-12, "{ms:?}");
    // Where the costs of prompts are known, they are added.
    let mut known = usual();
    for (rows, ms) in [(1, 0.5), (9, 0.9)] {
        let what = "prefill".to_owned();
        known.add(CostRow { what, rows, context: 1, batch: 1, shared: 0, ms }).unwrap();
    }
    let costs = StepCosts { table: &known, passes: DraftPasses::None };
    let both = costs.step(&StepWork { drafts: &[0], prefills: 1, prefill_rows: 5, context: 2 });
    assert!((both.target - 1.0 - 0.7).abs() < 1e-12, "{both:?}");
    assert_eq!(costs.step(&StepWork::default()).total(), 0.0);
}

/// Catches: a draw above the survival accepts; drafts are longer than the rest of the completion.
#[test]
fn draws_accept_what_the_tape_says() {
    let sequence = sequence(0.5);
    for (rule, survival) in
        [(AcceptanceRule::Token, [0.5, 0.25]), (AcceptanceRule::Block, [0.5, 0.25])]
    {
        let sequence = odds(&sequence, rule);
        let at = |token, drafted, uniform| {
            sequence.accepted(RequestProgress { token, round: 0 }, drafted, uniform)
        };
        assert_eq!(at(0, 2, survival[0] + 1e-9), 0);
        assert_eq!(at(0, 2, survival[0] - 1e-9), 1);
        assert_eq!(at(0, 2, survival[1] - 1e-9), 2);
        assert_eq!(at(0, 1, 0.0), 1);
        // The last token is the target's.
        assert_eq!(sequence.drafted(RequestProgress { token: 38, round: 9 }, 4), 1);
        assert_eq!(sequence.drafted(RequestProgress { token: 39, round: 9 }, 4), 0);
    }
}

/// Catches: rounds emit no token of the target's; a client never waits; time without load counts as
/// loaded.
#[test]
fn drafts_that_always_survive_take_one_round_each() {
    let sequence = sequence(1.0);
    let sequences = [odds(&sequence, AcceptanceRule::Token)];
    let table = usual();
    let run = served(&sequences, &table, ("fixed", 4), Arrivals::Clients(1), 2);
    // 40 tokens by fives; the first of two requests ends when the load does.
    assert_eq!((run.rounds, run.drafted, run.accepted), (16, 64, 64));
    // All but the last of the prompt's tokens in a step of 1.3 ms and a quarter of it, then rounds
    // of 1.4 ms and four drafts of 0.25 ms.
    let request = run.requests[0];
    assert!((request.prefilled - 1.3 * 1.25).abs() < 1e-9, "{request:?}");
    assert!((request.first - request.prefilled - 2.4).abs() < 1e-9);
    assert!((request.finished - request.prefilled - 8.0 * 2.4).abs() < 1e-9);
    assert_eq!(run.requests[1].arrived, request.finished);
    let (tokens, ms) = run.under_load();
    assert_eq!((tokens, ms), (40.0, request.finished));
    assert!((run.busy_ms - run.span_ms()).abs() < 1e-9);
}

/// Catches: the gaps between requests are uniform, not exponential.
#[test]
fn requests_that_come_at_a_rate_come_at_that_rate() {
    let sequence = sequence(1.0);
    let sequences = [odds(&sequence, AcceptanceRule::Token)];
    let table = usual();
    let run = served(&sequences, &table, ("plain", 1), Arrivals::Rate(20.0), 4000);
    let mut arrived = run.requests.iter().map(|request| request.arrived).collect::<Vec<_>>();
    arrived.sort_by(f64::total_cmp);
    let gaps = arrived.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<_>>();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    // 50 ms with a deviation as large, over 4000 gaps: 0.8 ms at 1 standard error.
    assert!((mean - 50.0).abs() < 4.0, "{mean}");
    // Of exponential gaps, 1 − 1/e are below the mean.
    let short = gaps.iter().filter(|&&gap| gap < 50.0).count() as f64 / gaps.len() as f64;
    assert!((short - 0.632).abs() < 0.04, "{short}");
    assert!(run.requests.iter().all(|request| request.finished >= request.arrived + 40.0));
}

/// A step in which some requests decode, with drafts of at most 8 tokens.
fn step<'s>(requests: &'s [DecodingRequest], costs: StepCosts<'s>) -> ServerStep<'s> {
    let work = StepWork { context: 10 * requests.len(), ..StepWork::default() };
    ServerStep { requests, costs, work }
}

fn rounds(requests: &[DecodingRequest], drafts: &[usize], accepted: &[usize]) -> Vec<ServedRound> {
    let each = requests.iter().zip(drafts).zip(accepted);
    let round = |((request, &drafted), &accepted): ((&DecodingRequest, &usize), &usize)| {
        let (request, accepted) = (request.number, accepted.min(drafted));
        ServedRound {
            request,
            drafted,
            accepted,
            emitted: accepted + 1,
            draft_ms: 1.0,
            verify_ms: 1.0,
        }
    };
    each.map(round).collect()
}

/// Catches: a policy never tries drafts again; a budget forgets whose drafts survived.
#[test]
fn policies_draft_more_where_drafts_survive_and_come_back() {
    let table = usual();
    let costs = StepCosts { table: &table, passes: DraftPasses::None };
    let sequence = sequence(0.9);
    let sequences = [odds(&sequence, AcceptanceRule::Token)];
    let (table, outlook) = (&table, &Outlook::of(&sequences, DraftPasses::None));
    let params = PolicyParams { outlook, table, k: 8, max_batch: 8, settings: &Params::default() };
    let requests = [0, 1].map(|number| request(number, 8));
    for name in ["goodput", "budget"] {
        let mut policy = policy(name, &params);
        let mut after = |accepted: [usize; 2]| {
            for _ in 0..2000 {
                let drafts = policy.drafts(&step(&requests, costs));
                policy.observe(&rounds(&requests, &drafts, &accepted));
            }
            policy.drafts(&step(&requests, costs))
        };
        assert_eq!(after([8, 8]), [8, 8], "{name}");
        let none = after([0, 0]);
        assert!(none.iter().sum::<usize>() <= 2, "{name}: {none:?}");
        // After some steps without drafts it tries again, and learns that they survive.
        assert_eq!(after([8, 8]), [8, 8], "{name}");
        // No request drafts more tokens than it may.
        let short = [0, 1].map(|number| request(number, 2));
        let drafts = policy.drafts(&step(&short, costs));
        if name == "budget" {
            assert_eq!(drafts, [2, 2]);
            let mut uneven = policy_with_history(&params, &requests);
            let drafts = uneven.drafts(&step(&requests, costs));
            assert!(drafts[0] > drafts[1], "{drafts:?}");
        }
    }
}

/// Catches: a step forgets once for each request.
#[test]
fn a_large_batch_forgets_no_faster_than_a_small_one() {
    // A step costs the same at every batch, so drafts pay equally soon in both.
    let table = table(&[("", 1, 1, 1, 1.0), ("", 11, 1, 1, 2.0)]);
    let costs = StepCosts { table: &table, passes: DraftPasses::None };
    let sequence = sequence(0.9);
    let outlook = &Outlook::of(&[odds(&sequence, AcceptanceRule::Token)], DraftPasses::None);
    let params =
        PolicyParams { outlook, table: &table, k: 8, max_batch: 8, settings: &Params::default() };
    for name in ["goodput", "budget"] {
        // Steps with drafts among 4000, none of which is accepted.
        let tries = |batch: usize| {
            let requests = (0..batch).map(|number| request(number, 8));
            let requests = requests.collect::<Vec<_>>();
            let mut policy = policy(name, &params);
            let mut tries = 0;
            for _ in 0..4000 {
                let drafts = policy.drafts(&step(&requests, costs));
                tries += usize::from(drafts.iter().any(|&drafted| drafted > 0));
                policy.observe(&rounds(&requests, &drafts, &vec![0; batch]));
            }
            tries
        };
        let (small, large) = (tries(1), tries(8));
        // A step of eight requests is more evidence than one of a single request.
        assert!(large > 0 && 2 * large <= small, "{name}: {small} {large}");
    }
}

/// A budget after rounds in which the first request's drafts survived and the second's did not.
fn policy_with_history(
    params: &PolicyParams<'_>,
    requests: &[DecodingRequest],
) -> Box<dyn ServingPolicy> {
    let mut budget = policy("budget", params);
    for _ in 0..50 {
        budget.observe(&rounds(requests, &[4, 4], &[4, 0]));
    }
    budget
}

/// Catches: every batch has the K of a request alone.
#[test]
fn the_table_drafts_less_in_larger_batches() {
    let table = usual();
    let costs = StepCosts { table: &table, passes: DraftPasses::Each };
    let sequence = sequence(0.7);
    let sequences = [odds(&sequence, AcceptanceRule::Token)];
    let (table, outlook) = (&table, &Outlook::of(&sequences, DraftPasses::Each));
    let params = PolicyParams { outlook, table, k: 8, max_batch: 8, settings: &Params::default() };
    let mut by_batch = policy("table", &params);
    let mut k = |batch: usize| {
        let requests = (0..batch).map(|number| request(number, 8));
        let requests = requests.collect::<Vec<_>>();
        by_batch.drafts(&step(&requests, costs))[0]
    };
    let ks = [1, 2, 4, 8].map(&mut k);
    assert!(ks.windows(2).all(|pair| pair[0] >= pair[1]) && ks[0] > ks[3], "{ks:?}");
    assert_eq!(ks[0], outlook.best(table, 8, 1).0);
}

/// Catches: rounds that the log lacks are left out.
#[test]
fn logged_rounds_come_as_they_were() {
    let round = |accepted, drafted| LoggedRound { accepted, drafted };
    let log = TapeLog {
        drafter: 0,
        prompt: "p".to_owned(),
        category: String::new(),
        verifier: None,
        sampling: 0,
        prompt_tokens: 1,
        tokens: 9,
        rounds: vec![round(3, 3), round(0, 2), round(2, 3)],
        sequence: None,
        unordered: false,
    };
    let sequence = SimulatedSequence::logged(&log);
    // A token that no round has emitted comes first.
    let drafted = (0..4).map(|round| sequence.drafted(RequestProgress { token: 0, round }, 8));
    assert_eq!(drafted.collect::<Vec<_>>(), [0, 3, 2, 3]);
    let accepted =
        |round, drafted| sequence.accepted(RequestProgress { token: 0, round }, drafted, 0.9);
    assert_eq!([accepted(1, 3), accepted(1, 2), accepted(2, 2), accepted(3, 3)], [3, 2, 0, 2]);
    let unordered = TapeLog { unordered: true, ..log };
    let shuffled = SimulatedSequence::logged(&unordered);
    let mut drafted = (0..4)
        .map(|round| shuffled.drafted(RequestProgress { token: 0, round }, 8))
        .collect::<Vec<_>>();
    drafted.sort_unstable();
    assert_eq!(drafted, [0, 2, 3, 3]);
}

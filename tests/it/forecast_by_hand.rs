//! Forecasts of a few short completions, with all numbers worked out by hand.

use serde::Serialize;
use specdec::core::params::{self, Params};
use specdec::core::sampling::SamplingParams;
use specdec::run::report::SpeedVerdict;
use specdec::tapes::forecasting::{
    CostSetting, CostTable, Costed, DraftedRound, ForecastCell, ForecastRow, TreeShape, best,
    doubts, forecast_cells, nearer_drafts, tuned_drafts, verdict,
};
use specdec::tapes::tape::{
    AcceptanceRule, DraftPasses, DraftStart, MAX_SIBLINGS, SiblingKind, SiblingScores, TAPE_FORMAT,
    Tape, TapeDrafter, TapeEnd, TapeHeader, TapeLine, TapeModel, TapeScore, TapeSequence,
};

use crate::fixtures::near;
use crate::simulation::table;
use crate::tape_support::sequence_of;

/// Asserts that two rows have the same fields, numbers up to the rounding of a few sums.
#[track_caller]
pub(crate) fn same_row<T: Serialize>(found: &T, expected: &T) {
    let fields = |row: &T| serde_json::to_value(row).unwrap();
    let (found, expected) = (fields(found), fields(expected));
    for (name, own) in found.as_object().unwrap() {
        let same = match (own.as_f64(), expected[name].as_f64()) {
            (Some(a), Some(b)) => (a - b).abs() <= 1e-12 * b.abs().max(1.0),
            _ => *own == expected[name],
        };
        assert!(same, "{name} is {own}, not {}", expected[name]);
    }
}

/// A tape of a target and one sampling setting.
pub(crate) fn tape_of(target: TapeModel, sampling: SamplingParams) -> Tape {
    let samplings = vec![sampling];
    let (source, build) = ("plain".to_owned(), String::new());
    let (format, seed, ignore_eos) = (TAPE_FORMAT, None, true);
    Tape::new(TapeHeader { format, source, build, target, seed, ignore_eos, samplings }).unwrap()
}

fn model(params: Params) -> TapeDrafter {
    let model = Some(TapeModel { name: "small".to_owned(), ..TapeModel::default() });
    TapeDrafter { drafter: "model".to_owned(), model, params, ..TapeDrafter::default() }
}

/// A completion that was cut: its prompt, the number of its prompt tokens, and q/p at its tokens but
/// the last, which no draft has.
pub(crate) type Completion<'a> = (&'a str, usize, &'a [f64]);

/// Tokens of a prompt by its name, since equal prompts count as one.
pub(crate) fn prompt_of(name: &str, tokens: usize) -> Vec<u32> {
    name.bytes().cycle().take(tokens).map(u32::from).collect()
}

fn sequence((prompt, prompt_tokens, ratios): Completion<'_>) -> TapeSequence {
    let tokens = ratios.len() + 1;
    let sequence = sequence_of(&prompt_of(prompt, prompt_tokens), vec![1; tokens], tokens);
    TapeSequence { prompt: prompt.to_owned(), log_p: Some(vec![-1.0; tokens]), ..sequence }
}

/// What a drafter with these ratios q/p scores.
pub(crate) fn score(drafter: usize, sequence: usize, ratios: &[f64]) -> TapeLine {
    let log_q = ratios.iter().chain([&1.0]).map(|ratio| ratio.ln() - 1.0);
    let log_q = Some(log_q.collect());
    TapeLine::Score(TapeScore { drafter, sequence, log_q, ..TapeScore::default() })
}

/// Completions and a draft model that has scored them.
pub(crate) fn tape(completions: &[Completion<'_>]) -> Tape {
    let mut tape = tape_of(TapeModel::default(), SamplingParams::default());
    tape.add(TapeLine::Drafter(model(Params::default()))).unwrap();
    for (number, completion) in completions.iter().enumerate() {
        tape.add(TapeLine::Sequence(sequence(*completion))).unwrap();
        tape.add(score(0, number, completion.2)).unwrap();
    }
    tape
}

/// The cell of rejection sampling with this K.
pub(crate) fn rejection(cells: &[ForecastCell], k: usize) -> &ForecastCell {
    let own =
        |cell: &&ForecastCell| (cell.config.rule, cell.config.k) == (AcceptanceRule::Token, k);
    cells.iter().find(own).unwrap()
}

/// Two completions of one prompt and a longer one of another.
///
/// With K = 2, a completion of "a" keeps its only drafted token with probability 0.5, and else has a
/// second round without a draft. That of "b" keeps one token or more with probability 0.8 and both
/// with 0.2. Its second round begins at token 1 with probability 0.2, where the only drafted token
/// is kept with probability 0.25, and its last one at token 2 with probability 0.6 + 0.2 · 0.75.
pub(crate) const THREE: [Completion<'_>; 3] =
    [("a", 3, &[0.5]), ("a", 3, &[0.5]), ("b", 5, &[0.8, 0.25])];

/// A pass takes 10 ms and 2 ms for each further row and 1 ms for each further token of context. One
/// of the draft takes 1 ms and 0.1 ms per token, all else 0.5 ms and 0.1 ms per row.
fn costs() -> CostTable {
    table(&[
        ("target", 1, 1, 1, 10.0),
        ("target", 3, 1, 1, 14.0),
        ("target", 1, 11, 1, 20.0),
        ("target", 3, 11, 1, 24.0),
        ("draft", 1, 1, 1, 1.0),
        ("draft", 1, 11, 1, 2.0),
        ("outside", 1, 1, 1, 0.5),
        ("outside", 3, 1, 1, 0.7),
    ])
}

/// Catches: times ignore the prompt's length or what happens outside passes; a pass has no row for
/// the bonus token; plain decoding takes a step only where a round begins; the tokens of completions
/// are those before the cut; drafted tokens that nothing reaches count as reached.
#[test]
fn a_row_of_a_forecast_has_the_numbers_of_a_hand_count() {
    let (tape, table) = (tape(&THREE), costs());
    let settings = [None, Some(1)].map(|context| CostSetting { batch: 1, context });
    let costed = Costed { table: &table, settings: &settings };
    let cells = forecast_cells(&tape, &[], Some(&costed));
    let found = ForecastRow::all(&tape, rejection(&cells, 2), &settings);
    // a: 26 ms alone; 15.8 ms for the first round, and 13.5 ms for the other. b: 14.5 + 15.5 + 16.5
    // alone, and rounds of 21.5, 19.1 and 16.5 ms.
    let own = (2.0 * 26.0 + 46.5) / (2.0 * (15.8 + 0.5 * 13.5) + 21.5 + 0.2 * 19.1 + 0.75 * 16.5);
    // After one token: steps of 10.5 ms, rounds of 13.6 ms and 16.7 ms.
    let first = 7.0 * 10.5 / (2.0 * (13.6 + 0.5 * 10.5) + 16.7 + 0.2 * 13.6 + 0.75 * 10.5);
    for ((row, setting), speedup) in found.iter().zip(settings).zip([own, first]) {
        let expected = ForecastRow {
            drafter: "model".to_owned(),
            draft: "small".to_owned(),
            verifier: "rejection".to_owned(),
            num_speculative_tokens: 2,
            batch: Some(1),
            context: setting.context,
            texts: 3,
            prompts: 2,
            tokens: 7.0,
            loop_share: Some(0.0),
            rounds: 2.0 * 1.5 + 1.95,
            accepted: 2.0 * 0.5 + 1.05,
            proposed: 2.0 * 1.0 + 2.2,
            proposed_lo: 4.2,
            proposed_hi: 4.2,
            block_efficiency: Some(1.0 + 2.05 / 4.95),
            tokens_per_round: Some(7.0 / 4.95),
            acceptance_rate: Some(2.05 / 4.2),
            // Reached: 2 · 1 + 1.2 first tokens and 0.8 second ones; kept: 1.85 and 0.2.
            conditional_acceptance: Some(2.05 / 4.0),
            survival: "0.578125 0.144531".to_owned(),
            speedup: Some(speedup),
            ..ForecastRow::default()
        };
        same_row(row, &expected);
    }
    assert_eq!(found.len(), 2);
    let round = |tokens, passes| DraftedRound { tokens, passes };
    let (tokens, rounds) = rejection(&cells, 2).totals(DraftPasses::Each);
    assert_eq!((tokens, rounds.len()), (7.0, 3));
    for ((found, count), (tokens, expected)) in
        rounds.into_iter().zip([(0, 1.75), (1, 2.2), (2, 1.0)])
    {
        // Every drafted token takes a pass of the draft model.
        assert_eq!(found, round(tokens, tokens));
        near(count, expected);
    }
    let at_once = rejection(&cells, 2).totals(DraftPasses::One).1;
    assert!(at_once.iter().all(|(round, _)| round.passes == round.tokens.min(1)));
    assert!(
        rejection(&cells, 2).totals(DraftPasses::None).1.iter().all(|(round, _)| round.passes == 0)
    );
}

/// Catches: tokens per round count an accepted token that ended the completion twice.
#[test]
fn the_end_of_a_completion_cuts_its_tokens_per_round() {
    let mut tape = tape_of(TapeModel::default(), SamplingParams::default());
    tape.add(TapeLine::Drafter(model(Params::default()))).unwrap();
    // One token that ended it, drafted with probability 0.5 of acceptance.
    let ended = TapeSequence { max_tokens: 3, end: TapeEnd::Token, ..sequence(("a", 3, &[])) };
    tape.add(TapeLine::Sequence(ended)).unwrap();
    let log_q = Some(vec![0.5_f64.ln() - 1.0]);
    tape.add(TapeLine::Score(TapeScore { log_q, ..TapeScore::default() })).unwrap();
    let row = ForecastRow::of(&tape, rejection(&forecast_cells(&tape, &[], None), 1), (0, None));
    near(row.block_efficiency.unwrap(), 1.5);
    near(row.tokens_per_round.unwrap(), 1.0);
}

/// Catches: a tree takes a pass of the draft for each of its nodes; its depth is not cut.
#[test]
fn a_tree_takes_a_pass_for_each_level() {
    let mut tape = tape(&[("a", 3, &[0.5, 0.5])]);
    // Two siblings have neither the first token nor any child; the second token is one of them.
    let siblings = SiblingScores {
        independent: vec![[0.0; MAX_SIBLINGS]; 3],
        distinct: vec![0.0; 3],
        rank: vec![9, 1, 0],
    };
    tape.add(TapeLine::Drafter(model(Params::default()))).unwrap();
    let (log_q, siblings) = (Some(vec![-1.0; 3]), Some(siblings));
    let score = TapeScore { drafter: 1, log_q, siblings, ..TapeScore::default() };
    tape.add(TapeLine::Score(score)).unwrap();
    let shape = TreeShape { siblings: SiblingKind::TopK, children: vec![2, 1] };
    let (table, settings) = (costs(), [CostSetting { batch: 1, context: Some(1) }]);
    let costed = Costed { table: &table, settings: &settings };
    let cells = forecast_cells(&tape, &[shape], Some(&costed));
    let cell = cells.iter().find(|cell| cell.config.tree.is_some()).unwrap();
    // Four nodes on two levels, then two nodes: passes of 5 and 3 rows.
    let round = |tokens, passes| (DraftedRound { tokens, passes }, 1.0);
    assert_eq!(cell.totals(DraftPasses::Each), (3.0, vec![round(2, 1), round(4, 2)]));
    let drafted = (18.0 + 0.9 + 2.0) + (14.0 + 0.7 + 1.0);
    near(cell.speedup(0).unwrap().value().unwrap(), 3.0 * 10.5 / drafted);
    let row = ForecastRow::of(&tape, cell, (0, Some(settings[0])));
    assert_eq!((&*row.tree, row.proposed, row.accepted), ("2,1 top_k", 6.0, 1.0));
}

/// Catches: both bounds are the lower one.
#[test]
fn drafts_that_a_policy_ends_have_bounds() {
    let mut tape = tape_of(TapeModel::default(), SamplingParams::default());
    tape.add(TapeLine::Sequence(sequence(("a", 3, &[0.5, 0.5])))).unwrap();
    let drafter = TapeDrafter { length: Some("entropy".to_owned()), ..model(Params::default()) };
    tape.add(TapeLine::Drafter(TapeDrafter { most: Some(2), ..drafter })).unwrap();
    // The policy ends a draft after a token of the completion, kept with probability 0.5.
    let start = DraftStart { drafted: 1, log_q: vec![0.5_f64.ln() - 1.0] };
    let starts = Some(vec![start.clone(), start.clone(), DraftStart { log_q: vec![], ..start }]);
    tape.add(TapeLine::Score(TapeScore { starts, ..TapeScore::default() })).unwrap();
    let cells = forecast_cells(&tape, &[], None);
    let row = ForecastRow::of(&tape, rejection(&cells, 2), (0, None));
    // The first draft has one token if it is kept and else one or two; the second, which begins with
    // probability 0.5, has room for one.
    let proposed = [row.proposed, row.proposed_lo, row.proposed_hi];
    proposed.into_iter().zip([1.5, 1.5, 2.0]).for_each(|(a, b)| near(a, b));
}

/// Catches: the first batch that pays counts as the last one.
#[test]
fn drafts_pay_until_the_last_batch_that_gains() {
    // A pass of two rows takes 1.15 steps alone and 0.1 more for each further sequence.
    let costs = |slope: f64| {
        table(&[
            ("", 1, 1, 1, 1.0),
            ("", 2, 1, 1, 1.15),
            ("", 1, 1, 9, 1.0),
            ("", 2, 1, 9, 1.15 + 8.0 * slope),
        ])
    };
    let drafts = [(3.0, vec![(DraftedRound { tokens: 1, passes: 0 }, 2.0)])];
    // Two rounds for three tokens: they gain if a round takes less than 1.5 steps.
    assert_eq!(costs(0.1).pays_until(&drafts, 1, 1..=9), Some(5));
    assert_eq!(costs(0.1).pays_until(&drafts, 1, 6..=9), Some(6), "no batch pays");
    assert_eq!(costs(0.01).pays_until(&drafts, 1, 1..=9), None, "all batches pay");
}

/// Catches: passes of the draft are free; only K = 1 is tried; a tie pays.
#[test]
fn the_break_even_is_the_smallest_acceptance_that_gains() {
    let costs = |draft| table(&[("", 1, 1, 1, 1.0), ("", 2, 1, 1, 1.1), ("draft", 1, 1, 1, draft)]);
    // With K = 1 a round takes 1.1505 steps.
    assert_eq!(costs(0.0505).break_even(1, (1, 1)), Some(0.151));
    // K = 1 needs α > 0.1, K = 2 already α + α² > 0.2.
    assert_eq!(costs(0.0).break_even(8, (1, 1)), Some(0.101));
    assert_eq!(costs(1.0).break_even(3, (1, 1)), None, "no acceptance is enough");
    // Passes of any draft take 1.2 steps: eight tokens are the best.
    let flat = table(&[("", 1, 1, 1, 1.0), ("", 2, 1, 1, 1.2), ("", 9, 1, 1, 1.2)]);
    assert_eq!(flat.break_even(8, (1, 1)), Some(0.167));
    assert_eq!(flat.break_even(1, (1, 1)), Some(0.201));
}

/// Catches: the wealth is that of the best bet alone, or its natural logarithm.
#[test]
fn a_doubt_states_the_mean_and_the_wealth_of_the_bets() {
    let found = doubts(&tape(&[("a", 1, &[1.5; 200]), ("b", 1, &[1.5; 200])]));
    // The last token of each has q/p = 1. The boldest bet gains a tenth on each of 400 tokens.
    near(found[0].mean, (400.0 * 1.5 + 2.0) / 402.0);
    let wealth = (400.0 * 1.1_f64.ln() - 3.0_f64.ln()) / 10.0_f64.ln();
    assert!((found[0].log10_wealth - wealth).abs() < 1e-9, "{found:?}");
    assert_eq!((found.len(), found[0].drafter, found[0].sampling), (1, 0, 0));
    assert_eq!(doubts(&tape(&[("a", 1, &[1.5; 20])])), [], "twenty tokens are no evidence");
}

/// Catches: τ lacks the target's token; only q moves and not q/p; the verifiers are exchanged.
#[test]
fn a_draft_moved_halfway_has_half_the_distance() {
    let found = nearer_drafts(&tape(&[("a", 3, &[0.5]), ("b", 5, &[1.6, 0.25])]), 2);
    assert_eq!(found.iter().map(|row| row.share).collect::<Vec<_>>(), [0.0, 0.25, 0.5, 0.75, 1.0]);
    // Accepted tokens and rounds. Halfway, q/p is 0.75 in "a", and 1.3 and 0.625 in "b": block
    // verification accepts the second token of "b" with probability 1.3 · 0.625.
    let tau = |accepted: f64, rounds: f64| 1.0 + accepted / rounds;
    near(found[0].rejection, tau(0.5 + 1.25, 1.5 + 1.75));
    near(found[0].traversal, tau(0.5 + 1.4, 1.5 + 1.6));
    near(found[2].rejection, tau(0.75 + 1.625, 1.25 + 1.375));
    near(found[2].traversal, tau(0.75 + 1.8125, 1.25 + 1.1875));
    for own in [found[4].rejection, found[4].traversal] {
        near(own, tau(1.0 + 2.0, 1.0 + 1.0));
    }
}

/// A draft model that has scored four prompts with two settings, of which the second is better on
/// the first and the third prompt.
pub(crate) fn scored_twice() -> Tape {
    let mut tape = tape_of(TapeModel::default(), SamplingParams::default());
    let cooler = Params::default().with("draft_temperature", params::Value::Number(0.7));
    for drafter in [model(Params::default()), model(cooler)] {
        tape.add(TapeLine::Drafter(drafter)).unwrap();
    }
    for (number, (prompt, other)) in
        [("a", 0.9), ("b", 0.2), ("c", 0.9), ("d", 0.2)].iter().enumerate()
    {
        tape.add(TapeLine::Sequence(sequence((prompt, 3, &[0.5])))).unwrap();
        tape.add(score(0, number, &[0.5])).unwrap();
        tape.add(score(1, number, &[*other])).unwrap();
    }
    tape
}

/// Catches: prompts are judged with the setting that they chose.
#[test]
fn a_tuned_draft_is_judged_on_the_other_half_of_the_prompts() {
    let tape = scored_twice();
    let found = tuned_drafts(&tape, &forecast_cells(&tape, &[], None), 1);
    let found = found.iter().find(|tuned| tuned.verifier == "rejection").unwrap();
    assert_eq!(found.chosen, ["the target's", "draft_temperature = 0.7"]);
    // Each completion has two tokens, in 1.5 or 1.8 rounds.
    near(found.tuned, 8.0 / (2.0 * 1.5 + 2.0 * 1.8));
    near(found.untuned, 8.0 / 6.0);
    near(found.ratio, 6.0 / 6.6);
    assert_eq!((found.num_speculative_tokens, found.lo, found.hi), (1, None, None));
}

/// Eight prompts with acceptances around this one, and how fast they would be by these costs.
fn judged(acceptance: f64, costs: &CostTable) -> (SpeedVerdict, ForecastRow) {
    let ratios = (0..8).map(|i| [acceptance * (1.0 + 0.06 * f64::from(i % 3 - 1)); 9]);
    let ratios = ratios.collect::<Vec<_>>();
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let all = names.into_iter().zip(&ratios).map(|(name, ratios)| (name, 3, &ratios[..]));
    let tape = tape(&all.collect::<Vec<_>>());
    let settings = [CostSetting { batch: 1, context: None }];
    let cells = forecast_cells(&tape, &[], Some(&Costed { table: costs, settings: &settings }));
    let best = best(&cells, 0).unwrap();
    (verdict(best, 0), ForecastRow::of(&tape, best, (0, Some(settings[0]))))
}

/// Catches: an interval that contains 1 decides; the best cell has a larger K or a later rule than
/// another that is as fast; the ends of intervals are exchanged.
#[test]
fn a_forecast_is_decided_by_its_whole_interval() {
    // A round with one drafted token takes 1.5 steps: acceptances of 0.5 decide nothing.
    let costs = table(&[
        ("", 1, 1, 1, 1.0),
        ("", 2, 1, 1, 1.5),
        ("", 3, 1, 1, 2.5),
        ("draft", 1, 1, 1, 0.0),
    ]);
    for (acceptance, expected) in
        [(0.9, SpeedVerdict::Faster), (0.5, SpeedVerdict::Undecided), (0.3, SpeedVerdict::Slower)]
    {
        let (found, row) = judged(acceptance, &costs);
        assert_eq!(found, expected, "{row:?}");
        // With one drafted token, block verification is rejection sampling.
        assert_eq!((row.num_speculative_tokens, &*row.verifier), (1, "rejection"));
        for (value, lo, hi) in [
            (row.block_efficiency, row.block_efficiency_lo, row.block_efficiency_hi),
            (
                row.conditional_acceptance,
                row.conditional_acceptance_lo,
                row.conditional_acceptance_hi,
            ),
            (row.speedup, row.speedup_lo, row.speedup_hi),
        ] {
            assert!(lo.unwrap() < value.unwrap() && value < hi, "{row:?}");
        }
    }
}

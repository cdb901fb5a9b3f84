//! Statistics, compared with counts by hand.

use specdec::measure::rows::{Calibration, CellCosts, PassCost, RoundRow};
use specdec::measure::statistics::*;

use crate::synthetic::Synthetic;

pub(crate) fn round(proposed: usize, accepted: usize) -> RoundRow {
    let reached = proposed.min(accepted + 1);
    RoundRow {
        cell: "c".into(),
        prompt: "p".into(),
        repeat: 0,
        round: 0,
        context_tokens: 1,
        proposed,
        depth: proposed,
        accepted,
        emitted: accepted + 1,
        truncated: false,
        reached,
        overlap_sum: 0.5 * reached as f64,
        forks: reached,
        ceiling_sum: Some(0.5 * reached as f64),
        tv_sum: None,
        residual_fallbacks: 0,
        draft_forwards: proposed,
        draft_us: 1.0,
        target_us: 1.0,
        verify_us: 1.0,
        other_us: 1.0,
        accepted_raw: Some(accepted),
        experts: Some(0),
    }
}

/// The rounds as the report keeps them.
pub(crate) fn reduced(rows: &[RoundRow]) -> Box<Rounds> {
    let mut rounds = Box::<Rounds>::default();
    rows.iter().for_each(|row| assert!(rounds.add(row)));
    rounds
}

pub(crate) fn sample(prompt: &str, decode_us: f64, rounds: Vec<RoundRow>) -> Sample {
    Sample {
        prompt: prompt.into(),
        original: prompt.into(),
        timed_with: prompt.into(),
        category: "code".into(),
        repeat: 0,
        new_tokens: rounds.iter().map(|r| r.emitted).sum(),
        behind_end: 0,
        looped: 0,
        thinking: None,
        target_forwards: rounds.len(),
        draft_forwards: 0,
        prefill_us: 0.0,
        decode_us,
        elapsed_us: decode_us,
        first_divergence: None,
        text: 0,
        beam: None,
        rounds: reduced(&rounds),
        timed: true,
    }
}

/// A full acceptance, a rejection at position 2, one at position 1 of a shorter
/// draft, and a round without a draft.
fn four_rounds() -> Vec<RoundRow> {
    vec![round(3, 3), round(3, 1), round(2, 0), round(0, 0)]
}

/// Asserts that numbers are equal up to the order of a few additions.
#[track_caller]
fn close(a: f64, b: f64) {
    assert!((a - b).abs() < 1e-12, "{a} is not {b}");
}

#[test]
fn acceptance_matches_a_hand_count() {
    let sums = Acceptance::of(&four_rounds());
    assert_eq!((sums.rounds, sums.proposed, sums.accepted, sums.forks), (4, 8, 4, 6));
    assert_eq!(sums.acceptance_rate(), Some(0.5));
    assert_eq!(sums.alpha(), Some(0.5));
    assert_eq!(sums.block_efficiency(), Some(2.0));
}

#[test]
fn ceiling_and_tv_are_unknown_if_any_round_lacks_them() {
    // A round without a draft always has a known value.
    let known = [round(3, 1), round(0, 0)];
    let sums = Acceptance::of(&known);
    assert_eq!((sums.ceiling(), sums.share_of_ceiling()), (Some(0.5), Some(1.0)));
    let unknown = RoundRow { ceiling_sum: None, ..round(3, 1) };
    let sums = Acceptance::of(known.iter().chain([&unknown]));
    assert_eq!((sums.ceiling(), sums.share_of_ceiling()), (None, None));
    let near = RoundRow { tv_sum: Some(0.3), ..round(3, 1) };
    let idle = RoundRow { tv_sum: Some(0.0), ..round(0, 0) };
    close(Acceptance::of([&near, &idle]).tv().unwrap(), 0.1);
    assert_eq!(Acceptance::of([&near, &idle, &unknown]).tv(), None);
    let samples = [sample("a", 1.0, vec![near, idle]), sample("b", 1.0, vec![unknown])];
    assert_eq!((tv(&samples[..1]).is_some(), tv(&samples)), (true, None));
}

#[test]
fn trees_have_no_alpha() {
    // The first of several listed children is certain: a chain of the same models would
    // have drawn it from another distribution.
    let chain = round(3, 1);
    let tree = RoundRow { depth: 2, ..chain.clone() };
    assert_eq!(Acceptance::of([&chain]).alpha(), Some(0.5));
    let sums = Acceptance::of([&chain, &tree]);
    assert_eq!((sums.alpha(), sums.ceiling()), (None, Some(0.5)));
    assert_eq!(alpha(&[sample("a", 1.0, vec![chain, tree])]), None);
}

#[test]
fn acceptance_is_undefined_without_rounds_or_drafts() {
    let none = Acceptance::of(&[]);
    assert_eq!(none.acceptance_rate().or(none.alpha()).or(none.block_efficiency()), None);
    // A baseline has rounds and drafts nothing.
    assert_eq!(Acceptance::of(&[round(0, 0)]).acceptance_rate(), None);
}

/// Rows of format 2 count accepted tokens behind the end of the completion.
/// Catches: they count; the position behind the end was decided on.
#[test]
fn a_truncated_round_counts_what_the_completion_kept() {
    let cut = RoundRow { emitted: 1, truncated: true, accepted_raw: None, ..round(3, 2) };
    assert_eq!((cut.kept(), cut.raw()), (1, 2));
    let sums = Acceptance::of([&cut]);
    assert_eq!((sums.block_efficiency(), sums.acceptance_rate()), (Some(2.0), Some(1.0 / 3.0)));
    let survival = Survival::of(reduced(&[cut]).iter());
    assert_eq!((survival.positions(), survival.reached(1), survival.survived(1)), (1, 1, 1));
}

#[test]
fn survival_matches_a_hand_count() {
    let survival = Survival::of(reduced(&four_rounds()).iter());
    let counts = (1..=3).map(|i| (survival.reached(i), survival.survived(i))).collect::<Vec<_>>();
    assert_eq!(counts, [(3, 2), (2, 1), (1, 1)]);
    let curve = survival.curve();
    close(curve[0], 2.0 / 3.0);
    close(curve[1], 1.0 / 3.0);
    close(curve[2], 1.0 / 3.0);
    assert_eq!(survival.conditional(4), None);
}

#[test]
fn survival_never_rises_and_sums_to_the_accepted_tokens() {
    let rows = Synthetic::large().rows();
    // Full drafts only: shorter ones do not count in S(i) beyond their end.
    let full = rows
        .rounds
        .iter()
        .filter(|r| r.cell == "model-6-0.7" && r.proposed == 6)
        .cloned()
        .collect::<Vec<_>>();
    let curve = Survival::of(reduced(&full).iter()).curve();
    assert!(curve.windows(2).all(|pair| pair[1] <= pair[0]));
    let tau = Acceptance::of(&full).block_efficiency().unwrap();
    close(1.0 + curve.iter().sum::<f64>(), tau);
}

/// Catches: distances count from the wrong end, or a round's own tokens; rejected tokens count as
/// reached; bounds of ranges are off by one.
#[test]
fn acceptance_by_place_matches_a_hand_count() {
    assert_eq!(ranges(3), [(0, 0), (1, 1), (2, 2), (3, 3)]);
    assert_eq!(ranges(20)[8..], [(8, 8), (9, 16), (17, 20)]);
    let own = sample("p", 1.0, vec![round(3, 3), round(3, 1), round(1, 0), round(0, 0)]);
    let counts = |found: Vec<PlacedRounds>| {
        let counts =
            found.into_iter().map(|own| (own.rounds, own.drafted, own.reached, own.accepted));
        counts.collect::<Vec<_>>()
    };
    let by_length = placed(own.rounds.iter().map(|round| (round.depth, round)), &ranges(3));
    assert_eq!(
        (by_length[3].acceptance_rate(), by_length[2].acceptance_rate()),
        (Some(4.0 / 6.0), None)
    );
    assert_eq!(counts(by_length), [(1, 0, 0, 0), (1, 1, 1, 0), (0, 0, 0, 0), (2, 6, 5, 4)]);
    // The rounds begin 8, 4, 2 and 1 tokens before the end.
    assert!(distances([&own]).map(|(distance, _)| distance).eq([8, 4, 2, 1]));
    let by_distance = placed(distances([&own]), &[(1, 4), (5, 8)]);
    assert_eq!(by_distance[0].conditional(), Some(1.0 / 3.0));
    assert_eq!(counts(by_distance), [(3, 4, 3, 1), (1, 3, 3, 3)]);
}

#[test]
fn quantiles_interpolate_between_order_statistics() {
    assert_eq!(quantile(&[1.0, 2.0, 4.0], 0.75), Some(3.0));
    assert_eq!(quantile(&[7.0], 0.3), Some(7.0));
    assert_eq!(quantile(&[], 0.5), None);
    assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
    let values = (0..=100).rev().map(f64::from).collect::<Vec<_>>();
    let cuts = deciles(&values).unwrap();
    assert_eq!(cuts.map(|c| c.round()), std::array::from_fn(|i| 10.0 * i as f64));
}

#[test]
fn speedup_is_a_ratio_of_times_per_token() {
    let plain = [sample("a", 800.0, vec![round(0, 0); 4])];
    let cell = [sample("a", 600.0, vec![round(3, 2); 2])];
    let pairs = pair_by_prompt(&plain, &cell);
    // 200 µs per token against 100.
    assert_eq!(speedup(pairs.values()), Some(2.0));
    assert_eq!(tokens_per_second(&cell), Some(10_000.0));
    assert_eq!(forwards_per_token(&plain), Some(1.0));
}

#[test]
fn prompts_missing_on_one_side_do_not_count() {
    let plain =
        [sample("a", 400.0, vec![round(0, 0); 4]), sample("only plain", 1.0, vec![round(0, 0); 4])];
    let cell = [sample("a", 200.0, vec![round(3, 3)]), sample("only cell", 1e9, vec![round(3, 3)])];
    let pairs = pair_by_prompt(&plain, &cell);
    assert_eq!(pairs.keys().copied().collect::<Vec<_>>(), ["a"]);
    assert_eq!(speedup(pairs.values()), Some(2.0));
    let repeated = Sample { repeat: 1, ..cell[0].clone() };
    assert!(pair_by_prompt(&plain, &[repeated]).is_empty());
}

#[test]
fn a_clear_winner_wins_every_resample() {
    let plain = ["a", "b", "c"].map(|p| sample(p, 300.0, vec![round(0, 0)]));
    let cell = |us: f64| ["a", "b", "c"].map(|p| sample(p, us, vec![round(0, 0)]));
    let (slow, fast) = (cell(200.0), cell(100.0));
    let mut contest = Contest::default();
    contest.add(pair_by_prompt(&plain, &slow));
    contest.add(pair_by_prompt(&plain, &fast));
    contest.add(pair_by_prompt(&plain, &fast));
    let verdicts = contest.decide().unwrap();
    // The tie goes to the first of the two.
    assert_eq!((verdicts.best, contest.wins()), (1, Some(vec![0.0, 1.0, 0.0])));
    assert_eq!(Contest::default().decide(), None);
    let mut alone = Contest::default();
    alone.add(pair_by_prompt(&plain, &slow));
    assert_eq!(alone.decide(), Some(Verdicts { best: 0, left_out: vec![] }));
    assert_eq!(alone.wins(), None);
}

#[test]
fn a_failed_cell_does_not_remove_prompts_from_the_others() {
    let plain = ["a", "b", "c"].map(|p| sample(p, 300.0, vec![round(0, 0)]));
    let cell = |us: [f64; 3]| {
        let both = ["a", "b", "c"].into_iter().zip(us);
        both.map(|(p, us)| sample(p, us, vec![round(0, 0)])).collect::<Vec<_>>()
    };
    // On prompt a alone, the slower of the two complete cells is the faster one.
    let (slow, fast) = (cell([50.0, 200.0, 200.0]), cell([60.0, 100.0, 100.0]));
    let failed = &cell([10.0; 3])[..1];
    let mut contest = Contest::default();
    contest.add(pair_by_prompt(&plain, failed));
    contest.add(pair_by_prompt(&plain, &slow));
    contest.add(pair_by_prompt(&plain, &fast));
    let verdicts = contest.decide().unwrap();
    assert_eq!((verdicts.best, verdicts.left_out), (2, vec![0]));
    let wins = contest.wins().unwrap();
    assert!(wins[0] == 0.0 && wins[2] > 0.9, "{wins:?}");
}

/// A calibration in which T(2) was not timed: it lies between T(1) and T(3).
fn calibration() -> Calibration {
    let pass = |rows, us| PassCost { rows, us, ..PassCost::default() };
    let passes = vec![pass(1, 100.0), pass(3, 120.0), pass(4, 130.0)];
    Calibration { passes, ..Calibration::default() }
}

fn costs(passes: &Calibration) -> Costs<'_> {
    let draft_us_per_token = Some(10.0);
    let cell = CellCosts { draft_us_per_token, verify_us: 3.0, other_us: 2.0, spread: None };
    Costs { passes, plain_us: 105.0, cell }
}

#[test]
fn the_calibrated_speedup_follows_the_formula() {
    // Long generations, so that no draft is cut: S = (3/4, 1/2, 1/4).
    let rounds = vec![round(3, 3), round(3, 2), round(3, 1), round(3, 0)];
    let samples = [sample("a", 1.0, rounds)];
    let progress = RoundProgress::of(&samples, 3, 1000);
    close(progress.expected_accepted(3).unwrap(), 1.5);
    close(progress.expected_accepted(1).unwrap(), 0.75);
    let folds = [(10, progress)];
    close(
        calibrated_speedup(&folds, 3, &costs(&calibration())).unwrap(),
        2.5 * 105.0 / (30.0 + 130.0 + 5.0),
    );
    close(
        calibrated_speedup(&folds, 1, &costs(&calibration())).unwrap(),
        1.75 * 105.0 / (10.0 + 110.0 + 5.0),
    );
    // Unknown if the cost of drafting was not measured ...
    let passes = calibration();
    let mut unknown = costs(&passes);
    unknown.cell.draft_us_per_token = None;
    assert_eq!(calibrated_speedup(&folds, 1, &unknown), None);
    // ... or T(5) was not.
    let longer = [(10, RoundProgress::of(&[sample("a", 1.0, vec![round(4, 1)])], 4, 1000))];
    assert_eq!(calibrated_speedup(&longer, 4, &costs(&calibration())), None);
}

#[test]
fn rounds_without_a_draft_add_no_drafting_cost_and_no_gain() {
    // Half of the rounds find no match; the other half accepts 2 of 2.
    let samples = [sample("a", 1.0, vec![round(2, 2), round(0, 0)])];
    let folds = [(1, RoundProgress::of(&samples, 2, 1000))];
    let round_us = 0.5 * (20.0 + 120.0) + 0.5 * 100.0 + 5.0;
    close(calibrated_speedup(&folds, 2, &costs(&calibration())).unwrap(), 2.0 * 105.0 / round_us);
}

#[test]
fn drafts_shortened_by_max_tokens_are_not_rejections() {
    // 5 tokens with K = 3: the first round emits 4, so the last may draft none.
    let samples = [sample("a", 1.0, vec![round(3, 3), round(0, 0)])];
    let progress = RoundProgress::of(&samples, 3, 5);
    assert_eq!(progress.expected_accepted(3), Some(3.0));
    assert_eq!(progress.expected_cost(3, |n| Some(n as f64)), Some(3.0));
}

#[test]
fn counts_without_a_part_are_those_of_the_rest() {
    let prompts = [vec![round(3, 3), round(2, 0)], vec![round(4, 1)], vec![round(1, 1)]];
    let samples = prompts.map(|rounds| sample("a", 1.0, rounds));
    let of = |samples: &[Sample]| RoundProgress::of(samples, 4, 6);
    for held_out in 0..3 {
        let mut rest = samples.to_vec();
        let held_out = rest.remove(held_out);
        let (left, rest) = (of(&samples).without(&of(&[held_out])), of(&rest));
        for k in 1..=4 {
            assert_eq!(left.expected_accepted(k), rest.expected_accepted(k));
            let cost = |n: usize| Some((n * n) as f64);
            assert_eq!(left.expected_cost(k, cost), rest.expected_cost(k, cost));
        }
    }
}

#[test]
fn rounds_are_kept_in_order_and_reduced_to_counts_and_sums() {
    let long = RoundRow { depth: 2, residual_fallbacks: 2, ..round(300, 2) };
    let rows = [round(3, 1), long, RoundRow { draft_us: 7.5, ..round(0, 0) }];
    let mut rounds = reduced(&rows);
    let counts = rounds.iter().map(|r| [r.proposed, r.depth, r.accepted, r.emitted]);
    assert_eq!(counts.collect::<Vec<_>>(), [[3, 3, 1, 2], [300, 2, 2, 3], [0, 0, 0, 1]]);
    assert_eq!(rounds.acceptance, Acceptance::of(&rows));
    let TimeSums { draft, target, verify, other } = rounds.times;
    assert_eq!(
        ([draft, target, verify, other], rounds.times.total()),
        ([9.5, 3.0, 3.0, 3.0], 18.5)
    );
    assert_eq!((rounds.residual_fallbacks, rounds.len()), (2, 3));
    // More tokens than any draft has: not a round.
    let before = rounds.clone();
    assert!(!rounds.add(&round(1 << 16, 0)) && rounds == before);
}

#[test]
fn folds_are_averaged_in_time_per_token() {
    let all = RoundProgress::of(&[sample("a", 1.0, vec![round(1, 1)])], 1, 1000);
    let none = RoundProgress::of(&[sample("b", 1.0, vec![round(1, 0)])], 1, 1000);
    let round_us = 10.0 + 110.0 + 5.0;
    // Twice as many tokens at 2 per round as at 1 per round.
    let expected = 3.0 * 105.0 / (2.0 * round_us / 2.0 + round_us);
    close(calibrated_speedup(&[(2, all), (1, none)], 1, &costs(&calibration())).unwrap(), expected);
}

#[test]
fn a_round_costs_a_step_and_what_it_adds() {
    let step = RoundRow { draft_us: 0.0, target_us: 8.0, ..round(0, 0) };
    let times = |row: RoundRow| RoundRow { draft_us: 3.0, target_us: 13.0, verify_us: 2.5, ..row };
    let plain = [sample("a", 20.0, vec![step.clone(), step])];
    let mut untimed = sample("b", 1.0, vec![RoundRow { draft_us: 500.0, ..round(3, 0) }]);
    untimed.timed = false;
    let cell = [sample("a", 39.0, vec![times(round(3, 3)), times(round(3, 1))]), untimed];
    let cost = RoundCost::of(&plain, &cell).unwrap();
    // A step takes 10 µs and a round 19.5 µs.
    close(cost.tokens, 3.0);
    close(cost.draft, 0.3);
    close(cost.rows, 0.5);
    close(cost.verify, 0.15);
    close(cost.other, 0.0);
    close(cost.steps(), 1.95);
    assert_eq!(RoundCost::of(&[], &cell), None);
    assert_eq!(RoundCost::of(&plain, &[]), None);
}

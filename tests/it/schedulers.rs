//! Schedulers of verification: what lengths may depend on.

use specdec::proof::{
    DraftedToken, RoundOfDrafts, SchedulerReport, SchedulerVerdict, certify_scheduler,
};

/// The lengths up to the first estimate below a threshold.
fn up_to(round: &RoundOfDrafts, threshold: f64) -> Vec<usize> {
    let low = |own: &Vec<DraftedToken>| own.iter().take_while(|t| t.estimate >= threshold).count();
    round.iter().map(low).collect()
}

/// The survival of each drafted token, best first; with the request that it is of.
fn ranked(round: &RoundOfDrafts) -> Vec<(f64, usize)> {
    let mut all = Vec::new();
    for (request, own) in round.iter().enumerate() {
        let mut survival = 1.0;
        for token in own {
            survival *= token.estimate;
            all.push((survival, request));
        }
    }
    all.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    all
}

fn taken(ranked: &[(f64, usize)]) -> Vec<usize> {
    (0..2).map(|own| ranked.iter().filter(|(_, at)| *at == own).count()).collect()
}

fn report(mut scheduler: impl FnMut(&[RoundOfDrafts]) -> Vec<usize>) -> SchedulerReport {
    certify_scheduler(&mut |rounds| Ok(scheduler(rounds))).unwrap()
}

/// What a length may depend on: estimates of tokens before the first one that is cut off, and
/// all of earlier rounds.
#[test]
fn lengths_from_what_comes_before_the_cut_are_exact() {
    let threshold = report(|rounds| up_to(rounds.last().unwrap(), 0.75));
    assert_eq!(threshold.verdict(), SchedulerVerdict::Exact, "{threshold:?}");
    assert!(threshold.lengths.len() > 2, "{threshold:?}");
    assert_eq!(report(|_| vec![2; 2]).verdict(), SchedulerVerdict::Exact);
    let stale = report(|rounds| match rounds {
        [before, _] => taken(&ranked(before)[..2]),
        _ => vec![1; 2],
    });
    assert_eq!(stale.verdict(), SchedulerVerdict::Exact, "{stale:?}");
    assert!(stale.lengths.len() > 2, "{stale:?}");
}

#[test]
fn lengths_from_what_comes_later_are_refuted() {
    // The estimate of the token after decides whether one is verified.
    let retrospective = report(|rounds| {
        let own = |own: &Vec<DraftedToken>| if own[1].estimate < 0.75 { 0 } else { 2 };
        rounds.last().unwrap().iter().map(own).collect()
    });
    assert_eq!(retrospective.verdict(), SchedulerVerdict::Wrong, "{retrospective:?}");
    // A token is dropped for its own probability.
    let own_token = report(|rounds| {
        let kept = |own: &Vec<DraftedToken>| own.iter().take_while(|t| t.q > 0.5).count();
        rounds.last().unwrap().iter().map(kept).collect()
    });
    assert_eq!(own_token.verdict(), SchedulerVerdict::Wrong, "{own_token:?}");
    // The number of tokens of both depends on all estimates of the round.
    let budget = report(|rounds| {
        let ranked = ranked(rounds.last().unwrap());
        let sum = ranked.iter().map(|(survival, _)| survival).sum::<f64>();
        taken(&ranked[..if sum > 2.0 { 4 } else { 1 }])
    });
    assert_eq!(budget.verdict(), SchedulerVerdict::Wrong, "{budget:?}");
    for wrong in [retrospective, own_token, budget] {
        assert!(wrong.tv_request > 0.01 && wrong.sentence().contains("is wrong"), "{wrong:?}");
    }
}

/// A budget from earlier rounds may go to the best tokens by this round's estimates: the survival
/// of a token never exceeds that of the ones before it, so none is taken for what comes after.
#[test]
fn a_budget_of_earlier_rounds_for_the_best_tokens_is_exact() {
    let sum = |round: &RoundOfDrafts| ranked(round).iter().map(|(s, _)| s).sum::<f64>();
    let best = report(|rounds| {
        let [before @ .., now] = rounds else { return vec![0; 2] };
        let budget = before.last().map_or(2, |before| 1 + 2 * usize::from(sum(before) > 2.0));
        taken(&ranked(now)[..budget])
    });
    assert_eq!(best.verdict(), SchedulerVerdict::Exact, "{best:?}");
    assert!(best.lengths.len() > 4, "{best:?}");
}

#[test]
fn completions_that_depend_on_one_another_are_named() {
    let report = SchedulerReport { tv_joint: 0.1, ..report(|_| vec![0; 2]) };
    assert_eq!(report.verdict(), SchedulerVerdict::Dependent);
    assert!(report.sentence().contains("differs from the product by TV = 0.1000"));
}

#[test]
fn what_is_no_length_is_refused() {
    for wrong in [vec![], vec![1], vec![1, 3], vec![0; 3]] {
        let error = certify_scheduler(&mut |_| Ok(wrong.clone())).unwrap_err().to_string();
        assert!(error.contains("must return 2 numbers from 0 to 2"), "{error}");
    }
}

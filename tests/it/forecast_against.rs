//! Forecasts compared with a simulated run whose acceptance and times are known.

use specdec::core::sampling::SamplingParams;
use specdec::measure::statistics::{MIN_PROMPTS, Ratio, WIDE_Z};
use specdec::run::report::{Run, load};
use specdec::tapes::forecasting::{
    CostSetting, CostTable, Costed, ForecastCell, ForecastGap, forecast_cells, gaps,
};
use specdec::tapes::tape::{Tape, TapeDrafter, TapeLine, TapeModel, TapeSequence};

use crate::cli_forecast::tape_file;
use crate::cli_support::stdout;
use crate::forecast_by_hand::{prompt_of, rejection, score, tape_of};
use crate::report::{summary, written};
use crate::simulation::table;
use crate::synthetic::{Rows, simulated};
use crate::tape_support::sequence_of;

/// A tape of the run's models with the prompts of the run: `ratios` gives q/p at all tokens but the
/// last of a completion of 48.
fn tape(rows: &Rows, temperature: f64, ratios: impl Fn(&str) -> Vec<f64>) -> Tape {
    let model = |name: &str| TapeModel {
        name: name.to_owned(),
        sha256: rows.plan.target.sha256.clone(),
        engine: rows.plan.target.engine.clone(),
        dtype: rows.plan.target.dtype.clone(),
        ..TapeModel::default()
    };
    let sampling = SamplingParams { temperature, ..SamplingParams::default() };
    let mut tape = tape_of(model("target"), sampling);
    let (drafter, model) = ("model".to_owned(), Some(model("draft")));
    tape.add(TapeLine::Drafter(TapeDrafter { drafter, model, ..TapeDrafter::default() })).unwrap();
    for (number, prompt) in rows.plan.prompts.iter().enumerate() {
        let sequence = sequence_of(&prompt_of(prompt, 30), vec![0; 48], 48);
        let (prompt, log_p) = (prompt.clone(), Some(vec![-1.0; 48]));
        tape.add(TapeLine::Sequence(TapeSequence { prompt, log_p, ..sequence })).unwrap();
        tape.add(score(0, number, &ratios(&tape.sequences[number].prompt))).unwrap();
    }
    tape
}

/// The run's costs in ms: T(n), the draft model's pass, verification and the rest with K = 2.
fn costs() -> CostTable {
    table(&[
        ("target", 1, 1, 1, 3.6),
        ("target", 3, 1, 1, 4.24),
        ("draft", 1, 1, 1, 0.42),
        ("outside", 1, 1, 1, 0.08),
        ("outside", 3, 1, 1, 0.17),
    ])
}

fn cells(tape: &Tape) -> Vec<ForecastCell> {
    let settings = &[CostSetting { batch: 1, context: None }];
    forecast_cells(tape, &[], Some(&Costed { table: &costs(), settings }))
}

fn gap(tape: &Tape, results: &Run, cell: &str) -> ForecastGap {
    let found = gaps(tape, &cells(tape), results).unwrap();
    found.into_iter().find(|gap| gap.cell == cell).unwrap()
}

/// Catches: one end of the interval decides; its level is 95 %; a speedup is upside down.
#[test]
fn a_forecast_is_inside_if_the_interval_holds_one() {
    let rows = simulated();
    let folder = written(&rows);
    let results = load(folder.path()).unwrap();
    // Tokens and rounds of the cell by prompt, as the run has them.
    let measured = rows.plan.prompts.iter().map(|prompt| {
        let own = rows.rounds.iter().filter(|r| r.cell == "model-2-1" && r.prompt == *prompt);
        own.fold([0.0; 2], |[tokens, rounds], r| [tokens + r.accepted as f64 + 1.0, rounds + 1.0])
    });
    let measured = measured.collect::<Vec<_>>();
    // The run accepts 0.76 of the tokens that it reaches, up to the scatter of the prompts.
    for (ratio, inside) in [(0.5, false), (0.76, true), (0.95, false)] {
        let tape = tape(&rows, 1.0, |_| vec![ratio; 47]);
        let found = gap(&tape, &results, "model-2-1");
        let own = cells(&tape);
        let forecast =
            rejection(&own, 2).prompts.values().map(|own| [own.accepted + own.rounds, own.rounds]);
        let both = forecast.zip(&measured).map(|([a, b], [c, d])| ([a, *d], [b, *c]));
        let expected = Ratio::of(both);
        assert_eq!((found.ratio, found.prompts, found.texts), (expected.value().unwrap(), 12, 12));
        assert!((found.forecast / found.measured / found.ratio - 1.0).abs() < 1e-12, "{found:?}");
        let ends = expected.interval_of(MIN_PROMPTS, WIDE_Z).unwrap();
        assert_eq!((found.ratio_lo99, found.ratio_hi99), (Some(ends.lo), Some(ends.hi)));
        assert_eq!(found.inside, Some(inside), "{found:?}");
        assert!(inside || (found.ratio > 1.0) == (ratio > 0.9), "{found:?}");
        let summary = summary(&results);
        let row = summary.iter().find(|row| row.cell == "model-2-1").unwrap();
        assert_eq!((found.measured_speedup, found.differing), (row.speedup, None));
        // The costs are those of the run, whose passes have noise of 1.5 %.
        let off = found.forecast_speedup.unwrap() / found.measured_speedup.unwrap() - 1.0;
        assert!(!inside || off.abs() < 0.03, "{found:?}");
    }
}

/// Catches: no generation differs.
#[test]
fn greedy_generations_that_differ_from_the_forecast_are_counted() {
    let rows = simulated();
    let folder = written(&rows);
    let results = load(folder.path()).unwrap();
    // A token that a round accepted has q/p = 1, all others 0.
    let accepted = |prompt: &str| {
        let mut ratios = vec![0.0; 47];
        for round in rows.rounds.iter().filter(|r| r.cell == "model-2-0" && r.prompt == prompt) {
            let start = round.context_tokens - 30;
            ratios[start..start + round.accepted].fill(1.0);
        }
        ratios
    };
    let found = gap(&tape(&rows, 0.0, accepted), &results, "model-2-0");
    assert_eq!((found.differing, found.forecast), (Some(0), found.measured));
    let never = |prompt: &str| match prompt {
        "prompt-03" | "prompt-07" => vec![0.0; 47],
        _ => accepted(prompt),
    };
    assert_eq!(gap(&tape(&rows, 0.0, never), &results, "model-2-0").differing, Some(2));
}

/// Catches: the gap is the smallest one; intervals that hold 1 are not counted.
#[test]
fn the_comparison_states_the_median_gap_and_what_holds_one() {
    let rows = simulated();
    let folder = written(&rows);
    let results = load(folder.path()).unwrap();
    let tape = tape(&rows, 1.0, |_| vec![0.76; 47]);
    let gaps = gaps(&tape, &cells(&tape), &results).unwrap();
    let apart = gaps.iter().map(|gap| (gap.ratio - 1.0).abs());
    let inside = gaps.iter().filter(|gap| gap.inside == Some(true)).count();
    let expected = format!(
        "compared with the run: 2 cells, median gap of tokens per round {:.2} %; {inside} of 2 99 % \
         intervals of the ratio hold 1",
        100.0 * apart.sum::<f64>() / 2.0
    );
    let (_dir, file) = tape_file(&tape);
    let said = stdout(&["forecast", &file, "--against", folder.path().to_str().unwrap()]);
    assert!(said.contains(&expected) && inside > 0, "{said} has no {expected}");
}

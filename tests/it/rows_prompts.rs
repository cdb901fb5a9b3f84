//! Prompts are the units of resampling: no interval, however it is computed, counts
//! repeats of a prompt as further prompts.

use specdec::measure::rows::{GenerationRow, RoundRow};
use specdec::run::report::load;

use crate::report::summary;
use crate::synthetic::{Rows, Synthetic};

/// Every generation once more, as the next repeat of its prompt.
fn repeated(rows: &Rows) -> Rows {
    let mut twice = rows.clone();
    twice.plan.repeats = 2;
    let again = rows.generations.iter().map(|g| GenerationRow { repeat: 1, ..g.clone() });
    twice.generations.extend(again);
    twice.rounds.extend(rows.rounds.iter().map(|r| RoundRow { repeat: 1, ..r.clone() }));
    twice
}

/// The known-wrong way: every generation counts as a prompt.
fn resampled_by_generation(mut rows: Rows) -> Rows {
    let own = |prompt: &mut String, repeat: &mut u32| {
        *prompt += &format!(" {}", std::mem::take(repeat));
    };
    rows.generations.iter_mut().for_each(|g| own(&mut g.prompt, &mut g.repeat));
    rows.rounds.iter_mut().for_each(|r| own(&mut r.prompt, &mut r.repeat));
    let prompts = rows.plan.prompts.iter();
    rows.plan.prompts =
        prompts.flat_map(|p| [0, 1].map(|repeat| format!("{p} {repeat}"))).collect();
    rows.plan.repeats = 1;
    rows
}

/// The width of every interval of the run, with the name of its quantity.
fn widths(rows: &Rows) -> Vec<(String, f64)> {
    let folder = tempfile::tempdir().unwrap();
    rows.write(folder.path());
    let results = load(folder.path()).unwrap();
    assert_eq!(results.notes, [""; 0]);
    let mut widths = Vec::new();
    for row in summary(&results).iter().filter(|row| row.num_speculative_tokens.is_some()) {
        let ends = [
            ("alpha", row.alpha_lo, row.alpha_hi),
            ("block_efficiency", row.block_efficiency_lo, row.block_efficiency_hi),
            ("speedup", row.speedup_lo, row.speedup_hi),
        ];
        for (name, lo, hi) in ends {
            widths.push((format!("{name} of {}", row.cell), hi.unwrap() - lo.unwrap()));
        }
    }
    let survival = results.cells.iter().flat_map(|cell| &cell.survival);
    widths.extend(survival.map(|s| (format!("S({}) of {}", s.position, s.cell), s.hi - s.lo)));
    widths
}

/// The widths of `rows` divided by those of the run with one repeat, sorted.
fn ratios(rows: &Rows, once: &[(String, f64)]) -> Vec<f64> {
    let widths = widths(rows);
    assert!(widths.iter().map(|(name, _)| name).eq(once.iter().map(|(name, _)| name)));
    let pairs = widths.iter().zip(once).filter(|(_, (_, once))| *once > 0.0);
    let mut ratios = pairs.map(|((_, twice), (_, once))| twice / once).collect::<Vec<_>>();
    ratios.sort_by(f64::total_cmp);
    ratios
}

/// Catches: intervals, or those of speedups, resample generations instead of prompts.
#[test]
fn identical_repeats_narrow_no_interval() {
    let rows = Synthetic { temperatures: vec![1.0], ..Synthetic::large() }.rows();
    let (once, twice) = (widths(&rows), repeated(&rows));
    let right = ratios(&twice, &once);
    assert!(right.len() > 40);
    // The same sums per prompt, doubled: equal up to the rounding of sums.
    assert!((right[0] - 1.0).abs() < 1e-9 && (right[right.len() - 1] - 1.0).abs() < 1e-9);
    // Twice as many units as there really are: narrower by √2 on average, far from
    // anything that could pass as equal.
    let wrong = ratios(&resampled_by_generation(twice), &once);
    let mean = wrong.iter().sum::<f64>() / wrong.len() as f64;
    assert!((mean - 0.5_f64.sqrt()).abs() < 0.05, "{mean}");
}

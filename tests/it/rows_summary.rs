//! `summary.csv` and `survival.csv` of the finished runs, recomputed from their rows
//! by the definitions of `docs/metrics.md`.

use std::collections::{BTreeMap, BTreeSet};

use specdec::measure::rows::Calibration;
use specdec::measure::rows::{BlockRow, GenerationRow, RoundRow, SummaryRow, SurvivalRow};
use specdec::method::decode::PLAIN;
use specdec::run::experiment::{Cell, Manifest};
use specdec::run::report::report;

use crate::experiment_support::rows;
use crate::loops::looped;
use crate::rows_fields::{FINISHED, Finished, differing};
use crate::rows_predicted::calibrated_speedup;

/// A cell with its generations, its run and the calibration of the run.
pub(crate) struct Sums<'r> {
    pub(crate) run: &'r Finished,
    pub(crate) cell: &'r Cell,
    pub(crate) calibration: Calibration,
    pub(crate) generations: Vec<&'r GenerationRow>,
    /// Prompts and repeats whose times count.
    timed: BTreeSet<(&'r str, u32)>,
}

impl<'r> Sums<'r> {
    pub(crate) fn new(run: &'r Finished, cell: &'r Cell) -> Self {
        let own = |g: &&GenerationRow| g.cell == cell.id && !g.superseded;
        let generations = run.found.generations.iter().filter(own).collect::<Vec<_>>();
        let group = run.plan.goals().iter().position(|cells| cells.contains(&cell)).unwrap();
        let groups = run.plan.goals().len();
        let quiet = |b: &&BlockRow| b.block % groups == group && !b.superseded && !b.disturbed;
        let timed = run.found.blocks.iter().filter(quiet).map(|b| (b.prompt.as_str(), b.repeat));
        let session = Manifest::read(&run.folder).unwrap().sessions.remove(0);
        let mut calibration = session.calibration;
        for (i, pass) in calibration.passes.iter_mut().enumerate() {
            // The median over the calibrations between blocks, if there are any.
            let mut again = session.recalibrations.iter().map(|r| r.passes[i]).collect::<Vec<_>>();
            again.sort_by(|a, b| a.us.total_cmp(&b.us));
            let n = again.len();
            if n > 0 {
                assert!(again.iter().all(|other| other.rows == pass.rows));
                pass.us = (again[(n - 1) / 2].us + again[n / 2].us) / 2.0;
            }
        }
        Self { run, cell, calibration, generations, timed: timed.collect() }
    }

    pub(crate) fn rounds(&self) -> Vec<&'r RoundRow> {
        self.run.found.rounds.iter().filter(|r| r.cell == self.cell.id).collect()
    }

    /// The baseline of the same sampling setting.
    fn baseline(&self) -> Self {
        let own = |c: &&Cell| {
            c.method.drafter == PLAIN
                && !c.control
                && c.method.sampling == self.cell.method.sampling
        };
        Self::new(self.run, self.run.plan.cells.iter().find(own).unwrap())
    }

    fn timed(&self) -> Vec<&'r GenerationRow> {
        let timed = |g: &&&GenerationRow| self.timed.contains(&(g.prompt.as_str(), g.repeat));
        self.generations.iter().filter(timed).copied().collect()
    }

    /// The generations of baseline and cell for all prompts and repeats that both finished.
    fn pairs(&self) -> (Vec<&'r GenerationRow>, Vec<&'r GenerationRow>) {
        let (plain, own) = (self.baseline().timed(), self.timed());
        let both = |a: &[&'r GenerationRow], b: &[&'r GenerationRow]| {
            let key = |g: &GenerationRow| (g.prompt.clone(), g.repeat);
            let keys = b.iter().map(|g| key(g)).collect::<BTreeSet<_>>();
            a.iter().filter(|g| keys.contains(&key(g))).copied().collect::<Vec<_>>()
        };
        (both(&plain, &own), both(&own, &plain))
    }
}

/// A quotient; `None` if the divisor is 0.
pub(crate) fn ratio(a: f64, b: f64) -> Option<f64> {
    (b > 0.0).then_some(a / b)
}

fn sum<T>(rows: &[&T], of: impl Fn(&T) -> f64) -> f64 {
    rows.iter().map(|row| of(row)).sum()
}

/// A sum over all rows; `None` if it is unknown for any of them.
fn known<T>(rows: &[&T], of: impl Fn(&T) -> Option<f64>) -> Option<f64> {
    rows.iter().map(|row| of(row)).sum()
}

fn tokens_per_second(generations: &[&GenerationRow]) -> Option<f64> {
    let tokens = sum(generations, |g| g.new_tokens as f64);
    ratio(tokens, sum(generations, |g| g.decode_us) / 1e6)
}

fn us_per_token(generations: &[&GenerationRow]) -> Option<f64> {
    tokens_per_second(generations).map(|rate| 1e6 / rate)
}

/// The share of the tokens of a cell that lie in loops.
fn loop_share(sums: &Sums<'_>) -> Option<f64> {
    let looped = sum(&sums.generations, |g| looped(&tokens(sums, g)) as f64);
    ratio(looped, sum(&sums.generations, |g| g.new_tokens as f64))
}

fn tokens(sums: &Sums<'_>, own: &GenerationRow) -> Vec<u32> {
    let place = (&own.cell, &own.prompt, own.repeat);
    let mut texts = sums.run.found.texts.iter();
    texts.rfind(|row| (&row.cell, &row.prompt, row.repeat) == place).unwrap().tokens.clone()
}

/// How a cell went, and the first of its failures.
fn status(sums: &Sums<'_>) -> (String, String) {
    let run = sums.run;
    let own = |f: &&specdec::measure::rows::FailureRow| f.cell == sums.cell.id && !f.superseded;
    let failures = run.found.failures.iter().filter(own).collect::<Vec<_>>();
    let all = run.plan.prompts.len() * run.plan.repeats as usize;
    let status = match (sums.generations.len(), failures.len()) {
        (n, 0) if n == all => "finished",
        (0, 0) => "not run",
        (0, _) => "failed",
        _ => "partial",
    };
    let more = match failures.len() {
        0 | 1 => String::new(),
        n => format!(", and {} more", n - 1),
    };
    let reason = failures.first().map(|f| format!("{} ({}{more})", f.reason, f.prompt));
    (status.to_owned(), reason.unwrap_or_default())
}

/// The share of the tokens after the first end token of their text.
fn behind_end_share(sums: &Sums<'_>) -> Option<f64> {
    let texts = sums.run.found.texts.iter().filter(|text| text.cell == sums.cell.id);
    let ends = sums.run.scenario.quirks.eos[0];
    let (mut behind, mut all) = (0, 0);
    for text in texts {
        all += text.tokens.len();
        behind += text.tokens.iter().skip_while(|token| !ends.contains(token)).skip(1).count();
    }
    ratio(f64::from(behind as u32), f64::from(all as u32))
}

/// The row of a cell, without its intervals.
fn summary(sums: &Sums<'_>) -> SummaryRow {
    let (run, cell, generations) = (sums.run, sums.cell, &sums.generations);
    let (plan, rounds) = (&run.plan, sums.rounds());
    let baseline = sums.baseline();
    let drafts = cell.method.drafter.starts_with("model");
    let draft = plan.draft.as_ref().filter(|_| drafts);
    let (status, reason) = status(sums);
    let whole = SummaryRow {
        cell: cell.id.clone(),
        target: plan.target.name.clone(),
        draft: draft.map_or_else(String::new, |draft| draft.name.clone()),
        drafter: cell.method.drafter.clone(),
        verifier: cell.method.verifier.clone(),
        length: cell.method.length.clone(),
        num_speculative_tokens: Some(cell.method.num_speculative_tokens).filter(|k| *k > 0),
        sampling: cell.method.sampling.clone(),
        strategy: "sampling".to_owned(),
        passes_per_token: ratio(
            sum(generations, |g| g.target_forwards as f64),
            sum(generations, |g| g.new_tokens as f64),
        ),
        params: cell
            .method
            .params
            .iter()
            .map(|(k, v)| format!("{k}={v}"))
            .collect::<Vec<_>>()
            .join(";"),
        control: cell.control,
        engine: "toy".to_owned(),
        dtype: "f64".to_owned(),
        draft_dtype: draft.map_or_else(String::new, |_| "f64".to_owned()),
        threads: 1,
        max_tokens: plan.max_tokens,
        seed: plan.seed,
        class: cell.class.clone(),
        status,
        reason,
        generations: generations.len(),
        tokens: generations.iter().map(|g| g.new_tokens).sum(),
        behind_end_share: behind_end_share(sums),
        loop_share: loop_share(sums),
        baseline_loop_share: loop_share(&baseline),
        rounds: rounds.len(),
        batch: 1,
        texts_at_once: (!sums.timed().is_empty()).then_some(1.0),
        ms_per_token: tokens_per_second(&sums.timed()).map(|rate| 1000.0 / rate),
        tokens_per_second: tokens_per_second(&sums.timed()),
        baseline_tokens_per_second: tokens_per_second(&sums.timed()),
        baseline_forwards_per_token: ratio(
            sum(&baseline.generations, |g| g.target_forwards as f64),
            sum(&baseline.generations, |g| g.new_tokens as f64),
        ),
        ..SummaryRow::default()
    };
    if cell.method.drafter == PLAIN && !cell.control {
        return whole;
    }
    let accepted = sum(&rounds, |r| r.accepted as f64);
    let (proposed, forks) = (sum(&rounds, |r| r.proposed as f64), sum(&rounds, |r| r.forks as f64));
    let chains = rounds.iter().all(|r| r.proposed == r.depth);
    let ceilings = known(&rounds, |r| r.ceiling_sum);
    let passes = |rows: usize| sums.calibration.target_us(rows);
    let single = passes(1).unwrap();
    let timed = sums.timed();
    let in_time =
        |r: &&&RoundRow| timed.iter().any(|g| (&g.prompt, g.repeat) == (&r.prompt, r.repeat));
    let in_time = rounds.iter().filter(in_time).copied().collect::<Vec<_>>();
    let drafting = match drafts {
        true => sums.calibration.cells.get(&cell.id).and_then(|c| c.draft_us_per_token),
        false => ratio(sum(&in_time, |r| r.draft_us), sum(&in_time, |r| r.proposed as f64)),
    };
    let most =
        rounds.iter().map(|r| r.proposed).max().unwrap_or(cell.method.num_speculative_tokens);
    let (plain, own) = sums.pairs();
    let quotient = |a: Option<f64>, b: Option<f64>| ratio(a?, b?);
    let calm = plain.iter().map(|g| looped(&tokens(&sums.baseline(), g)) == 0);
    let calm = plain.iter().zip(calm).filter(|(_, calm)| *calm).map(|(g, _)| *g);
    let calm = calm.collect::<Vec<_>>();
    let of_calm = |g: &&&GenerationRow| {
        calm.iter().any(|plain| (&plain.prompt, plain.repeat) == (&g.prompt, g.repeat))
    };
    let own_calm = own.iter().filter(of_calm).copied().collect::<Vec<_>>();
    SummaryRow {
        acceptance_rate: ratio(accepted, proposed),
        alpha: ratio(sum(&rounds, |r| r.overlap_sum), forks).filter(|_| chains),
        ceiling: ceilings.and_then(|sum| ratio(sum, forks)),
        share_of_ceiling: ceilings.and_then(|sum| ratio(accepted, sum)),
        block_efficiency: ratio(accepted, rounds.len() as f64).map(|mean| mean + 1.0),
        tv: known(&rounds, |r| r.tv_sum).and_then(|tv| ratio(tv, accepted + rounds.len() as f64)),
        cost_ratio: drafting.map(|us| us / single),
        verify_cost_ratio: passes(most + 1).map(|us| us / single),
        baseline_tokens_per_second: tokens_per_second(&plain),
        speedup: quotient(us_per_token(&plain), us_per_token(&own)),
        loop_free_speedup: quotient(us_per_token(&calm), us_per_token(&own_calm)),
        // These runs have too few prompts to fit costs to half of them.
        predicted_speedup: None,
        calibrated_speedup: calibrated_speedup(sums).filter(|_| !cell.control),
        ..whole
    }
}

/// The rows of a cell's drafts by position, without their intervals.
fn survival(sums: &Sums<'_>) -> Vec<SurvivalRow> {
    let rounds = sums.rounds();
    let mut rows = Vec::new();
    let mut product = 1.0;
    for position in 1.. {
        let continues = |r: &&&RoundRow| r.accepted >= position - 1 && r.emitted >= position;
        let reached = rounds.iter().filter(|r| r.depth >= position).filter(continues);
        let reached = reached.collect::<Vec<_>>();
        if reached.is_empty() {
            break;
        }
        let survived = reached.iter().filter(|r| r.accepted >= position).count();
        let conditional = survived as f64 / reached.len() as f64;
        product *= conditional;
        rows.push(SurvivalRow {
            cell: sums.cell.id.clone(),
            position,
            reached: reached.len(),
            survived,
            conditional,
            survival: product,
            lo: 0.0,
            hi: 1.0,
        });
    }
    rows
}

/// Asserts that an interval is given only with its value, and contains it.
#[track_caller]
fn around(value: Option<f64>, lo: Option<f64>, hi: Option<f64>) {
    match (value, lo, hi) {
        (_, None, None) => {}
        (Some(x), Some(lo), Some(hi)) => assert!(lo <= x && x <= hi, "{lo} to {hi} of {x}"),
        other => panic!("half an interval, or one without a value: {other:?}"),
    }
}

#[test]
fn every_field_of_the_summary_follows_from_the_rows() {
    let mut seen = BTreeMap::<String, usize>::new();
    for run in FINISHED.iter() {
        report(&run.folder).unwrap();
        let found = rows::<SummaryRow>(&run.folder, "summary.csv");
        let expected = run.plan.cells.iter().zip(&found).map(|(cell, found)| {
            around(found.alpha, found.alpha_lo, found.alpha_hi);
            let tau = (found.block_efficiency_lo, found.block_efficiency_hi);
            around(found.block_efficiency, tau.0, tau.1);
            around(found.tv, found.tv_lo, found.tv_hi);
            around(found.speedup, found.speedup_lo, found.speedup_hi);
            let calm = (found.loop_free_speedup_lo, found.loop_free_speedup_hi);
            around(found.loop_free_speedup, calm.0, calm.1);
            SummaryRow {
                alpha_lo: found.alpha_lo,
                alpha_hi: found.alpha_hi,
                block_efficiency_lo: tau.0,
                block_efficiency_hi: tau.1,
                tv_lo: found.tv_lo,
                tv_hi: found.tv_hi,
                speedup_lo: found.speedup_lo,
                speedup_hi: found.speedup_hi,
                loop_free_speedup_lo: found.loop_free_speedup_lo,
                loop_free_speedup_hi: found.loop_free_speedup_hi,
                ..summary(&Sums::new(run, cell))
            }
        });
        let expected = expected.collect::<Vec<_>>();
        let differences = differing("summary.csv", &found, &expected);
        assert!(differences.is_empty(), "{}: {differences:#?}", run.scenario.name);
        for row in &found {
            *seen.entry(row.status.clone()).or_default() += 1;
            *seen.entry("prediction".to_owned()).or_default() +=
                usize::from(row.calibrated_speedup.is_some());
        }
    }
    for what in ["finished", "partial", "prediction"] {
        assert!(seen.get(what).is_some_and(|n| *n > 0), "no {what}: {seen:?}");
    }
}

#[test]
fn every_field_of_the_survival_follows_from_the_rows() {
    for run in FINISHED.iter() {
        report(&run.folder).unwrap();
        let found = rows::<SurvivalRow>(&run.folder, "survival.csv");
        let cells =
            run.plan.cells.iter().filter(|cell| cell.method.drafter != PLAIN && !cell.control);
        let expected = cells.flat_map(|cell| survival(&Sums::new(run, cell)));
        let mut expected = expected.collect::<Vec<_>>();
        for (row, found) in expected.iter_mut().zip(&found) {
            around(Some(found.survival), Some(found.lo), Some(found.hi));
            (row.lo, row.hi) = (found.lo, found.hi);
        }
        let differences = differing("survival.csv", &found, &expected);
        assert!(differences.is_empty(), "{}: {differences:#?}", run.scenario.name);
    }
}

//! What `specdec forecast` prints: the verdict first.

use std::fmt::Write;

use anyhow::Result;

use super::Forecasts;
use crate::io::shown::{self, count};
use crate::measure::statistics::{MOST_LOOPED, Ratio, median};
use crate::run::report::SpeedVerdict;
use crate::tapes::forecasting::{
    DraftedRound, ForecastCell, MAX_K, NearerDraft, SHOWN_KS, best, verdict,
};
use crate::tapes::tape::{AcceptanceRule, Tape};

pub(super) struct ForecastText<'a>(pub(super) &'a Forecasts);

impl ForecastText<'_> {
    pub(super) fn write(&self) -> Result<String> {
        let mut text = String::new();
        for doubt in &self.0.doubts {
            let sampling = self.0.tape.header.samplings[doubt.sampling].words();
            writeln!(text, "doubt: {sampling}, {}: {doubt}", self.drafter(doubt.drafter))?;
        }
        self.loops(&mut text)?;
        let bests = self.0.bests(0);
        // Without costs all sampling settings have the same verdict.
        let sentences = if self.0.costs.is_some() { bests.len() } else { 1 };
        for cell in bests.into_iter().take(sentences) {
            let sampling = self.0.costs.iter().map(|_| format!("{}: ", self.sampling(cell)));
            writeln!(text, "{}{}", sampling.collect::<String>(), sentence(cell))?;
        }
        self.configs(&mut text)?;
        self.grid(&mut text)?;
        self.contrasts(&mut text)?;
        self.tuned(&mut text)?;
        self.nearer(&mut text)?;
        self.greedy(&mut text)?;
        self.gaps(&mut text)?;
        Ok(text)
    }

    /// The sampling settings with too many repetition loops.
    fn loops(&self, text: &mut String) -> Result<()> {
        for group in self.0.cells.chunk_by(|a, b| a.config.sampling == b.config.sampling) {
            if let Some(share) = group[0].loop_share().filter(|share| *share > MOST_LOOPED) {
                writeln!(
                    text,
                    "loops: {}: {:.1} % of the tokens lie in repetition loops, where more drafts \
                     survive than in other text",
                    self.sampling(&group[0]),
                    100.0 * share
                )?;
            }
        }
        Ok(())
    }

    fn sampling(&self, cell: &ForecastCell) -> String {
        self.0.tape.header.samplings[cell.config.sampling].words()
    }

    pub(super) fn drafter(&self, drafter: usize) -> String {
        shown::line(&self.0.tape.drafters[drafter].describe())
    }

    /// The results of each sampling setting, drafter and rule: at the best K with costs, at several
    /// K without them.
    fn configs(&self, text: &mut String) -> Result<()> {
        let timed = self.0.costs.is_some();
        let head = if timed {
            " K  tokens per round        accepted  conditional  speedup".to_owned()
        } else {
            let ks = SHOWN_KS.map(|k| format!("K = {k:<14}"));
            format!("tokens per round: {}conditional", ks.concat())
        };
        let accepted = if timed { "accepted: accepted / drafted tokens; " } else { "" };
        writeln!(
            text,
            "\n{accepted}conditional: accepted / drafted tokens without those after a rejection\n{head}"
        )?;
        let key = |cell: &ForecastCell| (cell.config.sampling, cell.config.drafter);
        for group in self.0.cells.chunk_by(|a, b| key(a) == key(b)) {
            writeln!(
                text,
                "{}, {}:",
                self.sampling(&group[0]),
                self.drafter(group[0].config.drafter)
            )?;
            let mut last = String::new();
            for rule in [AcceptanceRule::Token, AcceptanceRule::Block] {
                let chain =
                    |cell: &&ForecastCell| cell.config.tree.is_none() && cell.config.rule == rule;
                let own = group.iter().filter(chain);
                let line = if timed { at_best(own) } else { at_several(own) };
                // Where q is one-hot, all rules accept the same.
                if line != last {
                    writeln!(text, "{line}  {}", rule.verifier())?;
                }
                last = line;
            }
            for cell in group {
                let Some(tree) = &cell.config.tree else { continue };
                writeln!(text, "{}  tree {}", at_best([cell].into_iter()), tree.describe())?;
            }
        }
        Ok(())
    }

    /// The best K by batch and context, and the batch from which no K pays.
    fn grid(&self, text: &mut String) -> Result<()> {
        let Forecasts { settings, costs: Some(costs), cells, tape, .. } = self.0 else {
            return Ok(());
        };
        if let [one] = settings[..] {
            let context = one.context.unwrap_or_default();
            let alpha = costs.break_even(MAX_K - 1, (context, one.batch));
            let alpha = alpha.map(|alpha| format!("break-even at alpha = {alpha:.3}"));
            let none = || "no K is faster, even if every token is accepted".to_owned();
            writeln!(text, "{}", alpha.unwrap_or_else(none))?;
            return Ok(());
        }
        for sampling in 0..tape.header.samplings.len() {
            let own = || cells.iter().filter(move |cell| cell.config.sampling == sampling);
            if own().next().is_none() {
                continue;
            }
            writeln!(text, "\n{}: best K and speedup", tape.header.samplings[sampling].words())?;
            for row in settings.chunk_by(|a, b| a.context == b.context) {
                let first = settings.iter().position(|setting| *setting == row[0]);
                let context = row[0].context;
                let label = context.map_or("own contexts".to_owned(), |c| format!("context {c}"));
                write!(text, "{label:>14}")?;
                for (at, setting) in (first.unwrap_or(0)..).zip(row) {
                    let Some(cell) = best(own(), at) else { continue };
                    let speedup = cell.speedup(at).and_then(|ratio| ratio.value());
                    let speedup = speedup.unwrap_or_default();
                    let k = if speedup > 1.0 { cell.config.k } else { 0 };
                    write!(text, "  batch {}: {k} ({speedup:.2})", setting.batch)?;
                }
                let ends = (row.iter().map(|s| s.batch).min(), row.iter().map(|s| s.batch).max());
                if let (Some(context), (Some(least), Some(most))) = (context, ends) {
                    let until = costs.pays_until(&totals(tape, own()), context, least..=most);
                    let until = until.map(|batch| format!("; does not pay from batch {batch}"));
                    write!(text, "{}", until.unwrap_or_default())?;
                }
                writeln!(text)?;
            }
        }
        Ok(())
    }

    fn contrasts(&self, text: &mut String) -> Result<()> {
        if self.0.contrasts.is_empty() {
            return Ok(());
        }
        let pooled = SHOWN_KS.map(|k| k.to_string()).join(", ");
        writeln!(
            text,
            "\none axis at a time, over all chains that differ in nothing else (K = {pooled}):"
        )?;
        for own in &self.0.contrasts {
            let shown = |ratio: Option<f64>, lo: Option<f64>, hi: Option<f64>| {
                let ends = lo.zip(hi).map(|(lo, hi)| format!(" [{lo:.3}, {hi:.3}]"));
                Some(format!("{:.3}{} times the", ratio?, ends.unwrap_or_default()))
            };
            let tau = shown(
                own.block_efficiency_ratio,
                own.block_efficiency_ratio_lo,
                own.block_efficiency_ratio_hi,
            );
            let speed = shown(own.speedup_ratio, own.speedup_ratio_lo, own.speedup_ratio_hi);
            let tau = tau.map(|tau| format!("{tau} tokens per round"));
            let speed = speed.map(|speed| format!("{speed} speedup"));
            let both = tau.into_iter().chain(speed).collect::<Vec<_>>().join(", ");
            let [value, against] = [&own.value, &own.against].map(|value| shown::line(value));
            writeln!(text, "{}: {value} has {both} of {against}", own.axis)?;
        }
        Ok(())
    }

    fn tuned(&self, text: &mut String) -> Result<()> {
        for tuned in self.0.tuned.iter().filter(|tuned| tuned.verifier == "rejection") {
            let [one, other] = &tuned.chosen;
            let chosen = if one == other { one.clone() } else { format!("{one} or {other}") };
            let ends = tuned.lo.zip(tuned.hi).map(|(lo, hi)| format!(" [{lo:.3}, {hi:.3}]"));
            writeln!(
                text,
                "{}, K = {}: the draft's settings that half of the prompts chose ({chosen}) give \
                 {:.3}{} times the tokens per round on the other half",
                self.0.tape.header.samplings[tuned.sampling].words(),
                tuned.num_speculative_tokens,
                tuned.ratio,
                ends.unwrap_or_default()
            )?;
        }
        Ok(())
    }

    fn nearer(&self, text: &mut String) -> Result<()> {
        let rows = &self.0.nearer;
        let key = |row: &NearerDraft| (row.sampling, row.drafter);
        for group in rows.chunk_by(|a, b| key(a) == key(b)) {
            let sampling = self.0.tape.header.samplings[group[0].sampling].words();
            let each = group.iter().map(|row| format!("{:.2}", row.rejection));
            writeln!(
                text,
                "{sampling}, {}: tokens per round with q moved 0, 1/4, 1/2, 3/4 and all of the way \
                 to p: {}",
                self.drafter(group[0].drafter),
                each.collect::<Vec<_>>().join(", ")
            )?;
        }
        Ok(())
    }

    fn gaps(&self, text: &mut String) -> Result<()> {
        let gaps = &self.0.gaps;
        if gaps.is_empty() {
            return Ok(());
        }
        let judged = gaps.iter().filter_map(|gap| gap.inside).collect::<Vec<_>>();
        let inside = judged.iter().filter(|inside| **inside).count();
        let apart = gaps.iter().map(|gap| (gap.ratio - 1.0).abs()).collect::<Vec<_>>();
        writeln!(
            text,
            "\ncompared with the run: {}, median gap of tokens per round {:.2} %; {inside} of {} \
             99 % intervals of the ratio hold 1",
            count(gaps.len(), "cell"),
            100.0 * median(&apart).unwrap_or_default(),
            judged.len()
        )?;
        let greedy =
            || gaps.iter().filter_map(|gap| Some((gap.texts, gap.compared?, gap.differing?)));
        let all = greedy().map(|(all, ..)| all).sum::<usize>();
        let compared = greedy().map(|(_, compared, _)| compared).sum::<usize>();
        let differing = greedy().map(|(.., differing)| differing).sum::<usize>();
        if all > 0 {
            let rest = match all - compared {
                0 => String::new(),
                rest => format!("; {rest} more have no sequence on the tape"),
            };
            writeln!(
                text,
                "at T = 0: {differing} of {} have other rounds or accepted tokens than forecast{rest}",
                count(compared, "generation")
            )?;
        }
        Ok(())
    }
}

fn at_best<'c>(cells: impl Iterator<Item = &'c ForecastCell>) -> String {
    let Some(cell) = best(cells, 0) else { return String::new() };
    let speedup = cell.speedup(0).as_ref().map_or_else(|| "-".to_owned(), shown_ratio);
    format!(
        "{:2}  {:22}  {:>8}  {:>11}  {speedup:22}",
        cell.config.k,
        shown_ratio(&cell.block_efficiency()),
        number(&cell.acceptance_rate()),
        number(&cell.conditional_acceptance()),
    )
}

fn at_several<'c>(cells: impl Iterator<Item = &'c ForecastCell>) -> String {
    let cells = cells.filter(|cell| SHOWN_KS.contains(&cell.config.k)).collect::<Vec<_>>();
    let tau = |cell: &&ForecastCell| {
        let tau = cell.block_efficiency();
        let interval = tau.interval().map(|i| format!(" [{:.2}, {:.2}]", i.lo, i.hi));
        let value = tau.value().unwrap_or_default();
        format!("{:<18}", format!("{value:.2}{}", interval.unwrap_or_default()))
    };
    let last = cells.last().map(|cell| number(&cell.conditional_acceptance()));
    let all = cells.iter().map(tau).collect::<String>();
    format!("{:18}{all}{}", "", last.unwrap_or_default())
}

/// Tokens and rounds of some cells.
fn totals<'c>(
    tape: &Tape,
    cells: impl Iterator<Item = &'c ForecastCell>,
) -> Vec<(f64, Vec<(DraftedRound, f64)>)> {
    cells.map(|cell| cell.totals(tape.drafters[cell.config.drafter].passes())).collect()
}

/// The verdict on the best cell of a sampling setting.
fn sentence(cell: &ForecastCell) -> String {
    let config = match &cell.config.tree {
        Some(tree) => format!("trees {}", tree.describe()),
        None => format!("{} with K = {}", cell.config.rule.verifier(), cell.config.k),
    };
    let Some(speedup) = cell.speedup(0) else {
        let tau = shown_ratio(&cell.block_efficiency());
        return format!(
            "{tau} tokens per round at most, by {config}; only costs show whether it pays"
        );
    };
    let speedup = shown_ratio(&speedup);
    match verdict(cell, 0) {
        SpeedVerdict::Faster => format!("it is faster: {speedup} times, by {config}"),
        SpeedVerdict::Slower => {
            format!("no K is faster than plain decoding; the best is {speedup}, by {config}")
        }
        SpeedVerdict::Undecided => {
            format!("these prompts do not decide it; the best is {speedup}, by {config}")
        }
        _ => {
            format!("too few prompts for an interval; the best is {speedup}, by {config}")
        }
    }
}

fn number(ratio: &Ratio) -> String {
    ratio.value().map_or("-".to_owned(), |value| format!("{value:.3}"))
}

fn shown_ratio(ratio: &Ratio) -> String {
    let interval = ratio.interval().map(|i| format!(" [{:.3}, {:.3}]", i.lo, i.hi));
    number(ratio) + &interval.unwrap_or_default()
}

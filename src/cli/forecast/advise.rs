//! One page on a decoder: whether it is exact, which K to use, and what would change that.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result};
use clap::ValueEnum;
use serde_json::Value;

use super::Forecasts;
use super::paste::Paste;
use super::served::ServedCosts;
use crate::bugs::name_now;
use crate::io::input::open_stream;
use crate::io::shown::{self, count};
use crate::measure::statistics::{Interval, MIN_PROMPTS, Ratio, median};
use crate::tapes::forecasting::{CostSetting, ForecastCell, NearerDraft, best};
use crate::tapes::tape::AcceptanceRule;

/// The page.
pub(super) struct Advice<'f> {
    found: &'f Forecasts,
    audit: Option<Value>,
    /// The number of settings that were asked for; those of measured rounds follow.
    asked: usize,
}

/// A drafter's best chains at a setting of costs.
struct BestChains<'f> {
    cell: &'f ForecastCell,
    setting: usize,
}

impl<'f> Advice<'f> {
    /// # Errors
    /// If the file of the audit cannot be read, or holds no verdict.
    pub(super) fn new(found: &'f Forecasts, audit: Option<&Path>) -> Result<Self> {
        let measured = found.served.as_ref().map_or(0, |served| served.measured.len());
        let asked = found.settings.len() - measured;
        Ok(Self { found, audit: audit.map(read_audit).transpose()?, asked })
    }

    /// # Errors
    /// If a setting to paste cannot be written.
    pub(super) fn page(&self) -> Result<String> {
        let mut text = String::new();
        let target = shown::line(&self.found.tape.header.target.name);
        writeln!(text, "# Speculative decoding of {target}\n")?;
        for sampling in self.samplings() {
            writeln!(text, "- {}: {}", self.sampling(sampling), self.headline(sampling))?;
        }
        self.exact(&mut text)?;
        self.loads(&mut text)?;
        self.measured(&mut text)?;
        self.drafters(&mut text)?;
        self.pastes(&mut text)?;
        self.assumptions(&mut text)?;
        Ok(text)
    }

    /// The sampling settings with chains.
    fn samplings(&self) -> impl Iterator<Item = usize> {
        let all = 0..self.found.tape.header.samplings.len();
        all.filter(|&sampling| self.chains(sampling).next().is_some())
    }

    fn sampling(&self, sampling: usize) -> String {
        self.found.tape.header.samplings[sampling].words()
    }

    fn chains(&self, sampling: usize) -> impl Iterator<Item = &'f ForecastCell> {
        let own = move |cell: &&ForecastCell| {
            cell.config.tree.is_none() && cell.config.sampling == sampling
        };
        self.found.cells.iter().filter(own)
    }

    fn choice(&self, sampling: usize, setting: usize) -> Option<BestChains<'f>> {
        let cell = best(self.chains(sampling), setting)?;
        Some(BestChains { cell, setting })
    }

    /// Which K at which load, in a sentence; after the first context if there are several.
    fn headline(&self, sampling: usize) -> String {
        let mut parts = Vec::<(usize, usize, usize)>::new();
        let context = self.found.settings.first().and_then(|first| first.context);
        let settings = (0..self.asked).filter(|&at| self.found.settings[at].context == context);
        for setting in settings {
            let Some(choice) = self.choice(sampling, setting) else { continue };
            let batch = self.found.settings[setting].batch;
            let k = if self.pays(&choice) == Some(true) { choice.cell.config.k } else { 0 };
            match parts.last_mut() {
                Some((last, _, until)) if *last == k => *until = batch,
                _ => parts.push((k, batch, batch)),
            }
        }
        let words = parts.into_iter().map(|(k, from, until)| {
            let drafts = if k == 0 { "no drafts".to_owned() } else { format!("K = {k}") };
            let load = if from == until {
                count(from, "request")
            } else {
                format!("{from} to {until} requests")
            };
            format!("{drafts} for {load}")
        });
        let after = context.map_or_else(String::new, |context| format!(" (context {context})"));
        words.collect::<Vec<_>>().join(", ") + &after
    }

    /// Whether drafts are faster than plain decoding; `None` if the interval holds 1.
    fn pays(&self, choice: &BestChains<'_>) -> Option<bool> {
        let interval = self.speedup(choice)?.1?;
        (interval.lo > 1.0 || interval.hi < 1.0).then_some(interval.lo > 1.0)
    }

    fn speedup(&self, choice: &BestChains<'_>) -> Option<(f64, Option<Interval>)> {
        let k = choice.cell.config.k;
        Some(self.widened(&choice.cell.speedup(choice.setting)?, &[0, k], choice.setting))
    }

    /// A value with its interval over prompts and, if they are known, over the errors of times.
    fn widened(&self, ratio: &Ratio, drafts: &[usize], setting: usize) -> (f64, Option<Interval>) {
        let value = ratio.value().unwrap_or_default();
        let Some(served) = &self.found.served else { return (value, ratio.interval()) };
        // Prompts that all have the same ratio, as plain decoding has, leave only errors of times.
        let none = (ratio.prompts() >= MIN_PROMPTS).then_some(Interval { lo: value, hi: value });
        let widen = |own| served.widened(value, own, drafts, self.found.settings[setting]);
        (value, ratio.interval().or(none).map(widen))
    }

    fn exact(&self, text: &mut String) -> Result<()> {
        writeln!(text, "\n## Is it exact?\n")?;
        let Some(audit) = &self.audit else {
            writeln!(
                text,
                "Not audited. `specdec audit FILE --url URL --target MODEL --json` shows it; pass what \
                 it prints by `--audit`."
            )?;
            return Ok(());
        };
        for verdict in audit["verdicts"].as_array().into_iter().flatten() {
            let refuted = verdict["refuted"].as_bool().unwrap_or_default();
            let alike = verdict["alike"].as_array().into_iter().flatten();
            let alike = alike
                .filter_map(Value::as_str)
                .map(|bug| shown::line(name_now(bug)))
                .collect::<Vec<_>>();
            let word = match refuted {
                true => "No: refuted",
                false => "Not refuted",
            };
            let like = match alike.is_empty() || !refuted {
                true => String::new(),
                false => format!("; it looks like {}", alike.join(" or ")),
            };
            writeln!(
                text,
                "{word} at level {} by {} tokens of {} completions (temperature {}), log10 of the \
                 evidence {:.2}{like}.",
                verdict["level"],
                verdict["tokens"],
                verdict["texts"],
                verdict["sampling"]["temperature"],
                verdict["log10_e"].as_f64().unwrap_or(f64::NAN)
            )?;
        }
        Ok(())
    }

    fn loads(&self, text: &mut String) -> Result<()> {
        for sampling in self.samplings() {
            writeln!(text, "\n## Which K at which load ({})\n", self.sampling(sampling))?;
            writeln!(
                text,
                "| requests | context | drafter | K | tokens per round | speedup | tokens/s plainly | \
                 tokens/s with drafts |\n|---|---|---|---|---|---|---|---|"
            )?;
            for setting in 0..self.asked {
                let Some(choice) = self.choice(sampling, setting) else { continue };
                let CostSetting { batch, context } = self.found.settings[setting];
                let cell = choice.cell;
                let rate = |plain| self.rate(cell, setting, plain);
                writeln!(
                    text,
                    "| {batch} | {} | {} | {} | {} | {} | {} | {} |",
                    context.map_or("its own".to_owned(), |context| context.to_string()),
                    self.drafter(cell),
                    cell.config.k,
                    with_interval(self.over_prompts(&cell.block_efficiency()), 2),
                    self.speedup(&choice).map_or("-".to_owned(), |own| with_interval(own, 2)),
                    rate(true).map_or("-".to_owned(), |own| with_interval(own, 1)),
                    rate(false).map_or("-".to_owned(), |own| with_interval(own, 1)),
                )?;
            }
        }
        Ok(())
    }

    fn over_prompts(&self, ratio: &Ratio) -> (f64, Option<Interval>) {
        (ratio.value().unwrap_or_default(), ratio.interval())
    }

    /// Tokens per second of all requests.
    fn rate(
        &self,
        cell: &ForecastCell,
        setting: usize,
        plain: bool,
    ) -> Option<(f64, Option<Interval>)> {
        let drafts = [if plain { 0 } else { cell.config.k }];
        let (one, interval) = self.widened(&cell.tokens_per_s(setting, plain)?, &drafts, setting);
        let batch = self.found.settings[setting].batch as f64;
        let all = interval.map(|own| Interval { lo: batch * own.lo, hi: batch * own.hi });
        Some((batch * one, all))
    }

    fn drafter(&self, cell: &ForecastCell) -> String {
        shown::line(&self.found.tape.drafters[cell.config.drafter].describe())
    }

    /// The settings that were measured with drafts, next to what this page predicts for them.
    fn measured(&self, text: &mut String) -> Result<()> {
        let Some(served) = &self.found.served else { return Ok(()) };
        let mut errors = Vec::new();
        for sampling in self.samplings() {
            let mut rows = String::new();
            for (setting, point) in (self.asked..).zip(&served.measured) {
                let own = point.setting();
                let rule = |cell: &&ForecastCell| {
                    (cell.config.rule, cell.config.k) == (AcceptanceRule::Token, own.k)
                };
                let Some(cell) = best(self.chains(sampling).filter(rule), setting) else {
                    continue;
                };
                let Some(predicted) = self.rate(cell, setting, false) else { continue };
                let measured = point.mean(|one| one.tokens_per_s);
                errors.push((predicted.0 / measured - 1.0).abs());
                writeln!(
                    rows,
                    "| {} | {:.0} | {} | {} | {measured:.1} | {:+.1} % |",
                    own.batch,
                    point.mean(|one| one.context),
                    own.k,
                    with_interval(predicted, 1),
                    100.0 * (predicted.0 / measured - 1.0)
                )?;
            }
            if !rows.is_empty() {
                writeln!(text, "\n## Predicted and measured ({})\n", self.sampling(sampling))?;
                writeln!(
                    text,
                    "| requests | context | K | predicted tokens/s | measured tokens/s | difference |\n\
                     |---|---|---|---|---|---|"
                )?;
                text.push_str(&rows);
            }
        }
        if let Some(middle) = median(&errors) {
            writeln!(
                text,
                "\nMedian difference {:.1} %. The measured requests have prompts of their own and the \
                 temperature that the benchmark asked for.",
                100.0 * middle
            )?;
        }
        Ok(())
    }

    /// The best chains of each drafter at the first setting, and what a nearer draft would give.
    fn drafters(&self, text: &mut String) -> Result<()> {
        writeln!(text, "\n## What would another drafter give?\n")?;
        writeln!(
            text,
            "| sampling | drafter | K | tokens per round | speedup |\n|---|---|---|---|---|"
        )?;
        for sampling in self.samplings() {
            for drafter in 0..self.found.tape.drafters.len() {
                let own = self.chains(sampling).filter(|cell| cell.config.drafter == drafter);
                let Some(cell) = best(own, 0) else { continue };
                let choice = BestChains { cell, setting: 0 };
                writeln!(
                    text,
                    "| {} | {} | {} | {} | {} |",
                    self.sampling(sampling),
                    self.drafter(cell),
                    cell.config.k,
                    with_interval(self.over_prompts(&cell.block_efficiency()), 2),
                    self.speedup(&choice).map_or("-".to_owned(), |own| with_interval(own, 2)),
                )?;
            }
        }
        let batch = self.found.settings.first().map_or(1, |setting| setting.batch);
        writeln!(
            text,
            "\nAt {}. `specdec tape score` adds drafters to the tape.",
            count(batch, "request")
        )?;
        let half = |row: &&NearerDraft| row.share == 0.5;
        for row in self.found.nearer.iter().filter(half) {
            writeln!(
                text,
                "With q moved half of the way to p, {} would have {:.2} tokens per round ({}).",
                shown::line(&self.found.tape.drafters[row.drafter].describe()),
                row.rejection,
                self.sampling(row.sampling)
            )?;
        }
        Ok(())
    }

    fn pastes(&self, text: &mut String) -> Result<()> {
        writeln!(text, "\n## Settings to paste\n")?;
        for paste in Paste::value_variants().iter().filter(|paste| paste.is_short()) {
            let name = paste.to_possible_value().map(|value| value.get_name().to_owned());
            let name = name.unwrap_or_default();
            match paste.text(self.found) {
                Ok(settings) => writeln!(text, "{name}:\n```\n{}\n```", settings.trim_end())?,
                Err(why) => writeln!(text, "{name}: {why:#}.")?,
            }
        }
        Ok(())
    }

    fn assumptions(&self, text: &mut String) -> Result<()> {
        let tape = &self.found.tape;
        let prompts = self.found.cells.iter().map(|cell| cell.prompts.len()).max().unwrap_or(0);
        writeln!(text, "\n## What this rests on\n")?;
        writeln!(
            text,
            "- {} of {} on the tape. Intervals are 95 %, over prompts: other prompts of the same kind.",
            count(tape.sequences.len(), "completion"),
            count(prompts, "prompt")
        )?;
        for doubt in &self.found.doubts {
            writeln!(text, "- Doubt: {doubt}.")?;
        }
        writeln!(text, "- The server drafts and accepts as the tape's drafters and the rule do.")?;
        match &self.found.served {
            Some(served) => served_assumptions(text, served)?,
            None => writeln!(text, "- The costs of passes are taken as exact.")?,
        }
        writeln!(
            text,
            "- All requests decode all the time: `specdec simulate` adds arrivals, prompts and queues."
        )?;
        Ok(())
    }
}

fn served_assumptions(text: &mut String, served: &ServedCosts) -> Result<()> {
    writeln!(
        text,
        "- Costs are fitted to rounds that clients saw, in {}: the median error of the fit is {:.1} %. \
         Intervals of speeds include it.",
        count(served.points.len(), "setting"),
        100.0 * median(&served.fit.errors(&served.points)).unwrap_or_default()
    )?;
    writeln!(
        text,
        "- A row costs the same whether it is a further request's or a further drafted token's."
    )?;
    let unknown = &served.fit.unknown;
    if !unknown.is_empty() {
        writeln!(text, "- Not separated from other costs: {}.", unknown.join(", "))?;
    }
    if unknown.contains(&"drafting") {
        writeln!(text, "- Speeds with other drafters contain the costs of this one.")?;
    }
    Ok(())
}

fn read_audit(file: &Path) -> Result<Value> {
    let place = || format!("--audit {}", file.display());
    let found = serde_json::from_reader::<_, Value>(open_stream(file).with_context(place)?);
    let found = found.with_context(place)?;
    let verdicts = found["verdicts"].as_array().filter(|all| !all.is_empty());
    verdicts
        .context("it has no \"verdicts\": `specdec audit --json` writes them")
        .with_context(place)?;
    Ok(found)
}

fn with_interval((value, interval): (f64, Option<Interval>), digits: usize) -> String {
    let ends = interval.map(|own| format!(" [{:.digits$}, {:.digits$}]", own.lo, own.hi));
    format!("{value:.digits$}{}", ends.unwrap_or_default())
}

//! `specdec gate`: whether acceptance has dropped.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;

use super::{loss_place, output};
use crate::io::output::write_whole;
use crate::io::shown;
use crate::tapes::gate::{GateFinding, GateLimits, GateVerdict, gate};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  specdec gate main.jsonl branch.jsonl
  specdec gate main.jsonl branch.jsonl --max-drop 0.05 --junit gate.xml --json gate.json
  specdec gate results/my-experiment/2026-01-31-some-cpu-2c results/my-experiment/2026-02-01-some-cpu-2c

A log has a record for each request: responses of vLLM with --per-request-spec-decode-metrics, of
SGLang, TensorRT-LLM or llama.cpp, records of AIPerf, or the JSON file of GuideLLM. A results folder
and a tape with logs or scores are logs, too. The output is Markdown. The exit code is 1 if acceptance
has dropped, or is suspiciously high. docs/gate.md explains the verdict.")]
pub(super) struct GateArgs {
    /// The log to compare with
    base: PathBuf,
    /// The log in question
    new: PathBuf,
    /// The probability of a false alarm of each kind, however often the command is run on a growing log
    #[arg(long, default_value_t = 0.05)]
    level: f64,
    /// The drop of tokens per round that is allowed, as a share
    #[arg(long, default_value_t = 0.01, value_name = "SHARE")]
    max_drop: f64,
    /// The rise of tokens per round that is plausible, as a share
    #[arg(long, default_value_t = 0.25, value_name = "SHARE")]
    max_rise: f64,
    /// K: tokens of a draft for which scored tapes give the expected rounds
    #[arg(short, long, value_name = "K", default_value_t = 4,
        value_parser = clap::value_parser!(u16).range(1..=64))]
    k: u16,
    /// Also write everything as JSON to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also write the verdict as JUnit XML to this file
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
}

pub(super) fn run(args: &GateArgs) -> Result<()> {
    let GateArgs { level, max_drop, max_rise, .. } = *args;
    if !(level > 0.0 && level < 1.0) {
        bail!("--level is {level}: allowed is a number between 0 and 1");
    }
    if !(0.0..1.0).contains(&max_drop) {
        bail!("--max-drop is {max_drop}: allowed is a number from 0 to below 1");
    }
    if !(0.0..=100.0).contains(&max_rise) {
        bail!("--max-rise is {max_rise}: allowed is a number from 0 to 100");
    }
    let found =
        gate(&args.base, &args.new, args.k.into(), GateLimits { level, max_drop, max_rise })?;
    if let Some(file) = &args.json {
        write_whole(file, serde_json::to_string_pretty(&found)?.as_bytes())?;
    }
    if let Some(file) = &args.junit {
        write_whole(file, junit(&found).as_bytes())?;
    }
    output::write(&markdown(&found))?;
    match found.finding {
        GateFinding::Dropped | GateFinding::Suspicious => bail!("{}", verdict(&found)),
        GateFinding::Kept | GateFinding::Undecided => Ok(()),
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// The change of tokens per round with its interval.
fn change(ratio: Option<f64>, ends: [Option<f64>; 2]) -> String {
    let signed = |ratio: f64| format!("{:+.1} %", 100.0 * (ratio - 1.0));
    let interval = match ends {
        [Some(lo), Some(hi)] => format!(" [{}, {}]", signed(lo), signed(hi)),
        _ => String::new(),
    };
    ratio.map_or_else(|| "-".to_owned(), |ratio| signed(ratio) + &interval)
}

/// The verdict in a sentence.
fn verdict(found: &GateVerdict) -> String {
    let evidence = |log10| format!("evidence {}, level {}", shown::e_value(log10), found.level);
    match found.finding {
        GateFinding::Dropped => format!(
            "acceptance has dropped by more than {}: shown after {} prompts ({})",
            percent(found.max_drop),
            found.prompts_drop,
            evidence(found.log10_e_drop)
        ),
        GateFinding::Suspicious if found.is_saturated() => {
            "nearly every drafted token is accepted now: a drafter that sees what it should predict \
             looks like this"
                .to_owned()
        }
        GateFinding::Suspicious => format!(
            "acceptance has risen by more than {} ({}): a drafter that sees what it should predict \
             looks like this",
            percent(found.max_rise),
            evidence(found.log10_e_rise)
        ),
        GateFinding::Kept => {
            format!("acceptance has not dropped by more than {}", percent(found.max_drop))
        }
        GateFinding::Undecided => {
            format!("no drop by more than {} is shown, nor excluded", percent(found.max_drop))
        }
    }
}

/// The verdict as a comment on a change.
fn markdown(found: &GateVerdict) -> String {
    let mut lines = vec![format!("**specdec gate: {}.**", verdict(found)), String::new()];
    let [before, now] = found.tau;
    lines.push(format!(
        "- Tokens per round: {before:.3} → {now:.3}, {} (95 % interval over {} prompts, {:.0} tokens)",
        change(found.ratio, [found.ratio_lo, found.ratio_hi]),
        found.prompts,
        found.tokens
    ));
    if let [Some(before), Some(now)] = found.acceptance {
        lines.push(format!("- Drafted tokens accepted: {} → {}", percent(before), percent(now)));
    }
    if let Some(smallest) = found.smallest_drop {
        lines.push(format!(
            "- The smallest drop that {} prompts show in nine of ten runs: {}",
            found.prompts,
            percent(smallest)
        ));
    }
    lines.push(format!(
        "- Paired by {}; left out: {} and {} requests",
        found.paired_by, found.unmatched[0], found.unmatched[1]
    ));
    if found.scaled > 0 {
        lines.push(format!(
            "- Of {} requests only the sums are known: where completions differ in length, their \
             rounds are spread evenly",
            found.scaled
        ));
    }
    if let (Some(place), Some(changes), GateFinding::Dropped) =
        (found.place, &found.changes, found.finding)
    {
        lines.extend(loss_place::lines(place, changes).map(|line| format!("- {line}")));
    }
    lines.extend(positions(found));
    lines.extend(categories(found));
    lines.join("\n") + "\n"
}

fn positions(found: &GateVerdict) -> Vec<String> {
    let both = found.positions.iter().filter(|own| own.reached.iter().all(|reached| *reached > 0));
    let rows = both.map(|own| {
        let [before, now] = [0, 1].map(|at| own.accepted[at] as f64 / own.reached[at] as f64);
        let [first, second] = own.reached;
        format!("| {} | {before:.3} | {now:.3} | {first} | {second} |", own.position)
    });
    let rows = rows.collect::<Vec<_>>();
    if rows.is_empty() {
        return rows;
    }
    let head = "\n| position | accepted before | now | decided on before | now |\n\
                | ---: | ---: | ---: | ---: | ---: |";
    [vec![head.to_owned()], rows].concat()
}

fn categories(found: &GateVerdict) -> Vec<String> {
    let rows = found.categories.iter().map(|own| {
        let [before, now] = own.tau;
        let changed = change(own.ratio, [own.ratio_lo, own.ratio_hi]);
        let name = shown::markdown(&own.category);
        format!("| {name} | {} | {before:.3} | {now:.3} | {changed} |", own.prompts)
    });
    let rows = rows.collect::<Vec<_>>();
    if rows.is_empty() {
        return rows;
    }
    let head = "\n| category | prompts | tokens per round before | now | change |\n\
                | --- | ---: | ---: | ---: | ---: |";
    [vec![head.to_owned()], rows].concat()
}

/// The verdict as JUnit XML: one test for a drop, one for acceptance that is too high.
fn junit(found: &GateVerdict) -> String {
    let case = |name: &str, failed: bool| {
        let failure = match failed {
            true => format!("<failure message=\"{}\"/>", shown::html(&verdict(found))),
            false => String::new(),
        };
        format!("  <testcase classname=\"specdec.gate\" name=\"{name}\">{failure}</testcase>\n")
    };
    let [dropped, high] =
        [GateFinding::Dropped, GateFinding::Suspicious].map(|finding| found.finding == finding);
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <testsuite name=\"specdec gate\" tests=\"2\" failures=\"{}\">\n{}{}</testsuite>\n",
        usize::from(dropped || high),
        case("acceptance has not dropped", dropped),
        case("acceptance is plausible", high)
    )
}

//! Takes single samples on request, for measurements that alternate sample by sample with
//! other programs.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::{BufRead, Write};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};

use crate::core::chance::{Request, Seeded};
use crate::core::distribution::Token;
use crate::core::lanes::IsaKind;
use crate::core::sampling::{Logits, Sampler, SamplingParams};
use crate::core::tree::{Draft, Row};
use crate::engine::pool::Pool;
use crate::measure::bench::{
    BenchPlace, BenchSequences, ReadBenchmark, Stopwatch, TimedCall, check_room, prefill, text,
};
use crate::measure::machine::MachineClock;
use crate::method::beam::{BeamSearch, BeamSettings, BeamTotals, MOST_BEAMS, NoBeamObserver};
use crate::method::decode::{MethodSpec, PLAIN, StopRules};
use crate::model::{LanguageModel, Session, Want, Work, evaluate_one};
use crate::tapes::tape::{TapeSequence, Teacher, log_probs};

/// The largest batch that can be asked for.
const MOST_BATCH: usize = 256;

/// Writes a line of JSON about the model, then answers every line of `requests` with a line
/// of JSON, until `quit` or the end of input.
///
/// # Errors
/// If a request is invalid or cannot be read, the model fails, or an answer cannot be
/// written.
pub(super) fn answer(
    model: &dyn LanguageModel,
    context: usize,
    requests: impl BufRead,
    mut answers: impl Write,
) -> Result<()> {
    check_room(model, context, 0)?;
    let info = model.info();
    let most = info.context_length;
    let rows = |text: &str| number(text, most - context + 1);
    let mut say = |value: Value| -> Result<()> {
        writeln!(answers, "{value}")?;
        Ok(answers.flush()?)
    };
    say(json!({
        "ready": true,
        "name": info.name,
        "engine": info.engine,
        "dtype": info.dtype,
        "isa": IsaKind::active().name(),
        "threads": Pool::shared().threads(),
        "bytes_per_token": info.bytes_per_token,
    }))?;
    let clock = MachineClock::default();
    let stopwatch = Stopwatch::new(&clock);
    let reading = ReadBenchmark::new(info.bytes_per_token)?;
    let (mut sequences, mut tapped) = (BTreeMap::new(), None);
    let mut session = model.session()?;
    for line in requests.lines() {
        let line = line?;
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["quit"] => return Ok(()),
            ["read"] => say(timed(&stopwatch, &mut || {
                reading.run();
                Ok(())
            })?)?,
            ["pass", wanted, ref batch @ ..] if matches!(batch, [] | [_] | [_, "shared"]) => {
                let (wanted, shared) = (rows(wanted)?, batch.len() == 2);
                let batch = batch.first().map_or(Ok(1), |batch| number(batch, MOST_BATCH))?;
                let place = BenchPlace { context, batch, shared };
                let sequences = match sequences.entry((batch, shared)) {
                    Entry::Occupied(known) => known.into_mut(),
                    Entry::Vacant(new) => new.insert(BenchSequences::new(model, place)?),
                };
                say(timed(&stopwatch, &mut *sequences.pass(wanted))?)?;
            }
            ["tapped", wanted] => {
                let place = BenchPlace { context, batch: 1, shared: false };
                let sequences = match &mut tapped {
                    Some(known) => known,
                    new => new.insert(BenchSequences::new(model, place)?.keeping_states()?),
                };
                say(timed(&stopwatch, &mut *sequences.pass(rows(wanted)?))?)?;
            }
            ["prefill", tokens] => {
                let tokens = number(tokens, most)?;
                say(timed(&stopwatch, &mut || prefill(model, tokens))?)?;
            }
            ["score", tokens] => {
                let tokens = number(tokens, most - 1)?;
                say(timed(&stopwatch, &mut || score(model, tokens))?)?;
            }
            ["beams", width, steps] => {
                let (width, steps) = (number(width, MOST_BEAMS)?, number(steps, most - context)?);
                say(beams(model, context, (width, steps), (&stopwatch, &clock))?)?;
            }
            ["logits", wanted] => {
                let text = text(model, context + rows(wanted)? - 1);
                say(json!({"logits": logits(model, &mut session, &text)?}))?;
            }
            ["logits-after", ref tokens @ ..] if !tokens.is_empty() => {
                let tokens = tokens.iter().map(|text| token(text, info.vocab));
                let tokens = tokens.collect::<Result<Vec<_>>>()?;
                say(json!({"logits": logits(model, &mut session, &tokens)?}))?;
            }
            _ => bail!(
                "request \"{line}\": allowed are pass M BATCH shared, tapped M, prefill N, score N, read, beams B \
                 STEPS, logits M, logits-after TOKEN ..., quit"
            ),
        }
    }
    Ok(())
}

fn number(text: &str, most: usize) -> Result<usize> {
    let number = text.parse().ok().filter(|n| (1..=most).contains(n));
    number.with_context(|| format!("\"{text}\" in a request: allowed is 1 to {most} here"))
}

fn token(text: &str, vocab: usize) -> Result<Token> {
    let token = text.parse().ok().filter(|&token: &Token| (token as usize) < vocab);
    token.with_context(|| format!("token \"{text}\": allowed is 0 to {} here", vocab - 1))
}

/// Takes one sample, after a few calls that warm up and determine the number of repetitions.
fn timed(stopwatch: &Stopwatch<'_>, task: &mut TimedCall<'_>) -> Result<Value> {
    let repeats = stopwatch.repeats(task)?;
    let sample = stopwatch.sample(task, repeats)?;
    Ok(json!({"micros": sample.micros, "queue_share": sample.share}))
}

/// Reads a text of `tokens` tokens as `specdec tape score` does.
fn score(model: &dyn LanguageModel, tokens: usize) -> Result<(), crate::core::error::Error> {
    let all = text(model, tokens + 1);
    let read = TapeSequence {
        prompt_tokens: all[..1].to_vec(),
        tokens: all[1..].to_vec(),
        max_tokens: tokens,
        ..TapeSequence::default()
    };
    let sampler = Sampler::new(SamplingParams::NEUTRAL)?.on(model.for_each_row());
    log_probs(&mut Teacher::new(model)?, &sampler, &read).map(drop)
}

/// The time of a step of beam search without a drafter: the mean over `steps` of them.
fn beams(
    model: &dyn LanguageModel,
    context: usize,
    (num_beams, steps): (usize, usize),
    (stopwatch, clock): (&Stopwatch<'_>, &MachineClock),
) -> Result<Value> {
    let prompt = text(model, context);
    let settings = BeamSettings { num_beams, ..BeamSettings::default() };
    let stop = StopRules::max_tokens(steps);
    let search = BeamSearch { target: model, settings, prompt: &prompt, stop, codec: None };
    let plain = MethodSpec { drafter: PLAIN.to_owned(), ..MethodSpec::default() };
    let mut chance = Seeded::new(Request { seed: 0, prompt: "", repeat: 0 });
    let mut totals = BeamTotals::default();
    let mut task = || {
        let method = plain.build(None)?;
        totals = search.run(method, (&mut chance, clock), &mut NoBeamObserver)?.totals;
        Ok(())
    };
    let share = stopwatch.sample(&mut task, 1)?.share;
    let step = totals.decode.as_secs_f64() * 1e6 / totals.steps as f64;
    Ok(json!({"micros": step, "rows": totals.rows, "queue_share": share}))
}

/// The logits after `context`, as one row of vocabulary length. What the session holds of it is
/// not computed again.
fn logits(model: &dyn LanguageModel, session: &mut Session, context: &[Token]) -> Result<Vec<f32>> {
    let draft = Draft::empty(model.info().vocab);
    let work = Work { session, context, draft: &draft, want: Want::Row(Row::CONTEXT) };
    match evaluate_one(model, work)?.rows.pop() {
        Some(Logits::F32(row)) => Ok(row),
        _ => Err(anyhow!("a toy model has no f32 logits")),
    }
}

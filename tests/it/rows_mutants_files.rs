//! Known-wrong rows of texts, failures, differences and blocks.

use specdec::measure::rows::{BlockRow, DivergenceRow};
use specdec::method::decode::PLAIN;

use crate::rows_fields::Rows;
use crate::rows_mutants::{Mutant, cell, tokens_of};

/// Mutants of texts, failures and differences.
pub(crate) const OTHERS: &[Mutant] = &[
    ("all repeats share their random numbers", "generations.jsonl: tokens", |rows, _| {
        for i in 0..rows.texts.len() {
            let text = &rows.texts[i];
            if let Some(first) = tokens_of(rows, &text.cell, &text.prompt, 0) {
                rows.texts[i].tokens = first;
            }
        }
    }),
    ("texts of the baseline", "generations.jsonl: cell", |rows, plan| {
        let baseline = plan.cells.iter().find(|cell| cell.method.drafter == PLAIN).unwrap();
        rows.texts.iter_mut().for_each(|text| text.cell = baseline.id.clone());
    }),
    ("category instead of prompt", "generations.jsonl: prompt", |rows, _| {
        let categories = rows.generations.iter().map(|g| g.category.clone());
        rows.texts.iter_mut().zip(categories).for_each(|(text, c)| text.prompt = c);
    }),
    ("texts of repeat 0", "generations.jsonl: repeat", |rows, _| {
        rows.texts.iter_mut().for_each(|text| text.repeat = 0);
    }),
    ("text without its last token", "generations.jsonl: text", |rows, _| {
        rows.texts.iter_mut().for_each(|text| _ = text.text.pop());
    }),
    ("traces of the baseline", "traces.jsonl: cell", |rows, plan| {
        let baseline = plan.cells.iter().find(|cell| cell.method.drafter == PLAIN).unwrap();
        rows.traces.iter_mut().for_each(|trace| trace.cell = baseline.id.clone());
    }),
    ("traces of the first prompt", "traces.jsonl: prompt", |rows, plan| {
        rows.traces.iter_mut().for_each(|trace| trace.prompt = plan.prompts[0].clone());
    }),
    ("traces of repeat 0", "traces.jsonl: repeat", |rows, _| {
        rows.traces.iter_mut().for_each(|trace| trace.repeat = 0);
    }),
    ("only the text's tokens have strings", "traces.jsonl: strings", |rows, _| {
        for i in 0..rows.traces.len() {
            let trace = &rows.traces[i];
            let tokens = tokens_of(rows, &trace.cell, &trace.prompt, trace.repeat).unwrap();
            rows.traces[i].strings.retain(|token, _| tokens.contains(token));
        }
    }),
    ("siblings are accepted as if they came first", "traces.jsonl: rounds", |rows, _| {
        for node in rows.traces.iter_mut().flat_map(|t| &mut t.rounds).flat_map(|r| &mut r.nodes) {
            node.acceptance = if node.q > 0.0 { (node.p / node.q).min(1.0) } else { 0.0 };
        }
    }),
    ("the last distribution is the first", "traces.jsonl: rounds", |rows, _| {
        for round in rows.traces.iter_mut().flat_map(|trace| &mut trace.rounds) {
            round.last = round.nodes.first().map_or(round.last.clone(), |node| node.target.clone());
        }
    }),
    ("a residual of unreached tokens", "traces.jsonl: rounds", |rows, _| {
        for node in rows.traces.iter_mut().flat_map(|t| &mut t.rounds).flat_map(|r| &mut r.nodes) {
            node.reached = true;
        }
    }),
    ("no traces of plain decoding", "traces.jsonl: number of rows", |rows, plan| {
        rows.traces.retain(|trace| cell(plan, &trace.cell).method.drafter != PLAIN);
    }),
    ("failures of the first cell", "failures.csv: cell", |rows, plan| {
        rows.failures.iter_mut().for_each(|f| f.cell = plan.cells[0].id.clone());
    }),
    ("failures of the first prompt", "failures.csv: prompt", |rows, _| {
        rows.failures.iter_mut().for_each(|f| f.prompt = "p0".to_owned());
    }),
    ("failures of repeat 0", "failures.csv: repeat", |rows, _| {
        rows.failures.iter_mut().for_each(|f| f.repeat = 0);
    }),
    ("the failed comparison is not named", "failures.csv: reason", |rows, _| {
        let reason = |text: &str| text.rsplit(": ").next().unwrap().to_owned();
        rows.failures.iter_mut().for_each(|f| f.reason = reason(&f.reason));
    }),
    ("failures superseded", "failures.csv: superseded", |rows, _| {
        rows.failures.iter_mut().for_each(|f| f.superseded = true);
    }),
    ("a text that was not compared passes", "failures.csv: number of rows", |rows, _| {
        rows.failures.retain(|f| !f.reason.starts_with("plain decoding"));
    }),
    ("differences of the baseline", "divergences.csv: cell", |rows, plan| {
        rows.divergences.iter_mut().for_each(|d| d.cell = plan.cells[0].id.clone());
    }),
    ("differences of the first prompt", "divergences.csv: prompt", |rows, _| {
        rows.divergences.iter_mut().for_each(|d| d.prompt = "p0".to_owned());
    }),
    ("differences of repeat 0", "divergences.csv: repeat", |rows, _| {
        rows.divergences.iter_mut().for_each(|d| d.repeat = 0);
    }),
    ("position from 1", "divergences.csv: position", |rows, _| {
        rows.divergences.iter_mut().for_each(|d| d.position += 1);
    }),
    ("both tokens exchanged", "divergences.csv: plain_token", |rows, _| {
        rows.divergences.iter_mut().for_each(|d| std::mem::swap(&mut d.plain_token, &mut d.token));
    }),
    ("token 0 for an ended text", "divergences.csv: token", |rows, _| {
        rows.divergences.iter_mut().for_each(|d| d.token = d.token.or(Some(0)));
    }),
    ("class P is scored", "divergences.csv: top2_gap", |rows, _| {
        rows.divergences.iter_mut().for_each(|d| d.top2_gap = d.top2_gap.or(Some(0.0)));
    }),
    ("one bound for all logits", "divergences.csv: bound", |rows, _| {
        rows.divergences.iter_mut().for_each(|d| d.bound = d.bound.map(|_| 1e-4));
    }),
    ("a tie for any tokens", "divergences.csv: tie", |rows, _| {
        rows.divergences
            .iter_mut()
            .for_each(|d| d.tie = d.bound.is_some() && d.top2_gap <= d.bound);
    }),
    ("no tie at all", "divergences.csv: tie", |rows, _| {
        rows.divergences.iter_mut().for_each(|d| d.tie = false);
    }),
    ("class P~ has rows", "divergences.csv: number of rows", |rows, plan| {
        for g in &rows.generations {
            let at = g.first_divergence.filter(|_| cell(plan, &g.cell).class == "P~");
            rows.divergences.extend(at.map(|_| DivergenceRow::default()));
        }
    }),
];

fn each_block(rows: &mut Rows, change: impl Fn(&mut BlockRow)) {
    rows.blocks.iter_mut().for_each(change);
}

/// Mutants of `blocks.csv`.
pub(crate) const BLOCKS: &[Mutant] = &[
    ("blocks counted from 1", "blocks.csv: block", |rows, _| each_block(rows, |b| b.block += 1)),
    ("attempts counted from 1", "blocks.csv: attempt", |rows, _| {
        each_block(rows, |b| b.attempt += 1);
    }),
    ("sessions counted from 1", "blocks.csv: session", |rows, _| {
        each_block(rows, |b| b.session += 1);
    }),
    ("blocks of the first prompt", "blocks.csv: prompt", |rows, plan| {
        each_block(rows, |b| b.prompt = plan.prompts[0].clone());
    }),
    ("blocks of repeat 0", "blocks.csv: repeat", |rows, _| each_block(rows, |b| b.repeat = 0)),
    ("waiting as a percentage", "blocks.csv: waiting_share", |rows, _| {
        each_block(rows, |b| b.waiting_share *= 100.0);
    }),
    ("what others used of one core", "blocks.csv: others_share", |rows, _| {
        each_block(rows, |b| b.others_share /= 2.0);
    }),
    ("time stolen from all cores", "blocks.csv: stolen_share", |rows, _| {
        each_block(rows, |b| b.stolen_share *= 2.0);
    }),
    ("what a limit withheld of one core", "blocks.csv: throttled_share", |rows, _| {
        each_block(rows, |b| b.throttled_share = b.throttled_share.map(|share| share / 2.0));
    }),
    ("stops include what is known", "blocks.csv: stopped_share", |rows, _| {
        each_block(rows, |b| b.stopped_share = b.stopped_share.map(|share| share + b.stolen_share));
    }),
    ("stops do not disturb", "blocks.csv: disturbed", |rows, _| {
        each_block(rows, |b| {
            b.disturbed = b.waiting_share.min(b.others_share) + b.stolen_share > 0.1
        });
    }),
    ("threads that wait for each other count as disturbed", "blocks.csv: disturbed", |rows, _| {
        each_block(rows, |b| b.disturbed = b.waiting_share + b.stolen_share > 0.1);
    }),
    ("no block is disturbed", "blocks.csv: disturbed", |rows, _| {
        each_block(rows, |b| b.disturbed = false);
    }),
    ("generations instead of rounds", "blocks.csv: rounds", |rows, _| {
        each_block(rows, |b| b.rounds = b.generations);
    }),
    ("rounds instead of positions", "blocks.csv: positions", |rows, _| {
        each_block(rows, |b| b.positions = b.rounds);
    }),
    ("a text too few", "blocks.csv: texts", |rows, _| each_block(rows, |b| b.texts -= 1)),
    ("failures not counted", "blocks.csv: failures", |rows, _| {
        each_block(rows, |b| b.failures = 0);
    }),
    ("differences not counted", "blocks.csv: divergences", |rows, _| {
        each_block(rows, |b| b.divergences = 0);
    }),
    ("a generation too many", "blocks.csv: generations", |rows, _| {
        each_block(rows, |b| b.generations += 1);
    }),
    ("files in another order", "blocks.csv: digests", |rows, _| {
        each_block(rows, |b| {
            let mut parts = b.digests.split('-').collect::<Vec<_>>();
            parts.reverse();
            b.digests = parts.join("-");
        });
    }),
    ("a seal over nothing", "blocks.csv: seal", |rows, _| {
        each_block(rows, |b| b.seal = b.digests[..8].to_owned());
    }),
    ("superseded blocks count", "blocks.csv: superseded", |rows, _| {
        each_block(rows, |b| b.superseded = false);
    }),
];

//! Known-wrong rows: what a run would record if its code were wrong in one place.
//! The comparison with the replay must reject each of them and name the column that
//! is wrong.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest, Sha256};
use specdec::core::clock::Who;
use specdec::core::distribution::Token;
use specdec::measure::rows::{GenerationRow, PositionRow, RoundRow, TextRow};
use specdec::run::experiment::{Cell, Plan};

use crate::rows_fields::{FINISHED, Rows, replayed_columns};
use crate::rows_mutants_files::{BLOCKS, OTHERS};
use crate::rows_replay::first_difference;
use crate::rows_support::pass_ns;

/// A wrong edit: its name, a column that shows it, and how it changes the rows.
pub(crate) type Mutant = (&'static str, &'static str, fn(&mut Rows, &Plan));

pub(crate) fn cell<'p>(plan: &'p Plan, id: &str) -> &'p Cell {
    plan.cells.iter().find(|cell| cell.id == id).unwrap()
}

fn each_round(rows: &mut Rows, change: impl Fn(&mut RoundRow)) {
    rows.rounds.iter_mut().for_each(change);
}

fn each_position(rows: &mut Rows, change: impl Fn(&mut PositionRow)) {
    rows.positions.iter_mut().for_each(change);
}

/// The drafted tokens of a round.
fn drafted<'r>(rows: &'r Rows, round: &RoundRow) -> Vec<&'r PositionRow> {
    let key = (&round.cell, &round.prompt, round.repeat, round.round);
    let own = |p: &&PositionRow| (&p.cell, &p.prompt, p.repeat, p.round) == key;
    rows.positions.iter().filter(own).collect()
}

/// Gives every drafted token the value of the next one in its round.
fn shift<T: Clone>(
    rows: &mut Rows,
    get: impl Fn(&PositionRow) -> T,
    set: impl Fn(&mut PositionRow, T),
) {
    for i in 1..rows.positions.len() {
        let (before, after) = rows.positions.split_at_mut(i);
        if after[0].node > 0 {
            set(before.last_mut().unwrap(), get(&after[0]));
        }
    }
}

/// The new tokens of a cell for a prompt and repeat.
pub(crate) fn tokens_of(rows: &Rows, cell: &str, prompt: &str, repeat: u32) -> Option<Vec<Token>> {
    let found =
        |t: &&TextRow| (t.cell.as_str(), t.prompt.as_str(), t.repeat) == (cell, prompt, repeat);
    rows.texts.iter().find(found).map(|text| text.tokens.clone())
}

const ROUNDS: &[Mutant] = &[
    ("class instead of cell", "rounds.csv: cell", |rows, plan| {
        each_round(rows, |r| r.cell = cell(plan, &r.cell).class.clone());
    }),
    ("prompt number instead of its name", "rounds.csv: prompt", |rows, _| {
        each_round(rows, |r| r.prompt = r.prompt.replace('p', ""));
    }),
    ("repeats counted from 1", "rounds.csv: repeat", |rows, _| each_round(rows, |r| r.repeat += 1)),
    ("rounds counted from 1", "rounds.csv: round", |rows, _| each_round(rows, |r| r.round += 1)),
    ("context after the round", "rounds.csv: context_tokens", |rows, _| {
        each_round(rows, |r| r.context_tokens += r.emitted);
    }),
    ("proposed = K", "rounds.csv: proposed", |rows, plan| {
        each_round(rows, |r| r.proposed = cell(plan, &r.cell).method.num_speculative_tokens);
    }),
    ("depth = proposed", "rounds.csv: depth", |rows, _| each_round(rows, |r| r.depth = r.proposed)),
    ("the end of a text is not accepted", "rounds.csv: accepted", |rows, _| {
        each_round(rows, |r| r.accepted = r.accepted.min(r.emitted - 1));
    }),
    ("all drafted tokens were accepted before the cut", "rounds.csv: accepted_raw", |rows, _| {
        each_round(rows, |r| r.accepted_raw = Some(r.proposed));
    }),
    ("a model without experts has one for each row", "rounds.csv: experts", |rows, _| {
        each_round(rows, |r| r.experts = Some(r.proposed + 1));
    }),
    ("emitted before the cut", "rounds.csv: emitted", |rows, _| {
        each_round(rows, |r| r.emitted = r.accepted + 1);
    }),
    ("truncated inverted", "rounds.csv: truncated", |rows, _| {
        each_round(rows, |r| r.truncated = !r.truncated);
    }),
    ("truncated unless the whole draft was emitted", "rounds.csv: truncated", |rows, _| {
        each_round(rows, |r| r.truncated = r.emitted < r.proposed + 1);
    }),
    ("reached = all siblings", "rounds.csv: reached", |rows, _| {
        let all = |r: &RoundRow| {
            let drafted = drafted(rows, r);
            let kept = |p: Option<usize>| p.is_none_or(|p| drafted[p].accepted);
            drafted.iter().filter(|d| kept(d.parent)).count()
        };
        let reached = rows.rounds.iter().map(all).collect::<Vec<_>>();
        rows.rounds.iter_mut().zip(reached).for_each(|(r, reached)| r.reached = reached);
    }),
    ("overlap_sum = p(first child)", "rounds.csv: overlap_sum", |rows, _| {
        let sum = |r: &RoundRow| {
            let (mut forks, drafted) = (BTreeSet::new(), drafted(rows, r));
            let kept = |p: Option<usize>| p.is_none_or(|p| drafted[p].accepted);
            let first = drafted.iter().filter(|d| kept(d.parent) && forks.insert(d.parent));
            first.map(|d| d.p).sum::<f64>()
        };
        let sums = rows.rounds.iter().map(sum).collect::<Vec<_>>();
        rows.rounds.iter_mut().zip(sums).for_each(|(r, sum)| r.overlap_sum = sum);
    }),
    ("forks counting leaves", "rounds.csv: forks", |rows, _| {
        each_round(rows, |r| r.forks = r.accepted + 1);
    }),
    ("ceiling of the first child alone", "rounds.csv: ceiling_sum", |rows, _| {
        each_round(rows, |r| r.ceiling_sum = r.ceiling_sum.map(|_| r.overlap_sum));
    }),
    ("an unknown ceiling is 0", "rounds.csv: ceiling_sum", |rows, _| {
        each_round(rows, |r| r.ceiling_sum = r.ceiling_sum.or(Some(0.0)));
    }),
    ("exact verifiers have a distance of 0", "rounds.csv: tv_sum", |rows, _| {
        each_round(rows, |r| r.tv_sum = r.tv_sum.or(Some(0.0)));
    }),
    ("distance of the last fork alone", "rounds.csv: tv_sum", |rows, _| {
        each_round(rows, |r| r.tv_sum = r.tv_sum.map(|sum| sum / r.forks.max(1) as f64));
    }),
    ("a fallback per rejection", "rounds.csv: residual_fallbacks", |rows, _| {
        each_round(rows, |r| r.residual_fallbacks = usize::from(r.accepted < r.depth));
    }),
    ("a pass per drafted token", "rounds.csv: draft_forwards", |rows, _| {
        each_round(rows, |r| r.draft_forwards = r.proposed);
    }),
    ("draft_us halved", "rounds.csv: draft_us", |rows, _| each_round(rows, |r| r.draft_us /= 2.0)),
    ("target_us with the draft in it", "rounds.csv: target_us", |rows, _| {
        each_round(rows, |r| r.target_us += r.draft_us);
    }),
    ("verify_us with the target in it", "rounds.csv: verify_us", |rows, _| {
        each_round(rows, |r| r.verify_us += r.target_us);
    }),
    ("verify_us and other_us exchanged", "rounds.csv: other_us", |rows, _| {
        each_round(rows, |r| std::mem::swap(&mut r.verify_us, &mut r.other_us));
    }),
    ("whole microseconds", "rounds.csv: other_us", |rows, _| {
        each_round(rows, |r| r.other_us = r.other_us.floor());
    }),
];

const POSITIONS: &[Mutant] = &[
    ("drafter instead of cell", "positions.csv: cell", |rows, plan| {
        each_position(rows, |p| p.cell = cell(plan, &p.cell).method.drafter.clone());
    }),
    ("prompt in capitals", "positions.csv: prompt", |rows, _| {
        each_position(rows, |p| p.prompt = p.prompt.to_uppercase());
    }),
    ("repeat 0 for all", "positions.csv: repeat", |rows, _| each_position(rows, |p| p.repeat = 0)),
    ("round 0 for all", "positions.csv: round", |rows, _| each_position(rows, |p| p.round = 0)),
    ("nodes counted from 1", "positions.csv: node", |rows, _| each_position(rows, |p| p.node += 1)),
    ("parent off by one", "positions.csv: parent", |rows, _| {
        each_position(rows, |p| p.parent = p.parent.map(|parent| parent + 1));
    }),
    ("every node follows the one before it", "positions.csv: parent", |rows, _| {
        each_position(rows, |p| p.parent = p.node.checked_sub(1));
    }),
    ("depth from 0", "positions.csv: depth", |rows, _| each_position(rows, |p| p.depth -= 1)),
    ("token of the next node", "positions.csv: token", |rows, _| {
        shift(rows, |p| p.token, |p, token| p.token = token);
    }),
    ("p and q exchanged", "positions.csv: p", |rows, _| {
        each_position(rows, |p| std::mem::swap(&mut p.p, &mut p.q));
    }),
    ("q of siblings is that of the first", "positions.csv: q", |rows, _| {
        for i in 1..rows.positions.len() {
            let (before, after) = rows.positions.split_at_mut(i);
            let (first, second) = (before.last().unwrap(), &mut after[0]);
            if second.node > 0 && first.parent == second.parent {
                second.q = first.q;
            }
        }
    }),
    ("overlap = min(p, q) of the token", "positions.csv: overlap", |rows, _| {
        each_position(rows, |p| p.overlap = p.p.min(p.q));
    }),
    ("entropy in bits", "positions.csv: p_entropy", |rows, _| {
        each_position(rows, |p| p.p_entropy /= std::f64::consts::LN_2);
    }),
    ("entropies exchanged", "positions.csv: q_entropy", |rows, _| {
        each_position(rows, |p| std::mem::swap(&mut p.p_entropy, &mut p.q_entropy));
    }),
    ("top2_gap of the row after the node", "positions.csv: top2_gap", |rows, _| {
        shift(rows, |p| p.top2_gap, |p, gap| p.top2_gap = gap);
    }),
    ("top2_gap of tempered logits", "positions.csv: top2_gap", |rows, plan| {
        each_position(rows, |p| {
            let temperature = cell(plan, &p.cell).method.sampling.temperature;
            p.top2_gap /= if temperature > 0.0 { temperature } else { 1.0 };
        });
    }),
    ("accepted inverted", "positions.csv: accepted", |rows, _| {
        each_position(rows, |p| p.accepted = !p.accepted);
    }),
    ("whole levels accepted", "positions.csv: accepted", |rows, _| {
        let accepted = rows
            .rounds
            .iter()
            .map(|r| ((r.cell.clone(), r.prompt.clone(), r.repeat, r.round), r.accepted));
        let accepted = accepted.collect::<BTreeMap<_, _>>();
        each_position(rows, |p| {
            let key = (p.cell.clone(), p.prompt.clone(), p.repeat, p.round);
            p.accepted = p.depth <= accepted[&key];
        });
    }),
    ("an untraced round", "positions.csv: number of rows", |rows, _| {
        rows.positions.retain(|p| p.round != 1);
    }),
];

const GENERATIONS: &[Mutant] = &[
    ("cells never rotated within a block", "generations.csv: cell", |rows, plan| {
        let place = |id: &str| plan.cells.iter().position(|cell| cell.id == id);
        let sampling = |id: &str| cell(plan, id).method.sampling.clone();
        let same_block = |a: &_, b: &_| {
            let block =
                |g: &GenerationRow| (g.prompt.clone(), g.repeat, sampling(&g.cell).temperature);
            block(a) == block(b)
        };
        let blocks = rows.generations.chunk_by_mut(same_block);
        blocks.for_each(|block| block.sort_by_key(|g| place(&g.cell)));
    }),
    ("prompts in the order of their names", "generations.csv: prompt", |rows, _| {
        rows.generations.sort_by_key(|g| g.prompt.clone());
    }),
    ("category = prompt", "generations.csv: category", |rows, _| {
        rows.generations.iter_mut().for_each(|g| g.category = g.prompt.clone());
    }),
    ("repeat off by one", "generations.csv: repeat", |rows, _| {
        rows.generations.iter_mut().for_each(|g| g.repeat += 1);
    }),
    ("seed of the plan + repeat", "generations.csv: seed", |rows, _| {
        rows.generations.iter_mut().for_each(|g| g.seed += u64::from(g.repeat));
    }),
    ("prompt without its last token", "generations.csv: prompt_tokens", |rows, _| {
        rows.generations.iter_mut().for_each(|g| g.prompt_tokens -= 1);
    }),
    ("new tokens with the prompt", "generations.csv: new_tokens", |rows, _| {
        rows.generations.iter_mut().for_each(|g| g.new_tokens += g.prompt_tokens);
    }),
    ("max_tokens for every reason", "generations.csv: stop_reason", |rows, _| {
        rows.generations.iter_mut().for_each(|g| g.stop_reason = "max_tokens".to_owned());
    }),
    ("target_forwards without the last pass", "generations.csv: target_forwards", |rows, _| {
        rows.generations.iter_mut().for_each(|g| g.target_forwards -= 1);
    }),
    ("draft_forwards with the prefill", "generations.csv: draft_forwards", |rows, _| {
        let drafted = rows.generations.iter_mut().filter(|g| g.draft_forwards > 0);
        drafted.for_each(|g| g.draft_forwards += usize::from(g.prompt_tokens > 1));
    }),
    ("prefill_us of the target alone", "generations.csv: prefill_us", |rows, _| {
        let drafted = rows.generations.iter_mut().filter(|g| g.draft_forwards > 0);
        drafted.for_each(|g| g.prefill_us -= pass_ns(Who::Draft, g.prompt_tokens - 1) as f64 / 1e3);
    }),
    ("decode_us with the prefill in it", "generations.csv: decode_us", |rows, _| {
        rows.generations.iter_mut().for_each(|g| g.decode_us += g.prefill_us);
    }),
    (
        "tokens_per_second with the prefill in it",
        "generations.csv: tokens_per_second",
        |rows, _| {
            let us = |g: &GenerationRow| g.decode_us + g.prefill_us;
            let rate = |n: usize, us: f64| n as f64 / (us / 1e6);
            rows.generations
                .iter_mut()
                .for_each(|g| g.tokens_per_second = rate(g.new_tokens, us(g)));
        },
    ),
    ("class P compared with repeat 0", "generations.csv: first_divergence", |rows, plan| {
        for (i, text) in rows.texts.iter().enumerate() {
            if cell(plan, &text.cell).class == "P" {
                let first = tokens_of(rows, &text.cell, &text.prompt, 0).unwrap();
                rows.generations[i].first_divergence = first_difference(&first, &text.tokens);
            }
        }
    }),
    ("first_divergence blind to an early end", "generations.csv: first_divergence", |rows, _| {
        let ended =
            rows.divergences.extract_if(.., |d| d.token.is_none() || d.plain_token.is_none());
        for d in ended.collect::<Vec<_>>() {
            let key = (&d.cell, &d.prompt, d.repeat);
            let own = rows.generations.iter_mut().find(|g| (&g.cell, &g.prompt, g.repeat) == key);
            own.unwrap().first_divergence = None;
        }
    }),
    ("hash of the tokens", "generations.csv: text_sha256", |rows, _| {
        for (g, text) in rows.generations.iter_mut().zip(&rows.texts) {
            let bytes = text.tokens.iter().flat_map(|t| t.to_le_bytes()).collect::<Vec<_>>();
            g.text_sha256 = Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect();
        }
    }),
    ("superseded inverted", "generations.csv: superseded", |rows, _| {
        rows.generations.iter_mut().for_each(|g| g.superseded = !g.superseded);
    }),
    ("failed generations are timed", "generations.csv: number of rows", |rows, _| {
        let timed = rows.failures.iter().map(|f| GenerationRow {
            cell: f.cell.clone(),
            prompt: f.prompt.clone(),
            ..rows.generations[0].clone()
        });
        rows.generations.extend(timed.collect::<Vec<_>>());
    }),
];

#[test]
fn the_replay_rejects_every_mutant_of_the_rows() {
    let (mut names, mut shown) = (BTreeSet::new(), BTreeMap::<_, BTreeSet<_>>::new());
    for (name, column, mutate) in [ROUNDS, POSITIONS, GENERATIONS, OTHERS, BLOCKS].concat() {
        let refused = FINISHED.iter().any(|run| {
            let mut rows = run.found.clone();
            mutate(&mut rows, &run.plan);
            rows.differences(&run.expected).contains_key(column)
        });
        assert!(refused, "no run shows {name} in {column}");
        assert!(names.insert(name), "two mutants are called {name}");
        let (file, column) = column.split_once(": ").unwrap();
        shown.entry(file).or_default().insert(column);
    }
    for (file, columns) in replayed_columns() {
        let missing = columns.iter().filter(|column| !shown[file].contains(*column));
        assert_eq!(missing.count(), 0, "{file}: a column without a mutant: {columns:?}");
    }
}

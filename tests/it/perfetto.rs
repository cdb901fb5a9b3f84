//! `report --perfetto`: the rounds as a time line that trace viewers open.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;
use specdec::experiment::read_plan;
use specdec::rows::{BlockRow, RoundRow};

use crate::experiment_support::rows;
use crate::report::written;
use crate::run_support::{folder, run, specdec, succeed};
use crate::synthetic::Synthetic;

/// The events of the trace that `report --perfetto` writes, by kind: names and spans.
fn traced(folder: &Path) -> [Vec<Value>; 2] {
    succeed(specdec(&["report", folder.to_str().unwrap(), "--perfetto"]).output().unwrap());
    let text = fs::read_to_string(folder.join("trace.json")).unwrap();
    let trace: Value = serde_json::from_str(&text).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    ["M", "X"].map(|kind| events.iter().filter(|event| event["ph"] == kind).cloned().collect())
}

fn number(event: &Value, key: &str) -> f64 {
    event[key].as_f64().unwrap_or_else(|| panic!("{event} has no {key}"))
}

/// Process and thread.
fn lane(event: &Value) -> (u64, u64) {
    (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap())
}

#[test]
fn spans_are_the_parts_of_all_rounds_end_to_end() {
    let out = tempfile::tempdir().unwrap();
    succeed(run(out.path(), &["--set", "repeats=2", "--set", "sweep.temperature=[0.0,0.8]"]));
    let folder = folder(out.path());
    assert!(!folder.join("trace.json").exists(), "only on demand");
    let [names, spans] = traced(&folder);
    let plan = read_plan(&folder).unwrap();
    let named = |kind: &str| {
        let own = names.iter().filter(|event| event["name"] == kind);
        own.map(|event| (lane(event), event["args"]["name"].as_str().unwrap().to_owned()))
            .collect::<BTreeMap<_, _>>()
    };
    let (processes, threads) = (named("process_name"), named("thread_name"));
    assert_eq!(processes.len(), plan.cells.len());
    assert_eq!(threads.len(), plan.cells.len() * plan.prompts.len() * 2);
    let mut sums = BTreeMap::<(u64, u64, String), f64>::new();
    let mut ends = BTreeMap::<(u64, u64), f64>::new();
    for span in &spans {
        let (pid, tid) = lane(span);
        let end = ends.entry((pid, tid)).or_default();
        // Both are whole nanoseconds in µs: only the last bits of sums may differ.
        assert!((number(span, "ts") - *end).abs() < 1e-6, "{span} does not begin at {end}");
        *end = number(span, "ts") + number(span, "dur");
        let part = span["name"].as_str().unwrap().to_owned();
        *sums.entry((pid, tid, part)).or_default() += number(span, "dur");
    }
    let mut expected = BTreeMap::<(u64, u64, String), f64>::new();
    let mut rounds_of = BTreeMap::<(u64, u64), Vec<RoundRow>>::new();
    for row in rows::<RoundRow>(&folder, "rounds.csv") {
        let cell = plan.cells.iter().position(|cell| cell.id == row.cell).unwrap();
        let pid = cell as u64 + 1;
        assert!(processes[&(pid, 0)].contains(&row.cell));
        let name = match row.repeat {
            0 => row.prompt.clone(),
            n => format!("{}, {n}", row.prompt),
        };
        let thread = threads.iter().find(|(lane, n)| lane.0 == pid && **n == name);
        let lane = *thread.unwrap().0;
        let parts = [
            ("draft", row.draft_us),
            ("target", row.target_us),
            ("verify", row.verify_us),
            ("other", row.other_us),
        ];
        for (part, us) in parts.into_iter().filter(|(_, us)| *us > 0.0) {
            *expected.entry((lane.0, lane.1, part.to_owned())).or_default() += us;
        }
        rounds_of.entry(lane).or_default().push(row);
    }
    assert!(sums.keys().eq(expected.keys()));
    for (key, sum) in &sums {
        assert!((sum - expected[key]).abs() < 1e-6, "{key:?}: {sum} is not {}", expected[key]);
    }
    for span in &spans {
        let round = &rounds_of[&lane(span)][span["args"]["round"].as_u64().unwrap() as usize];
        let counts = ["proposed", "accepted", "emitted"].map(|key| span["args"][key].as_u64());
        let own = [round.proposed, round.accepted, round.emitted];
        assert_eq!(counts, own.map(|n| Some(n as u64)));
    }
}

#[test]
fn hostile_names_stay_names() {
    let mut rows = Synthetic::tiny().rows();
    let name = "\"}]},\\\u{1}\n</script>\u{202e}";
    rows.plan.prompts[0] = name.to_owned();
    let own = |prompt: &mut String| {
        if prompt == "prompt-00" {
            name.clone_into(prompt);
        }
    };
    rows.generations.iter_mut().for_each(|g| own(&mut g.prompt));
    rows.rounds.iter_mut().for_each(|r| own(&mut r.prompt));
    let folder = written(&rows);
    let [names, spans] = traced(folder.path());
    let shown = "\"}]},\\\u{fffd}\u{fffd}</script>\u{fffd}";
    let hostile = names.iter().filter(|event| event["args"]["name"] == shown).count();
    assert_eq!(hostile, rows.plan.cells.len(), "{names:?}");
    assert!(!spans.is_empty());
}

#[test]
fn blocks_that_the_report_leaves_out_are_left_out() {
    let rows_of = Synthetic::tiny().rows();
    let folder = written(&rows_of);
    let [_, all] = traced(folder.path());
    let mut listed = rows::<BlockRow>(folder.path(), "blocks.csv");
    listed.remove(0);
    let mut writer = csv::Writer::from_path(folder.path().join("blocks.csv")).unwrap();
    listed.iter().for_each(|row| writer.serialize(row).unwrap());
    writer.flush().unwrap();
    let [_, fewer] = traced(folder.path());
    assert!(fewer.len() < all.len() && !fewer.is_empty());
}

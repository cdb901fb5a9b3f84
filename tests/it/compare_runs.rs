//! Two simulated runs, compared: forged differences are found, and nothing else.

use std::path::Path;

use serde_json::Value;
use specdec::run::compare::compare;
use specdec::run::experiment::Manifest;

use crate::report::written;
use crate::synthetic::{Rows, simulated};

/// The comparison as `--json` prints it.
fn compared(first: &Path, second: &Path) -> Value {
    serde_json::to_value(compare(first, second).unwrap()).unwrap()
}

/// The comparison of two simulated runs.
fn of_rows(first: &Rows, second: &Rows) -> Value {
    let (first, second) = (written(first), written(second));
    compared(first.path(), second.path())
}

/// The row of a measure, of the cell with this id in the first run.
fn row<'v>(found: &'v Value, cell: &str, measure: &str) -> &'v Value {
    let cells = found["cells"].as_array().unwrap();
    let cell = cells.iter().find(|c| c["ids"][0] == cell).unwrap();
    let mut rows = cell["rows"].as_array().unwrap().iter();
    rows.find(|row| row["measure"] == measure).unwrap_or(&Value::Null)
}

fn verdict(found: &Value) -> String {
    let sentences = found["verdict"].as_array().unwrap();
    sentences.iter().map(|s| s.as_str().unwrap()).collect::<Vec<_>>().join("\n")
}

fn what_differs(found: &Value) -> Vec<&str> {
    let differences = found["differences"].as_array().unwrap();
    differences.iter().map(|d| d["what"].as_str().unwrap()).collect()
}

#[test]
fn forged_times_are_found_in_their_cell_alone() {
    let first = simulated();
    let mut second = first.clone();
    for (i, round) in second.rounds.iter_mut().enumerate().filter(|(_, r)| r.cell == "model-4-1") {
        // Unequal rounds, so that prompts differ a little.
        let factor = 1.1 + 0.01 * (i % 7) as f64;
        round.target_us *= factor;
    }
    for g in second.generations.iter_mut().filter(|g| g.cell == "model-4-1") {
        let own = second.rounds.iter().filter(|r| (&r.cell, &r.prompt) == (&g.cell, &g.prompt));
        g.decode_us = own.map(|r| r.draft_us + r.target_us + r.verify_us + r.other_us).sum();
        g.tokens_per_second = g.new_tokens as f64 * 1e6 / g.decode_us;
    }
    let found = of_rows(&first, &second);
    let time = row(&found, "model-4-1", "time_per_token");
    let ratio = time["ratio"].as_f64().unwrap();
    assert!(ratio > 1.05 && ratio < 1.15, "{time}");
    assert!(time["ratio_lo"].as_f64().unwrap() > 1.05, "{time}");
    assert_eq!((&time["finding"], &time["exact"]), (&"larger".into(), &true.into()));
    // Two of 4096 sign patterns; six cells have the measure.
    assert_eq!(time["p"].as_f64().unwrap(), 2.0 / 4096.0);
    assert_eq!(time["p_holm"].as_f64().unwrap(), 6.0 * 2.0 / 4096.0);
    assert_eq!(row(&found, "model-4-1", "speedup")["finding"], "smaller");
    assert_eq!(row(&found, "model-4-1", "block_efficiency")["finding"], "equal");
    assert_eq!(row(&found, "model-2-1", "time_per_token")["finding"], "equal");
    assert!(verdict(&found).contains("Time per token: B takes more in 1 of 4 cells, less in 0"));
}

#[test]
fn forged_acceptance_is_found_on_any_machine() {
    let first = simulated();
    let mut second = first.clone();
    let mut emitted = std::collections::BTreeMap::<(String, String), usize>::new();
    for round in second.rounds.iter_mut().filter(|r| r.cell == "model-4-0") {
        // Every round that accepts anything accepts one token less; the text gets shorter.
        let less = usize::from(round.accepted > 0);
        let place = (round.cell.clone(), round.prompt.clone());
        let before = emitted.entry(place).or_default();
        round.context_tokens -= *before;
        *before += less;
        round.accepted -= less;
        round.accepted_raw = round.accepted_raw.map(|raw| raw - less);
        round.emitted -= less;
    }
    for g in &mut second.generations {
        let less = emitted.get(&(g.cell.clone(), g.prompt.clone())).copied().unwrap_or(0);
        g.new_tokens -= less;
        g.text_sha256 = {
            use sha2::{Digest, Sha256};
            specdec::model::hex(&Sha256::digest("a".repeat(g.new_tokens)))
        };
    }
    let (first, second) = (written(&first), written(&second));
    forge_machine(second.path(), "Another CPU");
    let found = compared(first.path(), second.path());
    for measure in ["block_efficiency", "acceptance_rate"] {
        assert_eq!(row(&found, "model-4-0", measure)["finding"], "smaller");
        assert_eq!(row(&found, "model-4-1", measure)["finding"], "equal");
    }
    let verdict = verdict(&found);
    assert!(verdict.contains("some of them in cells with the same id"), "{verdict}");
    assert!(verdict.contains("Texts without chance: 12 of 36 differ"), "{verdict}");
}

/// Gives the session of a run another processor.
fn forge_machine(folder: &Path, processor: &str) {
    let mut manifest = Manifest::read(folder).unwrap();
    manifest.sessions[0].machine.cpu_model = processor.to_owned();
    manifest.write(folder).unwrap();
}

type Change = fn(&mut Manifest);

/// Catches: the processor or the number of threads is ignored, or times are compared in spite of
/// it.
#[test]
fn times_of_different_machines_are_never_compared() {
    let rows = simulated();
    let changes: [(&str, Change); 5] = [
        ("processor (Simulated CPU @ 2.50GHz, Other)", |m| {
            m.sessions[0].machine.cpu_model = "Other".into();
        }),
        ("processor features", |m| m.sessions[0].machine.cpu_flags = "avx2 fma".into()),
        ("cores (2, 8)", |m| m.sessions[0].machine.cores = 8),
        ("instruction set (avx2, avx512)", |m| m.sessions[0].machine.isa = "avx512".into()),
        ("threads (2, 1)", |m| m.sessions[0].threads = 1),
    ];
    for (said, change) in changes {
        let (first, second) = (written(&rows), written(&rows));
        let mut manifest = Manifest::read(second.path()).unwrap();
        change(&mut manifest);
        manifest.write(second.path()).unwrap();
        let found = compared(first.path(), second.path());
        let no_times = found["no_times"].as_str().unwrap();
        assert!(no_times.contains(said), "{no_times}");
        let cells = found["cells"].as_array().unwrap();
        for row in cells.iter().flat_map(|cell| cell["rows"].as_array().unwrap()) {
            let measure = row["measure"].as_str().unwrap();
            assert!(["block_efficiency", "acceptance_rate"].contains(&measure), "{row}");
        }
        assert!(verdict(&found).contains("Times are not compared, only acceptance"));
    }
}

#[test]
fn times_of_differently_named_machines_are_not_compared() {
    let found = |names: [Option<&str>; 2]| {
        let folders = names.map(|name| {
            let folder = written(&simulated());
            let mut manifest = Manifest::read(folder.path()).unwrap();
            manifest.sessions[0].host = name.map(str::to_owned);
            manifest.write(folder.path()).unwrap();
            folder
        });
        compared(folders[0].path(), folders[1].path())
    };
    let differ = found([Some("node1"), Some("node2")]);
    assert!(differ["no_times"].as_str().unwrap().contains("machine (node1, node2)"));
    assert_eq!(what_differs(&differ), ["machine"]);
    for names in [[Some("node1"), Some("node1")], [None, Some("node1")], [None, None]] {
        let same = found(names);
        assert_eq!((&same["no_times"], what_differs(&same)), (&Value::Null, Vec::new()));
    }
}

#[test]
fn times_of_different_builds_are_compared_and_the_builds_named() {
    let (first, second) = (written(&simulated()), written(&simulated()));
    let mut manifest = Manifest::read(second.path()).unwrap();
    manifest.sessions[0].build.git_commit = "fedcba".to_owned();
    manifest.write(second.path()).unwrap();
    let found = compared(first.path(), second.path());
    assert_eq!((&found["no_times"], what_differs(&found)), (&Value::Null, vec!["build"]));
    assert_eq!(row(&found, "model-4-1", "time_per_token")["ratio"], 1.0);
}

#[test]
fn other_seeds_are_paired_by_prompt_alone() {
    let first = simulated();
    let mut second = first.clone();
    second.plan.seed += 1;
    second.generations.iter_mut().for_each(|g| g.seed += 1);
    let found = of_rows(&first, &second);
    assert_eq!((&found["pairing"], what_differs(&found)), (&"prompt".into(), vec!["seed"]));
    assert!(verdict(&found).contains("prompt alone, since the seeds differ"));
}

/// Catches: prompts are paired by name alone; those left out of one run are those of the other.
#[test]
fn prompts_of_another_length_are_not_paired() {
    let mut first = simulated();
    let mut second = first.clone();
    first.plan.prompts.retain(|prompt| prompt != "prompt-05");
    first.generations.retain(|own| own.prompt != "prompt-05");
    first.rounds.retain(|own| own.prompt != "prompt-05");
    second.plan.prompts_sha256 = "22".repeat(32);
    let other = |prompt: &str| prompt == "prompt-03";
    second.generations.iter_mut().filter(|g| other(&g.prompt)).for_each(|g| g.prompt_tokens += 1);
    second.rounds.iter_mut().filter(|r| other(&r.prompt)).for_each(|r| r.context_tokens += 1);
    let found = of_rows(&first, &second);
    assert_eq!((&found["prompts"], what_differs(&found)), (&10.into(), vec!["prompts"]));
    assert_eq!(row(&found, "model-4-1", "block_efficiency")["prompts"], 10);
    assert!(verdict(&found).contains("left out: 1 of A and 2 of B"), "{}", verdict(&found));
}

/// Catches: a disturbed run gets a verdict.
#[test]
fn disturbed_runs_get_no_verdict_on_times() {
    let first = simulated();
    let mut second = first.clone();
    // The same cell twice, the second time a tenth slower: the machine was disturbed.
    second.repeat("model-2-1", 1.1);
    let found = of_rows(&first, &second);
    let verdict = verdict(&found);
    assert!(verdict.contains("No verdict on times: B was disturbed"), "{verdict}");
    assert!(!verdict.contains("Time per token"), "{verdict}");
    assert_eq!(found["unmatched"], serde_json::json!([0, 0]), "a control cell has no counterpart");
}

/// Catches: the quotient of the times of plain decoding is upside down, or its ends are exchanged;
/// cells of the other run count as left out.
#[test]
fn a_comparison_counts_what_one_run_lacks_and_how_plain_drifted() {
    let mut first = simulated();
    let mut second = first.clone();
    for (cell, factor) in [("none-0-0", 1.5), ("none-0-1", 1.25)] {
        for round in second.rounds.iter_mut().filter(|round| round.cell == cell) {
            for us in [
                &mut round.draft_us,
                &mut round.target_us,
                &mut round.verify_us,
                &mut round.other_us,
            ] {
                *us *= factor;
            }
        }
        for generation in second.generations.iter_mut().filter(|own| own.cell == cell) {
            generation.decode_us *= factor;
        }
    }
    let lost = |cell: &str| cell == "model-4-1" || cell == "model-2-1";
    second.plan.cells.retain(|cell| !lost(&cell.id));
    second.rounds.retain(|round| !lost(&round.cell));
    second.generations.retain(|generation| !lost(&generation.cell));
    first.plan.cells.retain(|cell| cell.id != "model-2-0");
    first.rounds.retain(|round| round.cell != "model-2-0");
    first.generations.retain(|generation| generation.cell != "model-2-0");
    let (first, second) = (written(&first), written(&second));
    let found = compare(first.path(), second.path()).unwrap();
    assert_eq!((found.unmatched, found.cells.len()), ([2, 1], 3));
    let verdict = found.verdict.join("\n");
    assert!(verdict.contains("Left out: 2 cells of A and 1 of B."), "{verdict}");
    assert!(verdict.contains("Plain decoding took 1.250 to 1.500 times"), "{verdict}");
}

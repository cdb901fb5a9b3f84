//! Requests that come to the engine: beside the simulated server on a virtual clock, and from the
//! command line.

use std::fs;

use serde_json::Value;
use specdec::bench::CostRow;
use specdec::clock::{VirtualClock, VirtualCosts};
use specdec::draft::Tools;
use specdec::forecasting::CostTable;
use specdec::model::{LanguageModel, SMALL_PAIR, Settings};
use specdec::replay::Player;
use specdec::simulation::{Arrivals, ServedRun};

use crate::cli_support::refuses;
use crate::replay_support::{
    K, PROMPT, SEED, SLOTS, Text, drafting, file, replayed, requests_of, simulated,
};

/// A target's pass takes 950 µs and 50 µs for each row; a draft pass takes 95 µs for any rows,
/// since the costs of a simulation do not know that the first one after a draft that was accepted
/// as a whole has a row more.
const COSTS: VirtualCosts = {
    let us = std::time::Duration::from_micros;
    VirtualCosts { draft_pass: us(95), draft_row: us(0), target_pass: us(950), target_row: us(50) }
};

/// The same for a simulation.
fn costs() -> CostTable {
    let mut table = CostTable::default();
    let mut add = |what: &str, rows: usize, batch: usize, ms| {
        let what = what.to_owned();
        table.add(CostRow { what, rows, context: 1, batch, shared: 0, ms }).unwrap();
    };
    for rows in [1, 17] {
        for batch in 1..=SLOTS {
            add("target", rows, batch, 0.95 + 0.05 * (rows * batch) as f64);
        }
        add("prefill", rows, 1, 0.95 + 0.05 * rows as f64);
        add("draft_prefill", rows, 1, 0.095);
    }
    add("draft", 1, 1, 0.095);
    table
}

#[test]
fn simulated_and_played_requests_take_the_same_time() {
    let [target, draft] = SMALL_PAIR.map(|shape| shape.model(&Settings::default()).unwrap());
    let texts = Text::all();
    for (drafter, k) in [("none", 0), ("model", K)] {
        let spec = drafting(drafter);
        let target: &dyn LanguageModel = &*target;
        let tools = Tools { draft: Some(&*draft), target: Some(target), texts: None };
        let player = Player { target, tools, spec: &spec, seed: SEED, slots: SLOTS };
        let logs = texts.iter().map(|text| text.log(&player)).collect::<Vec<_>>();
        for arrivals in [Arrivals::Rate(60.0), Arrivals::Rate(f64::INFINITY), Arrivals::Clients(3)]
        {
            let mut expected = simulated(&logs, arrivals, k, &costs());
            expected.requests.sort_by_key(|request| request.number);
            let requests = requests_of(&expected, &texts, arrivals);
            let clock = VirtualClock::new(COSTS);
            let mut found = player.play(&requests, &clock, &mut |_| ()).unwrap();
            found.requests.sort_by_key(|request| request.number);
            let counts = |run: &ServedRun| (run.steps, run.rounds, run.drafted, run.accepted);
            assert_eq!(counts(&found), counts(&expected), "{drafter} {arrivals:?}");
            for (found, expected) in found.requests.iter().zip(&expected.requests) {
                assert_eq!(found.tokens, expected.tokens);
                let times = [
                    (found.arrived, expected.arrived),
                    (found.prefilled, expected.prefilled),
                    (found.first, expected.first),
                    (found.finished, expected.finished),
                ];
                // Each wait for a request ends up to 2 ns late, and there are 24.
                let near = times.iter().all(|(found, expected)| (found - expected).abs() < 5e-5);
                assert!(near, "{drafter} {arrivals:?}: {found:?} {expected:?}");
            }
            let (busy, expected) = (found.busy_ms, expected.busy_ms);
            assert!((busy - expected).abs() < 5e-5, "{busy} {expected}");
        }
    }
}

#[test]
fn requests_of_a_file_come_when_they_are_said_to() {
    let requests = "request,prompt,tokens,arrived_ms,unknown\n\
                    1,code/fn_main,3,80,x\n2,code/fn_main,6,0,y\n0,code/fn_main,4,80.5,z\n";
    let (said, rows) = replayed(requests, &["-k", "2", "--json"]);
    let found = serde_json::from_str::<Value>(&said).unwrap();
    assert_eq!((&found["requests"], &found["tokens"]), (&3.into(), &13.into()));
    let told = rows.iter().map(|(number, prompt, tokens, ..)| (*number, &**prompt, *tokens));
    assert_eq!(told.collect::<Vec<_>>(), [(0, PROMPT, 4), (1, PROMPT, 3), (2, PROMPT, 6)]);
    for (&(.., arrived, read, first, finished), comes) in rows.iter().zip([80.5, 80.0, 0.0]) {
        assert!((arrived - comes).abs() < 1e-9 && [arrived, read, first, finished].is_sorted());
    }
    let read = |at: usize| rows[at].4;
    assert!(read(2) < read(1) && read(1) < read(0), "the first one comes first: {rows:?}");
}

#[test]
fn a_client_sends_its_next_request_when_its_last_one_is_done() {
    let requests = "request,prompt,tokens,clients\n0,code/fn_main,5,1\n1,code/fn_main,2,1\n";
    let (said, rows) = replayed(requests, &["--plain"]);
    assert!(said.starts_with("2 requests with 7 tokens: "), "{said}");
    let [(.., first, _, _, finished), (.., second, _, _, _)] = &rows[..] else {
        panic!("{rows:?}")
    };
    assert!(*first == 0.0 && second == finished, "{rows:?}");
}

#[test]
fn requests_that_cannot_be_played_are_refused() {
    let header = "request,prompt,tokens,arrived_ms,clients\n";
    for (rows, part) in [
        ("", "it has no request"),
        ("0,p,4,0,\n0,p,4,0,\n", "row 2: request 0 occurs twice"),
        ("0,p,4,0,1\n1,p,4,0,2\n", "requests 0 and 1 differ in clients"),
        ("0,p,0,0,1\n", "row 1: tokens and clients: allowed are numbers above 0"),
        ("0,p,4,-1,\n", "row 1: arrived_ms = -1: allowed is a finite number >= 0"),
        ("0,p,4,x,\n", "row 1"),
        ("0,p,4,0,\n", "request 0: there is no prompt p (--prompts)"),
    ] {
        let (_folder, path) = file(&[header, rows].concat());
        refuses(&["replay", &path, "--plain"], part);
    }
    let (folder, path) = file(&[header, "0,p,100000,0,\n"].concat());
    let prompts = folder.path().join("prompts.jsonl").display().to_string();
    fs::write(&prompts, "{\"id\": \"p\", \"prompt\": \"fn\"}\n").unwrap();
    let args = ["replay", &path, "--plain", "--prompts", &prompts];
    refuses(&args, "and its text 100000, and the models have room for");
    refuses(&["replay", "nowhere.csv"], "nowhere.csv");
    refuses(&["replay", &path, "--plain", "--slots", "0"], "--slots 0");
}

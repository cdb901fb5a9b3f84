//! Whether acceptance has dropped: pairs, evidence and calibration, on rows by hand and on those of
//! a committed run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::Path;

use flate2::read::GzDecoder;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use specdec::core::sampling::SamplingParams;
use specdec::tapes::gate::{GateFinding, GateLimits, GateVerdict};
use specdec::tapes::recording::{RequestRounds, read_requests};
use specdec::tapes::tape::{LoggedRound, Tape, TapeDrafter, TapeLine, TapeModel};

use crate::cli_forecast::tape_file;
use crate::cli_support::{refuses, specdec, stdout, text};
use crate::forecast_by_hand::{THREE, scored_twice, tape, tape_of};

const LIMITS: GateLimits = GateLimits { level: 0.05, max_drop: 0.0, max_rise: 0.25 };

fn request(prompt: &str, accepted: &[usize]) -> RequestRounds {
    let steps = accepted.iter().map(|&accepted| LoggedRound { accepted, drafted: 4 });
    RequestRounds {
        prompt: prompt.to_owned(),
        tokens: accepted.iter().sum::<usize>() + accepted.len(),
        rounds: accepted.len() as f64,
        steps: steps.collect(),
        ordered: true,
        drafted_known: true,
        ..RequestRounds::default()
    }
}

fn gate(base: &[RequestRounds], new: &[RequestRounds], limits: GateLimits) -> GateVerdict {
    GateVerdict::of_requests(&[base.to_vec(), new.to_vec()], limits).unwrap()
}

/// Completions of 10 and 7 tokens are compared over 7, in which the first one begins 3 rounds and
/// the second one 4.
/// Catches: all rounds count; the common tokens are those of the longer one; a prompt counts once
/// for each of its requests.
#[test]
fn rounds_are_compared_over_the_common_tokens() {
    let base = [request("a", &[2, 2, 0, 2]), request("b", &[1, 1]), request("a", &[4])];
    let new = [request("b", &[1, 1]), request("a", &[0, 1, 1, 1]), request("c", &[0])];
    let found = gate(&base, &new, LIMITS);
    assert_eq!((found.prompts, found.unmatched, found.paired_by), (2, [1, 1], "prompt"));
    assert_eq!((found.tokens, found.tau), (11.0, [11.0 / 5.0, 11.0 / 6.0]));
    assert_eq!(found.ratio, Some(5.0 / 6.0));
    // The first tokens: 2, 2, 0 and 1, 1 against 1, 1 and 0, 1, 1, 1, of which all drafted four.
    let first = &found.positions[0];
    assert_eq!((first.position, first.reached, first.accepted), (1, [5, 6], [4, 5]));
    assert_eq!(found.positions[1].reached, [4, 5]);
    assert_eq!(found.positions[1].accepted, [2, 0]);
    assert_eq!(found.acceptance, [Some(6.0 / 20.0), Some(5.0 / 24.0)]);
    // Where only the sums are known, rounds are spread evenly.
    let sums = RequestRounds { steps: vec![], ordered: false, ..request("b", &[1, 1, 1, 1]) };
    let found = gate(&base, std::slice::from_ref(&sums), LIMITS);
    assert_eq!((found.scaled, found.tokens, found.tau), (1, 4.0, [2.0, 2.0]));
    // Without names the order pairs requests, if there are as many.
    let nameless = [request("", &[1, 1]), request("", &[0])];
    let found = gate(&nameless, &nameless, LIMITS);
    assert_eq!((found.prompts, found.paired_by, found.tokens), (2, "order", 5.0));
    let error = GateVerdict::of_requests(&[nameless.to_vec(), base.to_vec()], LIMITS).unwrap_err();
    assert!(error.to_string().contains("no prompt in common, and 2 and 3 requests"), "{error}");
}

/// The two repeats of each prompt in the cells of a committed run whose rounds are random.
fn cells() -> Vec<Vec<[RequestRounds; 2]>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/results/03-verifiers");
    let folder = Path::new(folder).join("2026-11-22-amd-epyc-2c");
    let mut cells = BTreeMap::<String, BTreeMap<String, Vec<RequestRounds>>>::new();
    for own in read_requests(&folder, 4).unwrap() {
        let cell = cells.entry(own.group.clone()).or_default();
        cell.entry(own.prompt.clone()).or_default().push(own);
    }
    let pairs = |cell: BTreeMap<String, Vec<RequestRounds>>| {
        cell.into_values().map(|repeats| repeats.try_into().unwrap()).collect::<Vec<_>>()
    };
    let differ = |cell: &Vec<[RequestRounds; 2]>| cell.iter().any(|[a, b]| a.steps != b.steps);
    let cells = cells.into_values().map(pairs).filter(differ).collect::<Vec<_>>();
    assert!(cells.len() > 20 && cells.iter().all(|cell| cell.len() == 48));
    cells
}

/// Two logs of prompts of a cell, drawn with replacement, of which one is worse by a drop.
fn two_logs(cells: &[Vec<[RequestRounds; 2]>], seed: u64, drop: f64) -> [Vec<RequestRounds>; 2] {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let cell = &cells[rng.random_range(0..cells.len())];
    let mut logs = [Vec::new(), Vec::new()];
    for number in 0..cell.len() {
        let repeats = &cell[rng.random_range(0..cell.len())];
        let first = rng.random_range(0..2);
        for (log, from, drop) in [(0, first, 0.0), (1, 1 - first, drop)] {
            // Drawn twice, a prompt counts as two.
            let own = RequestRounds { prompt: number.to_string(), ..repeats[from].clone() };
            logs[log].push(worse(own, &mut rng, drop));
        }
    }
    logs
}

/// A request whose rounds are more, so that τ is smaller by this share: some rounds become two with
/// the same tokens.
fn worse(own: RequestRounds, rng: &mut ChaCha8Rng, drop: f64) -> RequestRounds {
    let most = own.steps.iter().filter(|step| step.accepted > 0).count() as f64;
    let share = own.steps.len() as f64 * drop / (1.0 - drop) / most.max(1.0);
    let mut steps = Vec::with_capacity(own.steps.len());
    for step in &own.steps {
        if step.accepted > 0 && rng.random_bool(share.min(1.0)) {
            steps.push(LoggedRound { accepted: 0, ..*step });
            steps.push(LoggedRound { accepted: step.accepted - 1, ..*step });
        } else {
            steps.push(*step);
        }
    }
    RequestRounds { rounds: steps.len() as f64, steps, ..own }
}

fn verdict(cells: &[Vec<[RequestRounds; 2]>], seed: u64, drop: f64, max_drop: f64) -> GateVerdict {
    let limits = GateLimits { max_drop, ..LIMITS };
    GateVerdict::of_requests(&two_logs(cells, seed, drop), limits).unwrap()
}

fn documented(numbers: &str) {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/gate.md");
    let docs = fs::read_to_string(docs).unwrap().replace('\n', " ");
    assert!(docs.contains(numbers), "docs/gate.md lacks: {numbers}");
}

/// The alarm may come after any prompt.
/// Catches: evidence is added up without its bound; the allowed drop is not allowed.
#[test]
fn false_alarms_on_committed_rows_stay_below_the_level() {
    let cells = cells();
    let dropped = |seed: &u64| verdict(&cells, *seed, 0.0, 0.0).finding == GateFinding::Dropped;
    let same = (0..10_000).filter(dropped).count();
    let dropped = |seed: &u64| verdict(&cells, *seed, 0.05, 0.05).finding == GateFinding::Dropped;
    let allowed = (0..2000).filter(dropped).count();
    assert!(same <= 500 && allowed <= 100, "{same} of 10,000, {allowed} of 2,000");
    documented(&format!("an alarm in {same} of 10,000 pairs"));
    documented(&format!("a drop of 5 % that is allowed: an alarm in {allowed} of 2,000 pairs"));
}

/// Catches: the smallest drop is that of one prompt; it ignores what the bets cost.
#[test]
fn the_stated_smallest_drop_is_found_in_nine_of_ten_runs() {
    let cells = cells();
    let stated = |seed| verdict(&cells, seed, 0.0, 0.0).smallest_drop.unwrap();
    let found = |seed: &u64| verdict(&cells, *seed, stated(*seed), 0.0);
    let found = (0..1000).filter(|seed| found(seed).finding == GateFinding::Dropped).count();
    let mean = (0..1000).map(stated).sum::<f64>() / 1000.0;
    assert!((850..=950).contains(&found), "{found} of 1,000, {mean}");
    documented(&format!("was found in {found} of 1,000 pairs; its mean is {:.1} %", 100.0 * mean));
}

/// Catches: a drafter that sees the answer passes; a small rise is an alarm.
#[test]
fn acceptance_that_is_too_high_is_a_finding() {
    let some = |number: usize, accepted: usize| {
        let steps = [accepted, 4, accepted, 3, 4, 2, accepted, 4, 4, 1];
        request(&number.to_string(), &steps.map(|own| own.min(4)))
    };
    let log = |accepted: usize| (0..60).map(|number| some(number, accepted)).collect::<Vec<_>>();
    let all = (0..60).map(|number| request(&number.to_string(), &[4; 6])).collect::<Vec<_>>();
    let found = gate(&log(3), &all, LIMITS);
    assert!(found.is_saturated() && found.finding == GateFinding::Suspicious, "{found:?}");
    let found = gate(&all, &all, LIMITS);
    assert_eq!((found.is_saturated(), found.finding), (false, GateFinding::Kept));
    let found = gate(&log(0), &log(4), LIMITS);
    assert!(!found.is_saturated() && found.log10_e_rise > 1.4, "{found:?}");
    assert_eq!(found.finding, GateFinding::Suspicious);
    assert_eq!(gate(&log(2), &log(3), LIMITS).finding, GateFinding::Kept);
    assert_eq!(gate(&log(3), &log(2), LIMITS).finding, GateFinding::Dropped);
}

/// Ten requests whose drafts of four tokens are accepted in turns.
fn vllm(accepted: [usize; 3]) -> String {
    let record = |number: usize| {
        let steps = (0..8).map(|step| accepted[(step + number) % 3]).collect::<Vec<_>>();
        let tokens = steps.iter().sum::<usize>() + steps.len();
        json!({
            "request": {"prompt": [number, 7]},
            "response": {
                "id": format!("cmpl-{number}-{}", accepted[0]),
                "usage": {"completion_tokens": tokens},
                "metrics": {"speculative_decoding": {
                    "per_step_accepted": steps, "per_step_drafted": vec![4; 8],
                }},
            },
        })
    };
    (0..40).map(|number| format!("{}\n", record(number))).collect()
}

/// Catches: a drop leaves the exit code 0; a rise is one; the file of CI says something else.
#[test]
fn the_exit_code_and_the_files_have_the_verdict() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("base"), vllm([1, 2, 3])).unwrap();
    fs::write(path("worse"), vllm([1, 1, 3])).unwrap();
    let same = stdout(&["gate", &path("base"), &path("base"), "--junit", &path("same.xml")]);
    assert!(same.starts_with("**specdec gate: acceptance has not dropped by more than 1.0 %.**"));
    let mut command = specdec(&["gate", &path("base"), &path("worse")]);
    command.args(["--junit", &path("gate.xml"), "--json", &path("gate.json")]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let why = "acceptance has dropped by more than 1.0 %: shown after ";
    let shown = text(&output.stdout);
    assert!(shown.contains(&format!("**specdec gate: {why}")), "{shown}");
    assert!(text(&output.stderr).starts_with(&format!("error: {why}")));
    assert!(shown.contains("\n| position | accepted before | now |"), "{shown}");
    let xml = |name: &str| fs::read_to_string(path(name)).unwrap();
    assert!(xml("same.xml").contains("tests=\"2\" failures=\"0\""));
    assert!(xml("gate.xml").contains("failures=\"1\"") && xml("gate.xml").contains(why));
    let found = serde_json::from_str::<Value>(&xml("gate.json")).unwrap();
    assert_eq!((&found["finding"], &found["prompts"]), (&json!("dropped"), &json!(40)));
    // The other way round it is a rise, and no large one.
    assert!(stdout(&["gate", &path("worse"), &path("base")]).contains("not dropped"));
    let high = ["gate", &path("worse"), &path("base"), "--max-rise", "0"];
    let output = specdec(&high).output().unwrap();
    assert!(text(&output.stderr).contains("acceptance has risen by more than 0.0 %"));
    refuses(&["gate", &path("base"), &path("none")], "none");
    refuses(&["gate", &path("base"), &path("base"), "--level", "2"], "--level is 2: allowed is");
    refuses(&["gate", &path("base"), &path("base"), "--max-drop", "1"], "--max-drop is 1: allowed");
}

/// Catches: a shape is not read, or another number is taken for the rounds.
#[test]
fn logs_of_all_engines_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("log.jsonl");
    let read = |record: Value| {
        fs::write(&file, record.to_string()).unwrap();
        read_requests(&file, 4).map(|found| (found[0].tokens, found[0].rounds, found[0].ordered))
    };
    let usage = json!({"completion_tokens": 12});
    for (record, expected) in [
        (json!({"per_step_accepted": [3, 0, 4], "completion_tokens": 9}), (9, 3.0, true)),
        (json!({"per_step_accepted": [3, 0, 4]}), (10, 3.0, true)),
        (json!({"acceptance_histogram": [1, 0, 2], "output_tokens": 7}), (7, 3.0, false)),
        (json!({"spec_decode_acceptance": {"per_step_accepted": [1, 1]}}), (4, 2.0, true)),
        (json!({"meta_info": {"completion_tokens": 12, "spec_verify_ct": 5}}), (12, 5.0, false)),
        (
            json!({"timings": {"predicted_n": 12, "draft_n": 20, "draft_n_accepted": 7}}),
            (12, 5.0, false),
        ),
        (
            json!({"usage": usage, "choices": [{"avg_decoded_tokens_per_iter": 2.4}]}),
            (12, 5.0, false),
        ),
    ] {
        assert_eq!(read(record.clone()).unwrap(), expected, "{record}");
    }
    let error = |record| format!("{:#}", read(record).unwrap_err());
    assert!(error(json!({"text": "a"})).contains("it has no rounds: neither per_step_accepted"));
    assert!(error(json!({"per_step_accepted": []})).contains("it has 0 rounds"));
    assert!(error(json!({"per_step_accepted": [1.5]})).contains("1.5 is no count"));
}

/// A file of GuideLLM with these steps of the requests of each benchmark.
fn guidellm(benchmarks: &[&[&[usize]]]) -> Value {
    let record = |(number, steps): (usize, &&[usize])| {
        json!({
            "request_id": format!("id-{}-{number}", steps.len()),
            "request_args": json!({"method": "POST", "body": {"prompt": format!("p{number}")}})
                .to_string(),
            "output_tokens": steps.iter().sum::<usize>() + steps.len(),
            "response_metrics": {"speculative_decoding": {
                "per_step_accepted": steps, "per_step_drafted": vec![4; steps.len()],
            }},
        })
    };
    let benchmark = |requests: &&[&[usize]]| {
        let successful = requests.iter().enumerate().map(record).collect::<Vec<_>>();
        json!({"requests": {"successful": successful, "errored": [{}], "incomplete": []}})
    };
    json!({"benchmarks": benchmarks.iter().map(benchmark).collect::<Vec<_>>()})
}

/// Catches: benchmarks are mixed; a request that failed counts; the message is that of other logs.
#[test]
fn files_of_guidellm_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("benchmarks.json");
    let read = |value: &Value| {
        fs::write(&file, value.to_string()).unwrap();
        read_requests(&file, 4)
    };
    let base = read(&guidellm(&[&[&[2, 0], &[1, 1, 4]], &[&[3]]])).unwrap();
    let rounds = base.iter().map(|own| (own.group.as_str(), own.tokens, own.rounds));
    let expected = [("benchmark 0", 4, 2.0), ("benchmark 0", 9, 3.0), ("benchmark 1", 4, 1.0)];
    assert_eq!(rounds.collect::<Vec<_>>(), expected);
    let new = read(&guidellm(&[&[&[0, 0, 0, 0]], &[&[0, 2]]])).unwrap();
    let found = gate(&base, &new, LIMITS);
    assert_eq!((found.paired_by, found.unmatched, found.tokens), ("prompt", [1, 0], 8.0));
    assert_eq!((found.prompts, found.tau), (1, [8.0 / 3.0, 8.0 / 6.0]));
    let error = |change: &dyn Fn(&mut Value)| {
        let mut value = guidellm(&[&[&[1]]]);
        change(&mut value["benchmarks"][0]["requests"]);
        format!("{:#}", read(&value).unwrap_err())
    };
    let lacks = error(&|all| all["successful"][0]["response_metrics"] = Value::Null);
    let place = "benchmarks.json: benchmark 0, request 0: it has no \"response_metrics.";
    assert!(lacks.contains(place) && lacks.ends_with("spec-decode-metrics detailed"), "{lacks}");
    let lacks = error(&|all| all["successful"] = Value::Null);
    assert!(lacks.contains("benchmark 0, requests: \"successful\" is no list"), "{lacks}");
    let lacks = error(&|all| all["successful"][0]["request_args"] = json!("{"));
    assert!(lacks.contains("\"request_args\" is no JSON"), "{lacks}");
}

/// Catches: rounds are those of another K or rule; drafters of a tape are mixed.
#[test]
fn scored_tapes_have_the_rounds_that_their_scores_expect() {
    let read = |tape: &Tape, k| {
        let (_dir, file) = tape_file(tape);
        read_requests(Path::new(&file), k).unwrap()
    };
    let three = [("a", 2, 1.5), ("a", 2, 1.5), ("b", 3, 1.95)];
    for (own, (prompt, tokens, rounds)) in read(&tape(&THREE), 2).iter().zip(three) {
        assert_eq!((own.prompt.as_str(), own.tokens), (prompt, tokens));
        assert!((own.rounds - rounds).abs() < 1e-12, "{own:?}");
    }
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    let scored = |ratios: &'static [f64]| tape_file(&tape(&names.map(|name| (name, 3, ratios))));
    let ((_dir, good), (_other, bad)) = (scored(&[0.9]), scored(&[0.5]));
    assert!(stdout(&["gate", &good, &good]).contains("Tokens per round: 1.818 → 1.818"));
    let output = specdec(&["gate", &good, &bad]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("1.818 → 1.333"), "{}", text(&output.stdout));
    // Drafters of one tape differ by their settings.
    let twice = read(&scored_twice(), 4);
    let groups = twice.iter().map(|own| own.group.clone()).collect::<BTreeSet<_>>();
    assert_eq!((twice.len(), groups.len()), (8, 2));
    let (_dir, bare) = tape_file(&tape_of(TapeModel::default(), SamplingParams::default()));
    refuses(&["gate", &bare, &bare], "it holds neither rounds nor scores: `specdec tape score`");
    let mut short = tape_of(TapeModel::default(), SamplingParams::default());
    let lookup = TapeDrafter { drafter: "lookup".to_owned(), most: Some(3), ..Default::default() };
    short.add(TapeLine::Drafter(lookup)).unwrap();
    let (_dir, short) = tape_file(&short);
    refuses(&["gate", &short, &short], "drafts up to 3 tokens, not 4");
}

/// The logs of real servers, each next to that of the same server with another seed or after a
/// restart, and next to that with a worse draft model.
/// Catches: a verdict or a number of the document is not that of the committed logs.
#[test]
fn trials_on_servers_have_the_documented_verdicts() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/results/16-gate/2026-11-28-amd-epyc-2c");
    let dir = tempfile::tempdir().unwrap();
    let unpacked = |name: &str| {
        let mut log = GzDecoder::new(File::open(format!("{folder}/{name}.jsonl.gz")).unwrap());
        let file = dir.path().join(name);
        io::copy(&mut log, &mut File::create(&file).unwrap()).unwrap();
        file.to_str().unwrap().to_owned()
    };
    for (engine, log, change) in [
        ("llama.cpp", "again", "another seed"),
        ("llama.cpp", "worse", "a worse draft model"),
        ("vllm", "again", "restarted"),
        ("vllm", "worse", "a worse draft model"),
    ] {
        let name = format!("{engine}-{log}");
        let files = [format!("{engine}-base"), name.clone()].map(|name| unpacked(&name));
        let json = dir.path().join("gate.json").to_str().unwrap().to_owned();
        let output = specdec(&["gate", &files[0], &files[1], "--json", &json]).output().unwrap();
        let committed = fs::read_to_string(format!("{folder}/{name}.md")).unwrap();
        assert_eq!(text(&output.stdout), committed, "{name}");
        let found = serde_json::from_str::<Value>(&fs::read_to_string(&json).unwrap()).unwrap();
        let [before, now] = [0, 1].map(|at| found["tau"][at].as_f64().unwrap());
        let percent = |ratio: f64| format!("{:+.1} %", 100.0 * (ratio - 1.0));
        let ends = ["ratio_lo", "ratio_hi"].map(|end| found[end].as_f64().map(percent));
        let interval = match ends {
            [Some(lo), Some(hi)] => format!(" [{lo}, {hi}]"),
            _ => String::new(),
        };
        let ratio = percent(found["ratio"].as_f64().unwrap());
        let finding = found["finding"].as_str().unwrap();
        documented(&format!(
            "| {engine} | {change} | {before:.3} | {now:.3} | {ratio}{interval} | `{finding}` |"
        ));
    }
}

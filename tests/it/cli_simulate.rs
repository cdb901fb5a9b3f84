//! `specdec simulate`, compared with runs on a virtual clock, whose costs are known.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use specdec::run::report::headings;
use specdec::tapes::simulation::{RequestRow, SimulationRow};

use crate::cli_support::{refuses, specdec, stdout, text};
use crate::cli_tape_support::{TapeFolder, rows};

/// What passes cost on the virtual clock: 0.95 ms and 0.05 ms per row, a tenth of it for the
/// draft model.
const COSTS: &str = "what,rows,context,batch,ms\n,1,1,1,1\n,17,1,1,1.8\ndraft,1,1,1,0.1\n";

pub(crate) struct Simulated {
    folder: TapeFolder,
    pub(crate) tape: String,
    pub(crate) costs: String,
}

impl Simulated {
    pub(crate) fn new() -> Self {
        let folder = TapeFolder::new();
        let (tape, costs) = (folder.scored(), folder.path("costs.csv"));
        fs::write(&costs, COSTS).unwrap();
        Self { folder, tape, costs }
    }

    /// A path in its folder.
    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.path(name)
    }

    /// The rows, by temperature and policy.
    fn rows(&self, tape: &str, more: &[&str]) -> BTreeMap<(String, String), BTreeMap<String, f64>> {
        let args = ["simulate", tape, "--costs", &self.costs, "--json"];
        let found = specdec(&[&args[..], more].concat()).output().unwrap();
        assert!(found.status.success(), "{}", text(&found.stderr));
        let found = serde_json::from_slice::<Value>(&found.stdout).unwrap();
        let row = |row: &Value| {
            let key =
                format!("{}:{}", row["policy"].as_str().unwrap(), row["num_speculative_tokens"]);
            let numbers = row.as_object().unwrap().iter();
            let numbers = numbers.filter_map(|(name, value)| Some((name.clone(), value.as_f64()?)));
            ((row["temperature"].to_string(), key), numbers.collect())
        };
        found["rows"].as_array().unwrap().iter().map(row).collect()
    }

    /// The rounds of a run's cell at a temperature, and the time of its decoding in ms.
    fn measured(&self, name: &str, set: &[&str]) -> (f64, f64) {
        let set = set.iter().flat_map(|set| ["--set", set]).collect::<Vec<_>>();
        let out = self.folder.path(name);
        let run =
            ["run", &self.folder.path("toy"), "--out", &out, "--set", "sweep.verifier=rejection"];
        let report = stdout(&[&run[..], &set].concat());
        let generations = Path::new(report.trim()).with_file_name("generations.csv");
        let header = csv::Reader::from_path(&generations).unwrap().headers().unwrap().clone();
        let column = |name: &str| header.iter().position(|column| column == name).unwrap();
        let (plan, mut sums) =
            (fs::read_to_string(generations.with_file_name("plan.toml")), (0.0, 0.0));
        let plan = plan.unwrap().parse::<toml::Table>().unwrap();
        let drafts = |cell: &&toml::Value| cell["drafter"].as_str() != Some("none");
        let cell = plan["cells"].as_array().unwrap().iter().find(drafts).unwrap();
        let id = cell["id"].as_str().unwrap();
        for row in rows(generations.to_str().unwrap()).iter().filter(|row| &row[0] == id) {
            let number = |name: &str| row[column(name)].parse::<f64>().unwrap();
            sums.0 += number("target_forwards");
            sums.1 += number("decode_us") / 1000.0;
        }
        sums
    }
}

/// 12 prompts × 3 repeats of 40 tokens.
pub(crate) const SEQUENCES: f64 = 36.0;
const TOKENS: f64 = SEQUENCES * 40.0;

#[test]
fn a_client_alone_takes_what_a_run_takes() {
    let own = Simulated::new();
    let client = ["--clients", "1", "--repeats", "1"];
    for (drafter, k) in [("prompt_lookup", 3), ("prompt_lookup", 6), ("model", 3)] {
        let fixed = format!("fixed:{k}");
        let more = ["--drafter", drafter, "--policy", &fixed];
        let found = &own.rows(&own.tape, &[&client[..], &more].concat());
        let found = &found[&("0.0".to_owned(), fixed)];
        let set = [
            &*format!("sweep.drafter={drafter}"),
            "sweep.temperature=0",
            &format!("sweep.num_speculative_tokens={k}"),
        ];
        let (rounds, ms) = own.measured(&format!("{drafter}-{k}"), &set);
        assert_eq!(found["requests"], SEQUENCES);
        // At temperature 0 nothing is random.
        assert!((found["tokens_per_round"] - TOKENS / rounds).abs() < 1e-9, "{drafter} {k}");
        let simulated = found["ms_per_token"] * TOKENS;
        // After a fully accepted chain, the draft model's first pass has a second row, which costs
        // 5 µs and is in no table of costs.
        let most = if drafter == "model" { ms * 0.005 } else { 1e-6 };
        assert!((simulated - ms).abs() <= most, "{drafter} {k}: {simulated} {ms}");
    }
}

#[test]
fn policies_that_learn_take_what_they_take_in_a_run() {
    let own = Simulated::new();
    let policies = ["--clients", "1", "--repeats", "1", "--policy", "heuristic:3,ucb:6"];
    let found = own.rows(&own.tape, &[&policies[..], &["--drafter", "prompt_lookup"]].concat());
    for (policy, k) in [("heuristic", 3), ("ucb", 6)] {
        let set = [
            "sweep.drafter=prompt_lookup",
            "sweep.temperature=0",
            &*format!("sweep.length={policy}"),
            &format!("sweep.num_speculative_tokens={k}"),
        ];
        let (rounds, ms) = own.measured(policy, &set);
        let found = &found[&("0.0".to_owned(), format!("{policy}:{k}"))];
        assert!((found["tokens_per_round"] - TOKENS / rounds).abs() < 1e-9, "{policy}");
        assert!((found["ms_per_token"] * TOKENS - ms).abs() < 1e-6, "{policy}");
    }
}

/// Greedy drafts diverge from a completion in one way.
#[test]
fn policies_that_look_at_the_draft_take_what_they_take_in_a_run() {
    let own = Simulated::new();
    let tape = own.folder.path("beliefs.jsonl");
    stdout(&["tape", "record", &own.folder.path("toy"), "--out", &tape]);
    let pair = ["--target", "toy:mixed", "--draft", "toy:mixed"];
    stdout(&[&["tape", "score", &tape, "--beliefs", "6"][..], &pair].concat());
    let policies = ["confidence:6", "entropy:6", "adaedl:6", "optimal_stopping:6"];
    let client = ["--clients", "1", "--repeats", "1", "--policy", &policies.join(",")];
    // Toys of four tokens have little entropy.
    let settings = ["entropy_threshold=0.35", "adaedl_gamma=0.4"];
    let set = settings.iter().flat_map(|set| ["--set", set]).collect::<Vec<_>>();
    let found = own.rows(&tape, &[&client[..], &set].concat());
    for policy in policies {
        let length = format!("sweep.length={}", policy.trim_end_matches(":6"));
        let set = ["sweep.drafter=model", "sweep.temperature=0", &length];
        let own_setting = settings.iter().filter(|set| set.starts_with(&policy[..4]));
        let own_setting = own_setting.map(|set| format!("sweep.{set}")).collect::<Vec<_>>();
        let set = set.into_iter().chain(["sweep.num_speculative_tokens=6"]);
        let set = set.chain(own_setting.iter().map(String::as_str)).collect::<Vec<_>>();
        let (rounds, ms) = own.measured(policy, &set);
        let found = &found[&("0.0".to_owned(), policy.to_owned())];
        assert!((found["tokens_per_round"] - TOKENS / rounds).abs() < 1e-9, "{policy}");
        // As with a fixed K: a pass of two rows costs more than the table says.
        let simulated = found["ms_per_token"] * TOKENS;
        assert!((simulated - ms).abs() <= ms * 0.005, "{policy}: {simulated} {ms}");
        // No policy drafts as much as a fixed K.
        assert!(found["drafted_per_round"] < 5.0, "{policy}: {found:?}");
    }
    let args = ["simulate", &tape, "--costs", &own.costs, "--policy"];
    refuses(&[&args[..], &["adaedl:7"]].concat(), "of up to 7 tokens");
    let block = ["adaedl:6", "--verifier", "traversal"];
    refuses(&[&args[..], &block].concat(), "holds 0 with model and traversal");
    refuses(
        &[&args[..], &["ucb", "--set", "k=1"]].concat(),
        "--set k: allowed for these policies are []",
    );
    let score = ["tape", "score", &tape, "--draft", "toy:mixed", "--target", "toy:mixed"];
    let again = "score a tape that this drafter has not scored";
    refuses(&[&score[..], &["--beliefs", "7"]].concat(), again);
    refuses(
        &[&score[..], &["--overlap", "--beliefs", "3", "--length", "entropy"]].concat(),
        "without --length",
    );
}

#[test]
fn the_mean_of_random_rounds_is_the_forecast() {
    let own = Simulated::new();
    let fixed = ["--clients", "1", "--repeats", "60", "--policy", "fixed:4", "--drafter", "model"];
    for verifier in ["rejection", "traversal", "token_match"] {
        let found = own.rows(&own.tape, &[&fixed[..], &["--verifier", verifier]].concat());
        let found = &found[&("1.0".to_owned(), "fixed:4".to_owned())];
        let file = own.folder.path("forecast.csv");
        stdout(&["forecast", &own.tape, "--csv", &file]);
        let header = csv::Reader::from_path(&file).unwrap().headers().unwrap().clone();
        let column = |name: &str| header.iter().position(|column| column == name).unwrap();
        let is = |row: &csv::StringRecord, name: &str, value: &str| &row[column(name)] == value;
        let forecast = rows(&file).into_iter().find(|row| {
            is(row, "temperature", "1.0")
                && is(row, "drafter", "model")
                && is(row, "verifier", verifier)
                && is(row, "num_speculative_tokens", "4")
        });
        let forecast = forecast.unwrap()[column("tokens_per_round")].parse::<f64>().unwrap();
        // 60 × 36 completions with about 15 rounds each, whose accepted tokens deviate by less than
        // 2: the mean is off by 0.012 at 1 standard error.
        assert!((found["tokens_per_round"] - forecast).abs() < 0.05, "{verifier}: {forecast}");
    }
}

#[test]
fn requests_wait_and_share_steps() {
    let own = Simulated::new();
    let costs = own.folder.path("batches.csv");
    // A step of 8 requests costs as much as one of 1, and a prompt token as much as a row.
    fs::write(&costs, "what,rows,context,batch,ms\n,1,1,1,1\n,1,1,8,1\n,17,1,1,1\n,17,1,8,1\n")
        .unwrap();
    let args = ["simulate", &own.tape, "--costs", &costs, "--drafter", "prompt_lookup"];
    let at = |more: &[&str]| {
        let args = [&args[..], &["--policy", "plain", "--repeats", "2", "--json"], more].concat();
        let found = serde_json::from_str::<Value>(&stdout(&args)).unwrap();
        found["rows"][0].clone()
    };
    let number = |row: &Value, name: &str| row[name].as_f64().unwrap();
    let (one, eight) = (at(&["--clients", "1"]), at(&["--clients", "8"]));
    assert_eq!(number(&one, "batch"), 1.0);
    // 41 steps per completion: one reads the prompt.
    assert_eq!(number(&one, "latency_ms_p50"), 41.0);
    assert_eq!(number(&one, "ms_per_token"), 1.0);
    // 36 requests of eight clients: the last four are taken when 32 are done.
    let expected = 32.0 * 40.0 / (4.0 * 41.0) * 1000.0;
    assert!((number(&eight, "tokens_per_second") - expected).abs() < 1e-6);
    let limited = at(&["--clients", "8", "--max-batch", "4"]);
    let expected = 32.0 * 40.0 / (8.0 * 41.0) * 1000.0;
    assert!((number(&limited, "tokens_per_second") - expected).abs() < 1e-6);
    // Requests that arrive at once and find no room wait.
    let burst = at(&["--rate", "inf", "--max-batch", "4"]);
    assert_eq!(number(&burst, "latency_ms_p99"), 9.0 * 41.0);
    assert_eq!(number(&burst, "ms_per_token_p99"), 1.0, "waiting is no decoding");
    // A request per ten seconds is alone.
    let rare = at(&["--rate", "0.1"]);
    assert_eq!(number(&rare, "batch"), 1.0);
    assert!(number(&rare, "busy") < 0.02);
    assert_eq!(number(&rare, "latency_ms_p99"), 41.0);
    // Prompts of 4 tokens, of which the last is read by the first round, one row per step.
    let chunks = at(&["--clients", "1", "--step-rows", "1"]);
    assert_eq!(number(&chunks, "latency_ms_p50"), 43.0);
    refuses(&[&args[..], &["--max-batch", "16"]].concat(), "has costs up to a batch of 8");
}

#[test]
fn rows_are_documented_and_repeatable() {
    let own = Simulated::new();
    let (file, requests) = (own.folder.path("simulation.csv"), own.folder.path("requests.csv"));
    let args = ["simulate", &own.tape, "--costs", &own.costs, "--csv", &file];
    let args = [&args[..], &["--requests-csv", &requests]].concat();
    let shown = stdout(&[&args[..], &["--rate", "5,inf"]].concat());
    assert!(shown.contains("5 per s: the fastest is "), "{shown}");
    assert_eq!(rows(&file).len(), 2 * 2 * 5, "temperatures, loads, policies");
    assert_eq!(stdout(&[&args[..], &["--rate", "5,inf"]].concat()), shown);
    assert!(shown.contains("  batch  tokens per round of drafted + 1\n"), "{shown}");
    let doc = include_str!("../../docs/simulate.md");
    let headings = [headings::<SimulationRow>(), headings::<RequestRow>()];
    let own_columns = headings
        .iter()
        .flat_map(|columns| columns.iter().skip_while(|column| *column != "drafter"));
    for column in own_columns {
        let stem = column.trim_end_matches("_lo").trim_end_matches("_hi");
        assert!(doc.contains(&format!("`{stem}`")), "{column} is not documented");
    }
    for policy in specdec::tapes::simulation::policies() {
        assert!(doc.contains(&format!("`{}`", policy.name)), "{} is not documented", policy.name);
    }
    let refused = |more: &[&str], why: &str| refuses(&[&args[..4], more].concat(), why);
    let bad_values = [
        (["--policy", "best"], "allowed are plain, fixed, table, goodput, budget"),
        (["--policy", "fixed:99"], "allowed is a whole number from 1 to 16"),
        (["--rate", "0"], "allowed is a number above 0, or inf"),
    ];
    for (more, why) in bad_values {
        let found = specdec(&[&args[..4], &more].concat()).output().unwrap();
        assert_eq!(found.status.code(), Some(2));
        assert!(text(&found.stderr).contains(why), "{}", text(&found.stderr));
    }
    refused(&["--clients", "0"], "--clients 0: allowed are numbers from 1 to 1000000");
    refused(&["--drafter", "suffix_automaton"], "allowed are model, prompt_lookup");
    refused(&["--verifier", "gumbel"], "score with --overlap");
}

#[test]
fn rounds_that_were_logged_are_served_as_they_were() {
    let own = Simulated::new();
    let run = own.folder.run();
    let tape = own.folder.path("rounds.jsonl");
    let import = ["tape", "import", run.to_str().unwrap(), "--format", "specdec", "--out", &tape];
    stdout(&import);
    refuses(&["forecast", &tape], "which give no forecast of other drafts");
    let served = ["--clients", "1", "--repeats", "1", "--policy", "fixed:6", "--drafter", "model"];
    let found = own.rows(&tape, &served);
    let summary = rows(run.join("summary.csv").to_str().unwrap());
    let header =
        csv::Reader::from_path(run.join("summary.csv")).unwrap().headers().unwrap().clone();
    let column = |name: &str| header.iter().position(|column| column == name).unwrap();
    for temperature in ["0.0", "1.0"] {
        let found = &found[&(temperature.to_owned(), "fixed:6".to_owned())];
        // The fastest K of the run at this temperature.
        let rounds = summary.iter().filter(|row| {
            &row[column("drafter")] == "model"
                && &row[column("verifier")] == "rejection"
                && &row[column("temperature")] == temperature
        });
        let rounds = rounds.map(|row| row[column("rounds")].parse::<f64>().unwrap());
        assert!(
            rounds.clone().any(|rounds| (found["tokens_per_round"] - TOKENS / rounds).abs() < 1e-9),
            "{temperature}: {found:?}"
        );
    }
}

#[test]
fn logs_of_other_programs_are_served() {
    let own = Simulated::new();
    let log = own.folder.path("log.jsonl");
    let tape = own.folder.path("imported.jsonl");
    let imported = |format: &str, lines: &[Value]| {
        fs::write(&log, lines.iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
        let _ = fs::remove_file(&tape);
        ["tape", "import", &log, "--format", format, "--out", &tape, "--temperature", "0"]
            .map(str::to_owned)
    };
    let args =
        |args: &[String]| args.iter().map(String::as_str).map(str::to_owned).collect::<Vec<_>>();
    let served = |import: [String; 9], k: usize| {
        let import = args(&import);
        stdout(&import.iter().map(String::as_str).collect::<Vec<_>>());
        let fixed = format!("fixed:{k}");
        let found = own.rows(&tape, &["--clients", "1", "--repeats", "1", "--policy", &fixed]);
        found[&("0.0".to_owned(), fixed)].clone()
    };
    let steps = json!({"per_step_accepted": [3, 0, 2], "per_step_drafted": [3, 3, 2]});
    let vllm = json!({
        "id": "cmpl-1", "choices": [{"text": "x", "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 9},
        "metrics": {"speculative_decoding": steps},
    });
    // The prompt's pass gives the first token.
    let found = served(imported("vllm", &[vllm]), 3);
    assert_eq!(found["tokens_per_round"], 9.0 / 4.0);
    assert_eq!(found["drafted_per_round"], 8.0 / 4.0);
    // Rounds of at most 2 accept 2, 0 and 2 tokens; the eighth token takes one more.
    let found = served(imported("acceptance", std::slice::from_ref(&steps)), 2);
    assert_eq!(found["tokens_per_round"], 8.0 / 4.0);
    let offline = json!({"token_ids": vec![1; 9], "spec_decode_metrics": steps});
    let found = served(imported("acceptance", &[offline]), 3);
    assert_eq!(found["tokens_per_round"], 9.0 / 4.0);
    let histogram = json!({"spec_decode_acceptance": {
        "acceptance_histogram": {"0": 2, "4": 1}, "num_spec_tokens": 4,
    }});
    let found = served(imported("acceptance", &[histogram]), 4);
    assert_eq!((found["tokens_per_round"], found["drafted_per_round"]), (7.0 / 3.0, 4.0));
    let answer = json!({"question_id": 81, "category": "writing", "choices": [{
        "index": 0, "new_tokens": [5, 3], "decoding_steps": [2, 1], "accept_lengths": [2, 3, 3],
    }]});
    let found = served(imported("specbench", &[answer]), 2);
    // Two turns, each twice: there are four requests for a client.
    assert_eq!((found["requests"], found["tokens_per_round"]), (4.0, 8.0 / 3.0));
    let trace = json!({
        "id": "1", "prompt_token_ids": [1, 2, 3], "generated_token_ids": [4, 5, 6, 7, 8, 9],
        "acc_ngram": {"acc_len": [1, 1, 1, 1, 1, 1]},
        "acc_eagle": {"acc_len": [3, 2, 1, 3, 2, 1]}, "acc_eagle_three": [1],
    });
    let import = imported("specbench", &[trace]);
    let found = specdec(&import.each_ref().map(String::as_str)).output().unwrap();
    assert!(text(&found.stderr).contains("1 list of drafts left out"), "{}", text(&found.stderr));
    let forecast = stdout(&["forecast", &tape, "--costs", &own.costs]);
    assert!(forecast.contains("eagle"), "{forecast}");
    let found = own.rows(&tape, &["--clients", "1", "--repeats", "1", "--policy", "fixed:2"]);
    assert_eq!(found[&("0.0".to_owned(), "fixed:2".to_owned())]["tokens_per_round"], 3.0);
    let histogram = |steps: u64| json!({"acceptance_histogram": [steps, steps]});
    let long = json!({"per_step_accepted": [1], "completion_tokens": 1u64 << 40});
    let bad = [
        (histogram(1 << 40), "allowed are up to 16777216"),
        (long, "allowed are 1 to 16777216"),
        (json!({"per_step_accepted": [u64::MAX]}), "allowed are up to 65536"),
        (json!({"per_step_accepted": [1, 2], "per_step_drafted": [1]}), "2 steps accept tokens"),
        (json!({"per_step_accepted": [4], "per_step_drafted": [3]}), "accepts 4 of 3 drafted"),
        (json!({"per_step_accepted": [-1]}), "-1 is no count"),
        (json!({"tokens": 3}), "neither \"per_step_accepted\" nor"),
        (json!({"acceptance_histogram": {"0": 1e15}}), "acceptance_histogram"),
    ];
    for (line, why) in bad {
        let import = imported("acceptance", &[line]);
        refuses(&import.each_ref().map(String::as_str), why);
    }
}

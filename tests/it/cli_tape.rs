//! `specdec tape` and `specdec forecast`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use specdec::measure::bench::CostRow;
use specdec::measure::rows::columns;
use specdec::run::report::headings;
use specdec::tapes::forecasting::ForecastRow;

use crate::cli_support::{refuses, specdec, stdout, text};
use crate::cli_tape_support::{PROMPTS, TapeFolder, against, greedy, rows};

fn lines(tape: &str) -> Vec<Value> {
    let text = fs::read_to_string(tape).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_tape_holds_the_completions_of_the_baselines() {
    let folder = TapeFolder::new();
    let tape = folder.path("t.jsonl");
    stdout(&["tape", "record", &folder.path("toy"), "--out", &tape]);
    let run = folder.run();
    let plan = fs::read_to_string(run.join("plan.toml")).unwrap().parse::<toml::Table>().unwrap();
    let plain = plan["cells"].as_array().unwrap().iter();
    let plain = plain.filter(|cell| cell["drafter"].as_str() == Some("none"));
    let plain = plain.map(|cell| cell["id"].as_str().unwrap()).collect::<Vec<_>>();
    let of_run = lines(run.join("generations.jsonl").to_str().unwrap());
    let text = |v: &Value| {
        let sampling = plain.iter().position(|id| v["cell"] == *id)?;
        Some((
            v["prompt"].to_string(),
            v["repeat"].clone().to_string(),
            sampling,
            v["tokens"].to_string(),
        ))
    };
    let of_run = of_run.iter().filter_map(text).collect::<BTreeSet<_>>();
    let recorded = lines(&tape);
    let of_tape = recorded.iter().filter_map(|line| {
        let v = line.get("text")?;
        let sampling = v["sampling"].as_u64()? as usize;
        Some((v["prompt"].to_string(), v["repeat"].to_string(), sampling, v["tokens"].to_string()))
    });
    assert_eq!(of_tape.collect::<BTreeSet<_>>(), of_run);
    assert_eq!(of_run.len(), PROMPTS * 3 * 2);
    let log_p = recorded[1]["text"]["log_p"].as_array().unwrap();
    assert!(log_p.iter().all(|log| *log == json!(0.0)), "greedy tokens are certain");
}

/// A truncated tape is completed, and nothing is written twice.
#[test]
fn an_interrupted_recording_continues() {
    let folder = TapeFolder::new();
    let whole = folder.scored();
    let bytes = fs::read(&whole).unwrap();
    let torn = folder.path("torn.jsonl");
    let record = ["tape", "record", &folder.path("toy"), "--out", &torn];
    let length = |lines| bytes.split(|b| *b == b'\n').take(lines).map(|l| l.len() + 1).sum();
    let recorded: usize = length(1 + 2 * 3 * PROMPTS);
    for kept in [recorded / 3, recorded - 2, recorded] {
        fs::write(&torn, &bytes[..kept]).unwrap();
        stdout(&record);
        assert_eq!(fs::read(&torn).unwrap(), bytes[..recorded], "{kept} bytes were left");
    }
    let score = ["tape", "score", &torn, "--draft", "toy:mixed"];
    let score = [&score[..], &["--drafter", "model", "--drafter", "prompt_lookup"]].concat();
    for kept in [recorded + 1, (recorded + bytes.len()) / 2, bytes.len()] {
        fs::write(&torn, &bytes[..kept]).unwrap();
        stdout(&score);
        let sorted = |bytes: &[u8]| {
            bytes.split(|b| *b == b'\n').map(<[u8]>::to_vec).collect::<BTreeSet<_>>()
        };
        assert_eq!(sorted(&fs::read(&torn).unwrap()), sorted(&bytes), "{kept} bytes were left");
    }
    refuses(&[&record[..], &["--set", "max_tokens=8"]].concat(), "holds another recording");
    refuses(&[&record[..], &["--set", "seed=8"]].concat(), "holds another recording");
}

/// Greedy decoding is not random: every generation has the rounds of the forecast. At temperature 1
/// the two agree within their intervals.
#[test]
fn forecasts_are_what_a_run_measures() {
    let folder = TapeFolder::new();
    let (found, gaps) = against(&folder, &folder.scored(), &folder.run());
    assert!(found.contains("at T = 0: 0 of 432 generations have other rounds"), "{found}");
    assert_eq!(gaps.len(), 24, "two temperatures, two drafters, two rules, three K");
    let greedy = greedy(&gaps);
    assert_eq!(greedy.len(), 12);
    assert!(greedy.iter().all(|gap| gap["forecast"] == gap["measured"]), "{greedy:?}");
    for gap in &gaps {
        // 36 completions of 40 tokens: a wrong rule would be off by more.
        let ratio = gap["ratio"].parse::<f64>().unwrap();
        assert!((ratio - 1.0).abs() < 0.1, "{gap:?}");
    }
}

/// A run with more repeats, and one with a smaller and a larger limit than the tape.
/// Catches: generations without a sequence count as different; rounds are compared that only one
/// limit cuts.
#[test]
fn forecasts_are_compared_with_what_a_run_shares_with_the_tape() {
    let folder = TapeFolder::new();
    let tape = folder.scored();
    let run = |set: &str| against(&folder, &tape, &folder.run_with(&["--set", set]));
    let (more, _) = run("repeats=5");
    let said = "at T = 0: 0 of 432 generations have other rounds or accepted tokens than \
                forecast; 288 more have no sequence on the tape";
    assert!(more.contains(said), "{more}");
    for max_tokens in ["max_tokens=19", "max_tokens=64"] {
        let (found, gaps) = run(max_tokens);
        assert!(found.contains("at T = 0: 0 of 432 generations have other"), "{found}");
        let greedy = greedy(&gaps);
        assert_eq!(greedy.len(), 12);
        assert!(greedy.iter().all(|gap| gap["forecast"] == gap["measured"]), "{greedy:?}");
    }
}

/// The same where completions end, most of them within a draft.
/// Catches: a run counts accepted tokens behind the end, or a forecast does.
#[test]
fn forecasts_are_what_a_run_measures_where_completions_end() {
    let folder = TapeFolder::ending();
    let (tape, run) = (folder.scored(), folder.run());
    let rounds = fs::read_to_string(run.join("rounds.csv")).unwrap();
    assert!(rounds.lines().filter(|line| line.contains(",true,")).count() > 100);
    let (found, gaps) = against(&folder, &tape, &run);
    assert!(found.contains("at T = 0: 0 of 432 generations have other rounds"), "{found}");
    let greedy = greedy(&gaps);
    assert!(greedy.iter().all(|gap| gap["forecast"] == gap["measured"]), "{greedy:?}");
}

#[test]
fn the_rows_of_forecasts_are_documented() {
    let folder = TapeFolder::new();
    let tape = folder.scored();
    let costs = folder.path("costs.csv");
    fs::write(&costs, "what,rows,context,batch,ms\n,1,1,1,4\n,17,1,1,5\ndraft,1,1,1,0.5\n")
        .unwrap();
    let file = folder.path("forecast.csv");
    let args = ["forecast", &tape, "--costs", &costs, "--csv", &file];
    let table = stdout(&args);
    assert!(table.contains("T = 0: it is faster: "), "{table}");
    let found = rows(&file);
    // Two temperatures, two drafters, three rules, sixteen K.
    assert_eq!(found.len(), 2 * 2 * 3 * 16);
    let first = fs::read(&file).unwrap();
    assert_eq!(stdout(&args), table);
    assert_eq!(fs::read(&file).unwrap(), first, "the same tape has the same forecast");
    let doc = include_str!("../../docs/tape.md");
    let headings = headings::<ForecastRow>();
    let header = csv::Reader::from_path(&file).unwrap().headers().unwrap().clone();
    assert!(header.iter().eq(headings.iter().map(String::as_str)));
    let own = headings.iter().map(String::as_str).skip_while(|column: &&str| *column != "drafter");
    for column in own.chain(columns::<CostRow>().iter().copied()) {
        let stem = column.trim_end_matches("_lo").trim_end_matches("_hi");
        assert!(doc.contains(&format!("`{stem}`")), "{column} is not documented");
    }
    let all = specdec(&["forecast", &tape, "--costs", &costs, "--json"]).output().unwrap();
    let all = serde_json::from_slice::<Value>(&all.stdout).unwrap();
    assert_eq!(all["best"][0]["verdict"], "faster");
    assert_eq!(all["cells"].as_array().unwrap().len(), found.len());
}

#[test]
fn a_draft_model_is_scored_with_each_of_its_settings() {
    let folder = TapeFolder::new();
    let tape = folder.path("t.jsonl");
    stdout(&["tape", "record", &folder.path("toy"), "--out", &tape]);
    let grid = ["--draft-temperature", "0.5,1", "--draft-top-p", "0.9"];
    let score =
        ["tape", "score", &tape, "--draft", "toy:mixed", "--overlap", "--target", "toy:mixed"];
    stdout(&[&score[..], &grid].concat());
    stdout(&[&score[..5], &["--draft-top-p", "0.9"]].concat());
    let lines = lines(&tape);
    let drafters = lines.iter().filter_map(|line| line.get("drafter")).collect::<Vec<_>>();
    let settings = drafters.iter().map(|drafter| drafter["params"].clone()).collect::<Vec<_>>();
    assert_eq!(
        settings,
        [
            json!({"draft_temperature": 0.5, "draft_top_p": 0.9}),
            json!({"draft_temperature": 1.0, "draft_top_p": 0.9}),
            json!({"draft_top_p": 0.9}),
        ]
    );
    let score = |drafter: u64, sequence: u64| {
        let scores = lines.iter().filter_map(|line| line.get("score"));
        let own = |s: &&Value| s["drafter"] == drafter && s["text"] == sequence;
        scores.clone().find(own).unwrap().clone()
    };
    // Sequence 1 was drawn at temperature 1, so its second and third distributions are equal.
    assert_eq!(score(1, 1)["log_q"], score(2, 1)["log_q"]);
    assert_ne!(score(0, 1)["log_q"], score(1, 1)["log_q"]);
    let overlaps = score(0, 1)["overlap"].as_array().unwrap().clone();
    assert!(overlaps.iter().all(|x| (0.0..=1.0 + 1e-12).contains(&x.as_f64().unwrap())));
    assert!(score(2, 1).get("overlap").is_none());
}

#[test]
fn probabilities_of_another_temperature_are_doubted() {
    let folder = TapeFolder::new();
    let tape = folder.scored();
    let good = fs::read_to_string(&tape).unwrap();
    assert!(!stdout(&["forecast", &tape]).contains("doubt"));
    let cooled = good.lines().map(|line| {
        let mut line = serde_json::from_str::<Value>(line).unwrap();
        if let Some(logs) = line.pointer_mut("/text/log_p").and_then(Value::as_array_mut) {
            logs.iter_mut().for_each(|log| *log = json!(2.0 * log.as_f64().unwrap()));
        }
        format!("{line}\n")
    });
    let bad = folder.path("cooled.jsonl");
    fs::write(&bad, cooled.collect::<String>()).unwrap();
    let shown = stdout(&["forecast", &bad]);
    assert!(shown.starts_with("doubt: T = 1, model toy:mixed"), "{shown}");
    assert!(shown.contains("at most 1 is possible"), "{shown}");
}

/// At temperature 0 the rounds of trees and policies are those of a run, too.
#[test]
fn trees_and_policies_are_what_a_run_measures() {
    let folder = TapeFolder::new();
    let tape = folder.path("t.jsonl");
    stdout(&["tape", "record", &folder.path("toy"), "--out", &tape]);
    let models = ["--draft", "toy:mixed", "--target", "toy:mixed"];
    let score = ["tape", "score", &tape, "--overlap"];
    stdout(&[&score[..], &models].concat());
    let policy = ["--length", "entropy", "--set", "entropy_threshold=0.2", "--most", "6"];
    stdout(&[&score[..3], &models, &policy].concat());
    let file = folder.path("forecast.csv");
    let trees = ["--tree", "2,1", "--tree", "3", "--siblings", "top_k", "--csv", &file];
    let shown = stdout(&[&["forecast", &tape][..], &trees].concat());
    assert!(shown.contains("tree 2,1 top_k"), "{shown}");
    let header = csv::Reader::from_path(&file).unwrap().headers().unwrap().clone();
    let column = |name: &str| header.iter().position(|column| column == name).unwrap();
    let forecast = |tree: &str, params: &str, k: &str| {
        let wanted = [("temperature", "0.0"), ("tree", tree), ("params", params)];
        let wanted =
            wanted.into_iter().chain([("num_speculative_tokens", k), ("verifier", "rejection")]);
        let wanted = wanted.collect::<Vec<_>>();
        let found = rows(&file);
        let found = found.iter().filter(|row| wanted.iter().all(|(c, v)| &row[column(c)] == *v));
        let found = found.map(|row| row[column("rounds")].parse::<f64>().unwrap());
        let found = found.collect::<Vec<_>>();
        assert_eq!(found.len(), 1, "{tree} {params}");
        found[0]
    };
    let measured = |set: &[&str]| {
        let common = ["--set", "sweep.temperature=0", "--set", "sweep.verifier=rejection"];
        let out = folder.path(&set.join("-").replace(['=', ',', '[', ']', '"', '.'], "-"));
        let run = ["run", &folder.path("toy"), "--out", &out];
        let set = set.iter().flat_map(|set| ["--set", set]).collect::<Vec<_>>();
        let report = stdout(&[&run[..], &common, &set].concat());
        let summary = Path::new(report.trim()).with_file_name("summary.csv");
        let mut reader = csv::Reader::from_path(summary).unwrap();
        let header = reader.headers().unwrap().clone();
        let column = |name: &str| header.iter().position(|column| column == name).unwrap();
        let rows = reader.into_records().map(Result::unwrap).collect::<Vec<_>>();
        let drafted = rows.iter().find(|row| &row[column("drafter")] != "none").unwrap();
        drafted[column("rounds")].parse::<f64>().unwrap()
    };
    let tree = |shape: &str| {
        measured(&[
            "sweep.drafter=model_tree",
            "siblings=top_k",
            &format!("tree=\"{shape}\""),
            "sweep.num_speculative_tokens=6",
        ])
    };
    assert_eq!(forecast("2,1 top_k", "", "2"), tree("2,1"));
    assert_eq!(forecast("3 top_k", "", "1"), tree("3"));
    let entropy = measured(&[
        "sweep.drafter=model",
        "sweep.length=entropy",
        "entropy_threshold=0.2",
        "sweep.num_speculative_tokens=6",
    ]);
    assert_eq!(forecast("", "entropy_threshold=0.2", "6"), entropy);
    let forecast = ["forecast", &tape, "--tree"];
    refuses(&[&forecast[..], &["2,0"]].concat(), "--tree = 2,0: not a tree shape");
    refuses(&[&forecast[..], &["5"]].concat(), "does not cover such siblings");
    let distinct = ["3", "--siblings", "distinct"];
    refuses(&[&forecast[..], &distinct].concat(), "does not cover such siblings");
    let policy = ["--length", "heuristic"];
    refuses(&[&score[..3], &models, &policy].concat(), "learns from rounds");
    let policy = ["--length", "confidence"];
    refuses(&[&score[..3], &models, &policy].concat(), "set confidence_tuned = 0");
}

#[test]
fn what_is_no_tape_is_refused() {
    let folder = TapeFolder::new();
    let tape = folder.scored();
    let good = fs::read_to_string(&tape).unwrap();
    let bad = folder.path("bad.jsonl");
    let header = good.lines().next().unwrap();
    let line = good.lines().nth(1).unwrap();
    for (content, part) in [
        (String::new(), "it has no complete line of a tape"),
        (format!("{line}\n"), "line 1: a tape begins with a line \"tape\""),
        (format!("{header}\n{header}\n"), "line 2: a tape has one line \"tape\""),
        (format!("{header}\nhello\n"), "line 2: not a line of a tape"),
        (header.replace("\"format\":1", "\"format\":9") + "\n", "format 9 is unknown"),
        (
            format!("{header}\n{}\n", line.replace("\"sampling\":0", "\"sampling\":7")),
            "\"sampling\" is 7",
        ),
        (
            format!("{header}\n{}\n", line.replace("\"tokens\":[", "\"tokens\":[4,")),
            "token 4 lies outside",
        ),
        (
            format!("{header}\n{}\n", line.replace("\"tokens\":[", "\"tokens\":[0,")),
            "41 tokens do not fit",
        ),
        (
            format!("{header}\n{}\n", line.replace("\"log_p\":[0.0", "\"log_p\":[0.1")),
            "no probability is above 1",
        ),
        (
            format!("{header}\n{}\n", line.replace("\"log_p\":[0.0,", "\"log_p\":[")),
            "has 39 entries for 40 tokens",
        ),
        (format!("{header}\n{{\"score\":{{\"drafter\":0,\"text\":0}}}}\n"), "\"drafter\" is 0"),
    ] {
        fs::write(&bad, content).unwrap();
        refuses(&["forecast", &bad], part);
    }
    refuses(&["forecast", &folder.path("none.jsonl")], "none.jsonl");
    fs::write(&bad, format!("{header}\n{line}\n")).unwrap();
    refuses(&["forecast", &bad], "holds no scores");
    let score = ["tape", "score", &bad, "--drafter"];
    refuses(&[&score[..], &["model_tree", "--draft", "toy:mixed"]].concat(), "drafts trees");
    refuses(&[&score[..], &["token_recycling"]].concat(), "drafts trees");
    refuses(&[&score[..], &["none"]].concat(), "drafts nothing, so there is nothing to score");
    refuses(&[&score[..], &["modle"]].concat(), "did you mean");
    refuses(&[&score[..], &["prompt_lookup", "--set", "x=1"]].concat(), "x is not a setting of");
    refuses(
        &[&score[..], &["model", "--draft", "embedded-draft"]].concat(),
        "has another tokenizer",
    );
    let costs = folder.path("costs.csv");
    for (content, part) in [
        ("rows,context,batch,ms\n2,1,1,4\n", "no pass of one row"),
        ("rows,context,batch,ms\n1,1,1,4\n", "no row with what = draft"),
        ("rows,context,batch,ms\n1,1,1,x\n", "row 1"),
        (
            "what,rows,context,batch,ms\npass,1,1,1,4\n",
            "allowed are target, draft, prefill, draft_prefill and outside",
        ),
        ("what,rows,context,batch,ms\ndraft,1,1,1,4\n", "no row for a pass of the target"),
    ] {
        fs::write(&costs, content).unwrap();
        refuses(&["forecast", &tape, "--costs", &costs], part);
    }
}

#[test]
fn a_compressed_tape_is_read_and_not_written() {
    let folder = TapeFolder::new();
    let tape = folder.scored();
    let packed = folder.path("t.jsonl.gz");
    let mut writer = flate2::write::GzEncoder::new(
        fs::File::create(&packed).unwrap(),
        flate2::Compression::default(),
    );
    std::io::Write::write_all(&mut writer, &fs::read(&tape).unwrap()).unwrap();
    writer.finish().unwrap();
    assert_eq!(stdout(&["forecast", &packed]), stdout(&["forecast", &tape]));
    assert_eq!(stdout(&["tape", "show", &packed]), stdout(&["tape", "show", &tape]));
    refuses(&["tape", "score", &packed, "--drafter", "prompt_lookup"], "is compressed");
    let out = specdec(&["tape", "show", &tape]).output().unwrap();
    assert!(text(&out.stdout).starts_with("sequences 72 of 12 prompts, 2880 tokens, 0 ended"));
}

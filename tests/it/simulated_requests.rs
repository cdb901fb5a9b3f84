//! `specdec simulate --requests-csv`: a row for each request.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::cli_simulate::{SEQUENCES, Simulated};
use crate::cli_support::stdout;

type Row = BTreeMap<String, String>;

fn number(row: &Row, column: &str) -> f64 {
    row[column].parse().unwrap()
}

/// The prompts and the arrivals of requests.
fn arrivals(rows: &[Row]) -> Vec<(&str, &str)> {
    rows.iter().map(|row| (&*row["prompt"], &*row["arrived_ms"])).collect()
}

fn median_latency(rows: &[Row]) -> f64 {
    let latency = |row| number(row, "finished_ms") - number(row, "arrived_ms");
    let mut sorted = rows.iter().map(latency).collect::<Vec<_>>();
    sorted.sort_by(f64::total_cmp);
    f64::midpoint(sorted[rows.len() / 2 - 1], sorted[rows.len() / 2])
}

#[test]
fn requests_have_one_row_each() {
    let own = Simulated::new();
    let file = own.path("requests.csv");
    let args = ["simulate", &own.tape, "--costs", &own.costs, "--drafter", "prompt_lookup"];
    let load = ["--rate", "20", "--policy", "plain,fixed:2", "--repeats", "2", "--json"];
    let found = stdout(&[&args[..], &load, &["--requests-csv", &file]].concat());
    let found = serde_json::from_str::<Value>(&found).unwrap();
    let configs = found["rows"].as_array().unwrap();
    let rows = csv::Reader::from_path(&file).unwrap().into_deserialize::<Row>();
    let rows = rows.collect::<Result<Vec<_>, _>>().unwrap();
    let (of_repeat, of_config) = (SEQUENCES as usize, 2 * SEQUENCES as usize);
    assert_eq!(rows.len(), configs.len() * of_config);
    for (config, own) in configs.iter().zip(rows.chunks(of_config)) {
        for (at, row) in own.iter().enumerate() {
            assert_eq!((Some(&*row["policy"]), &*row["rate"]), (config["policy"].as_str(), "20.0"));
            let place = (number(row, "repeat"), number(row, "request"));
            assert_eq!(place, ((at / of_repeat) as f64, (at % of_repeat) as f64));
            let times = ["arrived_ms", "prefilled_ms", "first_ms", "finished_ms"];
            assert!(times.map(|time| number(row, time)).is_sorted());
        }
        assert!((median_latency(own) - config["latency_ms_p50"].as_f64().unwrap()).abs() < 1e-9);
    }
    // The same requests arrive at the same times under every policy.
    for pair in rows.chunks(2 * of_config) {
        assert_eq!(arrivals(&pair[..of_config]), arrivals(&pair[of_config..]));
    }
}

//! What passes took while requests were played, beside a file of costs.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use serde_json::Value;
use specdec::bench::CostRow;
use specdec::clock::{Clock, VirtualClock, VirtualCosts};
use specdec::draft::Tools;
use specdec::error::Error;
use specdec::forecasting::CostTable;
use specdec::model::{Evaluation, LanguageModel, ModelInfo, SMALL_PAIR, Session, Settings, Work};
use specdec::replay::{CostRatio, PlayedCosts, Player};
use specdec::sampling::ForEachRow;
use specdec::simulation::{Arrivals, ServedRun};
use tempfile::TempDir;

use crate::cli_support::refuses;
use crate::replay_support::{
    K, SEED, SLOTS, Text, drafting, file, replayed, requests_of, simulated,
};

/// A model whose passes take 0.9 ms and `each` ms for each sequence.
#[derive(Debug)]
struct Slow<'m> {
    inner: &'m dyn LanguageModel,
    clock: &'m VirtualClock,
    each: Duration,
}

impl LanguageModel for Slow<'_> {
    fn info(&self) -> &ModelInfo {
        self.inner.info()
    }

    fn session(&self) -> Result<Session, Error> {
        self.inner.session()
    }

    fn evaluate(&self, work: &mut [Work<'_>]) -> Result<Vec<Evaluation>, Error> {
        self.clock.wait(Duration::from_micros(900) + self.each * work.len() as u32);
        self.inner.evaluate(work)
    }

    fn for_each_row(&self) -> ForEachRow {
        self.inner.for_each_row()
    }
}

/// What the passes of [`Slow`] models take, in ms, with so much for each sequence.
fn slow(each: f64, batch: usize) -> f64 {
    0.9 + each * batch as f64
}

/// The clients of a simulation.
const CLIENTS: usize = 3;

/// Says too little by these factors: of the target alone and in larger batches, of prompts, of the
/// draft model, of its prompts.
fn wrong_costs([alone, shared, prompts, drafts, draft_prompts]: [f64; 5]) -> String {
    let mut rows = "what,rows,context,batch,ms\n".to_owned();
    for batch in 1..=SLOTS {
        let wrong = if batch == 1 { alone } else { shared };
        rows += &format!("target,1,1,{batch},{}\n", slow(0.2, batch) / wrong);
        rows += &format!("target,17,1,{batch},{}\n", slow(0.2, batch) / wrong);
        rows += &format!("draft,1,1,{batch},{}\n", slow(0.05, batch) / drafts);
    }
    rows += &format!("prefill,1,1,1,{}\n", slow(0.2, 1) / prompts);
    rows + &format!("draft_prefill,1,1,1,{}\n", slow(0.05, 1) / draft_prompts)
}

#[test]
fn costs_as_they_were_played_make_a_simulation_take_as_long() {
    let models = SMALL_PAIR.map(|shape| shape.model(&Settings::default()).unwrap());
    let none = Duration::ZERO;
    let clock = VirtualClock::new(VirtualCosts {
        draft_pass: none,
        draft_row: none,
        target_pass: none,
        target_row: none,
    });
    let [target, draft] = [(&models[0], 200), (&models[1], 50)].map(|(model, each)| Slow {
        inner: &**model,
        clock: &clock,
        each: Duration::from_micros(each),
    });
    let tools = Tools { draft: Some(&draft), target: Some(&target), texts: None };
    let spec = drafting("model");
    let player = Player { target: &target, tools, spec: &spec, seed: SEED, slots: SLOTS };
    let texts = Text::all();
    let logs = texts.iter().map(|text| text.log(&player)).collect::<Vec<_>>();
    let folder = TempDir::new().unwrap();
    let costs = folder.path().join("costs.csv");
    let wrong = [1.25, 2.0, 4.0, 0.5, 0.8];
    fs::write(&costs, wrong_costs(wrong)).unwrap();
    let arrivals = Arrivals::Clients(CLIENTS);
    let guessed = simulated(&logs, arrivals, K, &CostTable::read(&costs).unwrap());
    let requests = requests_of(&guessed, &texts, arrivals);
    let mut found = PlayedCosts::read(&costs).unwrap();
    let played = player.play(&requests, &clock, &mut |step| found.add(step, true)).unwrap();

    let ratios = found.ratios().into_iter().map(|CostRatio { what, ratio }| (what, ratio.unwrap()));
    let ratios = ratios.collect::<BTreeMap<_, _>>();
    let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
    assert!(ratios["target"] > 1.25 && ratios["target"] < 2.0, "{ratios:?}");
    let [.., prompts, drafts, draft_prompts] = wrong;
    for (what, wrong) in [("prefill", prompts), ("draft", drafts), ("draft_prefill", draft_prompts)]
    {
        assert!(near(ratios[what], wrong), "{ratios:?}");
    }
    assert_eq!(ratios.len(), 4, "nothing happens outside passes: {ratios:?}");
    for row in found.rows().iter().filter(|row| row.what == "target") {
        let took = slow(0.2, row.batch);
        // Four requests never shared a step.
        let unseen = took / 2.0 * ratios["target"];
        assert!(near(row.ms, if row.batch <= CLIENTS { took } else { unseen }), "{row:?}");
    }
    let mut table = CostTable::default();
    found.rows().into_iter().for_each(|row| table.add(row).unwrap());
    let again = simulated(&logs, arrivals, K, &table);
    let ends = |run: &ServedRun| {
        run.requests.iter().map(|request| (request.number, request.finished)).collect()
    };
    let [again, played]: [BTreeMap<_, _>; 2] = [ends(&again), ends(&played)];
    assert!(again.iter().all(|(request, end)| near(*end, played[request])));
}

#[test]
fn costs_of_a_file_are_scaled_to_what_passes_took() {
    let folder = TempDir::new().unwrap();
    let [costs, scaled] = ["costs.csv", "played.csv"].map(|name| folder.path().join(name));
    fs::write(&costs, "what,rows,context,batch,ms\ntarget,1,1,1,1000000\nprefill,9,1,1,7\n")
        .unwrap();
    let [costs, scaled] = [costs, scaled].map(|path| path.display().to_string());
    let more = ["--plain", "--json", "--costs", &costs, "--played-costs", &scaled];
    let (said, _) = replayed("request,prompt,tokens,clients\n0,code/fn_main,5,1\n", &more);
    let found = serde_json::from_str::<Value>(&said).unwrap();
    let ratio = |at: usize, what: &str| {
        let ratio = &found["cost_ratios"][at];
        assert_eq!(ratio["what"], what, "{said}");
        ratio["ratio"].as_f64()
    };
    let ratios = [ratio(0, "target"), ratio(2, "prefill")].map(Option::unwrap);
    assert!(ratios[0] > 0.0 && ratios[0] < 1.0, "{said}");
    assert_eq!(ratio(1, "outside"), None, "the file does not tell");
    let rows = csv::Reader::from_path(&scaled).unwrap().into_deserialize();
    let rows = rows.collect::<Result<Vec<CostRow>, _>>().unwrap();
    let told = rows.iter().map(|row| row.ms).collect::<Vec<_>>();
    assert_eq!(told, [1e6 * ratios[0], 7.0 * ratios[1]]);
    let (_folder, path) = file("request,prompt,tokens,clients\n0,code/fn_main,5,1\n");
    refuses(&["replay", &path, "--plain", "--costs", "nowhere.csv"], "nowhere.csv");
}

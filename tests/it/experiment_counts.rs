//! Counts have maxima and settings without effect are refused, in files and in `--set`.

use specdec::measure::rows::SummaryRow;
use specdec::measure::rows::columns;
use specdec::run::experiment::{Spec, read_plan};

use crate::experiment_support::{planned, rows};
use crate::run_support::{fail, folder, run, specdec, succeed};

/// Asserts that the smoke experiment, changed by `set`, is refused in one line with these
/// parts.
fn refused(set: &[&str], parts: &[&str]) {
    let error = planned(set).expect_err(&format!("{set:?} must be refused"));
    for part in parts {
        assert!(error.contains(part), "{error:?} does not contain {part:?}");
    }
    assert!(!error.contains('\n'), "{error}");
}

#[test]
fn every_count_has_a_maximum() {
    for (set, allowed) in [
        ("max_tokens=1000001", "from 1 to 1000000"),
        ("repeats=4294967295", "from 1 to 10000"),
        ("repeats=10001", "from 1 to 10000"),
        ("warmup=1001", "from 0 to 1000"),
        ("threads=65536", "from 1 to 65535"),
        ("prompts_limit=0", "from 1 to 1000000"),
        ("prompts_per_category=1000001", "from 1 to 1000000"),
        ("sweep.num_speculative_tokens=9223372036854775807", "from 1 to 256"),
        ("sweep.num_speculative_tokens=[4, 257]", "257: allowed is an integer from 1 to 256"),
        ("prompt_lookup_max=4294967296", "from 1 to 1024"),
        ("sweep.top_k=9223372036854775807", "from 0 to 1073741824"),
    ] {
        refused(&[set], &[set.split('=').next().unwrap(), allowed]);
    }
    let of = |drafter: &str, set: &str, allowed: &str| {
        refused(&[&format!("sweep.drafter={drafter}"), set], &[allowed]);
    };
    of("tree_confidence", "tree_nodes=33", "from 1 to 32");
    of("tree_confidence", "tree_width=9", "from 1 to 8");
    of("tree_optimal", "tree_most_nodes=65", "from 1 to 64");
    of("model_tree", "tree=65", "65 nodes exceed the limit of 64");
    of("suffix_automaton", "suffix_min=1025", "from 1 to 1024");
    of("ngram_lm", "ngram_order=17", "from 1 to 16");
    of("cascade", "cascade_tokens=65", "from 1 to 64");
}

#[test]
fn plans_with_too_many_cells_or_tokens_are_refused() {
    let list =
        |n: usize| (1..=n).map(|i| format!("{}", i as f64 / 1e4)).collect::<Vec<_>>().join(",");
    let many = format!("sweep.temperature=[{}]", list(3000));
    let plan = planned(&[
        &many,
        "sweep.drafter=model",
        "sweep.verifier=rejection",
        "sweep.num_speculative_tokens=1",
    ])
    .unwrap();
    assert_eq!(plan.cells.len(), 2 * 3000);
    refused(&[&many], &["[sweep] has 36000 cells: allowed are at most 10000"]);
    let tokens = "more than 100000000 tokens";
    refused(&["repeats=10000", "max_tokens=1000"], &["x 10000 repeats of 1000 tokens are", tokens]);
}

#[test]
fn duplicate_axis_values_are_refused() {
    refused(&["sweep.temperature=[0.7, 1, 0.7]"], &["\"sweep.temperature\" = 0.7 is listed twice"]);
    refused(&["sweep.temperature=[0.0, -0.0]"], &["\"sweep.temperature\"", "listed twice"]);
    refused(&["sweep.num_speculative_tokens=[2, 2]"], &["num_speculative_tokens\" = 2 is listed"]);
    // Aliases count as the same value.
    refused(&["sweep.drafter=[\"model\", \"draft_model\"]"], &["\"draft_model\" is listed twice"]);
}

#[test]
fn settings_that_no_method_reads_are_refused() {
    let lookup = "sweep.drafter=prompt_lookup";
    let readers = "choose one of model, model_tree";
    refused(
        &[lookup, "sweep.draft_temperature=0.5"],
        &[
            "\"sweep.draft_temperature\" is read by none of prompt_lookup, rejection, token_match, fixed",
            readers,
        ],
    );
    refused(
        &[lookup, "draft_temperature=0.5"],
        &["\"draft_temperature\" is read by no method", readers],
    );
    refused(&["adaedl_gamma=0.3"], &["\"adaedl_gamma\"", "choose one of adaedl"]);
    assert!(planned(&["draft_temperature=0.5"]).is_ok(), "the draft model reads it");
    assert!(planned(&["adaedl_gamma=0.3", "length=adaedl"]).is_ok(), "the policy reads it");
    // A text that the tokenizer cannot encode would fail in every generation.
    let text = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(text.path(), "abz").unwrap();
    let text = format!("ngram_text={:?}", text.path().display().to_string());
    refused(&["sweep.drafter=ngram_lm", &text], &["ngram_text = ", "not 'z'"]);
    // A top-level key applies to the sweeps that read it.
    let sweeps = "sweep=[{drafter=\"model\"}, {drafter=\"prompt_lookup\"}]";
    let plan = planned(&[sweeps, "prompt_lookup_max=2"]).unwrap();
    assert_eq!(
        plan.cells.iter().filter(|c| c.method.params.to_string().contains("max=2")).count(),
        1
    );
}

#[test]
fn an_exclusion_must_match_a_cell_and_never_the_baseline() {
    let parts = ["[[exclude]] number 2 (num_speculative_tokens = 3 or 5) matches no cell"];
    let first = "{drafter=\"model\", temperature=1}";
    refused(&[&format!("exclude=[{first}, {{num_speculative_tokens=[3, 5]}}]")], &parts);
    // Replacing an axis with --set must not invalidate the exclusions of the file.
    let condition = format!("exclude=[{first}, {{num_speculative_tokens=[3, 5]}}]");
    planned(&["sweep.num_speculative_tokens=4", &condition]).unwrap();
    // Some axes may be given at the top level.
    let lengths = ["length=fixed", "exclude=[{length=\"svip\"}]"];
    planned(&lengths).unwrap();
    refused(&lengths[1..], &["matches no cell"]);
    refused(&["exclude=[{drafter=\"none\"}]"], &["leaves out plain decoding"]);
    refused(&["exclude=[{}]"], &["leaves no cell"]);
}

#[test]
fn the_error_for_a_misplaced_key_names_the_right_place() {
    let read = |set: &str| planned(&[set]).unwrap_err();
    assert_eq!(
        read("temperature=0"),
        "--set temperature=0: \"temperature\" is an axis: write sweep.temperature=0"
    );
    assert_eq!(read("temp=0"), "--set temp=0: \"temp\" is an axis: write sweep.temperature=0");
    assert_eq!(
        read("sweep.n_predict=3"),
        "--set sweep.n_predict=3: \"n_predict\" is not an axis: write max_tokens=3"
    );
    let no_drafter = read("sweep={temperature=0}");
    assert!(no_drafter.contains("the key \"drafter\" is missing in [sweep]"), "{no_drafter}");
}

#[test]
fn penalties_are_axes() {
    let set = [
        "sweep.repetition_penalty=[1.0, 1.3]",
        "sweep.presence_penalty=0.2",
        "sweep.temperature=1",
    ];
    let plan = planned(&set).unwrap();
    let penalties = plan
        .goals()
        .iter()
        .map(|cells| cells[0].method.sampling.clone())
        .map(|s| (s.repetition_penalty, s.presence_penalty))
        .collect::<Vec<_>>();
    assert_eq!(penalties, [(1.0, 0.2), (1.3, 0.2)]);
    assert!(plan.goals().iter().all(|cells| cells[0].is_baseline()));
    let words = specdec::run::experiment::describe(plan.goals()[1][1]);
    assert!(words.contains("T = 1, repetition_penalty = 1.3, presence_penalty = 0.2"), "{words}");
    let rest = planned(&[set[0], set[1], set[2], "exclude=[{repetition_penalty=1.3}]"]).unwrap();
    assert_eq!(rest.goals().len(), 1);
}

/// A damaged count in a saved plan would cost memory and time.
#[test]
fn a_plan_that_is_read_back_is_checked() {
    let out = tempfile::tempdir().unwrap();
    succeed(run(out.path(), &["--quick"]));
    let folder = folder(out.path());
    let plan = folder.join("plan.toml");
    let sound = std::fs::read_to_string(&plan).unwrap();
    for (from, to, part) in [
        ("num_speculative_tokens = 4", "num_speculative_tokens = 2147483648", "from 1 to 256"),
        ("repeats = 1", "repeats = 4294967295", "from 1 to 10000"),
        ("max_tokens = 16", "max_tokens = 1000000000", "from 1 to 1000000"),
        ("max_tokens = 16", "max_tokens = 0", "from 1 to 1000000"),
        ("prompt_lookup_max = 3", "prompt_lookup_max = 4294967296", "from 1 to 1024"),
        ("temperature = 0.7", "temperature = nan", "a finite number >= 0"),
    ] {
        assert!(sound.contains(from), "{from}");
        std::fs::write(&plan, sound.replace(from, to)).unwrap();
        let error = format!("{:#}", read_plan(&folder).unwrap_err());
        assert!(error.contains("plan.toml is damaged") && error.contains(part), "{error}");
    }
    fail(specdec(&["report", folder.to_str().unwrap()]).output().unwrap(), &["is damaged"]);
}

#[test]
fn plan_and_run_refuse_inputs_with_the_same_message() {
    let out = tempfile::tempdir().unwrap();
    let set = ["--set", "max_tokens=1020"];
    let planned = specdec(&["plan", "experiments/00-smoke"]).args(set).output().unwrap();
    let run = run(out.path(), &set);
    assert_eq!(planned.stderr, run.stderr);
    fail(run, &["2 of 4 prompts are too long", "smoke-1 (8 tokens), smoke-2 (6 tokens)"]);
    assert_eq!(std::fs::read_dir(out.path()).unwrap().count(), 0);
}

/// The report shows which prompts were left out, and axes that belong to no method.
#[test]
fn the_report_names_the_choice_of_prompts_and_the_penalties() {
    let out = tempfile::tempdir().unwrap();
    let set = ["prompts_limit=2", "max_tokens=8", "sweep.repetition_penalty=[1.0, 1.5]"];
    let set = set.iter().chain(&["sweep.temperature=1"]).flat_map(|set| ["--set", *set]);
    succeed(run(out.path(), &set.collect::<Vec<_>>()));
    let folder = folder(out.path());
    let report = std::fs::read_to_string(folder.join("report.md")).unwrap();
    assert!(report.contains("Chosen by the seed, of 4 prompts: prompts_limit = 2."), "{report}");
    assert!(report.contains("T = 1, repetition_penalty = 1.5"), "{report}");
    assert!(!report.contains("presence_penalty"), "only penalties that differ are named");
    let rows: Vec<SummaryRow> = rows(&folder, "summary.csv");
    let penalties = rows.iter().map(|row| row.sampling.repetition_penalty.to_string());
    let penalties = penalties.collect::<std::collections::BTreeSet<_>>();
    assert_eq!(penalties, ["1".to_owned(), "1.5".to_owned()].into());
}

#[test]
fn the_reference_page_states_the_allowed_values_of_every_key() {
    let page = specdec::run::experiment::reference::page();
    let row = |key: &str| page.lines().find(|line| line.starts_with(&format!("| `{key}` |")));
    for key in columns::<Spec>() {
        let row = row(key).unwrap_or_else(|| panic!("{key} is not on the page"));
        let refused = planned(&[&format!("{key}=-7.5")]).unwrap_err();
        let (_, allowed) = refused.split_once("allowed is ").unwrap_or_else(|| panic!("{refused}"));
        assert!(row.contains(&format!("| {allowed} |")), "{row} should say {allowed}");
    }
    for axis in ["drafter", "verifier", "length", "num_speculative_tokens", "repetition_penalty"] {
        assert!(row(axis).is_some(), "{axis} is not on the page");
    }
}

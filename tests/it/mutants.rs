//! Known-wrong methods must be refuted; production code in their place must not.

use std::collections::BTreeSet;

use specdec::bugs::{bugs, controls, mutants, name_now, of_any_models, wrong_method};
use specdec::proof::{CHECKS, refute};

#[test]
fn every_mutant_is_killed() {
    let reports = mutants().map(|(bug, mutant)| refute(bug, mutant).unwrap()).collect::<Vec<_>>();
    // One mutant needs the cache of the CPU engine.
    let engine = cfg!(feature = "engine");
    assert!(reports.len() >= 55 + usize::from(engine));
    let survivors = reports.iter().filter(|r| r.killed_by.is_empty()).collect::<Vec<_>>();
    assert!(survivors.is_empty(), "{survivors:?}");
    let find = |name: &str| reports.iter().find(|r| r.name == name).unwrap();

    // Invisible in the first token: a test of a single token would miss these.
    for name in [
        "bonus_from_last_q",
        "bonus_row_not_warped",
        "bonus_from_stale_row",
        "target_row_early",
        "draft_row_early",
        "stale_kv",
        "tree_rows_not_compacted",
        "penalties_ignore_draft",
    ] {
        let report = find(name);
        assert!(report.tv_first_token < 1e-12, "{report:?}");
        assert!(report.tv_joint > 0.05, "{report:?}");
        assert!(report.killed_by.contains(&"joint"), "{report:?}");
    }
    // Invisible in every output distribution.
    assert_eq!(find("no_bonus").killed_by, ["expected_length"]);
    assert_eq!(find("draft_distributions_lost").killed_by, ["expected_length"]);
    assert_eq!(find("race_keyed_by_round").killed_by, ["same_tokens"]);
    assert_eq!(find("position_keyed_draft").killed_by, ["draw_addresses"]);
    assert_eq!(find("uniform_24_bit_tail").killed_by, ["uniform_bits"]);
    // Detected at the mistake itself, not only by its consequences.
    for name in ["stale_kv", "target_row_early", "tree_rows_not_compacted"] {
        assert!(find(name).killed_by.contains(&"target_rows"), "{name}");
    }
    for name in ["raw_q_verified", "drops_low_confidence", "top_siblings_soft_q"] {
        assert!(find(name).killed_by.contains(&"draft_tokens"), "{name}");
    }
    for name in ["residual_reuses_uniform", "accept_reuses_uniform"] {
        let killed_by = &find(name).killed_by;
        assert!(killed_by.contains(&"draw_addresses"), "{name}");
        assert!(killed_by.contains(&"goodness_of_fit"), "{name}");
    }
    let reused = find("residual_reuses_noise");
    assert!(["joint", "goodness_of_fit"].iter().all(|by| reused.killed_by.contains(by)));
    if engine {
        assert!(find("fork_loses_partial_tile").killed_by.contains(&"forked_rows"));
    }
    assert!(find("retrospective_length").killed_by.contains(&"draft_tokens"));
    // Distances that are known analytically.
    let known = reports.iter().filter_map(|r| Some((r.name, r.tv_first_token, r.on_paper?)));
    let known = known.collect::<Vec<_>>();
    assert_eq!(known.len(), 4);
    assert!(known.iter().all(|(_, found, paper)| (found - paper).abs() < 1e-12), "{known:?}");
    for (check, _) in CHECKS.iter().filter(|(check, _)| engine || *check != "forked_rows") {
        assert!(reports.iter().any(|r| r.killed_by.contains(check)), "{check} kills nothing");
    }
}

#[test]
fn production_code_in_place_of_a_mutant_passes_every_check() {
    for (control, method) in controls() {
        let report = refute(control, method).unwrap();
        assert!(report.killed_by.is_empty(), "{report:?}");
        assert!(report.tv_joint < 1e-12, "{report:?}");
    }
}

/// Catches: two bugs of one name; an old name that is lost, or that the release notes lack.
#[test]
fn every_bug_has_one_name() {
    let controls = controls().map(|(control, _)| control.name);
    let old = bugs().flat_map(|bug| bug.was).copied();
    let names = bugs().map(|bug| bug.name).chain(old).chain(controls).collect::<Vec<_>>();
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{names:?}");
    let changes = include_str!("../../CHANGELOG.md");
    for bug in bugs() {
        assert!(!bug.summary.is_empty() && !bug.seen.is_empty(), "{}", bug.name);
        let forms = [bug.mutant.is_some(), bug.verifier.is_some(), bug.distribution.is_some()];
        let somewhere = forms.contains(&true) || bug.head.is_some();
        assert!(somewhere, "{} is nowhere", bug.name);
        let served = of_any_models().any(|(other, _)| other.name == bug.name);
        for name in bug.was.iter().chain([&bug.name]) {
            assert_eq!(name_now(name), bug.name);
            assert_eq!(
                wrong_method(name).map(|(bug, _)| bug.name).ok(),
                served.then_some(bug.name)
            );
        }
        for old in bug.was {
            let line = format!("`{old}` is now `{}`", bug.name);
            assert!(changes.contains(&line), "CHANGELOG.md lacks {line}");
        }
    }
    assert_eq!(name_now("by_token"), "by_token");
}

//! Known-wrong methods must be refuted; production code in their place must not.

use std::collections::BTreeSet;

use specdec::exactness::mutants::{CHECKS, controls, mutants, refute};

#[test]
fn every_mutant_is_killed() {
    let reports = mutants().iter().map(|m| refute(m).unwrap()).collect::<Vec<_>>();
    // One mutant needs the cache of the CPU engine.
    let engine = cfg!(feature = "engine");
    assert!(reports.len() >= 50 + usize::from(engine));
    let survivors = reports.iter().filter(|r| r.killed_by.is_empty()).collect::<Vec<_>>();
    assert!(survivors.is_empty(), "{survivors:?}");
    let names = mutants().iter().chain(&controls()).map(|m| m.name).collect::<Vec<_>>();
    let different = names.iter().collect::<BTreeSet<_>>();
    assert_eq!(different.len(), names.len(), "{names:?}");
    let find = |name: &str| reports.iter().find(|r| r.name == name).unwrap();

    // Invisible in the first token: a test of a single token would miss these.
    for name in [
        "bonus_from_q",
        "bonus_row_not_warped",
        "bonus_context_stale",
        "target_row_off_by_one",
        "q_row_off_by_one",
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
    for name in ["stale_kv", "target_row_off_by_one", "tree_rows_not_compacted"] {
        assert!(find(name).killed_by.contains(&"target_rows"), "{name}");
    }
    for name in ["draft_top_p_recorded_raw", "drops_low_confidence", "top_k_recorded_as_sampled"] {
        assert!(find(name).killed_by.contains(&"draft_tokens"), "{name}");
    }
    for name in ["accept_uniform_reused_for_residual", "draft_uniform_reused_for_accept"] {
        let killed_by = &find(name).killed_by;
        assert!(killed_by.contains(&"draw_addresses"), "{name}");
        assert!(killed_by.contains(&"goodness_of_fit"), "{name}");
    }
    let reused = find("residual_reuses_draft_noise");
    assert!(["joint", "goodness_of_fit"].iter().all(|by| reused.killed_by.contains(by)));
    if engine {
        assert!(find("fork_loses_partial_tile").killed_by.contains(&"forked_rows"));
    }
    assert!(find("retrospective_length").killed_by.contains(&"draft_tokens"));
    // Distances that are known analytically.
    let known = reports.iter().filter_map(|r| Some((r.name, r.tv_first_token, r.on_paper?)));
    let known = known.collect::<Vec<_>>();
    assert_eq!(known.len(), 3);
    assert!(known.iter().all(|(_, found, paper)| (found - paper).abs() < 1e-12), "{known:?}");
    for (check, _) in CHECKS.iter().filter(|(check, _)| engine || *check != "forked_rows") {
        assert!(reports.iter().any(|r| r.killed_by.contains(check)), "{check} kills nothing");
    }
}

#[test]
fn production_code_in_place_of_a_mutant_passes_every_check() {
    for control in controls() {
        let report = refute(&control).unwrap();
        assert!(report.killed_by.is_empty(), "{report:?}");
        assert!(report.tv_joint < 1e-12, "{report:?}");
    }
}

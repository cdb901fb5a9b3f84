//! The quick certificate: every registered method, the coverage of its cells, and the fields of its
//! JSON.

use std::collections::BTreeSet;

use specdec::core::registry::Class;
use specdec::method::decode::MethodSpec;
use specdec::method::decode::{CertificateVerdict, certified};
use specdec::method::draft::DRAFTERS;
use specdec::method::length::LENGTHS;
use specdec::method::verify::VERIFIERS;
use specdec::model::zoo::OTHER_VOCABULARIES;
use specdec::proof::{CellKind, Certificate, CertificateCell, CertifyOptions, certify};

#[test]
fn the_quick_certificate_holds_for_every_method() {
    let mut last = 0;
    let certificate = certify(&CertifyOptions::default(), &mut |p| last = p.total - p.done);
    let certificate = certificate.unwrap();
    assert!(certificate.holds(), "{}", certificate.failures().join("\n"));
    assert_eq!(last, 0, "the last progress report says that all is done");
    for verifier in VERIFIERS {
        let of = |v: CertificateVerdict, drafter: &str, length: &str| {
            let cells = certificate.cells.iter();
            let found = |c: &&CertificateCell| {
                c.verdict == v || c.class == "P" && c.verdict == CertificateVerdict::Exact
            };
            let cells = cells.filter(|c| c.verifier == verifier.name).filter(found);
            cells.filter(|c| c.drafter.starts_with(drafter) && c.length.starts_with(length)).count()
        };
        let expected = match verifier.build.class {
            // Class P is enumerated only if no position has two races.
            Class::P => CertificateVerdict::Consistent,
            Class::D => CertificateVerdict::Exact,
            class => {
                assert_eq!(class, Class::X, "{}", verifier.name);
                CertificateVerdict::Measured
            }
        };
        for length in LENGTHS {
            assert!(of(expected, "", length.name) >= 1, "{} {}", verifier.name, length.name);
        }
        for drafter in DRAFTERS {
            let spec = MethodSpec {
                verifier: verifier.name.to_owned(),
                drafter: drafter.name.to_owned(),
                ..MethodSpec::default()
            };
            if spec.validate().is_ok() {
                let name = format!("{} {}", verifier.name, drafter.name);
                assert!(of(expected, drafter.name, "fixed") >= 8, "{name}");
            }
        }
    }
    assert_coverage(&certificate);
    for verifier in VERIFIERS.iter().filter(|verifier| verifier.build.class == Class::D) {
        for drafter in DRAFTERS.iter().filter(|drafter| drafter.build.needs_model) {
            let spec = MethodSpec {
                verifier: verifier.name.to_owned(),
                drafter: drafter.name.to_owned(),
                ..MethodSpec::default()
            };
            let of =
                |c: &&CertificateCell| (c.verifier, c.drafter) == (verifier.name, drafter.name);
            let toys = certificate.cells.iter().filter(of).filter(|c| !c.vocabulary.is_same());
            let toys = toys.map(|c| &*c.toy).collect::<BTreeSet<_>>();
            let count = if spec.validate().is_ok() { OTHER_VOCABULARIES.len() } else { 0 };
            assert_eq!(toys.len(), count, "{} {}: {toys:?}", verifier.name, drafter.name);
        }
    }
    // A string setting that looks like a number must not exclude its drafter.
    let named = |c: &CertificateCell| (c.drafter, &*c.settings) == ("model_tree", "3 independent");
    assert!(certificate.cells.iter().any(named));
    let with = |sampler: &str| {
        let cells = certificate.cells.iter().filter(|c| c.sampler == sampler);
        cells.map(|c| c.drafter).collect::<BTreeSet<_>>()
    };
    let read_it = ["cascade", "hybrid", "model", "model_tree", "ngram_lm", "tree_confidence"];
    for sampler in ["T=1,draft_top_k=2", "T=1,draft_top_p=0.7"] {
        assert!(read_it.iter().all(|drafter| with(sampler).contains(drafter)), "{sampler}");
        assert!(!with(sampler).contains("prompt_lookup"), "{sampler}");
    }
    let two_lists = |c: &&CertificateCell| (c.verifier, &*c.verifier_settings) == ("gumbel", "2");
    let two_lists = certificate.cells.iter().filter(two_lists).collect::<Vec<_>>();
    assert!(two_lists.iter().any(|c| c.settings == "2,2 independent"));
    let kept = |c: &CertificateCell| (c.length, &*c.length_settings) == ("confidence", "0");
    assert!(certificate.cells.iter().any(kept));
    for length in &LENGTHS[1..] {
        let stopped = |c: &CertificateCell| c.length == length.name && c.stopped == Some(true);
        assert!(certificate.cells.iter().any(stopped), "{}", length.name);
    }
    assert!(certificate.table().contains("known-wrong methods"));
    assert!(certificate.table().contains("~: sampled only, not distinguishable from"));
    // The verdicts that `list` shows are those of this run.
    let now = certificate.certified();
    assert!(certified().unwrap().len() >= 25);
    for known in certified().unwrap() {
        let row = now.iter().find(|c| (&c.kind, &c.name) == (&known.kind, &known.name));
        assert_eq!(row.map(|c| c.verdict), Some(known.verdict), "{} {}", known.kind, known.name);
    }
    json_has_the_documented_fields(&certificate);
}

fn json_has_the_documented_fields(certificate: &Certificate) {
    let json = serde_json::to_value(certificate).unwrap();
    let keys = |v: &serde_json::Value| v.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let cell = "method verifier drafter length class toy prompt ends sampler K kind soft paths \
                max_tv min_detectable_tv verdict";
    assert_eq!(keys(&json["cells"][0]).join(" "), cell);
    let mutant = "name imitates killed_by tv_first_token tv_joint";
    assert_eq!(keys(&json["mutants"][0]).join(" "), mutant);
    assert_eq!(keys(&json["controls"][0]).join(" "), mutant);
    let fit = "method sampler K runs cells statistic critical impossible min_detectable_tv verdict";
    assert_eq!(keys(&json["fits"][0]).join(" "), fit);
}

/// Asserts that the cells cover soft distributions on chains and trees and on named and
/// random toys, among others.
fn assert_coverage(certificate: &Certificate) {
    let proofs = certificate.cells.iter().filter(|c| c.verdict == CertificateVerdict::Exact);
    let soft = proofs.clone().filter(|c| c.kind == CellKind::Soft).collect::<Vec<_>>();
    let toys = |of: &dyn Fn(&CertificateCell) -> bool| {
        soft.iter().filter(|c| of(c)).map(|c| c.toy.clone()).collect::<BTreeSet<_>>()
    };
    let trees = toys(&|c| c.drafter == "model_tree");
    assert!(["mixed", "close", "apart", "zeros"].iter().all(|toy| trees.contains(*toy)));
    assert!(toys(&|c| c.toy.starts_with("random-")).len() >= 10);
    assert!(soft.iter().any(|c| c.ends) && soft.iter().any(|c| c.k > 3));
    let prompts = soft.iter().map(|c| c.prompt).collect::<BTreeSet<_>>();
    assert!(prompts.len() >= 5, "{prompts:?}");
    // The kind of a cell follows from its distributions; for these names it is known.
    for cell in proofs {
        let kind = cell.kind;
        assert!((cell.soft >= 0.5) == (kind == CellKind::Soft), "{cell:?}");
        match (cell.drafter, cell.sampler, &*cell.toy) {
            ("none", ..) => assert_eq!(kind, CellKind::Undrafted),
            (_, "T=0" | "T=0,draft_T=1", _) if kind != CellKind::Undrafted => {
                assert_eq!(kind, CellKind::CertainTarget, "{cell:?}");
            }
            ("prompt_lookup" | "suffix_automaton" | "token_recycling" | "tree_confidence", ..) => {
                assert_ne!(kind, CellKind::Soft, "{cell:?}");
            }
            ("model", "T=1" | "penalties", "equal") => assert_eq!(kind, CellKind::Equal),
            ("model", "T=1", "disjoint") => assert_eq!(kind, CellKind::Disjoint),
            ("model", "T=1", "one_hot") => assert_eq!(kind, CellKind::CertainDraft),
            ("model", "T=1", "mixed" | "close" | "apart" | "binary") => {
                assert_eq!(kind, CellKind::Soft);
            }
            _ => {}
        }
    }
    let table = certificate.table();
    assert!(table.contains(&format!("{:6} cells exact, p and q soft", soft.len())), "{table}");
    let verdict = format!("verdict: holds; {} cells exact with p and q soft", soft.len());
    assert!(certificate.verdict().starts_with(&verdict));
}

#[test]
fn a_certificate_of_one_method_contains_only_that_method() {
    let of =
        |name: &str| CertifyOptions { methods: vec![name.to_owned()], ..CertifyOptions::default() };
    let certificate = certify(&of("strict_match+ngram"), &mut |_| {}).unwrap();
    assert!(certificate.holds());
    assert!(certificate.cells.iter().all(|c| c.method.starts_with("token_match+prompt_lookup+")));
    let error = certify(&of("rejektion"), &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("did you mean \"rejection\"?"), "{error}");
    assert!(error.contains("token_match"), "{error}");
}

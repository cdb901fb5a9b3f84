//! Every registered method has the target's distribution, by enumeration; closed forms;
//! and the enumeration is checked against whole generations.

use std::collections::BTreeSet;

use specdec::decode::{Generation, MethodSpec, StopRules};
use specdec::draft::DRAFTERS;
use specdec::exactness::{
    Certificate, CertificateCell, CertifyOptions, ChainCase, Enumeration, Gap, JointDistribution,
    Kind, Rule, Verdict, certified, certify, enumerate, replay, target_distribution,
};
use specdec::length::LENGTHS;
use specdec::model::{Toy, ToyPair, zoo};
use specdec::params::{Params, Value};
use specdec::registry::Class;
use specdec::sampling::{Sampler, SamplingParams};
use specdec::verify::VERIFIERS;

const PROMPT: &[u32] = &[0, 1, 0];

/// A toy pair with a method.
struct Setup {
    target: Toy,
    draft: Toy,
    sampler: Sampler,
    spec: MethodSpec,
}

fn setup(toy: &str, verifier: &str, drafter: &str, k: usize) -> Setup {
    let pair = zoo::toy(toy).unwrap();
    Setup {
        target: pair.target(toy).unwrap(),
        draft: pair.draft(toy).unwrap(),
        sampler: Sampler::new(SamplingParams::default()).unwrap(),
        spec: MethodSpec {
            drafter: drafter.to_owned(),
            verifier: verifier.to_owned(),
            num_speculative_tokens: k,
            ..MethodSpec::default()
        },
    }
}

/// The same with a tree of drafts.
fn tree_setup(toy: &str, verifier: &str, tree: &str, siblings: &str) -> Setup {
    let mut setup = setup(toy, verifier, "model_tree", 2);
    let text = |text: &str| Value::Text(text.to_owned());
    setup.spec.params = Params::default().with("tree", text(tree)).with("siblings", text(siblings));
    setup
}

impl Setup {
    fn generation(&self, tokens: usize) -> Generation<'_> {
        let method = self.spec.build(Some(&self.draft)).unwrap();
        Generation::new(&self.target, method, PROMPT, StopRules::max_tokens(tokens), None).unwrap()
    }

    fn walk(&self, tokens: usize) -> Enumeration {
        enumerate(&self.target, self.generation(tokens), &mut []).unwrap()
    }

    fn distribution(&self, tokens: usize) -> JointDistribution {
        target_distribution(&self.target, &self.sampler, PROMPT, tokens).unwrap()
    }

    fn chain(&self) -> ChainCase<'_> {
        ChainCase {
            target: &self.target,
            target_sampler: &self.sampler,
            draft: &self.draft,
            draft_sampler: &self.sampler,
            prompt: PROMPT,
        }
    }
}

fn near(a: f64, b: f64) {
    assert!((a - b).abs() < 1e-12, "{a} is not {b}");
}

#[test]
fn the_quick_certificate_holds_for_every_method() {
    let mut last = 0;
    let certificate = certify(&CertifyOptions::default(), &mut |p| last = p.total - p.done);
    let certificate = certificate.unwrap();
    assert!(certificate.holds(), "{}", certificate.failures().join("\n"));
    assert_eq!(last, 0, "progress ends at the end");
    for verifier in VERIFIERS {
        let of = |v: Verdict, drafter: &str, length: &str| {
            let cells = certificate.cells.iter();
            let found = |c: &&CertificateCell| {
                c.verdict == v || c.class == "P" && c.verdict == Verdict::Exact
            };
            let cells = cells.filter(|c| c.verifier == verifier.name).filter(found);
            cells.filter(|c| c.drafter.starts_with(drafter) && c.length.starts_with(length)).count()
        };
        let expected = match verifier.build.class {
            // Without two races at one position P is enumerated.
            Class::P => Verdict::Consistent,
            Class::D => Verdict::Exact,
            class => {
                assert_eq!(class, Class::X, "{}", verifier.name);
                Verdict::Measured
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
    it_says_what_it_covers(&certificate);
    // A setting that looks like a number is no reason to leave a drafter out.
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
    // What `list` says of a method is what this run says, unless it is too new.
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
    let fit = "target method sampler K runs cells statistic critical impossible \
               min_detectable_tv verdict";
    assert_eq!(keys(&json["fits"][0]).join(" "), fit);
}

/// Soft distributions on chains and trees, on named toys and random ones, and what else.
fn it_says_what_it_covers(certificate: &Certificate) {
    let proofs = certificate.cells.iter().filter(|c| c.verdict == Verdict::Exact);
    let soft = proofs.clone().filter(|c| c.kind == Kind::Soft).collect::<Vec<_>>();
    let toys = |of: &dyn Fn(&CertificateCell) -> bool| {
        soft.iter().filter(|c| of(c)).map(|c| c.toy.clone()).collect::<BTreeSet<_>>()
    };
    let trees = toys(&|c| c.drafter == "model_tree");
    assert!(["mixed", "close", "apart", "zeros"].iter().all(|toy| trees.contains(*toy)));
    assert!(toys(&|c| c.toy.starts_with("random-")).len() >= 10);
    assert!(soft.iter().any(|c| c.ends) && soft.iter().any(|c| c.k > 3));
    let prompts = soft.iter().map(|c| c.prompt).collect::<BTreeSet<_>>();
    assert!(prompts.len() >= 5, "{prompts:?}");
    // What a cell is follows from its distributions; these can be told from its name.
    for cell in proofs {
        let kind = cell.kind;
        assert!((cell.soft >= 0.5) == (kind == Kind::Soft), "{cell:?}");
        match (cell.drafter, cell.sampler, &*cell.toy) {
            ("none", ..) => assert_eq!(kind, Kind::Undrafted),
            (_, "T=0" | "T=0,draft_T=1", _) if kind != Kind::Undrafted => {
                assert_eq!(kind, Kind::CertainTarget, "{cell:?}");
            }
            ("prompt_lookup" | "suffix_automaton" | "token_recycling" | "tree_confidence", ..) => {
                assert_ne!(kind, Kind::Soft, "{cell:?}");
            }
            ("model", "T=1" | "penalties", "equal") => assert_eq!(kind, Kind::Equal),
            ("model", "T=1", "disjoint") => assert_eq!(kind, Kind::Disjoint),
            ("model", "T=1", "one_hot") => assert_eq!(kind, Kind::CertainDraft),
            ("model", "T=1", "mixed" | "close" | "apart" | "binary") => {
                assert_eq!(kind, Kind::Soft);
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
fn a_certificate_of_one_method_holds_that_method_only() {
    let of =
        |name: &str| CertifyOptions { methods: vec![name.to_owned()], ..CertifyOptions::default() };
    let certificate = certify(&of("strict_match+ngram"), &mut |_| {}).unwrap();
    assert!(certificate.holds());
    assert!(certificate.cells.iter().all(|c| c.method.starts_with("token_match+prompt_lookup+")));
    let error = certify(&of("rejektion"), &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("did you mean \"rejection\"?"), "{error}");
    assert!(error.contains("token_match"), "{error}");
}

#[test]
fn merging_equal_states_changes_nothing() {
    let cases =
        [("binary", 1, 5), ("binary", 2, 5), ("binary", 3, 5), ("close", 1, 4), ("close", 2, 4)];
    for (toy, k, tokens) in cases {
        for verifier in ["rejection", "token_match"] {
            let setup = setup(toy, verifier, "model", k);
            let merged = setup.walk(tokens);
            let whole = replay(&setup.target, &setup.generation(tokens)).unwrap();
            assert!(Gap::between(&merged.dist, &whole.dist).is_zero(), "{toy} {k} {verifier}");
        }
    }
}

#[test]
fn merging_equal_states_changes_nothing_for_trees() {
    for siblings in ["independent", "distinct", "top_k", "last_sampled", "hub"] {
        for verifier in ["rejection", "traversal"] {
            let setup = tree_setup("binary", verifier, "2,1", siblings);
            let merged = setup.walk(3);
            let whole = replay(&setup.target, &setup.generation(3)).unwrap();
            assert!(Gap::between(&merged.dist, &whole.dist).is_zero(), "{siblings} {verifier}");
            assert!(
                Gap::between(&merged.dist, &setup.distribution(3)).is_zero(),
                "{siblings} {verifier}"
            );
        }
    }
}

#[test]
fn thirds_has_its_closed_forms() {
    // p = (1/3, 2/3), q = (2/3, 1/3): alpha = 2/3.
    let one = setup("thirds", "rejection", "model", 1).walk(3);
    near(one.tally.first_accepted, 2.0 / 3.0);
    let two = setup("thirds", "rejection", "model", 2).walk(4);
    near(two.tally.first_accepted, 10.0 / 9.0);
    near(two.tally.first_emitted, 19.0 / 9.0);
    let strict = setup("thirds", "token_match", "model", 1).walk(3);
    near(strict.tally.first_accepted, 4.0 / 9.0);
    // Block verification keeps 11/9 of two tokens.
    near(setup("thirds", "traversal", "model", 1).walk(3).tally.first_accepted, 2.0 / 3.0);
    near(setup("thirds", "traversal", "model", 2).walk(4).tally.first_accepted, 11.0 / 9.0);
    // Two drafts of one token.
    let kept = |verifier, siblings| {
        tree_setup("thirds", verifier, "2", siblings).walk(3).tally.first_accepted
    };
    near(kept("rejection", "independent"), 7.0 / 9.0);
    near(kept("rejection", "distinct"), 1.0);
    // rho* = (5 + sqrt 13) / 6, b = min(2/3, 1/(3 rho)) + min(1/3, 2/(3 rho)).
    let rho = (5.0 + 13_f64.sqrt()) / 6.0;
    let b = 1.0 / (3.0 * rho) + 1.0 / 3.0;
    near(kept("k_seq", "independent"), 1.0 - (1.0 - b) * (1.0 - b));
}

#[test]
fn every_round_adds_one_token_to_the_accepted_ones() {
    for toy in zoo::TOYS {
        for (verifier, rule) in [("rejection", Rule::Rejection), ("token_match", Rule::Match)] {
            let setup = setup(toy.name, verifier, "model", 2);
            let tally = setup.walk(4).tally;
            let expected = setup.chain().expected_accepted(rule, 2).unwrap();
            near(tally.first_accepted, expected);
            near(tally.first_emitted, tally.first_accepted + 1.0);
            assert!(expected <= setup.chain().accepted_bound(2).unwrap() + 1e-12);
        }
    }
}

#[test]
fn the_bound_on_acceptance_is_that_of_the_joint_distributions() {
    // Two drafted tokens at 1/3 and 2/3: 2/3 + (1/9 + 2/9 + 2/9 + 1/9) = 12/9.
    near(setup("thirds", "rejection", "model", 2).chain().accepted_bound(2).unwrap(), 12.0 / 9.0);
    // Equal distributions: everything can be kept.
    near(setup("equal", "rejection", "model", 3).chain().accepted_bound(3).unwrap(), 3.0);
}

#[test]
fn what_cannot_happen_does_not_and_what_must_does() {
    let equal = setup("equal", "rejection", "model", 2).walk(4).tally;
    assert_eq!(equal.rejected, 0.0);
    near(equal.first_accepted, 2.0);
    let disjoint = setup("disjoint", "rejection", "model", 2).walk(4).tally;
    assert_eq!(disjoint.accepted, 0.0);
    near(disjoint.rounds, 4.0);
    let plain = setup("mixed", "rejection", "none", 2).walk(4).tally;
    assert_eq!((plain.proposed, plain.accepted, plain.rejected), (0.0, 0.0, 0.0));
    near(plain.rounds, 4.0);
    for toy in ["mixed", "close", "zeros", "binary"] {
        for drafter in ["model", "prompt_lookup"] {
            let tally = setup(toy, "rejection", drafter, 2).walk(4).tally;
            assert!(tally.proposed > 0.1, "{toy} {drafter}");
            assert!(tally.accepted > 0.1 && tally.rejected > 0.1, "{toy} {drafter}");
            assert!(tally.fallbacks < 1e-12, "{toy} {drafter}");
        }
    }
}

#[test]
fn the_target_distribution_is_a_product_of_the_tables() {
    let pair = zoo::toy("mixed").unwrap();
    let setup = setup("mixed", "rejection", "model", 1);
    let dist = setup.distribution(3);
    near(dist.values().sum(), 1.0);
    near(
        dist[&vec![2, 1, 3]],
        pair.target["1,0"][2] * pair.target["0,2"][1] * pair.target["2,1"][3],
    );
}

#[test]
fn a_gap_is_what_it_says() {
    let dist = |cells: &[(&[u32], f64)]| {
        cells.iter().map(|(text, p)| (text.to_vec(), *p)).collect::<JointDistribution>()
    };
    let target = dist(&[(&[0, 0], 0.5), (&[0, 1], 0.25), (&[1, 0], 0.25)]);
    let found = dist(&[(&[0, 0], 0.5), (&[0, 1], 0.125), (&[1, 0], 0.25), (&[1, 1], 0.125)]);
    let gap = Gap::between(&found, &target);
    near(gap.tv_joint, 0.125);
    near(gap.tv_first_token, 0.125);
    near(gap.out_of_support, 0.125);
    near(gap.max_error, 0.125);
    assert!(!gap.is_zero());
    assert!(Gap::between(&target, &target).is_zero());
    let broken = dist(&[(&[0, 0], f64::NAN)]);
    assert!(!Gap::between(&broken, &target).is_zero());
}

#[test]
fn texts_without_a_prompt_begin_with_the_shortest_contexts() {
    // Contexts that no text reaches are not asked for: after "" comes 0 or 1.
    let json = r#"{"vocab": 3, "order": 2, "prompt": [],
        "target": {"": [0.25, 0.75, 0], "0": [0, 0, 1], "1": [0.5, 0.5, 0]},
        "draft": {"": [0.5, 0.5, 0], "0": [0, 0.5, 0.5], "1": [1, 0, 0]}}"#;
    let pair = ToyPair::from_json("begin", json).unwrap().with_start();
    let (target, draft) = (pair.target("t").unwrap(), pair.draft("d").unwrap());
    let spec = MethodSpec { num_speculative_tokens: 1, ..MethodSpec::default() };
    let method = spec.build(Some(&draft)).unwrap();
    let stop = StopRules::max_tokens(2);
    let generation = Generation::new(&target, method, &pair.prompt, stop, None).unwrap();
    let found = enumerate(&target, generation, &mut []).unwrap();
    let texts = found.dist.iter().map(|(text, p)| (text.clone(), *p)).collect::<Vec<_>>();
    let expected = [(vec![0, 2], 0.25), (vec![1, 0], 0.375), (vec![1, 1], 0.375)];
    assert_eq!(texts.len(), expected.len(), "{texts:?}");
    for ((text, p), (expected_text, expected_p)) in texts.iter().zip(expected) {
        assert_eq!(*text, expected_text);
        near(*p, expected_p);
    }
    // A drafter may propose the token before the text: there it begins anew.
    assert_eq!(target.logits(&[1, 3]).unwrap(), target.logits(&[3]).unwrap());
    let missing = target.logits(&[2, 0]).unwrap_err().to_string();
    assert!(missing.contains("no distribution for context [2, 0]"), "{missing}");
}

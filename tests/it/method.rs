//! Methods by name: checks, canonical spelling, guarantee class, and the drafts that verifiers
//! support.

use std::rc::Rc;

use specdec::core::chance::Chance;
use specdec::core::distribution::Dist;
use specdec::core::params::{Params, Value};
use specdec::core::registry::{Entry, find};
use specdec::core::round::Verdict;
use specdec::core::sampling::SamplingParams;
use specdec::core::tree::{Draft, DraftShape, Siblings};
use specdec::method::decode::{Generation, MethodSpec, StopRules, class_of};
use specdec::method::draft::{DRAFTERS, Tools};
use specdec::method::length::LENGTHS;
use specdec::method::verify::{BuildVerifier, Rejection, VERIFIERS, Verifier};
use specdec::model::zoo;
use specdec::proof::enumerate;

fn spec(drafter: &str, temperature: f64) -> MethodSpec {
    MethodSpec {
        drafter: drafter.to_owned(),
        sampling: SamplingParams { temperature, ..SamplingParams::default() },
        ..MethodSpec::default()
    }
}

#[test]
fn every_registered_name_builds() {
    let draft = zoo::toy("mixed").unwrap().draft("draft").unwrap();
    for drafter in DRAFTERS {
        for verifier in VERIFIERS {
            for length in LENGTHS {
                let spec = MethodSpec {
                    verifier: verifier.name.to_owned(),
                    length: length.name.to_owned(),
                    ..spec(drafter.name, 1.0)
                };
                if spec.validate().is_ok() {
                    let tools = Tools { draft: Some(&draft), target: Some(&draft), texts: None };
                    spec.build_with(tools).unwrap();
                }
            }
        }
    }
}

#[test]
fn a_model_drafter_without_a_model_is_refused() {
    let error = spec("model", 1.0).build(None).unwrap_err().to_string();
    assert!(error.contains("needs a draft model"), "{error}");
}

#[test]
fn settings_out_of_range_are_named() {
    let refuse = |spec: MethodSpec, part: &str| {
        let error = spec.validate().unwrap_err().to_string();
        assert!(error.contains(part), "{error:?} does not say {part:?}");
        assert!(!error.contains('\n'), "{error:?} is one line");
    };
    refuse(spec("modle", 1.0), "did you mean \"model\"");
    refuse(spec("modle", 1.0), "allowed are none, model, model_tree");
    refuse(spec("model", -1.0), "temperature = -1 is out of range");
    refuse(
        MethodSpec { verifier: "rejektion".to_owned(), ..spec("model", 1.0) },
        "did you mean \"rejection\"",
    );
    refuse(MethodSpec { length: "x".to_owned(), ..spec("model", 1.0) }, "allowed are fixed");
    refuse(
        MethodSpec { num_speculative_tokens: 0, ..spec("model", 1.0) },
        "num_speculative_tokens = 0",
    );
    refuse(
        MethodSpec {
            params: Params::default().with("draft_temperature", Value::Number(f64::NAN)),
            ..spec("model", 1.0)
        },
        "draft_temperature = NaN",
    );
    refuse(
        MethodSpec {
            params: Params::default().with("prompt_lookup_min", Value::Count(4)),
            ..spec("prompt_lookup", 1.0)
        },
        "prompt_lookup_min = 4 and prompt_lookup_max = 3",
    );
    MethodSpec { num_speculative_tokens: 0, ..spec("none", 1.0) }.validate().unwrap();
}

#[test]
fn a_string_setting_may_look_like_a_number() {
    let with = |tree: Value| MethodSpec {
        params: Params::default().with("tree", tree),
        ..spec("model_tree", 1.0)
    };
    let string = with(Value::Text("2".to_owned())).canonical().unwrap();
    assert_eq!(with("2".parse().unwrap()).canonical().unwrap(), string);
}

#[test]
fn two_spellings_of_one_method_are_equal() {
    let alias = MethodSpec { verifier: "standard".to_owned(), ..spec("assistant_model", 0.5) };
    assert_eq!(alias.canonical().unwrap(), spec("model", 0.5));
    let plain = |k| MethodSpec { num_speculative_tokens: k, ..spec("plain", 0.5) };
    assert_eq!(plain(3).canonical().unwrap(), plain(8).canonical().unwrap());
    let same = MethodSpec {
        params: Params::default().with("draft_temperature", Value::Number(0.5)),
        ..spec("model", 0.5)
    };
    assert_eq!(same.canonical().unwrap(), spec("model", 0.5));
}

/// A draft setting that equals the target's, which is the default, is dropped.
#[test]
fn draft_settings_that_repeat_the_targets_are_left_out() {
    let sampling = SamplingParams { top_k: 5, top_p: 0.9, ..SamplingParams::NEUTRAL };
    let canonical = |temperature: f64, top_k: u64, top_p: f64| {
        let params = Params::default()
            .with("draft_temperature", Value::Number(temperature))
            .with("draft_top_k", Value::Count(top_k as usize))
            .with("draft_top_p", Value::Number(top_p));
        MethodSpec { sampling: sampling.clone(), params, ..spec("model", 1.0) }
            .canonical()
            .unwrap()
            .params
    };
    let with = |key, value| Params::default().with(key, value);
    assert_eq!(canonical(1.0, 5, 0.9), Params::default());
    assert_eq!(canonical(0.5, 5, 0.9), with("draft_temperature", Value::Number(0.5)));
    assert_eq!(canonical(1.0, 4, 0.9), with("draft_top_k", Value::Count(4)));
    assert_eq!(canonical(1.0, 5, 0.8), with("draft_top_p", Value::Number(0.8)));
    assert_eq!(canonical(1.0, 1, 0.9), with("draft_top_k", Value::Count(1)));
}

#[test]
fn drafters_say_whether_they_need_a_model() {
    let needs = |drafter| spec(drafter, 1.0).needs_draft_model();
    assert!(needs("model") && needs("model_tree") && needs("cascade"));
    assert!(!needs("none") && !needs("prompt_lookup") && !needs("unknown"));
}

#[test]
fn a_setting_that_no_component_reads_is_refused_by_name() {
    let params = Params::default()
        .with("draft_temperature", Value::Number(0.5))
        .with("entropy_threshold", Value::Number(0.5));
    let with = |length: &str| {
        let length = length.to_owned();
        MethodSpec { length, params: params.clone(), ..spec("model", 1.0) }.check_read()
    };
    with("entropy").unwrap();
    let refused = with("fixed").unwrap_err().to_string();
    let sentence = "entropy_threshold is not a setting of model, rejection or fixed: leave it \
                    out, or choose one of entropy";
    assert_eq!(refused, sentence);
    assert!(with("unknown").is_err());
}

#[test]
fn class_depends_on_temperature_and_engine() {
    let class = |drafter, t, invariant| class_of(&spec(drafter, t), invariant).unwrap();
    assert_eq!(class("model", 1.0, true), "D");
    assert_eq!(class("model", 1.0, false), "D");
    assert_eq!(class("model", 0.0, true), "G");
    assert_eq!(class("model", 0.0, false), "G~");
    // Plain greedy decoding is the reference for all others.
    assert_eq!(class("none", 0.0, false), "G");
}

fn made(entry: &Entry<BuildVerifier>) -> Box<dyn Verifier> {
    (entry.build.make)(&Params::default())
}

#[test]
fn drafters_declare_the_shape_of_their_drafts() {
    let shape = |drafter: &str, settings: &[(&'static str, &str)]| {
        let with =
            |params: Params, &(key, value): &(_, &str)| params.with(key, value.parse().unwrap());
        let params = settings.iter().fold(Params::default(), with);
        (find("drafter", DRAFTERS, drafter).unwrap().build.shape)(&params)
    };
    let tree = |tree, siblings| shape("model_tree", &[("tree", tree), ("siblings", siblings)]);
    let mut both = DraftShape::SAMPLED;
    both.certain = true;
    assert_eq!(tree("1,1", "independent"), Ok(DraftShape::SAMPLED));
    assert_eq!(tree("2,1", "independent"), Ok(DraftShape::SAMPLED.with(Siblings::Independent)));
    assert_eq!(tree("1,1", "distinct"), Ok(both));
    let distinct = both.with(Siblings::Distinct);
    assert_eq!(tree("1,2", "distinct"), Ok(distinct.with(Siblings::TopK)), "the greedy ones");
    assert_eq!(tree("2,2", "top_k"), Ok(DraftShape::CERTAIN.with(Siblings::TopK)));
    assert_eq!(tree("2,1", "last_sampled"), Ok(both.with(Siblings::LastSampled)));
    assert_eq!(tree("2,2", "hub"), Ok(both.with(Siblings::Hub)));
    assert!(tree("2,3", "hub").unwrap_err().to_string().contains("at most 2 children"));
    assert!(tree("64", "top_k").is_ok() && tree("8,7", "top_k").is_ok());
    assert!(
        tree("65", "top_k").unwrap_err().to_string().contains("65 nodes exceed the limit of 64")
    );
    assert!(tree("8,8", "top_k").unwrap_err().to_string().contains("72 nodes"));
    assert!(tree("2,0", "top_k").unwrap_err().to_string().contains("not a tree shape"));
    assert_eq!(shape("model", &[]), Ok(DraftShape::SAMPLED));
    assert_eq!(shape("hybrid", &[]), Ok(both));
    assert_eq!(shape("prompt_lookup", &[]), Ok(DraftShape::CERTAIN));
    let listed = DraftShape::CERTAIN.with(Siblings::TopK);
    assert_eq!(shape("token_recycling", &[("recycling_tree", "1,1")]), Ok(DraftShape::CERTAIN));
    assert_eq!(shape("token_recycling", &[("recycling_tree", "1,2")]), Ok(listed));
    let optimal = |nodes| shape("tree_optimal", &[("tree_most_nodes", nodes)]);
    assert_eq!(optimal("64"), Ok(distinct.with(Siblings::TopK)));
    let confident =
        |nodes, width| shape("tree_confidence", &[("tree_nodes", nodes), ("tree_width", width)]);
    assert_eq!(confident("32", "8"), Ok(listed));
    assert_eq!(shape("none", &[]), Ok(DraftShape::NOTHING));
}

#[test]
fn every_drafter_has_a_verifier() {
    for drafter in DRAFTERS {
        let shape = (drafter.build.shape)(&Params::default());
        // The kind of siblings in a tree depends on the verifier.
        let shape = shape.unwrap_or_else(|_| DraftShape::SAMPLED.with(Siblings::Distinct));
        assert!(VERIFIERS.iter().any(|v| made(v).supports(&shape)), "{}", drafter.name);
    }
    for verifier in VERIFIERS {
        assert!(made(verifier).supports(&DraftShape::NOTHING), "{}", verifier.name);
    }
}

#[test]
fn plain_decoding_drops_settings_of_the_draft_length() {
    let params = Params::default().with("entropy_threshold", Value::Number(0.5));
    let length = "entropy".to_owned();
    let spec = MethodSpec { drafter: "none".to_owned(), length, params, ..MethodSpec::default() };
    let plain = MethodSpec { drafter: "none".to_owned(), ..MethodSpec::default() };
    assert_eq!(spec.canonical().unwrap(), plain.canonical().unwrap());
}

#[test]
fn the_draft_models_sampling_is_checked_before_a_run() {
    let params = Params::default().with("draft_temperature", Value::Number(f64::INFINITY));
    let spec = MethodSpec { params, ..MethodSpec::default() };
    let fault = spec.validate().unwrap_err().to_string();
    assert!(fault.contains("draft_temperature = inf is out of range"), "{fault}");
}

/// Rejection, restricted to chains.
#[derive(Debug)]
struct ChainsOnly;

impl Verifier for ChainsOnly {
    fn supports(&self, shape: &DraftShape) -> bool {
        !shape.branches()
    }

    fn verify(&self, draft: &Draft, targets: &[Dist], chance: &mut dyn Chance) -> Verdict {
        Rejection.verify(draft, targets, chance)
    }
}

#[test]
fn the_walk_reports_drafts_that_the_verifier_does_not_support() {
    let pair = zoo::toy("binary").unwrap();
    let (target, draft) = (pair.target("t").unwrap(), pair.draft("d").unwrap());
    for tree in [false, true] {
        let drafter = if tree { "model_tree" } else { "model" };
        let params = Params::default().with("tree", Value::Text("2,1".to_owned()));
        let spec = MethodSpec { drafter: drafter.to_owned(), params, ..MethodSpec::default() };
        let mut method = spec.build(Some(&draft)).unwrap();
        method.verifier = Rc::new(ChainsOnly);
        let stop = StopRules::max_tokens(3);
        let generation = Generation::new(&target, method, &[0], stop, None).unwrap();
        let found = enumerate(&target, generation, &mut []).unwrap();
        assert_eq!(found.unsupported, tree);
    }
}

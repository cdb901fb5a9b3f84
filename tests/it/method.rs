//! Methods by name: checks, canonical spelling, guarantee class.

use specdec::decode::{MethodSpec, class_of};
use specdec::draft::{DRAFTERS, Tools};
use specdec::length::LENGTHS;
use specdec::model::{Role, load};
use specdec::params::{Params, Value};
use specdec::sampling::SamplingParams;
use specdec::verify::VERIFIERS;

fn spec(drafter: &str, temperature: f64) -> MethodSpec {
    MethodSpec {
        drafter: drafter.to_owned(),
        sampling: SamplingParams { temperature, ..SamplingParams::default() },
        ..MethodSpec::default()
    }
}

#[test]
fn every_registered_name_builds() {
    let draft = load("toy:mixed", Role::Draft).unwrap().model;
    for drafter in DRAFTERS {
        for verifier in VERIFIERS {
            for length in LENGTHS {
                let spec = MethodSpec {
                    verifier: verifier.name.to_owned(),
                    length: length.name.to_owned(),
                    ..spec(drafter.name, 1.0)
                };
                if spec.validate().is_ok() {
                    let tools = Tools { draft: Some(&*draft), target: Some(&*draft), texts: None };
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
fn a_text_may_look_like_a_number() {
    let with = |tree: Value| MethodSpec {
        params: Params::default().with("tree", tree),
        ..spec("model_tree", 1.0)
    };
    let text = with(Value::Text("2".to_owned())).canonical().unwrap();
    assert_eq!(with("2".parse().unwrap()).canonical().unwrap(), text);
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

#[test]
fn class_depends_on_temperature_and_engine() {
    let class = |drafter, t, invariant| class_of(&spec(drafter, t), invariant).unwrap();
    assert_eq!(class("model", 1.0, true), "D");
    assert_eq!(class("model", 1.0, false), "D");
    assert_eq!(class("model", 0.0, true), "G");
    assert_eq!(class("model", 0.0, false), "G~");
    // Plain greedy decoding is what others are compared with.
    assert_eq!(class("none", 0.0, false), "G");
}

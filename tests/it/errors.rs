//! One kind of error for each thing that a caller can do about it.

use specdec::core::error::Error;
use specdec::core::params::{Params, Value};
use specdec::core::sampling::SamplingParams;
use specdec::method::decode::{Generation, MethodSpec, StopRules};
use specdec::model::{LanguageModel, Role, ToyPair, check_pair};

fn refused(spec: MethodSpec) -> Error {
    spec.validate().unwrap_err()
}

#[test]
fn kinds_of_wrong_settings_are_told_apart() {
    let unknown = MethodSpec { verifier: "rejektion".to_owned(), ..MethodSpec::default() };
    assert!(matches!(refused(unknown), Error::Name(name) if name.name == "rejektion"));
    let sampling = SamplingParams { top_p: 1.5, ..SamplingParams::default() };
    let range = MethodSpec { sampling, ..MethodSpec::default() };
    assert!(matches!(refused(range), Error::Value(bad) if bad.key == "top_p"));
    let (drafter, verifier) = ("model_tree".to_owned(), "k_seq".to_owned());
    let params = Params::default().with("siblings", Value::Text("top_k".to_owned()));
    let pair = MethodSpec { drafter, verifier, params, ..MethodSpec::default() };
    let text = refused(pair.clone()).to_string();
    assert!(matches!(refused(pair), Error::Setting(_)), "{text}");
}

#[test]
fn a_prompt_that_a_model_cannot_take_is_input() {
    let pair = ToyPair::context_free(&[0.7, 0.3], &[0.4, 0.6]);
    let (target, draft) = (pair.target("target").unwrap(), pair.draft("draft").unwrap());
    for prompt in [&[][..], &[2]] {
        let method = MethodSpec::default().build(Some(&draft)).unwrap();
        let stop = StopRules::max_tokens(1);
        let error = Generation::new(&target, method, prompt, stop, None).unwrap_err();
        assert!(matches!(error, Error::Input(_)), "{error}");
    }
    let wide = ToyPair::context_free(&[0.5, 0.25, 0.25], &[0.5, 0.25, 0.25]);
    let (codec, own) = (pair.codec(Role::Target), wide.codec(Role::Draft));
    let wide = wide.draft("wide").unwrap();
    let error = check_pair((target.info(), &*codec), (wide.info(), &*own)).unwrap_err();
    assert!(matches!(error, Error::Input(_)), "{error}");
}

#[cfg(feature = "engine")]
#[test]
fn a_file_at_fault_is_named() {
    use specdec::checkpoint::load;
    use specdec::model::Role;
    let file = std::path::Path::new("nowhere/toy.json");
    let error = load("toy:nowhere/toy.json", Role::Target).unwrap_err();
    assert!(matches!(&error, Error::File { file: at, .. } if at == file), "{error}");
}

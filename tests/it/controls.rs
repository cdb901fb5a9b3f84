//! What requests forbid, allow or prefer, against plain definitions.

#[cfg(feature = "engine")]
mod grammars;
#[cfg(feature = "harness")]
mod runs;

use std::sync::Arc;

use proptest::prelude::*;
use specdec::core::distribution::DistError;
use specdec::core::params::{Params, Value};
use specdec::core::sampling::{
    ControlSet, Controls, Grammar, GrammarKind, History, Logits, Sampler, SamplingParams,
    TokenRules, TokenSet,
};
use specdec::method::decode::MethodSpec;

/// No token twice in a row; a completion may end with token 0 if it has tokens. Nothing follows.
#[derive(Debug)]
pub(crate) struct NoRepeat;

impl TokenRules for NoRepeat {
    fn allowed(&self, completion: &[u32]) -> Result<Option<Arc<TokenSet>>, String> {
        let broken = completion.windows(2).any(|pair| pair[0] == pair[1]);
        let ended = completion.contains(&0);
        let next = (u32::from(completion.is_empty())..40).filter(|t| completion.last() != Some(t));
        Ok((!broken && !ended).then(|| Arc::new(TokenSet::new(next))))
    }
}

fn no_repeat() -> Grammar {
    Grammar::new(GrammarKind::Regex, "no token twice".to_owned(), Arc::new(NoRepeat))
}

fn sampler(set: ControlSet, change: impl FnOnce(&mut SamplingParams)) -> Sampler {
    let mut params = SamplingParams { controls: set.into(), ..SamplingParams::default() };
    change(&mut params);
    Sampler::new(params).unwrap()
}

/// Whether a token may follow without a repetition; any may where one has been broken.
fn grammatical(completion: &[u32], token: u32) -> bool {
    let broken = completion.windows(2).any(|pair| pair[0] == pair[1]) || completion.contains(&0);
    broken || completion.last() != Some(&token) && !(completion.is_empty() && token == 0)
}

/// The logits of a row by the definitions, token by token.
fn reference(set: &ControlSet, logits: &[f64], completion: &[u32]) -> Vec<f64> {
    let possible = |token: u32| {
        let own = [completion, &[token]].concat();
        let bad = |word: &Vec<u32>| own.ends_with(word);
        let mut rest = (0..40).filter(|&next| grammatical(completion, next));
        let complete = set.grammar.is_some() && rest.all(|next| set.ends.contains(&next));
        let listed = set.allowed_token_ids.is_empty() || set.allowed_token_ids.contains(&token);
        let early = set.ends.contains(&token) && own.len() <= set.min_tokens && !complete;
        let grammar = set.grammar.is_none() || grammatical(completion, token);
        grammar && listed && !early && !set.bad_words.iter().any(bad)
    };
    let score = |(token, x): (usize, &f64)| {
        let biases = set.logit_bias.iter().filter(|(id, _)| *id as usize == token);
        let bias = biases.map(|(_, bias)| bias).sum::<f64>();
        if possible(token as u32) { x + bias } else { f64::NEG_INFINITY }
    };
    logits.iter().enumerate().map(score).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Catches: a control that reads the prompt, or the committed tokens without the drafted ones;
    /// one that counts from the draft; a bad word that forbids its first token.
    #[test]
    fn controls_match_their_definitions(
        logits in proptest::collection::vec(-3.0..3.0f64, 6),
        sequence in proptest::collection::vec(0u32..6, 1..9),
        splits in (0usize..9, 0usize..9),
        allowed in proptest::collection::btree_set(0u32..7, 0..6),
        bad_words in proptest::collection::vec(proptest::collection::vec(0u32..7, 1..4), 0..4),
        min_tokens in 0usize..7,
        ends in proptest::collection::vec(0u32..7, 0..3),
        logit_bias in proptest::collection::btree_map(0u32..8, -5.0..5.0f64, 0..4),
        grammar in any::<bool>(),
    ) {
        let mut at = [splits.0.min(sequence.len()), splits.1.min(sequence.len())];
        at.sort_unstable();
        let set = ControlSet {
            grammar: grammar.then(no_repeat),
            allowed_token_ids: allowed.into_iter().collect(),
            bad_words,
            min_tokens,
            ends,
            logit_bias: logit_bias.into_iter().collect(),
        };
        let expected = reference(&set, &logits, &sequence[at[0]..]);
        let (context, drafted) = sequence.split_at(at[1]);
        let history = History { prompt_len: at[0], context, drafted };
        let found = sampler(set, |_| ()).scores(&Logits::F64(logits), history).unwrap().into_owned();
        prop_assert_eq!(found, Logits::F64(expected));
    }
}

/// Catches: penalties before biases, which changes the sign that they look at.
#[test]
fn biases_come_before_penalties() {
    let set = ControlSet { logit_bias: vec![(0, -2.0)], ..ControlSet::default() };
    let sampler = sampler(set, |params| params.repetition_penalty = 2.0);
    let history = History { prompt_len: 1, context: &[0], drafted: &[] };
    let found = sampler.scores(&Logits::F64(vec![1.0, 1.0]), history).unwrap().into_owned();
    assert_eq!(found, Logits::F64(vec![-2.0, 1.0]));
    let stages = sampler.stages(&Logits::F64(vec![1.0, 1.0]), history).unwrap();
    let names = stages.iter().map(|stage| stage.name).collect::<Vec<_>>();
    assert_eq!(names, ["softmax", "controls", "penalties"]);
    let expected = 1.0 / (1.0 + 3.0_f64.exp());
    assert!((stages[2].dist.p(0) - expected).abs() < 1e-12);
}

#[test]
fn controls_that_leave_no_token_are_named() {
    let all = ControlSet { min_tokens: 2, ends: vec![0, 1], ..ControlSet::default() };
    let history = History { prompt_len: 1, context: &[0, 1], drafted: &[] };
    let found = sampler(all.clone(), |_| ()).distribution(&Logits::F64(vec![0.0; 2]), history);
    assert_eq!(found.unwrap_err(), DistError::NothingAllowed);
    let later = History { drafted: &[0], ..history };
    assert!(sampler(all, |_| ()).distribution(&Logits::F64(vec![0.0; 2]), later).is_ok());
}

/// Catches: controls that are lost in a file; a grammar from a file that masks nothing; keys that
/// files without controls did not have.
#[test]
fn controls_are_written_and_read() {
    let none = serde_json::to_string(&SamplingParams::default()).unwrap();
    assert!(!none.contains("controls"), "{none}");
    let set = ControlSet { logit_bias: vec![(3, -1.5)], min_tokens: 4, ..ControlSet::default() };
    let both = ControlSet { grammar: Some(no_repeat()), ..set.clone() };
    for set in [set, both] {
        let params = SamplingParams { controls: set.into(), ..SamplingParams::default() };
        let text = serde_json::to_string(&params).unwrap();
        let read = serde_json::from_str::<SamplingParams>(&text).unwrap();
        assert_eq!(read, params);
        #[cfg(feature = "harness")]
        assert_eq!(
            toml::from_str::<SamplingParams>(&toml::to_string(&read).unwrap()),
            Ok(params.clone())
        );
        let grammar = params.controls.set().unwrap().grammar.is_some();
        let refused = Sampler::new(read).map(|_| ()).map_err(|bad| bad.to_string());
        let allowed = "allowed is one that was compiled for the tokens of the target";
        assert_eq!(refused.is_err(), grammar);
        assert!(refused.err().is_none_or(|sentence| sentence.ends_with(allowed)));
    }
}

#[test]
fn controls_out_of_range_are_refused() {
    let refused = |set: ControlSet| {
        let params = SamplingParams { controls: set.into(), ..SamplingParams::default() };
        Sampler::new(params).unwrap_err().to_string()
    };
    let endless = ControlSet { logit_bias: vec![(0, f64::INFINITY)], ..ControlSet::default() };
    assert_eq!(refused(endless), "logit_bias = inf is out of range: allowed is a finite number");
    let empty = ControlSet { bad_words: vec![vec![]], ..ControlSet::default() };
    let sentence = "bad_words = [] is out of range: allowed is words of one token or more";
    assert_eq!(refused(empty), sentence);
}

/// Catches: a draft that has other controls than asked for; two spellings of one method.
#[test]
fn drafts_have_the_controls_of_the_target_or_none() {
    let set = ControlSet { min_tokens: 4, ends: vec![0], ..ControlSet::default() };
    let controlled = SamplingParams { controls: set.into(), ..SamplingParams::default() };
    let canonical = |sampling: &SamplingParams, own: usize| {
        let params = Params::default().with("draft_controls", Value::Count(own));
        let sampling = sampling.clone();
        let spec = MethodSpec { sampling, params, ..MethodSpec::default() }.canonical().unwrap();
        let own = specdec::method::draft::draft_sampling(spec.sampling, &spec.params);
        (spec.params.is_empty(), own.controls)
    };
    let none = (true, Controls::NONE);
    assert_eq!(canonical(&controlled, 1), (true, controlled.controls.clone()));
    assert_eq!(canonical(&controlled, 0), (false, Controls::NONE));
    assert_eq!(canonical(&SamplingParams::default(), 0), none);
    assert_eq!(canonical(&SamplingParams::default(), 1), none);
}

/// Catches: a drafter that knows no allowed token, such as counts of a text, ends the generation.
#[test]
fn a_draft_without_allowed_tokens_is_drawn_without_controls() {
    let set = ControlSet { allowed_token_ids: vec![0], ..ControlSet::default() };
    let sampler = sampler(set, |_| ());
    let history = History { prompt_len: 1, context: &[0], drafted: &[] };
    let counted = Logits::F64(vec![f64::NEG_INFINITY, 0.0, 3.0_f64.ln()]);
    assert_eq!(sampler.distribution(&counted, history).unwrap_err(), DistError::NothingAllowed);
    let drafted = sampler.drafting(&counted, history).unwrap();
    assert!((drafted.p(2) - 0.75).abs() < 1e-12);
    let known = Logits::F64(vec![0.0, 0.0, 0.0]);
    assert_eq!(sampler.drafting(&known, history).unwrap().p(0), 1.0);
}

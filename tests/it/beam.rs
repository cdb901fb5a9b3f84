//! Beam search on toys, compared with all possible completions.

use specdec::core::chance::{Request, Seeded};
use specdec::core::clock::RealClock;
use specdec::core::distribution::Token;
use specdec::core::params::{Params, Value};
use specdec::core::sampling::SamplingParams;
use specdec::core::tree::{Draft, Row};
use specdec::method::beam::{
    BeamResult, BeamSearch, BeamSettings, EarlyStopping, Hypothesis, NoBeamObserver,
};
use specdec::method::decode::{MethodSpec, StopReason, StopRules};
use specdec::model::{LanguageModel, Role, Toy, ToyDrafts, Want, Work, evaluate_one, zoo};

/// The toys of the searches; the last token of each is its end token.
const TOYS: [&str; 4] = ["mixed", "close", "apart", "gaps"];
const PROMPT: [Token; 2] = [0, 1];
/// The maximum number of tokens of a completion.
const MOST: usize = 4;
/// Rounding of sums of a few logarithms in f64, in another order.
const ROUNDING: f64 = 1e-12;

fn toy(name: &str, role: Role) -> Toy {
    let pair = zoo::toy(name).unwrap();
    if role == Role::Target { pair.target(name) } else { pair.draft(name) }.unwrap()
}

fn end(target: &dyn LanguageModel) -> Token {
    target.info().vocab as Token - 1
}

fn plain() -> MethodSpec {
    MethodSpec { drafter: "none".to_owned(), ..MethodSpec::default() }
}

fn search(
    (target, draft): (&Toy, &dyn LanguageModel),
    settings: BeamSettings,
    method: &MethodSpec,
) -> BeamResult {
    let stop = StopRules { eos: vec![end(target)], ..StopRules::max_tokens(MOST) };
    let search = BeamSearch { target, settings, prompt: &PROMPT, stop, codec: None };
    let mut chance = Seeded::new(Request { seed: 1, prompt: "p", repeat: 0 });
    let method = method.build(Some(draft)).unwrap();
    search.run(method, (&mut chance, &RealClock::default()), &mut NoBeamObserver).unwrap()
}

/// log p of every token after a completion, by a fresh pass.
fn log_p(target: &dyn LanguageModel, completion: &[Token]) -> Vec<f64> {
    let context = [&PROMPT, completion].concat();
    let draft = Draft::empty(target.info().vocab);
    let mut session = target.session().unwrap();
    let want = Want::Row(Row::CONTEXT);
    let work = Work { session: &mut session, context: &context, draft: &draft, want };
    let row = evaluate_one(target, work).unwrap().rows.remove(0);
    let mass = (0..row.len() as Token).map(|token| row.get(token).exp()).sum::<f64>();
    (0..row.len() as Token).map(|token| row.get(token) - mass.ln()).collect()
}

/// All finished completions, with log p.
fn all_completions(target: &dyn LanguageModel) -> Vec<(Vec<Token>, f64)> {
    let mut completions = Vec::new();
    let mut open = vec![(Vec::new(), 0.0)];
    while let Some((completion, before)) = open.pop() {
        for (token, log_p) in (0..).zip(log_p(target, &completion)) {
            let longer = ([&*completion, &[token]].concat(), before + log_p);
            match longer.1 {
                f64::NEG_INFINITY => {}
                _ if token == end(target) || longer.0.len() == MOST => completions.push(longer),
                _ => open.push(longer),
            }
        }
    }
    completions
}

fn scored(completions: &[(Vec<Token>, f64)], length_penalty: f64) -> Vec<(f64, Vec<Token>)> {
    let score = |completion: &(Vec<Token>, f64)| {
        completion.1 / (completion.0.len() as f64).powf(length_penalty)
    };
    let mut scored = completions.iter().map(|t| (score(t), t.0.clone())).collect::<Vec<_>>();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    scored
}

/// Catches: the length penalty counts twice; log p lacks the largest logit.
#[test]
fn an_exhaustive_search_finds_the_best_with_exact_scores() {
    for name in TOYS {
        let pair = [Role::Target, Role::Draft].map(|role| toy(name, role));
        let completions = all_completions(&pair[0]);
        for length_penalty in [-1.0, 0.0, 0.7, 1.0, 2.0] {
            for early_stopping in [EarlyStopping::False, EarlyStopping::Never] {
                let settings = BeamSettings {
                    num_beams: 256,
                    num_return_sequences: 10,
                    length_penalty,
                    early_stopping,
                    ..BeamSettings::default()
                };
                let found = search((&pair[0], &pair[1]), settings, &plain()).hypotheses;
                let best = scored(&completions, length_penalty);
                assert_eq!(found.len(), 10);
                for (found, best) in found.iter().zip(&best) {
                    assert!((found.score - best.0).abs() <= ROUNDING, "{name}: {found:?} {best:?}");
                    let own =
                        completions.iter().find(|completion| completion.0 == found.tokens).unwrap();
                    assert!(
                        (found.log_prob - own.1).abs() <= ROUNDING,
                        "{name}: {found:?} {own:?}"
                    );
                    let ended = found.tokens.last() == Some(&end(&pair[0]));
                    let reason = if ended { StopReason::Eos } else { StopReason::MaxTokens };
                    assert_eq!(found.reason, reason);
                }
            }
        }
    }
}

/// A single beam takes the most probable token in each step and stops at its end, for any
/// `early_stopping` and `length_penalty`.
/// Catches: one beam looks for a second completion.
#[test]
fn one_beam_is_greedy_decoding() {
    for name in TOYS {
        let pair = [Role::Target, Role::Draft].map(|role| toy(name, role));
        let mut completion = Vec::new();
        while completion.len() < MOST && completion.last() != Some(&end(&pair[0])) {
            let row = log_p(&pair[0], &completion);
            let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            completion.push(row.iter().position(|&log_p| log_p == most).unwrap() as Token);
        }
        for early_stopping in [EarlyStopping::True, EarlyStopping::False, EarlyStopping::Never] {
            for length_penalty in [-1.0, 0.0, 3.0] {
                let settings =
                    BeamSettings { early_stopping, length_penalty, ..BeamSettings::default() };
                let found = search((&pair[0], &pair[1]), settings, &plain()).hypotheses;
                assert_eq!(
                    found.iter().map(|f| &f.tokens).collect::<Vec<_>>(),
                    [&completion],
                    "{name}"
                );
            }
        }
    }
}

/// Narrow searches miss completions, but always report the right score.
/// Catches: a beam that has ended is continued; found completions are not ordered by score.
#[test]
fn every_score_is_that_of_its_tokens() {
    for name in TOYS {
        let pair = [Role::Target, Role::Draft].map(|role| toy(name, role));
        let completions = all_completions(&pair[0]);
        for num_beams in 1..=6 {
            let settings =
                BeamSettings { num_beams, num_return_sequences: num_beams, ..Default::default() };
            let found = search((&pair[0], &pair[1]), settings, &plain()).hypotheses;
            for found in &found {
                let own =
                    completions.iter().find(|completion| completion.0 == found.tokens).unwrap();
                assert!((found.log_prob - own.1).abs() <= ROUNDING, "{name}: {found:?} {own:?}");
            }
            assert!(found.is_sorted_by(|a, b| a.score >= b.score));
        }
    }
}

fn with(drafter: &str, params: &[(&str, Value)]) -> MethodSpec {
    let sampling = SamplingParams { temperature: 0.0, ..SamplingParams::default() };
    let params =
        params.iter().fold(Params::default(), |all, (key, value)| all.with(key, value.clone()));
    MethodSpec {
        drafter: drafter.to_owned(),
        num_speculative_tokens: 3,
        sampling,
        params,
        ..plain()
    }
}

/// Drafts change only the number of passes.
/// Catches: a token takes the row of another drafted token, or of the token before it; a copied
/// beam lacks the rows of its draft.
#[test]
fn a_draft_changes_no_beam_and_saves_passes() {
    let drafters = [
        with("model", &[]),
        with("model_tree", &[("tree", Value::Text("3,2,1".to_owned()))]),
        with("prompt_lookup", &[]),
        with("suffix_automaton", &[]),
        with("tree_confidence", &[]),
    ];
    let mut saved = 0;
    for name in TOYS {
        // What drafts is a model, a head, or the target's first layers.
        let target = &toy(name, Role::Target);
        let kinds = [
            ToyDrafts::Model,
            ToyDrafts::Head,
            ToyDrafts::FirstLayers,
            ToyDrafts::Block,
            ToyDrafts::Parallel,
        ];
        let drafts =
            kinds.map(|kind| zoo::toy(name).unwrap().drafting_with(kind).drafter(name).unwrap());
        for (num_beams, groups) in [(1, 1), (2, 1), (3, 1), (4, 1), (4, 2), (6, 3), (16, 1)] {
            for early_stopping in [EarlyStopping::True, EarlyStopping::False, EarlyStopping::Never]
            {
                let settings = BeamSettings {
                    num_beams,
                    num_return_sequences: num_beams,
                    num_beam_groups: groups,
                    diversity_penalty: if groups > 1 { 0.4 } else { 0.0 },
                    early_stopping,
                    length_penalty: 0.8,
                };
                let slow = search((target, &*drafts[0]), settings, &plain());
                assert_eq!(slow.totals.rows, slow.totals.target_forwards);
                let each = drafts.iter().flat_map(|draft| drafters.iter().map(move |m| (draft, m)));
                for (draft, method) in each {
                    let fast = search((target, &**draft), settings, method);
                    let what = format!("{name}, {settings:?}, {}", method.drafter);
                    assert_eq!(bits(&fast.hypotheses), bits(&slow.hypotheses), "{what}");
                    assert_eq!(fast.totals.rows, slow.totals.rows, "{what}");
                    assert!(fast.totals.target_forwards <= slow.totals.target_forwards, "{what}");
                    saved += slow.totals.target_forwards - fast.totals.target_forwards;
                }
            }
        }
    }
    assert!(saved > 1000, "{saved}");
}

fn bits(hypotheses: &[Hypothesis]) -> Vec<(&[Token], u64, u64)> {
    hypotheses.iter().map(|h| (&*h.tokens, h.log_prob.to_bits(), h.score.to_bits())).collect()
}

#[test]
fn inconsistent_settings_are_refused() {
    let refused = |settings: BeamSettings| settings.validate().unwrap_err().to_string();
    let four = BeamSettings { num_beams: 4, ..BeamSettings::default() };
    for (settings, part) in [
        (BeamSettings { num_beams: 0, ..four }, "num_beams = 0: allowed are 1 to 256"),
        (
            BeamSettings { num_return_sequences: 5, ..four },
            "num_return_sequences = 5: allowed are 1",
        ),
        (
            BeamSettings { num_beam_groups: 3, ..four },
            "num_beam_groups = 3: allowed are the divisors",
        ),
        (BeamSettings { num_beam_groups: 2, ..four }, "groups need a penalty above 0"),
        (BeamSettings { diversity_penalty: 0.5, ..four }, "the penalty needs groups"),
        (
            BeamSettings { length_penalty: f64::NAN, ..four },
            "length_penalty = NaN: allowed are finite",
        ),
    ] {
        let sentence = refused(settings);
        assert!(sentence.contains(part), "{sentence}");
    }
    four.validate().unwrap();
}

//! Beam search on the embedded pair: drafts save passes and change no bit.

use std::path::Path;

use specdec::checkpoint::load;
use specdec::core::chance::{Request, Seeded};
use specdec::core::clock::RealClock;
use specdec::core::sampling::SamplingParams;
use specdec::method::beam::{BeamSearch, BeamSettings, BeamTotals, Hypothesis, NoBeamObserver};
use specdec::method::decode::{MethodSpec, StopRules};
use specdec::model::{LanguageModel, Role};
use specdec::run::prompt::read;

/// The number of prompts, and of new tokens for each.
const PROMPTS: usize = 200;
const TOKENS: usize = 12;
/// The minimum share of passes that drafts must save.
const SAVED: f64 = 0.25;

fn search(
    [target, draft]: [&dyn LanguageModel; 2],
    prompt: &[u32],
    drafter: &str,
) -> (Vec<Hypothesis>, BeamTotals) {
    let sampling = SamplingParams { temperature: 0.0, ..SamplingParams::NEUTRAL };
    let method = MethodSpec { drafter: drafter.to_owned(), sampling, ..MethodSpec::default() };
    let settings = BeamSettings { num_beams: 4, num_return_sequences: 4, ..Default::default() };
    let stop = StopRules { eos: target.info().eos.clone(), ..StopRules::max_tokens(TOKENS) };
    let search = BeamSearch { target, settings, prompt, stop, codec: None };
    let mut chance = Seeded::new(Request { seed: 1, prompt: "p", repeat: 0 });
    let method = method.build(Some(draft)).unwrap();
    let found = search.run(method, (&mut chance, &RealClock::default()), &mut NoBeamObserver);
    let found = found.unwrap();
    (found.hypotheses, found.totals)
}

#[test]
fn a_draft_changes_no_bit_of_200_searches_and_saves_passes() {
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let prompts = read(&home.join("configs/prompts/identity.jsonl")).unwrap();
    let models = [("models/target", Role::Target), ("models/draft", Role::Draft)];
    let [target, draft] = models
        .map(|(path, role)| load(home.join(path).to_string_lossy().into_owned(), role).unwrap());
    let models = [&*target.model, &*draft.model];
    let (mut rows, mut passes) = (0, 0);
    assert!(prompts.len() >= PROMPTS);
    for question in &prompts[..PROMPTS] {
        let prompt = target.codec.encode(&question.asked.turns[0]).unwrap();
        let (plain, all) = search(models, &prompt, "none");
        let (drafted, some) = search(models, &prompt, "model");
        let bits = |found: &[Hypothesis]| {
            found.iter().map(|h| (h.tokens.clone(), h.log_prob.to_bits())).collect::<Vec<_>>()
        };
        assert_eq!(bits(&drafted), bits(&plain), "{}", question.id);
        assert_eq!((some.rows, all.rows), (all.target_forwards, all.target_forwards));
        rows += all.rows;
        passes += some.target_forwards;
    }
    let saved = 1.0 - passes as f64 / rows as f64;
    assert!(saved >= SAVED, "{passes} passes for {rows} rows");
}

//! The ends of beam searches, on toys with obvious outcomes.

use specdec::core::chance::{Request, Seeded};
use specdec::core::clock::RealClock;
use specdec::core::distribution::Token;
use specdec::method::beam::{BeamSearch, BeamSettings, EarlyStopping, Hypothesis, NoBeamObserver};
use specdec::method::decode::{MethodSpec, StopReason, StopRules};
use specdec::model::{LanguageModel, ToyPair};

/// The hypotheses of a search if the next token has these probabilities in every context.
fn found(
    probabilities: &[f64],
    (prompt, eos, max_tokens): (&[Token], &[Token], usize),
    settings: BeamSettings,
) -> Vec<Hypothesis> {
    let target = ToyPair::context_free(probabilities, probabilities).target("p").unwrap();
    let stop = StopRules { eos: eos.to_vec(), ..StopRules::max_tokens(max_tokens) };
    let search = BeamSearch { target: &target, settings, prompt, stop, codec: None };
    let plain = MethodSpec { drafter: "none".to_owned(), ..MethodSpec::default() };
    let mut chance = Seeded::new(Request { seed: 1, prompt: "p", repeat: 0 });
    let chance =
        (&mut chance as &mut dyn specdec::core::chance::Chance, &RealClock::default() as _);
    search.run(plain.build(None).unwrap(), chance, &mut NoBeamObserver).unwrap().hypotheses
}

/// With two end tokens, the four best continuations of two beams may all end. Two beams still
/// continue and find the long completion that the length penalty favours.
/// Catches: too few candidates where several tokens end a completion; a search ends although longer
/// completions could be better.
#[test]
fn beams_continue_although_all_best_continuations_end() {
    let settings = BeamSettings {
        num_beams: 2,
        length_penalty: 5.0,
        early_stopping: EarlyStopping::Never,
        ..BeamSettings::default()
    };
    let hypotheses = found(&[0.05, 0.05, 0.45, 0.45], (&[0], &[2, 3], 4), settings);
    // log 0.05³·0.45 / 4⁵ is nearer to 0 than that of any shorter completion.
    assert_eq!(hypotheses[0].tokens.len(), 4, "{hypotheses:?}");
}

/// A group compares the best continuation, finished or not, with its worst finished hypothesis. The
/// one finished in the second step is better than that of the first, so the search continues.
/// Catches: a group looks only at beams that have not ended; a search ends although a better
/// completion may follow.
#[test]
fn a_group_continues_while_its_hypotheses_improve() {
    let settings = BeamSettings {
        num_beams: 4,
        num_beam_groups: 2,
        diversity_penalty: 0.01,
        length_penalty: 2.0,
        ..BeamSettings::default()
    };
    let hypotheses = found(&[0.3, 0.1, 0.6], (&[0], &[2], 4), settings);
    assert_eq!(hypotheses[0].tokens, [0, 0, 0, 2]);
}

/// With `early_stopping`, a group is done once it has two finished hypotheses, even in the last
/// step: live beams are not finished, although [0, 0] is more probable.
/// Catches: no early end; a group that is done finishes what is left.
#[test]
fn a_group_that_is_done_drops_its_live_beams() {
    let settings = BeamSettings {
        num_beams: 4,
        num_beam_groups: 2,
        diversity_penalty: 100.0,
        early_stopping: EarlyStopping::True,
        ..BeamSettings::default()
    };
    let hypotheses = found(&[0.5, 0.1, 0.4], (&[0], &[2], 2), settings);
    assert_eq!(hypotheses[0].tokens, [0, 2]);
}

/// Catches: the prompt does not count as a part of the context.
#[test]
fn the_end_of_the_context_ends_a_beam() {
    let pair = ToyPair::context_free(&[0.6, 0.4], &[0.6, 0.4]);
    let room = pair.target("p").unwrap().info().context_length;
    let prompt = vec![0; room - 2];
    for num_beams in [1, 3] {
        let settings = BeamSettings { num_beams, ..BeamSettings::default() };
        let hypotheses = found(&[0.6, 0.4], (&prompt, &[], 10), settings);
        assert_eq!(
            (&*hypotheses[0].tokens, hypotheses[0].reason),
            (&[0, 0][..], StopReason::ContextFull)
        );
    }
}

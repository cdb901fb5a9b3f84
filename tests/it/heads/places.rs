//! The place of a loss: wrong heads on toys, as the gate and audits see them.

use specdec::audit::{
    AuditReader, AuditedHead, AuditedSequence, ReportedRound, RoundAudit, RoundVerdict,
};
use specdec::core::chance::{Request, Seeded};
use specdec::core::distribution::Token;
use specdec::core::sampling::SamplingParams;
use specdec::method::decode::{Generation, MethodSpec, StopRules, generate};
use specdec::method::draft::Tools;
use specdec::model::{HeadFault, LanguageModel, ToyDrafts, ToyPair};
use specdec::tapes::gate::{GateFinding, GateLimits, GateVerdict};
use specdec::tapes::recording::RequestRounds;
use specdec::tapes::tape::{
    AcceptanceRule, LoggedRound, LossPlace, ShareChange, ShareChanges, Teacher, early_and_late,
};

use super::history::still;
use crate::asking::spec;
use crate::audit_rounds::Counts;
use crate::tape_support::sequence_of;

const K: usize = 4;
const TOKENS: usize = 400;
const PROMPTS: Token = 24;
const PROMPT: [Token; 3] = [0, 1, 2];

/// A target and its draft, of which 99 % are accepted; a wrong toy head drafts uniformly.
fn pair() -> ToyPair {
    ToyPair::context_free(&[0.85, 0.1, 0.05], &[0.84, 0.1, 0.06])
}

fn drafter(fault: Option<HeadFault>) -> Box<dyn LanguageModel> {
    let kind = fault.map_or(ToyDrafts::Head, ToyDrafts::WrongHead);
    pair().drafting_with(kind).drafter("toy").unwrap()
}

/// The completions of a head, and the accepted tokens of their rounds.
fn completions(fault: Option<HeadFault>, seed: u64) -> Vec<(Vec<Token>, Vec<usize>)> {
    let (target, head) = (pair().target("toy").unwrap(), drafter(fault));
    let tools = Tools { draft: Some(&*head), target: Some(&target), texts: None };
    let completion = |repeat| {
        let method = spec("model", K, &[]).build_with(tools).unwrap();
        let stop = StopRules::max_tokens(TOKENS);
        let mut one = Generation::new(&target, method, &PROMPT, stop, None).unwrap();
        let mut chance = Seeded::new(Request { seed, prompt: "places", repeat });
        let mut counts = Counts::default();
        generate(&mut one, &target, &mut chance, &still(), &mut counts).unwrap();
        (one.new_tokens().to_vec(), counts.0)
    };
    (0..PROMPTS).map(completion).collect()
}

fn gated(fault: Option<HeadFault>) -> GateVerdict {
    let requests = |fault, seed| {
        let all = completions(fault, seed).into_iter().enumerate();
        let request = |(number, (tokens, accepted)): (usize, (Vec<Token>, Vec<usize>))| {
            let step = |&accepted: &usize| LoggedRound { accepted, drafted: K };
            RequestRounds {
                prompt: format!("p{number}"),
                tokens: tokens.len(),
                rounds: accepted.len() as f64,
                steps: accepted.iter().map(step).collect(),
                ordered: true,
                drafted_known: true,
                ..RequestRounds::default()
            }
        };
        all.map(request).collect::<Vec<_>>()
    };
    let limits = GateLimits { level: 0.05, max_drop: 0.01, max_rise: 0.25 };
    GateVerdict::of_requests(&[requests(None, 1), requests(fault, 2)], limits).unwrap()
}

/// What an audit with the right head shows of the rounds of one with a fault.
fn audited(fault: Option<HeadFault>) -> RoundVerdict {
    let (target, head) = (pair().target("toy").unwrap(), drafter(None));
    let tools = Tools { draft: Some(&*head), target: Some(&target), texts: None };
    let spec = MethodSpec { num_speculative_tokens: K, ..MethodSpec::default() };
    let (teacher, sampling) = (Teacher::new(&target).unwrap(), SamplingParams::NEUTRAL);
    let reader = AuditReader::new(teacher, sampling, None, &[K]).unwrap();
    let mut reader = reader.with_head(AuditedHead { spec, tools });
    reader.rounds = Some(RoundAudit::new(AcceptanceRule::Token, Some(K)));
    for (tokens, accepted) in completions(fault, 3) {
        let round =
            |&accepted: &usize| ReportedRound { tokens: accepted + 1, accepted, drafted: Some(K) };
        let rounds = accepted.iter().map(round).collect::<Vec<_>>();
        let sequence = sequence_of(&PROMPT, tokens, TOKENS);
        let rounds = Some(&rounds[..]);
        reader.read(AuditedSequence { sequence: &sequence, rounds, seed: None }).unwrap();
    }
    reader.rounds.unwrap().verdict().unwrap()
}

/// Catches: a place that another fault has; an audit that expects of a head what a draft model
/// would accept, or looks at the wrong rounds; a loss that the right head shows, too.
#[test]
fn the_place_of_a_loss_says_which_fault_a_head_may_have() {
    let places = [
        (None, None),
        (Some(HeadFault::TapEarly), Some(LossPlace::FirstToken)),
        (Some(HeadFault::DraftPositionsLate), Some(LossPlace::LaterTokens)),
        (Some(HeadFault::RejectedRowsKept), Some(LossPlace::WithLength)),
    ];
    for (fault, place) in places {
        let (gate, audit) = (gated(fault), audited(fault));
        assert_eq!(gate.finding == GateFinding::Dropped, fault.is_some(), "{gate:?}");
        assert_eq!(gate.place, place, "{fault:?}: {:?}", gate.changes);
        assert_eq!(audit.log10_e >= 3.0, fault.is_some(), "{audit:?}");
        assert_eq!(audit.place, place, "{fault:?}: {:?}", audit.changes);
        for at in audit.positions.iter().filter(|_| fault.is_none()) {
            let error = (at.reached as f64 / 4.0).sqrt();
            assert!((at.accepted as f64 - at.expected).abs() < 4.0 * error, "{audit:?}");
        }
    }
}

/// Changes by hand, with errors of 0.01.
#[test]
fn a_place_is_named_where_the_change_is_larger_than_its_error() {
    let change = |change| ShareChange { change, error: 0.01 };
    let place = |[first, later, early, late]: [f64; 4]| {
        let [first, later, early, late] = [first, later, early, late].map(change);
        ShareChanges { first, later, early, late }.place()
    };
    assert_eq!(place([-0.02, -0.02, -0.02, -0.02]), None);
    assert_eq!(place([-0.03, 0.0, -0.02, -0.02]), Some(LossPlace::FirstToken));
    assert_eq!(place([-0.02, -0.03, -0.02, -0.02]), Some(LossPlace::LaterTokens));
    assert_eq!(place([-0.03, -0.03, -0.09, -0.02]), Some(LossPlace::AfterPrompt));
    assert_eq!(place([-0.03, -0.03, -0.02, -0.09]), Some(LossPlace::WithLength));
    // A loss that is larger at one end than at the other is still everywhere.
    assert_eq!(place([-0.03, -0.03, -0.09, -0.04]), Some(LossPlace::FirstToken));
    assert_eq!(place([0.1, 0.1, 0.1, 0.1]), None);
    assert_eq!(
        [0.0, 0.124, 0.125, 0.499, 0.5].map(early_and_late),
        [[true, false], [true, false], [false, false], [false, false], [false, true],]
    );
}

//! Verdicts: against completions without speculation, of copies, and their names and bounds.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use specdec::audit::{
    AuditLimits, AuditReader, AuditVerdict, AuditedDraft, AuditedSequence, OTHER_SETTINGS,
    SequenceDists, TokenAudit,
};
use specdec::core::distribution::Dist;
use specdec::core::sampling::SamplingParams;
use specdec::model::ToyPair;
use specdec::tapes::tape::{TapeSequence, Teacher};

use crate::tape_support::sequence_of;

const LIMITS: AuditLimits = AuditLimits { level: 1e-3, tie: 1e-3 };
const P: [f64; 4] = [0.45, 0.3, 0.2, 0.05];
const Q: [f64; 4] = [0.2, 0.25, 0.15, 0.4];

fn dist(probs: &[f64]) -> Dist {
    Dist::from_probs(probs.to_vec()).unwrap()
}

/// An audit of twelve greedy completions of 64 tokens, which have tokens that are not the most
/// probable one at these places: number of the completion, position, and gap of the logits.
fn greedy(flips: &[(usize, usize, f64)]) -> TokenAudit {
    let mut audit = TokenAudit::new(&[4]);
    for number in 0..12 {
        audit.begin("p", number as u32);
        let flipped = |at| flips.iter().any(|&(own, place, _)| (own, place) == (number, at));
        let tokens = (0..64).map(|at| u32::from(flipped(at))).collect::<Vec<_>>();
        let target = vec![dist(&[1.0, 0.0]); 64];
        let dists = SequenceDists { target, raw_target: None, draft: None, raw_draft: None };
        audit.read(&tokens, dists, None).unwrap();
        audit.end();
    }
    for token in &mut audit.impossible {
        let flip = flips.iter().find(|flip| (flip.0, flip.1) == (token.sequence, token.at));
        token.gap = flip.unwrap().2;
    }
    audit
}

fn refuted(own: &[(usize, usize, f64)], plain: &[(usize, usize, f64)]) -> AuditVerdict {
    AuditVerdict::of(&greedy(own), Some(&greedy(plain)), LIMITS)
}

/// Every eighth token is wrong by this gap, as in the greedy completions of another model.
fn other_model(gap: f64) -> Vec<(usize, usize, f64)> {
    (0..96).map(|flip| (flip / 8, 3 + flip % 8 * 8, gap)).collect()
}

/// Catches: one impossible token without speculation cancels all others; plain completions with
/// many of them refute; gaps of any size count alike; the logarithm is the natural one.
#[test]
fn impossible_tokens_count_by_their_rate_without_speculation() {
    for (gap, log10_e) in [(2.0, 11.53), (f64::INFINITY, 11.53), (0.002, 13.68)] {
        let found = refuted(&other_model(2.0), &[(5, 40, gap)]);
        assert!(found.refuted && e_value_is(&found, log10_e), "{found:?}");
        assert_eq!((found.impossible, found.plain_impossible), (96, Some(1)));
    }
    let swapped = refuted(&[(5, 40, 2.0)], &other_model(2.0));
    assert!(!swapped.refuted && swapped.log10_e_impossible.unwrap() < 0.0, "{swapped:?}");
    let same = refuted(&other_model(2.0), &other_model(1.9));
    assert!(!same.refuted && same.log10_e_impossible.unwrap() < 1.0, "{same:?}");
    // As many flips, with gaps that rounding does not explain where the plain ones are small.
    let small = other_model(0.01);
    assert!(refuted(&other_model(2.0), &small).refuted && !refuted(&small, &small).refuted);
    // Without any in the plain completions, one is enough.
    let one = [(7, 9, 0.002)];
    assert!(refuted(&one, &[]).refuted && !refuted(&one, &one).refuted);
}

/// Whether the e-value against impossible tokens has these two decimals, which were computed apart
/// from the formulas of `audit/rates.rs`.
fn e_value_is(found: &AuditVerdict, log10_e: f64) -> bool {
    (found.log10_e_impossible.unwrap() - log10_e).abs() < 0.005
}

/// With e-values for bets and for impossible tokens, each has half of the level: 10^3.15 is more than
/// one over the level, and less than two.
/// Catches: each of two e-values has the whole level.
#[test]
fn bets_and_impossible_tokens_share_the_level() {
    let some = (0..11).map(|number| (number, 15, 2.0)).collect::<Vec<_>>();
    let found = refuted(&some, &[(11, 40, 2.0)]);
    assert!(!found.refuted && e_value_is(&found, 3.15), "{found:?}");
}

/// A loop repeats its tie, so its flips are no independent events.
/// Catches: all impossible tokens of a completion count.
#[test]
fn a_completion_counts_up_to_its_first_impossible_token() {
    let repeated = (8..60).map(|at| (3, at, 0.02)).collect::<Vec<_>>();
    let found = refuted(&repeated, &[(9, 30, 0.02)]);
    assert!(!found.refuted && found.log10_e_impossible.unwrap() < 1.0, "{found:?}");
}

/// Catches: the tie gap is always the stated one; one wrong token raises it.
#[test]
fn completions_without_speculation_show_the_tie_gap() {
    let own = [(0, 1, 0.015), (1, 1, 0.05)];
    let found = refuted(&own, &[(2, 5, 0.02), (2, 6, 0.03), (4, 5, 0.02), (8, 3, f64::INFINITY)]);
    assert_eq!((found.tie, found.ties, found.impossible), (0.02, 1, 1));
    assert_eq!(found.plain_impossible, Some(2));
    assert_eq!(found.first_impossible.map(|first| (first.sequence, first.gap)), Some((1, 0.05)));
    let found = refuted(&own, &[(2, 5, 7.0)]);
    assert_eq!((found.tie, found.ties, found.impossible), (LIMITS.tie, 0, 2));
}

/// Completions that were drawn from p.
fn exact(count: usize, tokens: usize) -> Vec<TapeSequence> {
    let mut rng = ChaCha8Rng::seed_from_u64(31);
    let mut token = || {
        let mut number = rng.random::<f64>();
        let drawn = P.iter().position(|p| {
            number -= p;
            number < 0.0
        });
        drawn.unwrap_or(3) as u32
    };
    (0..count).map(|_| sequence_of(&[0], (0..tokens).map(|_| token()).collect(), tokens)).collect()
}

/// An audit of sequences with these seeds.
fn seeded(sequences: &[(&TapeSequence, Option<u64>)], sampling: SamplingParams) -> TokenAudit {
    let pair = ToyPair::context_free(&P, &Q);
    let (target, draft) = (pair.target("p").unwrap(), pair.draft("q").unwrap());
    let draft = AuditedDraft { teacher: Teacher::new(&draft).unwrap(), sampling: sampling.clone() };
    let teacher = Teacher::new(&target).unwrap();
    let mut reader = AuditReader::new(teacher, sampling, Some(draft), &[4]).unwrap();
    for &(sequence, seed) in sequences {
        reader.read(AuditedSequence { sequence, rounds: None, seed }).unwrap();
    }
    reader.audit
}

/// Catches: a copy counts as another observation; completions of other seeds count as copies.
#[test]
fn copies_count_once() {
    let all = exact(4, 64);
    let copied = |times: usize, seed: fn(usize, usize) -> Option<u64>| {
        let each = (0..times).flat_map(|time| {
            all.iter().enumerate().map(move |(number, own)| (own, seed(number, time)))
        });
        let audit = seeded(&each.collect::<Vec<_>>(), SamplingParams::NEUTRAL);
        AuditVerdict::of(&audit, None, LIMITS)
    };
    let once = copied(1, |number, _| Some(number as u64));
    assert!(!once.refuted && once.copies == 0, "{once:?}");
    // With the same seed, and without seeds: a completion has a probability of about e^-77.
    let known: fn(usize, usize) -> Option<u64> = |number, _| Some(number as u64);
    let unknown: fn(usize, usize) -> Option<u64> = |_, _| None;
    for seed in [known, unknown] {
        let found = copied(200, seed);
        assert_eq!((found.sequences, found.tokens, found.copies), (4, 256, 4 * 199));
        assert_eq!((found.log10_e, found.refuted), (once.log10_e, false));
    }
    // Equal completions of other seeds are none that chance repeats.
    let found = copied(200, |number, time| Some((number + 4 * time) as u64));
    assert!(found.refuted && found.copies == 0, "{found:?}");
    // Short ones are probable enough to be drawn again, and count if no seed is known.
    let short = exact(100, 2);
    let short = short.iter().map(|own| (own, None)).collect::<Vec<_>>();
    assert_eq!(seeded(&short, SamplingParams::NEUTRAL).copies.count, 0);
}

/// Catches: the seed of a greedy completion distinguishes it; the prompt does not.
#[test]
fn at_temperature_0_the_prompt_determines_a_completion() {
    let greedy = SamplingParams { temperature: 0.0, ..SamplingParams::NEUTRAL };
    let [a, b] = [0, 1].map(|prompt| sequence_of(&[prompt], vec![0; 8], 8));
    let audit = seeded(&[(&a, Some(1)), (&a, Some(2)), (&b, Some(1)), (&a, None)], greedy);
    assert_eq!((audit.lengths, audit.copies.count), (vec![8, 8], 2));
}

/// An audit of completions that were drawn at 0.8 of the temperature; their rows alternate.
fn colder(rows: &[[f64; 4]], completions: u32) -> TokenAudit {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let mut audit = TokenAudit::new(&[4]);
    for repeat in 0..completions {
        let rows = (0..64).map(|at| rows[at % rows.len()]).collect::<Vec<_>>();
        let token = |row: &[f64; 4]| {
            let row = row.map(|p| p.powf(1.25));
            let mut number = rng.random::<f64>() * row.iter().sum::<f64>();
            (0..4).find(|&token| (number -= row[token], number < 0.0).1).unwrap_or(0) as u32
        };
        let tokens = rows.iter().map(token).collect::<Vec<_>>();
        let target = rows.iter().map(|row| dist(row)).collect();
        audit.begin("p", repeat);
        let dists = SequenceDists { target, raw_target: None, draft: None, raw_draft: None };
        audit.read(&tokens, dists, None).unwrap();
        audit.end();
    }
    audit
}

/// With two tokens, a lower temperature is a share of greedy tokens. With more, their evidence
/// differs.
/// Catches: the bug that wins most is named although others explain the completions nearly as well;
/// bets on unknown bugs do not count against a name.
#[test]
fn a_name_needs_evidence_against_all_others() {
    let names = |audit: &TokenAudit| {
        let known = audit.bets.iter().map(|bet| (bet.bug.name, bet.tokens, bet.wealth.log()));
        let learnt = audit.learnt.iter().map(|bet| (bet.bug.name, bet.tokens, bet.wealth.log()));
        let settings = [(OTHER_SETTINGS, audit.settings.tokens, audit.settings.log())];
        let mut logs =
            known.chain(settings).chain(learnt).filter(|bet| bet.1 > 0).collect::<Vec<_>>();
        logs.sort_by(|a, b| b.2.total_cmp(&a.2));
        let least = logs[0].2 + LIMITS.level.ln();
        let names = logs.iter().filter(|bet| bet.2 > least).map(|bet| bet.0).collect::<Vec<_>>();
        let found = AuditVerdict::of(audit, None, LIMITS);
        assert!(found.refuted && found.alike == names, "{names:?} {found:?}");
        assert_eq!(found.bug, (names.len() == 1).then(|| names[0]));
        names
    };
    let two = names(&colder(&[[0.8, 0.2, 0.0, 0.0]], 100));
    assert!(["argmax", "colder"].iter().all(|name| two.contains(name)), "{two:?}");
    // The grid of other settings has 0.9 and 0.7 times the temperature, a mixture of which is close.
    let names = names(&colder(&[P, Q, [0.7, 0.1, 0.1, 0.1]], 200));
    assert_eq!(names, ["colder", OTHER_SETTINGS]);
}

/// Catches: the bound on a bug holds at another level than the stated one; the detectable share is
/// that of a bet that has the whole stake.
#[test]
fn the_bound_holds_at_the_stated_level() {
    let all = exact(80, 64);
    let all = (0..).zip(&all).map(|(seed, own)| (own, Some(seed))).collect::<Vec<_>>();
    let audit = seeded(&all, SamplingParams::NEUTRAL);
    let bet = audit.bets.iter().find(|bet| bet.bug.name == "lenient").unwrap();
    let bounds = [0.5, 0.03, 1e-3, 1e-6, 1e-12].map(|level| {
        let found = AuditVerdict::of(&audit, None, AuditLimits { level, tie: 0.0 });
        let own = found.bets.iter().find(|one| one.bug == "lenient").unwrap();
        assert_eq!(own.tv_bound, bet.wealth.bound(level).map(|share| share * own.tv));
        let log = (1.0 / level).ln() + (audit.stakes() as f64).ln();
        assert_eq!(own.tv_detectable, bet.detectable(log).map(|share| share * own.tv));
        own.tv_bound.unwrap()
    });
    assert!(bounds.is_sorted() && bounds[1] < bounds[4], "{bounds:?}");
}

/// The first token may come from the prompt's pass, which no bug of rounds affects, or be drafted:
/// both are equally probable.
/// Catches: the first token is never placed from the prompt's pass.
#[test]
fn the_first_token_may_come_from_the_prompts_pass() {
    for token in 0..4_u32 {
        let [target, draft] = [P, Q].map(|probs| vec![dist(&probs)]);
        let mut audit = TokenAudit::new(&[1, 4]);
        audit.begin("p", 0);
        let dists = SequenceDists { target, raw_target: None, draft: Some(draft), raw_draft: None };
        audit.read(&[token], dists, None).unwrap();
        let bet = audit.bets.iter().find(|bet| bet.bug.name == "accepts_all").unwrap();
        // The bug's distribution is q.
        let ratio = 0.5 + 0.5 * Q[token as usize] / P[token as usize];
        let wealth = (0..28).map(|step| 1.0 + 2_f64.powf(-f64::from(step) / 3.0) * (ratio - 1.0));
        let wealth = wealth.sum::<f64>() / 28.0;
        assert!((bet.wealth.log() - wealth.ln()).abs() < 1e-12, "{}", bet.wealth.log());
    }
}

//! Audits of completions with and without bugs.

use rand::{Rng, RngExt};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use specdec::audit::{
    AuditLimits, AuditReader, AuditVerdict, AuditedDraft, AuditedSequence, Bet, ReportedRound,
    SequenceDists, TokenAudit,
};
use specdec::bugs::{BugDistribution, PositionDists, PositionMasses, audited as known_bugs};
use specdec::core::distribution::Dist;
use specdec::core::sampling::SamplingParams;
use specdec::model::ToyPair;
use specdec::tapes::tape::{TapeSequence, Teacher};

use crate::tape_support::sequence_of;

/// Distributions without context: the target's, the draft model's, and both before processors.
const DISTS: [[f64; 4]; 4] = [
    [0.45, 0.3, 0.2, 0.05],
    [0.2, 0.25, 0.15, 0.4],
    [0.35, 0.3, 0.22, 0.13],
    [0.24, 0.25, 0.22, 0.29],
];

fn dist(probs: &[f64]) -> Dist {
    Dist::from_probs(probs.to_vec()).unwrap()
}

/// The token whose interval of the cumulative distribution contains this number.
fn at(probs: &[f64], number: f64) -> usize {
    let mut left = number * probs.iter().sum::<f64>();
    let found = probs.iter().position(|mass| {
        left -= mass;
        left < 0.0
    });
    found.unwrap_or(probs.len() - 1)
}

fn draw(probs: &[f64], rng: &mut impl Rng) -> usize {
    at(probs, rng.random())
}

fn residual(p: &[f64], q: &[f64]) -> Vec<f64> {
    p.iter().zip(q).map(|(p, q)| (p - q).max(0.0)).collect()
}

fn argmax(probs: &[f64]) -> usize {
    (0..probs.len()).max_by(|&a, &b| probs[a].total_cmp(&probs[b])).unwrap()
}

/// What the bug does with one drafted token, written down as programs do it: whether it is
/// accepted, and the token.
fn decided(bug: &str, rng: &mut ChaCha8Rng) -> (bool, usize) {
    let [p, q, raw_p, raw_q] = &DISTS;
    let _ = raw_p;
    let noise = [(); 4].map(|()| -(1.0 - rng.random::<f64>()).ln());
    let race = |probs: &[f64]| {
        let at = |v: usize| if probs[v] > 0.0 { noise[v] / probs[v] } else { f64::INFINITY };
        (0..4).min_by(|&a, &b| at(a).total_cmp(&at(b))).unwrap()
    };
    let number = rng.random::<f64>();
    let drafted = match bug {
        "raw_q_drawn" => draw(raw_q, rng),
        "accept_reuses_uniform" => at(q, number),
        "greedy_draft_soft_q" => argmax(q),
        "residual_reuses_noise" => race(q),
        _ => draw(q, rng),
    };
    let ratio = match bug {
        "raw_q_verified" => p[drafted] / raw_q[drafted],
        "lenient" => 2.0 * p[drafted] / q[drafted],
        "token_match_redraws" => p[drafted],
        "accepts_all" => 1.0,
        "accept_iff_p_ge_q" => f64::from(u8::from(p[drafted] >= q[drafted])),
        "accept_iff_ratio_above_half" => f64::from(u8::from(2.0 * p[drafted] > q[drafted])),
        _ => p[drafted] / q[drafted],
    };
    if bug == "drops_low_confidence" && q[drafted] <= 0.3 {
        return (false, draw(p, rng));
    }
    let deciding = match bug {
        "accept_reuses_uniform" | "residual_reuses_uniform" => number,
        _ => rng.random(),
    };
    if deciding < ratio {
        return (true, drafted);
    }
    let token = match bug {
        "correction_from_p" | "token_match_redraws" => draw(p, rng),
        "raw_q_verified" => draw(&residual(p, raw_q), rng),
        "residual_reuses_noise" => race(&residual(p, q)),
        "residual_reuses_uniform" => at(&residual(p, q), number),
        "correction_is_argmax" => argmax(&residual(p, q)),
        _ => draw(&residual(p, q), rng),
    };
    (false, token)
}

/// The bugs whose rounds can be written down without context.
const ROUNDS: [&str; 14] = [
    "accept_iff_p_ge_q",
    "accept_iff_ratio_above_half",
    "drops_low_confidence",
    "correction_is_argmax",
    "accept_reuses_uniform",
    "residual_reuses_uniform",
    "accepts_all",
    "lenient",
    "correction_from_p",
    "greedy_draft_soft_q",
    "raw_q_verified",
    "raw_q_drawn",
    "token_match_redraws",
    "residual_reuses_noise",
];

fn dist_of(bug: &str) -> BugDistribution {
    let [p, q, raw_p, raw_q] = DISTS.map(|probs| dist(&probs));
    let dists = PositionDists {
        target: &p,
        raw_target: Some(&raw_p),
        before: None,
        draft: Some(&q),
        draft_before: None,
        raw_draft: Some(&raw_q),
    };
    let known = known_bugs().find(|known| known.name == bug).unwrap();
    known.distribution_at(&PositionMasses::of(&dists)).unwrap()
}

/// The distributions of bugs, against what programs with these bugs do.
/// Catches: noise that is used again counts as new; a residual against the wrong q; leniency that
/// accepts only what is exact; a number that accepts from 0 on the token that it drew.
#[test]
fn bugs_have_the_distributions_of_their_programs() {
    const DRAWS: u32 = 100_000;
    for bug in ROUNDS {
        let BugDistribution::Drafted { accepted, corrected } = dist_of(bug) else {
            panic!("{bug}")
        };
        let mut rng = ChaCha8Rng::seed_from_u64(11);
        let mut found = [[0.0; 4]; 2];
        for _ in 0..DRAWS {
            let (kept, token) = decided(bug, &mut rng);
            found[usize::from(!kept)][token] += 1.0 / f64::from(DRAWS);
        }
        for (found, expected) in found.iter().zip([accepted, corrected]) {
            for (found, expected) in found.iter().zip(expected) {
                // At most 0.5 / √100000 = 0.0016 at one standard error; 112 numbers are compared.
                let error = (expected * (1.0 - expected) / f64::from(DRAWS)).sqrt();
                assert!((found - expected).abs() < 5.0 * error + 1e-9, "{bug}: {found} {expected}");
            }
        }
    }
}

/// Sequences of a program with a bug, which drafts four tokens per round.
fn sequences(bug: &str, tokens: usize, seed: u64) -> Vec<TapeSequence> {
    with_rounds(bug, tokens, seed).into_iter().map(|(sequence, _)| sequence).collect()
}

/// The same with the tokens of each round; the last round may be cut.
fn with_rounds(bug: &str, tokens: usize, seed: u64) -> Vec<(TapeSequence, Vec<ReportedRound>)> {
    const K: usize = 4;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let sequence = |_| {
        let (mut completion, mut rounds) = (Vec::new(), Vec::new());
        while completion.len() < 64 {
            let begin = completion.len();
            let kept = |(kept, token): (bool, usize)| {
                completion.push(token as u32);
                kept
            };
            let whole =
                (0..K).map(|_| decided(bug, &mut rng)).map(kept).take_while(|kept| *kept).count()
                    == K;
            if whole {
                let probs = if bug == "bonus_from_draft" { &DISTS[1] } else { &DISTS[0] };
                completion.push(draw(probs, &mut rng) as u32);
            }
            let tokens = completion.len() - begin;
            rounds.push(ReportedRound { tokens, accepted: tokens - 1, drafted: Some(K) });
        }
        completion.truncate(64);
        (sequence_of(&[0], completion, 64), rounds)
    };
    (0..tokens.div_ceil(64)).map(sequence).collect()
}

/// What an audit of these sequences finds: the wealth of the split bet, the bug that wins, and the
/// number of tokens.
fn audited(sequences: &[TapeSequence], with_draft: bool) -> (f64, &'static str, usize) {
    with_bets(sequences, with_draft, |best, tokens, bets| {
        let won = |bet: &&Bet| bet.wealth.log();
        let placed = bets.iter().filter(|bet| bet.tokens > 0);
        (best, placed.max_by(|a, b| won(a).total_cmp(&won(b))).unwrap().bug.name, tokens)
    })
}

/// An audit: its best wealth, tokens and bets.
fn with_bets<T>(
    sequences: &[TapeSequence],
    with_draft: bool,
    see: impl FnOnce(f64, usize, &[Bet]) -> T,
) -> T {
    let pair = ToyPair::context_free(&DISTS[0], &DISTS[1]);
    let (target, draft) = (pair.target("p").unwrap(), pair.draft("q").unwrap());
    let sampling = SamplingParams::NEUTRAL;
    let teacher = Teacher::new(&draft).unwrap();
    let own = with_draft.then_some(AuditedDraft { teacher, sampling: SamplingParams::NEUTRAL });
    let teacher = Teacher::new(&target).unwrap();
    let mut reader = AuditReader::new(teacher, sampling, own, &[4]).unwrap();
    for (seed, sequence) in (0..).zip(sequences) {
        reader.read(AuditedSequence { sequence, rounds: None, seed: Some(seed) }).unwrap();
    }
    see(reader.audit.best, reader.audit.tokens, &reader.audit.bets)
}

/// The bugs that a pair without processors shows.
const SHOWN: [&str; 7] = [
    "accepts_all",
    "lenient",
    "correction_from_p",
    "greedy_draft_soft_q",
    "token_match_redraws",
    "residual_reuses_noise",
    "bonus_from_draft",
];

/// A bug is refuted within three times ln(number of bets / level) / KL tokens. KL per token is what
/// the bug's own bet wins in a long audit, in which it wins most.
/// Catches: a bug is expected at every token, also where its round cannot show it; a round
/// continues after a rejected token, or never ends with a bonus token.
#[test]
fn a_bug_is_refuted() {
    let refute = |bug| {
        let (log, winner, tokens) = audited(&sequences(bug, 60_000, 7), true);
        assert_eq!(winner, bug);
        let (bets, tokens) = (known_bugs().count() as f64, tokens as f64);
        let most = 3.0 * (1e3 * bets).ln() * tokens / (log + bets.ln());
        let best = |seed: u64| audited(&sequences(bug, most as usize, seed), true).0;
        let refuted = (100..120).filter(|&seed| best(seed) > 1e3_f64.ln()).count();
        assert!(refuted >= 18, "{bug}: {refuted} of 20, {most} tokens");
    };
    std::thread::scope(|scope| _ = SHOWN.map(|bug| scope.spawn(move || refute(bug))));
}

/// Exact completions are refuted no more often than the level says. `SPECDEC_EXACT_AUDITS` sets
/// another number of audits.
/// Catches: a bet that cannot lose.
#[test]
fn exact_completions_are_seldom_refuted() {
    let audits = std::env::var("SPECDEC_EXACT_AUDITS").map_or(1_000, |n| n.parse().unwrap());
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let refuted = |first: u64| {
        let own = (first..audits).step_by(threads as usize);
        let sequences = own.map(|seed| sequences("exact", 640, 10_000 + seed));
        sequences.filter(|sequences| audited(sequences, true).0 > 100_f64.ln()).count()
    };
    let refuted = std::thread::scope(|scope| {
        let parts = (0..threads).map(|first| scope.spawn(move || refuted(first)));
        let parts = parts.collect::<Vec<_>>();
        parts.into_iter().map(|part| part.join().unwrap()).sum::<usize>()
    });
    assert!(refuted < unlikely(audits, 0.01), "{refuted} of {audits}");
}

/// The smallest count that has a probability below 1e-6 among `n` with this rate.
fn unlikely(n: u64, rate: f64) -> usize {
    let mut log = n as f64 * (1.0 - rate).ln();
    let (mut below, mut count) = (log.exp(), 0);
    while 1.0 - below > 1e-6 {
        log += ((n - count) as f64 / (count + 1) as f64 * rate / (1.0 - rate)).ln();
        below += log.exp();
        count += 1;
    }
    count as usize + 1
}

/// How much of a bug is excluded, and how much of it would be detected.
/// Catches: a share is excluded by tokens that speak for it; any number of tokens notices a bug.
#[test]
fn what_is_not_there_is_bounded() {
    let bug = "correction_from_p";
    let log = (1e3 * known_bugs().count() as f64).ln();
    let of = |kind: &str, tokens: usize| {
        with_bets(&sequences(kind, tokens, 3), true, |_, _, bets| {
            let bet = bets.iter().find(|bet| bet.bug.name == bug).unwrap();
            (bet.wealth.bound(1e-3), bet.detectable(log), bet.wealth.strength())
        })
    };
    // Completions with the bug never exclude all of it, and exact ones do.
    assert_eq!(of(bug, 20_000).0, None);
    let (bound, noticed, strength) = of("exact", 20_000);
    let bound = bound.unwrap();
    assert!(bound < 0.5 && strength < bound, "{bound} {strength}");
    // 20,000 tokens are ten times what the whole bug needs, 400 a fifth of it.
    assert!(noticed.is_some_and(|noticed| (0.1..0.6).contains(&noticed)), "{noticed:?}");
    assert_eq!(of("exact", 400).1, None);
}

/// Bets that know the reported rounds win more, and win nothing from exact completions.
/// Catches: reported rounds are not used; a round never ends with a bonus token.
#[test]
fn reported_rounds_sharpen_bets() {
    let pair = ToyPair::context_free(&DISTS[0], &DISTS[1]);
    let (target, draft) = (pair.target("p").unwrap(), pair.draft("q").unwrap());
    let wealth = |kind: &str, reported: bool| {
        let sampling = SamplingParams::NEUTRAL;
        let [teacher, own] = [&target, &draft].map(|model| Teacher::new(model).unwrap());
        let own = AuditedDraft { teacher: own, sampling: sampling.clone() };
        let mut reader = AuditReader::new(teacher, sampling, Some(own), &[3, 4, 5]).unwrap();
        reader.bets_know_rounds = reported;
        for (sequence, rounds) in &with_rounds(kind, 6_000, 21) {
            reader.read(AuditedSequence { sequence, rounds: Some(rounds), seed: None }).unwrap();
        }
        let bonus = reader.audit.bets.iter().find(|bet| bet.bug.name == "bonus_from_draft");
        (bonus.unwrap().wealth.log(), reader.audit.best)
    };
    let [(hidden, _), (known, _)] = [false, true].map(|known| wealth("bonus_from_draft", known));
    assert!(known > 2.0 * hidden && hidden > 5.0, "{known} {hidden}");
    assert!(wealth("exact", true).1 < 100_f64.ln());
}

/// Without the draft model there are still bets.
#[test]
fn a_target_alone_refutes_another_distribution() {
    let exact = sequences("exact", 6_000, 5);
    assert!(audited(&exact, false).0 < 1e3_f64.ln());
    let greedy = (0..20).map(|_| sequence_of(&[0], vec![0; 64], 64)).collect::<Vec<_>>();
    let (log, winner, tokens) = audited(&greedy, false);
    assert_eq!((winner, tokens), ("argmax", 20 * 64));
    // Every token has probability 0.45: the bet on the whole bug wins 1/0.45 each time.
    assert!((log / (tokens as f64 * (1.0 / 0.45_f64).ln()) - 1.0).abs() < 0.01, "{log}");
}

/// A token that the target cannot draw is recorded, and no bet fails on it.
/// Catches: a token with p = 0 counts as possible.
#[test]
fn impossible_tokens_are_found() {
    let pair = ToyPair::context_free(&[0.5, 0.5, 0.0], &[0.3, 0.3, 0.4]);
    let target = pair.target("p").unwrap();
    let teacher = Teacher::new(&target).unwrap();
    let mut reader = AuditReader::new(teacher, SamplingParams::NEUTRAL, None, &[4]).unwrap();
    let sequence = sequence_of(&[0], vec![0, 2, 1], 3);
    reader.read(AuditedSequence { sequence: &sequence, rounds: None, seed: None }).unwrap();
    let found = reader.audit.impossible.iter().map(|found| (found.at, found.token));
    assert_eq!(found.collect::<Vec<_>>(), [(1, 2)]);
    assert_eq!(reader.audit.impossible[0].gap, f64::INFINITY);
    assert!(reader.audit.bets.iter().all(|bet| bet.wealth.log().is_finite()));
}

/// At temperature 0 a token other than the largest has the gap of their logits.
/// Catches: the gap of a token has the wrong sign.
#[test]
fn gaps_separate_ties_from_bugs() {
    let pair = ToyPair::context_free(&[0.4, 0.35, 0.25], &[0.3, 0.3, 0.4]);
    let target = pair.target("p").unwrap();
    let greedy = SamplingParams { temperature: 0.0, ..SamplingParams::NEUTRAL };
    let mut reader = AuditReader::new(Teacher::new(&target).unwrap(), greedy, None, &[4]).unwrap();
    let sequence = sequence_of(&[0], vec![0, 1, 2, 0], 4);
    reader.read(AuditedSequence { sequence: &sequence, rounds: None, seed: None }).unwrap();
    let gaps =
        reader.audit.impossible.iter().map(|found| (found.at, found.gap)).collect::<Vec<_>>();
    assert_eq!(gaps.len(), 2);
    for ((at, gap), (place, ratio)) in gaps.into_iter().zip([(1, 0.4_f64 / 0.35), (2, 0.4 / 0.25)])
    {
        assert!(at == place && (gap - ratio.ln()).abs() < 1e-6, "{at} {gap}");
    }
}

/// Given distributions are audited like those of a model, and refused if they do not fit.
#[test]
fn distributions_can_be_given() {
    let all = sequences("lenient", 6_400, 9);
    let mut given = TokenAudit::new(&[4]);
    let dists = |tokens: usize| SequenceDists {
        target: vec![dist(&DISTS[0]); tokens],
        raw_target: None,
        draft: Some(vec![dist(&DISTS[1]); tokens]),
        raw_draft: None,
    };
    for sequence in &all {
        given.begin(&sequence.prompt, sequence.repeat);
        // In two parts, as a model reads sequences that are longer than a pass.
        let (first, rest) = sequence.tokens.split_at(20);
        given.read(first, dists(first.len()), None).unwrap();
        given.read(rest, dists(rest.len()), None).unwrap();
        given.end();
    }
    let best = with_bets(&all, true, |best, _, _| best);
    assert!((given.best - best).abs() < 1e-9 && best > 5.0, "{} {best}", given.best);
    let verdict = AuditVerdict::of(&given, None, AuditLimits { level: 1e-2, tie: 0.0 });
    assert_eq!((verdict.refuted, verdict.alike.first()), (true, Some(&"lenient")));
    let mut refused = |part: &[u32], dists| given.read(part, dists, None).unwrap_err().to_string();
    assert_eq!(refused(&[0, 1], dists(3)), "3 target distributions for 2 tokens");
    assert_eq!(refused(&[4], dists(1)), "token 4 lies outside the vocabulary of 4 tokens");
    let other = SequenceDists { draft: Some(vec![dist(&[0.5, 0.5])]), ..dists(1) };
    assert_eq!(refused(&[0], other), "a draft distribution has 2 tokens and not 4");
}

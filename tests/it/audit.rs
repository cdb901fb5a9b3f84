//! Audits of texts with and without bugs.

use rand::{Rng, RngExt};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use specdec::audit::{
    AuditLimits, AuditReader, AuditVerdict, AuditedDraft, AuditedText, BUGS, Bet, BugLaw,
    PlaceLaws, PlaceMasses, TextLaws, TokenAudit, ToldRound,
};
use specdec::distribution::Dist;
use specdec::model::ToyPair;
use specdec::sampling::SamplingParams;
use specdec::tape::{TapeText, Teacher};

use crate::tape_support::text_of;

/// Laws without context: the target's, the draft model's, and both before processors.
const LAWS: [[f64; 4]; 4] = [
    [0.45, 0.3, 0.2, 0.05],
    [0.2, 0.25, 0.15, 0.4],
    [0.35, 0.3, 0.22, 0.13],
    [0.24, 0.25, 0.22, 0.29],
];

fn dist(probs: &[f64]) -> Dist {
    Dist::from_probs(probs.to_vec()).unwrap()
}

/// The token whose interval of the cumulative law has this number.
fn at(law: &[f64], number: f64) -> usize {
    let mut left = number * law.iter().sum::<f64>();
    let found = law.iter().position(|mass| {
        left -= mass;
        left < 0.0
    });
    found.unwrap_or(law.len() - 1)
}

fn draw(law: &[f64], rng: &mut impl Rng) -> usize {
    at(law, rng.random())
}

fn residual(p: &[f64], q: &[f64]) -> Vec<f64> {
    p.iter().zip(q).map(|(p, q)| (p - q).max(0.0)).collect()
}

fn argmax(law: &[f64]) -> usize {
    (0..law.len()).max_by(|&a, &b| law[a].total_cmp(&law[b])).unwrap()
}

/// What the bug does with one drafted token, written down as programs do it: whether it is
/// accepted, and the token.
fn decided(bug: &str, rng: &mut ChaCha8Rng) -> (bool, usize) {
    let [p, q, raw_p, raw_q] = &LAWS;
    let _ = raw_p;
    let noise = [(); 4].map(|()| -(1.0 - rng.random::<f64>()).ln());
    let race = |law: &[f64]| {
        let at = |v: usize| if law[v] > 0.0 { noise[v] / law[v] } else { f64::INFINITY };
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
        "match_then_target" => p[drafted],
        "accepts_all" => 1.0,
        "accepts_where_p_exceeds_q" => f64::from(u8::from(p[drafted] >= q[drafted])),
        "accepts_above_half" => f64::from(u8::from(2.0 * p[drafted] > q[drafted])),
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
        "correction_from_target" | "match_then_target" => draw(p, rng),
        "raw_q_verified" => draw(&residual(p, raw_q), rng),
        "residual_reuses_noise" => race(&residual(p, q)),
        "residual_reuses_uniform" => at(&residual(p, q), number),
        "correction_is_argmax" => argmax(&residual(p, q)),
        _ => draw(&residual(p, q), rng),
    };
    (false, token)
}

/// The bugs whose rounds can be written down without context, beside exact ones.
const ROUNDS: [&str; 14] = [
    "accepts_where_p_exceeds_q",
    "accepts_above_half",
    "drops_low_confidence",
    "correction_is_argmax",
    "accept_reuses_uniform",
    "residual_reuses_uniform",
    "accepts_all",
    "lenient",
    "correction_from_target",
    "greedy_draft_soft_q",
    "raw_q_verified",
    "raw_q_drawn",
    "match_then_target",
    "residual_reuses_noise",
];

fn law_of(bug: &str) -> BugLaw {
    let [p, q, raw_p, raw_q] = LAWS.map(|law| dist(&law));
    let laws = PlaceLaws {
        target: &p,
        raw_target: Some(&raw_p),
        before: None,
        draft: Some(&q),
        draft_before: None,
        raw_draft: Some(&raw_q),
    };
    (BUGS.iter().find(|known| known.name == bug).unwrap().law)(&PlaceMasses::of(&laws)).unwrap()
}

/// The laws of bugs, against what programs with these bugs do.
/// Catches: noise that is used again counts as new; a residual against the wrong q; leniency that
/// accepts only what is exact; a number that accepts from 0 on the token that it drew.
#[test]
fn bugs_have_the_laws_of_their_programs() {
    const DRAWS: u32 = 100_000;
    for bug in ROUNDS {
        let BugLaw::Drafted { accepted, corrected } = law_of(bug) else { panic!("{bug}") };
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

/// Texts of a program with a bug, which drafts four tokens per round.
fn texts(bug: &str, tokens: usize, seed: u64) -> Vec<TapeText> {
    texts_and_rounds(bug, tokens, seed).into_iter().map(|(text, _)| text).collect()
}

/// The same with the tokens of each round, of which the last may be cut.
fn texts_and_rounds(bug: &str, tokens: usize, seed: u64) -> Vec<(TapeText, Vec<ToldRound>)> {
    const K: usize = 4;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let text = |_| {
        let (mut text, mut rounds) = (Vec::new(), Vec::new());
        while text.len() < 64 {
            let begin = text.len();
            let kept = |(kept, token): (bool, usize)| {
                text.push(token as u32);
                kept
            };
            let whole =
                (0..K).map(|_| decided(bug, &mut rng)).map(kept).take_while(|kept| *kept).count()
                    == K;
            if whole {
                let law = if bug == "bonus_from_draft" { &LAWS[1] } else { &LAWS[0] };
                text.push(draw(law, &mut rng) as u32);
            }
            let tokens = text.len() - begin;
            rounds.push(ToldRound { tokens, accepted: tokens - 1, drafted: Some(K) });
        }
        text.truncate(64);
        (text_of(&[0], text, 64), rounds)
    };
    (0..tokens.div_ceil(64)).map(text).collect()
}

/// What an audit of these texts finds, text by text: the wealth of the divided bet, and the bug
/// that wins.
fn audited(texts: &[TapeText], with_draft: bool) -> (f64, &'static str, usize) {
    with_bets(texts, with_draft, |best, tokens, bets| {
        let won = |bet: &&Bet| bet.wealth.log();
        let placed = bets.iter().filter(|bet| bet.tokens > 0);
        (best, placed.max_by(|a, b| won(a).total_cmp(&won(b))).unwrap().bug.name, tokens)
    })
}

/// An audit: its best wealth, tokens and bets.
fn with_bets<T>(
    texts: &[TapeText],
    with_draft: bool,
    see: impl FnOnce(f64, usize, &[Bet]) -> T,
) -> T {
    let pair = ToyPair::context_free(&LAWS[0], &LAWS[1]);
    let (target, draft) = (pair.target("p").unwrap(), pair.draft("q").unwrap());
    let sampling = SamplingParams::NEUTRAL;
    let own = with_draft.then(|| AuditedDraft { teacher: Teacher::new(&draft).unwrap(), sampling });
    let teacher = Teacher::new(&target).unwrap();
    let mut reader = AuditReader::new(teacher, sampling, own, &[4]).unwrap();
    texts.iter().for_each(|text| reader.read(AuditedText { text, rounds: None }).unwrap());
    see(reader.audit.best, reader.audit.tokens, &reader.audit.bets)
}

/// The bugs that a pair without processors shows.
const SHOWN: [&str; 7] = [
    "accepts_all",
    "lenient",
    "correction_from_target",
    "greedy_draft_soft_q",
    "match_then_target",
    "residual_reuses_noise",
    "bonus_from_draft",
];

/// A bug is refuted within three times ln(number of bets / level) / KL tokens, where KL per token
/// is what the bug's own bet wins in a long text, which names it.
/// Catches: a bug is expected at every token, also where its round cannot show it; a round
/// continues after a rejected token, or never ends with a bonus token.
#[test]
fn a_bug_is_refuted() {
    const AUDITS: u64 = 20;
    for bug in SHOWN {
        let (log, winner, tokens) = audited(&texts(bug, 60_000, 7), true);
        let own = log + (BUGS.len() as f64).ln();
        assert_eq!(winner, bug);
        let most = 3.0 * (1e3 * BUGS.len() as f64).ln() / (own / tokens as f64);
        let refutes =
            |seed: &u64| audited(&texts(bug, most as usize, 100 + seed), true).0 > 1e3_f64.ln();
        let refuted = (0..AUDITS).filter(refutes).count() as u64;
        assert!(refuted >= AUDITS * 9 / 10, "{bug}: {refuted} of {AUDITS}, {most} tokens");
    }
}

/// Exact texts are refuted at a level no more often than it says. `SPECDEC_EXACT_AUDITS` asks for
/// more of them.
/// Catches: a bet that cannot lose.
#[test]
fn exact_texts_are_seldom_refuted() {
    let audits = std::env::var("SPECDEC_EXACT_AUDITS").ok().and_then(|n| n.parse().ok());
    let audits = audits.unwrap_or(1_000);
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let refuted = |first: u64| {
        let own = (first..audits).step_by(threads as usize);
        let texts = own.map(|seed| texts("exact", 640, 10_000 + seed));
        texts.filter(|texts| audited(texts, true).0 > 100_f64.ln()).count()
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

/// How much of a bug is excluded, and how much of it would be noticed.
/// Catches: a share is excluded by tokens that speak for it; any number of tokens notices a bug.
#[test]
fn what_is_not_there_is_bounded() {
    let bug = "correction_from_target";
    let log = (1e3 * BUGS.len() as f64).ln();
    let of = |kind: &str, tokens: usize| {
        with_bets(&texts(kind, tokens, 3), true, |_, _, bets| {
            let bet = bets.iter().find(|bet| bet.bug.name == bug).unwrap();
            (bet.wealth.bound(1e-3), bet.detectable(log), bet.wealth.strength())
        })
    };
    // Texts with the bug never exclude all of it, and exact ones do.
    assert_eq!(of(bug, 20_000).0, None);
    let (bound, noticed, strength) = of("exact", 20_000);
    let bound = bound.unwrap();
    assert!(bound < 0.5 && strength < bound, "{bound} {strength}");
    // 20,000 tokens are ten times what the whole bug takes, 400 a fifth of it.
    assert!(noticed.is_some_and(|noticed| (0.1..0.6).contains(&noticed)), "{noticed:?}");
    assert_eq!(of("exact", 400).1, None);
}

/// Bets that know the rounds win more, and exact texts win them nothing.
/// Catches: reported rounds are not used; a round never ends with a bonus token.
#[test]
fn told_rounds_sharpen_bets() {
    let pair = ToyPair::context_free(&LAWS[0], &LAWS[1]);
    let (target, draft) = (pair.target("p").unwrap(), pair.draft("q").unwrap());
    let wealth = |kind: &str, told: bool| {
        let sampling = SamplingParams::NEUTRAL;
        let own = AuditedDraft { teacher: Teacher::new(&draft).unwrap(), sampling };
        let teacher = Teacher::new(&target).unwrap();
        let mut reader = AuditReader::new(teacher, sampling, Some(own), &[3, 4, 5]).unwrap();
        reader.bets_know_rounds = told;
        for (text, rounds) in &texts_and_rounds(kind, 6_000, 21) {
            reader.read(AuditedText { text, rounds: Some(rounds) }).unwrap();
        }
        let bonus = reader.audit.bets.iter().find(|bet| bet.bug.name == "bonus_from_draft");
        (bonus.unwrap().wealth.log(), reader.audit.best)
    };
    let [(hidden, _), (told, _)] = [false, true].map(|told| wealth("bonus_from_draft", told));
    assert!(told > 2.0 * hidden && hidden > 5.0, "{told} {hidden}");
    assert!(wealth("exact", true).1 < 100_f64.ln());
}

/// Without the draft model there are bets all the same.
#[test]
fn a_target_alone_refutes_what_is_no_law_of_its_own() {
    let exact = texts("exact", 6_000, 5);
    assert!(audited(&exact, false).0 < 1e3_f64.ln());
    let greedy = (0..20).map(|_| text_of(&[0], vec![0; 64], 64)).collect::<Vec<_>>();
    let (log, winner, tokens) = audited(&greedy, false);
    assert_eq!((winner, tokens), ("argmax", 20 * 64));
    // Every token has probability 0.45: the bet on the whole bug wins 1/0.45 each time.
    assert!((log / (tokens as f64 * (1.0 / 0.45_f64).ln()) - 1.0).abs() < 0.01, "{log}");
}

/// A token that the target cannot draw is kept in mind, and no bet fails over it.
/// Catches: a token with p = 0 counts as possible.
#[test]
fn impossible_tokens_are_found() {
    let pair = ToyPair::context_free(&[0.5, 0.5, 0.0], &[0.3, 0.3, 0.4]);
    let target = pair.target("p").unwrap();
    let teacher = Teacher::new(&target).unwrap();
    let mut reader = AuditReader::new(teacher, SamplingParams::NEUTRAL, None, &[4]).unwrap();
    let text = text_of(&[0], vec![0, 2, 1], 3);
    reader.read(AuditedText { text: &text, rounds: None }).unwrap();
    let found = reader.audit.impossible.iter().map(|found| (found.at, found.token));
    assert_eq!(found.collect::<Vec<_>>(), [(1, 2)]);
    assert_eq!(reader.audit.impossible[0].gap, f64::INFINITY);
    assert!(reader.audit.bets.iter().all(|bet| bet.wealth.log().is_finite()));
}

/// At temperature 0 a token other than the largest has the gap of their logits.
/// Catches: the gap of a token has the wrong sign.
#[test]
fn gaps_tell_ties_from_bugs() {
    let pair = ToyPair::context_free(&[0.4, 0.35, 0.25], &[0.3, 0.3, 0.4]);
    let target = pair.target("p").unwrap();
    let greedy = SamplingParams { temperature: 0.0, ..SamplingParams::NEUTRAL };
    let mut reader = AuditReader::new(Teacher::new(&target).unwrap(), greedy, None, &[4]).unwrap();
    let text = text_of(&[0], vec![0, 1, 2, 0], 4);
    reader.read(AuditedText { text: &text, rounds: None }).unwrap();
    let gaps =
        reader.audit.impossible.iter().map(|found| (found.at, found.gap)).collect::<Vec<_>>();
    assert_eq!(gaps.len(), 2);
    for ((at, gap), (place, ratio)) in gaps.into_iter().zip([(1, 0.4_f64 / 0.35), (2, 0.4 / 0.25)])
    {
        assert!(at == place && (gap - ratio.ln()).abs() < 1e-6, "{at} {gap}");
    }
}

/// Laws that are given are those that a model tells, and laws that do not fit are refused.
#[test]
fn laws_can_be_given() {
    let all = texts("lenient", 6_400, 9);
    let mut given = TokenAudit::new(&[4]);
    let laws = |tokens: usize| TextLaws {
        target: vec![dist(&LAWS[0]); tokens],
        raw_target: None,
        draft: Some(vec![dist(&LAWS[1]); tokens]),
        raw_draft: None,
    };
    for text in &all {
        given.begin(&text.prompt, text.repeat);
        // In two parts, as a model reads texts that are longer than a pass.
        let (first, rest) = text.tokens.split_at(20);
        given.read(first, laws(first.len()), None).unwrap();
        given.read(rest, laws(rest.len()), None).unwrap();
        given.end();
    }
    let best = with_bets(&all, true, |best, _, _| best);
    assert!((given.best - best).abs() < 1e-9 && best > 5.0, "{} {best}", given.best);
    let verdict = AuditVerdict::of(&given, None, AuditLimits { level: 1e-2, tie: 0.0 });
    assert_eq!((verdict.refuted, verdict.bug), (true, Some("lenient")));
    let mut refused = |part: &[u32], laws| given.read(part, laws, None).unwrap_err().to_string();
    assert_eq!(refused(&[0, 1], laws(3)), "3 target laws for 2 tokens");
    assert_eq!(refused(&[4], laws(1)), "token 4 is none of 4 tokens");
    let other = TextLaws { draft: Some(vec![dist(&[0.5, 0.5])]), ..laws(1) };
    assert_eq!(refused(&[0], other), "a draft law has 2 tokens and not 4");
}

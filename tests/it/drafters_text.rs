//! Drafters that use the sequence so far: lookups, copies, stored successors and counts.

use std::collections::BTreeMap;

use specdec::core::distribution::Token;
use specdec::core::error::Error;
use specdec::core::sampling::Logits;
use specdec::core::tree::Draft;
use specdec::method::draft::{Texts, Tools};
use specdec::model::Letters;

use crate::asking::{Asking, FinishedRound, spec};
use crate::fixtures::{near, outcomes, random_sequence, seeded};

/// The k tokens of a copy from `next` on; beyond the end of the sequence the copy continues
/// with its own tokens.
fn copied(sequence: &[Token], next: usize, k: usize) -> Vec<Token> {
    let mut sequence = sequence.to_vec();
    let end = sequence.len();
    (next..next + k).for_each(|at| sequence.push(sequence[at]));
    sequence.split_off(end)
}

/// The earlier positions of the last n tokens, in ascending order.
fn earlier(sequence: &[Token], n: usize) -> Vec<usize> {
    let key = &sequence[sequence.len() - n..];
    (0..sequence.len() - n).filter(|&at| &sequence[at..at + n] == key).collect()
}

/// No draft.
const NOTHING: [Token; 0] = [];

fn model_free_drafter(name: &str, k: usize, settings: &[(&str, &str)]) -> Asking<'static> {
    Asking::new(&spec(name, k, settings), Tools::default(), 9, &[])
}

#[test]
fn prompt_lookup_continues_the_configured_occurrence() {
    let sequence = [1, 2, 3, 4, 0, 1, 2, 5, 6, 0, 7, 1, 2];
    let tokens = |settings: &[(&str, &str)]| {
        model_free_drafter("prompt_lookup", 2, settings).tokens(&sequence)
    };
    assert_eq!(tokens(&[]), [5, 6], "the most recent occurrence by default");
    assert_eq!(tokens(&[("prompt_lookup_match", "recent")]), [5, 6]);
    assert_eq!(tokens(&[("prompt_lookup_match", "leftmost")]), [3, 4]);
    // A longer match takes precedence over a more recent one.
    let sequence = [8, 1, 2, 3, 0, 5, 2, 4, 0, 8, 1, 2];
    let tokens = |max, min| {
        let settings = [("prompt_lookup_max", max), ("prompt_lookup_min", min)];
        model_free_drafter("prompt_lookup", 1, &settings).tokens(&sequence)
    };
    assert_eq!((tokens("3", "1"), tokens("2", "1"), tokens("1", "1")), (vec![3], vec![3], vec![4]));
    assert_eq!(tokens("5", "4"), NOTHING, "no four tokens occur twice");
    assert_eq!(model_free_drafter("prompt_lookup", 2, &[]).tokens(&[1, 2, 3]), NOTHING, "no match");
    assert_eq!(model_free_drafter("prompt_lookup", 5, &[]).tokens(&[1, 2, 1]), [2, 1, 2, 1, 2]);
}

#[test]
fn prompt_lookup_agrees_with_a_brute_force_search() {
    let mut rng = seeded(21);
    for (max, min) in [(1, 1), (2, 2), (3, 1), (5, 3)] {
        for leftmost in [false, true] {
            let which = if leftmost { "leftmost" } else { "recent" };
            let (most, least) = (max.to_string(), min.to_string());
            let settings = [
                ("prompt_lookup_max", &*most),
                ("prompt_lookup_min", &*least),
                ("prompt_lookup_match", which),
            ];
            let mut drafter = model_free_drafter("prompt_lookup", 4, &settings);
            for length in 1..40 {
                let sequence = random_sequence(3, length, &mut rng);
                let found = (min..=max.min(length)).rev().find_map(|n| {
                    let places = earlier(&sequence, n);
                    let at = if leftmost { places.first() } else { places.last() };
                    at.map(|at| copied(&sequence, at + n, 4))
                });
                assert_eq!(drafter.tokens(&sequence), found.unwrap_or_default(), "{sequence:?}");
            }
        }
    }
}

#[test]
fn copied_drafts_respect_the_limit_of_the_round() {
    for name in ["prompt_lookup", "suffix_automaton"] {
        let mut drafter = model_free_drafter(name, 6, &[("suffix_min", "1")]);
        let sequence = [1, 2, 3, 4, 1, 2];
        assert_eq!(drafter.tokens(&sequence).len(), 6);
        let mut draws = crate::asking::seeded_draws(0);
        assert_eq!(drafter.ask_within(&sequence, 2, &mut draws).len(), 2);
        assert_eq!(drafter.ask_within(&sequence, 0, &mut draws).len(), 0);
        assert_eq!(drafter.passes, 0);
    }
}

#[test]
fn suffix_automaton_continues_the_longest_repeated_suffix() {
    let mut rng = seeded(22);
    let mut lengths = BTreeMap::new();
    for least in 1..=3 {
        for _ in 0..20 {
            let sequence = random_sequence(3, 60, &mut rng);
            let least_set = least.to_string();
            let mut drafter =
                model_free_drafter("suffix_automaton", 4, &[("suffix_min", &*least_set)]);
            // The sequence grows by one to three tokens per round.
            let mut end = 1;
            while end <= sequence.len() {
                let sequence = &sequence[..end];
                let longest =
                    (0..end).rev().find(|&n| !earlier(sequence, n).is_empty()).unwrap_or(0);
                let found = (longest >= least)
                    .then(|| copied(sequence, earlier(sequence, longest)[0] + longest, 4));
                assert_eq!(
                    drafter.tokens(sequence),
                    found.unwrap_or_default(),
                    "{least} {sequence:?}"
                );
                *lengths.entry(longest).or_insert(0) += 1;
                end += 1 + end % 3;
            }
        }
    }
    assert!(lengths.keys().max() >= Some(&5) && lengths.len() >= 6, "{lengths:?}");
}

#[test]
fn suffix_automaton_drafts_only_repetitions() {
    let mut drafter = model_free_drafter("suffix_automaton", 5, &[]);
    assert_eq!(drafter.tokens(&[1, 2, 3]), NOTHING, "the suffix itself does not count");
    assert_eq!(drafter.tokens(&[1, 2, 3, 1]), NOTHING, "one token is less than suffix_min");
    assert_eq!(drafter.tokens(&[1, 2, 3, 1, 2]), [3, 1, 2, 3, 1]);
    assert_eq!(drafter.tokens(&[1, 2, 3, 1, 2, 0]), NOTHING);
}

/// Logits that rank these tokens first, in this order.
fn preferring(best: &[Token]) -> Logits {
    let rank = |token: &Token| best.iter().position(|other| other == token);
    Logits::F64((0..9).map(|token| rank(&token).map_or(-9.0, |at| -(at as f64))).collect())
}

/// The tokens on the way to every node.
fn paths(draft: &Draft) -> Vec<Vec<Token>> {
    (0..draft.len()).map(|id| draft.tokens_to(id)).collect()
}

#[test]
fn token_recycling_also_learns_from_rejected_tokens() {
    let recycling = spec("token_recycling", 4, &[("recycling_tree", "2,1")]);
    let mut drafter = Asking::new(&recycling, Tools::default(), 9, &[0, 1, 3, 1, 2]);
    let draws = &mut crate::asking::seeded_draws(0);
    // At first the last successors in the prompt count: 1 is followed by 2, and 0 by 1.
    assert_eq!(paths(&drafter.ask(&[0, 1, 3, 1, 2, 0], draws)), [vec![1], vec![1, 2]]);
    let mut draft = Draft::empty(9);
    let three = draft.certain(None, 3);
    let four = draft.certain(None, 4);
    draft.certain(Some(three), 5);
    let logits = [&[6, 7, 8], &[5, 0, 1], &[2, 3, 8], &[7, 1, 0]].map(|best| preferring(best));
    let (context, none_kept) = ([0, 1], []);
    let round = FinishedRound {
        context: &context,
        logits: &logits,
        ..FinishedRound::new(&draft, &none_kept)
    };
    let before = drafter.key(&context);
    drafter.report(&round);
    assert_ne!(drafter.key(&context), before, "the key must depend on more than the tokens");
    let mut ask = |last: Token| paths(&drafter.ask(&[0, last], draws));
    // Row 0 belongs to the last token of the context and row i to node i − 1, whether the
    // node was kept or not.
    assert_eq!(ask(1), [vec![6], vec![7]]);
    assert_eq!(ask(4), [vec![2], vec![3], vec![3, 5]]);
    assert_eq!(ask(3), [vec![5], vec![0], vec![5, 7], vec![0, 1]]);
    assert_eq!(ask(8), Vec::<Vec<Token>>::new(), "nothing is known about 8");
    // New preferences replace the old ones.
    let logits = [&[8, 6][..], &[4, 1], &[2, 3], &[1, 7]].map(preferring);
    drafter.report(&FinishedRound { logits: &logits, path: &[four], ..round });
    assert_eq!(paths(&drafter.ask(&[0, 3], draws)), [vec![4], vec![1], vec![4, 2], vec![1, 8]]);
}

#[test]
fn token_recycling_grows_its_tree_level_by_level() {
    for (k, levels) in [(4, [2, 4, 4, 0]), (2, [2, 4, 0, 0])] {
        let recycling = spec("token_recycling", k, &[("recycling_tree", "2,2,1")]);
        let mut drafter = Asking::new(&recycling, Tools::default(), 9, &[0]);
        let mut draft = Draft::empty(9);
        (1..9).for_each(|token| _ = draft.certain(None, token));
        let logits = (0..9).map(|token| preferring(&[(token + 1) % 9, (token + 2) % 9]));
        let logits = logits.collect::<Vec<_>>();
        drafter.report(&FinishedRound { logits: &logits, ..FinishedRound::new(&draft, &[]) });
        let draft = drafter.ask(&[0], &mut crate::asking::seeded_draws(0));
        let depths = (1..=4).map(|depth| draft.nodes().iter().filter(|n| n.depth == depth).count());
        assert_eq!(depths.collect::<Vec<_>>(), levels);
        assert_eq!(draft.tokens_to(5), [2, 4]);
    }
}

/// The distribution of the first token that an n-gram model drafts after `sequence`.
fn first_distribution(drafter: &mut Asking<'_>, sequence: &[Token], vocab: usize) -> Vec<f64> {
    let draft = drafter.ask(sequence, &mut crate::asking::seeded_draws(0));
    let dist = draft.nodes().first().map(|node| node.distribution(vocab));
    dist.map_or_else(Vec::new, |dist| (0..vocab as Token).map(|token| dist.p(token)).collect())
}

fn assert_distribution(found: &[f64], counts: &[f64]) {
    assert_eq!(found.len(), counts.len(), "{found:?}");
    let total = counts.iter().sum::<f64>();
    found.iter().zip(counts).for_each(|(&p, count)| near(p, count / total));
}

#[test]
fn ngram_distributions_follow_the_longest_known_context() {
    let ngram = |order: &str, sequence: &[Token]| {
        let spec = spec("ngram_lm", 3, &[("ngram_order", order)]);
        let mut drafter = Asking::new(&spec, Tools::default(), 4, sequence);
        first_distribution(&mut drafter, sequence, 4)
    };
    // In a b a c a b a, a is followed twice by b and once by c, and b a once by c.
    let sequence = [0, 1, 0, 2, 0, 1, 0];
    assert_distribution(&ngram("1", &sequence), &[4.0, 2.0, 1.0, 0.0]);
    assert_distribution(&ngram("2", &sequence), &[0.0, 2.0, 1.0, 0.0]);
    assert_distribution(&ngram("3", &sequence), &[0.0, 0.0, 1.0, 0.0]);
    // a b a has not occurred before, so that its shorter suffixes decide.
    assert_distribution(&ngram("4", &sequence), &[0.0, 0.0, 1.0, 0.0]);
    // d has no successor, so that counts of single tokens decide.
    assert_distribution(&ngram("3", &[0, 1, 0, 3]), &[2.0, 1.0, 0.0, 1.0]);
}

#[test]
fn ngram_drafts_condition_on_their_tokens_and_are_sampled() {
    let spec = spec("ngram_lm", 2, &[("draft_temperature", "0.5")]);
    let sequence = [0, 1, 0, 2, 0, 1, 0];
    let mut drafter = Asking::new(&spec, Tools::default(), 4, &sequence);
    let drafts = outcomes(|chance| drafter.ask(&sequence, chance).tokens_to(1));
    // Squared counts give odds of 4 to 1; b and c are always followed by a.
    let dist = drafts.into_iter().collect::<BTreeMap<_, _>>();
    assert_eq!(dist.keys().collect::<Vec<_>>(), [&[1, 0], &[2, 0]]);
    near(dist[&vec![1, 0]], 0.8);
}

#[test]
fn ngrams_learn_every_committed_token_once() {
    let mut rng = seeded(23);
    let sequence = random_sequence(3, 40, &mut rng);
    let spec = spec("ngram_lm", 2, &[("ngram_order", "3")]);
    let mut follows = Asking::new(&spec, Tools::default(), 3, &sequence[..5]);
    let mut end = 5;
    while end <= sequence.len() {
        let mut fresh = Asking::new(&spec, Tools::default(), 3, &sequence[..end]);
        let dists = [&mut follows, &mut fresh]
            .map(|drafter| first_distribution(drafter, &sequence[..end], 3));
        assert_eq!(dists[0], dists[1], "after {end} tokens");
        end += 1 + end % 3;
    }
}

#[test]
fn ngrams_of_a_file_ignore_generated_tokens() {
    let letters = Letters { vocab: 4 };
    let texts = Texts::new(&letters, |file| match file.to_str() {
        Some("counted") => Ok("abacab".to_owned()),
        Some("empty") => Ok(String::new()),
        Some("odd") => Ok("abz".to_owned()),
        _ => Err(Error::file(file, "no such file")),
    });
    let tools = Tools { texts: Some(&texts), ..Tools::default() };
    let settings = |file: &str| spec("ngram_lm", 1, &[("ngram_text", file)]);
    let counted = settings("counted");
    // In the generated tokens, a is followed by d.
    let sequence = [0, 3, 0, 3, 0];
    let mut drafter = Asking::new(&counted, tools, 4, &sequence);
    assert_distribution(&first_distribution(&mut drafter, &sequence, 4), &[0.0, 2.0, 1.0, 0.0]);
    assert_distribution(&first_distribution(&mut drafter, &[0, 3], 4), &[3.0, 2.0, 1.0, 0.0]);
    let mut drafter = Asking::new(&settings("empty"), tools, 4, &sequence);
    assert_eq!(
        first_distribution(&mut drafter, &sequence, 4),
        [0.0; 0],
        "nothing is known, so nothing is drafted"
    );
    let refusal = |spec: &specdec::method::decode::MethodSpec, tools| {
        spec.build_with(tools).unwrap_err().to_string()
    };
    assert!(refusal(&settings("no such file"), tools).contains("cannot be read: no such file"));
    assert!(refusal(&settings("odd"), tools).contains("not 'z'"));
    assert!(refusal(&counted, Tools::default()).contains("no tokenizer"));
}

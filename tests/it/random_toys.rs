//! Random toy pairs: reproducible, valid, and of all intended kinds.

use std::collections::BTreeSet;

use specdec::model::{LanguageModel, ToyPair, zoo};

fn pairs() -> impl Iterator<Item = ToyPair> {
    (0..240).map(zoo::random)
}

/// The overlap of p and q, on average over contexts.
fn overlap(pair: &ToyPair) -> f64 {
    let of = |(context, p): (&String, &Vec<f64>)| {
        p.iter().zip(&pair.draft[context]).map(|(p, q)| p.min(*q)).sum::<f64>()
    };
    pair.target.iter().map(of).sum::<f64>() / pair.target.len() as f64
}

#[test]
fn a_random_pair_depends_on_its_number_alone() {
    assert_eq!(zoo::toy("random-17").unwrap(), zoo::random(17));
    assert_ne!(zoo::random(17), zoo::random(18));
    let pair = zoo::random(0);
    let dist = &pair.target[""];
    // Published certificates name pairs by number, so their distributions never change.
    let known = (pair.vocab, pair.order, &pair.prompt[..], &pair.eos[..], dist[0]);
    assert_eq!(known, (3, 1, &[1, 1, 0, 0, 1, 1, 2, 1][..], &[][..], 0.015007438153692973));
}

#[test]
fn random_pairs_are_valid_models_of_every_intended_kind() {
    let (mut vocabs, mut orders, mut prompts) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for pair in pairs() {
        let (target, draft) = (pair.target("t").unwrap(), pair.draft("d").unwrap());
        assert_eq!(target.info().vocab, draft.info().vocab);
        assert!(pair.prompt.iter().chain(&pair.eos).all(|&t| (t as usize) < pair.vocab));
        vocabs.insert(pair.vocab);
        orders.insert(pair.order);
        prompts.insert(pair.prompt.len());
    }
    assert_eq!(vocabs, [2, 3, 4].into());
    assert_eq!(orders, [1, 2].into());
    assert_eq!(prompts, [1, 2, 3, 5, 8, 17].into());
    let share = |of: fn(&ToyPair) -> bool| pairs().filter(of).count() as f64 / 240.0;
    // Shares of 240 random choices: four standard deviations around the intended share.
    assert!((share(|pair| !pair.eos.is_empty()) - 0.5).abs() < 0.13);
    let gaps = |pair: &ToyPair| pair.target.values().flatten().any(|p| *p == 0.0);
    assert!((share(gaps) - 1.0 / 3.0).abs() < 0.13);
    assert!(share(|pair| overlap(pair) < 0.7) > 0.15 && share(|pair| overlap(pair) > 0.9) > 0.2);
}

//! A draft model gets the same penalties as the target, and drafted tokens before a node count like
//! committed ones. The output is exact for any q, so that only q itself shows a mistake.

use specdec::core::sampling::SamplingParams;
use specdec::core::tree::{Draft, NodeId};
use specdec::method::decode::MethodSpec;
use specdec::method::draft::Tools;
use specdec::model::{Toy, ToyPair};

use crate::asking::{Asking, seeded_draws, spec};
use crate::fixtures::{markov, near, positive_table, seeded};

const VOCAB: usize = 4;
const PROMPT: &[u32] = &[0, 3];
const CONTEXT: &[u32] = &[0, 3, 1];
const PENALISED: SamplingParams = SamplingParams {
    repetition_penalty: 1.7,
    presence_penalty: 0.4,
    frequency_penalty: 0.3,
    ..SamplingParams::NEUTRAL
};

/// The penalised distribution after the context and some drafted tokens. Logits of toys are
/// log-probabilities, so that a repetition penalty r turns q into q^r.
fn penalised(table: &[Vec<f64>], drafted: &[u32]) -> Vec<f64> {
    let sequence = [CONTEXT, drafted].concat();
    let last = sequence[sequence.len() - 1] as usize;
    let weights = (0..VOCAB as u32).map(|token| {
        let count = |sequence: &[u32]| sequence.iter().filter(|&&t| t == token).count() as i32;
        let new = count(&sequence[PROMPT.len()..]);
        let q = table[last][token as usize];
        let q = if count(&sequence) > 0 { q.powf(1.7) } else { q };
        q * f64::exp(-0.3 * f64::from(new) - if new > 0 { 0.4 } else { 0.0 })
    });
    let weights = weights.collect::<Vec<_>>();
    let mass = weights.iter().sum::<f64>();
    weights.into_iter().map(|w| w / mass).collect()
}

fn asked(toy: &Toy, drafter: &str, sampling: SamplingParams, seed: u64) -> Draft {
    let settings = [("tree", "2,2"), ("siblings", "independent"), ("tree_nodes", "6")];
    let read = |key: &str| match drafter {
        "model_tree" => key != "tree_nodes",
        "tree_confidence" => key == "tree_nodes",
        _ => false,
    };
    let settings = settings.into_iter().filter(|(key, _)| read(key)).collect::<Vec<_>>();
    let spec = MethodSpec { sampling, ..spec(drafter, 3, &settings) };
    let tools = Tools { draft: Some(toy), ..Tools::default() };
    Asking::new(&spec, tools, VOCAB, PROMPT).ask(CONTEXT, &mut seeded_draws(seed))
}

fn before(draft: &Draft, id: NodeId) -> Vec<u32> {
    draft.node(id).parent.map_or_else(Vec::new, |parent| draft.tokens_to(parent))
}

fn toy(table: &[Vec<f64>]) -> Toy {
    let pair: ToyPair = markov(table, table);
    pair.draft("draft").unwrap()
}

#[test]
fn drawn_tokens_have_the_penalised_distribution() {
    let table = positive_table(VOCAB, &mut seeded(71));
    let toy = toy(&table);
    for drafter in ["model", "model_tree", "cascade"] {
        for seed in 0..8 {
            let draft = asked(&toy, drafter, PENALISED, seed);
            assert!(draft.depth() >= 2, "{drafter}");
            for id in 0..draft.len() {
                let dist = penalised(&table, &before(&draft, id));
                (0..).zip(dist).for_each(|(token, q)| near(draft.node(id).q(token), q));
            }
        }
    }
}

#[test]
fn greedy_drafts_believe_the_penalised_distribution() {
    let table = positive_table(VOCAB, &mut seeded(72));
    let toy = toy(&table);
    let greedy = SamplingParams { temperature: 0.0, ..PENALISED };
    for drafter in ["model_tree", "tree_confidence"] {
        let draft = asked(&toy, drafter, greedy.clone(), 0);
        assert!(draft.depth() >= 2, "{drafter}");
        for id in 0..draft.len() {
            let (dist, belief) =
                (penalised(&table, &before(&draft, id)), draft.node(id).belief(VOCAB));
            (0..).zip(dist).for_each(|(token, q)| near(belief.p(token), q));
        }
    }
}

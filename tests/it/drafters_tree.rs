//! Drafters whose trees depend on confidence or on earlier rounds.

use std::collections::BTreeMap;
use std::time::Duration;

use specdec::core::distribution::Token;
use specdec::core::round::RoundTimes;
use specdec::core::tree::{Draft, NodeId};
use specdec::method::draft::Tools;
use specdec::model::Toy;

use crate::asking::{Asking, FinishedRound, seeded_draws, spec};
use crate::fixtures::{markov, near, positive_table, seeded};

fn asking<'a>(drafter: &str, k: usize, settings: &[(&str, &str)], model: &'a Toy) -> Asking<'a> {
    let tools = Tools { draft: Some(model), ..Tools::default() };
    Asking::new(&spec(drafter, k, settings), tools, model.logits(&[0]).unwrap().len(), &[0])
}

/// Paths of tokens after the context, each with the product of its probabilities.
type Grown = BTreeMap<Vec<Token>, f64>;

/// EAGLE-2's expansion and reranking: level by level the `width` most probable children of
/// the `width` best nodes, and finally the best `nodes` of all.
fn grown(q: &[Vec<f64>], last: usize, k: usize, nodes: usize, width: usize) -> Grown {
    let best = |all: Grown, count: usize| {
        let mut ranked = all.into_iter().collect::<Vec<_>>();
        ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
        ranked.into_iter().take(count).collect::<Grown>()
    };
    let mut level = Grown::from([(Vec::new(), 1.0)]);
    let mut all = Grown::new();
    for _ in 0..k {
        let mut next = Grown::new();
        for (path, value) in &level {
            let dist = &q[path.last().map_or(last, |&token| token as usize)];
            let children = dist.iter().enumerate().map(|(token, p)| (vec![token as Token], *p));
            for (token, p) in best(children.collect(), width) {
                next.insert([&path[..], &token].concat(), value * p);
            }
        }
        all.extend(next.clone());
        level = best(next, width);
    }
    best(all, nodes)
}

#[test]
fn a_confidence_tree_holds_the_best_nodes_of_the_expansion() {
    let mut rng = seeded(41);
    let sizes = [("1", "1", 3), ("4", "2", 3), ("8", "3", 4), ("16", "3", 4), ("32", "4", 3)];
    for case in 0..60 {
        let q = positive_table(5, &mut rng);
        let toy = markov(&q, &q).draft("d").unwrap();
        let (nodes, width, k) = sizes[case % sizes.len()];
        let settings = [("tree_nodes", nodes), ("tree_width", width)];
        let mut drafter = asking("tree_confidence", k, &settings, &toy);
        let draft = drafter.ask(&[0, 3], &mut seeded_draws(0));
        let found = (0..draft.len()).map(|id| draft.tokens_to(id)).collect::<Vec<_>>();
        let expected = grown(&q, 3, k, nodes.parse().unwrap(), width.parse().unwrap());
        assert_eq!(found.len(), expected.len());
        assert!(found.iter().all(|path| expected.contains_key(path)), "{found:?} {expected:?}");
        // One pass per level that may contain one of the best nodes.
        assert!((draft.depth()..=k).contains(&drafter.passes));
        assert!(!draft.shape().sampled, "the most probable nodes are not random");
    }
}

#[test]
fn a_confidence_tree_is_deep_if_q_is_peaked_and_wide_if_flat() {
    let hot = |token: usize| (0..4).map(|t| if t == token { 0.97 } else { 0.01 }).collect();
    let unsure = vec![0.26, 0.25, 0.25, 0.24];
    let q: Vec<Vec<f64>> = vec![unsure, hot(2), hot(3), hot(1)];
    let toy = markov(&q, &q).draft("d").unwrap();
    let settings = [("tree_nodes", "4"), ("tree_width", "4")];
    let mut drafter = asking("tree_confidence", 4, &settings, &toy);
    let mut tokens = |last| {
        let draft = drafter.ask(&[last], &mut seeded_draws(0));
        (0..draft.len()).map(|id| draft.tokens_to(id)).collect::<Vec<_>>()
    };
    assert_eq!(tokens(1), [vec![2], vec![2, 3], vec![2, 3, 1], vec![2, 3, 1, 2]]);
    // The child c of b has the value 0.25 × 0.97, more than the 0.24 of d.
    assert_eq!(tokens(0), [vec![0], vec![1], vec![2], vec![1, 2]]);
}

/// Seconds of passes, as reported to the drafter.
#[derive(Debug, Clone, Copy)]
struct Costs {
    target: f64,
    row: f64,
    draft: f64,
}

/// The number of rounds, out of 100, in which each of four siblings is kept, by rank.
type Kept = [usize; 4];

/// Number of reported rounds; the prior belief has the weight of four of them.
const ROUNDS: usize = 20_000;

fn seconds(s: f64) -> Duration {
    Duration::from_secs_f64(s)
}

/// Reports rounds that keep each rank as often as in `kept`. Some have four more rows, which shows
/// the cost of a row.
fn teach(drafter: &mut Asking<'_>, kept: Kept, costs: Costs) {
    let mut small = Draft::empty(6);
    (0..4).for_each(|token| _ = small.certain(None, token));
    let mut large = small.clone();
    let mut parent: NodeId = 3;
    (0..4).for_each(|token| parent = large.certain(Some(parent), token));
    let none = kept.iter().sum::<usize>();
    for round in 0..ROUNDS {
        // 61 and 100 have no common factor, so that each number occurs equally often.
        let number = round * 61 % 100;
        let rank = (0..4).find(|&rank| number < kept[..=rank].iter().sum());
        // Rank 3 has children in the large draft. That draft is reported only in rounds that keep
        // nothing, so that no decision on these children is observed.
        let draft = if number >= none && round % 2 == 0 { &large } else { &small };
        let rows = draft.len() as f64 + 1.0;
        let path = rank.into_iter().collect::<Vec<_>>();
        let times = RoundTimes {
            draft: seconds(costs.draft * 2.0),
            target: seconds(costs.target + costs.row * rows),
            ..RoundTimes::default()
        };
        drafter.report(&FinishedRound {
            draft_forwards: 2,
            times,
            ..FinishedRound::new(draft, &path)
        });
    }
}

/// Sequoia's dynamic program: the largest expected number of kept tokens of `nodes` nodes
/// below one node, in at most `depth` levels and among siblings from `rank` on.
#[derive(Default)]
struct Sharing(BTreeMap<(usize, usize, usize), f64>);

impl Sharing {
    fn best(&mut self, by_rank: &[f64], nodes: usize, rank: usize, depth: usize) -> f64 {
        if nodes == 0 || depth == 0 || rank == by_rank.len() {
            return 0.0;
        }
        if let Some(&known) = self.0.get(&(nodes, rank, depth)) {
            return known;
        }
        let mut best = 0.0_f64;
        for own in 1..=nodes {
            let child = by_rank[rank] * (1.0 + self.best(by_rank, own - 1, 0, depth - 1));
            best = best.max(child + self.best(by_rank, nodes - own, rank + 1, depth));
        }
        self.0.insert((nodes, rank, depth), best);
        best
    }
}

/// Tokens per second with a tree of which `accepted` tokens are kept on average.
fn rate(accepted: f64, nodes: usize, depth: usize, costs: Costs) -> f64 {
    let time = costs.target + costs.row * (nodes as f64 + 1.0) + costs.draft * depth as f64;
    (1.0 + accepted) / time
}

/// The expected number of kept tokens of a tree: sums of products of rank probabilities.
fn yields(draft: &Draft, by_rank: &[f64]) -> f64 {
    let mut values = Vec::<f64>::new();
    for (id, node) in draft.nodes().iter().enumerate() {
        let rank = draft.children(node.parent).take_while(|&other| other != id).count();
        values.push(by_rank[rank] * node.parent.map_or(1.0, |parent| values[parent]));
    }
    values.into_iter().sum()
}

/// The tree that is proposed after rounds with these results and costs.
fn taught(kept: Kept, costs: Costs, most: usize, limit: usize) -> Draft {
    let q = positive_table(6, &mut seeded(42));
    let toy = markov(&q, &q).draft("d").unwrap();
    let most = most.to_string();
    let mut drafter = asking("tree_optimal", 99, &[("tree_most_nodes", &*most)], &toy);
    teach(&mut drafter, kept, costs);
    drafter.ask_within(&[0], limit, &mut seeded_draws(1))
}

const CHEAP: Costs = Costs { target: 1.0, row: 0.01, draft: 0.05 };

#[test]
fn the_optimal_tree_equals_sequoias_dynamic_program() {
    let kept = [[60, 20, 10, 5], [90, 5, 2, 1], [40, 30, 15, 10], [25, 25, 25, 20], [10, 5, 3, 1]];
    let costly_rows = Costs { row: 0.08, ..CHEAP };
    let costly_drafts = Costs { draft: 0.4, ..CHEAP };
    for kept in kept {
        let by_rank = kept.map(|count| count as f64 / 100.0);
        for costs in [CHEAP, costly_rows, costly_drafts] {
            for (most, limit) in [(24, 6), (7, 3), (24, 1)] {
                let mut sharing = Sharing::default();
                let best =
                    (1..=most).flat_map(|nodes| (1..=limit).map(move |depth| (nodes, depth)));
                let best = best.map(|(nodes, depth)| {
                    rate(sharing.best(&by_rank, nodes, 0, depth), nodes, depth, costs)
                });
                let best = best.fold(0.0, f64::max);
                let tree = taught(kept, costs, most, limit);
                assert!(tree.len() <= most && tree.depth() <= limit);
                let found = rate(yields(&tree, &by_rank), tree.len(), tree.depth(), costs);
                // The prior belief moves probabilities by 4 / 20000, and thereby the rate by
                // less than a thousandth.
                assert!(found <= best + 1e-12 && found >= best * 0.999, "{kept:?} {costs:?}");
            }
        }
    }
}

#[test]
fn the_optimal_tree_samples_each_node_from_the_draft_model() {
    let q = positive_table(6, &mut seeded(43));
    let toy = markov(&q, &q).draft("d").unwrap();
    let mut drafter = asking("tree_optimal", 99, &[("tree_most_nodes", "24")], &toy);
    teach(&mut drafter, [40, 30, 15, 10], CHEAP);
    for seed in 0..20 {
        let draft = drafter.ask_within(&[0], 4, &mut seeded_draws(seed));
        assert!(draft.depth() > 2 && draft.children(None).count() > 1);
        for at in std::iter::once(None).chain((0..draft.len()).map(Some)) {
            // Only the first child is drawn from all of q; later ones from the rest.
            let Some(first) = draft.children(at).next() else { continue };
            let last = at.map_or(0, |id| draft.node(id).token as usize);
            let dist = draft.node(first).distribution(draft.vocab());
            (0..6).for_each(|token| near(dist.p(token), q[last][token as usize]));
        }
    }
}

#[test]
fn the_optimal_tree_adapts_to_acceptance_and_costs() {
    let children = |tree: &Draft| tree.children(None).count();
    let sure = taught([98, 1, 0, 0], CHEAP, 16, 12);
    assert!(children(&sure) == 1 && sure.depth() == sure.len() && sure.depth() >= 8, "a chain");
    let even = taught([25, 25, 25, 20], CHEAP, 16, 12);
    assert_eq!(children(&even), 4);
    let hopeless = taught([0, 0, 0, 0], CHEAP, 16, 12);
    assert_eq!(hopeless.len(), 1, "no draft pays, so the smallest one is proposed");
    let [cheap, rows, drafts] = [CHEAP, Costs { row: 0.1, ..CHEAP }, Costs { draft: 0.5, ..CHEAP }]
        .map(|costs| taught([60, 20, 10, 5], costs, 24, 8));
    assert!(rows.len() < cheap.len(), "fewer nodes where rows cost more");
    assert!(drafts.depth() < cheap.depth(), "fewer levels where draft passes cost more");
}

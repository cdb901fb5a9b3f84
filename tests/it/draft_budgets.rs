//! Requests that share rounds and a budget of drafted tokens: their completions are independent,
//! and known-wrong ways to share are refuted.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future;
use std::ops::Range;
use std::rc::Rc;
use std::task::Poll;

use specdec::core::chance::{Chance, Site};
use specdec::core::distribution::{Dist, Token};
use specdec::core::error::Error;
use specdec::core::sampling::Sampler;
use specdec::core::tree::Draft;
use specdec::method::decode::{Generation, MethodSpec, StopRules};
use specdec::method::draft::{Drafter, Pausing, Round};
use specdec::method::length::{BatchView, LENGTHS, PastAcceptance, SequencePast};
use specdec::model::{Toy, ToyPair};
use specdec::proof::{
    RequestChance, SharedEnumeration, TOLERANCE, WalkedChance, drawn_apart, enumerate_together,
    product, target_distribution,
};

use crate::asking::spec;
use crate::fixtures::{markov, positive_table, seeded};
use crate::lengths::policy;

/// Two requests of a pair.
struct Two {
    pair: ToyPair,
    prompts: [Vec<Token>; 2],
    tokens: [usize; 2],
}

type Joint = BTreeMap<Vec<Vec<Token>>, f64>;

impl Two {
    fn target(&self) -> Toy {
        self.pair.target("target").unwrap()
    }

    /// The completions by definition.
    fn expected(&self) -> Joint {
        let sampler = Sampler::new(MethodSpec::default().sampling).unwrap();
        let completions = self.prompts.iter().zip(self.tokens).map(|(prompt, tokens)| {
            target_distribution(&self.target(), &sampler, prompt, tokens).unwrap()
        });
        product(&completions.collect::<Vec<_>>())
    }

    /// The completions of a method whose drafters may be replaced.
    fn found(
        &self,
        spec: &MethodSpec,
        chance: RequestChance<'_>,
        wrap: impl for<'a> Fn(usize, Box<dyn Drafter<'a> + 'a>) -> Box<dyn Drafter<'a> + 'a>,
    ) -> SharedEnumeration {
        let (target, draft) = (self.target(), self.pair.draft("draft").unwrap());
        let requests = self.prompts.iter().zip(self.tokens).enumerate();
        let generations = requests.map(|(number, (prompt, tokens))| {
            let mut method = spec.build(Some(&draft)).unwrap();
            method.drafter = wrap(number, method.drafter);
            Generation::new(&target, method, prompt, StopRules::max_tokens(tokens), None).unwrap()
        });
        enumerate_together(&target, generations.collect(), chance).unwrap()
    }
}

/// Total variation between two joint distributions.
fn tv(found: &Joint, expected: &Joint) -> f64 {
    let of = |dist: &Joint, completions| dist.get(completions).copied().unwrap_or(0.0);
    let all =
        found.keys().chain(expected.keys().filter(|completions| !found.contains_key(*completions)));
    0.5 * all
        .map(|completions| (of(found, completions) - of(expected, completions)).abs())
        .sum::<f64>()
}

/// The distribution of the completion of one request.
fn alone(joint: &Joint, number: usize) -> Joint {
    let mut alone = Joint::new();
    for (completions, mass) in joint {
        *alone.entry(vec![completions[number].clone()]).or_default() += mass;
    }
    alone
}

fn random_pair(seed: u64) -> ToyPair {
    let rng = &mut seeded(seed);
    markov(&positive_table(3, rng), &positive_table(3, rng))
}

/// Every policy, and budgets for which two requests compete.
/// Catches: a policy sees its request alone, or in the place of another.
#[test]
fn requests_that_share_rounds_are_independent() {
    let budgets = [("draft_budget", "1"), ("draft_budget", "3")];
    let shared = budgets.map(|setting| ("shared_budget", 2, vec![setting]));
    // The draft model of the pair estimates no acceptance.
    let others = LENGTHS.iter().filter(|entry| entry.name != "confidence_head");
    let others = others.map(|entry| (entry.name, 2, Vec::new()));
    let by_batch = ("by_batch", 2, vec![("k_by_batch", "1:2,2:1")]);
    for seed in 0..2 {
        let two = Two {
            pair: random_pair(seed),
            prompts: [vec![0], vec![1, 2]],
            // The second completion ends first, so that the first request then has the whole
            // budget.
            tokens: [4, 3],
        };
        let expected = two.expected();
        for (length, k, settings) in others.clone().chain(shared.clone()).chain([by_batch.clone()])
        {
            let spec = MethodSpec { length: length.to_owned(), ..spec("model", k, &settings) };
            let found = two.found(&spec, &drawn_apart, |_, drafter| drafter);
            let (mass, tv) = (found.dist.values().sum::<f64>(), tv(&found.dist, &expected));
            assert!((mass - 1.0).abs() < TOLERANCE && tv < TOLERANCE, "{length}, {tv}");
            if length == "shared_budget" && settings == [budgets[0]] {
                // One token for two requests: sometimes the first request gets it, sometimes the
                // second.
                let depths = [vec![0, 1], vec![1, 0], vec![1]];
                assert!(depths.iter().all(|d| found.depths.contains(d)), "{:?}", found.depths);
                assert!(!found.depths.contains(&vec![1, 1]));
            }
        }
    }
}

/// Draft confidences of all requests of a round, visible to all drafters.
type Confidences = Rc<RefCell<Vec<Option<f64>>>>;

/// Cuts its draft if that of another request is more confident: the budget depends on the tokens
/// that it cuts.
#[derive(Debug)]
struct CutByConfidence<'a> {
    inner: Box<dyn Drafter<'a> + 'a>,
    number: usize,
    confidences: Confidences,
    /// A fixed threshold of confidence, instead of a comparison with others.
    least: Option<f64>,
}

impl<'a> Drafter<'a> for CutByConfidence<'a> {
    fn propose<'f>(&'f mut self, round: &'f mut Round<'a, '_>) -> Pausing<'f> {
        let (vocab, confidences) = (round.vocab, Rc::clone(&self.confidences));
        Box::pin(async move {
            let draft = self.inner.propose(round).await?;
            let sure = draft.nodes().iter().map(|node| node.q(node.token));
            let confidence = sure.product::<f64>();
            if let Some(least) = self.least {
                return Ok(if confidence > least { draft } else { Draft::empty(vocab) });
            }
            confidences.borrow_mut()[self.number] = Some(confidence);
            // Waits until the other request has drafted.
            let mut asked = false;
            future::poll_fn(|_| {
                let ready = std::mem::replace(&mut asked, true);
                if ready { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            let others = confidences.borrow().iter().flatten().copied().fold(0.0, f64::max);
            Ok(if confidence >= others { draft } else { Draft::empty(vocab) })
        })
    }

    fn state_key(&mut self, context: &[Token]) -> Result<Vec<u8>, Error> {
        self.inner.state_key(context)
    }

    fn try_clone(&self) -> Result<Box<dyn Drafter<'a> + 'a>, Error> {
        let (inner, confidences) = (self.inner.try_clone()?, Rc::clone(&self.confidences));
        Ok(Box::new(Self { inner, confidences, ..*self }))
    }
}

/// p = (0.7, 0.3), q = (0.6, 0.4): the draft is kept if it is token 0, which is then always
/// accepted. So that token has probability 0.6 + 0.4 · 0.7 = 0.88.
#[test]
fn a_budget_by_confidence_in_cut_tokens_is_refuted() {
    let (p, q) = (vec![0.7, 0.3], vec![0.6, 0.4]);
    let pair = markov(&[p.clone(), p], &[q.clone(), q]);
    let two = Two { pair, prompts: [vec![0], vec![0]], tokens: [2, 2] };
    let spec = spec("model", 1, &[]);
    let cut = |least| {
        let confidences = Rc::new(RefCell::new(vec![None; 2]));
        two.found(&spec, &drawn_apart, move |number, inner| {
            let confidences = Rc::clone(&confidences);
            Box::new(CutByConfidence { inner, number, confidences, least })
        })
    };
    // With two tokens there is room for a draft only at the first one.
    let first = |joint: &Joint, number: usize| {
        let completions = joint.iter().filter(|(completions, _)| completions[number][0] == 0);
        completions.map(|(_, mass)| mass).sum::<f64>()
    };
    let own = cut(Some(0.5));
    assert!((first(&own.dist, 0) - 0.88).abs() < TOLERANCE);
    let expected = two.expected();
    // For the pair of first tokens, |0.88² − 0.7²| is the largest part of the distance.
    assert!(tv(&own.dist, &expected) > 0.88 * 0.88 - 0.7 * 0.7 - TOLERANCE);
    // Of two drafts the more probable one is kept, and both if they are equal: 0 is always kept,
    // and 1 only if the other is 1, too.
    let shared = cut(None);
    let (kept, cut_off) = (0.4 * 0.4, 0.4 * 0.6);
    // A kept 1 is accepted with probability 0.3 / 0.4 and else becomes 0; a cut draft leaves a
    // plain token.
    let zero = 0.6 + kept * 0.25 + cut_off * 0.7;
    assert!((first(&shared.dist, 0) - zero).abs() < TOLERANCE, "{}", first(&shared.dist, 0));
    assert!(tv(&shared.dist, &expected) > 0.05);
}

/// The first request's draws in a round.
type Log = Rc<RefCell<Vec<(Site, Token)>>>;

/// Draws of the first request, or of the second one, which repeats them.
#[derive(Debug)]
struct SameDraws<'w> {
    walk: &'w WalkedChance,
    number: usize,
    log: Log,
}

impl SameDraws<'_> {
    fn draw(&self, site: Site, draw: impl FnOnce(&WalkedChance) -> Token) -> Token {
        let known = self.log.borrow().iter().find(|(of, _)| *of == site).map(|(_, drawn)| *drawn);
        let known = known.filter(|_| self.number > 0);
        known.unwrap_or_else(|| {
            let drawn = draw(self.walk);
            self.log.borrow_mut().push((site, drawn));
            drawn
        })
    }
}

impl Chance for SameDraws<'_> {
    fn begin_round(&mut self, _: u64) {
        if self.number == 0 {
            self.log.borrow_mut().clear();
        }
    }

    fn bernoulli(&mut self, site: Site, p: f64) -> bool {
        self.draw(site, |mut walk| Token::from(walk.bernoulli(site, p))) == 1
    }

    fn categorical(&mut self, site: Site, dist: &Dist) -> Token {
        self.draw(site, |mut walk| walk.categorical(site, dist))
    }

    fn race(&mut self, _: usize, _: Range<usize>, _: &Dist) -> Token {
        unreachable!("no method of this test races")
    }
}

/// Each completion alone has the target's distribution, but the two are identical.
#[test]
fn requests_that_draw_the_same_numbers_are_refuted() {
    let two = Two { pair: random_pair(2), prompts: [vec![0], vec![0]], tokens: [2, 2] };
    let log = Log::default();
    let found = two.found(
        &spec("model", 1, &[]),
        &|number, walk| -> Box<dyn Chance + '_> {
            Box::new(SameDraws { walk, number, log: Rc::clone(&log) })
        },
        |_, drafter| drafter,
    );
    let found = found.dist;
    let expected = two.expected();
    for number in [0, 1] {
        assert!(tv(&alone(&found, number), &alone(&expected, number)) < TOLERANCE);
    }
    assert!(found.keys().all(|completions| completions[0] == completions[1]));
    // Two independent completions are equal with the sum of their squared probabilities.
    let equal = alone(&expected, 0).values().map(|p| p * p).sum::<f64>();
    assert!((tv(&found, &expected) - (1.0 - equal)).abs() < TOLERANCE);
}

/// The past acceptance of requests with these survival rates, after many tokens.
fn pasts(alphas: &[f64]) -> Vec<SequencePast> {
    let past = |alpha: &f64| SequencePast {
        acceptance: PastAcceptance { reached: 900.0, kept: 900.0 * alpha },
        room: 8,
    };
    alphas.iter().map(past).collect()
}

/// The depths of all requests of a round.
fn depths(length: &str, k: usize, setting: (&str, &str), sequences: &[SequencePast]) -> Vec<usize> {
    let depth = |own| {
        let mut policy = policy(length, k, &[setting]);
        policy.begin(&BatchView { sequences, own });
        policy.max_depth()
    };
    (0..sequences.len()).map(depth).collect()
}

/// Catches: the budget goes to the least likely tokens; every request has all of it; requests
/// without room take a part of it.
#[test]
fn a_budget_goes_to_the_tokens_most_likely_to_survive() {
    let depths = |budget: &str, k, sequences: &[SequencePast]| {
        depths("shared_budget", k, ("draft_budget", budget), sequences)
    };
    // Survivals of about 0.9, 0.8, 0.7, 0.66 … and 0.5, 0.25 …, slightly pooled over all requests.
    let unlike = pasts(&[0.9, 0.5]);
    assert_eq!(depths("1", 8, &unlike), [1, 0]);
    assert_eq!(depths("5", 8, &unlike), [5, 0]);
    assert_eq!(depths("6", 8, &unlike), [5, 1]);
    assert_eq!(depths("16", 8, &unlike), [8, 8]);
    assert_eq!(depths("16", 3, &unlike), [3, 3], "at most K each");
    assert_eq!(depths("5", 8, &pasts(&[0.7, 0.7, 0.7])), [2, 2, 1], "level by level");
    assert_eq!(depths("0", 8, &unlike), [0, 0]);
    // A request with room for one token leaves the budget to others.
    let ends = [SequencePast { room: 1, ..unlike[0] }, unlike[1]];
    assert_eq!(depths("4", 8, &ends), [1, 3]);
    // Without a past, both are equal.
    assert_eq!(depths("4", 8, &[SequencePast { room: 8, ..SequencePast::default() }; 2]), [2, 2]);
}

/// Catches: a batch has the K of the next smaller size.
#[test]
fn a_policy_can_depend_on_the_batch_size() {
    let of = |count| {
        depths(
            "by_batch",
            3,
            ("k_by_batch", "1:5, 2:2, 4:0"),
            &vec![SequencePast::default(); count],
        )
    };
    assert_eq!([of(1), of(2), of(3)], [vec![3], vec![2, 2], vec![2, 2, 2]]);
    assert_eq!([of(4), of(9)], [vec![0; 4], vec![0; 9]]);
    for wrong in ["", "2:1", "1:4,1:3", "1:4,8", "1:x", "1:-1", "8:1,1:4"] {
        let method = MethodSpec {
            length: "by_batch".to_owned(),
            ..spec("model", 2, &[("k_by_batch", wrong)])
        };
        let error = method.validate().unwrap_err().to_string();
        assert!(error.starts_with(&format!("k_by_batch = {wrong}: give batch sizes")), "{error}");
    }
}

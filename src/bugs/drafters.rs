//! Drafters that record another distribution than the one from which they drew.

use std::rc::Rc;

use super::chances::Altered;
use super::distribution::{drawn_and_verified, dropped_up_to, top_siblings};
use super::masses::argmax;
use super::mutant::{CASE, Case, Mutant, RIGHT, TREE_CASE, on_paper};
use super::rejection::{OtherInputs, SAME_INPUTS};
use super::{BUG, Bug, BugDistribution};
use crate::core::chance::{Chance, Purpose, Site};
use crate::core::distribution::{Dist, Token};
use crate::core::error::Error;
use crate::core::params::{Params, Value};
use crate::core::registry::find;
use crate::core::round::RoundEvent;
use crate::core::sampling::{History, Sampler, SamplingParams};
use crate::core::tree::{Draft, NodeId, Origin, Row, Siblings};
use crate::method::draft::{DRAFTERS, Drafter, DrafterParams, MakeDrafter, Pausing, Round};
use crate::model::{LanguageModel, Session, Want, Work, evaluate_one};

/// The tokens proposed at a node, and the recorded distribution.
pub(super) struct Forgery {
    pub(super) tokens: Vec<Token>,
    pub(super) recorded: Rc<Dist>,
}

/// Draws tokens, given the distribution by the requested sampler, the distribution by the sampler
/// in use, and the distributions recorded so far on the path.
pub(super) type Draw = fn(&Dist, &Dist, &[Rc<Dist>], Site, &mut dyn Chance) -> Forgery;

/// A model drafter that draws from one distribution and may record another.
#[derive(Debug)]
struct Forger<'a> {
    model: &'a dyn LanguageModel,
    session: Session,
    /// The requested sampler, and the sampler in use.
    samplers: (Sampler, Sampler),
    draw: Draw,
    /// Drops a drawn token that is less probable than this, and stops.
    threshold: f64,
}

pub(super) fn forger<'a>(
    params: &DrafterParams<'a, '_>,
    used: impl FnOnce(SamplingParams) -> SamplingParams,
    draw: Draw,
    threshold: f64,
) -> Result<Box<dyn Drafter<'a> + 'a>, Error> {
    let model = params.tools.draft.ok_or_else(|| Error::setting("a mutant needs a draft model"))?;
    let used = Sampler::new(used(params.sampler.params().clone()))?;
    let samplers = (params.sampler.clone(), used);
    Ok(Box::new(Forger { session: model.session()?, model, samplers, draw, threshold }))
}

impl Forger<'_> {
    fn distributions(
        &mut self,
        round: &Round<'_, '_>,
        draft: &Draft,
        parent: Option<NodeId>,
    ) -> Result<(Dist, Dist), Error> {
        let want = Want::Row(Row::after(parent));
        let work = Work { session: &mut self.session, context: round.context, draft, want };
        let rows = evaluate_one(self.model, work)?.rows;
        let drafted = parent.map_or_else(Vec::new, |id| draft.tokens_to(id));
        let history =
            History { prompt_len: round.prompt_len, context: round.context, drafted: &drafted };
        let dist = |sampler: &Sampler| {
            sampler.distribution(&rows[0], history).map_err(Error::distribution("the draft model"))
        };
        Ok((dist(&self.samplers.0)?, dist(&self.samplers.1)?))
    }
}

impl<'a> Drafter<'a> for Forger<'a> {
    fn propose<'f>(&'f mut self, round: &'f mut Round<'a, '_>) -> Pausing<'f> {
        Box::pin(async move {
            let mut draft = Draft::empty(round.vocab);
            let mut parent = None;
            let mut recorded = Vec::new();
            while round.go_deeper(&draft) {
                let (asked, used) = self.distributions(round, &draft, parent)?;
                let site = Site { purpose: Purpose::Draft, node: draft.len() };
                let drawn = (self.draw)(&asked, &used, &recorded, site, round.chance);
                if drawn.tokens.iter().all(|&t| used.p(t) < self.threshold) {
                    break;
                }
                let origin = Origin::Sampled(Rc::clone(&drawn.recorded));
                let children = drawn.tokens.iter().map(|&t| draft.forge(parent, t, origin.clone()));
                parent = children.collect::<Vec<_>>().first().copied();
                recorded.push(drawn.recorded);
            }
            Ok(draft)
        })
    }

    fn state_key(&mut self, context: &[Token]) -> Result<Vec<u8>, Error> {
        self.session.rewind(context)?;
        Ok(self.session.state_key())
    }

    fn try_clone(&self) -> Result<Box<dyn Drafter<'a> + 'a>, Error> {
        let session = self.session.try_clone()?;
        Ok(Box::new(Self { session, samplers: self.samplers.clone(), ..*self }))
    }
}

pub(super) fn drawn_once(
    dist: &Dist,
    recorded: Dist,
    site: Site,
    chance: &mut dyn Chance,
) -> Forgery {
    Forgery { tokens: vec![chance.categorical(site, dist)], recorded: Rc::new(recorded) }
}

pub(super) const DRAWS_USED_RECORDS_ASKED: Draw =
    |asked, used, _, site, chance| drawn_once(used, asked.clone(), site, chance);

/// The production drafter with draws addressed by position alone.
#[derive(Debug)]
struct PositionKeyed<'a> {
    inner: Box<dyn Drafter<'a> + 'a>,
    round: u64,
}

impl<'a> Drafter<'a> for PositionKeyed<'a> {
    fn propose<'f>(&'f mut self, round: &'f mut Round<'a, '_>) -> Pausing<'f> {
        Box::pin(async move {
            let (position, none) = (Some(round.context.len()), Altered::none(round.chance));
            let mut chance = Altered { position, round: self.round, ..none };
            let mut keyed = Round { chance: &mut chance, length: round.length, ..*round };
            self.inner.propose(&mut keyed).await
        })
    }

    fn observe(&mut self, event: &RoundEvent<'_>) {
        self.round = event.round + 1;
        self.inner.observe(event);
    }

    fn state_key(&mut self, context: &[Token]) -> Result<Vec<u8>, Error> {
        self.inner.state_key(context)
    }

    fn try_clone(&self) -> Result<Box<dyn Drafter<'a> + 'a>, Error> {
        Ok(Box::new(Self { inner: self.inner.try_clone()?, round: self.round }))
    }
}

/// The production tree drafter: two independent children, then one each.
pub(super) const SAMPLED_TREE: MakeDrafter = |params| {
    let tree = find("drafter", DRAFTERS, "model_tree")?;
    let text = |text: &str| Value::Text(text.to_owned());
    let shape = Params::default()
        .with("tree", text("2,1"))
        .with("siblings", text(Siblings::Independent.name()));
    (tree.build.make)(&DrafterParams { params: &shape, ..*params })
};

/// A correct method that drafts a tree.
pub(super) const RIGHT_TREE: Mutant = Mutant { case: TREE_CASE, drafter: SAMPLED_TREE, ..RIGHT };

const NUCLEUS: &SamplingParams = &SamplingParams { top_p: 0.7, ..SamplingParams::NEUTRAL };

/// The drafts with the recorded distribution of the token before each.
fn row_early(draft: &Draft) -> Draft {
    let mut shifted = Draft::empty(draft.vocab()).at(draft.start());
    for (id, node) in draft.nodes().iter().enumerate() {
        let before = draft.node(id.saturating_sub(1)).distribution(draft.vocab());
        shifted.forge(node.parent, node.token, Origin::Sampled(before));
    }
    shifted
}

/// A wrong drafter with right everything else.
const fn wrong(case: Case, drafter: MakeDrafter) -> Bug {
    Bug { mutant: Some(Mutant { case, drafter, ..RIGHT }), ..BUG }
}

pub(super) const BUGS: &[Bug] = &[
    Bug {
        name: "draft_row_early",
        summary: "each draft token is recorded with the distribution of the one before it",
        was: &["q_row_off_by_one"],
        verifier: Some(&OtherInputs { draft: row_early, ..SAME_INPUTS }),
        ..wrong(CASE, |params| {
            let draw: Draw = |_, used, recorded, site, chance| {
                let shifted = recorded.last().map_or_else(|| used.clone(), |dist| (**dist).clone());
                drawn_once(used, shifted, site, chance)
            };
            forger(params, |p| p, draw, 0.0)
        })
    },
    Bug {
        name: "raw_q_verified",
        summary: "drafts are drawn from the processed q and verified with the raw one",
        seen: "transformers 4.44 to 5.15, #32867 and #47932",
        was: &["draft_top_p_recorded_raw"],
        distribution: Some(|dists| {
            let ((target, draft), raw) = (dists.pair()?, dists.raw_draft.as_deref()?);
            Some(drawn_and_verified(target, (draft, raw)))
        }),
        ..wrong(CASE, |params| forger(params, |_| NUCLEUS.clone(), DRAWS_USED_RECORDS_ASKED, 0.0))
    },
    Bug {
        name: "raw_q_drawn",
        summary: "drafts are drawn from the raw q and verified with the processed one",
        was: &["draft_raw_recorded_top_p"],
        distribution: Some(|dists| {
            let ((target, draft), raw) = (dists.pair()?, dists.raw_draft.as_deref()?);
            Some(drawn_and_verified(target, (raw, draft)))
        }),
        ..wrong(Case { draft: NUCLEUS, ..CASE }, |params| {
            forger(params, |_| SamplingParams::NEUTRAL, DRAWS_USED_RECORDS_ASKED, 0.0)
        })
    },
    Bug {
        name: "draft_temperature_not_recorded",
        summary: "the draft is sampled at temperature 0.7 and verified at 1",
        ..wrong(CASE, |params| {
            let cool = |p| SamplingParams { temperature: 0.7, ..p };
            forger(params, cool, DRAWS_USED_RECORDS_ASKED, 0.0)
        })
    },
    Bug {
        name: "q_smoothed",
        summary: "one per cent of the uniform distribution is mixed into q for verification only",
        ..wrong(CASE, |params| {
            let draw: Draw = |asked, used, _, site, chance| {
                let n = asked.vocab();
                let smooth = (0..n as Token).map(|t| 0.99 * asked.p(t) + 0.01 / n as f64).collect();
                let smooth = Dist::from_weights(smooth).unwrap_or_else(|_| asked.clone());
                drawn_once(used, smooth, site, chance)
            };
            forger(params, |p| p, draw, 0.0)
        })
    },
    Bug {
        name: "greedy_draft_soft_q",
        summary: "the draft is its model's most probable token, and is verified as if drawn from q",
        seen: "transformers 5.23, Gemma 4 assistants",
        was: &["argmax_recorded_as_sampled"],
        distribution: Some(|dists| {
            let (target, draft) = dists.pair()?;
            let drafted = argmax(draft);
            let mut accepted = vec![0.0; target.len()];
            accepted[drafted] = (target[drafted] / draft[drafted]).min(1.0);
            Some(BugDistribution::corrected_by(accepted, dists.residual.as_deref()))
        }),
        ..wrong(CASE, |params| {
            let draw: Draw = |asked, _, _, _, _| Forgery {
                tokens: vec![asked.argmax()],
                recorded: Rc::new(asked.clone()),
            };
            forger(params, |p| p, draw, 0.0)
        })
    },
    Bug {
        name: "top_siblings_soft_q",
        summary: "the two most probable tokens are drafted as siblings, and verified as if drawn from q",
        was: &["top_k_recorded_as_sampled"],
        distribution: Some(|dists| dists.pair().map(|(p, q)| top_siblings(p, q))),
        ..wrong(TREE_CASE, |params| {
            let draw: Draw = |asked, _, _, _, _| Forgery {
                tokens: asked.most_probable(2),
                recorded: Rc::new(asked.clone()),
            };
            forger(params, |p| p, draw, 0.0)
        })
    },
    Bug {
        name: "siblings_not_renormalised",
        summary: "the second of two different siblings is verified with the distribution of the first",
        ..wrong(TREE_CASE, |params| {
            let draw: Draw = |asked, _, _, site, chance| {
                let first = chance.categorical(site, asked);
                let rest = asked.residual(&Dist::one_hot(asked.vocab(), first));
                let second = rest
                    .map(|dist| chance.categorical(Site { node: site.node + 1, ..site }, &dist));
                let tokens = [first].into_iter().chain(second).collect();
                Forgery { tokens, recorded: Rc::new(asked.clone()) }
            };
            forger(params, |p| p, draw, 0.0)
        })
    },
    Bug {
        name: "draft_drawn_in_bf16",
        summary: "the draft is drawn from a distribution in bf16 and verified with the one in full",
        seen: "DeepSpec #31",
        ..wrong(CASE, |params| {
            let draw: Draw = |asked, _, _, site, chance| {
                let coarse = |t| half::bf16::from_f64(asked.p(t)).to_f64();
                let dist = Dist::from_weights((0..asked.vocab() as Token).map(coarse).collect());
                let dist = dist.unwrap_or_else(|_| asked.clone());
                drawn_once(&dist, asked.clone(), site, chance)
            };
            forger(params, |p| p, draw, 0.0)
        })
    },
    Bug {
        name: "drops_low_confidence",
        summary: "a drafted token with q <= 0.3 is dropped after it was drawn",
        distribution: Some(|dists| dropped_up_to(dists, 0.3)),
        ..wrong(CASE, |params| forger(params, |p| p, DRAWS_USED_RECORDS_ASKED, 0.3))
    },
    Bug {
        name: "retrospective_length",
        summary: "a draft ends before a drawn token with q <= 0.5",
        seen: "DSpark, app. A",
        distribution: Some(|dists| dropped_up_to(dists, 0.5)),
        // The probability of the first token is 0.6 + 0.4 × 0.7 = 0.88.
        ..wrong(on_paper(&[0.7, 0.3], &[0.6, 0.4], 0.88 - 0.7), |params| {
            forger(params, |p| p, DRAWS_USED_RECORDS_ASKED, 0.5)
        })
    },
    Bug {
        name: "position_keyed_draft",
        summary: "draft draws are addressed by position without the round",
        ..wrong(Case { k: 3, tokens: 5, ..CASE }, |params| {
            Ok(Box::new(PositionKeyed { inner: (RIGHT.drafter)(params)?, round: 0 }))
        })
    },
];

//! Tree drafters of fixed shape, so that tree verification is enumerated
//! whatever drafters are registered.

use std::rc::Rc;

use crate::dist::Token;
use crate::draft::{Drafter, Round};
use crate::model::{LanguageModel, ModelError, Session, Want, Work, evaluate_one};
use crate::sampling::{History, Sampler};
use crate::tree::{Draft, NodeId};

/// A tree in which every node of depth `i` has `shape[i]` children.
#[derive(Debug, Clone, Copy)]
pub struct TreeShape {
    /// Its name in the certificate.
    pub name: &'static str,
    /// Children per node, by depth.
    pub shape: &'static [usize],
    /// Whether children are independent draws; otherwise they are the most
    /// probable tokens, and certain.
    pub sampled: bool,
}

/// The trees that the exactness suite covers.
pub const TREES: &[TreeShape] = &[
    TreeShape { name: "tree_sampled_2_1", shape: &[2, 1], sampled: true },
    TreeShape { name: "tree_sampled_2_2", shape: &[2, 2], sampled: true },
    TreeShape { name: "tree_top_k_2_1", shape: &[2, 1], sampled: false },
    TreeShape { name: "tree_top_k_2_2", shape: &[2, 2], sampled: false },
];

/// Drafts a tree of fixed shape with a draft model.
#[derive(Debug)]
pub struct TreeDrafter<'a> {
    model: &'a dyn LanguageModel,
    session: Session,
    sampler: Sampler,
    shape: TreeShape,
}

impl<'a> TreeDrafter<'a> {
    /// A drafter over `model`.
    ///
    /// # Errors
    /// If the model cannot open a session.
    pub fn new(
        model: &'a dyn LanguageModel,
        sampler: Sampler,
        shape: TreeShape,
    ) -> Result<Self, ModelError> {
        Ok(Self { session: model.session()?, model, sampler, shape })
    }

    fn grow(
        &mut self,
        draft: &mut Draft,
        parent: Option<NodeId>,
        children: usize,
        round: &mut Round<'_>,
    ) -> Result<(), ModelError> {
        let row = parent.map_or(0, |id| id + 1);
        let work = Work {
            session: &mut self.session,
            context: round.context,
            draft,
            want: Want::Row(row),
        };
        let evaluation = evaluate_one(self.model, work)?;
        round.forwards += 1;
        let drafted = parent.map_or_else(Vec::new, |id| draft.tokens_to(id));
        let history =
            History { prompt_len: round.prompt_len, context: round.context, drafted: &drafted };
        let law = self
            .sampler
            .law(&evaluation.rows[0], history)
            .map_err(|e| ModelError::new(e.to_string()))?;
        if self.shape.sampled {
            let law = Rc::new(law);
            for _ in 0..children {
                draft.sample(parent, &law, round.chance);
            }
        } else {
            let mut ranked = law.support().collect::<Vec<(Token, f64)>>();
            ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
            for (token, _) in ranked.into_iter().take(children) {
                draft.certain(parent, token);
            }
        }
        Ok(())
    }
}

impl<'a> Drafter<'a> for TreeDrafter<'a> {
    fn propose(&mut self, round: &mut Round<'_>) -> Result<Draft, ModelError> {
        let mut draft = Draft::empty(round.vocab);
        let mut level = vec![None];
        for &children in self.shape.shape {
            if !round.go_on(&draft) {
                break;
            }
            for &parent in &level {
                self.grow(&mut draft, parent, children, round)?;
            }
            level = level.iter().flat_map(|&p| draft.children(p).map(Some)).collect();
        }
        Ok(draft)
    }

    fn state_key(&mut self, context: &[Token]) -> Result<Vec<u8>, ModelError> {
        self.session.settle(context)?;
        Ok(self.session.state_key())
    }

    fn fork(&self) -> Result<Box<dyn Drafter<'a> + 'a>, ModelError> {
        Ok(Box::new(Self {
            model: self.model,
            session: self.session.fork()?,
            sampler: self.sampler.clone(),
            shape: self.shape,
        }))
    }
}

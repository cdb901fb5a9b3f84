//! A draft model that proposes a tree of fixed shape.

use super::reader::Reader;
use super::{BuildDrafter, Drafter, Pausing, Round, with_draft_sampling};
use crate::core::error::Error;
use crate::core::params::{Param, Params};
use crate::core::registry::Entry;
use crate::core::tree::{Draft, DraftShape, MAX_NODES, Row, Siblings};

const TREE: Param =
    Param::text("tree", "2,2,1", "children per node, by depth: 2,1 is two branches of two tokens");
/// How the children of a node are chosen.
pub(crate) const SIBLINGS: Param = Param::text(
    "siblings",
    AUTO,
    "how children are chosen: independent, distinct, top_k, last_sampled, hub, or auto (the \
     kind that suits the verifier best)",
);
/// The kind of siblings that suits the verifier best.
pub(crate) const AUTO: &str = "auto";

pub(super) const ENTRY: Entry<BuildDrafter> = Entry {
    name: "model_tree",
    aliases: &["tree"],
    params: with_draft_sampling!(TREE, SIBLINGS),
    summary: "a smaller model that proposes a tree of fixed shape, level by level",
    paper: "Miao et al. 2023, SpecInfer, arXiv 2305.09781; without replacement: Jeon et al. 2024, \
            arXiv 2402.14160",
    build: BuildDrafter {
        needs_model: true,
        shape: |params| {
            let (tree, siblings) = (tree(params)?, siblings(params)?);
            if siblings == Siblings::Hub && tree.iter().any(|&children| children > 2) {
                let sentence = "siblings = hub: a node of the tree has at most 2 children";
                return Err(Error::setting(sentence));
            }
            let sampled = siblings != Siblings::TopK;
            let certain = siblings != Siblings::Independent;
            let mut shape = DraftShape { sampled, certain, ..DraftShape::NOTHING };
            if tree.iter().any(|&children| children > 1) {
                shape = shape.with(siblings);
                if siblings == Siblings::Distinct {
                    shape = shape.with(Siblings::TopK);
                }
            }
            Ok(shape)
        },
        make: |params| {
            let reader =
                Reader::new(params.model("model_tree")?, params.sampler.clone())?.ranking();
            let tree = tree(params.params)?;
            let siblings = siblings(params.params)?;
            Ok(Box::new(ModelTree { reader, tree, siblings }))
        },
    },
};

fn tree(params: &Params) -> Result<Vec<usize>, Error> {
    parse_tree(TREE.key, &params.text(&TREE))
}

/// Parses the numbers of children per node, by depth.
///
/// # Errors
/// A sentence that names the key and the allowed values.
pub(crate) fn parse_tree(key: &str, text: &str) -> Result<Vec<usize>, Error> {
    let fault = |why: &str| {
        Error::setting(format!(
            "{key} = {text}: {why}; give the children per node, at least 1, by depth, as in 2,2,1"
        ))
    };
    let counts = text.split(',').map(|part| part.trim().parse().ok().filter(|&n| n > 0));
    let counts = counts.collect::<Option<Vec<usize>>>().ok_or_else(|| fault("not a tree shape"))?;
    let mut nodes = (1_usize, 0_usize);
    for &children in &counts {
        nodes.0 = nodes.0.saturating_mul(children);
        nodes.1 = nodes.1.saturating_add(nodes.0);
    }
    if nodes.1 > MAX_NODES {
        return Err(fault(&format!("{} nodes exceed the limit of {MAX_NODES}", nodes.1)));
    }
    Ok(counts)
}

fn siblings(params: &Params) -> Result<Siblings, Error> {
    let name = params.text(&SIBLINGS);
    let known = Siblings::CHOICES.iter().find(|kind| kind.name() == name);
    known.copied().ok_or_else(|| {
        let names = Siblings::CHOICES.map(Siblings::name).join(", ");
        Error::setting(format!("siblings = {name}: allowed are {AUTO}, {names}"))
    })
}

/// Drafts a tree in which every node of depth `i` has `tree[i]` children.
#[derive(Debug)]
struct ModelTree<'a> {
    reader: Reader<'a>,
    tree: Vec<usize>,
    siblings: Siblings,
}

impl<'a> Drafter<'a> for ModelTree<'a> {
    fn reader(&mut self) -> Option<&mut Reader<'a>> {
        Some(&mut self.reader)
    }

    fn propose<'f>(&'f mut self, round: &'f mut Round<'a, '_>) -> Pausing<'f> {
        Box::pin(async move {
            self.reader.limit(round)?;
            let mut draft = Draft::empty(round.vocab);
            let mut level = vec![None];
            for &children in &self.tree {
                if level.is_empty() || !round.go_deeper(&draft) {
                    break;
                }
                let known = draft.len();
                let rows = level.iter().map(|&at| Row::after(at)).collect();
                let predictions = self.reader.predict(round, &mut draft, rows).await?;
                for (&parent, prediction) in level.iter().zip(&predictions) {
                    round.grow(&mut draft, (parent, prediction), (self.siblings, children));
                }
                let open = (known..draft.len()).filter(|&id| round.is_open(&draft, id));
                level = open.map(Some).collect();
            }
            Ok(draft)
        })
    }

    fn try_clone(&self) -> Result<Box<dyn Drafter<'a> + 'a>, Error> {
        let (tree, siblings) = (self.tree.clone(), self.siblings);
        Ok(Box::new(Self { reader: self.reader.try_clone()?, tree, siblings }))
    }
}

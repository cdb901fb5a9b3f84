//! What comes before the layers of a head: its weights, and how they are used.

use super::block_rows::BlockFront;
use super::packer::Linear;

/// What comes before the layers of a head.
#[derive(Clone, Copy)]
pub(super) enum Front<'a> {
    /// A token and a state become one input.
    Joint(Joint<'a>),
    /// Blocks that each add the activation of a product (Medusa).
    Medusa(&'a [Linear]),
    /// A block of masks, and the context that it follows.
    Block(BlockFront<'a>),
}

/// How a token and a state become one input. The workspace holds the embeddings of the rows in the
/// first halves of `wide`, and their features or their states.
#[derive(Clone, Copy)]
pub(super) struct Joint<'a> {
    pub kind: FrontKind,
    /// The product that fuses features into a state, with their norms, at level 0.
    pub fuse: Option<(&'a Linear, &'a [Vec<f32>])>,
    /// The product that joins embedding and state.
    pub join: Option<&'a Linear>,
    /// Whether the state comes before the embedding.
    pub state_first: bool,
    /// The norms of embedding and state.
    pub norms: Option<&'a [Vec<f32>; 2]>,
}

/// How embedding and state become the input of the layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FrontKind {
    /// The first attention reads both; what goes past it is the state, normalised or not.
    SideBySide { normed_residual: bool },
    /// The product joins both.
    Joined,
    /// The sum.
    Added,
}

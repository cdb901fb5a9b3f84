//! The shape of a draft, by which a verifier decides whether it is exact for it.

/// How the children of one node were chosen together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Siblings {
    /// Drawn independently from one distribution.
    Independent,
    /// Drawn from one distribution without replacement.
    Distinct,
    /// Deterministic: the most probable tokens, or tokens that were looked up.
    TopK,
    /// The most probable tokens, then one drawn from the distribution without them (Hu
    /// et al. 2025, arXiv 2502.18779).
    LastSampled,
    /// One drawn token and the most probable one; if the draw hits that one, a second is
    /// drawn without replacement (Sun et al. 2024, arXiv 2411.05289).
    Hub,
    /// Anything else.
    Mixed,
}

impl Siblings {
    /// The kinds that a config can choose.
    pub const CHOICES: [Self; 5] =
        [Self::Independent, Self::Distinct, Self::TopK, Self::LastSampled, Self::Hub];

    /// The name used in configs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Independent => "independent",
            Self::Distinct => "distinct",
            Self::TopK => "top_k",
            Self::LastSampled => "last_sampled",
            Self::Hub => "hub",
            Self::Mixed => "mixed",
        }
    }
}

/// The properties of a draft that decide whether a verifier is exact for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DraftShape {
    /// Some node was sampled from a distribution.
    pub sampled: bool,
    /// Some node is deterministic.
    pub certain: bool,
    /// Some node won a race.
    pub coupled: bool,
    /// The sibling kinds of nodes with more than one child, as a bit set.
    pub(crate) branches: u8,
}

impl DraftShape {
    /// Nothing proposed.
    pub const NOTHING: Self = Self { sampled: false, certain: false, coupled: false, branches: 0 };
    /// A chain of sampled tokens.
    pub const SAMPLED: Self = Self { sampled: true, ..Self::NOTHING };
    /// A chain of deterministic tokens.
    pub const CERTAIN: Self = Self { certain: true, ..Self::NOTHING };

    /// This shape with siblings of one more kind.
    #[must_use]
    pub const fn with(self, siblings: Siblings) -> Self {
        Self { branches: self.branches | 1 << siblings as u8, ..self }
    }

    /// Whether some node (or the root) has more than one child.
    pub fn branches(&self) -> bool {
        self.branches != 0
    }

    /// Whether all siblings are of these kinds.
    pub fn only(&self, kinds: &[Siblings]) -> bool {
        kinds.iter().fold(self.branches, |rest, &kind| rest & !(1 << kind as u8)) == 0
    }
}

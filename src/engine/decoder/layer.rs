//! What distinguishes one layer of a decoder from another.

/// What distinguishes one layer from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LayerKind {
    /// A token attends to this many tokens, itself included; to all if absent.
    pub window: Option<usize>,
    /// The number of its rotary embedding; none if absent.
    pub rope: Option<usize>,
    /// What its attention reads.
    pub input: LayerInput,
    /// Its heads, if they are not those of other layers.
    pub own_heads: Option<HeadSizes>,
    /// Where its keys and values come from.
    pub keys: KeySource,
    /// Whether its feed-forward block consists of experts.
    pub sparse: bool,
    /// The width of its feed-forward block is the model's times this.
    pub widening: usize,
    /// The products of its queries and keys are divided by this, too.
    pub divisor: usize,
}

impl LayerKind {
    /// A layer of most models.
    pub(crate) const PLAIN: Self = Self {
        window: None,
        rope: Some(0),
        input: LayerInput::Normed,
        own_heads: None,
        keys: KeySource::Own,
        sparse: false,
        widening: 1,
        divisor: 1,
    };
}

/// What the attention of a layer reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LayerInput {
    /// The hidden state, after the layer's norm if it has one.
    Normed,
    /// The hidden state as it is: the first layer of some heads.
    Plain,
    /// Two states side by side, each with a norm of its own: the first layer of others.
    SideBySide,
}

/// Where the keys and values of a layer come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeySource {
    /// Two products.
    Own,
    /// One product: values are keys before the norm of these.
    Joint,
    /// The layer of this number, which is below and has the same heads (Brandon et al. 2024,
    /// arXiv 2405.12981).
    Layer(usize),
}

impl KeySource {
    /// Number of products of the layer for them.
    pub(super) fn products(self) -> usize {
        match self {
            Self::Own => 2,
            Self::Joint => 1,
            Self::Layer(_) => 0,
        }
    }
}

/// Sizes of the heads of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeadSizes {
    /// Number of query heads.
    pub queries: usize,
    /// Number of key and value heads; divides `queries`.
    pub keys: usize,
    /// Width of a head, even.
    pub width: usize,
}

impl HeadSizes {
    /// Width of the queries of all heads, and of their attention outputs.
    pub(crate) fn query_width(self) -> usize {
        self.queries * self.width
    }

    /// Width of the keys of all heads, and of their values.
    pub(crate) fn key_width(self) -> usize {
        self.keys * self.width
    }
}

/// What layers read next to the hidden state: for every token a vector of each layer's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PerLayerInputs {
    /// Numbers in the input of a layer.
    pub width: usize,
    /// Rows of the table that inputs are made from, at least as many as there are tokens.
    pub rows: usize,
}

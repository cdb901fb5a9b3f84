//! Colours and markers that readers can tell apart, colour-blind ones included:
//! seven hues of Okabe and Ito (2008) without their yellow, which is no line on
//! white, and a brown; each has a marker of its own.

/// Red, green and blue.
pub(crate) type Colour = [u8; 3];

/// The form of a marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Circle,
    Square,
    Triangle,
    Diamond,
    Cross,
    Wedge,
    Frame,
    Ring,
}

/// How a method, or another thing that is told apart by colour, looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Style {
    pub(crate) colour: Colour,
    pub(crate) shape: Shape,
}

/// So many looks can be told apart within a panel.
pub(crate) const HUES: usize = LOOKS.len();

const LOOKS: [Style; 8] = [
    Style { colour: [0x00, 0x72, 0xb2], shape: Shape::Circle },
    Style { colour: [0xd5, 0x5e, 0x00], shape: Shape::Square },
    Style { colour: [0x00, 0x9e, 0x73], shape: Shape::Triangle },
    Style { colour: [0xcc, 0x79, 0xa7], shape: Shape::Diamond },
    Style { colour: [0x56, 0xb4, 0xe9], shape: Shape::Cross },
    Style { colour: [0xe6, 0x9f, 0x00], shape: Shape::Wedge },
    Style { colour: [0x00, 0x00, 0x00], shape: Shape::Frame },
    Style { colour: [0x7a, 0x3b, 0x10], shape: Shape::Ring },
];

/// Parts of bars, of which none is a method: told apart by how dark they are.
pub(crate) const PARTS: [Colour; 4] =
    [[0xb8, 0xc2, 0xcc], [0x5b, 0x7d, 0xb1], [0x2b, 0x36, 0x5c], [0xd0, 0x85, 0x6b]];

/// A part that counts for nothing.
pub(crate) const NOTHING: Colour = [0xdd, 0xdd, 0xdd];

/// What is told apart by its label alone.
pub(crate) const NEUTRAL: Style = Style { colour: [0x33, 0x33, 0x33], shape: Shape::Circle };

/// The look of the `i`-th of at most [`HUES`] things without an order.
pub(crate) fn hue(i: usize) -> Style {
    LOOKS[i % HUES]
}

/// Dark to light, even to those who see no colours: five stops of viridis (van der
/// Walt and Smith 2015), short of its yellow.
const RAMP: [Colour; 5] = [
    [0x44, 0x01, 0x54],
    [0x41, 0x44, 0x87],
    [0x2a, 0x78, 0x8e],
    [0x22, 0xa8, 0x84],
    [0x7a, 0xd1, 0x51],
];

/// The look of the `i`-th of `n` things in an order.
pub(crate) fn ramp(i: usize, n: usize) -> Style {
    let last = RAMP.len() - 1;
    let at = if n > 1 { (i * last) as f64 / (n - 1) as f64 } else { 0.0 };
    let stop = (at as usize).min(last - 1);
    let part = at - stop as f64;
    let mix = |c: usize| {
        let [from, to] = [RAMP[stop][c], RAMP[stop + 1][c]].map(f64::from);
        (from + part * (to - from)).round() as u8
    };
    Style { colour: [mix(0), mix(1), mix(2)], shape: LOOKS[i % HUES].shape }
}

//! Colours and markers that all readers can distinguish, including colour-blind ones: the
//! palette of Okabe and Ito (2008) with a brown in place of its yellow, which is hard to see
//! on white. Each colour has its own marker.

/// Red, green and blue.
pub(crate) type Colour = [u8; 3];

/// A position: pixels to the right and downwards.
pub(super) type CanvasPoint = (f64, f64);

/// Font sizes of the figure's title, of panel titles and of all other text.
pub(super) const TITLE: u32 = 16;
pub(super) const HEAD: u32 = 12;
pub(super) const BODY: u32 = 11;

/// The background, text, text of less weight, and lines below the data.
pub(super) const WHITE: Colour = [0xff, 0xff, 0xff];
pub(super) const INK: Colour = [0x1a, 0x1a, 0x1a];
pub(super) const FAINT: Colour = [0x55, 0x55, 0x55];
pub(super) const RULE: Colour = [0xe2, 0xe2, 0xe2];

/// The area on the losing side of a reference line.
pub(super) const LOSS: Colour = [0xf7, 0xef, 0xec];

/// The shape of a marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marker {
    Circle,
    Square,
    Triangle,
    Diamond,
    Cross,
    Wedge,
    Frame,
    Ring,
}

/// The colour and marker of a method, or of anything else that is distinguished by colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Style {
    pub(crate) colour: Colour,
    pub(crate) marker: Marker,
}

/// The number of distinct styles within a panel.
pub(crate) const HUES: usize = LOOKS.len();

const LOOKS: [Style; 8] = [
    Style { colour: [0x00, 0x72, 0xb2], marker: Marker::Circle },
    Style { colour: [0xd5, 0x5e, 0x00], marker: Marker::Square },
    Style { colour: [0x00, 0x9e, 0x73], marker: Marker::Triangle },
    Style { colour: [0xcc, 0x79, 0xa7], marker: Marker::Diamond },
    Style { colour: [0x56, 0xb4, 0xe9], marker: Marker::Cross },
    Style { colour: [0xe6, 0x9f, 0x00], marker: Marker::Wedge },
    Style { colour: [0x00, 0x00, 0x00], marker: Marker::Frame },
    Style { colour: [0x7a, 0x3b, 0x10], marker: Marker::Ring },
];

/// Colours of the parts of bars, distinguished by brightness. They differ from the colours
/// of methods.
pub(crate) const PARTS: [Colour; 4] =
    [[0xb8, 0xc2, 0xcc], [0x5b, 0x7d, 0xb1], [0x2b, 0x36, 0x5c], [0xd0, 0x85, 0x6b]];

/// The colour of a part that stands for nothing, such as rounds that accepted no token.
pub(crate) const NOTHING: Colour = [0xdd, 0xdd, 0xdd];

/// The style of things that are distinguished only by their labels.
pub(crate) const NEUTRAL: Style = Style { colour: [0x33, 0x33, 0x33], marker: Marker::Circle };

/// The style of the `i`-th of at most [`HUES`] unordered things.
pub(crate) fn hue(i: usize) -> Style {
    LOOKS[i % HUES]
}

/// Whether no two of these are the same.
pub(crate) fn distinct(styles: &[Style]) -> bool {
    (1..styles.len()).all(|i| !styles[..i].contains(&styles[i]))
}

/// Five stops of viridis (van der Walt and Smith 2015) without its yellow end. They go from
/// dark to light, so they remain ordered without colour vision.
const RAMP: [Colour; 5] = [
    [0x44, 0x01, 0x54],
    [0x41, 0x44, 0x87],
    [0x2a, 0x78, 0x8e],
    [0x22, 0xa8, 0x84],
    [0x7a, 0xd1, 0x51],
];

/// The style of the `i`-th of `n` ordered things.
pub(crate) fn ramp(i: usize, n: usize) -> Style {
    let last = RAMP.len() - 1;
    let at = if n > 1 { (i * last) as f64 / (n - 1) as f64 } else { 0.0 };
    let stop = (at as usize).min(last - 1);
    let part = at - stop as f64;
    let mix = |c: usize| {
        let [from, to] = [RAMP[stop][c], RAMP[stop + 1][c]].map(f64::from);
        (from + part * (to - from)).round() as u8
    };
    Style { colour: [mix(0), mix(1), mix(2)], marker: LOOKS[i % HUES].marker }
}

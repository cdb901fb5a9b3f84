//! The colours of figures on a dark page.

use super::style::{Colour, FAINT, INK, LOSS, NOTHING, PARTS, RULE, WHITE};

/// The background of figures on a dark page.
const PAPER: Colour = [0x17, 0x1b, 0x20];

/// The least contrast between a mark and the background (WCAG 2.2, 1.4.11).
const LEAST: f64 = 3.0;

/// Colours with a role of their own. Parts of bars stay ordered by their brightness.
const ROLES: [(Colour, Colour); 10] = [
    (WHITE, PAPER),
    (INK, [0xe8, 0xea, 0xed]),
    (FAINT, [0xaa, 0xb2, 0xbb]),
    (RULE, [0x33, 0x3a, 0x42]),
    (LOSS, [0x2b, 0x20, 0x20]),
    (NOTHING, [0x3d, 0x43, 0x4a]),
    (PARTS[0], [0x6b, 0x76, 0x80]),
    (PARTS[1], [0x5b, 0x8f, 0xd6]),
    (PARTS[2], [0xc5, 0xd0, 0xff]),
    (PARTS[3], [0xd0, 0x85, 0x6b]),
];

/// What a colour becomes on a dark page. Data colours stay if they are bright enough;
/// otherwise, their lightness is inverted.
pub(crate) fn dark(colour: Colour) -> Colour {
    if let Some((_, dark)) = ROLES.iter().find(|(light, _)| *light == colour) {
        return *dark;
    }
    if contrast(colour, PAPER) >= LEAST { colour } else { inverted(colour) }
}

/// The same hue with the opposite lightness.
fn inverted(colour: Colour) -> Colour {
    let (least, most) = (colour.iter().min(), colour.iter().max());
    let sum = least.zip(most).map_or(0, |(least, most)| u16::from(*least) + u16::from(*most));
    // Moving all three by the same amount keeps the hue and turns the lightness around.
    let up = 255 - i32::from(sum);
    colour.map(|part| (i32::from(part) + up).clamp(0, 255) as u8)
}

/// The contrast of two colours by WCAG: 1 for equal ones, 21 for black on white.
fn contrast(a: Colour, b: Colour) -> f64 {
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

fn luminance(colour: Colour) -> f64 {
    let linear = |part: u8| {
        let part = f64::from(part) / 255.0;
        if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
    };
    let [r, g, b] = colour.map(linear);
    0.2126 * r + 0.7152 * g + 0.0722 * b
}

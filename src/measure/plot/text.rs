//! Measures and wraps text. The advances are those of DejaVu Sans, the first of the fonts that
//! figures name; Verdana is as wide, and the others are narrower.

use crate::io::shown;

/// Advances of the printable ASCII characters, from the space, in 2048ths of the font size.
#[rustfmt::skip]
const ADVANCES: [u16; 95] = [
    651, 821, 942, 1716, 1303, 1946, 1597, 563, 799, 799, 1024, 1716, 651, 739, 651, 690,
    1303, 1303, 1303, 1303, 1303, 1303, 1303, 1303, 1303, 1303, 690, 690, 1716, 1716, 1716, 1087,
    2048, 1401, 1405, 1430, 1577, 1294, 1178, 1587, 1540, 604, 604, 1343, 1141, 1767, 1532, 1612,
    1235, 1612, 1423, 1300, 1251, 1499, 1401, 2025, 1403, 1251, 1403, 799, 690, 799, 1716, 1024,
    1024, 1255, 1300, 1126, 1300, 1260, 721, 1300, 1298, 569, 569, 1186, 569, 1995, 1298, 1253,
    1300, 1300, 842, 1067, 803, 1298, 1212, 1675, 1212, 1212, 1075, 1303, 690, 1303, 1716,
];

/// Width in pixels. Characters outside ASCII count as wide as the widest letters.
pub(super) fn width(text: &str, size: u32) -> f64 {
    let advance = |c: char| match c {
        ' '..='~' => ADVANCES[c as usize - ' ' as usize],
        '\u{a0}' => ADVANCES[0],
        _ => 2100,
    };
    let units = text.chars().map(|c| u64::from(advance(c))).sum::<u64>();
    units as f64 / 2048.0 * f64::from(size)
}

/// Wraps a text into lines that satisfy `fits`: at spaces, and within a word only if the word
/// alone does not fit.
pub(crate) fn broken(text: &str, fits: impl Fn(&str) -> bool) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_inclusive(' ') {
        if !line.is_empty() && !fits(&(line.clone() + word.trim_end())) {
            lines.push(std::mem::take(&mut line));
        }
        for c in word.chars() {
            if c != ' ' && !fits(&format!("{line}{c}")) {
                lines.push(std::mem::take(&mut line));
            }
            line.push(c);
        }
    }
    lines.push(line);
    lines.iter().map(|line| line.trim_end().to_owned()).collect()
}

/// Wraps a text into at most `most` lines of at most `room` pixels: at spaces, except around
/// an equals sign, and within a word only if the word alone is wider. Text that does not fit
/// is cut and ends in an ellipsis.
pub(super) fn wrap(text: &str, size: u32, room: f64, most: usize) -> Vec<String> {
    const KEPT: &str = "\u{a0}=\u{a0}";
    let text = shown::line(text).replace(" = ", KEPT);
    let mut lines = broken(&text, |line| width(line, size) <= room);
    let cut = lines.len() > most;
    lines.truncate(most);
    for line in &mut lines {
        *line = line.replace(KEPT, " = ");
    }
    if cut && let Some(last) = lines.last_mut() {
        while !last.is_empty() && width(&format!("{last}…"), size) > room {
            last.pop();
        }
        last.push('…');
    }
    lines
}

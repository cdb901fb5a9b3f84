//! Text for a narrow terminal: sentences are broken at spaces, and tables between columns.

use std::ops::Range;

/// Where the continuation of a row of a table begins.
const INDENT: usize = 4;

/// The text in lines of at most `columns` characters, unless one word is longer. No word is broken,
/// and none is moved past another. The columns of a table stay aligned.
pub(crate) fn folded(text: &str, columns: usize) -> String {
    let lines = text.split('\n').collect::<Vec<_>>();
    let mut folded = Vec::new();
    for block in lines.chunk_by(|above, below| is_part(above) && is_part(below)) {
        match block {
            _ if block.iter().all(|line| length(line) <= columns) => {
                folded.extend(block.iter().map(|line| (*line).to_owned()));
            }
            [line] if !is_part(line) => folded.extend(wrapped(line, indent(line), columns)),
            rows => folded.extend(Table::new(rows, columns).lines()),
        }
    }
    folded.join("\n")
}

/// The number of visible characters: colours take no room.
fn length(line: &str) -> usize {
    let mut parts = line.split('\x1b');
    let plain = parts.next().map_or(0, |text| text.chars().count());
    let coloured = parts.map(|part| part.split_once('m').map_or("", |(_, text)| text));
    plain + coloured.map(|text| text.chars().count()).sum::<usize>()
}

fn indent(line: &str) -> usize {
    line.chars().take_while(|c| *c == ' ').count()
}

/// Whether a line has several columns: two spaces are between them.
fn is_row(line: &str) -> bool {
    line.trim().contains("  ") || is_rule(line)
}

/// Whether a line may be part of a table: a row, or what continues the text of one.
fn is_part(line: &str) -> bool {
    is_row(line) || indent(line) > INDENT
}

/// Whether a line is drawn below the header or above the foot of a table.
fn is_rule(line: &str) -> bool {
    line.len() > 1 && line.bytes().all(|byte| byte == b'-')
}

/// A line broken at spaces; lines after the first begin with `hanging` spaces, or with fewer if
/// little room would be left.
fn wrapped(line: &str, hanging: usize, columns: usize) -> Vec<String> {
    let hanging = if hanging > columns / 2 { INDENT.min(columns / 2) } else { hanging };
    let begin = indent(line).min(columns / 2);
    let mut lines = vec![" ".repeat(begin)];
    for word in line.trim_start().split_inclusive(' ') {
        let is_full = |line: &String| {
            !line.trim().is_empty() && length(line) + length(word.trim_end()) > columns
        };
        if lines.last().is_some_and(is_full) {
            lines.push(" ".repeat(hanging));
        }
        if let Some(line) = lines.last_mut() {
            line.push_str(word);
        }
    }
    lines.iter().map(|line| line.trim_end().to_owned()).collect()
}

/// The rows of a table that is too wide.
struct Table<'t> {
    rows: &'t [&'t str],
    columns: usize,
    /// The columns of the table that share a line, by their characters.
    parts: Vec<Range<usize>>,
}

impl<'t> Table<'t> {
    fn new(rows: &'t [&'t str], columns: usize) -> Self {
        let cells = cells(rows);
        let mut parts = Vec::<Range<usize>>::new();
        for cell in &cells {
            match parts.last_mut() {
                Some(part) if part_indent(part.start) + cell.end - part.start <= columns => {
                    part.end = cell.end;
                }
                _ => parts.push(cell.clone()),
            }
        }
        // A long text in the last column is broken within this column.
        if let [.., before, text] = &mut parts[..]
            && cells.last() == Some(&*text)
            && part_indent(before.start) + text.start - before.start <= columns / 2
        {
            before.end = text.end;
            parts.pop();
        }
        Self { rows, columns, parts }
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for row in self.rows {
            if is_rule(row) {
                lines.push("-".repeat(row.len().min(self.columns)));
                continue;
            }
            let chars = row.chars().collect::<Vec<_>>();
            for part in &self.parts {
                let end = part.end.min(chars.len());
                let cells = chars.get(part.start..end).unwrap_or_default();
                let cells = cells.iter().collect::<String>();
                if !cells.trim().is_empty() {
                    let line = " ".repeat(part_indent(part.start)) + cells.trim_end();
                    lines.extend(wrapped(&line, last_column(&line), self.columns));
                }
            }
        }
        lines
    }
}

/// The indentation of the columns of a table from character `start` on.
fn part_indent(start: usize) -> usize {
    if start == 0 { 0 } else { INDENT }
}

/// Where the last column of a row begins.
fn last_column(row: &str) -> usize {
    let (before, last) = row.rsplit_once("  ").unwrap_or(("", row));
    if before.trim().is_empty() { indent(row) } else { length(row) - length(last) }
}

/// The columns of a table, by their characters: two spaces or more are between them in every row.
fn cells(rows: &[&str]) -> Vec<Range<usize>> {
    let rows = rows.iter().filter(|row| !is_rule(row)).map(|row| row.chars().collect::<Vec<_>>());
    let rows = rows.collect::<Vec<_>>();
    let width = rows.iter().map(Vec::len).max().unwrap_or(0);
    let is_blank = |at: usize| rows.iter().all(|row| row.get(at).is_none_or(|c| *c == ' '));
    let mut cells = Vec::<Range<usize>>::new();
    for at in (0..width).filter(|&at| !is_blank(at)) {
        match cells.last_mut() {
            Some(cell) if at - cell.end < 2 => cell.end = at + 1,
            Some(_) => cells.push(at..at + 1),
            // The indentation of the table belongs to its first column.
            None => cells.push(0..at + 1),
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::folded;

    #[test]
    fn sentences_are_broken_at_spaces_and_keep_their_indentation() {
        assert_eq!(folded("one two three", 13), "one two three");
        assert_eq!(folded("one two three\n", 9), "one two\nthree\n");
        assert_eq!(folded("  one two three", 9), "  one two\n  three");
        assert_eq!(folded("a/very/long/path is here", 8), "a/very/long/path\nis here");
        assert_eq!(folded("", 8), "");
    }

    #[test]
    fn colours_take_no_room() {
        let coloured = "\x1b[32mone\x1b[0m two";
        assert_eq!(folded(coloured, 7), coloured);
        assert_eq!(folded(coloured, 6), "\x1b[32mone\x1b[0m\ntwo");
    }

    #[test]
    fn columns_of_a_table_stay_aligned() {
        let table = "name     K   speedup  verdict\n\
                     -----------------------------\n\
                     model    8      3.23  faster\n\
                     a draft  16     1.10  too few";
        let narrow = "name     K   speedup\n    verdict\n\
                      --------------------\n\
                      model    8      3.23\n    faster\n\
                      a draft  16     1.10\n    too few";
        assert_eq!(folded(table, 29), table);
        assert_eq!(folded(table, 20), narrow);
    }

    #[test]
    fn a_list_with_a_text_is_broken_within_the_text() {
        let list = "  run   measures all cells\n        once\n  plan  lists";
        let narrow = "  run   measures\n        all cells\n        once\n  plan  lists";
        assert_eq!(folded(list, 18), narrow);
    }

    /// Catches: a word is broken, lost or moved.
    #[test]
    fn words_stay_whole_and_in_order() {
        let text = "warning: the machine was busy\n\n\
                    a      bb     ccc    dddd   e\n1      2      3      4      5\n  last line";
        for columns in 1..40 {
            let folded = folded(text, columns);
            assert!(folded.split_whitespace().eq(text.split_whitespace()), "{columns}:\n{folded}");
        }
    }
}

//! The segments of a long file of rows: Parquet files, which programs that read columns can
//! open. The rows of `rounds.csv` come after those of `rounds-00001.parquet`,
//! `rounds-00002.parquet` and so on.

mod read;
mod write;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

pub(crate) use self::read::{each_packed, each_packed_place, first_packed, salvage};
pub(crate) use self::write::SegmentWriter;
use super::file::RawRow;

/// Nanoseconds in a microsecond: segments hold times in the former, rows in the latter.
const NANOSECONDS: f64 = 1e3;

/// The digits of the number in a segment's name; more, if there are more segments.
const DIGITS: usize = 5;

/// The segments of a file of the folder, in order; none if its rows stay in text.
///
/// # Errors
/// Names the folder if it cannot be listed.
pub(crate) fn segments<R: RawRow>(folder: &Path) -> Result<Vec<PathBuf>> {
    let found = numbered::<R>(folder)?;
    Ok(found.into_iter().map(|number| folder.join(name::<R>(number))).collect())
}

/// The segment that comes after those of a file.
///
/// # Errors
/// Names the folder if it cannot be listed.
pub(crate) fn next_segment<R: RawRow>(folder: &Path) -> Result<PathBuf> {
    let last = numbered::<R>(folder)?.last().copied().unwrap_or(0);
    Ok(folder.join(name::<R>(last + 1)))
}

/// The numbers of the segments, ascending.
fn numbered<R: RawRow>(folder: &Path) -> Result<Vec<u32>> {
    if R::SEGMENT.is_empty() {
        return Ok(Vec::new());
    }
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(|| format!("cannot read {}", folder.display()))?,
    };
    let number = |entry: fs::DirEntry| {
        let found = entry.file_name().into_string().ok()?;
        let number = found.strip_prefix(R::SEGMENT)?.strip_prefix('-')?.strip_suffix(".parquet")?;
        number.parse().ok().filter(|number| name::<R>(*number) == found)
    };
    let mut numbers = entries.flatten().filter_map(number).collect::<Vec<u32>>();
    numbers.sort_unstable();
    Ok(numbers)
}

fn name<R: RawRow>(number: u32) -> String {
    format!("{}-{number:0DIGITS$}.parquet", R::SEGMENT)
}

#[cfg(test)]
mod tests {
    use super::super::records::{BeamRow, GenerationRow, PositionRow, RoundRow, TextRow};
    use super::super::text::text_of;
    use super::*;

    fn written<R: RawRow>(file: &Path, rows: &[R]) {
        let mut out = SegmentWriter::new(fs::File::create(file).unwrap()).unwrap();
        for row in rows {
            out.row(row.clone()).unwrap();
        }
        out.end().unwrap();
    }

    fn read<R: RawRow>(file: &Path) -> Vec<R> {
        let mut rows = Vec::new();
        each_packed(file, |row| {
            rows.push(row);
            Ok(())
        })
        .unwrap();
        rows
    }

    /// Rows with values of every kind, more than are written or read at once.
    fn rounds() -> Vec<RoundRow> {
        let numbers = [0.0, -0.0, 0.1, 1.0 / 3.0, 5e-324, f64::MAX, -1e-9, 123_456.789];
        let names = ["", "=1+1", "'=1", "''", "naïve \"x\", y", "\u{1F600}\n"];
        let row = |i: usize| RoundRow {
            cell: format!("cell-{}", i / 1000),
            prompt: names[i / 100 % names.len()].to_owned(),
            repeat: [0, 1, u32::MAX][i % 3],
            round: [i as u64, u64::MAX, i64::MAX as u64 + 1][i % 7 % 3],
            context_tokens: i,
            truncated: i.is_multiple_of(5),
            overlap_sum: numbers[i % numbers.len()],
            ceiling_sum: (!i.is_multiple_of(3)).then_some(numbers[i / 3 % numbers.len()]),
            tv_sum: (70_000..70_010).contains(&i).then_some(0.25),
            draft_us: (i * 1001) as f64 / 1e3,
            other_us: [0.0, 0.001, (1_u64 << 50) as f64 / 1e3][i % 3],
            accepted_raw: Some(i % 5),
            experts: Some(i % 9),
            ..RoundRow::default()
        };
        (0..140_000).map(row).collect()
    }

    #[test]
    fn a_segment_gives_back_its_rows_to_the_bit() {
        let folder = tempfile::tempdir().unwrap();
        let (file, rounds) = (folder.path().join("a"), rounds());
        written(&file, &rounds);
        let found = read::<RoundRow>(&file);
        // Equality would not tell the zeros apart.
        assert!(text_of(&found, true).unwrap() == text_of(&rounds, true).unwrap());
        let (first, count) = first_packed::<RoundRow>(&file).unwrap().unwrap();
        assert_eq!((&first, count), (&rounds[0], rounds.len()));
        let mut places = rounds.iter();
        each_packed_place(&file, |row: RoundRow| {
            let RoundRow { cell, prompt, repeat, .. } = places.next().unwrap().clone();
            assert_eq!(row, RoundRow { cell, prompt, repeat, ..RoundRow::default() });
            Ok(())
        })
        .unwrap();
        assert!(places.next().is_none());
        let positions = (0..10).map(|i| PositionRow {
            cell: "c".to_owned(),
            node: i,
            parent: i.checked_sub(1),
            accepted: i % 2 == 0,
            p: f64::NAN,
            ..PositionRow::default()
        });
        let positions = positions.collect::<Vec<_>>();
        written(&file, &positions);
        let found = read::<PositionRow>(&file);
        assert!(text_of(&found, true).unwrap() == text_of(&positions, true).unwrap());
        let beam = BeamRow { log_prob: -0.1, score: 1.0 / 3.0, steps: 2, rows: 3 };
        let texts = [Some(beam), None].map(|beam| TextRow {
            tokens: vec![0, u32::MAX],
            text: "\u{1F600} \"x\"\n".to_owned(),
            beam,
            thinking: beam.map(|_| [1, 3]),
            ..TextRow::default()
        });
        written(&file, &texts);
        assert_eq!(read::<TextRow>(&file), texts);
    }

    #[test]
    fn a_time_within_a_nanosecond_is_refused() {
        let mut out = SegmentWriter::new(Vec::new()).unwrap();
        let row = GenerationRow { decode_us: 1.0005, ..GenerationRow::default() };
        out.row(row).unwrap();
        let why = out.end().unwrap_err().to_string();
        assert_eq!(why, "decode_us is 1.0005, which is no whole number of nanoseconds");
    }

    #[test]
    fn what_damage_leaves_of_a_segment_can_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let (file, rounds) = (folder.path().join("a"), rounds());
        written(&file, &rounds);
        let sound = fs::read(&file).unwrap();
        let saved = |bytes: &[u8]| {
            fs::write(&file, bytes).unwrap();
            assert!(each_packed(&file, |_: RoundRow| Ok(())).is_err());
            let mut rows = Vec::new();
            salvage(&file, |row: RoundRow| {
                rows.push(row);
                Ok(())
            })
            .unwrap();
            rows
        };
        // In the second of three groups of rows, and in the list of the groups.
        let mut damaged = sound.clone();
        damaged[sound.len() * 3 / 5] ^= 1;
        let (group, rows) = (1 << 16, saved(&damaged));
        assert!(rows == [&rounds[..group], &rounds[2 * group..]].concat(), "{}", rows.len());
        assert!(saved(&sound[..sound.len() - 1]).is_empty());
    }

    #[test]
    fn an_error_of_the_reader_of_the_rows_ends_the_reading() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        written(&file, &rounds());
        let mut seen = 0;
        let ended = each_packed(&file, |_: RoundRow| {
            seen += 1;
            if seen < 3 { Ok(()) } else { anyhow::bail!("enough") }
        });
        assert_eq!((ended.unwrap_err().to_string().as_str(), seen), ("enough", 3));
    }

    #[test]
    fn segments_are_known_by_name_and_numbered_on() {
        let folder = tempfile::tempdir().unwrap();
        let next = || next_segment::<RoundRow>(folder.path()).unwrap();
        assert!(next().ends_with("rounds-00001.parquet"));
        assert!(segments::<RoundRow>(&folder.path().join("none")).unwrap().is_empty());
        for name in [
            "rounds-00002.parquet",
            "rounds-100000.parquet",
            "rounds-00010.parquet",
            "rounds-3.parquet",
            "rounds-00004.parquet.partial",
            "rounds-00005.parquet.damaged",
            "rounds-+0006.parquet",
            "positions-00007.parquet",
            "generations-00008.parquet",
        ] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let found = segments::<RoundRow>(folder.path()).unwrap();
        let names = found.iter().map(|path| path.file_name().unwrap().to_str().unwrap());
        let expected = ["rounds-00002.parquet", "rounds-00010.parquet", "rounds-100000.parquet"];
        assert!(names.eq(expected));
        assert!(next().ends_with("rounds-100001.parquet"));
        assert!(segments::<TextRow>(folder.path()).unwrap().is_empty());
    }
}

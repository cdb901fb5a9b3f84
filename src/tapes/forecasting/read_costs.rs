//! Costs of passes from a CSV file, measured here by `specdec bench --costs` or on another machine.

use std::collections::BTreeMap;
use std::path::Path;

use crate::core::error::Error;
use crate::io::input::open_stream;
use crate::measure::bench::{
    CostRow, DRAFT_COST, DRAFT_PREFILL_COST, OUTSIDE_COST, PREFILL_COST, TARGET_COST,
};
use anyhow::{Context, Result, bail};

/// Costs in ms by rows, context and batch.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CostTable {
    target: Surface,
    draft: Surface,
    prefill: Surface,
    draft_prefill: Surface,
    outside: Surface,
}

/// Times by batch, context and rows.
#[derive(Debug, Clone, PartialEq, Default)]
struct Surface(BTreeMap<usize, BTreeMap<usize, BTreeMap<usize, f64>>>);

impl CostTable {
    /// Reads a file.
    ///
    /// # Errors
    /// If it is missing, a row is malformed, or the target's pass of one row is missing.
    pub fn read(path: &Path) -> Result<Self> {
        let opened = open_stream(path).map_err(|error| Error::file(path, error))?;
        let mut reader = csv::Reader::from_reader(opened);
        let mut table = Self::default();
        for (number, row) in reader.deserialize().enumerate() {
            let place = || format!("{}, row {}", path.display(), number + 1);
            table.add(row.with_context(place)?).with_context(place)?;
        }
        if table.target.0.is_empty() {
            bail!("{} has no row for a pass of the target", path.display());
        }
        for (batch, contexts) in &table.target.0 {
            let missing = contexts.iter().find(|(_, rows)| !rows.contains_key(&1));
            if let Some((context, _)) = missing {
                bail!(
                    "{} has no pass of one row at context {context} and batch {batch}, which is \
                     a step of plain decoding",
                    path.display()
                );
            }
        }
        Ok(table)
    }

    /// Adds a row.
    ///
    /// # Errors
    /// If a value is out of range.
    pub fn add(&mut self, row: CostRow) -> Result<()> {
        let CostRow { what, rows, context, batch, shared, ms } = row;
        let surface = match what.as_str() {
            "" | TARGET_COST => &mut self.target,
            DRAFT_COST => &mut self.draft,
            PREFILL_COST => &mut self.prefill,
            DRAFT_PREFILL_COST => &mut self.draft_prefill,
            OUTSIDE_COST => &mut self.outside,
            other => bail!(
                "what = {other}: allowed are {TARGET_COST}, {DRAFT_COST}, {PREFILL_COST}, \
                 {DRAFT_PREFILL_COST} and {OUTSIDE_COST}"
            ),
        };
        if rows == 0 || batch == 0 {
            bail!("rows = {rows}, batch = {batch}: allowed are numbers above 0");
        }
        let target = matches!(what.as_str(), "" | TARGET_COST);
        if !ms.is_finite() || ms < 0.0 || (target && ms == 0.0) {
            bail!("ms = {ms}: allowed is a finite number >= 0, above 0 for a pass of the target");
        }
        if shared > 0 {
            // Sequences of a tape have prompts of their own.
            return Ok(());
        }
        let place = surface.0.entry(batch).or_default().entry(context).or_default();
        if place.insert(rows, ms).is_some() {
            bail!("rows = {rows}, context = {context}, batch = {batch} occurs twice");
        }
        Ok(())
    }

    /// The batches for which passes of the target are known.
    pub fn batches(&self) -> impl Iterator<Item = usize> {
        self.target.0.keys().copied()
    }

    /// Whether the costs of drafting with a model are known.
    pub fn knows_draft(&self) -> bool {
        !self.draft.0.is_empty()
    }

    /// T: a pass of the target over `rows` rows per sequence, in ms. Rows and context may be
    /// means over sequences.
    pub fn target(&self, rows: f64, context: f64, batch: usize) -> f64 {
        self.target.at(rows, context, batch)
    }

    /// A pass of one row of the draft model, in ms; 0 if the file does not have it.
    pub fn draft(&self, context: f64, batch: usize) -> f64 {
        self.draft.at(1.0, context, batch)
    }

    /// Reading `rows` tokens of prompts, in ms; `None` if the file does not have it.
    pub fn prefill(&self, rows: f64, context: f64) -> Option<f64> {
        self.prefill.known(rows, context)
    }

    /// Reading `rows` tokens of prompts by the draft model, likewise.
    pub fn draft_prefill(&self, rows: f64, context: f64) -> Option<f64> {
        self.draft_prefill.known(rows, context)
    }

    /// The time outside passes in a round whose pass has `rows` rows, in ms; 0 if the file does
    /// not have it.
    pub fn outside(&self, rows: f64, context: f64, batch: usize) -> f64 {
        self.outside.at(rows, context, batch)
    }
}

impl Surface {
    /// Like [`Self::at`], for one sequence alone; `None` if nothing is known.
    fn known(&self, rows: f64, context: f64) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.at(rows, context, 1))
    }

    /// Linear between the known rows, contexts and batches. Beyond the largest number of rows, the
    /// last slope continues; beyond the known contexts and batches, the nearest value applies.
    fn at(&self, rows: f64, context: f64, batch: usize) -> f64 {
        between(&self.0, batch as f64, |contexts| {
            between(contexts, context, |of_rows| line(of_rows, rows))
        })
    }
}

/// Interpolates the values of the keys around `at`; 0 without keys.
fn between<T>(known: &BTreeMap<usize, T>, at: f64, value: impl Fn(&T) -> f64) -> f64 {
    let below = known.range(..=at.floor() as usize).next_back();
    let above = known.range(at.ceil() as usize..).next();
    match (below, above) {
        (Some((low, a)), Some((high, b))) if low < high => {
            let share = (at - *low as f64) / (high - low) as f64;
            let (a, b) = (value(a), value(b));
            a + share * (b - a)
        }
        (Some((_, one)), _) | (None, Some((_, one))) => value(one),
        (None, None) => 0.0,
    }
}

fn line(known: &BTreeMap<usize, f64>, rows: f64) -> f64 {
    let mut last = known.iter().rev();
    match (last.next(), last.next()) {
        (Some((&high, &b)), Some((&low, &a))) if rows > high as f64 => {
            // Noise must not make a long pass take no time, or a negative one.
            (b + (b - a) / (high - low) as f64 * (rows - high as f64)).max(b.min(a))
        }
        _ => between(known, rows, |ms| *ms),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[(&str, usize, usize, usize, f64)]) -> CostTable {
        let mut table = CostTable::default();
        for &(what, rows, context, batch, ms) in rows {
            table
                .add(CostRow { what: what.to_owned(), rows, context, batch, shared: 0, ms })
                .unwrap();
        }
        table
    }

    #[test]
    fn costs_are_linear_between_what_is_known() {
        let table = table(&[
            ("", 1, 100, 1, 10.0),
            ("", 5, 100, 1, 14.0),
            ("target", 1, 300, 1, 20.0),
            ("", 1, 100, 8, 30.0),
            ("draft", 1, 100, 1, 2.0),
            ("outside", 2, 0, 1, 0.5),
        ]);
        assert_eq!(table.target(1.0, 100.0, 1), 10.0);
        assert_eq!(table.target(3.0, 100.0, 1), 12.0);
        assert_eq!(table.target(7.0, 100.0, 1), 16.0, "beyond the last row the slope continues");
        assert_eq!(table.target(1.0, 200.0, 1), 15.0);
        assert_eq!(table.target(1.0, 50.0, 1), 10.0, "before the first context");
        assert_eq!(table.target(1.0, 9999.0, 1), 20.0, "after the last context");
        assert_eq!(table.target(1.0, 100.0, 2), 10.0 + 20.0 / 7.0);
        assert_eq!(table.target(3.5, 50.0, 1), 12.5, "a mean over sequences");
        assert_eq!((table.draft(7.0, 3), table.outside(9.0, 9.0, 9)), (2.0, 0.5));
    }

    #[test]
    fn a_falling_line_ends_where_it_was_known() {
        let table = table(&[("", 1, 1, 1, 2.0), ("", 5, 1, 1, 1.0)]);
        assert_eq!((table.target(5.0, 1.0, 1), table.target(40.0, 1.0, 1)), (1.0, 1.0));
    }

    #[test]
    fn impossible_costs_are_refused() {
        let row = CostRow { rows: 1, batch: 1, ms: 1.0, ..CostRow::default() };
        let mut known = CostTable::default();
        known.add(row.clone()).unwrap();
        for bad in [
            CostRow { rows: 0, ..row.clone() },
            CostRow { batch: 0, ..row.clone() },
            CostRow { ms: f64::NAN, ..row.clone() },
            CostRow { ms: -1.0, ..row.clone() },
            CostRow { rows: 2, ms: 0.0, ..row.clone() },
            CostRow { what: "verify".to_owned(), ..row.clone() },
            row,
        ] {
            assert!(known.add(bad.clone()).is_err(), "{bad:?}");
        }
    }
}

//! Acceptance, tokens per pass and speedup along every numeric setting that
//! takes at least three values.

use std::collections::{BTreeMap, BTreeSet};

use kuva::render::layout::TickFormat;

use super::sheet::{Panel, Point, Sheet, axes, axis_end, line, marked, step};
use super::{Data, Figure};
use crate::experiment::Cell;
use crate::experiment::records::SummaryRow;
use crate::params::Value;

/// Fewer points are no line.
const POINTS: usize = 3;

/// Everything that tells two cells apart, as text.
type Attributes = BTreeMap<String, String>;

/// A figure per setting.
pub(super) fn draw(data: &Data<'_>) -> Vec<(Figure, Sheet)> {
    let cells = data.series.iter().flat_map(|s| &s.cells).copied().collect::<Vec<_>>();
    let keys = cells.iter().flat_map(|cell| numbers(cell).into_keys()).collect::<BTreeSet<_>>();
    keys.iter().filter_map(|key| along(data, &cells, key)).collect()
}

fn along(data: &Data<'_>, cells: &[&Cell], key: &str) -> Option<(Figure, Sheet)> {
    let mut groups = BTreeMap::<Attributes, Vec<(f64, &SummaryRow)>>::new();
    for cell in cells {
        let (Some(x), Some(row)) = (numbers(cell).get(key).copied(), data.row(&cell.id)) else {
            continue;
        };
        let mut attributes = attributes(cell);
        attributes.remove(key);
        groups.entry(attributes).or_default().push((x, row));
    }
    groups.retain(|_, points| points.len() >= POINTS);
    if groups.is_empty() {
        return None;
    }
    groups.values_mut().for_each(|points| points.sort_by(|a, b| a.0.total_cmp(&b.0)));
    let legend = labels(groups.keys().collect());
    let groups = groups.into_values().collect::<Vec<_>>();
    let panels = PANELS.iter().map(|panel| panel.draw(key, &groups)).collect();
    let legend = legend.iter().enumerate().map(|(i, label)| marked(label, i)).collect();
    let caption = format!(
        "alpha, tokens per target pass and speedup over plain decoding by `{key}`; bands are 95 % \
         bootstrap intervals over prompts."
    );
    let title = format!("What depends on {key}");
    let figure = Figure { name: format!("by_{key}"), caption };
    Some((figure, Sheet { title, columns: 3, panels, legend }))
}

/// A measure of cells.
struct Measure {
    label: &'static str,
    /// Value, lower and upper end.
    of: fn(&SummaryRow) -> [Option<f64>; 3],
    unit: bool,
}

const PANELS: &[Measure] = &[
    Measure { label: "alpha", of: |r| [r.alpha, r.alpha_lo, r.alpha_hi], unit: true },
    Measure {
        label: "tokens per target pass",
        of: |r| [r.block_efficiency, r.block_efficiency_lo, r.block_efficiency_hi],
        unit: false,
    },
    Measure {
        label: "speedup over plain decoding (×)",
        of: |r| [r.speedup, r.speedup_lo, r.speedup_hi],
        unit: false,
    },
];

impl Measure {
    fn draw(&self, key: &str, groups: &[Vec<(f64, &SummaryRow)>]) -> Panel {
        let point = |&(x, row): &(f64, &SummaryRow)| {
            let [y, lo, hi] = (self.of)(row);
            Some(Point { x, y: y?, interval: lo.zip(hi) })
        };
        let lines = groups.iter().map(|g| g.iter().filter_map(point).collect::<Vec<_>>());
        let lines = lines.collect::<Vec<_>>();
        let points = || lines.iter().flatten();
        let top = points().map(|p| p.interval.map_or(p.y, |(_, hi)| hi.max(p.y)));
        let top = if self.unit { 1.0 } else { axis_end(top.fold(1.0, f64::max)) };
        let xs = points().map(|p| p.x);
        let (lo, hi) = xs.fold((f64::MAX, f64::MIN), |(a, b), x| (a.min(x), b.max(x)));
        let margin = (hi - lo).max(1e-9) / 20.0;
        let layout = axes(self.label, (lo - margin, hi + margin, key), (0.0, top, self.label))
            .with_x_tick_step(step(hi - lo))
            .with_x_tick_format(TickFormat::Auto);
        let plots = lines.iter().enumerate().flat_map(|(i, points)| line(points, i)).collect();
        Panel { plots, layout }
    }
}

/// Names that mention only what varies between groups.
fn labels(groups: Vec<&Attributes>) -> Vec<String> {
    let varies = |key: &&String| groups.iter().any(|g| g.get(*key) != groups[0].get(*key));
    let keys = groups.iter().flat_map(|g| g.keys()).collect::<BTreeSet<_>>();
    let keys = keys.into_iter().filter(varies).collect::<Vec<_>>();
    let label = |group: &&Attributes| {
        let parts = keys.iter().filter_map(|key| Some(format!("{key} = {}", group.get(*key)?)));
        match &*parts.collect::<Vec<_>>().join(", ") {
            "" => format!("{} + {}", group["drafter"], group["verifier"]),
            label => label.to_owned(),
        }
    };
    groups.iter().map(label).collect()
}

/// The numeric settings of a cell; the draft's temperature is the target's
/// where nothing else is said.
fn numbers(cell: &Cell) -> BTreeMap<String, f64> {
    let s = &cell.sampling;
    let mut all = BTreeMap::from([
        ("temperature".to_owned(), s.temperature),
        ("top_k".to_owned(), s.top_k as f64),
        ("top_p".to_owned(), s.top_p),
        ("min_p".to_owned(), s.min_p),
        ("draft_temperature".to_owned(), s.temperature),
    ]);
    for (key, value) in cell.params.iter() {
        match value {
            Value::Number(x) => _ = all.insert(key.to_owned(), *x),
            Value::Count(n) => _ = all.insert(key.to_owned(), *n as f64),
            Value::Text(_) => {}
        }
    }
    all
}

fn attributes(cell: &Cell) -> Attributes {
    let mut all = Attributes::from([
        ("drafter".to_owned(), cell.drafter.clone()),
        ("verifier".to_owned(), cell.verifier.clone()),
        ("length".to_owned(), cell.length.clone()),
        ("K".to_owned(), cell.num_speculative_tokens.to_string()),
    ]);
    let s = &cell.sampling;
    for (key, value) in
        [("temperature", s.temperature), ("top_k", s.top_k as f64), ("top_p", s.top_p)]
    {
        all.insert(key.to_owned(), value.to_string());
    }
    all.insert("min_p".to_owned(), s.min_p.to_string());
    all.extend(cell.params.iter().map(|(key, value)| (key.to_owned(), value.to_string())));
    all
}

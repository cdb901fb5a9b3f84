//! What approximate verifiers pay for their speed.

use std::collections::BTreeMap;

use kuva::render::layout::TickFormat;

use super::sheet::{Panel, Point, Sheet, axes, axis_end, columns, marked, step, whiskers};
use super::{Data, SummaryRow};

pub(super) fn draw(data: &Data<'_>) -> Option<Sheet> {
    let rows = || data.summary.iter().filter(|row| !row.control && place(row).is_some());
    let furthest = rows().filter_map(|row| row.tv).reduce(f64::max)?;
    let top = rows().flat_map(|row| [row.speedup, row.speedup_hi]).flatten().fold(1.0, f64::max);
    let mut lines = BTreeMap::<String, usize>::new();
    for series in &data.series {
        for cell in &series.cells {
            let next = lines.len();
            if let Some(row) = data.row(&cell.id).filter(|row| place(row).is_some()) {
                lines.entry(name(row)).or_insert(next);
            }
        }
    }
    let panels = data.names(|s| &s.sampling);
    let columns = columns(panels.len());
    let panels = panels.iter().map(|sampling| {
        let mut groups = BTreeMap::<usize, Vec<Point>>::new();
        for cell in data.series.iter().filter(|s| s.sampling == *sampling).flat_map(|s| &s.cells) {
            let Some(row) = data.row(&cell.id) else { continue };
            let (Some((x, y)), Some(&i)) = (place(row), lines.get(&name(row))) else { continue };
            let interval = row.speedup_lo.zip(row.speedup_hi);
            groups.entry(i).or_default().push(Point { x, y, interval });
        }
        groups.values_mut().for_each(|points| points.sort_by(|a, b| a.x.total_cmp(&b.x)));
        let end = axis_end(furthest.max(0.01));
        let x = (-end / 30.0, end, "total variation per token");
        let layout = axes(sampling, x, (0.0, axis_end(top), "speedup over plain decoding (×)"))
            .with_x_tick_step(step(end))
            .with_x_tick_format(TickFormat::Auto);
        let plots = groups.iter().flat_map(|(&i, points)| whiskers(points, i, true)).collect();
        Panel { plots, layout }
    });
    let panels = panels.collect();
    let mut legend = lines.into_iter().collect::<Vec<_>>();
    legend.sort_by_key(|(_, i)| *i);
    let legend = legend.iter().map(|(name, i)| marked(name, *i)).collect();
    let title = "Speed against distance from the target's law".to_owned();
    Some(Sheet { title, columns, panels, legend })
}

/// Distance and speedup. Without a distance only an approximate cell has no
/// place: the others are exact.
fn place(row: &SummaryRow) -> Option<(f64, f64)> {
    let distance = row.tv.or((!row.class.starts_with('X')).then_some(0.0))?;
    Some((distance, row.speedup?))
}

/// The group that a cell belongs to: its settings vary within it.
fn name(row: &SummaryRow) -> String {
    let k = row.num_speculative_tokens.unwrap_or(0);
    format!("{} + {}, K = {k}", row.drafter, row.verifier)
}

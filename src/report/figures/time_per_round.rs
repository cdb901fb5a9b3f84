//! Where the time of a round goes.

use kuva::plot::BarPlot;

use super::Data;
use super::sheet::{Panel, Sheet, axes, axis_end, colour, filled};
use crate::experiment::Cell;
use crate::experiment::statistics::{rounds, timed};

const PARTS: [&str; 4] = ["target", "draft", "verify", "other"];

pub(super) fn draw(data: &Data<'_>) -> Option<Sheet> {
    let (methods, samplings) = (data.names(|s| &s.method), data.names(|s| &s.sampling));
    // A row of panels per method, a column per sampling setting.
    let grid = methods.iter().flat_map(|m| samplings.iter().map(move |s| (m, s)));
    let series = grid.filter_map(|(method, sampling)| data.find(method, sampling));
    let series = series.filter_map(|series| {
        let baseline = data.results.plan.baseline_of(series.cells[0]);
        let cells = baseline.into_iter().chain(series.cells.iter().copied());
        let bars = cells.filter_map(|c| Some((c.num_speculative_tokens, parts(data, c)?)));
        let bars = bars.collect::<Vec<_>>();
        (!bars.is_empty()).then(|| (format!("{}, {}", series.method, series.sampling), bars))
    });
    let series = series.collect::<Vec<_>>();
    let totals = series.iter().flat_map(|(_, bars)| bars).map(|(_, p)| p.iter().sum::<f64>());
    let top = totals.fold(0.0, f64::max);
    if top == 0.0 {
        return None;
    }
    let panels = series
        .into_iter()
        .map(|(title, bars)| {
            let labels = bars.iter().map(|(k, _)| k.to_string()).collect::<Vec<_>>();
            let mut plot = BarPlot::new().with_width(0.7).with_stacked();
            for ((_, parts), label) in bars.iter().zip(&labels) {
                let parts = parts.iter().enumerate().map(|(i, ms)| (*ms, colour(i).to_owned()));
                plot = plot.with_group(label.as_str(), parts);
            }
            let x = (0.5, labels.len() as f64 + 0.5, "draft length K (tokens; 0 = plain)");
            let layout = axes(&title, x, (0.0, axis_end(top), "time per round (ms)"))
                .with_x_categories(labels);
            Panel { plots: vec![plot.into()], layout }
        })
        .collect();
    let legend = PARTS.iter().enumerate().map(|(i, part)| filled(part, i)).collect();
    let title = "Time per round and where it goes".to_owned();
    Some(Sheet { title, columns: samplings.len().min(3), panels, legend })
}

/// Mean milliseconds per round in the order of [`PARTS`].
fn parts(data: &Data<'_>, cell: &Cell) -> Option<[f64; 4]> {
    let mut sums = [0.0; 4];
    let mut n = 0.0;
    for round in rounds(timed(data.results.samples(&cell.id))) {
        let us = [round.target_us, round.draft_us, round.verify_us, round.other_us];
        sums.iter_mut().zip(us).for_each(|(sum, us)| *sum += us / 1000.0);
        n += 1.0;
    }
    (n > 0.0).then(|| sums.map(|sum| sum / n))
}

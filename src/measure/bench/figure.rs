//! Draws the costs of passes and the best speedups.

use anyhow::{Result, bail};

use super::{Measured, RoundCosts};
use crate::measure::plot::{
    Axis, Body, Curve, Even, Grid, LegendEntry, LegendSample, Page, Panel, Point, hue,
};

/// Acceptances for which the best speedup is drawn, in percent.
const ACCEPTANCES: std::ops::RangeInclusive<u32> = 30..=95;

/// Draws T(m) / T(1) by number of rows and, given `costs`, the best speedup by acceptance, as SVG.
///
/// # Errors
/// If T(1) has too few undisturbed samples.
pub fn draw(title: &str, measured: &Measured, costs: Option<&RoundCosts>) -> Result<String> {
    let Some(one) = measured.passes[0].median() else {
        bail!("there is nothing to draw: too few undisturbed samples of T(1)");
    };
    let mut panels = vec![passes(measured, one)];
    let mut legend = Vec::new();
    if let Some(costs) = costs {
        panels.push(speedups(costs));
        legend.push(LegendEntry::new("slower than plain decoding", LegendSample::Loss));
    }
    let (title, body) = (title.to_owned(), Body::Grid(Grid { panels }));
    Ok(Page { title, notes: Vec::new(), legend, body }.draw())
}

fn passes(measured: &Measured, one: f64) -> Panel {
    let rows = (1..).zip(&measured.passes);
    let points = rows.filter_map(|(rows, timing)| Some((f64::from(rows), timing.median()? / one)));
    let points = points.collect();
    panel("cost of a pass", ("rows m of a pass", "T(m) / T(1)"), points, None)
}

fn speedups(costs: &RoundCosts) -> Panel {
    let best = |percent: u32| {
        let acceptance = f64::from(percent) / 100.0;
        (acceptance, costs.best(acceptance).speedup)
    };
    let points = ACCEPTANCES.step_by(5).map(best).collect();
    let axes = ("acceptance α", "speedup over plain decoding (×)");
    panel("at the best K", axes, points, Some(Even::Loss))
}

fn panel(title: &str, axes: (&str, &str), points: Vec<(f64, f64)>, even: Option<Even>) -> Panel {
    let x = Axis::of_settings(axes.0, points.iter().map(|(x, _)| *x));
    let y = Axis::holding(axes.1, points.iter().map(|(_, y)| *y).chain([0.0, 1.0]));
    let points = points.into_iter().map(|(x, y)| Point { x, y, ..Point::default() }).collect();
    let curves = vec![Curve { style: hue(0), points, predicted: Vec::new() }];
    Panel { title: title.to_owned(), x, y, even, curves }
}

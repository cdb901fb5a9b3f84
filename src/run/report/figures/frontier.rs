//! Draws speedup against total variation from the target: the price of approximation.

use super::data::{Data, once, timed};
use super::facets::even;
use crate::measure::plot::{
    Axis, Body, Curve, Even, Grid, HUES, LegendEntry, LegendSample, MOST_PANELS, Page, Panel,
    Point, Style, distinct, hue, reach,
};
use crate::measure::rows::SummaryRow;
use crate::run::report::run::{CellView, Series};

/// A cell with a known total variation, as a point of the figure.
struct Spot<'d> {
    cell: &'d CellView,
    /// The method without its settings.
    name: String,
    point: Point,
}

pub(super) fn draw(data: &Data<'_>) -> Option<Page> {
    let all = data.run.series().flat_map(|series| spots(data, &series)).collect::<Vec<_>>();
    let lossy = |spot: &Spot<'_>| spot.cell.row.tv.is_some();
    if !all.iter().any(lossy) {
        return None;
    }
    let mut notes = Vec::new();
    let names = names(data, &all, &mut notes);
    let mut spots = all;
    spots.retain(|spot| names.contains(&spot.name));
    let settings = label(&mut spots);
    if !settings.is_empty() {
        notes.push(format!("Next to points: {}.", settings.join(", ")));
    }
    let styles = styles(data, &spots, &names);
    let points = || spots.iter().map(|spot| &spot.point);
    let x = points().flat_map(|p| reach(p.x, p.x_interval)).chain([0.0]);
    let x = Axis::holding("total variation per token", x).with_margin();
    let y = points().flat_map(|p| reach(p.y, p.y_interval));
    let y = Axis::around_one("speedup over plain decoding (×)", y);
    let panels = data.samplings().into_iter().map(|sampling| {
        let curve = |(name, style): (&String, &Style)| {
            let own = spots.iter().filter(|s| s.cell.sampling == sampling && s.name == *name);
            let mut points = own.map(|s| s.point.clone()).collect::<Vec<_>>();
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
            Curve { style: *style, points, predicted: Vec::new() }
        };
        let curves = names.iter().zip(&styles).map(curve).filter(|c| !c.points.is_empty());
        let (x, y, curves) = (x.clone(), y.clone(), curves.collect());
        Panel { title: sampling.to_owned(), x, y, even: Some(Even::Loss), curves }
    });
    let mut panels = panels.filter(|p| !p.curves.is_empty()).collect::<Vec<_>>();
    if panels.len() > MOST_PANELS {
        notes.push(format!("The first {MOST_PANELS} of {} sampling settings.", panels.len()));
        panels.truncate(MOST_PANELS);
    }
    let keys = names.iter().zip(&styles);
    let legend = keys
        .map(|(name, style)| LegendEntry::new(name, LegendSample::Curve(*style)))
        .chain([even()]);
    Some(Page {
        title: "Speed against distance from the target's distribution".to_owned(),
        notes,
        legend: legend.collect(),
        body: Body::Grid(Grid { panels }),
    })
}

/// The cells of a series that can be placed. Exact cells have a total variation of 0; an
/// approximate cell is left out if its total variation was not measured.
fn spots<'d>(data: &Data<'d>, series: &Series<'d>) -> Vec<Spot<'d>> {
    let place = |row: &SummaryRow| {
        Some(Point {
            x: row.tv.or((!row.class.starts_with('X')).then_some(0.0))?,
            y: row.speedup?,
            x_interval: row.tv_lo.zip(row.tv_hi),
            y_interval: row.speedup_lo.zip(row.speedup_hi),
            label: String::new(),
            key: row.cell.clone(),
        })
    };
    let spot = |cell: &'d CellView| {
        let k = format!(", K = {}", cell.method.num_speculative_tokens);
        let name = data.kin(cell) + if data.lengths_differ() { &k } else { "" };
        Some(Spot { cell, name, point: place(&cell.row)? })
    };
    timed(series).into_iter().filter_map(spot).collect()
}

/// The names that get a style of their own: the [`HUES`] with the fastest cells, or the first ones.
fn names(data: &Data<'_>, spots: &[Spot<'_>], notes: &mut Vec<String>) -> Vec<String> {
    let peak = |name: &str| {
        let own = spots.iter().filter(|s| s.name == name);
        own.map(|s| data.speed(s.cell)).fold(0.0, f64::max)
    };
    let all = once(spots.iter().map(|s| s.name.as_str()));
    let mut fastest = all.clone();
    fastest.sort_by(|a, b| peak(b).total_cmp(&peak(a)));
    fastest.truncate(HUES);
    if fastest.len() < all.len() {
        notes.push(format!("{HUES} of {} methods and K: {}.", all.len(), data.foremost()));
    }
    all.into_iter().filter(|name| fastest.contains(name)).map(str::to_owned).collect()
}

/// Labels every spot with the settings that distinguish it from others of the same name;
/// returns the keys of these settings.
fn label(spots: &mut [Spot<'_>]) -> Vec<String> {
    let value = |cell: &CellView, key: &str| cell.method.params.set(key).map(ToString::to_string);
    let varies = |of: &Spot<'_>, key: &str| {
        let same = spots.iter().filter(|s| s.name == of.name);
        same.clone().any(|s| value(s.cell, key) != value(of.cell, key))
    };
    let mut keys = Vec::<String>::new();
    let labels = spots.iter().map(|spot| {
        let own = spot.cell.method.params.iter().filter(|(key, _)| varies(spot, key));
        let own = own.collect::<Vec<_>>();
        for (key, _) in &own {
            if !keys.iter().any(|k| k == key) {
                keys.push((*key).to_owned());
            }
        }
        own.iter().map(|(_, value)| value.to_string()).collect::<Vec<_>>().join(", ")
    });
    let labels = labels.collect::<Vec<_>>();
    for (spot, label) in spots.iter_mut().zip(labels) {
        spot.point.label = label;
    }
    keys
}

/// The styles of the methods, or arbitrary distinct ones if those coincide.
fn styles(data: &Data<'_>, spots: &[Spot<'_>], names: &[String]) -> Vec<Style> {
    let style = |name: &String| {
        let first = spots.iter().find(|s| s.name == *name);
        first.map_or(hue(0), |s| data.looks.method(&s.cell.short))
    };
    let own = names.iter().map(style).collect::<Vec<_>>();
    if distinct(&own) { own } else { (0..names.len()).map(hue).collect() }
}

//! Draws acceptance, tokens per pass and speedup against every numeric setting that takes
//! at least three values. Every line has one K, and all lines the same one where they can: tokens
//! per pass grow with K, so that points of several K would compare the K.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use super::Figure;
use super::data::{CURVE, Data, timed};
use super::facets::even;
use super::methods::{ALPHA, Metric, SPEEDUP, TAU};
use crate::measure::plot::{
    Axis, Body, Curve, Grid, HUES, LegendEntry, LegendSample, Page, Panel, Point, Style, distinct,
    hue, ramp, reach,
};
use crate::run::report::run::CellView;
use crate::run::report::series::{KINDS, attributes};

/// Cells that differ only in one setting.
struct SettingLine<'d> {
    /// Except that setting and K.
    attributes: BTreeMap<String, String>,
    k: usize,
    /// A cell for each value of the setting, in order of increasing value.
    cells: Vec<(f64, &'d CellView)>,
}

/// The prefix of the names of these figures, before the name of the setting.
const BY: &str = "by_";

/// Whether this is the name of a figure by a setting.
pub(super) fn names(figure: &str) -> bool {
    figure.starts_with(BY)
}

/// One figure per setting that has enough values.
pub(super) fn draw(data: &Data<'_>) -> Vec<(Figure, Page)> {
    let keys =
        data.run.drafted().flat_map(|cell| numbers(cell).into_keys()).collect::<BTreeSet<_>>();
    keys.iter().filter_map(|key| along(data, key)).collect()
}

fn along(data: &Data<'_>, key: &str) -> Option<(Figure, Page)> {
    let mut notes = Vec::new();
    let mut lines = lines(data, key, &mut notes);
    if lines.is_empty() {
        return None;
    }
    let same_k = lines.iter().all(|line| line.k == lines[0].k);
    let at = if same_k { format!("K = {}", lines[0].k) } else { "one K per line".to_owned() };
    if data.lengths_differ() {
        notes.push(format!("At {at}."));
    }
    let styles = styles(data, &mut lines);
    let x = Axis::of_settings(key, lines.iter().flat_map(|l| &l.cells).map(|(x, _)| *x));
    let panels = MEASURES.iter().filter_map(|m| Some((m.title, panel(m, &x, &lines, &styles)?)));
    let (names, panels) = panels.unzip::<_, _, Vec<_>, Vec<_>>();
    let mut legend = Vec::new();
    if lines.len() > 1 {
        let keys = lines.iter().zip(&styles);
        let keys = keys.map(|(l, style)| {
            LegendEntry::new(label(data, l, &lines), LegendSample::Curve(*style))
        });
        legend.extend(keys);
    }
    legend.push(even());
    let name = format!("{BY}{key}");
    let names = names.join(", ");
    let caption = format!("By `{key}`: {names}; at {at}, with 95 % intervals over prompts.");
    let title = format!("Effect of {key}");
    let body = Body::Grid(Grid { panels });
    Some((Figure { name, caption }, Page { title, notes, legend, body }))
}

/// The lines along a setting. Lines with fewer than half as many values as the longest are
/// left out: they would mostly show what else their cells differ in.
fn lines<'d>(data: &'d Data<'_>, key: &str, notes: &mut Vec<String>) -> Vec<SettingLine<'d>> {
    let mut lines = one_k(data, every_k(data, key));
    let longest = lines.iter().map(|line| line.cells.len()).max().unwrap_or(0);
    lines.retain(|line| 2 * line.cells.len() >= longest);
    let all = lines.len();
    if all > HUES {
        let peak = |line: &SettingLine<'_>| {
            line.cells.iter().map(|(_, cell)| data.speed(cell)).fold(0.0, f64::max)
        };
        lines.sort_by(|a, b| peak(b).total_cmp(&peak(a)));
        lines.truncate(HUES);
        notes.push(format!("{HUES} of {all} lines: {}.", data.foremost()));
    }
    lines
}

/// The lines along a setting that have enough values for a curve, at every K.
fn every_k<'d>(data: &'d Data<'_>, key: &str) -> Vec<SettingLine<'d>> {
    let mut lines = Vec::<SettingLine<'_>>::new();
    for cell in data.run.series().flat_map(|series| timed(&series)) {
        let Some(&x) = numbers(cell).get(key) else { continue };
        let mut attributes = attributes(cell);
        attributes.remove(key);
        let k = cell.method.num_speculative_tokens;
        match lines.iter_mut().find(|line| line.k == k && line.attributes == attributes) {
            Some(line) => line.cells.push((x, cell)),
            None => lines.push(SettingLine { attributes, k, cells: vec![(x, cell)] }),
        }
    }
    for SettingLine { cells, .. } in &mut lines {
        cells.sort_by(|a, b| a.0.total_cmp(&b.0));
        cells.dedup_by_key(|(x, _)| *x);
    }
    lines.retain(|line| line.cells.len() >= CURVE);
    lines
}

/// One of the lines that differ in K alone: the one at the K that stands for all lines or, if they
/// have none there, at the K that stands for them.
fn one_k<'d>(data: &Data<'_>, mut lines: Vec<SettingLine<'d>>) -> Vec<SettingLine<'d>> {
    let of_all = common_k(data, lines.iter());
    let chosen = lines.iter().map(|line| {
        let own = || lines.iter().filter(|other| other.attributes == line.attributes);
        let has_it = own().any(|other| Some(other.k) == of_all);
        Some(line.k) == if has_it { of_all } else { common_k(data, own()) }
    });
    let mut chosen = chosen.collect::<Vec<_>>().into_iter();
    lines.retain(|_| chosen.next() == Some(true));
    lines
}

/// The K that stands for some lines: that with the most points and, of several, the fastest by the
/// geometric mean over them or, if the times give no verdict, the largest.
fn common_k<'l, 'd: 'l>(
    data: &Data<'_>,
    lines: impl Iterator<Item = &'l SettingLine<'d>>,
) -> Option<usize> {
    let mut sums = BTreeMap::<usize, (usize, f64)>::new();
    for line in lines {
        let (points, logs) = sums.entry(line.k).or_default();
        *points += line.cells.len();
        *logs += line.cells.iter().map(|(_, cell)| data.speed(cell).ln()).sum::<f64>();
    }
    let order = |&(_, (a, x)): &(usize, (usize, f64)), &(_, (b, y)): &(usize, (usize, f64))| {
        a.cmp(&b).then(x.total_cmp(&y))
    };
    sums.into_iter().max_by(order).map(|(k, _)| k)
}

/// The styles of the lines: those of their methods if all differ, else steps of a ramp if
/// the lines differ in a single number, else arbitrary distinct colours. Sorts lines on a
/// ramp by that number.
fn styles(data: &Data<'_>, lines: &mut [SettingLine<'_>]) -> Vec<Style> {
    let method = |line: &SettingLine<'_>| data.looks.method(&line.cells[0].1.short);
    let of_methods = lines.iter().map(method).collect::<Vec<_>>();
    if distinct(&of_methods) {
        return of_methods;
    }
    let count = lines.len();
    let keys = varying(lines);
    let number = |l: &SettingLine<'_>| l.attributes.get(keys.first()?)?.parse::<f64>().ok();
    if keys.len() == 1 && lines.iter().all(|l| number(l).is_some()) {
        lines.sort_by(|a, b| number(a).partial_cmp(&number(b)).unwrap_or(Ordering::Equal));
        return (0..count).map(|i| ramp(i, count)).collect();
    }
    (0..count).map(hue).collect()
}

/// The attributes in which the lines differ.
fn varying(lines: &[SettingLine<'_>]) -> Vec<String> {
    let keys = lines.iter().flat_map(|l| l.attributes.keys()).collect::<BTreeSet<_>>();
    let first = &lines[0].attributes;
    let varies = |key: &&String| lines.iter().any(|l| l.attributes.get(*key) != first.get(*key));
    keys.into_iter().filter(varies).cloned().collect()
}

/// The label of a line: the kind of method, if there are several, and the settings that
/// distinguish it from other lines of its kind.
fn label(data: &Data<'_>, line: &SettingLine<'_>, lines: &[SettingLine<'_>]) -> String {
    let kin = |l: &SettingLine<'_>| data.kin(l.cells[0].1);
    let own = kin(line);
    let mut parts = Vec::new();
    if lines.iter().any(|l| kin(l) != own) {
        parts.push(own.clone());
    }
    for (key, value) in line.attributes.iter().filter(|(key, _)| !KINDS.contains(&key.as_str())) {
        let others = lines.iter().filter(|l| kin(l) == own);
        if others.clone().any(|l| l.attributes.get(key) != Some(value)) {
            let key = if key == "temperature" { "T" } else { key };
            parts.push(format!("{key} = {value}"));
        }
    }
    if lines.iter().any(|l| l.k != line.k) {
        parts.push(format!("K = {}", line.k));
    }
    if parts.is_empty() { own } else { parts.join(", ") }
}

const MEASURES: &[Metric] = &[
    Metric { label: "alpha, mean Σ min(p, q)", ..ALPHA },
    Metric { title: "tokens per target pass", ..TAU },
    Metric {
        title: "speedup over plain decoding",
        label: "speedup over plain decoding (×)",
        ..SPEEDUP
    },
];

/// The panel of a metric; `None` if no line has enough points for a curve.
fn panel(metric: &Metric, x: &Axis, lines: &[SettingLine<'_>], styles: &[Style]) -> Option<Panel> {
    let point = |(x, cell): &(f64, &CellView)| {
        let [y, lo, hi, _] = (metric.of)(&cell.row);
        let key = cell.id.clone();
        Some(Point { x: *x, y: y?, y_interval: lo.zip(hi), key, ..Point::default() })
    };
    let curves = lines.iter().zip(styles).map(|(line, style)| Curve {
        style: *style,
        points: line.cells.iter().filter_map(point).collect(),
        predicted: Vec::new(),
    });
    let curves = curves.filter(|c| c.points.len() >= CURVE).collect::<Vec<_>>();
    let points = curves.iter().flat_map(|c| &c.points);
    let y = metric.axis(points.flat_map(|p| reach(p.y, p.y_interval)));
    let panel = Panel { title: String::new(), x: x.clone(), y, even: metric.even, curves };
    (!panel.curves.is_empty()).then_some(panel)
}

/// The numeric settings of a cell; the draft's temperature defaults to the target's, and to 0
/// in beam search.
fn numbers(cell: &CellView) -> BTreeMap<String, f64> {
    let goal = cell.goal_settings().into_iter().map(|(key, value)| (key, value.number()));
    let temperature = if cell.beam.is_some() { 0.0 } else { cell.method.sampling.temperature };
    let draft = ("draft_temperature", Some(temperature));
    let own = cell.method.params.iter().map(|(key, value)| (key, value.number()));
    let all = goal.chain([draft]).chain(own);
    all.filter_map(|(key, x)| Some((key.to_owned(), x?))).collect()
}

//! Assigns styles: a method looks the same in all figures of a run.

use std::collections::BTreeMap;

use super::data::{CURVE, Data, Looks, once, timed};
use crate::measure::plot::{HUES, MOST_PANELS, NEUTRAL, hue};
use crate::run::experiment::Cell;
use crate::run::report::run::Series;

/// Assigns a style to every method if there are at most [`HUES`]. Otherwise, the first of
/// these that applies:
/// - Methods that differ only in settings share a style, if there are enough styles and
///   either all curves remain distinct or every method can have a panel.
/// - No method has a style, if more than [`HUES`] methods are curves and every method can
///   have a panel.
/// - The methods that are curves have styles, at most the [`HUES`] fastest.
pub(super) fn assign(data: &Data<'_>) -> Looks {
    let all = data.methods();
    let curves = curves(data);
    let named = data.run.drafted().map(|cell| (&*cell.short, family(cell)));
    let named = named.collect::<BTreeMap<_, _>>();
    let family = |method: &&str| named[*method].clone();
    let families = all.iter().map(family).collect::<Vec<_>>();
    let distinct = once(families.iter().map(String::as_str));
    let of_curves = curves.iter().map(family).collect::<Vec<_>>();
    let apart = once(of_curves.iter().map(String::as_str)).len() == of_curves.len();
    // With one panel per method, curves are distinguished by their sampling setting.
    let panels = all.len() <= MOST_PANELS && data.samplings().len() <= HUES;
    let keys = if all.len() <= HUES {
        all.iter().map(|m| Some((*m).to_owned())).collect::<Vec<_>>()
    } else if distinct.len() <= HUES && (apart || panels) {
        families.iter().cloned().map(Some).collect()
    } else if curves.len() > HUES && panels {
        vec![None; all.len()]
    } else {
        let fastest = fastest(data, curves);
        all.iter().map(|m| fastest.contains(m).then(|| (*m).to_owned())).collect()
    };
    let seen = once(keys.iter().flatten().map(String::as_str));
    let style = |key: &Option<String>| {
        let at = seen.iter().position(|s| Some(*s) == key.as_deref());
        at.map_or(NEUTRAL, hue)
    };
    let methods = all.iter().zip(&keys).map(|(m, key)| ((*m).to_owned(), style(key)));
    Looks {
        methods: methods.collect(),
        samplings: data.samplings().into_iter().map(str::to_owned).collect(),
    }
}

/// Methods with enough points for a curve over K or over the positions of a draft.
fn curves<'a>(data: &Data<'a>) -> Vec<&'a str> {
    let positions = |series: &Series<'_>| series.longest().map_or(0, |cell| cell.survival.len());
    let curve = |series: &Series<'_>| timed(series).len().max(positions(series)) >= CURVE;
    once(data.run.series().filter(curve).map(|series| series.first().short.as_str()))
}

/// The [`HUES`] methods with the fastest cells, or the first ones.
fn fastest<'a>(data: &Data<'a>, mut methods: Vec<&'a str>) -> Vec<&'a str> {
    let peak = |method: &str| {
        let own = data.run.drafted().filter(|cell| cell.short == method);
        own.map(|cell| data.speed(cell)).fold(0.0, f64::max)
    };
    methods.sort_by(|a, b| peak(b).total_cmp(&peak(a)));
    methods.truncate(HUES);
    methods
}

/// A method without its settings.
fn family(cell: &Cell) -> String {
    format!("{} + {}, {}", cell.method.drafter, cell.method.verifier, cell.method.length)
}

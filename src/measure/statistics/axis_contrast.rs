//! What the values of one axis of a sweep change, pooled over everything else.
//!
//! A contrast compares a value of an axis with the axis's reference value. It is the geometric mean
//! of the ratios of all pairs of cells that differ in nothing else, so that a sweep gives one number
//! for a question, and not one for every other setting. The sampling unit stays the prompt, which
//! has a part in every pair.

use std::collections::{BTreeMap, BTreeSet};

use super::interval::{Interval, Ratio};

/// A cell of a sweep with what was measured, by prompt.
#[derive(Debug, Clone)]
pub struct AxisPoint<'p, const N: usize> {
    /// Its value on every axis.
    pub axes: BTreeMap<String, String>,
    /// By axis, those other axes that only its value on that axis has: the settings of a method.
    pub own: BTreeMap<&'static str, Vec<&'static str>>,
    /// What else must be equal.
    pub fixed: String,
    /// What each prompt adds to the sums above and below, as in [`Ratio::of`].
    pub prompts: BTreeMap<&'p str, ([f64; N], [f64; N])>,
}

/// A value of an axis, compared with another one.
#[derive(Debug, Clone, PartialEq)]
pub struct AxisContrast {
    /// The axis.
    pub axis: String,
    /// Its value.
    pub value: String,
    /// The value with which that is compared.
    pub against: String,
    /// The number of pairs of cells that differ in the axis alone.
    pub pairs: usize,
    /// The number of prompts, which all of these cells have.
    pub prompts: usize,
    /// The geometric mean of the ratios of the pairs.
    pub ratio: Option<f64>,
    /// Its 95 % interval over prompts.
    pub interval: Option<Interval>,
    /// For each prompt, the mean over pairs of the logarithm of its own ratio.
    pub logs: Vec<f64>,
}

/// The contrasts of all axes on which points differ. An axis is compared with the value that
/// `references` names or else the first one.
pub fn axis_contrasts<const N: usize>(
    points: &[AxisPoint<'_, N>],
    references: &[(&str, &str)],
) -> Vec<AxisContrast> {
    let axes = points.iter().flat_map(|point| point.axes.keys()).collect::<BTreeSet<_>>();
    let mut found = Vec::new();
    for axis in axes {
        let mut values = Vec::new();
        for value in points.iter().filter_map(|point| point.axes.get(axis)) {
            if !values.contains(&value) {
                values.push(value);
            }
        }
        let named = references.iter().find(|(name, _)| name == axis).map(|(_, value)| *value);
        let against = values.iter().find(|value| Some(value.as_str()) == named);
        let against = *against.unwrap_or(&values[0]);
        let others = values.iter().filter(|value| **value != against);
        found.extend(others.filter_map(|value| contrast(points, axis, [*value, against])));
    }
    found
}

fn contrast<const N: usize>(
    points: &[AxisPoint<'_, N>],
    axis: &str,
    [value, against]: [&String; 2],
) -> Option<AxisContrast> {
    let with = |wanted| points.iter().filter(move |point| point.axes.get(axis) == Some(wanted));
    let mut references = BTreeMap::<_, Vec<_>>::new();
    for point in with(against) {
        references.entry(point.rest(axis)).or_default().push(point);
    }
    let pairs = with(value).flat_map(|point| {
        let same = references.get(&point.rest(axis)).into_iter().flatten();
        same.map(move |other| (point, *other))
    });
    let (pairs, prompts) = on_common_prompts(pairs.collect())?;
    let ratios = pairs.iter().map(|(own, other)| own.ratio(&prompts).over(&other.ratio(&prompts)));
    let ratio = Ratio::geometric_mean(ratios.collect())?;
    let logs = prompts.iter().filter_map(|prompt| {
        let log = |point: &AxisPoint<'_, N>| Some(point.ratio(&[*prompt]).value()?.ln());
        let logs = pairs.iter().map(|(own, other)| Some(log(own)? - log(other)?));
        let mean = logs.sum::<Option<f64>>()? / pairs.len() as f64;
        mean.is_finite().then_some(mean)
    });
    Some(AxisContrast {
        axis: axis.to_owned(),
        value: value.clone(),
        against: against.clone(),
        pairs: pairs.len(),
        prompts: prompts.len(),
        ratio: ratio.value(),
        interval: ratio.interval(),
        logs: logs.collect(),
    })
}

/// Two cells.
type AxisPair<'s, 'p, const N: usize> = (&'s AxisPoint<'p, N>, &'s AxisPoint<'p, N>);

/// The pairs with the most prompts, and the prompts that all of them have. A cell that failed on
/// prompts that others finished would take these away from all.
fn on_common_prompts<'s, 'p, const N: usize>(
    pairs: Vec<AxisPair<'s, 'p, N>>,
) -> Option<(Vec<AxisPair<'s, 'p, N>>, Vec<&'p str>)> {
    let common = |(own, other): &AxisPair<'s, 'p, N>| {
        let names = own.prompts.keys().filter(|name| other.prompts.contains_key(*name));
        names.copied().collect::<BTreeSet<_>>()
    };
    let each = pairs.iter().map(common).collect::<Vec<_>>();
    let most = each.iter().map(BTreeSet::len).max().filter(|most| *most > 0)?;
    let (pairs, each) = pairs
        .into_iter()
        .zip(each)
        .filter(|(_, own)| own.len() == most)
        .unzip::<_, _, Vec<_>, Vec<_>>();
    let prompts = each.into_iter().reduce(|a, b| &a & &b)?;
    Some((pairs, prompts.into_iter().collect()))
}

impl<const N: usize> AxisPoint<'_, N> {
    /// What must be equal in two points that are compared along an axis.
    fn rest(&self, axis: &str) -> (&str, BTreeMap<&str, &str>) {
        let own = self.own.get(axis).map_or(&[][..], Vec::as_slice);
        let rest = self.axes.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        (&self.fixed, rest.filter(|(key, _)| *key != axis && !own.contains(key)).collect())
    }

    fn ratio(&self, prompts: &[&str]) -> Ratio {
        Ratio::of(prompts.iter().filter_map(|prompt| self.prompts.get(prompt).copied()))
    }
}

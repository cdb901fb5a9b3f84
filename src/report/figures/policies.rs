//! Draft length policies against the best fixed length.

use super::Data;
use super::rows::{Value, panel};
use super::sheet::{DOTS, Sheet, marked, stroked};
use crate::report::policies::policies;

pub(super) fn draw(data: &Data<'_>) -> Option<Sheet> {
    let policies = policies(data.results, &data.series);
    let rows = data.names(|s| &s.sampling);
    let mut methods = Vec::<String>::new();
    for policy in &policies {
        if !methods.contains(&policy.method) {
            methods.push(policy.method.clone());
        }
    }
    let sets = methods.iter().map(|method| {
        let own = policies.iter().filter(|p| p.method == *method);
        let values = own.filter_map(|policy| {
            Some(Value {
                row: rows.iter().position(|row| *row == policy.sampling)?,
                x: policy.ratio?,
                interval: policy.interval.map(|i| (i.lo, i.hi)),
            })
        });
        values.collect()
    });
    let sets = sets.collect::<Vec<_>>();
    let label = "speed against the best fixed K (×)";
    let panels = vec![panel("", &rows, label, &sets)];
    let mut legend = methods.iter().enumerate().map(|(i, m)| marked(m, i)).collect::<Vec<_>>();
    legend.push(stroked("equally fast", Some(DOTS)));
    let title = "Draft length policies against the best fixed K".to_owned();
    (!policies.is_empty()).then_some(Sheet { title, columns: 1, panels, legend })
}

//! The table of passes over sparse experts.

use std::collections::BTreeMap;

use super::{Columns, rows, text, value};

const RUN: &str = "results/23-sparse-experts/2026-11-30-intel-xeon-2c";

/// The rows of a shape by the rows of a pass.
fn of_shape(shape: &str) -> BTreeMap<usize, Columns> {
    let rows = rows(RUN, "passes").into_iter().filter(|row| row["shape"] == shape);
    rows.map(|row| (value(&row, "m") as usize, row)).collect()
}

/// Catches: the derived table has other times, experts or bounds than the measured passes give.
#[test]
fn the_costs_of_passes_are_those_measured() {
    for shape in ["a3b-sparse", "a3b-dense"] {
        let measured = rows(RUN, shape);
        let first = value(&measured[0], "median_us");
        for (row, pass) in of_shape(shape).values().zip(&measured) {
            let cost = value(pass, "median_us") / first;
            let tokens = |rate: f64| (1.0 - rate.powi(value(pass, "m") as i32)) / (1.0 - rate);
            let near = |column: &str, expected: f64| {
                let found = value(row, column);
                assert!((found - expected).abs() < 1e-3, "{shape} {column}: {found} {expected}");
            };
            near("cost", cost);
            near("bandwidth_share", value(pass, "bandwidth_share"));
            near("speedup_0.5", tokens(0.5) / cost);
            near("speedup_0.7", tokens(0.7) / cost);
            assert_eq!(row["experts"].parse::<f64>(), pass["experts"].parse::<f64>());
        }
    }
}

/// Catches: the page states other numbers than the table.
#[test]
fn the_page_of_sparse_experts_has_the_numbers_of_its_table() {
    let page = text("experiments/23-sparse-experts/README.md");
    let [sparse, dense] = ["a3b-sparse", "a3b-dense"].map(of_shape);
    let mut table = String::new();
    for m in [1, 2, 3, 4, 5, 6, 9, 16] {
        let of = |row: &Columns, column| format!("{:.2}", value(row, column));
        let [one, other] = [&sparse[&m], &dense[&m]];
        table += &format!(
            "| {m} | {} | {} | {} | {} | {} |\n",
            of(one, "experts"),
            of(one, "cost"),
            of(other, "cost"),
            of(one, "speedup_0.7"),
            of(other, "speedup_0.7"),
        );
    }
    assert!(page.contains(&table), "the page should have this table:\n{table}");
    let best = |rows: &BTreeMap<usize, Columns>, column: &str| {
        let best = rows.iter().max_by(|a, b| value(a.1, column).total_cmp(&value(b.1, column)));
        let (m, row) = best.unwrap();
        (m - 1, value(row, column))
    };
    let [(long, dense_most), (short, most)] =
        [best(&dense, "speedup_0.7"), best(&sparse, "speedup_0.7")];
    let (k, random) = best(&sparse, "speedup_random_0.7");
    let share = |m: usize| format!("{:.0} %", 100.0 * value(&sparse[&m], "bandwidth_share"));
    for stated in [
        format!("draft length falls from {long} to {short}, and the bound from {dense_most:.2}"),
        format!("to {most:.2}. With 50 %"),
        format!("{} of the memory's bandwidth at one row and {} at five", share(1), share(5)),
        format!("= {:.2}; these rows", value(&sparse[&5], "experts_random")),
        format!("bound at 70 % is {random:.2}, at K = {k}"),
    ] {
        assert!(page.contains(&stated), "{stated}");
    }
    // The sentences on where drafts that cost nothing lose.
    let loses =
        |column: &str| sparse.iter().find(|(_, row)| value(row, column) < 1.0).unwrap().0 - 1;
    assert_eq!((loses("speedup_0.5"), loses("speedup_random_0.7")), (4, 5));
}

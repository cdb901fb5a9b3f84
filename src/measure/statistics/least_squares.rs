//! Least squares by normal equations, for a few coefficients.

/// If a pivot is below this share of its diagonal element, its column is a linear combination of
/// the columns before it and gets the coefficient 0.
const DEPENDENT: f64 = 1e-9;

/// Sums of products of the columns of a design, and of its columns with the values.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NormalEquations {
    products: Vec<Vec<f64>>,
    values: Vec<f64>,
    dependent: f64,
}

impl NormalEquations {
    /// The equations for `columns` columns, without data.
    pub(super) fn new(columns: usize) -> Self {
        Self::separating(columns, DEPENDENT)
    }

    /// Those in which a column is used only if more than this share of its square is its own, and
    /// not a linear combination of the columns before it.
    pub(crate) fn separating(columns: usize, dependent: f64) -> Self {
        let products = vec![vec![0.0; columns]; columns];
        Self { products, values: vec![0.0; columns], dependent }
    }

    /// Adds an observation of relative weight `weight`.
    pub(crate) fn observe(&mut self, columns: &[f64], value: f64, weight: f64) {
        for (i, x) in columns.iter().enumerate() {
            for (j, y) in columns.iter().enumerate().skip(i) {
                self.add_product(i, j, weight * x * y);
            }
            self.add_value(i, weight * x * value);
        }
    }

    /// The inverse of the products, without which the uncertainty of coefficients is unknown; 0 in
    /// the rows and columns that are not used.
    pub(crate) fn inverse(&self) -> Vec<Vec<f64>> {
        let column = |at: usize| {
            let mut unit = self.clone();
            unit.values = (0..self.values.len()).map(|i| f64::from(u8::from(i == at))).collect();
            unit.solve()
        };
        (0..self.values.len()).map(column).collect()
    }

    /// Adds Σ (column i · column j), for both orders of i and j.
    pub(super) fn add_product(&mut self, i: usize, j: usize, sum: f64) {
        self.products[i][j] += sum;
        if i != j {
            self.products[j][i] += sum;
        }
    }

    /// Adds Σ (column i · value).
    pub(super) fn add_value(&mut self, i: usize, sum: f64) {
        self.values[i] += sum;
    }

    /// The coefficients, by elimination. A column that is linearly dependent on those before it has
    /// the coefficient 0.
    pub(crate) fn solve(mut self) -> Vec<f64> {
        let columns = self.values.len();
        let diagonal = (0..columns).map(|i| self.products[i][i]).collect::<Vec<_>>();
        let mut used = vec![false; columns];
        for at in 0..columns {
            let pivot = self.products[at][at];
            used[at] = pivot > self.dependent * diagonal[at] && pivot > 0.0;
            if !used[at] {
                continue;
            }
            let (row, value) = (self.products[at].clone(), self.values[at]);
            for other in at + 1..columns {
                let factor = self.products[other][at] / pivot;
                let own = self.products[other].iter_mut().zip(&row);
                for (x, pivot_row) in own {
                    *x -= factor * pivot_row;
                }
                self.values[other] -= factor * value;
            }
        }
        let mut solution = vec![0.0; columns];
        for at in (0..columns).rev().filter(|&at| used[at]) {
            let known = (at + 1..columns).map(|j| self.products[at][j] * solution[j]);
            solution[at] = (self.values[at] - known.sum::<f64>()) / self.products[at][at];
        }
        solution
    }
}

//! The ends of a product or quotient of two numbers, given an interval for each.
//!
//! In: four columns of floats, the ends of both intervals. Out: the lower or the upper end of the
//! result; NULL if it is unbounded, because the divisor's interval contains 0.
//!
//! ```text
//! [1, 2] × [−3, 4]    −6 to 8
//! [1, 2] ÷ [4, 5]     0.2 to 0.5
//! ```

use std::sync::Arc;

use arrow::array::{Array, AsArray, Float64Array};
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// An operation whose result is largest and smallest at corners of its operands' intervals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Corner {
    /// `left * right`.
    Product,
    /// `left / right`.
    Quotient,
}

/// The ends of `left` ∘ `right`; each operand is a pair of ends, of type DOUBLE.
///
/// # Guarantee
/// For every x and y within the operands' ends, x ∘ y is within the result's ends, up to the
/// rounding of floats; NULL if there are none.
pub fn corners(corner: Corner, left: [Expr; 2], right: [Expr; 2]) -> [Expr; 2] {
    let args: Vec<Expr> = left.into_iter().chain(right).collect();
    [false, true].map(|upper| {
        let signature = Signature::exact(vec![DataType::Float64; 4], Volatility::Immutable);
        let function = ScalarUDF::from(ProductEnd { corner, upper, signature });
        Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function), args.clone()))
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ProductEnd {
    corner: Corner,
    upper: bool,
    signature: Signature,
}

impl ProductEnd {
    fn between(&self, [a, b, c, d]: [f64; 4]) -> Option<f64> {
        let pairs = [(a, c), (a, d), (b, c), (b, d)];
        let values = match self.corner {
            Corner::Product => pairs.map(|(x, y)| x * y),
            Corner::Quotient if c > 0.0 || d < 0.0 => pairs.map(|(x, y)| x / y),
            Corner::Quotient => return None,
        };
        let end = values.into_iter().reduce(if self.upper { f64::max } else { f64::min });
        end.filter(|end| end.is_finite())
    }
}

impl ScalarUDFImpl for ProductEnd {
    fn name(&self) -> &'static str {
        match (self.corner, self.upper) {
            (Corner::Product, false) => "least_product",
            (Corner::Product, true) => "largest_product",
            (Corner::Quotient, false) => "least_quotient",
            (Corner::Quotient, true) => "largest_quotient",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let [Some(a), Some(b), Some(c), Some(d)] =
            [0, 1, 2, 3].map(|i| arrays.get(i)?.as_primitive_opt::<Float64Type>())
        else {
            return internal_err!("the ends of intervals are floats");
        };
        let end = |row: usize| {
            let ends = [a, b, c, d];
            let known = ends.iter().all(|end| end.is_valid(row));
            known.then(|| self.between(ends.map(|end| end.value(row)))).flatten()
        };
        let rows = a.len().min(b.len()).min(c.len()).min(d.len());
        let values: Float64Array = (0..rows).map(end).collect();
        Ok(ColumnarValue::Array(Arc::new(values)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(corner: Corner, upper: bool, ends: [f64; 4]) -> Option<f64> {
        ProductEnd { corner, upper, signature: Signature::nullary(Volatility::Immutable) }
            .between(ends)
    }

    #[test]
    fn results_lie_between_the_ends() {
        let points = [-3.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 7.0];
        let mut intervals = Vec::new();
        for (i, lo) in points.iter().enumerate() {
            intervals.extend(points[i..].iter().map(|hi| (*lo, *hi)));
        }
        let mut unbounded = 0;
        for (a, b) in &intervals {
            for (c, d) in &intervals {
                let ends = [*a, *b, *c, *d];
                for corner in [Corner::Product, Corner::Quotient] {
                    let (Some(lo), Some(hi)) = (end(corner, false, ends), end(corner, true, ends))
                    else {
                        assert!(corner == Corner::Quotient && *c <= 0.0 && *d >= 0.0);
                        unbounded += 1;
                        continue;
                    };
                    for x in points.iter().filter(|x| *a <= **x && **x <= *b) {
                        for y in points.iter().filter(|y| *c <= **y && **y <= *d) {
                            let value = match corner {
                                Corner::Product => x * y,
                                Corner::Quotient => x / y,
                            };
                            assert!((lo..=hi).contains(&value), "{ends:?}: {value}");
                        }
                    }
                }
            }
        }
        assert!(unbounded > 100, "{unbounded}");
        assert_eq!(end(Corner::Product, true, [0.0, f64::INFINITY, 0.0, 1.0]), None);
    }
}

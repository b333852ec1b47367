//! Equivalents of window functions over equal shares of rows, which are not computed below a
//! release.
//!
//! In: NTILE, PERCENT_RANK or CUME_DIST. Out: over the rows of one unit, a formula of ranks and
//! counts; over the rows of many units, the quantiles that end the shares.
//!
//! ```text
//! ntile(4) OVER (PARTITION BY user_id ORDER BY price)  →  (ROW_NUMBER() OVER (…) - 1) * 4 / COUNT(*) OVER (…) + 1
//! ntile(4) OVER (ORDER BY price)                       →  EXPONENTIAL(eps=1) QUANTILE(price, 0.25), …
//! ```

use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::WindowFunction;

use crate::analysis::expr::shape::readable;
use crate::bind::quoting::name_of_column;

/// The largest number of quantiles that the hint writes out.
const ENDS: u32 = 4;

/// What to write instead of a window function, if it asks for shares of rows.
pub(super) fn instead_of_shares(function: &WindowFunction) -> Option<String> {
    let name = function.fun.name().to_lowercase();
    let joined = |exprs: Vec<String>| exprs.join(", ");
    let own = joined(function.params.partition_by.iter().map(plain).collect());
    let key = function.params.order_by.first().map_or("x".to_owned(), |key| plain(&key.expr));
    if own.is_empty() {
        if !["ntile", "percent_rank", "cume_dist"].contains(&name.as_str()) {
            return None;
        }
        let shares = function.params.args.first().and_then(|shares| plain(shares).parse().ok());
        let shares: u32 = shares.unwrap_or(4);
        let ends = (1..shares.clamp(2, ENDS + 1)).map(|at| {
            let place = format!("{:.3}", f64::from(at) / f64::from(shares.max(2)));
            format!("QUANTILE({key}, {})", place.trim_end_matches('0'))
        });
        let more = if shares > ENDS + 1 { " and so on" } else { "" };
        return Some(format!(
            "EXPONENTIAL(eps=1) {}{more}: the ends of the shares, and CASE over them",
            ends.collect::<Vec<_>>().join(", EXPONENTIAL(eps=1) ")
        ));
    }
    let sorted = function
        .params
        .order_by
        .iter()
        .map(|key| format!("{}{}", plain(&key.expr), if key.asc { "" } else { " DESC" }));
    let sorted = joined(sorted.collect());
    let (window, all) =
        (format!("PARTITION BY {own} ORDER BY {sorted}"), format!("PARTITION BY {own}"));
    match name.as_str() {
        "ntile" => {
            let shares = function.params.args.first().map_or("4".to_owned(), plain);
            let number = format!("(ROW_NUMBER() OVER ({window}) - 1) * {shares}");
            Some(format!("{number} / COUNT(*) OVER ({all}) + 1"))
        }
        "percent_rank" => Some(format!(
            "(RANK() OVER ({window}) - 1) / CAST(COUNT(*) OVER ({all}) - 1 AS DOUBLE)"
        )),
        "cume_dist" => {
            Some(format!("COUNT(*) OVER ({window}) / CAST(COUNT(*) OVER ({all}) AS DOUBLE)"))
        }
        _ => None,
    }
}

/// An expression as a query would write it.
fn plain(expr: &Expr) -> String {
    if let Expr::Column(column) = expr { name_of_column(&column.name) } else { readable(expr) }
}

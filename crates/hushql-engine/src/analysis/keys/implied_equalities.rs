//! The equalities that follow from others: `a = b AND b = c` means `a = c`.
//!
//! In: conditions over joined rows. Out: the equalities of expressions that several conditions
//! equate with one expression. They connect public tables that one private column joins, also if
//! the private column has too many values to try.

use arrow::datatypes::DataType;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, cast};

use crate::analysis::expr::facts::{Scope, constant};
use crate::analysis::expr::shape::{is_string, type_of};

/// The largest number of expressions in one class. Larger classes imply nothing.
const MOST_EQUAL: usize = 8;

/// An expression without the casts that keep its value, and the type in which it is compared.
struct EqualExpr {
    expr: Expr,
    data_type: DataType,
}

/// The equalities that follow from the conditions, and are not among them.
///
/// # Guarantee
/// A row that meets the conditions meets these equalities.
pub(super) fn implied_equalities(conditions: &[Expr], scope: &Scope) -> Vec<Expr> {
    let mut classes: Vec<Vec<EqualExpr>> = Vec::new();
    for condition in conditions {
        let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition else {
            continue;
        };
        if constant(left).is_some() || constant(right).is_some() {
            continue;
        }
        let (Some(left), Some(right)) = (member(left, scope), member(right, scope)) else {
            continue;
        };
        let touches = |class: &Vec<EqualExpr>| {
            class.iter().any(|one| one.expr == left.expr || one.expr == right.expr)
        };
        let (joined, mut rest): (Vec<_>, Vec<_>) = classes.into_iter().partition(touches);
        let mut all: Vec<EqualExpr> = joined.into_iter().flatten().collect();
        for one in [left, right] {
            if all.iter().all(|known| known.expr != one.expr) {
                all.push(one);
            }
        }
        rest.push(all);
        classes = rest;
    }
    let mut found = Vec::new();
    for class in classes.iter().filter(|class| (3..=MOST_EQUAL).contains(&class.len())) {
        for (i, one) in class.iter().enumerate() {
            let pairs = class.iter().skip(i + 1).filter_map(|other| equality(one, other));
            found.extend(pairs.filter(|pair| !is_among(pair, conditions)));
        }
    }
    found
}

/// An expression without its cast, if the cast changes no value.
fn member(expr: &Expr, scope: &Scope) -> Option<EqualExpr> {
    let own = type_of(expr, &scope.schema).ok()?;
    // Equal floats can differ: −0.0 and 0.0.
    if own.is_floating() {
        return None;
    }
    if let Expr::Cast(cast) = expr {
        let from = type_of(&cast.expr, &scope.schema).ok()?;
        let data_type = from.clone();
        if common(&from, &own).is_some_and(|common| common == own) {
            return Some(EqualExpr { expr: cast.expr.as_ref().clone(), data_type });
        }
    }
    Some(EqualExpr { expr: expr.clone(), data_type: own })
}

/// The type in which values of two types are compared without a loss.
fn common(one: &DataType, other: &DataType) -> Option<DataType> {
    let signed = |of: &DataType| of.is_signed_integer();
    match (one, other) {
        (one, other) if one == other => Some(one.clone()),
        (one, other) if signed(one) && signed(other) => Some(DataType::Int64),
        (one, other) if is_string(one) && is_string(other) => Some(DataType::Utf8),
        _ => None,
    }
}

/// True if a condition is an equality, in one order of its sides or the other.
fn is_among(equality: &Expr, conditions: &[Expr]) -> bool {
    let Expr::BinaryExpr(BinaryExpr { left, right, .. }) = equality else { return false };
    let swapped = right.as_ref().clone().eq(left.as_ref().clone());
    conditions.iter().any(|one| one == equality || *one == swapped)
}

fn equality(one: &EqualExpr, other: &EqualExpr) -> Option<Expr> {
    let to = common(&one.data_type, &other.data_type)?;
    let side = |member: &EqualExpr| match member.data_type == to {
        true => member.expr.clone(),
        false => cast(member.expr.clone(), to.clone()),
    };
    Some(side(one).eq(side(other)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::{Field, Schema};
    use datafusion::common::DFSchema;
    use datafusion::logical_expr::{col, lit};

    use super::*;
    use crate::analysis::expr::facts::Facts;

    #[test]
    fn equalities_follow_through_one_expression() {
        let types = [DataType::Int64, DataType::Int64, DataType::Int32, DataType::Float64];
        let fields = ["a", "b", "c", "f"].into_iter().zip(types.clone());
        let fields: Vec<Field> = fields.map(|(name, of)| Field::new(name, of, true)).collect();
        let schema = Arc::new(DFSchema::try_from(Schema::new(fields)).unwrap());
        let scope = Scope::new(schema, types.iter().map(Facts::of_type).collect());
        let implied = |conditions: &[Expr]| implied_equalities(conditions, &scope);
        let wide = || cast(col("c"), DataType::Int64);
        assert_eq!(implied(&[col("a").eq(col("b")), wide().eq(col("a"))]), [col("b").eq(wide())]);
        let seven = || col("a") + lit(7_i64);
        assert_eq!(implied(&[seven().eq(col("b")), wide().eq(seven())]), [col("b").eq(wide())]);
        assert_eq!(implied(&[col("a").eq(col("b")), col("b").lt(wide())]), []);
        let float = cast(col("a"), DataType::Float64);
        assert_eq!(implied(&[col("a").eq(col("b")), float.eq(col("f"))]), []);
    }
}

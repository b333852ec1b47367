//! The types of parameters, from what they are compared with.
//!
//! In: comparisons of a query on the catalog. Out: for each parameter, the type of the other side
//! of the first comparison that has it, as PostgreSQL takes it.
//!
//! ```text
//! WHERE oid = $1 AND relname = ANY($2)   →   oid, name[]
//! ```

use std::cell::RefCell;

use sqlparser::ast::{BinaryOperator, Expr, Value};

use super::super::encode::kinds;
use super::super::parameter_types::{element_of, is_element};
use super::datum::CatalogType;

/// The highest number of a parameter that gets a type.
const MOST_PARAMETERS: usize = 1_000;

/// The types that parameters were compared with so far.
#[derive(Debug, Default)]
pub(super) struct Met(RefCell<Vec<Option<u32>>>);

impl Met {
    /// The type of each parameter, as far as it is known.
    pub(super) fn types(&self) -> Vec<Option<u32>> {
        self.0.borrow().clone()
    }

    /// Both sides of an operator.
    pub(super) fn both(
        &self,
        op: &BinaryOperator,
        (left, left_kind): (&Expr, CatalogType),
        (right, right_kind): (&Expr, CatalogType),
    ) {
        let is_comparison = matches!(
            op,
            BinaryOperator::Eq
                | BinaryOperator::NotEq
                | BinaryOperator::Lt
                | BinaryOperator::LtEq
                | BinaryOperator::Gt
                | BinaryOperator::GtEq
        );
        if is_comparison && parameter(left).is_none() {
            self.compared(right, left_kind);
        }
        if is_comparison && parameter(right).is_none() {
            self.compared(left, right_kind);
        }
    }

    /// An expression that is compared with a value of this type. Types whose values clients send in
    /// forms that are not read here stay open, and become texts.
    pub(super) fn compared(&self, expr: &Expr, CatalogType(kind): CatalogType) {
        let Some(at) = parameter(expr) else { return };
        if !is_element(kind) && element_of(kind) == kind || kind == kinds::TEXT {
            return;
        }
        let mut types = self.0.borrow_mut();
        if types.len() <= at {
            types.resize(at + 1, None);
        }
        if let Some(place) = types.get_mut(at) {
            place.get_or_insert(kind);
        }
    }

    /// An array whose elements are compared with a value of this type.
    pub(super) fn compared_with_each(&self, expr: &Expr, kind: CatalogType) {
        let is_read = is_element(kind.0);
        self.compared(expr, if is_read { kind.array() } else { CatalogType(kinds::TEXTS) });
    }
}

/// The place of a parameter, counted from zero; `None` for any other expression.
fn parameter(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Nested(inner) => parameter(inner),
        Expr::Value(value) => match &value.value {
            Value::Placeholder(name) => {
                let number: usize = name.strip_prefix('$')?.parse().ok()?;
                number.checked_sub(1).filter(|at| *at < MOST_PARAMETERS)
            }
            _ => None,
        },
        _ => None,
    }
}

//! Bare aggregates of a SELECT with OPTIONS or KEYS, which become releases.
//!
//! In: the expressions of the SELECT list, of HAVING and of ORDER BY. Out: a marker in place of
//! each bare aggregate, and a release for each marker. In the SELECT list, each aggregate is a
//! release of its own. In HAVING and ORDER BY, an aggregate that repeats another one is the same
//! release: a query that sorts by a sum wants the order of the sum that it shows.
//!
//! ```text
//! SELECT city, SUM(qty) … HAVING SUM(qty) > 10 ORDER BY sum(qty)      one release
//! SELECT SUM(qty) AS a, SUM(qty) AS b                                 two
//! ```

use std::ops::ControlFlow;

use sqlparser::ast::{self as sql, Expr, Ident, ObjectName, ObjectNamePart};

use super::AggregateName;
use super::aggregate::{aggregate_call, column_name};
use super::ast::{MechanismName, Operand, Parameters, ReleaseClause};
use super::fresh::take_mark;
use super::parser::aggregate_marker;
use crate::dialect::clauses::folded;
use crate::dialect::error::DialectError;
use crate::dialect::named_candidates::of_this_select;
use crate::refusal::{Reason, Refusal};

/// The bare aggregates of one SELECT so far.
pub(super) struct Implied<'a> {
    parameters: &'a Parameters,
    /// Each aggregate as it is written, with the marker that replaces it.
    known: Vec<(Expr, Expr)>,
}

impl<'a> Implied<'a> {
    /// No aggregates yet. The SELECT states these parameters for each of its aggregates.
    pub(super) fn under(parameters: &'a Parameters) -> Self {
        Self { parameters, known: Vec::new() }
    }

    /// Turns the bare aggregates of an expression of the SELECT list into releases.
    ///
    /// # Errors
    /// A refusal of an aggregate that cannot be released.
    pub(super) fn shown(
        &mut self,
        expression: &mut Expr,
        releases: &mut Vec<ReleaseClause>,
    ) -> Result<(), DialectError> {
        self.imply(expression, releases, false)
    }

    /// Turns the bare aggregates of an expression of HAVING or ORDER BY into releases. An aggregate
    /// that is there already keeps its release.
    ///
    /// # Errors
    /// As [`Implied::shown`].
    pub(super) fn beside(
        &mut self,
        expression: &mut Expr,
        releases: &mut Vec<ReleaseClause>,
    ) -> Result<(), DialectError> {
        self.imply(expression, releases, true)
    }

    fn imply(
        &mut self,
        expression: &mut Expr,
        releases: &mut Vec<ReleaseClause>,
        may_repeat: bool,
    ) -> Result<(), DialectError> {
        let outcome = of_this_select(expression, |expression| {
            let Expr::Function(function) = &mut *expression else {
                return ControlFlow::Continue(());
            };
            let fresh = take_mark(function);
            let name = function.name.to_string();
            if function.over.is_some() || AggregateName::parse(&name).is_none() {
                return ControlFlow::Continue(());
            }
            let written = in_one_spelling(expression);
            let same = self.known.iter().find(|(known, _)| *known == written);
            // An aggregate with FRESH is drawn anew, so it repeats no other one.
            if let (true, Some((_, marker)), false) = (may_repeat, same, fresh) {
                *expression = marker.clone();
                return ControlFlow::Continue(());
            }
            let Expr::Function(function) = &*expression else {
                return ControlFlow::Continue(());
            };
            let text = column_name(function);
            match aggregate_call(function.clone()) {
                Err(message) => {
                    let hint = "COUNT, SUM, AVG or STDDEV of one expression";
                    ControlFlow::Break(Refusal::new(Reason::Operand, text, message, hint))
                }
                Ok((call, arguments, filter)) => {
                    let n = releases.len();
                    *expression = aggregate_marker(n, arguments, filter, call.distinct);
                    self.known.push((written, expression.clone()));
                    releases.push(ReleaseClause {
                        mechanism: MechanismName::Default,
                        parameters: self.parameters.clone(),
                        operand: Operand::Aggregate(call),
                        keys: Vec::new(),
                        unit_column: None,
                        grouping: None,
                        text,
                        finding: None,
                        consistent: None,
                        fresh,
                    });
                    ControlFlow::Continue(())
                }
            }
        });
        match outcome {
            ControlFlow::Break(refusal) => Err(refusal.into()),
            ControlFlow::Continue(()) => Ok(()),
        }
    }
}

/// An expression with the names of functions and columns as the planner reads them: without quotes,
/// in lower case.
fn in_one_spelling(expression: &Expr) -> Expr {
    let mut same = expression.clone();
    let plain = |ident: &Ident| match ident.quote_style {
        None => Ident::new(folded(ident)),
        Some(_) => ident.clone(),
    };
    let _ = sql::visit_expressions_mut(&mut same, |e| {
        match e {
            Expr::Identifier(ident) => *ident = plain(ident),
            Expr::CompoundIdentifier(parts) => {
                parts.iter_mut().for_each(|part| *part = plain(part))
            }
            Expr::Function(function) => {
                let name = function.name.to_string().to_lowercase();
                function.name = ObjectName(vec![ObjectNamePart::Identifier(Ident::new(name))]);
            }
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    });
    same
}

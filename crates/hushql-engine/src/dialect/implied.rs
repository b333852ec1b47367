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
use super::literal::{Literal, literal_of};
use super::markers_as_written::in_releases_words;
use super::parameters::{EPSILON_RANGE, epsilon};
use super::parser::aggregate_marker;
use super::report::{REPORT, has_argument, report};
use crate::dialect::clauses::folded;
use crate::dialect::error::DialectError;
use crate::dialect::named_candidates::of_this_select;
use crate::privacy::Epsilon;
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

    /// The mechanism and the parameters of an aggregate: its own ε, or those of the SELECT.
    fn cost(&self, own: Option<Epsilon>) -> (MechanismName, Parameters) {
        match own {
            None => (MechanismName::Default, self.parameters.clone()),
            // The δ of OPTIONS is for the choice of groups, and for those that share its cost.
            Some(_) => {
                let bounds = Parameters { rho: None, delta: None, ..self.parameters.clone() };
                (MechanismName::Auto, Parameters { epsilon: own, ..bounds })
            }
        }
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
            let named = match take_named(function) {
                Ok(named) => named,
                Err(refusal) => return ControlFlow::Break(refusal),
            };
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
            let text = in_releases_words(&column_name(function), releases);
            match aggregate_call(function.clone()) {
                Err(message) => {
                    let hint = "one of COUNT, SUM, AVG and STDDEV, of one expression, with two numbers as bounds";
                    ControlFlow::Break(Refusal::new(Reason::Operand, text, message, hint))
                }
                Ok((call, arguments, filter)) => {
                    let n = releases.len();
                    let marker = aggregate_marker(n, arguments, filter, call.distinct);
                    self.known.push((written, marker.clone()));
                    *expression = if named.report { report(&marker, &call) } else { marker };
                    let (mechanism, parameters) = self.cost(named.epsilon);
                    releases.push(ReleaseClause {
                        mechanism,
                        parameters,
                        operand: Operand::Aggregate(call),
                        keys: Vec::new(),
                        unit_column: None,
                        grouping: None,
                        text,
                        finding: None,
                        consistent: None,
                        set: None,
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

/// What GoogleSQL's named arguments say about one aggregate, besides its bounds.
#[derive(Default)]
struct Named {
    epsilon: Option<Epsilon>,
    report: bool,
}

/// The arguments that [`take_named`] takes.
const NAMED: [&str; 2] = ["epsilon", REPORT];

/// True if an aggregate of this SELECT states its own ε, or asks for a report.
pub(super) fn names_option(expression: &Expr) -> bool {
    let found = of_this_select(&mut expression.clone(), |expression| match expression {
        Expr::Function(function)
            if NAMED.iter().any(|name| has_argument(function, name))
                && AggregateName::parse(&function.name.to_string()).is_some() =>
        {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// True if an aggregate states its own ε, so that it takes no share of OPTIONS.
pub(super) fn has_own_cost(release: &ReleaseClause) -> bool {
    release.mechanism == MechanismName::Auto
}

/// Takes `epsilon => e` and `report_format => 'JSON'` out of a call.
fn take_named(function: &mut sql::Function) -> Result<Named, Refusal> {
    let mut named = Named::default();
    let text = column_name(function);
    let sql::FunctionArguments::List(list) = &mut function.args else { return Ok(named) };
    for argument in std::mem::take(&mut list.args) {
        let sql::FunctionArg::Named { name, arg: sql::FunctionArgExpr::Expr(value), .. } =
            &argument
        else {
            list.args.push(argument);
            continue;
        };
        let (name, value) = (name.value.to_lowercase(), literal_of(value));
        let problem = match name.as_str() {
            _ if NAMED.contains(&name.as_str()) && value == Some(Literal::Null) => None,
            "epsilon" => match value.as_ref().and_then(epsilon) {
                None => Some(EPSILON_RANGE),
                Some(own) => named.epsilon.replace(own).map(|_| "is given twice"),
            },
            REPORT => match value.and_then(|value| value.text()) {
                Some(format) if format.eq_ignore_ascii_case("JSON") => {
                    std::mem::replace(&mut named.report, true).then_some("is given twice")
                }
                _ => Some("is 'JSON': answers have columns, and no protocol buffers"),
            },
            _ => {
                list.args.push(argument);
                None
            }
        };
        if let Some(problem) = problem {
            let hint = "epsilon => 0.5, report_format => 'JSON'";
            return Err(Refusal::new(Reason::Operand, text, format!("{name} {problem}"), hint));
        }
    }
    Ok(named)
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

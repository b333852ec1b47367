//! The frame in which the calls of a query are measured, and their arguments.
//!
//! In: a [`Call`], and the rows below it. Out: the argument as a column with its range, or what to
//! write to give it one.

use arrow::datatypes::DataType;
use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::{Expr, ExprSchemable};

use crate::analysis::below::contradiction;
use crate::analysis::below::relation::PrivateRelation;
use crate::analysis::below::unit::UnitScope;
use crate::analysis::below::walk::Tables;
use crate::analysis::call::Call;
use crate::analysis::call::input_columns::InputColumns;
use crate::analysis::call::lookup::Lookups;
use crate::analysis::expr::facts::{KeySource, Scope};
use crate::analysis::expr::shape::{Total, readable};
use crate::analysis::expr::{exact, total};
use crate::analysis::measure::choice::Choice;
use crate::analysis::measure::contribution_bounds::limits;
use crate::analysis::measure::input::{AggregateRead, Argument};
use crate::analysis::measure::sensitivity::ContributionBounds;
use crate::analysis::measure::{Input, Measure, ReleaseKind, VarianceMoments};
use crate::analysis::not_analyzed::{NotAnalyzed, internal};
use crate::bind::quoting::name_of_column;
use crate::catalog::{Catalog, quoted};
use crate::dialect::{AggregateCall, AggregateName, Operand, Parameters, ReleaseClause};
use crate::functions::{temporal_limits, without_nan};
use crate::refusal::{Reason, Refusal};

/// Lets a sum read the unchecked column of the file, if the sum itself clamps to the column's
/// range. Bounds in the query may be wider than the domain; then the sum needs the enforced column.
/// A count reads the file's column, too, except for floats, dates and moments: their enforced
/// column has NULL for NaN, and for values outside the calendar.
pub(crate) fn sum_raw(
    input: &Input,
    aggregate: &AggregateCall,
    expr: Option<&Expr>,
    frame: &mut MeasureFrame<'_>,
) {
    let bounded = aggregate.bounds_per_group.is_some() || aggregate.bounds_per_row.is_some();
    let schema = frame.flow.plan.schema();
    let makes_null = |of: &DataType| of.is_floating() || temporal_limits(of).is_some();
    let data_type = expr.and_then(|expr| expr.get_type(schema).ok());
    let makes_null = data_type.as_ref().is_none_or(makes_null);
    if let (Input::Values(column), Some(expr), false) = (input, expr, makes_null) {
        frame.columns.sum_raw(*column, expr, frame.flow);
    }
    if let (
        Input::Sum(column) | Input::Mean(column) | Input::Moments(VarianceMoments { column, .. }),
        Some(expr),
        false,
    ) = (input, expr, bounded)
    {
        frame.columns.sum_raw(*column, expr, frame.flow);
    }
}

/// Adds the argument of an aggregate call to the columns. The first argument of a selection is its
/// target, and is skipped.
pub(crate) fn argument(
    call: &Call,
    aggregate: &AggregateCall,
    frame: &mut MeasureFrame<'_>,
    scope: &Scope,
) -> Result<Argument, NotAnalyzed> {
    let skip = usize::from(matches!(call.clause.operand, Operand::Selection(_)));
    argument_of(call.params.args.get(skip), aggregate, frame, scope)
}

/// The parameters of a count of different values, with the rows that one unit has in the table that
/// owns the values: it has no more values of a column than rows in the table of the column, and no
/// more values of a link than rows in the table to which the link leads. It has no more values of a
/// domain than the domain has, and one value of what is the same on all of its rows: one month of a
/// person counts as one person.
///
/// # Guarantee
/// The bound is enforced like one that is written: of a unit with more values in a group, no more
/// count. So nothing relies on the declaration or on what files hold.
pub(crate) fn with_rows_of_owner(
    parameters: &Parameters,
    call: &Call,
    input: &Input,
    frame: &MeasureFrame<'_>,
) -> Parameters {
    let mut parameters = parameters.clone();
    if let Input::Distinct(_) = input
        && let Some(most) =
            [rows_of_owner(call, frame), values_of_domain(call, frame), value_of_unit(call, frame)]
                .into_iter()
                .flatten()
                .min()
    {
        parameters.rows = Some(parameters.rows.map_or(most, |rows| rows.min(most)));
    }
    parameters
}

fn rows_of_owner(call: &Call, frame: &MeasureFrame<'_>) -> Option<u64> {
    let origin = frame.flow.trace(call.params.args.first()?)?.origin.as_ref()?;
    let unit_of = |table: &str| frame.catalog.table(table)?.unit();
    let own = unit_of(&origin.table)?;
    let leads = own.link().filter(|link| link.columns.as_slice() == [origin.column.clone()]);
    let most = match leads {
        Some(link) => unit_of(&link.table)?.max_rows(),
        None => own.max_rows(),
    };
    most.filter(|most| *most > 0)
}

/// One, if all rows of a unit have the same value of the counted expression.
fn value_of_unit(call: &Call, frame: &MeasureFrame<'_>) -> Option<u64> {
    frame.flow.is_alike(call.params.args.first()?).then_some(1)
}

/// The number of values that the counted expression can have, if it is below the rows of a unit.
fn values_of_domain(call: &Call, frame: &MeasureFrame<'_>) -> Option<u64> {
    let rows = frame.flow.subject.max_rows()?;
    let facts = total(call.params.args.first()?, &frame.flow.scope).ok()?.facts;
    let values = match facts.keys? {
        KeySource::Values(values) => u64::try_from(values.len()).ok()?,
        KeySource::Integers(lo, hi) => lo.abs_diff(hi).checked_add(1).filter(|_| lo <= hi)?,
        KeySource::Ticks(ticks) => ticks.count(),
    };
    Some(values).filter(|values| (1..rows).contains(values))
}

/// Adds an expression to the columns as the argument of an aggregate.
pub(crate) fn argument_of(
    expr: Option<&Expr>,
    aggregate: &AggregateCall,
    frame: &mut MeasureFrame<'_>,
    scope: &Scope,
) -> Result<Argument, NotAnalyzed> {
    let Some(expr) = expr.filter(|_| !aggregate.star) else { return Ok(Argument::none()) };
    let remedy = remedy(expr, frame.flow);
    // A count only needs to know whether there is a value.
    let is_counted = aggregate.function == AggregateName::Count && !aggregate.distinct;
    let Total { expr, facts } = if is_counted { exact(expr, scope)? } else { total(expr, scope)? };
    let data_type = expr.get_type(frame.flow.plan.schema()).map_err(|e| internal(&e))?;
    let column = frame.columns.argument(without_nan(expr, &data_type));
    let is_listed = facts.keys.is_some();
    Ok(Argument {
        column,
        data_type,
        range: facts.range,
        is_unit: facts.is_unit,
        is_listed,
        remedy,
    })
}

/// The ways to give an expression a range: CLAMP, and a domain for a column of a private table that
/// the expression shows or reads.
pub(crate) fn remedy(expr: &Expr, flow: &PrivateRelation) -> String {
    let declared = |expr: &Expr| {
        let origin = flow.trace(expr)?.origin.as_ref()?;
        let table = flow.subject.tables().iter().find(|table| **table == origin.table)?;
        Some(format!(
            "ALTER TABLE {} ALTER COLUMN {} SET PRIVACY DOMAIN BETWEEN (lo, hi)",
            quoted(table),
            quoted(&origin.column)
        ))
    };
    let mut shown = expr;
    while let Expr::Cast(cast) = shown {
        shown = &cast.expr;
    }
    if let Expr::Column(column) = shown {
        let clamp = format!("CLAMP({0}, lo, hi) in place of {0}", name_of_column(&column.name));
        return match declared(shown) {
            Some(declare) => format!("{clamp}, or declare its domain: {declare}"),
            None => clamp,
        };
    }
    let clamp = format!("CLAMP({}, lo, hi)", readable(expr));
    let mut columns: Vec<&Column> = expr.column_refs().into_iter().collect();
    columns.sort();
    let declared = columns.into_iter().find_map(|column| declared(&Expr::Column(column.clone())));
    match declared {
        Some(declare) => format!("{clamp}, or declare the domains of its columns: {declare}"),
        None => clamp,
    }
}

/// The frame in which a release is measured: the rows, the columns of the input, the public tables
/// and the outer groups.
pub(crate) struct MeasureFrame<'a> {
    pub(crate) flow: &'a PrivateRelation,
    pub(crate) columns: &'a mut InputColumns,
    pub(crate) lookups: &'a Lookups,
    /// The number of outer groups. Each has one selection.
    pub(crate) outer: usize,
    /// True if all rows of a unit have the same keys.
    pub(crate) one_group: bool,
    /// The tables, which evaluate expressions on public values.
    pub(crate) tables: &'a dyn Tables,
    /// True if sums and means of the time between two columns find their bounds.
    pub(crate) finds_spans: bool,
    /// True if plain SQL chooses a bound on the rows of a unit where nothing bounds them.
    pub(crate) chooses_rows: bool,
    pub(crate) catalog: &'a Catalog,
}

impl MeasureFrame<'_> {
    /// The FILTER of a call as a column, and the scope of the rows that pass it.
    pub(crate) fn filter(
        &mut self,
        filter: Option<&Expr>,
    ) -> Result<(Option<usize>, Scope), Refusal> {
        let scope = &self.flow.scope;
        let Some(predicate) = filter else { return Ok((None, scope.clone())) };
        contradiction::check(predicate, scope)?;
        let filter = total(predicate, scope)?;
        let narrowed = scope.narrowed(predicate);
        Ok((Some(self.columns.argument(filter.expr)), narrowed))
    }

    /// The condition of the rows that enter a number: its FILTER is true, and its argument has a
    /// value. `None` if all rows do.
    ///
    /// # Guarantee
    /// The argument is the one that is counted or added up, or that of the enforced column where
    /// the unchecked one is added up. The enforced column has a value only where the unchecked one
    /// has.
    pub(crate) fn rows_of(
        &self,
        call: &Call,
        aggregate: &AggregateCall,
    ) -> Result<Option<Expr>, NotAnalyzed> {
        let mut scope = self.flow.scope.clone();
        let mut all: Option<Expr> = None;
        if let Some(predicate) = call.params.filter.as_deref() {
            all = Some(total(predicate, &scope)?.expr);
            scope = scope.narrowed(predicate);
        }
        let argument = call.params.args.first().filter(|_| !aggregate.star);
        // Distinct arguments are units. Only a unit that an outer join pads may be NULL.
        let padded = |expr: &Expr| self.flow.trace(expr).is_some_and(|own| own.unit_or_null);
        if let Some(argument) = argument.filter(|own| !aggregate.distinct || padded(own)) {
            let is_counted = aggregate.function == AggregateName::Count;
            let Total { expr, .. } =
                if is_counted { exact(argument, &scope)? } else { total(argument, &scope)? };
            let schema = self.flow.plan.schema();
            let mut shown = expr;
            // A whole number as DOUBLE has a value wherever it has one: sums and means of a column
            // share one count.
            while let Expr::Cast(cast) = &shown
                && *cast.field.data_type() == DataType::Float64
                && cast.expr.get_type(schema).is_ok_and(|of| of.is_integer())
            {
                shown = cast.expr.as_ref().clone();
            }
            let data_type = shown.get_type(schema).map_err(|e| internal(&e))?;
            // Where the query computes the values, a zero may stand for a row that is left out, as
            // in `SUM(CASE WHEN id = 7 THEN x ELSE 0 END)`.
            let is_computed =
                !is_counted && self.flow.trace(argument).is_none_or(|own| own.origin.is_none());
            let mut has_value = without_nan(shown.clone(), &data_type).is_not_null();
            if is_computed {
                let zero = ScalarValue::new_zero(&data_type).map_err(|e| internal(&e))?;
                has_value = has_value.and(shown.not_eq(Expr::Literal(zero, None)));
            }
            all = Some(match all {
                Some(filter) => filter.and(has_value),
                None => has_value,
            });
        }
        Ok(all)
    }

    pub(crate) fn outer(&self) -> u64 {
        u64::try_from(self.outer).unwrap_or(u64::MAX)
    }

    /// The most outer groups that a unit can be in, by their number and by the keys. The bounding
    /// operator enforces it.
    pub(crate) fn outer_of_unit(&self) -> usize {
        if self.one_group { 1 } else { self.outer }
    }

    /// The contribution bounds of a score that is spread over this number of keys.
    pub(crate) fn limits(
        &self,
        call: &Call,
        read: &AggregateRead,
        keys: usize,
    ) -> Result<ContributionBounds, Refusal> {
        let (parameters, text) = (&call.clause.parameters, call.clause.text.as_str());
        limits(&self.flow.subject, parameters, read, keys, true, text)
    }

    pub(crate) fn measure(
        &self,
        call: &Call,
        read: AggregateRead,
        limits: ContributionBounds,
        choice: Choice,
    ) -> Measure {
        Measure {
            clause: call.clause.clone(),
            column: call.column.clone(),
            data_type: call.data_type.clone(),
            input: read.input,
            filter: None,
            grid: read.grid,
            lo: read.lo,
            hi: read.hi,
            limits,
            release_kind: ReleaseKind::Choice(Box::new(choice)),
            ladder: None,
            replaced: None,
        }
    }
}

/// Analysts cannot choose the privacy unit: `privacy_unit_column` may only repeat the declared one.
pub(crate) fn check_unit_column(
    clause: &ReleaseClause,
    subject: &UnitScope,
) -> Result<(), Refusal> {
    let Some(named) = &clause.unit_column else { return Ok(()) };
    if subject.is_named(named) {
        return Ok(());
    }
    let declared = subject.column().map_or("the row".to_owned(), ToOwned::to_owned);
    Err(Refusal::new(
        Reason::UnitColumn,
        format!("privacy_unit_column={named}"),
        format!("the declared privacy unit is {declared}"),
        "OPTIONS without privacy_unit_column",
    ))
}

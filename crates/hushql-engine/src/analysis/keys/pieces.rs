//! The values of a column, split into pieces: between two neighbouring cuts, each comparison with a
//! constant has one result.
//!
//! In: a column with many ordered values, and the expressions that are compared with constants.
//! Out: values of the column, at least one for each result of an expression on rows that meet the
//! conditions.
//!
//! ```text
//! d from 1900 to 9999, WHERE d BETWEEN '2024-01-01' AND '2024-01-31' OR d = '9999-12-31'
//!   5 pieces, of which 2 meet the condition: their days are tried
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Int64Array, UInt64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type, Int64Type, UInt64Type};
use datafusion::common::Column;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder};
use num_traits::ToPrimitive;

use super::cuts::Cut;
use super::grain::Grain;
use super::trial::{Atom, Trial};
use crate::analysis::below::walk::Tables;
use crate::analysis::expr::exact;
use crate::analysis::expr::facts::{Facts, KeySource, Scope, holds_exactly, rational, same_column};
use crate::analysis::expr::interval::Interval;
use crate::analysis::expr::periods::is_asked;
use crate::analysis::expr::shape::{is_temporal, type_of, unit_of};
use crate::privacy::Rational;

/// The number of values that one step of the search compares.
const AT_ONCE: i128 = 512;

/// The largest number of cuts that are searched.
const MOST_CUTS: usize = 64;

/// The largest number of changes of one comparison: it can be less, equal or greater, with NULL on
/// both sides.
const MOST_CHANGES: usize = 8;

/// The values of a column, in order, as whole numbers of its unit.
pub(super) struct Line<'a> {
    column: &'a Column,
    scope: &'a Scope,
    tables: &'a dyn Tables,
    facts: Facts,
    data_type: DataType,
    /// Its pieces, in order. Rows can have only values in these pieces.
    pieces: Vec<(i128, i128)>,
    /// True if NULL meets the conditions.
    null_passes: bool,
}

impl<'a> Line<'a> {
    /// The line of a column of whole numbers, decimals, dates or timestamps. `None` for other
    /// columns, and for columns with a known list.
    pub(super) fn new(
        column: &'a Column,
        scope: &'a Scope,
        tables: &'a dyn Tables,
    ) -> Option<Self> {
        let own = Expr::Column(column.clone());
        let facts = exact(&own, scope).ok()?.facts;
        let data_type = type_of(&own, &scope.schema).ok()?;
        let is_listed = matches!(facts.keys, Some(KeySource::Values(_) | KeySource::Ticks(_)));
        let is_discrete = data_type.is_integer()
            || is_temporal(&data_type)
            || matches!(data_type, DataType::Decimal128(..));
        if facts.is_unit || is_listed || !is_discrete {
            return None;
        }
        let units = facts.known().scale(&unit_of(&data_type).recip()).integers().to_i128()?;
        let is_short = units.0.unsigned_abs().max(units.1.unsigned_abs()) < 1 << 120;
        let pieces = vec![Some(units).filter(|_| is_short)?];
        Some(Self { column, scope, tables, facts, data_type, pieces, null_passes: true })
    }

    /// The same line, split at the cuts; `None` if some cuts cannot be found.
    pub(super) fn cut(mut self, cuts: &[Cut]) -> Option<Self> {
        let mut begins = BTreeSet::new();
        let mut searched = 0;
        let asked = |cut: &&Cut| cut.at.as_ref().is_none_or(|at| !at.is_null());
        // A comparison with NULL is NULL everywhere, so it has no cut.
        for cut in cuts.iter().filter(asked) {
            match self.known_changes(cut) {
                Some(found) => begins.extend(found),
                None => {
                    searched += 1;
                    if searched > MOST_CUTS {
                        return None;
                    }
                    begins.extend(self.changes(cut)?);
                }
            }
        }
        let mut pieces = Vec::with_capacity(begins.len() + 1);
        for (lo, hi) in &self.pieces {
            let mut first = *lo;
            for begin in begins.iter().filter(|begin| lo < *begin && *begin <= hi) {
                pieces.push((first, begin - 1));
                first = *begin;
            }
            pieces.push((first, *hi));
        }
        self.pieces = pieces;
        Some(self)
    }

    /// The first value at which the column is at least a constant, and the first at which it is
    /// more.
    fn known_changes(&self, cut: &Cut) -> Option<Vec<i128>> {
        let (column, finer) = same_column(&cut.of, &self.scope.schema)?;
        let data_type = type_of(&cut.of, &self.scope.schema).ok()?;
        if column != self.column
            || !(data_type == self.data_type || holds_exactly(&data_type, &self.data_type))
        {
            return None;
        }
        let Some(at) = &cut.at else { return Some(Vec::new()) };
        let at = rational(at)? / finer / unit_of(&self.data_type);
        let begin = at.ceil().to_integer().to_i128()?;
        let after = at.floor().to_integer().to_i128()?.checked_add(1)?;
        Some(vec![begin, after])
    }

    /// The values at which a comparison changes, found by evaluating it.
    fn changes(&self, cut: &Cut) -> Option<Vec<i128>> {
        let mut found = Vec::new();
        let mut gaps = self.pieces.clone();
        while !gaps.is_empty() {
            let mut ticks = BTreeSet::new();
            for (lo, hi) in &gaps {
                let step = ((hi - lo) / AT_ONCE).max(1);
                let mut next = *lo;
                while next < *hi {
                    ticks.insert(next);
                    next += step;
                }
                ticks.insert(*hi);
            }
            let ticks: Vec<i128> = ticks.into_iter().collect();
            let states = self.states(cut, &ticks)?;
            let mut narrower = Vec::new();
            for two in states.windows(2) {
                let [(before, one), (after, other)] = two else { return None };
                if one == other {
                    continue;
                }
                match after - before {
                    1 => found.push(*after),
                    _ => narrower.push((*before, *after)),
                }
            }
            // An expression that is not monotone has many changes.
            if found.len() + narrower.len() > MOST_CHANGES {
                return None;
            }
            gaps = narrower;
        }
        Some(found)
    }

    /// For some values: whether the compared expression is at least the constant, and whether it is
    /// more. Without a constant: whether it is NULL.
    fn states(&self, cut: &Cut, ticks: &[i128]) -> Option<Vec<(i128, [Option<bool>; 2])>> {
        let atoms = [self.atom(ticks)?];
        let trial = Trial::new(&atoms, self.tables)?;
        let of = trial.over_atoms(&cut.of)?;
        let data_type = type_of(&of, &trial.scope.schema).ok()?;
        let [least, more] = match &cut.at {
            Some(at) => {
                let own = at.cast_to(&data_type).ok()?;
                if own.is_null() || own.cast_to(&at.data_type()).ok()? != *at {
                    return None;
                }
                let at = Expr::Literal(own, None);
                [of.clone().gt_eq(at.clone()), of.gt(at)]
            }
            None => [of.clone().is_null(), of.is_null()],
        };
        let plan = LogicalPlanBuilder::from(trial.scan.clone());
        let columns = [trial.column(0)?, least.alias("least"), more.alias("more")];
        let rows = self.tables.read(&plan.project(columns).ok()?.build().ok()?)?;
        let [values, least, more] = rows.columns() else { return None };
        let (least, more) = (least.as_boolean_opt()?, more.as_boolean_opt()?);
        let state = |of: &arrow::array::BooleanArray, row| of.is_valid(row).then(|| of.value(row));
        let ticks = ticks_of(values)?;
        let states = ticks.into_iter().enumerate();
        let states =
            states.filter_map(|(row, tick)| Some((tick?, [state(least, row), state(more, row)])));
        let mut states: Vec<_> = states.collect();
        states.sort_by_key(|(tick, _)| *tick);
        Some(states)
    }

    /// The pieces whose values meet conditions. Each condition has one result per piece.
    pub(super) fn meeting(mut self, conditions: &[Expr]) -> Option<Self> {
        if conditions.is_empty() {
            return Some(self);
        }
        let firsts: Vec<i128> = self.pieces.iter().map(|(lo, _)| *lo).collect();
        let atoms = [self.atom(&firsts)?];
        let trial = Trial::new(&atoms, self.tables)?;
        let (passing, _) = trial.passing(conditions)?;
        let plan = passing.project([trial.column(0)?]).ok()?.build().ok()?;
        let rows = self.tables.read(&plan)?;
        let met = ticks_of(rows.columns().first()?)?;
        self.null_passes &= met.contains(&None);
        let met: BTreeSet<i128> = met.into_iter().flatten().collect();
        self.pieces.retain(|(lo, _)| met.contains(lo));
        Some(self)
    }

    /// True if NULL meets the conditions.
    pub(super) fn null_passes(&self) -> bool {
        self.null_passes
    }

    /// The number of pieces.
    pub(super) fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Values of the pieces, and NULL. They include one for each value of any expression with this
    /// grain. `None` if there are too many.
    pub(super) fn tried(&self, grain: Grain, most: usize) -> Option<Atom> {
        let mut ticks = Vec::new();
        for piece in &self.pieces {
            let Some(step) = grain.step(&self.data_type)? else {
                ticks.push(piece.0);
                continue;
            };
            let (lo, hi) = match grain.cycle(*piece, &self.data_type) {
                Some(cycle) => cycle,
                None if self.is_asked(*piece) => *piece,
                None => return None,
            };
            let left = i128::try_from(most.checked_sub(ticks.len())?).ok()?;
            if (hi - lo) / step >= left - 2 {
                return None;
            }
            ticks.push(lo);
            let mut next = (lo.div_euclid(step) + 1) * step;
            while next <= hi {
                ticks.push(next);
                next += step;
            }
        }
        self.atom(&ticks)
    }

    /// True if a piece is declared or stated in the query. The calendar's own ends are not.
    fn is_asked(&self, (lo, hi): (i128, i128)) -> bool {
        let end = |tick: i128| i64::try_from(tick).ok();
        match (is_temporal(&self.data_type), end(lo).zip(end(hi))) {
            (true, Some(ends)) => is_asked(&self.facts, &self.data_type, ends),
            (true, None) => false,
            (false, _) => true,
        }
    }

    /// For each piece, the scope in which the column has only its values.
    pub(super) fn scopes(&self) -> impl Iterator<Item = Scope> + '_ {
        let unit = unit_of(&self.data_type);
        let index = self.scope.schema.maybe_index_of_column(self.column);
        self.pieces.iter().filter_map(move |(lo, hi)| {
            let mut scope = self.scope.clone();
            let end = |tick: i128| Rational::from_integer(tick.into()) * &unit;
            let facts = scope.facts.get_mut(index?)?;
            facts.range = Interval::between(end(*lo), end(*hi));
            Some(scope)
        })
    }

    fn atom(&self, ticks: &[i128]) -> Option<Atom> {
        Atom::of_values(
            &Expr::Column(self.column.clone()),
            &values_of(ticks, &self.data_type)?,
            self.scope,
        )
    }
}

/// Converts numbers of a type's unit to values of the type.
fn values_of(ticks: &[i128], data_type: &DataType) -> Option<ArrayRef> {
    if let DataType::Decimal128(precision, scale) = data_type {
        let decimals = Decimal128Array::from(ticks.to_vec());
        return Some(Arc::new(decimals.with_precision_and_scale(*precision, *scale).ok()?));
    }
    let whole = |of: &i128| i64::try_from(*of).ok();
    let numbers: ArrayRef = match data_type {
        DataType::UInt64 => {
            let whole: Option<Vec<u64>> = ticks.iter().map(|of| u64::try_from(*of).ok()).collect();
            Arc::new(UInt64Array::from(whole?))
        }
        _ => Arc::new(Int64Array::from(ticks.iter().map(whole).collect::<Option<Vec<_>>>()?)),
    };
    match data_type {
        DataType::Date32 => cast(&cast(&numbers, &DataType::Int32).ok()?, data_type).ok(),
        _ => cast(&numbers, data_type).ok(),
    }
}

/// Converts values of a type to numbers of its unit.
fn ticks_of(values: &ArrayRef) -> Option<Vec<Option<i128>>> {
    if let Some(decimals) = values.as_primitive_opt::<Decimal128Type>() {
        return Some(decimals.iter().collect());
    }
    if let Some(numbers) = values.as_primitive_opt::<UInt64Type>() {
        return Some(numbers.iter().map(|of| of.map(i128::from)).collect());
    }
    let numbers = match values.data_type() {
        DataType::Date32 => cast(values, &DataType::Int32).ok()?,
        _ => Arc::clone(values),
    };
    let numbers = cast(&numbers, &DataType::Int64).ok()?;
    let numbers = numbers.as_primitive_opt::<Int64Type>()?;
    Some(numbers.iter().map(|of| of.map(i128::from)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of a type become numbers of its unit and the same values again.
    #[test]
    fn values_are_numbers_of_their_unit() {
        use arrow::datatypes::TimeUnit;
        for data_type in [
            DataType::Date32,
            DataType::Int8,
            DataType::Int64,
            DataType::Decimal128(12, 2),
            DataType::Timestamp(TimeUnit::Microsecond, None),
        ] {
            let values = values_of(&[-3, 0, 120], &data_type).unwrap();
            assert_eq!(values.data_type(), &data_type);
            assert_eq!(ticks_of(&values).unwrap(), [Some(-3), Some(0), Some(120)]);
        }
        assert!(values_of(&[300], &DataType::Int8).unwrap().is_null(0));
        let most = i128::from(u64::MAX);
        let values = values_of(&[0, most], &DataType::UInt64).unwrap();
        assert_eq!(ticks_of(&values).unwrap(), [Some(0), Some(most)]);
    }
}

//! Finds the cells that a private aggregate reads, where its query shows them.
//!
//! In: a private aggregate as it was written, and the declared cells of its unit domain. Out: the
//! cells to which it is charged alone, or why it is charged to all. The result follows from the
//! statement and the declarations.
//!
//! ```text
//! FROM customers WHERE region = 'Oslo' AND age > 30                     'Oslo'
//! FROM orders o JOIN customers c ON o.customer = c.id WHERE c.region IN ('Oslo', 'Rome')      'Oslo' and 'Rome'
//! FROM visits WHERE visited_at >= DATE '2026-03-01' AND visited_at < DATE '2026-05-01'        '2026-03' and '2026-04'
//! FROM visits GROUP BY DATE_TRUNC('quarter', visited_at) KEYS (DATE '2026-01-01')             '2026-01' to '2026-03'
//! FROM customers WHERE region = 'Oslo' OR age > 30                      all: the OR admits rows of every cell
//! FROM orders WHERE customer NOT IN (SELECT id FROM customers WHERE region = 'Oslo')          all
//! ```
//!
//! # Guarantee
//! If cells are named, every row that enters the aggregate belongs to a unit of these cells. The
//! walk below a release refuses operators that mix the rows of units. So every row of a relation
//! belongs to one unit, depends on the rows of this unit alone, and is joined only with rows of the
//! same unit. A row belongs to a unit of a cell if the unit's own row has the value of this cell.
//! That value is compared here with literals, in the enforced column that the scan returns. Where a
//! unit is one month of a person, each of its rows has a date of this month in the file, and the
//! enforced column says which months that can be: no table leads to such units, and no two of them
//! are joined. For a plan whose shape is not known to keep to this, the result is all cells.

use std::collections::BTreeSet;
use std::str::FromStr;

use arrow::datatypes::DataType;
use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::expr::{Between, InList};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Distinct, Expr, Join, JoinType, LogicalPlan, Operator, TableScan,
};

use crate::analysis::below::relation::scanned;
use crate::analysis::expr::domain::typed;
use crate::analysis::expr::facts::constant;
use crate::analysis::measure::{InputShape, ReleaseKind};
use crate::analysis::private_aggregate::PrivateAggregate;
use crate::catalog::cells::Cells;
use crate::catalog::month_units::{cells_of_months, counted};
use crate::catalog::{Catalog, Cell, Domain, Touched};
use crate::dialect::marked;
use crate::functions::{has_months, month_of, ticks_a_day};

/// The cells that a private aggregate reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CellsRead {
    /// Its unit domain has no cells.
    Undivided,
    /// All of them: the column that names cells, and the reason.
    All(String, &'static str),
    /// Only these.
    Only(Touched),
}

/// The query shows no cells. `{column}` stands for the column of the cells.
const NOT_SHOWN: &str = "nothing shows that all rows it reads are of some of them: write WHERE {column} = value, or IN (…), next to the other conditions";
/// The query reads every listed cell.
const EVERY: &str = "it reads every one of them";
/// The query shows no months.
const NO_MONTHS: &str = "nothing shows which months it reads: write WHERE {column} >= DATE '2026-03-01' AND {column} < DATE '2026-04-01', next to the other conditions";
/// A row of a block depends on all people of the block.
const BLOCKS: &str = "the value of a block depends on people of every cell";
/// Whether a group is shown depends on how many units are in it.
const HIDDEN: &str = "groups of few people are hidden";

impl PrivateAggregate {
    /// The cells of its unit domain that it reads.
    ///
    /// # Guarantee
    /// The guarantee of [this module](self): the draws depend on no row of a unit outside the named
    /// cells.
    pub(crate) fn cells(&self, catalog: &Catalog) -> CellsRead {
        let unit_domain = self.subject().unit_domain();
        let Some(cells) = catalog.cells_of(unit_domain) else { return CellsRead::Undivided };
        let all = |why| CellsRead::All(cells.column.to_owned(), why);
        let not_shown = if cells.are_months { NO_MONTHS } else { NOT_SHOWN };
        if self.unknown_partitions().is_some() {
            return all(HIDDEN);
        }
        if self.subject().blocks().is_some() {
            return all(BLOCKS);
        }
        let Ok(data_type) = DataType::from_str(cells.data_type) else { return all(not_shown) };
        let reader = CellReader { cells, data_type, catalog };
        let by_rows = reader.rows(&self.aggregate.input);
        let Some(read) = both(by_rows, self.by_keys(&reader)) else { return all(not_shown) };
        let read = if cells.are_months { counted(read) } else { read };
        let every = cells.all();
        if read.is_empty() || !read.is_subset(&every) {
            return all(not_shown);
        }
        let listed = every.iter().filter(|cell| **cell != Cell::Other);
        if listed.into_iter().all(|cell| read.contains(cell)) {
            return all(EVERY);
        }
        let Cells { column, since, .. } = cells;
        CellsRead::Only(Touched { column: column.to_owned(), since, cells: read })
    }

    /// The cells that its group keys name. Keys are public, whether they are declared, listed or
    /// computed. Rows with other keys are dropped before the sums are computed, and before
    /// different values are counted.
    fn by_keys(&self, reader: &CellReader<'_>) -> Option<BTreeSet<Cell>> {
        let only_adds = self.measures().iter().all(|measure| match &measure.release_kind {
            ReleaseKind::Number(_) => match measure.input_shape() {
                InputShape::Sums | InputShape::Distinct => measure.ladder.is_none(),
                InputShape::Places | InputShape::Keys | InputShape::Groups { .. } => false,
            },
            ReleaseKind::Choice(_) => false,
        });
        if !only_adds {
            return None;
        }
        let keys = self.aggregate.group_expr.iter().enumerate().map(|(at, key)| {
            let listed = self.keys().of_column(at).iter().cloned().map(Some);
            reader.equal_to(key, listed, &self.aggregate.input)
        });
        keys.fold(None, both)
    }
}

/// The cells in both of two sets, each of which holds all cells that are read. If no cell is in
/// both, no row is read, and either set will do.
fn both(one: Option<BTreeSet<Cell>>, other: Option<BTreeSet<Cell>>) -> Option<BTreeSet<Cell>> {
    match (one, other) {
        (Some(one), Some(other)) => match one.is_disjoint(&other) {
            true => Some(one),
            false => Some(one.intersection(&other).cloned().collect()),
        },
        (one, other) => one.or(other),
    }
}

/// A kind of periods of the calendar, by the months that a date can be in if the start of its
/// period is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Period {
    /// A day or less, in one month.
    Day,
    /// From Monday to Sunday, in one month or two.
    Week,
    /// This many whole months.
    Months(i64),
}

/// The parts of `date_trunc` whose periods are known.
const PERIODS: [(&str, Period); 8] = [
    ("second", Period::Day),
    ("minute", Period::Day),
    ("hour", Period::Day),
    ("day", Period::Day),
    ("week", Period::Week),
    ("month", Period::Months(1)),
    ("quarter", Period::Months(3)),
    ("year", Period::Months(12)),
];

/// Reads plans over rows of units that have cells.
struct CellReader<'a> {
    cells: Cells<'a>,
    data_type: DataType,
    catalog: &'a Catalog,
}

impl CellReader<'_> {
    /// The cells whose units have rows in a plan. `None` means all cells, or rows of no unit.
    fn rows(&self, plan: &LogicalPlan) -> Option<BTreeSet<Cell>> {
        match plan {
            LogicalPlan::TableScan(_) => None,
            LogicalPlan::Filter(filter) => {
                let shown = self.shown(&filter.predicate, &filter.input);
                both(self.rows(&filter.input), shown)
            }
            LogicalPlan::Projection(projection) => self.rows(&projection.input),
            LogicalPlan::SubqueryAlias(alias) => self.rows(&alias.input),
            LogicalPlan::Window(window) => self.rows(&window.input),
            LogicalPlan::Distinct(Distinct::All(input)) => self.rows(input),
            LogicalPlan::Aggregate(aggregate) if !is_release(aggregate) => {
                self.rows(&aggregate.input)
            }
            LogicalPlan::Join(join) => self.joined(join, plan),
            LogicalPlan::Union(union) => {
                let mut all = BTreeSet::new();
                for branch in &union.inputs {
                    all.extend(self.rows(branch)?);
                }
                Some(all)
            }
            LogicalPlan::Aggregate(_)
            | LogicalPlan::Distinct(Distinct::On(_))
            | LogicalPlan::Sort(_)
            | LogicalPlan::Limit(_)
            | LogicalPlan::Values(_)
            | LogicalPlan::EmptyRelation(_)
            | LogicalPlan::Subquery(_)
            | LogicalPlan::Repartition(_)
            | LogicalPlan::Statement(_)
            | LogicalPlan::Explain(_)
            | LogicalPlan::Analyze(_)
            | LogicalPlan::Extension(_)
            | LogicalPlan::Dml(_)
            | LogicalPlan::Ddl(_)
            | LogicalPlan::Copy(_)
            | LogicalPlan::DescribeTable(_)
            | LogicalPlan::Unnest(_)
            | LogicalPlan::RecursiveQuery(_) => None,
        }
    }

    /// The cells of joined rows. In an inner join of two private sides, both rows belong to one
    /// unit. The rows of an outer join belong to the units of its preserved side.
    fn joined(&self, join: &Join, plan: &LogicalPlan) -> Option<BTreeSet<Cell>> {
        match join.join_type {
            JoinType::Inner => {
                let on = join.filter.as_ref().and_then(|filter| self.shown(filter, plan));
                let sides = both(self.rows(&join.left), self.rows(&join.right));
                both(sides, on)
            }
            JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => {
                self.rows(&join.left)
            }
            JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
                self.rows(&join.right)
            }
            JoinType::Full => None,
        }
    }

    /// The cells to which the conjuncts of a predicate restrict the rows of a plan.
    fn shown(&self, predicate: &Expr, plan: &LogicalPlan) -> Option<BTreeSet<Cell>> {
        let conjuncts = split_conjunction(predicate).into_iter();
        conjuncts.map(|conjunct| self.compared(conjunct, plan)).fold(None, both)
    }

    /// The cells to which `column = literal`, `column IN (literal, …)` or `column IS NULL`
    /// restricts the rows of a plan; for months, also the other comparisons with literals, and
    /// those of the column's periods.
    fn compared(&self, conjunct: &Expr, plan: &LogicalPlan) -> Option<BTreeSet<Cell>> {
        if let Expr::BinaryExpr(BinaryExpr { left, op, right }) = conjunct {
            // A cast literal is compared as the value that it is cast to.
            return match (constant(left), constant(right)) {
                (None, Some(value)) => self.beside(left, *op, value, plan),
                (Some(value), None) => self.beside(right, op.swap()?, value, plan),
                (Some(_), Some(_)) | (None, None) => None,
            };
        }
        if let Expr::Between(Between { expr, negated: false, low, high }) = conjunct {
            let end = |op, value: &Expr| self.beside(expr, op, constant(value)?, plan);
            return both(end(Operator::GtEq, low), end(Operator::LtEq, high));
        }
        if let Expr::InList(InList { expr, list, negated: false }) = conjunct {
            return self.equal_to(expr, list.iter().map(constant), plan);
        }
        if let Expr::IsNull(expr) = conjunct {
            return if self.is_cell_of(expr, plan) { self.cells_without_value() } else { None };
        }
        None
    }

    /// The cells to which a comparison of an expression with a value restricts the rows of a plan.
    fn beside(
        &self,
        expr: &Expr,
        op: Operator,
        value: ScalarValue,
        plan: &LogicalPlan,
    ) -> Option<BTreeSet<Cell>> {
        if op == Operator::Eq {
            return self.equal_to(expr, [Some(value)], plan);
        }
        match self.is_cell_of(expr, plan) {
            true => self.months_where(op, &value),
            false => self.periods_where(self.period(expr, plan)?, op, &value),
        }
    }

    /// The cells of the rows of a plan on which an expression is one of some values. `None` if a
    /// value is unknown, or the expression is neither the column nor a period of it.
    fn equal_to(
        &self,
        expr: &Expr,
        values: impl IntoIterator<Item = Option<ScalarValue>>,
        plan: &LogicalPlan,
    ) -> Option<BTreeSet<Cell>> {
        if self.is_cell_of(expr, plan) {
            return self.cells_of(values);
        }
        let period = self.period(expr, plan)?;
        let mut cells = BTreeSet::new();
        for value in values {
            let value = value?;
            cells.extend(match value.is_null() {
                true => self.cells_without_value()?,
                false => self.periods_where(period, Operator::Eq, &value)?,
            });
        }
        Some(cells)
    }

    /// True if an expression is the column that names cells, unchanged.
    fn is_cell_of(&self, expr: &Expr, plan: &LogicalPlan) -> bool {
        expr.try_as_col().is_some_and(|column| self.is_cell(column, plan))
    }

    /// The kind of periods whose starts an expression shows, if it is `date_trunc(part, column)` of
    /// the column with the date.
    ///
    /// # Guarantee
    /// A row with a value of the expression has its date in the period that starts with this value.
    /// A date that is cast to a moment is the start of the same day.
    fn period(&self, expr: &Expr, plan: &LogicalPlan) -> Option<Period> {
        let Expr::ScalarFunction(call) = expr else { return None };
        let [part, of] = call.args.as_slice() else { return None };
        if !self.cells.are_months || call.func.name() != "date_trunc" {
            return None;
        }
        let of = match of {
            Expr::Cast(cast)
                if self.data_type == DataType::Date32 && has_months(cast.field.data_type()) =>
            {
                cast.expr.as_ref()
            }
            of => of,
        };
        let part = constant(part)?;
        let part = part.try_as_str()??;
        let known = PERIODS.iter().find(|(name, _)| name.eq_ignore_ascii_case(part));
        known.map(|(_, period)| *period).filter(|_| self.is_cell_of(of, plan))
    }

    /// The months of rows whose period's start compares with a value.
    ///
    /// # Guarantee
    /// The start of a date's period is at or before the date. If it is at or before a value, it is
    /// at or before the start of the period of this value, so that the date is before the end of
    /// that period. If it is after a value, it is at or after that end where periods are whole
    /// months.
    fn periods_where(
        &self,
        period: Period,
        op: Operator,
        value: &ScalarValue,
    ) -> Option<BTreeSet<Cell>> {
        // The first month of the period of a moment, and the first one after it.
        let whole = |later: i64, months: i64| {
            let month = month_of(value, later)?;
            let first = month.checked_sub(month.rem_euclid(months))?;
            Some((first, first.checked_add(months)?))
        };
        let after = |later: i64| match period {
            Period::Day | Period::Week => month_of(value, later.checked_add(1)?),
            Period::Months(months) => whole(later, months).map(|(_, next)| next),
        };
        let up_to = |later: i64| match period {
            Period::Day => month_of(value, later),
            Period::Week => {
                let week = ticks_a_day(&value.data_type())?.checked_mul(7)?;
                month_of(value, later.checked_add(week)?.checked_sub(1)?)
            }
            Period::Months(months) => whole(later, months)?.1.checked_sub(1),
        };
        let is = |other| op == other;
        if is(Operator::Eq) {
            self.months_in_file(Some(after(-1)?), Some(up_to(0)?))
        } else if is(Operator::Gt) || is(Operator::GtEq) {
            self.months_in_file(Some(after(if is(Operator::Gt) { 0 } else { -1 })?), None)
        } else if is(Operator::Lt) || is(Operator::LtEq) {
            self.months_in_file(None, Some(up_to(if is(Operator::Lt) { -1 } else { 0 })?))
        } else {
            None
        }
    }

    /// The cells of values of the column's type. `None` if one of them is unknown.
    fn cells_of(
        &self,
        values: impl IntoIterator<Item = Option<ScalarValue>>,
    ) -> Option<BTreeSet<Cell>> {
        let mut cells = BTreeSet::new();
        for value in values {
            let value = value?;
            if !self.cells.are_months {
                cells.insert(self.cell(&value)?);
            } else if value.is_null() && value.data_type() == self.data_type {
                cells.extend(self.cells_without_value()?);
            } else {
                cells.extend(self.months_between(Some((&value, 0)), Some((&value, 0)))?);
            }
        }
        Some(cells)
    }

    /// The cells of rows in which the column is NULL. A date that a domain does not list is NULL
    /// there, too, and its month can be any.
    fn cells_without_value(&self) -> Option<BTreeSet<Cell>> {
        match self.cells.are_months && self.domain().is_some() {
            true => None,
            false => Some([Cell::Other].into()),
        }
    }

    /// The months of rows in which a comparison with a value holds.
    fn months_where(&self, op: Operator, value: &ScalarValue) -> Option<BTreeSet<Cell>> {
        if !self.cells.are_months {
            return None;
        }
        let is = |other| op == other;
        if is(Operator::Lt) || is(Operator::LtEq) {
            let later = if is(Operator::Lt) { -1 } else { 0 };
            return self.months_between(None, Some((value, later)));
        }
        if is(Operator::Gt) || is(Operator::GtEq) {
            let later = if is(Operator::Gt) { 1 } else { 0 };
            return self.months_between(Some((value, later)), None);
        }
        None
    }

    /// The months of rows whose dates are between two values, or beyond an end that is open. Each
    /// end is so many of its type's ticks later than its value.
    ///
    /// # Guarantee
    /// The months of the dates in the file, which identify the unit: a date that the column's
    /// domain moved to one of the domain's ends is found with this end.
    fn months_between(
        &self,
        from: Option<(&ScalarValue, i64)>,
        to: Option<(&ScalarValue, i64)>,
    ) -> Option<BTreeSet<Cell>> {
        let month = |end: Option<(&ScalarValue, i64)>| match end {
            Some((value, _)) if value.data_type() != self.data_type => None,
            Some((value, later)) => month_of(value, later).map(Some),
            None => Some(None),
        };
        self.months_in_file(month(from)?, month(to)?)
    }

    /// The months in the file of the rows whose dates are in these months after the column's domain
    /// is enforced. `None` leaves an end open.
    ///
    /// # Guarantee
    /// As for [`Self::months_between`].
    fn months_in_file(
        &self,
        mut first: Option<i64>,
        mut last: Option<i64>,
    ) -> Option<BTreeSet<Cell>> {
        match self.domain() {
            None => {}
            Some(Domain::In(_)) => {}
            Some(Domain::Between { lo, hi, step: None, .. }) => {
                let end = |text: &str| typed(text, &self.data_type).ok();
                let (lo, hi) = (month_of(&end(lo)?, 0)?, month_of(&end(hi)?, 0)?);
                // In the month of an end, there are all dates beyond it.
                first = first.filter(|first| *first > lo);
                last = last.filter(|last| *last < hi);
            }
            Some(Domain::Between { step: Some(_), .. }) => return None,
        }
        Some(cells_of_months(first, last))
    }

    /// The domain of the column.
    fn domain(&self) -> Option<&Domain> {
        self.cells.table.column(self.cells.column)?.domain.as_ref()
    }

    /// The cell of a value of the column's type. A value that is not listed is in [`Cell::Other`].
    fn cell(&self, value: &ScalarValue) -> Option<Cell> {
        let is_text = |data_type: &DataType| data_type.is_string();
        let of = value.data_type();
        if of != self.data_type && !(is_text(&of) && is_text(&self.data_type)) {
            return None;
        }
        if value.is_null() {
            return Some(Cell::Other);
        }
        let is_it = |text: &&str| match value.try_as_str() {
            Some(own) => own == Some(*text),
            None => typed(text, &self.data_type).is_ok_and(|listed| listed == *value),
        };
        let known = self.cells.values().find(is_it);
        Some(known.map_or(Cell::Other, |text| Cell::Value(text.to_owned())))
    }

    /// True if a column of a plan is the column that names cells, unchanged, in a row of the unit.
    fn is_cell(&self, column: &Column, plan: &LogicalPlan) -> bool {
        plan.schema().maybe_index_of_column(column).is_some_and(|at| self.traced(plan, at))
    }

    fn traced(&self, plan: &LogicalPlan, at: usize) -> bool {
        let columns = |plan: &LogicalPlan| plan.schema().fields().len();
        let of = |expr: Option<&Expr>, input: &LogicalPlan| {
            let mut expr = expr;
            while let Some(Expr::Alias(alias)) = expr {
                expr = Some(&alias.expr);
            }
            expr.and_then(Expr::try_as_col).is_some_and(|column| self.is_cell(column, input))
        };
        match plan {
            LogicalPlan::TableScan(scan) => self.scanned(scan, at),
            LogicalPlan::Projection(projection) => of(projection.expr.get(at), &projection.input),
            LogicalPlan::Filter(filter) => self.traced(&filter.input, at),
            LogicalPlan::SubqueryAlias(alias) => self.traced(&alias.input, at),
            LogicalPlan::Distinct(Distinct::All(input)) => self.traced(input, at),
            LogicalPlan::Window(window) => {
                at < columns(&window.input) && self.traced(&window.input, at)
            }
            LogicalPlan::Aggregate(aggregate) if !is_release(aggregate) => {
                of(aggregate.group_expr.get(at), &aggregate.input)
            }
            LogicalPlan::Join(join) => {
                let left = columns(&join.left);
                match (join.join_type, at.checked_sub(left)) {
                    (JoinType::Inner, Some(right)) => self.traced(&join.right, right),
                    (JoinType::Right, Some(right)) => self.traced(&join.right, right),
                    (JoinType::Inner, None)
                    | (
                        JoinType::Left
                        | JoinType::LeftSemi
                        | JoinType::LeftAnti
                        | JoinType::LeftMark,
                        None,
                    ) => self.traced(&join.left, at),
                    // The padded side is NULL on rows without a match.
                    (JoinType::Right | JoinType::Full, None)
                    | (
                        JoinType::Left
                        | JoinType::Full
                        | JoinType::LeftSemi
                        | JoinType::LeftAnti
                        | JoinType::LeftMark,
                        Some(_),
                    )
                    | (JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark, _) => false,
                }
            }
            LogicalPlan::Union(union) => union.inputs.iter().all(|input| self.traced(input, at)),
            LogicalPlan::Aggregate(_)
            | LogicalPlan::Distinct(Distinct::On(_))
            | LogicalPlan::Sort(_)
            | LogicalPlan::Limit(_)
            | LogicalPlan::Values(_)
            | LogicalPlan::EmptyRelation(_)
            | LogicalPlan::Subquery(_)
            | LogicalPlan::Repartition(_)
            | LogicalPlan::Statement(_)
            | LogicalPlan::Explain(_)
            | LogicalPlan::Analyze(_)
            | LogicalPlan::Extension(_)
            | LogicalPlan::Dml(_)
            | LogicalPlan::Ddl(_)
            | LogicalPlan::Copy(_)
            | LogicalPlan::DescribeTable(_)
            | LogicalPlan::Unnest(_)
            | LogicalPlan::RecursiveQuery(_) => false,
        }
    }

    fn scanned(&self, scan: &TableScan, at: usize) -> bool {
        let is_table =
            scanned(scan, self.catalog).is_some_and(|table| table.name == self.cells.table.name);
        let fields = scan.projected_schema.fields();
        is_table && fields.get(at).is_some_and(|field| field.name() == self.cells.column)
    }
}

/// True if an aggregate is a release across units: its rows belong to no privacy unit.
fn is_release(aggregate: &Aggregate) -> bool {
    let is_one =
        |e: &Expr| matches!(e, Expr::AggregateFunction(call) if marked(call.func.name()).is_some());
    let found = |expr: &Expr| {
        use datafusion::common::tree_node::TreeNode;
        expr.exists(|e| Ok(is_one(e))).unwrap_or(true)
    };
    aggregate.aggr_expr.iter().any(found)
}

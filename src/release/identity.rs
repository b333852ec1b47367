//! What a release draws, so that the same release can be recognised when it is asked again.
//!
//! In: a calibrated [`Release`]. Out: its [`Identity`]: bytes that are equal only for equal draws, whatever aliases, views and
//! orders of conditions it is written with; and the tables whose versions belong to it. What is not provably simple has none,
//! and is drawn each time. Nothing here was measured on private rows.
//!
//! ```text
//! SELECT LAPLACE(eps=1) COUNT(*) AS n FROM t WHERE a > 1 AND b = 2           one identity
//! SELECT LAPLACE(eps=1) COUNT(*) AS m FROM t x WHERE x.b = 2 AND x.a > 1     the same
//! SELECT LAPLACE(eps=1) COUNT(*) AS n FROM t WHERE a > 2 AND b = 2           another
//! ```
//!
//! A wrong hit would tell nothing about anybody, since what is stored is public; but it would lie. So the encoding lists what it
//! understands, and everything else has no identity.

use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::Array;
use arrow::datatypes::Field;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::{InList, ScalarFunction};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    Between, BinaryExpr, Case, Cast, Expr, LogicalPlan, TryCast, Volatility,
};

use crate::analysis::{Input, Measure, PrivateAggregate, ReleaseKind};
use crate::release::Release;
use crate::release::mechanism::Mechanized;

/// The version of the rules by which releases are drawn: a change of them makes other draws of the same statement.
const RULES: &str = concat!("hushql ", env!("CARGO_PKG_VERSION"), " rules 2");

/// What a release draws, and of which tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Equal only for equal draws of equal tables.
    pub(crate) body: Vec<u8>,
    /// The private tables that are read, each once, in order.
    pub(crate) tables: Vec<String>,
}

impl Identity {
    /// The identity of everything that a release draws; `None` if it is not simple enough.
    ///
    /// All draws of a statement are one unit, in their order: they are replayed together or not at all.
    pub(crate) fn of(release: &Release) -> Option<Self> {
        let analysis = release.analysis();
        let parts = analysis.parts();
        if parts.is_empty() || !analysis.values().is_empty() || !analysis.hierarchies().is_empty() {
            return None;
        }
        let mut body = Encoded::default();
        body.text(RULES);
        let mut tables: Vec<String> = Vec::new();
        for (i, part) in parts.iter().enumerate() {
            if release.partition_selection(i).is_some() {
                return None;
            }
            body.nested(&of_part(part, release.mechanisms(i))?);
            tables.extend(part.subject().tables().iter().cloned());
        }
        tables.sort();
        tables.dedup();
        Some(Self { body: body.0, tables })
    }
}

/// Fields, each with its length before it.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Encoded(Vec<u8>);

impl Encoded {
    fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend(u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_be_bytes());
        self.0.extend_from_slice(bytes);
    }

    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    fn nested(&mut self, other: &Self) {
        self.bytes(&other.0);
    }

    /// Numbers and names of our own: texts of a user have escapes there.
    fn debug(&mut self, value: &dyn Debug) {
        self.text(&format!("{value:?}"));
    }

    /// Every bit of a value. `None` for types whose values have no writing here: what is drawn from them is never the same.
    ///
    /// The text of a value does not do: that of binary values ends after ten bytes.
    fn scalar(&mut self, value: &ScalarValue) -> Option<()> {
        self.debug(&value.data_type());
        if value.is_null() {
            self.bytes(&[]);
            return Some(());
        }
        self.text("value");
        match value {
            ScalarValue::Boolean(Some(value)) => self.bytes(&[u8::from(*value)]),
            ScalarValue::Int8(Some(value)) => self.bytes(&value.to_be_bytes()),
            ScalarValue::Int16(Some(value)) => self.bytes(&value.to_be_bytes()),
            ScalarValue::Int32(Some(value)) | ScalarValue::Date32(Some(value)) => {
                self.bytes(&value.to_be_bytes());
            }
            ScalarValue::Int64(Some(value))
            | ScalarValue::Date64(Some(value))
            | ScalarValue::TimestampSecond(Some(value), _)
            | ScalarValue::TimestampMillisecond(Some(value), _)
            | ScalarValue::TimestampMicrosecond(Some(value), _)
            | ScalarValue::TimestampNanosecond(Some(value), _) => self.bytes(&value.to_be_bytes()),
            ScalarValue::UInt8(Some(value)) => self.bytes(&value.to_be_bytes()),
            ScalarValue::UInt16(Some(value)) => self.bytes(&value.to_be_bytes()),
            ScalarValue::UInt32(Some(value)) => self.bytes(&value.to_be_bytes()),
            ScalarValue::UInt64(Some(value)) => self.bytes(&value.to_be_bytes()),
            ScalarValue::Float32(Some(value)) => self.bytes(&value.to_bits().to_be_bytes()),
            ScalarValue::Float64(Some(value)) => self.bytes(&value.to_bits().to_be_bytes()),
            ScalarValue::Decimal32(Some(value), ..) => self.bytes(&value.to_be_bytes()),
            ScalarValue::Decimal64(Some(value), ..) => self.bytes(&value.to_be_bytes()),
            ScalarValue::Decimal128(Some(value), ..) => self.bytes(&value.to_be_bytes()),
            ScalarValue::IntervalYearMonth(Some(value)) => self.bytes(&value.to_be_bytes()),
            ScalarValue::IntervalDayTime(Some(value)) => {
                self.bytes(&value.days.to_be_bytes());
                self.bytes(&value.milliseconds.to_be_bytes());
            }
            ScalarValue::IntervalMonthDayNano(Some(value)) => {
                self.bytes(&value.months.to_be_bytes());
                self.bytes(&value.days.to_be_bytes());
                self.bytes(&value.nanoseconds.to_be_bytes());
            }
            ScalarValue::Utf8(Some(value))
            | ScalarValue::LargeUtf8(Some(value))
            | ScalarValue::Utf8View(Some(value)) => self.text(value),
            ScalarValue::Binary(Some(value))
            | ScalarValue::LargeBinary(Some(value))
            | ScalarValue::BinaryView(Some(value)) => self.bytes(value),
            _ => return None,
        }
        Some(())
    }
}

fn of_part(part: &PrivateAggregate, mechanisms: &[Mechanized]) -> Option<Encoded> {
    let is_plain = part.public().is_empty()
        && part.unknown_partitions().is_none()
        && !part.keys().are_unknown()
        && part.keys().target_position().is_none();
    if !is_plain || part.measures().len() != mechanisms.len() {
        return None;
    }
    let mut all = Encoded::default();
    let subject = part.subject();
    all.text(subject.unit_domain());
    subject.tables().iter().for_each(|table| all.text(table));
    all.debug(&part.has_unit());
    all.debug(&part.late_clamps());
    let keys = part.keys().all();
    all.debug(&keys.len());
    for column in keys.columns() {
        all.debug(column.data_type());
        for row in 0..column.len() {
            all.scalar(&ScalarValue::try_from_array(column, row).ok()?)?;
        }
    }
    for field in part.released_schema().fields() {
        all.debug(field.data_type());
    }
    all.nested(&of_rows(part.input())?.encoded());
    for (measure, mechanized) in part.measures().iter().zip(mechanisms) {
        all.nested(&of_measure(measure, mechanized)?);
    }
    Some(all)
}

fn of_measure(measure: &Measure, mechanized: &Mechanized) -> Option<Encoded> {
    let Measure {
        clause,
        column: _,
        data_type,
        input,
        filter,
        grid,
        lo,
        hi,
        limits,
        release_kind,
        ladder,
    } = measure;
    let is_simple = match input {
        Input::Rows
        | Input::Values(_)
        | Input::Units
        | Input::Sum(_)
        | Input::Mean(_)
        | Input::Moments(_)
        | Input::Joint(_)
        | Input::SumPerUnit(_)
        | Input::MeanPerUnit(_) => true,
        Input::Distinct(_) | Input::Terms { .. } | Input::Places { .. } => false,
    };
    let ReleaseKind::Number(sensitivity) = release_kind else { return None };
    if !is_simple || ladder.is_some() || clause.finding.is_some() {
        return None;
    }
    let mut all = Encoded::default();
    all.debug(data_type);
    all.debug(input);
    all.debug(filter);
    all.debug(grid);
    all.debug(&(lo, hi));
    all.debug(limits);
    all.debug(sensitivity);
    let Mechanized { mechanism, loss, accuracy, rank, instead: _, together } = mechanized;
    all.debug(mechanism);
    all.debug(loss);
    all.debug(accuracy);
    all.debug(rank);
    all.debug(together);
    Some(all)
}

/// The rows of one table that a plan yields: conditions, each once, in the order of their bytes, and columns.
struct Rows {
    table: String,
    conditions: Vec<Encoded>,
    columns: Vec<Encoded>,
}

impl Rows {
    fn encoded(mut self) -> Encoded {
        self.conditions.sort();
        self.conditions.dedup();
        let mut all = Encoded::default();
        all.text(&self.table);
        for parts in [&self.conditions, &self.columns] {
            let mut list = Encoded::default();
            parts.iter().for_each(|part| list.nested(part));
            all.nested(&list);
        }
        all
    }
}

/// The rows of a plan that filters and computes rows of one table.
fn of_rows(plan: &LogicalPlan) -> Option<Rows> {
    if let LogicalPlan::TableScan(scan) = plan {
        if scan.fetch.is_some() || !scan.filters.is_empty() {
            return None;
        }
        let column = |field: &Arc<Field>| {
            let mut column = Encoded::default();
            column.text("column");
            column.text(field.name());
            column
        };
        let columns = scan.projected_schema.fields().iter().map(column).collect();
        let table = scan.table_name.table().to_owned();
        return Some(Rows { table, conditions: Vec::new(), columns });
    }
    if let LogicalPlan::SubqueryAlias(alias) = plan {
        return of_rows(&alias.input);
    }
    if let LogicalPlan::Filter(filter) = plan {
        let mut rows = of_rows(&filter.input)?;
        for condition in split_conjunction(&filter.predicate) {
            let condition = of_expr(condition, &filter.input, &rows.columns)?;
            rows.conditions.push(condition);
        }
        return Some(rows);
    }
    let LogicalPlan::Projection(projection) = plan else { return None };
    let rows = of_rows(&projection.input)?;
    let columns = projection.expr.iter();
    let columns: Option<Vec<Encoded>> =
        columns.map(|expr| of_expr(expr, &projection.input, &rows.columns)).collect();
    Some(Rows { columns: columns?, ..rows })
}

/// An expression over the columns of a plan, each of which is written out.
fn of_expr(expr: &Expr, input: &LogicalPlan, columns: &[Encoded]) -> Option<Encoded> {
    let of = |expr: &Expr| of_expr(expr, input, columns);
    let of_all = |exprs: &[Expr]| exprs.iter().map(of).collect::<Option<Vec<_>>>();
    let mut all = Encoded::default();
    if let Expr::Alias(alias) = expr {
        return of(&alias.expr);
    }
    if let Expr::Column(column) = expr {
        let index = input.schema().maybe_index_of_column(column)?;
        return columns.get(index).cloned();
    }
    if let Expr::Literal(value, _) = expr {
        all.text("literal");
        all.scalar(value)?;
        return Some(all);
    }
    if let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr {
        all.text("binary");
        all.debug(op);
        all.nested(&of(left)?);
        all.nested(&of(right)?);
        return Some(all);
    }
    let unary = |name: &str, inner: &Expr| {
        let mut all = Encoded::default();
        all.text(name);
        all.nested(&of(inner)?);
        Some(all)
    };
    if let Expr::Not(inner) = expr {
        return unary("not", inner);
    }
    if let Expr::IsNull(inner) = expr {
        return unary("is null", inner);
    }
    if let Expr::IsNotNull(inner) = expr {
        return unary("is not null", inner);
    }
    if let Expr::IsTrue(inner) = expr {
        return unary("is true", inner);
    }
    if let Expr::IsNotTrue(inner) = expr {
        return unary("is not true", inner);
    }
    if let Expr::Negative(inner) = expr {
        return unary("negative", inner);
    }
    if let Expr::Cast(Cast { expr: inner, field }) = expr {
        all.text("cast");
        all.debug(field.data_type());
        all.nested(&of(inner)?);
        return Some(all);
    }
    if let Expr::TryCast(TryCast { expr: inner, field }) = expr {
        all.text("try_cast");
        all.debug(field.data_type());
        all.nested(&of(inner)?);
        return Some(all);
    }
    if let Expr::Between(Between { expr: inner, negated, low, high }) = expr {
        all.text("between");
        all.debug(negated);
        for inner in [inner, low, high] {
            all.nested(&of(inner)?);
        }
        return Some(all);
    }
    if let Expr::InList(InList { expr: inner, list, negated }) = expr {
        all.text("in");
        all.debug(negated);
        all.nested(&of(inner)?);
        let mut list = of_all(list)?;
        list.sort();
        list.iter().for_each(|value| all.nested(value));
        return Some(all);
    }
    if let Expr::Case(Case { expr: base, when_then_expr, else_expr }) = expr {
        all.text("case");
        for optional in [base, else_expr] {
            match optional {
                Some(inner) => all.nested(&of(inner)?),
                None => all.bytes(&[]),
            }
        }
        for (when, then) in when_then_expr {
            all.nested(&of(when)?);
            all.nested(&of(then)?);
        }
        return Some(all);
    }
    if let Expr::ScalarFunction(ScalarFunction { func, args }) = expr {
        if func.signature().volatility == Volatility::Volatile {
            return None;
        }
        all.text("function");
        all.text(func.name());
        // The parameters of our own functions are fields of theirs.
        all.debug(func);
        of_all(args)?.iter().for_each(|arg| all.nested(arg));
        return Some(all);
    }
    None
}

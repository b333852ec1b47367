//! The rows from which a synthetic table is made: private rows with public codes for every column.
//!
//! In: a query without releases. Out: a [`PrivateRows`]: the enforced plan that yields the unit and
//! the columns, and for each column its codes, which do not depend on the rows. Filters,
//! projections, joins, unions and aggregates of single units follow the rules below any release.
//!
//! ```text
//! SELECT age, city FROM people WHERE age >= 18      plan: unit, age, city; codes: 18 … 99 and NULL, Oslo, Rome and NULL
//! ```

use std::collections::BTreeSet;

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{Expr, LogicalPlan};

use super::below::refusals::not_private;
use super::below::relation::PrivateRelation;
use super::below::unit::UnitScope;
use super::below::walk::{Tables, Walk};
use super::expr::calendar::keys_in_calendar;
use super::expr::domain::typed;
use super::expr::facts::{Facts, KeySource, type_range};
use super::expr::shape::unit_of;
use super::expr::total;
use super::keys::group_keys::refuse_never;
use super::keys::joined_keys::refuse_unmatched;
use super::keys::key_image::keys_that_pass;
use super::keys::of_column::with_known_keys;
use super::not_analyzed::{NotAnalyzed, lost};
use super::public_presence::refuse_present;
use super::splitter::has_marker;
use crate::analysis::call::input_columns::InputColumns;
use crate::analysis::measure::people_behind::PeopleFloor;
use crate::bind::Bound;
use crate::catalog::{Catalog, quoted};
use crate::codes::{Codes, units};
use crate::dialect::{BucketOption, Literal};
use crate::functions::without_nan;
use crate::privacy::Rational;
use crate::refusal::{Reason, Refusal};
use crate::sql_type::sql_type;
use crate::synthetic::MOST_CODES;
use crate::ticks::Ticks;

/// Private rows with public codes for every column.
#[derive(Debug)]
pub(crate) struct PrivateRows {
    subject: UnitScope,
    public: BTreeSet<String>,
    input: LogicalPlan,
    columns: Vec<CodedColumn>,
    weighed: bool,
    steps: Vec<String>,
}

/// A column of the rows, and its codes.
#[derive(Debug, Clone)]
pub(crate) struct CodedColumn {
    /// Its name in the query.
    pub(crate) name: String,
    /// The public codes of its values.
    pub(crate) codes: Codes,
}

impl PrivateRows {
    /// The privacy unit, and the tables that it is protected in.
    pub(crate) fn subject(&self) -> &UnitScope {
        &self.subject
    }

    /// The public tables that the query reads.
    pub(crate) fn public(&self) -> &BTreeSet<String> {
        &self.public
    }

    /// The enforced rows: the unit first (unless each row is a unit), then the columns. If rows are
    /// weighed, the unit stands once more before the columns.
    pub(crate) fn input(&self) -> &LogicalPlan {
        &self.input
    }

    /// True if the input's first column is the unit.
    pub(crate) fn has_unit(&self) -> bool {
        !self.subject.is_row()
    }

    /// True if the unit stands once more before the columns, so that the rows of each unit can be
    /// weighed.
    pub(crate) fn is_weighed(&self) -> bool {
        self.weighed
    }

    /// The columns, in the order of the query.
    pub(crate) fn columns(&self) -> &[CodedColumn] {
        &self.columns
    }

    /// The steps of the analysis that led to these rows.
    pub(crate) fn steps(&self) -> &[String] {
        &self.steps
    }
}

/// Analyzes a query without releases as the rows from which a synthetic table is made.
///
/// # Guarantee
/// The plan of the result carries the unit of every row. The codes depend only on the query, the
/// declarations and public rows.
///
/// # Errors
/// Refuses what is not allowed below a release, rows that are public, and a column without public
/// codes.
pub(crate) fn private_rows(
    bound: &Bound,
    catalog: &Catalog,
    tables: &dyn Tables,
    buckets: &[(String, BucketOption)],
    weighed: bool,
) -> Result<PrivateRows, NotAnalyzed> {
    let mut steps = Vec::new();
    let rows = analyzed(bound, catalog, tables, buckets, weighed, &mut steps);
    rows.map_err(|error| error.said(|refusal| refusal.after(&steps)))
        .map(|rows| PrivateRows { steps, ..rows })
}

fn analyzed(
    bound: &Bound,
    catalog: &Catalog,
    tables: &dyn Tables,
    buckets: &[(String, BucketOption)],
    weighed: bool,
    steps: &mut Vec<String>,
) -> Result<PrivateRows, NotAnalyzed> {
    if has_marker(bound.plan()) {
        return Err(Refusal::new(
            Reason::Place,
            "a release",
            "a synthetic table is one release, and there is another one below it",
            "a query without mechanisms after AS AIM(eps=1)",
        )
        .into());
    }
    let flow = {
        let mut walk = Walk::new(catalog, tables, steps, bound.plan());
        let flow = walk.rows(bound.plan())?;
        walk.resolved(flow)?
    };
    if flow.is_public() {
        return Err(not_private("the table", true).into());
    }
    refuse_present(
        &flow,
        catalog,
        "a synthetic table",
        "CREATE RELEASE TABLE name AS SELECT x, LAPLACE(eps=1) COUNT(*) AS n FROM t GROUP BY x",
    )?;
    refuse_under_floor(catalog, &flow)?;
    refuse_never(&flow, tables)?;
    refuse_unmatched(&flow, tables)?;
    let mut columns = InputColumns::new(&flow);
    let weighed = weighed && !flow.subject.is_row();
    if weighed {
        columns.key(Expr::Column(flow.unit_column().ok_or_else(lost)?));
    }
    let mut coded = Vec::new();
    for (index, column) in flow.scope.schema.columns().into_iter().enumerate() {
        let data_type = flow.scope.schema.field(index).data_type().clone();
        let own = buckets.iter().find(|(name, _)| *name == column.name).map(|(_, own)| own);
        let expr = Expr::Column(column.clone());
        let codes = codes_of(&flow, &expr, &data_type, own, tables)?;
        if !codes.are_sound() {
            return Err(of_another_type(&column.name, &data_type).into());
        }
        let key = total(&expr, &flow.scope)?.expr;
        columns.key(without_nan(key, &data_type));
        coded.push(CodedColumn { name: column.name, codes });
    }
    if let Some((name, _)) =
        buckets.iter().find(|(name, _)| !coded.iter().any(|column| column.name == *name))
    {
        return Err(Refusal::new(
            Reason::BadValue,
            name,
            format!("the query has no column {name}, so there is nothing to put into buckets"),
            "buckets of a column that the query shows",
        )
        .into());
    }
    let text = |column: &CodedColumn| format!("{} ({})", column.name, column.codes.text());
    steps.push(format!("Codes {}", coded.iter().map(text).collect::<Vec<_>>().join(", ")));
    Ok(PrivateRows {
        subject: flow.subject.clone(),
        public: flow.public.clone(),
        input: columns.build(&flow)?,
        columns: coded,
        weighed,
        steps: Vec::new(),
    })
}

/// Refuses rows that a floor of people binds: invented rows have numbers of few people.
fn refuse_under_floor(catalog: &Catalog, flow: &PrivateRelation) -> Result<(), Refusal> {
    let tables = flow.subject.tables().iter().map(String::as_str);
    let floors = catalog.floors_of(flow.subject.unit_domain(), tables);
    if floors.is_empty() {
        return Ok(());
    }
    let floor = PeopleFloor { floors, counts: Vec::new() };
    let why = "invented rows show numbers of few people";
    let write =
        "CREATE RELEASE TABLE name AS SELECT x, LAPLACE(eps=1) COUNT(*) AS n FROM t GROUP BY x";
    Err(floor.refusal("a synthetic table", why, write))
}

/// The public codes of one column.
fn codes_of(
    flow: &PrivateRelation,
    expr: &Expr,
    data_type: &DataType,
    buckets: Option<&BucketOption>,
    tables: &dyn Tables,
) -> Result<Codes, NotAnalyzed> {
    let column = expr.try_as_col().ok_or_else(lost)?;
    let name = column.name.as_str();
    let scope = with_known_keys(expr, &flow.scope, &flow.traces, tables);
    let facts = &scope.facts_of(column).ok_or_else(lost)?.clone().in_calendar(data_type);
    if facts.is_unit || flow.names_person(expr).is_some() {
        return Err(Refusal::new(
            Reason::UnitAsKey,
            name,
            format!("{name} names the privacy unit, and no synthetic row belongs to one"),
            format!("the query without {name}"),
        )
        .into());
    }
    let listed = match &facts.keys {
        Some(KeySource::Values(values)) => {
            let passing = keys_that_pass(column, &scope, tables);
            Some(keys_in_calendar(passing.unwrap_or_else(|| values.to_vec())))
        }
        Some(KeySource::Integers(..) | KeySource::Ticks(_)) | None => None,
    };
    let ticks = match &listed {
        Some(_) => None,
        None => ticks_of(facts, data_type),
    };
    if let Some(buckets) = buckets {
        return bucketed(name, data_type, ticks, buckets).map_err(NotAnalyzed::from);
    }
    match (listed, ticks) {
        (Some(values), _) => Codes::listed(&values, data_type).ok_or_else(|| {
            if values.iter().all(ScalarValue::is_null) {
                without_values(name)
            } else {
                too_many(name, values.len())
            }
            .into()
        }),
        (None, Some(ticks)) => Ok(Codes::ticks(ticks, data_type)),
        (None, None) => {
            let trace = flow.trace(expr).and_then(|trace| trace.origin.as_ref());
            let origin = trace.map(|origin| (origin.table.as_str(), origin.column.as_str()));
            Err(without_codes(name, data_type, origin).into())
        }
    }
}

/// The values of a number, a date or a moment, if declarations and the query bound them.
fn ticks_of(facts: &Facts, data_type: &DataType) -> Option<Ticks> {
    if let Some(KeySource::Ticks(ticks)) = &facts.keys {
        return Some(*ticks);
    }
    // This is only the range of the type. No owner declared it as a useful range.
    if !data_type.is_numeric() && Some(&facts.range) == type_range(data_type).as_ref() {
        return None;
    }
    let range = &facts.range;
    let (lo, hi) = range.bounds()?;
    if data_type.is_floating() {
        let one = Rational::from_integer(1.into());
        return Ticks::binary(lo, hi).or_else(|| Ticks::decimal(lo, hi, &one));
    }
    let (first, last) = range.scale(&unit_of(data_type).recip()).integers().to_i128()?;
    units(data_type, first, last)
}

/// The codes of a column whose buckets the statement lists.
fn bucketed(
    name: &str,
    data_type: &DataType,
    ticks: Option<Ticks>,
    buckets: &BucketOption,
) -> Result<Codes, Refusal> {
    let Some(ticks) = ticks else {
        return Err(Refusal::new(
            Reason::BadValue,
            name,
            format!("{name} has no range that buckets could divide"),
            format!(
                "a domain of numbers or dates: ALTER TABLE … ALTER COLUMN {} SET PRIVACY DOMAIN BETWEEN lo AND hi; values of a list have a code each",
                quoted(name)
            ),
        ));
    };
    let codes = match buckets {
        BucketOption::Log(buckets) => Codes::logarithmic(ticks, *buckets, data_type),
        BucketOption::From(starts) => {
            let value = |literal: &Literal| match literal {
                Literal::Number(text) | Literal::Text(text) => typed(text, data_type).ok(),
                Literal::Boolean(_) | Literal::Null => None,
            };
            let starts: Option<Vec<ScalarValue>> = starts.iter().map(value).collect();
            starts.and_then(|starts| Codes::from_starts(ticks, &starts, data_type))
        }
    };
    codes.ok_or_else(|| {
        Refusal::new(
            Reason::BadValue,
            format!("{name} {buckets}"),
            format!("buckets of {name} begin with values of its type, in order, each once"),
            format!("buckets=({0} (0, 18, 65)) or buckets=({0} LOG 20)", quoted(name)),
        )
    })
}

fn too_many(name: &str, values: usize) -> Refusal {
    Refusal::new(
        Reason::TooManyKeys,
        name,
        format!(
            "{name} has {values} values, and a column of a synthetic table has at most {MOST_CODES} codes with that of NULL"
        ),
        format!("a coarser column, such as LEFT({0}, 1), or the query without {0}", quoted(name)),
    )
}

fn without_values(name: &str) -> Refusal {
    Refusal::new(
        Reason::BadValue,
        name,
        format!("no value of {name} meets the conditions of this query"),
        format!("conditions that some value of {name} meets"),
    )
}

fn of_another_type(name: &str, data_type: &DataType) -> Refusal {
    Refusal::new(
        Reason::KeyType,
        name,
        format!("a column of type {} cannot be synthetic", sql_type(data_type)),
        format!("the query without {0}, or CAST({0} AS …) with a declared domain", quoted(name)),
    )
}

/// The refusal of a column without public codes.
fn without_codes(name: &str, data_type: &DataType, origin: Option<(&str, &str)>) -> Refusal {
    let (table, column) = origin.unwrap_or(("…", name));
    let (table, column) = match origin {
        Some(_) => (quoted(table), quoted(column)),
        None => (table.to_owned(), quoted(column)),
    };
    let domain = match data_type {
        DataType::Date32 | DataType::Timestamp(..) => "BETWEEN ('2025-01-01', '2025-12-31')",
        number if number.is_numeric() => "BETWEEN (lo, hi)",
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "IN ('a', 'b')",
        _ => {
            return of_another_type(name, data_type);
        }
    };
    let computed = match origin {
        Some(_) => String::new(),
        None if data_type.is_numeric() => format!(", or CLAMP({0}, lo, hi) AS {0}", quoted(name)),
        None => format!(", or CASE … END AS {} with the values written out", quoted(name)),
    };
    Refusal::new(
        Reason::UnknownCandidates,
        name,
        format!(
            "the codes of {name} would come from the data, and a value that one person alone holds would reveal that person"
        ),
        format!(
            "the query without {name}, or declare its domain: ALTER TABLE {table} ALTER COLUMN {column} SET PRIVACY DOMAIN {domain}{computed}"
        ),
    )
}

//! Declarations as the statements that make them.
//!
//! In: tables and budgets of the catalog. Out: SQL that the parser reads as the same declarations.
//! Names and values may come from a hostile file, so they are quoted wherever SQL would misread
//! them.
//!
//! ```text
//! table "order", unit "a""b"   →   ALTER TABLE order SET PRIVACY UNIT ("a""b")
//! ```

use std::str::FromStr;

use arrow::datatypes::{DataType, TimeUnit};

use crate::catalog::cells::cells;
use crate::catalog::{
    Budget, Catalog, Column, Domain, FileFormat, PerQuery, Privacy, Replay, Slice, Source, Table,
    quoted, quoted_analyst,
};
use crate::exec::source::server_location::Relation;
use crate::exec::source::written_location;
use crate::ledger::{Elsewhere, Spending};
use crate::privacy::{Notion, Spend};
use crate::sql_type::sql_type;

/// The statements that declare a table, its unit and its domains, in order. A table that a program
/// registers has no statement that creates it.
pub(crate) fn table_statements(table: &Table, other_people: &[String]) -> Vec<String> {
    let name = quoted(&table.name);
    let privacy = match &table.privacy {
        Privacy::Undeclared => None,
        Privacy::Public => Some(format!("ALTER TABLE {name} SET PUBLIC")),
        Privacy::Private(unit) => {
            let others: Vec<String> = other_people.iter().map(|other| quoted(other)).collect();
            let others = match others.as_slice() {
                [] => String::new(),
                _ => format!(" OTHER PEOPLE THAN {}", others.join(", ")),
            };
            Some(format!("ALTER TABLE {name} SET PRIVACY UNIT {}{others}", unit.declaration()))
        }
    };
    let domains = table.columns.iter().filter_map(|column| {
        let domain = domain(column.domain.as_ref()?, data_type(column).as_ref());
        let column = quoted(&column.name);
        Some(format!("ALTER TABLE {name} ALTER COLUMN {column} SET PRIVACY DOMAIN {domain}"))
    });
    created(table).into_iter().chain(privacy).chain(domains).collect()
}

/// CREATE EXTERNAL TABLE, for one file or several. Its columns may be read in other types than the
/// inferred ones, so they are written, unless one has a type that no declaration can name.
pub(crate) fn created(table: &Table) -> Option<String> {
    let typed = |columns: &[Column]| {
        let columns = columns.iter().map(|column| {
            let data_type = declarable(&data_type(column)?)?;
            Some(format!("{} {data_type}", quoted(&column.name)))
        });
        columns.collect::<Option<Vec<_>>>().unwrap_or_default()
    };
    let (format, location, options, files) = match &table.source {
        Source::File { format, location, options, files, .. } => (format, location, options, files),
        Source::Postgres { location, schema, table: of_server } => {
            let columns = typed(&table.columns).join(", ");
            let (name, location) = (quoted(&table.name), text(location));
            let of_server = text(&Relation::written(schema, of_server));
            return Some(format!(
                "CREATE EXTERNAL TABLE {name} ({columns}) STORED AS POSTGRES LOCATION {location} OPTIONS (table {of_server})"
            ));
        }
        Source::Registered | Source::Released { .. } => return None,
    };
    let own = table.file_columns();
    let columns = match (format, files) {
        (FileFormat::Csv | FileFormat::Parquet | FileFormat::Arrow | FileFormat::Sqlite, _)
        | (_, Some(_)) => typed(own),
        (FileFormat::Json, None) => Vec::new(),
    };
    // The log of a version says what its partitions are.
    let is_of_log = table.source.version().is_some();
    let (columns, stored_as) = match is_of_log {
        true => (typed(&table.columns), "DELTA".to_owned()),
        false => (columns, format.to_string()),
    };
    let partitioned_by = match table.columns.get(own.len()..).map(typed).as_deref() {
        Some(columns @ [_, ..]) if !is_of_log => {
            format!(" PARTITIONED BY ({})", columns.join(", "))
        }
        None | Some(_) => String::new(),
    };
    let columns = match columns.as_slice() {
        [] => String::new(),
        _ => format!(" ({})", columns.join(", ")),
    };
    let options: Vec<String> =
        options.iter().map(|(key, value)| format!("{} {}", text(key), text(value))).collect();
    let options = match options.as_slice() {
        [] => String::new(),
        _ => format!(" OPTIONS ({})", options.join(", ")),
    };
    let location = text(&written_location(location, files.as_deref()));
    let name = quoted(&table.name);
    Some(format!(
        "CREATE EXTERNAL TABLE {name}{columns} STORED AS {stored_as}{partitioned_by} LOCATION {location}{options}"
    ))
}

/// The type of a column. `None` for a type that this version of Arrow does not know.
fn data_type(column: &Column) -> Option<DataType> {
    DataType::from_str(&column.data_type).ok()
}

/// The name of a type with which a column may be declared. `None` for other types.
pub(crate) fn declarable(data_type: &DataType) -> Option<String> {
    let can_be = matches!(
        data_type,
        DataType::Boolean
            | DataType::Int8
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::UInt8
            | DataType::UInt16
            | DataType::UInt32
            | DataType::UInt64
            | DataType::Float32
            | DataType::Float64
            | DataType::Utf8
            | DataType::Date32
            | DataType::Time64(TimeUnit::Microsecond)
            | DataType::Timestamp(TimeUnit::Microsecond, None)
            | DataType::Decimal128(_, 0..)
    );
    can_be.then(|| sql_type(data_type))
}

fn domain(domain: &Domain, data_type: Option<&DataType>) -> String {
    match domain {
        Domain::In(values) => {
            let values: Vec<String> = values
                .iter()
                .map(|value| {
                    value.as_ref().map_or("NULL".to_owned(), |value| literal(value, data_type))
                })
                .collect();
            format!("IN ({})", values.join(", "))
        }
        Domain::Between { lo, hi, step, or_null } => {
            let (lo, hi) = (literal(lo, data_type), literal(hi, data_type));
            let step = step.as_ref().map_or(String::new(), |step| format!(" STEP {step}"));
            let or_null = if *or_null { " OR NULL" } else { "" };
            format!("BETWEEN ({lo}, {hi}){step}{or_null}")
        }
    }
}

/// A value of a domain as a literal of its column's type.
fn literal(value: &str, data_type: Option<&DataType>) -> String {
    match data_type {
        Some(data_type) if data_type.is_numeric() => value.to_owned(),
        Some(DataType::Boolean) => value.to_uppercase(),
        Some(DataType::Date32 | DataType::Date64) => format!("DATE {}", text(value)),
        Some(DataType::Timestamp(..)) => format!("TIMESTAMP {}", text(value)),
        Some(_) | None => text(value),
    }
}

/// A text as a literal in single quotes.
pub(crate) fn text(value: &str) -> String {
    format!("'{}'", value.replace('\'', "''"))
}

/// The statement that creates a budget with its slices and with what was spent of it.
pub(crate) fn budget_statement(budget: &Budget, slices: &[Slice], spent: &Spending) -> String {
    let limit = match budget.promise {
        Some(promise) => {
            let thresholds = (budget.limit.atto_delta == 0).then(|| "thresholds=0".to_owned());
            let coupon = budget.coupon.map(|nano| amount(Spend::of_epsilon(nano, 0)));
            let name = if coupon.is_some() { "COUPONS" } else { "ZCDP" };
            let parameters: Vec<String> = coupon.into_iter().chain(thresholds).collect();
            let parameters = match parameters.as_slice() {
                [] => String::new(),
                _ => format!(" ({})", parameters.join(", ")),
            };
            format!("({}) ACCOUNTANT {name}{parameters}", amount(promise))
        }
        None => format!("({})", amount(budget.limit)),
    };
    let per_query = per_query(budget);
    // Without SPENT, the PER QUERY amounts must fit into the limit, which may have been lowered
    // since.
    let spent_in_all = match spent_clause(spent.all) {
        None if budget.check().is_err() => " SPENT (epsilon=0)".to_owned(),
        None => String::new(),
        Some(spent) => format!(" SPENT {spent}"),
    };
    let replay = match budget.replay {
        Replay::All => String::new(),
        other @ (Replay::Own | Replay::Off) => format!(" REPLAY ({})", other.word()),
    };
    let slices: String = slices.iter().map(|slice| slice_clause(slice, spent)).collect();
    let (name, table) = (quoted(&budget.name), quoted(&budget.table));
    format!(
        "CREATE PRIVACY BUDGET {name} FOR {table} LIMIT {limit}{per_query}{replay}{spent_in_all}{slices}"
    )
}

/// The statement that partitions the people of a budget again. An error if it would be refused.
pub(crate) fn partition_statement(
    catalog: &Catalog,
    budget: &str,
) -> Option<Result<String, String>> {
    let partition = catalog.partition(budget)?;
    let (name, column) = (quoted(budget), quoted(&partition.column));
    let statement = format!("ALTER PRIVACY BUDGET {name} PARTITION BY {column}");
    let root = catalog.root(&catalog.budget(budget)?.table).map(|(root, _)| root);
    // Months are the cells of every budget.
    if root.and_then(Table::unit).is_some_and(|unit| unit.month().is_some()) {
        return None;
    }
    let is_whole = root
        .is_some_and(|root| root.name == partition.table && cells(root, &partition.column).is_ok());
    Some(if is_whole { Ok(statement) } else { Err(statement) })
}

fn slice_clause(slice: &Slice, spent: &Spending) -> String {
    let own = spent.by.iter().find(|(analyst, _)| *analyst == slice.analyst);
    let spent = own.and_then(|(_, spent)| spent_clause(*spent));
    let spent = spent.map_or_else(String::new, |spent| format!(" SPENT {spent}"));
    format!(" SLICE {} LIMIT ({}){spent}", quoted_analyst(&slice.analyst), amount(slice.limit))
}

pub(super) fn amount(spend: Spend) -> String {
    let delta = match spend.atto_delta {
        0 => String::new(),
        _ => format!(", delta={}", spend.delta_text()),
    };
    format!("{}={}{delta}", spend.notion.name(), spend.loss_text())
}

pub(super) fn per_query(budget: &Budget) -> String {
    let PerQuery {
        default,
        default_rho,
        default_delta,
        min,
        max,
        max_delta,
        declared_bounds,
        min_units,
        min_units_beta,
    } = budget.per_query;
    let (least, most) = match budget.limit.notion {
        Notion::Approximate => ("min", "max"),
        Notion::Concentrated => ("min_rho", "max_rho"),
        // A budget in coupons has neither of the two.
        Notion::Coupons => ("min", "max"),
    };
    let loss = |nano: i64| Spend::of_epsilon(nano, 0).loss_text();
    let delta = |atto: i64| Spend::of_epsilon(0, atto).delta_text();
    let amounts = [
        ("default", default.map(loss)),
        ("default_rho", default_rho.map(loss)),
        ("default_delta", default_delta.map(delta)),
        (least, min.map(loss)),
        (most, max.map(loss)),
        ("max_delta", max_delta.map(delta)),
        ("bounds", declared_bounds.then(|| "declared".to_owned())),
        ("min_units", min_units.map(|people| people.to_string())),
        ("min_units_beta", min_units_beta.map(delta)),
    ];
    let amounts: Vec<String> = amounts
        .into_iter()
        .filter_map(|(name, amount)| Some(format!("{name}={}", amount?)))
        .collect();
    match amounts.as_slice() {
        [] => String::new(),
        _ => format!(" PER QUERY ({})", amounts.join(", ")),
    }
}

/// The clause after SPENT. `None` if nothing was spent.
pub(crate) fn spent_clause(elsewhere: Elsewhere) -> Option<String> {
    let Elsewhere { cost: spent, tally } = elsewhere;
    if spent.is_nothing() && tally.is_none_or(|tally| tally.releases == 0) {
        return None;
    }
    let (epsilon, rho) = (spent.within(Notion::Approximate), spent.within(Notion::Concentrated));
    let mut amounts: Vec<String> = match (epsilon, rho) {
        (Some(epsilon), Some(rho)) => {
            let rho_delta = match rho.atto_delta {
                0 => String::new(),
                _ => format!(", rho_delta={}", rho.delta_text()),
            };
            vec![amount(epsilon), format!("rho={}{rho_delta}", rho.loss_text())]
        }
        (epsilon, rho) => epsilon.or(rho).map(amount).into_iter().collect(),
    };
    if let (Some(tally), Some(_)) = (tally, epsilon) {
        amounts.push(format!("releases={}", tally.releases));
        amounts.push(format!("dearest={}", Spend::of_epsilon(tally.dearest, 0).loss_text()));
    }
    Some(format!("({})", amounts.join(", ")))
}

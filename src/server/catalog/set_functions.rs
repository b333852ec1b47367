//! Functions that return rows.
//!
//! In: a name without `pg_catalog`, and values. Out: rows, with the columns of [`columns`].
//!
//! ```text
//! unnest('{a,b}')   →   a, b          generate_series(1, 3)   →   1, 2, 3
//! ```

use super::datum::{CatalogType, Datum, Row, Unanswered};
use super::functions;
use super::keywords;
use super::node::Env;

use super::relations;
use super::rows;

/// Functions that return the rows of a relation.
const RELATIONS: [(&str, &str); 9] = [
    ("pg_show_all_settings", "pg_settings"),
    ("pg_timezone_names", "pg_timezone_names"),
    ("pg_timezone_abbrevs", "pg_timezone_abbrevs"),
    ("pg_stat_get_activity", "pg_stat_activity"),
    ("pg_lock_status", "pg_locks"),
    ("pg_cursor", "pg_cursors"),
    ("pg_prepared_statement", "pg_prepared_statements"),
    ("pg_prepared_xact", "pg_prepared_xacts"),
    ("pg_get_publication_tables", "pg_publication_rel"),
];

/// Functions whose rows have several columns.
const RECORDS: [(&str, &[(&str, CatalogType)]); 9] = [
    (
        "aclexplode",
        &[
            ("grantor", CatalogType::OID),
            ("grantee", CatalogType::OID),
            ("privilege_type", CatalogType::TEXT),
            ("is_grantable", CatalogType::BOOL),
        ],
    ),
    ("_pg_expandarray", &[("x", CatalogType::INT4), ("n", CatalogType::INT4)]),
    (
        "pg_options_to_table",
        &[("option_name", CatalogType::TEXT), ("option_value", CatalogType::TEXT)],
    ),
    (
        "pg_get_keywords",
        &[
            ("word", CatalogType::TEXT),
            ("catcode", CatalogType(18)),
            ("barelabel", CatalogType::BOOL),
            ("catdesc", CatalogType::TEXT),
            ("baredesc", CatalogType::TEXT),
        ],
    ),
    (
        "pg_show_all_file_settings",
        &[
            ("sourcefile", CatalogType::TEXT),
            ("name", CatalogType::TEXT),
            ("setting", CatalogType::TEXT),
        ],
    ),
    (
        "pg_partition_tree",
        &[
            ("relid", CatalogType::OID),
            ("parentrelid", CatalogType::OID),
            ("isleaf", CatalogType::BOOL),
            ("level", CatalogType::INT4),
        ],
    ),
    (
        "ts_token_type",
        &[
            ("tokid", CatalogType::INT4),
            ("alias", CatalogType::TEXT),
            ("description", CatalogType::TEXT),
        ],
    ),
    (
        "pg_sequence_parameters",
        &[("start_value", CatalogType::INT8), ("minimum_value", CatalogType::INT8)],
    ),
    (
        "pg_available_extensions",
        &[
            ("name", CatalogType::NAME),
            ("default_version", CatalogType::TEXT),
            ("comment", CatalogType::TEXT),
        ],
    ),
];

/// Functions that return values of one column.
const SETS: [&str; 7] = [
    "generate_series",
    "generate_subscripts",
    "json_array_elements_text",
    "regexp_split_to_table",
    "string_to_table",
    "unnest",
    "pg_get_multixact_members",
];

/// Whether a function returns rows.
pub(super) fn is_set(name: &str) -> bool {
    SETS.contains(&name)
        || RECORDS.iter().any(|(known, _)| *known == name)
        || RELATIONS.iter().any(|(known, _)| *known == name)
}

/// The type of the column with this name in the rows of functions.
pub(super) fn field(name: &str) -> CatalogType {
    let mut all = RECORDS.iter().flat_map(|(_, columns)| columns.iter());
    all.find(|(known, _)| *known == name).map_or(CatalogType::TEXT, |(_, kind)| *kind)
}

/// The columns of a function with arguments of these types.
pub(super) fn columns(name: &str, kinds: &[CatalogType]) -> Vec<(String, CatalogType)> {
    let named = |columns: &[(&str, CatalogType)]| {
        columns.iter().map(|(name, kind)| ((*name).to_owned(), *kind)).collect()
    };
    if let Some((_, relation)) = RELATIONS.iter().find(|(known, _)| *known == name)
        && let Some(relation) = relations::relation(None, relation)
    {
        return named(&relation.columns);
    }
    if let Some((_, columns)) = RECORDS.iter().find(|(known, _)| *known == name) {
        return named(columns);
    }
    let first = kinds.first().copied().unwrap_or(CatalogType::TEXT);
    match name {
        "unnest" => kinds.iter().map(|kind| (name.to_owned(), kind.element())).collect(),
        "generate_series" | "generate_subscripts" => vec![(name.to_owned(), CatalogType::INT4)],
        name => vec![(name.to_owned(), functions::kind(name, Some(first)))],
    }
}

/// The rows of a function. Of a function that is not known as one with rows, the row is its value.
///
/// # Errors
/// If the function is unknown.
pub(super) fn rows(
    env: &Env<'_>,
    name: &str,
    values: &[Datum],
    width: usize,
) -> Result<Vec<Row>, Unanswered> {
    if let Some((_, relation)) = RELATIONS.iter().find(|(known, _)| *known == name) {
        let mut rows = relations::relation(None, relation)
            .map_or_else(Vec::new, |found| rows::rows(env.world, found));
        rows.iter_mut().for_each(|row| row.truncate(width));
        return Ok(rows);
    }
    let list = |n: usize| values.get(n).and_then(Datum::list);
    let int = |n: usize| values.get(n).and_then(Datum::int);
    let text = |n: usize| values.get(n).and_then(Datum::text);
    let one = |cells: Vec<Datum>| cells.into_iter().map(|cell| vec![cell]).collect::<Vec<Row>>();
    Ok(match name {
        "unnest" => {
            let lists: Vec<Vec<Datum>> =
                (0..values.len()).map(|n| list(n).unwrap_or_default()).collect();
            let longest = lists.iter().map(Vec::len).max().unwrap_or(0);
            let row = |at: usize| {
                lists.iter().map(|list| list.get(at).cloned().unwrap_or(Datum::Null)).collect()
            };
            (0..longest).map(row).collect()
        }
        "generate_subscripts" => {
            let count = list(0).map_or(0, |list| list.len());
            one((1_i64..).take(count).map(Datum::Int).collect())
        }
        "generate_series" => match (int(0), int(1)) {
            (Some(from), Some(to)) => {
                let step = int(2).unwrap_or(1);
                let count = to.saturating_sub(from).checked_div(step).ok_or(Unanswered::Unclear)?;
                let is_none = if step > 0 { from > to } else { from < to };
                let count = if is_none { 0 } else { count.saturating_add(1) };
                let count = usize::try_from(count).unwrap_or(0);
                env.steps.take(count)?;
                let number = |n: usize| {
                    let steps = i64::try_from(n).unwrap_or(i64::MAX).saturating_mul(step);
                    Datum::Int(from.saturating_add(steps))
                };
                one((0..count).map(number).collect())
            }
            _ => Vec::new(),
        },
        "_pg_expandarray" => {
            let list = list(0).unwrap_or_default();
            record(
                width,
                &["x", "n"],
                list.into_iter().zip(1_i64..).map(|(x, n)| vec![x, Datum::Int(n)]),
            )
        }
        // Each list of access says what the role itself may do: read, granted by the owner.
        "aclexplode" => {
            let grantee = relations::role_number(&env.world.role);
            let (owner, own) = (Datum::Int(relations::OWNER), Datum::Int(grantee));
            let row =
                |_: Datum| vec![owner.clone(), own.clone(), "SELECT".into(), Datum::Bool(false)];
            let names = ["grantor", "grantee", "privilege_type", "is_grantable"];
            record(width, &names, list(0).unwrap_or_default().into_iter().map(row))
        }
        "string_to_table" | "regexp_split_to_table" => match (text(0), text(1)) {
            (Some(text), Some(between)) if !between.is_empty() => {
                one(text.split(&between).map(Datum::from).collect())
            }
            _ => Vec::new(),
        },
        "pg_get_keywords" => {
            let names = ["word", "catcode", "barelabel", "catdesc", "baredesc"];
            record(width, &names, keywords::rows().into_iter())
        }
        name if is_set(name) => Vec::new(),
        name => {
            let value = functions::call(env.world, name, values).map_err(|why| match why {
                Unanswered::Unclear => Unanswered::function(name),
                why => why,
            });
            one(vec![value?])
        }
    })
}

/// Rows of several columns; of one, each is a record.
fn record(width: usize, names: &[&str], rows: impl Iterator<Item = Row>) -> Vec<Row> {
    rows.map(|row| match width {
        1 => vec![Datum::Record(names.iter().map(|name| (*name).into()).zip(row).collect())],
        _ => row,
    })
    .collect()
}

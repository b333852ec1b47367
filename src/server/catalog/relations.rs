//! The relations of the catalog, with the rows that follow from declarations.
//!
//! In: the tables and views that the client may see. Out: the rows of a relation, such as
//! `pg_class`. Most relations have no rows. `relations.txt` lists all of them, with their columns
//! in PostgreSQL 15.

use std::collections::HashMap;

use hushql::TableSchema;
use sha2::{Digest, Sha256};

use super::super::encode::kind;
use super::datum::{CatalogType, Datum};
use super::types::{self, TYPES};

/// The data that the catalog is generated from.
#[derive(Debug, Default)]
pub(crate) struct World {
    pub(crate) tables: Vec<TableSchema>,
    pub(crate) role: String,
    pub(crate) database: &'static str,
    pub(crate) version: String,
    pub(crate) process: i32,
    pub(crate) settings: Vec<(String, String)>,
}

/// A relation's columns.
pub(super) type RelationColumns = Vec<(&'static str, CatalogType)>;

const LIST: &str = include_str!("relations.txt");

/// Numbers of the schemas, the owner and the database.
pub(super) const CATALOG: i64 = 11;
pub(super) const PUBLIC: i64 = 2200;
pub(super) const INFORMATION: i64 = 13_207;
const OWNER: i64 = 10;
const DATABASE: i64 = 16_383;

/// The columns of a relation; `None` if PostgreSQL has no such relation in this schema. The default
/// schema is `pg_catalog`.
pub(super) fn columns(schema: Option<&str>, name: &str) -> Option<RelationColumns> {
    let line = LIST.lines().find_map(|line| {
        let (full, columns) = line.split_once(": ")?;
        let (its, relation) = full.split_once('.')?;
        (relation == name && its == schema.unwrap_or("pg_catalog")).then_some(columns)
    })?;
    let columns = line.split(", ").filter_map(|column| {
        let (name, kind) = column.rsplit_once(' ')?;
        let kind = match kind {
            "b" => CatalogType::Bool,
            "i" => CatalogType::Int,
            _ => CatalogType::Text,
        };
        Some((name, kind))
    });
    Some(columns.collect())
}

/// The number of a table, which follows from its name.
pub(super) fn oid(name: &str) -> i64 {
    let digest = Sha256::digest(name.as_bytes());
    let number = digest.iter().take(4).fold(0_i64, |all, byte| (all << 8) | i64::from(*byte));
    16_384 + number % 1_000_000_000
}

/// The number of the relation with this name: a table, or a relation of the catalog.
pub(super) fn numbered(world: &World, name: &str) -> Option<i64> {
    let bare = name.rsplit('.').next().unwrap_or(name).trim_matches('"');
    let catalog = name.starts_with("pg_catalog.") || bare.starts_with("pg_");
    if world.tables.iter().any(|table| table.name == bare) {
        return Some(oid(bare));
    }
    (catalog && columns(None, bare).is_some()).then(|| oid(&format!("pg_catalog.{bare}")))
}

/// The table with this number.
pub(super) fn table(world: &World, number: i64) -> Option<&TableSchema> {
    world.tables.iter().find(|table| oid(&table.name) == number)
}

/// Values of a row by the names of their columns. Unnamed columns are NULL, `false`, 0 or empty,
/// according to their types.
type RelationRow<'a> = HashMap<&'a str, Datum>;

fn row<'a>(values: impl IntoIterator<Item = (&'a str, Datum)>) -> RelationRow<'a> {
    values.into_iter().collect()
}

fn int(value: impl Into<i64>) -> Datum {
    Datum::Int(value.into())
}

fn size(value: usize) -> Datum {
    Datum::Int(i64::try_from(value).unwrap_or(i64::MAX))
}

/// Columns of the catalog whose default is NULL.
fn is_null(name: &str) -> bool {
    name.ends_with("acl")
        || name.ends_with("options")
        || [
            "attmissingval",
            "relpartbound",
            "typdefault",
            "typdefaultbin",
            "rolvaliduntil",
            "rolconfig",
            "rolpassword",
        ]
        .contains(&name)
}

/// The rows of a relation.
pub(super) fn rows(world: &World, schema: Option<&str>, name: &str) -> Vec<Vec<Datum>> {
    let information = schema == Some("information_schema");
    let columns = columns(schema, name).unwrap_or_default();
    let found: Vec<RelationRow<'_>> = match (information, name) {
        (false, "pg_class") => world.tables.iter().map(class).collect(),
        (false, "pg_attribute") => world.tables.iter().flat_map(attributes).collect(),
        (false, "pg_namespace") => schemas(false).collect(),
        (false, "pg_type") => all_types(),
        (false, "pg_am") => vec![
            row([("oid", int(2)), ("amname", "heap".into()), ("amtype", "t".into())]),
            row([("oid", int(403)), ("amname", "btree".into()), ("amtype", "i".into())]),
        ],
        (false, "pg_database") => vec![row([
            ("oid", int(DATABASE)),
            ("datname", world.database.into()),
            ("datdba", int(OWNER)),
            ("encoding", int(6)),
            ("datlocprovider", "c".into()),
            ("datallowconn", Datum::Bool(true)),
            ("datconnlimit", int(-1)),
            ("dattablespace", int(1663)),
            ("datcollate", "C".into()),
            ("datctype", "C".into()),
        ])],
        (false, "pg_roles" | "pg_user") => roles(world),
        (false, "pg_settings") => world.settings.iter().map(setting).collect(),
        (false, "pg_tables" | "pg_views") => {
            let is_view = name == "pg_views";
            let those = world.tables.iter().filter(|table| table.is_view == is_view);
            let named = |table: &TableSchema| {
                let (name, owner) =
                    if is_view { ("viewname", "viewowner") } else { ("tablename", "tableowner") };
                row([
                    ("schemaname", "public".into()),
                    (name, table.name.as_str().into()),
                    (owner, "owner".into()),
                ])
            };
            those.map(named).collect()
        }
        (true, "schemata") => schemas(true).collect(),
        (true, "tables") => world.tables.iter().map(|table| listed(world, table)).collect(),
        (true, "views") => {
            let views = world.tables.iter().filter(|table| table.is_view);
            views.map(|table| listed(world, table)).collect()
        }
        (true, "columns") => {
            world.tables.iter().flat_map(|table| described(world, table)).collect()
        }
        _ => Vec::new(),
    };
    let filled = found.into_iter().map(|mut row| {
        let cells = columns.iter().map(|(name, kind)| {
            row.remove(name).unwrap_or_else(|| match kind {
                _ if information || is_null(name) => Datum::Null,
                CatalogType::Bool => Datum::Bool(false),
                CatalogType::Int => Datum::Int(0),
                CatalogType::Text => "".into(),
            })
        });
        cells.collect()
    });
    filled.collect()
}

fn class(table: &TableSchema) -> RelationRow<'_> {
    let text = |is_view: bool, view: &str, other: &str| if is_view { view } else { other }.into();
    row([
        ("oid", int(oid(&table.name))),
        ("relname", table.name.as_str().into()),
        ("relnamespace", int(PUBLIC)),
        ("relowner", int(OWNER)),
        ("relam", int(if table.is_view { 0 } else { 2 })),
        ("reltuples", int(-1)),
        ("relpersistence", "p".into()),
        ("relkind", text(table.is_view, "v", "r")),
        ("relnatts", size(table.schema.fields().len())),
        ("relispopulated", Datum::Bool(true)),
        ("relreplident", text(table.is_view, "n", "d")),
    ])
}

fn attributes(table: &TableSchema) -> impl Iterator<Item = RelationRow<'_>> {
    let number = oid(&table.name);
    table.schema.fields().iter().enumerate().map(move |(i, field)| {
        let (kind, bytes, _) = kind(field.data_type());
        row([
            ("attrelid", int(number)),
            ("attname", field.name().as_str().into()),
            ("atttypid", int(kind)),
            ("attstattarget", int(-1)),
            ("attlen", int(bytes)),
            ("attnum", size(i + 1)),
            ("attcacheoff", int(-1)),
            ("atttypmod", int(-1)),
            ("attbyval", Datum::Bool(bytes > 0)),
            ("attalign", "i".into()),
            ("attstorage", "p".into()),
            ("attislocal", Datum::Bool(true)),
        ])
    })
}

fn schemas(information: bool) -> impl Iterator<Item = RelationRow<'static>> {
    let all = [(CATALOG, "pg_catalog"), (PUBLIC, "public"), (INFORMATION, "information_schema")];
    all.into_iter().map(move |(number, name)| match information {
        true => row([
            ("catalog_name", "hushql".into()),
            ("schema_name", name.into()),
            ("schema_owner", "owner".into()),
        ]),
        false => row([("oid", int(number)), ("nspname", name.into()), ("nspowner", int(OWNER))]),
    })
}

fn all_types() -> Vec<RelationRow<'static>> {
    let one = |t: &types::Type, is_array: bool| {
        let name = if is_array { format!("_{}", t.name) } else { t.name.to_owned() };
        let functions = if is_array { "array_" } else { t.functions };
        let function = |end: &str| Datum::Text(format!("{functions}{end}").into());
        let has = |number: u32, yes: bool| int(if yes { number } else { 0 });
        row([
            ("oid", int(if is_array { t.array } else { t.oid })),
            ("typname", Datum::Text(name.into())),
            ("typnamespace", int(CATALOG)),
            ("typowner", int(OWNER)),
            ("typlen", int(if is_array { -1 } else { t.size })),
            ("typbyval", Datum::Bool(!is_array && (1..=8).contains(&t.size))),
            ("typtype", if t.category == "P" { "p" } else { "b" }.into()),
            ("typcategory", if is_array { "A" } else { t.category }.into()),
            ("typisdefined", Datum::Bool(true)),
            ("typdelim", ",".into()),
            ("typelem", has(t.oid, is_array)),
            ("typarray", has(t.array, !is_array)),
            ("typinput", function("in")),
            ("typoutput", function("out")),
            ("typreceive", function("recv")),
            ("typsend", function("send")),
            ("typmodin", "-".into()),
            ("typmodout", "-".into()),
            ("typanalyze", "-".into()),
            ("typsubscript", "-".into()),
            ("typalign", "i".into()),
            ("typstorage", "p".into()),
            ("typtypmod", int(-1)),
        ])
    };
    let arrays = TYPES.iter().filter(|t| t.array > 0).map(|t| one(t, true));
    TYPES.iter().map(|t| one(t, false)).chain(arrays).collect()
}

/// The owner and the client's own role. Clients do not learn which other roles exist.
fn roles(world: &World) -> Vec<RelationRow<'_>> {
    let mut names = vec![("owner", OWNER)];
    if world.role != "owner" {
        names.push((&world.role, oid(&world.role)));
    }
    let each = names.into_iter().map(|(name, number)| {
        let is_owner = Datum::Bool(name == "owner");
        row([
            ("oid", int(number)),
            ("rolname", name.into()),
            ("usename", name.into()),
            ("usesysid", int(number)),
            ("rolsuper", is_owner.clone()),
            ("usesuper", is_owner.clone()),
            ("rolinherit", Datum::Bool(true)),
            ("rolcreaterole", is_owner),
            ("rolcanlogin", Datum::Bool(true)),
            ("rolconnlimit", int(-1)),
        ])
    });
    each.collect()
}

fn setting((name, value): &(String, String)) -> RelationRow<'_> {
    row([
        ("name", name.as_str().into()),
        ("setting", value.as_str().into()),
        ("vartype", "string".into()),
        ("context", "user".into()),
        ("source", "default".into()),
    ])
}

fn listed<'a>(world: &World, table: &'a TableSchema) -> RelationRow<'a> {
    row([
        ("table_catalog", world.database.into()),
        ("table_schema", "public".into()),
        ("table_name", table.name.as_str().into()),
        ("table_type", if table.is_view { "VIEW" } else { "BASE TABLE" }.into()),
        ("is_insertable_into", "NO".into()),
        ("is_typed", "NO".into()),
        ("check_option", "NONE".into()),
        ("is_updatable", "NO".into()),
    ])
}

fn described<'a>(world: &World, table: &'a TableSchema) -> impl Iterator<Item = RelationRow<'a>> {
    let database = world.database;
    table.schema.fields().iter().enumerate().map(move |(i, field)| {
        let number = i64::from(kind(field.data_type()).0);
        let found = types::numbered(number).map(|(t, _)| t);
        let bits = match found.map(|t| (t.category, t.size)) {
            Some(("N", bytes)) if bytes > 0 => int(bytes * 8),
            _ => Datum::Null,
        };
        row([
            ("table_catalog", database.into()),
            ("table_schema", "public".into()),
            ("table_name", table.name.as_str().into()),
            ("column_name", field.name().as_str().into()),
            ("ordinal_position", size(i + 1)),
            ("is_nullable", "YES".into()),
            ("data_type", Datum::Text(types::formatted(number).into())),
            ("numeric_precision_radix", if bits.is_null() { Datum::Null } else { int(2) }),
            ("numeric_precision", bits),
            ("udt_catalog", database.into()),
            ("udt_schema", "pg_catalog".into()),
            ("udt_name", found.map_or("text", |t| t.name).into()),
            ("is_identity", "NO".into()),
            ("is_generated", "NEVER".into()),
            ("is_updatable", "NO".into()),
        ])
    })
}

//! The relations of the catalog, with their columns, and the tables that it is generated from.
//!
//! In: a name, or the number of an object. Out: a relation of PostgreSQL 15, a number, or a name.
//! `relations.txt` lists all relations, with the names and types of their columns. Most of them
//! have no rows here ([`super::rows`]).

use std::cell::RefCell;
use std::sync::{Arc, LazyLock};

use hushql::{TableSchema, TemplateSignature};

use super::super::types;
use super::datum::{CatalogType, Datum};
use super::kept_relations::KeptRelations;

/// The data that the catalog is generated from.
#[derive(Debug, Default)]
pub(crate) struct World {
    pub(crate) tables: Arc<[TableSchema]>,
    pub(crate) templates: Vec<TemplateSignature>,
    /// What is kept for these tables and this role.
    pub(crate) kept: Arc<KeptRelations>,
    pub(crate) role: String,
    pub(crate) database: &'static str,
    pub(crate) version: String,
    pub(crate) process: i32,
    pub(crate) settings: Vec<(String, String)>,
    /// The time of the query, and the time when the server started, as texts.
    pub(crate) now: String,
    pub(crate) started: String,
    /// What `set_config` sets.
    pub(crate) configured: RefCell<Vec<(String, String)>>,
}

/// A column of a relation, with its type.
pub(super) type RelationColumn = (&'static str, CatalogType);

/// A relation of PostgreSQL 15.
#[derive(Debug)]
pub(super) struct Relation {
    pub(super) schema: &'static str,
    pub(super) name: &'static str,
    /// `r` for a table, `v` for a view.
    pub(super) kind: &'static str,
    /// The number that PostgreSQL gives it, or one that follows from its name.
    pub(super) oid: i64,
    pub(super) columns: Vec<RelationColumn>,
}

/// Values of a row with the names of their columns. Other columns have the default of their type:
/// `false`, 0, an empty text, or NULL.
pub(super) type RelationRow = Vec<(&'static str, Datum)>;

/// A whole number.
pub(super) fn int(value: impl Into<i64>) -> Datum {
    Datum::Int(value.into())
}

/// A number of things.
pub(super) fn size(value: usize) -> Datum {
    Datum::Int(i64::try_from(value).unwrap_or(i64::MAX))
}

/// Numbers of the schemas and the owner.
pub(super) const CATALOG: i64 = 11;
pub(super) const PUBLIC: i64 = 2200;
pub(super) const INFORMATION: i64 = 13_207;
pub(super) const OWNER: i64 = 10;

/// The number of the database. Its name can change nothing, so it is the first that users have.
pub(super) const DATABASE: i64 = 16_384;

/// The columns that each table of the catalog has beside those that `*` names.
pub(super) const SYSTEM: [(&str, u32); 4] =
    [("tableoid", 26), ("xmin", 28), ("cmin", 29), ("ctid", 27)];

static RELATIONS: LazyLock<Vec<Relation>> =
    LazyLock::new(|| include_str!("relations.txt").lines().zip(0..).filter_map(read).collect());

/// `pg_catalog.pg_am r 2601: oid oid, amname name, …`.
fn read((line, place): (&'static str, i64)) -> Option<Relation> {
    let (head, columns) = line.split_once(": ")?;
    let mut head = head.split(' ');
    let (schema, name) = head.next()?.split_once('.')?;
    let (kind, oid) = (head.next()?, head.next()?.parse::<i64>().ok()?);
    let columns = columns.split(", ").filter_map(|column| {
        let (name, kind) = column.split_once(' ')?;
        Some((name, CatalogType(types::number_of(kind))))
    });
    let oid = if oid == 0 { 12_000 + place } else { oid };
    Some(Relation { schema, name, kind, oid, columns: columns.collect() })
}

/// The relation with this name; `None` if PostgreSQL has none in this schema. The default schema is
/// `pg_catalog`.
pub(super) fn relation(schema: Option<&str>, name: &str) -> Option<&'static Relation> {
    let schema = schema.unwrap_or("pg_catalog");
    RELATIONS.iter().find(|relation| relation.name == name && relation.schema == schema)
}

/// The number of a table, which follows from its name.
pub(super) fn oid(name: &str) -> i64 {
    16_385 + types::number_from(name)
}

/// The number of the relation with this name: a table, or a relation of the catalog.
pub(super) fn numbered(world: &World, name: &str) -> Option<i64> {
    let parts = name_parts(name);
    let (schema, bare) = match parts.as_slice() {
        [bare] => (None, bare.as_str()),
        [schema, bare] => (Some(schema.as_str()), bare.as_str()),
        [_, schema, bare] => (Some(schema.as_str()), bare.as_str()),
        _ => return None,
    };
    let is_own = schema.is_none_or(|schema| schema == "public");
    if is_own && world.tables.iter().any(|table| table.name == bare) {
        return Some(oid(bare));
    }
    relation(schema, bare).map(|relation| relation.oid)
}

/// The parts of `schema."Name"`.
pub(super) fn name_parts(text: &str) -> Vec<String> {
    let (mut all, mut one, mut quoted) = (Vec::new(), String::new(), false);
    let mut chars = text.trim().chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                one.push('"');
            }
            '"' => quoted = !quoted,
            '.' if !quoted => all.push(std::mem::take(&mut one)),
            c if quoted => one.push(c),
            c => one.extend(c.to_lowercase()),
        }
    }
    all.push(one);
    all
}

/// The name of the relation with this number, with its schema if that is not in the search path.
pub(super) fn name_of(world: &World, number: i64) -> Option<(&str, &str)> {
    let own = table(world, number).map(|table| ("public", table.name.as_str()));
    let catalog = || RELATIONS.iter().find(|relation| relation.oid == number);
    own.or_else(|| catalog().map(|relation| (relation.schema, relation.name)))
}

/// The table with this number.
pub(super) fn table(world: &World, number: i64) -> Option<&TableSchema> {
    let places = world.kept.places(|| {
        // If two have one number, it is that of the first.
        let numbered = world.tables.iter().enumerate().rev();
        numbered.map(|(place, table)| (oid(&table.name), place)).collect()
    });
    world.tables.get(*places.get(&number)?)
}

/// The number of a role.
pub(super) fn role_number(name: &str) -> i64 {
    if name == "owner" { OWNER } else { oid(name) }
}

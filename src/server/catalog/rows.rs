//! The rows of the catalog's relations, which follow from declarations.
//!
//! In: the tables and views that the client may see, and a relation such as `pg_class`. Out: its
//! rows. Most relations have none.

use std::sync::Arc;

use chrono::Utc;
use hushql::TableSchema;

use super::super::encode::kind;
use super::super::types;
use super::datum::{CatalogType, Datum};
use super::described_columns::{described, elements};
use super::functions::quoted;
use super::kept_relations::IndexedRows;
use super::relations::{
    CATALOG, DATABASE, INFORMATION, OWNER, PUBLIC, Relation, RelationColumn, RelationRow, World,
    int, oid, role_number, size,
};
use super::{templates, time_zones};

/// The value of a column that a row does not name.
fn default(relation: &Relation, (name, kind): RelationColumn) -> Datum {
    let empty = ["typdefault", "rolpassword", "passwd", "tablespace", "datcollversion"];
    if relation.schema == "information_schema" || empty.contains(&name) {
        return Datum::Null;
    }
    match kind {
        CatalogType::BOOL => Datum::Bool(false),
        kind if kind.is_int() => int(0),
        CatalogType::TEXT | CatalogType::NAME | CatalogType(18 | 22 | 30) => "".into(),
        CatalogType(24) => "-".into(),
        CatalogType(700 | 701) => int(0),
        _ => Datum::Null,
    }
}

/// The relations that are large, and follow from the tables and the role alone. They are kept.
/// Functions do not: templates are among them.
const KEPT: [&str; 8] =
    ["pg_class", "pg_attribute", "pg_type", "pg_tables", "pg_views", "tables", "columns", "views"];

/// The rows of a relation, the kept ones if it is large.
pub(super) fn indexed(world: &World, relation: &Relation) -> Arc<IndexedRows> {
    match KEPT.contains(&relation.name) {
        true => world.kept.rows(relation.oid, || rows(world, relation)),
        false => Arc::new(IndexedRows::new(rows(world, relation))),
    }
}

/// The rows of a relation.
pub(super) fn rows(world: &World, relation: &Relation) -> Vec<Vec<Datum>> {
    let found: Vec<RelationRow> = match (relation.schema, relation.name) {
        ("information_schema", name) => information(world, name),
        (_, "pg_class") => world.tables.iter().map(|table| class(world, table)).collect(),
        (_, "pg_attribute") => world.tables.iter().flat_map(attributes).collect(),
        (_, "pg_tables" | "pg_views") => listed_tables(world, relation.name == "pg_views"),
        (_, name) => fixed(world, name),
    };
    let Some(first) = found.first() else { return Vec::new() };
    // All rows of a relation name the same columns in the same order.
    let place = |name: &str| relation.columns.iter().position(|(known, _)| *known == name);
    let places: Vec<Option<usize>> = first.iter().map(|(name, _)| place(name)).collect();
    let usual: Vec<Datum> =
        relation.columns.iter().map(|column| default(relation, *column)).collect();
    let system = |ctid: usize| {
        [int(relation.oid), int(1), int(0), Datum::Text(format!("(0,{ctid})").into())]
    };
    let filled = found.into_iter().zip(1..).map(|(row, ctid)| {
        let mut cells = usual.clone();
        for ((_, value), place) in row.into_iter().zip(&places) {
            if let Some(cell) = place.and_then(|place| cells.get_mut(place)) {
                *cell = value;
            }
        }
        if relation.kind == "r" {
            cells.extend(system(ctid));
        }
        cells
    });
    filled.collect()
}

fn listed_tables(world: &World, views: bool) -> Vec<RelationRow> {
    let those = world.tables.iter().filter(|table| table.is_view == views);
    let named = |table: &TableSchema| {
        let (name, owner) =
            if views { ("viewname", "viewowner") } else { ("tablename", "tableowner") };
        vec![
            ("schemaname", "public".into()),
            (name, table.name.as_str().into()),
            (owner, "owner".into()),
        ]
    };
    those.map(named).collect()
}

/// The rows of `information_schema`.
fn information(world: &World, name: &str) -> Vec<RelationRow> {
    let tables = world.tables.iter();
    match name {
        "schemata" => schemas(world, true),
        "tables" => tables.map(|table| listed(world, table)).collect(),
        "views" => tables.filter(|table| table.is_view).map(|table| listed(world, table)).collect(),
        "columns" => tables.flat_map(|table| described(world, table)).collect(),
        "element_types" => tables.flat_map(|table| elements(world, table)).collect(),
        "information_schema_catalog_name" => {
            vec![vec![("catalog_name", world.database.into())]]
        }
        "enabled_roles" => vec![vec![("role_name", world.role.as_str().into())]],
        "character_sets" => vec![vec![
            ("character_set_name", "UTF8".into()),
            ("character_repertoire", "UCS".into()),
            ("form_of_use", "UTF8".into()),
            ("default_collate_catalog", world.database.into()),
            ("default_collate_schema", "pg_catalog".into()),
            ("default_collate_name", "C".into()),
        ]],
        "table_privileges" | "role_table_grants" => {
            let granted = |table: &TableSchema| {
                vec![
                    ("grantor", "owner".into()),
                    ("grantee", world.role.as_str().into()),
                    ("table_catalog", world.database.into()),
                    ("table_schema", "public".into()),
                    ("table_name", table.name.as_str().into()),
                    ("privilege_type", "SELECT".into()),
                    ("is_grantable", "NO".into()),
                    ("with_hierarchy", "NO".into()),
                ]
            };
            tables.map(granted).collect()
        }
        _ => Vec::new(),
    }
}

fn class(world: &World, table: &TableSchema) -> RelationRow {
    let text = |is_view: bool, view: &str, other: &str| if is_view { view } else { other }.into();
    vec![
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
        ("relacl", Datum::List(vec![Datum::Text(access(&world.role).into())])),
    ]
}

/// What a role may do with each table that exists for it, as PostgreSQL writes it: read, granted by
/// the owner. It says nothing of other roles.
fn access(role: &str) -> String {
    match role {
        "owner" => "owner=arwdDxt/owner".to_owned(),
        role => format!("{}=r/owner", quoted(role)),
    }
}

fn attributes(table: &TableSchema) -> impl Iterator<Item = RelationRow> {
    let number = oid(&table.name);
    table.schema.fields().iter().enumerate().map(move |(i, field)| {
        let (kind, bytes, _) = kind(field.data_type());
        let is_array = CatalogType(kind).is_array();
        vec![
            ("attrelid", int(number)),
            ("attname", field.name().as_str().into()),
            ("atttypid", int(kind)),
            ("attstattarget", int(-1)),
            ("attlen", int(bytes)),
            ("attnum", size(i + 1)),
            ("attndims", int(i16::from(is_array))),
            ("attcacheoff", int(-1)),
            ("atttypmod", int(-1)),
            ("attbyval", Datum::Bool(bytes > 0)),
            ("attalign", "i".into()),
            ("attstorage", "p".into()),
            ("attislocal", Datum::Bool(true)),
        ]
    })
}

/// The schemas, as `pg_namespace` or `information_schema.schemata` has them.
fn schemas(world: &World, information: bool) -> Vec<RelationRow> {
    let all = [(CATALOG, "pg_catalog"), (PUBLIC, "public"), (INFORMATION, "information_schema")];
    let one = |(number, name): (i64, &'static str)| match information {
        true => vec![
            ("catalog_name", world.database.into()),
            ("schema_name", name.into()),
            ("schema_owner", "owner".into()),
        ],
        false => vec![("oid", int(number)), ("nspname", name.into()), ("nspowner", int(OWNER))],
    };
    all.into_iter().map(one).collect()
}

/// The rows that do not follow from tables.
fn fixed(world: &World, name: &str) -> Vec<RelationRow> {
    match name {
        "pg_namespace" => schemas(world, false),
        "pg_type" => all_types(),
        "pg_proc" => functions_of_types().into_iter().chain(templates::rows(world)).collect(),
        "pg_am" => [(2_u32, "heap", "t", "heap_tableam_handler"), (403, "btree", "i", "bthandler")]
            .into_iter()
            .map(|(number, name, kind, handler)| {
                vec![
                    ("oid", int(number)),
                    ("amname", name.into()),
                    ("amhandler", handler.into()),
                    ("amtype", kind.into()),
                ]
            })
            .collect(),
        "pg_database" => vec![database(world)],
        "pg_stat_database" => {
            vec![vec![("datid", int(DATABASE)), ("datname", world.database.into())]]
        }
        "pg_tablespace" => [(1663_u32, "pg_default"), (1664, "pg_global")]
            .into_iter()
            .map(|(number, name)| {
                vec![("oid", int(number)), ("spcname", name.into()), ("spcowner", int(OWNER))]
            })
            .collect(),
        "pg_language" => [(12_u32, "internal", false), (14, "sql", true)]
            .into_iter()
            .map(|(number, name, trusted)| {
                vec![
                    ("oid", int(number)),
                    ("lanname", name.into()),
                    ("lanowner", int(OWNER)),
                    ("lanpltrusted", Datum::Bool(trusted)),
                ]
            })
            .collect(),
        "pg_collation" => [(100_u32, "default", "d"), (950, "C", "c"), (951, "POSIX", "c")]
            .into_iter()
            .map(|(number, name, provider)| {
                vec![
                    ("oid", int(number)),
                    ("collname", name.into()),
                    ("collnamespace", int(CATALOG)),
                    ("collowner", int(OWNER)),
                    ("collprovider", provider.into()),
                    ("collisdeterministic", Datum::Bool(true)),
                    ("collencoding", int(-1)),
                ]
            })
            .collect(),
        "pg_timezone_names" => time_zones::names(Utc::now()),
        "pg_timezone_abbrevs" => {
            vec![vec![("abbrev", "UTC".into()), ("utc_offset", "00:00:00".into())]]
        }
        "pg_roles" | "pg_user" => roles(world),
        "pg_settings" => world.settings.iter().map(setting).collect(),
        "pg_stat_activity" => vec![activity(world)],
        // They have one row in every database. Nothing is counted.
        "pg_stat_archiver" | "pg_stat_bgwriter" | "pg_stat_wal" => {
            vec![vec![("stats_reset", world.started.as_str().into()), ("wal_bytes", int(0))]]
        }
        "pg_stat_ssl" | "pg_stat_gssapi" => vec![vec![("pid", int(world.process))]],
        _ => Vec::new(),
    }
}

fn database(world: &World) -> RelationRow {
    vec![
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
    ]
}

/// The client's own connection. Clients do not learn who else is connected.
fn activity(world: &World) -> RelationRow {
    let application = world.settings.iter().find(|(name, _)| name == "application_name");
    vec![
        ("datid", int(DATABASE)),
        ("datname", world.database.into()),
        ("pid", int(world.process)),
        ("usesysid", int(role_number(&world.role))),
        ("usename", world.role.as_str().into()),
        ("application_name", application.map_or("", |(_, name)| name.as_str()).into()),
        ("state", "active".into()),
        ("backend_type", "client backend".into()),
    ]
}

/// The types and their arrays.
fn all_types() -> Vec<RelationRow> {
    let one = |t: &types::Type, is_array: bool| {
        let name = if is_array { format!("_{}", t.name) } else { t.name.to_owned() };
        let input = if is_array { "array_in" } else { t.input };
        let stem = input.strip_suffix("in").unwrap_or(input);
        let function = |end: &str| Datum::Text(format!("{stem}{end}").into());
        let category = if is_array { "A" } else { t.category };
        let (element, array) = if is_array { (t.oid, 0) } else { (t.element, t.array) };
        vec![
            ("oid", int(if is_array { t.array } else { t.oid })),
            ("typname", Datum::Text(name.into())),
            ("typnamespace", int(CATALOG)),
            ("typowner", int(OWNER)),
            ("typlen", int(if is_array { -1 } else { t.size })),
            ("typbyval", Datum::Bool(!is_array && t.by_value)),
            ("typtype", if is_array { "b" } else { t.kind }.into()),
            ("typcategory", category.into()),
            ("typispreferred", Datum::Bool(!is_array && t.preferred)),
            ("typisdefined", Datum::Bool(true)),
            ("typdelim", t.delimiter.into()),
            ("typelem", int(element)),
            ("typarray", int(array)),
            ("typinput", function("in")),
            ("typoutput", function("out")),
            ("typreceive", function("recv")),
            ("typsend", function("send")),
            ("typsubscript", if category == "A" { "array_subscript_handler" } else { "-" }.into()),
            ("typalign", if is_array && t.align != "d" { "i" } else { t.align }.into()),
            ("typstorage", if is_array { "x" } else { t.storage }.into()),
            ("typtypmod", int(-1)),
            ("typcollation", int(t.collation)),
        ]
    };
    let all = types::all();
    let arrays = all.iter().filter(|t| t.array > 0).map(|t| one(t, true));
    all.iter().map(|t| one(t, false)).chain(arrays).collect()
}

/// The functions that `pg_type` names.
fn functions_of_types() -> Vec<RelationRow> {
    let mut names: Vec<String> = types::all()
        .iter()
        .map(|t| t.input.strip_suffix("in").unwrap_or(t.input))
        .chain(["array_"])
        .flat_map(|stem| ["in", "out", "recv", "send"].map(|end| format!("{stem}{end}")))
        .collect();
    names.sort();
    names.dedup();
    let one = |name: String| {
        vec![
            ("oid", int(types::function_number(&name))),
            ("proname", Datum::Text(name.into())),
            ("pronamespace", int(CATALOG)),
            ("proowner", int(OWNER)),
            ("prolang", int(12)),
            ("procost", int(1)),
            ("prorows", int(0)),
            ("prokind", "f".into()),
            ("proisstrict", Datum::Bool(true)),
            ("proretset", Datum::Bool(false)),
            ("provolatile", "i".into()),
            ("proparallel", "s".into()),
            ("pronargs", int(1)),
            ("pronargdefaults", int(0)),
            ("prorettype", int(0)),
            ("proargtypes", "".into()),
            ("proargnames", Datum::Null),
        ]
    };
    names.into_iter().map(one).collect()
}

/// The owner and the client's own role. Clients do not learn which other roles exist.
fn roles(world: &World) -> Vec<RelationRow> {
    let mut names = vec!["owner"];
    if world.role != "owner" {
        names.push(&world.role);
    }
    let each = names.into_iter().map(|name| {
        let is_owner = Datum::Bool(name == "owner");
        let number = role_number(name);
        vec![
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
        ]
    });
    each.collect()
}

fn setting((name, value): &(String, String)) -> RelationRow {
    let kind = match value.as_str() {
        "on" | "off" => "bool",
        number if number.parse::<i64>().is_ok() => "integer",
        _ => "string",
    };
    vec![
        ("name", name.as_str().into()),
        ("setting", value.as_str().into()),
        ("category", "HushQL".into()),
        ("short_desc", "".into()),
        ("vartype", kind.into()),
        ("context", "user".into()),
        ("source", "default".into()),
        ("boot_val", value.as_str().into()),
        ("reset_val", value.as_str().into()),
    ]
}

fn listed(world: &World, table: &TableSchema) -> RelationRow {
    vec![
        ("table_catalog", world.database.into()),
        ("table_schema", "public".into()),
        ("table_name", table.name.as_str().into()),
        ("table_type", if table.is_view { "VIEW" } else { "BASE TABLE" }.into()),
        ("is_insertable_into", "NO".into()),
        ("is_typed", "NO".into()),
        ("check_option", "NONE".into()),
        ("is_updatable", "NO".into()),
    ]
}

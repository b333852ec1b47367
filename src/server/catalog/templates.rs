//! Templates as functions of PostgreSQL's catalog: `\df` lists them.
//!
//! In: the templates that the client may call. Out: their rows of `pg_proc`, and their arguments in
//! words.
//!
//! ```text
//! monthly    SETOF record    region text, least bigint DEFAULT 0    func
//! ```

use hushql::TemplateSignature;

use super::super::types;
use super::datum::Datum;
use super::relations::{OWNER, PUBLIC, World, oid};

/// The number of the language `sql`, and of the type `record`.
const SQL: i64 = 14;
const RECORD: i64 = 2249;

/// The name of a type in PostgreSQL, and its number.
fn type_of(name: &str) -> (&'static str, i64) {
    let name = match name {
        "BIGINT" => "int8",
        "DOUBLE" => "float8",
        "BOOLEAN" => "bool",
        "DATE" => "date",
        "TIMESTAMP" => "timestamp",
        _ => "text",
    };
    (name, i64::from(types::number_of(name)))
}

/// The parameters of a template as PostgreSQL writes them; with their defaults, or for identity
/// without.
fn arguments(template: &TemplateSignature, with_defaults: bool) -> String {
    let one = |(name, data_type, default): &(String, String, Option<String>)| {
        let data_type = types::formatted(type_of(data_type).1);
        match default.as_ref().filter(|_| with_defaults) {
            Some(default) => format!("{name} {data_type} DEFAULT {default}"),
            None => format!("{name} {data_type}"),
        }
    };
    template.parameters.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Whether a template that the client may call has this number.
pub(super) fn has(world: &World, number: i64) -> bool {
    world.templates.iter().any(|template| oid(&template.name) == number)
}

/// What a function about functions says of the template with this number. `None` for any other
/// function or number.
pub(super) fn said(world: &World, function: &str, number: Option<i64>) -> Option<String> {
    let template = world.templates.iter().find(|template| Some(oid(&template.name)) == number)?;
    match function {
        "pg_get_function_arguments" => Some(arguments(template, true)),
        "pg_get_function_identity_arguments" => Some(arguments(template, false)),
        "pg_get_function_result" => Some("SETOF record".to_owned()),
        _ => None,
    }
}

/// The columns of `pg_proc` that differ from those of other functions.
pub(super) fn rows(world: &World) -> Vec<Vec<(&'static str, Datum)>> {
    let int = |value: usize| Datum::Int(i64::try_from(value).unwrap_or(i64::MAX));
    let one = |template: &TemplateSignature| {
        let types = template.parameters.iter().map(|(_, kind, _)| Datum::Int(type_of(kind).1));
        let names = template.parameters.iter().map(|(name, ..)| Datum::from(name.as_str()));
        let defaults = template.parameters.iter().filter(|(.., default)| default.is_some());
        vec![
            ("oid", Datum::Int(oid(&template.name))),
            ("proname", template.name.as_str().into()),
            ("pronamespace", Datum::Int(PUBLIC)),
            ("proowner", Datum::Int(OWNER)),
            ("prolang", Datum::Int(SQL)),
            ("procost", Datum::Int(1)),
            ("prorows", Datum::Int(1_000)),
            ("prokind", "f".into()),
            ("proisstrict", Datum::Bool(false)),
            ("proretset", Datum::Bool(true)),
            ("provolatile", "v".into()),
            ("proparallel", "u".into()),
            ("pronargs", int(template.parameters.len())),
            ("pronargdefaults", int(defaults.count())),
            ("prorettype", Datum::Int(RECORD)),
            ("proargtypes", Datum::List(types.collect())),
            ("proargnames", Datum::List(names.collect())),
        ]
    };
    world.templates.iter().map(one).collect()
}

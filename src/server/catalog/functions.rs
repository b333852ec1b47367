//! The functions of the catalog: on the session, on tables, and a few on texts and arrays.
//!
//! In: a name without `pg_catalog`, and values. Out: a value. Functions on objects that do not
//! exist here return NULL.

use hushql::TableSchema;

use super::datum::{CatalogType, Datum, Unknown};
use super::relations::{self, CATALOG, INFORMATION, PUBLIC, World};
use super::types;

/// Functions on the session or the catalog. A query that calls one and reads no table is answered
/// here.
pub(super) fn is_about_the_catalog(name: &str) -> bool {
    name.starts_with("pg_")
        || name.starts_with("has_")
        || [
            "array_to_string_of_acl",
            "col_description",
            "current_catalog",
            "current_database",
            "current_role",
            "current_schema",
            "current_schemas",
            "current_setting",
            "current_user",
            "format_type",
            "inet_server_addr",
            "inet_server_port",
            "obj_description",
            "session_user",
            "set_config",
            "shobj_description",
            "to_regclass",
            "to_regtype",
            "txid_current",
            "user",
            "version",
        ]
        .contains(&name)
}

/// The type of a function's result.
pub(super) fn kind(name: &str) -> CatalogType {
    match name {
        "array_length"
        | "array_lower"
        | "array_ndims"
        | "array_position"
        | "array_upper"
        | "cardinality"
        | "char_length"
        | "character_length"
        | "count"
        | "inet_server_port"
        | "length"
        | "pg_backend_pid"
        | "pg_char_to_encoding"
        | "pg_database_size"
        | "pg_indexes_size"
        | "pg_my_temp_schema"
        | "pg_relation_size"
        | "pg_table_size"
        | "pg_total_relation_size"
        | "position"
        | "row_number"
        | "sum"
        | "to_regclass"
        | "to_regtype"
        | "txid_current"
        | "abs" => CatalogType::Int,
        name if name.ends_with("_is_visible")
            || name.starts_with("has_")
            || [
                "pg_is_in_recovery",
                "pg_relation_is_publishable",
                "bool_and",
                "bool_or",
                "every",
                "starts_with",
                "row_security_active",
            ]
            .contains(&name) =>
        {
            CatalogType::Bool
        }
        _ => CatalogType::Text,
    }
}

/// Functions on objects that do not exist here.
const NONE: [&str; 20] = [
    "col_description",
    "inet_server_addr",
    "inet_server_port",
    "json_build_object",
    "obj_description",
    "pg_get_constraintdef",
    "pg_get_expr",
    "pg_get_functiondef",
    "pg_get_function_arguments",
    "pg_get_function_identity_arguments",
    "pg_get_function_result",
    "pg_get_indexdef",
    "pg_get_partkeydef",
    "pg_get_ruledef",
    "pg_get_serial_sequence",
    "pg_get_statisticsobjdef_columns",
    "pg_get_triggerdef",
    "pg_tablespace_location",
    "shobj_description",
    "pg_get_partition_constraintdef",
];

/// Calls a function.
///
/// # Errors
/// If the function is unknown.
pub(super) fn call(world: &World, name: &str, values: &[Datum]) -> Result<Datum, Unknown> {
    let text = |n: usize| values.get(n).and_then(Datum::text);
    let int = |n: usize| values.get(n).and_then(Datum::int);
    let list = |n: usize| values.get(n).and_then(Datum::list);
    let told = |text: Option<String>| text.map_or(Datum::Null, |text| Datum::Text(text.into()));
    let number = |n: usize| Datum::Int(i64::try_from(n).unwrap_or(i64::MAX));
    if NONE.contains(&name) {
        return Ok(Datum::Null);
    }
    Ok(match name {
        "version" => Datum::Text(format!("PostgreSQL {}", world.version).into()),
        "current_schema" => "public".into(),
        "current_schemas" => {
            let all = values.first().and_then(Datum::truth) == Some(true);
            let names: &[&str] = if all { &["pg_catalog", "public"] } else { &["public"] };
            Datum::List(names.iter().map(|name| Datum::from(*name)).collect())
        }
        "current_database" | "current_catalog" => world.database.into(),
        "current_user" | "session_user" | "user" | "current_role" => world.role.as_str().into(),
        "pg_get_userbyid" => match int(0) {
            Some(10) => "owner".into(),
            _ => Datum::Text(format!("unknown (OID={})", int(0).unwrap_or(0)).into()),
        },
        "pg_backend_pid" => Datum::Int(world.process.into()),
        "pg_is_in_recovery" | "pg_relation_is_publishable" | "row_security_active" => {
            Datum::Bool(false)
        }
        "txid_current" => Datum::Int(1),
        "pg_my_temp_schema"
        | "pg_database_size"
        | "pg_indexes_size"
        | "pg_relation_size"
        | "pg_table_size"
        | "pg_total_relation_size" => Datum::Int(0),
        "pg_advisory_unlock_all" => "".into(),
        "pg_size_pretty" => "0 bytes".into(),
        "pg_char_to_encoding" => Datum::Int(6),
        "pg_encoding_to_char" => "UTF8".into(),
        "current_setting" => {
            let name = text(0).unwrap_or_default().to_lowercase();
            let found = world.settings.iter().find(|(known, _)| *known == name);
            match (found, values.get(1).and_then(Datum::truth)) {
                (Some((_, value)), _) => value.as_str().into(),
                (None, Some(true)) => Datum::Null,
                (None, _) => return Err(Unknown),
            }
        }
        "format_type" => int(0).map_or(Datum::Null, |oid| told(Some(types::formatted(oid)))),
        "to_regtype" => {
            let named = text(0).and_then(|name| types::named(&name));
            named.map_or(Datum::Null, Datum::Int)
        }
        "to_regclass" => {
            let named = text(0).and_then(|name| relations::numbered(world, &name));
            named.map_or(Datum::Null, Datum::Int)
        }
        "pg_get_viewdef" => "".into(),
        "quote_ident" => text(0).map_or(Datum::Null, |name| Datum::Text(quoted(&name).into())),
        "quote_literal" => told(text(0).map(|text| format!("'{}'", text.replace('\'', "''")))),
        "parse_ident" => text(0).map_or(Datum::Null, |text| Datum::List(parts(&text))),
        "lower" => told(text(0).map(|text| text.to_lowercase())),
        "upper" => told(text(0).map(|text| text.to_uppercase())),
        "trim" | "btrim" | "ltrim" | "rtrim" => told(text(0).map(|value| {
            let cut = text(1).unwrap_or_else(|| " ".to_owned());
            let cut: Vec<char> = cut.chars().collect();
            match name {
                "ltrim" => value.trim_start_matches(cut.as_slice()).to_owned(),
                "rtrim" => value.trim_end_matches(cut.as_slice()).to_owned(),
                _ => value.trim_matches(cut.as_slice()).to_owned(),
            }
        })),
        "length" | "char_length" | "character_length" => {
            text(0).map_or(Datum::Null, |text| number(text.chars().count()))
        }
        "replace" => match (text(0), text(1), text(2)) {
            (Some(text), Some(old), Some(new)) => {
                // The replacement must not make a text that grows without end.
                if new.len() > 256 || old.is_empty() {
                    return Err(Unknown);
                }
                told(Some(text.replace(&old, &new)))
            }
            _ => Datum::Null,
        },
        "substring" | "substr" => match (text(0), int(1)) {
            (Some(text), Some(from)) => {
                let end = int(2).map(|count| from.saturating_add(count));
                let kept = text
                    .chars()
                    .zip(1_i64..)
                    .filter(|(_, at)| *at >= from && end.is_none_or(|end| *at < end));
                told(Some(kept.map(|(c, _)| c).collect()))
            }
            _ => Datum::Null,
        },
        "concat" => told(Some(values.iter().filter_map(Datum::text).collect())),
        "starts_with" => match (text(0), text(1)) {
            (Some(text), Some(begin)) => Datum::Bool(text.starts_with(&begin)),
            _ => Datum::Null,
        },
        "string_to_array" => match (text(0), text(1)) {
            (Some(text), Some(between)) if !between.is_empty() => {
                Datum::List(text.split(&between).map(Datum::from).collect())
            }
            _ => Datum::Null,
        },
        "array_to_string" => match (list(0), text(1)) {
            (Some(list), Some(between)) => {
                let texts: Vec<String> = list.iter().filter_map(Datum::text).collect();
                told(Some(texts.join(&between)))
            }
            _ => Datum::Null,
        },
        "array_length" | "array_upper" | "cardinality" => match list(0) {
            Some(list) if !list.is_empty() => number(list.len()),
            _ => Datum::Null,
        },
        "array_lower" => {
            list(0).filter(|list| !list.is_empty()).map_or(Datum::Null, |_| Datum::Int(1))
        }
        "coalesce" => values.iter().find(|value| !value.is_null()).cloned().unwrap_or(Datum::Null),
        "nullif" => match values {
            [a, b] if a.compare(b) == Some(std::cmp::Ordering::Equal) => Datum::Null,
            [a, ..] => a.clone(),
            [] => return Err(Unknown),
        },
        "greatest" => values.iter().filter(|v| !v.is_null()).max().cloned().unwrap_or(Datum::Null),
        "least" => values.iter().filter(|v| !v.is_null()).min().cloned().unwrap_or(Datum::Null),
        "set_config" => values.get(1).cloned().unwrap_or(Datum::Null),
        name if name.ends_with("_is_visible") => {
            let known = int(0).is_some_and(|oid| is_visible(world, oid));
            Datum::Bool(known)
        }
        // A role may query, but declare nothing.
        name if name.starts_with("has_") => {
            let wanted = values.last().and_then(Datum::text).unwrap_or_default().to_lowercase();
            Datum::Bool(["select", "usage", "connect"].iter().any(|right| wanted.contains(right)))
        }
        _ => return Err(Unknown),
    })
}

fn is_visible(world: &World, oid: i64) -> bool {
    relations::table(world, oid).is_some()
        || types::numbered(oid).is_some()
        || [2, 403].contains(&oid)
}

/// The name of the relation, type or schema with this number, as `regclass` and similar types show
/// it.
pub(super) fn shown(world: &World, what: &str, value: &Datum) -> Datum {
    let Some(number) = value.int() else { return value.clone() };
    let name = match what {
        "regtype" => Some(types::formatted(number)),
        "regnamespace" => {
            [(CATALOG, "pg_catalog"), (PUBLIC, "public"), (INFORMATION, "information_schema")]
                .iter()
                .find(|(oid, _)| *oid == number)
                .map(|(_, name)| (*name).to_owned())
        }
        _ => relations::table(world, number).map(|table: &TableSchema| quoted(&table.name)),
    };
    Datum::Text(name.unwrap_or_else(|| number.to_string()).into())
}

/// A name, quoted if necessary.
fn quoted(name: &str) -> String {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let begins = name.chars().next().is_some_and(|c| !c.is_ascii_digit());
    if begins && name.chars().all(plain) {
        name.to_owned()
    } else {
        format!("\"{}\"", name.replace('"', "\"\""))
    }
}

/// The parts of `schema."Name"`.
fn parts(text: &str) -> Vec<Datum> {
    let (mut all, mut one, mut quoted) = (Vec::new(), String::new(), false);
    for c in text.chars() {
        match c {
            '"' => quoted = !quoted,
            '.' if !quoted => all.push(Datum::Text(std::mem::take(&mut one).into())),
            c if quoted => one.push(c),
            c => one.extend(c.to_lowercase()),
        }
    }
    all.push(Datum::Text(one.into()));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_about_texts_and_arrays() {
        let world = World::default();
        let call =
            |name: &str, values: &[Datum]| call(&world, name, values).map(|value| value.text());
        let list = Datum::from("{a,b}");
        for (name, values, expected) in [
            ("quote_ident", vec!["People".into()], Some("\"People\"")),
            ("quote_ident", vec!["people".into()], Some("people")),
            ("parse_ident", vec!["public.\"A b\"".into()], Some("{public,\"A b\"}")),
            ("array_length", vec![list.clone(), Datum::Int(1)], Some("2")),
            ("array_lower", vec![list, Datum::Int(1)], Some("1")),
            ("string_to_array", vec!["a,b".into(), ",".into()], Some("{a,b}")),
            ("substring", vec!["TABLE of".into(), Datum::Int(0), Datum::Int(6)], Some("TABLE")),
            ("trim", vec!["\"a\"".into(), "\"".into()], Some("a")),
            ("coalesce", vec![Datum::Null, Datum::Int(1)], Some("1")),
            ("nullif", vec!["".into(), "".into()], None),
            ("format_type", vec![Datum::Int(20), Datum::Null], Some("bigint")),
            ("pg_get_expr", vec![Datum::Null], None),
            ("has_table_privilege", vec!["people".into(), "INSERT".into()], Some("f")),
        ] {
            assert_eq!(call(name, &values).unwrap().as_deref(), expected, "{name}");
        }
        assert_eq!(call("pg_read_file", &["/etc/passwd".into()]), Err(Unknown));
        assert_eq!(
            call("replace", &["a".into(), "a".into(), "b".repeat(300).as_str().into()]),
            Err(Unknown)
        );
    }
}

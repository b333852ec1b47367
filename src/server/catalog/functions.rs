//! The functions of the catalog: on the session, on tables, and a few on texts and arrays.
//!
//! In: a name without `pg_catalog`, and values. Out: a value. Functions on objects that do not
//! exist here return NULL.

use super::super::{timestamp, types};
use super::datum::{CatalogType, Datum, Unanswered};
use super::relations::{self, CATALOG, INFORMATION, PUBLIC, World};
use super::templates;

/// The whole seconds from its second argument to its first one, for EXTRACT.
pub(super) const SECONDS: &str = "extract(epoch)";

/// Functions on the session or the catalog. A query that calls one and reads no table is answered
/// here.
pub(super) fn is_about_the_catalog(name: &str) -> bool {
    name.starts_with("pg_")
        || name.starts_with("has_")
        || [
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
            "getdatabaseencoding",
            "quote_ident",
            "row_security_active",
            "to_regnamespace",
            "to_regrole",
        ]
        .contains(&name)
}

/// The type of a function's result, given the type of its first argument.
pub(super) fn kind(name: &str, first: Option<CatalogType>) -> CatalogType {
    let first = first.unwrap_or(CatalogType::TEXT);
    match name {
        "array_length"
        | "array_lower"
        | "array_ndims"
        | "array_position"
        | "array_upper"
        | "cardinality"
        | "char_length"
        | "character_length"
        | "inet_server_port"
        | "length"
        | "octet_length"
        | "pg_backend_pid"
        | "pg_char_to_encoding"
        | "position"
        | "strpos"
        | "pg_encoding_max_length"
        | "pg_trigger_depth"
        | "ascii" => CatalogType::INT4,
        "count"
        | "dense_rank"
        | "pg_database_size"
        | "pg_indexes_size"
        | "pg_relation_size"
        | "pg_table_size"
        | "pg_tablespace_size"
        | "pg_total_relation_size"
        | "rank"
        | "row_number"
        | "sum"
        | "txid_current" => CatalogType::INT8,
        "pg_my_temp_schema" | "to_regclass" | "to_regtype" | "to_regnamespace" | "to_regrole" => {
            CatalogType::OID
        }
        "avg" | "round" | "trunc" | "extract" | "date_part" => CatalogType::NUMERIC,
        "current_database"
        | "current_catalog"
        | "current_role"
        | "current_schema"
        | "current_user"
        | "session_user"
        | "user"
        | "pg_get_userbyid"
        | "pg_encoding_to_char"
        | "getdatabaseencoding"
        | "pg_client_encoding" => CatalogType::NAME,
        "current_schemas" => CatalogType::NAME.array(),
        "string_to_array" | "parse_ident" | "regexp_split_to_array" => CatalogType::TEXT.array(),
        "pg_blocking_pids" => CatalogType::INT4.array(),
        "array_agg" => first.array(),
        "now"
        | "current_timestamp"
        | "clock_timestamp"
        | "statement_timestamp"
        | "transaction_timestamp"
        | "pg_postmaster_start_time"
        | "pg_conf_load_time"
        | "pg_last_xact_replay_timestamp"
        | "pg_stat_get_snapshot_timestamp" => CatalogType::TIMESTAMPTZ,
        "row_to_json" | "to_json" | "json_build_object" | "json_build_array" | "json_agg"
        | "json_object_agg" | "array_to_json" => CatalogType::JSON,
        "to_jsonb" | "jsonb_build_object" | "jsonb_build_array" | "jsonb_agg"
        | "jsonb_object_agg" => CatalogType(3802),
        "void" | "pg_advisory_unlock_all" | "pg_advisory_unlock_shared" => CatalogType(2278),
        "abs" | "coalesce" | "greatest" | "least" | "max" | "min" | "nullif" | "array_remove"
        | "array_cat" | "array_append" | "array_prepend" | "array_replace" => first,
        name if name.ends_with("_is_visible")
            || name.starts_with("has_")
            || name.starts_with("pg_is_")
            || name.starts_with("pg_try_")
            || [
                "bool_and",
                "bool_or",
                "every",
                "pg_advisory_unlock",
                "pg_cancel_backend",
                "pg_has_role",
                "pg_relation_is_publishable",
                "pg_terminate_backend",
                "row_security_active",
                "starts_with",
            ]
            .contains(&name) =>
        {
            CatalogType::BOOL
        }
        _ => CatalogType::TEXT,
    }
}

/// Functions on objects that do not exist here.
const NONE: [&str; 32] = [
    "acldefault",
    "pg_blocking_pids",
    "pg_current_logfile",
    "pg_describe_object",
    "pg_get_function_arg_default",
    "pg_get_function_sqlbody",
    "pg_get_object_address",
    "pg_get_statisticsobjdef",
    "pg_get_statisticsobjdef_expressions",
    "pg_identify_object",
    "pg_last_wal_receive_lsn",
    "pg_last_wal_replay_lsn",
    "pg_last_xact_replay_timestamp",
    "col_description",
    "inet_server_addr",
    "inet_server_port",
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
pub(super) fn call(world: &World, name: &str, values: &[Datum]) -> Result<Datum, Unanswered> {
    let text = |n: usize| values.get(n).and_then(Datum::text);
    let int = |n: usize| values.get(n).and_then(Datum::int);
    let list = |n: usize| values.get(n).and_then(Datum::list);
    let told = |text: Option<String>| text.map_or(Datum::Null, |text| Datum::Text(text.into()));
    let number = |n: usize| Datum::Int(i64::try_from(n).unwrap_or(i64::MAX));
    if NONE.contains(&name) {
        return Ok(told(templates::said(world, name, int(0))));
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
            Some(number) if number == relations::role_number(&world.role) => {
                world.role.as_str().into()
            }
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
        | "pg_tablespace_size"
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
                (None, _) => {
                    let message = format!("there is no setting {name}");
                    return Err(Unanswered::Said("42704", message));
                }
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
        "to_regnamespace" => {
            let schemas =
                [(CATALOG, "pg_catalog"), (PUBLIC, "public"), (INFORMATION, "information_schema")];
            let name = text(0).unwrap_or_default();
            let found = schemas.iter().find(|(_, known)| *known == name);
            found.map_or(Datum::Null, |(number, _)| Datum::Int(*number))
        }
        "to_regrole" => match text(0) {
            Some(name) if name == world.role || name == "owner" => {
                Datum::Int(relations::role_number(&name))
            }
            _ => Datum::Null,
        },
        "pg_get_viewdef" => "".into(),
        "now"
        | "current_timestamp"
        | "clock_timestamp"
        | "statement_timestamp"
        | "transaction_timestamp" => world.now.as_str().into(),
        "pg_postmaster_start_time" | "pg_conf_load_time" => world.started.as_str().into(),
        "pg_client_encoding" => {
            let encoding = world.settings.iter().find(|(name, _)| name == "client_encoding");
            encoding.map_or("UTF8", |(_, value)| value.as_str()).into()
        }
        "getdatabaseencoding" => "UTF8".into(),
        "pg_trigger_depth" => Datum::Int(0),
        "pg_encoding_max_length" => Datum::Int(4),
        "pg_has_role" => Datum::Bool(true),
        // Of connections, a client knows its own alone, which does not wait for anything now.
        "pg_cancel_backend" | "pg_terminate_backend" => {
            Datum::Bool(int(0) == Some(world.process.into()))
        }
        "pg_advisory_unlock" => Datum::Bool(false),
        name if name.starts_with("pg_try_advisory_") => Datum::Bool(true),
        name if name.starts_with("pg_advisory_") => "".into(),
        name if name.starts_with("pg_is_") => Datum::Bool(false),
        "format" => formatted(values)?,
        SECONDS => {
            let second = |at| text(at).and_then(|time| timestamp::second(&time));
            second(0).zip(second(1)).map_or(Datum::Null, |(to, from)| Datum::Int(to - from))
        }
        "to_char" => match (text(0), text(1)) {
            (Some(time), Some(pattern)) => told(Some(time_as(&time, &pattern)?)),
            _ => Datum::Null,
        },
        "strpos" | "position" => match (text(0), text(1)) {
            (Some(text), Some(part)) => {
                let found = text.find(&part).and_then(|at| text.get(..at));
                found.map_or(Datum::Int(0), |before| number(before.chars().count() + 1))
            }
            _ => Datum::Null,
        },
        "left" | "right" => match (text(0), int(1)) {
            (Some(text), Some(count)) => {
                let all = text.chars().count();
                let count = match usize::try_from(count) {
                    Ok(count) => count.min(all),
                    Err(_) => {
                        all.saturating_sub(usize::try_from(count.unsigned_abs()).unwrap_or(all))
                    }
                };
                let skipped = if name == "left" { 0 } else { all - count };
                told(Some(text.chars().skip(skipped).take(count).collect()))
            }
            _ => Datum::Null,
        },
        "split_part" => match (text(0), text(1), int(2)) {
            (Some(text), Some(between), Some(place)) if !between.is_empty() => {
                let place = usize::try_from(place).ok().and_then(|place| place.checked_sub(1));
                let part = place.and_then(|place| text.split(&between).nth(place));
                told(Some(part.unwrap_or_default().to_owned()))
            }
            _ => Datum::Null,
        },
        "concat_ws" => {
            let between = text(0).unwrap_or_default();
            let parts: Vec<String> = values.iter().skip(1).filter_map(Datum::text).collect();
            told(Some(parts.join(&between)))
        }
        "array_remove" => list(0).map_or(Datum::Null, |list| {
            let wanted = values.get(1).unwrap_or(&Datum::Null);
            Datum::List(list.into_iter().filter(|one| one != wanted).collect())
        }),
        "array_cat" | "array_append" | "array_prepend" => {
            let one =
                |n: usize| list(n).unwrap_or_else(|| values.get(n).cloned().into_iter().collect());
            Datum::List(one(0).into_iter().chain(one(1)).collect())
        }
        "array_position" => match (list(0), values.get(1)) {
            (Some(list), Some(wanted)) => {
                let is_it = |one: &Datum| one.compare(wanted) == Some(std::cmp::Ordering::Equal);
                list.iter().position(is_it).map_or(Datum::Null, |at| number(at + 1))
            }
            _ => Datum::Null,
        },
        "array_ndims" => {
            list(0).filter(|list| !list.is_empty()).map_or(Datum::Null, |_| Datum::Int(1))
        }
        "row_to_json" | "to_json" | "to_jsonb" | "array_to_json" => match values.first() {
            None | Some(Datum::Null) => Datum::Null,
            Some(value) => Datum::Text(value.json().to_string().into()),
        },
        "json_build_array" | "jsonb_build_array" => {
            let list: serde_json::Value = values.iter().map(Datum::json).collect();
            Datum::Text(list.to_string().into())
        }
        "json_build_object" | "jsonb_build_object" => {
            let each = values.chunks(2).filter_map(|pair| match pair {
                [name, value] => Some((name.text()?, value.json())),
                _ => None,
            });
            Datum::Text(serde_json::Value::Object(each.collect()).to_string().into())
        }
        "abs" => int(0).map_or(Datum::Null, |value| Datum::Int(value.saturating_abs())),
        "round" | "trunc" => match values.first() {
            Some(value @ (Datum::Int(_) | Datum::Null)) => value.clone(),
            _ => return Err(Unanswered::Unclear),
        },
        "quote_nullable" => match text(0) {
            None => "NULL".into(),
            Some(text) => Datum::Text(format!("'{}'", text.replace('\'', "''")).into()),
        },
        "quote_ident" => text(0).map_or(Datum::Null, |name| Datum::Text(quoted(&name).into())),
        "quote_literal" => told(text(0).map(|text| format!("'{}'", text.replace('\'', "''")))),
        "parse_ident" => text(0).map_or(Datum::Null, |text| {
            let parts = relations::name_parts(&text).into_iter();
            Datum::List(parts.map(|part| Datum::Text(part.into())).collect())
        }),
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
                    return Err(Unanswered::Unclear);
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
            [] => return Err(Unanswered::Unclear),
        },
        "greatest" => values.iter().filter(|v| !v.is_null()).max().cloned().unwrap_or(Datum::Null),
        "least" => values.iter().filter(|v| !v.is_null()).min().cloned().unwrap_or(Datum::Null),
        "set_config" => match (text(0), values.get(1)) {
            (Some(name), Some(value)) => {
                let value = value.text().unwrap_or_default();
                world.configured.borrow_mut().push((name.to_lowercase(), value.clone()));
                Datum::Text(value.into())
            }
            _ => Datum::Null,
        },
        name if name.ends_with("_is_visible") => {
            let known = int(0).is_some_and(|oid| is_visible(world, oid));
            Datum::Bool(known)
        }
        "has_table_privilege" => has_privilege(world, values, 2)?,
        "has_any_column_privilege" => has_privilege(world, values, 2)?,
        "has_column_privilege" => has_privilege(world, values, 3)?,
        // A role may query, but declare nothing.
        name if name.starts_with("has_") => {
            let wanted = values.last().and_then(Datum::text).unwrap_or_default().to_lowercase();
            Datum::Bool(["select", "usage", "connect"].iter().any(|right| wanted.contains(right)))
        }
        _ => return Err(Unanswered::Unclear),
    })
}

/// Whether a role has a privilege on a table, the last argument. `own` is the number of arguments
/// without a role. A table that does not exist for the role is an error, or NULL by its number.
fn has_privilege(world: &World, values: &[Datum], own: usize) -> Result<Datum, Unanswered> {
    let Some(before) = values.len().checked_sub(own) else { return Err(Unanswered::Unclear) };
    let is_role = |datum: &Datum| match datum.int() {
        Some(number) => number == relations::role_number(&world.role),
        None => datum.text().is_some_and(|name| name == world.role),
    };
    let table = values.get(before).ok_or(Unanswered::Unclear)?;
    let number = match (table.int(), table.text()) {
        (Some(number), _) => {
            Some(number).filter(|number| relations::name_of(world, *number).is_some())
        }
        (None, Some(name)) => Some(
            relations::numbered(world, &name)
                .ok_or_else(|| Unanswered::Said("42P01", format!("there is no table {name}")))?,
        ),
        (None, None) => None,
    };
    if number.is_none() {
        return Ok(Datum::Null);
    }
    let wanted = values.last().and_then(Datum::text).unwrap_or_default().to_lowercase();
    // What other roles may do is the owner's to know.
    let is_own = values.iter().take(before).all(is_role);
    Ok(Datum::Bool(is_own && wanted.split(',').any(|right| right.trim() == "select")))
}

fn is_visible(world: &World, oid: i64) -> bool {
    relations::name_of(world, oid).is_some_and(|(schema, _)| schema != "information_schema")
        || types::numbered(oid).is_some()
        || [2, 403].contains(&oid)
        || templates::has(world, oid)
}

/// How `regclass` and similar types show the relation, type or schema of this number or name.
pub(super) fn shown(world: &World, what: &str, value: &Datum) -> Datum {
    let number = value.int().or_else(|| match (what, value.text()) {
        ("regtype", Some(name)) => types::named(&name),
        ("regclass", Some(name)) => relations::numbered(world, &name),
        _ => None,
    });
    let Some(number) = number else { return value.clone() };
    let name = match what {
        "regtype" => Some(types::formatted(number)),
        "regrole" => match number {
            10 => Some("owner".to_owned()),
            number if number == relations::role_number(&world.role) => Some(quoted(&world.role)),
            _ => None,
        },
        "regnamespace" => {
            [(CATALOG, "pg_catalog"), (PUBLIC, "public"), (INFORMATION, "information_schema")]
                .iter()
                .find(|(oid, _)| *oid == number)
                .map(|(_, name)| (*name).to_owned())
        }
        _ => relations::name_of(world, number).map(|(schema, name)| match schema {
            "information_schema" => format!("{schema}.{}", quoted(name)),
            _ => quoted(name),
        }),
    };
    Datum::Text(name.unwrap_or_else(|| number.to_string()).into())
}

/// A name, quoted if necessary.
pub(super) fn quoted(name: &str) -> String {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let begins = name.chars().next().is_some_and(|c| !c.is_ascii_digit());
    if begins && name.chars().all(plain) {
        name.to_owned()
    } else {
        format!("\"{}\"", name.replace('"', "\"\""))
    }
}

/// A moment in the words of a pattern, such as `YYYY-MM-DD HH24:MI:SS TZ`. The time zone is UTC.
fn time_as(time: &str, pattern: &str) -> Result<String, Unanswered> {
    let part = |from: usize, to: usize| time.get(from..to).ok_or(Unanswered::Unclear);
    let parts = [
        ("YYYY", part(0, 4)?),
        ("HH24", part(11, 13)?),
        ("MM", part(5, 7)?),
        ("DD", part(8, 10)?),
        ("MI", part(14, 16)?),
        ("SS", part(17, 19)?),
        ("TZ", "UTC"),
    ];
    let (mut out, mut rest) = (String::new(), pattern);
    while let Some(first) = rest.chars().next() {
        let found = parts.iter().find(|(word, _)| rest.starts_with(word));
        let (written, length) = match found {
            Some((word, value)) => (*value, word.len()),
            None if first.is_alphanumeric() => return Err(Unanswered::Unclear),
            None => (rest.get(..first.len_utf8()).unwrap_or_default(), first.len_utf8()),
        };
        out.push_str(written);
        rest = rest.get(length..).unwrap_or_default();
    }
    Ok(out)
}

/// `format('%s of %I', …)`: `%s` is a value, `%I` a name, `%L` a literal.
fn formatted(values: &[Datum]) -> Result<Datum, Unanswered> {
    let Some(pattern) = values.first().and_then(Datum::text) else { return Ok(Datum::Null) };
    let (mut out, mut next) = (String::new(), 1);
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut digits = String::new();
        while let Some(digit) = chars.next_if(char::is_ascii_digit) {
            digits.push(digit);
        }
        if chars.next_if_eq(&'$').is_some() {
            next = digits.parse().map_err(|_| Unanswered::Unclear)?;
        }
        let what = chars.next().ok_or(Unanswered::Unclear)?;
        if what == '%' {
            out.push('%');
            continue;
        }
        let value = values.get(next).ok_or(Unanswered::Unclear)?.text();
        next += 1;
        match (what, value) {
            ('s', value) => out.push_str(&value.unwrap_or_default()),
            ('I', Some(value)) => out.push_str(&quoted(&value)),
            ('L', Some(value)) => out.push_str(&format!("'{}'", value.replace('\'', "''"))),
            ('L', None) => out.push_str("NULL"),
            _ => return Err(Unanswered::Unclear),
        }
    }
    Ok(Datum::Text(out.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_about_texts_and_arrays() {
        let world = World {
            tables: hushql::Engine::demo().unwrap().analyst("lab").unwrap().schema_list().unwrap(),
            ..World::default()
        };
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
            (
                "to_char",
                vec!["2026-03-04 05:06:07.8+00".into(), "YYYY-MM-DD HH24:MI:SS TZ".into()],
                Some("2026-03-04 05:06:07 UTC"),
            ),
            (
                SECONDS,
                vec!["2026-03-04 05:06:07.8+00".into(), "2026-03-03 05:06:06+00".into()],
                Some("86401"),
            ),
            ("has_table_privilege", vec!["adult".into(), "INSERT".into()], Some("f")),
            ("has_table_privilege", vec!["public.adult".into(), "SELECT".into()], Some("t")),
            ("has_table_privilege", vec!["eve".into(), "adult".into(), "SELECT".into()], Some("f")),
            ("has_table_privilege", vec![Datum::Int(7), "SELECT".into()], None),
        ] {
            assert_eq!(call(name, &values).unwrap().as_deref(), expected, "{name}");
        }
        assert_eq!(call("pg_read_file", &["/etc/passwd".into()]), Err(Unanswered::Unclear));
        assert_eq!(
            call("replace", &["a".into(), "a".into(), "b".repeat(300).as_str().into()]),
            Err(Unanswered::Unclear)
        );
    }
}

//! The first queries of tools, and queries that the catalog does not answer.

use hushql::Engine;

use super::super::encode::EncodedTable;
use super::super::encode::kinds;
use super::met::Met;
use super::relations::World;
use super::{asked, compiled, with_room};

fn world() -> World {
    World {
        tables: Engine::demo().unwrap().analyst("lab").unwrap().schema_list().unwrap(),
        role: "lab".to_owned(),
        database: "hushql",
        version: "15.0".to_owned(),
        process: 7,
        settings: [
            ("search_path", "public"),
            ("server_version_num", "150000"),
            ("max_index_keys", "32"),
            ("default_table_access_method", "heap"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec(),
        ..World::default()
    }
}

fn answered(sql: &str) -> Option<EncodedTable> {
    with_room(|| asked(&world(), sql, &[])).ok()
}

/// The rows of an answer as text, `|` between cells.
fn rows(sql: &str) -> Vec<String> {
    let table = answered(sql).unwrap_or_else(|| panic!("no answer to {sql}"));
    let mut rows = Vec::new();
    for batch in &table.batches {
        super::super::encode::texts(batch, |cells| {
            let cells = cells.iter().map(|cell| match cell {
                None => "NULL".to_owned(),
                Some(cell) => String::from_utf8(cell.clone()).unwrap(),
            });
            rows.push(cells.collect::<Vec<_>>().join("|"));
        })
        .unwrap();
    }
    rows
}

fn columns(sql: &str) -> Vec<String> {
    let table = answered(sql).unwrap_or_else(|| panic!("no answer to {sql}"));
    table.schema.fields().iter().map(|field| field.name().clone()).collect()
}

/// The condition with which Grafana's dashboards find the schemas of the search path.
const IN_PATH: &str = "quote_ident(table_schema) IN (
    SELECT CASE WHEN trim(s[i]) = '\"$user\"' THEN user ELSE trim(s[i]) END
    FROM generate_series(
        array_lower(string_to_array(current_setting('search_path'), ','), 1),
        array_upper(string_to_array(current_setting('search_path'), ','), 1)) AS i,
    string_to_array(current_setting('search_path'), ',') s)";

#[test]
fn dashboards_of_grafana_find_tables_and_columns() {
    assert_eq!(rows("SELECT current_setting('server_version_num')::int/100 AS version"), ["1500"]);
    assert!(rows("SELECT extversion FROM pg_extension WHERE extname = 'timescaledb'").is_empty());
    let schemas = "SELECT schema_name AS \"name\" FROM information_schema.schemata
        WHERE schema_name NOT IN ('information_schema', 'pg_catalog') ORDER BY schema_name";
    assert_eq!(
        (columns(schemas), rows(schemas)),
        (vec!["name".to_owned()], vec!["public".to_owned()])
    );
    let tables = format!(
        "SELECT CASE WHEN {IN_PATH} THEN quote_ident(table_name)
             ELSE quote_ident(table_schema) || '.' || quote_ident(table_name) END AS \"table\"
         FROM information_schema.tables
         WHERE quote_ident(table_schema) NOT IN ('information_schema', 'pg_catalog')
         ORDER BY CASE WHEN {IN_PATH} THEN 0 ELSE 1 END, 1"
    );
    assert!(rows(&tables).contains(&"adult".to_owned()), "{:?}", rows(&tables));
    let of_adult = format!(
        "SELECT quote_ident(column_name) AS \"column\", data_type AS \"type\" FROM information_schema.columns
         WHERE CASE WHEN array_length(parse_ident('adult'), 1) = 2
             THEN quote_ident(table_schema) = (parse_ident('adult'))[1]
                 AND quote_ident(table_name) = (parse_ident('adult'))[2]
             ELSE quote_ident(table_name) = 'adult' AND {IN_PATH} END"
    );
    assert_eq!(columns(&of_adult), ["column", "type"]);
    assert!(rows(&of_adult).contains(&"age|bigint".to_owned()), "{:?}", rows(&of_adult));
}

#[test]
fn dbeaver_reads_its_tree() {
    for (sql, some) in [
        ("SELECT current_schema(), session_user", Some("public|lab")),
        ("SELECT db.oid, db.* FROM pg_catalog.pg_database db WHERE datallowconn AND NOT datistemplate", Some("|hushql|")),
        (
            "SELECT n.oid, n.*, d.description FROM pg_catalog.pg_namespace n LEFT OUTER JOIN pg_catalog.pg_description d
             ON d.objoid = n.oid AND d.objsubid = 0 AND d.classoid = 'pg_namespace'::regclass ORDER BY nspname",
            Some("2200|2200|public|"),
        ),
        (
            "SELECT t.oid, t.*, c.relkind, format_type(nullif(t.typbasetype, 0), t.typtypmod) AS base_type_name, d.description
             FROM pg_catalog.pg_type t LEFT OUTER JOIN pg_catalog.pg_type et ON et.oid = t.typelem
             LEFT OUTER JOIN pg_catalog.pg_class c ON c.oid = t.typrelid
             LEFT OUTER JOIN pg_catalog.pg_description d ON t.oid = d.objoid
             WHERE t.typname IS NOT NULL AND (c.relkind IS NULL OR c.relkind = 'c')
                 AND (et.typcategory IS NULL OR et.typcategory <> 'C')",
            Some("20|20|int8|"),
        ),
        (
            "SELECT c.oid, c.*, d.description, pg_catalog.pg_get_expr(c.relpartbound, c.oid) AS partition_expr,
                 pg_catalog.pg_get_partkeydef(c.oid) AS partition_key
             FROM pg_catalog.pg_class c LEFT OUTER JOIN pg_catalog.pg_description d
                 ON d.objoid = c.oid AND d.objsubid = 0 AND d.classoid = 'pg_class'::regclass
             WHERE c.relnamespace = 2200 AND c.relkind NOT IN ('i', 'I', 'c')",
            Some("|adult|2200|"),
        ),
        (
            "SELECT c.relname, a.*, pg_catalog.pg_get_expr(ad.adbin, ad.adrelid, true) AS def_value, dsc.description, dep.objid
             FROM pg_catalog.pg_attribute a INNER JOIN pg_catalog.pg_class c ON (a.attrelid = c.oid)
             LEFT OUTER JOIN pg_catalog.pg_attrdef ad ON (a.attrelid = ad.adrelid AND a.attnum = ad.adnum)
             LEFT OUTER JOIN pg_catalog.pg_description dsc ON (c.oid = dsc.objoid AND a.attnum = dsc.objsubid)
             LEFT OUTER JOIN pg_depend dep ON dep.refobjid = a.attrelid AND dep.deptype = 'i'
                 AND dep.refobjsubid = a.attnum AND dep.classid = dep.refclassid
             WHERE NOT a.attisdropped AND c.relkind NOT IN ('i', 'I', 'c') AND c.relname = 'adult' ORDER BY a.attnum",
            Some("|age|20|"),
        ),
        (
            "SELECT c.oid, c.*, t.relname AS tabrelname, rt.relnamespace AS refnamespace, d.description,
                 CASE WHEN c.contype = 'c' THEN \"substring\"(pg_get_constraintdef(c.oid), 7) ELSE NULL END consrc_copy
             FROM pg_catalog.pg_constraint c INNER JOIN pg_catalog.pg_class t ON t.oid = c.conrelid
             LEFT OUTER JOIN pg_catalog.pg_class rt ON rt.oid = c.confrelid
             LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = c.oid AND d.classoid = 'pg_constraint'::regclass
             WHERE c.conrelid = 5 ORDER BY c.oid",
            None,
        ),
        (
            "SELECT i.*, i.indkey AS keys, c.relname, pg_catalog.pg_relation_size(i.indexrelid) AS index_rel_size
             FROM pg_catalog.pg_index i INNER JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = 5",
            None,
        ),
        ("SELECT a.oid, a.* FROM pg_catalog.pg_roles a ORDER BY a.rolname", Some("|owner|t|")),
        ("SELECT * FROM pg_catalog.pg_settings WHERE name = 'max_index_keys'", Some("max_index_keys|32|")),
        ("SELECT 1 FROM pg_catalog.pg_enum WHERE 1<>1 LIMIT 1", None),
        ("SELECT p.oid AS poid, p.* FROM pg_catalog.pg_proc p WHERE p.pronamespace = 2200 ORDER BY p.proname", None),
        ("SELECT * FROM information_schema.table_privileges WHERE table_catalog = 'hushql' AND grantee = 'lab'", Some("owner|lab|hushql|public|adult|SELECT")),
    ] {
        let found = rows(sql);
        match some {
            Some(some) => assert!(found.iter().any(|row| row.contains(some)), "{sql}\n{found:?}"),
            None => assert_eq!(found, [""; 0], "{sql}"),
        }
    }
}

#[test]
fn drivers_ask_about_types_and_keys() {
    // The number of a row within its table, which JDBC uses to count columns.
    let numbered = "SELECT * FROM (SELECT n.nspname, c.relname, a.attname,
            row_number() OVER (PARTITION BY a.attrelid ORDER BY a.attnum) AS attnum, nullif(a.attidentity, '') AS identity
        FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_class c ON (c.relnamespace = n.oid)
        JOIN pg_catalog.pg_attribute a ON (a.attrelid = c.oid)
        WHERE c.relkind IN ('r', 'v') AND a.attnum > 0 AND c.relname LIKE 'adul_') c
        WHERE true ORDER BY nspname, c.relname, attnum";
    assert_eq!(rows(numbered)[0], "public|adult|id|1|NULL");
    let ranks = "SELECT n, rank() OVER (ORDER BY n) AS r, dense_rank() OVER (ORDER BY n DESC) AS d,
            rank() OVER (PARTITION BY n ORDER BY n) AS p, row_number() OVER (ORDER BY n) AS k, rank() OVER () AS a
        FROM pg_am, unnest(ARRAY[7, 3, 7, 9, NULL]) AS t(n) WHERE amname = 'heap' ORDER BY k";
    let expected = ["3|1|4|1|1|1", "7|2|3|1|2|1", "7|2|3|1|3|1", "9|4|2|1|4|1", "NULL|5|1|1|5|1"];
    assert_eq!(rows(ranks), expected);
    let keys = "SELECT pka.attname, pos.n AS key_seq FROM pg_catalog.pg_attribute pka, pg_catalog.pg_constraint con,
        pg_catalog.generate_series(1, 32) pos(n) WHERE pka.attnum = con.confkey[pos.n] AND con.contype = 'f'";
    assert_eq!(
        (columns(keys), rows(keys).len()),
        (vec!["attname".to_owned(), "key_seq".to_owned()], 0)
    );
    // Related types, as asyncpg looks them up.
    let tree = "WITH RECURSIVE tree(oid, name, elem, depth) AS (
            SELECT t.oid, t.typname, t.typelem, 0 FROM pg_type t WHERE t.oid = ANY('{1016}'::oid[])
            UNION ALL
            SELECT t.oid, t.typname, t.typelem, tree.depth + 1 FROM pg_type t, tree WHERE tree.elem = t.oid)
        SELECT DISTINCT *, name::text AS shown, (SELECT count(*) FROM pg_type x WHERE x.typelem = tree.oid) AS arrays
        FROM tree ORDER BY depth DESC";
    assert_eq!(rows(tree), ["20|int8|0|1|int8|1", "1016|_int8|20|0|_int8|0"]);
    let agg = "SELECT n.nspname, array_agg(t.typname ORDER BY t.typname) AS names, count(*) FROM pg_type t
        JOIN pg_namespace n ON n.oid = t.typnamespace WHERE t.typname ~ '^int[48]$' GROUP BY 1 HAVING count(*) > 1";
    assert_eq!(rows(agg), ["pg_catalog|{int4,int8}|2"]);
    assert_eq!(rows("SELECT 'adult'::regclass, 20::regtype::text"), ["adult|bigint"]);
    assert_eq!(
        rows("SELECT relname FROM pg_class WHERE oid = 'public.adult'::regclass"),
        ["adult"]
    );
    assert_eq!(
        rows("SELECT nspname FROM pg_namespace ORDER BY 1 LIMIT 1 OFFSET 1"),
        ["pg_catalog"]
    );
}

#[test]
fn what_names_another_table_is_the_engines() {
    for sql in [
        "SELECT count(*) FROM (SELECT 1 FROM pg_type) x, adult",
        "SELECT count(*) FROM pg_class a, (SELECT * FROM adult) b",
        "SELECT 1 FROM pg_class WHERE EXISTS (SELECT 1 FROM adult)",
        "SELECT (SELECT max(age) FROM adult) FROM pg_class",
        "WITH pg_class AS (SELECT * FROM adult) SELECT * FROM pg_class",
        "WITH a AS (SELECT * FROM adult) SELECT 1 FROM pg_class",
        "SELECT 1 FROM pg_type UNION ALL SELECT age FROM adult",
        "SELECT relname FROM pg_class LEFT JOIN adult ON true",
        "SELECT version() FROM adult",
        "SELECT age, current_user FROM adult",
        "SELECT * FROM public.pg_class",
        "SELECT 1",
        "SELECT 'pg_class'",
        "SELECT 1 FROM pg_class; SELECT 1 FROM pg_type",
        "DELETE FROM pg_class",
        "SELECT * INTO x FROM pg_class",
    ] {
        assert!(with_room(|| compiled(&world(), sql, &[], &Met::default()).is_err()), "{sql}");
    }
    assert!(answered("SELECT pg_nothing FROM pg_class").is_none());
}

#[test]
fn what_takes_too_long_has_no_answer() {
    for sql in [
        "SELECT 1 FROM pg_type a, pg_type b, pg_type c, pg_type d, pg_type e".to_owned(),
        "SELECT count(*) FROM generate_series(1, 100000000000) x, pg_class".to_owned(),
        "WITH RECURSIVE t(n) AS (SELECT 1 FROM pg_am UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t".to_owned(),
        "SELECT pg_read_file('/etc/passwd')".to_owned(),
        format!("SELECT current_user{}", "||1".repeat(15_000)),
        format!("SELECT version() WHERE {}1{}", "(".repeat(15_000), ")".repeat(15_000)),
        format!("SELECT version() WHERE {}true", "NOT ".repeat(15_000)),
        format!("SELECT 1 FROM pg_class WHERE relname ~ '{}'", "(a*)*".repeat(1_000)),
    ] {
        let begin: String = sql.chars().take(80).collect();
        assert!(answered(&sql).is_none(), "{begin}");
    }
}

#[test]
fn parameters_have_the_types_of_what_they_are_compared_with() {
    for (sql, expected) in [
        ("oid = $1 AND relname <> $2", vec![Some(kinds::OID), Some(kinds::NAME)]),
        ("$2 < relnatts AND (($1)) = relispartition", vec![Some(kinds::BOOL), Some(kinds::INT2)]),
        ("oid = ANY($1) OR relname = ANY($2)", vec![Some(kinds::OIDS), Some(kinds::NAMES)]),
        ("relkind = ANY($1) AND relname LIKE $2", vec![Some(kinds::TEXTS)]),
        ("relnatts BETWEEN $1 AND $3", vec![Some(kinds::INT2), None, Some(kinds::INT2)]),
        ("oid IN ($2, 5)", vec![None, Some(kinds::OID)]),
        ("$1 = $2 AND relkind = $1", vec![]),
    ] {
        let (met, values) = (Met::default(), ["x"; 3].map(hushql::Value::from));
        let sql = format!("SELECT 1 FROM pg_class WHERE {sql}");
        with_room(|| compiled(&world(), &sql, &values, &met)).unwrap();
        assert_eq!(met.types(), expected, "{sql}");
    }
}

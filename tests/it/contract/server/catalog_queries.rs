//! What tools read of PostgreSQL's catalog, and the settings and transactions that they expect.

use super::client::{Client, error_code, texts};
use super::{COUNT, PASSWORD, Served};

/// The numbers of types.
const BOOL: u32 = 16;
const CHAR: u32 = 18;
const NAME: u32 = 19;
const INT8: u32 = 20;
const INT2: u32 = 21;
const INT4: u32 = 23;
const TEXT: u32 = 25;
const OID: u32 = 26;
const TIMESTAMPTZ: u32 = 1184;

fn kinds(client: &mut Client, sql: &str) -> Vec<u32> {
    let said = client.query(sql);
    assert_eq!(said.error_field(b'M'), None, "{sql}");
    said.columns().into_iter().map(|(_, kind)| kind).collect()
}

#[test]
fn columns_of_the_catalog_have_the_types_of_postgresql() {
    let served = Served::with(&[]);
    let mut lab = served.lab();
    for (sql, types) in [
        (
            "SELECT oid, relname, relkind, relnatts, relhasindex FROM pg_class",
            vec![OID, NAME, CHAR, INT2, BOOL],
        ),
        (
            "SELECT count(*), max(attnum), array_agg(attname) FROM pg_attribute",
            vec![INT8, INT2, 1003],
        ),
        ("SELECT current_schemas(true), current_database(), now()", vec![1003, NAME, TIMESTAMPTZ]),
        ("SELECT backend_start, pid, query FROM pg_stat_activity", vec![TIMESTAMPTZ, INT4, TEXT]),
        ("SELECT ordinal_position, column_name FROM information_schema.columns", vec![INT4, NAME]),
        ("SELECT relacl, reloptions, reltuples FROM pg_class", vec![1034, 1009, 700]),
        ("SELECT proargtypes, proname FROM pg_proc", vec![30, NAME]),
        (
            "SELECT 1, 5000000000, 'a', CASE WHEN true THEN 1 END FROM pg_am",
            vec![INT4, INT8, TEXT, INT4],
        ),
    ] {
        assert_eq!(kinds(&mut lab, sql), types, "{sql}");
    }
    // A row within brackets, and two tables that are joined with each other first.
    for (sql, types) in [
        ("SELECT (aclexplode(relacl)).grantee FROM pg_class", vec![OID]),
        (
            "SELECT c.relname, i.indisunique, to_char(now(), 'YYYY-MM-DD HH24:MI') FROM pg_class c
             LEFT JOIN (pg_index i JOIN pg_am a ON a.oid = i.indexrelid) ON i.indrelid = c.oid",
            vec![NAME, BOOL, TEXT],
        ),
        (
            "SELECT CASE WHEN state = 'active'
                 THEN ROUND((EXTRACT(EPOCH FROM now() - query_start) / 60)::numeric, 2) ELSE 0 END
             FROM pg_stat_activity",
            vec![1700],
        ),
    ] {
        assert_eq!(kinds(&mut lab, sql), types, "{sql}");
    }
    // The functions of a type: Ruby reads numbers as numbers if it finds them.
    let functions =
        "SELECT t.typname, ti.proname FROM pg_type t JOIN pg_proc ti ON ti.oid = t.typinput
         WHERE t.oid IN (16, 20) AND t.typreceive <> 0 ORDER BY 1";
    assert_eq!(texts(&lab.query(functions)), [["bool", "boolin"], ["int8", "int8in"]]);
    // What postgres_exporter reads: rows of zeros, and settings that are numbers.
    let counted = "SELECT checkpoints_timed, buffers_alloc FROM pg_stat_bgwriter";
    assert_eq!(texts(&lab.query(counted)), [["0", "0"]]);
    let settings =
        "SELECT setting FROM pg_settings WHERE vartype = 'integer' AND name = 'server_version_num'";
    assert_eq!(texts(&lab.query(settings)), [["150000"]]);
    // Numbers of users' objects, as some tools tell them from the system's.
    let numbers = lab.query("SELECT oid FROM pg_class UNION ALL SELECT oid FROM pg_database");
    assert!(texts(&numbers).iter().all(|row| row[0].parse::<u32>().unwrap() >= 16_384));
    // In binary, as drivers ask for them.
    lab.parse(
        "",
        "SELECT oid, typname, current_schemas(false) AS path FROM pg_type WHERE oid = 20",
        &[],
    );
    lab.bind("", "", &[], &[1]);
    lab.execute("", 0);
    let rows = lab.sync().rows();
    let path = [1_u32, 0, 19, 1, 1, 6].map(u32::to_be_bytes).concat();
    let expected =
        [20_u32.to_be_bytes().to_vec(), b"int8".to_vec(), [path, b"public".to_vec()].concat()];
    assert_eq!(rows, [expected.map(Some)]);
    // The table and the column of what is selected.
    let said = lab.query("SELECT c.relname, c.oid, upper(c.relname) FROM pg_class c");
    assert_eq!(said.origins(), [(1259, 2), (1259, 1), (0, 0)]);
}

#[test]
fn shapes_of_tools_are_answered() {
    let served = Served::with(&[]);
    let mut lab = served.lab();
    for (sql, rows) in [
        // psql and pgAdmin.
        (
            "SELECT relname FROM pg_class WHERE relname OPERATOR(pg_catalog.~) '^(people)$' COLLATE pg_catalog.default",
            vec!["people"],
        ),
        (
            "SELECT c.relname FROM pg_class c WHERE c.tableoid = 'pg_class'::regclass AND c.relkind = 'r'",
            vec!["people"],
        ),
        ("SELECT count(ctid) = count(xmin) FROM pg_namespace", vec!["t"]),
        (
            "SELECT set_config('bytea_output', 'hex', false) FROM pg_show_all_settings() WHERE name = 'bytea_output'",
            vec!["hex"],
        ),
        ("SELECT a.privilege_type FROM pg_class c, LATERAL aclexplode(c.relacl) a", vec!["SELECT"]),
        (
            "SELECT n.nspname FROM pg_namespace n WHERE n.nspname = 'public' AND NOT pg_is_other_temp_schema(n.oid)",
            vec!["public"],
        ),
        (
            "SELECT pg_cancel_backend(1), pg_typeof(1), pg_typeof(oid) FROM pg_am WHERE amname = 'heap'",
            vec!["f|integer|oid"],
        ),
        // Numbered and several arrays at once.
        (
            "SELECT a, n FROM unnest(ARRAY['x', 'y']) WITH ORDINALITY AS t(a, n), pg_am WHERE amname = 'heap'",
            vec!["x|1", "y|2"],
        ),
        (
            "SELECT a, b FROM pg_am, unnest(ARRAY[1, 2], ARRAY['x']) AS t(a, b) WHERE amname = 'heap'",
            vec!["1|x", "2|"],
        ),
        ("SELECT unnest(current_schemas(true))", vec!["pg_catalog", "public"]),
        // Names of types and tables in PostgreSQL's own words.
        (
            "SELECT 'int4'::regtype::text, 'int4'::regtype, '\"people\"'::regclass::text, 'pg_catalog.pg_class'::regclass FROM pg_am WHERE amname = 'heap'",
            vec!["integer|integer|people|pg_class"],
        ),
        // Ranks, by which RPostgres takes the columns of the first schema that has a table.
        (
            "SELECT n, rank() OVER (ORDER BY n), dense_rank() OVER (ORDER BY n DESC), rank() OVER (PARTITION BY n) FROM pg_am, unnest(ARRAY[7, 3, 7, 9]) AS t(n) WHERE amname = 'heap' ORDER BY n",
            vec!["3|1|3|1", "7|2|2|1", "7|2|2|1", "9|4|1|1"],
        ),
        (
            "SELECT column_name FROM (SELECT *, rank() OVER (ORDER BY nr) AS rnr FROM (SELECT * FROM unnest(current_schemas(true)) WITH ORDINALITY AS tbl(table_schema, nr) WHERE table_schema != 'pg_catalog') schemas INNER JOIN INFORMATION_SCHEMA.COLUMNS USING (table_schema) WHERE table_name = 'people') found WHERE rnr = 1 ORDER BY ordinal_position LIMIT 1",
            vec!["id"],
        ),
        // Joins, and the first row of each group.
        (
            "SELECT a.amname, n.nspname FROM pg_am a FULL JOIN pg_namespace n ON n.oid = a.oid ORDER BY 1, 2",
            vec!["btree|", "heap|", "|information_schema", "|pg_catalog", "|public"],
        ),
        (
            "SELECT DISTINCT ON (typcategory) typcategory, typname FROM pg_type WHERE typname IN ('int2', 'int8', 'bool') ORDER BY typcategory, typname DESC",
            vec!["B|bool", "N|int8"],
        ),
        // JSON of rows.
        (
            "SELECT row_to_json(t) FROM (SELECT amname, 1 AS n FROM pg_am WHERE amname = 'heap') t",
            vec!["{\"amname\":\"heap\",\"n\":1}"],
        ),
        ("SELECT json_agg(amname ORDER BY amname) FROM pg_am", vec!["[\"btree\",\"heap\"]"]),
        (
            "SELECT format('%I.%s', 'My Table', 1), quote_ident('My Table'), format('%L', 'it''s')",
            vec!["\"My Table\".1|\"My Table\"|'it''s'"],
        ),
        (
            "SELECT '\"char\"'::regtype, 'timestamp with time zone'::regtype::oid",
            vec!["\"char\"|1184"],
        ),
        ("SELECT count(*) FILTER (WHERE typname LIKE 'int_') FROM pg_type", vec!["3"]),
        (
            "SELECT x FROM pg_am, generate_series(1, 5, 2) x WHERE amname = 'heap'",
            vec!["1", "3", "5"],
        ),
        // Relations that are empty here.
        ("SELECT count(*) FROM pg_policies", vec!["0"]),
        ("SELECT count(*) FROM pg_stats", vec!["0"]),
        ("SELECT count(*) FROM pg_statio_user_tables", vec!["0"]),
        ("SELECT count(*) FROM information_schema.element_types", vec!["0"]),
        ("SELECT count(*) FROM information_schema.usage_privileges", vec!["0"]),
        (
            "SELECT name, abbrev, utc_offset, is_dst FROM pg_timezone_names WHERE name IN ('Asia/Kolkata', 'UTC', 'Etc/GMT+3') ORDER BY name",
            vec!["Asia/Kolkata|IST|05:30:00|f", "Etc/GMT+3|-03|-03:00:00|f", "UTC|UTC|00:00:00|f"],
        ),
        ("SELECT count(*) > 400 FROM pg_timezone_names()", vec!["t"]),
        ("SELECT abbrev FROM pg_timezone_abbrevs", vec!["UTC"]),
        // The words that PgJDBC and pgAdmin put into quotes.
        (
            "SELECT word, catcode, catdesc FROM pg_get_keywords() WHERE word IN ('select', 'day') ORDER BY 1",
            vec!["day|U|unreserved", "select|R|reserved"],
        ),
        (
            "SELECT string_agg(word, ',') FROM pg_catalog.pg_get_keywords() WHERE word <> ALL ('{select,from}'::text[]) AND catcode = 'R' AND word LIKE 'w%'",
            vec!["when,where,window,with"],
        ),
        // Truth values by every spelling, also where rows are found by an index.
        (
            "SELECT typname FROM pg_type WHERE typname = 'bool' AND typbyval = 'yes' AND typisdefined IN ('true')",
            vec!["bool"],
        ),
        (
            "SELECT c.relname FROM (SELECT 'true' AS flag FROM pg_am WHERE amname = 'heap') f JOIN pg_class c ON c.relispopulated = f.flag",
            vec!["people"],
        ),
        ("SELECT proname FROM pg_proc WHERE proname = 'int8recv'", vec!["int8recv"]),
    ] {
        let said = lab.query(sql);
        assert_eq!(said.error_field(b'M'), None, "{sql}");
        let found: Vec<String> = texts(&said).iter().map(|row| row.join("|")).collect();
        assert_eq!(found, rows, "{sql}");
    }
}

/// Lists are arrays: in answers, in both formats, and as columns of tables and views.
#[test]
fn lists_are_arrays() {
    let served = Served::with(&[]);
    served
        .study
        .write("tags.csv", "id,city,fee,day\n1,a b,0.5,2020-01-02\n2,c,1.5,2020-01-03\n3,,2,\n");
    served
        .study
        .owner(
            "CREATE EXTERNAL TABLE tags (id INT, city VARCHAR, fee DECIMAL(4, 2), day DATE) STORED AS CSV LOCATION 'tags.csv';
             ALTER TABLE tags SET PUBLIC;
             CREATE VIEW gathered AS SELECT array_agg(id ORDER BY id) AS ids, array_agg(city ORDER BY id) AS cities, COUNT(*) AS n FROM tags",
        )
        .says(0, &[]);
    let mut lab = served.lab();
    let lists = "SELECT array_agg(id ORDER BY id) AS i, array_agg(city ORDER BY id) AS c, array_agg(fee ORDER BY id) AS f, array_agg(day ORDER BY id) AS d, array_agg(id > 1 ORDER BY id) AS b FROM tags";
    let said = lab.query(lists);
    let kinds: Vec<u32> = said.columns().into_iter().map(|(_, kind)| kind).collect();
    assert_eq!(kinds, [1007, 1009, 1231, 1182, 1000], "{said:?}");
    assert_eq!(
        texts(&said),
        [[
            "{1,2,3}",
            "{\"a b\",c,NULL}",
            "{0.50,1.50,2.00}",
            "{2020-01-02,2020-01-03,NULL}",
            "{f,t,t}"
        ]]
    );
    assert_eq!(
        lab.query(&format!("COPY ({lists}) TO STDOUT")).copied().split('\t').next(),
        Some("{1,2,3}")
    );
    // In binary: dimensions, NULLs, type, length, first number; then each element with its length.
    lab.parse("", lists, &[]);
    lab.bind("", "", &[], &[1]);
    lab.execute("", 0);
    let row = lab.sync().rows().remove(0);
    let numbers =
        |numbers: &[i32]| numbers.iter().flat_map(|n| n.to_be_bytes()).collect::<Vec<u8>>();
    assert_eq!(row[0].as_deref(), Some(&*numbers(&[1, 0, 23, 3, 1, 4, 1, 4, 2, 4, 3])));
    let day = numbers(&[1, 1, 1082, 3, 1, 4, 7306, 4, 7307, -1]);
    assert_eq!(row[3].as_deref(), Some(day.as_slice()));
    let text = [
        numbers(&[1, 1, 25, 3, 1, 3]),
        b"a b".to_vec(),
        numbers(&[1]),
        b"c".to_vec(),
        numbers(&[-1]),
    ];
    assert_eq!(row[1].as_deref(), Some(text.concat().as_slice()));
    let none = "SELECT array_agg(id) AS i FROM tags WHERE id > 9";
    assert_eq!(lab.query(none).rows(), [[None]]);
    for (sql, rows) in [
        (
            "SELECT column_name, data_type, udt_name, dtd_identifier FROM information_schema.columns WHERE table_name = 'gathered' ORDER BY ordinal_position",
            vec!["ids|ARRAY|_int4|1", "cities|ARRAY|_text|2", "n|bigint|int8|3"],
        ),
        (
            "SELECT e.object_name, c.column_name, e.data_type, e.udt_name FROM information_schema.columns c JOIN information_schema.element_types e ON (c.table_catalog, c.table_schema, c.table_name, 'TABLE', c.dtd_identifier) = (e.object_catalog, e.object_schema, e.object_name, e.object_type, e.collection_type_identifier) ORDER BY 2",
            vec!["gathered|cities|text|text", "gathered|ids|integer|int4"],
        ),
        (
            "SELECT format_type(atttypid, atttypmod), attndims FROM pg_attribute WHERE attrelid = 'gathered'::regclass ORDER BY attnum",
            vec!["integer[]|1", "text[]|1", "bigint|0"],
        ),
        // The digits of numbers, as PostgreSQL 15 describes them.
        (
            "SELECT column_name, numeric_precision, numeric_precision_radix, numeric_scale, datetime_precision FROM information_schema.columns WHERE table_name = 'tags' ORDER BY ordinal_position",
            vec!["id|32|2|0|", "city||||", "fee|4|10|2|", "day||||0"],
        ),
    ] {
        let said = lab.query(sql);
        assert_eq!(said.error_field(b'M'), None, "{sql}");
        let found: Vec<String> = texts(&said).iter().map(|row| row.join("|")).collect();
        assert_eq!(found, rows, "{sql}");
    }
}

#[test]
fn what_the_catalog_does_not_know_is_named() {
    let served = Served::with(&[]);
    let mut lab = served.lab();
    for (sql, code, word) in [
        ("SELECT relnamme FROM pg_class", "42703", "relnamme"),
        ("SELECT pg_no_such_thing(oid) FROM pg_class", "42883", "pg_no_such_thing"),
        ("SELECT 1 FROM pg_class JOIN nowhere ON true", "42P01", "nowhere"),
        ("SELECT count(*) FROM pg_class, people", "0A000", "people"),
        ("SELECT 1 FROM pg_class WHERE oid = 'nowhere'::regclass", "42P01", "nowhere"),
        ("SELECT 1 FROM pg_type WHERE oid = 'mood'::regtype", "42704", "mood"),
        ("SELECT current_setting('no_such')", "42704", "no_such"),
        ("SELECT 1 FROM pg_type a, pg_type b, pg_type c, pg_type d", "54001", "steps"),
    ] {
        let said = lab.query(sql);
        assert_eq!(error_code(&said).as_deref(), Some(code), "{sql}");
        let message = said.error_field(b'M').unwrap();
        assert!(message.contains(word) && !message.contains("no table pg_"), "{sql}: {message}");
    }
    // System columns belong to the catalog alone.
    for column in ["ctid", "xmin", "tableoid"] {
        assert_eq!(
            error_code(&lab.query(&format!("SELECT {column} FROM people"))).as_deref(),
            Some("42703")
        );
    }
    drop(lab);
    let sentences = served.study.run(&["doctor", "study.db"]);
    sentences
        .says(0, &["did not answer tests", "pg_no_such_thing", "select relnamme from pg_class"]);
}

#[test]
fn a_client_sees_its_own_session_alone() {
    let served = Served::with(&[]);
    let mut lab = served.lab();
    let mut other = served.lab();
    let sql = "SELECT pid = pg_backend_pid(), application_name FROM pg_stat_activity";
    assert_eq!(texts(&lab.query(sql)), [["t", "tests"]]);
    let own = texts(&lab.query("SELECT pg_backend_pid()"))[0][0].clone();
    let cancelled =
        other.query(&format!("SELECT pg_cancel_backend({own}), pg_terminate_backend({own})"));
    assert_eq!(texts(&cancelled), [["f", "f"]]);
    assert_eq!(texts(&lab.query("SELECT 1 FROM pg_am LIMIT 1")), [["1"]]);
}

#[test]
fn settings_are_taken() {
    let served = Served::with(&[]);
    let mut lab = served.lab();
    for sql in [
        "SET work_mem = '64MB'",
        "SET lock_timeout TO 5000",
        "SET idle_in_transaction_session_timeout = 0",
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
        "SET myapp.user = 'me'",
        "SET client_encoding TO 'utf-8'",
        "SET statement_timeout = '90s'",
        "SELECT set_config('search_path', '', false)",
    ] {
        assert_eq!(error_code(&lab.query(sql)), None, "{sql}");
    }
    assert_eq!(texts(&lab.query("SHOW work_mem")), [["64MB"]]);
    assert_eq!(texts(&lab.query("SHOW statement_timeout")), [["90s"]]);
    assert_eq!(texts(&lab.query("SHOW client_encoding")), [["UTF8"]]);
    for (sql, code) in [
        ("SET no_such_setting = 1", "42704"),
        ("SET server_version = '9'", "42704"),
        ("SET statement_timeout = 'soon'", "22023"),
        ("SET client_encoding = 'EUC_JP'", "22023"),
    ] {
        assert_eq!(error_code(&lab.query(sql)).as_deref(), Some(code), "{sql}");
    }
}

#[test]
fn clients_without_a_locale_are_served() {
    let served = Served::with(&[]);
    let settings = [("client_encoding", "SQL_ASCII")];
    let mut lab = Client::log_in_with(served.port, "lab", PASSWORD, &settings).unwrap();
    assert_eq!(texts(&lab.query("SHOW client_encoding")), [["SQL_ASCII"]]);
    assert_eq!(texts(&lab.query(COUNT)), [["4"]]);
}

/// The rows of large relations are kept until the next declaration.
#[test]
fn the_catalog_follows_declarations() {
    let served = Served::with(&[]);
    let (mut lab, mut other) = (served.lab(), served.lab());
    let owner = |sql: &str| {
        served.study.owner(sql).says(0, &[]);
    };
    let views = "SELECT relname FROM pg_class WHERE relkind = 'v'";
    let columns = "SELECT attname FROM pg_attribute WHERE attrelid = 'grown'::regclass";
    let none: Vec<Vec<String>> = Vec::new();
    assert_eq!(texts(&lab.query(views)), none);
    owner("CREATE VIEW grown AS SELECT age FROM people WHERE age >= 18");
    for client in [&mut lab, &mut other] {
        for _ in 0..2 {
            assert_eq!(texts(&client.query(views)), [["grown"]]);
            assert_eq!(texts(&client.query(columns)), [["age"]]);
        }
    }
    owner("CREATE OR REPLACE VIEW grown AS SELECT city, age FROM people WHERE age >= 18");
    assert_eq!(texts(&lab.query(columns)), [["city"], ["age"]]);
    owner("SET GRANTS REQUIRED");
    assert_eq!(texts(&lab.query(views)), none);
    assert_eq!(texts(&lab.query(columns)), none);
}

/// What an encoding lacks arrives as `?`: the answer is paid for by then.
#[test]
fn texts_come_in_the_encoding_of_the_client() {
    let served = Served::with(&[]);
    let settings = [("client_encoding", "latin1")];
    let mut lab = Client::log_in_with(served.port, "lab", PASSWORD, &settings).unwrap();
    assert_eq!(texts(&lab.query("SHOW client_encoding")), [["LATIN1"]]);
    // é is one byte here, and two in UTF-8.
    let sql = b"SELECT 'caf\xe9' AS \"prix\xe9\", 7 AS n";
    let said = lab.query_in_bytes(sql);
    assert_eq!(said.rows()[0], [Some(b"caf\xe9".to_vec()), Some(b"7".to_vec())]);
    let (_, columns) = said.0.iter().find(|(kind, _)| *kind == b'T').unwrap();
    assert!(columns.windows(5).any(|bytes| bytes == b"prix\xe9"));
    let said = lab.query_in_bytes(b"COPY (SELECT '\xe9' AS a) TO STDOUT");
    assert!(said.0.contains(&(b'd', b"\xe9\n".to_vec())));
    // So are the values of parameters, and the words of errors.
    lab.parse("", "SELECT $1 || '!'", &[25]);
    lab.bind("", "", &[(0, Some(b"\xe9"))], &[]);
    lab.execute("", 0);
    assert_eq!(lab.sync().rows()[0][0].as_deref(), Some(&b"\xe9!"[..]));
    let said = lab.query_in_bytes(b"SELECT prix\xe9 FROM people");
    assert!(said.0[0].1.windows(5).any(|bytes| bytes == b"prix\xe9"));
    lab.query("SET client_encoding = 'WIN1252'");
    let said = lab.query_in_bytes(b"SELECT '\x80' AS euro, length('\x80') AS n");
    assert_eq!(said.rows()[0], [Some(b"\x80".to_vec()), Some(b"1".to_vec())]);
    lab.query_in_bytes(b"PREPARE price AS SELECT '5 \x80' AS price, 'people' AS \"\x80\"");
    lab.query("SET client_encoding = 'ISO-8859-1'");
    let said = lab.query("EXECUTE price");
    assert_eq!(said.rows()[0], [Some(b"5 ?".to_vec()), Some(b"people".to_vec())]);
    assert!(said.columns().iter().any(|(name, _)| name == "?"));
    lab.query("RESET client_encoding");
    assert_eq!(texts(&lab.query("SELECT '€' AS euro")), [["€"]]);
}

#[test]
fn a_failed_transaction_goes_no_further() {
    let served = Served::with(&[]);
    let mut lab = served.lab();
    assert_eq!(lab.query("BEGIN").status(), Some(b'T'));
    assert_eq!(lab.query("SELECT nothing FROM people").status(), Some(b'E'));
    let said = lab.query(COUNT);
    assert_eq!((error_code(&said).as_deref(), said.status()), (Some("25P02"), Some(b'E')));
    lab.parse("", COUNT, &[]);
    assert_eq!(error_code(&lab.sync()).as_deref(), Some("25P02"));
    let said = lab.query("COMMIT");
    assert_eq!((said.tags(), said.status()), (vec!["ROLLBACK".to_owned()], Some(b'I')));
    assert_eq!(texts(&lab.query(COUNT)), [["4"]]);
    // Back to a savepoint, it goes on.
    for sql in ["BEGIN", "SAVEPOINT a", "SELECT nothing FROM people", "ROLLBACK TO a"] {
        lab.query(sql);
    }
    let said = lab.query(COUNT);
    assert_eq!((texts(&said), said.status()), (vec![vec!["4".to_owned()]], Some(b'T')));
    // Outside of a transaction, an error changes nothing.
    lab.query("ROLLBACK");
    assert_eq!(lab.query("SELECT nothing FROM people").status(), Some(b'I'));
}

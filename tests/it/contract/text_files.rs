//! Text files as programs write them: each is read right, or its owner learns what to write.

use std::path::Path;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use hushql::{Engine, Session};

use crate::contract::asked::{done, why};

fn create(path: &Path, columns: &str, options: &str) -> String {
    let path = path.display();
    format!(
        "CREATE OR REPLACE EXTERNAL TABLE t {columns} STORED AS CSV LOCATION '{path}' {options}"
    )
}

/// What a file's table holds, as a CSV text of an answer.
async fn read(owner: &Session, path: &Path, columns: &str, options: &str) -> String {
    done(owner, &create(path, columns, options)).await;
    done(owner, "ALTER TABLE t SET PUBLIC").await;
    let answer = owner.query("SELECT * FROM t").await.unwrap().to_string();
    let rows = answer.lines().filter(|line| line.starts_with('|')).skip(1);
    let cells = |row: &str| -> Vec<String> {
        row.trim_matches('|').split('|').map(|cell| cell.trim().replace("NULL", "")).collect()
    };
    rows.map(|row| cells(row).join(",")).collect::<Vec<_>>().join(" ")
}

/// Each writer's habits, with the smallest file that shows them.
#[tokio::test]
async fn files_are_read_as_their_writers_mean_them() {
    let folder = tempfile::tempdir().unwrap();
    let owner = Engine::in_memory().unwrap().owner();
    for (name, text, columns, options, expected) in [
        // pandas, with one missing value.
        (
            "a.csv",
            "id,n,b\n1,30.0,1.0\n2,,\n",
            "(id INT, n BIGINT, b BOOLEAN)",
            "",
            "1,30,true 2,,",
        ),
        // R.
        (
            "r.csv",
            "\"id\",\"n\",\"b\"\n1,1e+05,TRUE\n2,NA,NA\n",
            "(id INT, n BIGINT, b BOOLEAN)",
            "OPTIONS ('null_value' 'NA')",
            "1,100000,true 2,,",
        ),
        // The types are inferred with the options.
        (
            "r.csv",
            "\"id\",\"n\",\"b\"\n1,1e+05,TRUE\n2,NA,NA\n",
            "",
            "OPTIONS ('null_value' 'NA')",
            "1,100000.0,true 2,,",
        ),
        // Excel with a German locale.
        (
            "e.csv",
            "id;p;d\r\n1;3,50;05.01.1980\r\n2;;31.12.1990\r\n",
            "",
            "OPTIONS ('delimiter' ';', 'decimal' ',', 'date_format' '%d.%m.%Y')",
            "1,3.5,1980-01-05 2,,1990-12-31",
        ),
        // Spark.
        (
            "s.csv",
            "id,x\n1,\"say \\\"hi\\\" now\"\n2,b\n",
            "",
            "OPTIONS ('escape' '\\')",
            "1,say \"hi\" now 2,b",
        ),
        ("q.csv", "id,x\n1,5\" pipe\n2,b\n", "", "OPTIONS ('quote' '')", "1,5\" pipe 2,b"),
        ("s1.csv", "id,x\n1,'a;b'\n", "", "OPTIONS ('quote' '''')", "1,a;b"),
        ("t.tsv", "id\tx\n1\ta,b\n", "", "", "1,a,b"),
        ("c.csv", "# made\nid,x\n1,a\n# b\n2,#c\n", "", "OPTIONS ('comment' '#')", "1,a 2,#c"),
        ("d.csv", "id,d\n1, 2024-01-05 \n", "(id INT, d DATE)", "", "1,2024-01-05"),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        assert_eq!(read(&owner, &path, columns, options).await, expected, "{name} {columns}");
        // What is dumped is read the same.
        let again = done(&owner, "SHOW CREATE TABLE t").await;
        assert!(options.is_empty() || again.contains("OPTIONS"), "{again}");
    }
}

/// What cannot be read is refused, or said with an option that reads it.
#[tokio::test]
async fn a_declaration_proposes_what_to_write() {
    let folder = tempfile::tempdir().unwrap();
    let owner = Engine::in_memory().unwrap().owner();
    let path = folder.path().join("t.csv");
    for (bytes, says) in [
        (
            &b"Kunden-Nr;Geburtsdatum\n1;05.01.1980\n"[..],
            "named Kunden-Nr;Geburtsdatum: write OPTIONS ('delimiter' ';')",
        ),
        (b"id,x\n1,a,\n2,b,\n", "the header has 2 cells, and line 2 has 3 cells"),
        (b"id,x\n1,\"a\n2,\"b\n", "line 2 has an open quotation mark"),
        (b"id,x\r1,a\r2,b\r", "ends its lines with a carriage return alone"),
        (b"\xff\xfei\0d\0,\0x\0\n\0", "is UTF-16"),
        (b"BZh91AY&SY\x10\x9f", "is compressed with bzip2"),
        (b"\xfd7zXZ\0\0\x04", "is compressed with xz"),
        (b"PK\x03\x04\x14\0", "is a ZIP archive"),
    ] {
        std::fs::write(&path, bytes).unwrap();
        let refused = why(&owner, &create(&path, "", "")).await;
        assert!(refused.contains(says) && refused.contains("t.csv"), "{refused}");
    }
    for (text, columns, says) in [
        (
            "id,n\n1,NA\n2,5\n",
            "",
            "the cells of n look like numbers or NA: OPTIONS ('null_value' 'NA') reads them",
        ),
        ("id,p\n1,\"3,50\"\n", "", "OPTIONS ('decimal' ',') reads them"),
        ("id,d\n1,31.12.1990\n", "", "OPTIONS ('date_format' '%d.%m.%Y') reads them"),
        (
            "id,d\n1,31.12.1990\n",
            "(id INT, d DATE)",
            "OPTIONS ('date_format' '%d.%m.%Y') reads them",
        ),
        ("id,d\n1,31.12.1990\n", "(id INT, d VARCHAR)", ""),
        ("id,d\n1,31.12.1990\n", "(id INT, d BIGINT)", ""),
        ("id,d\n1,2.5\n", "", ""),
    ] {
        std::fs::write(&path, text).unwrap();
        let said = done(&owner, &create(&path, columns, "")).await;
        assert!(said.contains(says), "{said}");
        assert_eq!(said.matches("look like").count(), usize::from(!says.is_empty()), "{said}");
    }
}

/// STRICT refuses what is not read as declared, with the file, the column, the line and the value.
/// It is checked by declarations; in a query, such a cell is NULL.
#[tokio::test]
async fn a_strict_table_is_read_as_declared() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    let whole = "id,n,d\n1,5,2024-01-05\n2,,\n";
    let cell = "1 of 2 cells of t.n is not BIGINT: read as NULL. The first is `A7` in line 3";
    let date = "1 of 1 cells of t.d is not DATE: read as NULL. The first is `soon` in line 2";
    let ragged = "1 line of t with another number of cells than its 3 columns";
    for (text, says) in [
        ("id,n,d\n1,5,2024-01-05\n2,A7,\n", cell),
        ("id,n,d\n1,5,soon\n", date),
        ("id,n,d\n1,5,2024-01-05\n2,5\n", ragged),
        ("id,n,d\n1,5,\n2,\"5,\n", "1 line of t with an open quotation mark"),
    ] {
        let columns = "(id BIGINT, n BIGINT, d DATE)";
        for unit in ["PRIVACY UNIT (id)", "PRIVACY UNIT ROW", "PUBLIC"] {
            let owner = Engine::in_memory().unwrap().owner();
            // The file is as declared, and then another one is in its place.
            std::fs::write(&path, whole).unwrap();
            let options = "OPTIONS ('content_hash' 'false')";
            done(&owner, &create(&path, columns, options)).await;
            done(&owner, "ALTER TABLE t SET STRICT").await;
            let created = done(&owner, "SHOW CREATE TABLE t").await;
            assert!(created.contains("'strict' 'true'"), "{created}");
            done(&owner, &format!("ALTER TABLE t SET {unit}")).await;
            done(&owner, "ALTER TABLE t REFRESH").await;
            std::fs::write(&path, text).unwrap();
            for statement in ["REFRESH", "SET STRICT", &format!("SET {unit}")] {
                let refused = why(&owner, &format!("ALTER TABLE t {statement}")).await;
                let is_changed = refused.contains("was changed since");
                assert!(is_changed || refused.contains("t is STRICT"), "{statement}: {refused}");
                assert!(is_changed || refused.contains(says), "{statement}: {refused}");
                assert!(is_changed || refused.contains("t.csv"), "{statement}: {refused}");
                assert!(is_changed || refused.contains("TABLE t DROP STRICT"), "{refused}");
            }
            // Before the first unit, nothing but strictness can refuse the file.
            let create = create(&path, columns, "OPTIONS ('strict' 'true')");
            let refused = why(&owner, &create).await;
            assert!(refused.contains(says) && refused.contains("t.csv"), "{refused}");
            assert!(refused.contains("without the option `strict`"), "{refused}");
            let history = owner.execute("SHOW PRIVACY HISTORY").await.unwrap();
            let history = format!("{history:?}");
            assert!(!history.contains("A7") && !history.contains("soon"), "{history}");
        }
    }
    let owner = Engine::in_memory().unwrap().owner();
    done(&owner, &create(&path, "", "")).await;
    let refused = why(&owner, "ALTER TABLE t SET STRICT").await;
    assert!(refused.contains("with an open quotation mark"), "{refused}");
    // There is no strictness to drop.
    assert!(refused.contains("the table stays as it was"), "{refused}");
    assert!(!refused.contains("DROP STRICT"), "{refused}");
    done(&owner, "ALTER TABLE t SET PUBLIC").await;
    std::fs::write(&path, whole).unwrap();
    done(&owner, "ALTER TABLE t SET STRICT").await;
    std::fs::write(&path, "id,n,d\n1,A7,2024-01-05\n").unwrap();
    // A query reads what it can.
    let answer = owner.query("SELECT n FROM t WHERE id = 1").await.unwrap().to_string();
    assert!(answer.contains("NULL") && !answer.contains("A7"), "{answer}");
    done(&owner, "ALTER TABLE t DROP STRICT").await;
    done(&owner, "ALTER TABLE t REFRESH").await;
    let refused = why(&owner, &create(&path, "", "OPTIONS ('strict' 'maybe')")).await;
    assert!(refused.contains("strict is true or false, not maybe"), "{refused}");
}

/// What the tail of a file contradicts is told with the type that reads the whole column.
#[tokio::test]
async fn a_declaration_names_the_type_of_all_rows() {
    let folder = tempfile::tempdir().unwrap();
    let owner = Engine::in_memory().unwrap().owner();
    let path = folder.path().join("t.csv");
    let rows: String = (0..10_000).map(|i| format!("{i},2024-01-05,{i}\n")).collect();
    for (last, told, columns) in [
        (
            "1,2024-01-05,2.5",
            "of t.n is not BIGINT: read as NULL. The first is `2.5` in line 10,002: declare DOUBLE",
            "(id BIGINT, d DATE, n DOUBLE)",
        ),
        (
            "1,2024-01-05,99999999999999999999",
            ": declare DECIMAL(38, 0), which reads them all",
            "(id BIGINT, d DATE, n DECIMAL(38, 0))",
        ),
        ("1,2024-01-05,A7", ": declare VARCHAR, or OPTIONS", "(id BIGINT, d DATE, n VARCHAR)"),
    ] {
        std::fs::write(&path, format!("id,d,n\n{rows}{last}\n")).unwrap();
        done(&owner, &create(&path, "", "")).await;
        let said = done(&owner, "ALTER TABLE t SET PRIVACY UNIT ROW").await;
        assert!(said.contains(told), "{said}");
        done(&owner, &create(&path, columns, "OPTIONS ('strict' 'true')")).await;
        let said = done(&owner, "ALTER TABLE t SET PRIVACY UNIT ROW").await;
        assert!(!said.contains("read as NULL"), "{said}");
    }
    // One word for a missing value is an option.
    std::fs::write(&path, format!("id,d,n\n{rows}1,2024-01-05,NA\n")).unwrap();
    done(&owner, &create(&path, "", "")).await;
    let said = done(&owner, "ALTER TABLE t SET PUBLIC").await;
    assert!(said.contains(": OPTIONS ('null_value' 'NA') reads them"), "{said}");
    done(&owner, &create(&path, "", "OPTIONS ('null_value' 'NA', 'strict' 'true')")).await;
}

/// A date leaves the time of day out, and a decimal the digits beyond its own, as in PostgreSQL.
/// The owner learns of it, and STRICT refuses it.
#[tokio::test]
async fn parts_of_cells_that_are_left_out_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let (day, fee) = (
        "2 of 4 cells of t.d have a time of day, which DATE leaves out. The first is `2024-01-05 10:30:00` in line 3: declare TIMESTAMP",
        "1 of 4 cells of t.fee is rounded to the digits of DECIMAL(6, 2). The first is `1.255` in line 4: declare DECIMAL(7, 3)",
    );
    for (format, end, text) in [
        (
            "CSV",
            "csv",
            "id,d,fee\n1,2024-01-05,1.25\n2,2024-01-05 10:30,2.500\n3,2024-01-06T00:00:00,1.255\n4,2024-01-06 23:59:59,3\n",
        ),
        (
            "JSON",
            "json",
            "\n{\"id\": 1, \"d\": \"2024-01-05\", \"fee\": 1.25}\n{\"id\": 2, \"d\": \"2024-01-05 10:30:00\", \"fee\": 2.500}\n{\"id\": 3, \"d\": \"2024-01-06T00:00:00\", \"fee\": 1.255}\n{\"id\": 4, \"d\": \"2024-01-06 23:59:59\", \"fee\": 3}\n",
        ),
    ] {
        let path = folder.path().join(format!("t.{end}"));
        std::fs::write(&path, text).unwrap();
        let engine = Engine::in_memory().unwrap();
        let owner = engine.owner();
        let create = format!(
            "CREATE EXTERNAL TABLE t (id BIGINT, d DATE, fee DECIMAL(6, 2)) STORED AS {format} LOCATION '{}'",
            path.display()
        );
        done(&owner, &create).await;
        let told = done(&owner, "ALTER TABLE t SET PUBLIC").await;
        assert!(told.contains(day) && told.contains(fee), "{told}");
        let rows = "SELECT COUNT(DISTINCT d) AS d, SUM(fee) AS fee FROM t";
        let answer = owner.query(rows).await.unwrap().to_string();
        assert!(answer.contains("8.01") && answer.contains(" 2 "), "{answer}");
        let refused = why(&owner, "ALTER TABLE t SET STRICT").await;
        assert!(refused.contains(day) && refused.contains(fee), "{refused}");
    }
}

/// The types come from the first 10,000 rows. What the tail contradicts is told where the rows are
/// read, and a unit that no row has is no unit.
#[tokio::test]
async fn a_unit_that_nobody_has_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let owner = Engine::in_memory().unwrap().owner();
    let path = folder.path().join("t.csv");
    let rows: String = (0..10_003).map(|i| format!("{i},{i}\n")).collect();
    std::fs::write(&path, format!("id,n\n{rows}\n10003,A7\n")).unwrap();
    done(&owner, &create(&path, "", "")).await;
    let tail =
        "1 of 10,004 cells of t.n is not BIGINT: read as NULL. The first is `A7` in line 10,006";
    for unit in ["UNIT (id) UNIQUE", "UNIT ROW", "UNIT (id) MAX ROWS 2"] {
        let said = done(&owner, &format!("ALTER TABLE t SET PRIVACY {unit}")).await;
        assert!(said.contains(tail), "{said}");
    }
    done(&owner, &create(&path, "", "")).await;
    let said = done(&owner, "ALTER TABLE t SET PUBLIC").await;
    assert!(said.contains(tail), "{said}");
    for (text, columns, unit, says) in [
        (
            "id,n\nA1,1\nA2,2\n",
            "(id BIGINT, n INT)",
            "(id) UNIQUE",
            "no row has a value there; 2 of 2 cells of t.id are not BIGINT",
        ),
        ("id,n\nA1,1\nA2,2\n", "(id BIGINT, n INT)", "(id) MAX ROWS 3", "no row has a value there"),
        ("1,2\n3,4\n", "(id BIGINT, n INT)", "(id) UNIQUE", ""),
        ("\"1,2\n3,4,5\n", "(id BIGINT, n INT)", "ROW", "no line of t can be read as a row"),
        ("id,n\n", "(id BIGINT, n INT)", "(id) UNIQUE", ""),
        ("id,n\n,1\n", "(id BIGINT, n INT)", "(id) UNIQUE", ""),
    ] {
        let is_headed = text.starts_with("id");
        std::fs::write(&path, text).unwrap();
        let options = if is_headed { "" } else { "OPTIONS ('has_header' 'false')" };
        let sql = format!("ALTER TABLE t SET PRIVACY UNIT {unit}");
        let created = owner.execute(&create(&path, columns, options)).await;
        match (created, says) {
            (Err(error), says) => assert!(!says.is_empty(), "{text}: {error}"),
            (Ok(_), "") => drop(done(&owner, &sql).await),
            (Ok(_), says) => {
                let refused = why(&owner, &sql).await;
                assert!(refused.contains(says), "{refused}");
            }
        }
    }
}

/// A JSON file as a public table: its rows, with what CREATE and SET PUBLIC say.
async fn read_json(owner: &Session, path: &Path, columns: &str) -> String {
    let create = create(path, columns, "").replace("STORED AS CSV", "STORED AS JSON");
    let mut said = done(owner, &create).await;
    said.push_str(&done(owner, "ALTER TABLE t SET PUBLIC").await);
    let answer = owner.query("SELECT * FROM t").await.unwrap().to_string();
    let rows = answer.lines().filter(|line| line.starts_with('|')).skip(1);
    let cells = |row: &str| -> Vec<String> {
        row.trim_matches('|').split('|').map(|cell| cell.trim().replace("NULL", "")).collect()
    };
    let rows: Vec<String> = rows.map(|row| cells(row).join(",")).collect();
    format!("{} / {said}", rows.join(" "))
}

/// Declared columns are any of a file's keys, in any order, and other keys are left out. NaN is
/// NULL, and a key may first occur late.
#[tokio::test]
async fn json_objects_are_read_by_their_keys() {
    let folder = tempfile::tempdir().unwrap();
    let owner = Engine::in_memory().unwrap().owner();
    let path = folder.path().join("t.json");
    let rows = r#"{"id": 1, "fee": 123456789012345678.25, "day": "2025-01-02", "at": "2025-01-02 10:30", "x": NaN}
{"day": null, "id": 2, "x": -Infinity, "late": 7, "fee": 10.5, "tags": ["a", {"b": NaN}]}
"#;
    let declared = "(late INT, day DATE, fee DECIMAL(20, 2), id BIGINT)";
    let expected = ",2025-01-02,123456789012345678.25,1 7,,10.50,2 /";
    for text in [
        rows.to_owned(),
        // An array, with an object a line or all in one.
        format!("[{}]\n", rows.trim().replace("}\n{", "},\n{")),
        format!("[{}]", rows.trim().replace("}\n{", "}, {")),
        // Objects over several lines, and an array of these.
        rows.replace(", \"", ",\n  \"").replace('}', "\n}"),
        format!("[\n{}\n]", rows.replace(", \"", ",\n  \"").replace("}\n{", "\n},\n{")),
    ] {
        std::fs::write(&path, &text).unwrap();
        let found = read_json(&owner, &path, declared).await;
        assert!(found.starts_with(expected) && !found.contains("belong"), "{text}: {found}");
        let found = read_json(&owner, &path, "(id BIGINT, at TIMESTAMP, x DOUBLE)").await;
        assert!(found.starts_with("1,2025-01-02T10:30:00, 2,, /"), "{text}: {found}");
        let inferred = read_json(&owner, &path, "").await;
        let (first, late) = (
            "2025-01-02 10:30,2025-01-02,1.2345678901234568e17,1,",
            ",10.5,2,,7,[\"a\",{\"b\":null}] /",
        );
        assert!(inferred.starts_with(first) && inferred.contains(late), "{text}: {inferred}");
    }
    std::fs::write(&path, "{\"id\": 1}\n{\"id\": 2}\n").unwrap();
    let found = read_json(&owner, &path, "(id INT, fee INT, \"Day\" DATE)").await;
    assert!(found.contains("no object has a key fee or \"Day\", which is NULL"), "{found}");
    let create =
        |columns: &str| create(&path, columns, "").replace("STORED AS CSV", "STORED AS JSON");
    for (text, says) in [
        (
            "{\"a\": 1}\n{\"b\": 2}\n{\"a\": {\"n\": 1}}\n",
            "the key a of `PATH` has an object in line 3 and a number in line 1",
        ),
        ("[1, 2]\n", "`PATH` is not a JSON file: line 1 is no object"),
        ("id,x\n1,2\n", "`PATH` is not a JSON file: line 1 is no object"),
    ] {
        std::fs::write(&path, text).unwrap();
        let refused = why(&owner, &create("")).await;
        let says = says.replace("PATH", &path.display().to_string());
        assert!(refused.contains(&says), "{refused}");
    }
    // A declared text holds the values of any shape.
    std::fs::write(&path, "{\"a\": 1}\n{\"a\": {\"n\": [1]}}\n{\"a\": \"x\"}\n").unwrap();
    let found = read_json(&owner, &path, "(a VARCHAR)").await;
    assert!(found.starts_with("1 {\"n\":[1]} x /"), "{found}");
}

/// Where no declaration reads and holds a JSON document, its objects are not read by lines, and the
/// owner learns what to do.
#[tokio::test]
async fn json_documents_are_held_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let owner = Engine::in_memory().unwrap().owner();
    let path = folder.path().join("t.json");
    let create = |options: &str| {
        create(&path, "(id BIGINT)", options).replace("STORED AS CSV", "STORED AS JSON")
    };
    for (text, broken) in [
        ("[\n{\"id\": 1},\n{\"id\": 2}\n]\n", "[\n{\"id\": 1},\n{\"id\": 2},\n]\n"),
        ("{\n\"id\": 1\n}\n{\n\"id\": 2\n}\n", "{\n\"id\": 1\n}\n{\n\"id\": 2\n"),
        ("[{\"id\": 1}, {\"id\": 2}]", "[{\"id\": 1}, {\"id\": 2}, 3]"),
        (
            "{\n\"id\": 1\n}\n{\"id\": 2}\n{\"id\": 3}\n",
            "{\n\"id\": 1\n}\n{\"id\": 2} {\"id\": 3}\n",
        ),
    ] {
        std::fs::write(&path, text).unwrap();
        done(&owner, &create("")).await;
        for unit in ["UNIT (id) UNIQUE", "UNIT (id) MAX ROWS 2", "UNIT ROW"] {
            let said = done(&owner, &format!("ALTER TABLE t SET PRIVACY {unit}")).await;
            assert!(!said.contains("belong"), "{said}");
        }
        let unread = "are in an array, or go over several lines, and are read only where a declaration reads the files";
        let refused = why(&owner, "ALTER TABLE t SET PRIVACY UNIT (id)").await;
        assert!(refused.contains(unread) && refused.contains("jq -c"), "{refused}");
        done(&owner, &create("OPTIONS ('content_hash' 'false')")).await;
        for declare in ["SET PRIVACY UNIT ROW", "SET PUBLIC"] {
            let refused = why(&owner, &format!("ALTER TABLE t {declare}")).await;
            assert!(refused.contains(unread), "{refused}");
        }
        std::fs::write(&path, broken).unwrap();
        done(&owner, &create("")).await;
        let refused = why(&owner, "ALTER TABLE t SET PRIVACY UNIT (id) UNIQUE").await;
        assert!(refused.contains("nor a document of objects: "), "{refused}");
        assert!(refused.contains("OPTIONS ('line_breaks' 'false')"), "{refused}");
    }
}

/// A number whose noise is 0 but with a probability of e⁻²⁰⁰.
async fn count(lab: &Session, sql: &str) -> i64 {
    let answer = lab.query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    answer.batches()[0].column(0).as_primitive::<Int64Type>().value(0)
}

/// Texts over several lines are read where a declaration read the file, found it well formed and
/// holds it; a changed file is refused.
#[tokio::test]
async fn texts_over_several_lines_are_read_from_held_files() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Engine::in_memory().unwrap();
    let (owner, lab) = (engine.owner(), engine.analyst("lab").unwrap());
    let path = folder.path().join("t.csv");
    let text = "id,note\r\n1,one\r\n2,\"two\r\n\r\nlines, \"\"2\"\"\"\r\n3,\"# three,\r\n3\"\r\n";
    std::fs::write(&path, text).unwrap();
    let told = "2 rows of t go over several lines: the first begins in line 3, and the longest has 3 lines";
    let ask = "SELECT LAPLACE(eps=50000) COUNT(*) AS n FROM t WHERE note IS NOT NULL";
    let said = done(&owner, &create(&path, "", "")).await;
    assert!(said.contains("texts go over several lines: UNIQUE, MAX ROWS n, ROW"), "{said}");
    done(&owner, "ALTER TABLE t SET PRIVACY UNIT ROW").await;
    done(&owner, "CREATE PRIVACY BUDGET t FOR t LIMIT (epsilon=1000000)").await;
    for unit in ["(id) UNIQUE", "(id) MAX ROWS 2", "ROW"] {
        let said = done(&owner, &format!("ALTER TABLE t SET PRIVACY UNIT {unit}")).await;
        assert!(said.contains(told) && !said.contains("belong"), "{said}");
        assert_eq!(count(&lab, ask).await, 3, "{unit}");
    }
    // By lines, only the first is a row.
    done(&owner, "ALTER TABLE t SET PRIVACY UNIT (id)").await;
    assert_eq!(count(&lab, &ask.replace("50000", "50000, rows=2")).await, 1);
    for (options, unit, rows) in [
        ("OPTIONS ('content_hash' 'true')", "ROW", 3),
        ("OPTIONS ('content_hash' 'false')", "ROW", 1),
        ("OPTIONS ('content_hash' 'false')", "(id) UNIQUE", 3),
        ("OPTIONS ('line_breaks' 'false')", "(id) UNIQUE", 1),
        ("OPTIONS ('line_breaks' 'true')", "(id) UNIQUE", 3),
    ] {
        done(&owner, &create(&path, "", options)).await;
        done(&owner, &format!("ALTER TABLE t SET PRIVACY UNIT {unit}")).await;
        assert_eq!(count(&lab, ask).await, rows, "{options} {unit}");
    }
    let refused = why(&owner, "ALTER TABLE t SET PRIVACY UNIT (id)").await;
    assert!(refused.contains("records over several lines are read only where"), "{refused}");
    // A file that changes is refused, and read again where it is declared again.
    done(&owner, "ALTER TABLE t SET PRIVACY UNIT (id) UNIQUE").await;
    std::fs::write(&path, format!("{text}4,\"four\r\n\"\r\n")).unwrap();
    let refused = why(&lab, ask).await;
    assert!(refused.contains("was changed since its rows were declared"), "{refused}");
    let said = done(&owner, "ALTER TABLE t REFRESH").await;
    assert!(said.contains("3 rows of t go over several lines"), "{said}");
    assert_eq!(count(&lab, ask).await, 4);
    std::fs::write(&path, format!("{text}4,\"four\r\n")).unwrap();
    let refused = why(&owner, "ALTER TABLE t REFRESH").await;
    assert!(
        refused.contains("is not well formed: the quotation in line 8 does not end"),
        "{refused}"
    );
    assert!(why(&lab, ask).await.contains("was changed"));
    // Public files, too.
    std::fs::write(&path, text).unwrap();
    done(&owner, &create(&path, "", "")).await;
    let said = done(&owner, "ALTER TABLE t SET PUBLIC").await;
    assert!(said.contains(told), "{said}");
    let notes = "SELECT id, note FROM t ORDER BY id";
    let found = owner.query(notes).await.unwrap();
    assert_eq!(found.batches().iter().map(|batch| batch.num_rows()).sum::<usize>(), 3);
    std::fs::write(&path, "id,note\n1,one\n").unwrap();
    let refused = why(&lab, notes).await;
    assert!(
        refused.contains("was changed") && refused.contains("ALTER TABLE t REFRESH"),
        "{refused}"
    );
    done(&owner, "ALTER TABLE t REFRESH").await;
    assert!(done(&lab, notes).await.contains("one"));
    std::fs::write(&path, "id,note\n2,two\n").unwrap();
    assert!(done(&lab, notes).await.contains("two"));
}

/// Files with several open quotation marks that are not well formed are refused, with the cause and
/// what to write.
#[tokio::test]
async fn quotations_that_do_not_end_are_refused_with_their_line() {
    let folder = tempfile::tempdir().unwrap();
    let owner = Engine::in_memory().unwrap().owner();
    let path = folder.path().join("t.csv");
    let declare = "ALTER TABLE t SET PRIVACY UNIT (id) UNIQUE";
    for (rows, says) in [
        ("1,\"a\nb\"\n2,\"open\n3,c\n", "the quotation in line 4 does not end"),
        ("1,\"a\nb\"\n2,c,d\n", "the row in line 4 has 3 cells, and the table has 2 columns"),
        ("1,5\" pipe\n2,6\" pipe\n", "line 2 has text beside the quotation marks of a cell"),
        ("1,\"a\nb\" c\n", "line 2 has text beside the quotation marks of a cell"),
        ("1,\"a\n2,b\n3,c\"\n", "line 3 is within quotes and reads like a row"),
    ] {
        std::fs::write(&path, format!("id,note\n{rows}9,z\n")).unwrap();
        done(&owner, &create(&path, "(id BIGINT, note VARCHAR)", "")).await;
        let refused = why(&owner, declare).await;
        assert!(refused.contains(says), "{refused}");
        assert!(refused.contains("open quotation mark, the first is line 2"), "{refused}");
        assert!(refused.contains("OPTIONS ('line_breaks' 'false')"), "{refused}");
        let by_lines = "OPTIONS ('line_breaks' 'false')";
        done(&owner, &create(&path, "(id BIGINT, note VARCHAR)", by_lines)).await;
        let said = done(&owner, declare).await;
        assert!(said.contains("with an open quotation mark"), "{said}");
    }
    // A text may contain what reads like a row, if the owner says so.
    std::fs::write(&path, "id,note\n1,\"a\n2,b\nc\"\n3,c\n").unwrap();
    done(&owner, &create(&path, "", "OPTIONS ('line_breaks' 'true')")).await;
    let said = done(&owner, declare).await;
    assert!(said.contains("1 row of t goes over several lines"), "{said}");
}

/// The owner learns which columns of a changed file differ, and analysts that it changed. Where
/// only rows differ, there is no column to name.
#[tokio::test]
async fn a_changed_file_names_its_columns_to_the_owner() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Engine::in_memory().unwrap();
    let (owner, lab) = (engine.owner(), engine.analyst("lab").unwrap());
    let path = folder.path().join("t.csv");
    std::fs::write(&path, "id,age,city\n1,30,Oslo\n2,41,Rome\n").unwrap();
    done(&owner, &create(&path, "", "")).await;
    done(&owner, "ALTER TABLE t SET PRIVACY UNIT (id) UNIQUE").await;
    done(&owner, "CREATE PRIVACY BUDGET t FOR t LIMIT (epsilon=100)").await;
    let ask = "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM t WHERE age > 30";
    let changed = "was changed since its rows were declared";
    let other = "has other columns than were declared";
    for (text, differs) in [
        ("id,age\n1,30\n", "a header without city"),
        ("id,years,town\n1,30,Oslo\n", "a header without age, city"),
        ("id,city,age\n1,Oslo,30\n", "a header with the columns in another order"),
        ("id,age,city,more\n1,30,Oslo,5\n", "a header with 4 cells for 3 columns"),
    ] {
        std::fs::write(&path, text).unwrap();
        let told = why(&owner, ask).await;
        assert!(told.contains(&format!("{other}: {differs}")), "{text}: {told}");
        let told = why(&lab, ask).await;
        assert!(told.contains(changed), "{text}: {told}");
        for hidden in [differs, "city", "town", "more", "order"] {
            assert!(!told.contains(hidden), "{text}: {told}");
        }
    }
    std::fs::write(&path, "id,age,city\n1,33,Oslo\n").unwrap();
    let told = [why(&owner, ask).await, why(&lab, ask).await];
    assert!(told.iter().all(|told| told.contains(changed)), "{told:?}");
    assert!(!told.concat().contains("age"), "{told:?}");
}

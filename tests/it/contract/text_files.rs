//! Text files as programs write them: each is read right, or its owner learns what to write.

use std::path::Path;

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
            }
            // Before the first unit, nothing but strictness can refuse the file.
            let create = create(&path, columns, "OPTIONS ('strict' 'true')");
            let refused = why(&owner, &create).await;
            assert!(refused.contains(says) && refused.contains("t.csv"), "{refused}");
            let history = owner.query("SHOW PRIVACY HISTORY").await.unwrap().to_string();
            assert!(!history.contains("A7") && !history.contains("soon"), "{history}");
        }
    }
    let owner = Engine::in_memory().unwrap().owner();
    done(&owner, &create(&path, "", "")).await;
    let refused = why(&owner, "ALTER TABLE t SET STRICT").await;
    assert!(refused.contains("with an open quotation mark"), "{refused}");
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
            ": declare DECIMAL(38,0), which reads them all",
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

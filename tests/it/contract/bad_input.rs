//! Bad input through the binary: a clear sentence, the right exit status, nothing charged, nothing
//! lost.
//!
//! ε = 1000 makes an answer exact but for a probability of e⁻¹⁰⁰⁰ for each.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{Int64Array, RecordBatch, StringArray};
use datafusion::parquet::arrow::ArrowWriter;
use rusqlite::Connection;

use crate::contract::program::{Run, Study};

/// Statements of an analyst that must fail without a charge: status and words of the sentence.
#[track_caller]
fn refused(study: &Study, statements: &[(&str, i32, &[&str])]) {
    let before = study.spent();
    for (sql, status, words) in statements {
        let run = study.lab(sql);
        assert_eq!(run.status, *status, "{sql}: {run:?}");
        assert!(run.out.is_empty(), "{sql}: {run:?}");
        run.says(*status, words);
        assert!(run.err.starts_with("error: "), "{sql}: {run:?}");
        assert_eq!(study.spent(), before, "{sql} was charged");
    }
}

#[test]
fn statements_that_are_wrong_say_where_and_cost_nothing() {
    let study = Study::with_people();
    refused(
        &study,
        &[
            ("SELECT LAPLACE(eps=1) COUNT(* FROM people", 1, &["syntax error at line 1, column"]),
            ("SELECT 'open", 1, &["syntax error"]),
            ("SELECT LAPLACE(eps=1) COUNT(*) FROM peple", 1, &["`peple`", "people"]),
            ("SELECT LAPLACE(eps=1) SUM(agee) FROM people", 1, &["`agee`", "age"]),
            ("SELECT name FROM people", 1, &["name"]),
        ],
    );
    // The statements before a wrong one are answered; the position is the script's.
    let run = study.lab("SELECT 1 AS one;\n\nSELEC 2");
    run.says(1, &["syntax error at line 3, column 1"]);
    assert!(run.out.contains("one"), "{run:?}");
}

#[test]
fn parameters_out_of_range_are_refused() {
    let study = Study::with_people();
    let before = study.spent();
    for parameters in [
        "eps=0",
        "eps=-1",
        "eps=-0.0",
        "eps=NaN",
        "eps='NaN'",
        "eps=inf",
        "eps=1e999",
        "eps=1e-320",
        "eps=1, eps=1",
        "eps=1, epsilon=2",
        "eps=1+1",
        "eps=(SELECT 1)",
        "eps=age",
        "eps=NULL",
        "eps",
        "eps=",
        "",
        "eps=1, colour=2",
        "eps=1, \"eps\"=2",
        "eps=$1",
        "eps=1, delta=2",
        "eps=1, rows=0",
        "eps=1, groups=-1",
        "eps=1, rows=1.5",
        "eps=0x10",
        "eps=1_000",
        "eps=true",
    ] {
        let run = study.lab(&format!("SELECT LAPLACE({parameters}) COUNT(*) FROM people"));
        assert!(matches!(run.status, 1 | 3), "LAPLACE({parameters}): {run:?}");
        assert!(run.out.is_empty() && run.err.starts_with("error: "), "{parameters}: {run:?}");
    }
    for delta in ["0", "1", "2", "-1e-6", "NaN", "1e-30"] {
        let sql = format!("SELECT GAUSSIAN(eps=1, delta={delta}) COUNT(*) FROM people");
        let run = study.lab(&sql);
        assert!(matches!(run.status, 1 | 3), "{sql}: {run:?}");
        assert!(run.out.is_empty() && run.err.starts_with("error: "), "{sql}: {run:?}");
    }
    study
        .lab("SELECT LAPLACE(eps=0) COUNT(*) FROM people")
        .says(1, &["line 1, column", "eps must be a number from"]);
    study.lab("SELECT LAPLACE(eps=1, eps=1) COUNT(*) FROM people").says(1, &["twice"]);
    // A command of the shell, as psql takes it in -c.
    study.lab("\\dt").says(1, &["hint: commands such as \\dt are for the shell", "SHOW TABLES"]);
    // Over what one query may spend, and over what is left.
    study
        .lab("SELECT LAPLACE(eps=50001) COUNT(*) FROM people")
        .says(4, &["50001", "`b`", "per query"]);
    assert_eq!(study.spent(), before);
}

#[test]
fn refusals_leave_with_3_and_say_what_to_write() {
    let study = Study::with_people();
    study.write("other.csv", "k,v\n1,2\n");
    study.owner("CREATE EXTERNAL TABLE other STORED AS CSV LOCATION 'other.csv'").says(0, &[]);
    let write: &[&str] = &["HQ0", "refused", "write:"];
    refused(
        &study,
        &[
            ("SELECT * FROM people", 3, write),
            ("SELECT COUNT(*) FROM people", 3, write),
            ("SELECT age FROM people WHERE id = 1", 3, write),
            ("SELECT LAPLACE(eps=1) COUNT(*) FROM other", 3, &["HQ002", "other", "write:"]),
            ("SELECT LAPLACE(within=5) SUM(id) FROM people", 3, &["HQ007", "CLAMP"]),
            ("SELECT LAPLACE(eps=1) AVG(CLAMP(age, 9, 1)) FROM people", 3, &["HQ0"]),
            ("SELECT id, LAPLACE(eps=1) COUNT(*) FROM people GROUP BY id", 3, &["HQ008"]),
            ("ALTER TABLE people SET PUBLIC", 3, &["HQ003", "owner"]),
            ("DROP TABLE people", 3, &["HQ003"]),
            ("CREATE PRIVACY BUDGET c FOR people LIMIT (epsilon=9)", 3, &["HQ003"]),
            ("EXPLAIN SELECT LAPLACE(eps=1) COUNT(*) FROM people", 3, &["HQ003"]),
        ],
    );
}

/// A script of many statements said what was wrong, and not in which of them. One that began behind
/// a million bytes was refused as too large.
#[test]
fn what_fails_in_a_script_says_at_which_line() {
    let study = Study::with_people();
    let script = "SELECT 1;\n\n  SELECT LAPLACE(eps=1) COUNT(agee)\n  FROM people;";
    let run = study.lab(script);
    run.says(1, &["error: at line 3, column 31: there is no column `agee`; did you mean `age`?"]);
    let run = study.lab("SELECT 1;\n\n SELECT AVG(age) FROM people");
    run.says(3, &["  line:  3 of the script"]);
    let one = study.lab("SELECT AVG(age) FROM people");
    one.says(3, &["HQ"]);
    assert!(!one.err.contains("line:"), "{one:?}");
    // A position says it already, in terms of the script.
    let run = study.lab("SELECT 1; SELECT\n  1 +;");
    run.says(1, &["at line 2"]);
    assert!(!run.err.contains("line:"), "{run:?}");
    let nowhere = study.lab("SELECT LAPLACE(eps=1) COUNT(*) FROM\n  poeple;");
    nowhere.says(1, &["at line 2, column 3: there is no table `poeple`; did you mean `people`?"]);
    let failure = &study.answers("SELECT 1;\nSELECT agee FROM people")[1];
    assert_eq!(failure["error"]["line"], 2, "{failure}");
    study.write("long.sql", format!("{}SELECT 1", "-- nothing\n".repeat(200_000)));
    study.run(&["study.db", "--analyst", "lab", "-f", "long.sql"]).says(0, &[]);
}

#[test]
fn usage_errors_leave_with_2() {
    let study = Study::new();
    for arguments in [
        &["study.db"][..],
        &["study.db", "--owner", "--analyst", "lab"],
        &["demo", "--format", "x"],
    ] {
        let run = study.run(arguments);
        assert_eq!(run.status, 2, "{arguments:?}: {run:?}");
        assert!(run.err.contains("Usage") || run.err.contains("error:"), "{run:?}");
    }
    study.run(&["study.db", "--analyst", "a b", "-c", "SELECT 1"]).says(1, &["name of an analyst"]);
    study.run(&["study.db", "--analyst", "owner", "-c", "SELECT 1"]).says(1, &["analyst"]);
    study.run(&["study.db", "--analyst", "lab", "-f", "no.sql"]).says(1, &["no.sql"]);
    study.write("bytes.sql", b"SELECT 1; \xff\xfe");
    study.run(&["study.db", "--analyst", "lab", "-f", "bytes.sql"]).says(1, &["bytes.sql"]);
}

#[test]
fn wrong_declarations_change_nothing() {
    let study = Study::with_people();
    let before = study.lab("SHOW PRIVACY").out;
    for (sql, words) in [
        ("ALTER TABLE people ALTER COLUMN age SET PRIVACY DOMAIN BETWEEN (9, 1)", &["9"][..]),
        (
            "ALTER TABLE people ALTER COLUMN age SET PRIVACY DOMAIN IN ('young')",
            &["'young'", "BIGINT"],
        ),
        ("ALTER TABLE people ALTER COLUMN age SET PRIVACY DOMAIN BETWEEN ('a', 'b')", &["'a'"]),
        ("ALTER TABLE people ALTER COLUMN age SET PRIVACY DOMAIN IN (1, 1)", &["twice"]),
        ("ALTER TABLE people ALTER COLUMN city SET PRIVACY DOMAIN IN (1)", &["VARCHAR"]),
        ("ALTER TABLE people ALTER COLUMN agee SET PRIVACY DOMAIN IN (1)", &["age"]),
        ("ALTER TABLE peopel SET PRIVACY UNIT ROW", &["people"]),
        ("ALTER TABLE people SET PRIVACY UNIT (idd)", &["id"]),
        ("ALTER TABLE people SET PRIVACY UNIT (id) MAX ROWS 0", &["rows"]),
        ("CREATE PRIVACY BUDGET b FOR people LIMIT (epsilon=1)", &["b"]),
        ("CREATE PRIVACY BUDGET c FOR people LIMIT (epsilon=0)", &["epsilon"]),
        ("CREATE PRIVACY BUDGET c FOR martians LIMIT (epsilon=1)", &["martians"]),
        ("DROP TABLE people", &["budget"]),
        ("CREATE EXTERNAL TABLE people STORED AS CSV LOCATION 'people.csv'", &["already"]),
    ] {
        let run = study.owner(sql);
        assert!(matches!(run.status, 1 | 3), "{sql}: {run:?}");
        for word in words {
            assert!(run.err.to_lowercase().contains(&word.to_lowercase()), "{sql}: {run:?}");
        }
        assert_eq!(study.lab("SHOW PRIVACY").out, before, "{sql} changed something");
    }
}

fn parquet(rows: usize) -> Vec<u8> {
    let ids = Int64Array::from_iter_values(0..i64::try_from(rows).unwrap());
    let names = StringArray::from_iter_values((0..rows).map(|i| format!("name {i}")));
    let batch =
        RecordBatch::try_from_iter([("id", Arc::new(ids) as _), ("name", Arc::new(names) as _)])
            .unwrap();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    bytes
}

#[test]
fn data_files_that_cannot_be_read_are_not_declared() {
    let study = Study::new();
    study.write("empty", "");
    let noise: Vec<u8> =
        (0..5_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    study.write("noise", &noise);
    let whole = parquet(1_000);
    study.write("cut", &whole[..whole.len() / 2]);
    fs::create_dir(study.path("folder")).unwrap();
    for format in ["CSV", "JSON", "PARQUET", "ARROW"] {
        let declare = |file: &str| -> Run {
            study.owner(&format!("CREATE EXTERNAL TABLE t STORED AS {format} LOCATION '{file}'"))
        };
        declare("missing").says(1, &["no readable file `missing`"]);
        declare("empty").says(1, &["`empty` is empty"]);
        declare("folder").says(1, &["there is no file in `folder`", "(column TYPE, …)"]);
        declare("noise").says(1, &["noise`", "is not a", format]);
        let why = match format {
            "PARQUET" => "is cut off",
            _ => "is not a",
        };
        declare("cut").says(1, &["cut`", why]);
    }
    let run = study.lab("SHOW TABLES");
    assert!(!run.out.contains('t') || !run.out.contains("undeclared"), "{run:?}");
}

#[test]
fn a_parquet_file_that_is_cut_later_is_refused_for_nothing() {
    let study = Study::new();
    let whole = parquet(1_000);
    study.write("t.parquet", &whole);
    study
        .owner(
            "CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION 't.parquet' OPTIONS ('content_hash' 'false');
             ALTER TABLE t SET PRIVACY UNIT ROW; CREATE PRIVACY BUDGET b FOR t LIMIT (epsilon=5000)",
        )
        .says(0, &[]);
    let ask = "SELECT LAPLACE(eps=1000) COUNT(*) AS n FROM t";
    assert_eq!(study.answers(ask)[0]["rows"][0][0], 1_000);
    study.write("t.parquet", &whole[..whole.len() - 9]);
    refused(&study, &[(ask, 3, &["HQ028", "t", "no longer in its format"])]);
    study.write("t.parquet", "");
    refused(&study, &[(ask, 3, &["HQ028"])]);
    fs::remove_file(study.path("t.parquet")).unwrap();
    refused(&study, &[(ask, 3, &["HQ028", "cannot be read"])]);
    // Damage that only reading the rows can find: one constant sentence, and the charge stands.
    let mut damaged = whole.clone();
    damaged[4..whole.len() / 2].fill(0xaa);
    study.write("t.parquet", &damaged);
    let charges = study.spent().0;
    let run = study.lab("SELECT LAPLACE(eps=1) COUNT(name) AS n FROM t");
    run.says(1, &["error: the query failed while it ran; what was charged stays charged"]);
    // The charge, and the note of what failed: no other question pays for it.
    assert_eq!(study.spent().0, charges + 2);
    refused(&study, &[("SELECT LAPLACE(eps=1) COUNT(id) AS n FROM t", 3, &["HQ028"])]);
    study.write("t.parquet", &whole);
    study.owner("ALTER TABLE t REFRESH").says(0, &[]);
    assert_eq!(study.answers(ask)[0]["rows"][0][0], 1_000, "nothing is lost");
}

#[test]
fn a_file_that_changes_columns_is_refused_for_nothing() {
    let study = Study::with_people();
    let ask = "SELECT LAPLACE(eps=1000) COUNT(*) AS n FROM people";
    assert_eq!(study.answers(ask)[0]["rows"][0][0], 4);
    for file in ["id,age\n1,30\n", "id,city,age\n1,Rome,30\n", "", "\u{1}\u{2}\u{3}"] {
        study.write("people.csv", file);
        refused(&study, &[(ask, 3, &["HQ028", "people", "other columns"])]);
    }
    study.write("people.csv", "id,age,city\n7,30,Rome\n");
    assert_eq!(study.answers(ask)[0]["rows"][0][0], 1, "rows may come and go");
    // With a verified constraint they may not.
    study.owner("ALTER TABLE people SET PRIVACY UNIT (id) MAX ROWS 1").says(0, &[]);
    assert_eq!(study.answers(ask)[0]["rows"][0][0], 1);
    study.write("people.csv", "id,age,city\n7,30,Rome\n7,31,Rome\n");
    refused(&study, &[(ask, 3, &["HQ028", "ALTER TABLE people REFRESH"])]);
    for again in ["SET PRIVACY UNIT (id) MAX ROWS 1", "REFRESH"] {
        study.owner(&format!("ALTER TABLE people {again}")).says(1, &["more than 1 row"]);
        refused(&study, &[(ask, 3, &["HQ028"])]);
    }
    study.owner("ALTER TABLE people SET PRIVACY UNIT (id) MAX ROWS 2").says(0, &[]);
    assert_eq!(study.answers(ask)[0]["rows"][0][0], 2);
}

/// A link looked at the file of its target as it was, while another one was verified and asked.
#[test]
fn a_link_leads_to_the_file_that_was_verified() {
    let study = Study::with_people();
    study.owner("ALTER TABLE people SET PRIVACY UNIT (id) MAX ROWS 1").says(0, &[]);
    study.write("visits.csv", "person,cost\n1,5\n2,7\n");
    let create = "CREATE EXTERNAL TABLE visits STORED AS CSV LOCATION 'visits.csv'";
    study.owner(create).says(0, &[]);
    study.write("people.csv", "id,age,city\n1,30,Rome\n2,31,Rome\n");
    let link = "ALTER TABLE visits SET PRIVACY UNIT VIA (person) REFERENCES people(id)";
    study.owner(link).says(3, &["HQ028", "people"]);
    study.owner("ALTER TABLE people SET PRIVACY UNIT (id) MAX ROWS 1").says(0, &[]);
    study.owner(link).says(0, &[]);
}

/// A cell went into an array of text before anybody asked whether it fits: two gigabytes in one did
/// not.
#[test]
fn a_cell_of_many_megabytes_is_null() {
    let study = Study::new();
    let long = "x".repeat((16 << 20) + 1);
    study.write("notes.csv", format!("id,note\n1,{long}\n2,{}\n", &long[1..]));
    let declare = "CREATE EXTERNAL TABLE notes (id BIGINT, note VARCHAR) STORED AS CSV
                       LOCATION 'notes.csv' OPTIONS ('has_header' 'true');
                   ALTER TABLE notes SET PUBLIC";
    study.owner(declare).says(0, &[]);
    let counts = study.answers("SELECT COUNT(*) AS rows, COUNT(note) AS notes FROM notes");
    assert_eq!(counts[0]["rows"][0], serde_json::json!([2, 1]));
}

/// A file once had its types inferred anew before every query. One row with a cell too many, or
/// with bytes that are no UTF-8, made that fail: a refusal, free of charge, that told of one
/// person's row.
///
/// An open quotation mark swallowed the lines that followed: one person's row hid everybody else's.
#[test]
fn malformed_lines_are_no_rows_and_malformed_cells_are_null() {
    let study = Study::new();
    let good = "id,age,city\n1,30,Rome\n2,41,Oslo\n";
    study.write("t.csv", good);
    study
        .owner(
            "CREATE EXTERNAL TABLE t (id BIGINT, age BIGINT, city VARCHAR) STORED AS CSV LOCATION 't.csv' OPTIONS ('content_hash' 'false');
             ALTER TABLE t SET PRIVACY UNIT ROW;
             CREATE PRIVACY BUDGET b FOR t LIMIT (epsilon=1000000)",
        )
        .says(0, &[]);
    let ask = "SELECT LAPLACE(eps=1000) COUNT(*) AS n, LAPLACE(eps=1000) COUNT(id) AS ids,
                      LAPLACE(eps=1000) COUNT(age) AS ages, LAPLACE(eps=1000) COUNT(city) AS cities FROM t";
    let mut lines: Vec<(&[u8], [i64; 3])> = vec![
        (b"3,52,Rome", [1, 1, 1]),
        (b"3,52,Rome,extra", [0, 0, 0]),
        (b"3,52", [0, 0, 0]),
        (b"3", [0, 0, 0]),
        (b",,", [0, 0, 0]),
        (b"three,52,Rome", [0, 1, 1]),
        (b"3,9223372036854775808,Rome", [1, 0, 1]),
        (b"3,1e400,Rome", [1, 0, 1]),
        (b"3,52,\xff\xfe", [1, 1, 0]),
        (b"\xff,\xff,\xff", [0, 0, 0]),
        (b"3,52,\"Rome", [0, 0, 0]),
        (b"\"3,52,Rome", [0, 0, 0]),
        (b"3,52,\"Ro,\"\"me\"", [1, 1, 1]),
        (b"3,52,Rome\r", [1, 1, 1]),
        (b"\0,\0,\0", [0, 0, 1]),
    ];
    let long = [b"3,52,".as_slice(), &vec![b'x'; 1 << 20]].concat();
    // Of texts, 64 KiB are read at most.
    lines.push((&long, [1, 1, 0]));
    // Other numbers of cells, and quotations that their line does not end.
    let unreadable: [&[u8]; 5] =
        [b"3,52,Rome,extra", b"3,52", b"3", b"3,52,\"Rome", b"\"3,52,Rome"];
    for (line, counted) in lines {
        let rows = i64::from(!unreadable.contains(&line));
        let shown = String::from_utf8_lossy(&line[..line.len().min(40)]);
        for file in [
            [good.as_bytes(), line, b"\n"].concat(),
            [b"id,age,city\n", line, b"\n1,30,Rome\n2,41,Oslo\n".as_slice()].concat(),
        ] {
            study.write("t.csv", file);
            let answer = &study.answers(ask)[0];
            let expected = [rows, counted[0], counted[1], counted[2]].map(|n| n + 2);
            assert_eq!(answer["rows"][0], serde_json::json!(expected), "{shown}: {answer}");
        }
    }
}

/// Inference fails no more than reading does; cells are read as the declared types or as NULL.
#[test]
fn malformed_lines_do_not_stop_a_declaration() {
    let study = Study::new();
    study.write("t.csv", b"id,age\n1,30\n2,31,32\n3\n\xff,1\n4,\"open\n5,33\n");
    study.write("t.json", b"{\"id\":1,\"tags\":[1,2],\"at\":{\"x\":1}}\nno json\n[1]\n{\"id\":2}\n\xff\n{\"id\":\"x\"}\n");
    study
        .owner(
            "CREATE EXTERNAL TABLE c STORED AS CSV LOCATION 't.csv';
             ALTER TABLE c SET PRIVACY UNIT ROW; CREATE PRIVACY BUDGET c FOR c LIMIT (epsilon=100000);
             CREATE EXTERNAL TABLE j STORED AS JSON LOCATION 't.json';
             ALTER TABLE j SET PRIVACY UNIT ROW; CREATE PRIVACY BUDGET j FOR j LIMIT (epsilon=100000)",
        )
        .says(0, &[]);
    let answers = study.answers(
        "SELECT LAPLACE(eps=1000) COUNT(*), LAPLACE(eps=1000) COUNT(age) FROM c;
         SELECT LAPLACE(eps=1000) COUNT(*), LAPLACE(eps=1000) COUNT(id), LAPLACE(eps=1000) COUNT(tags) FROM j",
    );
    assert_eq!(answers[0]["rows"][0], serde_json::json!([3, 3]), "{}", answers[0]);
    assert_eq!(answers[1]["rows"][0], serde_json::json!([3, 3, 1]), "{}", answers[1]);
}

#[test]
fn a_vault_that_is_none_is_not_opened_and_never_made() {
    let study = Study::new();
    let ask = |path: &str| study.run(&[path, "--analyst", "lab", "-c", "SELECT 1"]);
    ask("nowhere.db").says(1, &["there is no vault `nowhere.db`", "hushql init nowhere.db"]);
    assert!(!study.path("nowhere.db").exists());
    study.write("empty.db", "");
    ask("empty.db").says(1, &["`empty.db` is not a HushQL vault"]);
    study.write("text.db", "id,age\n1,2\n".repeat(1_000));
    ask("text.db").says(1, &["`text.db` is not a HushQL vault"]);
    ask(".").says(1, &["is not a file"]);
    study.run(&["init", "study.db"]).says(1, &["`study.db` already exists"]);
    study.run(&["init", "no/such/folder.db"]).says(1, &["no/such/folder.db"]);
}

#[test]
fn a_damaged_vault_answers_nothing() {
    let study = Study::with_people();
    study.lab("SELECT LAPLACE(eps=1) COUNT(*) FROM people").says(0, &[]);
    let whole = fs::read(study.path("study.db")).unwrap();
    let ask = "SELECT LAPLACE(eps=1) COUNT(*) FROM people";
    // SQLite reads zeros behind the end: once in 256 runs the last byte was one, and nothing was
    // lost.
    let last = whole.iter().rposition(|byte| *byte != 0).unwrap();
    for cut in [whole.len() / 2, last, 4_096, 100] {
        study.write("study.db", &whole[..cut]);
        let run = study.lab(ask);
        assert_eq!((run.status, run.out.as_str()), (1, ""), "cut at {cut}: {run:?}");
        assert!(run.err.contains("damaged") || run.err.contains("not a HushQL vault"), "{run:?}");
        assert_eq!(fs::read(study.path("study.db")).unwrap(), &whole[..cut], "it is left as it is");
    }
    study.write("study.db", &whole);
    let other = Connection::open(study.path("study.db")).unwrap();
    let triggers = "SELECT name FROM sqlite_schema WHERE type = 'trigger'";
    let names: Vec<String> = other
        .prepare(triggers)
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    for name in names {
        other.execute_batch(&format!("DROP TRIGGER {name}")).unwrap();
    }
    other.execute_batch("UPDATE budget SET spent_loss = 0").unwrap();
    study.lab(ask).says(1, &["damaged"]);
    study.write("study.db", &whole);
    study.lab(ask).says(0, &[]);
    assert_eq!(study.spent().0, 2, "nothing is lost");
}

#[test]
fn a_read_only_vault_answers_nothing() {
    let study = Study::with_people();
    let path = study.path("study.db");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
    if fs::OpenOptions::new().append(true).open(&path).is_ok() {
        println!("skipped: this user may write read-only files");
        return;
    }
    study.lab("SELECT LAPLACE(eps=1) COUNT(*) FROM people").says(1, &["read-only"]);
}

/// Another program is waited for, 10 s, and then the query is refused, not answered.
#[test]
fn a_locked_vault_is_waited_for_and_then_refused() {
    let study = Study::with_people();
    let before = study.spent();
    let other = Connection::open(study.path("study.db")).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let start = Instant::now();
    let run = study.lab("SELECT LAPLACE(eps=1) COUNT(*) FROM people");
    run.says(1, &["in use by another program", "nothing was charged", "try again"]);
    assert!(start.elapsed() >= Duration::from_secs(4), "it did not wait");
    // A lock that goes away in time is no failure.
    let waiting = study
        .command(&[
            "study.db",
            "--analyst",
            "lab",
            "-c",
            "SELECT LAPLACE(eps=1) COUNT(*) FROM people",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(700));
    other.execute_batch("ROLLBACK").unwrap();
    let run: Run = waiting.wait_with_output().unwrap().into();
    assert_eq!(run.status, 0, "{run:?}");
    assert_eq!(study.spent().0, before.0 + 1);
}

/// A limit on the size of files is a disk that is full.
#[test]
fn a_full_disk_answers_nothing() {
    let study = Study::with_people();
    let before = study.spent();
    let blocks = fs::metadata(study.path("study.db")).unwrap().len() / 1_024;
    let script = "SELECT LAPLACE(eps=0.001) COUNT(*) AS n FROM people;".repeat(200);
    // Without the signal, a write past the limit fails as on a full disk.
    let line = format!(
        "trap '' XFSZ; ulimit -f {blocks}; exec '{}' study.db --analyst lab --format csv -c '{script}'",
        env!("CARGO_BIN_EXE_hushql")
    );
    let run: Run = Command::new("bash")
        .args(["-c", &line])
        .current_dir(study.folder())
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .output()
        .unwrap()
        .into();
    assert_eq!(run.status, 1, "{run:?}");
    assert!(run.err.contains("the vault") && !run.err.contains("study.db"), "{run:?}");
    let answered = run.out.lines().filter(|line| *line != "n").count();
    assert!(answered < 200, "the limit was not felt");
    let charged = usize::try_from(study.spent().0 - before.0).unwrap();
    assert!(
        charged == answered || charged == answered + 1,
        "{charged} charged, {answered} answered"
    );
    // With room again, the vault works on.
    study.lab("SELECT LAPLACE(eps=0.001) COUNT(*) FROM people").says(0, &[]);
}

#[test]
fn of_two_processes_one_gets_the_last_epsilon() {
    let study = Study::with_people();
    study.owner("ALTER PRIVACY BUDGET b SET LIMIT (epsilon=3)").says(0, &[]);
    for round in 0..3 {
        let ask =
            ["study.db", "--analyst", "lab", "-c", "SELECT LAPLACE(eps=1) COUNT(*) FROM people"];
        if round < 2 {
            // Leave exactly one.
            study.run(&ask).says(0, &[]);
            continue;
        }
        let racing: Vec<_> = (0..4)
            .map(|_| {
                let mut command = study.command(&ask);
                command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
            })
            .collect();
        let mut statuses: Vec<_> = racing
            .into_iter()
            .map(|child| {
                let run: Run = child.wait_with_output().unwrap().into();
                assert_eq!(run.status == 0, !run.out.is_empty(), "{run:?}");
                run.status
            })
            .collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [0, 4, 4, 4]);
    }
    assert_eq!(study.spent().0, 3);
    study.lab("SELECT LAPLACE(eps=0.000001) COUNT(*) FROM people").says(4, &["`b`"]);
}

/// Whatever moment a process dies at: what it told is in the ledger.
#[test]
fn a_killed_process_has_paid_for_what_it_told() {
    let study = Study::with_people();
    study.write("ask.sql", "SELECT LAPLACE(eps=0.001) COUNT(*) AS n FROM people;\n".repeat(5_000));
    let (mut charged_before, mut told) = (study.spent().0, 0);
    for round in 0..6_u64 {
        let mut child = study
            .command(&["study.db", "--analyst", "lab", "--format", "json", "-q", "-f", "ask.sql"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = child.stdout.take().unwrap();
        // Death comes at some time after the first answer.
        let mut first = [0_u8; 1];
        output.read_exact(&mut first).unwrap();
        std::thread::sleep(Duration::from_millis(round * round * 13 + round));
        child.kill().unwrap();
        child.wait().unwrap();
        let mut rest = String::new();
        output.read_to_string(&mut rest).unwrap();
        let answers = rest.lines().filter(|line| line.contains("\"rows\":[[")).count();
        let charged = study.spent().0;
        let now = usize::try_from(charged - charged_before).unwrap();
        // The charge comes first; at most one was not answered any more.
        assert!(now == answers || now == answers + 1, "{now} charged, {answers} told");
        charged_before = charged;
        told += answers;
    }
    assert!(told >= 6, "nothing was answered");
    study.lab("SELECT LAPLACE(eps=1) COUNT(*) FROM people").says(0, &[]);
}

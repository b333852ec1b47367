//! What owners declare, as clients see it: public presence, and bad input, which is refused with a
//! sentence that says what to write, and charges nothing.

use super::client::{Client, Said, error_code, texts};
use super::{PASSWORD, Served};
use crate::contract::program::Study;

/// The bytes of an error that hold its message and its hint.
const TOLD: [u8; 2] = [b'M', b'H'];

fn told(said: &Said) -> String {
    TOLD.iter().filter_map(|field| said.error_field(*field)).collect::<Vec<_>>().join("\n")
}

fn asked(client: &mut Client, sql: &str, values: &[&str]) -> Said {
    client.parse("", sql, &[]);
    let values: Vec<_> = values.iter().map(|value| (0, Some(value.as_bytes()))).collect();
    client.bind("", "", &values, &[]);
    client.execute("", 0);
    client.sync()
}

/// What public columns decide is exact for every client, and nothing is charged; all else is drawn.
#[test]
fn public_presence_is_exact_for_clients() {
    let study = Study::with_people();
    study.write("survey.csv", "id,region,age\n1,north,34\n2,north,51\n3,south,\n4,south,62\n");
    study
        .owner(&format!(
            "CREATE EXTERNAL TABLE survey (id BIGINT, region VARCHAR, age BIGINT) STORED AS CSV LOCATION 'survey.csv';
             ALTER TABLE survey SET PRIVACY UNIT (id) UNIQUE PRESENCE PUBLIC WITH (region);
             ALTER TABLE survey ALTER COLUMN region SET PRIVACY DOMAIN IN ('north', 'south', 'west');
             ALTER TABLE survey ALTER COLUMN age SET PRIVACY DOMAIN BETWEEN (18, 65);
             CREATE PRIVACY BUDGET panel FOR survey LIMIT (epsilon=10);
             CREATE ROLE lab LOGIN PASSWORD '{PASSWORD}'"
        ))
        .says(0, &[]);
    let served = Served::of(study, &[]);
    let mut lab = served.lab();
    let before = served.study.spent();
    let counted =
        lab.query("SELECT region, COUNT(*) AS n FROM survey GROUP BY region ORDER BY region");
    assert_eq!(texts(&counted), [["north", "2"], ["south", "2"], ["west", "0"]], "{counted:?}");
    for (sql, values, expected) in [
        ("SELECT COUNT(*) AS n FROM survey WHERE id > $1", &["2"][..], "2"),
        ("SELECT COUNT(*) AS n FROM survey WHERE region = $1 AND id < $2", &["north", "2"], "1"),
        ("SELECT LAPLACE(eps=1) SUM(CLAMP(id, 0, 9)) AS n FROM survey", &[], "10"),
    ] {
        let said = asked(&mut lab, sql, values);
        assert_eq!(texts(&said), [[expected]], "{sql}: {said:?}");
    }
    for (sql, code) in [
        ("SELECT id, region FROM survey", "HQ001"),
        (
            "SELECT age, LAPLACE(eps=1, delta=1e-9) COUNT(*) AS n FROM (SELECT id, age * 2 AS age FROM survey) AS q GROUP BY age",
            "HQ032",
        ),
        ("SELECT LAPLACE(eps=1) COUNT(*) AS n FROM survey s JOIN survey t ON s.id = t.id", "HQ032"),
        ("ALTER TABLE survey ALTER COLUMN age SET PUBLIC", "42501"),
    ] {
        let said = lab.query(sql);
        assert_eq!(error_code(&said).as_deref(), Some(code), "{sql}: {}", told(&said));
    }
    assert_eq!(served.study.spent(), before, "nothing was charged");
    let said =
        asked(&mut lab, "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM survey WHERE age > $1", &["40"]);
    assert_eq!(error_code(&said), None, "{said:?}");
    assert_ne!(served.study.spent(), before);
}

/// A template that a declaration has made invalid, a month without rows, conditions that no row can
/// meet, and a role without grants.
#[test]
fn bad_input_is_told_what_to_write() {
    let study = Study::with_people();
    study.write("visits.csv", "patient,day\n1,2026-01-04\n2,2026-01-09\n2,2026-02-11\n");
    study
        .owner(&format!(
            "CREATE EXTERNAL TABLE visits (patient BIGINT, day DATE) STORED AS CSV LOCATION 'visits.csv';
             ALTER TABLE visits SET PRIVACY UNIT (patient) PER MONTH OF (day) MAX ROWS 3;
             CREATE PRIVACY BUDGET v FOR visits LIMIT (epsilon=10);
             CREATE TEMPLATE since(day DATE BETWEEN (DATE '2026-01-01', DATE '2026-12-31')) AS
                 SELECT LAPLACE(eps=1) COUNT(*) AS n FROM visits WHERE day >= $day;
             CREATE ROLE lab LOGIN PASSWORD '{PASSWORD}'"
        ))
        .says(0, &[]);
    let served = Served::of(study, &[]);
    let mut lab = served.lab();
    let before = served.study.spent();
    let none = "day > DATE '2026-03-31' AND day < DATE '2026-03-01'";
    for (sql, values, code, write) in [
        (
            "SELECT * FROM since($1)",
            &["2025-12-31"][..],
            "HQ029",
            "SELECT * FROM since(DATE '2026-01-01')",
        ),
        (
            "SELECT * FROM since($1)",
            &["2026-02-30"],
            "HQ029",
            "SELECT * FROM since(DATE '2026-01-01')",
        ),
        (
            "SELECT * FROM sinces($1)",
            &["2026-02-28"],
            "HQ004",
            "SELECT * FROM since(DATE '2026-01-01')",
        ),
        (
            &format!("SELECT LAPLACE(eps=1) COUNT(*) AS n FROM visits WHERE {none}"),
            &[],
            "HQ025",
            "day BETWEEN",
        ),
    ] {
        let said = asked(&mut lab, sql, values);
        assert_eq!(error_code(&said).as_deref(), Some(code), "{sql}: {}", told(&said));
        assert!(told(&said).contains(write), "{sql}: {}", told(&said));
    }
    assert_eq!(served.study.spent(), before, "nothing was charged");
    // A month without rows is as any other one: its number is drawn, and its cell pays.
    let empty = "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM visits WHERE day >= DATE '2030-03-01' AND day < DATE '2030-04-01'";
    assert_eq!(error_code(&lab.query(empty)), None);
    served.study.owner("ALTER TABLE visits DROP PRIVACY UNIT").says(0, &[]);
    let before = served.study.spent();
    let said = lab.query("SELECT * FROM since(DATE '2026-01-01')");
    for part in [
        "the template since cannot be answered as it is",
        "nothing was charged",
        "SET PRIVACY UNIT",
    ] {
        assert!(told(&said).contains(part), "{}", told(&said));
    }
    assert_eq!(served.study.spent(), before);
    served.study.owner("SET GRANTS REQUIRED").says(0, &[]);
    let before = served.study.spent();
    for sql in ["SELECT COUNT(*) AS n FROM people", "SELECT * FROM since(DATE '2026-01-01')"] {
        let said = lab.query(sql);
        assert!(error_code(&said).is_some() && !told(&said).contains("undeclared"), "{sql}");
    }
    assert!(texts(&lab.query("SHOW TABLES")).is_empty());
    assert_eq!(served.study.spent(), before);
}

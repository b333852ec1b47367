//! What owners do with a whole vault: writing its declarations out and rebuilding them, in the same
//! vault and in another.

use super::program::Study;

const SETUP: &str = "
CREATE EXTERNAL TABLE people STORED AS CSV LOCATION 'people.csv';
ALTER TABLE people SET PRIVACY UNIT (id) UNIQUE;
ALTER TABLE people ALTER COLUMN age SET PRIVACY DOMAIN BETWEEN 0 AND 120 OR NULL;
CREATE EXTERNAL TABLE \"Visits \"\"at\"\" night's\" (visit BIGINT, person BIGINT, \"a \"\"b\" DOUBLE, \"it's\" VARCHAR, \"\" BOOLEAN, \"select\" DATE)
  STORED AS CSV LOCATION 'visits''s.csv' OPTIONS ('delimiter' ';', 'has_header' 'true');
ALTER TABLE \"Visits \"\"at\"\" night's\" SET PRIVACY UNIT VIA (person) REFERENCES people(id) MAX ROWS 4;
ALTER TABLE \"Visits \"\"at\"\" night's\" ALTER COLUMN \"a \"\"b\" SET PRIVACY DOMAIN BETWEEN (-1.5, 1e3) STEP 0.25;
ALTER TABLE \"Visits \"\"at\"\" night's\" ALTER COLUMN \"it's\" SET PRIVACY DOMAIN IN ('O''Hara', 'a;--', 'NULL', NULL, '
-- two lines');
ALTER TABLE \"Visits \"\"at\"\" night's\" ALTER COLUMN \"\" SET PRIVACY DOMAIN IN (TRUE, FALSE);
ALTER TABLE \"Visits \"\"at\"\" night's\" ALTER COLUMN \"select\" SET PRIVACY DOMAIN BETWEEN (DATE '2025-01-01', DATE '2025-12-31');
CREATE EXTERNAL TABLE copy STORED AS CSV LOCATION 'copy.csv';
ALTER TABLE copy SET PRIVACY UNIT (id) OTHER PEOPLE THAN people;
ALTER TABLE people SET ABOUT 4000 PEOPLE;
CREATE EXTERNAL TABLE wards STORED AS CSV LOCATION 'wards.csv';
ALTER TABLE wards SET PUBLIC;
CREATE EXTERNAL TABLE undeclared STORED AS CSV LOCATION 'wards2.csv';
CREATE PRIVACY BUDGET \"all; of 'it\" FOR people LIMIT (epsilon=9.000000001, delta=1.5e-6)
  PER QUERY (default=0.1, default_delta=1e-18, min=0.000001, max=5, max_delta=1e-7, bounds=declared);
CREATE PRIVACY BUDGET z FOR \"Visits \"\"at\"\" night's\" LIMIT (epsilon=40, delta=1e-6) ACCOUNTANT ZCDP PER QUERY (default=0.05, min_rho=1e-5, max_rho=2);
CREATE PRIVACY BUDGET t FOR copy LIMIT (epsilon=8, delta=1e-6) ACCOUNTANT ZCDP (thresholds=0);
CREATE PRIVACY BUDGET r FOR copy LIMIT (rho=2, delta=1e-6) PER QUERY (default_rho=0.5, max_rho=1);
ALTER PRIVACY BUDGET r SET LIMIT (rho=0.25, delta=1e-6);
CREATE PRIVACY BUDGET c FOR people LIMIT (epsilon=60, delta=1e-6) ACCOUNTANT COUPONS (epsilon=2) PER QUERY (default=0.1);
ALTER PRIVACY BUDGET \"all; of 'it\" ADD SLICE lab LIMIT (epsilon=4, delta=1e-7);
ALTER PRIVACY BUDGET \"all; of 'it\" ADD SLICE \"Eve-2\" LIMIT (epsilon=0.5);
ALTER PRIVACY BUDGET z ADD SLICE lab LIMIT (rho=3, delta=1e-8);
ALTER PRIVACY BUDGET c ADD SLICE lab LIMIT (coupons=5);
CREATE VIEW a_reads_b AS SELECT age FROM b_is_read;
CREATE VIEW x AS SELECT 1 AS one;
CREATE VIEW b_is_read (\"Id\", age) AS SELECT id, age FROM people -- adults
  WHERE age >= 18 /* ; */ AND id <> 7 -- and more
;
CREATE OR REPLACE VIEW x AS SELECT one FROM (SELECT 1 AS one) AS y;
";

/// Floors of people, behind the questions: each would cost one release more.
const FLOORS: &str = "ALTER TABLE copy SET PRIVACY FLOOR 10 (beta=0.02);
ALTER TABLE copy SET RULES (no_key=(age), no_filter=(id), aggregates=(count, laplace));
ALTER PRIVACY BUDGET r SET PER QUERY (default_rho=0.2, max_rho=1, min_units=12, min_units_beta=0.01)";

/// A vault with every kind of declaration, hostile names, and charges.
pub(super) fn study() -> Study {
    let study = Study::new();
    study.write("people.csv", "id,age\n1,30\n2,41\n3,52\n");
    study.write("copy.csv", "id,age\n1,30\n2,41\n3,52\n");
    study.write(
        "visits's.csv",
        "visit;person;\"a \"\"b\";it's;;select\n1;1;0.5;O'Hara;true;2025-02-03\n2;1;7;x;false;2025-02-04\n",
    );
    study.write("wards.csv", "code,beds\nA,3\n");
    study.write("wards2.csv", "code,beds\nB,3\n");
    let ordered = SETUP.replace("CREATE VIEW a_reads_b AS SELECT age FROM b_is_read;\n", "")
        + "CREATE VIEW a_reads_b AS SELECT age FROM b_is_read;";
    study.owner(&ordered).says(0, &[]);
    for (eps, table) in [(1, "people"), (2, "\"Visits \"\"at\"\" night's\"")] {
        study.lab(&format!("SELECT LAPLACE(eps={eps}) COUNT(*) FROM {table}")).says(0, &[]);
    }
    study.lab("SELECT GAUSSIAN(rho=0.1, rows=1) COUNT(*) FROM copy").says(0, &[]);
    study.owner(FLOORS).says(0, &[]);
    study
}

pub(super) fn dump(study: &Study, vault: &str) -> String {
    let run = study.run(&["dump", vault]);
    run.says(0, &[]);
    run.out
}

/// Everything that everyone may see of the declarations and of what is spent.
fn shown(study: &Study, vault: &str) -> Vec<String> {
    let statements = [
        "SHOW TABLES",
        "SHOW PRIVACY",
        "SHOW PRIVACY BUDGET",
        "DESCRIBE people",
        "DESCRIBE \"Visits \"\"at\"\" night's\"",
        "DESCRIBE a_reads_b",
        "SHOW CREATE VIEW b_is_read",
        "SHOW CREATE TABLE \"Visits \"\"at\"\" night's\"",
        "SHOW CREATE BUDGET \"all; of 'it\"",
    ];
    let ask = |sql: &&str| {
        let run = study.run(&[vault, "--owner", "--format", "csv", "-c", sql]);
        run.says(0, &[]);
        run.out
    };
    statements.iter().map(ask).collect()
}

#[test]
fn a_dump_rebuilds_the_declarations_and_what_is_spent() {
    let study = study();
    let script = dump(&study, "study.db");
    study.write("dump.sql", &script);
    study.run(&["init", "other.db"]).says(0, &[]);
    study.run(&["other.db", "--owner", "-f", "dump.sql"]).says(0, &[]);
    assert_eq!(shown(&study, "study.db"), shown(&study, "other.db"), "{script}");
    assert_eq!(script, dump(&study, "other.db"));
    study.run(&["check", "other.db"]).says(0, &["is sound"]);
    // What is spent is there, and binds.
    assert!(script.contains("SPENT (epsilon=3, rho="), "{script}");
    assert!(script.contains(", releases=2, dearest=2)"), "{script}");
    let ask =
        ["other.db", "--analyst", "lab", "-c", "SELECT LAPLACE(eps=0.1) COUNT(*) FROM people"];
    // Of the slice of four, three were spent here.
    study.run(&ask).says(0, &["ε = 0.9"]);
    let ask = |eps: &str| format!("SELECT LAPLACE(eps={eps}) COUNT(*) FROM people");
    let run = |analyst: &str, sql: &str| study.run(&["other.db", "--analyst", analyst, "-c", sql]);
    run("lab", &ask("1")).says(4, &["the slice `lab`", "only ε = 0.9, δ = 1e-7 is left"]);
    run("Eve-2", &ask("0.6")).says(4, &["the slice `Eve-2`"]);
    run("Eve-2", &ask("0.5")).says(0, &["ε = 0"]);
    run("ann", &ask("2")).says(0, &["ε = 2.5"]);
    run("bob", &ask("2")).says(0, &["ε = 0 · replayed"]);
    run("bob", &ask("1.75")).says(0, &["ε = 0.75"]);
    run("ann", &ask("1")).says(4, &["leave to everyone else", "only ε = 0.75"]);
}

/// With slices, what one analyst is shown is the same to the letter whatever another asks, but for
/// the ledger, which everyone reads.
#[test]
fn transcripts_of_one_analyst_do_not_depend_on_another() {
    let worlds = [Study::with_people(), Study::with_people()];
    for world in &worlds {
        world
            .owner(
                "ALTER PRIVACY BUDGET b SET LIMIT (epsilon=10, delta=1e-5);
                 ALTER PRIVACY BUDGET b ADD SLICE lab LIMIT (epsilon=2, delta=1e-6);
                 CREATE PRIVACY BUDGET curve FOR people LIMIT (rho=8) SLICE lab LIMIT (rho=1.5)",
            )
            .says(0, &[]);
    }
    // Whatever the noise, it is the same text.
    let count = |eps: &str| {
        format!(
            "SELECT n > -1000000 AS answered FROM (SELECT LAPLACE(eps={eps}) COUNT(*) AS n FROM people) AS c"
        )
    };
    let statements = [
        "SHOW PRIVACY BUDGET".to_owned(),
        "EXPLAIN PRIVACY SELECT LAPLACE(eps=1) COUNT(*) FROM people".to_owned(),
        count("1"),
        "SHOW PRIVACY BUDGET b BY ANALYST".to_owned(),
        count("1.5"),
        count("0.5"),
        "SHOW PRIVACY; SHOW PRIVACY BUDGET BY MONTH".to_owned(),
        count("0.5"),
        count("0.25"),
        "EXPLAIN PRIVACY FORMAT JSON SELECT LAPLACE(eps=1) COUNT(*) FROM people".to_owned(),
        "SHOW PRIVACY BUDGET BY DAY".to_owned(),
    ];
    let mut refused = 0;
    for (at, statement) in statements.iter().enumerate() {
        // Another analyst asks in one world, and at last spends all that there is for everyone
        // else.
        let asked = worlds[0].run(&[
            "study.db",
            "--analyst",
            "eve",
            "--keep-going",
            "-c",
            &format!("{}; {}", count("1"), count(if at > 4 { "5" } else { "0.1" })),
        ]);
        assert!(matches!(asked.status, 0 | 4), "{asked:?}");
        for format in ["table", "json"] {
            if format == "table" && statement.starts_with("SELECT") {
                continue;
            }
            let [one, other] = worlds.each_ref().map(|world| {
                world.run(&["study.db", "--analyst", "lab", "--format", format, "-c", statement])
            });
            assert_eq!((&one.out, &one.err), (&other.out, &other.err), "{statement}");
            assert_eq!(one.status, other.status, "{statement}");
            refused += usize::from(one.status == 4);
        }
    }
    assert_eq!(refused, 2);
    let ledgers = worlds.each_ref().map(|world| world.spent().0);
    assert!(ledgers[0] > ledgers[1], "{ledgers:?}");
    let owner = worlds[0].owner("SHOW PRIVACY BUDGET b BY ANALYST");
    owner.says(0, &[]);
    assert!(owner.out.contains("everyone else") && owner.out.contains("eve"), "{owner:?}");
}

/// Roles are carried over with their times and slices; what is known of their passwords only where
/// it is asked for.
#[test]
fn a_dump_rebuilds_roles() {
    let study = Study::with_people();
    study
        .owner(
            "CREATE ROLE lab LOGIN PASSWORD 'correct horse' VALID UNTIL '2099-01-01 12:30';
             CREATE ROLE \"co-lab\" NOLOGIN NODEFAULTS PASSWORD 'battery staple';
             CREATE ROLE late;
             GRANT SELECT ON people TO \"co-lab\"; GRANT USAGE ON BUDGET b TO \"co-lab\";
             GRANT \"co-lab\" TO lab, late; SET GRANTS REQUIRED;
             ALTER PRIVACY BUDGET b ADD SLICE \"co-lab\" LIMIT (epsilon=1)",
        )
        .says(0, &["role late: may log in, once it has a password: ALTER ROLE late PASSWORD"]);
    let roles = |vault: &str| {
        let run = study.run(&[vault, "--owner", "--format", "csv", "-c", "SHOW ROLES"]);
        run.says(0, &[]);
        run.out
    };
    let before = roles("study.db");
    assert!(before.contains("lab,true,2099-01-01"), "{before}");
    assert!(before.contains("late,false,"), "{before}");
    let plain = dump(&study, "study.db");
    assert!(
        !plain.contains("SCRAM") && plain.contains("-- Roles have no passwords here."),
        "{plain}"
    );
    assert!(plain.contains("CREATE ROLE \"co-lab\" NOLOGIN NODEFAULTS;"), "{plain}");
    assert!(plain.contains("CREATE ROLE lab LOGIN VALID UNTIL '2099-01-01 12:30:00';"), "{plain}");
    for grant in [
        "GRANT SELECT ON people TO \"co-lab\";",
        "GRANT USAGE ON BUDGET b TO \"co-lab\";",
        "GRANT \"co-lab\" TO lab;",
        "SET GRANTS REQUIRED;",
    ] {
        assert!(plain.contains(grant), "{plain}");
    }
    let whole = study.run(&["dump", "study.db", "--verifiers"]);
    whole.says(0, &[]);
    let whole = whole.out;
    assert_eq!(whole.matches("PASSWORD 'SCRAM-SHA-256$4096:").count(), 2, "{whole}");
    assert!(whole.contains("CREATE ROLE late LOGIN;"), "{whole}");
    assert!(whole.lines().any(|line| line.starts_with("-- It has verifiers")), "{whole}");
    for (name, script) in [("plain", &plain), ("whole", &whole)] {
        let (vault, file) = (format!("{name}.db"), format!("{name}.sql"));
        study.write(&file, script);
        study.run(&["init", &vault]).says(0, &[]);
        study.run(&[&vault, "--owner", "-f", &file]).says(0, &[]);
        assert!(dump(&study, &vault).contains("SLICE \"co-lab\""), "{script}");
        // The script leaves the history without anything of a password.
        let history = ["--owner", "-c", "SHOW PRIVACY HISTORY"];
        let run = study.run(&[&[vault.as_str()], history.as_slice()].concat());
        assert!(run.status == 0 && !run.out.contains("SCRAM"), "{run:?}");
    }
    assert_eq!(roles("whole.db"), before);
    assert_eq!(study.run(&["dump", "whole.db", "--verifiers"]).out, whole);
    assert_eq!(roles("plain.db"), before.replace("lab,true", "lab,false"));
    assert_eq!(dump(&study, "plain.db"), plain);
    // A role gets its password, and keeps its time.
    study.run(&["plain.db", "--owner", "-c", "ALTER ROLE lab PASSWORD 'a new horse'"]).says(0, &[]);
    assert_eq!(roles("plain.db"), before);
}

/// In its own vault a dump gives nothing back, and adds nothing that is spent already.
#[test]
fn a_dump_that_is_run_again_gives_nothing_back() {
    let study = study();
    let script = dump(&study, "study.db");
    study.write("dump.sql", &script);
    study.lab("SELECT LAPLACE(eps=1) COUNT(*) FROM people").says(0, &[]);
    let before = (study.spent(), dump(&study, "study.db"));
    study.run(&["study.db", "--owner", "--keep-going", "-f", "dump.sql"]).says(1, &["already"]);
    assert_eq!(before, (study.spent(), dump(&study, "study.db")));
    study.write(
        "again.sql",
        script.replace("CREATE PRIVACY BUDGET", "CREATE OR REPLACE PRIVACY BUDGET"),
    );
    study.run(&["study.db", "--owner", "--keep-going", "-f", "again.sql"]).says(1, &["already"]);
    assert_eq!(before, (study.spent(), dump(&study, "study.db")));
}

/// What was spent on tables that are gone, or that have no budget now, is not forgotten; nor are
/// joined people.
#[test]
fn a_dump_remembers_what_no_budget_shows() {
    let study = Study::with_people();
    study.write("visits.csv", "visit,person\n1,1\n2,1\n");
    study
        .owner(
            "ALTER TABLE people SET PRIVACY UNIT (id);
             CREATE EXTERNAL TABLE visits STORED AS CSV LOCATION 'visits.csv';
             ALTER TABLE visits SET PRIVACY UNIT (person);
             CREATE PRIVACY BUDGET v FOR visits LIMIT (epsilon=10)",
        )
        .says(0, &[]);
    study.lab("SELECT LAPLACE(eps=1, rows=1) COUNT(*) FROM people").says(0, &[]);
    study.lab("SELECT LAPLACE(eps=2, rows=1) COUNT(*) FROM visits").says(0, &[]);
    study
        .owner(
            "ALTER TABLE visits SET PRIVACY UNIT VIA (person) REFERENCES people(id);
             ALTER TABLE visits SET PRIVACY UNIT (person);
             DROP PRIVACY BUDGET v; DROP TABLE visits",
        )
        .says(0, &[]);
    let script = dump(&study, "study.db");
    study.write("dump.sql", &script);
    study.run(&["init", "other.db"]).says(0, &[]);
    study.run(&["other.db", "--owner", "-f", "dump.sql"]).says(0, &[]);
    let rebuilt = "CREATE EXTERNAL TABLE visits STORED AS CSV LOCATION 'visits.csv';
        ALTER TABLE visits SET PRIVACY UNIT (person);
        CREATE PRIVACY BUDGET v FOR visits LIMIT (epsilon=10)";
    let run = study.run(&["other.db", "--owner", "-c", rebuilt]);
    run.says(0, &["budget v for visits: ε = 7 left"]);
    // Charges of either count for both.
    let asked = [
        "other.db",
        "--analyst",
        "lab",
        "-c",
        "SELECT LAPLACE(eps=1, rows=1) COUNT(*) FROM visits",
    ];
    study.run(&asked).says(0, &["ε = 6"]);
    let again = dump(&study, "other.db");
    assert!(again.contains("ALTER TABLE people SET PRIVACY SPENT (epsilon=4, rho="), "{again}");
    assert!(again.contains("TOGETHER WITH visits;"), "{again}");
}

/// A budget whose table has no unit cannot be rebuilt, and what was spent of it is not lost with
/// it.
#[test]
fn a_dump_remembers_what_a_table_without_a_unit_has_spent() {
    let study = Study::with_people();
    study
        .owner(
            "ALTER TABLE people SET PRIVACY UNIT (id);
             CREATE PRIVACY BUDGET p FOR people LIMIT (epsilon=10)",
        )
        .says(0, &[]);
    study.lab("SELECT LAPLACE(eps=3, rows=1) COUNT(*) FROM people").says(0, &[]);
    study
        .owner("CREATE OR REPLACE EXTERNAL TABLE people STORED AS CSV LOCATION 'people.csv'")
        .says(0, &[]);
    study.write("dump.sql", dump(&study, "study.db"));
    study.run(&["init", "other.db"]).says(0, &[]);
    study.run(&["other.db", "--owner", "-f", "dump.sql"]).says(0, &[]);
    let declared = "ALTER TABLE people SET PRIVACY UNIT (id);
        CREATE PRIVACY BUDGET p FOR people LIMIT (epsilon=10)";
    let run = study.run(&["other.db", "--owner", "-c", declared]);
    run.says(0, &["budget p for people: ε = 7 left"]);
}

/// A larger amount elsewhere is raised here; a smaller one changes nothing.
#[test]
fn a_dump_raises_what_is_spent_in_another_vault() {
    let study = Study::with_people();
    study.lab("SELECT LAPLACE(eps=1) COUNT(*) FROM people").says(0, &[]);
    let script = dump(&study, "study.db");
    study.write(
        "dump.sql",
        script.replace("CREATE PRIVACY BUDGET", "CREATE OR REPLACE PRIVACY BUDGET"),
    );
    study.run(&["init", "other.db"]).says(0, &[]);
    study.run(&["other.db", "--owner", "-f", "dump.sql"]).says(0, &[]);
    let ask = ["other.db", "--analyst", "lab", "-c", "SELECT LAPLACE(eps=1) COUNT(*) FROM people"];
    study.run(&ask).says(0, &[]);
    study.run(&["other.db", "--owner", "--keep-going", "-f", "dump.sql"]).says(1, &["already"]);
    let shown = study.run(&["other.db", "--owner", "-c", "SHOW CREATE BUDGET b"]);
    assert!(shown.out.contains("SPENT (epsilon=2, rho="), "{shown:?}");
    // Analysts neither dump nor see where files are.
    let refused = study.lab("SHOW CREATE TABLE people");
    refused.says(3, &["HQ003"]);
    assert!(!refused.err.contains("people.csv"), "{refused:?}");
    study.lab("ALTER TABLE people SET PRIVACY SPENT (epsilon=1)").says(3, &["HQ003"]);
}

/// Drafts do not depend on the file: not even on whether it is there.
#[test]
fn drafts_read_no_file() {
    let study = Study::new();
    study.write("people.csv", "user_id,age,O'Hara\n1,30,x\n2,117,y\n");
    study.owner("CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 'people.csv'").says(0, &[]);
    let ask = || study.owner("ALTER TABLE t SUGGEST PRIVACY").out;
    let drafts = ask();
    assert!(drafts.contains("SET PRIVACY UNIT (user_id);"), "{drafts}");
    assert!(drafts.contains("BETWEEN (0, 120)") && !drafts.contains("117"), "{drafts}");
    study.write("people.csv", "user_id,age,O'Hara\n5,-7,x\n9,4000,y\n");
    assert_eq!(ask(), drafts);
    std::fs::remove_file(study.path("people.csv")).unwrap();
    assert_eq!(ask(), drafts);
    study.lab("ALTER TABLE t SUGGEST PRIVACY").says(3, &["HQ003"]);
}

/// A budget beside that of the people would be a second one to spend, and the least of both would
/// decide.
#[test]
fn no_budget_is_drafted_where_the_people_have_one() {
    let study = Study::with_people();
    study.owner("ALTER TABLE people SET PRIVACY UNIT (id) UNIQUE").says(0, &[]);
    study.write("visits.csv", "visit,person_id,fee\n1,1,10\n");
    study.owner("CREATE EXTERNAL TABLE visits STORED AS CSV LOCATION 'visits.csv'").says(0, &[]);
    // Lines are as narrow as a terminal.
    let drafts = |table: &str| {
        let drafts = study.owner(&format!("ALTER TABLE {table} SUGGEST PRIVACY")).out;
        drafts.replace('│', " ").split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let linked = drafts("visits");
    assert!(linked.contains("VIA (person_id) REFERENCES people(id)"), "{linked}");
    assert!(!linked.contains("CREATE PRIVACY BUDGET"), "{linked}");
    study
        .owner("ALTER TABLE visits SET PRIVACY UNIT VIA (person_id) REFERENCES people(id)")
        .says(0, &[]);
    assert!(!drafts("visits").contains("CREATE PRIVACY BUDGET"));
    study
        .owner(
            "ALTER TABLE visits DROP PRIVACY UNIT; ALTER TABLE visits SET PRIVACY UNIT (person_id)",
        )
        .says(0, &[]);
    assert!(drafts("visits").contains("CREATE PRIVACY BUDGET visits FOR visits"));
}

/// What is found does not depend on rows, only on names, types and permissions.
#[test]
fn the_doctor_reads_no_values() {
    let study = Study::with_people();
    study.write("visits.csv", "visit,person_id,fee\n1,1,10\n2,1,7000\n");
    study.write("new.csv", "x\n1\n");
    study
        .owner(
            "ALTER TABLE people SET PRIVACY UNIT (id);
             CREATE EXTERNAL TABLE visits (visit INT, person_id VARCHAR, fee DOUBLE) STORED AS CSV LOCATION 'visits.csv';
             ALTER TABLE visits SET PRIVACY UNIT (person_id);
             CREATE EXTERNAL TABLE \"new one\" STORED AS CSV LOCATION 'new.csv'",
        )
        .says(0, &[]);
    let ask = || {
        let run = study.run(&["doctor", "study.db", "--format", "csv"]);
        run.says(0, &[]);
        run.out
    };
    let found = ask();
    for expected in [
        "no anchor",
        "hushql anchor study.db",
        "ALTER TABLE \"\"new one\"\" SUGGEST PRIVACY",
        "CREATE PRIVACY BUDGET visits FOR visits",
        "ALTER TABLE visits ALTER COLUMN fee SET PRIVACY DOMAIN BETWEEN … AND …",
        "visits.person_id,\"the column is of type VARCHAR, and people.id of type BIGINT",
        "CREATE OR REPLACE EXTERNAL TABLE visits (visit INT, person_id BIGINT, fee DOUBLE)",
    ] {
        assert!(found.contains(expected), "no `{expected}` in {found}");
    }
    assert!(!found.contains("7000") && !found.contains("MAX ROWS"), "{found}");
    study.write("visits.csv", "visit,person_id,fee\n1,9,-3\n2,9,1\n3,9,99999\n");
    assert_eq!(ask(), found);
    // The same of files without headers and of keys that only one person has.
    study.write("notes.json", "{\"id\":1}\n");
    study.write("bare.csv", "1,2\n");
    study
        .owner(
            "CREATE EXTERNAL TABLE notes STORED AS JSON LOCATION 'notes.json';
             CREATE EXTERNAL TABLE bare STORED AS CSV LOCATION 'bare.csv' OPTIONS ('has_header' 'false')",
        )
        .says(0, &[]);
    let more = ask();
    study.write("notes.json", "{\"id\":1,\"note\":\"x\"}\n{\"id\":2}\n");
    study.write("bare.csv", "\"1,2\n3\n");
    assert_eq!(ask(), more);
    study.write("visits.csv", "visit,person_id\n1,9\n");
    let other =
        "visits,the file of visits has other columns than were declared: a header without fee";
    assert!(ask().contains(other), "{}", ask());
    std::fs::remove_file(study.path("visits.csv")).unwrap();
    assert!(ask().contains("visits,the file of the table cannot be read"));
    #[cfg(unix)]
    {
        use std::fs::{Permissions, set_permissions};
        use std::os::unix::fs::PermissionsExt;
        let set = |name: &str, mode| {
            set_permissions(study.path(name), Permissions::from_mode(mode)).unwrap();
        };
        for mode in [0o640, 0o604, 0o620] {
            set("people.csv", mode);
            set("study.db", mode);
            let found = ask();
            assert!(found.contains("chmod 600 study.db"), "{mode:o}: {found}");
            assert!(found.contains("people,other users of this machine may open"), "{found}");
        }
        set("people.csv", 0o600);
        set("study.db", 0o600);
        assert!(!ask().contains("people,other users"));
        assert!(!ask().contains("chmod 600 study.db"));
    }
}

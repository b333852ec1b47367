//! A vault whose declarations are a file, whose tables are loaded every night, and whose budgets
//! need two hands.

use super::owners::{dump, study};
use super::program::{Run, Study};

fn apply(study: &Study, vault: &str, file: &str, more: &[&str]) -> Run {
    study.run(&[&["apply", vault, file], more].concat())
}

#[test]
fn apply_is_the_inverse_of_dump() {
    let study = study();
    study
        .owner(
            "CREATE ROLE clinic NOLOGIN; CREATE ROLE eve;
             GRANT SELECT ON people TO clinic; GRANT SELECT ON people, wards TO eve;
             GRANT USAGE ON ALL BUDGETS TO clinic; GRANT clinic TO eve; SET GRANTS REQUIRED",
        )
        .says(0, &[]);
    let script = dump(&study, "study.db");
    // A grant of one table to one role reads like one of a release table.
    assert!(script.contains("GRANT SELECT ON people TO clinic"), "{script}");
    study.write("dump.sql", &script);
    apply(&study, "study.db", "dump.sql", &["--plan"]).says(0, &["nothing to do"]);
    study.run(&["init", "other.db"]).says(0, &[]);
    let plan = apply(&study, "other.db", "dump.sql", &["--plan"]);
    plan.says(0, &["statements to run"]);
    assert!(plan.out.contains("CREATE EXTERNAL TABLE people"), "{}", plan.out);
    // A plan changes nothing.
    assert!(!dump(&study, "other.db").contains("people"));
    apply(&study, "other.db", "dump.sql", &[]).says(0, &["carried out"]);
    assert_eq!(dump(&study, "other.db"), script);
    apply(&study, "other.db", "dump.sql", &[]).says(0, &["nothing to do"]);
}

/// A vault with one table, and a file that says more.
fn small() -> Study {
    let study = Study::new();
    study.write("visits.csv", "patient,cost,ward\n1,5,A\n1,7,B\n2,9,A\n3,4,B\n");
    study.owner(FIRST).says(0, &[]);
    study
}

const FIRST: &str = "CREATE EXTERNAL TABLE visits STORED AS CSV LOCATION 'visits.csv';
ALTER TABLE visits SET PRIVACY UNIT (patient) MAX ROWS 4;
ALTER TABLE visits ALTER COLUMN cost SET PRIVACY DOMAIN BETWEEN (0, 100);
CREATE PRIVACY BUDGET study FOR visits LIMIT (epsilon=5) PER QUERY (max=2) SLICE lab LIMIT (epsilon=2);
CREATE VIEW dear AS SELECT patient FROM visits WHERE cost > 50;
CREATE ROLE lab LOGIN PASSWORD 'correct horse battery'";

#[test]
fn apply_alters_what_differs_and_nothing_else() {
    let study = small();
    study.write("first.sql", FIRST);
    apply(&study, "study.db", "first.sql", &[]).says(0, &["nothing to do"]);
    study.lab("SELECT LAPLACE(eps=1) COUNT(*) FROM visits").says(0, &[]);
    let second = FIRST
        .replace("BETWEEN (0, 100)", "BETWEEN (0, 200)")
        .replace("(epsilon=5)", "(epsilon=6)")
        .replace("PER QUERY (max=2)", "PER QUERY (max=3)")
        .replace("LIMIT (epsilon=2)", "LIMIT (epsilon=3)")
        .replace("cost > 50", "cost > 60")
        .replace("ROLE lab LOGIN", "ROLE lab NODEFAULTS LOGIN")
        + "; ALTER TABLE visits SET PRIVACY FLOOR 10 (beta=0.01); ALTER TABLE visits SET RULES (no_key=(ward)); CREATE ROLE eve LOGIN PASSWORD 'another horse battery'; ALTER TABLE visits SET RULES (join_only=(cost)) FOR eve";
    study.write("second.sql", &second);
    let plan = apply(&study, "study.db", "second.sql", &["--plan"]);
    plan.says(0, &["10 statements to run"]);
    for line in [
        "ALTER TABLE visits ALTER COLUMN cost SET PRIVACY DOMAIN BETWEEN (0, 200);",
        "ALTER TABLE visits SET PRIVACY FLOOR 10 (beta=0.01);",
        "ALTER TABLE visits SET RULES (no_key=(ward));",
        "ALTER TABLE visits SET RULES (join_only=(cost)) FOR eve;",
        "ALTER PRIVACY BUDGET study SET LIMIT (epsilon=6);",
        "ALTER PRIVACY BUDGET study SET PER QUERY (max=3);",
        "ALTER PRIVACY BUDGET study ALTER SLICE lab SET LIMIT (epsilon=3);",
        "CREATE ROLE eve LOGIN PASSWORD '…';",
    ] {
        assert!(plan.out.contains(line), "{line}: {}", plan.out);
    }
    assert!(!plan.out.contains("another horse") && !plan.out.contains("UNIT"), "{}", plan.out);
    apply(&study, "study.db", "second.sql", &[]).says(0, &["10 statements carried out"]);
    apply(&study, "study.db", "second.sql", &[]).says(0, &["nothing to do"]);
    // What was spent stays spent, and the way back lowers slices before their limit.
    assert!(study.owner("SHOW PRIVACY BUDGET study").out.contains("ε = 1"), "spent");
    apply(&study, "study.db", "first.sql", &[])
        .says(0, &["only in the vault, and stays: role eve"]);
    apply(&study, "study.db", "first.sql", &[]).says(0, &["nothing to do"]);
    assert!(dump(&study, "study.db").contains("CREATE ROLE eve"));
}

#[test]
fn a_file_with_a_mistake_changes_nothing() {
    let study = small();
    let before = dump(&study, "study.db");
    let raised = FIRST.replace("(epsilon=5)", "(epsilon=50)");
    for (more, says) in [
        ("SELECT 1", "line 7"),
        ("ALTER TABLE visits REFRESH", "hushql reload VAULT visits"),
        ("CREATE PRIVACY BUDGET b FOR nothing LIMIT (epsilon=1)", "nothing"),
        ("ALTER TABLE visits SET PRIVACY UNIT (patient) MAX ROWS 1", "more than 1 rows"),
        ("CREATE EXTERNAL", "syntax"),
    ] {
        study.write("bad.sql", format!("{raised};\n{more}"));
        apply(&study, "study.db", "bad.sql", &[]).says(1, &[says]);
        assert_eq!(dump(&study, "study.db"), before, "{more}");
    }
    apply(&study, "study.db", "missing.sql", &[]).says(1, &["missing.sql"]);
    study.write("empty.sql", "-- nothing\n");
    apply(&study, "study.db", "empty.sql", &[]).says(0, &["stays: table visits", "nothing to do"]);
    // What fails only on the vault says how far it came.
    study.lab("SELECT LAPLACE(eps=1.5) COUNT(*) FROM visits").says(0, &[]);
    study.write("less.sql", FIRST.replace("LIMIT (epsilon=2)", "LIMIT (epsilon=4.9)"));
    study.owner("SELECT LAPLACE(eps=1) COUNT(*) FROM visits").says(0, &[]);
    apply(&study, "study.db", "less.sql", &[]).says(1, &["0 of 1 statements are carried out"]);
}

#[test]
fn a_load_is_verified_and_keeps_its_declarations() {
    let study = small();
    let count = "SELECT LAPLACE(eps=0.5) COUNT(*) FROM visits";
    study.lab(count).says(0, &["cost ε = 0.5"]);
    let before = dump(&study, "study.db");
    study.write("visits.csv", "patient,cost,ward\n1,5,A\n2,9,A\n3,4,B\n4,4,B\n");
    study.lab(count).says(3, &["HQ028"]);
    let told = study.run(&["reload", "study.db"]);
    told.says(0, &["table visits is reloaded", "Ended: replays of answers to its earlier rows"]);
    assert_eq!(dump(&study, "study.db"), before);
    // A question is paid again, because it is about other rows.
    study.lab(count).says(0, &["cost ε = 0.5"]);
    // Rows that break MAX ROWS stay out, and the earlier declaration stays.
    study.write("visits.csv", "patient,cost,ward\n".to_owned() + &"1,5,A\n".repeat(5));
    let run = study.run(&["reload", "study.db", "visits"]);
    run.says(1, &["a unit of visits has more than 4 rows"]);
    study.lab(count).says(3, &["HQ028"]);
    study.run(&["reload", "study.db", "nothing"]).says(1, &["there is no table"]);
    study.run(&["reload"]).says(2, &[]);
    study.lab("ALTER TABLE visits RELOAD").says(3, &["only the owner"]);
}

/// REFRESH accepts no other files than the verified ones in a folder; RELOAD verifies them again.
#[test]
fn a_folder_is_verified_again() {
    let study = Study::new();
    std::fs::create_dir(study.path("days")).unwrap();
    study.write("days/1.csv", "id,n\n1,1\n2,1\n");
    study
        .owner(
            "CREATE EXTERNAL TABLE days STORED AS CSV LOCATION 'days/';
             ALTER TABLE days SET PRIVACY UNIT (id) MAX ROWS 2;
             CREATE PRIVACY BUDGET b FOR days LIMIT (epsilon=5)",
        )
        .says(0, &[]);
    study.write("days/2.csv", "id,n\n1,1\n3,1\n");
    study.owner("ALTER TABLE days RELOAD").says(0, &["is reloaded"]);
    study.lab("SELECT LAPLACE(eps=1) COUNT(*) FROM days").says(0, &[]);
    study.write("days/3.csv", "id,n\n1,1\n");
    study.owner("ALTER TABLE days RELOAD").says(1, &["more than 2 rows"]);
}

/// A copy that a load has brought under another name is a second budget for the same people.
#[test]
fn a_load_does_not_declare_other_people() {
    let study = small();
    study.write("copy.csv", "patient,cost,ward\n7,5,A\n");
    study
        .owner(
            "CREATE EXTERNAL TABLE copy STORED AS CSV LOCATION 'copy.csv';
             ALTER TABLE copy SET PRIVACY UNIT (patient)",
        )
        .says(0, &[]);
    study.write("copy.csv", std::fs::read(study.path("visits.csv")).unwrap());
    study.owner("ALTER TABLE copy RELOAD").says(1, &["OTHER PEOPLE THAN visits"]);
}

#[test]
fn cells_end_with_a_load_and_the_owner_is_told() {
    let study = Study::new();
    study.write("people.csv", "id,region\n1,Oslo\n2,Rome\n");
    study
        .owner(
            "CREATE EXTERNAL TABLE people STORED AS CSV LOCATION 'people.csv';
             ALTER TABLE people SET PRIVACY UNIT (id) UNIQUE;
             ALTER TABLE people ALTER COLUMN region SET PRIVACY DOMAIN IN ('Oslo', 'Rome');
             CREATE PRIVACY BUDGET b FOR people LIMIT (epsilon=5) PARTITION BY region",
        )
        .says(0, &[]);
    study.lab("SELECT LAPLACE(eps=1) COUNT(*) FROM people WHERE region = 'Oslo'").says(0, &[]);
    study.write("people.csv", "id,region\n1,Rome\n2,Rome\n");
    let told = study.owner("ALTER TABLE people RELOAD");
    told.says(0, &["the cells of budget b by region, because people may have moved"]);
    let left = study.owner("SHOW PRIVACY BUDGET b BY CELL").out;
    assert!(!left.contains("ε = 5"), "{left}");
}

#[test]
fn a_budget_needs_two_hands() {
    let study = small();
    let eve = |sql: &str| study.run(&["study.db", "--analyst", "eve", "-c", sql]);
    let ask = "REQUEST PRIVACY BUDGET study ADD (epsilon=1) REASON 'the second year'";
    let told = study.lab(ask);
    told.says(0, &["ε = 1 more for budget study; the owner decides"]);
    let number = |told: &str| -> String {
        let from = told.chars().skip_while(|c| !c.is_ascii_digit());
        from.take_while(char::is_ascii_digit).collect()
    };
    let digits = number(&told.err);
    eve("REQUEST PRIVACY BUDGET study ADD (epsilon=2) REASON 'a secret of eve'").says(0, &[]);
    // Each sees the own requests, the owner all.
    for sql in ["SHOW PRIVACY REQUESTS", "SHOW PRIVACY HISTORY"] {
        let (lab, owner) = (study.lab(sql).out, study.owner(sql).out);
        assert!(lab.contains("the second year") && !lab.contains("secret"), "{lab}");
        assert!(owner.contains("the second year") && owner.contains("secret"), "{owner}");
    }
    study.lab(&format!("APPROVE REQUEST {digits}")).says(3, &["only the owner's session approves"]);
    study.owner(&format!("APPROVE REQUEST {digits}")).says(0, &["is approved", "ε = 6 left"]);
    study.owner(&format!("APPROVE REQUEST {digits}")).says(1, &["decided already"]);
    assert!(study.lab("SHOW PRIVACY REQUESTS").out.contains("approved"), "approved");
    assert!(!eve("SHOW PRIVACY HISTORY").out.contains("approved"), "eve");
    // The slice of whoever asked has grown, too.
    let dumped = dump(&study, "study.db");
    assert!(
        dumped.contains("LIMIT (epsilon=6)") && dumped.contains("SLICE lab LIMIT (epsilon=3)"),
        "{dumped}"
    );
    for (sql, says) in [
        ("REQUEST PRIVACY BUDGET study ADD (rho=1) REASON 'x'", "ADD (epsilon=1)"),
        ("REQUEST PRIVACY BUDGET nothing ADD (epsilon=1) REASON 'x'", "there is no privacy budget"),
        ("REQUEST PRIVACY BUDGET study ADD (epsilon=1) REASON ''", "one line"),
        ("REQUEST PRIVACY BUDGET study ADD (epsilon=1) REASON 'a\nb'", "one line"),
        ("REQUEST PRIVACY BUDGET study ADD (epsilon=1)", "REASON"),
    ] {
        study.lab(sql).says(1, &[says]);
    }
    study.owner(ask).says(3, &["the owner raises a limit"]);
    study.owner("DENY REQUEST 999").says(1, &["there is no request 999"]);
    // A budget of the same name is another one.
    let open = eve("REQUEST PRIVACY BUDGET study ADD (epsilon=2) REASON 'for the old one'").err;
    let digits = number(&open);
    study
        .owner(
            "DROP PRIVACY BUDGET study; CREATE PRIVACY BUDGET study FOR visits LIMIT (epsilon=7)",
        )
        .says(0, &[]);
    let said = study.owner(&format!("APPROVE REQUEST {digits}"));
    said.says(1, &["decided already"]);
    assert!(study.owner("SHOW PRIVACY REQUESTS").out.contains("the budget was dropped"), "open");
    // A dropped role leaves no request open, and a new one of its name sees none.
    study.owner("DROP ROLE lab").says(0, &[]);
    assert!(!study.lab("SHOW PRIVACY REQUESTS").out.contains("the second year"), "inherited");
}

/// Who takes something away in the file would believe that it is gone.
#[test]
fn a_file_of_declarations_takes_nothing_away() {
    let study = small();
    study.owner("CREATE ROLE eve; GRANT SELECT ON visits TO eve").says(0, &[]);
    for line in [
        "REVOKE SELECT ON visits FROM eve",
        "REVOKE USAGE ON BUDGET study FROM eve",
        "DROP ROLE IF EXISTS eve",
        "DROP VIEW IF EXISTS dear",
        "DROP TABLE IF EXISTS visits",
        "DROP PRIVACY BUDGET IF EXISTS study",
        "SET GRANTS NOT REQUIRED",
    ] {
        study.write("less.sql", format!("{FIRST};\n{line}"));
        let run = apply(&study, "study.db", "less.sql", &["--plan"]);
        run.says(1, &["takes nothing away", &format!("--owner -c \"{line}\"")]);
    }
    study.write("first.sql", FIRST);
    let run = apply(&study, "study.db", "first.sql", &[]);
    run.says(
        0,
        &["only in the vault, and stays", "all that the file says, and what is named above"],
    );
}

/// What the owner says of people is in a dump; what files have come to hold since is not.
#[test]
fn a_dump_says_nothing_that_the_owner_did_not_say() {
    let study = Study::new();
    let rows = "id,age\n1,30\n2,41\n";
    for name in ["first", "second", "third"] {
        study.write(
            &format!("{name}.csv"),
            rows.replace("30", if name == "third" { "31" } else { "30" }),
        );
        study
            .owner(&format!("CREATE EXTERNAL TABLE {name} STORED AS CSV LOCATION '{name}.csv'"))
            .says(0, &[]);
    }
    study
        .owner(
            "ALTER TABLE first SET PRIVACY UNIT (id) UNIQUE; ALTER TABLE third SET PRIVACY UNIT (id) UNIQUE;
             ALTER TABLE second SET PRIVACY UNIT (id) UNIQUE OTHER PEOPLE THAN first",
        )
        .says(0, &[]);
    assert!(dump(&study, "study.db").contains("OTHER PEOPLE THAN first"));
    study.write("third.csv", rows);
    let dumped = dump(&study, "study.db");
    assert_eq!(dumped.matches("OTHER PEOPLE THAN").count(), 1, "{dumped}");
}

/// What was declared of one file is not taken for what another file holds: its people would have
/// two budgets, or be shown to anyone.
#[test]
fn no_table_comes_to_hold_the_rows_of_another_one() {
    let study = Study::new();
    let people = "id,age\n1,30\n2,41\n3,52\n";
    study.write("people.csv", people);
    study.write("others.csv", "id,age\n7,30\n8,41\n");
    study.write("towns.csv", "id,age\n0,1\n");
    study
        .owner(
            "CREATE EXTERNAL TABLE people STORED AS CSV LOCATION 'people.csv';
             CREATE EXTERNAL TABLE others STORED AS CSV LOCATION 'others.csv';
             CREATE EXTERNAL TABLE towns STORED AS CSV LOCATION 'towns.csv';
             ALTER TABLE people SET PRIVACY UNIT (id) UNIQUE; ALTER TABLE others SET PRIVACY UNIT (id) UNIQUE;
             ALTER TABLE towns SET PUBLIC",
        )
        .says(0, &[]);
    for again in ["REFRESH", "RELOAD"] {
        study.owner(&format!("ALTER TABLE others {again}; ALTER TABLE towns {again}")).says(0, &[]);
    }
    study.write("others.csv", people);
    study.write("towns.csv", people);
    for again in ["REFRESH", "RELOAD"] {
        let run = study.owner(&format!("ALTER TABLE others {again}"));
        run.says(1, &["towns is public, so anyone can read"]);
        let run = study.owner(&format!("ALTER TABLE towns {again}"));
        run.says(1, &["is private, so its rows cannot be public"]);
    }
    let doctor = study.run(&["doctor", "study.db", "--format", "csv"]);
    doctor.says(0, &[]);
    assert!(doctor.out.contains("is private, so its rows cannot be public"), "{}", doctor.out);
    study.owner("DROP TABLE towns").says(0, &[]);
    for again in ["REFRESH", "RELOAD"] {
        let run = study.owner(&format!("ALTER TABLE others {again}"));
        run.says(1, &["the same people would have two budgets", "OTHER PEOPLE THAN people"]);
    }
    // What the owner declares to be about other people is.
    study.write("others.csv", "id,age\n7,30\n8,41\n");
    study.owner("ALTER TABLE others REFRESH").says(0, &[]);
}

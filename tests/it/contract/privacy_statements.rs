//! What a budget promises, in sentences, as a page and as a record: for owners and for analysts.

use serde_json::Value;

use super::program::Study;

/// Visits of three people, and prescriptions that lead to them.
fn study() -> Study {
    let study = Study::new();
    study.write("visits.csv", "patient,cost\n1,5\n1,7\n2,9\n3,4\n");
    study
        .owner(
            "CREATE EXTERNAL TABLE visits STORED AS CSV LOCATION 'visits.csv';
             ALTER TABLE visits SET PRIVACY UNIT (patient) MAX ROWS 4;
             CREATE PRIVACY BUDGET \"a <b>\" FOR visits LIMIT (epsilon=2)",
        )
        .says(0, &[]);
    study
}

/// The statement of a budget, as one text.
fn statement(study: &Study, analyst: &str, budget: &str) -> String {
    let sql = format!("SHOW PRIVACY STATEMENT FOR \"{budget}\"");
    let run = study.run(&["study.db", "--analyst", analyst, "--format", "csv", "-c", &sql]);
    run.says(0, &[]);
    run.out
}

#[test]
fn a_statement_has_the_numbers_of_the_formula() {
    let study = study();
    let told = statement(&study, "lab", "a <b>");
    assert!(told.contains("all rows of visits with one value of patient."), "{told}");
    assert!(told.contains("at most ε = 2 about one person"), "{told}");
    assert!(told.contains("Nothing is spent so far"), "{told}");
    // p·e^ε/(p·e^ε + 1 − p) for ε = 2, and for ε = 4, rounded up.
    for numbers in [
        [
            "with 1 % that a person is in the data believes it after all answers with at most 6.95 %.",
            "with at most 35.55 %.",
        ],
        [
            "with 10 % that a person is in the data believes it after all answers with at most 45.09 %.",
            "with at most 85.85 %.",
        ],
        [
            "with 50 % that a person is in the data believes it after all answers with at most 88.08 %.",
            "with at most 98.21 %.",
        ],
    ] {
        assert!(numbers.iter().all(|number| told.contains(number)), "{numbers:?}: {told}");
    }
    study.lab("SELECT LAPLACE(eps=0.5) COUNT(*) FROM visits").says(0, &[]);
    let told = statement(&study, "lab", "a <b>");
    assert!(told.contains("Spent so far: ε = 0.5. Left: ε = 1.5."), "{told}");
}

/// A limit below what is spent promises less than it says.
#[test]
fn a_lowered_limit_does_not_promise_more() {
    let study = study();
    study.lab("SELECT LAPLACE(eps=1.5) COUNT(*) FROM visits").says(0, &[]);
    study.owner("ALTER PRIVACY BUDGET \"a <b>\" SET LIMIT (epsilon=1)").says(0, &[]);
    let told = statement(&study, "lab", "a <b>");
    assert!(told.contains("at most ε = 1.5 about one person"), "{told}");
}

/// With slices, a statement tells an analyst nothing of what others spent.
#[test]
fn a_statement_shows_what_show_shows() {
    let study = study();
    study.owner("ALTER PRIVACY BUDGET \"a <b>\" ADD SLICE lab LIMIT (epsilon=1)").says(0, &[]);
    let before = statement(&study, "eve", "a <b>");
    study.lab("SELECT LAPLACE(eps=0.5) COUNT(*) FROM visits").says(0, &[]);
    assert_eq!(statement(&study, "eve", "a <b>"), before);
    assert!(statement(&study, "lab", "a <b>").contains("of the slice of lab: ε = 0.5."), "lab");
    study.lab("SHOW PRIVACY STATEMENT FOR nothing").says(1, &["there is no privacy budget"]);
    study.lab("SHOW PRIVACY STATEMENT").says(1, &["STATEMENT"]);
}

#[test]
fn reports_are_texts_pages_and_records() {
    let study = study();
    let text = study.run(&["report", "study.db"]).out;
    assert!(text.contains("Privacy statement of a <b>") && text.contains("Not covered"), "{text}");
    let page = study.run(&["report", "study.db", "--html"]);
    assert!(page.out.contains("<h1>Privacy statement of a &lt;b&gt;</h1>"), "{}", page.out);
    assert!(!page.out.contains("<script") && !page.out.contains("://"), "{}", page.out);
    let record = study.run(&["report", "study.db", "--registry"]);
    let record: Value = serde_json::from_str(&record.out).unwrap();
    let deployment = &record["deployment"];
    assert_eq!(deployment["dp_variant"]["variant_name"], "Pure DP");
    assert_eq!(deployment["privacy_loss"]["privacy_parameters"]["epsilon"], 2.0);
    assert_eq!(deployment["deployment_model"]["data_source_type"], "Static");
    assert_eq!(record["url_slug"], "a--b-");
    for field in ["name", "data_curators", "intended_use", "data_product_type", "publication_date"]
    {
        assert!(!deployment["basic"][field].is_null(), "{field}");
    }
    study.owner("CREATE PRIVACY BUDGET rho FOR visits LIMIT (rho=0.5, delta=1e-6)").says(0, &[]);
    study.run(&["report", "study.db", "--registry"]).says(1, &["a <b>, rho"]);
    let record = study.run(&["report", "study.db", "rho", "--registry"]);
    let record: Value = serde_json::from_str(&record.out).unwrap();
    assert_eq!(record["deployment"]["dp_variant"]["variant_name"], "Custom");
    assert_eq!(record["deployment"]["privacy_loss"]["privacy_parameters"]["rho"], 0.5);
    study.run(&["report", "study.db", "none"]).says(1, &["there is no privacy budget"]);
    study.run(&["report", "study.db", "--html", "--registry"]).says(2, &[]);
    let empty = Study::new();
    empty.run(&["report", "study.db"]).says(1, &["CREATE PRIVACY BUDGET"]);
}

#[test]
fn owners_are_warned_of_limits_that_promise_little() {
    let study = study();
    let limit = |limit: &str| {
        study.owner(&format!("ALTER PRIVACY BUDGET \"a <b>\" SET LIMIT ({limit})")).err
    };
    assert!(!limit("epsilon=10").contains("warning"));
    assert!(limit("epsilon=10.1").contains("more than 10: whoever believes with 1 %"));
    assert!(!limit("epsilon=1, delta=0.0001").contains("warning"));
    let about = study.owner("ALTER TABLE visits SET ABOUT 1000 PEOPLE");
    about.says(0, &["about 1000 people, as you state it", "not below 1/(10·1000)"]);
    assert!(limit("epsilon=1, delta=0.0001").contains("δ = 1e-4 is not below 1/(10·1000)"));
    assert!(!limit("epsilon=1, delta=0.00009").contains("warning"));
    study.owner("CREATE PRIVACY BUDGET r FOR visits LIMIT (rho=2)").says(0, &["ε = 11.689"]);
    for (sql, says) in [
        ("ALTER TABLE visits SET ABOUT 0 PEOPLE", "at least 1"),
        ("ALTER TABLE visits SET ABOUT many PEOPLE", "many"),
        ("ALTER TABLE nothing SET ABOUT 5 PEOPLE", "nothing"),
        ("ALTER TABLE visits SET ABOUT 5", "PEOPLE"),
    ] {
        let run = study.owner(sql);
        assert!(run.status != 0 && run.err.contains(says), "{sql}: {}", run.err);
    }
    study.lab("ALTER TABLE visits SET ABOUT 5 PEOPLE").says(3, &["only the owner"]);
    study.owner("ALTER TABLE visits DROP ABOUT").says(0, &["no longer states"]);
    assert!(!limit("epsilon=1, delta=0.0001").contains("warning"));
}

/// A budget outlives the privacy of its table; then it promises nothing.
#[test]
fn nothing_is_promised_about_rows_that_are_public() {
    let study = study();
    for (declare, says) in [
        ("ALTER TABLE visits SET PUBLIC", "visits is public, so anyone may see its rows"),
        ("ALTER TABLE visits DROP PRIVACY UNIT", "nobody has declared who is protected in visits"),
    ] {
        study.owner(declare).says(0, &[]);
        for told in [statement(&study, "lab", "a <b>"), study.run(&["report", "study.db"]).out] {
            assert!(told.contains(&format!("Nothing is promised: {says}")), "{told}");
            assert!(!told.contains("at most"), "{told}");
        }
        study
            .run(&["report", "study.db", "--registry"])
            .says(1, &["has nothing to register", says]);
    }
}

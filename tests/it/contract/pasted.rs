//! What a refusal says to write can be pasted, also where names have capitals and blanks.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use hushql::{Engine, Error, Session};

const TABLE: &str = "\"Visits of Rome\"";

/// The refusal of a query, and what to write instead.
fn refused(session: &Session, sql: &str) -> (String, String) {
    let error = session.cost(sql).expect_err(sql);
    let hint = error.hint().unwrap_or_default();
    (error.to_string(), hint)
}

/// The statement in a text that begins with this word, with values in the place of lo and hi.
fn pasted(text: &str, word: &str) -> String {
    let at = text.find(word).unwrap_or_else(|| panic!("{word} in {text}"));
    text[at..].replace("(lo, hi)", "(0, 9)")
}

async fn study() -> Result<Engine, Error> {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100));
    let fees: ArrayRef = Arc::new(Int64Array::from_iter_values((0..100).map(|id| id % 10)));
    let groups: ArrayRef = Arc::new(StringArray::from_iter_values((0..100).map(|_| "old")));
    let rows =
        RecordBatch::try_from_iter([("Id", ids), ("Fee", fees), ("Age Group", groups)]).unwrap();
    let engine = Engine::in_memory()?;
    engine.register_batch("Visits of Rome", rows)?;
    let lab = engine.analyst("lab")?;
    let undeclared = refused(&lab, "SELECT LAPLACE(eps=1) COUNT(*) FROM \"Visits of Rome\"");
    assert!(undeclared.1.contains(&format!("ALTER TABLE {TABLE} SET")), "{undeclared:?}");
    let owner = engine.owner();
    owner.execute(&format!("ALTER TABLE {TABLE} SET PRIVACY UNIT (\"Id\") UNIQUE")).await?;
    let unpaid = refused(&lab, "SELECT LAPLACE(eps=1) COUNT(*) FROM \"Visits of Rome\"");
    let budget = pasted(&unpaid.1, "CREATE PRIVACY BUDGET").replace(", in an owner's session", "");
    owner.execute(&budget.replace("(epsilon=10)", "(epsilon=10, delta=0.01)")).await?;
    Ok(engine)
}

#[tokio::test]
async fn hints_with_capitals_and_blanks_run() {
    let engine = study().await.unwrap();
    let owner = engine.owner();
    let lab = Session::from(engine.analyst("lab").unwrap()).with_found_bounds(false);
    // Rows are asked for: the hint counts them, and its groups are not known yet.
    let sql = format!("SELECT DISTINCT \"Age Group\" FROM {TABLE}");
    let (_, counted) = refused(&lab, &sql);
    let column = format!("{TABLE}.\"Age Group\"");
    let expected =
        format!("SELECT {column}, LAPLACE(eps=1) COUNT(*) FROM {TABLE} GROUP BY {column}");
    assert!(counted.starts_with(&expected), "{counted}");
    // Groups whose keys are not declared.
    let (said, hint) = refused(&lab, &expected);
    let all = format!("{said} {hint}");
    assert!(all.contains("GROUP BY \"Age Group\" KEYS ("), "{all}");
    lab.cost(&format!("{expected} KEYS ('old', 'young')")).unwrap();
    // A sum without a range.
    let sql = format!("SELECT LAPLACE(eps=1) SUM(\"Fee\") FROM {TABLE}");
    let (_, hint) = refused(&lab, &sql);
    assert!(hint.starts_with("CLAMP(\"Fee\", lo, hi) in place of \"Fee\""), "{hint}");
    lab.cost(&sql.replace("\"Fee\"", "CLAMP(\"Fee\", 0, 9)")).unwrap();
    owner.execute(&pasted(&hint, "ALTER TABLE")).await.unwrap();
    lab.cost(&sql).unwrap();
    // A column beside an aggregate.
    let sql = format!("SELECT \"Fee\", LAPLACE(eps=1) COUNT(*) FROM {TABLE}");
    let (said, _) = refused(&lab, &sql);
    assert!(said.contains(&format!("add GROUP BY {TABLE}.\"Fee\"")), "{said}");
    // A comparison of other types, and an operator with another spelling.
    for (condition, instead) in [
        ("\"Age Group\" > 5", format!("CAST({column} AS DOUBLE) > 5")),
        ("\"Age Group\" = 5", format!("{column} = '5'")),
        ("\"Age Group\" ~ 'o'", format!("{column} LIKE '%text%'")),
    ] {
        let (_, hint) = refused(
            &lab,
            &format!("SELECT LAPLACE(eps=1) COUNT(*) FROM {TABLE} WHERE {condition}"),
        );
        assert!(hint.starts_with(&instead), "{hint}");
    }
    // The owner's own statements.
    for (statement, instead) in [
        (
            "CREATE PRIVACY BUDGET name FOR \"Visits of Rome\" LIMIT (epsilon=1)",
            "ALTER PRIVACY BUDGET name SET LIMIT",
        ),
        (
            "ALTER PRIVACY BUDGET name ALTER SLICE \"the-lab\" SET LIMIT (epsilon=1)",
            "ADD SLICE \"the-lab\" LIMIT",
        ),
        ("CREATE PRIVACY BUDGET \"B 2\" FOR \"Visits of Rome\" LIMIT (epsilon=1)", ""),
        (
            "CREATE PRIVACY BUDGET \"B 2\" FOR \"Visits of Rome\" LIMIT (epsilon=1)",
            "ALTER PRIVACY BUDGET \"B 2\" SET LIMIT",
        ),
    ] {
        let said = owner
            .execute(statement)
            .await
            .map_or_else(|error| error.to_string(), |_| String::new());
        assert!(
            said.contains(instead) && said.is_empty() == instead.is_empty(),
            "{statement}: {said}"
        );
    }
}

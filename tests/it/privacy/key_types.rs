//! Keys that are whole numbers of several widths: rows match as often as they do by keys of one
//! type.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int32Array, Int64Array, RecordBatch};
use arrow::datatypes::Int64Type;
use hushql::{Analyst, Engine};

use crate::privacy::draws::declared;

/// People and their visits by numbers of 32 bits, and 200 public codes of 64 bits.
async fn lab() -> Analyst {
    let narrow = |values: Vec<i32>| -> ArrayRef { Arc::new(Int32Array::from(values)) };
    let wide = |values: Vec<i64>| -> ArrayRef { Arc::new(Int64Array::from(values)) };
    let engine = Engine::in_memory().unwrap();
    for (name, columns) in [
        ("people", vec![("u", narrow(vec![1, 2, 3]))]),
        ("visits", vec![("person", narrow(vec![1, 1, 2, 9])), ("code", narrow(vec![5, 6, 5, 7]))]),
        ("codes", vec![("no", wide((0..200).collect())), ("part", wide(vec![4; 200]))]),
    ] {
        engine.register_batch(name, RecordBatch::try_from_iter(columns).unwrap()).unwrap();
    }
    declared(
        &engine,
        &[
            "ALTER TABLE people SET PRIVACY UNIT (u) UNIQUE",
            "ALTER TABLE visits SET PRIVACY UNIT VIA (person) REFERENCES people(u) MAX ROWS 3",
            "ALTER TABLE codes SET PUBLIC",
            "CREATE PRIVACY BUDGET b FOR people LIMIT (epsilon=1000000)",
        ],
    )
    .await
}

/// A key in another type was no key: a person's rows counted as often as the public table has rows.
#[tokio::test]
async fn keys_of_several_widths_match_as_keys_of_one() {
    let lab = lab().await;
    for (asked, rows, expected) in [
        ("visits JOIN codes ON visits.code = codes.no", "each row once", 3),
        ("visits LEFT JOIN codes ON codes.no = visits.code", "each row once", 3),
        ("people JOIN visits ON u = person", "at most 3", 3),
        ("people LEFT JOIN visits ON person = u", "at most 3", 4),
        ("visits a JOIN visits b ON a.person = b.person", "at most 9", 5),
        ("people WHERE u IN (SELECT person FROM visits WHERE code = 5)", "at most 1", 2),
        ("people WHERE u > 2 OR u IN (SELECT person FROM visits WHERE code = 6)", "at most 1", 2),
        ("people WHERE (SELECT COUNT(*) FROM visits WHERE person = u) > 1", "at most 1", 1),
        ("visits WHERE (SELECT COUNT(*) FROM codes WHERE no = code) = 1", "at most 3", 3),
        (
            "people JOIN (SELECT person, COUNT(*) AS n FROM visits GROUP BY person) v ON v.person = u",
            "at most 1",
            2,
        ),
    ] {
        let sql = format!("SELECT LAPLACE(eps=1000) COUNT(*) FROM {asked}");
        let said = lab.explain(&sql).unwrap().to_string();
        assert!(said.contains(rows), "{said}");
        let answer = lab.query(&sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
        let n = answer.batches()[0].column(0).as_primitive::<Int64Type>().value(0);
        assert_eq!(n, expected, "{sql}");
    }
}

//! CDF: without noise its numbers are those of plain counts, over every type, and its draws follow
//! the stated error.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Date32Array, Decimal128Array, Float64Array, Int64Array, RecordBatch,
    StringArray, TimestampMicrosecondArray,
};
use arrow::datatypes::Int64Type;
use hushql::{Analyst, Engine};

use crate::privacy::sensitivity::Dice;

/// People with up to three rows each, with NULLs, and values at the ends of bins.
fn people(dice: &mut Dice) -> RecordBatch {
    const ROWS: usize = 120;
    let mut some = |most: usize| -> Vec<Option<i64>> {
        (0..ROWS).map(|_| (!dice.one_in(9)).then(|| dice.below(most) as i64)).collect()
    };
    let ids: Vec<i64> = (0..ROWS as i64).map(|row| row / 3).collect();
    let groups = (0..ROWS).map(|row| ["x", "y"][row / 3 % 2]);
    let (n, x, m, d, t) = (some(14), some(40), some(500), some(70), some(100));
    let decimals = Decimal128Array::from_iter(m.into_iter().map(|m| m.map(i128::from)));
    let minutes = |t: i64| 1_704_067_200_000_000 + t * 60_000_000;
    let columns: [(&str, ArrayRef); 7] = [
        ("id", Arc::new(Int64Array::from(ids))),
        ("g", Arc::new(StringArray::from_iter_values(groups))),
        ("n", Arc::new(Int64Array::from(n))),
        (
            "x",
            Arc::new(Float64Array::from_iter(
                x.into_iter().map(|x| x.map(|x| x as f64 / 8.0 - 2.5)),
            )),
        ),
        ("m", Arc::new(decimals.with_precision_and_scale(6, 2).unwrap())),
        (
            "d",
            Arc::new(Date32Array::from_iter(d.into_iter().map(|d| d.map(|d| 19_723 + d as i32)))),
        ),
        (
            "ts",
            Arc::new(TimestampMicrosecondArray::from_iter(t.into_iter().map(|t| t.map(minutes)))),
        ),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, of)| (name, of, true))).unwrap()
}

async fn engine(rows: RecordBatch) -> Analyst {
    let engine = Engine::in_memory().unwrap();
    engine.register_batch("people", rows).unwrap();
    for declared in [
        "ALTER TABLE people SET PRIVACY UNIT (id) MAX ROWS 3",
        "ALTER TABLE people ALTER COLUMN g SET PRIVACY DOMAIN IN ('x', 'y', 'z')",
        "ALTER TABLE people ALTER COLUMN n SET PRIVACY DOMAIN BETWEEN (1, 12)",
        "ALTER TABLE people ALTER COLUMN x SET PRIVACY DOMAIN BETWEEN (-2, 2.5)",
        "ALTER TABLE people ALTER COLUMN m SET PRIVACY DOMAIN BETWEEN (0.10, 4.90)",
        "ALTER TABLE people ALTER COLUMN d SET PRIVACY DOMAIN BETWEEN ('2024-01-01', '2024-03-01')",
        "ALTER TABLE people ALTER COLUMN ts SET PRIVACY DOMAIN BETWEEN ('2024-01-01 00:00:00', '2024-01-01 01:30:00')",
        "CREATE PRIVACY BUDGET b FOR people LIMIT (epsilon=1000000, delta=0.1)",
    ] {
        engine.owner().execute(declared).await.unwrap_or_else(|e| panic!("{declared}: {e}"));
    }
    engine.analyst("lab").unwrap()
}

/// The lists of an answer whose last column is a CDF.
async fn lists(session: &Analyst, sql: &str) -> Vec<Vec<i64>> {
    let answer = session.query(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
    let mut all = Vec::new();
    for batch in answer.batches() {
        let column = batch.columns().last().unwrap().as_list::<i32>().clone();
        for row in 0..column.len() {
            all.push(column.value(row).as_primitive::<Int64Type>().values().to_vec());
        }
    }
    all
}

/// The numbers of an answer of one row.
async fn counts(session: &Analyst, sql: &str) -> Vec<i64> {
    let answer = session.query(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
    let batch = answer.batches()[0].clone();
    batch.columns().iter().map(|c| c.as_primitive::<Int64Type>().value(0)).collect()
}

/// With hardly any noise, each number of a list is the plain count of the rows up to its end, for
/// every type, with FILTER, WHERE and groups, also empty ones, whatever the tree is.
#[tokio::test]
async fn numbers_without_noise_are_plain_counts() {
    let mut dice = Dice(0xcdf);
    let rows = people(&mut dice);
    let session = engine(rows).await;
    let moment = |i: usize, n: usize| {
        let seconds = 5_400 * i / n;
        format!(
            "TIMESTAMP '2024-01-01 {:02}:{:02}:{:02}'",
            seconds / 3_600,
            seconds / 60 % 60,
            seconds % 60
        )
    };
    let end = |of: &str, i: usize, n: usize| {
        let at = i as f64 / n as f64;
        match of {
            "n" => format!("{}", 1.0 + 11.0 * at),
            "x" => format!("{}", -2.0 + 4.5 * at),
            "m" => format!("{}", (10.0 + 480.0 * at) / 100.0),
            "CLAMP(n, 3, 7)" => format!("{}", 3.0 + 4.0 * at),
            "n * 2 - 1" => format!("{}", 1.0 + 22.0 * at),
            "d" => format!("DATE '2024-01-01' + {}", 60 * i / n),
            "ts" => moment(i, n),
            other => panic!("{other}"),
        }
    };
    let mut seen = 0;
    for of in ["n", "x", "m", "CLAMP(n, 3, 7)", "n * 2 - 1", "d", "ts"] {
        // Ends that are decimals of few places, days or seconds.
        for n in [1, 2, 3, 4, 5, 6, 10, 12, 20, 30] {
            let exact = !matches!(
                (of, n),
                ("n", 3 | 6 | 12 | 30) | ("x" | "n * 2 - 1", 3 | 6 | 12 | 30) | ("m", 7)
            );
            if !exact {
                continue;
            }
            let filter = dice.pick(&["", " FILTER (WHERE g = 'x')"]);
            // A condition on x itself narrows its range, and so the bins.
            let condition = if of == "x" { "" } else { dice.pick(&["", " WHERE x < 2"]) };
            let own = format!(
                "SELECT LAPLACE(eps=100) CDF({of}, {n}){filter} AS c FROM people{condition}"
            );
            let [list] = lists(&session, &own).await.try_into().unwrap();
            let plain = |i: usize| {
                let mut all = format!("{of} <= {}", end(of, i, n));
                if !filter.is_empty() {
                    all += " AND g = 'x'";
                }
                format!("LAPLACE(eps=100) COUNT(*) FILTER (WHERE {all}) AS c{i}")
            };
            let plain: Vec<String> = (1..=n).map(plain).collect();
            let plain = format!("SELECT {} FROM people{condition}", plain.join(", "));
            assert_eq!(list, counts(&session, &plain).await, "{own}\n{plain}");
            seen += 1;
        }
    }
    assert!(seen > 50, "{seen}");
    let own = "SELECT g, LAPLACE(eps=100) CDF(n, 11) AS c FROM people GROUP BY g ORDER BY g";
    let groups = lists(&session, own).await;
    assert_eq!(groups.len(), 3);
    for (group, list) in ["x", "y", "z"].into_iter().zip(groups) {
        let plain =
            |i: usize| format!("LAPLACE(eps=100) COUNT(*) FILTER (WHERE n <= {}) AS c{i}", i + 1);
        let plain: Vec<String> = (1..=11).map(plain).collect();
        let plain = format!("SELECT {} FROM people WHERE g = '{group}'", plain.join(", "));
        assert_eq!(list, counts(&session, &plain).await, "{group}");
        assert_eq!(group == "z", list == [0; 11]);
    }
}

/// Whatever the cost and the mechanism, the list has n numbers that rise from 0 or more.
#[tokio::test]
async fn lists_rise() {
    let session = engine(people(&mut Dice(7))).await;
    for (i, mechanism) in [
        "LAPLACE(eps=0.01",
        "GAUSSIAN(eps=0.1, delta=1e-6",
        "GAUSSIAN(eps=0.02, delta=1e-8",
        "AUTO(eps=0.5",
        "AUTO(eps=0.5, delta=1e-6",
    ]
    .into_iter()
    .enumerate()
    {
        for bounds in ["", ", rows=1", ", total=2"] {
            for n in [1, 9, 100] {
                let sql = format!("SELECT {mechanism}{bounds}) CDF(x, {}) AS c FROM people", n + i);
                let [list] = lists(&session, &sql).await.try_into().unwrap();
                assert_eq!(list.len(), n + i);
                assert!(list.is_sorted() && list[0] >= 0, "{sql}: {list:?}");
            }
        }
    }
}

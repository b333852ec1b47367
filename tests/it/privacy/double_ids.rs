//! People whose ids are DOUBLE: which rows belong to whom, on random files and their neighbours.
//!
//! In: files of ids that programs write and of ids that nobody should, with and without one person.
//! Out: a row is read by itself, no query fails because of one, and a person changes a count by the
//! person's own rows alone.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch};
use arrow::datatypes::Int64Type;
use arrow::ipc::writer::FileWriter;
use datafusion::parquet::arrow::ArrowWriter;
use hushql::{Analyst, Engine};
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;

use crate::privacy::draws::declared;
use crate::seed::seed;

/// 2^53, up to which each whole number is a DOUBLE.
const MOST: f64 = 9_007_199_254_740_992.0;

/// Ids that belong to nobody.
const NOBODY: [f64; 9] = [
    0.5,
    -2.25,
    MOST + 2.0,
    -MOST - 2.0,
    1e300,
    9.3e18,
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
];
/// Ids of people. Minus zero is zero.
const PEOPLE: [f64; 7] = [0.0, 1.0, 2.0, -7.0, MOST - 1.0, MOST, -MOST];

fn write(path: &Path, rows: &[(f64, i64)]) {
    let ids: ArrayRef = Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| row.0)));
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.1)));
    let batch = RecordBatch::try_from_iter([("id", ids), ("v", values)]).unwrap();
    let file = File::create(path).unwrap();
    if path.extension().is_some_and(|end| end == "parquet") {
        let mut file = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
        file.write(&batch).unwrap();
        file.close().unwrap();
    } else {
        let mut file = FileWriter::try_new(file, &batch.schema()).unwrap();
        file.write(&batch).unwrap();
        file.finish().unwrap();
    }
}

async fn asked(path: &Path) -> Analyst {
    let format = path.extension().unwrap().to_str().unwrap();
    let declarations = [
        format!("CREATE EXTERNAL TABLE t STORED AS {format} LOCATION '{}'", path.display()),
        "ALTER TABLE t SET PRIVACY UNIT (id) MAX ROWS 40".to_owned(),
        "ALTER TABLE t ALTER COLUMN v SET PRIVACY DOMAIN BETWEEN (0, 9)".to_owned(),
        "CREATE PRIVACY BUDGET t FOR t LIMIT (epsilon=1000000)".to_owned(),
    ];
    declared(&Engine::in_memory().unwrap(), &declarations).await
}

/// Numbers whose noise is 0 but with a probability of e⁻²⁰⁰.
async fn numbers(lab: &Analyst) -> Vec<i64> {
    let mut numbers = Vec::new();
    for of in [
        "COUNT(*) AS n FROM t",
        "COUNT(DISTINCT id) AS n FROM t",
        "SUM(v) AS n FROM t",
        "COUNT(*) AS n FROM t WHERE id >= 0 OR id <> 1",
        "COUNT(*) AS n FROM t WHERE CASE WHEN id % 2 = 0 THEN v ELSE id END > 3",
        "COUNT(*) AS n FROM (SELECT id, COUNT(*) AS c FROM t GROUP BY id) WHERE c > 1",
    ] {
        let sql = format!("SELECT LAPLACE(eps=50000) {of}");
        let answer = lab.query(&sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
        numbers.push(answer.batches()[0].column(0).as_primitive::<Int64Type>().value(0));
    }
    numbers
}

/// What is computed from the rows themselves.
fn expected(rows: &[(f64, i64)]) -> Vec<i64> {
    let people: Vec<(i64, i64)> = rows
        .iter()
        .filter(|(id, _)| id.fract() == 0.0 && id.abs() <= MOST)
        .map(|(id, v)| (*id as i64, *v))
        .collect();
    let count =
        |of: &dyn Fn(&(i64, i64)) -> bool| people.iter().filter(|row| of(row)).count() as i64;
    let mut ids: Vec<i64> = people.iter().map(|row| row.0).collect();
    ids.sort_unstable();
    let several = ids.chunk_by(|a, b| a == b).filter(|rows| rows.len() > 1).count() as i64;
    ids.dedup();
    vec![
        people.len() as i64,
        ids.len() as i64,
        people.iter().map(|row| row.1).sum(),
        count(&|row| row.0 >= 0 || row.0 != 1),
        count(&|row| (if row.0 % 2 == 0 { row.1 } else { row.0 }) > 3),
        several,
    ]
}

/// The counts of a file and of its neighbours are those of the rows with whole ids: a person's rows
/// are lost with the person, and no row of nobody changes anything.
#[tokio::test]
async fn a_person_changes_the_rows_of_whole_ids() {
    let mut rng = ChaCha20Rng::seed_from_u64(seed(5_301));
    let folder = tempfile::tempdir().unwrap();
    for round in 0..6 {
        let path = folder.path().join(["t.parquet", "t.arrow"][round % 2]);
        let rows: Vec<(f64, i64)> = (0..rng.random_range(0..60))
            .map(|_| {
                let ids: &[f64] = if rng.random_bool(0.3) { &NOBODY } else { &PEOPLE };
                (*ids.choose(&mut rng).unwrap(), rng.random_range(0..10))
            })
            .collect();
        let gone = *PEOPLE.choose(&mut rng).unwrap();
        let without: Vec<_> =
            rows.iter().filter(|row| row.0.to_bits() != gone.to_bits()).copied().collect();
        let whole: Vec<_> = rows.iter().filter(|row| PEOPLE.contains(&row.0)).copied().collect();
        let mut all = Vec::new();
        for rows in [&rows, &without, &whole] {
            write(&path, rows);
            let numbers = numbers(&asked(&path).await).await;
            assert_eq!(numbers, expected(rows), "{rows:?}");
            all.push(numbers);
        }
        assert_eq!(all[0], all[2], "a row of nobody changed an answer");
    }
}

/// One row of each strange id fails nothing that its absence does not fail: EXPLAIN and the cost
/// are the same, and the answers come.
#[tokio::test]
async fn no_strange_id_tells_of_itself() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let questions = [
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM t WHERE id = 9007199254740993",
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM t WHERE -id < 5 AND id * 2 > 1",
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM t WHERE CAST(id AS INT) = 1",
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM t WHERE CAST(id AS VARCHAR) LIKE '9%'",
    ];
    let mut seen: Option<Vec<String>> = None;
    for strange in [&[][..], &NOBODY] {
        let rows: Vec<_> = [1.0, 2.0].iter().chain(strange).map(|id| (*id, 1)).collect();
        write(&path, &rows);
        let lab = asked(&path).await;
        let mut shown = Vec::new();
        for sql in questions {
            let explained = lab.execute(&format!("EXPLAIN {sql}")).await;
            shown.push(format!("{explained:?}").replace(path.to_str().unwrap(), ""));
            let answer = lab.query(sql).await;
            shown.push(format!("{:?}", answer.map(|answer| answer.schema())));
        }
        if let Some(before) = &seen {
            assert_eq!(*before, shown);
        }
        seen = Some(shown);
    }
}

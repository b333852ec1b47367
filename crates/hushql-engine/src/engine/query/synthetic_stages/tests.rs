//! Compares the counts of private rows with brute force, and tests that nothing else depends on the
//! rows.

use std::collections::BTreeMap;
use std::path::Path;

use arrow::array::{AsArray, Int64Array};
use arrow::datatypes::Int64Type;

use super::*;
use crate::Engine;
use crate::dialect::Statement;
use crate::sampler::Uniform;
use crate::synthetic::{ColumnSet, Count};

/// A visit: patient, ward, stay.
type Visit = (i64, Option<&'static str>, Option<i64>);

const WARDS: [&str; 3] = ["A", "B", "C"];

/// Random visits of up to `patients` patients; wards and stays may be missing, or outside of their
/// domains.
fn visits(rng: &mut QueryRng, patients: u64, most: u64) -> Vec<Visit> {
    let mut all = Vec::new();
    for patient in 0..patients {
        for _ in 0..rng.below_u64(most + 1) {
            let ward = match rng.below_u64(5) {
                0 => None,
                1 => Some("X"),
                n => Some(WARDS[usize::try_from(n - 2).unwrap()]),
            };
            let stay = rng.chance(5, 6).then(|| i64::try_from(rng.below_u64(30)).unwrap() - 5);
            all.push((i64::try_from(patient).unwrap(), ward, stay));
        }
    }
    all
}

/// An engine over these visits, with this declaration of the unit.
async fn engine(folder: &Path, visits: &[Visit], unit: &str) -> Engine {
    let mut text = "id,patient,ward,stay\n".to_owned();
    for (id, (patient, ward, stay)) in visits.iter().enumerate() {
        let stay = stay.map_or(String::new(), |stay| stay.to_string());
        text += &format!("{id},{patient},{},{stay}\n", ward.unwrap_or_default());
    }
    let path = folder.join("visits.csv");
    std::fs::write(&path, text).unwrap();
    let engine = Engine::in_memory().unwrap();
    let columns = "id BIGINT, patient BIGINT, ward VARCHAR, stay BIGINT";
    for sql in [
        format!(
            "CREATE EXTERNAL TABLE visits ({columns}) STORED AS CSV LOCATION '{}'",
            path.display()
        ),
        format!("ALTER TABLE visits SET PRIVACY UNIT {unit}"),
        "ALTER TABLE visits ALTER COLUMN ward SET PRIVACY DOMAIN IN ('A', 'B', 'C')".to_owned(),
        "ALTER TABLE visits ALTER COLUMN stay SET PRIVACY DOMAIN BETWEEN (0, 20)".to_owned(),
        "CREATE PRIVACY BUDGET b FOR visits LIMIT (epsilon=1000000, delta=0.5)".to_owned(),
    ] {
        engine.owner().execute(&sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    engine
}

/// The marginals of a statement: of each column, and of both together.
async fn counted(engine: &Engine, sql: &str) -> (SyntheticRelease, Vec<Vec<i64>>) {
    let session = engine.analyst("lab").unwrap();
    let statement = match session.parse(sql) {
        Ok(Statement::CreateSyntheticTable(statement)) => statement,
        other => panic!("{sql}: {other:?}"),
    };
    let clock = session.clock();
    let state = session.state(&clock);
    let paid = session.paid_rows(&statement, &clock, &state).await;
    let PaidRows { release, prepared, charge, .. } =
        paid.unwrap_or_else(|error| panic!("{sql}: {error}"));
    // The rows of units are bounded, whatever the plan below is.
    assert_eq!(prepared.plan().name() == "SampleContributionsExec", release.rows().has_unit());
    let mut rng = QueryRng::seeded_for_tests(1);
    let limits = ReadingLimits { deadline: clock.deadline(), memory: 0 };
    let rows =
        exec::read_rows(prepared, &release, &charge, &state, limits, &mut rng).await.unwrap();
    let sets = [ColumnSet::new([0]), ColumnSet::new([1]), ColumnSet::new([0, 1])];
    let cells = rows.count(&sets).unwrap();
    (release, cells)
}

const QUERY: &str = "SELECT ward, stay FROM visits WHERE stay >= 2 OR stay IS NULL";

/// The rows of the query, by patient, as codes of ward and stay.
fn rows_of(visits: &[Visit]) -> BTreeMap<i64, Vec<(usize, usize)>> {
    let mut all: BTreeMap<i64, Vec<(usize, usize)>> = BTreeMap::new();
    for (patient, ward, stay) in visits {
        // A stay outside of its domain is clamped before the filter.
        let stay = stay.map(|stay| stay.clamp(0, 20));
        if stay.is_some_and(|stay| stay < 2) {
            continue;
        }
        let ward = ward.and_then(|ward| WARDS.iter().position(|w| *w == ward)).unwrap_or(3);
        let stay = stay.map_or(21, |stay| usize::try_from(stay).unwrap());
        all.entry(*patient).or_default().push((ward, stay));
    }
    all
}

/// The marginals of rows with these weights.
fn marginals(rows: impl Iterator<Item = ((usize, usize), i64)>) -> Vec<Vec<i64>> {
    let (mut wards, mut stays, mut both) = (vec![0; 4], vec![0; 22], vec![0; 88]);
    for ((ward, stay), weight) in rows {
        wards[ward] += weight;
        stays[stay] += weight;
        both[ward * 22 + stay] += weight;
    }
    vec![wards, stays, both]
}

#[tokio::test]
async fn counted_marginals_are_those_of_the_rows() {
    for seed in 0..4 {
        let mut rng = QueryRng::seeded_for_tests(seed);
        let visits = visits(&mut rng, 30, 6);
        let rows = rows_of(&visits);
        let folder = tempfile::tempdir().unwrap();
        let sql = |method: &str, with: &str| {
            format!("CREATE SYNTHETIC TABLE s {with} AS {method} {QUERY}")
        };
        // Every row is a unit.
        let by_row = engine(folder.path(), &visits, "ROW").await;
        let (release, cells) = counted(&by_row, &sql("AIM(eps=1)", "")).await;
        let all = || rows.values().flatten().copied();
        assert_eq!(cells, marginals(all().map(|row| (row, 1))));
        assert_eq!((release.most(), release.task().sensitivity.l1()), (None, 1));
        // Patients have several rows each.
        let by_patient = engine(folder.path(), &visits, "(patient) MAX ROWS 6").await;
        for (method, most) in
            [("AIM(eps=1)", 1), ("AIM(eps=1, rows=3)", 3), ("AIM(eps=1, rows=9)", 6)]
        {
            let (release, cells) = counted(&by_patient, &sql(method, "")).await;
            assert_eq!(release.most(), Some(most));
            assert_eq!(release.task().sensitivity.l1(), most);
            let kept: u64 = rows.values().map(|own| (own.len() as u64).min(most)).sum();
            let most_in = marginals(all().map(|row| (row, 1)));
            for (cells, most_in) in cells.iter().zip(&most_in) {
                assert_eq!(cells.iter().sum::<i64>(), i64::try_from(kept).unwrap());
                assert!(cells.iter().zip(most_in).all(|(own, most)| own <= most));
            }
            // All marginals count the same rows.
            let of_both = (0..4).map(|ward| cells[2][ward * 22..][..22].iter().sum::<i64>());
            assert_eq!(cells[0], of_both.collect::<Vec<_>>());
        }
        // Each patient counts as one: ⌈log₂ 6⌉ + 4 = 7 bits.
        let with = "WITH (weights=PERSON)";
        let (release, cells) = counted(&by_patient, &sql("AIM(eps=1)", with)).await;
        assert_eq!((release.most(), release.task().sensitivity.l1()), (Some(6), 128));
        let of_128 = rows.values().flat_map(|own| {
            let weight = 128 / i64::try_from(own.len()).unwrap();
            own.iter().map(move |row| (*row, weight))
        });
        assert_eq!(cells, marginals(of_128));
        // With at most two rows of a patient, one row weighs 32, and two weigh 16 each.
        let (release, cells) = counted(&by_patient, &sql("AIM(eps=1, rows=2)", with)).await;
        assert_eq!((release.most(), release.task().sensitivity.l1()), (Some(2), 32));
        let patients = i64::try_from(rows.len()).unwrap();
        assert!(cells.iter().all(|cells| cells.iter().sum::<i64>() == 32 * patients));
        let unbounded = engine(folder.path(), &visits, "(patient)").await;
        let (release, cells) = counted(&unbounded, &sql("AIM(eps=1)", with)).await;
        assert_eq!(release.task().sensitivity.l1(), 1 << 20);
        let weighed = rows.values().flat_map(|own| {
            let weight = (1 << 20) / i64::try_from(own.len()).unwrap();
            own.iter().map(move |row| (*row, weight))
        });
        assert_eq!(cells, marginals(weighed));
    }
}

#[tokio::test]
async fn one_unit_moves_a_marginal_by_no_more_than_its_sensitivity() {
    let mut rng = QueryRng::seeded_for_tests(9);
    let all = visits(&mut rng, 12, 6);
    let folder = tempfile::tempdir().unwrap();
    for (method, with) in [("AIM(eps=1, rows=2)", ""), ("AIM(eps=1)", "WITH (weights=PERSON)")] {
        let sql = format!("CREATE SYNTHETIC TABLE s {with} AS {method} {QUERY}");
        let whole = engine(folder.path(), &all, "(patient) MAX ROWS 6").await;
        let (release, with_all) = counted(&whole, &sql).await;
        for patient in 0..12 {
            let others: Vec<Visit> = all.iter().filter(|v| v.0 != patient).copied().collect();
            let neighbour = engine(folder.path(), &others, "(patient) MAX ROWS 6").await;
            let (own, without) = counted(&neighbour, &sql).await;
            // Codes, sets, cost and sensitivity do not depend on the patients.
            assert_eq!(own.plan_text(), release.plan_text());
            assert_eq!(own.loss(), release.loss());
            for (with, without) in with_all.iter().zip(&without) {
                let moved: i64 = with.iter().zip(without).map(|(a, b)| (a - b).abs()).sum();
                let most = i64::try_from(release.task().sensitivity.l1()).unwrap();
                assert!(moved <= most, "{patient}: {moved} > {most}");
                assert!(with.iter().zip(without).all(|(a, b)| a >= b), "{patient}");
            }
        }
    }
}

#[tokio::test]
async fn linked_rows_are_counted_for_their_person() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("people.csv"), "id,sex\n1,f\n2,m\n3,f\n").unwrap();
    let orders = "person,price\n1,5\n1,6\n1,7\n2,5\n9,5\n,5\n";
    std::fs::write(path("orders.csv"), orders).unwrap();
    let engine = Engine::in_memory().unwrap();
    for sql in [
        format!("CREATE EXTERNAL TABLE people STORED AS CSV LOCATION '{}'", path("people.csv")),
        format!("CREATE EXTERNAL TABLE orders STORED AS CSV LOCATION '{}'", path("orders.csv")),
        "ALTER TABLE people SET PRIVACY UNIT (id) UNIQUE".to_owned(),
        "ALTER TABLE people ALTER COLUMN sex SET PRIVACY DOMAIN IN ('f', 'm')".to_owned(),
        "ALTER TABLE orders SET PRIVACY UNIT VIA (person) REFERENCES people(id) MAX ROWS 4"
            .to_owned(),
        "ALTER TABLE orders ALTER COLUMN price SET PRIVACY DOMAIN BETWEEN (0, 9)".to_owned(),
        "CREATE PRIVACY BUDGET b FOR people LIMIT (epsilon=1000000)".to_owned(),
    ] {
        engine.owner().execute(&sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    let sql = "CREATE SYNTHETIC TABLE s WITH (weights=PERSON) AS AIM(eps=1)
        SELECT p.sex, o.price FROM people p JOIN orders o ON o.person = p.id";
    let (release, cells) = counted(&engine, sql).await;
    assert_eq!(release.most(), Some(4));
    // The first person's rows weigh ⌊64/3⌋ each.
    assert_eq!(cells[0], [63, 64, 0]);
    let sql = "CREATE SYNTHETIC TABLE s AS AIM(eps=1, rows=4) SELECT p.sex, o.price
        FROM people p JOIN orders o ON o.person = p.id";
    assert_eq!(counted(&engine, sql).await.1[0], [3, 1, 0]);
    let unique = "CREATE SYNTHETIC TABLE s AS AIM(eps=1) SELECT sex, id > 1 AS late FROM people";
    assert_eq!(counted(&engine, unique).await.1[2], [1, 1, 0, 0, 1, 0, 0, 0, 0]);
}

#[tokio::test]
async fn values_come_out_with_the_types_of_the_query() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), &[(1, Some("A"), Some(3))], "ROW").await;
    let sql = "CREATE SYNTHETIC TABLE s AS AIM(eps=1) SELECT ward, stay FROM visits";
    let (release, _) = counted(&engine, sql).await;
    let made = Made {
        columns: vec![vec![0, 3, 2], vec![0, 21, 20]],
        errors: Vec::new(),
        total: 3.0,
        rounds: 0,
        used_nano: 0,
    };
    let mut rng = QueryRng::seeded_for_tests(1);
    let rows = values(&release, &made, &mut rng).unwrap();
    let stays = rows.column(1).as_primitive::<Int64Type>();
    assert_eq!(stays.iter().collect::<Vec<_>>(), [Some(0), None, Some(20)]);
    assert_eq!(rows.column(0).null_count(), 1);
}

/// An engine with these resources and a table `t` in memory, each of whose rows is a unit.
async fn numbers(rows: i64, resources: Resources) -> Engine {
    let engine = Engine::builder().resources(resources).in_memory().unwrap();
    let column = |size: i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values((0..rows).map(|row| row * 7 % size)))
    };
    let columns = [("a", column(10)), ("b", column(11)), ("c", column(9)), ("d", column(8))];
    engine.register_batch("t", RecordBatch::try_from_iter(columns).unwrap()).unwrap();
    for sql in [
        "ALTER TABLE t SET PRIVACY UNIT ROW",
        "ALTER TABLE t ALTER COLUMN a SET PRIVACY DOMAIN BETWEEN (0, 9)",
        "ALTER TABLE t ALTER COLUMN b SET PRIVACY DOMAIN BETWEEN (0, 10)",
        "ALTER TABLE t ALTER COLUMN c SET PRIVACY DOMAIN BETWEEN (0, 8)",
        "ALTER TABLE t ALTER COLUMN d SET PRIVACY DOMAIN BETWEEN (0, 7)",
        "CREATE PRIVACY BUDGET b FOR t LIMIT (epsilon=1000000, delta=0.5)",
    ] {
        engine.owner().execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    engine
}

/// What was spent of the budget, in billionths of ε.
fn spent(engine: &Engine) -> i64 {
    engine.owner().budgets().unwrap()[0].spent.nano
}

/// Codes count as memory. A few rows fit beside the advance; many do not, and end with the constant
/// error.
#[tokio::test]
async fn codes_of_rows_count_as_memory() {
    let sql = "CREATE SYNTHETIC TABLE s WITH (rows=100) AS AIM(eps=1, delta=1e-9) SELECT a, b, c, d FROM t";
    let refused = numbers(10, Resources::default().with_memory(Some(1 << 20))).await;
    let error = refused.analyst("lab").unwrap().execute(sql).await.unwrap_err();
    assert_eq!(error.code(), Some("HQ034"), "{error}");
    assert_eq!(spent(&refused), 0);
    let memory = Some(needed(sql).await + (8 << 20));
    for (rows, fits) in [(10, true), (3_000_000, false)] {
        let engine = numbers(rows, Resources::default().with_memory(memory)).await;
        let made = engine.analyst("lab").unwrap().execute(sql).await;
        match made {
            Ok(_) => assert!(fits, "{rows}"),
            Err(error) => assert!(!fits && matches!(error, Error::Execution), "{rows}: {error}"),
        }
        assert_eq!(spent(&engine), 1_000_000_000, "the charge stands");
    }
}

/// Waits until the pool holds no more memory than before.
fn given_back(pool: &dyn datafusion::execution::memory_pool::MemoryPool, before: usize) {
    let freed = || {
        std::thread::sleep(std::time::Duration::from_millis(5));
        pool.reserved() == before
    };
    assert!((0..4_000).any(|_| freed()), "{before}, and {} now", pool.reserved());
}

/// The memory that a statement needs before it reads a row.
async fn needed(sql: &str) -> usize {
    let (operators, own) = parts_of_needed(sql).await;
    operators + own
}

/// The part of this memory for counts, models and new rows.
async fn due(sql: &str) -> usize {
    parts_of_needed(sql).await.1
}

async fn parts_of_needed(sql: &str) -> (usize, usize) {
    let engine = numbers(10, Resources::default()).await;
    let session = engine.analyst("lab").unwrap();
    let Ok(Statement::CreateSyntheticTable(statement)) = session.parse(sql) else { panic!() };
    let state = session.state(&session.clock());
    let ready = std::thread::scope(|scope| {
        let ready = || session.ready_rows(&statement, &state, None).unwrap();
        scope.spawn(ready).join().unwrap()
    });
    (ready.prepared.memory(&state), ready.due.memory())
}

/// The rounds and the share of the budget are shown while rows are made. If the statement is
/// dropped, its memory is soon free, its charge stands, and there is no table.
#[tokio::test]
async fn dropped_statements_end() {
    let engine = numbers(2_000, Resources::default()).await;
    let lab = engine.analyst("lab").unwrap();
    let sql = "CREATE SYNTHETIC TABLE s AS MWEM(eps=1, rounds=1000) SELECT a, b, c, d FROM t";
    let own = due(sql).await;
    let state = lab.state(&lab.clock());
    let pool = Arc::clone(&state.runtime_env().memory_pool);
    // The memory of look-ups belongs to the engine.
    let before = pool.reserved();
    let mut seen = Vec::new();
    {
        let mut running = Box::pin(lab.execute(sql));
        while seen.len() < 2 {
            let ended = tokio::time::timeout(std::time::Duration::from_millis(5), &mut running);
            assert!(ended.await.is_err(), "a thousand rounds take longer");
            if let Some(done) = lab.rounds().filter(|done| seen.last() != Some(done)) {
                seen.push(done);
            }
        }
        assert!(pool.reserved() >= before + own, "{before}, {own}: {}", pool.reserved());
    }
    assert!(seen[0].rounds < seen[1].rounds && seen[0].rounds > 0, "{seen:?}");
    assert!(seen[0].percent >= 5 && seen[1].percent <= 100, "{seen:?}");
    given_back(&*pool, before);
    assert_eq!(lab.rounds(), None);
    assert_eq!(spent(&engine), 1_000_000_000);
    assert!(lab.execute("SHOW SYNTHETIC s").await.is_err());
}

/// The memory of a statement is free afterwards, however the statement ends: if only one fits at a
/// time, the next one runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_is_given_back() {
    let sql = |name: &str| {
        format!(
            "CREATE SYNTHETIC TABLE {name} WITH (rows=100) AS MWEM(eps=1, rounds=1000) SELECT a, b, c, d FROM t"
        )
    };
    let one = needed(&sql("s")).await;
    let resources = Resources::default().with_memory(Some(one + (8 << 20)));
    let engine = numbers(2_000, resources).await;
    let lab = engine.analyst("lab").unwrap();
    let pool = Arc::clone(&lab.state(&lab.clock()).runtime_env().memory_pool);
    let before = pool.reserved();
    let aim = "CREATE SYNTHETIC TABLE made WITH (rows=100) AS AIM(eps=1) SELECT a, b, c, d FROM t";
    for turn in 0..3 {
        let text = sql(&format!("s{turn}"));
        let mut running = Box::pin(lab.execute(&text));
        while lab.rounds().is_none() {
            let ended = tokio::time::timeout(std::time::Duration::from_millis(2), &mut running);
            assert!(ended.await.is_err(), "a thousand rounds take longer");
        }
        assert!(pool.reserved() > before, "{turn}");
        // While it runs, its memory is taken: another statement fails, and its charge stands.
        if turn == 0 {
            assert!(matches!(lab.execute(aim).await, Err(Error::Execution)));
        }
        drop(running);
        given_back(&*pool, before);
    }
    // A statement that ends properly, and one whose time is over.
    lab.execute(aim).await.unwrap();
    given_back(&*pool, before);
    let resources = Resources::default().with_time(Some(std::time::Duration::from_secs(1)));
    let engine = numbers(2_000, resources).await;
    let lab = engine.analyst("lab").unwrap();
    let pool = Arc::clone(&lab.state(&lab.clock()).runtime_env().memory_pool);
    let before = pool.reserved();
    drop(lab.execute(&sql("late")).await);
    given_back(&*pool, before);
}

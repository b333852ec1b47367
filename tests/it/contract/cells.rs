//! Cells of people: what is declared, which cells a statement is charged to, and that no one loses
//! more than their cell has spent.

use std::collections::BTreeMap;
use std::path::Path;

use hushql::{Engine, Session};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;

use crate::contract::asked::{done, told, why};
use crate::contract::program::Study;

/// A person: a number, a region that may be unlisted or missing, and an age.
type Person = (u32, Option<&'static str>, u32);

fn write(folder: &Path, people: &[Person]) {
    let mut customers = "id,region,age\n".to_owned();
    let mut orders = "oid,customer,amount\n".to_owned();
    for (id, region, age) in people {
        customers += &format!("{id},{},{age}\n", region.unwrap_or_default());
        for order in 0..age % 3 {
            orders += &format!("{},{id},{}\n", id * 10 + order, order + 1);
        }
    }
    // A file of no rows has no types.
    std::fs::write(folder.join("customers.csv"), customers).unwrap();
    std::fs::write(folder.join("orders.csv"), orders).unwrap();
    std::fs::write(folder.join("zones.csv"), "zone,name\n1,Oslo\n2,Rome\n").unwrap();
}

/// An engine over these people, with ε = `limit` for them, partitioned by region.
async fn engine(folder: &Path, people: &[Person], limit: u32) -> Engine {
    write(folder, people);
    let engine = Engine::in_memory().unwrap();
    let at = |file: &str| folder.join(file).display().to_string();
    for sql in [
        &format!(
            "CREATE EXTERNAL TABLE customers (id BIGINT, region VARCHAR, age BIGINT) STORED AS CSV LOCATION '{}'",
            at("customers.csv")
        ),
        "ALTER TABLE customers SET PRIVACY UNIT (id) UNIQUE",
        "ALTER TABLE customers ALTER COLUMN region SET PRIVACY DOMAIN IN ('Oslo', 'Rome', 'Pisa')",
        "ALTER TABLE customers ALTER COLUMN age SET PRIVACY DOMAIN BETWEEN (0, 99)",
        &format!(
            "CREATE EXTERNAL TABLE orders (oid BIGINT, customer BIGINT, amount BIGINT) STORED AS CSV LOCATION '{}'",
            at("orders.csv")
        ),
        "ALTER TABLE orders SET PRIVACY UNIT VIA (customer) REFERENCES customers(id) MAX ROWS 4",
        "ALTER TABLE orders ALTER COLUMN amount SET PRIVACY DOMAIN BETWEEN (0, 9)",
        &format!("CREATE EXTERNAL TABLE zones STORED AS CSV LOCATION '{}'", at("zones.csv")),
        "ALTER TABLE zones SET PUBLIC",
        "CREATE VIEW northern AS SELECT id, age FROM customers WHERE region = 'Oslo'",
        "CREATE VIEW named AS SELECT id, region AS place, age AS years FROM customers",
        "CREATE VIEW nameless AS SELECT id, age FROM customers",
        &format!(
            "CREATE PRIVACY BUDGET research FOR customers LIMIT (epsilon={limit}, delta=1e-3) REPLAY (OFF) PARTITION BY region"
        ),
    ] {
        done(&engine.owner(), sql).await;
    }
    engine
}

const PEOPLE: [Person; 4] =
    [(1, Some("Oslo"), 31), (2, Some("Rome"), 42), (3, None, 53), (4, Some("Paris"), 64)];

/// The line of an explanation about cells.
async fn cells(session: &Session, sql: &str) -> String {
    let shown = done(session, &format!("EXPLAIN PRIVACY {sql}")).await;
    let lines: Vec<&str> = shown
        .lines()
        .filter_map(|line| line.trim().strip_prefix("cells "))
        .map(str::trim)
        .collect();
    lines.join("; ")
}

#[tokio::test]
async fn a_statement_is_charged_to_the_cells_that_it_shows() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), &PEOPLE, 1_000).await;
    let lab = engine.analyst("lab").unwrap();
    let count = "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM";
    let oslo = "charged to region 'Oslo' alone";
    let both = "charged to region 'Oslo' and 'Rome' alone";
    for (sql, expected) in [
        (format!("{count} customers WHERE region = 'Oslo'"), oslo),
        (format!("{count} customers WHERE 'Oslo' = region AND age > 30"), oslo),
        (format!("{count} customers c WHERE c.region IN ('Oslo')"), oslo),
        (format!("{count} customers WHERE region IN ('Rome', 'Oslo')"), both),
        (format!("{count} customers WHERE region IN ('Rome', 'Oslo') AND region = 'Oslo'"), oslo),
        (format!("{count} customers WHERE region IS NULL"), "charged to region other alone"),
        (format!("{count} northern WHERE age > 30"), oslo),
        (format!("{count} named WHERE place = 'Oslo'"), oslo),
        (format!("{count} (SELECT * FROM customers WHERE region = 'Oslo') q WHERE q.age > 30"), oslo),
        (format!("{count} orders o JOIN customers c ON o.customer = c.id WHERE c.region = 'Oslo'"), oslo),
        (format!("{count} orders o JOIN customers c ON o.customer = c.id AND c.region = 'Oslo'"), oslo),
        (format!("{count} orders o JOIN northern c ON o.customer = c.id"), oslo),
        (format!("{count} customers c JOIN zones z ON c.region = z.name WHERE c.region = 'Oslo'"), oslo),
        (format!("{count} (SELECT * FROM customers WHERE region = 'Oslo') c LEFT JOIN orders o ON o.customer = c.id"), oslo),
        (format!("{count} (SELECT id FROM customers WHERE region = 'Oslo' UNION ALL SELECT id FROM customers WHERE region = 'Rome') u"), both),
        (format!("{count} (SELECT id, region FROM customers WHERE age > 3 UNION ALL SELECT id, region FROM customers) u WHERE region = 'Oslo'"), oslo),
        ("SELECT region, LAPLACE(eps=1) COUNT(*) AS n FROM customers GROUP BY region KEYS ('Oslo', 'Rome')".to_owned(), both),
        ("SELECT age, LAPLACE(eps=1) COUNT(*) AS n FROM customers WHERE region = 'Oslo' GROUP BY age".to_owned(), oslo),
        ("SELECT age / 10 AS d, LAPLACE(eps=1) COUNT(*) AS n FROM customers WHERE region = 'Oslo' GROUP BY d".to_owned(), oslo),
        ("SELECT region, age / 10 AS d, LAPLACE(eps=1) COUNT(DISTINCT age) AS n FROM customers GROUP BY region KEYS ('Oslo'), d".to_owned(), oslo),
        ("SELECT ARGMAX EXPONENTIAL(eps=1) age FROM customers WHERE region = 'Oslo' GROUP BY age".to_owned(), oslo),
        ("SELECT EXPONENTIAL(eps=1) MEDIAN(age) FROM customers WHERE region = 'Oslo'".to_owned(), oslo),
        (
            "SELECT (SELECT LAPLACE(eps=1) COUNT(*) FROM customers WHERE region = 'Oslo') AS a, (SELECT LAPLACE(eps=1) COUNT(*) FROM customers WHERE region = 'Rome') AS b".to_owned(),
            "charged to region 'Oslo' alone; charged to region 'Rome' alone",
        ),
    ] {
        assert_eq!(cells(&lab, &sql).await, expected, "{sql}");
    }
    for sql in [
        format!("{count} customers"),
        format!("{count} customers WHERE region = 'Oslo' OR age > 30"),
        format!("{count} customers WHERE region <> 'Oslo'"),
        format!("{count} customers WHERE NOT region = 'Oslo'"),
        format!("{count} customers WHERE region NOT IN ('Oslo')"),
        format!("{count} customers WHERE region LIKE 'Os%'"),
        format!("{count} customers WHERE UPPER(region) = 'OSLO'"),
        format!("{count} customers WHERE CASE WHEN region = 'Oslo' THEN true ELSE false END"),
        format!("{count} nameless WHERE age > 30"),
        format!("{count} (SELECT UPPER(region) AS region FROM customers) q WHERE region = 'OSLO'"),
        format!("{count} orders"),
        format!("{count} orders WHERE customer NOT IN (SELECT id FROM customers WHERE region = 'Oslo')"),
        format!("{count} orders o WHERE NOT EXISTS (SELECT 1 FROM customers c WHERE c.id = o.customer AND c.region = 'Oslo')"),
        format!("{count} orders o LEFT JOIN (SELECT * FROM customers WHERE region = 'Oslo') c ON o.customer = c.id"),
        format!("{count} orders o LEFT JOIN customers c ON o.customer = c.id WHERE c.region IS NULL"),
        format!("{count} orders o LEFT JOIN customers c ON o.customer = c.id AND c.region = 'Oslo'"),
        format!("{count} (SELECT id FROM customers WHERE region = 'Oslo' UNION ALL SELECT id FROM customers) u"),
        format!("{count} customers WHERE region IN ('Oslo', 'Rome', 'Pisa')"),
        "SELECT LAPLACE(eps=1) COUNT(*) FILTER (WHERE region = 'Oslo') AS n FROM customers".to_owned(),
        "SELECT region, LAPLACE(eps=1) COUNT(*) AS n FROM customers GROUP BY region".to_owned(),
        "SELECT SAMPLE_AND_AGGREGATE(eps=1, blocks=4) MEDIAN(CLAMP(n, 0, 9)) AS n FROM (SELECT COUNT(*) AS n FROM customers WHERE region = 'Oslo') AS t".to_owned(),
        "SELECT ARGMAX EXPONENTIAL(eps=1) region FROM customers GROUP BY region".to_owned(),
        "SELECT ARGMAX EXPONENTIAL(eps=1) region FROM customers GROUP BY region KEYS ('Oslo', 'Rome')".to_owned(),
        "SELECT oid, LAPLACE(eps=1, delta=1e-6) COUNT(*) AS n FROM orders o JOIN customers c ON o.customer = c.id WHERE c.region = 'Oslo' GROUP BY oid".to_owned(),
        "SELECT name, LAPLACE(eps=1) COUNT(c.id) AS n FROM zones z LEFT JOIN customers c ON c.region = z.name GROUP BY name".to_owned(),
    ] {
        // Some of these the engine refuses as a whole, and those read nothing.
        if told(&lab, &format!("EXPLAIN PRIVACY {sql}")).await.is_ok_and(|text| text.contains(" refused ")) {
            continue;
        }
        let told = cells(&lab, &sql).await;
        assert!(told.starts_with("charged to all cells of region, because"), "{sql}: {told}");
    }
    // Constants that no row has are refused, and an answer says what was charged.
    assert!(
        why(&lab, &format!("{count} customers WHERE region = 'Paris'"))
            .await
            .contains("no row can pass this filter")
    );
    let answer = lab.query(&format!("{count} customers WHERE region = 'Oslo'")).await.unwrap();
    assert_eq!(answer.receipt().unwrap().cells, [oslo]);
    assert!(answer.to_string().contains(&format!(" · {oslo}")), "{answer}");
    let json = done(&lab, &format!("EXPLAIN PRIVACY FORMAT JSON {count} northern")).await;
    assert!(json.contains("\"cells\":[\"charged to region 'Oslo' alone\"]"), "{json}");
}

/// A synthetic table is charged to all cells, and says so before and after.
#[tokio::test]
async fn synthetic_tables_are_charged_to_all_cells() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), &PEOPLE, 10).await;
    let lab = engine.analyst("lab").unwrap();
    let sql =
        "CREATE SYNTHETIC TABLE s AS AIM(eps=1) SELECT age FROM customers WHERE region = 'Oslo'";
    let told = "charged to all cells of region, because";
    let explained = cells(&lab, sql).await;
    assert!(explained.starts_with(told), "{explained}");
    let made = done(&lab, sql).await;
    assert!(made.contains(told), "{made}");
    let spent = spent(&lab).await;
    assert!(
        !spent.is_empty() && spent.values().all(|spent| (spent - 1.0).abs() < 1e-9),
        "{spent:?}"
    );
}

#[tokio::test]
async fn fifty_states_answer_fifty_times_as_much() {
    let folder = tempfile::tempdir().unwrap();
    let states: Vec<String> = (0..50).map(|state| format!("S{state:02}")).collect();
    let mut text = "id,state\n".to_owned();
    for id in 0..500 {
        text += &format!("{id},{}\n", states[id % 50]);
    }
    let file = folder.path().join("people.csv");
    std::fs::write(&file, text).unwrap();
    let engine = Engine::in_memory().unwrap();
    let listed = states.iter().map(|state| format!("'{state}'")).collect::<Vec<_>>().join(", ");
    for sql in [
        &format!("CREATE EXTERNAL TABLE people STORED AS CSV LOCATION '{}'", file.display()),
        "ALTER TABLE people SET PRIVACY UNIT ROW",
        &format!("ALTER TABLE people ALTER COLUMN state SET PRIVACY DOMAIN IN ({listed})"),
        "CREATE PRIVACY BUDGET census FOR people LIMIT (epsilon=2)",
        "ALTER PRIVACY BUDGET census PARTITION BY state",
    ] {
        done(&engine.owner(), sql).await;
    }
    for state in &states {
        let analyst = engine.analyst(&format!("of_{state}")).unwrap();
        let ask = |eps: &str| {
            format!("SELECT LAPLACE(eps={eps}) COUNT(*) AS n FROM people WHERE state = '{state}'")
        };
        done(&analyst, &ask("1.5")).await;
        done(&analyst, &ask("0.5")).await;
        let refused = analyst.query(&ask("0.1")).await.unwrap_err();
        assert_eq!(refused.exit_status(), 4);
        assert!(
            refused.to_string().starts_with(&format!("for state '{state}', the privacy budget"))
        );
    }
    let owner = engine.owner();
    let by_cell = done(&owner, "SHOW PRIVACY BUDGET census BY CELL").await;
    assert_eq!(by_cell.matches("| ε = 2").count(), 50 + 1, "{by_cell}");
    assert!(by_cell.contains("(other)"));
    // Nobody lost more than 2, and whoever is anywhere has nothing left for a question about all.
    let all = "SELECT LAPLACE(eps=0.1) COUNT(*) AS n FROM people";
    assert!(why(&owner, all).await.contains("does not suffice"));
    assert_eq!(engine.analyst("any").unwrap().budgets().unwrap()[0].left.nano, 0);
}

#[tokio::test]
async fn an_owner_partitions_and_declares_anew() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), &PEOPLE, 10).await;
    let (owner, lab) = (engine.owner(), engine.analyst("lab").unwrap());
    let of = |region: &str| {
        format!("SELECT LAPLACE(eps=3) COUNT(*) AS n FROM customers WHERE region = '{region}'")
    };
    done(&lab, &of("Oslo")).await;
    let left = async |session: &Session| -> Vec<(String, String)> {
        let rows = by_cell(session).await;
        rows.into_iter().map(|[.., cell, _, left]| (cell, left)).collect()
    };
    let is = |cells: &[(&str, &str)]| -> Vec<(String, String)> {
        cells
            .iter()
            .map(|(cell, left)| ((*cell).to_owned(), format!("ε = {left}, δ = 1e-3")))
            .collect()
    };
    assert_eq!(
        left(&lab).await,
        is(&[("Oslo", "7"), ("Pisa", "10"), ("Rome", "10"), ("(other)", "10")])
    );
    // The growing domain of the rules: what was other may be listed.
    done(&lab, "SELECT LAPLACE(eps=4) COUNT(*) AS n FROM customers WHERE region IS NULL").await;
    done(&owner, "ALTER TABLE customers ALTER COLUMN region SET PRIVACY DOMAIN IN ('Oslo', 'Rome', 'Pisa', 'Paris')").await;
    assert_eq!(
        left(&lab).await,
        is(&[("Oslo", "6"), ("Paris", "6"), ("Pisa", "6"), ("Rome", "6"), ("(other)", "6")])
    );
    done(&lab, &of("Paris")).await;
    let refused = why(&lab, &of("Paris").replace("eps=3", "eps=3.5")).await;
    assert!(
        refused.starts_with("for region 'Paris', the privacy budget `research` does not suffice"),
        "{refused}"
    );
    let created = done(&owner, "SHOW CREATE BUDGET research").await;
    assert!(created.contains("ALTER PRIVACY BUDGET research PARTITION BY region"), "{created}");
    // An analyst sees that cells begin anew, and not behind how many charges of others.
    let seen = done(&lab, "SHOW PRIVACY HISTORY").await;
    assert!(
        seen.contains("partition of research: by region of customers") && !seen.contains("behind")
    );
    assert!(done(&owner, "SHOW PRIVACY HISTORY").await.contains("behind entry 2"));
    let dropped = done(&owner, "ALTER PRIVACY BUDGET research DROP PARTITION").await;
    assert!(dropped.contains("no longer partitioned"));
    assert_eq!(lab.budgets().unwrap()[0].left.to_string(), "ε = 3, δ = 1e-3");
    assert_eq!(left(&lab).await, is(&[]));
    for (sql, part) in [
        ("ALTER PRIVACY BUDGET research PARTITION BY city", "city"),
        ("ALTER PRIVACY BUDGET research PARTITION BY age", "SET PRIVACY DOMAIN IN (…)"),
        ("ALTER PRIVACY BUDGET nobody PARTITION BY region", "nobody"),
        ("ALTER PRIVACY BUDGET research DROP PARTITION", "has no partition"),
        ("CREATE PRIVACY BUDGET other FOR orders LIMIT (epsilon=1) PARTITION BY amount", "amount"),
    ] {
        assert!(why(&owner, sql).await.contains(part), "{sql}");
    }
    assert!(!done(&owner, "SHOW PRIVACY BUDGET").await.contains("other"));
    assert!(why(&lab, "ALTER PRIVACY BUDGET research PARTITION BY region").await.contains("owner"));
    // Where a table leads to its people, the column is that of the people.
    done(
        &owner,
        "CREATE PRIVACY BUDGET other FOR orders LIMIT (epsilon=20, delta=1e-3) PARTITION BY region",
    )
    .await;
    assert_eq!(
        cells(&lab, &of("Oslo").replace("eps=3", "eps=1")).await,
        "charged to region 'Oslo' alone"
    );
}

/// A dump rebuilds cells, and what was spent of the dearest one counts for all.
#[test]
fn cells_are_dumped_and_pinned() {
    let study = Study::new();
    study.write("people.csv", "id,region\n1,Oslo\n2,Rome\n3,\n");
    study
        .owner(
            "CREATE EXTERNAL TABLE people STORED AS CSV LOCATION 'people.csv';
             ALTER TABLE people SET PRIVACY UNIT ROW;
             ALTER TABLE people ALTER COLUMN region SET PRIVACY DOMAIN IN ('Oslo', 'Rome');
             CREATE PRIVACY BUDGET b FOR people LIMIT (epsilon=5) SLICE lab LIMIT (epsilon=4) PARTITION BY region",
        )
        .says(0, &["the people of people are in 3 cells, by region"]);
    let of = |eps: &str, region: &str| {
        format!("SELECT LAPLACE(eps={eps}) COUNT(*) FROM people WHERE region = '{region}'")
    };
    study.lab(&of("3", "Oslo")).says(0, &["charged to region 'Oslo' alone"]);
    study.lab(&of("4", "Rome")).says(0, &["left b ε = 0"]);
    study.lab(&of("1.5", "Oslo")).says(4, &["for region 'Oslo', the slice `lab` of"]);
    let dump = study.run(&["dump", "study.db"]);
    dump.says(0, &[]);
    for part in ["SPENT (epsilon=4, rho=", "ALTER PRIVACY BUDGET b PARTITION BY region;"] {
        assert!(dump.out.contains(part), "{}", dump.out);
    }
    study.write("dump.sql", &dump.out);
    study.run(&["init", "other.db"]).says(0, &[]);
    study.run(&["other.db", "--owner", "-f", "dump.sql"]).says(0, &[]);
    let other = |sql: &str| study.run(&["other.db", "--analyst", "lab", "-c", sql]);
    let shown = other("SHOW PRIVACY BUDGET b BY CELL").out;
    assert!(
        shown.contains("Oslo") && shown.contains("(other)") && shown.contains("ε = 0"),
        "{shown}"
    );
    other(&of("0.5", "Oslo")).says(4, &["for region 'Oslo'"]);
    study.run(&["check", "other.db"]).says(0, &["is sound"]);
    study.run(&["check", "study.db"]).says(0, &["is sound"]);
    // Another file is refused until it is declared, and then everybody may be in any cell.
    study.write("people.csv", "id,region\n1,Rome\n2,Oslo\n3,Oslo\n");
    study.lab(&of("0.5", "Oslo")).says(3, &["the file of people was changed"]);
    study.owner("ALTER TABLE people SET PRIVACY UNIT ROW").says(0, &[]);
    study.lab(&of("0.5", "Oslo")).says(4, &["for region 'Oslo'"]);
}

/// Random statements over tables of at most four rows. Each is charged somewhere; whoever it reads,
/// as their removal changes the answer without noise, has paid for it in their cell.
#[tokio::test]
async fn who_changes_an_answer_has_paid_for_it() {
    let seed = 11;
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let (mut narrow, mut changed) = (0, 0);
    for _ in 0..12 {
        let regions = [Some("Oslo"), Some("Rome"), Some("Pisa"), None, Some("Paris")];
        let number = rng.random_range(2..=4);
        let people: Vec<Person> = (1..=number)
            .map(|id| (id, regions[rng.random_range(0..5)], rng.random_range(0..99)))
            .collect();
        let folder = tempfile::tempdir().unwrap();
        let whole = engine(folder.path(), &people, 900_000).await;
        let mut without = Vec::new();
        for at in 0..people.len() {
            let folder = tempfile::tempdir().unwrap();
            let mut others = people.clone();
            let person = others.remove(at);
            let engine = engine(folder.path(), &others, 900_000).await;
            without.push((person, engine, folder));
        }
        let lab = whole.analyst("lab").unwrap();
        let mut lost = vec![0.0; people.len()];
        for _ in 0..24 {
            let sql = statement(&mut rng);
            let before = spent(&lab).await;
            let answer = match lab.query(&sql).await {
                Ok(answer) => answer.to_string(),
                Err(error) => {
                    assert_ne!(error.exit_status(), 4, "{sql}: {error}");
                    continue;
                }
            };
            let after = spent(&lab).await;
            let charged: BTreeMap<&String, f64> =
                after.iter().map(|(cell, spent)| (cell, spent - before[cell])).collect();
            assert!(charged.values().any(|spent| *spent > 0.0), "{sql}");
            narrow += usize::from(charged.values().any(|spent| *spent == 0.0));
            for (at, (person, engine, _)) in without.iter().enumerate() {
                let own = engine.analyst("lab").unwrap().query(&sql).await.unwrap().to_string();
                if rows(&own) != rows(&answer) {
                    changed += 1;
                    lost[at] += EPSILON;
                    let cell = cell_of(person);
                    assert!(charged[&cell] >= EPSILON, "{sql}\n{person:?} of {cell}: {charged:?}");
                }
            }
        }
        let all = spent(&lab).await;
        for (lost, (person, ..)) in lost.iter().zip(&without) {
            assert!(*lost <= all[&cell_of(person)], "{person:?}");
        }
    }
    assert!(narrow > 60 && changed > 100, "{narrow} {changed}");
}

/// So much that there is no noise.
const EPSILON: f64 = 10_000.0;

fn rows(answer: &str) -> Vec<&str> {
    answer.lines().filter(|line| !line.starts_with("cost")).collect()
}

fn cell_of((_, region, _): &Person) -> String {
    match region {
        Some("Paris") | None => "(other)".to_owned(),
        Some(region) => (*region).to_owned(),
    }
}

/// The ε that was spent in each cell.
async fn spent(session: &Session) -> BTreeMap<String, f64> {
    let amount = |spent: &str| {
        let amount = spent.trim_start_matches("ε = ").split(',').next().unwrap().to_owned();
        amount.parse().unwrap()
    };
    let rows = by_cell(session).await.into_iter();
    rows.map(|[.., cell, spent, _]| (cell, amount(&spent))).collect()
}

/// Budget, column, cell, spent and left of each cell.
async fn by_cell(session: &Session) -> Vec<[String; 5]> {
    let shown = done(session, "SHOW PRIVACY BUDGET research BY CELL").await;
    let rows = shown.lines().filter(|line| line.contains("research"));
    let cells = |line: &str| -> Vec<String> {
        let cells = line.split(['|', '│']).map(str::trim).filter(|cell| !cell.is_empty());
        cells.map(str::to_owned).collect()
    };
    rows.map(|line| cells(line).try_into().unwrap()).collect()
}

/// A random statement whose conditions on regions stand anywhere.
fn statement(rng: &mut ChaCha20Rng) -> String {
    let mut pick = |of: &[&str]| of[rng.random_range(0..of.len())].to_owned();
    let value = pick(&["'Oslo'", "'Rome'", "'Pisa'"]);
    let region = pick(&["region", "c.region"]);
    let condition = pick(&[
        "{R} = {V}",
        "{R} = {V}",
        "{R} = {V} AND age > 20",
        "{R} IN ({V}, 'Rome')",
        "{R} IS NULL",
        "{R} IS NOT NULL",
        "{R} <> {V}",
        "NOT ({R} = {V})",
        "{R} = {V} OR age > 40",
        "{R} NOT IN ({V})",
        "age > 10",
        "{V} = {R}",
        "{R} IN ({V}) AND NOT {R} = 'Rome'",
        "{R} = {V} AND {R} IN ('Oslo', 'Pisa')",
        "COALESCE({R}, {V}) = {V}",
        "({R} = {V}) = (age > 30)",
        "{R} = {V} AND (age > 3 OR {R} = 'Rome')",
        "EXISTS (SELECT 1 FROM orders x WHERE x.customer = c.id)",
        "NOT EXISTS (SELECT 1 FROM orders x WHERE x.customer = c.id) AND {R} = {V}",
        "id IN (SELECT customer FROM orders)",
        "id NOT IN (SELECT d.id FROM customers d WHERE d.region = {V})",
        "NOT EXISTS (SELECT 1 FROM customers d WHERE d.id = c.id AND d.region = {V})",
        "EXISTS (SELECT 1 FROM customers d WHERE d.id = c.id AND d.region = {V})",
    ]);
    let from = pick(&[
        "customers c WHERE {P}",
        "customers c WHERE {P}",
        "customers c WHERE {P}",
        "(SELECT * FROM customers c WHERE {P}) q",
        "(SELECT id, region AS where_from, age FROM customers c) q WHERE where_from = {V}",
        "(SELECT id, UPPER(region) AS region, age FROM customers) c WHERE {P}",
        "orders o JOIN customers c ON o.customer = c.id WHERE {P}",
        "orders o JOIN (SELECT * FROM customers c WHERE {P}) q ON o.customer = q.id",
        "customers c LEFT JOIN orders o ON o.customer = c.id WHERE {P}",
        "(SELECT * FROM customers c WHERE {P}) q LEFT JOIN orders o ON o.customer = q.id",
        "orders o LEFT JOIN customers c ON o.customer = c.id WHERE {P}",
        "orders o LEFT JOIN (SELECT * FROM customers c WHERE {P}) q ON o.customer = q.id",
        "orders o LEFT JOIN (SELECT * FROM customers c WHERE {P}) q ON o.customer = q.id WHERE q.id IS NULL",
        "(SELECT id FROM customers c WHERE {P} UNION ALL SELECT id FROM customers WHERE region = {V}) u",
        "(SELECT id FROM customers c WHERE {P} UNION ALL SELECT customer FROM orders) u",
        "(SELECT id, region FROM customers UNION ALL SELECT id, region FROM customers c WHERE {P}) u WHERE region = {V}",
        "customers c JOIN zones z ON c.region = z.name WHERE {P}",
        "orders o WHERE o.customer NOT IN (SELECT c.id FROM customers c WHERE {P})",
        "orders o WHERE o.customer IN (SELECT c.id FROM customers c WHERE {P})",
        "(SELECT c.id, c.region, COUNT(*) AS n FROM customers c JOIN orders o ON o.customer = c.id GROUP BY c.id, c.region) q WHERE region = {V}",
        "northern n WHERE age > 5",
        "named n WHERE place = {V} OR years > 90",
        "named n WHERE place = {V}",
    ]);
    let select = pick(&[
        "SELECT LAPLACE(eps=10000, rows=4) COUNT(*) AS n FROM {F}",
        "SELECT LAPLACE(eps=10000, rows=4) COUNT(*) AS n FROM {F}",
        "SELECT region, LAPLACE(eps=10000) COUNT(*) AS n FROM customers c WHERE {P} GROUP BY region",
        "SELECT region, LAPLACE(eps=10000) COUNT(*) AS n FROM customers c WHERE {P} GROUP BY region KEYS ({V})",
        "SELECT region, LAPLACE(eps=10000) SUM(age) AS n FROM customers c GROUP BY region KEYS ({V}, 'Pisa')",
        "SELECT LAPLACE(eps=10000) COUNT(*) FILTER (WHERE region = {V}) AS n FROM customers",
        "SELECT name, LAPLACE(eps=10000) COUNT(c.id) AS n FROM zones z LEFT JOIN customers c ON c.region = z.name GROUP BY name",
    ]);
    select
        .replace("{F}", &from)
        .replace("{P}", &condition)
        .replace("{R}", &region)
        .replace("{V}", &value)
}

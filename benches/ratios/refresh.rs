//! A dashboard that is refreshed: answers that were paid for once are replayed from the vault.
//!
//! Twenty queries on two tables run once, and are then refreshed a hundred times, before and after
//! the budget is exhausted. The rows show the mean time of a query in the hundredth refresh, its
//! slowest query, and the growth of the ledger.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use hushql::{Engine, Session};
use tokio::runtime::Runtime;

use super::Table;

const REFRESHES: usize = 100;

/// Twenty queries as on dashboards: numbers, groups, medians, thresholds, selections, joins.
fn questions() -> Vec<String> {
    let mut all = Vec::new();
    for age in [20, 30, 40] {
        all.push(format!("SELECT LAPLACE(eps=0.1) COUNT(*) AS n FROM people WHERE age >= {age}"));
        all.push(format!("SELECT city, LAPLACE(eps=0.1) COUNT(*) AS n, LAPLACE(eps=0.1) AVG(age) AS a FROM people WHERE age < {age} GROUP BY city ORDER BY n DESC"));
        all.push(format!("SELECT place, LAPLACE(eps=0.1) SUM(cost) AS s FROM people JOIN visits ON id = person WHERE age > {age} GROUP BY place"));
        all.push(format!("SELECT city, EXPONENTIAL(eps=0.1) MEDIAN(age) AS m FROM people WHERE age > {age} GROUP BY city"));
        all.push(format!(
            "SELECT ARGMAX EXPONENTIAL(eps=0.1) city FROM people WHERE age > {age} GROUP BY city"
        ));
        all.push(format!("SELECT job, LAPLACE(eps=0.1, delta=1e-8) COUNT(*) AS n FROM people WHERE age > {age} GROUP BY job"));
    }
    all.push("SELECT LAPLACE(eps=0.1) COUNT(DISTINCT person) AS n FROM visits".to_owned());
    all.push("SELECT LAPLACE(eps=0.1) COUNT(*) AS n FROM visits WHERE place IN (SELECT name FROM places WHERE size > 1)".to_owned());
    all
}

fn declared(directory: &Path, runtime: &Runtime) -> Engine {
    let at = |name: &str| directory.join(name).to_str().unwrap().to_owned();
    let cities = ["Oslo", "Rome", "Bonn", "Lyon", "Graz"];
    let mut people = "id,age,city,job\n".to_owned();
    let mut visits = "person,cost,place\n".to_owned();
    for id in 0..2_000 {
        people.push_str(&format!("{id},{},{},job {}\n", id % 90, cities[id % 5], id % 7));
        visits.push_str(&format!("{id},{},{}\n", id % 10, ["x", "y"][id % 2]));
    }
    fs::write(at("dash_people.csv"), people).unwrap();
    fs::write(at("dash_visits.csv"), visits).unwrap();
    fs::write(at("dash_places.csv"), "name,size\nx,1\ny,2\n").unwrap();
    let engine = Engine::init(at("dashboard.db")).unwrap();
    for sql in [
        format!("CREATE EXTERNAL TABLE people STORED AS CSV LOCATION '{}'", at("dash_people.csv")),
        format!("CREATE EXTERNAL TABLE visits STORED AS CSV LOCATION '{}'", at("dash_visits.csv")),
        format!("CREATE EXTERNAL TABLE places STORED AS CSV LOCATION '{}'", at("dash_places.csv")),
        "ALTER TABLE people SET PRIVACY UNIT (id) UNIQUE".to_owned(),
        "ALTER TABLE visits SET PRIVACY UNIT VIA (person) REFERENCES people(id) MAX ROWS 4".to_owned(),
        "ALTER TABLE places SET PUBLIC".to_owned(),
        "ALTER TABLE people ALTER COLUMN age SET PRIVACY DOMAIN BETWEEN (0, 99)".to_owned(),
        "ALTER TABLE people ALTER COLUMN city SET PRIVACY DOMAIN IN ('Oslo', 'Rome', 'Bonn', 'Lyon', 'Graz')".to_owned(),
        "ALTER TABLE visits ALTER COLUMN cost SET PRIVACY DOMAIN BETWEEN (0, 9)".to_owned(),
        "ALTER TABLE visits ALTER COLUMN place SET PRIVACY DOMAIN IN ('x', 'y')".to_owned(),
        "CREATE PRIVACY BUDGET b FOR people LIMIT (epsilon=2.3, delta=1e-6)".to_owned(),
        "ALTER PRIVACY BUDGET b SET REPLAY (ALL)".to_owned(),
    ] {
        runtime.block_on(engine.owner().execute(&sql)).unwrap();
    }
    engine
}

/// The time of each query; `paid` says whether it is charged.
fn refreshed(session: &Session, runtime: &Runtime, questions: &[String]) -> Vec<Duration> {
    let ask = |sql: &String| {
        let start = Instant::now();
        let answer = runtime.block_on(session.query(sql)).unwrap();
        assert!(answer.receipt().unwrap().is_replayed, "{sql}");
        start.elapsed()
    };
    questions.iter().map(ask).collect()
}

pub(crate) fn dashboard(table: &mut Table, directory: &Path, runtime: &Runtime) {
    let engine = declared(directory, runtime);
    let (lab, questions) = (engine.analyst("lab").unwrap(), questions());
    // A file older than a second is recognised by its size and times alone.
    std::thread::sleep(Duration::from_millis(1_100));
    for sql in &questions {
        runtime.block_on(lab.query(sql)).unwrap();
    }
    let vault = directory.join("dashboard.db");
    let size = || fs::metadata(&vault).unwrap().len();
    refreshed(&lab, runtime, &questions);
    let before = size();
    let mut last = Vec::new();
    for _ in 0..REFRESHES {
        last = refreshed(&lab, runtime, &questions);
    }
    let grown = size() - before;
    let mean = last.iter().sum::<Duration>() / u32::try_from(last.len()).unwrap();
    table.time("refresh: a question in the hundredth refresh of 20", "≤ 2 ms", mean);
    let (at, slowest) = last.iter().enumerate().max_by_key(|(_, time)| **time).unwrap();
    table.time(format!("refresh: the slowest of them, question {at}"), "", *slowest);
    table.row(
        "refresh: growth of the vault in 100 refreshes",
        "0",
        grown,
        [String::new(), String::new()],
    );
    let used = "SELECT LAPLACE(eps=0.1) COUNT(*) AS n FROM people WHERE age = 7";
    while runtime
        .block_on(lab.query(&used.replace(
            "7",
            &format!("{}", engine.analyst("lab").unwrap().budgets().unwrap()[0].left.nano),
        )))
        .is_ok()
    {}
    let exhausted = refreshed(&lab, runtime, &questions);
    let mean = exhausted.iter().sum::<Duration>() / u32::try_from(exhausted.len()).unwrap();
    table.time("refresh: a question, the budget exhausted", "≤ 2 ms", mean);
}

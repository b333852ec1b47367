//! Random queries: their integers on workers are those of one process, for the same key.

use std::path::Path;
use std::sync::Arc;

use hushql_cluster::Workers;

use crate::equal::program;
use crate::study::{Here, Noted, engine, write};

/// Numbers that are the same each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % n
    }

    fn pick(&mut self, of: &[&str]) -> String {
        of[self.below(of.len() as u64) as usize].to_owned()
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// Rows of patients, with the columns patient, n and w: a number and a ward.
fn rows(dice: &mut Dice, depth: u32) -> String {
    let number = dice.pick(&["minutes", "minutes * 2 + 1", "CLAMP(minutes, 5, 70)", "visit % 90"]);
    let fee = dice.pick(&["CLAMP(fee, 0, 90)", "fee"]);
    let kept = condition(dice, "minutes", "ward");
    match dice.below(if depth == 0 { 4 } else { 15 }) {
        0 => format!("SELECT patient, {number} AS n, ward AS w FROM visits"),
        1 => format!("SELECT patient, {number} AS n, ward AS w FROM visits WHERE {kept}"),
        2 => format!(
            "SELECT patient, CASE WHEN {kept} THEN {number} END AS n, upper(ward) AS w FROM visits"
        ),
        3 => format!("SELECT patient, CAST({fee} AS BIGINT) AS n, ward AS w FROM visits"),
        4 => {
            let join = dice.pick(&["JOIN", "LEFT JOIN"]);
            format!(
                "SELECT patient, dose AS n, ward AS w FROM visits v {join} drugs d ON v.visit = d.visit"
            )
        }
        5 => format!(
            "SELECT v.patient, d.dose + v.minutes AS n, d.drug AS w FROM drugs d JOIN visits v ON d.visit = v.visit AND d.dose < v.minutes WHERE {kept}"
        ),
        6 => {
            let join = dice.pick(&["JOIN", "LEFT JOIN"]);
            format!(
                "SELECT patient, floor AS n, visits.ward AS w FROM visits {join} wards ON visits.ward = wards.ward"
            )
        }
        7 => {
            let join = dice.pick(&["JOIN", "LEFT JOIN"]);
            format!(
                "SELECT patient, rate AS n, ward AS w FROM visits {join} rates ON visits.diagnosis = rates.diagnosis"
            )
        }
        8 => {
            let own = rows(dice, depth - 1);
            let not = dice.pick(&["", "NOT "]);
            format!(
                "SELECT patient, n, w FROM ({own}) a WHERE {not}EXISTS (SELECT 1 FROM visits b WHERE a.patient = b.patient AND {kept})"
            )
        }
        9 => {
            let (own, other) = (rows(dice, depth - 1), rows(dice, 0));
            let not = dice.pick(&["", "NOT "]);
            format!(
                "SELECT patient, n, w FROM ({own}) WHERE patient {not}IN (SELECT patient FROM ({other}) WHERE n > 60 AND patient IS NOT NULL)"
            )
        }
        10 => {
            let (one, two) = (rows(dice, depth - 1), rows(dice, depth - 1));
            format!("SELECT patient, n, w FROM ({one}) UNION ALL SELECT patient, n, w FROM ({two})")
        }
        11 => {
            let own = rows(dice, depth - 1);
            let function = dice.pick(&[
                "ROW_NUMBER()",
                "RANK()",
                "DENSE_RANK()",
                "LAG(n)",
                "LEAD(n, 2)",
                "MAX(n)",
                "COUNT(n)",
            ]);
            let order = dice.pick(&["n", "w, n DESC", "n DESC NULLS LAST"]);
            format!(
                "SELECT patient, {function} OVER (PARTITION BY patient ORDER BY {order}) AS n, w FROM ({own})"
            )
        }
        12 => {
            let own = rows(dice, depth - 1);
            let function = dice.pick(&["COUNT(*)", "MAX(n)", "MIN(n)", "SUM(CLAMP(n, 0, 9))"]);
            format!("SELECT patient, {function} AS n, w FROM ({own}) GROUP BY patient, w")
        }
        13 => {
            let own = rows(dice, depth - 1);
            format!(
                "SELECT a.patient, b.minutes AS n, a.w FROM ({own}) a JOIN visits b ON a.patient = b.patient AND a.n = b.minutes"
            )
        }
        _ => "SELECT patient, minutes - floor AS n, visits.ward AS w FROM visits, wards WHERE minutes > CLAMP(floor, 1, 3) * 20".to_owned(),
    }
}

fn condition(dice: &mut Dice, number: &str, text: &str) -> String {
    match dice.below(5) {
        0 => format!("{number} > {}", dice.below(90)),
        1 => format!("{text} IN ('A', 'B')"),
        2 => format!("{text} IS NULL OR {number} < 50"),
        3 => format!("{number} BETWEEN 10 AND {}", 20 + dice.below(60)),
        _ => format!("coalesce({text}, 'none') <> 'C'"),
    }
}

/// A query over rows of patients, or of guests.
fn query(dice: &mut Dice) -> String {
    let is_row = dice.one_in(8);
    let from = match is_row {
        true => "SELECT minutes AS n, ward AS w FROM guests".to_owned(),
        false => rows(dice, 2),
    };
    let bounds = match is_row {
        true => String::new(),
        false => dice.pick(&[", rows=1", ", rows=3", ", rows=2, groups=1", ", rows=4, groups=2"]),
    };
    let condition = match dice.one_in(3) {
        true => format!(" WHERE {}", condition(dice, "n", "w")),
        false => String::new(),
    };
    if dice.one_in(9) {
        let group = dice.pick(&["w", "n", "n % 7"]);
        return format!(
            "SELECT {group} AS k, LAPLACE(eps=1, delta=0.001{bounds}) COUNT(*) AS c FROM ({from}){condition} GROUP BY {group}"
        );
    }
    if dice.one_in(9) {
        return format!(
            "SELECT ARGMAX EXPONENTIAL(eps=1{bounds}) w IN ('A', 'B', 'C') FROM ({from}){condition} GROUP BY w"
        );
    }
    let (key, group) = match dice.one_in(2) {
        true => ("w, ", " GROUP BY w KEYS ('A', 'B', 'C', 'x', NULL)"),
        false => ("", ""),
    };
    let releases = (0..1 + dice.below(3)).map(|i| {
        let call = dice.pick(&[
            "COUNT(*)",
            "COUNT(n)",
            "SUM(CLAMP(n, 0, 50))",
            "SUM(CLAMP(n * 2, -9, 90))",
            "AVG(CLAMP(n, 0, 50))",
            "VAR_POP(CLAMP(n, 0, 20))",
            "COUNT(DISTINCT n)",
            "COUNT(*) FILTER (WHERE n > 20)",
            "MEDIAN(CLAMP(n, 0, 50))",
        ]);
        let mechanism = if call.starts_with("MEDIAN") { "EXPONENTIAL" } else { "LAPLACE" };
        format!("{mechanism}(eps=1{bounds}) {call} AS r{i}")
    });
    let releases = releases.collect::<Vec<_>>().join(", ");
    format!("SELECT {key}{releases} FROM ({from}){condition}{group}")
}

/// Compares so many random queries on these numbers of workers.
async fn compare(folder: &Path, queries: usize, workers: &[usize], seed: u64) {
    let local = Arc::new(Noted::new(Arc::new(Here)));
    let here = engine(folder, Arc::clone(&local) as _).await;
    let mut there = Vec::new();
    for n in workers {
        let started = Workers::start(program(), *n).unwrap();
        let noted = Arc::new(Noted::new(Arc::new(started.site())));
        let engine = engine(folder, Arc::clone(&noted) as _).await;
        there.push((started, noted, engine));
    }
    let (mut dice, mut answered, mut refused) = (Dice(seed), 0, Vec::new());
    let mut tried = 0;
    while answered < queries {
        tried += 1;
        assert!(tried < 3 * queries + 20, "too many are refused: {refused:#?}");
        let query = query(&mut dice);
        if let Err(error) = here.analyst("lab").unwrap().query(&query).await {
            assert!(error.code().is_some(), "{query}: {error}");
            refused.push(format!("{query}: {error}"));
            local.taken();
            continue;
        }
        answered += 1;
        let expected = local.taken();
        for (started, noted, engine) in &there {
            let n = started.site().workers();
            let answer = engine.analyst("lab").unwrap().query(&query).await;
            answer.unwrap_or_else(|e| panic!("{n} workers: {query}: {e}"));
            assert_eq!(noted.taken(), expected, "{n} workers: {query}");
        }
    }
    for (started, ..) in &there {
        let (n, divided) = (started.site().workers(), started.site().divided_so_far());
        println!("{n} workers: {divided} inputs of {answered} queries divided");
        assert!(n == 1 || divided * 2 > answered as u64, "{n} workers: {divided}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_few_random_queries_have_the_integers_of_one_process() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    compare(folder.path(), 30, &[3], 1).await;
}

#[ignore = "long: a thousand queries on one, two and four workers"]
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_thousand_random_queries_have_the_integers_of_one_process() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    compare(folder.path(), 1_000, &[1, 2, 4], 2).await;
}

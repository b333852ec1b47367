//! The audit of two draws of one number, of which the second is built on the first.
//!
//! In: whole statements over a file with a thousand groups, each of one person or of nobody. Out:
//! the joint law of both draws, and the ε that they prove together. Two draws that do not know of
//! each other are the broken twin: they lose the sum of both ε.
//!
//! The draws are not seeded: each statistic is above its limit with probability 10⁻⁷ at most, and
//! each bound as rarely as this file says.

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use hushql::{Engine, Session};

use super::counted;
use super::sample::{Sample, Seen, audit};
use crate::privacy::selection::pearson;

const GROUPS: usize = 1_000;

/// So many statements, each of a question of its own.
const STATEMENTS: usize = 24;

const EPSILONS: [f64; 2] = [0.5, 1.0];

/// Both noisy numbers of the groups of so many questions. Of each group there is one person, or
/// nobody.
async fn pairs(has_person: bool, refine: bool) -> Vec<[i64; 2]> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("people.csv");
    let person = |group: usize| if has_person { format!("{group},0\n") } else { String::new() };
    // Rows that no question counts: the file is never empty.
    let rows: String = (0..GROUPS).map(person).collect();
    std::fs::write(&path, format!("k,more\n0,5000\n{rows}")).unwrap();
    let engine = Engine::in_memory().unwrap();
    for sql in [
        &format!("CREATE EXTERNAL TABLE people STORED AS CSV LOCATION '{}'", path.display()),
        "ALTER TABLE people SET PRIVACY UNIT ROW",
        "ALTER TABLE people ALTER COLUMN k SET PRIVACY DOMAIN BETWEEN (0, 999)",
        "CREATE PRIVACY BUDGET people FOR people LIMIT (epsilon=100000)",
    ] {
        engine.owner().execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    let lab = Session::from(engine.analyst("lab").unwrap()).with_refined_draws(refine);
    let forwards: Vec<String> = (0..GROUPS).map(|k| k.to_string()).collect();
    let backwards: Vec<String> = forwards.iter().rev().cloned().collect();
    let mut all = Vec::new();
    for question in 0..STATEMENTS {
        let mut drawn = Vec::new();
        for (at, eps) in EPSILONS.into_iter().enumerate() {
            // The groups in another order are the same groups.
            let keys = [
                format!("KEYS ({})", forwards.join(", ")),
                format!("KEYS ({})", backwards.join(", ")),
            ];
            let sql = format!(
                "SELECT k, LAPLACE(eps={eps}) COUNT(*) AS n FROM people WHERE more < {} GROUP BY k {} ORDER BY k",
                1_000 + question,
                keys[at]
            );
            let answer = lab.query(&sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
            let receipt = answer.receipt().unwrap();
            assert_eq!(receipt.refined.len(), usize::from(refine && at == 1), "{receipt}");
            let numbers = answer.batches().iter();
            let numbers =
                numbers.flat_map(|b| b.column(1).as_primitive::<Int64Type>().values().iter());
            drawn.push(numbers.copied().collect::<Vec<i64>>());
        }
        assert!(drawn.iter().all(|numbers| numbers.len() == GROUPS));
        all.extend(drawn[0].iter().zip(&drawn[1]).map(|(first, second)| [*first, *second]));
    }
    all
}

/// P(|X| = x) of discrete Laplace noise with ratio a, for both signs together; from `reach` on, the
/// rest.
fn folded(a: f64, reach: i64) -> Vec<f64> {
    let at = |x: i64| (1.0 - a) / (1.0 + a) * a.powi(x as i32);
    let mut law: Vec<f64> = (0..reach).map(|x| if x == 0 { at(0) } else { 2.0 * at(x) }).collect();
    law.push(1.0 - law.iter().sum::<f64>());
    law
}

/// The second draw has the law of its own ε, and the first one is the second one with noise that is
/// independent of it: that is what makes both together cost the larger ε.
#[tokio::test]
async fn both_draws_have_the_joint_law() {
    let (coarse, fine) = ((-EPSILONS[0]).exp(), (-EPSILONS[1]).exp());
    let none = (1.0 - coarse).powi(2) * fine / ((1.0 - fine).powi(2) * coarse);
    let (few, many) = (4_i64, 8_i64);
    let of_fine = folded(fine, few);
    let mut of_rest: Vec<f64> = folded(coarse, many).iter().map(|p| (1.0 - none) * p).collect();
    of_rest[0] += none;
    for has_person in [false, true] {
        let exact = i64::from(has_person);
        let pairs = pairs(has_person, true).await;
        let (mut seen, mut sides) = (vec![vec![0.0; of_rest.len()]; of_fine.len()], [0.0; 4]);
        for [first, second] in &pairs {
            let (noise, rest) = (second - exact, first - second);
            let cell = |x: i64, reach: i64| x.abs().min(reach) as usize;
            seen[cell(noise, few)][cell(rest, many)] += 1.0;
            if noise != 0 && rest != 0 {
                sides[usize::from(noise > 0) * 2 + usize::from(rest > 0)] += 1.0;
            }
        }
        let law = seen
            .iter()
            .zip(&of_fine)
            .flat_map(|(seen, p)| seen.iter().zip(&of_rest).map(move |(seen, q)| (*seen, p * q)));
        pearson(&format!("both draws, {exact}"), law, pairs.len() as f64);
        let signed: f64 = sides.iter().sum();
        let law = sides.iter().map(|seen| (*seen, 0.25));
        pearson(&format!("their signs, {exact}"), law, signed);
    }
}

/// What is seen of a pair: both numbers, and what they say together.
fn sample(pairs: Vec<[i64; 2]>) -> Sample {
    let mut pairs = pairs.into_iter();
    let len = pairs.len();
    Sample::of(len, || {
        let [first, second] = pairs.next().unwrap().map(|n| n as f64);
        let numbers = vec![first, second, first + second, first.min(second), first.max(second)];
        Seen { numbers, name: None }
    })
}

/// The ε that pairs of draws prove.
async fn proved(refine: bool) -> f64 {
    let (with, without) = (pairs(true, refine).await, pairs(false, refine).await);
    counted();
    audit(&sample(with), &sample(without), 0.0).0
}

#[tokio::test]
async fn both_draws_lose_the_larger_epsilon() {
    let low = proved(true).await;
    println!("one draw built on the other: ε ≥ {low:.3}, charged 1");
    assert!(low <= EPSILONS[1] && low > 0.8, "ε is at least {low}");
}

/// Two draws that do not know of each other, for the price of the larger one, are caught.
#[tokio::test]
async fn two_draws_for_the_price_of_one_are_caught() {
    let low = proved(false).await;
    println!("two draws: ε ≥ {low:.3}, of 1.5");
    assert!(low > EPSILONS[1] && low <= 1.5, "ε is at least {low}");
}

//! Numbers that are asked again with a larger ε: built on the draw that is kept, for the
//! difference, where that is sound; drawn and paid by themselves everywhere else.

use std::path::Path;

use hushql::{ChargeCaps, CostCap, Engine, Session, Spend};

use crate::contract::asked::{done, why};

/// A vault with 40 people, of two cities, and ε = 20 for them.
async fn engine(folder: &Path) -> Engine {
    let mut text = "id,city,age,weight\n".to_owned();
    for id in 0..40 {
        let city = ["Oslo", "Rome", "Rome", "Rome"][id % 4];
        text.push_str(&format!("{id},{city},{},{}.5\n", 20 + id, 50 + id));
    }
    let people = folder.join("people.csv");
    std::fs::write(&people, text).unwrap();
    let engine = Engine::init(folder.join("v.db")).unwrap();
    for sql in [
        &format!("CREATE EXTERNAL TABLE people STORED AS CSV LOCATION '{}'", people.display()),
        "ALTER TABLE people SET PRIVACY UNIT (id) UNIQUE",
        "ALTER TABLE people ALTER COLUMN city SET PRIVACY DOMAIN IN ('Oslo', 'Rome')",
        "ALTER TABLE people ALTER COLUMN age SET PRIVACY DOMAIN BETWEEN (0, 99)",
        "ALTER TABLE people ALTER COLUMN weight SET PRIVACY DOMAIN BETWEEN (0, 200)",
        "CREATE PRIVACY BUDGET b FOR people LIMIT (epsilon=20, delta=1e-6)",
    ] {
        done(&engine.owner(), sql).await;
    }
    engine
}

fn count(eps: f64) -> String {
    format!("SELECT LAPLACE(eps={eps}) COUNT(*) AS n FROM people")
}

/// What a query costs when it is asked, and the charges on whose draws it is built. The price that
/// was told before is the same.
async fn paid(session: &Session, sql: &str) -> (String, Vec<i64>) {
    let told = session.cost(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let answer = session.query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let receipt = answer.receipt().unwrap();
    assert_eq!(receipt.spent, told, "{sql}");
    (receipt.spent.to_string(), receipt.refined.clone())
}

/// The same, for a query with an own draw at this price.
async fn alone(session: &Session, sql: &str, epsilon: &str) {
    assert_eq!(paid(session, sql).await, (format!("ε = {epsilon}"), vec![]), "{sql}");
}

#[tokio::test]
async fn a_larger_epsilon_pays_the_difference() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let lab = engine.analyst("lab").unwrap();
    alone(&lab, &count(0.5), "0.5").await;
    // The price and its reason are told before.
    let explained = done(&lab, &format!("EXPLAIN PRIVACY {}", count(2.0))).await;
    let line = "built on the draw of charge 1 at eps=0.5: only eps=1.5 is to be paid";
    assert!(explained.contains(line) && explained.contains("ε = 1.5"), "{explained}");
    let json = done(&lab, &format!("EXPLAIN PRIVACY FORMAT JSON {}", count(2.0))).await;
    assert!(json.contains(r#""refine":{"charge":1,"eps":"0.5"}"#), "{json}");
    let prepared = lab.prepare(&count(2.0)).unwrap();
    assert_eq!(prepared.cost().to_string(), "ε = 1.5");
    let answer = prepared.execute().await.unwrap();
    let receipt = answer.receipt().unwrap();
    assert_eq!(receipt.spent.to_string(), "ε = 1.5");
    assert_eq!(receipt.refined, [1]);
    assert!(receipt.to_string().ends_with(" · refines charge 1"), "{receipt}");
    assert_eq!(receipt.left_text(), "b ε = 18, δ = 1e-6");
    // Both draws are kept, and the second one is built on once more.
    for eps in [0.5, 2.0] {
        assert!(lab.query(&count(eps)).await.unwrap().receipt().unwrap().is_replayed, "{eps}");
    }
    let (cost, charges) = paid(&lab, &count(3.0)).await;
    assert!(cost == "ε = 1" && charges.len() == 1 && charges != [1], "{cost} {charges:?}");
    let ledger = "SELECT mechanism, parameters, epsilon, kind FROM hushql.ledger WHERE kind = 'paid' ORDER BY sequence";
    let ledger = done(&lab, ledger).await;
    assert!(ledger.contains("LAPLACE_REFINED") && ledger.contains("eps=3"), "{ledger}");
    // A smaller ε is a draw of its own, and is told that a better one is there.
    let explained = done(&lab, &format!("EXPLAIN PRIVACY {}", count(1.0))).await;
    assert!(explained.contains("paid for a draw at eps=3, with less noise"), "{explained}");
    alone(&lab, &count(1.0), "1").await;
    // It does not displace the better one.
    assert_eq!(paid(&lab, &count(3.5)).await.0, "ε = 0.5");
    drop((lab, engine));
    // Another program builds on it as well.
    let engine = Engine::open(folder.path().join("v.db")).unwrap();
    let lab = engine.analyst("lab").unwrap();
    assert_eq!(paid(&lab, &count(4.0)).await.0, "ε = 0.5");
}

/// Groups, sums and several numbers of a statement, in other words.
#[tokio::test]
async fn plain_numbers_of_public_groups_are_refined() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let lab = engine.analyst("lab").unwrap();
    for (first, second) in [
        (
            "SELECT city, LAPLACE(eps=0.5) COUNT(*) AS n FROM people WHERE age > 30 AND id > 3 GROUP BY city",
            "SELECT p.city AS c, LAPLACE(eps=0.75) COUNT(*) AS m FROM people p WHERE id > 3 AND age > 30 GROUP BY p.city KEYS ('Rome', 'Oslo')",
        ),
        (
            "SELECT LAPLACE(eps=0.5) SUM(age) FROM people",
            "SELECT AUTO(eps=0.75) SUM(age) FROM people",
        ),
        (
            "SELECT LAPLACE(eps=0.5) SUM(weight) FROM people",
            "SELECT LAPLACE(eps=0.75) SUM(weight) FROM people",
        ),
        (
            "SELECT LAPLACE(eps=0.5) COUNT(age) FROM people",
            "SELECT LAPLACE(eps=0.75) COUNT(age) FROM people",
        ),
        (
            "SELECT LAPLACE(eps=0.5) COUNT(DISTINCT id) FROM people WHERE id > 1",
            "SELECT LAPLACE(eps=0.75) COUNT(DISTINCT id) FROM people WHERE id > 1",
        ),
    ] {
        alone(&lab, first, "0.5").await;
        let (cost, charges) = paid(&lab, second).await;
        assert_eq!((cost.as_str(), charges.len()), ("ε = 0.25", 1), "{second}");
    }
    // Several numbers of one statement, each on its own draw; another one is drawn by itself.
    let of = |eps: f64| {
        format!(
            "SELECT LAPLACE(eps={eps}) COUNT(*) AS n, LAPLACE(eps={eps}) SUM(age + 0) AS s FROM people WHERE id > 9"
        )
    };
    alone(&lab, &of(0.5), "1").await;
    let (cost, charges) = paid(&lab, &of(0.75)).await;
    assert_eq!((cost.as_str(), charges.len()), ("ε = 0.5", 1));
    // The second occurrence of a number is a draw of its own, and so is what is built on it.
    let twice = |a: f64, b: f64| {
        format!(
            "SELECT LAPLACE(eps={a}) COUNT(*) AS n, LAPLACE(eps={b}) COUNT(*) AS m FROM people WHERE id > 8"
        )
    };
    alone(&lab, &twice(0.5, 1.0), "1.5").await;
    assert_eq!(paid(&lab, &twice(2.0, 2.0)).await.0, "ε = 2.5");
}

/// Everything of which the derivation does not hold is paid in full.
#[tokio::test]
async fn everything_else_is_drawn_and_paid_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let lab = engine.analyst("lab").unwrap();
    let owner = engine.owner();
    for (first, second) in [
        ("AVG(age)", "AVG(age)"),
        ("COUNT(DISTINCT city)", "COUNT(DISTINCT city)"),
        ("VAR_POP(age)", "VAR_POP(age)"),
        // Other numbers.
        ("COUNT(*) FILTER (WHERE age > 30)", "COUNT(*) FILTER (WHERE age > 31)"),
        ("SUM(CLAMP(age, 0, 50))", "SUM(CLAMP(age, 0, 51))"),
        ("SUM(age)", "SUM(age + 1)"),
    ] {
        let of = |eps: f64, one: &str| format!("SELECT LAPLACE(eps={eps}) {one} AS x FROM people");
        alone(&lab, &of(0.125, first), "0.125").await;
        alone(&lab, &of(0.25, second), "0.25").await;
    }
    let city = "SELECT city, {} COUNT(*) AS n FROM people WHERE id > 1 GROUP BY city";
    let word = "SELECT weight, {} COUNT(*) AS n FROM people GROUP BY weight";
    for (first, second, of) in [
        ("GAUSSIAN(eps=0.125, delta=1e-9)", "GAUSSIAN(eps=0.25, delta=1e-9)", city),
        ("LAPLACE(eps=0.125)", "GAUSSIAN(eps=0.2578125, delta=1e-9)", city),
        ("LAPLACE(eps=0.125, delta=1e-9)", "LAPLACE(eps=0.25, delta=1e-9)", word),
    ] {
        let [first, second] = [first, second].map(|one| of.replace("{}", one));
        assert!(paid(&lab, &first).await.1.is_empty(), "{first}");
        assert!(paid(&lab, &second).await.0.starts_with("ε = 0.25"), "{second}");
    }
    // FRESH, and a session that does not refine: both draws are independent.
    alone(&lab, &count(0.5), "0.5").await;
    let fresh = count(0.75).replace("LAPLACE", "FRESH LAPLACE");
    alone(&lab, &fresh, "0.75").await;
    let apart = Session::from(lab.clone()).with_refined_draws(false);
    alone(&apart, &count(0.75), "0.75").await;
    // The best draw is the one to build on.
    assert_eq!(paid(&lab, &count(1.0)).await.0, "ε = 0.25");
    // An agent's caps bound what it may reveal.
    let cap =
        CostCap { epsilon: Some(Spend::of_epsilon(90_000_000_000, 1_000_000_000_000)), rho: None };
    let caps = ChargeCaps { day: Some(cap), ..ChargeCaps::default() };
    alone(&Session::from(lab.clone()).with_caps(caps), &count(1.25), "1.25").await;
    // A declaration makes other rows possible.
    done(&owner, "ALTER TABLE people SET PRIVACY UNIT (id) UNIQUE").await;
    alone(&lab, &count(1.5), "1.5").await;
    done(&owner, "ALTER TABLE people REFRESH").await;
    alone(&lab, &count(1.75), "1.75").await;
}

/// Where a bound may cut rows, which of them count is chosen anew for each draw.
#[tokio::test]
async fn numbers_of_which_a_bound_may_cut_rows_are_not_refined() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let visits = folder.path().join("visits.csv");
    let rows: String = (0..60).map(|i| format!("{},{}\n", i / 3, ["x", "y", "z"][i % 3])).collect();
    std::fs::write(&visits, format!("person,ward\n{rows}")).unwrap();
    for sql in [
        &format!("CREATE EXTERNAL TABLE visits STORED AS CSV LOCATION '{}'", visits.display()),
        "ALTER TABLE visits SET PRIVACY UNIT VIA (person) REFERENCES people (id) MAX ROWS 4",
        "ALTER TABLE visits ALTER COLUMN ward SET PRIVACY DOMAIN IN ('x', 'y', 'z')",
    ] {
        done(&engine.owner(), sql).await;
    }
    let lab = engine.analyst("lab").unwrap();
    let all = [
        ("", true),
        (", rows=4, groups=3", true),
        (", rows=3", false),
        (", groups=2", false),
        (", total=3", false),
        (", rows=auto", false),
    ];
    for (at, (bounds, is_refined)) in all.into_iter().enumerate() {
        let of = |eps: f64| {
            format!(
                "SELECT ward, LAPLACE(eps={eps}{bounds}) COUNT(*) AS n FROM visits WHERE person > {at} GROUP BY ward"
            )
        };
        assert!(paid(&lab, &of(0.25)).await.1.is_empty(), "{bounds}");
        let (cost, charges) = paid(&lab, &of(0.5)).await;
        let expected = if is_refined { ("ε = 0.25", 1) } else { ("ε = 0.5", 0) };
        assert_eq!((cost.as_str(), charges.len()), expected, "{bounds}");
    }
    // Through a link, whose rows were verified.
    let of = |eps: f64| {
        format!("SELECT LAPLACE(eps={eps}) SUM(age) AS n FROM people JOIN visits ON id = person")
    };
    alone(&lab, &of(0.25), "0.25").await;
    assert_eq!(paid(&lab, &of(0.5)).await.0, "ε = 0.25");
}

/// Rows that may change without a declaration are other rows for the second draw.
#[tokio::test]
async fn tables_that_may_change_are_not_refined() {
    let engine = Engine::demo().unwrap();
    let lab = engine.analyst("lab").unwrap();
    let of = |eps: f64| format!("SELECT LAPLACE(eps={eps}) COUNT(*) AS n FROM adult");
    for round in 1..3 {
        let more = 0.25 * f64::from(round);
        alone(&lab, &of(more), &more.to_string()).await;
        // The owner's word that they are the same lets them be replayed, and is not verified.
        done(&engine.owner(), "ALTER TABLE adult REFRESH").await;
        alone(&lab, &of(more), &more.to_string()).await;
        alone(&lab, &of(more + 0.125), &(more + 0.125).to_string()).await;
    }
}

/// In ρ and in coupons, the difference would be too little.
#[tokio::test]
async fn only_budgets_in_epsilon_pay_the_difference() {
    for budget in [
        "LIMIT (rho=2, delta=1e-6)",
        "LIMIT (epsilon=5, delta=1e-6) ACCOUNTANT ZCDP",
        "LIMIT (epsilon=9, delta=1e-6) ACCOUNTANT COUPONS (epsilon=1)",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let engine = engine(folder.path()).await;
        let lab = engine.analyst("lab").unwrap();
        alone(&lab, &count(0.25), "0.25").await;
        let declare = format!("CREATE PRIVACY BUDGET other FOR people {budget}");
        done(&engine.owner(), &declare).await;
        let cost = lab.cost(&count(0.5)).unwrap().to_string();
        assert!(cost.starts_with("ε = 0.5"), "{budget}: {cost}");
        let answer = lab.query(&count(0.5)).await.unwrap();
        assert!(answer.receipt().unwrap().refined.is_empty(), "{budget}");
        done(&engine.owner(), "DROP PRIVACY BUDGET other").await;
        assert_eq!(paid(&lab, &count(0.75)).await.0, "ε = 0.25", "{budget}");
    }
}

/// The difference is held to PER QUERY like a statement. Where it is too little, the number is
/// drawn by itself, as it was before.
#[tokio::test]
async fn a_difference_below_the_minimum_is_not_taken() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let lab = engine.analyst("lab").unwrap();
    alone(&lab, &count(0.5), "0.5").await;
    done(&engine.owner(), "ALTER PRIVACY BUDGET b SET PER QUERY (min=0.4, max=1, default=0.6)")
        .await;
    alone(&lab, &count(0.6), "0.6").await;
    assert_eq!(paid(&lab, &count(1.0)).await.0, "ε = 0.4");
    // The difference is within the maximum, too.
    assert_eq!(paid(&lab, &count(1.5)).await.0, "ε = 0.5");
    let error = why(&lab, &count(3.0)).await;
    assert!(error.contains("per query"), "{error}");
    // Plain SQL asks for the default, whatever was asked before.
    let plain = "SELECT COUNT(*) AS n FROM people WHERE id < 30";
    alone(&lab, &plain.replace("COUNT", "LAPLACE(eps=0.5) COUNT"), "0.5").await;
    alone(&lab, plain, "0.6").await;
    // An exhausted budget pays a difference that is left.
    done(&engine.owner(), "ALTER PRIVACY BUDGET b SET PER QUERY (max=9)").await;
    let spent = lab.budgets().unwrap()[0].spent.nano;
    let limit = (spent + 300_000_000) as f64 / 1e9;
    done(
        &engine.owner(),
        &format!("ALTER PRIVACY BUDGET b SET LIMIT (epsilon={limit}, delta=1e-6)"),
    )
    .await;
    assert!(lab.query(&count(2.0)).await.is_err());
    assert_eq!(paid(&lab, &count(1.75)).await.0, "ε = 0.25");
}

/// What others ask makes no price and no answer another one.
#[tokio::test]
async fn draws_of_others_are_not_built_on() {
    for replay in ["ALL", "OWN"] {
        let folder = tempfile::tempdir().unwrap();
        let engine = engine(folder.path()).await;
        let sql = format!("ALTER PRIVACY BUDGET b SET REPLAY ({replay})");
        done(&engine.owner(), &sql).await;
        for name in ["lab", "eve"] {
            let sql =
                format!("ALTER PRIVACY BUDGET b ADD SLICE {name} LIMIT (epsilon=4, delta=1e-7)");
            done(&engine.owner(), &sql).await;
        }
        let [lab, eve] = ["lab", "eve"].map(|name| engine.analyst(name).unwrap());
        alone(&lab, &count(0.5), "0.5").await;
        alone(&eve, &count(1.0), "1").await;
        assert_eq!(paid(&lab, &count(2.0)).await.0, "ε = 1.5");
        assert_eq!(paid(&eve, &count(2.5)).await.0, "ε = 1.5");
        // Each pays the own largest ε.
        let left = |session: &Session| session.budgets().unwrap()[0].left.to_string();
        assert!(left(&lab).starts_with("ε = 2"), "{replay} {}", left(&lab));
        // A role that is made anew under the name has nothing to build on.
        if replay == "OWN" {
            continue;
        }
        done(&engine.owner(), "ALTER PRIVACY BUDGET b SET REPLAY (OFF)").await;
        alone(&eve, &count(0.75), "0.75").await;
    }
}

/// Two sessions that build on one draw at once: one of them pays the difference.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_two_at_once_one_builds_on_a_draw() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let lab = engine.analyst("lab").unwrap();
    for round in 0..6 {
        let of = |eps: f64| format!("{} WHERE id <> {round}", count(eps));
        alone(&lab, &of(0.25), "0.25").await;
        let asked = [0.5, 0.75].map(|eps| {
            let (lab, sql) = (lab.clone(), of(eps));
            tokio::spawn(async move {
                let answer = lab.query(&sql).await.unwrap();
                let receipt = answer.receipt().unwrap();
                (receipt.spent.to_string(), receipt.refined.len())
            })
        });
        let [first, second] = asked;
        let both = [first.await.unwrap(), second.await.unwrap()];
        // One after the other, the second builds on what the first one drew, or finds that nothing
        // is left to build on.
        let costs: Vec<&str> = both.iter().map(|(cost, _)| cost.as_str()).collect();
        let possible = [["ε = 0.25", "ε = 0.25"], ["ε = 0.25", "ε = 0.75"], ["ε = 0.5", "ε = 0.5"]];
        assert!(possible.iter().any(|one| costs == one), "{both:?}");
    }
    let verified = hushql_vault::ledger::Vault::open(folder.path().join("v.db")).unwrap().verify();
    verified.unwrap();
}

/// A prepared statement keeps its quote, or costs less.
#[tokio::test]
async fn a_quote_is_kept_where_a_draw_was_kept_since() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let lab = engine.analyst("lab").unwrap();
    let quoted = lab.prepare(&count(1.0)).unwrap();
    assert_eq!(quoted.cost().to_string(), "ε = 1");
    alone(&lab, &count(0.25), "0.25").await;
    let cheaper = lab.prepare(&count(2.0)).unwrap();
    assert_eq!(cheaper.cost().to_string(), "ε = 1.75");
    let answer = quoted.execute().await.unwrap();
    assert_eq!(answer.receipt().unwrap().spent.to_string(), "ε = 0.75");
    // It builds on the later draw now, which leaves less to pay.
    let answer = cheaper.execute().await.unwrap();
    assert_eq!(answer.receipt().unwrap().spent.to_string(), "ε = 1");
    // What was quoted as a difference is not paid in full unasked.
    alone(&lab, &format!("{} WHERE id > 7", count(0.25)), "0.25").await;
    let quoted = lab.prepare(&format!("{} WHERE id > 7", count(1.0))).unwrap();
    let apart = lab.prepare(&format!("{} WHERE id > 7", count(3.0))).unwrap();
    assert_eq!(paid(&lab, &format!("{} WHERE id > 7", count(4.0))).await.0, "ε = 3.75");
    for one in [quoted, apart] {
        let error = one.execute().await.unwrap_err().to_string();
        assert!(error.contains("prepare it again"), "{error}");
    }
}

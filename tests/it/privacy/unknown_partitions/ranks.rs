//! Quantiles and extremes of groups whose keys are not declared: what they cost, their exact loss
//! on neighbouring databases, and the law of what is drawn.

use hushql_engine::exec::{Exact, ExactSums};

use super::*;
use crate::privacy::swap::Swap;

/// How a calibrated statement draws one group: the rate of its choice, the α of the noise of the
/// count that decides, τ, and whether that count is shown.
struct Law {
    rate: f64,
    alpha: f64,
    least: i64,
    is_shown: bool,
}

impl Law {
    fn of(release: &Release) -> Self {
        let hidden = release.partition_selection(0).unwrap();
        let mechanisms = release.mechanisms(0);
        let counter = hidden.counter().map(|i| &mechanisms[i].mechanism);
        let scale = scale(hidden.noise().or(counter).unwrap()).to_f64().unwrap();
        let rate = mechanisms.iter().find_map(|one| match &one.mechanism {
            Mechanism::Exponential(mechanism) => mechanism.exponent().to_f64(),
            _ => None,
        });
        Self {
            rate: rate.unwrap(),
            alpha: (-1.0 / scale).exp(),
            least: i64::try_from(hidden.at_least()).unwrap(),
            is_shown: hidden.counter().is_some(),
        }
    }

    /// P(X = x).
    fn noise(&self, x: i64) -> f64 {
        let alpha = self.alpha;
        (1.0 - alpha) / (1.0 + alpha) * alpha.powi(x.unsigned_abs() as i32)
    }

    /// The probability that a group with this count comes out.
    fn shows(&self, count: i128) -> f64 {
        let (alpha, from) = (self.alpha, self.least - i64::try_from(count).unwrap());
        match from {
            1.. => alpha.powi(from as i32) / (1.0 + alpha),
            _ => 1.0 - alpha.powi(1 - from as i32) / (1.0 + alpha),
        }
    }

    /// The probabilities of the candidates.
    fn chosen(&self, scores: &[i128]) -> Vec<f64> {
        let best = scores.iter().max().unwrap();
        let weights = scores.iter().map(|score| (self.rate * (score - best) as f64).exp());
        let weights: Vec<f64> = weights.collect();
        let total: f64 = weights.iter().sum();
        weights.iter().map(|weight| weight / total).collect()
    }

    /// The largest |ln| of the ratio of two laws of what is seen of one group.
    fn loss(&self, full: &(i128, Vec<i128>), without: &(i128, Vec<i128>)) -> f64 {
        let ratio = |a: f64, b: f64| (a / b).ln().abs();
        let of_values = self.chosen(&full.1).into_iter().zip(self.chosen(&without.1));
        let signed: Vec<f64> = of_values.map(|(a, b)| (a / b).ln()).collect();
        let mut worst = ratio(1.0 - self.shows(full.0), 1.0 - self.shows(without.0));
        let shown: Vec<f64> = match self.is_shown {
            false => vec![(self.shows(full.0) / self.shows(without.0)).ln()],
            true => (self.least..self.least + 60)
                .map(|v| {
                    let at = |count: i128| self.noise(v - i64::try_from(count).unwrap());
                    (at(full.0) / at(without.0)).ln()
                })
                .collect(),
        };
        for one in shown {
            for value in &signed {
                worst = worst.max((one + value).abs());
            }
        }
        worst
    }
}

type Groups = BTreeMap<String, (i128, Vec<i128>)>;

/// By how much more the score of one candidate moves than that of another.
fn span(full: &[i128], without: &[i128]) -> f64 {
    let moved: Vec<i128> = full.iter().zip(without).map(|(a, b)| a - b).collect();
    (moved.iter().max().unwrap() - moved.iter().min().unwrap()) as f64
}

/// The numbers of units and the scores of every candidate, by group.
fn groups_of(exact: Vec<Exact>) -> Groups {
    let lines = exact.into_iter().find_map(|one| match one {
        Exact::GroupLines(lines) => Some(lines),
        _ => None,
    });
    let listed = |runs: &[(u64, u64, i128, i128)]| {
        let each = runs.iter().flat_map(|(_, count, score, step)| {
            (0..*count).map(move |i| score + step * i128::from(i))
        });
        each.collect::<Vec<_>>()
    };
    let lines = lines.unwrap().into_iter();
    lines.map(|(key, (count, runs))| (key, (count, listed(&runs)))).collect()
}

/// All lists of up to `most` of these rows.
fn lists<T: Clone>(rows: &[T], most: usize) -> Vec<Vec<T>> {
    let mut all = vec![vec![]];
    let mut last: Vec<(usize, Vec<T>)> = vec![(0, vec![])];
    for _ in 0..most {
        let longer = last.iter().flat_map(|(from, list)| {
            let next = move |i: usize| (i, [list.clone(), vec![rows[i].clone()]].concat());
            (*from..rows.len()).map(next)
        });
        last = longer.collect();
        all.extend(last.iter().map(|(_, list)| list.clone()));
    }
    all
}

/// Every database of up to three people and every person with up to two rows: what is seen of the
/// groups that exist without the person loses at most the ε of the statement, and a group of the
/// person alone comes out with probability δ at most. Both are computed from the exact counts and
/// scores of the plans, and the calibrated mechanisms. All scores together move by what the choices
/// were calibrated for, and by no more. The losses come near the ε, so the bound is tight. At this
/// δ, the counts for the threshold alone have Laplace noise.
#[tokio::test]
async fn values_of_hidden_groups_are_private_and_tight() {
    let state = session_state();
    let places = [(Some("a"), 0), (Some("a"), 4), (Some("b"), 4), (None, 9)];
    let mut people = lists(&places, 2);
    people.retain(|rows| !rows.is_empty());
    let others = lists(&[(Some("a"), 0), (Some("a"), 9), (Some("b"), 0)], 3);
    for (list, max, nearest) in [
        ("EXPONENTIAL(eps=1, delta=1e-6) MEDIAN(n) AS r", None, 0.7),
        ("EXPONENTIAL(eps=1, delta=1e-6) MEDIAN(n) AS r", Some(2), 0.5),
        ("EXPONENTIAL(eps=2, delta=1e-6, groups=1, rows=1) MEDIAN(n) AS r", Some(2), 0.5),
        ("EXPONENTIAL(eps=1, delta=1e-6, groups=2, rows=1) MEDIAN(n) AS r", Some(2), 0.5),
        ("EXPONENTIAL(eps=2, delta=1e-6, rows=1) QUANTILE(n, 0.9) AS r", Some(2), 0.5),
        ("EXPONENTIAL(eps=1, delta=1e-6, groups=2, rows=1) MAX(n) AS r", Some(2), 0.3),
        ("EXPONENTIAL(eps=1, delta=1e-6, groups=1, rows=1) MIN(n) AS r", Some(2), 0.3),
        (
            "LAPLACE(eps=1, delta=0.05) COUNT(DISTINCT id) AS c, EXPONENTIAL(eps=1) MEDIAN(n) AS r",
            Some(2),
            0.5,
        ),
        (
            "EXPONENTIAL(eps=1, delta=1e-6) MEDIAN(n) AS r, LAPLACE(eps=1) COUNT(DISTINCT id) AS c",
            Some(2),
            0.5,
        ),
    ] {
        let sql = format!("SELECT zip, {list} FROM people GROUP BY zip");
        let schema = batch(&vec![]).schema();
        let swap = Swap::new(Arc::clone(&schema));
        let domain = |column: &str| (column == "n").then(|| line::between("0", "9")).flatten();
        let table = line::table("people", &schema, Privacy::Private(unit(max)), domain);
        let release = line::release_over(&sql, &table, swap.table(), &Lookups::default(), &[]);
        let rank = release.mechanisms(0).iter().find_map(|one| one.rank).unwrap_or(1);
        let law = Law::of(&release);
        let part = &release.analysis().parts()[0];
        let plan = ExactSums::plan(part, &state, [1, 2, 3, 4]).await.unwrap();
        let (most, delta) = (epsilon(&release.loss()), delta(&release.loss()));
        let (most, delta) = (most.to_f64().unwrap(), delta.to_f64().unwrap());
        let of_choice = if law.is_shown { 1.0 } else { most / 2.0 };
        let (mut worst, mut alone, mut farthest) = (0.0_f64, 0.0_f64, 0.0_f64);
        for others in &others {
            let others: Rows =
                (2..).zip(others).map(|(id, (zip, n))| (id, *zip, "x", *n)).collect();
            swap.set(vec![batch(&others)]);
            let without = groups_of(plan.run(&state, rank).await.unwrap());
            for person in &people {
                if max.is_none() && person.len() > 1 {
                    continue;
                }
                let own = person.iter().map(|(zip, n)| (1, *zip, "x", *n));
                swap.set(vec![batch(&others.iter().copied().chain(own).collect())]);
                let full = groups_of(plan.run(&state, rank).await.unwrap());
                assert!(without.keys().all(|key| full.contains_key(key)), "{sql}");
                let (mut loss, mut moved, mut hidden) = (0.0, 0.0, 1.0);
                for (key, own) in &full {
                    match without.get(key) {
                        Some(other) => {
                            loss += law.loss(own, other);
                            moved += law.rate * span(&own.1, &other.1);
                        }
                        None => hidden *= 1.0 - law.shows(own.0),
                    }
                }
                assert!(loss <= most + 1e-9, "{sql}: {loss} > {most} for {person:?} at {others:?}");
                assert!(moved <= of_choice + 1e-9, "{sql}: {moved} for {person:?} at {others:?}");
                farthest = farthest.max(moved);
                assert!(1.0 - hidden <= delta + 1e-12, "{sql}: {}", 1.0 - hidden);
                worst = worst.max(loss);
                alone = alone.max(1.0 - hidden);
            }
        }
        let is_reached = farthest >= of_choice - 1e-9;
        assert!(is_reached || !list.contains("MEDIAN"), "{sql}: scores move by {farthest}");
        assert!(worst >= nearest * most, "{sql}: {worst} is far from {most}");
        assert!(alone > delta / 10.0, "{sql}: {alone}");
    }
}

/// What is drawn has the law that the losses are computed from: whether a group comes out, and
/// which value it has, independently.
#[tokio::test]
async fn medians_follow_their_law_where_they_are_shown() {
    let sql = "SELECT zip, EXPONENTIAL(eps=2, delta=0.05) MEDIAN(n) AS m FROM people GROUP BY zip";
    let of = |zip: Option<&'static str>, values: &[i64]| -> Vec<(Option<&'static str>, i64)> {
        values.iter().map(|n| (zip, *n)).collect()
    };
    let all = [of(Some("a"), &[1, 2, 2, 3, 9]), of(Some("b"), &[7]), of(None, &[0, 0, 1, 5, 8, 9])];
    let rows: Rows = (1..).zip(all.concat()).map(|(id, (zip, n))| (id, zip, "x", n)).collect();
    let release = release(sql, unit(None));
    let law = Law::of(&release);
    let draws = drawn(sql, unit(None), &rows, 11).await;
    for (key, values) in [("a", &all[0]), ("b", &all[1]), ("NULL", &all[2])] {
        // The score of a value for a median: twice the rows on the side that has more of them, less
        // all rows, with a minus sign; at most 0.
        let scores: Vec<i128> = (0..10)
            .map(|t| {
                let below = values.iter().filter(|(_, n)| *n < t).count() as i128;
                let above = values.iter().filter(|(_, n)| *n > t).count() as i128;
                -(2 * below.max(above) - values.len() as i128).max(0)
            })
            .collect();
        let shown = law.shows(values.len() as i128);
        let chosen = law.chosen(&scores);
        let mut cells: Vec<(f64, f64)> =
            (0..10).zip(&chosen).map(|(t, p)| (seen(&draws, key, |v| v == t), p * shown)).collect();
        cells.push((f64::from(DRAWS) - seen(&draws, key, |_| true), 1.0 - shown));
        pearson(key, cells.into_iter(), f64::from(DRAWS));
    }
}

/// Half of the ε, ρ or share counts units where no number of units is released; otherwise the
/// choice has all of it.
#[test]
fn ranks_share_their_cost_with_the_count_of_units() {
    let (one, million) = (decimal("1"), decimal("1e-6"));
    let of = |max: Option<u64>, list: &str| {
        release(&format!("SELECT zip, {list} FROM people GROUP BY zip"), unit(max))
    };
    let rate = |release: &Release, at: usize| match &release.mechanisms(0)[at].mechanism {
        Mechanism::Exponential(mechanism) => mechanism.exponent().clone(),
        other => panic!("{other:?}"),
    };
    for call in ["MEDIAN(n)", "QUANTILE(n, 0.5)"] {
        let own = of(None, &format!("EXPONENTIAL(eps=1, delta=1e-6) {call}"));
        assert_eq!(summary(&own), (one.clone(), million.clone(), 28, None), "{call}");
        // A row moves a score by 1 up or down.
        assert_eq!(rate(&own, 0), decimal("0.25"), "{call}");
        let noise = own.partition_selection(0).unwrap().noise().unwrap();
        assert_eq!(scale(noise), decimal("2"), "{call}");
    }
    // AUTO takes the exponential mechanism, and a person in three groups moves three draws.
    let auto = of(Some(3), "AUTO(eps=3, delta=1e-6) MEDIAN(n)");
    assert_eq!((epsilon(&auto.loss()), delta(&auto.loss())), (decimal("3"), million.clone()));
    assert_eq!(auto.partition_selection(0).unwrap().groups(), 3);
    // All three rows together move the scores by 3 · 2: the range of one draw at the other half.
    assert_eq!(rate(&auto, 0), decimal("0.25"));
    let one_group = of(Some(3), "AUTO(eps=3, delta=1e-6, groups=1, rows=1) MEDIAN(n)");
    assert_eq!(rate(&one_group, 0), decimal("0.75"));
    // A number of units beside it is compared, and the median has its whole ε.
    for list in [
        "EXPONENTIAL(eps=1, delta=1e-6) MEDIAN(n), LAPLACE(eps=1) COUNT(DISTINCT id)",
        "EXPONENTIAL(eps=1) MEDIAN(n), LAPLACE(eps=1, delta=1e-6) COUNT(DISTINCT id)",
    ] {
        let beside = of(None, list);
        assert_eq!(summary(&beside), (decimal("2"), million.clone(), 15, Some(1)), "{list}");
        assert_eq!(rate(&beside, 0), decimal("0.5"), "{list}");
    }
    // Beside a sum, whoever states the δ shares with the count of units.
    let sum = of(None, "EXPONENTIAL(eps=1, delta=1e-6) MEDIAN(n), LAPLACE(eps=2) SUM(n)");
    assert_eq!(summary(&sum), (decimal("3"), million.clone(), 28, None));
    assert_eq!(
        (rate(&sum, 0), scale(&sum.mechanisms(0)[1].mechanism)),
        (decimal("0.25"), decimal("4.5"))
    );
    // OPTIONS: two aggregates and the count have equal shares.
    let sql = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=3, delta=1e-6) zip, MEDIAN(n), SUM(n) FROM people GROUP BY zip";
    let options = release(sql, unit(None));
    assert_eq!(summary(&options), (decimal("3"), million.clone(), 15, None));
    assert_eq!(rate(&options, 0), decimal("0.5"));
    // In ρ, too.
    let rho = of(None, "EXPONENTIAL(rho=0.25, delta=1e-6) MEDIAN(n)");
    assert_eq!((rho.loss().rho(), rho.loss().rho_delta()), (&decimal("0.25"), &million));
    // ρ/2 = ε²/8 is ε = 1.
    assert_eq!(rate(&rho, 0), decimal("0.5"));
    assert!(matches!(rho.partition_selection(0).unwrap().noise(), Some(Mechanism::Gaussian(_))));
    // A default takes its δ once.
    let plain = by_default("SELECT zip, MEDIAN(n) FROM people GROUP BY zip", unit(None), &vec![]);
    assert_eq!((epsilon(&plain.loss()), delta(&plain.loss())), (one, decimal("0.05")));
    assert_eq!(rate(&plain, 0), decimal("0.25"));
}

/// Rows in other orders, batches and partitions give the very same answer from the same seed,
/// whether units have several rows or are rows.
#[tokio::test]
async fn ranks_do_not_depend_on_the_order_of_rows() {
    let zips = [Some("m"), Some("a"), None, Some("zz"), Some("b"), Some("")];
    let rows: Rows = (0..600_i64)
        .map(|id| (id / 3, zips[(id % 6) as usize], if id % 3 == 0 { "y" } else { "x" }, id % 10))
        .collect();
    for keys in ["zip", "g, zip", "n * 1.5"] {
        let sql = format!(
            "SELECT {keys}, EXPONENTIAL(eps=8, delta=0.001, groups=2, rows=2) MEDIAN(n) AS m, LAPLACE(eps=1, groups=2) COUNT(*) AS c FROM people GROUP BY {keys}"
        );
        for unit in [unit(Some(5)), Unit::Row] {
            let sql = match matches!(unit, Unit::Row) {
                true => sql.replace(", groups=2, rows=2", "").replace(", groups=2", ""),
                false => sql.clone(),
            };
            let mut answers = Vec::new();
            for (partitions, size, turned) in [(1, 8192, false), (1, 3, true), (4, 100, true)] {
                let mut rows = rows.clone();
                if turned {
                    rows.reverse();
                    rows.rotate_left(101);
                }
                let whole = batch(&rows);
                let half = whole.num_rows() / 2;
                let rest = whole.slice(half, whole.num_rows() - half);
                let release = release_in(&sql, unit.clone(), vec![rest, whole.slice(0, half)]);
                let state = with_partitions(partitions, size);
                let draws = Draws::for_part(&release, 0, &state).await.unwrap();
                answers.push(draws.draw(&mut QueryRng::seeded_for_tests(9)).unwrap());
            }
            assert!(answers[0].num_rows() > 0, "{sql}");
            assert!(answers.iter().all(|answer| *answer == answers[0]), "{sql}");
        }
    }
}

/// Rows whose value of a key with a domain is not listed are left out before the bounds, from the
/// counts and from the values alike.
#[tokio::test]
async fn rows_of_other_keys_use_up_no_bounds() {
    let state = session_state();
    let rows: Rows =
        (0..20).flat_map(|id| [(id, Some("a"), "z", 0), (id, Some("a"), "x", 9)]).collect();
    let sql = "SELECT g, zip, EXPONENTIAL(eps=1, delta=0.05, groups=1) MEDIAN(n) AS m FROM people GROUP BY g, zip";
    let release = release_in(sql, unit(Some(2)), vec![batch(&rows)]);
    let part = &release.analysis().parts()[0];
    let plan = ExactSums::plan(part, &state, [1, 2, 3, 4]).await.unwrap();
    let groups = groups_of(plan.run(&state, 1).await.unwrap());
    let scores = [vec![-20; 9], vec![0]].concat();
    assert_eq!(groups, BTreeMap::from([("x, a".to_owned(), (20, scores))]));
}

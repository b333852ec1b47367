//! Groups whose keys are not declared: what a unit can change of their integers, and how many of
//! them it can make.
//!
//! Neighbours are compared group by group, by the keys themselves. A group that one database lacks
//! is one that the unit alone makes: there are at most C of them, each with one unit in it. In the
//! groups that both have, numbers of units change by 0 or 1, in at most C of them, and every
//! measure by no more than was derived: the scores of quantiles and extremes in each group within
//! their range, and in all groups together within what these share.

use super::*;

/// A random query over groups of the data; the engine may refuse it.
pub(super) fn grouped(dice: &mut Dice, unit: &Unit) -> String {
    let bounds = |dice: &mut Dice| match (unit, dice.below(4)) {
        (Unit::Row, _) | (_, 0) => String::new(),
        (_, 1) => ", rows=1, groups=1".to_owned(),
        (_, 2) => format!(", groups={}", 1 + dice.below(3)),
        _ => format!(", rows={}, groups={}", 1 + dice.below(3), 1 + dice.below(3)),
    };
    let filter = |dice: &mut Dice| match dice.one_in(4) {
        true => format!(" FILTER (WHERE {})", predicate(dice, 1)),
        false => String::new(),
    };
    let aggregate = |dice: &mut Dice| {
        let call = match dice.below(14) {
            13 => format!("CDF({}, {})", clamped(dice), dice.pick(&["2", "5"])),
            10 => format!("MEDIAN({})", clamped(dice)),
            11 => match (clamped(dice), dice.pick(&["0.9", "(0.25, 0.5)", "1"])) {
                (of, list) if list.starts_with('(') => format!("QUANTILES({of}, {list})"),
                (of, fraction) => format!("QUANTILE({of}, {fraction})"),
            },
            12 => format!("{}({})", dice.pick(&["MIN", "MAX"]), clamped(dice)),
            9 => {
                let name = dice.pick(&["CORR", "COVAR_POP", "COVAR_SAMP", "REGR_SLOPE"]);
                format!("{name}({}, {})", clamped(dice), clamped(dice))
            }
            8 => {
                let name = dice.pick(&["VAR_POP", "VAR_SAMP", "STDDEV", "STDDEV_POP"]);
                format!("{name}({})", clamped(dice))
            }
            0 => "COUNT(*)".to_owned(),
            1 => format!("COUNT({})", number(dice, 1)),
            2 | 3 => "COUNT(DISTINCT id)".to_owned(),
            4 | 5 => format!("SUM({})", clamped(dice)),
            6 => format!("SUM({}, contribution_bounds_per_group => (-2, 3))", clamped(dice)),
            _ => format!("AVG({})", clamped(dice)),
        };
        format!("{call}{}", filter(dice))
    };
    let n = 1 + dice.below(3);
    let payer = dice.below(n);
    let releases: Vec<String> = (0..n)
        .map(|i| {
            let mechanism = dice.pick(&["LAPLACE", "LAPLACE", "GAUSSIAN", "AUTO"]);
            let (mechanism, delta) = match i == payer {
                true => (mechanism, ", delta=0.000001"),
                false => ("LAPLACE", ""),
            };
            let bounds = bounds(dice);
            let aggregate = aggregate(dice);
            let is_chosen =
                ["MED", "QUA", "MIN", "MAX"].iter().any(|name| aggregate.starts_with(name));
            let mechanism = match is_chosen {
                true => dice.pick(&["EXPONENTIAL", "AUTO"]),
                false => mechanism,
            };
            format!("{mechanism}(eps=1{delta}{bounds}) {aggregate} AS r{i}")
        })
        .collect();
    let condition = match dice.one_in(2) {
        true => format!(" WHERE {}", predicate(dice, 2)),
        false => String::new(),
    };
    let keys = dice.pick(&[
        "c",
        "c",
        "b",
        "x",
        "y",
        "m",
        "c, s",
        "f, c",
        "d, c",
        "b, c",
        "UPPER(c)",
        "CASE WHEN a > 3 THEN c END",
        "i2, vs",
        "h",
        "u1",
        "u4",
        "n",
        "vs",
        "ts",
        "t0",
        "t3",
        "tn",
        "tz",
        "dc",
        "bn",
        "f2",
        "w",
    ]);
    if dice.one_in(6) {
        let option = dice.pick(&[
            "",
            ", min_privacy_units_per_group=3",
            ", group_selection_strategy=LAPLACE_THRESHOLD",
        ]);
        return format!(
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=0.000001, max_groups_contributed=2{option}) {} AS r0, {} AS r1 FROM t{condition} GROUP BY {keys}",
            aggregate(dice),
            aggregate(dice)
        );
    }
    format!("SELECT {} FROM t{condition} GROUP BY {keys}", releases.join(", "))
}

/// Checks one pair of neighbours; the result is the largest observed / claimed.
pub(super) fn check_groups(
    sql: &str,
    part: &PrivateAggregate,
    full: &[Exact],
    without: &[Exact],
) -> f64 {
    let most =
        part.unknown_partitions().unwrap_or_else(|| panic!("{sql}: the keys are public")).groups;
    let mut tightest = 0.0_f64;
    for ((measure, full), without) in part.measures().iter().zip(full).zip(without) {
        if let (ReleaseKind::Choice(choice), Exact::GroupLines(full), Exact::GroupLines(without)) =
            (&measure.release_kind, full, without)
        {
            assert!(
                without.keys().all(|key| full.contains_key(key)),
                "{sql}: a group comes by leaving"
            );
            let pairs = without.iter().map(|(key, other)| (&full[key].1, &other.1));
            let placed = pairs.map(|(full, without)| line(full, without));
            let changes: Vec<Vec<i128>> =
                placed.map(|group| group.into_iter().map(|(_, change)| change).collect()).collect();
            let (observed, claimed) = check_choice(sql, choice, &changes, 1);
            tightest = tightest.max(observed as f64 / claimed as f64);
            continue;
        }
        let (Exact::Groups(full), Exact::Groups(without)) = (full, without) else {
            panic!("{sql}: {full:?}")
        };
        let ReleaseKind::Number(claimed) = measure.release_kind else { panic!("{sql}") };
        assert!(
            without.keys().all(|key| full.contains_key(key)),
            "{sql}: a group comes by leaving"
        );
        let (mut own, mut counted, mut l1, mut l2) = (0, 0, 0, 0);
        for (key, (count, sums)) in full {
            let Some((other, others)) = without.get(key) else {
                assert_eq!(*count, 1, "{sql} {key}: a group of one unit");
                own += 1;
                continue;
            };
            assert!((0..=1).contains(&(count - other)) && *other >= 1, "{sql} {key} {count}");
            counted += u64::from(count != other);
            for (a, b) in sums.iter().zip(others) {
                l1 += (a - b).unsigned_abs();
                l2 += (a - b).unsigned_abs().pow(2);
            }
        }
        assert!(own + counted <= most, "{sql}: {own} + {counted} groups of {most}");
        assert!(l1 <= claimed.l1, "{sql}\nΔ₁ {l1} > {} {measure:?}", claimed.l1);
        assert!(l2 <= claimed.l2_squared, "{sql}\nΔ₂² {l2} > {}", claimed.l2_squared);
        let of_groups = (own + counted) as f64 / most as f64;
        tightest = tightest.max(of_groups).max(l1 as f64 / claimed.l1 as f64);
    }
    tightest
}

/// Rows of (id, key); everything else is NULL.
fn keyed(pairs: &[(i64, String)]) -> RecordBatch {
    let columns = schema()
        .fields()
        .iter()
        .map(|field| -> ArrayRef {
            match field.name().as_str() {
                "id" => Arc::new(Int64Array::from_iter_values(pairs.iter().map(|(id, _)| *id))),
                "c" => Arc::new(StringArray::from_iter_values(pairs.iter().map(|(_, c)| c))),
                _ => new_null_array(field.data_type(), pairs.len()),
            }
        })
        .collect();
    RecordBatch::try_new(schema(), columns).unwrap()
}

/// A unit in 0, 1, C, C + 1 and 10·C groups is counted in as many, C at most, and which they are is
/// its own affair: the same whoever else has rows, and wherever they stand. Keys get numbers as
/// they come, so an order of the groups by these would let others choose.
#[tokio::test]
async fn a_unit_chooses_its_groups_by_itself() {
    let state = single_partition();
    let unit = Unit::Column { column: "id".to_owned(), max_rows: Some(1_000), unique: false };
    let world = world(unit);
    for most in [1, 3] {
        let sql = format!(
            "SELECT c, LAPLACE(eps=1, delta=0.000001, groups={most}) COUNT(DISTINCT id) AS n, \
             LAPLACE(eps=1, groups={most}, rows=2) COUNT(*) AS m FROM t GROUP BY c"
        );
        let analysis = analyzed(&sql, &world).unwrap();
        let plan = ExactSums::plan(&analysis.parts()[0], &state, [5, 6, 7, 8]).await.unwrap();
        for groups in [0, 1, most, most + 1, 10 * most] {
            let key = |g: usize| format!("key {g}");
            let own: Vec<(i64, String)> =
                (0..groups).flat_map(|g| [(1, key(g)), (1, key(g))]).collect();
            let crowd = |range: &mut dyn Iterator<Item = usize>| -> Vec<(i64, String)> {
                range.map(|g| (2 + g as i64 % 7, key(g))).collect()
            };
            let up = crowd(&mut (0..groups));
            let down = crowd(&mut (0..groups + 20).rev());
            let mut seen = BTreeSet::new();
            for others in [vec![], up, down] {
                for first in [true, false] {
                    let all = match first {
                        true => [others.clone(), own.clone()].concat(),
                        false => [own.clone(), others.clone()].concat(),
                    };
                    world.swap.set(vec![keyed(&all)]);
                    let full = plan.run(&state, 1).await.unwrap();
                    world.swap.set(vec![keyed(&others)]);
                    let without = plan.run(&state, 1).await.unwrap();
                    let mut chosen = Vec::new();
                    let (Exact::Groups(full), Exact::Groups(without)) = (&full[1], &without[1])
                    else {
                        panic!("{sql}")
                    };
                    for (key, (count, rows)) in full {
                        let none = (0, vec![0]);
                        let (other, others) = without.get(key).unwrap_or(&none);
                        if count != other {
                            assert_eq!((count - other, rows[0] - others[0]), (1, 2), "{sql} {key}");
                            chosen.push(key.clone());
                        }
                    }
                    assert_eq!(chosen.len(), groups.min(most), "{sql}");
                    seen.insert(chosen);
                }
            }
            assert_eq!(seen.len(), 1, "{sql}: others have a say: {seen:?}");
        }
    }
}

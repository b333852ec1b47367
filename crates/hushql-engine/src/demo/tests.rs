//! The built-in tables have the published counts, and satisfy their declarations.

use std::collections::{BTreeMap, HashSet};

use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, Float64Type, Int64Type, TimeUnit, TimestampMicrosecondType};
use arrow::util::display::array_value_to_string;

use super::{DECLARATIONS, RecordBatch, adult, bids, census, orders, tables};

fn integers(table: &RecordBatch, column: &str) -> Vec<i64> {
    let column = table.column_by_name(column).unwrap();
    assert_eq!(column.null_count(), 0);
    column.as_primitive::<Int64Type>().values().to_vec()
}

fn floats(table: &RecordBatch, column: &str) -> Vec<f64> {
    let column = table.column_by_name(column).unwrap();
    assert_eq!(column.null_count(), 0);
    column.as_primitive::<Float64Type>().values().to_vec()
}

fn counts(table: &RecordBatch, column: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for value in table.column_by_name(column).unwrap().as_string::<i32>() {
        *counts.entry(value.unwrap_or("NULL").to_owned()).or_default() += 1;
    }
    counts
}

fn expect_counts(table: &RecordBatch, column: &str, expected: &[(&str, usize)]) {
    let expected = expected.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
    assert_eq!(counts(table, column), expected, "{column}");
}

fn median(mut values: Vec<i64>) -> i64 {
    values.sort_unstable();
    values[values.len() / 2]
}

/// The values of `DOMAIN IN (…)` declared for a column.
fn declared(table: &str, column: &str) -> Vec<String> {
    let head = format!("ALTER TABLE {table} ALTER COLUMN {column} SET PRIVACY DOMAIN IN (");
    let (_, rest) = DECLARATIONS.split_once(&head).unwrap();
    let (list, _) = rest.split_once(");").unwrap();
    list.split(", ").map(|quoted| quoted.trim_matches('\'').to_owned()).collect()
}

#[test]
fn adult_has_the_published_counts() {
    let adult = adult().unwrap();
    assert_eq!(adult.num_rows(), 32_561);
    let names: Vec<_> = adult.schema().fields().iter().map(|field| field.name().clone()).collect();
    let columns = "id age workclass education status occupation race sex hours_per_week income";
    assert_eq!(names.join(" "), columns);
    let status = [
        ("Married-civ-spouse", 14_976),
        ("Never-married", 10_683),
        ("Divorced", 4_443),
        ("Separated", 1_025),
        ("Widowed", 993),
        ("Married-spouse-absent", 418),
        ("Married-AF-spouse", 23),
    ];
    expect_counts(&adult, "status", &status);
    expect_counts(&adult, "sex", &[("Male", 21_790), ("Female", 10_771)]);
    expect_counts(&adult, "income", &[("<=50K", 24_720), (">50K", 7_841)]);
    let race = [
        ("White", 27_816),
        ("Black", 3_124),
        ("Asian-Pac-Islander", 1_039),
        ("Amer-Indian-Eskimo", 311),
        ("Other", 271),
    ];
    expect_counts(&adult, "race", &race);
    assert_eq!(counts(&adult, "education")["HS-grad"], 10_501);
    assert_eq!(counts(&adult, "workclass")["NULL"], 1_836);
    assert_eq!(counts(&adult, "occupation")["NULL"], 1_843);
    assert_eq!(integers(&adult, "id"), (0..32_561).collect::<Vec<i64>>());
}

#[test]
fn adult_s_numbers_are_those_of_the_census() {
    let adult = adult().unwrap();
    let (ages, hours) = (integers(&adult, "age"), integers(&adult, "hours_per_week"));
    assert!(ages.iter().all(|age| (17..=90).contains(age)));
    assert!(hours.iter().all(|hours| (1..=99).contains(hours)));
    assert_eq!((median(ages.clone()), median(hours.clone())), (37, 40));
    // The published means are 38.58 years and 40.44 hours.
    assert_eq!((ages.iter().sum::<i64>(), hours.iter().sum::<i64>()), (1_256_257, 1_316_684));
}

#[test]
fn adult_s_columns_depend_on_each_other() {
    let adult = adult().unwrap();
    let ages = integers(&adult, "age");
    let text = |column: &str| adult.column_by_name(column).unwrap().as_string::<i32>().clone();
    let (status, sex, education, income) =
        (text("status"), text("sex"), text("education"), text("income"));
    let rows =
        |name: &'static str| (0..ages.len()).filter(|row| status.value(*row) == name).collect();
    let of = |rows: &Vec<usize>| median(rows.iter().map(|row| ages[*row]).collect());
    let percent = |rows: &Vec<usize>, has: &dyn Fn(usize) -> bool| {
        rows.iter().filter(|row| has(**row)).count() * 100 / rows.len()
    };
    let [single, married, widowed]: [Vec<usize>; 3] =
        [rows("Never-married"), rows("Married-civ-spouse"), rows("Widowed")];
    assert!((22..=30).contains(&of(&single)), "{}", of(&single));
    assert!((38..=46).contains(&of(&married)), "{}", of(&married));
    assert!((54..=66).contains(&of(&widowed)), "{}", of(&widowed));
    let man = |row| sex.value(row) == "Male";
    assert!((86..=91).contains(&percent(&married, &man)), "{}", percent(&married, &man));
    assert!((14..=20).contains(&percent(&widowed, &man)), "{}", percent(&widowed, &man));
    let high = |row| income.value(row) == ">50K";
    assert!(percent(&married, &high) > 4 * percent(&single, &high));
    let level = |name| (0..ages.len()).filter(|row| education.value(*row) == name).collect();
    assert!(percent(&level("Masters"), &high) > 2 * percent(&level("HS-grad"), &high));
    // A shuffle, not a sorted file: every tenth of the rows looks like the whole.
    let early = single.iter().filter(|row| **row < ages.len() / 10).count();
    assert!(early.abs_diff(single.len() / 10) < 150, "{early}");
}

#[test]
fn every_bidder_bids_once_in_cents() {
    let bids = bids().unwrap();
    let (bidders, amounts) = (integers(&bids, "bidder"), floats(&bids, "bid"));
    assert_eq!(bids.num_rows(), 2_000);
    assert_eq!(bidders.iter().collect::<HashSet<_>>().len(), 2_000);
    for bid in &amounts {
        let cents = (bid * 100.0).round();
        assert!((0.0..=5.0).contains(bid) && (cents / 100.0).to_bits() == bid.to_bits(), "{bid}");
    }
}

#[test]
fn revenue_has_several_near_peaks_and_one_best_price() {
    let cents: Vec<i64> = floats(&bids().unwrap(), "bid")
        .iter()
        .map(|bid| format!("{:.0}", bid * 100.0).parse().unwrap())
        .collect();
    let revenue = |price: i64| {
        price * i64::try_from(cents.iter().filter(|bid| **bid >= price).count()).unwrap()
    };
    // In cents: 1,500.00 at 1.00, 1,600.00 at 2.00, 1,680.00 at 3.00, 1,485.00 at 4.50.
    let peaks = [100, 200, 300, 450].map(revenue);
    assert_eq!(peaks, [150_000, 160_000, 168_000, 148_500]);
    assert_eq!((1..=500).max_by_key(|price| revenue(*price)), Some(300));
    for valley in [101, 201, 301, 451] {
        assert!(revenue(valley) < revenue(valley - 1) * 9 / 10, "{valley}");
    }
}

#[test]
fn orders_are_skewed_and_bounded() {
    let orders = orders().unwrap();
    assert_eq!(orders.num_rows(), 12_000);
    let mut rows = BTreeMap::<i64, usize>::new();
    for user in integers(&orders, "user_id") {
        *rows.entry(user).or_default() += 1;
    }
    assert_eq!(
        (rows.len(), rows.values().max(), rows.values().min()),
        (2_500, Some(&20), Some(&1))
    );
    let most = rows.values().filter(|count| **count == 20).count();
    let few = rows.values().filter(|count| **count <= 5).count();
    assert!((20..=100).contains(&most), "{most}");
    assert!(few > 1_600, "{few}");
    assert_eq!(integers(&orders, "order_id"), (1..=12_000).collect::<Vec<i64>>());
    assert!(integers(&orders, "qty").iter().all(|qty| (1..=10).contains(qty)));
    assert!(floats(&orders, "price").iter().all(|price| (0.5..=100.0).contains(price)));
    assert_eq!((counts(&orders, "product").len(), counts(&orders, "city").len()), (8, 10));
}

#[test]
fn orders_are_of_2025_in_order() {
    let orders = orders().unwrap();
    let column = orders.column_by_name("ts").unwrap();
    assert_eq!(column.data_type(), &DataType::Timestamp(TimeUnit::Microsecond, None));
    let times = column.as_primitive::<TimestampMicrosecondType>();
    assert!(times.values().is_sorted());
    let text = |row| times.value_as_datetime(row).unwrap().to_string();
    assert!(text(0).starts_with("2025-01-0") && text(11_999).starts_with("2025-12-31"));
}

#[test]
fn every_category_is_declared_and_every_declared_one_occurs() {
    for (name, table) in tables().unwrap().into_iter().filter(|(name, _)| *name != "census") {
        for field in table.schema().fields() {
            if field.data_type() == &DataType::Utf8 {
                let column = field.name();
                let mut found = counts(&table, column);
                found.remove("NULL");
                let mut domain = declared(name, column);
                domain.sort_unstable();
                assert_eq!(domain, found.into_keys().collect::<Vec<_>>(), "{name}.{column}");
            }
        }
        assert!(DECLARATIONS.contains(&format!("CREATE PRIVACY BUDGET {name} FOR {name} ")));
    }
    assert_eq!(
        DECLARATIONS.lines().filter(|line| !line.is_empty()).count(),
        DECLARATIONS.matches(';').count()
    );
}

#[test]
fn the_census_is_public_and_has_every_status_once() {
    let census = census().unwrap();
    let mut statuses: Vec<_> = counts(&census, "status").into_keys().collect();
    let mut domain = declared("adult", "status");
    statuses.sort_unstable();
    domain.sort_unstable();
    assert_eq!((census.num_rows(), statuses), (7, domain));
    assert_eq!(integers(&census, "share").iter().sum::<i64>(), 100);
    assert!(DECLARATIONS.contains("ALTER TABLE census SET PUBLIC;"));
}

#[test]
fn the_tables_are_always_the_same() {
    assert_eq!(tables().unwrap(), tables().unwrap());
    // FNV-1a over every cell: the same in every build and on every machine.
    let digest = |table: &RecordBatch| {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for column in table.columns() {
            for row in 0..table.num_rows() {
                let cell = array_value_to_string(column, row).unwrap();
                for byte in cell.bytes().chain([0]) {
                    hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
                }
            }
        }
        format!("{hash:016x}")
    };
    let digests = tables().unwrap().map(|(_, table)| digest(&table));
    assert_eq!(
        digests,
        ["85529855d46ae056", "ed2af5ca1299288c", "e8a61f78970466d9", "1ce6ead0f60be8b8"]
    );
}

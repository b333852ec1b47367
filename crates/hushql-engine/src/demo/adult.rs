//! The table `adult`: it has as many people of every age, status, education … as the published
//! census extract of that name, but none of those people.
//!
//! In: the one-way counts below. Out: rows with exactly these counts and with plausible
//! dependencies: widowed people are older, educated people earn more. Joint counts of two columns
//! are invented. Published: Becker and Kohavi, *Adult*, UCI Machine Learning Repository, 1996 (CC
//! BY 4.0), the training part of 32,561 rows.
//!
//! ```text
//! id  age  workclass  education  status         occupation  race   sex   hours_per_week  income
//!  0   27  Private    Bachelors  Never-married  Sales       White  Male              40  <=50K
//! ```

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringArray};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;

use super::{Dice, assign, batch};

/// A status: its number of people, their typical age, and how many in a thousand are men or earn
/// more than 50,000.
struct Status {
    name: &'static str,
    count: usize,
    age: i64,
    men: i64,
    high_income: i64,
}

const STATUS: [Status; 7] = [
    Status { name: "Married-civ-spouse", count: 14_976, age: 42, men: 889, high_income: 447 },
    Status { name: "Never-married", count: 10_683, age: 22, men: 554, high_income: 46 },
    Status { name: "Divorced", count: 4_443, age: 42, men: 399, high_income: 104 },
    Status { name: "Separated", count: 1_025, age: 37, men: 384, high_income: 64 },
    Status { name: "Widowed", count: 993, age: 58, men: 169, high_income: 86 },
    Status { name: "Married-spouse-absent", count: 418, age: 39, men: 510, high_income: 81 },
    Status { name: "Married-AF-spouse", count: 23, age: 28, men: 391, high_income: 435 },
];

/// In the order of schooling. The number changes how many in a thousand earn more than 50,000.
const EDUCATION: [((&str, i64), usize); 16] = [
    (("Preschool", -220), 51),
    (("1st-4th", -200), 168),
    (("5th-6th", -190), 333),
    (("7th-8th", -180), 646),
    (("9th", -180), 514),
    (("10th", -170), 933),
    (("11th", -170), 1_175),
    (("12th", -160), 433),
    (("HS-grad", -80), 10_501),
    (("Some-college", -40), 7_291),
    (("Assoc-voc", 20), 1_382),
    (("Assoc-acdm", 20), 1_067),
    (("Bachelors", 170), 5_355),
    (("Masters", 300), 1_723),
    (("Prof-school", 480), 576),
    (("Doctorate", 480), 413),
];

/// Ordered by the schooling that is usual for the occupation, the least first.
const OCCUPATION: [(Option<&str>, usize); 15] = [
    (Some("Priv-house-serv"), 149),
    (Some("Handlers-cleaners"), 1_370),
    (Some("Machine-op-inspct"), 2_002),
    (Some("Farming-fishing"), 994),
    (Some("Other-service"), 3_295),
    (Some("Transport-moving"), 1_597),
    (Some("Craft-repair"), 4_099),
    (None, 1_843),
    (Some("Armed-Forces"), 9),
    (Some("Protective-serv"), 649),
    (Some("Adm-clerical"), 3_770),
    (Some("Sales"), 3_650),
    (Some("Tech-support"), 928),
    (Some("Exec-managerial"), 4_066),
    (Some("Prof-specialty"), 4_140),
];

/// The first 1,843 people also have no occupation.
const WORKCLASS: [(Option<&str>, usize); 9] = [
    (None, 1_836),
    (Some("Never-worked"), 7),
    (Some("Private"), 22_696),
    (Some("Self-emp-not-inc"), 2_541),
    (Some("Local-gov"), 2_093),
    (Some("State-gov"), 1_298),
    (Some("Self-emp-inc"), 1_116),
    (Some("Federal-gov"), 960),
    (Some("Without-pay"), 14),
];

const RACE: [(&str, usize); 5] = [
    ("White", 27_816),
    ("Black", 3_124),
    ("Asian-Pac-Islander", 1_039),
    ("Amer-Indian-Eskimo", 311),
    ("Other", 271),
];

const SEX: [(&str, usize); 2] = [("Female", 10_771), ("Male", 21_790)];

const INCOME: [(&str, usize); 2] = [("<=50K", 24_720), (">50K", 7_841)];

/// The number of people of each age, from 17 to 90.
const AGES: [usize; 74] = [
    395, 550, 712, 753, 720, 765, 877, 798, 841, 785, 835, 867, 813, 861, 888, 828, 875, 886, 876,
    898, 858, 827, 816, 794, 808, 780, 770, 724, 734, 737, 708, 543, 577, 602, 595, 478, 464, 415,
    419, 366, 358, 366, 355, 312, 300, 258, 230, 208, 178, 150, 151, 120, 108, 89, 72, 67, 64, 51,
    45, 46, 29, 23, 22, 22, 20, 12, 6, 10, 3, 1, 1, 3, 0, 43,
];

/// The number of people for each length of the working week, from 1 to 99 hours.
const HOURS: [usize; 99] = [
    20, 32, 39, 54, 60, 64, 26, 145, 18, 278, 11, 173, 23, 34, 404, 205, 29, 75, 14, 1_224, 24, 44,
    21, 252, 674, 30, 30, 86, 7, 1_149, 5, 266, 39, 28, 1_297, 220, 149, 476, 38, 15_217, 36, 219,
    151, 212, 1_824, 82, 49, 517, 29, 2_819, 13, 138, 25, 41, 694, 97, 17, 28, 5, 1_475, 2, 18, 10,
    14, 244, 17, 4, 12, 0, 291, 0, 71, 2, 1, 66, 3, 6, 8, 0, 133, 3, 1, 0, 45, 13, 2, 1, 2, 2, 29,
    3, 1, 0, 1, 2, 5, 2, 11, 85,
];

/// Makes `adult`: 32,561 rows, one for each person.
///
/// Columns: `id` (0, 1, …), `age`, `workclass`, `education`, `status`, `occupation`, `race`, `sex`,
/// `hours_per_week`, `income`. `workclass` and `occupation` are NULL if they are unknown.
///
/// # Errors
/// Only if Arrow rejects a column, which it does not.
pub fn adult() -> Result<RecordBatch, ArrowError> {
    let dice = &mut Dice(0xAD_0175);
    let statuses: [(&Status, usize); 7] = STATUS.each_ref().map(|status| (status, status.count));
    let status = assign(&statuses, dice, |_, _| 0);
    let age = assign(&numbered(17, &AGES), dice, |row, dice| {
        100 * status[row].age + dice.near_zero(2_600)
    });
    // Compares a chance in a thousand with a uniform draw, so that the highest ranks are the most
    // likely.
    let sex = assign(&SEX, dice, |row, dice| status[row].men - i64::from(dice.below(1_000)));
    let education =
        assign(&EDUCATION.each_ref().map(|(level, count)| (level, *count)), dice, |row, dice| {
            // People under 22 have not had time for a degree.
            i64::from(age[row] >= 22) * 250 + dice.near_zero(1_000)
        });
    let occupation = assign(&OCCUPATION, dice, |row, dice| education[row].1 + dice.near_zero(350));
    let workclass = assign(&WORKCLASS, dice, |row, _| i64::from(occupation[row].is_some()));
    let hours = assign(&numbered(1, &HOURS), dice, |row, dice| {
        let working_age = i64::from((25..=61).contains(&age[row]));
        i64::from(sex[row] == "Male") * 300 + working_age * 400 + dice.near_zero(1_000)
    });
    let income = assign(&INCOME, dice, |row, dice| {
        let experience = (age[row].min(50) - 38) * 8;
        let chance =
            status[row].high_income + education[row].1 + experience + (hours[row] - 40) * 4;
        chance - i64::from(dice.below(1_000))
    });
    let race = assign(&RACE, dice, |_, _| 0);

    let names = |column: Vec<&str>| -> ArrayRef { Arc::new(StringArray::from(column)) };
    let known = |column: Vec<Option<&str>>| -> ArrayRef { Arc::new(StringArray::from(column)) };
    let numbers = |column: Vec<i64>| -> ArrayRef { Arc::new(Int64Array::from(column)) };
    batch(vec![
        ("id", Arc::new(Int64Array::from_iter_values((0..).take(status.len())))),
        ("age", numbers(age)),
        ("workclass", known(workclass)),
        ("education", names(education.into_iter().map(|(name, _)| *name).collect())),
        ("status", names(status.into_iter().map(|status| status.name).collect())),
        ("occupation", known(occupation)),
        ("race", names(race)),
        ("sex", names(sex)),
        ("hours_per_week", numbers(hours)),
        ("income", names(income)),
    ])
}

/// Pairs the counts with consecutive numbers.
fn numbered(first: i64, counts: &[usize]) -> Vec<(i64, usize)> {
    (first..).zip(counts.iter().copied()).collect()
}

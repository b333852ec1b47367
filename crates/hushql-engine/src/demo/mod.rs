//! The built-in tables: `adult`, `bids`, `orders` and the public `census`, and the SQL by which
//! their owner declares them.
//!
//! In: nothing. Out: Arrow batches and text. A seeded generator in this module invents the tables;
//! privacy noise never uses it. The tables are the same on every machine, because only integers are
//! used until prices are divided by 100 at the end. The tables satisfy [`DECLARATIONS`]: every
//! value is in its domain, every bidder has one row, and every user has at most 20.
//!
//! ```text
//! register adult() as `adult`, bids() as `bids`, …; run DECLARATIONS as owner; then
//! SELECT ARGMAX EXPONENTIAL(eps=1) status FROM adult GROUP BY status
//! ```

mod adult;
mod shop;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int64Array, StringArray};
use arrow::datatypes::{Field, Schema};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;

pub use self::adult::adult;
pub use self::shop::{bids, orders};

/// The owner's declarations of the built-in tables, in the dialect: units, domains and budgets.
pub const DECLARATIONS: &str = "\
ALTER TABLE adult SET PRIVACY UNIT ROW;
ALTER TABLE adult ALTER COLUMN age SET PRIVACY DOMAIN BETWEEN (0, 120);
ALTER TABLE adult ALTER COLUMN workclass SET PRIVACY DOMAIN IN ('Private', 'Self-emp-not-inc', \
'Local-gov', 'State-gov', 'Self-emp-inc', 'Federal-gov', 'Without-pay', 'Never-worked');
ALTER TABLE adult ALTER COLUMN education SET PRIVACY DOMAIN IN ('Preschool', '1st-4th', '5th-6th', \
'7th-8th', '9th', '10th', '11th', '12th', 'HS-grad', 'Some-college', 'Assoc-voc', 'Assoc-acdm', \
'Bachelors', 'Masters', 'Prof-school', 'Doctorate');
ALTER TABLE adult ALTER COLUMN status SET PRIVACY DOMAIN IN ('Married-civ-spouse', \
'Never-married', 'Divorced', 'Separated', 'Widowed', 'Married-spouse-absent', 'Married-AF-spouse');
ALTER TABLE adult ALTER COLUMN occupation SET PRIVACY DOMAIN IN ('Prof-specialty', \
'Craft-repair', 'Exec-managerial', 'Adm-clerical', 'Sales', 'Other-service', 'Machine-op-inspct', \
'Transport-moving', 'Handlers-cleaners', 'Farming-fishing', 'Tech-support', 'Protective-serv', \
'Priv-house-serv', 'Armed-Forces');
ALTER TABLE adult ALTER COLUMN race SET PRIVACY DOMAIN IN ('White', 'Black', \
'Asian-Pac-Islander', 'Amer-Indian-Eskimo', 'Other');
ALTER TABLE adult ALTER COLUMN sex SET PRIVACY DOMAIN IN ('Male', 'Female');
ALTER TABLE adult ALTER COLUMN hours_per_week SET PRIVACY DOMAIN BETWEEN (0, 99);
ALTER TABLE adult ALTER COLUMN income SET PRIVACY DOMAIN IN ('<=50K', '>50K');
CREATE PRIVACY BUDGET adult FOR adult LIMIT (epsilon=10, delta=1e-5) PER QUERY (default=0.1, max=5);

ALTER TABLE bids SET PRIVACY UNIT (bidder) UNIQUE;
ALTER TABLE bids ALTER COLUMN bid SET PRIVACY DOMAIN BETWEEN (0, 5) STEP 0.01;
CREATE PRIVACY BUDGET bids FOR bids LIMIT (epsilon=10, delta=1e-5) PER QUERY (default=0.1, max=5);

ALTER TABLE orders SET PRIVACY UNIT (user_id) MAX ROWS 20;
ALTER TABLE orders ALTER COLUMN product SET PRIVACY DOMAIN IN ('bread', 'milk', 'coffee', 'tea', \
'honey', 'cheese', 'olive oil', 'wine');
ALTER TABLE orders ALTER COLUMN price SET PRIVACY DOMAIN BETWEEN (0, 100);
ALTER TABLE orders ALTER COLUMN qty SET PRIVACY DOMAIN BETWEEN (0, 10);
ALTER TABLE orders ALTER COLUMN city SET PRIVACY DOMAIN IN ('Amsterdam', 'Barcelona', 'Berlin', \
'Copenhagen', 'Dublin', 'Lisbon', 'Lyon', 'Milan', 'Prague', 'Vienna');
ALTER TABLE orders ALTER COLUMN ts SET PRIVACY DOMAIN \
BETWEEN (TIMESTAMP '2025-01-01 00:00:00', TIMESTAMP '2025-12-31 23:59:59');
CREATE PRIVACY BUDGET orders FOR orders LIMIT (epsilon=10, delta=1e-5) PER QUERY (default=0.1, max=5);

ALTER TABLE census SET PUBLIC;
";

/// The built-in tables by name, in the order of [`DECLARATIONS`].
///
/// # Errors
/// Only if Arrow rejects a column, which it does not.
pub fn tables() -> Result<[(&'static str, RecordBatch); 4], ArrowError> {
    Ok([("adult", adult()?), ("bids", bids()?), ("orders", orders()?), ("census", census()?)])
}

/// Public knowledge about marital statuses: the rounded share of each `status` in percent, as a
/// census of another year might report it. It does not come from `adult`.
const CENSUS: [(&str, i64); 7] = [
    ("Married-civ-spouse", 50),
    ("Never-married", 30),
    ("Divorced", 11),
    ("Widowed", 5),
    ("Separated", 3),
    ("Married-spouse-absent", 1),
    ("Married-AF-spouse", 0),
];

/// Makes `census`, which is public: one row for each `status` of `adult`, and its `share` in
/// percent.
///
/// # Errors
/// Only if Arrow rejects a column, which it does not.
pub fn census() -> Result<RecordBatch, ArrowError> {
    let status = StringArray::from_iter_values(CENSUS.map(|(status, _)| status));
    let share = Int64Array::from_iter_values(CENSUS.map(|(_, share)| share));
    batch(vec![("status", Arc::new(status)), ("share", Arc::new(share))])
}

/// One batch of named columns. A column is declared nullable if it contains NULL; this reveals
/// nothing, because the rows are invented and always the same.
fn batch(columns: Vec<(&str, ArrayRef)>) -> Result<RecordBatch, ArrowError> {
    let field = |(name, array): &(&str, ArrayRef)| {
        Field::new(*name, array.data_type().clone(), array.null_count() > 0)
    };
    let schema = Schema::new(columns.iter().map(field).collect::<Vec<_>>());
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    RecordBatch::try_new(Arc::new(schema), arrays)
}

/// SplitMix64 (Steele, Lea, Flood 2014): small, seeded, the same everywhere, and not secret.
#[derive(Debug)]
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// An integer in `0..sides`; 0 if `sides` is 0. (The bias of 2⁻³² does not matter here.)
    fn below(&mut self, sides: u32) -> u32 {
        let high = self.roll() >> 32;
        u32::try_from((high * u64::from(sides)) >> 32).unwrap_or(0)
    }

    /// An integer in `-spread..=spread`, more often near 0 than far from it.
    fn near_zero(&mut self, spread: u32) -> i64 {
        i64::from(self.below(spread + 1)) - i64::from(self.below(spread + 1))
    }

    /// One of the values, in proportion to their weights. `None` if there are no values.
    fn choose<T: Copy>(&mut self, weighted: &[(T, u32)]) -> Option<T> {
        let mut at = self.below(weighted.iter().map(|(_, weight)| weight).sum());
        for (value, weight) in weighted {
            match at.checked_sub(*weight) {
                Some(rest) => at = rest,
                None => return Some(*value),
            }
        }
        None
    }
}

/// Gives every row one value, and uses each value exactly as often as its count says.
///
/// Rows receive the values in ascending order of `score`, with ties in random order. A constant
/// score shuffles the values. A random score that depends on other columns makes this column depend
/// on them, and keeps its counts.
fn assign<T: Copy>(
    counts: &[(T, usize)],
    dice: &mut Dice,
    mut score: impl FnMut(usize, &mut Dice) -> i64,
) -> Vec<T> {
    let values = counts.iter().flat_map(|(value, count)| std::iter::repeat_n(*value, *count));
    let mut values: Vec<(usize, T)> = values.enumerate().collect();
    let rank = |row| (score(row, dice), dice.roll(), row);
    let mut order: Vec<(i64, u64, usize)> = (0..values.len()).map(rank).collect();
    order.sort_unstable();
    for ((row, _), (_, _, owner)) in values.iter_mut().zip(order) {
        *row = owner;
    }
    values.sort_unstable_by_key(|(row, _)| *row);
    values.into_iter().map(|(_, value)| value).collect()
}

#[cfg(test)]
mod tests;

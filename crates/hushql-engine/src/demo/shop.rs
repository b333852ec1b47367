//! The tables `bids` and `orders`: bids from which to find the best price, and customers with
//! several rows each.
//!
//! In: nothing. Out: two batches. `bids` has one row for each bidder. Its revenue curve has several
//! peaks of nearly the same height; the best is at 3.00. `orders` is skewed: most users order one
//! to five times, a few order 20 times, and no user orders more often.
//!
//! ```text
//! bidder   bid          order_id  user_id  product  price  qty  city    ts
//!   1042  2.00                 1      377  coffee    8.49    2  Lisbon  2025-01-01 00:41:09
//! ```

use std::sync::Arc;

use arrow::array::{Float64Array, Int64Array, StringArray, TimestampMicrosecondArray};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;

use super::{Dice, assign, batch};

/// Groups of bidders: the price in cents, how far above it they bid, and how many they are.
const BIDDERS: [(i64, u32, usize); 9] = [
    (0, 99, 500),
    (100, 0, 380),
    (100, 40, 320),
    (200, 0, 130),
    (200, 60, 110),
    (300, 0, 130),
    (300, 90, 100),
    (450, 0, 180),
    (450, 50, 150),
];

const USERS: u32 = 2_500;
const ORDERS: usize = 12_000;
const MOST_ORDERS: usize = 20;

/// Products, their list prices in cents, and how well they sell.
const PRODUCTS: [((&str, u32), u32); 8] = [
    (("bread", 349), 24),
    (("milk", 129), 22),
    (("coffee", 849), 17),
    (("tea", 529), 10),
    (("honey", 719), 5),
    (("cheese", 1_199), 9),
    (("olive oil", 1_449), 6),
    (("wine", 2_490), 7),
];

const CITIES: [(&str, u32); 10] = [
    ("Amsterdam", 14),
    ("Barcelona", 13),
    ("Berlin", 22),
    ("Copenhagen", 6),
    ("Dublin", 7),
    ("Lisbon", 8),
    ("Lyon", 5),
    ("Milan", 11),
    ("Prague", 6),
    ("Vienna", 8),
];

const QUANTITIES: [(i64, u32); 10] =
    [(1, 50), (2, 22), (3, 10), (4, 6), (5, 3), (6, 4), (7, 1), (8, 1), (9, 1), (10, 2)];

/// 2025-01-01 00:00:00 UTC, in seconds since 1970.
const NEW_YEAR: i64 = 1_735_689_600;
const DAY: i64 = 86_400;

/// Makes `bids`: 2,000 rows, one for each `bidder`, with the price that the bidder would pay
/// (`bid`, 0 to 5).
///
/// # Errors
/// Only if Arrow rejects a column, which it does not.
pub fn bids() -> Result<RecordBatch, ArrowError> {
    let dice = &mut Dice(0xB1D5);
    let groups = BIDDERS.map(|(price, above, count)| ((price, above), count));
    let bids: Vec<i64> = assign(&groups, dice, |_, _| 0)
        .into_iter()
        .map(|(price, above)| price + i64::from(dice.below(above + 1)))
        .collect();
    let bidders = Int64Array::from_iter_values((1_001..).take(bids.len()));
    batch(vec![("bidder", Arc::new(bidders)), ("bid", Arc::new(amounts(&bids)))])
}

/// Makes `orders`: 12,000 rows of 2,500 users, 1 to 20 rows each, in the order of time.
///
/// Columns: `order_id`, `user_id`, `product`, `price` (of one item, up to 100), `qty` (1 to 10),
/// `city`, `ts` (in 2025).
///
/// # Errors
/// Only if Arrow rejects a column, which it does not.
pub fn orders() -> Result<RecordBatch, ArrowError> {
    let dice = &mut Dice(0x0D_E125);
    let counts = orders_by_user(dice);
    let homes: Vec<&str> = counts.iter().filter_map(|_| dice.choose(&CITIES)).collect();
    let users: Vec<(usize, usize)> = counts.into_iter().enumerate().collect();
    let users = assign(&users, dice, |_, _| 0);
    let mut times: Vec<i64> = users.iter().map(|_| moment(dice)).collect();
    times.sort_unstable();

    let (mut products, mut prices, mut quantities, mut cities) = (vec![], vec![], vec![], vec![]);
    for &user in &users {
        let product = dice.choose(&PRODUCTS);
        // One order in five has a discount of 10 to 30 percent.
        let discount = if dice.below(5) == 0 { 10 + dice.below(21) } else { 0 };
        products.push(product.map(|(name, _)| name));
        prices.extend(product.map(|(_, list)| i64::from(list * (100 - discount) / 100)));
        quantities.extend(dice.choose(&QUANTITIES));
        cities.push(if dice.below(12) == 0 { dice.choose(&CITIES) } else { Some(homes[user]) });
    }
    let ids = Int64Array::from_iter_values((1..).take(users.len()));
    let user_ids =
        users.into_iter().filter_map(|user| i64::try_from(user).ok()).map(|user| user + 1);
    let micros = times.into_iter().map(|seconds| seconds * 1_000_000);
    batch(vec![
        ("order_id", Arc::new(ids)),
        ("user_id", Arc::new(Int64Array::from_iter_values(user_ids))),
        ("product", Arc::new(StringArray::from(products))),
        ("price", Arc::new(amounts(&prices))),
        ("qty", Arc::new(Int64Array::from(quantities))),
        ("city", Arc::new(StringArray::from(cities))),
        ("ts", Arc::new(TimestampMicrosecondArray::from_iter_values(micros))),
    ])
}

/// The number of orders of each user: at least one, and many for a few.
fn orders_by_user(dice: &mut Dice) -> Vec<usize> {
    let mut counts: Vec<usize> = (0..USERS).map(|_| 1).collect();
    let mut left = ORDERS.saturating_sub(counts.len());
    while left > 0 {
        let most = dice.below(USERS) + 1;
        let count = usize::try_from(dice.below(most)).ok().and_then(|user| counts.get_mut(user));
        if let Some(count) = count.filter(|count| **count < MOST_ORDERS) {
            *count += 1;
            left -= 1;
        }
    }
    // The first users have the most orders, so the counts are shuffled.
    let once: Vec<(usize, usize)> = counts.into_iter().map(|count| (count, 1)).collect();
    assign(&once, dice, |_, _| 0)
}

/// A random second of 2025: more often in the daytime than at night, and often in December.
fn moment(dice: &mut Dice) -> i64 {
    let day = if dice.below(8) == 0 { 334 + dice.below(31) } else { dice.below(365) };
    let noon = 13 * 3_600 + dice.near_zero(10 * 3_600);
    NEW_YEAR + i64::from(day) * DAY + noon
}

/// Cents as the nearest floats.
fn amounts(cents: &[i64]) -> Float64Array {
    let cents = cents.iter().filter_map(|cents| i32::try_from(*cents).ok());
    Float64Array::from_iter_values(cents.map(|cents| f64::from(cents) / 100.0))
}

//! The tables of the schemas, drawn with a fixed seed: 20,000 people each, and the rows that belong
//! to them. Those of shop, hospital and telemetry are made here, the others in `everyday`.
//!
//! Few people have many rows. Some cells are NULL, some rows come late, and one row in fifty refers
//! to nobody. Every value lies in its declared domain and nobody has more rows than `MAX ROWS`, so
//! that no declared bound cuts anything.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use arrow::compute::filter_record_batch;
use arrow::compute::kernels::cast_utils::Parser;
use arrow::datatypes::Date32Type;
use datafusion::datasource::MemTable;

use super::everyday;
use crate::privacy::sensitivity::Dice;

/// How many people each schema has.
pub(super) const PEOPLE: i64 = 20_000;

/// Rows in a batch.
const BATCH: usize = 16_384;

/// Microseconds of a day.
pub(super) const DAY: i64 = 86_400_000_000;

/// A table with all its rows, and the rows of it that belong to somebody, or to the public.
pub(super) struct Made {
    pub(super) name: &'static str,
    pub(super) all: Arc<MemTable>,
    pub(super) owned: Arc<MemTable>,
}

fn table(batch: &RecordBatch) -> Arc<MemTable> {
    let starts = (0..batch.num_rows()).step_by(BATCH);
    let batches = starts.map(|at| batch.slice(at, BATCH.min(batch.num_rows() - at))).collect();
    Arc::new(MemTable::try_new(batch.schema(), vec![batches]).unwrap())
}

pub(super) fn made(name: &'static str, columns: Vec<(&str, ArrayRef)>, owned: &[bool]) -> Made {
    let columns = columns.into_iter().map(|(name, array)| (name, array, true));
    let all = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let owned = filter_record_batch(&all, &BooleanArray::from(owned.to_vec())).unwrap();
    Made { name, all: table(&all), owned: table(&owned) }
}

pub(super) fn ints(values: impl IntoIterator<Item = impl Into<Option<i64>>>) -> ArrayRef {
    Arc::new(values.into_iter().map(Into::into).collect::<Int64Array>())
}

pub(super) fn floats(values: impl IntoIterator<Item = impl Into<Option<f64>>>) -> ArrayRef {
    Arc::new(values.into_iter().map(Into::into).collect::<Float64Array>())
}

pub(super) fn flags(values: impl IntoIterator<Item = Option<bool>>) -> ArrayRef {
    Arc::new(values.into_iter().collect::<BooleanArray>())
}

pub(super) fn texts<T: AsRef<str>>(values: impl IntoIterator<Item = Option<T>>) -> ArrayRef {
    Arc::new(values.into_iter().collect::<StringArray>())
}

pub(super) fn dates(values: impl IntoIterator<Item = impl Into<Option<i32>>>) -> ArrayRef {
    Arc::new(values.into_iter().map(Into::into).collect::<Date32Array>())
}

pub(super) fn times(values: impl IntoIterator<Item = impl Into<Option<i64>>>) -> ArrayRef {
    Arc::new(values.into_iter().map(Into::into).collect::<TimestampMicrosecondArray>())
}

/// A day by its number.
pub(super) fn day(text: &str) -> i32 {
    Date32Type::parse(text).unwrap()
}

/// From 0 to 1.
pub(super) fn share(dice: &mut Dice) -> f64 {
    (dice.roll() >> 11) as f64 / (1_u64 << 53) as f64
}

pub(super) fn one_of<T: Copy>(dice: &mut Dice, weighted: &[(T, usize)]) -> T {
    let all = weighted.iter().map(|(_, weight)| weight).sum();
    let mut left = dice.below(all);
    for (value, weight) in weighted {
        if left < *weight {
            return *value;
        }
        left -= weight;
    }
    unreachable!("the weights add up")
}

/// How many rows one of those has who have any: many have one or two, few have the most.
pub(super) fn rows_of_one(dice: &mut Dice, scale: f64, most: usize) -> usize {
    let n = scale * share(dice).max(1e-9).powf(-0.6);
    (n as usize).clamp(1, most)
}

/// From `lo` to `hi` days, both included.
pub(super) fn between(dice: &mut Dice, lo: i32, hi: i32) -> i32 {
    lo + dice.below(usize::try_from(hi - lo + 1).unwrap()) as i32
}

/// A time on a day: most things happen in the afternoon.
pub(super) fn at(dice: &mut Dice, day: i32) -> i64 {
    const HOURS: [(i64, usize); 24] = [
        (0, 2),
        (1, 2),
        (2, 2),
        (3, 2),
        (4, 2),
        (5, 3),
        (6, 4),
        (7, 5),
        (8, 6),
        (9, 7),
        (10, 7),
        (11, 7),
        (12, 8),
        (13, 8),
        (14, 9),
        (15, 9),
        (16, 9),
        (17, 10),
        (18, 10),
        (19, 9),
        (20, 8),
        (21, 6),
        (22, 4),
        (23, 3),
    ];
    let hour = one_of(dice, &HOURS);
    i64::from(day) * DAY + hour * 3_600_000_000 + dice.below(3_600) as i64 * 1_000_000
}

/// Cents.
pub(super) fn money(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// Whom a row refers to: a person, mostly.
fn referring(dice: &mut Dice, to: i64) -> Option<i64> {
    match dice.below(200) {
        0 => None,
        1..=3 => Some(to + 10_000_000),
        _ => Some(to),
    }
}

/// The last rows of a table: what happened earlier and came late.
fn late<T>(dice: &mut Dice, rows: Vec<T>) -> Vec<T> {
    let mut late = Vec::new();
    let mut sorted: Vec<T> = Vec::with_capacity(rows.len());
    for row in rows {
        if dice.one_in(50) { late.push(row) } else { sorted.push(row) }
    }
    sorted.append(&mut late);
    sorted
}

pub(super) fn tables(schema: &str) -> Vec<Made> {
    match schema {
        "shop" => shop(),
        "hospital" => hospital(),
        "telemetry" => telemetry(),
        "payroll" => everyday::payroll(),
        "school" => everyday::school(),
        "energy" => everyday::energy(),
        "loans" => everyday::loans(),
        "library" => everyday::library(),
        other => panic!("{other}"),
    }
}

struct Order {
    id: i64,
    customer: Option<i64>,
    owned: bool,
    ordered: i64,
    shipped: Option<i64>,
    channel: &'static str,
    status: &'static str,
    total: f64,
    coupon: Option<&'static str>,
}

struct Item {
    order: i64,
    owned: bool,
    product: i64,
    quantity: i64,
    price: f64,
}

const CHANNELS: [(&str, usize); 3] = [("web", 60), ("shop", 28), ("phone", 12)];

fn shop() -> Vec<Made> {
    const CATEGORIES: [(i64, usize); 8] =
        [(0, 30), (1, 22), (2, 15), (3, 11), (4, 9), (5, 6), (6, 4), (7, 3)];
    const NAMES: [&str; 8] =
        ["books", "games", "kitchen", "garden", "music", "sports", "toys", "office"];
    let mut dice = Dice(1);
    let product = |dice: &mut Dice| one_of(dice, &CATEGORIES) + 8 * dice.below(50) as i64 + 1;
    let list_prices: Vec<f64> =
        (0..400).map(|_| money(3.0 + 180.0 * share(&mut dice).powi(3))).collect();
    let (first, last) = (day("2024-01-01"), day("2025-12-31"));
    let mut customers = Vec::new();
    let (mut orders, mut items, mut reviews) = (Vec::new(), Vec::new(), Vec::new());
    for id in 1..=PEOPLE {
        let country = one_of(
            &mut dice,
            &[
                ("DE", 30),
                ("FR", 20),
                ("ES", 14),
                ("IT", 12),
                ("NL", 8),
                ("CH", 6),
                ("AT", 5),
                ("BE", 5),
            ],
        );
        let born =
            (!dice.one_in(10)).then(|| between(&mut dice, day("1935-01-01"), day("2007-12-31")));
        let signed = between(&mut dice, day("2023-01-01"), last);
        let channel = one_of(&mut dice, &CHANNELS);
        let newsletter = (!dice.one_in(40)).then(|| dice.below(10) < 4);
        let referrer = one_of(
            &mut dice,
            &[
                (Some("friend"), 3),
                (Some("search"), 4),
                (Some("advertisement"), 2),
                (Some("press"), 1),
                (None, 5),
            ],
        );
        let city = format!("city {}", dice.below(200));
        customers.push((id, country, city, born, signed, channel, newsletter, referrer));
        let n = if dice.one_in(5) { 0 } else { rows_of_one(&mut dice, 1.7, 20) };
        let most_items = 40 / n.max(1);
        for nth in 0..n {
            let number = orders.len() as i64 + 1;
            let start = signed.max(first);
            let soon = if nth == 0 && dice.one_in(2) { (start + 29).min(last) } else { last };
            let ordered = between(&mut dice, start, soon);
            let ordered = at(&mut dice, ordered);
            let takes = DAY / 4 + (share(&mut dice).powi(3) * 20.0 * DAY as f64) as i64;
            let shipped = (!dice.one_in(9)).then_some(ordered + takes);
            let customer = referring(&mut dice, id);
            let owned = customer == Some(id);
            let mut total = 0.0;
            for _ in 0..one_of(&mut dice, &[(1, 5), (2, 3), (3, 2)]).min(most_items) {
                let product = product(&mut dice);
                let quantity = one_of(&mut dice, &[(1, 70), (2, 18), (3, 6), (4, 4), (10, 2)]);
                let price = list_prices[product as usize - 1];
                let price = money(price * if dice.one_in(4) { 0.8 } else { 1.0 });
                total += quantity as f64 * price;
                let lost = dice.one_in(200);
                let order = if lost { number + 50_000_000 } else { number };
                items.push(Item { order, owned: owned && !lost, product, quantity, price });
            }
            orders.push(Order {
                id: number,
                customer,
                owned,
                ordered,
                shipped,
                channel: one_of(&mut dice, &CHANNELS),
                status: one_of(
                    &mut dice,
                    &[("open", 5), ("shipped", 10), ("delivered", 73), ("returned", 12)],
                ),
                total: money(total.min(1_000.0)),
                coupon: one_of(
                    &mut dice,
                    &[(None, 80), (Some("SPRING"), 9), (Some("SUMMER"), 7), (Some("VIP"), 4)],
                ),
            });
        }
        let n = if dice.below(10) < 6 { 0 } else { rows_of_one(&mut dice, 1.3, 10) };
        for _ in 0..n {
            let product = product(&mut dice);
            let liked = 5 - (product as usize - 1) % 8 / 3;
            let stars = one_of(&mut dice, &[(5, liked), (4, 3), (3, 2), (2, 1), (1, 1)]);
            let stars = (!dice.one_in(25)).then_some(stars);
            let customer = referring(&mut dice, id);
            reviews.push((customer, product, stars, between(&mut dice, first, last)));
        }
    }
    let orders = late(&mut dice, orders);
    let items = late(&mut dice, items);
    let reviews = late(&mut dice, reviews);
    let everybody = vec![true; customers.len()];
    let customers = made(
        "customers",
        vec![
            ("id", ints(customers.iter().map(|c| c.0))),
            ("name", texts(customers.iter().map(|c| Some(format!("customer {}", c.0))))),
            ("country", texts(customers.iter().map(|c| Some(c.1)))),
            ("city", texts(customers.iter().map(|c| Some(&c.2)))),
            ("birthday", dates(customers.iter().map(|c| c.3))),
            ("signed_up", dates(customers.iter().map(|c| c.4))),
            ("channel", texts(customers.iter().map(|c| Some(c.5)))),
            ("newsletter", flags(customers.iter().map(|c| c.6))),
            ("referrer", texts(customers.iter().map(|c| c.7))),
        ],
        &everybody,
    );
    let owned: Vec<bool> = orders.iter().map(|o| o.owned).collect();
    let orders = made(
        "orders",
        vec![
            ("id", ints(orders.iter().map(|o| o.id))),
            ("customer_id", ints(orders.iter().map(|o| o.customer))),
            ("ordered_at", times(orders.iter().map(|o| o.ordered))),
            ("shipped_at", times(orders.iter().map(|o| o.shipped))),
            ("channel", texts(orders.iter().map(|o| Some(o.channel)))),
            ("status", texts(orders.iter().map(|o| Some(o.status)))),
            ("total", floats(orders.iter().map(|o| o.total))),
            ("coupon", texts(orders.iter().map(|o| o.coupon))),
        ],
        &owned,
    );
    let owned: Vec<bool> = items.iter().map(|i| i.owned).collect();
    let items = made(
        "items",
        vec![
            ("order_id", ints(items.iter().map(|i| i.order))),
            ("product_id", ints(items.iter().map(|i| i.product))),
            ("quantity", ints(items.iter().map(|i| i.quantity))),
            ("price", floats(items.iter().map(|i| i.price))),
        ],
        &owned,
    );
    let reviews = made(
        "reviews",
        vec![
            ("customer_id", ints(reviews.iter().map(|r| r.0))),
            ("product_id", ints(reviews.iter().map(|r| r.1))),
            ("stars", ints(reviews.iter().map(|r| r.2))),
            ("written_on", dates(reviews.iter().map(|r| r.3))),
        ],
        &reviews.iter().map(|r| r.0.is_some_and(|id| id <= PEOPLE)).collect::<Vec<_>>(),
    );
    let products = made(
        "products",
        vec![
            ("id", ints(1..=400)),
            ("name", texts((1..=400).map(|i| Some(format!("product {i}"))))),
            ("category", texts((0..400).map(|i| Some(NAMES[i % 8])))),
            ("list_price", floats(list_prices)),
        ],
        &[true; 400],
    );
    vec![customers, orders, items, reviews, products]
}

struct Stay {
    id: i64,
    patient: Option<i64>,
    owned: bool,
    ward: &'static str,
    admitted: i32,
    discharged: Option<i32>,
    emergency: Option<bool>,
    cost: f64,
}

/// By ward: how many come, how long they stay, its floor, its beds.
const WARDS: [(&str, usize, f64, i64, i64); 8] = [
    ("general", 26, 5.0, 0, 120),
    ("surgery", 22, 7.0, 1, 90),
    ("maternity", 14, 4.0, 2, 50),
    ("cardiology", 13, 8.0, 1, 45),
    ("paediatrics", 10, 3.0, 2, 60),
    ("oncology", 8, 12.0, 3, 40),
    ("neurology", 5, 10.0, 3, 30),
    ("icu", 2, 9.0, 0, 16),
];

fn hospital() -> Vec<Made> {
    const DRUGS: [(&str, i64); 6] = [
        ("penicillin", 500),
        ("antacid", 20),
        ("aspirin", 100),
        ("heparin", 40),
        ("ibuprofen", 400),
        ("insulin", 10),
    ];
    let mut dice = Dice(2);
    let (first, last) = (day("2024-01-01"), day("2025-12-31"));
    let wards: Vec<(usize, usize)> = WARDS.iter().enumerate().map(|(i, w)| (i, w.1)).collect();
    let mut patients = Vec::new();
    let (mut stays, mut measurements, mut prescriptions) = (Vec::new(), Vec::new(), Vec::new());
    for id in 1..=PEOPLE {
        let born = between(&mut dice, day("1925-01-01"), day("2023-12-31"));
        let sex = one_of(&mut dice, &[(Some("f"), 52), (Some("m"), 46), (None, 2)]);
        let insurer = one_of(&mut dice, &[("public", 80), ("private", 15), ("none", 5)]);
        let city = format!("city {}", dice.below(100));
        patients.push((id, born, sex, city, insurer));
        let n = if dice.one_in(4) { 0 } else { rows_of_one(&mut dice, 1.5, 10) };
        let mut begun = Vec::new();
        for _ in 0..n {
            let number = stays.len() as i64 + 1;
            let ward = &WARDS[one_of(&mut dice, &wards)];
            // One stay a day: nothing depends on how ties are broken.
            let mut days = std::iter::repeat_with(|| between(&mut dice, first, last));
            let admitted = days.find(|day| !begun.contains(day)).unwrap();
            begun.push(admitted);
            // The old stay longer.
            let age = f64::from(admitted - born).max(0.0) / 365.25;
            let typical = ward.2 * (0.5 + age / 80.0);
            let length = (-typical * share(&mut dice).max(1e-9).ln()).min(85.0) as i32;
            let patient = referring(&mut dice, id);
            let owned = patient == Some(id);
            let cost = 400.0 + f64::from(length) * 700.0 * (0.5 + share(&mut dice));
            stays.push(Stay {
                id: number,
                patient,
                owned,
                ward: ward.0,
                admitted,
                discharged: (!dice.one_in(30)).then_some(admitted + length),
                emergency: (!dice.one_in(100)).then(|| dice.below(100) < 35),
                cost: money(cost.min(30_000.0)),
            });
            let stay =
                |dice: &mut Dice| if dice.one_in(100) { number + 50_000_000 } else { number };
            for _ in 0..dice.below(4) {
                let normal = share(&mut dice) + share(&mut dice) + share(&mut dice);
                let (kind, value) = match dice.below(3) {
                    0 => ("pressure", 85.0 + 30.0 * normal),
                    1 => ("temperature", 35.5 + 1.6 * normal),
                    _ => ("pulse", 45.0 + 25.0 * normal),
                };
                let value = (!dice.one_in(60)).then_some((value * 10.0).round() / 10.0);
                let taken = between(&mut dice, admitted, admitted + length);
                let stay = stay(&mut dice);
                measurements.push((
                    stay,
                    owned && stay == number,
                    kind,
                    value,
                    at(&mut dice, taken),
                ));
            }
            let from = dice.below(6);
            for nth in 0..one_of(&mut dice, &[(0_usize, 3), (1, 4), (2, 3)]) {
                // Penicillin and antacids go together.
                let (drug, dose) = DRUGS[(from + nth) % 6];
                let dose = dose * (1 + dice.below(3) as i64) / 2;
                let stay = stay(&mut dice);
                let days = 1 + dice.below(14) as i64;
                prescriptions.push((stay, owned && stay == number, drug, dose, days));
            }
        }
    }
    let stays = late(&mut dice, stays);
    let measurements = late(&mut dice, measurements);
    let prescriptions = late(&mut dice, prescriptions);
    let everybody = vec![true; patients.len()];
    let patients = made(
        "patients",
        vec![
            ("id", ints(patients.iter().map(|p| p.0))),
            ("name", texts(patients.iter().map(|p| Some(format!("patient {}", p.0))))),
            ("born", dates(patients.iter().map(|p| p.1))),
            ("sex", texts(patients.iter().map(|p| p.2))),
            ("city", texts(patients.iter().map(|p| Some(&p.3)))),
            ("insurer", texts(patients.iter().map(|p| Some(p.4)))),
        ],
        &everybody,
    );
    let owned: Vec<bool> = stays.iter().map(|s| s.owned).collect();
    let stays = made(
        "stays",
        vec![
            ("id", ints(stays.iter().map(|s| s.id))),
            ("patient_id", ints(stays.iter().map(|s| s.patient))),
            ("ward", texts(stays.iter().map(|s| Some(s.ward)))),
            ("admitted", dates(stays.iter().map(|s| s.admitted))),
            ("discharged", dates(stays.iter().map(|s| s.discharged))),
            ("emergency", flags(stays.iter().map(|s| s.emergency))),
            ("cost", floats(stays.iter().map(|s| s.cost))),
        ],
        &owned,
    );
    let measurements = made(
        "measurements",
        vec![
            ("stay_id", ints(measurements.iter().map(|m| m.0))),
            ("kind", texts(measurements.iter().map(|m| Some(m.2)))),
            ("value", floats(measurements.iter().map(|m| m.3))),
            ("taken_at", times(measurements.iter().map(|m| m.4))),
        ],
        &measurements.iter().map(|m| m.1).collect::<Vec<_>>(),
    );
    let prescriptions = made(
        "prescriptions",
        vec![
            ("stay_id", ints(prescriptions.iter().map(|p| p.0))),
            ("drug", texts(prescriptions.iter().map(|p| Some(p.2)))),
            ("dose", ints(prescriptions.iter().map(|p| p.3))),
            ("days", ints(prescriptions.iter().map(|p| p.4))),
        ],
        &prescriptions.iter().map(|p| p.1).collect::<Vec<_>>(),
    );
    let wards = made(
        "wards",
        vec![
            ("name", texts(WARDS.iter().map(|w| Some(w.0)))),
            ("floor", ints(WARDS.iter().map(|w| w.3))),
            ("beds", ints(WARDS.iter().map(|w| w.4))),
        ],
        &[true; 8],
    );
    vec![patients, stays, measurements, prescriptions, wards]
}

struct Event {
    user: Option<i64>,
    owned: bool,
    at: i64,
    name: &'static str,
    screen: &'static str,
    ms: i64,
    ok: Option<bool>,
}

fn telemetry() -> Vec<Made> {
    let mut dice = Dice(3);
    let (first, last) = (day("2025-06-01"), day("2025-12-31"));
    let versions: Vec<String> =
        (1..=4).flat_map(|major| (0..5).map(move |minor| format!("{major}.{minor}"))).collect();
    let mut users = Vec::new();
    let (mut devices, mut sessions, mut events) = (Vec::new(), Vec::new(), Vec::new());
    for id in 1..=PEOPLE {
        let plan = one_of(&mut dice, &[("free", 70), ("plus", 22), ("team", 8)]);
        let country = one_of(
            &mut dice,
            &[
                (Some("us"), 30),
                (Some("in"), 16),
                (Some("de"), 14),
                (Some("br"), 12),
                (Some("fr"), 10),
                (Some("at"), 6),
                (Some("au"), 6),
                (Some("ar"), 4),
                (None, 2),
            ],
        );
        let created = between(&mut dice, day("2025-01-01"), last);
        users.push((id, plan, country, created));
        let start = created.max(first);
        let n = if dice.one_in(20) { 0 } else { rows_of_one(&mut dice, 1.0, 5) };
        for _ in 0..n {
            let number = devices.len() as i64 + 1;
            let user = referring(&mut dice, id);
            let os = one_of(
                &mut dice,
                &[("android", 40), ("ios", 30), ("windows", 18), ("mac", 9), ("linux", 3)],
            );
            let newer = dice.below(20).max(dice.below(20));
            devices.push((number, user, user == Some(id), os, versions[newer].clone()));
        }
        let n = if dice.one_in(10) { 0 } else { rows_of_one(&mut dice, 1.6, 30) };
        for _ in 0..n {
            let number = sessions.len() as i64 + 1;
            let user = referring(&mut dice, id);
            let started = between(&mut dice, start, last);
            let seconds = (-400.0 * share(&mut dice).max(1e-9).ln()).min(3_600.0) as i64;
            let seconds = (!dice.one_in(80)).then_some(seconds);
            sessions.push((number, user, user == Some(id), at(&mut dice, started), seconds));
        }
        let n = if dice.one_in(10) { 0 } else { rows_of_one(&mut dice, 2.6, 20) };
        for _ in 0..n {
            let user = referring(&mut dice, id);
            let happened = between(&mut dice, start, last);
            let (screen, slow) = one_of(
                &mut dice,
                &[
                    (("home", 200.0), 40),
                    (("list", 450.0), 25),
                    (("detail", 600.0), 20),
                    (("cart", 1_200.0), 10),
                    (("settings", 150.0), 5),
                ],
            );
            let ms = (slow * (0.3 - share(&mut dice).max(1e-9).ln())).min(10_000.0) as i64;
            events.push(Event {
                user,
                owned: user == Some(id),
                at: at(&mut dice, happened),
                name: one_of(
                    &mut dice,
                    &[("open", 40), ("search", 22), ("view", 20), ("buy", 6), ("close", 12)],
                ),
                screen,
                ms,
                ok: (!dice.one_in(200)).then(|| dice.below(100) >= 12),
            });
        }
    }
    let sessions = late(&mut dice, sessions);
    let events = late(&mut dice, events);
    let everybody = vec![true; users.len()];
    let users = made(
        "users",
        vec![
            ("id", ints(users.iter().map(|u| u.0))),
            ("email", texts(users.iter().map(|u| Some(format!("user{}@example.org", u.0))))),
            ("plan", texts(users.iter().map(|u| Some(u.1)))),
            ("country", texts(users.iter().map(|u| u.2))),
            ("created", dates(users.iter().map(|u| u.3))),
        ],
        &everybody,
    );
    let devices = made(
        "devices",
        vec![
            ("id", ints(devices.iter().map(|d| d.0))),
            ("user_id", ints(devices.iter().map(|d| d.1))),
            ("os", texts(devices.iter().map(|d| Some(d.3)))),
            ("version", texts(devices.iter().map(|d| Some(&d.4)))),
        ],
        &devices.iter().map(|d| d.2).collect::<Vec<_>>(),
    );
    let sessions = made(
        "sessions",
        vec![
            ("id", ints(sessions.iter().map(|s| s.0))),
            ("user_id", ints(sessions.iter().map(|s| s.1))),
            ("started", times(sessions.iter().map(|s| s.3))),
            ("seconds", ints(sessions.iter().map(|s| s.4))),
        ],
        &sessions.iter().map(|s| s.2).collect::<Vec<_>>(),
    );
    let owned: Vec<bool> = events.iter().map(|e| e.owned).collect();
    let events = made(
        "events",
        vec![
            ("user_id", ints(events.iter().map(|e| e.user))),
            ("at", times(events.iter().map(|e| e.at))),
            ("name", texts(events.iter().map(|e| Some(e.name)))),
            ("screen", texts(events.iter().map(|e| Some(e.screen)))),
            ("ms", ints(events.iter().map(|e| e.ms))),
            ("ok", flags(events.iter().map(|e| e.ok))),
        ],
        &owned,
    );
    let released = (0..20).map(|i| day("2024-01-15") + 36 * i);
    let releases = made(
        "releases",
        vec![("version", texts(versions.iter().map(Some))), ("released", dates(released))],
        &[true; 20],
    );
    vec![users, devices, sessions, events, releases]
}

//! The tables of the five everyday schemas, drawn with a fixed seed: 20,000 people each, with
//! several rows a person.
//!
//! Their owners declare what owners usually do: units, `MAX ROWS`, some of the domains, a default
//! cost and a default δ. Columns without a domain are as common as those with one. Every row
//! belongs to somebody, every value lies in its declared domain, and nobody has more rows than
//! `MAX ROWS`, so that no declared bound cuts anything.

use super::world::{
    DAY, Made, PEOPLE, at, between, dates, day, flags, floats, ints, made, money, one_of,
    rows_of_one, share, texts, times,
};
use crate::privacy::sensitivity::Dice;

use arrow::array::ArrayRef;

/// A table whose rows all belong to somebody, or to the public.
fn whole(name: &'static str, columns: Vec<(&str, ArrayRef)>) -> Made {
    let rows = columns.first().map_or(0, |(_, array)| array.len());
    made(name, columns, &vec![true; rows])
}

/// A bell around 0, of deviation 0.5.
fn bell(dice: &mut Dice) -> f64 {
    share(dice) + share(dice) + share(dice) - 1.5
}

/// By department: its division, its people, and what they earn.
const DEPARTMENTS: [(&str, &str, usize, f64); 8] = [
    ("production", "works", 30, 42_000.0),
    ("logistics", "works", 16, 38_000.0),
    ("quality", "works", 8, 47_000.0),
    ("research", "technology", 12, 68_000.0),
    ("software", "technology", 12, 66_000.0),
    ("sales", "office", 12, 52_000.0),
    ("finance", "office", 6, 58_000.0),
    ("personnel", "office", 4, 50_000.0),
];

const TITLES: [(&str, usize); 8] = [
    ("operator", 30),
    ("clerk", 22),
    ("engineer", 18),
    ("driver", 10),
    ("analyst", 8),
    ("team lead", 7),
    ("manager", 4),
    ("director", 1),
];

const SITES: [(&str, usize); 5] =
    [("Aachen", 35), ("Bremen", 25), ("Celle", 20), ("Dresden", 12), ("Essen", 8)];

pub(super) fn payroll() -> Vec<Made> {
    let mut dice = Dice(4);
    let departments: Vec<(usize, usize)> =
        DEPARTMENTS.iter().enumerate().map(|(i, d)| (i, d.2)).collect();
    let (mut employees, mut payslips, mut absences) = (Vec::new(), Vec::new(), Vec::new());
    let (first, last) = (day("2025-01-01"), day("2025-12-31"));
    let months: Vec<i32> = (1..=12).map(|month| day(&format!("2025-{month:02}-01"))).collect();
    for id in 1..=PEOPLE {
        let department = &DEPARTMENTS[one_of(&mut dice, &departments)];
        let gender = one_of(&mut dice, &[("f", 44), ("m", 54), ("d", 2)]);
        let hired = between(&mut dice, day("1990-01-01"), last);
        let born = hired - between(&mut dice, 18 * 365, 45 * 365);
        let left = dice.one_in(6).then(|| between(&mut dice, hired.max(first - 2_000), last));
        let gap = if gender == "f" { 0.9 } else { 1.0 };
        let salary = (department.3 * gap * (1.0 + 0.3 * bell(&mut dice))).max(12_000.0);
        let salary = money(salary);
        let title = one_of(&mut dice, &TITLES);
        let site = one_of(&mut dice, &SITES);
        employees.push((id, department.0, title, gender, born, hired, left, salary, site));
        let rise = dice.one_in(3);
        for (nth, month) in months.iter().enumerate() {
            if *month < hired || left.is_some_and(|left| *month > left) {
                continue;
            }
            let raised = if rise && nth > 5 { 1.04 } else { 1.0 };
            let overtime = dice.below(10).saturating_sub(3) as i64 * 2;
            let bonus = dice.one_in(4).then(|| money(salary / 40.0 * (0.5 + share(&mut dice))));
            payslips.push((id, *month, money(salary / 12.0 * raised), bonus, overtime));
        }
        for _ in 0..rows_of_one(&mut dice, 2.0, 15) {
            let kind = one_of(
                &mut dice,
                &[("holiday", 50), ("sick", 35), ("training", 10), ("parental", 5)],
            );
            let begun = between(&mut dice, first, last);
            let days = dice.below(if kind == "parental" { 90 } else { 14 }) as i32;
            absences.push((id, kind, begun, (begun + days).min(last)));
        }
    }
    vec![
        whole(
            "employees",
            vec![
                ("id", ints(employees.iter().map(|e| e.0))),
                ("name", texts(employees.iter().map(|e| Some(format!("employee {}", e.0))))),
                ("department", texts(employees.iter().map(|e| Some(e.1)))),
                ("title", texts(employees.iter().map(|e| Some(e.2)))),
                ("gender", texts(employees.iter().map(|e| Some(e.3)))),
                ("born", dates(employees.iter().map(|e| e.4))),
                ("hired", dates(employees.iter().map(|e| e.5))),
                ("left_on", dates(employees.iter().map(|e| e.6))),
                ("salary", floats(employees.iter().map(|e| e.7))),
                ("site", texts(employees.iter().map(|e| Some(e.8)))),
            ],
        ),
        whole(
            "payslips",
            vec![
                ("employee_id", ints(payslips.iter().map(|p| p.0))),
                ("month", dates(payslips.iter().map(|p| p.1))),
                ("gross", floats(payslips.iter().map(|p| p.2))),
                ("bonus", floats(payslips.iter().map(|p| p.3))),
                ("overtime", ints(payslips.iter().map(|p| p.4))),
            ],
        ),
        whole(
            "absences",
            vec![
                ("employee_id", ints(absences.iter().map(|a| a.0))),
                ("kind", texts(absences.iter().map(|a| Some(a.1)))),
                ("first_day", dates(absences.iter().map(|a| a.2))),
                ("last_day", dates(absences.iter().map(|a| a.3))),
            ],
        ),
        whole(
            "departments",
            vec![
                ("name", texts(DEPARTMENTS.iter().map(|d| Some(d.0)))),
                ("division", texts(DEPARTMENTS.iter().map(|d| Some(d.1)))),
            ],
        ),
    ]
}

const TOWNS: [&str; 6] = ["Altdorf", "Bergen", "Calw", "Dahlem", "Elmau", "Forst"];
const KINDS: [&str; 3] = ["general", "grammar", "vocational"];
const SUBJECTS: [(&str, usize); 6] = [
    ("mathematics", 25),
    ("German", 25),
    ("English", 20),
    ("history", 12),
    ("physics", 10),
    ("music", 8),
];

pub(super) fn school() -> Vec<Made> {
    let mut dice = Dice(5);
    let (mut pupils, mut marks, mut missed) = (Vec::new(), Vec::new(), Vec::new());
    let (first, last) = (day("2024-09-01"), day("2025-07-31"));
    for id in 1..=PEOPLE {
        let school = dice.below(24) as i64 + 1;
        let grade = 5 + dice.below(8) as i64;
        let born = first - 365 * (grade as i32 + 6) - between(&mut dice, 0, 400);
        let gender = one_of(&mut dice, &[("f", 49), ("m", 51)]);
        let language = one_of(
            &mut dice,
            &[("German", 60), ("Turkish", 14), ("Arabic", 9), ("Polish", 8), ("Russian", 9)],
        );
        pupils.push((id, school, grade, born, gender, language));
        let weakness = bell(&mut dice);
        for _ in 0..2 + rows_of_one(&mut dice, 3.0, 28) {
            let subject = one_of(&mut dice, &SUBJECTS);
            let harder = if subject == "mathematics" { 0.5 } else { 0.0 };
            let mark = 2.8 + 1.2 * weakness + harder + 1.6 * bell(&mut dice);
            let mark = (mark.round() as i64).clamp(1, 6);
            marks.push((id, subject, between(&mut dice, first, last), mark));
        }
        let absent = if dice.one_in(4) { 0 } else { rows_of_one(&mut dice, 1.6, 20) };
        for _ in 0..absent {
            let hours = 1 + dice.below(7) as i64;
            missed.push((id, between(&mut dice, first, last), hours, !dice.one_in(5)));
        }
    }
    vec![
        whole(
            "pupils",
            vec![
                ("id", ints(pupils.iter().map(|p| p.0))),
                ("name", texts(pupils.iter().map(|p| Some(format!("pupil {}", p.0))))),
                ("school_id", ints(pupils.iter().map(|p| p.1))),
                ("grade", ints(pupils.iter().map(|p| p.2))),
                ("born", dates(pupils.iter().map(|p| p.3))),
                ("gender", texts(pupils.iter().map(|p| Some(p.4)))),
                ("language", texts(pupils.iter().map(|p| Some(p.5)))),
            ],
        ),
        whole(
            "marks",
            vec![
                ("pupil_id", ints(marks.iter().map(|m| m.0))),
                ("subject", texts(marks.iter().map(|m| Some(m.1)))),
                ("given_on", dates(marks.iter().map(|m| m.2))),
                ("mark", ints(marks.iter().map(|m| m.3))),
            ],
        ),
        whole(
            "missed",
            vec![
                ("pupil_id", ints(missed.iter().map(|m| m.0))),
                ("day", dates(missed.iter().map(|m| m.1))),
                ("hours", ints(missed.iter().map(|m| m.2))),
                ("excused", flags(missed.iter().map(|m| Some(m.3)))),
            ],
        ),
        whole(
            "schools",
            vec![
                ("id", ints(1..=24)),
                ("name", texts((1..=24).map(|i| Some(format!("school {i}"))))),
                ("town", texts((0..24).map(|i| Some(TOWNS[i % 6])))),
                ("kind", texts((0..24).map(|i| Some(KINDS[i % 3])))),
            ],
        ),
    ]
}

/// By tariff: its price and its households.
const TARIFFS: [(&str, f64, usize); 3] =
    [("basic", 0.36, 60), ("green", 0.39, 30), ("night", 0.31, 10)];

pub(super) fn energy() -> Vec<Made> {
    let mut dice = Dice(6);
    let (mut households, mut readings, mut faults) = (Vec::new(), Vec::new(), Vec::new());
    let (first, last) = (day("2025-01-01"), day("2025-12-31"));
    let tariffs: Vec<(&str, usize)> = TARIFFS.iter().map(|t| (t.0, t.2)).collect();
    for id in 1..=PEOPLE {
        let persons = one_of(&mut dice, &[(1, 40), (2, 32), (3, 13), (4, 10), (5, 5)]);
        let heating =
            one_of(&mut dice, &[("gas", 48), ("district", 25), ("oil", 15), ("heat pump", 12)]);
        let area = (30.0 + 20.0 * persons as f64 + 40.0 * share(&mut dice)).round();
        let postcode = format!("1{:03}", 10 * dice.below(30).min(dice.below(30)));
        let tariff = one_of(&mut dice, &tariffs);
        households.push((id, postcode, tariff, persons, heating, area, dice.one_in(8)));
        let usual = 80.0 + 45.0 * persons as f64 + if heating == "heat pump" { 90.0 } else { 0.0 };
        for month in 0..12 {
            let read = first + month * 30 + dice.below(28) as i32;
            let cold = 1.0 + 0.35 * (f64::from(month) * std::f64::consts::TAU / 12.0).cos();
            let kwh = money((usual * cold * (1.0 + 0.4 * bell(&mut dice))).clamp(5.0, 500.0));
            readings.push((id, at(&mut dice, read), kwh));
        }
        let broken = if dice.one_in(2) { 0 } else { rows_of_one(&mut dice, 1.0, 6) };
        for _ in 0..broken {
            let reported = between(&mut dice, first, last);
            let reported = at(&mut dice, reported);
            let kind =
                one_of(&mut dice, &[("outage", 45), ("meter", 25), ("voltage", 20), ("cable", 10)]);
            let hours = 2.0 - 30.0 * share(&mut dice).max(1e-9).ln();
            let fixed = reported + (hours * DAY as f64 / 24.0) as i64;
            faults.push((id, reported, (!dice.one_in(12)).then_some(fixed), kind));
        }
    }
    vec![
        whole(
            "households",
            vec![
                ("id", ints(households.iter().map(|h| h.0))),
                ("postcode", texts(households.iter().map(|h| Some(&h.1)))),
                ("tariff", texts(households.iter().map(|h| Some(h.2)))),
                ("persons", ints(households.iter().map(|h| h.3))),
                ("heating", texts(households.iter().map(|h| Some(h.4)))),
                ("area", floats(households.iter().map(|h| h.5))),
                ("solar", flags(households.iter().map(|h| Some(h.6)))),
            ],
        ),
        whole(
            "readings",
            vec![
                ("household_id", ints(readings.iter().map(|r| r.0))),
                ("at", times(readings.iter().map(|r| r.1))),
                ("kwh", floats(readings.iter().map(|r| r.2))),
            ],
        ),
        whole(
            "faults",
            vec![
                ("household_id", ints(faults.iter().map(|f| f.0))),
                ("reported", times(faults.iter().map(|f| f.1))),
                ("fixed", times(faults.iter().map(|f| f.2))),
                ("kind", texts(faults.iter().map(|f| Some(f.3)))),
            ],
        ),
        whole(
            "tariffs",
            vec![
                ("name", texts(TARIFFS.iter().map(|t| Some(t.0)))),
                ("price", floats(TARIFFS.iter().map(|t| t.1))),
            ],
        ),
    ]
}

const PURPOSES: [(&str, usize); 5] =
    [("car", 35), ("home", 25), ("furniture", 20), ("travel", 12), ("studies", 8)];
const JOBS: [(&str, usize); 7] = [
    ("nurse", 20),
    ("teacher", 18),
    ("engineer", 17),
    ("clerk", 15),
    ("driver", 12),
    ("cook", 10),
    ("lawyer", 8),
];

pub(super) fn loans() -> Vec<Made> {
    let mut dice = Dice(7);
    let (mut clients, mut loans, mut payments) = (Vec::new(), Vec::new(), Vec::new());
    for id in 1..=PEOPLE {
        let born = between(&mut dice, day("1945-01-01"), day("1999-12-31"));
        let region = one_of(&mut dice, &[("north", 30), ("south", 35), ("east", 20), ("west", 15)]);
        let job = one_of(&mut dice, &JOBS);
        let provider = one_of(
            &mut dice,
            &[("mail.example", 50), ("post.example", 30), ("web.example", 15), ("uni.example", 5)],
        );
        let income = money(18_000.0 - 26_000.0 * share(&mut dice).max(1e-3).ln());
        let email = format!("client{id}@{provider}");
        clients.push((id, born, income, region, job, email));
        for _ in 0..rows_of_one(&mut dice, 1.0, 5) {
            let number = loans.len() as i64 + 1;
            let start = between(&mut dice, day("2019-01-01"), day("2025-06-30"));
            let term = 12 * one_of(&mut dice, &[(1, 20), (2, 30), (3, 25), (4, 15), (6, 10)]);
            let amount = money(1_000.0 - 9_000.0 * share(&mut dice).max(1e-3).ln());
            let rate = money(2.5 + 6.0 * share(&mut dice));
            let purpose = one_of(&mut dice, &PURPOSES);
            let status = one_of(&mut dice, &[("paid", 50), ("running", 42), ("default", 8)]);
            loans.push((number, id, start, term, amount, rate, purpose, status));
            let share_of_it = money(amount / term as f64);
            for nth in 1..=6 {
                let due = start + 30 * nth;
                let late = if dice.one_in(5) { 1 + dice.below(30) as i32 } else { 0 };
                let paid = (!dice.one_in(30)).then_some(due + late);
                payments.push((number, due, paid, share_of_it));
            }
        }
    }
    vec![
        whole(
            "clients",
            vec![
                ("id", ints(clients.iter().map(|c| c.0))),
                ("born", dates(clients.iter().map(|c| c.1))),
                ("income", floats(clients.iter().map(|c| c.2))),
                ("region", texts(clients.iter().map(|c| Some(c.3)))),
                ("job", texts(clients.iter().map(|c| Some(c.4)))),
                ("email", texts(clients.iter().map(|c| Some(&c.5)))),
            ],
        ),
        whole(
            "loans",
            vec![
                ("id", ints(loans.iter().map(|l| l.0))),
                ("client_id", ints(loans.iter().map(|l| l.1))),
                ("start_date", dates(loans.iter().map(|l| l.2))),
                ("term", ints(loans.iter().map(|l| l.3))),
                ("amount", floats(loans.iter().map(|l| l.4))),
                ("rate", floats(loans.iter().map(|l| l.5))),
                ("purpose", texts(loans.iter().map(|l| Some(l.6)))),
                ("status", texts(loans.iter().map(|l| Some(l.7)))),
            ],
        ),
        whole(
            "payments",
            vec![
                ("loan_id", ints(payments.iter().map(|p| p.0))),
                ("due_on", dates(payments.iter().map(|p| p.1))),
                ("paid_on", dates(payments.iter().map(|p| p.2))),
                ("amount", floats(payments.iter().map(|p| p.3))),
            ],
        ),
    ]
}

const GENRES: [&str; 8] =
    ["novel", "crime", "children", "travel", "history", "science", "cooking", "poetry"];

pub(super) fn library() -> Vec<Made> {
    const BOOKS: usize = 240;
    let mut dice = Dice(8);
    let (mut members, mut borrowings, mut fines) = (Vec::new(), Vec::new(), Vec::new());
    let (first, last) = (day("2024-01-01"), day("2025-12-31"));
    let pages: Vec<i64> = (0..BOOKS).map(|_| 80 + dice.below(600) as i64).collect();
    for id in 1..=PEOPLE {
        let kind = one_of(&mut dice, &[("adult", 55), ("child", 25), ("student", 20)]);
        let born = match kind {
            "child" => between(&mut dice, day("2009-01-01"), day("2018-12-31")),
            "student" => between(&mut dice, day("1998-01-01"), day("2007-06-30")),
            _ => between(&mut dice, day("1940-01-01"), day("1998-12-31")),
        };
        let branch = one_of(&mut dice, &[("centre", 45), ("harbour", 30), ("hill", 25)]);
        let joined = between(&mut dice, day("2020-01-01"), last - 40);
        members.push((id, born, branch, joined, kind));
        let n = if dice.one_in(6) { 0 } else { rows_of_one(&mut dice, 1.6, 40) };
        for _ in 0..n {
            // The first books are borrowed most, and children like their own.
            let rank = dice.below(BOOKS).min(dice.below(BOOKS)).min(dice.below(BOOKS));
            let book = if kind == "child" && dice.one_in(2) { rank / 8 * 8 + 2 } else { rank };
            let out = between(&mut dice, joined.max(first), last);
            let back = out + 1 + (25.0 * (1.0 + bell(&mut dice))) as i32;
            let back = (!dice.one_in(40)).then_some(back);
            let number = borrowings.len() as i64 + 1;
            borrowings.push((number, id, book as i64 + 1, at(&mut dice, out), out + 28, back));
            if back.is_some_and(|back| back > out + 28) && fines.len() < 1_000_000 {
                let late = back.unwrap_or(out) - out - 28;
                fines.push((id, back.unwrap_or(out), money(1.0 + 0.4 * f64::from(late))));
            }
        }
    }
    vec![
        whole(
            "members",
            vec![
                ("id", ints(members.iter().map(|m| m.0))),
                ("born", dates(members.iter().map(|m| m.1))),
                ("branch", texts(members.iter().map(|m| Some(m.2)))),
                ("joined", dates(members.iter().map(|m| m.3))),
                ("kind", texts(members.iter().map(|m| Some(m.4)))),
            ],
        ),
        whole(
            "borrowings",
            vec![
                ("id", ints(borrowings.iter().map(|b| b.0))),
                ("member_id", ints(borrowings.iter().map(|b| b.1))),
                ("book_id", ints(borrowings.iter().map(|b| b.2))),
                ("out_on", times(borrowings.iter().map(|b| b.3))),
                ("due_on", dates(borrowings.iter().map(|b| b.4))),
                ("back_on", dates(borrowings.iter().map(|b| b.5))),
            ],
        ),
        whole(
            "fines",
            vec![
                ("member_id", ints(fines.iter().map(|f| f.0))),
                ("paid_on", dates(fines.iter().map(|f| f.1))),
                ("amount", floats(fines.iter().map(|f| f.2))),
            ],
        ),
        whole(
            "books",
            vec![
                ("id", ints(1..=BOOKS as i64)),
                ("title", texts((1..=BOOKS).map(|i| Some(format!("book {i}"))))),
                ("genre", texts((0..BOOKS).map(|i| Some(GENRES[i % 8])))),
                ("language", texts((0..BOOKS).map(|i| Some(["de", "en", "fr"][i % 5 % 3])))),
                ("published", ints((0..BOOKS).map(|i| 1950 + (i as i64 * 7) % 75))),
                ("pages", ints(pages)),
            ],
        ),
    ]
}

//! Many connections of many roles at once: every answer that somebody saw was charged, the sum is
//! exact, slices hold, and a connection is the same on two neighbouring databases but for its
//! answers and its time.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::client::{Client, Said};
use super::{PASSWORD, Served};
use crate::contract::program::Study;

const ROLES: usize = 20;

/// What each charge costs, and how many of them the slice of every other role suffices for.
const COST: f64 = 0.25;
const FEW: i64 = 10;

fn role(number: usize) -> String {
    format!("role{number}")
}

/// Whether the slice of a role suffices for a few questions only.
fn is_poor(number: usize) -> bool {
    number % 2 == 1
}

/// People, with or without one of them, and a role with a slice for each of twenty analysts.
fn study(with: bool) -> Study {
    let study = Study::new();
    let last = if with { "4,63,Rome\n" } else { "" };
    study.write("people.csv", format!("id,age,city\n1,30,Rome\n2,41,Oslo\n3,52,Rome\n{last}"));
    let mut sql = "CREATE EXTERNAL TABLE people STORED AS CSV LOCATION 'people.csv'
            OPTIONS ('content_hash' 'false');
        ALTER TABLE people SET PRIVACY UNIT ROW;
        ALTER TABLE people ALTER COLUMN age SET PRIVACY DOMAIN BETWEEN (0, 100);
        ALTER TABLE people ALTER COLUMN city SET PRIVACY DOMAIN IN ('Rome', 'Oslo');
        CREATE PRIVACY BUDGET b FOR people LIMIT (epsilon=1000000, delta=1e-5);"
        .to_owned();
    for number in 0..ROLES {
        let limit = if is_poor(number) { "2.5" } else { "40000" };
        let name = role(number);
        sql.push_str(&format!(
            "CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}'; ALTER PRIVACY BUDGET b ADD SLICE {name} LIMIT (epsilon={limit});"
        ));
    }
    study.owner(&sql).says(0, &[]);
    study
}

/// A message as everybody may see it: what it is, and its words without their numbers.
fn shape(said: &Said) -> String {
    let mut shape = String::new();
    for (kind, body) in &said.0 {
        // Whether a number is mostly noise follows from what was released.
        let drowned = b"exceeds half of it";
        if body.windows(drowned.len()).any(|part| part == drowned) {
            continue;
        }
        shape.push(char::from(*kind));
        if matches!(kind, b'E' | b'N' | b'T' | b'C' | b't') {
            let mut was_number = false;
            for byte in body {
                let is_number = byte.is_ascii_digit() || *byte == b'.';
                match is_number {
                    true if was_number => {}
                    true => shape.push('#'),
                    false => shape.push(char::from(*byte)),
                }
                was_number = is_number;
            }
        }
        shape.push('\n');
    }
    shape
}

/// What a connection saw.
#[derive(Default)]
struct Seen {
    role: usize,
    /// Answers that were charged.
    paid: i64,
    /// Questions that the slice did not suffice for.
    refused: i64,
    shapes: Vec<String>,
}

/// One question after the other, of every kind, until the time is over or the connection ends.
fn asks(lab: &mut Client, role: usize, until: Instant) -> Seen {
    let mut seen = Seen { role, ..Seen::default() };
    let count = "SELECT FRESH LAPLACE(eps=0.25) COUNT(*) AS n FROM people";
    for number in 0.. {
        if Instant::now() >= until {
            break;
        }
        let (is_paid, said) = match number % 8 {
            0 => (true, lab.query(count)),
            1 => (false, lab.query("SELECT oops FROM people")),
            2 => (true, lab.query("SELECT city, FRESH LAPLACE(eps=0.25) SUM(age) AS s FROM people GROUP BY city ORDER BY city")),
            3 => (false, lab.query("SELECT * FROM people; SELECT 1")),
            4 => {
                lab.parse("", &format!("{count} WHERE age > $1"), &[]);
                lab.describe(b'S', "");
                lab.bind("", "", &[(0, Some(b"40"))], &[1]);
                lab.describe(b'P', "");
                lab.execute("", 0);
                (true, lab.sync())
            }
            5 => (false, lab.query("SHOW TABLES")),
            6 => (true, lab.query(&format!("DECLARE c CURSOR FOR {count}"))),
            _ => (false, lab.query("FETCH ALL FROM c; CLOSE c")),
        };
        let code = said.error_field(b'C');
        if is_paid && code.is_none() && said.kinds().contains(&b'C') {
            seen.paid += 1;
        }
        seen.refused += i64::from(code.as_deref() == Some("53400"));
        if said.status().is_none() {
            break;
        }
        seen.shapes.push(shape(&said));
    }
    seen
}

/// A load: so many connections, which ask for so long; a killed server is killed then.
fn load(study: Study, connections: usize, time: Duration, is_killed: bool) -> (Study, Vec<Seen>) {
    let (most, of_one) = (connections.to_string(), connections.div_ceil(ROLES).to_string());
    let served =
        Served::of(study, &["--max-connections", &most, "--connections-per-role", &of_one]);
    let clients: Vec<(usize, Client)> = (0..connections)
        .map(|number| {
            let client = Client::log_in(served.port, &role(number % ROLES), PASSWORD);
            (number % ROLES, client.unwrap())
        })
        .collect();
    let begun = Instant::now();
    let until = begun + if is_killed { time * 10 } else { time };
    let asking: Vec<_> = clients
        .into_iter()
        .map(|(role, mut lab)| std::thread::spawn(move || asks(&mut lab, role, until)))
        .collect();
    let mut served = Some(served);
    let mut killed = None;
    if is_killed {
        std::thread::sleep(time);
        killed = served.take().map(Served::kill);
    }
    let seen = asking.into_iter().map(|thread| thread.join().unwrap()).collect();
    let study = killed.unwrap_or_else(|| served.take().unwrap().kill());
    (study, seen)
}

/// The charges in the ledger by analyst, and what they come to.
fn charged(study: &Study) -> (BTreeMap<String, i64>, f64) {
    let sql = "SELECT analyst, COUNT(*) AS n FROM hushql.ledger WHERE kind = 'paid' GROUP BY analyst; SHOW PRIVACY BUDGET";
    let run = study.run(&["study.db", "--owner", "--format", "json", "-c", sql]);
    let lines = run.lines();
    let rows = lines[0]["rows"].as_array().unwrap();
    let charges = rows
        .iter()
        .map(|row| (row[0].as_str().unwrap().to_owned(), row[1].as_i64().unwrap()))
        .collect();
    let spent = lines[1]["rows"][0][3].as_str().unwrap();
    (charges, spent.trim_start_matches("ε = ").parse().unwrap())
}

/// Everybody was charged for what they saw: exactly, or with one more for each connection that
/// ended in the middle of a question.
fn check(study: &Study, seen: &[Seen], is_killed: bool) {
    study.run(&["check", "study.db"]).says(0, &[]);
    let (charges, spent) = charged(study);
    let all: i64 = charges.values().sum();
    let quarters = all as f64 * COST;
    assert!((quarters - spent).abs() < 1e-9, "{quarters} is not the sum of the ledger: {spent}");
    for number in 0..ROLES {
        let own: Vec<&Seen> = seen.iter().filter(|seen| seen.role == number).collect();
        let paid: i64 = own.iter().map(|seen| seen.paid).sum();
        let own = i64::try_from(own.len()).unwrap();
        let charged = charges.get(&role(number)).copied().unwrap_or(0);
        let more = if is_killed { own } else { 0 };
        assert!(
            (paid..=paid + more).contains(&charged),
            "{}: {paid} seen, {charged} charged",
            role(number)
        );
        assert!(!is_poor(number) || charged <= FEW, "{}: {charged}", role(number));
    }
}

/// The same load on both databases: nothing but answers and times differs.
fn neighbours(connections: usize, time: Duration) {
    let [with, without] = [true, false].map(|with| {
        let (study, seen) = load(study(with), connections, time, false);
        check(&study, &seen, false);
        seen
    });
    let mut compared = 0;
    for (one, other) in with.iter().zip(&without) {
        // Who gets the last of a slice is a matter of time.
        if is_poor(one.role) {
            continue;
        }
        assert_eq!(one.refused + other.refused, 0, "role {}", one.role);
        for (number, (one, other)) in one.shapes.iter().zip(&other.shapes).enumerate() {
            assert_eq!(one, other, "question {number}");
            compared += 1;
        }
    }
    assert!(compared >= connections, "{compared} questions compared");
}

#[test]
fn everybody_is_charged_for_what_they_saw() {
    neighbours(40, Duration::from_secs(4));
}

#[test]
#[ignore = "long: two minutes"]
fn two_hundred_connections_ask_for_a_minute() {
    neighbours(200, Duration::from_secs(60));
    let (study, seen) = load(study(true), 200, Duration::from_secs(10), true);
    check(&study, &seen, true);
}

/// Killed under load, nothing is lost: what somebody saw is in the ledger, and the next server goes
/// on from there.
#[test]
fn a_server_killed_under_load_loses_nothing() {
    let (study, seen) = load(study(true), 40, Duration::from_secs(2), true);
    assert!(seen.iter().map(|seen| seen.paid).sum::<i64>() > 0);
    check(&study, &seen, true);
    let before = charged(&study).0;
    let (study, again) = load(study, 20, Duration::from_secs(1), false);
    let after = charged(&study).0;
    for number in 0..ROLES {
        let of = |charges: &BTreeMap<String, i64>| charges.get(&role(number)).copied().unwrap_or(0);
        let paid: i64 = again.iter().filter(|seen| seen.role == number).map(|seen| seen.paid).sum();
        assert_eq!(of(&after), of(&before) + paid, "{}", role(number));
    }
}

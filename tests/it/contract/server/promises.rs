//! What the server promises while statements run: a cancelled one stays charged, a role that is
//! sent away gets nothing further of its message, the audit log has what happened, and nobody holds
//! rows without end.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::client::{Client, error_code, texts};
use super::{COUNT, PASSWORD, Served};

/// Waits until something was charged.
fn is_charged(served: &Served) {
    let begun = Instant::now();
    while served.study.spent().0 == 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing was charged");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_cancelled_statement_stays_charged() {
    let served = Served::with(&[]);
    let numbers: String = (0..100).map(|number| format!("{number}\n")).collect();
    served.study.write("numbers.csv", format!("k\n{numbers}"));
    let declare = "CREATE EXTERNAL TABLE numbers STORED AS CSV LOCATION 'numbers.csv'; ALTER TABLE numbers SET PUBLIC";
    served.study.owner(declare).says(0, &[]);
    let mut lab = served.lab();
    let (wrong, cancels) = (lab.cancels(served.port, 1), lab.cancels(served.port, 0));
    // The release is drawn at once, and the public rows take hours.
    let sql = "SELECT COUNT(*) AS c, MAX(n) AS n FROM numbers a, numbers b, numbers c, numbers d, numbers e, numbers f, (SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people) q WHERE a.k + b.k > c.k + d.k - e.k + f.k";
    let asking = std::thread::spawn(move || (lab.query(sql), lab));
    is_charged(&served);
    // Whoever guesses its secret ends nothing, not even after the second that a cancelled statement
    // has to end in.
    wrong();
    std::thread::sleep(Duration::from_secs(2));
    assert!(!asking.is_finished());
    cancels();
    let (said, mut lab) = asking.join().unwrap();
    assert_eq!(error_code(&said).as_deref(), Some("57014"), "{said:?}");
    assert!(said.error_field(b'M').unwrap().contains("stays charged"));
    assert_eq!(served.study.spent().0, 1);
    assert_eq!(texts(&served.lab().query("SELECT 1 AS x")), [["1"]]);
    // What computes may go on for a while; the next statement waits for it, and can be cancelled,
    // too.
    let cancels = lab.cancels(served.port, 0);
    let asking = std::thread::spawn(move || lab.query("SELECT 1 AS x"));
    std::thread::sleep(Duration::from_millis(500));
    cancels();
    let said = asking.join().unwrap();
    assert!(error_code(&said).is_none_or(|code| code == "57014") && said.status().is_some());
}

/// A join makes many rows from few, so that nothing below it pauses.
#[test]
fn a_join_of_few_rows_ends_in_time() {
    let served = Served::with(&[]);
    let numbers: String = (0..100).map(|number| format!("{number}\n")).collect();
    served.study.write("numbers.csv", format!("k\n{numbers}"));
    let declare = "CREATE EXTERNAL TABLE numbers STORED AS CSV LOCATION 'numbers.csv'; ALTER TABLE numbers SET PUBLIC";
    served.study.owner(declare).says(0, &[]);
    let mut lab = served.lab();
    lab.query("SET statement_timeout = '300ms'");
    let begun = Instant::now();
    // Minutes, were it not for the limit.
    let said = lab.query("SELECT COUNT(*) AS n FROM numbers a, numbers b, numbers c, numbers d WHERE CONCAT(a.k, '-', b.k, '-', c.k, '-', d.k) LIKE '%9_8%7-%6%'");
    assert_eq!(error_code(&said).as_deref(), Some("57014"), "{said:?}");
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    lab.query("RESET statement_timeout");
    assert_eq!(texts(&lab.query("SELECT 1 AS x")), [["1"]]);
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}

#[test]
fn the_rest_of_a_message_is_not_run_for_whoever_is_sent_away() {
    let served = Served::with(&[]);
    let mut lab = served.lab();
    let many = "SELECT FRESH LAPLACE(eps=1) COUNT(*) AS n FROM people;".repeat(3_000);
    let asking = std::thread::spawn(move || lab.query(&many));
    is_charged(&served);
    served.study.owner("ALTER ROLE lab NOLOGIN").says(0, &[]);
    let said = asking.join().unwrap();
    assert_eq!(error_code(&said).as_deref(), Some("57P01"));
    let seen = i64::try_from(said.rows().len()).unwrap();
    assert!((1..3_000).contains(&seen), "{seen}");
    assert_eq!(served.study.spent().0, seen);
}

#[test]
fn the_audit_log_has_what_happened() {
    let served = Served::with(&["--audit", "audit.log"]);
    let mut lab = served.lab();
    lab.query("BEGIN");
    lab.query(&format!("DECLARE c CURSOR FOR {COUNT}"));
    lab.query("SELECT oops FROM people");
    assert!(Client::log_in(served.port, "nobody", PASSWORD).is_err());
    let text = std::fs::read_to_string(served.study.path("audit.log")).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |field: &str| -> Vec<&Value> { lines.iter().map(|line| &line[field]).collect() };
    assert_eq!(of("event"), ["log-in", "statement", "statement", "statement", "log-in"]);
    assert_eq!(of("code"), ["00000", "00000", "00000", "42703", "28P01"]);
    assert_eq!(of("role"), ["lab", "lab", "lab", "lab", "nobody"]);
    assert_eq!((&lines[2]["cost"], &lines[2]["charge"]), (&"ε = 100".into(), &1.into()));
    assert!(lines[0]["from"] == "127.0.0.1" && lines[3]["cost"].is_null());
    let second = ["serve", "study.db", "--listen", "127.0.0.1:0", "--audit", "audit.log"];
    served.study.run(&second).says(1, &["another server"]);
}

/// Whoever drips makes nobody who asks for the health of the server wait for long.
#[test]
fn health_is_told_in_time() {
    let served = Served::with(&["--metrics", "127.0.0.1:0"]);
    let port = served.metrics();
    let dripping = std::thread::spawn(move || {
        let mut drips = TcpStream::connect(("127.0.0.1", port)).unwrap();
        for _ in 0..60 {
            if drips.write_all(b"x").is_err() {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    std::thread::sleep(Duration::from_millis(300));
    let begun = Instant::now();
    let mut asks = TcpStream::connect(("127.0.0.1", port)).unwrap();
    asks.write_all(b"GET /health HTTP/1.1\r\n\r\n").unwrap();
    let mut said = String::new();
    asks.read_to_string(&mut said).unwrap();
    assert!(said.starts_with("HTTP/1.1 200 OK"), "{said}");
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    dripping.join().unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn the_owners_socket_is_the_owners_alone() {
    use std::os::unix::fs::PermissionsExt;

    let served = Served::with(&["--owner-socket", "own"]);
    let folder = served.study.path("own");
    Client::of_owner(&folder, served.port).unwrap();
    let socket = folder.join(format!(".s.PGSQL.{}", served.port));
    let mode = std::fs::metadata(socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn more_connections_than_files_are_not_begun() {
    let study = crate::contract::program::Study::with_people();
    let arguments =
        ["serve", "study.db", "--listen", "127.0.0.1:0", "--max-connections", "100000000"];
    study.run(&arguments).says(1, &["open files", "--max-connections"]);
}

/// What portals hold is counted before anything is charged for one more.
#[test]
fn portals_hold_only_so_much() {
    let served = Served::with(&[]);
    let mut lab = served.lab();
    let text = "x".repeat(900_000);
    let declare = |lab: &mut Client, number: usize| {
        error_code(&lab.query(&format!("DECLARE c{number} CURSOR FOR SELECT '{text}' AS x")))
    };
    lab.query("BEGIN");
    let most = (0..90).position(|number| declare(&mut lab, number).is_some()).unwrap();
    assert!(most > 10, "{most}");
    lab.query("ROLLBACK");
    lab.query("BEGIN");
    assert!((0..most).all(|number| declare(&mut lab, number).is_none()));
    let refused = lab.query(&format!("DECLARE paid CURSOR FOR {COUNT}"));
    assert_eq!(error_code(&refused).as_deref(), Some("54000"), "{refused:?}");
    lab.parse("", COUNT, &[]);
    lab.bind("", "", &[], &[]);
    lab.execute("", 0);
    assert_eq!(error_code(&lab.sync()).as_deref(), Some("25P02"));
    assert_eq!(served.study.spent().0, 0);
    // The end of the transaction closes them all.
    lab.query("ROLLBACK");
    lab.query("BEGIN");
    assert_eq!(lab.query(&format!("DECLARE paid CURSOR FOR {COUNT}")).tags(), ["DECLARE CURSOR"]);
}

/// Each failure doubles what the next one has to wait for.
#[test]
fn guessing_takes_longer_each_time() {
    let served = Served::with(&[]);
    let begun = Instant::now();
    for _ in 0..5 {
        assert!(Client::log_in(served.port, "lab", "wrong horse").is_err());
    }
    // A right password waits as a wrong one does: 0.1 + 0.2 + 0.4 + 0.8 + 1.6 seconds.
    served.lab();
    assert!(begun.elapsed() >= Duration::from_millis(3_100), "{:?}", begun.elapsed());
}

/// Passwords that are tried on many connections at once are judged one after the other.
#[test]
fn many_connections_guess_no_faster() {
    let served = Served::with(&[]);
    let port = served.port;
    let begun = Instant::now();
    let guessing: Vec<_> = (0..5)
        .map(|_| {
            std::thread::spawn(move || Client::log_in(port, "lab", "wrong horse").err().unwrap())
        })
        .collect();
    let codes: Vec<String> = guessing.into_iter().map(|guess| guess.join().unwrap().code).collect();
    assert!(codes.iter().all(|code| code == "28P01" || code == "53300"), "{codes:?}");
    // The first one is judged at once, and the next four 0.1, 0.2, 0.4 and 0.8 seconds after one
    // another.
    let judged = codes.iter().filter(|code| *code == "28P01").count();
    let least = [0, 0, 100, 300, 700, 1_500][judged];
    assert!(judged > 2 && begun.elapsed() >= Duration::from_millis(least), "{codes:?}");
    served.lab();
}

//! `hushql serve`: who may ask over the network, what they are told, and what it costs.

#![cfg(feature = "serve")]

mod catalog_queries;
pub(crate) mod client;
#[cfg(feature = "console")]
mod console;
mod described;
mod hostile;
mod load;
mod own;
mod policies;
mod promises;
mod psql;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use client::{Client, Refused, error_code, texts};

use crate::contract::program::Study;

pub(crate) const PASSWORD: &str = "correct horse";

/// A server of the program, which ends with this.
pub(crate) struct Served {
    pub study: Study,
    process: Child,
    pub port: u16,
    metrics: Option<u16>,
    agents: Option<u16>,
    browsers: Option<u16>,
    /// The last line that it wrote, once it has ended.
    last: Option<JoinHandle<String>>,
}

impl Served {
    /// A vault with people and the role `lab`, served with these arguments.
    pub fn with(arguments: &[&str]) -> Self {
        let study = Study::with_people();
        study.owner(&format!("CREATE ROLE lab LOGIN PASSWORD '{PASSWORD}'")).says(0, &[]);
        Self::of(study, arguments)
    }

    pub fn of(study: Study, arguments: &[&str]) -> Self {
        Self::started(study, arguments, |_| {})
    }

    /// The same, where the system is not as usual.
    pub fn started(study: Study, arguments: &[&str], change: impl FnOnce(&mut Command)) -> Self {
        let all = [["serve", "study.db", "--listen", "127.0.0.1:0"].as_slice(), arguments].concat();
        let mut command = study.command(&all);
        change(&mut command);
        let mut process = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let mut listening = |for_whom: &str| loop {
            let line = lines.next().expect("the server ended").unwrap();
            if let Some((_, rest)) = line.split_once("listening on 127.0.0.1:")
                && line.contains(for_whom)
            {
                break rest.split(' ').next().unwrap().parse().unwrap();
            }
        };
        let port = listening("for roles");
        let metrics = arguments.contains(&"--metrics").then(|| listening("/health"));
        let agents = arguments.contains(&"--mcp").then(|| listening("for agents"));
        let browsers = arguments.contains(&"--console").then(|| listening("for browsers"));
        let last =
            std::thread::spawn(move || lines.map_while(Result::ok).last().unwrap_or_default());
        Self { study, process, port, metrics, agents, browsers, last: Some(last) }
    }

    /// The port of `/health`.
    pub fn metrics(&self) -> u16 {
        self.metrics.unwrap()
    }

    /// The port for language models.
    pub fn agents(&self) -> u16 {
        self.agents.unwrap()
    }

    /// The port for browsers.
    #[cfg(feature = "console")]
    pub fn browsers(&self) -> u16 {
        self.browsers.unwrap()
    }

    pub fn lab(&self) -> Client {
        Client::log_in(self.port, "lab", PASSWORD).unwrap()
    }

    /// Waits until the process ends by itself: what it served, its status, and the last line that
    /// it wrote.
    pub fn ended(mut self) -> (Study, ExitStatus, String) {
        let status = self.process.wait().unwrap();
        let last = self.last.take().unwrap().join().unwrap();
        let mut study = Study::new();
        std::mem::swap(&mut study, &mut self.study);
        (study, status, last)
    }

    /// Ends the process at once, as `kill -9` does.
    pub fn kill(mut self) -> Study {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        let mut study = Study::new();
        std::mem::swap(&mut study, &mut self.study);
        study
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

const COUNT: &str = "SELECT LAPLACE(eps=100) COUNT(*) AS n FROM people";

#[test]
fn a_role_logs_in_and_asks() {
    let served = Served::with(&[]);
    let mut lab = served.lab();
    let said = lab.query(COUNT);
    assert_eq!(texts(&said), [["4"]]);
    let notices = said.notices();
    assert!(notices[0].starts_with("n: ± "), "{notices:?}");
    assert!(notices[1].starts_with("cost ε = 100 · left b ε = "), "{notices:?}");
    assert_eq!(said.tags(), ["SELECT 1"]);
    // The session is that of the analyst of this name: the same ledger, the same line.
    let mine = lab.query("SELECT DISTINCT analyst FROM hushql.ledger");
    assert_eq!(texts(&mine), [["lab"]]);
    assert!(served.study.lab("SHOW PRIVACY BUDGET").out.contains("100"));
}

#[test]
fn who_cannot_prove_it_learns_nothing() {
    let served = Served::with(&[]);
    served
        .study
        .owner(
            "CREATE ROLE gone LOGIN PASSWORD 'correct horse' VALID UNTIL '2001-01-01';
             CREATE ROLE mute NOLOGIN PASSWORD 'correct horse'",
        )
        .says(0, &[]);
    let mut said = Vec::new();
    for (name, password) in [
        ("lab", "wrong horse"),
        ("nobody", PASSWORD),
        ("gone", PASSWORD),
        ("mute", PASSWORD),
        ("owner", PASSWORD),
        ("Lab", PASSWORD),
        ("", PASSWORD),
    ] {
        let Err(Refused { code, message, first }) = Client::log_in(served.port, name, password)
        else {
            panic!("{name} is in")
        };
        // As far as the random nonce and the salt, all of them hear the same.
        let shape: Vec<usize> = first.split(',').map(str::len).collect();
        said.push((code, message, shape));
    }
    said.dedup();
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!(said[0].0, "28P01");
    // The salt of a name that nobody has is the same each time, as that of a role is.
    let salt = |name: &str| salt(&served, name);
    assert_eq!(salt("nobody"), salt("nobody"));
    assert_ne!(salt("nobody"), salt("somebody"));
}

/// The salt that somebody with a wrong password is told.
fn salt(served: &Served, name: &str) -> String {
    let refused = Client::log_in(served.port, name, "wrong").err().unwrap();
    refused.first.split(',').nth(1).unwrap().to_owned()
}

#[test]
fn a_role_that_is_dropped_is_sent_away() {
    let served = Served::with(&[]);
    let mut lab = served.lab();
    assert_eq!(texts(&lab.query("SELECT 1 AS x")), [["1"]]);
    served.study.owner("DROP ROLE lab").says(0, &[]);
    let said = lab.query("SELECT 1 AS x");
    assert_eq!(error_code(&said).as_deref(), Some("57P01"));
    assert!(Client::log_in(served.port, "lab", PASSWORD).is_err());
    // Under a new role of the same name, the account goes on.
    served.study.owner("CREATE ROLE lab PASSWORD 'another horse'").says(0, &[]);
    let mut lab = Client::log_in(served.port, "lab", "another horse").unwrap();
    // Whoever knew the password of before is somebody else.
    served.study.owner("DROP ROLE lab").says(0, &[]);
    served.study.owner("CREATE ROLE lab PASSWORD 'a third horse'").says(0, &[]);
    let said = lab.query("SELECT 1 AS x");
    assert_eq!(error_code(&said).as_deref(), Some("57P01"));
    let mut lab = Client::log_in(served.port, "lab", "a third horse").unwrap();
    served.study.owner("ALTER ROLE lab PASSWORD 'a fourth horse'").says(0, &[]);
    let said = lab.query("SELECT 1 AS x");
    assert_eq!(error_code(&said).as_deref(), Some("57P01"));
}

/// A role that may not log in any more looks as before to whoever has no password, and verifiers of
/// another kind are not taken.
#[test]
fn roles_look_like_nobody() {
    let served = Served::with(&[]);
    let before = salt(&served, "lab");
    served.study.owner("ALTER ROLE lab NOLOGIN").says(0, &[]);
    assert_eq!(salt(&served, "lab"), before);
    let odd = "CREATE ROLE odd PASSWORD 'SCRAM-SHA-256$10000:AAAAAAAAAAAAAAAAAAAAAA==$AA==:AA=='";
    served.study.owner(odd).says(1, &["write the password itself"]);
    served.study.owner("CREATE ROLE odd PASSWORD 'md5abcdefghijkl'").says(1, &["4096 rounds"]);
}

#[test]
fn passwords_are_written_down_nowhere() {
    let served = Served::with(&["--audit", "audit.log", "--owner-socket", "own"]);
    let owner = Client::of_owner(&served.study.path("own"), served.port);
    let mut owner = owner.unwrap();
    let said = owner.query("CREATE ROLE team LOGIN PASSWORD 'battery staple'");
    assert_eq!(said.tags(), ["CREATE ROLE"], "{said:?}");
    let said = owner.query("ALTER ROLE team PASSWORD battery_staple");
    assert_eq!(error_code(&said).as_deref(), Some("42601"));
    assert!(!said.error_field(b'M').unwrap().contains("battery"));
    Client::log_in(served.port, "team", "battery staple").unwrap();
    let history = texts(&owner.query("SHOW PRIVACY HISTORY"));
    assert!(history.iter().any(|row| row[3] == "role team: created"), "{history:?}");
    let roles = texts(&owner.query("SHOW ROLES"));
    assert_eq!(roles.iter().map(|row| row[0].as_str()).collect::<Vec<_>>(), ["lab", "team"]);
    for entry in std::fs::read_dir(served.study.folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let bytes = std::fs::read(&path).unwrap();
            for secret in ["battery", "correct horse"] {
                let found = bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
                assert!(!found, "{} in {}", secret, path.display());
            }
        }
    }
    let log = std::fs::read_to_string(served.study.path("audit.log")).unwrap();
    assert!(log.lines().next().unwrap().contains("\"statement\":null"), "{log}");
    assert!(!history.iter().flatten().any(|cell| cell.contains("SCRAM")));
}

#[test]
fn describing_costs_nothing_and_a_portal_is_drawn_once() {
    let served = Served::with(&[]);
    let mut lab = served.lab();
    let before = served.study.spent();
    let sql = "SELECT city, LAPLACE(eps=$1) COUNT(*) AS n FROM people GROUP BY city";
    lab.parse("refused", sql, &[]);
    lab.describe(b'S', "refused");
    assert_eq!(error_code(&lab.sync()).as_deref(), Some("42601"));
    let sql = "SELECT city, LAPLACE(eps=100) COUNT(*) AS n FROM people WHERE age > $1 GROUP BY city ORDER BY city";
    lab.parse("q", sql, &[]);
    lab.describe(b'S', "q");
    lab.bind("p", "q", &[(1, Some(40_i64.to_be_bytes().as_slice()))], &[0, 1]);
    lab.describe(b'P', "p");
    lab.flush();
    let said = lab.read_until(b'T', 2);
    assert_eq!(said.parameter_types(), [20], "{said:?}");
    assert_eq!(said.columns()[..2], [("city".to_owned(), 25), ("n".to_owned(), 20)]);
    assert_eq!(served.study.spent(), before, "describing was charged");
    // One row at a time, of one answer.
    lab.execute("p", 1);
    lab.execute("p", 1);
    lab.execute("p", 0);
    let said = lab.sync();
    let rows = said.rows();
    let cells: Vec<(String, i64)> = rows
        .iter()
        .map(|row| {
            let city = String::from_utf8(row[0].clone().unwrap()).unwrap();
            (city, i64::from_be_bytes(row[1].clone().unwrap().try_into().unwrap()))
        })
        .collect();
    assert_eq!(cells, [("Oslo".to_owned(), 1), ("Rome".to_owned(), 1)]);
    assert_eq!(said.kinds().iter().filter(|kind| **kind == b's').count(), 1, "{said:?}");
    assert_eq!(served.study.spent().0, before.0 + 1, "one portal, one charge");
    // Another portal is another question.
    lab.bind("p", "q", &[(0, Some(b"40"))], &[]);
    lab.execute("p", 0);
    assert_eq!(lab.sync().tags(), ["SELECT 2"]);
    assert_eq!(served.study.spent().0, before.0 + 2);
}

/// Columns do not depend on values: a statement is described with some that rows may have.
#[test]
fn describing_needs_no_values() {
    let served = Served::with(&[]);
    let mut lab = served.lab();
    let before = served.study.spent();
    for condition in [
        "city = $1 AND age < $2",
        "age < $2 AND $1 = city",
        "city IN ($1, 'Rome') AND age BETWEEN $2 AND 99",
    ] {
        let sql = format!("SELECT LAPLACE(eps=100) COUNT(*) AS n FROM people WHERE {condition}");
        lab.parse("", &sql, &[25, 20]);
        lab.describe(b'S', "");
        let said = lab.sync();
        assert_eq!(said.columns(), [("n".to_owned(), 20)], "{condition}: {said:?}");
    }
    assert_eq!(served.study.spent(), before);
}

/// Drivers send values of the type that they are told: 0 for 0.5 where it is a whole number's.
#[test]
fn fractions_are_described_as_floats() {
    let served = Served::with(&[]);
    let mut lab = served.lab();
    let before = served.study.spent();
    for aggregate in [
        "QUANTILE(age, $1)",
        "PERCENTILE_CONT(age, $1)",
        "APPROX_PERCENTILE_CONT(age, $1)",
        "PERCENTILE_CONT($1) WITHIN GROUP (ORDER BY age)",
    ] {
        let sql =
            format!("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) {aggregate} FROM people");
        for types in [&[][..], &[701]] {
            lab.parse("", &sql, types);
            lab.describe(b'S', "");
            let said = lab.sync();
            assert_eq!(error_code(&said), None, "{aggregate}: {said:?}");
            assert_eq!(said.parameter_types(), [701], "{aggregate}");
        }
    }
    assert_eq!(served.study.spent(), before);
}

/// A client that asks for what is there with Flush, and not yet for the end with Sync, is told of
/// an error.
#[test]
fn errors_leave_before_the_end_of_a_series() {
    let served = Served::with(&[]);
    let mut lab = served.lab();
    lab.parse("", "SELECT * FROM people", &[]);
    lab.bind("", "", &[], &[]);
    lab.flush();
    let said = lab.read_until(b'E', 1);
    assert_eq!(error_code(&said).as_deref(), Some("HQ001"), "{said:?}");
    lab.sync();
    assert_eq!(lab.query("SELECT 1 AS one").tags(), ["SELECT 1"]);
}

#[test]
fn parameters_are_values() {
    let served = Served::with(&[]);
    let mut lab = served.lab();
    let mut ask = |sql: &str, types: &[u32], values: &[(i16, Option<&[u8]>)]| {
        lab.parse("", sql, types);
        lab.bind("", "", values, &[]);
        lab.execute("", 0);
        lab.sync()
    };
    let sql = "SELECT $1 AS a, $2 AS b, $3 AS c";
    let hostile = b"x'; DROP TABLE people; --".as_slice();
    let said = ask(
        sql,
        &[23, 25, 701],
        &[
            (1, Some((-7_i32).to_be_bytes().as_slice())),
            (0, Some(hostile)),
            (1, Some(2.5_f64.to_be_bytes().as_slice())),
        ],
    );
    assert_eq!(texts(&said), [["-7", "x'; DROP TABLE people; --", "2.5"]], "{said:?}");
    assert_eq!(texts(&ask("SELECT $1 AS a", &[25], &[(0, None)])).len(), 1);
    for (sql, types, value, code) in [
        (
            "SELECT LAPLACE(eps=$1) COUNT(*) FROM people",
            &[701_u32][..],
            (0, Some(&b"1"[..])),
            "42601",
        ),
        ("SELECT $1", &[23], (0, Some(b"1 OR 1=1")), "22P02"),
        ("SELECT $1", &[23], (7, Some(b"1")), "08P01"),
        ("SELECT $1; SELECT 2", &[23], (0, Some(b"1")), "42601"),
        ("SHOW TABLES -- $1\n", &[23], (0, Some(b"1")), "42P02"),
    ] {
        let said = ask(sql, types, &[value]);
        assert_eq!(error_code(&said).as_deref(), Some(code), "{sql}: {said:?}");
    }
}

#[test]
fn what_was_paid_for_comes_before_a_later_error() {
    let served = Served::with(&[]);
    let mut lab = served.lab();
    let said = lab.query(&format!("{COUNT};\nSELECT oops FROM people; {COUNT}"));
    assert_eq!(texts(&said), [["4"]]);
    assert_eq!(error_code(&said).as_deref(), Some("42703"));
    assert_eq!(said.error_field(b'P').as_deref(), Some((COUNT.len() + 10).to_string().as_str()));
    assert_eq!(served.study.spent().0, 1);
}

#[test]
fn errors_have_their_codes() {
    let served = Served::with(&[]);
    let mut lab = served.lab();
    for (sql, code) in [
        ("SELEC 1", "42601"),
        ("SELECT 1 FROM nowhere", "42P01"),
        ("SELECT oops FROM people", "42703"),
        ("SELECT nosuch(1)", "42883"),
        ("SELECT * FROM people", "HQ001"),
        ("SELECT 'open", "42601"),
        ("ALTER TABLE people SET PUBLIC", "42501"),
        ("CREATE ROLE me PASSWORD 'correct horse'", "42501"),
        ("SHOW ROLES", "42501"),
        ("SET nonsense = 1", "42704"),
        ("SET hushql.accuracy = loud", "22023"),
        ("SET hushql.bounds = loud", "22023"),
        ("FETCH 1 FROM nowhere", "34000"),
    ] {
        let said = lab.query(sql);
        assert_eq!(error_code(&said).as_deref(), Some(code), "{sql}: {said:?}");
        assert!(said.rows().is_empty());
    }
    let said = lab.query("SELECT LAPLACE(within=5) SUM(id) FROM people");
    assert_eq!(error_code(&said).as_deref(), Some("HQ007"));
    assert!(said.error_field(b'H').unwrap().contains("CLAMP"), "{said:?}");
    assert_eq!(served.study.spent().0, 0);
}

#[test]
fn transactions_give_nothing_back_and_say_so_once() {
    let served = Served::with(&[]);
    let mut lab = served.lab();
    let said = lab.query("BEGIN");
    assert!(said.notices()[0].contains("gives nothing back"), "{said:?}");
    assert_eq!(said.status(), Some(b'T'));
    lab.query(COUNT);
    lab.query("SAVEPOINT a");
    assert_eq!(lab.query("ROLLBACK TO SAVEPOINT a").tags(), ["ROLLBACK"]);
    let said = lab.query("ROLLBACK");
    assert_eq!((said.tags(), said.status()), (vec!["ROLLBACK".to_owned()], Some(b'I')));
    assert!(lab.query("START TRANSACTION").notices().is_empty());
    assert_eq!(lab.query("COMMIT").tags(), ["COMMIT"]);
    assert_eq!(served.study.spent().0, 1);
}

#[test]
fn cursors_page_through_one_answer() {
    let served = Served::with(&[]);
    let mut lab = served.lab();
    let sql = "SELECT city, LAPLACE(eps=100) COUNT(*) AS n FROM people GROUP BY city ORDER BY city";
    lab.query("BEGIN");
    assert_eq!(
        lab.query(&format!("DECLARE c NO SCROLL CURSOR FOR {sql}")).tags(),
        ["DECLARE CURSOR"]
    );
    assert_eq!(texts(&lab.query("FETCH FORWARD 1 FROM c")), [["Oslo", "1"]]);
    assert_eq!(texts(&lab.query("FETCH ALL FROM c")), [["Rome", "2"]]);
    assert_eq!(lab.query("FETCH 1 FROM c").tags(), ["FETCH 0"]);
    // What is refused ends the transaction, as in PostgreSQL.
    assert_eq!(error_code(&lab.query("FETCH 1 FROM nowhere")).as_deref(), Some("34000"));
    assert_eq!(error_code(&lab.query("CLOSE c")).as_deref(), Some("25P02"));
    assert_eq!(lab.query("COMMIT").tags(), ["ROLLBACK"]);
    assert_eq!(served.study.spent().0, 1);
}

#[test]
fn errors_come_as_columns_on_request_and_answers_are_copied() {
    let served = Served::with(&[]);
    let mut lab = served.lab();
    lab.query("SET hushql.accuracy = columns");
    let said = lab.query(COUNT);
    let names: Vec<String> = said.columns().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["n", "n_error", "hushql_cost", "hushql_left"]);
    let row = &texts(&said)[0];
    assert!(row[1].parse::<f64>().unwrap() < 1.0);
    // What the notices say.
    let notices = said.notices().concat();
    assert!(notices.contains(&format!("cost {} · left {}", row[2], row[3])), "{row:?} {notices}");
    // What cost nothing has the same columns.
    let said = lab.query("SELECT 1 AS one");
    assert_eq!(said.columns().len(), 4);
    assert_eq!(texts(&said), [["1", "", "", ""]]);
    lab.query("SET client_min_messages = warning; SET hushql.accuracy = notices");
    let sql = "SELECT city, LAPLACE(eps=100) COUNT(*) AS n FROM people GROUP BY city ORDER BY city";
    let said = lab.query(&format!("COPY ({sql}) TO STDOUT (FORMAT csv, HEADER)"));
    assert_eq!(said.copied(), "city,n\nOslo,1\nRome,2\n");
    assert_eq!((said.tags(), said.notices().len()), (vec!["COPY 2".to_owned()], 0));
    let said = lab.query("COPY (SELECT NULL AS a, 'x\ty' AS b) TO STDOUT");
    assert_eq!(said.copied(), "\\N\tx\\ty\n");
}

/// A bare aggregate needs a default of a budget, and a role that takes it.
#[test]
fn roles_without_defaults_name_their_costs() {
    let served = Served::with(&[]);
    served.study.owner("ALTER PRIVACY BUDGET b SET PER QUERY (default=0.5)").says(0, &[]);
    const BARE: &str = "SELECT COUNT(*) AS n FROM people";
    let mut lab = served.lab();
    assert_eq!(lab.query(BARE).rows().len(), 1);
    // Shown again three times, the last time unplanned.
    (0..2).for_each(|_| assert_eq!(lab.query(BARE).rows().len(), 1));
    let spent = served.study.spent();
    let said = served.study.owner("ALTER ROLE lab NODEFAULTS");
    said.says(0, &["role lab: may log in; its queries name their mechanisms"]);
    for sql in [
        BARE,
        "EXPLAIN PRIVACY SELECT SUM(age) FROM people",
        "CREATE RELEASE TABLE r AS SELECT COUNT(*) AS n FROM people",
        "CREATE SYNTHETIC TABLE s AS AUTO SELECT city FROM people",
    ] {
        let said = lab.query(sql);
        let refused = said.error_field(b'M').unwrap_or_else(|| {
            said.rows()
                .concat()
                .into_iter()
                .flatten()
                .map(|b| String::from_utf8(b).unwrap())
                .collect()
        });
        assert!(
            refused.contains("no PER QUERY default of a budget applies to it"),
            "{sql}: {said:?}"
        );
    }
    assert_eq!(served.study.spent(), spent);
    // A default δ is a default, too.
    served.study.owner("ALTER PRIVACY BUDGET b SET LIMIT (epsilon=1000, delta=1e-5)").says(0, &[]);
    let sql = "ALTER PRIVACY BUDGET b SET PER QUERY (default=0.5, default_delta=1e-7)";
    served.study.owner(sql).says(0, &[]);
    let spent = served.study.spent();
    const OF_THE_DATA: [(&str, &str); 3] = [
        (
            "SELECT CAST(id AS VARCHAR) AS a, LAPLACE(eps=1) COUNT(*) AS n FROM people GROUP BY a",
            "HQ008",
        ),
        ("SELECT CAST(id AS VARCHAR) AS a FROM people GROUP BY a", "HQ001"),
        ("SELECT DISTINCT CAST(id AS VARCHAR) AS a FROM people", "HQ001"),
    ];
    for (sql, code) in OF_THE_DATA {
        let said = lab.query(sql);
        let refused = said.error_field(b'M').unwrap_or_else(|| panic!("{sql}: {said:?}"));
        assert!(refused.contains(code), "{sql}: {refused}");
    }
    // Its shell is that of the same analyst.
    served.study.lab(BARE).says(3, &["HQ012"]);
    assert_eq!(served.study.spent(), spent);
    for sql in [
        "SELECT LAPLACE(eps=0.1) COUNT(*) AS n FROM people",
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=0.1) COUNT(*) AS n FROM people",
    ] {
        assert_eq!(lab.query(sql).rows().len(), 1, "{sql}");
    }
    served.study.owner("ALTER ROLE lab DEFAULTS").says(0, &["role lab: may log in"]);
    assert_eq!(lab.query(BARE).rows().len(), 1);
    for (sql, _) in OF_THE_DATA {
        // Three people are hidden, each in a group alone.
        assert_eq!(lab.query(sql).rows().len(), 0, "{sql}");
    }
    // Bounds of values are found, unless the connection says otherwise.
    const SUM: &str = "SELECT SUM(id) AS s FROM people";
    assert_eq!(lab.query(SUM).rows().len(), 1);
    lab.query("SET hushql.bounds = declared");
    let said = lab.query(SUM);
    assert!(said.error_field(b'M').is_some_and(|m| m.contains("HQ007")), "{said:?}");
    lab.query("RESET hushql.bounds");
    assert_eq!(lab.query(SUM).rows().len(), 1);
    let roles = served.study.run(&["study.db", "--owner", "--format", "csv", "-c", "SHOW ROLES"]);
    assert!(roles.out.starts_with("role,may_log_in,valid_until,takes_defaults"), "{}", roles.out);
}

#[test]
fn text_and_binary_mean_the_same() {
    let served = Served::with(&[]);
    let mut lab = served.lab();
    let sql = "SELECT 1 AS i, CAST(2 AS INT) AS j, 2.5 AS f, TRUE AS b, 'ü' AS t, DATE '2000-01-02' AS d, \
               CAST('2000-01-01 00:00:00.5' AS TIMESTAMP) AS m, CAST(-12.50 AS DECIMAL(10,2)) AS n, NULL AS z, CAST(1 AS SMALLINT) AS s";
    let text = lab.query(sql);
    let shown =
        ["1", "2", "2.5", "t", "ü", "2000-01-02", "2000-01-01 00:00:00.5", "-12.50", "", "1"];
    assert_eq!(texts(&text), [shown]);
    lab.parse("", sql, &[]);
    lab.bind("", "", &[], &[1]);
    lab.execute("", 0);
    let said = lab.sync();
    let rows = said.rows();
    let cell = |i: usize| rows[0][i].clone().unwrap_or_default();
    assert_eq!(cell(0), 1_i64.to_be_bytes());
    assert_eq!(cell(1), 2_i32.to_be_bytes());
    assert_eq!(cell(2), [0, 2, 0, 0, 0, 0, 0, 1, 0, 2, 0x13, 0x88]);
    assert_eq!((cell(3), cell(4)), (vec![1], "ü".as_bytes().to_vec()));
    assert_eq!(cell(5), 1_i32.to_be_bytes());
    assert_eq!(cell(6), 500_000_i64.to_be_bytes());
    assert_eq!(cell(7), [0, 2, 0, 0, 0x40, 0, 0, 2, 0, 12, 0x13, 0x88]);
    assert_eq!((rows[0][8].clone(), cell(9)), (None, 1_i16.to_be_bytes().to_vec()));
}

#[test]
fn the_owner_has_a_socket_of_their_own() {
    let served = Served::with(&["--owner-socket", "own"]);
    let folder = served.study.path("own");
    assert!(Client::of(&folder, served.port, "lab").is_err());
    let mut owner = Client::of_owner(&folder, served.port).unwrap();
    assert_eq!(texts(&owner.query("SELECT current_user")), [["owner"]]);
    assert_eq!(
        owner.query("ALTER PRIVACY BUDGET b SET LIMIT (epsilon=5)").tags(),
        ["ALTER PRIVACY"]
    );
    let open = served.study.path("open");
    std::fs::create_dir(&open).unwrap();
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o755)).unwrap();
    let arguments = ["serve", "study.db", "--listen", "127.0.0.1:0", "--owner-socket", "open"];
    served.study.run(&arguments).says(1, &["chmod 700"]);
}

#[test]
fn other_machines_need_tls() {
    let study = Study::with_people();
    let refused = |arguments: &[&str]| {
        let all = [["serve", "study.db"].as_slice(), arguments].concat();
        let mut process = study.command(&all).stderr(Stdio::piped()).spawn().unwrap();
        // One that serves all the same would do so for ever.
        for _ in 0..600 {
            if process.try_wait().unwrap().is_some() {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = process.kill();
        let output = process.wait_with_output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for (arguments, words) in [
        (&["--listen", "0.0.0.0:0"][..], ["log-ins need TLS", "--tls-cert"]),
        (&["--listen", "0.0.0.0:0"], ["log-ins need TLS", "--tls-self-made"]),
        (
            &["--metrics", "0.0.0.0:0", "--listen", "127.0.0.1:0"],
            ["metrics are told on 127.0.0.1", "only"],
        ),
    ] {
        let (status, said) = refused(arguments);
        assert_eq!(status, Some(1), "{said}");
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
    }
}

#[test]
fn connections_are_limited_and_statements_cancelled() {
    let served = Served::with(&["--max-connections", "3", "--connections-per-role", "2"]);
    let (mut one, two) = (served.lab(), served.lab());
    let Err(refused) = Client::log_in(served.port, "lab", PASSWORD) else { panic!("three") };
    assert_eq!(refused.code, "53300");
    // Whoever does not know the secret cancels nothing; a statement that ended is not cancelled any
    // more.
    two.cancel(served.port, 1);
    two.cancel(served.port, 0);
    assert_eq!(texts(&one.query("SELECT 1 AS x")), [["1"]]);
    drop(two);
    std::thread::sleep(Duration::from_millis(300));
    assert!(Client::log_in(served.port, "lab", PASSWORD).is_ok());
}

/// Whoever saw an answer was charged for it, however the server ended.
#[test]
fn a_killed_server_has_charged_what_was_seen() {
    let served = Served::with(&[]);
    let port = served.port;
    let asking: Vec<_> = (0..4)
        .map(|_| {
            std::thread::spawn(move || {
                let Ok(mut lab) = Client::log_in(port, "lab", PASSWORD) else { return 0 };
                let mut seen = 0_i64;
                while let Some(said) =
                    lab.try_query("SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people")
                {
                    if said.rows().is_empty() {
                        break;
                    }
                    seen += 1;
                }
                seen
            })
        })
        .collect();
    std::thread::sleep(Duration::from_secs(2));
    let study = served.kill();
    let seen: i64 = asking.into_iter().map(|thread| thread.join().unwrap()).sum();
    let (charges, _) = study.spent();
    assert!(seen > 0 && charges >= seen && charges <= seen + 4, "{seen} seen, {charges} charged");
    study.run(&["check", "study.db"]).says(0, &[]);
    let served = Served::of(study, &[]);
    assert_eq!(texts(&served.lab().query("SELECT 1 AS x")), [["1"]]);
}

#[test]
fn a_server_that_is_told_to_stop_answers_first() {
    let mut served = Served::with(&["--metrics", "127.0.0.1:0"]);
    let mut lab = served.lab();
    lab.query(COUNT);
    let told = Command::new("kill").arg(served.process.id().to_string()).status();
    assert!(told.unwrap().success());
    assert!(served.process.wait().unwrap().success());
    let last = lab.rest();
    assert_eq!(error_code(&last).as_deref(), Some("57P01"), "{last:?}");
}

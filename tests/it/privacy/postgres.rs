//! Tables of PostgreSQL servers, against a server that the tests start: `initdb` and `postgres`
//! have to be installed. Where they are not, each test says so and ends.
//!
//! All scans of a statement see one snapshot. Before the charge, a server is asked for the columns
//! of a table and for no row. What a server says, its address and its password are in no output.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;
use tokio_postgres::{Config, NoTls};

use crate::contract::program::{Run, Study};

const SECRET: &str = "Zyxquorina0secret";
const PERSON: &str = "Vrennikol";
const FAILED: &str = "the query failed";
/// `nobody`, since a server refuses to run as root.
const NOBODY: u32 = 65_534;

/// A server with a folder of its own, which ends when it is dropped.
struct Server {
    folder: TempDir,
    port: u16,
    options: Vec<String>,
    process: Option<Child>,
}

fn installed(name: &str) -> Option<PathBuf> {
    let on_path = std::env::var_os("PATH")?;
    let folders = std::env::split_paths(&on_path).map(|folder| folder.join(name));
    let packaged = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let packaged = packaged.map(|version| version.path().join("bin").join(name));
    folders.chain(packaged).find(|path| path.is_file())
}

/// A command that a server may run: not as root.
fn as_nobody(program: &PathBuf) -> Command {
    if !nix_is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    let of = NOBODY.to_string();
    command.args(["--reuid", &of, "--regid", &of, "--clear-groups"]).arg(program);
    command
}

fn nix_is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    tempfile::tempdir().unwrap().path().metadata().unwrap().uid() == 0
}

impl Server {
    /// A server that lets everyone in, or asks for passwords; `None` where none is installed.
    fn start(auth: &str, options: &[&str]) -> Option<Self> {
        let Some(initdb) = installed("initdb").filter(|_| installed("postgres").is_some()) else {
            eprintln!("skipped: initdb and postgres are not installed");
            return None;
        };
        let folder = tempfile::Builder::new().prefix("pg").tempdir_in("/tmp").unwrap();
        if nix_is_root() {
            chown(folder.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let data = folder.path().join("data");
        let password = folder.path().join("password");
        fs::write(&password, SECRET).unwrap();
        fs::set_permissions(&password, fs::Permissions::from_mode(0o644)).unwrap();
        let made = as_nobody(&initdb)
            .arg("-D")
            .arg(&data)
            .args(["-U", "owner", "--no-sync", "--locale=C", "-A", auth])
            .args(if options.contains(&"latin") { ["-E", "LATIN1"] } else { ["-E", "UTF8"] })
            .arg(format!("--pwfile={}", password.display()))
            .current_dir("/tmp")
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let options: Vec<String> =
            options.iter().filter(|o| **o != "latin").map(|&o| o.to_owned()).collect();
        let mut server = Self { folder, port, options, process: None };
        server.resume();
        Some(server)
    }

    fn resume(&mut self) {
        let mut command = as_nobody(&installed("postgres").unwrap());
        command.arg("-D").arg(self.folder.path().join("data"));
        command.arg("-k").arg(self.folder.path()).args(["-p", &self.port.to_string()]);
        for option in ["fsync=off", "shared_buffers=16MB", "listen_addresses=127.0.0.1"] {
            command.args(["-c", option]);
        }
        for option in &self.options {
            command.args(["-c", option]);
        }
        let log = fs::File::create(self.folder.path().join("log")).unwrap();
        command.current_dir("/tmp").stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.process = Some(command.spawn().unwrap());
        for _ in 0..600 {
            if self.tried("SELECT 1").is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(50));
        }
        panic!("{}", fs::read_to_string(self.folder.path().join("log")).unwrap());
    }

    fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            // An immediate end: every connection is lost.
            let id = process.id().to_string();
            Command::new("kill").args(["-QUIT", &id]).status().unwrap();
            process.wait().unwrap();
        }
    }

    /// Runs statements as the server's owner, through its socket.
    fn tried(&self, sql: &str) -> Result<Vec<String>, tokio_postgres::Error> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut config = Config::new();
        config.user("owner").password(SECRET).dbname("postgres").port(self.port);
        config.host_path(self.folder.path());
        runtime.block_on(async {
            let (client, connection) = config.connect(NoTls).await?;
            let connection = tokio::spawn(connection);
            let mut cells = Vec::new();
            for message in client.simple_query(sql).await? {
                if let tokio_postgres::SimpleQueryMessage::Row(row) = message {
                    cells.push(row.get(0).unwrap_or("NULL").to_owned());
                }
            }
            drop(client);
            connection.await.unwrap()?;
            Ok(cells)
        })
    }

    fn sql(&self, sql: &str) -> Vec<String> {
        self.tried(sql).unwrap_or_else(|error| panic!("{sql}: {error:?}"))
    }

    /// The address of its socket, for a user.
    fn address(&self, user: &str) -> String {
        let folder = self.folder.path().display();
        format!("postgresql://{user}@/postgres?host={folder}&port={}", self.port)
    }

    fn run_with(&self, study: &Study, who: &[&str], sql: &str, set: &[(&str, &str)]) -> Run {
        let mut command = study.command(&["study.db", "--format", "csv", "-c", sql]);
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("PG")) {
            command.env_remove(name);
        }
        command.env("HOME", study.folder());
        let run: Run = command.args(who).envs(set.iter().copied()).output().unwrap().into();
        for text in [&run.out, &run.err] {
            assert!(!text.contains(SECRET), "{run:?}");
        }
        if who.contains(&"--analyst") {
            let folder = self.folder.path().display().to_string();
            for hidden in [PERSON, &folder, "postgresql:", &self.port.to_string()] {
                assert!(!run.err.contains(hidden), "{run:?}");
            }
        }
        let vault = fs::read(study.path("study.db")).unwrap();
        assert!(!String::from_utf8_lossy(&vault).contains(SECRET));
        run
    }

    fn owner(&self, study: &Study, sql: &str) -> Run {
        self.run_with(study, &["--owner"], sql, &[])
    }

    fn lab(&self, study: &Study, sql: &str) -> Run {
        self.run_with(study, &["--analyst", "lab"], sql, &[])
    }

    /// A private table `t` here for the table of this name there.
    fn declare(&self, study: &Study, table: &str) {
        let address = self.address("reader");
        self.owner(
            study,
            &format!(
                "CREATE EXTERNAL TABLE t STORED AS POSTGRES LOCATION '{address}' OPTIONS (table '{table}');
                 ALTER TABLE t SET PRIVACY UNIT (id);
                 CREATE PRIVACY BUDGET t FOR t LIMIT (epsilon=1000000) REPLAY (OFF)"
            ),
        )
        .says(0, &[]);
    }

    /// The answer of a query, if there is one, and whether it was charged.
    fn counted(&self, study: &Study, sql: &str) -> (Option<Vec<i64>>, bool) {
        let charges = || {
            let ledger = self.lab(study, "SELECT COUNT(*) AS n FROM hushql.ledger");
            ledger.out.lines().nth(1).unwrap().to_owned()
        };
        let before = charges();
        let run = self.lab(study, sql);
        let row = run.out.lines().nth(1);
        let answer = row.map(|row| row.split(',').map(|cell| cell.parse().unwrap()).collect());
        if answer.is_none() {
            assert!(run.err.contains(FAILED) || run.err.contains("HQ028"), "{run:?}");
            let is_charged = charges() != before;
            assert_eq!(run.err.contains(FAILED), is_charged, "{run:?}");
            return (None, is_charged);
        }
        (answer, charges() != before)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

const COUNT: &str = "SELECT LAPLACE(eps=1000, rows=1) COUNT(*) AS n FROM t";

/// Every type, with its extremes and NULL; what cannot be held here is NULL.
#[test]
fn columns_of_all_types_are_read() {
    let Some(server) = Server::start("trust", &[]) else { return };
    server.sql(
        "CREATE ROLE reader LOGIN;
         CREATE SCHEMA clinic; GRANT USAGE ON SCHEMA clinic TO reader;
         CREATE TABLE clinic.kinds (id int PRIMARY KEY, b bool, i2 int2, i4 int4, i8 int8, f4 float4, f8 float8,
             n numeric(9,2), big numeric(38,0), t text, v varchar(9), c char(5), d date, ts timestamp(3),
             tz timestamptz, u uuid);
         GRANT SELECT ON ALL TABLES IN SCHEMA clinic TO reader;
         SET timezone = 'Asia/Tokyo';
         INSERT INTO clinic.kinds VALUES
         (1, true, 32767, 2147483647, 9223372036854775807, 1.5, -2.25, 1234567.89,
          99999999999999999999999999999999999999, 'a,\"b\"é', 'x', 'ab', '2024-02-29', '2024-02-29 12:34:56.789',
          '2024-02-29 12:34:56+09', '00112233-4455-6677-8899-aabbccddeeff'),
         (2, false, -32768, -2147483648, -9223372036854775808, 'Infinity', '-Infinity', -0.01, -1, '', '', '',
          'infinity', 'infinity', '-infinity', NULL),
         (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
         (4, false, 0, 0, 0, 'NaN', 'NaN', 'NaN', 'NaN', repeat('x', 16 * 1024 * 1024 + 1), 'y', 'abcde',
          '-infinity', '1969-12-31 23:59:59.999', '1970-01-01 00:00:00+00', NULL)",
    );
    let study = Study::new();
    let create = format!(
        "CREATE EXTERNAL TABLE kinds STORED AS POSTGRES LOCATION '{}' OPTIONS (table 'clinic.kinds')",
        server.address("reader")
    );
    server.owner(&study, &create).says(0, &["table kinds has 16 columns"]);
    server.owner(&study, "ALTER TABLE kinds SET PUBLIC").says(0, &[]);
    let described = server.lab(&study, "DESCRIBE kinds").out;
    for column in [
        "b,BOOLEAN",
        "i2,SMALLINT",
        "i4,INT",
        "i8,BIGINT",
        "f4,REAL",
        "f8,DOUBLE",
        "n,\"DECIMAL(9, 2)\"",
        "big,\"DECIMAL(38, 0)\"",
        "t,VARCHAR",
        "c,VARCHAR",
        "d,DATE",
        "ts,TIMESTAMP",
        "tz,TIMESTAMP",
        "u,VARCHAR",
    ] {
        assert!(described.contains(column), "{column} in {described}");
    }
    let rows = server.lab(&study, "SELECT * FROM kinds ORDER BY id");
    let expected = "id,b,i2,i4,i8,f4,f8,n,big,t,v,c,d,ts,tz,u\n\
        1,true,32767,2147483647,9223372036854775807,1.5,-2.25,1234567.89,99999999999999999999999999999999999999,\"a,\"\"b\"\"é\",x,ab,2024-02-29,2024-02-29T12:34:56.789,2024-02-29T03:34:56,00112233-4455-6677-8899-aabbccddeeff\n\
        2,false,-32768,-2147483648,-9223372036854775808,inf,-inf,-0.01,-1,\"\",\"\",\"\",,,,\n\
        3,,,,,,,,,,,,,,,\n\
        4,false,0,0,0,NaN,NaN,,,,y,abcde,,1969-12-31T23:59:59.999,1970-01-01T00:00:00,\n";
    assert_eq!(rows.out, expected);
    assert!(server.lab(&study, "SELECT COUNT(*) AS n FROM kinds").out.ends_with("n\n4\n"));
    // What the owner may write instead of all columns, and again elsewhere.
    let dump = server.owner(&study, "SHOW CREATE TABLE kinds").out;
    assert!(dump.contains("STORED AS POSTGRES LOCATION") && dump.contains("table"), "{dump}");
    server.sql(
        "CREATE TABLE clinic.odd (id int, j json, n numeric, w numeric(50,2), a int[]); GRANT SELECT ON clinic.odd TO reader;
         INSERT INTO clinic.odd VALUES (1, '{}', 1.005, 1e30, '{}'), (2, NULL, 'NaN', 7, NULL), (3, NULL, -1e40, NULL, NULL)",
    );
    let odd = |columns: &str| {
        let address = server.address("reader");
        server.owner(
            &study,
            &format!(
                "CREATE OR REPLACE EXTERNAL TABLE odd {columns} STORED AS POSTGRES LOCATION '{address}' OPTIONS (table 'clinic.odd')"
            ),
        )
    };
    let write = "(id INT, n DECIMAL(18, 2), w DECIMAL(18, 2))";
    odd("").says(1, &["j json", "a integer[]", "n numeric, w numeric(50,2)", write]);
    odd("(id INT, j VARCHAR)").says(1, &["is json", "leave it out"]);
    odd("(id BIGINT)").says(1, &["id is integer, not BIGINT: write id INT"]);
    odd("(id INT, other INT)").says(1, &["no column other", "it has id, j, n, w, a"]);
    odd(write).says(0, &["has 3 columns"]);
    server.owner(&study, "ALTER TABLE odd SET PUBLIC").says(0, &[]);
    let rows = server.lab(&study, "SELECT * FROM odd ORDER BY id").out;
    assert_eq!(rows, "id,n,w\n1,1.01,\n2,,7.00\n3,,\n");
}

/// A domain is read as the type below it, an enum as text, and columns that the server has stored
/// as others. What is computed at each read, arrays and ranges are refused with what to write.
#[test]
fn types_that_a_database_makes_are_read() {
    let Some(server) = Server::start("trust", &[]) else { return };
    server.sql(
        "CREATE ROLE reader LOGIN; CREATE SCHEMA s; GRANT USAGE ON SCHEMA s TO reader;
         CREATE DOMAIN s.age AS int CHECK (VALUE >= 0); CREATE DOMAIN s.old AS s.age CHECK (VALUE > 60);
         CREATE DOMAIN s.price AS numeric(9,2); CREATE DOMAIN s.cost AS s.price;
         CREATE DOMAIN s.name AS varchar(20) NOT NULL; CREATE DOMAIN s.many AS int[];
         CREATE TYPE s.mood AS ENUM ('sad', 'ok', 'it''s \"fine\"');
         CREATE DOMAIN s.of_mood AS s.mood;
         CREATE TABLE s.made (id int, a s.age, o s.old, c s.cost, w s.name, m s.mood, d s.of_mood,
             twice int GENERATED ALWAYS AS (id * 2) STORED) PARTITION BY RANGE (id);
         CREATE TABLE s.low PARTITION OF s.made FOR VALUES FROM (0) TO (2);
         CREATE TABLE s.high PARTITION OF s.made FOR VALUES FROM (2) TO (9);
         INSERT INTO s.made VALUES (1, 30, 61, 1.25, 'Ann', 'sad', 'ok'), (2, NULL, NULL, NULL, 'Bo', NULL, NULL),
             (3, 0, 90, -7, '', 'it''s \"fine\"', 'sad');
         CREATE TABLE s.odd (id int, x s.many, r int4range); GRANT SELECT ON ALL TABLES IN SCHEMA s TO reader",
    );
    let study = Study::new();
    let create = |table: &str| {
        format!(
            "CREATE EXTERNAL TABLE {table} STORED AS POSTGRES LOCATION '{}' OPTIONS (table 's.{table}')",
            server.address("reader")
        )
    };
    server.owner(&study, &create("made")).says(0, &["table made has 8 columns"]);
    server.owner(&study, "ALTER TABLE made SET PUBLIC").says(0, &[]);
    let described = server.lab(&study, "DESCRIBE made").out;
    for column in [
        "a,INT",
        "o,INT",
        "c,\"DECIMAL(9, 2)\"",
        "w,VARCHAR",
        "m,VARCHAR",
        "d,VARCHAR",
        "twice,INT",
    ] {
        assert!(described.contains(column), "{column} in {described}");
    }
    let rows = server.lab(&study, "SELECT * FROM made ORDER BY id").out;
    let expected = "id,a,o,c,w,m,d,twice\n1,30,61,1.25,Ann,sad,ok,2\n2,,,,Bo,,,4\n\
        3,0,90,-7.00,\"\",\"it's \"\"fine\"\"\",sad,6\n";
    assert_eq!(rows, expected);
    server.owner(&study, &create("odd")).says(1, &["x s.many", "r int4range", "(id INT)"]);
    // A domain whose base changed has other columns than were declared.
    server.sql(
        "ALTER TABLE s.made ALTER COLUMN a TYPE bigint; INSERT INTO s.made VALUES (4, 5000000000, 70, 0, '', 'ok', 'ok')",
    );
    let changed = server.lab(&study, "SELECT a FROM made");
    changed.says(3, &["other columns on its server than were declared"]);
}

/// All scans of a statement see one snapshot, whoever writes meanwhile; the next statement sees
/// what was written.
#[test]
fn a_statement_sees_one_snapshot() {
    let Some(server) = Server::start("trust", &[]) else { return };
    server.sql(
        "CREATE ROLE reader LOGIN; CREATE TABLE visits (id int, n int);
         INSERT INTO visits SELECT i, 1 FROM generate_series(1, 100) i;
         CREATE VIEW slow AS SELECT v.id, v.n FROM (SELECT pg_sleep(0.4) OFFSET 0) s, visits v;
         GRANT SELECT ON visits, slow TO reader",
    );
    let study = Study::new();
    server.declare(&study, "slow");
    let twice =
        "SELECT a.n, b.n AS m FROM (SELECT LAPLACE(eps=1000, rows=1) COUNT(*) AS n FROM t) a
         CROSS JOIN (SELECT LAPLACE(eps=1000, rows=1) COUNT(*) AS n FROM t WHERE id > 0) b";
    let joined =
        "SELECT LAPLACE(eps=1000, rows=1) COUNT(*) AS n FROM t AS a JOIN t AS b ON a.id = b.id";
    let both = "SELECT LAPLACE(eps=1000, rows=2) COUNT(*) AS n FROM (SELECT id FROM t UNION ALL SELECT id FROM t) AS u";
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut id = 100;
            while !is_done.load(Ordering::Relaxed) {
                id += 1;
                server.sql(&format!("INSERT INTO visits VALUES ({id}, 1)"));
                thread::sleep(Duration::from_millis(20));
            }
        });
        let ends = EndsWith(&is_done);
        let mut last = 99;
        for _ in 0..2 {
            let (answer, _) = server.counted(&study, twice);
            let answer = answer.unwrap();
            assert_eq!(answer[0], answer[1]);
            assert!(answer[0] > last, "{answer:?} after {last}");
            last = answer[0];
            let (answer, _) = server.counted(&study, both);
            let answer = answer.unwrap()[0];
            assert!(answer % 2 == 0 && answer / 2 > last, "{answer} after {last}");
            let (answer, _) = server.counted(&study, joined);
            assert!(answer.unwrap()[0] > last);
        }
        drop(ends);
    });
    // No connection and no lock stays.
    let left = "SELECT COUNT(*) FROM pg_stat_activity WHERE application_name = 'hushql'";
    for _ in 0..100 {
        if server.sql(left) == ["0"] {
            return;
        }
        thread::sleep(Duration::from_millis(50));
    }
    panic!("connections stay open");
}

struct EndsWith<'a>(&'a AtomicBool);

impl Drop for EndsWith<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Before the charge, no row is read, and what is wrong with a server or a table refuses the query
/// free of charge.
#[test]
fn what_is_wrong_before_the_charge_costs_nothing() {
    let Some(mut server) = Server::start("trust", &[]) else { return };
    server.sql(&format!(
        "CREATE ROLE reader LOGIN;
         CREATE TABLE looks (at timestamptz DEFAULT now());
         CREATE FUNCTION looked() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION '{PERSON}'; END $$;
         CREATE TABLE visits (id int, n int, name text DEFAULT '{PERSON}');
         INSERT INTO visits SELECT i, 1 FROM generate_series(1, 50) i;
         CREATE VIEW traps AS SELECT id, n, looked() AS trap FROM visits;
         GRANT SELECT ON visits, traps TO reader"
    ));
    let study = Study::new();
    server.declare(&study, "visits");
    assert_eq!(server.counted(&study, COUNT), (Some(vec![50]), true));
    // The trap is sprung by whoever reads a row: declarations, refusals and explanations do not.
    let address = server.address("reader");
    server
        .owner(
            &study,
            &format!(
                "CREATE EXTERNAL TABLE traps STORED AS POSTGRES LOCATION '{address}';
                 ALTER TABLE traps SET PRIVACY UNIT (id);
                 CREATE PRIVACY BUDGET traps FOR traps LIMIT (epsilon=1000000) REPLAY (OFF)"
            ),
        )
        .says(0, &[]);
    let sum = "SELECT LAPLACE(eps=1000, rows=1) SUM(CLAMP(trap, 0, 9)) AS n FROM traps";
    let explained =
        server.lab(&study, &format!("EXPLAIN PRIVACY {sum}; EXPLAIN PRIVACY FORMAT JSON {sum}"));
    explained.says(0, &[]);
    assert!(!explained.out.contains("postgresql") && !explained.out.contains("visits"));
    server.lab(&study, "SELECT trap FROM traps").says(3, &[]);
    let run = server.lab(&study, sum);
    run.says(1, &[FAILED]);
    assert!(!run.err.contains("looked") && !run.err.contains("trap"), "{run:?}");
    // Columns that were changed since, each in its own way, and back.
    for (change, back) in [
        ("ALTER TABLE visits RENAME n TO m", "ALTER TABLE visits RENAME m TO n"),
        (
            "DROP VIEW traps; ALTER TABLE visits ALTER n TYPE bigint",
            "ALTER TABLE visits ALTER n TYPE int",
        ),
        ("ALTER TABLE visits DROP n", "ALTER TABLE visits ADD n int DEFAULT 1"),
        ("ALTER TABLE visits RENAME TO gone", "ALTER TABLE gone RENAME TO visits"),
        ("REVOKE SELECT ON visits FROM reader", "GRANT SELECT ON visits TO reader"),
        ("ALTER ROLE reader NOLOGIN", "ALTER ROLE reader LOGIN"),
    ] {
        server.sql(change);
        assert_eq!(server.counted(&study, COUNT), (None, false), "{change}");
        // An explanation asks the server for nothing.
        server.lab(&study, &format!("EXPLAIN PRIVACY {COUNT}")).says(0, &[]);
        server.sql(back);
        assert_eq!(server.counted(&study, COUNT), (Some(vec![50]), true), "{back}");
    }
    // A column that was added is none of the table.
    server.sql("ALTER TABLE visits ADD other json");
    assert_eq!(server.counted(&study, COUNT), (Some(vec![50]), true));
    server.stop();
    assert_eq!(server.counted(&study, COUNT), (None, false));
    server.lab(&study, COUNT).says(3, &["HQ028", "server that does not answer"]);
    server.owner(&study, "SHOW TABLES").says(0, &[]);
    server.resume();
    assert_eq!(server.counted(&study, COUNT), (Some(vec![50]), true));
}

/// A server that is lost behind the charge, and one that fails on a row, answer the same sentence.
#[test]
fn what_goes_wrong_behind_the_charge_says_nothing() {
    let Some(mut server) = Server::start("trust", &[]) else { return };
    server.sql(&format!(
        "CREATE ROLE reader LOGIN; CREATE TABLE visits (id int, name text);
         INSERT INTO visits SELECT i, '{PERSON}' FROM generate_series(1, 50) i;
         CREATE VIEW fails AS SELECT id, name::int AS n FROM visits;
         CREATE VIEW slow AS SELECT id, name FROM visits, (SELECT pg_sleep(3) OFFSET 0) s;
         GRANT SELECT ON visits, fails, slow TO reader"
    ));
    let study = Study::new();
    server.declare(&study, "fails");
    let sum = "SELECT LAPLACE(eps=1000, rows=1) SUM(CLAMP(n, 0, 9)) AS n FROM t";
    assert_eq!(server.counted(&study, sum), (None, true));
    let address = server.address("reader");
    server
        .owner(
            &study,
            &format!(
                "CREATE OR REPLACE EXTERNAL TABLE t STORED AS POSTGRES LOCATION '{address}' OPTIONS (table 'slow');
                 ALTER TABLE t SET PRIVACY UNIT (id)"
            ),
        )
        .says(0, &[]);
    let lost = thread::scope(|scope| {
        let asked = scope.spawn(|| server.lab(&study, COUNT));
        thread::sleep(Duration::from_millis(1_500));
        server.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'hushql'");
        asked.join().unwrap()
    });
    lost.says(1, &[FAILED]);
    let of_row = server.lab(
        &study,
        "SELECT LAPLACE(eps=1000, rows=1) COUNT(*) AS n FROM t WHERE CAST(name AS INT) = 1",
    );
    // A value that is not of a type is NULL here.
    of_row.says(0, &[]);
    server.stop();
}

/// Names that would be something else in SQL, and the values of people, are read as they are and
/// seen nowhere.
#[test]
fn hostile_names_are_names() {
    let Some(server) = Server::start("trust", &[]) else { return };
    server.sql(
        "CREATE ROLE reader LOGIN; CREATE SCHEMA \"S'; DROP TABLE x; --\";
         CREATE TABLE \"S'; DROP TABLE x; --\".\"t\"\"able.\" (id int, \"Col\"\"umn'; --\" int, \"select\" text);
         INSERT INTO \"S'; DROP TABLE x; --\".\"t\"\"able.\" VALUES (1, 7, 'a'), (2, 8, 'b');
         CREATE TABLE x (id int, \"line\nbreak\" int);
         GRANT USAGE ON SCHEMA \"S'; DROP TABLE x; --\" TO reader;
         GRANT SELECT ON ALL TABLES IN SCHEMA \"S'; DROP TABLE x; --\" TO reader; GRANT SELECT ON x TO reader",
    );
    let study = Study::new();
    server.declare(&study, "\"S''; DROP TABLE x; --\".\"t\"\"able.\"");
    assert_eq!(server.counted(&study, COUNT), (Some(vec![2]), true));
    let sum = "SELECT LAPLACE(eps=1000, rows=1) SUM(CLAMP(\"Col\"\"umn'; --\", 0, 9)) AS n FROM t WHERE \"select\" <> 'c'";
    assert_eq!(server.counted(&study, sum), (Some(vec![15]), true));
    assert_eq!(server.sql("SELECT COUNT(*) FROM x"), ["0"]);
    let dump = server.owner(&study, "SHOW CREATE TABLE t").out;
    let again = dump.lines().skip(1).collect::<Vec<_>>().join("\n");
    assert!(again.contains("Col\"\"\"\"umn'; --"), "{again}");
    let address = server.address("reader");
    let x = |columns: &str| {
        format!("CREATE EXTERNAL TABLE x {columns} STORED AS POSTGRES LOCATION '{address}'")
    };
    server.owner(&study, &x("")).says(1, &["control character", "line\\nbreak"]);
    server.owner(&study, &x("(id INT)")).says(0, &["has 1 columns"]);
    // Equal rows have one declaration, whoever reads them.
    let twin = format!(
        "CREATE EXTERNAL TABLE twin STORED AS POSTGRES LOCATION '{}' OPTIONS (table '\"S''; DROP TABLE x; --\".\"t\"\"able.\"')",
        server.address("owner")
    );
    server.owner(&study, &twin).says(0, &["is the same table of its server as t"]);
    server.owner(&study, "ALTER TABLE twin SET PUBLIC").says(1, &["t is private"]);
    server.owner(&study, "ALTER TABLE twin SET PRIVACY UNIT ROW").says(1, &["two budgets"]);
    // Tables of servers and links between them and files.
    study.write("cities.csv", "k,city\n1,Rome\n2,Oslo\n");
    let all = "CREATE EXTERNAL TABLE cities STORED AS CSV LOCATION 'cities.csv'; ALTER TABLE cities SET PUBLIC";
    server.owner(&study, all).says(0, &[]);
    let joined = "SELECT LAPLACE(eps=1000, rows=1) COUNT(*) AS n FROM t JOIN cities ON t.id = cities.k WHERE city = 'Rome'";
    assert_eq!(server.counted(&study, joined), (Some(vec![1]), true));
}

/// What cannot be declared, and what to write instead; a password is nowhere.
#[test]
fn declarations_say_what_is_missing() {
    let Some(server) = Server::start("scram-sha-256", &["ssl=off"]) else { return };
    server.sql(&format!(
        "CREATE ROLE reader LOGIN PASSWORD '{SECRET}'; CREATE TABLE visits (id int);
         INSERT INTO visits VALUES (1), (2); CREATE TABLE hidden (id int); CREATE SEQUENCE numbers;
         CREATE MATERIALIZED VIEW kept AS SELECT id FROM visits;
         CREATE TABLE parts (id int) PARTITION BY RANGE (id);
         CREATE TABLE part PARTITION OF parts FOR VALUES FROM (0) TO (9); INSERT INTO parts VALUES (3);
         CREATE FOREIGN DATA WRAPPER w; CREATE SERVER s FOREIGN DATA WRAPPER w;
         CREATE FOREIGN TABLE far PARTITION OF parts FOR VALUES FROM (10) TO (19) SERVER s;
         CREATE VIEW of_far AS SELECT id FROM parts;
         CREATE TABLE whole (id int) PARTITION BY RANGE (id);
         CREATE TABLE piece PARTITION OF whole FOR VALUES FROM (0) TO (9); INSERT INTO whole VALUES (3);
         GRANT SELECT ON visits, kept, parts, of_far, numbers, whole TO reader"
    ));
    let study = Study::new();
    let password = [("PGPASSWORD", SECRET)];
    let create = |location: &str, table: &str, set: &[(&str, &str)]| {
        let sql = format!(
            "CREATE OR REPLACE EXTERNAL TABLE t STORED AS POSTGRES LOCATION '{location}' OPTIONS (table '{table}')"
        );
        server.run_with(&study, &["--owner"], &sql, set)
    };
    let address = server.address("reader");
    create(&address, "visits", &[]).says(1, &["PGPASSWORD", "chmod 600"]);
    create(&address, "visits", &[("PGPASSWORD", "wrong")]).says(1, &["does not accept"]);
    let with_password = address.replace("reader@", &format!("reader:{SECRET}@"));
    create(&with_password, "visits", &[]).says(1, &["holds no password", "PGPASSFILE"]);
    create(&format!("{address}&password={SECRET}"), "visits", &[]).says(1, &["holds no password"]);
    server
        .owner(&study, &format!("CREATE EXTERNAL TABLE c STORED AS CSV LOCATION '{with_password}'"))
        .says(1, &["STORED AS POSTGRES"]);
    for (table, said) in [
        ("nothing", "has no table \"public\".\"nothing\""),
        ("other.visits", "has no table \"other\".\"visits\""),
        ("hidden", "GRANT SELECT ON \"public\".\"hidden\""),
        ("numbers", "not a table or a view"),
        ("parts", "on another server"),
        ("of_far", "on another server"),
        ("a.b.c", "schema.name"),
    ] {
        create(&address, table, &password).says(1, &[said]);
    }
    for table in ["visits", "kept", "whole"] {
        create(&address, table, &password).says(0, &[]);
        let sql = "ALTER TABLE t SET PUBLIC; SELECT COUNT(*) AS n FROM t";
        let run = server.run_with(&study, &["--owner"], sql, &password);
        assert!(run.says(0, &[]).out.contains("n\n"), "{run:?}");
    }
    create(&address.replace("/postgres?", "/elsewhere?"), "t", &password)
        .says(1, &["no database `elsewhere`"]);
    create("postgresql://reader@127.0.0.1:1/d", "t", &password).says(1, &["no server answers"]);
    // Without TLS, nobody but this machine is on the way.
    let there = format!("postgresql://reader@127.0.0.1:{}/postgres", server.port);
    create(&format!("{there}?sslmode=verify-full"), "visits", &password).says(1, &["certificate"]);
    create(&there, "visits", &password).says(0, &["table t is replaced"]);
    server
        .owner(
            &study,
            &format!("CREATE EXTERNAL TABLE p STORED AS POSTGRES PARTITIONED BY (k INT) LOCATION '{address}'"),
        )
        .says(1, &["leave it out"]);
    server
        .owner(
            &study,
            &format!("CREATE EXTERNAL TABLE p STORED AS POSTGRES LOCATION '{address}' OPTIONS (has_header 'true')"),
        )
        .says(1, &["no option `has_header`"]);
    // The file of passwords, as psql takes it: not where others may read it.
    let kept = study.path(".pgpass");
    fs::write(&kept, format!("*:*:postgres:reader:{SECRET}\n")).unwrap();
    fs::set_permissions(&kept, fs::Permissions::from_mode(0o644)).unwrap();
    create(&address, "visits", &[]).says(1, &["does not accept"]);
    fs::set_permissions(&kept, fs::Permissions::from_mode(0o600)).unwrap();
    create(&address, "visits", &[]).says(0, &[]);
    server.owner(&study, "ALTER TABLE t SET PUBLIC").says(0, &[]);
    // A program that may not come in: refused before the charge, and nothing of the server is said.
    let run = server.run_with(
        &study,
        &["--analyst", "lab"],
        "SELECT COUNT(*) FROM t",
        &[("PGPASSFILE", "/nowhere")],
    );
    run.says(3, &["HQ028", "does not let the program in"]);
    for entry in fs::read_dir(study.folder()).unwrap().flatten() {
        if entry.file_name() != ".pgpass" && entry.path().is_file() {
            let bytes = fs::read(entry.path()).unwrap();
            assert!(!String::from_utf8_lossy(&bytes).contains(SECRET), "{:?}", entry.path());
        }
    }
}

/// A server whose certificate is trusted, and one that shows it under another name.
#[test]
fn certificates_are_for_the_name_of_the_server() {
    let Some(mut server) = Server::start("trust", &[]) else { return };
    server.sql("CREATE ROLE reader LOGIN; CREATE TABLE visits (id int); INSERT INTO visits VALUES (1); GRANT SELECT ON visits TO reader");
    let data = server.folder.path().join("data");
    let (key, certificate) = (data.join("server.key"), data.join("server.crt"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"])
        .args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .output();
    if !made.is_ok_and(|made| made.status.success()) {
        eprintln!("skipped: openssl is not installed");
        return;
    }
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    if nix_is_root() {
        chown(&key, Some(NOBODY), Some(NOBODY)).unwrap();
        chown(&certificate, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    server.stop();
    server.options.push("ssl=on".to_owned());
    server.resume();
    let study = Study::new();
    let create = |host: &str, set: &[(&str, &str)]| {
        let sql = format!(
            "CREATE OR REPLACE EXTERNAL TABLE visits STORED AS POSTGRES LOCATION 'postgresql://reader@{host}:{}/postgres?sslmode=verify-full'",
            server.port
        );
        server.run_with(&study, &["--owner"], &sql, set)
    };
    create("localhost", &[])
        .says(1, &["no certificate for this name that is trusted", "PGSSLROOTCERT"]);
    let trusted = [("PGSSLROOTCERT", certificate.to_str().unwrap())];
    create("127.0.0.1", &trusted).says(1, &["no certificate for this name"]);
    create("localhost", &trusted).says(0, &[]);
    let sql = "ALTER TABLE visits SET PUBLIC; SELECT COUNT(*) AS n FROM visits";
    let run = server.run_with(&study, &["--owner"], sql, &trusted);
    assert!(run.out.ends_with("n\n1\n"), "{run:?}");
}

/// Texts that a server would have to convert could fail for a row.
#[test]
fn databases_of_other_encodings_are_refused() {
    let Some(server) = Server::start("trust", &["latin"]) else { return };
    server.sql("CREATE TABLE visits (id int)");
    let study = Study::new();
    let create = format!(
        "CREATE EXTERNAL TABLE visits STORED AS POSTGRES LOCATION '{}'",
        server.address("owner")
    );
    server.owner(&study, &create).says(1, &["UTF-8"]);
}

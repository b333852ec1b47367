//! Tables in object stores, against a store that the tests start: S3 over plain HTTP, and the same objects as files over HTTP.
//!
//! Objects are known by their ETags: one that is changed, added or removed is noticed, as a file is, and one that changes
//! between two scans of a statement answers nothing. Keys come from the environment and are nowhere else.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use sha2::{Digest, Sha256};

use crate::contract::program::{Run, Study};

pub(super) const KEY: &str = "AKIAQworbled";
pub(super) const SECRET: &str = "Zyxquorina0secret";
const PERSON: &str = "Vrennikol";

#[derive(Default)]
pub(super) struct Objects {
    objects: BTreeMap<String, Vec<u8>>,
    /// What replaces an object once it was read so often.
    then: Option<(String, usize, Vec<u8>)>,
    /// Whether it heeds If-Match.
    is_careless: bool,
    /// What tags begin with: `W/` makes them weak.
    tag: String,
    asks_for_keys: bool,
    requests: Vec<String>,
}

impl Objects {
    /// Removes all objects below a name.
    pub(super) fn clear(&mut self, root: &str) {
        self.objects.retain(|name, _| !name.starts_with(&format!("{root}/")));
    }

    pub(super) fn forget_requests(&mut self) {
        self.requests.clear();
    }

    /// Makes tags weak, or strong again.
    pub(super) fn weaken(&mut self, is_weak: bool) {
        self.tag = if is_weak { "W/".to_owned() } else { String::new() };
    }
}

/// A store that serves `/clinic/…`.
pub(super) struct Store {
    address: String,
    inner: Arc<Mutex<Objects>>,
}

impl Store {
    fn start() -> Self {
        Self::start_at(0)
    }

    /// A store at a port of this machine; at any one for 0.
    pub(super) fn start_at(port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let inner = Arc::new(Mutex::new(Objects { asks_for_keys: true, ..Objects::default() }));
        let shared = Arc::clone(&inner);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || drop(served(stream, &shared)));
            }
        });
        Self { address, inner }
    }

    pub(super) fn put(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let mut inner = self.inner.lock().unwrap();
        inner.objects.insert(name.to_owned(), bytes.as_ref().to_vec());
    }

    pub(super) fn remove(&self, name: &str) {
        self.inner.lock().unwrap().objects.remove(name).unwrap();
    }

    /// The first lines of all requests.
    pub(super) fn requests(&self) -> Vec<String> {
        self.inner.lock().unwrap().requests.clone()
    }

    pub(super) fn set(&self, change: impl FnOnce(&mut Objects)) {
        change(&mut self.inner.lock().unwrap());
    }

    /// Runs statements where the environment has keys.
    fn run(&self, study: &Study, who: &[&str], sql: &str) -> Run {
        let keys = [("AWS_ACCESS_KEY_ID", KEY), ("AWS_SECRET_ACCESS_KEY", SECRET)];
        self.run_with(study, who, sql, &keys)
    }

    fn run_with(&self, study: &Study, who: &[&str], sql: &str, keys: &[(&str, &str)]) -> Run {
        let mut command = study.command(&["study.db", "--format", "csv", "-c", sql]);
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("AWS_")) {
            command.env_remove(name);
        }
        command.args(who).env("AWS_ENDPOINT", &self.address).env("AWS_ALLOW_HTTP", "true");
        let run: Run = command.envs(keys.iter().copied()).output().unwrap().into();
        for text in [&run.out, &run.err] {
            assert!(!text.contains(KEY) && !text.contains(SECRET), "{run:?}");
            assert!(!text.contains(PERSON), "{run:?}");
        }
        run
    }

    fn owner(&self, study: &Study, sql: &str) -> Run {
        self.run(study, &["--owner"], sql)
    }

    fn lab(&self, study: &Study, sql: &str) -> Run {
        self.run(study, &["--analyst", "lab"], sql)
    }
}

fn unescaped(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut plain, mut i) = (Vec::new(), 0);
    while i < bytes.len() {
        let code = text.get(i + 1..i + 3).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (bytes[i], code) {
            (b'%', Some(code)) => {
                plain.push(code);
                i += 3;
            }
            (byte, _) => {
                plain.push(byte);
                i += 1;
            }
        }
    }
    String::from_utf8(plain).unwrap()
}

fn answer(
    stream: &mut TcpStream,
    status: &str,
    headers: &str,
    body: &[u8],
    is_head: bool,
) -> std::io::Result<()> {
    let length = if headers.contains("Content-Length") {
        String::new()
    } else {
        format!("Content-Length: {}\r\n", body.len())
    };
    write!(stream, "HTTP/1.1 {status}\r\n{headers}{length}Connection: close\r\n\r\n")?;
    if !is_head {
        stream.write_all(body)?;
    }
    stream.flush()
}

fn served(mut stream: TcpStream, shared: &Mutex<Objects>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':') {
            headers.insert(name.to_lowercase(), value.trim().to_owned());
        }
    }
    let mut words = first.split_whitespace();
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut objects = shared.lock().unwrap();
    objects.requests.push(first.clone());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let is_head = method == "HEAD";
    let signed = headers.get("authorization").is_some_and(|value| value.contains(KEY));
    if objects.asks_for_keys && !signed {
        return answer(
            &mut stream,
            "403 Forbidden",
            "",
            b"<Error><Code>AccessDenied</Code></Error>",
            is_head,
        );
    }
    let tag = |bytes: &[u8]| {
        let hash = Sha256::digest(bytes);
        format!("{}\"{:02x}{:02x}{:02x}{:02x}\"", objects.tag, hash[0], hash[1], hash[2], hash[3])
    };
    let key = unescaped(path.trim_start_matches("/clinic").trim_start_matches('/'));
    if query.contains("list-type=2") {
        let prefix = query.split('&').find_map(|part| part.strip_prefix("prefix="));
        let prefix = unescaped(prefix.unwrap_or_default());
        let mut body =
            "<?xml version=\"1.0\"?><ListBucketResult><IsTruncated>false</IsTruncated>".to_owned();
        for (name, bytes) in objects.objects.iter().filter(|(name, _)| name.starts_with(&prefix)) {
            let name = name.replace('&', "&amp;").replace('<', "&lt;");
            write!(body, "<Contents><Key>{name}</Key><LastModified>2026-01-02T03:04:05.000Z</LastModified><ETag>{}</ETag><Size>{}</Size></Contents>", tag(bytes).replace('"', "&quot;"), bytes.len()).unwrap();
        }
        body.push_str("</ListBucketResult>");
        return answer(
            &mut stream,
            "200 OK",
            "Content-Type: application/xml\r\n",
            body.as_bytes(),
            false,
        );
    }
    let Some(bytes) = objects.objects.get(&key).cloned() else {
        return answer(&mut stream, "404 Not Found", "", b"", is_head);
    };
    let own = tag(&bytes);
    if headers.get("if-match").is_some_and(|asked| *asked != own) && !objects.is_careless {
        return answer(&mut stream, "412 Precondition Failed", "", b"", is_head);
    }
    let known = format!("ETag: {own}\r\nLast-Modified: Fri, 02 Jan 2026 03:04:05 GMT\r\n");
    let range = headers.get("range").and_then(|range| {
        let (from, to) = range.strip_prefix("bytes=")?.split_once('-')?;
        Some((
            from.parse::<usize>().ok()?,
            to.parse::<usize>().ok()?.min(bytes.len().saturating_sub(1)),
        ))
    });
    if is_head {
        let known = format!("{known}Content-Length: {}\r\n", bytes.len());
        return answer(&mut stream, "200 OK", &known, b"", true);
    }
    if let Some((name, times, next)) = objects.then.take() {
        match (name == key, times) {
            (true, 1) => drop(objects.objects.insert(name, next)),
            (true, times) => objects.then = Some((name, times - 1, next)),
            (false, times) => objects.then = Some((name, times, next)),
        }
    }
    match range {
        Some((from, to)) if from > to || to >= bytes.len() => {
            answer(&mut stream, "416 Range Not Satisfiable", &known, b"", false)
        }
        Some((from, to)) => {
            let known = format!("{known}Content-Range: bytes {from}-{to}/{}\r\n", bytes.len());
            answer(&mut stream, "206 Partial Content", &known, &bytes[from..=to], false)
        }
        None => answer(&mut stream, "200 OK", &known, &bytes, false),
    }
}

fn csv(ids: std::ops::Range<i64>) -> String {
    ids.fold("id,n\n".to_owned(), |mut text, id| {
        writeln!(text, "{id},{}", id % 7).unwrap();
        text
    })
}

fn parquet(ids: std::ops::Range<i64>) -> Vec<u8> {
    use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    let n: ArrayRef = Arc::new(Int64Array::from_iter_values(ids.clone().map(|id| id % 7)));
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(ids));
    let rows = RecordBatch::try_from_iter([("id", ids), ("n", n)]).unwrap();
    let mut bytes = Vec::new();
    let mut writer =
        datafusion::parquet::arrow::ArrowWriter::try_new(&mut bytes, rows.schema(), None).unwrap();
    writer.write(&rows).unwrap();
    writer.close().unwrap();
    bytes
}

/// The bytes of a file with rows of these numbers.
type Make = fn(std::ops::Range<i64>) -> Vec<u8>;

fn plain(ids: std::ops::Range<i64>) -> Vec<u8> {
    csv(ids).into_bytes()
}

fn compressed(ids: std::ops::Range<i64>) -> Vec<u8> {
    zstd::encode_all(csv(ids).as_bytes(), 1).unwrap()
}

const COUNT: &str = "SELECT LAPLACE(eps=1000) COUNT(*) AS n FROM t";
const FAILED: &str = "the query failed";

/// The answer of a query, if there is one, and whether it was charged.
fn counted(store: &Store, study: &Study, sql: &str) -> (Option<i64>, bool) {
    let charges = || {
        let ledger = store.lab(study, "SELECT COUNT(*) AS n FROM hushql.ledger");
        ledger.out.lines().nth(1).unwrap().to_owned()
    };
    let before = charges();
    let run = store.lab(study, sql);
    let answer = run.out.lines().nth(1).map(|line| line.parse().unwrap());
    assert_eq!(answer.is_none(), run.err.contains(FAILED), "{run:?}");
    (answer, charges() != before)
}

#[test]
fn objects_are_read_as_they_were_verified() {
    for (format, end, bytes) in [
        ("CSV", "csv", plain as Make),
        ("CSV", "csv.zst", compressed as Make),
        ("PARQUET", "parquet", parquet as Make),
    ] {
        let (store, study) = (Store::start(), Study::new());
        let name = |k: i64| format!("visits/k={k}/who={PERSON}/a.{end}");
        for k in 0..3 {
            store.put(&name(k), bytes(100 * k..100 * k + 100));
        }
        store.put("visits/_SUCCESS", "");
        store.put("visits/k=0", "");
        store.put("elsewhere/x", "noise");
        let run = store.owner(
            &study,
            &format!(
                "CREATE EXTERNAL TABLE t STORED AS {format} PARTITIONED BY (k INT, who) LOCATION 's3://clinic/visits';
                 ALTER TABLE t SET PRIVACY UNIT (id) UNIQUE;
                 ALTER TABLE t ALTER COLUMN k SET PRIVACY DOMAIN BETWEEN (0, 2);
                 CREATE PRIVACY BUDGET t FOR t LIMIT (epsilon=1000000)"
            ),
        );
        run.says(0, &[]);
        assert_eq!(counted(&store, &study, COUNT), (Some(300), true), "{end}");
        let of_one = "SELECT LAPLACE(eps=1000) COUNT(*) AS n FROM t WHERE k = 1";
        assert_eq!(counted(&store, &study, of_one), (Some(100), true), "{end}");
        // Before the charge, nobody asks the store for anything.
        store.set(|objects| objects.requests.clear());
        store.lab(&study, &format!("EXPLAIN PRIVACY {COUNT}")).says(0, &[]);
        store.lab(&study, "SELECT n FROM t").says(3, &[]);
        assert_eq!(store.inner.lock().unwrap().requests.len(), 0);
        store.put(&name(1), bytes(0..7));
        assert_eq!(counted(&store, &study, COUNT), (None, true), "{end}: changed");
        store.put(&name(1), bytes(100..200));
        assert_eq!(counted(&store, &study, COUNT), (Some(300), true), "{end}: back");
        store.put(&name(3), bytes(300..400));
        assert_eq!(counted(&store, &study, COUNT), (None, true), "{end}: added");
        store.remove(&name(3));
        store.remove(&name(2));
        assert_eq!(counted(&store, &study, COUNT), (None, true), "{end}: removed");
        store.put(&name(2), "");
        assert_eq!(counted(&store, &study, COUNT), (None, true), "{end}: emptied");
        store.put(&name(2), bytes(200..300));
        assert_eq!(counted(&store, &study, COUNT), (Some(300), true), "{end}: back");
        // Without keys, it fails as it does without objects, and the owner is told what is missing.
        let run = store.run_with(&study, &["--analyst", "lab"], COUNT, &[]);
        assert!(run.err.contains(FAILED), "{run:?}");
        let other =
            format!("CREATE EXTERNAL TABLE u STORED AS {format} LOCATION 's3://clinic/elsewhere/'");
        store
            .run_with(&study, &["--owner"], &other, &[])
            .says(1, &["no credentials", "AWS_ACCESS_KEY_ID"]);
        let wrong = [("AWS_ACCESS_KEY_ID", "other"), ("AWS_SECRET_ACCESS_KEY", "wrong")];
        store.run_with(&study, &["--owner"], &other, &wrong).says(1, &["refuses them"]);
        let vault = std::fs::read(study.path("study.db")).unwrap();
        let vault = String::from_utf8_lossy(&vault);
        assert!(!vault.contains(SECRET) && !vault.contains(KEY) && !vault.contains(PERSON));
    }
}

/// An object that changes while a statement reads it, between its check and its scan, and between its scans.
#[test]
fn an_object_that_changes_meanwhile_answers_nothing() {
    for (format, bytes) in [("CSV", plain as Make), ("PARQUET", parquet as Make)] {
        let (store, study) = (Store::start(), Study::new());
        store.put("a.data", bytes(0..50));
        store
            .owner(
                &study,
                &format!(
                    "CREATE EXTERNAL TABLE t STORED AS {format} LOCATION 's3://clinic/a.data';
                     ALTER TABLE t SET PRIVACY UNIT (id);
                     CREATE PRIVACY BUDGET t FOR t LIMIT (epsilon=1000000)"
                ),
            )
            .says(0, &[]);
        let twice =
            "SELECT LAPLACE(eps=1000, rows=1) COUNT(*) AS n FROM t AS a JOIN t AS b ON a.id = b.id";
        assert_eq!(counted(&store, &study, twice), (Some(50), true), "{format}");
        for is_careless in [false, true] {
            let mut failed = 0;
            for reads in 1..12 {
                let next = Some(("a.data".to_owned(), reads, bytes(50..90)));
                store.set(|objects| {
                    objects.then = next;
                    objects.is_careless = is_careless;
                });
                let (answer, is_charged) = counted(&store, &study, twice);
                assert!(is_charged);
                // All rows of one object, or none.
                match answer {
                    None => failed += 1,
                    Some(n) => assert_eq!(n, 50, "{format} after {reads} reads"),
                }
                store.set(|objects| objects.then = None);
                store.put("a.data", bytes(0..50));
            }
            assert!(failed >= 2, "{format}: {failed}");
        }
        store.remove("a.data");
        assert_eq!(counted(&store, &study, twice), (None, true), "{format}: removed");
    }
}

#[test]
fn stores_without_versions_and_keys_in_locations_are_refused() {
    let (store, study) = (Store::start(), Study::new());
    store.put("a/x.csv", csv(0..3));
    store.put("a/y.csv", csv(5..8));
    store.set(|objects| objects.tag = "W/".to_owned());
    let create = |name: &str, location: &str| {
        store.owner(
            &study,
            &format!("CREATE EXTERNAL TABLE {name} STORED AS CSV LOCATION '{location}'"),
        )
    };
    create("t", "s3://clinic/a/").says(1, &["strong ETag"]);
    store.set(|objects| objects.tag.clear());
    create("t", &format!("s3://{KEY}:{SECRET}@clinic/a/")).says(1, &["holds no credentials"]);
    create("t", &format!("{}/clinic/a/x.csv?X-Amz-Signature={SECRET}", store.address))
        .says(1, &["no signature"]);
    create("t", "s3://clinic/nothing/").says(1, &["no file in"]);
    create("t", "s3://clinic/a/[.csv").says(1, &["not a pattern"]);
    create("a", "s3://clinic/a/*.csv").says(0, &["table a has 2 columns"]);
    create("one", "s3://clinic/a/x.csv").says(0, &[]);
    // A file over HTTP, with the same bytes.
    store.set(|objects| objects.asks_for_keys = false);
    create("web", &format!("{}/clinic/a/x.csv", store.address)).says(0, &[]);
    create("web2", &format!("{}/clinic/a/", store.address)).says(1, &["HTTP has no folders"]);
    let run = store.owner(&study, "ALTER TABLE web SET PUBLIC; SELECT COUNT(*) AS n FROM web");
    run.says(0, &[]);
    assert!(run.out.ends_with("n\n3\n"), "{run:?}");
    store.put("a/x.csv", csv(0..4));
    assert!(store.lab(&study, "SELECT COUNT(*) AS n FROM web").out.ends_with("n\n4\n"));
    store.owner(&study, "ALTER TABLE a SET PRIVACY UNIT (id) UNIQUE").says(1, &["web", "public"]);
    store.owner(&study, "DROP TABLE web; ALTER TABLE a SET PRIVACY UNIT (id) UNIQUE").says(0, &[]);
    store
        .owner(&study, "ALTER TABLE one SET PUBLIC")
        .says(1, &["a file of one is one of a", "private"]);
    let dump =
        store.run_with(&study, &["--owner"], "SHOW CREATE TABLE a; SHOW CREATE TABLE one", &[]);
    for location in ["LOCATION 's3://clinic/a/*.csv'", "LOCATION 's3://clinic/a/x.csv'"] {
        assert!(dump.out.contains(location), "{dump:?}");
    }
    let mut doctor = study.command(&["doctor", "study.db"]);
    let doctor: Run = doctor.output().unwrap().into();
    assert!(!doctor.out.contains("cannot be read"), "{doctor:?}");
}

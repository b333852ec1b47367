//! A store for tests: S3 over plain HTTP, and the same objects as files over HTTP.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};

use sha2::{Digest, Sha256};

pub(crate) const KEY: &str = "AKIAQworbled";
pub(crate) const SECRET: &str = "Zyxquorina0secret";

#[derive(Default)]
pub(crate) struct Objects {
    objects: BTreeMap<String, Vec<u8>>,
    /// What replaces an object once it was read so often.
    pub(crate) then: Option<(String, usize, Vec<u8>)>,
    /// Whether it heeds If-Match.
    pub(crate) is_careless: bool,
    /// What tags begin with: `W/` makes them weak.
    pub(crate) tag: String,
    pub(crate) asks_for_keys: bool,
    requests: Vec<String>,
}

impl Objects {
    /// Removes all objects below a name.
    pub(crate) fn clear(&mut self, root: &str) {
        self.objects.retain(|name, _| !name.starts_with(&format!("{root}/")));
    }

    pub(crate) fn forget_requests(&mut self) {
        self.requests.clear();
    }

    /// Makes tags weak, or strong again.
    pub(crate) fn weaken(&mut self, is_weak: bool) {
        self.tag = if is_weak { "W/".to_owned() } else { String::new() };
    }
}

/// A store that serves `/clinic/…`.
pub(crate) struct Store {
    pub(crate) address: String,
    inner: Arc<Mutex<Objects>>,
}

/// The environment variable with the port of a store.
const PORT: &str = "HUSHQL_TEST_STORE";

impl Store {
    /// The store in the process that has its address: the test of this name runs itself once more,
    /// with an environment of its own. `None` where that process was started, and has passed.
    pub(crate) fn of_the_environment(test: &str) -> Option<Self> {
        if let Ok(port) = std::env::var(PORT) {
            return Some(Self::start_at(port.parse().unwrap()));
        }
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new(std::env::current_exe().unwrap());
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("AWS_")) {
            command.env_remove(name);
        }
        let run = command
            .args(["--exact", test, "--nocapture"])
            .env(PORT, port.to_string())
            .env("AWS_ENDPOINT", format!("http://127.0.0.1:{port}"))
            .env("AWS_ALLOW_HTTP", "true")
            .env("AWS_ACCESS_KEY_ID", KEY)
            .env("AWS_SECRET_ACCESS_KEY", SECRET)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&run.stdout);
        let passed = run.status.success() && said.contains("1 passed");
        assert!(passed, "{said}{}", String::from_utf8_lossy(&run.stderr));
        None
    }

    /// A store at any port.
    pub(crate) fn start() -> Self {
        Self::start_at(0)
    }

    /// A store at a port of this machine; at any one for 0.
    pub(crate) fn start_at(port: u16) -> Self {
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

    pub(crate) fn put(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let mut inner = self.inner.lock().unwrap();
        inner.objects.insert(name.to_owned(), bytes.as_ref().to_vec());
    }

    pub(crate) fn remove(&self, name: &str) {
        self.inner.lock().unwrap().objects.remove(name).unwrap();
    }

    /// The first lines of all requests.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.inner.lock().unwrap().requests.clone()
    }

    pub(crate) fn set(&self, change: impl FnOnce(&mut Objects)) {
        change(&mut self.inner.lock().unwrap());
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

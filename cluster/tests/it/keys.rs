//! Workers on machines: programs with keys from the folder of the vault's owner.

use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use hushql::{Engine, Error};
use hushql_cluster::{Cluster, OnCluster, enrol};
use tokio::io::AsyncWriteExt;

use crate::study::{HereByUnit, Noted, QUERIES, engine, engine_at, write, write_with_visits};

/// A worker that ends with the test.
pub(crate) struct Started(Child);

impl Started {
    /// The most memory that it had so far, in bytes, as the system counts it.
    pub(crate) fn peak(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1_024
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_hushql-worker"))
}

/// A port that was free a moment ago.
pub(crate) fn free() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}

pub(crate) fn started(listen: u16, keys: &Path) -> Started {
    started_with(listen, keys, &["--memory", "200MB"])
}

pub(crate) fn started_with(listen: u16, keys: &Path, limits: &[&str]) -> Started {
    let mut command = program();
    command.arg("--listen").arg(format!("127.0.0.1:{listen}")).arg("--keys").arg(keys);
    command.args(limits).stdin(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("listening at 127.0.0.1:"), "{line}");
    Started(child)
}

/// The folder of keys that the program makes for workers at these addresses.
pub(crate) fn enrolled(folder: &Path, workers: &[(&str, u16)]) -> PathBuf {
    let keys = folder.join("keys");
    let mut command = program();
    command.arg("enrol").arg(&keys);
    command.args(workers.iter().map(|(name, port)| format!("{name}=127.0.0.1:{port}")));
    let done = command.output().unwrap();
    let told = String::from_utf8(done.stderr).unwrap();
    assert!(done.status.success() && done.stdout.is_empty(), "{told}");
    for (name, port) in workers {
        assert!(told.contains(&format!("0.0.0.0:{port} --keys {name}.pem")), "{told}");
    }
    keys
}

/// Hands on what it is sent, and keeps a copy.
async fn copied(listener: tokio::net::TcpListener, to: u16, copy: Arc<std::sync::Mutex<Vec<u8>>>) {
    loop {
        let (client, _) = listener.accept().await.unwrap();
        let copy = Arc::clone(&copy);
        tokio::spawn(async move {
            let server = tokio::net::TcpStream::connect(("127.0.0.1", to)).await.unwrap();
            let (mut from_client, mut to_client) = client.into_split();
            let (mut from_server, mut to_server) = server.into_split();
            let there = copy_of(&mut from_client, &mut to_server, &copy);
            let back = copy_of(&mut from_server, &mut to_client, &copy);
            tokio::join!(there, back)
        });
    }
}

async fn copy_of(
    from: &mut (impl tokio::io::AsyncRead + Unpin),
    to: &mut (impl tokio::io::AsyncWrite + Unpin),
    copy: &std::sync::Mutex<Vec<u8>>,
) {
    let mut part = vec![0; 1 << 16];
    loop {
        match tokio::io::AsyncReadExt::read(from, &mut part).await {
            Ok(read) if read > 0 => {
                copy.lock().unwrap().extend(&part[..read]);
                if to.write_all(&part[..read]).await.is_err() {
                    return;
                }
            }
            _ => {
                let _ = to.shutdown().await;
                return;
            }
        }
    }
}

/// Programs that were given their keys find the integers of one process, and the network sees TLS
/// alone: neither the names of requests and headers nor the secrets of plans are in the bytes
/// between them.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn workers_on_machines_work_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    let (first, second) = (free(), free());
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let between = listener.local_addr().unwrap().port();
    // Everybody reaches w2 by somebody in between.
    let keys = enrolled(folder.path(), &[("w1", first), ("w2", between)]);
    let _workers = [started(first, &keys.join("w1.pem")), started(second, &keys.join("w2.pem"))];
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    tokio::spawn(copied(listener, second, Arc::clone(&seen)));

    let cluster = Cluster::open(&keys).unwrap();
    cluster.check().await.unwrap();
    let local = Arc::new(Noted::new(Arc::new(HereByUnit)));
    let here = engine(folder.path(), Arc::clone(&local) as _).await;
    let noted = Arc::new(Noted::new(Arc::new(cluster.clone())));
    let there = engine(folder.path(), Arc::clone(&noted) as _).await;
    for query in [QUERIES[3], QUERIES[7]] {
        here.analyst("lab").unwrap().query(query).await.unwrap();
        let answer = there.analyst("lab").unwrap().query(query).await;
        answer.unwrap_or_else(|error| panic!("{query}: {error}"));
        assert_eq!(noted.taken(), local.taken(), "{query}");
    }
    assert!(cluster.divided_so_far() >= 2);
    let seen = seen.lock().unwrap().clone();
    assert!(seen.len() > 20_000, "{}", seen.len());
    for text in ["PRI * HTTP", "WorkerService", "hushql", "datafusion", "visits", "ward", "ARROW"] {
        let found = seen.windows(text.len()).any(|part| part.eq_ignore_ascii_case(text.as_bytes()));
        assert!(!found, "{text}");
    }
    // The call for programs.
    let builder = Engine::builder().on_cluster(&cluster);
    let plain = engine_at(&folder.path().display().to_string(), builder).await;
    plain.analyst("lab").unwrap().query(QUERIES[1]).await.unwrap();
    assert!(cluster.divided_so_far() >= 3);
}

/// Before anything is asked, a worker that is missing or is not of these keys is named.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_is_missing_or_foreign_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    let (first, second) = (free(), free());
    let keys = enrolled(folder.path(), &[("w1", first), ("w2", second)]);
    let foreign = enrolled(other.path(), &[("w2", second)]);
    let _first = started(first, &keys.join("w1.pem"));
    let cluster = Cluster::open(&keys).unwrap();
    let missing = cluster.check().await.unwrap_err().to_string();
    assert!(missing.contains(&format!("the worker w2 at 127.0.0.1:{second}")), "{missing}");
    assert!(missing.contains("refused"), "{missing}");
    let _second = started(second, &foreign.join("w2.pem"));
    let foreign = cluster.check().await.unwrap_err().to_string();
    assert!(
        foreign.contains("the worker w2") && foreign.contains("does not show the certificate"),
        "{foreign}"
    );
    // Who asks nevertheless gets the constant sentence.
    write(folder.path());
    let there = engine(folder.path(), Arc::new(cluster)).await;
    let failed = there.analyst("lab").unwrap().query(QUERIES[1]).await.unwrap_err();
    assert!(matches!(failed, Error::Execution), "{failed}");
}

/// Files of keys that others may read, or that are another's, start no worker.
#[test]
fn a_worker_starts_with_its_own_keys_alone() {
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys");
    enrol(&keys, &[("w1", "127.0.0.1:7000")]).unwrap();
    let told = |arguments: &[&str]| {
        let mut child = program().args(arguments).stderr(Stdio::piped()).spawn().unwrap();
        let mut told = String::new();
        child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
        (child.wait().unwrap().code(), told)
    };
    let file = |name: &str| keys.join(name).display().to_string();
    for (name, part) in [
        ("driver.pem", "not the file of a worker"),
        ("authority.pem", "not the file of a worker"),
        ("w2.pem", "w2.pem"),
    ] {
        let (code, told) = told(&["--listen", "127.0.0.1:0", "--keys", &file(name)]);
        assert!(code == Some(1) && told.contains(part), "{name}: {told}");
    }
    for arguments in [&["--listen", "127.0.0.1:0"][..], &["--keys", "w1.pem"], &[], &["enrol"]] {
        assert_eq!(told(arguments).0, Some(2), "{arguments:?}");
    }
    let (code, text) = told(&["enrol", &file(""), "W_1=h:1"]);
    assert!(code == Some(1) && text.contains("is not the name of a worker"), "{text}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let open = std::fs::Permissions::from_mode(0o644);
        std::fs::set_permissions(keys.join("w1.pem"), open).unwrap();
        let (code, text) = told(&["--listen", "127.0.0.1:0", "--keys", &file("w1.pem")]);
        assert!(code == Some(1) && text.contains("chmod 600"), "{text}");
    }
}

/// A worker has a limit of memory. What does not fit fails the statement with the constant
/// sentence, or goes into files without names where there is a folder for them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_keeps_to_its_memory_and_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    let spill = tempfile::tempdir().unwrap();
    write_with_visits(folder.path(), 2_000_000);
    let ports = [free(), free()];
    let keys = enrolled(folder.path(), &[("w1", ports[0]), ("w2", ports[1])]);
    let spilling = ["--memory", "16MB", "--spill", spill.path().to_str().unwrap()];
    let query = "SELECT diagnosis, LAPLACE(eps=1, delta=0.001, rows=2, groups=2) SUM(minutes) FROM visits GROUP BY diagnosis";
    for (limits, answers) in [(&spilling[..2], false), (&spilling[..], true)] {
        let _workers = [("w1.pem", ports[0]), ("w2.pem", ports[1])]
            .map(|(file, port)| started_with(port, &keys.join(file), limits));
        let cluster = Cluster::open(&keys).unwrap();
        cluster.check().await.unwrap();
        let there = engine(folder.path(), Arc::new(cluster.clone())).await;
        let answer = there.analyst("lab").unwrap().query(query).await;
        assert!(cluster.divided_so_far() > 0);
        assert_eq!(answer.is_ok(), answers, "{limits:?}: {:?}", answer.err());
        if let Err(failed) = answer {
            assert!(matches!(failed, Error::Execution), "{failed}");
        }
        assert_eq!(std::fs::read_dir(spill.path()).unwrap().count(), 0);
    }
}

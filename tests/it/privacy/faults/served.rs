//! A server whose disk is full for a moment, and one whose disk does not keep what it was given.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::shim;
use crate::contract::program::Study;
use crate::contract::server::client::{Client, error_code, texts};
use crate::contract::server::{PASSWORD, Served};

fn health(port: u16) -> String {
    let mut asks = TcpStream::connect(("127.0.0.1", port)).unwrap();
    asks.write_all(b"GET /health HTTP/1.1\r\n\r\n").unwrap();
    let mut said = String::new();
    asks.read_to_string(&mut said).unwrap();
    said.lines().next().unwrap_or_default().to_owned()
}

/// While there is no space, what has to be written fails and costs nothing that is given out; the
/// next statement after that is answered, by the same process, on the same connections.
#[test]
fn a_disk_that_is_full_for_a_moment_ends_nothing() {
    let study = Study::with_people();
    study.owner(&format!("CREATE ROLE lab LOGIN PASSWORD '{PASSWORD}'")).says(0, &[]);
    let vault = study.path("study.db").canonicalize().unwrap();
    let full = study.path("full");
    let served = Served::started(study, &["--metrics", "127.0.0.1:0"], |command| {
        shim::under(command, &vault, None).env("SHIM_FULL", &full);
    });
    let ask = |number: usize| {
        format!("SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people WHERE id > {number}")
    };
    let mut lab = served.lab();
    assert_eq!(texts(&lab.query(&ask(0))).len(), 1);
    for round in 1..4 {
        std::fs::write(&full, "").unwrap();
        let before = served.study.spent();
        for _ in 0..2 {
            let said = lab.query(&ask(round));
            assert!(said.rows().is_empty() && error_code(&said).is_some(), "{said:?}");
        }
        // What needs no writing is answered.
        assert_eq!(texts(&lab.query("SELECT 1 AS x")), [["1"]]);
        assert_eq!(health(served.metrics()), "HTTP/1.1 200 OK");
        assert_eq!(served.study.spent(), before);
        std::fs::remove_file(&full).unwrap();
        assert_eq!(texts(&lab.query(&ask(round))).len(), 1);
        let mut other = Client::log_in(served.port, "lab", PASSWORD).unwrap();
        assert_eq!(texts(&other.query(&ask(round + 10))).len(), 1);
        assert_eq!(health(served.metrics()), "HTTP/1.1 200 OK");
    }
    served.study.run(&["check", "study.db"]).says(0, &[]);
}

/// A sync that failed may have lost what the file still shows: the server ends by itself, with a
/// sentence and a status for its supervisor, and goes on where the disk is once it is started
/// again.
#[test]
fn a_server_ends_when_a_sync_failed() {
    let study = Study::with_people();
    study.owner(&format!("CREATE ROLE lab LOGIN PASSWORD '{PASSWORD}'")).says(0, &[]);
    let vault = study.path("study.db").canonicalize().unwrap();
    let lost = study.path("lost");
    let served = Served::started(study, &[], |command| {
        shim::under(command, &vault, None).env("SHIM_UNSYNCED", &lost);
    });
    let ask = |number: usize| {
        format!("SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people WHERE id > {number}")
    };
    let mut lab = served.lab();
    assert_eq!(texts(&lab.query(&ask(0))).len(), 1);
    std::fs::write(&lost, "").unwrap();
    let said = lab.query(&ask(1));
    assert!(said.rows().is_empty(), "{said:?}");
    let (study, status, last) = served.ended();
    assert!(status.code().is_some_and(|code| code != 0), "{status:?}");
    assert!(
        last.contains("could not be synced") && last.contains("start the server again"),
        "{last}"
    );
    std::fs::remove_file(&lost).unwrap();
    study.run(&["check", "study.db"]).says(0, &[]);
    let served = Served::of(study, &[]);
    assert_eq!(texts(&served.lab().query(&ask(1))).len(), 1);
}

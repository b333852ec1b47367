//! PostgreSQL's own client, where it is installed.

use std::process::{Command, Stdio};

use super::{COUNT, PASSWORD, Served};
use crate::contract::program::Run;

/// Whether a program is there; says so if it is not.
fn is_there(program: &str) -> bool {
    let runs = Command::new(program).arg("--version").stdout(Stdio::null()).status();
    let runs = runs.is_ok_and(|status| status.success());
    if !runs {
        println!("skipped: {program} is not installed");
    }
    runs
}

fn psql(served: &Served, host: &str, more: &[(&str, &str)], commands: &[&str]) -> Run {
    let mut psql = Command::new("psql");
    psql.args(["-X", "-A", "-t", "-h", host, "-p", &served.port.to_string(), "-d", "hushql"]);
    psql.env("PGPASSWORD", PASSWORD).env("PGUSER", "lab").stdin(Stdio::null());
    psql.envs(more.iter().copied());
    commands.iter().for_each(|command| {
        psql.args(["-c", command]);
    });
    psql.output().unwrap().into()
}

#[test]
fn psql_asks_and_looks_around() {
    if !is_there("psql") {
        return;
    }
    let served = Served::with(&["--owner-socket", "own"]);
    let run = psql(&served, "127.0.0.1", &[], &[COUNT]);
    assert_eq!((run.status, run.out.trim()), (0, "4"), "{run:?}");
    assert!(run.err.contains("NOTICE:  cost ε = 100"), "{run:?}");
    let before = served.study.spent();
    for (command, expected) in [
        ("\\dt", "public|people|table|owner"),
        ("\\d", "public|people|table|owner"),
        ("\\d people", "age|bigint"),
        ("\\l", "hushql|owner|UTF8"),
        ("\\conninfo", "lab"),
        ("\\d p*", "city|text"),
        ("SHOW server_version", "15.0"),
        ("SELECT version()", "PostgreSQL 15.0"),
    ] {
        let run = psql(&served, "127.0.0.1", &[], &[command]);
        assert!(run.status == 0 && run.out.contains(expected), "{command}: {run:?}");
    }
    assert_eq!(served.study.spent(), before, "looking around was charged");
    let wrong = psql(&served, "127.0.0.1", &[("PGPASSWORD", "wrong")], &["SELECT 1"]);
    assert!(wrong.status == 2 && wrong.err.contains("the log-in failed"), "{wrong:?}");
    let own = served.study.path("own");
    let owner = psql(&served, own.to_str().unwrap(), &[("PGUSER", "owner")], &["SHOW ROLES"]);
    assert!(owner.status == 0 && owner.out.contains("lab|t"), "{owner:?}");
}

#[test]
fn psql_binds_its_log_in_to_tls() {
    if !is_there("psql") || !is_there_openssl() {
        return;
    }
    let study = crate::contract::program::Study::with_people();
    study.owner(&format!("CREATE ROLE lab LOGIN PASSWORD '{PASSWORD}'")).says(0, &[]);
    let certificate = [
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-keyout",
        "server.key",
        "-out",
        "server.crt",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
        "-addext",
        "subjectAltName=DNS:localhost,IP:127.0.0.1",
    ];
    let made = Command::new("openssl").args(certificate).current_dir(study.folder()).output();
    assert!(made.unwrap().status.success());
    let served = Served::of(study, &["--tls-cert", "server.crt", "--tls-key", "server.key"]);
    let root = served.study.path("server.crt");
    let settings = [
        ("PGSSLMODE", "verify-full"),
        ("PGSSLROOTCERT", root.to_str().unwrap()),
        ("PGCHANNELBINDING", "require"),
    ];
    let run = psql(&served, "127.0.0.1", &settings, &["SELECT 1"]);
    assert_eq!((run.status, run.out.trim()), (0, "1"), "{run:?}");
    let run = psql(&served, "127.0.0.1", &settings, &["\\conninfo"]);
    assert!(run.out.contains("SSL connection") || run.err.contains("SSL connection"), "{run:?}");
    // On this machine, TLS is offered and not required.
    let run = psql(&served, "127.0.0.1", &[("PGSSLMODE", "disable")], &["SELECT 1"]);
    assert_eq!(run.status, 0, "{run:?}");
}

/// A certificate that the server made is enough for `verify-full`, and is the same after the next
/// start.
#[test]
fn psql_verifies_a_certificate_that_the_server_made() {
    if !is_there("psql") {
        return;
    }
    let study = crate::contract::program::Study::with_people();
    study.owner(&format!("CREATE ROLE lab LOGIN PASSWORD '{PASSWORD}'")).says(0, &[]);
    let mut served = Served::of(study, &["--tls-self-made"]);
    let root = served.study.path("self-made.crt");
    let settings = [
        ("PGSSLMODE", "verify-full"),
        ("PGSSLROOTCERT", root.to_str().unwrap()),
        ("PGCHANNELBINDING", "require"),
    ];
    let before = std::fs::read(&root).unwrap();
    for host in ["127.0.0.1", "localhost"] {
        let run = psql(&served, host, &settings, &["SELECT 1"]);
        assert_eq!((run.status, run.out.trim()), (0, "1"), "{run:?}");
    }
    served = Served::of(served.kill(), &["--tls-self-made"]);
    assert_eq!(std::fs::read(&root).unwrap(), before);
    let run = psql(&served, "127.0.0.1", &settings, &["SELECT 1"]);
    assert_eq!((run.status, run.out.trim()), (0, "1"), "{run:?}");
    // That of another server is another one.
    let other = Served::with(&["--tls-self-made"]);
    let run = psql(&other, "127.0.0.1", &settings, &["SELECT 1"]);
    assert!(run.status == 2 && run.err.contains("certificate verify failed"), "{run:?}");
}

fn is_there_openssl() -> bool {
    let runs = Command::new("openssl").arg("version").stdout(Stdio::null()).status();
    runs.is_ok_and(|status| status.success())
}

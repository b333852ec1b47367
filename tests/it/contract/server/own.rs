//! What roles give themselves, and what the server makes for itself: passwords and certificates.

use super::client::{self, Client, error_code, texts};
use super::{PASSWORD, Served};
use crate::contract::program::Study;

/// What psql's `\password` sends: a verifier that the client made, for one's own role.
#[test]
fn roles_give_themselves_another_password() {
    let served = Served::with(&["--owner-socket", "own", "--audit", "audit.log"]);
    served.study.owner("CREATE ROLE team LOGIN PASSWORD 'battery staple'").says(0, &[]);
    let (mut lab, mut other) = (served.lab(), served.lab());
    assert_eq!(texts(&lab.query("SHOW password_encryption")), [["scram-sha-256"]]);
    let verifier = client::verifier("another horse");
    for sql in [
        format!("ALTER USER team PASSWORD '{verifier}'"),
        format!("ALTER USER lab PASSWORD '{verifier}' NOLOGIN"),
        format!("ALTER USER lab PASSWORD '{verifier}' VALID UNTIL 'infinity'"),
        format!("CREATE USER lab PASSWORD '{verifier}'"),
        "ALTER USER lab LOGIN".to_owned(),
        "DROP USER lab".to_owned(),
    ] {
        let said = lab.query(&sql);
        assert_eq!(error_code(&said).as_deref(), Some("42501"), "{sql}: {said:?}");
    }
    Client::log_in(served.port, "team", "battery staple").unwrap();
    let said = lab.query(&format!("ALTER USER lab PASSWORD '{verifier}'"));
    assert_eq!(said.tags(), ["ALTER USER"], "{said:?}");
    // This connection goes on, and may do so again; another one of before ends.
    assert_eq!(texts(&lab.query("SELECT 1 AS x")), [["1"]]);
    assert_eq!(error_code(&other.query("SELECT 1 AS x")).as_deref(), Some("57P01"));
    assert!(Client::log_in(served.port, "lab", PASSWORD).is_err());
    Client::log_in(served.port, "lab", "another horse").unwrap();
    assert_eq!(lab.query("ALTER ROLE lab PASSWORD 'a third horse'").tags(), ["ALTER ROLE"]);
    Client::log_in(served.port, "lab", "a third horse").unwrap();
    // It is in the history that owners see, and nothing of it anywhere.
    let owner = served.study.owner("SHOW PRIVACY HISTORY");
    assert!(owner.out.contains("role lab: new password"), "{owner:?}");
    assert!(!owner.out.contains("SCRAM"), "{owner:?}");
    assert!(
        !lab.query("SHOW PRIVACY HISTORY")
            .rows()
            .iter()
            .flatten()
            .flatten()
            .any(|cell| { cell.windows(8).any(|part| part == b"password") })
    );
    let log = std::fs::read_to_string(served.study.path("audit.log")).unwrap();
    assert!(!log.contains("SCRAM") && !log.contains("third"), "{log}");
    // Whoever is not logged in as the role does not change its password, under whatever name they
    // ask.
    let refused = served.study.lab("ALTER ROLE lab PASSWORD 'a fourth horse'");
    refused.says(3, &["only the owner's session"]);
    // Nor does a role that may not log in any more, or was dropped and created anew.
    served.study.owner("DROP ROLE lab; CREATE ROLE lab PASSWORD 'correct horse'").says(0, &[]);
    let said = lab.query("ALTER ROLE lab PASSWORD 'a fifth horse'");
    assert_eq!(error_code(&said).as_deref(), Some("57P01"), "{said:?}");
    served.lab();
}

#[test]
fn a_certificate_for_trying_is_made_once() {
    use std::io::{Read, Write};
    use std::os::unix::fs::PermissionsExt;

    let study = Study::with_people();
    std::fs::create_dir(study.path("tls")).unwrap();
    let served = Served::of(study, &["--tls-self-made=tls"]);
    let mode =
        |name: &str| served.study.path(name).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("tls/self-made.key"), 0o600);
    let before = std::fs::read(served.study.path("tls/self-made.crt")).unwrap();
    // A client that asks for TLS gets it.
    let mut socket = client::connect(served.port);
    socket.write_all(&[0, 0, 0, 8, 4, 210, 22, 47]).unwrap();
    let mut answer = [0];
    socket.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"S");
    let study = served.kill();
    let served = Served::of(study, &["--tls-self-made=tls"]);
    assert_eq!(std::fs::read(served.study.path("tls/self-made.crt")).unwrap(), before);
    let study = served.kill();
    let both = ["--tls-self-made", "--tls-cert", "a.crt", "--tls-key", "a.key"];
    let run = study.run(&[["serve", "study.db"].as_slice(), &both].concat());
    run.says(2, &["cannot be used with"]);
    assert!(!study.path("self-made.key").exists());
    std::fs::remove_file(study.path("tls/self-made.key")).unwrap();
    let run = study.run(&["serve", "study.db", "--listen", "127.0.0.1:0", "--tls-self-made=tls"]);
    run.says(1, &["self-made.crt is there without"]);
}

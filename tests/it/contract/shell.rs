//! The program among pipes, full disks and the files of its user: an answer that was paid for is
//! never lost in silence, and what one analyst typed is not another's to read.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use crate::contract::program::{Run, Study};

const CHARGED: &str = "SELECT LAPLACE(eps=1) COUNT(*) FROM people";
const LOST: &str = "the answer could not be written";

/// A pipe that its reader has left.
fn closed() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

fn full() -> Stdio {
    File::options().write(true).open("/dev/full").unwrap().into()
}

fn into(study: &Study, out: Stdio, arguments: &[&str]) -> Run {
    study.command(arguments).stdout(out).stderr(Stdio::piped()).output().unwrap().into()
}

/// `hushql … | true` charged, and ended with 0 as if all had been answered.
#[test]
fn a_charged_answer_that_nobody_gets_is_an_error() {
    let study = Study::with_people();
    for format in ["table", "csv", "json"] {
        for out in [closed, full] {
            let before = study.spent().0;
            let ask = ["study.db", "--analyst", "lab", "--format", format, "--keep-going", "-c"];
            let twice = format!("{CHARGED}; {CHARGED}");
            let run = into(&study, out(), &[&ask[..], &[&twice]].concat());
            run.says(1, &[LOST, "what was charged stays charged"]);
            assert_eq!(
                study.spent().0,
                before + 1,
                "{format}: no query is asked when its output is lost"
            );
            let quiet = into(&study, out(), &[&["-q"], &ask[..], &[CHARGED]].concat());
            quiet.says(1, &[LOST]);
        }
    }
}

#[test]
fn what_cost_nothing_may_go_unread() {
    let study = Study::with_people();
    for format in ["table", "csv", "json"] {
        let run = |out, sql: &str| {
            into(&study, out, &["study.db", "--analyst", "lab", "--format", format, "-c", sql])
        };
        for sql in ["SHOW TABLES", "SELECT 1", &format!("EXPLAIN PRIVACY {CHARGED}")] {
            let unread = run(closed(), sql);
            assert_eq!((unread.status, unread.err.as_str()), (0, ""), "{sql}");
            run(full(), sql).says(1, &["error: "]);
        }
        // What failed has failed, whoever reads of it.
        assert_eq!(run(closed(), "SELECT id FROM people").status, 3, "{format}");
        assert_eq!(run(closed(), "SELECT 'open").status, 1, "{format}");
        assert_eq!(run(closed(), "SELECT LAPLACE(eps=50001) COUNT(*) FROM people").status, 4);
    }
    assert_eq!(study.spent().0, 0);
    // A suite that failed has failed, and one that charged says that nobody got its verdict.
    study.write("wrong.slt", "query I\nSELECT 1\n----\n2\n");
    study.write("charged.slt", format!("statement ok\n{CHARGED}\n"));
    assert_eq!(into(&study, closed(), &["slt", "wrong.slt"]).status, 1);
    into(&study, closed(), &["slt", "charged.slt", "--vault", "study.db"]).says(1, &[LOST]);
}

/// Whether the last thing that a terminal shows is a prompt.
fn asks(shown: &[u8]) -> bool {
    let mut text = String::new();
    let mut rest = String::from_utf8_lossy(shown).into_owned();
    // Escape sequences move the cursor and colour the prompt; each ends with a letter.
    while let Some((before, sequence)) = rest.split_once("\u{1b}[") {
        text.push_str(before);
        rest = sequence
            .trim_start_matches(|c: char| !c.is_ascii_alphabetic())
            .chars()
            .skip(1)
            .collect();
    }
    (text + &rest).trim_end_matches('\r').ends_with("> ")
}

/// The shell on a terminal of its own; `None` where no program makes one. Each line is typed when
/// the shell asks for it, because the input that comes while it sets up the terminal may be lost.
fn typed(study: &Study, arguments: &str, lines: &[String]) -> Option<Run> {
    const PATIENCE: Duration = Duration::from_secs(120);
    let program = env!("CARGO_BIN_EXE_hushql");
    let mut command = Command::new("script");
    command.args(["-qec", &format!("'{program}' {arguments}"), "/dev/null"]);
    command.current_dir(study.folder()).env("XDG_DATA_HOME", study.path("data"));
    command.env("TERM", "xterm").env("HOME", study.folder()).env("HUSHQL_CONFIG", "");
    let spawned =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut child = spawned.ok()?;
    let (mut keys, mut screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let (send, seen) = mpsc::channel();
    let reader = thread::spawn(move || {
        let mut chunk = [0; 4_096];
        while let Ok(n @ 1..) = screen.read(&mut chunk) {
            send.send(chunk[..n].to_vec()).unwrap();
        }
    });
    let (begun, mut shown, mut typed) = (Instant::now(), Vec::new(), lines.iter());
    loop {
        match seen.recv_timeout(Duration::from_millis(200)) {
            Ok(more) => shown.extend(more),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) if begun.elapsed() > PATIENCE => {
                child.kill().unwrap();
                panic!("the shell waits: {}", String::from_utf8_lossy(&shown));
            }
            Err(RecvTimeoutError::Timeout) if asks(&shown) => {
                shown.push(b'\n');
                if let Some(line) = typed.next() {
                    keys.write_all(line.as_bytes()).unwrap();
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
    reader.join().unwrap();
    let status = child.wait().unwrap().code().unwrap_or(-1);
    Some(Run { status, out: String::from_utf8(shown).unwrap(), err: String::new() })
}

fn histories(study: &Study) -> Vec<PathBuf> {
    let entries = fs::read_dir(study.path("data/hushql")).into_iter().flatten().flatten();
    let mut found: Vec<_> = entries.map(|entry| entry.path()).collect();
    found.sort();
    found
}

#[test]
fn every_name_has_a_history_of_its_own() {
    let study = Study::with_people();
    let old = study.path("data/hushql/history");
    fs::create_dir_all(old.parent().unwrap()).unwrap();
    fs::write(&old, "#V2\nSELECT 'of everybody';\n").unwrap();
    let ask = |word: &str| [format!("SELECT '{word}';\n"), "\\q\n".to_owned()];
    let Some(run) = typed(&study, "study.db --analyst lab --no-history", &ask("unseen")) else {
        println!("skipped: there is no `script` that makes a terminal");
        return;
    };
    assert!(run.out.contains("unseen"), "{run:?}");
    assert_eq!(histories(&study), std::slice::from_ref(&old), "none is written");
    for (arguments, word) in [
        ("study.db --analyst lab", "zebra"),
        ("study.db --analyst other", "heron"),
        ("study.db --owner", "otter"),
        ("demo", "camel"),
    ] {
        typed(&study, arguments, &ask(word)).unwrap();
        // Once more: what is there is read, and written on.
        typed(&study, arguments, &ask(&format!("{word} again"))).unwrap();
    }
    let files: Vec<_> = histories(&study).into_iter().filter(|path| *path != old).collect();
    let texts: Vec<String> = files.iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    assert_eq!(files.len(), 4, "{files:?}");
    for word in ["zebra", "heron", "otter", "camel"] {
        let with: Vec<_> = texts.iter().filter(|text| text.contains(word)).collect();
        assert_eq!(with.len(), 1, "{word}: {texts:?}");
        assert_eq!(with[0].matches("SELECT").count(), 2, "{with:?}");
    }
    for file in &files {
        assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600, "{file:?}");
    }
    assert_eq!(fs::read_to_string(&old).unwrap(), "#V2\nSELECT 'of everybody';\n", "left as it is");
}

/// `-c "-- a comment …"` was taken for an option.
#[test]
fn a_statement_may_begin_with_a_comment() {
    let study = Study::with_people();
    let run = study.lab("-- how many\nSELECT LAPLACE(eps=1000) COUNT(*) AS n FROM people");
    run.says(0, &["cost ε = 1000"]);
    assert!(run.out.contains('4'), "{run:?}");
    study.lab("-- nothing").says(0, &[]);
    study.lab("-1").says(1, &["syntax error at line 1, column 1"]);
    study.run(&["study.db", "--analyst", "lab", "-c"]).says(2, &["-c"]);
    study.write("-odd --name.sql", "SELECT 'found' AS x");
    let run = study.run(&["study.db", "--analyst", "lab", "-f", "-odd --name.sql"]);
    run.says(0, &[]);
    assert!(run.out.contains("found"), "{run:?}");
}

/// Whoever asks every day names the analyst once.
#[test]
fn the_environment_and_a_file_name_the_analyst() {
    let study = Study::with_people();
    let ask = |variables: &[(&str, &str)], more: &[&str]| -> Run {
        let sql = "SELECT LAPLACE(eps=1) COUNT(*) FROM people; \
                   SELECT analyst FROM hushql.ledger ORDER BY sequence DESC LIMIT 1";
        let mut command =
            study.command(&[&["study.db", "--format", "csv", "-c", sql], more].concat());
        command.envs(variables.iter().copied()).output().unwrap().into()
    };
    ask(&[], &[]).says(2, &["--analyst NAME", "HUSHQL_ANALYST"]);
    study.write("config.toml", "analyst = \"filed\"\nformat = \"json\"\nrows = 1\n");
    let file = ("HUSHQL_CONFIG", "config.toml");
    for (variables, more, name) in [
        (&[("HUSHQL_ANALYST", "lab")][..], &[][..], "lab"),
        (&[file], &[], "filed"),
        (&[file, ("HUSHQL_ANALYST", "lab")], &[], "lab"),
        (&[file, ("HUSHQL_ANALYST", "lab")], &["--analyst", "other"], "other"),
        (&[file, ("HUSHQL_ANALYST", "lab")], &["--owner"], "owner"),
    ] {
        let run = ask(variables, more);
        run.says(0, &[]);
        assert!(run.out.ends_with(&format!("analyst\n{name}\n")), "{run:?}");
    }
    study.write("config.toml", "analyst = \"filed\"\nformet = \"json\"\n");
    ask(&[file], &[]).says(2, &["config.toml, line 2: there is no setting formet"]);
    ask(&[("HUSHQL_CONFIG", "none.toml")], &["--owner"]).says(1, &["none.toml"]);
}

/// A column without a name had the planner's: `avg(adult.age)`, also for `CAST(AVG(age) AS INT)`.
#[test]
fn columns_are_headed_by_what_was_written() {
    let study = Study::new();
    let answer = |sql: &str| {
        let run = study.run(&["demo", "--format", "json", "-c", sql]);
        run.says(0, &[]).lines().remove(0)
    };
    for (list, columns) in [
        ("AVG(age), COUNT(DISTINCT Occupation)", vec!["avg(age)", "count(DISTINCT occupation)"]),
        ("LAPLACE(eps=1) AVG(age), 1 + 1", vec!["avg(age)", "1 + 1"]),
        ("EXPONENTIAL(eps=1) QUANTILE(age, 0.25)", vec!["quantile(age, 0.25)"]),
        ("CAST(AVG(age) AS INT), round(AVG(age),2) AS r", vec!["CAST(avg(age) AS INT)", "r"]),
        ("count(*) FILTER (WHERE age>30)", vec!["count(*) FILTER (WHERE age > 30)"]),
        // Two columns never have one name: then both keep that of the planner.
        ("AVG(age), 1 AS \"avg(age)\"", vec!["avg(adult.age)", "avg(age)"]),
    ] {
        let answer = answer(&format!("SELECT {list} FROM adult"));
        assert_eq!(answer["columns"], serde_json::json!(columns), "{list}: {answer}");
        // The accuracy of a column has its name.
        for one in answer["accuracy"].as_array().unwrap() {
            assert!(columns.iter().any(|name| one["column"] == *name), "{answer}");
        }
    }
    // Public queries are headed the same way. The names by which a query refers to its columns stay
    // what they are.
    let sql = "SELECT lower('A'), t.x + 1 FROM (SELECT 1 AS x) AS t ORDER BY t.x + 1";
    assert_eq!(answer(sql)["columns"], serde_json::json!(["lower('A')", "t.x + 1"]));
}

#[test]
fn completions_and_the_manual_page_are_printed() {
    let study = Study::new();
    let run = study.run(&["completions", "bash"]);
    run.says(0, &[]);
    assert!(run.out.contains("--keep-going"), "{run:?}");
    let run = study.run(&["man"]);
    run.says(0, &[]);
    assert!(run.out.starts_with(".ie") || run.out.contains(".TH hushql"), "{run:?}");
}

/// Names under which a charge reads as the owner's.
#[test]
fn no_analyst_reads_like_the_owner() {
    let study = Study::with_people();
    for name in [
        "0wner",
        "OWNER",
        "own3r",
        "ovvner",
        "owner_",
        "\u{43e}wner",
        "own\u{435}r",
        "owner\u{200b}",
    ] {
        let run = study.run(&["study.db", "--analyst", name, "-c", "SELECT 1"]);
        run.says(1, &["cannot be the name of an analyst", "owner"]);
        assert!(run.err.is_ascii(), "{run:?}");
    }
    study.run(&["study.db", "--analyst", "co-owner", "-c", "SELECT 1"]).says(0, &[]);
}

/// `--cluster` is handed over, with all arguments, to the program that has workers: the one beside
/// this one. Without it, a sentence says how it is built.
#[test]
fn workers_are_asked_by_the_program_that_has_them() {
    let study = Study::new();
    let installed = study.path("installed");
    fs::create_dir(&installed).unwrap();
    // Copied, since a link would lead to the folder of the build; and written by other programs,
    // since what this one has open for writing cannot be started while another test starts a
    // process.
    let program = installed.join("hushql");
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_hushql")).arg(&program).status();
    assert!(copied.unwrap().success());
    let arguments = ["study.db", "--cluster", "keys", "--analyst", "lab", "-c", "SELECT 'a b'"];
    let run = || -> Run {
        let mut command = Command::new(&program);
        command.args(arguments).current_dir(study.folder()).stdin(Stdio::null());
        command.env("PATH", "").env("HUSHQL_CONFIG", "").output().unwrap().into()
    };
    run().says(1, &["--cluster: hushql-cluster cannot be started", "-p hushql-cluster`"]);
    let script = r#"printf '#!/bin/sh\nprintf "%%s|" "$@"\nexit 3\n' >hushql-cluster && chmod 755 hushql-cluster"#;
    let written = Command::new("sh").args(["-c", script]).current_dir(&installed).status();
    assert!(written.unwrap().success());
    let ran = run();
    ran.says(3, &[]);
    assert_eq!(ran.out, "study.db|--cluster|keys|--analyst|lab|-c|SELECT 'a b'|");
}

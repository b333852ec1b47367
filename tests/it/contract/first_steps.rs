//! `hushql init` with data: what it makes, what it leaves when it fails, and what it never shows.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use tempfile::TempDir;

use super::program::{Run, Study};

/// A folder without a vault.
struct Place {
    study: Study,
}

impl Place {
    fn new() -> Self {
        let study = Study::new();
        fs::remove_file(study.path("study.db")).unwrap();
        let text = "patient,age,ward,fee\n1,31,north,10.5\n1,31,south,3\n2,64,north,8\n";
        study.write("visits.csv", text);
        Self { study }
    }

    /// Runs the program with these lines typed.
    fn type_in(&self, arguments: &[&str], lines: &str) -> Run {
        let mut command = self.study.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A program that fails at once reads nothing.
        let _ = child.stdin.take().unwrap().write_all(lines.as_bytes());
        child.wait_with_output().unwrap().into()
    }

    fn owner(&self, statement: &str) -> String {
        self.study.run(&["visits.db", "--owner", "-c", statement, "--format", "csv"]).out
    }

    /// The names in the folder.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.study.folder()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[test]
fn a_file_becomes_an_answer() {
    let place = Place::new();
    let lines = "\n4\n\nnorth, south\n0 100\n2\nyes\n";
    let run = place.type_in(&["init", "visits.csv"], lines);
    run.says(0, &["MAX ROWS 4", "BETWEEN (0, 120)", "IN ('north', 'south')", "Go on:"]);
    assert!(run.out.contains("people"), "{run:?}");
    let declared = place.owner("SHOW CREATE TABLE visits");
    assert!(declared.contains("MAX ROWS 4") && declared.contains("(0, 100)"), "{declared}");
    let budget = place.owner("SHOW CREATE BUDGET visits");
    assert!(budget.contains("epsilon=2") && budget.contains("default=0.2"), "{budget}");
    // The first question is charged, as any other.
    let paid = "SELECT COUNT(*) AS n FROM hushql.ledger WHERE kind = 'paid'";
    assert_eq!(place.owner(paid), "n\n1\n");
}

#[test]
fn suggestions_are_taken_unasked() {
    let place = Place::new();
    place.study.run(&["init", "visits.csv", "--yes"]).says(0, &["(patient)", "epsilon=1"]);
    let declared = place.owner("SHOW CREATE TABLE visits");
    assert!(declared.contains("BETWEEN (0, 120)"), "{declared}");
    // A column whose name says nothing of people stops it before there is a vault.
    let place = Place::new();
    place.study.write("visits.csv", "a,b\n1,2\n");
    place.study.run(&["init", "visits.csv", "--yes"]).says(1, &["--unit COLUMN", "--unit ROW"]);
    assert_eq!(place.names(), ["visits.csv"]);
    place.study.run(&["init", "visits.csv", "--yes", "--unit", "row"]).says(0, &["UNIT ROW"]);
    let wrong = place.study.run(&["init", "visits.csv", "b.db", "--yes", "--unit", "c"]);
    wrong.says(1, &["no column has that name"]);
    // A number of rows is named like one of people: what it is, the owner says.
    let place = Place::new();
    place.study.write("visits.csv", "id,age\n1,30\n2,40\n3,50\n");
    let asked = place.study.run(&["init", "visits.csv", "--yes"]);
    asked.says(1, &["id may number people or rows", "--unit id", "--unit ROW"]);
    assert_eq!(place.names(), ["visits.csv"]);
    let begun = place.type_in(&["init", "visits.csv"], "id\n1\nq\n");
    begun.says(0, &["id may number people or only rows", "(id)"]);
    let declared = place.owner("SHOW CREATE TABLE visits");
    assert!(declared.contains("PRIVACY UNIT (id) UNIQUE"), "{declared}");
}

#[test]
fn it_is_left_and_taken_up_again() {
    let place = Place::new();
    place.type_in(&["init", "visits.csv"], "\n4\n0 99\nq\n").says(0, &["left", "visits.db"]);
    let again = place.type_in(&["init", "visits.csv"], "skip\n0 50\n1\nno\n");
    again.says(0, &["ward", "fee", "Go on:"]);
    assert!(!again.err.contains("Who is a person"), "{again:?}");
    let declared = place.owner("SHOW CREATE TABLE visits");
    assert!(declared.contains("(0, 99)") && declared.contains("(0, 50)"), "{declared}");
    // The end of the input is a way to leave, too.
    let place = Place::new();
    place.type_in(&["init", "visits.csv"], "").says(0, &["left"]);
    place.type_in(&["init", "visits.csv"], "").says(0, &["Who is a person"]);
}

/// Values, and how many of them cannot be read, are the owner's: a transcript may be shown to
/// others.
#[test]
fn nothing_of_the_rows_is_shown() {
    let place = Place::new();
    let mut text = "patient,age,ward\n".to_owned();
    for row in 0..40 {
        text.push_str(&format!("{},{},secret ward\n", 700_001 + row / 4, 30 + row));
    }
    text.push_str("700099,unspeakable,secret ward\n700098,\"open,secret ward\n");
    place.study.write("visits.csv", &text);
    // The declaration reads the rows, and fails: some patient has more than two.
    let run =
        place.type_in(&["init", "visits.csv"], "patient\n2\npatient\n4\nskip\nskip\n1\nyes\n");
    let shown = format!("{}{}", run.out, run.err);
    for word in ["7000", "secret", "unspeakable", "open", "1 of", "more than 2"] {
        assert!(!shown.contains(word), "{word} in {shown}");
    }
    run.says(0, &["said to the owner alone", "Go on:"]);
}

#[test]
fn bad_input_has_a_sentence_and_leaves_nothing() {
    let place = Place::new();
    place.study.write("bare.csv", "10,31,3.5\n11,64,2\n");
    place.study.write("notes.txt", "some notes, which are no table");
    place.study.write("book.xlsx", "PK\u{3}\u{4} and so on, and so on");
    place.study.write("empty.csv", "");
    fs::create_dir(place.study.path("nothing")).unwrap();
    let before = place.names();
    for (arguments, words) in [
        (&["gone.csv"][..], &["gone.csv"][..]),
        (&["bare.csv"], &["looks like a row", "--no-header"]),
        (&["notes.txt"], &["notes.txt", ".csv"]),
        (&["book.xlsx"], &["XLSX"]),
        (&["empty.csv"], &["empty.csv"]),
        (&["nothing"], &["holds no file"]),
        (&["postgres://u@127.0.0.1:1/d"], &["--table"]),
        (&["a.db", "b.db"], &["only one"]),
        (&["study.db", "--yes"], &["mydata.csv"]),
    ] {
        let run = place.type_in(&[&["init"], arguments].concat(), "\n\n\n\n\n\n");
        run.says(1, words);
        assert!(!run.err.contains("64"), "a value is shown: {run:?}");
        assert_eq!(place.names(), before, "{arguments:?}");
    }
    let bare = place.study.run(&["init", "bare.csv", "--no-header", "--yes", "--unit", "row"]);
    bare.says(0, &["has_header"]);
    // A vault of a newer program is refused, and stays as it is.
    let newer = place.study.path("newer.db");
    place.study.run(&["init", "newer.db"]).says(0, &[]);
    let vault = rusqlite::Connection::open(&newer).unwrap();
    vault.pragma_update(None, "user_version", 1_000).unwrap();
    drop(vault);
    let bytes = fs::read(&newer).unwrap();
    place.study.run(&["init", "newer.db", "visits.csv", "--yes"]).says(1, &["newer HushQL"]);
    place.study.run(&["upgrade", "newer.db"]).says(1, &["newer HushQL"]);
    assert_eq!(fs::read(&newer).unwrap(), bytes);
}

#[test]
fn several_tables_lead_to_one_another() {
    let place = Place::new();
    place.study.write("patients.csv", "id,age\n1,31\n2,64\n");
    place.study.write("visits.csv", "visit,patient_id,fee\n1,1,5\n2,1,6\n3,2,7\n");
    let lines = "id\n1\n\n1\nyes\n\n\nskip\n0 10\nyes\n";
    let run = place.type_in(&["init", "study.db", "patients.csv", "visits.csv"], lines);
    run.says(0, &["VIA (patient_id) REFERENCES patients(id)", "Go on:"]);
}

#[test]
fn versions_are_told_in_full() {
    let folder = TempDir::new().unwrap();
    let study = Study::new();
    assert_eq!(study.run(&["--version"]).out, format!("hushql {}\n", env!("CARGO_PKG_VERSION")));
    let verbose = study.run(&["--version", "--verbose"]).out;
    for part in ["target", "DataFusion", "Arrow", "SQLite", "vault format", "features"] {
        assert!(verbose.contains(part), "{part}: {verbose}");
    }
    let support = study.run(&["doctor", "study.db", "--support"]);
    support.says(0, &[]);
    assert!(support.out.contains("findings") && !support.out.contains("study.db"), "{support:?}");
    let folder = folder.path().to_str().unwrap();
    assert!(!support.out.contains(folder), "{support:?}");
    study.run(&["upgrade", "study.db"]).says(0, &["format", "0.1.0"]);
}

#[cfg(feature = "serve")]
#[test]
fn a_port_in_use_is_named_with_another_one() {
    let study = Study::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let run = study.run(&["serve", "study.db", "--listen", &address]);
    run.says(1, &[&address, "in use by another program", "--listen 127.0.0.1:"]);
}

//! The shell on a terminal of its own: what it draws at several widths, how it takes what is
//! pasted, and where Ctrl-C leads.
//!
//! `script` makes the terminal; where it is missing, these tests are skipped.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use crate::contract::program::Study;

const CTRL_C: &str = "\u{3}";
const CTRL_D: &str = "\u{4}";

/// A shell on a terminal.
pub(crate) struct Terminal {
    child: Child,
    keys: ChildStdin,
    screen: Receiver<Vec<u8>>,
    /// What has been shown, and how much of it was waited for.
    shown: Vec<u8>,
    seen: usize,
    study: Study,
}

impl Terminal {
    /// The shell on the built-in tables, on a terminal of this width; `None` where nothing makes a
    /// terminal.
    pub(crate) fn demo(width: u16, variables: &[(&str, &str)]) -> Option<Self> {
        Self::open(Study::new(), "demo", width, variables)
    }

    /// The shell with these arguments in the folder of a study.
    pub(crate) fn open(
        study: Study,
        arguments: &str,
        width: u16,
        variables: &[(&str, &str)],
    ) -> Option<Self> {
        let program = env!("CARGO_BIN_EXE_hushql");
        let line = format!("stty cols {width} rows 24; exec '{program}' {arguments} --no-history");
        let mut command = Command::new("script");
        command.args(["-qec", &line, "/dev/null"]).current_dir(study.folder());
        command.env("TERM", "xterm").env("HOME", study.folder()).env("HUSHQL_CONFIG", "");
        command.env("LC_ALL", "C.UTF-8").env_remove("NO_COLOR").envs(variables.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let Ok(mut child) = command.spawn() else {
            println!("skipped: there is no `script` that makes a terminal");
            return None;
        };
        let (keys, mut screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (send, receive) = mpsc::channel();
        thread::spawn(move || {
            let mut chunk = [0; 4_096];
            while let Ok(n @ 1..) = screen.read(&mut chunk) {
                if send.send(chunk[..n].to_vec()).is_err() {
                    break;
                }
            }
        });
        let mut terminal = Self { child, keys, screen: receive, shown: Vec::new(), seen: 0, study };
        terminal.until("> ");
        // Keys that come while the editor sets up the terminal may be lost.
        thread::sleep(Duration::from_millis(200));
        Some(terminal)
    }

    pub(crate) fn study(&self) -> &Study {
        &self.study
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// What is shown until these words come, without the sequences that move the cursor.
    #[track_caller]
    pub(crate) fn until(&mut self, words: &str) -> String {
        let begun = Instant::now();
        loop {
            let text = plain(&self.shown);
            let new = text.get(self.seen..).unwrap_or_default();
            if let Some(at) = new.find(words) {
                let found = new[..at + words.len()].to_owned();
                self.seen += found.len();
                return found;
            }
            assert!(begun.elapsed() < Duration::from_secs(120), "no `{words}` in {new}");
            if let Ok(more) = self.screen.recv_timeout(Duration::from_millis(100)) {
                self.shown.extend(more);
            }
        }
    }

    /// Leaves, and returns all that was shown as it was.
    pub(crate) fn leave(mut self) -> String {
        self.press("\r\\q\r");
        drop(self.keys);
        while let Ok(more) = self.screen.recv_timeout(Duration::from_secs(60)) {
            self.shown.extend(more);
        }
        assert!(self.child.wait().unwrap().success());
        String::from_utf8_lossy(&self.shown).into_owned()
    }
}

/// A text without escape sequences, each of which ends with a letter.
fn plain(shown: &[u8]) -> String {
    let text = String::from_utf8_lossy(shown);
    let mut parts = text.split("\u{1b}[");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| !c.is_ascii_alphabetic());
        plain.extend(rest.chars().skip(1));
    }
    plain
}

#[test]
fn a_statement_goes_on_in_the_next_line() {
    let Some(mut terminal) = Terminal::demo(80, &[]) else { return };
    terminal.press("SELECT 'on\r");
    terminal.until("'> ");
    terminal.press("e' || (\r");
    terminal.until("(> ");
    terminal.press("'two') AS x\r");
    terminal.until("-> ");
    terminal.press("\\g\r");
    terminal.until("│ on\\netwo");
    // Ctrl-C drops a statement, and a line; the command that it takes is said.
    terminal.press("SELECT 1\r");
    terminal.until("-> ");
    terminal.press("exit\r");
    terminal.until("\\q leaves");
    terminal.until("-> ");
    terminal.press(CTRL_C);
    terminal.until("hushql");
    terminal.press("nonsense");
    terminal.press(CTRL_C);
    // What was pasted behind Ctrl-C is dropped, too; a busy machine takes its time for that.
    thread::sleep(Duration::from_secs(2));
    terminal.press("SELECT 'a' || 'fter' AS y;\r");
    terminal.until("│ after");
    terminal.leave();
}

/// Of a script that was pasted without the brackets of a terminal, only the first statement ran:
/// the rest was lost between two prompts, or was taken for the answer to a question.
#[test]
fn a_pasted_script_runs_whole() {
    let Some(mut terminal) = Terminal::demo(80, &[]) else { return };
    terminal
        .press("SELECT 'o' || 'ne' AS x;\rSELECT 't' ||\r'wo' AS x;\rSELECT 'th' || 'ree' AS x;\r");
    for word in ["│ one", "│ two", "│ three"] {
        terminal.until(word);
    }
    terminal.press(
        "SELECT LAPLACE(eps=1) COUNT(*) FROM adult;\rSELECT\r'fo' || 'ur' AS x;\r\rSELECT 'fi' || 've' AS x;\r",
    );
    terminal.until("Run it? (y/N)");
    thread::sleep(Duration::from_secs(1));
    terminal.press("n\r");
    terminal.until("not run; nothing was charged");
    terminal.until("│ four");
    terminal.until("│ five");
    // With brackets, it is one input.
    terminal.press("\u{1b}[200~SELECT 'si' || 'x' AS x;\nSELECT 'sev' || 'en' AS x;\u{1b}[201~\r");
    terminal.until("│ six");
    terminal.until("│ seven");
    terminal.leave();
}

#[test]
fn what_was_skipped_is_said_and_the_place_is_shown() {
    let Some(mut terminal) = Terminal::demo(80, &[]) else { return };
    terminal.press("SELECT 1 AS a; SELECT oops FROM census; SELECT 2; SELECT 3;\r");
    terminal.until("there is no column `oops`");
    let shown = terminal.until("the 2 statements after it were not run");
    let mut lines = shown.lines().skip(1);
    let (text, caret) = (lines.next().unwrap(), lines.next().unwrap());
    assert_eq!(text.find("oops"), caret.find('^'), "{shown}");
    terminal.leave();
}

#[test]
fn ctrl_c_ends_what_runs_and_what_is_asked() {
    let Some(mut terminal) = Terminal::demo(80, &[]) else { return };
    terminal.press("SELECT LAPLACE(eps=1) COUNT(*) FROM adult; SELECT 1;\r");
    terminal.until("(y/N)");
    thread::sleep(Duration::from_millis(200));
    terminal.press(CTRL_C);
    terminal.until("not run; nothing was charged");
    terminal.until("the statement after it was not run");
    let tables: Vec<String> = (0..14).map(|n| format!("census t{n}")).collect();
    terminal.press(&format!("SELECT SUM(t1.share + t2.share) FROM {};\r", tables.join(", ")));
    // After a second, the time that has passed is shown.
    terminal.until("running");
    terminal.press(CTRL_C);
    terminal.until("cancelled");
    terminal.press("SELECT 'st' || 'ill' AS x;\r");
    terminal.until("│ still");
    terminal.press("SELECT 1\r");
    terminal.until("-> ");
    terminal.press(CTRL_D);
    terminal.until("the unfinished statement was not run");
    drop(terminal.keys);
    assert!(terminal.child.wait().unwrap().success());
}

/// A public and a private file, of thirty megabytes each, and what joins them for a while.
fn long_files() -> Study {
    let study = Study::new();
    let pad = "x".repeat(300);
    let rows = |of: i64| -> String {
        (0..100_000).map(|id| format!("{id},{},{pad}\n", id % of)).collect()
    };
    study.write("open.csv", format!("id,x,pad\n{}", rows(7)));
    study.write("rows.csv", format!("id,x,pad\n{}", rows(5)));
    let numbers: String = (0..20_000).map(|y| format!("{y}\n")).collect();
    study.write("numbers.csv", format!("y\n{numbers}"));
    study
        .owner(
            "CREATE EXTERNAL TABLE k STORED AS CSV LOCATION 'numbers.csv'; ALTER TABLE k SET PUBLIC;
             CREATE EXTERNAL TABLE o STORED AS CSV LOCATION 'open.csv'; ALTER TABLE o SET PUBLIC;
             CREATE EXTERNAL TABLE p STORED AS CSV LOCATION 'rows.csv' OPTIONS ('content_hash' 'false');
             ALTER TABLE p SET PRIVACY UNIT (id);
             CREATE PRIVACY BUDGET p FOR p LIMIT (epsilon=1000)
                 PER QUERY (default=1)",
        )
        .says(0, &[]);
    study
}

/// The line of a running statement says how much was read, where that tells an analyst nothing of
/// private rows.
#[test]
fn a_running_statement_says_how_much_was_read() {
    let public = "SELECT COUNT(*) AS n FROM k JOIN o ON o.x * 3000 > k.y;";
    let private = "SELECT LAPLACE(eps=1, rows=1) COUNT(*) AS n FROM p JOIN k ON p.id < k.y;";
    for (who, sql, is_seen) in [
        ("--analyst lab", public, true),
        ("--analyst lab", private, false),
        ("--owner", private, true),
    ] {
        let arguments = format!("study.db {who}");
        let Some(mut terminal) = Terminal::open(long_files(), &arguments, 100, &[]) else { return };
        terminal.press(&format!("{sql}\r"));
        let begun = terminal.until("running 1s");
        assert!(!begun.contains("% read"), "{begun}");
        if is_seen {
            let mut shares: Vec<u8> = Vec::new();
            while shares.iter().all(|share| *share == shares[0]) {
                let shown = terminal.until(" % read)");
                let number = shown.trim_end_matches(" % read)").rsplit('(').next().unwrap();
                shares.push(number.parse().unwrap());
            }
            assert!(shares.is_sorted() && shares.iter().all(|share| *share <= 99), "{shares:?}");
        } else {
            let shown = terminal.until("running 3s");
            assert!(!shown.contains('%'), "{shown}");
        }
        terminal.press(CTRL_C);
        terminal.until("> ");
        terminal.leave();
    }
}

#[test]
fn no_width_breaks_a_number() {
    for width in [60, 80, 200] {
        let Some(mut terminal) = Terminal::demo(width, &[]) else { return };
        terminal.press(
            "SELECT 123456789012345.5 AS first, 223456789012345.5 AS second, \
             323456789012345.5 AS third, 423456789012345.5 AS fourth, 'wo' || 'rds' AS t;\r",
        );
        let shown = terminal.until("words");
        let expanded = shown.contains("─[ row 1 ]─");
        assert_eq!(expanded, width < 90, "{width}: {shown}");
        for number in 1..5 {
            assert!(shown.contains(&format!("{number}23456789012345.5")), "{width}: {shown}");
        }
        for line in shown.lines().filter(|line| line.starts_with(['│', '┌', '╞', '└', '─']))
        {
            assert!(line.chars().count() <= usize::from(width), "{width}: {line}");
        }
        terminal.leave();
    }
}

#[test]
fn long_answers_show_both_ends_or_are_paged() {
    let Some(mut terminal) = Terminal::demo(80, &[("HUSHQL_PAGER", "wc -l")]) else { return };
    let query = "SELECT a.status FROM census a, census b, census c;\r";
    terminal.press(query);
    terminal.until("(40 of 343 rows; \\rows all shows all)");
    terminal.press("\\pager on\r");
    terminal.until("long answers are paged");
    terminal.press(query);
    terminal.until("347");
    // Amounts are shown as they were written; a pipe gets what is stored.
    terminal.press("SELECT AVG(age), SUM(age), COUNT(*) FROM adult;\r");
    terminal.until("cost ε = 0.1 · left adult ε = 9.9");
    terminal.press("SHOW PRIVACY BUDGET adult;\r");
    let shown = terminal.until("693 days");
    assert!(shown.contains("ε = 0.1 ") && shown.contains("ε = 9.9, δ"), "{shown}");
    terminal.press("\\pset pager off\r");
    terminal.until("long answers are not paged");
    terminal.press("\\timing on\r");
    terminal.until("times are shown");
    terminal.press("SELECT 1;\r");
    terminal.until("time ");
    terminal.leave();
}

#[test]
fn the_locale_and_no_color_are_respected() {
    let Some(mut terminal) = Terminal::demo(80, &[("LC_ALL", "C"), ("NO_COLOR", "1")]) else {
        return;
    };
    terminal.press("SELECT LAPLACE(eps=0.1) COUNT(*) AS n FROM adult;\r");
    let shown = terminal.until("cost eps = 0.1");
    assert!(shown.contains("+/- 95 %") && shown.contains("+---"), "{shown}");
    terminal.press("\\budget\r");
    terminal.until("eps 9.9");
    terminal.press("SELECT LAPLACE(eps=0.1) COUNT(oops) AS n FROM adult;\r");
    terminal.until("there is no column");
    let all = terminal.leave();
    assert!(all.is_ascii(), "{all}");
    for colour in ["\u{1b}[1;36m", "\u{1b}[33m", "\u{1b}[2m"] {
        assert!(!all.contains(colour), "{all:?}");
    }
    let Some(terminal) = Terminal::demo(80, &[]) else { return };
    assert!(terminal.leave().contains("\u{1b}[1;36m"));
}

#[test]
fn words_are_completed_by_their_place() {
    let Some(mut terminal) = Terminal::demo(80, &[]) else { return };
    terminal.press("SELECT 10 * count(*) AS n FROM cen\t;\r");
    terminal.until("│ 70");
    terminal.press("SELECT 'x' || max(c.stat\t) AS y FROM census c;\r");
    terminal.until("│ xWidowed");
    terminal.leave();
}

/// Names of files are completed for the owner, and not for an analyst, who may sit behind another
/// account.
#[test]
fn names_of_files_are_completed_for_the_owner() {
    for (who, is_offered) in [("--owner", true), ("--analyst lab", false)] {
        let study = Study::with_people();
        study.write("zy declare.sql", "SELECT 'r' || 'un' AS x;\n");
        let arguments = format!("study.db {who}");
        let Some(mut terminal) = Terminal::open(study, &arguments, 100, &[]) else { return };
        terminal.press("\\i zy\t");
        if is_offered {
            terminal.until("zy declare.sql");
            terminal.press("\r");
            terminal.until("│ run");
        } else {
            thread::sleep(Duration::from_millis(500));
            terminal.press("\r");
            let shown = terminal.until("only the owner");
            assert!(!shown.contains("declare.sql"), "{shown}");
        }
        terminal.leave();
    }
}

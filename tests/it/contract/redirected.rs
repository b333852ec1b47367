//! `\o` and `\g` in the shell: results go into files by the rules of `COPY … TO`, which are looked
//! at before a charge. And `\help`, which explains words.

use std::fs;

use super::program::Study;
use super::terminal::Terminal;

const COUNT: &str = "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people";

/// The shell of an analyst whose export folder is `out`, if there is one.
fn analyst(with_folder: bool) -> Option<Terminal> {
    let study = Study::with_people();
    if with_folder {
        fs::create_dir(study.path("out")).unwrap();
        study.owner("ALTER VAULT SET EXPORT FOLDER 'out' FOR lab").says(0, &[]);
    }
    Terminal::open(study, "study.db --analyst lab", 80, &[])
}

fn text(terminal: &Terminal, name: &str) -> String {
    fs::read_to_string(terminal.study().path(name)).unwrap()
}

#[test]
fn results_go_into_the_file_until_they_come_back() {
    let Some(mut terminal) = Terminal::open(Study::with_people(), "study.db --owner", 80, &[])
    else {
        return;
    };
    terminal.press("\\o all.csv\r");
    terminal.until("results go into all.csv as CSV; \\o shows them here again");
    terminal.press(&format!("{COUNT}; SELECT 'a' || 'b' AS t;\r"));
    // The receipt stays on the terminal, the rows do not.
    let shown = terminal.until("cost ε = 1");
    assert!(!shown.contains('┌'), "{shown}");
    terminal.press("EXPLAIN PRIVACY SELECT 1;\r\\o\r");
    terminal.until("results are shown here again; all.csv is complete");
    let csv = text(&terminal, "all.csv");
    let lines: Vec<_> = csv.lines().collect();
    assert_eq!((lines[0], lines[2], lines[3]), ("n", "t", "ab"), "{csv}");
    assert!(csv.contains("cost"), "an explanation is a result, too: {csv}");
    terminal.press("SELECT 'h' || 'ere' AS t;\r");
    terminal.until("│ here");
    terminal.press("\\df bucket\r");
    terminal.until("WIDTH_BUCKET(x, lo, hi, n)\r\n");
    terminal.press("\\format tsv\r");
    terminal.until("answers are CSV with tabs");
    terminal.press("SELECT 1 AS x, 2 AS y;\r");
    terminal.until("x\ty\r\n1\t2");
    terminal.press("\\format table\r");
    terminal.until("answers are tables");
    // No file is overwritten, and what is wrong with a name changes nothing.
    terminal.press("\\o all.csv\r");
    terminal.until("`all.csv` exists already");
    terminal.press("\\o | wc -l\r");
    terminal.until("this shell runs no programs");
    terminal.press("\\o one.parquet\r");
    terminal.until("a Parquet file holds one answer: end its query with \\g one.parquet");
    // Tables are written as they are shown, whole and in UTF-8, whatever the terminal is; Markdown
    // and JSON by their endings.
    terminal.press("\\o 'two words.txt'\r");
    terminal.until("results go into two words.txt as tables");
    terminal.press(&format!("{COUNT};\r\\o a.md\r"));
    terminal.until("results go into a.md as tables of Markdown");
    terminal.press(&format!("{COUNT};\r\\o a.json\r"));
    terminal.until("results go into a.json as JSON");
    terminal.press(&format!("{COUNT};\r\\o\r"));
    terminal.until("a.json is complete");
    assert!(text(&terminal, "two words.txt").contains("┆ ± 95 % │"));
    assert!(text(&terminal, "a.md").starts_with("| n | ± 95 % |\n"));
    let line: serde_json::Value = serde_json::from_str(&text(&terminal, "a.json")).unwrap();
    assert_eq!((&line["columns"][0], &line["cost"]["epsilon"]), (&"n".into(), &1.into()), "{line}");
    // A file in which nothing was written is not left behind.
    terminal.press("\\o nothing.txt\r\\o\r");
    terminal.until("nothing.txt is complete");
    assert!(!terminal.study().path("nothing.txt").exists());
    terminal.leave();
}

#[test]
fn one_answer_goes_into_the_file_of_g() {
    let Some(mut terminal) = Terminal::open(Study::with_people(), "study.db --owner", 80, &[])
    else {
        return;
    };
    terminal.press(&format!("{COUNT} \\g one.csv\r"));
    terminal.until("written to one.csv");
    terminal.press("SELECT 1 AS x\r");
    terminal.until("-> ");
    terminal.press("\\g 'two.parquet'\r");
    terminal.until("written to two.parquet");
    assert!(text(&terminal, "one.csv").starts_with("n\n"));
    assert!(fs::read(terminal.study().path("two.parquet")).unwrap().starts_with(b"PAR1"));
    // The next result is shown, and the last answer can be written again, at no cost.
    terminal.press(&format!("{COUNT};\r"));
    terminal.until("┌");
    let spent = terminal.study().spent();
    terminal.press("\\g again.json\r");
    terminal.until("the last answer is written to again.json, at no further cost");
    assert_eq!(terminal.study().spent(), spent);
    assert!(text(&terminal, "again.json").contains("\"cost\":{\"epsilon\":1"));
    // A file that is there costs nothing; neither does a query that is refused leave one.
    terminal.press(&format!("{COUNT} \\g one.csv\r"));
    terminal.until("`one.csv` exists already");
    terminal.press("SELECT age FROM people \\g refused.csv\r");
    terminal.until("HQ001");
    assert_eq!(terminal.study().spent(), spent);
    assert!(!terminal.study().path("refused.csv").exists());
    terminal.press(&format!(
        "SELECT n, INTERVAL '1' DAY AS span FROM ({COUNT}) AS t \\g span.parquet\r"
    ));
    terminal.until("Parquet has no type for the column span");
    assert_eq!(terminal.study().spent(), spent);
    // What its file does not take is shown, and what follows is not run.
    terminal.press("EXPLAIN PRIVACY SELECT 1 \\g plan.parquet\r");
    terminal.until("cannot be written as Parquet");
    terminal.until("the result is shown here instead:");
    terminal.until("cost");
    assert!(!terminal.study().path("plan.parquet").exists());
    terminal.leave();
}

/// What an analyst's `COPY` may not write, `\o`, `\g` and `\plot` may not write either, and none of
/// it is charged.
#[test]
fn analysts_write_into_their_export_folder_alone() {
    let Some(mut terminal) = analyst(true) else { return };
    let before = terminal.study().spent();
    for name in ["../a.csv", "/tmp/hushql-o-attack.csv", "sub/a.csv", ".a.csv", "'a b.csv'"] {
        for command in [
            format!("\\o {name}\r"),
            format!("{COUNT} \\g {name}\r"),
            format!("\\plot {COUNT} TO '{}.svg'\r", name.trim_matches('\'')),
        ] {
            terminal.press(&command);
            terminal.until("HQ003 refused");
            terminal.until("such as answer.csv");
        }
    }
    fs::write(terminal.study().path("out/there.csv"), "mine").unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("/tmp/hushql-nowhere", terminal.study().path("out/link.csv"))
        .unwrap();
    for name in ["there.csv", "link.csv"] {
        terminal.press(&format!("\\o {name}\r"));
        terminal.until("exists already");
    }
    assert_eq!(terminal.study().spent(), before);
    assert!(!std::path::Path::new("/tmp/hushql-o-attack.csv").exists());
    terminal.press(&format!("{COUNT} \\g mine.csv\r"));
    terminal.until("written to mine.csv");
    assert!(text(&terminal, "out/mine.csv").starts_with("n\n"));
    assert_eq!(text(&terminal, "out/there.csv"), "mine");
    terminal.leave();
    let Some(mut terminal) = analyst(false) else { return };
    terminal.press("\\o a.csv\r");
    terminal.until("no export folder is declared for this analyst");
    assert_eq!(terminal.study().spent().0, 0);
    terminal.leave();
}

/// The greeting offers a question that can be asked, and `\help` explains its words.
#[test]
fn the_shell_offers_a_first_question_and_explains_words() {
    let study = Study::with_people();
    let Some(mut terminal) = Terminal::open(study, "study.db --analyst lab", 80, &[]) else {
        return;
    };
    terminal.press("SELECT LAPLACE(eps=0.1) COUNT(*) FROM people;\r");
    terminal.until("cost ε = 0.1");
    terminal.press("\\help median\r");
    terminal.until(
        "MEDIAN(x)\r\n  The value in the middle.\r\n  SELECT EXPONENTIAL(eps=1) MEDIAN(age)",
    );
    terminal.press("help medain\r");
    terminal.until("there is no help on medain; did you mean MEDIAN?");
    let shown = terminal.leave();
    let question = "A first question: SELECT LAPLACE(eps=0.1) COUNT(*) FROM people;";
    assert!(shown.contains(question), "{shown}");
}

//! What a word of the language does, for `\help WORD` and `\df WORD`, and the question that the
//! greeting offers.
//!
//! In: a word. Out: how it is written, a sentence and an example, from the engine's reference, or
//! the names that hold the word.
//!
//! ```text
//! \help median
//! MEDIAN(x)
//!   The value in the middle.
//!   SELECT EXPONENTIAL(eps=1) MEDIAN(age) AS middle FROM adult;
//! ```

use hushql_engine::bind::function_names;
use hushql_engine::dialect::{WordEntry, word_entries, word_entry};
use hushql_vault::ledger::BudgetState;

use super::complete::mechanisms;

/// The most entries that are written out for a part of a word.
const MOST: usize = 4;

/// The help on a word: its entry, or those of the words that hold it.
///
/// # Errors
/// A sentence that says what to write, if the language has no such word.
pub(super) fn about(word: &str) -> Result<String, String> {
    let word = word.trim_end_matches("()");
    if let Some(entry) = word_entry(word) {
        // A function can have the name of what owners declare: FLOOR(x), and floors of people.
        let plural = word_entry(&format!("{word}s")).filter(|plural| *plural != entry);
        let entries = [Some(entry), plural].into_iter().flatten();
        return Ok(entries.map(|entry| written_out(&entry)).collect::<Vec<_>>().join("\n"));
    }
    let entries = holding(word);
    match entries.as_slice() {
        [] => Err(match nearest(word) {
            Some(near) => format!("there is no help on {word}; did you mean {near}?"),
            None => format!("there is no help on {word}; \\df lists functions and mechanisms"),
        }),
        [_, ..] if entries.len() <= MOST => {
            Ok(entries.iter().map(written_out).collect::<Vec<_>>().join("\n"))
        }
        [_, ..] => Ok(entries.iter().map(|entry| entry.call).collect::<Vec<_>>().join("\n")),
    }
}

/// What to try on the built-in tables, each with what it shows.
const TRIES: [(&str, &str); 6] = [
    ("SELECT COUNT(*) FROM adult;", "plain SQL, default cost"),
    ("SELECT sex, LAPLACE(eps=1) AVG(age) AS age FROM adult GROUP BY sex;", "numbers with a ±"),
    ("SELECT ARGMAX EXPONENTIAL(eps=1) product FROM orders GROUP BY product;", "a choice"),
    ("EXPLAIN PRIVACY SELECT LAPLACE(eps=1) SUM(price) FROM orders;", "its cost, before paying"),
    ("SELECT age FROM adult;", "refused, with a remedy"),
    ("SHOW PRIVACY BUDGET;", "what is left"),
];

/// The greeting of the built-in tables: a screen of what to try.
pub(super) fn to_try() -> Vec<String> {
    let mut lines = vec![
        "The tables adult, bids, orders and census are invented and in memory; nothing is stored."
            .to_owned(),
        "Try, one after the other:".to_owned(),
    ];
    let widest = TRIES.iter().map(|(statement, _)| statement.len()).max().unwrap_or(0);
    lines.extend(TRIES.iter().map(|(statement, shows)| format!("  {statement:widest$}  {shows}")));
    lines.push(
        "\\d lists tables, \\help median explains a word, \\plot SELECT … draws an answer."
            .to_owned(),
    );
    lines.push("Your own data: hushql init mydata.csv".to_owned());
    lines
}

/// The functions and mechanisms whose names hold a word, in lines of this width; a few of them with
/// what they do.
///
/// # Errors
/// A sentence, if there are none.
pub(super) fn functions(word: &str, width: usize) -> Result<String, String> {
    let word = word.trim_end_matches("()").to_lowercase();
    if !word.is_empty() && (word_entry(&word).is_some() || holding(&word).len() <= MOST) {
        return about(&word);
    }
    let mut lines = Vec::new();
    let mechanisms = mechanisms().map(str::to_lowercase).collect();
    for (title, names) in [("mechanisms", mechanisms), ("functions", function_names())] {
        let names: Vec<_> = names.into_iter().filter(|name| name.contains(&word)).collect();
        if !names.is_empty() {
            lines.push(format!("{title}:"));
            lines.extend(in_lines(&names, width));
        }
    }
    match lines.is_empty() {
        true => about(&word),
        false => Ok(lines.join("\n")),
    }
}

/// A first question over a table with a budget: plain SQL where the owner declared a default cost.
pub(super) fn first_question(budgets: &[BudgetState]) -> Option<String> {
    let budget = &budgets.first()?.budget;
    let is_plain = budget.table.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let has_default = budget.per_query.default.is_some() || budget.per_query.default_rho.is_some();
    let count = if has_default { "COUNT(*)" } else { "LAPLACE(eps=0.1) COUNT(*)" };
    is_plain.then(|| format!("SELECT {count} FROM {};", budget.table))
}

/// The entries that have a name with this word in it.
fn holding(word: &str) -> Vec<WordEntry> {
    let word = word.to_uppercase();
    let holds = |entry: &&WordEntry| entry.names().any(|name| name.contains(&word));
    word_entries().iter().filter(holds).copied().collect()
}

fn written_out(entry: &WordEntry) -> String {
    format!("{}\n  {}\n  {};", entry.call, entry.sentence, entry.example)
}

fn nearest(word: &str) -> Option<&'static str> {
    let word = word.to_uppercase();
    let names = word_entries().iter().flat_map(WordEntry::names);
    let distance = |name: &&str| strsim::damerau_levenshtein(name, &word);
    names.min_by_key(distance).filter(|name| distance(name) <= 2.min(word.len() / 2))
}

/// Names in lines of this width, each after two spaces.
fn in_lines(names: &[String], width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for name in names {
        match lines.last_mut().filter(|line| line.len() + 1 + name.len() < width) {
            Some(line) => line.push_str(&format!(" {name}")),
            None => lines.push(format!("  {name}")),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_has_arguments_a_sentence_and_an_example() {
        let median = about("Median").unwrap();
        assert!(median.starts_with("MEDIAN(x)\n  The value in the middle.\n  SELECT "), "{median}");
        assert!(median.ends_with("FROM adult;"), "{median}");
        assert_eq!(about("median()").unwrap(), median);
        assert_eq!(functions("median", 80).unwrap(), median);
    }

    /// Each is answered, but for the one that is said to be refused.
    #[tokio::test]
    async fn what_is_to_be_tried_does_what_is_said() {
        let engine = hushql::Engine::demo().unwrap();
        let analyst = engine.analyst("demo").unwrap();
        for (statement, shows) in TRIES {
            let result = analyst.execute(statement.trim_end_matches(';')).await;
            assert_eq!(result.is_err(), shows.starts_with("refused"), "{statement}: {result:?}");
        }
        let lines = to_try();
        assert!(
            lines.len() <= 12 && lines.iter().all(|line| line.chars().count() <= 100),
            "{lines:?}"
        );
    }

    #[test]
    fn what_owners_declare_has_help() {
        for (word, part) in [
            ("months", "PER MONTH OF (seen)"),
            ("month", "PER MONTH OF (seen)"),
            ("presence", "UNIQUE PRESENCE PUBLIC"),
            ("floor", "SET PRIVACY FLOOR 10"),
            ("floor", "FLOOR(x)"),
            ("floors", "SET PRIVACY FLOOR 10"),
            ("template", "CREATE TEMPLATE"),
            ("templates", "CREATE TEMPLATE"),
            ("rules", "no_key=(zip)"),
            ("join_only", "no_key=(zip)"),
            ("grants", "GRANT SELECT ON visits TO lab"),
            ("budget", "CREATE PRIVACY BUDGET"),
            ("unit", "SET PRIVACY UNIT"),
            ("slice", "ADD SLICE"),
        ] {
            assert!(about(word).unwrap().contains(part), "{word}");
        }
    }

    #[test]
    fn a_part_of_a_word_finds_those_that_hold_it() {
        assert!(about("trunc").unwrap().contains("ROUND(x)"));
        let dates = about("date").unwrap();
        assert!(dates.starts_with("DATE(x)"), "{dates}");
        assert!(functions("date_", 80).unwrap().contains("date_bin"));
        assert!(functions("", 80).unwrap().starts_with("mechanisms:\n  exponential"));
        assert_eq!(
            about("medain").unwrap_err(),
            "there is no help on medain; did you mean MEDIAN?"
        );
        assert!(about("xyzzyxyzzy").unwrap_err().ends_with("\\df lists functions and mechanisms"));
    }
}

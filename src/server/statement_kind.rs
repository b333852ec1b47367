//! Recognises the statements that the server itself handles: transactions, settings and cursors.
//!
//! In: one statement. Out: its kind. All other statements go to the engine unchanged.
//!
//! ```text
//! "START TRANSACTION READ ONLY"   →   StatementKind::Begin
//! "SELECT 1"                      →   StatementKind::Query
//! ```

use super::cursor::Step;
use super::known_settings;
use super::type_names::named;

/// A word, a quoted text or a sign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    /// A word, in lower case.
    Word(String),
    /// A name in double quotes.
    Name(String),
    /// A text in single quotes.
    Text(String),
    /// `$1`.
    Parameter(usize),
    /// A digit or a sign.
    Sign(char),
}

/// Splits a text into tokens, without white space and comments. Escaped texts (`E'…'`) and
/// dollar-quoted texts are read only to find their ends.
pub(super) fn tokens(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let at = |i: usize| chars.get(i).copied();
    let (mut tokens, mut i) = (Vec::new(), 0);
    while let Some(c) = at(i) {
        match c {
            c if c.is_whitespace() => i += 1,
            '-' if at(i + 1) == Some('-') => {
                while at(i).is_some_and(|c| c != '\n') {
                    i += 1;
                }
            }
            '/' if at(i + 1) == Some('*') => {
                let mut depth = 0_usize;
                while at(i).is_some() {
                    match (at(i), at(i + 1)) {
                        (Some('/'), Some('*')) => (depth, i) = (depth + 1, i + 2),
                        (Some('*'), Some('/')) => (depth, i) = (depth.saturating_sub(1), i + 2),
                        _ => i += 1,
                    }
                    if depth == 0 {
                        break;
                    }
                }
            }
            '\'' | '"' => {
                let (quoted, end) = quoted(&chars, i, c);
                tokens.push(if c == '"' { Token::Name(quoted) } else { Token::Text(quoted) });
                i = end;
            }
            '$' if at(i + 1).is_some_and(|c| c.is_ascii_digit()) => {
                let digits: String =
                    chars.iter().skip(i + 1).take_while(|c| c.is_ascii_digit()).collect();
                i += 1 + digits.len();
                tokens.push(Token::Parameter(digits.parse().unwrap_or(usize::MAX)));
            }
            c if c.is_alphabetic() || c == '_' => {
                let is_word = |c: &&char| c.is_alphanumeric() || **c == '_';
                let word: String = chars.iter().skip(i).take_while(is_word).collect();
                i += word.chars().count();
                tokens.push(Token::Word(word.to_lowercase()));
            }
            c => {
                tokens.push(Token::Sign(c));
                i += 1;
            }
        }
    }
    tokens
}

/// A quoted text, and the position where it ends.
fn quoted(chars: &[char], start: usize, quote: char) -> (String, usize) {
    let (mut text, mut i) = (String::new(), start + 1);
    while let Some(c) = chars.get(i) {
        if *c == quote {
            if chars.get(i + 1) != Some(&quote) {
                return (text, i + 1);
            }
            i += 1;
        }
        text.push(*c);
        i += 1;
    }
    (text, i)
}

/// The format of a COPY.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Copied {
    Text { has_header: bool },
    Csv { has_header: bool },
    Binary,
}

/// The kind of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StatementKind {
    /// There is no statement.
    Empty,
    /// BEGIN.
    Begin,
    /// COMMIT or ROLLBACK, with its tag.
    End(&'static str),
    /// SAVEPOINT, RELEASE or ROLLBACK TO, with its tag.
    Savepoint(&'static str),
    /// SET, with the name and the value; `None` for DEFAULT.
    Set(String, Option<String>),
    /// RESET of one setting or of all.
    Reset(Option<String>),
    /// SHOW of a setting.
    Setting(String),
    /// DISCARD. `None` stands for ALL. Any other DISCARD has no effect here, and has this tag.
    Discard(Option<&'static str>),
    /// DEALLOCATE of one statement or of all.
    Deallocate(Option<String>),
    /// UNLISTEN, which poolers send.
    Unlisten,
    /// DECLARE … CURSOR FOR: the name, and the query.
    Declare(String, String),
    /// FETCH or MOVE: the name, and how the cursor moves.
    Fetch { cursor: String, step: Step, moves: bool },
    /// PREPARE: the name, the types of parameters, and the statement.
    Prepare { name: String, types: Vec<u32>, query: String },
    /// EXECUTE of a prepared statement.
    Execute,
    /// CLOSE of one cursor or of all.
    Close(Option<String>),
    /// COPY (query) TO STDOUT.
    Copy(String, Copied),
    /// A query, which may be charged.
    Query,
    /// A statement of the engine that answers with rows, without a cost.
    Free,
    /// Any other statement of the engine.
    Other,
}

/// A statement, with what its tokens say of it. The tokens themselves are not kept, because they
/// can be many times larger than the text.
#[derive(Debug, Clone)]
pub(super) struct StatementText {
    pub(super) sql: String,
    pub(super) kind: StatementKind,
    /// Its first two words, in upper case.
    pub(super) words: String,
    /// Whether it may hold a password; then nothing of it is recorded.
    pub(super) holds_password: bool,
}

impl StatementText {
    pub(super) fn of(sql: &str) -> Self {
        Self::of_tokens(sql, &tokens(sql))
    }

    /// As [`StatementText::of`], for a text whose tokens are known.
    pub(super) fn of_tokens(sql: &str, tokens: &[Token]) -> Self {
        let upper = tokens.iter().map_while(|token| match token {
            Token::Word(word) => Some(word.to_uppercase()),
            Token::Name(_) | Token::Text(_) | Token::Parameter(_) | Token::Sign(_) => None,
        });
        Self {
            sql: sql.to_owned(),
            kind: kind(sql, tokens),
            words: upper.take(2).collect::<Vec<_>>().join(" "),
            holds_password: holds_password(tokens),
        }
    }
}

/// The kind of a statement.
fn kind(text: &str, tokens: &[Token]) -> StatementKind {
    let word = |n: usize| match tokens.get(n) {
        Some(Token::Word(word)) => word.as_str(),
        _ => "",
    };
    let name = |n: usize| match tokens.get(n) {
        Some(Token::Word(name) | Token::Name(name)) => Some(name.clone()),
        _ => None,
    };
    match (word(0), word(1)) {
        ("begin", _) | ("start", "transaction") => StatementKind::Begin,
        ("commit" | "end", _) => StatementKind::End("COMMIT"),
        ("rollback", "to") | ("rollback", "work" | "transaction")
            if tokens.iter().any(|t| *t == Token::Word("to".to_owned())) =>
        {
            StatementKind::Savepoint("ROLLBACK")
        }
        ("rollback" | "abort", _) => StatementKind::End("ROLLBACK"),
        ("savepoint", _) => StatementKind::Savepoint("SAVEPOINT"),
        ("release", second) if second != "table" || tokens.len() == 2 => {
            StatementKind::Savepoint("RELEASE")
        }
        ("set", "grants") if matches!(word(2), "required" | "not") => StatementKind::Other,
        ("set", _) => set(tokens),
        ("reset", "all") => StatementKind::Reset(None),
        ("reset", _) => StatementKind::Reset(setting_name(tokens, 1).map(|(name, _)| name)),
        ("show", "transaction") => StatementKind::Setting("transaction_isolation".to_owned()),
        ("show", "time") if word(2) == "zone" => StatementKind::Setting("timezone".to_owned()),
        ("show", _) => match setting_name(tokens, 1) {
            Some((name, _)) if known_settings::default_of(&name).is_some() => {
                StatementKind::Setting(name)
            }
            _ => StatementKind::Free,
        },
        ("discard", "all") => StatementKind::Discard(None),
        ("discard", "plans") => StatementKind::Discard(Some("DISCARD PLANS")),
        ("discard", "sequences") => StatementKind::Discard(Some("DISCARD SEQUENCES")),
        ("discard", "temp" | "temporary") => StatementKind::Discard(Some("DISCARD TEMP")),
        ("deallocate", second) => {
            let at = if second == "prepare" { 2 } else { 1 };
            StatementKind::Deallocate(name(at).filter(|_| word(at) != "all"))
        }
        ("unlisten", _) => StatementKind::Unlisten,
        ("prepare", second) if second != "transaction" => prepare(text, tokens),
        ("execute", _) => StatementKind::Execute,
        ("declare", _) => declare(text, tokens),
        ("fetch", _) => fetch(tokens, false),
        ("move", _) => fetch(tokens, true),
        ("close", second) => StatementKind::Close(name(1).filter(|_| second != "all")),
        ("copy", _) => copy(text, tokens),
        ("select" | "with" | "values" | "analyze", _) => StatementKind::Query,
        ("describe" | "summarize" | "explain", _) => StatementKind::Free,
        ("alter", "table") if word(3) == "suggest" => StatementKind::Free,
        ("", _) => match tokens.first() {
            None => StatementKind::Empty,
            Some(Token::Sign('(')) => StatementKind::Query,
            Some(_) => StatementKind::Other,
        },
        _ => StatementKind::Other,
    }
}

/// The name of a setting, which may contain a dot, and the position after it.
fn setting_name(tokens: &[Token], at: usize) -> Option<(String, usize)> {
    let part = |n: usize| match tokens.get(n) {
        Some(Token::Word(name)) => Some(name.clone()),
        Some(Token::Name(name)) => Some(name.to_lowercase()),
        _ => None,
    };
    let first = part(at)?;
    match (tokens.get(at + 1), part(at + 2)) {
        (Some(Token::Sign('.')), Some(second)) => Some((format!("{first}.{second}"), at + 3)),
        _ => Some((first, at + 1)),
    }
}

/// `SET [SESSION | LOCAL] name (TO | =) value`, and its other forms.
fn set(tokens: &[Token]) -> StatementKind {
    let word = |n: usize| match tokens.get(n) {
        Some(Token::Word(word)) => word.as_str(),
        _ => "",
    };
    let at = usize::from(["session", "local"].contains(&word(1))) + 1;
    if word(at) == "transaction" || word(at) == "characteristics" {
        return StatementKind::Set("transaction_isolation".to_owned(), None);
    }
    let (name, at) = match (word(at), word(at + 1)) {
        ("time", "zone") => ("timezone".to_owned(), at + 2),
        ("names", _) => ("client_encoding".to_owned(), at + 1),
        _ => match setting_name(tokens, at) {
            Some((name, at)) => {
                let is_to = word(at) == "to" || tokens.get(at) == Some(&Token::Sign('='));
                (name, at + usize::from(is_to))
            }
            None => return StatementKind::Other,
        },
    };
    let value: String = tokens
        .iter()
        .skip(at)
        .map(|token| match token {
            Token::Word(text) | Token::Name(text) | Token::Text(text) => text.clone(),
            Token::Parameter(n) => format!("${n}"),
            Token::Sign(c) => c.to_string(),
        })
        .collect();
    StatementKind::Set(name, Some(value).filter(|value| value != "default"))
}

/// `DECLARE name … CURSOR … FOR query`.
fn declare(text: &str, tokens: &[Token]) -> StatementKind {
    let Some(Token::Word(name) | Token::Name(name)) = tokens.get(1) else {
        return StatementKind::Other;
    };
    let is_cursor = tokens.iter().take(6).any(|token| *token == Token::Word("cursor".to_owned()));
    match after(text, &["for"]) {
        Some(query) if is_cursor => StatementKind::Declare(name.clone(), query.to_owned()),
        _ => StatementKind::Other,
    }
}

/// The text after the first of these words that stands alone, outside of quotes.
fn after<'a>(text: &'a str, words: &[&str]) -> Option<&'a str> {
    let lower = text.to_ascii_lowercase();
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '"' || c == '\'';
    words.iter().find_map(|word| {
        let found = lower.match_indices(word).find(|(at, _)| {
            let before = lower.get(..*at).and_then(|t| t.chars().next_back());
            let behind = lower.get(at + word.len()..).and_then(|t| t.chars().next());
            !before.is_some_and(is_part) && !behind.is_some_and(is_part)
        });
        found.and_then(|(at, word)| text.get(at + word.len()..))
    })
}

/// `PREPARE name [(type, …)] AS statement`.
fn prepare(text: &str, tokens: &[Token]) -> StatementKind {
    let Some(Token::Word(name) | Token::Name(name)) = tokens.get(1) else {
        return StatementKind::Other;
    };
    let before = tokens.iter().take_while(|token| **token != Token::Word("as".to_owned()));
    let types = before.skip(2).filter_map(|token| match token {
        Token::Word(word) if word == "precision" => None,
        Token::Word(word) => Some(named(word).unwrap_or(0)),
        _ => None,
    });
    match after(text, &["as"]) {
        Some(query) => {
            let (name, types) = (name.clone(), types.collect());
            StatementKind::Prepare { name, types, query: query.to_owned() }
        }
        None => StatementKind::Other,
    }
}

/// `FETCH [direction] [FROM | IN] name`.
fn fetch(tokens: &[Token], moves: bool) -> StatementKind {
    let Some(Token::Word(cursor) | Token::Name(cursor)) = tokens.last() else {
        return StatementKind::Other;
    };
    let between = tokens.get(1..tokens.len() - 1).unwrap_or_default();
    let is = |word: &str| between.contains(&Token::Word(word.to_owned()));
    let digits: String = between
        .iter()
        .filter_map(|token| match token {
            Token::Sign(c) => Some(*c),
            _ => None,
        })
        .collect();
    let rows: Option<i64> = if digits.is_empty() { Some(1) } else { digits.parse().ok() };
    let Some(rows) = rows else { return StatementKind::Other };
    let count = if is("all") { None } else { usize::try_from(rows.unsigned_abs()).ok() };
    let is_back = is("backward") != (rows < 0);
    let step = if is("first") {
        Step::Absolute(1)
    } else if is("last") {
        Step::Absolute(-1)
    } else if is("absolute") {
        Step::Absolute(rows)
    } else if is("relative") {
        Step::Relative(rows)
    } else if is("prior") {
        Step::Backward(Some(1))
    } else if is_back {
        Step::Backward(count)
    } else {
        Step::Forward(count)
    };
    StatementKind::Fetch { cursor: cursor.clone(), step, moves }
}

/// `COPY (query) TO STDOUT [[WITH] (FORMAT CSV, HEADER)]`; any other COPY goes to the engine.
fn copy(text: &str, tokens: &[Token]) -> StatementKind {
    let word = |word: &str| Token::Word(word.to_owned());
    let to = tokens.windows(2).rposition(|pair| pair == [word("to"), word("stdout")]);
    let (Some(to), Some(Token::Sign('('))) = (to, tokens.get(1)) else {
        return StatementKind::Other;
    };
    let options = tokens.get(to + 2..).unwrap_or_default();
    let known = [
        "with",
        "format",
        "binary",
        "csv",
        "text",
        "header",
        "true",
        "on",
        "delimiter",
        "encoding",
    ];
    let fine = options.iter().all(|token| match token {
        Token::Word(word) => known.contains(&word.as_str()),
        Token::Sign(c) => ['(', ')', ','].contains(c),
        Token::Text(text) => ["binary", "csv", "text", "UTF8", "utf8"].contains(&text.as_str()),
        Token::Name(_) | Token::Parameter(_) => false,
    });
    let lower = text.to_ascii_lowercase();
    let (start, end) = (text.find('('), lower.rfind("stdout"));
    let inner = start.zip(end).and_then(|(start, end)| {
        let inner = text.get(start + 1..end)?;
        let close = inner.rfind(')')?;
        inner.get(..close)
    });
    let is = |name: &str| {
        options.contains(&word(name)) || options.contains(&Token::Text(name.to_owned()))
    };
    let has_header = is("header");
    let copied = match (is("binary"), is("csv")) {
        // The binary format has no header and no CSV.
        (true, is_csv) if is_csv || has_header => None,
        (true, _) => Some(Copied::Binary),
        (false, true) => Some(Copied::Csv { has_header }),
        (false, false) => Some(Copied::Text { has_header }),
    };
    match (inner, copied) {
        (Some(query), Some(copied)) if fine => StatementKind::Copy(query.to_owned(), copied),
        _ => StatementKind::Other,
    }
}

/// The largest number of a parameter.
pub(super) fn parameters(tokens: &[Token]) -> usize {
    let numbers = tokens.iter().map(|token| match token {
        Token::Parameter(n) => *n,
        _ => 0,
    });
    numbers.max().unwrap_or(0)
}

/// Whether a statement may hold a password; then nothing of it is recorded.
fn holds_password(tokens: &[Token]) -> bool {
    let word = |n: usize| match tokens.get(n) {
        Some(Token::Word(word)) => word.as_str(),
        _ => "",
    };
    let has_word = |word: &str| tokens.iter().any(|token| *token == Token::Word(word.to_owned()));
    ["role", "user"].contains(&word(1)) || has_word("password")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_of_the_server_are_known() {
        let set =
            |name: &str, value: &str| StatementKind::Set(name.to_owned(), Some(value.to_owned()));
        let csv = Copied::Csv { has_header: true };
        let text = Copied::Text { has_header: false };
        let fetch = |step| StatementKind::Fetch { cursor: "c".to_owned(), step, moves: false };
        let prepared = |types| {
            let query = " SELECT 1".to_owned();
            StatementKind::Prepare { name: "p".to_owned(), types, query }
        };
        for (statement, expected) in [
            ("", StatementKind::Empty),
            (" -- nothing\n /* at /* all */ */ ", StatementKind::Empty),
            ("/* x */ begin isolation level serializable", StatementKind::Begin),
            ("START TRANSACTION", StatementKind::Begin),
            ("COMMIT", StatementKind::End("COMMIT")),
            ("abort", StatementKind::End("ROLLBACK")),
            ("ROLLBACK TO SAVEPOINT a", StatementKind::Savepoint("ROLLBACK")),
            ("ROLLBACK", StatementKind::End("ROLLBACK")),
            ("SAVEPOINT a", StatementKind::Savepoint("SAVEPOINT")),
            ("RELEASE SAVEPOINT a", StatementKind::Savepoint("RELEASE")),
            ("SET hushql.accuracy = columns", set("hushql.accuracy", "columns")),
            ("set session DateStyle to 'ISO'", set("datestyle", "ISO")),
            ("SET TIME ZONE 'UTC'", set("timezone", "UTC")),
            ("SET search_path TO DEFAULT", StatementKind::Set("search_path".to_owned(), None)),
            (
                "SET TRANSACTION READ ONLY",
                StatementKind::Set("transaction_isolation".to_owned(), None),
            ),
            ("RESET ALL", StatementKind::Reset(None)),
            ("SHOW server_version", StatementKind::Setting("server_version".to_owned())),
            (
                "SHOW transaction isolation level",
                StatementKind::Setting("transaction_isolation".to_owned()),
            ),
            ("SHOW TABLES", StatementKind::Free),
            ("SHOW PRIVACY BUDGET", StatementKind::Free),
            ("DEALLOCATE ALL", StatementKind::Deallocate(None)),
            ("DEALLOCATE PREPARE a", StatementKind::Deallocate(Some("a".to_owned()))),
            (
                "DECLARE c NO SCROLL CURSOR WITH HOLD FOR SELECT 1",
                StatementKind::Declare("c".to_owned(), " SELECT 1".to_owned()),
            ),
            ("FETCH FORWARD 10 FROM c", fetch(Step::Forward(Some(10)))),
            ("fetch all in c", fetch(Step::Forward(None))),
            ("FETCH c", fetch(Step::Forward(Some(1)))),
            ("FETCH -2 FROM c", fetch(Step::Backward(Some(2)))),
            ("FETCH BACKWARD 1 FROM c", fetch(Step::Backward(Some(1)))),
            ("FETCH BACKWARD ALL IN c", fetch(Step::Backward(None))),
            ("FETCH PRIOR FROM c", fetch(Step::Backward(Some(1)))),
            ("FETCH FIRST FROM c", fetch(Step::Absolute(1))),
            ("FETCH LAST FROM c", fetch(Step::Absolute(-1))),
            ("FETCH ABSOLUTE -3 FROM c", fetch(Step::Absolute(-3))),
            ("FETCH RELATIVE 0 FROM c", fetch(Step::Relative(0))),
            ("PREPARE p AS SELECT 1", prepared(vec![])),
            ("PREPARE p (int, double precision) AS SELECT 1", prepared(vec![23, 701])),
            ("EXECUTE p (1)", StatementKind::Execute),
            ("CLOSE \"C\"", StatementKind::Close(Some("C".to_owned()))),
            ("COPY (SELECT 1) TO STDOUT", StatementKind::Copy("SELECT 1".to_owned(), text)),
            (
                "copy (SELECT (1)) to stdout with (format csv, header)",
                StatementKind::Copy("SELECT (1)".to_owned(), csv),
            ),
            (
                "COPY (SELECT 1) TO STDOUT (FORMAT binary)",
                StatementKind::Copy("SELECT 1".to_owned(), Copied::Binary),
            ),
            (
                "copy (SELECT 1) to stdout with binary",
                StatementKind::Copy("SELECT 1".to_owned(), Copied::Binary),
            ),
            ("COPY (SELECT 1) TO STDOUT (FORMAT binary, HEADER)", StatementKind::Other),
            ("DISCARD ALL", StatementKind::Discard(None)),
            ("DISCARD PLANS", StatementKind::Discard(Some("DISCARD PLANS"))),
            ("DISCARD temporary", StatementKind::Discard(Some("DISCARD TEMP"))),
            ("DISCARD everything", StatementKind::Other),
            ("COPY (SELECT 1) TO 'x.csv'", StatementKind::Other),
            ("(SELECT 1)", StatementKind::Query),
            ("WITH a AS (SELECT 1) SELECT * FROM a", StatementKind::Query),
            ("ANALYZE PRIVACY DOMAIN t(c) WITH (eps=1)", StatementKind::Query),
            ("EXPLAIN PRIVACY SELECT 1", StatementKind::Free),
            ("ALTER TABLE t SUGGEST PRIVACY", StatementKind::Free),
            ("CREATE ROLE lab PASSWORD 'x'", StatementKind::Other),
            ("SET GRANTS REQUIRED", StatementKind::Other),
            ("set grants not required", StatementKind::Other),
        ] {
            assert_eq!(StatementText::of(statement).kind, expected, "{statement}");
        }
    }

    #[test]
    fn parameters_are_counted_outside_of_quotes() {
        let count = |text| parameters(&tokens(text));
        assert_eq!(count("SELECT $2, '$9', \"$8\" -- $7\n FROM t WHERE a = $1"), 2);
        assert_eq!(count("SELECT 1"), 0);
    }

    #[test]
    fn statements_with_passwords_are_known() {
        for text in [
            "CREATE ROLE lab",
            "alter user lab password 'x'",
            "ALTER /* */ ROLE x",
            "CREATE x PASSWORD 'y'",
        ] {
            assert!(StatementText::of(text).holds_password, "{text}");
        }
        assert!(!StatementText::of("SELECT 'password'").holds_password);
    }
}

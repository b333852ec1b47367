//! Completes a word by its context: tables after FROM, columns after SELECT, the columns of `a`
//! after `a.`.
//!
//! In: the text up to the cursor and around it, and the names of tables and columns. Out: the
//! completions of the word before the cursor. This is not a parser: it reads pieces of text,
//! finished or not, and an unknown place offers every name and word.
//!
//! ```text
//! SELECT ag⇥ FROM adult → age      FROM ad⇥ → adult      a.st⇥ … FROM adult a → status      \d ⇥ → every table
//! ```

use hushql_engine::dialect::{MechanismName, SyntheticMethod, WordEntry, word_entries};
use hushql_engine::visible;

use super::commands::{self, COMMANDS, Complements};
use super::lex::{self, Piece, TokenKind};

/// The words of clauses, and the aggregate functions.
pub(super) const KEYWORDS: &str = "ACCOUNTANT ADD ALTER ANALYST ANALYZE AND ARGMAX ARGMIN AS ASC AVG BETWEEN BOTTOM BUDGET BY CASE CAST CDF CLAMP \
COLUMN CORR COUNT COUPONS COVAR CREATE CSV DESC DESCRIBE DIFFERENTIAL_PRIVACY DISTINCT DOMAIN DROP ELSE END EXECUTE EXISTS EXPLAIN EXTERNAL FILTER \
FOR FORMAT FROM GRANT GRANTS GREATEST GROUP HAVING IN INNER IS JOIN JSON KEYS LEAST LEFT LIKE LIMIT LOCATION MAX MEDIAN MIN MONTH NOT NULL OFFSET \
ON ONLY OPTIONS OR ORDER OVER PARQUET PARTITION PER PRIOR PRIVACY PUBLIC QUANTILE QUANTILES QUERY RANGE REFERENCES REFRESH REGR_INTERCEPT REGR_SLOPE \
RELEASE REPLACE REPLAY REQUIRED REVOKE RIGHT ROW ROWS SELECT SET SHOW SLICE STDDEV STEP STORED STRICT SUM SYNTHETIC TABLE TABLES TEMPLATE TEMPLATES THEN TOP TUNE UNION UNIQUE UNIT USAGE USING VARIANCE VIA VIEW WHEN \
WHERE WITH ZCDP";

/// The names of the mechanisms.
pub(super) fn mechanisms() -> impl Iterator<Item = &'static str> {
    let methods = SyntheticMethod::NAMES.iter().map(|(name, _)| *name);
    let own = methods.filter(|own| MechanismName::ALL.iter().all(|(name, _)| name != own));
    MechanismName::ALL.iter().map(|(name, _)| *name).chain(own)
}

/// The names that complete a word: tables, each with its columns.
#[derive(Debug, Default)]
pub(super) struct Vocabulary {
    tables: Vec<(String, Vec<String>)>,
}

/// What can come at a place in a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CompletionContext {
    /// The name of a table.
    Table,
    /// A value: a column or a function.
    Value,
    /// Any name or word.
    Any,
}

impl Vocabulary {
    /// The names of these tables and of their columns, except names with control characters.
    pub(super) fn new(mut tables: Vec<(String, Vec<String>)>) -> Self {
        tables.retain(|(table, _)| !table.contains(visible::steers));
        for (_, columns) in &mut tables {
            columns.retain(|column| !column.contains(visible::steers));
        }
        tables.sort_unstable();
        Self { tables }
    }

    /// The completions of the word that ends at `position` in `line`, and the start of that word.
    /// `before` holds the earlier lines of the statement.
    pub(super) fn complete(
        &self,
        before: &str,
        line: &str,
        position: usize,
    ) -> (usize, Vec<String>) {
        let (typed, after) = line.split_at_checked(position).unwrap_or((line, ""));
        if before.is_empty() && typed.starts_with('\\') {
            return self.command(typed, after);
        }
        self.in_statement(before, typed, after)
    }

    /// Completes a command, or its argument.
    fn command(&self, typed: &str, after: &str) -> (usize, Vec<String>) {
        let Some((name, argument)) = typed.split_once(char::is_whitespace) else {
            let names = COMMANDS.iter().map(|command| command.name.to_owned());
            return (0, names.filter(|name| name.starts_with(typed)).collect());
        };
        let offset = typed.len() - argument.len();
        let start = start_of_word(argument);
        let word = argument.get(start..).unwrap_or_default();
        match commands::complements(name) {
            Complements::Table => (offset + start, matching(self.names(), word)),
            Complements::Words(words) => {
                let words = words.split('|').map(str::to_owned);
                (offset + start, words.filter(|one| begins(one, word)).collect())
            }
            Complements::Statement => {
                let (start, found) = self.in_statement("", argument, after);
                (offset + start, found)
            }
            Complements::Entry => {
                let names = word_entries().iter().flat_map(WordEntry::names);
                let names = names.map(str::to_lowercase);
                (offset + start, names.filter(|name| begins(name, word)).collect())
            }
            // The editor completes the names of files, if this shell reads files.
            Complements::File | Complements::Nothing => (typed.len(), Vec::new()),
        }
    }

    fn in_statement(&self, before: &str, typed: &str, after: &str) -> (usize, Vec<String>) {
        let start = start_of_word(typed);
        let (head, word) = typed.split_at_checked(start).unwrap_or((typed, ""));
        let head = format!("{before}\n{head}");
        let pieces = lex::pieces(&head);
        // A comment after `--` ends with its line.
        let unread = |last: &Piece<'_>| {
            last.open || (last.kind == TokenKind::Comment && last.text.starts_with("--"))
        };
        if pieces.last().is_some_and(unread) {
            return (start, Vec::new());
        }
        let pieces = significant(&pieces);
        let whole = format!("{head}{word}{after}");
        let all = lex::pieces(&whole);
        let named = self.named(&significant(&all), pieces.len());
        if let [.., qualifier, Piece { text: ".", .. }] = pieces.as_slice() {
            let qualifier = plain(qualifier);
            if qualifier.eq_ignore_ascii_case("hushql") {
                return (start, matching(["ledger"].into_iter(), word));
            }
            let of = named.iter().find(|(alias, _)| alias.eq_ignore_ascii_case(&qualifier));
            return match of {
                Some((_, columns)) => (start, matching(columns.iter().map(String::as_str), word)),
                // The FROM clause may come later.
                None if word.is_empty() => (start, Vec::new()),
                None => (start, matching(self.columns(), word)),
            };
        }
        let found = match place(&pieces) {
            CompletionContext::Table => matching(self.names().chain(["hushql"]), word),
            CompletionContext::Value => {
                // Without a table, any column is possible.
                let columns: Vec<&str> = match named.is_empty() {
                    true if word.is_empty() => Vec::new(),
                    true => self.columns().collect(),
                    false => named.iter().flat_map(|(_, c)| c.iter().map(String::as_str)).collect(),
                };
                let mut found = matching(columns.into_iter(), word);
                if !word.is_empty() {
                    found.extend(matching(self.names(), word));
                    found.extend(words(word));
                }
                found
            }
            CompletionContext::Any if word.is_empty() => Vec::new(),
            CompletionContext::Any => {
                let mut found = matching(self.names().chain(self.columns()), word);
                found.extend(words(word));
                found
            }
        };
        (start, found)
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.tables.iter().map(|(table, _)| table.as_str())
    }

    fn columns(&self) -> impl Iterator<Item = &str> {
        self.tables.iter().flat_map(|(_, columns)| columns.iter().map(String::as_str))
    }

    /// The tables of the statement around the piece at `cursor`, each under its alias or name, with
    /// its columns.
    fn named(&self, pieces: &[Piece<'_>], cursor: usize) -> Vec<(String, &[String])> {
        let ends = |piece: &Piece<'_>| piece.text == ";";
        let (left, right) = pieces.split_at_checked(cursor).unwrap_or((pieces, &[]));
        let from = left.iter().rposition(ends).map_or(0, |at| at + 1);
        let to = right.iter().position(ends).map_or(pieces.len(), |at| cursor + at);
        let statement = pieces.get(from..to).unwrap_or_default();
        let mut named: Vec<(String, &[String])> = Vec::new();
        for (at, piece) in statement.iter().enumerate() {
            let name = plain(piece);
            let is_name = matches!(piece.kind, TokenKind::Word | TokenKind::Name);
            let Some((table, columns)) =
                self.tables.iter().find(|(table, _)| is_name && *table == name)
            else {
                continue;
            };
            let mut next = statement.get(at + 1..).unwrap_or_default().iter();
            let alias = match next.next() {
                Some(word) if word.text.eq_ignore_ascii_case("as") => next.next(),
                other => other,
            };
            let is_alias = |piece: &&Piece<'_>| {
                piece.kind == TokenKind::Name
                    || (piece.kind == TokenKind::Word && !is_keyword(piece.text))
            };
            if !named.iter().any(|(other, _)| other == table) {
                named.push((table.clone(), columns));
            }
            // An alias replaces the name, so that the columns come once.
            if let Some(alias) = alias.filter(is_alias).map(plain) {
                named.retain(|(other, _)| *other != alias && other != table);
                named.push((alias, columns));
            }
        }
        named
    }
}

/// What can come after these pieces.
fn place(pieces: &[Piece<'_>]) -> CompletionContext {
    /// The part of an open bracket, or of the statement itself, that was read so far.
    #[derive(Clone, Copy)]
    struct Level {
        place: CompletionContext,
        /// Whether it has a FROM clause, and is not a call such as EXTRACT(YEAR FROM x).
        is_query: bool,
        /// Whether it lists tables.
        lists_tables: bool,
    }
    let statement = Level { place: CompletionContext::Any, is_query: true, lists_tables: false };
    let (mut here, mut outer, mut last) = (statement, Vec::new(), "");
    for piece in pieces {
        let upper = piece.text.to_ascii_uppercase();
        match (piece.kind, upper.as_str()) {
            (TokenKind::Symbol, ";") => (here, outer) = (statement, Vec::new()),
            (TokenKind::Symbol, "(") => {
                let inner = if here.lists_tables {
                    CompletionContext::Any
                } else {
                    CompletionContext::Value
                };
                outer.push(here);
                here = Level { place: inner, is_query: false, lists_tables: false };
            }
            (TokenKind::Symbol, ")") => {
                here = outer.pop().unwrap_or(statement);
                if here.lists_tables {
                    here.place = CompletionContext::Any;
                }
            }
            (TokenKind::Symbol, ",") if here.lists_tables => here.place = CompletionContext::Table,
            (TokenKind::Word, "SELECT") => {
                here =
                    Level { place: CompletionContext::Value, is_query: true, lists_tables: false };
            }
            (TokenKind::Word, "FROM" | "JOIN") if here.is_query && last != "DISTINCT" => {
                (here.place, here.lists_tables) = (CompletionContext::Table, true);
            }
            (TokenKind::Word, "TABLE" | "DESCRIBE" | "FOR") if here.is_query => {
                here.place = CompletionContext::Table
            }
            (
                TokenKind::Word,
                "WHERE" | "ON" | "BY" | "HAVING" | "AND" | "OR" | "NOT" | "WHEN" | "THEN" | "ELSE"
                | "CASE" | "USING" | "FROM",
            ) => (here.place, here.lists_tables) = (CompletionContext::Value, false),
            // A table is followed by an alias, a clause or a comma.
            (TokenKind::Word | TokenKind::Name, _) if here.place == CompletionContext::Table => {
                here.place = CompletionContext::Any
            }
            _ => {}
        }
        last = match upper.as_str() {
            "DISTINCT" => "DISTINCT",
            _ => "",
        };
    }
    here.place
}

fn significant<'a>(pieces: &[Piece<'a>]) -> Vec<Piece<'a>> {
    let counts = |piece: &&Piece<'_>| !matches!(piece.kind, TokenKind::Space | TokenKind::Comment);
    pieces.iter().filter(counts).copied().collect()
}

/// A name without its quotes.
fn plain(piece: &Piece<'_>) -> String {
    match piece.kind {
        TokenKind::Name => piece.text.trim_matches('"').to_owned(),
        TokenKind::Word => piece.text.to_ascii_lowercase(),
        TokenKind::Number
        | TokenKind::Text
        | TokenKind::Comment
        | TokenKind::Space
        | TokenKind::Symbol => piece.text.to_owned(),
    }
}

fn is_keyword(word: &str) -> bool {
    KEYWORDS.split(' ').any(|keyword| keyword.eq_ignore_ascii_case(word))
}

fn start_of_word(text: &str) -> usize {
    text.rfind(|c| !lex::is_word(c)).map_or(0, |at| {
        text.get(at..).and_then(|rest| rest.chars().next()).map_or(at, |c| at + c.len_utf8())
    })
}

fn begins(name: &str, word: &str) -> bool {
    name.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word))
}

/// The names that begin with a word, as SQL needs them, in order.
fn matching<'a>(names: impl Iterator<Item = &'a str>, word: &str) -> Vec<String> {
    let mut found: Vec<_> = names.map(written).filter(|name| begins(name, word)).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// The mechanisms and keywords that begin with a word, in its case.
fn words(word: &str) -> impl Iterator<Item = String> {
    let lower = word.chars().all(|c| !c.is_uppercase());
    let all = mechanisms().chain(KEYWORDS.split(' ')).filter(move |name| begins(name, word));
    all.map(move |name| if lower { name.to_lowercase() } else { name.to_owned() })
}

/// A name as SQL needs it: quoted unless it consists of lower-case letters, digits and `_`.
fn written(name: &str) -> String {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let starts_well = !name.starts_with(|c: char| c.is_ascii_digit());
    if name.chars().all(plain) && starts_well {
        name.to_owned()
    } else {
        format!("\"{}\"", name.replace('"', "\"\""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vocabulary() -> Vocabulary {
        let of = |columns: &[&str]| columns.iter().map(|name| (*name).to_owned()).collect();
        Vocabulary::new(vec![
            ("adult".to_owned(), of(&["age", "status", "Marital Status", "hostile\u{202e}"])),
            ("orders".to_owned(), of(&["price", "status_code"])),
        ])
    }

    /// The completions at the `|` of a text.
    fn at(text: &str) -> Vec<String> {
        let (typed, after) = text.split_once('|').unwrap_or((text, ""));
        vocabulary().complete("", &format!("{typed}{after}"), typed.len()).1
    }

    fn start(line: &str) -> usize {
        vocabulary().complete("", line, line.len()).0
    }

    #[test]
    fn words_are_completed() {
        assert_eq!(at("SELECT ARGMA"), ["ARGMAX"]);
        assert_eq!(at("select argma"), ["argmax"]);
        assert_eq!(at("SELECT ARGMAX EXPO"), ["EXPONENTIAL"]);
        assert_eq!(at("SELECT hos"), [""; 0], "it would turn the line round");
        assert_eq!(at("SELECT x,age"), ["age"]);
        assert_eq!(at("SELECT 'adu"), [""; 0]);
        assert_eq!(at("SELECT 1 -- adu"), [""; 0]);
        assert_eq!(at("SELECT /* adu"), [""; 0]);
        assert_eq!(at("é"), [""; 0]);
        assert_eq!(at(""), [""; 0]);
        assert_eq!(
            (start("SELECT ARGMA"), start("x,stat"), start("SELECT \"a b\", é")),
            (7, 2, 14)
        );
    }

    #[test]
    fn tables_follow_from() {
        assert_eq!(at("SELECT 1 FROM adu"), ["adult"]);
        assert_eq!(at("SELECT 1 FROM |"), ["adult", "hushql", "orders"]);
        assert_eq!(at("SELECT 1 FROM orders o, a"), ["adult"]);
        assert_eq!(at("SELECT 1 FROM orders o JOIN "), ["adult", "hushql", "orders"]);
        assert_eq!(at("SELECT 1 FROM (SELECT 2 FROM o"), ["orders"]);
        assert_eq!(at("SELECT age FROM a"), ["adult"], "age is not a table");
        assert_eq!(at("FROM adu"), ["adult"]);
        assert_eq!(at("ALTER TABLE o"), ["orders"]);
        assert_eq!(at("DESCRIBE "), ["adult", "hushql", "orders"]);
        assert_eq!(at("SELECT 1 FROM hushql."), ["ledger"]);
    }

    #[test]
    fn columns_are_those_of_the_tables() {
        assert_eq!(at("SELECT stat| FROM adult"), ["status"]);
        assert_eq!(at("SELECT stat| FROM orders"), ["status_code"]);
        assert_eq!(at("SELECT stat"), ["status", "status_code"]);
        assert_eq!(at("SELECT | FROM orders"), ["price", "status_code"]);
        assert_eq!(at("SELECT 1 FROM adult WHERE "), ["\"Marital Status\"", "age", "status"]);
        assert_eq!(at("SELECT 1 FROM orders GROUP BY pric"), ["price"]);
        assert_eq!(
            at("SELECT 1 FROM orders; SELECT stat| FROM adult; SELECT 1 FROM orders"),
            ["status"]
        );
        assert_eq!(
            at("SELECT EXTRACT(YEAR FROM pri| ) FROM orders"),
            ["price", "prior", "privacy"]
        );
        assert_eq!(at("SELECT 1 FROM orders WHERE price IS DISTINCT FROM pric"), ["price"]);
        assert_eq!(at("SELECT a.s| FROM adult a JOIN orders AS o"), ["status"]);
        assert_eq!(at("SELECT o.| FROM adult a JOIN orders AS o"), ["price", "status_code"]);
        assert_eq!(at("SELECT adult.| FROM adult"), ["\"Marital Status\"", "age", "status"]);
        assert_eq!(at("SELECT x.| FROM adult"), [""; 0]);
        assert_eq!(at("SELECT x.pr"), ["price"]);
    }

    #[test]
    fn earlier_lines_count() {
        let complete = |before: &str, line: &str| vocabulary().complete(before, line, line.len()).1;
        assert_eq!(complete("SELECT 1", "FROM o"), ["orders"]);
        assert_eq!(complete("SELECT 1 FROM orders", "WHERE stat"), ["status_code"]);
        assert_eq!(complete("SELECT 'a", "FROM o"), [""; 0]);
        assert_eq!(complete("-- a", "FROM o"), ["orders"]);
    }

    #[test]
    fn commands_take_what_they_take() {
        assert_eq!(at("\\pl"), ["\\plot"]);
        assert_eq!(at("\\d adu"), ["adult"]);
        assert_eq!(at("\\d "), ["adult", "orders"]);
        assert_eq!(at("\\format m"), ["markdown"]);
        assert_eq!(at("\\timing o"), ["on", "off"]);
        assert_eq!(at("\\explain SELECT 1 FROM o"), ["orders"]);
        assert_eq!(at("\\q "), [""; 0]);
        assert_eq!(
            (start("\\pl"), start("\\d adu"), start("\\explain SELECT 1 FROM o")),
            (0, 3, 23)
        );
    }

    #[test]
    fn names_are_quoted_where_they_must_be() {
        assert_eq!(written("hours_per_week"), "hours_per_week");
        assert_eq!(written("Marital Status"), "\"Marital Status\"");
        assert_eq!(written("a\"b"), "\"a\"\"b\"");
        assert_eq!(written("1st"), "\"1st\"");
    }
}

//! Splits scripts into statements.
//!
//! In: the text of a script. Out: its statements as written, each with its position in the script.
//!
//! ```text
//! "SELECT 1;\n SELECT 2"  ─▶  "SELECT 1" at (1, 1), "SELECT 2" at (2, 2)
//! ```

use sqlparser::tokenizer::{Location, Token, TokenWithSpan};

use crate::dialect::error::DialectError;
use crate::dialect::tokens::tokens;

/// A statement of a script.
///
/// ```
/// # use hushql_engine as hushql;
/// let statements = hushql::split_statements("SELECT 1;\n  SELEC 2")?;
/// assert_eq!((statements[1].text(), statements[1].place()), ("SELEC 2", (2, 3)));
/// # Ok::<(), hushql::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptStatement {
    text: String,
    line: u64,
    column: u64,
}

impl ScriptStatement {
    /// The statement as written in the script, without the `;` after it.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// let statements = hushql::split_statements("SELECT 1 ; SELECT ';'")?;
    /// assert_eq!(statements[1].text(), "SELECT ';'");
    /// # Ok::<(), hushql::Error>(())
    /// ```
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The line and column of the script, from 1, at which it begins.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// let statements = hushql::split_statements("SELECT 1;\n  SELECT 2")?;
    /// assert_eq!(statements[1].place(), (2, 3));
    /// # Ok::<(), hushql::Error>(())
    /// ```
    pub fn place(&self) -> (u64, u64) {
        (self.line, self.column)
    }

    /// Converts a line and column of the statement to those of the script.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// let statements = hushql::split_statements("SELECT 1;\n  SELECT oops")?;
    /// // Column 8 of the second statement is column 10 of the script's second line.
    /// assert_eq!(statements[1].in_script((1, 8)), (2, 10));
    /// # Ok::<(), hushql::Error>(())
    /// ```
    pub fn in_script(&self, (line, column): (u64, u64)) -> (u64, u64) {
        let before = if line <= 1 { self.column.saturating_sub(1) } else { 0 };
        (line.saturating_add(self.line.saturating_sub(1)), column.saturating_add(before))
    }
}

/// Splits a script at the `;` between statements, but not at one in a comment or a quoted text.
///
/// # Errors
/// [`DialectError::Syntax`] when a quotation or comment never ends.
pub fn split(script: &str) -> Result<Vec<ScriptStatement>, DialectError> {
    let mut places = TokenOffsets::in_text(script);
    let mut statements = Vec::new();
    // The place where the current statement begins.
    let mut begun: Option<(usize, Location)> = None;
    let statement = |(start, begin): (usize, Location), end: usize| ScriptStatement {
        text: script.get(start..end).unwrap_or_default().to_owned(),
        line: begin.line,
        column: begin.column,
    };
    for TokenWithSpan { token, span } in tokens(script)? {
        match token {
            Token::SemiColon => {
                let end = places.offset(span.start);
                statements.extend(begun.take().map(|begin| statement(begin, end)));
            }
            Token::EOF | Token::Whitespace(_) => {}
            _ if begun.is_some() => {}
            _ => begun = Some((places.offset(span.start), span.start)),
        }
    }
    statements.extend(begun.map(|begin| statement(begin, script.len())));
    Ok(statements)
}

/// Converts the tokenizer's lines and columns, in ascending order, to offsets in a text.
pub(super) struct TokenOffsets<'a> {
    pub(super) text: &'a str,
    offset: usize,
    at: Location,
}

impl<'a> TokenOffsets<'a> {
    pub(super) fn in_text(text: &'a str) -> Self {
        Self { text, offset: 0, at: Location { line: 1, column: 1 } }
    }

    /// The offset of a position in bytes. Positions must be given in ascending order.
    pub(super) fn offset(&mut self, place: Location) -> usize {
        for c in self.text.get(self.offset..).unwrap_or_default().chars() {
            if self.at >= place {
                break;
            }
            self.offset += c.len_utf8();
            self.at = match c {
                '\n' => Location { line: self.at.line + 1, column: 1 },
                _ => Location { line: self.at.line, column: self.at.column + 1 },
            };
        }
        self.offset
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_split_at_semicolons_outside_of_quotes() {
        let statements = split("SELECT ';' -- ;\n;\n\n  SELECT 2;;").unwrap();
        let told: Vec<_> = statements.iter().map(|s| (s.text(), s.place())).collect();
        assert_eq!(told, [("SELECT ';' -- ;\n", (1, 1)), ("SELECT 2", (4, 3))]);
    }

    /// Statements were once rebuilt from their tokens, and a doubled quote in a text lost one of
    /// its two characters.
    #[test]
    fn the_statements_of_a_script_are_its_own_text() {
        let written =
            ["SELECT 'it''s' AS \"a\"\"b\"", "SELECT 'ü;' /* ; */ || U&'\\0041'", "SELECT 2 -- ;"];
        let statements = split(&written.join(";\n")).unwrap();
        let texts: Vec<_> = statements.iter().map(ScriptStatement::text).collect();
        assert_eq!(texts, written);
    }

    /// Statements once began with one line break for each line before them. The last line of a
    /// million was refused as too large, and ten thousand statements took a hundred million bytes.
    #[test]
    fn what_stands_before_a_statement_is_not_in_it() {
        let script = "SELECT 1;\n".repeat(20_000);
        let statements = split(&script).unwrap();
        assert_eq!(statements.len(), 20_000);
        assert!(statements.iter().all(|s| s.text() == "SELECT 1"));
        assert_eq!(statements.last().map(ScriptStatement::place), Some((20_000, 1)));
    }

    #[test]
    fn places_of_a_statement_are_places_of_its_script() {
        let statements = split("SELECT 1; SELECT\n  x").unwrap();
        let second = &statements[1];
        assert_eq!(second.place(), (1, 11));
        assert_eq!(second.in_script((1, 1)), (1, 11));
        assert_eq!(second.in_script((2, 3)), (2, 3));
    }
}

//! `hushql init mydata.csv`: walks an owner from data to a first answer.
//!
//! In: data, and what the owner types. Out: a vault with declarations, and one answer. Each step
//! shows the statement that it runs. Suggestions follow from names and types alone; no value of the
//! data is shown, and no sentence that follows from one. Each step is kept when it is done, so the
//! walk can be left, and the same command goes on from there.
//!
//! ```text
//! data ─▶ tried in memory, so that a fault makes no vault ─▶ columns ─▶ who is a person ─▶ rows ─▶ domains ─▶ budget ─▶ a question
//! ```

mod asking;
mod data_source;
mod shown_columns;
mod typed;

use std::fs;

use hushql::{Engine, EngineBuilder, Error, Session};
use hushql_vault::catalog::quoted;

use self::asking::{Asking, Typed};
use self::data_source::DataSource;
#[cfg(feature = "console")]
pub(super) use self::data_source::table_of_file;
pub(super) use self::data_source::{Plan, plan};
use self::shown_columns::{ShownColumn, described, lines_of, looks_like_a_value};
use self::typed::ColumnKind;
use super::arguments::Begun;
use super::failure::Failure;
use super::print::Printer;

/// The clause for the domain of a column of this type, from what was typed.
///
/// # Errors
/// How to type it.
#[cfg(feature = "console")]
pub(super) fn typed_domain(sql_type: &str, typed: &str) -> Result<String, String> {
    typed::domain(ColumnKind::of(sql_type), typed)
}

/// What to type for the domain of a column of this type.
#[cfg(feature = "console")]
pub(super) fn domain_asked(sql_type: &str) -> &'static str {
    ColumnKind::of(sql_type).asks()
}

/// The clause for the most rows of a person, from what was typed.
///
/// # Errors
/// How to type it.
#[cfg(feature = "console")]
pub(super) fn typed_rows(typed: &str) -> Result<String, String> {
    typed::most_rows(typed)
}

/// The clause for the limits of a budget, from the ε that was typed.
///
/// # Errors
/// How to type it.
#[cfg(feature = "console")]
pub(super) fn typed_budget(typed: &str) -> Result<String, String> {
    let (epsilon, default) = typed::budget(typed)?;
    Ok(format!("LIMIT (epsilon={epsilon}) PER QUERY (default={default})"))
}

/// Who asks the first question.
const ANALYST: &str = "lab";

/// Walks from data to a first answer. Returns the exit status.
///
/// # Errors
/// Why the data cannot be declared. What was declared before stays, and nothing else.
pub(super) async fn walk(
    plan: &Plan,
    begun: &Begun,
    builder: EngineBuilder,
    printer: Printer,
) -> Result<u8, Failure> {
    let trial: Session = builder.clone().in_memory()?.owner().into();
    for source in &plan.data {
        tried(&trial, source, begun).await?;
    }
    let is_new = !plan.vault.exists();
    let engine = match is_new {
        true => builder.init(&plan.vault)?,
        false => builder.open(&plan.vault)?,
    };
    let mut walk = Walk { asking: Asking::new(printer, begun.yes), printer, begun, plan, engine };
    let result = walk.all(is_new).await;
    if is_new && result.is_err() && walk.has_no_table().await {
        drop(walk);
        // Nothing was declared, and nothing can have been charged.
        let _ = fs::remove_file(&plan.vault);
    }
    match result? {
        WalkStep::Done => Ok(0),
        WalkStep::Left => {
            printer.note(&format!(
                "\nleft; what was declared is in {}, and the same command goes on from there",
                plan.vault.display()
            ));
            Ok(0)
        }
    }
}

/// Declares data in memory, and looks at the names of their columns.
async fn tried(trial: &Session, source: &DataSource, begun: &Begun) -> Result<(), Failure> {
    trial.execute(&source.create).await?;
    let columns = described(trial, &source.table).await?;
    let may_lack_header = source.create.contains(" STORED AS CSV ") && !begun.no_header;
    if may_lack_header && columns.iter().any(|column| looks_like_a_value(&column.name)) {
        return Err(Failure::Usage(format!(
            "the first line of {} looks like a row, and not like names of columns: if it is one, add --no-header; if it is none, declare the table with SQL",
            source.written
        )));
    }
    if begun.yes && begun.unit.is_none() && suggested_unit(trial, &source.table).await?.is_none() {
        let file = &source.written;
        return Err(Failure::Usage(match bare_id(&columns) {
            None => format!(
                "no column of {file} is named like a person's key: add --unit COLUMN, --unit ROW if each row is another person, or --unit PUBLIC if no row is about a person"
            ),
            Some(id) => format!(
                "no column of {file} is named like a person's key, and {id} may number people or rows: add --unit {id} if each {id} is one person, --unit ROW if each row is another person, or --unit PUBLIC if no row is about a person"
            ),
        }));
    }
    Ok(())
}

/// The column that is named `id` and nothing else. It may number people, or only rows: which of
/// them no name tells.
fn bare_id(columns: &[ShownColumn]) -> Option<&str> {
    columns.iter().map(|column| column.name.as_str()).find(|name| name.eq_ignore_ascii_case("id"))
}

/// The clause of SET PRIVACY UNIT that SUGGEST drafts for an undeclared table.
async fn suggested_unit(session: &Session, table: &str) -> Result<Option<String>, Error> {
    let begins = format!("ALTER TABLE {} SET PRIVACY UNIT ", quoted(table));
    suggested(session, table, &begins).await
}

/// The rest of the first drafted statement that begins so.
async fn suggested(session: &Session, table: &str, begins: &str) -> Result<Option<String>, Error> {
    let drafted = format!("ALTER TABLE {} SUGGEST PRIVACY", quoted(table));
    let lines = lines_of(session, &drafted, 0).await?;
    let rest = lines.iter().find_map(|line| line.strip_prefix(begins));
    Ok(rest.map(|rest| rest.trim_end_matches(';').to_owned()))
}

/// How a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WalkStep {
    Done,
    Left,
}

/// Ends a step where the owner left.
macro_rules! typed {
    ($asked:expr) => {
        match $asked? {
            Typed::Line(line) => line,
            Typed::Left => return Ok(WalkStep::Left),
        }
    };
}

struct Walk<'a> {
    asking: Asking,
    printer: Printer,
    begun: &'a Begun,
    plan: &'a Plan,
    engine: Engine,
}

impl Walk<'_> {
    fn owner(&self) -> Session {
        self.engine.owner().into()
    }

    async fn has_no_table(&self) -> bool {
        lines_of(&self.owner(), "SHOW TABLES", 0).await.is_ok_and(|tables| tables.is_empty())
    }

    async fn all(&mut self, is_new: bool) -> Result<WalkStep, Failure> {
        let vault = self.plan.vault.display();
        let made = if is_new { "A new vault" } else { "The vault" };
        self.printer.note(&format!(
            "{made}, {vault}, holds what you declare and every charge, and no rows.\n\
             Enter takes what stands in brackets. q leaves; the same command goes on from there.\n\
             All suggestions follow from names and types: no row is shown."
        ));
        for source in &self.plan.data {
            if self.table(source).await? == WalkStep::Left {
                return Ok(WalkStep::Left);
            }
        }
        self.go_on().await?;
        Ok(WalkStep::Done)
    }

    /// Runs a statement of the owner, and shows it. What it says is not shown: it may say what the
    /// rows hold.
    async fn run(&self, statement: &str) -> Result<(), Error> {
        self.printer.note(&format!("  {statement};"));
        self.owner().execute(statement).await.map(drop)
    }

    async fn table(&mut self, source: &DataSource) -> Result<WalkStep, Failure> {
        self.printer.note(&format!("\n{}", source.written));
        self.run(&source.create).await?;
        let columns = described(&self.owner(), &source.table).await?;
        let widest = columns.iter().map(|column| column.name.chars().count()).max().unwrap_or(0);
        for column in &columns {
            self.printer.note(&format!("    {:widest$}  {}", column.name, column.sql_type));
        }
        if columns.iter().all(|column| column.sql_type == "VARCHAR") && columns.len() > 2 {
            self.printer.note(
                "    All columns are texts: numbers and dates that are written otherwise need an option,\n    see docs/formats.md.",
            );
        }
        if self.unit(source, &columns).await? == WalkStep::Left
            || self.domains(source).await? == WalkStep::Left
            || self.budget(source).await? == WalkStep::Left
        {
            return Ok(WalkStep::Left);
        }
        self.question(source).await
    }

    /// Who is a person, and how many rows one may have.
    async fn unit(
        &mut self,
        source: &DataSource,
        columns: &[ShownColumn],
    ) -> Result<WalkStep, Failure> {
        if self.privacy_of(&source.table).await?.is_some_and(|text| !text.starts_with("undeclared"))
        {
            return Ok(WalkStep::Done);
        }
        let drafted = suggested_unit(&self.owner(), &source.table).await?;
        loop {
            self.printer.note(
                "\nWho is a person? All rows of one are protected together. Type the column that names them,\n\
                 ROW if each row is another person, or PUBLIC if no row is about a person.",
            );
            if let (None, Some(id)) = (&drafted, bare_id(columns)) {
                self.printer.note(&format!(
                    "{id} may number people or only rows. If each {id} is one person, type {id}, and 1 for one row each;\n\
                     if a person may have several {id}, no column names people, and neither {id} nor ROW protects them."
                ));
            }
            let typed = match &self.begun.unit {
                Some(unit) => self.asking.said(unit),
                None => typed!(self.asking.line(drafted.as_deref())),
            };
            let clause = match unit_clause(&typed, drafted.as_deref(), columns) {
                Ok(clause) => clause,
                Err(sentence) if self.begun.unit.is_some() => return Err(Failure::Usage(sentence)),
                Err(sentence) => {
                    self.again(&sentence)?;
                    continue;
                }
            };
            let table = quoted(&source.table);
            let statement = match clause {
                UnitAnswer::Public => format!("ALTER TABLE {table} SET PUBLIC"),
                UnitAnswer::Row => format!("ALTER TABLE {table} SET PRIVACY UNIT ROW"),
                UnitAnswer::Clause(clause) => {
                    let rows = match self.rows()? {
                        Typed::Left => return Ok(WalkStep::Left),
                        Typed::Line(rows) => rows,
                    };
                    format!("ALTER TABLE {table} SET PRIVACY UNIT {clause}{rows}")
                }
            };
            match self.run(&statement).await {
                Ok(()) => return Ok(WalkStep::Done),
                Err(_) if self.begun.unit.is_some() => {
                    return Err(Failure::Usage(self.for_the_owner(&statement)));
                }
                Err(_) => self.again(&self.for_the_owner(&statement))?,
            }
        }
    }

    /// What an owner reads who wants to know why the rows do not fit a declaration.
    fn for_the_owner(&self, statement: &str) -> String {
        let vault = self.plan.vault.display();
        format!(
            "the data cannot be read so, or some person has more rows than that. What is wrong may name\n\
             values, so it is said to the owner alone:\n  hushql {vault} --owner -c {}",
            in_shell(statement)
        )
    }

    /// The clause for how many rows a person may have.
    fn rows(&mut self) -> Result<Typed, Failure> {
        loop {
            self.printer.note(
                "\nHow many rows may a person have at most? Noise grows with it. Type 1 for one row each, or\n\
                 nothing if you cannot say: questions then bound it.",
            );
            let typed = match self.asking.line(Some(""))? {
                Typed::Line(line) => line,
                Typed::Left => return Ok(Typed::Left),
            };
            match typed::most_rows(&typed) {
                Ok(clause) => return Ok(Typed::Line(clause)),
                Err(sentence) => self.again(&sentence)?,
            }
        }
    }

    /// What each column may hold.
    async fn domains(&mut self, source: &DataSource) -> Result<WalkStep, Failure> {
        if !self.is_private(&source.table).await? {
            return Ok(WalkStep::Done);
        }
        let open: Vec<ShownColumn> = described(&self.owner(), &source.table)
            .await?
            .into_iter()
            .filter(|column| column.domain.is_empty() && column.role.is_empty())
            .filter(|column| ColumnKind::of(&column.sql_type) != ColumnKind::Other)
            .collect();
        if !open.is_empty() {
            self.printer.note(
                "\nWhat may the columns hold? Write what you know without looking: analysts see it.\n\
                 A column that is skipped can be counted, and not added up or grouped by.",
            );
        }
        for column in open {
            if self.domain(source, &column).await? == WalkStep::Left {
                return Ok(WalkStep::Left);
            }
        }
        Ok(WalkStep::Done)
    }

    async fn domain(
        &mut self,
        source: &DataSource,
        column: &ShownColumn,
    ) -> Result<WalkStep, Failure> {
        let head = format!(
            "ALTER TABLE {} ALTER COLUMN {} SET PRIVACY DOMAIN ",
            quoted(&source.table),
            quoted(&column.name)
        );
        let kind = ColumnKind::of(&column.sql_type);
        let drafted = suggested(&self.owner(), &source.table, &head).await?;
        loop {
            self.printer.note(&format!("{}, {}", column.name, kind.asks()));
            let typed = typed!(self.asking.line(Some(drafted.as_deref().unwrap_or("skip"))));
            if typed.is_empty() || typed.eq_ignore_ascii_case("skip") {
                return Ok(WalkStep::Done);
            }
            let clause = match typed::domain(kind, &typed) {
                Ok(clause) => clause,
                Err(sentence) => {
                    self.again(&sentence)?;
                    continue;
                }
            };
            // A domain is checked against the type alone, so its errors can be shown.
            match self.run(&format!("{head}{clause}")).await {
                Ok(()) => return Ok(WalkStep::Done),
                Err(error) => self.again(&Failure::from(error).text())?,
            }
        }
    }

    /// How much may ever be learned about one person.
    async fn budget(&mut self, source: &DataSource) -> Result<WalkStep, Failure> {
        let drafted = suggested(&self.owner(), &source.table, "CREATE PRIVACY BUDGET ").await?;
        let Some(named) = drafted.as_deref().and_then(|rest| rest.rsplit_once(" LIMIT ")) else {
            return Ok(WalkStep::Done);
        };
        loop {
            self.printer.note(
                "\nHow much may ever be learned about one person, by all analysts together? As an ε: 0.1 is\n\
                 little, 1 usual, 10 protects hardly anyone. Plain SQL then costs a tenth of it.",
            );
            let typed = typed!(self.asking.line(Some("1")));
            let (epsilon, default) = match typed::budget(&typed) {
                Ok(amounts) => amounts,
                Err(sentence) => {
                    self.again(&sentence)?;
                    continue;
                }
            };
            let statement = format!(
                "CREATE PRIVACY BUDGET {} LIMIT (epsilon={epsilon}) PER QUERY (default={default})",
                named.0
            );
            match self.run(&statement).await {
                Ok(()) => return Ok(WalkStep::Done),
                Err(error) => self.again(&Failure::from(error).text())?,
            }
        }
    }

    /// The first question, and its answer.
    async fn question(&mut self, source: &DataSource) -> Result<WalkStep, Failure> {
        let table = quoted(&source.table);
        let columns = described(&self.owner(), &source.table).await?;
        let key = columns.iter().find(|column| !column.role.is_empty() && column.role != "cells");
        let is_private = self.is_private(&source.table).await?;
        let question = match (key, is_private) {
            (Some(key), true) => {
                format!("SELECT COUNT(DISTINCT {}) AS people FROM {table}", quoted(&key.name))
            }
            (None, true) => format!("SELECT COUNT(*) AS people FROM {table}"),
            (_, false) => format!("SELECT COUNT(*) AS n FROM {table}"),
        };
        self.printer.note(match is_private {
            true => "\nThe first question, at the default cost of the budget. Ask it?",
            false => "\nThe first question, which costs nothing. Ask it?",
        });
        self.printer.note(&format!("  {question};"));
        let typed = typed!(self.asking.line(Some("yes")));
        if !["y", "yes"].contains(&typed.to_lowercase().as_str()) {
            return Ok(WalkStep::Done);
        }
        let answer = self.engine.analyst(ANALYST)?.execute(&question).await?;
        self.printer.output(&answer)?;
        Ok(WalkStep::Done)
    }

    /// What to type next.
    async fn go_on(&self) -> Result<(), Failure> {
        let vault = in_shell(&self.plan.vault.to_string_lossy());
        self.printer.note("\nGo on:");
        for source in &self.plan.data {
            let columns = described(&self.owner(), &source.table).await?;
            let listed = columns.iter().find(|column| column.domain.starts_with("in ("));
            if let Some(column) = listed {
                let (table, column) = (quoted(&source.table), quoted(&column.name));
                let question = format!(
                    "SELECT {column}, LAPLACE(eps=0.1, rows=1, groups=1) COUNT(*) AS n FROM {table} GROUP BY {column}"
                );
                self.printer.note(&format!(
                    "  hushql {vault} --analyst {ANALYST} -c {}",
                    in_shell(&question)
                ));
            }
        }
        self.printer.note(&format!("  hushql {vault} --analyst {ANALYST}    # the shell: \\? lists its commands, \\help median explains a word"));
        self.printer.note(&format!("  hushql {vault} --owner          # declare more; SHOW CREATE TABLE shows what there is"));
        self.printer
            .note(&format!("  hushql doctor {vault}           # what to mend before others ask"));
        Ok(())
    }

    /// Says what was wrong with a line. Where nothing is asked, it ends the walk.
    fn again(&self, sentence: &str) -> Result<(), Failure> {
        if self.asking.is_silent() {
            return Err(Failure::Usage(sentence.to_owned()));
        }
        self.printer.warn(sentence);
        Ok(())
    }

    async fn privacy_of(&self, table: &str) -> Result<Option<String>, Error> {
        let owner = self.owner();
        let names = lines_of(&owner, "SHOW TABLES", 0).await?;
        let texts = lines_of(&owner, "SHOW TABLES", 1).await?;
        Ok(names.iter().zip(texts).find(|(name, _)| *name == table).map(|(_, text)| text))
    }

    async fn is_private(&self, table: &str) -> Result<bool, Error> {
        Ok(self.privacy_of(table).await?.is_some_and(|text| text.starts_with("private")))
    }
}

/// What an owner says of people.
#[derive(Debug, PartialEq, Eq)]
enum UnitAnswer {
    Row,
    Public,
    Clause(String),
}

/// Reads who is a person. A column named like one of the words is the column.
fn unit_clause(
    typed: &str,
    drafted: Option<&str>,
    columns: &[ShownColumn],
) -> Result<UnitAnswer, String> {
    let typed = typed.trim();
    if drafted.is_some_and(|drafted| drafted == typed) {
        return Ok(UnitAnswer::Clause(typed.to_owned()));
    }
    let same = |column: &&ShownColumn| column.name == typed;
    let alike = |column: &&ShownColumn| column.name.eq_ignore_ascii_case(typed);
    if let Some(column) = columns.iter().find(same).or_else(|| columns.iter().find(alike)) {
        return Ok(UnitAnswer::Clause(format!("({})", quoted(&column.name))));
    }
    match typed.to_uppercase().as_str() {
        "ROW" => Ok(UnitAnswer::Row),
        "PUBLIC" => Ok(UnitAnswer::Public),
        _ => Err("no column has that name: type a column, ROW or PUBLIC".to_owned()),
    }
}

/// A word for a shell.
fn in_shell(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=@".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false if !word.contains(['"', '$', '`', '\\', '!']) => format!("\"{word}\""),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_named_by_a_column_or_a_word() {
        let column = |name: &str| ShownColumn {
            name: name.to_owned(),
            sql_type: "BIGINT".to_owned(),
            domain: String::new(),
            role: String::new(),
        };
        let columns = [column("Patient No"), column("row")];
        let clause = |typed: &str| unit_clause(typed, Some("VIA (a) REFERENCES b(c)"), &columns);
        let is = |text: &str| Ok(UnitAnswer::Clause(text.to_owned()));
        assert_eq!(clause("patient no"), is("(\"Patient No\")"));
        assert_eq!(clause("row"), is("(row)"));
        assert_eq!(clause("VIA (a) REFERENCES b(c)"), is("VIA (a) REFERENCES b(c)"));
        assert_eq!(clause("public"), Ok(UnitAnswer::Public));
        assert!(clause("nobody").is_err());
        assert_eq!(unit_clause("ROW", None, &columns[..1]), Ok(UnitAnswer::Row));
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(in_shell("a/b.db"), "a/b.db");
        assert_eq!(in_shell("SELECT 'x'"), "\"SELECT 'x'\"");
        assert_eq!(in_shell("it's \"x\""), "'it'\\''s \"x\"'");
    }
}

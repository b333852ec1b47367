//! The two databases of an audit: the same declarations over either file of each table.
//!
//! In: `NAME=FILE` of tables and neighbours, and a script of declarations. Out: engines in memory
//! whose budgets replay nothing, and the number of units in which the two databases differ. Where
//! the script creates an audited table itself, its columns and options count, and its location is
//! replaced.
//!
//! ```text
//! --table t=a.csv --neighbour t=b.csv   →   CREATE EXTERNAL TABLE t … LOCATION 'a.csv', and 'b.csv'
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use arrow::datatypes::SchemaRef;
use hushql::privacy::Notion;
use hushql::{Engine, ExternalTable, Output, Resources, split_statements};
use hushql_vault::catalog::quoted;

use super::super::failure::Failure;
use super::super::lex::{Piece, TokenKind, pieces};
use super::super::view::{Cell, View};

/// The most that a budget in ε may hold, and nearly all of δ.
const LIMIT: &str = "LIMIT (epsilon=1000000, delta=0.99)";

/// Which of the two databases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// That of `--table`.
    Table,
    /// That of `--neighbour`.
    Neighbour,
}

/// A table and its neighbour.
#[derive(Debug, Clone)]
struct AuditedTable {
    name: String,
    files: [String; 2],
    /// The script's own CREATE EXTERNAL TABLE.
    created: Option<String>,
    /// Otherwise the columns of the table's file, which count for the neighbour's, too.
    columns: Option<SchemaRef>,
}

/// All tables of an audit, and what is declared of them.
#[derive(Debug, Clone)]
pub(super) struct AuditedTables {
    tables: Vec<AuditedTable>,
    /// The statements of the script, without those that create audited tables.
    declarations: Vec<String>,
    resources: Resources,
}

fn usage(sentence: String) -> Failure {
    Failure::Usage(sentence)
}

/// `NAME=FILE`.
fn named(argument: &str, option: &str) -> Result<(String, String), Failure> {
    match argument.split_once('=') {
        Some((name, file)) if !name.is_empty() && !file.is_empty() => {
            Ok((name.to_owned(), file.to_owned()))
        }
        _ => Err(usage(format!("--{option} {argument}: write NAME=FILE, such as people=a.csv"))),
    }
}

impl AuditedTables {
    /// Reads the arguments and the script. Nothing is opened.
    pub(super) fn new(
        tables: &[String],
        neighbours: &[String],
        script: &str,
        resources: Resources,
    ) -> Result<Self, Failure> {
        let mut others = BTreeMap::new();
        for argument in neighbours {
            let (name, file) = named(argument, "neighbour")?;
            if others.insert(name.clone(), file).is_some() {
                return Err(usage(format!("--neighbour names {name} twice")));
            }
        }
        let mut found: Vec<AuditedTable> = Vec::new();
        for argument in tables {
            let (name, file) = named(argument, "table")?;
            if found.iter().any(|table| table.name == name) {
                return Err(usage(format!("--table names {name} twice")));
            }
            // A table without a neighbour is the same in both.
            let other = others.remove(&name).unwrap_or_else(|| file.clone());
            found.push(AuditedTable { name, files: [file, other], created: None, columns: None });
        }
        if let Some(name) = others.keys().next() {
            return Err(usage(format!(
                "--neighbour {name}=… has no table: add --table {name}=FILE"
            )));
        }
        let mut declarations = Vec::new();
        for statement in split_statements(script)? {
            let text = statement.text();
            let created = created_table(text);
            match found.iter_mut().find(|table| created.as_ref() == Some(&table.name)) {
                Some(table) => table.created = Some(text.to_owned()),
                None => declarations.push(text.to_owned()),
            }
        }
        Ok(Self { tables: found, declarations, resources })
    }

    /// Reads the columns of both files of each table: the neighbour has those of the table.
    ///
    /// Returns what has to be said about them.
    pub(super) async fn read_columns(&mut self) -> Result<Vec<String>, Failure> {
        let mut remarks = Vec::new();
        for table in self.tables.iter_mut().filter(|table| table.created.is_none()) {
            let ours = table.proposed_columns(Side::Table).await?;
            let theirs = table.proposed_columns(Side::Neighbour).await?;
            let names = |schema: &SchemaRef| -> Vec<String> {
                schema.fields().iter().map(|field| field.name().clone()).collect()
            };
            if names(&ours) != names(&theirs) {
                return Err(usage(format!(
                    "table {} has the columns {} in {}, and {} in {}: neighbours have the same columns",
                    table.name,
                    names(&ours).join(", "),
                    table.files[0],
                    names(&theirs).join(", "),
                    table.files[1]
                )));
            }
            for (own, other) in ours.fields().iter().zip(theirs.fields()) {
                if own.data_type() != other.data_type() {
                    remarks.push(format!(
                        "column {} of {} is read as {}, as in {}; {} alone would be read as {}. \
                         CREATE EXTERNAL TABLE {} (…) in the declarations fixes the types",
                        own.name(),
                        table.name,
                        own.data_type(),
                        table.files[0],
                        table.files[1],
                        other.data_type(),
                        quoted(&table.name)
                    ));
                }
            }
            table.columns = Some(ours);
        }
        Ok(remarks)
    }

    /// An engine over one of the databases, with everything declared and budgets that pay for many
    /// statements and replay none.
    pub(super) async fn engine(&self, side: Side) -> Result<Engine, Failure> {
        let engine = Engine::builder().resources(self.resources.clone()).in_memory()?;
        let owner = engine.owner();
        for table in &self.tables {
            table.create(&engine, side).await?;
        }
        for statement in &self.declarations {
            owner.execute(statement).await?;
        }
        let budgets = owner.budgets()?;
        for state in &budgets {
            let budget = &state.budget;
            let is_plain = budget.promise.is_none() && budget.coupon.is_none();
            if budget.limit.notion != Notion::Approximate || !is_plain || !state.slices.is_empty() {
                return Err(usage(format!(
                    "budget {} counts in ρ or in coupons, or has slices: leave it out of the \
                     declarations; without a budget there, the audit makes one in ε",
                    budget.name
                )));
            }
            let name = quoted(&budget.name);
            for change in [format!("SET {LIMIT}"), "SET REPLAY (OFF)".to_owned()] {
                owner.execute(&format!("ALTER PRIVACY BUDGET {name} {change}")).await?;
            }
        }
        let private = private_tables(&engine).await?;
        let audited = self.tables.iter().filter(|table| private.contains(&table.name));
        for (number, table) in audited.filter(|_| budgets.is_empty()).enumerate() {
            let of = quoted(&table.name);
            let create =
                format!("CREATE PRIVACY BUDGET audit_{number} FOR {of} {LIMIT} REPLAY (OFF)");
            owner.execute(&create).await?;
        }
        Ok(engine)
    }

    /// The number of units whose rows differ between the databases.
    pub(super) async fn units_apart(&self) -> Result<usize, Failure> {
        let declared = self.engine(Side::Table).await?;
        let private = private_tables(&declared).await?;
        let (mut units, mut rows) = (BTreeSet::new(), 0_usize);
        for table in self.tables.iter().filter(|table| private.contains(&table.name)) {
            let unit = unit_columns(&declared, &table.name).await?;
            let mut apart: BTreeMap<(Vec<String>, Vec<String>), i64> = BTreeMap::new();
            for (side, sign) in [(Side::Table, 1), (Side::Neighbour, -1)] {
                for row in table.rows(side, &self.resources, &unit).await? {
                    *apart.entry(row).or_default() += sign;
                }
            }
            for ((unit, _), times) in apart.into_iter().filter(|(_, times)| *times != 0) {
                match unit.is_empty() {
                    true => rows += usize::try_from(times.unsigned_abs()).unwrap_or(usize::MAX),
                    // A row without a unit belongs to no privacy unit.
                    false if unit.iter().any(|value| value == "NULL") => {}
                    false => _ = units.insert(unit),
                }
            }
        }
        Ok(units.len() + rows)
    }
}

impl AuditedTable {
    fn file(&self, side: Side) -> &str {
        match side {
            Side::Table => &self.files[0],
            Side::Neighbour => &self.files[1],
        }
    }

    /// The file as a table whose columns are its own, or those of the table's file.
    fn external(&self, side: Side) -> Result<ExternalTable, Failure> {
        let file = self.file(side);
        let ending = Path::new(file).extension().and_then(|ending| ending.to_str());
        let external = match ending.map(str::to_ascii_lowercase).as_deref() {
            Some("csv") => ExternalTable::csv(&self.name, file),
            Some("parquet") => ExternalTable::parquet(&self.name, file),
            Some("json") => ExternalTable::json(&self.name, file),
            Some("arrow") => ExternalTable::arrow(&self.name, file),
            _ => {
                return Err(usage(format!(
                    "{file}: write a file that ends with .csv, .parquet, .json or .arrow, or \
                     CREATE EXTERNAL TABLE {} … in the declarations",
                    quoted(&self.name)
                )));
            }
        };
        Ok(match &self.columns {
            Some(columns) => external.columns(columns),
            None => external,
        })
    }

    async fn create(&self, engine: &Engine, side: Side) -> Result<(), Failure> {
        let owner = engine.owner();
        match &self.created {
            Some(text) => _ = owner.execute(&relocated(text, self.file(side))).await?,
            None => _ = owner.declare(self.external(side)?).await?,
        }
        Ok(())
    }

    /// The columns that are proposed for a file.
    async fn proposed_columns(&self, side: Side) -> Result<SchemaRef, Failure> {
        let engine = Engine::in_memory()?;
        self.create(&engine, side).await?;
        let mut schemas = engine.owner().schemas()?.into_iter();
        let found = schemas.find(|table| table.name == self.name);
        found.map(|table| table.schema).ok_or(Failure::Lost)
    }

    /// All rows of a file, each with the values of its unit and with all of its values.
    async fn rows(
        &self,
        side: Side,
        resources: &Resources,
        unit: &[String],
    ) -> Result<Vec<(Vec<String>, Vec<String>)>, Failure> {
        // An engine of its own, in which the rows are public: they are those of whoever audits.
        let engine = Engine::builder().resources(resources.clone()).in_memory()?;
        self.create(&engine, side).await?;
        let name = quoted(&self.name);
        engine.owner().execute(&format!("ALTER TABLE {name} SET PUBLIC")).await?;
        let answer = engine.owner().query(&format!("SELECT * FROM {name}")).await?;
        let view = View::for_answer(&answer)?;
        let is_unit = |name: &String| unit.contains(name);
        let row = |row: &Vec<Cell>| -> (Vec<String>, Vec<String>) {
            let cells = || row.iter().map(|cell| cell.text().to_owned());
            let units =
                view.columns.iter().zip(cells()).filter(|(column, _)| is_unit(&column.name));
            (units.map(|(_, text)| text).collect(), cells().collect())
        };
        Ok(view.rows.iter().map(row).collect())
    }
}

/// One column of an answer about declarations, beside its first one.
async fn shown(
    engine: &Engine,
    statement: &str,
    column: usize,
) -> Result<Vec<[String; 2]>, Failure> {
    let Output::Answer(answer) = engine.owner().execute(statement).await? else {
        return Err(Failure::UnknownOutput);
    };
    let view = View::for_answer(&answer)?;
    let text =
        |row: &[Cell], at: usize| row.get(at).map_or(String::new(), |cell| cell.text().to_owned());
    Ok(view.rows.iter().map(|row| [text(row, 0), text(row, column)]).collect())
}

/// The tables whose rows belong to people.
async fn private_tables(engine: &Engine) -> Result<BTreeSet<String>, Failure> {
    let tables = shown(engine, "SHOW TABLES", 1).await?.into_iter();
    Ok(tables.filter(|[_, is]| is.starts_with("private")).map(|[name, _]| name).collect())
}

/// The columns that say whose row a row is; none where each row is a unit.
async fn unit_columns(engine: &Engine, table: &str) -> Result<Vec<String>, Failure> {
    let columns = shown(engine, &format!("DESCRIBE {}", quoted(table)), 3).await?.into_iter();
    let leads = |role: &str| {
        ["privacy unit", "leads to", "month of the unit"].iter().any(|of| role.starts_with(of))
    };
    Ok(columns.filter(|[_, role]| leads(role)).map(|[name, _]| name).collect())
}

/// The pieces of a statement that are words, names and the like, each with its place.
fn words(text: &str) -> impl Iterator<Item = (usize, Piece<'_>)> {
    let mut end = 0;
    let placed = pieces(text).into_iter().map(move |piece| {
        let start = end;
        end += piece.text.len();
        (start, piece)
    });
    placed.filter(|(_, piece)| !matches!(piece.kind, TokenKind::Space | TokenKind::Comment))
}

/// The table that a CREATE EXTERNAL TABLE creates.
fn created_table(text: &str) -> Option<String> {
    let mut words = words(text).map(|(_, piece)| piece);
    let is = |piece: Piece<'_>, word: &str| piece.text.eq_ignore_ascii_case(word);
    let starts = is(words.next()?, "CREATE");
    let mut next = words.next()?;
    if is(next, "OR") {
        next = words.nth(1)?;
    }
    if !starts || !is(next, "EXTERNAL") || !is(words.next()?, "TABLE") {
        return None;
    }
    let mut name = words.next()?;
    if is(name, "IF") {
        name = words.nth(2)?;
    }
    Some(match name.text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
        Some(inner) => inner.replace("\"\"", "\""),
        None => name.text.to_lowercase(),
    })
}

/// A CREATE EXTERNAL TABLE of another file.
fn relocated(text: &str, file: &str) -> String {
    let mut words = words(text).skip_while(|(_, piece)| {
        piece.kind != TokenKind::Word || !piece.text.eq_ignore_ascii_case("LOCATION")
    });
    let Some((at, first)) = words.nth(1).filter(|(_, piece)| piece.kind == TokenKind::Text) else {
        return text.to_owned();
    };
    // A doubled quote makes two pieces without a space between them.
    let end = words.fold(at + first.text.len(), |end, (at, piece)| {
        match at == end && piece.kind == TokenKind::Text {
            true => end + piece.text.len(),
            false => end,
        }
    });
    format!("{}'{}'{}", &text[..at], file.replace('\'', "''"), &text[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_are_replaced() {
        let text = "CREATE EXTERNAL TABLE IF NOT EXISTS \"My people\" (id BIGINT) -- LOCATION 'c'
            STORED AS CSV LOCATION 'a.csv' OPTIONS ('quote' '''')";
        assert_eq!(created_table(text), Some("My people".to_owned()));
        let moved = relocated(text, "it's.csv");
        assert!(moved.contains("LOCATION 'it''s.csv' OPTIONS"), "{moved}");
        assert!(moved.contains("-- LOCATION 'c'"), "{moved}");
        let quoted = relocated("CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 'a''b.csv'", "c");
        assert_eq!(quoted, "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 'c'");
        for (text, table) in [
            ("create or replace external table People stored as csv", Some("people")),
            ("ALTER TABLE people SET PUBLIC", None),
            ("CREATE VIEW v AS SELECT 1", None),
            ("", None),
        ] {
            assert_eq!(created_table(text).as_deref(), table, "{text}");
        }
    }

    #[test]
    fn wrong_tables_are_refused_with_what_to_write() {
        let refused = |tables: &[&str], neighbours: &[&str]| {
            let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
            let (tables, neighbours): (Vec<String>, Vec<String>) =
                (owned(tables), owned(neighbours));
            let read = AuditedTables::new(&tables, &neighbours, "", Resources::default());
            read.map_or_else(|failure| failure.to_string(), |_| "accepted".to_owned())
        };
        assert!(refused(&["people"], &[]).contains("write NAME=FILE"));
        assert!(refused(&["t=a.csv", "t=b.csv"], &[]).contains("names t twice"));
        assert!(refused(&["t=a.csv"], &["s=b.csv"]).contains("add --table s=FILE"));
        assert!(refused(&["t=a.csv"], &["t=b.csv", "t=c.csv"]).contains("names t twice"));
        assert_eq!(refused(&["t=a.csv", "s=c.csv"], &["t=b.csv"]), "accepted");
    }
}

//! The statements whose refusals are followed: suites, attacks, and everyday questions.
//!
//! In: nothing. Out: sources; of each, its statements in order, on which engine, and by whom.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use hushql::{Engine, Error, Reason, Refusal, Session, split_statements};

use crate::contract::questions;
use crate::privacy::redteam;

/// Where statements come from.
#[derive(Debug, Clone)]
pub(super) enum Source {
    /// A file of tests/slt.
    Suite(PathBuf),
    /// A family of tests/redteam.
    Family(String),
    /// A schema of tests/questions.
    Schema(&'static str),
}

/// The tables that statements are asked of.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Tables {
    Demo,
    Attacked(String),
    Everyday(&'static str),
}

/// One statement. Everything of one `part` happens on one engine, in order.
#[derive(Debug, Clone)]
pub(super) struct Step {
    tables: Tables,
    part: usize,
    pub(super) who: String,
    pub(super) sql: String,
}

impl Step {
    /// Whether it changes nothing.
    pub(super) fn only_asks(&self) -> bool {
        let statements = split_statements(&self.sql).unwrap_or_default();
        statements.iter().all(|statement| asked(statement.text()).is_some())
    }
}

fn files(folder: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let entries = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.collect();
    files.sort();
    files
}

/// All sources, always in the same order.
pub(super) fn sources() -> Vec<Source> {
    let suites = ["refuse", "explain"].map(|folder| files(&format!("tests/slt/{folder}")));
    let families = files("tests/redteam").into_iter();
    let family = |file: PathBuf| file.file_stem().unwrap().to_str().unwrap().to_owned();
    let schemas = questions::SCHEMAS.map(Source::Schema);
    let suites = suites.into_iter().flatten().map(Source::Suite);
    suites.chain(families.map(family).map(Source::Family)).chain(schemas).collect()
}

impl Source {
    pub(super) fn steps(&self) -> Vec<Step> {
        match self {
            Self::Suite(file) => {
                let text = fs::read_to_string(file).unwrap();
                text.split("\n\n").filter_map(record).collect()
            }
            Self::Family(name) => {
                let attacks = redteam::attacks(name).into_iter().enumerate();
                let steps = attacks.flat_map(|(i, (catalog, is_alone, steps))| {
                    let part = if is_alone { i + 1 } else { 0 };
                    let tables = Tables::Attacked(catalog);
                    let step = move |(who, sql)| Step { tables: tables.clone(), part, who, sql };
                    steps.into_iter().map(step)
                });
                steps.collect()
            }
            Self::Schema(name) => {
                let tables = Tables::Everyday(name);
                let step = |sql| Step { tables: tables.clone(), part: 0, who: "lab".into(), sql };
                questions::statements(name).into_iter().map(step).collect()
            }
        }
    }
}

/// A record of a suite, if it is a statement or a query.
fn record(block: &str) -> Option<Step> {
    let mut lines = block.lines().filter(|line| !line.starts_with('#')).peekable();
    while lines.next_if(|line| line.trim().is_empty()).is_some() {}
    let who = lines.next_if(|line| line.starts_with("connection "));
    let who = who.map_or("slt", |line| line["connection ".len()..].trim()).to_owned();
    let head = lines.next()?;
    let is_asked = head.starts_with("statement") || head.starts_with("query");
    let sql: Vec<&str> = lines.take_while(|line| line.trim() != "----").collect();
    is_asked.then(|| Step { tables: Tables::Demo, part: 0, who, sql: sql.join("\n") })
}

/// An engine, what was done there so far, and the sessions of those who did it.
pub(super) struct Stage {
    tables: Tables,
    part: usize,
    engine: Engine,
    sessions: BTreeMap<String, Session>,
    done: Vec<(String, String)>,
}

impl Stage {
    async fn new(tables: Tables, part: usize) -> Self {
        let engine = match &tables {
            Tables::Demo => Engine::demo().unwrap(),
            Tables::Attacked(catalog) => redteam::database(catalog).await,
            Tables::Everyday(schema) => questions::engine(schema).await,
        };
        Self { tables, part, engine, sessions: BTreeMap::new(), done: Vec::new() }
    }

    /// Whether nothing was declared on it.
    pub(super) fn is_untouched(&self) -> bool {
        self.done.is_empty()
    }

    /// The stage of a step: this one, or another.
    pub(super) async fn of(step: &Step, before: Option<Self>) -> Self {
        match before {
            Some(stage) if stage.tables == step.tables && stage.part == step.part => stage,
            _ => Self::new(step.tables.clone(), step.part).await,
        }
    }

    /// The same on an engine of its own.
    pub(super) async fn again(&self) -> Self {
        let mut stage = Self::new(self.tables.clone(), self.part).await;
        for (who, sql) in &self.done {
            let _ = stage.ask(who, sql).await;
        }
        stage
    }

    /// The refusal as it is shown to who asks. A refused query costs nothing.
    pub(super) async fn shown(&self, who: &str, sql: &str, refusal: Refusal) -> Refusal {
        let Some(session) = self.sessions.get(who) else { return refusal };
        match asked(sql) {
            Some(query) if [Reason::Exact, Reason::UnknownKeys].contains(&refusal.reason()) => {
                match session.query(query).await {
                    Err(Error::Refused(shown)) => shown,
                    Ok(_) | Err(_) => refusal,
                }
            }
            Some(_) | None => refusal,
        }
    }

    /// Plans a query, or carries out another statement. What a query costs is not charged, so that
    /// no budget is ever spent.
    pub(super) async fn ask(&mut self, who: &str, sql: &str) -> Result<(), Error> {
        let session = match self.sessions.get(who) {
            Some(session) => session.clone(),
            None => match who {
                "owner" => self.engine.owner().into(),
                _ => self.engine.analyst(who)?.into(),
            },
        };
        self.sessions.insert(who.to_owned(), session.clone());
        for statement in split_statements(sql)? {
            let text = statement.text();
            match asked(text) {
                Some(query) => drop(session.cost(query)?),
                None => {
                    session.execute(text).await?;
                    self.done.push((who.to_owned(), text.to_owned()));
                }
            }
        }
        Ok(())
    }
}

/// The query in a statement that only asks, or explains.
pub(super) fn asked(statement: &str) -> Option<&str> {
    let mut rest = statement.trim_start();
    for word in ["EXPLAIN", "PRIVACY"] {
        let head = rest.get(..word.len());
        if head.is_some_and(|head| head.eq_ignore_ascii_case(word)) {
            rest = rest[word.len()..].trim_start();
        }
    }
    let starts_with =
        |word: &&str| rest.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word));
    let asks = ["SELECT", "WITH", "FROM", "VALUES", "TABLE ", "("];
    asks.iter().any(starts_with).then_some(rest)
}

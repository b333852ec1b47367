//! What clients ask of a catalog that is not the engine's: who and where they are, and which tables there are.
//!
//! In: a query. Out: its answer, if it is one of those that tools are known to send; any other query goes to the engine, which refuses
//! what it does not know. The answers follow from declarations alone, and nothing is charged.
//!
//! ```text
//! SELECT current_schema()                                       →   public
//! SELECT … "Schema" … "Name" … FROM pg_catalog.pg_class …       →   the tables, as psql's \dt shows them
//! SELECT … FROM pg_catalog.pg_policy …                          →   no rows
//! ```

use hushql::{TableSchema, Value};
use sha2::{Digest, Sha256};

use super::desk::{Desk, Failed};
use super::encode::{Table, kind, kinds};
use super::run_texts::texts;
use super::words::{Token, VERSION, tokens};

/// The name of the only database.
pub(super) const DATABASE: &str = "hushql";

/// Tables of PostgreSQL's catalog that hold nothing here.
const EMPTY: [&str; 26] = [
    "pg_am",
    "pg_attrdef",
    "pg_collation",
    "pg_constraint",
    "pg_depend",
    "pg_description",
    "pg_enum",
    "pg_event_trigger",
    "pg_extension",
    "pg_foreign_server",
    "pg_foreign_table",
    "pg_index",
    "pg_inherits",
    "pg_partitioned_table",
    "pg_policy",
    "pg_proc",
    "pg_publication",
    "pg_publication_namespace",
    "pg_publication_rel",
    "pg_range",
    "pg_rewrite",
    "pg_seclabel",
    "pg_statistic_ext",
    "pg_tablespace",
    "pg_trigger",
    "pg_type",
];

/// Functions that stand where tables do.
const FUNCTIONS: [&str; 2] = ["generate_series", "unnest"];

/// The answer to a query that a tool sends.
///
/// # Errors
/// Those of the vault.
pub(super) fn answer(desk: &Desk, sql: &str) -> Result<Option<Table>, Failed> {
    answer_with(desk, sql, &[])
}

/// The same, with values for parameters.
///
/// # Errors
/// As [`answer`].
pub(super) fn answer_with(
    desk: &Desk,
    sql: &str,
    values: &[Value],
) -> Result<Option<Table>, Failed> {
    let words = tokens(sql);
    if let Some((name, value)) = function(desk, &words) {
        return Ok(Some(texts(&[(&name, vec![value])])?));
    }
    let read = relations(&words);
    let Some(first) = read.first() else { return Ok(None) };
    let is_known = |name: &&str| {
        EMPTY.contains(name)
            || FUNCTIONS.contains(name)
            || ["pg_class", "pg_namespace", "pg_attribute", "pg_database", "pg_roles", "pg_user"]
                .contains(name)
    };
    // What the owner declared under such a name is a table like any other.
    let tables = desk.session.schemas()?;
    if !read.iter().all(is_known) || tables.iter().any(|table| read.contains(&table.name.as_str()))
    {
        return Ok(None);
    }
    let query = Asked { words: &words, values, tables: &tables };
    let table = match *first {
        "pg_database" => Some(query.databases()?),
        "pg_class" if query.names("Schema") && query.names("Name") => Some(query.list()?),
        "pg_class" if query.has("relchecks") => Some(query.details()?),
        "pg_class" if query.selects_oids() => Some(query.found()?),
        "pg_class" if query.selects_names() => Some(query.relation_names()?),
        "pg_attribute" if query.has("format_type") => Some(query.columns()?),
        // What a table inherits, and from which: nothing.
        name if EMPTY.contains(&name) || read.contains(&"pg_inherits") => {
            Some(texts(&[("empty", Vec::new())])?)
        }
        _ => None,
    };
    Ok(table)
}

/// `SELECT function()`, in `pg_catalog` or not: its name and its value.
fn function(desk: &Desk, words: &[Token]) -> Option<(String, String)> {
    let mut rest = words.iter().filter(|token| **token != Token::Sign(';'));
    if rest.next() != Some(&Token::Word("select".to_owned())) {
        return None;
    }
    let rest: Vec<&Token> = rest.collect();
    let rest = match rest.as_slice() {
        [Token::Word(schema), Token::Sign('.'), rest @ ..] if schema == "pg_catalog" => rest,
        rest => rest,
    };
    let name = match rest {
        [Token::Word(name)] => name,
        [Token::Word(name), Token::Sign('('), Token::Sign(')')] => name,
        _ => return None,
    };
    let who = || desk.role.clone().unwrap_or_else(|| "owner".to_owned());
    let value = match name.as_str() {
        "version" => format!("PostgreSQL {VERSION}"),
        "current_schema" => "public".to_owned(),
        "current_database" | "current_catalog" => DATABASE.to_owned(),
        "current_user" | "session_user" | "user" | "current_role" => who(),
        "pg_backend_pid" => desk.seat.process.to_string(),
        "pg_is_in_recovery" => "f".to_owned(),
        "txid_current" => "1".to_owned(),
        _ => return None,
    };
    Some((name.clone(), value))
}

/// The relations behind FROM and JOIN, outermost first; those in brackets of the SELECT list come after those of its own FROM.
///
/// A query of very many is none about the catalog: a name that no relation has stands for them, so that one message does not make
/// a list that grows with its square.
fn relations(words: &[Token]) -> Vec<&str> {
    const MOST: usize = 64;
    let mut found: Vec<(usize, &str)> = Vec::new();
    let mut depth = 0_usize;
    for (at, token) in words.iter().enumerate() {
        match token {
            Token::Sign('(') => depth += 1,
            Token::Sign(')') => depth = depth.saturating_sub(1),
            Token::Word(word) if word == "from" || word == "join" => {
                let mut next = at + 1;
                while let Some((name, end)) = relation(words, next) {
                    found.push((depth, name));
                    if found.len() > MOST {
                        return vec![""];
                    }
                    // `FROM a x, b y`: a comma, behind another name or not, leads to the next.
                    let comma = (end..=end + 1).find(|i| words.get(*i) == Some(&Token::Sign(',')));
                    let Some(comma) = comma else { break };
                    next = comma + 1;
                }
            }
            Token::Word(_)
            | Token::Name(_)
            | Token::Text(_)
            | Token::Parameter(_)
            | Token::Sign(_) => {}
        }
    }
    found.sort_by_key(|(depth, _)| *depth);
    found.into_iter().map(|(_, name)| name).collect()
}

/// The name of the relation at this place, in a schema or not, and where it ends.
fn relation(words: &[Token], at: usize) -> Option<(&str, usize)> {
    let name = |n: usize| match words.get(n) {
        Some(Token::Word(name) | Token::Name(name)) => Some(name.as_str()),
        _ => None,
    };
    match words.get(at + 1) == Some(&Token::Sign('.')) {
        true => name(at + 2).map(|name| (name, at + 3)),
        false => name(at).map(|name| (name, at + 1)),
    }
}

/// A query about tables.
struct Asked<'a> {
    words: &'a [Token],
    values: &'a [Value],
    tables: &'a [TableSchema],
}

impl Asked<'_> {
    fn has(&self, word: &str) -> bool {
        self.words.iter().any(|token| matches!(token, Token::Word(found) if found == word))
    }

    /// Whether a column is called so.
    fn names(&self, name: &str) -> bool {
        self.words.iter().any(|token| matches!(token, Token::Name(found) if found == name))
    }

    /// Whether the SELECT list is `c.oid, n.nspname, c.relname`.
    fn selects_oids(&self) -> bool {
        let list = self.words.iter().take_while(|token| **token != Token::Word("from".to_owned()));
        let words: Vec<&str> = list
            .filter_map(|token| match token {
                Token::Word(word) => Some(word.as_str()),
                _ => None,
            })
            .collect();
        words == ["select", "c", "oid", "n", "nspname", "c", "relname"]
    }

    /// Whether the first thing that is selected is `relname`.
    fn selects_names(&self) -> bool {
        let list = self.words.iter().skip(1).take(6);
        let list: Vec<&Token> = list.collect();
        let relname = Token::Word("relname".to_owned());
        let at = list.iter().position(|token| **token == relname);
        at.is_some_and(|at| {
            list.iter().take(at).all(|token| {
                matches!(token, Token::Sign('.' | '('))
                    || matches!(token, Token::Word(word) if ["c", "pg_class", "pg_catalog", "distinct"].contains(&word.as_str()))
            })
        })
    }

    /// The texts of the query, and the values of its parameters that are texts.
    fn texts(&self) -> impl Iterator<Item = &str> {
        let own = self.words.iter().filter_map(|token| match token {
            Token::Text(text) => Some(text.as_str()),
            _ => None,
        });
        own.chain(self.values.iter().filter_map(|value| match value {
            Value::Text(text) => Some(text.as_str()),
            _ => None,
        }))
    }

    /// The kinds of relations in `relkind IN (…)`; all without it.
    fn kinds(&self) -> Vec<&str> {
        let mut kinds = Vec::new();
        let is = |token: &Token, word: &str| matches!(token, Token::Word(found) if found == word);
        for (at, token) in self.words.iter().enumerate() {
            let next = self.words.get(at + 1);
            let listed = next.is_some_and(|next| is(next, "in") || *next == Token::Sign('='));
            if is(token, "relkind") && listed {
                let list = self.words.iter().skip(at + 2);
                let list = list.take_while(|token| !matches!(token, Token::Sign(')' | ']')));
                kinds.extend(list.filter_map(|token| match token {
                    Token::Text(kind) => Some(kind.as_str()),
                    _ => None,
                }));
            }
        }
        if kinds.is_empty() { vec!["r", "v"] } else { kinds }
    }

    /// The tables and views that the query is about: of its kinds, and with the name that its pattern describes.
    fn relations(&self) -> Vec<&TableSchema> {
        let kinds = self.kinds();
        let pattern = self.texts().find_map(|text| text.strip_prefix("^(")?.strip_suffix(")$"));
        let like = self.words.windows(2).find_map(|pair| match pair {
            [Token::Word(like), Token::Text(text)] if like == "like" => text.strip_suffix('%'),
            _ => None,
        });
        let relations = self.tables.iter().filter(|table| {
            let is_kind = kinds.contains(&if table.is_view { "v" } else { "r" });
            let fits = pattern.is_none_or(|pattern| matches(pattern, &table.name));
            let begins = like.is_none_or(|like| table.name.starts_with(&like.replace('\\', "")));
            is_kind && fits && begins
        });
        relations.collect()
    }

    /// The table or view whose number stands in the query.
    fn numbered(&self) -> Option<&TableSchema> {
        let numbers: Vec<&str> = self.texts().collect();
        let integers: Vec<String> = self
            .values
            .iter()
            .filter_map(|value| match value {
                Value::Integer(number) => Some(number.to_string()),
                _ => None,
            })
            .collect();
        self.tables.iter().find(|table| {
            let oid = oid(&table.name);
            numbers.contains(&oid.as_str()) || integers.contains(&oid)
        })
    }

    fn databases(&self) -> Result<Table, Failed> {
        let one = |text: &str| vec![text.to_owned()];
        if !self.names("Name") {
            return texts(&[("datname", one(DATABASE))]);
        }
        texts(&[
            ("Name", one(DATABASE)),
            ("Owner", one("owner")),
            ("Encoding", one("UTF8")),
            ("Collate", one("C")),
            ("Ctype", one("C")),
            ("ICU Locale", one("")),
            ("Locale Provider", one("libc")),
            ("Access privileges", one("")),
        ])
    }

    fn list(&self) -> Result<Table, Failed> {
        let relations = self.relations();
        let all = |text: &str| vec![text.to_owned(); relations.len()];
        let kind = |table: &&TableSchema| if table.is_view { "view" } else { "table" }.to_owned();
        texts(&[
            ("Schema", all("public")),
            ("Name", relations.iter().map(|table| table.name.clone()).collect()),
            ("Type", relations.iter().map(kind).collect()),
            ("Owner", all("owner")),
        ])
    }

    fn found(&self) -> Result<Table, Failed> {
        let relations = self.relations();
        texts(&[
            ("oid", relations.iter().map(|table| oid(&table.name)).collect()),
            ("nspname", vec!["public".to_owned(); relations.len()]),
            ("relname", relations.iter().map(|table| table.name.clone()).collect()),
        ])
    }

    fn relation_names(&self) -> Result<Table, Failed> {
        let relations = self.relations();
        let wanted: Vec<&str> = self.texts().collect();
        // `relname = 'name'` asks whether there is one.
        let equal = self.words.windows(2).any(|pair| {
            pair.first() == Some(&Token::Word("relname".to_owned()))
                && pair.get(1) == Some(&Token::Sign('='))
        });
        let named =
            relations.iter().filter(|table| !equal || wanted.contains(&table.name.as_str()));
        texts(&[("relname", named.map(|table| table.name.clone()).collect())])
    }

    /// What psql asks of one table before its columns.
    fn details(&self) -> Result<Table, Failed> {
        let rows: Vec<&TableSchema> = self.numbered().into_iter().collect();
        let all = |text: &str| vec![text.to_owned(); rows.len()];
        let kind = |table: &&TableSchema| if table.is_view { "v" } else { "r" }.to_owned();
        texts(&[
            ("relchecks", all("0")),
            ("relkind", rows.iter().map(kind).collect()),
            ("relhasindex", all("f")),
            ("relhasrules", all("f")),
            ("relhastriggers", all("f")),
            ("relrowsecurity", all("f")),
            ("relforcerowsecurity", all("f")),
            ("relhasoids", all("f")),
            ("relispartition", all("f")),
            ("?column?", all("")),
            ("reltablespace", all("0")),
            ("case", all("")),
            ("relpersistence", all("p")),
            ("relreplident", all("d")),
            ("amname", all("")),
        ])
    }

    fn columns(&self) -> Result<Table, Failed> {
        let fields: Vec<_> = self
            .numbered()
            .map(|table| table.schema.fields().iter().cloned().collect())
            .unwrap_or_default();
        let all = |text: &str| vec![text.to_owned(); fields.len()];
        let types = fields.iter().map(|field| type_name(kind(field.data_type()).0).to_owned());
        texts(&[
            ("attname", fields.iter().map(|field| field.name().clone()).collect()),
            ("format_type", types.collect()),
            ("pg_get_expr", all("")),
            ("attnotnull", all("f")),
            ("attcollation", all("")),
            ("attidentity", all("")),
            ("attgenerated", all("")),
            ("attstorage", all("p")),
            ("attcompression", all("")),
            ("attstattarget", all("")),
            ("col_description", all("")),
        ])
    }
}

/// Whether a name fits a pattern of psql: letters, and `.*` for any.
fn matches(pattern: &str, name: &str) -> bool {
    let parts: Vec<&str> = pattern.split(".*").collect();
    let (Some(first), Some(last)) = (parts.first(), parts.last()) else { return false };
    if parts.len() == 1 {
        return pattern == name;
    }
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    for part in parts.get(1..parts.len() - 1).unwrap_or_default() {
        match rest.split_once(part) {
            Some((_, behind)) => rest = behind,
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// The number of a table, which follows from its name.
fn oid(name: &str) -> String {
    let digest = Sha256::digest(name.as_bytes());
    let number = digest.iter().take(4).fold(0_u32, |all, byte| (all << 8) | u32::from(*byte));
    (16_384 + number % 1_000_000_000).to_string()
}

/// PostgreSQL's name of a type.
fn type_name(kind: u32) -> &'static str {
    match kind {
        kinds::BOOL => "boolean",
        kinds::BYTEA => "bytea",
        kinds::INT2 => "smallint",
        kinds::INT4 => "integer",
        kinds::INT8 => "bigint",
        kinds::FLOAT4 => "real",
        kinds::FLOAT8 => "double precision",
        kinds::DATE => "date",
        kinds::TIME => "time without time zone",
        kinds::TIMESTAMP => "timestamp without time zone",
        kinds::TIMESTAMPTZ => "timestamp with time zone",
        kinds::NUMERIC => "numeric",
        _ => "text",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_psql_are_understood() {
        for (pattern, name, fits) in [
            ("people", "people", true),
            ("people", "people2", false),
            ("p.*", "people", true),
            ("p.*x", "people", false),
            (".*", "people", true),
            ("p.*pl.*", "people", true),
        ] {
            assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
        }
    }

    #[test]
    fn relations_are_those_of_the_outermost_query_first() {
        let words = tokens(
            "SELECT a, (SELECT b FROM pg_catalog.pg_attrdef d) FROM pg_catalog.pg_attribute a LEFT JOIN x ON true",
        );
        assert_eq!(relations(&words), ["pg_attribute", "x", "pg_attrdef"]);
        let words = tokens(
            "SELECT a FROM pg_catalog.pg_class c, pg_catalog.pg_inherits i WHERE x IN (1, 2)",
        );
        assert_eq!(relations(&words), ["pg_class", "pg_inherits"]);
        assert_eq!(
            relations(&tokens("SELECT a FROM pg_type, people WHERE b")),
            ["pg_type", "people"]
        );
        assert!(relations(&tokens("SELECT 'from pg_class'")).is_empty());
        assert_eq!(relations(&tokens(&format!("SELECT {}", "from x,".repeat(20_000)))), [""]);
    }
}

//! The texts that a client can read: the dialect in short, and the schema.

use hushql::Session;
use rmcp::model::{
    CacheScope, ErrorData, ReadResourceResponse, ReadResourceResult, Resource, ResourceContents,
};
use serde_json::{Map, Value};

use super::structured;

/// How long a client may keep lists and texts, in milliseconds.
pub(super) const FRESH: u64 = 60_000;

const GRAMMAR: &str = "hushql://grammar";
const SCHEMA: &str = "hushql://schema";

/// The dialect on one page. Each statement runs on the built-in tables, by a test.
const DIALECT: &str = "\
-- A release is a mechanism with its cost before an aggregate. ε = 0.1 is small, 1 is usual, 10 is large.
SELECT LAPLACE(eps=0.1) COUNT(*) AS n FROM adult;
SELECT sex, LAPLACE(eps=0.1) COUNT(*) AS n FROM adult GROUP BY sex;
SELECT LAPLACE(eps=0.1) AVG(age) AS mean, LAPLACE(eps=0.1) SUM(hours_per_week) AS hours FROM adult WHERE age > 30;
-- A column without a declared range needs bounds: values beyond them are moved to them.
SELECT LAPLACE(eps=0.1) SUM(CLAMP(price, 0, 100)) AS total FROM orders;
-- The most frequent value, a quantile, and the number of people.
SELECT ARGMAX EXPONENTIAL(eps=0.1) status FROM adult GROUP BY status;
SELECT EXPONENTIAL(eps=0.1) QUANTILE(age, 0.9) AS oldest FROM adult;
SELECT LAPLACE(eps=0.1) COUNT(DISTINCT user_id) AS customers FROM orders;
-- An error instead of a cost: the engine computes ε.
SELECT LAPLACE(within=100) COUNT(*) AS n FROM adult;
-- Plain SQL takes the budget's default cost, if the owner declared one.
SELECT status, COUNT(*) AS n, AVG(age) AS mean FROM adult GROUP BY status;
-- What a query would cost. Nothing is charged.
EXPLAIN PRIVACY SELECT LAPLACE(eps=0.1) COUNT(*) FROM adult;
";

/// The texts there are.
pub(super) fn list() -> Vec<Resource> {
    vec![
        Resource::new(GRAMMAR, "grammar")
            .with_title("The dialect in short")
            .with_mime_type("application/sql"),
        Resource::new(SCHEMA, "schema")
            .with_title("Tables and columns, as declared")
            .with_mime_type("application/json"),
    ]
}

/// One of them.
///
/// # Errors
/// An error of the protocol for another address, and if the vault cannot be read.
pub(super) async fn read(uri: &str, session: &Session) -> Result<ReadResourceResponse, ErrorData> {
    let contents = match uri {
        GRAMMAR => ResourceContents::text(DIALECT, uri).with_mime_type("application/sql"),
        SCHEMA => {
            let schema = schema(session).await?.to_string();
            ResourceContents::text(schema, uri).with_mime_type("application/json")
        }
        _ => {
            let none = "there is no such resource: read hushql://grammar or hushql://schema";
            return Err(ErrorData::resource_not_found(none, None));
        }
    };
    let mut read = ReadResourceResult::new(vec![contents]);
    (read.ttl_ms, read.cache_scope) = (Some(FRESH), Some(CacheScope::Private));
    Ok(read.into())
}

/// The tables that a session may name, each described as DESCRIBE does.
async fn schema(session: &Session) -> Result<Value, ErrorData> {
    let failed = || ErrorData::internal_error("the declarations cannot be read", None);
    let mut tables = Map::new();
    for (table, _) in session.tables().map_err(|_| failed())? {
        let name = table.replace('"', "\"\"");
        let described = session.execute(&format!("DESCRIBE \"{name}\"")).await;
        let Ok(hushql::Output::Answer(answer)) = described else { continue };
        let mut described = structured::answer(&answer).map_err(|_| failed())?;
        if let Value::Object(all) = &mut described {
            all.retain(|member, _| ["columns", "rows"].contains(&member.as_str()));
        }
        tables.insert(table, described);
    }
    Ok(Value::Object(tables))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_example_of_the_dialect_runs() {
        let lab = Session::from(hushql::Engine::demo().unwrap().analyst("lab").unwrap());
        let lines = DIALECT.lines().filter(|line| !line.starts_with("--"));
        for line in lines {
            let ran = lab.execute(line.trim_end_matches(';')).await;
            assert!(ran.is_ok(), "{line}: {}", ran.unwrap_err());
        }
    }

    #[tokio::test]
    async fn the_schema_has_every_table() {
        let lab = Session::from(hushql::Engine::demo().unwrap().analyst("lab").unwrap());
        let schema = schema(&lab).await.unwrap();
        assert!(schema["adult"]["rows"].as_array().unwrap().len() > 3);
        assert!(read("hushql://passwords", &lab).await.is_err());
    }
}

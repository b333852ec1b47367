//! The tools that a client can call, with the schemas of their arguments.
//!
//! ```text
//! tables(table?) · price(sql) · ask(sql, epsilon, rho) · budget() · release_tables(name?)
//! ```

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

/// A tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToolName {
    /// The tables and their columns.
    Tables,
    /// The price of a query.
    Price,
    /// An answer, which is charged.
    Ask,
    /// What is left.
    Budget,
    /// Answers that are kept.
    ReleaseTables,
}

impl ToolName {
    const ALL: [Self; 5] =
        [Self::Tables, Self::Price, Self::Ask, Self::Budget, Self::ReleaseTables];

    /// The tool of a name.
    pub(super) fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Tables => "tables",
            Self::Price => "price",
            Self::Ask => "ask",
            Self::Budget => "budget",
            Self::ReleaseTables => "release_tables",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Tables => "Tables and columns",
            Self::Price => "Price of a query",
            Self::Ask => "Ask a query",
            Self::Budget => "Privacy budgets",
            Self::ReleaseTables => "Release tables",
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::Tables => {
                "Lists the tables, or the columns of one table: types, privacy unit, declared ranges and values, links. Free. It shows declarations and never a row."
            }
            Self::Price => {
                "Tells what a query would cost, how accurate each number would be, and what would be left. Free: nothing is read and nothing is charged. Use it before `ask`."
            }
            Self::Ask => {
                "Answers one SELECT with differential privacy. This spends privacy budget that never comes back, at most `epsilon` (or `rho`). Write the cost into the query, such as SELECT city, LAPLACE(eps=0.1) COUNT(*) FROM visits GROUP BY city; plain SQL takes the budget's default. Every number comes with its 95 % error. The same query asked again is replayed at no cost."
            }
            Self::Budget => {
                "Shows the privacy budgets, what is spent and left, and the limits of this agent. Free."
            }
            Self::ReleaseTables => {
                "Lists the tables to which this agent may refer, with release tables among them, or shows one release table: an answer that was paid for and is free to read. Free."
            }
        }
    }

    fn arguments(self) -> Value {
        let sql = json!({ "type": "string", "description": "One SELECT in SQL." });
        let amount = |what: &str| {
            json!({
                "type": "number",
                "description": format!("The most {what} that this call may spend, with at most nine decimals."),
            })
        };
        match self {
            Self::Tables => json!({
                "type": "object",
                "properties": { "table": { "type": "string", "description": "A table; without it, all tables are listed." } },
                "additionalProperties": false,
            }),
            Self::Price => json!({
                "type": "object",
                "properties": { "sql": sql },
                "required": ["sql"],
                "additionalProperties": false,
            }),
            Self::Ask => json!({
                "type": "object",
                "properties": { "sql": sql, "epsilon": amount("ε"), "rho": amount("ρ") },
                "required": ["sql"],
                "additionalProperties": false,
            }),
            Self::Budget => {
                json!({ "type": "object", "properties": {}, "additionalProperties": false })
            }
            Self::ReleaseTables => json!({
                "type": "object",
                "properties": { "name": { "type": "string", "description": "A release table; without it, tables are listed." } },
                "additionalProperties": false,
            }),
        }
    }
}

/// All tools.
pub(super) fn tools() -> Vec<Tool> {
    let tool = |tool: ToolName| {
        let arguments = match tool.arguments() {
            Value::Object(arguments) => arguments,
            _ => JsonObject::new(),
        };
        let asks = tool == ToolName::Ask;
        let hints = ToolAnnotations::with_title(tool.title());
        let hints = hints.read_only(!asks).destructive(asks).idempotent(true).open_world(false);
        let mut made = Tool::new(tool.name(), tool.description(), Arc::new(arguments));
        made.title = Some(tool.title().to_owned());
        made.annotations = Some(hints);
        made
    };
    ToolName::ALL.into_iter().map(tool).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tool_is_found_by_its_name() {
        for tool in tools() {
            let found = ToolName::of(&tool.name).unwrap();
            assert_eq!(found.name(), tool.name);
            assert_eq!(tool.input_schema["type"], json!("object"));
            let spends = tool.annotations.unwrap().read_only_hint == Some(false);
            assert_eq!(spends, found == ToolName::Ask);
        }
        assert_eq!(ToolName::of("drop"), None);
    }
}

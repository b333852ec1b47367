//! The lines of an explanation about stored answers.
//!
//! In: the explanation of a query, and the stored answers that it reads or repeats. Out: the
//! explanation with a line before its cost.
//!
//! ```text
//!  stored       cities: stored, and read at cost 0
//!  replay       charge 17 paid for this answer: it would be replayed, cost 0        (of a single release: charge 17 paid for it)
//! ```

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::Explanation;
use crate::answer::charges_text;
use crate::visible;

impl Explanation {
    /// Adds the release tables that the query reads.
    pub(crate) fn with_stored(mut self, tables: &BTreeSet<String>) -> Self {
        if tables.is_empty() {
            return self;
        }
        let names: Vec<&str> = tables.iter().map(String::as_str).collect();
        let at = self.lines.iter().position(|(name, _)| *name == "cost");
        let text = format!("{}: stored, and read at cost 0", visible::line(&names.join(", ")));
        self.lines.insert(at.unwrap_or(self.lines.len()), ("stored", text));
        if let Value::Object(map) = &mut self.json {
            map.insert("stored".to_owned(), json!(names));
        }
        self
    }

    /// Adds the charges that already paid for a part of the query, or for all of it.
    pub(crate) fn with_replay(mut self, charges: &[i64], is_all: bool) -> Self {
        let Some(paid) = charges_text(charges) else { return self };
        let at = self.lines.iter().position(|(name, _)| *name == "cost");
        let text = match is_all {
            true => format!("{paid} paid for this answer: it would be replayed, cost 0"),
            false => format!("{paid} paid for a part of this answer: only the rest would be drawn"),
        };
        self.lines.insert(at.unwrap_or(self.lines.len()), ("replay", text));
        if let (Value::Object(map), true) = (&mut self.json, is_all) {
            let replay = match charges {
                [one] => json!(one),
                several => json!(several),
            };
            map.insert("replay".to_owned(), replay);
        }
        self
    }
}

//! The lines of an explanation about the cells of people.
//!
//! In: the explanation of a query, and for each private aggregate a sentence about the cells that
//! it is charged to. Out: the explanation with these lines before its cost.
//!
//! ```text
//!  cells        charged to region 'Oslo' alone
//! ```

use serde_json::{Value, json};

use super::Explanation;

impl Explanation {
    /// Adds the cells to which the query is charged.
    pub(crate) fn with_cells(mut self, told: &[String]) -> Self {
        if told.is_empty() {
            return self;
        }
        let at = self.lines.iter().position(|(name, _)| *name == "cost");
        let at = at.unwrap_or(self.lines.len());
        self.lines.splice(at..at, told.iter().map(|sentence| ("cells", sentence.clone())));
        if let Value::Object(map) = &mut self.json {
            map.insert("cells".to_owned(), json!(told));
        }
        self
    }
}

//! What an explanation says of the cells of people.
//!
//! In: the explanation of a query, and a sentence for each part about the cells that it is charged
//! to. Out: the explanation with these lines before its cost.
//!
//! ```text
//!  cells        charged to region 'Oslo' alone
//! ```

use serde_json::{Value, json};

use super::Explanation;

impl Explanation {
    /// The same explanation of a query that is charged to these cells.
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

//! Rows in no group, because their key is NULL and the group keys do not include NULL.
//!
//! In: the private aggregates of a query. Out: the keys for which the declarations do not rule out
//! NULL, with what to write so that such rows form a group of their own. The result follows from
//! the query and the declarations. A key is named whether or not any row has NULL.
//!
//! ```text
//! ward IN ('A', 'B')                         GROUP BY ward      rows where ward is NULL are in no group
//! ward IN ('A', 'B', NULL), or NOT NULL      GROUP BY ward      nothing
//! ```

use crate::analysis::keys::coverage::Coverage;
use crate::analysis::private_aggregate::PrivateAggregate;
use crate::dialect::Finding;

impl PrivateAggregate {
    /// The keys that can be NULL although NULL has no group, and whether they are texts.
    pub(crate) fn keys_without_null(&self) -> impl Iterator<Item = (&str, bool)> {
        // The histogram that finds a bound has no group for NULL, and needs none.
        let counts = self
            .measures()
            .iter()
            .any(|one| matches!(one.clause.finding, Some(Finding::Histogram { .. })));
        let target = self.keys().target_position();
        let keys = self.key_names().iter().zip(&self.coverage).enumerate();
        let left_out = keys.filter(move |(i, (_, coverage))| {
            !counts && Some(*i) != target && **coverage == Coverage::AllButNull
        });
        left_out.map(move |(i, (name, _))| {
            let first = self.keys().of_column(i).first();
            (name.as_str(), first.is_some_and(|key| key.data_type().is_string()))
        })
    }

    /// The same keys, in a sentence.
    pub(crate) fn without_null_text(&self) -> Option<String> {
        let names: Vec<&str> = self.keys_without_null().map(|(name, _)| name).collect();
        let is_none = names.is_empty();
        (!is_none).then(|| format!("rows where {} is NULL are in none", names.join(" or ")))
    }
}

/// One sentence about the keys of all private aggregates of a query that can be NULL although NULL
/// has no group.
pub(crate) fn null_key_note(parts: &[PrivateAggregate]) -> Option<String> {
    let mut named: Vec<(&str, bool)> = Vec::new();
    for key in parts.iter().flat_map(PrivateAggregate::keys_without_null) {
        if !named.contains(&key) {
            named.push(key);
        }
    }
    let (first, is_text) = *named.first()?;
    let names: Vec<&str> = named.iter().map(|(name, _)| *name).collect();
    let write = match is_text {
        true => format!("GROUP BY COALESCE({first}, '?') shows them"),
        false => format!("WHERE {first} IS NULL shows them"),
    };
    Some(format!("rows where {} is NULL are in no group; {write}", names.join(" or ")))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, RecordBatch, StringArray};
    use arrow::datatypes::{DataType, Field, Schema};

    use crate::Engine;

    async fn notes(values: [Option<&str>; 2], nullable: bool, domain: &str) -> Vec<String> {
        let fields =
            [Field::new("id", DataType::Int64, false), Field::new("g", DataType::Utf8, nullable)];
        let ids = Int64Array::from(vec![1, 2]);
        let values = StringArray::from(values.to_vec());
        let schema = Arc::new(Schema::new(fields.to_vec()));
        let batch = RecordBatch::try_new(schema, vec![Arc::new(ids), Arc::new(values)]).unwrap();
        let engine = Engine::in_memory().unwrap();
        engine.register_batch("t", batch).unwrap();
        for declared in [
            "ALTER TABLE t SET PRIVACY UNIT (id) UNIQUE",
            &format!("ALTER TABLE t ALTER COLUMN g SET PRIVACY DOMAIN IN ({domain})"),
            "CREATE PRIVACY BUDGET b FOR t LIMIT (epsilon=10)",
        ] {
            engine.owner().execute(declared).await.unwrap();
        }
        let ask = "SELECT g, LAPLACE(eps=1) COUNT(*) AS n FROM t GROUP BY g";
        let answer = engine.analyst("lab").unwrap().query(ask).await.unwrap();
        // Noise that drowns a number is another note.
        let of_keys = |note: &&String| !note.contains("exceeds half of it");
        answer.notes().iter().filter(of_keys).cloned().collect()
    }

    #[tokio::test]
    async fn the_note_follows_from_the_declaration() {
        let said = ["rows where g is NULL are in no group; GROUP BY COALESCE(g, '?') shows them"];
        for values in [[Some("a"), None], [Some("a"), Some("b")]] {
            assert_eq!(notes(values, true, "'a', 'b'").await, said);
            assert!(notes(values, true, "'a', 'b', NULL").await.is_empty());
        }
        assert!(notes([Some("a"), Some("b")], false, "'a', 'b'").await.is_empty());
    }
}

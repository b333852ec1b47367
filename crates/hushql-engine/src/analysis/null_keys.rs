//! Rows that are in no group, because their key is NULL and NULL is no key.
//!
//! In: the private aggregates of a query. Out: the keys of which the declarations do not rule out
//! NULL, with what to write so that such rows are a group of their own. Everything follows from the
//! query and the declarations, so a key is named whether or not any row has NULL.
//!
//! ```text
//! ward IN ('A', 'B')                         GROUP BY ward      rows where ward is NULL are in no group
//! ward IN ('A', 'B', NULL), or NOT NULL      GROUP BY ward      nothing
//! ```

use datafusion::logical_expr::Expr;

use crate::analysis::call::input_columns::key_text;
use crate::analysis::keys::complete::Coverage;
use crate::analysis::private_aggregate::PrivateAggregate;
use crate::dialect::Finding;
use crate::functions::is_histogram;

/// A key of which rows with NULL are in no group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyWithoutNull {
    /// What is NULL there: the key, or the column of a HISTOGRAM, which is no expression of a
    /// statement.
    name: String,
    /// What such rows are shown by.
    shown_by: ShownBy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ShownBy {
    /// A text in place of NULL.
    Text,
    /// A condition.
    Condition,
    /// A condition, without the histogram.
    Count,
}

impl PrivateAggregate {
    /// The keys whose NULL is no key.
    pub(crate) fn keys_without_null(&self) -> impl Iterator<Item = KeyWithoutNull> + '_ {
        // What the engine counts to find a bound has no group for NULL, and needs none.
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
            if let Some(Expr::ScalarFunction(call)) = self.aggregate.group_expr.get(i)
                && is_histogram(&call.func)
                && let Some(of) = call.args.first()
            {
                return KeyWithoutNull { name: key_text(of), shown_by: ShownBy::Count };
            }
            let first = self.keys().of_column(i).first();
            let is_text = first.is_some_and(|key| key.data_type().is_string());
            let shown_by = if is_text { ShownBy::Text } else { ShownBy::Condition };
            KeyWithoutNull { name: name.clone(), shown_by }
        })
    }

    /// The keys whose NULL is no key, in a sentence.
    pub(crate) fn without_null_text(&self) -> Option<String> {
        let names: Vec<String> = self.keys_without_null().map(|key| key.name).collect();
        let is_none = names.is_empty();
        (!is_none).then(|| format!("rows where {} is NULL are in none", names.join(" or ")))
    }
}

/// One sentence on the keys of all parts of a query whose NULL is no key.
pub(crate) fn null_key_note(parts: &[PrivateAggregate]) -> Option<String> {
    let mut keys: Vec<KeyWithoutNull> = Vec::new();
    for key in parts.iter().flat_map(PrivateAggregate::keys_without_null) {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let first = keys.first()?;
    let each = |text: &dyn Fn(&str) -> String, by: &str| {
        keys.iter().map(|key| text(&key.name)).collect::<Vec<_>>().join(by)
    };
    // What has blanks may bind its operands less than IS.
    let is_null = |name: &str| match name.contains(' ') && !name.starts_with('"') {
        true => format!("({name}) IS NULL"),
        false => format!("{name} IS NULL"),
    };
    let conditions = || each(&is_null, " OR ");
    let write = if keys.iter().all(|key| key.shown_by == ShownBy::Text) {
        let show = if keys.len() == 1 { "shows them" } else { "show them" };
        format!("GROUP BY {} {show}", each(&|name| format!("COALESCE({name}, '?')"), ", "))
    } else if first.shown_by == ShownBy::Count {
        format!("COUNT(*) with WHERE {} counts them", conditions())
    } else {
        format!("WHERE {} shows them", conditions())
    };
    let names = each(&|name| name.to_owned(), " or ");
    // The sets of a ROLLUP that leave a key out count its rows.
    let leaves_out = |set: &PrivateAggregate| {
        let has = |key: &KeyWithoutNull| set.key_names().contains(&key.name);
        set.sets().is_some() && !keys.iter().all(has)
    };
    let group = match parts.iter().any(leaves_out) {
        true => "no group of it, and are in the sets without it",
        false => "no group",
    };
    Some(format!("rows where {names} is NULL are in {group}; {write}"))
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
        answer.notes().to_vec()
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

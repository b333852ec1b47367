//! What is made of the tables that exist for a role, kept as long as they are the same.
//!
//! In: a role, and the list of its tables. Out: what was made for it before, or a new one. A new
//! declaration makes a new list, for which nothing is kept. The type is the reader's, so that the
//! connections, which hold this, need not know the catalog.
//!
//! ```text
//! lab, one list, twice        →  the same relations
//! lab, after CREATE VIEW …    →  other relations
//! ```

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

use hushql::TableSchema;

/// The most roles for which something is kept. The relations of 10,000 columns take 10 MB.
const MOST_ROLES: usize = 8;

/// What was made for the roles that asked last.
#[derive(Debug, Default)]
pub(super) struct MadeOfTables(Mutex<Vec<MadeForRole>>);

/// What was made of one list of tables.
#[derive(Debug)]
struct MadeForRole {
    role: String,
    tables: Arc<[TableSchema]>,
    made: Arc<dyn Any + Send + Sync>,
}

impl MadeOfTables {
    /// What was made for a role and this very list of tables. What was made of an earlier list is
    /// dropped.
    pub(super) fn of<T: Any + Default + Send + Sync>(
        &self,
        role: &str,
        tables: &Arc<[TableSchema]>,
    ) -> Arc<T> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.iter().position(|kept| kept.role == role).map(|place| all.remove(place));
        let same = known.filter(|kept| Arc::ptr_eq(&kept.tables, tables));
        let first = same.unwrap_or_else(|| MadeForRole {
            role: role.to_owned(),
            tables: Arc::clone(tables),
            made: Arc::<T>::default(),
        });
        let made = Arc::clone(&first.made).downcast();
        all.insert(0, first);
        all.truncate(MOST_ROLES);
        made.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_made_of_one_list() {
        let list = || -> Arc<[TableSchema]> {
            hushql::Engine::demo().unwrap().analyst("lab").unwrap().schema_list().unwrap()
        };
        let (first, second, all) = (list(), list(), MadeOfTables::default());
        let of = |role: &str, tables| all.of::<Mutex<u8>>(role, tables);
        let lab = of("lab", &first);
        assert!(Arc::ptr_eq(&lab, &of("lab", &first)));
        assert!(!Arc::ptr_eq(&lab, &of("eve", &first)));
        assert!(!Arc::ptr_eq(&lab, &of("lab", &second)));
        for role in 0..20 {
            let _ = of(&role.to_string(), &first);
        }
        assert_eq!(all.0.lock().unwrap().len(), MOST_ROLES);
    }
}

//! Checks the names in declarations.

use crate::catalog::{CatalogError, RESERVED};

/// Checks that a name can be shown on one line of a terminal.
///
/// # Errors
/// [`CatalogError::Name`].
pub fn check_name(name: &str) -> Result<(), CatalogError> {
    // In a query, the part before a dot would be a schema, and lead outside the catalog.
    let is_reserved = name.to_lowercase().starts_with(RESERVED);
    if is_reserved
        || name.is_empty()
        || name.chars().count() > 128
        || name.chars().any(|c| c.is_control() || c == '.')
    {
        return Err(CatalogError::Name { name: name.to_owned() });
    }
    Ok(())
}

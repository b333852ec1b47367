//! The templates of a catalog, by name.
//!
//! In: a snapshot of all declarations. Out: its templates.

use super::{Catalog, Template};

impl Catalog {
    /// The template of this name; no table or view has the same name.
    pub fn template(&self, name: &str) -> Option<&Template> {
        self.templates.get(name)
    }

    /// All templates, by name.
    pub fn templates(&self) -> impl Iterator<Item = &Template> {
        self.templates.values()
    }

    /// The same snapshot with these templates, which replace templates of the same name.
    #[must_use]
    pub fn with_templates(mut self, templates: impl IntoIterator<Item = Template>) -> Self {
        let named = templates.into_iter().map(|template| (template.name.clone(), template));
        self.templates.extend(named);
        self
    }
}

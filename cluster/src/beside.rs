//! The key of a plan's bounds, which travels separately from the plan.
//!
//! In: the bits of the key, which exist after the charge only. Out: an option of the session's
//! configuration, which `datafusion-distributed` sends as headers of each request, separately from
//! the plan's bytes.

use std::any::Any;
use std::fmt;

use datafusion::common::{Result, config_err, internal_err};
use datafusion::config::{ConfigEntry, ConfigExtension, ExtensionOptions};
use datafusion::prelude::SessionConfig;
use hushql_engine::exec::distributed::BoundingKey;

/// The key.
#[derive(Clone, Default)]
pub(crate) struct Beside {
    key: String,
}

/// Leaves out the key.
impl fmt::Debug for Beside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Beside").finish_non_exhaustive()
    }
}

impl Beside {
    /// The key of a plan; `None` if it bounds nothing.
    pub(crate) fn new(key: Option<[u64; 4]>) -> Self {
        let word = |word: u64| format!("{word:016x}");
        Self { key: key.map(|words| words.map(word).concat()).unwrap_or_default() }
    }

    /// The key that came with a plan.
    pub(crate) fn of(config: &SessionConfig) -> Self {
        config.options().extensions.get::<Self>().cloned().unwrap_or_default()
    }

    /// The key; `None` for a plan that bounds nothing.
    ///
    /// # Errors
    /// If the text is not a key.
    pub(crate) fn key(&self) -> Result<Option<BoundingKey>> {
        if self.key.is_empty() {
            return Ok(None);
        }
        let mut words = [0; 4];
        if self.key.len() != 64 || !self.key.is_ascii() {
            return internal_err!("this is not a key");
        }
        for (word, digits) in words.iter_mut().zip(self.key.as_bytes().chunks(16)) {
            let digits = std::str::from_utf8(digits).ok();
            let Some(parsed) = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok())
            else {
                return internal_err!("this is not a key");
            };
            *word = parsed;
        }
        Ok(Some(BoundingKey::from_words(words)))
    }
}

impl ConfigExtension for Beside {
    const PREFIX: &'static str = "hushql";
}

impl ExtensionOptions for Beside {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        match key {
            "key" => self.key = value.to_owned(),
            _ => return config_err!("the option {key} is unknown"),
        }
        Ok(())
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        let value = Some(self.key.clone());
        vec![ConfigEntry { key: "key".to_owned(), value, description: "" }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_comes_back_as_it_was() {
        let words = [1, u64::MAX, 0, 0x0123_4567_89ab_cdef];
        let mut back = Beside::default();
        for entry in Beside::new(Some(words)).entries() {
            back.set(&entry.key, &entry.value.unwrap()).unwrap();
        }
        assert_eq!(back.key().unwrap().and_then(|key| key.words()), Some(words));
        assert!(Beside::new(None).key().unwrap().is_none());
        assert!(Beside { key: "12".to_owned() }.key().is_err());
        assert_eq!(format!("{back:?}"), "Beside { .. }");
    }
}

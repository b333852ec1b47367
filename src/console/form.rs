//! The fields of a form that a browser sent.

use std::time::Duration;

use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use url::form_urlencoded;

/// The longest form.
const LONGEST: usize = 1 << 20;

/// The time for all of it.
const TIME: Duration = Duration::from_secs(20);

/// The fields of a form, in order.
#[derive(Debug, Default)]
pub(super) struct FormFields(Vec<(String, String)>);

impl FormFields {
    /// Reads a form; `None` if it is too long, or takes too long.
    pub(super) async fn read(body: Incoming) -> Option<Self> {
        let whole = Limited::new(body, LONGEST).collect();
        let bytes = tokio::time::timeout(TIME, whole).await.ok()?.ok()?.to_bytes();
        Some(Self::of(&bytes))
    }

    /// The fields of an encoded form.
    pub(super) fn of(bytes: &[u8]) -> Self {
        Self(form_urlencoded::parse(bytes).into_owned().collect())
    }

    /// A field, or nothing. Its lines end as on this machine, and not as in a form.
    pub(super) fn get(&self, name: &str) -> String {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.replace("\r\n", "\n")).unwrap_or_default()
    }
}

/// A name as one part of a path.
pub(super) fn encoded(name: &str) -> String {
    form_urlencoded::byte_serialize(name.as_bytes()).collect()
}

/// The name in a part of a path.
pub(super) fn decoded(part: &str) -> String {
    let pairs = form_urlencoded::parse(part.as_bytes());
    pairs.map(|(name, _)| name.into_owned()).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_decoded() {
        let fields = FormFields::of(b"sql=SELECT+1%0D%0A%2B%271%27&token=a&token=b&%ff=x");
        assert_eq!(fields.get("sql"), "SELECT 1\n+'1'");
        assert_eq!((fields.get("token").as_str(), fields.get("no").as_str()), ("a", ""));
        for name in ["a b/é", "a=b&c", ""] {
            assert_eq!(decoded(&encoded(name)), name);
        }
    }
}

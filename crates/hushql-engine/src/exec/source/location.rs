//! Locations that are not paths: object stores, and files over HTTP.
//!
//! In: a location, as a declaration writes it. Out: its store, and the path in the store. The vault
//! keeps the location and owners see it, so one with a password or a signature is refused;
//! credentials come from the environment.
//!
//! ```text
//! s3://clinic/visits/2025     →   S3, s3://clinic, visits/2025
//! /srv/visits                 →   none: a path
//! ```

use std::borrow::Cow;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// A version of an object as plain values, with which another process asks the store for the same
/// bytes.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ObjectVersion {
    /// `s3://bucket`.
    pub(super) root: String,
    /// The path below it.
    pub(super) path: String,
    pub(super) size: u64,
    /// The time of the last change, in nanoseconds since 1970.
    pub(super) modified_nanos: i64,
    /// The store's names for this version.
    pub(super) e_tag: Option<String>,
    pub(super) version: Option<String>,
}

/// The kinds of stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scheme {
    /// S3, and stores with the same protocol.
    S3,
    /// Google Cloud Storage.
    Google,
    /// Azure.
    Azure,
    /// One file over HTTP or HTTPS.
    Http,
}

/// A place in a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StoreLocation {
    pub(super) scheme: Scheme,
    /// `s3://bucket`.
    root: String,
    /// The path below it, without a slash at either end.
    pub(super) path: String,
}

impl StoreLocation {
    /// The place that a location names; `None` for a path.
    pub(super) fn new(location: &str) -> Option<Self> {
        let (name, rest) = location.split_once("://")?;
        let scheme = match name.to_ascii_lowercase().as_str() {
            "s3" | "s3a" => Scheme::S3,
            "gs" => Scheme::Google,
            "az" | "azure" | "abfs" | "abfss" | "adl" => Scheme::Azure,
            "http" | "https" => Scheme::Http,
            _ => return None,
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let root = format!("{}://{authority}", name.to_ascii_lowercase());
        Some(Self { scheme, root, path: path.trim_matches('/').to_owned() })
    }

    /// The store: `s3://bucket`.
    pub(super) fn root(&self) -> &str {
        &self.root
    }

    /// Refuses a location that must not be stored, or cannot be read.
    ///
    /// # Errors
    /// [`Error::Catalog`] for a location that holds credentials or names no store, and for a folder
    /// over HTTP.
    pub(super) fn checked(&self, location: &str) -> Result<(), Error> {
        let authority = self.root.split_once("://").map_or("", |(_, authority)| authority);
        // In Azure's own form, the container stands where other locations have a user or a
        // password.
        let has_user = match self.scheme {
            Scheme::Azure => authority.split('@').count() > 2 || authority.contains(':'),
            Scheme::S3 | Scheme::Google | Scheme::Http => authority.contains('@'),
        };
        let is_signed = self.scheme == Scheme::Http && location.contains(['?', '#']);
        if has_user || is_signed {
            // The message must not repeat the location.
            return Err(Error::catalog(
                "a location holds no credentials and no signature, because the vault keeps it: credentials come from the environment, as AWS_ACCESS_KEY_ID",
            ));
        }
        if authority.is_empty() || location.chars().any(char::is_control) {
            return Err(Error::catalog(format!(
                "`{location}` names no store: write 's3://bucket/path', 'gs://bucket/path', 'az://container/path' or 'https://host/file'"
            )));
        }
        let is_folder = self.path.is_empty() || location.ends_with('/');
        let is_several = is_folder || self.path.contains(['*', '[']);
        if self.scheme == Scheme::Http && is_several {
            return Err(Error::catalog(format!(
                "`{location}` is not one file, and HTTP has no folders: name one file, or a folder of an object store, as in 's3://bucket/folder/*.parquet'"
            )));
        }
        Ok(())
    }
}

/// The path that a location names: `file:///srv/a` is `/srv/a`, and `~/a` is in the home of the
/// user who runs the program. Any other location stays as it is.
///
/// # Errors
/// [`Error::Catalog`] for a file of another machine, and if there is no home.
pub(super) fn local_path(location: &str) -> Result<Cow<'_, str>, Error> {
    if let Some(below) = location.strip_prefix("~/") {
        let home = std::env::home_dir().filter(|home| home.is_absolute());
        let Some(home) = home.as_deref().and_then(Path::to_str) else {
            return Err(Error::catalog("the user has no home for `~`: write the whole path"));
        };
        return Ok(Cow::Owned(format!("{}/{below}", home.trim_end_matches('/'))));
    }
    let Some(rest) = location.strip_prefix("file://") else { return Ok(Cow::Borrowed(location)) };
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    let decoded = percent_decoded(path.as_bytes()).filter(|path| path.starts_with('/'));
    decoded.map(Cow::Owned).ok_or_else(|| {
        Error::catalog(format!(
            "`{location}` is no file of this machine: write 'file:///folder/file', or the path alone"
        ))
    })
}

/// Decodes a text in which some bytes are written as `%20`; `None` if the result is not UTF-8.
pub(super) fn percent_decoded(part: &[u8]) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = part;
    while let [first, behind @ ..] = rest {
        let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|d| u8::try_from(d).ok());
        match (first, behind) {
            (b'%', [high, low, behind @ ..]) if digit(high).is_some() && digit(low).is_some() => {
                bytes.push(digit(high)? * 16 + digit(low)?);
                rest = behind;
            }
            _ => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read() {
        for (location, path) in [
            ("/srv/a", "/srv/a"),
            ("a/~/b", "a/~/b"),
            ("file:///srv/a%20b/*.csv", "/srv/a b/*.csv"),
            ("file://localhost/srv/a", "/srv/a"),
            ("s3://b/a", "s3://b/a"),
        ] {
            assert_eq!(local_path(location).unwrap(), path);
        }
        for location in ["file://host/a", "file://a", "file:///%ff"] {
            let refused = local_path(location).unwrap_err().to_string();
            assert!(refused.contains("file:///folder/file"), "{refused}");
        }
        let of_home = local_path("~/a/b.csv").unwrap();
        assert!(of_home.starts_with('/') && of_home.ends_with("/a/b.csv"), "{of_home}");
    }

    #[test]
    fn places_are_read() {
        for (location, root, path) in [
            ("s3://b/a/*.csv", "s3://b", "a/*.csv"),
            ("S3A://b/", "s3a://b", ""),
            ("gs://b", "gs://b", ""),
            (
                "abfss://c@account.dfs.core.windows.net/a/",
                "abfss://c@account.dfs.core.windows.net",
                "a",
            ),
            ("https://host:8443/a/b.parquet", "https://host:8443", "a/b.parquet"),
        ] {
            let place = StoreLocation::new(location).unwrap();
            assert_eq!((place.root(), place.path.as_str()), (root, path));
            assert!(place.checked(location).is_ok(), "{location}");
        }
        for path in ["/srv/a", "a/b://c", "ftp://host/a", "file:///a", "s3:/b"] {
            assert_eq!(StoreLocation::new(path), None, "{path}");
        }
        for location in [
            "s3://key:secret@b/a",
            "https://u:p@host/a",
            "https://host/a.csv?X-Amz-Signature=abc",
            "https://host/a.csv#abc",
            "abfss://c:p@account/a",
            "s3:///a",
            "https://host/",
            "https://host/a/",
            "https://host/a/*.csv",
            "s3://b/a\n",
        ] {
            let error =
                StoreLocation::new(location).unwrap().checked(location).unwrap_err().to_string();
            assert!(!error.contains("secret") && !error.contains("abc"), "{error}");
        }
    }
}

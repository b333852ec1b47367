//! The objects of a table in an object store: S3, Google Cloud Storage, Azure, and single files
//! over HTTP.
//!
//! In: a location such as `s3://bucket/visits`, and a selection below it. Out: the objects with
//! their names, each pinned to one version by its ETag. Every read asks the store for that version,
//! so two scans see the same bytes, or none. Credentials come from the environment alone, under the
//! names that the stores' own tools use. Errors drop the texts of the store and of the client,
//! which may quote keys, addresses and names of objects.
//!
//! ```text
//! s3://clinic/visits, year=2025/*.parquet    →    year=2025/a.parquet, ETag "9b2c…"    GET … If-Match: "9b2c…"
//! ```

use std::collections::{BTreeMap, HashSet};
use std::future::Future;
use std::io;
use std::ops::Range;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use chrono::DateTime;
use datafusion::object_store::aws::AmazonS3Builder;
use datafusion::object_store::azure::MicrosoftAzureBuilder;
use datafusion::object_store::client::ClientOptions;
use datafusion::object_store::gcp::GoogleCloudStorageBuilder;
use datafusion::object_store::http::HttpBuilder;
use datafusion::object_store::path::Path;
use datafusion::object_store::{
    Error, GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt, RetryConfig,
};
use futures::TryStreamExt;
use tokio::runtime::{Builder, Runtime};

use super::file_discovery::Selected;
use super::location::{ObjectVersion, Scheme, StoreLocation};
use super::managed_files::TableFormat;

/// The longest time of a request, with all of its retries.
const PATIENCE: Duration = Duration::from_secs(30);

/// The largest part of an object in one request.
const LARGEST: u64 = 64 << 20;

/// Whether object stores are built in, for messages.
pub(super) const IS_BUILT_IN: bool = true;

/// One version of an object.
pub(super) struct Object {
    store: Store,
    meta: ObjectMeta,
}

/// A client of a store.
#[derive(Clone)]
struct Store {
    /// `s3://bucket`.
    root: Arc<str>,
    client: Arc<dyn ObjectStore>,
}

/// An object, and its name below the location that was searched.
pub(super) struct FoundObject {
    pub(super) name: Vec<u8>,
    pub(super) object: Object,
    /// The table in one of its folders, if metadata there say which files hold rows.
    pub(super) managed_by: Option<TableFormat>,
}

impl Object {
    /// A version, if the store distinguishes it from all others by a strong ETag.
    fn pinned(store: &Store, meta: ObjectMeta) -> io::Result<Self> {
        let is_strong = |tag: &String| !tag.is_empty() && !tag.starts_with("W/");
        match meta.e_tag.as_ref().is_some_and(is_strong) {
            true => Ok(Self { store: store.clone(), meta }),
            false => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// A description of this version, for another process.
    pub(super) fn description(&self) -> ObjectVersion {
        ObjectVersion {
            root: self.store.root.to_string(),
            path: self.meta.location.to_string(),
            size: self.meta.size,
            modified_nanos: self.modified_nanos(),
            e_tag: self.meta.e_tag.clone(),
            version: self.meta.version.clone(),
        }
    }

    pub(super) fn size(&self) -> u64 {
        self.meta.size
    }

    /// The time of the last change, in nanoseconds since 1970.
    pub(super) fn modified_nanos(&self) -> i64 {
        self.meta.last_modified.timestamp_nanos_opt().unwrap_or(i64::MAX)
    }

    /// The store's name for this version.
    pub(super) fn version(&self) -> String {
        let Self { meta: ObjectMeta { e_tag, version, .. }, .. } = self;
        format!("{} {}", e_tag.as_deref().unwrap_or(""), version.as_deref().unwrap_or(""))
    }

    /// The store's tag for the bytes: objects with equal bytes have equal tags, if they were
    /// written in one piece.
    pub(super) fn tag(&self) -> String {
        self.meta.e_tag.clone().unwrap_or_default()
    }

    /// Bytes of this version.
    ///
    /// # Errors
    /// If the store no longer has this version, or does not answer.
    pub(super) fn bytes(&self, range: Range<u64>) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let until = range.end.min(at.saturating_add(LARGEST));
            bytes.extend_from_slice(&self.part(at..until)?);
            at = until;
        }
        Ok(bytes)
    }

    fn part(&self, range: Range<u64>) -> io::Result<Bytes> {
        let (store, meta) = (Arc::clone(&self.store.client), self.meta.clone());
        let length = range.end.saturating_sub(range.start);
        wait(async move {
            let options = GetOptions {
                range: Some(GetRange::Bounded(range)),
                if_match: meta.e_tag.clone(),
                version: meta.version.clone(),
                ..GetOptions::default()
            };
            let got = store.get_opts(&meta.location, options).await?;
            // A server may ignore the condition of the request.
            let is_same = got.meta.e_tag == meta.e_tag && got.meta.size == meta.size;
            Ok(is_same.then_some(got.bytes().await?))
        })?
        .filter(|bytes| u64::try_from(bytes.len()).is_ok_and(|found| found == length))
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

/// The stores of a plan from another process, each with one client for all of its objects.
#[derive(Default)]
pub(super) struct Stores(Mutex<BTreeMap<String, Store>>);

impl Stores {
    /// A version that another process found. This asks the store for nothing: each read asks for
    /// this version.
    ///
    /// # Errors
    /// If the environment has no credentials for its store, or the description lacks a strong ETag
    /// or a valid path.
    pub(super) fn object(&self, version: &ObjectVersion) -> io::Result<Object> {
        let ObjectVersion { root, path, size, modified_nanos, e_tag, version } = version;
        let place = StoreLocation::new(root).ok_or(io::ErrorKind::InvalidInput)?;
        let meta = ObjectMeta {
            location: Path::parse(path).map_err(|_| io::ErrorKind::InvalidInput)?,
            last_modified: DateTime::from_timestamp_nanos(*modified_nanos),
            size: *size,
            e_tag: e_tag.clone(),
            version: version.clone(),
        };
        Object::pinned(&self.store(&place)?, meta)
    }

    fn store(&self, place: &StoreLocation) -> io::Result<Store> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = known.get(place.root()) {
            return Ok(store.clone());
        }
        let made = store(place)?;
        known.insert(place.root().to_owned(), made.clone());
        Ok(made)
    }
}

/// The selected objects below a location, sorted by the bytes of their names.
///
/// # Errors
/// If the environment has no credentials, or the store cannot be read, or does not distinguish the
/// versions of an object.
pub(super) fn list(location: &str, selected: &Selected) -> io::Result<Vec<FoundObject>> {
    let place = StoreLocation::new(location).ok_or(io::ErrorKind::InvalidInput)?;
    let store = store(&place)?;
    let root = Path::parse(&place.path).map_err(|_| io::ErrorKind::InvalidInput)?;
    if selected.is_location() {
        let (from, at) = (Arc::clone(&store.client), root);
        let meta = wait(async move { from.head(&at).await })?;
        let name = place.path.rsplit('/').next().unwrap_or_default().as_bytes().to_vec();
        let object = Object::pinned(&store, meta)?;
        return Ok(vec![FoundObject { name, object, managed_by: None }]);
    }
    let found = objects_below(&store, &root)?;
    let managed = managed_folders(&found, &root);
    // Some tools write an empty object for each folder.
    let folders: HashSet<String> = found.iter().flat_map(|meta| above_of(&meta.location)).collect();
    let mut objects = Vec::new();
    for meta in found {
        if meta.size == 0 && folders.contains(meta.location.as_ref()) {
            continue;
        }
        let path = meta.location.as_ref();
        let name = name_below(path, &root).filter(|name| selected.selects(name));
        let Some(name) = name else { continue };
        let managed_by = managed.iter().find(|(folder, _)| name.starts_with(folder.as_str()));
        let managed_by = managed_by.map(|(_, format)| *format);
        let name = name.as_bytes().to_vec();
        objects.push(FoundObject { name, object: Object::pinned(&store, meta)?, managed_by });
    }
    objects.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(objects)
}

/// All objects below a folder of a store.
fn objects_below(store: &Store, root: &Path) -> io::Result<Vec<ObjectMeta>> {
    let (from, above) = (Arc::clone(&store.client), root.clone());
    wait(async move {
        let prefix = if above.as_ref().is_empty() { None } else { Some(&above) };
        from.list(prefix).try_collect().await
    })
}

/// The name of an object below a folder.
fn name_below<'a>(path: &'a str, root: &Path) -> Option<&'a str> {
    match root.as_ref() {
        "" => Some(path),
        root => path.strip_prefix(root).and_then(|name| name.strip_prefix('/')),
    }
}

/// The folders, with a slash at their ends, of tables whose metadata are among these objects.
fn managed_folders(found: &[ObjectMeta], root: &Path) -> Vec<(String, TableFormat)> {
    let names = found.iter().filter_map(|meta| name_below(meta.location.as_ref(), root));
    let mut folders: Vec<(String, TableFormat)> = Vec::new();
    for name in names {
        let Some((format, end)) = TableFormat::of_path(name) else { continue };
        let folder = name.get(..end).unwrap_or_default();
        if folders.last().is_none_or(|(last, _)| last != folder) {
            folders.push((folder.to_owned(), format));
        }
    }
    folders
}

/// The names of the objects below a folder.
///
/// # Errors
/// As [`list`].
pub(super) fn names_below(location: &str) -> io::Result<Vec<String>> {
    let place = StoreLocation::new(location).ok_or(io::ErrorKind::InvalidInput)?;
    let root = Path::parse(&place.path).map_err(|_| io::ErrorKind::InvalidInput)?;
    let found = objects_below(&store(&place)?, &root)?;
    let names = found.iter().filter_map(|meta| name_below(meta.location.as_ref(), &root));
    Ok(names.map(str::to_owned).collect())
}

/// The paths of the folders above a path.
fn above_of(path: &Path) -> Vec<String> {
    let path = path.as_ref();
    path.match_indices('/').filter_map(|(at, _)| path.get(..at)).map(str::to_owned).collect()
}

/// Whether the environment has the credentials for a store. This sends no request.
pub(super) fn has_client(place: &StoreLocation) -> bool {
    client(place).is_ok()
}

/// A store, with the credentials of the environment.
fn store(place: &StoreLocation) -> io::Result<Store> {
    Ok(Store { root: place.root().into(), client: client(place)? })
}

fn client(place: &StoreLocation) -> io::Result<Arc<dyn ObjectStore>> {
    let is_set = |names: &[&str]| names.iter().any(|name| std::env::var_os(name).is_some());
    let needs = |names: &[&str]| match is_set(names) {
        true => Ok(()),
        // Without this check, the client would ask the machine that it runs on, and wait.
        false => Err(io::Error::from(io::ErrorKind::PermissionDenied)),
    };
    let retry = RetryConfig { max_retries: 3, retry_timeout: PATIENCE, ..RetryConfig::default() };
    let patient = |options: ClientOptions| {
        options.with_timeout(PATIENCE).with_connect_timeout(Duration::from_secs(5))
    };
    let url = format!("{}/", place.root());
    Ok(match place.scheme {
        Scheme::S3 => {
            needs(&[
                "AWS_ACCESS_KEY_ID",
                "AWS_WEB_IDENTITY_TOKEN_FILE",
                "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
                "AWS_CONTAINER_CREDENTIALS_FULL_URI",
                "AWS_METADATA_ENDPOINT",
                "AWS_SKIP_SIGNATURE",
            ])?;
            let allows_http = std::env::var("AWS_ALLOW_HTTP").is_ok_and(|value| value == "true");
            let options = patient(ClientOptions::new().with_allow_http(allows_http));
            let builder = AmazonS3Builder::from_env().with_url(url);
            Arc::new(builder.with_client_options(options).with_retry(retry).build().map_err(said)?)
        }
        Scheme::Google => {
            needs(&[
                "GOOGLE_SERVICE_ACCOUNT",
                "GOOGLE_SERVICE_ACCOUNT_PATH",
                "GOOGLE_SERVICE_ACCOUNT_KEY",
                "GOOGLE_APPLICATION_CREDENTIALS",
                "GOOGLE_SKIP_SIGNATURE",
            ])?;
            let builder = GoogleCloudStorageBuilder::from_env().with_url(url);
            let builder = builder.with_client_options(patient(ClientOptions::new()));
            Arc::new(builder.with_retry(retry).build().map_err(said)?)
        }
        Scheme::Azure => {
            needs(&[
                "AZURE_STORAGE_ACCOUNT_KEY",
                "AZURE_STORAGE_ACCESS_KEY",
                "AZURE_STORAGE_MASTER_KEY",
                "AZURE_STORAGE_SAS_KEY",
                "AZURE_STORAGE_SAS_TOKEN",
                "AZURE_STORAGE_TOKEN",
                "AZURE_STORAGE_CLIENT_ID",
                "AZURE_CLIENT_ID",
                "AZURE_FEDERATED_TOKEN_FILE",
                "AZURE_SKIP_SIGNATURE",
            ])?;
            let builder = MicrosoftAzureBuilder::from_env().with_url(url);
            let builder = builder.with_client_options(patient(ClientOptions::new()));
            Arc::new(builder.with_retry(retry).build().map_err(said)?)
        }
        Scheme::Http => {
            let options = patient(ClientOptions::new().with_allow_http(true));
            let builder = HttpBuilder::new().with_url(url).with_client_options(options);
            Arc::new(builder.with_retry(retry).build().map_err(said)?)
        }
    })
}

/// The kind of an error, without its text.
fn said(error: Error) -> io::Error {
    match error {
        Error::NotFound { .. } => io::ErrorKind::NotFound,
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
            io::ErrorKind::PermissionDenied
        }
        Error::Precondition { .. } => io::ErrorKind::InvalidData,
        // The client tells a refused list from other failures only in words.
        error
            if ["401 Unauthorized", "403 Forbidden"]
                .iter()
                .any(|s| error.to_string().contains(s)) =>
        {
            io::ErrorKind::PermissionDenied
        }
        _ => io::ErrorKind::Other,
    }
    .into()
}

/// Waits for a request. The request has its own runtime, because the caller may block the runtime
/// that it runs on.
fn wait<T: Send + 'static>(
    request: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> io::Result<T> {
    static RUNTIME: LazyLock<io::Result<Runtime>> =
        LazyLock::new(|| Builder::new_multi_thread().worker_threads(1).enable_all().build());
    let runtime = RUNTIME.as_ref().map_err(|error| io::Error::from(error.kind()))?;
    let (done, answer) = sync_channel(1);
    runtime.spawn(async move {
        // The receiver may be gone.
        let _ = done.send(request.await);
    });
    answer.recv().map_err(|_| io::Error::from(io::ErrorKind::Other))?.map_err(said)
}

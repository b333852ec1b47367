//! Data files and tables of servers as tables: an owner declares them, and paid queries open them.
//!
//! In: a declared file, or the files below a folder. Out: a [`TableProvider`] with the declared
//! columns. CSV and JSON are read leniently, so that no person's row can make a query fail: a cell
//! that does not parse is NULL, and a malformed line is not a row. The columns are fixed when the
//! table is created. A statement opens each file once, and reads the file that it checked: see
//! [`open_files`]. The files of a private table are found after the charge: see
//! [`multi_file_scan`].

pub(crate) mod ledger;

mod cell_reader;
mod changed_files;
mod check;
mod column_batches;
mod column_type;
mod compressed;
mod csv_format;
mod delta;
mod delta_tables;
mod drifted_files;
pub(crate) mod duplicate_tables;
mod external_table;
mod file_columns;
mod file_discovery;
mod file_set;
mod file_stamp;
mod fitting_types;
mod foreign_files;
mod grown_file;
mod json_columns;
mod json_objects;
mod key_columns;
mod lenient;
mod line_breaks;
mod line_reader;
mod location;
mod lossy_columns;
mod managed_files;
mod managed_locations;
mod multi_file_scan;
mod open_files;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(not(feature = "postgres"))]
#[path = "no_postgres.rs"]
mod postgres;
mod proposed_options;
mod quotation;
#[cfg(feature = "objects")]
mod remote;
#[cfg(not(feature = "objects"))]
#[path = "no_remote.rs"]
mod remote;
mod remote_handles;
pub(crate) mod server_location;
mod server_tables;
mod skipped_lines;
mod sqlite_table;
mod stored_answer;
mod struct_columns;
mod text_views;
mod time_units;
mod unreadable_files;
mod unverified_rows;
mod verified_floats;
mod version_columns;
mod well_formed;

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::{DataFusionError, Statistics};
use datafusion::datasource::file_format::arrow::ArrowFormat;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl,
};
use datafusion::datasource::physical_plan::{FileScanConfig, FileScanConfigBuilder};
use datafusion::datasource::source::DataSourceExec;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::streaming::PartitionStream as _;

pub(crate) use check::{OpenFiles, Reading, register};
pub(crate) use delta_tables::{declared_version, newer_version, newest_version};
pub(crate) use external_table::{WrittenTable, declared, refuse_reserved, written_location};
pub(crate) use file_columns::{columns_of, hashes_content, is_strict, may_change, set_strict};
use file_columns::{schema_of_columns, shape_of};
pub(crate) use grown_file::{folder_has_grown, has_grown};
pub(crate) use hushql_exec::pinned::{Pinned, PinnedFile};
pub(crate) use key_columns::refuse_other_keys;
use lenient::{LenientFiles, TextFile, TextFormat};
pub(crate) use managed_locations::managed_file;
use multi_file_scan::{ManyFiles, options_of};
pub(crate) use open_files::HeldFiles;
use open_files::OpenFile;
pub(crate) use proposed_options::proposed_options;
pub(crate) use remote_handles::is_read_elsewhere;
pub use remote_handles::{READS_OBJECTS, ReceivedFiles, ShippedFile};
use server_tables::ServedTable;
pub(crate) use server_tables::{Served, served};
pub(crate) use skipped_lines::Unread;
use sqlite_table::{SqliteRows, table_of};
pub(crate) use stored_answer::{
    decoded_draw, encoded, encoded_draw, is_storable, schema_of_answer, stored, stored_rows,
};
use text_views::viewed;
use time_units::{as_declared, as_stored};
use unverified_rows::UnverifiedRows;
pub(crate) use verified_floats::{floats_notice, refuse_fractions};
pub(crate) use well_formed::{reads_over_lines, refuse_unread_documents};

use crate::catalog::{FileFormat, Source, Table};
use crate::error::Error;
use crate::exec::paid::PaidFor;

/// A declared file as a table. It opens nothing before it is scanned.
///
/// # Errors
/// [`Error::Catalog`] for a table that is not a file, or whose declaration is damaged.
pub(crate) fn provider(
    table: &Arc<Table>,
    open: &Arc<OpenFiles>,
) -> Result<Arc<dyn TableProvider>, Error> {
    let files = match &table.source {
        Source::File { files, .. } => files,
        Source::Postgres { .. } => {
            let schema = viewed(schema_of_columns(&table.columns)?.as_ref());
            return Ok(Arc::new(ServedTable::new(Arc::clone(table), schema, Arc::clone(open))));
        }
        Source::Registered | Source::Released { .. } => return Err(Error::Internal),
    };
    let (schema, shape) = (schema_of_columns(&table.columns)?, shape_of(table)?);
    let schema = viewed(&schema);
    let open = Arc::clone(open);
    if files.is_some() {
        return Ok(Arc::new(FilesTable(ManyFiles::new(Arc::clone(table), schema, shape, open))));
    }
    Ok(Arc::new(FileTable { table: Arc::clone(table), schema, shape, open }))
}

/// The file of a table that a statement opened and verified; `None` for a table whose file is not
/// verified by its properties.
pub(crate) fn pinned(table: &Arc<Table>, open: &Arc<OpenFiles>) -> Option<PinnedFile> {
    let Source::File { fingerprint: Some(_), .. } = &table.source else { return None };
    let (table, open) = (Arc::clone(table), Arc::clone(open));
    Some(Arc::new(move || open.pinned(&table)))
}

/// The file of a public table, if it did not change since its statement opened it; `None` for
/// another table, and for a file whose properties do not show changes.
pub(crate) fn pinned_public(provider: &dyn TableProvider) -> Option<Pinned> {
    let FileTable { table, open, .. } = provider.downcast_ref::<FileTable>()?;
    open.pinned_public(table)
}

/// A declared file. A statement reads the file that it checked.
struct FileTable {
    table: Arc<Table>,
    schema: SchemaRef,
    shape: TextFormat,
    open: Arc<OpenFiles>,
}

/// Paths must not appear in plans and messages.
impl fmt::Debug for FileTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileTable").field("name", &self.table.name).finish_non_exhaustive()
    }
}

impl FileTable {
    /// The file, opened and checked.
    fn held(&self) -> datafusion::common::Result<Arc<OpenFile>> {
        let Source::File { location, .. } = &self.table.source else {
            return Err(crate::grid::failed());
        };
        self.open.check(&self.table).map_err(|e| DataFusionError::External(Box::new(e)))?;
        Ok(self.open.held(location)?)
    }

    /// Whether the file is a text.
    fn is_text(&self) -> bool {
        match &self.table.source {
            Source::File { format, .. } => match format {
                FileFormat::Csv | FileFormat::Json => true,
                FileFormat::Parquet | FileFormat::Arrow | FileFormat::Sqlite => false,
            },
            Source::Postgres { .. } | Source::Registered | Source::Released { .. } => false,
        }
    }

    /// The rows of the open file, with its own columns. The rows of a text have only the columns of
    /// the projection.
    fn rows(
        &self,
        held: &Arc<OpenFile>,
        projection: Option<&Vec<usize>>,
    ) -> datafusion::common::Result<Arc<dyn TableProvider>> {
        let Source::File { format, .. } = &self.table.source else {
            return Err(crate::grid::failed());
        };
        let schema = Arc::clone(&self.schema);
        let of_file = || {
            let stored = as_stored(&schema, held, *format);
            held.structs.get().map_or_else(|| Arc::clone(&stored), |structs| structs.read(&stored))
        };
        match format {
            FileFormat::Parquet => {
                let reader = ParquetFormat::default().with_options(options_of(&self.table));
                listing(held, Arc::new(reader), of_file())
            }
            FileFormat::Arrow => listing(held, Arc::new(ArrowFormat), of_file()),
            FileFormat::Sqlite => {
                let table = table_of(&self.table).ok_or_else(crate::grid::failed)?;
                let rows = SqliteRows::new(Arc::clone(held), table.to_owned(), Arc::clone(&schema));
                Ok(Arc::new(StreamingTable::try_new(schema, vec![Arc::new(rows)])?))
            }
            FileFormat::Csv | FileFormat::Json => {
                let (held, shape) = (Arc::clone(held), self.shape.clone());
                let file = TextFile { held, shape, behind: Vec::new() };
                let file = LenientFiles::new(vec![file], schema, projection)?;
                let schema = Arc::clone(file.schema());
                Ok(Arc::new(StreamingTable::try_new(schema, vec![Arc::new(file)])?))
            }
        }
    }
}

/// A scan of a file that claims about this number of rows. The number only decides between
/// equivalent plans; the scan of a private table hides it.
fn with_rows(scan: Arc<dyn ExecutionPlan>, rows: usize) -> Arc<dyn ExecutionPlan> {
    let source = scan.downcast_ref::<DataSourceExec>();
    let files = source.and_then(|s| s.data_source().downcast_ref::<FileScanConfig>());
    let Some(files) = files else { return scan };
    let schema = files.file_schema();
    let claimed = Statistics::new_unknown(schema).with_num_rows(Precision::Inexact(rows));
    let files = FileScanConfigBuilder::from(files.clone()).with_statistics(claimed).build();
    DataSourceExec::from_data_source(files)
}

#[async_trait]
impl TableProvider for FileTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> datafusion::common::Result<Vec<TableProviderFilterPushDown>> {
        // The readers decide which rows to skip.
        Ok(vec![TableProviderFilterPushDown::Unsupported; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> datafusion::common::Result<Arc<dyn ExecutionPlan>> {
        let held = self.held()?;
        if self.open.has_unverified_floats(&self.table, &held) {
            let (table, schema) = (Arc::clone(&self.table), Arc::clone(&self.schema));
            return UnverifiedRows::new(table, schema, Arc::clone(&self.open)).scan(projection);
        }
        let rows = self.rows(&held, projection)?;
        let is_text = self.is_text();
        let columns: Vec<usize> = match projection {
            Some(projection) => projection.clone(),
            None => (0..self.schema.fields().len()).collect(),
        };
        let needed = held.structs.get().map(|structs| structs.needed(&columns));
        let left = needed.as_ref().or(projection).filter(|_| !is_text);
        let scan = rows.scan(state, left, filters, limit).await?;
        // Before the charge, the scan of a private table claims no number of rows.
        let may_claim = self.table.is_public() || PaidFor::is_given(state.config());
        let scan = match held.rows.get().filter(|_| may_claim) {
            Some(rows) => with_rows(scan, *rows),
            None => scan,
        };
        let scan = match held.structs.get() {
            Some(structs) => structs.taken_apart(scan, &columns, &self.schema)?,
            None => scan,
        };
        match projection {
            Some(projection) => as_declared(scan, &self.schema.project(projection)?),
            None => as_declared(scan, &self.schema),
        }
    }
}

/// An open file as a table that DataFusion reads.
fn listing(
    held: &Arc<OpenFile>,
    format: Arc<dyn datafusion::datasource::file_format::FileFormat>,
    schema: SchemaRef,
) -> datafusion::common::Result<Arc<dyn TableProvider>> {
    let url = ListingTableUrl::parse(held.url())?;
    let options = ListingOptions::new(format).with_file_extension("");
    let config = ListingTableConfig::new(url).with_listing_options(options).with_schema(schema);
    Ok(Arc::new(ListingTable::try_new(config)?))
}

/// The files of a table that has several.
#[derive(Debug)]
struct FilesTable(ManyFiles);

#[async_trait]
impl TableProvider for FilesTable {
    fn schema(&self) -> SchemaRef {
        self.0.columns()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> datafusion::common::Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Unsupported; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> datafusion::common::Result<Arc<dyn ExecutionPlan>> {
        // Before the charge, a private table does not list its files, because no plan may depend on
        // them.
        match self.0.are_public() || PaidFor::is_given(state.config()) {
            true => self.0.listed(projection, state.config().target_partitions()),
            false => self.0.unlisted(projection),
        }
    }
}

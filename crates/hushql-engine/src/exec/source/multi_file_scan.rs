//! The scan of a table that has several files.
//!
//! In: a table, and the open files of a statement. Out: a plan over the files, or a plan that finds
//! them when it runs. A private table has the second one before the charge, so that the plan is the
//! same for a thousand files and for none. After the charge, files are listed and distributed, and
//! skipped where the names of their folders permit it.
//!
//! ```text
//! before the charge      StreamingTableExec: partition_sizes=1
//! after it, Parquet      DataSourceExec: file_groups={2 groups: [[17, 18], [19]]}, …
//! after it, CSV          StreamingTableExec: partition_sizes=2
//! ```

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, StringArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::config::TableParquetOptions;
use datafusion::common::stats::Precision;
use datafusion::common::{DataFusionError, Result, ScalarValue, Statistics};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::ParquetRowSelection;
use datafusion::datasource::physical_plan::{
    ArrowSource, FileGroup, FileScanConfigBuilder, FileSource, ParquetSource,
};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::{TryStreamExt, stream};
use tokio::task::spawn_blocking;

use super::check::OpenFiles;
use super::external_table::members;
use super::file_set::{FileSet, Member};
use super::lenient::{LenientFiles, TextFile, TextFormat};
use super::open_files::STORE;
use super::struct_columns::StructColumns;
use super::time_units::{as_declared, as_stored};
use super::version_columns::{rows_of, selected_rows};
use crate::catalog::{FileFormat, Source, Table};

/// The files of a table.
#[derive(Clone)]
pub(super) struct ManyFiles {
    table: Arc<Table>,
    schema: SchemaRef,
    shape: TextFormat,
    open: Arc<OpenFiles>,
}

/// Paths and the number of files must not appear in plans and messages.
impl fmt::Debug for ManyFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManyFiles").field("name", &self.table.name).finish_non_exhaustive()
    }
}

impl ManyFiles {
    pub(super) fn new(
        table: Arc<Table>,
        schema: SchemaRef,
        shape: TextFormat,
        open: Arc<OpenFiles>,
    ) -> Self {
        Self { table, schema, shape, open }
    }

    pub(super) fn columns(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn projected(&self, projection: Option<&Vec<usize>>) -> Result<SchemaRef> {
        Ok(match projection {
            Some(projection) => Arc::new(self.schema.project(projection)?),
            None => self.columns(),
        })
    }

    pub(super) fn are_public(&self) -> bool {
        self.table.is_public()
    }

    /// A plan that finds its files when it runs.
    ///
    /// # Guarantee
    /// It follows from the declaration alone.
    ///
    /// # Errors
    /// DataFusion's, for a projection of columns that do not exist.
    pub(super) fn unlisted(
        &self,
        projection: Option<&Vec<usize>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let rows: Arc<dyn PartitionStream> = Arc::new(self.clone());
        streaming(self.columns(), vec![rows], projection)
    }

    /// A plan over the files, which this call lists, opens and checks.
    ///
    /// # Errors
    /// The refusal of a file that differs from its declaration. For a private table, it must not
    /// reach an analyst.
    pub(super) fn listed(
        &self,
        projection: Option<&Vec<usize>>,
        groups: usize,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let set = self.open.checked(&self.table);
        let set = set.map_err(|e| DataFusionError::External(Box::new(e)))?;
        let Source::File { format, options, .. } = &self.table.source else {
            return Err(crate::grid::failed());
        };
        match format {
            FileFormat::Csv | FileFormat::Json => {
                let groups = groups.min(set.members.len()).max(1);
                let mut parts: Vec<Vec<TextFile>> = (0..groups).map(|_| Vec::new()).collect();
                let files = members(&set, &self.shape, options).into_iter().zip(&set.members);
                for (i, ((held, shape), member)) in files.enumerate() {
                    let file = TextFile { held, shape, behind: member.values.clone() };
                    if let Some(part) = parts.get_mut(i % groups) {
                        part.push(file);
                    }
                }
                let part = |files| -> Result<Arc<dyn PartitionStream>> {
                    Ok(Arc::new(LenientFiles::new(files, self.columns(), projection)?))
                };
                let parts = parts.into_iter().map(part).collect::<Result<_>>()?;
                streaming(self.projected(projection)?, parts, None)
            }
            // Such a table has one file.
            FileFormat::Sqlite => Err(crate::grid::failed()),
            FileFormat::Parquet | FileFormat::Arrow if set.members.is_empty() => {
                Ok(Arc::new(EmptyExec::new(self.projected(projection)?)))
            }
            FileFormat::Parquet | FileFormat::Arrow => {
                self.stored(&set, *format, projection, groups)
            }
        }
    }

    /// The rows of files in a columnar format. Files with the same units of dates and moments share
    /// one scan.
    fn stored(
        &self,
        set: &FileSet,
        format: FileFormat,
        projection: Option<&Vec<usize>>,
        groups: usize,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut alike: Vec<(SchemaRef, Vec<&Member>)> = Vec::new();
        for member in &set.members {
            let stored = as_stored(&self.schema, &member.held, format);
            let read = match member.held.structs.get() {
                Some(structs) => structs.read(&stored),
                None => set.named_as_in_files(stored),
            };
            match alike.iter_mut().find(|(schema, _)| *schema == read) {
                Some((_, members)) => members.push(member),
                None => alike.push((read, vec![member])),
            }
        }
        let declared = self.projected(projection)?;
        let columns: Vec<usize> = match projection {
            Some(projection) => projection.clone(),
            None => (0..self.schema.fields().len()).collect(),
        };
        let scan = |(read, members): (SchemaRef, Vec<&Member>)| {
            // Files with the same columns have the same structs.
            let structs = members.first().and_then(|member| member.held.structs.get());
            let own = structs.map_or(self.table.file_columns().len(), StructColumns::width);
            let split = split(&read, own);
            let source: Arc<dyn FileSource> = match format {
                FileFormat::Arrow => Arc::new(ArrowSource::new_file_source(split)),
                FileFormat::Parquet | FileFormat::Csv | FileFormat::Json | FileFormat::Sqlite => {
                    Arc::new(
                        ParquetSource::new(split)
                            .with_table_parquet_options(options_of(&self.table)),
                    )
                }
            };
            let scan = match structs {
                Some(structs) => {
                    let needed = structs.needed(&columns);
                    let scan = self.scan(&members, source, &read, Some(&needed), groups)?;
                    structs.taken_apart(scan, &columns, &self.schema)?
                }
                None => self.scan(&members, source, &read, projection, groups)?,
            };
            as_declared(scan, &declared)
        };
        let mut scans = alike.into_iter().map(scan).collect::<Result<Vec<_>>>()?;
        match scans.len() {
            1 => scans.pop().ok_or_else(crate::grid::failed),
            _ => UnionExec::try_new(scans),
        }
    }

    fn scan(
        &self,
        members: &[&Member],
        source: Arc<dyn FileSource>,
        read: &SchemaRef,
        projection: Option<&Vec<usize>>,
        groups: usize,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let own = self.table.file_columns().len();
        let types: Vec<&DataType> =
            self.schema.fields().iter().skip(own).map(|field| field.data_type()).collect();
        let file = |member: &Member| {
            let values = member.values.iter().zip(&types);
            let values = values.map(|(value, data_type)| typed(value.as_deref(), data_type));
            let file = PartitionedFile::new_from_meta(member.held.object()?);
            let file = match selected_rows(&member.held)? {
                Some(rows) => file.with_extension(ParquetRowSelection::new(rows)),
                None => file,
            };
            Ok(file.with_partition_values(values.collect::<Result<_>>()?))
        };
        let files = members.iter().map(|member| file(member)).collect::<Result<Vec<_>>>()?;
        // `FileGroup::split_files` would order the files by their names in the store, which are
        // random.
        let each = files.len().div_ceil(groups.max(1)).max(1);
        let groups = files.chunks(each).map(|files| FileGroup::new(files.to_vec())).collect();
        let mut config = FileScanConfigBuilder::new(ObjectStoreUrl::parse(STORE)?, source)
            .with_file_groups(groups);
        let rows =
            members.iter().try_fold(0_usize, |sum, member| sum.checked_add(rows_of(&member.held)?));
        if let Some(rows) = rows {
            let claimed = Statistics::new_unknown(read);
            config = config.with_statistics(claimed.with_num_rows(Precision::Inexact(rows)));
        }
        let config = config.with_projection_indices(projection.cloned())?;
        Ok(DataSourceExec::from_data_source(config.build()))
    }
}

/// The columns of files, followed by those of their folders' names.
fn split(columns: &SchemaRef, own: usize) -> TableSchema {
    let fields = columns.fields();
    let (files, folders) = fields.split_at_checked(own).unwrap_or((fields, &[]));
    TableSchema::builder(Arc::new(Schema::new(files.to_vec())))
        .with_table_partition_cols(folders.to_vec())
        .build()
}

/// The value of a column for all rows of a file. A text that its type cannot hold becomes NULL, as
/// in a cell.
///
/// # Errors
/// DataFusion's, for a type that no text is cast to.
pub(super) fn typed(value: Option<&str>, data_type: &DataType) -> Result<ScalarValue> {
    let lenient = CastOptions { safe: true, ..CastOptions::default() };
    let text: Arc<dyn Array> = Arc::new(StringArray::from(vec![value]));
    ScalarValue::try_from_array(&cast_with_options(&text, data_type, &lenient)?, 0)
}

fn streaming(
    schema: SchemaRef,
    parts: Vec<Arc<dyn PartitionStream>>,
    projection: Option<&Vec<usize>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    Ok(Arc::new(StreamingTableExec::try_new(schema, parts, projection, [], false, None)?))
}

impl PartitionStream for ManyFiles {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (files, schema) = (self.clone(), self.columns());
        let rows = stream::once(async move {
            let listed = spawn_blocking(move || files.listed(None, 1)).await;
            execute_stream(listed.map_err(|e| DataFusionError::External(Box::new(e)))??, context)
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, rows.try_flatten()))
    }
}

/// The options of the Parquet reader. For a private table, it uses at most the statistics of row
/// groups.
///
/// Bloom filters and page statistics would not change any answer, and would be more code that must
/// be correct. Filters that the reader evaluates would replace the filters above it.
pub(super) fn options_of(table: &Table) -> TableParquetOptions {
    let mut options = TableParquetOptions::default();
    options.global.pushdown_filters = false;
    // See `file_columns`: in nanoseconds, the year 9999 would be read as 1816.
    options.global.coerce_int96 = Some("us".to_owned());
    if !table.is_public() {
        options.global.bloom_filter_on_read = false;
        options.global.enable_page_index = false;
    }
    options
}

//! A study in Parquet files, and a site that notes the integers of each statement, with a key that
//! is always the same.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Mutex};

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, StringArray,
};
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Int64Type};
use datafusion::arrow::util::display::array_value_to_string;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::MemTable;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::prelude::SessionConfig;
use futures::{StreamExt, TryStreamExt, stream};
use hushql::{Engine, EngineBuilder};
pub(crate) use hushql_engine::exec::distributed::Here;
use hushql_engine::exec::distributed::{
    BoundingKey, CannotRunThere, InputOperator, Site, bounded_unit,
};

/// Rows of the table of visits.
pub(crate) const ROWS: i64 = 20_000;

/// The key of all bounds.
pub(crate) const KEY: [u64; 4] = [0x1111_2222_3333_4444, 0x5555_6666_7777_8888, 3, u64::MAX - 9];

const DECLARED: [&str; 18] = [
    "ALTER TABLE visits SET PRIVACY UNIT (patient) MAX ROWS 60",
    "ALTER TABLE visits ALTER COLUMN minutes SET PRIVACY DOMAIN BETWEEN 0 AND 100",
    "ALTER TABLE visits ALTER COLUMN fee SET PRIVACY DOMAIN BETWEEN (0, 500) STEP 0.25",
    "ALTER TABLE visits ALTER COLUMN ward SET PRIVACY DOMAIN IN ('A', 'B', 'C', NULL)",
    "ALTER TABLE guests SET PRIVACY UNIT ROW",
    "ALTER TABLE guests ALTER COLUMN minutes SET PRIVACY DOMAIN BETWEEN 0 AND 100",
    "ALTER TABLE guests ALTER COLUMN ward SET PRIVACY DOMAIN IN ('A', 'B', 'C', NULL)",
    "ALTER TABLE drugs SET PRIVACY UNIT VIA (visit) REFERENCES visits(visit) MAX ROWS 200",
    "ALTER TABLE drugs ALTER COLUMN drug SET PRIVACY DOMAIN IN ('x', 'y', 'z')",
    "ALTER TABLE drugs ALTER COLUMN dose SET PRIVACY DOMAIN BETWEEN 0 AND 50",
    "ALTER TABLE wards SET PUBLIC",
    "ALTER TABLE rates SET PUBLIC",
    "ALTER TABLE large SET PUBLIC",
    "ALTER TABLE half SET PUBLIC",
    "ALTER TABLE held SET PRIVACY UNIT ROW",
    "CREATE PRIVACY BUDGET visits FOR visits LIMIT (epsilon=900000, delta=0.5)",
    "CREATE PRIVACY BUDGET guests FOR guests LIMIT (epsilon=900000, delta=0.5)",
    "CREATE EXTERNAL TABLE lines STORED AS CSV LOCATION '{folder}/lines.csv'",
];

/// Statements whose private parts run on workers: bounded, by key, filtered, over subqueries by
/// unit, with keys of the data.
pub(crate) const QUERIES: &[&str] = &[
    "SELECT LAPLACE(eps=1) COUNT(*) FROM visits",
    "SELECT LAPLACE(eps=1, rows=2) COUNT(*) FROM visits",
    "SELECT LAPLACE(eps=1, rows=3) SUM(minutes), LAPLACE(eps=1, rows=5) AVG(minutes) FROM visits",
    "SELECT ward, LAPLACE(eps=1, rows=2, groups=1) COUNT(*), LAPLACE(eps=1, rows=1, groups=2) SUM(fee) FROM visits GROUP BY ward",
    "SELECT ward, LAPLACE(eps=1, rows=4) AVG(fee), LAPLACE(eps=1, rows=4) COUNT(fee) FROM visits GROUP BY ward",
    "SELECT LAPLACE(eps=1, rows=3) COUNT(*) FROM visits WHERE minutes > 30 AND ward = 'A'",
    "SELECT LAPLACE(eps=1, rows=3) SUM(minutes * 2 + 1) FROM visits WHERE diagnosis LIKE 'd1%' OR ward IS NULL",
    "SELECT LAPLACE(eps=1, rows=3) SUM(CASE WHEN upper(ward) = 'B' THEN minutes END) FROM visits",
    "SELECT ward, LAPLACE(eps=1) COUNT(DISTINCT patient) FROM visits GROUP BY ward",
    "SELECT ward, LAPLACE(eps=1, rows=2, groups=2) COUNT(DISTINCT minutes) FROM visits GROUP BY ward",
    "SELECT LAPLACE(eps=1, rows=3) VAR_POP(minutes), LAPLACE(eps=1, rows=3) STDDEV(minutes) FROM visits",
    "SELECT ward, EXPONENTIAL(eps=1, rows=2) MEDIAN(minutes) FROM visits GROUP BY ward",
    "SELECT diagnosis, LAPLACE(eps=1, delta=0.001, rows=2, groups=2) COUNT(*) AS n FROM visits GROUP BY diagnosis",
    "SELECT LAPLACE(eps=1) AVG(m) FROM (SELECT patient, least(SUM(minutes), 500) AS m FROM visits GROUP BY patient)",
    "SELECT LAPLACE(eps=1) COUNT(*), LAPLACE(eps=1) SUM(minutes) FROM guests",
    "SELECT ward, LAPLACE(eps=1) COUNT(*), LAPLACE(eps=1) AVG(minutes) FROM guests WHERE minutes > 10 GROUP BY ward",
    "SELECT ARGMAX EXPONENTIAL(eps=1) ward FROM guests GROUP BY ward",
    // Along links, of private tables, and with public ones in files and in memory.
    "SELECT drug, LAPLACE(eps=1, rows=3) COUNT(*), LAPLACE(eps=1, rows=3) SUM(dose) FROM drugs GROUP BY drug",
    "SELECT v.ward, LAPLACE(eps=1, rows=3) SUM(d.dose) FROM drugs d JOIN visits v ON d.visit = v.visit WHERE v.minutes > 30 GROUP BY v.ward",
    "SELECT LAPLACE(eps=1, rows=2) COUNT(*), LAPLACE(eps=1, rows=2) COUNT(dose) FROM visits v LEFT JOIN drugs d ON v.visit = d.visit AND d.dose > v.minutes",
    "SELECT LAPLACE(eps=1, rows=2) COUNT(*) FROM visits v JOIN visits w ON v.patient = w.patient AND v.minutes = w.minutes",
    "SELECT LAPLACE(eps=1, rows=2) COUNT(*) FROM visits WHERE patient IN (SELECT patient FROM visits WHERE minutes > 95)",
    "SELECT LAPLACE(eps=1, rows=2) COUNT(*) FROM visits v WHERE NOT EXISTS (SELECT 1 FROM visits w WHERE v.patient = w.patient AND w.fee > 400)",
    "SELECT floor, LAPLACE(eps=1, rows=2, groups=2) COUNT(*) FROM visits JOIN wards ON visits.ward = wards.ward GROUP BY floor KEYS (1, 2)",
    "SELECT LAPLACE(eps=1, rows=2) COUNT(*), LAPLACE(eps=1, rows=2) COUNT(floor) FROM visits LEFT JOIN wards ON visits.ward = wards.ward",
    "SELECT LAPLACE(eps=1, rows=3) SUM(CLAMP(rate, 0, 39)) FROM visits JOIN rates ON visits.diagnosis = rates.diagnosis",
    "SELECT LAPLACE(eps=1, rows=3) COUNT(*) FROM visits WHERE NOT EXISTS (SELECT 1 FROM rates WHERE rates.diagnosis = visits.diagnosis)",
    "SELECT LAPLACE(eps=1, rows=9) COUNT(*) FROM visits, wards WHERE minutes > CLAMP(floor, 1, 3) * 20",
    "SELECT LAPLACE(eps=1) COUNT(*) FROM guests JOIN wards ON guests.ward = wards.ward WHERE floor = 2",
    // Windows, unions, and both.
    "SELECT LAPLACE(eps=1) COUNT(*) FROM (SELECT patient, ROW_NUMBER() OVER (PARTITION BY patient ORDER BY minutes) AS n FROM visits) WHERE n = 1",
    "SELECT ward, LAPLACE(eps=1, rows=2) SUM(d) FROM (SELECT patient, ward, least(greatest(minutes - LAG(minutes) OVER (PARTITION BY patient ORDER BY visit), 0), 50) AS d FROM visits) GROUP BY ward",
    "SELECT LAPLACE(eps=1, rows=3) SUM(m) FROM (SELECT patient, MAX(minutes) OVER (PARTITION BY patient ORDER BY visit ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS m FROM visits)",
    "SELECT LAPLACE(eps=1, rows=2) COUNT(*), LAPLACE(eps=1, rows=2) SUM(m) FROM (SELECT patient, minutes AS m FROM visits WHERE ward = 'A' UNION ALL SELECT patient, least(minutes * 2, 90) AS m FROM visits WHERE minutes > 40)",
    "SELECT LAPLACE(eps=1) AVG(n) FROM (SELECT patient, least(COUNT(*), 9) AS n FROM (SELECT patient, RANK() OVER (PARTITION BY patient ORDER BY fee) AS r FROM visits UNION ALL SELECT patient, minutes AS r FROM visits) WHERE r < 5 GROUP BY patient)",
];

/// Statements that workers do not take, with a part of the refusal.
pub(crate) const REFUSED: &[(&str, &str)] = &[
    ("SELECT LAPLACE(eps=1) COUNT(*) FROM lines", "workers cannot read the table lines"),
    ("SELECT LAPLACE(eps=1) COUNT(*) FROM held", "workers cannot read the table held"),
    (
        "SELECT LAPLACE(eps=1, rows=2) COUNT(*) FROM visits JOIN large ON minutes = large.n",
        "more than 2 MiB of rows in memory",
    ),
    // Also where the files are listed after the charge.
    (
        "SELECT LAPLACE(eps=1) COUNT(*) FROM guests JOIN half a ON minutes = a.n JOIN half b ON minutes = b.n",
        "has more than 3 MiB",
    ),
];

/// Rows of visits: a patient has up to 40, of different wards and fees. Some have no name, some
/// cells are NULL.
fn visits(first: i64, rows: i64, people: i64) -> RecordBatch {
    let rolled = |i: i64, by: i64| (i.wrapping_mul(7_919) ^ (i >> 3)).rem_euclid(by);
    let patient =
        (first..first + rows).map(|i| Some(rolled(i, people)).filter(|patient| *patient != 13));
    let patient: ArrayRef = Arc::new(patient.collect::<Int64Array>());
    let minutes = (first..first + rows).map(|i| Some(rolled(i, 131) - 10).filter(|_| i % 17 != 0));
    let minutes: ArrayRef = Arc::new(minutes.collect::<Int64Array>());
    let fee = (first..first + rows).map(|i| match i % 97 {
        0 => None,
        1 => Some(f64::NAN),
        2 => Some(f64::INFINITY),
        _ => i32::try_from(rolled(i, 4_001)).ok().map(|cents| f64::from(cents) / 8.0),
    });
    let fee: ArrayRef = Arc::new(fee.collect::<Float64Array>());
    let ward = (first..first + rows).map(|i| {
        [Some("A"), Some("B"), Some("C"), None, Some("D")]
            .get(rolled(i, 5) as usize)
            .copied()
            .flatten()
    });
    let ward: ArrayRef = Arc::new(ward.collect::<StringArray>());
    let diagnosis =
        (first..first + rows).map(|i| Some(format!("d{}", rolled(i, 60) * rolled(i, 3))));
    let diagnosis: ArrayRef = Arc::new(diagnosis.collect::<StringArray>());
    let columns = [
        ("patient", patient),
        ("minutes", minutes),
        ("fee", fee),
        ("ward", ward),
        ("diagnosis", diagnosis),
        ("visit", Arc::new(Int64Array::from_iter_values(first..first + rows)) as ArrayRef),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)))
        .unwrap()
}

/// Rows of drugs: a visit has several, or none; some belong to no visit.
fn drugs(rows: i64, visits: i64) -> RecordBatch {
    let rolled = |i: i64, by: i64| (i.wrapping_mul(104_729) ^ (i >> 2)).rem_euclid(by);
    let visit = (0..rows).map(|i| Some(rolled(i, visits + 500)).filter(|_| i % 41 != 0));
    let drug = (0..rows).map(|i| ["x", "y", "z", "w"].get(rolled(i, 4) as usize).copied());
    let dose = (0..rows).map(|i| Some(rolled(i, 70) - 5).filter(|_| i % 13 != 0));
    let columns: [(&str, ArrayRef); 3] = [
        ("visit", Arc::new(visit.collect::<Int64Array>())),
        ("drug", Arc::new(drug.collect::<StringArray>())),
        ("dose", Arc::new(dose.collect::<Int64Array>())),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)))
        .unwrap()
}

/// The wards and their floors; one ward is on two, and one floor has no ward.
fn wards() -> RecordBatch {
    let ward: ArrayRef =
        Arc::new(StringArray::from(vec![Some("A"), Some("B"), Some("B"), Some("D"), None]));
    let floor: ArrayRef = Arc::new(Int64Array::from(vec![1, 1, 2, 2, 3]));
    RecordBatch::try_from_iter([("ward", ward), ("floor", floor)]).unwrap()
}

/// A table in memory: numbers of diagnoses, or many numbers, of which half travel with a plan.
fn in_memory(name: &str) -> Arc<MemTable> {
    let rows: [(&str, ArrayRef); 2] = match name {
        "rates" => [
            (
                "diagnosis",
                Arc::new(StringArray::from_iter_values((0..40).map(|i| format!("d{i}")))),
            ),
            ("rate", Arc::new(Int64Array::from_iter_values(0..40))),
        ],
        "half" => [
            ("n", Arc::new(Int64Array::from_iter_values(0..120_000))),
            ("m", Arc::new(Int64Array::from_iter_values(0..120_000))),
        ],
        _ => [
            ("n", Arc::new(Int64Array::from_iter_values(0..200_000))),
            ("m", Arc::new(Int64Array::from_iter_values(0..200_000))),
        ],
    };
    let rows = RecordBatch::try_from_iter(rows).unwrap();
    Arc::new(MemTable::try_new(rows.schema(), vec![vec![rows]]).unwrap())
}

fn written(rows: &RecordBatch, path: &Path) {
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(1_500)).build();
    let file = File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, rows.schema(), Some(properties)).unwrap();
    writer.write(rows).unwrap();
    writer.close().unwrap();
}

/// The files of the study.
pub(crate) fn write(folder: &Path) {
    let rows = visits(0, ROWS, 900);
    written(&rows, &folder.join("visits.parquet"));
    // The guests are in three files.
    std::fs::create_dir(folder.join("guests")).unwrap();
    for (i, length) in [6_000, 50, 9_000].into_iter().enumerate() {
        written(&rows.slice(i * 5_500, length), &folder.join(format!("guests/{i}.parquet")));
    }
    written(&drugs(30_000, ROWS), &folder.join("drugs.parquet"));
    written(&wards(), &folder.join("wards.parquet"));
    std::fs::write(folder.join("lines.csv"), "patient,minutes\n1,2\n").unwrap();
}

/// The files of the study with so many visits, 20 of each patient, and half as many drugs.
pub(crate) fn write_large(folder: &Path, rows: i64) {
    write_with_visits(folder, rows);
    written(&drugs(rows / 2, rows), &folder.join("drugs.parquet"));
}

/// The files of the study with so many visits, 20 of each patient.
pub(crate) fn write_with_visits(folder: &Path, rows: i64) {
    write(folder);
    let schema = visits(0, 1, 1).schema();
    let file = File::create(folder.join("visits.parquet")).unwrap();
    let mut writer = ArrowWriter::try_new(file, schema, None).unwrap();
    for first in (0..rows).step_by(100_000) {
        writer.write(&visits(first, 100_000, rows / 20)).unwrap();
    }
    writer.close().unwrap();
}

/// An engine over the files of the study, whose private parts run at a site.
pub(crate) async fn engine(folder: &Path, site: Arc<dyn Site>) -> Engine {
    engine_at(&folder.display().to_string(), Engine::builder().site(site)).await
}

/// The same with the files at a location.
pub(crate) async fn engine_at(folder: &str, builder: EngineBuilder) -> Engine {
    let engine = builder.in_memory().unwrap();
    for name in ["rates", "large", "half", "held"] {
        engine.register_table(name, in_memory(name)).unwrap();
    }
    let tables = [
        format!("CREATE EXTERNAL TABLE drugs STORED AS PARQUET LOCATION '{folder}/drugs.parquet'"),
        format!("CREATE EXTERNAL TABLE wards STORED AS PARQUET LOCATION '{folder}/wards.parquet'"),
        format!(
            "CREATE EXTERNAL TABLE visits STORED AS PARQUET LOCATION '{folder}/visits.parquet'"
        ),
        format!("CREATE EXTERNAL TABLE guests STORED AS PARQUET LOCATION '{folder}/guests'"),
    ];
    let declared = DECLARED.iter().map(|text| text.replace("{folder}", folder));
    for statement in tables.into_iter().chain(declared).chain([
        "ALTER TABLE lines SET PRIVACY UNIT (patient) MAX ROWS 3".to_owned(),
        "CREATE PRIVACY BUDGET lines FOR lines LIMIT (epsilon=900000)".to_owned(),
        "CREATE PRIVACY BUDGET held FOR held LIMIT (epsilon=900000)".to_owned(),
    ]) {
        engine.owner().execute(&statement).await.unwrap_or_else(|e| panic!("{statement}: {e}"));
    }
    engine
}

/// The integers of bounded inputs, by their keys as text: whatever rows they came in.
pub(crate) type Integers = Vec<BTreeMap<String, Vec<i128>>>;

/// What is done with a plan and its context, when it runs.
pub(crate) type Look = Box<dyn Fn(&Arc<dyn ExecutionPlan>, &TaskContext) + Send + Sync>;

/// A site that runs what another one runs, with the same key each time, and notes the integers.
pub(crate) struct Noted {
    inner: Arc<dyn Site>,
    integers: Mutex<Integers>,
    pub(crate) look: Option<Look>,
}

impl std::fmt::Debug for Noted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Noted")
    }
}

/// This process, with rows that are partitioned as they are for workers.
#[derive(Debug)]
pub(crate) struct HereByUnit;

impl Site for HereByUnit {
    fn partitions_by_unit(&self) -> bool {
        true
    }
}

impl Noted {
    pub(crate) fn new(inner: Arc<dyn Site>) -> Self {
        Self { inner, integers: Mutex::default(), look: None }
    }

    /// What was noted since the last call.
    pub(crate) fn taken(&self) -> Integers {
        std::mem::take(&mut self.integers.lock().unwrap())
    }

    fn note(&self, batches: &[RecordBatch]) {
        let mut integers: BTreeMap<String, Vec<i128>> = BTreeMap::new();
        for batch in batches {
            let schema = batch.schema();
            let is_integer = |name: &str| name.starts_with("bounded_") || name.starts_with("sum");
            for row in 0..batch.num_rows() {
                let (mut key, mut values) = (String::new(), Vec::new());
                for (field, column) in schema.fields().iter().zip(batch.columns()) {
                    if is_integer(field.name()) || field.name().contains("count(") {
                        values.push(integer(column, row));
                    } else {
                        let cell = array_value_to_string(column, row).unwrap();
                        write!(key, "{cell:?} {}|", column.is_null(row)).unwrap();
                    }
                }
                let sums = integers.entry(key).or_insert_with(|| vec![0; values.len()]);
                sums.iter_mut().zip(&values).for_each(|(sum, value)| *sum += value);
            }
        }
        // A key whose integers are all zero may have no row.
        integers.retain(|_, values| values.iter().any(|value| *value != 0));
        self.integers.lock().unwrap().push(integers);
    }
}

fn integer(column: &ArrayRef, row: usize) -> i128 {
    match column.data_type() {
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row).into(),
        _ => column.as_primitive::<Decimal128Type>().value(row),
    }
}

/// The same plan with the key of all bounds.
pub(crate) fn with_key(
    plan: &Arc<dyn ExecutionPlan>,
    context: &TaskContext,
) -> Result<Arc<dyn ExecutionPlan>> {
    Arc::clone(plan)
        .transform_up(|node| {
            if bounded_unit(&node).is_none() {
                return Ok(Transformed::no(node));
            }
            let Ok(InputOperator::Own(operator)) =
                InputOperator::of(&node, context.session_config())
            else {
                panic!("{} is described", node.name());
            };
            let inputs: Vec<_> = node.children().into_iter().cloned().collect();
            let key = BoundingKey::from_words(KEY);
            operator.made(&inputs, Some(&key), context).map(Transformed::yes)
        })
        .data()
}

impl Site for Noted {
    fn partitions_by_unit(&self) -> bool {
        self.inner.partitions_by_unit()
    }

    fn accepts(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        config: &SessionConfig,
    ) -> Result<(), CannotRunThere> {
        self.inner.accepts(plan, config)
    }

    fn processes(&self) -> usize {
        self.inner.processes()
    }

    fn runs_again(&self, error: &DataFusionError, times: usize) -> bool {
        self.inner.runs_again(error, times)
    }

    fn rows(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let plan = with_key(plan, &context)?;
        if let Some(look) = &self.look {
            look(&plan, &context);
        }
        let rows = self.inner.rows(&plan, Arc::clone(&context))?;
        let schema = rows.schema();
        // The stream is read to its end before the first row goes on.
        let runtime = tokio::runtime::Handle::current();
        let batches =
            tokio::task::block_in_place(|| runtime.block_on(rows.try_collect::<Vec<_>>()));
        let batches = match batches {
            Ok(batches) => batches,
            // As if they came, so that the site may be asked again.
            Err(error) => {
                // Whoever asks is told nothing.
                println!("{error}");
                let failed = stream::once(async move { Err(error) });
                return Ok(Box::pin(RecordBatchStreamAdapter::new(schema, failed)));
            }
        };
        self.note(&batches);
        let again = MemorySourceConfig::try_new_exec(&[batches], Arc::clone(&schema), None)?;
        let rows = stream::once(async move { again.execute(0, context) }).try_flatten().boxed();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

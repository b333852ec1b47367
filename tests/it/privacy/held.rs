//! Files that change while a statement reads them: what was checked is what is read, or nothing is
//! answered.

use std::fmt;
use std::fs::{self, File};
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::csv::WriterBuilder;
use arrow::datatypes::{Int64Type, SchemaRef};
use arrow::ipc::writer::FileWriter;
use arrow::json::LineDelimitedWriter;
use async_trait::async_trait;
use datafusion::catalog::{Session as PlanSession, TableProvider};
use datafusion::common::Result;
use datafusion::datasource::MemTable;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::physical_plan::ExecutionPlan;
use hushql::{Analyst, Engine, Error, Refusal, Session};

use crate::privacy::draws::declared;

fn table(columns: [(&str, Vec<i64>); 2]) -> RecordBatch {
    let arrays = columns.map(|(n, v)| (n, Arc::new(Int64Array::from(v)) as ArrayRef, true));
    RecordBatch::try_from_iter_with_nullable(arrays).unwrap()
}

const FORMATS: [&str; 4] = ["CSV", "JSON", "ARROW", "PARQUET"];

fn write(path: &Path, format: &str, rows: &RecordBatch) {
    let file = File::create(path).unwrap();
    match format {
        "CSV" => WriterBuilder::new().with_header(true).build(file).write(rows).unwrap(),
        "JSON" => {
            let mut writer = LineDelimitedWriter::new(file);
            writer.write(rows).unwrap();
            writer.finish().unwrap();
        }
        "ARROW" => {
            let mut writer = FileWriter::try_new(file, &rows.schema()).unwrap();
            writer.write(rows).unwrap();
            writer.finish().unwrap();
        }
        _ => {
            let mut writer = ArrowWriter::try_new(file, rows.schema(), None).unwrap();
            writer.write(rows).unwrap();
            writer.close().unwrap();
        }
    }
}

type Act = Box<dyn FnOnce() + Send>;

/// A public table that does something once, when it is planned: after files were checked, and
/// before any is read.
struct Hook {
    rows: MemTable,
    act: Mutex<Option<Act>>,
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}

#[async_trait]
impl TableProvider for Hook {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn PlanSession,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if let Some(act) = self.act.lock().unwrap().take() {
            act();
        }
        self.rows.scan(state, projection, filters, limit).await
    }
}

/// Accounts with an owner each, one of them with number 7.
fn accounts() -> RecordBatch {
    table([("no", (0..600).collect()), ("owner", (0..600).collect())])
}

/// Accounts of as many owners, 500 of whom have number 7.
fn shared() -> RecordBatch {
    table([
        ("no", (0..600).map(|i| if i < 500 { 7 } else { i }).collect()),
        ("owner", (0..600).collect()),
    ])
}

/// Visits of three accounts; and an engine that knows both files.
async fn world(folder: &Path, format: &str, options: &str) -> (Engine, Analyst, PathBuf) {
    let [to, from] = ["accounts", "visits"].map(|name| folder.join(format!("{name}.{format}")));
    write(&to, format, &accounts());
    write(&from, format, &table([("visit", vec![1, 2, 3]), ("acct", vec![7, 8, 9])]));
    let engine = Engine::in_memory().unwrap();
    let external = |name: &str, path: &Path| {
        let path = path.display();
        format!("CREATE EXTERNAL TABLE {name} STORED AS {format} LOCATION '{path}'{options}")
    };
    let lab = declared(
        &engine,
        &[
            external("accounts", &to),
            external("visits", &from),
            "ALTER TABLE accounts SET PRIVACY UNIT (owner) UNIQUE".to_owned(),
            "ALTER TABLE visits SET PRIVACY UNIT VIA (acct) REFERENCES accounts(no) MAX ROWS 1"
                .to_owned(),
            "CREATE PRIVACY BUDGET b FOR accounts LIMIT (epsilon=1000000)".to_owned(),
        ],
    )
    .await;
    (engine, lab, to)
}

/// Lets something happen between the check and the scan of the next query.
async fn hooked(engine: &Engine, act: impl FnOnce() + Send + 'static) {
    let rows = table([("one", vec![1]), ("two", vec![2])]);
    let rows = MemTable::try_new(rows.schema(), vec![vec![rows]]).unwrap();
    let act: Act = Box::new(act);
    let hook = Hook { rows, act: Mutex::new(Some(act)) };
    engine.register_table("hook", Arc::new(hook)).unwrap();
    engine.owner().execute("ALTER TABLE hook SET PUBLIC").await.unwrap();
}

/// Reads the hook above the release. At this ε another number than the right one has a probability
/// below 10⁻⁴⁰⁰.
const HOOKED: &str =
    "SELECT n, one FROM (SELECT LAPLACE(eps=1000) COUNT(*) AS n FROM visits) CROSS JOIN hook";

async fn count(lab: &Session, sql: &str) -> std::result::Result<i64, Error> {
    let answer = lab.query(sql).await?;
    Ok(answer.batches()[0].column(0).as_primitive::<Int64Type>().value(0))
}

fn left(lab: &Session) -> String {
    lab.budgets().unwrap()[0].left.to_string()
}

fn is_refused(answer: &std::result::Result<i64, Error>) -> bool {
    matches!(answer, Err(Error::Refused(refusal)) if code(refusal) == "HQ028")
}

fn code(refusal: &Refusal) -> String {
    refusal.to_string().chars().take(5).collect()
}

/// A key that 500 people had in the other file counted one visit 500 times, where 1 was claimed.
#[tokio::test]
async fn a_file_that_is_replaced_after_its_check_is_not_read() {
    for format in FORMATS {
        let folder = tempfile::tempdir().unwrap();
        let (engine, lab, to) = world(folder.path(), format, "").await;
        let next = folder.path().join("next");
        write(&next, format, &shared());
        hooked(&engine, move || fs::rename(next, to).unwrap()).await;
        // The handle is that of the file that was verified.
        assert_eq!(count(&lab, HOOKED).await.unwrap(), 3, "{format}");
        let (before, next) = (left(&lab), count(&lab, HOOKED).await);
        assert!(is_refused(&next), "{format}: {next:?}");
        assert_eq!(left(&lab), before, "{format}");
    }
}

/// Writes other bytes into a file and puts back what `ls` shows of it.
fn rewrite(path: &Path, bytes: &[u8]) {
    let mut file = File::options().read(true).write(true).open(path).unwrap();
    let before = file.metadata().unwrap();
    file.rewind().unwrap();
    file.write_all(bytes).unwrap();
    assert_eq!(file.metadata().unwrap().len(), before.len());
    file.set_modified(before.modified().unwrap()).unwrap();
    let after = file.metadata().unwrap();
    assert_eq!(after.modified().unwrap(), before.modified().unwrap());
}

/// An edit that kept size and time of a file went by.
#[tokio::test]
async fn bytes_that_are_changed_in_place_answer_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (engine, lab, to) = world(folder.path(), "CSV", "").await;
    let honest = fs::read(&to).unwrap();
    let hostile = String::from_utf8(honest.clone()).unwrap().replace("\n8,8\n", "\n7,8\n");
    assert_eq!(hostile.len(), honest.len());
    // While it is read: nothing is answered.
    let (path, bytes) = (to.clone(), hostile.clone());
    hooked(&engine, move || rewrite(&path, bytes.as_bytes())).await;
    let answer = count(&lab, HOOKED).await;
    assert!(matches!(answer, Err(Error::Execution)), "{answer:?}");
    // Before it is read: refused, and nothing is charged.
    let before = left(&lab);
    let answer = count(&lab, "SELECT LAPLACE(eps=1000) COUNT(*) AS n FROM visits").await;
    assert!(is_refused(&answer), "{answer:?}");
    assert_eq!(left(&lab), before);
    // The bytes that were verified are as good as ever, whatever happened to the file.
    rewrite(&to, &honest);
    assert_eq!(count(&lab, HOOKED).await.unwrap(), 3);
}

/// A file is the one that its unit was declared on, unless the owner lets it change, or says that
/// its rows are those of now.
#[tokio::test]
async fn a_file_is_the_one_that_its_unit_was_declared_on() {
    let folder = tempfile::tempdir().unwrap();
    for (options, refused) in [
        ("", true),
        (" OPTIONS ('content_hash' 'false')", false),
        (" OPTIONS ('content_hash' 'true')", true),
    ] {
        let path = folder.path().join("people.csv");
        fs::write(&path, "id,x\n1,1\n2,2\n").unwrap();
        let engine = Engine::in_memory().unwrap();
        let external = format!(
            "CREATE EXTERNAL TABLE people STORED AS CSV LOCATION '{}'{options}",
            path.display()
        );
        let lab = declared(
            &engine,
            &[
                external.as_str(),
                "ALTER TABLE people SET PRIVACY UNIT ROW",
                "CREATE PRIVACY BUDGET b FOR people LIMIT (epsilon=1000000)",
            ],
        )
        .await;
        let sql = "SELECT LAPLACE(eps=1000) COUNT(*) AS n FROM people";
        assert_eq!(count(&lab, sql).await.unwrap(), 2, "{options}");
        fs::write(&path, "id,x\n1,1\n2,2\n3,3\n").unwrap();
        let answer = count(&lab, sql).await;
        assert_eq!(is_refused(&answer), refused, "{options}: {answer:?}");
        if let Err(error) = answer {
            let says = error.to_string();
            for part in ["since its rows were declared", "TABLE people REFRESH", "'false'"] {
                assert!(says.contains(part), "{says}");
            }
        }
        // The same bytes in another file.
        fs::write(folder.path().join("next"), "id,x\n1,1\n2,2\n").unwrap();
        fs::rename(folder.path().join("next"), &path).unwrap();
        assert_eq!(count(&lab, sql).await.unwrap(), 2, "{options}");
        fs::write(&path, "id,x\n1,1\n2,2\n3,3\n").unwrap();
        engine.owner().execute("ALTER TABLE people REFRESH").await.unwrap();
        assert_eq!(count(&lab, sql).await.unwrap(), 3, "{options}");
        // A public file is read as it is.
        engine.owner().execute("ALTER TABLE people SET PUBLIC").await.unwrap();
        fs::write(&path, "id,x\n1,1\n").unwrap();
        assert_eq!(count(&lab, "SELECT COUNT(*) AS n FROM people").await.unwrap(), 1, "{options}");
    }
    let wrong = Engine::in_memory().unwrap().owner();
    let path = folder.path().join("people.csv");
    let statement = format!(
        "CREATE EXTERNAL TABLE people STORED AS CSV LOCATION '{}' OPTIONS ('content_hash' 'sha1')",
        path.display()
    );
    assert!(matches!(wrong.execute(&statement).await, Err(Error::Catalog { .. })));
}

/// All formats are read through the handle, also where their bytes are hashed for every statement.
#[tokio::test]
async fn links_of_all_formats_are_answered() {
    for format in FORMATS {
        let folder = tempfile::tempdir().unwrap();
        let options = " OPTIONS ('content_hash' 'true')";
        let (engine, lab, to) = world(folder.path(), format, options).await;
        let sql = "SELECT LAPLACE(eps=1000) COUNT(*) AS n FROM visits JOIN accounts ON acct = no";
        assert_eq!(count(&lab, sql).await.unwrap(), 3, "{format}");
        // A key for 500 owners is no declaration.
        write(&to, format, &shared());
        let again = engine.owner();
        let unit =
            "ALTER TABLE visits SET PRIVACY UNIT VIA (acct) REFERENCES accounts(no) MAX ROWS 1";
        assert!(again.execute(unit).await.is_err(), "{format}");
        write(&to, format, &accounts());
        again.execute("ALTER TABLE accounts SET PRIVACY UNIT (owner) UNIQUE").await.unwrap();
        assert_eq!(count(&lab, sql).await.unwrap(), 3, "{format}");
    }
}

/// A path with `*` in it was read as a pattern: rows of other files came too, which nobody had
/// looked at.
#[tokio::test]
async fn a_path_is_no_pattern() {
    let folder = tempfile::tempdir().unwrap();
    let [star, other] = ["t*.parquet", "tx.parquet"].map(|name| folder.path().join(name));
    write(&star, "PARQUET", &table([("id", vec![1, 2]), ("x", vec![1, 2])]));
    write(&other, "PARQUET", &table([("id", vec![3, 4, 5]), ("x", vec![1, 2, 3])]));
    let engine = Engine::in_memory().unwrap();
    let external =
        format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{}'", star.display());
    let lab = declared(
        &engine,
        &[
            external.as_str(),
            "ALTER TABLE t SET PRIVACY UNIT (id) UNIQUE",
            "CREATE PRIVACY BUDGET b FOR t LIMIT (epsilon=1000000)",
        ],
    )
    .await;
    assert_eq!(count(&lab, "SELECT LAPLACE(eps=1000) COUNT(*) AS n FROM t").await.unwrap(), 2);
}

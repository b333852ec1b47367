//! sqlx, with statements that are prepared as it does by itself.

use std::time::{Duration, Instant};

use sqlx::postgres::{PgArguments, PgConnectOptions, PgPoolOptions, PgRow, PgSslMode};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Column, Connection, PgConnection, Postgres, Row, Statement, TypeInfo};

use super::{
    COLUMNS, CURSOR, Done, Failed, INSERT, LONG, NAMES, PREVIEW, Place, SPENT, TABLES, TYPES,
    UNKNOWN, Value, equal, expect, is_soon, questions, step, version,
};

type Asking<'q> = Query<'q, Postgres, PgArguments>;

fn bound<'q>(mut asking: Asking<'q>, values: &[Value]) -> Asking<'q> {
    for value in values {
        asking = match value.clone() {
            Value::Whole(value) => asking.bind(value),
            Value::Fraction(value) => asking.bind(value),
            Value::Text(value) => asking.bind(value),
            Value::Truth(value) => asking.bind(value),
            Value::Day(value) => asking.bind(value),
            Value::Moment(value) => asking.bind(value),
            Value::Texts(value) => asking.bind(value),
            Value::Nothing => asking.bind(None::<i64>),
        };
    }
    asking
}

async fn numbers(db: &mut PgConnection, sql: &str, values: &[Value]) -> Result<Vec<i64>, Failed> {
    let rows = bound(sqlx::query(AssertSqlSafe(sql)), values).fetch_all(db).await?;
    rows.iter().map(|row: &PgRow| Ok(row.try_get(0)?)).collect()
}

fn options(place: &Place, password: &str) -> PgConnectOptions {
    PgConnectOptions::new()
        .host(&place.host)
        .port(place.port)
        .username(&place.user)
        .password(password)
        .database("hushql")
        .ssl_mode(PgSslMode::Disable)
}

fn code(error: &sqlx::Error) -> String {
    error.as_database_error().and_then(|error| error.code()).unwrap_or_default().into_owned()
}

pub async fn tried(place: &Place) {
    version("sqlx");
    let mut connected = None;
    step("connect", async {
        connected = Some(PgConnection::connect_with(&options(place, &place.password)).await?);
        Ok(())
    })
    .await;
    let Some(mut db) = connected else { return };
    let question = place.question.as_str();
    step("question", async { equal(numbers(&mut db, question, &[]).await?, vec![200]) }).await;
    step("simple protocol", async {
        let row = sqlx::raw_sql(AssertSqlSafe(question)).fetch_one(&mut db).await?;
        equal(row.try_get::<i64, _>(0)?, 200)
    })
    .await;
    for asked in questions(question) {
        let asking =
            async { equal(numbers(&mut db, &asked.sql, &asked.values).await?, asked.found) };
        step(&format!("parameter: {}", asked.name), asking).await;
    }
    step("prepared", prepared(&mut db, question)).await;
    step("tables", async {
        let rows = sqlx::query(TABLES).bind("public").fetch_all(&mut db).await?;
        let names: Vec<String> = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
        let has = |name: &str| names.iter().any(|own| own == name);
        expect(has("people") && has("adults"), format!("other tables: {names:?}"))
    })
    .await;
    let seven = (1..=7).collect::<Vec<i64>>();
    step("columns", async {
        equal(numbers(&mut db, COLUMNS, &[Value::Text("people")]).await?, seven)
    })
    .await;
    step("types", async {
        let rows = sqlx::query(TYPES).fetch_all(&mut db).await?;
        let row = rows.first().ok_or("no row")?;
        let types: Vec<&str> =
            row.columns().iter().map(|column| column.type_info().name()).collect();
        equal(types, vec!["INT8", "FLOAT8", "TEXT"])?;
        equal(row.try_get::<i64, _>("n")?, 100)?;
        expect((40.0..42.0).contains(&row.try_get::<f64, _>("mean")?), "another mean")
    })
    .await;
    step("arrays", async {
        let row = sqlx::query(NAMES).bind("people").fetch_one(&mut db).await?;
        let names: Vec<String> = row.try_get(0)?;
        equal(names.join(" "), "id age city day seen wage ok".to_owned())
    })
    .await;
    step("transaction", async {
        let mut begun = db.begin().await?;
        equal(numbers(&mut begun, question, &[]).await?, vec![200])?;
        Ok(begun.commit().await?)
    })
    .await;
    step("cursor", async {
        let mut begun = db.begin().await?;
        sqlx::query(CURSOR).bind(5_i64).execute(&mut *begun).await?;
        equal(numbers(&mut begun, "FETCH FIRST FROM c", &[]).await?, vec![0])?;
        equal(numbers(&mut begun, "FETCH LAST FROM c", &[]).await?, vec![4])?;
        Ok(begun.rollback().await?)
    })
    .await;
    step("pool", async {
        let pool = PgPoolOptions::new()
            .max_connections(3)
            .connect_with(options(place, &place.password))
            .await?;
        let asked = (0..6).map(|_| {
            let (pool, question) = (pool.clone(), question.to_owned());
            tokio::spawn(async move {
                sqlx::query_scalar::<_, i64>(AssertSqlSafe(question)).fetch_one(&pool).await
            })
        });
        for each in asked.collect::<Vec<_>>() {
            equal(each.await??, 200)?;
        }
        pool.close().await;
        Ok(())
    })
    .await;
    step("refusal", async {
        let Err(error) = sqlx::query(UNKNOWN).execute(&mut db).await else {
            return Err("no error".into());
        };
        equal(code(&error).as_str(), "42703")
    })
    .await;
    step("spent budget", async { equal(numbers(&mut db, SPENT, &[]).await?, vec![3]) }).await;
    step("insert", async {
        sqlx::query(INSERT).bind(7_i64).execute(&mut db).await?;
        Ok(())
    })
    .await;
    step("preview", async {
        sqlx::query(PREVIEW).fetch_all(&mut db).await?;
        Ok(())
    })
    .await;
    // sqlx cancels nothing by itself: its users set the server's own limit.
    step("cancel", async {
        let begun = Instant::now();
        sqlx::query("SET statement_timeout = '500ms'").execute(&mut db).await?;
        let Err(error) = sqlx::query(LONG).execute(&mut db).await else {
            return Err("no error".into());
        };
        equal(code(&error).as_str(), "57014")?;
        is_soon(begun)
    })
    .await;
    step("after a cancel", async {
        sqlx::query("RESET statement_timeout").execute(&mut db).await?;
        equal(numbers(&mut db, question, &[]).await?, vec![200])
    })
    .await;
    step("given up", async {
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .connect_with(options(place, &place.password))
            .await?;
        let ends =
            tokio::time::timeout(Duration::from_millis(500), sqlx::query(LONG).execute(&pool));
        expect(ends.await.is_err(), "what takes a minute has an answer")
    })
    .await;
    step("wrong password", async {
        let Err(error) = PgConnection::connect_with(&options(place, "wrong")).await else {
            return Err("it is taken".into());
        };
        expect(code(&error).starts_with("28"), format!("another error: {error}"))
    })
    .await;
}

async fn prepared(db: &mut PgConnection, question: &str) -> Done {
    use sqlx::Executor as _;
    let sql = AssertSqlSafe(format!("{question} WHERE age > $1"));
    let statement = db.prepare(sqlx::SqlSafeStr::into_sql_str(sql)).await?;
    equal(statement.columns().first().map(|column| column.type_info().name()), Some("INT8"))?;
    for age in [30_i64, 30, 60] {
        statement.query().bind(age).fetch_one(&mut *db).await?;
    }
    Ok(())
}
